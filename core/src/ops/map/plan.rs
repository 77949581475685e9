//! Elementwise expressions: one launch of a generated kernel around `wgsl/map.wgsl`, or `wgsl/map_update.wgsl` where an operand is
//! updated in place.
//!
//! The planner decides how each input is read ([`Mode`]); what differs in numbers only (extents, strides, constants)
//! goes to `Params`, so kernels are shared. The text is made in `map/text.rs`. An invocation computes quads: four
//! consecutive elements of the dense output.

pub(crate) mod body;
pub(crate) mod guards;
pub(crate) mod text;

use crate::ops::Map;
use crate::{DType, Error, Layout, Operation, Result, Scalar, Step, StepSet, collapse_together};

use crate::plan::KernelKey;
use crate::plan::looped;
use crate::plan::{Caps, KernelText, Launch, Plan, Slot, Source};
use crate::wgsl::element::{Element, Form};
use crate::wgsl::math;
use crate::wgsl::rounds::of_step;
use body::Body;

/// Invocations of a workgroup: 8 warps of 32; more or fewer gained nothing on an H200.
const THREADS: u32 = 256;

/// Words of parameters that most launches stay below.
const MOST_PARAMS: usize = 32;

/// Specialisation: the program but for its constants, and how every operand is read.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    steps: Vec<(Step, Element)>,
    /// Of each step, whether its value is a number of its dtype as it is.
    rounded: StepSet,
    inputs: Vec<(Element, Mode)>,
    output: Output,
    others: Vec<Output>,
    /// The number of outputs that are read as well, as inputs after `inputs`: the first ones.
    updates: usize,
    /// Collapsed dimensions of the strided inputs; 0 when there is none.
    rank: usize,
    /// Whether the innermost of them is a multiple of four, so that no quad spans two rows.
    whole_rows: bool,
    /// Whether the device's own conversion of integers to f32 will do ([`Caps::nearest_conversions`]).
    nearest_conversions: bool,
    /// Whether a hidden f64 goes through a 64-bit integer, and random bits through 64-bit products ([`Caps::i64`]).
    wide_integers: bool,
    threads: u32,
    /// Quads an invocation computes: 16 bytes of output.
    items: u32,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        text::source(self)
    }

    /// Every quad is loaded and stored in a loop; each step of its four elements may have one of its own.
    fn loop_rounds(&self, _params: &[u32]) -> u64 {
        let steps: u64 = self.steps.iter().map(|(step, element)| of_step(*step, element.dtype())).sum();
        let items = self.items.into();
        looped(items, 4 * steps) + looped(items, 0)
    }
}

/// Where a result goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Output {
    /// The step that gives it.
    step: u16,
    element: Element,
    /// Quads, but for 8-byte elements that start in the middle of one.
    form: Form,
}

/// How an input is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Mode {
    /// Contiguous from a multiple of four: quad for quad as the output.
    Dense,
    /// One element for all.
    Uniform,
    /// Rows of whole quads: strides of the other dimensions are multiples of four.
    Rows,
    /// One element for a whole row.
    Splat,
    /// Element by element.
    Gather,
    /// Dense from no multiple of four, as an output that is updated may lie.
    Beside,
}

pub(crate) fn plan(op: &Map, caps: &Caps) -> Result<Plan> {
    let mut steps = Vec::with_capacity(op.program.steps().len());
    for &(step, dtype) in op.program.steps() {
        match step {
            Step::Unary(f, _) => math::require(f, dtype, caps)?,
            Step::Binary(f, ..) => math::require_binary(f, dtype, caps)?,
            _ => {}
        }
        steps.push((step, Element::new(dtype, caps)?));
    }
    let mut inputs = Vec::with_capacity(op.inputs.len());
    for input in &op.inputs {
        inputs.push((Element::new(input.dtype, caps)?, input.layout));
    }
    let mut outputs = op.results().enumerate().map(|(number, output)| {
        let (step, element) = (op.program.result(number), Element::new(output.dtype, caps)?);
        let element = if op.program.is_rounded(step) { element.kept() } else { element };
        Ok(Target { step, element, offset: output.layout.offset() })
    });
    let output = outputs.next().unwrap_or_else(|| Err(caps.unsupported(op.name(), "it has no result")))?;
    let others = outputs.collect::<Result<Vec<Target>>>()?;
    let (rounded, constants, updates) = (op.program.rounded(), op.program.constants(), op.updates);
    let request = Request { name: op.name(), steps, rounded, constants, inputs, output, others, updates };
    let launch = request.launch(op.output.layout.elements(), caps)?;
    Ok(Plan { launches: vec![launch], scratch_bytes: Vec::new() })
}

/// What a map kernel is made for: a [`Map`], or a copy to a dense output ([`crate::ops::copy::plan`]).
pub(crate) struct Request<'a> {
    /// For errors.
    pub(crate) name: &'static str,
    pub(crate) steps: Vec<(Step, Element)>,
    /// Of each step, as in [`crate::Program::is_rounded`].
    pub(crate) rounded: StepSet,
    pub(crate) constants: &'a [Scalar],
    pub(crate) inputs: Vec<(Element, Layout)>,
    pub(crate) output: Target,
    pub(crate) others: Vec<Target>,
    /// So many of the outputs, the first ones, are read as well.
    pub(crate) updates: usize,
}

/// A dense output of a [`Request`].
#[derive(Clone, Copy)]
pub(crate) struct Target {
    /// The step that gives its elements.
    pub(crate) step: u16,
    pub(crate) element: Element,
    /// Its first element within the buffer.
    pub(crate) offset: u64,
}

impl Target {
    fn output(self) -> Output {
        let form = if self.offset.is_multiple_of(4) { Form::Quad } else { Form::Scalar };
        Output { step: self.step, element: self.element, form }
    }
}

impl Request<'_> {
    /// Whether a step makes f32 of integers that may have more than its 24 bits.
    fn converts_integers(&self) -> bool {
        let wide = |step: &Step| match *step {
            Step::Index => true,
            Step::Cast(x) => matches!(self.steps[usize::from(x)].1.dtype(), DType::I32 | DType::U32),
            _ => false,
        };
        self.steps.iter().any(|(step, element)| element.dtype().compute() == DType::F32 && wide(step))
    }

    fn targets(&self) -> impl Iterator<Item = &Target> {
        [&self.output].into_iter().chain(&self.others)
    }

    /// The launch that writes `elements` dense elements of each output.
    pub(crate) fn launch(self, elements: u64, caps: &Caps) -> Result<Launch> {
        let written = self.targets().map(|target| target.offset + elements);
        let reached = self.inputs.iter().map(|i| i.1.required_elements()).chain(written).max().unwrap_or(0);
        let max = u64::from(u32::MAX);
        if reached > max {
            return Err(Error::IndexWidth { op: self.name, elements: reached, max });
        }
        let buffers = self.inputs.len() + 1 + self.others.len();
        if buffers > caps.max_storage_buffers as usize {
            let reason = format!("it takes {buffers} buffers, {} fit one kernel", caps.max_storage_buffers);
            return Err(caps.unsupported(self.name, reason));
        }

        let modes = Modes::of(&self.inputs);
        // Without such a conversion there is one kernel for both.
        let nearest_conversions = caps.nearest_conversions || !self.converts_integers();
        let is_random = self.steps.iter().any(|(step, _)| matches!(step, Step::Random(_)));
        let wide_integers = caps.i64 || !(is_random || guards::any(&self.steps, Some(DType::F64)));
        let widest = self.targets().map(|target| target.element.dtype().size_bytes()).max().unwrap_or(4) as u32;
        let offsets: Vec<u32> = self.others.iter().map(|target| target.offset as u32).collect();
        let kernel = Kernel {
            steps: self.steps,
            rounded: self.rounded,
            inputs: self.inputs.iter().zip(&modes.modes).map(|(i, &mode)| (i.0, mode)).collect(),
            output: self.output.output(),
            others: self.others.into_iter().map(Target::output).collect(),
            updates: self.updates,
            rank: modes.dims.len(),
            whole_rows: modes.whole_rows(),
            nearest_conversions,
            wide_integers,
            threads: THREADS.min(caps.max_invocations),
            items: (4 / widest).max(1),
        };

        let quads = elements.div_ceil(4);
        let mut params = Vec::with_capacity(MOST_PARAMS);
        params.extend([quads as u32, (elements % 4) as u32, (elements - 1) as u32, self.output.offset as u32]);
        params.extend(offsets);
        if kernel.is_guarded() {
            params.extend([0, 0]);
        }
        params.extend(modes.dims.iter().map(|&dim| dim as u32));
        for (i, (_, layout)) in self.inputs.iter().enumerate() {
            params.push(layout.offset() as u32);
            // Strides wrap: a sum of products that ends inside the buffer is right modulo 2^32.
            params.extend(modes.strides[i].iter().map(|&stride| stride as u32));
        }
        for (constant, element) in kernel.constants() {
            let words = element.param_words(self.constants[constant]);
            if words.len() == 2 && params.len() % 2 == 1 {
                params.push(0);
            }
            params.extend(words);
        }
        params.resize(params.len().next_multiple_of(4), 0);

        let grid = caps.fold_grid(quads.div_ceil(u64::from(kernel.threads * kernel.items)))?;
        let bindings =
            (0..self.inputs.len()).map(Slot::Input).chain((0..=kernel.others.len()).map(Slot::Output)).collect();
        Ok(Launch { kernel: KernelKey::own(kernel), grid, bindings, params })
    }
}

impl Kernel {
    fn body(&self) -> Body<'_> {
        let Kernel { steps, rounded, nearest_conversions, .. } = self;
        Body { steps, rounded: *rounded, nearest_conversions: *nearest_conversions, constants: "c" }
    }

    fn outputs(&self) -> impl Iterator<Item = &Output> {
        [&self.output].into_iter().chain(&self.others)
    }

    /// Whether `Params` has the zero that operands are hidden behind.
    fn is_guarded(&self) -> bool {
        guards::any(&self.steps, None)
    }

    /// Each constant that a step uses, in the order of the steps, which is the order of `Params`.
    fn constants(&self) -> Vec<(usize, Element)> {
        let constant = |&(step, element): &(Step, Element)| match step {
            Step::Constant(n) => Some((usize::from(n), element)),
            _ => None,
        };
        self.steps.iter().filter_map(constant).collect()
    }
}

/// The inputs' modes, and what the strided ones iterate over.
struct Modes {
    modes: Vec<Mode>,
    /// Extents, outermost first.
    dims: Vec<u64>,
    /// Per input: a stride per extent for the strided ones, else empty.
    strides: Vec<Vec<i64>>,
}

impl Modes {
    fn of(inputs: &[(Element, Layout)]) -> Modes {
        let simple = |layout: &Layout| {
            let repeats = layout.dims().iter().zip(layout.strides()).all(|(&dim, &stride)| dim == 1 || stride == 0);
            if layout.is_contiguous() && layout.offset().is_multiple_of(4) {
                Some(Mode::Dense)
            } else if repeats {
                Some(Mode::Uniform)
            } else {
                None
            }
        };
        let known: Vec<Option<Mode>> = inputs.iter().map(|(_, layout)| simple(layout)).collect();
        let strided = inputs.iter().zip(&known).filter(|(_, mode)| mode.is_none());
        let strided: Vec<Layout> = strided.map(|((_, layout), _)| *layout).collect();
        let mut collapsed = collapse_together(&strided).into_iter();
        let dims = collapsed.as_slice().first().map_or(Vec::new(), |layout| layout.dims().to_vec());
        let count = inputs.len();
        let mut modes = Modes { modes: Vec::with_capacity(count), dims, strides: Vec::with_capacity(count) };
        for ((_, layout), known) in inputs.iter().zip(known) {
            let (mode, strides) = match known {
                Some(mode) => (mode, Vec::new()),
                None => {
                    let strides = collapsed.next().map_or(Vec::new(), |layout| layout.strides().to_vec());
                    (modes.strided_mode(&strides, layout.offset()), strides)
                }
            };
            modes.modes.push(mode);
            modes.strides.push(strides);
        }
        modes
    }

    fn whole_rows(&self) -> bool {
        self.dims.last().is_some_and(|inner| inner.is_multiple_of(4))
    }

    fn strided_mode(&self, strides: &[i64], offset: u64) -> Mode {
        let Some((&inner, outer)) = strides.split_last() else { return Mode::Gather };
        if !self.whole_rows() {
            Mode::Gather
        } else if inner == 0 {
            Mode::Splat
        } else if inner == 1 && offset.is_multiple_of(4) && outer.iter().all(|stride| stride % 4 == 0) {
            Mode::Rows
        } else {
            Mode::Gather
        }
    }
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
