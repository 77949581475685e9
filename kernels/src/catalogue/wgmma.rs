//! Matrix products on Hopper's tensor cores: `cuda/gemm_wgmma.cuh`, one instance per tile, type and layout.
//!
//! [`INSTANCES`] is written down by tile; types and layouts are crossed in [`instances`]. The planner
//! (`plans/wgmma.rs`) reads the same list. Layouts are named as in BLAS: `t` is a K-major A, `n` a K-major B.

use std::sync::LazyLock;

use polywarp_core::DType;

use super::{KernelInfo, Tile};
use crate::{Param, Target};

/// Bytes of k in one stage: a row of the widest swizzle.
const STAGE_ROW_BYTES: u32 = 128;
/// 16 rows of D, as a warp stages them for one store.
const CHUNK_BYTES: u32 = 16 * STAGE_ROW_BYTES;
/// 227 KiB opt-in shared memory a block, sm_90.
const MOST_SHARED_BYTES: u32 = 232_448;
/// Threads of a warpgroup; one of them loads, `consumers` multiply.
const WARPGROUP: u32 = 128;

/// How one kernel cuts its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub block_m: u32,
    pub block_n: u32,
    pub stages: u32,
    /// Warpgroups that multiply, one below the other.
    pub consumers: u32,
    /// Blocks that stand one below the other in a cluster, and side by side.
    pub cluster_m: u32,
    pub cluster_n: u32,
}

const fn shape([block_m, block_n]: [u32; 2], stages: u32, consumers: u32, [cluster_m, cluster_n]: [u32; 2]) -> Shape {
    Shape { block_m, block_n, stages, consumers, cluster_m, cluster_n }
}

/// The tiles that serve everything: large products, middling ones, and two for few tiles.
const SHAPES: [Shape; 5] = [
    shape([128, 256], 4, 2, [2, 1]),
    shape([128, 256], 4, 2, [1, 1]),
    shape([128, 128], 6, 2, [1, 1]),
    shape([128, 64], 8, 2, [1, 1]),
    shape([64, 128], 8, 1, [1, 1]),
];
/// For 16-bit operands with f32 results, which are rarer: one for each size of product.
const SHAPES_WIDENING: [Shape; 3] = [SHAPES[0], SHAPES[2], SHAPES[4]];
/// For 16-bit operands with A K-major besides: widths between, and one for pitches that split cache lines.
const SHAPES_16_BIT: [Shape; 4] = [
    shape([128, 192], 4, 2, [1, 1]),
    shape([64, 256], 5, 1, [1, 1]),
    shape([64, 128], 8, 1, [2, 1]),
    shape([64, 64], 10, 1, [1, 1]),
];

/// How an operand lies in shared memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Major {
    /// Neighbours lie along k.
    K,
    /// Neighbours lie along m or n.
    Mn,
}

/// Types of A and B.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operands {
    F16,
    Bf16,
    /// f32, read as tf32.
    Tf32,
    I8,
    U8,
}

impl Operands {
    pub const fn element_bytes(self) -> u32 {
        match self {
            Operands::F16 | Operands::Bf16 => 2,
            Operands::Tf32 => 4,
            Operands::I8 | Operands::U8 => 1,
        }
    }

    const fn name(self) -> &'static str {
        match self {
            Operands::F16 => "f16",
            Operands::Bf16 => "bf16",
            Operands::Tf32 => "tf32",
            Operands::I8 => "i8",
            Operands::U8 => "u8",
        }
    }

    const fn cpp(self) -> &'static str {
        match self {
            Operands::F16 => "__half",
            Operands::Bf16 => "__nv_bfloat16",
            Operands::Tf32 => "ptx::tf32_t",
            Operands::I8 => "int8_t",
            Operands::U8 => "uint8_t",
        }
    }

    /// The instruction that multiplies them, as a disassembly names it.
    const fn instruction(self) -> &'static [&'static str] {
        match self {
            Operands::I8 | Operands::U8 => &["IGMMA"],
            _ => &["HGMMA"],
        }
    }
}

/// One kernel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Instance {
    pub symbol: String,
    pub shape: Shape,
    pub operands: Operands,
    pub output: DType,
    pub major_a: Major,
    pub major_b: Major,
}

impl Instance {
    fn new(shape: Shape, operands: Operands, output: DType, major_a: Major, major_b: Major) -> Instance {
        let Shape { block_m, block_n, cluster_m, cluster_n, .. } = shape;
        let block_k = STAGE_ROW_BYTES / operands.element_bytes();
        let layout = match (major_a, major_b) {
            (Major::K, Major::K) => "tn",
            (Major::K, Major::Mn) => "tt",
            (Major::Mn, Major::K) => "nn",
            (Major::Mn, Major::Mn) => "nt",
        };
        let types = format!("{}_{output}", operands.name());
        let symbol = format!("gemm_{types}_wgmma_{block_m}x{block_n}x{block_k}_{cluster_m}x{cluster_n}_{layout}");
        Instance { symbol, shape, operands, output, major_a, major_b }
    }

    /// Elements of k in one stage.
    pub fn block_k(&self) -> u32 {
        STAGE_ROW_BYTES / self.operands.element_bytes()
    }

    /// Bytes that one operand's tile takes, as `cuda/gemm_wgmma.cuh` places it.
    fn tile_bytes(&self, rows: u32, major: Major) -> u32 {
        match major {
            // Whole atoms of 8 rows.
            Major::K => (rows * STAGE_ROW_BYTES).next_multiple_of(1024),
            // Columns of 64 elements.
            Major::Mn => rows.div_ceil(64) * self.block_k() * STAGE_ROW_BYTES,
        }
    }

    fn info(&self) -> KernelInfo {
        let Shape { block_m, block_n, stages, consumers, cluster_m, cluster_n } = self.shape;
        let stage = self.tile_bytes(block_m, self.major_a) + self.tile_bytes(block_n, self.major_b);
        // Two barriers a stage, and room to align the whole to the swizzle's atoms.
        let pipeline = stages * (stage + 2 * 8) + 1024;
        // For each warp as many chunks of 16 rows x 128 bytes of D as there are, or as there is room for.
        let chunks = block_m / consumers / 64 * block_n * self.output.size_bytes() as u32 / STAGE_ROW_BYTES;
        let chunk_bytes = consumers * 4 * CHUNK_BYTES;
        let room = (MOST_SHARED_BYTES - pipeline) / chunk_bytes;
        let staged = [8, 4].into_iter().find(|&count| room >= count && chunks >= count).unwrap_or(2);
        let shared = pipeline + staged * chunk_bytes;
        let output = match self.output {
            DType::F16 => "__half",
            DType::BF16 => "__nv_bfloat16",
            DType::F32 => "float",
            _ => "int32_t",
        };
        let major = |major| if major == Major::K { "K" } else { "MN" };
        let (a, b) = (major(self.major_a), major(self.major_b));
        let cluster = cluster_m * cluster_n;
        let (symbol, operands) = (&self.symbol, self.operands.cpp());
        use Param::*;
        KernelInfo {
            symbol: symbol.clone(),
            source: "gemm_wgmma.cuh",
            instance: format!(
                "GEMM_WGMMA({symbol}, {operands}, {output}, {block_m}, {block_n}, {stages}, {consumers}, {cluster_m}, \
                 {cluster_n}, {cluster}, {a}, {b})"
            ),
            targets: &[Target::SM_90A],
            block: [WARPGROUP * (consumers + 1), 1, 1],
            cluster: [cluster, 1, 1],
            dynamic_shared_bytes: shared,
            params: vec![
                TensorMap, TensorMap, TensorMap, Address, U32, U32, U32, U32, U32, U32, U32, U32, U32, U32, U32, U32,
                U32, I64, I64, I64, F32, F32, Address, I64, I64, Address, U32,
            ],
            starts_early: true,
            tensor: self.operands.instruction(),
            tile: Some(Tile { m: block_m, n: block_n, k: self.block_k(), stages }),
            ..KernelInfo::default()
        }
    }
}

/// Every kernel of the family.
pub(crate) fn instances() -> &'static [Instance] {
    static INSTANCES: LazyLock<Vec<Instance>> = LazyLock::new(|| {
        use Major::{K, Mn};
        let mut all = Vec::new();
        for (operands, output) in [(Operands::F16, DType::F16), (Operands::Bf16, DType::BF16)] {
            for (a, b) in [(K, K), (K, Mn), (Mn, K), (Mn, Mn)] {
                all.extend(SHAPES.map(|shape| Instance::new(shape, operands, output, a, b)));
                all.extend(SHAPES_WIDENING.map(|shape| Instance::new(shape, operands, DType::F32, a, b)));
            }
            for b in [K, Mn] {
                all.extend(SHAPES_16_BIT.map(|shape| Instance::new(shape, operands, output, K, b)));
            }
        }
        let rest = [(Operands::Tf32, DType::F32), (Operands::I8, DType::I32), (Operands::U8, DType::I32)];
        for (operands, output) in rest {
            all.extend(SHAPES.map(|shape| Instance::new(shape, operands, output, Major::K, Major::K)));
        }
        all
    });
    &INSTANCES
}

pub(crate) fn kernels() -> Vec<KernelInfo> {
    instances().iter().map(Instance::info).collect()
}
