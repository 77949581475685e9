//! f32 and f64 products by crate `gemm`: packed panels and register-blocked kernels for AVX2, AVX-512, NEON, WebAssembly.

use super::{Layout, Mat, MatMut, canonical};
use ::gemm::Parallelism;

/// f32 or f64.
pub trait Float: Copy + Send + Sync + PartialEq + 'static + sealed::Sealed {
    /// 0
    const ZERO: Self;
    /// a * b
    fn times(self, b: Self) -> Self;
}

mod sealed {
    /// `::gemm::gemm` panics for other types.
    pub trait Sealed {}
    impl Sealed for f32 {}
    impl Sealed for f64 {}
}

macro_rules! float {
    ($($t:ty)*) => {$(impl Float for $t {
        const ZERO: $t = 0.0;
        fn times(self, b: $t) -> $t { self * b }
    })*};
}
float!(f32 f64);

/// C = alpha * A * B + beta * C. A is [m, k], B is [k, n], C is [m, n].
///
/// Error: an FMA chain of length k in blocks (k u |A||B| at most).
///
/// # Panics
/// When the shapes do not fit.
pub fn gemm<T: Float>(alpha: T, a: Mat<'_, T>, b: Mat<'_, T>, beta: T, c: MatMut<'_, T>) {
    let (a, b, c) = canonical(a, b, c);
    let (m, n, k) = (c.layout.rows, c.layout.cols, a.layout.cols);
    if m == 0 || n == 0 {
        return;
    }
    if k == 0 || alpha == T::ZERO {
        let cols = c.layout.cols;
        c.for_row_blocks(64, |_, c, row_stride, col_stride| {
            for row in c.chunks_mut(row_stride) {
                for c in row.iter_mut().step_by(col_stride).take(cols) {
                    *c = if beta == T::ZERO { T::ZERO } else { beta.times(*c) };
                }
            }
        });
        return;
    }
    // A few threads take rows of their own: no barriers between blocks of k, and the caller works too instead of waiting
    // (1000^3 on 2 threads: 216 GFLOP/s, against 202 with gemm's own threads). Many threads share packed panels.
    let threads = rayon::current_num_threads();
    if !(2..=FEW_THREADS).contains(&threads) || m < threads * MIN_ROWS || n < MIN_COLS {
        return product(alpha, a, b, beta, c, Parallelism::Rayon(0));
    }
    let rows = m.div_ceil(threads).next_multiple_of(ROW_TILE);
    let layout = c.layout;
    let part = |first: usize, data| {
        let rows = rows.min(m - first);
        let c = MatMut { data, layout: Layout { offset: 0, rows, ..layout } };
        product(alpha, a.block(first, 0, rows, k), b, beta, c, Parallelism::None);
    };
    let (own, mut rest) = split(&mut c.data[layout.offset..], rows * layout.row_stride as usize);
    rayon::in_place_scope(|scope| {
        for first in (rows..m).step_by(rows) {
            let (data, next) = split(rest, rows * layout.row_stride as usize);
            rest = next;
            let part = &part;
            scope.spawn(move |_| part(first, data));
        }
        part(0, own);
    });
}

/// Up to this many threads split the rows of C among them.
const FEW_THREADS: usize = 4;
/// Rows a thread must get for the split to pay, and columns to pack a panel for.
const MIN_ROWS: usize = 256;
const MIN_COLS: usize = 128;
/// A multiple of the rows in the register tiles of `gemm` (f32 on AVX-512: 48).
const ROW_TILE: usize = 48;

/// The first `at` elements and the others; fewer where there are fewer.
fn split<T>(data: &mut [T], at: usize) -> (&mut [T], &mut [T]) {
    let at = at.min(data.len());
    data.split_at_mut(at)
}

/// The product of a canonical problem, k > 0 and C not empty.
fn product<T: Float>(alpha: T, a: Mat<'_, T>, b: Mat<'_, T>, beta: T, c: MatMut<'_, T>, parallelism: Parallelism) {
    let (m, n, k) = (c.layout.rows, c.layout.cols, a.layout.cols);
    let (la, lb, lc): (Layout, Layout, Layout) = (a.layout, b.layout, c.layout);
    // once more, beside the unsafe call that relies on it
    la.assert_inside(a.data.len());
    lb.assert_inside(b.data.len());
    lc.assert_inside(c.data.len());
    lc.assert_injective();
    assert!(la.rows == m && lb.rows == k && lb.cols == n, "gemm: shapes");
    // SAFETY: `assert_inside` above shows that every element (i, j) of the three layouts lies in its slice, all slices are
    // borrowed for the whole call (A and B shared, C exclusively, so that C aliases neither), `assert_injective` shows that no two
    // elements of C share a place, so that gemm's threads write disjoint places, and each offset is inside its slice. With
    // `read_dst` false C is only written; its elements are initialised and have no destructor in any case. T is f32 or f64
    // (`Float` is sealed), for which `::gemm::gemm` is defined. The threads end before the call returns.
    unsafe {
        ::gemm::gemm(
            m,
            n,
            k,
            c.data.as_mut_ptr().add(lc.offset),
            lc.col_stride,
            lc.row_stride,
            beta != T::ZERO,
            a.data.as_ptr().add(la.offset),
            la.col_stride,
            la.row_stride,
            b.data.as_ptr().add(lb.offset),
            lb.col_stride,
            lb.row_stride,
            // gemm's alpha multiplies C and its beta the product
            beta,
            alpha,
            false,
            false,
            false,
            parallelism,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{SHAPES, layouts, noise, place, reference};
    use super::*;

    /// Small integers: every order of additions is exact.
    #[test]
    fn products_of_any_shape_and_stride_are_exact_on_integers() {
        for (m, n, k) in SHAPES {
            let (a, b): (Vec<i64>, Vec<i64>) =
                (noise(m * k, 1, 7).map(i64::from).collect(), noise(k * n, 2, 7).map(i64::from).collect());
            let ab = reference(m, n, k, &a, &b);
            let (a, b): (Vec<f32>, Vec<f32>) =
                (a.iter().map(|v| *v as f32).collect(), b.iter().map(|v| *v as f32).collect());
            for (i, lc) in layouts(m, n).into_iter().enumerate() {
                for (j, la) in layouts(m, k).into_iter().enumerate() {
                    let lb = layouts(k, n)[(i + j) % 6];
                    let (da, db) = (place(&a, la, f32::NAN), place(&b, lb, f32::NAN));
                    for (alpha, beta) in [(1.0, 0.0), (2.0, 1.0), (-1.0, 3.0), (0.0, 2.0)] {
                        let old: Vec<f32> = if beta == 0.0 {
                            vec![f32::NAN; m * n]
                        } else {
                            noise(m * n, 3, 5).map(|v| v as f32).collect()
                        };
                        let mut dc = place(&old, lc, 777.0);
                        gemm(alpha, Mat::new(&da, la.0), Mat::new(&db, lb.0), beta, MatMut::new(&mut dc, lc.0));
                        let new: Vec<f32> = (0..m * n)
                            .map(|e| alpha * ab[e] as f32 + if beta == 0.0 { 0.0 } else { beta * old[e] })
                            .collect();
                        assert_eq!(dc, place(&new, lc, 777.0), "{m}x{n}x{k} alpha {alpha} beta {beta} layouts {i} {j}");
                    }
                }
            }
        }
    }

    #[test]
    fn large_products_on_any_number_of_threads_agree() {
        let (m, n, k) = (1100, 301, 1100);
        let a: Vec<f64> = noise(m * k, 1, 1000).map(|v| f64::from(v) * 1e-3).collect();
        let b: Vec<f64> = noise(k * n, 2, 1000).map(|v| f64::from(v) * 1e-3).collect();
        let run = |threads| {
            let mut c = vec![f64::NAN; m * n];
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
            let (la, lb, lc) = (Layout::row_major(m, k), Layout::row_major(k, n), Layout::row_major(m, n));
            pool.install(|| gemm(1.0, Mat::new(&a, la), Mat::new(&b, lb), 0.0, MatMut::new(&mut c, lc)));
            c
        };
        let one = run(1);
        assert!([2, 3, 4, 5].iter().all(|t| run(*t) == one));
        let exact: f64 = (0..k).map(|p| a[3 * k + p] * b[p * n + 5]).sum();
        assert!((one[3 * n + 5] - exact).abs() < 1e-12);
    }
}
