//! The largest element and the sum of exp(x - largest) along an axis, in one walk, and the results made of them.
//!
//! The passes are those of a reduction (`reduce/plan/passes.rs`), over states of a key and a sum
//! (`softmax_stats.wgsl`). `softmax_rows.wgsl` walks along rows, 16 bytes at a time wherever they start;
//! `softmax_columns.wgsl` walks along other axes. The last pass writes the states, their logarithms
//! ([`crate::ops::LogSumExp`]) or losses ([`crate::ops::CrossEntropy`]), which need no second read.

use std::fmt::Write;

use crate::plan::{Access, Caps, KernelKey, KernelText, Launch, Plan, Slot, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::math;
use crate::{DType, Result, TensorSpec};

use super::{NAN, NEGATIVE_INFINITY, write_exponentials, write_folded, write_vector};
use crate::ops::reduce::plan::ABSORB;
use crate::ops::reduce::plan::passes::{ITEMS, Partials, Pass, View, Walk, passes};
use crate::ops::reduce::plan::template::{Frame, check_index, launch};

/// Rows of a column that a thread folds before it scales its sum.
const BLOCK_ROWS: u32 = 8;
const INFINITY: u32 = 0x7f80_0000;
/// Bytes of a unit of a row.
const UNIT_BYTES: u64 = 16;

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    frame: Frame,
    reading: Reading,
    element: Element,
    ending: Ending,
}

/// How a pass reads its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Reading {
    /// Rows whose elements are neighbours: a unit is four elements or, for 16-bit floats, eight.
    Runs,
    /// Rows of elements that lie apart.
    Apart,
    /// Columns.
    Columns,
    /// The states of an earlier pass.
    States,
}

/// The result that the last pass writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ending {
    /// The states themselves, in the plan's last scratch buffer.
    States,
    /// The logarithm of the sum of exponentials, stored in this type.
    Logarithms(Element),
    /// Losses: see [`Losses`].
    Losses(Losses),
}

/// How losses are made. The plan's last launch binds these buffers after its own: counts, logarithms, targets, the
/// weights if there are any, and the logits where it reads states. After its own words it has those that [`LOSS_WORDS`]
/// names, and then for each axis of the rows, innermost first, its extent and its step in logits and in targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Losses {
    /// The type of targets.
    pub target: Element,
    /// Whether classes have weights.
    pub weighted: bool,
    /// Whether all classes have a share of the target. This needs the sum of the elements, which only a single pass
    /// along rows computes.
    pub smoothed: bool,
    /// Whether a target is ignored.
    pub ignores: bool,
    /// Number of axes of the rows.
    pub axes: u8,
}

/// Bases of the buffers, and the stride of the weights; the number of classes and their stride in logits; the ignored
/// target; words of 1 - e and of e / K, the low one first.
pub(crate) const LOSS_WORDS: [&str; 13] = [
    "counts_base",
    "logs_base",
    "logits_base",
    "targets_base",
    "weights_base",
    "weights_stride",
    "classes",
    "class_stride",
    "ignored",
    "kept_low",
    "kept_high",
    "share_low",
    "share_high",
];

/// The plan that ends in `ending`, for the elements of `input` along `axis`. Its first output starts at element `target`.
///
/// # Errors
/// [`crate::Error::UnsupportedDType`] for f64 where 64-bit integers are missing too; [`crate::Error::IndexWidth`];
/// [`crate::Error::Unsupported`] for smoothed losses of elements that need more than one pass along rows.
pub(crate) fn plan(
    op: &'static str,
    input: &TensorSpec,
    axis: usize,
    ending: Ending,
    target: u64,
    caps: &Caps,
) -> Result<Plan> {
    check_index(op, input)?;
    if input.dtype == DType::F64 {
        // Keys are 64-bit integers.
        caps.require(DType::F64)?;
        caps.require(DType::I64)?;
    }
    let element = Element::new(input.dtype, caps)?;
    let (mut list, mut elements) = passes(View::of_input(&input.layout, &[axis]), Partials::Pairs, caps);
    for pass in &mut list {
        if reading(pass) == Reading::Runs {
            pass.in_runs(per_unit(element));
        }
    }
    let is_one_walk = list.len() == 1 && matches!(list[0].walk, Walk::Rows { .. });
    if matches!(ending, Ending::Losses(Losses { smoothed: true, .. })) && !is_one_walk {
        return Err(caps.unsupported(op, "its sums take more than one pass along rows"));
    }
    if ending == Ending::States
        && let Some(last) = list.last_mut()
    {
        last.target = Slot::Scratch(elements.len());
        elements.push(last.outputs);
    }
    let launch = |pass: &Pass| -> Result<Launch> {
        let (ending, target) = if pass.last { (ending, target) } else { (Ending::States, 0) };
        let kernel = Kernel { frame: Frame::of(pass), reading: reading(pass), element, ending };
        let mut launch = launch(KernelKey::own(kernel), pass, 0, target, caps)?;
        launch.params.extend([NEGATIVE_INFINITY, INFINITY, NAN]);
        Ok(launch)
    };
    let state_bytes = if input.dtype == DType::F64 { 16 } else { 8 };
    Ok(Plan {
        launches: list.iter().map(launch).collect::<Result<_>>()?,
        scratch_bytes: elements.iter().map(|&n| n * state_bytes).collect(),
    })
}

/// The plan of the logarithms of sums of exponentials, in one walk along `axis`, stored in `output`.
///
/// # Errors
/// As [`plan`].
pub(crate) fn logarithms(
    op: &'static str,
    input: &TensorSpec,
    axis: usize,
    output: &TensorSpec,
    caps: &Caps,
) -> Result<Plan> {
    check_index(op, output)?;
    plan(op, input, axis, Ending::Logarithms(Element::new(output.dtype, caps)?), output.layout.offset(), caps)
}

fn reading(pass: &Pass) -> Reading {
    match pass.walk {
        _ if pass.partial => Reading::States,
        Walk::Columns { .. } => Reading::Columns,
        Walk::Rows { .. } if pass.stride == 1 || pass.count == 1 => Reading::Runs,
        Walk::Rows { .. } => Reading::Apart,
    }
}

/// Whether a unit is two vectors of four.
fn is_paired(element: Element) -> bool {
    element.dtype().size_bytes() == 2
}

/// Neighbours in a unit; for 8-bit floats and f64, the elements that one load reads.
fn per_unit(element: Element) -> u64 {
    if is_paired(element) { UNIT_BYTES / 2 } else { 4 }
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let mut body = String::new();
        // Formatting into a String cannot fail.
        let _ = self.write(&mut body);
        let mut elements = vec![self.element];
        let mut bindings = vec![Access::Read, Access::ReadWrite];
        let ending = match self.ending {
            Ending::States => "states",
            Ending::Logarithms(output) => {
                elements.push(output);
                "logsumexp"
            }
            Ending::Losses(losses) => {
                bindings.extend([Access::ReadWrite; 2]);
                let read = 1 + usize::from(losses.weighted) + usize::from(self.reading == Reading::States);
                bindings.extend(vec![Access::Read; read]);
                "cross_entropy"
            }
        };
        let name = format!("exponentials_{}_{ending}_{}", self.frame.suffix(), self.element.dtype());
        let wgsl = element::prelude(&elements) + &math::library(&body) + &body;
        Source { name, wgsl, bindings }
    }

    /// The edges and the last block of a run take fewer rounds than [`Walk::loop_rounds`] adds for a slab.
    fn loop_rounds(&self, params: &[u32]) -> u64 {
        match self.reading {
            Reading::Runs => {
                let slab = self.frame.slab(params);
                self.frame.walk.loop_rounds(slab.div_ceil(per_unit(self.element)))
            }
            _ => self.frame.loop_rounds(params),
        }
    }
}

impl Kernel {
    /// Whether the kernel computes in f64.
    fn wide(&self) -> bool {
        self.element.dtype() == DType::F64
    }

    /// Whether vectors have four elements.
    fn quad(&self) -> bool {
        match self.reading {
            Reading::Runs => true,
            Reading::Apart | Reading::States => false,
            Reading::Columns => self.frame.quad,
        }
    }

    fn is_smoothed(&self) -> bool {
        matches!(self.ending, Ending::Losses(Losses { smoothed: true, .. }))
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        let mut own: Vec<String> = ["lowest", "infinite", "nan"].map(str::to_owned).into();
        if let Ending::Losses(losses) = self.ending {
            own.extend(LOSS_WORDS.iter().map(|&word| word.to_owned()));
            own.extend((0..losses.axes).flat_map(|axis| ["r", "a", "b"].map(|word| format!("{word}{axis}"))));
        }
        let own: Vec<&str> = own.iter().map(String::as_str).collect();
        *out += &self.frame.head(&own);
        write_vector(out, self.wide(), self.quad())?;
        write_exponentials(out, self.wide(), self.quad())?;
        write_folded(out, self.quad())?;
        *out += include_str!("../../../../wgsl/softmax_stats.wgsl");
        self.write_ending(out)?;
        match self.reading {
            Reading::Runs | Reading::Apart => self.write_rows(out),
            Reading::Columns | Reading::States => self.write_wide(out),
        }
    }

    /// A walk along rows.
    fn write_rows(&self, out: &mut String) -> std::fmt::Result {
        let (run, paired) = (self.reading == Reading::Runs, self.reading == Reading::Runs && is_paired(self.element));
        let per = if run { per_unit(self.element) } else { 1 };
        writeln!(out, "const BLOCK = {ITEMS}u;\nconst PER = {per}u;\nconst PAIRED = {paired};\nconst RUN = {run};")?;
        writeln!(out, "const TOTAL = {};", self.is_smoothed())?;
        let (floor, lowest) = if self.wide() {
            ("-800.0lf", "-1.7976931348623157e308lf")
        } else {
            // The exponential of -200 is 0 even where subnormals are kept.
            ("-200.0f", "-3.4028234663852886e38f")
        };
        writeln!(out, "const FLOOR = {floor};\nconst LOWEST = {lowest};")?;
        // `max` is defined for f32; not every compiler has it for f64.
        let higher = if self.wide() { "select(a, b, b > a)" } else { "max(a, b)" };
        writeln!(out, "fn higher(a: V, b: V) -> V {{ return {higher}; }}")?;
        writeln!(out, "fn higher_s(a: S, b: S) -> S {{ return {higher}; }}")?;
        let (top, one) = if self.quad() {
            ("higher_s(higher_s(v.x, v.y), higher_s(v.z, v.w))", "V(x, rest, rest, rest)")
        } else {
            ("v", "x")
        };
        writeln!(out, "fn top_of(v: V) -> S {{ return {top}; }}")?;
        writeln!(out, "fn lone(x: S, rest: S) -> V {{ return {one}; }}")?;
        writeln!(out, "fn key_of_one(x: S) -> U {{\n    let bits = bitcast<U>(x);")?;
        writeln!(out, "    return select(bits | SIGN, ~bits, bits >= SIGN);\n}}")?;
        let form = match (run, paired) {
            (true, true) => Form::Oct,
            (true, false) => Form::Quad,
            (false, _) => Form::Scalar,
        };
        *out += &self.element.storage(1, "x", form, Access::Read);
        writeln!(out, "fn load_one(at: u32) -> S {{ return load_x(at); }}")?;
        if paired {
            writeln!(out, "alias Raw = vec4<u32>;\nfn load_raw(at: u32) -> Raw {{ return words_x(at); }}")?;
            writeln!(out, "fn low_of(raw: Raw) -> V {{ return unpack4_x(raw.xy); }}")?;
            writeln!(out, "fn high_of(raw: Raw) -> V {{ return unpack4_x(raw.zw); }}")?;
        } else {
            let load = if run { "load4_x" } else { "load_x" };
            writeln!(out, "alias Raw = V;\nfn load_raw(at: u32) -> Raw {{ return {load}(at); }}")?;
            writeln!(out, "fn low_of(raw: Raw) -> V {{ return raw; }}\nfn high_of(raw: Raw) -> V {{ return raw; }}")?;
        }
        // Joins the states of the threads of a row, with the sum of the elements where the ending needs it.
        let (member, total, joined, sum) = if self.is_smoothed() {
            (" total: S,", "all.total", "state, total", ", a.total + b.total")
        } else {
            ("", "S()", "state", "")
        };
        writeln!(out, "struct Folds_0 {{ state: State,{member} }}")?;
        writeln!(out, "fn joined(state: State, total: S) -> Folds_0 {{ return Folds_0({joined}); }}")?;
        writeln!(out, "fn combine_0(a: Folds_0, b: Folds_0) -> Folds_0 {{")?;
        writeln!(out, "    return Folds_0(combine(a.state, b.state){sum});\n}}")?;
        writeln!(out, "fn end_row(index: u32, all: Folds_0) {{ end(index, all.state, {total}); }}")?;
        let text = include_str!("../../../../wgsl/rows_fold.wgsl").replace("STAGE", "0");
        // The head of the file is for its readers, so it is left out.
        *out += text.split_once("var<workgroup>").map_or(text.as_str(), |(head, _)| &text[head.len()..]);
        *out += include_str!("../../../../wgsl/softmax_rows.wgsl");
        Ok(())
    }

    /// Walks columns, or states of an earlier pass, with the loops of a reduction.
    fn write_wide(&self, out: &mut String) -> std::fmt::Result {
        let quad = self.quad();
        if quad {
            let each = |f: &str| "xyzw".chars().map(|c| f.replace('?', &c.to_string())).collect::<Vec<_>>().join(", ");
            writeln!(out, "struct Quad {{ key: K, sum: V }}\nalias Wide = Quad;")?;
            writeln!(out, "fn combine_wide(a: Wide, b: Wide) -> Wide {{")?;
            writeln!(out, "    let scale = shrink_wide(a.key, b.key);")?;
            writeln!(out, "    let sum = select(a.sum + b.sum * scale, a.sum * scale + b.sum, b.key > a.key);")?;
            writeln!(out, "    return Wide(max(a.key, b.key), sum);\n}}")?;
            writeln!(out, "fn anchor_wide(k: K) -> V {{ return V({}); }}", each("anchor_of(k.?)"))?;
            writeln!(out, "fn shrink_wide(a: K, b: K) -> V {{ return V({}); }}", each("shrink(a.?, b.?)"))?;
        } else {
            writeln!(out, "alias Wide = State;")?;
            writeln!(out, "fn combine_wide(a: Wide, b: Wide) -> Wide {{ return combine(a, b); }}")?;
            writeln!(out, "fn narrow(w: Wide) -> Acc {{ return w; }}")?;
            writeln!(out, "fn masked(w: Wide, live: u32) -> Wide {{ return w; }}")?;
            writeln!(out, "fn anchor_wide(k: K) -> V {{ return anchor_of(k); }}")?;
            writeln!(out, "fn shrink_wide(a: K, b: K) -> V {{ return shrink(a, b); }}")?;
        }
        writeln!(out, "fn wide_identity() -> Wide {{ return Wide(K(KEY_LOWEST), V()); }}")?;
        let columns = self.reading == Reading::Columns;
        if columns {
            let form = if quad { Form::Quad } else { Form::Scalar };
            *out += &self.element.storage(1, "x", form, Access::Read);
            writeln!(out, "fn load(at: u32) -> V {{ return {}(at); }}", if quad { "load4_x" } else { "load_x" })?;
            writeln!(out, "const BLOCK = {BLOCK_ROWS}u;")?;
        } else {
            writeln!(out, "@group(0) @binding(1) var<storage, read> x: array<State>;")?;
            writeln!(out, "fn read_at(at: u32, place: u32) -> Wide {{ return x[at]; }}")?;
            *out += ABSORB;
        }
        match (self.frame.walk, quad) {
            (Walk::Rows { .. }, _) => writeln!(out, "fn write_at(index: u32, v: Acc) {{ end(index, v, S()); }}")?,
            (_, false) => writeln!(out, "fn write_wide(index: u32, v: Wide) {{ end(index, v, S()); }}")?,
            (_, true) => {
                writeln!(out, "fn write_wide(index: u32, v: Wide) {{")?;
                for i in 0..4 {
                    writeln!(out, "    end(4u * index + {i}u, State(v.key[{i}], v.sum[{i}]), S());")?;
                }
                writeln!(out, "}}")?;
            }
        }
        *out += if columns { include_str!("../../../../wgsl/softmax_columns.wgsl") } else { self.frame.body() };
        Ok(())
    }

    /// Writes `end`, which makes the result from state number `index`.
    fn write_ending(&self, out: &mut String) -> std::fmt::Result {
        match self.ending {
            Ending::States => {
                writeln!(out, "@group(0) @binding(2) var<storage, read_write> y: array<State>;")?;
                writeln!(out, "fn end(index: u32, state: State, total: S) {{ y[params.target_base + index] = state; }}")
            }
            Ending::Logarithms(output) => {
                *out += &output.storage(2, "y", Form::Scalar, Access::ReadWrite);
                *out += include_str!("../../../../wgsl/softmax_logarithm.wgsl");
                Ok(())
            }
            Ending::Losses(losses) => self.write_losses(out, losses),
        }
    }

    fn write_losses(&self, out: &mut String, losses: Losses) -> std::fmt::Result {
        let Losses { target, weighted, smoothed, ignores, axes } = losses;
        let results = Element::plain(self.element.dtype().compute());
        for (binding, name) in [(2, "y"), (3, "counts"), (4, "logs")] {
            *out += &results.storage(binding, name, Form::Scalar, Access::ReadWrite);
        }
        *out += &target.storage(5, "targets", Form::Scalar, Access::Read);
        let mut next = 6;
        if weighted {
            *out += &results.storage(next, "weights", Form::Scalar, Access::Read);
            next += 1;
        }
        let logit = if self.reading == Reading::States {
            *out += &self.element.storage(next, "logits", Form::Scalar, Access::Read);
            "load_logits"
        } else {
            "load_x"
        };
        writeln!(out, "fn logit(at: u32) -> S {{ return {logit}(at); }}")?;
        let weight =
            if weighted { "load_weights(params.weights_base + chosen * params.weights_stride)" } else { "S(1)" };
        writeln!(out, "fn weight_of(chosen: u32) -> S {{ return {weight}; }}")?;
        writeln!(out, "const SMOOTHED = {smoothed};\nconst IGNORES = {ignores};")?;
        let ignored = if target.dtype() == DType::I32 { "bitcast<i32>(params.ignored)" } else { "params.ignored" };
        writeln!(out, "fn is_ignored(target_of: {}) -> bool {{", target.scalar())?;
        writeln!(out, "    return IGNORES && target_of == {ignored};\n}}")?;
        let sign = if target.dtype() == DType::I32 { "target_of >= 0i && " } else { "" };
        writeln!(out, "fn is_class(target_of: {}) -> bool {{", target.scalar())?;
        writeln!(out, "    return {sign}u32(target_of) < params.classes;\n}}")?;
        let number = if self.wide() { "bitcast<f64>((u64(high) << 32u) | u64(low))" } else { "bitcast<f32>(low)" };
        writeln!(out, "fn number(low: u32, high: u32) -> S {{ return {number}; }}")?;
        // The places of a row's logits and of its target.
        writeln!(out, "fn places_of(index: u32) -> vec2<u32> {{")?;
        writeln!(out, "    var at = vec2<u32>(params.logits_base, params.targets_base);\n    var rest = index;")?;
        for axis in 0..axes {
            if axis + 1 == axes {
                writeln!(out, "    at += vec2<u32>(params.a{axis}, params.b{axis}) * rest;")?;
            } else {
                writeln!(out, "    at += vec2<u32>(params.a{axis}, params.b{axis}) * (rest % params.r{axis});")?;
                writeln!(out, "    rest /= params.r{axis};")?;
            }
        }
        writeln!(out, "    return at;\n}}")?;
        *out += include_str!("../../../../wgsl/softmax_loss.wgsl");
        Ok(())
    }
}
