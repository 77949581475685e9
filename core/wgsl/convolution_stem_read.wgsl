// What kernels of few channels read a tile's inputs with: from memory, then from workgroup memory.
//
// Requires: prelude: alias Acc; const THREADS, ROWS, COLUMNS, PITCH, CHANNELS; Params (from_y, from_z, x_base, x_pitch); load_x.

const INPUTS = ROWS * COLUMNS;

var<workgroup> inputs: array<Acc, ROWS * PITCH>;

// The indices of `number` in `extents`, row-major; what is left over as the fourth number.
fn indices(number: u32, extents: vec3<u32>) -> vec4<u32> {
    let y = number / extents.z;
    let x = y / extents.y;
    let rest = x / extents.x;
    return vec4<u32>(x - rest * extents.x, y - x * extents.y, number - y * extents.z, rest);
}

// Input number `i` of the tile whose first one is at `y` and `z` of `slice`: zero in the padding, where positions are large. Always a load, so
// that several are on their way at a time.
fn input_at(slice: u32, y: u32, z: u32, i: u32) -> Acc {
    let row = min(i / COLUMNS, ROWS - 1u);
    let column = i % COLUMNS;
    let at = vec2<u32>(y + row, z + column / CHANNELS);
    let pixel = (slice * params.from_y + min(at.x, params.from_y - 1u)) * params.from_z + min(at.y, params.from_z - 1u);
    let value = load_x(params.x_base + pixel * params.x_pitch + column % CHANNELS);
    return select(Acc(), value, (at.x < params.from_y) & (at.y < params.from_z));
}

fn place_input(i: u32, value: Acc) {
    if i < INPUTS { inputs[i / COLUMNS * PITCH + i % COLUMNS] = value; }
}

// All inputs of the tile, four at a time.
fn place_inputs(slice: u32, y: u32, z: u32, thread: u32) {
    for (var i = thread; i < INPUTS; i += 4u * THREADS) {
        let a = input_at(slice, y, z, i);
        let b = input_at(slice, y, z, i + THREADS);
        let c = input_at(slice, y, z, i + 2u * THREADS);
        let d = input_at(slice, y, z, i + 3u * THREADS);
        place_input(i, a);
        place_input(i + THREADS, b);
        place_input(i + 2u * THREADS, c);
        place_input(i + 3u * THREADS, d);
    }
}
