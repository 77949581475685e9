//! The one door into a device: [`Backend`]. What a device says of itself is in `info.rs`.
//!
//! A backend allocates, moves bytes and executes ops; it never sees a tensor, and it never grows a method per op.
//! Requests that reach it are already checked: shapes, dtypes, aliasing and buffer sizes are settled by [`crate::Op`]
//! constructors and [`crate::Device`]. Adding a backend means implementing this trait and passing [`crate::harness`].

use std::any::Any;
use std::fmt;
use std::future::Future;
use std::ops::Range;
use std::pin::Pin;

use crate::tuner::Tuner;
use crate::{
    Binding, Buffer, Clock, DeviceInfo, Elapsed, Error, Kernel, Launched, MemoryStats, Op, Recorded, Requests, Result,
};

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
        Err(crate::recorders::not_begun(&self.info().id))
    }

    /// Enqueues all work of `recorded`, in its order, on its own buffers, after all earlier work; other threads' work
    /// does not come between. It may be called again before the device is done, and from any thread.
    ///
    /// # Errors
    /// [`Error::Recording`] when this thread records; [`Error::DeviceMismatch`] for another backend's recording;
    /// [`Error::DeviceLost`].
    fn replay(&self, recorded: &Recorded) -> Result<()> {
        let _ = recorded;
        Err(crate::recorders::foreign_recording(&self.info().id))
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
