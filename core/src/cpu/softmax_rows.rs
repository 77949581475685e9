//! Row softmax and log-softmax of f32: y = e^(x - max) / sum, y = x - max - log(sum).
//!
//! Three passes over a row that stays in cache: the maximum, the exponentials with their sum, the scaling. A row of -inf alone
//! (everything masked) gives zeros for softmax and -inf for log-softmax, not NaN. NaN or +inf in a row makes the row NaN
//! (log-softmax and softmax of +inf: inf - inf).
//!
//! Numerics: sums are the blocked trees of [`super::reduce`]; the bits do not depend on the number of threads.

use super::reduce::{self, BLOCK, Max, Sum};
use super::simd::{self, Kernel, Map1, MulAdd};
use super::{parallel, vmath};

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// e^(x - max) / sum
    Share,
    /// x - max - log(sum)
    Logarithm,
}

/// Elements per task.
const TASK: usize = 64 * 1024;

/// What is subtracted: 0 for a row of -inf alone, so that its exponentials are 0.
#[inline(always)]
fn shift(max: f32) -> f32 {
    if max == f32::NEG_INFINITY { 0.0 } else { max }
}

/// What multiplies the exponentials; 0 for a masked row, whose sum is 0.
#[inline(always)]
fn scale(sum: f32) -> f32 {
    if sum == 0.0 { 0.0 } else { 1.0 / sum }
}

struct Rows<'a>(Form, &'a [f32], usize, &'a mut [f32]);

impl Kernel for Rows<'_> {
    type Output = ();
    const WIDE: bool = true;
    #[inline(always)]
    fn run<M: MulAdd>(self) {
        let Self(form, x, cols, y) = self;
        for (x, y) in x.chunks_exact(cols).zip(y.chunks_exact_mut(cols)) {
            let max = x.chunks(BLOCK).map(reduce::block::<f32, Max>).fold(f32::NEG_INFINITY, reduce::Number::maximum);
            let max = shift(max);
            let mut sum = 0.0;
            for (x, y) in x.chunks(BLOCK).zip(y.chunks_mut(BLOCK)) {
                for (y, &x) in y.iter_mut().zip(x) {
                    *y = vmath::exp::<M>(x - max);
                }
                sum += reduce::block::<f32, Sum>(y);
            }
            if form == Form::Share {
                let scale = scale(sum);
                y.iter_mut().for_each(|y| *y *= scale);
            } else {
                let log = vmath::log::<M>(sum);
                y.iter_mut().zip(x).for_each(|(y, &x)| *y = log_value(x, max, log));
            }
        }
    }
}

/// x - max - log(sum); -inf stays -inf also where the sum is 0 and its log -inf.
#[inline(always)]
fn log_value(x: f32, max: f32, log: f32) -> f32 {
    let value = (x - max) - log;
    // x = -inf with a NaN-free row; NaN of the row comes in by `log`
    if (x == f32::NEG_INFINITY) & !log.is_nan() { x } else { value }
}

#[derive(Clone, Copy)]
struct ExpMinus(f32);

impl Map1<f32> for ExpMinus {
    const WIDE: bool = true;
    #[inline(always)]
    fn call<M: MulAdd>(self, x: f32) -> f32 {
        vmath::exp::<M>(x - self.0)
    }
}

/// One row so long that all threads work on it.
fn long_row(form: Form, x: &[f32], y: &mut [f32]) {
    let max = shift(reduce::reduce(Max, x));
    parallel::map1(ExpMinus(max), x, y);
    let sum = reduce::reduce(Sum, &*y);
    if form == Form::Share {
        let scale = scale(sum);
        parallel::chunks(y, TASK, |_, y| simd::dispatch(Scale(scale, y)));
    } else {
        let mut log = [0.0];
        simd::map1(vmath::Log, &[sum], &mut log);
        let log = log[0];
        parallel::map1(|x| log_value(x, max, log), x, y);
    }
}

struct Scale<'a>(f32, &'a mut [f32]);

impl Kernel for Scale<'_> {
    type Output = ();
    #[inline(always)]
    fn run<M: MulAdd>(self) {
        self.1.iter_mut().for_each(|y| *y *= self.0);
    }
}

/// Softmax of each row of x into y, both [rows, cols], row-major.
///
/// # Panics
/// When the lengths differ or are no multiple of cols.
pub fn rows(form: Form, x: &[f32], cols: usize, y: &mut [f32]) {
    assert_eq!(x.len(), y.len(), "softmax: lengths differ");
    if x.is_empty() {
        return;
    }
    assert!(cols > 0 && x.len().is_multiple_of(cols), "softmax: shape");
    if x.len() < TASK {
        simd::dispatch(Rows(form, x, cols, y));
    } else if cols >= 4 * TASK {
        x.chunks_exact(cols).zip(y.chunks_exact_mut(cols)).for_each(|(x, y)| long_row(form, x, y));
    } else {
        let task = TASK.div_ceil(cols) * cols;
        parallel::pairs((y, task), (x, task), |y, x| simd::dispatch(Rows(form, x, cols, y)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(x: &[f32], cols: usize) {
        let (mut y, mut l) = (vec![9.0; x.len()], vec![9.0; x.len()]);
        rows(Form::Share, x, cols, &mut y);
        rows(Form::Logarithm, x, cols, &mut l);
        for (x, (y, l)) in x.chunks(cols).zip(y.chunks(cols).zip(l.chunks(cols))) {
            let max = x.iter().fold(f64::NEG_INFINITY, |m, v| m.max(f64::from(*v)));
            let sum: f64 = x.iter().map(|v| (f64::from(*v) - max).exp()).sum();
            for ((x, y), l) in x.iter().zip(y).zip(l) {
                let e = (f64::from(*x) - max).exp() / sum;
                // x - max rounds to half an ULP, which e^ multiplies by |x - max|
                let bound = (80.0 + (f64::from(*x) - max).abs()) * 2f64.powi(-24) * e + 1e-44;
                assert!((f64::from(*y) - e).abs() <= bound, "softmax({x}) = {y}, not {e}");
                let e = f64::from(*x) - max - sum.ln();
                assert!(
                    (f64::from(*l) - e).abs() <= 80.0 * 2f64.powi(-24) * e.abs().max(1.0),
                    "log softmax({x}) = {l}, not {e}"
                );
            }
        }
    }

    #[test]
    fn rows_of_any_length_match_f64() {
        let noise: Vec<f32> =
            (0..600_000u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 12) as f32 / 30_000.0).collect();
        for cols in (1..68).chain([BLOCK, BLOCK + 1, 3 * BLOCK + 5]) {
            check(&noise[cols..][..3 * cols], cols);
        }
        check(&noise[..1000 * 129], 129);
        check(&noise[1..1 + 4 * TASK + 77], 4 * TASK + 77);
    }

    #[test]
    fn masked_rows_give_zeros_and_nan_stays_in_its_row() {
        let inf = f32::INFINITY;
        for cols in [3, 70, 4 * TASK] {
            let mut x = vec![-inf; 4 * cols];
            x[cols + 1] = 2.0;
            x[2 * cols + 2] = f32::NAN;
            x[3 * cols] = inf;
            let mut y = vec![9.0; x.len()];
            rows(Form::Share, &x, cols, &mut y);
            assert!(y[..cols].iter().all(|v| *v == 0.0));
            assert!((0..cols).all(|i| y[cols + i] == if i == 1 { 1.0 } else { 0.0 }));
            assert!(y[2 * cols..].iter().all(|v| v.is_nan()));
            rows(Form::Logarithm, &x, cols, &mut y);
            assert!(y[..cols].iter().all(|v| *v == -inf));
            assert!((0..cols).all(|i| y[cols + i] == if i == 1 { 0.0 } else { -inf }));
            assert!(y[2 * cols..].iter().all(|v| v.is_nan()));
        }
    }
}
