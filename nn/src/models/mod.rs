//! Whole networks, with the names that PyTorch's, torchvision's and transformers' files give their parameters.

mod bert;
mod decoder;
mod resnet;

pub use bert::{Bert, BertConfig, BertInput};
pub use decoder::{Decoder, DecoderConfig, TokenChoice};
pub use resnet::{FoldedResNet, ResNet, ResNetBlock, ResNetConfig, ResNetEntry};
