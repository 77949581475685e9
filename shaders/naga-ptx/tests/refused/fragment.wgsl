// A module with no compute stage.
@group(0) @binding(0) var<storage, read_write> out: array<f32>;
@fragment
fn main(@builtin(position) at: vec4<f32>) {
  out[0] = at.x; // refused: the Fragment stage of `main`
}
