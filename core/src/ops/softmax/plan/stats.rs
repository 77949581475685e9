//! The largest element and the sum of exp(x - largest) along an axis, in one walk, and the results made of them.
//!
//! A fold of states of a key and a sum (`softmax_stats.wgsl`). `softmax_rows.wgsl` walks along rows, 16 bytes at a time wherever they start;
//! `softmax_columns.wgsl` walks along other axes. The last pass writes the states, their logarithms
//! ([`crate::ops::LogSumExp`]) or losses ([`crate::ops::CrossEntropy`]), which need no second read.

use crate::plan::{Access, Caps, Launch, Plan, Slot};
use crate::wgsl::element::{Element, Form};
use crate::wgsl::index::check_index;
use crate::wgsl::pieces::holes;
use crate::{DType, Result, TensorSpec};

use super::{NAN, NEGATIVE_INFINITY, TEXT, exponentials, folded, load, types};
use crate::ops::fold::frame::{FOLD, Frame};
use crate::ops::fold::passes::ITEMS;
use crate::ops::fold::workgroup::{self, RowFold};
use crate::ops::fold::{Fold, Partials, Pass, Text, View, Walk, passes};

/// The fold of a row by the threads that share it, after each walk.
/// Rows of a column that a thread folds before it scales its sum.
const BLOCK_ROWS: u32 = 8;
const INFINITY: u32 = 0x7f80_0000;
/// Bytes of a unit of a row.
const UNIT_BYTES: u64 = 16;

/// Sums of exponentials, as one pass knows them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Exponentials {
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

/// The elements of `input`.
///
/// # Errors
/// [`crate::Error::UnsupportedDType`] for f64 where 64-bit integers are missing too, which keys of it are; [`crate::Error::IndexWidth`].
pub(super) fn element_of(op: &'static str, input: &TensorSpec, caps: &Caps) -> Result<Element> {
    check_index(op, input)?;
    let element = Element::new(input.dtype, caps)?;
    if input.dtype == DType::F64 {
        caps.require(DType::I64)?;
    }
    Ok(element)
}

/// The plan that ends in `ending`, for the elements of `input` along `axis`. Its first output starts at element `target`.
///
/// # Errors
/// As [`element_of`]; [`crate::Error::Unsupported`] for smoothed losses of elements that need more than one pass along rows.
pub(crate) fn plan(
    op: &'static str,
    input: &TensorSpec,
    axis: usize,
    ending: Ending,
    target: u64,
    caps: &Caps,
) -> Result<Plan> {
    let element = element_of(op, input, caps)?;
    let state_bytes = if input.dtype == DType::F64 { 16 } else { 8 };
    let view = View::of_input(&input.layout, &[axis]);
    let (mut list, mut scratch_bytes) = passes(view, Partials::structs(state_bytes), caps);
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
        last.target = Slot::Scratch(scratch_bytes.len());
        scratch_bytes.push(last.outputs * state_bytes);
    }
    let launch = |pass: &Pass| -> Result<Launch> {
        let (ending, target) = if pass.last { (ending, target) } else { (Ending::States, 0) };
        let mut launch = pass.launch(Exponentials { reading: reading(pass), element, ending }, 0, target, caps)?;
        launch.params.extend([NEGATIVE_INFINITY, INFINITY, NAN]);
        Ok(launch)
    };
    Ok(Plan { launches: list.iter().map(launch).collect::<Result<_>>()?, scratch_bytes })
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

impl Fold for Exponentials {
    fn text(&self, frame: &Frame) -> Text {
        let mut text = Text {
            elements: vec![self.element],
            members: ["lowest", "infinite", "nan"].map(str::to_owned).into(),
            bindings: vec![Access::Read, Access::ReadWrite],
            ..Text::default()
        };
        let ending = match self.ending {
            Ending::States => "states",
            Ending::Logarithms(output) => {
                text.elements.push(output);
                "logsumexp"
            }
            Ending::Losses(losses) => {
                let axes = (0..losses.axes).flat_map(|axis| ["r", "a", "b"].map(|word| format!("{word}{axis}")));
                text.members.extend(LOSS_WORDS.iter().map(|&word| word.to_owned()).chain(axes));
                text.bindings.extend([Access::ReadWrite; 2]);
                let read = 1 + usize::from(losses.weighted) + usize::from(self.reading == Reading::States);
                text.bindings.extend(vec![Access::Read; read]);
                "cross_entropy"
            }
        };
        text.name = format!("exponentials_{}_{ending}_{}", frame.suffix(), self.element.dtype());
        let quad = self.quad(frame);
        text.state = types(self.wide(), quad) + &exponentials(self.wide(), quad) + folded(quad);
        text.state += include_str!("../../../../wgsl/softmax_stats.wgsl");
        text.state += &self.ending();
        match self.reading {
            Reading::Runs | Reading::Apart => self.along_rows(&mut text),
            Reading::Columns | Reading::States => self.wide_walk(frame, &mut text),
        }
        text
    }

    /// The edges and the last block of a run take fewer rounds than [`Walk::loop_rounds`] adds for a slab.
    fn loop_rounds(&self, frame: &Frame, params: &[u32]) -> u64 {
        let per = if self.reading == Reading::Runs { per_unit(self.element) } else { 1 };
        frame.walk.loop_rounds(frame.slab(params).div_ceil(per))
    }
}

impl Exponentials {
    /// Whether the kernel computes in f64.
    fn wide(&self) -> bool {
        self.element.dtype() == DType::F64
    }

    /// Whether vectors have four elements.
    fn quad(&self, frame: &Frame) -> bool {
        match self.reading {
            Reading::Runs => true,
            Reading::Apart | Reading::States => false,
            Reading::Columns => frame.quad,
        }
    }

    fn is_smoothed(&self) -> bool {
        matches!(self.ending, Ending::Losses(Losses { smoothed: true, .. }))
    }

    /// A walk along rows.
    fn along_rows(&self, text: &mut Text) {
        let (run, paired) = (self.reading == Reading::Runs, self.reading == Reading::Runs && is_paired(self.element));
        let per = if run { per_unit(self.element) } else { 1 };
        text.read =
            format!("const BLOCK = {ITEMS}u;\nconst PER = {per}u;\nconst PAIRED = {paired};\nconst RUN = {run};\n");
        text.read += &format!("const TOTAL = {};\n", self.is_smoothed());
        text.read += TEXT.get(if self.wide() { "limits of f64" } else { "limits of f32" });
        let (top, one) = match run {
            true => ("higher_s(higher_s(v.x, v.y), higher_s(v.z, v.w))", "V(x, rest, rest, rest)"),
            false => ("v", "x"),
        };
        text.read += &TEXT.fill("row", holes!(top, one));
        let form = match (run, paired) {
            (true, true) => Form::Oct,
            (true, false) => Form::Quad,
            (false, _) => Form::Scalar,
        };
        text.read += &self.element.storage(1, "x", form, Access::Read);
        text.read += TEXT.get("load one");
        text.read += &match paired {
            true => TEXT.get("raw octs").to_owned(),
            false => TEXT.fill("raw", holes!(load = if run { "load4_x" } else { "load_x" })),
        };
        let states = TEXT.get(if self.is_smoothed() { "row of states and sums" } else { "row of states" });
        let fold = RowFold { name: "row", value: "Folds", combine: "combine_folds", again: false };
        text.finish = [states, workgroup::rows(), &fold.text()].concat();
        text.body = include_str!("../../../../wgsl/softmax_rows.wgsl").to_owned();
    }

    /// Walks columns, or states of an earlier pass, with the loops of a reduction.
    fn wide_walk(&self, frame: &Frame, text: &mut Text) {
        text.state += TEXT.get(if self.quad(frame) { "wide quad" } else { "wide one" });
        text.state += TEXT.get("identity");
        (text.read, text.body) = match self.reading {
            Reading::Columns => (
                frame.source(self.element) + &load(frame.quad) + &format!("const BLOCK = {BLOCK_ROWS}u;\n"),
                [workgroup::column(), include_str!("../../../../wgsl/softmax_columns.wgsl")].concat(),
            ),
            _ => (FOLD.fill("states", holes!(state = "State")) + FOLD.get("absorb"), frame.body()),
        };
        let write = |index: &str, state: &str| format!("end({index}, {state}, S())");
        text.finish = frame.writes(write, "v", |i| format!("State(v.key[{i}], v.sum[{i}])"));
    }

    /// `end`, which makes the result from state number `index`.
    fn ending(&self) -> String {
        match self.ending {
            Ending::States => TEXT.get("end in states").to_owned(),
            Ending::Logarithms(output) => {
                let storage = output.storage(2, "y", Form::Scalar, Access::ReadWrite);
                storage + include_str!("../../../../wgsl/softmax_logarithm.wgsl")
            }
            Ending::Losses(losses) => self.losses(losses),
        }
    }

    fn losses(&self, losses: Losses) -> String {
        let Losses { target, weighted, smoothed, ignores, axes } = losses;
        let results = Element::plain(self.element.dtype().compute());
        let mut out = String::new();
        for (binding, name) in [(2, "y"), (3, "counts"), (4, "logs")] {
            out += &results.storage(binding, name, Form::Scalar, Access::ReadWrite);
        }
        out += &target.storage(5, "targets", Form::Scalar, Access::Read);
        let mut next = 6;
        if weighted {
            out += &results.storage(next, "weights", Form::Scalar, Access::Read);
            next += 1;
        }
        let logit = if self.reading == Reading::States {
            out += &self.element.storage(next, "logits", Form::Scalar, Access::Read);
            "load_logits"
        } else {
            "load_x"
        };
        let weight =
            if weighted { "load_weights(params.weights_base + chosen * params.weights_stride)" } else { "S(1)" };
        let (ignored, is_positive) = match target.dtype() {
            DType::I32 => ("bitcast<i32>(params.ignored)", "target_of >= 0i && "),
            _ => ("params.ignored", ""),
        };
        let number = if self.wide() { "bitcast<f64>((u64(high) << 32u) | u64(low))" } else { "bitcast<f32>(low)" };
        // The places of a row's logits and of its target.
        let step = |axis: u8| {
            let at = format!("    at += vec2<u32>(params.a{axis}, params.b{axis})");
            match axis + 1 == axes {
                true => format!("{at} * rest;\n"),
                false => format!("{at} * (rest % params.r{axis});\n    rest /= params.r{axis};\n"),
            }
        };
        let (target, steps) = (target.scalar(), (0..axes).map(step).collect::<String>());
        out +=
            &TEXT.fill("losses", holes!(logit, weight, smoothed, ignores, target, ignored, is_positive, number, steps));
        out + include_str!("../../../../wgsl/softmax_loss.wgsl")
    }
}
