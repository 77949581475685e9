//! The door [`Backend`] into a device: each call is handed to the file that does it.
//!
//! | call | file |
//! |---|---|
//! | `write`, `read`, `read_blocking` | `transfer.rs` |
//! | `execute`, `scratch_bytes` | `candidates.rs` says how an op is computed, `run.rs` launches it |
//! | `launch` | `launch.rs` |
//! | `begin_recording`, `end_recording`, `replay` | `recording.rs` |

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use polywarp_core::tuner::Tuner;
use polywarp_core::{
    Backend, Binding, Buffer, Clock, DeviceInfo, Elapsed, Kernel, Launched, MemoryStats, Op, ReadFuture, Recorded,
    Requests, Result,
};

use crate::native::{Event, EventKind};
use crate::state::CudaBackend;
use crate::tape::Timed;

impl Backend for CudaBackend {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn alloc(&self, size_bytes: u64) -> Result<Buffer> {
        self.fault().check()?;
        Ok(Buffer::new(size_bytes, Arc::new(self.allocate(size_bytes)?)))
    }

    fn write(&self, buffer: &Buffer, offset_bytes: u64, data: &[u8]) -> Result<()> {
        self.write_bytes(buffer, offset_bytes, data)
    }

    fn read(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture {
        self.read_later(buffer, range)
    }

    fn read_blocking(&self, buffer: &Buffer, range: Range<u64>) -> Result<Vec<u8>> {
        self.read_now(buffer, range)
    }

    fn execute(&self, op: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        self.fault().check()?;
        self.chooser.execute(self, op, inputs, outputs)
    }

    fn launch(&self, kernel: &Kernel, grid: [u32; 3], bindings: &[Binding]) -> Result<()> {
        self.run_user(kernel, grid, bindings)
    }

    fn timed(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Elapsed> {
        self.recorders.refuse_timed(self.id())?;
        let context = self.stream.context();
        let event = || self.with_room(|| Event::new(context, EventKind::Timing));
        let (start, end) = (event()?, event()?);
        start.record(&self.stream)?;
        work()?;
        end.record(&self.stream)?;
        end.wait("timed")?;
        Ok(Elapsed { ns: start.ns_until(&end)?, clock: Clock::Device })
    }

    fn profile(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<(Vec<Launched>, Clock)> {
        self.recorders.refuse_timed(self.id())?;
        let start = self.with_room(|| Event::new(self.stream.context(), EventKind::Timing))?;
        // Waited for, so that the device's zero is not behind the host's.
        start.record(&self.stream)?;
        start.wait("profile")?;
        let timed = self.profiler.during(work)?;
        self.stream.synchronize("profile")?;
        let launched = |timed: Timed| {
            let (start_ns, ns) = (start.ns_until(&timed.start)?, timed.start.ns_until(&timed.end)?);
            Ok(Launched { part: timed.part, kernel: timed.kernel.name.as_str().into(), grid: timed.grid, start_ns, ns })
        };
        Ok((timed.into_iter().map(launched).collect::<Result<_>>()?, Clock::Device))
    }

    fn allocated_bytes(&self, size_bytes: u64) -> u64 {
        self.pool.allocated_bytes(size_bytes)
    }

    fn scratch_bytes(&self, op: &Op) -> Result<Vec<u64>> {
        self.chooser.scratch_bytes(self, op)
    }

    fn begin_recording(&self) -> Result<()> {
        self.start_recording()
    }

    fn end_recording(&self) -> Result<Recorded> {
        self.finish_recording()
    }

    fn replay(&self, recorded: &Recorded) -> Result<()> {
        self.replay_recorded(recorded)
    }

    fn flush(&self) -> Result<()> {
        self.fault().check() // the driver starts work when it is given
    }

    fn synchronize(&self) -> Result<()> {
        self.recorders.refuse_synchronize(self.id())?;
        self.stream.synchronize("synchronize")
    }

    fn memory(&self) -> MemoryStats {
        self.pool.stats()
    }

    fn empty_cache(&self) {
        self.pool.drop_cached();
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
