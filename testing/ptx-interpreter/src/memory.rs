//! Device memory: allocations far apart from each other, every access checked.
//!
//! The number of the allocation is in the address (bits 40 and up), so that a lookup is a shift, and an address that
//! runs out of an allocation cannot run into another. Allocations start just below a multiple of 4 GiB: arithmetic that
//! loses the carry between the halves of an address ends far away.
//!
//! Memory is zeroed, or (`alloc_unwritten`) no value until somebody writes it: then each byte remembers whether anybody has.

use crate::error::FaultKind;
use crate::race::Shadow;

const SHIFT: u32 = 40;

/// Written in this launch.
const WRITTEN: u8 = 1;
/// Read through the read-only path in this launch.
const NC_READ: u8 = 2;

#[derive(Clone, Debug)]
struct Allocation {
    base: u64,
    data: Vec<u8>,
    live: bool,
    read_only: bool,
    /// Bytes that hold a value; empty when all do.
    filled: Vec<bool>,
    /// Per byte: `WRITTEN`, `NC_READ`; empty when not wanted.
    marks: Vec<u8>,
    shadow: Option<Shadow>,
}

/// The global memory of a device.
#[derive(Clone, Debug, Default)]
pub struct Memory {
    allocations: Vec<Allocation>,
    marking: bool,
    /// Whether reading what nobody has written is a fault in this launch.
    demanding: bool,
    /// Allocations with marks or a shadow.
    touched: Vec<usize>,
}

impl Memory {
    /// An empty device.
    pub fn new() -> Memory {
        Memory::default()
    }

    /// Allocates `bytes`, zeroed, at a multiple of `align` (a power of two up to 64 KiB, else the next such) and
    /// returns the address.
    pub fn alloc(&mut self, bytes: usize, align: u64) -> u64 {
        let align = align.clamp(1, 1 << 16).next_power_of_two().max(256);
        let index = self.allocations.len() as u64;
        let base = ((index + 1) << SHIFT) + (1 << 32) - align;
        self.allocations.push(Allocation {
            base,
            data: vec![0; bytes],
            live: true,
            read_only: false,
            filled: Vec::new(),
            marks: Vec::new(),
            shadow: None,
        });
        base
    }

    /// Allocates bytes that have no value before they are written; until then they are `noise`. Launches with
    /// [`crate::RunOptions::check_uninitialised`] may not read them.
    pub fn alloc_unwritten(&mut self, bytes: usize, noise: u8) -> u64 {
        let address = self.alloc(bytes, 256);
        if let Some(allocation) = self.allocations.last_mut() {
            allocation.data.fill(noise);
            allocation.filled = vec![false; bytes];
        }
        address
    }

    /// Allocates and fills.
    pub fn alloc_from(&mut self, data: &[u8]) -> u64 {
        let address = self.alloc(data.len(), 256);
        if let Some(allocation) = self.allocations.last_mut() {
            allocation.data.copy_from_slice(data);
        }
        address
    }

    /// Frees what [`Memory::alloc`] returned; later accesses are faults. False when it was no live allocation.
    pub fn free(&mut self, address: u64) -> bool {
        match self.allocations.get_mut(index(address)).filter(|a| a.live && a.base == address) {
            Some(allocation) => {
                allocation.live = false;
                allocation.data = Vec::new();
                allocation.filled = Vec::new();
                true
            }
            None => false,
        }
    }

    /// Whether kernels may write the allocation that contains `address`. False when there is none.
    pub fn set_read_only(&mut self, address: u64, read_only: bool) -> bool {
        match self.allocations.get_mut(index(address)).filter(|a| a.live) {
            Some(allocation) => {
                allocation.read_only = read_only;
                true
            }
            None => false,
        }
    }

    /// Bytes of a live allocation, from the host, which may look at what nobody has written.
    ///
    /// # Errors
    /// [`FaultKind::OutOfBounds`]
    pub fn read(&self, address: u64, bytes: usize) -> Result<&[u8], FaultKind> {
        let (index, at) = self.locate(address, bytes)?;
        Ok(&self.allocations[index].data[at..at + bytes])
    }

    /// The same, to write; `read_only` does not concern the host.
    ///
    /// # Errors
    /// [`FaultKind::OutOfBounds`]
    pub fn write(&mut self, address: u64, data: &[u8]) -> Result<(), FaultKind> {
        let (index, at) = self.locate(address, data.len())?;
        let allocation = &mut self.allocations[index];
        allocation.data[at..at + data.len()].copy_from_slice(data);
        allocation.fill(at, data.len());
        Ok(())
    }

    /// Copies from one live allocation to another, or within one: bytes without a value stay such.
    ///
    /// # Errors
    /// [`FaultKind::OutOfBounds`]
    pub fn copy(&mut self, to: u64, from: u64, bytes: usize) -> Result<(), FaultKind> {
        let data = self.read(from, bytes)?.to_vec();
        let (source, at) = self.locate(from, bytes)?;
        let filled = self.allocations[source].filled.get(at..at + bytes).map(<[bool]>::to_vec);
        let (target, at) = self.locate(to, bytes)?;
        let target = &mut self.allocations[target];
        target.data[at..at + bytes].copy_from_slice(&data);
        if let (true, Some(filled)) = (target.filled.is_empty(), &filled) {
            target.filled = if filled.contains(&false) { vec![true; target.data.len()] } else { Vec::new() };
        }
        if let Some(to) = target.filled.get_mut(at..at + bytes) {
            match filled {
                Some(filled) => to.copy_from_slice(&filled),
                None => to.fill(true),
            }
        }
        Ok(())
    }

    /// Demands that all bytes have a value.
    ///
    /// # Errors
    /// [`FaultKind::Uninitialised`], [`FaultKind::OutOfBounds`]
    pub fn demand_written(&self, address: u64, bytes: usize) -> Result<(), FaultKind> {
        let (index, at) = self.locate(address, bytes)?;
        self.allocations[index].demand(at, bytes)
    }

    /// Live allocations.
    pub fn live_allocations(&self) -> usize {
        self.allocations.iter().filter(|a| a.live).count()
    }

    /// Index of the allocation and place in it.
    #[inline]
    fn locate(&self, address: u64, bytes: usize) -> Result<(usize, usize), FaultKind> {
        let index = index(address);
        if let Some(allocation) = self.allocations.get(index) {
            let at = address.wrapping_sub(allocation.base);
            if at <= allocation.data.len() as u64
                && bytes as u64 <= allocation.data.len() as u64 - at
                && allocation.live
            {
                return Ok((index, at as usize));
            }
        }
        Err(self.out_of_bounds(address, bytes))
    }

    #[cold]
    fn out_of_bounds(&self, address: u64, bytes: usize) -> FaultKind {
        let near = self.allocations.iter().min_by_key(|a| {
            let end = a.base + a.data.len() as u64;
            if address < a.base { a.base - address } else { address.saturating_sub(end) }
        });
        let nearest = match near {
            _ if address < 4096 => "it is null".to_owned(),
            None => "nothing is allocated".to_owned(),
            Some(a) if !a.live && index(address) == index(a.base) => format!("the memory at {:#x} was freed", a.base),
            Some(a) => {
                let distance = address.wrapping_sub(a.base) as i64;
                format!("{distance} bytes from the start of the {} bytes at {:#x}", a.data.len(), a.base)
            }
        };
        FaultKind::OutOfBounds { space: "global", address, bytes: bytes as u32, nearest }
    }

    /// Forgets what earlier launches did; whether this one has reads through the read-only path to check, and may not read
    /// what nobody has written.
    pub(crate) fn begin_launch(&mut self, marking: bool, demanding: bool) {
        self.marking = marking;
        self.demanding = demanding;
        for index in self.touched.drain(..) {
            let allocation = &mut self.allocations[index];
            allocation.marks = Vec::new();
            allocation.shadow = None;
        }
    }

    /// The access history of the allocation around `address`, and the place in it.
    pub(crate) fn shadow(&mut self, address: u64, bytes: usize) -> Result<(&mut Shadow, usize), FaultKind> {
        let (index, at) = self.locate(address, bytes)?;
        let allocation = &mut self.allocations[index];
        let size = allocation.data.len();
        if allocation.shadow.is_none() {
            self.touched.push(index);
        }
        Ok((allocation.shadow.get_or_insert_with(|| Shadow::new(size)), at))
    }

    #[inline]
    pub(crate) fn load(&mut self, address: u64, bytes: usize, non_coherent: bool) -> Result<&[u8], FaultKind> {
        let (index, at) = self.locate(address, bytes)?;
        let allocation = &mut self.allocations[index];
        if self.demanding {
            allocation.demand(at, bytes)?;
        }
        if non_coherent {
            let marks = allocation.marks(index, &mut self.touched);
            for mark in &mut marks[at..at + bytes] {
                if *mark & WRITTEN != 0 {
                    return Err(FaultKind::NonCoherent { address });
                }
                *mark |= NC_READ;
            }
        }
        Ok(&allocation.data[at..at + bytes])
    }

    #[inline]
    pub(crate) fn store(&mut self, address: u64, bytes: usize) -> Result<&mut [u8], FaultKind> {
        let (index, at) = self.locate(address, bytes)?;
        let allocation = &mut self.allocations[index];
        if allocation.read_only {
            return Err(FaultKind::ReadOnly { address });
        }
        if self.marking {
            let marks = allocation.marks(index, &mut self.touched);
            for mark in &mut marks[at..at + bytes] {
                if *mark & NC_READ != 0 {
                    return Err(FaultKind::NonCoherent { address });
                }
                *mark |= WRITTEN;
            }
        }
        allocation.fill(at, bytes);
        Ok(&mut allocation.data[at..at + bytes])
    }
}

impl Allocation {
    /// Bytes that have a value from now on.
    #[inline]
    fn fill(&mut self, at: usize, bytes: usize) {
        if let Some(filled) = self.filled.get_mut(at..at + bytes) {
            filled.fill(true);
        }
    }

    #[inline]
    fn demand(&self, at: usize, bytes: usize) -> Result<(), FaultKind> {
        match self.filled.get(at..at + bytes).and_then(|filled| filled.iter().position(|filled| !filled)) {
            None => Ok(()),
            Some(hole) => Err(FaultKind::Uninitialised { space: "global", address: self.base + (at + hole) as u64 }),
        }
    }

    fn marks(&mut self, index: usize, touched: &mut Vec<usize>) -> &mut Vec<u8> {
        if self.marks.is_empty() {
            touched.push(index);
            self.marks = vec![0; self.data.len()];
        }
        &mut self.marks
    }
}

fn index(address: u64) -> usize {
    ((address >> SHIFT) as usize).wrapping_sub(1)
}
