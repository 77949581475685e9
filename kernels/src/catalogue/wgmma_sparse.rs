//! Matrix products of a 2:4 compressed A on Hopper's tensor cores: `cuda/gemm_wgmma_sparse.cuh`, one instance per tile, type
//! and orientation of B.
//!
//! Instances are those of `catalogue/wgmma.rs` with a compressed A, planned beside them (`plans/wgmma_sparse.rs`). Wide tiles
//! serve large products, whose bound is shared memory (the source's Traffic); narrow ones those with few tiles.

use std::sync::LazyLock;

use polywarp_core::DType;

use super::wgmma::{COMPRESSED, Instance, Shape, cooperative, ping_pong};
use super::{KernelInfo, Major};

const SHAPES: [Shape; 4] = [
    cooperative([128, 256], 4, 2, [2, 1, 1]),
    cooperative([128, 256], 4, 2, [1, 1, 1]),
    ping_pong([128, 128], 7, [1, 1, 1]),
    cooperative([64, 128], 9, 1, [1, 1, 1]),
];
/// For f32 results, which are rarer.
const SHAPES_WIDENING: [Shape; 2] = [SHAPES[0], SHAPES[2]];
/// For i8, whose B is K-major.
const SHAPES_I8: [Shape; 3] = [SHAPES[0], SHAPES[2], SHAPES[3]];

/// Every kernel of the family.
pub(crate) fn instances() -> &'static [Instance] {
    static INSTANCES: LazyLock<Vec<Instance>> = LazyLock::new(|| {
        let mut all = Vec::new();
        for kind in &COMPRESSED {
            let mut add = |shapes: &[Shape], output, major_b| {
                all.extend(shapes.iter().map(|&shape| Instance::new(shape, kind, output, Major::K, major_b)));
            };
            if kind.operands == DType::I8 {
                add(&SHAPES_I8, DType::I32, Major::K);
                continue;
            }
            for major_b in [Major::K, Major::Mn] {
                add(&SHAPES, kind.operands, major_b);
                add(&SHAPES_WIDENING, DType::F32, major_b);
            }
        }
        all
    });
    &INSTANCES
}

pub(crate) fn kernels() -> Vec<KernelInfo> {
    instances().iter().map(Instance::info).collect()
}
