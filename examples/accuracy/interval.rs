//! The results that WGSL allows, as intervals, by the rules of its sections "Floating Point Accuracy" and "Floating
//! Point Rounding and Overflow" (<https://www.w3.org/TR/WGSL/#floating-point-accuracy>).
//!
//! A limit that is inherited from an expression is that expression over intervals, where each operation widens its
//! result by its own limit. A result without a bound is [`ANY`]: where an intermediate result can overflow (its value
//! is then indeterminate), or where the specification gives no accuracy. Subnormal operands and results may be zeros.
//! The decision to know: sums may be taken in any order, and products and sums may be fused; the widening of each
//! operation covers this.

use super::float::{Format, power};

#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Interval {
    pub low: f64,
    pub high: f64,
}

/// No promise: any value, also NaN.
pub const ANY: Interval = Interval { low: f64::NEG_INFINITY, high: f64::INFINITY };

/// The interval of a single value.
pub fn point(value: f64) -> Interval {
    Interval { low: value, high: value }
}

/// The allowed results of a builtin, for each of its results; four at most.
pub type Allowed = [Interval; 4];

/// The only result.
pub fn one(interval: Interval) -> Allowed {
    [interval; 4]
}

impl Interval {
    pub fn is_any(self) -> bool {
        self == ANY
    }

    pub fn has(self, value: f64) -> bool {
        self.is_any() || self.low <= value && value <= self.high
    }

    pub fn hull(self, other: Interval) -> Interval {
        Interval { low: self.low.min(other.low), high: self.high.max(other.high) }
    }

    /// The greatest size.
    pub fn greatest(self) -> f64 {
        self.low.abs().max(self.high.abs())
    }

    /// The least size.
    pub fn least(self) -> f64 {
        if self.has(0.0) { 0.0 } else { self.low.abs().min(self.high.abs()) }
    }
}

/// WGSL's operations on one floating-point type.
#[derive(Clone, Copy, Debug)]
pub struct Wgsl {
    pub format: Format,
}

/// x + y, and the part of it that was rounded away.
fn sum(x: f64, y: f64) -> (f64, f64) {
    let sum = x + y;
    let rest = sum - x;
    (sum, (x - (sum - rest)) + (y - rest))
}

impl Wgsl {
    fn is_half(self) -> bool {
        self.format == Format::F16
    }

    /// An operand: one that is subnormal may be zero.
    pub fn operand(self, value: f64) -> Interval {
        if self.format.is_subnormal(value) { point(value).hull(point(0.0)) } else { point(value) }
    }

    /// Results from low to high, which may overflow or be flushed.
    fn results(self, low: f64, high: f64) -> Interval {
        let max = self.format.max();
        // The negation also covers a NaN in either.
        if !(low >= -max && high <= max) {
            return ANY;
        }
        let this = Interval { low, high };
        if self.format.is_subnormal(low) || self.format.is_subnormal(high) { this.hull(point(0.0)) } else { this }
    }

    /// "Correctly rounded": either neighbour of a value that is exact up to 2^-1074.
    pub fn rounded(self, exact: Interval) -> Interval {
        let max = self.format.max();
        if !(exact.low >= -max && exact.high <= max) {
            return ANY;
        }
        self.results(self.format.down(exact.low), self.format.up(exact.high))
    }

    /// Within `ulps` of a value known to about 2^-50 of itself.
    pub fn ulps(self, value: f64, ulps: f64) -> Interval {
        if value.is_nan() {
            return ANY;
        }
        self.within(value, ulps * self.format.ulp(value))
    }

    /// Within an absolute error.
    pub fn within(self, value: f64, error: f64) -> Interval {
        let error = error + value.abs() * power(-48);
        self.results(value - error, value + error)
    }

    /// A function that rises or falls all over `x`.
    fn monotone(self, x: Interval, f: impl Fn(f64) -> Interval) -> Interval {
        if x.is_any() { ANY } else { f(x.low).hull(f(x.high)) }
    }

    /// An exact and rising function, `floor` for one.
    pub fn exact(self, x: Interval, f: fn(f64) -> f64) -> Interval {
        self.monotone(x, |x| self.results(f(x), f(x)))
    }

    /// The extremes of `f` over the corners of two intervals.
    fn corners(self, x: Interval, y: Interval, f: impl Fn(f64, f64) -> Interval) -> Interval {
        if x.is_any() || y.is_any() {
            return ANY;
        }
        f(x.low, y.low).hull(f(x.low, y.high)).hull(f(x.high, y.low)).hull(f(x.high, y.high))
    }

    pub fn neg(self, x: Interval) -> Interval {
        Interval { low: -x.high, high: -x.low }
    }

    pub fn add(self, x: Interval, y: Interval) -> Interval {
        if x.is_any() || y.is_any() {
            return ANY;
        }
        let ((low, below), (high, above)) = (sum(x.low, y.low), sum(x.high, y.high));
        let low = if below < 0.0 { low.next_down() } else { low };
        let high = if above > 0.0 { high.next_up() } else { high };
        self.rounded(Interval { low, high })
    }

    pub fn sub(self, x: Interval, y: Interval) -> Interval {
        self.add(x, self.neg(y))
    }

    /// Products of two f32 are exact in f64.
    pub fn mul(self, x: Interval, y: Interval) -> Interval {
        self.corners(x, y, |x, y| self.rounded(point(x * y)))
    }

    /// 2.5 ULP for divisors in [2^-126, 2^126], f16: [2^-14, 2^14].
    pub fn div(self, x: Interval, y: Interval) -> Interval {
        if y.least() < power(self.format.least) || y.greatest() > power(-self.format.least) {
            return ANY;
        }
        self.corners(x, y, |x, y| self.ulps(x / y, 2.5))
    }

    pub fn inverse_sqrt(self, x: Interval) -> Interval {
        if x.low <= 0.0 { ANY } else { self.monotone(x, |x| self.ulps(1.0 / x.sqrt(), 2.0)) }
    }

    /// Inherited from `1.0 / inverseSqrt(x)`.
    pub fn sqrt(self, x: Interval) -> Interval {
        self.div(point(1.0), self.inverse_sqrt(x))
    }

    fn exponential_ulps(self, x: f64) -> f64 {
        if self.is_half() { 1.0 + 2.0 * x.abs() } else { 3.0 + 2.0 * x.abs() }
    }

    pub fn exp(self, x: Interval) -> Interval {
        self.monotone(x, |x| self.ulps(x.exp(), self.exponential_ulps(x)))
    }

    pub fn exp2(self, x: Interval) -> Interval {
        self.monotone(x, |x| self.ulps(x.exp2(), self.exponential_ulps(x)))
    }

    fn logarithm(self, x: Interval, f: fn(f64) -> f64) -> Interval {
        let absolute = if self.is_half() { power(-7) } else { power(-21) };
        if x.low <= 0.0 {
            return ANY;
        }
        self.monotone(x, |x| match x {
            0.5..=2.0 => self.within(f(x), absolute),
            _ => self.ulps(f(x), 3.0),
        })
    }

    pub fn log(self, x: Interval) -> Interval {
        self.logarithm(x, f64::ln)
    }

    pub fn log2(self, x: Interval) -> Interval {
        self.logarithm(x, f64::log2)
    }

    fn wave(self, x: Interval, f: fn(f64) -> f64) -> Interval {
        let absolute = if self.is_half() { power(-7) } else { power(-11) };
        if x.greatest() > std::f64::consts::PI {
            return ANY;
        }
        // Operands are points, or subnormals beside zero, where both are monotone.
        self.monotone(x, |x| self.within(f(x), absolute))
    }

    pub fn sin(self, x: Interval) -> Interval {
        self.wave(x, f64::sin)
    }

    pub fn cos(self, x: Interval) -> Interval {
        self.wave(x, f64::cos)
    }

    fn arc_ulps(self) -> f64 {
        if self.is_half() { 5.0 } else { 4096.0 }
    }

    pub fn atan(self, x: Interval) -> Interval {
        self.monotone(x, |x| self.ulps(x.atan(), self.arc_ulps()))
    }

    /// For |x| in [2^-126, 2^126] (f16: [2^-14, 2^14]) and y normal.
    pub fn atan2(self, y: Interval, x: Interval) -> Interval {
        let least = power(self.format.least);
        if x.least() < least || x.greatest() > 1.0 / least || y.least() < least {
            return ANY;
        }
        self.corners(y, x, |y, x| self.ulps(y.atan2(x), self.arc_ulps()))
    }

    pub fn min(self, x: Interval, y: Interval) -> Interval {
        self.either_subnormal(x, y, Interval { low: x.low.min(y.low), high: x.high.min(y.high) })
    }

    pub fn max(self, x: Interval, y: Interval) -> Interval {
        self.either_subnormal(x, y, Interval { low: x.low.max(y.low), high: x.high.max(y.high) })
    }

    /// "If both are subnormal, the result may be either input."
    fn either_subnormal(self, x: Interval, y: Interval, result: Interval) -> Interval {
        let small = |x: Interval| x.greatest() < power(self.format.least) && x != point(0.0);
        if small(x) && small(y) { x.hull(y) } else { result }
    }

    /// `min(max(x, low), high)`
    pub fn clamp(self, x: Interval, low: Interval, high: Interval) -> Interval {
        self.min(self.max(x, low), high)
    }

    /// Sum of products, in any order: besides each product's rounding, each of n - 1 sums may be off by its spacing, at
    /// most 2^(1 - p) of the sum of sizes.
    pub fn dot(self, x: &[Interval], y: &[Interval]) -> Interval {
        let products: Vec<Interval> = x.iter().zip(y).map(|(&x, &y)| self.mul(x, y)).collect();
        self.total(&products)
    }

    /// Sum in any order.
    pub fn total(self, terms: &[Interval]) -> Interval {
        let size: f64 = terms.iter().map(|term| term.greatest()).sum();
        let unit = power(1 - self.format.precision);
        let n = (terms.len() - 1) as f64;
        if size * (1.0 + n * unit) > self.format.max() {
            return ANY;
        }
        let flushed = n * power(self.format.least); // each partial sum, when it is subnormal
        let flushed = if size < 4.0 * power(self.format.least) { flushed } else { 0.0 };
        let error = size * n * unit * (1.0 + n * unit) + flushed;
        let (low, high): (Vec<f64>, Vec<f64>) = terms.iter().map(|term| (term.low, term.high)).unzip();
        self.results(low.iter().sum::<f64>() - error, high.iter().sum::<f64>() + error)
    }

    /// Inherited from `sqrt(dot(x, x))`.
    pub fn length(self, x: &[Interval]) -> Interval {
        self.sqrt(self.dot(x, x))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const W: Wgsl = Wgsl { format: Format::F32 };

    #[test]
    fn correct_rounding_is_both_neighbours_and_nothing_else() {
        let (one, tiny) = (point(1.0), point(power(-60)));
        assert_eq!(W.add(one, tiny), Interval { low: 1.0, high: 1.0 + power(-23) });
        assert_eq!(W.sub(one, tiny), Interval { low: 1.0 - power(-24), high: 1.0 });
        assert_eq!(W.add(one, one), point(2.0));
        // Beyond the bits of f64.
        assert_eq!(W.add(one, point(power(-120))).high, 1.0 + power(-23));
        assert_eq!(W.mul(point(3.0), point(5.0)), point(15.0));
    }

    #[test]
    fn overflow_promises_nothing_and_subnormals_may_be_zero() {
        let max = point(Format::F32.max());
        assert!(W.add(max, max).is_any());
        assert!(W.div(point(1.0), point(0.0)).is_any());
        assert!(W.sqrt(point(-1.0)).is_any());
        assert!(W.mul(point(power(-100)), point(power(-40))).has(0.0));
        assert!(!W.mul(point(power(-100)), point(power(-20))).has(0.0));
        assert_eq!(W.operand(power(-140)), Interval { low: 0.0, high: power(-140) });
    }

    #[test]
    fn limits_are_as_wide_as_stated() {
        let exp = W.exp(point(2.0));
        let unit = power(-21); // of e^2, between 4 and 8
        assert!(exp.has(2f64.exp() + 6.99 * unit) && !exp.has(2f64.exp() + 7.01 * unit));
        assert!(W.log(point(1.0)).has(power(-21)) && !W.log(point(1.0)).has(power(-20)));
        assert!(W.sin(point(4.0)).is_any());
        assert!(!W.sin(point(3.0)).has(3f64.sin() + 1.1 * power(-11)));
    }
}
