//! f16 and bf16 products with f32 accumulation over the whole of k.
//!
//! Crate `gemm` has f16 too, but adds the partial results of its blocks of k in f16. Here blocks of A and B are widened to f32
//! (exactly), multiplied by [`super::gemm`] into an f32 block of C, and C is rounded once. 32 MiB of scratch at most.

use super::{Layout, Mat, MatMut, canonical, gemm};
use crate::cpu::reduce::Element;
use crate::cpu::simd;
use half::{bf16, f16};
use rayon::prelude::*;

/// Rows and columns of a block of C: the larger, the less often operands are widened again.
const BLOCK_MN: usize = 2048;
/// Depth of a block.
const BLOCK_K: usize = 1024;

/// f16 or bf16.
pub trait Narrow: Element<Acc = f32> {
    /// Nearest value, ties to even.
    fn round(x: f32) -> Self;
}

impl Narrow for f16 {
    #[inline(always)]
    fn round(x: f32) -> Self {
        Self::from_f32(x)
    }
}

impl Narrow for bf16 {
    #[inline(always)]
    fn round(x: f32) -> Self {
        Self::from_f32(x)
    }
}

/// The same matrix in f32, packed along the direction in which it is contiguous.
fn widen<T: Element<Acc = f32>>(a: Mat<'_, T>, scratch: &mut [f32]) -> Layout {
    let l = a.layout;
    // rows of the copy run along the shorter stride
    let transpose = l.row_stride.unsigned_abs() < l.col_stride.unsigned_abs();
    let source = if transpose { l.transposed() } else { l };
    scratch[..l.rows * l.cols].par_chunks_mut(source.cols).enumerate().for_each(|(i, out)| {
        let start = source.at(i, 0);
        if source.col_stride == 1 {
            simd::map1(|v: T| v.widen(), &a.data[start..start + source.cols], out);
        } else {
            out.iter_mut().enumerate().for_each(|(j, out)| *out = a.data[source.at(i, j)].widen());
        }
    });
    let packed = Layout::row_major(source.rows, source.cols);
    if transpose { packed.transposed() } else { packed }
}

/// C = alpha * A * B + beta * C with f32 accumulation, alpha and beta; C is rounded once.
///
/// # Panics
/// When the shapes do not fit.
pub fn gemm_narrow<T: Narrow>(alpha: f32, a: Mat<'_, T>, b: Mat<'_, T>, beta: f32, c: MatMut<'_, T>) {
    let (a, b, c) = canonical(a, b, c);
    let (m, n, k) = (c.layout.rows, c.layout.cols, a.layout.cols);
    if m == 0 || n == 0 {
        return;
    }
    let (bm, bn, bk) = (m.min(BLOCK_MN), n.min(BLOCK_MN), k.min(BLOCK_K));
    let mut wide_a = vec![0f32; bm * bk];
    let mut wide_b = vec![0f32; bk * bn];
    let mut wide_c = vec![0f32; bm * bn];
    for i in (0..m).step_by(BLOCK_MN) {
        let rows = bm.min(m - i);
        for j in (0..n).step_by(BLOCK_MN) {
            let cols = bn.min(n - j);
            let lc = Layout::row_major(rows, cols);
            wide_c.fill(0.0);
            for p in (0..k).step_by(BLOCK_K) {
                let depth = bk.min(k - p);
                let la = widen(a.block(i, p, rows, depth), &mut wide_a);
                let lb = widen(b.block(p, j, depth, cols), &mut wide_b);
                let kept = if p == 0 { 0.0 } else { 1.0 };
                gemm(1.0, Mat::new(&wide_a, la), Mat::new(&wide_b, lb), kept, MatMut::new(&mut wide_c, lc));
            }
            let block = MatMut { data: &mut *c.data, layout: c.layout.block(i, j, rows, cols) };
            let wide_c = &wide_c;
            block.for_row_blocks(1, |row, c, _, col_stride| {
                let wide = &wide_c[row * cols..][..cols];
                for (c, v) in c.iter_mut().step_by(col_stride).zip(wide) {
                    let v = if alpha == 0.0 { 0.0 } else { alpha * v };
                    *c = T::round(if beta == 0.0 { v } else { v + beta * c.widen() });
                }
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SHAPES, layouts, noise, place, reference};
    use super::*;

    fn check<T: Narrow + PartialEq + std::fmt::Debug>() {
        for (m, n, k) in SHAPES {
            let (a, b): (Vec<i64>, Vec<i64>) =
                (noise(m * k, 1, 3).map(i64::from).collect(), noise(k * n, 2, 3).map(i64::from).collect());
            let ab = reference(m, n, k, &a, &b);
            let narrow = |v: &[i64]| v.iter().map(|v| T::round(*v as f32)).collect::<Vec<T>>();
            let old = narrow(&noise(m * n, 3, 5).map(i64::from).collect::<Vec<_>>());
            for i in 0..6 {
                let (la, lb, lc) = (layouts(m, k)[i], layouts(k, n)[(i + 2) % 6], layouts(m, n)[(i + 1) % 6]);
                let guard = T::round(77.0);
                let (da, db, mut dc) =
                    (place(&narrow(&a), la, guard), place(&narrow(&b), lb, guard), place(&old, lc, guard));
                gemm_narrow(2.0, Mat::new(&da, la.0), Mat::new(&db, lb.0), -1.0, MatMut::new(&mut dc, lc.0));
                let new: Vec<T> = ab.iter().zip(&old).map(|(v, o)| T::round(2.0 * *v as f32 - o.widen())).collect();
                assert_eq!(dc, place(&new, lc, guard), "{m}x{n}x{k} layouts {i}");
            }
        }
    }

    #[test]
    fn products_of_any_shape_and_stride_round_once() {
        check::<f16>();
        check::<bf16>();
    }

    #[test]
    fn long_sums_accumulate_in_f32() {
        // in f16 the sum of ones stops at 2048; blocks of k must not round either
        let k = 3 * BLOCK_K + 100;
        let ones = vec![f16::ONE; k];
        let mut c = [f16::ZERO];
        gemm_narrow(
            1.0,
            Mat::new(&ones, Layout::row_major(1, k)),
            Mat::new(&ones, Layout::row_major(k, 1)),
            0.0,
            MatMut::new(&mut c, Layout::row_major(1, 1)),
        );
        assert_eq!(c[0], f16::from_f32(k as f32));
    }

    #[test]
    fn blocks_of_c_meet_without_seams() {
        let (m, n, k) = (BLOCK_MN + 3, BLOCK_MN + 5, 2);
        let (a, b): (Vec<f16>, Vec<f16>) = (
            noise(m * k, 1, 9).map(|v| f16::from_f32(v as f32)).collect(),
            noise(k * n, 2, 9).map(|v| f16::from_f32(v as f32)).collect(),
        );
        let mut c = vec![f16::NAN; m * n];
        gemm_narrow(
            1.0,
            Mat::new(&a, Layout::row_major(m, k)),
            Mat::new(&b, Layout::row_major(k, n)),
            0.0,
            MatMut::new(&mut c, Layout::row_major(m, n)),
        );
        for i in 0..m {
            for j in 0..n {
                let e = a[i * k].to_f32() * b[j].to_f32() + a[i * k + 1].to_f32() * b[n + j].to_f32();
                assert_eq!(c[i * n + j].to_f32(), e);
            }
        }
    }
}
