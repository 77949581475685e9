// What the softmax kernels share: keys that order as the floats do, and what follows from a row's largest key. S is f32 or
// f64, U the unsigned integer of its size, V and K vectors (or scalars) of them. NaN has the highest key. The prelude has SIGN
// and MAGNITUDE, the bits of the sign and all others; INFINITY, its bits; KEY_LOWEST and KEY_HIGHEST, the keys of -inf and +inf; NAN_KEY.

fn key_of(x: V) -> K {
    let bits = bitcast<K>(x);
    let magnitude = bits & K(MAGNITUDE);
    let key = select(bits | K(SIGN), ~bits, bits != magnitude);
    return select(key, K(NAN_KEY), magnitude > K(INFINITY));
}

// What is subtracted from a row's elements: its largest if finite, else 0.
fn anchor_of(highest: U) -> S {
    if highest <= KEY_LOWEST || highest >= KEY_HIGHEST { return S(); }
    return bitcast<S>(select(~highest, highest & MAGNITUDE, highest >= SIGN));
}

// exp(x - anchor), and exactly 0 for -inf.
fn exp_of(x: V, anchor: V) -> V {
    return select(exp_v(x - anchor), V(), bitcast<K>(x) == K(KEY_HIGHEST));
}
