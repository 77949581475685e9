//! Poisson numbers of a [`Generator`].
//!
//! Below a rate of 10 the distribution is inverted: a uniform number of 32 bits is compared with the probabilities that more than k happen, k from 0
//! to 37, each summed from its small end so that rare numbers have their share. From 10 on W. Hörmann's transformed rejection ("The
//! transformed rejection method for generating Poisson random variables", Insurance: Mathematics and Economics 12, 1993, algorithm PTRS,
//! without its squeezes). The logarithm of a probability is Stirling's with the deviance as a series (C. Loader, "Fast and accurate
//! computation of binomial probabilities", 2000): no large terms cancel. In f64 lgamma gives it instead: rates end at 2^23, where terms of 2^27
//! that cancel keep 26 bits behind the point.
//!
//! The decision to know: programs have no loops, so that each element makes all of its 16 tries, two in a launch, and takes the first that is
//! kept. At rate 10, where most are refused, it is one of 4, and all 16 with a probability of 2e-10; such an element is the rate, rounded.

use super::{Parameter, computed_in, later_unit, refuse, unit_in};
use crate::{BinaryFn, CompareFn, DType, Error, Expr, Generator, IntoShape, Result, Shape, Tensor};

const OP: &str = "poisson";

/// Rates from here on are drawn by rejection, as Hörmann's constants demand.
const LARGE: f64 = 10.0;
/// The largest number that inversion gives: at rate 10 a larger one has probability 3e-12.
const MOST: u32 = 38;
/// 2^23: numbers near larger rates may be no f32.
const MOST_RATE: f64 = 8_388_608.0;
const LAUNCHES: u32 = 8;
const TRIES_IN_A_LAUNCH: u32 = 2;
/// The number of an element of which no try was kept yet.
const NONE: f64 = -1.0;

/// The number by inversion, for rates from 0 to [`LARGE`], in `dtype`.
fn inverted(dtype: DType, rate: &Expr) -> Expr {
    let v = unit_in(dtype, 0);
    let numbers: Vec<Expr> = (0..=MOST).map(|k| Expr::constant(f64::from(k))).collect();
    let mut probabilities = vec![(-rate.clone()).exp()];
    for k in &numbers[1..] {
        let p = probabilities[probabilities.len() - 1].clone() * rate / k;
        probabilities.push(p);
    }
    // From the largest number down: the probability of more than k is that of k + 1 and of more than k + 1.
    // In the dtype of the probabilities: of another the constants would be steps of their own.
    let mut number = numbers[MOST as usize].cast(dtype);
    let mut cases = Vec::new();
    let mut more = probabilities[MOST as usize].clone();
    for k in (0..MOST as usize).rev() {
        cases.push((numbers[k].clone(), more.clone()));
        more = more + &probabilities[k];
    }
    for (k, more) in cases {
        number = v.compare(CompareFn::Ge, more).select(k, number);
    }
    number
}

/// ln of the probability of `k`, whole and not negative, at `rate` from [`LARGE`] on.
fn log_probability(dtype: DType, k: &Expr, rate: &Expr) -> Expr {
    if dtype == DType::F64 {
        // Of a number that is refused as negative some value.
        let k = k.binary(BinaryFn::Max, 0.0);
        return k.clone() * rate.log() - rate - (k + 1.0).lgamma();
    }
    let n = k.binary(BinaryFn::Max, 1.0);
    let (off, sum) = (n.clone() - rate, n.clone() + rate);
    let v = off.clone() / sum;
    let square = v.clone() * &v;
    // n ln(n / rate) + rate - n: for v of up to 1/5 the series of the inverse hyperbolic tangent, whose next term is below 1e-9 of it.
    let series = [1.0 / 9.0, 1.0 / 7.0, 1.0 / 5.0, 1.0 / 3.0]
        .into_iter()
        .fold(Expr::constant(1.0 / 11.0), |sum, next| sum * &square + next);
    let near = v.clone() * (off.clone() + n.clone() * 2.0 * &square * series);
    let far = n.clone() * (n.clone() / rate).log() - off;
    let deviance = square.compare(CompareFn::Lt, 0.04).select(near, far);
    // Stirling's series: at 1 it errs by 3e-4, where probabilities are below 1e-3.
    let r = n.reciprocal();
    let r_square = r.clone() * &r;
    let stirling = [1.0 / 1260.0, -1.0 / 360.0, 1.0 / 12.0]
        .into_iter()
        .fold(Expr::constant(-1.0 / 1680.0), |sum, next| sum * &r_square + next);
    let log = -(n * std::f64::consts::TAU).log() * 0.5 - stirling * r - deviance;
    k.compare(CompareFn::Lt, 0.5).select(-rate.clone(), log)
}

/// `earlier`, or the first try that is kept where that is [`NONE`]: of a launch's tries, those from number `first` on, in `dtype`.
fn tries(dtype: DType, rate: &Expr, first: u32, earlier: Expr) -> Expr {
    let b = rate.sqrt() * 2.53 + 0.931;
    let a = b.clone() * 0.02483 - 0.059;
    let inverse_alpha = (b.clone() - 3.4).reciprocal() * 1.1328 + 1.1239;
    let middle = rate.clone() + 0.43;
    let first_kept = (first..first + TRIES_IN_A_LAUNCH).rev().fold(Expr::constant(NONE), |next, number| {
        let [u, v] = [0, 1].map(|n| later_unit(dtype, 2 * number + n));
        let u = u - 0.5;
        // Never 0: numbers at such ends are far out and refused.
        let end = (-u.abs() + 0.5).binary(BinaryFn::Max, 2f64.powi(-26));
        let a_by_end = a.clone() / &end;
        let k = ((a_by_end.clone() * 2.0 + &b) * u + &middle).floor();
        let tried = (v * &inverse_alpha / (a_by_end / end + &b)).log();
        let is_kept = k.compare(CompareFn::Ge, 0.0) & tried.compare(CompareFn::Le, log_probability(dtype, &k, rate));
        is_kept.select(k, next)
    });
    earlier.compare(CompareFn::Ge, 0.0).select(earlier, first_kept)
}

impl Generator {
    /// Numbers of `dtype` by rejection for each rate; smaller rates count as [`LARGE`], and NaN gives some number.
    fn rejected(&self, dtype: DType, shape: Shape, rate: Parameter<'_>) -> Result<Tensor> {
        let words = self.words(shape)?;
        let inputs: Vec<&Tensor> = words.iter().chain(rate.inputs()).collect();
        let computed = computed_in(dtype);
        let bounded = rate.expr_in(computed).clamp(LARGE, MOST_RATE);
        let begin = tries(computed, &bounded, 0, Expr::constant(NONE).cast(computed));
        let mut found = Tensor::map_named(OP, &begin, &inputs)?;
        for launch in 1..LAUNCHES - 1 {
            let go_on = tries(computed, &bounded, launch * TRIES_IN_A_LAUNCH, Expr::input(rate.next()));
            found = Tensor::map_named(OP, &go_on, &[&inputs[..], &[&found]].concat())?;
        }
        let last = tries(computed, &bounded, (LAUNCHES - 1) * TRIES_IN_A_LAUNCH, Expr::input(rate.next()));
        let number = last.compare(CompareFn::Ge, 0.0).select(last, bounded.round());
        Tensor::map_named(OP, &number.cast(dtype), &[&inputs[..], &[&found]].concat())
    }

    /// How often something happens that happens `rate` times on average (Poisson): k with probability rate^k e^-rate / k!. Below a rate of 10 one
    /// launch that inverts the distribution, else eight launches of 2 tries each by Hörmann's transformed rejection; one element of 5e9 at
    /// most has none that is kept, and is the rate, rounded. Probabilities err by up to 1e-5 of themselves, as f32 does; for f64, which is computed in f64, by
    /// up to 1e-7. Whole numbers, which are below 2^24.
    ///
    /// ```
    /// use polywarp_core::{DType, Device, Generator};
    ///
    /// let numbers = Generator::new(&Device::cpu(), 5)?.poisson(DType::U32, [10_000], 4.0)?.to_vec::<u32>()?;
    /// let mean = f64::from(numbers.iter().sum::<u32>()) / 1e4;
    /// assert!((mean - 4.0).abs() < 0.1);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for a dtype that does not hold all numbers of 24 bits; [`Error::InvalidArgument`] for a rate that is not in
    /// 0 to 2^23; memory errors of the device.
    pub fn poisson(&self, dtype: DType, shape: impl IntoShape, rate: f64) -> Result<Tensor> {
        check_dtype(dtype)?;
        if !(0.0..=MOST_RATE).contains(&rate) {
            return refuse("rate", format!("{OP} with rate {rate}; from 0 to 2^23"));
        }
        let shape = shape.into_shape()?;
        let parameter = Parameter::Number(rate);
        if rate < LARGE {
            let computed = computed_in(dtype);
            return self.draw(OP, shape, &inverted(computed, &parameter.expr_in(computed)).cast(dtype), &[]);
        }
        self.rejected(dtype, shape, parameter)
    }

    /// [`Generator::poisson`] with each element of `rates`, floats, in their dtype. NaN where a rate is negative, NaN or above 2^23.
    /// Ten launches, whatever the rates. It has no gradient: detach what a tape watches.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for integers and bool; [`Error::UnsupportedDType`]; [`Error::DeviceMismatch`]; [`Error::InvalidArgument`] for
    /// a tensor that a live tape watches; memory errors of the device.
    pub fn poisson_of(&self, rates: &Tensor) -> Result<Tensor> {
        Generator::check_real(OP, rates.dtype())?;
        rates.expect_device(OP, &self.low)?;
        super::check_unwatched(OP, rates)?;
        let (dtype, shape, rate) = (rates.dtype(), *rates.shape(), Parameter::Each(rates));
        let computed = computed_in(dtype);
        let few = inverted(computed, &rate.expr_in(computed).binary(BinaryFn::Min, LARGE));
        let inverted_numbers = self.draw(OP, shape, &few, &[rates])?;
        let rejected_numbers = self.rejected(computed, shape, rate)?;
        let [rate, small, large] = [0, 1, 2].map(|input| Expr::input(input).cast(computed));
        let is_defined = rate.compare(CompareFn::Ge, 0.0) & rate.compare(CompareFn::Le, MOST_RATE);
        let number = rate.compare(CompareFn::Lt, LARGE).select(small, large);
        Tensor::map_named(
            OP,
            &is_defined.select(number, f64::NAN).cast(dtype),
            &[rates, &inverted_numbers, &rejected_numbers],
        )
    }
}

/// A dtype that holds all whole numbers of 24 bits.
fn check_dtype(dtype: DType) -> Result<()> {
    match dtype {
        DType::F32 | DType::F64 | DType::I32 | DType::U32 | DType::I64 | DType::U64 => Ok(()),
        other => Err(Error::UndefinedForDType { op: OP, dtype: other }),
    }
}
