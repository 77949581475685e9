// The phases of the gradient of an input: inputs i whose i + before has one remainder by the stride meet those taps t alone for
// which t * dilation has it too. Inputs of a phase are a stride apart, their taps a gap of stride / gcd(stride, dilation).

const FORWARD = false;

struct Line {
    rows: u32,
    taps: u32,
    first: i32,
    row_first: u32,
    tap_first: u32,
}

fn line_of(remainder: u32, stride: u32, dilation: u32, before: u32, gap: u32, to: u32, taps: u32) -> Line {
    let row_first = (remainder + stride - before % stride) % stride;
    var tap_first = 0u;
    while tap_first < gap && tap_first * dilation % stride != remainder { tap_first += 1u; }
    let rows = select(0u, (to - row_first + stride - 1u) / stride, row_first < to);
    let meets = (tap_first < gap) & (tap_first < taps);
    let first = (i32(row_first + before) - i32(tap_first * dilation)) / i32(stride);
    return Line(rows, select(0u, (taps - tap_first + gap - 1u) / gap, meets), first, row_first, tap_first);
}

fn walk_of(phase: u32) -> Walk {
    let remainder = indices(phase, vec3<u32>(params.stride_x, params.stride_y, params.stride_z));
    let x = line_of(remainder.x, params.stride_x, params.dilation_x, params.before_x, params.gap_x, params.to_x, params.taps_x);
    let y = line_of(remainder.y, params.stride_y, params.dilation_y, params.before_y, params.gap_y, params.to_y, params.taps_y);
    let z = line_of(remainder.z, params.stride_z, params.dilation_z, params.before_z, params.gap_z, params.to_z, params.taps_z);
    let gap = vec3<u32>(params.gap_x, params.gap_y, params.gap_z);
    let stride = vec3<u32>(params.stride_x, params.stride_y, params.stride_z);
    let dilation = vec3<u32>(params.dilation_x, params.dilation_y, params.dilation_z);
    return Walk(
        vec3<u32>(x.rows, y.rows, z.rows),
        vec3<u32>(x.taps, y.taps, z.taps),
        vec3<i32>(x.first, y.first, z.first),
        vec3<i32>(1, 1, 1),
        -vec3<i32>(gap * dilation / stride),
        vec3<u32>(x.row_first, y.row_first, z.row_first),
        stride,
        vec3<u32>(x.tap_first, y.tap_first, z.tap_first),
        gap,
    );
}

fn phase_of(pixel: vec3<u32>) -> u32 {
    let stride = vec3<u32>(params.stride_x, params.stride_y, params.stride_z);
    let at = (pixel + vec3<u32>(params.before_x, params.before_y, params.before_z)) % stride;
    return (at.x * stride.y + at.y) * stride.z + at.z;
}
