//! Floating-point arithmetic over the lanes of a warp, rounded to nearest even.
//!
//! A result that is not a number has the GPU's bits (`0x7fffffff`, `0x7fff`); in `f64`, the host's. Contraction (`mul`
//! and `add` as one `fma`), which the assembler may do where no rounding is written, is not done.

use super::approx::Approximation;
use super::regs::Regs;
use super::round::{NAN16, NAN32, f16_to_f32, f32_to_f16, f64_to_f16, fma16, fma32, fma32_to};
use crate::inst::{FloatMods, FloatOp, Round, Slot, Ty};

pub(super) struct FloatInst {
    pub(super) op: FloatOp,
    pub(super) ty: Ty,
    pub(super) mods: FloatMods,
    pub(super) d: Slot,
    pub(super) abc: [Slot; 3],
}

pub(super) fn float(regs: &mut Regs, mask: u32, inst: FloatInst, approximation: &Approximation) {
    match inst.ty {
        Ty::F32 if inst.op.is_approximate() => approximate32(regs, mask, inst, approximation),
        Ty::F32 => float32(regs, mask, inst),
        Ty::F64 => float64(regs, mask, inst),
        Ty::F16 => float16(regs, mask, inst, approximation),
        _ => float16x2(regs, mask, inst, approximation),
    }
}

#[inline(always)]
fn canonical(x: f32) -> u32 {
    if x.is_nan() { NAN32 } else { x.to_bits() }
}

/// Subnormals to zero of the same sign.
#[inline(always)]
pub(super) fn flush(x: f32) -> f32 {
    if x.is_subnormal() { f32::from_bits(x.to_bits() & 0x8000_0000) } else { x }
}

fn input(mods: FloatMods, bits: u32) -> f32 {
    let x = f32::from_bits(bits);
    if mods.ftz { flush(x) } else { x }
}

fn output(mods: FloatMods, x: f32) -> u32 {
    let x = if mods.ftz { flush(x) } else { x };
    if mods.sat { saturate(x).to_bits() } else { canonical(x) }
}

/// To [0, 1]; what is no number to 0.
pub(super) fn saturate(x: f32) -> f32 {
    if x >= 1.0 {
        1.0
    } else if x > 0.0 {
        x
    } else {
        0.0
    }
}

macro_rules! min_max {
    ($min:ident, $max:ident, $ty:ty) => {
        /// The number where one is none; -0 below +0.
        #[inline(always)]
        fn $min(a: $ty, b: $ty) -> $ty {
            if a.is_nan() || b < a {
                b
            } else if a == b {
                <$ty>::from_bits(a.to_bits() | b.to_bits())
            } else {
                a
            }
        }

        #[inline(always)]
        fn $max(a: $ty, b: $ty) -> $ty {
            if a.is_nan() || b > a {
                b
            } else if a == b {
                <$ty>::from_bits(a.to_bits() & b.to_bits())
            } else {
                a
            }
        }
    };
}

min_max!(min32, max32, f32);
min_max!(min64, max64, f64);

#[inline(always)]
fn nan_or(a: f32, b: f32, otherwise: f32) -> f32 {
    if a.is_nan() || b.is_nan() { f32::NAN } else { otherwise }
}

fn float32(regs: &mut Regs, mask: u32, inst: FloatInst) {
    let FloatInst { op, mods, d, abc: [a, b, c], .. } = inst;
    let plain = mods == FloatMods::default();
    macro_rules! one {
        ($f:expr) => {{
            let f = $f;
            if plain {
                regs.map::<u32, u32>(mask, d, a, |x| canonical(f(f32::from_bits(x))))
            } else {
                regs.map::<u32, u32>(mask, d, a, |x| output(mods, f(input(mods, x))))
            }
        }};
    }
    macro_rules! two {
        ($f:expr) => {{
            let f = $f;
            if plain {
                regs.map2::<u32, u32, u32>(mask, d, a, b, |x, y| canonical(f(f32::from_bits(x), f32::from_bits(y))))
            } else {
                regs.map2::<u32, u32, u32>(mask, d, a, b, |x, y| output(mods, f(input(mods, x), input(mods, y))))
            }
        }};
    }
    use FloatOp::*;
    match op {
        // The sign alone changes, in what is no number as well.
        Neg if !mods.ftz => regs.map::<u32, u32>(mask, d, a, |x| x ^ 0x8000_0000),
        Abs if !mods.ftz => regs.map::<u32, u32>(mask, d, a, |x| x & 0x7fff_ffff),
        Neg => regs.map::<u32, u32>(mask, d, a, |x| input(mods, x).to_bits() ^ 0x8000_0000),
        Abs => regs.map::<u32, u32>(mask, d, a, |x| input(mods, x).to_bits() & 0x7fff_ffff),
        CopySign => regs.map2::<u32, u32, u32>(mask, d, a, b, |x, y| (x & 0x8000_0000) | (y & 0x7fff_ffff)),
        Add => two!(|x: f32, y: f32| x + y),
        Sub => two!(|x: f32, y: f32| x - y),
        Mul => two!(|x: f32, y: f32| x * y),
        Div => two!(|x: f32, y: f32| x / y),
        Min => two!(min32),
        Max => two!(max32),
        MinNan => two!(|x: f32, y: f32| nan_or(x, y, min32(x, y))),
        MaxNan => two!(|x: f32, y: f32| nan_or(x, y, max32(x, y))),
        Sqrt => one!(|x: f32| x.sqrt()),
        Fma if plain => regs.map3::<u32, u32, u32, u32>(mask, d, [a, b, c], |x, y, z| {
            canonical(fma32(f32::from_bits(x), f32::from_bits(y), f32::from_bits(z)))
        }),
        FmaRz | FmaRm | FmaRp => {
            let round = match op {
                FmaRz => Round::Rz,
                FmaRm => Round::Rm,
                _ => Round::Rp,
            };
            regs.map3::<u32, u32, u32, u32>(mask, d, [a, b, c], |x, y, z| {
                let [x, y, z] = [x, y, z].map(|bits| input(mods, bits));
                output(mods, f32::from_bits(fma32_to(x, y, z, round)))
            });
        }
        Fma => regs.map3::<u32, u32, u32, u32>(mask, d, [a, b, c], |x, y, z| {
            output(mods, fma32(input(mods, x), input(mods, y), input(mods, z)))
        }),
        // The rest are approximations, which do not come here.
        _ => one!(|x: f32| 1.0 / x),
    }
}

fn approximate32(regs: &mut Regs, mask: u32, inst: FloatInst, approximation: &Approximation) {
    let FloatInst { op, mods, d, abc: [a, b, _], .. } = inst;
    let lanes = (0..32).filter(|lane| mask >> lane & 1 != 0);
    for lane in lanes {
        let x = input(mods, regs.row::<u32>(a)[lane]);
        let y = if matches!(op, FloatOp::DivFull | FloatOp::DivApprox) {
            input(mods, regs.row::<u32>(b)[lane])
        } else {
            0.0
        };
        let value = approximation.value(op, x, y) as f32;
        regs.row_mut::<u32>(d)[lane] = output(mods, value);
    }
}

fn float64(regs: &mut Regs, mask: u32, inst: FloatInst) {
    let FloatInst { op, d, abc: [a, b, c], .. } = inst;
    macro_rules! two {
        ($f:expr) => {
            regs.map2::<u64, u64, u64>(mask, d, a, b, |x, y| $f(f64::from_bits(x), f64::from_bits(y)).to_bits())
        };
    }
    const SIGN: u64 = 1 << 63;
    use FloatOp::*;
    match op {
        Neg => regs.map::<u64, u64>(mask, d, a, |x| x ^ SIGN),
        Abs => regs.map::<u64, u64>(mask, d, a, |x| x & !SIGN),
        CopySign => regs.map2::<u64, u64, u64>(mask, d, a, b, |x, y| (x & SIGN) | (y & !SIGN)),
        Add => two!(|x: f64, y: f64| x + y),
        Sub => two!(|x: f64, y: f64| x - y),
        Mul => two!(|x: f64, y: f64| x * y),
        Div => two!(|x: f64, y: f64| x / y),
        Min | MinNan => two!(min64),
        Max | MaxNan => two!(max64),
        Sqrt => regs.map::<u64, u64>(mask, d, a, |x| f64::from_bits(x).sqrt().to_bits()),
        Fma => regs.map3::<u64, u64, u64, u64>(mask, d, [a, b, c], |x, y, z| {
            f64::from_bits(x).mul_add(f64::from_bits(y), f64::from_bits(z)).to_bits()
        }),
        // The upper half of the bits: a first guess for Newton's method.
        RcpApprox => regs.map::<u64, u64>(mask, d, a, |x| {
            let x = f64::from_bits(x);
            let flushed = if x.is_subnormal() { 0.0f64.copysign(x) } else { x };
            (1.0 / flushed).to_bits() & !0xFFFF_FFFF
        }),
        _ => regs.map::<u64, u64>(mask, d, a, |x| (1.0 / f64::from_bits(x)).to_bits()),
    }
}

/// One operation on halves. Sums, products and quotients are computed in `f32`, whose precision makes the second
/// rounding harmless.
#[inline(always)]
fn half(op: FloatOp, mods: FloatMods, a: u16, b: u16, c: u16, approximation: &Approximation) -> u16 {
    use FloatOp::*;
    let flush16 = |h: u16| if mods.ftz && h & 0x7c00 == 0 { h & 0x8000 } else { h };
    let (a, b, c) = (flush16(a), flush16(b), flush16(c));
    match op {
        Neg => return a ^ 0x8000,
        Abs => return a & 0x7fff,
        _ => {}
    }
    let (x, y) = (f16_to_f32(a), f16_to_f32(b));
    let result = match op {
        Add => f32_to_f16(x + y),
        Sub => f32_to_f16(x - y),
        Mul => f32_to_f16(x * y),
        Min => f32_to_f16(min32(x, y)),
        Max => f32_to_f16(max32(x, y)),
        MinNan => f32_to_f16(nan_or(x, y, min32(x, y))),
        MaxNan => f32_to_f16(nan_or(x, y, max32(x, y))),
        Fma => fma16(x, y, f16_to_f32(c)),
        _ => f64_to_f16(approximation.value16(op, x), Round::Rn),
    };
    let result = flush16(result);
    match mods.sat {
        true if result == NAN16 => 0,
        true => f32_to_f16(saturate(f16_to_f32(result))),
        false => result,
    }
}

fn float16(regs: &mut Regs, mask: u32, inst: FloatInst, approximation: &Approximation) {
    let FloatInst { op, mods, d, abc: [a, b, c], .. } = inst;
    let (b, c) = (if b == crate::inst::NONE { a } else { b }, if c == crate::inst::NONE { a } else { c });
    regs.map3::<u16, u16, u16, u16>(mask, d, [a, b, c], |x, y, z| half(op, mods, x, y, z, approximation));
}

fn float16x2(regs: &mut Regs, mask: u32, inst: FloatInst, approximation: &Approximation) {
    let FloatInst { op, mods, d, abc: [a, b, c], .. } = inst;
    let (b, c) = (if b == crate::inst::NONE { a } else { b }, if c == crate::inst::NONE { a } else { c });
    regs.map3::<u32, u32, u32, u32>(mask, d, [a, b, c], |x, y, z| {
        let low = half(op, mods, x as u16, y as u16, z as u16, approximation);
        let high = half(op, mods, (x >> 16) as u16, (y >> 16) as u16, (z >> 16) as u16, approximation);
        u32::from(low) | u32::from(high) << 16
    });
}
