//! Softmax and log-softmax: one launch for rows that fit in registers, two or more for everything else.
//!
//! Along a last axis of moderate length one workgroup reads a row once, keeps it and writes it. Any other axis, and
//! longer rows, take the passes of a reduction over pairs of a running maximum and a sum scaled to it (`softmax/plan/stats.rs`),
//! then one elementwise launch. Both tell special rows (NaN, +inf, all -inf) by integer keys.

pub(crate) mod stats;

use std::fmt::Write;

use crate::ops::{Softmax, SoftmaxFn};
use crate::plan::looped;
use crate::{DType, Layout, Operation, Result};

use crate::ops::reduce::plan::passes::{MOST_FOLDED, View};
use crate::ops::reduce::plan::template::{check_index, decode};
use crate::plan::{Access, Caps, KernelKey, KernelText, Launch, Plan, Slot, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::math;
use crate::wgsl::params::{Words, axis_members, axis_words, params};

/// Vectors a thread keeps (H200: 8 for 16384 f32 over 512 threads; 16 over 256 threads within 1 %).
const MOST_HELD: u64 = 16;
/// Threads of a workgroup where the device has them.
const MOST_LANES: u32 = 512;
/// Threads of a workgroup of `softmax_apply` and `softmax_apply_columns`.
const APPLY_THREADS: u32 = 256;
const APPLY_ITEMS: u32 = 4;
/// Rows of a column that a thread scales by one state.
const COLUMN_ITEMS: u32 = 8;
const NEGATIVE_INFINITY: u32 = 0xff80_0000;
const NAN: u32 = 0x7fc0_0000;
/// Names that `softmax_scalar.wgsl` uses, with their values for f32 and f64.
const KEYS: [(&str, (u32, u64)); 6] = [
    ("SIGN", (0x8000_0000, 0x8000_0000_0000_0000)),
    ("MAGNITUDE", (0x7fff_ffff, 0x7fff_ffff_ffff_ffff)),
    ("INFINITY", (0x7f80_0000, 0x7ff0_0000_0000_0000)),
    ("KEY_LOWEST", (0x007f_ffff, 0x000f_ffff_ffff_ffff)),
    ("KEY_HIGHEST", (0xff80_0000, 0xfff0_0000_0000_0000)),
    ("NAN_KEY", (u32::MAX, u64::MAX)),
];

params! {
    /// The first words of `Held`: the number of vectors in a row, where rows begin, and the step along a row.
    struct HeldWords { rows, units, base, stride }
}
params! {
    /// The first words of both `Apply` kernels: vectors in all, elements along the axis, strips of a column, and the
    /// distance from one element of the axis to the next.
    struct ApplyWords { units, count, strips, inner, base }
}
params! {
    /// The words that follow in both kinds of kernel, before the extents and strides of axes.
    struct EndWords { target_base, lowest, nan }
}

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    step: Step,
    function: SoftmaxFn,
    element: Element,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let mut body = String::new();
        // Formatting into a String cannot fail.
        let (step, bindings) = match &self.step {
            Step::Held { .. } => {
                let _ = self.write_held(&mut body);
                ("held", vec![Access::Read, Access::ReadWrite])
            }
            Step::Apply { quad, axes } => {
                let _ = self.write_apply(&mut body, *quad, *axes, false);
                ("apply", vec![Access::Read, Access::Read, Access::ReadWrite])
            }
            Step::ApplyColumns { quad, axes } => {
                let _ = self.write_apply(&mut body, *quad, *axes, true);
                ("apply_columns", vec![Access::Read, Access::Read, Access::ReadWrite])
            }
        };
        let name = format!("{}_{step}_{}", self.function.name(), self.element.dtype());
        let wgsl = element::prelude(&[self.element]) + &math::library(&body) + &body;
        Source { name, wgsl, bindings }
    }

    fn loop_rounds(&self, _params: &[u32]) -> u64 {
        match &self.step {
            // Loads, exponentials and stores. Then two folds: in each a thread folds at most FAN values, and after that
            // at most as many heads.
            Step::Held { items, .. } => 3 * looped((*items).into(), 0) + 4 * looped(MOST_FOLDED, 0),
            Step::Apply { .. } => 2 * looped(APPLY_ITEMS.into(), 0),
            Step::ApplyColumns { .. } => 2 * looped(COLUMN_ITEMS.into(), 0),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Keeps a row in registers from start to end.
    Held { quad: bool, lanes: u32, items: u32, threads: u32, full: bool, axes: u8 },
    /// Makes the result from maximum and sum, along the last axis.
    Apply { quad: bool, axes: u8 },
    /// The same along any other axis.
    ApplyColumns { quad: bool, axes: u8 },
}

pub(crate) fn plan(op: &Softmax, caps: &Caps) -> Result<Plan> {
    check_index(op.name(), &op.input)?;
    check_index(op.name(), &op.output)?;
    if op.input.dtype == DType::F64 {
        // Keys are 64-bit integers.
        caps.require(DType::F64)?;
        caps.require(DType::I64)?;
    }
    let element = Element::new(op.input.dtype, caps)?;
    let dims = op.input.layout.dims();
    let inner: u64 = dims[op.axis + 1..].iter().product();
    match held(op, element, caps)? {
        Some(launch) if inner == 1 => Ok(Plan { launches: vec![launch], scratch_bytes: Vec::new() }),
        _ => by_stats(op, element, inner, caps),
    }
}

/// The one-launch plan, when the axis is the last and a workgroup's registers hold a row.
fn held(op: &Softmax, element: Element, caps: &Caps) -> Result<Option<Launch>> {
    let layout = &op.input.layout;
    let (count, stride) = (layout.dims()[op.axis], layout.strides()[op.axis]);
    let outer = View::of_input(layout, &[op.axis]);
    let axes: Vec<_> = outer.axes.iter().filter(|axis| axis.kept).copied().collect();
    let target = op.output.layout.offset();
    let quad = (stride == 1 || count == 1)
        && count.is_multiple_of(4)
        && outer.base.is_multiple_of(4)
        && target.is_multiple_of(4)
        && axes.iter().all(|axis| axis.stride % 4 == 0);
    let width = if quad { 4 } else { 1 };
    let units = count / width;
    let most = u64::from(MOST_LANES.min(caps.max_invocations));
    let lanes = units.div_ceil(MOST_HELD / 2).next_power_of_two().min(most);
    let items = units.div_ceil(lanes).next_power_of_two();
    if items > MOST_HELD {
        return Ok(None);
    }
    let threads = lanes.max(u64::from(256.min(caps.max_invocations)));
    let rows: u64 = axes.iter().map(|axis| axis.extent).product();
    let step = Step::Held {
        quad,
        lanes: lanes as u32,
        items: items as u32,
        threads: threads as u32,
        full: units == lanes * items,
        axes: axes.len() as u8,
    };
    // In vectors; indices fit in u32, and negative strides wrap as two's complement.
    let words = HeldWords {
        rows: rows as u32,
        units: units as u32,
        base: (outer.base / width) as u32,
        stride: if quad { 1 } else { stride as u32 },
    };
    let mut params = words.words();
    params.extend(EndWords::of(target / width).words());
    params.extend(axis_words(axes.iter().rev().map(|axis| (axis.extent, axis.stride / width as i64))));
    Ok(Some(Launch {
        kernel: KernelKey::own(Kernel { step, function: op.function, element }),
        grid: caps.fold_grid(rows.div_ceil(threads / lanes))?,
        bindings: vec![Slot::Input(0), Slot::Output(0)],
        params,
    }))
}

/// Maximum and sum of every row by the passes of a reduction, then the elements.
fn by_stats(op: &Softmax, element: Element, inner: u64, caps: &Caps) -> Result<Plan> {
    let mut plan = stats::plan(op.name(), &op.input, op.axis, stats::Ending::States, 0, caps)?;
    let states = Slot::Scratch(plan.scratch_bytes.len() - 1);
    plan.launches.push(apply(op, element, inner, states, caps)?);
    Ok(plan)
}

fn apply(op: &Softmax, element: Element, inner: u64, states: Slot, caps: &Caps) -> Result<Launch> {
    let flat: Layout = op.input.layout.collapse();
    let target = op.output.layout.offset();
    let count = op.input.layout.dims()[op.axis];
    let (dims, strides) = (flat.dims(), flat.strides());
    let last = dims.len().wrapping_sub(1);
    let outer_aligned = |n: usize| strides[..n].iter().all(|stride| stride % 4 == 0);
    let quad = dims.last().is_some_and(|&d| d.is_multiple_of(4))
        && strides[last] == 1
        && outer_aligned(last)
        && flat.offset().is_multiple_of(4)
        && target.is_multiple_of(4)
        && if inner == 1 { count.is_multiple_of(4) } else { inner.is_multiple_of(4) };
    let width = if quad { 4 } else { 1 };
    let axes = dims.len() as u8;
    let (step, units, strips) = if inner == 1 {
        (Step::Apply { quad, axes }, op.input.layout.elements() / width, 0)
    } else {
        let strips = count.div_ceil(COLUMN_ITEMS.into());
        let outer = op.input.layout.elements() / (count * inner).max(1);
        (Step::ApplyColumns { quad, axes }, outer * strips * (inner / width), strips)
    };
    let threads = if inner == 1 { units.div_ceil(APPLY_ITEMS.into()) } else { units };
    let words = ApplyWords {
        units: units as u32,
        count: count as u32,
        strips: strips as u32,
        inner: inner as u32,
        base: (flat.offset() / width) as u32,
    };
    let mut params = words.words();
    params.extend(EndWords::of(target / width).words());
    // Vectors lie along the innermost axis; its elements are neighbours wherever there are vectors.
    params.extend(axis_words(dims.iter().zip(strides).rev().enumerate().map(|(i, (&extent, &stride))| {
        if i == 0 { (extent / width, stride) } else { (extent, stride / width as i64) }
    })));
    Ok(Launch {
        kernel: KernelKey::own(Kernel { step, function: op.function, element }),
        grid: caps.fold_grid(threads.div_ceil(APPLY_THREADS.into()))?,
        bindings: vec![Slot::Input(0), states, Slot::Output(0)],
        params,
    })
}

impl Kernel {
    /// Whether the kernel computes in f64.
    fn wide(&self) -> bool {
        self.element.dtype() == DType::F64
    }

    fn write_held(&self, out: &mut String) -> std::fmt::Result {
        let Step::Held { quad, lanes, items, threads, full, axes } = self.step else { return Ok(()) };
        write_params(out, HeldWords::WGSL, axes)?;
        writeln!(out, "const LANES = {lanes}u;\nconst ITEMS = {items}u;\nconst THREADS = {threads}u;")?;
        writeln!(out, "const FULL = {full};")?;
        self.write_vector(out, quad)?;
        self.write_load(out, quad)?;
        self.write_store(out, quad, 2)?;
        *out += &decode("base_of", "params.base", 's', axes.into());
        *out += include_str!("../../../wgsl/softmax_factor.wgsl");
        *out += include_str!("../../../wgsl/softmax.wgsl");
        Ok(())
    }

    fn write_apply(&self, out: &mut String, quad: bool, axes: u8, columns: bool) -> std::fmt::Result {
        write_params(out, ApplyWords::WGSL, axes)?;
        let items = if columns { COLUMN_ITEMS } else { APPLY_ITEMS };
        writeln!(out, "const THREADS = {APPLY_THREADS}u;\nconst ITEMS = {items}u;")?;
        self.write_vector(out, quad)?;
        self.write_load(out, quad)?;
        writeln!(out, "struct State {{ key: U, sum: S }}")?;
        writeln!(out, "@group(0) @binding(2) var<storage, read> states: array<State>;")?;
        self.write_store(out, quad, 3)?;
        *out += &decode("base_of", "params.base", 's', axes.into());
        *out += include_str!("../../../wgsl/softmax_factor.wgsl");
        // A vector along the row has one state; a vector across columns has one for each element.
        let states = if columns && quad { 4 } else { 1 };
        for (name, f) in [
            ("anchor_at", "anchor_of(states[state + {i}u].key)"),
            ("factor_at", "factor_of(states[state + {i}u].key, states[state + {i}u].sum)"),
        ] {
            let each: Vec<String> = (0..states).map(|i| f.replace("{i}", &i.to_string())).collect();
            writeln!(out, "fn {name}(state: u32) -> V {{ return V({}); }}", each.join(", "))?;
        }
        *out += if columns {
            include_str!("../../../wgsl/softmax_apply_columns.wgsl")
        } else {
            include_str!("../../../wgsl/softmax_apply.wgsl")
        };
        Ok(())
    }

    /// The types V and K, and the functions on them.
    fn write_vector(&self, out: &mut String, quad: bool) -> std::fmt::Result {
        writeln!(out, "const LOG = {};", self.function == SoftmaxFn::LogSoftmax)?;
        write_vector(out, self.wide(), quad)?;
        writeln!(out, "const WIDTH = {}u;", if quad { 4 } else { 1 })?;
        write_exponentials(out, self.wide(), quad)?;
        write_folded(out, quad)
    }

    fn write_load(&self, out: &mut String, quad: bool) -> std::fmt::Result {
        let form = if quad { Form::Quad } else { Form::Scalar };
        *out += &self.element.storage(1, "x", form, Access::Read);
        writeln!(out, "fn load(at: u32) -> V {{ return {}(at); }}", if quad { "load4_x" } else { "load_x" })
    }

    fn write_store(&self, out: &mut String, quad: bool, binding: u32) -> std::fmt::Result {
        let form = if quad { Form::Quad } else { Form::Scalar };
        *out += &self.element.storage(binding, "y", form, Access::ReadWrite);
        writeln!(out, "fn store(at: u32, v: V) {{ {}(at, v); }}", if quad { "store4_y" } else { "store_y" })
    }
}

impl EndWords {
    fn of(target_base: u64) -> EndWords {
        EndWords { target_base: target_base as u32, lowest: NEGATIVE_INFINITY, nan: NAN }
    }
}

/// `Params` of a kernel with these words of its `own`.
fn write_params(out: &mut String, own: &str, axes: u8) -> std::fmt::Result {
    let (end, axes) = (EndWords::WGSL.trim_end(), axis_members("es", axes.into()));
    writeln!(out, "struct Params {{\n{own}{end}{axes}\n}}")?;
    writeln!(out, "@group(0) @binding(0) var<uniform> params: Params;")
}

/// The types S and U, and V and K: vectors of four, or single elements.
fn write_vector(out: &mut String, wide: bool, quad: bool) -> std::fmt::Result {
    let (s, u) = if wide { ("f64", "u64") } else { ("f32", "u32") };
    let (v, k) = if quad { ("vec4<S>", "vec4<U>") } else { ("S", "U") };
    writeln!(out, "alias S = {s};\nalias U = {u};\nalias V = {v};\nalias K = {k};")
}

/// The functions that give the largest and the sum of a vector's elements.
fn write_folded(out: &mut String, quad: bool) -> std::fmt::Result {
    if quad {
        writeln!(out, "fn highest_of(k: K) -> U {{ return max(max(k.x, k.y), max(k.z, k.w)); }}")?;
        writeln!(out, "fn sum_of(v: V) -> S {{ return (v.x + v.y) + (v.z + v.w); }}")
    } else {
        writeln!(out, "fn highest_of(k: K) -> U {{ return k; }}")?;
        writeln!(out, "fn sum_of(v: V) -> S {{ return v; }}")
    }
}

/// Writes `wgsl/softmax_scalar.wgsl`, whose functions work on keys of rows and the types S, U, V and K, and before it
/// the constants and functions that it requires.
pub(crate) fn write_exponentials(out: &mut String, wide: bool, quad: bool) -> std::fmt::Result {
    if wide {
        for (name, bits) in KEYS {
            writeln!(out, "const {name} = {:#x}lu;", bits.1)?;
        }
        writeln!(out, "fn exp_s(x: S) -> S {{ return exp_f64(x); }}\nfn log_s(x: S) -> S {{ return log_f64(x); }}")?;
        let each = if quad { "V(exp_f64(x.x), exp_f64(x.y), exp_f64(x.z), exp_f64(x.w))" } else { "exp_f64(x)" };
        writeln!(out, "fn exp_v(x: V) -> V {{ return {each}; }}")?;
    } else {
        // The device's own exponential: its error stays within the op's bound, and results for infinite arguments are never used.
        for (name, bits) in KEYS {
            writeln!(out, "const {name} = {:#x}u;", bits.0)?;
        }
        writeln!(out, "fn exp_s(x: S) -> S {{ return exp(x); }}\nfn log_s(x: S) -> S {{ return log_f32(x); }}")?;
        writeln!(out, "fn exp_v(x: V) -> V {{ return exp(x); }}")?;
    }
    *out += include_str!("../../../wgsl/softmax_scalar.wgsl");
    Ok(())
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
