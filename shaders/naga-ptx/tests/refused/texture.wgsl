// A texture.
@group(0) @binding(0) var image: texture_2d<f32>; // refused: a texture, sampler
@group(0) @binding(1) var<storage, read_write> out: array<vec4<f32>>;
@compute @workgroup_size(1)
fn main() { out[0] = textureLoad(image, vec2<i32>(0, 0), 0); }
