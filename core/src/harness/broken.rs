//! Deliberately wrong devices: the proof that the harness can fail.
//!
//! [`broken`] wraps any device, lets it compute, and then damages the result the way real kernels go wrong. Each
//! [`Fault`] must be caught by [`super::run`]; `core/tests/suite/harness_can_fail.rs` demands it, and a third party can demand
//! it on its own backend.

use std::sync::atomic::{AtomicU64, Ordering};

use super::values::encode;
use super::{Wrap, Wrapped};
use crate::operation::Role;
use crate::{Backend, Buffer, Device, Op, Result, Scalar, TensorSpec};

/// One way a kernel goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// None: the device as it is.
    None,
    /// The byte before the result is written.
    BeforeStart,
    /// The last term of every matrix product is left out.
    DropsProduct,
    /// NaN results become zero, as under fast-math.
    FastMath,
    /// The first input is written to.
    InputChanged,
    /// f32 results carry the precision of bf16.
    LowPrecision,
    /// One element in the middle is off by one part in a thousand (integers: by one).
    MiddleElement,
    /// Nothing is computed, and the call succeeds.
    NothingDone,
    /// The byte after the result is written.
    PastEnd,
    /// The last element also takes in the one after the input's view.
    ReadsPadding,
    /// The lowest bit of the first element depends on how often the device was called.
    Unrepeatable,
    /// The last element is not written.
    TailNotWritten,
    /// The last element is that before it.
    TailOffByOne,
    /// Elements from the last multiple of 64 on are those of the tile before (a missing barrier).
    TileStale,
    /// An operand to be updated stays as it was.
    UpdateIgnored,
    /// Updates are made twice, as by a launch that is repeated.
    UpdatedTwice,
    /// Of several results the first alone is written.
    SecondOutputStale,
}

impl Fault {
    /// Every fault, but none.
    pub const ALL: [Fault; 16] = [
        Fault::BeforeStart,
        Fault::DropsProduct,
        Fault::FastMath,
        Fault::InputChanged,
        Fault::LowPrecision,
        Fault::MiddleElement,
        Fault::NothingDone,
        Fault::PastEnd,
        Fault::ReadsPadding,
        Fault::Unrepeatable,
        Fault::TailNotWritten,
        Fault::TailOffByOne,
        Fault::TileStale,
        Fault::UpdateIgnored,
        Fault::UpdatedTwice,
        Fault::SecondOutputStale,
    ];
}

/// `device`, but it commits `fault` after everything it computes.
pub fn broken(device: Device, fault: Fault) -> Device {
    Device::new(Wrapped(Broken { inner: device, fault, calls: AtomicU64::new(0) }))
}

#[derive(Debug)]
struct Broken {
    inner: Device,
    fault: Fault,
    calls: AtomicU64,
}

impl Broken {
    /// Spoils one output, which held `before`.
    fn damage(&self, op: &Op, inputs: &[&Buffer], (out, output): (TensorSpec, &Buffer), before: &[u8]) -> Result<()> {
        let size = out.dtype.size_bytes();
        let count = out.layout.elements();
        let backend = self.inner();
        let after = backend.read_blocking(output, 0..output.size_bytes())?;
        let place = |i: u64| (out.layout.index_of(i) * size) as usize;
        let bytes = |i: u64| &after[place(i)..place(i) + size as usize];
        let put = |i: u64, bytes: &[u8]| backend.write(output, place(i) as u64, bytes);
        let put_value = |i: u64, value: Scalar| {
            let mut bytes = vec![0; size as usize];
            encode(value, out.dtype, &mut bytes);
            put(i, &bytes)
        };
        let value = |i: u64| Scalar::from_le_bytes(bytes(i), out.dtype);
        let last = count - 1;
        match self.fault {
            Fault::None | Fault::DropsProduct | Fault::NothingDone | Fault::UpdatedTwice => Ok(()),
            // Those of other outputs are put back by `execute`.
            Fault::UpdateIgnored | Fault::SecondOutputStale => Ok(()),
            Fault::BeforeStart => match place(0).checked_sub(1) {
                Some(at) => backend.write(output, at as u64, &[!after[at]]),
                None => Ok(()),
            },
            Fault::PastEnd => {
                let at = out.required_bytes();
                after.get(at as usize).map_or(Ok(()), |&byte| backend.write(output, at, &[!byte]))
            }
            Fault::FastMath => (0..count).filter(|&i| value(i).is_nan()).try_for_each(|i| put_value(i, Scalar::F(0.0))),
            Fault::InputChanged => match inputs.first() {
                Some(input) => {
                    let byte = backend.read_blocking(input, 0..1)?;
                    backend.write(input, 0, &[!byte[0]])
                }
                None => Ok(()),
            },
            Fault::LowPrecision if out.dtype == crate::DType::F32 => {
                (0..count).try_for_each(|i| put_value(i, value(i).cast(crate::DType::BF16)))
            }
            Fault::LowPrecision => Ok(()),
            Fault::MiddleElement => match value(count / 2) {
                Scalar::F(x) => put_value(count / 2, Scalar::F(x * 1.001)),
                Scalar::I(x) => put_value(count / 2, Scalar::I(x ^ 1)),
                Scalar::U(x) => put_value(count / 2, Scalar::U(x ^ 1)),
            },
            Fault::ReadsPadding => self.read_padding(op, inputs, value(last), |value| put_value(last, value)),
            Fault::Unrepeatable => {
                let mut first = bytes(0).to_vec();
                first[0] ^= (self.calls.load(Ordering::Relaxed) & 1) as u8;
                put(0, &first)
            }
            Fault::TailNotWritten => put(last, &before[place(last)..place(last) + size as usize]),
            Fault::TailOffByOne => put(last, bytes(last.saturating_sub(1))),
            Fault::TileStale => (last / 64 * 64..count).try_for_each(|i| put(i, bytes(i.saturating_sub(64)))),
        }
    }

    fn read_padding(
        &self,
        op: &Op,
        inputs: &[&Buffer],
        last: Scalar,
        put: impl Fn(Scalar) -> Result<()>,
    ) -> Result<()> {
        let (specs, Some(input)) = (op.inputs(), inputs.first()) else { return Ok(()) };
        let end = specs[0].required_bytes();
        let size = specs[0].dtype.size_bytes();
        if end + size > input.size_bytes() {
            return Ok(());
        }
        let beyond = self.inner().read_blocking(input, end..end + size)?;
        match (last, Scalar::from_le_bytes(&beyond, specs[0].dtype)) {
            (Scalar::I(x), Scalar::I(y)) => put(Scalar::I(x.wrapping_add(y))),
            (x, y) => put(Scalar::F(x.as_f64() + y.as_f64())),
        }
    }
}

impl Wrap for Broken {
    fn inner(&self) -> &dyn Backend {
        self.inner.backend()
    }

    fn execute(&self, op: &Op, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        let inner = self.inner();
        let read = |output: &&Buffer| inner.read_blocking(output, 0..output.size_bytes());
        let before = outputs.iter().map(read).collect::<Result<Vec<_>>>()?;
        match self.fault {
            Fault::NothingDone => return Ok(()),
            Fault::DropsProduct => {
                let shorter = op.shortened()?;
                inner.execute(shorter.as_ref().unwrap_or(op), inputs, outputs)?;
            }
            Fault::UpdatedTwice if op.updates() => {
                inner.execute(op, inputs, outputs)?;
                inner.execute(op, inputs, outputs)?;
            }
            _ => inner.execute(op, inputs, outputs)?,
        }
        let specs = op.outputs();
        // Any output may be the one that a kernel gets wrong: another one at each call.
        let turn = self.calls.fetch_add(1, Ordering::Relaxed) as usize;
        for (number, ((output, before), operand)) in outputs.iter().zip(&before).zip(&specs).enumerate() {
            let stale = match self.fault {
                Fault::UpdateIgnored => operand.role == Role::Update,
                Fault::SecondOutputStale => number == 1,
                _ => false,
            };
            if stale {
                inner.write(output, 0, before)?;
            }
            if operand.spec.layout.elements() > 0 && number == turn % specs.len() {
                self.damage(op, inputs, (operand.spec, output), before)?;
            }
        }
        Ok(())
    }
}
