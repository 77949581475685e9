// Computes      count, mean and sum of squared differences from the mean, of two sets taken together; and of ITEMS elements and a set.
// Algorithm     the pairwise update of Chan, Golub and LeVeque (Stanford STAN-CS-79-773). Elements are made a set of their own first, whose count is
//               known: one division for ITEMS vectors of them. No difference of two large sums.
// Tiling        that of reduce_rows.wgsl and reduce_columns.wgsl, which call it.
// Mapping       one set, or a vector of them, a thread.
// Shared memory none.
// Traffic       none.
// Numerics      the mean is moved by a part of a difference; an empty set changes nothing, whatever the other holds.
// Requires      prelude: struct SET of count, mean and squares; Count, the type of its count; struct Wide, Values, ITEM_COUNT.
// Measured      not measured by itself: polywarp bench --only moments.
fn FUNCTION(a: SET, b: SET) -> SET {
    let count = a.count + b.count;
    let part = select(b.count / count, Count(), count == Count());
    let d = b.mean - a.mean;
    // From an empty set the difference is b's mean itself, whose square may be beyond all numbers.
    let spread = select(d * (a.count * part) * d, SET().squares, a.count == Count());
    return SET(count, a.mean + d * part, a.squares + b.squares + spread);
}

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
