//! What walks images: convolutions, pools, other sizes.

use super::{F64, add, dense};
use crate::case::{Case, LayoutKind, Values};
use crate::ops::{
    Convolution, ConvolutionInput, ConvolutionOptions, ConvolutionWeights, Corners, Divisor, Geometry, Interpolation,
    Pool, PoolChosen, PoolFn, PoolGeometry, PoolGradient, PoolOptions, Resize,
};
use crate::{Layout, Result, Shape, TensorSpec, UnaryFn};

/// A view in which all pixels are one: they are read at one distance, and no other view repeats them.
fn one_pixel(dims: &[u64]) -> Result<TensorSpec> {
    let channels = Layout::contiguous(Shape::new(&dims[dims.len() - 1..])?);
    Ok(TensorSpec::new(F64, channels.broadcast_to(Shape::new(dims)?)?))
}

/// Convolutions with windows of every kind, one tap, an epilogue; and both gradients.
fn convolutions(cases: &mut Vec<Case>) {
    let plain = ConvolutionOptions::default;
    let several = || ConvolutionOptions { stride: vec![2, 1], padding: vec![[1, 0], [0, 2]], ..plain() };
    for (x, w, options) in [
        (&[2, 4, 5, 3][..], &[2, 3, 2, 3][..], several()),
        (&[1, 6, 4, 4], &[4, 2, 2, 2], plain().stride(3).groups(2)),
        (&[2, 7, 3], &[3, 2, 1], plain().dilation(2).groups(3)),
        (&[2, 3, 2, 4], &[3, 1, 1, 4], plain()),
        (&[1, 2, 3, 3, 2], &[2, 2, 1, 2, 2], plain().padding(1).stride(2)),
        // No images: weights and bias have gradients of nothing.
        (&[0, 4, 5, 3], &[2, 3, 2, 3], several()),
    ] {
        let geometry = || Geometry::new("convolution", &Shape::new(x)?, &Shape::new(w)?, &options);
        let y = || Ok::<_, crate::Error>(TensorSpec::new(F64, Layout::contiguous(geometry()?.output_shape()?)));
        let op = || Convolution::new(dense(x)?, dense(w)?, &options);
        add(cases, "convolution", op(), &[Values::Normal; 2]);
        let bias = || dense(&w[..1]);
        let whole = || Convolution { residual: Some(y()?), bias: Some(bias()?), ..op()? }.check();
        add(cases, "convolution", whole(), &[Values::Normal; 4]);
        let op = || Convolution { activation: Some(UnaryFn::Tanh), ..whole()? }.check();
        add(cases, "convolution", op(), &[Values::Normal; 4]);
        let op = || ConvolutionInput::of(geometry()?, y()?, dense(w)?);
        add(cases, "convolution", op(), &[Values::Normal; 2]);
        let op = || ConvolutionWeights::of(geometry()?, y()?, dense(x)?);
        add(cases, "convolution", op(), &[Values::Normal; 2]);
        // One tap is a product of rows, a graph over a view of a view: a graph has no way back to elements that such a view repeats.
        if w[1..w.len() - 1].iter().all(|&taps| taps == 1) {
            continue;
        }
        let op = || Convolution::new(one_pixel(x)?, dense(w)?, &options);
        add(cases, "convolution", op(), &[Values::Normal; 2]);
        let dy = || one_pixel(y()?.layout.dims());
        let op = || ConvolutionInput::of(geometry()?, dy()?, dense(w)?);
        add(cases, "convolution", op(), &[Values::Normal; 2]);
        let op = || ConvolutionWeights::of(geometry()?, dy()?, dense(x)?);
        add(cases, "convolution", op(), &[Values::Normal; 2]);
    }
}

/// Pools of overlapping windows, with padding, in unequal parts; their gradients, and what is chosen by places.
fn pools(cases: &mut Vec<Case>) {
    let of = |x: &[u64]| {
        let shape = Shape::new(x)?;
        let options = PoolOptions::window(3).stride(2).padding(1);
        let outputs = vec![2; x.len() - 2];
        Ok::<_, crate::Error>([
            PoolGeometry::new("pool", &shape, &options)?,
            PoolGeometry::adaptive("pool", &shape, &outputs)?,
        ])
    };
    for x in [&[2, 6, 3][..], &[1, 5, 4, 2], &[0, 6, 3]] {
        for number in 0..2 {
            let geometry = || Ok::<_, crate::Error>(of(x)?[number]);
            let y = || dense(geometry()?.output_shape()?.dims());
            for function in [PoolFn::Max, PoolFn::Average(Divisor::Padded), PoolFn::Average(Divisor::Inside)] {
                let op = || Pool::new(function, one_pixel(x)?, geometry()?);
                add(cases, "pool", op(), &[Values::Normal]);
                let op = || Pool::new(function, dense(x)?, geometry()?);
                add(cases, "pool", op(), &[Values::Normal]);
                let index = || op().map(|op| op.index);
                let op = || PoolGradient::new(function, y()?, index()?, geometry()?);
                let values = [Values::Normal, Values::Integers(0, 8)];
                let values = &values[..if function == PoolFn::Max { 2 } else { 1 }];
                add(cases, "pool", op(), values);
                let dy = || one_pixel(y()?.layout.dims());
                let op = || PoolGradient::new(function, dy()?, index()?, geometry()?);
                add(cases, "pool", op(), values);
                if function == PoolFn::Max {
                    for x in [dense(x), one_pixel(x)] {
                        let op = || PoolChosen::new(x?, index()?.map_or_else(y, Ok)?, geometry()?);
                        add(cases, "pool", op(), values);
                    }
                }
            }
        }
    }
}

pub(super) fn small(cases: &mut Vec<Case>) {
    convolutions(cases);
    pools(cases);
    let lines = [Corners::Edges, Corners::Centres].map(Interpolation::Bilinear);
    for how in [Interpolation::Nearest].into_iter().chain(lines) {
        let sizes = [
            ([3, 2], [5, 7]),
            ([5, 7], [2, 3]),
            ([4, 3], [4, 5]),
            ([1, 3], [4, 1]),
            ([3, 4], [3, 4]),
            ([9, 2], [2, 9]),
        ];
        for (from, size) in sizes {
            let dims = [2, from[0], from[1], 2];
            let op = LayoutKind::Transposed.spec(F64, &dims).and_then(|input| Resize::new(input, size, how));
            add(cases, "resize", op, &[Values::Normal]);
        }
        for (kind, batch) in [(LayoutKind::BroadcastOuter, 2), (LayoutKind::Dense, 0)] {
            let op = kind.spec(F64, &[batch, 3, 4, 2]).and_then(|input| Resize::new(input, [5, 3], how));
            add(cases, "resize", op, &[Values::Normal]);
        }
    }
}

pub(super) fn larger(cases: &mut Vec<Case>) {
    let normal = [Values::Normal; 4];
    for how in [Interpolation::Nearest, Interpolation::Bilinear(Corners::Edges)] {
        let op = dense(&[2, 13, 17, 3]).and_then(|input| Resize::new(input, [29, 7], how));
        add(cases, "resize", op, &normal[..1]);
    }
    let options =
        ConvolutionOptions { stride: vec![2, 1], padding: vec![[1, 0], [2, 2]], ..ConvolutionOptions::default() };
    let (x, w) = ([2, 14, 11, 6], [8, 3, 3, 6]);
    let geometry = || Geometry::new("convolution", &Shape::new(&x)?, &Shape::new(&w)?, &options);
    let y = || Ok::<_, crate::Error>(TensorSpec::new(F64, Layout::contiguous(geometry()?.output_shape()?)));
    add(cases, "convolution", dense(&x).and_then(|x| Convolution::new(x, dense(&w)?, &options)), &normal[..2]);
    let op = || ConvolutionInput::of(geometry()?, y()?, dense(&w)?);
    add(cases, "convolution", op(), &normal[..2]);
    let op = || ConvolutionWeights::of(geometry()?, y()?, dense(&x)?);
    add(cases, "convolution", op(), &normal[..2]);
    for function in [PoolFn::Max, PoolFn::Average(Divisor::Inside)] {
        let x = [2, 17, 15, 5];
        let options = PoolOptions::window(3).stride(2).padding(1);
        let geometry = || PoolGeometry::new("pool", &Shape::new(&x)?, &options);
        let op = || Pool::new(function, dense(&x)?, geometry()?);
        add(cases, "pool", op(), &normal[..1]);
        let y = || dense(geometry()?.output_shape()?.dims());
        let index = || op().map(|op| op.index);
        // Each of the nine under a window, those beside the image among them.
        let values = [Values::Normal, Values::Integers(0, 8)];
        let gradient = || PoolGradient::new(function, y()?, index()?, geometry()?);
        add(cases, "pool", gradient(), &values[..if function == PoolFn::Max { 2 } else { 1 }]);
        if function == PoolFn::Max {
            let chosen = || PoolChosen::new(dense(&x)?, index()?.map_or_else(y, Ok)?, geometry()?);
            add(cases, "pool", chosen(), &values);
        }
    }
}
