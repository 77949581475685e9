//! Attention of heads: `softmax(scale q k^T) v` (Vaswani et al., arXiv 1706.03762), without its scores in memory.
//!
//! Of query i with scores `s[j] = scale sum_d q[i, d] k[j, d]` over the keys j that it sees: `lse[i] = log sum_j exp(s[j])`,
//! `p[j] = exp(s[j] - lse[i])` and `out[i] = sum_j p[j] v[j]`. Kernels go over blocks of keys and keep the largest score, the sum of
//! exponentials and the sums of values so far (Dao et al., arXiv 2205.14135; Dao, arXiv 2307.08691).
//!
//! The decision to know: a key that is not seen is left out by choice and never by a number that is added or multiplied, so that what
//! lies there, NaN too, has no influence. (The tensor-core kernels of f16 and bf16 on Hopper multiply a hidden value by a probability of
//! 0: of finite ones nothing is left there, see docs/attention.md.) A query that sees nothing has out = 0 and lse = -inf. Beside out, lse
//! is a result, because the gradient ([`AttentionGradient`]) makes the probabilities again from it.

mod composed;
mod gradient;
mod gradient_oracle;
#[cfg(feature = "cpu")]
pub(crate) mod host;
mod options;
mod oracle;
pub(crate) mod plan;

pub use gradient::{AttentionGradient, LseGradient};
pub use options::{Attended, AttentionForm, AttentionOptions};

use super::prelude::*;
use crate::Precision;

const OP: &str = "attention";

/// The longest heads, of keys and of values, that kernels serve; longer ones are computed by other operations.
pub const LONGEST_HEAD: u64 = 256;

/// Probabilities that are dropped: each with probability `rate`, the others times 1 / (1 - rate).
#[derive(Clone, Copy, Debug)]
pub struct AttentionDropout {
    /// 0 to 1. At 1 nothing is kept, and results are zeros.
    pub rate: f64,
    /// The low words of seed and stream, then their high words: u32 `[2]`, dense ([`crate::RandomKey`]). Probability number
    /// `((b heads + h) queries + i) keys + j` is kept where the uniform number ([`crate::Expr::uniform`]) of that position is not below
    /// `rate` in f32.
    pub key: [TensorSpec; 2],
}

impl AttentionDropout {
    /// What kept probabilities are multiplied by. Nothing is kept at rate 1, whose factor would be infinite.
    pub fn factor(&self) -> f64 {
        if self.rate < 1.0 { 1.0 / (1.0 - self.rate) } else { 0.0 }
    }

    /// A probability is kept where the upper 24 of its 32 random bits, as a number, are not below this: the rate in f32, as steps of 2^-24.
    pub fn threshold(&self) -> u32 {
        const STEPS: f64 = 16_777_216.0;
        (f64::from(self.rate as f32) * STEPS).ceil() as u32
    }
}

/// Attention; see the [module](self).
#[derive(Clone, Debug)]
pub struct Attention {
    /// Queries [batch, queries, heads, size]: f32, f16, bf16 or f64. The last axis is dense, the others have any strides, here and below.
    pub q: TensorSpec,
    /// Keys [batch, keys, groups, size], of q's dtype. Heads are a multiple of groups, and heads / groups heads in turn share one group.
    pub k: TensorSpec,
    /// Values [batch, keys, groups, width], of q's dtype.
    pub v: TensorSpec,
    /// Which keys a query may see: bool [batch, heads, queries, keys] of any strides, zeros too.
    pub mask: Option<TensorSpec>,
    /// Probabilities that are dropped.
    pub dropout: Option<AttentionDropout>,
    /// What scores are multiplied by.
    pub scale: f64,
    /// Whether query i sees keys up to i + keys - queries alone: the last query sees all keys.
    pub causal: bool,
    /// How exact products of f32 must be.
    pub precision: Precision,
    /// Dense result [batch, queries, heads, width] of q's dtype.
    pub out: TensorSpec,
    /// Dense result [batch, heads, queries] in f32 (f64 for f64): the logarithm of the sum of exponentials of the scores seen.
    pub lse: TensorSpec,
}

/// Its extents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AttentionDims {
    /// Independent attentions.
    pub batch: u64,
    /// Queries of each.
    pub queries: u64,
    /// Keys of each.
    pub keys: u64,
    /// Heads of queries.
    pub heads: u64,
    /// Heads of keys and values.
    pub groups: u64,
    /// Elements of a head's query and key.
    pub size: u64,
    /// Elements of a head's value.
    pub width: u64,
}

impl AttentionDims {
    /// Heads that share a group.
    pub fn shared(&self) -> u64 {
        self.heads / self.groups.max(1)
    }

    /// Pairs of queries and keys, of all heads.
    pub fn pairs(&self) -> u64 {
        [self.heads, self.queries, self.keys].into_iter().fold(self.batch, u64::saturating_mul)
    }

    /// How many of the first keys query `i` sees where attention is causal.
    pub fn before(&self, i: u64) -> u64 {
        (i + 1 + self.keys).saturating_sub(self.queries).min(self.keys)
    }
}

impl Attention {
    /// A checked attention without mask and dropout, every key seen, at scale 1 / sqrt(size) and [`Precision::Highest`], whose results start
    /// their buffers. Fields say more; [`Attention::check`] then checks again.
    ///
    /// # Errors
    /// As [`Attention::check`].
    pub fn new(q: TensorSpec, k: TensorSpec, v: TensorSpec) -> Result<Attention> {
        let (&[batch, queries, heads, size], &[.., width]) = (q.layout.dims(), v.layout.dims()) else {
            let reason = format!(
                "{OP} takes q [batch, queries, heads, size], k [batch, keys, groups, size] and v [batch, keys, groups, width], not {:?}, \
                 {:?} and {:?}",
                q.layout.dims(),
                k.layout.dims(),
                v.layout.dims()
            );
            return Err(Error::InvalidArgument { what: "operands", reason });
        };
        let dense = |dtype: DType, dims: &[u64]| Ok(TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims)?)));
        let out = dense(q.dtype, &[batch, queries, heads, width])?;
        let lse = dense(q.dtype.compute(), &[batch, heads, queries])?;
        let scale = 1.0 / (size.max(1) as f64).sqrt();
        let (mask, dropout, causal, precision) = (None, None, false, Precision::Highest);
        Attention { q, k, v, mask, dropout, scale, causal, precision, out, lse }.check()
    }

    /// The same with other options, checked again.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for operands of another rank, heads that groups do not divide, a last axis that is not dense, a scale that
    /// is not finite, a rate that is not in 0..=1 and results that are not dense; [`Error::ShapeMismatch`]; [`Error::UndefinedForDType`] for
    /// operands that are none of f32, f16, bf16 and f64; [`Error::DTypeMismatch`] for operands of different dtypes, a mask that is not bool, a
    /// key that is not u32 and an lse of another type than f32 (f64 for f64).
    pub fn check(self) -> Result<Attention> {
        let invalid = |what, reason: String| Err(Error::InvalidArgument { what, reason });
        let Attention { q, k, v, mask, dropout, scale, out, lse, .. } = &self;
        if [q, k, v].iter().any(|spec| spec.layout.rank() != 4) {
            let [q, k, v] = [q, k, v].map(|spec| spec.layout.rank());
            return invalid("operands", format!("{OP} takes operands of rank 4, not {q}, {k} and {v}"));
        }
        if !matches!(q.dtype, DType::F32 | DType::F16 | DType::BF16 | DType::F64) {
            return Err(Error::UndefinedForDType { op: OP, dtype: q.dtype });
        }
        let AttentionDims { batch, queries, keys, heads, groups, size, width } = self.dims();
        if if groups == 0 { heads != 0 } else { heads % groups != 0 } {
            let reason = format!("{heads} heads cannot share keys of {groups} groups; heads are a multiple of groups");
            return invalid("operands", reason);
        }
        if !scale.is_finite() {
            return invalid("scale", format!("{OP} multiplies scores by a finite number, not by {scale}"));
        }
        let compute = q.dtype.compute();
        let mut wanted = vec![
            (*k, vec![batch, keys, groups, size], q.dtype),
            (*v, vec![batch, keys, groups, width], q.dtype),
            (*out, vec![batch, queries, heads, width], q.dtype),
            (*lse, vec![batch, heads, queries], compute),
        ];
        wanted.extend(mask.map(|mask| (mask, vec![batch, heads, queries, keys], DType::Bool)));
        if let Some(dropout) = dropout {
            if !(0.0..=1.0).contains(&dropout.rate) {
                return invalid("dropout", format!("{} is no probability", dropout.rate));
            }
            wanted.extend(dropout.key.map(|words| (words, vec![2], DType::U32)));
            if let Some(words) = dropout.key.iter().find(|words| !words.layout.is_contiguous()) {
                return invalid("key", format!("{OP} reads dense words of a key, not {:?}", words.layout));
            }
        }
        for (spec, dims, dtype) in wanted {
            if spec.layout.dims() != dims {
                return Err(Error::shape_mismatch(OP, spec.layout.shape(), &Shape::new(&dims)?, None));
            }
            if spec.dtype != dtype {
                return Err(Error::DTypeMismatch { op: OP, expected: dtype, got: spec.dtype });
            }
        }
        for spec in [q, k, v] {
            if spec.layout.dims()[3] > 1 && spec.layout.strides()[3] != 1 && spec.layout.elements() > 0 {
                let reason = format!(
                    "{OP} takes heads that are dense, not those of {:?}; make it contiguous first",
                    spec.layout
                );
                return invalid("operands", reason);
            }
        }
        [out, lse].iter().try_for_each(|output| check_dense_output(OP, output))?;
        Ok(self)
    }

    /// The extents.
    pub fn dims(&self) -> AttentionDims {
        let at = |spec: &TensorSpec, axis: usize| spec.layout.dims().get(axis).copied().unwrap_or(0);
        let (q, k, v) = (&self.q, &self.k, &self.v);
        let [batch, queries, heads, size] = [0, 1, 2, 3].map(|axis| at(q, axis));
        AttentionDims { batch, queries, keys: at(k, 1), heads, groups: at(k, 2), size, width: at(v, 3) }
    }

    /// Everything it is, numbers by their bits.
    fn identity(&self) -> impl Eq + std::hash::Hash + use<> {
        let Attention { q, k, v, mask, dropout, scale, causal, precision, out, lse } = *self;
        let dropout = dropout.map(|dropout| (dropout.rate.to_bits(), dropout.key));
        ([q, k, v, out, lse], mask, dropout, scale.to_bits(), causal, precision)
    }

    /// What it reads.
    fn reads(&self) -> impl Iterator<Item = TensorSpec> + use<> {
        let key = self.dropout.map(|dropout| dropout.key);
        [self.q, self.k, self.v].into_iter().chain(self.mask).chain(key.into_iter().flatten())
    }

    /// Whether kernels are for heads of its length.
    pub(crate) fn has_short_heads(&self) -> bool {
        let dims = self.dims();
        dims.size.max(dims.width) <= LONGEST_HEAD
    }

    /// Multiplications and additions of `products` products of all pairs with vectors of a head, half of them where it is causal, and four
    /// operations more for each probability.
    fn flops(&self, products: [u64; 2]) -> Arithmetic {
        let dims = self.dims();
        let seen = if self.causal { dims.pairs() / 2 } else { dims.pairs() };
        let each = 2 * (products[0] * dims.size + products[1] * dims.width) + 4;
        Arithmetic { flops: seen.saturating_mul(each), multiplies: Some(self.q.dtype) }
    }

    /// The last queries of the last heads of the last batch, whose place leaves what they see as it was.
    fn last(&self, rows: u64) -> Result<Option<Attention>> {
        let dims = self.dims();
        if dims.pairs() == 0 || self.dropout.is_some() {
            return Ok(None);
        }
        let rows = rows.min(dims.queries);
        let cut = |spec: &TensorSpec, cuts: [(usize, u64); 3]| -> Result<TensorSpec> {
            let mut layout = spec.layout;
            for (axis, keep) in cuts {
                let extent = layout.dims()[axis];
                layout = layout.slice(axis, extent - keep.min(extent), extent, 1)?;
            }
            Ok(TensorSpec { layout, ..*spec })
        };
        let shared = dims.shared();
        let [q, out] = [self.q, self.out].map(|spec| cut(&spec, [(0, 1), (1, rows), (2, shared)]));
        let [k, v] = [self.k, self.v].map(|spec| cut(&spec, [(0, 1), (1, dims.keys), (2, 1)]));
        let mask = self.mask.map(|mask| cut(&mask, [(0, 1), (1, shared), (2, rows)])).transpose()?;
        let lse = cut(&self.lse, [(0, 1), (1, shared), (2, rows)])?;
        Ok(Some(Attention { q: q?, k: k?, v: v?, mask, out: out?, lse, ..self.clone() }))
    }
}

impl PartialEq for Attention {
    fn eq(&self, other: &Attention) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Attention {}

impl std::hash::Hash for Attention {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

impl Operation for Attention {
    fn name(&self) -> &'static str {
        OP
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        self.reads().map(Operand::read).for_each(&mut *each);
        [self.out, self.lse].map(Operand::write).into_iter().for_each(each);
    }

    fn validate(&self) -> Result<()> {
        self.clone().check().map(drop)
    }

    fn arithmetic(&self) -> Arithmetic {
        self.flops([1, 1])
    }

    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        oracle::forward(self, before)
    }

    /// [`AttentionGradient`], which reads what was read, out, lse and their gradients.
    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        gradient::rule(self, RuleBuilder::new(self, needs)?, needs)
    }

    /// Where heads are longer than kernels serve: [`Attention::composed`].
    fn decompose(&self) -> Result<Option<Graph>> {
        if self.has_short_heads() { Ok(None) } else { self.composed().map(Some) }
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::forward(self, caps)
    }

    fn candidates(&self, caps: &Caps) -> Result<Vec<Candidate>> {
        plan::forward_candidates(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::forward(self, inputs, outputs)
    }

    fn describe(&self, name: &mut String) {
        describe(self, name);
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    /// The op on the first `extent` parts of the batch. Numbers that are dropped depend on their place in all of it.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        if axis != 0 || self.dropout.is_some() {
            return None;
        }
        let mask = match self.mask {
            Some(mask) => Some(mask.first(0, extent)?),
            None => None,
        };
        let [q, k, v] = [self.q, self.k, self.v].map(|spec| spec.first(0, extent));
        let [out, lse] = [self.out, self.lse].map(|spec| spec.dense_first(0, extent));
        Some(Attention { q: q?, k: k?, v: v?, mask, out: out?, lse: lse?, ..self.clone() }.into())
    }

    fn with_output(&self, number: usize, output: TensorSpec) -> Option<Op> {
        let mut op = self.clone();
        match number {
            0 => op.out = output,
            1 => op.lse = output,
            _ => return None,
        }
        Some(op.into())
    }

    /// The last queries of one group of heads.
    fn sample(&self) -> Result<Option<Sample>> {
        const ROWS: u64 = 48;
        let Some(last) = self.last(ROWS)? else { return Ok(None) };
        let positions = vec![last.out.layout, last.lse.layout];
        let [out, lse] = [last.out, last.lse].map(|spec| sample::dense(spec.dtype, &spec.layout));
        let op = Attention { out, lse, ..last }.check()?;
        Ok(Some(Sample { op: op.into(), positions }))
    }

    /// Without the last key; which keys are seen depends on their number where it is causal, and which are kept where some are dropped.
    fn shortened(&self) -> Result<Option<Op>> {
        let keys = self.dims().keys;
        if keys == 0 || self.causal || self.dropout.is_some() {
            return Ok(None);
        }
        let but_last = |spec: &TensorSpec, axis: usize| -> Result<TensorSpec> {
            Ok(TensorSpec { layout: spec.layout.slice(axis, 0, keys - 1, 1)?, ..*spec })
        };
        let mask = self.mask.map(|mask| but_last(&mask, 3)).transpose()?;
        let op = Attention { k: but_last(&self.k, 1)?, v: but_last(&self.v, 1)?, mask, ..self.clone() };
        Ok(Some(op.check()?.into()))
    }
}

/// What operands do not tell.
fn describe(op: &Attention, name: &mut String) {
    let dims = op.dims();
    if op.causal {
        name.push_str(" causal");
    }
    if op.scale != 1.0 / (dims.size.max(1) as f64).sqrt() {
        name.push_str(&format!(" scale{}", op.scale));
    }
    if let Some(dropout) = op.dropout {
        name.push_str(&format!(" p{}", dropout.rate));
    }
    if op.precision != Precision::Highest {
        name.push_str(&format!(" {:?}", op.precision));
    }
}

#[cfg(test)]
mod tests;
