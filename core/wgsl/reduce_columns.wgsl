// Computes      out[column] = x[0, column] o x[1, column] o ... over one axis of a strided source, or one partial per slab of it.
// Algorithm     1. DEEP threads walk down a column (a vector of WIDTH columns) with ITEMS independent accumulators each;
//               2. a thread folds its accumulators; 3. the DEEP threads fold theirs in workgroup memory (pieces/workgroup_fold.wgsl).
// Tiling        LANES vectors of columns side by side, params.slab rows a workgroup.
// Mapping       block = workgroup % blocks, slab = workgroup / blocks; thread t owns vector t % LANES, rows t / LANES + i * DEEP.
// Shared memory THREADS * sizeof(Wide).
// Traffic       every element read once: memory bound.
// Numerics      a chain of about slab / (DEEP * ITEMS) + ITEMS + log2(DEEP) additions, always in the same order.
// Requires      prelude: Wide, LANES, DEEP, ITEMS, THREADS = LANES * DEEP; fold_down; wide_identity, combine_wide, absorb, read_at, write_wide,
//               base_of, out_of; struct Params (outputs counts vectors).
// Measured      H200, Vulkan, 2026-11-21, f32 16384 x 16384: 4.00 TB/s; copy: 4.05
//               (benches/results/h200-2026-11-21). Repeat: polywarp bench --suite reduce.
@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = group.y * groups.x + group.x;
    let blocks = (params.outputs + LANES - 1u) / LANES;
    let slab = id / blocks;
    let column = id % blocks * LANES + thread % LANES;
    let deep = thread / LANES;
    let mine = column < params.outputs && slab < params.slabs;
    var held: array<Wide, ITEMS>;
    for (var i = 0u; i < ITEMS; i++) { held[i] = wide_identity(); }
    // A column past the end reads nothing but still meets the barriers.
    if mine {
        let start = base_of(column);
        let first = slab * params.slab;
        let end = min(first + params.slab, params.count);
        var row = first + deep;
        while row + (ITEMS - 1u) * DEEP < end {
            // All loads first: absorbing may branch.
            var taken: array<Wide, ITEMS>;
            for (var i = 0u; i < ITEMS; i++) {
                let at = row + i * DEEP;
                taken[i] = read_at(start + at * params.stride, at * params.position);
            }
            for (var i = 0u; i < ITEMS; i++) { held[i] = absorb(held[i], taken[i]); }
            row += ITEMS * DEEP;
        }
        while row < end {
            held[0] = absorb(held[0], read_at(start + row * params.stride, row * params.position));
            row += DEEP;
        }
    }
    var total = held[0];
    for (var i = 1u; i < ITEMS; i++) { total = combine_wide(total, held[i]); }
    total = fold_down(total, thread);
    if mine && deep == 0u { write_wide(slab * params.outputs + out_of(column), total); }
}
