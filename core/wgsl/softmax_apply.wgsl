// Computes      y[r, c] = exp(x[r, c] - max) / sum, or its logarithm, from the key and sum of each row: see softmax_stats.wgsl.
// Algorithm     one vector a step, ITEMS steps a thread, THREADS apart.
// Tiling        THREADS * ITEMS vectors a workgroup.
// Mapping       output vectors in order; x by strides; a row is params.count elements.
// Shared memory none.
// Traffic       every element read once and written once, and a state a row: memory bound.
// Numerics      as softmax.wgsl.
// Requires      prelude: V, WIDTH, ITEMS, THREADS, LOG; softmax_scalar.wgsl, softmax_factor.wgsl; load, store, base_of;
//               anchor_at, factor_at of a state's index; struct Params. Not here: columns (softmax_apply_columns.wgsl).
// Measured      not measured.
@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let first = (group.y * groups.x + group.x) * THREADS * ITEMS + thread;
    // All loads first: stores to y hold back loads from x, for all that a compiler knows of the two.
    var taken: array<V, ITEMS>;
    for (var i = 0u; i < ITEMS; i++) {
        let at = first + i * THREADS;
        if at < params.units { taken[i] = load(base_of(at)); }
    }
    for (var i = 0u; i < ITEMS; i++) {
        let at = first + i * THREADS;
        if at < params.units {
            let x = taken[i];
            let state = at / (params.count / WIDTH);
            let anchor = anchor_at(state);
            let factor = factor_at(state);
            store(params.target_base + at, select(exp_of(x, anchor) * factor, (x - anchor) - factor, LOG));
        }
    }
}
