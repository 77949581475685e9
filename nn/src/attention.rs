//! Scaled dot-product attention (Vaswani et al., arXiv 1706.03762): softmax(q k^T scale) v, of heads that lie before their rows.
//!
//! One operation, [`Tensor::attention`], whose scores are never in memory; heads are exchanged with rows by views, so nothing is copied.
//! The decision to know: a key that a query may not see is left out by choice and never by a number that is added, so that what lies
//! there, NaN too, has no influence; a query that sees nothing gives zeros and gets zero gradients.

use polywarp_core::{Precision, Result, Tensor};

use crate::{Dropout, invalid};

/// How [`attention`] is computed.
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
    /// The rate at which probabilities are dropped, and by which numbers.
    pub dropout: Option<(f64, Dropout<'a>)>,
}

/// q [batch, heads, queries, size], k [batch, groups, keys, size] and v [batch, groups, keys, width] -> [batch, heads, queries, width], in the
/// operands' dtype. Heads are a multiple of groups, and heads / groups heads in turn share keys and values. The result is a view of [batch,
/// queries, heads, width]: exchange heads and queries back, and rows of all heads are dense.
///
/// # Errors
/// [`Error::ShapeMismatch`](polywarp_core::Error::ShapeMismatch) and [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for
/// operands of other shapes, [`Error::DTypeMismatch`](polywarp_core::Error::DTypeMismatch) for a mask that is not bool; as
/// [`Tensor::attention`].
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, options: &AttentionOptions<'_>) -> Result<Tensor> {
    if [q, k, v].iter().any(|x| x.rank() != 4) {
        let reason = format!("attention takes operands of rank 4, not {}, {} and {}", q.rank(), k.rank(), v.rank());
        return invalid("operands", reason);
    }
    let rate = options.dropout.map_or(0.0, |(rate, _)| rate);
    let key = match options.dropout {
        Some((rate, dropout)) if rate != 0.0 => dropout.key()?,
        _ => None,
    };
    let options = polywarp_core::AttentionOptions {
        scale: options.scale,
        mask: options.mask,
        causal: options.causal,
        precision: options.precision,
        dropout: key.as_ref().map(|key| (rate, key)),
        ..polywarp_core::AttentionOptions::default()
    };
    let [q, k, v] = [q, k, v].map(|x| x.transpose(1, 2));
    q?.attention(&k?, &v?, &options)?.transpose(1, 2)
}
