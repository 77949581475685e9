//! The gradient of the weights of few channels: sums over pixels, each invocation's of several terms and filters, of tiles of pixels whose
//! inputs and dy are in workgroup memory. Next: `plan/stem/weights/text.rs`, `wgsl/convolution_stem_weights.wgsl`.

use super::super::depthwise::is_of_vectors;
use super::super::{MOST_PARTIAL_BYTES, Problem, Shape, Way};
use super::{MOST_BYTES, MOST_CHANNELS, WORTH_PART, block_of};
use crate::ops::pixel_pitch;
use crate::plan::{Caps, KernelKey, KernelText, Launch, Plan, Slot};
use crate::wgsl::element::Element;
use crate::wgsl::params::{Words, params};
use crate::{DType, Result, TensorSpec};

mod text;

/// Invocations of a workgroup that are tried.
const THREADS: [u64; 2] = [256, 128];
/// Terms of an invocation at most: 64 sums with eight filters.
const MOST_TERMS: u64 = 8;
/// Pixels of all images from which it is taken: fewer are a tile or two, and the other way cuts the sum finer.
const WORTH_PIXELS: u64 = 256;
/// Workgroups that slabs are cut for, slabs at most (one chain adds them up), and tiles of a slab at least.
const WORKGROUPS: u64 = 512;
const MOST_SLABS: u64 = 256;
const LEAST_TILES: u64 = 2;
/// Instructions that an input and a vector of dy take on their way to workgroup memory, and a tile beside them: they rank tiles.
const INSTRUCTIONS_OF_INPUT: u64 = 15;
const INSTRUCTIONS_OF_GRADIENTS: u64 = 25;
const INSTRUCTIONS_OF_TILE: u64 = 60;

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    threads: u64,
    lanes: u64,
    vectors: u64,
    /// Terms of an invocation.
    each: u64,
    tile_y: u64,
    tile_z: u64,
    channels: u64,
    /// Taps along y and z.
    taps: [u64; 2],
    /// Along z, from a pixel to the next one and from a tap to the next one.
    stride: u64,
    dilation: u64,
    /// Inputs of a tile: rows, and pixels of a row.
    rows: u64,
    columns: u64,
    /// dy is read four filters at a time.
    quads: bool,
    /// The result is a slab of sums.
    partial: bool,
    element: Element,
}

impl Kernel {
    /// From a row of inputs to the next one: odd.
    fn pitch(&self) -> u64 {
        (self.columns * self.channels) | 1
    }

    fn groups(&self) -> u64 {
        self.threads / self.lanes
    }

    /// Terms of a slice of taps.
    fn terms(&self) -> u64 {
        self.taps[0] * self.taps[1] * self.channels
    }

    /// Vectors of dy of a tile.
    fn gradients(&self) -> u64 {
        self.tile_y * self.tile_z * self.lanes * self.vectors
    }

    fn workgroup_bytes(&self) -> u64 {
        self.rows.saturating_mul(self.pitch()).saturating_mul(4).saturating_add(16 * self.gradients())
    }
}

params! {
    /// The words of a launch.
    struct Params {
        workgroups, taps_x, parts, blocks;
        tiles, all_tiles, tiles_y, tiles_z;
        filters, quads, width, total;
        from_x, from_y, from_z, to_x, to_y, to_z;
        stride_x, stride_y, stride_z, dilation_x, dilation_y, before_x, before_y, before_z;
        x_base, x_pitch, w_base, w_pitch, y_base
    }
}

impl Problem<'_> {
    /// The plan for few channels; `None` where the other ways serve better, or nothing fits workgroup memory.
    pub(in super::super) fn stem_weights(
        &self,
        accumulator: Element,
        element: Element,
        caps: &Caps,
    ) -> Result<Option<Plan>> {
        let geometry = self.geometry;
        let pixels = geometry.batch * geometry.output_pixels();
        let fits = self.way == Way::Weights
            && geometry.groups == 1
            && (1..=MOST_CHANNELS).contains(&geometry.channels)
            && geometry.filters > 0
            && geometry.input_pixels() > 0
            && pixels >= WORTH_PIXELS
            && accumulator.dtype() == DType::F32;
        let Some(kernel) = fits.then(|| self.stem_weights_kernel(element, caps)).flatten() else { return Ok(None) };
        let [x, y, z] = geometry.windows;
        let (terms, of_workgroup) = (kernel.terms(), kernel.groups() * kernel.each);
        let (parts, blocks) =
            (terms.div_ceil(of_workgroup), geometry.filters.div_ceil(4 * kernel.lanes * kernel.vectors));
        let computed = (parts * of_workgroup).saturating_mul(blocks * 4 * kernel.lanes * kernel.vectors);
        if computed > WORTH_PART * terms * geometry.filters {
            return Ok(None);
        }
        let (tiles_y, tiles_z) = (y.output.div_ceil(kernel.tile_y), z.output.div_ceil(kernel.tile_z));
        let all_tiles = geometry.batch * x.output * tiles_y * tiles_z;
        let of_slab = x.taps * parts * blocks;
        let total = self.output.layout.elements();
        let most = (MOST_PARTIAL_BYTES / (4 * total)).clamp(1, MOST_SLABS);
        let wanted = (WORKGROUPS / of_slab).min(all_tiles.div_ceil(LEAST_TILES)).clamp(1, most);
        // A distance may be negative: offsets wrap, sums do not.
        let place = |spec: &TensorSpec, width: i64| {
            [spec.layout.offset() as i64 / width, pixel_pitch(spec).unwrap_or(0) / width].map(|word| word as u32)
        };
        let [x_base, x_pitch] = place(&self.operands[0].1, 1);
        let [w_base, w_pitch] = place(&self.operands[1].1, if kernel.quads { 4 } else { 1 });
        let words = |tiles: u64| {
            let params = Params {
                workgroups: (of_slab * all_tiles.div_ceil(tiles)) as u32,
                taps_x: x.taps as u32,
                parts: parts as u32,
                blocks: blocks as u32,
                tiles: tiles as u32,
                all_tiles: all_tiles as u32,
                tiles_y: tiles_y as u32,
                tiles_z: tiles_z as u32,
                filters: geometry.filters as u32,
                quads: geometry.filters.div_ceil(4) as u32,
                width: (geometry.taps() * geometry.channels) as u32,
                total: total as u32,
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
                y_base: self.output.layout.offset() as u32,
            };
            let mut words = params.words();
            words.resize(words.len().next_multiple_of(4), 0);
            words
        };
        let mut tiles = all_tiles.div_ceil(wanted);
        // Some drivers end long loops.
        while tiles > 1 && kernel.loop_rounds(&words(tiles)) > caps.loop_limit() {
            tiles = tiles.div_ceil(2);
        }
        let slabs = all_tiles.div_ceil(tiles);
        if kernel.loop_rounds(&words(tiles)) > caps.loop_limit() || total * slabs > u64::from(u32::MAX) {
            return Ok(None);
        }
        let (grid, params) = (caps.fold_grid(of_slab * slabs)?, words(tiles));
        let [x, w] = self.operands.map(|(number, _)| Slot::Input(number));
        if slabs == 1 {
            let launch = Launch { kernel: KernelKey::own(kernel), grid, bindings: vec![x, w, Slot::Output(0)], params };
            return Ok(Some(Plan { launches: vec![launch], scratch_bytes: Vec::new() }));
        }
        let kernel = KernelKey::own(Kernel { partial: true, ..kernel });
        let first = Launch { kernel, grid, bindings: vec![x, w, Slot::Scratch(0)], params };
        let whole = self.kernel(Shape::Combine { sums: true }, accumulator, element);
        let second = self.combine(whole, slabs, Some(Slot::Scratch(0)), caps)?;
        Ok(Some(Plan { launches: vec![first, second], scratch_bytes: vec![(4 * total * slabs).next_multiple_of(16)] }))
    }

    /// The kernel whose tiles take the fewest instructions on their way to workgroup memory; `None` where no tile fits it.
    fn stem_weights_kernel(&self, element: Element, caps: &Caps) -> Option<Kernel> {
        let geometry = self.geometry;
        let [_, y, z] = geometry.windows;
        let [lanes, vectors] = block_of(geometry.filters);
        let threads = THREADS.into_iter().find(|&threads| threads <= u64::from(caps.max_invocations))?;
        let (terms, groups) = (y.taps * z.taps * geometry.channels, threads / lanes);
        let parts = terms.div_ceil(groups * MOST_TERMS);
        let kernel = |tile_y: u64, tile_z: u64| Kernel {
            threads,
            lanes,
            vectors,
            each: terms.div_ceil(parts * groups),
            tile_y,
            tile_z,
            channels: geometry.channels,
            taps: [y.taps, z.taps],
            stride: z.stride,
            dilation: z.dilation,
            rows: (tile_y - 1) * y.stride + y.reach(),
            columns: (tile_z - 1) * z.stride + z.reach(),
            quads: geometry.filters.is_multiple_of(4) && is_of_vectors(&self.operands[1].1),
            partial: false,
            element,
        };
        let most_bytes = MOST_BYTES.min(caps.max_workgroup_bytes.into());
        let instructions = |kernel: &Kernel| {
            let tiles = y.output.div_ceil(kernel.tile_y) * z.output.div_ceil(kernel.tile_z);
            let inputs = INSTRUCTIONS_OF_INPUT * kernel.rows * kernel.columns * kernel.channels;
            let gradients = INSTRUCTIONS_OF_GRADIENTS * kernel.gradients();
            tiles.saturating_mul(inputs + gradients + INSTRUCTIONS_OF_TILE * threads)
        };
        let sizes = || (0..7).map(|log2| 1 << log2);
        let all = sizes().flat_map(|tile_y| sizes().map(move |tile_z| kernel(tile_y, tile_z)));
        all.filter(|kernel| kernel.workgroup_bytes() <= most_bytes).min_by_key(instructions)
    }
}
