// Pieces before histogram.wgsl: the bin of an element.

//# itself
fn bin_of(x: u32) -> u32 { return x; }

//# part of f32: limits are compared by integers that order as floats do, -0 just below +0, so NaN lies beyond both, whatever a compiler takes it for
fn bin_of(element: $element) -> u32 {
    let x = $x;
    let bits = bitcast<i32>(x);
    let key = bitcast<u32>(bits ^ ((bits >> 31u) & 0x7fffffff));
    let part = min(u32((x - params.low) * params.scale), params.last);
    return select(0xffffffffu, part, key - params.least <= params.span);
}

//# part of f64
fn bin_of(x: f64) -> u32 {
    let is_inside = (x >= params.least) & (x <= params.most);
    let part = min(u32(select(0.0lf, (x - params.low) * params.scale, is_inside)), params.last);
    return select(0xffffffffu, part, is_inside);
}
