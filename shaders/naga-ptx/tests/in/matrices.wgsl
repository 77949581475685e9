// Products of matrices and vectors.
@group(0) @binding(0) var<storage, read_write> m: mat4x4<f32>;
@group(0) @binding(1) var<storage, read_write> n: array<mat2x3<f32>>;
@group(0) @binding(2) var<storage, read_write> v: array<vec4<f32>>;
@compute @workgroup_size(32)
fn main(@builtin(local_invocation_id) id: vec3<u32>) {
  v[id.x] = m * v[id.x] + v[id.x + 1u] * m;
  n[id.x] = n[id.x + 1u] * mat2x2<f32>(1.0, 2.0, 3.0, 4.0) - 2.0 * n[id.x];
  m = m * m;
}
