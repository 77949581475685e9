// Computes      runs of 2 * params.run pairs in order from neighbours of params.run pairs each; of the last two, results.
// Algorithm     merge path (Green, McColl and Bader, ICS'12): 1. two threads find by halving how many of a tile's pairs the first run gives
//               up to its ends; 2. both parts are loaded; 3. each thread finds its part likewise and merges ITEMS pairs. Of equal keys
//               the first run's come first.
// Tiling        TILE = THREADS * ITEMS pairs a workgroup; runs are multiples of TILE, so that a tile lies in one pair of runs.
// Mapping       row = workgroup / tiles; thread t owns pairs t * ITEMS .. of the tile.
// Shared memory TILE * (sizeof(Key) + 4) and two words.
// Traffic       every pair read and written once.
// Numerics      bits are kept.
// Requires      prelude: Key, Pair, THREADS, ITEMS, TILE; var pairs of Pair; give; struct Params (tiles of a row).
// Measured      not measured.
var<workgroup> keys: array<Key, TILE>;
var<workgroup> places: array<u32, TILE>;
var<workgroup> splits: array<u32, 2>;

// How many of the first `taken` pairs of both runs are the first one's.
fn split_of(first: u32, first_count: u32, second: u32, second_count: u32, taken: u32) -> u32 {
    var low = taken - min(taken, second_count);
    var high = min(taken, first_count);
    while low < high {
        let middle = low + (high - low) / 2u;
        if pairs[second + taken - 1u - middle].key < pairs[first + middle].key { high = middle; } else { low = middle + 1u; }
    }
    return low;
}

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let id = group.y * groups.x + group.x;
    let row = id / params.tiles;
    if row >= params.rows { return; }
    let start = id % params.tiles * TILE;
    let line = row * params.count;
    // The runs that the tile lies in, of which the last ones of a row may be short.
    let base = start / params.run / 2u * params.run * 2u;
    let first_count = min(params.run, params.count - base);
    let second_count = min(params.run, params.count - base - first_count);
    let first = line + base;
    let second = first + first_count;
    let begin = start - base;
    let size = min(TILE, first_count + second_count - begin);
    // Phase 1.
    if thread < 2u {
        splits[thread] = split_of(first, first_count, second, second_count, begin + thread * size);
    }
    workgroupBarrier(); // both ends are known
    let skipped = splits[0];
    let given = splits[1] - skipped;
    // Phase 2.
    for (var slot = thread; slot < size; slot += THREADS) {
        var at = first + skipped + slot;
        if slot >= given { at = second + (begin - skipped) + (slot - given); }
        keys[slot] = pairs[at].key;
        places[slot] = pairs[at].place;
    }
    workgroupBarrier(); // both parts are there
    // Phase 3.
    let others = size - given;
    let taken = min(thread * ITEMS, size);
    var low = taken - min(taken, others);
    var high = min(taken, given);
    while low < high {
        let middle = low + (high - low) / 2u;
        if keys[given + taken - 1u - middle] < keys[middle] { high = middle; } else { low = middle + 1u; }
    }
    var left = low;
    var right = taken - low;
    var merged_keys: array<Key, ITEMS>;
    var merged_places: array<u32, ITEMS>;
    for (var i = 0u; i < ITEMS; i++) {
        if taken + i < size {
            var slot = left;
            var is_right = left >= given;
            if !is_right && right < others { is_right = keys[given + right] < keys[left]; }
            if is_right {
                slot = given + right;
                right++;
            } else {
                left++;
            }
            merged_keys[i] = keys[slot];
            merged_places[i] = places[slot];
        }
    }
    workgroupBarrier(); // nobody reads the parts any more
    for (var i = 0u; i < ITEMS; i++) {
        if taken + i < size {
            keys[taken + i] = merged_keys[i];
            places[taken + i] = merged_places[i];
        }
    }
    workgroupBarrier(); // the tile is in order
    for (var slot = thread; slot < size; slot += THREADS) { give(row, start + slot, keys[slot], places[slot]); }
}
