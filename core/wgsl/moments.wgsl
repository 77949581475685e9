// Computes      count, mean and sum of squared differences from the mean, of two sets taken together.
// Algorithm     the pairwise update of Chan, Golub and LeVeque (Stanford STAN-CS-79-773), of which one of the sets has one element where elements are
//               taken up (Welford, Technometrics 4, 1962). No difference of two large sums.
// Tiling        that of reduce_rows.wgsl and reduce_columns.wgsl, which call it.
// Mapping       one set, or a vector of them, a thread.
// Shared memory none.
// Traffic       none.
// Numerics      the mean is moved by a part of a difference; an empty set changes nothing, whatever the other holds.
// Requires      prelude: struct SET of count, mean and squares; Count, the type of its count.
fn FUNCTION(a: SET, b: SET) -> SET {
    let count = a.count + b.count;
    let part = select(b.count / count, Count(), count == Count());
    let d = b.mean - a.mean;
    // Weighed before it is squared: of an empty set it is 0 then, however large.
    return SET(count, a.mean + d * part, a.squares + b.squares + d * (a.count * part) * d);
}
