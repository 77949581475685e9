//! [`Tensor::attention`]: attention of tensors, and its options.
//!
//! The decision to know: views of a packed projection are taken as they lie; only heads whose elements lie apart are copied.

use super::{Attention, AttentionDropout, OP};
use crate::ops::GraphOp;
use crate::{DType, Error, Precision, RandomKey, Result, Tensor};

/// Which way attention is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AttentionForm {
    /// As one operation, whose probabilities are never in memory. Its gradient has no gradient.
    #[default]
    Fused,
    /// As a graph of products, maps and a softmax: for gradients of second order.
    Composed,
}

/// How [`Tensor::attention`] is computed.
#[derive(Clone, Copy, Debug, Default)]
pub struct AttentionOptions<'a> {
    /// What scores are multiplied by; 1 / sqrt(size) where nothing is said.
    pub scale: Option<f64>,
    /// Which keys a query may see: bool, broadcast to [batch, heads, queries, keys].
    pub mask: Option<&'a Tensor>,
    /// Whether query i sees keys up to i + keys - queries alone: the last query sees all keys.
    pub causal: bool,
    /// How exact products of f32 are.
    pub precision: Precision,
    /// The rate at which probabilities are dropped, and the key of the numbers that decide which.
    pub dropout: Option<(f64, &'a RandomKey)>,
    /// Which way.
    pub form: AttentionForm,
}

/// What attention gives.
#[derive(Clone, Debug)]
pub struct Attended {
    /// [batch, queries, heads, width] in the operands' dtype; zero for queries that see nothing.
    pub out: Tensor,
    /// [batch, heads, queries] in f32 (f64 for f64): the logarithm of the sum of exponentials of the scores seen, -inf for queries that see
    /// nothing. By it results over parts of the keys can be put together.
    pub lse: Tensor,
}

impl Tensor {
    /// Attention of the queries `self` [batch, queries, heads, size] to keys [batch, keys, groups, size] and values [batch, keys, groups,
    /// width]: [batch, queries, heads, width]. Heads are a multiple of groups; see [`Attention`].
    ///
    /// ```
    /// use polywarp_core::{AttentionOptions, Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let q = Tensor::from_slice(&device, &[1.0f32, 0.0], [1, 1, 1, 2])?;
    /// let k = Tensor::from_slice(&device, &[0.0f32, 1.0, 0.0, -1.0], [1, 2, 1, 2])?;
    /// let v = Tensor::from_slice(&device, &[1.0f32, 3.0], [1, 2, 1, 1])?;
    /// // Both scores are 0.
    /// assert_eq!(q.attention(&k, &v, &AttentionOptions::default())?.to_vec::<f32>()?, [2.0]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Attention::check`]; [`Error::DTypeMismatch`] for a mask that is not bool; [`Error::DeviceMismatch`]; memory errors of the device.
    pub fn attention(&self, k: &Tensor, v: &Tensor, options: &AttentionOptions<'_>) -> Result<Tensor> {
        Ok(self.attention_with_lse(k, v, options)?.out)
    }

    /// The same, with the logarithms of the sums of exponentials.
    ///
    /// # Errors
    /// As [`Tensor::attention`].
    pub fn attention_with_lse(&self, k: &Tensor, v: &Tensor, options: &AttentionOptions<'_>) -> Result<Attended> {
        let [q, k, v] = [self, k, v].map(dense_heads);
        let (q, k, v) = (q?, k?, v?);
        let op = Attention::new(q.spec(), k.spec(), v.spec())?;
        let dims = op.dims();
        let mask = options.mask.map(|mask| {
            if mask.dtype() != DType::Bool {
                return Err(Error::DTypeMismatch { op: OP, expected: DType::Bool, got: mask.dtype() });
            }
            mask.broadcast_to([dims.batch, dims.heads, dims.queries, dims.keys])
        });
        let mask = mask.transpose()?;
        let words = options.dropout.map(|(_, key)| key.tensors());
        let dropout =
            options.dropout.map(|(rate, key)| AttentionDropout { rate, key: key.tensors().map(|words| words.spec()) });
        let op = Attention {
            mask: mask.as_ref().map(Tensor::spec),
            dropout,
            scale: options.scale.unwrap_or(op.scale),
            causal: options.causal,
            precision: options.precision,
            ..op
        }
        .check()?;
        let held: Vec<&Tensor> = [&q, &k, &v].into_iter().chain(&mask).chain(words.into_iter().flatten()).collect();
        let mut results = match options.form {
            AttentionForm::Fused => Tensor::apply(self.device(), op, &held)?,
            AttentionForm::Composed => {
                let inputs = held.iter().map(|tensor| tensor.spec()).collect();
                let (graph, used) = GraphOp::new(OP, op.composed()?, inputs, vec![op.out, op.lse]);
                let held: Vec<&Tensor> = used.into_iter().filter_map(|number| held.get(number).copied()).collect();
                Tensor::apply(self.device(), graph, &held)?
            }
        }
        .into_iter();
        match (results.next(), results.next()) {
            (Some(out), Some(lse)) => Ok(Attended { out, lse }),
            _ => Err(Error::InvalidArgument { what: "operation", reason: format!("{OP} gave no results") }),
        }
    }
}

/// The same heads with their elements one after the other.
fn dense_heads(x: &Tensor) -> Result<Tensor> {
    let is_dense = x.rank() != 4 || x.dims()[3] <= 1 || x.layout().strides()[3] == 1;
    if is_dense { Ok(x.clone()) } else { x.contiguous() }
}
