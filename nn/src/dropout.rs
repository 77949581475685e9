//! Dropout as layers take it: by a generator, or none.

use polywarp_core::{Generator, RandomKey, Result, Tensor};

/// How often an element is dropped, and where the random numbers come from: [`Tensor::dropout`]. For use after training there is none.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dropout<'a> {
    generator: Option<&'a Generator>,
}

impl<'a> Dropout<'a> {
    /// Elements are dropped by numbers of this generator, at the rates that a network names.
    pub fn by(generator: &'a Generator) -> Dropout<'a> {
        Dropout { generator: Some(generator) }
    }

    /// Nothing is dropped.
    pub fn none() -> Dropout<'a> {
        Dropout { generator: None }
    }

    /// A generator for a part of a network; none where nothing is dropped.
    pub(crate) fn fork(&self) -> Result<Option<Generator>> {
        self.generator.map(Generator::fork).transpose()
    }

    /// The key of the next numbers; none where nothing is dropped.
    pub(crate) fn key(&self) -> Result<Option<RandomKey>> {
        self.generator.map(Generator::key).transpose()
    }

    /// Whether elements are dropped where a network names this rate.
    pub(crate) fn drops(&self, rate: f64) -> bool {
        self.generator.is_some() && rate != 0.0
    }

    /// `x` with each element dropped at this rate, the others scaled by 1 / (1 - rate).
    ///
    /// # Errors
    /// As [`Tensor::dropout`].
    pub fn forward(&self, x: &Tensor, rate: f64) -> Result<Tensor> {
        match self.generator {
            Some(generator) if rate != 0.0 => x.dropout(rate, generator),
            _ => Ok(x.clone()),
        }
    }

    /// [`Dropout::forward`] of `x`, plus `residual`, in one pass.
    ///
    /// # Errors
    /// As [`Tensor::dropout_add`].
    pub fn forward_add(&self, x: &Tensor, rate: f64, residual: &Tensor) -> Result<Tensor> {
        match self.generator {
            Some(generator) => x.dropout_add(rate, generator, residual),
            None => x.add(residual),
        }
    }
}
