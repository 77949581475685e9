//! `cp.async`: copies of 4, 8 or 16 bytes to shared memory, each thread's in groups of its own.
//!
//! The source is read at the instruction, the destination filled when its thread waits for the group, the latest moment
//! there is; until then nobody may touch it (see `claims`).

use super::access::{lane_address, lanes};
use super::under_way::PendingCopy;
use super::warp::Warp;
use super::{Machine, Trouble};
use crate::error::FaultKind;
use crate::inst::*;

impl Machine<'_> {
    pub(super) fn copy_async(&mut self, warp: &mut Warp, on: u32, op: CopyAsync) -> Result<(), Trouble> {
        match op {
            CopyAsync::Copy { to, from, bytes, there } => {
                for lane in lanes(on) {
                    let there = if there == NONE { u32::from(bytes) } else { warp.regs.row::<u32>(there)[lane] };
                    let (to, from) = (self.own(warp, lane_address(warp, to, lane)), lane_address(warp, from, lane));
                    self.start_copy(warp, lane, to, from, [bytes.into(), there as usize])
                        .map_err(|kind| Trouble::new(lane, kind))?;
                }
                Ok(())
            }
            CopyAsync::Commit => {
                lanes(on).for_each(|lane| warp.copies.groups[lane] += 1);
                Ok(())
            }
            CopyAsync::Wait { pending } => {
                // Group `g` is under way while fewer than `pending` groups were committed after it.
                let newest = warp.copies.groups.map(|groups| groups.saturating_sub(pending));
                self.finish_copies(warp, on, |copy| copy.group < newest[usize::from(copy.lane)])
            }
            CopyAsync::WaitAll => self.finish_copies(warp, on, |_| true),
        }
    }

    fn start_copy(
        &mut self,
        warp: &mut Warp,
        lane: usize,
        to: u64,
        from: u64,
        [bytes, there]: [usize; 2],
    ) -> Result<(), FaultKind> {
        let misaligned = |space, address| Err(FaultKind::Misaligned { space, address, bytes: bytes as u32 });
        if there > bytes {
            return Err(FaultKind::Asynchronous(format!("cp.async of {bytes} bytes is to read {there}")));
        }
        if !to.is_multiple_of(bytes as u64) {
            return misaligned("shared", to);
        }
        if !from.is_multiple_of(bytes as u64) {
            return misaligned("global", from);
        }
        self.after_grid(warp.rank)?;
        let mut data = [0; 16];
        if there > 0 {
            data[..there].copy_from_slice(self.memory.load(from, there, false)?);
        }
        let block = &mut self.blocks[warp.rank];
        let at = block.place(to, bytes)?;
        block.begin_filling(at, bytes)?;
        let group = warp.copies.groups[lane];
        warp.copies.pending.push(PendingCopy { lane: lane as u8, bytes: bytes as u8, group, to: at as u32, data });
        Ok(())
    }

    /// Fills what the copies of the lanes `on` that are `done` were to fill.
    fn finish_copies(&mut self, warp: &mut Warp, on: u32, done: impl Fn(&PendingCopy) -> bool) -> Result<(), Trouble> {
        let pending = std::mem::take(&mut warp.copies.pending);
        let (landed, rest): (Vec<_>, Vec<_>) =
            pending.into_iter().partition(|copy| on >> copy.lane & 1 != 0 && done(copy));
        warp.copies.pending = rest;
        self.progress += landed.len() as u64;
        for PendingCopy { lane, bytes, to, data, .. } in landed {
            let (at, bytes, lane) = (to as usize, usize::from(bytes), usize::from(lane));
            let block = &mut self.blocks[warp.rank];
            block.fill(at, &data[..bytes]);
            // It is no copy of the asynchronous units: they know of it after a fence.
            block.stored(at, bytes, warp.threads().start + lane, self.progress);
            // To the others it is a write of this thread, now.
            self.shared_race(
                warp.rank,
                warp,
                lane,
                Strength::Weak,
                (at, bytes),
                crate::race::Kind::Write { changes: true },
            )
            .map_err(|kind| Trouble::new(lane, kind))?;
        }
        Ok(())
    }
}
