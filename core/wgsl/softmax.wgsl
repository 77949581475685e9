// Computes      y[r, c] = exp(x[r, c] - max_r) / sum_c exp(x[r, c] - max_r), or its logarithm, for rows that registers hold.
// Algorithm     1. a row is read once into registers; 2. its largest key is folded over LANES threads; 3. exp, and the sum
//               folded; 4. scaled and written.
// Tiling        THREADS / LANES rows a workgroup, LANES threads a row, ITEMS vectors of WIDTH a thread: LANES * ITEMS >= units.
// Mapping       row = workgroup * ROWS + thread / LANES; the thread owns vectors thread % LANES + i * LANES.
// Shared memory (THREADS + ROWS * HEADS) * sizeof(S), used twice.
// Traffic       every element read once and written once: memory bound.
// Numerics      f32 (f64 for f64). Keys are the bits of the floats in their order, NaN highest, so that rows holding NaN or +inf, or nothing
//               but -inf, are told apart without arithmetic on them.
// Requires      from plans/softmax.rs. Types: S, f32 or f64; U, its bits; V, a vector of WIDTH S (1 or 4 neighbours of a row), and K, one of U.
//               ROWS, fold_highest, fold_sum: pieces/workgroup_fold.wgsl. Constants: LANES, ITEMS, THREADS; FULL, whether rows are LANES * ITEMS vectors; LOG, whether the logarithm is wanted.
//               params: rows; units, the vectors of a row; stride, units of x from one to the next; target_base, where y begins;
//               lowest, the bits of -inf. base_of(row), where a row of x begins; load(at), store(at, v); highest_of and sum_of, of the
//               parts of one vector. key_of, anchor_of, exp_of: softmax_scalar.wgsl; factor_of: softmax_factor.wgsl.
// Measured      H200, Vulkan, 2026-11-21, f32 16384 x 16384: 3.90 TB/s; copy: 4.05
//               (benches/results/h200-2026-11-21). Repeat: polywarp bench --suite softmax.
fn add(a: S, b: S) -> S { return a + b; }

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let row = (group.y * groups.x + group.x) * ROWS + thread / LANES;
    let lane = thread % LANES;
    // A row past the end owns nothing but still meets the barriers.
    let live = row < params.rows;
    let units = select(0u, params.units, live);
    let all = FULL && (ROWS == 1u || live);
    let origin = base_of(row);
    let goal = params.target_base + row * params.units;
    let nothing = V(S(bitcast<f32>(params.lowest)));
    var held: array<V, ITEMS>;
    var keys = K();
    for (var i = 0u; i < ITEMS; i++) {
        let at = lane + i * LANES;
        held[i] = nothing;
        if all || at < units { held[i] = load(origin + at * params.stride); }
        keys = max(keys, key_of(held[i]));
    }
    let highest = fold_highest(highest_of(keys), thread);
    let anchor = V(anchor_of(highest));
    var sum = V();
    if LOG {
        for (var i = 0u; i < ITEMS; i++) { sum += exp_of(held[i], anchor); }
    } else {
        for (var i = 0u; i < ITEMS; i++) {
            held[i] = exp_of(held[i], anchor);
            sum += held[i];
        }
    }
    let factor = V(factor_of(highest, fold_sum(sum_of(sum), thread)));
    for (var i = 0u; i < ITEMS; i++) {
        let at = lane + i * LANES;
        if all || at < units { store(goal + at, select(held[i] * factor, (held[i] - anchor) - factor, LOG)); }
    }
}
