//! What a scan must give, and how far a backend may be off: each function in float64 along a line, with the bound carried from element
//! to element.
//!
//! u is the roundoff of what accumulates, n the length of the line, and h = min(k - 1, max(8, 2 sqrt n)) the longest chain of
//! combinations that a backend promises for a result of k elements. Sum: h u sum|x|, as of reductions. Product: (k - 1) u relative, open
//! where factors could overflow or vanish on the way. log sum exp: u (16 + 8 h + 4 sum p |x - max| + 8 |y - max| + |max| + |y|) with the
//! shares p of the terms, as sums are scaled by exponentials (6 + 4 |x| units) wherever two meet. Extrema and integers: exact.

use super::{Scan, ScanDirection, ScanFn, ScanStart};
use crate::oracle::{Approx, Expected, HostTensor};
use crate::{BinaryFn, CompareFn, DType, Scalar};

pub(super) fn scan(op: &Scan, input: &HostTensor) -> Vec<Vec<Expected>> {
    if op.function.chooses() {
        let chosen = input.map_groups(op.axis, |line| along(op, line, chosen));
        let (values, places) = chosen.into_iter().unzip();
        return vec![values, places];
    }
    vec![input.map_groups(op.axis, |line| along(op, line, combined))]
}

/// `f` along a line in the scan's direction.
fn along<T>(op: &Scan, line: &[Scalar], f: fn(&Scan, &[Scalar]) -> Vec<T>) -> Vec<T> {
    if op.options.direction == ScanDirection::Forward {
        return f(op, line);
    }
    let turned: Vec<Scalar> = line.iter().rev().copied().collect();
    f(op, &turned).into_iter().rev().collect()
}

/// The extremum so far and its position.
fn chosen(op: &Scan, line: &[Scalar]) -> Vec<(Expected, Expected)> {
    let beats = |x: Scalar, held: Scalar| match op.function {
        _ if x.is_nan() || held.is_nan() => x.is_nan() && !held.is_nan(),
        ScanFn::Max => CompareFn::Gt.eval(x, held),
        _ => CompareFn::Lt.eval(x, held),
    };
    let mut held = 0;
    let mut results = Vec::with_capacity(line.len());
    for (at, &x) in line.iter().enumerate() {
        if beats(x, line[held]) {
            held = at;
        }
        let place = if op.options.direction == ScanDirection::Forward { held } else { line.len() - 1 - held };
        results.push((Expected::exact(line[held]), Expected::exact(Scalar::I(place as i64))));
    }
    results
}

fn combined(op: &Scan, line: &[Scalar]) -> Vec<Expected> {
    if !op.input.dtype.is_float() {
        return whole(op, line);
    }
    let mut state = Running { function: op.function, dtype: op.output.dtype, length: line.len(), ..Running::default() };
    let mut results = Vec::with_capacity(line.len());
    for x in line {
        if op.options.start == ScanStart::Exclusive {
            results.push(state.result());
        }
        state.take(x.as_f64());
        if op.options.start == ScanStart::Inclusive {
            results.push(state.result());
        }
    }
    results
}

/// Integers, which wrap.
fn whole(op: &Scan, line: &[Scalar]) -> Vec<Expected> {
    let (f, identity) = if op.function == ScanFn::Prod { (BinaryFn::Mul, 1) } else { (BinaryFn::Add, 0) };
    let mut total = Scalar::I(identity);
    let mut results = Vec::with_capacity(line.len());
    for &x in line {
        let before = total;
        total = f.eval(total, x, DType::I64);
        let result = if op.options.start == ScanStart::Exclusive { before } else { total };
        results.push(Expected::exact(result.cast(op.output.dtype)));
    }
    results
}

/// What a line has come to.
struct Running {
    function: ScanFn,
    /// Of results.
    dtype: DType,
    /// Elements of the whole line, and of them those taken.
    length: usize,
    taken: usize,
    /// Sum with its compensation, and that of magnitudes; infinities and NaN apart.
    sum: [f64; 2],
    magnitude: f64,
    non_finite: f64,
    /// Product, and those of the factors that grow and that shrink it.
    product: f64,
    up: f64,
    down: f64,
    any_nan: bool,
    /// Largest element, sum of exp(x - max) and of exp(x - max) |x - max|.
    max: f64,
    shares: f64,
    spread: f64,
}

impl Default for Running {
    fn default() -> Running {
        Running {
            function: ScanFn::Sum,
            dtype: DType::F32,
            length: 0,
            taken: 0,
            sum: [0.0; 2],
            magnitude: 0.0,
            non_finite: 0.0,
            product: 1.0,
            up: 1.0,
            down: 1.0,
            any_nan: false,
            max: f64::NEG_INFINITY,
            shares: 0.0,
            spread: 0.0,
        }
    }
}

impl Running {
    fn take(&mut self, x: f64) {
        self.taken += 1;
        self.any_nan |= x.is_nan();
        match self.function {
            ScanFn::Prod => {
                self.product *= x;
                match x.abs() {
                    x if x > 1.0 && x.is_finite() => self.up *= x,
                    x if x < 1.0 && x > 0.0 => self.down *= x,
                    _ => {}
                }
            }
            ScanFn::LogSumExp => self.take_exponential(x),
            _ if x.is_finite() => {
                // Neumaier, 1974.
                let [sum, lost] = self.sum;
                let next = sum + x;
                let lost = lost + if sum.abs() >= x.abs() { (sum - next) + x } else { (x - next) + sum };
                (self.sum, self.magnitude) = ([next, lost], self.magnitude + x.abs());
            }
            _ => self.non_finite += x,
        }
    }

    fn take_exponential(&mut self, x: f64) {
        if x > self.max {
            let grown = x - self.max;
            // Of -inf so far, and of an infinity now, nothing is left.
            let scale = if grown.is_finite() { (-grown).exp() } else { 0.0 };
            let moved = if grown.is_finite() { self.shares * grown } else { 0.0 };
            (self.spread, self.shares) = (scale * (self.spread + moved), scale * self.shares);
            self.max = x;
        }
        let below = self.max - x;
        if below.is_finite() {
            self.shares += (-below).exp();
            self.spread += (-below).exp() * below;
        }
    }

    fn result(&self) -> Expected {
        let u = self.dtype.compute().unit_roundoff();
        let chain = (2.0 * (self.length as f64).sqrt()).max(8.0).min(self.taken.saturating_sub(1) as f64);
        let approx = match self.function {
            ScanFn::Prod => self.product(u),
            ScanFn::LogSumExp => self.logarithm(u, chain),
            _ => self.sum(u, chain),
        };
        approx.round_to(self.dtype).into_expected()
    }

    fn sum(&self, u: f64, chain: f64) -> Approx {
        let largest = self.dtype.compute().max_finite();
        if self.non_finite.is_nan() {
            return Approx::exact(Scalar::F(f64::NAN));
        }
        let passes = self.magnitude > largest;
        if self.non_finite != 0.0 {
            return Approx { value: Scalar::F(self.non_finite), error: if passes { f64::INFINITY } else { 0.0 } };
        }
        let total = self.sum[0] + self.sum[1];
        // Terms of both signs whose partial sums may overflow on the way: any order is legal, so is any result.
        if passes && total.abs() < self.magnitude * (1.0 - 1e-12) {
            return Approx { value: Scalar::F(total), error: f64::INFINITY };
        }
        let error = chain * u * self.magnitude;
        // Zeros add up to zero of either sign, with the 0 that accumulators start from, too.
        let error = if self.taken > 1 || (total == 0.0 && self.taken > 0) { error + f64::MIN_POSITIVE } else { error };
        Approx { value: Scalar::F(total), error }
    }

    fn product(&self, u: f64) -> Approx {
        let compute = self.dtype.compute();
        let open = self.up > compute.max_finite() || self.down < compute.min_normal();
        let settled = self.up == 1.0 || self.down == 1.0;
        let is_nan = self.product.is_nan() && self.any_nan;
        let error = self.taken.saturating_sub(1) as f64 * u * self.product.abs();
        let error = if error.is_finite() { error } else { 0.0 };
        Approx {
            value: Scalar::F(self.product),
            error: if open && !settled && !is_nan { f64::INFINITY } else { error },
        }
    }

    fn logarithm(&self, u: f64, chain: f64) -> Approx {
        if self.any_nan || self.max.is_infinite() {
            return Approx::exact(Scalar::F(if self.any_nan { f64::NAN } else { self.max }));
        }
        let log = self.shares.ln();
        let y = self.max + log;
        let spread = self.spread / self.shares;
        let error = u * (16.0 + 8.0 * chain + 4.0 * spread + 8.0 * log.abs() + self.max.abs() + y.abs());
        Approx { value: Scalar::F(y), error }
    }
}
