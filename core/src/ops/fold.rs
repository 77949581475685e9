//! Folds along axes: reductions, positions of extrema, moments, products with a vector, sums of exponentials.
//!
//! A fold says what its state is and how two become one, how elements are read as states, and what the last becomes ([`Text`]). The rest is
//! here, once: which axes go in which pass, along rows or down columns, in slabs whose partial states a later pass reads (`fold/passes.rs`);
//! loops, places, quads and parameters (`fold/frame.rs`); how the threads of a workgroup join their states (`fold/workgroup.rs`). Axes without elements have no passes: operations refuse them, or write constants.

pub(crate) mod frame;
pub(crate) mod passes;
pub(crate) mod workgroup;

use std::fmt::Debug;
use std::hash::Hash;

use crate::Result;

use crate::plan::{Access, Caps, KernelKey, KernelText, Launch, Plan, Source};
use crate::wgsl::element::{self, Element};
use crate::wgsl::math;
use frame::Frame;
pub(crate) use passes::{Partials, Pass, View, Walk, passes};

/// What is folded. Part of kernel keys.
pub(crate) trait Fold: Debug + Eq + Hash + Send + Sync + 'static {
    /// Its text in this frame.
    fn text(&self, frame: &Frame) -> Text;

    /// The most rounds that the loops make, for the `params` of a launch. Other functions have no loops.
    fn loop_rounds(&self, frame: &Frame, params: &[u32]) -> u64 {
        frame.walk.loop_rounds(frame.slab(params))
    }
}

/// A fold as WGSL.
///
/// A thread holds a `Wide`: an `Acc`, which is a state, or four side by side where the frame reads quads. Rows hand on one `Acc`, columns
/// all of `Wide`.
#[derive(Default)]
pub(crate) struct Text {
    /// The kernel's name.
    pub name: String,
    /// Elements whose functions are called.
    pub elements: Vec<Element>,
    /// Members that end `Params`, whose words the planner adds to those of [`Pass::launch`].
    pub members: Vec<String>,
    /// Buffers from binding 1 on: how they are used, and those that the other texts do not declare.
    pub bindings: Vec<Access>,
    pub buffers: String,
    /// `Wide`, `wide_identity()`, which changes nothing, `combine_wide(a, b)` and `absorb(held, x)`; along rows also `Acc`, `combine(a, b)`,
    /// `narrow(w)`, which makes one `Acc` of a `Wide`, and `masked(w, live)`, which keeps the first `live` states of one.
    pub state: String,
    /// `read_at(at, place)`: the elements there, or states that an earlier pass left, as a `Wide`.
    pub read: String,
    /// `write_at(index, v: Acc)` along rows, `write_wide(index, v: Wide)` down columns: states for a later pass, or results.
    pub finish: String,
    /// The loops, such as [`Frame::body`].
    pub body: String,
}

/// The kernel of one pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Kernel<F> {
    frame: Frame,
    fold: F,
}

impl<F: Fold> KernelText for Kernel<F> {
    fn source(&self) -> Source {
        let text = self.fold.text(&self.frame);
        let parts = [&self.frame.head(&text.members), &text.buffers, &text.state, &text.read, &text.finish, &text.body];
        let body = parts.map(String::as_str).concat();
        let wgsl = element::prelude(&text.elements) + &math::library(&body) + &body;
        Source { name: text.name, wgsl, bindings: text.bindings }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        self.fold.loop_rounds(&self.frame, params)
    }
}

/// The passes that fold every axis of `view` that is not kept, each launched by `launch`.
pub(crate) fn plan(
    view: View,
    partials: Partials,
    caps: &Caps,
    launch: impl Fn(&Pass) -> Result<Launch>,
) -> Result<Plan> {
    let (list, scratch_bytes) = passes(view, partials, caps);
    Ok(Plan { launches: list.iter().map(launch).collect::<Result<_>>()?, scratch_bytes })
}

impl Pass {
    /// Its launch by the kernel of `fold`. `total` is the number of elements of a result; `target` where the first is written, in what one
    /// write covers.
    pub fn launch<F: Fold>(&self, fold: F, total: u64, target: u64, caps: &Caps) -> Result<Launch> {
        frame::launch(KernelKey::own(Kernel { frame: Frame::of(self), fold }), self, total, target, caps)
    }
}

#[cfg(test)]
mod tests {
    use super::frame::FOLD;
    use super::*;
    use crate::wgsl::element::Form;
    use crate::wgsl::pieces::holes;
    use crate::wgsl::validate::{Validated, full_caps};
    use crate::{DType, Layout, Shape};

    /// Sums of squares, in f32.
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    struct Squares {
        x: Element,
    }

    impl Fold for Squares {
        fn text(&self, frame: &Frame) -> Text {
            let load = frame.load();
            let value = if frame.partial { load.to_owned() } else { format!("{load} * {load}") };
            Text {
                name: format!("squares_{}", frame.suffix()),
                elements: vec![self.x],
                bindings: vec![Access::Read, Access::ReadWrite],
                buffers: frame.source(self.x) + &self.x.storage(2, "y", Form::Scalar, Access::ReadWrite),
                state: frame.sum(self.x),
                read: FOLD.fill("read", holes!(value)),
                finish: frame.stores(|at, v| format!("store_y({at}, {v})"), "v", |i| format!("v[{i}]")),
                body: frame.body(),
                ..Text::default()
            }
        }
    }

    #[test]
    fn fold_of_a_state_its_reading_and_finishing_runs_over_any_axes() {
        let cases: &[(&[u64], &[usize])] =
            &[(&[7], &[0]), (&[1 << 21], &[0]), (&[5, 64], &[1]), (&[4096, 8], &[0]), (&[4, 6, 8, 12], &[0, 2, 3])];
        let mut validated = Validated::default();
        for caps in [full_caps(), Caps::webgpu_defaults("test")] {
            for (dims, axes) in cases {
                let layout = Layout::contiguous(Shape::new(dims).unwrap());
                let fold = Squares { x: Element::new(DType::F32, &caps).unwrap() };
                let launch = |pass: &Pass| pass.launch(fold.clone(), 0, 0, &caps);
                let partials = Partials::elements(DType::F32);
                let plan = plan(View::of_input(&layout, axes), partials, &caps, launch).unwrap();
                assert_eq!(plan.launches.len(), plan.scratch_bytes.len() + 1, "{dims:?}");
                validated.check(&plan.launches, &caps);
            }
        }
        assert!(validated.kernels() > 5, "{} kernels", validated.kernels());
    }
}
