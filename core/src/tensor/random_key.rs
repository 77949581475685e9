//! A key for random numbers as two tensors: a [`Generator`](crate::Generator) gives it, programs and operations read it.

use crate::{Result, Tensor};

/// Seed and stream of random numbers, on the device. A key is never overwritten: whoever holds one can make its numbers again.
#[derive(Clone, Debug)]
pub struct RandomKey {
    /// The low words of seed and stream, u32[2].
    pub(crate) low: Tensor,
    /// Their high words.
    pub(crate) high: Tensor,
}

impl RandomKey {
    /// The low words of seed and stream, and their high words, u32 `[2]` each: for operations that read a key as it lies.
    pub fn tensors(&self) -> [&Tensor; 2] {
        [&self.low, &self.high]
    }

    /// Seed low, seed high, stream low, stream high, of rank 0: inputs of a program for [`Expr::random`](crate::Expr::random) and [`Expr::uniform`](crate::Expr::uniform).
    ///
    /// # Errors
    /// None that a key of [`Generator::key`](crate::Generator::key) could have.
    pub fn words(&self) -> Result<[Tensor; 4]> {
        let word = |of: &Tensor, at: u64| of.slice(0, at..at + 1)?.squeeze(0);
        Ok([word(&self.low, 0)?, word(&self.high, 0)?, word(&self.low, 1)?, word(&self.high, 1)?])
    }
}
