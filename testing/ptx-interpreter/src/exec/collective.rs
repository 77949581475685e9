//! Warp-wide operations. A lane that reads from one that does not take part gets bits nobody should rely on.

use super::regs::LANES;
use super::warp::Warp;
use crate::inst::*;

/// What an absent lane is read as.
const ABSENT: u32 = 0xFFFF_DEAD;

/// Runs `op` for the lanes in `mask`, all of which are there.
pub(super) fn collective(warp: &mut Warp, mask: u32, op: Collective) {
    let regs = &mut warp.regs;
    let each = || (0..LANES).filter(move |lane| mask >> lane & 1 != 0);
    let votes = |regs: &super::regs::Regs, p: Slot, negated: bool| {
        (regs.p[p as usize] ^ if negated { u32::MAX } else { 0 }) & mask
    };
    match op {
        Collective::Barrier => warp.sync += 1,
        Collective::Shfl { mode, d, p, a, b, c } => {
            let value = *regs.row::<u32>(a);
            let (offset, control) = (*regs.row::<u32>(b), *regs.row::<u32>(c));
            let mut out = [0; LANES];
            let mut in_range = 0;
            for lane in each() {
                let (from, inside) = source(mode, lane as u32, offset[lane], control[lane]);
                in_range |= u32::from(inside) << lane;
                out[lane] = if mask >> from & 1 != 0 { value[from as usize] } else { ABSENT };
            }
            if d != NONE {
                regs.write(d, mask, &out);
            }
            if p != NONE {
                regs.write_pred(p, mask, in_range);
            }
        }
        Collective::Vote { mode, d, p, negated } => {
            let yes = votes(regs, p, negated);
            let result = match mode {
                VoteMode::All => yes == mask,
                VoteMode::Any => yes != 0,
                VoteMode::Uni => yes == mask || yes == 0,
            };
            if d != NONE {
                regs.write_pred(d, mask, if result { u32::MAX } else { 0 });
            }
        }
        Collective::Ballot { d, p, negated } => {
            let yes = votes(regs, p, negated);
            if d != NONE {
                regs.write(d, mask, &[yes; LANES]);
            }
        }
        Collective::Redux { op, signed, d, a } => {
            let row = regs.row::<u32>(a);
            let values = each().map(|lane| row[lane]);
            let result = values.reduce(|x, y| match (op, signed) {
                (ReduxOp::Add, _) => x.wrapping_add(y),
                (ReduxOp::Min, false) => x.min(y),
                (ReduxOp::Min, true) => (x as i32).min(y as i32) as u32,
                (ReduxOp::Max, false) => x.max(y),
                (ReduxOp::Max, true) => (x as i32).max(y as i32) as u32,
                (ReduxOp::And, _) => x & y,
                (ReduxOp::Or, _) => x | y,
                (ReduxOp::Xor, _) => x ^ y,
            });
            if d != NONE {
                regs.write(d, mask, &[result.unwrap_or(0); LANES]);
            }
        }
        Collective::MatchAny { wide, d, a } => {
            let class = if wide { Class::Double } else { Class::Word };
            let mut out = [0_u32; LANES];
            for lane in each() {
                let mine = regs.get(class, a, lane);
                out[lane] = each().filter(|&l| regs.get(class, a, l) == mine).fold(0, |bits, l| bits | 1 << l);
            }
            if d != NONE {
                regs.write(d, mask, &out);
            }
        }
        Collective::MatchAll { wide, d, p, a } => {
            let class = if wide { Class::Double } else { Class::Word };
            let first = each().next().map_or(0, |lane| regs.get(class, a, lane));
            let same = each().all(|lane| regs.get(class, a, lane) == first);
            if d != NONE {
                regs.write(d, mask, &[if same { mask } else { 0 }; LANES]);
            }
            if p != NONE {
                regs.write_pred(p, mask, if same { u32::MAX } else { 0 });
            }
        }
        Collective::Elect { d, p } => {
            let lane = mask.trailing_zeros();
            if d != NONE {
                regs.write(d, mask, &[lane; LANES]);
            }
            if p != NONE {
                regs.write_pred(p, mask, 1 << lane);
            }
        }
    }
}

/// Lane that `lane` reads from, and whether it was in range (9.7.9.6, the pseudo-code).
fn source(mode: ShflMode, lane: u32, offset: u32, control: u32) -> (u32, bool) {
    let offset = offset & 31;
    let clamp = control & 31;
    let segment = control >> 8 & 31;
    let highest = (lane & segment) | (clamp & !segment);
    let lowest = lane & segment;
    let (from, inside) = match mode {
        ShflMode::Up => {
            let from = lane as i64 - i64::from(offset);
            (from as u32, from >= i64::from(highest))
        }
        ShflMode::Down => (lane + offset, lane + offset <= highest),
        ShflMode::Bfly => (lane ^ offset, lane ^ offset <= highest),
        ShflMode::Idx => {
            let from = lowest | (offset & !segment);
            (from, from <= highest)
        }
    };
    if inside { (from & 31, true) } else { (lane, false) }
}
