//! The backend: one card, one stream, and the door [`Backend`] into them.
//!
//! A device comes from a card ([`CardEntry::open`](crate::CardEntry::open)) or from an application's context (`interop.rs`).
//! All work goes to one stream, in the order of the calls, so memory that is freed may be handed out at once: whatever
//! used it is earlier on the stream. The parts are in the other files; this one puts them together. Lock order: uploads,
//! then staging; the pool's lock is never held while another is taken.

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use naga_ptx::Target;
use polywarp_core::oracle::Subnormals;
use polywarp_core::plan::{Caps, Cooperative};
use polywarp_core::pool::{Pool, PoolOptions, Reuse};
use polywarp_core::tuner::{Chooser, Tuner};
use polywarp_core::{
    Backend, Binding, Buffer, Clock, DType, DeviceInfo, DeviceKind, Elapsed, Error, Kernel, Launched, Limits,
    MemoryStats, Op, Profiler, ReadFuture, Recorded, Recorders, Result,
};
use polywarp_shaders::wgsl::LaunchLimits;

use crate::candidates::{Work, chooser};
use crate::cards::pci_text;
use crate::driver::{Api, unavailable};
use crate::fault::{Fault, lock};
use crate::kernels::{Compiler, Kernels};
use crate::machine::Machine;
use crate::native::{Block, Card, Context, Event, EventKind, Memory, Stream};
use crate::recording::Tape;
use crate::run::Timed;
use crate::staging::StagingCache;
use crate::transfer::{Uploads, Waiter};
use crate::user::{ForeignKernels, UserKernels, launch_limits};
use crate::versions::OLDEST_CARD;

/// The environment variable that turns the pool off (`off`): every allocation is then the driver's own, of the size asked
/// for, so that compute-sanitizer sees where each one ends.
const POOL_VARIABLE: &str = "POLYWARP_CUDA_POOL";

/// How to open a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Most bytes the pool may hold, in use and cached.
    pub memory_limit_bytes: Option<u64>,
    /// How long one wait may take before the device counts as lost; `None` waits for ever.
    pub patience: Option<Duration>,
    /// How long dropping the backend waits for work that is under way (5 s; or `patience`, when that is shorter). What is
    /// not done by then, such as a kernel that never ends, keeps what it uses: memory, modules, stream and context are left
    /// to the process, and the log (level warn) says so. What outlives the backend, such as an event, is then lost.
    pub drop_patience: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options { memory_limit_bytes: None, patience: None, drop_patience: Duration::from_secs(5) }
    }
}

/// A device reached through the CUDA driver.
pub struct CudaBackend {
    info: DeviceInfo,
    caps: Caps,
    native_caps: polywarp_kernels::Caps,
    pub(crate) stream: Arc<Stream>,
    pub(crate) pool: Arc<Pool<Memory>>,
    pub(crate) kernels: Kernels,
    pub(crate) machine: Machine,
    chooser: Chooser<Work>,
    pub(crate) user_kernels: UserKernels,
    pub(crate) foreign_kernels: ForeignKernels,
    pub(crate) launch_limits: LaunchLimits,
    pub(crate) uploads: Mutex<Uploads>,
    pub(crate) upload_pieces: Arc<StagingCache>,
    pub(crate) quick_pieces: Arc<StagingCache>,
    pub(crate) sleeping_pieces: Arc<StagingCache>,
    pub(crate) waiter: Waiter,
    recorders: Arc<Recorders<Tape>>,
    pub(crate) profiler: Profiler<Timed>,
    drop_patience: Duration,
}

/// What a [`Buffer`] of this backend holds.
pub(crate) type Allocation = polywarp_core::pool::Allocation<Memory, Tape>;

impl CudaBackend {
    /// A backend in `context`, which is on `card`.
    pub(crate) fn assemble(context: &Arc<Context>, card: &Card, options: Options) -> Result<CudaBackend> {
        let id = context.fault.device().to_owned();
        if card.compute_capability < OLDEST_CARD {
            let ((major, minor), (least, _)) = (card.compute_capability, OLDEST_CARD);
            let name = &card.name;
            return Err(unavailable(format!(
                "{id} ({name}) has compute capability {major}.{minor}; kernels need {least}.0 (Volta) or newer: use it \
                 through Vulkan"
            )));
        }
        let caps = caps(&id, card);
        let native_caps = native_caps(&id, card, context.api);
        let info = device_info(&caps, card, context.api.display());
        let launch_limits = launch_limits(&id, card);
        let stream = Arc::new(Stream::new(context)?);
        let pool = Pool::new(
            Memory::new(&stream),
            PoolOptions {
                device: id,
                max_block_bytes: max_buffer_bytes(card),
                limit_bytes: options.memory_limit_bytes,
                reuse: if std::env::var_os(POOL_VARIABLE).is_some_and(|v| v == "off") {
                    Reuse::Off
                } else {
                    Reuse::Cached
                },
            },
        );
        let pool = Arc::new(pool);
        let held = Arc::downgrade(&pool);
        context.fault.tell_held(move || held.upgrade().map(|pool| pool.stats()).unwrap_or_default());
        let (major, minor) = card.compute_capability;
        Ok(CudaBackend {
            chooser: chooser(&info, &caps, &native_caps),
            info,
            caps,
            machine: Machine::new(context, native_caps.sm),
            native_caps,
            pool,
            kernels: Kernels::new(Compiler::new(context, Target::new(major, minor))),
            user_kernels: UserKernels::default(),
            foreign_kernels: ForeignKernels::default(),
            launch_limits,
            uploads: Mutex::default(),
            upload_pieces: StagingCache::new(context, EventKind::Quick),
            quick_pieces: StagingCache::new(context, EventKind::Quick),
            sleeping_pieces: StagingCache::new(context, EventKind::Sleeping),
            waiter: Waiter::default(),
            recorders: Arc::default(),
            profiler: Profiler::default(),
            drop_patience: options.patience.map_or(options.drop_patience, |most| most.min(options.drop_patience)),
            stream,
        })
    }

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
    /// [`Error::DeviceLost`], [`Error::DevicePoisoned`].
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
        start.record(&self.stream)?;
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

    fn tuner(&self) -> Option<&Tuner> {
        Some(self.chooser.tuner())
    }

    fn as_any(&self) -> &dyn Any {
        self
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

/// What planners may use.
pub(crate) fn caps(id: &str, card: &Card) -> Caps {
    Caps {
        device: id.to_owned(),
        f16: true,
        f64: true,
        i64: true,
        // `cvt.rn`.
        nearest_conversions: true,
        subgroups: Some((32, 32)),
        max_invocations: card.max_threads_per_block,
        max_workgroup_bytes: card.workgroup_bytes(),
        max_workgroups: card.max_grid,
        // Two parameters of 8 bytes each, in a block of 4 KiB.
        max_storage_buffers: 128,
        // From Volta on, which is the oldest card the compiler knows.
        cooperative: Cooperative::TENSOR_CORES.to_vec(),
        max_loop_rounds: None,
    }
}

/// What planners of the kernels in CUDA C++ may use. What a driver does not tell is taken to be little.
fn native_caps(id: &str, card: &Card, api: &Api) -> polywarp_kernels::Caps {
    let (major, minor) = card.compute_capability;
    polywarp_kernels::Caps {
        device: id.to_owned(),
        sm: 10 * major + minor,
        multiprocessors: card.multiprocessors.max(1),
        max_shared_bytes: card.workgroup_bytes(),
        shared_bytes_per_multiprocessor: card.multiprocessor_shared_bytes.max(card.max_shared_bytes),
        l2_bytes: u64::from(card.l2_bytes),
        clock_mhz: (card.clock_khz / 1000).max(1000),
        // Two transfers a clock. Drivers of cards with unified memory may tell of no bus.
        memory_bytes_per_s: (250.0 * f64::from(card.memory_clock_khz) * f64::from(card.memory_bus_bits)).max(1e11),
        tensor_maps: major >= 9 && api.cuTensorMapEncodeTiled.is_some() && api.cuTensorMapEncodeIm2col.is_some(),
    }
}

/// What users are told.
fn device_info(caps: &Caps, card: &Card, driver: String) -> DeviceInfo {
    let (major, minor) = card.compute_capability;
    let mut features = vec![format!("sm_{major}{minor}"), "f16".to_owned(), "f64".to_owned(), "i64".to_owned()];
    features.extend(["subgroups".to_owned(), format!("{} multiprocessors", card.multiprocessors)]);
    features.extend(card.ecc.then(|| "ecc".to_owned()));
    features.extend(card.is_mig().then(|| "mig".to_owned()));
    DeviceInfo {
        id: caps.device.clone(),
        name: card.name.clone(),
        api: "cuda".to_owned(),
        kind: if card.integrated { DeviceKind::Integrated } else { DeviceKind::Discrete },
        driver,
        pci_bus: Some(pci_text(card.pci)),
        memory_bytes: Some(card.memory_bytes),
        threads: None,
        limits: Limits {
            max_buffer_bytes: max_buffer_bytes(card),
            max_binding_bytes: max_buffer_bytes(card),
            max_workgroups: caps.max_workgroups,
            max_invocations_per_workgroup: caps.max_invocations,
            max_workgroup_bytes: caps.max_workgroup_bytes,
        },
        dtypes: DType::ALL.into_iter().filter(|&dtype| caps.require(dtype).is_ok()).collect(),
        features,
        // No instruction of ours flushes (naga-ptx writes `.ftz` only where the result is the same), and the harness holds
        // every op to it.
        subnormals: Subnormals::Kept,
    }
}

/// Whole four-element vectors, so that a buffer's last load stays inside of it.
fn max_buffer_bytes(card: &Card) -> u64 {
    card.memory_bytes / 16 * 16
}

/// The error of a device that cannot be made a context on.
pub(crate) fn not_opened(error: Error, id: &str, card: &Card) -> Error {
    match error {
        Error::Backend { message, .. } => unavailable(format!("{id} ({}) does not open: {message}", card.name)),
        Error::OutOfMemory { .. } => {
            unavailable(format!("{id} ({}) does not open: no memory is left on it; see nvidia-smi", card.name))
        }
        other => other,
    }
}
