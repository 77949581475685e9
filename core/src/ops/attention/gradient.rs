//! The gradient of attention: dq, dk and dv from the gradient of its results, with the probabilities made again from lse.
//!
//! With `p[i, j] = exp(s[i, j] - lse[i])` for the keys that are seen, m what dropout multiplies it by (1 without) and
//! `delta[i] = sum_c dout[i, c] out[i, c]`: `dP[i, j] = sum_c dout[i, c] v[j, c]`,
//! `dS[i, j] = p[i, j] (m[i, j] dP[i, j] - delta[i] + dlse[i])`, `dq[i] = scale sum_j dS[i, j] k[j]`, `dk[j] = scale sum_i dS[i, j] q[i]` and
//! `dv[j] = sum_i m[i, j] p[i, j] dout[i]`, sums over i taken over all heads that share the key. A pair that is not seen gives nothing, by
//! choice, whatever lies there.
//!
//! The decision to know: each sum is one kernel's own, in a fixed order, without atomic additions, so the bits are the same at each run; and
//! the operation is a function of what it reads, so that lse may be any number.

use super::composed;
use super::{Attention, gradient_oracle};
use crate::gradient::{Gradient, Needs};
use crate::graph::Graph;
#[cfg(feature = "cpu")]
use crate::operation::HostResult;
use crate::operation::{Arithmetic, Facts, Op, Operand, Operation, Sample};
use crate::ops::{RuleBuilder, sample};
use crate::ops::{TensorSpec, check_dense_output};
use crate::oracle::{Expected, HostTensor};
use crate::plan::{Candidate, Caps, Plan};
use crate::{Error, Layout, Result};

const OP: &str = "attention_gradient";

/// The gradients of q, k and v, by probabilities that are made again from lse. It reads what [`AttentionGradient::forward`] reads (q, k, v,
/// then mask and key where there are), out, lse, dout and, where there is one, dlse.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AttentionGradient {
    /// What it is the gradient of. Its out and lse are read here.
    pub forward: Attention,
    /// The gradient of out, dense [batch, queries, heads, width] of q's dtype.
    pub dout: TensorSpec,
    /// The gradient of lse, dense [batch, heads, queries] of lse's dtype; none where nothing depends on lse.
    pub dlse: Option<TensorSpec>,
    /// Dense result of the shape and dtype of q.
    pub dq: TensorSpec,
    /// Dense result of the shape and dtype of k.
    pub dk: TensorSpec,
    /// Dense result of the shape and dtype of v.
    pub dv: TensorSpec,
}

/// Whether lse has a gradient of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LseGradient {
    /// It has.
    Given,
    /// Nothing depends on it.
    Absent,
}

impl AttentionGradient {
    /// A checked gradient of `forward`, whose operands beside those of `forward` are dense from the start of their buffers, out and lse too.
    ///
    /// # Errors
    /// As [`AttentionGradient::check`].
    pub fn new(forward: Attention, dlse: LseGradient) -> Result<AttentionGradient> {
        let dense = |spec: TensorSpec| TensorSpec { layout: Layout::contiguous(*spec.layout.shape()), ..spec };
        let forward = Attention { out: dense(forward.out), lse: dense(forward.lse), ..forward };
        let dlse = (dlse == LseGradient::Given).then_some(forward.lse);
        let [dq, dk, dv] = [forward.q, forward.k, forward.v].map(dense);
        AttentionGradient { dout: forward.out, dlse, dq, dk, dv, forward }.check()
    }

    /// The same, checked again.
    ///
    /// # Errors
    /// Those of [`Attention::check`]; [`Error::ShapeMismatch`], [`Error::DTypeMismatch`] and [`Error::InvalidArgument`] for operands of
    /// other shapes and dtypes than those that they are gradients of, and for those that are not dense.
    pub fn check(self) -> Result<AttentionGradient> {
        let forward = self.forward.clone().check()?;
        let mut wanted = vec![(self.dout, forward.out)];
        wanted.extend(self.dlse.map(|dlse| (dlse, forward.lse)));
        let results = [(self.dq, forward.q), (self.dk, forward.k), (self.dv, forward.v)];
        for (gradient, of) in wanted.iter().copied().chain(results) {
            if gradient.layout.shape() != of.layout.shape() {
                return Err(Error::shape_mismatch(OP, gradient.layout.shape(), of.layout.shape(), None));
            }
            if gradient.dtype != of.dtype {
                return Err(Error::DTypeMismatch { op: OP, expected: of.dtype, got: gradient.dtype });
            }
        }
        if let Some((gradient, _)) = wanted.iter().find(|(gradient, _)| !gradient.layout.is_contiguous()) {
            let reason = format!("{OP} reads dense gradients, not {:?}; make them contiguous first", gradient.layout);
            return Err(Error::InvalidArgument { what: "gradient", reason });
        }
        results.iter().try_for_each(|(result, _)| check_dense_output(OP, result))?;
        Ok(self)
    }

    /// What it reads, beside what the forward operation reads: out, lse, dout, dlse.
    pub(super) fn beside(&self) -> impl Iterator<Item = TensorSpec> + use<> {
        [self.forward.out, self.forward.lse, self.dout].into_iter().chain(self.dlse)
    }

    /// The number of the operand out, behind which lse, dout and dlse follow.
    pub fn place_of_out(&self) -> usize {
        self.forward.reads().count()
    }
}

/// The rule of `op`.
pub(super) fn rule(op: &Attention, mut rule: RuleBuilder, needs: &Needs<'_>) -> Result<Gradient> {
    let wanted: Vec<bool> = [0, 1, 2].map(|number| rule.wants(number)).to_vec();
    if !wanted.contains(&true) {
        return rule.finish(Vec::new());
    }
    if !needs.outputs.contains(&true) {
        return rule.finish(wanted.iter().filter(|wanted| **wanted).map(|_| None).collect());
    }
    let has_dlse = needs.outputs.get(1) == Some(&true);
    let gradient = AttentionGradient::new(op.clone(), if has_dlse { LseGradient::Given } else { LseGradient::Absent })?;
    let reads = op.reads().count();
    let mut values = (0..reads).map(|number| rule.input(number)).collect::<Result<Vec<_>>>()?;
    values.extend([rule.output(0)?, rule.output(1)?]);
    values.push(if needs.outputs[0] {
        rule.gradient(0)?
    } else {
        rule.graph.full(op.out.dtype, *op.out.layout.shape(), 0)?
    });
    if has_dlse {
        values.push(rule.gradient(1)?);
    }
    let found = rule.graph.apply(gradient, &values)?;
    let found = found.into_iter().zip(wanted).filter(|(_, wanted)| *wanted).map(|(value, _)| Some(value));
    rule.finish(found.collect())
}

impl Operation for AttentionGradient {
    fn name(&self) -> &'static str {
        OP
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        self.forward.reads().chain(self.beside()).map(Operand::read).for_each(&mut *each);
        [self.dq, self.dk, self.dv].map(Operand::write).into_iter().for_each(each);
    }

    fn validate(&self) -> Result<()> {
        self.clone().check().map(drop)
    }

    /// Five products where the forward operation has two.
    fn arithmetic(&self) -> Arithmetic {
        self.forward.flops([3, 2])
    }

    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        gradient_oracle::backward(self, before)
    }

    fn gradient(&self, _: &Needs<'_>) -> Result<Gradient> {
        Ok(Gradient::Refused(
            "attention's gradient makes its probabilities again and has no rule of its own; take attention in its composed form \
             (AttentionForm::Composed) for gradients of second order",
        ))
    }

    /// Where heads are longer than kernels serve: [`AttentionGradient::composed`].
    fn decompose(&self) -> Result<Option<Graph>> {
        if self.forward.has_short_heads() { Ok(None) } else { self.composed().map(Some) }
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        super::plan::backward(self, caps)
    }

    fn candidates(&self, caps: &Caps) -> Result<Vec<Candidate>> {
        super::plan::backward_candidates(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        super::host::backward(self, inputs, outputs)
    }

    fn describe(&self, name: &mut String) {
        super::describe(&self.forward, name);
        if self.dlse.is_some() {
            name.push_str(" dlse");
        }
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    /// On the first `extent` parts of the batch.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        if axis != 0 {
            return None;
        }
        let forward = self.forward.piece(0, extent)?.get::<Attention>()?.clone();
        let (out, lse) = (self.forward.out.first(0, extent)?, self.forward.lse.first(0, extent)?);
        let dlse = match self.dlse {
            Some(dlse) => Some(dlse.first(0, extent)?),
            None => None,
        };
        let [dq, dk, dv] = [self.dq, self.dk, self.dv].map(|spec| spec.dense_first(0, extent));
        let forward = Attention { out, lse, ..forward };
        let dout = self.dout.first(0, extent)?;
        Some(AttentionGradient { forward, dout, dlse, dq: dq?, dk: dk?, dv: dv? }.into())
    }

    /// The last queries and the last keys of one group of heads.
    fn sample(&self) -> Result<Option<Sample>> {
        // What results lie as: the operands that they are gradients of.
        let lse = self.dlse.unwrap_or(self.forward.lse);
        let gradients = Attention { q: self.dq, k: self.dk, v: self.dv, out: self.dout, lse, ..self.forward.clone() };
        let all = |attention: &Attention| attention.last(u64::MAX);
        let (Some(forward), Some(group), Some(rows)) = (all(&self.forward)?, all(&gradients)?, gradients.last(EDGE)?)
        else {
            return Ok(None);
        };
        let last_keys = |spec: TensorSpec| -> Result<Layout> {
            let keys = spec.layout.dims()[1];
            spec.layout.slice(1, keys.saturating_sub(EDGE), keys, 1)
        };
        let positions = [rows.q.layout, last_keys(group.k)?, last_keys(group.v)?];
        let dense = |number: usize, spec: TensorSpec| sample::dense(spec.dtype, &positions[number]);
        let of = AttentionGradient {
            forward,
            dout: group.out,
            dlse: self.dlse.map(|_| group.lse),
            dq: dense(0, self.dq),
            dk: dense(1, self.dk),
            dv: dense(2, self.dv),
        };
        Ok(Some(Sample { op: Edges { of }.into(), positions: positions.to_vec() }))
    }

    fn with_output(&self, number: usize, output: TensorSpec) -> Option<Op> {
        let mut op = self.clone();
        match number {
            0 => op.dq = output,
            1 => op.dk = output,
            2 => op.dv = output,
            _ => return None,
        }
        Some(op.into())
    }
}

/// How many queries and keys a sample has.
const EDGE: u64 = 48;

/// What a sample of a large gradient is solved by: dq of the last [`EDGE`] queries, each a sum over all keys, dk and dv of the last keys, sums over all
/// queries. No smaller gradient has both, so that this is no operation for devices: none plans it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Edges {
    /// One group of heads, with what is compared in place of dq, dk and dv.
    of: AttentionGradient,
}

impl Operation for Edges {
    fn name(&self) -> &'static str {
        OP
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        self.of.operands(each);
    }

    /// It is made of what was checked.
    fn validate(&self) -> Result<()> {
        Ok(())
    }

    fn arithmetic(&self) -> Arithmetic {
        self.of.arithmetic()
    }

    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        gradient_oracle::edges(&self.of, before, EDGE)
    }

    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        self.of.gradient(needs)
    }
}

impl AttentionGradient {
    /// The same as a graph of products, maps and sums, with probabilities in memory.
    ///
    /// # Errors
    /// None that a device could cause: shapes beyond any device.
    pub fn composed(&self) -> Result<Graph> {
        composed::backward(self)
    }
}
