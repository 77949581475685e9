//! A device shared by tensors: the checks that every backend may rely on, done once.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::faults::Faults;
use crate::ledger::Ledger;
use crate::operation::Operand;
use crate::tuner::Tuner;
use crate::{Backend, Buffer, DType, DeviceInfo, Error, Memory, Op, Part, Requests, Result};

/// A handle to a device. Clones refer to the same device; work from all of them is ordered.
#[derive(Clone)]
pub struct Device(Arc<Shared<dyn Backend>>);

/// What handles of one device share.
struct Shared<B: ?Sized> {
    ledger: Ledger,
    faults: Faults,
    backend: B,
}

impl Device {
    /// A device from any backend.
    pub fn new(backend: impl Backend + 'static) -> Device {
        Device(Arc::new(Shared { ledger: Ledger::default(), faults: Faults::default(), backend }))
    }

    /// The backend itself.
    pub fn backend(&self) -> &dyn Backend {
        &self.0.backend
    }

    /// Its list of tensors.
    pub(crate) fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    /// What checks of positions found.
    pub(crate) fn faults(&self) -> &Faults {
        &self.0.faults
    }

    /// The backend as the concrete type `T`, when it is one.
    pub fn backend_as<T: Any>(&self) -> Option<&T> {
        self.backend().as_any().downcast_ref()
    }

    /// What the device is.
    pub fn info(&self) -> &DeviceInfo {
        self.backend().info()
    }

    /// The name it is chosen by: `cpu`, `wgpu:0`.
    pub fn id(&self) -> &str {
        &self.backend().info().id
    }

    /// Whether both handles are one device.
    pub fn same(&self, other: &Device) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether the device computes in `dtype`.
    pub fn supports(&self, dtype: DType) -> bool {
        self.info().dtypes.contains(&dtype)
    }

    /// Runs `op` on buffers of this device: every rule that [`Backend::execute`] promises its implementors is checked here.
    /// `inputs` are the operands read, `outputs` those written or updated, each in the operation's order.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a wrong number of buffers or an output that is also another operand,
    /// [`Error::ViewOutOfBounds`] for a buffer too small, and what the backend reports.
    pub fn execute(&self, op: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        // Nothing is allocated here: every call comes by.
        let (mut read, mut written, mut is_ordered) = (0, 0, true);
        let (mut fits, mut is_empty) = (Ok(()), true);
        op.operands(&mut |Operand { role, spec }| {
            let buffer = if role.is_written() {
                is_empty &= spec.layout.elements() == 0;
                written += 1;
                outputs.get(written - 1)
            } else {
                is_ordered &= written == 0;
                read += 1;
                inputs.get(read - 1)
            };
            if let Some(buffer) = buffer
                && spec.required_bytes() > buffer.size_bytes()
                && fits.is_ok()
            {
                let (needed, have) = (spec.layout.required_elements(), buffer.size_bytes() / spec.dtype.size_bytes());
                fits = Err(Error::ViewOutOfBounds { needed, have });
            }
        });
        if written == 0 || !is_ordered {
            let reason = if written == 0 {
                "writes no operand"
            } else {
                "names an operand that it reads after one that it writes"
            };
            return Err(Error::InvalidArgument { what: "operation", reason: format!("{} {reason}", op.name()) });
        }
        for (what, count, given) in [("inputs", read, inputs.len()), ("outputs", written, outputs.len())] {
            if count != given {
                let reason = format!("{} takes {count} buffers as {what}, got {given}", op.name());
                return Err(Error::InvalidArgument { what, reason });
            }
        }
        fits?;
        for (at, output) in outputs.iter().enumerate() {
            if inputs.iter().any(|input| input.same(output)) {
                let reason = format!("{} cannot write to a buffer it reads; copy the input first", op.name());
                return Err(Error::InvalidArgument { what: "output", reason });
            }
            if outputs[..at].iter().any(|other| other.same(output)) {
                let reason = format!("{} cannot write two operands to one buffer (output {at} and another)", op.name());
                return Err(Error::InvalidArgument { what: "output", reason });
            }
        }
        if is_empty {
            return Ok(());
        }
        let running = Part::begin(op);
        let requests = running.as_ref().and_then(|_| self.backend().requests());
        let start = requests.and_then(Requests::begin);
        self.backend().execute(op, inputs, outputs).map_err(|error| self.ledger().explained(error))?;
        if let Some(requests) = requests {
            requests.end(start, Part::current(), op.name());
        }
        Ok(())
    }

    /// What chooses between several kernels for one op: its mode, its answers, what it found wrong. `None` on devices
    /// that have one kernel for each.
    pub fn tuner(&self) -> Option<&Tuner> {
        self.backend().tuner()
    }

    /// Waits until all work given to the device is done.
    ///
    /// # Errors
    /// As [`Backend::synchronize`].
    pub fn synchronize(&self) -> Result<()> {
        self.backend().synchronize()
    }

    /// Bytes held and kept for reuse, and from the first [`Device::tagged`] on those of tensors by tag; [`Device::live_tensors`] has each of them.
    pub fn memory(&self) -> Memory {
        Memory { stats: self.backend().memory(), tags: self.ledger().tags() }
    }

    /// Gives cached memory back to the driver.
    pub fn empty_cache(&self) {
        self.backend().empty_cache();
    }

    /// Limits the bytes held; `None` lifts the limit.
    pub fn set_memory_limit(&self, limit_bytes: Option<u64>) {
        self.backend().set_memory_limit(limit_bytes);
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Device({}, {})", self.id(), self.info().name)
    }
}
