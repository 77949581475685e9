//! Cases of convolutions of i8: exact sums beside scales that are powers of two, windows and paddings, one tap, groups, epilogues, result
//! dtypes, layouts, nothing at all.

use super::{add, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::{Convolution, ConvolutionOptions, QuantizedConvolution};
use crate::{DType, Result, UnaryFn};

const FAMILY: &str = "quantized_convolution";
const DENSE: LayoutKind = LayoutKind::Dense;
const STEPS: Values = Values::RandomBits;
const SCALES: Values = Values::Uniform(0.001, 2.0);
const SMALL: Values = Values::Integers(-3, 3);

/// Extents of x and of the weights, and how windows move.
type Sizes<'a> = (&'a [u64], &'a [u64], ConvolutionOptions);

fn plain() -> ConvolutionOptions {
    ConvolutionOptions::default()
}

fn of((x, weights, options): &Sizes<'_>, to: DType, kind: LayoutKind) -> Result<QuantizedConvolution> {
    let [x, w] = [kind.spec(DType::I8, x)?, kind.spec(DType::I8, weights)?];
    let [one, each] = [DENSE.spec(DType::F32, &[1])?, DENSE.spec(DType::F32, &weights[..1])?];
    let op = QuantizedConvolution::new([x, w, one, each], to, options)?;
    let y = output(to, op.of.output.layout.dims())?;
    QuantizedConvolution { of: Convolution { output: y, ..op.of }, ..op }.check()
}

/// A case of all steps that i8 has.
fn push(cases: &mut Vec<Case>, op: Result<QuantizedConvolution>) {
    let ends = op.as_ref().map_or(0, |op| [op.of.residual, op.of.bias].into_iter().flatten().count());
    let values = [vec![STEPS; 2], vec![Values::Uniform(-40.0, 40.0); ends], vec![SCALES; 2]].concat();
    add(cases, FAMILY, op, &values);
}

/// The op with a residual, a bias, an activation.
fn ended(
    op: Result<QuantizedConvolution>,
    [residual, bias]: [bool; 2],
    activation: Option<UnaryFn>,
) -> Result<QuantizedConvolution> {
    let op = op?;
    let (output, filters) = (op.of.output, op.of.geometry.filters);
    let residual = residual.then(|| DENSE.spec(output.dtype, output.layout.dims())).transpose()?;
    let bias = bias.then(|| DENSE.spec(output.dtype, &[filters])).transpose()?;
    QuantizedConvolution { of: Convolution { residual, bias, activation, ..op.of }, ..op }.check()
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let three = || plain().padding(1);
    let sizes: [Sizes<'_>; 5] = [
        (&[2, 7, 6, 16], &[24, 3, 3, 16], three()),
        (&[2, 9, 8, 5], &[7, 3, 3, 5], three().stride(2)),
        (&[2, 5, 3, 32], &[9, 1, 1, 32], plain()),
        (&[1, 6, 7, 12], &[8, 3, 2, 6], three().groups(2)),
        (&[1, 6, 7, 6], &[6, 3, 3, 1], three().groups(6)),
    ];
    for size in &sizes {
        push(&mut cases, of(size, DType::F32, DENSE));
    }
    // The ends of one group, which the product has, and of several, behind the products; one kernel each, so few of them.
    for size in [&sizes[0], &sizes[3]] {
        push(&mut cases, ended(of(size, DType::F32, DENSE), [true, false], None));
        push(&mut cases, ended(of(size, DType::F16, DENSE), [true, true], Some(UnaryFn::Relu)));
        push(&mut cases, ended(of(size, DType::BF16, DENSE), [false, true], Some(UnaryFn::Silu)));
    }
    let mut exact = |sizes: Sizes<'_>| {
        let mut made = Vec::new();
        let values = [SMALL, SMALL, Values::Constant(0.5), Values::Constant(2.0)];
        add(&mut made, FAMILY, of(&sizes, DType::F32, DENSE), &values);
        cases.extend(made.into_iter().map(Case::exact));
    };
    // One to three axes; strides and dilations of their own, paddings of each side, windows larger than the image.
    let windows = |stride: &[u64], dilation: &[u64], padding: &[[u64; 2]]| ConvolutionOptions {
        stride: stride.to_vec(),
        dilation: dilation.to_vec(),
        padding: padding.to_vec(),
        ..plain()
    };
    exact((&[2, 17, 3], &[5, 4, 3], windows(&[3], &[1], &[[0, 2]])));
    exact((&[1, 12, 13, 3], &[4, 3, 2, 3], windows(&[2, 1], &[3, 2], &[[1, 2], [0, 3]])));
    exact((&[1, 2, 1, 3], &[4, 5, 5, 3], windows(&[1], &[1], &[[2, 2]])));
    exact((&[2, 4, 5, 6, 3], &[4, 2, 3, 3, 3], windows(&[1, 2, 1], &[1], &[[1, 0], [1, 1], [0, 2]])));
    exact((&[1, 5, 4, 6, 4], &[6, 2, 2, 2, 2], ConvolutionOptions { groups: 2, ..windows(&[1], &[2, 1, 2], &[]) }));
    exact((&[1, 5, 4, 3], &[4, 1, 1, 3], plain().stride(2)));
    exact((&[1, 1, 1, 1], &[1, 1, 1, 1], plain()));
    // Channels by whole 16 bytes, which NVIDIA's kernels read where they lie: a quarter of a stage, half of one, one and a part of the next;
    // filters in no whole tiles.
    exact((&[2, 9, 8, 32], &[13, 3, 3, 32], three().stride(2)));
    exact((&[1, 11, 12, 64], &[40, 3, 2, 64], windows(&[2, 1], &[1, 2], &[[1, 2], [0, 3]])));
    exact((&[1, 9, 10, 16], &[20, 3, 3, 16], three().dilation(2)));
    exact((&[2, 21, 48], &[9, 5, 48], windows(&[3], &[1], &[[2, 1]])));
    exact((&[1, 7, 6, 144], &[8, 3, 3, 144], three()));
    exact((&[2, 6, 5, 128], &[67, 1, 1, 128], plain().stride(2)));
    // Nothing: no image, no channel, no filter.
    for (x, w) in [([0, 5, 4, 3], [2, 3, 3, 3]), ([2, 5, 4, 0], [2, 3, 3, 0]), ([2, 5, 4, 3], [0, 3, 3, 3])] {
        exact((&x, &w, three()));
    }
    // Operands that lie apart.
    for kind in [LayoutKind::Offset, LayoutKind::Padded] {
        push(&mut cases, of(&(&[2, 5, 6, 7], &[6, 3, 3, 7], three()), DType::F32, kind));
    }
    if level == Level::Full {
        push(&mut cases, of(&(&[2, 28, 28, 64], &[64, 3, 3, 64], three()), DType::F16, DENSE));
        push(&mut cases, of(&(&[1, 14, 14, 512], &[256, 3, 3, 512], three().stride(2)), DType::F32, DENSE));
    }
    unique(cases)
}

pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let images = size.pick(1, 8, 64);
    let mut benches = Vec::new();
    for (name, x, weights) in [
        ("3x3 c64 56x56", [images, 56, 56, 64], [64, 3, 3, 64]),
        ("3x3 c256 14x14", [images, 14, 14, 256], [256, 3, 3, 256]),
        ("1x1 c256-64 56x56", [images, 56, 56, 256], [64, 1, 1, 256]),
    ] {
        let options = plain().padding(weights[1] / 2);
        let Ok(op) = of(&(&x, &weights, options), DType::F16, DENSE) else { continue };
        let name = format!("conv forward i8 {name} n{images}");
        benches.push(BenchCase::new(name, Suite::Gemm, op, Metric::Flops).beside());
    }
    benches
}
