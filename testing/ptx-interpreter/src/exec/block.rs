//! A block that runs: its shared memory, and who waits in it.

use std::collections::BTreeMap;
use std::ops::Range;

use super::MAX_THREADS;
use super::claims::{Claims, UNIT, Use, WORD};
use super::mbarrier::Barrier;
use super::wgmma::Warpgroup;
use crate::error::FaultKind;
use crate::kernel::SHARED_BASE;
use crate::race::Shadow;

/// A block that runs.
pub(crate) struct Block {
    pub(super) index: [u32; 3],
    pub(super) first_epoch: u32,
    pub(super) shared: Vec<u8>,
    /// Bytes of shared memory that hold a value; empty when not checked.
    pub(super) written: Vec<bool>,
    pub(super) shadow: Option<Shadow>,
    pub(super) claims: Claims,
    /// Barriers in shared memory, by address.
    pub(super) barriers: BTreeMap<u32, Barrier>,
    /// Threads that have arrived at a barrier and gone on: its number, how many it waits for, how many they are.
    pub(super) arrived: Vec<(u32, u32, u32)>,
    /// All its threads are gone; so is its shared memory.
    pub(super) ended: bool,
    warpgroups: Vec<Warpgroup>,
    /// A thread of it has waited for the kernel before this one.
    pub(super) grid_waited: bool,
    /// Per word of shared memory who wrote it last by an ordinary instruction, and when (0: nobody); empty where nothing
    /// but ordinary instructions will read it.
    stores: Vec<(u16, u64)>,
    /// When each thread last made such writes known to the asynchronous units (`fence.proxy.async`).
    fences: Vec<u64>,
}

impl Block {
    pub(super) fn new(shared_bytes: usize, check_uninitialised: bool) -> Block {
        Block {
            index: [0; 3],
            first_epoch: 0,
            shared: vec![0; shared_bytes],
            written: vec![false; if check_uninitialised { shared_bytes } else { 0 }],
            shadow: None,
            claims: Claims::default(),
            barriers: BTreeMap::new(),
            arrived: Vec::new(),
            ended: false,
            warpgroups: Vec::new(),
            grid_waited: false,
            stores: Vec::new(),
            fences: Vec::new(),
        }
    }

    /// As a block finds itself when it starts.
    pub(super) fn start(&mut self, index: [u32; 3], epoch: u32, check_races: bool, asynchronous: bool) {
        self.index = index;
        self.first_epoch = epoch;
        if check_races {
            self.shadow.get_or_insert_with(|| Shadow::new(self.shared.len())).clear();
        }
        // Bytes that are no number as a float of any width.
        self.shared.fill(0xFF);
        self.written.fill(false);
        self.claims.reset(self.shared.len());
        self.barriers.clear();
        self.arrived.clear();
        self.ended = false;
        self.warpgroups.clear();
        self.grid_waited = false;
        self.stores.clear();
        self.fences.clear();
        if asynchronous {
            self.stores.resize(self.shared.len().div_ceil(WORD), (0, 0));
            self.fences.resize(MAX_THREADS as usize, 0);
        }
    }

    /// The warpgroup of a warp.
    pub(super) fn warpgroup(&mut self, warp: usize) -> &mut Warpgroup {
        let index = warp / 4;
        if self.warpgroups.len() <= index {
            self.warpgroups.resize(index + 1, Warpgroup::default());
        }
        &mut self.warpgroups[index]
    }

    /// An ordinary write by a thread, at a time that only grows.
    #[inline]
    pub(super) fn stored(&mut self, at: usize, bytes: usize, thread: usize, now: u64) {
        if !self.stores.is_empty() {
            self.stores[at / WORD..(at + bytes).div_ceil(WORD)].fill((thread as u16, now));
        }
    }

    /// `fence.proxy.async` of a thread.
    pub(super) fn fence(&mut self, thread: usize, now: u64) {
        if let Some(fence) = self.fences.get_mut(thread) {
            *fence = now;
        }
    }

    /// Demands that whoever wrote a unit made that known since, or whoever (of the threads `readers`) has it read.
    fn fenced(&self, at: usize, readers: &Range<usize>) -> Result<(), FaultKind> {
        let Some(words) = self.stores.get(at / WORD..(at + UNIT) / WORD) else { return Ok(()) };
        for (word, &(thread, when)) in words.iter().enumerate().filter(|(_, store)| store.1 > 0) {
            let known =
                self.fences[usize::from(thread)].max(self.fences[readers.clone()].iter().copied().max().unwrap_or(0));
            if known < when {
                let address = u64::from(SHARED_BASE) + (at + word * WORD) as u64;
                let what = "written by an ordinary store and read by wgmma or a bulk store without fence.proxy.async";
                return Err(FaultKind::InFlight { address, what });
            }
        }
        Ok(())
    }

    /// Where `bytes` at a shared address lie, checked.
    pub(super) fn place(&self, address: u64, bytes: usize) -> Result<usize, FaultKind> {
        let (base, size) = (u64::from(SHARED_BASE), self.shared.len());
        let at = address.wrapping_sub(base);
        if at <= size as u64 && bytes as u64 <= size as u64 - at {
            return Ok(at as usize);
        }
        let nearest = format!("there are {size} bytes from {base:#x} on");
        Err(FaultKind::OutOfBounds { space: "shared", address, bytes: bytes as u32, nearest })
    }

    /// Demands that nothing under way stands against an access.
    #[inline]
    pub(super) fn claimed(&self, at: usize, bytes: usize, how: Use) -> Result<(), FaultKind> {
        match self.claims.meets(at, bytes, how) {
            None => Ok(()),
            Some((byte, what)) => {
                Err(FaultKind::InFlight { address: u64::from(SHARED_BASE) + (at + byte) as u64, what })
            }
        }
    }

    /// Demands that what is read was written.
    #[inline]
    pub(super) fn initialised(&self, at: usize, bytes: usize) -> Result<(), FaultKind> {
        if !self.written.is_empty()
            && let Some(hole) = self.written[at..at + bytes].iter().position(|w| !w)
        {
            let address = u64::from(SHARED_BASE) + (at + hole) as u64;
            return Err(FaultKind::Uninitialised { space: "shared", address });
        }
        Ok(())
    }

    /// A unit that wgmma or a bulk store of the threads `readers` reads from now until somebody waited for it.
    pub(super) fn read_unit(&mut self, at: usize, readers: &Range<usize>) -> Result<[u8; UNIT], FaultKind> {
        self.claimed(at, UNIT, Use::Read)?;
        self.fenced(at, readers)?;
        self.initialised(at, UNIT)?;
        self.claims.begin(at, UNIT, Use::Read);
        let mut unit = [0; UNIT];
        unit.copy_from_slice(&self.shared[at..at + UNIT]);
        Ok(unit)
    }

    /// Bytes that a copy will fill.
    pub(super) fn begin_filling(&mut self, at: usize, bytes: usize) -> Result<(), FaultKind> {
        self.claimed(at, bytes, Use::Write)?;
        self.claims.begin(at, bytes, Use::Write);
        Ok(())
    }

    /// They are filled.
    pub(super) fn fill(&mut self, at: usize, data: &[u8]) {
        self.claims.end(at, data.len(), Use::Write);
        self.shared[at..at + data.len()].copy_from_slice(data);
        if !self.written.is_empty() {
            self.written[at..at + data.len()].fill(true);
        }
        if let Some(words) = self.stores.get_mut(at / WORD..(at + data.len()).div_ceil(WORD)) {
            words.fill((0, 0));
        }
    }
}
