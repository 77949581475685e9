// ptx: trusted
// 16-bit integers: storage, arithmetic, conversions.
enable wgpu_int16;
@group(0) @binding(0) var<storage, read_write> a: array<vec2<i16>>;
@group(0) @binding(1) var<storage, read_write> b: array<u16>;
@group(0) @binding(2) var<storage, read_write> c: array<i32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let x = a[id.x];
  let u = b[id.x];
  a[id.x] = x * x.yx - max(x, vec2<i16>(i16(3))) + (x >> vec2<u32>(2u));
  b[id.x] = u / u16(7) + (u % b[id.x + 1u]) + (u << 3u) + u16(id.x);
  c[id.x] = i32(x.x) * i32(u) + select(0, 1, x.y < i16(-5)) + abs(i32(x.y));
}
