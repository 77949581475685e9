// Pieces: what a reduction makes of elements and results, for the loops of reduce_rows.wgsl and reduce_columns.wgsl.

//# lift truth
fn lift(x: $x) -> Wide {
    let is_set: $of_truth = $set;
    return select(Wide(0u), Wide(1u), is_set);
}

//# lift f64: bits order as numbers do, but for those of negative ones, and NaN
fn lift(bits: Wide) -> Wide {
    let magnitude = bits & Wide(9223372036854775807li);
    let key = select(bits, bits ^ Wide(9223372036854775807li), bits < Wide(0li));
    return select(key, Wide($nan), magnitude > Wide(0x7ff0000000000000li));
}

//# lift float
fn lift(bits: Wide) -> Wide {
    let magnitude = bits & Wide(0x7fffffffu);
    let key = select(bits | Wide(0x80000000u), ~bits, bits != magnitude);
    return select(key, Wide($nan), magnitude > Wide(0x7f800000u));
}

//# bits_of: the way back
fn bits_of(key: $ty) -> $ty {
    return select(~key, key & $ty(0x7fffffffu), key >= $ty(0x80000000u));
}

//# write one
fn $name(index: u32, v: $ty) {
    let at = params.target_base + index;
    $store(at, $value);
}

//# write spread: the output begins between two quads
fn $name(index: u32, v: $ty) {
    let at = params.target_base + index;
    let first = params.target_base + 4u * index;
    let result = $value;
    store_y(first + 0u, result[0]);
    store_y(first + 1u, result[1]);
    store_y(first + 2u, result[2]);
    store_y(first + 3u, result[3]);
}
