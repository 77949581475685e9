//! Means and variances in one walk: folds of sets, each known by its count, its mean and the sum of its squared differences from the mean.

use crate::ops::Moments;
use crate::ops::fold::frame::{FOLD, Frame};
use crate::ops::fold::passes::ITEMS;
use crate::ops::fold::{self, Fold, Partials, Text, View};
use crate::plan::{Access, Caps, Plan, Slot};
use crate::wgsl::element::Element;
use crate::wgsl::index::check_index;
use crate::wgsl::pieces::{Pieces, holes, pieces};
use crate::{Operation, Result};

const TEXT: Pieces = pieces!("moments.wgsl");

/// Threads of a workgroup where sets are of f64: four of them side by side take 96 bytes of workgroup memory, and WebGPU guarantees 16 KiB.
const WIDE_THREADS: u32 = 128;

/// Sets of elements, as one pass knows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Sets {
    /// As read.
    input: Element,
    /// What is computed and written: f32 or f64.
    accumulator: Element,
    /// Writes means and variances, not sets.
    last: bool,
}

pub(crate) fn plan(op: &Moments, caps: &Caps) -> Result<Plan> {
    for spec in [&op.input, &op.mean, &op.variance] {
        check_index(op.name(), spec)?;
    }
    let (input, accumulator) = (Element::new(op.input.dtype, caps)?, Element::new(op.mean.dtype, caps)?);
    let bytes = accumulator.dtype().size_bytes();
    let most = if bytes == 8 { WIDE_THREADS } else { u32::MAX };
    let caps = &Caps { max_invocations: caps.max_invocations.min(most), ..caps.clone() };
    // Folding sets takes a division.
    let sets = Partials { width: 8, ..Partials::structs(3 * bytes) };
    fold::plan(View::of_input(&op.input.layout, &op.axes), sets, caps, |pass| {
        let fold = Sets { input: if pass.partial { accumulator } else { input }, accumulator, last: pass.last };
        let mut launch = pass.launch(fold, 0, pass.target_base(&op.mean), caps)?;
        launch.params.push(pass.target_base(&op.variance) as u32);
        launch.bindings.extend(pass.last.then_some(Slot::Output(1)));
        Ok(launch)
    })
}

impl Fold for Sets {
    fn text(&self, frame: &Frame) -> Text {
        let mut bindings = vec![Access::Read, Access::ReadWrite];
        bindings.extend(self.last.then_some(Access::ReadWrite));
        let write_one = TEXT.get(if self.last { "results" } else { "sets" });
        let lane = |i| format!("Acc(v.count, v.mean[{i}], v.squares[{i}])");
        let (buffers, read, body) = match frame.partial {
            true => (String::new(), FOLD.fill("states", holes!(state = "Acc")), frame.body()),
            false => {
                let set = format!("Wide(Count(1), {}, Values())", frame.load());
                let read = FOLD.fill("read", holes!(value = set));
                // Elements become a set of their own, as many as a thread loads at a time.
                (frame.source(self.input), read, frame.body_of_items("absorb_elements"))
            }
        };
        Text {
            name: format!("moments_{}_{}", frame.suffix(), self.input.dtype()),
            elements: vec![self.input, self.accumulator],
            members: vec!["variance_base".to_owned()],
            bindings,
            buffers,
            state: self.state(frame),
            read,
            finish: write_one.to_owned() + &frame.writes(|index, v| format!("write_one({index}, {v})"), "v", lane),
            body,
        }
    }
}

impl Sets {
    fn state(&self, frame: &Frame) -> String {
        let (quad, rows) = (frame.quad, frame.walk.is_rows());
        let (scalar, values) = (self.accumulator.scalar(), frame.wide(self.accumulator));
        // Four columns have as many elements each; of a row's end four lanes have not.
        let count = if quad && rows { &values } else { scalar };
        let wide = match quad {
            true => "struct Wide { count: Count, mean: Values, squares: Values }\n",
            false => "alias Wide = Acc;\n",
        };
        let items = format!("{ITEMS}.0{}", if scalar == "f64" { "lf" } else { "" });
        let mut out = TEXT.fill("types", holes!(scalar, values, count, wide, items));
        out += &TEXT.fill("combine", holes!(function = "combine_wide", set = "Wide", count = "Count"));
        if rows {
            out += &TEXT.fill("combine", holes!(function = "combine", set = "Acc", count = "Scalar"));
        }
        out += FOLD.get("absorb");
        if !frame.partial {
            out += TEXT.get("absorb elements");
        }
        out += TEXT.get("identity");
        out + match (rows, quad) {
            (true, true) => TEXT.get("quad of row"),
            (true, false) => FOLD.get("one"),
            (false, _) => "",
        }
    }
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
