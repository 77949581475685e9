// The only phase of a convolution: every output, with all taps of its window.

const FORWARD = true;

fn walk_of(phase: u32) -> Walk {
    let before = vec3<i32>(i32(params.before_x), i32(params.before_y), i32(params.before_z));
    let stride = vec3<i32>(i32(params.stride_x), i32(params.stride_y), i32(params.stride_z));
    let dilation = vec3<i32>(i32(params.dilation_x), i32(params.dilation_y), i32(params.dilation_z));
    let rows = vec3<u32>(params.to_x, params.to_y, params.to_z);
    let taps = vec3<u32>(params.taps_x, params.taps_y, params.taps_z);
    let one = vec3<u32>(1u, 1u, 1u);
    return Walk(rows, taps, -before, stride, dilation, vec3<u32>(), one, vec3<u32>(), one);
}

fn phase_of(pixel: vec3<u32>) -> u32 {
    return 0u;
}
