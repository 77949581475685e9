// Computes      y[.., p, ..] = what `combine` makes of it and s[.., i, ..], position by position, for every place p of a line that is named.
// Algorithm     positions of a line are sorted by the place that they name; the first of a place combines those behind it until another begins.
// Tiling        THREADS pairs a workgroup.
// Mapping       pair = global number.
// Shared memory none.
// Traffic       every pair once or twice; every element named once; every named place read and written once.
// Numerics      in the order of the positions, in the computed type, rounded once.
// Requires      prelude: const THREADS; alias Value; struct Pair, var pairs; source_of, combine; load_s, load_y, store_y; struct Params.
// Measured      not measured.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.y * groups.x + group.x) * THREADS + thread;
    if i >= params.total { return; }
    let pair = pairs[i];
    if pair.key >= params.extent { return; }
    let line = i - i % params.count;
    if i > line { if pairs[i - 1u].key == pair.key { return; } }
    let row = i / params.count;
    let source = source_of(row);
    let to = params.y_base + row / params.inner * params.y_line + row % params.inner + pair.key * params.inner;
    var value: Value = load_y(to);
    var at = i;
    var place = pair.place;
    loop {
        let other = load_s(source + place * params.s_stride);
        value = combine(value, other);
        at++;
        if at - line >= params.count { break; }
        let next = pairs[at];
        if next.key != pair.key { break; }
        place = next.place;
    }
    store_y(to, value);
}
