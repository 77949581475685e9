//! Products of runs of rows, each with the matrix of its group.

use crate::ops::{GroupedMatmul, Matmul};
use crate::{DType, Error, Layout, Precision, Result, Shape, Tensor, TensorSpec, UnaryFn};

/// The options of a grouped product: `D[r] = activation(A[r] B[g] + bias[g])` for the group g that owns row r.
#[derive(Clone, Debug, Default)]
pub struct GroupedMatmulOptions<'a> {
    /// A vector for each group, [groups, n], added to the rows it owns; of the result's dtype.
    pub bias: Option<&'a Tensor>,
    /// Applied last: relu, gelu, silu, tanh or sigmoid.
    pub activation: Option<UnaryFn>,
    /// How exact f32 products must be; [`Precision::Highest`] by default.
    pub precision: Precision,
    /// As [`MatmulOptions::output`](crate::MatmulOptions::output).
    pub output: Option<DType>,
}

impl Tensor {
    /// The rows of this matrix, each times the matrix of the group that owns it: [rows, k] x [groups, k, n] -> [rows, n].
    ///
    /// A mixture of experts computes this once its tokens are sorted by expert. `ends` (i32 or u32, `[groups]`) gives
    /// for each group the row after its last one; row r belongs to the first group whose end is above r. The ends stay
    /// on the device: nothing waits for them, and a replay of a recording uses their current values. So they are not
    /// checked either: a negative end counts as 0, one beyond the last row as the number of rows, and a group whose end
    /// is not above those before it owns nothing. Rows that no group owns are 0. Dtypes and accuracy are those of
    /// [`Tensor::matmul`].
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let tokens = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], [4, 2])?;
    /// // One expert adds the two numbers of a token, the other one subtracts them.
    /// let experts = Tensor::from_slice(&device, &[1.0f32, 1.0, 1.0, -1.0], [2, 2, 1])?;
    /// let ends = Tensor::from_slice(&device, &[1i32, 3], [2])?; // rows 0..1 and 1..3; nobody owns row 3
    /// let out = tokens.grouped_matmul(&experts, &ends)?;
    /// assert_eq!(out.to_vec::<f32>()?, [3.0, -1.0, -1.0, 0.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for operands of other ranks, [`Error::InnerDimension`], [`Error::ShapeMismatch`] for
    /// another number of ends than groups, [`Error::DTypeMismatch`] for ends that are neither i32 nor u32 and for operands
    /// of two dtypes, [`Error::DeviceMismatch`], [`Error::UndefinedForDType`] for bool.
    pub fn grouped_matmul(&self, rhs: &Tensor, ends: &Tensor) -> Result<Tensor> {
        self.grouped_matmul_with(rhs, ends, &GroupedMatmulOptions::default())
    }

    /// [`Tensor::grouped_matmul`] with bias, activation, precision and output dtype, all in one operation.
    ///
    /// # Errors
    /// As [`Tensor::grouped_matmul`]; [`Error::ShapeMismatch`] and [`Error::DTypeMismatch`] for a bias that is not
    /// [groups, n] of the result's dtype, [`Error::InvalidArgument`] for a function that is no activation.
    pub fn grouped_matmul_with(
        &self,
        rhs: &Tensor,
        ends: &Tensor,
        options: &GroupedMatmulOptions<'_>,
    ) -> Result<Tensor> {
        let op = "grouped_matmul";
        let inputs: Vec<&Tensor> = [Some(self), Some(rhs), options.bias, Some(ends)].into_iter().flatten().collect();
        for input in &inputs {
            self.expect_device(op, input)?;
        }
        let undefined = Error::UndefinedForDType { op, dtype: self.dtype };
        let dtype = options.output.or(Matmul::output_dtype(self.dtype)).ok_or(undefined)?;
        // The shape of the result does not matter for operands of other ranks: they are refused below.
        let (rows, n) = (self.dims().first().copied().unwrap_or(0), rhs.dims().last().copied().unwrap_or(0));
        let shape = Shape::new(&[rows, n])?;
        let op = GroupedMatmul {
            bias: options.bias.map(Tensor::spec),
            activation: options.activation,
            precision: options.precision,
            ..GroupedMatmul::product(
                self.spec(),
                rhs.spec(),
                ends.spec(),
                TensorSpec::new(dtype, Layout::contiguous(shape)),
            )
        }
        .check()?;
        let out = Tensor::empty(&self.device, dtype, shape)?;
        out.fill_by(&op.into(), &inputs)?;
        Ok(out)
    }
}
