//! The float64 oracle's vocabulary: operands on the host, expected results, and how far a backend may be from them.
//!
//! Each op computes its own reference (`Op::oracle`), naively, in float64 or exact integers. Results are [`Expected`]: a
//! value and the absolute error allowed for that element. Errors of composed steps are carried forward by [`Approx`].
//! Comparison with what a device wrote is [`Expected::accepts`]; running cases is [`crate::harness`].

use crate::{BinaryFn, CompareFn, DType, Scalar, Shape, UnaryFn};

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

/// What one element must be, and how far it may be off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Expected {
    /// The reference.
    pub value: Scalar,
    /// Largest absolute error allowed; 0 demands the same value (and the same sign of zero).
    pub error: f64,
}

impl Expected {
    /// This value and no other.
    pub fn exact(value: Scalar) -> Expected {
        Expected { value, error: 0.0 }
    }

    /// This value give or take `error`.
    pub fn within(value: Scalar, error: f64) -> Expected {
        Expected { value, error }
    }

    /// The bound after rounding to `dtype`, whose own rounding is added.
    pub fn round_to(self, dtype: DType) -> Expected {
        Approx { value: self.value, error: self.error }.round_to(dtype).into_expected()
    }

    /// Whether `got`, read from a tensor of `dtype`, is acceptable.
    ///
    /// NaN needs NaN. An infinite or overflowing reference needs an infinity of its sign, or, within the allowed error
    /// of the largest finite value, that value. A subnormal result may be flushed when `flush` says the device does.
    pub fn accepts(&self, got: Scalar, dtype: DType, flush: Subnormals) -> bool {
        let (Scalar::F(want), Scalar::F(got)) = (self.value, got) else {
            return (self.value.as_f64() - got.as_f64()).abs() <= self.error && (self.error > 0.0 || self.value == got);
        };
        if want.is_nan() || got.is_nan() {
            return (want.is_nan() && got.is_nan()) || self.error.is_nan() || self.error == f64::INFINITY;
        }
        if self.error == 0.0 && want == 0.0 && got == 0.0 {
            return want.is_sign_positive() == got.is_sign_positive();
        }
        let flushed = if flush == Subnormals::MayFlush { dtype.min_normal() } else { 0.0 };
        let slack = self.error + if want.abs() <= 2.0 * dtype.min_normal() { flushed } else { 0.0 };
        if want == got || (want - got).abs() <= slack {
            return true;
        }
        // Overflow: the bound reaches past the largest finite value on the side of the infinity that was given.
        got.is_infinite() && want.signum() == got.signum() && want.abs() + self.error > dtype.max_finite()
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

/// A value with the error carried to it so far: forward error analysis, one step at a time.
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

    /// `f` of this: its own error plus how far the incoming error can move it.
    pub fn unary(f: UnaryFn, x: Approx, dtype: DType) -> Approx {
        let value = f.eval(x.value, dtype);
        let (Scalar::F(at), Scalar::F(y)) = (x.value, value) else { return Approx::exact(value) };
        let moved = moved_by([at - x.error, at + x.error], x.error, y, |x| f.eval(Scalar::F(x), dtype).as_f64());
        Approx { value, error: f.error(at, y, dtype.compute()) + moved }
    }

    /// `f` of two values.
    pub fn binary(f: BinaryFn, a: Approx, b: Approx, dtype: DType) -> Approx {
        let value = f.eval(a.value, b.value, dtype);
        let (Scalar::F(x), Scalar::F(y), Scalar::F(z)) = (a.value, b.value, value) else {
            return Approx::exact(value);
        };
        let eval = |x, y| f.eval(Scalar::F(x), Scalar::F(y), dtype).as_f64();
        let by_a = moved_by([x - a.error, x + a.error], a.error, z, |x| eval(x, y));
        let by_b = moved_by([y - b.error, y + b.error], b.error, z, |y| eval(x, y));
        // The product term of a multiplication of two inexact values is of second order but not always small.
        let both = if a.error > 0.0 && b.error > 0.0 { a.error * b.error } else { 0.0 };
        Approx { value, error: f.error(x, y, z, dtype.compute()) + by_a + by_b + both }
    }

    /// A comparison: open (error 1) when the operands' errors could turn it.
    pub fn compare(f: CompareFn, a: Approx, b: Approx) -> Approx {
        let open = a.error + b.error;
        let near = (a.value.as_f64() - b.value.as_f64()).abs() <= open;
        Approx { value: Scalar::from(f.eval(a.value, b.value)), error: if open > 0.0 && near { 1.0 } else { 0.0 } }
    }

    /// `yes` or `no`; an open condition allows either.
    pub fn select(condition: Approx, yes: Approx, no: Approx) -> Approx {
        let taken = if condition.value.as_i64() != 0 { yes } else { no };
        if condition.error == 0.0 {
            return taken;
        }
        let apart = (yes.value.as_f64() - no.value.as_f64()).abs();
        Approx { value: taken.value, error: apart + yes.error.max(no.error) }
    }

    /// The value rounded to `dtype` for storage: adds u |x| and half the spacing of subnormals.
    pub fn round_to(self, dtype: DType) -> Approx {
        let Scalar::F(x) = self.value else { return self };
        let rounded = self.value.cast(dtype);
        if self.error == 0.0 && (rounded == self.value || x.is_nan()) {
            return Approx::exact(rounded);
        }
        let u = dtype.unit_roundoff();
        // Backends round their own value of x, the oracle its exact one: compare against the exact x.
        Approx { value: self.value, error: self.error * (1.0 + 2.0 * u) + u * x.abs() + u * dtype.min_normal() }
    }

    /// The value converted to `dtype`; an inexact value near a boundary may land on either side.
    pub fn cast(self, dtype: DType) -> Approx {
        let value = self.value.cast(dtype);
        if dtype.is_float() {
            return Approx { value: if self.error == 0.0 { value } else { self.value }, error: self.error }
                .round_to(dtype);
        }
        let Scalar::F(x) = self.value else { return Approx { value, error: 0.0 } };
        let moved = moved_by([x - self.error, x + self.error], self.error, value.as_f64(), |x| {
            Scalar::F(x).cast(dtype).as_f64()
        });
        Approx { value, error: moved }
    }

    /// The end of the chain.
    pub fn into_expected(self) -> Expected {
        Expected { value: self.value, error: self.error }
    }
}

/// How far `f` moves from `y` when its operand moves to either of `ends`; 0 for an exact operand.
fn moved_by(ends: [f64; 2], error: f64, y: f64, f: impl Fn(f64) -> f64) -> f64 {
    if error == 0.0 || y.is_nan() {
        return 0.0;
    }
    ends.into_iter()
        .map(|end| {
            let d = (f(end) - y).abs();
            // A pole or domain edge inside the interval: anything goes.
            if d.is_nan() { f64::INFINITY } else { d }
        })
        .fold(0.0, f64::max)
}
