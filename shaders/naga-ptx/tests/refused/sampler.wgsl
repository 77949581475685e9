// A sampler.
@group(0) @binding(0) var<storage, read_write> out: array<f32>;
@group(0) @binding(1) var s: sampler; // refused: a texture, sampler
@group(0) @binding(2) var t: texture_2d<f32>;
@compute @workgroup_size(1)
fn main() { out[0] = textureSampleLevel(t, s, vec2<f32>(0.5), 0.0).x; }
