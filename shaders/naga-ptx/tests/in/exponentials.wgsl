// ptx: trusted
// exp, log, pow and the hyperbolic functions, in f32.
@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> b: array<vec4<f32>>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let x = a[id.x];
  let e = vec4(exp(x.x), exp2(x.y), log(x.z), log2(x.w));
  let h = vec4(sinh(x.x), cosh(x.y), tanh(x.z), pow(x.w, x.x));
  let g = vec4(asinh(x.x), acosh(x.y), atanh(x.z), inverseSqrt(x.w));
  b[id.x] = e + h * g;
}
