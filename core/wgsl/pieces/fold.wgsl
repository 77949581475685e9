// Pieces: functions that the loops of reduce_rows.wgsl and reduce_columns.wgsl call, where folds agree on them: Acc is an accumulator, Wide what
// a thread holds, a vector of them or one.

//# absorb: where elements read are accumulators already
fn absorb(held: Wide, x: Wide) -> Wide { return combine_wide(held, x); }

//# one: where Wide is Acc
fn narrow(w: Wide) -> Acc { return w; }
fn masked(w: Wide, live: u32) -> Wide { return w; }

//# combine: by one expression, of one accumulator and of vectors of them
alias Acc = $acc;
alias Wide = $wide;
fn wide_identity() -> Wide { return Wide($identity); }
fn combine(a: Acc, b: Acc) -> Acc { return $combined; }
fn combine_wide(a: Wide, b: Wide) -> Wide { return $combined; }

//# quad: where Wide is four Acc
fn narrow(w: Wide) -> Acc { return combine(combine(w.x, w.y), combine(w.z, w.w)); }
fn masked(w: Wide, live: u32) -> Wide {
    return select(wide_identity(), w, vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(live));
}

//# read
fn read_at(at: u32, place: u32) -> Wide { return $value; }

//# states: that an earlier pass left
@group(0) @binding(1) var<storage, read> x: array<$state>;
fn read_at(at: u32, place: u32) -> Wide { return x[at]; }

//# write row
fn write_at(index: u32, v: Acc) { $write; }

//# write column
fn write_wide(index: u32, v: Wide) { $write; }

//# write columns
fn write_wide(index: u32, v: Wide) {
    $writes
}

//# store columns
fn write_wide(index: u32, v: Wide) {
    let first = params.target_base + 4u * index;
    $writes
}

//# out_of
fn out_of(index: u32) -> u32 { return index; }
