//! Learning rates as functions of the step, computed on the device.
//!
//! A schedule multiplies a base rate; it holds no state. The decision to know: it is a function of k, the number of steps done before, so
//! the first update uses k = 0 (and after a warm-up from 0 changes nothing), as in PyTorch and transformers. Steps that loss scaling
//! skips do not count.

use std::f64::consts::FRAC_PI_2;

use polywarp_core::{BinaryFn, CompareFn, Expr, Result};

use crate::{constant, invalid};

/// Beyond these steps f32 cannot count.
pub(crate) const MOST_STEPS: u64 = 1 << 24;

/// The learning rate of step k, as a multiple of the base rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Schedule {
    /// 1.
    #[default]
    Constant,
    /// k / warm_up below `warm_up`, then 1 (transformers: `get_constant_schedule_with_warmup`).
    WarmUp {
        /// Steps that it grows.
        warm_up: u64,
    },
    /// k / warm_up below `warm_up`, then (total - k) / (total - warm_up), and 0 from `total` on (transformers:
    /// `get_linear_schedule_with_warmup`).
    Linear {
        /// Steps that it grows; 0 for none.
        warm_up: u64,
        /// Steps after which it is 0.
        total: u64,
    },
    /// k / warm_up below `warm_up`, then least + (1 - least) (1 + cos(pi p)) / 2 with p = (k - warm_up) / (total - warm_up), and `least` from
    /// `total` on. With `least` 0 this is transformers' `get_cosine_schedule_with_warmup`, which rises again behind `total`; without warm-up
    /// PyTorch's `CosineAnnealingLR` with T_max = total and eta_min = least times the base rate.
    ///
    /// Computed as least + (1 - least) sin^2(pi (1 - p) / 2), which loses no digits at the end.
    Cosine {
        /// Steps that it grows; 0 for none.
        warm_up: u64,
        /// Steps after which it is `least`.
        total: u64,
        /// The multiple that is left.
        least: f64,
    },
    /// factor^floor(k / every) (PyTorch: `StepLR`). Exact steps below 2^20: a device's quotient may be off by its last bits.
    Step {
        /// Steps of one rate.
        every: u64,
        /// Each rate by the one before.
        factor: f64,
    },
}

impl Schedule {
    /// Refuses what has no meaning.
    pub(crate) fn check(self) -> Result<Schedule> {
        let refuse = |reason: String| invalid("schedule", reason);
        match self {
            Schedule::Constant => {}
            Schedule::WarmUp { warm_up } if warm_up > MOST_STEPS => {
                return refuse(format!("{warm_up} steps are over 2^24"));
            }
            Schedule::WarmUp { .. } => {}
            Schedule::Linear { warm_up, total } | Schedule::Cosine { warm_up, total, .. } => {
                if total <= warm_up || total > MOST_STEPS {
                    return refuse(format!(
                        "{total} steps, {warm_up} of them warm-up: more than that, and at most 2^24"
                    ));
                }
            }
            Schedule::Step { every, factor } => {
                if every == 0 || every > MOST_STEPS || !(factor.is_finite() && factor > 0.0) {
                    return refuse(format!("factor {factor} every {every} steps"));
                }
            }
        }
        match self {
            Schedule::Cosine { least, .. } if !(0.0..=1.0).contains(&least) => {
                refuse(format!("least {least} of 0..=1"))
            }
            checked => Ok(checked),
        }
    }

    /// The multiple at step `k`, an f32 expression.
    pub(crate) fn at(self, k: &Expr) -> Expr {
        let of = |steps: u64| constant(steps as f64);
        let warmed = |warm_up: u64, then: Expr| {
            if warm_up == 0 {
                return then;
            }
            k.compare(CompareFn::Lt, of(warm_up)).select(k.clone() / of(warm_up), then)
        };
        // What is left of the decay, 1 at its beginning.
        let left =
            |warm_up: u64, total: u64| ((of(total) - k) / of(total - warm_up)).clamp(constant(0.0), constant(1.0));
        match self {
            Schedule::Constant => constant(1.0),
            Schedule::WarmUp { warm_up } => warmed(warm_up, constant(1.0)),
            Schedule::Linear { warm_up, total } => warmed(warm_up, left(warm_up, total)),
            Schedule::Cosine { warm_up, total, least } => {
                let sine = (left(warm_up, total) * constant(FRAC_PI_2)).sin();
                warmed(warm_up, sine.clone() * sine * constant(1.0 - least) + constant(least))
            }
            Schedule::Step { every, factor } => {
                // Half a step more: no quotient lies near a whole number.
                let times = ((k.clone() + constant(0.5)) / of(every)).floor();
                constant(factor).binary(BinaryFn::Pow, times)
            }
        }
    }
}
