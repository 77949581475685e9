// Computes      y[row, p] = x[row, 0] o ... o x[row, p] (or up to p - 1) along few long rows, in one pass over memory.
// Algorithm     1. a workgroup takes the next tile and scans it (as scan_rows.wgsl does), keeps the elements in registers and publishes the
//               tile's total; 2. it looks back for the nearest block whose prefix is published; 3. from there on it takes in the totals
//               of the tiles before its own, THREADS at a time: totals of a block are combined from its first to its last, blocks
//               one after the other, and prefixes of blocks are published on the way; 4. every element follows what precedes its tile.
//               A total that is not there after SPINS looks the workgroup computes itself: no workgroup depends on another's progress.
// Tiling        THREADS * STRIPS vectors of WIDTH elements a workgroup; blocks of BLOCK tiles.
// Mapping       tiles are numbered by ticket, rows one after the other: what comes before has started. Thread t owns vectors t + i * THREADS.
// Shared memory (9 * STRIPS / 8 + 3) * THREADS * sizeof(Acc), and some words.
// Traffic       every element read and written once; 16 bytes of status a tile.
// Numerics      a chain of about WIDTH + STRIPS + log2(THREADS) + BLOCK + tiles / BLOCK, always in the same order: what is published of a place
//               has the same bits whoever computes it and whenever it is found.
// Requires      prelude: Acc of 32 bits, Read, THREADS (a multiple of BLOCK), STRIPS, WIDTH, EXCLUSIVE, BLOCK, SPINS; identity, combine,
//               load, pick, lift, emit, base_of; var status of atomic<u32>, all zero; struct Params (slabs counts the tiles of a row).
// Measured      not measured.
// References    Merrill and Garland, "Single-pass Parallel Prefix Scan with Decoupled Look-back", NVIDIA NVR-2016-002, 2016; Smith, Levien and
//               Owens, "Decoupled Fallback: A Portable Single-Pass GPU Scan", SPAA 2025.
const TILE = THREADS * STRIPS;
const NONE = 0xffffffffu;
// Atomics of WGSL order nothing but themselves, so that each word says itself that it is there: half of a value below this bit.
const READY = 0x10000u;

var<workgroup> totals: array<Acc, TILE + TILE / 8u>;
var<workgroup> ladder: array<Acc, THREADS * 2u>;
var<workgroup> window: array<Acc, THREADS + THREADS / BLOCK>;
var<workgroup> sums: array<Acc, THREADS / BLOCK>;
var<workgroup> known: array<Acc, BLOCK>;
var<workgroup> nearest: atomic<u32>;
var<workgroup> missing: atomic<u32>;
var<workgroup> told: u32;

// Neighbours of a strip and vectors of one thread lie in different banks. THREADS and STRIPS share a multiple or a divisor with 8, so that
// vectors of a strip and of a thread lie side by side all the same.
const STRIP = THREADS + THREADS / 8u;
fn spread(vector: u32) -> u32 { return vector + vector / 8u; }

fn blocks() -> u32 { return (params.slabs + BLOCK - 1u) / BLOCK; }

fn place_of_total(row: u32, tile: u32) -> u32 { return 2u + 2u * (row * params.slabs + tile); }

fn place_of_prefix(row: u32, block: u32) -> u32 {
    return 2u + 2u * (params.rows * params.slabs + row * blocks() + block);
}

fn publish(place: u32, value: Acc) {
    let bits = bitcast<u32>(value);
    atomicStore(&status[place], READY | (bits & 0xffffu));
    atomicStore(&status[place + 1u], READY | (bits >> 16u));
}

fn look(place: u32) -> vec2<u32> { return vec2<u32>(atomicLoad(&status[place]), atomicLoad(&status[place + 1u])); }

fn is_ready(words: vec2<u32>) -> bool { return (words.x & words.y) >= READY; }

fn value_of(words: vec2<u32>) -> Acc { return bitcast<Acc>((words.x & 0xffffu) | (words.y << 16u)); }

// The elements of a thread, each combined with those before it in its vector; totals of vectors go to workgroup memory.
fn fold_vectors(x_row: u32, tile: u32, thread: u32) -> array<Acc, STRIPS * WIDTH> {
    let start = tile * TILE + thread;
    // All loads first.
    var taken: array<Read, STRIPS>;
    for (var i = 0u; i < STRIPS; i++) {
        let unit = start + i * THREADS;
        if unit < params.units { taken[i] = load(x_row + unit * params.x_stride); }
    }
    var items: array<Acc, STRIPS * WIDTH>;
    let place = spread(thread);
    for (var i = 0u; i < STRIPS; i++) {
        let unit = start + i * THREADS;
        var total = identity();
        if unit < params.units {
            for (var w = 0u; w < WIDTH; w++) {
                let more = combine(total, lift(pick(taken[i], w), unit * WIDTH + w));
                if EXCLUSIVE { items[i * WIDTH + w] = total; } else { items[i * WIDTH + w] = more; }
                total = more;
            }
        }
        totals[place + i * STRIP] = total;
    }
    return items;
}

// The vectors' totals alone, of a whole tile, one at a time: what a workgroup holds in registers meanwhile stays there.
fn fold_again(x_row: u32, tile: u32, thread: u32) {
    let end = min(tile * TILE + TILE, params.units);
    for (var unit = tile * TILE + thread; unit < end; unit += THREADS) {
        let taken = load(x_row + unit * params.x_stride);
        var total = identity();
        for (var w = 0u; w < WIDTH; w++) { total = combine(total, lift(pick(taken, w), unit * WIDTH + w)); }
        totals[spread(unit - tile * TILE)] = total;
    }
}

// Makes of the vectors' totals what precedes each in the tile, and gives the tile's total. Begins and ends with a barrier.
fn scan_totals(thread: u32) -> Acc {
    workgroupBarrier(); // every vector's total is there
    let own = spread(thread * STRIPS);
    var before: array<Acc, STRIPS>;
    var fold = identity();
    for (var i = 0u; i < STRIPS; i++) {
        before[i] = fold;
        fold = combine(fold, totals[own + i]);
    }
    // From one half of the ladder to the other.
    var side = 0u;
    ladder[thread] = fold;
    workgroupBarrier(); // every thread's fold is there
    for (var step = 1u; step < THREADS; step *= 2u) {
        fold = ladder[side + thread];
        if thread >= step { fold = combine(ladder[side + thread - step], fold); }
        side = THREADS - side;
        ladder[side + thread] = fold;
        workgroupBarrier(); // folds of 2 * step threads are there
    }
    var lead = identity();
    if thread > 0u { lead = ladder[side + thread - 1u]; }
    for (var i = 0u; i < STRIPS; i++) { totals[own + i] = combine(lead, before[i]); }
    let all = ladder[side + THREADS - 1u];
    workgroupBarrier(); // what precedes each vector is there, and the ladder is free
    return all;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) thread: u32) {
    if thread == 0u {
        told = atomicAdd(&status[0], 1u);
        atomicStore(&nearest, 0u);
        atomicStore(&missing, NONE);
    }
    let ticket = workgroupUniformLoad(&told);
    let row = ticket / params.slabs;
    // The grid may be larger than there are tiles.
    if row >= params.rows { return; }
    let tile = ticket % params.slabs;
    let x_row = base_of(row);
    // Phase 1.
    var items = fold_vectors(x_row, tile, thread);
    let all = scan_totals(thread);
    if thread == 0u { publish(place_of_total(row, tile), all); }
    // A total that is computed below needs the same workgroup memory.
    let place = spread(thread);
    for (var i = 0u; i < STRIPS; i++) {
        let lead = totals[place + i * STRIP];
        for (var w = 0u; w < WIDTH; w++) { items[i * WIDTH + w] = combine(lead, items[i * WIDTH + w]); }
    }
    // Phase 2: before block 0 there is nothing.
    let block = tile / BLOCK;
    var start = 0u;
    var carry = identity();
    for (var past = block; SPINS > 0u && past > 0u; past -= min(past, BLOCK)) {
        let at = past - min(past, thread);
        if thread < BLOCK && at > 0u {
            let words = look(place_of_prefix(row, at));
            if is_ready(words) {
                known[thread] = value_of(words);
                atomicMax(&nearest, at);
            }
        }
        workgroupBarrier(); // all have looked
        if thread == 0u { told = atomicLoad(&nearest); }
        let found = workgroupUniformLoad(&told);
        if found > 0u {
            start = found;
            carry = known[past - found];
            break;
        }
    }
    // Phase 3.
    var local = identity();
    for (var first = start * BLOCK; first < tile; first += THREADS) {
        let seen = first + thread;
        var is_open = seen < tile;
        var total = identity();
        for (var spin = 0u; spin < SPINS && is_open; spin++) {
            let words = look(place_of_total(row, seen));
            if is_ready(words) {
                total = value_of(words);
                is_open = false;
            }
        }
        let own = thread + thread / BLOCK;
        window[own] = total;
        if is_open { atomicMin(&missing, thread); }
        workgroupBarrier(); // all have looked
        for (var filled = 0u; filled < THREADS; filled++) {
            if thread == 0u { told = atomicLoad(&missing); }
            let hole = workgroupUniformLoad(&told);
            if hole >= THREADS { break; }
            fold_again(x_row, first + hole, thread);
            let found = scan_totals(thread);
            if thread == 0u { atomicStore(&missing, NONE); }
            if thread == hole {
                window[own] = found;
                is_open = false;
                publish(place_of_total(row, seen), found);
            }
            workgroupBarrier(); // nothing is missing but what follows
            if is_open {
                // It may have come meanwhile.
                let words = look(place_of_total(row, seen));
                if SPINS > 0u && is_ready(words) {
                    window[own] = value_of(words);
                    is_open = false;
                } else {
                    atomicMin(&missing, thread);
                }
            }
            workgroupBarrier(); // all have looked
        }
        if thread < THREADS / BLOCK {
            var sum = identity();
            for (var i = 0u; i < BLOCK; i++) { sum = combine(sum, window[thread * (BLOCK + 1u) + i]); }
            sums[thread] = sum;
        }
        workgroupBarrier(); // blocks' sums are there, and the window is free
        for (var i = 0u; i < THREADS / BLOCK; i++) {
            let next = first / BLOCK + i;
            if next < block {
                carry = combine(carry, sums[i]);
                if thread == i { publish(place_of_prefix(row, next + 1u), carry); }
            } else if next == block {
                local = sums[i];
            }
        }
    }
    // Phase 4.
    let prefix = combine(carry, local);
    let y_row = row * params.y_line;
    for (var i = 0u; i < STRIPS; i++) {
        let unit = tile * TILE + i * THREADS + thread;
        if unit < params.units {
            var results: array<Acc, WIDTH>;
            for (var w = 0u; w < WIDTH; w++) { results[w] = combine(prefix, items[i * WIDTH + w]); }
            emit(x_row, y_row + unit * params.y_stride, results);
        }
    }
}
