// f32 functions by range reduction and minimax polynomials (Remez exchange, weighted for relative error; coefficients
// derived for this file). The errors they keep are promised in core/src/ops/unary.rs and binary.rs. Not built on the
// WGSL functions of the same names: those may be off by 3 + 2|x| ULP (exp), 2^-11 absolutely (sin) or stop at 2^7 pi.
// Products of the reductions are exact, so that nothing depends on whether a compiler fuses them with the additions.

fn sqrt_f32(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    if (bits & 0x7fffffffu) == 0u || bits == 0x7f800000u { return x; }
    if bits > 0x7f800000u { return nan_f32(x); }
    return sqrt(x);
}

fn rsqrt_f32(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    if (bits & 0x7fffffffu) == 0u { return inf_f32(x); }
    if bits == 0x7f800000u { return 0.0; }
    if bits > 0x7f800000u { return nan_f32(x); }
    return inverseSqrt(x);
}

// WGSL promises division for divisors up to 2^126 only: above, both operands are scaled.
fn div_f32(a: f32, b: f32) -> f32 {
    let scale = select(1.0, 0x1p-32f, (bitcast<u32>(b) & 0x7fffffffu) > 0x7e000000u);
    return (a * scale) / (b * scale);
}

fn reciprocal_f32(x: f32) -> f32 {
    return div_f32(1.0, x);
}

// 2^n for -126 <= n <= 127.
fn power_of_two_f32(n: i32) -> f32 {
    return bitcast<f32>((n + 127) << 23u);
}

// scale * m * 2^n by adding to the exponent; results outside the normal range take one product with 2^64 or 2^-64. Not
// by two powers of two: a compiler that reassociates multiplies those first, and their product overflows.
fn scaled_f32(scale: f32, m: f32, n: i32) -> f32 {
    let product = scale * m;
    let bits = bitcast<u32>(product);
    let exponent = i32((bits >> 23u) & 0xffu);
    if exponent == 0 { return product; } // from a subnormal argument: n is 0
    let moved = exponent + n;
    if moved > 0 && moved < 255 { return bitcast<f32>(bits + (bitcast<u32>(n) << 23u)); }
    let step = select(0, select(-64, 64, moved > 0), moved <= 0 || moved >= 255);
    return bitcast<f32>(bits + (bitcast<u32>(n - step) << 23u)) * power_of_two_f32(step);
}

// scale * e^(high + low), |low| small against |high|, high + low in -200 ..= 150.
// e^r = 1 + r + r^2 P(r) for |r| <= ln(2) / 2; |P's relative error| < 2^-28.
fn exp_scaled_f32(high: f32, low: f32, scale: f32) -> f32 {
    let n = round((high + low) * 1.44269504);
    // ln 2 = 355/512 - 2.12e-4: n * 355/512 is exact.
    let r = ((high - n * 0.693359375) + n * 2.12194440e-4) + low;
    var p = 0.0013814217;
    p = p * r + 0.008369209;
    p = p * r + 0.041668415;
    p = p * r + 0.16666517;
    p = p * r + 0.49999994;
    return scaled_f32(scale, 1.0 + (r + (r * r) * p), i32(n));
}

fn exp_f32(x: f32) -> f32 {
    if is_nan_f32(x) { return nan_f32(x); }
    // Beyond these the result is 0 or infinite.
    return exp_scaled_f32(clamp(x, -110.0, 100.0), 0.0, 1.0);
}

// 2^r = 1 + r P(r) for |r| <= 1/2; relative error < 2^-28.
fn exp2_f32(x: f32) -> f32 {
    if is_nan_f32(x) { return nan_f32(x); }
    let inside = clamp(x, -160.0, 140.0);
    let n = round(inside);
    let r = inside - n;
    var p = 0.00015352308;
    p = p * r + 0.0013400171;
    p = p * r + 0.00961845;
    p = p * r + 0.055503294;
    p = p * r + 0.24022648;
    p = p * r + 0.6931472;
    return scaled_f32(1.0, 1.0 + r * p, i32(n));
}

// Positive finite x as (m - 1, e) with x = m 2^e and m in [sqrt(1/2), sqrt(2)).
fn log_split_f32(x: f32) -> vec2<f32> {
    var bits = bitcast<u32>(x);
    var exponent = 0;
    // A subnormal is an integer times 2^-149; the integer is a normal number.
    if bits < 0x800000u {
        bits = bitcast<u32>(f32(bits));
        exponent = -149;
    }
    let above = bits - 0x3f3504f3u; // the bits of sqrt(1/2)
    exponent += bitcast<i32>(above) >> 23u;
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

// Where a logarithm is not that of a positive finite number: x = (the value there, 1), else 0.
fn log_special_f32(x: f32) -> vec2<f32> {
    let bits = bitcast<u32>(x);
    if (bits & 0x7fffffffu) == 0u { return vec2<f32>(inf_f32(-1.0), 1.0); }
    if bits == 0x7f800000u { return vec2<f32>(x, 1.0); }
    if bits > 0x7f800000u { return vec2<f32>(nan_f32(x), 1.0); }
    return vec2<f32>(0.0, 0.0);
}

fn log_f32(x: f32) -> f32 {
    let special = log_special_f32(x);
    if special.y != 0.0 { return special.x; }
    let s = log_split_f32(x);
    // e ln 2 in two parts, the first exact; the small terms are summed first.
    return (s.x + (log_tail_f32(s.x) - s.y * 2.12194440e-4)) + s.y * 0.693359375;
}

fn log2_f32(x: f32) -> f32 {
    let special = log_special_f32(x);
    if special.y != 0.0 { return special.x; }
    let s = log_split_f32(x);
    return (s.x + log_tail_f32(s.x)) * 1.44269504 + s.y;
}

// IEEE 754's cases first; else 2^(b log2 |a|) with the sign of an odd power.
fn pow_f32(a: f32, b: f32) -> f32 {
    let a_bits = bitcast<u32>(a);
    let b_bits = bitcast<u32>(b);
    let a_size = a_bits & 0x7fffffffu;
    let b_size = b_bits & 0x7fffffffu;
    let b_negative = b_bits >= 0x80000000u;
    if b_size == 0u || a_bits == 0x3f800000u { return 1.0; }
    if a_size > 0x7f800000u { return nan_f32(a); }
    if b_size > 0x7f800000u { return nan_f32(b); }
    if b_size == 0x7f800000u {
        if a_size == 0x3f800000u { return 1.0; }
        return select(0.0, inf_f32(1.0), (a_size > 0x3f800000u) != b_negative);
    }
    // 2^24 and above every f32 is an even integer.
    let magnitude = bitcast<f32>(b_size);
    let integer = magnitude >= 16777216.0 || floor(magnitude) == magnitude;
    let odd = integer && magnitude < 16777216.0 && (u32(magnitude) & 1u) == 1u;
    let sign = select(1.0, -1.0, a_bits >= 0x80000000u && odd);
    if a_size == 0u || a_size == 0x7f800000u {
        return select(copysign_f32(0.0, sign), inf_f32(sign), (a_size != 0u) != b_negative);
    }
    if a_bits >= 0x80000000u && !integer { return nan_f32(a); }
    return sign * exp2_f32(b * log2_f32(bitcast<f32>(a_size)));
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
    let fraction = f32(top) * power_of_two_f32(-32 - i32(lead));
    return vec2<f32>(select(fraction, -fraction, negative) * 1.57079633, f32(quadrant & 3u));
}

// (r, quadrant) with x = quadrant pi/2 + r modulo 2 pi, |r| <= pi/4; Cody & Waite in four parts up to 2^15.
fn reduce_f32(x: f32) -> vec2<f32> {
    if abs_f32(x) > 32768.0 {
        let large = reduce_large_f32(x);
        return select(large, vec2<f32>(-large.x, -large.y), x < 0.0);
    }
    let n = round(x * 0.636619772);
    // pi/2 in parts of 9, 9, 9 and 24 bits: the first three products are exact for |n| < 2^15.
    var r = x - n * 1.5703125;
    r = r - n * 0.000483512878;
    r = r - n * 3.13855708e-07;
    r = r - n * 6.07710051e-11;
    return vec2<f32>(r, n);
}

// sin of the reduced argument `quadrant` quarter turns on.
// sin r = r + r^3 P(r^2), relative error < 2^-27; cos r = 1 - r^2/2 + r^4 Q(r^2), < 2^-32.
fn sin_quadrant_f32(r: f32, quadrant: i32) -> f32 {
    let z = r * r;
    let s = r + (r * z) * ((-0.0001951084 * z + 0.008332131) * z - 0.16666654);
    let c = 1.0 - (0.5 * z - (z * z) * ((2.4425683e-05 * z - 0.0013887251) * z + 0.041666646));
    let value = select(s, c, (quadrant & 1) == 1);
    return select(value, -value, (quadrant & 2) == 2);
}

fn sin_f32(x: f32) -> f32 {
    let size = bitcast<u32>(x) & 0x7fffffffu;
    if size >= 0x7f800000u { return nan_f32(x); }
    if size < 0x39800000u { return x; } // below 2^-12 x^3/6 is less than half an ULP
    let reduced = reduce_f32(x);
    return sin_quadrant_f32(reduced.x, i32(reduced.y));
}

fn cos_f32(x: f32) -> f32 {
    if (bitcast<u32>(x) & 0x7fffffffu) >= 0x7f800000u { return nan_f32(x); }
    let reduced = reduce_f32(x);
    return sin_quadrant_f32(reduced.x, i32(reduced.y) + 1);
}

// x + x^3 P(x^2) below 0.65, relative error < 2^-26; 1 - 2 / (e^2x + 1) above.
fn tanh_f32(x: f32) -> f32 {
    if is_nan_f32(x) { return nan_f32(x); }
    let size = abs_f32(x);
    if size < 0x1p-12f { return x; } // below 2^-12 x^3/3 is less than half an ULP
    if size < 0.65 {
        let z = x * x;
        var p = 0.002031752;
        p = p * z - 0.008053948;
        p = p * z + 0.021650154;
        p = p * z - 0.05393747;
        p = p * z + 0.13333133;
        p = p * z - 0.33333328;
        return x + (x * z) * p;
    }
    // 1 to the last bit from 9.02 on.
    return copysign_f32(1.0 - 2.0 / (exp_scaled_f32(2.0 * min(size, 10.0), 0.0, 1.0) + 1.0), x);
}

// By e^-|x|, which cannot overflow.
fn sigmoid_f32(x: f32) -> f32 {
    if is_nan_f32(x) { return nan_f32(x); }
    let e = exp_scaled_f32(max(-abs_f32(x), -110.0), 0.0, 1.0);
    return select(e, 1.0, x >= 0.0) / (1.0 + e);
}

// Far below 0, x e^x is normal where e^x is not: x goes in before the scaling.
fn silu_f32(x: f32) -> f32 {
    if is_nan_f32(x) { return nan_f32(x); }
    let e = exp_scaled_f32(max(-abs_f32(x), -110.0), 0.0, 1.0);
    if x >= 0.0 { return x / (1.0 + e); }
    let inside = max(x, -110.0);
    return exp_scaled_f32(inside, 0.0, inside) / (1.0 + e);
}

// e^(a^2/2) (1 - Phi(a)) for 0 <= a <= 14.5, Phi the normal distribution: q Q(q - 1/2) with q = 3 / (a + 3).
// Relative error of Q < 2^-29; its terms cancel no more than 2.5 to 1.
fn normal_tail_f32(a: f32) -> f32 {
    let q = 3.0 / (a + 3.0);
    let u = q - 0.5;
    var p = 0.018587265;
    p = p * u - 0.022400666;
    p = p * u - 0.020885674;
    p = p * u + 0.044054344;
    p = p * u + 0.021862052;
    p = p * u - 0.07433922;
    p = p * u - 0.05580011;
    p = p * u + 0.12603383;
    p = p * u + 0.30669028;
    p = p * u + 0.33955467;
    p = p * u + 0.2430279;
    return q * p;
}

// x (1 - Phi(-x)) above 0, x Phi(x) below, where the tail keeps its digits: a^2/2 is split so that no rounding of it
// is magnified by the exponential.
fn gelu_f32(x: f32) -> f32 {
    if is_nan_f32(x) { return nan_f32(x); }
    let a = min(abs_f32(x), 16.0);
    let upper = bitcast<f32>(bitcast<u32>(a) & 0xfffff000u); // 12 bits: its square is exact
    let high = -0.5 * (upper * upper);
    let low = -0.5 * ((a - upper) * (a + upper));
    let tail = normal_tail_f32(a);
    if x >= 0.0 { return x * (1.0 - exp_scaled_f32(high, low, tail)); }
    return exp_scaled_f32(high, low, -a * tail);
}

// x P(x^2) below 0.93, relative error < 2^-30; 1 - 2 (1 - Phi(sqrt(2) x)) above.
fn erf_f32(x: f32) -> f32 {
    if is_nan_f32(x) { return nan_f32(x); }
    let size = abs_f32(x);
    if size < 0.93 {
        let z = x * x;
        var p = 8.3452316e-05;
        p = p * z - 0.000813744;
        p = p * z + 0.0052006347;
        p = p * z - 0.02685927;
        p = p * z + 0.11283694;
        p = p * z - 0.37612635;
        p = p * z + 1.1283792;
        return x * p;
    }
    // 1 to the last bit from 3.84 on.
    let t = min(size, 5.0);
    return copysign_f32(1.0 - exp_scaled_f32(-(t * t), 0.0, 2.0 * normal_tail_f32(1.41421356 * t)), x);
}
