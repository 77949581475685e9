// Computes      of each chunk of params.width elements of a row the first params.kept in order, as pairs of key and position; of rows of one chunk
//               as results.
// Algorithm     a workgroup walks its chunk and collects what comes before the last of the best so far. Before there might be no more room it
//               sorts what it has (`sort_order.wgsl`) and keeps the best. In a chunk without order few elements are collected after the
//               first, so it is little more than read.
// Tiling        a chunk a workgroup, LOADS * THREADS elements a step; those of the next step are under way meanwhile.
// Mapping       row = workgroup / tiles, chunk = workgroup % tiles; thread t owns elements t + i * THREADS of a step.
// Shared memory TILE * (sizeof(Key) + 4) and two words.
// Traffic       every element read once.
// Numerics      bits are kept. Which slot an element is collected in depends on the run, the order does not: places break ties.
// Requires      prelude: Key, Pair, THREADS, TILE, LOADS (LOADS * THREADS + params.kept <= TILE); line_of, pair_at, LAST (the highest key), give;
//               order, keys, places; struct Params.
// Measured      not measured.
var<workgroup> collected: atomic<u32>;
var<workgroup> total: u32;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    const STEP = LOADS * THREADS;
    let id = group.y * groups.x + group.x;
    let row = id / params.tiles;
    if row >= params.rows { return; }
    let tile = id % params.tiles;
    let start = tile * params.width;
    let end = min(start + params.width, params.count);
    let line = line_of(row);
    if thread == 0u { atomicStore(&collected, 0u); }
    var next: array<Pair, LOADS>;
    for (var i = 0u; i < LOADS; i++) {
        let at = start + i * THREADS + thread;
        if at < end { next[i] = pair_at(line, at); }
    }
    var is_full = false;
    var last = LAST;
    var count = 0u;
    workgroupBarrier(); // nothing is collected yet
    for (var step = start; step < end; step += STEP) {
        for (var i = 0u; i < LOADS; i++) {
            let pair = next[i];
            if step + i * THREADS + thread < end && (!is_full || pair.key < last) {
                let slot = atomicAdd(&collected, 1u);
                keys[slot] = pair.key;
                places[slot] = pair.place;
            }
        }
        for (var i = 0u; i < LOADS; i++) {
            let at = step + STEP + i * THREADS + thread;
            if at < end { next[i] = pair_at(line, at); }
        }
        workgroupBarrier(); // all have collected
        if thread == 0u { total = atomicLoad(&collected); }
        count = workgroupUniformLoad(&total);
        if count > TILE - STEP || step + STEP >= end {
            for (var slot = count + thread; slot < TILE; slot += THREADS) {
                keys[slot] = LAST;
                places[slot] = 0xffffffffu;
            }
            order(thread, TILE);
            is_full = count >= params.kept;
            count = min(count, params.kept);
            last = keys[params.kept - 1u];
            if thread == 0u { atomicStore(&collected, count); }
            workgroupBarrier(); // the rest is forgotten
        }
    }
    for (var slot = thread; slot < count; slot += THREADS) { give(row, tile * params.kept + slot, keys[slot], places[slot]); }
}
