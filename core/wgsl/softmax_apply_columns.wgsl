// Computes      y[o, r, c] = exp(x[o, r, c] - max) / sum, or its logarithm, from the key and sum of each column (o, c).
// Algorithm     1. a column's state is read and its scale computed once; 2. ITEMS of its rows are scaled by it.
// Tiling        a thread owns WIDTH columns in ITEMS rows that lie params.strips apart; neighbours own neighbouring vectors,
//               then neighbouring rows.
// Mapping       y dense, x by strides; thread id = (o * strips + strip) * across + vector, across = inner / WIDTH.
// Shared memory none.
// Traffic       every element read once and written once, and a state for ITEMS rows: memory bound.
// Numerics      as softmax.wgsl.
// Requires      prelude: V, WIDTH, ITEMS, THREADS, LOG; softmax_scalar.wgsl, softmax_factor.wgsl; load, store, base_of; anchor_at,
//               factor_at of a state's index; struct Params.
// Measured      not measured.
@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = (group.y * groups.x + group.x) * THREADS + thread;
    if id >= params.units { return; }
    let across = params.inner / WIDTH;
    let column = id % across;
    let outer = id / across / params.strips;
    let strip = id / across % params.strips;
    let first = (outer * params.count + strip) * across + column;
    let step = params.strips * across;
    // All loads first: stores to y hold back loads from x, for all that a compiler knows of the two. Behind the last row
    // the first one again.
    var taken: array<V, ITEMS>;
    for (var i = 0u; i < ITEMS; i++) {
        let inside = strip + i * params.strips < params.count;
        taken[i] = load(base_of(select(first, first + i * step, inside)));
    }
    let state = outer * params.inner + column * WIDTH;
    let anchor = anchor_at(state);
    let factor = factor_at(state);
    for (var i = 0u; i < ITEMS; i++) {
        if strip + i * params.strips < params.count {
            let x = taken[i];
            let y = select(exp_of(x, anchor) * factor, (x - anchor) - factor, LOG);
            store(params.target_base + first + i * step, y);
        }
    }
}
