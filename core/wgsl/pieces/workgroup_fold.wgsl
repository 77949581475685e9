// Pieces: folds of what the threads of a workgroup hold, along rows and down columns.
//
// Computes      fold_$name(v): the values of the LANES consecutive threads of a row combined, for all of them; fold_down(v): those of the
//               DEEP threads of a column, for the first of them.
// Algorithm     along a row HEADS threads combine SPAN values each, then all threads combine the heads: two short levels instead of
//               log2(LANES) barriers. Down a column by halves.
// Tiling        one value a thread.
// Mapping       row = thread / LANES; a column's threads are LANES apart.
// Shared memory rows: (THREADS + ROWS * HEADS) * sizeof($kept); columns: THREADS * sizeof(Wide).
// Traffic       none.
// Numerics      always in the same order.
// Requires      prelude: THREADS, LANES; along rows a function of two values, down columns DEEP, Wide and combine_wide. Uniform control flow.
// Measured      with the kernels that fold: reduce_rows.wgsl, reduce_columns.wgsl, softmax.wgsl, core/src/ops/graphs/rows/plan.rs.

//# rows: a head folds FAN values, which makes both levels about as long
const ROWS = THREADS / LANES;
const FAN = select(select(32u, 16u, LANES <= 256u), 4u, LANES <= 32u);
const HEADS = select(LANES / FAN, 1u, LANES <= FAN);
const SPAN = LANES / HEADS;

//# memory
var<workgroup> all_$memory: array<$kept, THREADS>;
var<workgroup> heads_$memory: array<$kept, ROWS * HEADS>;

//# row: values are kept and taken as they are, or bit by bit as another type
fn fold_$name(value: $value, thread: u32) -> $value {
    if LANES == 1u { return value; }
    let lane = thread % LANES;
    let row = thread / LANES;
    $again
    all_$memory[thread] = ${keep}value${end};
    workgroupBarrier(); // every thread's value is there
    if lane < HEADS {
        var total = value;
        for (var i = 1u; i < SPAN; i++) { total = $combine(total, ${take}all_$memory[thread + i * HEADS]${end}); }
        heads_$memory[row * HEADS + lane] = ${keep}total${end};
    }
    workgroupBarrier(); // the heads are there
    var total = ${take}heads_$memory[row * HEADS]${end};
    for (var i = 1u; i < HEADS; i++) { total = $combine(total, ${take}heads_$memory[row * HEADS + i]${end}); }
    return total;
}

//# again: where the memory has been folded in before
    workgroupBarrier(); // the heads of the fold before have been read

//# column
var<workgroup> partial: array<Wide, THREADS>;

fn fold_down(value: Wide, thread: u32) -> Wide {
    if DEEP == 1u { return value; }
    partial[thread] = value;
    for (var half = DEEP / 2u; half > 0u; half /= 2u) {
        workgroupBarrier(); // the values of the round before are there
        if thread / LANES < half { partial[thread] = combine_wide(partial[thread], partial[thread + half * LANES]); }
    }
    return partial[thread]; // each first thread wrote its own
}
