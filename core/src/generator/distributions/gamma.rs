//! Gamma and beta numbers of a [`Generator`].
//!
//! G. Marsaglia and W. W. Tsang, "A simple method for generating gamma variables", ACM TOMS 26, 2000: with d = alpha - 1/3, t = x / sqrt(9 d) and x
//! normal, d (1 + t)^3 is kept where t > -1 and e > d ((1 + t)^3 - 1 - 3 ln(1 + t)) - x^2 / 2, e being exponential. For alpha below 1 a number
//! of alpha + 1 is multiplied by u^(1 / alpha).
//!
//! The decision to know: programs have no loops, so that each element makes all of its 8 tries, two in a launch, and takes the first that is
//! kept. At alpha = 1, where most are refused, it is one of 21, and all 8 with a probability of 3e-11; such an element is d, the most
//! probable value. No distribution function is moved by more than that.

use super::{Parameter, computed_in, exponential_of, exponential_of_64, later_unit, refuse, word, word_number};
use crate::{BinaryFn, CompareFn, DType, Error, Expr, Generator, IntoShape, Result, Shape, Tensor};

/// Each makes two tries: normal numbers come in pairs, from one radius and one angle.
const LAUNCHES: u32 = 4;

/// The t of an element before any of its tries was kept: below the t of every try that is.
const NONE: f64 = -2.0;

/// What a gamma number of scale 1 is made of.
struct Parts {
    /// The number is d (1 + t)^3 exp(-shrink).
    d: Expr,
    t: Expr,
    /// e / alpha for alpha below 1, else 0.
    shrink: Expr,
    /// Whether alpha is finite and above 0.
    is_defined: Expr,
}

impl Parts {
    fn value(&self) -> Expr {
        let root = self.t.clone() + 1.0;
        let value = root.clone() * &root * root * &self.d * (-self.shrink.clone()).exp();
        self.is_defined.select(value, f64::NAN)
    }

    /// Its logarithm, which has no underflow.
    fn log(&self) -> Expr {
        let log = self.d.log() + self.t.log1p() * 3.0 - &self.shrink;
        self.is_defined.select(log, f64::NAN)
    }
}

/// Alpha, or alpha + 1 where it is below 1, less 1/3.
fn d_of(alpha: &Expr) -> Expr {
    alpha.compare(CompareFn::Lt, 1.0).select(alpha.clone() + 2.0 / 3.0, alpha.clone() - 1.0 / 3.0)
}

/// `earlier`, or the t of the first try that is kept where that is [`NONE`]: of the tries of launch number `launch`, in `dtype`.
fn tries(dtype: DType, d: &Expr, launch: u32, earlier: Expr) -> Expr {
    let slope = (d.clone() * 9.0).rsqrt();
    let [radius, angle] = [0, 1].map(|n| later_unit(dtype, 4 * launch + n));
    let radius = (radius.log() * -2.0).sqrt() * &slope;
    let angle = angle * std::f64::consts::TAU;
    let t = [(radius.clone() * angle.cos(), 4 * launch + 2), (radius * angle.sin(), 4 * launch + 3)];
    let first_kept = t.into_iter().rev().fold(Expr::constant(NONE), |next, (t, number)| {
        // Far enough from -1 for a logarithm; what is not above is refused.
        const LEAST: f64 = -0.999_999;
        let bounded = t.binary(BinaryFn::Max, LEAST);
        let log_u = later_unit(dtype, number).log();
        // (1 + t)^3 - 1 - 3 ln(1 + t) - 9/2 t^2, of which x^2 / 2 is the last term times d.
        let square = bounded.clone() * &bounded;
        let excess = (bounded.clone() - bounded.log1p()) * 3.0 + square * (bounded.clone() - 1.5);
        let is_kept = t.compare(CompareFn::Gt, LEAST) & (log_u + excess * d).compare(CompareFn::Lt, 0.0);
        is_kept.select(t, next)
    });
    earlier.compare(CompareFn::Gt, -1.0).select(earlier, first_kept)
}

/// Exponential with rate 1, of words that no try takes.
fn other_exponential(dtype: DType) -> Expr {
    // In f64 the tries take words 1 to 32.
    if dtype == DType::F64 { exponential_of_64([0, 33].map(word_number)) } else { exponential_of(word()) }
}

/// A number that may stand for alpha in `dtype`.
fn check_alpha(op: &'static str, dtype: DType, alpha: f64) -> Result<()> {
    let held = if dtype == DType::F64 { alpha } else { (alpha as f32).into() };
    if held.is_finite() && held > 0.0 {
        return Ok(());
    }
    refuse("alpha", format!("{op} with {alpha}; give a number above 0 that {dtype} holds"))
}

impl Generator {
    /// `finish` of gamma numbers of `alpha` and scale 1, computed in `dtype`, and of `other` if there is one.
    fn gamma_by(
        &self,
        op: &'static str,
        dtype: DType,
        shape: Shape,
        alpha: Parameter<'_>,
        other: Option<&Tensor>,
        finish: impl FnOnce(Parts, Expr) -> Expr,
    ) -> Result<Tensor> {
        let words = self.words(shape)?;
        let inputs: Vec<&Tensor> = words.iter().chain(alpha.inputs()).collect();
        let (exponent, earlier) = (alpha.expr_in(dtype), Expr::input(alpha.next()));
        let d = d_of(&exponent);
        let begin = tries(dtype, &d, 0, Expr::constant(NONE).cast(dtype));
        let mut found = Tensor::map_named(op, &begin, &inputs)?;
        // What is made of the last tries has too many steps for their launch where numbers take two words each.
        let (alone, last) = if dtype == DType::F64 { (LAUNCHES, None) } else { (LAUNCHES - 1, Some(LAUNCHES - 1)) };
        for launch in 1..alone {
            let go_on = tries(dtype, &d, launch, earlier.clone());
            found = Tensor::map_named(op, &go_on, &[&inputs[..], &[&found]].concat())?;
        }
        let inputs: Vec<&Tensor> = inputs.into_iter().chain([&found]).chain(other).collect();
        let t = last.map_or_else(|| earlier.clone(), |launch| tries(dtype, &d, launch, earlier.clone()));
        let t = t.compare(CompareFn::Gt, -1.0).select(t, 0.0);
        let is_small = exponent.compare(CompareFn::Lt, 1.0);
        let shrink = is_small.select(other_exponential(dtype) / &exponent, 0.0);
        let is_defined = exponent.compare(CompareFn::Gt, 0.0) & exponent.compare(CompareFn::Lt, f64::INFINITY);
        let expr = finish(Parts { d, t, shrink, is_defined }, Expr::input(alpha.next() + 1));
        Tensor::map_named(op, &expr, &inputs)
    }

    /// Gamma with shape parameter `alpha` and `scale`: density x^(alpha - 1) e^(-x / scale), mean alpha scale, variance alpha scale^2. Four
    /// launches of 2 tries each by Marsaglia and Tsang's method, and in f64 a fifth; one element of 3e10 at most has none that is kept, and is the most probable
    /// number instead. Computed in f32 (f64 for f64), rounded to `dtype`: for `alpha` below 0.05 a share of the numbers is too small for f32 and 0.
    ///
    /// ```
    /// use polywarp_core::{DType, Device, Generator};
    ///
    /// let numbers = Generator::new(&Device::cpu(), 5)?.gamma(DType::F32, [10_000], 3.0, 2.0)?.to_vec::<f32>()?;
    /// let mean = numbers.iter().sum::<f32>() / 1e4;
    /// assert!((mean - 6.0).abs() < 0.2 && numbers.iter().all(|x| *x > 0.0));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for integers and bool; [`Error::UnsupportedDType`]; [`Error::InvalidArgument`] for numbers that are not finite
    /// or not above 0; memory errors of the device.
    pub fn gamma(&self, dtype: DType, shape: impl IntoShape, alpha: f64, scale: f64) -> Result<Tensor> {
        const OP: &str = "gamma";
        Generator::check_real(OP, dtype)?;
        super::check_scale(OP, 0.0, scale)?;
        check_alpha(OP, dtype, alpha)?;
        self.gamma_by(OP, computed_in(dtype), shape.into_shape()?, Parameter::Number(alpha), None, |parts, _| {
            (parts.value() * scale).cast(dtype)
        })
    }

    /// [`Generator::gamma`] of scale 1 with each element of `alpha`, floats, as shape parameter; in its dtype. NaN where an
    /// element is not above 0 or not finite. It has no gradient: detach what a tape watches.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for integers and bool; [`Error::UnsupportedDType`]; [`Error::DeviceMismatch`]; [`Error::InvalidArgument`] for
    /// a tensor that a live tape watches; memory errors of the device.
    pub fn gamma_of(&self, alpha: &Tensor) -> Result<Tensor> {
        const OP: &str = "gamma";
        Generator::check_real(OP, alpha.dtype())?;
        alpha.expect_device(OP, &self.low)?;
        super::check_unwatched(OP, alpha)?;
        let (dtype, shape) = (alpha.dtype(), *alpha.shape());
        self.gamma_by(OP, computed_in(dtype), shape, Parameter::Each(alpha), None, |parts, _| parts.value().cast(dtype))
    }

    /// Beta with parameters `a` and `b`, from 0 to 1: density x^(a - 1) (1 - x)^(b - 1), mean a / (a + b). The share g / (g + h) of gamma
    /// numbers g of `a` and h of `b`, from their logarithms, so that small parameters give 0 and 1 and not NaN. Eight launches, in f64 ten. Computed in
    /// f32 (f64 for f64), rounded to `dtype`: numbers near 1 count in steps of 2^-24 (2^-53).
    ///
    /// # Errors
    /// As [`Generator::gamma`].
    pub fn beta(&self, dtype: DType, shape: impl IntoShape, a: f64, b: f64) -> Result<Tensor> {
        const OP: &str = "beta";
        Generator::check_real(OP, dtype)?;
        check_alpha(OP, dtype, a)?;
        check_alpha(OP, dtype, b)?;
        self.beta_by(OP, dtype, shape.into_shape()?, [Parameter::Number(a), Parameter::Number(b)])
    }

    /// [`Generator::beta`] with each element of `a` and `b`, of one dtype, floats, broadcast to one shape; in their dtype. NaN
    /// where one of the two is not above 0 or not finite. It has no gradient: detach what a tape watches.
    ///
    /// # Errors
    /// As [`Generator::gamma_of`]; [`Error::DTypeMismatch`], [`Error::ShapeMismatch`].
    pub fn beta_of(&self, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        const OP: &str = "beta";
        let dtype = a.dtype();
        Generator::check_real(OP, dtype)?;
        if b.dtype() != dtype {
            return Err(Error::DTypeMismatch { op: OP, expected: dtype, got: b.dtype() });
        }
        a.expect_device(OP, &self.low)?;
        b.expect_device(OP, &self.low)?;
        super::check_unwatched(OP, a)?;
        super::check_unwatched(OP, b)?;
        let shape = Shape::broadcast(OP, a.shape(), b.shape())?;
        self.beta_by(OP, dtype, shape, [Parameter::Each(a), Parameter::Each(b)])
    }

    fn beta_by(&self, op: &'static str, dtype: DType, shape: Shape, [a, b]: [Parameter<'_>; 2]) -> Result<Tensor> {
        let computed = computed_in(dtype);
        let log_g = self.gamma_by(op, computed, shape, a, None, |parts, _| parts.log())?;
        self.gamma_by(op, computed, shape, b, Some(&log_g), |parts, log_g| (log_g - parts.log()).sigmoid().cast(dtype))
    }
}
