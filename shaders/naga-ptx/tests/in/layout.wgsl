// WGSL's memory layout: padding, vec3, nested structs, matrices of three rows, explicit sizes.
struct Inner { @size(16) a: u32, b: vec3<f32>, c: f32 }
struct Outer { first: u32, inner: array<Inner, 2>, m: mat3x3<f32>, @align(32) last: vec2<u32> }
@group(0) @binding(0) var<storage, read> input: array<Outer>;
@group(0) @binding(1) var<storage, read_write> output: array<Outer>;
@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) group: vec3<u32>) {
  var value = input[group.x];
  value.inner[1].b = value.m * value.inner[0].b;
  value.last = value.last.yx + value.first;
  output[group.x] = value;
  output[group.y].m = transpose(value.m);
}
