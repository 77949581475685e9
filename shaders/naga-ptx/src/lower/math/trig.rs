//! `sin`, `cos`, `tan` of f32 and f16.
//!
//! The decision to know: up to 2^16 the argument loses its multiples of pi/2 to three constants (Cody and Waite), which
//! costs three fused multiply-adds; beyond, a branch multiplies its mantissa by 2/pi as an integer of 96 bits (Payne
//! and Hanek, "Radian reduction for trigonometric functions", 1983), so that the result is right for every float.
//! Halves end below 2^16 and have no branch. Coefficients: `minimax.py`.

use super::exp_log::INTEGERS;
use super::float::{Float, half};
use crate::ir::{BinaryOp, Builder, Compare, Operand, Round, TernaryOp, Ty, UnaryOp};

/// sin(r) = r + r^3 P(r^2), |r| <= pi/4 + 0.004: 2^-27.9.
const SIN: [f64; 3] = [-1.66666552e-01, 8.33218452e-03, -1.95171990e-04];
/// cos(r) = 1 - r^2 / 2 + r^4 P(r^2): 2^-33.1.
const COS: [f64; 3] = [4.16666456e-02, -1.38873013e-03, 2.44306684e-05];
/// tan(r) = r + r^3 P(r^2): 2^-29.2.
const TAN: [f64; 7] =
    [3.33333522e-01, 1.33325741e-01, 5.40702194e-02, 2.12286673e-02, 1.09747192e-02, -8.64613394e-05, 4.46299464e-03];
/// pi/2 in three floats, each cut off: what is left is positive.
const HALF_PI: [u32; 3] = [0x3fc9_0fda, 0x33a2_2168, 0x27c2_34c4];
/// 2/pi behind the binary point, after one word of zeros before it.
const TWO_OVER_PI: [u32; 8] =
    [0, 0xa2f9_836e, 0x4e44_1529, 0xfc27_57d1, 0xf534_ddc0, 0xdb62_9599, 0x3c43_9041, 0xfe51_63ab];

/// From here on multiples of pi/2 are too many for [`HALF_PI`].
const LARGE: f32 = 65536.0;

/// Which arguments there are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Domain {
    /// Below [`LARGE`].
    Small,
    All,
}

pub(super) fn sin(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    shifted_sin(b, ty, x, 0)
}

pub(super) fn cos(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    shifted_sin(b, ty, x, 1)
}

pub(super) fn tan(b: &mut Builder, ty: Ty, x: Operand) -> Operand {
    match ty {
        Ty::F16 => half(b, x, |f, x| tan_f32(f, x, Domain::Small)),
        _ => tan_f32(&mut Float::new(b, Ty::F32), x, Domain::All),
    }
}

/// sin(x + quarters pi/2)
fn shifted_sin(b: &mut Builder, ty: Ty, x: Operand, quarters: u32) -> Operand {
    match ty {
        Ty::F16 => half(b, x, |f, x| sin_f32(f, x, quarters, Domain::Small)),
        _ => sin_f32(&mut Float::new(b, Ty::F32), x, quarters, Domain::All),
    }
}

fn sin_f32(f: &mut Float, x: Operand, quarters: u32, domain: Domain) -> Operand {
    let magnitude = f.abs(x);
    let (r, q) = reduce(f, magnitude, domain);
    let q = f.b.add(Ty::U32, q, Operand::u32(quarters));
    let is_cos = is_odd(f, q);
    // One polynomial with the coefficients of either: a + a r^2 P(r^2), a being 1 for the cosine and r for the sine.
    let z = f.mul(r, r);
    let cos = [-0.5, COS[0], COS[1], COS[2]];
    let sin = [SIN[0], SIN[1], SIN[2], 0.0];
    let mut p = f.select(is_cos, f.c(cos[3]), f.c(sin[3]));
    for i in (0..3).rev() {
        let c = f.select(is_cos, f.c(cos[i]), f.c(sin[i]));
        p = f.fma(p, z, c);
    }
    let a = f.select(is_cos, f.c(1.0), r);
    let az = f.mul(a, z);
    let value = f.fma(az, p, a);
    let sign = f.b.and(Ty::U32, q, Operand::u32(2));
    let sign = f.b.binary(BinaryOp::Shl, Ty::B32, sign, Operand::u32(30));
    let value = f.b.xor(Ty::U32, value, sign);
    // The cosine is even.
    if quarters == 0 { flip(f, x, value) } else { value }
}

fn tan_f32(f: &mut Float, x: Operand, domain: Domain) -> Operand {
    let magnitude = f.abs(x);
    let (r, q) = reduce(f, magnitude, domain);
    let z = f.mul(r, r);
    let tan = f.odd(&TAN, r, z);
    // Odd quarters: -1 / tan.
    let reciprocal = f.unary(UnaryOp::Rcp, tan);
    let cot = f.neg(reciprocal);
    let odd = is_odd(f, q);
    let value = f.select(odd, cot, tan);
    flip(f, x, value)
}

fn is_odd(f: &mut Float, q: Operand) -> Operand {
    let low = f.b.and(Ty::U32, q, Operand::u32(1));
    f.b.setp(Compare::Ne, Ty::U32, low, Operand::u32(0))
}

/// `value`, negated where x is negative (-0 included).
fn flip(f: &mut Float, x: Operand, value: Operand) -> Operand {
    let sign = f.b.and(Ty::U32, x, Operand::u32(1 << 31));
    f.b.xor(Ty::U32, value, sign)
}

/// r and q with x = q pi/2 + r for x >= 0; |r| is little above pi/4 at most, q an integer modulo 4 in its low bits.
fn reduce(f: &mut Float, x: Operand, domain: Domain) -> (Operand, Operand) {
    let integers = f.c(INTEGERS);
    let q = f.fma(x, f.c(std::f64::consts::FRAC_2_PI), integers);
    let k = f.sub(q, integers);
    let minus_k = f.neg(k);
    let r = HALF_PI.iter().fold(x, |r, &part| f.fma(minus_k, Operand::u32(part), r));
    if domain == Domain::Small {
        return (r, q);
    }
    let (r, q) = (f.b.copy(Ty::F32, r), f.b.copy(Ty::U32, q));
    let large = f.cmp(Compare::Ge, x, Operand::f32(LARGE));
    f.b.when(large, |b| {
        let (exact_r, exact_q) = reduce_large(b, x);
        b.mov_to(Ty::F32, r, exact_r);
        b.mov_to(Ty::U32, q, exact_q);
    });
    (r.into(), q.into())
}

/// The same for x >= 2^16.
fn reduce_large(b: &mut Builder, x: Operand) -> (Operand, Operand) {
    // x = m 2^(e - 23). Bits of 2/pi of weight 2^(25 - e) and more give multiples of 4 and are skipped: the window of
    // 96 bits that matters starts at bit e - 24, the first behind the point being 1 (the zero word ahead makes room).
    let exponent = b.binary(BinaryOp::Shr, Ty::U32, x, Operand::u32(23));
    let position = b.sub(Ty::U32, exponent, Operand::u32(127 - 7));
    let word = b.binary(BinaryOp::Shr, Ty::U32, position, Operand::u32(5));
    let beyond: Vec<Operand> = (1..5).map(|i| b.setp(Compare::Ge, Ty::U32, word, Operand::u32(i))).collect();
    let words: Vec<Operand> = (0..4)
        .map(|j| {
            let start = Operand::u32(TWO_OVER_PI[j]);
            beyond
                .iter()
                .zip(&TWO_OVER_PI[j + 1..])
                .fold(start, |w, (&p, &next)| b.selp(Ty::B32, p, Operand::u32(next), w))
        })
        .collect();
    // A funnel shift counts modulo 32.
    let window: Vec<Operand> =
        words.windows(2).map(|w| b.ternary(TernaryOp::ShfL, Ty::B32, w[1], w[0], position)).collect();
    let m = b.and(Ty::U32, x, Operand::u32(0x007f_ffff));
    let m = b.or(Ty::U32, m, Operand::u32(0x0080_0000));
    // The upper 64 of the low 96 bits of m * window: two bits of quarters, 62 of their fraction.
    let low = b.binary(BinaryOp::MulWide, Ty::U32, m, window[2]);
    let carry = b.binary(BinaryOp::Shr, Ty::U64, low, Operand::u32(32));
    let middle = b.ternary(TernaryOp::MadWide, Ty::U32, m, window[1], carry);
    let high = b.mul(Ty::U32, m, window[0]);
    let high = b.pack(Ty::B32, Operand::u32(0), high);
    let product = b.add(Ty::U64, middle, high);
    let rounded = b.add(Ty::U64, product, Operand::Imm(1 << 61));
    let (_, rounded) = b.unpack(Ty::B32, rounded);
    let q = b.binary(BinaryOp::Shr, Ty::U32, rounded, Operand::u32(30));
    // The fraction as a signed number: rounded up where it is a half or more, like q.
    let fraction = b.binary(BinaryOp::Shl, Ty::B64, product, Operand::u32(2));
    let fraction = b.cvt(Ty::F64, Ty::S64, Round::Rn, fraction);
    let unit = std::f64::consts::FRAC_PI_2 / 18446744073709551616.0; // 2^64
    let r = b.binary(BinaryOp::MulRn, Ty::F64, fraction, Operand::f64(unit));
    let r = b.cvt(Ty::F32, Ty::F64, Round::Rn, r);
    // NaN for an infinite x, nothing otherwise.
    (b.fma(Ty::F32, x, Operand::f32(0.0), r), q)
}
