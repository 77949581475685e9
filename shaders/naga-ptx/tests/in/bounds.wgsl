// Checked accesses: run-time arrays, fixed arrays, vectors, matrices, signed indices.
struct Block { count: u32, rows: array<vec4<f32>, 6>, tail: array<f32> }
@group(0) @binding(0) var<storage, read_write> block: Block;
@group(0) @binding(1) var<uniform> table: array<vec4<i32>, 4>;
@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let signed = i32(id.x) - 5;
  var m = mat3x2<f32>(1.0, 2.0, 3.0, 4.0, 5.0, 6.0);
  m[id.x] = vec2<f32>(7.0);
  block.rows[signed][id.y] = m[2][id.z];
  block.tail[id.x] = block.tail[signed] + block.rows[id.x].y + f32(table[id.x][id.y]) + f32(arrayLength(&block.tail));
  block.tail[3] = 1.0;
}
