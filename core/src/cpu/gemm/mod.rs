//! Matrix products: C = A * B for any strides.
//!
//! | operands | accumulator | by |
//! |---|---|---|
//! | f32, f64 | the same | crate `gemm` ([`float`]) |
//! | a few rows or columns of anything but wide integers | f32, f64, i32 | as they lie, widened on the way ([`few`]) |
//! | f16, bf16 | f32 over the whole of k, one rounding at the end | widened by the caller, then as f32 |
//! | i8 -> i32, u8 -> i32 or u32, integers -> the same | the result's type, wrapping | blocked loops ([`integer`]) |
//!
//! The one decision a reader must know: shapes and strides are proved once, in [`Mat::new`] and [`MatMut::new`] (every element
//! inside the slice, no two elements of C in one place) and then turned into one canonical form by [`canonical`]: C with
//! positive strides and its rows in disjoint runs of its slice. Only [`float`] contains `unsafe`.
//!
//! C is overwritten without being read, with zeros where k = 0. Threads are those of the current rayon pool; results do not depend
//! on their number.

pub mod few;
#[allow(unsafe_code, reason = "crate `gemm` takes raw pointers; the layouts prove every access")]
mod float;
mod integer;

pub use float::{Float, LONG_K, gemm, row_edges};
pub use integer::{Widen, Wrapping, gemm_integer};

use super::parallel;

/// A matrix over a slice: element (i, j) is `data[offset + i * row_stride + j * col_stride]`.
#[derive(Clone, Copy, Debug)]
pub struct Mat<'a, T> {
    data: &'a [T],
    layout: Layout,
}

/// A matrix to write to; as [`Mat`], and no two elements share a place.
#[derive(Debug)]
pub struct MatMut<'a, T> {
    data: &'a mut [T],
    layout: Layout,
}

/// Where the elements of a matrix are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Place of element (0, 0).
    pub offset: usize,
    /// m
    pub rows: usize,
    /// n
    pub cols: usize,
    /// From (i, j) to (i + 1, j), in elements.
    pub row_stride: isize,
    /// From (i, j) to (i, j + 1), in elements.
    pub col_stride: isize,
}

impl Layout {
    /// Row-major without padding, from the start of the slice.
    pub fn row_major(rows: usize, cols: usize) -> Self {
        Self { offset: 0, rows, cols, row_stride: cols as isize, col_stride: 1 }
    }

    /// Of the transposed matrix.
    pub fn transposed(self) -> Self {
        let Self { offset, rows, cols, row_stride, col_stride } = self;
        Self { offset, rows: cols, cols: rows, row_stride: col_stride, col_stride: row_stride }
    }

    /// Lowest and highest place; `None` without elements.
    fn span(&self) -> Option<(i128, i128)> {
        if self.rows == 0 || self.cols == 0 {
            return None;
        }
        let (mut low, mut high) = (self.offset as i128, self.offset as i128);
        for (n, stride) in [(self.rows, self.row_stride), (self.cols, self.col_stride)] {
            let reach = (n - 1) as i128 * stride as i128;
            low += reach.min(0);
            high += reach.max(0);
        }
        Some((low, high))
    }

    /// # Panics
    /// When an element is outside a slice of `len`.
    fn assert_inside(&self, len: usize) {
        if let Some((low, high)) = self.span() {
            assert!(low >= 0 && high < len as i128, "gemm: {self:?} reaches outside {len} elements");
        }
    }

    /// # Panics
    /// When two elements share a place, or might: one stride must exceed the reach of the other.
    fn assert_injective(&self) {
        let reach = |n: usize, stride: isize| n.saturating_sub(1) as u128 * stride.unsigned_abs() as u128;
        let (rows, cols) = (reach(self.rows, self.row_stride), reach(self.cols, self.col_stride));
        let clear = |n: usize, stride: isize, other: u128| n <= 1 || stride.unsigned_abs() as u128 > other;
        let ok = (clear(self.rows, self.row_stride, cols) && clear(self.cols, self.col_stride, 0))
            || (clear(self.cols, self.col_stride, rows) && clear(self.rows, self.row_stride, 0));
        assert!(ok || self.rows == 0 || self.cols == 0, "gemm: elements of the result overlap: {self:?}");
    }

    #[inline]
    fn at(&self, i: usize, j: usize) -> usize {
        (self.offset as isize + i as isize * self.row_stride + j as isize * self.col_stride) as usize
    }

    /// The rows in reverse order.
    fn rows_reversed(mut self) -> Self {
        self.offset = self.at(self.rows - 1, 0);
        self.row_stride = -self.row_stride;
        self
    }

    /// The block of rows x cols from (i, j).
    fn block(self, i: usize, j: usize, rows: usize, cols: usize) -> Self {
        Self { offset: self.at(i, j), rows, cols, ..self }
    }
}

impl<'a, T> Mat<'a, T> {
    /// # Panics
    /// When an element is outside the slice.
    pub fn new(data: &'a [T], layout: Layout) -> Self {
        layout.assert_inside(data.len());
        Self { data, layout }
    }

    fn transposed(self) -> Self {
        Self { data: self.data, layout: self.layout.transposed() }
    }

    /// Stays inside: a block of a proved layout.
    fn block(self, i: usize, j: usize, rows: usize, cols: usize) -> Self {
        Self { data: self.data, layout: self.layout.block(i, j, rows, cols) }
    }
}

impl<'a, T> MatMut<'a, T> {
    /// # Panics
    /// When an element is outside the slice, or two share a place.
    pub fn new(data: &'a mut [T], layout: Layout) -> Self {
        layout.assert_inside(data.len());
        layout.assert_injective();
        Self { data, layout }
    }
}

/// The problem with C's strides positive and each row of C in a run of its own: `row_stride > (cols - 1) * col_stride`.
/// A and B are transposed and reversed with it.
///
/// # Panics
/// When the shapes do not fit: A is [m, k], B is [k, n], C is [m, n].
fn canonical<'a, 'c, I, O>(a: Mat<'a, I>, b: Mat<'a, I>, c: MatMut<'c, O>) -> (Mat<'a, I>, Mat<'a, I>, MatMut<'c, O>) {
    let (l, r, d) = (a.layout, b.layout, c.layout);
    assert!(
        l.rows == d.rows && r.cols == d.cols && l.cols == r.rows,
        "gemm: [{}, {}] times [{}, {}] is not [{}, {}]",
        l.rows,
        l.cols,
        r.rows,
        r.cols,
        d.rows,
        d.cols
    );
    let (mut a, mut b, mut c) = (a, b, c);
    // a stride over one row or column is never taken
    if c.layout.rows == 1 {
        let reach = (c.layout.cols.max(1) - 1) as isize * c.layout.col_stride.abs();
        c.layout.row_stride = reach + 1;
    }
    if c.layout.cols == 1 {
        let reach = (c.layout.rows.max(1) - 1) as isize * c.layout.row_stride.abs();
        c.layout.col_stride = reach + 1;
    }
    if c.layout.row_stride.abs() < c.layout.col_stride.abs() {
        (a, b) = (b.transposed(), a.transposed());
        c.layout = c.layout.transposed();
    }
    if c.layout.row_stride < 0 && c.layout.rows > 0 {
        c.layout = c.layout.rows_reversed();
        if a.layout.rows > 0 && a.layout.cols > 0 {
            a.layout = a.layout.rows_reversed();
        }
    }
    if c.layout.col_stride < 0 && c.layout.cols > 0 {
        c.layout = c.layout.transposed().rows_reversed().transposed();
        if b.layout.rows > 0 && b.layout.cols > 0 {
            b.layout = b.layout.transposed().rows_reversed().transposed();
        }
    }
    (a, b, c)
}

impl<T: Send> MatMut<'_, T> {
    /// Runs `f(first row, slice, row stride, column stride)` for blocks of `rows` rows of a canonical matrix, in parallel; the slice starts
    /// at the block's first element.
    fn for_row_blocks(self, rows: usize, f: impl Fn(usize, &mut [T], usize, usize) + Sync) {
        let Layout { offset, rows: m, row_stride, col_stride, .. } = self.layout;
        let (row_stride, col_stride) = (row_stride as usize, col_stride as usize);
        let end = self.layout.at(m - 1, self.layout.cols - 1) + 1;
        parallel::chunks(&mut self.data[offset..end], rows * row_stride, |i, c| f(i * rows, c, row_stride, col_stride));
    }
}

#[cfg(test)]
mod testing {
    //! Shapes and layouts shared by the tests of this folder.
    use super::Layout;

    /// Values of a hash in -range..=range.
    pub fn noise(n: usize, seed: u32, range: i32) -> impl Iterator<Item = i32> {
        let hash = move |i: u32| (i.wrapping_add(seed << 20)).wrapping_mul(2_654_435_761) >> 8;
        (0..n as u32).map(move |i| (hash(i) % (2 * range as u32 + 1)) as i32 - range)
    }

    /// Layouts of a rows x cols matrix in a slice of the returned length: packed, transposed, padded, reversed, strided.
    pub fn layouts(rows: usize, cols: usize) -> Vec<(Layout, usize)> {
        let (r, c) = (rows as isize, cols as isize);
        let last = (rows * cols).saturating_sub(1);
        vec![
            (Layout::row_major(rows, cols), rows * cols),
            (Layout { offset: 0, rows, cols, row_stride: 1, col_stride: r }, rows * cols),
            (Layout { offset: 5, rows, cols, row_stride: c + 3, col_stride: 1 }, 5 + rows * (cols + 3)),
            (Layout { offset: last, rows, cols, row_stride: -c, col_stride: -1 }, rows * cols + 2),
            (Layout { offset: last, rows, cols, row_stride: -1, col_stride: -r }, rows * cols),
            (Layout { offset: 1, rows, cols, row_stride: 2 * c + 1, col_stride: 2 }, 2 + rows * (2 * cols + 1)),
        ]
    }

    pub const SHAPES: [(usize, usize, usize); 14] = [
        (0, 3, 2),
        (3, 0, 2),
        (3, 2, 0),
        (1, 1, 1),
        (1, 17, 5),
        (17, 1, 9),
        (2, 2, 1),
        (5, 7, 3),
        (16, 16, 16),
        (33, 31, 65),
        (48, 64, 20),
        (67, 129, 70),
        (1, 300, 200),
        (300, 1, 200),
    ];

    /// A B on row-major i64.
    pub fn reference(m: usize, n: usize, k: usize, a: &[i64], b: &[i64]) -> Vec<i64> {
        let dot =
            |i: usize, j: usize| (0..k).map(|p| a[i * k + p].wrapping_mul(b[p * n + j])).fold(0i64, i64::wrapping_add);
        (0..m * n).map(|e| dot(e / n, e % n)).collect()
    }

    /// Puts row-major values into a slice by a layout; other places hold `guard`.
    pub fn place<T: Copy>(values: &[T], (layout, len): (Layout, usize), guard: T) -> Vec<T> {
        let mut data = vec![guard; len];
        for i in 0..layout.rows {
            for j in 0..layout.cols {
                data[layout.at(i, j)] = values[i * layout.cols + j];
            }
        }
        data
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "outside")]
    fn layout_past_the_end_panics() {
        Mat::new(&[0f32; 5], Layout::row_major(2, 3));
    }

    #[test]
    #[should_panic(expected = "outside")]
    fn layout_before_the_start_panics() {
        Mat::new(&[0f32; 6], Layout { offset: 1, rows: 2, cols: 3, row_stride: 3, col_stride: -1 });
    }

    #[test]
    #[should_panic(expected = "overlap")]
    fn result_with_stride_zero_panics() {
        MatMut::new(&mut [0f32; 6], Layout { offset: 0, rows: 2, cols: 3, row_stride: 0, col_stride: 1 });
    }

    #[test]
    #[should_panic(expected = "is not")]
    fn shapes_that_do_not_fit_panic() {
        let (a, mut c) = ([0f32; 6], [0f32; 6]);
        let l = Layout::row_major(2, 3);
        gemm(Mat::new(&a, l), Mat::new(&a, l), MatMut::new(&mut c, l)).unwrap();
    }
}
