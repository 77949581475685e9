// Computes      y[r, c] = sum of x[i, c] over the positions i with at[i] = r, for every r that is named; the others are zero already.
// Algorithm     1. a workgroup for each position looks whether an earlier one names the same row, and leaves that row to it;
//               2. by THREADS positions at a time it marks those of its row and adds their values in order, DEPTH loaded at once.
// Tiling        THREADS * COLUMNS columns a workgroup.
// Mapping       workgroup = (position, run of columns); thread t owns columns t, t + THREADS, ... of the run.
// Shared memory a bit for each position of a pass, and two words.
// Traffic       every value once, every sum once; indices positions^2 / 2 times, from caches.
// Numerics      one sum in the order of the positions, in the computed type.
// Requires      prelude: Params; const THREADS, COLUMNS, WORDS (THREADS / 32), DEPTH; alias Sum; load_x, load_at, store_y.
// Measured      not measured.

var<workgroup> marks: array<atomic<u32>, WORDS>;
var<workgroup> earlier: atomic<u32>;
var<workgroup> is_owner: u32;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let workgroup = group.y * groups.x + group.x;
    if workgroup >= params.positions * params.runs { return; }
    let own = workgroup / params.runs;
    let run = workgroup - own * params.runs;
    // A negative index is a large number, and no row.
    let row = load_at(params.at_offset + own);
    if row >= params.rows { return; }
    // Phase 1.
    if thread == 0u { atomicStore(&earlier, 0u); }
    workgroupBarrier(); // nothing is found yet
    for (var i = thread; i < own; i += THREADS) {
        if load_at(params.at_offset + i) == row { atomicStore(&earlier, 1u); }
    }
    workgroupBarrier(); // all have looked
    if thread == 0u { is_owner = 1u - atomicLoad(&earlier); }
    if workgroupUniformLoad(&is_owner) == 0u { return; }
    // Phase 2.
    var sums: array<Sum, COLUMNS>;
    let first = run * THREADS * COLUMNS + thread;
    for (var start = own / THREADS * THREADS; start < params.positions; start += THREADS) {
        if thread < WORDS { atomicStore(&marks[thread], 0u); }
        workgroupBarrier(); // no marks are left of the pass before
        let i = start + thread;
        if i < params.positions && load_at(params.at_offset + i) == row {
            atomicOr(&marks[thread / 32u], 1u << (thread % 32u));
        }
        workgroupBarrier(); // all marks are there
        var word = 0u;
        var left = atomicLoad(&marks[0]);
        var more = true;
        while more {
            // The next DEPTH marked positions; all their loads are under way before one is added.
            var taken: array<u32, DEPTH>;
            var found = 0u;
            for (var i = 0u; i < DEPTH; i++) {
                while left == 0u && word + 1u < WORDS {
                    word++;
                    left = atomicLoad(&marks[word]);
                }
                taken[i] = own;
                if left != 0u {
                    taken[i] = start + word * 32u + countTrailingZeros(left);
                    left &= left - 1u;
                    found++;
                }
            }
            for (var column = 0u; column < COLUMNS; column++) {
                let c = first + column * THREADS;
                if c < params.row {
                    var values: array<Sum, DEPTH>;
                    for (var i = 0u; i < DEPTH; i++) { values[i] = load_x(params.x_offset + taken[i] * params.x_stride + c); }
                    for (var i = 0u; i < DEPTH; i++) { sums[column] += select(Sum(), values[i], i < found); }
                }
            }
            more = found == DEPTH;
        }
        workgroupBarrier(); // the marks have been read
    }
    for (var column = 0u; column < COLUMNS; column++) {
        let c = first + column * THREADS;
        if c < params.row { store_y(params.y_offset + row * params.row + c, sums[column]); }
    }
}
