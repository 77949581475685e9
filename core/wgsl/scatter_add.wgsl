// Computes      y[r, c] = sum of x[i, c] over the positions i that name r, for every r that is named; the others are zero already.
// Algorithm     positions are sorted by the row that they name: the first of a row adds up those behind it until another row begins, DEPTH
//               loaded at once.
// Tiling        THREADS / lanes positions a workgroup.
// Mapping       unit = workgroup * (THREADS / lanes) + thread / lanes: position unit / runs, and run of columns unit % runs; of a run a lane owns
//               every lanes-th column.
// Shared memory none.
// Traffic       every value once, every sum once; a pair for each lane.
// Numerics      one sum in the order of the positions, in the computed type.
// Requires      prelude: Params; const THREADS, COLUMNS, DEPTH; alias Sum; struct Pair, var pairs; load_x, store_y.
// Measured      not measured.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let workgroup = group.y * groups.x + group.x;
    let unit = workgroup * (THREADS / params.lanes) + thread / params.lanes;
    let own = unit / params.runs;
    if own >= params.positions { return; }
    let pair = pairs[own];
    if pair.key >= params.rows { return; }
    if own > 0u { if pairs[own - 1u].key == pair.key { return; } }
    let first = unit % params.runs * params.lanes * COLUMNS + thread % params.lanes;
    var sums: array<Sum, COLUMNS>;
    var start = own;
    var more = true;
    while more {
        // The next DEPTH positions of the row; all their loads are under way before one is added.
        var taken: array<u32, DEPTH>;
        var found = 0u;
        for (var i = 0u; i < DEPTH; i++) {
            taken[i] = pair.place;
            if found == i && start + i < params.positions {
                let next = pairs[start + i];
                if next.key == pair.key {
                    taken[i] = next.place;
                    found++;
                }
            }
        }
        for (var column = 0u; column < COLUMNS; column++) {
            let c = first + column * params.lanes;
            if c < params.row {
                var values: array<Sum, DEPTH>;
                for (var i = 0u; i < DEPTH; i++) { values[i] = load_x(params.x_offset + taken[i] * params.x_stride + c); }
                for (var i = 0u; i < DEPTH; i++) { sums[column] += select(Sum(), values[i], i < found); }
            }
        }
        more = found == DEPTH;
        start += DEPTH;
    }
    for (var column = 0u; column < COLUMNS; column++) {
        let c = first + column * params.lanes;
        if c < params.row { store_y(params.y_offset + pair.key * params.row + c, sums[column]); }
    }
}
