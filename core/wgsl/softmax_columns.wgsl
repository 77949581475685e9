// Computes      the largest key and the sum of exp(x - largest) of every column of a strided source, or of one slab of it.
// Algorithm     1. DEEP threads walk down a column (a vector of WIDTH columns), BLOCK rows at a time: the largest key of the
//               block first, then the sum so far is scaled to it once, then the block's exponentials are added; 2. the
//               DEEP threads fold theirs in workgroup memory (pieces/workgroup_fold.wgsl).
// Tiling        LANES vectors of columns side by side, params.slab rows a workgroup.
// Mapping       that of reduce_columns.wgsl.
// Shared memory THREADS * sizeof(Wide).
// Traffic       every element read once: memory bound.
// Numerics      a chain of about slab / DEEP + log2(DEEP) additions, and an exponential's error for each time the largest
//               grows, always in the same order.
// Requires      prelude: Wide, V, K, LANES, DEEP, BLOCK, THREADS = LANES * DEEP; softmax_scalar.wgsl, softmax_stats.wgsl;
//               fold_down, combine_wide, shrink_wide, anchor_wide, load, write_wide, base_of, out_of; struct Params (outputs counts vectors).
// Measured      not measured; reduce_columns.wgsl in its place, with softmax_apply.wgsl: 1.64 TB/s for f32 16384 x 16384 on an H200,
//               Vulkan, 2026-11-21; copy: 4.05 (benches/results/h200-2026-11-21).
// `held` and the first `live` rows of a block.
fn absorb_block(held: Wide, taken: array<V, BLOCK>, live: u32) -> Wide {
    var rows = taken;
    var key = held.key;
    for (var i = 0u; i < BLOCK; i++) { key = max(key, select(K(), key_of(rows[i]), i < live)); }
    let anchor = anchor_wide(key);
    var sum = held.sum * shrink_wide(held.key, key);
    for (var i = 0u; i < BLOCK; i++) { sum += select(V(), exp_of(rows[i], anchor), i < live); }
    return Wide(key, sum);
}

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
    var total = wide_identity();
    // A column past the end reads nothing but still meets the barriers.
    if mine {
        let start = base_of(column);
        let first = slab * params.slab;
        let end = min(first + params.slab, params.count);
        var row = first + deep;
        var taken: array<V, BLOCK>;
        while row + (BLOCK - 1u) * DEEP < end {
            for (var i = 0u; i < BLOCK; i++) { taken[i] = load(start + (row + i * DEEP) * params.stride); }
            total = absorb_block(total, taken, BLOCK);
            row += BLOCK * DEEP;
        }
        if row < end {
            for (var i = 0u; i < BLOCK; i++) { taken[i] = load(start + min(row + i * DEEP, end - 1u) * params.stride); }
            total = absorb_block(total, taken, (end - row + DEEP - 1u) / DEEP);
        }
    }
    total = fold_down(total, thread);
    if mine && deep == 0u { write_wide(slab * params.outputs + out_of(column), total); }
}
