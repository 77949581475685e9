//! Products whose B lies along n, as transposed ones (`cuda/gemm_wgmma_transposed.cuh`). Of f32 at `Medium` and `Low` B^T comes into
//! registers, and needs no launch that turns it around; A is packed where it does not lie along k. 16-bit operands have other
//! kernels for all that; they get their tile of 64 x 144 where both operands and D lie as it wants them.

use polywarp_core::ops::{Matmul, MatmulDims};
use polywarp_core::{DType, Precision};

use super::source::Way;
use super::{Operand, Problem};
use crate::catalogue::Major;
use crate::catalogue::wgmma::{Instance, transposed_instances};
use crate::plans::ending::Ending;
use crate::plans::pack::Prepared;
use crate::{Candidate, Caps};

pub(super) fn products(op: &Matmul, caps: &Caps) -> Option<Vec<Candidate>> {
    let as_tf32 = op.a.dtype == DType::F32 && matches!(op.precision, Precision::Medium | Precision::Low);
    // Rows of D are multiples of 16 bytes.
    let of_16_bits = matches!(op.a.dtype, DType::F16 | DType::BF16) && op.dims().n.is_multiple_of(8);
    let way = Way::of(op).filter(|_| as_tf32 || of_16_bits)?;
    let b = way.as_it_lies(Operand::b(op)?).filter(|b| b.major == Major::Mn)?;
    let mut prepared = Prepared::default();
    let a = if of_16_bits {
        way.as_it_lies(Operand::a(op)?).filter(|a| a.major == Major::K)?
    } else {
        way.operand_along_k(&mut prepared, Operand::a(op)?, caps)?
    };
    let MatmulDims { m, n, .. } = op.dims();
    let dims = MatmulDims { m: n, n: m, ..op.dims() };
    let problem = Problem { dims, ..Problem::new(op, b, a, Ending::of(op, caps)?, caps) };
    let mut found = Vec::new();
    let matches = |instance: &&Instance| (instance.operands(), instance.output) == (op.a.dtype, op.output.dtype);
    for instance in transposed_instances().iter().filter(matches) {
        found.extend(problem.candidate(instance, 1, &prepared));
        if as_tf32 {
            found.extend(problem.by_slabs(instance, &prepared));
        }
    }
    Some(found)
}

#[cfg(test)]
#[path = "wgmma_transposed_tests.rs"]
mod tests;
