//! Kernels of the family gemv_tma: products with at most 16 rows or columns, as streams of the large operand by the tensor memory
//! accelerator. Sources: `cuda/gemv_tma.cuh` for 16-bit operands, `cuda/gemv_wgmma.cuh` on Hopper for 8-bit ones too.
//!
//! [`INSTANCES`] is the list; symbols, lines of C++, threads and shared memory follow from it, and the planner
//! (`plans/gemv_tma.rs`) walks over the same list.

use std::sync::LazyLock;

use polywarp_core::DType;

use super::{KernelInfo, Major};
use crate::{Param, Target};

/// Vectors that every instance takes.
pub(crate) const VECTORS: u32 = 16;
/// Bytes of K in a step.
const ROW_BYTES: u32 = 128;
/// Shared memory of a multiprocessor, and what each block takes of it besides its own (sm_90, sm_100).
const SHARED_BYTES: u32 = 233_472;
const RESERVED_BYTES: u32 = 1024;

/// What multiplies steps as they arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Readers {
    /// Warps with 16 rows each of the large operand (mma.sync).
    Warps,
    /// So many warpgroups with all rows, which take steps in turns (wgmma).
    Warpgroups(u32),
}

/// One kernel.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub operands: DType,
    /// How the large operand lies.
    pub major: Major,
    /// Rows of the large operand that a cluster takes.
    pub rows: u32,
    /// Blocks of a cluster, which share K.
    pub cluster: u32,
    pub readers: Readers,
    stages: u32,
    pub symbol: String,
}

/// Rows, blocks of a cluster, steps on their way: as many as shared memory holds.
const SHAPES: [(u32, u32, u32); 6] = [(128, 1, 11), (128, 2, 11), (128, 4, 11), (64, 2, 20), (64, 4, 20), (64, 8, 20)];
/// Rows that warpgroups take; blocks of a cluster, warpgroups, steps on their way: as many as half of the shared memory holds, or all, and
/// a multiple of the warpgroups, so that each stage has one reader.
const WARPGROUP_ROWS: u32 = 64;
const WARPGROUP_SHAPES: [(u32, u32, u32); 6] = [(1, 2, 10), (1, 2, 20), (2, 2, 10), (2, 2, 20), (4, 2, 10), (8, 1, 10)];
/// Elements from row to row of sums that warpgroups send.
const SUM_PITCH: u32 = VECTORS + 4;

impl Instance {
    fn of_warps(operands: DType, major: Major, (rows, cluster, stages): (u32, u32, u32)) -> Instance {
        let symbol = format!("gemv_{}_tma_{}{rows}_c{cluster}", operands.name(), lie(major));
        Instance { operands, major, rows, cluster, readers: Readers::Warps, stages, symbol }
    }

    fn of_warpgroups(operands: DType, major: Major, (cluster, turns, stages): (u32, u32, u32)) -> Instance {
        let (rows, readers) = (WARPGROUP_ROWS, Readers::Warpgroups(turns));
        let symbol = format!("gemv_{}_wgmma_{}{rows}_c{cluster}_s{stages}", operands.name(), lie(major));
        Instance { operands, major, rows, cluster, readers, stages, symbol }
    }

    /// Elements of K in a step.
    pub fn step(&self) -> u32 {
        ROW_BYTES / self.operands.size_bytes() as u32
    }

    /// Bytes of a step: rows of the large operand, and vectors.
    fn step_bytes(&self) -> u32 {
        (self.rows + VECTORS) * ROW_BYTES
    }

    /// The ring on its 1024-byte grid, two barriers a stage, and the place for sums.
    pub fn shared_bytes(&self) -> u32 {
        let sums = match self.readers {
            Readers::Warps => VECTORS * self.rows,
            Readers::Warpgroups(turns) => turns * self.rows * SUM_PITCH,
        };
        1024 + self.stages * (self.step_bytes() + 16) + sums * 4
    }

    /// Blocks that a multiprocessor holds at a time.
    pub fn blocks_at_once(&self) -> u32 {
        SHARED_BYTES / (self.shared_bytes() + RESERVED_BYTES)
    }

    fn info(&self) -> KernelInfo {
        let Instance { symbol, rows, cluster, stages, operands, .. } = self;
        let (cpp, k_major) = (super::cpp(*operands), self.major == Major::K);
        // Kernels of 8-bit floats write f16, or f32 as they are told.
        let output = match (operands.is_float(), operands.size_bytes()) {
            (false, _) => "int32_t",
            (true, 1) => "__half",
            _ => cpp,
        };
        let (source, instance, targets, warps, tensor): (_, _, &[Target], _, &[&str]) = match self.readers {
            Readers::Warps => (
                "gemv_tma.cuh",
                format!("GEMV_STREAM({symbol}, {cpp}, {output}, {k_major}, {rows}, {cluster}, {stages})"),
                &[Target::SM_90, Target::SM_100],
                rows / 16,
                &["HMMA"],
            ),
            Readers::Warpgroups(turns) => (
                "gemv_wgmma.cuh",
                format!("GEMV_WARPGROUPS({symbol}, {cpp}, {output}, {k_major}, {cluster}, {turns}, {stages})"),
                &[Target::SM_90A],
                4 * turns,
                match (operands.is_float(), operands.size_bytes()) {
                    (false, _) => &["IGMMA"],
                    (true, 1) => &["QGMMA"],
                    _ => &["HGMMA"],
                },
            ),
        };
        use Param::{Address, F32, I64, TensorMap, U32};
        KernelInfo {
            symbol: symbol.clone(),
            source,
            instance,
            targets,
            // And one that loads.
            block: [32 * (warps + 1), 1, 1],
            cluster: [1, 1, *cluster],
            dynamic_shared_bytes: self.shared_bytes(),
            #[rustfmt::skip]
            params: vec![
                TensorMap, TensorMap, Address, // large operand, vectors, d
                U32, U32, U32,                 // rows of the large one, vectors, k
                U32, U32,                      // whether each has a matrix for every batch
                U32, U32, U32,                 // whether the vectors are A, whether d is f32, elements of k in a slab
                F32, F32,                      // alpha, beta
                Address, I64, I64,             // c, pitch, batch stride
                Address, U32,                  // bias, activation
            ],
            starts_early: true,
            tensor,
            ..KernelInfo::default()
        }
    }
}

/// The large operand's part in a symbol.
fn lie(major: Major) -> &'static str {
    if major == Major::K { "dot" } else { "columns" }
}

/// Every kernel of the family.
pub(crate) static INSTANCES: LazyLock<Vec<Instance>> = LazyLock::new(|| {
    let mut list = Vec::new();
    for operands in [DType::F16, DType::BF16] {
        for major in [Major::K, Major::Mn] {
            list.extend(SHAPES.map(|shape| Instance::of_warps(operands, major, shape)));
            list.extend(WARPGROUP_SHAPES.map(|shape| Instance::of_warpgroups(operands, major, shape)));
        }
    }
    for operands in [DType::F8E4M3, DType::F8E5M2, DType::I8, DType::U8] {
        list.extend(WARPGROUP_SHAPES.map(|shape| Instance::of_warpgroups(operands, Major::K, shape)));
    }
    list
});

pub(crate) fn kernels() -> Vec<KernelInfo> {
    INSTANCES.iter().map(Instance::info).collect()
}
