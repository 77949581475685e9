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
// NVIDIA's Vulkan compiler made n times the sum of the parts of the three products, which rounds: what is left of x goes through an integer to
// which 0 is added, as no compiler can know.
fn reduce_f64(x: f64) -> vec2<f64> {
    let zero = select(0lu, 1lu, ((bits_f64(x) >> 52u) & 0x7fflu) == 0x7fflu); // x is finite
    var r = x;
    var quadrant = 0.0lf;
    for (var i = 0u; i < 64u; i++) {
        let quotient = r * 0.6366197723675814lf;
        let near = abs(quotient) < 1048576.0lf;
        let n = select(bitcast<f64>(bits_f64(quotient) & 0xfffffffe00000000lu), round(quotient), near);
        r = bitcast<f64>(bits_f64(r - n * 1.5707963267341256lf) + zero);
        r = bitcast<f64>(bits_f64(r - n * 6.077100506303966e-11lf) + zero) - n * 2.0222662487959506e-21lf;
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
