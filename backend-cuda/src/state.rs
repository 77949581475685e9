//! The state of a device: what a backend consists of. The files above work on it (`device.rs` lists them by what calls them); none of
//! them is known here.
//!
//! All work goes to one stream, in the order of the calls, so memory that is freed may be handed out at once: whatever
//! used it is earlier on the stream. Lock order: uploads, then staging; the pool's lock is never held while another is taken.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use polywarp_core::plan::Caps;
use polywarp_core::pool::Pool;
use polywarp_core::tuner::Chooser;
use polywarp_core::{Buffer, DeviceInfo, Profiler, Recorders, Requests, Result};
use polywarp_shaders::wgsl::LaunchLimits;

use crate::fault::{Fault, lock};
use crate::kernels::Kernels;
use crate::machine::Machine;
use crate::native::{Block, Memory, Stream};
use crate::staging::StagingCache;
use crate::tape::{Allocation, Tape, Timed};
use crate::uploads::Uploads;
use crate::user::{ForeignKernels, UserKernels};
use crate::waiter::Waiter;
use crate::work::Work;

/// A device reached through the CUDA driver.
pub struct CudaBackend {
    pub(crate) info: DeviceInfo,
    pub(crate) caps: Caps,
    pub(crate) native_caps: polywarp_kernels::Caps,
    pub(crate) stream: Arc<Stream>,
    pub(crate) pool: Arc<Pool<Memory>>,
    pub(crate) kernels: Kernels,
    pub(crate) machine: Machine,
    pub(crate) chooser: Chooser<Work>,
    pub(crate) user_kernels: UserKernels,
    pub(crate) foreign_kernels: ForeignKernels,
    pub(crate) launch_limits: LaunchLimits,
    pub(crate) uploads: Mutex<Uploads>,
    pub(crate) upload_pieces: Arc<StagingCache>,
    pub(crate) quick_pieces: Arc<StagingCache>,
    pub(crate) sleeping_pieces: Arc<StagingCache>,
    pub(crate) waiter: Waiter,
    pub(crate) recorders: Arc<Recorders<Tape>>,
    pub(crate) profiler: Profiler<Timed>,
    pub(crate) requests: Requests,
    pub(crate) drop_patience: Duration,
}

impl CudaBackend {
    /// What planners are told of this device.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// What planners of the kernels in CUDA C++ are told of this device.
    pub fn native_caps(&self) -> &polywarp_kernels::Caps {
        &self.native_caps
    }

    /// Bytes free on the card, and bytes it has: every program's use counts.
    ///
    /// # Errors
    /// [`Error::DeviceLost`](polywarp_core::Error::DeviceLost), [`Error::DevicePoisoned`](polywarp_core::Error::DevicePoisoned).
    pub fn card_memory_bytes(&self) -> Result<(u64, u64)> {
        self.stream.context().memory_bytes()
    }

    /// Kernels of the library loaded so far.
    pub fn loaded_kernels(&self) -> usize {
        self.kernels.loaded()
    }

    /// Those of them that were compiled before, with this crate, and only had to be loaded.
    pub fn prepared_kernels(&self) -> usize {
        self.kernels.compiler.prepared.count()
    }

    /// Kernels in CUDA C++ loaded so far.
    pub fn native_kernels(&self) -> usize {
        self.machine.loaded()
    }

    /// Makes the next `count` allocations fail as if the driver had no memory, to test how a program takes it.
    pub fn inject_out_of_memory(&self, count: u32) {
        self.pool.inject_failures(count);
    }

    /// Tells the backend that its device is lost, as an application knows that resets it; every later call says so.
    pub fn mark_lost(&self, reason: &str) {
        self.fault().lose(reason.to_owned());
    }

    pub(crate) fn fault(&self) -> &Fault {
        &self.stream.context().fault
    }

    pub(crate) fn id(&self) -> &str {
        &self.info.id
    }

    pub(crate) fn recorders(&self) -> &Recorders<Tape> {
        &self.recorders
    }

    /// The part of `buffer` that this backend made.
    pub(crate) fn own<'a>(&self, buffer: &'a Buffer) -> Result<&'a Allocation> {
        let allocation = buffer.downcast::<Allocation>().filter(|own| own.belongs_to(&self.pool));
        allocation.ok_or_else(|| polywarp_core::foreign_buffer(self.id()))
    }

    /// Memory for at least `size_bytes`: what an allocation of the calling thread's recording had, or the pool's.
    pub(crate) fn allocate(&self, size_bytes: u64) -> Result<Allocation> {
        Allocation::new(&self.pool, &self.recorders, size_bytes)
    }

    /// Memory of an application.
    pub(crate) fn adopt(&self, address: u64, size_bytes: u64, owner: Box<dyn Any + Send + Sync>) -> Allocation {
        let block = Block::foreign(self.stream.context(), address, owner);
        Allocation::adopt(&self.pool, &self.recorders, block, size_bytes)
    }
}

impl Drop for CudaBackend {
    fn drop(&mut self) {
        // Freeing waits for whatever runs. What does not end becomes a fault, after which nothing is freed and nothing waits.
        let done = self.stream.is_done_within(self.drop_patience);
        if matches!(done, Ok(false)) {
            log::warn!(
                "{}: dropped with work under way that was not done within {:?}; what it uses is not freed",
                self.id(),
                self.drop_patience
            );
            self.fault().lose(format!("it was dropped, and its work not done within {:?}", self.drop_patience));
        }
        lock(&self.uploads).clear();
        self.pool.drop_cached();
    }
}

impl fmt::Debug for CudaBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CudaBackend({}, {})", self.info.id, self.info.name)
    }
}
