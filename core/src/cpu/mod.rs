//! The CPU as a device: every op, multi-threaded and vectorised, with this library's own kernels.
//!
//! It is the denominator of every published speedup, so it is written to be fast, and the only device that is always
//! there. Matrix products run on crate `gemm`, threads are of rayon's current pool; everything else is here. Work is done
//! when a call returns. Not here: the float64 oracle ([`crate::oracle`]), which is naive on purpose.
//!
//! | to find | look in |
//! |---|---|
//! | memory and its cache | `memory.rs` |
//! | working memory of ops | `scratch.rs` |
//! | bytes as elements, views, blocks of steps | `elements.rs`, `view.rs`, `lanes.rs` |
//! | recording and replaying | `recording.rs` |
//! | vector loops, threads | `simd.rs`, `parallel.rs` |
//! | exp, sin, erf ... | `vmath/` |
//! | sums, extrema, products of matrices, random bits | `reduce.rs`, `arg_reduce.rs`, `gemm.rs`, `philox.rs` |

pub(crate) mod arg_reduce;
pub(crate) mod elements;
pub(crate) mod gemm;
pub(crate) mod lanes;
mod memory;
#[allow(
    unsafe_code,
    reason = "threads take chunks of one slice by number; each is taken once, and they do not overlap"
)]
pub(crate) mod parallel;
pub(crate) mod philox;
mod recording;
pub(crate) mod reduce;
pub(crate) mod scratch;
pub(crate) mod simd;
pub(crate) mod softmax_rows;
#[cfg(test)]
mod ulp;
pub(crate) mod view;
pub(crate) mod vmath;

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;
use std::time::Instant;

use crate::graph::kept;
use crate::operation::HostError;
use crate::oracle::Subnormals;
use crate::{
    Backend, Binding, Buffer, Clock, DType, Device, DeviceInfo, DeviceKind, Elapsed, Error, Kernel, Launched, Limits,
    MemoryStats, Op, Part, ReadFuture, Recorded, Requests, Result,
};
use memory::{HostBuffer, Loan, Pool, Ran};
use recording::{Steps, Tape};

/// The host's processor as a [`Backend`].
#[derive(Debug)]
pub struct CpuBackend {
    info: DeviceInfo,
    pool: Pool,
    requests: Requests,
}

impl Device {
    /// The CPU, through this library's own kernels.
    pub fn cpu() -> Device {
        Device::new(CpuBackend::new())
    }
}

impl CpuBackend {
    /// The CPU, with as many threads as rayon's global pool has.
    pub fn new() -> CpuBackend {
        let memory_bytes = memory::host_memory_bytes();
        let max = memory_bytes.unwrap_or(1 << 46);
        let info = DeviceInfo {
            id: "cpu".to_owned(),
            name: cpu_name(),
            api: "cpu".to_owned(),
            kind: DeviceKind::Cpu,
            driver: format!("polywarp {} ({})", env!("CARGO_PKG_VERSION"), simd::instruction_set()),
            pci_bus: None,
            memory_bytes,
            threads: Some(parallel::pool_threads()),
            limits: Limits {
                max_buffer_bytes: max,
                max_binding_bytes: max,
                max_workgroups: [u32::MAX; 3],
                max_invocations_per_workgroup: 1,
                max_workgroup_bytes: 0,
            },
            dtypes: DType::ALL.to_vec(),
            features: Vec::new(),
            subnormals: Subnormals::Kept,
        };
        CpuBackend { info, pool: Pool::new(max), requests: Requests::default() }
    }

    /// Makes the system refuse the next `count` allocations of tensors' memory: for tests of what follows.
    pub fn inject_out_of_memory(&self, count: u32) {
        self.pool.inject_failures(count);
    }

    fn host<'a>(&self, buffer: &'a Buffer) -> Result<&'a Arc<HostBuffer>> {
        buffer.downcast().map(Loan::host).ok_or_else(|| crate::foreign_buffer(&self.info.id))
    }
}

impl Default for CpuBackend {
    fn default() -> CpuBackend {
        CpuBackend::new()
    }
}

impl Backend for CpuBackend {
    fn info(&self) -> &DeviceInfo {
        &self.info
    }

    fn alloc(&self, size_bytes: u64) -> Result<Buffer> {
        self.pool.alloc(size_bytes, &self.info.id)
    }

    fn write(&self, buffer: &Buffer, offset_bytes: u64, data: &[u8]) -> Result<()> {
        self.pool.tapes().refuse_write(&self.info.id)?;
        let range = checked_range(buffer, offset_bytes..offset_bytes.saturating_add(data.len() as u64))?;
        self.host(buffer)?.write().bytes_mut()[range].copy_from_slice(data);
        Ok(())
    }

    fn read(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture {
        let bytes = self.read_blocking(buffer, range);
        Box::pin(std::future::ready(bytes))
    }

    fn read_blocking(&self, buffer: &Buffer, range: Range<u64>) -> Result<Vec<u8>> {
        self.pool.tapes().refuse_read(&self.info.id)?;
        let range = checked_range(buffer, range)?;
        Ok(self.host(buffer)?.read().bytes()[range].to_vec())
    }

    fn execute(&self, op: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        let hosts = inputs.iter().map(|b| self.host(b)).collect::<Result<Vec<_>>>()?;
        let outputs = outputs.iter().map(|b| self.host(b)).collect::<Result<Vec<_>>>()?;
        let tapes = self.pool.tapes();
        if tapes.recording() {
            let kept = |hosts: Vec<&Arc<HostBuffer>>| hosts.into_iter().cloned().collect();
            tapes.with(|tape| tape.record(op, kept(hosts), kept(outputs)));
        } else {
            run(op, &hosts, &outputs, &self.pool, &self.info.id)?;
        }
        Ok(())
    }

    fn launch(&self, kernel: &Kernel, _grid: [u32; 3], _bindings: &[Binding]) -> Result<()> {
        kernel.refuse_cuda(&self.info.id)?;
        Err(Error::Unsupported {
            device: self.info.id.clone(),
            what: "running shaders".to_owned(),
            reason: "it has no shader compiler; use a wgpu device (software Vulkan runs on any CPU)".to_owned(),
        })
    }

    fn timed(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Elapsed> {
        self.pool.tapes().refuse_timed(&self.info.id)?;
        let start = Instant::now();
        work()?;
        Ok(Elapsed { ns: start.elapsed().as_secs_f64() * 1e9, clock: Clock::Host })
    }

    fn profile(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<(Vec<Launched>, Clock)> {
        self.pool.tapes().refuse_timed(&self.info.id)?;
        let start = Instant::now();
        let ran = self.pool.profiler().during(work)?;
        let launches = ran.into_iter().map(|Ran { part, routine, start: began, ns }| Launched {
            part,
            kernel: routine.into(),
            grid: [0; 3],
            start_ns: began.saturating_duration_since(start).as_secs_f64() * 1e9,
            ns,
        });
        Ok((launches.collect(), Clock::Host))
    }

    fn allocated_bytes(&self, size_bytes: u64) -> u64 {
        memory::allocated_bytes(size_bytes)
    }

    fn begin_recording(&self) -> Result<()> {
        self.pool.tapes().begin(&self.info.id, Tape::new())
    }

    fn end_recording(&self) -> Result<Recorded> {
        let steps = self.pool.tapes().end(&self.info.id)?.finish(self.pool.clone());
        Ok(Recorded::new(steps.len(), steps))
    }

    fn replay(&self, recorded: &Recorded) -> Result<()> {
        self.pool.tapes().refuse_replay(&self.info.id)?;
        let steps = recorded.downcast::<Steps>().filter(|steps| steps.belongs_to(&self.pool));
        steps.ok_or_else(|| crate::foreign_recording(&self.info.id))?.run(&self.info.id)
    }

    fn flush(&self) -> Result<()> {
        Ok(()) // nothing is ever pending
    }

    fn synchronize(&self) -> Result<()> {
        self.pool.tapes().refuse_synchronize(&self.info.id) // nothing is ever pending
    }

    fn memory(&self) -> MemoryStats {
        self.pool.stats()
    }

    fn empty_cache(&self) {
        kept::forget();
        self.pool.empty_cache();
    }

    fn set_memory_limit(&self, limit_bytes: Option<u64>) {
        self.pool.set_limit(limit_bytes);
    }

    fn requests(&self) -> Option<&Requests> {
        Some(&self.requests)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

/// Runs a checked `op`; once more without the pool's cache where working memory is short. `device` is for errors.
fn run<H: AsRef<HostBuffer>>(op: &Op, inputs: &[H], outputs: &[H], pool: &Pool, device: &str) -> Result<()> {
    // Every thread takes its locks in the order of their addresses, so that none waits for one that waits for it; and one of each: a
    // second read lock of the same buffer could wait for a writer that waits for the first.
    let read = inputs.iter().map(|host| (host.as_ref(), None));
    let written = outputs.iter().enumerate().map(|(number, host)| (host.as_ref(), Some(number)));
    let mut hosts: Vec<(&HostBuffer, Option<usize>)> = read.chain(written).collect();
    hosts.sort_by_key(|(host, _)| std::ptr::from_ref(*host));
    hosts.dedup_by(|a, b| std::ptr::eq(a.0, b.0));
    let (mut reading, mut writing) = (Vec::with_capacity(hosts.len()), Vec::with_capacity(outputs.len()));
    for (host, output) in hosts {
        match output {
            None => reading.push((host, host.read())),
            Some(number) => writing.push((number, host.write())),
        }
    }
    let bytes_of = |host: &H| {
        let held = reading.iter().find(|(held, _)| std::ptr::eq(*held, host.as_ref()));
        held.map(|(_, guard)| guard.bytes())
    };
    let sources: Vec<&[u8]> = inputs.iter().filter_map(bytes_of).collect();
    writing.sort_unstable_by_key(|(number, _)| *number);
    let mut targets: Vec<&mut [u8]> = writing.iter_mut().map(|(_, guard)| guard.bytes_mut()).collect();
    let mut execute = || op.host(&sources, &mut targets);
    let start = pool.profiler().is_on().then(Instant::now);
    let outcome = match execute() {
        Err(HostError::OutOfMemory { .. }) => {
            kept::forget();
            pool.empty_cache();
            execute()
        }
        outcome => outcome,
    };
    if let Some(start) = start {
        let ns = start.elapsed().as_secs_f64() * 1e9;
        let part = match Part::current() {
            Part { number: 0, .. } => Part::of(op), // a step of a replay
            part => part,
        };
        pool.profiler().note(Ran { part, routine: op.name(), start, ns });
    }
    outcome.map_err(|error| match error {
        HostError::OutOfMemory { bytes } => pool.out_of_memory(bytes, device),
        HostError::NoRoutine => no_routine(op, device),
    })
}

/// Why `op` does not run here: a graph that computes nothing right says what is wrong with it.
fn no_routine(op: &Op, device: &str) -> Error {
    let graph = op.decompose().and_then(|graph| match graph {
        Some(graph) => graph.check(op.name(), &op.inputs(), &op.outputs()),
        None => Ok(()),
    });
    graph.err().unwrap_or_else(|| Error::Unsupported {
        device: device.to_owned(),
        what: op.name().to_owned(),
        reason: "the operation has no routine for the CPU (`Operation::host`); use a GPU".to_owned(),
    })
}

/// `range` as host indices, when it lies within the buffer.
fn checked_range(buffer: &Buffer, range: Range<u64>) -> Result<Range<usize>> {
    if range.start > range.end || range.end > buffer.size_bytes() {
        return Err(Error::ViewOutOfBounds { needed: range.end, have: buffer.size_bytes() });
    }
    Ok(range.start as usize..range.end as usize)
}

/// The processor's marketing name, where the system tells.
fn cpu_name() -> String {
    let listed = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let name = listed.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
    name.map_or_else(|| format!("{} CPU", std::env::consts::ARCH), |(_, name)| name.trim().to_owned())
}
