//! Barriers in shared memory (PTX ISA 9.7.13.15): phases that end when all arrivals and all announced bytes have come.
//!
//! Bulk copies bring bytes at the latest moment at which a program can notice: when somebody asks for the phase that they
//! complete, all else of it having come. What reads the destination without asking finds it unfilled (see `claims`). With
//! `RunOptions::late_copies` some questions are in vain first, so that who does not wait for a copy runs ahead of who does.

use std::collections::VecDeque;

use super::access::{lane_address, lanes};
use super::approx::mix;
use super::claims::UNIT;
use super::warp::{WaitsFor, Warp};
use super::{Machine, Trouble};
use crate::error::FaultKind;
use crate::inst::*;
use crate::kernel::SHARED_BASE;

/// Most arrivals of a phase, and bytes.
const MOST_COUNT: i64 = (1 << 20) - 1;

/// One of so many late copies is late by up to `MOST_QUESTIONS`: long enough for others to go through a ring of stages even where
/// turns are short. The rest differ a little.
const VERY_LATE_ONE_OF: u64 = 8;
const MOST_QUESTIONS: u64 = 1024;
const FEW_QUESTIONS: u64 = 6;

/// Where each unit of a copy goes, from the start of shared memory.
pub(super) type Units = Vec<(u32, [u8; UNIT])>;

/// A copy that is under way.
#[derive(Clone, Debug)]
struct Landing {
    units: Units,
    /// Questions that are still to find it under way.
    late: u64,
}

/// A barrier.
#[derive(Clone, Debug)]
pub(super) struct Barrier {
    /// Arrivals of a phase.
    count: u32,
    /// Those that are still to come.
    pending: u32,
    /// Bytes that were announced and have not come.
    bytes: i64,
    /// Phases that have ended.
    phases: u32,
    copies: VecDeque<Landing>,
}

impl Barrier {
    /// What this phase still waits for.
    pub(super) fn missing(&self) -> String {
        let Barrier { count, pending, bytes, copies, .. } = self;
        format!("{pending} of {count} arrivals and {bytes} bytes to come, {} copies under way", copies.len())
    }

    /// Whether it ended.
    fn end_phase_if_complete(&mut self) -> bool {
        let complete = self.pending == 0 && self.bytes == 0;
        if complete {
            self.phases += 1;
            self.pending = self.count;
        }
        complete
    }

    /// The copy that alone keeps the phase of `parity` from ending, or the first of several.
    fn awaited(&mut self, parity: u32) -> Option<&mut Landing> {
        let awaited = self.phases & 1 == parity && self.pending == 0 && self.bytes > 0;
        self.copies.front_mut().filter(|_| awaited)
    }

    pub(super) fn copies_left(&self) -> usize {
        self.copies.len()
    }
}

fn broken(what: String) -> FaultKind {
    FaultKind::Asynchronous(what)
}

impl Machine<'_> {
    /// One lane after the other; true when a lane asked for a phase that has not ended.
    pub(super) fn mbarrier(&mut self, warp: &mut Warp, on: u32, op: Mbarrier) -> Result<bool, Trouble> {
        let mut waits = false;
        for lane in lanes(on) {
            waits |= self.one(warp, lane, op).map_err(|kind| Trouble::new(lane, kind))?;
        }
        if let Mbarrier::Test { at, parity, .. } = op
            && waits
            && self.late.is_some()
        {
            self.hasten(warp, on, at, parity);
        }
        Ok(waits)
    }

    /// Lanes that asked in vain bring late copies nearer: by one question for each barrier, so that all lanes hear the same.
    fn hasten(&mut self, warp: &Warp, on: u32, at: Address, parity: Slot) {
        let mut asked = Vec::new();
        for lane in lanes(on) {
            let question = (self.own(warp, lane_address(warp, at, lane)) as u32, warp.regs.row::<u32>(parity)[lane]);
            if asked.contains(&question) {
                continue;
            }
            asked.push(question);
            let (at, parity) = question;
            let barrier = self.blocks[warp.rank].barriers.get_mut(&at);
            if let Some(copy) = barrier.and_then(|barrier| barrier.awaited(parity)).filter(|copy| copy.late > 0) {
                copy.late -= 1;
                self.progress += 1;
            }
        }
    }

    /// Questions that the next copy is late by.
    fn lateness(&mut self) -> u64 {
        let Some(state) = &mut self.late else { return 0 };
        *state = state.wrapping_add(1);
        let bits = mix(*state);
        let most = if bits.is_multiple_of(VERY_LATE_ONE_OF) { MOST_QUESTIONS } else { FEW_QUESTIONS };
        (bits >> 32) % (most + 1)
    }

    fn one(&mut self, warp: &mut Warp, lane: usize, op: Mbarrier) -> Result<bool, FaultKind> {
        let word = |warp: &Warp, slot: Slot| warp.regs.row::<u32>(slot)[lane];
        match op {
            Mbarrier::Init { at, count } => {
                let (at, count) = (self.own(warp, lane_address(warp, at, lane)), word(warp, count));
                if count == 0 || i64::from(count) > MOST_COUNT {
                    return Err(broken(format!("a barrier of {count} arrivals")));
                }
                let block = &mut self.blocks[warp.rank];
                if block.barriers.contains_key(&(at as u32)) {
                    return Err(broken(format!("the barrier at {at:#x} is initialised again without mbarrier.inval")));
                }
                // Bits that only barriers' own instructions may make sense of.
                self.write(warp, lane, (Space::Shared, Strength::Weak), at, &[0xBA; 8])?;
                let barrier = Barrier { count, pending: count, bytes: 0, phases: 0, copies: VecDeque::new() };
                self.blocks[warp.rank].barriers.insert(at as u32, barrier);
            }
            Mbarrier::Invalidate { at } => {
                let at = self.own(warp, lane_address(warp, at, lane));
                self.barrier(warp.rank, at)?;
                self.blocks[warp.rank].barriers.remove(&(at as u32));
            }
            Mbarrier::Arrive { at, remote, count, bytes, d } => {
                let count = if count == NONE { 1 } else { word(warp, count) };
                let bytes = if bytes == NONE { 0 } else { word(warp, bytes) };
                let (rank, at) = self.barrier_address(warp, lane_address(warp, at, lane), remote)?;
                let barrier = self.barrier(rank, at)?;
                barrier.bytes += i64::from(bytes);
                if barrier.pending < count {
                    return Err(broken(format!(
                        "{count} arrivals too many at the barrier at {at:#x}: {}",
                        barrier.missing()
                    )));
                }
                barrier.pending -= count;
                self.woken |= barrier.end_phase_if_complete();
                if d != NONE {
                    warp.regs.row_mut::<u64>(d)[lane] = 0xBABA_BABA_BABA_BABA;
                }
                self.progress += 1;
            }
            Mbarrier::ExpectBytes { at, remote, bytes } => {
                let bytes = word(warp, bytes);
                let (rank, at) = self.barrier_address(warp, lane_address(warp, at, lane), remote)?;
                self.barrier(rank, at)?.bytes += i64::from(bytes);
                self.progress += 1;
            }
            Mbarrier::Test { d, at, parity } => {
                let (at, parity) = (self.own(warp, lane_address(warp, at, lane)), word(warp, parity));
                if parity > 1 {
                    return Err(broken(format!("a phase of parity {parity}")));
                }
                let ended = self.phase_ended(warp.rank, at, parity)?;
                if d != NONE {
                    warp.regs.set(Class::Pred, d, lane, u64::from(ended));
                }
                if !ended {
                    warp.waits_for = Some(WaitsFor::Phase(at as u32, parity));
                }
                return Ok(!ended);
            }
        }
        Ok(false)
    }

    /// The block and the address within it of a barrier.
    fn barrier_address(&self, warp: &Warp, address: u64, remote: bool) -> Result<(usize, u64), FaultKind> {
        if remote { self.in_cluster(warp, address) } else { Ok((warp.rank, self.own(warp, address))) }
    }

    fn barrier(&mut self, rank: usize, at: u64) -> Result<&mut Barrier, FaultKind> {
        let known = u32::try_from(at).ok().and_then(|at| self.blocks[rank].barriers.get_mut(&at));
        known.ok_or_else(|| broken(format!("there is no initialised barrier at {at:#x}")))
    }

    fn phase_ended(&mut self, rank: usize, at: u64, parity: u32) -> Result<bool, FaultKind> {
        let barrier = self.barrier(rank, at)?;
        let mut landed = Vec::new();
        if barrier.phases & 1 == parity && barrier.pending == 0 {
            while barrier.awaited(parity).is_some_and(|copy| copy.late == 0)
                && let Some(copy) = barrier.copies.pop_front()
            {
                barrier.bytes -= (copy.units.len() * UNIT) as i64;
                landed.push(copy);
            }
            if barrier.bytes < 0 {
                return Err(broken(format!(
                    "more bytes than announced at the barrier at {at:#x}: {}",
                    barrier.missing()
                )));
            }
            barrier.end_phase_if_complete();
        }
        let ended = barrier.phases & 1 != parity;
        self.progress += landed.len() as u64;
        let block = &mut self.blocks[rank];
        for (to, unit) in landed.iter().flat_map(|copy| &copy.units) {
            block.fill(*to as usize, unit);
        }
        Ok(ended)
    }

    /// A copy that will complete on the barrier at `at` of block `rank`.
    pub(super) fn land_on(&mut self, rank: usize, at: u64, units: Units) -> Result<(), FaultKind> {
        self.barrier(rank, at)?;
        for &(to, _) in &units {
            self.blocks[rank].begin_filling(to as usize, UNIT)?;
        }
        let late = self.lateness();
        self.barrier(rank, at)?.copies.push_back(Landing { units, late });
        self.progress += 1;
        Ok(())
    }

    /// What is wrong when the threads of block `rank` are gone.
    pub(super) fn left_behind(&self, rank: usize) -> Option<FaultKind> {
        let block = &self.blocks[rank];
        let copies = block.barriers.iter().find(|(_, barrier)| barrier.copies_left() > 0);
        if let Some((at, barrier)) = copies {
            return Some(broken(format!("the block ends while its barrier at {at:#x} has {}", barrier.missing())));
        }
        let what = block.claims.left()?;
        Some(broken(format!("the block ends before it waited for {what} its shared memory (from {SHARED_BASE:#x} on)")))
    }
}
