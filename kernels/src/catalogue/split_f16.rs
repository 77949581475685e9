//! Kernels of the family split_f16: f32 operands of a product as high and low parts of f16. Source: `cuda/split_f16.cu`.

use super::KernelInfo;
use crate::{Param, Target};

/// `THREADS` in `cuda/split_f16.cu`.
pub(crate) const THREADS: u32 = 256;
/// `UNIT` there: elements of a line that a thread takes at a time.
pub(crate) const UNIT: u64 = 8;

/// The kernel that finds the largest magnitudes.
pub(crate) const MAXIMA: &str = "split_f16_maxima";
/// The kernel that splits.
pub(crate) const PARTS: &str = "split_f16_parts";

pub(crate) fn kernels() -> Vec<KernelInfo> {
    use Param::{Address, I64, U32};
    // first element, lines, their length, strides of lines and of elements, matrices, their stride
    const OPERAND: [Param; 7] = [Address, U32, U32, I64, I64, U32, I64];
    let of = |symbol: &str, maker: &str, more: &[Param]| KernelInfo {
        symbol: symbol.to_owned(),
        source: "split_f16.cu",
        instance: format!("{maker}({symbol})"),
        targets: &[Target::SM_90],
        block: [THREADS, 1, 1],
        params: [&OPERAND[..], &OPERAND[..], more].concat(),
        starts_early: true,
        ..KernelInfo::default()
    };
    vec![
        of(MAXIMA, "SPLIT_F16_MAXIMA", &[Address]),
        // maxima, how many of each matrix; A's and B's parts and pitches; factors
        of(PARTS, "SPLIT_F16_PARTS", &[Address, U32, Address, U32, Address, U32, Address]),
    ]
}
