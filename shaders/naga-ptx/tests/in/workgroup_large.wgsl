// More workgroup memory than can be declared statically.
@group(0) @binding(0) var<storage, read_write> data: array<vec4<f32>>;
var<workgroup> tile: array<vec4<f32>, 4096>;
@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) t: u32) {
  for (var i = t; i < 4096u; i += 256u) { tile[i] = data[i]; }
  workgroupBarrier();
  for (var i = t; i < 4096u; i += 256u) { data[i] = tile[4095u - i]; }
}
