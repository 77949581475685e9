// Computes      index[g] = (first tile, first row) of every group g, of the rows that no group owns (g = groups), and behind them
//               (tiles, rows) of all: group g owns the rows from the largest end before it up to its own.
// Algorithm     1. each thread the largest end of a run of groups; 2. where its run begins, from those before; 3. the tiles of its
//               run; 4. the tiles before it; 5. the table.
// Tiling        one workgroup, a run of ceil(groups / THREADS) groups a thread.
// Mapping       thread t owns groups t * run to t * run + run - 1; the last one also the rest.
// Shared memory 4 bytes a thread.
// Traffic       every end read three times, from caches but for the first; 8 bytes a group written.
// Numerics      integers; a group is cut into tiles of params.height rows by itself.
// Requires      prelude: const THREADS; end_of; Params; index.
// Measured      not measured.

var<workgroup> of_threads: array<u32, THREADS>;

// Where group `group` ends, when those before it end at `start`.
fn end_from(start: u32, group: u32) -> u32 {
    return clamp(end_of(group), start, params.m);
}

fn tiles_of(rows: u32) -> u32 {
    return (rows + params.height - 1u) / params.height;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(local_invocation_index) thread: u32) {
    let run = (params.groups + THREADS - 1u) / THREADS;
    let first = min(thread * run, params.groups);
    let last = min(first + run, params.groups);
    // Phase 1.
    var top = 0u;
    for (var group = first; group < last; group++) { top = end_from(top, group); }
    // Phase 2.
    of_threads[thread] = top;
    for (var reach = 1u; reach < THREADS; reach *= 2u) {
        workgroupBarrier(); // the values of the round before are there
        if thread >= reach { top = max(top, of_threads[thread - reach]); }
        workgroupBarrier(); // and have been read
        of_threads[thread] = top;
    }
    workgroupBarrier(); // the largest ends are there
    var start = 0u;
    if thread > 0u { start = of_threads[thread - 1u]; }
    workgroupBarrier(); // and have been read
    // Phase 3.
    let begin = start;
    var tiles = 0u;
    for (var group = first; group < last; group++) {
        let end = end_from(start, group);
        tiles += tiles_of(end - start);
        start = end;
    }
    // Phase 4.
    var sum = tiles;
    of_threads[thread] = sum;
    for (var reach = 1u; reach < THREADS; reach *= 2u) {
        workgroupBarrier(); // the values of the round before are there
        if thread >= reach { sum += of_threads[thread - reach]; }
        workgroupBarrier(); // and have been read
        of_threads[thread] = sum;
    }
    // Phase 5.
    var tile = sum - tiles;
    start = begin;
    for (var group = first; group < last; group++) {
        index[group] = vec2<u32>(tile, start);
        let end = end_from(start, group);
        tile += tiles_of(end - start);
        start = end;
    }
    if thread == THREADS - 1u {
        index[params.groups] = vec2<u32>(tile, start);
        index[params.groups + 1u] = vec2<u32>(tile + tiles_of(params.m - start), params.m);
    }
}
