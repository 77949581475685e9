//! Whole networks, with the names that PyTorch's and transformers' files give their parameters.

mod bert;
mod decoder;

pub use bert::{Bert, BertConfig, BertInput};
pub use decoder::{Decoder, DecoderConfig, TokenChoice};
