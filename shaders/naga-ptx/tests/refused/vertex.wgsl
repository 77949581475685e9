// A stage whose body has a value only.
@vertex
fn main() -> @builtin(position) vec4<f32> {
  return vec4<f32>(); // refused: the Vertex stage of `main`
}
