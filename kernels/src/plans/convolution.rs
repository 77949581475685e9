//! Convolutions and both gradients on Hopper (`cuda/convolution.cuh`, `cuda/convolution_weights.cuh`), of 16-bit operands, one group, and
//! one or two spatial axes; convolutions of i8 with scales too, of channels that are a multiple of 16. Other cards, and more axes, are left to warp-level products (`convolution_mma.rs`), others to the portable
//! kernels. One tap without padding is a matrix product before it comes here.
//!
//! A convolution is one launch. The gradient of the input is the same with taps in reverse and weights read along their channels: one
//! launch for each remainder of the stride, whose inputs no other reaches. The gradient of the weights is summed in slabs of outputs
//! (`convolution_weights.rs`), which a second launch adds. What no tensor map describes, or wastes most of a stage, is folded first
//! (`convolution_fold.rs`). Estimates are the rounds of tiles times what a stage takes to come.
//!
//! i8 is read as pairs: 64 channels of it are 32 of 16 bits to all that reads, folding included, and a stage of as many bytes takes as long to
//! come, so that there are half as many.

use polywarp_core::ops::{
    Convolution, ConvolutionInput, Geometry, QuantizedConvolution, TensorSpec, Window, pixel_pitch,
};
use polywarp_core::{DType, Layout, Op, Shape};

use super::operand::{activation_number, at};
use super::wgmma::inverse;
use crate::catalogue::convolution::{BLOCK_K, INSTANCES, Instance, Makes};
use crate::{Arg, Candidate, Caps, Element, Launch, Plan, Promotion, Slot, Swizzle, TensorMap, find};

#[path = "convolution_fold.rs"]
mod fold;
#[path = "convolution_mma.rs"]
mod mma;
#[path = "convolution_reads.rs"]
mod reads;
#[path = "convolution_weights.rs"]
mod weights;

use reads::{Axis, Images, Reads, Taps};

/// Candidates that are at most so many times slower than the best are worth timing.
pub(super) const WORTH_TIMING: f64 = 1.5;
/// Extents up to here do not overflow the kernels' arithmetic.
const MOST_EXTENT: u64 = 1 << 30;
/// Launches that a gradient of the input may take: stride by stride.
const MOST_REMAINDERS: u64 = 16;
/// Tile rows that blocks walk together before moving along N.
const RASTER_ROWS: u64 = 12;
/// Bytes of a stage that a multiprocessor gets in a clock when all of them ask, and outputs that its tensor cores add 64 of K to
/// (fitted to what ResNet-50's layers took on an H100, docs/convolution.md).
const STAGE_BYTES_A_CLOCK: f64 = 43.0;
const OUTPUTS_A_CLOCK: f64 = 30.0;
/// Clocks that scaling, ending and storing a sum of i8 takes one of a block's consumers, which waits for its own instructions: fitted to 19 layers on an
/// H100 (benches/results/h100-2026-11-28f/candidates-i8.txt), which it tells within a fifth.
const SCALED_CLOCKS: f64 = 0.95;
/// Channels of i8 are a multiple of this: 16 bytes.
const UNIT_OF_STEPS: u64 = 16;
/// Clocks of starting; what a launch costs besides.
const START_CLOCKS: f64 = 4000.0;
const LAUNCH_NS: f64 = 1500.0;
/// Share of the promised memory rate that is reached.
const MEMORY_SHARE: f64 = 0.85;

pub(super) fn candidates(op: &Op, caps: &Caps) -> Vec<Candidate> {
    let mut found = by_wgmma(op, caps);
    let mut others = mma::candidates(op, caps);
    // Beside Hopper's own kernels they have not been timed: there they are checked alone, and not worth timing.
    if let Some(best) = found.iter().map(|own| own.estimate_ns).min_by(f64::total_cmp) {
        others.iter_mut().for_each(|other| other.estimate_ns = other.estimate_ns.max(2.0 * WORTH_TIMING * best));
    }
    found.extend(others);
    found
}

/// Those of Hopper's own kernels.
fn by_wgmma(op: &Op, caps: &Caps) -> Vec<Candidate> {
    if caps.sm != 90 || !caps.tensor_maps {
        return Vec::new();
    }
    let found = if let Some(op) = op.get::<Convolution>() {
        serves(&op.geometry, &op.x).and_then(|served| forward(op, served, op.x, op.weights, &[], caps))
    } else if let Some(op) = op.get::<QuantizedConvolution>() {
        quantised(op, caps)
    } else if let Some(op) = op.get::<ConvolutionInput>() {
        input(op, caps)
    } else {
        op.get().and_then(|op| weights::candidates(op, caps))
    };
    found.unwrap_or_default()
}

/// The windows of height and width, and their element; `None` for what the kernels do not compute.
fn serves(geometry: &Geometry, spec: &TensorSpec) -> Option<([Window; 2], Element)> {
    let element = match spec.dtype {
        DType::F16 => Element::F16,
        DType::BF16 => Element::BF16,
        _ => return None,
    };
    // One tap, stride 1 and no padding: a product.
    if geometry.is_pointwise() {
        return None;
    }
    Some((windows(geometry)?, element))
}

/// The windows of height and width, where kernels compute them.
fn windows(geometry: &Geometry) -> Option<[Window; 2]> {
    let [depth, height, width] = geometry.windows;
    let extents = [geometry.batch, geometry.channels, geometry.filters, height.input, width.input];
    let outputs = geometry.output_pixels().checked_mul(geometry.batch)?;
    let inputs = geometry.input_pixels().checked_mul(geometry.batch)?;
    let reduced = geometry.taps().checked_mul(geometry.channels.max(geometry.filters))?;
    let fits = [outputs, inputs, reduced, geometry.filters].iter().all(|extent| (1..=MOST_EXTENT).contains(extent));
    let plain = depth == Window::NONE && geometry.groups == 1 && !extents.contains(&0);
    (plain && fits).then_some([height, width])
}

fn instances(spec: &TensorSpec, makes: Makes) -> impl Iterator<Item = &'static Instance> {
    let dtype = spec.dtype;
    INSTANCES.iter().filter(move |instance| instance.operands == dtype && instance.makes == makes)
}

/// A convolution of i8: scales follow the other operands.
fn quantised(op: &QuantizedConvolution, caps: &Caps) -> Option<Vec<Candidate>> {
    let of = &op.of;
    let geometry = windows(&of.geometry).map(|windows| (windows, Element::U16))?;
    if !of.geometry.channels.is_multiple_of(UNIT_OF_STEPS) {
        return None;
    }
    let place = 2 + [of.residual, of.bias].iter().flatten().count();
    let step = if of.geometry.filters == 1 { 0 } else { op.scale_w.layout.strides()[0] };
    let scales = [at(&op.scale_x, place), at(&op.scale_w, place + 1), Arg::I64(step)];
    forward(of, geometry, pairs(&of.x)?, pairs(&of.weights)?, &scales, caps)
}

/// Bytes, of neighbouring channels, as half as many elements of 16 bits; `None` where pixels begin between two.
fn pairs(spec: &TensorSpec) -> Option<TensorSpec> {
    let (mut dims, mut strides) = (spec.layout.dims().to_vec(), spec.layout.strides().to_vec());
    let last = dims.len() - 1;
    for (&extent, stride) in dims[..last].iter().zip(&mut strides) {
        // A dimension of one element has no stride that matters.
        *stride = if extent == 1 { 0 } else { Some(*stride).filter(|stride| stride % 2 == 0)? / 2 };
    }
    (dims[last], strides[last]) = (Some(dims[last]).filter(|extent| extent.is_multiple_of(2))? / 2, 1);
    let offset = Some(spec.layout.offset()).filter(|offset| offset.is_multiple_of(2))? / 2;
    let layout = Layout::strided(Shape::new(&dims).ok()?, &strides, offset).ok()?;
    Some(TensorSpec::new(DType::F16, layout))
}

/// `op` with x and weights as elements of 16 bits.
fn forward(
    op: &Convolution,
    (windows, element): ([Window; 2], Element),
    x: TensorSpec,
    weights: TensorSpec,
    scales: &[Arg],
    caps: &Caps,
) -> Option<Vec<Candidate>> {
    let geometry = Geometry { channels: *x.layout.dims().last()?, ..op.geometry };
    let mut addends = [Arg::F32(0.0), Arg::Null, Arg::I64(0), Arg::Null, Arg::U32(activation_number(op.activation)?)];
    if let Some(residual) = op.residual {
        addends[0] = Arg::F32(1.0);
        addends[1] = at(&residual, 2);
        addends[2] = Arg::I64(pixel_pitch(&residual)?);
    }
    if let Some(bias) = op.bias {
        if bias.layout.dims()[0] != 1 && bias.layout.strides()[0] != 1 {
            return None;
        }
        addends[3] = at(&bias, if op.residual.is_some() { 3 } else { 2 });
    }
    let mut found = Vec::new();
    for reads in Reads::all(&x, (Slot::Input(0), &weights, Slot::Input(1)), windows, &geometry) {
        let pass = Pass {
            reads: &reads.images,
            axes: reads.axes,
            taps: &reads.weights,
            order: [0, 1, reads.axes[0].taps as i64],
            columns: op.geometry.filters,
            element,
            output: &op.output,
            place: Place::Dense,
            addends: &addends,
            scales,
            caps,
        };
        for instance in instances(&op.x, Makes::Output).filter(|instance| instance.output == op.output.dtype) {
            let Some((launch, ns)) = pass.launch(instance) else { continue };
            let mut plan = reads.plan.clone();
            plan.launches.push(launch);
            let name = format!("{}{}", instance.symbol, reads.suffix);
            found.push(Candidate { name, plan, estimate_ns: reads.estimate_ns(caps) + LAUNCH_NS + ns });
        }
    }
    Some(found)
}

fn input(op: &ConvolutionInput, caps: &Caps) -> Option<Vec<Candidate>> {
    let (windows, element) = serves(&op.geometry, &op.gradient)?;
    let [height, width] = windows;
    let Geometry { batch, channels, filters, .. } = op.geometry;
    // Strides up to what reaches any input twice: dilated taps would need remainders of both.
    let strided = windows.iter().any(|window| window.stride > 1);
    let dilated = windows.iter().any(|window| window.stride > 1 && window.dilation > 1);
    let remainders = height.stride.min(height.input).checked_mul(width.stride.min(width.input))?;
    // Rows of D are written by 16 bytes.
    if dilated || remainders > MOST_REMAINDERS || !channels.is_multiple_of(8) {
        return None;
    }
    let reads = Images::of(&op.gradient, Slot::Input(0), filters, [width.output, height.output], batch)?;
    let taps = Taps::of(&op.weights, Slot::Input(1), &op.geometry)?;
    let addends = [Arg::F32(0.0), Arg::Null, Arg::I64(0), Arg::Null, Arg::U32(0)];
    let mut found = Vec::new();
    'instances: for instance in instances(&op.gradient, Makes::Input) {
        let (mut plan, mut estimate_ns) = (Plan::default(), LAUNCH_NS);
        for rows in Remainder::all(&height) {
            for columns in Remainder::all(&width) {
                let pass = Pass {
                    reads: &reads,
                    axes: [columns.axis, rows.axis],
                    taps: &taps,
                    order: [
                        rows.tap * width.taps as i64 + columns.tap,
                        columns.tap_step,
                        rows.tap_step * width.taps as i64,
                    ],
                    columns: channels,
                    element,
                    output: &op.output,
                    place: if strided {
                        Place::Apart {
                            offset: (rows.first * width.input + columns.first) * channels,
                            strides: [
                                height.input * width.input * channels,
                                height.stride * width.input * channels,
                                width.stride * channels,
                            ],
                        }
                    } else {
                        Place::Dense
                    },
                    addends: &addends,
                    scales: &[],
                    caps,
                };
                let Some((launch, ns)) = pass.launch(instance) else { continue 'instances };
                plan.launches.push(launch);
                estimate_ns += ns;
            }
        }
        found.push(Candidate { name: instance.symbol.clone(), plan, estimate_ns });
    }
    Some(found)
}

/// Inputs of one remainder of a stride, along one axis: those from `first` on, a stride apart.
struct Remainder {
    first: u64,
    /// How they read the gradient: each its own pixel on, taps in descending order.
    axis: Axis,
    /// The number of the first tap, and what leads to the next.
    tap: i64,
    tap_step: i64,
}

impl Remainder {
    /// Input i under tap t is that of output (i + before - t dilation) / stride. Of one remainder, taps are a stride apart as well;
    /// a stride above 1 has no dilation here.
    fn all(window: &Window) -> impl Iterator<Item = Remainder> {
        let Window { input, taps, stride, dilation, before, .. } = *window;
        (0..stride.min(input)).map(move |first| {
            let tap = (first + before) % stride;
            let own = if tap < taps { (taps - tap).div_ceil(stride) } else { 0 };
            let last = (first + before) / stride;
            let step = if stride == 1 { dilation } else { 1 };
            let axis = Axis {
                first: last as i64 - (own.max(1) as i64 - 1) * step as i64,
                outputs: (input - first).div_ceil(stride),
                stride: 1,
                dilation: step,
                taps: own,
            };
            let tap = tap as i64 + (own as i64 - 1) * stride as i64;
            Remainder { first, axis, tap, tap_step: -(stride as i64) }
        })
    }
}

/// Where results lie.
enum Place {
    Dense,
    /// From an element on, with strides of images, rows and pixels.
    Apart {
        offset: u64,
        strides: [u64; 3],
    },
}

/// One launch of a convolution.
struct Pass<'a> {
    reads: &'a Images,
    /// Width, height.
    axes: [Axis; 2],
    taps: &'a Taps,
    /// The number of the first tap, and what leads to the next in a row, and from row to row.
    order: [i64; 3],
    /// Filters, or channels of the input's gradient.
    columns: u64,
    element: Element,
    output: &'a TensorSpec,
    place: Place,
    addends: &'a [Arg; 5],
    /// Of i8, the last arguments.
    scales: &'a [Arg],
    caps: &'a Caps,
}

impl Pass<'_> {
    /// The launch, and nanoseconds that it takes.
    fn launch(&self, instance: &Instance) -> Option<(Launch, f64)> {
        let of_filters = instance.makes == Makes::Input;
        let (block_m, block_n) = (u64::from(instance.shape.block_m), u64::from(instance.shape.block_n));
        let [width, height] = self.axes;
        let pixels = width.outputs * height.outputs;
        let (m, n) = (self.reads.count * pixels, self.columns);
        let blocks = self.reads.channels.div_ceil(u64::from(BLOCK_K));
        let steps = width.taps * height.taps * blocks;
        let tiles = [m.div_ceil(block_m), n.div_ceil(block_n)];
        let count = tiles[0].checked_mul(tiles[1]).filter(|&count| count < 1 << 31)?;
        let grid = count.min(u64::from(self.caps.multiprocessors)) as u32;

        let element_bytes = self.output.dtype.size_bytes();
        let offset_bytes = element_bytes * self.output.layout.offset();
        let (apart, offset, strides) = match self.place {
            Place::Dense => (0, 0, [0; 3]),
            Place::Apart { offset, strides } => (1, element_bytes * offset, strides),
        };
        let by_tma = (element_bytes * n).is_multiple_of(16);
        let map_a = self.reads.map(&self.axes, self.element, instance.shape.block_m)?;
        let map_b = self.taps.map(self.element, if of_filters { BLOCK_K } else { instance.shape.block_n });
        let map_d = if by_tma && apart == 0 { self.map_of_d(m)? } else { map_b.clone() };
        let mut args = vec![Arg::TensorMap(map_a), Arg::TensorMap(map_b), Arg::TensorMap(map_d)];
        args.push(Arg::Address { slot: Slot::Output(0), offset_bytes: offset_bytes + offset });
        args.extend([m, n, tiles[0], tiles[1], steps].map(|value| Arg::U32(value as u32)));
        args.extend(raster(tiles).map(Arg::U32));
        args.extend(window(&self.axes).map(Arg::U32));
        let [tap, tap_w, tap_h] = self.order.map(|number| number as u32);
        args.extend([width.taps.max(1) as u32, width.dilation as u32, height.dilation as u32].map(Arg::U32));
        args.extend([blocks as u32, tap, tap_w, tap_h, u32::from(by_tma), apart].map(Arg::U32));
        args.extend(strides.map(|stride| Arg::I64(stride as i64)));
        args.extend(self.addends.iter().chain(self.scales).cloned());

        let clocks = START_CLOCKS
            + count.div_ceil(u64::from(self.caps.multiprocessors)) as f64 * tile_clocks(instance, steps, self.reads);
        let read = 2 * self.reads.count * self.reads.extents[0] * self.reads.extents[1] * self.reads.channels;
        let bytes = read + element_bytes * m * n;
        let ns = self.caps.clocks_ns(clocks).max(self.caps.stream_ns(bytes) / MEMORY_SHARE);
        Some((Launch { kernel: find(&instance.symbol)?, grid: [grid, 1, 1], args }, ns))
    }

    /// The map by which blocks store D, 16 rows of 128 bytes at a time.
    fn map_of_d(&self, m: u64) -> Option<TensorMap> {
        let element = match self.output.dtype {
            DType::F16 => Element::F16,
            DType::BF16 => Element::BF16,
            DType::F32 => Element::F32,
            _ => return None,
        };
        let (n, bytes) = (self.columns, element.size_bytes());
        Some(TensorMap {
            slot: Slot::Output(0),
            offset_bytes: bytes * self.output.layout.offset(),
            element,
            dims: vec![n, m, 1],
            strides_bytes: vec![bytes * n, (bytes * n).checked_mul(m).filter(|&bytes| bytes < 1 << 40)?],
            box_dims: vec![(128 / bytes) as u32, 16, 1],
            pixels: None,
            swizzle: Swizzle::B128,
            promotion: Promotion::None,
        })
    }
}

/// What a tile of `steps` stages takes, its end included.
fn tile_clocks(instance: &Instance, steps: u64, pixels: &Images) -> f64 {
    let (m, n) = (f64::from(instance.shape.block_m), f64::from(instance.shape.block_n));
    let slow = pixels.slowness(instance.makes);
    let rows = if instance.makes == Makes::Weights { m + slow * n } else { slow * m + n };
    let stage = (m * n / OUTPUTS_A_CLOCK).max(rows * 128.0 / STAGE_BYTES_A_CLOCK);
    let stages = steps as f64 * stage;
    if instance.is_scaled() {
        // Not hidden behind the stages of another consumer's tile: there are few, and half of them are loads.
        return stages + m * n * SCALED_CLOCKS / f64::from(instance.shape.consumers);
    }
    // Two consumers that take turns hide what storing takes.
    if instance.shape.turns { stages } else { stages + m * n * 2.0 / 32.0 }
}

/// How blocks go through tiles: rows of a band, and inverses (`divided` in `cuda/gemm_wgmma_config.cuh`) of tiles in all and in a band,
/// of a band's rows and of those of the last one.
fn raster([rows, columns]: [u64; 2]) -> [u32; 5] {
    let raster = RASTER_ROWS;
    let last = if rows.is_multiple_of(raster) { raster } else { rows % raster };
    let [layer, band, height, end] = [rows * columns, raster * columns, raster, last].map(inverse);
    [raster as u32, layer, band, height, end]
}

/// Which pixels are read: outputs in a row and in an image with their inverses, the first pixel, strides.
fn window([width, height]: &[Axis; 2]) -> [u32; 8] {
    let (columns, pixels) = (width.outputs, width.outputs * height.outputs);
    let first = [width.first, height.first].map(|first| first as u32);
    let [stride_w, stride_h] = [width.stride as u32, height.stride as u32];
    [columns as u32, pixels as u32, inverse(columns), inverse(pixels), first[0], first[1], stride_w, stride_h]
}

#[cfg(test)]
#[path = "convolution_tests.rs"]
mod tests;
