//! Convolutions of 16-bit floats for `native.rs`, both gradients, and convolutions of i8: windows at random over images that lie in wider ones, whose
//! sums are exact.

use polywarp_core::harness::{Case, Values};
use polywarp_core::ops::{Convolution, ConvolutionInput, ConvolutionOptions, ConvolutionWeights, QuantizedConvolution};
use polywarp_core::{DType, Error, Layout, Op, Result, Shape, TensorSpec, UnaryFn};

use super::Random;

const FAMILY: &str = "convolution";
const INTEGERS: Values = Values::Integers(-3, 3);
/// Elements in 16 bytes; of i8, two times as many.
const UNIT: u64 = 8;

/// The three operations of each of `count` random windows.
pub fn random(count: u64) -> Vec<Case> {
    (0..count).flat_map(|seed| three(&mut Random(seed ^ 0x636f_6e76_6f6c_7665)).expect("a convolution")).collect()
}

/// Convolutions of i8 by `count` random windows.
pub fn random_of_i8(count: u64) -> Vec<Case> {
    (0..count).map(|seed| quantised(&mut Random(seed ^ 0x6938_7363_616c_6573)).expect("a convolution")).collect()
}

/// Extents of x and of weights, and how windows move.
fn windows(rank: usize, channels: u64, filters: u64, r: &mut Random) -> (Vec<u64>, Vec<u64>, ConvolutionOptions) {
    let longest = [60, 14, 6][rank - 1];
    let (mut x, mut weights, mut options) = (vec![1 + r.below(3)], vec![filters], ConvolutionOptions::default());
    for _ in 0..rank {
        let taps = 1 + r.below([7, 5, 3][rank - 1]);
        let (stride, dilation) = (1 + r.below(3), if r.below(2) == 0 { 1 } else { 1 + r.below(3) });
        let padding = [r.below(4), r.below(3)];
        let least = (dilation * (taps - 1) + 1).saturating_sub(padding[0] + padding[1]).max(1);
        x.push(least.max(1 + r.below(longest)));
        weights.push(taps);
        options.stride.push(stride);
        options.dilation.push(dilation);
        options.padding.push(padding);
    }
    x.push(channels);
    weights.push(channels);
    options.activation = (r.below(3) == 0).then_some(UnaryFn::Relu);
    (x, weights, options)
}

/// Gradients read y by whole units; a convolution writes any number of filters.
fn filters(r: &mut Random) -> u64 {
    if r.below(3) == 0 { 1 + r.below(150) } else { UNIT * (1 + r.below(18)) }
}

/// Sums of small integers, times scales that are integers and halves: exact in f32, and rounded once.
fn quantised(r: &mut Random) -> Result<Case> {
    let to = r.pick(&[DType::F16, DType::BF16, DType::F32]);
    let rank = r.pick(&[1, 2, 2, 2]);
    let (channels, filters) = (2 * UNIT * (1 + r.below(11)), filters(r));
    let (x, weights, options) = windows(rank, channels, filters, r);
    let x = within_wider(DType::I8, &x, r)?;
    let dense = |dtype, dims: &[u64]| Ok::<_, Error>(TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims)?)));
    let mut weights = dense(DType::I8, &weights)?;
    weights.layout = weights.layout.with_offset(2 * UNIT * r.below(3));
    let mut each = dense(DType::F32, &[filters])?;
    if r.below(4) == 0 {
        // One for all.
        each.layout = Layout::strided(*each.layout.shape(), &[0], 0)?;
    }
    let op = QuantizedConvolution::new([x, weights, dense(DType::F32, &[1])?, each], to, &options)?;
    let mut of = op.of.clone();
    let y = of.output.layout;
    of.output.layout = y.with_offset(UNIT * r.below(3));
    of.residual = if r.below(2) == 0 { Some(within_wider(to, y.dims(), r)?) } else { None };
    of.bias = if r.below(2) == 0 { Some(dense(to, &[filters])?) } else { None };
    let ends = [of.residual, of.bias].iter().flatten().count();
    let scales = vec![Values::Constant(0.5), Values::Integers(1, 4)];
    let values = [vec![INTEGERS; 2 + ends], scales].concat();
    Ok(Case::new("quantized_convolution", QuantizedConvolution { of, ..op }.check()?, values).exact())
}

fn three(r: &mut Random) -> Result<Vec<Case>> {
    let dtype = r.pick(&[DType::F16, DType::BF16]);
    let rank = r.pick(&[1, 2, 2, 2, 3]);
    let (channels, filters) = (UNIT * (1 + r.below(9)), filters(r));
    let (x, weights, options) = windows(rank, channels, filters, r);
    let x = within_wider(dtype, &x, r)?;
    let weights = TensorSpec::new(dtype, Layout::contiguous(Shape::new(&weights)?).with_offset(UNIT * r.below(3)));
    let mut forward = Convolution::new(x, weights, &options)?;
    let y = forward.output.layout;
    forward.output.layout = y.with_offset(UNIT * r.below(3));
    forward.residual = if r.below(2) == 0 { Some(within_wider(dtype, y.dims(), r)?) } else { None };
    forward.bias = (r.below(2) == 0).then_some(TensorSpec::new(dtype, Layout::contiguous(Shape::new(&[filters])?)));
    let (operands, geometry) =
        (2 + usize::from(forward.residual.is_some()) + usize::from(forward.bias.is_some()), forward.geometry);
    let gradient = within_wider(dtype, y.dims(), r)?;
    let input = ConvolutionInput::of(geometry, gradient, weights)?;
    let of_weights = ConvolutionWeights::of(geometry, gradient, x)?;
    let ops: [(Op, usize); 3] = [(forward.check()?.into(), operands), (input.into(), 2), (of_weights.into(), 2)];
    Ok(ops.into_iter().map(|(op, operands)| Case::new(FAMILY, op, vec![INTEGERS; operands]).exact()).collect())
}

/// Pixels of `dims`, which lie in wider ones now and then, a whole number of units further and apart.
fn within_wider(dtype: DType, dims: &[u64], r: &mut Random) -> Result<TensorSpec> {
    let (pixels, channels) = (dims[..dims.len() - 1].iter().product::<u64>(), dims[dims.len() - 1]);
    let (more, first) = if r.below(3) == 0 { (UNIT * (1 + r.below(2)), UNIT) } else { (0, 0) };
    let rows = Layout::contiguous(Shape::new(&[pixels, channels + more])?).slice(1, first, first + channels, 1)?;
    let shape = Shape::new(dims)?;
    Ok(TensorSpec::new(dtype, rows.reshape(shape)?.unwrap_or(Layout::contiguous(shape))))
}
