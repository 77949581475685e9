//! Means and variances in one walk: the passes of a reduction over sets, each known by its count, its mean and the sum of its squared
//! differences from the mean. The frame (loops, passes) is that of `reduce/`.

use std::fmt::Write;

use crate::ops::Moments;
use crate::ops::reduce::plan::ABSORB;
use crate::ops::reduce::plan::passes::{ITEMS, Partials, Pass, View, Walk, passes};
use crate::ops::reduce::plan::template::{Frame, check_index, launch};
use crate::plan::{Access, Caps, KernelKey, KernelText, Plan, Slot, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::{Operation, Result};

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
        wgsl += &self.frame.head(&["variance_base"]);
        if !self.partial {
            wgsl += &self.input.storage(1, "x", form, Access::Read);
        }
        // Formatting into a String cannot fail.
        let _ = self.write_functions(&mut wgsl);
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
    let (list, sets) = passes(View::of_input(&op.input.layout, &op.axes), Partials::Sets, caps);
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
    Ok(Plan {
        launches: list.iter().map(launch).collect::<Result<_>>()?,
        scratch_bytes: sets.iter().map(|&sets| 3 * bytes * sets).collect(),
    })
}

impl Kernel {
    /// `Acc`, `Wide` and what the loops call.
    fn write_functions(&self, out: &mut String) -> std::fmt::Result {
        let (quad, rows) = (self.frame.quad, matches!(self.frame.walk, Walk::Rows { .. }));
        let scalar = self.accumulator.scalar();
        let wide = if quad { self.accumulator.vector() } else { scalar.to_owned() };
        // Four columns have as many elements each; of a row's end four lanes have not.
        let count = if quad && rows { &wide } else { scalar };
        writeln!(out, "alias Scalar = {scalar};\nalias Values = {wide};\nalias Count = {count};")?;
        writeln!(out, "struct Acc {{ count: Scalar, mean: Scalar, squares: Scalar }}")?;
        if quad {
            writeln!(out, "struct Wide {{ count: Count, mean: Values, squares: Values }}")?;
        } else {
            writeln!(out, "alias Wide = Acc;")?;
        }
        writeln!(
            out,
            "const ITEM_COUNT = {};",
            if scalar == "f64" { format!("{ITEMS}.0lf") } else { format!("{ITEMS}.0") }
        )?;
        *out += &joined("combine_wide", "Wide", "Count");
        if rows {
            *out += &joined("combine", "Acc", "Scalar");
        }
        *out += ABSORB;
        if !self.partial {
            *out += &TEXT[TEXT.find(ABSORB_ELEMENTS).unwrap_or(0)..];
        }
        writeln!(out, "fn wide_identity() -> Wide {{ return Wide(); }}")?;
        if rows && quad {
            *out += QUAD_OF_ROW;
        } else if rows {
            writeln!(out, "fn narrow(w: Wide) -> Acc {{ return w; }}")?;
            writeln!(out, "fn masked(w: Wide, live: u32) -> Wide {{ return w; }}")?;
        }
        if self.partial {
            writeln!(out, "@group(0) @binding(1) var<storage, read> x: array<Acc>;")?;
            writeln!(out, "fn read_at(at: u32, place: u32) -> Wide {{ return x[at]; }}")?;
        } else {
            let load = if quad { "load4_x(at)" } else { "load_x(at)" };
            writeln!(out, "fn read_at(at: u32, place: u32) -> Wide {{ return Wide(Count(1), {load}, Values()); }}")?;
        }
        self.write_stores(out, rows)
    }

    /// `write_at` of one result, or `write_wide` of those of four columns.
    fn write_stores(&self, out: &mut String, rows: bool) -> std::fmt::Result {
        if self.last {
            writeln!(out, "@group(0) @binding(2) var<storage, read_write> y: array<Scalar>;")?;
            writeln!(out, "@group(0) @binding(3) var<storage, read_write> z: array<Scalar>;")?;
            *out += "fn write_one(at: u32, v: Acc) {
    y[params.target_base + at] = v.mean;
    z[params.variance_base + at] = v.squares / v.count;
}\n";
        } else {
            writeln!(out, "@group(0) @binding(2) var<storage, read_write> y: array<Acc>;")?;
            writeln!(out, "fn write_one(at: u32, v: Acc) {{ y[params.target_base + at] = v; }}")?;
        }
        if rows {
            return writeln!(out, "fn write_at(index: u32, v: Acc) {{ write_one(index, v); }}");
        }
        if !self.frame.quad {
            return writeln!(out, "fn write_wide(index: u32, v: Wide) {{ write_one(index, v); }}");
        }
        writeln!(out, "fn write_wide(index: u32, v: Wide) {{")?;
        for i in 0..4 {
            writeln!(out, "    write_one(4u * index + {i}u, Acc(v.count, v.mean[{i}], v.squares[{i}]));")?;
        }
        writeln!(out, "}}")
    }
}

/// `combine` of `wgsl/moments.wgsl` as `function` of two `set`s, whose counts are of type `count`.
fn joined(function: &str, set: &str, count: &str) -> String {
    let text = &TEXT[TEXT.find("fn FUNCTION").unwrap_or(0)..TEXT.find(ABSORB_ELEMENTS).unwrap_or(TEXT.len())];
    text.replace("FUNCTION", function).replace("SET", set).replace("Count", count)
}

const TEXT: &str = include_str!("../../../wgsl/moments.wgsl");
/// Where the second function of [`TEXT`] begins.
const ABSORB_ELEMENTS: &str = "fn absorb_elements";

/// Four lanes of a row: joined at its end, those behind it left out.
const QUAD_OF_ROW: &str = "fn narrow(w: Wide) -> Acc {
    let low = combine(Acc(w.count.x, w.mean.x, w.squares.x), Acc(w.count.y, w.mean.y, w.squares.y));
    let high = combine(Acc(w.count.z, w.mean.z, w.squares.z), Acc(w.count.w, w.mean.w, w.squares.w));
    return combine(low, high);
}
fn masked(w: Wide, live: u32) -> Wide {
    let dead = vec4<u32>(0u, 1u, 2u, 3u) >= vec4<u32>(live);
    return Wide(select(w.count, Count(), dead), select(w.mean, Values(), dead), w.squares);
}
";

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
