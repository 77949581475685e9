//! The door [`Backend`] into a wgpu device of ours, which hands on to the files that do the work.
//!
//! How one is made is in `open.rs`. Faults that wgpu reports asynchronously arrive by the handlers of devices opened here; an
//! application that brought its own keeps its own, and calls [`WgpuBackend::mark_lost`] or lets the next wait find out. What a
//! device consists of is in `state.rs`. Lock order: the stream's, then the pool's.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use polywarp_core::tuner::Tuner;
use polywarp_core::{
    Backend, Binding, Buffer, Clock, DeviceInfo, Elapsed, Error, Kernel, Launched, MemoryStats, Op, ReadFuture,
    Recorded, Requests, Result,
};

use crate::fault::lock;
use crate::state::WgpuBackend;
use crate::tape::Allocation;
#[cfg(not(target_arch = "wasm32"))]
use crate::wait::{is_lost, poll, wait};

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

    fn requests(&self) -> Option<&Requests> {
        Some(&self.requests)
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
