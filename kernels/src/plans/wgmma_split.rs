//! f32 products at `High` as three of f16 parts: twice as fast as by tf32, whose parts have as many bits.
//!
//! Parts lie as the operands do, along k or along rows, which wgmma takes of 16 bits alone.

use polywarp_core::ops::Matmul;
use polywarp_core::{DType, Precision};

use super::super::ending::Ending;
use super::super::operand::Operand;
use super::super::source::Source;
use super::super::split_f16::split;
use super::Problem;
use crate::catalogue::wgmma::split_instances;
use crate::{Candidate, Caps, Element};

/// Low x high, high x low, high x high.
const TERMS: u64 = 3;

pub(super) fn products(op: &Matmul, caps: &Caps) -> Option<Vec<Candidate>> {
    if op.a.dtype != DType::F32 || op.b.dtype != DType::F32 || op.precision != Precision::High {
        return None;
    }
    let ending = Ending::of(op, caps)?;
    let parts = split([Operand::a(op)?, Operand::b(op)?], op.dims().batch, caps)?;
    let source = |i: usize| Source::of(parts.operands[i].operand, Element::F16, true, parts.operands[i].plane_stride);
    let (a, b) = (source(0)?, source(1)?);
    let problem =
        Problem { terms: TERMS, factors: Some(parts.factors.clone()), ..Problem::new(op, a, b, ending, caps) };
    let mut found = Vec::new();
    for instance in split_instances() {
        if (instance.major_a, instance.major_b) == (problem.a.major, problem.b.major) {
            found.extend(problem.candidate(instance, 1, &parts.prepared));
            found.extend(problem.by_slabs(instance, &parts.prepared));
        }
    }
    Some(found)
}

#[cfg(test)]
#[path = "wgmma_split_tests.rs"]
mod tests;
