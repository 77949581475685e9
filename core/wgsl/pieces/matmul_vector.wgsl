// Pieces: results of a matrix times a vector, for the loops of reduce_rows.wgsl and reduce_columns.wgsl.

//# write row
fn write_at(index: u32, v: Acc) { store_y(params.target_base + index, v); }

//# write column
fn write_wide(index: u32, v: Wide) { store_y(params.target_base + index, v); }

//# write columns
fn write_wide(index: u32, v: Wide) {
    let first = params.target_base + 4u * index;
    store_y(first + 0u, v[0]);
    store_y(first + 1u, v[1]);
    store_y(first + 2u, v[2]);
    store_y(first + 3u, v[3]);
}
