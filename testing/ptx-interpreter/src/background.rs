//! Instructions whose work is done in the background, and those that wait for it. wgmma: `matrix.rs`. What they do is in
//! `exec/mbarrier.rs`, `exec/copy_async.rs` and `exec/bulk.rs`.

use crate::inst::{Address, Slot};

/// `mbarrier` instructions; addresses in the block's or (`remote`) the cluster's shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mbarrier {
    Init {
        at: Address,
        count: Slot,
    },
    Invalidate {
        at: Address,
    },
    /// `count` arrivals (one where absent), with `bytes` more to come. `d` is the state, for nobody to look at.
    Arrive {
        at: Address,
        remote: bool,
        count: Slot,
        bytes: Slot,
        d: Slot,
    },
    ExpectBytes {
        at: Address,
        remote: bool,
        bytes: Slot,
    },
    /// Whether the phase of this parity has ended.
    Test {
        d: Slot,
        at: Address,
        parity: Slot,
    },
}

/// `cp.async` of each thread by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CopyAsync {
    /// `bytes` to shared memory, of which the last are zero where fewer are there.
    Copy {
        to: Address,
        from: Address,
        bytes: u8,
        there: Slot,
    },
    Commit,
    /// Until at most this many of the thread's groups are under way.
    Wait {
        pending: u32,
    },
    /// The same, and what is in no group yet.
    WaitAll,
}

/// `cp.async.bulk` by one thread.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Bulk {
    /// A box of a tensor; `blocks` is the mask of a multicast.
    LoadTensor {
        to: Address,
        map: Slot,
        at: Vec<Slot>,
        /// Offsets of pixels, where the map is of those.
        offsets: Vec<Slot>,
        barrier: Address,
        blocks: Slot,
    },
    StoreTensor {
        map: Slot,
        at: Vec<Slot>,
        from: Address,
    },
    /// Bytes in a row.
    Load {
        to: Address,
        from: Address,
        bytes: Slot,
        barrier: Address,
        blocks: Slot,
    },
    Commit,
    /// Until at most this many groups are under way, or (`read`) still read shared memory.
    Wait {
        pending: u32,
        read: bool,
    },
}
