//! `cvt` (PTX ISA 9.7.9.22), `setp` and `selp`.

use super::float::{flush, saturate};
use super::number::{f32_to_e4m3, f32_to_e5m2, to_f32, to_tf32};
use super::regs::{LANES, Lane, Regs};
use super::round::{F16, F32, F64, NAN16, encode, f16_to_f32, f32_to_bf16, f32_to_f16, f64_to_f16, f64_to_f32};
use crate::inst::{Class, Cmp, Convert, Element, Logic, NONE, Round, Slot, Ty};

pub(super) fn cvt(regs: &mut Regs, mask: u32, convert: Convert, to: Class, from: Class, d: Slot, a: Slot) {
    use Class::{Double, Half, Word};
    let plain = !convert.sat && !convert.ftz;
    // The frequent ones, for all lanes at once.
    match (convert.from, convert.to, convert.round) {
        (Ty::U32, Ty::U64, _) if plain && (from, to) == (Word, Double) => {
            return regs.map::<u32, u64>(mask, d, a, u64::from);
        }
        (Ty::S32, Ty::S64, _) if plain && (from, to) == (Word, Double) => {
            return regs.map::<u32, u64>(mask, d, a, |x| x as i32 as u64);
        }
        (Ty::U64 | Ty::S64, Ty::U32 | Ty::S32, _) if plain && (from, to) == (Double, Word) => {
            return regs.map::<u64, u32>(mask, d, a, |x| x as u32);
        }
        (Ty::U16, Ty::U32, _) if plain && (from, to) == (Half, Word) => {
            return regs.map::<u16, u32>(mask, d, a, u32::from);
        }
        (Ty::U32, Ty::U16, _) if plain && (from, to) == (Word, Half) => {
            return regs.map::<u32, u16>(mask, d, a, |x| x as u16);
        }
        (Ty::U32, Ty::F32, Round::Rn) if plain && (from, to) == (Word, Word) => {
            return regs.map::<u32, u32>(mask, d, a, |x| (x as f32).to_bits());
        }
        (Ty::S32, Ty::F32, Round::Rn) if plain && (from, to) == (Word, Word) => {
            return regs.map::<u32, u32>(mask, d, a, |x| (x as i32 as f32).to_bits());
        }
        (Ty::F16, Ty::F32, _) if plain && (from, to) == (Half, Word) => {
            return regs.map::<u16, u32>(mask, d, a, |x| {
                let x = f16_to_f32(x);
                if x.is_nan() { super::round::NAN32 } else { x.to_bits() }
            });
        }
        (Ty::F32, Ty::F16, Round::Rn) if plain && (from, to) == (Word, Half) => {
            return regs.map::<u32, u16>(mask, d, a, |x| f32_to_f16(f32::from_bits(x)));
        }
        (Ty::F32, Ty::Tf32, round) => return regs.map::<u32, u32>(mask, d, a, |x| to_tf32(x, round)),
        (Ty::F32, Ty::Bf16, round) => {
            return regs.map::<u32, u16>(mask, d, a, |x| f32_to_bf16(f32::from_bits(x), round));
        }
        (Ty::Bf16, Ty::F32, _) => return regs.map::<u16, u32>(mask, d, a, |x| u32::from(x) << 16),
        (Ty::E4m3x2 | Ty::E5m2x2, Ty::F16x2, _) => {
            let element = if convert.from == Ty::E4m3x2 { Element::E4m3 } else { Element::E5m2 };
            let half = |bits: u16| u32::from(f32_to_f16(to_f32(element, bits.into())));
            return regs.map::<u16, u32>(mask, d, a, |x| half(x & 0xff) | half(x >> 8) << 16);
        }
        _ => {}
    }
    for lane in (0..LANES).filter(|lane| mask >> lane & 1 != 0) {
        let bits = convert_bits(convert, regs.get(from, a, lane));
        regs.set(to, d, lane, bits);
    }
}

/// The low bits of a register as a value of the type, sign-extended.
fn integer(ty: Ty, bits: u64) -> i128 {
    match ty {
        Ty::U8 => i128::from(bits as u8),
        Ty::S8 => i128::from(bits as i8),
        Ty::U16 => i128::from(bits as u16),
        Ty::S16 => i128::from(bits as i16),
        Ty::U32 => i128::from(bits as u32),
        Ty::S32 => i128::from(bits as i32),
        Ty::S64 => i128::from(bits as i64),
        _ => i128::from(bits),
    }
}

fn range(ty: Ty) -> (i128, i128) {
    let bits = 8 * ty.bytes();
    if ty.is_signed() { (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) } else { (0, (1 << bits) - 1) }
}

/// One conversion; the result is extended to 64 bits by its sign.
pub(super) fn convert_bits(convert: Convert, bits: u64) -> u64 {
    let Convert { to, from, round, sat, ftz } = convert;
    match (from.is_float(), to.is_float()) {
        (false, false) => {
            let value = integer(from, bits);
            let (low, high) = range(to);
            let value = if sat { value.clamp(low, high) } else { value };
            integer(to, value as u64) as u64
        }
        (false, true) => {
            let value = integer(from, bits);
            let format = match to {
                Ty::F16 => F16,
                Ty::F32 => F32,
                _ => F64,
            };
            finish(to, sat, ftz, encode(value < 0, value.unsigned_abs() as u64, 0, format, round))
        }
        (true, false) => {
            let value = read_float(from, ftz, bits);
            if value.is_nan() {
                // 0 in the narrow types, else the sign bit alone.
                let wide = from == Ty::F64 || to.bytes() == 8;
                return if wide { integer(to, 1 << (8 * to.bytes() - 1)) as u64 } else { 0 };
            }
            let (low, high) = range(to);
            // The cast saturates at the ends of i128, far beyond.
            (to_integer(value, round) as i128).clamp(low, high) as u64
        }
        (true, true) => {
            let value = read_float(from, ftz, bits);
            let value = if round == Round::Exact { value } else { to_integer_if(value, round) };
            let bits = match to {
                Ty::F16 if from == Ty::F16 && value.is_nan() => u64::from(NAN16),
                Ty::F16 => u64::from(f64_to_f16(value, round)),
                Ty::F32 => u64::from(f64_to_f32(value, round)),
                _ => value.to_bits(),
            };
            finish(to, sat, ftz, bits)
        }
    }
}

fn finish(ty: Ty, sat: bool, ftz: bool, bits: u64) -> u64 {
    let bits = if ftz && ty == Ty::F32 { u64::from(flush(f32::from_bits(bits as u32)).to_bits()) } else { bits };
    if !sat {
        return bits;
    }
    match ty {
        Ty::F16 => u64::from(f32_to_f16(saturate(f16_to_f32(bits as u16)))),
        Ty::F32 => u64::from(saturate(f32::from_bits(bits as u32)).to_bits()),
        _ => {
            let x = f64::from_bits(bits);
            (if x >= 1.0 {
                1.0_f64
            } else if x > 0.0 {
                x
            } else {
                0.0
            })
            .to_bits()
        }
    }
}

fn read_float(ty: Ty, ftz: bool, bits: u64) -> f64 {
    match ty {
        Ty::F16 => f64::from(f16_to_f32(bits as u16)),
        Ty::F32 => {
            let x = f32::from_bits(bits as u32);
            f64::from(if ftz { flush(x) } else { x })
        }
        _ => f64::from_bits(bits),
    }
}

fn to_integer(x: f64, round: Round) -> f64 {
    match round {
        Round::Rzi => x.trunc(),
        Round::Rmi => x.floor(),
        Round::Rpi => x.ceil(),
        _ => x.round_ties_even(),
    }
}

fn to_integer_if(x: f64, round: Round) -> f64 {
    match round {
        Round::Rni | Round::Rzi | Round::Rmi | Round::Rpi => to_integer(x, round),
        _ => x,
    }
}

/// `cvt.rn.f16x2.f32 d, a, b`: `a` is the high half.
/// Two floats side by side, the first one high.
pub(super) struct Pack {
    pub(super) to: Ty,
    pub(super) round: Round,
    pub(super) relu: bool,
    pub(super) sat: bool,
}

pub(super) fn cvt_pack(regs: &mut Regs, mask: u32, pack: Pack, d: Slot, [a, b]: [Slot; 2]) {
    let Pack { to, round, relu, sat } = pack;
    let relu = |x: f32| if relu && x <= 0.0 { 0.0 } else { x };
    let half = |bits: u32| {
        let x = f32::from_bits(bits);
        match to {
            Ty::Bf16x2 => u32::from(f32_to_bf16(relu(x), round)),
            Ty::E4m3x2 => u32::from(f32_to_e4m3(relu(x))),
            Ty::E5m2x2 => u32::from(f32_to_e5m2(relu(x))),
            _ => {
                let half = f64_to_f16(f64::from(relu(x)), round);
                u32::from(if sat { f32_to_f16(saturate(f16_to_f32(half))) } else { half })
            }
        }
    };
    if to.bytes() == 2 {
        regs.map2::<u32, u32, u16>(mask, d, a, b, |high, low| (half(high) << 8 | half(low)) as u16);
    } else {
        regs.map2::<u32, u32, u32>(mask, d, a, b, |high, low| half(high) << 16 | half(low));
    }
}

pub(super) struct Setp {
    pub(super) cmp: Cmp,
    pub(super) ty: Ty,
    pub(super) ftz: bool,
    pub(super) d: Slot,
    pub(super) inverse: Slot,
    pub(super) with: Option<(Logic, Slot, bool)>,
}

pub(super) fn setp(regs: &mut Regs, mask: u32, inst: Setp, a: Slot, b: Slot) {
    let Setp { cmp, ty, ftz, d, inverse, with } = inst;
    let flush_if = |x: f32| if ftz { flush(x) } else { x };
    let bits = match ty {
        Ty::F16 => compare(regs, a, b, cmp, |x: u16| f16_to_f32(x)),
        Ty::F32 => compare(regs, a, b, cmp, |x: u32| flush_if(f32::from_bits(x))),
        Ty::F64 => compare(regs, a, b, cmp, |x: u64| f64::from_bits(x)),
        Ty::S16 => compare(regs, a, b, cmp, |x: u16| x as i16),
        Ty::S32 => compare(regs, a, b, cmp, |x: u32| x as i32),
        Ty::S64 => compare(regs, a, b, cmp, |x: u64| x as i64),
        _ => match ty.class() {
            Class::Half => compare(regs, a, b, cmp, |x: u16| x),
            Class::Word => compare(regs, a, b, cmp, |x: u32| x),
            _ => compare(regs, a, b, cmp, |x: u64| x),
        },
    };
    let combine = |bits: u32| match with {
        None => bits,
        Some((logic, p, negated)) => {
            let other = regs.p[p as usize] ^ if negated { u32::MAX } else { 0 };
            match logic {
                Logic::And => bits & other,
                Logic::Or => bits | other,
                _ => bits ^ other,
            }
        }
    };
    let (first, second) = (combine(bits), combine(!bits));
    if d != NONE {
        regs.write_pred(d, mask, first);
    }
    if inverse != NONE {
        regs.write_pred(inverse, mask, second);
    }
}

fn compare<T: Lane, V: PartialOrd + Copy>(
    regs: &Regs,
    a: Slot,
    b: Slot,
    cmp: Cmp,
    value: impl Fn(T) -> V + Copy,
) -> u32 {
    let (a, b) = (regs.row::<T>(a), regs.row::<T>(b));
    macro_rules! run {
        ($f:expr) => {{
            let f = $f;
            (0..LANES).fold(0, |bits, lane| bits | u32::from(f(value(a[lane]), value(b[lane]))) << lane)
        }};
    }
    let nan = |x: &V, y: &V| x.partial_cmp(y).is_none();
    match cmp {
        Cmp::Eq => run!(|x: V, y: V| x == y),
        // Integers are always ordered; of floats this is the ordered form.
        Cmp::Ne => run!(|x: V, y: V| x != y && !nan(&x, &y)),
        Cmp::Lt => run!(|x: V, y: V| x < y),
        Cmp::Le => run!(|x: V, y: V| x <= y),
        Cmp::Gt => run!(|x: V, y: V| x > y),
        Cmp::Ge => run!(|x: V, y: V| x >= y),
        Cmp::Equ => run!(|x: V, y: V| x == y || nan(&x, &y)),
        Cmp::Neu => run!(|x: V, y: V| x != y),
        Cmp::Ltu => run!(|x: V, y: V| x < y || nan(&x, &y)),
        Cmp::Leu => run!(|x: V, y: V| x <= y || nan(&x, &y)),
        Cmp::Gtu => run!(|x: V, y: V| x > y || nan(&x, &y)),
        Cmp::Geu => run!(|x: V, y: V| x >= y || nan(&x, &y)),
        Cmp::Num => run!(|x: V, y: V| !nan(&x, &y)),
        Cmp::Nan => run!(|x: V, y: V| nan(&x, &y)),
    }
}

/// `a` where `p` is set, else `b`.
pub(super) fn selp<T: Lane>(regs: &mut Regs, mask: u32, d: Slot, a: Slot, b: Slot, p: u32) {
    let (x, y) = (regs.row::<T>(a), regs.row::<T>(b));
    let mut out = [T::default(); LANES];
    for lane in 0..LANES {
        out[lane] = if p >> lane & 1 != 0 { x[lane] } else { y[lane] };
    }
    regs.write(d, mask, &out);
}
