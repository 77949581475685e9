// Pieces of a map kernel before map.wgsl or map_update.wgsl: see core/src/ops/map/plan/text.rs, which writes the steps of the program.

//# opaque f32: x behind an operation that changes nothing, as a compiler cannot know (core/src/ops/map/plan/guards.rs)
fn opaque_f32(x: f32, zero: u32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ zero);
}


//# opaque f64
fn opaque_f64(x: f64, zero: u32) -> f64 {
    return bitcast<f64>(bitcast<u64>(x) ^ u64(zero));
}


//# opaque f64 by choice: where there are no 64-bit integers
fn opaque_f64(x: f64, zero: u32) -> f64 {
    return select(x, f64(zero), zero != 0u);
}


//# body: one element of the result from one element of each input
fn body($parameters) -> $results {
    $steps
    return $value;
}


//# quad: every input gives a whole quad, or one value for it
fn quad(q: u32) -> $quad {
    $loads
    $lanes
}


//# lanes
    return $vector(
        $calls
    );

//# lanes of several results
    $calls
    return Quad(
        $quads
    );

//# element: where rows end inside quads, each element finds its own coordinates; behind the last one it is evaluated again
fn element(at: u32$parameters) -> $results {
    let index = min(at, params.last);
    $coordinates
    return body($arguments);
}


//# stores
fn write_quad$suffix(q: u32, v: $vector) { store4_$y(params.${y}_offset / 4u + q, v); }
fn write_tail$suffix(q: u32, v: $vector, count: u32) {
    store_tail_$y(params.${y}_offset / 4u + q, v, count);
}


//# stores of elements
fn write_quad$suffix(q: u32, v: $vector) { write_tail$suffix(q, v, 4u); }
fn write_tail$suffix(q: u32, v: $vector, count: u32) {
    let at = params.${y}_offset + 4u * q;
    if count > 0u { store_$y(at + 0u, v.x); }
    if count > 1u { store_$y(at + 1u, v.y); }
    if count > 2u { store_$y(at + 2u, v.z); }
    if count > 3u { store_$y(at + 3u, v.w); }
}


//# stores of several results
fn write_quad(q: u32, v: Quad) { $quads }
fn write_tail(q: u32, v: Quad, count: u32) { $tails }
