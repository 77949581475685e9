//! Sums, products, extrema and their positions over contiguous arrays, whole, by rows and by columns.
//!
//! The one decision a reader must know: the order of operations is a function of the shape alone. An array is cut into
//! blocks of [`BLOCK`]; inside a block, lane l of [`LANES`] takes every LANES-th element and the lanes meet in a binary
//! tree; the blocks' results meet in a binary tree again. Threads only choose who computes which block, so that results have
//! the same bits on any number of threads and with any vector width, and the error of a sum of n values grows as
//! BLOCK/LANES + log n.
//!
//! Floats of 8 and 16 bits accumulate, and are returned, in f32. Integers wrap. Empty arrays give the identity: 0, 1, and for
//! extrema the infinities or the ends of the integer range. NaN propagates through extrema, max(-0, +0) = +0 and min(-0, +0) = -0.
//! Positions are in [`super::arg_reduce`].

use super::parallel;
use super::scratch::{self, Done};
use super::simd::{self, Kernel, MulAdd};
use crate::{F8E4M3, F8E5M2};
use half::{bf16, f16};
use std::marker::PhantomData;

/// Elements per block, the unit of work: 16 KiB of f32.
pub const BLOCK: usize = 4096;
/// Independent accumulators: four registers of AVX-512, enough to hide the latency of an addition.
const LANES: usize = 64;
/// Rows that a column-wise reduction combines in sequence.
const ROW_BLOCK: usize = 64;
/// Columns that a column-wise reduction keeps in L1 at a time.
const COLUMN_TILE: usize = 2048;
/// Elements below which one thread is faster.
const SERIAL: usize = 64 * 1024;

/// What accumulates: an associative operation is taken over it.
pub trait Number: Copy + Send + Sync + PartialOrd + 'static {
    /// Identities of the four operations.
    const ZERO: Self;
    /// 1
    const ONE: Self;
    /// The value that loses against all in max.
    const LOWEST: Self;
    /// The value that loses against all in min.
    const HIGHEST: Self;
    /// a + b, wrapping for integers.
    fn add(self, b: Self) -> Self;
    /// a * b, wrapping for integers.
    fn mul(self, b: Self) -> Self;
    /// The larger; NaN if either is; +0 over -0.
    fn maximum(self, b: Self) -> Self;
    /// The smaller; NaN if either is; -0 over +0.
    fn minimum(self, b: Self) -> Self;
}

macro_rules! float_number {
    ($($t:ident)*) => {$(impl Number for $t {
        const ZERO: $t = 0.0;
        const ONE: $t = 1.0;
        const LOWEST: $t = $t::NEG_INFINITY;
        const HIGHEST: $t = $t::INFINITY;
        #[inline(always)]
        fn add(self, b: $t) -> $t { self + b }
        #[inline(always)]
        fn mul(self, b: $t) -> $t { self * b }
        #[inline(always)]
        fn maximum(self, b: $t) -> $t {
            // equal values differ at most in the sign of zero: AND keeps + of the two
            let tie = $t::from_bits(self.to_bits() & b.to_bits());
            let larger = if (self > b) | self.is_nan() { self } else { b };
            if self == b { tie } else { larger }
        }
        #[inline(always)]
        fn minimum(self, b: $t) -> $t {
            let tie = $t::from_bits(self.to_bits() | b.to_bits());
            let smaller = if (self < b) | self.is_nan() { self } else { b };
            if self == b { tie } else { smaller }
        }
    })*};
}
float_number!(f32 f64);

macro_rules! int_number {
    ($($t:ident)*) => {$(impl Number for $t {
        const ZERO: $t = 0;
        const ONE: $t = 1;
        const LOWEST: $t = $t::MIN;
        const HIGHEST: $t = $t::MAX;
        #[inline(always)]
        fn add(self, b: $t) -> $t { self.wrapping_add(b) }
        #[inline(always)]
        fn mul(self, b: $t) -> $t { self.wrapping_mul(b) }
        #[inline(always)]
        fn maximum(self, b: $t) -> $t { self.max(b) }
        #[inline(always)]
        fn minimum(self, b: $t) -> $t { self.min(b) }
    })*};
}
int_number!(i8 u8 i16 u16 i32 u32 i64 u64);

/// What scans (`ops/scan/host.rs`) call it.
pub use Widen as Element;

/// What is stored: widened to `Acc` as it is read.
pub trait Widen: Copy + Send + Sync + 'static {
    /// Type of accumulators and results.
    type Acc: Number;
    /// The same value as `Acc`.
    fn widen(self) -> Self::Acc;
}

macro_rules! own_element {
    ($($t:ident)*) => {$(impl Widen for $t {
        type Acc = $t;
        #[inline(always)]
        fn widen(self) -> $t { self }
    })*};
}
own_element!(f32 f64 i8 u8 i16 u16 i32 u32 i64 u64);

impl Widen for f16 {
    type Acc = f32;
    /// Integer operations and one product, which vectorise; `half`'s own conversion asks the CPU for each element.
    #[inline(always)]
    fn widen(self) -> f32 {
        let bits = u32::from(self.to_bits());
        let magnitude = (bits & 0x7fff) << 13;
        // exponent bias 127 instead of 15: times 2^112, exact and right for subnormal numbers too
        let finite = f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23);
        let special = f32::from_bits(magnitude | 0x7f80_0000);
        let value = if bits & 0x7c00 == 0x7c00 { special } else { finite };
        f32::from_bits(value.to_bits() | (bits & 0x8000) << 16)
    }
}

macro_rules! float8_element {
    ($($t:ident)*) => {$(
        impl Widen for $t {
            type Acc = f32;
            #[inline(always)]
            fn widen(self) -> f32 {
                self.to_f32()
            }
        }
    )*};
}
float8_element!(F8E4M3 F8E5M2);

impl Widen for bf16 {
    type Acc = f32;
    #[inline(always)]
    fn widen(self) -> f32 {
        f32::from_bits(u32::from(self.to_bits()) << 16)
    }
}

/// An associative and commutative operation with its identity.
pub trait Reduction<A: Number>: Copy + Send + Sync {
    /// The result for no elements.
    const IDENTITY: A;
    /// a op b
    fn combine(a: A, b: A) -> A;
}

macro_rules! reductions {
    ($($(#[$doc:meta])* $name:ident $identity:ident $method:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Copy, Debug)]
        pub struct $name;
        impl<A: Number> Reduction<A> for $name {
            const IDENTITY: A = A::$identity;
            #[inline(always)]
            fn combine(a: A, b: A) -> A { a.$method(b) }
        }
    )*};
}
reductions! {
    /// a + b
    Sum ZERO add;
    /// a * b
    Product ONE mul;
    /// the larger
    Max LOWEST maximum;
    /// the smaller
    Min HIGHEST minimum;
}

/// The larger of the magnitudes; of floats.
#[derive(Clone, Copy, Debug)]
pub struct AbsMax;

macro_rules! abs_max {
    ($($t:ident)*) => {$(impl Reduction<$t> for AbsMax {
        const IDENTITY: $t = 0.0;
        #[inline(always)]
        fn combine(a: $t, b: $t) -> $t { Number::maximum(a.abs(), b.abs()) }
    })*};
}
abs_max!(f32 f64);

/// A binary tree over the values, in place: neighbours meet first.
#[inline(always)]
fn tree<A: Number, R: Reduction<A>>(values: &mut [A]) -> A {
    let mut n = values.len();
    if n == 0 {
        return R::IDENTITY;
    }
    while n > 1 {
        let half = n / 2;
        for i in 0..half {
            values[i] = R::combine(values[2 * i], values[2 * i + 1]);
        }
        if n % 2 == 1 {
            values[half] = values[n - 1];
        }
        n = n.div_ceil(2);
    }
    values[0]
}

/// One block of at most [`BLOCK`] elements, inside a dispatched function.
#[inline(always)]
pub(crate) fn block<T: Widen, R: Reduction<T::Acc>>(x: &[T]) -> T::Acc {
    if x.len() < 16 {
        return x.iter().fold(R::IDENTITY, |a, v| R::combine(a, v.widen()));
    }
    let mut lanes = [R::IDENTITY; LANES];
    let mut chunks = x.chunks_exact(LANES);
    for chunk in &mut chunks {
        for l in 0..LANES {
            lanes[l] = R::combine(lanes[l], chunk[l].widen());
        }
    }
    for (lane, v) in lanes.iter_mut().zip(chunks.remainder()) {
        *lane = R::combine(*lane, v.widen());
    }
    // halves meet, so that whole registers are combined
    let mut width = LANES / 2;
    while width > 0 {
        for l in 0..width {
            lanes[l] = R::combine(lanes[l], lanes[l + width]);
        }
        width /= 2;
    }
    lanes[0]
}

struct Blocks<'a, T: Widen, R>(&'a [T], &'a mut [T::Acc], R);

impl<T: Widen, R: Reduction<T::Acc>> Kernel for Blocks<'_, T, R> {
    type Output = ();
    #[inline(always)]
    fn run<M: MulAdd>(self) {
        for (x, y) in self.0.chunks(BLOCK).zip(self.1) {
            *y = block::<T, R>(x);
        }
    }
}

/// The results of all blocks, in order.
pub(crate) fn blocks<T: Widen, R: Reduction<T::Acc>>(op: R, x: &[T]) -> Vec<T::Acc> {
    /// blocks per task: 64 Ki elements
    const GROUP: usize = 16;
    let mut results = vec![R::IDENTITY; x.len().div_ceil(BLOCK)];
    if x.len() < SERIAL {
        simd::dispatch(Blocks(x, &mut results, op));
    } else {
        parallel::pairs((&mut results, GROUP), (x, GROUP * BLOCK), |y, x| simd::dispatch(Blocks(x, y, op)));
    }
    results
}

/// The reduction of the whole array: `reduce(Sum, &x)`.
pub fn reduce<T: Widen, R: Reduction<T::Acc>>(op: R, x: &[T]) -> T::Acc {
    tree::<T::Acc, R>(&mut blocks(op, x))
}

struct Rows<'a, T: Widen, R>(&'a [T], usize, &'a mut [T::Acc], R);

impl<T: Widen, R: Reduction<T::Acc>> Kernel for Rows<'_, T, R> {
    type Output = ();
    #[inline(always)]
    fn run<M: MulAdd>(self) {
        let Self(x, cols, y, _) = self;
        let mut partial = vec![R::IDENTITY; cols.div_ceil(BLOCK)];
        for (x, y) in x.chunks_exact(cols).zip(y) {
            if cols <= BLOCK {
                *y = block::<T, R>(x);
                continue;
            }
            for (x, p) in x.chunks(BLOCK).zip(&mut partial) {
                *p = block::<T, R>(x);
            }
            *y = tree::<T::Acc, R>(&mut partial);
        }
    }
}

/// `y[r]` = the reduction of row r of x, which is [y.len(), cols], row-major. The bits equal those of [`reduce`] on the row.
///
/// # Panics
/// When `x.len() != y.len() * cols`.
pub fn reduce_rows<T: Widen, R: Reduction<T::Acc>>(op: R, x: &[T], cols: usize, y: &mut [T::Acc]) {
    assert_eq!(Some(x.len()), y.len().checked_mul(cols), "reduce_rows: shape");
    if cols == 0 {
        y.fill(R::IDENTITY);
    } else if x.len() < SERIAL {
        simd::dispatch(Rows(x, cols, y, op));
    } else if cols >= 16 * BLOCK {
        // long rows are shared out one by one
        y.iter_mut().zip(x.chunks_exact(cols)).for_each(|(y, x)| *y = reduce(op, x));
    } else {
        let rows = (16 * BLOCK / cols).max(1);
        parallel::pairs((y, rows), (x, rows * cols), |y, x| simd::dispatch(Rows(x, cols, y, op)));
    }
}

/// Rows x (of length `stride` between starts) combined in sequence into y, `y.len()` columns from `first`.
struct Columns<'a, T: Widen, R> {
    x: &'a [T],
    stride: usize,
    first: usize,
    y: &'a mut [T::Acc],
    op: PhantomData<R>,
}

impl<T: Widen, R: Reduction<T::Acc>> Kernel for Columns<'_, T, R> {
    type Output = ();
    #[inline(always)]
    fn run<M: MulAdd>(self) {
        let Self { x, stride, first, y, op: _ } = self;
        for (t, y) in y.chunks_mut(COLUMN_TILE).enumerate() {
            y.fill(R::IDENTITY);
            let first = first + t * COLUMN_TILE;
            // four rows at a time, so that y is loaded and stored once for four
            let mut quads = x.chunks_exact(4 * stride);
            for quad in &mut quads {
                let row = |r: usize| &quad[r * stride + first..][..y.len()];
                let rows = row(0).iter().zip(row(1)).zip(row(2).iter().zip(row(3)));
                for (y, ((a, b), (c, d))) in y.iter_mut().zip(rows) {
                    let (ab, cd) = (R::combine(a.widen(), b.widen()), R::combine(c.widen(), d.widen()));
                    *y = R::combine(*y, R::combine(ab, cd));
                }
            }
            for row in quads.remainder().chunks_exact(stride) {
                for (y, v) in y.iter_mut().zip(&row[first..]) {
                    *y = R::combine(*y, v.widen());
                }
            }
        }
    }
}

/// `y[c]` = the reduction of column c of x, which is [rows, y.len()], row-major. Reads x once, in order.
///
/// # Panics
/// When `x.len() != rows * y.len()`.
///
/// # Errors
/// Without memory for the partial results of [`ROW_BLOCK`] rows each.
#[allow(clippy::only_used_in_recursion, reason = "the operation is a type; its value only names it")]
pub fn reduce_columns<T: Widen, R: Reduction<T::Acc>>(op: R, x: &[T], rows: usize, y: &mut [T::Acc]) -> Done
where
    T::Acc: Widen<Acc = T::Acc>,
{
    let cols = y.len();
    assert_eq!(Some(x.len()), rows.checked_mul(cols), "reduce_columns: shape");
    if x.is_empty() {
        y.fill(R::IDENTITY);
        return Ok(());
    }
    // few columns: several rows count as one wide row, whose parts are combined at the end
    if cols < LANES && rows >= 4 * LANES {
        let group = LANES.div_ceil(cols);
        let whole = rows / group;
        let (body, rest) = x.split_at(whole * group * cols);
        let mut wide = vec![R::IDENTITY; group * cols];
        reduce_columns(op, body, whole, &mut wide)?;
        reduce_columns(op, &wide, group, y)?;
        for row in rest.chunks_exact(cols) {
            y.iter_mut().zip(row).for_each(|(y, v)| *y = R::combine(*y, v.widen()));
        }
        return Ok(());
    }
    let tile = |x: &[T], first: usize, y: &mut [T::Acc]| {
        simd::dispatch(Columns { x, stride: cols, first, y, op: PhantomData::<R> })
    };
    let tiles = |x: &[T], y: &mut [T::Acc]| {
        if x.len() < SERIAL {
            return tile(x, 0, y);
        }
        parallel::chunks(y, COLUMN_TILE, |t, y| tile(x, t * COLUMN_TILE, y));
    };
    if rows <= ROW_BLOCK {
        tiles(x, y);
        return Ok(());
    }
    let mut partial = scratch::filled(R::IDENTITY, rows.div_ceil(ROW_BLOCK) * cols)?;
    if x.len() < SERIAL {
        partial.chunks_mut(cols).zip(x.chunks(ROW_BLOCK * cols)).for_each(|(y, x)| tiles(x, y));
    } else {
        parallel::pairs((&mut partial, cols), (x, ROW_BLOCK * cols), |y, x| tiles(x, y));
    }
    reduce_columns(op, &partial, rows.div_ceil(ROW_BLOCK), y)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deterministic values in [-1, 1) without a generator crate.
    fn noise(n: usize) -> Vec<f32> {
        (0..n as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 8_388_608.0 - 1.0).collect()
    }

    fn lengths() -> impl Iterator<Item = usize> {
        (0..68).chain([BLOCK - 1, BLOCK, BLOCK + 1, 3 * BLOCK + 7, SERIAL - 1, SERIAL, SERIAL + 1, 5 * SERIAL + 333])
    }

    #[test]
    fn sum_of_any_length_within_pairwise_bound() {
        let x = noise(6 * SERIAL);
        for n in lengths() {
            let x = &x[n % 13..][..n];
            let exact: f64 = x.iter().map(|v| f64::from(*v)).sum();
            let magnitude: f64 = x.iter().map(|v| f64::from(v.abs())).sum();
            // BLOCK / LANES sequential additions, then log2 of LANES and of the number of blocks
            let depth = (BLOCK / LANES + 6 + 20) as f64;
            let error = (f64::from(reduce(Sum, x)) - exact).abs();
            assert!(error <= depth * magnitude * 2f64.powi(-24), "n = {n}: error {error}");
        }
    }

    #[test]
    fn integer_and_exact_reductions_match_sequential_fold() {
        let x: Vec<i32> = noise(6 * SERIAL).iter().map(|v| (v * 2e9) as i32).collect();
        for n in lengths() {
            let x = &x[n % 11..][..n];
            assert_eq!(reduce(Sum, x), x.iter().fold(0, |a: i32, b| a.wrapping_add(*b)));
            assert_eq!(reduce(Product, x), x.iter().fold(1, |a: i32, b| a.wrapping_mul(*b)));
            assert_eq!(reduce(Max, x), x.iter().copied().max().unwrap_or(i32::MIN));
            assert_eq!(reduce(Min, x), x.iter().copied().min().unwrap_or(i32::MAX));
            let wide: Vec<i64> = x.iter().map(|v| i64::from(*v)).collect();
            assert_eq!(reduce(Sum, &wide), wide.iter().sum::<i64>());
        }
    }

    #[test]
    fn sum_on_any_number_of_threads_has_the_same_bits() {
        let x = noise(5 * SERIAL + 333);
        let cols = 333;
        let rows = x.len() / cols;
        let all = |threads| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
            pool.install(|| {
                let (mut r, mut c) = (vec![0.0; rows], vec![0.0; cols]);
                reduce_rows(Sum, &x[..rows * cols], cols, &mut r);
                reduce_columns(Sum, &x[..rows * cols], rows, &mut c).unwrap();
                r.extend(c);
                r.push(reduce(Sum, &x));
                r.iter().map(|v: &f32| v.to_bits()).collect::<Vec<_>>()
            })
        };
        let one = all(1);
        assert!([2, 3, 7].iter().all(|t| all(*t) == one));
    }

    #[test]
    fn extrema_propagate_nan_and_order_zeros() {
        for n in (1..68).chain([BLOCK + 5, SERIAL + 77]) {
            for at in [0, n / 3, n - 1] {
                let mut x = vec![-0.0f32; n];
                assert_eq!(reduce(Max, &x).to_bits(), (-0.0f32).to_bits());
                x[at] = 0.0;
                assert_eq!(reduce(Max, &x).to_bits(), 0);
                assert_eq!(reduce(Min, &x).to_bits(), if n == 1 { 0 } else { (-0.0f32).to_bits() });
                x[at] = f32::INFINITY;
                assert_eq!(reduce(Max, &x), f32::INFINITY);
                x[at] = f32::NAN;
                assert!(reduce(Max, &x).is_nan() && reduce(Min, &x).is_nan() && reduce(Sum, &x).is_nan());
            }
        }
        assert_eq!(reduce::<f32, _>(Max, &[]), f32::NEG_INFINITY);
    }

    #[test]
    fn rows_and_columns_of_any_shape_match_sequential_fold() {
        let shapes = [
            (1, 1),
            (0, 5),
            (5, 0),
            (3, 7),
            (67, 65),
            (300, 3),
            (4097, 17),
            (65, 4100),
            (2, 70_001),
            (70_001, 2),
            (513, 513),
        ];
        for (rows, cols) in shapes {
            // small integers: every order of additions is exact
            let x: Vec<f32> = noise(rows * cols).iter().map(|v| (v * 8.0).round()).collect();
            let (mut r, mut c) = (vec![f32::NAN; rows], vec![f32::NAN; cols]);
            reduce_rows(Sum, &x, cols, &mut r);
            reduce_columns(Sum, &x, rows, &mut c).unwrap();
            for i in 0..rows {
                assert_eq!(r[i], x[i * cols..][..cols].iter().sum::<f32>(), "row {i} of {rows}x{cols}");
            }
            for j in 0..cols {
                assert_eq!(c[j], (0..rows).map(|i| x[i * cols + j]).sum::<f32>(), "column {j} of {rows}x{cols}");
            }
            reduce_columns(Max, &x, rows, &mut c).unwrap();
            for j in 0..cols {
                assert_eq!(c[j], (0..rows).map(|i| x[i * cols + j]).fold(f32::NEG_INFINITY, f32::max));
            }
        }
    }

    #[test]
    fn narrow_floats_widen_exactly() {
        for bits in 0..=u16::MAX {
            let (h, b) = (f16::from_bits(bits), bf16::from_bits(bits));
            assert!(h.widen().to_bits() == h.to_f32().to_bits() || h.is_nan() && h.widen().is_nan());
            assert!(b.widen().to_bits() == b.to_f32().to_bits() || b.is_nan() && b.widen().is_nan());
        }
        // 4096 ones and halves: f16 accumulation would stop at 2048
        assert_eq!(reduce(Sum, &vec![f16::ONE; 10_000]), 10_000.0);
    }
}
