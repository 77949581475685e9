//! Which group of lanes runs when; barriers; deadlocks.

use super::step::Stop;
use super::warp::{Group, PATIENCE, State, Warp};
use super::{Block, Machine, Trouble};
use crate::error::{Fault, FaultKind};
use crate::inst::Op;

/// Instructions a group runs before others get a turn.
const SLICE: u64 = 4096;
/// The same when the order is random: short, so that threads interleave.
const SHORT_SLICE: u64 = 24;

impl Machine<'_> {
    pub(super) fn run_block(&mut self, block: &mut Block, warps: &mut [Warp]) -> Result<(), Box<Fault>> {
        loop {
            let count = warps.len();
            let start = self.draw() as usize % count;
            for turn in 0..count {
                let warp = &mut warps[(start + turn) % count];
                self.run_warp(block, warp)?;
            }
            if warps.iter().all(|w| w.groups.is_empty()) {
                return Ok(());
            }
            let released = self.release_barriers(block, warps)?;
            let ready = warps.iter().flat_map(|w| &w.groups).any(|g| g.state == State::Ready);
            if !released && !ready {
                return Err(self.deadlock(block, warps));
            }
        }
    }

    /// Some turns of a warp: until nothing is ready, or one slice where the order is random.
    fn run_warp(&mut self, block: &mut Block, warp: &mut Warp) -> Result<(), Box<Fault>> {
        for _ in 0..64 {
            let ready = warp.groups.iter().filter(|g| g.state == State::Ready).count();
            if ready == 0 {
                return Ok(());
            }
            let pick = self.draw() as usize % ready;
            let mut ready_groups = warp.groups.iter().enumerate().filter(|(_, g)| g.state == State::Ready);
            let Some(g) = ready_groups.nth(pick).map(|(g, _)| g) else { return Ok(()) };
            let budget = if self.random.is_some() { 1 + self.draw() % SHORT_SLICE } else { SLICE };
            let before = self.stats.warp_instructions;
            let outcome = self.run_group(block, warp, g, budget);
            warp.since_join += self.stats.warp_instructions - before;
            let stop = outcome.map_err(|(pc, trouble)| self.fault(block, warp.index, pc, trouble))?;
            if self.stats.warp_instructions > self.options.max_steps {
                let pc = warp.groups.first().map_or(0, |g| g.pc);
                let trouble = Trouble::new(0, FaultKind::Steps(self.options.max_steps));
                return Err(self.fault(block, warp.index, pc, trouble));
            }
            self.complete_syncs(warp);
            if warp.since_join > PATIENCE {
                warp.lose_patience();
            }
            if stop == Stop::Budget {
                if self.random.is_some() {
                    return Ok(());
                }
                // Another group's turn.
                warp.groups.rotate_left(1);
            }
        }
        Ok(())
    }

    /// Runs warp-wide instructions whose lanes have all come.
    fn complete_syncs(&mut self, warp: &mut Warp) {
        let code = &self.kernel.code;
        let mut at = 0;
        while at < warp.groups.len() {
            let Group { pc, state, .. } = warp.groups[at];
            at += 1;
            let State::Sync { members } = state else { continue };
            let Op::Collective { op, .. } = code[pc as usize].op else { continue };
            let same = |g: &Group| g.state == State::Sync { members } && g.pc == pc;
            let here = warp.groups.iter().filter(|g| same(g)).fold(0, |mask, g| mask | g.mask);
            if here != members & warp.alive {
                continue;
            }
            super::collective::collective(warp, here, op);
            for group in warp.groups.iter_mut().filter(|g| same(g)) {
                group.state = State::Ready;
                group.pc += 1;
            }
            merge(&mut warp.groups, pc + 1);
            at = 0;
        }
    }

    /// Lets go those who wait at a barrier to which all have come.
    fn release_barriers(&mut self, block: &Block, warps: &mut [Warp]) -> Result<bool, Box<Fault>> {
        let waiting = warps.iter().flat_map(|w| &w.groups).find_map(|g| match g.state {
            State::Barrier { id, count } => Some((id, count)),
            _ => None,
        });
        let Some(first) = waiting else { return Ok(false) };
        let alive: u32 = warps.iter().map(|w| w.alive.count_ones()).sum();
        let mut candidates = vec![first];
        for group in warps.iter().flat_map(|w| &w.groups) {
            if let State::Barrier { id, count } = group.state
                && !candidates.contains(&(id, count))
            {
                candidates.push((id, count));
            }
        }
        let mut released = false;
        for (id, count) in candidates {
            let here = |g: &Group| g.state == State::Barrier { id, count };
            let arrived: u32 =
                warps.iter().flat_map(|w| &w.groups).filter(|g| here(g)).map(|g| g.mask.count_ones()).sum();
            if arrived != if count == 0 { alive } else { count } {
                continue;
            }
            for warp in warps.iter_mut() {
                let mut places = warp.groups.iter().filter(|g| here(g)).map(|g| (g.pc, g.mask));
                if let Some((pc, _)) = places.next()
                    && let Some((other, mask)) = places.find(|&(p, _)| p != pc)
                {
                    let message = "threads of one warp wait at different barrier instructions".to_owned();
                    let trouble = Trouble::new(mask.trailing_zeros() as usize, FaultKind::Convergence(message));
                    return Err(self.fault(block, warp.index, other, trouble));
                }
                for group in warp.groups.iter_mut().filter(|g| here(g)) {
                    group.state = State::Ready;
                    group.pc += 1;
                }
                warp.since_join = 0;
            }
            self.epoch += 1;
            self.stats.barriers += 1;
            released = true;
        }
        Ok(released)
    }

    #[cold]
    fn deadlock(&self, block: &Block, warps: &[Warp]) -> Box<Fault> {
        let mut notes = Vec::new();
        let mut place = None;
        for warp in warps {
            let line = |pc: u32| self.kernel.code.get(pc as usize).map_or(0, |inst| inst.line);
            for group in &warp.groups {
                let what = match group.state {
                    State::Ready => continue,
                    State::Barrier { id, .. } => format!("at barrier {id}"),
                    State::Sync { members } => format!("for the lanes {members:#010x}"),
                };
                place.get_or_insert((warp.index, group.pc, group.mask));
                notes.push(format!("warp {}: {:#010x} in line {} {what}", warp.index, group.mask, line(group.pc)));
            }
            for (pc, mask) in warp.waiting_at_joins() {
                notes.push(format!("warp {}: {mask:#010x} where paths meet in line {}", warp.index, line(pc)));
            }
        }
        const SHOWN: usize = 6;
        let more = notes.len().saturating_sub(SHOWN);
        notes.truncate(SHOWN);
        let mut message = format!("all threads wait: {}", notes.join("; "));
        if more > 0 {
            message += &format!("; and {more} more");
        }
        let (warp, pc, mask) = place.unwrap_or((0, 0, 1));
        self.fault(block, warp, pc, Trouble::new(mask.trailing_zeros() as usize, FaultKind::Deadlock(message)))
    }
}

/// Makes groups at `pc` that go to the same join one.
fn merge(groups: &mut Vec<Group>, pc: u32) {
    let mut at = 0;
    while at < groups.len() {
        let Group { join, mask, .. } = groups[at];
        let same = |g: &Group| g.pc == pc && g.join == join && g.state == State::Ready;
        if same(&groups[at])
            && let Some(first) = groups[..at].iter().position(same)
        {
            groups[first].mask |= mask;
            groups.remove(at);
        } else {
            at += 1;
        }
    }
}
