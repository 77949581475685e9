//! Pools and their gradients: some pixels at a time, the channels of a pixel side by side.

use bytemuck::Pod;
use half::{bf16, f16};

use crate::cpu::elements::{dense_mut, typed};
use crate::cpu::gemm::Float;
use crate::cpu::gemm::few::Sum;
use crate::cpu::lanes::{narrow_bf16, narrow_f16};
use crate::cpu::parallel::{self, CHUNK};
use crate::cpu::reduce::Widen;
use crate::cpu::scratch::{self, Done};
use crate::ops::convolution::host::{Pixels, of_float};
use crate::ops::convolution::window::{coordinates, number};
use crate::ops::matmul::host::Number;
use crate::ops::{Pool, PoolChosen, PoolFn, PoolGeometry, PoolGradient};
use crate::{DType, TensorSpec};

/// Places within windows, as they are stored.
trait Place: Pod + Send + Sync {
    fn of(tap: u64) -> Self;
    fn tap(self) -> u64;
}

impl Place for u8 {
    fn of(tap: u64) -> u8 {
        tap as u8
    }
    fn tap(self) -> u64 {
        self.into()
    }
}

impl Place for u32 {
    fn of(tap: u64) -> u32 {
        tap as u32
    }
    fn tap(self) -> u64 {
        self.into()
    }
}

/// Image and coordinates of pixel `at` of extents `of`.
fn place(at: usize, of: [u64; 3]) -> (u64, [u64; 3]) {
    let pixels: u64 = of.iter().product();
    (at as u64 / pixels, coordinates(at as u64 % pixels, of))
}

/// Calls `each(tap, input)` with the elements of the window of `output`, row-major; inputs are numbers of pixels.
fn window(geometry: &PoolGeometry, output: [u64; 3], mut each: impl FnMut(u64, u64)) {
    let [taps, inputs] = [geometry.windows.map(|window| window.taps), geometry.windows.map(|window| window.input)];
    for x in 0..taps[0] {
        let Some(at_x) = geometry.source(0, output[0], x) else { continue };
        for y in 0..taps[1] {
            let Some(at_y) = geometry.source(1, output[1], y) else { continue };
            for z in 0..taps[2] {
                let Some(at_z) = geometry.source(2, output[2], z) else { continue };
                each(number([x, y, z], taps), number([at_x, at_y, at_z], inputs));
            }
        }
    }
}

/// Calls `each(tap, output, number)` with the windows that contain `input`, in their order; the number is that of the output's pixel.
fn windows_of(geometry: &PoolGeometry, input: [u64; 3], mut each: impl FnMut(u64, [u64; 3], u64)) {
    let [taps, outputs] = [geometry.windows.map(|window| window.taps), geometry.windows.map(|window| window.output)];
    for x in geometry.targets(0, input[0]) {
        let Some(tap_x) = geometry.tap(0, x, input[0]) else { continue };
        for y in geometry.targets(1, input[1]) {
            let Some(tap_y) = geometry.tap(1, y, input[1]) else { continue };
            for z in geometry.targets(2, input[2]) {
                let Some(tap_z) = geometry.tap(2, z, input[2]) else { continue };
                each(number([tap_x, tap_y, tap_z], taps), [x, y, z], number([x, y, z], outputs));
            }
        }
    }
}

pub(crate) fn pool(op: &Pool, x: &[u8], outputs: &mut [&mut [u8]]) -> Done {
    let [output, index @ ..] = outputs else { return Ok(()) };
    match (op.function, index) {
        (PoolFn::Max, [index]) if op.index.is_some_and(|index| index.dtype == DType::U8) => {
            of_float!(op.output.dtype, largest(op, x, output, dense_places::<u8>(op, index)))
        }
        (PoolFn::Max, [index]) => of_float!(op.output.dtype, largest(op, x, output, dense_places::<u32>(op, index))),
        _ => of_float!(op.output.dtype, average(op, x, output)),
    }
}

fn dense_places<'a, I: Place>(op: &Pool, bytes: &'a mut [u8]) -> &'a mut [I] {
    // Of the output's shape.
    dense_mut(&op.index.unwrap_or(op.output), bytes)
}

fn largest<T>(op: &Pool, x: &[u8], output: &mut [u8], index: &mut [impl Place], _: fn(T::Acc) -> T) -> Done
where
    T: Widen + Pod,
    T::Acc: Number,
{
    let (geometry, channels) = (&op.geometry, op.geometry.channels as usize);
    let output: &mut [T] = dense_mut(&op.output, output);
    if output.is_empty() {
        return Ok(());
    }
    let x = Pixels::<T>::new(&op.x, x);
    let extents = geometry.windows.map(|window| window.output);
    let pixels = CHUNK.div_ceil(channels);
    let mut parts: Vec<_> =
        output.chunks_mut(pixels * channels).zip(index.chunks_mut(pixels * channels)).enumerate().collect();
    parallel::each(&mut parts, |(part, (output, index))| {
        for (at, (best, places)) in output.chunks_exact_mut(channels).zip(index.chunks_exact_mut(channels)).enumerate()
        {
            let (image, place) = place(*part * pixels + at, extents);
            let mut is_first = true;
            window(geometry, place, |tap, pixel| {
                let x = x.channels(image * geometry.pixels()[0] + pixel, 0, channels);
                for ((best, index), &x) in best.iter_mut().zip(places.iter_mut()).zip(x) {
                    let (new, old) = (x.widen(), best.widen());
                    // NaN is no number's equal, not its own either.
                    #[allow(clippy::eq_op)]
                    let wins = is_first || new > old || (new != new && old == old);
                    if wins {
                        (*best, *index) = (x, Place::of(tap));
                    }
                }
                is_first = false;
            });
        }
    });
    Ok(())
}

fn average<T>(op: &Pool, x: &[u8], output: &mut [u8], narrow: fn(T::Acc) -> T) -> Done
where
    T: Widen + Pod,
    T::Acc: Number,
{
    let PoolFn::Average(divisor) = op.function else { return Ok(()) };
    let (geometry, channels) = (&op.geometry, op.geometry.channels as usize);
    let output: &mut [T] = dense_mut(&op.output, output);
    if output.is_empty() {
        return Ok(());
    }
    let x = Pixels::<T>::new(&op.x, x);
    let extents = geometry.windows.map(|window| window.output);
    let pixels = CHUNK.div_ceil(channels);
    parallel::try_chunks(output, pixels * channels, |part, output| {
        let mut sums = scratch::zeroed::<T::Acc>(channels)?;
        for (at, output) in output.chunks_exact_mut(channels).enumerate() {
            let (image, place) = place(part * pixels + at, extents);
            sums.fill(<T::Acc as Float>::ZERO);
            window(geometry, place, |_, pixel| {
                let x = x.channels(image * geometry.pixels()[0] + pixel, 0, channels);
                sums.iter_mut().zip(x).for_each(|(sum, x)| *sum = Sum::plus(*sum, x.widen()));
            });
            let count = <T::Acc as Number>::from_f64(geometry.divisor(divisor, place) as f64);
            output.iter_mut().zip(&sums).for_each(|(y, &sum)| *y = narrow(sum.over(count)));
        }
        Ok(())
    })
}

pub(crate) fn gradient(op: &PoolGradient, inputs: &[&[u8]], output: &mut [u8]) -> Done {
    match op.index {
        Some(index) if index.dtype == DType::U8 => {
            of_float!(op.output.dtype, gathered(op, inputs, Some(places::<u8>(&index, inputs[1])), output))
        }
        Some(index) => of_float!(op.output.dtype, gathered(op, inputs, Some(places::<u32>(&index, inputs[1])), output)),
        None => of_float!(op.output.dtype, gathered(op, inputs, None::<&[u8]>, output)),
    }
}

fn places<'a, I: Place>(index: &TensorSpec, bytes: &'a [u8]) -> &'a [I] {
    let start = index.layout.offset() as usize;
    &typed(bytes)[start..start + index.layout.elements() as usize]
}

fn gathered<T>(
    op: &PoolGradient,
    inputs: &[&[u8]],
    index: Option<&[impl Place]>,
    output: &mut [u8],
    narrow: fn(T::Acc) -> T,
) -> Done
where
    T: Widen + Pod,
    T::Acc: Number,
{
    let (geometry, channels) = (&op.geometry, op.geometry.channels as usize);
    let output: &mut [T] = dense_mut(&op.output, output);
    if output.is_empty() {
        return Ok(());
    }
    let dy = Pixels::<T>::new(&op.gradient, inputs[0]);
    let extents = geometry.windows.map(|window| window.input);
    let pixels = CHUNK.div_ceil(channels);
    parallel::try_chunks(output, pixels * channels, |part, output| {
        let mut sums = scratch::zeroed::<T::Acc>(channels)?;
        for (at, output) in output.chunks_exact_mut(channels).enumerate() {
            let (image, place) = place(part * pixels + at, extents);
            sums.fill(<T::Acc as Float>::ZERO);
            windows_of(geometry, place, |tap, at, number| {
                let pixel = image * geometry.pixels()[1] + number;
                let dy = dy.channels(pixel, 0, channels);
                match (op.function, index) {
                    (PoolFn::Max, Some(index)) => {
                        let index = &index[pixel as usize * channels..][..channels];
                        for ((sum, dy), index) in sums.iter_mut().zip(dy).zip(index) {
                            if index.tap() == tap {
                                *sum = Sum::plus(*sum, dy.widen());
                            }
                        }
                    }
                    (PoolFn::Average(divisor), _) => {
                        let count = <T::Acc as Number>::from_f64(geometry.divisor(divisor, at) as f64);
                        sums.iter_mut().zip(dy).for_each(|(sum, dy)| *sum = Sum::plus(*sum, dy.widen().over(count)));
                    }
                    // Checked when the op was made.
                    (PoolFn::Max, None) => {}
                }
            });
            output.iter_mut().zip(&sums).for_each(|(y, &sum)| *y = narrow(sum));
        }
        Ok(())
    })
}

pub(crate) fn chosen(op: &PoolChosen, inputs: &[&[u8]], output: &mut [u8]) -> Done {
    if op.index.dtype == DType::U8 {
        of_float!(op.output.dtype, taken(op, inputs[0], places::<u8>(&op.index, inputs[1]), output))
    } else {
        of_float!(op.output.dtype, taken(op, inputs[0], places::<u32>(&op.index, inputs[1]), output))
    }
}

fn taken<T>(op: &PoolChosen, x: &[u8], index: &[impl Place], output: &mut [u8], narrow: fn(T::Acc) -> T) -> Done
where
    T: Widen + Pod,
    T::Acc: Number,
{
    let (geometry, channels) = (&op.geometry, op.geometry.channels as usize);
    let output: &mut [T] = dense_mut(&op.output, output);
    if output.is_empty() {
        return Ok(());
    }
    let x = Pixels::<T>::new(&op.x, x);
    let [taps, inputs, outputs] = [
        geometry.windows.map(|window| window.taps),
        geometry.windows.map(|window| window.input),
        geometry.windows.map(|window| window.output),
    ];
    let pixels = CHUNK.div_ceil(channels);
    parallel::chunks(output, pixels * channels, |part, output| {
        for (at, output) in output.chunks_exact_mut(channels).enumerate() {
            let at = part * pixels + at;
            let (image, place) = place(at, outputs);
            for (channel, y) in output.iter_mut().enumerate() {
                let tap = coordinates(index[at * channels + channel].tap(), taps);
                let along = |axis: usize| geometry.source(axis, place[axis], tap[axis]);
                *y = match (along(0), along(1), along(2)) {
                    (Some(at_x), Some(at_y), Some(at_z)) => {
                        let pixel = image * geometry.pixels()[0] + number([at_x, at_y, at_z], inputs);
                        x.channels(pixel, channel, 1)[0]
                    }
                    _ => narrow(<T::Acc as Float>::ZERO),
                };
            }
        }
    });
    Ok(())
}
