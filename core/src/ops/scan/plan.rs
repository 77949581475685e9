//! Scans: launches over rows (`wgsl/scan_rows.wgsl`) or columns (`wgsl/scan_columns.wgsl`), and what elements are to them.
//!
//! Rows run along the last axis, and neighbouring threads along the row; columns run along any other, and neighbouring threads across
//! them. Lines too few to fill a device are cut into slabs: each is folded (`wgsl/scan_fold.wgsl`), the folds are scanned, and each slab is
//! scanned behind what comes before it. No launch waits for another workgroup of its own. Extrema scan keys with positions and read the
//! chosen elements at the end, so that bits are kept. A scan in reverse walks with negative strides.

use crate::ops::{Scan, ScanDirection, ScanFn, ScanStart};
use crate::plan::looped;
use crate::{DType, Operation, Result};

use crate::ops::fold::passes::{ENOUGH_GROUPS, lanes_for};
use crate::plan::{Access, Caps, KernelKey, KernelText, Launch, Plan, Slot, Source};
use crate::wgsl::element::{self, Element};
use crate::wgsl::index::{check_index, in_quads, in_vectors};
use crate::wgsl::keys;
use crate::wgsl::math;
use crate::wgsl::params::axis_words;

#[path = "plan/text.rs"]
mod text;

/// Threads of one workgroup; WebGPU guarantees 256.
const THREADS: u32 = 256;
/// Vectors of a thread in each tile of a row.
const STRIPS: u32 = 4;
/// Rows that a thread loads at once as it walks down a column.
const DEPTH: u32 = 4;
/// Threads that do, where each walks for itself.
const ENOUGH_THREADS: u64 = 1 << 17;
/// Rows of a column's slab, no fewer; and slabs, no more: one thread scans their folds.
const LEAST_ROWS: u64 = 64;
const MOST_SLABS: u64 = 1024;
/// Words of `Params` before extents and strides, and which of them say how long loops are.
const MEMBERS: [&str; 16] = [
    "rows", "units", "slabs", "slab", "block", "x_base", "x_stride", "y_base", "y_stride", "y_line", "i_base", "inner",
    "count", "infinity", "lowest", "nan",
];
const SLAB: usize = 3;
const BLOCK: usize = 4;

/// Which way neighbouring threads lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Walk {
    /// `lanes` threads share a row.
    Rows {
        lanes: u32,
        strips: u32,
    },
    Columns,
}

/// What a launch makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// The results, of whole lines.
    Whole,
    /// What each slab comes to.
    Folds,
    /// What comes before each slab.
    Carries,
    /// The results, slab by slab.
    Slabs,
}

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    walk: Walk,
    step: Step,
    threads: u32,
    function: ScanFn,
    is_exclusive: bool,
    is_reversed: bool,
    /// Operands are read and written four elements at a time.
    quad: bool,
    /// Axes besides the scan's.
    axes: u8,
    /// What the op reads, and how: extrema of f32 and f64 as bits.
    dtype: DType,
    input: Element,
    output: Element,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let mut body = self.text();
        let (walk, loops) = match (self.walk, self.step) {
            (Walk::Rows { .. }, Step::Folds) => ("rows", include_str!("../../../wgsl/scan_fold.wgsl")),
            (Walk::Rows { .. }, _) => ("rows", include_str!("../../../wgsl/scan_rows.wgsl")),
            (Walk::Columns, _) => ("columns", include_str!("../../../wgsl/scan_columns.wgsl")),
        };
        body += loops;
        let name = format!("{}_{walk}_{}_{}", self.function.name(), self.step_name(), self.dtype);
        let sources = if self.step == Step::Slabs { 2 } else { 1 };
        let indices = usize::from(self.function.chooses() && self.gives_results());
        let mut bindings = vec![Access::Read; sources];
        bindings.extend(vec![Access::ReadWrite; 1 + indices]);
        let elements = [self.input, self.output];
        Source { name, wgsl: element::prelude(&elements) + &math::library(&body) + &body, bindings }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        let word = |at: usize| params.get(at).copied().map_or(u64::from(u32::MAX), u64::from);
        self.rounds(word(SLAB), word(BLOCK))
    }
}

/// Lines of a strided operand: axes but the scan's, innermost last.
struct Lines {
    count: u64,
    stride: i64,
    base: u64,
    dims: Vec<u64>,
    strides: Vec<i64>,
}

impl Lines {
    fn new(op: &Scan) -> Result<Lines> {
        let layout = &op.input.layout;
        let (count, stride) = (op.count(), layout.strides()[op.axis]);
        // Extents and strides but the scan's, of which neighbours that step evenly are one.
        let lines = layout.slice(op.axis, 0, 1, 1)?.collapse();
        let base = layout.offset();
        Ok(Lines { count, stride, base, dims: lines.dims().to_vec(), strides: lines.strides().to_vec() })
    }

    fn number(&self) -> u64 {
        self.dims.iter().product()
    }

    /// Extents and strides, innermost first.
    fn axes(&self) -> impl Iterator<Item = (u64, i64)> + Clone + '_ {
        self.dims.iter().copied().zip(self.strides.iter().copied()).rev()
    }
}

pub(crate) fn plan(op: &Scan, caps: &Caps) -> Result<Plan> {
    if op.input.layout.elements() == 0 {
        return Ok(Plan::default());
    }
    check_index(op.name(), &op.input)?;
    check_index(op.name(), &op.output)?;
    caps.require(op.input.dtype)?;
    let lines = Lines::new(op)?;
    let inner: u64 = op.output.layout.dims()[op.axis + 1..].iter().product();
    let bits = |dtype| if op.function.chooses() { keys::read_as(dtype) } else { dtype };
    let (input, output) = (Element::new(bits(op.input.dtype), caps)?, Element::new(bits(op.output.dtype), caps)?);
    let threads = 1 << THREADS.min(caps.max_invocations).ilog2();
    let targets = [Some(op.output), op.index].into_iter().flatten();
    let bases = targets.map(|spec| spec.layout.offset()).chain([lines.base]);
    let strides = lines.axes().map(|(_, stride)| stride);
    let quad = match lines.axes().next() {
        Some(near) if inner > 1 => {
            inner.is_multiple_of(4) && in_quads(near, bases, strides.skip(1).chain([lines.stride]))
        }
        _ => in_quads((lines.count, lines.stride), bases, strides),
    };
    let kernel = Kernel {
        walk: Walk::Columns,
        step: Step::Whole,
        threads,
        function: op.function,
        is_exclusive: op.options.start == ScanStart::Exclusive,
        is_reversed: op.options.direction == ScanDirection::Reverse,
        quad,
        axes: lines.dims.len() as u8,
        dtype: op.input.dtype,
        input,
        // One of the elements: an infinite f8e5m2 stays one.
        output: if op.function.chooses() { output.kept() } else { output },
    };
    let width = kernel.width();
    let rows = if inner == 1 { lines.number() } else { lines.number() / width };
    let units = if inner == 1 { lines.count / width } else { lines.count };
    let cut = Cut::new(kernel.clone(), inner == 1, rows, units, caps);
    let mut params = Words { rows, units, slabs: cut.slabs, slab: cut.slab, ..Words::default() };
    params.lie(op, &lines, &kernel, inner);
    let launch = |step, bindings, params: &Words| cut.launch(step, bindings, params, caps);
    let mut results = vec![Slot::Output(0)];
    results.extend(op.index.map(|_| Slot::Output(1)));
    if cut.slabs == 1 {
        let bindings = [vec![Slot::Input(0)], results].concat();
        return Ok(Plan { launches: vec![launch(Step::Whole, bindings, &params)?], scratch_bytes: Vec::new() });
    }
    let folds = rows * cut.slabs * if inner == 1 { 1 } else { width };
    let [folded, carried] = [0, 1].map(Slot::Scratch);
    let launches = vec![
        launch(Step::Folds, vec![Slot::Input(0), folded], &params)?,
        launch(Step::Carries, vec![folded, carried], &Words::of_folds(inner == 1, folds / cut.slabs, cut.slabs))?,
        launch(Step::Slabs, [vec![Slot::Input(0), carried], results].concat(), &params)?,
    ];
    Ok(Plan { launches, scratch_bytes: vec![folds * kernel.accumulator_bytes(); 2] })
}

/// The words of `Params`.
#[derive(Clone, Debug, Default)]
struct Words {
    rows: u64,
    units: u64,
    slabs: u64,
    slab: u64,
    /// Base, stride along the line.
    x: [u64; 2],
    /// The same, and from one line to the next (rows), or to the lines of the next outer index (columns).
    y: [u64; 3],
    i_base: u64,
    inner: u64,
    count: u64,
    /// Extents and strides, innermost first.
    axes: Vec<(u64, i64)>,
}

impl Words {
    /// Where operands lie, in the units that are read and written. Words wrap as two's complement.
    fn lie(&mut self, op: &Scan, lines: &Lines, kernel: &Kernel, inner: u64) {
        let width = kernel.width();
        let is_row = inner == 1;
        let stride = if is_row { 1 } else { inner / width };
        let x_stride = if is_row && width > 1 { 1 } else { lines.stride / width as i64 };
        let last = if kernel.is_reversed { self.units - 1 } else { 0 };
        let turn = |stride: i64| if kernel.is_reversed { stride.wrapping_neg() as u64 } else { stride as u64 };
        let from = |base: u64, stride: i64| (base / width).wrapping_add(last.wrapping_mul(stride as u64));
        self.x = [from(lines.base, x_stride), turn(x_stride)];
        let offset = |spec: crate::TensorSpec| from(spec.layout.offset(), stride as i64);
        self.y = [offset(op.output), turn(stride as i64), self.units * stride];
        self.i_base = op.index.map_or(0, offset);
        (self.inner, self.count) = (stride, lines.count);
        self.axes = match is_row {
            true => lines.axes().map(|(extent, stride)| (extent, stride / width as i64)).collect(),
            false => in_vectors(width, lines.axes()).collect(),
        };
    }

    /// Of folds, dense: [lines, slabs], or [slabs, lines] of columns.
    fn of_folds(is_row: bool, lines: u64, slabs: u64) -> Words {
        let (line, step) = if is_row { (slabs, 1) } else { (1, lines) };
        Words {
            rows: lines,
            units: slabs,
            slabs: 1,
            slab: slabs,
            x: [0, step],
            y: [0, step, if is_row { slabs } else { 0 }],
            inner: lines,
            count: slabs,
            axes: vec![(lines, line as i64)],
            ..Words::default()
        }
    }
}

/// How lines are cut into slabs.
struct Cut {
    kernel: Kernel,
    slabs: u64,
    slab: u64,
}

impl Cut {
    fn new(kernel: Kernel, is_row: bool, rows: u64, units: u64, caps: &Caps) -> Cut {
        let threads = u64::from(kernel.threads);
        let walk = if is_row { kernel.row_walk(units, caps) } else { Walk::Columns };
        let kernel = Kernel { walk, ..kernel };
        let (wanted, step) = match walk {
            Walk::Rows { lanes, strips } => {
                let (groups, tile) = (rows.div_ceil(threads / u64::from(lanes)), u64::from(lanes * strips));
                let is_long = u64::from(lanes) == threads && groups * 2 <= ENOUGH_GROUPS && units >= 4 * tile;
                (if is_long { (ENOUGH_GROUPS / groups).min(units / (2 * tile)) } else { 1 }, tile)
            }
            Walk::Columns => ((ENOUGH_THREADS / rows).min(units / LEAST_ROWS).min(MOST_SLABS), u64::from(DEPTH)),
        };
        let mut slab = units.div_ceil(wanted.max(1)).next_multiple_of(step).min(units.next_multiple_of(step));
        // Fold and scan alike, where drivers end long loops; lines that few lanes share are short.
        while kernel.rounds(slab, Cut::block(slab)) > caps.loop_limit() && slab > step {
            slab = (slab / 2).next_multiple_of(step);
        }
        Cut { kernel, slabs: units.div_ceil(slab), slab }
    }

    /// Rows that are combined apart: about the square root.
    fn block(slab: u64) -> u64 {
        slab.isqrt().max(1).next_multiple_of(DEPTH.into())
    }

    fn launch(&self, step: Step, bindings: Vec<Slot>, words: &Words, caps: &Caps) -> Result<Launch> {
        let threads = u64::from(self.kernel.threads);
        let kernel = match step {
            Step::Carries => {
                let walk = match self.kernel.walk {
                    Walk::Rows { .. } => self.kernel.row_walk(words.units, caps),
                    Walk::Columns => Walk::Columns,
                };
                // Which way elements lie is no longer of interest, nor how they are stored.
                let kernel =
                    Kernel { walk, step, is_exclusive: true, is_reversed: false, quad: false, ..self.kernel.clone() };
                Kernel { axes: 1, ..kernel }
            }
            Step::Folds => Kernel { step, is_exclusive: false, ..self.kernel.clone() },
            Step::Whole | Step::Slabs => Kernel { step, ..self.kernel.clone() },
        };
        let groups = match (kernel.walk, step) {
            (Walk::Rows { .. }, Step::Folds) => words.rows * words.slabs,
            (Walk::Rows { lanes, .. }, _) => words.rows.div_ceil(threads / u64::from(lanes)) * words.slabs,
            (Walk::Columns, _) => words.rows.div_ceil(threads) * words.slabs,
        };
        // IEEE 754: what a shader compiler may not make of an expression.
        let special = [f32::INFINITY, f32::NEG_INFINITY, f32::NAN].map(|x| x.to_bits());
        let [x_base, x_stride] = words.x;
        let [y_base, y_stride, y_line] = words.y;
        let mut params: Vec<u32> = [words.rows, words.units, words.slabs, words.slab, Cut::block(words.slab)]
            .into_iter()
            .chain([x_base, x_stride, y_base, y_stride, y_line, words.i_base, words.inner, words.count])
            .map(|word| word as u32)
            .chain(special)
            .collect();
        params.extend(axis_words(words.axes.iter().copied()));
        Ok(Launch { kernel: KernelKey::own(kernel), grid: caps.fold_grid(groups)?, bindings, params })
    }
}

impl Kernel {
    fn width(&self) -> u64 {
        if self.quad { 4 } else { 1 }
    }

    /// The dtype of sums and products, and of elements of logarithms.
    fn compute(&self) -> DType {
        if self.dtype == DType::Bool { DType::U32 } else { self.dtype.compute() }
    }

    fn is_wide(&self) -> bool {
        self.dtype.size_bytes() == 8
    }

    /// Bytes of what is combined, as arrays hold it.
    fn accumulator_bytes(&self) -> u64 {
        let pairs = self.function.chooses() || self.function == ScanFn::LogSumExp;
        let each = if self.is_wide() { 8 } else { 4 };
        if pairs { 2 * each } else { each }
    }

    /// How many threads share a row of `units` vectors.
    fn row_walk(&self, units: u64, caps: &Caps) -> Walk {
        let shared = |strips: u32| u64::from((strips + 2) * self.threads) * self.accumulator_bytes();
        let strips = if shared(STRIPS) <= u64::from(caps.max_workgroup_bytes) { STRIPS } else { 1 };
        let lanes = lanes_for(units.div_ceil(strips.into())).min(self.threads.into());
        Walk::Rows { lanes: lanes as u32, strips }
    }

    /// The most rounds for slabs of this length.
    fn rounds(&self, slab: u64, block: u64) -> u64 {
        let width = looped(self.width(), 0);
        let logarithm = u64::from(self.threads.ilog2()) + 1;
        match self.walk {
            Walk::Rows { lanes, strips } => {
                let strips = u64::from(strips);
                let each = 3 * looped(strips, 0) + 2 * looped(strips, width) + width + logarithm;
                looped(slab.div_ceil(u64::from(lanes) * strips), each) + logarithm
            }
            Walk::Columns => {
                let depth = u64::from(DEPTH);
                let (blocks, steps) = (slab.div_ceil(block.max(1)), block.div_ceil(depth));
                looped(blocks, looped(steps, looped(depth, 0) + looped(depth, width)) + 2 * width) + 2 * width
            }
        }
    }

    fn step_name(&self) -> &'static str {
        match self.step {
            Step::Whole => "whole",
            Step::Folds => "folds",
            Step::Carries => "carries",
            Step::Slabs => "slabs",
        }
    }

    fn gives_results(&self) -> bool {
        matches!(self.step, Step::Whole | Step::Slabs)
    }
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
