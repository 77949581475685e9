//! Two losses that are expressions.
//!
//! Each is one elementwise kernel and a reduction; gradients come from the tape. The decision to know: [`Reduction`] is asked for and has no
//! default, because a mean of means is the classic fault of micro-batches.

use polywarp_core::{CompareFn, Error, Expr, Result, Tensor};

/// What becomes of the terms of a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reduction {
    /// Their mean over all elements, rank 0.
    Mean,
    /// Their sum, rank 0: for micro-batches, with [`StepOptions::count`](crate::StepOptions::count).
    Sum,
    /// They stay.
    None,
}

impl Reduction {
    fn of(self, terms: Tensor) -> Result<Tensor> {
        match self {
            Reduction::Mean => terms.mean(..),
            Reduction::Sum => terms.sum(..),
            Reduction::None => Ok(terms),
        }
    }
}

/// Mean squared error: (x - y)^2 of every element, as PyTorch's `mse_loss`. Shapes: `x` and `y` alike, [...]; the result is rank 0, or [...] for
/// [`Reduction::None`]. Before the reduction its derivative is 2 (x - y) by x, and the negative of that by y.
///
/// # Errors
/// [`Error::ShapeMismatch`] for two shapes, even ones that would broadcast; as [`Tensor::map`].
pub fn mse_loss(x: &Tensor, y: &Tensor, reduction: Reduction) -> Result<Tensor> {
    let difference = Expr::input(0) - Expr::input(1);
    reduction.of(terms("mse_loss", &(difference.clone() * difference), x, y)?)
}

/// Binary cross-entropy of logits x with targets z of 0..=1: -z log p - (1 - z) log(1 - p) of the probability p = 1/(1 + e^-x), in the form
/// max(x, 0) - x z + log(1 + e^-|x|), which neither overflows nor takes the logarithm of 0, for any finite x. It is that of PyTorch's
/// `binary_cross_entropy_with_logits` and of TensorFlow's `sigmoid_cross_entropy_with_logits`, whose documentation derives it. Shapes: `x` and `z`
/// alike, [...]; the result is rank 0, or [...] for [`Reduction::None`]. The derivative by x is p - z, at 0 as well.
///
/// # Errors
/// [`Error::ShapeMismatch`] for two shapes, even ones that would broadcast; as [`Tensor::map`].
pub fn binary_cross_entropy_with_logits(x: &Tensor, z: &Tensor, reduction: Reduction) -> Result<Tensor> {
    let [x_of, z_of] = [0, 1].map(Expr::input);
    // Where x is 0 relu's derivative is 0 and this one's -1: together the 1/2 - z that the whole has.
    let magnitude = x_of.compare(CompareFn::Gt, 0.0).select(x_of.clone(), -x_of.clone());
    // In this order a target of 1 is taken from the derivative's 1 before the tail joins them, which so keeps its digits.
    let loss = log1p((-magnitude).exp()) + (x_of.relu() - x_of * z_of);
    reduction.of(terms("binary_cross_entropy_with_logits", &loss, x, z)?)
}

/// log(1 + y) for 0 <= y <= 1. Below 1/8 by its series, cut where a term is 2^-27 of the sum: 1 + y would lose the digits of y.
fn log1p(y: Expr) -> Expr {
    let mut series = Expr::constant(1.0 / 8.0);
    for n in (1..8).rev() {
        series = -(y.clone() * series) + 1.0 / f64::from(n);
    }
    y.compare(CompareFn::Lt, 0.125).select(y.clone() * series, (y + 1.0).log())
}

fn terms(op: &'static str, expr: &Expr, x: &Tensor, y: &Tensor) -> Result<Tensor> {
    if x.shape() != y.shape() {
        return Err(Error::shape_mismatch(op, x.shape(), y.shape(), None));
    }
    Tensor::map(expr, &[x, y])
}
