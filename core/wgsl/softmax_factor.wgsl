// By what a row's exponentials are multiplied; for the logarithm, what is subtracted from its elements.
fn factor_of(highest: U, sum: S) -> S {
    if highest >= KEY_HIGHEST { return S(bitcast<f32>(params.nan)); }
    if highest <= KEY_LOWEST { return S(); }
    if LOG { return log_s(sum); }
    return S(1) / sum;
}
