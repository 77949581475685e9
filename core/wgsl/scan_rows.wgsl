// Computes      y[row, p] = x[row, 0] o ... o x[row, p] (or up to p - 1) along rows, or along slabs of them behind what comes before.
// Algorithm     tile by tile of LANES * STRIPS vectors: 1. a thread combines the elements of STRIPS vectors that lie LANES apart, one
//               after the other; 2. it folds the totals of STRIPS neighbours; 3. the folds of a row are scanned in log2(LANES)
//               steps; 4. every element follows what precedes its vector, and the row's total is carried to the next tile.
// Tiling        THREADS / LANES rows a workgroup; slabs of params.slab vectors of WIDTH elements.
// Mapping       row = workgroup / slabs * ROWS + thread / LANES; thread t owns vectors t % LANES + i * LANES of each tile.
// Shared memory (STRIPS + 2) * THREADS * sizeof(Acc); neighbours lie side by side.
// Traffic       every element read and written once; slabs are read once more before (scan_fold.wgsl).
// Numerics      a chain of about WIDTH + STRIPS + log2(LANES) + the tiles of a slab, always in the same order.
// Requires      prelude: Acc, Read, THREADS, LANES, STRIPS, WIDTH, EXCLUSIVE; identity, combine, load, pick, lift, carried, emit, base_of;
//               struct Params.
// Measured      not measured.
const ROWS = THREADS / LANES;
const TILE = LANES * STRIPS;

var<workgroup> totals: array<Acc, THREADS * STRIPS>;
var<workgroup> ladder: array<Acc, THREADS * 2u>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = group.y * groups.x + group.x;
    let row = id / params.slabs * ROWS + thread / LANES;
    let slab = id % params.slabs;
    let lane = thread % LANES;
    let first = slab * params.slab;
    // A row past the end reads nothing but still meets the barriers.
    let is_live = row < params.rows;
    let end = select(first, min(first + params.slab, params.units), is_live);
    let x_row = base_of(row);
    let y_row = row * params.y_line;
    var carry = identity();
    if is_live { carry = carried(row * params.slabs + slab); }
    for (var tile = 0u; tile < params.slab; tile += TILE) {
        let start = first + tile + lane;
        // Phase 1; all loads first.
        var taken: array<Read, STRIPS>;
        for (var i = 0u; i < STRIPS; i++) {
            let unit = start + i * LANES;
            if unit < end { taken[i] = load(x_row + unit * params.x_stride); }
        }
        var items: array<Acc, STRIPS * WIDTH>;
        for (var i = 0u; i < STRIPS; i++) {
            let unit = start + i * LANES;
            var total = identity();
            if unit < end {
                for (var w = 0u; w < WIDTH; w++) {
                    let more = combine(total, lift(pick(taken[i], w), unit * WIDTH + w));
                    if EXCLUSIVE { items[i * WIDTH + w] = total; } else { items[i * WIDTH + w] = more; }
                    total = more;
                }
            }
            totals[thread / LANES * TILE + i * LANES + lane] = total;
        }
        workgroupBarrier(); // every vector's total is there
        // Phase 2.
        let own = thread / LANES * TILE + lane * STRIPS;
        var before: array<Acc, STRIPS>;
        var fold = identity();
        for (var i = 0u; i < STRIPS; i++) {
            before[i] = fold;
            fold = combine(fold, totals[own + i]);
        }
        // Phase 3: from one half of the ladder to the other.
        var side = 0u;
        ladder[thread] = fold;
        workgroupBarrier(); // every thread's fold is there
        for (var step = 1u; step < LANES; step *= 2u) {
            fold = ladder[side + thread];
            if lane >= step { fold = combine(ladder[side + thread - step], fold); }
            side = THREADS - side;
            ladder[side + thread] = fold;
            workgroupBarrier(); // folds of 2 * step threads are there
        }
        var lead = identity();
        if lane > 0u { lead = ladder[side + thread - 1u]; }
        for (var i = 0u; i < STRIPS; i++) { totals[own + i] = combine(lead, before[i]); }
        let all = ladder[side + thread / LANES * LANES + (LANES - 1u)];
        workgroupBarrier(); // what precedes each vector is there
        // Phase 4.
        for (var i = 0u; i < STRIPS; i++) {
            let unit = start + i * LANES;
            if unit < end {
                let prefix = combine(carry, totals[thread / LANES * TILE + i * LANES + lane]);
                var results: array<Acc, WIDTH>;
                for (var w = 0u; w < WIDTH; w++) { results[w] = combine(prefix, items[i * WIDTH + w]); }
                emit(x_row, y_row + unit * params.y_stride, results);
            }
        }
        carry = combine(carry, all);
    }
}
