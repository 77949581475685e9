//! Functions made of other steps: tests of what kind a number is, rounding towards zero, activations, dropout, and exponentials and logarithms near
//! zero.
//!
//! None is a step of its own, so a device has one kernel for the whole expression, and gradients follow from the steps'. Errors are those of the
//! steps, each rounded to the dtype; where a plain formula would lose its digits, another is taken, which its function names.

use super::Expr;
use crate::{BinaryFn, CompareFn, Scalar};

impl Expr {
    /// Input 0, dropped out by the key of inputs 1 to 4.
    pub(crate) fn dropped(p: f64) -> Expr {
        // Nothing is kept for p = 1, whose scale would make the gradient 0 times infinity.
        let scale = if p < 1.0 { 1.0 / (1.0 - p) } else { 0.0 };
        let kept = Expr::uniform([1, 2, 3, 4].map(Expr::input)).compare(CompareFn::Ge, p);
        kept.select(Expr::input(0) * scale, 0.0)
    }

    fn is(&self, f: CompareFn, other: impl Into<Expr>) -> Expr {
        self.compare(f, other)
    }

    /// Whether a number is NaN, as bool; never for integers.
    pub fn is_nan(&self) -> Expr {
        self.is(CompareFn::Ne, self.clone())
    }

    /// Whether a number is infinite, as bool; never for integers.
    pub fn is_inf(&self) -> Expr {
        let infinite = |end: f64| self.is(CompareFn::Eq, end);
        infinite(f64::INFINITY).binary(BinaryFn::Or, infinite(f64::NEG_INFINITY))
    }

    /// Whether a number is neither NaN nor infinite, as bool; always for integers.
    pub fn is_finite(&self) -> Expr {
        self.is_nan().binary(BinaryFn::Or, self.is_inf()).is(CompareFn::Eq, false)
    }

    /// `nan` in place of NaN, `above` in place of infinity and `below` in place of negative infinity: numbers that the dtype must hold.
    pub fn nan_to_num(&self, nan: impl Into<Scalar>, above: impl Into<Scalar>, below: impl Into<Scalar>) -> Expr {
        let finite = self.is(CompareFn::Eq, f64::NEG_INFINITY).select(below.into(), self.clone());
        let finite = self.is(CompareFn::Eq, f64::INFINITY).select(above.into(), finite);
        self.is_nan().select(nan.into(), finite)
    }

    /// The whole number next to it towards zero; -0 for what is between -1 and 0.
    pub fn trunc(&self) -> Expr {
        self.is(CompareFn::Lt, 0.0).select(self.ceil(), self.floor())
    }

    /// What [`Expr::trunc`] takes away, with the number's sign: x - trunc(x), NaN for infinities, as PyTorch's `frac`. (WGSL's `fract` is
    /// x - floor(x).)
    pub fn fract(&self) -> Expr {
        self.clone() - self.trunc()
    }

    /// e^x - 1, to a few units in the last place near 0 as well: tanh(x / 2) (e^x + 1).
    pub fn expm1(&self) -> Expr {
        let product = (self.clone() * 0.5).tanh() * (self.exp() + 1.0);
        // Subnormals times a half, and tanh of them, need not keep their digits.
        self.abs().compare(CompareFn::Lt, SMALL).select(self.clone(), product)
    }

    /// ln(1 + x), to a few units in the last place near 0 as well: with u = 1 + x as it is rounded, ln(u) x / (u - 1), and x where u is 1
    /// (W. Kahan, in HP-15C Advanced Functions Handbook, 1982, appendix).
    pub fn log1p(&self) -> Expr {
        let u = self.clone() + 1.0;
        let corrected = u.log() * (self.clone() / (u.clone() - 1.0));
        let large = u.is(CompareFn::Eq, f64::INFINITY).select(u.clone(), corrected);
        u.is(CompareFn::Eq, 1.0).select(self.clone(), large)
    }

    /// The logarithmic derivative of the gamma function: from 1/2 on psi(x + 8) - sum of 1 / (x + k), k below 8, with psi's asymptotic series
    /// (Abramowitz & Stegun, 6.3.6 and 6.3.18), below psi(1 - x) - pi cot(pi x) (6.3.7). Near its zeros the error is that of its terms; at its poles
    /// it is negative infinity.
    pub fn digamma(&self) -> Expr {
        /// B(2n) / 2n from n = 1 on.
        const SERIES: [f64; 6] = [1.0 / 12.0, -1.0 / 120.0, 1.0 / 252.0, -1.0 / 240.0, 1.0 / 132.0, -691.0 / 32760.0];
        let mirrored = self.is(CompareFn::Lt, 0.5);
        let x = mirrored.select(-self.clone() + 1.0, self.clone());
        let sum = (1..8).fold(x.reciprocal(), |sum, k| sum + (x.clone() + f64::from(k)).reciprocal());
        let far = x + 8.0;
        let near_zero = far.reciprocal();
        let z = near_zero.clone() * &near_zero;
        let mut series = Expr::constant(SERIES[5]) * &z;
        for c in SERIES[..5].iter().rev() {
            series = (series + *c) * &z;
        }
        let positive = far.log() - near_zero * 0.5 - series - sum;
        // A branch that is not taken stays away from poles, for gradients' sake.
        let turns = mirrored.select(self.clone() - self.round(), 0.25);
        let mirror = Expr::constant(std::f64::consts::PI) / (turns * std::f64::consts::PI).tan();
        mirrored.select(positive.clone() - mirror, positive)
    }

    /// ln(1 + e^x): max(x, 0) + ln(1 + e^-|x|).
    pub fn softplus(&self) -> Expr {
        self.relu() + (-self.abs()).exp().log1p()
    }

    /// x tanh(softplus(x)) (Misra, arXiv 1908.08681). Where a device flushes subnormal numbers its far tail is lost, from e^x on that is one.
    pub fn mish(&self) -> Expr {
        self.clone() * self.softplus().tanh()
    }

    /// x where it is positive, else alpha (e^x - 1) (Clevert et al., arXiv 1511.07289).
    pub fn elu(&self, alpha: f64) -> Expr {
        // Of what is not used no overflow comes.
        let negative = self.binary(BinaryFn::Min, 0.0).expm1() * alpha;
        self.is(CompareFn::Gt, 0.0).select(self.clone(), negative)
    }

    /// x where it is positive, else `slope` x.
    pub fn leaky_relu(&self, slope: f64) -> Expr {
        self.is(CompareFn::Gt, 0.0).select(self.clone(), self.clone() * slope)
    }

    /// x / 6 + 1/2, limited to 0..=1.
    pub fn hardsigmoid(&self) -> Expr {
        (self.clone() + 3.0).clamp(0.0, 6.0) / 6.0
    }

    /// x hardsigmoid(x); NaN for negative infinity, as in PyTorch.
    pub fn hardswish(&self) -> Expr {
        self.clone() * self.hardsigmoid()
    }

    /// From this at weight 0 to `end` at weight 1: a + w (b - a) for weights below a half, else b - (b - a) (1 - w), so that both ends are
    /// met exactly.
    pub fn lerp(&self, end: impl Into<Expr>, weight: impl Into<Expr>) -> Expr {
        let (end, weight) = (end.into(), weight.into());
        let way = end.clone() - self.clone();
        let (near, far) = (self.clone() + weight.clone() * &way, end - way * (Expr::from(1.0) - weight.clone()));
        weight.is(CompareFn::Lt, 0.5).select(near, far)
    }

    /// The larger of both, the number where one is NaN. ([`BinaryFn::Max`] gives NaN then.)
    pub fn fmax(&self, other: impl Into<Expr>) -> Expr {
        self.number_of(BinaryFn::Max, other.into())
    }

    /// The smaller of both, the number where one is NaN. ([`BinaryFn::Min`] gives NaN then.)
    pub fn fmin(&self, other: impl Into<Expr>) -> Expr {
        self.number_of(BinaryFn::Min, other.into())
    }

    fn number_of(&self, f: BinaryFn, other: Expr) -> Expr {
        let both = other.is_nan().select(self.clone(), self.binary(f, other.clone()));
        self.is_nan().select(other, both)
    }
}

/// Where e^x - 1 is x in every dtype but f64, and f64's square is far above what it rounds to zero.
const SMALL: f64 = 1e-30;
