//! Integer products that wrap, by plain loops that LLVM vectorises.
//!
//! B is packed once into panels of [`NR`] columns, widened to the result's type; tasks of [`TASK_ROWS`] rows of C pack their own
//! A block by block of [`BLOCK_K`] into panels of [`MR`] rows; a tile of MR x NR accumulators stays in registers over a block.

use super::super::parallel;
use super::{Mat, MatMut, canonical};
use crate::cpu::scratch::{self, Done};
use crate::cpu::simd::{self, Kernel, MulAdd};

/// Rows of a register tile: with NR = 16, twelve AVX2 registers of i32.
const MR: usize = 6;
/// Columns of a register tile.
const NR: usize = 16;
/// Depth of a block: a panel of B (16 KiB of i32) stays in L1.
const BLOCK_K: usize = 256;
/// Rows of C per task, a multiple of MR.
const TASK_ROWS: usize = 48;

/// An integer that accumulates modulo its width.
pub trait Wrapping: Copy + Send + Sync + PartialEq + 'static {
    /// 0
    const ZERO: Self;
    /// self + b modulo 2^bits
    fn plus(self, b: Self) -> Self;
    /// self + a * b modulo 2^bits
    fn add_product(self, a: Self, b: Self) -> Self;
}

macro_rules! wrapping {
    ($($t:ty)*) => {$(
        impl Wrapping for $t {
            const ZERO: $t = 0;
            #[inline(always)]
            fn plus(self, b: $t) -> $t { self.wrapping_add(b) }
            #[inline(always)]
            fn add_product(self, a: $t, b: $t) -> $t { self.wrapping_add(a.wrapping_mul(b)) }
        }
        impl Widen<$t> for $t {
            #[inline(always)]
            fn widen(self) -> $t { self }
        }
    )*};
}
wrapping!(i8 u8 i32 u32 i64 u64);

/// An operand's type whose products accumulate in `O`.
pub trait Widen<O>: Copy + Send + Sync + 'static {
    /// The same value.
    fn widen(self) -> O;
}

macro_rules! widen {
    ($($from:ty => $to:ty),*) => {$(impl Widen<$to> for $from {
        #[inline(always)]
        fn widen(self) -> $to { <$to>::from(self) }
    })*};
}
widen!(i8 => i32, u8 => i32, u8 => u32, i32 => i64, u32 => u64);

/// Rows of C from `first`, in a slice of C from their first element.
struct Task<'a, 'm, I, O> {
    a: Mat<'m, I>,
    /// `[panel][k][NR]`
    panels: &'a [O],
    first: usize,
    c: &'a mut [O],
    row_stride: usize,
    col_stride: usize,
    n: usize,
}

impl<I: Widen<O>, O: Wrapping> Kernel for Task<'_, '_, I, O> {
    type Output = ();
    const WIDE: bool = true;

    #[inline(always)]
    fn run<M: MulAdd>(self) {
        let Self { a, panels, first, c, row_stride, col_stride, n } = self;
        let k = a.layout.cols;
        let rows = TASK_ROWS.min(a.layout.rows - first);
        if k == 0 {
            for c in c.chunks_mut(row_stride).take(rows).flat_map(|row| row.iter_mut().step_by(col_stride).take(n)) {
                *c = O::ZERO;
            }
        }
        let mut packed = [O::ZERO; TASK_ROWS * BLOCK_K];
        for p in (0..k).step_by(BLOCK_K) {
            let depth = BLOCK_K.min(k - p);
            // [tile of MR rows][k][MR], rows past the end are 0
            for (t, tile) in packed[..rows.div_ceil(MR) * MR * depth].chunks_exact_mut(MR * depth).enumerate() {
                for (q, out) in tile.chunks_exact_mut(MR).enumerate() {
                    for (r, out) in out.iter_mut().enumerate() {
                        let i = t * MR + r;
                        *out = if i < rows { a.data[a.layout.at(first + i, p + q)].widen() } else { O::ZERO };
                    }
                }
            }
            for (j, panel) in panels.chunks_exact(k * NR).enumerate() {
                let panel = &panel[p * NR..][..depth * NR];
                let cols = NR.min(n - j * NR);
                for (t, tile) in packed.chunks_exact(MR * depth).take(rows.div_ceil(MR)).enumerate() {
                    let sums = tile_product(tile, panel);
                    for (r, sums) in sums.iter().enumerate().take(rows - t * MR) {
                        let row = &mut c[(t * MR + r) * row_stride + j * NR * col_stride..];
                        for (c, v) in row.iter_mut().step_by(col_stride).zip(&sums[..cols]) {
                            *c = if p == 0 { *v } else { c.plus(*v) };
                        }
                    }
                }
            }
        }
    }
}

/// The product of `[k][MR]` and `[k][NR]` panels.
#[inline(always)]
fn tile_product<O: Wrapping>(a: &[O], b: &[O]) -> [[O; NR]; MR] {
    let mut sums = [[O::ZERO; NR]; MR];
    for (a, b) in a.chunks_exact(MR).zip(b.chunks_exact(NR)) {
        for r in 0..MR {
            for l in 0..NR {
                sums[r][l] = sums[r][l].add_product(a[r], b[l]);
            }
        }
    }
    sums
}

/// C = A * B modulo 2^bits of C's type, operands widened to it first.
///
/// # Panics
/// When the shapes do not fit.
///
/// # Errors
/// Without memory for B, widened and in panels.
pub fn gemm_integer<I: Widen<O>, O: Wrapping>(a: Mat<'_, I>, b: Mat<'_, I>, c: MatMut<'_, O>) -> Done {
    let (a, b, c) = canonical(a, b, c);
    let (m, n, k) = (c.layout.rows, c.layout.cols, a.layout.cols);
    if m == 0 || n == 0 {
        return Ok(());
    }
    let mut panels = scratch::filled(O::ZERO, n.div_ceil(NR) * NR * k)?;
    if k > 0 {
        parallel::chunks(&mut panels, k * NR, |j, panel| {
            let cols = NR.min(n - j * NR);
            for (p, out) in panel.chunks_exact_mut(NR).enumerate() {
                for (l, out) in out[..cols].iter_mut().enumerate() {
                    *out = b.data[b.layout.at(p, j * NR + l)].widen();
                }
            }
        });
    }
    let panels = &panels;
    c.for_row_blocks(TASK_ROWS, |first, c, row_stride, col_stride| {
        simd::dispatch(Task { a, panels, first, c, row_stride, col_stride, n });
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::Layout;
    use super::super::testing::{SHAPES, layouts, noise, place, reference};
    use super::*;

    fn check<I: Widen<O> + std::fmt::Debug, O: Wrapping + std::fmt::Debug>(
        input: impl Fn(i32) -> I,
        output: impl Fn(i64) -> O,
        wide: impl Fn(I) -> i64,
    ) {
        for (m, n, k) in SHAPES.into_iter().chain([(100, 40, 600)]) {
            let a: Vec<I> = noise(m * k, 1, 1 << 20).map(&input).collect();
            let b: Vec<I> = noise(k * n, 2, 1 << 20).map(&input).collect();
            let as_i64 = |v: &[I]| v.iter().map(|v| wide(*v)).collect::<Vec<i64>>();
            let ab = reference(m, n, k, &as_i64(&a), &as_i64(&b));
            for i in 0..6 {
                let (la, lb, lc) = (layouts(m, k)[i], layouts(k, n)[(i + 2) % 6], layouts(m, n)[(i + 1) % 6]);
                let (da, db) = (place(&a, la, input(55)), place(&b, lb, input(55)));
                let mut dc = place(&vec![output(7); m * n], lc, output(9));
                gemm_integer(Mat::new(&da, la.0), Mat::new(&db, lb.0), MatMut::new(&mut dc, lc.0)).unwrap();
                let new: Vec<O> = ab.iter().map(|&sum| output(sum)).collect();
                assert_eq!(dc, place(&new, lc, output(9)), "{m}x{n}x{k} layouts {i}");
            }
        }
    }

    #[test]
    fn integer_products_of_any_shape_and_stride_wrap() {
        check::<i8, i32>(|v| v as i8, |v| v as i32, i64::from);
        check::<u8, i32>(|v| v as u8, |v| v as i32, i64::from);
        check::<u8, u8>(|v| v as u8, |v| v as u8, i64::from);
        check::<i32, i32>(|v| v * 1987, |v| v as i32, i64::from);
        check::<u32, u32>(|v| (v * 1987) as u32, |v| v as u32, i64::from);
        check::<i64, i64>(|v| i64::from(v) << 20, |v| v, |v| v);
    }

    #[test]
    fn i8_extremes_do_not_saturate() {
        let k = 1000;
        let a = vec![-128i8; k];
        let mut c = [0i32];
        gemm_integer(
            Mat::new(&a, Layout::row_major(1, k)),
            Mat::new(&a, Layout::row_major(k, 1)),
            MatMut::new(&mut c, Layout::row_major(1, 1)),
        )
        .unwrap();
        assert_eq!(c[0], 128 * 128 * k as i32);
    }
}
