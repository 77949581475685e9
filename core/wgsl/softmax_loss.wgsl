// Cross-entropy of a row from its state and the sum of its elements: the loss, what the row counts, and the logarithm of its sum of exponentials.
// One logit is read again: the target's. Requires, from softmax/plan/stats.rs: logit, weight_of, is_ignored, is_class, number, places_of; SMOOTHED,
// whether all classes share in the target; params. A row of nothing but -inf, or with +inf or NaN, has no finite logarithm: it is NaN.
fn end(index: u32, state: State, total: S) {
    let nan = S(bitcast<f32>(params.nan));
    let is_finite = state.key > KEY_LOWEST && state.key < KEY_HIGHEST;
    let log_sum = select(nan, anchor_of(state.key) + log_s(state.sum), is_finite);
    let places = places_of(index);
    let target_of = load_targets(places.y);
    let ignored = is_ignored(target_of);
    let inside = is_class(target_of);
    let chosen = select(0u, u32(target_of), inside);
    let weight = weight_of(chosen);
    var loss = weight * (log_sum - logit(places.x + chosen * params.class_stride));
    loss *= number(params.kept_low, params.kept_high);
    if SMOOTHED { loss += (S(params.classes) * log_sum - total) * number(params.share_low, params.share_high); }
    store_y(params.target_base + index, select(select(nan, loss, inside), S(), ignored));
    store_counts(params.counts_base + index, select(select(nan, weight, inside), S(), ignored));
    store_logs(params.logs_base + index, log_sum);
}
