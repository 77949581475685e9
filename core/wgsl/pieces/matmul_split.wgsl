// Pieces before matmul_split*.wgsl: operands of f32, and parts of them.

//# params
const THREADS = ${threads}u;
struct Lines {
    matrices: u32, // 1 where products share it
    base: u32,
    lines: u32, // of a matrix
    length: u32,
    far: u32, // from line to line
    near: u32, // from neighbour to neighbour
    units: u32, // of a line, with what pads it
    all: u32, // of a matrix
    // Parts, in units: from line to line, from matrix to matrix, to the first ones.
    pitch: u32,
    matrix: u32,
    high: u32,
    low: u32,
}
struct Params {
    a: Lines,
    b: Lines,
    batches: u32,
    blocks: u32, // of this launch, for a matrix
    maxima: u32, // of a matrix
    $axes
}
@group(0) @binding(0) var<uniform> params: Params;

//# quad
fn quad_$name(matrix: u32, line: u32, column: u32) -> vec4<f32> {
    let lines = params.$name;
    let at = batch_of_$name(matrix) + line * lines.far + column * lines.near;
    return load4_$name(at / 4u);
}

//# quad of elements
fn quad_$name(matrix: u32, line: u32, column: u32) -> vec4<f32> {
    let lines = params.$name;
    let at = batch_of_$name(matrix) + line * lines.far + column * lines.near;
    let more = lines.length - column; // at least one
    var quad = vec4<f32>(load_$name(at), 0.0, 0.0, 0.0);
    if more > 1u { quad.y = load_$name(at + 1u * lines.near); }
    if more > 2u { quad.z = load_$name(at + 2u * lines.near); }
    if more > 3u { quad.w = load_$name(at + 3u * lines.near); }
    return quad;
}

//# largest
@group(0) @binding(3) var<storage, read_write> maxima: array<u32>;

//# parts
const LOW_SCALE = $low_scale;
@group(0) @binding(3) var<storage, read> maxima: array<u32>;
@group(0) @binding(4) var<storage, read_write> parts_a: array<vec4<f16>>;
@group(0) @binding(5) var<storage, read_write> parts_b: array<vec4<f16>>;
@group(0) @binding(6) var<storage, read_write> factors: array<vec2<f32>>;
