//! Functions of every number of 16 bits, held to float64 in units in the last place (ULP) of f16 and bf16.
//!
//! Here are the functions that are made of steps, and those of two numbers with one of them fixed. What is a step of its own is run on all bits
//! by the cases of `unary` and `cast`. A table of functions is one kernel for each dtype; [`Bound`] says what is demanded, and a test below that no
//! function is left out. Results are those of f32, rounded once, so 24 ULP of f32 leave 0.503 ULP of f16, and 0.5004 of bf16.

use std::f64::consts::PI;

use super::{Answer, Test, demand};
use crate::oracle::Subnormals;
use crate::{DType, Device, Expr, Result, Scalar, Tensor};

pub(super) const ROWS: &[(&str, Test)] = &[
    ("all 16-bit floats: exponentials and logarithms near zero", |device| floats(device, &NEAR_ZERO)),
    ("all 16-bit floats: functions of straight pieces", |device| floats(device, &PIECES)),
    ("all 16-bit floats: kinds of numbers, and the gamma function's derivative", |device| floats(device, &KINDS)),
    ("all 16-bit floats: angles, lengths, signs and powers", |device| floats(device, &PLANE)),
    ("all 16-bit floats: remainders and quotients", |device| floats(device, &QUOTIENTS)),
    ("all 16-bit floats: neighbours, and the larger and smaller of two", |device| floats(device, &ORDER)),
    ("all 16-bit floats: ways between two numbers", |device| floats(device, &WAYS)),
    ("all 16-bit integers: bits counted, turned and moved", integers),
];

const COUNT: u64 = 1 << 16;
const INFINITY: f64 = f64::INFINITY;

/// One function of x.
struct Function {
    name: &'static str,
    on_device: fn(&Expr) -> Expr,
    /// The same in float64, for x of this dtype.
    by_hand: fn(f64, DType) -> f64,
    bound: Bound,
}

/// How far a result may be from float64's.
enum Bound {
    /// It is the nearest number, halves to even.
    Nearest,
    /// So many ULP of the result.
    Ulps(f64),
    /// The same; 0 is right, too, below this x on devices that may flush e^x.
    Tail(f64, f64),
    /// The rounding, and 24 ULP of f32 of this sum of the terms' magnitudes: terms cancel.
    Terms(fn(f64) -> f64),
}
use Bound::{Nearest, Tail, Terms, Ulps};

const fn function(
    name: &'static str,
    on_device: fn(&Expr) -> Expr,
    by_hand: fn(f64, DType) -> f64,
    bound: Bound,
) -> Function {
    Function { name, on_device, by_hand, bound }
}

/// 24 ULP of f32 and the rounding to f16: 0.5 + 24 / 2^13.
const FEW: Bound = Ulps(0.503);

const NEAR_ZERO: [Function; 5] = [
    function("expm1", |x| x.expm1(), |x, _| x.exp_m1(), FEW),
    function("log1p", |x| x.log1p(), |x, _| x.ln_1p(), FEW),
    function("softplus", |x| x.softplus(), |x, _| softplus(x), FEW),
    function("mish", |x| x.mish(), |x, _| x * softplus(x).tanh(), Tail(0.503, -87.0)),
    function("elu", |x| x.elu(1.5), |x, _| if x > 0.0 { x } else { 1.5 * x.exp_m1() }, FEW),
];

const PIECES: [Function; 6] = [
    function("leaky_relu", |x| x.leaky_relu(0.25), |x, _| if x > 0.0 { x } else { 0.25 * x }, Nearest),
    function("hardsigmoid", |x| x.hardsigmoid(), |x, _| (x + 3.0).clamp(0.0, 6.0) / 6.0, FEW),
    function("hardswish", |x| x.hardswish(), |x, _| x * ((x + 3.0).clamp(0.0, 6.0) / 6.0), FEW),
    function("trunc", |x| x.trunc(), |x, _| x.trunc(), Nearest),
    function("fract", |x| x.fract(), |x, _| x - x.trunc(), Nearest),
    function("nan_to_num", |x| x.nan_to_num(7.0, 8.0, -9.0), |x, _| number(x), Nearest),
];

const KINDS: [Function; 4] = [
    function("is_nan", |x| x.is_nan(), |x, _| x.is_nan().into(), Nearest),
    function("is_inf", |x| x.is_inf(), |x, _| x.is_infinite().into(), Nearest),
    function("is_finite", |x| x.is_finite(), |x, _| x.is_finite().into(), Nearest),
    function("digamma", |x| x.digamma(), |x, _| digamma(x), Terms(terms_of_digamma)),
];

const PLANE: [Function; 6] = [
    function("atan2", |x| x.atan2(-3.0), |x, _| x.atan2(-3.0), FEW),
    function("atan2 from 2.5", |x| Expr::from(2.5).atan2(x), |x, _| 2.5f64.atan2(x), FEW),
    function("hypot", |x| x.hypot(-3.0), |x, _| x.hypot(-3.0), FEW),
    function("copysign", |x| x.copysign(-0.0), |x, _| x.copysign(-0.0), Nearest),
    function("copysign from 1.5", |x| Expr::from(1.5).copysign(x), |x, _| 1.5f64.copysign(x), Nearest),
    // 16 + 4 |b log2 a| ULP of f32, f16's logarithms being at most 24.
    function("pow", |x| x.pow(0.75), |x, _| x.powf(0.75), Ulps(0.511)),
];

const QUOTIENTS: [Function; 6] = [
    function("fmod", |x| x.fmod(2.5), |x, _| x % 2.5, Nearest),
    function("fmod from 100", |x| Expr::from(100.0).fmod(x), |x, _| 100.0 % x, Nearest),
    function("remainder", |x| x.remainder(-2.5), |x, _| remainder(x, -2.5), Nearest),
    function("remainder from -100", |x| Expr::from(-100.0).remainder(x), |x, _| remainder(-100.0, x), FEW),
    function("floor_divide", |x| x.floor_divide(2.5), |x, _| quotient(x, 2.5), FEW),
    function("floor_divide from 100", |x| Expr::from(100.0).floor_divide(x), |x, _| quotient(100.0, x), FEW),
];

const ORDER: [Function; 6] = [
    function("nextafter", |x| x.nextafter(1.0), |x, dtype| neighbour(x, 1.0, dtype), Nearest),
    function("nextafter from 1", |x| Expr::from(1.0).nextafter(x), |x, dtype| neighbour(1.0, x, dtype), Nearest),
    function("maximum", |x| x.maximum(0.75), |x, _| if x.is_nan() { x } else { x.max(0.75) }, Nearest),
    function("minimum", |x| x.minimum(-0.75), |x, _| if x.is_nan() { x } else { x.min(-0.75) }, Nearest),
    function("fmax", |x| x.fmax(0.75), |x, _| x.max(0.75), Nearest),
    function("fmin", |x| x.fmin(-0.75), |x, _| x.min(-0.75), Nearest),
];

const WAYS: [Function; 3] = [
    function("lerp", |x| x.lerp(2.5, 0.25), |x, _| x + 0.25 * (2.5 - x), Terms(|x| x.abs() + 2.5)),
    function("lerp to x", |x| Expr::from(1.0).lerp(x, 0.75), |x, _| x - (x - 1.0) * 0.25, Terms(|x| x.abs() + 1.0)),
    // 16 + 4 |x log2 2.5| ULP of f32: results are infinite or 0 from 128 / log2 2.5 on.
    function("pow from 2.5", |x| Expr::from(2.5).pow(x), |x, _| 2.5f64.powf(x), Ulps(0.517)),
];

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn number(x: f64) -> f64 {
    match x {
        _ if x.is_nan() => 7.0,
        INFINITY => 8.0,
        f64::NEG_INFINITY => -9.0,
        _ => x,
    }
}

fn remainder(a: f64, b: f64) -> f64 {
    let rest = a % b;
    if rest == 0.0 { rest.copysign(b) } else { rest + if (rest < 0.0) == (b < 0.0) { 0.0 } else { b } }
}

fn quotient(a: f64, b: f64) -> f64 {
    if a.is_infinite() {
        return f64::NAN;
    }
    if b == 0.0 {
        return a / b;
    }
    let rest = a % b;
    let whole = if b.is_infinite() { 0.0 } else { ((a - rest) / b).round() };
    let whole = whole - f64::from(u8::from(rest != 0.0 && (rest < 0.0) != (b < 0.0)));
    if whole == 0.0 { 0f64.copysign(a / b) } else { whole }
}

/// The number after `from` on the way to `to`, by the place of its bits among all of them.
fn neighbour(from: f64, to: f64, dtype: DType) -> f64 {
    if from.is_nan() || to.is_nan() {
        return f64::NAN;
    }
    if from == to {
        return to;
    }
    let bytes = Scalar::F(from).to_le_bytes(dtype);
    let bits = i32::from(u16::from_le_bytes([bytes[0], bytes[1]]));
    let place = if bits < 0x8000 { bits } else { 0x8000 - bits };
    let next = if to > from { place + 1 } else { place - 1 };
    let bits = if next < 0 || (next == 0 && from < 0.0) { 0x8000 + next.abs() } else { next };
    of_bits(bits as u16, dtype)
}

/// 1 / (x + k) less from x + 20, where the asymptotic series (Abramowitz & Stegun, 6.3.18) needs four terms; below 1/2 by reflection.
fn digamma(x: f64) -> f64 {
    if x < 0.5 {
        let turns = x - x.round();
        return digamma(1.0 - x) - PI / (turns * PI).tan();
    }
    let z = x + 20.0;
    let square = 1.0 / (z * z);
    let series = square * (1.0 / 12.0 - square * (1.0 / 120.0 - square * (1.0 / 252.0 - square / 240.0)));
    z.ln() - 0.5 / z - series - (0..20).map(|k| 1.0 / (x + f64::from(k))).sum::<f64>()
}

fn terms_of_digamma(x: f64) -> f64 {
    let (positive, mirror) = if x < 0.5 { (1.0 - x, (PI / (x * PI).tan()).abs()) } else { (x, 0.0) };
    (positive + 8.0).ln() + (0..8).map(|k| 1.0 / (positive + f64::from(k))).sum::<f64>() + mirror
}

fn of_bits(bits: u16, dtype: DType) -> f64 {
    Scalar::from_le_bytes(&bits.to_le_bytes(), dtype).as_f64()
}

/// The distance between numbers of `dtype` around y.
fn ulp(y: f64, dtype: DType) -> f64 {
    let size = y.abs().clamp(dtype.min_normal(), dtype.max_finite());
    let power = f64::from_bits(size.to_bits() & (0x7ff << 52));
    2.0 * dtype.unit_roundoff() * power
}

/// Between two results in ULP. Infinity lies one beyond the largest number, as it does for rounding.
fn distance(found: f64, want: f64, dtype: DType) -> f64 {
    if found.is_nan() || want.is_nan() {
        return if found.is_nan() && want.is_nan() { 0.0 } else { INFINITY };
    }
    let end = dtype.max_finite() + ulp(dtype.max_finite(), dtype);
    (found.clamp(-end, end) - want.clamp(-end, end)).abs() / ulp(want, dtype)
}

impl Function {
    /// Whether `found` may be this of `x`, numbers of `dtype` and of `result`.
    fn allows(&self, x: f64, found: f64, dtype: DType, result: DType, subnormals: Subnormals) -> bool {
        let want = (self.by_hand)(x, dtype);
        if matches!(self.bound, Nearest) && result == DType::Bool {
            return found == want;
        }
        let may_flush = subnormals == Subnormals::MayFlush;
        let flushed = if may_flush && want.abs() <= 2.0 * dtype.min_normal() {
            dtype.min_normal() / ulp(want, dtype)
        } else {
            0.0
        };
        let signs = want != 0.0 || found != 0.0 || want.is_sign_negative() == found.is_sign_negative();
        let off = distance(found, want, dtype);
        signs
            && match self.bound {
                Nearest => distance(found, Scalar::F(want).cast(dtype).as_f64(), dtype) <= flushed,
                Ulps(most) => off <= most + flushed,
                Tail(most, end) => off <= most + flushed || (may_flush && x < end && found == 0.0),
                // Terms may be NaN where the result is.
                Terms(sum) => {
                    let cancelled = 24.0 * f64::from(f32::EPSILON) * sum(x) / ulp(want, dtype);
                    off == 0.0 || off <= 0.5 + flushed + cancelled
                }
            }
    }
}

fn floats(device: &Device, functions: &[Function]) -> Result<Answer> {
    let subnormals = device.info().subnormals;
    let bits: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    for dtype in [DType::F16, DType::BF16].into_iter().filter(|&dtype| device.supports(dtype)) {
        let x = Tensor::from_bytes(device, dtype, &bits, [COUNT])?;
        let exprs: Vec<Expr> = functions.iter().map(|function| (function.on_device)(&Expr::input(0))).collect();
        for (function, result) in functions.iter().zip(Tensor::map_all(&exprs, &[&x])?) {
            let (bytes, of) = (result.to_bytes()?, result.dtype());
            let mut wrong = Vec::new();
            for (bits, found) in (0..=u16::MAX).zip(bytes.chunks_exact(of.size_bytes() as usize)) {
                let (x, found) = (of_bits(bits, dtype), Scalar::from_le_bytes(found, of).as_f64());
                let allows = |x| function.allows(x, found, dtype, of, subnormals);
                // A device may take a subnormal number for 0.
                let is_tiny = x != 0.0 && x.abs() < dtype.min_normal() && subnormals == Subnormals::MayFlush;
                // The sign of NaN need not outlive a conversion.
                if !(allows(x) || (is_tiny && (allows(0.0) || allows(-0.0))) || (x.is_nan() && allows(-x))) {
                    wrong.push((x, found));
                }
            }
            let by_distance = |&(x, found): &(f64, f64)| distance(found, (function.by_hand)(x, dtype), dtype);
            let worst = wrong.iter().copied().max_by(|a, b| by_distance(a).total_cmp(&by_distance(b)));
            if let Some((x, found)) = worst {
                let (name, want) = (function.name, (function.by_hand)(x, dtype));
                let off = by_distance(&(x, found));
                let count = wrong.len();
                demand!(false, "{dtype} {name}({x:e}) is {found:e}, not {want:e}: {off:.3} ULP off; {count} are wrong");
            }
        }
    }
    Ok(Ok(()))
}

/// A function of an integer's bits.
type OfBits = (&'static str, fn(&Expr) -> Expr, fn(u16, DType) -> u16);

const OF_BITS: [OfBits; 6] = [
    ("not", |x| x.not(), |bits, _| !bits),
    ("count_ones", |x| x.count_ones(), |bits, _| bits.count_ones() as u16),
    ("leading_zeros", |x| x.leading_zeros(), |bits, _| bits.leading_zeros() as u16),
    ("trailing_zeros", |x| x.trailing_zeros(), |bits, _| bits.trailing_zeros() as u16),
    ("shl", |x| x.shl(3), |bits, _| bits << 3),
    ("shr", |x| x.shr(3), |bits, dtype| if dtype == DType::I16 { (bits as i16 >> 3) as u16 } else { bits >> 3 }),
];

fn integers(device: &Device) -> Result<Answer> {
    let bits: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    for dtype in [DType::I16, DType::U16].into_iter().filter(|&dtype| device.supports(dtype)) {
        let x = Tensor::from_bytes(device, dtype, &bits, [COUNT])?;
        let exprs = OF_BITS.map(|(_, on_device, _)| on_device(&Expr::input(0)));
        for ((name, _, by_hand), result) in OF_BITS.into_iter().zip(Tensor::map_all(&exprs, &[&x])?) {
            for (bits, found) in (0..=u16::MAX).zip(result.to_bytes()?.chunks_exact(2)) {
                let (found, want) = (u16::from_le_bytes([found[0], found[1]]), by_hand(bits, dtype));
                demand!(found == want, "{dtype} {name} of {bits:#06x} is {found:#06x}, not {want:#06x}");
            }
        }
    }
    Ok(Ok(()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::BinaryFn;

    fn all() -> impl Iterator<Item = &'static Function> {
        let tables: [&[Function]; 7] = [&NEAR_ZERO, &PIECES, &KINDS, &PLANE, &QUOTIENTS, &ORDER, &WAYS];
        tables.into_iter().flatten()
    }

    #[test]
    fn every_function_of_steps_and_of_two_floats_is_here() {
        let source = include_str!("../../expr/functions.rs");
        let of_steps = source.split("    pub fn ").skip(1).filter_map(|text| text.split('(').next());
        // Sums, products and quotients are steps' own, held to pairs of special numbers.
        let plain = [BinaryFn::Add, BinaryFn::Sub, BinaryFn::Mul, BinaryFn::Div];
        let of_two = BinaryFn::ALL.into_iter().filter(|f| f.defined_for(DType::F16) && !plain.contains(f));
        let of_two = of_two.map(|f| match f {
            BinaryFn::Max => "maximum",
            BinaryFn::Min => "minimum",
            BinaryFn::Rem => "fmod",
            f => f.name(),
        });
        let names: Vec<&str> = of_steps.chain(of_two).collect();
        assert!(names.len() > 25, "{names:?}");
        for name in names {
            assert!(all().any(|function| function.name == name), "{name}");
        }
    }

    #[test]
    fn distances_are_in_units_of_the_wanted_number() {
        assert_eq!(distance(1.0, 1.0 + 1.0 / 2048.0, DType::F16), 0.5);
        assert_eq!(distance(2.0, 2.0 - 1.0 / 1024.0, DType::F16), 1.0);
        assert_eq!(distance(0.0, 3e-8, DType::F16), 3e-8 * 16_777_216.0);
        assert_eq!(distance(INFINITY, 65_520.0, DType::F16), 0.5);
        assert_eq!(distance(65_504.0, 1e9, DType::F16), 1.0);
        assert_eq!(distance(f64::NAN, 1.0, DType::BF16), INFINITY);
    }

    /// Each with a reference that is wrong by little, or at one number alone.
    #[cfg(feature = "cpu")]
    #[test]
    fn wrong_references_are_seen() {
        let device = Device::cpu();
        let wrong = [
            function("expm1", |x| x.expm1(), |x, _| x.exp() - 1.0 + 1e-4, FEW),
            function("log1p", |x| x.log1p(), |x, _| x.ln_1p() * (1.0 + 1.0 / 4096.0), FEW),
            function("elu", |x| x.elu(1.5), |x, _| if x > 0.0 { x } else { 1.499 * x.exp_m1() }, FEW),
            function("trunc", |x| x.trunc(), |x, _| x.floor(), Nearest),
            function("fract", |x| x.fract(), |x, _| (x - x.trunc()).copysign(x), Nearest),
            function("nan_to_num", |x| x.nan_to_num(7.0, 8.0, -9.0), |x, _| number(x).min(8.0), Nearest),
            function("is_finite", |x| x.is_finite(), |x, _| (!x.is_nan()).into(), Nearest),
            function("maximum", |x| x.maximum(0.75), |x, _| x.max(0.75), Nearest),
            function("nextafter", |x| x.nextafter(1.0), |x, _| x, Nearest),
            function("mish", |x| x.mish(), |x, _| x * softplus(x), Tail(0.503, -87.0)),
            function("digamma", |x| x.digamma(), |x, _| digamma(x) + 1e-3, Terms(terms_of_digamma)),
        ];
        for function in wrong {
            let name = function.name;
            let answer = floats(&device, &[function]).unwrap();
            assert!(answer.as_ref().is_err_and(|text| text.contains(name)), "{name}: {answer:?}");
        }
    }
}
