//! Clusters (PTX ISA 9.7.13.4): blocks that run together and reach each other's shared memory.

use super::access::lanes;
use super::warp::{State, Warp};
use super::{Machine, Trouble};
use crate::error::FaultKind;
use crate::inst::*;
use crate::kernel::CLUSTER_SHIFT;

impl Machine<'_> {
    /// The block that a `shared::cluster` address names, which must still run, and the address within it.
    pub(super) fn in_cluster(&self, warp: &Warp, address: u64) -> Result<(usize, u64), FaultKind> {
        let within = address & ((1 << CLUSTER_SHIFT) - 1);
        let rank = match address >> CLUSTER_SHIFT {
            0 => warp.rank,
            named => named as usize - 1,
        };
        if rank >= self.blocks.len() {
            let nearest = format!("the cluster has {} blocks", self.blocks.len());
            return Err(FaultKind::OutOfBounds { space: Space::Cluster.name(), address, bytes: 0, nearest });
        }
        self.alive(rank)?;
        Ok((rank, within))
    }

    /// A shared address of this warp's block without the block's name: in a cluster the dynamic array's address has it, as on
    /// hardware (there `%cluster_ctarank` from bit 24 on).
    pub(super) fn own(&self, warp: &Warp, address: u64) -> u64 {
        let named = self.blocks.len() > 1 && address >> CLUSTER_SHIFT == warp.rank as u64 + 1;
        if named { address & ((1 << CLUSTER_SHIFT) - 1) } else { address }
    }

    pub(super) fn alive(&self, rank: usize) -> Result<(), FaultKind> {
        if self.blocks[rank].ended {
            return Err(FaultKind::Asynchronous(format!(
                "the shared memory of block {rank} of the cluster, which has ended"
            )));
        }
        Ok(())
    }

    pub(super) fn map_address(
        &mut self,
        warp: &mut Warp,
        on: u32,
        class: Class,
        [d, a, rank]: [Slot; 3],
    ) -> Result<(), Trouble> {
        for lane in lanes(on) {
            let rank = warp.regs.row::<u32>(rank)[lane];
            if rank as usize >= self.blocks.len() {
                let message = format!("mapa to block {rank} of a cluster of {}", self.blocks.len());
                return Err(Trouble::new(lane, FaultKind::Asynchronous(message)));
            }
            let within = warp.regs.get(class, a, lane) & ((1 << CLUSTER_SHIFT) - 1);
            warp.regs.set(class, d, lane, u64::from(rank + 1) << CLUSTER_SHIFT | within);
        }
        Ok(())
    }

    pub(super) fn cluster_arrive(&mut self, warp: &mut Warp, on: u32) -> Result<(), Trouble> {
        if warp.at_cluster & on != 0 {
            let lane = (warp.at_cluster & on).trailing_zeros() as usize;
            let message = "a thread arrives at the cluster's barrier twice without waiting".to_owned();
            return Err(Trouble::new(lane, FaultKind::Asynchronous(message)));
        }
        warp.at_cluster |= on;
        warp.cluster_phase = self.cluster_phase;
        self.progress += 1;
        Ok(())
    }

    /// Whether threads that arrived need not wait any more.
    pub(super) fn cluster_passes(&self, warp: &mut Warp, on: u32) -> Result<bool, Trouble> {
        if warp.cluster_phase < self.cluster_phase {
            return Ok(true);
        }
        if warp.at_cluster & on != on {
            let lane = (on & !warp.at_cluster).trailing_zeros() as usize;
            let message = "a thread waits at the cluster's barrier without having arrived".to_owned();
            return Err(Trouble::new(lane, FaultKind::Asynchronous(message)));
        }
        Ok(false)
    }

    /// Ends the phase of the cluster's barrier when all threads that are left have arrived.
    pub(super) fn release_cluster(&mut self, warps: &mut [Warp]) -> bool {
        let anyone = warps.iter().any(|warp| warp.at_cluster != 0);
        if !anyone || warps.iter().any(|warp| warp.alive & !warp.at_cluster != 0) {
            return false;
        }
        self.cluster_phase += 1;
        self.progress += 1;
        self.stats.barriers += 1;
        for warp in warps {
            warp.at_cluster = 0;
            for group in warp.groups.iter_mut().filter(|group| group.state == State::Cluster) {
                group.state = State::Ready;
                group.pc += 1;
            }
        }
        true
    }
}
