//! Residual networks (He et al., arXiv 1512.03385): classifiers of images.
//!
//! Layers, names and starting values are those of torchvision's `resnet18` to `resnet101`, whose files load as they are; the stride of a bottleneck
//! is that of its 3x3 convolution. The decision to know: images are [images, height, width, channels], channels last; permute those of
//! PyTorch.

mod folded;

pub use folded::FoldedResNet;

use polywarp_core::ops::{BatchNormEnd, ConvolutionOptions, PoolOptions};
use polywarp_core::{Result, Tensor, UnaryFn};

use crate::{BatchNorm, Bias, Builder, Conv2d, Init, Linear, Mode, Watched, invalid};

/// What a residual network is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ResNetBlock {
    /// Two 3x3 convolutions: ResNet-18 and -34.
    Basic,
    /// 1x1, 3x3 and 1x1 to four times the width: ResNet-50 and -101.
    Bottleneck,
}

impl ResNetBlock {
    /// Channels that a block of `width` gives.
    fn outputs(self, width: u64) -> u64 {
        match self {
            ResNetBlock::Basic => width,
            ResNetBlock::Bottleneck => width.saturating_mul(4),
        }
    }
}

/// What stands before the stages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum ResNetEntry {
    /// A 7x7 convolution of stride 2 and a maximum of 3x3 of stride 2, as torchvision's: a quarter of height and width.
    #[default]
    Quarter,
    /// A 3x3 convolution of stride 1, for small images (section 4.2 of the paper).
    Whole,
}

/// The sizes of a [`ResNet`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ResNetConfig {
    /// What it is made of.
    pub block: ResNetBlock,
    /// Blocks and width of each stage. All but the first halve height and width.
    pub stages: Vec<[u64; 2]>,
    /// Channels of an image.
    pub channels: u64,
    /// Channels behind the first convolution.
    pub stem: u64,
    /// How that convolution is.
    pub entry: ResNetEntry,
    /// Classes.
    pub classes: u64,
}

impl ResNetConfig {
    fn of_imagenet(block: ResNetBlock, blocks: [u64; 4]) -> ResNetConfig {
        let stages = blocks.into_iter().zip([64, 128, 256, 512]).map(|(blocks, width)| [blocks, width]).collect();
        ResNetConfig { block, stages, channels: 3, stem: 64, entry: ResNetEntry::Quarter, classes: 1000 }
    }

    /// 11.7 million parameters.
    pub fn resnet18() -> ResNetConfig {
        ResNetConfig::of_imagenet(ResNetBlock::Basic, [2, 2, 2, 2])
    }

    /// 21.8 million parameters.
    pub fn resnet34() -> ResNetConfig {
        ResNetConfig::of_imagenet(ResNetBlock::Basic, [3, 4, 6, 3])
    }

    /// 25.6 million parameters.
    pub fn resnet50() -> ResNetConfig {
        ResNetConfig::of_imagenet(ResNetBlock::Bottleneck, [3, 4, 6, 3])
    }

    /// 44.5 million parameters.
    pub fn resnet101() -> ResNetConfig {
        ResNetConfig::of_imagenet(ResNetBlock::Bottleneck, [3, 4, 23, 3])
    }
}

const RELU: BatchNormEnd<'static> = BatchNormEnd { residual: None, activation: Some(UnaryFn::Relu) };

/// A convolution without bias and the normalisation behind it.
#[derive(Clone, Debug)]
struct Normed {
    conv: Conv2d,
    norm: BatchNorm,
}

impl Normed {
    /// Starting values as torchvision's: normal numbers of deviation sqrt(2 / n), n being the outputs that an input reaches.
    fn new(
        builder: &mut Builder,
        [conv, norm]: [&str; 2],
        channels: [u64; 2],
        taps: u64,
        stride: u64,
    ) -> Result<Normed> {
        let options = ConvolutionOptions::default().stride(stride).padding(taps / 2);
        let std = (2.0 / (channels[1] as f64 * (taps * taps) as f64)).sqrt() as f32;
        let init = Init::Normal { mean: 0.0, std };
        let conv = Conv2d::with_init(builder, conv, channels, [taps; 2], options, init, None)?;
        Ok(Normed { conv, norm: BatchNorm::new(builder, norm, channels[1])? })
    }

    fn forward(&self, parameters: &Watched, x: &Tensor, mode: Mode, end: &BatchNormEnd<'_>) -> Result<Tensor> {
        self.norm.forward_end(parameters, &self.conv.forward(parameters, x)?, mode, end)
    }
}

/// Convolutions beside a way around them.
#[derive(Clone, Debug)]
struct Block {
    convolutions: Vec<Normed>,
    /// Where the shape changes.
    projection: Option<Normed>,
}

impl Block {
    fn new(
        builder: &mut Builder,
        prefix: &str,
        block: ResNetBlock,
        inputs: u64,
        width: u64,
        stride: u64,
    ) -> Result<Block> {
        let outputs = block.outputs(width);
        let parts: &[([u64; 2], u64, u64)] = match block {
            ResNetBlock::Basic => &[([inputs, width], 3, stride), ([width; 2], 3, 1)],
            ResNetBlock::Bottleneck => &[([inputs, width], 1, 1), ([width; 2], 3, stride), ([width, outputs], 1, 1)],
        };
        let part = |(number, &(channels, taps, stride)): (usize, &([u64; 2], u64, u64))| {
            let names = ["conv", "bn"].map(|part| format!("{prefix}.{part}{}", number + 1));
            Normed::new(builder, [&names[0], &names[1]], channels, taps, stride)
        };
        let convolutions = parts.iter().enumerate().map(part).collect::<Result<_>>()?;
        let projection = if stride != 1 || inputs != outputs {
            let names = [format!("{prefix}.downsample.0"), format!("{prefix}.downsample.1")];
            Some(Normed::new(builder, [&names[0], &names[1]], [inputs, outputs], 1, stride)?)
        } else {
            None
        };
        Ok(Block { convolutions, projection })
    }

    fn forward(&self, parameters: &Watched, x: &Tensor, mode: Mode) -> Result<Tensor> {
        let around = match &self.projection {
            Some(projection) => projection.forward(parameters, x, mode, &BatchNormEnd::default())?,
            None => x.clone(),
        };
        let mut y = x.clone();
        for (number, part) in self.convolutions.iter().enumerate() {
            let is_last = number + 1 == self.convolutions.len();
            let end = BatchNormEnd { residual: is_last.then_some(&around), ..RELU };
            y = part.forward(parameters, &y, mode, &end)?;
        }
        Ok(y)
    }
}

/// The network: names and sizes, no tensors.
#[derive(Clone, Debug)]
pub struct ResNet {
    config: ResNetConfig,
    stem: Normed,
    blocks: Vec<Block>,
    head: Linear,
}

impl ResNet {
    /// Registers the network, under torchvision's names.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for no stages or one without blocks; as [`Builder::add`].
    pub fn new(builder: &mut Builder, config: ResNetConfig) -> Result<ResNet> {
        if config.stages.is_empty() || config.stages.iter().any(|[blocks, _]| *blocks == 0) {
            return invalid("ResNet", format!("stages of {:?} blocks and widths: each needs a block", config.stages));
        }
        let (taps, stride) = match config.entry {
            ResNetEntry::Quarter => (7, 2),
            ResNetEntry::Whole => (3, 1),
        };
        let stem = Normed::new(builder, ["conv1", "bn1"], [config.channels, config.stem], taps, stride)?;
        let (mut blocks, mut inputs) = (Vec::new(), config.stem);
        for (stage, [count, width]) in config.stages.iter().enumerate() {
            for number in 0..*count {
                let prefix = format!("layer{}.{number}", stage + 1);
                let stride = if stage > 0 && number == 0 { 2 } else { 1 };
                blocks.push(Block::new(builder, &prefix, config.block, inputs, *width, stride)?);
                inputs = config.block.outputs(*width);
            }
        }
        let head = Linear::new(builder, "fc", inputs, config.classes, Bias::Yes)?;
        Ok(ResNet { config, stem, blocks, head })
    }

    /// The sizes.
    pub fn config(&self) -> &ResNetConfig {
        &self.config
    }

    /// Images [images, height, width, channels] -> logits [images, classes], in the dtype of the parameters.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`](polywarp_core::Error::InvalidArgument) for images of another rank; as the operations.
    pub fn forward(&self, parameters: &Watched, images: &Tensor, mode: Mode) -> Result<Tensor> {
        if images.rank() != 4 {
            let reason = format!("they must be [images, height, width, channels], not {}", images.shape());
            return invalid("images", reason);
        }
        let mut x = self.stem.forward(parameters, images, mode, &RELU)?;
        if self.config.entry == ResNetEntry::Quarter {
            x = x.max_pool(&PoolOptions::window(3).stride(2).padding(1))?;
        }
        for block in &self.blocks {
            x = block.forward(parameters, &x, mode)?;
        }
        self.head.forward(parameters, &x.mean([1, 2])?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What torchvision says of its networks.
    #[test]
    fn networks_have_as_many_parameters_as_torchvisions() {
        for (config, parameters) in [
            (ResNetConfig::resnet18(), 11_689_512),
            (ResNetConfig::resnet34(), 21_797_672),
            (ResNetConfig::resnet50(), 25_557_032),
            (ResNetConfig::resnet101(), 44_549_160),
        ] {
            let mut builder = Builder::new(0);
            ResNet::new(&mut builder, config.clone()).unwrap();
            assert_eq!(builder.elements(), parameters, "{config:?}");
        }
        let none = ResNetConfig { stages: Vec::new(), ..ResNetConfig::resnet18() };
        assert!(ResNet::new(&mut Builder::new(0), none).is_err());
    }
    /// torchvision's `BasicBlock`, first as it is and then where the shape changes.
    #[test]
    fn blocks_of_two_convolutions_have_torchvisions_names() {
        let config = ResNetConfig { stages: vec![[1, 8], [1, 16]], stem: 8, ..ResNetConfig::resnet18() };
        let mut builder = Builder::new(0);
        ResNet::new(&mut builder, config).unwrap();
        let parameters = builder.build(&polywarp_core::Device::cpu()).unwrap();
        let mut expected = vec!["conv1.weight".to_owned(), "fc.weight".to_owned(), "fc.bias".to_owned()];
        let mut norms = vec!["bn1".to_owned(), "layer2.0.downsample.1".to_owned()];
        expected.push("layer2.0.downsample.0.weight".to_owned());
        for (layer, part) in [(1, 1), (1, 2), (2, 1), (2, 2)] {
            expected.push(format!("layer{layer}.0.conv{part}.weight"));
            norms.push(format!("layer{layer}.0.bn{part}"));
        }
        expected.extend(norms.iter().flat_map(|norm| ["weight", "bias"].map(|part| format!("{norm}.{part}"))));
        let mut names: Vec<String> = parameters.names().map(str::to_owned).collect();
        names.sort_unstable();
        expected.sort();
        assert_eq!(names, expected);
        for part in ["running_mean", "running_var", "num_batches_tracked"] {
            norms.iter().for_each(|norm| drop(parameters.get(&format!("{norm}.{part}")).unwrap()));
        }
    }
}
