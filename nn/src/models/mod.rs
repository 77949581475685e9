//! Whole networks, with the names that PyTorch's and transformers' files give their parameters.

mod bert;

pub use bert::{Bert, BertConfig, BertInput};
