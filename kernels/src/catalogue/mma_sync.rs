//! Kernels of the family mma_sync: warp-level products (mma.sync), sm_80 and later: `cuda/gemm_mma_sync.cuh`.
//!
//! [`INSTANCES`] is the list; symbols, lines of C++, threads and shared memory follow from it. The planner
//! (`plans/mma_sync.rs`) walks over the same list. One kernel writes f32 or the operands' 16-bit type, as it is told, so
//! results do not multiply the instances.

use std::sync::LazyLock;

use super::{KernelInfo, Tile};
use crate::{Param, Target};

/// What is multiplied, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Operands {
    F16,
    BF16,
    /// f32, rounded to tf32.
    Tf32,
    I8,
    U8,
    F64,
}

/// Along which dimension neighbours in memory lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Major {
    /// K.
    K,
    /// M of A, N of B.
    Mn,
}

/// How an operand is read: bytes that all of its row starts are aligned to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Access {
    /// Any start.
    Any,
    /// 4 bytes.
    Bytes4,
    /// 8 bytes.
    Bytes8,
    /// 16 bytes.
    Bytes16,
}

impl Access {
    pub fn bytes(self) -> u64 {
        match self {
            Access::Any => 1,
            Access::Bytes4 => 4,
            Access::Bytes8 => 8,
            Access::Bytes16 => 16,
        }
    }
}

/// How warps of a block keep to the same tile of K (`Pace` in the source).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Pace {
    Together,
    Apart,
}

/// A tile and how a block works on it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Shape {
    pub tile: Tile,
    /// Warps along M and N.
    pub warps: [u32; 2],
    /// Blocks that registers let a multiprocessor hold.
    pub blocks: u32,
    pub access: Access,
    pub pace: Pace,
    /// Share of the tensor cores' rate that large products reach (H200, 8192 and 4096 cubed, docs/gemm.md).
    pub efficiency: f64,
}

/// One kernel.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub operands: Operands,
    pub shape: Shape,
    pub a: Major,
    pub b: Major,
    pub symbol: String,
}

const fn shape([m, n, k]: [u32; 3], stages: u32, warps: [u32; 2], blocks: u32, efficiency: f64) -> Shape {
    let tile = Tile { m, n, k, stages };
    Shape { tile, warps, blocks, access: Access::Bytes16, pace: Pace::Together, efficiency }
}

const fn reading(access: Access, shape: Shape) -> Shape {
    Shape { access, ..shape }
}

const fn apart(shape: Shape) -> Shape {
    Shape { pace: Pace::Apart, ..shape }
}

/// 16-bit operands. 99 KiB of shared memory are what sm_86, sm_89 and sm_120 have for a block. Operands that are not aligned
/// are read as they lie by small tiles alone: large products have them packed.
const SHAPES_16: &[Shape] = &[
    shape([256, 128, 64], 3, [4, 2], 1, 0.72),
    shape([128, 128, 32], 3, [2, 2], 2, 0.66),
    shape([64, 64, 64], 3, [2, 2], 4, 0.48),
    reading(Access::Bytes4, shape([64, 64, 64], 3, [2, 2], 3, 0.26)),
    reading(Access::Any, shape([64, 64, 64], 2, [2, 2], 2, 0.18)),
];

const SHAPES_TF32: &[Shape] = &[
    shape([256, 128, 32], 3, [4, 2], 1, 0.62),
    shape([128, 128, 16], 3, [2, 2], 2, 0.56),
    shape([64, 64, 32], 4, [2, 2], 3, 0.37),
    reading(Access::Bytes4, shape([64, 64, 32], 3, [2, 2], 3, 0.22)),
];

const SHAPES_8: &[Shape] = &[
    shape([256, 128, 128], 3, [4, 2], 1, 0.66),
    shape([128, 128, 64], 3, [2, 2], 2, 0.61),
    shape([64, 64, 128], 3, [2, 2], 3, 0.48),
    reading(Access::Any, shape([64, 64, 64], 2, [2, 2], 2, 0.19)),
];

const SHAPES_F64: &[Shape] = &[
    apart(shape([128, 128, 16], 5, [4, 2], 1, 0.87)),
    shape([64, 64, 16], 4, [2, 2], 3, 0.84),
    reading(Access::Bytes8, apart(shape([128, 128, 16], 5, [4, 2], 1, 0.8))),
    reading(Access::Bytes8, shape([64, 64, 16], 3, [2, 2], 3, 0.76)),
];

impl Operands {
    const ALL: [Operands; 6] =
        [Operands::F16, Operands::BF16, Operands::Tf32, Operands::I8, Operands::U8, Operands::F64];

    fn shapes(self) -> &'static [Shape] {
        match self {
            Operands::F16 | Operands::BF16 => SHAPES_16,
            Operands::Tf32 => SHAPES_TF32,
            Operands::I8 | Operands::U8 => SHAPES_8,
            Operands::F64 => SHAPES_F64,
        }
    }

    /// Bytes per element.
    pub fn element_bytes(self) -> u32 {
        match self {
            Operands::I8 | Operands::U8 => 1,
            Operands::F16 | Operands::BF16 => 2,
            Operands::Tf32 => 4,
            Operands::F64 => 8,
        }
    }

    /// Bytes of a sum.
    pub fn sum_bytes(self) -> u64 {
        if self == Operands::F64 { 8 } else { 4 }
    }

    /// Operations (two a multiplication) that one multiprocessor's tensor cores do in a clock. sm_90 measured (warp-level
    /// instructions reach some 60 % of what warpgroups do), others by data sheet; GeForce cards halve sums in f32.
    pub fn operations_per_clock(self, sm: u32) -> f64 {
        let (halves, f64s) = match sm {
            80 => (2048.0, 128.0),
            90 => (2420.0, 252.0),
            100..=109 => (2048.0, 128.0),
            _ => (512.0, 4.0),
        };
        match self {
            Operands::F16 | Operands::BF16 => halves,
            Operands::Tf32 => halves / 2.0,
            // Sums of integers are not halved.
            Operands::I8 | Operands::U8 => (halves * 2.0_f64).max(2048.0),
            Operands::F64 => f64s,
        }
    }

    /// The type's name in C++, and operands and sums in symbols; 16-bit operands give two types of results.
    fn names(self) -> (&'static str, &'static str) {
        match self {
            Operands::F16 => ("F16", "f16"),
            Operands::BF16 => ("Bf16", "bf16"),
            Operands::Tf32 => ("Tf32", "tf32_f32"),
            Operands::I8 => ("S8", "i8_i32"),
            Operands::U8 => ("U8", "u8_i32"),
            Operands::F64 => ("F64", "f64_f64"),
        }
    }

    /// Instructions as a disassembly names them.
    fn tensor(self) -> &'static [&'static str] {
        match self {
            Operands::F16 | Operands::BF16 | Operands::Tf32 => &["HMMA"],
            Operands::I8 | Operands::U8 => &["IMMA"],
            Operands::F64 => &["DMMA"],
        }
    }
}

impl Instance {
    fn new(operands: Operands, shape: Shape, a: Major, b: Major) -> Instance {
        let Tile { m, n, k, .. } = shape.tile;
        // BLAS' letters for operands that lie column by column, which tell a K-major A from an M-major one: t, n.
        let a_letter = if a == Major::K { 't' } else { 'n' };
        let b_letter = if b == Major::K { 'n' } else { 't' };
        let access = match shape.access {
            Access::Any => "_any",
            Access::Bytes4 => "_align4",
            Access::Bytes8 => "_align8",
            Access::Bytes16 => "",
        };
        let symbol = format!("gemm_{}_mma_{m}x{n}x{k}_{a_letter}{b_letter}{access}", operands.names().1);
        Instance { operands, shape, a, b, symbol }
    }

    pub fn threads(&self) -> u32 {
        32 * self.shape.warps[0] * self.shape.warps[1]
    }

    pub fn shared_bytes(&self) -> u32 {
        let Tile { m, n, k, stages } = self.shape.tile;
        // Pace APART: a barrier behind the ring.
        let barrier = if self.shape.pace == Pace::Apart { 16 } else { 0 };
        (m + n) * k * stages * self.operands.element_bytes() + barrier
    }

    fn info(&self) -> KernelInfo {
        let Shape { tile, warps, blocks, access, pace, .. } = self.shape;
        let major = |major| if major == Major::K { "K" } else { "MN" };
        let access = match access {
            Access::Any => "ANY",
            Access::Bytes4 => "BYTES_4",
            Access::Bytes8 => "BYTES_8",
            Access::Bytes16 => "BYTES_16",
        };
        let pace = if pace == Pace::Apart { "APART" } else { "TOGETHER" };
        let instance = format!(
            "GEMM_MMA_KERNEL({}, {}, {blocks}, {}, {}, {}, {}, {}, {}, gemm_mma::Major::{}, gemm_mma::Major::{}, \
             gemm_mma::Access::{access}, gemm_mma::Pace::{pace})",
            self.symbol,
            self.operands.names().0,
            tile.m,
            tile.n,
            tile.k,
            warps[0],
            warps[1],
            tile.stages,
            major(self.a),
            major(self.b),
        );
        let scalar = if self.operands == Operands::F64 { Param::F64 } else { Param::F32 };
        use Param::{Address, I64, U32};
        KernelInfo {
            symbol: self.symbol.clone(),
            source: "gemm_mma_sync.cuh",
            instance,
            targets: match self.operands {
                // GeForce cards (sm_86, sm_89, sm_120) multiply f64 no faster than plain cores do.
                Operands::F64 => &[Target::SM_80, Target::SM_90],
                _ => &[Target::SM_80, Target::SM_90],
            },
            block: [self.threads(), 1, 1],
            dynamic_shared_bytes: self.shared_bytes(),
            #[rustfmt::skip]
            params: vec![
                Address, I64, I64, // a, pitch, batch stride
                Address, I64, I64, // b, pitch, batch stride
                Address, U32,      // d, whether it is f32 where operands have 16 bits
                U32, U32, U32,     // m, n, k
                U32, U32,          // batches, elements of k in a slab
                scalar, scalar,    // alpha, beta
                Address, I64, I64, // c, pitch, batch stride
                Address, U32,      // bias, activation
            ],
            tensor: self.operands.tensor(),
            tile: Some(tile),
            ..KernelInfo::default()
        }
    }
}

/// Every kernel of the family: each shape in all four orientations.
pub(crate) static INSTANCES: LazyLock<Vec<Instance>> = LazyLock::new(|| {
    let mut list = Vec::new();
    for operands in Operands::ALL {
        for &shape in operands.shapes() {
            for (a, b) in [(Major::K, Major::K), (Major::K, Major::Mn), (Major::Mn, Major::K), (Major::Mn, Major::Mn)] {
                list.push(Instance::new(operands, shape, a, b));
            }
        }
    }
    list
});

pub(crate) fn kernels() -> Vec<KernelInfo> {
    INSTANCES.iter().map(Instance::info).collect()
}
