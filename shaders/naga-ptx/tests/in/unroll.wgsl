// ptx: trusted
// A loop over a local array is written out, so that the array stays in registers.
@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  var acc: array<vec4<f32>, 12>;
  for (var step = 0u; step < 100u; step++) {
    for (var i = 0u; i < 12u; i++) {
      acc[i] += a[id.x * 12u + i + step] * f32(step);
    }
  }
  var sum = 0.0;
  for (var i = 11; i >= 0; i -= 1) {
    if (i == 5) { continue; }
    for (var j = 0; j < 4; j++) { sum += acc[i][j]; }
  }
  out[id.x] = sum;
}
