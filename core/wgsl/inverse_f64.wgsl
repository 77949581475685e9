// f64: as inverse.wgsl, with polynomials of twice the degree and the branches of math_f64.wgsl.

fn tan_f64(x: f64) -> f64 {
    if !(abs(x) < inf_f64()) { return nan_f64(); }
    if abs(x) < 7.450580596923828e-9lf { return x; } // below 2^-27 x^3/3 is less than half an ULP
    let reduced = reduce_f64(x);
    let quadrant = i32(reduced.y);
    return sin_quadrant_f64(reduced.x, quadrant) / sin_quadrant_f64(reduced.x, quadrant + 1);
}

// atan t = t + t^3 P(t^2) for 0 <= t <= 1; relative error < 2^-56.
fn atan_inside_f64(t: f64) -> f64 {
    let z = t * t;
    var p = 1.3489732853394471e-05lf;
    p = p * z - 0.00015480159126565288lf;
    p = p * z + 0.0008435057244138146lf;
    p = p * z - 0.002919402694306013lf;
    p = p * z + 0.0072634791073721405lf;
    p = p * z - 0.013995166132806752lf;
    p = p * z + 0.02208535345869713lf;
    p = p * z - 0.029985748768154134lf;
    p = p * z + 0.03669364940292367lf;
    p = p * z - 0.042217243081296214lf;
    p = p * z + 0.047232960310468045lf;
    p = p * z - 0.052538064035226255lf;
    p = p * z + 0.05880592762661228lf;
    p = p * z - 0.0666641503604418lf;
    p = p * z + 0.07692281192020807lf;
    p = p * z - 0.09090907119762531lf;
    p = p * z + 0.1111111101368332lf;
    p = p * z - 0.14285714282803497lf;
    p = p * z + 0.19999999999955462lf;
    p = p * z - 0.33333333333333093lf;
    return t + (t * z) * p;
}

// pi/2 - atan(1/a) above 1, pi/2 in two parts.
fn atan_f64(x: f64) -> f64 {
    let a = min(abs(x), 1e300lf);
    let steep = a > 1.0lf;
    let p = atan_inside_f64(select(a, 1.0lf / a, steep));
    let value = select(p, (1.5707963267948966lf - p) + 6.123233995736766e-17lf, steep);
    return select(x, copysign_f64(value, x), x == x);
}

// By the octant, as in math.wgsl; sizes are compared by their bits, since drivers may assume that no number is infinite.
fn atan2_f64(y: f64, x: f64) -> f64 {
    let infinite = 0x7ff0000000000000lu;
    let y_size = bits_f64(y) & 0x7ffffffffffffffflu;
    let x_size = bits_f64(x) & 0x7ffffffffffffffflu;
    let small = select(y_size, x_size, y_size > x_size);
    let large = select(x_size, y_size, y_size > x_size);
    if large > infinite { return nan_f64(); }
    var t = 0.0lf;
    if small == large {
        t = 1.0lf;
    } else if large < infinite {
        // Numbers whose quotient may be told from 0 and whose own digits may be few are lifted first.
        let scale = select(1.0lf, power_of_two_f64(600), large < 0x3fe0000000000000lu);
        t = (bitcast<f64>(small) * scale) / (bitcast<f64>(large) * scale);
    }
    if small == 0lu { t = 0.0lf; }
    var p = atan_inside_f64(t);
    if y_size > x_size { p = (1.5707963267948966lf - p) + 6.123233995736766e-17lf; }
    if (bits_f64(x) >> 63u) == 1lu { p = (3.141592653589793lf - p) + 1.2246467991473532e-16lf; }
    return copysign_f64(p, y);
}

// asin s = s + s^3 P(s^2) for 0 <= s <= 1/2, relative error < 2^-59: of a up to a half, above of sqrt((1 - a) / 2) in its place.
fn asin_inside_f64(a: f64) -> f64 {
    let z = select(a * a, (1.0lf - a) * 0.5lf, a > 0.5lf);
    let s = select(a, sqrt(z), a > 0.5lf);
    var p = 0.032696335922774634lf;
    p = p * z - 0.021107681410386332lf;
    p = p * z + 0.021784465268929493lf;
    p = p * z + 0.0036746377589239433lf;
    p = p * z + 0.010788696425163353lf;
    p = p * z + 0.011397399838576811lf;
    p = p * z + 0.013981006095791164lf;
    p = p * z + 0.017351596482657876lf;
    p = p * z + 0.02237221585454107lf;
    p = p * z + 0.030381942676973094lf;
    p = p * z + 0.04464285717525372lf;
    p = p * z + 0.07499999999970129lf;
    p = p * z + 0.16666666666666763lf;
    return s + (s * z) * p;
}

// pi/2 - 2 asin(sqrt((1 - a) / 2)) above a half.
fn asin_f64(x: f64) -> f64 {
    let a = abs(x);
    if !(a <= 1.0lf) { return nan_f64(); }
    let p = asin_inside_f64(a);
    return copysign_f64(select(p, (1.5707963267948966lf - 2.0lf * p) + 6.123233995736766e-17lf, a > 0.5lf), x);
}

fn acos_f64(x: f64) -> f64 {
    let a = abs(x);
    if !(a <= 1.0lf) { return nan_f64(); }
    let p = asin_inside_f64(a);
    if a <= 0.5lf { return (1.5707963267948966lf - copysign_f64(p, x)) + 6.123233995736766e-17lf; }
    return select(2.0lf * p, (3.141592653589793lf - 2.0lf * p) + 1.2246467991473532e-16lf, x < 0.0lf);
}

// x + x^3 P(x^2) below 1, relative error < 2^-60; (e^a - e^-a) / 2 above.
fn sinh_f64(x: f64) -> f64 {
    if !(x == x) { return x; }
    let a = min(abs(x), 800.0lf);
    if a < 1.0lf {
        let z = a * a;
        var p = 6.261852705963326e-15lf;
        p = p * z + 7.511037503021124e-13lf;
        p = p * z + 1.6061227205453537e-10lf;
        p = p * z + 2.5052090219677496e-08lf;
        p = p * z + 2.755731930707495e-06lf;
        p = p * z + 0.0001984126984106656lf;
        p = p * z + 0.00833333333333357lf;
        p = p * z + 0.16666666666666666lf;
        return copysign_f64(a + (a * z) * p, x);
    }
    let half = exp_scaled_f64(a, 0.0lf, 0.5lf);
    return copysign_f64(half - 0.25lf / min(half, 1e300lf), x);
}

fn cosh_f64(x: f64) -> f64 {
    if !(x == x) { return x; }
    let half = exp_scaled_f64(min(abs(x), 800.0lf), 0.0lf, 0.5lf);
    return half + 0.25lf / min(half, 1e300lf);
}

// ln(1 + u) + doublings ln 2 for 0 <= u < 2^1022, as in math.wgsl.
fn log1p_doubled_f64(u: f64, doublings: f64) -> f64 {
    let e = u32((bits_f64(1.0lf + u) - 0x3fe6a09e667f3bcdlu) >> 52u); // from the bits of sqrt(1/2) on
    let rest = select(0x3ff0000000000000lu - (0x20000000000000lu >> min(e, 63u)), 0lu, e == 0u);
    let f = u * power_of_two_f64(-i32(e)) - bitcast<f64>(rest);
    let n = f64(e) + doublings;
    return (f + (log_tail_f64(f) + n * 7.440617110012397e-11lf)) + n * 0.6931471804855391lf;
}

// ln(1 + a + a^2 / (1 + sqrt(a^2 + 1))), from 2^28 on ln 2a = ln(a/64) + 7 ln 2.
fn asinh_f64(x: f64) -> f64 {
    let a = abs(x);
    if !(a < inf_f64()) { return x; }
    if a > 268435456.0lf { return copysign_f64(log1p_doubled_f64(a * 0.015625lf - 1.0lf, 7.0lf), x); }
    return copysign_f64(log1p_doubled_f64(a + (a * a) / (1.0lf + sqrt(a * a + 1.0lf)), 0.0lf), x);
}

// ln(1 + t + sqrt(t (t + 2))), t = x - 1.
fn acosh_f64(x: f64) -> f64 {
    if !(x >= 1.0lf) { return nan_f64(); }
    if x > 268435456.0lf {
        if bits_f64(x) == 0x7ff0000000000000lu { return x; }
        return log1p_doubled_f64(x * 0.015625lf - 1.0lf, 7.0lf);
    }
    let t = x - 1.0lf;
    return log1p_doubled_f64(t + sqrt(t * (t + 2.0lf)), 0.0lf);
}

// ln(1 + 2a / (1 - a)) / 2.
fn atanh_f64(x: f64) -> f64 {
    let a = abs(x);
    if !(a <= 1.0lf) { return nan_f64(); }
    if a == 1.0lf { return copysign_f64(inf_f64(), x); }
    return copysign_f64(0.5lf * log1p_doubled_f64((2.0lf * a) / (1.0lf - a), 0.0lf), x);
}

// One step of Halley's from a t near the cube root of m.
fn cbrt_step_f64(t: f64, m: f64) -> f64 {
    let cube = (t * t) * t;
    return t + t * ((m - cube) / (m + 2.0lf * cube));
}

// 1 <= m < 8 times a power of 8: a polynomial for m's leading 13 bits, and two steps of Halley's, each of which triples them.
fn cbrt_f64(x: f64) -> f64 {
    let size = bits_f64(x) & 0x7ffffffffffffffflu;
    if size == 0lu || size >= 0x7ff0000000000000lu { return x; }
    // A subnormal is an integer times 2^-1074; the integer is a normal number.
    let subnormal = size < 0x10000000000000lu;
    let bits = select(size, bits_f64(f64(size)), subnormal);
    let exponent = u32(bits >> 52u); // 3 third + part - 1023, or 1074 less
    let third = exponent / 3u;
    let part = exponent - 3u * third;
    let one = bitcast<f64>((bits & 0xffffffffffffflu) | 0x3ff0000000000000lu);
    let root = ((0.023104900767347232lf * one - 0.16296938980873629lf) * one + 0.58711388764831407lf) * one + 0.55282359932329384lf;
    let near = root * select(select(1.0lf, 1.2599210498948732lf, part == 1u), 1.5874010519681994lf, part == 2u);
    let m = one * power_of_two_f64(i32(part));
    let t = cbrt_step_f64(cbrt_step_f64(near, m), m);
    return copysign_f64(t * power_of_two_f64(i32(third) - select(341, 699, subnormal)), x);
}

// Scaled by a power of two where a square would leave the range.
fn hypot_f64(a: f64, b: f64) -> f64 {
    let infinite = 0x7ff0000000000000lu;
    let a_size = bits_f64(a) & 0x7ffffffffffffffflu;
    let b_size = bits_f64(b) & 0x7ffffffffffffffflu;
    let large = select(b_size, a_size, a_size > b_size);
    let small = select(a_size, b_size, a_size > b_size);
    if a_size == infinite || b_size == infinite { return inf_f64(); }
    if large > infinite { return nan_f64(); }
    let shift = select(select(0, 700, large < 0x20b0000000000000lu), -700, large > 0x5f30000000000000lu); // 2^-500, 2^500
    let scale = power_of_two_f64(shift);
    let s = bitcast<f64>(small) * scale;
    let l = bitcast<f64>(large) * scale;
    return sqrt(s * s + l * l) * power_of_two_f64(-shift);
}
