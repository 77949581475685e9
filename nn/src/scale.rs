//! Loss scaling: f16 gradients that neither underflow nor stay infinite.
//!
//! The loss is multiplied by a scale before backward, gradients are divided by it in the optimiser's launch. The state machine is PyTorch's
//! `GradScaler`. The decision to know: it runs on the device, skipping included, so that a recorded step needs no branch and no host.

use polywarp_core::{BinaryFn, CompareFn, Device, Expr, Result, Tensor};

use crate::schedule::MOST_STEPS;
use crate::{Flat, constant, invalid, number};

/// The largest power of two that is an f32.
const LARGEST: f64 = 170_141_183_460_469_231_731_687_303_715_884_105_728.0; // 2^127

/// The numbers of [`LossScale`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LossScaleOptions {
    /// The first scale. A power of two rounds nothing.
    pub initial: f64,
    /// What the scale is multiplied by after `interval` clean steps in a row.
    pub growth: f64,
    /// What the scale is multiplied by after a step with a gradient that is not finite.
    pub backoff: f64,
    /// Clean steps in a row before it grows.
    pub interval: u64,
}

impl Default for LossScaleOptions {
    /// PyTorch's numbers: 65,536, doubled after 2,000 clean steps, halved after a bad one.
    fn default() -> LossScaleOptions {
        LossScaleOptions { initial: 65_536.0, growth: 2.0, backoff: 0.5, interval: 2_000 }
    }
}

/// A loss scale on the device. Multiply the loss by [`LossScale::scale`], and give it to the step
/// ([`StepOptions::scale`](crate::StepOptions::scale)).
///
/// A gradient that is infinite or NaN: the step is skipped whole (parameters, moments and the number of steps stay), the scale is multiplied by the
/// backoff, and clean steps are counted anew. It stays within 1 and 2^127.
#[derive(Debug)]
pub struct LossScale {
    options: LossScaleOptions,
    pub(crate) scale: Tensor,
    pub(crate) clean: Tensor,
    found: Tensor,
}

impl LossScale {
    /// A scale as `options` say.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for a first scale that is not of 1 to 2^127, a growth below 1, a backoff
    /// that is not of 0 to 1, and an interval that is not of 1 to 2^24; memory errors of the device.
    pub fn new(device: &Device, options: LossScaleOptions) -> Result<LossScale> {
        let LossScaleOptions { initial, growth, backoff, interval } = options;
        let is_sound = (1.0..=LARGEST).contains(&initial)
            && (1.0..=LARGEST).contains(&growth)
            && backoff > 0.0
            && backoff <= 1.0
            && (1..=MOST_STEPS).contains(&interval);
        if !is_sound {
            return invalid("loss scale", format!("{options:?}"));
        }
        let of = |value: f64| number(device, value);
        Ok(LossScale { options, scale: of(initial)?, clean: of(0.0)?, found: of(0.0)? })
    }

    /// The scale, f32 `[1]`.
    pub fn scale(&self) -> &Tensor {
        &self.scale
    }

    /// Clean steps in a row since the scale changed last, f32 `[1]`.
    pub fn clean(&self) -> &Tensor {
        &self.clean
    }

    /// Whether the last step found a gradient that is not finite and was skipped: 1 or 0, f32 `[1]`.
    pub fn found(&self) -> &Tensor {
        &self.found
    }

    /// Looks whether any of `gradients` is not finite.
    pub(crate) fn inspect(&self, gradients: &Flat) -> Result<()> {
        let mut largest: Option<Tensor> = None;
        for bucket in gradients.buckets() {
            // NaN if any is.
            let of_bucket = bucket.abs_max(..)?.reshape([1])?;
            largest = Some(match largest {
                Some(largest) => largest.maximum(&of_bucket)?,
                None => of_bucket,
            });
        }
        let Some(largest) = largest else { return Ok(()) };
        // No comparison with NaN is true.
        let is_finite = Expr::input(0).compare(CompareFn::Le, constant(f64::from(f32::MAX)));
        Tensor::update(&[is_finite.select(constant(0.0), constant(1.0))], &[&largest], &[&self.found]).map(drop)
    }

    /// The next scale, from what was found.
    pub(crate) fn advance(&self) -> Result<()> {
        let LossScaleOptions { growth, backoff, interval, .. } = self.options;
        let [found, scale, clean] = [0, 1, 2].map(Expr::input);
        let is_bad = found.compare(CompareFn::Gt, constant(0.0));
        let count = is_bad.select(constant(0.0), clean + constant(1.0));
        let is_due = count.compare(CompareFn::Ge, constant(interval as f64));
        let grown = (scale.clone() * constant(growth)).binary(BinaryFn::Min, constant(LARGEST));
        let shrunk = (scale.clone() * constant(backoff)).binary(BinaryFn::Max, constant(1.0));
        let next = is_bad.select(shrunk, is_due.select(grown, scale));
        let count = is_due.select(constant(0.0), count);
        Tensor::update(&[next, count], &[&self.found], &[&self.scale, &self.clean]).map(drop)
    }
}
