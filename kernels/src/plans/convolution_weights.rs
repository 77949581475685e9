//! The gradient of a convolution's weights: which tile, and in how many slabs of outputs.
//!
//! Tiles of filters and taps are few and outputs many, so slabs of outputs keep the card busy; `splitk.rs` adds them up, as those of a
//! product [filters, outputs] x [outputs, taps channels]. One slab is rounded and stored at once.

use polywarp_core::ops::{ConvolutionWeights, Geometry, Matmul, TensorSpec};
use polywarp_core::{DType, Layout, Shape};

use super::super::epilogue::Epilogue;
use super::super::splitk;
use super::super::wgmma::inverse;
use super::fold::pays;
use super::reads::{Images, Reads};
use super::{LAUNCH_NS, MEMORY_SHARE, START_CLOCKS, instances, raster, serves, tile_clocks, window};
use crate::catalogue::convolution::{BLOCK_K, Instance, Makes};
use crate::{Arg, Candidate, Caps, Element, Launch, Promotion, Slot, Swizzle, TensorMap, find};

/// Stages that a slab has at least, and slabs at most: more cost the second launch more than they save.
const LEAST_SLAB_TILES: u64 = 4;
const MOST_SLABS: u64 = 64;
/// What the launch that adds slabs costs, and bytes of sums that go through the second-level cache in a nanosecond, both ways.
const SUMS_NS: f64 = 2000.0;
const SUMS_BYTES_PER_NS: f64 = 2000.0;

pub(super) fn candidates(op: &ConvolutionWeights, caps: &Caps) -> Option<Vec<Candidate>> {
    let (windows, element) = serves(&op.geometry, &op.gradient)?;
    let [height, width] = windows;
    let Geometry { batch, channels, filters, .. } = op.geometry;
    let outputs = batch * height.output * width.output;
    // The gradient of outputs as a matrix, which lies along filters.
    let gradient = Images::of(&op.gradient, Slot::Input(0), filters, [outputs, 1], 1)?;
    let in_place = Images::of(&op.x, Slot::Input(1), channels, [width.input, height.input], batch);
    let in_place = in_place.filter(|_| channels.is_multiple_of(2));
    let mut found = Vec::new();
    let mut ways = Vec::new();
    ways.extend(in_place.map(|images| Reads::of_images(images, windows)));
    if ways.is_empty() || pays(&op.geometry, &width) {
        ways.extend(Reads::folded(&op.x, Slot::Input(1), None, windows, &op.geometry));
    }
    for reads in &ways {
        for instance in instances(&op.gradient, Makes::Weights) {
            let work = Work { op, reads, gradient: &gradient, element, outputs, caps, instance };
            found.extend(work.candidate());
        }
    }
    Some(found)
}

struct Work<'a> {
    op: &'a ConvolutionWeights,
    reads: &'a Reads,
    gradient: &'a Images,
    element: Element,
    outputs: u64,
    caps: &'a Caps,
    instance: &'static Instance,
}

impl Work<'_> {
    fn candidate(&self) -> Option<Candidate> {
        let (caps, filters) = (self.caps, self.op.geometry.filters);
        let (block_m, block_n) = (u64::from(self.instance.shape.block_m), u64::from(self.instance.shape.block_n));
        let Reads { images, axes, .. } = self.reads;
        let taps = axes[0].taps * axes[1].taps;
        let (blocks, depth) = (images.channels.div_ceil(u64::from(BLOCK_K)), self.outputs.div_ceil(u64::from(BLOCK_K)));
        let units = taps * blocks;
        let tiles = [filters.div_ceil(block_m), (units * u64::from(BLOCK_K)).div_ceil(block_n)];
        let count = tiles[0].checked_mul(tiles[1]).filter(|&count| count < 1 << 24)?;
        let processors = u64::from(caps.multiprocessors);
        let slabs = (processors / count).min(depth / LEAST_SLAB_TILES).clamp(1, MOST_SLABS);
        let slab_tiles = depth.div_ceil(slabs);
        let slabs = depth.div_ceil(slab_tiles);
        // Elements of a filter.
        let row = taps.checked_mul(images.channels).filter(|&row| row <= super::MOST_EXTENT)?;

        let mut plan = self.reads.plan.clone();
        let output = (Slot::Output(0), 2 * self.op.output.layout.offset());
        let mut scratch = |bytes: u64| {
            plan.scratch_bytes.push(bytes);
            (Slot::Scratch(plan.scratch_bytes.len() - 1), 0)
        };
        // Folded taps are unfolded last.
        let result = if self.reads.fold.is_some() { scratch((2 * filters).checked_mul(row)?) } else { output };
        let sums_bytes = [4, slabs, filters, row].into_iter().try_fold(1u64, u64::checked_mul)?;
        let sums = (slabs > 1).then(|| scratch(sums_bytes));
        let address = |(slot, offset_bytes)| Arg::Address { slot, offset_bytes };
        let to = match sums {
            Some(sums) => [address(sums), Arg::Null],
            None => [Arg::Null, address(result)],
        };

        let mut args =
            vec![Arg::TensorMap(self.gradient_map()), Arg::TensorMap(images.map(axes, self.element, BLOCK_K)?)];
        args.extend(to);
        args.extend([filters, self.outputs, tiles[0], tiles[1], slabs, slab_tiles].map(|value| Arg::U32(value as u32)));
        args.extend(raster(tiles).map(Arg::U32));
        args.extend(window(axes).map(Arg::U32));
        args.extend([axes[0].dilation as u32, axes[1].dilation as u32].map(Arg::U32));
        let (channels, taps_w) = (images.channels, axes[0].taps);
        let of_units = [channels as u32, blocks as u32, inverse(blocks), taps_w as u32, inverse(taps_w), units as u32];
        args.extend(of_units.map(Arg::U32));
        args.extend([row, filters * row].map(|stride| Arg::I64(stride as i64)));
        let grid = (count * slabs).min(processors) as u32;
        plan.launches.push(Launch { kernel: find(&self.instance.symbol)?, grid: [grid, 1, 1], args });

        let mut estimate_ns = self.reads.estimate_ns(caps) + LAUNCH_NS;
        if let Some(sums) = sums {
            let product = self.as_product(row)?;
            plan.launches.push(splitk::launch(
                &product,
                address(sums),
                address(result),
                slabs as u32,
                Epilogue::nothing(DType::F32),
            )?);
            estimate_ns += SUMS_NS + 2.0 * sums_bytes as f64 / SUMS_BYTES_PER_NS;
        }
        if let Some(fold) = &self.reads.fold {
            plan.launches.push(fold.unfold(result.0, output, filters)?);
            estimate_ns += SUMS_NS;
        }
        let rounds = (count * slabs).div_ceil(processors) as f64;
        let busy_ns = caps.clocks_ns(START_CLOCKS + rounds * tile_clocks(self.instance, slab_tiles, images));
        let read = 2 * (self.outputs * filters + images.count * images.extents[0] * images.extents[1] * channels);
        estimate_ns += busy_ns.max(caps.stream_ns(read) / MEMORY_SHARE);
        let cut = if slabs > 1 { format!("_slabs{slabs}") } else { String::new() };
        let name = format!("{}{}{cut}", self.instance.symbol, self.reads.suffix);
        Some(Candidate { name, plan, estimate_ns })
    }

    /// 64 filters of 64 outputs.
    fn gradient_map(&self) -> TensorMap {
        let (slot, offset_bytes, pitch_bytes) = self.gradient.place();
        TensorMap {
            slot,
            offset_bytes,
            element: self.element,
            dims: vec![self.op.geometry.filters, self.outputs, 1],
            strides_bytes: vec![pitch_bytes, pitch_bytes * self.outputs],
            box_dims: vec![BLOCK_K, BLOCK_K, 1],
            pixels: None,
            swizzle: Swizzle::B128,
            promotion: Promotion::B128,
        }
    }

    /// The product whose slabs of K are those of outputs.
    fn as_product(&self, row: u64) -> Option<Matmul> {
        let dense =
            |dims: [u64; 2]| Some(TensorSpec::new(self.op.output.dtype, Layout::contiguous(Shape::new(&dims).ok()?)));
        let filters = self.op.geometry.filters;
        Some(Matmul::product(dense([filters, 1])?, dense([1, row])?, dense([filters, row])?))
    }
}
