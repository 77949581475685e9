// ptx: trusted
// Division by variables and constants, shifts, bits, conversions.
@group(0) @binding(0) var<storage, read> a: array<vec4<i32>>;
@group(0) @binding(1) var<storage, read_write> b: array<vec4<u32>>;
@group(0) @binding(2) var<storage, read_write> c: array<vec4<f32>>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let x = a[id.x];
  let u = vec4<u32>(x);
  let q = vec4(x.x / x.y, x.x % x.y, x.z / 7, x.w % 8);
  let v = vec4(u.x / u.y, u.x % u.y, u.z / 6u, u.w % 10u);
  let bits = vec4(countOneBits(u.x), reverseBits(u.y), u32(firstLeadingBit(x.z)), firstTrailingBit(u.w));
  let fields = vec4(extractBits(u.x, u.y, u.z), insertBits(u.x, u.y, 3u, 5u), u.x << u.y, u32(x.z >> u.w));
  b[id.x] = vec4<u32>(q) + v + bits + fields;
  c[id.x] = vec4<f32>(x) + vec4<f32>(vec4<i32>(c[id.x])) + vec4<f32>(abs(clamp(x, vec4(-5), vec4(9))));
}
