//! Convolutions and both gradients by warp-level products (`cuda/convolution_mma_sync.cuh`), of 16-bit operands, one group, channels that are
//! multiples of 8, and one to three spatial axes: on every card from sm_80 on, also beside the kernels of Hopper. Convolutions of i8 with scales
//! too, of multiples of 16.
//!
//! Each is planned as the matrix product that it is: outputs x filters, inputs x channels, or filters x channels of taps. So ends, slabs of K and
//! estimates are those of products (`ending.rs`, `mma_sync.rs`); here are loads. The gradient of the input is one launch for each remainder of the
//! stride, as on Hopper.

use polywarp_core::ops::{
    Convolution, ConvolutionInput, ConvolutionWeights, Geometry, Matmul, QuantizedConvolution, TensorSpec, pixel_pitch,
};
use polywarp_core::{DType, Layout, Op, Shape};

use super::super::ending::{Ending, Scales, Written};
use super::super::mma_sync::{COMBINE_NS, Tiling};
use super::super::operand::at;
use super::reads::{Axis, ascending};
use super::{LAUNCH_NS, MOST_EXTENT, MOST_REMAINDERS, Remainder};
use crate::catalogue::convolution::Makes;
use crate::catalogue::convolution_mma::{INSTANCES, Instance};
use crate::{Arg, Candidate, Caps, Launch, Plan, Slot, find};

/// Channels of 16-bit operands in a unit of 16 bytes, in which operands are read; of any.
const UNIT: u64 = 8;
fn unit(dtype: DType) -> u64 {
    16 / dtype.size_bytes()
}

/// Taps in padding that a mask has bits for, those of all axes added up (`Pixels` in the source).
const MOST_MASKED: u64 = 30;

pub(super) fn candidates(op: &Op, caps: &Caps) -> Vec<Candidate> {
    let found = if let Some(op) = op.get::<Convolution>() {
        forward(op, None, caps)
    } else if let Some(op) = op.get::<QuantizedConvolution>() {
        forward(&op.of, Some([&op.scale_x, &op.scale_w]), caps)
    } else if let Some(op) = op.get::<ConvolutionInput>() {
        input(op, caps)
    } else {
        op.get().and_then(|op| weights(op, caps))
    };
    found.unwrap_or_default()
}

/// Whether the kernels compute it, but for where operands lie.
fn serves(geometry: &Geometry, dtype: DType) -> bool {
    let Geometry { batch, channels, filters, groups, .. } = *geometry;
    let served = matches!(dtype, DType::F16 | DType::BF16 | DType::I8);
    let extents = [batch, channels, filters, geometry.input_pixels(), geometry.output_pixels()];
    served && groups == 1 && !geometry.is_pointwise() && channels.is_multiple_of(unit(dtype)) && !extents.contains(&0)
}

/// The kernels that make `makes` of `dtype` on a card, each with its tiles.
fn tilings(dtype: DType, makes: Makes, caps: &Caps) -> impl Iterator<Item = (&'static Instance, Tiling<'_>)> {
    let fits = move |instance: &&Instance| {
        instance.operands == dtype
            && instance.makes == makes
            && instance.shared_bytes() <= caps.max_shared_bytes
            && find(&instance.symbol).is_some_and(|kernel| kernel.target(caps.sm).is_some())
    };
    INSTANCES.iter().filter(fits).map(move |instance| {
        let (shape, shared_bytes) = (&instance.shape, instance.shared_bytes());
        (instance, Tiling { shape, operands: dtype, shared_bytes, caps })
    })
}

/// Images [count, depth, height, width, channels] that windows walk over.
struct Images {
    address: Arg,
    dtype: DType,
    channels: u64,
    /// Width, height, depth.
    extents: [u64; 3],
    count: u64,
    /// Units from pixel to pixel.
    pitch: u64,
}

impl Images {
    /// `None` where pixels are no whole units.
    fn of(spec: &TensorSpec, place: usize, channels: u64, extents: [u64; 3], count: u64) -> Option<Images> {
        let pixels = extents.iter().try_fold(count, |all, extent| all.checked_mul(*extent))?;
        let pitch = ascending(spec, pixels, channels)?;
        let (dtype, unit) = (spec.dtype, unit(spec.dtype));
        let whole = [pitch, channels, spec.layout.offset()].iter().all(|elements| elements.is_multiple_of(unit));
        whole.then_some(Images { address: at(spec, place), dtype, channels, extents, count, pitch: pitch / unit })
    }

    fn bytes(&self) -> u64 {
        self.dtype.size_bytes() * self.channels * self.count * self.extents.iter().product::<u64>()
    }

    /// What kernels are told of them and of windows over them, in which taps come every `span` elements of K; `None` where numbers are too large.
    fn window(&self, axes: &[Axis; 3], span: u64) -> Option<Vec<Arg>> {
        let (mut args, mut step, mut masked_taps, mut all) = (Vec::new(), self.pitch, 0, self.count);
        for (axis, &extent) in axes.iter().zip(&self.extents) {
            // A remainder that no tap reaches reads nothing.
            let taps = axis.taps.max(1);
            let last = axis.first + ((axis.outputs - 1) * axis.stride + (taps - 1) * axis.dilation) as i64;
            let is_padded = axis.first < 0 || last >= extent as i64;
            let masked = if is_padded { taps } else { 0 };
            masked_taps += masked;
            // With all padding that windows meet.
            let (before, end) = (axis.first.min(0).unsigned_abs(), (last + 1).max(extent as i64).unsigned_abs());
            all = all.checked_mul(before + end)?;
            let step_taps = step.checked_mul(axis.dilation).filter(|&units| units <= MOST_EXTENT)?;
            let numbers =
                [axis.outputs, axis.first as u64, axis.stride, extent, taps, axis.dilation, step_taps, masked];
            args.extend(numbers.map(|number| Arg::U32(number as u32)));
            step = step.checked_mul(extent)?;
        }
        let none = axes.iter().any(|axis| axis.taps == 0);
        let channels = if none { 0 } else { self.channels };
        args.extend([channels, span, self.pitch].map(|number| Arg::U32(number as u32)));
        let fits = all.checked_mul(self.pitch).is_some_and(|units| units <= MOST_EXTENT);
        (fits && masked_taps <= MOST_MASKED).then_some(args)
    }
}

/// The windows of a geometry: width, height, depth.
fn windows(geometry: &Geometry) -> [Axis; 3] {
    let [depth, height, width] = &geometry.windows;
    [width, height, depth].map(Axis::of)
}

fn inputs(geometry: &Geometry) -> [u64; 3] {
    let [depth, height, width] = geometry.windows.map(|window| window.input);
    [width, height, depth]
}

fn outputs(geometry: &Geometry) -> [u64; 3] {
    let [depth, height, width] = geometry.windows.map(|window| window.output);
    [width, height, depth]
}

/// Whether weights lie without gaps, from a multiple of 16 bytes on.
fn are_dense(weights: &TensorSpec, geometry: &Geometry) -> bool {
    let taps = geometry.filters * geometry.taps();
    let dense = taps == 1 || pixel_pitch(weights) == i64::try_from(geometry.channels).ok();
    dense && weights.layout.offset().is_multiple_of(unit(weights.dtype))
}

/// The product that `op` is: [m, k] x [k, n].
fn product(dtype: DType, [m, n, k]: [u64; 3], output: &TensorSpec) -> Option<Matmul> {
    let fits = [m, n, k].iter().all(|extent| (1..=MOST_EXTENT).contains(extent));
    let dense = |dims: [u64; 2]| Some(Layout::contiguous(Shape::new(&dims).ok()?));
    let spec = |dims: [u64; 2]| Some(TensorSpec::new(dtype, dense(dims)?));
    let d = TensorSpec::new(output.dtype, dense([m, n])?.with_offset(output.layout.offset()));
    fits.then_some(Matmul::product(spec([m, k])?, spec([k, n])?, d))
}

/// Every tile, in one slab and in several, of a `product` whose operands are `bytes`; `args` are a kernel's, given what it writes, and m, n, k and
/// the elements of k in a slab.
fn ranked(
    product: Matmul,
    [m, n, k]: [u64; 3],
    makes: Makes,
    bytes: u64,
    caps: &Caps,
    args: impl Fn(&Written, [Arg; 4]) -> Vec<Arg>,
) -> Option<Vec<Candidate>> {
    let product = product.check().ok()?;
    let ending = Ending::of(&product, caps)?;
    let mut found = Vec::new();
    for (instance, tiling) in tilings(product.a.dtype, makes, caps) {
        let tile = instance.shape.tile;
        let blocks = m.div_ceil(u64::from(tile.m)) * n.div_ceil(u64::from(tile.n));
        let k_tiles = k.div_ceil(u64::from(tile.k));
        for slabs in tiling.slabs(blocks, k_tiles) {
            let Some(grid) = grid(blocks * slabs) else { continue };
            let slab_tiles = k_tiles.div_ceil(slabs);
            let slab_k = if slabs == 1 { k } else { slab_tiles * u64::from(tile.k) };
            let mut plan = Plan::default();
            let kernel = find(&instance.symbol)?;
            let summed = ending.add(&mut plan, slabs, Scales::Unknown, |to| {
                let args = args(&to, [m, n, k, slab_k].map(|number| Arg::U32(number as u32)));
                Some(Launch { kernel, grid, args })
            })?;
            let mut name = instance.symbol.clone();
            let mut estimate_ns = LAUNCH_NS + tiling.tensor_ns(blocks * slabs, slab_tiles).max(caps.stream_ns(bytes));
            if summed > 0 {
                name = format!("{name}_slabs{slabs}");
                estimate_ns += COMBINE_NS + caps.stream_ns(2 * summed);
            }
            found.push(Candidate { name, plan, estimate_ns });
        }
    }
    Some(found)
}

fn grid(blocks: u64) -> Option<[u32; 3]> {
    u32::try_from(blocks).ok().filter(|&blocks| blocks <= i32::MAX as u32).map(|blocks| [blocks, 1, 1])
}

/// `scales`: what a step of x is worth, and of each filter.
fn forward(op: &Convolution, scales: Option<[&TensorSpec; 2]>, caps: &Caps) -> Option<Vec<Candidate>> {
    let geometry = &op.geometry;
    let Geometry { batch, channels, filters, .. } = *geometry;
    if !serves(geometry, op.x.dtype) || !are_dense(&op.weights, geometry) {
        return None;
    }
    let images = Images::of(&op.x, 0, channels, inputs(geometry), batch)?;
    let window = images.window(&windows(geometry), channels)?;
    let sizes = [batch * geometry.output_pixels(), filters, geometry.taps() * channels];
    let product = product(op.x.dtype, sizes, &op.output)?;
    let rows = |spec: &TensorSpec| {
        let dims = Shape::new(&[sizes[0], sizes[1]]).ok()?;
        let layout = Layout::strided(dims, &[pixel_pitch(spec)?, 1], spec.layout.offset()).ok()?;
        Some(TensorSpec::new(spec.dtype, layout))
    };
    let c = match &op.residual {
        Some(residual) => Some(rows(residual)?),
        None => None,
    };
    let beta = if c.is_some() { 1.0 } else { 0.0 };
    // One for all rows; one for each column.
    let spread = |spec: &TensorSpec, dims: [u64; 2], strides: [i64; 2]| {
        let layout = Layout::strided(Shape::new(&dims).ok()?, &strides, spec.layout.offset()).ok()?;
        Some(TensorSpec::new(spec.dtype, layout))
    };
    let (scale_a, scale_b) = match scales {
        Some([x, w]) => {
            (Some(spread(x, [sizes[0], 1], [0, 0])?), Some(spread(w, [1, sizes[1]], [0, w.layout.strides()[0]])?))
        }
        None => (None, None),
    };
    let product = Matmul { c, beta, bias: op.bias, activation: op.activation, scale_a, scale_b, ..product };
    let read = 1 + u64::from(c.is_some());
    let weights_bytes = op.weights.dtype.size_bytes() * sizes[1] * sizes[2];
    let bytes = images.bytes() + weights_bytes + op.output.dtype.size_bytes() * read * sizes[0] * sizes[1];
    ranked(product, sizes, Makes::Output, bytes, caps, |to, sizes| {
        let mut args = vec![images.address.clone(), at(&op.weights, 1), to.d(), Arg::U32(u32::from(to.is_f32))];
        args.extend(sizes);
        args.extend(window.iter().cloned());
        args.extend(to.epilogue.clone().args());
        args
    })
}

fn weights(op: &ConvolutionWeights, caps: &Caps) -> Option<Vec<Candidate>> {
    let geometry = &op.geometry;
    let Geometry { batch, channels, filters, .. } = *geometry;
    if !serves(geometry, op.x.dtype) {
        return None;
    }
    let images = Images::of(&op.x, 1, channels, inputs(geometry), batch)?;
    let window = images.window(&windows(geometry), channels)?;
    let gradient = Images::of(&op.gradient, 0, filters, outputs(geometry), batch)?;
    let pitch = Arg::I64((gradient.pitch * UNIT) as i64);
    let sizes = [filters, geometry.taps() * channels, batch * geometry.output_pixels()];
    let bytes = images.bytes() + gradient.bytes() + 2 * sizes[0] * sizes[1];
    let product = product(op.x.dtype, sizes, &op.output)?;
    ranked(product, sizes, Makes::Weights, bytes, caps, |to, sizes| {
        let is_f32 = Arg::U32(u32::from(to.is_f32));
        let mut args = vec![gradient.address.clone(), images.address.clone(), to.d(), is_f32];
        args.extend(sizes);
        args.extend(window.iter().cloned());
        args.push(pitch.clone());
        args
    })
}

fn input(op: &ConvolutionInput, caps: &Caps) -> Option<Vec<Candidate>> {
    let geometry = &op.geometry;
    let Geometry { batch, channels, filters, .. } = *geometry;
    if !serves(geometry, op.gradient.dtype) || !are_dense(&op.weights, geometry) {
        return None;
    }
    let [depth, height, width] = geometry.windows;
    let dilated = geometry.windows.iter().any(|window| window.stride > 1 && window.dilation > 1);
    let strides = geometry.windows.iter().map(|window| window.stride.min(window.input));
    let remainders = strides.clone().try_fold(1u64, |all, stride| all.checked_mul(stride))?;
    if dilated || remainders > MOST_REMAINDERS || remainders == 0 {
        return None;
    }
    let gradient = Images::of(&op.gradient, 0, filters, outputs(geometry), batch)?;
    let reach = [width, height, depth].map(|window| Remainder::all(&window).collect::<Vec<_>>());
    let mut found = Vec::new();
    'instances: for (instance, tiling) in tilings(op.gradient.dtype, Makes::Input, caps) {
        let (mut plan, mut estimate_ns) = (Plan::default(), LAUNCH_NS);
        let span = filters.next_multiple_of(u64::from(instance.shape.tile.k));
        for d in &reach[2] {
            for h in &reach[1] {
                for w in &reach[0] {
                    let part = Part { op, gradient: &gradient, remainders: [w, h, d], span };
                    let Some((launch, ns)) = part.launch(instance, &tiling) else { continue 'instances };
                    plan.launches.push(launch);
                    estimate_ns += ns;
                }
            }
        }
        let moved = gradient.bytes() + 2 * channels * (filters * geometry.taps() + batch * geometry.input_pixels());
        let estimate_ns = estimate_ns.max(LAUNCH_NS + caps.stream_ns(moved));
        found.push(Candidate { name: instance.symbol.clone(), plan, estimate_ns });
    }
    Some(found)
}

/// The gradient of inputs of one remainder of each stride.
struct Part<'a> {
    op: &'a ConvolutionInput,
    gradient: &'a Images,
    /// Width, height, depth.
    remainders: [&'a Remainder; 3],
    /// Elements of K of a tap.
    span: u64,
}

impl Part<'_> {
    /// The launch, and nanoseconds that it takes.
    fn launch(&self, instance: &Instance, tiling: &Tiling) -> Option<(Launch, f64)> {
        let geometry = &self.op.geometry;
        let Geometry { batch, channels, .. } = *geometry;
        let [depth, height, width] = geometry.windows;
        let [w, h, d] = self.remainders;
        let axes = [w.axis, h.axis, d.axis];
        let m = axes.iter().try_fold(batch, |all, axis| all.checked_mul(axis.outputs))?;
        let taps = axes.iter().map(|axis| axis.taps).product::<u64>();
        // Where no tap reaches, one of zeros.
        let sizes = [m, channels, taps.max(1).checked_mul(self.span)?];
        if !sizes.iter().all(|size| (1..=MOST_EXTENT).contains(size)) {
            return None;
        }
        let strided = geometry.windows.iter().any(|window| window.stride > 1);
        let row = width.input * channels;
        let plane = height.input * row;
        let offset = if strided { d.first * plane + h.first * row + w.first * channels } else { 0 };
        let offset_bytes = 2 * (self.op.output.layout.offset() + offset);
        let places = [width.stride * channels, height.stride * row, depth.stride * plane, depth.input * plane];
        let [taps_w, taps_h] = [width.taps as i64, height.taps as i64];
        let number = |[w, h, d]: [i64; 3]| (d * taps_h + h) * taps_w + w;
        let order = [number([w.tap, h.tap, d.tap]), w.tap_step, h.tap_step * taps_w, d.tap_step * taps_h * taps_w];

        let d = Arg::Address { slot: Slot::Output(0), offset_bytes };
        let mut args = vec![self.gradient.address.clone(), at(&self.op.weights, 1), d];
        args.extend(sizes.map(|size| Arg::U32(size as u32)));
        args.extend(self.gradient.window(&axes, self.span)?);
        args.push(Arg::I64((geometry.taps() * channels) as i64));
        args.extend(order.map(|number| Arg::U32(number as u32)));
        args.push(Arg::U32(u32::from(strided)));
        args.extend(places.map(|place| Arg::I64(place as i64)));
        let tile = instance.shape.tile;
        let blocks = sizes[0].div_ceil(u64::from(tile.m)) * sizes[1].div_ceil(u64::from(tile.n));
        let ns = tiling.tensor_ns(blocks, taps * self.span / u64::from(tile.k));
        Some((Launch { kernel: find(&instance.symbol)?, grid: grid(blocks)?, args }, ns))
    }
}

#[cfg(test)]
#[path = "convolution_mma_tests.rs"]
mod tests;
