// Computes      y[b] += the number of elements equal to b; y is zero before.
// Algorithm     1. of few bins each workgroup counts its elements in workgroup memory; 2. its counts are added to memory. Of many bins each
//               element is counted in memory. Whole numbers add up to the same in any order.
// Tiling        THREADS * ITEMS elements a workgroup.
// Mapping       thread t owns elements t + i * THREADS of its workgroup's.
// Shared memory BINS * 4 bytes.
// Traffic       every element read once; of few bins a count of each workgroup, of many an atomic addition for each element.
// Numerics      exact.
// Requires      prelude: const THREADS, ITEMS, BINS (0: counted in memory); var y of atomic<u32>; load_x; struct Params.
// Measured      not measured.
var<workgroup> counts: array<atomic<u32>, BINS + 1u>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = group.y * groups.x + group.x;
    // Phase 1.
    for (var bin = thread; bin < BINS; bin += THREADS) { atomicStore(&counts[bin], 0u); }
    workgroupBarrier(); // nothing is counted yet
    for (var i = 0u; i < ITEMS; i++) {
        let at = id * (THREADS * ITEMS) + i * THREADS + thread;
        if at < params.elements {
            // A negative number is a large one, and no bin.
            let bin = load_x(params.x_base + at);
            if bin < params.bins {
                if BINS > 0u { atomicAdd(&counts[bin], 1u); } else { atomicAdd(&y[params.y_base + bin], 1u); }
            }
        }
    }
    // Phase 2.
    workgroupBarrier(); // all are counted
    for (var bin = thread; bin < min(BINS, params.bins); bin += THREADS) {
        let count = atomicLoad(&counts[bin]);
        if count > 0u { atomicAdd(&y[params.y_base + bin], count); }
    }
}
