// Computes      digits[row, d, tile] = the number of keys with digit d in a tile of a line.
// Algorithm     counts in workgroup memory, by atomics: whole numbers add up to the same in any order.
// Tiling        TILE = THREADS * ITEMS elements of one line a workgroup.
// Mapping       row = workgroup / tiles; thread t owns elements t + i * THREADS of the tile.
// Shared memory 256 words.
// Traffic       every element, or key, read once; 256 counts a tile.
// Numerics      exact.
// Requires      prelude: Key, Pair, THREADS, ITEMS, TILE; line_of, pair_at, digit_of; var digits; struct Params (tiles of a line).
// Measured      not measured.
var<workgroup> counts: array<atomic<u32>, 256>;

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = group.y * groups.x + group.x;
    let row = id / params.tiles;
    if row >= params.rows { return; }
    let tile = id % params.tiles;
    for (var digit = thread; digit < 256u; digit += THREADS) { atomicStore(&counts[digit], 0u); }
    workgroupBarrier(); // nothing is counted yet
    let line = line_of(row);
    for (var i = 0u; i < ITEMS; i++) {
        let at = tile * TILE + i * THREADS + thread;
        if at < params.count { atomicAdd(&counts[digit_of(pair_at(line, at).key)], 1u); }
    }
    workgroupBarrier(); // all are counted
    for (var digit = thread; digit < 256u; digit += THREADS) {
        digits[(row * 256u + digit) * params.tiles + tile] = atomicLoad(&counts[digit]);
    }
}
