// The logarithm of a row's sum of exponentials, from its state: of infinities that infinity, of NaN that.
fn end(index: u32, state: State, total: S) {
    var log_sum = anchor_of(state.key) + log_s(state.sum);
    if state.key <= KEY_LOWEST { log_sum = S(bitcast<f32>(params.lowest)); }
    if state.key >= KEY_HIGHEST {
        log_sum = S(bitcast<f32>(select(params.infinite, params.nan, state.key == NAN_KEY)));
    }
    store_y(params.target_base + index, log_sum);
}
