//! Grouped matrix products: `D[r] = activation(A[r] B[g] + bias[g])` for the group g that owns row r, as mixtures of experts
//! need them.
//!
//! A is [rows, k], B is [groups, k, n], D is [rows, n], bias [groups, n]; transposes are strides. The groups own runs of rows:
//! `ends` (i32 or u32, `[groups]`) holds, on the device, the row after the last one of each group, and row r belongs to the
//! first group whose end is above r. Ends that rise are what that is made for, but every value has a meaning: a
//! negative end is 0, one beyond the last row is the number of rows, and a group whose end is not above those before it owns
//! nothing. Rows that no group owns are 0, whatever bias and activation would make of them. Dtypes, accumulation,
//! precision and the bound of each product are those of [`Matmul`].

#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(crate) mod plan;
mod tuned;

use std::ops::Range;

use super::Matmul;
use super::matmul::{describe_end, without_last_k};
use super::prelude::*;
use super::sample::thin;
use crate::Precision;
use crate::operation::Tuned;

/// A grouped matrix product with its epilogue.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GroupedMatmul {
    /// Left operand, [rows, k].
    pub a: TensorSpec,
    /// Right operands, [groups, k, n]; of A's dtype, or the other 8-bit float.
    pub b: TensorSpec,
    /// A vector for each group, [groups, n], added to the rows it owns; of the output's dtype.
    pub bias: Option<TensorSpec>,
    /// The row after the last one of each group, i32 or u32 `[groups]`.
    pub ends: TensorSpec,
    /// Applied last: relu, gelu, silu, tanh or sigmoid.
    pub activation: Option<UnaryFn>,
    /// How exact f32 products must be.
    pub precision: Precision,
    /// Dense output, [rows, n].
    pub output: TensorSpec,
}

/// The extents of a grouped product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GroupedMatmulDims {
    /// Matrices of B.
    pub groups: u64,
    /// Rows of A and D.
    pub rows: u64,
    /// Columns of B and D.
    pub n: u64,
    /// Columns of A, rows of B.
    pub k: u64,
}

const OP: &str = "grouped_matmul";

impl GroupedMatmul {
    /// D = A B by groups, with no epilogue; fill in the other fields and call [`GroupedMatmul::check`].
    pub fn product(a: TensorSpec, b: TensorSpec, ends: TensorSpec, output: TensorSpec) -> GroupedMatmul {
        GroupedMatmul { a, b, bias: None, ends, activation: None, precision: Precision::default(), output }
    }

    /// This op, when its parts fit together.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for operands of other ranks and for what is no activation, [`Error::InnerDimension`],
    /// [`Error::ShapeMismatch`], [`Error::DTypeMismatch`], [`Error::UndefinedForDType`].
    pub fn check(self) -> Result<GroupedMatmul> {
        let (a, b, d) = (self.a.layout.shape(), self.b.layout.shape(), self.output.layout.shape());
        let ends = self.ends.layout.shape();
        let ([rows, k_lhs], [groups, k_rhs, n], [_]) = (a.dims(), b.dims(), ends.dims()) else {
            let reason = format!(
                "A must be [rows, k], B [groups, k, n] and the ends [groups], not {a}, {b} and {ends}; reshape them"
            );
            return Err(Error::InvalidArgument { what: "operands of a grouped product", reason });
        };
        if k_lhs != k_rhs {
            let (lhs, rhs) = (a.dims().to_vec(), b.dims().to_vec());
            return Err(Error::InnerDimension { lhs, rhs, k_lhs: *k_lhs, k_rhs: *k_rhs });
        }
        if ends.dims() != [*groups] {
            return Err(Error::shape_mismatch(OP, ends, b, Some(0)));
        }
        if d.dims() != [*rows, *n] {
            return Err(Error::shape_mismatch(OP, d, &Shape::new(&[*rows, *n])?, None));
        }
        if !matches!(self.ends.dtype, DType::I32 | DType::U32) {
            return Err(Error::DTypeMismatch { op: OP, expected: DType::I32, got: self.ends.dtype });
        }
        Matmul::check_dtypes(OP, self.a.dtype, self.b.dtype, self.output.dtype)?;
        Matmul::check_exact(self.a.dtype, self.output.dtype, *k_lhs)?;
        if let Some(bias) = &self.bias {
            if bias.layout.dims() != [*groups, *n] {
                return Err(Error::shape_mismatch(OP, bias.layout.shape(), &Shape::new(&[*groups, *n])?, None));
            }
            if bias.dtype != self.output.dtype {
                return Err(Error::DTypeMismatch { op: OP, expected: self.output.dtype, got: bias.dtype });
            }
        }
        Matmul::check_activation(self.activation, self.output.dtype)?;
        check_dense_output(OP, &self.output)?;
        Ok(self)
    }

    /// The extents.
    pub fn dims(&self) -> GroupedMatmulDims {
        let (a, b) = (self.a.layout.dims(), self.b.layout.dims());
        GroupedMatmulDims { groups: b[0], rows: a[0], n: b[2], k: a[1] }
    }

    /// The rows that each group owns: disjoint and ascending, some of them empty.
    pub fn owned(&self, ends: impl IntoIterator<Item = i64>) -> Vec<Range<u64>> {
        let rows = self.dims().rows;
        let mut next = 0;
        let mut own = |end: i64| {
            let first = next;
            next = u64::try_from(end).unwrap_or(0).clamp(first, rows);
            first..next
        };
        ends.into_iter().map(&mut own).collect()
    }

    /// The product of one group: the `rows` it owns, into a dense output of their own.
    ///
    /// # Errors
    /// [`Error::InvalidSlice`] for a group or rows that are not there.
    pub fn of_group(&self, group: u64, rows: Range<u64>) -> Result<Matmul> {
        let one = |spec: &TensorSpec| -> Result<TensorSpec> {
            let view = spec.layout.slice(0, group, group + 1, 1)?;
            let shape = Shape::new(&view.dims()[1..])?;
            Ok(TensorSpec::new(spec.dtype, Layout::strided(shape, &view.strides()[1..], view.offset())?))
        };
        let a = TensorSpec::new(self.a.dtype, self.a.layout.slice(0, rows.start, rows.end, 1)?);
        let output = Layout::contiguous(Shape::new(&[rows.end - rows.start, self.dims().n])?);
        Ok(Matmul {
            bias: self.bias.as_ref().map(one).transpose()?,
            activation: self.activation,
            precision: self.precision,
            ..Matmul::product(a, one(&self.b)?, TensorSpec::new(self.output.dtype, output))
        })
    }
}

impl Operation for GroupedMatmul {
    fn name(&self) -> &'static str {
        OP
    }

    operands! { read a, b, bias, ends; write output }

    fn validate(&self) -> Result<()> {
        self.clone().check().map(drop)
    }

    /// 2 rows n k: as if some group owned every row.
    fn arithmetic(&self) -> Arithmetic {
        let GroupedMatmulDims { rows, n, k, .. } = self.dims();
        let flops = [2, rows, n, k].into_iter().fold(1, u64::saturating_mul);
        Arithmetic { flops, multiplies: Some(self.a.dtype) }
    }

    /// The reference of every group, and zeros for the rows that none owns.
    fn oracle(&self, inputs: &[HostTensor]) -> Vec<Vec<Expected>> {
        let GroupedMatmulDims { rows, n, k, .. } = self.dims();
        let zero = if self.output.dtype.is_float() { Scalar::F(0.0) } else { Scalar::I(0) };
        let part = |input: usize, range: Range<u64>, width: u64| {
            let values = &inputs[input].values[(range.start * width) as usize..(range.end * width) as usize];
            HostTensor { values: values.to_vec(), ..inputs[input].clone() }
        };
        let ends = inputs[inputs.len() - 1].values.iter().map(|end| end.as_i64());
        let mut out = Vec::with_capacity((rows * n) as usize);
        for (group, own) in (0..).zip(self.owned(ends)) {
            // A group that owns nothing gives nothing, and its slices are always in range.
            let Ok(product) = self.of_group(group, own.clone()) else { continue };
            let this = group..group + 1;
            let mut operands = vec![part(0, own, k), part(1, this.clone(), k * n)];
            operands.extend(self.bias.map(|_| part(2, this, n)));
            out.extend(product.expected(&operands));
        }
        out.resize((rows * n) as usize, Expected::exact(zero));
        vec![out]
    }

    fn gradient(&self, _: &Needs<'_>) -> Result<Gradient> {
        Ok(Gradient::Refused("grouped products have no rule yet: multiply each group by itself"))
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    fn candidates(&self, caps: &Caps) -> Result<Vec<Candidate>> {
        plan::candidates(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs, outputs[0])
    }

    fn describe(&self, name: &mut String) {
        name.push_str(if self.bias.is_some() { " bias" } else { "" });
        describe_end(name, self.activation, self.precision);
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    fn tuned(&self) -> Option<&dyn Tuned> {
        (self.dims().groups > 0).then_some(self)
    }

    /// The op on the first `extent` indices of the output's `axis` alone: columns. Which group owns a row depends on data.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        if axis != 1 {
            return None;
        }
        let bias = self.bias.map_or(Some(None), |bias| bias.first(1, extent).map(Some))?;
        let output = self.output.dense_first(1, extent)?;
        Some(GroupedMatmul { b: self.b.first(2, extent)?, bias, output, ..self.clone() }.into())
    }

    fn content(&self, input: usize) -> Content {
        let ends = 2 + usize::from(self.bias.is_some());
        if input == ends { Content::Ends { rows: self.dims().rows } } else { Content::Any }
    }

    fn shortened(&self) -> Result<Option<Op>> {
        let Some([a, b]) = without_last_k(&self.a, &self.b)? else { return Ok(None) };
        Ok(Some(GroupedMatmul { a, b, ..self.clone() }.check()?.into()))
    }

    /// Whole columns: which group owns a row is for the ends of all of them to say.
    fn sample(&self) -> Result<Option<Sample>> {
        const KEEP: u64 = 3;
        let positions = thin(&self.output.layout, 1, KEEP)?;
        let cut =
            |spec: &TensorSpec, axis| Ok::<_, Error>(TensorSpec::new(spec.dtype, thin(&spec.layout, axis, KEEP)?));
        let op = GroupedMatmul {
            b: cut(&self.b, 2)?,
            bias: self.bias.as_ref().map(|bias| cut(bias, 1)).transpose()?,
            output: sample::dense(self.output.dtype, &positions),
            ..self.clone()
        };
        Ok(Some(Sample { op: op.check()?.into(), positions: vec![positions] }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn op(rows: u64, groups: u64) -> GroupedMatmul {
        let dense = |dtype, dims: &[u64]| TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()));
        let (a, b) = (dense(DType::F32, &[rows, 3]), dense(DType::F32, &[groups, 3, 5]));
        let op = GroupedMatmul::product(a, b, dense(DType::I32, &[groups]), dense(DType::F32, &[rows, 5]));
        op.check().unwrap()
    }

    /// The rule of the head, row by row.
    fn owner(row: u64, ends: &[i64]) -> Option<usize> {
        ends.iter().position(|&end| end > row as i64)
    }

    #[test]
    fn rows_belong_to_the_first_group_that_ends_after_them() {
        let lists: [&[i64]; 8] = [
            &[2, 5, 7],
            &[0, 0, 7],
            &[7, 7, 7],
            &[3, 1, 6],
            &[-4, 100, 2],
            &[i64::from(u32::MAX), 3, 5],
            &[1, 2, 3],
            &[i64::from(i32::MIN), 0, 0],
        ];
        for ends in lists {
            let owned = op(7, 3).owned(ends.iter().copied());
            for row in 0..7 {
                assert_eq!(owned.iter().position(|own| own.contains(&row)), owner(row, ends), "{ends:?} row {row}");
            }
        }
    }

    #[test]
    fn oracle_gives_rows_of_no_group_as_zeros_before_any_activation() {
        let op = GroupedMatmul { activation: Some(UnaryFn::Sigmoid), ..op(4, 2) };
        let tensor = |dims: &[u64], values: Vec<Scalar>| HostTensor {
            dtype: DType::F32,
            shape: Shape::new(dims).unwrap(),
            values,
        };
        let inputs = [
            tensor(&[4, 3], vec![Scalar::F(0.0); 12]),
            tensor(&[2, 3, 5], vec![Scalar::F(1.0); 30]),
            tensor(&[2], vec![Scalar::I(1), Scalar::I(3)]),
        ];
        let values: Vec<f64> = op.oracle(&inputs)[0].iter().map(|expected| expected.value.as_f64()).collect();
        assert_eq!(values, [vec![0.5; 15], vec![0.0; 5]].concat());
    }
}
