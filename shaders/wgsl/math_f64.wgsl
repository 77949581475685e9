// f64 functions: range reductions as in math.wgsl, polynomials of twice the degree. Plain comparisons are IEEE 754's on the
// devices that have f64, but `x != x` is not a test for NaN (naga 30 emits an ordered comparison): `!(x == x)` is.

fn abs_f64(x: f64) -> f64 {
    return abs(x);
}

fn ceil_f64(x: f64) -> f64 {
    return ceil(x);
}

fn floor_f64(x: f64) -> f64 {
    return floor(x);
}

// Halves to even. Not by the builtin: Mesa 22.3's llvmpipe was seen to give 1 for 1.5 and to lose -0.
fn round_f64(x: f64) -> f64 {
    let low = floor(x);
    let part = x - low;
    let up = part > 0.5lf || (part == 0.5lf && !(floor(0.5lf * low) * 2.0lf == low));
    return select(low, select(low + 1.0lf, -0.0lf, low == -1.0lf), up);
}

fn sqrt_f64(x: f64) -> f64 {
    return sqrt(x);
}

fn rsqrt_f64(x: f64) -> f64 {
    return 1.0lf / sqrt(x);
}

fn reciprocal_f64(x: f64) -> f64 {
    return 1.0lf / x;
}

fn relu_f64(x: f64) -> f64 {
    return select(x, 0.0lf, x < 0.0lf);
}

fn sign_f64(x: f64) -> f64 {
    return select(select(x, -1.0lf, x < 0.0lf), 1.0lf, x > 0.0lf);
}

fn div_f64(a: f64, b: f64) -> f64 {
    return a / b;
}

// Equal operands differ at most in the sign of a zero: the sum of two zeros is +0 unless both are -0, and the
// reciprocal of a zero has its sign.
fn max_f64(a: f64, b: f64) -> f64 {
    if !(a == a) { return a; }
    if !(b == b) { return b; }
    if a == b { return select(a, a + b, a == 0.0lf); }
    return select(b, a, a > b);
}

fn min_f64(a: f64, b: f64) -> f64 {
    if !(a == a) { return a; }
    if !(b == b) { return b; }
    if a == 0.0lf && b == 0.0lf { return select(b, a, 1.0lf / a < 0.0lf); }
    return select(b, a, a < b);
}

// The bits of a f64. Functions from here on need 64-bit integers too.
fn bits_f64(x: f64) -> u64 {
    return bitcast<u64>(x);
}

// 2^n for -1022 <= n <= 1023.
fn power_of_two_f64(n: i32) -> f64 {
    return bitcast<f64>(u64(u32(n + 1023)) << 52u);
}

fn nan_f64() -> f64 {
    return bitcast<f64>(0x7ff8000000000000lu);
}

fn inf_f64() -> f64 {
    return bitcast<f64>(0x7ff0000000000000lu);
}

fn copysign_f64(x: f64, s: f64) -> f64 {
    return bitcast<f64>((bits_f64(x) & 0x7ffffffffffffffflu) | (bits_f64(s) & 0x8000000000000000lu));
}

// scale * m * 2^n, in two steps because 2^n alone may leave the range of f64.
fn scaled_f64(scale: f64, m: f64, n: i32) -> f64 {
    let half = n >> 1u;
    return ((scale * m) * power_of_two_f64(half)) * power_of_two_f64(n - half);
}

// (e^r - 1) for |r| <= ln(2) / 2: r + r^2 P(r), relative error < 2^-58.
fn expm1_reduced_f64(r: f64) -> f64 {
    var p = 2.082636802504398e-09lf;
    p = p * r + 2.51126304252128e-08lf;
    p = p * r + 2.755758515109337e-07lf;
    p = p * r + 2.7557233451593316e-06lf;
    p = p * r + 2.4801586921671947e-05lf;
    p = p * r + 0.00019841269897407065lf;
    p = p * r + 0.0013888888889116472lf;
    p = p * r + 0.00833333333331684lf;
    p = p * r + 0.04166666666666611lf;
    p = p * r + 0.16666666666666682lf;
    p = p * r + 0.5lf;
    return r + (r * r) * p;
}

// scale * e^(high + low), |low| small against |high|, high + low in -1500 ..= 1500.
fn exp_scaled_f64(high: f64, low: f64, scale: f64) -> f64 {
    let n = round((high + low) * 1.4426950408889634lf);
    // ln 2 in two parts, the first of 33 bits: its product with n is exact. Clearing the last bit of the difference costs a
    // quarter of an ULP and keeps compilers from adding the two products first, which costs a digit (NVIDIA 580).
    let near = bitcast<f64>(bits_f64(high - n * 0.6931471804855391lf) & 0xfffffffffffffffelu);
    let r = (near - n * 7.440617110012397e-11lf) + low;
    return scaled_f64(scale, 1.0lf + expm1_reduced_f64(r), i32(n));
}

fn exp_f64(x: f64) -> f64 {
    if !(x == x) { return x; }
    return exp_scaled_f64(clamp(x, -800.0lf, 800.0lf), 0.0lf, 1.0lf);
}

fn exp2_f64(x: f64) -> f64 {
    if !(x == x) { return x; }
    let inside = clamp(x, -1200.0lf, 1200.0lf);
    let n = round(inside);
    return scaled_f64(1.0lf, 1.0lf + expm1_reduced_f64((inside - n) * 0.6931471805599453lf), i32(n));
}

// Positive finite x as (m - 1, e) with x = m 2^e and m in [sqrt(1/2), sqrt(2)).
fn log_split_f64(x: f64) -> vec2<f64> {
    let subnormal = bits_f64(x) < 0x10000000000000lu;
    // A subnormal is an integer times 2^-1074; the integer is a normal number.
    let bits = select(bits_f64(x), bits_f64(f64(bits_f64(x))), subnormal);
    let above = bits - 0x3fe6a09e667f3bcdlu; // the bits of sqrt(1/2)
    let exponent = i32(i64(above) >> 52u) + select(0, -1074, subnormal);
    return vec2<f64>(bitcast<f64>((above & 0xffffffffffffflu) + 0x3fe6a09e667f3bcdlu) - 1.0lf, f64(exponent));
}

// ln(1 + f) - f by s = f / (2 + f): ln(1 + f) = 2 s + s^3 R(s^2); error < 2^-58 |f|.
fn log_tail_f64(f: f64) -> f64 {
    let s = f / (2.0lf + f);
    let z = s * s;
    var p = 0.13116209250915567lf;
    p = p * z + 0.13265905495579075lf;
    p = p * z + 0.1538634831991744lf;
    p = p * z + 0.1818179361290206lf;
    p = p * z + 0.22222222410992548lf;
    p = p * z + 0.28571428570717083lf;
    p = p * z + 0.40000000000001024lf;
    p = p * z + 0.6666666666666666lf;
    let half = 0.5lf * f * f;
    return s * (half + z * p) - half;
}

fn log_f64(x: f64) -> f64 {
    if x == 0.0lf { return -inf_f64(); }
    if !(x > 0.0lf) { return nan_f64(); }
    if x == inf_f64() { return x; }
    let s = log_split_f64(x);
    return (s.x + (log_tail_f64(s.x) + s.y * 7.440617110012397e-11lf)) + s.y * 0.6931471804855391lf;
}

fn log2_f64(x: f64) -> f64 {
    if x == 0.0lf { return -inf_f64(); }
    if !(x > 0.0lf) { return nan_f64(); }
    if x == inf_f64() { return x; }
    let s = log_split_f64(x);
    return (s.x + log_tail_f64(s.x)) * 1.4426950408889634lf + s.y;
}

// IEEE 754's cases first; else 2^(b log2 |a|) with the sign of an odd power.
fn pow_f64(a: f64, b: f64) -> f64 {
    if b == 0.0lf || a == 1.0lf { return 1.0lf; }
    if !(a == a) { return a; }
    if !(b == b) { return b; }
    // Infinities by their bits: drivers may assume that there are none.
    let infinite = 0x7ff0000000000000lu;
    let size_bits = bits_f64(a) & 0x7ffffffffffffffflu;
    let power_bits = bits_f64(b) & 0x7ffffffffffffffflu;
    let size = bitcast<f64>(size_bits);
    let power = bitcast<f64>(power_bits);
    if power_bits == infinite {
        if size == 1.0lf { return 1.0lf; }
        return select(0.0lf, inf_f64(), (size > 1.0lf) == (b > 0.0lf));
    }
    // 2^53 and above every f64 is an even integer.
    let integer = floor(power) == power;
    let odd = integer && power < 9007199254740992.0lf && !(floor(0.5lf * power) == 0.5lf * power);
    let negative = (bits_f64(a) >> 63u) == 1lu;
    let sign = select(1.0lf, -1.0lf, negative && odd);
    if size_bits == 0lu || size_bits == infinite {
        return copysign_f64(select(0.0lf, inf_f64(), (size_bits != 0lu) == (b > 0.0lf)), sign);
    }
    if negative && !integer { return nan_f64(); }
    return sign * exp2_f64(b * log2_f64(size));
}

// r and the quadrant (0 to 3) with x = quadrant pi/2 + r modulo 2 pi, |r| <= pi/4. Cody & Waite with pi/2 in parts of 33,
// 33 and 53 bits; beyond 2^20 the quotient is taken off 20 bits at a time, so that its product with the first is exact.
fn reduce_f64(x: f64) -> vec2<f64> {
    var r = x;
    var quadrant = 0.0lf;
    for (var i = 0u; i < 64u; i++) {
        let quotient = r * 0.6366197723675814lf;
        let near = abs(quotient) < 1048576.0lf;
        let n = select(bitcast<f64>(bits_f64(quotient) & 0xfffffffe00000000lu), round(quotient), near);
        r = ((r - n * 1.5707963267341256lf) - n * 6.077100506303966e-11lf) - n * 2.0222662487959506e-21lf;
        quadrant += n - 4.0lf * floor(0.25lf * n);
        if near { break; }
    }
    return vec2<f64>(r, quadrant);
}

// sin r = r + r^3 S(r^2) and cos r = 1 - r^2/2 + r^4 C(r^2), errors < 2^-57, chosen and signed by the quadrant.
fn sin_quadrant_f64(r: f64, quadrant: i32) -> f64 {
    let z = r * r;
    var s = 1.58955122556559e-10lf;
    s = s * z - 2.5050741724800657e-08lf;
    s = s * z + 2.75573136340004e-06lf;
    s = s * z - 0.00019841269829821585lf;
    s = s * z + 0.008333333333322758lf;
    s = s * z - 0.16666666666666635lf;
    var c = -1.1358960388727403e-11lf;
    c = c * z + 2.087571429103409e-09lf;
    c = c * z - 2.755731432464863e-07lf;
    c = c * z + 2.4801587289553067e-05lf;
    c = c * z - 0.0013888888888874587lf;
    c = c * z + 0.0416666666666666lf;
    let sine = r + (r * z) * s;
    let cosine = 1.0lf - (0.5lf * z - (z * z) * c);
    let value = select(sine, cosine, (quadrant & 1) == 1);
    return select(value, -value, (quadrant & 2) == 2);
}

fn sin_f64(x: f64) -> f64 {
    if !(abs(x) < inf_f64()) { return nan_f64(); }
    if abs(x) < 7.450580596923828e-9lf { return x; } // below 2^-27 x^3/6 is less than half an ULP
    let reduced = reduce_f64(x);
    return sin_quadrant_f64(reduced.x, i32(reduced.y));
}

fn cos_f64(x: f64) -> f64 {
    if !(abs(x) < inf_f64()) { return nan_f64(); }
    let reduced = reduce_f64(x);
    return sin_quadrant_f64(reduced.x, i32(reduced.y) + 1);
}

// t / (t + 2) with t = e^2|x| - 1, which keeps its digits near 0.
fn tanh_f64(x: f64) -> f64 {
    if !(x == x) { return x; }
    // 1 to the last bit from 19.1 on.
    let y = 2.0lf * min(abs(x), 20.0lf);
    let n = round(y * 1.4426950408889634lf);
    let r = (y - n * 0.6931471804855391lf) - n * 7.440617110012397e-11lf;
    let two_n = power_of_two_f64(i32(n));
    let t = two_n * expm1_reduced_f64(r) + (two_n - 1.0lf);
    return copysign_f64(t / (t + 2.0lf), x);
}

// By e^-|x|, which cannot overflow.
fn sigmoid_f64(x: f64) -> f64 {
    if !(x == x) { return x; }
    let e = exp_scaled_f64(max(-abs(x), -800.0lf), 0.0lf, 1.0lf);
    return select(e, 1.0lf, x >= 0.0lf) / (1.0lf + e);
}

// Far below 0, x e^x is normal where e^x is not: x goes in before the scaling.
fn silu_f64(x: f64) -> f64 {
    if !(x == x) { return x; }
    let e = exp_scaled_f64(max(-abs(x), -800.0lf), 0.0lf, 1.0lf);
    if x >= 0.0lf { return x / (1.0lf + e); }
    let inside = max(x, -800.0lf);
    return exp_scaled_f64(inside, 0.0lf, inside) / (1.0lf + e);
}

// e^(a^2/2) (1 - Phi(a)) for 0 <= a <= 39, Phi the normal distribution: q Q(q - 9/16) with q = 4 / (a + 4).
// Relative error of Q < 2^-59.
fn normal_tail_f64(a: f64) -> f64 {
    let q = 4.0lf / (a + 4.0lf);
    let u = q - 0.5625lf;
    var p = 0.0014070471718519244lf;
    p = p * u - 0.0005111931702106063lf;
    p = p * u - 0.00301482625114111lf;
    p = p * u + 0.0021533082651497798lf;
    p = p * u + 0.0030189559112071226lf;
    p = p * u - 0.004446052603241865lf;
    p = p * u - 0.001085044274465022lf;
    p = p * u + 0.006448282808568631lf;
    p = p * u - 0.002366810534625993lf;
    p = p * u - 0.007764708040565148lf;
    p = p * u + 0.0071816298582629955lf;
    p = p * u + 0.008885946375557079lf;
    p = p * u - 0.014131406548617427lf;
    p = p * u - 0.011884592514447064lf;
    p = p * u + 0.025573404697139788lf;
    p = p * u + 0.024381917776499028lf;
    p = p * u - 0.043862633448786395lf;
    p = p * u - 0.07697587986665463lf;
    p = p * u + 0.03533539916094047lf;
    p = p * u + 0.2567412752088586lf;
    p = p * u + 0.4354974814276032lf;
    p = p * u + 0.46287877572389663lf;
    p = p * u + 0.35695228837837945lf;
    p = p * u + 0.20942512359414156lf;
    return q * p;
}

// x (1 - Phi(-x)) above 0, x Phi(x) below; a^2/2 is split so that its rounding is not magnified by the exponential.
fn gelu_f64(x: f64) -> f64 {
    if !(x == x) { return x; }
    let a = min(abs(x), 40.0lf);
    let upper = bitcast<f64>(bits_f64(a) & 0xfffffffff8000000lu); // 26 bits: its square is exact
    let high = -0.5lf * (upper * upper);
    let low = -0.5lf * ((a - upper) * (a + upper));
    let tail = normal_tail_f64(a);
    if x >= 0.0lf { return x * (1.0lf - exp_scaled_f64(high, low, tail)); }
    return exp_scaled_f64(high, low, -a * tail);
}

// x P(x^2) below 0.93, relative error < 2^-59; 1 - 2 (1 - Phi(sqrt(2) x)) above.
fn erf_f64(x: f64) -> f64 {
    if !(x == x) { return x; }
    if abs(x) < 0.93lf {
        let z = x * x;
        var p = -8.290011747732081e-10lf;
        p = p * z + 1.3961897674499797e-08lf;
        p = p * z - 1.625957202833863e-07lf;
        p = p * z + 1.6453519583532046e-06lf;
        p = p * z - 1.4925187976687493e-05lf;
        p = p * z + 0.00012055316321996826lf;
        p = p * z - 0.0008548326627376063lf;
        p = p * z + 0.005223977619464091lf;
        p = p * z - 0.026866170644598404lf;
        p = p * z + 0.11283791670952671lf;
        p = p * z - 0.3761263890318371lf;
        p = p * z + 1.1283791670955126lf;
        return x * p;
    }
    // 1 to the last bit from 5.93 on.
    let t = min(abs(x), 7.0lf);
    return copysign_f64(1.0lf - exp_scaled_f64(-(t * t), 0.0lf, 2.0lf * normal_tail_f64(1.4142135623730951lf * t)), x);
}

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
    if !(x == x) { return x; }
    let a = min(abs(x), 1e300lf);
    if a <= 1.0lf { return copysign_f64(atan_inside_f64(a), x); }
    return copysign_f64((1.5707963267948966lf - atan_inside_f64(1.0lf / a)) + 6.123233995736766e-17lf, x);
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
