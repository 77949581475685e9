//! Which group of lanes runs when; barriers; deadlocks.

use super::step::Stop;
use super::warp::{Group, PATIENCE, State, WaitsFor, Warp};
use super::{Machine, Trouble};
use crate::error::{Fault, FaultKind};
use crate::inst::{Op, Slot};

/// Instructions a group runs before others get a turn.
const SLICE: u64 = 4096;
/// The same when the order is random: short, so that threads interleave.
const SHORT_SLICE: u64 = 24;
/// Rounds in which everybody asks in vain, after which that will not change.
const IDLE_ROUNDS: u32 = 16;

impl Machine<'_> {
    pub(super) fn run_cluster(&mut self, warps: &mut [Warp]) -> Result<(), Box<Fault>> {
        let mut idle_rounds = 0;
        loop {
            let count = warps.len();
            let start = self.draw() as usize % count;
            let before = self.progress;
            let mut worked = false;
            for turn in 0..count {
                worked |= self.run_warp(&mut warps[(start + turn) % count])?;
                // Whoever gives memory back too early meets at once those who waited to fill it again.
                if std::mem::take(&mut self.woken) {
                    for waiting in warps.iter_mut().filter(|warp| warp.asks) {
                        worked |= self.run_warp(waiting)?;
                    }
                }
            }
            for rank in 0..self.blocks.len() {
                let mut of_block = warps.iter().filter(|warp| warp.rank == rank);
                if !self.blocks[rank].ended && of_block.all(|warp| warp.groups.is_empty()) {
                    self.end_block(rank, warps)?;
                }
                worked |= self.release_barriers(rank, warps)?;
            }
            if warps.iter().all(|w| w.groups.is_empty()) {
                return Ok(());
            }
            worked |= self.release_cluster(warps);
            if worked || self.progress > before {
                idle_rounds = 0;
                continue;
            }
            // Who asks for a phase in vain may ask for others before it comes back to this one.
            let asks = warps.iter().flat_map(|w| &w.groups).any(|g| g.state == State::Ready);
            idle_rounds += 1;
            if asks && idle_rounds <= IDLE_ROUNDS {
                continue;
            }
            // Lanes that are asked for in a loop may be those that wait where paths meet.
            let mut released = false;
            if asks {
                warps.iter_mut().for_each(|warp| released |= warp.lose_patience());
            }
            if !released {
                return Err(self.deadlock(warps));
            }
            idle_rounds = 0;
        }
    }

    /// The last thread of a block is gone.
    fn end_block(&mut self, rank: usize, warps: &mut [Warp]) -> Result<(), Box<Fault>> {
        self.blocks[rank].ended = true;
        self.progress += 1;
        for warp in warps.iter_mut().filter(|warp| warp.rank == rank) {
            let done = self.finish_stores(warp);
            done.map_err(|trouble| self.fault(warp, u32::MAX, trouble))?;
        }
        let wrong = self.left_behind(rank).or_else(|| self.compare_warpgroups(warps, rank));
        match (wrong, warps.iter().find(|warp| warp.rank == rank)) {
            (Some(kind), Some(warp)) => Err(self.fault(warp, u32::MAX, Trouble::new(0, kind))),
            _ => Ok(()),
        }
    }

    /// Some turns of a warp: until nothing is ready but to ask in vain, or one slice where the order is random. Whether it
    /// did anything else.
    fn run_warp(&mut self, warp: &mut Warp) -> Result<bool, Box<Fault>> {
        warp.asks = false;
        let mut worked = false;
        let mut asked = 0;
        for _ in 0..64 {
            let ready = warp.groups.iter().filter(|g| g.state == State::Ready).count();
            if ready == 0 || asked >= ready {
                return Ok(worked);
            }
            let pick = self.draw() as usize % ready;
            let mut ready_groups = warp.groups.iter().enumerate().filter(|(_, g)| g.state == State::Ready);
            let Some(g) = ready_groups.nth(pick).map(|(g, _)| g) else { return Ok(worked) };
            let budget = if self.random.is_some() { 1 + self.draw() % SHORT_SLICE } else { SLICE };
            let before = self.stats.warp_instructions;
            let outcome = self.run_group(warp, g, budget);
            warp.since_join += self.stats.warp_instructions - before;
            let stop = outcome.map_err(|(pc, trouble)| self.fault(warp, pc, trouble))?;
            if self.stats.warp_instructions > self.options.max_steps {
                let pc = warp.groups.first().map_or(0, |g| g.pc);
                let trouble = Trouble::new(0, FaultKind::Steps(self.options.max_steps));
                return Err(self.fault(warp, pc, trouble));
            }
            self.complete_syncs(warp);
            // Where threads wait at barriers in shared memory, they may wait long for good reason.
            if warp.since_join > PATIENCE && !self.kernel.uses_async {
                warp.lose_patience();
            }
            worked |= stop != Stop::Asked;
            asked += usize::from(stop == Stop::Asked);
            warp.asks |= stop == Stop::Asked;
            if stop != Stop::Changed {
                if self.random.is_some() || stop == Stop::Arrived {
                    return Ok(worked);
                }
                // Another group's turn.
                warp.groups.rotate_left(1);
            }
        }
        Ok(worked)
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

    /// `bar.arrive`: counted at a barrier that others wait for.
    pub(super) fn arrive(&mut self, warp: &Warp, on: u32, id: Slot, count: Slot) -> Result<(), Trouble> {
        let lane = on.trailing_zeros() as usize;
        let (id, count) = (warp.regs.row::<u32>(id)[lane], warp.regs.row::<u32>(count)[lane]);
        let arrived = &mut self.blocks[warp.rank].arrived;
        let at = arrived.iter().position(|&(of, wanted, _)| (of, wanted) == (id, count));
        let at = at.unwrap_or_else(|| {
            arrived.push((id, count, 0));
            arrived.len() - 1
        });
        arrived[at].2 += on.count_ones();
        self.progress += 1;
        if arrived[at].2 > count {
            let message = format!("more than {count} threads have arrived at barrier {id}");
            return Err(Trouble::new(lane, FaultKind::Convergence(message)));
        }
        Ok(())
    }

    /// Lets go those of block `rank` who wait at a barrier to which all have come.
    fn release_barriers(&mut self, rank: usize, warps: &mut [Warp]) -> Result<bool, Box<Fault>> {
        let mut candidates: Vec<(u32, u32)> = Vec::new();
        for group in warps.iter().filter(|w| w.rank == rank).flat_map(|w| &w.groups) {
            if let State::Barrier { id, count } = group.state
                && !candidates.contains(&(id, count))
            {
                candidates.push((id, count));
            }
        }
        // A barrier to which threads only arrive, all of them, ends as well.
        self.blocks[rank].arrived.retain(|&(_, count, arrived)| arrived < count);
        if candidates.is_empty() {
            return Ok(false);
        }
        let alive: u32 = warps.iter().filter(|w| w.rank == rank).map(|w| w.alive.count_ones()).sum();
        let mut released = false;
        for (id, count) in candidates {
            let here = |g: &Group| g.state == State::Barrier { id, count };
            let waiting = warps.iter().filter(|w| w.rank == rank).flat_map(|w| &w.groups).filter(|g| here(g));
            let gone_on = self.blocks[rank].arrived.iter().find(|&&(of, wanted, _)| (of, wanted) == (id, count));
            let arrived = waiting.map(|g| g.mask.count_ones()).sum::<u32>() + gone_on.map_or(0, |&(.., n)| n);
            if arrived != if count == 0 { alive } else { count } {
                continue;
            }
            self.blocks[rank].arrived.retain(|&(of, wanted, _)| (of, wanted) != (id, count));
            for warp in warps.iter_mut().filter(|w| w.rank == rank) {
                let mut places = warp.groups.iter().filter(|g| here(g)).map(|g| (g.pc, g.mask));
                if let Some((pc, _)) = places.next()
                    && let Some((other, mask)) = places.find(|&(p, _)| p != pc)
                {
                    let message = "threads of one warp wait at different barrier instructions".to_owned();
                    let trouble = Trouble::new(mask.trailing_zeros() as usize, FaultKind::Convergence(message));
                    return Err(self.fault(warp, other, trouble));
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
    fn deadlock(&self, warps: &[Warp]) -> Box<Fault> {
        let mut notes = Vec::new();
        let mut place = None;
        let several = self.blocks.len() > 1;
        for warp in warps {
            let line = |pc: u32| self.kernel.code.get(pc as usize).map_or(0, |inst| inst.line);
            let who = if several {
                format!("block {} warp {}", warp.rank, warp.index)
            } else {
                format!("warp {}", warp.index)
            };
            for group in &warp.groups {
                let what = match group.state {
                    State::Ready => match warp.waits_for {
                        Some(WaitsFor::Phase(at, parity)) => {
                            let barrier = self.blocks[warp.rank].barriers.get(&at);
                            let missing = barrier.map_or(String::new(), |barrier| barrier.missing());
                            format!("for a phase of parity {parity} of the barrier at {at:#x}, which has {missing}")
                        }
                        Some(WaitsFor::Warpgroup) => {
                            "for the other warps of its warpgroup to commit their wgmma".to_owned()
                        }
                        None => continue,
                    },
                    State::Barrier { id, .. } => format!("at barrier {id}"),
                    State::Sync { members } => format!("for the lanes {members:#010x}"),
                    State::Cluster => "at the cluster's barrier".to_owned(),
                };
                place.get_or_insert((warp, group.pc, group.mask));
                notes.push(format!("{who}: {:#010x} in line {} {what}", group.mask, line(group.pc)));
            }
            for (pc, mask) in warp.waiting_at_joins() {
                notes.push(format!("{who}: {mask:#010x} where paths meet in line {}", line(pc)));
            }
        }
        const SHOWN: usize = 12;
        let more = notes.len().saturating_sub(SHOWN);
        notes.truncate(SHOWN);
        let mut message = format!("all threads wait: {}", notes.join("; "));
        if more > 0 {
            message += &format!("; and {more} more");
        }
        let (warp, pc, mask) = place.unwrap_or((&warps[0], 0, 1));
        self.fault(warp, pc, Trouble::new(mask.trailing_zeros() as usize, FaultKind::Deadlock(message)))
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
