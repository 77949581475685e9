//! A device shared by tensors: the checks that every backend may rely on, done once.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::operation::{Operand, Role};
use crate::tuner::Tuner;
use crate::{Backend, Buffer, DType, DeviceInfo, Error, Fit, Inputs, MemoryStats, Op, Recording, Result};

/// A handle to a device. Clones refer to the same device; work from all of them is ordered.
#[derive(Clone)]
pub struct Device(Arc<dyn Backend>);

impl Device {
    /// A device from any backend.
    pub fn new(backend: impl Backend + 'static) -> Device {
        Device(Arc::new(backend))
    }

    /// The CPU, through this library's own kernels.
    #[cfg(feature = "cpu")]
    pub fn cpu() -> Device {
        Device::new(crate::cpu::CpuBackend::new())
    }

    /// The backend itself.
    pub fn backend(&self) -> &dyn Backend {
        &*self.0
    }

    /// The backend as the concrete type `T`, when it is one.
    pub fn backend_as<T: Any>(&self) -> Option<&T> {
        self.0.as_any().downcast_ref()
    }

    /// What the device is.
    pub fn info(&self) -> &DeviceInfo {
        self.0.info()
    }

    /// The name it is chosen by: `cpu`, `wgpu:0`.
    pub fn id(&self) -> &str {
        &self.0.info().id
    }

    /// Whether both handles are one device.
    pub fn same(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether the device computes in `dtype`.
    pub fn supports(&self, dtype: DType) -> bool {
        self.info().dtypes.contains(&dtype)
    }

    /// Runs `op` on buffers of this device: every rule [`Backend::execute`] promises its implementors is checked here.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a wrong number of buffers or an output that is also an input,
    /// [`Error::ViewOutOfBounds`] for a buffer too small, and what the backend reports.
    pub fn execute(&self, op: &Op, inputs: &[&Buffer], output: &Buffer) -> Result<()> {
        let (mut read, mut written) = (0, 0);
        op.operands(&mut |operand| match operand.role {
            Role::Read => read += 1,
            Role::Write => written += 1,
        });
        if written != 1 {
            let reason = format!("{} writes {written} operands, and devices run those that write one", op.name());
            return Err(Error::InvalidArgument { what: "operation", reason });
        }
        if read != inputs.len() {
            let reason = format!("{} takes {read} buffers, got {}", op.name(), inputs.len());
            return Err(Error::InvalidArgument { what: "inputs", reason });
        }
        // Nothing is allocated here: every call comes by.
        let (mut rest, mut fits, mut is_empty) = (inputs.iter(), Ok(()), false);
        op.operands(&mut |Operand { role, spec }| {
            let buffer = match role {
                Role::Read => rest.next().copied(),
                Role::Write => Some(output),
            };
            is_empty |= role == Role::Write && spec.layout.elements() == 0;
            match buffer {
                Some(buffer) if spec.required_bytes() > buffer.size_bytes() && fits.is_ok() => {
                    let (needed, have) =
                        (spec.layout.required_elements(), buffer.size_bytes() / spec.dtype.size_bytes());
                    fits = Err(Error::ViewOutOfBounds { needed, have });
                }
                _ => {}
            }
        });
        fits?;
        if inputs.iter().any(|input| input.same(output)) {
            let reason = format!("{} cannot write to a buffer it reads; copy the input first", op.name());
            return Err(Error::InvalidArgument { what: "output", reason });
        }
        if is_empty {
            return Ok(());
        }
        self.0.execute(op, inputs, output)
    }

    /// Whether `op` fits as things stand, before anything is allocated: peak bytes, largest binding, and the splitting
    /// needed. Memory that is only cached counts as free.
    ///
    /// ```
    /// use polywarp_core::ops::Matmul;
    /// use polywarp_core::{DType, Device, Inputs, Layout, Shape, TensorSpec};
    ///
    /// let device = Device::cpu();
    /// let square = TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(&[512, 512])?));
    /// let product = Matmul::product(square, square, square).check()?.into();
    /// let fit = device.fits(&product, Inputs::Missing)?;
    /// assert!(fit.whole() && fit.peak_bytes >= 3 * 4 * 512 * 512, "{fit:?}");
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Unsupported`], [`Error::UnsupportedDType`] when the device does not compute it at any size.
    pub fn fits(&self, op: &Op, inputs: Inputs) -> Result<Fit> {
        Fit::of(self, op, inputs)
    }

    /// Records what `work` asks of this device, to be run again and again at a small part of the host's cost.
    ///
    /// Nothing runs yet: `work`'s tensors have no content before the first [`Recording::replay`], which hands them out.
    /// See [`Recording`] for an example, how to change inputs, and what cannot be recorded.
    ///
    /// # Errors
    /// What `work` returns: nothing was run then, and the device is as it was. [`Error::Recording`] inside of `work` for
    /// what cannot be recorded, and here when this thread records on this device already; [`Error::Unsupported`] where
    /// a backend cannot record; [`Error::OutOfMemory`], [`Error::DeviceLost`].
    pub fn record<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<Recording<T>> {
        Recording::record(self, work)
    }

    /// What chooses between several kernels for one op: its mode, its answers, what it found wrong. `None` on devices
    /// that have one kernel for each.
    pub fn tuner(&self) -> Option<&Tuner> {
        self.0.tuner()
    }

    /// Waits until all work given to the device is done.
    ///
    /// # Errors
    /// As [`Backend::synchronize`].
    pub fn synchronize(&self) -> Result<()> {
        self.0.synchronize()
    }

    /// Bytes held by tensors and cached for reuse.
    pub fn memory(&self) -> MemoryStats {
        self.0.memory()
    }

    /// Gives cached memory back to the driver.
    pub fn empty_cache(&self) {
        self.0.empty_cache();
    }

    /// Limits the bytes held; `None` lifts the limit.
    pub fn set_memory_limit(&self, limit_bytes: Option<u64>) {
        self.0.set_memory_limit(limit_bytes);
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({}, {})", self.id(), self.info().name)
    }
}
