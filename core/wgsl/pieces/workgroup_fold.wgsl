// Pieces: the fold of a row by the threads that share it.
//
// Computes      fold_$stage(v): the values of LANES consecutive threads combined, for all of them.
// Algorithm     HEADS threads of a row combine SPAN values each, then all threads combine the heads.
// Tiling        one value a thread.
// Mapping       row = thread / LANES.
// Shared memory (THREADS + ROWS * HEADS) * sizeof(Folds_$stage).
// Traffic       none.
// Numerics      always in the same order.
// Requires      prelude: struct Folds_$stage, combine_$stage; LANES, THREADS, ROWS, HEADS, SPAN. Uniform control flow.
// Measured      with core/src/ops/graphs/rows/plan.rs.

//# fold
var<workgroup> all_$stage: array<Folds_$stage, THREADS>;
var<workgroup> heads_$stage: array<Folds_$stage, ROWS * HEADS>;

fn fold_$stage(value: Folds_$stage, thread: u32) -> Folds_$stage {
    if LANES == 1u { return value; }
    let lane = thread % LANES;
    let row = thread / LANES;
    workgroupBarrier(); // the heads of the row before have been read
    all_$stage[thread] = value;
    workgroupBarrier(); // every thread's value is there
    if lane < HEADS {
        var total = value;
        for (var i = 1u; i < SPAN; i++) { total = combine_$stage(total, all_$stage[thread + i * HEADS]); }
        heads_$stage[row * HEADS + lane] = total;
    }
    workgroupBarrier(); // the heads are there
    var total = heads_$stage[row * HEADS];
    for (var i = 1u; i < HEADS; i++) { total = combine_$stage(total, heads_$stage[row * HEADS + i]); }
    return total;
}
