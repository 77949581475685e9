//! What convolutions read, as tensor maps describe it: images, and taps of weights; where they lie, or folded (`convolution_fold.rs`).

use polywarp_core::ops::{Geometry, TensorSpec, Window, pixel_pitch};

use super::fold::{Fold, Folded, folded, pays};
use crate::catalogue::convolution::{BLOCK_K, Makes};
use crate::{Caps, Element, Pixels, Plan, Promotion, Slot, Swizzle, TensorMap};

/// Offsets of taps, and steps, that tensor maps of pixels have at most.
const MOST_OFFSET: u64 = 255;
const MOST_STEP: u64 = 8;
/// Bytes from a line to the next are fewer (CUDA driver API, `cuTensorMapEncodeIm2col`).
const STRIDE_LIMIT_BYTES: u64 = 1 << 40;
/// Bytes at whose multiples pixels begin.
const UNIT_BYTES: u64 = 16;
/// Elements that folding copies in a nanosecond: its instructions decide (docs/convolution.md).
const FOLDED_PER_NS: f64 = 700.0;

/// One spatial axis: output o under tap t reads pixel `first + o stride + t dilation`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Axis {
    pub first: i64,
    pub outputs: u64,
    pub stride: u64,
    pub dilation: u64,
    /// May be 0.
    pub taps: u64,
}

impl Axis {
    pub fn of(window: &Window) -> Axis {
        let Window { output, taps, stride, dilation, before, .. } = *window;
        Axis { first: -(before as i64), outputs: output, stride, dilation, taps }
    }
}

/// Images [count, height, width, channels].
#[derive(Clone, Debug)]
pub(super) struct Images {
    slot: Slot,
    offset_bytes: u64,
    pub channels: u64,
    /// Width, height.
    pub extents: [u64; 2],
    pub count: u64,
    /// Of pixels, rows and images.
    strides_bytes: [u64; 3],
}

/// Elements from pixel to pixel; `None` where they do not ascend.
pub(super) fn ascending(spec: &TensorSpec, pixels: u64, channels: u64) -> Option<u64> {
    if pixels == 1 {
        return Some(channels.next_multiple_of(UNIT_BYTES / 2));
    }
    u64::try_from(pixel_pitch(spec)?).ok().filter(|&pitch| pitch > 0)
}

impl Images {
    /// `spec` where it lies; `None` where no tensor map describes it.
    pub fn of(spec: &TensorSpec, slot: Slot, channels: u64, [width, height]: [u64; 2], count: u64) -> Option<Images> {
        let pitch_bytes = 2 * ascending(spec, width * height * count, channels)?;
        let strides_bytes = [pitch_bytes, pitch_bytes.checked_mul(width)?, pitch_bytes.checked_mul(width * height)?];
        let offset_bytes = 2 * spec.layout.offset();
        let images = Images { slot, offset_bytes, channels, extents: [width, height], count, strides_bytes };
        images.is_described().then_some(images)
    }

    /// Its buffer, bytes from there to the first pixel, and from pixel to pixel.
    pub fn place(&self) -> (Slot, u64, u64) {
        (self.slot, self.offset_bytes, self.strides_bytes[0])
    }

    /// Folded ones, at the start of the first scratch buffer; elements from pixel to pixel and from row to row.
    pub fn of_scratch(channels: u64, extents: [u64; 2], count: u64, pitches: [u64; 2]) -> Option<Images> {
        let [pixel, row] = pitches.map(|pitch| 2 * pitch);
        let strides_bytes = [pixel, row, row.checked_mul(extents[1])?];
        let images = Images { slot: Slot::Scratch(0), offset_bytes: 0, channels, extents, count, strides_bytes };
        images.is_described().then_some(images)
    }

    fn is_described(&self) -> bool {
        let strides =
            self.strides_bytes.iter().all(|&bytes| bytes.is_multiple_of(UNIT_BYTES) && bytes < STRIDE_LIMIT_BYTES);
        strides && self.offset_bytes.is_multiple_of(UNIT_BYTES)
    }

    /// How many times as long as pixels of whole lines of the cache these take to come, when a stage has `BLOCK_M` or 64 of them: those of
    /// one line come one after the other (docs/convolution.md).
    pub fn slowness(&self, makes: Makes) -> f64 {
        let at = match self.strides_bytes[0] {
            ..32 => 0,
            32..64 => 1,
            64..128 => 2,
            _ => 3,
        };
        if makes == Makes::Weights { [2.0, 1.5, 1.4, 1.3][at] } else { [6.0, 3.0, 2.0, 1.0][at] }
    }

    /// The map by which `pixels` pixels are read at a time, of 64 channels; `None` where windows are too large for one.
    pub fn map(&self, axes: &[Axis; 2], element: Element, pixels: u32) -> Option<TensorMap> {
        let (mut lower, mut upper) = ([0; 2], [0; 2]);
        for (at, axis) in axes.iter().enumerate() {
            let last = axis.first + ((axis.outputs - 1) * axis.stride) as i64;
            let corners = [axis.first, last + 1 - self.extents[at] as i64];
            [lower[at], upper[at]] = corners.map(|corner| i32::try_from(corner).unwrap_or(i32::MAX));
            let reaches = axis.taps.saturating_sub(1).saturating_mul(axis.dilation) <= MOST_OFFSET;
            if corners.iter().any(|corner| !(-128..=127).contains(corner)) || !reaches || axis.stride > MOST_STEP {
                return None;
            }
        }
        Some(TensorMap {
            slot: self.slot,
            offset_bytes: self.offset_bytes,
            element,
            dims: vec![self.channels, self.extents[0], self.extents[1], self.count],
            strides_bytes: self.strides_bytes.to_vec(),
            box_dims: vec![BLOCK_K, pixels],
            pixels: Some(Pixels { lower, upper, steps: axes.map(|axis| axis.stride as u32) }),
            swizzle: Swizzle::B128,
            promotion: Promotion::B128,
        })
    }
}

/// Weights [filters, taps, channels].
#[derive(Clone, Debug)]
pub(super) struct Taps {
    slot: Slot,
    offset_bytes: u64,
    channels: u64,
    taps: u64,
    filters: u64,
    /// Of taps and filters.
    strides_bytes: [u64; 2],
}

impl Taps {
    /// Weights where they lie; `None` where no tensor map describes them.
    pub fn of(spec: &TensorSpec, slot: Slot, geometry: &Geometry) -> Option<Taps> {
        let (channels, taps, filters) = (geometry.channels, geometry.taps(), geometry.filters);
        let tap = 2 * ascending(spec, taps * filters, channels)?;
        let strides_bytes = [tap, tap.checked_mul(taps)?];
        let offset_bytes = 2 * spec.layout.offset();
        let described =
            strides_bytes.iter().all(|&bytes| bytes.is_multiple_of(UNIT_BYTES) && bytes < STRIDE_LIMIT_BYTES);
        (described && offset_bytes.is_multiple_of(UNIT_BYTES)).then_some(Taps {
            slot,
            offset_bytes,
            channels,
            taps,
            filters,
            strides_bytes,
        })
    }

    /// Folded ones, in the second scratch buffer, `pitch` elements from tap to tap.
    pub fn of_scratch(channels: u64, taps: u64, filters: u64, pitch: u64) -> Taps {
        let strides_bytes = [2 * pitch, 2 * pitch * taps];
        Taps { slot: Slot::Scratch(1), offset_bytes: 0, channels, taps, filters, strides_bytes }
    }

    /// The map by which 64 channels of one tap of `filters` filters are read.
    pub fn map(&self, element: Element, filters: u32) -> TensorMap {
        TensorMap {
            slot: self.slot,
            offset_bytes: self.offset_bytes,
            element,
            dims: vec![self.channels, self.taps, self.filters],
            strides_bytes: self.strides_bytes.to_vec(),
            box_dims: vec![BLOCK_K, 1, filters],
            pixels: None,
            swizzle: Swizzle::B128,
            promotion: Promotion::B128,
        }
    }
}

/// What one way of reading takes before the convolution itself.
pub(super) struct Reads {
    pub images: Images,
    pub weights: Taps,
    /// Width, height.
    pub axes: [Axis; 2],
    pub plan: Plan,
    pub suffix: &'static str,
    pub fold: Option<Fold>,
    /// Elements that are written first.
    copied: u64,
}

impl Reads {
    /// Every way to read x and weights: where they lie, and folded.
    pub fn all(
        x: &TensorSpec,
        (slot, weights, of_weights): (Slot, &TensorSpec, Slot),
        windows: [Window; 2],
        geometry: &Geometry,
    ) -> Vec<Reads> {
        let mut all: Vec<Reads> =
            Reads::in_place(x, (slot, weights, of_weights), windows, geometry).into_iter().collect();
        if all.is_empty() || pays(geometry, &windows[1]) {
            all.extend(Reads::folded(x, slot, Some((weights, of_weights)), windows, geometry));
        }
        all
    }

    /// x alone, where it lies.
    pub fn of_images(images: Images, [height, width]: [Window; 2]) -> Reads {
        let weights = Taps {
            slot: images.slot,
            offset_bytes: 0,
            channels: images.channels,
            taps: 1,
            filters: 1,
            strides_bytes: [UNIT_BYTES; 2],
        };
        let axes = [Axis::of(&width), Axis::of(&height)];
        Reads { images, weights, axes, plan: Plan::default(), suffix: "", fold: None, copied: 0 }
    }

    fn in_place(
        x: &TensorSpec,
        (slot, weights, of_weights): (Slot, &TensorSpec, Slot),
        windows: [Window; 2],
        geometry: &Geometry,
    ) -> Option<Reads> {
        let [height, width] = windows;
        Some(Reads {
            images: Images::of(x, slot, geometry.channels, [width.input, height.input], geometry.batch)?,
            weights: Taps::of(weights, of_weights, geometry)?,
            axes: [Axis::of(&width), Axis::of(&height)],
            plan: Plan::default(),
            suffix: "",
            fold: None,
            copied: 0,
        })
    }

    /// x, and weights where there are some, folded.
    pub fn folded(
        x: &TensorSpec,
        slot: Slot,
        weights: Option<(&TensorSpec, Slot)>,
        windows: [Window; 2],
        geometry: &Geometry,
    ) -> Option<Reads> {
        let Folded { fold, images, weights, axes, plan, copied } = folded(x, slot, weights, windows, geometry)?;
        Some(Reads { images, weights, axes, plan, suffix: "_folded", fold: Some(fold), copied })
    }

    /// What the copies take.
    pub fn estimate_ns(&self, caps: &Caps) -> f64 {
        let bytes = caps.stream_ns(4 * self.copied);
        if self.copied == 0 { 0.0 } else { bytes.max(self.copied as f64 / FOLDED_PER_NS) + 3000.0 }
    }
}
