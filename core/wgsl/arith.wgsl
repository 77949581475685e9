// Exact functions: comparisons, extrema, integer division, conversions. `src/math.rs` takes what a kernel names.
// NaN, infinities and zeros are told apart by their bits, because a WGSL compiler may assume floats are finite.
// Conditions on floats are joined by `&` and `|`, which branch nowhere; `&&` and `||` may.

fn is_nan_f32(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) > 0x7f800000u;
}

// A NaN made from `x` at run time: WGSL has no literal for one.
fn nan_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) | 0x7fc00000u);
}

// An infinity with the sign of `x`.
fn inf_f32(x: f32) -> f32 {
    return bitcast<f32>((bitcast<u32>(x) & 0x80000000u) | 0x7f800000u);
}

// The magnitude of `x` with the sign of `s`.
fn copysign_f32(x: f32, s: f32) -> f32 {
    return bitcast<f32>((bitcast<u32>(x) & 0x7fffffffu) | (bitcast<u32>(s) & 0x80000000u));
}

// `x`, which is not negative nor -0, with the sign of `s`. By exclusive or: of the sum of a term and a function that ends in
// copysign_f32, LLVM 15 as llvmpipe (Mesa 22.3.6) runs it loses the function in every fourth element.
fn signed_f32(x: f32, s: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ (bitcast<u32>(s) & 0x80000000u));
}

// An integer that orders as floats do, both zeros equal. NaN has no place in it.
fn order_f32(x: f32) -> i32 {
    let bits = bitcast<i32>(x);
    return select(bits, -(bits & 0x7fffffff), bits < 0);
}

// The same with -0 just below +0.
fn total_order_f32(x: f32) -> i32 {
    let bits = bitcast<i32>(x);
    return select(bits, bits ^ 0x7fffffff, bits < 0);
}

fn comparable_f32(a: f32, b: f32) -> bool {
    return !(is_nan_f32(a) | is_nan_f32(b));
}

fn eq_f32(a: f32, b: f32) -> bool {
    return comparable_f32(a, b) & (order_f32(a) == order_f32(b));
}

fn ge_f32(a: f32, b: f32) -> bool {
    return comparable_f32(a, b) & (order_f32(a) >= order_f32(b));
}

fn gt_f32(a: f32, b: f32) -> bool {
    return comparable_f32(a, b) & (order_f32(a) > order_f32(b));
}

fn le_f32(a: f32, b: f32) -> bool {
    return comparable_f32(a, b) & (order_f32(a) <= order_f32(b));
}

fn lt_f32(a: f32, b: f32) -> bool {
    return comparable_f32(a, b) & (order_f32(a) < order_f32(b));
}

fn ne_f32(a: f32, b: f32) -> bool {
    return !eq_f32(a, b);
}

fn max_f32(a: f32, b: f32) -> f32 {
    return select(nan_f32(a), select(b, a, total_order_f32(a) > total_order_f32(b)), comparable_f32(a, b));
}

fn min_f32(a: f32, b: f32) -> f32 {
    return select(nan_f32(a), select(b, a, total_order_f32(a) < total_order_f32(b)), comparable_f32(a, b));
}

fn abs_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) & 0x7fffffffu);
}

fn neg_f32(x: f32) -> f32 {
    return bitcast<f32>(bitcast<u32>(x) ^ 0x80000000u);
}

fn ceil_f32(x: f32) -> f32 {
    return copysign_f32(ceil(x), x);
}

fn floor_f32(x: f32) -> f32 {
    return copysign_f32(floor(x), x);
}

// Halves to even, as the builtin is defined.
fn round_f32(x: f32) -> f32 {
    return copysign_f32(round(x), x);
}

fn relu_f32(x: f32) -> f32 {
    // Negative and not NaN: bits in 0x80000001 ..= 0xff800000. -0 stays.
    return select(x, 0.0, bitcast<u32>(x) - 0x80000001u < 0x7f800000u);
}

fn sign_f32(x: f32) -> f32 {
    let kept = is_nan_f32(x) | ((bitcast<u32>(x) & 0x7fffffffu) == 0u);
    return select(copysign_f32(1.0, x), x, kept);
}

fn bool_from_f32(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) != 0u;
}

// Toward zero, within the bounds of the type; NaN gives 0.
fn i32_from_f32(x: f32) -> i32 {
    let y = select(x, 0.0, is_nan_f32(x));
    return select(select(i32(y), 2147483647, y >= 2147483648.0), i32(-2147483647) - 1, y <= -2147483648.0);
}

fn u32_from_f32(x: f32) -> u32 {
    let y = select(x, 0.0, is_nan_f32(x));
    return select(select(u32(y), 4294967295u, y >= 4294967296.0), 0u, y <= 0.0);
}

fn i8_from_f32(x: f32) -> i32 {
    return clamp(i32_from_f32(x), -128, 127);
}

fn u8_from_f32(x: f32) -> u32 {
    return min(u32_from_f32(x), 255u);
}

fn i16_from_f32(x: f32) -> i32 {
    return clamp(i32_from_f32(x), -32768, 32767);
}

fn u16_from_f32(x: f32) -> u32 {
    return min(u32_from_f32(x), 65535u);
}

fn i64_from_f32(x: f32) -> i64 {
    if is_nan_f32(x) { return 0li; }
    if x >= 9223372036854775808.0 { return 9223372036854775807li; }
    if x <= -9223372036854775808.0 { return -9223372036854775807li - 1li; }
    return i64(x);
}

fn u64_from_f32(x: f32) -> u64 {
    if is_nan_f32(x) || x <= 0.0 { return 0lu; }
    if x >= 18446744073709551616.0 { return 0xfffffffffffffffflu; }
    return u64(x);
}

// The nearest f32, where a device's own conversion may give either neighbour: both halves are exact, as is the product with a
// power of two, so that the sum alone rounds.
fn f32_from_u32(x: u32) -> f32 {
    return f32(x >> 16u) * 65536.0 + f32(x & 0xffffu);
}

// The shift keeps the sign.
fn f32_from_i32(x: i32) -> f32 {
    return f32(x >> 16u) * 65536.0 + f32(x & 0xffff);
}

// An f32 that rounds to bf16 as the integer itself does: what f32 cannot hold is kept as a sticky bit.
fn bf16_from_u32(x: u32) -> f32 {
    let sticky = (x & 0xffffff00u) | select(0u, 0x100u, (x & 0xffu) != 0u);
    return f32(select(sticky, x, x < 0x1000000u));
}

fn bf16_from_i32(x: i32) -> f32 {
    let magnitude = bf16_from_u32(u32(abs(x)));
    return select(magnitude, -magnitude, x < 0);
}

// By the upper 32 bits and a sticky bit.
fn bf16_from_u64(x: u64) -> f32 {
    let upper = u32(x >> 32u);
    let lower = u32(x & 0xfffffffflu);
    if upper == 0u { return bf16_from_u32(lower); }
    // Up to 8 bits of `lower` may be wanted: bring the leading bit to the top first.
    let shift = countLeadingZeros(upper);
    let top = u32((x << shift) >> 32u);
    let rest = u32((x << shift) & 0xfffffffflu);
    return ldexp(bf16_from_u32(top | select(0u, 1u, rest != 0u)), 32 - i32(shift));
}

fn bf16_from_i64(x: i64) -> f32 {
    let magnitude = bf16_from_u64(select(u64(x), u64(-x), x < 0li));
    return select(magnitude, -magnitude, x < 0li);
}

// An f32 that rounds to a 16-bit float as the f64 itself does: rounded to odd (Boldo & Melquiond, 2008).
fn f32_to_odd(x: f64) -> f32 {
    let near = f32(x);
    let back = f64(near);
    let bits = bitcast<u32>(near);
    if back == x || !(x == x) || (bits & 1u) == 1u { return near; }
    return bitcast<f32>(select(bits - 1u, bits + 1u, abs(back) < abs(x)));
}

fn i32_from_f64(x: f64) -> i32 {
    if !(x == x) { return 0; }
    if x >= 2147483647.0lf { return 2147483647; }
    if x <= -2147483648.0lf { return i32(-2147483647) - 1; }
    return i32(x);
}

fn u32_from_f64(x: f64) -> u32 {
    if !(x > 0.0lf) { return 0u; }
    if x >= 4294967295.0lf { return 4294967295u; }
    return u32(x);
}

fn i8_from_f64(x: f64) -> i32 {
    return clamp(i32_from_f64(x), -128, 127);
}

fn u8_from_f64(x: f64) -> u32 {
    return min(u32_from_f64(x), 255u);
}

fn i16_from_f64(x: f64) -> i32 {
    return clamp(i32_from_f64(x), -32768, 32767);
}

fn u16_from_f64(x: f64) -> u32 {
    return min(u32_from_f64(x), 65535u);
}

fn i64_from_f64(x: f64) -> i64 {
    if !(x == x) { return 0li; }
    if x >= 9223372036854775807.0lf { return 9223372036854775807li; }
    if x <= -9223372036854775808.0lf { return -9223372036854775807li - 1li; }
    return i64(x);
}

fn u64_from_f64(x: f64) -> u64 {
    if !(x > 0.0lf) { return 0lu; }
    if x >= 18446744073709551615.0lf { return 0xfffffffffffffffflu; }
    return u64(x);
}

// a / 0 = a and MIN / -1 = MIN: both are a / 1.
fn div_i32(a: i32, b: i32) -> i32 {
    let plain = b != 0 && !(b == -1 && a == i32(-2147483647) - 1);
    return a / select(1, b, plain);
}

// a % 0 = MIN % -1 = 0.
fn rem_i32(a: i32, b: i32) -> i32 {
    let plain = b != 0 && b != -1;
    let divisor = select(1, b, plain);
    return a - (a / divisor) * divisor;
}

fn div_u32(a: u32, b: u32) -> u32 {
    return a / select(b, 1u, b == 0u);
}

fn rem_u32(a: u32, b: u32) -> u32 {
    return a % select(b, 1u, b == 0u);
}

fn div_i64(a: i64, b: i64) -> i64 {
    let plain = b != 0li && !(b == -1li && a == -9223372036854775807li - 1li);
    return a / select(1li, b, plain);
}

fn rem_i64(a: i64, b: i64) -> i64 {
    let plain = b != 0li && b != -1li;
    let divisor = select(1li, b, plain);
    return a - (a / divisor) * divisor;
}

fn div_u64(a: u64, b: u64) -> u64 {
    return a / select(b, 1lu, b == 0lu);
}

fn rem_u64(a: u64, b: u64) -> u64 {
    return a % select(b, 1lu, b == 0lu);
}

fn abs_i64(x: i64) -> i64 {
    return select(x, -x, x < 0li);
}

fn sign_i64(x: i64) -> i64 {
    return select(select(0li, 1li, x > 0li), -1li, x < 0li);
}

fn max_i64(a: i64, b: i64) -> i64 {
    return select(b, a, a > b);
}

fn min_i64(a: i64, b: i64) -> i64 {
    return select(b, a, a < b);
}

fn max_u64(a: u64, b: u64) -> u64 {
    return select(b, a, a > b);
}

fn min_u64(a: u64, b: u64) -> u64 {
    return select(b, a, a < b);
}

// The neighbour of a towards b among the numbers whose bits are multiples of `unit`, of one sign in order of their bits.
fn beside_f32(a: f32, b: f32, unit: u32) -> f32 {
    let bits = bitcast<u32>(a);
    let up = order_f32(b) > order_f32(a);
    let first = select(0x80000000u, 0u, up) | unit;
    let next = select(select(bits - unit, bits + unit, (bits < 0x80000000u) == up), first, (bits & 0x7fffffffu) == 0u);
    let beside = select(bitcast<f32>(next), b, order_f32(a) == order_f32(b));
    return select(nan_f32(a), beside, comparable_f32(a, b));
}

fn nextafter_f32(a: f32, b: f32) -> f32 {
    return beside_f32(a, b, 1u);
}

fn nextafter_bf16(a: f32, b: f32) -> f32 {
    return beside_f32(a, b, 0x10000u);
}

// Numbers of f16 are 2^-24 apart up to 2^-14, and end at 65504, which infinity follows.
fn nextafter_f16(a: f32, b: f32) -> f32 {
    let bits = bitcast<u32>(a);
    let size = bits & 0x7fffffffu;
    let up = order_f32(b) > order_f32(a);
    let negative = select(bits >= 0x80000000u, !up, size == 0u);
    let away = negative != up;
    let small = (size < 0x38800000u) | ((size == 0x38800000u) & !away);
    let near = bitcast<u32>(bitcast<f32>(size) + select(-0x1p-24f, 0x1p-24f, away));
    var next = select(select(size - 0x2000u, size + 0x2000u, away), near, small);
    next = select(select(next, 0x7f800000u, next == 0x47800000u), 0x477fe000u, size == 0x7f800000u);
    let beside = bitcast<f32>(next | select(0u, 0x80000000u, negative));
    return select(nan_f32(a), select(beside, b, order_f32(a) == order_f32(b)), comparable_f32(a, b));
}

fn nextafter_f64(a: f64, b: f64) -> f64 {
    let a_bits = bitcast<u64>(a);
    if !(a == a) { return a; }
    if !(b == b) || a == b { return b; }
    let up = b > a;
    if a == 0.0lf { return bitcast<f64>(select(0x8000000000000001lu, 1lu, up)); }
    return bitcast<f64>(select(a_bits - 1lu, a_bits + 1lu, ((a_bits >> 63u) == 0lu) == up));
}

// By the bits below the lowest that is set; 32 of 0.
fn trailing_zeros_u32(x: u32) -> u32 {
    return countOneBits((x - 1u) & ~x);
}

fn count_ones_i64(x: i64) -> i64 {
    let bits = u64(x);
    return i64(i32(countOneBits(u32(bits >> 32u)) + countOneBits(u32(bits & 0xfffffffflu))));
}

fn leading_zeros_i64(x: i64) -> i64 {
    return i64(i32(leading_zeros_u64(u64(x))));
}

fn trailing_zeros_i64(x: i64) -> i64 {
    let low = u32(u64(x) & 0xfffffffflu);
    return i64(i32(select(trailing_zeros_u32(low), 32u + trailing_zeros_u32(u32(u64(x) >> 32u)), low == 0u)));
}

// Places that no bit has, negative ones among them, leave nothing but the sign.
fn shl_i32(a: i32, b: i32) -> i32 {
    let count = bitcast<u32>(b);
    return select(a << min(count, 31u), 0, count > 31u);
}

fn shr_i32(a: i32, b: i32) -> i32 {
    return a >> min(bitcast<u32>(b), 31u);
}

fn shl_u32(a: u32, b: u32) -> u32 {
    return select(a << min(b, 31u), 0u, b > 31u);
}

fn shr_u32(a: u32, b: u32) -> u32 {
    return select(a >> min(b, 31u), 0u, b > 31u);
}

fn shl_i64(a: i64, b: i64) -> i64 {
    if b < 0li || b > 63li { return 0li; }
    return a << u32(b);
}

fn shr_i64(a: i64, b: i64) -> i64 {
    if b < 0li || b > 63li { return a >> 63u; }
    return a >> u32(b);
}

fn shl_u64(a: u64, b: u64) -> u64 {
    if b > 63lu { return 0lu; }
    return a << u32(b);
}

fn shr_u64(a: u64, b: u64) -> u64 {
    if b > 63lu { return 0lu; }
    return a >> u32(b);
}
