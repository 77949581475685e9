// Computes      y[b] += the number of elements whose bin is b; y is zero before.
// Algorithm     1. of bins that fit, workgroup memory is cleared; 2. each thread counts its elements there, in one of several copies of
//               the counts; 3. the copies are added up and added to memory. Of more bins each element is counted in memory. Whole numbers
//               add up to the same in any order.
// Tiling        none: all threads of the grid walk all of x together, quad by quad, so that a workgroup adds to memory once however long x is.
// Mapping       of params.step threads thread t owns quads t + i * params.step; up to six elements beside whole quads go to workgroup 0.
// Shared memory WORDS * 4 bytes. Count `bin * copies + copy`, where copy is the thread's number modulo a power of two: neighbours
//               in a subgroup differ in copy, so they meet neither in a word nor in a bank, whatever their bins are; of 32 threads
//               at most 32 / copies meet, also where all elements are equal. Copies one behind the other would meet by chance, of random bins
//               3 or 4 of 32.
// Traffic       every element read once, 4 * ITEMS of a thread in flight; of bins that fit an addition to memory for each bin and workgroup,
//               of others one for each element.
// Numerics      counts are exact; bin_of says how bins are computed.
// Requires      prelude: const THREADS, ITEMS, WORDS (0: counted in memory); alias Quad; var y of atomic<u32>; load_x, load4_x; bin_of
//               (an element's bin, params.bins or more for none); struct Params.
// Measured      H100, 2026-11-27, 2^28 f32 in 256 bins: 0.367 ms, 0.97 of the copy's rate, equal elements as fast; through Vulkan 0.388 ms
//               (benches/results/h100-2026-11-27b). Repeat: cargo run --release --example arrays_speed -- full.
// References    Gomez-Luna et al., An optimized approach to histogram computation on GPU, Machine Vision and Applications 24 (2013).
var<workgroup> counts: array<atomic<u32>, max(WORDS, 1u)>;

fn count(bin: u32, copy: u32) {
    if bin < params.bins {
        if WORDS > 0u {
            atomicAdd(&counts[bin * params.copies + copy], 1u);
        } else {
            atomicAdd(&y[params.y_base + bin], 1u);
        }
    }
}

fn count4(quad: Quad, copy: u32) {
    count(bin_of(quad.x), copy);
    count(bin_of(quad.y), copy);
    count(bin_of(quad.z), copy);
    count(bin_of(quad.w), copy);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group: vec3<u32>, @builtin(local_invocation_index) thread: u32) {
    let copy = thread & (params.copies - 1u);
    // Phase 1.
    let used = min(WORDS, params.bins * params.copies);
    for (var word = thread; word < used; word += THREADS) { atomicStore(&counts[word], 0u); }
    workgroupBarrier(); // nothing is counted yet
    // Phase 2.
    var at = group.x * THREADS + thread;
    while at + (ITEMS - 1u) * params.step < params.quads {
        // All loads first: counting branches.
        var taken: array<Quad, ITEMS>;
        for (var i = 0u; i < ITEMS; i++) { taken[i] = load4_x(params.first + at + i * params.step); }
        for (var i = 0u; i < ITEMS; i++) { count4(taken[i], copy); }
        at += ITEMS * params.step;
    }
    while at < params.quads {
        count4(load4_x(params.first + at), copy);
        at += params.step;
    }
    // Elements before the first whole quad and behind the last one.
    if group.x == 0u && thread < params.head + params.tail {
        let behind = 4u * (params.first + params.quads) + (thread - params.head);
        count(bin_of(load_x(select(behind, params.x_base + thread, thread < params.head))), copy);
    }
    // Phase 3.
    workgroupBarrier(); // all are counted
    for (var bin = thread; bin < min(WORDS, params.bins); bin += THREADS) {
        var total = 0u;
        // Threads begin with different copies, for the banks' sake.
        for (var i = 0u; i < params.copies; i++) {
            total += atomicLoad(&counts[bin * params.copies + ((i + thread) & (params.copies - 1u))]);
        }
        if total > 0u { atomicAdd(&y[params.y_base + bin], total); }
    }
}
