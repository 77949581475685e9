//! Kernels of the family reduce_parts: one number from those of several tiles. Source: `cuda/reduce_parts.cu`.

use polywarp_core::DType;
use polywarp_core::ops::ReduceFn;

use super::KernelInfo;
use crate::{Param, Target};

/// `COLUMNS` in `cuda/reduce_parts.cu`: results of a block.
pub(crate) const COLUMNS: u64 = 32;
/// Threads of a block.
const THREADS: u32 = 256;

/// The number by which kernels know a function (`Function` in `cuda/reduction.cuh`); a mean is a sum that is divided.
pub(crate) fn number(function: ReduceFn) -> Option<u32> {
    Some(match function {
        ReduceFn::Mean | ReduceFn::Sum => 0,
        ReduceFn::Max => 1,
        ReduceFn::Min => 2,
        ReduceFn::AbsMax => 3,
        ReduceFn::All | ReduceFn::Any | ReduceFn::Prod => return None,
    })
}

/// The kernel for numbers of this type, f32 or i32.
pub(crate) fn symbol(dtype: DType) -> String {
    format!("reduce_parts_{dtype}")
}

pub(crate) fn kernels() -> Vec<KernelInfo> {
    use Param::{Address, F32, U32};
    let of = |(dtype, cpp): (DType, &str)| {
        let symbol = symbol(dtype);
        KernelInfo {
            source: "reduce_parts.cu",
            instance: format!("REDUCE_PARTS({symbol}, {cpp})"),
            symbol,
            targets: &[Target::SM_90],
            block: [THREADS, 1, 1],
            starts_early: true,
            // parts, results; parts of a result, results, function, divisor
            params: vec![Address, Address, U32, U32, U32, F32],
            ..KernelInfo::default()
        }
    };
    [(DType::F32, "float"), (DType::I32, "int32_t")].map(of).to_vec()
}
