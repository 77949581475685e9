// Computes      fold_STAGE(v): the values of LANES consecutive threads combined, for all of them.
// Algorithm     HEADS threads of a row combine SPAN values each, then all threads combine the heads.
// Tiling        one value a thread.
// Mapping       row = thread / LANES.
// Shared memory (THREADS + ROWS * HEADS) * sizeof(Folds_STAGE).
// Traffic       none.
// Numerics      always in the same order.
// Requires      prelude: struct Folds_STAGE, combine_STAGE; LANES, THREADS, ROWS, HEADS, SPAN. Uniform control flow.
// Measured      with plans/rows.rs.
var<workgroup> all_STAGE: array<Folds_STAGE, THREADS>;
var<workgroup> heads_STAGE: array<Folds_STAGE, ROWS * HEADS>;

fn fold_STAGE(value: Folds_STAGE, thread: u32) -> Folds_STAGE {
    if LANES == 1u { return value; }
    let lane = thread % LANES;
    let row = thread / LANES;
    workgroupBarrier(); // the heads of the row before have been read
    all_STAGE[thread] = value;
    workgroupBarrier(); // every thread's value is there
    if lane < HEADS {
        var total = value;
        for (var i = 1u; i < SPAN; i++) { total = combine_STAGE(total, all_STAGE[thread + i * HEADS]); }
        heads_STAGE[row * HEADS + lane] = total;
    }
    workgroupBarrier(); // the heads are there
    var total = heads_STAGE[row * HEADS];
    for (var i = 1u; i < HEADS; i++) { total = combine_STAGE(total, heads_STAGE[row * HEADS + i]); }
    return total;
}
