//! `exp`, `exp2`, `log`, `log2`, `pow`, `sin`, `cos`, `tan` of f64, which PTX has no approximations of.
//!
//! The decision to know: the same methods as in f32 (`exp_log.rs`, `trig.rs`) with longer polynomials, at about one
//! ULP; pow at a few. WGSL has no f64, so there is no limit to meet. `hyperbolic.rs` and `inverse_trig.rs` serve all
//! floats by themselves. Coefficients: `minimax.py`.

use super::exp_log::{log2_extended, power_of_two};
use super::float::Float;
use crate::ir::{BinaryOp, Builder, Compare, Operand, Round, Ty, UnaryOp};

/// e^r = 1 + r + r^2 P(r), |r| <= ln 2 / 2: 2^-60.4.
const EXP: [f64; 11] = [
    0.5,
    0.16666666666666685,
    0.04166666666666673,
    0.008333333333316751,
    0.0013888888888858627,
    0.00019841269897027258,
    2.4801587373419988e-05,
    2.7557234269175804e-06,
    2.755723360627261e-07,
    2.5112228322412235e-08,
    2.0926873752757954e-09,
];
/// log((2 + u) / (2 - u)) = u + u^3 P(u^2), |u| <= 0.344: 2^-66.6.
const LOG: [f64; 8] = [
    0.08333333333333333,
    0.01250000000000154,
    0.002232142856985139,
    0.00043402778529758756,
    8.87782145033981e-05,
    1.8782946846181827e-05,
    4.044225858266112e-06,
    1.009754072160789e-06,
];
/// sin(r) = r + r^3 P(r^2), |r| <= pi/4 + 0.004: 2^-57.9.
const SIN: [f64; 6] = [
    -0.1666666666666663,
    0.008333333333321796,
    -0.00019841269829292107,
    2.7557313506439815e-06,
    -2.5050728133837184e-08,
    1.589500757242291e-10,
];
/// cos(r) = 1 - r^2 / 2 + r^4 P(r^2): 2^-64.0.
const COS: [f64; 6] = [
    0.041666666666666595,
    -0.0013888888888873303,
    2.4801587288947083e-05,
    -2.755731419184954e-07,
    2.087570073251524e-09,
    -1.1358446688966853e-11,
];
/// ln 2 in two floats.
const LN_2: [f64; 2] = [std::f64::consts::LN_2, 2.3190468138462996e-17];
/// Bits of pi/2 in three floats, each cut off.
const HALF_PI: [u64; 3] = [0x3ff9_21fb_5444_2d18, 0x3c91_a626_3314_5c06, 0x394c_1cd1_2902_4e08];
/// 2/pi behind the binary point, after one word of zeros before it.
const TWO_OVER_PI: [u64; 20] = [
    0,
    0xa2f9_836e_4e44_1529,
    0xfc27_57d1_f534_ddc0,
    0xdb62_9599_3c43_9041,
    0xfe51_63ab_debb_c561,
    0xb724_6e3a_424d_d2e0,
    0x0649_2eea_09d1_921c,
    0xfe1d_eb1c_b129_a73e,
    0xe882_35f5_2ebb_4484,
    0xe99c_7026_b45f_7e41,
    0x3991_d639_8353_39f4,
    0x9c84_5f8b_bdf9_283b,
    0x1ff8_97ff_de05_980f,
    0xef2f_118b_5a0a_6d1f,
    0x6d36_7ecf_27cb_09b7,
    0x4f46_3f66_9e5f_ea2d,
    0x7527_bac7_ebe5_f17b,
    0x3d07_39f7_8a52_92ea,
    0x6bfb_5fb1_1f8d_5d08,
    0x5603_3046_fc7b_6bab,
];
/// 1.5 * 2^52: a float to which an integer is added as is, in its low bits.
const INTEGERS: f64 = 6755399441055744.0;
/// Bits of sqrt(1/2).
const SQRT_HALF: u64 = 0x3fe6_a09e_667f_3bcd;

fn float(b: &mut Builder) -> Float<'_> {
    Float::new(b, Ty::F64)
}

/// e^(r + rest) 2^n, n an integer within -2000..=2000 as a float.
fn exp_core(f: &mut Float, r: Operand, rest: Operand, n: Operand) -> Operand {
    // The larger part takes what it can of the rest; the remainder is too small for the powers.
    let sum = f.add(r, rest);
    let lost = f.sub(r, sum);
    let rest = f.add(lost, rest);
    let r = sum;
    let p = f.horner(&EXP, r);
    let square = f.mul(r, r);
    let tail = f.fma(square, p, rest);
    let tail = f.add(tail, r);
    let value = f.add(tail, f.c(1.0));
    // Two steps, since 2^n may be no float where the value is one; only the second rounds.
    let n = f.b.cvt(Ty::S32, Ty::F64, Round::Rzi, n);
    let half = f.b.binary(BinaryOp::Shr, Ty::S32, n, Operand::u32(1));
    let other = f.b.sub(Ty::S32, n, half);
    let value = scaled(f, value, half);
    scaled(f, value, other)
}

/// `x * 2^n`, |n| <= 1022.
fn scaled(f: &mut Float, x: Operand, n: Operand) -> Operand {
    let biased = f.b.add(Ty::S32, n, Operand::i32(1023));
    let high = f.b.binary(BinaryOp::Shl, Ty::B32, biased, Operand::u32(20));
    let power = f.b.pack(Ty::B32, Operand::u32(0), high);
    f.mul(x, power)
}

/// `x` within `low..=high`, beyond which exponentials have long been 0 and infinite; NaN goes to `low`.
fn within(f: &mut Float, x: Operand, low: f64, high: f64) -> Operand {
    let x = f.max(x, f.c(low));
    f.min(x, f.c(high))
}

/// NaN where `x` is one.
fn or_nan(f: &mut Float, x: Operand, value: Operand) -> Operand {
    let nan = f.cmp(Compare::Nan, x, x);
    f.select(nan, x, value)
}

pub(super) fn exp(b: &mut Builder, x: Operand) -> Operand {
    let f = &mut float(b);
    exp_scaled(f, x, 0.0)
}

/// e^x 2^bias for a bias of 0 or -1.
pub(super) fn exp_scaled(f: &mut Float, x: Operand, bias: f64) -> Operand {
    let c = within(f, x, -746.0, 710.0 - bias);
    let p = f.mul(c, f.c(std::f64::consts::LOG2_E));
    let n = f.integral(Round::Rni, p);
    let high = f.nfma(n, f.c(LN_2[0]), c);
    let low = f.mul(n, f.c(-LN_2[1]));
    let n = if bias == 0.0 { n } else { f.add(n, f.c(bias)) };
    let value = exp_core(f, high, low, n);
    or_nan(f, x, value)
}

pub(super) fn exp2(b: &mut Builder, x: Operand) -> Operand {
    let f = &mut float(b);
    let value = exp2_sum(f, x, f.c(0.0));
    or_nan(f, x, value)
}

/// 2^(p + rest), for a rest far below one; NaN counts as very small.
fn exp2_sum(f: &mut Float, p: Operand, rest: Operand) -> Operand {
    let p = within(f, p, -1080.0, 1025.0);
    let n = f.integral(Round::Rni, p);
    let fraction = f.sub(p, n);
    let r = f.mul(fraction, f.c(LN_2[0]));
    let minus_r = f.neg(r);
    let low = f.fma(fraction, f.c(LN_2[0]), minus_r);
    let low = f.fma(fraction, f.c(LN_2[1]), low);
    let low = f.fma(rest, f.c(LN_2[0]), low);
    exp_core(f, r, low, n)
}

/// Exponent, as a float, and mantissa from sqrt(1/2) on, of a positive finite number.
fn split(f: &mut Float, x: Operand) -> (Operand, Operand) {
    let subnormal = f.lt(x, f.c(f64::MIN_POSITIVE));
    let normal = f.mul(x, f.c(18014398509481984.0)); // 2^54
    let x = f.select(subnormal, normal, x);
    let shift = f.select(subnormal, f.c(-54.0), f.c(0.0));
    let exponent = exponent_bits(f, x);
    let mantissa = f.b.sub(Ty::U64, x, exponent);
    let k = exponent_float(f, exponent);
    (f.add(k, shift), mantissa)
}

/// The exponent k of a normal number whose mantissa is to lie from sqrt(1/2) on, in the place where floats have theirs.
fn exponent_bits(f: &mut Float, x: Operand) -> Operand {
    let above = f.b.sub(Ty::U64, x, Operand::Imm(SQRT_HALF));
    f.b.and(Ty::U64, above, Operand::Imm(0xfff0 << 48))
}

fn exponent_float(f: &mut Float, exponent: Operand) -> Operand {
    let k = f.b.binary(BinaryOp::Shr, Ty::S64, exponent, Operand::u32(52));
    f.b.cvt(Ty::F64, Ty::S64, Round::Rn, k)
}

/// log(1 + a), for 1 + a from sqrt(1/2) to sqrt 2: a, and what is to be added to it.
fn log_core(f: &mut Float, a: Operand) -> Operand {
    // With s = a / (2 + a), u = 2 s: log(1 + a) = u + u^3 P(u^2) = a - s (a - 2 u^2 P(u^2)).
    let denominator = f.add(a, f.c(2.0));
    let s = f.div(a, denominator);
    let u = f.add(s, s);
    let square = f.mul(u, u);
    let p = f.horner(&LOG, square);
    let twice = f.add(square, square);
    let rest = f.nfma(twice, p, a);
    let product = f.mul(s, rest);
    f.neg(product)
}

/// The logarithm's values where it has no finite one; `value` elsewhere.
fn log_specials(f: &mut Float, x: Operand, value: Operand) -> Operand {
    let infinity = f.c(f64::INFINITY);
    let (finite, positive) = (f.lt(x, infinity), f.cmp(Compare::Gt, x, f.c(0.0)));
    // Infinity and NaN stay; what is negative becomes NaN.
    let other = f.fma(x, infinity, infinity);
    let zero = f.cmp(Compare::Eq, x, f.c(0.0));
    let other = f.select(zero, f.c(f64::NEG_INFINITY), other);
    let ordinary = f.b.and(Ty::Pred, finite, positive);
    f.select(ordinary, value, other)
}

pub(super) fn log(b: &mut Builder, x: Operand) -> Operand {
    let f = &mut float(b);
    let (k, m) = split(f, x);
    let a = f.sub(m, f.c(1.0));
    let value = log_sum(f, a, k);
    log_specials(f, x, value)
}

/// log(1 + a) + k ln 2
fn log_sum(f: &mut Float, a: Operand, k: Operand) -> Operand {
    let rest = log_core(f, a);
    let low = f.fma(k, f.c(LN_2[1]), rest);
    let sum = f.add(a, low);
    f.fma(k, f.c(LN_2[0]), sum)
}

/// log(1 + x) + extra ln 2, for x >= 0; infinity and NaN stay.
pub(super) fn log1p(f: &mut Float, x: Operand, extra: Operand) -> Operand {
    let one = f.c(1.0);
    let u = f.add(x, one);
    let exponent = exponent_bits(f, u);
    // (1 + x) 2^-k - 1 with one rounding: the rounding of u only chose k.
    let scale = f.b.sub(Ty::U64, one, exponent);
    let rest = f.sub(scale, one);
    let a = f.fma(x, scale, rest);
    let k = exponent_float(f, exponent);
    let k = f.add(k, extra);
    let value = log_sum(f, a, k);
    let finite = f.lt(x, f.c(f64::INFINITY));
    f.select(finite, value, x)
}

pub(super) fn log2(b: &mut Builder, x: Operand) -> Operand {
    let f = &mut float(b);
    let (k, m) = split(f, x);
    let a = f.sub(m, f.c(1.0));
    let rest = log_core(f, a);
    let log2_e = f.c(std::f64::consts::LOG2_E);
    let low = f.mul(rest, log2_e);
    let sum = f.fma(a, log2_e, low);
    let value = f.add(k, sum);
    log_specials(f, x, value)
}

pub(super) fn pow(b: &mut Builder, x: Operand, y: Operand) -> Operand {
    let f = &mut float(b);
    let magnitude = f.abs(x);
    let (k, m) = split(f, magnitude);
    let denominator = f.add(m, f.c(1.0));
    let reciprocal = f.unary(UnaryOp::Rcp, denominator);
    let log = log2_extended(f, &LOG, k, m, reciprocal);
    power_of_two(f, x, y, log, |f, p, rest| {
        let value = exp2_sum(f, p, rest);
        or_nan(f, p, value)
    })
}

pub(super) fn sin(b: &mut Builder, x: Operand) -> Operand {
    shifted_sin(b, x, 0)
}

pub(super) fn cos(b: &mut Builder, x: Operand) -> Operand {
    shifted_sin(b, x, 1)
}

/// sin(x + quarters pi/2), quarters being 0 or 1.
fn shifted_sin(b: &mut Builder, x: Operand, quarters: u32) -> Operand {
    let f = &mut float(b);
    let magnitude = f.abs(x);
    let (r, q) = reduce(f, magnitude);
    let q = f.b.add(Ty::U32, q, Operand::u32(quarters));
    let low = f.b.and(Ty::U32, q, Operand::u32(1));
    let is_cos = f.b.setp(Compare::Ne, Ty::U32, low, Operand::u32(0));
    let (sin, cos) = sin_cos(f, r);
    let value = f.select(is_cos, cos, sin);
    // The sign's place is bit 63: from bit 1 of q, and for the odd sine from x.
    let sign = f.b.binary(BinaryOp::Shl, Ty::B32, q, Operand::u32(30));
    let sign = f.b.pack(Ty::B32, Operand::u32(0), sign);
    let sign = if quarters == 0 { f.b.xor(Ty::U64, sign, x) } else { sign };
    let sign = f.b.and(Ty::U64, sign, Operand::Imm(1 << 63));
    f.b.xor(Ty::U64, value, sign)
}

/// Sine and cosine of a reduced argument.
fn sin_cos(f: &mut Float, r: Operand) -> (Operand, Operand) {
    let z = f.mul(r, r);
    let sin = f.odd(&SIN, r, z);
    let p = f.horner(&COS, z);
    let p = f.fma(p, z, f.c(-0.5));
    (sin, f.fma(p, z, f.c(1.0)))
}

pub(super) fn tan(b: &mut Builder, x: Operand) -> Operand {
    let f = &mut float(b);
    let magnitude = f.abs(x);
    let (r, q) = reduce(f, magnitude);
    let (sin, cos) = sin_cos(f, r);
    // Odd quarters: -cos / sin.
    let low = f.b.and(Ty::U32, q, Operand::u32(1));
    let odd = f.b.setp(Compare::Ne, Ty::U32, low, Operand::u32(0));
    let minus_cos = f.neg(cos);
    let (over, under) = (f.select(odd, minus_cos, sin), f.select(odd, sin, cos));
    let value = f.div(over, under);
    let sign = f.b.and(Ty::U64, x, Operand::Imm(1 << 63));
    f.b.xor(Ty::U64, value, sign)
}

/// r and q with x = q pi/2 + r for x >= 0, |r| little above pi/4 at most, q modulo 4 in its low bits.
fn reduce(f: &mut Float, x: Operand) -> (Operand, Operand) {
    let integers = f.c(INTEGERS);
    let sum = f.fma(x, f.c(std::f64::consts::FRAC_2_PI), integers);
    let k = f.sub(sum, integers);
    let minus_k = f.neg(k);
    let r = HALF_PI.iter().fold(x, |r, &part| f.fma(minus_k, Operand::Imm(part), r));
    let (q, _) = f.b.unpack(Ty::B32, sum);
    let (r, q) = (f.b.copy(Ty::F64, r), f.b.copy(Ty::U32, q));
    let large = f.cmp(Compare::Ge, x, f.c(1073741824.0)); // 2^30: k is exact, and so are the first differences
    f.b.when(large, |b| {
        let (exact_r, exact_q) = reduce_large(b, x);
        b.mov_to(Ty::F64, r, exact_r);
        b.mov_to(Ty::U32, q, exact_q);
    });
    (r.into(), q.into())
}

/// The same for x >= 2^30, as in `trig.rs` with words of 64 bits: x = m 2^(e - 52), the window starts at bit e - 53.
fn reduce_large(b: &mut Builder, x: Operand) -> (Operand, Operand) {
    let (_, high) = b.unpack(Ty::B32, x);
    let exponent = b.binary(BinaryOp::Shr, Ty::U32, high, Operand::u32(20));
    let position = b.sub(Ty::U32, exponent, Operand::u32(1023 - 10));
    let word = b.binary(BinaryOp::Shr, Ty::U32, position, Operand::u32(6));
    let beyond: Vec<Operand> = (1..17).map(|i| b.setp(Compare::Ge, Ty::U32, word, Operand::u32(i))).collect();
    let words: Vec<Operand> = (0..4)
        .map(|j| {
            let later = beyond.iter().zip(&TWO_OVER_PI[j + 1..]);
            later.fold(Operand::Imm(TWO_OVER_PI[j]), |w, (&p, &next)| b.selp(Ty::B64, p, Operand::Imm(next), w))
        })
        .collect();
    let shift = b.and(Ty::U32, position, Operand::u32(63));
    let back = b.xor(Ty::U32, shift, Operand::u32(63));
    let window: Vec<Operand> = words
        .windows(2)
        .map(|w| {
            let upper = b.binary(BinaryOp::Shl, Ty::B64, w[0], shift);
            let lower = b.binary(BinaryOp::Shr, Ty::U64, w[1], Operand::u32(1));
            let lower = b.binary(BinaryOp::Shr, Ty::U64, lower, back);
            b.or(Ty::U64, upper, lower)
        })
        .collect();
    let m = b.and(Ty::U64, x, Operand::Imm((1 << 52) - 1));
    let m = b.or(Ty::U64, m, Operand::Imm(1 << 52));
    // The upper 128 of the low 192 bits of m * window: two bits of quarters, then their fraction.
    let carry = b.binary(BinaryOp::MulHi, Ty::U64, m, window[2]);
    let middle = b.mul(Ty::U64, m, window[1]);
    let middle = b.add(Ty::U64, middle, carry);
    let carried = b.setp(Compare::Lt, Ty::U64, middle, carry);
    let carried = b.selp(Ty::U64, carried, Operand::Imm(1), Operand::Imm(0));
    let upper = b.binary(BinaryOp::MulHi, Ty::U64, m, window[1]);
    let top = b.mul(Ty::U64, m, window[0]);
    let top = b.add(Ty::U64, top, upper);
    let top = b.add(Ty::U64, top, carried);
    let rounded = b.add(Ty::U64, top, Operand::Imm(1 << 61));
    let (_, rounded) = b.unpack(Ty::B32, rounded);
    let q = b.binary(BinaryOp::Shr, Ty::U32, rounded, Operand::u32(30));
    // The fraction, without the quarters, as a signed number of two words.
    let fraction = b.binary(BinaryOp::Shl, Ty::B64, top, Operand::u32(2));
    let next = b.binary(BinaryOp::Shr, Ty::U64, middle, Operand::u32(62));
    let fraction = b.or(Ty::U64, fraction, next);
    let rest = b.binary(BinaryOp::Shl, Ty::B64, middle, Operand::u32(2));
    let fraction = b.cvt(Ty::F64, Ty::S64, Round::Rn, fraction);
    let rest = b.cvt(Ty::F64, Ty::U64, Round::Rn, rest);
    let f = &mut float(b);
    let two_64 = 18446744073709551616.0;
    let sum = f.fma(rest, f.c(1.0 / two_64), fraction);
    let r = f.mul(sum, f.c(std::f64::consts::FRAC_PI_2 / two_64));
    // NaN for an infinite x, nothing otherwise.
    (f.fma(x, f.c(0.0), r), q)
}
