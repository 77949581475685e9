// f32 functions by range reduction and minimax polynomials (Remez exchange, weighted for relative error; coefficients
// derived for this file). The errors they keep are promised in core/src/expr/unary.rs and binary.rs. Not built on the
// WGSL functions of the same names: those may be off by 3 + 2|x| ULP (exp), 2^-11 absolutely (sin) or stop at 2^7 pi.
// Products of the reductions are exact, so that nothing depends on whether a compiler fuses them with the additions.
//
// Without branches: every case is computed and selected from, because a branch costs a GPU more than the few
// instructions it leaves out, and memory waits for neither. What is special is told apart by bits (arith.wgsl).

fn sqrt_f32(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    // Zeros and +inf as they are; NaN and what is below 0 becomes NaN.
    let kept = ((bits & 0x7fffffffu) == 0u) | (bits == 0x7f800000u);
    let special = bitcast<f32>(bits | select(0x7fc00000u, 0u, kept));
    return select(special, sqrt(x), bits - 1u < 0x7f7fffffu);
}

fn rsqrt_f32(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let special = select(select(nan_f32(x), 0.0, bits == 0x7f800000u), inf_f32(x), (bits & 0x7fffffffu) == 0u);
    return select(special, inverseSqrt(x), bits - 1u < 0x7f7fffffu);
}

// WGSL promises division for divisors up to 2^126 only: above, both operands are scaled.
fn div_f32(a: f32, b: f32) -> f32 {
    let scale = select(1.0, 0x1p-32f, (bitcast<u32>(b) & 0x7fffffffu) > 0x7e000000u);
    return (a * scale) / (b * scale);
}

fn reciprocal_f32(x: f32) -> f32 {
    return div_f32(1.0, x);
}

// The integer n, |n| < 2^22, as the low bits of a word: an addition, where a conversion has to look at its range.
fn low_bits_f32(n: f32) -> u32 {
    return bitcast<u32>(n + 12582912.0); // 1.5 * 2^23, a multiple of 2^9 in bits
}

// 2^n for integers n in -126 ..= 127.
fn power_of_two_f32(n: f32) -> f32 {
    return bitcast<f32>((low_bits_f32(n) << 23u) + 0x3f800000u);
}

// m * 2^n for integers n in -250 ..= 250, m normal where n is not 0: floor(n / 2) is added to the exponent, which is
// exact, and one product by the rest rounds, overflows and underflows. Not two products: a compiler that reassociates
// would multiply the powers of two first.
fn scaled_f32(m: f32, n: f32) -> f32 {
    let bits = low_bits_f32(n);
    let half = (bits << 22u) & 0xff800000u;
    return bitcast<f32>(bitcast<u32>(m) + half) * bitcast<f32>((bits << 23u) + 0x3f800000u - half);
}

// e^r - 1 for |r| <= ln(2) / 2, as r + r^2 P(r); |P's relative error| < 2^-28.
fn expm1_reduced_f32(r: f32) -> f32 {
    var p = 0.0013814217;
    p = p * r + 0.008369209;
    p = p * r + 0.041668415;
    p = p * r + 0.16666517;
    p = p * r + 0.49999994;
    return r + (r * r) * p;
}

// x - n ln 2. ln 2 = 355/512 - 2.12e-4: n * 355/512 is exact.
fn reduce_ln2_f32(x: f32, n: f32) -> f32 {
    return (x - n * 0.693359375) + n * 2.12194440e-4;
}

// e^x for -200 <= x <= 150.
fn exp_inside_f32(x: f32) -> f32 {
    let n = round(x * 1.44269504);
    return scaled_f32(1.0 + expm1_reduced_f32(reduce_ln2_f32(x, n)), n);
}

// e^x - 1 for -80 <= x <= 80: 2^n (e^r - 1) + (2^n - 1), which keeps its digits near 0.
fn expm1_inside_f32(x: f32) -> f32 {
    let n = round(x * 1.44269504);
    let power = power_of_two_f32(n);
    return power * expm1_reduced_f32(reduce_ln2_f32(x, n)) + (power - 1.0);
}

// 1/d for 1 <= d < 2^60, to 2 ULP: a division that is right everywhere takes a branch, or twice as long.
fn reciprocal_inside_f32(d: f32) -> f32 {
    let root = inverseSqrt(d);
    let near = root * root;
    return near + near * (1.0 - d * near); // one step of Newton's
}

// Odd functions that are x to the last bit below 2^-12, where flushed subnormals must not come in, and NaN of NaN.
fn is_tiny_or_nan_f32(x: f32) -> bool {
    return (bitcast<u32>(x) & 0x7fffffffu) - 0x39800000u > 0x46000000u; // below 0x39800000 it wraps
}

// e^x of an f16, good enough for a result that is rounded to f16 at once: the device's own exponential, which WGSL lets be
// off by 3 + 2|x| ULP of f32. For all f16 together that moves no rounding beyond the bound (math_tests.rs tries each).
fn exp_half_f32(x: f32) -> f32 {
    return select(exp(clamp(x, -40.0, 20.0)), x, is_nan_f32(x));
}

fn exp_f32(x: f32) -> f32 {
    // Beyond these the result is 0 or infinite.
    return select(exp_inside_f32(clamp(x, -110.0, 100.0)), x, is_nan_f32(x));
}

// 2^r = 1 + r P(r) for |r| <= 1/2; relative error < 2^-28.
fn exp2_f32(x: f32) -> f32 {
    let inside = clamp(x, -160.0, 140.0);
    let n = round(inside);
    let r = inside - n;
    var p = 0.00015352308;
    p = p * r + 0.0013400171;
    p = p * r + 0.00961845;
    p = p * r + 0.055503294;
    p = p * r + 0.24022648;
    p = p * r + 0.6931472;
    return select(scaled_f32(1.0 + r * p, n), x, is_nan_f32(x));
}

// Positive finite x as (m - 1, e) with x = m 2^e and m in [sqrt(1/2), sqrt(2)).
fn log_split_f32(x: f32) -> vec2<f32> {
    let bits = bitcast<u32>(x);
    // A subnormal is an integer times 2^-149; the integer is a normal number.
    let subnormal = bits < 0x800000u;
    let above = select(bits, bitcast<u32>(f32(bits)), subnormal) - 0x3f3504f3u; // the bits of sqrt(1/2)
    let exponent = (bitcast<i32>(above) >> 23u) + select(0, -149, subnormal);
    return vec2<f32>(bitcast<f32>((above & 0x7fffffu) + 0x3f3504f3u) - 1.0, f32(exponent));
}

// ln(1 + f) - f = -f^2/2 + f^3 P(f); error < 2^-27 |f|.
fn log_tail_f32(f: f32) -> f32 {
    var p = -0.07872806;
    p = p * f + 0.12900107;
    p = p * f - 0.1313224;
    p = p * f + 0.14178838;
    p = p * f - 0.16623998;
    p = p * f + 0.20002374;
    p = p * f - 0.25000826;
    p = p * f + 0.33333316;
    let z = f * f;
    return (f * z) * p - 0.5 * z;
}

// `value` where x is positive and finite, else what logarithms are there.
fn log_or_special_f32(x: f32, value: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let quiet = bits | select(0x7fc00000u, 0u, bits == 0x7f800000u); // +inf, else NaN
    let special = select(quiet, 0xff800000u, (bits & 0x7fffffffu) == 0u);
    return select(bitcast<f32>(special), value, bits - 1u < 0x7f7fffffu);
}

fn log_f32(x: f32) -> f32 {
    let s = log_split_f32(x);
    // e ln 2 in two parts, the first exact; the small terms are summed first.
    return log_or_special_f32(x, (s.x + (log_tail_f32(s.x) - s.y * 2.12194440e-4)) + s.y * 0.693359375);
}

// Of positive finite numbers.
fn log2_inside_f32(x: f32) -> f32 {
    let s = log_split_f32(x);
    return (s.x + log_tail_f32(s.x)) * 1.44269504 + s.y;
}

fn log2_f32(x: f32) -> f32 {
    return log_or_special_f32(x, log2_inside_f32(x));
}

// 2^(b log2 |a|) with the sign of an odd power, then IEEE 754's cases over it.
fn pow_f32(a: f32, b: f32) -> f32 {
    let a_bits = bitcast<u32>(a);
    let b_bits = bitcast<u32>(b);
    let a_size = a_bits & 0x7fffffffu;
    let b_size = b_bits & 0x7fffffffu;
    let a_negative = a_bits >= 0x80000000u;
    let magnitude = bitcast<f32>(b_size);
    let integer = floor(magnitude) == magnitude; // all from 2^23 on, and even ones from 2^24 on
    let odd = integer & !(floor(magnitude * 0.5) * 2.0 == magnitude);
    var value = exp2_f32(b * log2_inside_f32(bitcast<f32>(a_size)));
    let infinite_b = b_size == 0x7f800000u;
    // A base of 0 or infinity, an infinite power: towards 0 or infinity, whatever was computed.
    let limit = (a_size == 0u) | (a_size == 0x7f800000u) | infinite_b;
    let grows = (a_size > 0x3f800000u) != (b_bits >= 0x80000000u);
    value = select(value, bitcast<f32>(select(0u, 0x7f800000u, grows)), limit);
    value = bitcast<f32>(bitcast<u32>(value) | select(0u, 0x80000000u, a_negative & odd));
    let nan = (a_size > 0x7f800000u) | (b_size > 0x7f800000u) | (a_negative & !(integer | limit));
    value = select(value, nan_f32(a), nan);
    let one = (b_size == 0u) | (a_bits == 0x3f800000u) | ((a_size == 0x3f800000u) & infinite_b);
    return select(value, 1.0, one);
}

// Word `i` of 32 zero bits followed by the fraction of 2/pi.
fn two_over_pi_word(i: u32) -> u32 {
    switch i {
        case 1u: { return 0xa2f9836eu; }
        case 2u: { return 0x4e441529u; }
        case 3u: { return 0xfc2757d1u; }
        case 4u: { return 0xf534ddc0u; }
        case 5u: { return 0xdb629599u; }
        case 6u: { return 0x3c439041u; }
        case 7u: { return 0xfe5163abu; }
        case 8u: { return 0xdebbc561u; }
        default: { return 0u; }
    }
}

// The upper word of a * b.
fn mul_high(a: u32, b: u32) -> u32 {
    let low = (a & 0xffffu) * (b & 0xffffu);
    let upper = (a >> 16u) * (b & 0xffffu) + (low >> 16u);
    let lower = (a & 0xffffu) * (b >> 16u) + (upper & 0xffffu);
    return (a >> 16u) * (b >> 16u) + (upper >> 16u) + (lower >> 16u);
}

// (r, quadrant) with |x| = quadrant pi/2 + r modulo 2 pi, for 2^15 < |x| < inf: Payne & Hanek (1983) in integers.
// The significand times 96 bits of 2/pi, those that decide the product modulo 4.
fn reduce_large_f32(x: f32) -> vec2<f32> {
    let bits = bitcast<u32>(x) & 0x7fffffffu;
    let significand = (bits & 0x7fffffu) | 0x800000u;
    let exponent = (bits >> 23u) - 150u;         // |x| = significand 2^exponent, wrapped below 0
    let start = exponent + 30u;                  // bits of the padded fraction to leave out: those worth 4 and more
    let word = start / 32u;
    let shift = start % 32u;
    var window: array<u32, 3>;
    for (var i = 0u; i < 3u; i++) {
        let next = (two_over_pi_word(word + i + 1u) >> 1u) >> (31u - shift);
        window[i] = (two_over_pi_word(word + i) << shift) | next;
    }
    // The low 96 bits of significand * window, in units of 2^-94 quadrants.
    let low = significand * window[2];
    let middle_carry = mul_high(significand, window[2]);
    let middle = significand * window[1] + middle_carry;
    let carry = select(0u, 1u, middle < middle_carry);
    let high = significand * window[0] + mul_high(significand, window[1]) + carry;
    // The fraction's upper 64 bits, as a signed number around the nearest quadrant.
    var f_high = (high << 2u) | (middle >> 30u);
    var f_low = (middle << 2u) | (low >> 30u);
    var quadrant = high >> 30u;
    let negative = f_high >= 0x80000000u;
    if negative {
        quadrant += 1u;
        f_low = ~f_low + 1u;
        f_high = ~f_high + select(0u, 1u, f_low == 0u);
    }
    // Near a quadrant the leading bits vanish: shift them out before rounding to 24.
    let lead = min(countLeadingZeros(f_high), 31u);
    let top = (f_high << lead) | ((f_low >> 1u) >> (31u - lead));
    let fraction = f32(top) * power_of_two_f32(-32.0 - f32(lead));
    return vec2<f32>(select(fraction, -fraction, negative) * 1.57079633, f32(quadrant & 3u));
}

// (r, quadrant) with x = quadrant pi/2 + r modulo 2 pi, |r| <= pi/4, for x >= 0; Cody & Waite in four parts up to 2^15.
// r is NaN for NaN and infinities.
fn reduce_f32(x: f32) -> vec2<f32> {
    let n = round(x * 0.636619772);
    // pi/2 in parts of 9, 9, 9 and 24 bits: the first three products are exact for n < 2^15.
    var r = x - n * 1.5703125;
    r = r - n * 0.000483512878;
    r = r - n * 3.13855708e-07;
    r = r - n * 6.07710051e-11;
    var reduced = vec2<f32>(r, n);
    // The one branch of this file: hardly ever taken, and far too long to be computed in vain.
    if bitcast<u32>(x) > 0x47000000u {
        reduced = reduce_large_f32(x);
        reduced.x = select(reduced.x, nan_f32(x), bitcast<u32>(x) >= 0x7f800000u);
    }
    return reduced;
}

// sin of the reduced argument, `quadrant` (low bits) quarter turns on.
// sin r = r + r^3 P(r^2), relative error < 2^-27; cos r = 1 - r^2/2 + r^4 Q(r^2), < 2^-32.
fn sin_quadrant_f32(r: f32, quadrant: u32) -> f32 {
    let z = r * r;
    let s = r + (r * z) * ((-0.0001951084 * z + 0.008332131) * z - 0.16666654);
    let c = 1.0 - (0.5 * z - (z * z) * ((2.4425683e-05 * z - 0.0013887251) * z + 0.041666646));
    let value = select(s, c, (quadrant & 1u) == 1u);
    return bitcast<f32>(bitcast<u32>(value) ^ ((quadrant << 30u) & 0x80000000u));
}

// By the magnitude, so that zeros keep their sign.
fn sin_f32(x: f32) -> f32 {
    let reduced = reduce_f32(abs_f32(x));
    let value = sin_quadrant_f32(reduced.x, low_bits_f32(reduced.y));
    return bitcast<f32>(bitcast<u32>(value) ^ (bitcast<u32>(x) & 0x80000000u));
}

fn cos_f32(x: f32) -> f32 {
    let reduced = reduce_f32(abs_f32(x));
    return sin_quadrant_f32(reduced.x, low_bits_f32(reduced.y) + 1u);
}

// t / (t + 2) with t = e^2|x| - 1; 1 to the last bit from 9.02 on.
fn tanh_f32(x: f32) -> f32 {
    let t = expm1_inside_f32(2.0 * min(abs(x), 10.0));
    return select(signed_f32(t * reciprocal_inside_f32(t + 2.0), x), x, is_tiny_or_nan_f32(x));
}

// By e^-|x|, which cannot overflow.
fn sigmoid_f32(x: f32) -> f32 {
    let e = exp_inside_f32(max(-abs(x), -110.0));
    return select(select(e, 1.0, x >= 0.0) * reciprocal_inside_f32(1.0 + e), x, is_nan_f32(x));
}

// Far below 0, x e^x is normal where e^x is not: x goes in before the scaling. There 1 + e^x has long been 1.
fn silu_f32(x: f32) -> f32 {
    let below = max(-abs(x), -110.0);
    let n = round(below * 1.44269504);
    let m = 1.0 + expm1_reduced_f32(reduce_ln2_f32(below, n));
    let e = m * power_of_two_f32(max(n, -64.0));
    return select(select(scaled_f32(below * m, n), x, x >= 0.0) * reciprocal_inside_f32(1.0 + e), x, is_nan_f32(x));
}

// e^(a^2/2) (1 - Phi(a)) for 0 <= a <= 13.4, Phi the normal distribution; decreasing beyond. A quotient of polynomials, relative
// error < 2^-27; all coefficients are positive, so that nothing cancels.
fn normal_tail_f32(a: f32) -> f32 {
    let above = (((0.004028681 * a + 0.040041737) * a + 0.18147819) * a + 0.43591893) * a + 0.5;
    let below = ((((0.0100982655 * a + 0.100377046) * a + 0.46483275) * a + 1.1951982) * a + 1.6697228) * a + 1.0;
    return above * reciprocal_inside_f32(below);
}

// x Phi(x) below 0, where the tail keeps its digits, and x - x (1 - Phi(x)) above, both by |x| (1 - Phi(|x|)), with the
// sign of x. a^2/2 is split so that no rounding of it is magnified by the exponential: e^-(high + low) = 2^-n e^-r, by the
// device's exp2, which WGSL makes good to 4 ULP for so small an argument. From n = 127 on nothing is left.
fn gelu_f32(x: f32) -> f32 {
    let a = min(abs(x), 16.0);
    let upper = bitcast<f32>(bitcast<u32>(a) & 0xfffff000u); // 12 bits: its square is exact
    let half = 0.5 * upper;
    let high = half * upper;
    let low = (a - upper) * (0.5 * a + half);
    let n = round((high + low) * 1.44269504);
    let r = reduce_ln2_f32(high, n) + low;
    let power = bitcast<f32>(low_bits_f32(127.0 - min(n, 127.0)) << 23u);
    let tail = (a * normal_tail_f32(a)) * exp2(r * -1.44269504) * power;
    return select(signed_f32(select(tail, abs(x) - tail, x >= 0.0), x), x, is_nan_f32(x));
}

// 1 - e^-t, t = -ln(1 - erf |x|) = |x| P(|x|) for |x| <= 3.95; relative error of the result < 2^-27. 1 to the last bit
// from 3.84 on, 2x / sqrt(pi) to 2^-25 below 2^-12.
fn erf_f32(x: f32) -> f32 {
    let a = min(abs(x), 3.95);
    var p = -9.256263235e-6;
    p = p * a + 0.0001176415314;
    p = p * a - 0.0006328384521;
    p = p * a + 0.001667031026;
    p = p * a - 0.0001603996898;
    p = p * a - 0.01915306224;
    p = p * a + 0.1027778302;
    p = p * a + 0.636619382;
    p = p * a + 1.128379172;
    return select(signed_f32(-expm1_inside_f32(-(a * p)), x), x * 1.12837917, is_tiny_or_nan_f32(x));
}
