// Computes      y[.., p, ..] = s[.., i, ..] for every place p of a line that is named, i the last position that names it.
// Algorithm     positions of a line are sorted by the place that they name; one whose neighbour names the same place leaves it to that one.
// Tiling        THREADS words a workgroup.
// Mapping       word = global number: a pair, and of elements of two words one of them.
// Shared memory none.
// Traffic       every pair once, with its neighbour; of every place one element read and one written.
// Numerics      bits are kept.
// Requires      prelude: const THREADS, WORDS (of an element); struct Pair, var pairs; source_of; load_s, store_y; struct Params.
// Measured      not measured.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.y * groups.x + group.x) * THREADS + thread;
    if i >= params.total { return; }
    let n = i / WORDS;
    let pair = pairs[n];
    if pair.key >= params.extent { return; }
    if n % params.count + 1u < params.count { if pairs[n + 1u].key == pair.key { return; } }
    let row = n / params.count;
    let source = source_of(row) + pair.place * params.s_stride;
    let to = params.y_base + row / params.inner * params.y_line + row % params.inner + pair.key * params.inner;
    store_y(to * WORDS + i % WORDS, load_s(source * WORDS + i % WORDS));
}
