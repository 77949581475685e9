//! Row programs: steps of a graph that walk the same rows, made one operation.
//!
//! Normalisations, softmax, cross-entropy and their gradients are graphs of elementwise steps and of folds along the last axis or down the
//! columns, over one shape [rows..., n]. [`Graph::by_rows`] finds such steps and makes a [`RowProgram`] of them, which a device may run as
//! one kernel that reads a row once; where no kernel serves, the program is the graph it was made of. The decision to know: nothing but
//! the order of sums differs between both ways, because intermediates are rounded to their dtype in either.

pub(crate) mod plan;

use std::collections::HashMap;

use super::GraphOp;
use crate::gradient::{Gradient, Needs};
use crate::graph::{Graph, GraphStep, Place};
use crate::operation::{Arithmetic, Op, Operand, Operation, Role};
use crate::ops::{Copy, Map, Reduce, ReduceFn};
use crate::oracle::{Expected, HostTensor};
use crate::plan::{Caps, Plan};
use crate::{Layout, MAX_RANK, Result, Shape, Step, TensorSpec};

/// Columns from which a program without a fold is worth while: fewer leave most invocations of a row idle.
const LEAST_COLUMNS: u64 = 64;

/// Steps over the same rows, as one operation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct RowProgram {
    of: GraphOp,
    shape: Shape,
}

/// How many elements a value of a row program has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Extent {
    /// One for each element of the shape.
    Whole,
    /// One for each row.
    PerRow,
    /// One for each column.
    PerColumn,
}

impl RowProgram {
    /// [rows..., n].
    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    /// The steps.
    pub fn graph(&self) -> &Graph {
        self.of.graph()
    }

    /// What `layout`, that of an operand of a step, is over the whole shape, and which extent it has.
    pub fn over(&self, layout: &Layout) -> Option<(Extent, Layout)> {
        over(&self.shape, layout)
    }
}

/// See [`RowProgram::over`].
fn over(shape: &Shape, layout: &Layout) -> Option<(Extent, Layout)> {
    let (dims, own) = (shape.dims(), layout.dims());
    let (rank, last) = (dims.len(), dims.len().checked_sub(1)?);
    let rows = &dims[..last];
    let mut strides = [0i64; MAX_RANK];
    let extent = if own == dims {
        strides[..rank].copy_from_slice(layout.strides());
        Extent::Whole
    } else if own == rows || own.split_last() == Some((&1, rows)) {
        strides[..last].copy_from_slice(&layout.strides()[..last]);
        Extent::PerRow
    } else {
        let (&columns, ones) = own.split_last()?;
        if columns != dims[last] || ones.iter().any(|&one| one != 1) {
            return None;
        }
        strides[last] = layout.strides()[own.len() - 1];
        Extent::PerColumn
    };
    let whole = Layout::strided(*shape, &strides[..rank], layout.offset()).ok()?;
    Some((extent, whole))
}

impl Operation for RowProgram {
    fn name(&self) -> &'static str {
        self.of.name()
    }

    fn operands(&self, each: &mut dyn FnMut(Operand)) {
        self.of.operands(each);
    }

    fn validate(&self) -> Result<()> {
        self.of.validate()
    }

    fn arithmetic(&self) -> Arithmetic {
        self.of.arithmetic()
    }

    fn oracle(&self, before: &[HostTensor]) -> Vec<Vec<Expected>> {
        self.of.oracle(before)
    }

    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        self.of.gradient(needs)
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps).unwrap_or_else(|| Err(caps.unsupported(self.name(), "no kernel walks these rows")))
    }

    fn decompose(&self) -> Result<Option<Graph>> {
        self.of.decompose()
    }
}

impl Graph {
    /// The same graph with steps over the same rows gathered into [`RowProgram`]s called `name`, where there are any.
    pub fn by_rows(&self, name: &'static str) -> Graph {
        let mut graph = self.clone();
        // Every round makes one step of at least two.
        while let Some(gathered) = graph.gathered(name) {
            graph = gathered;
        }
        graph
    }

    /// With one more row program, if there is one to be had.
    fn gathered(&self, name: &'static str) -> Option<Graph> {
        let shapes = self.steps.iter().filter_map(|step| {
            let (map, reduce) = (step.op.get::<Map>(), step.op.get::<Reduce>());
            map.map(|map| *map.output.layout.shape()).or(reduce.map(|reduce| *reduce.input.layout.shape()))
        });
        let mut tried: Vec<Shape> = Vec::new();
        for shape in shapes {
            if tried.contains(&shape) {
                continue;
            }
            tried.push(shape);
            let program = Gathering::of(self, shape).filter(|gathering| gathering.is_worth_while(self));
            if let Some(program) = program {
                return Some(program.graph(self, name));
            }
        }
        None
    }

    /// Whether step `later` must stay behind step `earlier`.
    fn depends(&self, later: usize, earlier: usize) -> bool {
        let (later, earlier) = (&self.steps[later], &self.steps[earlier]);
        let reads = |place: &Place| later.inputs.contains(place) || later.outputs.contains(place);
        earlier.outputs.iter().any(reads) || earlier.inputs.iter().any(|place| later.outputs.contains(place))
    }
}

/// Operands of a row program: where each lies in the graph, and how it is seen.
type Operands = Vec<(Place, TensorSpec)>;

/// What becomes of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Where {
    Before,
    Member,
    After,
}

/// The steps of a row program to be.
struct Gathering {
    shape: Shape,
    steps: Vec<Where>,
    /// Places that members write, with what is written.
    made: HashMap<Place, (Extent, TensorSpec)>,
    /// Sums down the columns: there when the program ends.
    late: Vec<Place>,
}

impl Gathering {
    /// All steps over the rows of `shape` that can run as one.
    fn of(graph: &Graph, shape: Shape) -> Option<Gathering> {
        if shape.rank() == 0 || shape.elements() == 0 || shape.dims()[shape.rank() - 1] < 2 {
            return None;
        }
        let mut found = Gathering { shape, steps: Vec::new(), made: HashMap::new(), late: Vec::new() };
        for (number, step) in graph.steps.iter().enumerate() {
            let stands =
                |at: Where| (0..number).any(|earlier| found.steps[earlier] == at && graph.depends(number, earlier));
            let place = if stands(Where::After) {
                Where::After
            } else if let Some((extent, is_late)) = found.fit(graph, step) {
                for (place, output) in step.outputs.iter().zip(step.op.outputs()) {
                    found.made.insert(*place, (extent, output.spec));
                    if is_late {
                        found.late.push(*place);
                    }
                }
                Where::Member
            } else if stands(Where::Member) {
                Where::After
            } else {
                Where::Before
            };
            found.steps.push(place);
        }
        Some(found)
    }

    /// Whether the step can be a member: what its results are, and whether they are there at the end alone.
    fn fit(&self, graph: &Graph, step: &GraphStep) -> Option<(Extent, bool)> {
        // Each place has one value, and none of another size lies in it.
        let is_one = |place: &Place| graph.steps.iter().filter(|other| other.outputs.contains(place)).count() == 1;
        let outputs = step.op.outputs();
        let is_plain = |output: &Operand| output.role == Role::Write && output.spec.layout.is_contiguous();
        if !step.outputs.iter().all(is_one) || !outputs.iter().all(is_plain) {
            return None;
        }
        let axis = self.shape.rank() - 1;
        let read = |spec: &TensorSpec, place: &Place, extent: Extent| self.reads(spec, place, extent);
        if let Some(map) = step.op.get::<Map>() {
            let (extent, _) = over(&self.shape, &map.output.layout)?;
            // What is made of numbers of columns alone: each row would compute it anew.
            if extent == Extent::PerColumn && !map.inputs.is_empty() {
                return None;
            }
            let is_random = map.program.steps().iter().any(|(step, _)| matches!(step, Step::Random(_)));
            let is_read = map.inputs.iter().zip(&step.inputs).all(|(spec, place)| read(spec, place, extent));
            return (is_read && !is_random).then_some((extent, false));
        }
        if let Some(copy) = step.op.get::<Copy>() {
            let (extent, _) = over(&self.shape, &copy.output.layout)?;
            // What is copied from elsewhere gains nothing here.
            let is_made = self.made.contains_key(&step.inputs[0]);
            return (is_made && read(&copy.input, &step.inputs[0], extent)).then_some((extent, false));
        }
        let reduce = step.op.get::<Reduce>()?;
        if *reduce.input.layout.shape() != self.shape
            || !reduce.input.dtype.is_float()
            || !read(&reduce.input, &step.inputs[0], Extent::Whole)
        {
            return None;
        }
        let is_row = reduce.axes == [axis]
            && matches!(reduce.function, ReduceFn::Sum | ReduceFn::Mean | ReduceFn::Max | ReduceFn::Min);
        let is_column = axis > 0 && reduce.axes.iter().copied().eq(0..axis) && reduce.function == ReduceFn::Sum;
        match (is_row, is_column) {
            (true, _) => Some((Extent::PerRow, false)),
            (_, true) => Some((Extent::PerColumn, true)),
            _ => None,
        }
    }

    /// Whether a member whose results have `extent` can read the operand as it walks its rows.
    fn reads(&self, spec: &TensorSpec, place: &Place, extent: Extent) -> bool {
        if self.late.contains(place) {
            return false;
        }
        let Some(view) = self.view(&spec.layout, extent) else { return false };
        let last = self.shape.rank() - 1;
        let Some((made, whole)) = self.made.get(place) else {
            // Elements of a row lie one after the other, or are one.
            let stride = view.strides()[last];
            return stride == 0 || (stride == 1 && extent != Extent::PerRow);
        };
        // Element for element as it was made.
        let Some((_, own)) = over(&self.shape, &whole.layout) else { return false };
        let is_same = |axis: usize| self.shape.dims()[axis] == 1 || own.strides()[axis] == view.strides()[axis];
        let is_finer = *made != extent && extent != Extent::Whole;
        own.offset() == view.offset() && (0..=last).all(is_same) && !is_finer
    }

    /// The operand of a step whose results have `extent`, over the whole shape.
    fn view(&self, layout: &Layout, extent: Extent) -> Option<Layout> {
        let (own, view) = over(&self.shape, layout)?;
        (own == extent).then_some(view)
    }

    fn members<'a>(&'a self, graph: &'a Graph) -> impl Iterator<Item = &'a GraphStep> {
        graph.steps.iter().zip(&self.steps).filter(|(_, place)| **place == Where::Member).map(|(step, _)| step)
    }

    /// Whether more than one step becomes one, and rows are what they have in common.
    fn is_worth_while(&self, graph: &Graph) -> bool {
        let members: Vec<&GraphStep> = self.members(graph).collect();
        let is_made = |step: &GraphStep| step.inputs.iter().any(|place| self.made.contains_key(place));
        let is_fold = |step: &GraphStep| step.op.get::<Reduce>().is_some();
        let is_row_fold = |step: &GraphStep| is_fold(step) && !self.late.contains(&step.outputs[0]);
        let joined = members.iter().filter(|step| is_made(step)).count();
        let columns = self.shape.dims()[self.shape.rank() - 1];
        // A fold along rows, or down columns of what is made here, or several steps over rows that are long enough.
        joined > 0
            && (members.iter().any(|step| is_row_fold(step))
                || members.iter().any(|step| is_fold(step) && is_made(step))
                || columns >= LEAST_COLUMNS)
    }

    /// The graph with the members as one step.
    fn graph(&self, graph: &Graph, name: &'static str) -> Graph {
        let mut program = Graph::default();
        let (mut read, mut written): (Operands, Operands) = (Vec::new(), Vec::new());
        let mut temps: HashMap<Place, Place> = HashMap::new();
        let others = || graph.steps.iter().zip(&self.steps).filter(|(_, place)| **place != Where::Member);
        for step in self.members(graph) {
            let inputs = step.inputs.iter().zip(step.op.inputs()).map(|(place, spec)| {
                if let Some(inner) = temps.get(place) {
                    return *inner;
                }
                let known = read.iter().position(|known| *known == (*place, spec));
                Place::Input(known.unwrap_or_else(|| {
                    read.push((*place, spec));
                    read.len() - 1
                }))
            });
            let inputs = inputs.collect();
            let outputs = step.outputs.iter().zip(step.op.outputs()).map(|(place, output)| {
                let is_kept =
                    matches!(place, Place::Output(_)) || others().any(|(step, _)| step.inputs.contains(place));
                let inner = if is_kept {
                    written.push((*place, output.spec));
                    Place::Output(written.len() - 1)
                } else {
                    program.temps.push(output.spec);
                    Place::Temp(program.temps.len() - 1)
                };
                temps.insert(*place, inner);
                inner
            });
            let outputs = outputs.collect();
            program.steps.push(GraphStep { op: step.op.clone(), inputs, outputs });
        }
        let specs = |places: &Operands| places.iter().map(|(_, spec)| *spec).collect();
        let places = |places: Operands| places.into_iter().map(|(place, _)| place).collect();
        // Each input is read by the step that named it, so none is left out.
        let (of, _) = GraphOp::new(name, program, specs(&read), specs(&written));
        let op = Op::from(RowProgram { of, shape: self.shape });
        let whole = GraphStep { op, inputs: places(read), outputs: places(written) };
        let side = |at: Where| graph.steps.iter().zip(&self.steps).filter(move |(_, place)| **place == at);
        let (before, after) = (side(Where::Before), side(Where::After));
        let steps = before.map(|(step, _)| step.clone()).chain([whole]).chain(after.map(|(step, _)| step.clone()));
        Graph { temps: graph.temps.clone(), steps: steps.collect() }
    }
}

#[cfg(test)]
#[path = "rows/tests.rs"]
mod tests;
