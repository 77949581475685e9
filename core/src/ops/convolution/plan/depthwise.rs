//! Depthwise convolutions and their gradients, four channels an invocation: where each channel has one filter of its own, and
//! channels come in fours that begin at multiples of four elements. Others take an element an invocation ([`Shape::Direct`]).
//!
//! An invocation computes runs of pixels along the innermost axis, so that what neighbouring windows share is read once: numbers of a run
//! and of the taps at a time are part of the text ([`Run`]), for they say which registers are multiplied. Next: `plan/depthwise/text.rs`,
//! `wgsl/convolution_depthwise.wgsl`, `wgsl/convolution_depthwise_weights.wgsl`.

use super::{MOST_PARTIAL_BYTES, Problem, Shape, Way, gcd};
use crate::ops::{Window, pixel_pitch};
use crate::plan::{Caps, KernelKey, Launch, Plan, Slot};
use crate::wgsl::element::Element;
use crate::{Result, TensorSpec, UnaryFn};

mod text;

/// Invocations of a workgroup, and of one that adds up weights' gradients: the more fold their sums there, the fewer slabs are left.
const THREADS: u32 = 128;
const THREADS_OF_WEIGHTS: u32 = 256;
/// Vectors of channels that a workgroup covers at most: a pixel's are then 256 bytes of 16-bit floats, or for weights' gradients 64, two
/// sectors of memory, which leaves more of the workgroup to pixels.
const MOST_QUADS: u64 = 32;
const MOST_QUADS_OF_WEIGHTS: u64 = 8;
/// Workgroups from which on each computes several runs with the weights that it staged, and how many at most.
const ENOUGH_WORKGROUPS: u64 = 512;
const MOST_ROUNDS: u64 = 4;
/// Runs of a lane for which another slab of weights' gradients is worth having, and slabs at most: one chain adds them up. Workgroups that
/// slabs are cut for: three times as many as a large GPU runs at a time, or the last ones run alone.
const LEAST_ROUNDS: u64 = 4;
const MOST_SLABS: u64 = 128;
const WORKGROUPS_OF_WEIGHTS: u64 = 1024;
/// Workgroup memory that WebGPU guarantees: sums of as many weights are folded at a time.
const FOLD_BYTES: u64 = 16 << 10;
/// Taps of a row at a time, taps of all rows that an invocation sums up, and inputs of a run: vectors in registers.
const MOST_TAPS: u64 = 8;
const MOST_SUMS: u64 = 9;
const MOST_SPAN: u64 = 16;
/// Workgroup memory that WebGPU guarantees. Where there is more, more workgroups run at a time.
const WEIGHT_BYTES: u64 = 16 << 10;
/// Strides of the gradient of an input stay below it: products of two remainders fit 32 bits.
const MOST_STRIDE: u64 = 1 << 16;
/// Runs at most: they are counted in 32 bits, beyond the last one too.
const MOST_RUNS: u64 = 1 << 31;

/// Pixels and taps that an invocation takes at a time along the innermost axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Run {
    pixels: u64,
    taps: u64,
    /// From the input of a pixel to that of the next one, and from a tap to the next one, where the inputs of a run are read once.
    steps: Option<[u64; 2]>,
}

impl Run {
    /// Inputs from the first one to the last one, where they are read once.
    fn span(&self) -> u64 {
        self.steps.map_or(1, |[step, tap_step]| (self.pixels - 1) * step + (self.taps - 1) * tap_step + 1)
    }

    /// Loads of a row of taps.
    fn loads(&self) -> u64 {
        if self.steps.is_some() { self.span() } else { self.pixels * self.taps }
    }

    /// The run of `pixels` for a row of `taps`; inputs are shared where that saves loads and they fit registers.
    fn new(pixels: u64, taps: u64, [step, tap_step]: [u64; 2]) -> Run {
        let taps = taps.div_ceil(taps.div_ceil(MOST_TAPS).max(1)).max(1);
        // A step that is never taken is no part of a text.
        let steps = [if pixels > 1 { step } else { 1 }, if taps > 1 { tap_step } else { 1 }];
        let shared = Run { pixels, taps, steps: Some(steps) };
        if shared.span() <= MOST_SPAN.min(pixels * taps) { shared } else { Run { steps: None, ..shared } }
    }

    /// That of the fewest loads for rows of `extent` pixels, shorter ones first.
    fn best(lengths: &[u64], extent: u64, taps: u64, steps: [u64; 2]) -> Run {
        let runs = lengths.iter().map(|&pixels| Run::new(pixels, taps, steps));
        let best = runs.min_by_key(|run| extent.div_ceil(run.pixels).saturating_mul(run.loads()));
        best.unwrap_or(Run::new(1, taps, steps))
    }
}

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    way: Way,
    run: Run,
    /// Every row of taps is as many times `run.taps` as it is long. Of weights' gradients: every row of pixels is whole runs.
    whole: bool,
    /// Vectors of channels of a workgroup, a power of two.
    quads: u64,
    threads: u32,
    /// Of weights' gradients the rows of taps that an invocation sums up; of others all taps of a window.
    taps: u64,
    /// The result is a slab of sums.
    partial: bool,
    residual: bool,
    bias: bool,
    activation: Option<UnaryFn>,
    accumulator: Element,
    element: Element,
}

impl Kernel {
    /// Runs that a workgroup computes side by side.
    fn lanes(&self) -> u64 {
        u64::from(self.threads) / self.quads
    }

    /// Sums of weights that an invocation of their gradient has.
    fn sums(&self) -> u64 {
        self.taps * self.run.taps
    }

    /// How many of them are folded at a time.
    fn folded(&self) -> u64 {
        (FOLD_BYTES / self.row_bytes()).clamp(1, self.sums())
    }

    /// A vector of each invocation.
    fn row_bytes(&self) -> u64 {
        4 * u64::from(self.threads) * self.accumulator.dtype().size_bytes()
    }
}

/// The numbers of `Params` that no axis has.
const NUMBERS: [&str; 21] = [
    "workgroups",
    "blocks",
    "quads",
    "rounds",
    "runs",
    "runs_z",
    "run_gap",
    "step",
    "taps",
    "parts_y",
    "parts_z",
    "total",
    "x_base",
    "x_pitch",
    "w_base",
    "w_pitch",
    "y_base",
    "c_base",
    "c_pitch",
    "bias_base",
    "bias_step",
];

/// Those that each axis has, one behind the other for x, y and z.
const OF_AXES: [&str; 11] =
    ["from", "to", "taps", "stride", "dilation", "before", "gap", "divisor", "inverse", "tap_step", "tap_gap"];

/// How rows of taps meet the pixels of an axis.
struct Axis {
    window: Window,
    /// Extents of what is read and of what pixels are counted of.
    from: u64,
    to: u64,
    /// Of the gradient of an input, whose pixels meet the taps that are a gap apart: gcd(stride, dilation), stride / divisor, and the
    /// inverse of dilation / divisor modulo the gap. 1, 1 and 0 else.
    divisor: u64,
    gap: u64,
    inverse: u64,
    /// From a pixel of a run to the next one, and from what it reads to what that one reads.
    run_gap: u64,
    step: u64,
    /// From what a tap reads to what the next one that is met reads, and how many taps of the window that is.
    tap_step: u64,
    tap_gap: i64,
}

impl Axis {
    fn new(way: Way, window: Window) -> Axis {
        let Window { input, output, stride, dilation, .. } = window;
        if way != Way::Input {
            let (divisor, gap, inverse) = (1, 1, 0);
            let (run_gap, step, tap_step, tap_gap) = (1, stride, dilation, 1);
            return Axis { window, from: input, to: output, divisor, gap, inverse, run_gap, step, tap_step, tap_gap };
        }
        let divisor = gcd(stride, dilation);
        let (gap, tap_step) = (stride / divisor, dilation / divisor);
        let inverse = (0..gap).find(|n| tap_step % gap * n % gap == 1).unwrap_or(0);
        // Taps in descending order, so that what is read ascends.
        let (run_gap, step, tap_gap) = (stride, 1, -(gap as i64));
        Axis { window, from: output, to: input, divisor, gap, inverse, run_gap, step, tap_step, tap_gap }
    }

    /// The most taps that a pixel meets.
    fn taps(&self) -> u64 {
        self.window.taps.div_ceil(self.gap)
    }

    /// Runs of `pixels` pixels, a `run_gap` apart: of each remainder, and in the last stretch of those that there are.
    fn runs(&self, pixels: u64) -> u64 {
        let stretch = pixels * self.run_gap;
        let before = (self.to.max(1) - 1) / stretch;
        before * self.run_gap + self.run_gap.min(self.to - before * stretch)
    }

    /// In the order of [`OF_AXES`].
    fn words(&self) -> [u64; OF_AXES.len()] {
        let Window { taps, stride, dilation, before, .. } = self.window;
        let Axis { from, to, divisor, gap, inverse, tap_step, tap_gap, .. } = *self;
        [from, to, taps, stride, dilation, before, gap, divisor, inverse, tap_step, tap_gap as u64]
    }
}

/// Vectors of a workgroup for `quads` vectors of channels, a power of two from 4 (or `quads`, if that is less) to `most`: the largest that
/// leaves at most a quarter as many idle as there are, else the one that leaves the fewest.
fn quads_of_block(quads: u64, most: u64) -> u64 {
    let least = quads.next_power_of_two().min(4).min(most);
    let all = (0..).map(|log2| most >> log2).take_while(|&block| block >= least);
    let idle = |block: u64| quads.next_multiple_of(block) - quads;
    let found = all.clone().find(|&block| 4 * idle(block) <= quads);
    found.or_else(|| all.min_by_key(|&block| idle(block))).unwrap_or(least)
}

impl Problem<'_> {
    /// The plan for four channels an invocation; `None` where channels do not lie so, or windows are too large for workgroup memory.
    pub(super) fn depthwise(&self, accumulator: Element, element: Element, caps: &Caps) -> Result<Option<Plan>> {
        let geometry = self.geometry;
        // Weights and their gradients are read and written element by element.
        let vectors = match self.way {
            Way::Weights => vec![Some(self.operands[0].1), Some(self.operands[1].1)],
            Way::Forward | Way::Input => vec![Some(self.operands[0].1), Some(self.output), self.others[0]],
        };
        let fits = geometry.group_channels() == 1
            && geometry.group_filters() == 1
            && geometry.channels.is_multiple_of(4)
            && [geometry.batch, geometry.input_pixels(), geometry.output_pixels()].iter().all(|count| *count > 0)
            && vectors.iter().flatten().all(is_of_vectors)
            && (self.way != Way::Input || geometry.windows.iter().all(|window| window.stride < MOST_STRIDE));
        if !fits {
            return Ok(None);
        }
        let axes = geometry.windows.map(|window| Axis::new(self.way, window));
        match self.way {
            Way::Weights => self.depthwise_weights(accumulator, element, &axes, caps),
            Way::Forward | Way::Input => self.depthwise_pixels(accumulator, element, &axes, caps),
        }
    }

    /// The convolution, or the gradient of its input.
    fn depthwise_pixels(
        &self,
        accumulator: Element,
        element: Element,
        axes: &[Axis; 3],
        caps: &Caps,
    ) -> Result<Option<Plan>> {
        let (quads, taps) = (self.geometry.channels / 4, self.geometry.taps());
        let size = accumulator.dtype().size_bytes();
        let lengths: &[u64] = if size == 8 { &[1, 2] } else { &[1, 2, 4, 7] };
        let z = &axes[2];
        let run = Run::best(lengths, z.to.div_ceil(z.run_gap), z.taps(), [z.step, z.tap_step]);
        let kernel = |quads: u64| Kernel {
            way: self.way,
            run,
            whole: z.taps() == run.taps && z.window.taps.is_multiple_of(z.gap),
            quads,
            threads: THREADS,
            taps,
            partial: false,
            residual: self.others[0].is_some(),
            bias: self.others[1].is_some(),
            activation: self.activation,
            accumulator,
            element,
        };
        let most_bytes = WEIGHT_BYTES.min(caps.max_workgroup_bytes.into());
        let fitting = (0..).map(|log2| quads_of_block(quads, MOST_QUADS) >> log2).take_while(|&block| block > 0);
        let found = fitting.map(kernel).find(|kernel| kernel.weights().saturating_mul(4 * size) <= most_bytes);
        let Some(kernel) = found.filter(|kernel| kernel.threads <= caps.max_invocations) else { return Ok(None) };
        let runs_z = z.runs(run.pixels);
        let runs = self.geometry.batch * axes[0].to * axes[1].to * runs_z;
        let blocks = quads.div_ceil(kernel.quads);
        let rows = runs.div_ceil(kernel.lanes());
        let mut rounds = (blocks * rows / ENOUGH_WORKGROUPS).clamp(1, MOST_ROUNDS);
        let numbers = |rounds: u64| Numbers { blocks, rounds, runs, runs_z, parts: [1; 2] };
        let params = |rounds: u64| self.depthwise_params(&numbers(rounds), rows.div_ceil(rounds) * blocks, axes);
        while rounds > 1 && kernel.rounds(&params(rounds)) > caps.loop_limit() {
            rounds -= 1;
        }
        let params = params(rounds);
        // Windows of very many taps.
        if kernel.rounds(&params) > caps.loop_limit() {
            return Ok(None);
        }
        let grid = caps.fold_grid(rows.div_ceil(rounds) * blocks)?;
        let [x, w] = self.operands.map(|(number, _)| Slot::Input(number));
        let bindings = [vec![x, w, Slot::Output(0)], self.slots()].concat();
        let launch = Launch { kernel: KernelKey::own(kernel), grid, bindings, params };
        Ok(Some(Plan { launches: vec![launch], scratch_bytes: Vec::new() }))
    }

    /// The gradient of the weights.
    fn depthwise_weights(
        &self,
        accumulator: Element,
        element: Element,
        axes: &[Axis; 3],
        caps: &Caps,
    ) -> Result<Option<Plan>> {
        let quads = self.geometry.channels / 4;
        let lengths: &[u64] = if accumulator.dtype().size_bytes() == 8 { &[1, 2] } else { &[1, 2, 4] };
        let [x, y, z] = axes;
        let run = Run::best(lengths, z.to, z.window.taps, [z.step, z.tap_step]);
        let most_rows = (MOST_SUMS / run.taps).clamp(1, y.window.taps);
        let rows = y.window.taps.div_ceil(y.window.taps.div_ceil(most_rows));
        let kernel = Kernel {
            way: self.way,
            run,
            whole: z.to.is_multiple_of(run.pixels),
            quads: quads_of_block(quads, MOST_QUADS_OF_WEIGHTS),
            threads: if caps.max_invocations < THREADS_OF_WEIGHTS { THREADS } else { THREADS_OF_WEIGHTS },
            taps: rows,
            partial: false,
            residual: false,
            bias: false,
            activation: None,
            accumulator,
            element,
        };
        let bytes = kernel.folded() * kernel.row_bytes();
        let parts = [y.window.taps.div_ceil(rows), z.window.taps.div_ceil(run.taps)];
        let runs_z = z.runs(run.pixels);
        let runs = [x.to, y.to, runs_z].into_iter().fold(self.geometry.batch, u64::saturating_mul);
        // Pixels that are all one may be more than fit.
        if kernel.threads > caps.max_invocations || bytes > caps.max_workgroup_bytes.into() || runs > MOST_RUNS {
            return Ok(None);
        }
        let blocks = quads.div_ceil(kernel.quads);
        let workgroups = blocks * x.window.taps * parts[0] * parts[1];
        let total = self.output.layout.elements();
        let most = MOST_PARTIAL_BYTES / (total * accumulator.dtype().size_bytes()).max(1);
        let most = (WORKGROUPS_OF_WEIGHTS / workgroups).min(MOST_SLABS).min(most).max(1);
        let wanted = runs.div_ceil(kernel.lanes() * LEAST_ROUNDS).min(most);
        let mut rounds = runs.div_ceil(kernel.lanes() * wanted);
        let params = |rounds: u64| {
            let slabs = runs.div_ceil(kernel.lanes() * rounds);
            let numbers = Numbers { blocks, rounds, runs, runs_z, parts };
            (slabs, self.depthwise_params(&numbers, workgroups * slabs, axes))
        };
        // Some drivers end long loops.
        while rounds > 1 && kernel.rounds(&params(rounds).1) > caps.loop_limit() {
            rounds = rounds.div_ceil(2);
        }
        let (slabs, params) = params(rounds);
        if kernel.rounds(&params) > caps.loop_limit() || total * slabs > u64::from(u32::MAX) {
            return Ok(None);
        }
        let grid = caps.fold_grid(workgroups * slabs)?;
        let whole = self.kernel(Shape::Combine { sums: true }, accumulator, element);
        let [x, w] = self.operands.map(|(number, _)| Slot::Input(number));
        if slabs == 1 {
            let launch = Launch { kernel: KernelKey::own(kernel), grid, bindings: vec![x, w, Slot::Output(0)], params };
            return Ok(Some(Plan { launches: vec![launch], scratch_bytes: Vec::new() }));
        }
        let kernel = KernelKey::own(Kernel { partial: true, ..kernel });
        let first = Launch { kernel, grid, bindings: vec![x, w, Slot::Scratch(0)], params };
        let second = self.combine(whole, slabs, Some(Slot::Scratch(0)), caps)?;
        let bytes = total * slabs * accumulator.dtype().size_bytes();
        Ok(Some(Plan { launches: vec![first, second], scratch_bytes: vec![bytes.next_multiple_of(16)] }))
    }

    /// The words of `Params`: [`NUMBERS`], then [`OF_AXES`].
    fn depthwise_params(&self, numbers: &Numbers, workgroups: u64, axes: &[Axis; 3]) -> Vec<u32> {
        let geometry = self.geometry;
        let Numbers { blocks, rounds, runs, runs_z, parts } = *numbers;
        let z = &axes[2];
        // A distance may be negative: products of offsets wrap, their sums do not.
        let place = |spec: &TensorSpec, width: i64| {
            [spec.layout.offset() as i64 / width, pixel_pitch(spec).unwrap_or(0) / width].map(|word| word as u64)
        };
        let [x, w] = self.operands.map(|(_, spec)| spec);
        let (w_width, y_width) = if self.way == Way::Weights { (4, 1) } else { (1, 4) };
        let mut words = vec![workgroups, blocks, geometry.channels / 4, rounds, runs, runs_z, z.run_gap, z.step];
        words.extend([geometry.taps(), parts[0], parts[1], self.output.layout.elements()]);
        words.extend([place(&x, 4), place(&w, w_width)].concat());
        words.push(self.output.layout.offset() / y_width);
        words.extend(self.others[0].as_ref().map_or([0; 2], |spec| place(spec, 4)));
        words.extend(self.others[1].map_or([0; 2], |bias| [bias.layout.offset(), bias.layout.strides()[0] as u64]));
        let axes = axes.each_ref().map(Axis::words);
        words.extend((0..OF_AXES.len()).flat_map(|number| axes.map(|words| words[number])));
        words.resize(words.len().next_multiple_of(4), 0);
        words.into_iter().map(|word| word as u32).collect()
    }
}

/// How the work of a launch is cut.
struct Numbers {
    blocks: u64,
    rounds: u64,
    runs: u64,
    runs_z: u64,
    parts: [u64; 2],
}

/// Whether the channels of every pixel begin at a multiple of four elements.
pub(super) fn is_of_vectors(spec: &TensorSpec) -> bool {
    let pitch = pixel_pitch(spec).unwrap_or(1);
    spec.layout.offset().is_multiple_of(4) && pitch.unsigned_abs().is_multiple_of(4)
}
