//! Graphs: operations made of others, as data.
//!
//! A [`Graph`] is a list of operations over inputs, outputs and temporaries. An operation that is one
//! ([`Operation::decompose`](crate::Operation::decompose)) runs on every device that runs its parts, whole or not at all: a device makes one
//! plan of it, in which temporaries are scratch space. A [`Builder`](crate::ops::Builder) writes graphs with the words
//! of [`crate::Tensor`].

pub(crate) mod kept;
mod run;

use crate::operation::{Op, Operand, Role};
use crate::plan::{Plan, Slot, share_scratch};
use crate::{Error, Result, TensorSpec};

/// Where an operand of a step lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Place {
    /// Input number `.0` of the whole: it is read.
    Input(usize),
    /// Output number `.0` of the whole: it is written, or updated where the whole updates it.
    Output(usize),
    /// Temporary number `.0`.
    Temp(usize),
}

/// One operation of a graph and where its operands lie.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GraphStep {
    /// What is computed; its layouts are views of the places.
    pub op: Op,
    /// Where its inputs lie.
    pub inputs: Vec<Place>,
    /// Where its outputs lie.
    pub outputs: Vec<Place>,
}

/// Operations in the order in which they run, over shared places.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Graph {
    /// What each temporary must have room for.
    pub temps: Vec<TensorSpec>,
    /// The operations; each sees what earlier ones wrote.
    pub steps: Vec<GraphStep>,
}

impl Graph {
    /// Refuses a graph that does not compute `outputs` from `inputs`: for the operation called `name`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] naming the operation, the step and its operand: a place that there is not or that is too small, a
    /// temporary or output that is read before it is written, an input that is written, one place written and bound twice, an output
    /// that nobody writes, and anything after an update.
    pub fn check(&self, name: &str, inputs: &[TensorSpec], outputs: &[Operand]) -> Result<()> {
        let refuse =
            |reason: String| Err(Error::InvalidArgument { what: "graph", reason: format!("{name}: {reason}") });
        let mut is_written = vec![false; self.temps.len()];
        let mut is_output_written = vec![false; outputs.len()];
        let mut updates = false;
        for (number, GraphStep { op, inputs: read, outputs: written }) in self.steps.iter().enumerate() {
            let who = format!("step {number} ({})", op.name());
            op.validate()?;
            let (specs, results) = (op.inputs(), op.outputs());
            if specs.len() != read.len() || results.len() != written.len() {
                let (reads, writes) = (specs.len(), results.len());
                return refuse(format!(
                    "{who} has places for {} and {} operands of {reads} and {writes}",
                    read.len(),
                    written.len()
                ));
            }
            if updates {
                return refuse(format!("{who} comes after an update, which must be the last step"));
            }
            for (at, (place, spec)) in read.iter().zip(&specs).enumerate() {
                let who = || format!("input {at} of {who}");
                match self.room(*place, inputs, outputs) {
                    None => return refuse(format!("{} is {place:?}, which there is not", who())),
                    Some(room) if !holds(room, spec) => {
                        return refuse(format!("{} reads {spec:?} from {place:?}, which is {room:?}", who()));
                    }
                    Some(_) => {}
                }
                let is_there = match *place {
                    Place::Input(_) => true,
                    Place::Output(output) => is_output_written[output] || outputs[output].role.is_read(),
                    Place::Temp(temp) => is_written[temp],
                };
                if !is_there {
                    return refuse(format!("{} reads {place:?}, which no earlier step writes", who()));
                }
            }
            for (at, (place, result)) in written.iter().zip(&results).enumerate() {
                let who = || format!("output {at} of {who}");
                match self.room(*place, inputs, outputs) {
                    None => return refuse(format!("{} is {place:?}, which there is not", who())),
                    Some(room) if !holds(room, &result.spec) => {
                        return refuse(format!("{} writes {:?} to {place:?}, which is {room:?}", who(), result.spec));
                    }
                    Some(_) => {}
                }
                if read.contains(place) || written[..at].contains(place) {
                    return refuse(format!("{} writes {place:?}, which the step binds twice", who()));
                }
                match *place {
                    Place::Input(_) => return refuse(format!("{} writes an input", who())),
                    Place::Output(output) => {
                        is_output_written[output] = true;
                        updates |= outputs[output].role == Role::Update;
                    }
                    Place::Temp(temp) => is_written[temp] = true,
                }
            }
        }
        match is_output_written.iter().position(|written| !written) {
            Some(output) => refuse(format!("no step writes output {output}")),
            None => Ok(()),
        }
    }

    fn room<'a>(&'a self, place: Place, inputs: &'a [TensorSpec], outputs: &'a [Operand]) -> Option<&'a TensorSpec> {
        match place {
            Place::Input(number) => inputs.get(number),
            Place::Output(number) => outputs.get(number).map(|output| &output.spec),
            Place::Temp(number) => self.temps.get(number),
        }
    }

    /// Whether a step reads `place`.
    pub fn reads(&self, place: Place) -> bool {
        self.steps.iter().any(|step| step.inputs.contains(&place))
    }

    /// A buffer for each temporary, and their sizes in bytes: those that are never needed at one time share one.
    pub fn buffers(&self) -> (Vec<usize>, Vec<u64>) {
        let uses = |temp: usize| {
            let place = Place::Temp(temp);
            self.steps.iter().rposition(|step| step.inputs.contains(&place) || step.outputs.contains(&place))
        };
        let last: Vec<Option<usize>> = (0..self.temps.len()).map(uses).collect();
        let (mut of, mut sizes, mut free) = (vec![0; self.temps.len()], Vec::new(), Vec::new());
        let mut is_placed = vec![false; self.temps.len()];
        for (number, step) in self.steps.iter().enumerate() {
            for place in &step.outputs {
                let Place::Temp(temp) = *place else { continue };
                let Some(spec) = self.temps.get(temp).filter(|_| !is_placed[temp]) else { continue };
                is_placed[temp] = true;
                // Portable kernels read whole quads.
                let bytes = spec.required_bytes().next_multiple_of(16).max(16);
                let at = free.pop().unwrap_or_else(|| {
                    sizes.push(0);
                    sizes.len() - 1
                });
                sizes[at] = bytes.max(sizes[at]);
                of[temp] = at;
            }
            free.extend(
                (0..self.temps.len())
                    .filter(|&temp| is_placed[temp] && last[temp] == Some(number))
                    .map(|temp| of[temp]),
            );
        }
        (of, sizes)
    }

    /// One plan of the plans that `plan` makes of the steps.
    ///
    /// # Errors
    /// Those of `plan`.
    pub fn plan(&self, mut plan: impl FnMut(&Op) -> Result<Plan>) -> Result<Plan> {
        let (of, sizes) = self.buffers();
        let temps = sizes.len();
        let mut whole = Plan { launches: Vec::new(), scratch_bytes: sizes };
        let mut beside = Vec::new();
        let slot = |place: Place| match place {
            Place::Input(number) => Slot::Input(number),
            Place::Output(number) => Slot::Output(number),
            Place::Temp(number) => Slot::Scratch(of[number]),
        };
        for step in self.steps.iter().filter(|step| !is_empty(&step.op)) {
            let part = plan(&step.op)?;
            share_scratch(&mut beside, part.scratch_bytes);
            for mut launch in part.launches {
                for bound in &mut launch.bindings {
                    *bound = match *bound {
                        Slot::Input(number) => slot(step.inputs[number]),
                        Slot::Output(number) => slot(step.outputs[number]),
                        Slot::Scratch(number) => Slot::Scratch(temps + number),
                    };
                }
                whole.launches.push(launch);
            }
        }
        whole.scratch_bytes.extend(beside);
        Ok(whole)
    }
}

/// Whether nothing is to be done: no output has an element.
pub(crate) fn is_empty(op: &Op) -> bool {
    let mut is_empty = true;
    op.operands(&mut |operand| is_empty &= !operand.role.is_written() || operand.spec.layout.elements() == 0);
    is_empty
}

/// Whether a place for `room` holds a view `spec`.
fn holds(room: &TensorSpec, spec: &TensorSpec) -> bool {
    room.dtype == spec.dtype && spec.layout.required_elements() <= room.layout.required_elements()
}
