//! Kernels of the family gemv_tma: products of 16-bit operands with at most 16 rows or columns, as streams of the large operand
//! by the tensor memory accelerator. Source: `cuda/gemv_tma.cuh`.
//!
//! [`INSTANCES`] is the list; symbols, lines of C++, threads and shared memory follow from it, and the planner
//! (`plans/gemv_tma.rs`) walks over the same list.

use std::sync::LazyLock;

use polywarp_core::DType;

use super::{KernelInfo, Major};
use crate::{Param, Target};

/// Vectors that every instance takes.
pub(crate) const VECTORS: u32 = 16;
/// Elements of K in a step.
pub(crate) const STEP: u32 = 64;
/// Bytes of a row of a step.
const ROW_BYTES: u32 = 2 * STEP;

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
    stages: u32,
    pub symbol: String,
}

/// Rows, blocks of a cluster, steps on their way: as many as shared memory holds.
const SHAPES: [(u32, u32, u32); 6] = [(128, 1, 11), (128, 2, 11), (128, 4, 11), (64, 2, 20), (64, 4, 20), (64, 8, 20)];

impl Instance {
    fn new(operands: DType, major: Major, (rows, cluster, stages): (u32, u32, u32)) -> Instance {
        let lie = if major == Major::K { "dot" } else { "columns" };
        let symbol = format!("gemv_{}_tma_{lie}{rows}_c{cluster}", operands.name());
        Instance { operands, major, rows, cluster, stages, symbol }
    }

    /// Bytes of a step: rows of the large operand, and vectors.
    fn step_bytes(&self) -> u32 {
        (self.rows + VECTORS) * ROW_BYTES
    }

    /// The ring on its 1024-byte grid, two barriers a stage, and the place for sums.
    pub fn shared_bytes(&self) -> u32 {
        1024 + self.stages * (self.step_bytes() + 16) + VECTORS * self.rows * 4
    }

    fn info(&self) -> KernelInfo {
        let Instance { symbol, rows, cluster, stages, .. } = self;
        let (cpp, k_major) = (super::cpp(self.operands), self.major == Major::K);
        use Param::{Address, F32, I64, TensorMap, U32};
        KernelInfo {
            symbol: symbol.clone(),
            source: "gemv_tma.cuh",
            instance: format!("GEMV_STREAM({symbol}, {cpp}, {cpp}, {k_major}, {rows}, {cluster}, {stages})"),
            targets: &[Target::SM_90, Target::SM_100],
            // One warp for 16 rows, and one that loads.
            block: [32 * (rows / 16 + 1), 1, 1],
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
            tensor: &["HMMA"],
            ..KernelInfo::default()
        }
    }
}

/// Every kernel of the family.
pub(crate) static INSTANCES: LazyLock<Vec<Instance>> = LazyLock::new(|| {
    let mut list = Vec::new();
    for operands in [DType::F16, DType::BF16] {
        for major in [Major::K, Major::Mn] {
            list.extend(SHAPES.map(|shape| Instance::new(operands, major, shape)));
        }
    }
    list
});

pub(crate) fn kernels() -> Vec<KernelInfo> {
    INSTANCES.iter().map(Instance::info).collect()
}
