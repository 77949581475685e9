//! Finds accesses of two threads to one byte, one of them a write, that nothing orders.
//!
//! Per byte the last write and the readers since are remembered with the time they happened: the block's barrier count,
//! and the warp's count of `bar.warp.sync`. Two accesses of one block are ordered when a barrier lies between them, two
//! of one warp also when a `bar.warp.sync` does (taken to be of the whole warp), two of different blocks never. Strong
//! accesses (atomics, relaxed, volatile) do not race with each other. Writing the value that is already there is not
//! reported as write after write: threads may agree on a value.

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

/// The history of a range of bytes.
#[derive(Clone, Debug)]
pub(crate) struct Shadow {
    cells: Vec<Cell>,
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
        Shadow { cells: vec![Cell::default(); bytes] }
    }

    pub(crate) fn access(&mut self, at: usize, bytes: usize, kind: Kind, actor: Actor) -> Result<(), Found> {
        for (byte, cell) in self.cells[at..at + bytes].iter_mut().enumerate() {
            let found = |what, access: Access| Found {
                what,
                thread: u32::from(access.thread),
                epoch: access.epoch,
                byte: at + byte,
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
