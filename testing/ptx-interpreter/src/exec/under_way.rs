//! What a warp has under way while it goes on: copies, bulk stores, wgmma. The files of these instructions work on it.

use std::collections::VecDeque;

use super::regs::LANES;
use crate::inst::Slot;

/// One thread's copy.
#[derive(Clone, Copy, Debug)]
pub(super) struct PendingCopy {
    pub(super) lane: u8,
    pub(super) bytes: u8,
    /// The thread's groups that were committed before.
    pub(super) group: u32,
    pub(super) to: u32,
    pub(super) data: [u8; 16],
}

/// The copies of a warp.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies {
    pub(super) pending: Vec<PendingCopy>,
    /// Committed groups of each lane.
    pub(super) groups: [u32; 32],
}

/// The stores of one thread that belong together.
#[derive(Clone, Debug, Default)]
pub(super) struct Stores {
    /// Units of shared memory that are claimed.
    pub(super) reads: Vec<u32>,
    pub(super) writes: Vec<(u64, Vec<u8>)>,
}

/// The stores of one thread: its committed groups, and the one that is open.
#[derive(Clone, Debug, Default)]
pub(super) struct StoreGroups {
    pub(super) committed: VecDeque<Stores>,
    pub(super) open: Stores,
}

/// The wgmma of a warp.
#[derive(Clone, Debug, Default)]
pub(super) struct PendingWgmma {
    /// Committed groups.
    pub(super) committed: u32,
    /// Per row of 32-bit registers the sum that will come, and its group.
    pub(super) sums: Vec<Option<(u32, Box<[u32; LANES]>)>>,
    pub(super) under_way: usize,
    /// Count and kinds of all so far, to be compared between the warps of a warpgroup.
    pub(super) history: (u64, u64),
}

impl PendingWgmma {
    pub(super) fn reset(&mut self, rows: u32) {
        *self = PendingWgmma { sums: vec![None; rows as usize], ..PendingWgmma::default() };
    }

    /// `mov` of one 32-bit register to another.
    #[inline]
    pub(super) fn moved(&mut self, d: Slot, a: Slot) {
        if self.under_way > 0 {
            self.set(d, self.sums[a as usize].clone());
        }
    }

    pub(super) fn set(&mut self, slot: Slot, sum: Option<(u32, Box<[u32; LANES]>)>) {
        let old = &mut self.sums[slot as usize];
        self.under_way = self.under_way + usize::from(sum.is_some()) - usize::from(old.is_some());
        *old = sum;
    }
}
