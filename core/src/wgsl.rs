//! WGSL text that planners of several operations share: how elements of each dtype are declared, read and written, functions of one and two
//! values, keys that order as elements do, indices, words of `Params`, and how long loops are.
//!
//! The texts themselves lie in `core/wgsl`, plain WGSL that any tool reads, and in `core/wgsl/pieces`, with named holes ([`pieces`]).

pub(crate) mod element;
pub(crate) mod index;
pub(crate) mod keys;
pub(crate) mod math;
pub(crate) mod params;
pub(crate) mod pieces;
pub(crate) mod rounds;
#[cfg(test)]
pub(crate) mod validate;
