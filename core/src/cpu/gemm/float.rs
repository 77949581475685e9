//! f32 and f64 products by crate `gemm`: packed panels and register-blocked kernels for AVX2, AVX-512, NEON, WebAssembly. Of its
//! parts we take those of the two types: the others, of complex numbers, would take longer to compile than both.

use std::marker::PhantomData;

use super::super::scratch::{self, Done};
use super::{Layout, Mat, MatMut, canonical, few, parallel};
use gemm_common::Parallelism;

/// f32 or f64.
pub trait Float: few::Sum + PartialEq + 'static + sealed::Sealed {
    /// 0
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// a * b
    fn times(self, b: Self) -> Self;
}

/// C of m, n and k; C, A and B by address, column stride and row stride; alpha for C, beta for the product; conjugates.
type Product<T> = unsafe fn(
    usize,
    usize,
    usize,
    *mut T,
    isize,
    isize,
    bool,
    *const T,
    isize,
    isize,
    *const T,
    isize,
    isize,
    T,
    T,
    bool,
    bool,
    bool,
    Parallelism,
);

mod sealed {
    /// The types that there is a product of.
    pub trait Sealed: Sized {
        /// The best one for this CPU.
        fn product() -> super::Product<Self>;
    }
    impl Sealed for f32 {
        fn product() -> super::Product<f32> {
            gemm_f32::gemm::f32::get_gemm_fn()
        }
    }
    impl Sealed for f64 {
        fn product() -> super::Product<f64> {
            gemm_f64::gemm::f64::get_gemm_fn()
        }
    }
}

macro_rules! float {
    ($($t:ty)*) => {$(impl Float for $t {
        const ZERO: $t = 0.0;
        const ONE: $t = 1.0;
        fn times(self, b: $t) -> $t { self * b }
    })*};
}
float!(f32 f64);

/// C = A * B. A is [m, k], B is [k, n], C is [m, n].
///
/// Error: an FMA chain of length k in blocks (k u |A||B| at most).
///
/// # Errors
/// [`scratch::Short`] when memory for the sums of parts of a long k is refused.
///
/// # Panics
/// When the shapes do not fit.
pub fn gemm<T: Float>(a: Mat<'_, T>, b: Mat<'_, T>, c: MatMut<'_, T>) -> Done {
    let (a, b, c) = canonical(a, b, c);
    let (m, n, k) = (c.layout.rows, c.layout.cols, a.layout.cols);
    if m == 0 || n == 0 {
        return Ok(());
    }
    if k == 0 {
        c.for_row_blocks(64, |_, c, row_stride, col_stride| {
            for row in c.chunks_mut(row_stride) {
                row.iter_mut().step_by(col_stride).take(n).for_each(|c| *c = T::ZERO);
            }
        });
        return Ok(());
    }
    if few::suits(m, &b.layout, few::FEW) {
        return few::product(&few::rows(a, |x| x)?, b, c, |x| x);
    }
    let (left, right) = (b.transposed(), a.transposed());
    if few::suits(n, &right.layout, few::FEW) {
        let c = MatMut { layout: c.layout.transposed(), data: c.data };
        return few::product(&few::rows(left, |x| x)?, right, c, |x| x);
    }
    if let Some(depth) = part_of_k([m, n, k]) {
        return by_parts_of_k(depth, a, b, c);
    }
    // Threads take rectangles of C of their own: each packs what it reads, and none waits for another between blocks of k,
    // as gemm's own threads do. Several rectangles to a thread even out what other processes take from one.
    let [down, across] = cuts(parallel::threads(), [m, n, k]);
    parallel::each(&mut Block::of(c).grid(down, across), |(first_row, first_col, c)| {
        let Layout { rows, cols, .. } = c.layout;
        product(a.block(*first_row, 0, rows, k), b.block(0, *first_col, k, cols), c);
    });
    Ok(())
}

/// The least k that is added up in parts.
pub const LONG_K: usize = 4096;

/// How much of k is multiplied at a time where C has too few rectangles for threads, and each would read all of a long A or B
/// (64x64x16384 on 16 threads: 1.27 ms by rectangles). Whatever the number of threads, as it decides the order of the additions.
fn part_of_k([m, n, k]: [usize; 3]) -> Option<usize> {
    const MOST_ELEMENTS: usize = 128 * 128;
    let is_long = k >= LONG_K && k / 16 >= m.max(n) && m * n <= MOST_ELEMENTS;
    is_long.then(|| k.div_ceil(64).max(1024))
}

/// The product as a sum of products of `depth` of k, added in order.
fn by_parts_of_k<T: Float>(depth: usize, a: Mat<'_, T>, b: Mat<'_, T>, c: MatMut<'_, T>) -> Done {
    let (m, n, k) = (c.layout.rows, c.layout.cols, a.layout.cols);
    let mut sums = scratch::zeroed::<T>(k.div_ceil(depth) * m * n)?;
    parallel::chunks(&mut sums, m * n, |i, sums| {
        let (first, len) = (i * depth, depth.min(k - i * depth));
        let part = MatMut::new(sums, Layout::row_major(m, n));
        product(a.block(0, first, m, len), b.block(first, 0, len, n), &mut Block::of(part));
    });
    c.for_row_blocks(1, |row, c, _, col_stride| {
        for (col, c) in c.iter_mut().step_by(col_stride).take(n).enumerate() {
            *c = sums[row * n + col..].iter().step_by(m * n).fold(T::ZERO, |sum, &part| sum.plus(part));
        }
    });
    Ok(())
}

/// Columns that a rectangle must have for its packing to pay; the second, where otherwise threads would have nothing to do.
const MIN_COLS: [usize; 2] = [48, 8];
/// What rows and columns are cut in multiples of.
const ROW_TILE: usize = 16;
const COL_TILE: usize = 8;
/// Elements up to which crate `gemm` may take C for many dot products, and rows and columns up to which it cuts k otherwise.
const FEW_ELEMENTS: usize = 256;
const SMALL: usize = 64;

/// Multiplications and additions that are worth a second thread.
const MIN_WORK: usize = 1 << 19;

/// Into how many parts the rows and the columns of C are cut.
///
/// A few threads: rows alone, one part each, since every part packs all of B (1000^3 on 2 threads: 216 GFLOP/s, against 202
/// with gemm's own threads); columns where there are few rows. More: four parts of rows by enough of columns for four rectangles to a
/// thread, fewer where they would be small (1000^3 on 16 threads: 1.3 TFLOP/s, 4096^3 1.6, `cpu-gemm.txt` of
/// benches/results/h200-2026-11-24d; 0.7 and 1.1 with gemm's own threads, benches/results/cpu-16-threads-2026-11-21).
fn cuts(threads: usize, [m, n, k]: [usize; 3]) -> [usize; 2] {
    const FEW_THREADS: usize = 4;
    const ROW_PARTS: usize = 4;
    let at_most = |parts: usize, extent: usize, least: usize| parts.min(extent / least).max(1);
    let mut cuts = [1, 1];
    if threads == 1 || m.saturating_mul(n).saturating_mul(k) < MIN_WORK {
        return cuts;
    }
    for cols in MIN_COLS {
        cuts = if threads > FEW_THREADS {
            let down = at_most(ROW_PARTS, m, least_rows(n));
            [down, at_most((4 * threads).div_ceil(down), n, cols)]
        } else if m >= n.min(threads * 256) {
            [at_most(threads, m, least_rows(n)), 1]
        } else {
            [1, at_most(threads, n, cols)]
        };
        if cuts[0] * cuts[1] >= threads {
            break;
        }
    }
    cuts
}

/// A rectangle of C, canonical, whose elements are its own.
struct Block<'c, T> {
    /// Of the slice that C is in, not of the rectangle.
    data: *mut T,
    len: usize,
    layout: Layout,
    borrowed: PhantomData<&'c mut [T]>,
}

// SAFETY: it stands for exclusive references to its elements, which may go to another thread as `&mut T` may. Two blocks of
// one C share no element (`grid` cuts an injective layout into disjoint rectangles), so nobody else reads or writes them.
unsafe impl<T: Send> Send for Block<'_, T> {}

impl<'c, T> Block<'c, T> {
    fn of(c: MatMut<'c, T>) -> Block<'c, T> {
        Block { data: c.data.as_mut_ptr(), len: c.data.len(), layout: c.layout, borrowed: PhantomData }
    }

    /// Cut into `down` x `across` rectangles or fewer, even in whole tiles, each with its first row and column.
    fn grid(self, down: usize, across: usize) -> Vec<(usize, usize, Block<'c, T>)> {
        let Layout { rows: m, cols: n, .. } = self.layout;
        let (rows, cols) = (row_edges([m, n], down), col_edges([m, n], across));
        let mut parts = Vec::with_capacity(down * across);
        for r in rows.windows(2) {
            for c in cols.windows(2) {
                let layout = self.layout.block(r[0], c[0], r[1] - r[0], c[1] - c[0]);
                let Block { data, len, .. } = self;
                parts.push((r[0], c[0], Block { data, len, layout, borrowed: PhantomData }));
            }
        }
        parts
    }
}

/// Places between rows that cut a matrix of C, or some of its columns, into `parts` parts or fewer.
pub fn row_edges([m, n]: [usize; 2], parts: usize) -> Vec<usize> {
    edges(m, parts, ROW_TILE, least_rows(n))
}

fn col_edges([m, n]: [usize; 2], parts: usize) -> Vec<usize> {
    edges(n, parts, COL_TILE, least_cols(m))
}

/// Rows of a part of C that are neither few elements nor small, whatever its columns; so a C of fewer is not cut.
fn least_rows(n: usize) -> usize {
    (SMALL + 1).max(FEW_ELEMENTS / n.clamp(1, COL_TILE) + 1).next_multiple_of(ROW_TILE)
}

/// The same of columns: where there are many rows, parts of them are no small matrices.
fn least_cols(m: usize) -> usize {
    let least = if m > SMALL { COL_TILE } else { (SMALL + 1).max(FEW_ELEMENTS / m.max(1) + 1) };
    least.next_multiple_of(COL_TILE)
}

/// Strictly growing places from 0 to `extent` that cut it into `parts` parts or fewer, between tiles, each of `least` or more.
fn edges(extent: usize, parts: usize, tile: usize, least: usize) -> Vec<usize> {
    let parts = parts.min(extent / least).max(1);
    let mut all = vec![0];
    for edge in (1..parts).map(|i| extent * i / parts / tile * tile) {
        if edge >= all[all.len() - 1] + least && edge + least <= extent {
            all.push(edge);
        }
    }
    all.push(extent);
    all
}

/// The product of a canonical problem or of a rectangle of it, k > 0 and C not empty: the same bits either way.
///
/// In which order crate `gemm` adds depends on C's extents: few elements or one row may become dot products, and of small matrices
/// k is cut into other parts. So rectangles are of neither kind unless all of C is (`least_rows`, `least_cols`).
fn product<T: Float>(a: Mat<'_, T>, b: Mat<'_, T>, c: &mut Block<'_, T>) {
    // Its kernels write columns: C is transposed unless its columns are the closer elements.
    let (mut a, mut b, lc) = match c.layout.col_stride < c.layout.row_stride {
        true => (b.transposed(), a.transposed(), c.layout.transposed()),
        false => (a, b, c.layout),
    };
    // And they take k in A's direction.
    if a.layout.col_stride < 0 {
        a.layout = a.layout.transposed().rows_reversed().transposed();
        b.layout = b.layout.rows_reversed();
    }
    let (la, lb): (Layout, Layout) = (a.layout, b.layout);
    // once more, beside the unsafe call that relies on it
    la.assert_inside(a.data.len());
    lb.assert_inside(b.data.len());
    lc.assert_inside(c.len);
    lc.assert_injective();
    assert!(la.rows == lc.rows && lb.cols == lc.cols && la.cols == lb.rows, "gemm: shapes");
    let run = T::product();
    // SAFETY: `assert_inside` above shows that every element (i, j) of the three layouts lies in its slice, all slices are
    // borrowed for the whole call (A and B shared, C's elements exclusively, so that C aliases neither), `assert_injective`
    // shows that no two elements of C share a place, and each offset is inside its slice. With `read_dst` false C is only written;
    // its elements are initialised and have no destructor in any case. The function is that of T for this CPU, and starts no threads.
    unsafe {
        run(
            la.rows,
            lb.cols,
            la.cols,
            c.data.add(lc.offset),
            lc.col_stride,
            lc.row_stride,
            false,
            a.data.as_ptr().add(la.offset),
            la.col_stride,
            la.row_stride,
            b.data.as_ptr().add(lb.offset),
            lb.col_stride,
            lb.row_stride,
            // its alpha multiplies C and its beta the product
            T::ZERO,
            T::ONE,
            false,
            false,
            false,
            Parallelism::None,
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
                    let mut dc = place(&vec![f32::NAN; m * n], lc, 777.0);
                    gemm(Mat::new(&da, la.0), Mat::new(&db, lb.0), MatMut::new(&mut dc, lc.0)).unwrap();
                    let new: Vec<f32> = ab.iter().map(|&sum| sum as f32).collect();
                    assert_eq!(dc, place(&new, lc, 777.0), "{m}x{n}x{k} layouts {i} {j}");
                }
            }
        }
    }

    #[test]
    fn parts_cover_every_element_once() {
        // Miri takes a millisecond for what a processor does in one microsecond.
        let sizes: &[_] = if cfg!(miri) {
            &[(1, 1), (96, 48), (205, 33), (47, 307), (500, 1)]
        } else {
            &[(1, 1), (96, 48), (1000, 1000), (4097, 33), (47, 4095), (500, 1)]
        };
        for &(m, n) in sizes {
            for threads in [2, 3, 5, 16, 61] {
                let [down, across] = cuts(threads, [m, n, 1000]);
                let mut seen = vec![0u8; m * (n + 3)];
                let layout = Layout { row_stride: n as isize + 3, ..Layout::row_major(m, n) };
                for (row, col, part) in Block::of(MatMut { data: &mut seen, layout }).grid(down, across) {
                    assert_eq!(part.layout.offset, layout.at(row, col));
                    for (i, j) in (0..part.layout.rows).flat_map(|i| (0..part.layout.cols).map(move |j| (i, j))) {
                        // SAFETY: inside of the slice, as `Layout::at` of a block is; one part at a time.
                        unsafe { *part.data.add(part.layout.at(i, j)) += 1 };
                    }
                }
                let right = |(place, &count): (usize, &u8)| count == u8::from(place % (n + 3) < n);
                assert!(seen.iter().enumerate().all(right), "{m} x {n} on {threads}");
            }
        }
    }

    /// Sums of parts of k, for any number of threads and any layout of C.
    #[test]
    fn long_k_is_added_in_parts_and_the_same_on_any_number_of_threads() {
        let (m, n, k) = (7, 33, 9001);
        assert_eq!(part_of_k([m, n, k]), Some(1024));
        assert_eq!(
            [part_of_k([64, 64, 100_000]), part_of_k([300, 300, 100_000]), part_of_k([7, 300, 4500])],
            [Some(1563), None, None]
        );
        let (a, b): (Vec<i64>, Vec<i64>) =
            (noise(m * k, 1, 7).map(i64::from).collect(), noise(k * n, 2, 7).map(i64::from).collect());
        let ab = reference(m, n, k, &a, &b);
        let [a, b] = [a, b].map(|x| x.into_iter().map(|v| v as f64).collect::<Vec<f64>>());
        let (la, lb) = (Layout::row_major(m, k), Layout::row_major(k, n));
        for lc in layouts(m, n) {
            let expected: Vec<f64> = ab.iter().map(|&sum| sum as f64).collect();
            for threads in [1, 2, 16] {
                let mut c = place(&vec![f64::NAN; m * n], lc, 777.0);
                let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
                pool.install(|| gemm(Mat::new(&a, la), Mat::new(&b, lb), MatMut::new(&mut c, lc.0))).unwrap();
                assert_eq!(c, place(&expected, lc, 777.0), "{lc:?}");
            }
        }
        let noisy = |threads| {
            let [a, b] = [(m * k, 1), (k * n, 2)]
                .map(|(len, seed)| noise(len, seed, 1000).map(|v| v as f32 * 1e-3).collect::<Vec<_>>());
            let mut c = vec![f32::NAN; m * n];
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
            let lc = Layout::row_major(m, n);
            pool.install(|| gemm(Mat::new(&a, la), Mat::new(&b, lb), MatMut::new(&mut c, lc))).unwrap();
            c
        };
        assert!([2, 3, 16].iter().all(|threads| noisy(*threads) == noisy(1)));
    }

    /// Extents round those by which crate `gemm` chooses among its ways, each of which adds in an order of its own.
    fn agree_on_any_number_of_threads<T: Float>(of: impl Fn(f64) -> T, exact: impl Fn(T) -> f64, tolerance: f64) {
        let shapes = [
            (1100, 301, 1100),
            (256, 256, 768),
            (200, 200, 600),
            (64, 64, 2000),
            (64, 128, 2000),
            (65, 65, 513),
            (97, 97, 300),
            (145, 480, 300),
            (2, 8003, 300),
            (1, 8003, 300),
            (8003, 1, 300),
            (8003, 2, 70),
            (257, 1, 4000),
            (5, 1000, 514),
            (16, 16, 5000),
            (17, 16, 3000),
        ];
        for (m, n, k) in shapes {
            let values =
                |len: usize, seed: u32| -> Vec<T> { noise(len, seed, 1000).map(|v| of(f64::from(v) * 1e-3)).collect() };
            let (a, b) = (values(m * k, 1), values(k * n, 2));
            for transposed in [false, true] {
                let lb = Layout {
                    row_stride: if transposed { 1 } else { n as isize },
                    col_stride: if transposed { k as isize } else { 1 },
                    ..Layout::row_major(k, n)
                };
                let run = |threads: usize| {
                    let mut c = vec![T::ZERO; m * n];
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
                    let (la, lc) = (Layout::row_major(m, k), Layout::row_major(m, n));
                    pool.install(|| gemm(Mat::new(&a, la), Mat::new(&b, lb), MatMut::new(&mut c, lc)).unwrap());
                    c
                };
                let one = run(1);
                for threads in [2, 3, 4, 5, 16, 61] {
                    let off = run(threads).iter().zip(&one).filter(|(x, y)| x != y).count();
                    assert_eq!(off, 0, "of {m}x{n}x{k}, B transposed: {transposed}, on {threads} threads");
                }
                for (i, j) in [(0, 0), (m / 2, n - 1), (m - 1, n / 3)] {
                    let sum: f64 = (0..k).map(|p| exact(a[i * k + p]) * exact(b[lb.at(p, j)])).sum();
                    assert!((exact(one[i * n + j]) - sum).abs() < tolerance, "({i}, {j}) of {m}x{n}x{k}");
                }
            }
        }
    }

    #[test]
    fn products_on_any_number_of_threads_agree() {
        agree_on_any_number_of_threads(|x| x as f32, f64::from, 1e-2);
        agree_on_any_number_of_threads(|x| x, |x| x, 1e-10);
    }
}
