//! Cases of pools and their gradients: windows, strides and dilations of every remainder, paddings, `ceil_mode`, divisors, adaptive parts,
//! ties, NaN, one to three axes, nothing at all, windows of more taps than a byte counts.

use super::{add, unique};
use crate::case::values::{Plant, Where};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::{Divisor, Pool, PoolChosen, PoolFn, PoolGeometry, PoolGradient, PoolOptions};
use crate::{DType, Layout, Result, Shape, TensorSpec};

const FAMILY: &str = "pool";
const DTYPES: [DType; 4] = [DType::F32, DType::F16, DType::BF16, DType::F64];
const ONE: Values = Values::Uniform(-1.0, 1.0);
/// Numbers that are often equal.
const TIES: Values = Values::Integers(-2, 2);
const DIVISORS: [Divisor; 3] = [Divisor::Padded, Divisor::Inside, Divisor::Number(3)];

fn dense(dtype: DType, shape: Shape) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(shape))
}

#[inline(never)]
fn windows(x: &[u64], options: &PoolOptions) -> Result<PoolGeometry> {
    PoolGeometry::new(FAMILY, &Shape::new(x)?, options)
}

/// A maximum, its gradient, and elements at its places.
#[inline(never)]
fn maxima(cases: &mut Vec<Case>, geometry: Result<PoolGeometry>, dtype: DType, values: Values) {
    let made = || {
        let geometry = geometry.clone()?;
        let (x, y) = (dense(dtype, geometry.input_shape()?), dense(dtype, geometry.output_shape()?));
        let pool = Pool::new(PoolFn::Max, x, geometry)?;
        let index = pool.index;
        let place = |spec: TensorSpec| output(spec.dtype, spec.layout.dims());
        let pool = Pool { output: place(pool.output)?, index: index.map(place).transpose()?, ..pool };
        let back = PoolGradient::new(PoolFn::Max, y, index, geometry)?;
        let back = PoolGradient { output: place(back.output)?, ..back };
        let chosen = PoolChosen::new(x, index.unwrap_or(y), geometry)?;
        Ok::<_, crate::Error>((pool, back, chosen, geometry.taps()))
    };
    let (pool, back, chosen, taps) = match made() {
        Ok((pool, back, chosen, taps)) => (Ok(pool), Ok(back), Ok(chosen), taps),
        Err(error) => (Err(error.clone()), Err(error.clone()), Err(error), 1),
    };
    // Places of every tap, of the padding, and beyond the window where a byte holds that.
    let places = Values::Integers(0, (taps as i32).min(255));
    add(cases, FAMILY, pool, &[values]);
    add(cases, FAMILY, back, &[ONE, places]);
    add(cases, FAMILY, chosen, &[ONE, places]);
}

/// An average and its gradient.
#[inline(never)]
fn averages(cases: &mut Vec<Case>, geometry: Result<PoolGeometry>, dtype: DType, divisor: Divisor) {
    let function = PoolFn::Average(divisor);
    let made = |is_back: bool| {
        let geometry = geometry.clone()?;
        let (x, y) = (geometry.input_shape()?, geometry.output_shape()?);
        Ok(if is_back {
            let op = PoolGradient::new(function, dense(dtype, y), None, geometry)?;
            crate::Op::from(PoolGradient { output: output(dtype, x.dims())?, ..op })
        } else {
            let op = Pool::new(function, dense(dtype, x), geometry)?;
            Pool { output: output(dtype, y.dims())?, ..op }.into()
        })
    };
    for is_back in [false, true] {
        add(cases, FAMILY, made(is_back), &[ONE]);
    }
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    // That of ResNet; a window of its own; every divisor.
    let stem = || PoolOptions::window(3).stride(2).padding(1);
    for dtype in DTYPES {
        for options in [stem(), stem().ceil_mode(), PoolOptions::window(2)] {
            for values in [ONE, TIES, Values::Special] {
                maxima(&mut cases, windows(&[2, 9, 7, 5], &options), dtype, values);
            }
            DIVISORS
                .into_iter()
                .for_each(|divisor| averages(&mut cases, windows(&[2, 9, 7, 5], &options), dtype, divisor));
        }
        averages(&mut cases, PoolGeometry::adaptive(FAMILY, &shape(&[2, 7, 5, 6]), &[3, 2]), dtype, Divisor::Inside);
        averages(&mut cases, PoolGeometry::adaptive(FAMILY, &shape(&[2, 7, 7, 6]), &[1]), dtype, Divisor::Inside);
    }
    edges(&mut cases);
    for at in [Where::First, Where::Middle, Where::Last, Where::Twice] {
        for plant in [Plant::Nan, Plant::Inf, Plant::Top] {
            maxima(&mut cases, windows(&[1, 6, 5, 3], &stem()), DType::F32, Values::Planted(plant, at));
        }
    }
    maxima(&mut cases, windows(&[1, 6, 5, 3], &stem()), DType::F32, Values::Constant(f64::NEG_INFINITY));
    maxima(&mut cases, windows(&[1, 6, 5, 3], &stem()), DType::F32, Values::Constant(1.5));
    for channels in level.list(&[1, 2, 31, 65, 257], &[3, 32, 64, 255, 256, 1023]) {
        maxima(&mut cases, windows(&[1, 5, 4, channels], &stem()), DType::F32, ONE);
        averages(&mut cases, windows(&[1, 5, 4, channels], &stem()), DType::F32, Divisor::Inside);
    }
    layouts(&mut cases);
    unique(cases)
}

fn shape(dims: &[u64]) -> Shape {
    // The extents here are small.
    Shape::new(dims).unwrap_or(Shape::SCALAR)
}

fn edges(cases: &mut Vec<Case>) {
    let mut of = |x: &[u64], options: PoolOptions| {
        maxima(cases, windows(x, &options), DType::F32, TIES);
        DIVISORS.into_iter().for_each(|divisor| averages(cases, windows(x, &options), DType::F32, divisor));
    };
    for (taps, stride) in [(1, 2), (2, 1), (2, 3), (3, 2), (4, 3), (5, 1)] {
        for length in 8..=10 {
            let options = PoolOptions::window(taps).stride(stride).padding(taps / 2);
            of(&[2, length, 3], options.clone());
            of(&[2, length, 3], options.ceil_mode());
        }
    }
    of(
        &[1, 11, 12, 2],
        PoolOptions { window: vec![3, 2], stride: vec![2, 3], dilation: vec![2, 3], ..PoolOptions::window(1) },
    );
    of(&[1, 8, 9, 2], PoolOptions { padding: vec![[0, 1], [2, 1]], ..PoolOptions::window(3).stride(2) }.ceil_mode());
    of(&[2, 4, 5, 6, 3], PoolOptions { padding: vec![[1, 0], [0, 0], [1, 1]], ..PoolOptions::window(2).stride(2) });
    of(&[3, 4, 5, 2], PoolOptions { window: vec![4, 5], ..PoolOptions::window(1) });
    of(&[1, 1, 1, 1], PoolOptions::window(1));
    of(&[0, 5, 5, 2], PoolOptions::window(2));
    of(&[2, 5, 5, 0], PoolOptions::window(2));
    // Places that a byte just holds, and that it does not.
    of(&[1, 20, 18, 2], PoolOptions::window(16).stride(2).padding(1));
    of(&[1, 20, 18, 2], PoolOptions { window: vec![17, 16], ..PoolOptions::window(1).stride(1) });
    for (x, outputs) in [
        (&[2, 7, 3][..], &[1][..]),
        (&[2, 7, 3], &[3]),
        (&[2, 7, 3], &[7]),
        (&[2, 7, 3], &[11]),
        (&[1, 12, 12, 2], &[4, 5]),
        (&[1, 3, 4, 5, 2], &[2, 3, 4]),
        (&[0, 3, 2], &[2]),
    ] {
        averages(cases, PoolGeometry::adaptive(FAMILY, &shape(x), outputs), DType::F32, Divisor::Inside);
        maxima(cases, PoolGeometry::adaptive(FAMILY, &shape(x), outputs), DType::F32, TIES);
    }
}

/// Channels of wider pixels, from an offset.
fn layouts(cases: &mut Vec<Case>) {
    let geometry = || windows(&[2, 6, 5, 3], &PoolOptions::window(3).stride(2).padding(1));
    for kind in [LayoutKind::Offset, LayoutKind::Padded] {
        for dtype in [DType::F32, DType::BF16] {
            for function in [PoolFn::Max, PoolFn::Average(Divisor::Inside)] {
                let op = || Pool::new(function, kind.spec(dtype, &[2, 6, 5, 3])?, geometry()?);
                add(cases, FAMILY, op(), &[ONE]);
            }
            let function = PoolFn::Average(Divisor::Padded);
            let op = || {
                let y = geometry()?.output_shape()?;
                PoolGradient::new(function, kind.spec(dtype, y.dims())?, None, geometry()?)
            };
            add(cases, FAMILY, op(), &[ONE]);
        }
    }
}

/// The pools of ResNet-50.
pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let batch = size.pick(1, 32, 128);
    let mut cases = Vec::new();
    let mut push = |name: &str, op: Result<crate::Op>| {
        let name = format!("pool {name} n{batch}");
        cases.extend(op.ok().map(|op| BenchCase::new(name, Suite::Reduce, op, Metric::Bytes).beside()));
    };
    for dtype in [DType::F32, DType::F16] {
        let stem = || windows(&[batch, 112, 112, 64], &PoolOptions::window(3).stride(2).padding(1));
        let max = || Pool::new(PoolFn::Max, dense(dtype, stem()?.input_shape()?), stem()?);
        push(&format!("max {dtype} 3x3 s2 c64 112x112"), max().map(Into::into));
        let back = || PoolGradient::new(PoolFn::Max, dense(dtype, stem()?.output_shape()?), max()?.index, stem()?);
        push(&format!("max gradient {dtype} 3x3 s2 c64 112x112"), back().map(Into::into));
        let global = || {
            let x = Shape::new(&[batch, 7, 7, 2048])?;
            Pool::new(PoolFn::Average(Divisor::Inside), dense(dtype, x), PoolGeometry::adaptive(FAMILY, &x, &[1])?)
        };
        push(&format!("average {dtype} c2048 7x7"), global().map(Into::into));
    }
    cases
}
