//! Softmax and log-softmax: one launch for rows that fit in registers, two or more for everything else.
//!
//! Along a last axis of moderate length one workgroup reads a row once, keeps it and writes it. Any other axis, and
//! longer rows, take the passes of a reduction over pairs of a running maximum and a sum scaled to it (`softmax/plan/stats.rs`),
//! then one elementwise launch. Both tell special rows (NaN, +inf, all -inf) by integer keys.

pub(crate) mod stats;

use crate::ops::{Softmax, SoftmaxFn};
use crate::plan::looped;
use crate::{DType, Layout, Operation, Result};

use crate::ops::fold::View;
use crate::ops::fold::passes::MOST_FOLDED;
use crate::ops::fold::workgroup::{self, RowFold};
use crate::plan::{Access, Caps, KernelKey, KernelText, Launch, Plan, Slot, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::index::{check_index, decode, in_quads, in_vectors};
use crate::wgsl::math;
use crate::wgsl::params::{Words, axis_members, axis_words, params, uniform_of};
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("softmax.wgsl");

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
        let (step, body, sources) = match self.step {
            Step::Held { .. } => ("held", self.held(), 1),
            Step::Apply { quad, axes, columns } => {
                (if columns { "apply_columns" } else { "apply" }, self.apply(quad, axes, columns), 2)
            }
        };
        let mut bindings = vec![Access::Read; sources];
        bindings.push(Access::ReadWrite);
        let name = format!("{}_{step}_{}", self.function.name(), self.element.dtype());
        let wgsl = element::prelude(&[self.element]) + &math::library(&body) + &body;
        Source { name, wgsl, bindings }
    }

    fn loop_rounds(&self, _params: &[u32]) -> u64 {
        match &self.step {
            // Loads, exponentials and stores. Then two folds: in each a thread folds at most FAN values, and after that
            // at most as many heads.
            Step::Held { items, .. } => 3 * looped((*items).into(), 0) + 4 * looped(MOST_FOLDED, 0),
            Step::Apply { columns, .. } => 2 * looped((if *columns { COLUMN_ITEMS } else { APPLY_ITEMS }).into(), 0),
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Keeps a row in registers from start to end.
    Held { quad: bool, lanes: u32, items: u32, threads: u32, full: bool, axes: u8 },
    /// Makes the result from maximum and sum: along the last axis, or along another, which is `columns`.
    Apply { quad: bool, axes: u8, columns: bool },
}

pub(crate) fn plan(op: &Softmax, caps: &Caps) -> Result<Plan> {
    let element = stats::element_of(op.name(), &op.input, caps)?;
    check_index(op.name(), &op.output)?;
    let inner: u64 = op.input.layout.dims()[op.axis + 1..].iter().product();
    if inner == 1
        && let Some(launch) = held(op, element, caps)?
    {
        return Ok(Plan { launches: vec![launch], scratch_bytes: Vec::new() });
    }
    by_stats(op, element, inner, caps)
}

/// The one-launch plan, when the axis is the last and a workgroup's registers hold a row.
fn held(op: &Softmax, element: Element, caps: &Caps) -> Result<Option<Launch>> {
    let layout = &op.input.layout;
    let (count, stride) = (layout.dims()[op.axis], layout.strides()[op.axis]);
    let outer = View::of_input(layout, &[op.axis]);
    let axes: Vec<_> = outer.axes.iter().filter(|axis| axis.kept).copied().collect();
    let target = op.output.layout.offset();
    let quad = in_quads((count, stride), [outer.base, target], axes.iter().map(|axis| axis.stride));
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
    let axes = dims.iter().copied().zip(strides.iter().copied()).rev();
    // Axes may have been merged with those that a vector must not cross.
    let along = if inner == 1 { count } else { inner };
    let quad = along.is_multiple_of(4)
        && axes.clone().next().is_some_and(|near| {
            in_quads(near, [flat.offset(), target], axes.clone().skip(1).map(|(_, stride)| stride))
        });
    let width = if quad { 4 } else { 1 };
    let columns = inner != 1;
    let strips = if columns { count.div_ceil(COLUMN_ITEMS.into()) } else { 0 };
    let elements = op.input.layout.elements();
    let units = if columns { elements / (count * inner).max(1) * strips * (inner / width) } else { elements / width };
    let threads = if columns { units } else { units.div_ceil(APPLY_ITEMS.into()) };
    let words = ApplyWords {
        units: units as u32,
        count: count as u32,
        strips: strips as u32,
        inner: inner as u32,
        base: (flat.offset() / width) as u32,
    };
    let mut params = words.words();
    params.extend(EndWords::of(target / width).words());
    params.extend(axis_words(in_vectors(width, axes)));
    Ok(Launch {
        kernel: KernelKey::own(Kernel {
            step: Step::Apply { quad, axes: dims.len() as u8, columns },
            function: op.function,
            element,
        }),
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

    fn held(&self) -> String {
        let Step::Held { quad, lanes, items, threads, full, axes } = self.step else { return String::new() };
        let mut out = declared(HeldWords::WGSL, axes);
        out += &format!("const LANES = {lanes}u;\nconst ITEMS = {items}u;\nconst THREADS = {threads}u;\n");
        out += &format!("const FULL = {full};\n");
        out += &self.vector(quad);
        out += &self.load(quad);
        out += &self.store(quad, 2);
        out += &decode("base_of", "params.base", 's', axes.into());
        out += include_str!("../../../wgsl/softmax_factor.wgsl");
        // Keys first, then sums, in one memory.
        let highest = RowFold { name: "highest", value: "U", combine: "max", again: false };
        let sum = RowFold { name: "sum", value: "S", combine: "add", again: true };
        out += workgroup::rows();
        out += &workgroup::memory("row", "U");
        out += &highest.within("row", ["", ""]);
        out += &sum.within("row", ["U", "S"]);
        out + include_str!("../../../wgsl/softmax.wgsl")
    }

    fn apply(&self, quad: bool, axes: u8, columns: bool) -> String {
        let mut out = declared(ApplyWords::WGSL, axes);
        let items = if columns { COLUMN_ITEMS } else { APPLY_ITEMS };
        out += &format!("const THREADS = {APPLY_THREADS}u;\nconst ITEMS = {items}u;\n");
        out += &self.vector(quad);
        out += &self.load(quad);
        out += TEXT.get("states");
        out += &self.store(quad, 3);
        out += &decode("base_of", "params.base", 's', axes.into());
        out += include_str!("../../../wgsl/softmax_factor.wgsl");
        let states = if columns && quad { 4 } else { 1 };
        let each = |of: &dyn Fn(String) -> String| {
            (0..states).map(|i| of(format!("states[state + {i}u]"))).collect::<Vec<_>>().join(", ")
        };
        let anchors = each(&|state| format!("anchor_of({state}.key)"));
        let factors = each(&|state| format!("factor_of({state}.key, {state}.sum)"));
        out += &TEXT.fill("states at", holes!(anchors, factors));
        out + match columns {
            true => include_str!("../../../wgsl/softmax_apply_columns.wgsl"),
            false => include_str!("../../../wgsl/softmax_apply.wgsl"),
        }
    }

    /// The types V and K, and the functions on them.
    fn vector(&self, quad: bool) -> String {
        let mut out = format!("const LOG = {};\n", self.function == SoftmaxFn::LogSoftmax);
        out += &types(self.wide(), quad);
        out += &format!("const WIDTH = {}u;\n", if quad { 4 } else { 1 });
        out += &exponentials(self.wide(), quad);
        out + folded(quad)
    }

    fn load(&self, quad: bool) -> String {
        let form = if quad { Form::Quad } else { Form::Scalar };
        self.element.storage(1, "x", form, Access::Read) + &load(quad)
    }

    fn store(&self, quad: bool, binding: u32) -> String {
        let form = if quad { Form::Quad } else { Form::Scalar };
        let store = if quad { "store4_y" } else { "store_y" };
        self.element.storage(binding, "y", form, Access::ReadWrite) + &TEXT.fill("store", holes!(store))
    }
}

impl EndWords {
    fn of(target_base: u64) -> EndWords {
        EndWords { target_base: target_base as u32, lowest: NEGATIVE_INFINITY, nan: NAN }
    }
}

/// `Params` of a kernel with these words of its `own`.
fn declared(own: &str, axes: u8) -> String {
    let (end, axes) = (EndWords::WGSL.trim_end(), axis_members("es", axes.into()));
    uniform_of(&format!("{own}{end}{axes}\n"))
}

/// The types S and U, and V and K: vectors of four, or single elements.
fn types(wide: bool, quad: bool) -> String {
    let (s, u) = if wide { ("f64", "u64") } else { ("f32", "u32") };
    let (v, k) = if quad { ("vec4<S>", "vec4<U>") } else { ("S", "U") };
    TEXT.fill("types", holes!(s, u, v, k))
}

/// The functions that give the largest and the sum of a vector's elements.
fn folded(quad: bool) -> &'static str {
    TEXT.get(if quad { "folded quad" } else { "folded one" })
}

/// `load`, of a vector of x.
fn load(quad: bool) -> String {
    TEXT.fill("load", holes!(load = if quad { "load4_x" } else { "load_x" }))
}

/// The constants that `wgsl/softmax_scalar.wgsl` names, for f32 or f64.
pub(crate) fn keys(wide: bool) -> &'static str {
    TEXT.get(if wide { "keys of f64" } else { "keys of f32" })
}

/// Exponentials and logarithms; in f64 that of a vector is `each`.
pub(crate) fn functions(wide: bool, each: &str) -> String {
    if wide { TEXT.fill("exponentials of f64", holes!(each)) } else { TEXT.get("exponentials of f32").to_owned() }
}

/// `wgsl/softmax_scalar.wgsl`, whose functions work on keys of rows and the types S, U, V and K, behind the constants and functions that it
/// requires.
pub(crate) fn exponentials(wide: bool, quad: bool) -> String {
    let each = if quad { "V(exp_f64(x.x), exp_f64(x.y), exp_f64(x.z), exp_f64(x.w))" } else { "exp_f64(x)" };
    [keys(wide), &functions(wide, each), include_str!("../../../wgsl/softmax_scalar.wgsl")].concat()
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
