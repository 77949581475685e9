//! What convolutions read, as tensor maps describe it: images, taps of weights; and images whose taps were folded into channels.
//!
//! Pixels must begin at multiples of 16 bytes. Where they do not, or a pixel fills little of a stage's 64 channels, x and the weights
//! are copied first so that all taps of a row are neighbours (`cuda/convolution_fold.cu`): channels are taps times channels then, and
//! the width has one tap.

use polywarp_core::ops::{Geometry, TensorSpec, Window, pixel_pitch};

use crate::catalogue::convolution::{BLOCK_K, FOLD, FOLD_ROWS, FOLD_UNITS};
use crate::{Arg, Caps, Element, Launch, Pixels, Plan, Promotion, Slot, Swizzle, TensorMap, find};

/// Channels up to which folding is worth timing.
const FEW_CHANNELS: u64 = 32;
/// Offsets of taps, and steps, that tensor maps of pixels have at most.
const MOST_OFFSET: u64 = 255;
const MOST_STEP: u64 = 8;
/// Bytes from a line to the next are fewer (CUDA driver API, `cuTensorMapEncodeIm2col`).
const STRIDE_LIMIT_BYTES: u64 = 1 << 40;
/// Bytes at whose multiples pixels begin.
const UNIT_BYTES: u64 = 16;
/// Elements that folding copies in a nanosecond (a guess: its instructions decide).
const FOLDED_PER_NS: f64 = 1500.0;

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
    fn of(window: &Window) -> Axis {
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
fn ascending(spec: &TensorSpec, pixels: u64, channels: u64) -> Option<u64> {
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

    fn is_described(&self) -> bool {
        let strides =
            self.strides_bytes.iter().all(|&bytes| bytes.is_multiple_of(UNIT_BYTES) && bytes < STRIDE_LIMIT_BYTES);
        strides && self.offset_bytes.is_multiple_of(UNIT_BYTES)
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

/// Taps of a row as channels.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    /// Channels of a pixel with zeros behind them, and pixels of a row.
    pub padded: u64,
    columns: u64,
    /// Elements of a row.
    pitch: u64,
}

impl Fold {
    /// As few channels as let windows begin at multiples of 16 bytes, and be whole pairs.
    fn of(channels: u64, width: &Window) -> Option<Fold> {
        let fits = |padded: &u64| (padded * width.stride).is_multiple_of(8) && (padded * width.taps).is_multiple_of(2);
        let padded = (channels..channels + 8).find(fits)?;
        let columns = (width.output - 1) * width.stride + width.taps;
        Some(Fold { padded, columns, pitch: (columns * padded).next_multiple_of(8) })
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

    /// x, and weights where there are some, copied so that the width has one tap.
    pub fn folded(
        x: &TensorSpec,
        slot: Slot,
        weights: Option<(&TensorSpec, Slot)>,
        [height, width]: [Window; 2],
        geometry: &Geometry,
    ) -> Option<Reads> {
        let Geometry { batch, channels, filters, .. } = *geometry;
        if width.dilation != 1 {
            return None;
        }
        let fold = Fold::of(channels, &width)?;
        let pitch = ascending_any(x, width.input * height.input * batch)?;
        let mut plan = Plan::default();
        let rows = batch * height.input;
        let x_bytes = 2 * x.layout.offset();
        plan.scratch_bytes.push(rows.checked_mul(2 * fold.pitch)?);
        plan.launches.push(
            Copy {
                rows,
                width: width.input,
                channels,
                columns: fold.columns,
                padded: fold.padded,
                pitch: fold.pitch,
                before: width.before,
                row_stride: width.input as i64 * pitch,
                pixel_stride: pitch,
            }
            .launch((slot, x_bytes), (Slot::Scratch(0), 0))?,
        );
        let row_bytes = 2 * fold.pitch;
        let images = Images {
            slot: Slot::Scratch(0),
            offset_bytes: 0,
            channels: width.taps * fold.padded,
            extents: [width.output, height.input],
            count: batch,
            strides_bytes: [2 * width.stride * fold.padded, row_bytes, row_bytes.checked_mul(height.input)?],
        };
        if !images.is_described() {
            return None;
        }
        // Filters' rows of taps, each from a multiple of 16 bytes on.
        let taps_pitch = (width.taps * fold.padded).next_multiple_of(8);
        if let Some((weights, of_weights)) = weights {
            let taps = ascending_any(weights, geometry.taps() * filters)?;
            let rows = filters * height.taps;
            plan.scratch_bytes.push(2 * rows.checked_mul(taps_pitch)?);
            plan.launches.push(
                Copy {
                    rows,
                    width: width.taps,
                    channels,
                    columns: width.taps,
                    padded: fold.padded,
                    pitch: taps_pitch,
                    before: 0,
                    row_stride: width.taps as i64 * taps,
                    pixel_stride: taps,
                }
                .launch((of_weights, 2 * weights.layout.offset()), (Slot::Scratch(1), 0))?,
            );
        }
        let weights = Taps {
            slot: Slot::Scratch(1),
            offset_bytes: 0,
            channels: width.taps * fold.padded,
            taps: height.taps,
            filters,
            strides_bytes: [2 * taps_pitch, 2 * taps_pitch * height.taps],
        };
        let axes = [Axis { first: 0, outputs: width.output, stride: 1, dilation: 1, taps: 1 }, Axis::of(&height)];
        Some(Reads { images, weights, axes, plan, suffix: "_folded", fold: Some(fold), copied: rows * fold.pitch })
    }

    /// What the copies take.
    pub fn estimate_ns(&self, caps: &Caps) -> f64 {
        let bytes = caps.stream_ns(4 * self.copied);
        if self.copied == 0 { 0.0 } else { bytes.max(self.copied as f64 / FOLDED_PER_NS) + 3000.0 }
    }
}

/// Whether folding may pay where it need not be.
pub(super) fn pays(geometry: &Geometry, width: &Window) -> bool {
    geometry.channels <= FEW_CHANNELS && width.taps > 1
}

/// Elements from pixel to pixel, whichever way.
fn ascending_any(spec: &TensorSpec, pixels: u64) -> Option<i64> {
    if pixels == 1 { Some(0) } else { pixel_pitch(spec) }
}

/// Arguments of `convolution_fold`.
pub(super) struct Copy {
    pub rows: u64,
    pub width: u64,
    pub channels: u64,
    pub columns: u64,
    pub padded: u64,
    pub pitch: u64,
    pub before: u64,
    pub row_stride: i64,
    pub pixel_stride: i64,
}

impl Copy {
    pub fn launch(&self, from: (Slot, u64), to: (Slot, u64)) -> Option<Launch> {
        let Copy { rows, width, channels, columns, padded, pitch, before, row_stride, pixel_stride } = *self;
        let address = |(slot, offset_bytes)| Arg::Address { slot, offset_bytes };
        let vector = if pitch.is_multiple_of(4) { 4 } else { 1 };
        let grid = [rows.div_ceil(u64::from(FOLD_ROWS)), pitch.div_ceil(vector).div_ceil(u64::from(FOLD_UNITS))];
        let [x, y] = grid.map(|blocks| u32::try_from(blocks).ok());
        let mut args = vec![address(from), address(to)];
        for value in [rows, width, channels, columns, padded, pitch, before] {
            args.push(Arg::U32(u32::try_from(value).ok().filter(|&value| value < 1 << 31)?));
        }
        args.extend([row_stride, pixel_stride].map(Arg::I64));
        let grid = [x.filter(|&x| x < 1 << 31)?, y.filter(|&y| y <= 65_535)?, 1];
        Some(Launch { kernel: find(FOLD)?, grid, args })
    }
}
