// ptx: trusted
// Vectors as directions, rounding, interpolation, floats taken apart.
@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> b: array<vec4<f32>>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let x = a[id.x].xyz;
  let n = normalize(a[id.x + 1u].xyz);
  let v = reflect(x, n) + refract(n, x, 1.5) + faceForward(x, n, x) + cross(x, n);
  let d = vec3(dot(x, n), length(x), distance(x, n));
  let m = modf(x);
  let f = frexp(n);
  let r = floor(x) + ceil(n) + round(v) + trunc(d) + fract(v) + m.fract * m.whole + ldexp(f.fract, f.exp);
  b[id.x] = vec4(mix(r, x, n.x) + smoothstep(x, n, v) + step(x, v) * sign(d), saturate(x.x));
}
