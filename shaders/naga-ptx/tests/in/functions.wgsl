// Functions: values, pointers to variables, structs in and out, calls of calls.
struct Pair { first: f32, second: vec3<f32> }
@group(0) @binding(0) var<storage, read_write> data: array<Pair>;
var<private> calls: u32 = 1u;
fn bump(x: ptr<function, f32>, by: f32) { *x = *x + by; calls += 1u; }
fn twice(x: ptr<function, f32>) { bump(x, 1.0); bump(x, 2.0); }
fn make(x: f32) -> Pair { return Pair(x, vec3<f32>(x, x * 2.0, x * 3.0)); }
fn swap(pair: Pair) -> Pair { if (pair.first > 0.0) { return Pair(pair.second.x, vec3(pair.first)); } return pair; }
@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  var x = data[id.x].first;
  twice(&x);
  var pair = swap(make(x));
  bump(&pair.first, f32(calls));
  data[id.x] = pair;
}
