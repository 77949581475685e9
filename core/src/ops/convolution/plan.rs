//! Convolutions and their gradients: a matrix product where they are one, tiles over a gathered matrix, for filters of single channels four
//! channels an invocation (`plan/depthwise.rs`), for other groups of few channels one element an invocation, for few channels in one
//! group tiles of pixels whose inputs are in workgroup memory (`plan/stem.rs`). A pure function of the operation and the device. Where
//! products run on cooperative matrices, rows that are gathered first (`convolution/rows.rs`) are the first choice for floats of 16 bits.
//!
//! The three operations are one kernel, `wgsl/convolution_tiles.wgsl`, with other functions for where rows, columns and terms lie
//! ([`Way`]). Sums of many terms and few elements are cut into slabs, which a second launch adds up in order: the same bits at each run.

use crate::graph::Graph;
use crate::ops::{Convolution, ConvolutionInput, ConvolutionWeights, Geometry, Matmul, pixel_pitch};
use crate::{DType, Error, Operation, Result, TensorSpec, UnaryFn};

use crate::plan::{Candidate, Caps, Cooperative, KernelKey, Launch, Plan, Slot};
use crate::wgsl::element::Element;
use crate::wgsl::math;

mod depthwise;
mod stem;
mod text;

/// Workgroups that are worth cutting sums for.
const WORKGROUPS: u64 = 512;
/// Terms of a slab at least: what they cost pays for the launch that adds slabs up.
const SLAB: u64 = 256;
/// Terms of a slab where one invocation adds them up.
const DIRECT_SLAB: u64 = 512;
/// Bytes of sums of slabs that there are at a time.
const MOST_PARTIAL_BYTES: u64 = 256 << 20;
/// Products of a pixel within a group from which tiles are worth their gathering.
const WORTH_TILES: u64 = 16;
/// Invocations of a workgroup without tiles.
const THREADS: u32 = 128;

/// Which sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Way {
    Forward,
    Input,
    Weights,
}

/// How it is added up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Shape {
    /// `threads` by `threads` invocations, each of 4 x 4 elements, `block_k` terms at a time.
    Tiles { threads: u32, block_k: u32 },
    /// An element an invocation.
    Direct,
    /// The slabs of another launch; none where there is nothing to add up.
    Combine { sums: bool },
}

/// What follows a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct End {
    residual: bool,
    bias: bool,
    activation: Option<UnaryFn>,
}

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    way: Way,
    shape: Shape,
    /// The result is a slab of sums.
    partial: bool,
    residual: bool,
    bias: bool,
    activation: Option<UnaryFn>,
    accumulator: Element,
    element: Element,
}

/// The members of `Params`.
const PARAMS: [&str; 45] = [
    "workgroups",
    "tiles_m",
    "tiles_n",
    "groups",
    "phases",
    "slab",
    "slabs",
    "total",
    "width",
    "images",
    "read",
    "written",
    "taps",
    "from_x",
    "from_y",
    "from_z",
    "to_x",
    "to_y",
    "to_z",
    "taps_x",
    "taps_y",
    "taps_z",
    "stride_x",
    "stride_y",
    "stride_z",
    "dilation_x",
    "dilation_y",
    "dilation_z",
    "before_x",
    "before_y",
    "before_z",
    "gap_x",
    "gap_y",
    "gap_z",
    "x_base",
    "x_pitch",
    "w_base",
    "w_pitch",
    "y_base",
    "c_base",
    "c_pitch",
    "bias_base",
    "bias_step",
    "unused_0",
    "unused_1",
];

pub(crate) fn forward(op: &Convolution, caps: &Caps) -> Result<Vec<Candidate>> {
    let name = op.name();
    if let Some(product) = op.as_product()? {
        return products(&product, caps);
    }
    if op.is_of_rows() {
        return Err(caps.unsupported(name, "products of rows serve such elements"));
    }
    let others = [op.residual, op.bias];
    let operands = [(0, op.x), (1, op.weights)];
    let problem = Problem::new(name, Way::Forward, &op.geometry, operands, others, op.activation, op.output);
    all(op.as_rows()?, &problem, caps)
}

pub(crate) fn input(op: &ConvolutionInput, caps: &Caps) -> Result<Vec<Candidate>> {
    let op = &op.with_shortest_strides();
    if let Some(product) = op.as_product()? {
        return products(&product, caps);
    }
    let operands = [(0, op.gradient), (1, op.weights)];
    let problem = Problem::new(op.name(), Way::Input, &op.geometry, operands, [None; 2], None, op.output);
    all(op.as_rows()?, &problem, caps)
}

pub(crate) fn weights(op: &ConvolutionWeights, caps: &Caps) -> Result<Vec<Candidate>> {
    if let Some(product) = op.as_product()? {
        return products(&product, caps);
    }
    let operands = [(1, op.x), (0, op.gradient)];
    let problem = Problem::new(op.name(), Way::Weights, &op.geometry, operands, [None; 2], None, op.output);
    all(op.as_rows()?, &problem, caps)
}

/// The ways of `problem`: by products of rows first, where the device multiplies matrices of its dtype on units of their own. Few channels
/// come before them: their rows are many times what is read, and to write and read them takes as long as the sums.
fn all(rows: Option<Graph>, problem: &Problem<'_>, caps: &Caps) -> Result<Vec<Candidate>> {
    let own = problem.candidates(caps)?;
    let mut candidates = Vec::new();
    if let Some(rows) = rows.filter(|_| has_matrices(caps)) {
        match rows.plan(|step| crate::ops::plan(step, caps)) {
            Ok(plan) => {
                let name = format!("{}_{}_rows", problem.name, problem.output.dtype);
                candidates.push(Candidate { name, plan, estimate_ns: 0.0 });
            }
            // What gathers windows itself may fit where rows do not.
            Err(error) if error.is_unsupported() || matches!(error, Error::IndexWidth { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    let is_stem =
        own.iter().any(|way| way.plan.launches.iter().any(|launch| launch.kernel.get::<stem::Kernel>().is_some()));
    let at = if is_stem { 0 } else { candidates.len() };
    candidates.splice(at..at, own);
    Ok(candidates)
}

/// Whether products of floats of 16 bits run on cooperative matrices.
fn has_matrices(caps: &Caps) -> bool {
    let is_of_halves = |product: &Cooperative| product.factors == DType::F16 && product.sum == DType::F32;
    caps.f16 && caps.subgroups.is_some() && caps.cooperative.iter().any(is_of_halves)
}

/// The first of the ways.
fn first(mut candidates: Vec<Candidate>) -> Plan {
    // Never none: products and problems have at least one.
    if candidates.is_empty() { Plan::default() } else { candidates.swap_remove(0).plan }
}

pub(crate) fn forward_plan(op: &Convolution, caps: &Caps) -> Result<Plan> {
    forward(op, caps).map(first)
}

pub(crate) fn input_plan(op: &ConvolutionInput, caps: &Caps) -> Result<Plan> {
    input(op, caps).map(first)
}

pub(crate) fn weights_plan(op: &ConvolutionWeights, caps: &Caps) -> Result<Plan> {
    weights(op, caps).map(first)
}

/// The ways of the product that an operation is, over the same operands.
fn products(product: &Matmul, caps: &Caps) -> Result<Vec<Candidate>> {
    crate::ops::matmul::plan::candidates(product, caps)
}

/// One of the three as the kernels see it.
struct Problem<'a> {
    name: &'static str,
    way: Way,
    geometry: &'a Geometry,
    /// What is gathered, then what it is multiplied with, each with its place among the inputs.
    operands: [(usize, TensorSpec); 2],
    /// Residual and bias.
    others: [Option<TensorSpec>; 2],
    activation: Option<UnaryFn>,
    output: TensorSpec,
}

impl<'a> Problem<'a> {
    fn new(
        name: &'static str,
        way: Way,
        geometry: &'a Geometry,
        operands: [(usize, TensorSpec); 2],
        others: [Option<TensorSpec>; 2],
        activation: Option<UnaryFn>,
        output: TensorSpec,
    ) -> Problem<'a> {
        Problem { name, way, geometry, operands, others, activation, output }
    }

    /// Channels of a group that are gathered, and those of the result.
    fn channels(&self) -> [u64; 2] {
        let [channels, filters] = [self.geometry.group_channels(), self.geometry.group_filters()];
        if self.way == Way::Input { [filters, channels] } else { [channels, filters] }
    }

    /// Of each axis, what taps of a phase are apart.
    fn gaps(&self) -> [u64; 3] {
        self.geometry.windows.map(|window| match self.way {
            Way::Input => window.stride / gcd(window.stride, window.dilation),
            Way::Forward | Way::Weights => 1,
        })
    }

    fn phases(&self) -> u64 {
        let strides = self.geometry.windows.map(|window| window.stride);
        if self.way == Way::Input { strides.iter().product() } else { 1 }
    }

    /// Rows, columns and terms of the matrix product of a group, of the largest phase.
    fn dims(&self) -> [u64; 3] {
        let geometry = self.geometry;
        let [read, written] = self.channels();
        match self.way {
            Way::Forward => [geometry.batch * geometry.output_pixels(), written, geometry.taps() * read],
            Way::Input => {
                let rows = geometry.windows.iter().map(|window| window.input.div_ceil(window.stride)).product::<u64>();
                let taps = geometry.windows.iter().zip(self.gaps()).map(|(window, gap)| window.taps.div_ceil(gap));
                [geometry.batch * rows, written, taps.product::<u64>() * read]
            }
            Way::Weights => [geometry.taps() * read, written, geometry.batch * geometry.output_pixels()],
        }
    }

    fn is_direct(&self) -> bool {
        let [read, written] = self.channels();
        self.geometry.groups > 1 && read * written < WORTH_TILES
    }

    /// The kernel of `shape` with the whole end of a sum.
    fn kernel(&self, shape: Shape, accumulator: Element, element: Element) -> Kernel {
        Kernel {
            way: self.way,
            shape,
            partial: false,
            residual: self.others[0].is_some(),
            bias: self.others[1].is_some(),
            activation: self.activation,
            accumulator,
            element,
        }
    }

    fn candidates(&self, caps: &Caps) -> Result<Vec<Candidate>> {
        let all = self.operands.iter().map(|(_, spec)| spec).chain(self.others.iter().flatten()).chain([&self.output]);
        let reach = all.map(|spec| spec.layout.required_elements()).max().unwrap_or(0);
        if reach > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op: self.name, elements: reach, max: u32::MAX.into() });
        }
        let accumulator = Element::new(self.output.dtype.compute(), caps)?;
        if let Some(f) = self.activation {
            math::require(f, accumulator.dtype(), caps)?;
        }
        let element = Element::new(self.output.dtype, caps)?;
        let kernel = self.kernel(Shape::Direct, accumulator, element);
        let (shape, plan) = if self.dims()[2] == 0 {
            let combine = Kernel { shape: Shape::Combine { sums: false }, ..kernel };
            ("empty", Plan { launches: vec![self.combine(combine, 0, None, caps)?], scratch_bytes: Vec::new() })
        } else if let Some(plan) = self.depthwise(accumulator, element, caps)? {
            ("depthwise", plan)
        } else if let Some(plan) = self.stem(accumulator, element, caps)? {
            ("stem", plan)
        } else if let Some(plan) = self.stem_weights(accumulator, element, caps)? {
            ("stem", plan)
        } else if self.is_direct() {
            ("direct", self.direct(kernel, caps)?)
        } else {
            ("tiles", self.tiles(kernel, caps)?)
        };
        let name = format!("{}_{}_{shape}", self.name, self.output.dtype);
        Ok(vec![Candidate { name, plan, estimate_ns: 0.0 }])
    }

    fn tiles(&self, kernel: Kernel, caps: &Caps) -> Result<Plan> {
        let [m, n, k] = self.dims();
        let size = kernel.accumulator.dtype().size_bytes();
        let block_k = if size == 8 { 8 } else { 16 };
        // Large tiles where the product is larger than a small one either way and the device runs as many invocations.
        let fits = |threads: u32| {
            let tile = Shape::Tiles { threads, block_k };
            caps.max_invocations >= threads * threads
                && u64::from(caps.max_workgroup_bytes) >= tile.workgroup_bytes(size)
        };
        let wanted = if m > 32 && n > 32 { [16, 8] } else { [8, 16] };
        let threads = wanted.into_iter().find(|&threads| fits(threads));
        let threads = threads.ok_or_else(|| caps.unsupported(self.name, "no tile fits the device's workgroups"))?;
        let kernel = Kernel { shape: Shape::Tiles { threads, block_k }, ..kernel };
        let block = u64::from(4 * threads);
        let (tiles_m, tiles_n) = (m.div_ceil(block), n.div_ceil(block));
        let parts = [tiles_m, tiles_n, self.geometry.groups, self.phases()].into_iter().fold(1, u64::saturating_mul);
        let slab = self.slab(&kernel, k, WORKGROUPS / parts.max(1), SLAB, u64::from(block_k), caps);
        let slabs = k.div_ceil(slab);
        let workgroups = parts.saturating_mul(slabs);
        let mut params = self.params(slab, slabs);
        [workgroups, tiles_m, tiles_n].into_iter().zip(&mut params).for_each(|(n, word)| *word = n as u32);
        self.summed(kernel, caps.fold_grid(workgroups)?, params, slabs, caps)
    }

    fn direct(&self, kernel: Kernel, caps: &Caps) -> Result<Plan> {
        let k = self.dims()[2];
        // A window is never cut.
        let slab = match self.way {
            Way::Weights => self.slab(&kernel, k, u64::MAX, DIRECT_SLAB, 1, caps),
            Way::Forward | Way::Input => k,
        };
        let slabs = k.div_ceil(slab);
        let items = self.output.layout.elements() * slabs;
        let grid = caps.fold_grid(items.div_ceil(kernel.threads().into()))?;
        self.summed(kernel, grid, self.params(slab, slabs), slabs, caps)
    }

    /// How many of `k` terms a slab has where `wanted` slabs are worth having: a multiple of `step`, `least` or more.
    fn slab(&self, kernel: &Kernel, k: u64, wanted: u64, least: u64, step: u64, caps: &Caps) -> u64 {
        let bytes = self.output.layout.elements() * kernel.accumulator.dtype().size_bytes();
        let most = (MOST_PARTIAL_BYTES / bytes.max(1)).max(1);
        let slabs = wanted.min(k.div_ceil(least)).clamp(1, most);
        let mut slab = k.div_ceil(slabs).next_multiple_of(step);
        // Some drivers end long loops.
        while slab > step && kernel.rounds(slab, self.geometry) > caps.loop_limit() {
            slab = (slab / 2).next_multiple_of(step);
        }
        slab
    }

    /// The launch of `kernel`, and the one that adds slabs up where there are several.
    fn summed(&self, kernel: Kernel, grid: [u32; 3], params: Vec<u32>, slabs: u64, caps: &Caps) -> Result<Plan> {
        let [x, w] = self.operands.map(|(number, _)| Slot::Input(number));
        if slabs == 1 {
            let bindings = [vec![x, w, Slot::Output(0)], self.slots()].concat();
            let launch = Launch { kernel: KernelKey::own(kernel), grid, bindings, params };
            return Ok(Plan { launches: vec![launch], scratch_bytes: Vec::new() });
        }
        let elements = self.output.layout.elements() * slabs;
        if elements > u64::from(u32::MAX) {
            return Err(Error::IndexWidth { op: self.name, elements, max: u32::MAX.into() });
        }
        let bytes = elements * kernel.accumulator.dtype().size_bytes();
        let combine = Kernel { shape: Shape::Combine { sums: true }, ..kernel };
        let partial = Kernel { partial: true, residual: false, bias: false, activation: None, ..kernel };
        let bindings = vec![x, w, Slot::Scratch(0)];
        let first = Launch { kernel: KernelKey::own(partial), grid, bindings, params };
        let second = self.combine(combine, slabs, Some(Slot::Scratch(0)), caps)?;
        Ok(Plan { launches: vec![first, second], scratch_bytes: vec![bytes.next_multiple_of(16)] })
    }

    fn combine(&self, kernel: Kernel, slabs: u64, sums: Option<Slot>, caps: &Caps) -> Result<Launch> {
        let grid = caps.fold_grid(self.output.layout.elements().div_ceil(kernel.threads().into()))?;
        let bindings = [sums.into_iter().collect(), vec![Slot::Output(0)], self.slots()].concat();
        Ok(Launch { kernel: KernelKey::own(kernel), grid, bindings, params: self.params(0, slabs) })
    }

    fn end(&self) -> End {
        let [residual, bias] = self.others.map(|other| other.is_some());
        End { residual, bias, activation: self.activation }
    }

    /// Residual and bias, behind both operands.
    fn slots(&self) -> Vec<Slot> {
        (2..2 + self.others.iter().flatten().count()).map(Slot::Input).collect()
    }

    /// The words of `Params`; those of tiles are not set.
    fn params(&self, slab: u64, slabs: u64) -> Vec<u32> {
        let geometry = self.geometry;
        let [read, written] = self.channels();
        let (inputs, outputs) =
            (geometry.windows.map(|window| window.input), geometry.windows.map(|window| window.output));
        let (from, to) = if self.way == Way::Input { (outputs, inputs) } else { (inputs, outputs) };
        let total = self.output.layout.elements();
        let width = match self.way {
            Way::Weights => geometry.taps() * read,
            Way::Forward | Way::Input => geometry.groups * written,
        };
        let mut words = vec![0, 0, 0, geometry.groups, self.phases(), slab, slabs, total, width];
        words.extend([geometry.batch, read, written, geometry.taps()]);
        words.extend([from, to].concat());
        words.extend(geometry.windows.map(|window| window.taps));
        words.extend(geometry.windows.map(|window| window.stride));
        words.extend(geometry.windows.map(|window| window.dilation));
        words.extend(geometry.windows.map(|window| window.before));
        words.extend(self.gaps());
        // A distance may be negative: offsets wrap, sums do not.
        let place = |spec: &TensorSpec| [spec.layout.offset(), pixel_pitch(spec).unwrap_or(0) as u64];
        words.extend(self.operands.iter().flat_map(|(_, spec)| place(spec)));
        words.push(self.output.layout.offset());
        words.extend(self.others[0].as_ref().map_or([0; 2], place));
        words.extend(self.others[1].map_or([0; 2], |bias| [bias.layout.offset(), bias.layout.strides()[0] as u64]));
        words.resize(PARAMS.len().next_multiple_of(4), 0);
        words.into_iter().map(|word| word as u32).collect()
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
