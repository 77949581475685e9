//! The backend: what a wgpu device of ours consists of, and the door [`Backend`] into it.
//!
//! How one is made is in `open.rs`. Faults that wgpu reports asynchronously arrive by the handlers of devices opened here; an
//! application that brought its own keeps its own, and calls [`WgpuBackend::mark_lost`] or lets the next wait find out. The
//! parts are in the other files; this one puts them together. Lock order: the stream's, then the pool's.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use polywarp_core::plan::{Caps, Plan, Slot};
use polywarp_core::pool::Pool;
use polywarp_core::tuner::{Chooser, Tuner};
use polywarp_core::{
    Backend, Binding, Buffer, Clock, DeviceInfo, Elapsed, Error, Kernel, Launched, MemoryStats, Op, ReadFuture,
    Recorded, Recorders, Result,
};
use polywarp_shaders::wgsl::LaunchLimits;

use crate::driver::Kept;
use crate::fault::{Fault, lock};
use crate::memory::{Allocation, Memory, Raw};
use crate::pipelines::{Pipeline, Pipelines};
use crate::recording::Tape;
use crate::stream::Stream;
#[cfg(not(target_arch = "wasm32"))]
use crate::transfer::{Waiter, is_lost, poll, wait};
use crate::user::UserKernels;

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

    /// Runs `plan` on buffers of this backend: what [`Backend::execute`] does with the plan of its op.
    ///
    /// # Errors
    /// As [`Backend::execute`]; [`Error::InvalidArgument`] for a plan that names a buffer there is not.
    pub fn run_plan(&self, plan: &Plan, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        self.fault.check()?;
        let inputs = inputs.iter().map(|input| self.own(input)).collect::<Result<Vec<_>>>()?;
        let outputs = outputs.iter().map(|output| self.own(output)).collect::<Result<Vec<_>>>()?;
        let scratch = plan.scratch_bytes.iter().map(|&bytes| self.alloc(bytes)).collect::<Result<Vec<_>>>()?;
        let scratch_raws = scratch.iter().map(|buffer| self.own(buffer)).collect::<Result<Vec<_>>>()?;
        let pipelines = plan.launches.iter().map(|launch| self.pipelines.get(&launch.kernel, launch.params.len()));
        // All kernels exist before the first is recorded: an op is recorded whole or not at all.
        let pipelines = pipelines.collect::<Result<Vec<_>>>()?;
        self.whole_or_not(|| {
            let mut stream = lock(&self.stream);
            let mut buffers: Vec<&Arc<Raw>> = Vec::with_capacity(8);
            for (launch, pipeline) in plan.launches.iter().zip(&pipelines) {
                buffers.clear();
                for slot in &launch.bindings {
                    let found = match *slot {
                        Slot::Input(index) => inputs.get(index).copied(),
                        Slot::Output(index) => outputs.get(index).copied(),
                        Slot::Scratch(index) => scratch_raws.get(index).copied(),
                    };
                    let Some(found) = found else {
                        let reason = format!("it names {slot:?}, which there is not");
                        return Err(Error::InvalidArgument { what: "plan", reason });
                    };
                    buffers.push(found);
                }
                stream.launch(pipeline, &buffers, &launch.params, launch.grid)?;
            }
            Ok(())
        })
    }

    pub(crate) fn fault(&self) -> &Fault {
        &self.fault
    }

    pub(crate) fn id(&self) -> &str {
        &self.info.id
    }
}

impl Backend for WgpuBackend {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn alloc(&self, size_bytes: u64) -> Result<Buffer> {
        self.fault.check()?;
        let limits = &self.info.limits;
        if size_bytes > limits.max_buffer_bytes {
            let (device, max) = (self.id().to_owned(), limits.max_buffer_bytes);
            return Err(Error::BufferTooBig { device, requested: size_bytes, max });
        }
        if size_bytes > limits.max_binding_bytes {
            let (device, limit) = (self.id().to_owned(), limits.max_binding_bytes);
            return Err(Error::BindingTooLarge { device, size: size_bytes, limit });
        }
        let allocation = Allocation::new(&self.pool, &self.recorders, size_bytes)?;
        Ok(Buffer::new(size_bytes, Arc::new(allocation)))
    }

    fn write(&self, buffer: &Buffer, offset_bytes: u64, data: &[u8]) -> Result<()> {
        self.recorders.refuse_write(self.id())?;
        self.write_bytes(buffer, offset_bytes, data)
    }

    fn read(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture {
        match self.recorders.refuse_read(self.id()) {
            Ok(()) => self.read_later(buffer, range),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn read_blocking(&self, buffer: &Buffer, range: Range<u64>) -> Result<Vec<u8>> {
        self.recorders.refuse_read(self.id())?;
        self.read_now(buffer, range)
    }

    fn execute(&self, op: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        self.fault.check()?;
        self.chooser.execute(self, op, inputs, outputs)
    }

    fn launch(&self, kernel: &Kernel, grid: [u32; 3], bindings: &[Binding]) -> Result<()> {
        self.run_user(kernel, grid, bindings)
    }

    fn timed(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Elapsed> {
        self.recorders.refuse_timed(self.id())?;
        self.time(work)
    }

    fn profile(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<(Vec<Launched>, Clock)> {
        self.recorders.refuse_timed(self.id())?;
        self.profile_launches(work)
    }

    fn allocated_bytes(&self, size_bytes: u64) -> u64 {
        self.pool.allocated_bytes(size_bytes)
    }

    fn scratch_bytes(&self, op: &Op) -> Result<Vec<u64>> {
        self.chooser.scratch_bytes(self, op)
    }

    fn begin_recording(&self) -> Result<()> {
        self.start_tape()
    }

    fn end_recording(&self) -> Result<Recorded> {
        self.finish_tape()
    }

    fn replay(&self, recorded: &Recorded) -> Result<()> {
        self.replay_tape(recorded)
    }

    fn flush(&self) -> Result<()> {
        lock(&self.stream).submit().map(|_| ())
    }

    #[cfg(not(target_arch = "wasm32"))]
    fn synchronize(&self) -> Result<()> {
        self.recorders.refuse_synchronize(self.id())?;
        let index = lock(&self.stream).submit()?;
        let submitted = index.is_some();
        // A device that is gone finishes everything but what it was given afterwards.
        wait(&self.gpu, &self.fault, index)?;
        if !submitted && is_lost(&self.gpu) {
            return Err(self.fault.lose("it was destroyed, or lost, by somebody else"));
        }
        Ok(())
    }

    #[cfg(target_arch = "wasm32")]
    fn synchronize(&self) -> Result<()> {
        Err(Error::WouldBlock { what: "synchronize" })
    }

    fn memory(&self) -> MemoryStats {
        self.pool.stats()
    }

    fn empty_cache(&self) {
        self.pool.drop_cached();
        // A fault is reported by the next call that can; wgpu frees what is no longer in use when it is polled.
        if self.flush().is_ok() {
            #[cfg(not(target_arch = "wasm32"))]
            let _ = poll(&self.gpu, &self.fault);
        }
    }

    fn set_memory_limit(&self, limit_bytes: Option<u64>) {
        self.pool.set_limit(limit_bytes);
    }

    fn tuner(&self) -> Option<&Tuner> {
        Some(self.chooser.tuner())
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Drop for WgpuBackend {
    fn drop(&mut self) {
        // Buffers that were handed out may still be read by the application. A fault has nobody to go to any more.
        if self.fault.check().is_ok() {
            let _ = self.flush();
        }
        // wgpu waits for a queue when its last handle goes. Work that never ends would make that wait for ever: such a
        // device is leaked.
        if self.fault.is_stuck() {
            std::mem::forget((self.gpu.clone(), self.queue.clone()));
        }
    }
}

impl fmt::Debug for WgpuBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WgpuBackend({}, {} through {})", self.info.id, self.info.name, self.info.api)
    }
}
