//! The gradient of a product, computed by products with its factors.

use super::Matmul;
use crate::gradient::{Gradient, Needs};
use crate::ops::{RuleBuilder, Value};
use crate::{DType, Expr, KeepDims, Layout, Program, ReduceFn, Result, TensorSpec};

/// For D = alpha A B + beta C + bias: dA = alpha dD B^T, dB = alpha A^T dD, dC = beta dD, and the bias's gradient is
/// the sum of dD's rows. With an activation, D is computed again without it, and the activation's derivative there
/// multiplies dD first.
pub(super) fn of(op: &Matmul, needs: &Needs<'_>) -> Result<Gradient> {
    if op.scale_a.is_some() || op.scale_b.is_some() || !op.output.dtype.is_float() {
        return Ok(Gradient::Refused("quantised products have no rule: train in floats"));
    }
    let mut rule = RuleBuilder::new(op, needs)?;
    let (a, b, mut dd) = (rule.input(0)?, rule.input(1)?, rule.gradient(0)?);
    let places = op.places();
    let scaled = |rule: &mut RuleBuilder, value: Value, factor: f64, dtype: DType| {
        let compute = value.dtype().compute();
        if factor == 1.0 && value.dtype() == dtype {
            return Ok(value);
        }
        rule.graph.map(&(Expr::input(0).cast(compute) * Expr::constant(factor).cast(compute)).cast(dtype), &[value])
    };
    if let Some(activation) = op.activation.filter(|_| needs.inputs.contains(&true)) {
        let inputs = (0..needs.inputs.len()).map(|input| rule.input(input)).collect::<Result<Vec<_>>>()?;
        let output = TensorSpec::new(op.output.dtype, Layout::contiguous(*op.output.layout.shape()));
        let before = rule.graph.apply(Matmul { activation: None, output, ..op.clone() }.check()?, &inputs)?;
        let program = Program::compile(&Expr::input(0).unary(activation), &[op.output.dtype])?;
        let slopes = program.derivative(1, &[0], &[true])?;
        let values = [before[0], rule.output(0)?, dd];
        let known: Vec<Expr> = slopes.into_iter().flatten().collect();
        dd = rule
            .graph
            .map_used(&known, &values)?
            .pop()
            .map_or_else(|| rule.graph.full(dd.dtype(), *op.output.layout.shape(), 0), Ok)?;
    }
    let mut gradients = Vec::new();
    // Both factors of a product have one dtype: a gradient in a wider dtype is cast to theirs first.
    let dd_of_a = rule.graph.cast(dd, op.a.dtype)?;
    for input in 0..needs.inputs.len() {
        if !rule.wants(input) {
            continue;
        }
        let gradient = match input {
            0 | 1 => {
                let (left, right) = if input == 0 { (dd_of_a, b.t()?) } else { (a.t()?, dd_of_a) };
                let product = rule.graph.matmul(left, right, op.precision, op.a.dtype)?;
                scaled(&mut rule, product, op.alpha, op.a.dtype)?
            }
            _ if places.c == Some(input) => scaled(&mut rule, dd, op.beta, op.output.dtype)?,
            _ if places.bias == Some(input) => {
                let axes: Vec<usize> = (0..dd.dims().len() - 1).collect();
                rule.graph.reduce(ReduceFn::Sum, dd, &axes, KeepDims::No)?
            }
            _ => continue,
        };
        gradients.push(Some(gradient));
    }
    rule.finish(gradients)
}
