// ptx: trusted
// Bits as other types, zeros counted, smallest and largest.
@group(0) @binding(0) var<storage, read_write> a: array<vec4<u32>>;
@group(0) @binding(1) var<storage, read_write> b: array<vec4<f32>>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let u = a[id.x];
  let f = bitcast<vec4<f32>>(u);
  let s = bitcast<vec4<i32>>(f);
  b[id.x] = f + bitcast<vec4<f32>>(s ^ vec4(1));
  let zeros = vec4(countLeadingZeros(u.x), countTrailingZeros(u.y), u32(countLeadingZeros(s.z)), u32(countTrailingZeros(s.w)));
  let smallest = vec4(u32(min(s.x, s.y)), min(u.z, u.w), u32(max(s.x, -5)), max(u.y, 9u));
  a[id.x] = zeros + smallest + vec4<u32>(min(f, vec4(3.0)));
}
