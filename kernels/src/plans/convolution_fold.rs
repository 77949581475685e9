//! Taps of weights as channels of images (`cuda/convolution_fold.cu`): where pixels begin at no multiples of 16 bytes, or fill little
//! of a stage's 64 channels.
//!
//! All taps of a window's row are one run of neighbours then, and of a stride as many rows as it has are one: 4 x 4 taps of 3 channels
//! at stride 2 are 2 taps of 32. Padding becomes real. Rows that would be one more than a window has are multiplied by zeros, and what is
//! not finite there would show: a convolution takes rows together only where they are whole; the gradient of the weights leaves such taps out.

use polywarp_core::ops::{Geometry, TensorSpec, Window, pixel_pitch};

use super::super::wgmma::inverse;
use super::reads::{Axis, Images, Taps};
use crate::catalogue::convolution::{FOLD, FOLD_ROWS, FOLD_UNITS, FOLD_VECTOR, UNFOLD, UNFOLD_THREADS};
use crate::{Arg, Launch, Plan, Slot, find};

/// Channels up to which folding is worth its copy.
const FEW_CHANNELS: u64 = 16;
/// Blocks of four rows at most, so that rows are numbered below 2^31.
const MOST_BLOCKS: u32 = 1 << 28;
/// Elements up to which unfolding numbers them in 32 bits.
const MOST_UNFOLDED: u64 = 1 << 30;

/// How pixels are arranged.
#[derive(Clone, Copy, Debug)]
pub(super) struct Fold {
    /// Channels of a row of a pixel, with zeros behind them.
    padded: u64,
    /// Rows of x that a pixel has, and from a pixel to the one below it.
    group: u64,
    step: u64,
    /// Rows of an image; pixels and elements of one.
    rows: u64,
    columns: u64,
    pitch: u64,
    /// Padding before rows that becomes real.
    before: u64,
    /// Taps of the height.
    taps: u64,
    channels: u64,
    windows: [Window; 2],
}

/// Images and weights that were copied.
pub(super) struct Folded {
    pub fold: Fold,
    pub images: Images,
    pub weights: Taps,
    /// Width, height.
    pub axes: [Axis; 2],
    pub plan: Plan,
    /// Elements that are written.
    pub copied: u64,
}

/// Whether folding may pay where it need not be.
pub(super) fn pays(geometry: &Geometry, width: &Window) -> bool {
    geometry.channels <= FEW_CHANNELS && width.taps > 1
}

/// Elements from pixel to pixel, whichever way.
fn pitch_of(spec: &TensorSpec, pixels: u64) -> Option<i64> {
    if pixels == 1 { Some(0) } else { pixel_pitch(spec) }
}

/// What reads folded pixels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reader {
    /// Sums over taps.
    Convolution,
    /// Every tap is a result of its own.
    Gradient,
}

impl Fold {
    /// As few channels as let windows begin at multiples of 16 bytes, and be whole pairs.
    fn of(channels: u64, [height, width]: [Window; 2], reader: Reader) -> Option<Fold> {
        if width.dilation != 1 {
            return None;
        }
        // Dilated rows stay rows.
        let whole = height.taps < height.stride || height.taps.is_multiple_of(height.stride);
        let folds_rows = height.dilation == 1 && height.stride > 1 && (whole || reader == Reader::Gradient);
        let (step, group) = if folds_rows { (height.stride, height.stride.min(height.taps)) } else { (1, 1) };
        let fits = |padded: &u64| {
            (padded * group * width.stride).is_multiple_of(8) && (padded * group * width.taps).is_multiple_of(2)
        };
        let padded = (channels..channels + 8).find(fits)?;
        let columns = (width.output - 1) * width.stride + width.taps;
        let (rows, taps, before) = if folds_rows {
            let taps = height.taps.div_ceil(step);
            (height.output - 1 + taps, taps, height.before)
        } else {
            (height.input, height.taps, 0)
        };
        let pitch = columns.checked_mul(padded * group)?.checked_next_multiple_of(8)?;
        Some(Fold { padded, group, step, rows, columns, pitch, before, taps, channels, windows: [height, width] })
    }

    /// Channels of a run.
    fn run(&self) -> u64 {
        self.windows[1].taps * self.group * self.padded
    }

    /// The launch that copies `count` images of `from`, [rows, width] pixels of `pitch` elements each.
    fn copy(
        &self,
        from: (Slot, u64),
        to: Slot,
        count: u64,
        [height, width]: [u64; 2],
        as_images: &Rows,
        pitch: i64,
    ) -> Option<Launch> {
        let Rows { rows, columns, elements, before } = *as_images;
        let blocks = [
            count.checked_mul(rows)?.div_ceil(u64::from(FOLD_ROWS)),
            elements.div_ceil(u64::from(FOLD_UNITS * FOLD_VECTOR)),
        ];
        let [x, y] = [(blocks[0], MOST_BLOCKS), (blocks[1], 65_535)]
            .map(|(blocks, most)| u32::try_from(blocks).ok().filter(|&blocks| blocks <= most));
        let mut args =
            vec![Arg::Address { slot: from.0, offset_bytes: from.1 }, Arg::Address { slot: to, offset_bytes: 0 }];
        let numbers = [
            count,
            height,
            width,
            self.channels,
            rows,
            columns,
            self.padded,
            self.group,
            self.step,
            elements,
            before[0],
            before[1],
        ];
        for value in numbers {
            args.push(Arg::U32(u32::try_from(value).ok().filter(|&value| value < 1 << 31)?));
        }
        args.extend([rows, self.padded, self.group].map(|divisor| Arg::U32(inverse(divisor))));
        // Eight neighbours of the copy are eight of the source, which begin at multiples of 16 bytes.
        let in_eights = self.channels.is_multiple_of(8) && self.padded == self.channels && pitch % 8 == 0;
        args.push(Arg::U32(u32::from(in_eights && from.1.is_multiple_of(16))));
        let row = pitch.checked_mul(i64::try_from(width).ok()?)?;
        args.extend([row.checked_mul(i64::try_from(height).ok()?)?, row, pitch].map(Arg::I64));
        Some(Launch { kernel: find(FOLD)?, grid: [x?, y?, 1], args })
    }

    /// The launch by which the gradient of folded weights at `from` becomes dense.
    pub fn unfold(&self, from: Slot, to: (Slot, u64), filters: u64) -> Option<Launch> {
        let [height, width] = self.windows;
        let numbers = [filters, self.taps, height.taps, width.taps, self.channels, self.padded, self.group];
        let elements =
            [filters, height.taps, width.taps, self.channels].into_iter().try_fold(1u64, u64::checked_mul)?;
        let address = |slot, offset_bytes| Arg::Address { slot, offset_bytes };
        let mut args = vec![address(from, 0), address(to.0, to.1)];
        args.extend(numbers.map(|value| Arg::U32(value as u32)));
        let blocks = elements.div_ceil(u64::from(UNFOLD_THREADS)) as u32;
        (elements <= MOST_UNFOLDED).then_some(Launch { kernel: find(UNFOLD)?, grid: [blocks, 1, 1], args })
    }
}

/// What is made of images, or of filters.
struct Rows {
    rows: u64,
    /// Pixels of a row.
    columns: u64,
    /// Elements of a row.
    elements: u64,
    /// Of height and width.
    before: [u64; 2],
}

/// x, and weights where there are some, copied.
pub(super) fn folded(
    x: &TensorSpec,
    slot: Slot,
    weights: Option<(&TensorSpec, Slot)>,
    windows: [Window; 2],
    geometry: &Geometry,
) -> Option<Folded> {
    let [height, width] = windows;
    let Geometry { batch, channels, filters, .. } = *geometry;
    let reader = if weights.is_some() { Reader::Convolution } else { Reader::Gradient };
    let fold = Fold::of(channels, windows, reader)?;
    let pitch = pitch_of(x, width.input * height.input * batch)?;
    let (mut plan, run) = (Plan::default(), fold.run());
    let copied = batch.checked_mul(fold.rows)?.checked_mul(fold.pitch)?;
    plan.scratch_bytes.push(copied.checked_mul(2)?);
    let of_x =
        Rows { rows: fold.rows, columns: fold.columns, elements: fold.pitch, before: [fold.before, width.before] };
    let from = (slot, 2 * x.layout.offset());
    plan.launches.push(fold.copy(from, Slot::Scratch(0), batch, [height.input, width.input], &of_x, pitch)?);
    // Filters' rows of taps, each from a multiple of 16 bytes on.
    let elements = run.next_multiple_of(8);
    if let Some((weights, of_weights)) = weights {
        let pitch = pitch_of(weights, geometry.taps() * filters)?;
        plan.scratch_bytes.push([2, filters, fold.taps, elements].into_iter().try_fold(1u64, u64::checked_mul)?);
        let of_filters = Rows { rows: fold.taps, columns: width.taps, elements, before: [0, 0] };
        let from = (of_weights, 2 * weights.layout.offset());
        plan.launches.push(fold.copy(
            from,
            Slot::Scratch(1),
            filters,
            [height.taps, width.taps],
            &of_filters,
            pitch,
        )?);
    }
    let pixel = width.stride * fold.group * fold.padded;
    let images = Images::of_scratch(run, [width.output, fold.rows], batch, [pixel, fold.pitch])?;
    let weights = Taps::of_scratch(run, fold.taps, filters, elements);
    let rows = if fold.step > 1 {
        Axis { first: 0, outputs: height.output, stride: 1, dilation: 1, taps: fold.taps }
    } else {
        Axis::of(&height)
    };
    let axes = [Axis { first: 0, outputs: width.output, stride: 1, dilation: 1, taps: 1 }, rows];
    Some(Folded { fold, images, weights, axes, plan, copied })
}
