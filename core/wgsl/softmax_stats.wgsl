// Largest key and sum of exp(x - largest) of a row: the accumulator of the passes that softmax takes over long rows and
// over other axes than the last. The loops are those of reduce_rows.wgsl and reduce_columns.wgsl.
struct State { key: U, sum: S }
alias Acc = State;

// What the sum of the state with the smaller key is multiplied by when two states join. Equal keys need no scaling,
// whatever they are; the sum of -inf alone is 0 already; NaN and +inf decide the row whatever the sum.
fn shrink(a: U, b: U) -> S {
    let low = min(a, b);
    let high = max(a, b);
    if low == high { return S(1); }
    if low <= KEY_LOWEST || high >= KEY_HIGHEST { return S(); }
    return exp_s(anchor_of(low) - anchor_of(high));
}

fn combine(a: State, b: State) -> State {
    let scale = shrink(a.key, b.key);
    return State(max(a.key, b.key), select(a.sum + b.sum * scale, a.sum * scale + b.sum, b.key > a.key));
}
