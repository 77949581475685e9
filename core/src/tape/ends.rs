//! Where gradients go: new tensors, or places that the caller has for those of watched tensors.
//!
//! The decision to know: a rule's graph is asked to end where its results are wanted ([`Graph::end_at`](crate::graph::Graph::end_at)), in the order in
//! which the watched tensor lies and in the dtype of its place, so that a product writes the gradient of a transposed weight without a
//! copy. A later contribution is added in the place.

use std::collections::HashMap;

use super::parts::Sum;
use super::{Tape, add, into_base, rule};
use crate::gradient::Needs;
use crate::ops::{End, GraphOp, OUTPUT_ALIGNMENT_BYTES};
use crate::{DType, Device, Error, Expr, Layout, Op, Result, Tensor, TensorSpec};

/// Places for the gradients of watched nodes.
#[derive(Debug, Default)]
pub(super) struct Places {
    of: HashMap<usize, Tensor>,
}

impl Places {
    /// The place of `node`, if nothing is there yet.
    pub fn for_first(&self, node: usize, sum: &Sum) -> Option<&Tensor> {
        self.of.get(&node).filter(|_| sum.is_none())
    }

    /// Whether the gradient of `view` is wanted as the operation gives it: its part of a place that has a gradient already, or one of
    /// several parts.
    pub fn takes_part(&self, node: usize, base: &TensorSpec, view: &TensorSpec, sum: &Sum) -> bool {
        let Some(place) = self.of.get(&node) else { return sum.takes(base, view) };
        // Operations write from 16-byte boundaries.
        let offset = place.layout().offset() + view.layout.offset() - base.layout.offset();
        !sum.is_none() && view.layout.is_contiguous() && is_aligned(offset, place.dtype())
    }

    /// Adds the gradient of a part, which is taken.
    pub fn add_part(
        &self,
        node: usize,
        base: &TensorSpec,
        view: &TensorSpec,
        sum: &mut Sum,
        gradient: Tensor,
    ) -> Result<()> {
        let Some(place) = self.of.get(&node) else {
            sum.put(base, *view, gradient);
            return Ok(());
        };
        let offset = place.layout().offset() + view.layout.offset() - base.layout.offset();
        let part =
            place.seen_as(TensorSpec::new(place.dtype(), Layout::contiguous(*view.layout.shape()).with_offset(offset)));
        let value = Expr::input(0).cast(place.dtype());
        Tensor::update(&[Expr::input(1) + value], &[&gradient], &[&part]).map(drop)
    }

    /// Adds a contribution to the gradient of `node`: in its place, if it has one.
    pub fn add(&self, node: usize, base: &TensorSpec, sum: &mut Sum, gradient: Tensor) -> Result<()> {
        let Some(place) = self.of.get(&node) else {
            let mut whole = sum.take(base)?;
            add(&mut whole, gradient)?;
            *sum = whole.map_or(Sum::None, Sum::Whole);
            return Ok(());
        };
        let value = Expr::input(0).cast(place.dtype());
        if !sum.is_none() {
            Tensor::update(&[Expr::input(1) + value], &[&gradient], &[place])?;
        } else if !is_same(place, &gradient) {
            Tensor::update(&[value], &[&gradient], &[place])?;
        }
        *sum = Sum::Whole(place.clone());
        Ok(())
    }

    /// Places without a gradient become zero.
    pub fn finish(self, gradients: &[Sum]) -> Result<()> {
        for (node, place) in self.of {
            if gradients[node].is_none() {
                Tensor::update(&[Expr::constant(0.0).cast(place.dtype())], &[], &[&place])?;
            }
        }
        Ok(())
    }
}

/// Whether an operation can write from element `offset` on.
fn is_aligned(offset: u64, dtype: DType) -> bool {
    offset.saturating_mul(dtype.size_bytes()).is_multiple_of(OUTPUT_ALIGNMENT_BYTES)
}

/// Whether both are one memory.
fn is_same(a: &Tensor, b: &Tensor) -> bool {
    a.buffer().same(b.buffer()) && a.spec() == b.spec()
}

impl Tape {
    /// The places by node.
    pub(super) fn places(&self, places: &[(&Tensor, &Tensor)]) -> Result<Places> {
        let refuse = |reason: String| Err(Error::InvalidArgument { what: "place", reason });
        let mut of = HashMap::new();
        for (watched, place) in places {
            let node = self.node(watched).filter(|&node| self.shared.lock().watched[node]);
            let Some(node) = node else { return refuse("it is for a tensor that this tape does not watch".to_owned()) };
            if place.shape() != watched.shape() {
                return Err(Error::shape_mismatch("backward", watched.shape(), place.shape(), None));
            }
            if !matches!(place.dtype(), DType::F32) && place.dtype() != watched.dtype() {
                return Err(Error::DTypeMismatch { op: "backward", expected: watched.dtype(), got: place.dtype() });
            }
            if !place.layout().is_contiguous() {
                return refuse(format!("{:?} is not dense", place.layout()));
            }
            if !is_aligned(place.layout().offset(), place.dtype()) {
                return refuse(format!("{:?} does not start at a multiple of 16 bytes", place.layout()));
            }
            place.expect_device("backward", watched)?;
            let of_place = |place: &Tensor| {
                let start = place.layout().offset() * place.dtype().size_bytes();
                start..start + place.elements() * place.dtype().size_bytes()
            };
            let own = of_place(place);
            let overlaps = |other: &Tensor| {
                let other_bytes = of_place(other);
                other.buffer().same(place.buffer()) && own.start < other_bytes.end && other_bytes.start < own.end
            };
            if of.values().any(overlaps) || of.insert(node, (*place).clone()).is_some() {
                return refuse("two gradients would share it, or one tensor has two; give each its own".to_owned());
            }
        }
        let all: Vec<&Tensor> = of.values().collect();
        super::refuse_overwriting("backward", &all)?;
        Ok(Places { of })
    }
}

/// A gradient that is wanted.
#[derive(Clone)]
pub(super) struct Wanted<'a> {
    /// The tensor that it is of.
    pub base: TensorSpec,
    /// The view of it that the operation read.
    pub view: TensorSpec,
    /// Where it goes.
    pub place: Option<&'a Tensor>,
    /// It is wanted as the operation gives it, to be added in a place.
    pub is_part: bool,
}

impl Wanted<'_> {
    /// What an operation gives for the view, as it is wanted.
    pub fn laid(&self, gradient: Tensor) -> Result<Tensor> {
        if self.is_part { Ok(gradient) } else { into_base(&self.base, &self.view, gradient) }
    }

    /// How the rule's result is to end: in the order of memory, where the view is the whole in another order; in its place, unless
    /// the buffer is among the operands already.
    fn end(&self, taken: &[&Tensor]) -> Option<(End, Option<&Tensor>)> {
        let (base, view) = (&self.base, &self.view);
        if self.is_part {
            return None;
        }
        let order = view.layout.dense_order()?;
        let shape = *view.layout.permute(&order).ok()?.shape();
        let is_whole = view.layout.elements() == base.layout.elements();
        if !is_whole {
            return None;
        }
        // A buffer that is written stands once among the operands.
        let free = |place: &&Tensor| !taken.iter().any(|other| other.buffer().same(place.buffer()));
        let place = self.place.filter(free);
        let dense = Layout::contiguous(shape);
        let spec = match place {
            Some(place) => TensorSpec::new(place.dtype(), dense.with_offset(place.layout().offset())),
            None if order.iter().copied().eq(0..order.len()) => return None,
            None => TensorSpec::new(base.dtype, dense),
        };
        Some((End { order, spec }, place))
    }
}

/// The gradients of the wanted inputs of `op`, in order, each laid into the tensor that it is of unless it is to be added there.
pub(super) fn by_rule(
    op: &Op,
    device: &Device,
    wanted: &[bool],
    saved: &[Option<Tensor>],
    of_outputs: &[Option<Tensor>],
    views: &[Wanted<'_>],
) -> Result<Vec<Tensor>> {
    let given: Vec<bool> = of_outputs.iter().map(Option::is_some).collect();
    let mut rule = rule(op, &Needs { inputs: wanted, outputs: &given })?;
    let missing =
        || Error::InvalidArgument { what: "gradient", reason: format!("{} reads what was not kept", op.name()) };
    let all: Vec<Option<&Tensor>> = saved.iter().chain(of_outputs).map(Option::as_ref).collect();
    let mut taken: Vec<&Tensor> = all.iter().copied().flatten().collect();
    let (mut places, mut is_ended) = (Vec::new(), Vec::new());
    for (number, view) in views.iter().enumerate() {
        let (end, place) = view.end(&taken).unzip();
        if let Some(end) = &end {
            rule.graph.end_at(number, &rule.outputs[number], end)?;
            rule.outputs[number] = end.spec;
        }
        taken.extend(place.flatten());
        places.push(place.flatten().map(|place| place.seen_as(rule.outputs[number])));
        is_ended.push(end.is_some());
    }
    let places: Vec<Option<&Tensor>> = places.iter().map(Option::as_ref).collect();
    let (op, used) = GraphOp::new(op.name(), rule.graph, rule.inputs, rule.outputs);
    let held = used.iter().map(|&number| all.get(number).copied().flatten().ok_or_else(missing));
    let held = held.collect::<Result<Vec<_>>>()?;
    // Without places a tape may follow what runs.
    let is_new = places.iter().all(Option::is_none);
    let found =
        if is_new { Tensor::apply(device, op, &held)? } else { Tensor::apply_into(device, op, &held, &places)? };
    let laid = found.into_iter().zip(views).zip(is_ended).map(|((gradient, view), is_ended)| {
        if is_ended { gradient.reshape(*view.base.layout.shape()) } else { view.laid(gradient) }
    });
    laid.collect()
}
