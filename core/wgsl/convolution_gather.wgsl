// What every kernel of convolutions reads with: an element of x whose place is a sum of two parts, one of a row and one of a
// column of the matrix that x is gathered into. A part is a position on three axes, and a place in memory as the fourth
// number; what is beyond the matrix has a position far outside. Padding is zero.
//
// Requires: prelude: Params (from_x, from_y, from_z, x_base, x_pitch); alias Acc; load_x.

const OUTSIDE = vec4<i32>(-0x40000000, 0, 0, 0);

fn gathered(row: vec4<i32>, column: vec4<i32>) -> Acc {
    let at = row + column;
    // Negative positions are large numbers.
    let x = u32(at.x);
    let y = u32(at.y);
    let z = u32(at.z);
    var value = Acc();
    if (x < params.from_x) & (y < params.from_y) & (z < params.from_z) {
        value = load_x(u32(at.w) + ((x * params.from_y + y) * params.from_z + z) * params.x_pitch);
    }
    return value;
}

// Where an image of x begins.
fn image_at(image: u32) -> i32 {
    return i32(params.x_base + image * params.from_x * params.from_y * params.from_z * params.x_pitch);
}

// The indices of `number` in `extents`, row-major; what is left over as the fourth number.
fn indices(number: u32, extents: vec3<u32>) -> vec4<u32> {
    let y = number / extents.z;
    let x = y / extents.y;
    let rest = x / extents.x;
    return vec4<u32>(x - rest * extents.x, y - x * extents.y, number - y * extents.z, rest);
}
