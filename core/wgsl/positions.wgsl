// Computes      the number of the first position that is outside, NONE where all are inside: of all, of each part, or of the parts'.
// Algorithm     1. each invocation finds the first of its own; 2. a workgroup takes the least of them and hands it on.
// Tiling        THREADS * ITEMS positions at a time, `step` apart.
// Mapping       thread t of workgroup b owns positions (b * ITEMS + i) * THREADS + t of each step.
// Shared memory one word.
// Traffic       every position once.
// Numerics      whole numbers: exact, in any order.
// Requires      prelude: Params with `count`, `step`, `parts`, `extent` and what is ignored; const THREADS, ITEMS, IS_CLOSE; position, part,
//               finish.
// Measured      not measured.
const NONE = 0xffffffffu;
var<workgroup> least: atomic<u32>;

fn is_outside(e: u32) -> bool {
    let at = position(e);
    // A negative position has a high word.
    let is_inside = at.y == 0u && at.x < params.extent;
    let is_ignored = params.has_ignored != 0u && at.x == params.ignored_low && at.y == params.ignored_high;
    return !is_inside && !is_ignored;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    if thread == 0u { atomicStore(&least, NONE); }
    workgroupBarrier(); // nothing is found yet
    // 1.
    var first = NONE;
    if IS_CLOSE {
        for (var i = thread; i < params.parts; i += THREADS) { first = min(first, part(i)); }
    } else {
        for (var start = group.x * (THREADS * ITEMS) + thread; start < params.count; start += params.step) {
            for (var i = 0u; i < ITEMS; i++) {
                // Behind the last one the last one again: reads depend on nothing.
                let e = min(start + i * THREADS, params.count - 1u);
                first = min(first, select(NONE, e, is_outside(e)));
            }
        }
    }
    // 2.
    if first != NONE { atomicMin(&least, first); }
    workgroupBarrier(); // all have looked
    if thread == 0u { finish(group.x, atomicLoad(&least)); }
}
