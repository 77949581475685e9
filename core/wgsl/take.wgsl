// Computes      y[i, c] = x[at[i], c], or the number that stands for a row that is not there.
// Algorithm     one item an invocation: an element, or four where all rows start at multiples of four.
// Tiling        THREADS items a workgroup.
// Mapping       item = global number; its position and its column by division.
// Shared memory none.
// Traffic       every item of the output written, one read for each that there is; an index is read by each item of its row.
// Numerics      bits are kept.
// Requires      prelude: Params; const THREADS; load_item, store_item, load_at; missing(column), what stands there without a row.
// Measured      not measured.

@compute @workgroup_size(THREADS)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) thread: u32,
) {
    let i = (group.y * groups.x + group.x) * THREADS + thread;
    if i >= params.items { return; }
    let position = i / params.row;
    let column = i - position * params.row;
    // A negative index is a large number, and no row.
    let row = load_at(params.at_offset + position);
    var value = missing(column);
    if row < params.rows { value = load_item(params.x_offset + row * params.x_stride + column); }
    store_item(params.y_offset + i, value);
}
