// ptx: trusted
// The tree reduction of one workgroup, with a small array indexed by a loop counter.
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
var<workgroup> part: array<f32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(local_invocation_index) t: u32, @builtin(workgroup_id) g: vec3<u32>) {
  var acc: array<f32, 4>;
  for (var i = t; i < arrayLength(&x); i += 256u) {
    let v = x[i];
    for (var j = 0; j < 4; j++) { acc[j] = acc[j] + v[j]; }
  }
  part[t] = acc[0] + acc[1] + acc[2] + acc[3];
  workgroupBarrier();
  for (var s = 128u; s > 0u; s = s >> 1u) {
    if (t < s) { part[t] = part[t] + part[t + s]; }
    workgroupBarrier();
  }
  if (t == 0u) { y[g.x] = part[0]; }
}
