// What follows from the extremes of two operands, as f32, for their product in f16: `matmul/coop/range.rs`.
// An extreme is (bits of the largest magnitude, bits less 1 of the smallest that is not 0; ~0 when all are 0).

fn exponent(bits: u32) -> i32 {
    return i32(bits >> 23u) - 127;
}

// 2^e, for e of a normal number.
fn power(e: i32) -> u32 {
    return u32(e + 127) << 23u;
}

// The exponent of the scale that puts the largest magnitude into [2^14, 2^15).
fn shift(extremes: vec2<u32>) -> i32 {
    return select(14 - exponent(extremes.x), 0, extremes.x == 0u);
}

// No infinity, no NaN, no subnormal number, scales that are normal numbers, and the smallest magnitude large enough.
fn fits(extremes: vec2<u32>) -> bool {
    let e = exponent(extremes.x);
    let least = exponent(extremes.y + 1u);
    return extremes.x == 0u || (e >= -100 && e <= 100 && least > -127 && least + shift(extremes) >= params.least);
}

fn decide(of_a: vec2<u32>, of_b: vec2<u32>) {
    let a = shift(of_a);
    let b = shift(of_b);
    // The way back must be a normal number too.
    let usable = fits(of_a) && fits(of_b) && abs(a + b) <= 120;
    info[0] = select(0u, 1u, usable);
    info[1] = select(power(0), power(a), usable);
    info[2] = select(power(0), power(b), usable);
    info[3] = select(power(0), power(-a - b), usable);
}
