//! Finds accesses of two threads to one byte, one of them a write, that nothing orders.
//!
//! Per byte the last write and the readers since are remembered with the time they happened: the block's barrier count,
//! and the warp's count of `bar.warp.sync`. Bytes that every access so far took together share one memory.
//!
//! Two accesses of one block are ordered when a barrier lies between them, two of one warp also when a `bar.warp.sync` does
//! (taken to be of the whole warp), two of different blocks never. Strong accesses (atomics, relaxed, volatile) do not race
//! with each other. Writing the value that is already there is not reported as write after write: threads may agree on a value.

/// Who accesses, and when.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Actor {
    /// Count of barriers over all blocks of the launch, from 1.
    pub(crate) epoch: u32,
    /// First epoch of the block.
    pub(crate) block_epoch: u32,
    /// Count of warp barriers of the thread's warp.
    pub(crate) sync: u32,
    /// Thread in the block.
    pub(crate) thread: u32,
    pub(crate) strong: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Access {
    epoch: u32,
    sync: u32,
    thread: u16,
    strong: bool,
    /// More threads than this one: of its warp, of its block in this epoch, of other blocks.
    warp: bool,
    block: bool,
    foreign: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    write: Access,
    read: Access,
}

/// Kinds of accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Read,
    /// Whether the value changes.
    Write {
        changes: bool,
    },
}

/// What was found: what, the other thread, an epoch of its block, and which byte.
pub(crate) struct Found {
    pub(crate) what: &'static str,
    pub(crate) thread: u32,
    pub(crate) epoch: u32,
    pub(crate) byte: usize,
}

/// Widest access of a thread, in bytes; all are powers of two, at multiples of themselves.
const WIDEST: usize = 16;

/// The history of a range of bytes.
#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    cells: Vec<Cell>,
    /// Bytes of a cell, a power of two: no access so far began or ended within one.
    grain: usize,
}

impl Access {
    fn of(actor: Actor) -> Access {
        let Actor { epoch, sync, thread, strong, .. } = actor;
        Access { epoch, sync, thread: thread as u16, strong, ..Access::default() }
    }

    /// Whether `actor` comes after this access without anything in between.
    fn unordered(&self, actor: Actor) -> bool {
        if self.epoch == 0 || (self.strong && actor.strong) {
            return false;
        }
        if self.epoch < actor.block_epoch || self.foreign {
            return true;
        }
        if self.epoch != actor.epoch {
            return false;
        }
        let other_warp = u32::from(self.thread) / 32 != actor.thread / 32;
        let same_thread = u32::from(self.thread) == actor.thread && !self.warp;
        self.block || other_warp || (!same_thread && self.sync == actor.sync)
    }
}

impl Shadow {
    pub(crate) fn new(bytes: usize) -> Shadow {
        Shadow { cells: vec![Cell::default(); bytes.div_ceil(WIDEST)], grain: WIDEST }
    }

    /// Forgets all accesses.
    pub(crate) fn clear(&mut self) {
        self.cells.fill(Cell::default());
    }

    pub(crate) fn access(&mut self, at: usize, bytes: usize, kind: Kind, actor: Actor) -> Result<(), Found> {
        if !(at | bytes).is_multiple_of(self.grain) {
            self.divide(1 << (at | bytes).trailing_zeros());
        }
        let grain = self.grain;
        for (index, cell) in self.cells[at / grain..(at + bytes) / grain].iter_mut().enumerate() {
            let found = |what, access: Access| Found {
                what,
                thread: u32::from(access.thread),
                epoch: access.epoch,
                byte: at + index * grain,
            };
            match kind {
                Kind::Read => {
                    if cell.write.unordered(actor) {
                        return Err(found("read after write", cell.write));
                    }
                    cell.read = cell.read.and(actor);
                }
                Kind::Write { changes } => {
                    if changes && cell.write.unordered(actor) {
                        return Err(found("write after write", cell.write));
                    }
                    if changes && cell.read.unordered(actor) {
                        return Err(found("write after read", cell.read));
                    }
                    let mut new = Access::of(actor);
                    // A weak write stays one when its own thread writes strongly after it.
                    let before = cell.write;
                    if before.epoch == new.epoch && before.thread == new.thread && before.sync == new.sync {
                        new.strong &= before.strong;
                    }
                    cell.write = new;
                }
            }
        }
        Ok(())
    }

    /// Remembers `grain` bytes at a time from now on, a part of those of before.
    #[cold]
    fn divide(&mut self, grain: usize) {
        let parts = self.grain / grain;
        self.cells = self.cells.iter().flat_map(|cell| std::iter::repeat_n(*cell, parts)).collect();
        self.grain = grain;
    }
}

impl Access {
    /// The readers so far and one more.
    fn and(self, actor: Actor) -> Access {
        let mut new = Access::of(actor);
        if self.epoch == 0 {
            return new;
        }
        new.foreign = self.foreign || self.epoch < actor.block_epoch;
        if new.foreign || (self.epoch == actor.epoch && self.sync == actor.sync) {
            new.strong &= self.strong;
        }
        if self.epoch == actor.epoch {
            let same_warp = u32::from(self.thread) / 32 == actor.thread / 32;
            new.block = self.block || !same_warp;
            new.warp = self.warp && self.sync == actor.sync
                || (same_warp && self.thread != new.thread && self.sync == actor.sync);
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn thread(thread: u32) -> Actor {
        Actor { epoch: 1, block_epoch: 1, sync: 0, thread, strong: false }
    }

    const WRITE: Kind = Kind::Write { changes: true };

    #[test]
    fn histories_of_wide_accesses_are_those_of_their_bytes() {
        // What one shadow finds, asked byte by byte, another finds whole: for each width after each.
        for before in [1, 2, 4, 8, 16] {
            for after in [1, 2, 4, 8, 16] {
                for at in (0..48).step_by(after) {
                    let mut shadow = Shadow::new(48);
                    shadow.access(16, before, WRITE, thread(0)).ok().unwrap();
                    shadow.access(32, before, Kind::Read, thread(1)).ok().unwrap();
                    let found = shadow.access(at, after, WRITE, thread(2)).err().map(|found| (found.what, found.byte));
                    let hit = |start: usize| at < start + before && start < at + after;
                    let expected = match () {
                        () if hit(16) => Some(("write after write", at.max(16))),
                        () if hit(32) => Some(("write after read", at.max(32))),
                        () => None,
                    };
                    assert_eq!(found, expected, "{before} bytes, then {after} at {at}");
                }
            }
        }
    }

    #[test]
    fn a_cleared_history_is_empty() {
        let mut shadow = Shadow::new(5);
        shadow.access(4, 1, WRITE, thread(0)).ok().unwrap();
        assert!(shadow.access(4, 1, WRITE, thread(1)).is_err());
        shadow.clear();
        assert!(shadow.access(4, 1, WRITE, thread(2)).is_ok());
    }
}
