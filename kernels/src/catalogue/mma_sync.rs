//! Kernels of the family mma_sync: warp-level products (mma.sync), sm_80 and later: `cuda/gemm_mma_sync.cuh`.
//!
//! [`INSTANCES`] is the list; symbols, lines of C++, threads and shared memory follow from it. The planner
//! (`plans/mma_sync.rs`) walks over the same list. One kernel writes f32 or the operands' 16-bit type (of 8-bit floats: f16 or
//! bf16), as it is told, so results do not multiply the instances.

use std::sync::LazyLock;

use polywarp_core::DType;

use super::{KernelInfo, Major, Tile};
use crate::{Param, Target};

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

/// Shared memory that a block may have on sm_86, sm_89 and sm_120.
pub(super) const GEFORCE_SHARED_BYTES: u32 = 101_376;

/// Machine code for every generation, and for those whose blocks may have more shared memory.
pub(super) const EVERY_MACHINE: &[Target] = &[Target::SM_80, Target::SM_90, Target::SM_100, Target::SM_120];
pub(super) const WITHOUT_GEFORCE: &[Target] = &[Target::SM_80, Target::SM_90, Target::SM_100];

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
#[derive(Debug)]
pub(crate) struct Instance {
    kind: &'static Kind,
    pub shape: Shape,
    pub a: Major,
    pub b: Major,
    pub symbol: String,
}

pub(super) const fn shape([m, n, k]: [u32; 3], stages: u32, warps: [u32; 2], blocks: u32, efficiency: f64) -> Shape {
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

/// 8-bit floats: what an instruction gives waits in registers to be added to the sum, so warps have less of it. Rates are
/// guesses from those of `SHAPES_8`: not measured on Ada.
const SHAPES_FLOAT8: &[Shape] = &[shape([128, 128, 64], 3, [4, 2], 1, 0.5), shape([64, 64, 128], 3, [2, 2], 2, 0.4)];

/// The pair that is in use most is read as it lies, too; of the others unaligned operands are packed.
const SHAPES_E4M3: &[Shape] =
    &[SHAPES_FLOAT8[0], SHAPES_FLOAT8[1], reading(Access::Any, shape([64, 64, 64], 2, [2, 2], 2, 0.19))];

const SHAPES_F64: &[Shape] = &[
    apart(shape([128, 128, 16], 5, [4, 2], 1, 0.87)),
    shape([64, 64, 16], 4, [2, 2], 3, 0.84),
    reading(Access::Bytes8, apart(shape([128, 128, 16], 5, [4, 2], 1, 0.8))),
    reading(Access::Bytes8, shape([64, 64, 16], 3, [2, 2], 3, 0.76)),
];

/// A type of A and B, or two.
#[derive(Debug)]
struct Kind {
    /// f32 is rounded to tf32.
    operands: DType,
    /// B's, where it is another.
    other: Option<DType>,
    /// In C++ (`cuda/gemm_mma_sync_fragments.cuh`), and in symbols; 16-bit operands give two types of results.
    cpp: &'static str,
    name: &'static str,
    shapes: &'static [Shape],
    /// Instructions as a disassembly names them.
    tensor: &'static [&'static str],
}

const KINDS: &[Kind] = &[
    Kind { operands: DType::F8E4M3, other: None, cpp: "E4m3", name: "f8e4m3", shapes: SHAPES_E4M3, tensor: FLOAT8 },
    Kind {
        operands: DType::F8E4M3,
        other: Some(DType::F8E5M2),
        cpp: "E4m3E5m2",
        name: "f8e4m3_f8e5m2",
        shapes: SHAPES_FLOAT8,
        tensor: FLOAT8,
    },
    Kind {
        operands: DType::F8E5M2,
        other: Some(DType::F8E4M3),
        cpp: "E5m2E4m3",
        name: "f8e5m2_f8e4m3",
        shapes: SHAPES_FLOAT8,
        tensor: FLOAT8,
    },
    Kind { operands: DType::F8E5M2, other: None, cpp: "E5m2", name: "f8e5m2", shapes: SHAPES_FLOAT8, tensor: FLOAT8 },
    Kind { operands: DType::F16, other: None, cpp: "F16", name: "f16", shapes: SHAPES_16, tensor: &["HMMA"] },
    Kind { operands: DType::BF16, other: None, cpp: "Bf16", name: "bf16", shapes: SHAPES_16, tensor: &["HMMA"] },
    Kind { operands: DType::F32, other: None, cpp: "Tf32", name: "tf32_f32", shapes: SHAPES_TF32, tensor: &["HMMA"] },
    Kind { operands: DType::I8, other: None, cpp: "S8", name: "i8_i32", shapes: SHAPES_8, tensor: &["IMMA"] },
    Kind { operands: DType::U8, other: None, cpp: "U8", name: "u8_i32", shapes: SHAPES_8, tensor: &["IMMA"] },
    Kind { operands: DType::F64, other: None, cpp: "F64", name: "f64_f64", shapes: SHAPES_F64, tensor: &["DMMA"] },
];

/// Hopper and B200 multiply 8-bit floats as f16.
const FLOAT8: &[&str] = &["QMMA", "HMMA"];

/// Operations (two a multiplication) that the tensor cores of one multiprocessor do in a clock. sm_90 measured (warp-level
/// instructions reach some 60 % of what warpgroups do), others by data sheet; GeForce cards halve sums in f32.
pub(crate) fn operations_per_clock(operands: DType, sm: u32) -> f64 {
    let (halves, f64s) = match sm {
        80 => (2048.0, 128.0),
        90 => (2420.0, 252.0),
        100..=109 => (2048.0, 128.0),
        _ => (512.0, 4.0),
    };
    match (operands.is_float(), operands.size_bytes()) {
        (true, 8) => f64s,
        // Multiplied as f16.
        (true, 1) if sm / 10 == 9 || sm / 10 == 10 => halves,
        (true, bytes) => halves * 2.0 / bytes as f64,
        // Sums of integers are not halved.
        (false, _) => (halves * 2.0_f64).max(2048.0),
    }
}

impl Instance {
    fn new(kind: &'static Kind, shape: Shape, a: Major, b: Major) -> Instance {
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
        let symbol = format!("gemm_{}_mma_{m}x{n}x{k}_{a_letter}{b_letter}{access}", kind.name);
        Instance { kind, shape, a, b, symbol }
    }

    /// The type of A, and of B but for [`Instance::other`]; f32 is rounded to tf32.
    pub fn operands(&self) -> DType {
        self.kind.operands
    }

    /// B's type, where it is not A's.
    pub fn other(&self) -> Option<DType> {
        self.kind.other
    }

    pub fn threads(&self) -> u32 {
        32 * self.shape.warps[0] * self.shape.warps[1]
    }

    pub fn shared_bytes(&self) -> u32 {
        let Tile { m, n, k, stages } = self.shape.tile;
        // Pace APART: a barrier behind the ring.
        let barrier = if self.shape.pace == Pace::Apart { 16 } else { 0 };
        (m + n) * k * stages * self.kind.operands.size_bytes() as u32 + barrier
    }

    fn targets(&self) -> &'static [Target] {
        if self.kind.operands.is_float8() {
            Target::WITH_FLOAT8
        } else if self.kind.operands == DType::F64 || self.shared_bytes() > GEFORCE_SHARED_BYTES {
            // GeForce cards multiply f64 no faster than plain cores do.
            WITHOUT_GEFORCE
        } else if self.shape.blocks == 2 && self.shape.access == Access::Bytes16 {
            // One tile of each type stands for all on cards that come later.
            Target::EVERYWHERE
        } else {
            EVERY_MACHINE
        }
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
            self.kind.cpp,
            tile.m,
            tile.n,
            tile.k,
            warps[0],
            warps[1],
            tile.stages,
            major(self.a),
            major(self.b),
        );
        let scalar = super::scalar(self.kind.operands);
        use Param::{Address, I64, U32};
        KernelInfo {
            symbol: self.symbol.clone(),
            source: if self.kind.operands.is_float8() { "gemm_mma_sync_float8.cuh" } else { "gemm_mma_sync.cuh" },
            instance,
            targets: self.targets(),
            block: [self.threads(), 1, 1],
            dynamic_shared_bytes: self.shared_bytes(),
            #[rustfmt::skip]
            params: vec![
                Address, I64, I64, // a, pitch, batch stride
                Address, I64, I64, // b, pitch, batch stride
                Address, U32,      // d, whether it is f32 (1), or bf16 of 8-bit floats (2)
                U32, U32, U32,     // m, n, k
                U32, U32,          // batches, elements of k in a slab
                scalar, scalar,    // alpha, beta
                Address, I64, I64, // c, pitch, batch stride
                Address, U32,      // bias, activation
            ],
            tensor: self.kind.tensor,
            tile: Some(tile),
            ..KernelInfo::default()
        }
    }
}

/// Every kernel of the family: each shape in all four orientations.
pub(crate) static INSTANCES: LazyLock<Vec<Instance>> = LazyLock::new(|| {
    let mut list = Vec::new();
    for kind in KINDS {
        for &shape in kind.shapes {
            for (a, b) in [(Major::K, Major::K), (Major::K, Major::Mn), (Major::Mn, Major::K), (Major::Mn, Major::Mn)] {
                list.push(Instance::new(kind, shape, a, b));
            }
        }
    }
    list
});

pub(crate) fn kernels() -> Vec<KernelInfo> {
    INSTANCES.iter().map(Instance::info).collect()
}
