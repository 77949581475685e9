// ptx: trusted
// 64-bit numbers.
@group(0) @binding(0) var<storage, read_write> a: array<i64>;
@group(0) @binding(1) var<storage, read_write> b: array<u64>;
@group(0) @binding(2) var<storage, read_write> c: array<f64>;
@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  a[i] = a[i] * 3li - a[i + 1u] / 7li;
  // Products of 32-bit integers: one instruction.
  a[i + 2u] = i64(i32(id.y)) * i64(i32(id.z)) + i64(id.y) * i64(id.z);
  b[i + 2u] = u64(id.y) * u64(id.z) * 5lu;
  b[i] = (b[i] >> 3u) + u64(i) * 0x100000001lu;
  c[i] = fma(c[i], 2.0lf, c[i + 1u]) / 3.0lf + f64(a[i]);
}
