//! Means and variances in one walk: the passes of a reduction over sets, each known by its count, its mean and the sum of its squared
//! differences from the mean. The frame (loops, passes) is that of `reduce/`.

use crate::ops::Moments;
use crate::ops::fold::frame::{FOLD, Frame, launch};
use crate::ops::fold::passes::ITEMS;
use crate::ops::fold::{Partials, Pass, View, Walk, passes};
use crate::plan::{Access, Caps, KernelKey, KernelText, Plan, Slot, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::index::check_index;
use crate::wgsl::pieces::{Pieces, holes, pieces};
use crate::{Operation, Result};

const TEXT: Pieces = pieces!("moments.wgsl");

/// Threads of a workgroup where sets are of f64: four of them side by side take 96 bytes of workgroup memory, and WebGPU guarantees 16 KiB.
const WIDE_THREADS: u32 = 128;

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    frame: Frame,
    /// As read.
    input: Element,
    /// What is computed and written: f32 or f64.
    accumulator: Element,
    /// Reads sets of an earlier pass.
    partial: bool,
    /// Writes means and variances, not sets.
    last: bool,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let form = if self.frame.quad { Form::Quad } else { Form::Scalar };
        let mut wgsl = element::prelude(&[self.input, self.accumulator]);
        wgsl += &self.frame.head(&["variance_base".to_owned()]);
        if !self.partial {
            wgsl += &self.input.storage(1, "x", form, Access::Read);
        }
        wgsl += &self.functions();
        wgsl += &if self.partial { self.frame.body().to_owned() } else { self.frame.body_of_items("absorb_elements") };
        let mut bindings = vec![Access::Read, Access::ReadWrite];
        bindings.extend(self.last.then_some(Access::ReadWrite));
        Source { name: format!("moments_{}_{}", self.frame.suffix(), self.input.dtype()), wgsl, bindings }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        self.frame.loop_rounds(params)
    }
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
    let (list, scratch_bytes) = passes(View::of_input(&op.input.layout, &op.axes), sets, caps);
    let launch = |pass: &Pass| {
        let kernel = Kernel {
            frame: Frame::of(pass),
            input: if pass.partial { accumulator } else { input },
            accumulator,
            partial: pass.partial,
            last: pass.last,
        };
        let (target, beside) = if pass.last { (op.mean, op.variance) } else { (op.input, op.input) };
        let base = |at: u64| if pass.last { at } else { 0 };
        let mut launch = launch(KernelKey::own(kernel), pass, 0, base(target.layout.offset()), caps)?;
        launch.params.push(base(beside.layout.offset()) as u32);
        launch.bindings.extend(pass.last.then_some(Slot::Output(1)));
        Ok(launch)
    };
    Ok(Plan { launches: list.iter().map(launch).collect::<Result<_>>()?, scratch_bytes })
}

impl Kernel {
    /// `Acc`, `Wide` and what the loops call.
    fn functions(&self) -> String {
        let (quad, rows) = (self.frame.quad, matches!(self.frame.walk, Walk::Rows { .. }));
        let scalar = self.accumulator.scalar();
        let values = if quad { self.accumulator.vector() } else { scalar.to_owned() };
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
        if !self.partial {
            out += TEXT.get("absorb elements");
        }
        out += TEXT.get("identity");
        if rows {
            out += if quad { TEXT.get("quad of row") } else { FOLD.get("one") };
        }
        if self.partial {
            out += TEXT.get("read sets");
        } else {
            let load = if quad { "load4_x(at)" } else { "load_x(at)" };
            out += &FOLD.fill("read", holes!(value = format!("Wide(Count(1), {load}, Values())")));
        }
        out += TEXT.get(if self.last { "results" } else { "sets" });
        out + TEXT.get(match (rows, quad) {
            (true, _) => "write row",
            (false, false) => "write column",
            (false, true) => "write columns",
        })
    }
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
