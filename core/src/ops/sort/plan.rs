//! Sorting: blocks in workgroup memory by a bitonic sort (`wgsl/sort_blocks.wgsl`), and longer lines from them by merges
//! (`wgsl/sort_merge.wgsl`) or, long ones, by their digits (`wgsl/sort_count.wgsl`, a scan, `wgsl/sort_move.wgsl`).
//!
//! Merges move every pair log2(n / 1024) times, with one launch each; digits of eight bits move pairs with keys of 32 bits four times, with five
//! launches each. Rows of every length are sorted several at once; no workgroup waits for another; and what a device must have is workgroup
//! memory alone. Keys are integers that order as the elements do, with the position beside them; elements are read again at the end, so
//! that bits are kept.
//!
//! Where a few of each line are wanted, a workgroup collects those of a chunk (`wgsl/sort_collect.wgsl`), and a block sorts what the chunks gave.
//!
//! [`places`] sorts positions by the place that they name, for operations that sum up or put elements by place.

use crate::ops::{Scan, ScanFn, ScanOptions, ScanStart, Sort, SortOrder};
use crate::plan::looped;
use crate::{DType, Layout, Operation, Result, Shape, TensorSpec};

use crate::ops::fold::passes::ENOUGH_GROUPS;
use crate::plan::{Caps, KernelKey, KernelText, Launch, Plan, Slot, Source};
use crate::wgsl::element::Element;
use crate::wgsl::index::check_index;

#[path = "plan/text.rs"]
mod text;

/// Threads of one workgroup; WebGPU guarantees 256.
const THREADS: u32 = 256;
/// Elements of a block: pairs with 64-bit keys take 12 KiB of the 16 that WebGPU guarantees.
const TILE: u64 = 1024;
/// Elements of a line that is merged from blocks, at most: four merges.
const MOST_MERGED: u64 = 16 * TILE;
/// How many of a longer line are found by chunks, at most: a quarter of what is collected before it is sorted.
const MOST_FIRST: u64 = TILE / 4;
/// Elements that a thread has under way as it walks a chunk.
const LOADS: u64 = 2;
/// What a digit may be.
const DIGITS: u64 = 256;
/// Bits of a digit.
const DIGIT_BITS: u64 = 8;

/// What a launch makes of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// Sorted blocks.
    Blocks,
    /// The first few of each chunk.
    Collect,
    /// Longer runs from runs.
    Merge,
    /// How often each tile of a line has each digit.
    Count,
    /// Pairs in the order of a digit.
    Move,
}

/// What elements are sorted by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Keys {
    /// Their order as numbers.
    Numbers { dtype: DType, is_descending: bool },
    /// Whole numbers of 32 bits as they are, all from a bound on as that bound.
    Places,
}

impl Keys {
    /// Whether keys are i64, else u32.
    fn is_wide(self) -> bool {
        matches!(self, Keys::Numbers { dtype, .. } if dtype.size_bytes() == 8)
    }

    fn key_bytes(self) -> u64 {
        if self.is_wide() { 8 } else { 4 }
    }

    /// Of a pair in memory, with what aligns it.
    fn pair_bytes(self) -> u64 {
        2 * self.key_bytes()
    }

    /// Where the digits of a key start that differ between two elements, lowest first. `most` is the largest key of places.
    fn shifts(self, most: u64) -> Vec<u64> {
        let from = |lowest: u64, end: u64| (lowest..end).step_by(DIGIT_BITS as usize).collect();
        match self {
            Keys::Places => from(0, u64::from(most.max(1).ilog2()) + 1),
            Keys::Numbers { dtype, .. } => match dtype {
                // Their keys are those of the same number in f32, whose lowest bits are zero.
                DType::F16 => from(13, 32),
                DType::BF16 | DType::F8E4M3 | DType::F8E5M2 => from(16, 32),
                // The sign, and what is below it.
                DType::I8 => vec![0, 24],
                DType::I16 => vec![0, 8, 24],
                DType::U8 | DType::Bool => vec![0],
                DType::U16 => vec![0, 8],
                _ => from(0, if self.is_wide() { 64 } else { 32 }),
            },
        }
    }
}

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    step: Step,
    /// Reads elements, not pairs.
    is_first: bool,
    /// Writes values and positions, not pairs.
    is_last: bool,
    /// Writes keys and positions apart, for the next digit.
    gives_parts: bool,
    threads: u32,
    /// Elements of a workgroup.
    tile: u64,
    keys: Keys,
    /// Axes besides the sorted one.
    axes: u8,
    /// How elements are read: floats of a word or two as bits.
    input: Element,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        text::source(self)
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        self.rounds(params.get(text::WIDTH).copied().map_or(u64::from(u32::MAX), u64::from))
    }
}

/// Pairs of keys and positions, dense, [lines, elements of a line], each line in order.
pub(crate) struct Pairs {
    /// What makes them.
    pub(crate) plan: Plan,
    /// Where they are then.
    pub(crate) slot: Slot,
}

/// The positions along `axis` of `input`, i32 or u32, in the order of the places that its elements name, each line for itself: pairs of u32 and
/// u32. What names no place below `places` comes last, as `places`.
pub(crate) fn places(
    op: &'static str,
    input: (usize, &TensorSpec),
    axis: usize,
    places: u64,
    caps: &Caps,
) -> Result<Pairs> {
    let (number, spec) = input;
    check_index(op, spec)?;
    let lines = Lines::new(Keys::Places, Slot::Input(number), spec, axis, places.min(u32::MAX.into()), caps)?;
    lines.pairs(caps)
}

pub(crate) fn plan(op: &Sort, caps: &Caps) -> Result<Plan> {
    if op.input.layout.elements() == 0 {
        return Ok(Plan::default());
    }
    check_index(op.name(), &op.input)?;
    check_index(op.name(), &op.values)?;
    caps.require(op.input.dtype)?;
    let keys = Keys::Numbers { dtype: op.input.dtype, is_descending: op.order == SortOrder::Descending };
    let mut lines = Lines::new(keys, Slot::Input(0), &op.input, op.axis, 0, caps)?;
    if op.kept() == 0 {
        return Ok(Plan::default());
    }
    lines.results = Some(Results {
        kept: op.kept(),
        values: op.values.layout.offset(),
        indices: op.indices.layout.offset(),
        inner: op.values.layout.dims()[op.axis + 1..].iter().product(),
    });
    Ok(lines.pairs(caps)?.plan)
}

/// Where results go, in elements, and how many of a line.
struct Results {
    kept: u64,
    values: u64,
    indices: u64,
    /// From a position along the axis to the next.
    inner: u64,
}

/// What is sorted.
struct Lines {
    kernel: Kernel,
    source: Slot,
    rows: u64,
    count: u64,
    stride: i64,
    offset: u64,
    dims: Vec<u64>,
    strides: Vec<i64>,
    /// The largest key of places.
    bound: u64,
    /// Pairs are made if there are none.
    results: Option<Results>,
}

/// What a launch is told besides what is sorted.
#[derive(Clone, Copy, Default)]
struct Words {
    tiles: u64,
    width: u64,
    run: u64,
    shift: u64,
    /// Elements of a line that are read.
    count: u64,
    /// Pairs of a line that are written.
    line: u64,
    /// How many pairs of a run are given, of a line whose results are written.
    kept: u64,
}

impl Lines {
    fn new(keys: Keys, source: Slot, input: &TensorSpec, axis: usize, bound: u64, caps: &Caps) -> Result<Lines> {
        let lines = input.layout.slice(axis, 0, 1, 1)?.collapse();
        let input_as = match (keys, input.dtype) {
            (Keys::Places, _) => Element::raw(4),
            (_, DType::F32) => Element::new(DType::U32, caps)?,
            (_, DType::F64) => Element::new(DType::I64, caps)?,
            (_, other) => Element::new(other, caps)?.kept(),
        };
        let kernel = Kernel {
            step: Step::Blocks,
            is_first: true,
            is_last: false,
            gives_parts: false,
            threads: 1 << THREADS.min(caps.max_invocations).ilog2(),
            tile: TILE,
            keys,
            axes: lines.rank() as u8,
            input: input_as,
        };
        Ok(Lines {
            kernel,
            source,
            rows: lines.elements(),
            count: input.layout.dims()[axis],
            stride: input.layout.strides()[axis],
            offset: input.layout.offset(),
            dims: lines.dims().to_vec(),
            strides: lines.strides().to_vec(),
            bound,
            results: None,
        })
    }

    fn pairs(&self, caps: &Caps) -> Result<Pairs> {
        let bytes = self.rows * self.count * self.kernel.keys.pair_bytes();
        let Some(Results { kept, .. }) = self.results else {
            if self.count > TILE {
                return self.by_digits(bytes, caps);
            }
            let plan = Plan { launches: vec![self.blocks(None, self.count, 0, caps)?], scratch_bytes: vec![bytes] };
            return Ok(Pairs { plan, slot: Slot::Scratch(0) });
        };
        if self.count <= TILE || kept <= MOST_FIRST {
            self.by_chunks(kept, caps)
        } else if self.count <= MOST_MERGED {
            self.by_merges(bytes, caps)
        } else {
            self.by_digits(bytes, caps)
        }
    }

    /// The first `kept` of each line: of each chunk its first, until those of a line fit into a block.
    fn by_chunks(&self, kept: u64, caps: &Caps) -> Result<Pairs> {
        let (mut launches, mut scratch_bytes) = (Vec::new(), Vec::new());
        let (mut count, mut from) = (self.count, None);
        while count > TILE {
            let chunk = self.chunk(count, caps);
            let tiles = count.div_ceil(chunk);
            let line = count / chunk * kept + kept.min(count % chunk);
            let kernel =
                Kernel { step: Step::Collect, is_first: from.is_none(), is_last: tiles == 1, ..self.kernel.clone() };
            let to = from.map_or(0, |from| 1 - from);
            let bindings = self.bindings(&kernel, from, to);
            let words = Words { tiles, width: chunk, count, line, kept, ..Words::default() };
            launches.push(self.launch(kernel, self.rows * tiles, bindings, words, caps)?);
            if tiles == 1 {
                return Ok(Pairs { plan: Plan { launches, scratch_bytes }, slot: Slot::Output(0) });
            }
            // The largest come first, in turns.
            if scratch_bytes.len() < 2 {
                scratch_bytes.push(self.rows * line * self.kernel.keys.pair_bytes());
            }
            (count, from) = (line, Some(to));
        }
        launches.push(self.blocks(from, count, kept, caps)?);
        Ok(Pairs { plan: Plan { launches, scratch_bytes }, slot: Slot::Output(0) })
    }

    /// Elements of a chunk: as many as give every workgroup of a device one, unless drivers end such long loops.
    fn chunk(&self, count: u64, caps: &Caps) -> u64 {
        let first = Kernel { step: Step::Collect, ..self.kernel.clone() };
        let mut chunk = (self.rows * count / ENOUGH_GROUPS).clamp(8 * TILE, count.max(8 * TILE)).next_multiple_of(TILE);
        while chunk > 2 * TILE && first.rounds(chunk) > caps.loop_limit() {
            chunk = (chunk / 2).next_multiple_of(TILE);
        }
        chunk
    }

    /// Blocks of `count` elements a line, or of pairs in scratch buffer `from`: of each block the first `kept`, or all. Those of lines of one
    /// block are the results, where results are wanted.
    fn blocks(&self, from: Option<usize>, count: u64, kept: u64, caps: &Caps) -> Result<Launch> {
        let width = count.next_power_of_two().clamp(2, TILE);
        let tiles = count.div_ceil(width);
        let kept = if kept == 0 { width } else { kept.min(width) };
        let line = count / width * kept + kept.min(count % width);
        let is_last = self.results.is_some() && tiles == 1;
        let kernel = Kernel { is_first: from.is_none(), is_last, ..self.kernel.clone() };
        let bindings = self.bindings(&kernel, from, from.map_or(0, |from| 1 - from));
        let groups = (self.rows * tiles).div_ceil(TILE / width);
        self.launch(kernel, groups, bindings, Words { tiles, width, count, line, kept, ..Words::default() }, caps)
    }

    fn by_merges(&self, bytes: u64, caps: &Caps) -> Result<Pairs> {
        let mut launches = vec![self.blocks(None, self.count, 0, caps)?];
        let tiles = self.count.div_ceil(TILE);
        let (mut run, mut from) = (TILE, 0);
        while run < self.count {
            let is_last = self.count - run <= run;
            let mut bindings = vec![Slot::Scratch(from)];
            bindings.extend(is_last.then_some(self.source));
            bindings.extend(self.written(is_last, 1 - from));
            let kernel = Kernel { step: Step::Merge, is_first: false, is_last, ..self.kernel.clone() };
            let words = Words { tiles, run, ..self.words() };
            launches.push(self.launch(kernel, self.rows * tiles, bindings, words, caps)?);
            (run, from) = (2 * run, 1 - from);
        }
        // One merge needs no second buffer.
        let buffers = if launches.len() > 2 { 2 } else { 1 };
        Ok(Pairs { plan: Plan { launches, scratch_bytes: vec![bytes; buffers] }, slot: Slot::Scratch(from) })
    }

    /// Digit by digit from the lowest: each tile counts its digits, a scan over [digits, tiles] of each line says where those of a tile go, and
    /// each tile moves its pairs, sorted by the digit, in runs. Between digits keys and positions lie apart: counts read keys alone.
    fn by_digits(&self, bytes: u64, caps: &Caps) -> Result<Pairs> {
        let shape = self.kernel.digit_shape(caps);
        let tiles = self.count.div_ceil(shape.tile);
        let counted = TensorSpec::new(DType::U32, Layout::contiguous(Shape::new(&[self.rows, DIGITS * tiles])?));
        check_index("sort", &counted)?;
        let mut scratch_bytes = Vec::new();
        let mut scratch = |bytes: u64| {
            scratch_bytes.push(bytes);
            Slot::Scratch(scratch_bytes.len() - 1)
        };
        let shifts = self.kernel.keys.shifts(self.bound);
        let elements = self.rows * self.count;
        let key_bytes = self.kernel.keys.key_bytes();
        // One behind each digit but the last; two take turns.
        let parts: Vec<[Slot; 2]> =
            (1..shifts.len().min(3)).map(|_| [key_bytes, 4].map(|each| scratch(elements * each))).collect();
        let pairs = if self.results.is_some() { Slot::Output(0) } else { scratch(bytes) };
        let [counts, offsets] = [(); 2].map(|()| scratch(self.rows * tiles * DIGITS * 4));
        let options = ScanOptions { start: ScanStart::Exclusive, ..ScanOptions::default() };
        let scan = crate::ops::scan::plan::plan(&Scan::new(ScanFn::Sum, counted, 1, options)?, caps)?;
        let folds: Vec<Slot> = scan.scratch_bytes.iter().map(|&bytes| scratch(bytes)).collect();
        let scanned = |slot: Slot| match slot {
            Slot::Input(_) => counts,
            Slot::Output(_) => offsets,
            Slot::Scratch(number) => folds[number],
        };
        let scan_launches: Vec<Launch> = scan
            .launches
            .into_iter()
            .map(|launch| Launch { bindings: launch.bindings.into_iter().map(scanned).collect(), ..launch })
            .collect();
        let mut launches = Vec::new();
        for (pass, &shift) in shifts.iter().enumerate() {
            let (is_first, is_end) = (pass == 0, pass + 1 == shifts.len());
            let is_last = is_end && self.results.is_some();
            let words = Words { tiles, shift, ..self.words() };
            let source = if is_first { vec![self.source] } else { parts[(pass - 1) % 2].to_vec() };
            let kernel = Kernel { step: Step::Count, is_first, ..shape.clone() };
            launches.push(self.launch(kernel, self.rows * tiles, vec![source[0], counts], words, caps)?);
            launches.extend(scan_launches.iter().cloned());
            let kernel = Kernel { step: Step::Move, is_first, is_last, gives_parts: !is_end, ..shape.clone() };
            let mut bindings = source;
            bindings.extend((is_last && !is_first).then_some(self.source));
            bindings.push(offsets);
            bindings.extend(match () {
                () if !is_end => parts[pass % 2].to_vec(),
                () if is_last => vec![Slot::Output(0), Slot::Output(1)],
                () => vec![pairs],
            });
            launches.push(self.launch(kernel, self.rows * tiles, bindings, words, caps)?);
        }
        Ok(Pairs { plan: Plan { launches, scratch_bytes }, slot: pairs })
    }

    /// Elements, or pairs in scratch buffer `from`, with the elements where results follow; and what is written.
    fn bindings(&self, kernel: &Kernel, from: Option<usize>, to: usize) -> Vec<Slot> {
        let mut bindings = vec![from.map_or(self.source, Slot::Scratch)];
        bindings.extend((kernel.is_last && from.is_some()).then_some(self.source));
        bindings.extend(self.written(kernel.is_last, to));
        bindings
    }

    /// Of launches over whole lines.
    fn words(&self) -> Words {
        let kept = self.results.as_ref().map_or(self.count, |results| results.kept);
        Words { count: self.count, line: self.count, kept, ..Words::default() }
    }

    /// What a launch writes: the results, or pairs.
    fn written(&self, is_last: bool, pairs: usize) -> Vec<Slot> {
        if is_last { vec![Slot::Output(0), Slot::Output(1)] } else { vec![Slot::Scratch(pairs)] }
    }

    fn launch(&self, kernel: Kernel, groups: u64, bindings: Vec<Slot>, words: Words, caps: &Caps) -> Result<Launch> {
        let Words { tiles, width, run, shift, count, line, kept } = words;
        // Keys of 64 bits have a sign, whose digit is turned.
        let turned = if kernel.keys.is_wide() && shift == 56 { 128 } else { 0 };
        // Strides may be negative: words wrap as two's complement.
        let mut params: Vec<u64> = vec![self.rows, count, line, kept, tiles, width, run, shift, turned, self.bound];
        params.extend([self.offset, self.stride as u64]);
        let (values, indices, inner) = self.results.as_ref().map_or((0, 0, 1), |to| (to.values, to.indices, to.inner));
        params.extend([values, kept * inner, indices, inner]);
        params.extend(self.dims.iter().rev());
        params.extend(self.strides.iter().rev().map(|&stride| stride as u64));
        let params = params.into_iter().map(|word| word as u32).collect();
        Ok(Launch { kernel: KernelKey::own(kernel), grid: caps.fold_grid(groups)?, bindings, params })
    }
}

impl Kernel {
    /// How many buffers of pairs, or of parts of them, are read.
    fn pairs_read(&self) -> usize {
        match self.step {
            _ if self.is_first => 0,
            Step::Move => 2,
            Step::Blocks | Step::Collect | Step::Merge | Step::Count => 1,
        }
    }

    /// How many buffers are written.
    fn written(&self) -> usize {
        if self.is_last || self.gives_parts { 2 } else { 1 }
    }

    fn items(&self) -> u64 {
        self.tile / u64::from(self.threads)
    }

    /// The same kernel for digits, with the largest tile that workgroup memory has room for: runs of one digit are longer then.
    fn digit_shape(&self, caps: &Caps) -> Kernel {
        let shapes = [(2048, 256), (1024, 128), (512, 64)];
        let fitting = shapes.into_iter().map(|(tile, threads)| Kernel { tile, threads, ..self.clone() });
        let room = |kernel: &Kernel| {
            kernel.threads <= caps.max_invocations && kernel.digit_bytes() <= u64::from(caps.max_workgroup_bytes)
        };
        let least = Kernel { tile: 256, threads: 32, ..self.clone() };
        fitting.into_iter().find(room).unwrap_or(least)
    }

    /// Workgroup memory of [`Step::Move`]: pairs and counts with a gap behind each thread's, two rows of sums, and a word for each digit.
    fn digit_bytes(&self) -> u64 {
        let threads = u64::from(self.threads);
        let pairs = (self.tile + threads) * (self.keys.key_bytes() + 4);
        pairs + (9 * threads + 2 * threads + DIGITS) * 4
    }

    /// The most rounds, of chunks of `width` elements.
    fn rounds(&self, width: u64) -> u64 {
        let items = looped(self.items(), 0);
        let steps = u64::from(self.tile.ilog2());
        let digits = looped(DIGITS.div_ceil(self.threads.into()), 0);
        match self.step {
            Step::Blocks => 2 * items + looped(steps, looped(steps, items)),
            // As if every step collected all, so that it sorts.
            Step::Collect => {
                let sorted = items + looped(steps, looped(steps, items));
                let step = LOADS * u64::from(self.threads);
                2 * items + looped(width.div_ceil(step), 2 * looped(LOADS, 0) + sorted)
            }
            // Of halvings no more than indices have bits.
            Step::Merge => 2 * looped(32, 0) + 4 * items,
            Step::Count => 2 * digits + items,
            Step::Move => {
                let split = 3 * looped(8, 0) + 3 * items + looped(u64::from(self.threads.ilog2()), 0);
                digits + 3 * items + 2 * split
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Layout, Op, Shape, TensorSpec};

    use super::*;
    use crate::wgsl::validate::{Validated, full_caps};

    fn plan_of(order: SortOrder, dtype: DType, dims: &[u64], axis: usize, caps: &Caps) -> Plan {
        let input = TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()));
        let op: Op = Sort::new(order, input, axis).unwrap().into();
        crate::ops::plan(&op, caps).unwrap()
    }

    #[test]
    fn every_dtype_order_and_length_validates() {
        let mut validated = Validated::default();
        for caps in [full_caps(), Caps::webgpu_defaults("test")] {
            for dtype in DType::ALL.into_iter().filter(|&dtype| caps.require(dtype).is_ok()) {
                for order in SortOrder::ALL {
                    for (dims, axis) in [(&[7u64][..], 0), (&[3, 5000], 1), (&[1030, 2], 0), (&[4, 6, 8], 1)] {
                        validated.check(&plan_of(order, dtype, dims, axis, &caps).launches, &caps);
                    }
                }
            }
        }
        assert!(validated.kernels() > 60, "{} kernels", validated.kernels());
    }

    #[test]
    fn runs_double_until_one_is_left() {
        let caps = full_caps();
        let launches = |count| plan_of(SortOrder::Ascending, DType::F32, &[count], 0, &caps).launches.len();
        assert_eq!([1, 1024, 1025, 2048, 2049, 4096, 4097].map(launches), [1, 1, 2, 2, 3, 3, 4]);
        let plan = plan_of(SortOrder::Ascending, DType::F32, &[2, 5000], 1, &caps);
        assert_eq!(plan.scratch_bytes, [2 * 5000 * 8; 2]);
    }
}
