//! Integers, logic and shifts, over the lanes of a warp.
//!
//! Division by zero is undefined in PTX; here every bit of the result is set.

use super::regs::Regs;
use crate::inst::{Class, IntOp, Slot, WordOp};

/// Runs an integer operation on the lanes in `mask`.
pub(super) fn int(regs: &mut Regs, mask: u32, op: IntOp, class: Class, signed: bool, d: Slot, abc: [Slot; 3]) {
    match class {
        Class::Half => int16(regs, mask, op, signed, d, abc),
        Class::Word => int32(regs, mask, op, signed, d, abc),
        Class::Double | Class::Pred => int64(regs, mask, op, signed, d, abc),
    }
}

macro_rules! integers {
    ($name:ident, $u:ty, $i:ty, $wide_u:ty, $wide_i:ty, $row:ty) => {
        fn $name(regs: &mut Regs, mask: u32, op: IntOp, signed: bool, d: Slot, [a, b, c]: [Slot; 3]) {
            const BITS: u32 = <$u>::BITS;
            use IntOp::*;
            macro_rules! one {
                ($f:expr) => {
                    regs.map::<$u, $u>(mask, d, a, $f)
                };
            }
            macro_rules! count {
                ($f:expr) => {
                    regs.map::<$u, u32>(mask, d, a, $f)
                };
            }
            macro_rules! two {
                ($f:expr) => {
                    regs.map2::<$u, $u, $u>(mask, d, a, b, $f)
                };
            }
            macro_rules! three {
                ($f:expr) => {
                    regs.map3::<$u, $u, $u, $u>(mask, d, [a, b, c], $f)
                };
            }
            let high = |x: $u, y: $u| (((x as $wide_u) * (y as $wide_u)) >> BITS) as $u;
            let high_signed = |x: $u, y: $u| (((x as $i as $wide_i) * (y as $i as $wide_i)) >> BITS) as $u;
            match (op, signed) {
                (Neg, _) => one!(|x| x.wrapping_neg()),
                (Abs, _) => one!(|x| (x as $i).wrapping_abs() as $u),
                (Not, _) => one!(|x| !x),
                (Brev, _) => one!(|x| x.reverse_bits()),
                (Popc, _) => count!(|x| x.count_ones()),
                (Clz, _) => count!(|x| x.leading_zeros()),
                (Bfind, _) | (BfindShift, _) => count!(|x| {
                    let x = if signed && (x as $i) < 0 { !x } else { x };
                    match x.leading_zeros() {
                        BITS => u32::MAX,
                        zeros if op == BfindShift => zeros,
                        zeros => BITS - 1 - zeros,
                    }
                }),
                (Add, _) => two!(|x, y| x.wrapping_add(y)),
                (Sub, _) => two!(|x, y| x.wrapping_sub(y)),
                (AddSat, _) => two!(|x, y| (x as $i).saturating_add(y as $i) as $u),
                (SubSat, _) => two!(|x, y| (x as $i).saturating_sub(y as $i) as $u),
                (Mul, _) => two!(|x, y| x.wrapping_mul(y)),
                (MulHi, false) => two!(high),
                (MulHi, true) => two!(high_signed),
                (MulWide, false) => {
                    regs.map2::<$u, $u, $row>(mask, d, a, b, |x, y| (x as $row).wrapping_mul(y as $row))
                }
                (MulWide, true) => {
                    regs.map2::<$u, $u, $row>(mask, d, a, b, |x, y| (x as $i as $row).wrapping_mul(y as $i as $row))
                }
                (Div, false) => two!(|x, y| x.checked_div(y).unwrap_or(<$u>::MAX)),
                (Div, true) => two!(|x, y| if y == 0 { <$u>::MAX } else { (x as $i).wrapping_div(y as $i) as $u }),
                (Rem, false) => two!(|x, y| x.checked_rem(y).unwrap_or(<$u>::MAX)),
                (Rem, true) => two!(|x, y| if y == 0 { <$u>::MAX } else { (x as $i).wrapping_rem(y as $i) as $u }),
                (Min, false) => two!(|x, y| x.min(y)),
                (Min, true) => two!(|x, y| (x as $i).min(y as $i) as $u),
                (Max, false) => two!(|x, y| x.max(y)),
                (Max, true) => two!(|x, y| (x as $i).max(y as $i) as $u),
                (And, _) => two!(|x, y| x & y),
                (Or, _) => two!(|x, y| x | y),
                (Xor, _) => two!(|x, y| x ^ y),
                // Counts beyond the width are clamped to it.
                (Shl, _) => regs.map2::<$u, u32, $u>(mask, d, a, b, |x, n| x.checked_shl(n).unwrap_or(0)),
                (Shr, false) => regs.map2::<$u, u32, $u>(mask, d, a, b, |x, n| x.checked_shr(n).unwrap_or(0)),
                (Shr, true) => regs.map2::<$u, u32, $u>(mask, d, a, b, |x, n| ((x as $i) >> n.min(BITS - 1)) as $u),
                (Mad, _) => three!(|x, y, z| x.wrapping_mul(y).wrapping_add(z)),
                (MadHi, false) => three!(|x, y, z| high(x, y).wrapping_add(z)),
                (MadHi, true) => three!(|x, y, z| high_signed(x, y).wrapping_add(z)),
                (MadWide, false) => regs.map3::<$u, $u, $row, $row>(mask, d, [a, b, c], |x, y, z| {
                    (x as $row).wrapping_mul(y as $row).wrapping_add(z)
                }),
                (MadWide, true) => regs.map3::<$u, $u, $row, $row>(mask, d, [a, b, c], |x, y, z| {
                    (x as $i as $row).wrapping_mul(y as $i as $row).wrapping_add(z)
                }),
                (Sad, false) => three!(|x, y, z| x.abs_diff(y).wrapping_add(z)),
                (Sad, true) => three!(|x, y, z| (x as $i).abs_diff(y as $i).wrapping_add(z)),
                (Bfe, _) => regs.map3::<$u, u32, u32, $u>(mask, d, [a, b, c], |x, from, count| {
                    bfe(x as u64, from & 255, count & 255, BITS, signed) as $u
                }),
            }
        }
    };
}

integers!(int16, u16, i16, u32, i32, u32);
integers!(int32, u32, i32, u64, i64, u64);
// There is no product of 128 bits in registers: the last type is not used (`mul.wide.u64` is no instruction).
integers!(int64, u64, i64, u128, i128, u64);

/// `bfe`: bits beyond the top repeat the sign; an empty field is 0.
fn bfe(x: u64, from: u32, count: u32, bits: u32, signed: bool) -> u64 {
    if count == 0 {
        return 0;
    }
    // The field's sign bit, or the value's where the field ends beyond it.
    let top = (from + count - 1).min(bits - 1);
    let fill = signed && x >> top & 1 != 0;
    let value = x.checked_shr(from).unwrap_or(0);
    // Bits of the value that the field really has.
    let have = count.min(bits.saturating_sub(from));
    let mask = if have >= 64 { u64::MAX } else { (1 << have) - 1 };
    if fill { value | !mask } else { value & mask }
}

/// `bfi`: the low `count` bits of `a` into `b` from bit `from` on.
pub(super) fn bfi(a: u64, b: u64, from: u32, count: u32, bits: u32) -> u64 {
    let (from, count) = (from & 255, count & 255);
    if from >= bits {
        return b;
    }
    let mask = if count >= 64 { u64::MAX } else { (1_u64 << count) - 1 };
    let mask = mask << from;
    (b & !mask) | (a << from & mask)
}

pub(super) fn word(regs: &mut Regs, mask: u32, op: WordOp, d: Slot, abc: [Slot; 3]) {
    match op {
        WordOp::Prmt => regs.map3::<u32, u32, u32, u32>(mask, d, abc, prmt),
        WordOp::ShfL { clamp } => regs.map3::<u32, u32, u32, u32>(mask, d, abc, |a, b, c| {
            let count = if clamp { c.min(32) } else { c & 31 };
            ((join(a, b) << count) >> 32) as u32
        }),
        WordOp::ShfR { clamp } => regs.map3::<u32, u32, u32, u32>(mask, d, abc, |a, b, c| {
            let count = if clamp { c.min(32) } else { c & 31 };
            (join(a, b) >> count) as u32
        }),
        WordOp::Lop3(table) => regs.map3::<u32, u32, u32, u32>(mask, d, abc, |a, b, c| {
            let mut out = 0;
            for row in 0..8 {
                let pick = |x: u32, bit: u32| if row & bit != 0 { x } else { !x };
                if table >> row & 1 != 0 {
                    out |= pick(a, 4) & pick(b, 2) & pick(c, 1);
                }
            }
            out
        }),
        WordOp::Dp4a { signed } => regs.map3::<u32, u32, u32, u32>(mask, d, abc, |a, b, c| {
            let widen = |byte: u8, signed: bool| if signed { i32::from(byte as i8) } else { i32::from(byte) };
            let pairs = a.to_le_bytes().into_iter().zip(b.to_le_bytes());
            let sum: i32 = pairs.map(|(x, y)| widen(x, signed[0]) * widen(y, signed[1])).sum();
            c.wrapping_add(sum as u32)
        }),
    }
}

fn join(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

/// Each nibble of `c` picks one of eight bytes; its top bit asks for the byte's sign instead.
fn prmt(a: u32, b: u32, c: u32) -> u32 {
    let bytes = join(a, b).to_le_bytes();
    let mut out = [0; 4];
    for (at, byte) in out.iter_mut().enumerate() {
        let selector = c >> (4 * at) & 15;
        let picked = bytes[(selector & 7) as usize];
        *byte = if selector & 8 != 0 { ((picked as i8) >> 7) as u8 } else { picked };
    }
    u32::from_le_bytes(out)
}
