// Computes      y[i] = exp(x[i] - max) / sum, or its logarithm, from the key and sum of each row: see softmax_stats.wgsl.
// Algorithm     one vector a step, ITEMS steps a thread, THREADS apart.
// Tiling        THREADS * ITEMS vectors a workgroup.
// Mapping       output vectors in order; x by strides; the state of element i is i / run * inner + i % inner.
// Shared memory none.
// Traffic       every element read once and written once, and a state a row (or column): memory bound.
// Numerics      as softmax.wgsl.
// Requires      prelude: V, WIDTH, ITEMS, THREADS, LOG, ALONG (a vector lies along the row); softmax_scalar.wgsl,
//               softmax_factor.wgsl; load, store, base_of, apply_each; struct Params; state at binding 2.
// Measured      not measured.
fn apply(x: V, state: u32) -> V {
    if ALONG {
        let s = states[state];
        let anchor = V(anchor_of(s.key));
        let factor = V(factor_of(s.key, s.sum));
        return select(exp_of(x, anchor) * factor, (x - anchor) - factor, LOG);
    }
    return apply_each(x, state);
}

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
            let element = at * WIDTH;
            let state = element / params.run * params.inner + element % params.inner;
            store(params.target_base + at, apply(taken[i], state));
        }
    }
}
