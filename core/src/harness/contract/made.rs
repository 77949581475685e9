//! Tensors that are made: numbers drawn, whose bits are the same on every device or near those of float64, shapes that calls of several steps
//! give, and the launches that they take.

use super::{Answer, Test, demand};
use crate::generator::whole_number_below;
use crate::harness::ReferenceBackend;
use crate::ops::{PadMode, ScatterFn};
use crate::{DType, Device, Distribution, Error, Expr, Generator, MeshOrder, Replacement, Result, Tensor};

pub(super) const ROWS: &[(&str, Test)] = &[
    ("whole and uniform numbers are drawn with the same bits everywhere", draws),
    ("whole numbers begin and end where their shares of the random bits do", shares),
    ("numbers of every other distribution are drawn as in float64", draws_elsewhere),
    ("joins and shapes are one launch each, or views", launches),
    ("triangles, diagonals, grids and windows hold what they are named after", shapes),
    ("sums of rows of integers wrap", sums),
];

/// Of what [`draws`] draws.
const DRAWN: [u64; 6] = [
    0x3b70_55c8_c709_7d6b,
    0xc89d_6a79_5c76_c894,
    0xe35d_38e5_076a_f2b7,
    0x51be_4654_bc25_d78c,
    0x28b6_ce5c_2883_533b,
    0x7e99_bafe_82b7_6695,
];

/// Of uniform numbers of f64 after them.
const DRAWN_F64: u64 = 0x5dae_f875_7b07_a88a;

/// Of whole numbers of ranges whose numbers a draw of 32 or 64 bits would not share evenly, and of all of 64 bits.
const WHOLE: [(DType, i128, i128, u64); 3] = [
    (DType::U32, 7, 3 << 30, 0xaa1c_c0da_e461_fe49),
    (DType::I64, -(1 << 62), 1 << 63, 0x81ca_1d42_9ea1_4b6d),
    (DType::U64, 0, 1 << 64, 0x4fe1_cd41_a19b_7c11),
];

/// FNV-1a, of 64 bits.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |hash, &byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn draws(device: &Device) -> Result<Answer> {
    const N: u64 = 1000;
    let generator = Generator::new(device, 2026)?;
    let drawn = [
        generator.uniform(DType::F32, [N], 0.0, 1.0)?,
        generator.uniform(DType::F16, [N], 0.0, 1.0)?,
        generator.randint(DType::I32, [N], -5, 1_000_000)?,
        generator.randint(DType::U32, [N], 0, 1i64 << 32)?,
        generator.bernoulli([N], 0.3)?,
        generator.permutation(N)?,
    ];
    let found = drawn.iter().map(|numbers| Ok(digest(&numbers.to_bytes()?))).collect::<Result<Vec<u64>>>()?;
    demand!(found == DRAWN, "digests {found:#x?}, not {DRAWN:#x?}");
    if device.supports(DType::F64) {
        let found = digest(&generator.uniform(DType::F64, [N], 0.0, 1.0)?.to_bytes()?);
        demand!(found == DRAWN_F64, "digest of f64 {found:#x}, not {DRAWN_F64:#x}");
    }
    // A generator of its own, whether or not there was f64.
    let generator = Generator::new(device, 2028)?;
    for (dtype, low, high, want) in WHOLE.into_iter().filter(|&(dtype, ..)| device.supports(dtype)) {
        let found = digest(&generator.randint(dtype, [N], low, high)?.to_bytes()?);
        demand!(found == want, "digest of {dtype} {found:#x}, not {want:#x}");
    }
    Ok(Ok(()))
}

/// floor(k 2^64 / n) of k below n, and the rest.
fn quotient(k: u64, n: u64) -> [u64; 2] {
    let long = u128::from(k) << 64;
    [long / u128::from(n), long % u128::from(n)].map(|part| part as u64)
}

/// Random numbers hardly ever come to where a share ends: the words are given. Up to 2^32 numbers have shares of 2^96, others of 2^128.
fn shares(device: &Device) -> Result<Answer> {
    for (count, is_wide) in [
        (3, false),
        (60_000, false),
        (65_537, false),
        (3 << 30, false),
        (u64::from(u32::MAX), false),
        ((1 << 32) + 1, true),
        (3 << 62, true),
        (u64::MAX, true),
    ] {
        if is_wide && !device.supports(DType::U64) {
            continue;
        }
        let numbers = [1, 2, 3, count / 2, count / 3 * 2 + 1, count - 2, count - 1].map(|k| k % count);
        let (mut words, mut wanted) = ([const { Vec::new() }; 4], Vec::new());
        for k in numbers.into_iter().filter(|k| *k > 0) {
            // The first x of number k is k 2^b / n, rounded up; the one before it is of number k - 1.
            let ([high, rest], bits) = (quotient(k, count), if is_wide { 64 } else { 32 });
            let low = (u128::from(rest) << bits).div_ceil(u128::from(count));
            let first = (u128::from(high) << bits) + low;
            for (x, number) in [(first, k), (first - 1, k - 1)] {
                // The most significant word first.
                let x = if is_wide { x } else { x << 32 };
                words.iter_mut().zip([96, 64, 32, 0]).for_each(|(word, shift)| word.push((x >> shift) as u32));
                wanted.push(number);
            }
        }
        let length = wanted.len() as u64;
        let read = if is_wide { &words[..] } else { &words[..3] };
        let inputs = read.iter().map(|word| Tensor::from_slice(device, word, [length])).collect::<Result<Vec<_>>>()?;
        let expr = whole_number_below(count.into(), |n| Expr::input(n as usize));
        let found = Tensor::map(&expr, &inputs.iter().collect::<Vec<_>>())?;
        let found =
            if is_wide { found.to_vec::<u64>()? } else { found.to_vec::<u32>()?.into_iter().map(u64::from).collect() };
        demand!(found == wanted, "of {count} numbers {found:?}, not {wanted:?}");
    }
    Ok(Ok(()))
}

/// A distribution, the magnitude of the largest term that its numbers are made of, how many of them may be others, and the draw.
type Draw = (&'static str, f64, usize, fn(&Generator) -> Result<Tensor>);

/// How many numbers of each are drawn.
const DRAWN_OF_EACH: u64 = 257;

/// What is kept or refused by a rounded number is another one where that falls the other way: once in thousands.
const DRAWS: [Draw; 28] = [
    ("normal", 6.7, 0, |g| g.normal(DType::F32, [DRAWN_OF_EACH], 0.0, 1.0)),
    ("exponential", 0.0, 0, |g| g.exponential(DType::F32, [DRAWN_OF_EACH], 1.0)),
    ("normal of f64", 9.4, 0, |g| g.normal(DType::F64, [DRAWN_OF_EACH], 0.0, 1.0)),
    ("exponential of f64", 0.0, 0, |g| g.exponential(DType::F64, [DRAWN_OF_EACH], 1.0)),
    ("laplace of f64", 0.0, 0, |g| g.laplace(DType::F64, [DRAWN_OF_EACH], 0.0, 1.0)),
    ("gumbel", 1.0, 0, |g| g.gumbel(DType::F32, [DRAWN_OF_EACH], 0.0, 1.0)),
    ("laplace", 0.0, 0, |g| g.laplace(DType::F32, [DRAWN_OF_EACH], 0.0, 1.0)),
    ("truncated normal", 2.0, 0, |g| g.truncated_normal(DType::F32, [DRAWN_OF_EACH], [0.0, 1.0], [-1.0, 2.0])),
    // d (1 + t)^3: d, and t times its slope of 3 d (1 + t)^2.
    ("gamma", 12.0, 1, |g| g.gamma(DType::F32, [DRAWN_OF_EACH], 3.0, 1.0)),
    ("gamma below 1", 4.0, 1, |g| g.gamma(DType::F32, [DRAWN_OF_EACH], 0.4, 1.0)),
    ("gamma of a tensor", 12.0, 1, |g| g.gamma_of(&Tensor::full(device_of(g), DType::F32, [DRAWN_OF_EACH], 3.0)?)),
    // A quarter of the error of a logarithm.
    ("beta", 2.0, 1, |g| g.beta(DType::F32, [DRAWN_OF_EACH], 2.0, 3.0)),
    ("poisson", 0.0, 1, |g| g.poisson(DType::U32, [DRAWN_OF_EACH], 3.0)),
    ("poisson of many", 0.0, 1, |g| g.poisson(DType::U32, [DRAWN_OF_EACH], 300.0)),
    ("poisson of a tensor", 0.0, 1, |g| g.poisson_of(&Tensor::full(device_of(g), DType::F32, [DRAWN_OF_EACH], 20.0)?)),
    ("bernoulli of a tensor", 0.0, 0, |g| {
        g.bernoulli_of(&Tensor::full(device_of(g), DType::F32, [DRAWN_OF_EACH], 0.3)?)?.cast(DType::U32)
    }),
    // The square root of a logarithm, times the deviation.
    ("truncated normal of f64", 2.0, 0, |g| g.truncated_normal(DType::F64, [DRAWN_OF_EACH], [0.0, 1.0], [-1.0, 2.0])),
    ("truncated normal of a tail of f64", 2.0, 0, |g| {
        g.truncated_normal(DType::F64, [DRAWN_OF_EACH], [0.0, 1.0], [9.0, f64::INFINITY])
    }),
    ("gamma of f64", 12.0, 1, |g| g.gamma(DType::F64, [DRAWN_OF_EACH], 3.0, 1.0)),
    ("gamma below 1 of f64", 4.0, 1, |g| g.gamma(DType::F64, [DRAWN_OF_EACH], 0.4, 1.0)),
    ("gamma of a tensor of f64", 12.0, 1, |g| {
        g.gamma_of(&Tensor::full(device_of(g), DType::F64, [DRAWN_OF_EACH], 3.0)?)
    }),
    ("beta of f64", 2.0, 1, |g| g.beta(DType::F64, [DRAWN_OF_EACH], 2.0, 3.0)),
    ("poisson of f64", 0.0, 1, |g| g.poisson(DType::F64, [DRAWN_OF_EACH], 3.0)),
    ("poisson of a tensor of f64", 0.0, 1, |g| {
        g.poisson_of(&Tensor::full(device_of(g), DType::F64, [DRAWN_OF_EACH], 20.0)?)
    }),
    ("bernoulli of a tensor of f64", 0.0, 0, |g| {
        g.bernoulli_of(&Tensor::full(device_of(g), DType::F64, [DRAWN_OF_EACH], 0.3)?)?.cast(DType::U32)
    }),
    ("random tensor of f64", 9.4, 0, |g| {
        let normal = Distribution::Normal { mean: 0.0, std: 1.0 };
        Tensor::random(device_of(g), DType::F64, [DRAWN_OF_EACH], normal, 2027, 5 << 32)
    }),
    ("multinomial", 0.0, 0, |g| g.multinomial(&weights(g)?, DRAWN_OF_EACH, Replacement::With)),
    ("multinomial without replacement", 0.0, 2, |g| g.multinomial(&weights(g)?, 5, Replacement::Without)),
];

fn device_of(generator: &Generator) -> &Device {
    generator.tensors()[0].device()
}

/// Whole numbers, whose sums are exact.
fn weights(generator: &Generator) -> Result<Tensor> {
    let line = Tensor::from_slice(device_of(generator), &[3.0f32, 1.0, 0.0, 7.0, 2.0, 5.0], [6])?;
    line.broadcast_to([11, 6])
}

fn draws_elsewhere(device: &Device) -> Result<Answer> {
    /// As functions of a few steps have them.
    const ULPS: f64 = 24.0;
    let reference = Device::new(ReferenceBackend::default());
    for (name, terms, most_others, draw) in DRAWS {
        let drawn = match draw(&Generator::new(device, 2027)?) {
            Err(Error::UnsupportedDType { dtype: DType::F64, .. }) => continue,
            drawn => drawn?,
        };
        let ulp = if drawn.dtype() == DType::F64 { f64::EPSILON } else { f32::EPSILON.into() };
        let (found, wanted) = (drawn.to_f64_vec()?, draw(&Generator::new(&reference, 2027)?)?.to_f64_vec()?);
        demand!(found.len() == wanted.len(), "{} numbers of {name}", found.len());
        let is_other = |&(_, (found, want)): &(usize, (f64, f64))| {
            let is_near = (found - want).abs() <= ULPS * ulp * (terms + want.abs());
            !is_near
        };
        let others: Vec<_> = found.into_iter().zip(wanted).enumerate().filter(is_other).collect();
        demand!(others.len() <= most_others, "{name}: number, found and wanted: {others:?}");
    }
    Ok(Ok(()))
}

fn launches(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[1i32, 2, 3, 4, 5, 6], [2, 3])?;
    let (row, mask) = (x.select(0, 1)?, x.gt(4)?);
    let one = |made: Result<Tensor>| -> Result<Vec<Tensor>> { Ok(vec![made?]) };
    type Call<'a> = (&'static str, usize, &'a dyn Fn() -> Result<Vec<Tensor>>);
    let calls: &[Call<'_>] = &[
        ("cat", 1, &|| one(Tensor::cat(&[&x; 7], 0))),
        ("stack", 1, &|| one(Tensor::stack(&[&x, &x, &x], 1))),
        ("pad with numbers", 1, &|| one(x.pad(&[(1, 2), (2, 1)], PadMode::Constant))),
        ("pad with edges", 1, &|| one(x.pad(&[(1, 2), (2, 1)], PadMode::Edge))),
        ("pad with reflections", 1, &|| one(x.pad(&[(1, 2), (2, 1)], PadMode::Reflect))),
        ("pad with all again", 1, &|| one(x.pad(&[(1, 2), (2, 1)], PadMode::Wrap))),
        ("roll", 1, &|| one(x.roll(&[1, -1], [0, 1]))),
        ("tile", 1, &|| one(x.tile(&[2, 3]))),
        ("repeat", 1, &|| one(x.repeat(2, 0))),
        ("tril", 1, &|| one(x.tril(0))),
        ("triu", 1, &|| one(x.triu(1))),
        ("eye", 1, &|| one(Tensor::eye(device, DType::F32, 3, 4, 1))),
        ("diag", 1, &|| one(row.diag(0))),
        ("diag above", 1, &|| one(row.diag(2))),
        ("diag below", 1, &|| one(row.diag(-1))),
        ("linspace", 1, &|| one(Tensor::linspace(device, DType::F32, 0.0, 1.0, 5))),
        ("one_hot_within", 1, &|| one(row.one_hot_within(7, DType::I32))),
        // And the look at the numbers.
        ("one_hot", 2, &|| one(row.one_hot(7, DType::I32))),
        ("masked_fill", 1, &|| one(x.masked_fill(&mask, 0))),
        ("split", 0, &|| x.split(&[1, 2], 1)),
        ("chunk", 0, &|| x.chunk(2, 0)),
        ("flip", 0, &|| one(x.flip(1))),
        ("meshgrid", 0, &|| Tensor::meshgrid(&[&row, &row], MeshOrder::Cartesian)),
        ("sliding_windows", 0, &|| one(x.sliding_windows(2, 1, 1))),
        ("diagonal", 0, &|| one(x.diagonal(1, 0, 1))),
        ("diag of a matrix", 0, &|| one(x.diag(-1))),
        ("view_as", 0, &|| one(x.view_as(DType::U8))),
    ];
    for &(name, wanted, call) in calls {
        let recording = match device.record(call) {
            // One that cannot record at all fails the table of recordings.
            Err(Error::Unsupported { .. }) => return Ok(Ok(())),
            recording => recording?,
        };
        demand!(recording.launches() == wanted, "{name}: {} launches, not {wanted}", recording.launches());
    }
    Ok(Ok(()))
}

fn shapes(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[1i32, 2, 3, 4, 5, 6], [2, 3])?;
    let is = |found: Tensor, dims: &[u64], want: &[i32]| {
        Ok::<_, crate::Error>(found.dims() == dims && found.to_vec::<i32>()? == want)
    };
    demand!(is(x.tril(0)?, &[2, 3], &[1, 0, 0, 4, 5, 0])?, "tril");
    demand!(is(x.triu(1)?, &[2, 3], &[0, 2, 3, 0, 0, 6])?, "triu");
    demand!(is(Tensor::eye(device, DType::I32, 2, 3, 1)?, &[2, 3], &[0, 1, 0, 0, 0, 1])?, "eye");
    demand!(is(x.diagonal(1, 0, 1)?, &[2], &[2, 6])?, "diagonal");
    let ends = Tensor::from_slice(device, &[7i32, 8], [2])?;
    demand!(is(ends.diag(-1)?, &[3, 3], &[0, 0, 0, 7, 0, 0, 0, 8, 0])?, "diag");
    demand!(is(ends.diag(0)?, &[2, 2], &[7, 0, 0, 8])?, "diag on the main diagonal");
    demand!(is(ends.flip(0)?.diag(1)?, &[3, 3], &[0, 8, 0, 0, 0, 7, 0, 0, 0])?, "diag above it");
    let grid = Tensor::meshgrid(&[&ends, &x.select(0, 0)?], MeshOrder::Matrix)?;
    demand!(is(grid[0].clone(), &[2, 3], &[7, 7, 7, 8, 8, 8])?, "rows of a grid");
    demand!(is(grid[1].clone(), &[2, 3], &[1, 2, 3, 1, 2, 3])?, "columns of a grid");
    demand!(is(x.sliding_windows(2, 1, 1)?, &[2, 2, 2], &[1, 2, 2, 3, 4, 5, 5, 6])?, "windows");
    demand!(is(x.masked_fill(&x.gt(4)?, -1)?, &[2, 3], &[1, 2, 3, 4, -1, -1])?, "masked_fill");
    demand!(is(ends.sub_scalar(6)?.one_hot(4, DType::I32)?, &[2, 4], &[0, 1, 0, 0, 0, 0, 1, 0])?, "one_hot");
    demand!(is(x.roll(&[1], 1)?, &[2, 3], &[3, 1, 2, 6, 4, 5])?, "roll");
    let steps = Tensor::linspace(device, DType::F32, 1.0, 2.0, 5)?.to_vec::<f32>()?;
    demand!(steps == [1.0, 1.25, 1.5, 1.75, 2.0], "linspace: {steps:?}");
    Ok(Ok(()))
}

fn sums(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[i32::MAX, 1, 1, 2, 5, 6], [3, 2])?;
    let at = Tensor::from_slice(device, &[2u32, 2, 0], [3])?;
    let found = x.scatter_add(&at, 4)?;
    demand!(found.dims() == [4, 2], "of shape {:?}", found.dims());
    demand!(found.to_vec::<i32>()? == [5, 6, 0, 0, i32::MIN, 3, 0, 0], "sums of i32");
    let small = Tensor::from_slice(device, &[100u8, 200], [2])?;
    let found = small.scatter_add_within(&Tensor::from_slice(device, &[0i32, 9], [2])?, 1)?;
    demand!(found.to_vec::<u8>()? == [100], "what names no row is left out");
    let same = Tensor::zeros(device, DType::I32, [4, 2])?;
    let rows = Tensor::from_slice(device, &[2u32, 2, 0], [3, 1])?;
    demand!(same.scatter(&rows, &x, 0, ScatterFn::Sum)?.to_vec::<i32>()?[4] == i32::MIN, "element by element");
    Ok(Ok(()))
}
