//! The one door into a device: [`Backend`], and what it says of itself.
//!
//! A backend allocates, moves bytes and executes ops; it never sees a tensor, and it never grows a method per op.
//! Requests that reach it are already checked: shapes, dtypes, aliasing and buffer sizes are settled by [`crate::Op`]
//! constructors and [`crate::Device`]. Adding a backend means implementing this trait and passing [`crate::harness`].

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;
use std::sync::Arc;

use serde::Serialize;

use crate::live::Ticket;
use crate::oracle::Subnormals;
use crate::tuner::Tuner;
use crate::{DType, Error, Kernel, Launched, Op, Recorded, Requests, Result};

/// What kind of processor a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// The host's processor, by this library's own kernels.
    Cpu,
    /// A GPU with its own memory.
    Discrete,
    /// A GPU that shares the host's memory.
    Integrated,
    /// A GPU lent by a hypervisor.
    Virtual,
    /// A GPU API implemented on the host's processor; never chosen silently.
    Software,
    /// The driver does not say.
    Other,
}

/// What a device can take, in its own units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Largest single allocation, bytes.
    pub max_buffer_bytes: u64,
    /// Largest range one kernel operand can span, bytes.
    pub max_binding_bytes: u64,
    /// Most workgroups of a launch along x, y, z.
    pub max_workgroups: [u32; 3],
    /// Most invocations in one workgroup.
    pub max_invocations_per_workgroup: u32,
    /// Most bytes of workgroup memory.
    pub max_workgroup_bytes: u32,
}

/// A device, as it describes itself.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceInfo {
    /// The name it is chosen by: `cpu`, `wgpu:0`.
    pub id: String,
    /// The marketing name.
    pub name: String,
    /// The API it is reached through: `cpu`, `vulkan`, `metal`, `dx12`, `gl`, `webgpu`.
    pub api: String,
    /// What kind of processor it is.
    pub kind: DeviceKind,
    /// Driver name and version.
    pub driver: String,
    /// PCI bus address, where known: the same on every route to one card.
    pub pci_bus: Option<String>,
    /// Total memory, bytes, where known.
    pub memory_bytes: Option<u64>,
    /// Hardware threads, for the CPU.
    pub threads: Option<usize>,
    /// What it can take.
    pub limits: Limits,
    /// The dtypes it computes in.
    pub dtypes: Vec<DType>,
    /// Optional features in use, by the API's own names.
    pub features: Vec<String>,
    /// What it does with subnormals.
    #[serde(skip)]
    pub subnormals: Subnormals,
}

/// Bytes on one device. Cheap to clone; freed (to the device's cache) with the last clone.
#[derive(Clone)]
pub struct Buffer {
    size_bytes: u64,
    inner: Arc<dyn Any + Send + Sync>,
    /// Its place in the device's list of tensors, where there is one.
    _ticket: Option<Arc<Ticket>>,
}

impl Buffer {
    /// A buffer whose backend-specific part is `inner`.
    pub fn new(size_bytes: u64, inner: Arc<dyn Any + Send + Sync>) -> Buffer {
        Buffer { size_bytes, inner, _ticket: None }
    }

    /// The same memory, in a list until its last clone is gone.
    pub(crate) fn with_ticket(self, ticket: Ticket) -> Buffer {
        Buffer { _ticket: Some(Arc::new(ticket)), ..self }
    }

    /// The bytes that may be used; at least what was asked for.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The backend's own part; `None` when the buffer belongs to another backend.
    pub fn downcast<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.inner.downcast_ref()
    }

    /// Whether both are the same memory.
    pub fn same(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.size_bytes)
    }
}

/// Bytes held on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryStats {
    /// Held by live buffers.
    pub in_use_bytes: u64,
    /// Largest value of `in_use_bytes` so far.
    pub peak_bytes: u64,
    /// Kept for reuse.
    pub cached_bytes: u64,
    /// The pool's limit, when one is set.
    pub limit_bytes: Option<u64>,
    /// Allocations asked of the driver so far.
    pub driver_allocations: u64,
}

/// How long something took on the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elapsed {
    /// Nanoseconds.
    pub ns: f64,
    /// Which clock measured it.
    pub clock: Clock,
}

/// Where a time was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Timestamps written by the device around the work itself.
    Device,
    /// The host's clock, submission and waiting included.
    Host,
}

/// One buffer bound to a user's kernel: `@group(group) @binding(binding)`.
#[derive(Clone, Debug)]
pub struct Binding {
    /// Bind group.
    pub group: u32,
    /// Binding within the group.
    pub binding: u32,
    /// What is bound, from `range.start` to `range.end` bytes.
    pub buffer: Buffer,
    /// The bytes visible to the kernel.
    pub range: Range<u64>,
}

/// The bytes of a read, when they arrive.
#[cfg(not(target_arch = "wasm32"))]
pub type ReadFuture = Pin<Box<dyn Future<Output = Result<Vec<u8>>> + Send>>;
/// The bytes of a read, when they arrive.
#[cfg(target_arch = "wasm32")]
pub type ReadFuture = Pin<Box<dyn Future<Output = Result<Vec<u8>>>>>;

/// A device that computes. Object safe; shared as [`crate::Device`].
///
/// Work is ordered: a call sees the effects of every earlier call on the same backend. Nothing blocks before a read,
/// [`Backend::synchronize`] or [`Backend::timed`]. Faults that surface later (a lost device) arrive at the next call.
pub trait Backend: Send + Sync + fmt::Debug {
    /// What the device is.
    fn info(&self) -> &DeviceInfo;

    /// At least `size_bytes` bytes whose content is not defined.
    ///
    /// # Errors
    /// [`Error::BufferTooBig`], [`Error::BindingTooLarge`] (never retryable), [`Error::OutOfMemory`] (retryable),
    /// [`Error::DeviceLost`].
    fn alloc(&self, size_bytes: u64) -> Result<Buffer>;

    /// Copies `data` to `offset_bytes` of `buffer`. Any alignment.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::Backend`].
    fn write(&self, buffer: &Buffer, offset_bytes: u64, data: &[u8]) -> Result<()>;

    /// The bytes in `range` of `buffer` after all earlier work, and before all later work. Any alignment. The call of a long read
    /// may wait for its first part.
    ///
    /// # Errors
    /// The future yields [`Error::DeviceLost`], [`Error::OutOfMemory`], [`Error::Backend`].
    fn read(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture;

    /// [`Backend::read`], waited for.
    ///
    /// # Errors
    /// As [`Backend::read`]; [`Error::WouldBlock`] in a browser.
    fn read_blocking(&self, buffer: &Buffer, range: Range<u64>) -> Result<Vec<u8>>;

    /// Runs `op` on buffers in the order of [`Operation::operands`](crate::Operation::operands): `inputs` are read, `outputs` written
    /// or updated. No output shares its buffer with another operand, and one at least has elements. An error means that
    /// nothing was enqueued.
    ///
    /// # Errors
    /// [`Error::Unsupported`], [`Error::UnsupportedDType`] before anything is enqueued; [`Error::OutOfMemory`] for
    /// scratch space, [`Error::DeviceLost`].
    fn execute(&self, op: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()>;

    /// Runs a user's kernel over `grid` workgroups (CUDA: blocks). WGSL and SPIR-V run on every GPU, PTX, CUDA C++ and machine code
    /// for CUDA on CUDA devices.
    ///
    /// Some drivers end the loops of an invocation after so many rounds, nested ones counted together, and go on with what there is
    /// by then (Mesa's llvmpipe: 65,535). There a kernel is refused whose text tells that it makes more, and a warning in the log
    /// names the limit, once for a kernel, where the text does not tell: keep such loops short, by more invocations or launches.
    ///
    /// # Errors
    /// [`Error::Unsupported`] where the device cannot run shaders, or would end the kernel's loops; [`Error::Shader`], [`Error::ShaderTooComplex`],
    /// [`Error::InvalidArgument`] for an entry point or a define that the shader lacks, [`Error::Binding`],
    /// [`Error::DispatchTooLarge`], [`Error::ResourceLimit`]; [`Error::BackendUnavailable`] for CUDA C++ where NVRTC is not found,
    /// [`Error::DriverTooOld`] for code newer than the driver.
    fn launch(&self, kernel: &Kernel, grid: [u32; 3], bindings: &[Binding]) -> Result<()>;

    /// Runs `work` and says how long the device took for what it enqueued on this backend.
    ///
    /// # Errors
    /// What `work` returns; [`Error::DeviceLost`], [`Error::WouldBlock`].
    fn timed(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Elapsed>;

    /// Runs `work`, waits for what it enqueued, and says how long each launch took; see [`crate::Device::profile`].
    ///
    /// # Errors
    /// What `work` returns; as [`Backend::timed`]; [`Error::Unsupported`] where launches cannot be timed one by one.
    fn profile(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<(Vec<Launched>, Clock)> {
        let _ = work;
        Err(Error::Unsupported {
            device: self.info().id.clone(),
            what: "a profile".to_owned(),
            reason: "its backend does not time launches one by one; time the work as a whole".to_owned(),
        })
    }

    /// The bytes that [`Backend::alloc`] of `size_bytes` takes from the pool: its rounding.
    fn allocated_bytes(&self, size_bytes: u64) -> u64 {
        size_bytes
    }

    /// Sizes in bytes of the scratch buffers that [`Backend::execute`] would allocate for `op`; nothing is allocated.
    ///
    /// # Errors
    /// What [`Backend::execute`] would refuse `op` with before it allocates.
    fn scratch_bytes(&self, op: &Op) -> Result<Vec<u64>> {
        let _ = op;
        Ok(Vec::new())
    }

    /// Starts recording: until [`Backend::end_recording`], what *the calling thread* gives to [`Backend::execute`] and
    /// [`Backend::launch`] of this backend is checked and prepared as ever, but recorded instead of run.
    ///
    /// * Other threads' calls run as ever and are not recorded. Whatever replays later is ordered by the call that
    ///   replays it, not by when it was recorded.
    /// * [`Backend::alloc`] works. Buffers that recorded work uses (scratch space included) are kept for the recording:
    ///   their memory goes back to the pool when the recording and every [`Buffer`] are dropped. Memory of buffers that
    ///   were allocated *and* dropped by this thread inside the recording may serve later allocations inside it.
    /// * What a replay could not repeat is refused by [`Error::Recording`] and changes nothing, neither on the device nor
    ///   in the recording: [`Backend::write`], [`Backend::read`], [`Backend::read_blocking`], [`Backend::timed`],
    ///   [`Backend::synchronize`], [`Backend::replay`] and a second `begin_recording`. [`Backend::flush`],
    ///   [`Backend::memory`] and [`Backend::empty_cache`] are allowed and not recorded.
    /// * A call that fails is not recorded; what was recorded before stays.
    ///
    /// [`crate::Recorders`] keeps such per-thread state. Every backend of this library implements the three methods;
    /// these defaults are for backends elsewhere that cannot.
    ///
    /// # Errors
    /// [`Error::Recording`] when this thread records on this backend already; [`Error::Unsupported`].
    fn begin_recording(&self) -> Result<()> {
        Err(Error::Unsupported {
            device: self.info().id.clone(),
            what: "recording".to_owned(),
            reason: "its backend does not implement it; run the operations directly".to_owned(),
        })
    }

    /// Ends the calling thread's recording and prepares it for replaying. The thread no longer records afterwards, even
    /// when this fails.
    ///
    /// # Errors
    /// [`Error::Recording`] when this thread does not record; [`Error::OutOfMemory`], [`Error::DeviceLost`].
    fn end_recording(&self) -> Result<Recorded> {
        Err(crate::recording::not_begun(&self.info().id))
    }

    /// Enqueues all work of `recorded`, in its order, on its own buffers, after all earlier work; other threads' work
    /// does not come between. It may be called again before the device is done, and from any thread.
    ///
    /// # Errors
    /// [`Error::Recording`] when this thread records; [`Error::DeviceMismatch`] for another backend's recording;
    /// [`Error::DeviceLost`].
    fn replay(&self, recorded: &Recorded) -> Result<()> {
        let _ = recorded;
        Err(crate::recording::foreign_recording(&self.info().id))
    }

    /// Hands gathered work to the device without waiting.
    ///
    /// # Errors
    /// [`Error::DeviceLost`].
    fn flush(&self) -> Result<()>;

    /// Waits until all earlier work is done.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::WouldBlock`] in a browser.
    fn synchronize(&self) -> Result<()>;

    /// Bytes held.
    fn memory(&self) -> MemoryStats;

    /// Gives cached memory back to the driver.
    fn empty_cache(&self);

    /// Sets or lifts the limit on bytes held (in use and cached).
    fn set_memory_limit(&self, limit_bytes: Option<u64>);

    /// What was asked of this backend while it was profiled, on backends that can be: [`Backend::launch`] notes there what it launches; operations
    /// and replays are noted by their callers.
    fn requests(&self) -> Option<&Requests> {
        None
    }

    /// What chooses between several kernels for one op, on backends that have several.
    fn tuner(&self) -> Option<&Tuner> {
        None
    }

    /// For what only one backend has: downcast to the concrete type.
    fn as_any(&self) -> &dyn Any;
}

/// The error of a backend given a buffer that another backend made.
pub fn foreign_buffer(device: &str) -> Error {
    Error::DeviceMismatch { op: "execute", lhs: device.to_owned(), rhs: "another backend's buffer".to_owned() }
}
