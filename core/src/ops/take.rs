//! Rows of a table, chosen by position: `y[i, ...] = x[indices[i], ...]`. An embedding is this.
//!
//! Positions that are no row of the table give rows of NaN in floats and of zeros in other dtypes ([`Missing`]), whatever their sign:
//! nothing outside of the table is read. [`Tensor::take`] has them found, as an error of the next read ([`super::Positions`]). Bits are moved as
//! they are. The gradient adds up what was taken from each row ([`ScatterAdd`]).

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;

use std::ops::RangeInclusive;

use super::prelude::*;
use super::{Indexing, ScatterAdd, ScatterFn};
use crate::tensor::outside::Look;

const OP: &str = "take";

/// What a position that is no row of the table gives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Missing {
    /// NaN in floats, zero in other dtypes.
    #[default]
    Nan,
    /// Zero.
    Zero,
}

impl Missing {
    /// The number, of `dtype`.
    pub fn scalar(self, dtype: DType) -> Scalar {
        match self {
            Missing::Nan if dtype.is_float() => Scalar::F(f64::NAN),
            Missing::Zero if dtype.is_float() => Scalar::F(0.0),
            _ => Scalar::I(0),
        }
    }
}

/// Rows of `table` at `indices`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Take {
    /// The table, [rows, ...]: each row dense, in any order and distance.
    pub table: TensorSpec,
    /// Positions of rows, i32 or u32, dense.
    pub indices: TensorSpec,
    /// What other positions give.
    pub missing: Missing,
    /// A row whose gradient is zero, as that of a padding token is (PyTorch's `padding_idx`).
    pub padding: Option<u32>,
    /// Dense output [indices..., ...] of the table's dtype.
    pub output: TensorSpec,
}

impl Take {
    /// A checked choice whose output starts its buffer.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a scalar table, operands that are not dense as they must be, and a padding row that the table
    /// has not; [`Error::DTypeMismatch`] for indices that are neither i32 nor u32; [`Error::IndexWidth`] for a table of more than 2^32 - 1 rows.
    pub fn new(table: TensorSpec, indices: TensorSpec, missing: Missing, padding: Option<u32>) -> Result<Take> {
        let rest = table.layout.dims().get(1..).unwrap_or_default();
        let shape = Shape::new(&[indices.layout.dims(), rest].concat())?;
        let output = TensorSpec::new(table.dtype, Layout::contiguous(shape));
        Take { table, indices, missing, padding, output }.check()
    }

    /// Elements of a row.
    pub fn row(&self) -> u64 {
        self.table.layout.dims()[1..].iter().product()
    }

    /// The row that `index` names, if there is one.
    pub fn place(&self, index: i64) -> Option<u64> {
        u64::try_from(index).ok().filter(|&row| row < self.table.layout.dims()[0])
    }
}

/// Whether the elements of these axes lie one after the other.
pub(crate) fn are_dense(dims: &[u64], strides: &[i64]) -> bool {
    dims.contains(&0) || dims.iter().all(|&dim| dim == 1) || distance(dims, strides) == Some(1)
}

/// From an index of these axes to the next one in row-major order; `None` where that differs from place to place, 0 where there is
/// one index at most.
pub(crate) fn distance(dims: &[u64], strides: &[i64]) -> Option<i64> {
    if dims.contains(&0) {
        return Some(0);
    }
    let mut found: Option<(i64, u64)> = None;
    for (&dim, &stride) in dims.iter().zip(strides).rev().filter(|(dim, _)| **dim > 1) {
        found = Some(match found {
            None => (stride, dim),
            Some((inner, count)) if inner.checked_mul(count as i64) == Some(stride) => (inner, count * dim),
            Some(_) => return None,
        });
    }
    Some(found.map_or(0, |(distance, _)| distance))
}

/// Refuses a table whose rows are not dense.
pub(crate) fn check_rows(op: &'static str, table: &TensorSpec) -> Result<()> {
    let refuse = |reason: String| Err(Error::InvalidArgument { what: "table", reason });
    let Some(rest) = table.layout.dims().get(1..) else {
        return refuse(format!("{op} of a scalar, which has no rows"));
    };
    if !are_dense(rest, &table.layout.strides()[1..]) {
        return refuse(format!("{op} takes dense rows, not those of {:?}; make it contiguous first", table.layout));
    }
    Ok(())
}

/// Refuses positions that are no dense whole numbers of 32 bits.
pub(crate) fn check_indices(op: &'static str, indices: &TensorSpec) -> Result<()> {
    if !matches!(indices.dtype, DType::I32 | DType::U32) {
        return Err(Error::DTypeMismatch { op, expected: DType::I32, got: indices.dtype });
    }
    if !indices.layout.is_contiguous() {
        let reason = format!("{op} reads dense indices, not {:?}; make them contiguous first", indices.layout);
        return Err(Error::InvalidArgument { what: "indices", reason });
    }
    Ok(())
}

impl Operation for Take {
    fn name(&self) -> &'static str {
        OP
    }

    operands! { read table, indices; write output }

    fn validate(&self) -> Result<()> {
        check_rows(OP, &self.table)?;
        check_indices(OP, &self.indices)?;
        let (dims, indices) = (self.table.layout.dims(), self.indices.layout.dims());
        let rows = dims.first().copied().unwrap_or(0);
        if rows > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op: OP, elements: rows, max: u32::MAX.into() });
        }
        if let Some(padding) = self.padding.filter(|&padding| u64::from(padding) >= rows) {
            let reason = format!("row {padding} of a table of {rows}");
            return Err(Error::InvalidArgument { what: "padding", reason });
        }
        let shape = Shape::new(&[indices, &dims[1..]].concat())?;
        if *self.output.layout.shape() != shape {
            return Err(Error::shape_mismatch(OP, &shape, self.output.layout.shape(), None));
        }
        check_dtype(OP, &self.output, self.table.dtype)?;
        check_dense_output(OP, &self.output)
    }

    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::default()
    }

    /// The definition, exactly.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let row = self.row() as usize;
        let none = vec![Expected::exact(self.missing.scalar(self.output.dtype)); row];
        let of = |index: &Scalar| match self.place(index.as_i64()) {
            Some(at) => before[0].values[at as usize * row..][..row].iter().map(|&x| Expected::exact(x)).collect(),
            None => none.clone(),
        };
        vec![before[1].values.iter().flat_map(of).collect()]
    }

    /// `dx[r]` is the sum of `dy[i]` over the positions i with `indices[i]` = r, but for the padding row.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let mut rule = RuleBuilder::new(self, needs)?;
        if !rule.wants(0) {
            return rule.finish(Vec::new());
        }
        let (mut indices, dy) = (rule.input(1)?, rule.gradient(0)?);
        if let Some(padding) = self.padding {
            let nowhere = Expr::constant(if self.indices.dtype == DType::I32 { -1 } else { i64::from(u32::MAX) });
            let index = Expr::input(0);
            let is_padding = index.compare(CompareFn::Eq, i64::from(padding));
            indices = rule.graph.map(&is_padding.select(nowhere, index), &[indices])?;
        }
        let shape = *self.table.layout.shape();
        let sum = ScatterAdd::new(dy.spec(), indices.spec(), shape.dims()[0])?;
        let gradient = rule.graph.apply(sum, &[dy, indices])?.pop();
        rule.finish(vec![gradient])
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs[0], inputs[1], outputs[0]);
        Ok(())
    }

    fn describe(&self, name: &mut String) {
        if self.missing == Missing::Zero {
            name.push_str(" or0");
        }
        if let Some(padding) = self.padding {
            name.push_str(&format!(" padding{padding}"));
        }
    }

    /// The op on the first `extent` indices of the output's `axis` alone: of the positions' first axis.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        if axis != 0 || self.indices.layout.rank() == 0 {
            return None;
        }
        let (indices, output) = (self.indices.first(0, extent)?, self.output.dense_first(0, extent)?);
        Some(Take { indices, output, ..self.clone() }.into())
    }

    fn content(&self, input: usize) -> Content {
        match input {
            1 => Content::Rows { rows: self.table.layout.dims()[0] },
            _ => Content::Any,
        }
    }

    /// The last positions.
    /// The last positions, and of a large table the last columns: a position may name any row.
    fn sample(&self) -> Result<Option<Sample>> {
        const POSITIONS: u64 = 64;
        const TABLE: u64 = 1 << 22;
        let count = self.indices.layout.elements();
        let keep = POSITIONS.min(count);
        let last = TensorSpec::new(self.indices.dtype, sample::last_elements(&self.indices, keep)?);
        let shape = Shape::new(&[&[keep], &self.table.layout.dims()[1..]].concat())?;
        let offset = self.output.layout.offset() + (count - keep) * self.row();
        let (mut table, mut positions) = (self.table, Layout::contiguous(shape).with_offset(offset));
        if let &[rows, columns] = self.table.layout.dims()
            && rows.saturating_mul(columns) > TABLE
        {
            let first = columns.saturating_sub((TABLE / rows).max(3));
            table.layout = table.layout.slice(1, first, columns, 1)?;
            positions = positions.slice(1, first, columns, 1)?;
        }
        let op = Take { table, indices: last, output: sample::dense(self.output.dtype, &positions), ..self.clone() };
        Ok(Some(Sample { op: op.check()?.into(), positions: vec![positions] }))
    }
}

impl Tensor {
    /// Rows of this tensor's first axis at `indices`, whole numbers of any shape (i32 or u32, others are converted): [indices..., ...]. A
    /// position that is no row, such as a negative one, is an error of the next read.
    ///
    /// ```
    /// use polywarp_core::{Device, Error, Tensor};
    ///
    /// let device = Device::cpu();
    /// let table = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [3, 2])?;
    /// let indices = Tensor::from_slice(&device, &[2u32, 0], [2])?;
    /// assert_eq!(table.take(&indices)?.to_vec::<f32>()?, [5.0, 6.0, 1.0, 2.0]);
    /// let wrong = table.take(&Tensor::from_slice(&device, &[2u32, 3], [2])?)?;
    /// let found = wrong.to_vec::<f32>();
    /// assert!(matches!(found, Err(Error::PositionOutside { op: "take", position: 3, place: 1, extent: 3 })));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Take::new`]; [`Error::InvalidArgument`] for indices that are floats or bool; [`Error::DeviceMismatch`]; memory errors of
    /// the device. Of a read afterwards: [`Error::PositionOutside`].
    pub fn take(&self, indices: &Tensor) -> Result<Tensor> {
        self.take_by(Indexing::Take, indices, None, None)
    }

    /// [`Tensor::take`] where positions that are no row are none to complain of: they give what `missing` says.
    ///
    /// ```
    /// use polywarp_core::ops::Missing;
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let table = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0], [3])?;
    /// let indices = Tensor::from_slice(&device, &[2i32, -1], [2])?;
    /// assert_eq!(table.take_or(&indices, Missing::Zero)?.to_vec::<f32>()?, [3.0, 0.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::take`], but for positions outside.
    pub fn take_or(&self, indices: &Tensor, missing: Missing) -> Result<Tensor> {
        self.take_by(Indexing::Take, indices, Some(missing), None)
    }

    /// [`Tensor::take`] as an embedding: the gradient of row `padding` is zero (PyTorch's `padding_idx`). Where `missing` says something,
    /// [`Tensor::take_or`].
    ///
    /// # Errors
    /// As [`Tensor::take`].
    pub fn take_with(&self, indices: &Tensor, missing: Option<Missing>, padding: Option<u32>) -> Result<Tensor> {
        self.take_by(Indexing::Take, indices, missing, padding)
    }

    /// [`Tensor::take_with`], as part of the call `by`.
    pub(crate) fn take_by(
        &self,
        by: Indexing,
        given: &Tensor,
        missing: Option<Missing>,
        padding: Option<u32>,
    ) -> Result<Tensor> {
        let indices = positions(OP, given)?;
        let table = match check_rows(OP, &self.spec()) {
            Err(_) if !self.dims().is_empty() => self.contiguous()?,
            _ => self.clone(),
        };
        let op = Take::new(table.spec(), indices.spec(), missing.unwrap_or_default(), padding)?;
        let taken = Tensor::apply(self.device(), op, &[&table, &indices])?.swap_remove(0);
        if missing.is_none() {
            Look::of(by, self.dims()[0]).through(given, &indices)?;
        }
        Ok(taken)
    }

    /// The sum of this tensor's rows by the place that `indices` names: [rows, ...], zero where none is named (NumPy's `add.at`, PyTorch's
    /// `index_add`, sums by segment). It has the shape [indices..., ...]; a position that is no row is an error of the next read. Sums of integers
    /// wrap, and cost as [`Tensor::scatter`] does.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 4.0], [3])?;
    /// let indices = Tensor::from_slice(&device, &[1u32, 3, 1], [3])?;
    /// assert_eq!(x.scatter_add(&indices, 4)?.to_vec::<f32>()?, [0.0, 5.0, 0.0, 2.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`ScatterAdd::new`] and [`Tensor::take`].
    pub fn scatter_add(&self, indices: &Tensor, rows: u64) -> Result<Tensor> {
        self.scatter_add_by(indices, rows, Some(Look::of(Indexing::ScatterAdd, rows)))
    }

    /// [`Tensor::scatter_add`] that leaves out positions that are no row.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 4.0], [3])?;
    /// let indices = Tensor::from_slice(&device, &[1i32, -1, 1], [3])?;
    /// assert_eq!(x.scatter_add_within(&indices, 2)?.to_vec::<f32>()?, [0.0, 5.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::scatter_add`], but for positions outside.
    pub fn scatter_add_within(&self, indices: &Tensor, rows: u64) -> Result<Tensor> {
        self.scatter_add_by(indices, rows, None)
    }

    fn scatter_add_by(&self, given: &Tensor, rows: u64, look: Option<Look>) -> Result<Tensor> {
        if self.dtype().integer_range().is_some() {
            return self.scatter_add_integers(given, rows, look);
        }
        let (values, indices) = (self.contiguous()?, positions("scatter_add", given)?);
        let op = ScatterAdd::new(values.spec(), indices.spec(), rows)?;
        let sums = Tensor::apply(self.device(), op, &[&values, &indices])?.swap_remove(0);
        if let Some(look) = look {
            look.through(given, &indices)?;
        }
        Ok(sums)
    }

    /// Sums of integers, which wrap: elements are put where their row's position says, one by one.
    fn scatter_add_integers(&self, given: &Tensor, rows: u64, look: Option<Look>) -> Result<Tensor> {
        let indices = positions("scatter_add", given)?;
        let (of_rows, of_row) = self.dims().split_at(given.rank().min(self.rank()));
        let whole = Shape::new(&[given.dims(), of_row].concat())?;
        if of_rows != given.dims() {
            return Err(Error::shape_mismatch("scatter_add", self.shape(), &whole, None));
        }
        let column: Vec<u64> = [given.elements()].into_iter().chain(of_row.iter().map(|_| 1)).collect();
        let flat: Vec<u64> = [&[given.elements()], of_row].concat();
        let sums = Tensor::zeros(self.device(), self.dtype(), Shape::new(&[&[rows], of_row].concat())?)?;
        let at = indices.reshape(Shape::new(&column)?)?;
        let values = self.contiguous()?.reshape(Shape::new(&flat)?)?;
        let sums = sums.scatter_within(&at, &values, 0, ScatterFn::Sum)?;
        if let Some(look) = look {
            look.through(given, &indices)?;
        }
        Ok(sums)
    }
}

/// `indices` as dense i32 or u32. Of 64 bits, what u32 does not hold becomes its largest number, which no axis has a row for.
pub(crate) fn positions(op: &'static str, indices: &Tensor) -> Result<Tensor> {
    narrowed(op, indices, DType::U32, 0..=u32::MAX.into(), u32::MAX.into())
}

/// The same where a number below zero may mean something. Of 64 bits, what i32 does not hold becomes the lowest i32.
pub(crate) fn positions_with_sign(op: &'static str, indices: &Tensor) -> Result<Tensor> {
    narrowed(op, indices, DType::I32, i32::MIN.into()..=i32::MAX.into(), i32::MIN.into())
}

/// Numbers of 64 bits as `dtype`, those outside of `range` as `nowhere`.
fn narrowed(
    op: &'static str,
    indices: &Tensor,
    dtype: DType,
    range: RangeInclusive<i64>,
    nowhere: i64,
) -> Result<Tensor> {
    match indices.dtype() {
        DType::I32 | DType::U32 => indices.contiguous(),
        DType::I64 | DType::U64 => {
            let index = Expr::input(0);
            let fits = index.compare(CompareFn::Ge, *range.start()) & index.compare(CompareFn::Le, *range.end());
            Tensor::map(&fits.select(index.cast(dtype), Expr::constant(nowhere).cast(dtype)), &[indices])
        }
        dtype if dtype.is_float() || dtype == DType::Bool => {
            let reason = format!("{op} takes integers here (positions, classes), not {dtype}; convert with cast()");
            Err(Error::InvalidArgument { what: "positions", reason })
        }
        _ => indices.cast(DType::I32)?.contiguous(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Device;

    #[test]
    fn indices_of_any_integers_name_rows_and_nothing_beyond() {
        let device = Device::cpu();
        let x = Tensor::from_slice(&device, &[5i16, 6, 7], [3]).unwrap();
        let taken = |indices: Tensor| x.take_or(&indices, Missing::Nan).unwrap().to_vec::<i16>().unwrap();
        let of = |numbers: &[u64]| Tensor::from_slice(&device, numbers, [numbers.len() as u64]).unwrap();
        assert_eq!(taken(of(&[2, 1 << 32, u64::MAX, 1])), [7, 0, 0, 6]);
        assert_eq!(taken(of(&[2, 0]).cast(DType::U16).unwrap()), [7, 5]);
        let signed = Tensor::from_slice(&device, &[2i64, -1, i64::MIN, 1 << 40], [4]).unwrap();
        assert_eq!(taken(signed), [7, 0, 0, 0]);
    }
}
