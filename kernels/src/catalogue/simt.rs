//! Kernels of the family simt: plain cores, packing and quantising.

use super::KernelInfo;

pub(crate) fn kernels() -> Vec<KernelInfo> {
    Vec::new()
}
