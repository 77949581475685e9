// ptx: trusted
// Square roots, remainders, degrees, what f16 keeps of f32, determinants, transposes.
@group(0) @binding(0) var<storage, read> a: array<mat4x4<f32>>;
@group(0) @binding(1) var<storage, read_write> b: array<vec4<f32>>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let m = a[id.x];
  let small = mat2x2<f32>(m[0].xy, m[1].xy);
  let middle = mat3x3<f32>(m[0].xyz, m[1].xyz, m[2].xyz);
  let x = transpose(m)[3];
  let determinants = vec4(determinant(small), determinant(middle), determinant(m), 1.0);
  b[id.x] = sqrt(x) + degrees(x) + quantizeToF16(x) + min(x, vec4(0.5)) + x % 3.0 + determinants;
}
