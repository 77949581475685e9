// f32: tangent, hyperbolic functions, what undoes them and sine and cosine, and roots. As in math.wgsl: no branches, and what is special is told
// apart by bits. Coefficients are those of shaders/naga-ptx/src/lower/math/minimax.py.

// A quotient: nothing cancels, and no f32 is so near a pole that the divisor is subnormal.
fn tan_f32(x: f32) -> f32 {
    let reduced = reduce_f32(abs_f32(x));
    let quadrant = low_bits_f32(reduced.y);
    let value = sin_quadrant_f32(reduced.x, quadrant) / sin_quadrant_f32(reduced.x, quadrant + 1u);
    return bitcast<f32>(bitcast<u32>(value) ^ (bitcast<u32>(x) & 0x80000000u));
}

// atan t = t + t^3 P(t^2) for 0 <= t <= 1; relative error < 2^-27.
fn atan_inside_f32(t: f32) -> f32 {
    let z = t * t;
    var p = -0.00181871105;
    p = p * z + 0.0110289538;
    p = p * z - 0.0313944407;
    p = p * z + 0.058178056;
    p = p * z - 0.0841646045;
    p = p * z + 0.109566577;
    p = p * z - 0.142650917;
    p = p * z + 0.199986264;
    p = p * z - 0.333333015;
    return t + (t * z) * p;
}

// pi/2 - atan(1/a) above 1, pi/2 in two parts.
fn atan_f32(x: f32) -> f32 {
    let a = min(abs(x), 1e30);
    let steep = a > 1.0;
    let p = atan_inside_f32(select(a, 1.0 / a, steep));
    let value = select(p, (1.57079637 - p) - 4.37113883e-08, steep);
    return select(signed_f32(value, x), x, is_tiny_or_nan_f32(x));
}

// x 2^85 of the bits of 0 <= x < 2^42, subnormals included: those are integers times 2^-149.
fn lifted_f32(bits: u32) -> f32 {
    return select(bitcast<f32>(bits + 0x2a800000u), f32(bits) * 0x1p-64f, bits < 0x800000u);
}

// By the octant: the quotient of the smaller and the larger size, from pi/2 where y is the larger, from pi where x is negative.
fn atan2_f32(y: f32, x: f32) -> f32 {
    let y_size = bitcast<u32>(y) & 0x7fffffffu;
    let x_size = bitcast<u32>(x) & 0x7fffffffu;
    let small = min(y_size, x_size);
    let large = max(y_size, x_size);
    // Small numbers are lifted out of what may be flushed, where the quotient can be told from 0.
    let lift = large < 0x54800000u;
    let above = select(bitcast<f32>(small), lifted_f32(small), lift);
    let below = select(bitcast<f32>(large), lifted_f32(large), lift);
    var t = select(div_f32(above, below), 1.0, small == large);
    t = select(t, 0.0, (small == 0u) | ((large == 0x7f800000u) & (small < large)));
    var p = atan_inside_f32(t);
    p = select(p, (1.57079637 - p) - 4.37113883e-08, y_size > x_size);
    p = select(p, (3.14159274 - p) - 8.74227766e-08, bitcast<u32>(x) >= 0x80000000u);
    return select(signed_f32(p, y), bitcast<f32>(large | 0x400000u), large > 0x7f800000u);
}

// asin s = s + s^3 P(s^2) for 0 <= s <= 1/2, relative error < 2^-28: of a up to a half, above of sqrt((1 - a) / 2) in its place.
fn asin_inside_f32(a: f32) -> f32 {
    let far = a > 0.5;
    let z = select(a * a, (1.0 - a) * 0.5, far);
    let s = select(a, sqrt_f32(z), far);
    var p = 0.0422117822;
    p = p * z + 0.0241520964;
    p = p * z + 0.0454760417;
    p = p * z + 0.0749525204;
    p = p * z + 0.166667536;
    return s + (s * z) * p;
}

// pi/2 - 2 asin(sqrt((1 - a) / 2)) above a half.
fn asin_f32(x: f32) -> f32 {
    let size = bitcast<u32>(x) & 0x7fffffffu;
    let a = bitcast<f32>(min(size, 0x3f800000u));
    let p = asin_inside_f32(a);
    let value = signed_f32(select(p, (1.57079637 - 2.0 * p) - 4.37113883e-08, a > 0.5), x);
    return select(select(value, nan_f32(x), size > 0x3f800000u), x, size < 0x39800000u);
}

fn acos_f32(x: f32) -> f32 {
    let size = bitcast<u32>(x) & 0x7fffffffu;
    let a = bitcast<f32>(min(size, 0x3f800000u));
    let p = asin_inside_f32(a);
    let near = (1.57079637 - signed_f32(p, x)) - 4.37113883e-08;
    let far = select(2.0 * p, (3.14159274 - 2.0 * p) - 8.74227766e-08, bitcast<u32>(x) >= 0x80000000u);
    return select(select(near, far, a > 0.5), nan_f32(x), size > 0x3f800000u);
}

// e^a / 2 for 0 <= a <= 100; overflows where the result does.
fn half_exp_f32(a: f32) -> f32 {
    let n = round(a * 1.44269504);
    return scaled_f32(1.0 + expm1_reduced_f32(reduce_ln2_f32(a, n)), n - 1.0);
}

// x + x^3 P(x^2) below 1, relative error < 2^-29; (e^a - e^-a) / 2 above.
fn sinh_f32(x: f32) -> f32 {
    let a = min(abs(x), 100.0);
    let z = a * a;
    let near = a + (a * z) * (((2.78392577e-06 * z + 0.000198426351) * z + 0.00833331142) * z + 0.166666672);
    let half = half_exp_f32(a);
    let value = select(near, half - 0.25 / min(half, 1e30), a >= 1.0);
    return select(signed_f32(value, x), x, is_tiny_or_nan_f32(x));
}

fn cosh_f32(x: f32) -> f32 {
    let half = half_exp_f32(min(abs(x), 100.0));
    return select(half + 0.25 / min(half, 1e30), x, is_nan_f32(x));
}

// ln(1 + u) + doublings ln 2 for 0 <= u < 2^126, relative accuracy kept near 0. (1 + u) 2^-e = 1 + f is reached by
// f = u 2^-e - (1 - 2^-e), which rounds once, not by way of the rounded 1 + u; 1 - 2^-e is made of bits, so that no compiler adds 1 first.
fn log1p_doubled_f32(u: f32, doublings: f32) -> f32 {
    let e = (bitcast<u32>(1.0 + u) - 0x3f3504f3u) >> 23u; // from the bits of sqrt(1/2) on
    let rest = select(0x3f800000u - (0x1000000u >> min(e, 31u)), 0u, e == 0u);
    let f = u * bitcast<f32>((127u - e) << 23u) - bitcast<f32>(rest);
    let n = f32(e) + doublings;
    return (f + (log_tail_f32(f) - n * 2.12194440e-4)) + n * 0.693359375;
}

// ln(1 + a + a^2 / (1 + sqrt(a^2 + 1))), from 2^12 on ln 2a = ln(a/64) + 7 ln 2.
fn asinh_f32(x: f32) -> f32 {
    let a = abs(x);
    let large = a > 4096.0;
    let b = min(a, 4096.0);
    let u = select(b + (b * b) / (1.0 + sqrt(b * b + 1.0)), a * 0.015625 - 1.0, large);
    let value = log1p_doubled_f32(u, select(0.0, 7.0, large));
    let kept = is_tiny_or_nan_f32(x) | ((bitcast<u32>(x) & 0x7fffffffu) == 0x7f800000u);
    return select(signed_f32(value, x), x, kept);
}

// ln(1 + t + sqrt(t (t + 2))), t = x - 1.
fn acosh_f32(x: f32) -> f32 {
    let large = x > 4096.0;
    let t = clamp(x, 1.0, 4096.0) - 1.0;
    let value = log1p_doubled_f32(select(t + sqrt_f32(t * (t + 2.0)), x * 0.015625 - 1.0, large), select(0.0, 7.0, large));
    // In order of bits: negative numbers and those below 1, then infinity, then NaN.
    let special = select(nan_f32(x), x, bitcast<u32>(x) == 0x7f800000u);
    return select(special, value, bitcast<u32>(x) - 0x3f800000u < 0x40000000u);
}

// ln(1 + 2a / (1 - a)) / 2.
fn atanh_f32(x: f32) -> f32 {
    let size = bitcast<u32>(x) & 0x7fffffffu;
    let a = bitcast<f32>(min(size, 0x3f7fffffu)); // the last number below 1
    let value = signed_f32(0.5 * log1p_doubled_f32((2.0 * a) / (1.0 - a), 0.0), x);
    let special = select(nan_f32(x), inf_f32(x), size == 0x3f800000u);
    return select(select(value, special, size >= 0x3f800000u), x, size < 0x39800000u);
}

// 1 <= m < 8 times a power of 8: a polynomial for m's leading 13 bits, and one step of Halley's, which triples them.
fn cbrt_f32(x: f32) -> f32 {
    let size = bitcast<u32>(x) & 0x7fffffffu;
    // A subnormal is an integer times 2^-149; the integer is a normal number.
    let subnormal = size < 0x800000u;
    let bits = select(size, bitcast<u32>(f32(size)), subnormal);
    let shifted = (bits >> 23u) + select(2u, 3u, subnormal); // exponents are 3 third + part - 129, or 3 third + part - 279
    let third = shifted / 3u;
    let part = shifted - 3u * third;
    let one = bitcast<f32>((bits & 0x7fffffu) | 0x3f800000u);
    let root = ((0.0231049009 * one - 0.162969390) * one + 0.587113888) * one + 0.552823599;
    let t = root * select(select(1.0, 1.25992105, part == 1u), 1.58740105, part == 2u);
    let m = bitcast<f32>((bits & 0x7fffffu) | ((127u + part) << 23u));
    let cube = (t * t) * t;
    let y = t + t * ((m - cube) / (m + 2.0 * cube));
    let value = bitcast<f32>(bitcast<u32>(y) + ((third - select(43u, 93u, subnormal)) << 23u));
    // Zeros, infinities and NaN are their own roots.
    return select(x, signed_f32(value, x), size - 1u < 0x7f7fffffu);
}

// Scaled by a power of two where a square would leave the range.
fn hypot_f32(a: f32, b: f32) -> f32 {
    let large = max(bitcast<u32>(a) & 0x7fffffffu, bitcast<u32>(b) & 0x7fffffffu);
    let small = min(bitcast<u32>(a) & 0x7fffffffu, bitcast<u32>(b) & 0x7fffffffu);
    let huge = large > 0x5d800000u; // 2^60
    let tiny = large < 0x2b800000u; // 2^-40
    let scale = select(select(1.0, 0x1p80f, tiny), 0x1p-80f, huge);
    let back = select(select(1.0, 0x1p-80f, tiny), 0x1p80f, huge);
    let s = bitcast<f32>(small) * scale;
    let l = bitcast<f32>(large) * scale;
    let value = sqrt_f32(s * s + l * l) * back;
    let is_infinite = (large == 0x7f800000u) | (small == 0x7f800000u);
    return select(select(value, bitcast<f32>(large | 0x400000u), large > 0x7f800000u), bitcast<f32>(0x7f800000u), is_infinite);
}
