// Pointers as parameters: to private variables, to those of a function, to parts of either; handed on. naga has no others.
struct Pair { count: u32, at: array<f32, 4> }
@group(0) @binding(0) var<storage, read_write> out: array<f32>;
var<private> state: Pair;
var<private> large: array<f32, 64>;
fn bump(p: ptr<private, Pair>, by: f32) -> u32 {
  (*p).count += 1u;
  p.at[p.count & 3u] += by;
  return p.count;
}
fn raise(p: ptr<function, f32>) { *p = *p * 2.0 + 1.0; }
fn both(p: ptr<private, f32>, q: ptr<function, vec4<f32>>) {
  var here = *p;
  raise(&here);
  *p = here;
  (*q).y += here;
}
fn put(p: ptr<private, array<f32, 64>>, i: u32) { (*p)[i] = f32(i); }
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  var v = vec4<f32>(out[id.x]);
  let first = bump(&state, v.x);
  let second = bump(&state, 3.0);
  both(&state.at[1], &v);
  put(&large, id.x);
  out[id.x] = v.y + state.at[first] + state.at[second & 3u] + large[id.x ^ 1u];
}
