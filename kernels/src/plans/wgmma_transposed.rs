//! Products of f32 at `Medium` and `Low` whose B lies along n, as transposed ones: B^T comes into registers, and needs no launch
//! that turns it around (`cuda/gemm_wgmma_transposed.cuh`). A is packed where it does not lie along k.

use polywarp_core::ops::{Matmul, MatmulDims};
use polywarp_core::{DType, Precision};

use super::source::{Prepared, Way};
use super::{Operand, Problem};
use crate::catalogue::Major;
use crate::catalogue::wgmma::transposed_instances;
use crate::plans::ending::Ending;
use crate::{Candidate, Caps};

pub(super) fn products(op: &Matmul, caps: &Caps) -> Option<Vec<Candidate>> {
    let serves = op.a.dtype == DType::F32 && matches!(op.precision, Precision::Medium | Precision::Low);
    let way = Way::of(op).filter(|_| serves)?;
    let b = way.as_it_lies(Operand::b(op)?).filter(|b| b.major == Major::Mn)?;
    let mut prepared = Prepared::default();
    let a = prepared.operand_along_k(Operand::a(op)?, &way, caps)?;
    let MatmulDims { m, n, .. } = op.dims();
    let dims = MatmulDims { m: n, n: m, ..op.dims() };
    let problem = Problem { dims, ..Problem::new(op, b, a, Ending::of(op, caps)?, caps) };
    let mut found = Vec::new();
    for instance in transposed_instances() {
        found.extend(problem.candidate(instance, 1, &prepared));
        let slabs = problem.slabs(instance);
        if slabs > 1 {
            found.extend(problem.candidate(instance, slabs, &prepared));
        }
    }
    Some(found)
}

#[cfg(test)]
#[path = "wgmma_transposed_tests.rs"]
mod tests;
