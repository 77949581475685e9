//! Row programs: steps over the same rows as one launch of a generated kernel, which reads each row once.
//!
//! A row belongs to LANES invocations. They hold it in registers, or walk it again for each fold where it is too long, and once, holding little,
//! where there is no fold; between folds they compute what the steps say, element by element (`rows/text.rs`). Of 16-bit floats an invocation
//! takes eight neighbours at once where rows allow it, and twice as many vectors as of others: the bytes that it has under way count. Sums down the columns are kept by each invocation for its own
//! columns, over several rows, and a reduction adds up what the workgroups leave. What no kernel serves (wide folds of f64 extrema, very few very
//! long rows) runs as the graph that the program is.

mod sums;
mod text;

use crate::graph::Place;
use crate::ops::{Copy, Map, Reduce, ReduceFn};
use crate::ops::{Extent, RowProgram};
use crate::plan::looped;
use crate::{DType, Layout, Operation, Result, Scalar, Shape, Step, StepSet, TensorSpec, collapse_together};

use crate::plan::{Caps, KernelKey, KernelText, Launch, Plan, Slot, Source};
use crate::wgsl::element::{Element, Form};
use crate::wgsl::index::check_index;
use crate::wgsl::math;
use crate::wgsl::rounds::of_step;

/// Invocations of a workgroup, unless one row takes more.
const THREADS: u32 = 256;
/// Most invocations that share a row.
const MOST_LANES: u32 = 512;
/// Vectors of a row that an invocation is to have at most, as long as there are lanes; of 16-bit floats twice as many.
const ITEMS: u64 = 4;
/// Bytes that an invocation loads at once of an operand that it walks, and the vectors that these may be.
const WALKED_BYTES: u64 = 64;
const WALKED_ITEMS: u64 = 8;
/// 32-bit registers that what is held of a row may take: operands and sums down the columns.
const MOST_HELD: u64 = 64;
/// Workgroups whose sums down the columns are left for a reduction to add up.
const PARTIAL_ROWS: u64 = 256;
/// Fewer rows than this of more columns than that are no work for one workgroup each.
const FEW_ROWS: u64 = 32;
const MANY_COLUMNS: u64 = 1 << 14;
/// Most heads of a fold, and the values that each folds: loops of `wgsl/pieces/workgroup_fold.wgsl`.
const MOST_FOLDED: u64 = 32;

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    /// Neighbours of a row that are loaded and stored together: 1, 2 or 4.
    width: u32,
    lanes: u32,
    threads: u32,
    /// Vectors that an invocation holds of a row, or where it walks a row those that it holds at a time.
    items: u32,
    /// Whether rows are held whole.
    held: bool,
    /// Whether vectors come two by two: eight 16-bit floats of every operand and output that is no row or column of numbers.
    paired: bool,
    /// Axes of the rows.
    axes: u8,
    operands: Vec<Operand>,
    nodes: Vec<Node>,
    outputs: Vec<Output>,
    nearest_conversions: bool,
    wide_integers: bool,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        text::source(self)
    }

    /// Of every stage a walk over the row and a fold; each element's steps may have loops of their own.
    fn loop_rounds(&self, params: &[u32]) -> u64 {
        let word = |at: usize| u64::from(params.get(at).copied().unwrap_or(u32::MAX));
        let (units, rounds) = (word(1), word(3));
        let steps = self.nodes.iter().map(|node| match node {
            Node::Map { steps, .. } => steps.iter().map(|(step, element)| of_step(*step, element.dtype())).sum(),
            _ => 0u64,
        });
        let each = u64::from(self.width) * steps.sum::<u64>();
        let items = u64::from(self.items);
        let blocks = if self.held { 1 } else { units.div_ceil(items * u64::from(self.lanes)) };
        let stages = 1 + self.nodes.iter().filter(|node| matches!(node, Node::Fold { .. })).count() as u64;
        let walk = looped(blocks, looped(items, each) + looped(items, 0)) + 2 * looped(MOST_FOLDED, 0);
        looped(rounds, stages.saturating_mul(walk)) + looped(items, 2 * looped((self.threads / self.lanes).into(), 0))
    }
}

/// What is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Operand {
    element: Element,
    access: Access,
}

/// How an operand lies over the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Access {
    Whole,
    PerRow,
    PerColumn,
    Uniform,
}

/// A value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Of {
    Operand(u8),
    /// A result of a node.
    Node(u8, u8),
}

/// A step.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Node {
    /// A program over elements, rows or columns.
    Map { extent: Extent, steps: Vec<(Step, Element)>, rounded: StepSet, inputs: Vec<Of>, results: Vec<Made> },
    /// A row's elements folded.
    Fold { function: ReduceFn, of: Of, input: Element, output: Element },
    /// A sum down the columns, left as partial sums.
    Down { of: Of },
}

/// A result of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Made {
    step: u16,
    element: Element,
    /// Whether it is a number of its dtype as it is.
    is_rounded: bool,
}

/// What is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Output {
    of: Of,
    element: Element,
    extent: Extent,
}

/// The launches of `op`, or `None` where this kernel does not serve it.
pub(crate) fn plan(op: &RowProgram, caps: &Caps) -> Option<Result<Plan>> {
    match Planning::of(op, caps) {
        Ok(planning) => planning?.plan(op, caps),
        Err(error) if error.is_unsupported() => None,
        Err(error) => Some(Err(error)),
    }
}

/// A kernel in the making, with what goes to its parameters.
struct Planning {
    kernel: Kernel,
    /// Of each operand: its layout over the collapsed axes of the rows, then the columns.
    views: Vec<Layout>,
    /// Of each output.
    offsets: Vec<u64>,
    constants: Vec<(Element, Scalar)>,
    /// Of each sum down the columns: where it goes.
    sums: Vec<(Place, TensorSpec)>,
    /// The axes of the rows.
    extents: Vec<u64>,
    rows: u64,
    columns: u64,
    /// Places of the operands and outputs.
    slots: Vec<Slot>,
}

impl Planning {
    fn of(op: &RowProgram, caps: &Caps) -> Result<Option<Planning>> {
        let shape = op.shape();
        let (Some(&columns), rows) = (shape.dims().last(), shape.elements()) else { return Ok(None) };
        let rows = rows / columns.max(1);
        if columns == 0 || rows == 0 || (rows < FEW_ROWS && columns > MANY_COLUMNS) {
            return Ok(None);
        }
        let mut reading =
            Reading { op, caps, operands: Vec::new(), known: Vec::new(), nodes: Vec::new(), constants: Vec::new() };
        let Some(outputs) = reading.read()? else { return Ok(None) };
        let Reading { operands, nodes, constants, .. } = reading;
        if nodes.len() > usize::from(u8::MAX) || operands.len() > usize::from(u8::MAX) {
            return Ok(None);
        }
        let axis = shape.rank() - 1;
        let layouts: Vec<Layout> = operands.iter().map(|(_, layout, _)| *layout).collect();
        // The rows' axes alone are merged: a row is walked by itself.
        let of_rows = |layout: &Layout| {
            Layout::strided(Shape::new(&shape.dims()[..axis])?, &layout.strides()[..axis], layout.offset())
        };
        let of_rows = collapse_together(&layouts.iter().map(of_rows).collect::<Result<Vec<_>>>()?);
        let extents = of_rows.first().map_or_else(Vec::new, |layout| layout.dims().to_vec());
        let access = |layout: &Layout, row: &Layout| {
            let moves = row.strides().iter().any(|&stride| stride != 0);
            match (layout.strides()[axis] != 0, moves) {
                (true, true) => Access::Whole,
                (true, false) => Access::PerColumn,
                (false, true) => Access::PerRow,
                (false, false) => Access::Uniform,
            }
        };
        let accesses: Vec<Access> = layouts.iter().zip(&of_rows).map(|(layout, row)| access(layout, row)).collect();
        let width = width(columns, &operands, &accesses, &of_rows, &outputs);
        let sums: Vec<(Place, TensorSpec)> =
            outputs.iter().filter(|out| out.is_sum).map(|out| (out.place, out.spec)).collect();
        let held = operands.iter().zip(&accesses).filter(|(_, access)| **access == Access::Whole);
        let held: u64 = held.map(|((element, ..), _)| words(*element)).sum();
        let is_half = |element: &Element| element.dtype().size_bytes() == 2;
        let whole =
            || operands.iter().zip(&accesses).zip(&of_rows).filter(|((_, access), _)| **access == Access::Whole);
        let halves = whole().next().is_some() && whole().all(|(((element, ..), _), _)| is_half(element));
        let even = |n: u64| n.is_multiple_of(8);
        let paired = halves
            && width == 4
            && even(columns)
            && whole().all(|((..), row)| even(row.offset()) && row.strides().iter().all(|s| even(s.unsigned_abs())))
            && outputs
                .iter()
                .filter(|out| out.extent == Extent::Whole && !out.is_sum)
                .all(|out| is_half(&out.element) && even(out.spec.layout.offset()) && out.element.stores_octs(caps));
        // Sums down the columns are held as well, and must be: more invocations then hold less each. Pairs of vectors are cut as one.
        let words = width * (held + sums.len() as u64);
        let (together, most) = (if paired { 2 } else { 1 }, if halves { 2 * ITEMS } else { ITEMS });
        let mut wanted: Vec<u64> = (1..=most).map(|part| most / part / together).filter(|&items| items > 0).collect();
        wanted.dedup();
        let mut cuts = wanted.iter().map(|&wanted| cut(columns / width / together, words * together, wanted, caps));
        let has_fold = nodes.iter().any(|node| matches!(node, Node::Fold { .. }));
        let found = if sums.is_empty() && !has_fold {
            // What needs no fold holds a row for nothing.
            cuts.next().flatten().map(|(lanes, _)| (lanes, 0))
        } else {
            let cuts: Vec<(u32, u32)> = cuts.flatten().collect();
            let held = cuts.iter().copied().find(|(_, items)| *items > 0);
            held.or(if sums.is_empty() { cuts.first().copied() } else { None })
        };
        let Some((lanes, items)) = found else { return Ok(None) };
        let is_held = items > 0;
        let items = if is_held {
            u64::from(items) * together
        } else {
            walked(width, whole().map(|((operand, _), _)| operand.0))
        };
        let stored = outputs.iter().filter(|out| !out.is_sum);
        let is_wide = |dtype: DType| dtype.size_bytes() == 8;
        let has_f64 = nodes.iter().any(|node| node.elements().any(|element| is_wide(element.dtype())));
        let kernel = Kernel {
            width: width as u32,
            lanes,
            threads: lanes.max(THREADS.min(caps.max_invocations)),
            items: items as u32,
            held: is_held,
            paired,
            axes: extents.len() as u8,
            operands: operands
                .iter()
                .zip(&accesses)
                .map(|((element, ..), access)| Operand { element: *element, access: *access })
                .collect(),
            outputs: stored
                .clone()
                .map(|out| Output { of: out.of, element: out.element, extent: out.extent })
                .collect(),
            nearest_conversions: caps.nearest_conversions,
            wide_integers: caps.i64 || !has_f64,
            nodes,
        };
        let slot = |place: &Place| match *place {
            Place::Input(number) => Some(Slot::Input(number)),
            Place::Output(number) => Some(Slot::Output(number)),
            Place::Temp(_) => None,
        };
        let places = operands.iter().map(|(.., place)| *place).chain(stored.clone().map(|out| out.place));
        let Some(slots) = places.map(|place| slot(&place)).collect::<Option<Vec<Slot>>>() else { return Ok(None) };
        let offsets = stored.map(|out| out.spec.layout.offset()).collect();
        let views = of_rows;
        Ok(Some(Planning { kernel, views, offsets, constants, sums, extents, rows, columns, slots }))
    }

    fn plan(self, op: &RowProgram, caps: &Caps) -> Option<Result<Plan>> {
        if self.slots.len() + self.sums.len() > caps.max_storage_buffers as usize {
            return None;
        }
        Some(self.launches(op, caps))
    }

    fn launches(self, op: &RowProgram, caps: &Caps) -> Result<Plan> {
        let Planning { kernel, views, offsets, constants, sums, extents, rows, columns, slots } = self;
        let at_once = u64::from(kernel.threads / kernel.lanes);
        let mut groups = rows.div_ceil(at_once);
        if !sums.is_empty() {
            groups = groups.min(PARTIAL_ROWS);
        }
        let rounds = rows.div_ceil(groups * at_once);
        let width = u64::from(kernel.width);
        let mut params = vec![rows as u32, (columns / width) as u32, columns as u32, rounds as u32];
        params.extend([groups as u32, 0, 0]);
        // Innermost first, as rows are counted.
        params.extend(extents.iter().rev().map(|&extent| extent as u32));
        for (operand, view) in kernel.operands.iter().zip(&views) {
            let unit = operand.unit(width);
            params.push((view.offset() / unit) as u32);
            if operand.walks() {
                params.extend(view.strides().iter().rev().map(|&stride| (stride / unit as i64) as u32));
            }
        }
        for (output, offset) in kernel.outputs.iter().zip(&offsets) {
            let unit = if output.extent == Extent::PerRow { 1 } else { width };
            params.push((offset / unit) as u32);
        }
        for (element, value) in constants {
            let words = element.param_words(value);
            if words.len() == 2 && params.len() % 2 == 1 {
                params.push(0);
            }
            params.extend(words);
        }
        params.resize(params.len().next_multiple_of(4), 0);
        let partial_rows = groups;
        let bindings = slots.into_iter().chain((0..sums.len()).map(Slot::Scratch)).collect();
        let grid = caps.fold_grid(groups)?;
        let mut launches = vec![Launch { kernel: KernelKey::own(kernel), grid, bindings, params }];
        let partial = TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(&[partial_rows, columns])?));
        let mut scratch_bytes = vec![partial.required_bytes().next_multiple_of(16); sums.len()];
        let temps = scratch_bytes.len();
        let mut outputs = Vec::new();
        for (place, spec) in sums {
            let row = Layout::contiguous(Shape::new(&[columns])?).with_offset(spec.layout.offset());
            let slot = match place {
                Place::Output(output) => Slot::Output(output),
                Place::Input(_) | Place::Temp(_) => return Err(caps.unsupported(op.name(), "a sum that nobody reads")),
            };
            outputs.push((slot, TensorSpec::new(spec.dtype, row)));
        }
        if let (2.., Some(launch)) = (outputs.len(), sums::plan(&partial, &outputs, caps)?) {
            launches.push(launch);
            return Ok(Plan { launches, scratch_bytes });
        }
        let mut beside = Vec::new();
        for (number, (slot, output)) in outputs.into_iter().enumerate() {
            let total = Reduce { function: ReduceFn::Sum, input: partial, axes: vec![0], output };
            let part = crate::ops::reduce::plan::plan(&total, caps)?;
            crate::plan::share_scratch(&mut beside, part.scratch_bytes);
            for mut launch in part.launches {
                for bound in &mut launch.bindings {
                    *bound = match *bound {
                        Slot::Input(_) => Slot::Scratch(number),
                        Slot::Output(_) => slot,
                        Slot::Scratch(other) => Slot::Scratch(temps + other),
                    };
                }
                launches.push(launch);
            }
        }
        scratch_bytes.extend(beside);
        Ok(Plan { launches, scratch_bytes })
    }
}

/// 32-bit registers of an element.
fn words(element: Element) -> u64 {
    element.dtype().compute().size_bytes().div_ceil(4)
}

/// Elements that are loaded and stored together.
fn width(
    columns: u64,
    operands: &[(Element, Layout, Place)],
    accesses: &[Access],
    rows: &[Layout],
    outputs: &[Written],
) -> u64 {
    let fits = |width: u64| {
        let even = |n: u64| n.is_multiple_of(width);
        let is_pair = |element: &Element| width != 2 || element.dtype().size_bytes() > 1;
        let operand = |((element, ..), (access, row)): (&(Element, Layout, Place), (&Access, &Layout))| match access {
            Access::PerRow | Access::Uniform => true,
            Access::Whole | Access::PerColumn => {
                is_pair(element)
                    && even(row.offset())
                    && row.strides().iter().all(|stride| stride.unsigned_abs().is_multiple_of(width))
            }
        };
        let output = |out: &Written| match out.extent {
            Extent::PerRow => true,
            Extent::Whole | Extent::PerColumn => {
                out.is_sum || (is_pair(&out.element) && even(out.spec.layout.offset()))
            }
        };
        even(columns) && operands.iter().zip(accesses.iter().zip(rows)).all(operand) && outputs.iter().all(output)
    };
    [4, 2].into_iter().find(|&width| fits(width)).unwrap_or(1)
}

/// Invocations of a row of `units` vectors, `wanted` for each as long as there are some, and the vectors that each holds of `words`
/// registers; none where the row is too long. `None` where a device has too few invocations for any.
fn cut(units: u64, words: u64, wanted: u64, caps: &Caps) -> Option<(u32, u32)> {
    let most = u64::from(MOST_LANES.min(caps.max_invocations));
    let most = if most.is_power_of_two() { most } else { most.next_power_of_two() / 2 };
    if most == 0 {
        return None;
    }
    let lanes = units.div_ceil(wanted).next_power_of_two().min(most);
    let items = units.div_ceil(lanes);
    let is_held = items * words.max(1) <= MOST_HELD;
    Some((lanes as u32, if is_held { items as u32 } else { 0 }))
}

/// Vectors of `width` that an invocation loads at a time where it walks a row.
fn walked(width: u64, elements: impl Iterator<Item = Element>) -> u64 {
    let bytes = elements.map(|element| width * element.dtype().size_bytes()).max();
    bytes.map_or(ITEMS, |bytes| (WALKED_BYTES / bytes.max(1)).clamp(ITEMS / 2, WALKED_ITEMS))
}

/// What a step writes that others read.
struct Written {
    of: Of,
    element: Element,
    extent: Extent,
    place: Place,
    spec: TensorSpec,
    is_sum: bool,
}

/// The steps of a graph as nodes.
struct Reading<'a> {
    op: &'a RowProgram,
    caps: &'a Caps,
    /// Element, layout over the whole shape, place.
    operands: Vec<(Element, Layout, Place)>,
    known: Vec<(Place, Of)>,
    nodes: Vec<Node>,
    constants: Vec<(Element, Scalar)>,
}

impl Reading<'_> {
    /// What is written; `None` for a step that this kernel does not know.
    fn read(&mut self) -> Result<Option<Vec<Written>>> {
        let mut outputs = Vec::new();
        for step in &self.op.graph().steps {
            let mut inputs = Vec::new();
            for (place, spec) in step.inputs.iter().zip(step.op.inputs()) {
                let Some(of) = self.value(*place, &spec)? else { return Ok(None) };
                inputs.push(of);
            }
            let extent = |spec: &TensorSpec| self.op.over(&spec.layout).map(|(extent, _)| extent);
            let (made, is_sum) = if let Some(map) = step.op.get::<Map>() {
                let Some(extent) = extent(&map.output) else { return Ok(None) };
                (self.map(map, extent, inputs)?, false)
            } else if step.op.get::<Copy>().is_some() {
                (inputs, false)
            } else if let Some(reduce) = step.op.get::<Reduce>() {
                let is_sum = reduce.axes != [self.op.shape().rank() - 1];
                let Some(of) = self.fold(reduce, inputs[0], is_sum)? else { return Ok(None) };
                (vec![of], is_sum)
            } else {
                return Ok(None);
            };
            for ((place, output), of) in step.outputs.iter().zip(step.op.outputs()).zip(made) {
                check_index(self.op.name(), &output.spec)?;
                self.known.push((*place, of));
                if matches!(place, Place::Output(_)) {
                    let Some((extent, _)) = self.op.over(&output.spec.layout) else { return Ok(None) };
                    let element = self.stored(of, Element::new(output.spec.dtype, self.caps)?);
                    outputs.push(Written { of, element, extent, place: *place, spec: output.spec, is_sum });
                }
            }
        }
        Ok(Some(outputs))
    }

    /// How a value is stored: what is a number of its dtype already, as it is.
    fn stored(&self, of: Of, element: Element) -> Element {
        let is_rounded = match of {
            Of::Operand(_) => true,
            Of::Node(node, result) => match &self.nodes[usize::from(node)] {
                Node::Map { results, .. } => results[usize::from(result)].is_rounded,
                Node::Fold { function, .. } => matches!(function, ReduceFn::Max | ReduceFn::Min),
                Node::Down { .. } => false,
            },
        };
        if is_rounded { element.kept() } else { element }
    }

    /// What lies at `place`.
    fn value(&mut self, place: Place, spec: &TensorSpec) -> Result<Option<Of>> {
        if let Some((_, of)) = self.known.iter().rev().find(|(known, _)| *known == place) {
            return Ok(Some(*of));
        }
        let Some((_, layout)) = self.op.over(&spec.layout) else { return Ok(None) };
        check_index(self.op.name(), spec)?;
        let operand = (Element::new(spec.dtype, self.caps)?, layout, place);
        let known = self.operands.iter().position(|known| *known == operand);
        let number = known.unwrap_or_else(|| {
            self.operands.push(operand);
            self.operands.len() - 1
        });
        Ok(Some(Of::Operand(number as u8)))
    }

    fn map(&mut self, map: &Map, extent: Extent, inputs: Vec<Of>) -> Result<Vec<Of>> {
        let program = &map.program;
        let mut steps = Vec::with_capacity(program.steps().len());
        for &(step, dtype) in program.steps() {
            match step {
                Step::Unary(f, _) => math::require(f, dtype, self.caps)?,
                Step::Binary(f, ..) => math::require_binary(f, dtype, self.caps)?,
                _ => {}
            }
            let element = Element::new(dtype, self.caps)?;
            if let Step::Constant(number) = step {
                self.constants.push((element, program.constants()[usize::from(number)]));
            }
            steps.push((step, element));
        }
        let mut results = Vec::new();
        for (number, output) in map.results().enumerate() {
            let (step, element) = (program.result(number), Element::new(output.dtype, self.caps)?);
            results.push(Made { step, element, is_rounded: program.is_rounded(step) });
        }
        let node = self.nodes.len() as u8;
        let made = (0..results.len()).map(|result| Of::Node(node, result as u8)).collect();
        self.nodes.push(Node::Map { extent, steps, rounded: program.rounded(), inputs, results });
        Ok(made)
    }

    fn fold(&mut self, reduce: &Reduce, of: Of, is_sum: bool) -> Result<Option<Of>> {
        let (input, output) =
            (Element::new(reduce.input.dtype, self.caps)?, Element::new(reduce.output.dtype, self.caps)?);
        let compute = reduce.input.dtype.compute();
        let node = self.nodes.len() as u8;
        let is_served = match reduce.function {
            ReduceFn::Sum if is_sum => compute == DType::F32,
            ReduceFn::Sum | ReduceFn::Mean => matches!(compute, DType::F32 | DType::F64),
            ReduceFn::Max | ReduceFn::Min => compute == DType::F32,
            _ => false,
        };
        if !is_served {
            return Ok(None);
        }
        self.nodes.push(if is_sum {
            Node::Down { of }
        } else {
            Node::Fold { function: reduce.function, of, input, output }
        });
        Ok(Some(Of::Node(node, 0)))
    }
}

impl Operand {
    /// Elements of what is counted in its indices.
    fn unit(&self, width: u64) -> u64 {
        match self.access {
            Access::Whole | Access::PerColumn => width,
            Access::PerRow | Access::Uniform => 1,
        }
    }

    /// Whether rows have places of their own.
    fn walks(&self) -> bool {
        matches!(self.access, Access::Whole | Access::PerRow)
    }

    fn form(&self, width: u32, paired: bool) -> Form {
        match self.access {
            Access::Whole if paired => Form::Oct,
            Access::Whole | Access::PerColumn => form(width),
            Access::PerRow | Access::Uniform => Form::Scalar,
        }
    }
}

fn form(width: u32) -> Form {
    match width {
        4 => Form::Quad,
        2 => Form::Pair,
        _ => Form::Scalar,
    }
}

impl Node {
    fn elements(&self) -> impl Iterator<Item = Element> + '_ {
        let (steps, folded) = match self {
            Node::Map { steps, .. } => (steps.as_slice(), [None, None]),
            Node::Fold { input, output, .. } => (&[][..], [Some(*input), Some(*output)]),
            Node::Down { .. } => (&[][..], [None, None]),
        };
        steps.iter().map(|step| step.1).chain(folded.into_iter().flatten())
    }

    fn inputs(&self) -> &[Of] {
        match self {
            Node::Map { inputs, .. } => inputs,
            Node::Fold { of, .. } | Node::Down { of } => std::slice::from_ref(of),
        }
    }
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
