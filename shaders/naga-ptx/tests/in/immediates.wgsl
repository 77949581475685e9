// ptx: trusted
// Immediate data and uniforms.
struct Immediates { offset: u32, scale: vec2<f32> }
struct Settings { m: mat2x2<f32>, v: vec3<f32>, n: u32 }
var<immediate> immediates: Immediates;
@group(1) @binding(3) var<uniform> settings: Settings;
@group(0) @binding(7) var<storage, read_write> out: array<vec2<f32>>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < settings.n) {
    out[id.x + immediates.offset] = settings.m * immediates.scale + settings.v.yz;
  }
}
