//! Sums of rows by place: `y[r, ...]` is the sum of `x[i, ...]` over the positions i with `indices[i]` = r. The gradient of [`Take`], and
//! so of an embedding.
//!
//! The order of a sum is that of the positions, on every device: the same bits at each run, without atomic additions. Floats of 8 and
//! 16 bits are summed up in f32 and rounded once. Positions that are no row are left out; a row that none names is zero.

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;

use super::prelude::*;
use super::take::{Missing, Take, are_dense, check_indices, check_rows, distance};

const OP: &str = "scatter_add";

/// Sums of the rows of `values` by `indices`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ScatterAdd {
    /// Floats, [indices..., ...]: each row dense, one row at the same distance from the next.
    pub values: TensorSpec,
    /// The row that each is added to, i32 or u32, dense.
    pub indices: TensorSpec,
    /// Dense output [rows, ...] of the values' dtype.
    pub output: TensorSpec,
}

impl ScatterAdd {
    /// A checked sum into `rows` rows that start their buffer.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for values that are no floats, [`Error::ShapeMismatch`] for values whose first axes are not those
    /// of the indices, [`Error::InvalidArgument`] for operands that are not dense, [`Error::DTypeMismatch`] for indices that are
    /// neither i32 nor u32, [`Error::IndexWidth`] for more than 2^32 - 1 rows or positions.
    pub fn new(values: TensorSpec, indices: TensorSpec, rows: u64) -> Result<ScatterAdd> {
        let rest = values.layout.dims().get(indices.layout.rank()..).unwrap_or_default();
        let shape = Shape::new(&[&[rows], rest].concat())?;
        let output = TensorSpec::new(values.dtype, Layout::contiguous(shape));
        ScatterAdd { values, indices, output }.check()
    }

    /// From a row of the values to the next one, in elements; `None` for rows that are not dense or at several distances.
    pub fn distance(&self) -> Option<i64> {
        let axes = self.indices.layout.rank();
        let (dims, strides) = (self.values.layout.dims(), self.values.layout.strides());
        if are_dense(&dims[axes..], &strides[axes..]) { distance(&dims[..axes], &strides[..axes]) } else { None }
    }

    /// Rows of the output.
    pub fn rows(&self) -> u64 {
        self.output.layout.dims()[0]
    }

    /// Elements of a row.
    pub fn row(&self) -> u64 {
        self.output.layout.dims()[1..].iter().product()
    }

    /// The row that `index` names, if there is one.
    pub fn place(&self, index: i64) -> Option<u64> {
        u64::try_from(index).ok().filter(|&row| row < self.rows())
    }
}

impl Operation for ScatterAdd {
    fn name(&self) -> &'static str {
        OP
    }

    operands! { read values, indices; write output }

    fn validate(&self) -> Result<()> {
        check_float(OP, &self.values)?;
        check_indices(OP, &self.indices)?;
        check_rows(OP, &self.output)?;
        let (dims, indices) = (self.values.layout.dims(), self.indices.layout.dims());
        let wanted = Shape::new(&[indices, &self.output.layout.dims()[1..]].concat())?;
        if dims != wanted.dims() {
            return Err(Error::shape_mismatch(OP, self.values.layout.shape(), &wanted, None));
        }
        if self.distance().is_none() {
            let reason = format!("{OP} reads dense rows, not {:?}; make them contiguous first", self.values.layout);
            return Err(Error::InvalidArgument { what: "values", reason });
        }
        let most = self.indices.layout.elements().max(self.rows());
        if most > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op: OP, elements: most, max: u32::MAX.into() });
        }
        check_dtype(OP, &self.output, self.values.dtype)?;
        check_dense_output(OP, &self.output)
    }

    /// An addition for each value.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.values.layout.elements())
    }

    /// The definition in float64. Bound: a sum of c terms one after the other errs by (c - 1) u times the sum of magnitudes, and it is
    /// rounded once.
    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        let (row, dtype) = (self.row() as usize, self.output.dtype);
        let u = dtype.compute().unit_roundoff();
        let mut sums = vec![(0.0f64, 0.0f64, 0u64); self.output.layout.elements() as usize];
        for (i, index) in before[1].values.iter().enumerate() {
            let Some(at) = self.place(index.as_i64()) else { continue };
            let x = before[0].values[i * row..][..row].iter().map(|x| x.as_f64());
            for (sum, x) in sums[at as usize * row..][..row].iter_mut().zip(x) {
                *sum = (sum.0 + x, sum.1 + x.abs(), sum.2 + 1);
            }
        }
        let expected = sums.into_iter().map(|(sum, magnitudes, terms)| {
            let error = if sum.is_finite() { terms.saturating_sub(1) as f64 * u * magnitudes } else { 0.0 };
            Expected::within(Scalar::F(sum), error).round_to(dtype)
        });
        vec![expected.collect()]
    }

    /// `dx[i] = dy[indices[i]]`, zero where that is no row.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        let mut rule = RuleBuilder::new(self, needs)?;
        if !rule.wants(0) {
            return rule.finish(Vec::new());
        }
        let (indices, dy) = (rule.input(1)?, rule.gradient(0)?);
        let taken = Take::new(dy.spec(), indices.spec(), Missing::Zero, None)?;
        let gradient = rule.graph.apply(taken, &[dy, indices])?.pop();
        rule.finish(vec![gradient])
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs[0], inputs[1], outputs[0])
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    fn content(&self, input: usize) -> Content {
        if input == 1 { Content::Rows { rows: self.rows() } } else { Content::Any }
    }

    /// The last columns, of rows of one axis.
    fn sample(&self) -> Result<Option<Sample>> {
        const KEEP: u64 = 3;
        let &[rows, columns] = self.output.layout.dims() else { return Ok(None) };
        let first = columns.saturating_sub(KEEP);
        let positions = self.output.layout.slice(1, first, columns, 1)?;
        let values = self.values.layout.slice(self.indices.layout.rank(), first, columns, 1)?;
        let values = TensorSpec::new(self.values.dtype, values);
        let output = TensorSpec::new(self.output.dtype, Layout::contiguous(Shape::new(&[rows, columns - first])?));
        let op = ScatterAdd { values, output, ..self.clone() }.check()?.into();
        Ok(Some(Sample { op, positions: vec![positions] }))
    }
}

#[cfg(test)]
mod tests {
    use crate::{Device, Tape, Tensor};

    #[test]
    fn embedding_gradients_add_up_by_row_and_leave_the_padding_out() {
        let device = Device::cpu();
        let table = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [3, 2]).unwrap();
        let indices = Tensor::from_slice(&device, &[2i64, 0, 2, 1, -1, 1 << 40], [2, 3]).unwrap();
        for (padding, want) in [(None, [1.0, 1.0, 1.0, 1.0, 2.0, 2.0]), (Some(2), [1.0, 1.0, 1.0, 1.0, 0.0, 0.0])] {
            let tape = Tape::new();
            let watched = tape.watch(&table).unwrap();
            let rows = watched.take_with(&indices, Some(super::Missing::Zero), padding).unwrap();
            assert_eq!(rows.dims(), [2, 3, 2]);
            assert_eq!(rows.to_vec::<f32>().unwrap(), [5.0, 6.0, 1.0, 2.0, 5.0, 6.0, 3.0, 4.0, 0.0, 0.0, 0.0, 0.0]);
            let gradients = tape.backward(&rows.sum(..).unwrap()).unwrap();
            assert_eq!(gradients.of(&watched).unwrap().to_vec::<f32>().unwrap(), want);
        }
        let missing = table.take_or(&indices, super::Missing::Nan).unwrap().to_vec::<f32>().unwrap();
        assert!(missing[8..].iter().all(|x| x.is_nan()));
    }

    #[test]
    fn rows_of_a_transposed_table_are_its_columns() {
        let device = Device::cpu();
        let table = Tensor::from_slice(&device, &[1i32, 2, 3, 4, 5, 6], [3, 2]).unwrap().t().unwrap();
        let indices = Tensor::from_slice(&device, &[1u32, 7], [2]).unwrap();
        assert_eq!(table.take_or(&indices, super::Missing::Zero).unwrap().to_vec::<i32>().unwrap(), [2, 4, 6, 0, 0, 0]);
    }
}
