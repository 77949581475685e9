//! The state of a device: what a backend consists of. Everything that works on it is in the files above (`device.rs` lists them by what
//! calls them), and none of those is known here.

use std::sync::{Arc, Mutex};

use polywarp_core::plan::{Caps, Plan};
use polywarp_core::pool::Pool;
use polywarp_core::tuner::Chooser;
use polywarp_core::{Buffer, DeviceInfo, Recorders, Requests, Result};
use polywarp_shaders::wgsl::LaunchLimits;

use crate::driver::Kept;
use crate::fault::{Fault, lock};
use crate::memory::{Memory, Raw};
use crate::pipelines::{Pipeline, Pipelines};
use crate::stream::Stream;
use crate::tape::{Allocation, Tape};
use crate::user::UserKernels;
#[cfg(not(target_arch = "wasm32"))]
use crate::wait::Waiter;

/// A device reached through wgpu.
pub struct WgpuBackend {
    pub(crate) info: DeviceInfo,
    pub(crate) caps: Caps,
    pub(crate) launch_limits: LaunchLimits,
    pub(crate) fault: Arc<Fault>,
    pub(crate) pool: Arc<Pool<Memory>>,
    pub(crate) recorders: Arc<Recorders<Tape>>,
    pub(crate) pipelines: Pipelines,
    pub(crate) patch_pipeline: Mutex<Option<Arc<Pipeline>>>,
    pub(crate) user_kernels: UserKernels,
    pub(crate) stream: Arc<Mutex<Stream>>,
    pub(crate) chooser: Chooser<Plan>,
    pub(crate) requests: Requests,
    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) waiter: Waiter,
    pub(crate) queue: wgpu::Queue,
    // Last: everything else goes before the device.
    pub(crate) gpu: Kept<wgpu::Device>,
}

impl WgpuBackend {
    /// What planners are told of this device.
    pub fn caps(&self) -> &Caps {
        &self.caps
    }

    /// The device underneath.
    ///
    /// The last handle of anything on a device destroys it. NVIDIA's Vulkan driver waits for ever when that happens while
    /// another thread makes a device, so this library does only one of the two at a time. It cannot do that for a clone that
    /// outlives the backend and its tensors, nor for devices that an application makes itself: there it is for the
    /// application to see that no other thread opens or drops a device meanwhile.
    pub fn device(&self) -> &wgpu::Device {
        &self.gpu
    }

    /// The queue that all work of this backend goes through.
    pub fn queue(&self) -> &wgpu::Queue {
        &self.queue
    }

    /// Tells a backend on an application's device that the device is lost; every later call says so.
    pub fn mark_lost(&self, reason: &str) {
        self.fault.lose(reason);
    }

    /// Submissions made so far: how well operations gather.
    pub fn submissions(&self) -> u64 {
        lock(&self.stream).submissions()
    }

    /// Kernels of the library compiled so far.
    pub fn compiled_kernels(&self) -> usize {
        self.pipelines.compiled()
    }

    /// Makes the next `count` allocations fail as if the driver had no memory, to test how a program takes it.
    pub fn inject_out_of_memory(&self, count: u32) {
        self.pool.inject_failures(count);
    }

    pub(crate) fn fault(&self) -> &Fault {
        &self.fault
    }

    pub(crate) fn id(&self) -> &str {
        &self.info.id
    }

    /// The part of `buffer` that this backend made.
    pub(crate) fn own<'a>(&self, buffer: &'a Buffer) -> Result<&'a Arc<Raw>> {
        let allocation = buffer.downcast::<Allocation>().filter(|allocation| allocation.belongs_to(&self.pool));
        allocation.map(Allocation::lease).ok_or_else(|| polywarp_core::foreign_buffer(self.fault.device()))
    }
}
