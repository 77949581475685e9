//! `wgmma` (PTX ISA 9.7.15): each warp of a warpgroup multiplies its 16 rows of the 64.
//!
//! `wgmma.mma_async.sp` (9.7.15.6): warp w gives the metadata of rows 16 w to 16 w + 15 (table of 9.7.15.6.2), in the lanes
//! that give them for `mma.sp` of 16 rows: figure 176, of m64nNk32, is that of m16n8k32, figures 180 and 181, of m64nNk64, are
//! those of m16n8k64. So both are read in one place, `mma::expanded`.
//!
//! It runs in the background, and the model of that has two sides. Operands are read at the instruction, but their bytes
//! stay claimed until a `wgmma.wait_group` that covers it (see `claims`): to overwrite them before is a fault. Sums are known
//! at once, but their registers hold bits nobody should rely on until then; a `mov` of such a register moves the sum that
//! will come, since assemblers give both one register. What must be the same in all four warps (how many wgmma, of which
//! kind) is compared when the block ends.

use super::bulk::swizzled;
use super::claims::{UNIT, Use};
use super::mma::{canonical, expanded, integer_sum, multiply, operand, sum_place, whole_warp};
use super::number::to_f32;
use super::regs::LANES;
use super::round::{f16_to_f32, f64_to_f16};
use super::warp::{WaitsFor, Warp};
use super::{Machine, Trouble};
use crate::error::FaultKind;
use crate::inst::*;
use crate::matrix::WgmmaA;

/// What a register of a sum under way is read as.
const POISON: u32 = 0xFFFF_DEAD;

/// The wgmma of a warpgroup: an operation is that of all four warps, begins when they have all come to it, and ends for all.
#[derive(Clone, Debug, Default)]
pub(super) struct Warpgroup {
    /// Committed groups of each warp.
    committed: [u32; 4],
    /// Units of shared memory that are claimed, and the group that reads them.
    reads: Vec<(u32, u32)>,
}

/// A matrix in shared memory, as its descriptor tells (PTX ISA, "Matrix Descriptor Format").
#[derive(Clone, Copy)]
struct Descriptor {
    start: usize,
    leading: usize,
    stride: usize,
    /// As tensor maps count: 0 is none, 3 is 128 bytes.
    swizzle: u32,
}

impl Descriptor {
    fn new(bits: u64) -> Result<Descriptor, FaultKind> {
        let field = |from: u32| ((bits >> from & 0x3fff) << 4) as usize;
        let swizzle = (4 - (bits >> 62) as u32) % 4;
        let rest = bits & !(0x3fff | 0x3fff << 16 | 0x3fff << 32 | 3 << 62);
        if rest != 0 {
            return Err(FaultKind::Asynchronous(format!(
                "the matrix descriptor {bits:#018x} has bits that are not modelled"
            )));
        }
        Ok(Descriptor { start: field(0), leading: field(16), stride: field(32), swizzle })
    }

    /// Shared address, before the swizzle, of the 16 bytes that begin with row `row`, unit `unit` along k.
    fn k_major(&self, row: usize, unit: usize) -> usize {
        let Descriptor { start, leading, stride, swizzle } = *self;
        match swizzle {
            // Eight rows of 16 bytes lie together.
            0 => start + row / 8 * stride + row % 8 * UNIT + unit * leading,
            _ => start + row / 8 * stride + row % 8 * (UNIT << swizzle) + unit * UNIT,
        }
    }

    /// The same of 16-bit elements that are neighbours along m or n: eight from `eight` on, at `k`.
    fn mn_major(&self, eight: usize, k: usize) -> usize {
        let Descriptor { start, leading, stride, swizzle } = *self;
        match swizzle {
            0 => start + eight * stride + k / 8 * leading + k % 8 * UNIT,
            _ => {
                let across = 1 << swizzle;
                start + eight / across * leading + k / 8 * stride + k % 8 * (UNIT << swizzle) + eight % across * UNIT
            }
        }
    }
}

impl Machine<'_> {
    pub(super) fn wgmma(&mut self, warp: &mut Warp, on: u32, inst: &Wgmma) -> Result<(), Trouble> {
        whole_warp(on, "wgmma")?;
        let Wgmma { n, k, types, accumulator, .. } = *inst;
        let trouble = |kind| Trouble::new(0, kind);
        let first_row = warp.index as usize % 4 * 16;
        let held = if inst.sparse.is_some() { k / 2 } else { k };
        let mut a: Vec<f32> = match &inst.a {
            WgmmaA::Registers(regs) => operand(warp, types[0], regs, 2, held),
            WgmmaA::Shared(slot) => {
                let a = self.uniform(warp, *slot)?;
                let by_k = self.shared_operand(warp, a, types[0], inst.mn_major[0], first_row..first_row + 16, held);
                let by_k = by_k.map_err(trouble)?;
                (0..16 * held).map(|i| by_k[i % held * 16 + i / held]).collect()
            }
        };
        if let Some(metadata) = inst.sparse {
            a = expanded(warp, metadata, &a, (k, types[0].bytes()))?;
        }
        let b = self.uniform(warp, inst.b)?;
        let b = self.shared_operand(warp, b, types[1], inst.mn_major[1], 0..n, k).map_err(trouble)?;
        if inst.negate[0] != inst.negate[1] {
            a.iter_mut().for_each(|x| *x = -*x);
        }
        let predicate = warp.regs.p[inst.add as usize];
        if predicate != 0 && predicate != u32::MAX {
            let message = "the threads of a wgmma disagree about scale-d".to_owned();
            return Err(Trouble::new(0, FaultKind::Convergence(message)));
        }
        let mut sums = vec![0.0; 16 * n];
        multiply(&mut sums, &a, &b, n, k);
        for (register, &slot) in inst.d.iter().enumerate().filter(|(_, slot)| **slot != NONE) {
            let mut row = match &warp.wgmma.sums[slot as usize] {
                Some((_, sum)) => **sum,
                None => *warp.regs.row::<u32>(slot),
            };
            for (lane, value) in row.iter_mut().enumerate() {
                let old = if predicate == 0 { 0 } else { *value };
                let sum = |pair, i| {
                    let (row, column) = sum_place(lane, pair, i);
                    sums[row * n + column]
                };
                *value = match accumulator {
                    Accumulator::F16 => [0, 1].into_iter().fold(0, |bits, i| {
                        let c = f64::from(f16_to_f32((old >> (16 * i)) as u16));
                        bits | u32::from(f64_to_f16(c + sum(register, i as usize), Round::Rn)) << (16 * i)
                    }),
                    Accumulator::S32 { saturates } => integer_sum(old, sum(register / 2, register % 2), saturates),
                    _ => canonical(f64::from(f32::from_bits(old)) + sum(register / 2, register % 2)),
                };
            }
            warp.wgmma.set(slot, Some((warp.wgmma.committed, Box::new(row))));
            *warp.regs.row_mut::<u32>(slot) = [POISON; LANES];
        }
        let (count, kinds) = &mut warp.wgmma.history;
        *count += 1;
        let selector = inst.sparse.map_or(0, |metadata| 1 + metadata.selector);
        *kinds = kinds.wrapping_mul(31).wrapping_add(((n * 512 + k) * 4) as u64 + u64::from(selector));
        Ok(())
    }

    pub(super) fn wgmma_commit(&mut self, warp: &mut Warp, on: u32) -> Result<(), Trouble> {
        whole_warp(on, "wgmma")?;
        warp.wgmma.committed += 1;
        let index = warp.index as usize;
        self.blocks[warp.rank].warpgroup(index).committed[index % 4] = warp.wgmma.committed;
        self.progress += 1;
        Ok(())
    }

    /// What is in a group before the newest `pending` ends: sums arrive, operands are free. False when other warps of the
    /// warpgroup have not come so far.
    pub(super) fn wgmma_wait(&mut self, warp: &mut Warp, on: u32, pending: u32) -> Result<bool, Trouble> {
        whole_warp(on, "wgmma")?;
        let newest = warp.wgmma.committed.saturating_sub(pending);
        let block = &mut self.blocks[warp.rank];
        if block.warpgroup(warp.index as usize).committed.iter().any(|&committed| committed < newest) {
            warp.waits_for = Some(WaitsFor::Warpgroup);
            return Ok(false);
        }
        for slot in 0..warp.wgmma.sums.len() {
            if warp.wgmma.sums[slot].as_ref().is_some_and(|&(group, _)| group < newest)
                && let Some((_, sum)) = warp.wgmma.sums[slot].take()
            {
                warp.wgmma.under_way -= 1;
                *warp.regs.row_mut::<u32>(slot as Slot) = *sum;
            }
        }
        let reads = std::mem::take(&mut block.warpgroup(warp.index as usize).reads);
        let (done, left): (Vec<_>, Vec<_>) = reads.into_iter().partition(|&(group, _)| group < newest);
        done.iter().for_each(|&(_, at)| block.claims.end(at as usize, UNIT, Use::Read));
        block.warpgroup(warp.index as usize).reads = left;
        self.progress += 1;
        Ok(true)
    }

    /// A descriptor, which must be the same in all threads.
    fn uniform(&self, warp: &Warp, slot: Slot) -> Result<Descriptor, Trouble> {
        let row = warp.regs.row::<u64>(slot);
        if let Some(lane) = row.iter().position(|&bits| bits != row[0]) {
            let message = "the threads of a wgmma have different descriptors".to_owned();
            return Err(Trouble::new(lane, FaultKind::Convergence(message)));
        }
        Descriptor::new(row[0]).map_err(|kind| Trouble::new(0, kind))
    }

    /// The rows `rows` (along m or n) of an operand, as `k` rows of them.
    fn shared_operand(
        &mut self,
        warp: &mut Warp,
        descriptor: Descriptor,
        element: Element,
        mn_major: bool,
        rows: std::ops::Range<usize>,
        k: usize,
    ) -> Result<Vec<f32>, FaultKind> {
        let (count, size) = (rows.len(), element.bytes());
        let per = UNIT / size;
        let mask = u32::MAX >> (32 - 8 * size);
        let value = |unit: &[u8; UNIT], i: usize| {
            let start = i * size;
            let bits = (0..size).rev().fold(0, |bits, byte| bits << 8 | u32::from(unit[start + byte]));
            to_f32(element, bits & mask)
        };
        let mut by_k = vec![0.0; count * k];
        if mn_major {
            for at in 0..k {
                for eight in 0..count / 8 {
                    let unit = self.wgmma_unit(warp, descriptor, descriptor.mn_major(rows.start / 8 + eight, at))?;
                    (0..8).for_each(|i| by_k[at * count + eight * 8 + i] = value(&unit, i));
                }
            }
        } else {
            for (row, place) in rows.enumerate() {
                for half in 0..k / per {
                    let unit = self.wgmma_unit(warp, descriptor, descriptor.k_major(place, half))?;
                    (0..per).for_each(|i| by_k[(half * per + i) * count + row] = value(&unit, i));
                }
            }
        }
        Ok(by_k)
    }

    fn wgmma_unit(&mut self, warp: &mut Warp, descriptor: Descriptor, address: usize) -> Result<[u8; UNIT], FaultKind> {
        let block = &mut self.blocks[warp.rank];
        // Descriptors have 18 bits of an address.
        let at = swizzled(block.place((address & 0x3ffff) as u64, UNIT)?, descriptor.swizzle);
        let unit = block.read_unit(at, &warp.threads())?;
        block.warpgroup(warp.index as usize).reads.push((warp.wgmma.committed, at as u32));
        Ok(unit)
    }

    /// Whether the warps of each warpgroup of block `rank` did the same.
    pub(super) fn compare_warpgroups(&self, warps: &[Warp], rank: usize) -> Option<FaultKind> {
        let of_block: Vec<&Warp> = warps.iter().filter(|warp| warp.rank == rank).collect();
        let differs = of_block.chunks(4).position(|four| {
            let history = four[0].wgmma.history;
            history.0 > 0 && four.len() < 4 || four.iter().any(|warp| warp.wgmma.history != history)
        })?;
        Some(FaultKind::Convergence(format!("the four warps of warpgroup {differs} did not execute the same wgmma")))
    }
}
