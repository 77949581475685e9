//! The lanes of a warp: which run together, which wait, and where they meet.
//!
//! Lanes at one place with one history form a group and run in lockstep. A branch that some take and some do not splits
//! a group; the parts meet again at the branch's join (see `flow`), where the early ones wait. They do not wait for
//! ever: when the others have run [`PATIENCE`] instructions, the early ones go on alone, as hardware with independent
//! thread scheduling lets them, so that a lane may spin until another releases it.

use super::regs::Regs;
use super::under_way::{Copies, PendingWgmma, StoreGroups};
use crate::inst::NONE;

/// Warp instructions after which a join lets go.
pub(super) const PATIENCE: u64 = 100_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Ready,
    /// At a barrier of the block: its number, and the count of threads it waits for (0: all).
    Barrier {
        id: u32,
        count: u32,
    },
    /// At a warp-wide instruction, for the lanes of a mask.
    Sync {
        members: u32,
    },
    /// At the cluster's barrier.
    Cluster,
}

/// What a thread asks for again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum WaitsFor {
    /// The phase of this parity of the barrier at this address.
    Phase(u32, u32),
    /// The other warps of its warpgroup.
    Warpgroup,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Group {
    pub(super) pc: u32,
    pub(super) mask: u32,
    /// The innermost join these lanes go to.
    pub(super) join: u32,
    pub(super) state: State,
}

#[derive(Clone, Copy, Debug)]
struct Join {
    pc: u32,
    /// Lanes that will come; none when the entry is free.
    expected: u32,
    arrived: u32,
    parent: u32,
}

#[derive(Clone, Debug)]
pub(super) struct Warp {
    /// Number in the block.
    pub(super) index: u32,
    /// The block's number in its cluster.
    pub(super) rank: usize,
    pub(super) regs: Regs,
    /// Local memory of all lanes, one after the other.
    pub(super) local: Vec<u8>,
    pub(super) groups: Vec<Group>,
    joins: Vec<Join>,
    /// Lanes that have not exited.
    pub(super) alive: u32,
    /// Count of warp barriers.
    pub(super) sync: u32,
    /// Instructions since a join was last reached or released.
    pub(super) since_join: u64,
    pub(super) copies: Copies,
    /// Bulk stores of each lane.
    pub(super) stores: Vec<StoreGroups>,
    pub(super) wgmma: PendingWgmma,
    /// What somebody last asked for in vain.
    pub(super) waits_for: Option<WaitsFor>,
    /// Its last turn ended with that.
    pub(super) asks: bool,
    /// Lanes that have arrived at the cluster's barrier, and its phase then.
    pub(super) at_cluster: u32,
    pub(super) cluster_phase: u32,
}

impl Warp {
    pub(super) fn new(index: u32, rank: usize, rows: [u32; 4], local_bytes: u32) -> Warp {
        Warp {
            index,
            rank,
            regs: Regs::new(rows),
            local: vec![0; local_bytes as usize * 32],
            groups: Vec::new(),
            joins: Vec::new(),
            alive: 0,
            sync: 0,
            since_join: 0,
            copies: Copies::default(),
            stores: vec![StoreGroups::default(); 32],
            wgmma: PendingWgmma::default(),
            waits_for: None,
            asks: false,
            at_cluster: 0,
            cluster_phase: 0,
        }
    }

    /// Its threads' numbers in the block.
    pub(super) fn threads(&self) -> std::ops::Range<usize> {
        let first = self.index as usize * 32;
        first..first + 32
    }

    /// Starts the lanes in `mask` at the first instruction.
    pub(super) fn start(&mut self, mask: u32) {
        self.alive = mask;
        self.copies = Copies::default();
        self.stores.fill(StoreGroups::default());
        self.wgmma.reset(self.regs.words());
        (self.waits_for, self.asks, self.at_cluster, self.cluster_phase) = (None, false, 0, 0);
        self.joins.clear();
        self.since_join = 0;
        self.groups.clear();
        self.groups.push(Group { pc: 0, mask, join: NONE, state: State::Ready });
    }

    /// Group `g` splits: `taken` goes to `target`, the rest to `next`; they meet at `join`.
    pub(super) fn split(&mut self, g: usize, taken: u32, target: u32, next: u32, join: u32) {
        let group = self.groups[g];
        let meet = if join == NONE || (group.join != NONE && self.joins[group.join as usize].pc == join) {
            group.join
        } else {
            self.new_join(Join { pc: join, expected: group.mask, arrived: 0, parent: group.join })
        };
        self.groups[g] = Group { pc: next, mask: group.mask & !taken, join: meet, state: State::Ready };
        self.groups.push(Group { pc: target, mask: taken, join: meet, state: State::Ready });
    }

    fn new_join(&mut self, join: Join) -> u32 {
        match self.joins.iter().position(|j| j.expected == 0) {
            Some(free) => {
                self.joins[free] = join;
                free as u32
            }
            None => {
                self.joins.push(join);
                self.joins.len() as u32 - 1
            }
        }
    }

    /// Group `g` is at the join instruction `pc`. True when it waits there (the group is gone), false when it runs on.
    pub(super) fn arrive(&mut self, g: usize, pc: u32) -> bool {
        let group = self.groups[g];
        if group.join == NONE || self.joins[group.join as usize].pc != pc {
            return false;
        }
        self.since_join = 0;
        self.joins[group.join as usize].arrived |= group.mask;
        self.groups.swap_remove(g);
        self.release_if_complete(group.join as usize);
        true
    }

    fn release_if_complete(&mut self, j: usize) {
        let join = self.joins[j];
        if join.expected == join.arrived {
            self.joins[j].expected = 0;
            if join.arrived != 0 {
                self.groups.push(Group { pc: join.pc, mask: join.arrived, join: join.parent, state: State::Ready });
            }
        }
    }

    /// Lanes of `mask` are gone; nobody waits for them.
    pub(super) fn exit(&mut self, mask: u32) {
        self.alive &= !mask;
        self.at_cluster &= !mask;
        for j in 0..self.joins.len() {
            if self.joins[j].expected & mask != 0 {
                self.joins[j].expected &= !mask;
                if self.joins[j].expected != 0 {
                    self.release_if_complete(j);
                }
            }
        }
    }

    /// Lets lanes that have waited too long run on without the others; false when none wait.
    pub(super) fn lose_patience(&mut self) -> bool {
        self.since_join = 0;
        let waited = self.waiting_at_joins().next().is_some();
        for j in 0..self.joins.len() {
            let join = self.joins[j];
            if join.expected != 0 && join.arrived != 0 {
                self.joins[j].expected &= !join.arrived;
                self.joins[j].arrived = 0;
                self.groups.push(Group { pc: join.pc, mask: join.arrived, join: join.parent, state: State::Ready });
            }
        }
        waited
    }

    /// Lanes that wait at joins, and where.
    pub(super) fn waiting_at_joins(&self) -> impl Iterator<Item = (u32, u32)> + '_ {
        self.joins.iter().filter(|j| j.expected != 0 && j.arrived != 0).map(|j| (j.pc, j.arrived))
    }
}
