//! The loop: one group's instructions until it splits, waits, ends or has had its turn.

use super::access::{Transfer, lanes};
use super::convert::{self, Setp};
use super::float::FloatInst;
use super::regs::Lane;
use super::warp::{Group, State, Warp};
use super::{Machine, Trouble, collective, float, int, mma};
use crate::error::FaultKind;
use crate::inst::*;

/// Why a group stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// Its turn is over.
    Budget,
    /// It split, waits or is gone.
    Changed,
    /// It asked in vain whether a barrier's phase has ended.
    Asked,
    /// It arrived at a barrier: those who wait there go on before it can arrive again.
    Arrived,
}

impl Machine<'_> {
    pub(super) fn run_group(&mut self, warp: &mut Warp, g: usize, budget: u64) -> Result<Stop, (u32, Trouble)> {
        let code = &self.kernel.code[..];
        let Group { mut pc, mut mask, .. } = warp.groups[g];
        let mut steps = 0;
        let mut lanes = 0;
        let stop = loop {
            if steps >= budget {
                warp.groups[g].pc = pc;
                warp.groups[g].mask = mask;
                break Stop::Budget;
            }
            let inst = &code[pc as usize];
            let on = match inst.guard {
                None => mask,
                Some(Guard { p, negated }) => mask & (warp.regs.p[p as usize] ^ if negated { u32::MAX } else { 0 }),
            };
            steps += 1;
            lanes += u64::from(on.count_ones());
            match inst.op {
                Op::Bra { target, join } => {
                    if on == mask {
                        pc = target;
                    } else if on == 0 {
                        pc += 1;
                    } else {
                        self.stats.divergent_branches += 1;
                        warp.groups[g].mask = mask;
                        warp.split(g, on, target, pc + 1, join);
                        break Stop::Changed;
                    }
                }
                Op::Join => {
                    steps -= 1;
                    lanes -= u64::from(on.count_ones());
                    warp.groups[g].pc = pc;
                    warp.groups[g].mask = mask;
                    if warp.arrive(g, pc) {
                        break Stop::Changed;
                    }
                    pc += 1;
                }
                Op::Exit => {
                    if on == mask {
                        warp.groups.swap_remove(g);
                        warp.exit(on);
                        self.progress += 1;
                        break Stop::Changed;
                    }
                    pc += 1;
                    mask &= !on;
                    warp.groups[g] = Group { pc, mask, ..warp.groups[g] };
                    warp.exit(on);
                }
                _ if on == 0 => pc += 1,
                Op::Barrier { id, count, arrive: true } => {
                    self.arrive(warp, on, id, count).map_err(|trouble| (pc, trouble))?;
                    pc += 1;
                    warp.groups[g] = Group { pc, mask, ..warp.groups[g] };
                    break Stop::Arrived;
                }
                Op::Mbarrier(op) => {
                    let waits = self.mbarrier(warp, on, op).map_err(|trouble| (pc, trouble))?;
                    pc += 1;
                    if waits {
                        warp.groups[g] = Group { pc, mask, ..warp.groups[g] };
                        break Stop::Asked;
                    }
                    if self.woken {
                        warp.groups[g] = Group { pc, mask, ..warp.groups[g] };
                        break Stop::Arrived;
                    }
                }
                Op::WgmmaWait { pending } => {
                    if !self.wgmma_wait(warp, on, pending).map_err(|trouble| (pc, trouble))? {
                        warp.groups[g] = Group { pc, mask, ..warp.groups[g] };
                        break Stop::Asked;
                    }
                    pc += 1;
                }
                Op::ClusterWait => {
                    if !self.cluster_passes(warp, on).map_err(|trouble| (pc, trouble))? {
                        wait(warp, g, Group { pc, mask, ..warp.groups[g] }, on, State::Cluster);
                        break Stop::Changed;
                    }
                    pc += 1;
                }
                Op::Barrier { id, count, .. } => {
                    let lane = on.trailing_zeros() as usize;
                    let id = warp.regs.row::<u32>(id)[lane];
                    let count = if count == NONE { 0 } else { warp.regs.row::<u32>(count)[lane] };
                    let state = State::Barrier { id, count };
                    wait(warp, g, Group { pc, mask, ..warp.groups[g] }, on, state);
                    break Stop::Changed;
                }
                Op::Collective { op, mask: members } => {
                    let waits = gather(warp, on, op, members).map_err(|trouble| (pc, trouble))?;
                    if let Some((late, members)) = waits {
                        let group = Group { pc, mask, ..warp.groups[g] };
                        wait(warp, g, group, late, State::Sync { members });
                        break Stop::Changed;
                    }
                    pc += 1;
                }
                _ => {
                    self.step(warp, &inst.op, on).map_err(|trouble| (pc, trouble))?;
                    pc += 1;
                }
            }
        };
        self.stats.warp_instructions += steps;
        self.stats.thread_instructions += lanes;
        Ok(stop)
    }

    /// Everything that is not control flow.
    fn step(&mut self, warp: &mut Warp, op: &Op, on: u32) -> Result<(), Trouble> {
        let regs = &mut warp.regs;
        match *op {
            Op::Mov { d, .. } if d == NONE => {}
            Op::Mov { class: Class::Word, d, a } => {
                warp.wgmma.moved(d, a);
                warp.regs.map::<u32, u32>(on, d, a, |x| x);
            }
            Op::Mov { class: Class::Double, d, a } => regs.map::<u64, u64>(on, d, a, |x| x),
            Op::Mov { d, a, .. } => regs.map::<u16, u16>(on, d, a, |x| x),
            Op::Pack { part: Class::Half, d, parts: [a, b, NONE, _] } => {
                regs.map2::<u16, u16, u32>(on, d, a, b, |low, high| u32::from(low) | u32::from(high) << 16);
            }
            Op::Pack { part: Class::Word, d, parts: [a, b, ..] } => {
                regs.map2::<u32, u32, u64>(on, d, a, b, |low, high| u64::from(low) | u64::from(high) << 32);
            }
            Op::Pack { d, parts, .. } => {
                let rows = parts.map(|slot| *regs.row::<u16>(slot));
                let mut out = [0; 32];
                for (lane, out) in out.iter_mut().enumerate() {
                    *out = rows.iter().rev().fold(0, |bits, row| bits << 16 | u64::from(row[lane]));
                }
                regs.write(d, on, &out);
            }
            Op::Unpack { part: Class::Half, parts: [low, high, NONE, _], a } => {
                let row = *regs.row::<u32>(a);
                split(regs, on, &row.map(|x| x as u16), low);
                split(regs, on, &row.map(|x| (x >> 16) as u16), high);
            }
            Op::Unpack { part: Class::Word, parts: [low, high, ..], a } => {
                let row = *regs.row::<u64>(a);
                split(regs, on, &row.map(|x| x as u32), low);
                split(regs, on, &row.map(|x| (x >> 32) as u32), high);
            }
            Op::Unpack { parts, a, .. } => {
                let row = *regs.row::<u64>(a);
                for (part, slot) in parts.into_iter().enumerate() {
                    split(regs, on, &row.map(|x| (x >> (16 * part)) as u16), slot);
                }
            }
            Op::Int { op, class, signed, d, a, b, c } => int::int(regs, on, op, class, signed, d, [a, b, c]),
            Op::Bfi { wide: false, d, a, b, c, e } => {
                let (from, count) = (*regs.row::<u32>(c), *regs.row::<u32>(e));
                let (x, y) = (*regs.row::<u32>(a), *regs.row::<u32>(b));
                let value = |lane: usize| int::bfi(x[lane].into(), y[lane].into(), from[lane], count[lane], 32) as u32;
                regs.write(d, on, &std::array::from_fn(value));
            }
            Op::Bfi { d, a, b, c, e, .. } => {
                let (from, count) = (*regs.row::<u32>(c), *regs.row::<u32>(e));
                let (x, y) = (*regs.row::<u64>(a), *regs.row::<u64>(b));
                let value = |lane: usize| int::bfi(x[lane], y[lane], from[lane], count[lane], 64);
                regs.write(d, on, &std::array::from_fn(value));
            }
            Op::Word { op, d, a, b, c } => int::word(regs, on, op, d, [a, b, c]),
            Op::Float { op, ty, mods, d, a, b, c } => {
                float::float(regs, on, FloatInst { op, ty, mods, d, abc: [a, b, c] }, &self.approximation);
            }
            Op::Logic { op, d, a, b } => {
                let (x, y) = (regs.p[a as usize], regs.p[b as usize]);
                let bits = match op {
                    Logic::And => x & y,
                    Logic::Or => x | y,
                    Logic::Xor => x ^ y,
                    Logic::Not => !x,
                    Logic::Mov => x,
                };
                if d != NONE {
                    regs.write_pred(d, on, bits);
                }
            }
            Op::Setp { cmp, ty, ftz, d, inverse, a, b, with } => {
                convert::setp(regs, on, Setp { cmp, ty, ftz, d, inverse, with }, a, b);
            }
            Op::Selp { class, d, a, b, p, negated } => {
                let p = regs.p[p as usize] ^ if negated { u32::MAX } else { 0 };
                match class {
                    Class::Half => convert::selp::<u16>(regs, on, d, a, b, p),
                    Class::Word => convert::selp::<u32>(regs, on, d, a, b, p),
                    _ => convert::selp::<u64>(regs, on, d, a, b, p),
                }
            }
            Op::Cvt { convert, to, from, d, a } => convert::cvt(regs, on, convert, to, from, d, a),
            Op::CvtPack { to, round, relu, sat, d, a, b } => {
                convert::cvt_pack(regs, on, convert::Pack { to, round, relu, sat }, d, [a, b]);
            }
            Op::Ld { space, ty, class, count, ref dst, address, strength } => {
                let regs = &dst[..count as usize];
                self.load(warp, on, Transfer { space, ty, class, regs, address, strength })?;
            }
            Op::St { space, ty, class, count, ref src, address, strength } => {
                let regs = &src[..count as usize];
                self.store(warp, on, Transfer { space, ty, class, regs, address, strength })?;
            }
            Op::Atom { space, op, ty, d, address, a, b } => {
                self.atom(warp, on, (space, op, ty), d, address, [a, b])?;
            }
            Op::FenceAsync => {
                self.progress += 1;
                let first = warp.threads().start;
                lanes(on).for_each(|lane| self.blocks[warp.rank].fence(first + lane, self.progress));
            }
            // Kernels run one after the other; all there is to find is who does not wait (`after_grid`).
            Op::WaitForGrid => self.blocks[warp.rank].grid_waited = true,
            // One thread after the other: memory is always up to date.
            Op::Fence => {}
            Op::Hint { whole_warp } if whole_warp => mma::whole_warp(on, "setmaxnreg")?,
            Op::Hint { .. } => {}
            Op::ActiveMask { d } => regs.write(d, on, &[on; 32]),
            Op::Wmma(ref wmma) => self.wmma(warp, on, wmma)?,
            Op::Matrix(ref matrix) => self.matrix(warp, on, matrix)?,
            Op::Mma(ref mma) => self.mma(warp, on, mma)?,
            Op::Wgmma(ref wgmma) => self.wgmma(warp, on, wgmma)?,
            Op::WgmmaFence => mma::whole_warp(on, "wgmma.fence")?,
            Op::WgmmaCommit => self.wgmma_commit(warp, on)?,
            Op::CopyAsync(op) => self.copy_async(warp, on, op)?,
            Op::Bulk(ref bulk) => self.bulk(warp, on, bulk)?,
            Op::MapAddress { class, d, a, rank } => self.map_address(warp, on, class, [d, a, rank])?,
            Op::ClusterArrive => self.cluster_arrive(warp, on)?,
            Op::Trap => return Err(Trouble::new(on.trailing_zeros() as usize, FaultKind::Trap)),
            // Control flow is `run_group`'s.
            Op::Bra { .. } | Op::Join | Op::Exit | Op::Barrier { .. } | Op::Collective { .. } => {}
            Op::Mbarrier(_) | Op::ClusterWait | Op::WgmmaWait { .. } => {}
        }
        Ok(())
    }
}

fn split<T: Lane>(regs: &mut super::regs::Regs, on: u32, values: &[T; 32], slot: Slot) {
    if slot != NONE {
        regs.write(slot, on, values);
    }
}

/// The lanes `late` of a group wait; the others, if any, go on behind the instruction.
fn wait(warp: &mut Warp, g: usize, group: Group, late: u32, state: State) {
    warp.groups[g] = Group { mask: late, state, ..group };
    let others = group.mask & !late;
    if others != 0 {
        warp.groups.push(Group { pc: group.pc + 1, mask: others, ..group });
    }
}

/// Runs a warp-wide instruction for the lanes that are all there; the first that must wait, with their member mask.
fn gather(warp: &mut Warp, on: u32, op: Collective, members: Slot) -> Result<Option<(u32, u32)>, Trouble> {
    let masks = *warp.regs.row::<u32>(members);
    if let Some(lane) = (0..32).find(|&lane| on >> lane & 1 != 0 && masks[lane] >> lane & 1 == 0) {
        let message = format!("the member mask {:#010x} leaves out the thread itself", masks[lane]);
        return Err(Trouble::new(lane, FaultKind::Convergence(message)));
    }
    let mut rest = on;
    let mut late = None;
    while rest != 0 {
        let lane = rest.trailing_zeros() as usize;
        let members = masks[lane];
        let same = (0..32).filter(|&l| rest >> l & 1 != 0 && masks[l] == members).fold(0, |bits, l| bits | 1 << l);
        rest &= !same;
        if same == members & warp.alive {
            collective::collective(warp, same, op);
        } else if late.is_none() {
            late = Some((same, members));
        } else {
            let message = "lanes wait for lanes elsewhere with more than one member mask".to_owned();
            return Err(Trouble::new(lane, FaultKind::Convergence(message)));
        }
    }
    Ok(late)
}
