// Computes      out[row] = x[row, 0] o x[row, 1] o ... over one axis of a strided source, or one partial result per slab of it.
// Algorithm     1. LANES threads walk a row with ITEMS independent accumulators each; 2. a thread folds its accumulators;
//               3. the threads of a row fold theirs in workgroup memory (pieces/workgroup_fold.wgsl).
// Tiling        THREADS / LANES rows a workgroup; slabs of params.slab vectors of WIDTH elements.
// Mapping       row = workgroup / slabs * ROWS + thread / LANES; thread t owns vectors t % LANES + i * LANES of its slab.
// Shared memory (THREADS + ROWS * HEADS) * sizeof(Acc).
// Traffic       every element read once: memory bound.
// Numerics      a chain of about count / (LANES * ITEMS * WIDTH) + ITEMS + FAN + HEADS additions, always in the same order.
// Requires      prelude: Acc, Wide, LANES, ITEMS, WIDTH, THREADS; ROWS, fold_row; wide_identity, combine_wide, absorb,
//               narrow, masked, read_at, write_at, base_of; struct Params.
// Measured      H200, Vulkan, 2026-11-21, f32: 16384 rows of 16384 at 4.19 TB/s, sum of 2^28 at 3.75; copy: 4.05
//               (benches/results/h200-2026-11-21). Repeat: polywarp bench --suite reduce.
@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = group.y * groups.x + group.x;
    let row = id / params.slabs * ROWS + thread / LANES;
    let slab = id % params.slabs;
    let lane = thread % LANES;
    var held: array<Wide, ITEMS>;
    for (var i = 0u; i < ITEMS; i++) { held[i] = wide_identity(); }
    // A row past the end reads nothing but still meets the barriers.
    if row < params.outputs {
        let start = base_of(row);
        let first = slab * params.slab;
        let end = min(first + params.slab, (params.count + WIDTH - 1u) / WIDTH);
        let whole = min(end, params.count / WIDTH);
        var at = first + lane;
        while at + (ITEMS - 1u) * LANES < whole {
            // All loads first: absorbing may branch.
            var taken: array<Wide, ITEMS>;
            for (var i = 0u; i < ITEMS; i++) {
                let unit = at + i * LANES;
                taken[i] = read_at(start + unit * params.stride, unit * WIDTH * params.position);
            }
            for (var i = 0u; i < ITEMS; i++) { held[i] = absorb(held[i], taken[i]); }
            at += ITEMS * LANES;
        }
        while at < end {
            let value = read_at(start + at * params.stride, at * WIDTH * params.position);
            held[0] = absorb(held[0], masked(value, min(params.count - at * WIDTH, WIDTH)));
            at += LANES;
        }
    }
    var mine = held[0];
    for (var i = 1u; i < ITEMS; i++) { mine = combine_wide(mine, held[i]); }
    let total = fold_row(narrow(mine), thread);
    if row < params.outputs && lane == 0u { write_at(row * params.slabs + slab, total); }
}
