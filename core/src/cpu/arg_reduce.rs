//! Positions of extrema: whole arrays, by rows and by columns.
//!
//! The lowest index wins among equal values (-0 equals +0), and the first NaN wins over everything. The value is found
//! first, by the vectorised reduction of [`super::reduce`]; only the first block that holds it is then searched.

use super::parallel;
use super::reduce::{BLOCK, Number, Reduction, Widen, block, blocks};
use super::simd::{self, Kernel, MulAdd};

/// Elements below which one thread is faster.
const SERIAL: usize = 64 * 1024;

/// Whether `v` is the extremum `best`: equal to it, or both NaN.
#[inline(always)]
fn is_best<A: Number>(v: A, best: A) -> bool {
    // only NaN differs from itself
    #[allow(clippy::eq_op, reason = "tests for NaN in a type that may be an integer")]
    let nan = |x: A| x != x;
    v == best || (nan(v) && nan(best))
}

/// First index of the extremum; `None` for an empty array.
pub fn arg_reduce<T: Widen, R: Reduction<T::Acc>>(op: R, x: &[T]) -> Option<usize> {
    let extrema = blocks(op, x);
    let best = extrema.iter().copied().reduce(R::combine)?;
    let first = extrema.iter().position(|v| is_best(*v, best))?;
    let start = first * BLOCK;
    let within = x[start..].iter().position(|v| is_best(v.widen(), best))?;
    Some(start + within)
}

struct ArgRows<'a, T, R>(&'a [T], usize, &'a mut [i64], R);

impl<T: Widen, R: Reduction<T::Acc>> Kernel for ArgRows<'_, T, R> {
    type Output = ();
    #[inline(always)]
    fn run<M: MulAdd>(self) {
        let Self(x, cols, y, _) = self;
        for (row, y) in x.chunks_exact(cols).zip(y) {
            let best = row.chunks(BLOCK).map(|x| block::<T, R>(x)).reduce(R::combine);
            let best = best.unwrap_or(R::IDENTITY);
            *y = row.iter().position(|v| is_best(v.widen(), best)).unwrap_or(0) as i64;
        }
    }
}

/// `y[r]` = position of the extremum in row r of x, which is [y.len(), cols], row-major.
///
/// # Panics
/// When `x.len() != y.len() * cols`, and when cols = 0 while there are rows.
pub fn arg_reduce_rows<T: Widen, R: Reduction<T::Acc>>(op: R, x: &[T], cols: usize, y: &mut [i64]) {
    assert_eq!(Some(x.len()), y.len().checked_mul(cols), "arg_reduce_rows: shape");
    assert!(cols > 0 || y.is_empty(), "arg_reduce_rows: empty rows have no extremum");
    if y.is_empty() {
        return;
    }
    let rows = (SERIAL / cols).max(1);
    if x.len() < SERIAL {
        simd::dispatch(ArgRows(x, cols, y, op));
    } else {
        parallel::pairs((y, rows), (x, rows * cols), |y, x| simd::dispatch(ArgRows(x, cols, y, op)));
    }
}

struct ArgColumns<'a, T: Widen, R> {
    x: &'a [T],
    cols: usize,
    first: usize,
    y: &'a mut [i64],
    op: R,
}

impl<T: Widen, R: Reduction<T::Acc>> Kernel for ArgColumns<'_, T, R> {
    type Output = ();
    #[inline(always)]
    fn run<M: MulAdd>(self) {
        let Self { x, cols, first, y, op: _op } = self;
        // rows 0.. in order; a later value replaces only what it beats
        let mut best: Vec<T::Acc> = x[first..][..y.len()].iter().map(|v| v.widen()).collect();
        y.fill(0);
        for (r, row) in x.chunks_exact(cols).enumerate().skip(1) {
            for ((y, best), v) in y.iter_mut().zip(&mut best).zip(&row[first..]) {
                let v = v.widen();
                let kept = is_best(R::combine(*best, v), *best);
                *y = if kept { *y } else { r as i64 };
                *best = if kept { *best } else { v };
            }
        }
    }
}

/// `y[c]` = position of the extremum in column c of x, which is [rows, y.len()], row-major. Threads share out the columns.
///
/// # Panics
/// When `x.len() != rows * y.len()`, and when rows = 0 while there are columns.
pub fn arg_reduce_columns<T: Widen, R: Reduction<T::Acc>>(op: R, x: &[T], rows: usize, y: &mut [i64]) {
    /// columns per task: a cache line of f32 or more, values and indices in L1
    const TILE: usize = 512;
    let cols = y.len();
    assert_eq!(Some(x.len()), rows.checked_mul(cols), "arg_reduce_columns: shape");
    assert!(rows > 0 || cols == 0, "arg_reduce_columns: empty columns have no extremum");
    if x.len() < SERIAL {
        y.chunks_mut(TILE).enumerate().for_each(|(t, y)| {
            simd::dispatch(ArgColumns { x, cols, first: t * TILE, y, op });
        });
    } else {
        let tile = TILE.min(cols.div_ceil(parallel::threads())).max(16);
        parallel::chunks(y, tile, |t, y| simd::dispatch(ArgColumns { x, cols, first: t * tile, y, op }));
    }
}

#[cfg(test)]
mod tests {
    use super::super::reduce::{Max, Min};
    use super::*;

    fn expected(x: &[f32], max: bool) -> usize {
        let mut best = 0;
        for (i, v) in x.iter().enumerate() {
            if x[best].is_nan() {
                break;
            }
            if v.is_nan() || (if max { *v > x[best] } else { *v < x[best] }) {
                best = i;
            }
        }
        best
    }

    /// Few distinct values, so that ties are everywhere.
    fn values(n: usize, seed: u32) -> Vec<f32> {
        let hash = |i: u32| (i ^ seed).wrapping_mul(2_654_435_761) >> 16;
        (0..n as u32).map(|i| (hash(i) % 9) as f32 - 4.0).map(|v| if v == 0.0 { -0.0 } else { v }).collect()
    }

    #[test]
    fn positions_in_arrays_take_lowest_index_and_first_nan() {
        assert_eq!(arg_reduce::<f32, _>(Max, &[]), None);
        assert_eq!(arg_reduce(Max, &[-0.0f32, 0.0]), Some(0));
        assert_eq!(arg_reduce(Min, &[0.0f32, -0.0]), Some(0));
        assert_eq!(arg_reduce(Max, &[f32::NEG_INFINITY; 3]), Some(0));
        assert_eq!(arg_reduce(Max, &[3i64, 7, 7]), Some(1));
        for n in (1..68).chain([BLOCK + 3, 2 * SERIAL + 5]) {
            let mut x = values(n, 17);
            assert_eq!(arg_reduce(Max, &x), Some(expected(&x, true)));
            assert_eq!(arg_reduce(Min, &x), Some(expected(&x, false)));
            for at in [n - 1, n / 2] {
                x[at] = f32::NAN;
                assert_eq!(arg_reduce(Max, &x), Some(at));
                assert_eq!(arg_reduce(Min, &x), Some(at));
            }
        }
    }

    #[test]
    fn positions_by_rows_and_columns_match_search() {
        for (rows, cols) in [(1, 1), (5, 67), (67, 5), (300, 300), (3, 70_001), (70_001, 3), (1, 9000)] {
            let mut x = values(rows * cols, 99);
            x[rows * cols / 2] = f32::NAN;
            let (mut r, mut c) = (vec![-1; rows], vec![-1; cols]);
            for max in [true, false] {
                if max {
                    arg_reduce_rows(Max, &x, cols, &mut r);
                    arg_reduce_columns(Max, &x, rows, &mut c);
                } else {
                    arg_reduce_rows(Min, &x, cols, &mut r);
                    arg_reduce_columns(Min, &x, rows, &mut c);
                }
                for (i, r) in r.iter().enumerate() {
                    assert_eq!(*r as usize, expected(&x[i * cols..][..cols], max), "row {i} of {rows}x{cols}");
                }
                for (j, c) in c.iter().enumerate() {
                    let column: Vec<f32> = (0..rows).map(|i| x[i * cols + j]).collect();
                    assert_eq!(*c as usize, expected(&column, max), "column {j} of {rows}x{cols}");
                }
            }
        }
    }
}
