//! Positions outside as errors: calls that take positions have them looked through on the device, and the next read says what was found.
//!
//! Nothing waits for a look: it is one small launch behind the call's own, of [`Positions`], which keeps the first fault in words of the
//! device (`core/src/faults.rs`). A read fetches its data first, then the words where a look was enqueued since; what it finds there is its error, once, and
//! the device goes on as if nothing was. In a recording a look is a launch as any other, and each replay looks again.

use std::ops::Range;

use crate::faults::{self, WORDS_BYTES};
use crate::ops::positions::{fault, is_checked};
use crate::ops::{Copy, FAULT_WORDS, Indexing, Positions};
use crate::{Buffer, DType, Device, Error, Layout, Op, Result, Shape, Tensor, TensorSpec};

/// What a call looks for.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    pub(crate) by: Indexing,
    /// Positions from 0 to this less 1 are inside.
    pub(crate) extent: u64,
    /// A position outside that means something.
    pub(crate) ignored: Option<i64>,
}

impl Look {
    /// For positions of an axis of `extent`.
    pub(crate) fn of(by: Indexing, extent: u64) -> Look {
        Look { by, extent, ignored: None }
    }

    /// Enqueues it, of `given` positions, which are `converted` where their dtype is narrower than 32 bits: all numbers of such are there.
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
    /// Waits for the device and says what the next read would: whether a call since the last read took a position outside of its axis. For
    /// programs that hand results on without a read, such as to another API.
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

    /// The one door for reads: [`crate::Backend::read_blocking`], then what calls found by then.
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

    /// The fault that calls found by now, as an error.
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

/// The error that words of these bytes tell of.
fn told(bytes: &[u8]) -> Result<()> {
    let mut words = [0; faults::WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
    }
    fault(&words).map_or(Ok(()), Err::<(), Error>)
}
