// A derivative: naga has it in fragment stages alone.
@group(0) @binding(0) var<storage, read_write> out: array<f32>;
fn slope(x: f32) -> f32 { return dpdx(x); }
@fragment
fn shade(@location(0) x: f32) {
  out[0] = slope(x); // refused: the Fragment stage of `shade`
}
