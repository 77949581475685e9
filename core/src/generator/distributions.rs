//! Random numbers of a [`Generator`], by distribution: each call draws one key, and replays of a recorded call draw new numbers.
//!
//! Elements are made of the random bits at their position under the key ([`Expr::random`]), so that a result depends on nothing but the
//! generator's state and the shape, and bits are the same on every device. The decision to know: a second word of an element is that of a
//! stream which no generator comes to (its number is above half of all), as in [`Generator::fork`]. Formulas in f32 take 32 bits and are as
//! exact in both tails as f32 is: with w the word, v = (w + 1/2) 2^-32 is in (0, 1), and where w is in the upper half 1 - v is computed, not v.
//! In f64 two words are one of 64 bits.

mod gamma;
mod poisson;
mod whole;

pub(crate) use whole::below as whole_number_below;

use super::Generator;
use crate::ops::{Missing, SearchSide, SortOrder};
use crate::tensor::numbers::{
    UNIT, exponential_of_64, mirrored, normal_of, stream_of, uniform_between, uniform_of_64, unit_of_64,
};
use crate::{BinaryFn, CompareFn, DType, Error, Expr, IntoShape, Position, Result, Shape, Tensor};

/// Whether what was drawn can be drawn again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Replacement {
    /// It can: draws do not depend on each other.
    With,
    /// It cannot: all that is drawn in one line differs.
    Without,
}

/// The words of the key among the inputs; others follow.
fn key() -> [Expr; 4] {
    [0, 1, 2, 3].map(Expr::input)
}

/// The element's word.
fn word() -> Expr {
    Expr::random(key())
}

/// A second one.
fn other_word() -> Expr {
    another_word(0)
}

/// Word number `n` after the first, up to 64 of them: of streams from 2^63 on, 2^57 apart, to which no generator comes.
fn another_word(n: u32) -> Expr {
    let [seed_low, seed_high, low, high] = key();
    Expr::random([seed_low, seed_high, low, high ^ i64::from(stream_of(n))])
}

/// (w + 1/2) 2^-32 in f32, of u32.
fn unit(word: Expr) -> Expr {
    (word.cast(DType::F32) + 0.5) * UNIT
}

/// -ln(v) with v = (w + 1/2) 2^-32: exponential with rate 1, from 2^-33 to 22.9. In the upper half it is -ln(1 - v'), v' being that of the
/// mirrored word.
fn exponential_of(word: Expr) -> Expr {
    let is_low = word.compare(CompareFn::Lt, 1i64 << 31);
    let small = unit(is_low.select(word.clone(), mirrored(word)));
    -is_low.select(small.log(), (-small).log1p())
}

/// The element's word number `n`.
fn word_number(n: u32) -> Expr {
    if n == 0 { word() } else { another_word(n - 1) }
}

/// What numbers of `dtype` are computed in.
fn computed_in(dtype: DType) -> DType {
    if dtype == DType::F64 { dtype } else { DType::F32 }
}

/// How many words a formula in `dtype` takes as one: two in f64.
fn words_of(dtype: DType) -> u32 {
    if dtype == DType::F64 { 2 } else { 1 }
}

/// [`unit`] of word number `n`, in f64 of the next one, too.
fn unit_in(dtype: DType, n: u32) -> Expr {
    if dtype == DType::F64 { unit_of_64([n, n + 1].map(word_number)) } else { unit(word_number(n)) }
}

/// [`unit`] of the `n`-th number after the first word, of as many words as `dtype` takes: of f64 the first one begins behind word 0, too.
fn later_unit(dtype: DType, n: u32) -> Expr {
    unit_in(dtype, 1 + n * words_of(dtype))
}

/// [`exponential_of`] word number `n`; in f64 of the next one, too.
fn exponential_in(dtype: DType, n: u32) -> Expr {
    if dtype == DType::F64 { exponential_of_64([n, n + 1].map(word_number)) } else { exponential_of(word_number(n)) }
}

/// Uniform in [0, 1) in steps of 2^-24, in f64 of 2^-53.
fn uniform_in(dtype: DType) -> Expr {
    if dtype == DType::F64 { uniform_of_64([word(), other_word()]) } else { Expr::uniform(key()) }
}

/// The inverse of the error function at p - q, where p + q = 1, by polynomials of -ln(4 p q) (M. Giles, "Approximating the erfinv function",
/// GPU Computing Gems Jade Edition, 2011, single precision).
fn erfinv_of(p: Expr, q: Expr) -> Expr {
    const CENTRAL: [f64; 9] = [
        2.810_226_36e-8,
        3.432_739_39e-7,
        -3.523_387_7e-6,
        -4.391_506_54e-6,
        0.000_218_580_87,
        -0.001_253_725_03,
        -0.004_177_681_640,
        0.246_640_727,
        1.501_409_41,
    ];
    const TAIL: [f64; 9] = [
        -0.000_200_214_257,
        0.000_100_950_558,
        0.001_349_343_22,
        -0.003_673_428_44,
        0.005_739_507_73,
        -0.007_622_461_3,
        0.009_438_870_47,
        1.001_674_06,
        2.832_976_82,
    ];
    let horner = |coefficients: [f64; 9], w: Expr| {
        coefficients.into_iter().skip(1).fold(Expr::constant(coefficients[0]), |sum, next| sum * &w + next)
    };
    let w = -(p.clone() * &q * 4.0).log();
    let central = horner(CENTRAL, w.clone() - 2.5);
    let tail = horner(TAIL, w.binary(BinaryFn::Max, 0.0).sqrt() - 3.0);
    w.compare(CompareFn::Lt, 5.0).select(central, tail) * (p - q)
}

/// The same in f64: from the smaller of p and q where that is below 1/100, by two steps of Halley's on the logarithm of erfc(x) / (2 q), which is
/// nearly a parabola; erfc has its digits up to x = 26. They start from the first term of its asymptotic series.
fn erfinv_of_64(p: &Expr, q: &Expr) -> Expr {
    const SMALL: f64 = 0.01;
    let small = p.minimum(q);
    let log = -(small.clone() * 2.0).log();
    let less_root_of = |square: &Expr| log.clone() - (square.clone() * std::f64::consts::PI).log() * 0.5;
    let start = less_root_of(&less_root_of(&log)).sqrt();
    let far = (0..2).fold(start, |x, _| {
        let erfc = x.erfc();
        let slope = (-(x.clone() * &x)).exp() * std::f64::consts::FRAC_2_SQRT_PI / &erfc;
        let step = -(erfc.log() + &log) / &slope;
        x.clone() - step.clone() / (step * (x - slope * 0.5) + 1.0)
    });
    let far = p.compare(CompareFn::Lt, q).select(-far.clone(), far);
    small.compare(CompareFn::Lt, SMALL).select(far, (p - q).erfinv())
}

/// The share of the standard normal distribution below `x`.
fn below(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}

fn refuse<T>(what: &'static str, reason: String) -> Result<T> {
    Err(Error::InvalidArgument { what, reason })
}

impl Generator {
    /// The next key's words, at each place of `shape`.
    fn words(&self, shape: Shape) -> Result<Vec<Tensor>> {
        let words = self.key()?.words()?;
        words.iter().map(|word| word.broadcast_to(shape)).collect()
    }

    /// `expr` of the next key's words and `others`, at each place of `shape`.
    fn draw(&self, op: &'static str, shape: impl IntoShape, expr: &Expr, others: &[&Tensor]) -> Result<Tensor> {
        let words = self.words(shape.into_shape()?)?;
        let inputs: Vec<&Tensor> = words.iter().chain(others.iter().copied()).collect();
        Tensor::map_named(op, expr, &inputs)
    }

    /// Refuses what is no float.
    fn check_real(op: &'static str, dtype: DType) -> Result<()> {
        if dtype.is_float() { Ok(()) } else { Err(Error::UndefinedForDType { op, dtype }) }
    }

    /// Uniform in [low, high): low + (high - low) u, u counting in steps of 2^-24 ([`Expr::uniform`]), in f64 of 2^-53. Computed in f32 (f64 for f64),
    /// rounded to `dtype`; what would be rounded to `high` becomes the number below it.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for integers and bool; [`Error::UnsupportedDType`]; [`Error::InvalidArgument`] for bounds that are not
    /// finite or not in order; memory errors of the device.
    pub fn uniform(&self, dtype: DType, shape: impl IntoShape, low: f64, high: f64) -> Result<Tensor> {
        const OP: &str = "uniform";
        Generator::check_real(OP, dtype)?;
        if !(low <= high && (high - low).is_finite()) {
            return refuse("range", format!("{OP} in {low}..{high}, which is no interval of finite width"));
        }
        self.draw(OP, shape, &uniform_between(dtype, uniform_in(dtype), low, high), &[])
    }

    /// Normal with `mean` and deviation `std`, by Box and Muller (1958): mean + std sqrt(2 e) cos(2 pi u), where e is exponential and u uniform
    /// of a second word. Up to 6.7 deviations from the mean, in f64 9.4. Computed in f32 (f64 for f64), rounded to `dtype`.
    ///
    /// # Errors
    /// As [`Generator::uniform`]; [`Error::InvalidArgument`] for numbers that are not finite and a negative deviation.
    pub fn normal(&self, dtype: DType, shape: impl IntoShape, mean: f64, std: f64) -> Result<Tensor> {
        const OP: &str = "normal";
        Generator::check_real(OP, dtype)?;
        if !(mean.is_finite() && std.is_finite() && std >= 0.0) {
            return refuse(
                "deviation",
                format!("{OP} with mean {mean} and deviation {std}; both finite, this not negative"),
            );
        }
        let z = normal_of(exponential_in(dtype, 0), unit_in(dtype, words_of(dtype)));
        self.draw(OP, shape, &(z * std + mean).cast(dtype), &[])
    }

    /// True with probability `p`: where the random word is below p 2^32, rounded. 0 and 1 are exact.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a `p` that is not in 0..=1; memory errors of the device.
    pub fn bernoulli(&self, shape: impl IntoShape, p: f64) -> Result<Tensor> {
        if !(0.0..=1.0).contains(&p) {
            return refuse("p", format!("bernoulli of {p}, which is no probability"));
        }
        let below = (p / UNIT).round() as i64;
        self.draw("bernoulli", shape, &word().compare(CompareFn::Lt, below), &[])
    }

    /// True with the probability that each element of `p` is, floats: where the uniform number ([`Expr::uniform`], for f64 one of 53 bits) is below
    /// it. NaN gives false. No gradient reaches `p`.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for integers and bool; [`Error::UnsupportedDType`]; [`Error::DeviceMismatch`]; memory errors of the device.
    pub fn bernoulli_of(&self, p: &Tensor) -> Result<Tensor> {
        const OP: &str = "bernoulli";
        let dtype = p.dtype();
        Generator::check_real(OP, dtype)?;
        let is_below = uniform_in(dtype).compare(CompareFn::Lt, Expr::input(4).cast(computed_in(dtype)));
        self.draw(OP, *p.shape(), &is_below, &[&p.detach()])
    }

    /// Exponential with rate `rate`: -ln(v) / rate, v of 32 bits. Up to 22.9 / rate. Computed in f32, rounded to `dtype`; in f64 of 64 bits, up to
    /// 45 / rate.
    ///
    /// # Errors
    /// As [`Generator::uniform`]; [`Error::InvalidArgument`] for a rate that is not finite or not above 0.
    pub fn exponential(&self, dtype: DType, shape: impl IntoShape, rate: f64) -> Result<Tensor> {
        const OP: &str = "exponential";
        Generator::check_real(OP, dtype)?;
        if !(rate > 0.0 && rate.is_finite()) {
            return refuse("rate", format!("{OP} with rate {rate}; give a finite number above 0"));
        }
        self.draw(OP, shape, &(exponential_in(dtype, 0) / rate).cast(dtype), &[])
    }

    /// Gumbel: location - scale ln(e), e being exponential with rate 1. Adding such numbers to logarithms of weights and taking the position of
    /// the largest draws a position with probability of its weight. Computed in f32 (f64 for f64), rounded to `dtype`.
    ///
    /// # Errors
    /// As [`Generator::uniform`]; [`Error::InvalidArgument`] for numbers that are not finite and a scale that is not above 0.
    pub fn gumbel(&self, dtype: DType, shape: impl IntoShape, location: f64, scale: f64) -> Result<Tensor> {
        const OP: &str = "gumbel";
        Generator::check_real(OP, dtype)?;
        check_scale(OP, location, scale)?;
        let number = -exponential_in(dtype, 0).log() * scale + location;
        self.draw(OP, shape, &number.cast(dtype), &[])
    }

    /// Laplace: location + scale e or location - scale e by a bit of the word, e being exponential with rate 1 of a second word. Computed in f32
    /// (f64 for f64), rounded to `dtype`.
    ///
    /// # Errors
    /// As [`Generator::gumbel`].
    pub fn laplace(&self, dtype: DType, shape: impl IntoShape, location: f64, scale: f64) -> Result<Tensor> {
        const OP: &str = "laplace";
        Generator::check_real(OP, dtype)?;
        check_scale(OP, location, scale)?;
        let e = exponential_in(dtype, 1);
        let signed = (word() % 2).compare(CompareFn::Eq, 0).select(e.clone(), -e);
        self.draw(OP, shape, &(signed * scale + location).cast(dtype), &[])
    }

    /// Normal with `mean` and deviation `std` as long as it is in `low`..=`high`: the inverse of the distribution, mean + std sqrt(2) erfinv(p - q)
    /// with p = F(low) + v (F(high) - F(low)) and q = 1 - p, each computed by itself, and F the normal distribution, on the host in float64.
    /// Computed in f32 (f64 for f64), limited to the bounds, rounded to `dtype`. PyTorch's `nn.init.trunc_normal_`.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for integers and bool; [`Error::UnsupportedDType`]; memory errors of the device; [`Error::InvalidArgument`] for
    /// a mean that is not finite, a deviation that is not above 0, bounds that are NaN or not in order, and bounds that are both more than 4
    /// deviations (f64: 30) to one side of the mean, where the polynomials (the error function) end.
    pub fn truncated_normal(
        &self,
        dtype: DType,
        shape: impl IntoShape,
        [mean, std]: [f64; 2],
        [low, high]: [f64; 2],
    ) -> Result<Tensor> {
        const OP: &str = "truncated_normal";
        Generator::check_real(OP, dtype)?;
        check_scale(OP, mean, std)?;
        let ends = [(low - mean) / std, (high - mean) / std];
        let most = if dtype == DType::F64 { 30.0 } else { 4.0 };
        if ends[0].is_nan() || ends[1].is_nan() || ends[0] >= ends[1] || ends[0] > most || ends[1] < -most {
            let reason = format!(
                "{OP} of {mean} and {std} in {low}..={high}: in order, and one within {most} deviations of the mean"
            );
            return refuse("range", reason);
        }
        let [p_low, q_high, width] = [below(ends[0]), below(-ends[1]), below(ends[1]) - below(ends[0])];
        let width = if ends[0] > 0.0 { below(-ends[0]) - q_high } else { width };
        let inverse = if dtype == DType::F64 {
            let words = [word(), other_word()];
            let of = |words, from: f64| unit_of_64(words) * width + from;
            erfinv_of_64(&of(words.clone(), p_low), &of(words.map(mirrored), q_high))
        } else {
            let of = |word, from: f64| unit(word) * width + from;
            erfinv_of(of(word(), p_low), of(mirrored(word()), q_high))
        };
        let number = inverse * (std::f64::consts::SQRT_2 * std) + mean;
        // An infinite bound bounds nothing.
        let number = number.binary(BinaryFn::Max, low).binary(BinaryFn::Min, high);
        self.draw(OP, shape, &number.cast(dtype), &[])
    }

    /// The numbers 0 to n - 1 in a random order, u32 `[n]`: the order of n random numbers of 64 bits, sorted by their low words and then, stably,
    /// by their high words. Two of them are equal with a probability below n^2 2^-65.
    ///
    /// ```
    /// use polywarp_core::{Device, Generator};
    ///
    /// let mut order = Generator::new(&Device::cpu(), 3)?.permutation(10)?.to_vec::<u32>()?;
    /// order.sort();
    /// assert_eq!(order, (0..10).collect::<Vec<u32>>());
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::sort`]; memory errors of the device.
    pub fn permutation(&self, n: u64) -> Result<Tensor> {
        const OP: &str = "permutation";
        let shape = [n].into_shape()?;
        let words = self.key()?.words()?;
        let words = words.iter().map(|word| word.broadcast_to(shape)).collect::<Result<Vec<Tensor>>>()?;
        let inputs: Vec<&Tensor> = words.iter().collect();
        let [high, low] = [word(), other_word()].map(|bits| Tensor::map_named(OP, &bits, &inputs));
        let first = low?.argsort(0, SortOrder::Ascending)?;
        let second = high?.take_or(&first, Missing::Nan)?.argsort(0, SortOrder::Ascending)?;
        first.take_or(&second, Missing::Nan)
    }

    /// `x` with its indices along `axis` in a random order, whole: all lines in the same one ([`Generator::permutation`]). The gradient of `x`
    /// is put back into its order.
    ///
    /// # Errors
    /// As [`Tensor::index_select`] and [`Generator::permutation`].
    pub fn shuffle(&self, x: &Tensor, axis: impl Position) -> Result<Tensor> {
        let axis = x.axis(axis)?;
        let extent = x.dims()[axis];
        x.expect_device("shuffle", &self.low)?;
        x.index_select_or(&self.permutation(extent)?, axis, Missing::Nan)
    }

    /// `count` positions of each line of weights [..., n], u32 [..., count], each with the probability of its weight among those of the line.
    /// Weights are floats, not negative, and need no sum of 1. PyTorch's `multinomial`.
    ///
    /// With replacement: u times the sum of the line, u counting in steps of 2^-24, is searched among the cumulative sums; a probability errs by
    /// their rounding. Without: the positions of the largest ln(weight) - ln(e), e being exponential (Efraimidis and Spirakis, Information
    /// Processing Letters 97, 2006; Kool, van Hoof and Welling, arXiv 1903.06059), in the order in which they would be drawn; weights of zero
    /// come last. Lines whose sum is zero, infinite or NaN, and negative weights, give some positions. No gradient reaches the weights.
    ///
    /// ```
    /// use polywarp_core::{Device, Generator, Replacement, Tensor};
    ///
    /// let device = Device::cpu();
    /// let generator = Generator::new(&device, 5)?;
    /// let weights = Tensor::from_slice(&device, &[0.0f32, 2.0, 0.0, 1.0], [4])?;
    /// let drawn = generator.multinomial(&weights, 100, Replacement::With)?.to_vec::<u32>()?;
    /// assert!(drawn.iter().all(|&at| at == 1 || at == 3));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for integers and bool; [`Error::InvalidArgument`] for a scalar, lines without weights, and more draws
    /// without replacement than weights; as [`Tensor::cumsum`], [`Tensor::searchsorted`] and [`Tensor::topk`].
    pub fn multinomial(&self, weights: &Tensor, count: u64, replacement: Replacement) -> Result<Tensor> {
        const OP: &str = "multinomial";
        let Some((&n, lines)) = weights.dims().split_last() else {
            return refuse("weights", format!("{OP} of a scalar, which has no positions"));
        };
        if !weights.dtype().is_float() {
            return Err(Error::UndefinedForDType { op: OP, dtype: weights.dtype() });
        }
        if n == 0 || (replacement == Replacement::Without && count > n) {
            let which = if replacement == Replacement::With { "with" } else { "without" };
            return refuse("count", format!("{OP} of {count} positions {which} replacement from {n} weights"));
        }
        weights.expect_device(OP, &self.low)?;
        let weights = weights.detach().cast(DType::F32)?;
        let axis = lines.len();
        if replacement == Replacement::Without {
            let score = Expr::input(4).log() - exponential_of(word()).log();
            let scores = self.draw(OP, *weights.shape(), &score, &[&weights])?;
            return Ok(scores.topk(count, axis, SortOrder::Descending)?.indices);
        }
        // Sums of blocks may round down where nothing was added.
        let sums = weights.cumsum(axis)?.cummax(axis)?.values;
        let shape = Shape::new(&[lines, &[count]].concat())?;
        let total = sums.slice(axis, n - 1..n)?;
        let at = self.draw(OP, shape, &(Expr::uniform(key()) * Expr::input(4)), &[&total])?;
        sums.searchsorted(&at, SearchSide::Right)?
            .binary_scalar(BinaryFn::Min, i64::try_from(n - 1).unwrap_or(i64::MAX))
    }
}

/// A finite location and a finite scale above 0.
fn check_scale(op: &'static str, location: f64, scale: f64) -> Result<()> {
    if location.is_finite() && scale.is_finite() && scale > 0.0 {
        return Ok(());
    }
    refuse("scale", format!("{op} at {location} with scale {scale}; both finite, this above 0"))
}

/// A tensor that no live tape watches: floats drawn by it would lose its gradient in silence.
fn check_unwatched(op: &'static str, parameter: &Tensor) -> Result<()> {
    if parameter.is_watched() {
        return refuse("gradient", format!("{op} has no gradient: detach the tensor that a tape watches"));
    }
    Ok(())
}

/// A parameter of a distribution: one for all elements, or one for each.
#[derive(Clone, Copy)]
enum Parameter<'a> {
    Number(f64),
    /// Floats.
    Each(&'a Tensor),
}

impl<'a> Parameter<'a> {
    /// Itself in `dtype`, where its tensor follows the words of the key.
    fn expr_in(self, dtype: DType) -> Expr {
        match self {
            Parameter::Number(number) => Expr::constant(number).cast(dtype),
            Parameter::Each(_) => Expr::input(4).cast(dtype),
        }
    }

    /// Its tensors: one, or none.
    fn inputs(self) -> Option<&'a Tensor> {
        match self {
            Parameter::Number(_) => None,
            Parameter::Each(tensor) => Some(tensor),
        }
    }

    /// The number of the input that follows.
    fn next(self) -> usize {
        4 + usize::from(self.inputs().is_some())
    }
}

#[cfg(test)]
mod tests;
