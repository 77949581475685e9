//! Loads and stores, lane by lane, with all checks. Atomics: `atomic.rs`.

use super::claims::Use;
use super::warp::Warp;
use super::{Machine, Trouble};
use crate::error::FaultKind;
use crate::inst::*;
use crate::kernel::{CONST_BASE, LOCAL_BASE, PARAM_BASE, Param, SHARED_BASE};
use crate::race::{Actor, Found, Kind};

/// One load or store of a warp.
pub(super) struct Transfer<'i> {
    pub(super) space: Space,
    pub(super) ty: Ty,
    pub(super) class: Class,
    pub(super) regs: &'i [Slot],
    pub(super) address: Address,
    pub(super) strength: Strength,
}

/// Address of one lane.
#[inline(always)]
pub(super) fn lane_address(warp: &Warp, address: Address, lane: usize) -> u64 {
    match (address.base, address.wide) {
        (NONE, _) => address.offset,
        (base, true) => warp.regs.row::<u64>(base)[lane].wrapping_add(address.offset),
        (base, false) => u64::from(warp.regs.row::<u32>(base)[lane].wrapping_add(address.offset as u32)),
    }
}

pub(super) fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        (rest != 0).then(|| {
            let lane = rest.trailing_zeros();
            rest &= rest - 1;
            lane as usize
        })
    })
}

/// Where an access to a variable's space starts, checked.
fn place(space: Space, address: u64, base: impl Into<u64>, bytes: usize, size: usize) -> Result<usize, FaultKind> {
    let base = base.into();
    let at = address.wrapping_sub(base);
    if at <= size as u64 && bytes as u64 <= size as u64 - at {
        return Ok(at as usize);
    }
    let nearest = format!("there are {size} bytes from {base:#x} on");
    Err(FaultKind::OutOfBounds { space: space.name(), address, bytes: bytes as u32, nearest })
}

impl Machine<'_> {
    pub(super) fn load(&mut self, warp: &mut Warp, mask: u32, t: Transfer<'_>) -> Result<(), Trouble> {
        let size = t.ty.bytes() as usize;
        let total = size * t.regs.len();
        let simple = t.class == Class::Word && size == 4;
        for lane in lanes(mask) {
            let address = lane_address(warp, t.address, lane);
            let mut buffer = [0; 16];
            let data = &mut buffer[..total];
            self.read(warp, lane, (t.space, t.strength), address, data).map_err(|kind| Trouble::new(lane, kind))?;
            for (word, &slot) in data.chunks_exact(size).zip(t.regs) {
                if slot == NONE {
                    continue;
                }
                if simple {
                    warp.regs.row_mut::<u32>(slot)[lane] = u32::from_le_bytes([word[0], word[1], word[2], word[3]]);
                    continue;
                }
                let mut bytes = [0; 8];
                bytes[..size].copy_from_slice(word);
                let bits = u64::from_le_bytes(bytes);
                let bits = match t.ty {
                    Ty::S8 => bits as i8 as u64,
                    Ty::S16 => bits as i16 as u64,
                    Ty::S32 => bits as i32 as u64,
                    _ => bits,
                };
                warp.regs.set(t.class, slot, lane, bits);
            }
        }
        Ok(())
    }

    pub(super) fn store(&mut self, warp: &mut Warp, mask: u32, t: Transfer<'_>) -> Result<(), Trouble> {
        let size = t.ty.bytes() as usize;
        let total = size * t.regs.len();
        let backwards = self.coin();
        self.progress += 1;
        let order = lanes(if backwards { mask.reverse_bits() } else { mask });
        for lane in order.map(|lane| if backwards { 31 - lane } else { lane }) {
            let address = lane_address(warp, t.address, lane);
            let mut buffer = [0; 16];
            let data = &mut buffer[..total];
            for (word, &slot) in data.chunks_exact_mut(size).zip(t.regs) {
                word.copy_from_slice(&warp.regs.get(t.class, slot, lane).to_le_bytes()[..size]);
            }
            self.write(warp, lane, (t.space, t.strength), address, data).map_err(|kind| Trouble::new(lane, kind))?;
        }
        Ok(())
    }

    fn actor(&self, warp: &Warp, lane: usize, strength: Strength) -> Actor {
        Actor {
            epoch: self.epoch,
            block_epoch: self.blocks[warp.rank].first_epoch,
            sync: warp.sync,
            thread: warp.index * 32 + lane as u32,
            strong: strength == Strength::Strong,
        }
    }

    #[cold]
    fn race(&self, space: Space, start: u64, found: Found) -> FaultKind {
        let at = self.epochs.partition_point(|&(first, _)| first <= found.epoch).saturating_sub(1);
        FaultKind::Race {
            space: space.name(),
            address: start + found.byte as u64,
            what: found.what,
            other: self.thread_index(found.thread),
            other_block: self.epochs.get(at).map_or([0; 3], |e| e.1),
        }
    }

    pub(super) fn read(
        &mut self,
        warp: &Warp,
        lane: usize,
        (space, strength): (Space, Strength),
        address: u64,
        data: &mut [u8],
    ) -> Result<(), FaultKind> {
        let bytes = data.len();
        if address & (bytes as u64 - 1) != 0 {
            return Err(FaultKind::Misaligned { space: space.name(), address, bytes: bytes as u32 });
        }
        match space {
            Space::Global | Space::NonCoherent => {
                self.after_grid(warp.rank)?;
                data.copy_from_slice(self.memory.load(address, bytes, space == Space::NonCoherent)?);
                if self.options.check_races && !self.kernel.uses_async {
                    self.global_race(warp, lane, strength, (address, bytes), Kind::Read)?;
                }
            }
            Space::Shared => {
                let address = self.own(warp, address);
                self.read_shared(warp.rank, warp, lane, strength, address, data)?;
            }
            Space::Cluster => {
                let (rank, address) = self.in_cluster(warp, address)?;
                self.read_shared(rank, warp, lane, strength, address, data)?;
            }
            Space::Local => {
                let size = self.kernel.local_bytes as usize;
                let at = place(space, address, LOCAL_BASE, bytes, size)? + lane * size;
                data.copy_from_slice(&warp.local[at..at + bytes]);
            }
            Space::Param => {
                let at = place(space, address, PARAM_BASE, bytes, self.params.len())?;
                // An index may not lead from one parameter into the next.
                let ends = |param: &&Param| at < (param.offset + param.bytes) as usize;
                let param = self.kernel.params.iter().find(ends).map_or(0..0, Param::range);
                if at < param.start || at + bytes > param.end {
                    let nearest = format!("the parameter nearest has bytes {param:?} of the block");
                    return Err(FaultKind::OutOfBounds { space: space.name(), address, bytes: bytes as u32, nearest });
                }
                data.copy_from_slice(&self.params[at..at + bytes]);
            }
            Space::Const => {
                let bank = &self.kernel.constants_bank;
                let at = place(space, address, CONST_BASE, bytes, bank.len())?;
                data.copy_from_slice(&bank[at..at + bytes]);
            }
        }
        Ok(())
    }

    pub(super) fn write(
        &mut self,
        warp: &mut Warp,
        lane: usize,
        (space, strength): (Space, Strength),
        address: u64,
        data: &[u8],
    ) -> Result<(), FaultKind> {
        let bytes = data.len();
        if address & (bytes as u64 - 1) != 0 {
            return Err(FaultKind::Misaligned { space: space.name(), address, bytes: bytes as u32 });
        }
        match space {
            Space::Shared => {
                let address = self.own(warp, address);
                self.write_shared(warp.rank, warp, lane, strength, address, data)?;
            }
            Space::Cluster => {
                let (rank, address) = self.in_cluster(warp, address)?;
                self.write_shared(rank, warp, lane, strength, address, data)?;
            }
            Space::Local => {
                let size = self.kernel.local_bytes as usize;
                let at = place(space, address, LOCAL_BASE, bytes, size)? + lane * size;
                warp.local[at..at + bytes].copy_from_slice(data);
            }
            Space::Param | Space::Const => return Err(FaultKind::ReadOnly { address }),
            Space::Global | Space::NonCoherent => {
                self.after_grid(warp.rank)?;
                let to = self.memory.store(address, bytes)?;
                let changes = to != data;
                to.copy_from_slice(data);
                if self.options.check_races && !self.kernel.uses_async {
                    self.global_race(warp, lane, strength, (address, bytes), Kind::Write { changes })?;
                }
            }
        }
        Ok(())
    }

    /// Demands that some thread of the block has waited for the kernel before this one, where the kernel does that by itself:
    /// it may have been started while that one still runs.
    pub(super) fn after_grid(&self, rank: usize) -> Result<(), FaultKind> {
        if self.kernel.waits_for_grid && !self.blocks[rank].grid_waited {
            let what = "global memory is used before griddepcontrol.wait".to_owned();
            return Err(FaultKind::Asynchronous(what));
        }
        Ok(())
    }

    fn read_shared(
        &mut self,
        rank: usize,
        warp: &Warp,
        lane: usize,
        strength: Strength,
        address: u64,
        data: &mut [u8],
    ) -> Result<(), FaultKind> {
        let block = &self.blocks[rank];
        let (at, bytes) = (block.place(address, data.len())?, data.len());
        block.claimed(at, bytes, Use::Read)?;
        data.copy_from_slice(&block.shared[at..at + bytes]);
        block.initialised(at, bytes)?;
        self.shared_race(rank, warp, lane, strength, (at, bytes), Kind::Read)
    }

    fn write_shared(
        &mut self,
        rank: usize,
        warp: &Warp,
        lane: usize,
        strength: Strength,
        address: u64,
        data: &[u8],
    ) -> Result<(), FaultKind> {
        let block = &mut self.blocks[rank];
        let (at, bytes) = (block.place(address, data.len())?, data.len());
        block.claimed(at, bytes, Use::Write)?;
        if let Some((barrier, _)) = block.barriers.range(..address as u32 + bytes as u32).next_back()
            && u64::from(*barrier) + 8 > address
        {
            let what = "written by an ordinary instruction while it is a barrier";
            return Err(FaultKind::InFlight { address, what });
        }
        block.stored(at, bytes, (warp.index * 32) as usize + lane, self.progress);
        let changes = block.shared[at..at + bytes] != *data;
        block.shared[at..at + bytes].copy_from_slice(data);
        if !block.written.is_empty() {
            block.written[at..at + bytes].fill(true);
        }
        self.shared_race(rank, warp, lane, strength, (at, bytes), Kind::Write { changes })
    }

    /// Notes an access to shared memory where races are looked for.
    pub(super) fn shared_race(
        &mut self,
        rank: usize,
        warp: &Warp,
        lane: usize,
        strength: Strength,
        (at, bytes): (usize, usize),
        kind: Kind,
    ) -> Result<(), FaultKind> {
        let actor = self.actor(warp, lane, strength);
        let Some(shadow) = &mut self.blocks[rank].shadow else { return Ok(()) };
        let found = shadow.access(at, bytes, kind, actor);
        found.map_err(|found| self.race(Space::Shared, SHARED_BASE.into(), found))
    }

    fn global_race(
        &mut self,
        warp: &Warp,
        lane: usize,
        strength: Strength,
        (address, bytes): (u64, usize),
        kind: Kind,
    ) -> Result<(), FaultKind> {
        let actor = self.actor(warp, lane, strength);
        let (shadow, at) = self.memory.shadow(address, bytes)?;
        let found = shadow.access(at, bytes, kind, actor);
        found.map_err(|found| self.race(Space::Global, address - at as u64, found))
    }
}
