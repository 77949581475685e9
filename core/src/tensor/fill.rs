//! Tensors and choices by position: triangles, diagonals, ranges, one of several classes, masks. Each is an elementwise program that
//! reads the position, and so one launch; views where strides can say it.

use crate::expr::number;
use crate::ops::Indexing;
use crate::ops::take::positions;
use crate::tape;
use crate::tensor::outside::Look;
use crate::{
    CompareFn, DType, Device, Error, Expr, IntoShape, Layout, Position, Result, Scalar, Shape, Tensor, TensorSpec,
};

/// Of the element, as u32.
fn position() -> Expr {
    Expr::index().cast(DType::U32)
}

/// Whether the element at `position` (u32), in matrices of these extents, lies on diagonal `k` (`Eq`), there or below (`Le`), there or above (`Ge`): by
/// differences of u32 that are never negative, because two positions may lie farther apart than i32 can say.
fn by_diagonal(position: &Expr, [rows, columns]: [u64; 2], side: CompareFn, k: i64) -> Expr {
    let number = |n: u64| Expr::constant(n.min(u32::MAX.into()) as i64);
    let column = position.clone() % number(columns.max(1));
    let row = position.clone() / number(columns.max(1)) % number(rows.max(1));
    // Where the diagonal begins.
    let first = |at: &Expr, skipped: u64| match skipped {
        0 => (at.clone(), None),
        _ => (at.maximum(number(skipped)) - number(skipped), Some(at.compare(CompareFn::Ge, number(skipped)))),
    };
    let (column, is_right) = first(&column, k.max(0).unsigned_abs());
    let (row, is_below) = first(&row, k.min(0).unsigned_abs());
    // Above its beginning all lies above the diagonal, left of it all below.
    let needed = match side {
        CompareFn::Le => [is_below, None],
        CompareFn::Ge => [is_right, None],
        _ => [is_below, is_right],
    };
    needed.into_iter().flatten().fold(column.compare(side, row), |all, one| all & one)
}

/// Refuses more elements than 32 bits count.
fn check_elements(op: &'static str, dims: &[u64]) -> Result<()> {
    let (elements, max) = (dims.iter().copied().fold(1, u64::saturating_mul), u64::from(u32::MAX));
    if elements > max { Err(Error::IndexWidth { op, elements, max }) } else { Ok(()) }
}

impl Tensor {
    /// The lower triangles of the matrices of the last two axes: elements up to diagonal `k`, zero above it. Diagonal 0 is the main one,
    /// positive ones lie above. `tril` of the standard, NumPy and PyTorch.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1i32, 2, 3, 4], [2, 2])?;
    /// assert_eq!(x.tril(0)?.to_vec::<i32>()?, [1, 0, 3, 4]);
    /// assert_eq!(x.tril(-1)?.to_vec::<i32>()?, [0, 0, 3, 0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`] below rank 2; [`Error::IndexWidth`] for 2^32 elements and more; memory errors of the device.
    pub fn tril(&self, k: i64) -> Result<Tensor> {
        self.triangle("tril", CompareFn::Le, k)
    }

    /// The upper triangles: elements from diagonal `k` on, zero below it. `triu` of the standard, NumPy and PyTorch.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1i32, 2, 3, 4], [2, 2])?;
    /// assert_eq!(x.triu(0)?.to_vec::<i32>()?, [1, 2, 0, 4]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::tril`].
    pub fn triu(&self, k: i64) -> Result<Tensor> {
        self.triangle("triu", CompareFn::Ge, k)
    }

    fn triangle(&self, op: &'static str, side: CompareFn, k: i64) -> Result<Tensor> {
        let &[.., rows, columns] = self.dims() else {
            return Err(Error::AxisOutOfRange { axis: 1, rank: self.rank() });
        };
        check_elements(op, self.dims())?;
        let keep = by_diagonal(&position(), [rows, columns], side, k);
        let zero = Expr::constant(0).cast(self.dtype());
        Tensor::map_named(op, &keep.select(Expr::input(0), zero), &[self])
    }

    /// A matrix with ones on diagonal `k`, zeros elsewhere. `eye` of the standard and NumPy; PyTorch's has diagonal 0 alone.
    ///
    /// ```
    /// use polywarp_core::{DType, Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// assert_eq!(Tensor::eye(&device, DType::U8, 2, 3, 1)?.to_vec::<u8>()?, [0, 1, 0, 0, 0, 1]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::IndexWidth`] for 2^32 elements and more; [`Error::UnsupportedDType`]; memory errors of the device.
    pub fn eye(device: &Device, dtype: DType, rows: u64, columns: u64, k: i64) -> Result<Tensor> {
        check_elements("eye", &[rows, columns])?;
        let expr = by_diagonal(&position(), [rows, columns], CompareFn::Eq, k).cast(dtype);
        Tensor::generate(device, "eye", dtype, [rows, columns], &expr)
    }

    /// Diagonal `k` of the matrices of axes `rows` and `columns`, a view: these axes disappear, and the diagonal is the last one.
    /// PyTorch's `diagonal`; the standard's `linalg.diagonal` with the last two axes.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1i32, 2, 3, 4, 5, 6], [2, 3])?;
    /// assert_eq!(x.diagonal(0, 0, 1)?.to_vec::<i32>()?, [1, 5]);
    /// assert_eq!(x.diagonal(1, 0, 1)?.to_vec::<i32>()?, [2, 6]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`], [`Error::DuplicateAxis`]; [`Error::InvalidArgument`] for a diagonal beside the matrix.
    pub fn diagonal(&self, k: i64, rows: impl Position, columns: impl Position) -> Result<Tensor> {
        let (rows, columns) = (self.axis(rows)?, self.axis(columns)?);
        if rows == columns {
            return Err(Error::DuplicateAxis { axis: rows });
        }
        let (axis, skipped) = if k < 0 { (rows, k.unsigned_abs()) } else { (columns, k.unsigned_abs()) };
        let n = self.dims()[axis];
        if skipped > n {
            let reason = format!("diagonal {k} of {:?} lies beside axes {rows} and {columns}", self.dims());
            return Err(Error::InvalidArgument { what: "diagonal", reason });
        }
        let layout = self.layout().slice(axis, skipped, n, 1)?;
        let length = layout.dims()[rows].min(layout.dims()[columns]);
        let others = || (0..layout.rank()).filter(|&axis| axis != rows && axis != columns);
        let dims: Vec<u64> = others().map(|axis| layout.dims()[axis]).chain([length]).collect();
        let step = layout.strides()[rows] + layout.strides()[columns];
        let strides: Vec<i64> = others().map(|axis| layout.strides()[axis]).chain([step]).collect();
        Ok(self.with_layout(Layout::strided(Shape::new(&dims)?, &strides, layout.offset())?))
    }

    /// Of a vector the matrix with it on diagonal `k`, zeros elsewhere: one launch. Of a matrix its diagonal `k`, a view. `diag` of NumPy and
    /// PyTorch.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1i32, 2], [2])?;
    /// assert_eq!(x.diag(0)?.to_vec::<i32>()?, [1, 0, 0, 2]);
    /// assert_eq!(x.diag(1)?.to_vec::<i32>()?, [0, 1, 0, 0, 0, 2, 0, 0, 0]);
    /// assert_eq!(x.diag(-1)?.diag(-1)?.to_vec::<i32>()?, [1, 2]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for another rank than 1 and 2; as [`Tensor::diagonal`] and [`Tensor::tril`].
    pub fn diag(&self, k: i64) -> Result<Tensor> {
        match self.rank() {
            1 => {}
            2 => return self.diagonal(k, 0, 1),
            rank => {
                let reason = format!("diag takes a vector or a matrix, not rank {rank}; use diagonal");
                return Err(Error::InvalidArgument { what: "rank", reason });
            }
        }
        let length = self.dims()[0];
        let n = length.saturating_add(k.unsigned_abs());
        check_elements("diag", &[n, n])?;
        // Elements of the diagonal lie n + 1 apart: they are a column of rows one longer, and of these n * n elements are the matrix.
        let first = if k < 0 { k.unsigned_abs() * n } else { k.unsigned_abs() };
        let (before, column) = (first / (n + 1), first % (n + 1));
        let behind = n - before - length;
        let pads = [before, behind, column, n - column].map(|count| count as i64);
        let rows = self.unsqueeze(1)?.pad_with(&[(pads[0], pads[1]), (pads[2], pads[3])], 0)?;
        rows.reshape([n * (n + 1)])?.slice(0, 0..n * n)?.reshape([n, n])
    }

    /// `count` numbers at equal distances, from `start` to `end`, both included: `start + i (end - start) / (count - 1)`, of the later half
    /// counted back from `end`. In f64 for f64, else in f32. `linspace` of the standard, NumPy and PyTorch.
    ///
    /// ```
    /// use polywarp_core::{DType, Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// assert_eq!(Tensor::linspace(&device, DType::F32, 0.0, 1.0, 5)?.to_vec::<f32>()?, [0.0, 0.25, 0.5, 0.75, 1.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for a dtype that is no float; [`Error::NumberOutOfRange`] for ends that it cannot hold;
    /// [`Error::IndexWidth`] for 2^32 numbers and more; memory errors of the device.
    pub fn linspace(device: &Device, dtype: DType, start: f64, end: f64, count: u64) -> Result<Tensor> {
        const OP: &str = "linspace";
        if !dtype.is_float() {
            return Err(Error::UndefinedForDType { op: OP, dtype });
        }
        for number in [start, end] {
            number::operand(OP, dtype, Scalar::F(number))?;
        }
        if count > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op: OP, elements: count, max: u32::MAX.into() });
        }
        let (compute, last) = (dtype.compute(), count.saturating_sub(1));
        let number = |x: f64| Expr::constant(x).cast(compute);
        // Halves, because the difference of two numbers may be none.
        let step = if last == 0 { 0.0 } else { 2.0 * ((end / 2.0 - start / 2.0) / last as f64) };
        let position = position();
        let is_early = position.compare(CompareFn::Le, (last / 2) as i64);
        let early = position.cast(compute) * number(step) + number(start);
        let late = number(end) - (Expr::constant(last as i64) - position).cast(compute) * number(step);
        Tensor::generate(device, OP, dtype, [count], &is_early.select(early, late).cast(dtype))
    }

    /// For each whole number a row of `classes` elements: 1 at its place, 0 elsewhere. A number that is no class is an error of the next read.
    /// PyTorch's `one_hot`, which gives i64.
    ///
    /// ```
    /// use polywarp_core::{DType, Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[2i32, 0], [2])?;
    /// assert_eq!(x.one_hot(3, DType::F32)?.to_vec::<f32>()?, [0.0, 0.0, 1.0, 1.0, 0.0, 0.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for floats and bool; [`Error::RankTooLarge`]; [`Error::IndexWidth`]; memory errors of the device. Of a
    /// read afterwards: [`Error::PositionOutside`].
    pub fn one_hot(&self, classes: u64, dtype: DType) -> Result<Tensor> {
        self.one_hot_by(classes, dtype, Some(Look::of(Indexing::OneHot, classes)))
    }

    /// [`Tensor::one_hot`] that gives zeros alone for numbers that are no class.
    ///
    /// ```
    /// use polywarp_core::{DType, Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[-1i32, 1], [2])?;
    /// assert_eq!(x.one_hot_within(2, DType::F32)?.to_vec::<f32>()?, [0.0, 0.0, 0.0, 1.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::one_hot`], but for numbers that are no class.
    pub fn one_hot_within(&self, classes: u64, dtype: DType) -> Result<Tensor> {
        self.one_hot_by(classes, dtype, None)
    }

    fn one_hot_by(&self, classes: u64, dtype: DType, look: Option<Look>) -> Result<Tensor> {
        const OP: &str = "one_hot";
        let numbers = positions(OP, self)?;
        let dims = [self.dims(), &[classes]].concat();
        check_elements(OP, &dims)?;
        let column = position() % Expr::constant(classes.max(1) as i64);
        let mut is_own = Expr::input(0).cast(DType::U32).compare(CompareFn::Eq, column);
        if classes > i32::MAX as u64 && numbers.dtype() == DType::I32 {
            // A number below zero has the bits of such a class.
            is_own = is_own & Expr::input(0).compare(CompareFn::Ge, 0);
        }
        let repeated = numbers.unsqueeze(self.rank())?.broadcast_to(dims)?;
        let rows = Tensor::map_named(OP, &is_own.cast(dtype), &[&repeated])?;
        if let Some(look) = look {
            look.through(self, &numbers)?;
        }
        Ok(rows)
    }

    /// `value` where `mask` (bool) is true, else this, broadcast. PyTorch's `masked_fill`.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0], [3])?;
    /// let mask = Tensor::from_slice(&device, &[true, false, true], [3])?;
    /// assert_eq!(x.masked_fill(&mask, f32::NEG_INFINITY)?.to_vec::<f32>()?[1..], [2.0, f32::NEG_INFINITY]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`] for a mask that is not bool, [`Error::NumberOutOfRange`] for a number that the dtype cannot hold;
    /// [`Error::ShapeMismatch`], [`Error::DeviceMismatch`]; memory errors of the device.
    pub fn masked_fill(&self, mask: &Tensor, value: impl Into<Scalar>) -> Result<Tensor> {
        const OP: &str = "masked_fill";
        let value = value.into();
        mask.expect_dtype(OP, DType::Bool)?;
        number::operand(OP, self.dtype(), value)?;
        let value = Expr::constant(value).cast(self.dtype());
        Tensor::map_named(OP, &Expr::input(1).select(value, Expr::input(0)), &[self, mask])
    }

    /// The same bytes as elements of `dtype`, a view. Where the sizes differ the last axis has more or fewer elements. NumPy's and PyTorch's
    /// `view` of a dtype. No tape follows it: bits have no gradient.
    ///
    /// ```
    /// use polywarp_core::{DType, Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1.0f32, -2.0], [2])?;
    /// assert_eq!(x.view_as(DType::U32)?.to_vec::<u32>()?, [0x3f80_0000, 0xc000_0000]);
    /// assert_eq!(x.view_as(DType::U8)?.dims(), [8]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] to bool, whose bytes are 0 and 1 alone, for a tensor on a live tape, and where sizes differ for a last axis
    /// that is not dense or no whole number of elements of `dtype`, as everything else in their place must be.
    pub fn view_as(&self, dtype: DType) -> Result<Tensor> {
        const OP: &str = "view_as";
        tape::refuse_leaving(OP, self)?;
        let refuse = |reason: String| Err(Error::InvalidArgument { what: "view", reason });
        if dtype == self.dtype() {
            return Ok(self.clone());
        }
        if dtype == DType::Bool {
            return refuse(format!("bytes of {} may be neither 0 nor 1; compare them with 0", self.dtype()));
        }
        let (from, to) = (self.dtype().size_bytes(), dtype.size_bytes());
        if from == to {
            return Ok(self.seen_as(TensorSpec::new(dtype, *self.layout())));
        }
        let (mut dims, mut strides) = (self.dims().to_vec(), self.layout().strides().to_vec());
        let (Some(dim), Some(1)) = (dims.last_mut(), strides.last()) else {
            return refuse(format!("the last axis of {:?} is not dense; make it contiguous first", self.layout()));
        };
        let last = strides.len() - 1;
        let is_whole = |n: u64| n.saturating_mul(from).is_multiple_of(to);
        let outer = strides[..last].iter().map(|stride| stride.unsigned_abs());
        if !outer.chain([*dim, self.layout().offset()]).all(is_whole) {
            return refuse(format!("{:?} of {} is no whole number of {dtype}", self.layout(), self.dtype()));
        }
        let scaled = |n: u64| n.saturating_mul(from) / to;
        *dim = scaled(*dim);
        for stride in &mut strides[..last] {
            *stride = stride.signum() * scaled(stride.unsigned_abs()) as i64;
        }
        let layout = Layout::strided(dims.into_shape()?, &strides, scaled(self.layout().offset()))?;
        Ok(self.seen_as(TensorSpec::new(dtype, layout)))
    }
}

#[cfg(all(test, feature = "cpu"))]
mod tests {
    use super::*;

    #[test]
    fn diagonals_are_those_of_the_definition() {
        let device = Device::cpu();
        for (rows, columns) in [(1, 1), (1, 5), (4, 1), (3, 4), (5, 3)] {
            let x = Tensor::full(&device, DType::I32, [rows, columns], 7).unwrap();
            for k in (-6..=6).chain([i64::MIN, i64::MAX]) {
                let of = |holds: fn(i64, i64) -> bool| -> Vec<i32> {
                    let places = (0..rows * columns).map(|at| (at % columns) as i64 - (at / columns) as i64);
                    places.map(|above| i32::from(holds(above, k))).collect()
                };
                let is = |found: Tensor| found.to_vec::<i32>().unwrap();
                let sevens = |wanted: Vec<i32>| wanted.into_iter().map(|one| 7 * one).collect::<Vec<i32>>();
                assert_eq!(is(x.tril(k).unwrap()), sevens(of(|above, k| above <= k)), "tril {rows} {columns} {k}");
                assert_eq!(is(x.triu(k).unwrap()), sevens(of(|above, k| above >= k)), "triu {rows} {columns} {k}");
                let eye = Tensor::eye(&device, DType::I32, rows, columns, k).unwrap();
                assert_eq!(is(eye), of(|above, k| above == k), "eye {rows} {columns} {k}");
            }
        }
    }

    #[test]
    fn matrices_of_a_diagonal_are_those_of_the_definition() {
        let device = Device::cpu();
        for length in 0..6u64 {
            let numbers: Vec<i32> = (1..=length as i32).collect();
            let x = Tensor::from_slice(&device, &numbers, [length]).unwrap();
            for k in -5..=5i64 {
                let n = length + k.unsigned_abs();
                let mut wanted = vec![0; (n * n) as usize];
                for (i, &number) in numbers.iter().enumerate() {
                    let [row, column] = [(-k).max(0), k.max(0)].map(|skipped| i + skipped as usize);
                    wanted[row * n as usize + column] = number;
                }
                let found = x.diag(k).unwrap();
                assert_eq!((found.dims(), found.to_vec::<i32>().unwrap()), (&[n, n][..], wanted), "{length} {k}");
                assert_eq!(found.diag(k).unwrap().to_vec::<i32>().unwrap(), numbers, "{length} {k}");
            }
        }
        for dtype in DType::ALL {
            let ones = Tensor::full(&device, DType::I32, [2], 1).unwrap().cast(dtype).unwrap();
            let found = ones.diag(1).unwrap().cast(DType::I32).unwrap();
            assert_eq!(found.to_vec::<i32>().unwrap(), [0, 1, 0, 0, 0, 1, 0, 0, 0], "{dtype}");
        }
        let x = Tensor::zeros(&device, DType::U8, [3]).unwrap();
        assert!(matches!(x.diag(i64::MIN), Err(Error::IndexWidth { op: "diag", .. })));
    }

    #[test]
    fn gradient_of_a_matrix_of_a_diagonal_is_its_diagonal() {
        let (tape, x) = (crate::Tape::new(), Tensor::zeros(&Device::cpu(), DType::F32, [3]).unwrap());
        let watched = tape.watch(&x).unwrap();
        let numbers = Tensor::arange(x.device(), DType::F32, 0, 1, 25).unwrap().reshape([5, 5]).unwrap();
        let gradients = tape.backward(&watched.diag(-2).unwrap().mul(&numbers).unwrap().sum(..).unwrap()).unwrap();
        assert_eq!(gradients.of(&watched).unwrap().to_vec::<f32>().unwrap(), [10.0, 16.0, 22.0]);
    }

    /// Positions that differ by more than i32 holds, without the matrix that has them.
    #[test]
    fn diagonals_of_long_axes_are_right() {
        let (device, n) = (Device::cpu(), (1u64 << 31) + 9);
        let at = [0u32, 1, 8, 1 << 31, (1 << 31) + 8];
        let positions = Tensor::from_slice(&device, &at, [at.len() as u64]).unwrap();
        let holds = |side, [rows, columns]: [u64; 2], k: i64| {
            let expr = by_diagonal(&Expr::input(0), [rows, columns], side, k);
            let found = Tensor::map(&expr, &[&positions]).unwrap().to_vec::<bool>().unwrap();
            let above = at.map(|at| (u64::from(at) % columns) as i64 - (u64::from(at) / columns) as i64);
            let wanted = above.map(|above| match side {
                CompareFn::Le => above <= k,
                CompareFn::Ge => above >= k,
                _ => above == k,
            });
            assert_eq!(found, wanted, "{side:?} {rows} x {columns}, diagonal {k}");
        };
        for k in [0, 1, -1, 8, 1 << 31, -(1 << 31), (1 << 31) + 8, -(1 << 31) - 8] {
            for side in [CompareFn::Le, CompareFn::Ge, CompareFn::Eq] {
                holds(side, [1, n], k);
                holds(side, [n, 1], k);
            }
        }
    }

    #[test]
    fn classes_beyond_i32_are_no_numbers_below_zero() {
        let x = Tensor::from_slice(&Device::cpu(), &[-1i32], [1]).unwrap();
        let error = x.one_hot_within(1 << 32, DType::U8).unwrap_err();
        assert!(matches!(error, Error::IndexWidth { op: "one_hot", .. }), "{error}");
    }
}
