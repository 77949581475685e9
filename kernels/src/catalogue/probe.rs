//! Probes: kernels that compute nothing and show that launching works. Source: `cuda/probe.cu`.
//!
//! `polywarp-cuda`'s tests launch them: arguments of each type at the right place, dynamic shared memory, clusters, tensor
//! maps of each element type.

use super::KernelInfo;
use crate::{Param, Target};

/// Rows of the box that `probe_tensor_map` copies; `BOX_ROWS` in `cuda/probe.cu`.
pub(crate) const BOX_ROWS: u32 = 8;
/// Columns of it: 128 bytes of f32, a whole row of the widest swizzle.
pub(crate) const BOX_COLUMNS: u32 = 32;

/// `ARGUMENTS_SHARED_BYTES` in `cuda/probe.cu`: more than a block has unasked.
const ARGUMENTS_SHARED_BYTES: u32 = 64 << 10;

pub(crate) fn kernels() -> Vec<KernelInfo> {
    use Param::*;
    let arguments = KernelInfo {
        symbol: "probe_arguments".to_owned(),
        source: "probe.cu",
        instance: "PROBE_ARGUMENTS(probe_arguments)".to_owned(),
        targets: &[Target::SM_80, Target::SM_90, Target::SM_100, Target::SM_120, Target::PTX_80],
        block: [64, 1, 1],
        dynamic_shared_bytes: ARGUMENTS_SHARED_BYTES,
        params: vec![U32, Address, F32, I64, U32, F64, Address],
        ..KernelInfo::default()
    };
    let tensor_map = KernelInfo {
        symbol: "probe_tensor_map".to_owned(),
        source: "probe.cu",
        instance: "PROBE_TENSOR_MAP(probe_tensor_map)".to_owned(),
        // For sm_120 the assembler puts the waiting loop into a function with a stack.
        targets: &[Target::SM_90, Target::SM_100, Target::PTX_90],
        block: [BOX_COLUMNS, BOX_ROWS, 1],
        cluster: [2, 1, 1],
        params: vec![TensorMap, Address, U32, U32],
        ..KernelInfo::default()
    };
    vec![arguments, tensor_map]
}
