//! Atomics: a read and a write that nothing comes between, as one thread runs at a time.

use super::access::{lane_address, lanes};
use super::float::flush;
use super::round::{f16_to_f32, f32_to_f16};
use super::warp::Warp;
use super::{Machine, Trouble};
use crate::inst::*;

impl Machine<'_> {
    pub(super) fn atom(
        &mut self,
        warp: &mut Warp,
        mask: u32,
        (space, op, ty): (Space, AtomOp, Ty),
        d: Slot,
        address: Address,
        [a, b]: [Slot; 2],
    ) -> Result<(), Trouble> {
        let size = ty.bytes() as usize;
        let class = ty.class();
        let how = (space, Strength::Strong);
        let backwards = self.coin();
        self.progress += 1;
        let order = lanes(if backwards { mask.reverse_bits() } else { mask });
        for lane in order.map(|lane| if backwards { 31 - lane } else { lane }) {
            let at = lane_address(warp, address, lane);
            let trouble = |kind| Trouble::new(lane, kind);
            let mut bytes = [0; 8];
            self.read(warp, lane, how, at, &mut bytes[..size]).map_err(trouble)?;
            let old = u64::from_le_bytes(bytes);
            let x = warp.regs.get(class, a, lane);
            let y = if b == NONE { 0 } else { warp.regs.get(class, b, lane) };
            if let Some(new) = atomic(op, ty, space, old, x, y) {
                self.write(warp, lane, how, at, &new.to_le_bytes()[..size]).map_err(trouble)?;
            }
            if d != NONE {
                warp.regs.set(class, d, lane, old);
            }
        }
        Ok(())
    }
}

/// The new value; `None` when nothing is written.
fn atomic(op: AtomOp, ty: Ty, space: Space, old: u64, x: u64, y: u64) -> Option<u64> {
    let (old32, x32) = (old as u32, x as u32);
    Some(match op {
        AtomOp::Add => match ty {
            Ty::F32 => {
                let (a, b) = (f32::from_bits(old32), f32::from_bits(x32));
                // In global memory subnormals are flushed, in shared memory they are not.
                let sum = if space == Space::Shared { a + b } else { flush(flush(a) + flush(b)) };
                u64::from(if sum.is_nan() { super::round::NAN32 } else { sum.to_bits() })
            }
            Ty::F64 => (f64::from_bits(old) + f64::from_bits(x)).to_bits(),
            Ty::F16 => u64::from(add16(old as u16, x as u16)),
            Ty::F16x2 => {
                let high = add16((old32 >> 16) as u16, (x32 >> 16) as u16);
                u64::from(add16(old as u16, x as u16)) | u64::from(high) << 16
            }
            _ => old.wrapping_add(x),
        },
        AtomOp::And => old & x,
        AtomOp::Or => old | x,
        AtomOp::Xor => old ^ x,
        AtomOp::Min | AtomOp::Max => {
            let least = op == AtomOp::Min;
            let x_wins = match ty {
                Ty::S32 => ((x as i32) < old as i32) == least,
                Ty::U32 => (x32 < old32) == least,
                Ty::S64 => ((x as i64) < old as i64) == least,
                _ => (x < old) == least,
            };
            if x_wins { x } else { old }
        }
        AtomOp::Inc => u64::from(if old32 >= x32 { 0 } else { old32 + 1 }),
        AtomOp::Dec => u64::from(if old32 == 0 || old32 > x32 { x32 } else { old32 - 1 }),
        AtomOp::Exch => x,
        AtomOp::Cas => return (old == x).then_some(y),
    })
}

fn add16(a: u16, b: u16) -> u16 {
    f32_to_f16(f16_to_f32(a) + f16_to_f32(b))
}
