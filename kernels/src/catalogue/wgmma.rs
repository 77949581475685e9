//! Kernels of the family wgmma: warpgroup products (wgmma), Hopper: `cuda/gemm_wgmma.cuh`.

use super::KernelInfo;

pub(crate) fn kernels() -> Vec<KernelInfo> {
    Vec::new()
}
