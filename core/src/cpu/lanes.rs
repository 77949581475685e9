//! Blocks of values in a compute type, and every step of an expression on them.
//!
//! A [`Lanes`] holds up to [`BLOCK`] values of one step. Each function maps whole blocks, so its inner loop is a vector
//! loop and the choice of function is made once per block, not once per element.

use half::{bf16, f16};

use crate::cpu::philox::{self, Stream, philox4x32_10};
use crate::cpu::reduce::{Number, Widen};
use crate::cpu::simd;
use crate::cpu::vmath;
use crate::rounding::{bf16_from_f64, bf16_from_i64, bf16_from_u64, f16_from_f64};
use crate::{BinaryFn, CompareFn, DType, F8E4M3, F8E5M2, Scalar, UnaryFn};

/// Values per block: a handful of f32 blocks stay in a 32 KiB L1.
pub(crate) const BLOCK: usize = 1024;

/// The values of one step; the variant is the step's compute type.
#[derive(Clone, Debug)]
pub(crate) enum Lanes {
    F32(Vec<f32>),
    F64(Vec<f64>),
    I32(Vec<i32>),
    U32(Vec<u32>),
    I64(Vec<i64>),
    U64(Vec<u64>),
    /// 0 or 1
    Bool(Vec<u8>),
}

/// Runs `$body` with the values of `$lanes`, whatever their type.
macro_rules! with_lanes {
    ($lanes:expr, $x:ident => $body:expr) => {
        match $lanes {
            Lanes::F32($x) => $body,
            Lanes::F64($x) => $body,
            Lanes::I32($x) => $body,
            Lanes::U32($x) => $body,
            Lanes::I64($x) => $body,
            Lanes::U64($x) => $body,
            Lanes::Bool($x) => $body,
        }
    };
}

impl Lanes {
    /// Room for a block of a step of `dtype`.
    pub(crate) fn new(dtype: DType) -> Lanes {
        match dtype.compute() {
            DType::F32 => Lanes::F32(vec![0.0; BLOCK]),
            DType::F64 => Lanes::F64(vec![0.0; BLOCK]),
            DType::I32 => Lanes::I32(vec![0; BLOCK]),
            DType::U32 => Lanes::U32(vec![0; BLOCK]),
            DType::I64 => Lanes::I64(vec![0; BLOCK]),
            DType::U64 => Lanes::U64(vec![0; BLOCK]),
            _ => Lanes::Bool(vec![0; BLOCK]),
        }
    }

    /// Every value `value`.
    pub(crate) fn fill(&mut self, value: Scalar) {
        match self {
            Lanes::F32(x) => x.fill(value.as_f64() as f32),
            Lanes::F64(x) => x.fill(value.as_f64()),
            Lanes::I32(x) => x.fill(value.as_i64() as i32),
            Lanes::U32(x) => x.fill(value.as_i64() as u32),
            Lanes::I64(x) => x.fill(value.as_i64()),
            Lanes::U64(x) => x.fill(value.as_u64()),
            Lanes::Bool(x) => x.fill(u8::from(value.as_i64() != 0)),
        }
    }

    /// The positions `start`, `start + 1`, ...
    pub(crate) fn fill_index(&mut self, start: u64) {
        let positions = start..;
        match self {
            Lanes::F32(x) => x.iter_mut().zip(positions).for_each(|(x, i)| *x = i as f32),
            Lanes::F64(x) => x.iter_mut().zip(positions).for_each(|(x, i)| *x = i as f64),
            Lanes::I32(x) => x.iter_mut().zip(positions).for_each(|(x, i)| *x = i as i32),
            Lanes::U32(x) => x.iter_mut().zip(positions).for_each(|(x, i)| *x = i as u32),
            Lanes::I64(x) => x.iter_mut().zip(positions).for_each(|(x, i)| *x = i as i64),
            Lanes::U64(x) => x.iter_mut().zip(positions).for_each(|(x, i)| *x = i),
            Lanes::Bool(x) => x.iter_mut().zip(positions).for_each(|(x, i)| *x = u8::from(i != 0)),
        }
    }

    /// Wraps values of 8 and 16 bits that a step has computed in 32 bits.
    pub(crate) fn wrap(&mut self, dtype: DType) {
        match (self, dtype) {
            (Lanes::I32(x), DType::I8) => x.iter_mut().for_each(|x| *x = i32::from(*x as i8)),
            (Lanes::U32(x), DType::U8) => x.iter_mut().for_each(|x| *x &= 0xff),
            (Lanes::I32(x), DType::I16) => x.iter_mut().for_each(|x| *x = i32::from(*x as i16)),
            (Lanes::U32(x), DType::U16) => x.iter_mut().for_each(|x| *x &= 0xffff),
            _ => {}
        }
    }
}

/// `y = f(x)` for the first `len` values of a step of `dtype`.
pub(crate) fn unary(f: UnaryFn, dtype: DType, x: &Lanes, y: &mut Lanes, len: usize) {
    if matches!(f, UnaryFn::CountOnes | UnaryFn::LeadingZeros | UnaryFn::TrailingZeros) {
        return count_bits(f, dtype, x, y, len);
    }
    match (x, y) {
        (Lanes::F32(x), Lanes::F32(y)) => unary_f32(f, &x[..len], &mut y[..len]),
        (Lanes::F64(x), Lanes::F64(y)) => unary_f64(f, &x[..len], &mut y[..len]),
        (Lanes::I32(x), Lanes::I32(y)) => match f {
            UnaryFn::Abs => simd::map1(|x: i32| x.wrapping_abs(), &x[..len], &mut y[..len]),
            UnaryFn::Neg => simd::map1(|x: i32| x.wrapping_neg(), &x[..len], &mut y[..len]),
            UnaryFn::Relu => simd::map1(|x: i32| x.max(0), &x[..len], &mut y[..len]),
            UnaryFn::Sign => simd::map1(|x: i32| x.signum(), &x[..len], &mut y[..len]),
            _ => simd::map1(|x: i32| !x, &x[..len], &mut y[..len]),
        },
        (Lanes::U32(x), Lanes::U32(y)) => match f {
            UnaryFn::Abs | UnaryFn::Relu => y[..len].copy_from_slice(&x[..len]),
            UnaryFn::Sign => simd::map1(|x: u32| x.min(1), &x[..len], &mut y[..len]),
            _ => simd::map1(|x: u32| !x, &x[..len], &mut y[..len]),
        },
        (Lanes::I64(x), Lanes::I64(y)) => match f {
            UnaryFn::Abs => simd::map1(|x: i64| x.wrapping_abs(), &x[..len], &mut y[..len]),
            UnaryFn::Neg => simd::map1(|x: i64| x.wrapping_neg(), &x[..len], &mut y[..len]),
            UnaryFn::Relu => simd::map1(|x: i64| x.max(0), &x[..len], &mut y[..len]),
            UnaryFn::Sign => simd::map1(|x: i64| x.signum(), &x[..len], &mut y[..len]),
            _ => simd::map1(|x: i64| !x, &x[..len], &mut y[..len]),
        },
        (Lanes::U64(x), Lanes::U64(y)) => match f {
            UnaryFn::Abs | UnaryFn::Relu => y[..len].copy_from_slice(&x[..len]),
            UnaryFn::Sign => simd::map1(|x: u64| x.min(1), &x[..len], &mut y[..len]),
            _ => simd::map1(|x: u64| !x, &x[..len], &mut y[..len]),
        },
        (Lanes::Bool(x), Lanes::Bool(y)) => simd::map1(|x: u8| x ^ 1, &x[..len], &mut y[..len]),
        _ => {}
    }
}

/// [`unary`] of a function of the bits of `dtype`, which are the lowest of those that are computed with.
fn count_bits(f: UnaryFn, dtype: DType, x: &Lanes, y: &mut Lanes, len: usize) {
    let width = 8 * dtype.size_bytes() as u32;
    let mask = u64::MAX >> (64 - width);
    let count = move |x: u64| match f {
        UnaryFn::CountOnes => (x & mask).count_ones(),
        UnaryFn::LeadingZeros => (x & mask).leading_zeros() - (64 - width),
        _ => x.trailing_zeros().min(width),
    };
    match (x, y) {
        (Lanes::I32(x), Lanes::I32(y)) => simd::map1(|x: i32| count(x as u64) as i32, &x[..len], &mut y[..len]),
        (Lanes::U32(x), Lanes::U32(y)) => simd::map1(|x: u32| count(x.into()), &x[..len], &mut y[..len]),
        (Lanes::I64(x), Lanes::I64(y)) => simd::map1(|x: i64| count(x as u64).into(), &x[..len], &mut y[..len]),
        (Lanes::U64(x), Lanes::U64(y)) => simd::map1(|x: u64| count(x).into(), &x[..len], &mut y[..len]),
        _ => {}
    }
}

/// `y = f(x)` of f32 slices on this thread.
pub(crate) fn unary_f32(f: UnaryFn, x: &[f32], y: &mut [f32]) {
    match f {
        UnaryFn::Abs => simd::map1(vmath::Abs, x, y),
        UnaryFn::Acos => simd::map1(vmath::Acos, x, y),
        UnaryFn::Acosh => simd::map1(vmath::Acosh, x, y),
        UnaryFn::Asin => simd::map1(vmath::Asin, x, y),
        UnaryFn::Asinh => simd::map1(vmath::Asinh, x, y),
        UnaryFn::Atan => simd::map1(vmath::Atan, x, y),
        UnaryFn::Atanh => simd::map1(vmath::Atanh, x, y),
        UnaryFn::Cbrt => simd::map1(vmath::Cbrt, x, y),
        UnaryFn::Ceil => simd::map1(vmath::Ceil, x, y),
        UnaryFn::Cos => simd::map1(vmath::Cos, x, y),
        UnaryFn::Cosh => simd::map1(vmath::Cosh, x, y),
        UnaryFn::Erf => simd::map1(vmath::Erf, x, y),
        UnaryFn::Erfc => simd::map1(vmath::Erfc, x, y),
        UnaryFn::Erfinv => simd::map1(vmath::Erfinv, x, y),
        UnaryFn::Exp => simd::map1(vmath::Exp, x, y),
        UnaryFn::Exp2 => simd::map1(vmath::Exp2, x, y),
        UnaryFn::Floor => simd::map1(vmath::Floor, x, y),
        UnaryFn::Gelu => simd::map1(vmath::Gelu, x, y),
        // One value at a time, in f64.
        UnaryFn::Lgamma => simd::map1(|x: f32| f.eval(Scalar::F(x.into()), DType::F32).as_f64() as f32, x, y),
        UnaryFn::Log => simd::map1(vmath::Log, x, y),
        UnaryFn::Log2 => simd::map1(vmath::Log2, x, y),
        UnaryFn::Neg => simd::map1(vmath::Neg, x, y),
        // Of integers alone.
        UnaryFn::CountOnes | UnaryFn::LeadingZeros | UnaryFn::Not | UnaryFn::TrailingZeros => y.copy_from_slice(x),
        UnaryFn::Reciprocal => simd::map1(vmath::Reciprocal, x, y),
        UnaryFn::Relu => simd::map1(vmath::Relu, x, y),
        UnaryFn::Round => simd::map1(vmath::Round, x, y),
        UnaryFn::Rsqrt => simd::map1(vmath::Rsqrt, x, y),
        UnaryFn::Sigmoid => simd::map1(vmath::Sigmoid, x, y),
        UnaryFn::Sign => simd::map1(vmath::Sign, x, y),
        UnaryFn::Silu => simd::map1(vmath::Silu, x, y),
        UnaryFn::Sin => simd::map1(vmath::Sin, x, y),
        UnaryFn::Sinh => simd::map1(vmath::Sinh, x, y),
        UnaryFn::Sqrt => simd::map1(vmath::Sqrt, x, y),
        UnaryFn::Tan => simd::map1(vmath::Tan, x, y),
        UnaryFn::Tanh => simd::map1(vmath::Tanh, x, y),
    }
}

/// One value at a time by the standard library: f64 is for accuracy, not speed.
fn unary_f64(f: UnaryFn, x: &[f64], y: &mut [f64]) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = f.eval(Scalar::F(x), DType::F64).as_f64();
    }
}

/// `y = f(a, b)` for the first `len` values of a step of `dtype`.
pub(crate) fn binary(f: BinaryFn, dtype: DType, a: &Lanes, b: &Lanes, y: &mut Lanes, len: usize) {
    match (a, b, y) {
        (Lanes::F32(a), Lanes::F32(b), Lanes::F32(y)) if f == BinaryFn::Nextafter => {
            let wide = |x: f32| Scalar::F(f64::from(x));
            let next = |a: f32, b: f32| f.eval(wide(a), wide(b), dtype).as_f64() as f32;
            simd::map2(next, &a[..len], &b[..len], &mut y[..len]);
        }
        (Lanes::F32(a), Lanes::F32(b), Lanes::F32(y)) => binary_f32(f, &a[..len], &b[..len], &mut y[..len]),
        (Lanes::F64(a), Lanes::F64(b), Lanes::F64(y)) => {
            let (a, b, y) = (&a[..len], &b[..len], &mut y[..len]);
            match f {
                BinaryFn::Add => simd::map2(|a: f64, b: f64| a + b, a, b, y),
                BinaryFn::Sub => simd::map2(|a: f64, b: f64| a - b, a, b, y),
                BinaryFn::Mul => simd::map2(|a: f64, b: f64| a * b, a, b, y),
                BinaryFn::Div => simd::map2(|a: f64, b: f64| a / b, a, b, y),
                BinaryFn::Max => simd::map2(|a: f64, b: f64| Number::maximum(a, b), a, b, y),
                BinaryFn::Min => simd::map2(|a: f64, b: f64| Number::minimum(a, b), a, b, y),
                BinaryFn::Atan2 => simd::map2(f64::atan2, a, b, y),
                BinaryFn::Copysign => simd::map2(f64::copysign, a, b, y),
                BinaryFn::Hypot => simd::map2(f64::hypot, a, b, y),
                BinaryFn::Rem => simd::map2(|a: f64, b: f64| a % b, a, b, y),
                BinaryFn::FloorDivide | BinaryFn::Nextafter | BinaryFn::Remainder => {
                    simd::map2(|a: f64, b: f64| f.eval(Scalar::F(a), Scalar::F(b), DType::F64).as_f64(), a, b, y);
                }
                _ => simd::map2(f64::powf, a, b, y),
            }
        }
        (Lanes::I32(a), Lanes::I32(b), Lanes::I32(y)) => binary_int(f, &a[..len], &b[..len], &mut y[..len]),
        (Lanes::U32(a), Lanes::U32(b), Lanes::U32(y)) => binary_int(f, &a[..len], &b[..len], &mut y[..len]),
        (Lanes::I64(a), Lanes::I64(b), Lanes::I64(y)) => binary_int(f, &a[..len], &b[..len], &mut y[..len]),
        (Lanes::U64(a), Lanes::U64(b), Lanes::U64(y)) => binary_int(f, &a[..len], &b[..len], &mut y[..len]),
        (Lanes::Bool(a), Lanes::Bool(b), Lanes::Bool(y)) => {
            let (a, b, y) = (&a[..len], &b[..len], &mut y[..len]);
            match f {
                BinaryFn::And => simd::map2(|a: u8, b: u8| a & b, a, b, y),
                BinaryFn::Or => simd::map2(|a: u8, b: u8| a | b, a, b, y),
                _ => simd::map2(|a: u8, b: u8| a ^ b, a, b, y),
            }
        }
        _ => {}
    }
}

/// `y = f(a, b)` of f32 slices on this thread.
pub(crate) fn binary_f32(f: BinaryFn, a: &[f32], b: &[f32], y: &mut [f32]) {
    match f {
        BinaryFn::Add => simd::map2(|a: f32, b: f32| a + b, a, b, y),
        BinaryFn::Sub => simd::map2(|a: f32, b: f32| a - b, a, b, y),
        BinaryFn::Mul => simd::map2(|a: f32, b: f32| a * b, a, b, y),
        BinaryFn::Div => simd::map2(|a: f32, b: f32| a / b, a, b, y),
        BinaryFn::Max => simd::map2(|a: f32, b: f32| Number::maximum(a, b), a, b, y),
        BinaryFn::Min => simd::map2(|a: f32, b: f32| Number::minimum(a, b), a, b, y),
        BinaryFn::Atan2 => simd::map2(vmath::Atan2, a, b, y),
        BinaryFn::Copysign => simd::map2(f32::copysign, a, b, y),
        BinaryFn::Hypot => simd::map2(vmath::hypot, a, b, y),
        BinaryFn::Rem => simd::map2(|a: f32, b: f32| a % b, a, b, y),
        // In f64, which holds the exact quotient wherever f32 does, one value at a time; the neighbour is f32's.
        BinaryFn::FloorDivide | BinaryFn::Nextafter | BinaryFn::Remainder => {
            let wide = |x: f32| Scalar::F(f64::from(x));
            simd::map2(|a: f32, b: f32| f.eval(wide(a), wide(b), DType::F32).as_f64() as f32, a, b, y);
        }
        _ => simd::map2(f32::powf, a, b, y),
    }
}

/// What integer steps need beyond [`Number`].
trait Integer:
    Number + std::ops::BitAnd<Output = Self> + std::ops::BitOr<Output = Self> + std::ops::BitXor<Output = Self>
{
    fn subtract(self, b: Self) -> Self;
    /// Truncating; a / 0 = a, MIN / -1 = MIN.
    fn divide(self, b: Self) -> Self;
    /// With the sign of a; a % 0 = 0, MIN % -1 = 0.
    fn remainder(self, b: Self) -> Self;
    /// Rounded down; a / 0 = a, MIN / -1 = MIN.
    fn floor_divide(self, b: Self) -> Self;
    /// With the sign of b; 0 for b = 0.
    fn modulo(self, b: Self) -> Self;
    /// Bits moved up; 0 where b is no place of one.
    fn shift_up(self, b: Self) -> Self;
    /// Bits moved down; nothing but the sign where b is no place of one.
    fn shift_down(self, b: Self) -> Self;
}

macro_rules! integers {
    ($($t:ident)*) => {$(
        impl Integer for $t {
            #[inline(always)]
            fn subtract(self, b: $t) -> $t {
                self.wrapping_sub(b)
            }
            #[inline(always)]
            fn divide(self, b: $t) -> $t {
                if b == 0 { self } else { self.wrapping_div(b) }
            }
            #[inline(always)]
            fn remainder(self, b: $t) -> $t {
                if b == 0 { 0 } else { self.wrapping_rem(b) }
            }
            #[inline(always)]
            fn floor_divide(self, b: $t) -> $t {
                #[allow(unused_comparisons, reason = "unsigned numbers have one sign")]
                let below = self.remainder(b) != 0 && (self < 0) != (b < 0);
                self.divide(b) - $t::from(below)
            }
            #[inline(always)]
            fn modulo(self, b: $t) -> $t {
                let rest = self.remainder(b);
                #[allow(unused_comparisons, reason = "unsigned numbers have one sign")]
                let beyond = rest != 0 && (rest < 0) != (b < 0);
                if beyond { rest + b } else { rest }
            }
            #[inline(always)]
            fn shift_up(self, b: $t) -> $t {
                // Negative places are large ones.
                if (b as u64) < u64::from($t::BITS) { self << b } else { 0 }
            }
            #[inline(always)]
            fn shift_down(self, b: $t) -> $t {
                let last = $t::BITS - 1;
                // In two steps, so that none is of the whole width.
                if (b as u64) <= u64::from(last) { self >> b } else { (self >> last) >> 1 }
            }
        }
    )*};
}
integers!(i32 u32 i64 u64);

fn binary_int<T: Integer>(f: BinaryFn, a: &[T], b: &[T], y: &mut [T]) {
    match f {
        BinaryFn::Add => simd::map2(|a: T, b: T| a.add(b), a, b, y),
        BinaryFn::Sub => simd::map2(T::subtract, a, b, y),
        BinaryFn::Mul => simd::map2(|a: T, b: T| a.mul(b), a, b, y),
        BinaryFn::Div => simd::map2(T::divide, a, b, y),
        BinaryFn::FloorDivide => simd::map2(T::floor_divide, a, b, y),
        BinaryFn::Rem => simd::map2(T::remainder, a, b, y),
        BinaryFn::Remainder => simd::map2(T::modulo, a, b, y),
        BinaryFn::Shl => simd::map2(T::shift_up, a, b, y),
        BinaryFn::Shr => simd::map2(T::shift_down, a, b, y),
        BinaryFn::Max => simd::map2(T::maximum, a, b, y),
        BinaryFn::Min => simd::map2(T::minimum, a, b, y),
        BinaryFn::And => simd::map2(|a: T, b: T| a & b, a, b, y),
        BinaryFn::Or => simd::map2(|a: T, b: T| a | b, a, b, y),
        // The others are of floats.
        _ => simd::map2(|a: T, b: T| a ^ b, a, b, y),
    }
}

/// `y = f(a, b)` as 0 or 1, for the first `len` values.
pub(crate) fn compare(f: CompareFn, a: &Lanes, b: &Lanes, y: &mut Lanes, len: usize) {
    fn go<T: Copy + PartialOrd + Send + Sync>(f: CompareFn, a: &[T], b: &[T], y: &mut [u8]) {
        match f {
            CompareFn::Eq => simd::map2(|a: T, b: T| u8::from(a == b), a, b, y),
            CompareFn::Ge => simd::map2(|a: T, b: T| u8::from(a >= b), a, b, y),
            CompareFn::Gt => simd::map2(|a: T, b: T| u8::from(a > b), a, b, y),
            CompareFn::Le => simd::map2(|a: T, b: T| u8::from(a <= b), a, b, y),
            CompareFn::Lt => simd::map2(|a: T, b: T| u8::from(a < b), a, b, y),
            CompareFn::Ne => simd::map2(|a: T, b: T| u8::from(a != b), a, b, y),
        }
    }
    let Lanes::Bool(y) = y else { return };
    let y = &mut y[..len];
    match (a, b) {
        (Lanes::F32(a), Lanes::F32(b)) => go(f, &a[..len], &b[..len], y),
        (Lanes::F64(a), Lanes::F64(b)) => go(f, &a[..len], &b[..len], y),
        (Lanes::I32(a), Lanes::I32(b)) => go(f, &a[..len], &b[..len], y),
        (Lanes::U32(a), Lanes::U32(b)) => go(f, &a[..len], &b[..len], y),
        (Lanes::I64(a), Lanes::I64(b)) => go(f, &a[..len], &b[..len], y),
        (Lanes::U64(a), Lanes::U64(b)) => go(f, &a[..len], &b[..len], y),
        (Lanes::Bool(a), Lanes::Bool(b)) => go(f, &a[..len], &b[..len], y),
        _ => {}
    }
}

/// `y = yes` where `condition`, else `no`, for the first `len` values.
pub(crate) fn select(condition: &Lanes, yes: &Lanes, no: &Lanes, y: &mut Lanes, len: usize) {
    fn go<T: Copy + Send + Sync>(c: &[u8], yes: &[T], no: &[T], y: &mut [T]) {
        simd::map3(|c: u8, yes: T, no: T| if c != 0 { yes } else { no }, c, yes, no, y);
    }
    let Lanes::Bool(c) = condition else { return };
    let c = &c[..len];
    match (yes, no, y) {
        (Lanes::F32(a), Lanes::F32(b), Lanes::F32(y)) => go(c, &a[..len], &b[..len], &mut y[..len]),
        (Lanes::F64(a), Lanes::F64(b), Lanes::F64(y)) => go(c, &a[..len], &b[..len], &mut y[..len]),
        (Lanes::I32(a), Lanes::I32(b), Lanes::I32(y)) => go(c, &a[..len], &b[..len], &mut y[..len]),
        (Lanes::U32(a), Lanes::U32(b), Lanes::U32(y)) => go(c, &a[..len], &b[..len], &mut y[..len]),
        (Lanes::I64(a), Lanes::I64(b), Lanes::I64(y)) => go(c, &a[..len], &b[..len], &mut y[..len]),
        (Lanes::U64(a), Lanes::U64(b), Lanes::U64(y)) => go(c, &a[..len], &b[..len], &mut y[..len]),
        (Lanes::Bool(a), Lanes::Bool(b), Lanes::Bool(y)) => go(c, &a[..len], &b[..len], &mut y[..len]),
        _ => {}
    }
}

/// Random bits of the first `len` elements, which stand at `start`, `start + 1`, ..., under the keys of each: seed low, seed high,
/// stream low, stream high. Neighbours of one key share blocks of four; where all have one key the loop is a vector loop.
pub(crate) fn random(key: [&Lanes; 4], start: u64, y: &mut Lanes, len: usize) {
    let (Lanes::U32(a), Lanes::U32(b), Lanes::U32(c), Lanes::U32(d), Lanes::U32(y)) =
        (key[0], key[1], key[2], key[3], y)
    else {
        return;
    };
    let (key, y) = ([a, b, c, d].map(|word| &word[..len]), &mut y[..len]);
    let is_same = key.iter().all(|word| word.iter().all(|value| *value == word[0]));
    if is_same && len > 0 && start.is_multiple_of(4) {
        let wide = |low: u32, high: u32| u64::from(high) << 32 | u64::from(low);
        let at = Stream { seed: wide(key[0][0], key[1][0]), stream: wide(key[2][0], key[3][0]) };
        return philox::words_from(at, start / 4, y);
    }
    let mut made = None;
    for (i, (y, position)) in y.iter_mut().zip(start..).enumerate() {
        let block = position / 4;
        let counter = [block as u32, (block >> 32) as u32, key[2][i], key[3][i]];
        let seed = [key[0][i], key[1][i]];
        let words = match made {
            Some((of, words)) if of == (counter, seed) => words,
            _ => philox4x32_10(counter, seed),
        };
        made = Some(((counter, seed), words));
        *y = words[(position % 4) as usize];
    }
}

/// Conversion of one compute type to every dtype, by the rules of [`Scalar::cast`].
trait Convert: Copy {
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    fn to_f8e4m3(self) -> F8E4M3;
    fn to_f8e5m2(self) -> F8E5M2;
    fn to_f16(self) -> f16;
    fn to_bf16(self) -> bf16;
    fn to_i8(self) -> i8;
    fn to_u8(self) -> u8;
    fn to_i16(self) -> i16;
    fn to_u16(self) -> u16;
    fn to_i32(self) -> i32;
    fn to_u32(self) -> u32;
    fn to_i64(self) -> i64;
    fn to_u64(self) -> u64;
    fn to_bool(self) -> u8;
}

macro_rules! convert {
    ($($t:ident: $f16:expr, $bf16:expr, $e4m3:expr, $e5m2:expr;)*) => {$(
        impl Convert for $t {
            #[inline(always)]
            fn to_f32(self) -> f32 { self as f32 }
            #[inline(always)]
            fn to_f64(self) -> f64 { self as f64 }
            #[inline(always)]
            fn to_f8e4m3(self) -> F8E4M3 { let f: fn($t) -> F8E4M3 = $e4m3; f(self) }
            #[inline(always)]
            fn to_f8e5m2(self) -> F8E5M2 { let f: fn($t) -> F8E5M2 = $e5m2; f(self) }
            #[inline(always)]
            fn to_f16(self) -> f16 { let f: fn($t) -> f16 = $f16; f(self) }
            #[inline(always)]
            fn to_bf16(self) -> bf16 { let f: fn($t) -> bf16 = $bf16; f(self) }
            #[inline(always)]
            fn to_i8(self) -> i8 { self as i8 }
            #[inline(always)]
            fn to_u8(self) -> u8 { self as u8 }
            #[inline(always)]
            fn to_i16(self) -> i16 { self as i16 }
            #[inline(always)]
            fn to_u16(self) -> u16 { self as u16 }
            #[inline(always)]
            fn to_i32(self) -> i32 { self as i32 }
            #[inline(always)]
            fn to_u32(self) -> u32 { self as u32 }
            #[inline(always)]
            fn to_i64(self) -> i64 { self as i64 }
            #[inline(always)]
            fn to_u64(self) -> u64 { self as u64 }
            #[inline(always)]
            fn to_bool(self) -> u8 { u8::from(self != (0 as $t)) }
        }
    )*};
}
convert! {
    f32: narrow_f16, narrow_bf16, F8E4M3::from_f32, F8E5M2::from_f32;
    f64: f16_from_f64, bf16_from_f64, F8E4M3::from_f64, F8E5M2::from_f64;
    i32: |x| f16_from_f64(x.into()), |x| bf16_from_f64(x.into()), |x| F8E4M3::from_f64(x.into()), |x| F8E5M2::from_f64(x.into());
    u32: |x| f16_from_f64(x.into()), |x| bf16_from_f64(x.into()), |x| F8E4M3::from_f64(x.into()), |x| F8E5M2::from_f64(x.into());
    i64: |x| f16_from_f64(x as f64), bf16_from_i64, |x| F8E4M3::from_f64(x as f64), |x| F8E5M2::from_f64(x as f64);
    u64: |x| f16_from_f64(x as f64), bf16_from_u64, |x| F8E4M3::from_f64(x as f64), |x| F8E5M2::from_f64(x as f64);
    u8: |x| f16_from_f64(x.into()), |x| bf16_from_f64(x.into()), |x| F8E4M3::from_f64(x.into()), |x| F8E5M2::from_f64(x.into());
}

/// f32 to f16, to nearest even, by integer operations that vectorise (`half` asks the CPU for each element).
#[inline(always)]
pub(crate) fn narrow_f16(x: f32) -> f16 {
    let bits = x.to_bits();
    let sign = (bits >> 16) as u16 & 0x8000;
    let magnitude = bits & 0x7fff_ffff;
    // Normal: rebias the exponent by 112 and round the 13 low bits to nearest even; overflow carries into infinity.
    let odd = (magnitude >> 13) & 1;
    let normal = (magnitude.wrapping_sub(112 << 23).wrapping_add(0xfff + odd) >> 13).min(0x7c00);
    // Subnormal: adding 0.5 makes the hardware align and round at 2^-24, the spacing of f16 subnormals.
    let subnormal = (f32::from_bits(magnitude) + 0.5).to_bits().wrapping_sub(0.5f32.to_bits());
    let finite = if magnitude < 113 << 23 { subnormal } else { normal };
    let special = if magnitude > 0x7f80_0000 { 0x7e00 | (magnitude >> 13) & 0x3ff } else { 0x7c00 };
    f16::from_bits(sign | (if magnitude >= 0x7f80_0000 { special } else { finite }) as u16)
}

/// f32 to bf16, to nearest even; a NaN stays one.
#[inline(always)]
pub(crate) fn narrow_bf16(x: f32) -> bf16 {
    let bits = x.to_bits();
    let rounded = bits.wrapping_add(0x7fff + ((bits >> 16) & 1)) >> 16;
    let nan = (bits >> 16) | 0x40;
    bf16::from_bits(if bits & 0x7fff_ffff > 0x7f80_0000 { nan } else { rounded } as u16)
}

/// `y = x` converted to `dtype` and widened again to its compute type, for the first `len` values.
pub(crate) fn cast(x: &Lanes, dtype: DType, y: &mut Lanes, len: usize) {
    fn go<T: Convert + Send + Sync>(x: &[T], dtype: DType, y: &mut Lanes, len: usize) {
        match (y, dtype) {
            (Lanes::F32(y), DType::F8E4M3) => simd::map1(|x: T| x.to_f8e4m3().to_f32(), x, &mut y[..len]),
            (Lanes::F32(y), DType::F8E5M2) => simd::map1(|x: T| x.to_f8e5m2().to_f32(), x, &mut y[..len]),
            (Lanes::F32(y), DType::F16) => simd::map1(|x: T| x.to_f16().widen(), x, &mut y[..len]),
            (Lanes::F32(y), DType::BF16) => simd::map1(|x: T| x.to_bf16().widen(), x, &mut y[..len]),
            (Lanes::F32(y), _) => simd::map1(T::to_f32, x, &mut y[..len]),
            (Lanes::F64(y), _) => simd::map1(T::to_f64, x, &mut y[..len]),
            (Lanes::I32(y), DType::I8) => simd::map1(|x: T| i32::from(x.to_i8()), x, &mut y[..len]),
            (Lanes::I32(y), DType::I16) => simd::map1(|x: T| i32::from(x.to_i16()), x, &mut y[..len]),
            (Lanes::I32(y), _) => simd::map1(T::to_i32, x, &mut y[..len]),
            (Lanes::U32(y), DType::U8) => simd::map1(|x: T| u32::from(x.to_u8()), x, &mut y[..len]),
            (Lanes::U32(y), DType::U16) => simd::map1(|x: T| u32::from(x.to_u16()), x, &mut y[..len]),
            (Lanes::U32(y), _) => simd::map1(T::to_u32, x, &mut y[..len]),
            (Lanes::I64(y), _) => simd::map1(T::to_i64, x, &mut y[..len]),
            (Lanes::U64(y), _) => simd::map1(T::to_u64, x, &mut y[..len]),
            (Lanes::Bool(y), _) => simd::map1(T::to_bool, x, &mut y[..len]),
        }
    }
    with_lanes!(x, x => go(&x[..len], dtype, y, len));
}

/// A type that is stored: widened to lanes and narrowed from them.
pub(crate) trait Stored: bytemuck::Pod + Send + Sync {
    /// The first `x.len()` lanes from stored elements.
    fn load(x: &[Self], lanes: &mut Lanes);
    /// Stored elements from the first `y.len()` lanes, which are of this type's compute type.
    fn store(lanes: &Lanes, y: &mut [Self]);
    /// The same of lanes that hold numbers of this type, which stay as they are.
    fn store_rounded(lanes: &Lanes, y: &mut [Self]) {
        Self::store(lanes, y);
    }
}

macro_rules! stored {
    ($($t:ident, $variant:ident, $widen:expr, $narrow:expr $(, $kept:expr)?;)*) => {$(
        impl Stored for $t {
            fn load(x: &[$t], lanes: &mut Lanes) {
                if let Lanes::$variant(lanes) = lanes {
                    simd::map1($widen, x, &mut lanes[..x.len()]);
                }
            }

            fn store(lanes: &Lanes, y: &mut [$t]) {
                if let Lanes::$variant(lanes) = lanes {
                    simd::map1($narrow, &lanes[..y.len()], y);
                }
            }
            $(
                fn store_rounded(lanes: &Lanes, y: &mut [$t]) {
                    if let Lanes::$variant(lanes) = lanes {
                        simd::map1($kept, &lanes[..y.len()], y);
                    }
                }
            )?
        }
    )*};
}
stored! {
    F8E4M3, F32, |x: F8E4M3| x.to_f32(), F8E4M3::from_f32;
    F8E5M2, F32, |x: F8E5M2| x.to_f32(), F8E5M2::from_f32, F8E5M2::kept_from_f32;
    f16, F32, |x: f16| x.widen(), narrow_f16;
    bf16, F32, |x: bf16| x.widen(), narrow_bf16;
    f32, F32, |x: f32| x, |x: f32| x;
    f64, F64, |x: f64| x, |x: f64| x;
    i8, I32, |x: i8| i32::from(x), |x: i32| x as i8;
    i16, I32, |x: i16| i32::from(x), |x: i32| x as i16;
    u16, U32, |x: u16| u32::from(x), |x: u32| x as u16;
    i32, I32, |x: i32| x, |x: i32| x;
    u32, U32, |x: u32| x, |x: u32| x;
    i64, I64, |x: i64| x, |x: i64| x;
    u64, U64, |x: u64| x, |x: u64| x;
}

impl Stored for u8 {
    fn load(x: &[u8], lanes: &mut Lanes) {
        match lanes {
            Lanes::U32(lanes) => simd::map1(|x: u8| u32::from(x), x, &mut lanes[..x.len()]),
            // Any non-zero byte is true, whoever wrote it.
            Lanes::Bool(lanes) => simd::map1(|x: u8| u8::from(x != 0), x, &mut lanes[..x.len()]),
            _ => {}
        }
    }

    fn store(lanes: &Lanes, y: &mut [u8]) {
        match lanes {
            Lanes::U32(lanes) => simd::map1(|x: u32| x as u8, &lanes[..y.len()], y),
            Lanes::Bool(lanes) => y.copy_from_slice(&lanes[..y.len()]),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrowing_matches_half_for_every_rounding_case() {
        // Every f16 value, its neighbours and midpoints, and a sweep of all exponents.
        let around = (0..=u16::MAX).flat_map(|bits| {
            let x = f16::from_bits(bits).to_f32().to_bits();
            [x, x.wrapping_add(1), x.wrapping_sub(1), x.wrapping_add(0x1000), x.wrapping_add(0x0fff)]
        });
        for bits in around.chain((0..=u32::MAX).step_by(4099)) {
            let x = f32::from_bits(bits);
            let (got, want) = (narrow_f16(x), f16::from_f32(x));
            assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{x:e}: {got:?} {want:?}");
            let (got, want) = (narrow_bf16(x), bf16::from_f32(x));
            assert!(got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan()), "{x:e}: {got:?} {want:?}");
        }
    }
}
