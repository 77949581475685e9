// A discard: naga has it in fragment stages alone.
@fragment
fn shade() {
  discard; // refused: the Fragment stage of `shade`
}
