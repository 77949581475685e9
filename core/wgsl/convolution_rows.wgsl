// A convolution or the gradient of its input as a matrix product: rows are pixels, columns are channels of a group, and what is summed up
// are taps and channels. Pixels of one phase meet the same taps.
//
// Requires: prelude: Params; convolution_gather.wgsl; walk_of(phase) (convolution_forward.wgsl, convolution_input.wgsl); FORWARD.

// How rows and taps of a phase lie: row j and tap u meet the pixel first + j * step + u * tap_step that is read. Row j is the
// pixel row_first + j * row_gap that is written, tap u is tap_first + u * tap_gap of the window.
struct Walk {
    rows: vec3<u32>,
    taps: vec3<u32>,
    first: vec3<i32>,
    step: vec3<i32>,
    tap_step: vec3<i32>,
    row_first: vec3<u32>,
    row_gap: vec3<u32>,
    tap_first: vec3<u32>,
    tap_gap: vec3<u32>,
}

// Rows, columns and terms of a sum.
fn size_of(walk: Walk) -> vec3<u32> {
    let rows = params.images * walk.rows.x * walk.rows.y * walk.rows.z;
    return vec3<u32>(rows, params.written, walk.taps.x * walk.taps.y * walk.taps.z * params.read);
}

fn row_at(walk: Walk, j: vec3<u32>, image: u32) -> vec4<i32> {
    return vec4<i32>(walk.first + vec3<i32>(j) * walk.step, image_at(image));
}

fn a_row(walk: Walk, part: u32, m: u32) -> vec4<i32> {
    let j = indices(m, walk.rows);
    if j.w >= params.images { return OUTSIDE; }
    return row_at(walk, j.xyz, j.w);
}

// A tap and a channel of the term k.
fn tap_of(walk: Walk, k: u32) -> vec4<u32> {
    let tap = k / params.read;
    return vec4<u32>(indices(tap, walk.taps).xyz, k - tap * params.read);
}

fn a_column(walk: Walk, part: u32, k: u32) -> vec4<i32> {
    let tap = tap_of(walk, k);
    return vec4<i32>(vec3<i32>(tap.xyz) * walk.tap_step, i32(part * params.read + tap.w));
}

// Where the weights of a column lie, and how far those of a term are from there.
fn b_row(part: u32, n: u32) -> u32 {
    if FORWARD { return params.w_base + (part * params.written + n) * params.taps * params.w_pitch; }
    return params.w_base + n;
}

fn weight_at(walk: Walk, part: u32, tap: vec4<u32>) -> u32 {
    let t = walk.tap_first + tap.xyz * walk.tap_gap;
    let number = (t.x * params.taps_y + t.y) * params.taps_z + t.z;
    if FORWARD { return number * params.w_pitch + tap.w; }
    return ((part * params.read + tap.w) * params.taps + number) * params.w_pitch;
}

fn b_column(walk: Walk, part: u32, k: u32) -> u32 {
    return weight_at(walk, part, tap_of(walk, k));
}

// The pixel and the channel that row m and column n are.
fn place_of(walk: Walk, part: u32, m: u32, n: u32) -> vec2<u32> {
    let j = indices(m, walk.rows);
    let at = walk.row_first + j.xyz * walk.row_gap;
    let pixel = ((j.w * params.to_x + at.x) * params.to_y + at.y) * params.to_z + at.z;
    return vec2<u32>(pixel, part * params.written + n);
}
