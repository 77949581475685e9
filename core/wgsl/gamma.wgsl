// f32: what is made of the error function and of the gamma function. As in math.wgsl: minimax polynomials by Remez exchange, no branches.

// 2 (1 - Phi(sqrt(2) a)) by its tail, a^2 split as in gelu_f32; 2 - erfc(|x|) below 0.
fn erfc_f32(x: f32) -> f32 {
    let a = min(abs(x), 10.5);
    let upper = bitcast<f32>(bitcast<u32>(a) & 0xfffff000u); // 12 bits: its square is exact
    let high = upper * upper;
    let low = (a - upper) * (a + upper);
    let n = round((high + low) * 1.44269504);
    let r = reduce_ln2_f32(high, n) + low;
    let m = (1.0 + expm1_reduced_f32(-r)) * (2.0 * normal_tail_f32(1.41421356 * a));
    let tail = scaled_f32(m, -n);
    return select(select(tail, 2.0 - tail, bitcast<u32>(x) >= 0x80000000u), x, is_nan_f32(x));
}

// x P(w), w = -ln(1 - x^2) (M. Giles, "Approximating the erfinv function", 2011): P of w below 5, relative error < 2^-27, of sqrt w above,
// < 2^-27.3.
fn erfinv_f32(x: f32) -> f32 {
    let size = bitcast<u32>(x) & 0x7fffffffu;
    let a = bitcast<f32>(min(size, 0x3f7fffffu)); // the last number below 1
    let w = -log_f32((1.0 - a) * (1.0 + a));
    let far = w > 5.0;
    let t = select(w - 2.5, sqrt_f32(max(w, 0.0)) - 3.0, far);
    var p = -8.79100059e-09;
    p = p * t + 2.323262e-08;
    p = p * t + 4.66169899e-07;
    p = p * t - 3.46270443e-06;
    p = p * t - 4.96334443e-06;
    p = p * t + 0.000218344438;
    p = p * t - 0.00125274188;
    p = p * t - 0.00417738678;
    p = p * t + 0.246640286;
    p = p * t + 1.50140936;
    let centre = p;
    p = 0.000127444827;
    p = p * t - 0.00031790119;
    p = p * t - 7.43256253e-05;
    p = p * t + 0.00149493317;
    p = p * t - 0.00358818031;
    p = p * t + 0.00568347859;
    p = p * t - 0.00763917496;
    p = p * t + 0.00944565493;
    p = p * t + 1.00167507;
    p = p * t + 2.8329768;
    let value = signed_f32(a * select(centre, p, far), x);
    let special = select(nan_f32(x), inf_f32(x), size == 0x3f800000u);
    return select(value, special, size >= 0x3f800000u);
}

// ln gamma(x) of -1/2 <= x < inf but 0, in two terms. From 8 on Stirling's series (Abramowitz & Stegun, 6.1.41), 1/12 + P(1/x^2); below
// t (t + 1) P(t) = ln gamma(2 + t), |t| <= 1/2, relative error < 2^-26, and the logarithm of the factors between.
fn lgamma_inside_f32(x: f32) -> f32 {
    let n = clamp(round(x), 0.0, 8.0);
    let t = clamp(x - n, -0.5, 0.5);
    let y = t + 2.0;
    // x (x + 1) up to a half, x up to 3/2; 2 + t, 3 + t, ... up to x - 1 from 5/2 on.
    var factors = select(select(1.0, x, n == 1.0), x + x * x, n == 0.0);
    factors = select(factors, x, abs(x) < 6e-8); // which may be subnormal
    factors *= select(1.0, y, n > 2.0);
    factors *= select(1.0, y + 1.0, n > 3.0);
    factors *= select(1.0, y + 2.0, n > 4.0);
    factors *= select(1.0, y + 3.0, n > 5.0);
    factors *= select(1.0, y + 4.0, n > 6.0);
    factors *= select(1.0, y + 5.0, n > 7.0);
    let far = x >= 8.0;
    let logarithm = log_f32(select(abs_f32(factors), x, far));
    var p = -0.000456297193;
    p = p * t + 0.0010138394;
    p = p * t - 0.00209843925;
    p = p * t + 0.00498286849;
    p = p * t - 0.0123848689;
    p = p * t + 0.0329657992;
    p = p * t - 0.100317289;
    p = p * t + 0.422784329;
    let near = (t * (t + 1.0)) * p + select(logarithm, -logarithm, n < 2.0);
    let inverse = 1.0 / clamp(x, 8.0, 1e30);
    let z = inverse * inverse;
    let series = inverse * (0.0833333333 + z * (0.000780057719 * z - 0.0027776989)) + 0.418938533;
    return select(near, (x - 0.5) * (logarithm - 1.0) + series, far);
}

// Below -1/2 by ln(pi / (a |sin(pi a)|)) - ln gamma(a), a = -x (Abramowitz & Stegun, 6.1.17).
fn lgamma_f32(x: f32) -> f32 {
    let bits = bitcast<u32>(x);
    let size = bits & 0x7fffffffu;
    let mirrored = bits > 0xbf000000u;
    let a = bitcast<f32>(size);
    let part = abs(a - round(a));
    let outer = part > 0.25;
    let sine = sin_quadrant_f32(3.14159274 * select(part, 0.5 - part, outer), select(0u, 1u, outer));
    let positive = lgamma_inside_f32(select(x, a, mirrored));
    let reflected = 1.14472989 - log_f32(a * sine) - positive;
    let value = select(positive, reflected, mirrored);
    // At 0, infinities and negative whole numbers, which all are from -2^23 on.
    let pole = (size == 0u) | (size == 0x7f800000u) | (mirrored & ((part == 0.0) | (size >= 0x4b000000u)));
    return select(select(value, bitcast<f32>(0x7f800000u), pole), x, is_nan_f32(x));
}
