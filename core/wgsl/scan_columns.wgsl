// Computes      y[p, column] = x[0, column] o ... o x[p, column] (or up to p - 1) down columns, or down slabs of them behind what comes
//               before; of FOLDS one total per slab.
// Algorithm     a thread walks down its column, DEPTH rows loaded at a time; what params.block rows come to is combined apart.
// Tiling        THREADS vectors of WIDTH columns, params.slab rows a workgroup.
// Mapping       block = workgroup % blocks, slab = workgroup / blocks; neighbours own neighbouring columns.
// Shared memory none.
// Traffic       every element read and written once; slabs are read once more before.
// Numerics      a chain of block + slab / block combinations, always in the same order.
// Requires      prelude: Acc, Read, THREADS, WIDTH, DEPTH, EXCLUSIVE, FOLDS; identity, combine, load, pick, lift, carried, emit (var y of Acc
//               where FOLDS), base_of; struct Params (rows counts vectors of columns, block is a multiple of DEPTH).
// Measured      not measured.
@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = group.y * groups.x + group.x;
    let blocks = (params.rows + THREADS - 1u) / THREADS;
    let slab = id / blocks;
    let column = id % blocks * THREADS + thread;
    if column >= params.rows || slab >= params.slabs { return; }
    let x_column = base_of(column);
    let y_column = column / params.inner * params.y_line + column % params.inner;
    let first = slab * params.slab;
    let end = min(first + params.slab, params.units);
    let at_slab = (slab * params.rows + column) * WIDTH;
    var total: array<Acc, WIDTH>;
    for (var w = 0u; w < WIDTH; w++) { total[w] = carried(at_slab + w); }
    for (var start = first; start < end; start += params.block) {
        var local: array<Acc, WIDTH>;
        for (var w = 0u; w < WIDTH; w++) { local[w] = identity(); }
        let stop = min(start + params.block, end);
        for (var next = start; next < stop; next += DEPTH) {
            var taken: array<Read, DEPTH>;
            for (var i = 0u; i < DEPTH; i++) {
                if next + i < stop { taken[i] = load(x_column + (next + i) * params.x_stride); }
            }
            for (var i = 0u; i < DEPTH; i++) {
                let row = next + i;
                if row < stop {
                    var results: array<Acc, WIDTH>;
                    for (var w = 0u; w < WIDTH; w++) {
                        let more = combine(local[w], lift(pick(taken[i], w), row));
                        if EXCLUSIVE { results[w] = combine(total[w], local[w]); } else { results[w] = combine(total[w], more); }
                        local[w] = more;
                    }
                    if !FOLDS { emit(x_column, y_column + row * params.y_stride, results); }
                }
            }
        }
        for (var w = 0u; w < WIDTH; w++) { total[w] = combine(total[w], local[w]); }
    }
    if FOLDS {
        for (var w = 0u; w < WIDTH; w++) { fold(at_slab + w, total[w]); }
    }
}
