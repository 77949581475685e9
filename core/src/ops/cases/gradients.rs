//! Cases for the proof of gradients, in f64, by kinds of operations: small ones of every rule, away from kinks; the same where elements are
//! equal or zero; and larger ones, with whole blocks of kernels' sizes and what is left over.
//!
//! `tests.rs` holds rules to them, and says which operation lacks which kind of case. `kinks.rs` says what a rule gives where there is no
//! derivative.

mod folds;
mod kinks;
mod maps;
mod moves;
mod norms;
mod products;
mod tests;
mod windows;

use super::add;
use crate::case::{Case, LayoutKind, Values, output};
use crate::ops::{BatchNorm, Map};
use crate::{DType, Expr, Program, Result, TensorSpec};

const F64: DType = DType::F64;

/// Equal elements, zeros among them. None is negative: of -1 and 1 the larger magnitude is none's alone.
const TIES: Values = Values::Integers(0, 2);

fn dense(dims: &[u64]) -> Result<TensorSpec> {
    LayoutKind::Dense.spec(F64, dims)
}

fn map(exprs: &[Expr], inputs: Vec<TensorSpec>, dims: &[u64]) -> Result<Map> {
    let dtypes: Vec<DType> = inputs.iter().map(|input| input.dtype).collect();
    let program = Program::compile_all(exprs, &dtypes)?;
    let outputs = (0..exprs.len()).map(|n| output(program.result_dtype(n), dims)).collect::<Result<Vec<_>>>()?;
    Map::several("map", program, inputs, &outputs, 0)
}

/// Small ones, which are proved element by element.
fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for of in [maps::small, folds::small, norms::small, products::small, moves::small, windows::small] {
        of(&mut cases);
    }
    cases
}

/// Shapes of hundreds and thousands of elements.
fn larger() -> Vec<Case> {
    let mut cases = Vec::new();
    for of in [maps::larger, folds::larger, norms::larger, products::larger, moves::larger, windows::larger] {
        of(&mut cases);
    }
    cases
}

/// The small ones with each float input zero in turn, and all with equal elements. Of programs those that are smooth there.
fn tied() -> Vec<Case> {
    let mut tied = Vec::new();
    maps::tied(&mut tied);
    for case in cases().into_iter().filter(|case| !case.op.is::<Map>()) {
        let inputs = case.op.inputs();
        let floats: Vec<usize> = (0..inputs.len()).filter(|&input| inputs[input].dtype.is_float()).collect();
        let with = |replaced: &[usize], by: Values| {
            let mut values = case.values.clone();
            replaced.iter().for_each(|&input| values[input] = by);
            Case::new(case.family, case.op.clone(), values)
        };
        tied.extend(floats.iter().map(|&input| with(&[input], Values::Constant(0.0))));
        // Where a factor and an addend are zero, relu is at its kink.
        if case.op.get::<BatchNorm>().is_none_or(|op| op.activation.is_none()) {
            tied.push(with(&floats, TIES));
        }
    }
    tied
}
