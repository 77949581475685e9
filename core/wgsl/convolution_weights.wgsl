// The gradient of a convolution's weights as a matrix product: rows are taps and channels of a group, columns are its filters, and what is
// summed up are pixels of the gradient.
//
// Requires: prelude: Params; convolution_gather.wgsl.

// Nothing differs from phase to phase, of which there is one.
struct Walk {
    outputs: vec3<u32>,
}

fn walk_of(phase: u32) -> Walk {
    return Walk(vec3<u32>(params.to_x, params.to_y, params.to_z));
}

// Rows, columns and terms of a sum.
fn size_of(walk: Walk) -> vec3<u32> {
    return vec3<u32>(params.taps * params.read, params.written, params.images * params.to_x * params.to_y * params.to_z);
}

fn a_row(walk: Walk, part: u32, m: u32) -> vec4<i32> {
    let tap = m / params.read;
    if tap >= params.taps { return OUTSIDE; }
    let t = vec3<i32>(indices(tap, vec3<u32>(params.taps_x, params.taps_y, params.taps_z)).xyz);
    let dilation = vec3<i32>(i32(params.dilation_x), i32(params.dilation_y), i32(params.dilation_z));
    let before = vec3<i32>(i32(params.before_x), i32(params.before_y), i32(params.before_z));
    return vec4<i32>(t * dilation - before, i32(part * params.read + m - tap * params.read));
}

fn a_column(walk: Walk, part: u32, k: u32) -> vec4<i32> {
    let j = indices(k, walk.outputs);
    let stride = vec3<i32>(i32(params.stride_x), i32(params.stride_y), i32(params.stride_z));
    return vec4<i32>(vec3<i32>(j.xyz) * stride, image_at(j.w));
}

fn b_row(part: u32, n: u32) -> u32 {
    return params.w_base + part * params.written + n;
}

fn b_column(walk: Walk, part: u32, k: u32) -> u32 {
    return k * params.w_pitch;
}

// The filter, and the tap and channel that row m and column n are.
fn place_of(walk: Walk, part: u32, m: u32, n: u32) -> vec2<u32> {
    return vec2<u32>(part * params.written + n, m);
}
