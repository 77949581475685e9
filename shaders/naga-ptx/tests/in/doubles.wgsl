// ptx: trusted
// Functions of f64, for which PTX has no approximations.
@group(0) @binding(0) var<storage, read_write> x: array<f64>;
@compute @workgroup_size(64)
fn trigonometry(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x * 6u;
  x[i] = tan(x[i]);
  x[i + 1u] = asin(x[i + 1u]);
  x[i + 2u] = acos(x[i + 2u]);
  x[i + 3u] = atan(x[i + 3u]);
  x[i + 4u] = atan2(x[i + 4u], x[i + 5u]);
}
@compute @workgroup_size(64)
fn hyperbolic(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x * 6u;
  x[i] = sinh(x[i]);
  x[i + 1u] = cosh(x[i + 1u]);
  x[i + 2u] = tanh(x[i + 2u]);
  x[i + 3u] = asinh(x[i + 3u]);
  x[i + 4u] = acosh(x[i + 4u]);
  x[i + 5u] = atanh(x[i + 5u]);
}
