//! Kernels of the family mma_sync: warp-level products (mma.sync), sm_80 and later: `cuda/gemm_mma_sync.cuh`.

use super::KernelInfo;

pub(crate) fn kernels() -> Vec<KernelInfo> {
    Vec::new()
}
