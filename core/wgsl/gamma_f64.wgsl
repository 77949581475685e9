// f64: as gamma.wgsl, with polynomials of twice the degree and the branches of math_f64.wgsl.

// 2 (1 - Phi(sqrt(2) a)), a^2 split as in gelu_f64; 2 - erfc(|x|) below 0.
fn erfc_f64(x: f64) -> f64 {
    if !(x == x) { return x; }
    let a = min(abs(x), 27.5lf);
    let upper = bitcast<f64>(bits_f64(a) & 0xfffffffff8000000lu); // 26 bits: its square is exact
    let tail = exp_scaled_f64(-(upper * upper), (upper - a) * (a + upper), 2.0lf * normal_tail_f64(1.4142135623730951lf * a));
    return select(tail, 2.0lf - tail, x < 0.0lf);
}

// A start within 2^-20 as in math.wgsl, and one step of Halley's on erf(y) - a, or near 1 on erfc(y) - (1 - a), which is exact.
fn erfinv_f64(x: f64) -> f64 {
    let a = abs(x);
    if !(a <= 1.0lf) { return nan_f64(); }
    if a == 1.0lf { return copysign_f64(inf_f64(), x); }
    let w = -log_f64((1.0lf - a) * (1.0lf + a));
    let root = sqrt(max(w, 0.0lf));
    var t = w - 2.5lf;
    var p = -8.79100059e-09lf;
    p = p * t + 2.323262e-08lf;
    p = p * t + 4.66169899e-07lf;
    p = p * t - 3.46270443e-06lf;
    p = p * t - 4.96334443e-06lf;
    p = p * t + 0.000218344438lf;
    p = p * t - 0.00125274188lf;
    p = p * t - 0.00417738678lf;
    p = p * t + 0.246640286lf;
    p = p * t + 1.50140936lf;
    if w >= 5.0lf && root < 3.95lf {
        t = root - 3.0lf;
        p = 0.000127444827lf;
        p = p * t - 0.00031790119lf;
        p = p * t - 7.43256253e-05lf;
        p = p * t + 0.00149493317lf;
        p = p * t - 0.00358818031lf;
        p = p * t + 0.00568347859lf;
        p = p * t - 0.00763917496lf;
        p = p * t + 0.00944565493lf;
        p = p * t + 1.00167507lf;
        p = p * t + 2.8329768lf;
    } else if w >= 5.0lf {
        t = root - 5.0lf;
        p = 8.8564189897832459e-05lf;
        p = p * t - 0.00024729911364132604lf;
        p = p * t - 0.00014766099094728458lf;
        p = p * t + 1.0103104764548392lf;
        p = p * t + 4.8499074628281251lf;
    }
    let y = a * p;
    let off = select(erfc_f64(y) - (1.0lf - a), a - erf_f64(y), a < 0.5lf);
    let step = off * (0.88622692545275801lf * exp_f64(y * y));
    return copysign_f64(y + step / (1.0lf - y * step), x);
}

// ln gamma(x) of -1/2 <= x < inf but 0, as in math.wgsl; relative error of P < 2^-59, of the series < 2^-62.
fn lgamma_inside_f64(x: f64) -> f64 {
    if x >= 8.0lf {
        let inverse = 1.0lf / x;
        let z = inverse * inverse;
        var p = -0.020877634830752011lf;
        p = p * z + 0.0062093313470865464lf;
        p = p * z - 0.0019149916190472614lf;
        p = p * z + 0.00084173280121751408lf;
        p = p * z - 0.00059523802493360802lf;
        p = p * z + 0.00079365079351565891lf;
        p = p * z - 0.0027777777777776786lf;
        p = p * z + 0.083333333333333329lf;
        return (x - 0.5lf) * (log_f64(x) - 1.0lf) + (inverse * p + 0.4189385332046727lf);
    }
    let n = floor(x + 0.5lf);
    let t = x - n;
    var p = 1.2216793793123712e-07lf;
    p = p * t - 2.5260695137277141e-07lf;
    p = p * t + 3.8633033466040802e-07lf;
    p = p * t - 8.2083673383173679e-07lf;
    p = p * t + 1.8133662213589629e-06lf;
    p = p * t - 3.8563407111264144e-06lf;
    p = p * t + 8.2212371696760473e-06lf;
    p = p * t - 1.7660187732940369e-05lf;
    p = p * t + 3.8168995445674164e-05lf;
    p = p * t - 8.3095274085128294e-05lf;
    p = p * t + 0.00018255263189946339lf;
    p = p * t - 0.00040570738891611529lf;
    p = p * t + 0.00091537692252975124lf;
    p = p * t - 0.0021081308342258817lf;
    p = p * t + 0.0049986411646918451lf;
    p = p * t - 0.012384192193367423lf;
    p = p * t + 0.032965000621155864lf;
    p = p * t - 0.10031730167435393lf;
    p = p * t + 0.42278433509846713lf;
    let base = (t * (t + 1.0lf)) * p;
    if n < 1.0lf { return base - log_f64(abs(x + x * x)); }
    if n < 2.0lf { return base - log_f64(x); }
    var factors = 1.0lf;
    factors *= select(1.0lf, t + 2.0lf, n > 2.0lf);
    factors *= select(1.0lf, t + 3.0lf, n > 3.0lf);
    factors *= select(1.0lf, t + 4.0lf, n > 4.0lf);
    factors *= select(1.0lf, t + 5.0lf, n > 5.0lf);
    factors *= select(1.0lf, t + 6.0lf, n > 6.0lf);
    factors *= select(1.0lf, t + 7.0lf, n > 7.0lf);
    return base + log_f64(factors);
}

// Below -1/2 by the reflection, as in math.wgsl.
fn lgamma_f64(x: f64) -> f64 {
    if !(x == x) { return x; }
    let a = abs(x);
    if x == 0.0lf || !(a < inf_f64()) { return inf_f64(); }
    if x >= -0.5lf { return lgamma_inside_f64(x); }
    let low = a - floor(a);
    if low == 0.0lf { return inf_f64(); }
    let part = min(low, 1.0lf - low);
    let outer = part > 0.25lf;
    let sine = sin_quadrant_f64(3.141592653589793lf * select(part, 0.5lf - part, outer), select(0, 1, outer));
    return 1.1447298858494002lf - log_f64(a * sine) - lgamma_inside_f64(a);
}
