// What the attention kernels share: which pairs are seen, and products of which nothing stays nothing. The prelude has Params; V, S, K and
// what else softmax_scalar.wgsl needs; CAUSAL, MASKED and is_shown, which reads the mask.

fn is_finite(x: V) -> bool {
    return all((bitcast<K>(x) & K(MAGNITUDE)) < K(INFINITY));
}

// A product that is nothing where `p` is, whatever x is.
fn term(p: S, x: V) -> V {
    return select(p * x, V(), vec4<bool>(p == S()));
}

// Whether query i of head h sees key j.
fn sees(b: u32, h: u32, i: u32, j: u32) -> bool {
    if i >= params.queries || j >= params.keys { return false; }
    if CAUSAL && i32(j) > i32(i) + params.shift { return false; }
    return !MASKED || is_shown(b, h, i, j);
}

// exp(s - lse), and nothing of what is not seen or of a query that sees nothing.
fn share_of(s: V, lse: V) -> V {
    let is_nothing = (bitcast<K>(s) == K(KEY_HIGHEST)) | (bitcast<K>(lse) == K(KEY_HIGHEST));
    return select(exp_v(s - lse), V(), is_nothing);
}
