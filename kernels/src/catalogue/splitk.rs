//! Kernels of the family splitk: the sums of slabs of K are added, and the product is ended; of quantised operands with their
//! scales. Source: `cuda/splitk.cu`.

use super::KernelInfo;
use crate::{Param, Target};

/// `THREADS` in `cuda/splitk.cu`.
pub(crate) const THREADS: u32 = 128;

/// A type of sums and one of results: how symbols and C++ name them, bytes of a sum, whether scales are applied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Instance {
    pub sum: &'static str,
    pub out: &'static str,
    cpp: [&'static str; 2],
    pub sum_bytes: u64,
    pub scaled: bool,
}

const fn instance(sum: &'static str, out: &'static str, cpp: [&'static str; 2], sum_bytes: u64) -> Instance {
    Instance { sum, out, cpp, sum_bytes, scaled: false }
}

/// Sums of 8-bit integers or floats, as floats.
const fn scaled(sum: &'static str, out: &'static str, cpp: [&'static str; 2]) -> Instance {
    Instance { sum, out, cpp, sum_bytes: 4, scaled: true }
}

/// Every kernel of the family.
pub(crate) const INSTANCES: &[Instance] = &[
    instance("f32", "f32", ["float", "float"], 4),
    instance("f32", "f16", ["float", "__half"], 4),
    instance("f32", "bf16", ["float", "__nv_bfloat16"], 4),
    instance("f64", "f64", ["double", "double"], 8),
    instance("i32", "i32", ["int32_t", "int32_t"], 4),
    scaled("f32", "f32", ["float", "float"]),
    scaled("f32", "f16", ["float", "__half"]),
    scaled("f32", "bf16", ["float", "__nv_bfloat16"]),
    scaled("i32", "f32", ["int32_t", "float"]),
    scaled("i32", "f16", ["int32_t", "__half"]),
    scaled("i32", "bf16", ["int32_t", "__nv_bfloat16"]),
];

impl Instance {
    /// The kernel's name.
    pub fn symbol(&self) -> String {
        format!("splitk_{}{}_{}", if self.scaled { "scaled_" } else { "" }, self.sum, self.out)
    }

    /// Outputs of one thread, where their number is a multiple of it: 16 bytes of sums.
    pub fn vector(&self) -> u64 {
        16 / self.sum_bytes
    }

    fn info(&self) -> KernelInfo {
        let (symbol, [sum, out]) = (self.symbol(), self.cpp);
        let (scalar, scalar_cpp) = if self.sum == "f64" { (Param::F64, "double") } else { (Param::F32, "float") };
        let maker = if self.scaled { "SPLITK_SCALED" } else { "SPLITK" };
        let scales = if self.scaled { &super::SCALES[..] } else { &[] };
        use Param::{Address, I64, U32};
        KernelInfo {
            instance: format!("{maker}({symbol}, {sum}, {out}, {scalar_cpp})"),
            symbol,
            source: "splitk.cu",
            targets: Target::EVERYWHERE,
            block: [THREADS, 1, 1],
            starts_early: true,
            #[rustfmt::skip]
            params: [&[
                Address, Address,   // sums, d
                U32, U32, U32, U32, // slabs, batches, m, n
                scalar, scalar,     // alpha, beta
                Address, I64, I64,  // c, pitch, batch stride
                Address, U32,       // bias, activation
            ], scales].concat(),
            ..KernelInfo::default()
        }
    }
}

pub(crate) fn kernels() -> Vec<KernelInfo> {
    INSTANCES.iter().map(Instance::info).collect()
}
