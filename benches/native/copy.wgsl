// Computes: y = x over n vectors of four floats.
struct Params { n: u32 }
@group(0) @binding(0) var<uniform> params: Params;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<vec4<f32>>;

@compute @workgroup_size(256)
fn copy4(@builtin(global_invocation_id) id: vec3<u32>) {
  let i = id.x;
  if (i < params.n) { y[i] = x[i]; }
}
