//! The float64 oracle's vocabulary: operands on the host, expected results, and how far a backend may be from them.
//!
//! Each op computes its own reference ([`crate::Operation::oracle`]), naively, in float64 or exact integers. Results are [`Expected`]: a
//! value and the absolute error allowed for that element. Sums are [`Approx`], composed steps [`Span`]. Comparison with what
//! a device wrote is [`Expected::accepts`]; running cases is [`crate::harness`].

mod span;

pub use span::Span;

use crate::{DType, Scalar, Shape};

/// A tensor on the host as the oracle sees it: logical elements in row-major order, strides resolved.
#[derive(Clone, Debug)]
pub struct HostTensor {
    /// The dtype the values are exactly representable in.
    pub dtype: DType,
    /// The extents.
    pub shape: Shape,
    /// Row-major elements.
    pub values: Vec<Scalar>,
}

impl HostTensor {
    /// The elements grouped by what the (ascending) `axes` run over: one group per index of the other axes, in
    /// row-major order, each group row-major over `axes`.
    pub fn groups(&self, axes: &[usize]) -> Vec<Vec<Scalar>> {
        if axes.len() == self.shape.rank() {
            return vec![self.values.clone()];
        }
        self.group_indices(axes).iter().map(|group| group.iter().map(|&i| self.values[i]).collect()).collect()
    }

    /// Applies `f` to each line of elements along `axis` and puts the results back in place.
    pub fn map_groups<T: Clone>(&self, axis: usize, f: impl Fn(&[Scalar]) -> Vec<T>) -> Vec<T> {
        let mut out: Vec<Option<T>> = vec![None; self.values.len()];
        for group in self.group_indices(&[axis]) {
            let line: Vec<Scalar> = group.iter().map(|&i| self.values[i]).collect();
            for (&i, y) in group.iter().zip(f(&line)) {
                out[i] = Some(y);
            }
        }
        out.into_iter().flatten().collect()
    }

    fn group_indices(&self, axes: &[usize]) -> Vec<Vec<usize>> {
        let dims = self.shape.dims();
        let outer: u64 = (0..dims.len()).filter(|a| !axes.contains(a)).map(|a| dims[a]).product();
        let inner: u64 = axes.iter().map(|&a| dims[a]).product();
        let mut groups = vec![Vec::with_capacity(inner as usize); outer as usize];
        for i in 0..self.values.len() {
            let (mut rest, mut group, mut scale) = (i as u64, 0, 1);
            for axis in (0..dims.len()).rev() {
                if !axes.contains(&axis) {
                    group += rest % dims[axis] * scale;
                    scale *= dims[axis];
                }
                rest /= dims[axis];
            }
            groups[group as usize].push(i);
        }
        groups
    }
}

/// `values` in float64.
pub fn numbers(values: &[Scalar]) -> Vec<f64> {
    values.iter().map(|x| x.as_f64()).collect()
}

/// The largest of `x`, -inf of none; NaN where there is one.
pub fn largest(x: &[f64]) -> f64 {
    x.iter().copied().fold(f64::NEG_INFINITY, |m, v| if v.is_nan() || v > m { v } else { m })
}

/// Roundings that a sum of `terms` terms is allowed: as errors of either sign add up, and at least those of a short sum.
pub fn chain(terms: usize) -> f64 {
    (2.0 * (terms as f64).sqrt()).max(8.0)
}

/// What one element must be, and how far it may be off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// The reference.
    pub value: Scalar,
    /// Largest absolute error allowed; 0 demands the same value (and the same sign of zero), infinity allows anything.
    pub error: f64,
    /// NaN is acceptable instead, too.
    pub nan_allowed: bool,
}

impl Expected {
    /// This value and no other.
    pub fn exact(value: Scalar) -> Expected {
        Expected { value, error: 0.0, nan_allowed: false }
    }

    /// This value give or take `error`.
    pub fn within(value: Scalar, error: f64) -> Expected {
        Expected { value, error, nan_allowed: false }
    }

    /// This number give or take `error`; exactly it where it is infinite or NaN.
    pub fn near(value: f64, error: f64) -> Expected {
        Expected::within(Scalar::F(value), if value.is_finite() { error } else { 0.0 })
    }

    /// The same, or NaN.
    pub fn or_nan(self) -> Expected {
        Expected { nan_allowed: true, ..self }
    }

    /// The bound after rounding to `dtype`, whose own rounding is added.
    pub fn round_to(self, dtype: DType) -> Expected {
        let rounded = Approx { value: self.value, error: self.error }.round_to(dtype).into_expected();
        Expected { nan_allowed: self.nan_allowed, ..rounded }
    }

    /// Whether `got`, read from a tensor of `dtype`, is acceptable.
    ///
    /// NaN needs NaN, and is itself accepted for a number only where that is allowed. An infinite or overflowing reference
    /// needs an infinity of its sign, or, within the allowed error of the largest finite value, that value. A subnormal result
    /// may be flushed when `flush` says the device does; one of eight bits never is, because it is made from a normal f32.
    pub fn accepts(&self, got: Scalar, dtype: DType, flush: Subnormals) -> bool {
        let (Scalar::F(want), Scalar::F(got)) = (self.value, got) else {
            return (self.value.as_f64() - got.as_f64()).abs() <= self.error && (self.error > 0.0 || self.value == got);
        };
        if self.error == f64::INFINITY {
            return true;
        }
        if want.is_nan() || got.is_nan() {
            return got.is_nan() && (want.is_nan() || self.nan_allowed);
        }
        if self.error == 0.0 && want == 0.0 && got == 0.0 {
            return want.is_sign_positive() == got.is_sign_positive();
        }
        let flushed = if flush == Subnormals::MayFlush && !dtype.is_float8() { dtype.min_normal() } else { 0.0 };
        let slack = self.error + if want.abs() <= 2.0 * dtype.min_normal() { flushed } else { 0.0 };
        if want == got || (want - got).abs() <= slack {
            return true;
        }
        // Overflow: the bound reaches past the largest finite value on the side of the infinity that was given.
        let beyond = || want.is_infinite() || (self.error > 0.0 && want.abs() + self.error >= dtype.max_finite());
        got.is_infinite() && want.signum() == got.signum() && beyond()
    }
}

/// What a device does with subnormal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subnormals {
    /// Computes with them as IEEE 754 says.
    Kept,
    /// May replace them by zero, as WGSL allows.
    MayFlush,
}

/// A value and how far a backend may be off: forward error analysis.
///
/// Infinities and NaN made from exact operands are exact: they must come out as they are. An error of infinity leaves the
/// element open.
#[derive(Clone, Copy, Debug)]
pub struct Approx {
    /// The reference value.
    pub value: Scalar,
    /// Absolute error a backend may have accumulated.
    pub error: f64,
}

impl Approx {
    /// A value every backend has exactly.
    pub fn exact(value: Scalar) -> Approx {
        Approx { value, error: 0.0 }
    }

    /// The sum of `terms` computed in `compute`, each term carrying a relative error of `term_roundoff`.
    ///
    /// Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 4.2: a chain of h additions errs by at most
    /// h u sum|x|. Backends promise h <= max(8, 2 sqrt n), which a few independent accumulators and a tree satisfy, and
    /// no order needs more than n. The reference itself is summed with compensation (Neumaier, 1974).
    pub fn sum(terms: impl Iterator<Item = f64>, compute: DType, term_roundoff: f64) -> Approx {
        let (mut sum, mut lost, mut magnitude, mut count) = (0.0f64, 0.0, 0.0, 0.0f64);
        let mut non_finite = 0.0f64;
        for x in terms {
            count += 1.0;
            if !x.is_finite() {
                non_finite += x;
                continue;
            }
            let next = sum + x;
            lost += if sum.abs() >= x.abs() { (sum - next) + x } else { (x - next) + sum };
            sum = next;
            magnitude += x.abs();
        }
        let total = sum + lost;
        // Finite terms of both signs whose partial sums may overflow on the way: any order is legal, so is any result.
        let may_overflow = magnitude > compute.max_finite() && total.abs() < magnitude * (1.0 - 1e-12);
        if non_finite.is_nan() {
            return Approx::exact(Scalar::F(f64::NAN));
        }
        if non_finite != 0.0 {
            let open = magnitude > compute.max_finite();
            return Approx { value: Scalar::F(non_finite), error: if open { f64::INFINITY } else { 0.0 } };
        }
        let chain = (2.0 * count.sqrt()).max(8.0).min((count - 1.0).max(0.0));
        let error = (chain * compute.unit_roundoff() + term_roundoff) * magnitude;
        // One term is what it is, but zeros add up to zero of either sign.
        let error = if count > 1.0 || total == 0.0 { error + f64::MIN_POSITIVE } else { error };
        Approx { value: Scalar::F(total), error: if may_overflow { f64::INFINITY } else { error } }.settle(compute)
    }

    /// The value, computed in `dtype`'s compute type, stored in `dtype`. f32 and f64 are their own compute types: what
    /// was computed in them is already rounded. An exact value is rounded to nearest even, exactly.
    pub fn round_to(self, dtype: DType) -> Approx {
        let Scalar::F(x) = self.value else { return self };
        let u = dtype.unit_roundoff();
        if self.error == 0.0 {
            return Approx::exact(self.value.cast(dtype));
        }
        if !x.is_finite() {
            return self;
        }
        // Half the spacing of subnormals, where relative errors mean nothing.
        let tiny = u * dtype.min_normal();
        let rounding = if dtype == dtype.compute() { 0.0 } else { self.error * 2.0 * u + u * x.abs() };
        // Backends round their own value of x, the oracle its exact one: compare against the exact x.
        Approx { value: self.value, error: self.error + rounding + tiny }.settle(dtype)
    }

    /// The end of the chain.
    pub fn into_expected(self) -> Expected {
        Expected { value: self.value, error: self.error, nan_allowed: false }
    }

    /// Overflow made visible: a value that no `dtype` of any backend can hold is the infinity of its sign, or where the
    /// dtype saturates its largest number.
    fn settle(self, dtype: DType) -> Approx {
        let Scalar::F(x) = self.value else { return self };
        let error = if self.error.is_nan() { f64::INFINITY } else { self.error };
        if dtype.saturates() && !x.is_nan() && error.is_finite() {
            // Clipping moves no two values further apart.
            let value = Scalar::F(x.clamp(-dtype.max_finite(), dtype.max_finite()));
            return Approx { value, error: if x.abs() - error >= dtype.max_finite() { 0.0 } else { error } };
        }
        if !x.is_finite() {
            return Approx { value: self.value, error: if error == f64::INFINITY { error } else { 0.0 } };
        }
        if x.abs() - error > dtype.max_finite() * (1.0 + dtype.unit_roundoff()) {
            return Approx::exact(Scalar::F(f64::INFINITY.copysign(x)));
        }
        Approx { value: self.value, error }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BinaryFn, UnaryFn};

    const KEPT: Subnormals = Subnormals::Kept;

    fn f32_of(x: Span) -> Expected {
        x.round_to(DType::F32).into_expected(DType::F32)
    }

    fn exp(x: f64) -> Expected {
        f32_of(Span::exact(Scalar::F(x)).unary(UnaryFn::Exp, DType::F32))
    }

    #[test]
    fn nan_and_infinity_of_exact_operands_are_demanded() {
        let nan = exp(f64::NAN);
        assert!(nan.accepts(Scalar::F(f64::NAN), DType::F32, KEPT));
        assert!(!nan.accepts(Scalar::F(1.0), DType::F32, KEPT));
        let inf = exp(1000.0);
        assert!(inf.accepts(Scalar::F(f64::INFINITY), DType::F32, KEPT));
        assert!(!inf.accepts(Scalar::F(1e30), DType::F32, KEPT));
        assert!(!inf.accepts(Scalar::F(f64::NAN), DType::F32, KEPT));
    }

    #[test]
    fn sum_with_nan_or_infinity_accepts_nothing_else() {
        let nan = Approx::sum([1.0, f64::NAN].into_iter(), DType::F32, 0.0).into_expected();
        assert!(!nan.accepts(Scalar::F(1.0), DType::F32, KEPT));
        let inf = Approx::sum([1.0, f64::INFINITY].into_iter(), DType::F32, 0.0).into_expected();
        assert!(!inf.accepts(Scalar::F(1.0), DType::F32, KEPT));
        assert!(inf.accepts(Scalar::F(f64::INFINITY), DType::F32, KEPT));
        let swing = Approx::sum([3e38, 3e38, -3e38, -3e38].into_iter(), DType::F32, 0.0).into_expected();
        assert!(swing.accepts(Scalar::F(f64::NAN), DType::F32, KEPT), "a legal order overflows");
    }

    #[test]
    fn exact_values_round_to_nearest_even_exactly() {
        let x = Approx::exact(Scalar::F(1.0 + 0.75 * (-10f64).exp2())).round_to(DType::F16).into_expected();
        assert!(x.accepts(Scalar::F(1.0 + (-10f64).exp2()), DType::F16, KEPT));
        assert!(!x.accepts(Scalar::F(1.0), DType::F16, KEPT), "truncation is caught");
    }

    #[test]
    fn f32_addition_has_half_an_ulp() {
        let (a, b) = (1.0, (-24f64).exp2() * 1.5);
        let [x, y] = [a, b].map(|x| Span::exact(Scalar::F(x)));
        let sum = f32_of(x.binary(BinaryFn::Add, y, DType::F32));
        assert!(sum.accepts(Scalar::F(f64::from(1.0 + b as f32)), DType::F32, KEPT));
        assert!(!sum.accepts(Scalar::F(1.0), DType::F32, KEPT), "0.75 ulp away");
    }

    #[test]
    fn overflow_on_the_way_is_an_infinity_for_what_follows() {
        let big = Span::exact(Scalar::F(100.0)).unary(UnaryFn::Exp, DType::F32);
        let log = f32_of(big.unary(UnaryFn::Log, DType::F32));
        assert!(log.accepts(Scalar::F(f64::INFINITY), DType::F32, KEPT));
        assert!(!log.accepts(Scalar::F(100.0), DType::F32, KEPT));
    }

    #[test]
    fn eight_bit_floats_saturate_where_others_overflow() {
        let near = |x: f64, error: f64| Approx { value: Scalar::F(x), error }.round_to(DType::F8E4M3).into_expected();
        let accepts = |want: Expected, got: f64| want.accepts(Scalar::F(got), DType::F8E4M3, KEPT);
        assert!(
            accepts(near(1e4, 1.0), 448.0) && !accepts(near(1e4, 1.0), 416.0) && !accepts(near(1e4, 1.0), f64::NAN)
        );
        assert!(accepts(near(f64::INFINITY, 0.0), 448.0) && !accepts(near(f64::INFINITY, 0.0), f64::INFINITY));
        assert!(
            accepts(near(440.0, 1.0), 448.0) && accepts(near(440.0, 1.0), 416.0) && !accepts(near(440.0, 1.0), 384.0)
        );
        assert!(accepts(near(-460.0, 1.0), -448.0));
        // A subnormal number of eight bits is nothing that a device flushes.
        let tiny = Expected::exact(Scalar::F((-8f64).exp2()));
        assert!(!tiny.accepts(Scalar::F(0.0), DType::F8E4M3, Subnormals::MayFlush));
    }

    #[test]
    fn subnormal_may_be_flushed_only_where_the_device_says_so() {
        let tiny = Expected::exact(Scalar::F((-130f64).exp2()));
        assert!(tiny.accepts(Scalar::F(0.0), DType::F32, Subnormals::MayFlush));
        assert!(!tiny.accepts(Scalar::F(0.0), DType::F32, KEPT));
    }
}
