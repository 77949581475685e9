// What kernels of depthwise convolutions read four channels of x with.
//
// Requires: prelude: alias Acc; Params (from_z, x_base, x_pitch); load4_x.

// Position `z` of the row of pixels that begins with pixel `row`; zero from `end` on, which is from_z, or 0 for a row in the padding: positions
// before 0 are large. Always a load, so that several are on their way at a time.
fn read_x(row: u32, z: u32, end: u32, quad: u32) -> vec4<Acc> {
    let value = load4_x(params.x_base + (row + min(z, params.from_z - 1u)) * params.x_pitch + quad);
    return select(vec4<Acc>(), value, z < end);
}

// The indices of `number` in `extents`, row-major; what is left over as the fourth number.
fn indices(number: u32, extents: vec3<u32>) -> vec4<u32> {
    let y = number / extents.z;
    let x = y / extents.y;
    let rest = x / extents.x;
    return vec4<u32>(x - rest * extents.x, y - x * extents.y, number - y * extents.z, rest);
}
