// Computes      y[row, slab] = the elements of one slab of a row combined: what the scan of the next slabs follows.
// Algorithm     1. each thread combines its vectors, STRIPS at a time; 2. the threads combine theirs by halves in workgroup memory.
// Tiling        one slab of params.slab vectors of WIDTH elements a workgroup.
// Mapping       row = workgroup / slabs; thread t owns vectors t + i * THREADS of the slab. Combining asks for no order: extrema know
//               their positions.
// Shared memory THREADS * sizeof(Acc).
// Traffic       every element read once.
// Numerics      a chain of about WIDTH * slab / THREADS + log2(THREADS), always in the same order.
// Requires      prelude: Acc, Read, THREADS (a power of two), STRIPS, WIDTH; identity, combine, load, pick, lift, base_of; var y of Acc; struct Params.
// Measured      not measured.
var<workgroup> totals: array<Acc, THREADS>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = group.y * groups.x + group.x;
    let row = id / params.slabs;
    if row >= params.rows { return; }
    let slab = id % params.slabs;
    let first = slab * params.slab;
    let end = min(first + params.slab, params.units);
    let x_row = base_of(row);
    var total = identity();
    for (var start = first + thread; start < end; start += THREADS * STRIPS) {
        var taken: array<Read, STRIPS>;
        for (var i = 0u; i < STRIPS; i++) {
            let unit = start + i * THREADS;
            if unit < end { taken[i] = load(x_row + unit * params.x_stride); }
        }
        for (var i = 0u; i < STRIPS; i++) {
            let unit = start + i * THREADS;
            if unit < end {
                for (var w = 0u; w < WIDTH; w++) { total = combine(total, lift(pick(taken[i], w), unit * WIDTH + w)); }
            }
        }
    }
    totals[thread] = total;
    for (var half = THREADS / 2u; half > 0u; half /= 2u) {
        workgroupBarrier(); // the totals of the round before are there
        if thread < half { totals[thread] = combine(totals[thread], totals[thread + half]); }
    }
    if thread == 0u { y[row * params.slabs + slab] = totals[0]; }
}
