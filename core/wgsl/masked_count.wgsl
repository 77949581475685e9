// Computes      counts[b] = number of true elements of mask in block b of RUN * THREADS.
// Algorithm     1. each invocation counts RUN neighbours; 2. a workgroup adds its counts up.
// Tiling        a block a workgroup.
// Mapping       thread t of workgroup b owns elements (b * THREADS + t) * RUN and the RUN - 1 behind it.
// Shared memory one word.
// Traffic       the mask once.
// Numerics      whole numbers: exact, in any order.
// Requires      prelude: Params with `elements`, `blocks` and `mask_offset`; const THREADS, RUN; load_mask, store_counts.
// Measured      not measured.

var<workgroup> total: atomic<u32>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let block = group.y * groups.x + group.x;
    if block >= params.blocks { return; }
    if thread == 0u { atomicStore(&total, 0u); }
    workgroupBarrier(); // nothing is counted yet
    // 1.
    let first = (block * THREADS + thread) * RUN;
    let end = min(first + RUN, params.elements);
    var own = 0u;
    for (var i = first; i < end; i++) {
        if load_mask(params.mask_offset + i) { own++; }
    }
    // 2.
    atomicAdd(&total, own);
    workgroupBarrier(); // all are counted
    if thread == 0u { store_counts(block, atomicLoad(&total)); }
}
