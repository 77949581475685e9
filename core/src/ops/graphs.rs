//! Graphs of operations: writing them, and what is made of one.
//!
//! A [`Builder`] writes a [`Graph`](crate::graph::Graph) with the words of [`crate::Tensor`]; its [`Value`]s are views of places, so reshaping,
//! broadcasting and slicing cost nothing. An operation adds its own word in its own file (`impl Builder`). Beside it: rules of gradients
//! ([`RuleBuilder`]), the gradient of a whole graph, where results end ([`End`]), steps over the same rows as one ([`RowProgram`]), and a graph
//! as an operation ([`GraphOp`]).

mod builder;
mod ends;
mod gradient;
mod op;
pub(crate) mod rows;
mod rule;

pub use builder::{Builder, Value};
pub use ends::End;
pub use op::GraphOp;
pub use rows::{Extent, RowProgram};
pub use rule::RuleBuilder;

#[cfg(test)]
mod tests;
