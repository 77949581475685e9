//! What the file of an operation needs: `use super::prelude::*`.

pub(crate) use super::checks::{Checked, check_dense_output, check_dtype, check_float, check_not_empty, check_output};
pub(crate) use super::operands::operands;
pub(crate) use super::sample::{self, Thinning};
pub(crate) use super::{
    Arithmetic, Builder, Content, Facts, Op, Operand, Operation, ReduceFn, RuleBuilder, Sample, TensorSpec, Value,
    extent_of,
};
pub(crate) use crate::gradient::{Gradient, Needs};
pub(crate) use crate::graph::Graph;
#[cfg(feature = "cpu")]
pub(crate) use crate::operation::HostResult;
pub(crate) use crate::oracle::{Expected, HostTensor, chain, largest, numbers};
pub(crate) use crate::plan::{Candidate, Caps, Plan};
pub(crate) use crate::tensor::Lines;
pub(crate) use crate::{
    Axes, BinaryFn, CompareFn, DType, Error, Expr, KeepDims, Layout, Result, Scalar, Shape, Tensor, UnaryFn,
};
