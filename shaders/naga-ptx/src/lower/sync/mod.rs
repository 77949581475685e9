//! What invocations do together: atomics, barriers, subgroup operations, cooperative matrices.
//!
//! Each function takes operands that are already lowered and writes instructions; which statement needs which one, and
//! how uniform control flow is there, the caller knows.
//!
//! # Memory model
//!
//! WGSL has relaxed atomics and three control barriers whose memory scope is the workgroup. PTX gives every operation a
//! scope and a meaning ("PTX ISA 9.0", chapter 8, memory consistency model; 9.7.13, parallel synchronisation).
//!
//! | WGSL                        | PTX                                                | scope, meaning             |
//! | --------------------------- | -------------------------------------------------- | -------------------------- |
//! | `atomicLoad`, `atomicStore` | `ld.relaxed`, `st.relaxed`                         | storage gpu, workgroup cta |
//! | `atomicAdd` and the like    | `atom.relaxed`, `red.relaxed` if unread            | storage gpu, workgroup cta |
//! | `atomicCompareExchangeWeak` | `atom.relaxed.cas`; never fails without cause      | storage gpu, workgroup cta |
//! | smallest, largest of floats | a loop of `atom.relaxed.cas`                       | storage gpu, workgroup cta |
//! | `workgroupBarrier`          | `bar.sync 0`: orders all memory in the block       | cta, acq_rel               |
//! | `textureBarrier`            | `bar.sync 0`                                       | cta, acq_rel               |
//! | `storageBarrier`            | `fence.acq_rel.gpu; bar.sync 0; fence.acq_rel.gpu` | gpu, acq_rel               |
//! | `subgroupBarrier`           | `bar.warp.sync`: orders all memory of its threads  | the warp                   |
//! | `workgroupUniformLoad`      | `bar.sync 0`, `ld`, `bar.sync 0`                   | cta                        |
//! | other loads and stores      | weak `ld`, `st`                                    | the invocation             |
//!
//! `storageBarrier` is stronger than WGSL asks: algorithms that pass data between workgroups (look-back scans, the last
//! workgroup that finishes a sum) rely on the device scope which naga gives it in SPIR-V, and would fail here alone.
//!
//! # Reconvergence
//!
//! A subgroup is a warp: 32 lanes, of consecutive `local_invocation_index`. Since sm_70 lanes of a warp run on their
//! own, so every instruction across lanes names the lanes that take part and waits for them:
//!
//! - [`Convergence::Uniform`]: all lanes of the warp come here together or not at all; none has returned. The mask is
//!   constant: all lanes, or in the last warp of a workgroup whose size is no multiple of 32 those that exist (computed
//!   from the index). Lanes that ran apart before are waited for, so the result does not depend on scheduling.
//! - [`Convergence::Partial`]: some lanes may be elsewhere. The mask is `activemask` read right before: the lanes that
//!   run this instruction together. These take part, the others do not. Which lanes run together after a branch that
//!   diverged is the hardware's choice within what WGSL allows, which promises no reconvergence there.
//!
//! With all lanes present, reductions are butterflies and scans are Hillis and Steele's. Otherwise each lane follows
//! links to its next lower lane that takes part, doubling their reach in each of five steps (pointer jumping), which is
//! right for any set of lanes and, like the other, sums in a fixed order.
//!
//! # Tests
//!
//! `warp` runs the sequences on the host, lane by lane, against plain loops; `tests_ptxas` assembles them; the shaders
//! of the crate's folder `tests/device` check themselves on a device.

mod atomics;
mod barriers;
mod coop;
mod lanes;
mod reduce;
mod shuffle;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_atomics;
#[cfg(test)]
mod tests_coop;
#[cfg(test)]
mod tests_ptxas;
#[cfg(test)]
mod warp;

pub(crate) use atomics::{AtomicCall, AtomicOp, Use, atomic, atomic_load, atomic_store};
pub(crate) use barriers::{control_barrier, memory_barrier, uniform_load};
pub(crate) use coop::{CoopPlace, CoopType, CoopValue, coop_add, coop_load, coop_mma, coop_scale, coop_splat};
pub(crate) use coop::{coop_store, coop_sub};
pub(crate) use lanes::{linear_index, num_subgroups, subgroup_id, subgroup_invocation_id, subgroup_size};
pub(crate) use reduce::collective;
pub(crate) use shuffle::{Gather, ballot, gather};

use crate::options::Target;

/// Lanes of a warp, on every architecture.
pub(crate) const WARP: u32 = 32;

/// What these functions need to know besides the builder.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Env {
    pub(crate) target: Target,
    pub(crate) workgroup_size: [u32; 3],
}

impl Env {
    /// Invocations of a workgroup.
    pub(crate) fn invocations(self) -> u32 {
        self.workgroup_size.into_iter().fold(1, u32::saturating_mul)
    }
}

/// Which lanes of the warp come to a place together, as far as control flow says; that the last warp of a workgroup may
/// be smaller is seen to here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Convergence {
    /// All that exist, or none.
    Uniform,
    /// Perhaps only some.
    Partial,
}
