//! Backends for tests that compute in a way of their own on another backend's memory.

use std::any::Any;
use std::fmt;
use std::ops::Range;

use crate::{Backend, Binding, Buffer, DeviceInfo, Elapsed, Kernel, MemoryStats, Op, ReadFuture, Recorded, Result};

/// How a [`Wrapped`] backend differs from the one inside it.
///
/// ```
/// use polywarp_core::harness::{ReferenceBackend, Wrap, Wrapped};
/// use polywarp_core::{Backend, Buffer, DType, Device, Op, Result, Tensor};
///
/// /// Forgets to compute.
/// #[derive(Debug)]
/// struct Idle(ReferenceBackend);
///
/// impl Wrap for Idle {
///     fn inner(&self) -> &dyn Backend {
///         &self.0
///     }
///     fn execute(&self, _: &Op, _: &[&Buffer], _: &[&Buffer]) -> Result<()> {
///         Ok(())
///     }
/// }
///
/// let device = Device::new(Wrapped(Idle(ReferenceBackend::default())));
/// let x = Tensor::full(&device, DType::F32, [3], 1.0)?;
/// assert_ne!(x.to_vec::<f32>()?, [1.0; 3]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
pub trait Wrap: fmt::Debug + Send + Sync + 'static {
    /// The backend that does all else.
    fn inner(&self) -> &dyn Backend;

    /// Instead of [`Backend::execute`] of the inner one.
    ///
    /// # Errors
    /// As there.
    fn execute(&self, op: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()>;
}

/// The backend that a [`Wrap`] describes: its ops, and the inner backend's memory, kernels, clock and recordings.
#[derive(Debug)]
pub struct Wrapped<W>(pub W);

impl<W: Wrap> Backend for Wrapped<W> {
    fn info(&self) -> &DeviceInfo {
        self.0.inner().info()
    }

    fn alloc(&self, size_bytes: u64) -> Result<Buffer> {
        self.0.inner().alloc(size_bytes)
    }

    fn write(&self, buffer: &Buffer, offset_bytes: u64, data: &[u8]) -> Result<()> {
        self.0.inner().write(buffer, offset_bytes, data)
    }

    fn read(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture {
        self.0.inner().read(buffer, range)
    }

    fn read_blocking(&self, buffer: &Buffer, range: Range<u64>) -> Result<Vec<u8>> {
        self.0.inner().read_blocking(buffer, range)
    }

    fn execute(&self, op: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        self.0.execute(op, inputs, outputs)
    }

    fn launch(&self, kernel: &Kernel, grid: [u32; 3], bindings: &[Binding]) -> Result<()> {
        self.0.inner().launch(kernel, grid, bindings)
    }

    fn timed(&self, work: &mut dyn FnMut() -> Result<()>) -> Result<Elapsed> {
        self.0.inner().timed(work)
    }

    fn allocated_bytes(&self, size_bytes: u64) -> u64 {
        self.0.inner().allocated_bytes(size_bytes)
    }

    fn begin_recording(&self) -> Result<()> {
        self.0.inner().begin_recording()
    }

    fn end_recording(&self) -> Result<Recorded> {
        self.0.inner().end_recording()
    }

    fn replay(&self, recorded: &Recorded) -> Result<()> {
        self.0.inner().replay(recorded)
    }

    fn flush(&self) -> Result<()> {
        self.0.inner().flush()
    }

    fn synchronize(&self) -> Result<()> {
        self.0.inner().synchronize()
    }

    fn memory(&self) -> MemoryStats {
        self.0.inner().memory()
    }

    fn empty_cache(&self) {
        self.0.inner().empty_cache();
    }

    fn set_memory_limit(&self, limit_bytes: Option<u64>) {
        self.0.inner().set_memory_limit(limit_bytes);
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}
