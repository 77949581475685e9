//! Several results of one pass, and updates in place.
//!
//! Everything else returns new tensors; here a tensor changes for all that share its buffer: clones, views, recordings.
//! The parameters, moments and counters of a training loop need that, since a recorded step works on the buffers that
//! it was recorded with.

use crate::ops::Map;
use crate::tape;
use crate::{BinaryFn, Buffer, DType, Device, Error, Expr, Program, Result, Scalar, Shape, Tensor, TensorSpec};

impl Tensor {
    /// Runs one kernel for several expressions over the same inputs and returns a new tensor for each; subexpressions
    /// that they share are computed once. `Expr::input(i)` is `inputs[i]`; all are broadcast to one shape.
    ///
    /// # Errors
    /// As [`Tensor::map`]; [`Error::Unsupported`] where a device's kernels have fewer buffers than inputs and results together.
    pub fn map_all(exprs: &[Expr], inputs: &[&Tensor]) -> Result<Vec<Tensor>> {
        let Some((first, others)) = inputs.split_first() else {
            let reason = "expressions need at least one input tensor".to_owned();
            return Err(Error::InvalidArgument { what: "inputs", reason });
        };
        let shape = others
            .iter()
            .try_fold(*first.shape(), |shape, input| Shape::broadcast("map_all", &shape, input.shape()))?;
        run("map_all", &first.device, shape, exprs, inputs, &[])
    }

    /// Runs one kernel that overwrites each `updated[i]` with the value of `exprs[i]`, elementwise. Further expressions
    /// give new tensors, which are returned. `Expr::input(i)` is `inputs[i]`, broadcast to the shape of the updated
    /// tensors; the inputs after those are the old values of the updated tensors.
    ///
    /// Every element reads a tensor of one element as a number: a learning rate, a step, a scale. Such a number lives
    /// on the device, so that a recorded step uses its newest value.
    ///
    /// ```
    /// use polywarp_core::{Device, Expr, Tensor};
    ///
    /// let device = Device::cpu();
    /// let p = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0], [3])?;
    /// let g = Tensor::from_slice(&device, &[0.5f32, 0.5, -1.0], [3])?;
    /// let rate = Tensor::from_slice(&device, &[0.1f32], [1])?;
    /// let [gradient, step, value] = [0, 1, 2].map(Expr::input);
    /// Tensor::update(&[value - gradient * step], &[&g, &rate], &[&p])?;
    /// assert_eq!(p.to_vec::<f32>()?, [0.95, 1.95, 3.1]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`] for updated tensors of several shapes and for inputs that do not broadcast to it,
    /// [`Error::DTypeMismatch`] for an expression whose dtype differs from that of the tensor it updates;
    /// [`Error::InvalidArgument`] for an updated tensor that is not dense, for one buffer in two places, and for fewer
    /// expressions than updated tensors; as [`Tensor::map`].
    pub fn update(exprs: &[Expr], inputs: &[&Tensor], updated: &[&Tensor]) -> Result<Vec<Tensor>> {
        let Some(first) = updated.first() else {
            let reason = "an update needs at least one tensor to update".to_owned();
            return Err(Error::InvalidArgument { what: "updated", reason });
        };
        for other in updated {
            if other.shape() != first.shape() {
                return Err(Error::shape_mismatch("update", first.shape(), other.shape(), None));
            }
        }
        run("update", &first.device, *first.shape(), exprs, inputs, updated)
    }

    /// Replaces every element by `f` of it and the element of `rhs`, which is broadcast.
    ///
    /// # Errors
    /// As [`Tensor::update`] and [`Tensor::binary`].
    pub fn binary_(&self, f: BinaryFn, rhs: &Tensor) -> Result<()> {
        // A tensor combined with itself is one operand, not two in one buffer.
        let is_itself = self.buffer.same(&rhs.buffer) && self.layout == rhs.layout;
        let (inputs, value) = if is_itself { (&[][..], 0) } else { (&[rhs][..], 1) };
        Tensor::update(&[Expr::input(value).binary(f, Expr::input(0))], inputs, &[self]).map(drop)
    }

    /// Replaces every element by `f` of it and one number.
    ///
    /// # Errors
    /// As [`Tensor::update`] and [`Tensor::binary_scalar`].
    pub fn binary_scalar_(&self, f: BinaryFn, rhs: impl Into<Scalar>) -> Result<()> {
        Tensor::update(&[Expr::input(0).binary(f, rhs.into())], &[], &[self]).map(drop)
    }
}

macro_rules! in_place {
    ($($name:ident, $scalar:ident => $variant:ident),* $(,)?) => {
        impl Tensor {$(
            #[doc = concat!("[`BinaryFn::", stringify!($variant), "`] of every element and `rhs`, broadcast, in place of the element.\n\n# Errors\nAs [`Tensor::binary_`].")]
            pub fn $name(&self, rhs: &Tensor) -> Result<()> {
                self.binary_(BinaryFn::$variant, rhs)
            }

            #[doc = concat!("[`BinaryFn::", stringify!($variant), "`] of every element and one number, in place of the element.\n\n# Errors\nAs [`Tensor::binary_scalar_`].")]
            pub fn $scalar(&self, rhs: impl Into<Scalar>) -> Result<()> {
                self.binary_scalar_(BinaryFn::$variant, rhs)
            }
        )*}
    };
}
in_place!(add_, add_scalar_ => Add, div_, div_scalar_ => Div, mul_, mul_scalar_ => Mul, sub_, sub_scalar_ => Sub);

fn run(
    label: &'static str,
    device: &Device,
    shape: Shape,
    exprs: &[Expr],
    inputs: &[&Tensor],
    updated: &[&Tensor],
) -> Result<Vec<Tensor>> {
    let held: Vec<&Tensor> = inputs.iter().chain(updated).copied().collect();
    for tensor in &held {
        super::same_device(label, device, &tensor.device)?;
    }
    let dtypes: Vec<DType> = held.iter().map(|tensor| tensor.dtype).collect();
    let program = Program::compile_all(exprs, &dtypes)?;
    let specs = inputs.iter().map(|t| Ok(TensorSpec::new(t.dtype, t.layout.broadcast_to(shape)?)));
    let specs = specs.collect::<Result<Vec<TensorSpec>>>()?;
    let new = (updated.len()..exprs.len()).map(|number| Tensor::empty(device, program.result_dtype(number), shape));
    let new = new.collect::<Result<Vec<Tensor>>>()?;
    let outputs: Vec<&Tensor> = updated.iter().copied().chain(&new).collect();
    let written: Vec<TensorSpec> = outputs.iter().map(|tensor| tensor.spec()).collect();
    let op = Map::several(label, program, specs, &written, updated.len())?;
    let op = op.into();
    tape::refuse_overwriting(label, updated)?;
    let pending = tape::pending(&op, inputs)?;
    let sources: Vec<&Buffer> = inputs.iter().map(|tensor| &tensor.buffer).collect();
    let targets: Vec<&Buffer> = outputs.iter().map(|tensor| &tensor.buffer).collect();
    device.execute(&op, &sources, &targets)?;
    if let Some(pending) = pending {
        pending.record(&op, inputs, &outputs);
    }
    Ok(new)
}
