//! Gradients of parts of a tensor, kept apart until the whole is wanted.
//!
//! Of a product whose columns are taken apart again (queries, keys and values of attention) each part has a gradient of its own. Laying each
//! into zeros and adding these up would move the whole once for each part; put side by side each is moved once. The decision to know: parts
//! are runs of columns that do not overlap, which is told from their layouts alone; whatever else comes is laid and added.

use std::ops::Range;

use super::into_base;
use crate::ops::{Builder, GraphOp};
use crate::{Layout, Result, Tensor, TensorSpec};

/// The gradient of a node so far.
#[allow(clippy::large_enum_variant)] // one for each node, of which most have one
#[derive(Debug, Default)]
pub(super) enum Sum {
    /// Nothing yet.
    #[default]
    None,
    /// Of the whole.
    Whole(Tensor),
    /// Of runs of columns, each with the view that it is of.
    Parts(Vec<(Range<u64>, TensorSpec, Tensor)>),
}

impl Sum {
    pub fn is_none(&self) -> bool {
        matches!(self, Sum::None)
    }

    /// Whether the gradient of `view` can be kept as a part.
    pub fn takes(&self, base: &TensorSpec, view: &TensorSpec) -> bool {
        let Some(columns) = columns_of(base, view) else { return false };
        match self {
            Sum::None => true,
            Sum::Whole(_) => false,
            Sum::Parts(parts) => {
                parts.iter().all(|(other, ..)| columns.end <= other.start || other.end <= columns.start)
            }
        }
    }

    /// Keeps the gradient of a part that [`Sum::takes`].
    pub fn put(&mut self, base: &TensorSpec, view: TensorSpec, gradient: Tensor) {
        let Some(columns) = columns_of(base, &view) else { return };
        match self {
            Sum::Parts(parts) => parts.push((columns, view, gradient)),
            Sum::None | Sum::Whole(_) => *self = Sum::Parts(vec![(columns, view, gradient)]),
        }
    }

    /// The gradient of the whole.
    pub fn take(&mut self, base: &TensorSpec) -> Result<Option<Tensor>> {
        match std::mem::take(self) {
            Sum::None => Ok(None),
            Sum::Whole(whole) => Ok(Some(whole)),
            Sum::Parts(mut parts) => match (parts.pop(), parts.is_empty()) {
                (Some((_, view, gradient)), true) => Ok(Some(into_base(base, &view, gradient)?)),
                (Some(last), false) => {
                    parts.push(last);
                    beside(base, &parts).map(Some)
                }
                (None, _) => Ok(None),
            },
        }
    }
}

/// The columns of `base`, a matrix of its last axis, that `view` is, in whatever order of axes; `None` where it is none, or is all.
fn columns_of(base: &TensorSpec, view: &TensorSpec) -> Option<Range<u64>> {
    let (&all, layout) = (base.layout.dims().last()?, &view.layout);
    let mut order: Vec<usize> = (0..layout.rank()).filter(|&axis| layout.dims()[axis] > 1).collect();
    order.sort_by_key(|&axis| std::cmp::Reverse(layout.strides()[axis]));
    let others = (0..layout.rank()).filter(|&axis| layout.dims()[axis] == 1);
    let sorted = layout.permute(&order.into_iter().chain(others).collect::<Vec<_>>()).ok()?.collapse();
    let rows = base.layout.elements() / all.max(1);
    let (&[r, width], &[distance, 1]) = (sorted.dims(), sorted.strides()) else { return None };
    let first = layout.offset().checked_sub(base.layout.offset())?;
    let is_run = r == rows && distance == i64::try_from(all).ok()? && first + width <= all && width < all;
    is_run.then_some(first..first + width)
}

/// The parts side by side; zeros where there is none.
fn beside(base: &TensorSpec, parts: &[(Range<u64>, TensorSpec, Tensor)]) -> Result<Tensor> {
    let all = base.layout.dims().last().copied().unwrap_or(0);
    let covered: u64 = parts.iter().map(|(columns, ..)| columns.end - columns.start).sum();
    let inputs: Vec<TensorSpec> = parts.iter().map(|(.., gradient)| gradient.spec()).collect();
    let outputs = vec![TensorSpec::new(base.dtype, Layout::contiguous(*base.layout.shape()))];
    let mut graph = Builder::new(inputs.clone());
    let whole = if covered < all { graph.full(base.dtype, *base.layout.shape(), 0)? } else { graph.place(outputs[0]) };
    for (number, (_, view, _)) in parts.iter().enumerate() {
        let layout = view.layout.with_offset(view.layout.offset() - base.layout.offset());
        graph.lay(graph.input(number)?, whole, TensorSpec::new(base.dtype, layout))?;
    }
    let name = "parts' gradient";
    let (op, _) = GraphOp::new(name, graph.finish(name, &[whole], &outputs)?, inputs, outputs);
    let held: Vec<&Tensor> = parts.iter().map(|(.., gradient)| gradient).collect();
    let device = held[0].device();
    Ok(Tensor::apply(device, op, &held)?.swap_remove(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DType, Shape};

    fn base() -> TensorSpec {
        TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(&[2, 3, 12]).unwrap()).with_offset(64))
    }

    fn columns(layout: Layout) -> Option<Range<u64>> {
        columns_of(&base(), &TensorSpec::new(DType::F32, layout))
    }

    #[test]
    fn runs_of_columns_are_known_in_any_order_of_axes() {
        let whole = base().layout;
        assert_eq!(columns(whole.slice(2, 4, 8, 1).unwrap()), Some(4..8));
        let heads = whole.slice(2, 0, 4, 1).unwrap().reshape(Shape::new(&[2, 3, 2, 2]).unwrap()).unwrap().unwrap();
        assert_eq!(columns(heads.transpose(1, 2).unwrap()), Some(0..4));
        assert_eq!(columns(whole), None, "all of them");
        assert_eq!(columns(whole.slice(2, 0, 8, 2).unwrap()), None, "every other one");
        assert_eq!(columns(whole.slice(1, 0, 2, 1).unwrap()), None, "not of all rows");
    }

    #[test]
    fn parts_that_overlap_are_not_kept_apart() {
        let view = |from: u64, to: u64| TensorSpec::new(DType::F32, base().layout.slice(2, from, to, 1).unwrap());
        let gradient =
            Tensor::zeros(&crate::Device::new(crate::harness::ReferenceBackend::default()), DType::F32, [2, 3, 4])
                .unwrap();
        let mut sum = Sum::None;
        assert!(sum.takes(&base(), &view(0, 4)));
        sum.put(&base(), view(0, 4), gradient);
        assert!(sum.takes(&base(), &view(4, 8)) && !sum.takes(&base(), &view(3, 7)));
    }
}
