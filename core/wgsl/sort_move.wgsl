// Computes      the pairs of a line in the order of one digit; of equal digits in the order they had.
// Algorithm     1. a tile's pairs are loaded, with pairs that come last behind the line's end; 2. they are sorted by the digit's lower four bits and
//               then by its upper four, each time stably: every thread counts its pairs, digit by digit, a scan over [digits, threads] says
//               where each thread's go, and they move within workgroup memory (Satish, Harris and Garland, IPDPS 2009); 3. pairs of one
//               digit lie side by side then, and go to where the scan over all tiles says.
// Tiling        TILE = THREADS * ITEMS pairs of one line a workgroup.
// Mapping       row = workgroup / tiles; thread t owns pairs t * ITEMS .. of the tile in step 2, t + i * THREADS elsewhere.
// Shared memory (TILE + THREADS) * (sizeof(Key) + 4), 11 * THREADS + 256 words. Counts of digits d and d + 8 share a word, a tile has fewer pairs
//               than 2^16. A gap behind each thread's items and counts keeps threads in different banks.
// Traffic       every pair read and written once, in runs of TILE / 256 where digits are spread evenly; 256 offsets a tile.
// Numerics      bits are kept.
// Requires      prelude: Key, Pair, THREADS, ITEMS, TILE, LAST; line_of, pair_at, digit_of, give; var offsets, [rows, 256, tiles]; struct Params.
// Measured      not measured.
var<workgroup> keys: array<Key, TILE + THREADS>;
var<workgroup> places: array<u32, TILE + THREADS>;
var<workgroup> counts: array<u32, 9u * THREADS>;
var<workgroup> sums: array<u32, 2u * THREADS>;
var<workgroup> starts: array<u32, 256>;

// Where item `i` of the tile lies.
fn slot_of(i: u32) -> u32 { return i + i / ITEMS; }

// Where a thread counts four bits; those of 8 and more in the upper half.
fn count_of(bits: u32, thread: u32) -> u32 {
    let at = (bits & 7u) * THREADS + thread;
    return at + at / 8u;
}

// The tile in the order of four bits of the digit.
fn split(thread: u32, lowest: u32) {
    for (var row = 0u; row < 8u; row++) { counts[count_of(row, thread)] = 0u; }
    var ranks: array<u32, ITEMS>;
    var moved: array<Pair, ITEMS>;
    for (var i = 0u; i < ITEMS; i++) {
        let slot = slot_of(thread * ITEMS + i);
        moved[i] = Pair(keys[slot], places[slot]);
        let bits = (digit_of(moved[i].key) >> lowest) & 15u;
        let half = 16u * (bits >> 3u);
        let at = count_of(bits, thread);
        let before = counts[at];
        ranks[i] = (before >> half) & 0xffffu;
        counts[at] = before + (1u << half);
    }
    workgroupBarrier(); // all have counted, and hold their pairs
    var own = 0u;
    for (var i = 0u; i < 8u; i++) {
        let count = counts[thread * 9u + i];
        counts[thread * 9u + i] = own;
        own += count;
    }
    var sum = own;
    sums[thread] = sum;
    var now = 0u;
    for (var step = 1u; step < THREADS; step *= 2u) {
        workgroupBarrier(); // the sums of the step before are there
        if thread >= step { sum += sums[now + thread - step]; }
        now = THREADS - now;
        sums[now + thread] = sum;
    }
    workgroupBarrier(); // all sums are there
    // All pairs of lower bits come before those in the upper halves.
    let before = sum - own + (sums[now + THREADS - 1u] << 16u);
    for (var i = 0u; i < 8u; i++) { counts[thread * 9u + i] += before; }
    workgroupBarrier(); // counts have become places
    for (var i = 0u; i < ITEMS; i++) {
        let bits = (digit_of(moved[i].key) >> lowest) & 15u;
        let first = (counts[count_of(bits, thread)] >> (16u * (bits >> 3u))) & 0xffffu;
        let slot = slot_of(first + ranks[i]);
        keys[slot] = moved[i].key;
        places[slot] = moved[i].place;
    }
    workgroupBarrier(); // the tile is in order
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
    let tile = id % params.tiles;
    let start = tile * TILE;
    let size = min(TILE, params.count - start);
    // Phase 1.
    let line = line_of(row);
    for (var i = thread; i < TILE; i += THREADS) {
        var pair = Pair(LAST, 0u);
        if i < size { pair = pair_at(line, start + i); }
        keys[slot_of(i)] = pair.key;
        places[slot_of(i)] = pair.place;
    }
    for (var digit = thread; digit < 256u; digit += THREADS) {
        starts[digit] = offsets[(row * 256u + digit) * params.tiles + tile];
    }
    workgroupBarrier(); // the tile is there
    // Phase 2.
    split(thread, 0u);
    split(thread, 4u);
    // Phase 3.
    for (var i = thread; i < size; i += THREADS) {
        let digit = digit_of(keys[slot_of(i)]);
        var is_start = i == 0u;
        if i > 0u { is_start = digit_of(keys[slot_of(i - 1u)]) != digit; }
        if is_start { starts[digit] -= i; }
    }
    workgroupBarrier(); // it is known how far each digit moves
    for (var i = thread; i < size; i += THREADS) {
        let key = keys[slot_of(i)];
        give(row, starts[digit_of(key)] + i, key, places[slot_of(i)]);
    }
}
