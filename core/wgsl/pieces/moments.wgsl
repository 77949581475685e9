// Pieces: sets of elements, for the loops of reduce_rows.wgsl and reduce_columns.wgsl.
//
// Computes      count, mean and sum of squared differences from the mean, of two sets taken together; and of ITEMS elements and a set.
// Algorithm     the pairwise update of Chan, Golub and LeVeque (Stanford STAN-CS-79-773). Elements are made a set of their own first, whose count is
//               known: one division for ITEMS vectors of them. No difference of two large sums.
// Tiling        that of reduce_rows.wgsl and reduce_columns.wgsl, which call it.
// Mapping       one set, or a vector of them, a thread.
// Shared memory none.
// Traffic       none.
// Numerics      the mean is moved by a part of a difference; an empty set changes nothing, whatever the other holds.
// Requires      prelude: a struct of count, mean and squares; Count, the type of its count; struct Wide, Values, ITEM_COUNT.
// Measured      not measured by itself: polywarp bench --only moments.

//# types
alias Scalar = $scalar;
alias Values = $values;
alias Count = $count;
struct Acc { count: Scalar, mean: Scalar, squares: Scalar }
$wide
const ITEM_COUNT = $items;

//# combine
fn $function(a: $set, b: $set) -> $set {
    let count = a.count + b.count;
    let part = select(b.count / count, $count(), count == $count());
    let d = b.mean - a.mean;
    // From an empty set the difference is b's mean itself, whose square may be beyond all numbers.
    let spread = select(d * (a.count * part) * d, $set().squares, a.count == $count());
    return $set(count, a.mean + d * part, a.squares + b.squares + spread);
}


//# absorb elements
fn absorb_elements(held: Wide, taken: array<Wide, ITEMS>) -> Wide {
    var items = taken;
    var sum = items[0].mean;
    for (var i = 1u; i < ITEMS; i++) { sum += items[i].mean; }
    let mean = sum / ITEM_COUNT;
    var squares = Values();
    for (var i = 0u; i < ITEMS; i++) {
        let d = items[i].mean - mean;
        squares += d * d;
    }
    return combine_wide(held, Wide(Count(ITEM_COUNT), mean, squares));
}

//# identity
fn wide_identity() -> Wide { return Wide(); }

//# quad of row: four lanes of a row, joined at its end, those behind it left out
fn narrow(w: Wide) -> Acc {
    let low = combine(Acc(w.count.x, w.mean.x, w.squares.x), Acc(w.count.y, w.mean.y, w.squares.y));
    let high = combine(Acc(w.count.z, w.mean.z, w.squares.z), Acc(w.count.w, w.mean.w, w.squares.w));
    return combine(low, high);
}
fn masked(w: Wide, live: u32) -> Wide {
    let dead = vec4<u32>(0u, 1u, 2u, 3u) >= vec4<u32>(live);
    return Wide(select(w.count, Count(), dead), select(w.mean, Values(), dead), w.squares);
}

//# results
@group(0) @binding(2) var<storage, read_write> y: array<Scalar>;
@group(0) @binding(3) var<storage, read_write> z: array<Scalar>;
fn write_one(at: u32, v: Acc) {
    y[params.target_base + at] = v.mean;
    z[params.variance_base + at] = v.squares / v.count;
}

//# sets
@group(0) @binding(2) var<storage, read_write> y: array<Acc>;
fn write_one(at: u32, v: Acc) { y[params.target_base + at] = v; }
