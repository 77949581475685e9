//! The gradient of a convolution's weights: products of the gradient's and the gathered input's pixels, some thousand pixels at a time,
//! added up in order.

use bytemuck::Pod;
use half::{bf16, f16};

use super::{Direction, Gather, Pixels, as_computed, as_computed_mut, of_float};
use crate::DType;
use crate::cpu::elements::dense_mut;
use crate::cpu::gemm::few::Sum;
use crate::cpu::gemm::{self, Mat, MatMut};
use crate::cpu::lanes::{narrow_bf16, narrow_f16};
use crate::cpu::parallel;
use crate::cpu::reduce::Widen;
use crate::cpu::scratch::{self, Done};
use crate::ops::ConvolutionWeights;
use crate::ops::convolution::window::coordinates;
use crate::ops::matmul::host::Number;

/// Elements of gathered pixels at a time.
const GATHERED: usize = 1 << 21;
/// Pixels that are added up by one task where groups are too small for products, and how many such parts there are at most.
const PART: usize = 1024;
const PARTS: usize = 64;

pub(crate) fn weights(op: &ConvolutionWeights, inputs: &[&[u8]], output: &mut [u8]) -> Done {
    of_float!(op.output.dtype, weights_of(op, inputs, output))
}

fn weights_of<T>(op: &ConvolutionWeights, inputs: &[&[u8]], output: &mut [u8], narrow: fn(T::Acc) -> T) -> Done
where
    T: Widen + Pod,
    T::Acc: Number,
{
    let gather = Gather::new(op.geometry, Direction::Forward);
    let extents = op.geometry.windows.map(|window| window.taps);
    let taps = (0..op.geometry.taps()).map(|tap| coordinates(tap, extents)).collect();
    let sources = Sources {
        gradient: Pixels::<T>::new(&op.gradient, inputs[0]),
        x: Pixels::<T>::new(&op.x, inputs[1]),
        pixels: (op.geometry.batch * op.geometry.output_pixels()) as usize,
        gather,
        taps,
    };
    let output: &mut [T] = dense_mut(&op.output, output);
    if output.is_empty() {
        return Ok(());
    }
    let computed = |sums: &mut [T::Acc]| {
        if sources.gather.is_direct() { sources.directly(sums) } else { sources.by_products(sums) }
    };
    if let Some(sums) = as_computed_mut(output) {
        return computed(sums);
    }
    let mut sums = scratch::zeroed::<T::Acc>(output.len())?;
    computed(&mut sums)?;
    parallel::map1(narrow, &sums, output);
    Ok(())
}

/// Both operands.
struct Sources<'a, T> {
    gather: Gather,
    taps: Vec<[u64; 3]>,
    gradient: Pixels<'a, T>,
    x: Pixels<'a, T>,
    /// Pixels of the gradient.
    pixels: usize,
}

impl<T> Sources<'_, T>
where
    T: Widen + Pod,
    T::Acc: Number,
{
    /// The pixel of x under `tap` of the window of pixel `at`.
    fn under(&self, at: usize, tap: [u64; 3]) -> Option<u64> {
        let image = self.gather.to.iter().product::<u64>();
        let place = coordinates(at as u64 % image, self.gather.to);
        Some(at as u64 / image * self.gather.from.iter().product::<u64>() + self.gather.source(place, tap)?)
    }

    /// Group by group, which are rows of their own. Both write over what `sums` hold.
    fn by_products(&self, sums: &mut [T::Acc]) -> Done {
        let Gather { read, written, .. } = self.gather;
        let columns = self.taps.len() * read;
        let block = (GATHERED / columns).clamp(64, 4096);
        parallel::try_chunks(sums, written * columns, |group, sums| {
            let mut gathered = scratch::zeroed::<T::Acc>(block.min(self.pixels) * columns)?;
            // What is stored as it is computed is read where it lies.
            let given = as_computed::<T, T::Acc>(self.gradient.storage);
            let own = if given.is_some() { 0 } else { block.min(self.pixels) * written };
            let mut gradient = scratch::zeroed::<T::Acc>(own)?;
            // The first block's product is the sum so far.
            let mut product = scratch::zeroed::<T::Acc>(if block < self.pixels { sums.len() } else { 0 })?;
            let rows = parallel::CHUNK.div_ceil(columns);
            let result = gemm::Layout::row_major(written, columns);
            for first in (0..self.pixels).step_by(block) {
                let count = block.min(self.pixels - first);
                let gathered = &mut gathered[..count * columns];
                parallel::chunks(gathered, rows * columns, |chunk, to| {
                    for (row, to) in to.chunks_exact_mut(columns).enumerate() {
                        self.gather_row(first + rows * chunk + row, group * read, to);
                    }
                });
                let turned = match given {
                    Some(_) => gemm::Layout {
                        offset: (self.gradient.offset + self.gradient.pitch * first as i64) as usize + group * written,
                        rows: count,
                        cols: written,
                        row_stride: self.gradient.pitch as isize,
                        col_stride: 1,
                    },
                    None => {
                        parallel::chunks(&mut gradient[..count * written], written, |row, to| {
                            let from = self.gradient.channels((first + row) as u64, group * written, written);
                            to.iter_mut().zip(from).for_each(|(to, x)| *to = x.widen());
                        });
                        gemm::Layout::row_major(count, written)
                    }
                };
                let a = Mat::new(given.unwrap_or(&gradient), turned.transposed());
                let b = Mat::new(gathered, gemm::Layout::row_major(count, columns));
                if first == 0 {
                    gemm::gemm(a, b, MatMut::new(&mut *sums, result))?;
                    continue;
                }
                gemm::gemm(a, b, MatMut::new(&mut product, result))?;
                parallel::pairs((&mut *sums, parallel::CHUNK), (&product, parallel::CHUNK), |sums, product| {
                    sums.iter_mut().zip(product).for_each(|(sum, &x)| *sum = sum.plus(x));
                });
            }
            // Of no pixels nothing was multiplied.
            if self.pixels == 0 {
                sums.fill(<T::Acc as gemm::Float>::ZERO);
            }
            Ok(())
        })
    }

    /// The inputs under all taps of the window of pixel `at`.
    fn gather_row(&self, at: usize, first: usize, to: &mut [T::Acc]) {
        let read = self.gather.read;
        for (&tap, run) in self.taps.iter().zip(to.chunks_exact_mut(read)) {
            match self.under(at, tap) {
                Some(pixel) => {
                    let channels = self.x.channels(pixel, first, read);
                    run.iter_mut().zip(channels).for_each(|(to, x)| *to = x.widen());
                }
                None => run.fill(<T::Acc as gemm::Float>::ZERO),
            }
        }
    }

    /// Parts of the pixels side by side, each into sums [taps, groups, written, read]; then all parts in order.
    fn directly(&self, sums: &mut [T::Acc]) -> Done {
        let Gather { groups, read, written, .. } = self.gather;
        let (taps, width) = (self.taps.len(), groups * written * read);
        let part = PART.max(self.pixels.div_ceil(PARTS));
        let mut parts = scratch::zeroed::<T::Acc>(self.pixels.div_ceil(part) * taps * width)?;
        parallel::chunks(&mut parts, taps * width, |number, sums| {
            for at in number * part..self.pixels.min((number + 1) * part) {
                let gradient = self.gradient.channels(at as u64, 0, groups * written);
                for (&tap, sums) in self.taps.iter().zip(sums.chunks_exact_mut(width)) {
                    let Some(pixel) = self.under(at, tap) else { continue };
                    let x = self.x.channels(pixel, 0, groups * read);
                    if read == 1 && written == 1 {
                        let factors = gradient.iter().zip(x);
                        sums.iter_mut()
                            .zip(factors)
                            .for_each(|(sum, (g, x))| *sum = sum.plus(gemm::Float::times(g.widen(), x.widen())));
                        continue;
                    }
                    let of_groups = gradient.chunks_exact(written).zip(x.chunks_exact(read));
                    for (sums, (gradient, x)) in sums.chunks_exact_mut(written * read).zip(of_groups) {
                        for (g, sums) in gradient.iter().zip(sums.chunks_exact_mut(read)) {
                            let g = g.widen();
                            sums.iter_mut()
                                .zip(x)
                                .for_each(|(sum, x)| *sum = sum.plus(gemm::Float::times(g, x.widen())));
                        }
                    }
                }
            }
        });
        sums.fill(<T::Acc as gemm::Float>::ZERO);
        for part in parts.chunks_exact(taps * width) {
            for (filter, sums) in sums.chunks_exact_mut(taps * read).enumerate() {
                for (tap, sums) in sums.chunks_exact_mut(read).enumerate() {
                    let from = &part[tap * width + filter * read..][..read];
                    sums.iter_mut().zip(from).for_each(|(sum, &x)| *sum = sum.plus(x));
                }
            }
        }
        Ok(())
    }
}
