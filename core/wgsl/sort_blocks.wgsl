// Computes      of runs of at most params.width elements of a row the first params.kept in order, as pairs of key and position; of whole rows
//               as results.
// Algorithm     1. elements become keys, or pairs are read, and places past the end pairs that come last; 2. a bitonic sort in workgroup memory
//               (`sort_order.wgsl`).
// Tiling        TILE elements a workgroup: TILE / width runs, of one row or of several.
// Mapping       run = workgroup * (TILE / width) + slot / width; thread t owns slots t + i * THREADS.
// Shared memory TILE * (sizeof(Key) + 4).
// Traffic       every element read once, every pair that is kept written once.
// Numerics      bits are kept.
// Requires      prelude: Key, Pair, THREADS, TILE; line_of, pair_at, LAST (the highest key), give; order, keys, places; struct Params (width, a power of two up to TILE).
// Measured      not measured.
@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = group.y * groups.x + group.x;
    let first = id * (TILE / params.width);
    // Phase 1.
    for (var slot = thread; slot < TILE; slot += THREADS) {
        let run = first + slot / params.width;
        let row = run / params.tiles;
        let place = run % params.tiles * params.width + slot % params.width;
        var pair = Pair(LAST, 0xffffffffu);
        if row < params.rows && place < params.count { pair = pair_at(line_of(row), place); }
        keys[slot] = pair.key;
        places[slot] = pair.place;
    }
    // Phase 2.
    order(thread, params.width);
    for (var slot = thread; slot < TILE; slot += THREADS) {
        let run = first + slot / params.width;
        let row = run / params.tiles;
        let tile = run % params.tiles;
        let at = slot % params.width;
        let is_there = at < params.kept && tile * params.width + at < params.count;
        if row < params.rows && is_there { give(row, tile * params.kept + at, keys[slot], places[slot]); }
    }
}
