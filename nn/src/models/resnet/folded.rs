//! A trained residual network made for use: without normalisation, and in 8 bits.
//!
//! In evaluation a normalisation multiplies each channel by one number and adds another, so both go into the filters before it (folding; Jacob
//! et al., arXiv 1712.05877, section 3.2). What is left are convolutions with bias, residual and relu. Of these, all between the first one
//! and the classifier can then be of i8: filters with a scale each, activations with one for each layer, from the largest magnitude
//! that examples gave there. The first convolution reads pixels of few channels and the classifier is small: both stay as they are, as is
//! customary. The decision to know: scales are found once, on examples, and not anew for each image, so that nothing is reduced while
//! the network is used.

use polywarp_core::ops::{ConvolutionOptions, PoolOptions};
use polywarp_core::{DType, Expr, Granularity, MatmulOptions, QuantizeScales, Quantized, Result, Tensor};

use super::{Block, Normed, ResNet, ResNetEntry};
use crate::{Watched, invalid};

/// The largest step of i8.
const LARGEST: f64 = 127.0;

/// A convolution with bias, residual and relu.
#[derive(Clone, Debug)]
struct Layer {
    filters: Filters,
    bias: Tensor,
    options: ConvolutionOptions,
}

/// The filters of a [`Layer`].
#[derive(Clone, Debug)]
enum Filters {
    Floats(Box<Tensor>),
    /// With a scale each, and the scale of what they meet.
    Steps(Box<(Quantized, QuantizeScales)>),
}

impl Layer {
    fn of(part: &Normed, parameters: &Watched, dtype: DType, relu: bool) -> Result<Layer> {
        let (weights, options) = part.conv.filters(parameters)?;
        let [factor, addend] = part.norm.line(parameters)?;
        let filters = weights.dims()[0];
        let factor = factor.reshape([filters, 1, 1, 1])?;
        let folded = (Expr::input(0) * Expr::input(1)).cast(dtype);
        let filters = Tensor::map(&folded, &[&weights.cast(DType::F32)?, &factor])?;
        let options = if relu { options.activation(polywarp_core::UnaryFn::Relu) } else { options };
        Ok(Layer { filters: Filters::Floats(Box::new(filters)), bias: addend.cast(dtype)?, options })
    }

    /// The steps of `x` that its filters meet, where they are steps.
    fn steps(&self, x: &Tensor) -> Result<Option<Quantized>> {
        match &self.filters {
            Filters::Floats(_) => Ok(None),
            Filters::Steps(both) => x.quantize_with(DType::I8, &both.1).map(Some),
        }
    }

    /// `steps`: those of `x`, where they are known.
    fn forward(&self, x: &Tensor, steps: Option<&Quantized>, residual: Option<&Tensor>) -> Result<Tensor> {
        match &self.filters {
            Filters::Floats(weights) => x.conv_with(weights, residual, Some(&self.bias), &self.options),
            Filters::Steps(both) => {
                let (weights, scale) = &**both;
                let steps = steps.map_or_else(|| x.quantize_with(DType::I8, scale), |steps| Ok(steps.clone()))?;
                steps.conv(weights, residual, Some(&self.bias), x.dtype(), &self.options)
            }
        }
    }

    /// With filters of i8, for inputs of at most `largest`, `[1]`.
    fn quantised(&self, largest: &Tensor) -> Result<Layer> {
        let Filters::Floats(weights) = &self.filters else { return Ok(self.clone()) };
        let weights = weights.quantize(DType::I8, Granularity::PerFilter)?;
        let scale = largest.cast(DType::F32)?.mul_scalar(1.0 / LARGEST)?;
        Ok(Layer { filters: Filters::Steps(Box::new((weights, QuantizeScales::new(&scale)?))), ..self.clone() })
    }

    fn size_bytes(&self) -> u64 {
        let filters = match &self.filters {
            Filters::Floats(weights) => weights.spec().bytes(),
            Filters::Steps(both) => both.0.size_bytes() + both.1.size_bytes(),
        };
        filters + self.bias.spec().bytes()
    }
}

/// Layers beside a way around them.
#[derive(Clone, Debug)]
struct FoldedBlock {
    layers: Vec<Layer>,
    projection: Option<Layer>,
}

impl FoldedBlock {
    fn of(block: &Block, parameters: &Watched, dtype: DType) -> Result<FoldedBlock> {
        let layers = block.convolutions.iter().map(|part| Layer::of(part, parameters, dtype, true));
        let projection = block.projection.as_ref().map(|part| Layer::of(part, parameters, dtype, false));
        Ok(FoldedBlock { layers: layers.collect::<Result<_>>()?, projection: projection.transpose()? })
    }

    /// Every layer, in the order in which `see` meets them.
    fn all(&self) -> impl Iterator<Item = &Layer> {
        self.projection.iter().chain(&self.layers)
    }

    fn forward(&self, x: &Tensor, see: &mut dyn FnMut(&Tensor) -> Result<()>) -> Result<Tensor> {
        // The first layer reads what the projection does, and has its scale: the same examples were seen there.
        let mut steps = None;
        let around = match &self.projection {
            Some(projection) => {
                see(x)?;
                steps = projection.steps(x)?;
                projection.forward(x, steps.as_ref(), None)?
            }
            None => x.clone(),
        };
        let mut y = x.clone();
        for (number, layer) in self.layers.iter().enumerate() {
            see(&y)?;
            y = layer.forward(&y, steps.take().as_ref(), (number + 1 == self.layers.len()).then_some(&around))?;
        }
        Ok(y)
    }
}

/// A trained [`ResNet`] for use: tensors of its own, which later steps of training do not change.
#[derive(Clone, Debug)]
pub struct FoldedResNet {
    entry: ResNetEntry,
    stem: Layer,
    blocks: Vec<FoldedBlock>,
    /// Weights and bias.
    head: [Tensor; 2],
}

impl ResNet {
    /// The network for use in `dtype` (f32, f16 or bf16), normalisation by running statistics folded into its filters.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`](polywarp_core::Error::UndefinedForDType) for another dtype; memory errors of the device.
    pub fn folded(&self, parameters: &Watched, dtype: DType) -> Result<FoldedResNet> {
        let stem = Layer::of(&self.stem, parameters, dtype, true)?;
        let blocks =
            self.blocks.iter().map(|block| FoldedBlock::of(block, parameters, dtype)).collect::<Result<_>>()?;
        let [weight, bias] = self.head.tensors(parameters)?;
        let head = [weight.cast(dtype)?.contiguous()?, bias.cast(dtype)?.contiguous()?];
        Ok(FoldedResNet { entry: self.config.entry, stem, blocks, head })
    }
}

impl FoldedResNet {
    /// The same with filters and activations of i8, but for the first convolution and the classifier. `examples` are batches of images as
    /// [`FoldedResNet::forward`] takes them: some hundred that look like those to come. An activation larger than any of theirs is cut off.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for no examples; as [`FoldedResNet::forward`].
    pub fn quantised(&self, examples: &[Tensor]) -> Result<FoldedResNet> {
        let mut largest: Vec<Tensor> = Vec::new();
        for images in examples {
            let mut number = 0;
            self.run(images, &mut |x| {
                let here = x.abs()?.max(..)?.reshape([1])?;
                match largest.get_mut(number) {
                    Some(so_far) => *so_far = so_far.maximum(&here)?,
                    None => largest.push(here),
                }
                number += 1;
                Ok(())
            })?;
        }
        if largest.is_empty() {
            return invalid("examples", "none: the scales of activations are found on images".to_owned());
        }
        let mut largest = largest.iter();
        let mut quantised = |layer: &Layer| match largest.next() {
            Some(largest) => layer.quantised(largest),
            None => Ok(layer.clone()),
        };
        let block = |block: &FoldedBlock| {
            let projection = block.projection.as_ref().map(&mut quantised).transpose()?;
            Ok(FoldedBlock { projection, layers: block.layers.iter().map(&mut quantised).collect::<Result<_>>()? })
        };
        Ok(FoldedResNet { blocks: self.blocks.iter().map(block).collect::<Result<_>>()?, ..self.clone() })
    }

    /// Images [images, height, width, channels] -> logits [images, classes], both of the network's dtype.
    ///
    /// # Errors
    /// As [`ResNet::forward`].
    pub fn forward(&self, images: &Tensor) -> Result<Tensor> {
        self.run(images, &mut |_| Ok(()))
    }

    /// Bytes of filters, scales, biases and classifier.
    pub fn size_bytes(&self) -> u64 {
        let layers = self.blocks.iter().flat_map(FoldedBlock::all).chain([&self.stem]).map(Layer::size_bytes);
        layers.chain(self.head.iter().map(|tensor| tensor.spec().bytes())).sum()
    }

    /// [`FoldedResNet::forward`], showing `see` what each layer between the first convolution and the classifier reads.
    fn run(&self, images: &Tensor, see: &mut dyn FnMut(&Tensor) -> Result<()>) -> Result<Tensor> {
        if images.rank() != 4 {
            let reason = format!("they must be [images, height, width, channels], not {}", images.shape());
            return invalid("images", reason);
        }
        let mut x = self.stem.forward(images, None, None)?;
        if self.entry == ResNetEntry::Quarter {
            x = x.max_pool(&PoolOptions::window(3).stride(2).padding(1))?;
        }
        for block in &self.blocks {
            x = block.forward(&x, see)?;
        }
        let [weight, bias] = &self.head;
        x.mean([1, 2])?.matmul_with(&weight.t()?, &MatmulOptions { bias: Some(bias), ..MatmulOptions::default() })
    }
}
