// Pieces before scatter_fold.wgsl.

//# combine
fn combine(a: Value, b: Value) -> Value { return $value; }
