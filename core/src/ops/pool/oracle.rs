//! Pools and their gradients in float64, window by window.

use super::super::convolution::window::{coordinates, number};
use super::{Pool, PoolChosen, PoolFn, PoolGeometry, PoolGradient};
use crate::oracle::{Approx, Expected, HostTensor, Span};
use crate::{BinaryFn, Scalar};

/// A division's error in WGSL, 2.5 units in the last place, and its rounding, in units of roundoff.
const OF_DIVISION: f64 = 6.0;

/// Calls `each(tap, input)` with the elements of the window of `output`, row-major; inputs are numbers of pixels.
fn window(geometry: &PoolGeometry, output: [u64; 3], mut each: impl FnMut(u64, u64)) {
    let (taps, inputs) = (geometry.windows.map(|window| window.taps), geometry.windows.map(|window| window.input));
    for tap in 0..geometry.taps() {
        let at = coordinates(tap, taps);
        let along = |axis: usize| geometry.source(axis, output[axis], at[axis]);
        if let (Some(x), Some(y), Some(z)) = (along(0), along(1), along(2)) {
            each(tap, number([x, y, z], inputs));
        }
    }
}

/// Calls `each(image, output, channel)` with every element of y.
fn outputs(geometry: &PoolGeometry, mut each: impl FnMut(u64, [u64; 3], u64)) {
    let extents = geometry.windows.map(|window| window.output);
    for image in 0..geometry.batch {
        for output in 0..geometry.pixels()[1] {
            (0..geometry.channels).for_each(|channel| each(image, coordinates(output, extents), channel));
        }
    }
}

/// A maximum is exact; an average is a sum of exact terms and a division.
pub(super) fn pool(op: &Pool, x: &HostTensor) -> Vec<Vec<Expected>> {
    let (geometry, dtype) = (&op.geometry, op.output.dtype);
    let (mut values, mut places) = (Vec::new(), Vec::new());
    outputs(geometry, |image, output, channel| {
        let at = |pixel: u64| x.values[((image * geometry.pixels()[0] + pixel) * geometry.channels + channel) as usize];
        match op.function {
            PoolFn::Max => {
                let mut best: Option<(Scalar, u64)> = None;
                window(geometry, output, |tap, pixel| {
                    let (new, old) = (at(pixel).as_f64(), best.map(|(x, _)| x.as_f64()));
                    let wins = old.is_none_or(|old| new > old || (new.is_nan() && !old.is_nan()));
                    best = if wins { Some((at(pixel), tap)) } else { best };
                });
                // No window is empty.
                let (value, tap) = best.unwrap_or((Scalar::F(f64::NAN), 0));
                values.push(Expected::exact(value));
                places.push(Expected::exact(Scalar::I(tap as i64)));
            }
            PoolFn::Average(divisor) => {
                let mut terms = Vec::new();
                window(geometry, output, |_, pixel| terms.push(at(pixel).as_f64()));
                let sum = Span::from(Approx::sum(terms.into_iter(), dtype.compute(), 0.0));
                let divisor = Span::exact(Scalar::F(geometry.divisor(divisor, output) as f64));
                values.push(sum.binary(BinaryFn::Div, divisor, dtype).round_to(dtype).into_expected(dtype));
            }
        }
    });
    if op.index.is_some() { vec![values, places] } else { vec![values] }
}

/// Each window gives to its elements; sums of no order.
pub(super) fn gradient(op: &PoolGradient, before: &[HostTensor]) -> Vec<Expected> {
    let (geometry, dtype) = (&op.geometry, op.output.dtype);
    let mut terms = vec![Vec::new(); op.output.layout.elements() as usize];
    let mut next = 0;
    outputs(geometry, |image, output, channel| {
        let dy = before[0].values[next].as_f64();
        let chosen = before.get(1).map(|index| index.values[next].as_i64() as u64);
        next += 1;
        let share = match op.function {
            PoolFn::Max => dy,
            PoolFn::Average(divisor) => dy / geometry.divisor(divisor, output) as f64,
        };
        window(geometry, output, |tap, pixel| {
            if chosen.is_none_or(|chosen| chosen == tap) {
                terms[((image * geometry.pixels()[0] + pixel) * geometry.channels + channel) as usize].push(share);
            }
        });
    });
    let compute = dtype.compute();
    let roundoff = if op.function == PoolFn::Max { 0.0 } else { OF_DIVISION * compute.unit_roundoff() };
    let sum = |terms: Vec<f64>| {
        let sum = Span::from(Approx::sum(terms.into_iter(), compute, roundoff));
        sum.round_to(dtype).into_expected(dtype)
    };
    terms.into_iter().map(sum).collect()
}

/// Moved as they are.
pub(super) fn chosen(op: &PoolChosen, before: &[HostTensor]) -> Vec<Expected> {
    let geometry = &op.geometry;
    let mut values = Vec::new();
    outputs(geometry, |image, output, channel| {
        let wanted = before[1].values[values.len()].as_i64() as u64;
        let mut value = Scalar::F(0.0);
        window(geometry, output, |tap, pixel| {
            if tap == wanted {
                value =
                    before[0].values[((image * geometry.pixels()[0] + pixel) * geometry.channels + channel) as usize];
            }
        });
        values.push(Expected::exact(value));
    });
    values
}
