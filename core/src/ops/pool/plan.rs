//! Pools and their gradients: one launch of `wgsl/pool.wgsl`, `wgsl/pool_gradient.wgsl` or `wgsl/pool_chosen.wgsl`, an element or
//! four neighbouring channels an invocation.
//!
//! They are bound by memory, and neighbours read neighbours. Gradients are gathered, so that no memory is added to.

use crate::ops::{Divisor, Pool, PoolChosen, PoolFn, PoolGeometry, PoolGradient, pixel_pitch};
use crate::plan::looped;
use crate::{DType, Error, Operation, Result, TensorSpec};

use crate::plan::{Access, Caps, KernelKey, KernelText, Launch, Plan, Slot, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::math;
use crate::wgsl::params::uniform;
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("pool.wgsl");

/// Invocations of a workgroup.
const THREADS: u32 = 128;

/// What is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Way {
    Largest,
    Average,
    OfLargest,
    OfAverage,
    Chosen,
}

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    way: Way,
    /// Neighbouring channels that an invocation computes: 1 or 4.
    width: u32,
    adaptive: bool,
    /// Averages count the padding.
    padded: bool,
    element: Element,
    accumulator: Element,
    /// Places within windows.
    index: Element,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let acc = self.accumulator.scalar();
        let mut elements = vec![self.element, self.accumulator];
        let has_places = matches!(self.way, Way::Largest | Way::OfLargest | Way::Chosen);
        elements.extend(has_places.then_some(self.index));
        let mut head = element::prelude(&elements);
        head += &format!("alias Acc = {acc};\nconst THREADS = {THREADS}u;\n");
        head += &format!("const ADAPTIVE = {};\nconst PADDED = {};\n\n", self.adaptive, self.padded);
        head += &uniform(PARAMS);
        let mut bindings = Vec::new();
        let form = if self.width == 4 { Form::Quad } else { Form::Scalar };
        let mut storage = |element: Element, name: &str, access: Access| {
            bindings.push(access);
            element.storage(bindings.len() as u32, name, form, access)
        };
        head += &storage(self.element, "x", Access::Read);
        if matches!(self.way, Way::OfLargest | Way::Chosen) {
            head += &storage(self.index, "at", Access::Read);
        }
        head += &storage(self.element, "y", Access::ReadWrite);
        if self.way == Way::Largest {
            head += &storage(self.index, "place", Access::ReadWrite);
        }
        let body = ["\n", include_str!("../../../wgsl/pool_windows.wgsl"), "\n", &self.holes(), self.body()].concat();
        let (name, parts) = (self.name(), if self.adaptive { "_parts" } else { "" });
        let parts = if self.width == 4 { format!("{parts}_4wide") } else { parts.to_owned() };
        let wgsl = head + &math::library(&body) + &body;
        Source { name: format!("{name}{parts}_{}", self.element.dtype()), wgsl, bindings }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        let word = |name: &str| {
            let at = PARAMS.iter().position(|member| *member == name);
            at.and_then(|at| params.get(at)).map_or(u64::from(u32::MAX), |&word| word.into())
        };
        let axes = ["x", "y", "z"];
        let three = |name: &str| axes.map(|axis| word(&format!("{name}_{axis}")));
        let taps = three("taps");
        let count = taps.iter().fold(0, |sum: u64, &taps| sum.saturating_add(looped(taps, 0)));
        // What a divisor counts, unless that is known.
        let count = if self.padded || !matches!(self.way, Way::Average | Way::OfAverage) { 0 } else { count };
        match self.way {
            Way::Largest | Way::Average => {
                taps.iter().rev().fold(0, |inner, &taps| looped(taps, inner)).saturating_add(count)
            }
            Way::OfLargest | Way::OfAverage => {
                let most = |axis: usize| {
                    let [input, output, stride, dilation] =
                        ["in", "out", "stride", "dilation"].map(|name| three(name)[axis].max(1));
                    // One more than fit, as they begin at any remainder.
                    let windows = if self.adaptive { output / input + 2 } else { dilation * taps[axis] / stride + 2 };
                    windows.min(output)
                };
                (0..3).rev().map(most).fold(count, |inner, windows| looped(windows, inner))
            }
            Way::Chosen => 0,
        }
    }
}

/// The members of `Params`.
const PARAMS: [&str; 32] = [
    "total",
    "channels",
    "number",
    "in_x",
    "in_y",
    "in_z",
    "out_x",
    "out_y",
    "out_z",
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
    "padded_x",
    "padded_y",
    "padded_z",
    "x_base",
    "x_pitch",
    "at_base",
    "y_base",
    "place_base",
    "unused_0",
    "unused_1",
    "unused_2",
];

/// Operands beside the function: what is read pixel by pixel, places that are read, the result, places that are written.
struct Operands {
    read: TensorSpec,
    at: Option<TensorSpec>,
    written: TensorSpec,
    place: Option<TensorSpec>,
}

pub(crate) fn pool(op: &Pool, caps: &Caps) -> Result<Plan> {
    let way = if op.function == PoolFn::Max { Way::Largest } else { Way::Average };
    let operands = Operands { read: op.x, at: None, written: op.output, place: op.index };
    plan(op.name(), way, op.function, &op.geometry, &operands, caps)
}

pub(crate) fn gradient(op: &PoolGradient, caps: &Caps) -> Result<Plan> {
    let way = if op.function == PoolFn::Max { Way::OfLargest } else { Way::OfAverage };
    let operands = Operands { read: op.gradient, at: op.index, written: op.output, place: None };
    plan(op.name(), way, op.function, &op.geometry, &operands, caps)
}

pub(crate) fn chosen(op: &PoolChosen, caps: &Caps) -> Result<Plan> {
    let operands = Operands { read: op.x, at: Some(op.index), written: op.output, place: None };
    plan(op.name(), Way::Chosen, PoolFn::Max, &op.geometry, &operands, caps)
}

fn plan(
    name: &'static str,
    way: Way,
    function: PoolFn,
    geometry: &PoolGeometry,
    operands: &Operands,
    caps: &Caps,
) -> Result<Plan> {
    let all = [Some(operands.read), operands.at, Some(operands.written), operands.place];
    // Adaptive windows multiply extents of both sides.
    let products = geometry.windows.iter().map(|window| (window.input + 1) * (window.output + 1));
    let reach = all.iter().flatten().map(|spec| spec.layout.required_elements());
    let reach = reach.chain(products.filter(|_| geometry.is_adaptive)).max().unwrap_or(0);
    if reach > u64::from(u32::MAX) {
        return Err(Error::IndexWidth { op: name, elements: reach, max: u32::MAX.into() });
    }
    let dtype = operands.written.dtype;
    let index = operands.at.or(operands.place).map_or(DType::U8, |spec| spec.dtype);
    let pitch = pixel_pitch(&operands.read).unwrap_or(0);
    let offset = |spec: Option<TensorSpec>| spec.map_or(0, |spec| spec.layout.offset());
    let offsets =
        [operands.read.layout.offset(), offset(operands.at), operands.written.layout.offset(), offset(operands.place)];
    let is_even = geometry.channels.is_multiple_of(4)
        && pitch.unsigned_abs().is_multiple_of(4)
        && offsets.iter().all(|offset| offset.is_multiple_of(4));
    let width = if is_even && way != Way::Chosen { 4 } else { 1 };
    let kernel = Kernel {
        way,
        width,
        adaptive: geometry.is_adaptive,
        padded: function == PoolFn::Average(Divisor::Padded) && !geometry.is_adaptive,
        element: Element::new(dtype, caps)?,
        accumulator: Element::new(dtype.compute(), caps)?,
        index: Element::new(index, caps)?,
    };
    let number = if let PoolFn::Average(Divisor::Number(number)) = function { number } else { 0 };
    let units = u64::from(width);
    let total = operands.written.layout.elements() / units;
    let windows = geometry.windows;
    let mut words = vec![total, geometry.channels / units, number.into()];
    words.extend(windows.map(|window| window.input));
    words.extend(windows.map(|window| window.output));
    words.extend(windows.map(|window| window.taps));
    words.extend(windows.map(|window| window.stride));
    words.extend(windows.map(|window| window.dilation));
    words.extend(windows.map(|window| window.before));
    words.extend(windows.map(|window| window.input + window.before + window.after));
    // A distance may be negative: offsets wrap, sums do not.
    let [read, at, written, place] = offsets.map(|offset| offset / units);
    words.extend([read, (pitch / units as i64) as u64, at, written, place]);
    words.resize(PARAMS.len(), 0);
    let mut bindings = vec![Slot::Input(0)];
    bindings.extend(operands.at.map(|_| Slot::Input(1)));
    bindings.push(Slot::Output(0));
    bindings.extend(operands.place.map(|_| Slot::Output(1)));
    let grid = caps.fold_grid(total.div_ceil(THREADS.into()))?;
    let params = words.into_iter().map(|word| word as u32).collect();
    let launch = Launch { kernel: KernelKey::own(kernel), grid, bindings, params };
    Ok(Plan { launches: vec![launch], scratch_bytes: Vec::new() })
}

impl Kernel {
    fn name(&self) -> &'static str {
        match self.way {
            Way::Largest => "pool_max",
            Way::Average => "pool_average",
            Way::OfLargest => "pool_max_gradient",
            Way::OfAverage => "pool_average_gradient",
            Way::Chosen => "pool_chosen",
        }
    }

    fn body(&self) -> &'static str {
        match self.way {
            Way::Largest | Way::Average => include_str!("../../../wgsl/pool.wgsl"),
            Way::OfLargest | Way::OfAverage => include_str!("../../../wgsl/pool_gradient.wgsl"),
            Way::Chosen => include_str!("../../../wgsl/pool_chosen.wgsl"),
        }
    }

    /// The types and functions that the bodies ask for: of a unit, and of one element of it.
    fn holes(&self) -> String {
        let dtype = self.accumulator.dtype();
        // What a unit is, how it lies, and a value of it made of an expression for each channel.
        let lanes: &[&str] = if self.width == 4 { &[".x", ".y", ".z", ".w"] } else { &[""] };
        let (value, number, digit) = if self.width == 4 { ("vec4<Acc>", "vec4<u32>", "4") } else { ("Acc", "u32", "") };
        let each = |of: &dyn Fn(&str) -> String| lanes.iter().map(|lane| of(lane)).collect::<Vec<String>>().join(", ");
        let head = TEXT.fill("unit", holes!(value, digit));
        head + &match self.way {
            Way::Largest => {
                use crate::CompareFn::{Eq, Gt};
                let [larger, is_number, was_number] =
                    [(Gt, "value", "held"), (Eq, "value", "value"), (Eq, "held", "held")]
                        .map(|(f, a, b)| math::compare(f, dtype, a, b));
                let wins = each(&|lane| format!("wins(held.value{lane}, held.tap, value{lane})"));
                let taps = if self.width == 4 { "vec4<bool>" } else { "bool" };
                TEXT.fill("largest", holes!(number, is_number, was_number, larger, taps, wins, digit)) + "\n"
            }
            Way::Average => TEXT.get("average").to_owned() + "\n",
            Way::OfLargest => TEXT.fill("share of largest", holes!(digit, number)) + "\n",
            Way::OfAverage => TEXT.get("share of average").to_owned() + "\n",
            Way::Chosen => return String::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::ops::PoolOptions;
    use crate::{Layout, Shape};

    use super::*;
    use crate::wgsl::validate::{Validated, full_caps};

    #[test]
    fn every_float_function_and_window_validates() {
        let mut validated = Validated::default();
        for caps in [full_caps(), Caps::webgpu_defaults("test")] {
            let floats = [DType::F32, DType::F16, DType::BF16, DType::F64];
            for dtype in floats.into_iter().filter(|&dtype| caps.require(dtype).is_ok()) {
                for channels in [3, 8] {
                    let shape = Shape::new(&[2, 40, 40, channels]).unwrap();
                    let x = TensorSpec::new(dtype, Layout::contiguous(shape));
                    let windows = |options| PoolGeometry::new("pool", &shape, &options).unwrap();
                    let geometries = [
                        windows(PoolOptions::window(3).stride(2).padding(1)),
                        windows(PoolOptions::window(17)),
                        PoolGeometry::adaptive("pool", &shape, &[7]).unwrap(),
                    ];
                    for geometry in geometries {
                        let divisors = [Divisor::Padded, Divisor::Inside, Divisor::Number(3)].map(PoolFn::Average);
                        for function in divisors.into_iter().chain([PoolFn::Max]) {
                            let op = Pool::new(function, x, geometry).unwrap();
                            validated.check(&pool(&op, &caps).unwrap().launches, &caps);
                            let back = PoolGradient::new(function, op.output, op.index, geometry).unwrap();
                            validated.check(&gradient(&back, &caps).unwrap().launches, &caps);
                            if let Some(index) = op.index {
                                let op = PoolChosen::new(x, index, geometry).unwrap();
                                validated.check(&chosen(&op, &caps).unwrap().launches, &caps);
                            }
                        }
                    }
                }
            }
        }
    }
}
