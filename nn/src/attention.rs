//! Scaled dot-product attention (Vaswani et al., arXiv 1706.03762): softmax(q k^T scale) v, of heads.
//!
//! Composed of two products, a map where there are masks, and a softmax. Scores are in f32 whatever the operands are. The decision to
//! know: a key that a query may not see is left out by choice and never by a number that is added, so that what lies there, NaN too,
//! has no influence; a query that sees nothing gives zeros and gets zero gradients.

use polywarp_core::{CompareFn, DType, Error, Expr, MatmulOptions, Precision, Result, Shape, Tensor};

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
/// operands' dtype. Heads are a multiple of groups, and heads / groups heads in turn share keys and values.
///
/// # Errors
/// [`Error::ShapeMismatch`] and [`Error::InvalidArgument`] for operands of other shapes, [`Error::DTypeMismatch`] for a mask that is not bool; as
/// [`Tensor::matmul_with`].
pub fn attention(q: &Tensor, k: &Tensor, v: &Tensor, options: &AttentionOptions<'_>) -> Result<Tensor> {
    let (&[batch, heads, queries, size], &[_, groups, keys, _], &[_, _, _, width]) = (q.dims(), k.dims(), v.dims())
    else {
        let reason = format!("attention takes operands of rank 4, not {}, {} and {}", q.rank(), k.rank(), v.rank());
        return invalid("operands", reason);
    };
    for (operand, want) in [(k, [batch, groups, keys, size]), (v, [batch, groups, keys, width])] {
        if operand.dims() != want {
            return Err(Error::shape_mismatch("attention", operand.shape(), &Shape::new(&want)?, None));
        }
    }
    if groups == 0 || heads % groups != 0 {
        return invalid("operands", format!("{heads} heads cannot share keys of {groups} groups"));
    }
    // Heads of one group side by side: its keys are repeated for them without a copy.
    let each = heads / groups;
    let (q, k, v) = if each == 1 {
        (q.clone(), k.clone(), v.clone())
    } else {
        let shared = |x: &Tensor| x.unsqueeze(2);
        (q.reshape([batch, groups, each, queries, size])?, shared(k)?, shared(v)?)
    };
    let wide = if q.dtype() == DType::F64 { None } else { Some(DType::F32) };
    let scale = options.scale.unwrap_or(1.0 / (size.max(1) as f64).sqrt());
    let product =
        MatmulOptions { alpha: scale, precision: options.precision, output: wide, ..MatmulOptions::default() };
    let scores = q.matmul_with(&k.t()?, &product)?;
    let scores = masked(&scores, options, [batch, heads, queries, keys])?;
    let probabilities = scores.softmax(scores.rank() - 1)?.cast(q.dtype())?;
    let probabilities = match options.dropout {
        Some((rate, dropout)) => dropout.forward(&probabilities, rate)?,
        None => probabilities,
    };
    let product = MatmulOptions { precision: options.precision, ..MatmulOptions::default() };
    let sums = probabilities.matmul_with(&v, &product)?;
    if each == 1 { Ok(sums) } else { sums.reshape([batch, heads, queries, width]) }
}

/// Scores of keys that may not be seen become -inf.
fn masked(scores: &Tensor, options: &AttentionOptions<'_>, dims: [u64; 4]) -> Result<Tensor> {
    let [batch, heads, queries, keys] = dims;
    let (mut held, mut is_hidden): (Vec<Tensor>, Option<Expr>) = (Vec::new(), None);
    if let Some(mask) = options.mask {
        if mask.dtype() != DType::Bool {
            return Err(Error::DTypeMismatch { op: "attention", expected: DType::Bool, got: mask.dtype() });
        }
        let mask = mask.broadcast_to([batch, heads, queries, keys])?;
        held.push(if scores.rank() == 4 { mask } else { mask.reshape(*scores.shape())? });
        is_hidden = Some(Expr::input(1).compare(CompareFn::Eq, false));
    }
    if options.causal {
        let device = scores.device();
        // The last key that each query sees, and each key: in i32, which every device has.
        let last = Tensor::arange(device, DType::I32, keys as i64 - queries as i64, 1, queries)?.unsqueeze(1)?;
        let key = Tensor::arange(device, DType::I32, 0, 1, keys)?;
        let is_later = Expr::input(held.len() + 2).compare(CompareFn::Gt, Expr::input(held.len() + 1));
        is_hidden = Some(match is_hidden {
            Some(hidden) => hidden.select(Expr::constant(true), is_later),
            None => is_later,
        });
        held.extend([last, key]);
    }
    let Some(is_hidden) = is_hidden else { return Ok(scores.clone()) };
    let hidden = Expr::constant(f64::NEG_INFINITY).cast(scores.dtype());
    let inputs: Vec<&Tensor> = [scores].into_iter().chain(&held).collect();
    Tensor::map(&is_hidden.select(hidden, Expr::input(0)), &inputs)
}
