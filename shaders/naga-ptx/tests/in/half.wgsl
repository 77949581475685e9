// ptx: trusted
// f16: storage, arithmetic, conversions.
enable f16;
@group(0) @binding(0) var<storage, read> a: array<vec4<f16>>;
@group(0) @binding(1) var<storage, read_write> b: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read_write> c: array<f16>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let x = a[id.x];
  let y = vec4<f32>(x) * 2.0 + 1.0;
  b[id.x] = vec4<f16>(y) + x * 0.5h - vec4<f16>(f16(id.x));
  c[id.x] = max(x.x, x.y) + select(1.0h, -x.z, x.w > 0.0h);
}
