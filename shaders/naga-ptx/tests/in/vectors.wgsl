// ptx: trusted
// Vector loads and stores, swizzles, component stores, vectors of bools, selects.
@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> b: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> c: array<vec3<i32>>;
@group(0) @binding(3) var<storage, read_write> d: array<vec2<u32>>;
@compute @workgroup_size(256)
fn main(@builtin(global_invocation_id) id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>) {
  var x = a[id.x];
  x.y = x.w;
  x = vec4<f32>(x.zyx, 1.0) * -x.wwww;
  let greater = x > a[id.x + 1u];
  b[id.x] = select(x, vec4<f32>(0.5), greater);
  if (any(greater) && !all(greater.xy)) { b[id.x].z = f32(id.x); }
  c[id.x] = c[id.x] << (vec3<u32>(1u, 2u, 35u) + id) | vec3<i32>(~1, 6 & 3, 6 ^ 3);
  d[id.x] = (d[id.x] / groups.xy) % vec2<u32>(id.x, 7u);
}
