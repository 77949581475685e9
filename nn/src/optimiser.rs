//! A step of training: which rule, at which rate, with what done to the gradients before.
//!
//! Not here: what rules there are (`method.rs`) and what they compute (`rules.rs`, LAMB's in `lamb.rs`). [`Optimiser::step`] unscales, clips and steps, in this order, in one
//! launch for each bucket and a few of one element. The decision to know: one number says what becomes of a gradient, the factor that it is
//! multiplied by, and a negative factor says that the step is skipped. So a kernel needs one buffer for the loss scale, the clip
//! coefficient, the count and the skip, and AdamW stays within the 8 buffers that WebGPU guarantees.

use std::sync::Arc;

use polywarp_core::{CompareFn, Error, Expr, Result, Tensor};

use crate::flat::Places;
use crate::schedule::Schedule;
use crate::{Clip, Flat, LossScale, Method, Parameters, constant, invalid, lamb, number, rules};

/// What is done to the gradients of a step before the rule reads them, in the order of the fields.
#[derive(Clone, Copy, Debug, Default)]
pub struct StepOptions<'a> {
    /// Divided by the scale that the loss was multiplied by; the step is skipped where a gradient is not finite.
    pub scale: Option<&'a LossScale>,
    /// Divided by this count, f32 `[1]`: of terms over all micro-batches whose losses were sums. A count of 0 skips the step.
    pub count: Option<&'a Tensor>,
    /// Then clipped by their global norm.
    pub clip: Option<&'a Clip>,
}

/// The numbers of a step, `[1]` each: all that a replay changes besides parameters and moments.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// Steps done, f32: exact to 2^24, where it stays.
    pub steps: Tensor,
    /// The rate that the schedule multiplies.
    pub base: Tensor,
    /// The rate of the step.
    pub rate: Tensor,
    /// What gradients are multiplied by; negative where the step is skipped.
    pub factor: Tensor,
    /// 1 - b1^t and sqrt(1 - b2^t).
    pub corrections: [Tensor; 2],
}

/// An optimiser: a rule, its moments and its numbers, on the device.
///
/// Its state changes under `&self`, as what a [`Recording`](polywarp_core::Recording) writes does.
#[derive(Debug)]
pub struct Optimiser {
    pub(crate) method: Method,
    schedule: Schedule,
    places: Arc<Places>,
    pub(crate) moments: Vec<Flat>,
    pub(crate) numbers: Numbers,
}

impl Optimiser {
    /// For `parameters`, at a rate of `rate` times what `schedule` says.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for numbers that the method or the schedule has no meaning for; memory errors of the device.
    pub fn new(parameters: &Parameters, method: Method, schedule: Schedule, rate: f64) -> Result<Optimiser> {
        method.check()?;
        let schedule = schedule.check()?;
        let (device, places) = (parameters.device(), parameters.places());
        let moments = (0..method.moments()).map(|_| Flat::zeros(device, places)).collect::<Result<_>>()?;
        let of = |value: f64| number(device, value);
        let numbers = Numbers {
            steps: of(0.0)?,
            base: of(checked_rate(rate)?)?,
            rate: of(0.0)?,
            factor: of(1.0)?,
            corrections: [of(1.0)?, of(1.0)?],
        };
        Ok(Optimiser { method, schedule, places: Arc::clone(places), moments, numbers })
    }

    /// The rule.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Steps done, f32 `[1]`; skipped ones not among them. Exact to 2^24, where it stays.
    pub fn steps(&self) -> &Tensor {
        &self.numbers.steps
    }

    /// The learning rate of the last step, f32 `[1]`.
    pub fn rate(&self) -> &Tensor {
        &self.numbers.rate
    }

    /// Another rate for the schedule to multiply, from the next step on; between replays, too.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a rate that is negative or not finite; [`Error::Recording`] inside of a recording.
    pub fn set_rate(&self, rate: f64) -> Result<()> {
        self.numbers.base.write(&[checked_rate(rate)? as f32])
    }

    /// One step on the gradients that `parameters` hold, which it leaves as they are.
    ///
    /// Launches: one for each bucket (LAMB: three, and four for each parameter), two of single elements; for a loss scale and for
    /// clipping two more of single elements each, and reductions of the gradients of each bucket.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for other parameters than those it was made for, and while a live tape watches them; [`Error::Unsupported`]
    /// on devices whose kernels have fewer than 8 buffers.
    pub fn step(&self, parameters: &Parameters, options: &StepOptions<'_>) -> Result<()> {
        parameters.values().expect_places("parameters", &self.places)?;
        self.set_factor(parameters, options)?;
        self.advance()?;
        match &self.method {
            Method::Lamb(lamb) => lamb::step(lamb, self, parameters)?,
            method => rules::step(method, self, parameters)?,
        }
        options.scale.map_or(Ok(()), LossScale::advance)
    }

    /// Makes the factor of this step. Without options it is 1 for ever.
    fn set_factor(&self, parameters: &Parameters, options: &StepOptions<'_>) -> Result<()> {
        let StepOptions { scale, count, clip } = *options;
        let factor = &self.numbers.factor;
        if let Some(scale) = scale {
            scale.inspect(parameters.gradients())?;
        }
        // 1 / (scale count); where the step is to be skipped -1.
        let mut inputs: Vec<&Tensor> = Vec::new();
        let mut value = constant(1.0);
        if let Some(count) = count {
            if count.elements() != 1 {
                return Err(Error::shape_mismatch("count", factor.shape(), count.shape(), None));
            }
            let of = Expr::input(inputs.len());
            inputs.push(count);
            value = of.compare(CompareFn::Gt, constant(0.0)).select(value / of, constant(-1.0));
        }
        if let Some(scale) = scale {
            let [by, found] = [0, 1].map(|number| Expr::input(inputs.len() + number));
            inputs.extend([scale.scale(), scale.found()]);
            value = found.compare(CompareFn::Gt, constant(0.0)).select(constant(-1.0), value / by);
        }
        Tensor::update(&[value], &inputs, &[factor])?;
        let Some(clip) = clip else { return Ok(()) };
        clip.measure(parameters.gradients(), factor)?;
        // A factor of -1 stays negative, whatever the coefficient.
        let [coefficient, factor_before] = [0, 1].map(Expr::input);
        let is_skipped = factor_before.compare(CompareFn::Lt, constant(0.0));
        let clipped = is_skipped.select(factor_before.clone(), factor_before * coefficient);
        Tensor::update(&[clipped], &[clip.coefficient()], &[factor]).map(drop)
    }

    /// Counts the step, and makes its rate and corrections.
    fn advance(&self) -> Result<()> {
        let Numbers { steps, base, rate, factor, corrections } = &self.numbers;
        let [of_base, of_factor, before] = [0, 1, 2].map(Expr::input);
        let is_skipped = of_factor.compare(CompareFn::Lt, constant(0.0));
        let after = is_skipped.select(before.clone(), before.clone() + constant(1.0));
        let mut values = vec![after.clone(), of_base * self.schedule.at(&before)];
        let mut updated = vec![steps, rate];
        if let Some([first, second]) = self.method.betas() {
            values.extend([correction(first, &after), correction(second, &after).sqrt()]);
            updated.extend(corrections);
        }
        Tensor::update(&values, &[base, factor], &updated).map(drop)
    }
}

fn checked_rate(rate: f64) -> Result<f64> {
    if rate.is_finite() && rate >= 0.0 { Ok(rate) } else { invalid("learning rate", format!("{rate}")) }
}

/// 1 - beta^t without cancellation: with x = -t ln beta and h = tanh(x / 2), 1 - e^-x = 2h / (1 + h). Both terms of the sum are positive, so the
/// error is a few ULP at every t (a test measures it); 1 - beta^t itself would lose 10 of 24 bits at t = 1 and beta = 0.999.
fn correction(beta: f64, t: &Expr) -> Expr {
    if beta == 0.0 {
        return constant(1.0);
    }
    let half = (t.clone() * constant(-beta.ln() / 2.0)).tanh();
    half.clone() * constant(2.0) / (half + constant(1.0))
}

#[cfg(all(test, not(target_arch = "wasm32")))]
mod tests {
    use polywarp_core::Device;

    use super::*;

    /// 1 - beta^t for t of 1 to 2^23, against f64 where nothing cancels either.
    #[test]
    fn corrections_lose_no_digits() {
        let device = Device::cpu();
        let steps: Vec<f32> =
            (0..24).flat_map(|power| [1.0f32, 1.25, 1.75].map(|m| (m * (power as f32).exp2()).floor())).collect();
        let t = Tensor::from_slice(&device, &steps, [steps.len() as u64]).unwrap();
        let mut largest = 0.0f64;
        for beta in [0.0, 0.5, 0.9, 0.95, 0.98, 0.999, 0.9999, 1.0 - 1e-6] {
            // What does not depend on t has to meet it all the same.
            let expr = correction(beta, &Expr::input(0)) + Expr::input(0) * constant(0.0);
            let found = Tensor::map(&expr, &[&t]).unwrap().to_vec::<f32>().unwrap();
            for (&t, found) in steps.iter().zip(found) {
                let expected = -(f64::from(t) * f64::ln(beta)).exp_m1();
                let error = (f64::from(found) / expected - 1.0).abs() / (-24f64).exp2();
                largest = largest.max(error);
            }
        }
        // Measured on the CPU: 2.9.
        assert!(largest <= 6.0, "{largest} units of 2^-24");
    }
}
