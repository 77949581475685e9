// ptx: trusted
// sin and its kin, with the branch for large arguments.
@group(0) @binding(0) var<storage, read_write> a: array<vec4<f32>>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  let x = a[id.x];
  a[id.x] = vec4(sin(x.x), cos(x.y), tan(x.z), atan2(x.x, x.w)) + vec4(asin(x.x), acos(x.y), atan(x.z), radians(x.w));
}
