// Computes      for each element i of a mask, in order: found(i, place) where it is true, `place` true elements being before it, else
//               passed(i); then behind(place) for each place from the number of true elements to `count`.
// Algorithm     1. a workgroup adds up the counts of the blocks before its own; 2. its invocations count their RUN neighbours, and prefix
//               sums over them give each its place; 3. it walks its elements, the last workgroup the places behind them, too.
// Tiling        a block of RUN * THREADS elements a workgroup.
// Mapping       as in masked_count.wgsl.
// Shared memory two words for each invocation, and one.
// Traffic       the mask twice with the counting; counts blocks^2 / 2 times, from caches; what found, passed and behind move.
// Numerics      bits are kept.
// Requires      prelude: Params; const THREADS, RUN; load_mask, load_counts; found, passed, behind.
// Measured      not measured.

var<workgroup> before: atomic<u32>;
var<workgroup> sums: array<u32, 2u * THREADS>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let block = group.y * groups.x + group.x;
    if block >= params.blocks { return; }
    if thread == 0u { atomicStore(&before, 0u); }
    workgroupBarrier(); // nothing is added yet
    // 1.
    var earlier = 0u;
    for (var i = thread; i < block; i += THREADS) { earlier += load_counts(i); }
    atomicAdd(&before, earlier);
    // 2.
    let first = (block * THREADS + thread) * RUN;
    let end = min(first + RUN, params.elements);
    var own = 0u;
    for (var i = first; i < end; i++) {
        if load_mask(params.mask_offset + i) { own++; }
    }
    sums[thread] = own;
    workgroupBarrier(); // all counts of the block, and those before it, are there
    var side = 0u;
    for (var reach = 1u; reach < THREADS; reach *= 2u) {
        var sum = sums[side + thread];
        if thread >= reach { sum += sums[side + thread - reach]; }
        side = THREADS - side;
        sums[side + thread] = sum;
        workgroupBarrier(); // the sums of this reach are there; the next go to the other half
    }
    // 3.
    let start = atomicLoad(&before);
    var place = start + sums[side + thread] - own;
    for (var i = first; i < end; i++) {
        if load_mask(params.mask_offset + i) {
            found(i, place);
            place++;
        } else {
            passed(i);
        }
    }
    if block + 1u == params.blocks {
        for (var i = start + sums[side + THREADS - 1u] + thread; i < params.count; i += THREADS) { behind(i); }
    }
}
