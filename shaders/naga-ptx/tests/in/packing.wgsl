// ptx: trusted
// pack and unpack of every kind, and dot products of packed bytes.
@group(0) @binding(0) var<storage, read> a: array<vec4<f32>>;
@group(0) @binding(1) var<storage, read_write> b: array<u32>;
@group(0) @binding(2) var<storage, read_write> c: array<vec4<f32>>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let x = a[id.x];
  let i = vec4<i32>(x);
  let words = pack4x8snorm(x) ^ pack4x8unorm(x) ^ pack2x16snorm(x.xy) ^ pack2x16unorm(x.zw) ^ pack2x16float(x.xz);
  let bytes = pack4xI8(i) ^ pack4xI8Clamp(i) ^ pack4xU8(vec4<u32>(i)) ^ pack4xU8Clamp(vec4<u32>(i));
  let dots = u32(dot4I8Packed(words, bytes)) + dot4U8Packed(words, bytes);
  c[id.x] = unpack4x8snorm(words) + unpack4x8unorm(words) + vec4(unpack2x16snorm(words), unpack2x16unorm(words))
    + vec4(unpack2x16float(words), 0.0, 1.0) + vec4<f32>(unpack4xI8(bytes)) + vec4<f32>(unpack4xU8(bytes));
  b[id.x] = dots;
}
