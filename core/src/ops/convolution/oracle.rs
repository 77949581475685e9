//! The three sums of a convolution in float64, term by term.
//!
//! What lies in the padding is not there. Kernels that gather it as zeros make NaN of a zero times an infinity or NaN, so that
//! NaN is right as well where such a factor meets padding.

use super::geometry::Geometry;
use super::window::{coordinates, number};
use crate::oracle::{Approx, HostTensor};
use crate::{BinaryFn, DType, Scalar};

/// A sum of products, and whether NaN may stand for it.
pub(in crate::ops) type Sum = (Approx, bool);

/// One sum under construction.
#[derive(Default)]
struct Terms {
    products: Vec<f64>,
    may_be_nan: bool,
}

impl Terms {
    /// A product with `other`, or with padding.
    fn push(&mut self, x: Option<f64>, other: f64) {
        match x {
            Some(x) => self.products.push(x * other),
            None => self.may_be_nan |= !other.is_finite(),
        }
    }

    /// The sum, of `dtype`. Bound (Higham, section 3.5): that of [`Approx::sum`], each product rounded once more where there is no fused
    /// multiply-add, and products below the normal range, which may vanish.
    fn sum(self, dtype: DType) -> Sum {
        let compute = dtype.compute();
        let count = self.products.len() as f64;
        let sum = Approx::sum(self.products.into_iter(), compute, compute.unit_roundoff());
        let vanished = match sum.value {
            Scalar::F(x) if x.is_finite() && sum.error > 0.0 => count * compute.min_normal(),
            _ => 0.0,
        };
        (Approx { error: sum.error + vanished, ..sum }, self.may_be_nan)
    }
}

/// Elements of an operand [first, pixels, last] by their indices.
struct Grid {
    values: Vec<f64>,
    pixels: u64,
    last: u64,
}

impl Grid {
    fn new(tensor: &HostTensor, pixels: u64, last: u64) -> Grid {
        Grid { values: tensor.values.iter().map(|x| x.as_f64()).collect(), pixels, last }
    }

    fn at(&self, first: u64, pixel: u64, last: u64) -> f64 {
        self.values[((first * self.pixels + pixel) * self.last + last) as usize]
    }
}

/// Extents of the input, of the taps and of the output.
fn extents(geometry: &Geometry) -> [[u64; 3]; 3] {
    let windows = geometry.windows;
    [windows.map(|window| window.input), windows.map(|window| window.taps), windows.map(|window| window.output)]
}

/// The number of the pixel that `along` finds on each axis.
fn pixel(of: [u64; 3], along: impl Fn(usize) -> Option<u64>) -> Option<u64> {
    Some(number([along(0)?, along(1)?, along(2)?], of))
}

/// For each element of y, in order, the places in x and in the weights of what is multiplied for it; `None` in x for padding.
fn each_window(geometry: &Geometry, mut see: impl FnMut(&[(Option<usize>, usize)])) {
    let [inputs, taps, outputs] = extents(geometry);
    let (channels, filters) = (geometry.group_channels(), geometry.group_filters());
    let at = |pixel: u64, channels: u64, channel: u64| (pixel * channels + channel) as usize;
    let mut pairs = Vec::new();
    for image in 0..geometry.batch {
        for output in (0..geometry.output_pixels()).map(|output| coordinates(output, outputs)) {
            for filter in 0..geometry.filters {
                let first = filter / filters * channels;
                pairs.clear();
                for tap in 0..geometry.taps() {
                    let of_tap = coordinates(tap, taps);
                    let source = pixel(inputs, |axis| geometry.windows[axis].source(output[axis], of_tap[axis]));
                    let source = source.map(|source| image * geometry.input_pixels() + source);
                    pairs.extend((0..channels).map(|channel| {
                        let x = source.map(|source| at(source, geometry.channels, first + channel));
                        (x, at(filter * geometry.taps() + tap, channels, channel))
                    }));
                }
                see(&pairs);
            }
        }
    }
}

/// y of x and weights.
pub(in crate::ops) fn forward(geometry: &Geometry, x: &HostTensor, weights: &HostTensor, dtype: DType) -> Vec<Sum> {
    let [x, w] = [x, weights].map(|tensor| tensor.values.iter().map(|x| x.as_f64()).collect::<Vec<f64>>());
    let mut sums = Vec::new();
    each_window(geometry, |pairs| {
        let mut terms = Terms::default();
        pairs.iter().for_each(|&(at, filter)| terms.push(at.map(|at| x[at]), w[filter]));
        sums.push(terms.sum(dtype));
    });
    sums
}

/// y of x and weights of whole numbers: sums wrap in `dtype`, that of all three.
pub(super) fn forward_whole(geometry: &Geometry, x: &HostTensor, weights: &HostTensor, dtype: DType) -> Vec<Sum> {
    let mut sums = Vec::new();
    each_window(geometry, |pairs| {
        let products = pairs.iter().filter_map(|&(at, filter)| Some((x.values[at?], weights.values[filter])));
        let sum = products.fold(Scalar::I(0), |sum, (x, w)| {
            BinaryFn::Add.eval(sum, BinaryFn::Mul.eval(x, w, DType::I64), DType::I64)
        });
        sums.push((Approx::exact(sum.cast(dtype)), false));
    });
    sums
}

/// The gradient of x, of that of y and weights.
pub(super) fn input(geometry: &Geometry, gradient: &HostTensor, weights: &HostTensor, dtype: DType) -> Vec<Sum> {
    let (g, w) = (Grid::new(gradient, geometry.output_pixels(), geometry.filters), weights_grid(geometry, weights));
    let [inputs, taps, outputs] = extents(geometry);
    let (channels, filters) = (geometry.group_channels(), geometry.group_filters());
    let mut sums = Vec::new();
    for image in 0..geometry.batch {
        for input in (0..geometry.input_pixels()).map(|input| coordinates(input, inputs)) {
            for channel in 0..geometry.channels {
                let mut terms = Terms::default();
                let first = channel / channels * filters;
                for tap in 0..geometry.taps() {
                    let at = coordinates(tap, taps);
                    let target = pixel(outputs, |axis| geometry.windows[axis].target(input[axis], at[axis]));
                    for filter in first..first + filters {
                        let g = target.map(|target| g.at(image, target, filter));
                        terms.push(g, w.at(filter, tap, channel % channels));
                    }
                }
                sums.push(terms.sum(dtype));
            }
        }
    }
    sums
}

/// The gradient of the weights, of that of y and x.
pub(super) fn weights(geometry: &Geometry, gradient: &HostTensor, x: &HostTensor, dtype: DType) -> Vec<Sum> {
    let g = Grid::new(gradient, geometry.output_pixels(), geometry.filters);
    let x = Grid::new(x, geometry.input_pixels(), geometry.channels);
    let [inputs, taps, outputs] = extents(geometry);
    let (channels, filters) = (geometry.group_channels(), geometry.group_filters());
    let mut sums = Vec::new();
    for filter in 0..geometry.filters {
        let first = filter / filters * channels;
        for at in (0..geometry.taps()).map(|tap| coordinates(tap, taps)) {
            for channel in first..first + channels {
                let mut terms = Terms::default();
                for image in 0..geometry.batch {
                    for output in 0..geometry.output_pixels() {
                        let place = coordinates(output, outputs);
                        let source = pixel(inputs, |axis| geometry.windows[axis].source(place[axis], at[axis]));
                        let x = source.map(|source| x.at(image, source, channel));
                        terms.push(x, g.at(image, output, filter));
                    }
                }
                sums.push(terms.sum(dtype));
            }
        }
    }
    sums
}

fn weights_grid(geometry: &Geometry, weights: &HostTensor) -> Grid {
    Grid::new(weights, geometry.taps(), geometry.group_channels())
}
