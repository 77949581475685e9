//! Products of a few rows: every element of B is read once, so memory bounds them, and packing it, as larger products do, would take
//! longer than the product. B is widened on the way. (16 threads, 4096 x 4096, `cpu-few-rows.txt` of benches/results/h200-2026-11-24d:
//! one row of f32 0.43 ms, packed 1.0, by OpenBLAS 0.6 to 1.1; of f16 0.5, packed 6.4; of i8 0.4, packed 7.9; 16 rows of f16 2.7, packed 6.8.)
//!
//! A task sums over a part of k for a block of columns; what parts there are depends on the extents alone, and they are added up in
//! order, so results do not depend on the number of threads.

use super::{Layout, Mat, MatMut, parallel};
use crate::cpu::scratch::{self, Done, Short};
use crate::cpu::simd::{self, Kernel, Map1, MulAdd};

/// Rows up to which this is faster than packing.
pub const FEW: usize = 4;
/// The same where all of B would be widened before.
pub const FEW_NARROW: usize = 16;

/// Elements in a row that make it worth being read as one.
const LEAST_RUN: usize = 32;
/// Tasks that keep many threads busy to the end.
const TASKS: usize = 64;
/// Multiplications that are worth a second thread.
const PARALLEL_WORK: usize = 1 << 18;
/// Partial sums of a dot product. With 32 LLVM unrolls the loop over them and finds no vectors in what is left.
const LANES: usize = 64;
/// Elements of B that are widened at a time where there are several rows: 64 KiB of f32.
const WIDE_ELEMENTS: usize = 1 << 14;
/// Rows of B that are added to the sums at a time.
const UNROLL: usize = 4;

/// What products are added up in.
pub trait Sum: bytemuck::Pod + Send + Sync {
    /// self + b
    fn plus(self, b: Self) -> Self;
    /// self + a * b
    fn add_product<M: MulAdd>(self, a: Self, b: Self) -> Self;
}

impl Sum for f32 {
    #[inline(always)]
    fn plus(self, b: f32) -> f32 {
        self + b
    }
    #[inline(always)]
    fn add_product<M: MulAdd>(self, a: f32, b: f32) -> f32 {
        M::mul_add(a, b, self)
    }
}

impl Sum for f64 {
    #[inline(always)]
    fn plus(self, b: f64) -> f64 {
        self + b
    }
    #[inline(always)]
    fn add_product<M: MulAdd>(self, a: f64, b: f64) -> f64 {
        M::mul_add_f64(a, b, self)
    }
}

/// Modulo 2^32.
impl Sum for i32 {
    #[inline(always)]
    fn plus(self, b: i32) -> i32 {
        self.wrapping_add(b)
    }
    #[inline(always)]
    fn add_product<M: MulAdd>(self, a: i32, b: i32) -> i32 {
        self.wrapping_add(a.wrapping_mul(b))
    }
}

/// Along what B is dense.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Dense {
    Columns,
    K,
}

impl Dense {
    /// Columns of a task: runs of a KiB of f32, or as many long runs as share what is read of A.
    const fn most_cols(self) -> usize {
        match self {
            Dense::Columns => 256,
            Dense::K => 16,
        }
    }

    /// The least k that is worth a task.
    const fn least_depth(self) -> usize {
        match self {
            Dense::Columns => 256,
            Dense::K => 2048,
        }
    }
}

/// How B, [k, n], is read; `None` where it has no runs.
fn dense(b: &Layout) -> Option<Dense> {
    match (b.col_stride, b.row_stride) {
        (1, row) if row != 1 || b.cols >= LEAST_RUN => Some(Dense::Columns),
        (_, 1) => Some(Dense::K),
        _ => None,
    }
}

/// Whether a product of `rows` rows ([`FEW`] or [`FEW_NARROW`] at most) by B is one that [`product`] is faster at. What does suit
/// does so, too, when k is cut.
pub fn suits(rows: usize, b: &Layout, most_rows: usize) -> bool {
    let run = match dense(b) {
        Some(Dense::Columns) => b.cols,
        Some(Dense::K) => b.rows,
        None => 0,
    };
    (1..=most_rows).contains(&rows) && b.rows > 0 && run >= LEAST_RUN
}

/// The few rows, dense and widened.
///
/// # Errors
/// [`Short`] of memory.
pub fn rows<I: Copy, T: Sum>(a: Mat<'_, I>, widen: impl Fn(I) -> T) -> Result<Vec<T>, Short> {
    let Layout { rows, cols, .. } = a.layout;
    let mut values = scratch::zeroed(rows * cols)?;
    for (i, row) in values.chunks_mut(cols.max(1)).enumerate() {
        for (j, x) in row.iter_mut().enumerate() {
            *x = widen(a.data[a.layout.at(i, j)]);
        }
    }
    Ok(values)
}

/// C = A * B of rows of A that lie one behind the other, and B as [`suits`] wants it; k > 0.
///
/// # Errors
/// [`Short`] of memory for sums.
///
/// # Panics
/// When the shapes do not fit, or B does not suit.
pub fn product<I, T: Sum>(a: &[T], b: Mat<'_, I>, c: MatMut<'_, T>, widen: impl Map1<I, T>) -> Done
where
    I: Copy + Sync,
{
    let (k, n, m) = (b.layout.rows, b.layout.cols, c.layout.rows);
    assert!(a.len() == m * k && c.layout.cols == n, "gemm: shapes");
    let Some(along) = dense(&b.layout).filter(|_| k > 0) else { panic!("gemm: {:?} has no runs", b.layout) };
    let Cut { cols, depth } = cut([n, k], along);
    let blocks = n.div_ceil(cols);
    // [part of k][block of columns][row][column]
    let mut sums = scratch::zeroed::<T>(k.div_ceil(depth) * blocks * m * cols)?;
    let task = |i: usize, sums: &mut [T]| {
        let (first_k, first_col) = (i / blocks * depth, i % blocks * cols);
        let (depth, width) = (depth.min(k - first_k), cols.min(n - first_col));
        let rows = a.chunks(k).map(|a| &a[first_k..first_k + depth]);
        let results = sums.chunks_mut(cols).map(|sums| &mut sums[..width]);
        add_block(rows.zip(results).collect(), b.block(first_k, first_col, depth, width), along, widen);
    };
    if m.saturating_mul(n).saturating_mul(k) < PARALLEL_WORK {
        sums.chunks_mut(m * cols).enumerate().for_each(|(i, sums)| task(i, sums));
    } else {
        parallel::chunks(&mut sums, m * cols, task);
    }
    let (total, parts) = sums.split_at_mut(blocks * m * cols);
    for part in parts.chunks(total.len()) {
        total.iter_mut().zip(part).for_each(|(x, &y)| *x = x.plus(y));
    }
    for (place, run) in total.chunks(cols).enumerate() {
        let (first, row) = (place / m * cols, place % m);
        for (j, &x) in (first..n).zip(run) {
            c.data[c.layout.at(row, j)] = x;
        }
    }
    Ok(())
}

/// Adds rows of A times a block of B to the sums that stand beside them.
fn add_block<I: Copy, T: Sum>(rows: Vec<(&[T], &mut [T])>, b: Mat<'_, I>, along: Dense, widen: impl Map1<I, T>) {
    if rows.len() == 1 || size_of::<I>() == size_of::<T>() {
        rows.into_iter().for_each(|(a, sums)| simd::dispatch(Row { a, b, along, sums, widen }));
        return;
    }
    // Widened for all rows, a piece at a time.
    let Layout { rows: k, cols, .. } = b.layout;
    let (mut rows, mut wide) = (rows, vec![T::zeroed(); WIDE_ELEMENTS]);
    let step = WIDE_ELEMENTS / along.most_cols();
    for first in (0..k).step_by(step) {
        let b = widened(b.block(first, 0, step.min(k - first), cols), along, widen, &mut wide);
        for (a, sums) in &mut rows {
            let a = &a[first..first + b.layout.rows];
            simd::dispatch(Row { a, b, along, sums, widen: |x: T| x });
        }
    }
}

/// A block of B, dense along the same dimension in `wide`.
fn widened<'w, I: Copy, T: Sum>(b: Mat<'_, I>, along: Dense, widen: impl Map1<I, T>, wide: &'w mut [T]) -> Mat<'w, T> {
    let Layout { rows, cols, .. } = b.layout;
    let (runs, len) = if along == Dense::Columns { (rows, cols) } else { (cols, rows) };
    for (i, wide) in wide.chunks_exact_mut(len).take(runs).enumerate() {
        let first = if along == Dense::Columns { b.layout.at(i, 0) } else { b.layout.at(0, i) };
        simd::map1(widen, &b.data[first..first + len], wide);
    }
    let layout = Layout::row_major(runs, len);
    Mat { data: wide, layout: if along == Dense::Columns { layout } else { layout.transposed() } }
}

/// Extents of a task.
#[derive(Debug, PartialEq)]
struct Cut {
    cols: usize,
    depth: usize,
}

/// Enough tasks for many threads, where that leaves each something to do.
fn cut([n, k]: [usize; 2], along: Dense) -> Cut {
    let cols = along.most_cols();
    let parts = (TASKS / n.div_ceil(cols)).min(k.div_ceil(along.least_depth())).max(1);
    Cut { cols, depth: k.div_ceil(parts).next_multiple_of(UNROLL) }
}

/// One row times a block of B, added to sums.
struct Row<'a, I, T, F> {
    a: &'a [T],
    b: Mat<'a, I>,
    along: Dense,
    sums: &'a mut [T],
    widen: F,
}

impl<I: Copy, T: Sum, F: Map1<I, T>> Kernel for Row<'_, I, T, F> {
    type Output = ();
    const WIDE: bool = true;

    #[inline(always)]
    fn run<M: MulAdd>(self) {
        let Row { a, b, along, sums, widen } = self;
        match along {
            Dense::Columns => {
                let row = |k: usize| {
                    let first = b.layout.at(k, 0);
                    &b.data[first..first + b.layout.cols]
                };
                let whole = a.len() / UNROLL * UNROLL;
                for k in (0..whole).step_by(UNROLL) {
                    let (a, [r0, r1, r2, r3]) = (&a[k..k + UNROLL], [k, k + 1, k + 2, k + 3].map(row));
                    for ((((sum, &b0), &b1), &b2), &b3) in sums.iter_mut().zip(r0).zip(r1).zip(r2).zip(r3) {
                        let pair =
                            sum.add_product::<M>(a[0], widen.call::<M>(b0)).add_product::<M>(a[1], widen.call::<M>(b1));
                        *sum = pair
                            .add_product::<M>(a[2], widen.call::<M>(b2))
                            .add_product::<M>(a[3], widen.call::<M>(b3));
                    }
                }
                for (k, &a) in a.iter().enumerate().skip(whole) {
                    for (sum, &b) in sums.iter_mut().zip(row(k)) {
                        *sum = sum.add_product::<M>(a, widen.call::<M>(b));
                    }
                }
            }
            Dense::K => {
                for (j, sum) in sums.iter_mut().enumerate() {
                    let first = b.layout.at(0, j);
                    *sum = sum.plus(dot::<M, I, T>(a, &b.data[first..first + a.len()], widen));
                }
            }
        }
    }
}

/// Sums of every [`LANES`]th product, added up in halves.
#[inline(always)]
fn dot<M: MulAdd, I: Copy, T: Sum>(a: &[T], b: &[I], widen: impl Map1<I, T>) -> T {
    let mut lanes = [T::zeroed(); LANES];
    let ((whole_a, rest_a), (whole_b, rest_b)) = (a.as_chunks::<LANES>(), b.as_chunks::<LANES>());
    for (a, b) in whole_a.iter().zip(whole_b) {
        let wide = b.map(|b| widen.call::<M>(b));
        for l in 0..LANES {
            lanes[l] = lanes[l].add_product::<M>(a[l], wide[l]);
        }
    }
    for ((lane, &a), &b) in lanes.iter_mut().zip(rest_a).zip(rest_b) {
        *lane = lane.add_product::<M>(a, widen.call::<M>(b));
    }
    let mut half = LANES / 2;
    while half > 0 {
        for l in 0..half {
            lanes[l] = lanes[l].plus(lanes[l + half]);
        }
        half /= 2;
    }
    lanes[0]
}

#[cfg(test)]
mod tests {
    use super::super::testing::{layouts, noise, place, reference};
    use super::*;

    /// Extents round runs, blocks of columns, parts of k and groups of lanes; small integers, so that every order is exact.
    #[test]
    fn few_rows_of_any_extents_are_exact_on_integers() {
        for (m, n, k) in
            [(1, 32, 1), (1, 1, 32), (2, 257, 513), (3, 33, 4101), (16, 1000, 259), (1, 17, 2049), (5, 31, 33)]
        {
            let (a, b): (Vec<i64>, Vec<i64>) =
                (noise(m * k, 1, 7).map(i64::from).collect(), noise(k * n, 2, 7).map(i64::from).collect());
            let ab: Vec<f32> = reference(m, n, k, &a, &b).iter().map(|&sum| sum as f32).collect();
            let (a, b): (Vec<f32>, Vec<i8>) =
                (a.iter().map(|&v| v as f32).collect(), b.iter().map(|&v| v as i8).collect());
            let suitable = layouts(k, n).into_iter().filter(|(layout, _)| suits(m, layout, FEW_NARROW));
            assert!(suitable.clone().count() >= 1, "{m}x{n}x{k}");
            for lb in suitable {
                for lc in layouts(m, n) {
                    let (db, mut dc) = (place(&b, lb, i8::MAX), place(&vec![f32::NAN; m * n], lc, 777.0));
                    product(&a, Mat::new(&db, lb.0), MatMut::new(&mut dc, lc.0), |x: i8| f32::from(x)).unwrap();
                    assert_eq!(dc, place(&ab, lc, 777.0), "{m}x{n}x{k} {:?} {:?}", lb.0, lc.0);
                }
            }
        }
    }

    #[test]
    fn tasks_are_enough_where_there_is_work() {
        assert_eq!(cut([1024, 1024], Dense::Columns), Cut { cols: 256, depth: 256 });
        assert_eq!(cut([4096, 4096], Dense::Columns), Cut { cols: 256, depth: 1024 });
        assert_eq!(cut([20_000, 4096], Dense::Columns), Cut { cols: 256, depth: 4096 });
        assert_eq!(cut([4096, 4096], Dense::K), Cut { cols: 16, depth: 4096 });
        assert_eq!(cut([64, 65_537], Dense::K), Cut { cols: 16, depth: 4100 });
        assert_eq!(cut([100, 7], Dense::Columns), Cut { cols: 256, depth: 8 });
    }
}
