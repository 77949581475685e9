//! Counts of bins: zeros, then one launch of `wgsl/histogram.wgsl`, which finds the bin of an element as [`Bin`] says. Serves [`Histogram`]
//! and [`Bincount`](crate::ops::Bincount).

use crate::ops::{Histogram, Map};
use crate::plan::looped;
use crate::{DType, Expr, Operation, Program, Result, Scalar, TensorSpec};

use crate::plan::{Access, Caps, KernelKey, KernelText, Launch, Plan, Slot, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::index::check_index;
use crate::wgsl::math;
use crate::wgsl::params::uniform_of;
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("histogram.wgsl");

/// Threads of one workgroup; WebGPU guarantees 256.
const THREADS: u32 = 256;
/// Quads that a thread has under way before it counts them: 64 bytes of f32, 128 KiB of a processor's 2048 threads, where 3 TB/s and 1 us
/// of latency ask for 23 KiB of each of 132 processors.
const ITEMS: u32 = 4;
/// Workgroups that fill any device twice (an H100's 132 processors hold 8 each where a thread has 32 registers, 6 where it has 40), so
/// that one that starts late has little left to do.
const ENOUGH_GROUPS: u64 = 2112;
/// Words of workgroup memory for counts and their copies: the 16 KiB that WebGPU guarantees. A processor of an H100 has room for 8 such workgroups.
const WORDS: u64 = 4096;
/// The same for more bins than that, where a device has it: 48 KiB.
const MOST_WORDS: u64 = 12_288;
/// Copies of the counts that no subgroup has use for more of.
const MOST_COPIES: u64 = 32;
/// Elements for each count that a workgroup adds to memory, no fewer: such an addition costs as much as a few elements do.
const ELEMENTS_FOR_COUNT: u64 = 16;

/// How the bin of an element is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Bin {
    /// It is the element, a word of 32 bits.
    Itself,
    /// It is a part between two limits.
    Part {
        /// The elements.
        element: Element,
        /// [`Caps::nearest_conversions`], where elements are integers of 32 bits.
        nearest_conversions: bool,
    },
}

impl Bin {
    fn element(self) -> Element {
        match self {
            Bin::Itself => Element::raw(4),
            Bin::Part { element, .. } => element,
        }
    }

    fn name(self) -> String {
        match self {
            Bin::Itself => "bincount".to_owned(),
            Bin::Part { element, .. } => format!("histogram_{}", element.dtype()),
        }
    }

    /// Its own members of `Params`, behind [`PARAMS`].
    fn members(self) -> &'static str {
        match self {
            Bin::Itself => "",
            Bin::Part { element, .. } if element.dtype() == DType::F64 => {
                "    low: f64, scale: f64, least: f64, most: f64,\n"
            }
            Bin::Part { .. } => "    low: f32, scale: f32, least: u32, span: u32,\n",
        }
    }

    /// `bin_of`.
    fn text(self) -> String {
        match self {
            Bin::Itself => TEXT.get("itself").to_owned(),
            Bin::Part { element, .. } if element.dtype() == DType::F64 => TEXT.get("part of f64").to_owned(),
            Bin::Part { element, nearest_conversions } => {
                let x = match element.dtype() {
                    dtype @ (DType::I32 | DType::U32) if !nearest_conversions => format!("f32_from_{dtype}(element)"),
                    dtype => math::cast(dtype.compute(), DType::F32, "element"),
                };
                TEXT.fill("part of f32", holes!(element = element.scalar(), x))
            }
        }
    }
}

/// Integers that order as floats do: both limits cost one comparison, as `bin_of` makes it.
fn key(x: f32) -> u32 {
    let bits = x.to_bits() as i32;
    (bits ^ ((bits >> 31) & 0x7fff_ffff)) as u32
}

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    bin: Bin,
    threads: u32,
    /// Of workgroup memory; 0 where counts are in memory alone.
    words: u32,
}

/// The members of `Params` that all have; an even number, so that an f64 may follow.
const PARAMS: [&str; 10] = ["quads", "step", "bins", "copies", "first", "head", "tail", "x_base", "y_base", "last"];

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let element = self.bin.element();
        let mut text =
            format!("const THREADS = {}u;\nconst ITEMS = {ITEMS}u;\nconst WORDS = {}u;\n", self.threads, self.words);
        text += &format!("alias Quad = {};\n\n", element.vector());
        let common: String = PARAMS.iter().map(|member| format!("    {member}: u32,\n")).collect();
        text += &uniform_of(&(common + self.bin.members()));
        text += &element.storage(1, "x", Form::Quad, Access::Read);
        text += "@group(0) @binding(2) var<storage, read_write> y: array<atomic<u32>>;\n\n";
        text += &self.bin.text();
        text += "\n";
        text += include_str!("../../../wgsl/histogram.wgsl");
        let functions = math::library(&text);
        if !functions.is_empty() {
            text += "\n";
            text += &functions;
        }
        let name = format!("{}_{}", self.bin.name(), if self.words > 0 { "few" } else { "many" });
        Source { name, wgsl: element::prelude(&[element]) + &text, bindings: vec![Access::Read, Access::ReadWrite] }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        let word = |at: usize| params.get(at).map_or(u64::from(u32::MAX), |&word| word.into());
        let [quads, step, bins, copies] = [0, 1, 2, 3].map(word);
        let (items, threads) = (u64::from(ITEMS), u64::from(self.threads));
        let kept = if self.words > 0 { bins } else { 0 };
        let cleared = looped((kept.saturating_mul(copies)).div_ceil(threads), 0);
        let long = looped(quads.div_ceil(step.max(1)) / items, 2 * looped(items, 0));
        cleared + long + looped(items, 0) + looped(kept.div_ceil(threads), looped(copies, 0))
    }
}

pub(crate) fn plan(op: &Histogram, caps: &Caps) -> Result<Plan> {
    let element = Element::new(op.input.dtype, caps)?;
    let converts = matches!(op.input.dtype, DType::I32 | DType::U32);
    let bin = Bin::Part { element, nearest_conversions: caps.nearest_conversions || !converts };
    let numbers = op.numbers();
    let own: Vec<u32> = if op.compute() == DType::F64 {
        let all = [numbers.low, numbers.scale, numbers.least, numbers.most];
        all.iter().flat_map(|&number| element.param_words(Scalar::F(number))).collect()
    } else {
        // Both zeros are within a limit of zero.
        let [least, most] = [(numbers.least, -0.0), (numbers.most, 0.0)]
            .map(|(limit, zero)| key(if limit == 0.0 { zero } else { limit as f32 }));
        vec![(numbers.low as f32).to_bits(), (numbers.scale as f32).to_bits(), least, most.wrapping_sub(least)]
    };
    counted(op, &op.input, &op.output, op.bins(), bin, own, caps)
}

/// Zeros in `output`, then the elements of `input`, which is dense, counted into the first `bins` of it. `own` are the words of `bin`.
pub(crate) fn counted(
    op: &dyn Operation,
    input: &TensorSpec,
    output: &TensorSpec,
    bins: u64,
    bin: Bin,
    own: Vec<u32>,
    caps: &Caps,
) -> Result<Plan> {
    check_index(op.name(), input)?;
    check_index(op.name(), output)?;
    let zero = Program::compile(&Expr::constant(0).cast(DType::U32), &[])?;
    let mut plan = crate::ops::map::plan::plan(&Map::new(op.name(), zero, Vec::new(), *output)?, caps)?;
    let elements = input.layout.elements();
    if elements == 0 || bins == 0 {
        return Ok(plan);
    }
    let threads = THREADS.min(caps.max_invocations);
    let room = u64::from(caps.max_workgroup_bytes / 4);
    let words = [WORDS.min(room), MOST_WORDS.min(room)].into_iter().find(|&words| bins <= words).unwrap_or(0);
    let copies = (words / bins).min(MOST_COPIES).checked_ilog2().map_or(1, |log2| 1 << log2);
    let offset = input.layout.offset();
    let head = (offset.next_multiple_of(4) - offset).min(elements);
    let quads = (elements - head) / 4;
    let tail = elements - head - 4 * quads;
    let kernel = Kernel { bin, threads, words: words as u32 };
    let params = |groups: u64| {
        let common = [
            quads,
            groups * u64::from(threads),
            bins,
            copies,
            (offset + head) / 4,
            head,
            tail,
            offset,
            output.layout.offset(),
            bins - 1,
        ];
        let mut params: Vec<u32> = common.iter().map(|&word| word as u32).chain(own.iter().copied()).collect();
        params.resize(params.len().next_multiple_of(4), 0);
        params
    };
    // One that adds all its counts to memory should have counted many elements.
    let worth = if words > 0 { elements.div_ceil(ELEMENTS_FOR_COUNT * bins) } else { u64::MAX };
    let busy = quads.div_ceil((threads * ITEMS).into());
    let most = u64::from(caps.max_workgroups[0]);
    let mut groups = busy.min(worth).clamp(1, ENOUGH_GROUPS.min(most));
    while kernel.loop_rounds(&params(groups)) > caps.loop_limit() && groups < busy.min(most) {
        groups = (2 * groups).min(most);
    }
    let bindings = vec![Slot::Input(0), Slot::Output(0)];
    let params = params(groups);
    plan.launches.push(Launch { kernel: KernelKey::own(kernel), grid: [groups as u32, 1, 1], bindings, params });
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use crate::ops::Bincount;
    use crate::{Layout, Op, Shape};

    use super::*;
    use crate::wgsl::validate::{Validated, full_caps};

    fn spec(dtype: DType, elements: u64, offset: u64) -> TensorSpec {
        TensorSpec::new(dtype, Layout::contiguous(Shape::new(&[elements]).unwrap()).with_offset(offset))
    }

    /// The kernel, its parameters and its grid.
    fn counting(input: TensorSpec, bins: u64, caps: &Caps) -> (Kernel, Vec<u32>, u64) {
        let plan = plan(&Histogram::new(input, bins, 0.0, 1.0).unwrap(), caps).unwrap();
        let launch = plan.launches.last().unwrap();
        assert_eq!((plan.launches.len(), launch.grid[1], launch.grid[2]), (2, 1, 1));
        (launch.kernel.get::<Kernel>().unwrap().clone(), launch.params.clone(), launch.grid[0].into())
    }

    #[test]
    fn every_dtype_validates_with_few_bins_and_many() {
        let mut validated = Validated::default();
        for caps in [full_caps(), Caps::webgpu_defaults("test")] {
            let usable = |dtype: &DType| *dtype != DType::Bool && caps.require(*dtype).is_ok();
            for dtype in DType::ALL.into_iter().filter(usable) {
                for bins in [7, 100_000] {
                    let op: Op = Histogram::new(spec(dtype, 99, 1), bins, -1.0, 1.0).unwrap().into();
                    validated.check(&crate::ops::plan(&op, &caps).unwrap().launches, &caps);
                }
            }
        }
    }

    #[test]
    fn counts_have_as_many_copies_as_workgroup_memory_holds() {
        let caps = full_caps();
        let of = |bins| {
            let (kernel, params, _) = counting(spec(DType::F32, 1 << 28, 0), bins, &caps);
            (u64::from(kernel.words), params[3])
        };
        let found = [1, 128, 129, 256, 257, 2048, 2049, 4096, 4097, 12_288, 12_289].map(of);
        let (few, most) = (4096, 12_288);
        let copies = [32, 32, 16, 16, 8, 2, 1, 1];
        assert_eq!(found[..8], copies.map(|copies| (few, copies)));
        assert_eq!(found[8..], [(most, 2), (most, 1), (0, 1)]);
        let (kernel, ..) = counting(spec(DType::F32, 1 << 28, 0), 4097, &Caps::webgpu_defaults("test"));
        assert_eq!(kernel.words, 0);
    }

    /// Whole quads, and what lies before and behind them: every element once, whatever the offset.
    #[test]
    fn quads_and_single_elements_are_all_elements() {
        for offset in 0..9 {
            for elements in 1..30 {
                let (_, params, _) = counting(spec(DType::F32, elements, offset), 3, &full_caps());
                let [quads, first, head, tail, base] = [0, 4, 5, 6, 7].map(|at| u64::from(params[at]));
                let mut counted: Vec<u64> = (0..head).map(|at| base + at).collect();
                counted.extend(4 * first..4 * (first + quads));
                counted.extend((0..tail).map(|at| 4 * (first + quads) + at));
                let all: Vec<u64> = (offset..offset + elements).collect();
                assert_eq!(counted, all, "{elements} at {offset}");
                assert!(head < 4 && tail < 4);
            }
        }
    }

    #[test]
    fn a_workgroup_counts_many_elements_before_it_adds_to_memory() {
        let groups = |elements, bins| counting(spec(DType::F32, elements, 0), bins, &full_caps()).2;
        assert_eq!(groups(1 << 28, 256), ENOUGH_GROUPS);
        assert_eq!(groups(1 << 28, 12_288), 1366);
        assert_eq!(groups(1 << 20, 256), 256);
        assert_eq!(groups(1 << 20, 4096), 16);
        assert_eq!([groups(1, 1), groups(5000, 1)], [1, 2]);
        assert_eq!(groups(1 << 28, 1 << 20), ENOUGH_GROUPS);
    }

    /// More workgroups where a driver would end a loop as long as this.
    #[test]
    fn loops_stay_below_the_limit() {
        for limit in [1000, 65_535] {
            let caps = Caps { max_loop_rounds: Some(limit), ..full_caps() };
            for (elements, bins) in [(1 << 28, 256), (1 << 28, 12_288), (4_000_000_000, 4096)] {
                let (kernel, params, groups) = counting(spec(DType::F32, elements, 0), bins, &caps);
                assert!(kernel.loop_rounds(&params) <= limit.into(), "{elements} in {bins}: {groups} workgroups");
                assert_eq!(u64::from(params[1]), groups * 256);
            }
            let op = Bincount::new(spec(DType::U32, 1 << 31, 0), 256).unwrap();
            assert!(op.plan(&caps).unwrap().loop_rounds() <= limit.into());
        }
    }

    #[test]
    fn keys_order_floats_and_leave_nan_outside() {
        let numbers = [f32::NEG_INFINITY, -2.5, -f32::from_bits(1), -0.0, 0.0, 1e-40, 1.0, f32::INFINITY];
        assert!(numbers.windows(2).all(|pair| (key(pair[0]) as i32) < key(pair[1]) as i32));
        let (least, most) = (key(f32::MIN), key(f32::MAX));
        let is_inside = |x: f32| key(x).wrapping_sub(least) <= most.wrapping_sub(least);
        assert!([f32::MIN, -0.0, 3.0, f32::MAX].into_iter().all(is_inside));
        let outside = [f32::NAN, -f32::NAN, f32::from_bits(0x7f80_0001), f32::INFINITY, f32::NEG_INFINITY];
        assert!(!outside.into_iter().any(is_inside));
    }
}
