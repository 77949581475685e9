//! Convolutions of few channels, the first layers of networks: a workgroup keeps the inputs of a tile of pixels in workgroup memory and
//! multiplies them there, where tiles over a gathered matrix find a place in memory for each number of it.
//!
//! An invocation computes [`PIXELS`] pixels in a row of several filters. Which inputs it multiplies with which weights is written out in the
//! text, so that all of them are registers. What does not fit the memory that every device has takes the other ways. Next:
//! `plan/stem/text.rs`, `wgsl/convolution_stem.wgsl`; the gradient of the weights: `plan/stem/weights.rs`.

use std::collections::BTreeSet;

use super::depthwise::is_of_vectors;
use super::{End, Problem, Way};
use crate::ops::pixel_pitch;
use crate::plan::{Caps, KernelKey, KernelText, Launch, Plan, Slot};
use crate::wgsl::element::Element;
use crate::wgsl::params::{Words, params};
use crate::{DType, Result, TensorSpec};

mod text;
mod weights;

/// Channels up to which it is taken: of more, rows of a gathered matrix are long enough to be read as they lie.
const MOST_CHANNELS: u64 = 8;
/// Pixels of an invocation.
const PIXELS: u64 = 8;
/// Invocations of a workgroup that are tried.
const THREADS: [u64; 3] = [128, 64, 32];
/// Invocations beside each other with other filters, and vectors of four filters of each.
const BLOCKS: [[u64; 2]; 4] = [[8, 2], [8, 1], [4, 1], [2, 1]];
/// Taps that are written out at most, and inputs that they need: registers beside those of 64 sums.
const MOST_TAPS: u64 = 12;
const MOST_INPUTS: usize = 24;
/// Workgroup memory that WebGPU guarantees. Where there is more, more workgroups run at a time.
const MOST_BYTES: u64 = 16 << 10;
/// Pixels of all images from which it is taken: fewer are one workgroup or two, and the other way cuts the sum.
const WORTH_PIXELS: u64 = 128;
/// Tiles may compute at most this many times as much as there are results: the generic kernel runs at about a quarter of their rate.
const WORTH_PART: u64 = 4;
/// Instructions that an input and a vector of weights take on their way to workgroup memory, about: they rank tiles.
const INSTRUCTIONS_OF_INPUT: u64 = 15;
const INSTRUCTIONS_OF_WEIGHTS: u64 = 45;

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    threads: u64,
    lanes: u64,
    vectors: u64,
    tile_y: u64,
    tile_z: u64,
    channels: u64,
    /// Of a row.
    taps: u64,
    at_a_time: u64,
    /// Along z, from a pixel to the next one and from a tap to the next one.
    stride: u64,
    dilation: u64,
    /// Inputs of a tile: rows, and pixels of a row.
    rows: u64,
    columns: u64,
    /// Results are written four filters at a time.
    quads: bool,
    end: End,
    element: Element,
}

impl Kernel {
    /// Filters of a workgroup.
    fn filters(&self) -> u64 {
        4 * self.lanes * self.vectors
    }

    /// From a row of inputs to the next one: odd.
    fn pitch(&self) -> u64 {
        (self.columns * self.channels) | 1
    }

    /// From the weights of a term to those of the next one, in vectors: odd.
    fn pitch_of_weights(&self) -> u64 {
        (self.lanes * self.vectors) | 1
    }

    fn terms(&self) -> u64 {
        self.taps * self.channels
    }

    fn workgroup_bytes(&self) -> u64 {
        let inputs = self.rows.saturating_mul(self.pitch()).saturating_mul(4);
        inputs.saturating_add(self.terms().saturating_mul(16 * self.pitch_of_weights()))
    }
}

/// Inputs along z that a run of pixels has under `taps` taps, counted from the first one.
fn inputs_of(taps: u64, stride: u64, dilation: u64) -> BTreeSet<u64> {
    (0..PIXELS).flat_map(|pixel| (0..taps).map(move |tap| pixel * stride + tap * dilation)).collect()
}

/// How many taps of a row are written out: all of them, or a part that divides them.
fn taps_at_a_time(taps: u64, stride: u64, dilation: u64) -> u64 {
    let fits = |part: &u64| taps.is_multiple_of(*part) && inputs_of(*part, stride, dilation).len() <= MOST_INPUTS;
    (2..=MOST_TAPS.min(taps)).rev().find(fits).unwrap_or(1)
}

/// The block of filters: the largest that leaves at most a quarter of what it computes idle, else the one that leaves the least.
fn block_of(filters: u64) -> [u64; 2] {
    let idle = |[lanes, vectors]: [u64; 2]| {
        let padded = filters.next_multiple_of(4 * lanes * vectors);
        (padded - filters, padded)
    };
    let is_busy = |block: &[u64; 2]| {
        let (idle, padded) = idle(*block);
        4 * idle <= padded
    };
    let least = BLOCKS.into_iter().min_by_key(|&block| idle(block).0);
    BLOCKS.into_iter().find(is_busy).or(least).unwrap_or(BLOCKS[0])
}

params! {
    /// The words of a launch.
    struct Params {
        workgroups, blocks, tiles_y, tiles_z;
        width, quads, taps, taps_x, taps_y;
        from_x, from_y, from_z, to_x, to_y, to_z;
        stride_x, stride_y, stride_z, dilation_x, dilation_y, before_x, before_y, before_z;
        x_base, x_pitch, w_base, w_pitch, y_base, c_base, c_pitch, bias_base, bias_step
    }
}

impl Problem<'_> {
    /// The plan for few channels; `None` where the other ways serve better, or nothing fits workgroup memory.
    pub(super) fn stem(&self, accumulator: Element, element: Element, caps: &Caps) -> Result<Option<Plan>> {
        let geometry = self.geometry;
        let pixels = geometry.batch * geometry.output_pixels();
        let fits = self.way == Way::Forward
            && geometry.groups == 1
            && (1..=MOST_CHANNELS).contains(&geometry.channels)
            && geometry.filters > 0
            && geometry.input_pixels() > 0
            && pixels >= WORTH_PIXELS
            && accumulator.dtype() == DType::F32;
        if !fits {
            return Ok(None);
        }
        let Some((kernel, tiles)) = self.stem_kernel(element, caps) else { return Ok(None) };
        let [x, y, z] = geometry.windows;
        let blocks = geometry.filters.div_ceil(kernel.filters());
        let workgroups = blocks * geometry.batch * x.output * tiles[0] * tiles[1];
        let computed = workgroups.saturating_mul(kernel.filters() * kernel.tile_y * kernel.tile_z);
        if computed > WORTH_PART.saturating_mul(pixels.saturating_mul(geometry.filters)) {
            return Ok(None);
        }
        // A distance may be negative: offsets wrap, sums do not.
        let place = |spec: &TensorSpec, width: i64| {
            [spec.layout.offset() as i64 / width, pixel_pitch(spec).unwrap_or(0) / width].map(|word| word as u32)
        };
        let width = if kernel.quads { 4 } else { 1 };
        let [[x_base, x_pitch], [w_base, w_pitch]] = self.operands.map(|(_, spec)| place(&spec, 1));
        let [c_base, c_pitch] = self.others[0].as_ref().map_or([0; 2], |spec| place(spec, width));
        let bias = self.others[1].map_or([0; 2], |bias| [bias.layout.offset() as u32, bias.layout.strides()[0] as u32]);
        let params = Params {
            workgroups: workgroups as u32,
            blocks: blocks as u32,
            tiles_y: tiles[0] as u32,
            tiles_z: tiles[1] as u32,
            width: geometry.filters as u32,
            quads: geometry.filters.div_ceil(4) as u32,
            taps: geometry.taps() as u32,
            taps_x: x.taps as u32,
            taps_y: y.taps as u32,
            from_x: x.input as u32,
            from_y: y.input as u32,
            from_z: z.input as u32,
            to_x: x.output as u32,
            to_y: y.output as u32,
            to_z: z.output as u32,
            stride_x: x.stride as u32,
            stride_y: y.stride as u32,
            stride_z: z.stride as u32,
            dilation_x: x.dilation as u32,
            dilation_y: y.dilation as u32,
            before_x: x.before as u32,
            before_y: y.before as u32,
            before_z: z.before as u32,
            x_base,
            x_pitch,
            w_base,
            w_pitch,
            y_base: (self.output.layout.offset() / width as u64) as u32,
            c_base,
            c_pitch,
            bias_base: bias[0],
            bias_step: bias[1],
        };
        let mut words = params.words();
        words.resize(words.len().next_multiple_of(4), 0);
        // Windows of very many taps.
        if kernel.loop_rounds(&words) > caps.loop_limit() {
            return Ok(None);
        }
        let [x, w] = self.operands.map(|(number, _)| Slot::Input(number));
        let bindings = [vec![x, w, Slot::Output(0)], self.slots()].concat();
        let grid = caps.fold_grid(workgroups)?;
        let launch = Launch { kernel: KernelKey::own(kernel), grid, bindings, params: words };
        Ok(Some(Plan { launches: vec![launch], scratch_bytes: Vec::new() }))
    }

    /// The kernel whose tiles take the fewest instructions, with the numbers of tiles along y and z of a slice of an image; `None` where
    /// no tile fits workgroup memory.
    fn stem_kernel(&self, element: Element, caps: &Caps) -> Option<(Kernel, [u64; 2])> {
        let geometry = self.geometry;
        let [x, y, z] = geometry.windows;
        let [lanes, vectors] = block_of(geometry.filters);
        let specs = [Some(self.output), self.others[0]];
        let quads = geometry.filters.is_multiple_of(4) && specs.iter().flatten().all(is_of_vectors);
        let kernel = |threads: u64, tile_y: u64| {
            let tile_z = PIXELS * (threads / lanes / tile_y);
            Kernel {
                threads,
                lanes,
                vectors,
                tile_y,
                tile_z,
                channels: geometry.channels,
                taps: z.taps,
                at_a_time: taps_at_a_time(z.taps, z.stride, z.dilation),
                stride: z.stride,
                dilation: z.dilation,
                rows: (tile_y - 1) * y.stride + y.reach(),
                columns: (tile_z - 1) * z.stride + z.reach(),
                quads,
                end: self.end(),
                element,
            }
        };
        let tiles = |kernel: &Kernel| [y.output.div_ceil(kernel.tile_y), z.output.div_ceil(kernel.tile_z)];
        let most_bytes = MOST_BYTES.min(caps.max_workgroup_bytes.into());
        let fits = |kernel: &Kernel| {
            kernel.workgroup_bytes() <= most_bytes && kernel.threads <= u64::from(caps.max_invocations)
        };
        let instructions = |kernel: &Kernel| {
            let rows = x.taps * y.taps;
            let sums = kernel.threads * PIXELS * kernel.vectors * 4 * rows * kernel.terms();
            let weights = INSTRUCTIONS_OF_WEIGHTS * rows * kernel.terms() * kernel.lanes * kernel.vectors;
            let inputs = INSTRUCTIONS_OF_INPUT * x.taps * kernel.rows * kernel.columns * kernel.channels;
            tiles(kernel).iter().product::<u64>().saturating_mul(sums + weights + inputs)
        };
        let heights = |threads: u64| (0..).map(|log2| 1 << log2).take_while(move |&tile_y| tile_y <= threads / lanes);
        let all = THREADS.into_iter().flat_map(|threads| heights(threads).map(move |tile_y| (threads, tile_y)));
        let fitting = all.map(|(threads, tile_y)| kernel(threads, tile_y)).filter(fits);
        let best = fitting.min_by_key(instructions)?;
        let tiles = tiles(&best);
        Some((best, tiles))
    }
}
