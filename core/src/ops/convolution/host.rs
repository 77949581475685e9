//! Convolutions and the gradients of their inputs: some pixels at a time are gathered, tap by tap, into the rows of a matrix, which the
//! blocked product multiplies with the weights.
//!
//! Both gather: an output the inputs under its taps, an input the outputs whose taps lie on it. With a stride an input meets some taps
//! alone, by its remainder: pixels of one remainder make a [`Phase`], whose matrix has columns of those taps and no others. Groups of
//! few channels (depthwise convolutions) are added up directly. Pixels of a block do not depend on the number of threads. Next:
//! `convolution/weights.rs`.

mod weights;

use std::any::TypeId;

use bytemuck::Pod;
use half::{bf16, f16};

pub(crate) use weights::weights;

use crate::cpu::elements::{dense_mut, typed};
use crate::cpu::gemm::{self, Mat, MatMut};
use crate::cpu::lanes::{narrow_bf16, narrow_f16};
use crate::cpu::parallel;
use crate::cpu::reduce::Widen;
use crate::cpu::scratch::{self, Done, Short};
use crate::cpu::view::dense;
use crate::ops::convolution::geometry::pixel_pitch;
use crate::ops::convolution::window::{coordinates, number};
use crate::ops::matmul::host::{self as matmul, Number};
use crate::ops::{Convolution, ConvolutionInput, Geometry};
use crate::{DType, TensorSpec, UnaryFn};

/// Elements of gathered pixels at a time: half of a core's second cache in f32.
const GATHERED: usize = 1 << 17;
/// Pixels up to which all are gathered before one product, whose threads share it out: with few of them, each block would pack all weights
/// for a few rows.
const WHOLE: usize = 1024;
const MOST_WHOLE: usize = 1 << 21;
/// Products of a pixel within a group from which the blocked product is worth its packing.
const WORTH_A_PRODUCT: usize = 16;

/// Calls `$f::<T>(..., narrow)` with the type that stores `$dtype`.
macro_rules! of_float {
    ($dtype:expr, $f:ident($($argument:expr),*)) => {
        match $dtype {
            DType::F16 => $f::<f16>($($argument,)* narrow_f16),
            DType::BF16 => $f::<bf16>($($argument,)* narrow_bf16),
            DType::F64 => $f::<f64>($($argument,)* |x| x),
            _ => $f::<f32>($($argument,)* |x| x),
        }
    };
}
pub(crate) use of_float;

/// Pixels of channels within a buffer.
#[derive(Clone, Copy)]
pub(crate) struct Pixels<'a, T> {
    storage: &'a [T],
    offset: i64,
    pitch: i64,
}

impl<'a, T: Pod> Pixels<'a, T> {
    pub(crate) fn new(spec: &TensorSpec, bytes: &'a [u8]) -> Self {
        // Checked when the op was made.
        Pixels { storage: typed(bytes), offset: spec.layout.offset() as i64, pitch: pixel_pitch(spec).unwrap_or(0) }
    }

    /// Channels of a pixel.
    pub(crate) fn channels(&self, pixel: u64, first: usize, len: usize) -> &'a [T] {
        let start = (self.offset + self.pitch * pixel as i64) as usize + first;
        &self.storage[start..start + len]
    }
}

/// `x` as it is, where it is stored in the type that it is computed in.
fn as_computed<T: Pod, A: Pod>(x: &[T]) -> Option<&[A]> {
    (TypeId::of::<T>() == TypeId::of::<A>()).then(|| bytemuck::cast_slice(x))
}

/// The same to write to.
fn as_computed_mut<T: Pod, A: Pod>(x: &mut [T]) -> Option<&mut [A]> {
    (TypeId::of::<T>() == TypeId::of::<A>()).then(|| bytemuck::cast_slice_mut(x))
}

/// Which way windows are gone through.
#[derive(Clone, Copy, PartialEq)]
enum Direction {
    /// A row is an output, its columns inputs.
    Forward,
    /// A row is an input, its columns outputs.
    Input,
}

/// What is gathered, from where, into what.
struct Gather {
    geometry: Geometry,
    direction: Direction,
    /// Extents of the pixels that are read, and of those that are written.
    from: [u64; 3],
    to: [u64; 3],
    groups: usize,
    /// Channels of a group that are read, and those that are written.
    read: usize,
    written: usize,
}

impl Gather {
    fn new(geometry: Geometry, direction: Direction) -> Gather {
        let [inputs, outputs] =
            [geometry.windows.map(|window| window.input), geometry.windows.map(|window| window.output)];
        let [channels, filters] = [geometry.group_channels() as usize, geometry.group_filters() as usize];
        let groups = geometry.groups as usize;
        let (from, to, read, written) = match direction {
            Direction::Forward => (inputs, outputs, channels, filters),
            Direction::Input => (outputs, inputs, filters, channels),
        };
        Gather { geometry, direction, from, to, groups, read, written }
    }

    /// Whether groups are too small for products.
    fn is_direct(&self) -> bool {
        self.groups > 1 && self.read * self.written < WORTH_A_PRODUCT
    }

    /// Remainders along each axis that tell pixels apart.
    fn remainders(&self) -> [u64; 3] {
        match self.direction {
            Direction::Forward => [1; 3],
            Direction::Input => self.geometry.windows.map(|window| window.stride),
        }
    }

    /// The phase of a pixel.
    fn phase(&self, pixel: [u64; 3]) -> usize {
        let of = self.remainders();
        let at = [0, 1, 2].map(|axis| (pixel[axis] + self.geometry.windows[axis].before) % of[axis]);
        number(at, of) as usize
    }

    /// The pixel that is read for the pixel `at` and `tap`.
    fn source(&self, at: [u64; 3], tap: [u64; 3]) -> Option<u64> {
        let mut found = [0; 3];
        for (axis, window) in self.geometry.windows.iter().enumerate() {
            found[axis] = match self.direction {
                Direction::Forward => window.source(at[axis], tap[axis])?,
                Direction::Input => window.target(at[axis], tap[axis])?,
            };
        }
        Some(number(found, self.from))
    }
}

/// Pixels that meet the same taps.
struct Phase<'a, A> {
    taps: Vec<[u64; 3]>,
    weights: Weights<'a, A>,
}

/// The weights of a phase's taps.
enum Weights<'a, A> {
    /// Of each group [taps * read, written], or where that is direct [taps, groups, read, written].
    Copied(Vec<A>),
    /// Of each group [written, taps * read], as they lie from an element on.
    Given(&'a [A], usize),
}

impl<A> Weights<'_, A> {
    /// Those of a group, [depth, written].
    fn of_group(&self, group: usize, depth: usize, written: usize) -> Mat<'_, A> {
        match self {
            Weights::Copied(weights) => {
                let offset = group * depth * written;
                Mat::new(weights, gemm::Layout { offset, ..gemm::Layout::row_major(depth, written) })
            }
            Weights::Given(weights, first) => {
                let offset = first + group * depth * written;
                let lines = gemm::Layout { offset, ..gemm::Layout::row_major(written, depth) };
                Mat::new(weights, lines.transposed())
            }
        }
    }
}

fn phases<'a, T>(gather: &Gather, spec: &TensorSpec, bytes: &'a [u8]) -> Result<Vec<Phase<'a, T::Acc>>, Short>
where
    T: Widen + Pod,
    T::Acc: Number,
{
    let Gather { geometry, direction, groups, read, written, .. } = gather;
    let of = gather.remainders();
    let extents = geometry.windows.map(|window| window.taps);
    let all = (0..geometry.taps()).map(|tap| coordinates(tap, extents));
    let mut phases: Vec<Phase<'a, T::Acc>> = Vec::new();
    let none = || Phase { taps: Vec::new(), weights: Weights::Copied(Vec::new()) };
    phases.resize_with(of.iter().product::<u64>() as usize, none);
    for tap in all {
        let at = [0, 1, 2].map(|axis| tap[axis] * geometry.windows[axis].dilation % of[axis]);
        phases[number(at, of) as usize].taps.push(tap);
    }
    let filters = Pixels::<T>::new(spec, bytes);
    let taps = geometry.taps();
    if *direction == Direction::Forward
        && !gather.is_direct()
        && filters.pitch == *read as i64
        && let Some(weights) = as_computed(filters.storage)
    {
        phases[0].weights = Weights::Given(weights, filters.offset as usize);
        return Ok(phases);
    }
    for phase in &mut phases {
        let count = phase.taps.len();
        let mut weights = scratch::zeroed(count * groups * read * written)?;
        parallel::chunks(&mut weights, (read * written).max(1), |number_of_block, block| {
            let (group, at) = match gather.is_direct() {
                true => (number_of_block % groups, number_of_block / groups),
                false => (number_of_block / count, number_of_block % count),
            };
            let tap = number(phase.taps[at], extents);
            let of_filter = |filter: usize, channels| {
                filters.channels((group as u64 * geometry.group_filters() + filter as u64) * taps + tap, 0, channels)
            };
            match direction {
                Direction::Forward => {
                    for filter in 0..*written {
                        for (channel, w) in of_filter(filter, *read).iter().enumerate() {
                            block[channel * written + filter] = w.widen();
                        }
                    }
                }
                Direction::Input => {
                    for (filter, row) in block.chunks_exact_mut((*written).max(1)).enumerate() {
                        row.iter_mut().zip(of_filter(filter, *written)).for_each(|(to, w)| *to = w.widen());
                    }
                }
            }
        });
        phase.weights = Weights::Copied(weights);
    }
    Ok(phases)
}

/// What is added at the end, widened.
struct Ending<'a, T, A> {
    residual: Option<Pixels<'a, T>>,
    bias: Option<Vec<A>>,
    activation: Option<UnaryFn>,
}

pub(crate) fn forward(op: &Convolution, inputs: &[&[u8]], output: &mut [u8]) -> Done {
    of_float!(op.output.dtype, forward_of(op, inputs, output))
}

fn forward_of<T>(op: &Convolution, inputs: &[&[u8]], output: &mut [u8], narrow: fn(T::Acc) -> T) -> Done
where
    T: Widen + Pod,
    T::Acc: Number,
{
    let mut others = inputs[2..].iter();
    let residual = op.residual.and_then(|spec| Some(Pixels::new(&spec, others.next()?)));
    let bias = match op.bias.zip(others.next()) {
        Some((spec, bytes)) => Some(dense(&spec.layout, typed::<T>(bytes))?.iter().map(|x| x.widen()).collect()),
        None => None,
    };
    let ending = Ending { residual, bias, activation: op.activation };
    let gather = Gather::new(op.geometry, Direction::Forward);
    let phases = phases::<T>(&gather, &op.weights, inputs[1])?;
    rows(&gather, &phases, Pixels::new(&op.x, inputs[0]), &ending, dense_mut(&op.output, output), narrow)
}

pub(crate) fn input(op: &ConvolutionInput, inputs: &[&[u8]], output: &mut [u8]) -> Done {
    of_float!(op.output.dtype, input_of(op, inputs, output))
}

fn input_of<T>(op: &ConvolutionInput, inputs: &[&[u8]], output: &mut [u8], narrow: fn(T::Acc) -> T) -> Done
where
    T: Widen + Pod,
    T::Acc: Number,
{
    let ending = Ending { residual: None, bias: None, activation: None };
    let gather = Gather::new(op.geometry, Direction::Input);
    let phases = phases::<T>(&gather, &op.weights, inputs[1])?;
    rows(&gather, &phases, Pixels::new(&op.gradient, inputs[0]), &ending, dense_mut(&op.output, output), narrow)
}

/// All rows of the output, a block of them at a time.
fn rows<T>(
    gather: &Gather,
    phases: &[Phase<'_, T::Acc>],
    source: Pixels<'_, T>,
    ending: &Ending<'_, T, T::Acc>,
    output: &mut [T],
    narrow: fn(T::Acc) -> T,
) -> Done
where
    T: Widen + Pod,
    T::Acc: Number,
{
    let width = gather.groups * gather.written;
    if output.is_empty() {
        return Ok(());
    }
    let columns = phases.iter().map(|phase| phase.taps.len()).max().unwrap_or(0) * gather.read;
    let all = output.len() / width;
    let is_whole = phases.len() == 1 && !gather.is_direct() && all <= WHOLE.min(MOST_WHOLE / columns.max(1));
    // Enough pixels of each phase for a product, and few enough for the caches.
    let part = (GATHERED / columns.max(1)).clamp(32, 256) * phases.len().min(16);
    let pixels = if is_whole { all } else { part };
    parallel::try_chunks(output, pixels * width, |i, output| {
        let (first, count) = (i * pixels, output.len() / width);
        let mut sums = scratch::zeroed::<T::Acc>(output.len())?;
        let places: Vec<(u64, [u64; 3])> = (first..first + count)
            .map(|pixel| {
                let image = gather.to.iter().product::<u64>();
                (pixel as u64 / image, coordinates(pixel as u64 % image, gather.to))
            })
            .collect();
        let mut members = vec![Vec::new(); phases.len()];
        for (row, (_, at)) in places.iter().enumerate() {
            members[gather.phase(*at)].push(row);
        }
        for (phase, rows) in
            phases.iter().zip(&members).filter(|(phase, rows)| !rows.is_empty() && !phase.taps.is_empty())
        {
            let block = Block { gather, phase, source, places: &places, rows };
            if gather.is_direct() { block.directly(&mut sums) } else { block.by_products(&mut sums)? }
        }
        end(ending, first, width, &mut sums);
        output.iter_mut().zip(sums).for_each(|(y, sum)| *y = narrow(sum));
        Ok(())
    })
}

/// Pixels of one phase within a block.
struct Block<'a, T: Widen> {
    gather: &'a Gather,
    phase: &'a Phase<'a, T::Acc>,
    source: Pixels<'a, T>,
    /// Image and coordinates of all pixels of the block.
    places: &'a [(u64, [u64; 3])],
    /// Those of the phase.
    rows: &'a [usize],
}

impl<T> Block<'_, T>
where
    T: Widen + Pod,
    T::Acc: Number,
{
    /// The pixel that is read for `tap` of `row`.
    fn source(&self, row: usize, tap: [u64; 3]) -> Option<u64> {
        let (image, at) = self.places[row];
        Some(image * self.gather.from.iter().product::<u64>() + self.gather.source(at, tap)?)
    }

    fn by_products(&self, sums: &mut [T::Acc]) -> Done {
        let Gather { groups, read, written, .. } = *self.gather;
        let (taps, count, width) = (self.phase.taps.len(), self.rows.len(), groups * written);
        let (depth, is_all) = (taps * read, count == self.places.len());
        let zero = <T::Acc as gemm::Float>::ZERO;
        let mut gathered = scratch::zeroed::<T::Acc>(count * depth)?;
        let mut own = if is_all { Vec::new() } else { scratch::zeroed::<T::Acc>(count * written)? };
        for group in 0..groups {
            // By one thread where others have blocks of their own.
            let rows = parallel::CHUNK.div_ceil(depth.max(1));
            parallel::chunks(&mut gathered, (rows * depth).max(1), |chunk, gathered| {
                let runs = gathered.chunks_exact_mut(read.max(1));
                let all = self.rows[chunk * rows..].iter();
                for (run, (&row, &tap)) in
                    runs.zip(all.flat_map(|row| self.phase.taps.iter().map(move |tap| (row, tap))))
                {
                    match self.source(row, tap) {
                        Some(pixel) => {
                            let channels = self.source.channels(pixel, group * read, read);
                            run.iter_mut().zip(channels).for_each(|(to, x)| *to = x.widen());
                        }
                        None => run.fill(zero),
                    }
                }
            });
            let a = Mat::new(&gathered, gemm::Layout::row_major(count, depth));
            let b = self.phase.weights.of_group(group, depth, written);
            if is_all {
                let rows = gemm::Layout {
                    offset: group * written,
                    row_stride: width as isize,
                    ..gemm::Layout::row_major(count, written)
                };
                gemm::gemm(a, b, MatMut::new(sums, rows))?;
                continue;
            }
            gemm::gemm(a, b, MatMut::new(&mut own, gemm::Layout::row_major(count, written)))?;
            for (&row, own) in self.rows.iter().zip(own.chunks_exact(written)) {
                sums[row * width + group * written..][..written].copy_from_slice(own);
            }
        }
        Ok(())
    }

    fn directly(&self, sums: &mut [T::Acc]) {
        let Gather { groups, read, written, .. } = *self.gather;
        let width = groups * written;
        for &row in self.rows {
            let sums = &mut sums[row * width..][..width];
            let Weights::Copied(weights) = &self.phase.weights else { continue };
            for (&tap, weights) in self.phase.taps.iter().zip(weights.chunks_exact(groups * read * written)) {
                let Some(pixel) = self.source(row, tap) else { continue };
                let x = self.source.channels(pixel, 0, groups * read);
                if read == 1 && written == 1 {
                    let factors = x.iter().zip(weights);
                    sums.iter_mut()
                        .zip(factors)
                        .for_each(|(sum, (x, &w))| *sum = gemm::few::Sum::plus(*sum, gemm::Float::times(x.widen(), w)));
                    continue;
                }
                let of_groups = x.chunks_exact(read).zip(weights.chunks_exact(read * written));
                for (sums, (x, weights)) in sums.chunks_exact_mut(written).zip(of_groups) {
                    for (x, weights) in x.iter().zip(weights.chunks_exact(written)) {
                        let x = x.widen();
                        sums.iter_mut()
                            .zip(weights)
                            .for_each(|(sum, &w)| *sum = gemm::few::Sum::plus(*sum, gemm::Float::times(x, w)));
                    }
                }
            }
        }
    }
}

/// Residual, bias and activation of rows from `first` on.
fn end<T>(ending: &Ending<'_, T, T::Acc>, first: usize, width: usize, sums: &mut [T::Acc])
where
    T: Widen + Pod,
    T::Acc: Number,
{
    if let Some(residual) = ending.residual {
        for (row, sums) in sums.chunks_exact_mut(width).enumerate() {
            let residual = residual.channels((first + row) as u64, 0, width);
            sums.iter_mut().zip(residual).for_each(|(x, c)| *x = gemm::few::Sum::plus(*x, c.widen()));
        }
    }
    matmul::epilogue(ending.bias.as_deref(), ending.activation, width, sums);
}
