//! Kernels of the family splitk: the sums of slabs of K are added, and the product is ended. Source: `cuda/splitk.cu`.

use super::KernelInfo;
use crate::{Param, Target};

/// `THREADS` in `cuda/splitk.cu`.
pub(crate) const THREADS: u32 = 128;

/// A type of sums and one of results: how symbols and C++ name them, bytes of a sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    pub sum: &'static str,
    pub out: &'static str,
    cpp: [&'static str; 2],
    pub sum_bytes: u64,
}

const fn instance(sum: &'static str, out: &'static str, cpp: [&'static str; 2], sum_bytes: u64) -> Instance {
    Instance { sum, out, cpp, sum_bytes }
}

/// Every kernel of the family.
pub(crate) const INSTANCES: &[Instance] = &[
    instance("f32", "f32", ["float", "float"], 4),
    instance("f32", "f16", ["float", "__half"], 4),
    instance("f32", "bf16", ["float", "__nv_bfloat16"], 4),
    instance("f64", "f64", ["double", "double"], 8),
    instance("i32", "i32", ["int32_t", "int32_t"], 4),
];

impl Instance {
    /// The kernel's name.
    pub fn symbol(&self) -> String {
        format!("splitk_{}_{}", self.sum, self.out)
    }

    /// Outputs of one thread, where their number is a multiple of it: 16 bytes of sums.
    pub fn vector(&self) -> u64 {
        16 / self.sum_bytes
    }

    fn info(&self) -> KernelInfo {
        let (symbol, [sum, out]) = (self.symbol(), self.cpp);
        let (scalar, scalar_cpp) = if self.sum == "f64" { (Param::F64, "double") } else { (Param::F32, "float") };
        use Param::{Address, I64, U32};
        KernelInfo {
            instance: format!("SPLITK({symbol}, {sum}, {out}, {scalar_cpp})"),
            symbol,
            source: "splitk.cu",
            targets: Target::EVERYWHERE,
            block: [THREADS, 1, 1],
            starts_early: true,
            #[rustfmt::skip]
            params: vec![
                Address, Address,   // sums, d
                U32, U32, U32, U32, // slabs, batches, m, n
                scalar, scalar,     // alpha, beta
                Address, I64, I64,  // c, pitch, batch stride
                Address, U32,       // bias, activation
            ],
            ..KernelInfo::default()
        }
    }
}

pub(crate) fn kernels() -> Vec<KernelInfo> {
    INSTANCES.iter().map(Instance::info).collect()
}
