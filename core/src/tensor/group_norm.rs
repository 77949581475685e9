//! Group normalisation (Wu and He, arXiv 1803.08494) and instance normalisation (Ulyanov, Vedaldi and Lempitsky, arXiv
//! 1607.08022) of tensors whose last axis holds channels: y = (x - mean) / sqrt(variance + epsilon) gamma + beta.
//!
//! The decision to know: sums go over places first and over the channels of a group second, so that both walk memory in
//! its order. The variance is the mean of squared differences (biased), as PyTorch's, and never a difference of two
//! large sums. Everything is computed in f32 (f64 for f64) and rounded once; gradients are those of the steps. Layer
//! and batch normalisation are operations of their own (`ops/layer_norm.rs`, `ops/batch_norm.rs`).

use crate::ops::{Builder, ReduceFn, Value};
use crate::{Error, Expr, KeepDims, Result, Shape, Tensor};

const GROUP: &str = "group_norm";
const INSTANCE: &str = "instance_norm";

impl Tensor {
    /// Group normalisation of [n, ..., channels]. For each of the n, the channels are cut into `groups` of channels /
    /// groups neighbours, and each group is normalised over its channels and all places between the first axis and the
    /// last: y = (x - mean) / sqrt(variance + `epsilon`), with the mean and the variance of the group. `affine` gives
    /// gamma and beta, `[channels]` each, of this dtype: y is then multiplied by gamma, and beta is added. One group is
    /// layer normalisation over all but the first axis.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// // One image of one place with four channels in two groups.
    /// let x = Tensor::from_slice(&Device::cpu(), &[1.0f32, 3.0, 10.0, 30.0], [1, 1, 4])?;
    /// assert_eq!(x.group_norm(2, None, 1e-12)?.to_vec::<f32>()?, [-1.0, 1.0, -1.0, 1.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for integers and bool; [`Error::InvalidArgument`] below rank 2, for `groups` that do not divide the
    /// channels and for an epsilon that is not positive; [`Error::ShapeMismatch`], [`Error::DTypeMismatch`] and [`Error::DeviceMismatch`]
    /// for another gamma or beta; memory errors of the device.
    pub fn group_norm(&self, groups: u64, affine: Option<[&Tensor; 2]>, epsilon: f64) -> Result<Tensor> {
        let [_, _, channels] = self.check_normal(GROUP, affine, epsilon)?;
        if groups == 0 || !channels.is_multiple_of(groups) {
            let reason =
                format!("{GROUP}: {channels} channels, the last axis, are not cut into {groups} groups of one size");
            return Err(Error::InvalidArgument { what: "groups", reason });
        }
        self.normalised(GROUP, groups, affine, epsilon)
    }

    /// Instance normalisation of [n, ..., channels]: each channel of each of the n is normalised over all places between the first axis and the
    /// last. It is [`Tensor::group_norm`] with as many groups as channels.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// // One image of two places with two channels.
    /// let x = Tensor::from_slice(&Device::cpu(), &[1.0f32, 10.0, 3.0, 30.0], [1, 2, 2])?;
    /// assert_eq!(x.instance_norm(None, 1e-12)?.to_vec::<f32>()?, [-1.0, -1.0, 1.0, 1.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::group_norm`]; [`Error::InvalidArgument`] for a single place: the variance of one value is always zero.
    pub fn instance_norm(&self, affine: Option<[&Tensor; 2]>, epsilon: f64) -> Result<Tensor> {
        let [_, places, channels] = self.check_normal(INSTANCE, affine, epsilon)?;
        if places == 1 {
            let reason =
                format!("{INSTANCE} of {} has one value of each channel, and a variance needs two", self.shape());
            return Err(Error::InvalidArgument { what: "values", reason });
        }
        // Without channels there are no elements.
        self.normalised(INSTANCE, channels.max(1), affine, epsilon)
    }

    /// Checks the operands; returns the extents [n, places, channels].
    fn check_normal(&self, op: &'static str, affine: Option<[&Tensor; 2]>, epsilon: f64) -> Result<[u64; 3]> {
        let [n, places @ .., channels] = self.dims() else {
            let reason = format!("{op} of {}; it takes [n, ..., channels]", self.shape());
            return Err(Error::InvalidArgument { what: "operand", reason });
        };
        let dtype = self.dtype();
        if !dtype.is_float() {
            return Err(Error::UndefinedForDType { op, dtype });
        }
        if !(epsilon > 0.0 && epsilon.is_finite()) {
            let reason = format!("{op}: {epsilon} is not positive: a constant group has no variance");
            return Err(Error::InvalidArgument { what: "epsilon", reason });
        }
        for tensor in affine.iter().flatten() {
            if tensor.dims() != [*channels] {
                return Err(Error::shape_mismatch(op, tensor.shape(), &Shape::new(&[*channels])?, None));
            }
            tensor.expect_dtype(op, dtype)?;
        }
        Ok([*n, places.iter().product(), *channels])
    }

    /// `groups` must divide the channels; callers check it.
    fn normalised(&self, op: &'static str, groups: u64, affine: Option<[&Tensor; 2]>, epsilon: f64) -> Result<Tensor> {
        let (dims, dtype) = (self.dims(), self.dtype());
        let [n, places @ .., channels] = dims else { return Ok(self.clone()) };
        let (n, places, channels) = (*n, places.iter().product::<u64>(), *channels);
        let width = channels / groups;
        // At least 1: a mean over no elements must not divide by 0.
        let count = places.saturating_mul(width).max(1) as f64;
        let x = self.reshape([n, places, groups, width])?;
        let inputs: Vec<&Tensor> = [&x].into_iter().chain(affine.into_iter().flatten()).collect();
        let normal = Tensor::by_graph(op, &inputs, |graph, inputs| {
            let [x, affine @ ..] = inputs else { return graph.input(0) };
            let of = Expr::input;
            // Every step reads x in the computing dtype, so that the parts of its gradient are added before they are rounded.
            let wide = graph.cast(*x, dtype.compute())?;
            let wide = graph.contiguous(wide)?;
            let group_sum = |graph: &mut Builder, terms: Value| {
                let sums = graph.reduce(ReduceFn::Sum, terms.reshape([n, places, channels])?, &[1], KeepDims::No)?;
                let sums = sums.reshape([n, groups, width])?;
                graph.reduce(ReduceFn::Sum, sums, &[2], KeepDims::No)?.reshape([n, 1, groups, 1])
            };
            let sum = group_sum(graph, wide)?;
            let mean = graph.map(&(of(0) / count), &[sum])?;
            let difference = of(0) - of(1);
            let squares = graph.map(&(difference.clone() * &difference), &[wide, mean])?;
            let sum = group_sum(graph, squares)?;
            let rstd = graph.map(&(of(0) / count + epsilon).rsqrt(), &[sum])?;
            let (mut y, mut values) = (difference * of(2), vec![wide, mean, rstd]);
            if let [gamma, beta] = affine {
                for of_channel in [gamma, beta] {
                    let wide = graph.cast(*of_channel, dtype.compute())?;
                    values.push(graph.contiguous(wide)?.reshape([groups, width])?);
                }
                y = y * of(3) + of(4);
            }
            graph.map(&y.cast(dtype), &values)
        })?;
        normal.reshape(*self.shape())
    }
}

#[cfg(test)]
mod tests;
