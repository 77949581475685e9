//! Errors for positions outside of an axis: calls that take positions have the device check them, and the next read
//! reports the first fault.
//!
//! Nothing waits for a check: it is one small launch of [`Positions`] after the call's own, which keeps the first fault
//! in words of the device (`core/src/faults.rs`). A read fetches its data first, then the words if a check was enqueued
//! since the last read. A fault found there is that read's error, once; the device then goes on as usual. In a
//! recording a check is a launch like any other, and each replay checks again.

use std::ops::Range;

use crate::faults::{self, WORDS_BYTES};
use crate::ops::positions::{fault, is_checked};
use crate::ops::{Copy, FAULT_WORDS, Indexing, Positions};
use crate::{Buffer, DType, Device, Error, Layout, Op, Result, Shape, Tensor, TensorSpec};

/// The positions that a call accepts.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) by: Indexing,
    /// The positions from 0 to `extent` - 1 are inside.
    pub(crate) extent: u64,
    /// A position outside that has a meaning of its own and is no fault.
    pub(crate) ignored: Option<i64>,
}

impl Look {
    /// The check for positions of an axis of `extent`.
    pub(crate) fn of(by: Indexing, extent: u64) -> Look {
        Look { by, extent, ignored: None }
    }

    /// Enqueues the check of `given`, or of `converted` where the dtype of `given` is narrower than 32 bits: the
    /// conversion keeps all of its numbers.
    pub(crate) fn through(self, given: &Tensor, converted: &Tensor) -> Result<()> {
        let positions = if is_checked(given.dtype()) { given } else { converted };
        if positions.elements() == 0 {
            return Ok(());
        }
        let op: Op = Positions::new(self.by, positions.spec(), self.extent, self.ignored)?.into();
        let device = positions.device();
        let words = device.faults().words(device.backend())?;
        device.faults().check(|| device.execute(&op, &[positions.buffer()], &[words]))
    }
}

impl Device {
    /// Waits for the device and reports the error that the next read would: whether a call since the last read used a
    /// position outside of its axis. For programs that hand results on without a read, such as to another API.
    ///
    /// ```
    /// use polywarp_core::{Device, Error, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0], [3])?;
    /// let y = x.take(&Tensor::from_slice(&device, &[0i32, 7], [2])?)?;
    /// let found = device.check_positions();
    /// assert!(matches!(found, Err(Error::PositionOutside { op: "take", position: 7, place: 1, extent: 3 })));
    /// assert!(device.check_positions().is_ok() && y.to_vec::<f32>().is_ok(), "a fault is told once");
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::PositionOutside`]; as [`Device::synchronize`].
    pub fn check_positions(&self) -> Result<()> {
        self.synchronize()?;
        self.look()
    }

    /// The only way to read: [`crate::Backend::read_blocking`], then the faults that calls have found by then.
    pub(crate) fn read_blocking(&self, buffer: &Buffer, range: Range<u64>) -> Result<Vec<u8>> {
        // The data first: a read that is refused, as in a recording, must enqueue nothing.
        let bytes = self.backend().read_blocking(buffer, range)?;
        self.look()?;
        Ok(bytes)
    }

    /// [`Device::read_blocking`], awaited.
    pub(crate) async fn read(&self, buffer: &Buffer, range: Range<u64>) -> Result<Vec<u8>> {
        let bytes = self.backend().read(buffer, range).await?;
        if self.faults().is_pending() {
            for unread in self.faults().take(self.backend(), |words, target| self.copy_words(words, target))? {
                let Some(buffer) = unread.buffer() else { continue };
                let words = self.backend().read(buffer, 0..WORDS_BYTES).await?;
                unread.done();
                told(&words)?;
            }
        }
        Ok(bytes)
    }

    /// Reports the fault that calls have found so far, as an error.
    fn look(&self) -> Result<()> {
        if !self.faults().is_pending() {
            return Ok(());
        }
        for unread in self.faults().take(self.backend(), |words, target| self.copy_words(words, target))? {
            let Some(buffer) = unread.buffer() else { continue };
            let words = self.backend().read_blocking(buffer, 0..WORDS_BYTES)?;
            unread.done();
            told(&words)?;
        }
        Ok(())
    }

    fn copy_words(&self, words: &Buffer, target: &Buffer) -> Result<()> {
        let spec = TensorSpec::new(DType::U32, Layout::contiguous(Shape::new(&[FAULT_WORDS as u64])?));
        self.execute(&Copy::new(spec, spec)?.into(), &[words], &[target])
    }
}

/// The error that these bytes of fault words describe.
fn told(bytes: &[u8]) -> Result<()> {
    let mut words = [0; faults::WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    fault(&words).map_or(Ok(()), Err::<(), Error>)
}
