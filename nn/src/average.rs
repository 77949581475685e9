//! Exponential moving averages of the weights.
//!
//! Not an optimiser: it reads the parameters after a step. The decision to know: a step that was skipped moves no average either, so it asks
//! the optimiser.

use std::sync::Arc;

use polywarp_core::{BinaryFn, CompareFn, Expr, Result, Tensor};

use crate::buffers::Buffers;
use crate::{Flat, Optimiser, Parameters, Policy, Watched, constant, invalid};

/// Whether the decay grows over the first steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ramp {
    /// min(decay, (1 + t) / (10 + t)) at step t: early averages do not hang on the starting values.
    Yes,
    /// `decay` from the first step on.
    No,
}

/// e = d e + (1 - d) p after each step, computed as e + (1 - d)(p - e); f32. It starts as a copy of the parameters.
#[derive(Debug)]
pub struct Average {
    values: Flat,
    buffers: Arc<Buffers>,
    decay: f64,
    ramp: Ramp,
}

impl Average {
    /// Of `parameters`, with d = `decay`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for a decay that is not of 0 to 1; memory errors of the device.
    pub fn new(parameters: &Parameters, decay: f64, ramp: Ramp) -> Result<Average> {
        if !(0.0..=1.0).contains(&decay) {
            return invalid("decay of an average", format!("{decay} is not of 0..=1"));
        }
        let (values, buffers) = (parameters.values().copy()?, Arc::clone(parameters.shared_buffers()));
        Ok(Average { values, buffers, decay, ramp })
    }

    /// The averages.
    pub fn values(&self) -> &Flat {
        &self.values
    }

    /// The averages as layers take them. Buffers, such as running statistics, are those of the parameters: averages already.
    pub fn unwatched(&self) -> Watched {
        Watched::of(&self.values, &self.buffers, Policy::F32)
    }

    /// Takes in the parameters after a step of `optimiser`: one launch for each bucket.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for other parameters; what the device reports.
    pub fn update(&self, parameters: &Parameters, optimiser: &Optimiser) -> Result<()> {
        self.values.expect_places("average", parameters.places())?;
        let [value, factor, steps, average] = [0, 1, 2, 3].map(Expr::input);
        // 1 - d; of the ramp 9 / (10 + t).
        let mut share = constant(1.0 - self.decay);
        if self.ramp == Ramp::Yes {
            share = (constant(9.0) / (steps + constant(10.0))).binary(BinaryFn::Max, share);
        }
        let moved = average.clone() + (value - &average) * share;
        let next = factor.compare(CompareFn::Lt, constant(0.0)).select(average, moved);
        let numbers = &optimiser.numbers;
        for (bucket, average) in self.values.buckets().iter().enumerate() {
            let value = &parameters.values().buckets()[bucket];
            Tensor::update(std::slice::from_ref(&next), &[value, &numbers.factor, &numbers.steps], &[average])?;
        }
        Ok(())
    }
}
