//! Kernels of the family convolution_mma: convolutions and both gradients by warp-level products (mma.sync), sm_80 and later. Sources:
//! `cuda/convolution_mma_sync.cuh` and `cuda/convolution_mma_sync_weights.cuh`.
//!
//! [`INSTANCES`] is the list; symbols, lines of C++, threads and shared memory follow from it, and the planner
//! (`plans/convolution_mma.rs`) walks over the same list. Tiles are those of products (`mma_sync.rs`), whose kernel it is but for its loads.

use std::sync::LazyLock;

use polywarp_core::DType;

use super::convolution::Makes;
use super::mma_sync::{EVERY_MACHINE, GEFORCE_SHARED_BYTES, Shape, WITHOUT_GEFORCE, shape};
use super::{KernelInfo, Tile};
use crate::{Param, Target};

/// Outputs x filters, or inputs x channels. Shares of the tensor cores' rate are those of products, a tenth less for what loads take more
/// (a guess: not measured); the third stands between its neighbours.
const PIXELS: &[Shape] = &[
    shape([256, 128, 64], 3, [4, 2], 1, 0.65),
    shape([128, 128, 32], 3, [2, 2], 2, 0.6),
    shape([128, 64, 32], 4, [2, 2], 3, 0.5),
    shape([64, 64, 64], 3, [2, 2], 4, 0.43),
];
/// Outputs x filters of i8, with the same tenth less.
const PIXELS_OF_STEPS: &[Shape] =
    &[shape([128, 128, 64], 3, [2, 2], 2, 0.55), shape([64, 64, 128], 3, [2, 2], 3, 0.43)];
/// Filters x channels of taps: loads find pixels anew for each output, so rates are a fifth less than those of products (a guess as well).
const WEIGHTS: &[Shape] = &[shape([128, 128, 32], 3, [2, 2], 2, 0.53), shape([64, 64, 64], 3, [2, 2], 4, 0.38)];

/// One kernel.
#[derive(Debug)]
pub(crate) struct Instance {
    pub operands: DType,
    pub makes: Makes,
    pub shape: Shape,
    pub symbol: String,
}

/// What a kernel is told of an axis: `Axis` in the source.
pub(crate) const AXIS: [Param; 8] = [Param::U32; 8];

impl Instance {
    fn new(operands: DType, makes: Makes, shape: Shape) -> Instance {
        let Tile { m, n, k, .. } = shape.tile;
        let symbol = format!("convolution_mma_{}_{}{m}x{n}x{k}", operands.name(), makes.infix());
        Instance { operands, makes, shape, symbol }
    }

    fn threads(&self) -> u32 {
        32 * self.shape.warps[0] * self.shape.warps[1]
    }

    pub fn shared_bytes(&self) -> u32 {
        let Tile { m, n, k, stages } = self.shape.tile;
        (m + n) * k * stages * self.operands.size_bytes() as u32
    }

    fn targets(&self) -> &'static [Target] {
        if self.shared_bytes() > GEFORCE_SHARED_BYTES {
            WITHOUT_GEFORCE
        } else if self.shape.blocks == 2 {
            // One tile of each type stands for all on cards that come later.
            Target::EVERYWHERE
        } else {
            EVERY_MACHINE
        }
    }

    fn info(&self) -> KernelInfo {
        use Param::{Address, F32, I64, U32};
        let Shape { tile, warps, blocks, .. } = self.shape;
        let (cpp, tensor): (_, &[&str]) = match self.operands {
            DType::I8 => ("S8", &["IMMA"]),
            DType::BF16 => ("Bf16", &["HMMA"]),
            _ => ("F16", &["HMMA"]),
        };
        let (source, maker, before, behind): (_, _, &[&[Param]], &[&[Param]]) = match self.makes {
            // x, weights, D, whether that is f32; m, n, k, elements of k in a slab. Alpha, beta; C, pitch, batch stride; bias, activation.
            Makes::Output => (
                "convolution_mma_sync.cuh",
                "CONVOLUTION_MMA",
                &[&[Address; 3], &[U32; 5]],
                &[&[F32; 2], &[Address, I64, I64], &[Address, U32]],
            ),
            // The gradient of outputs, weights, D; m, n, k. Elements from filter to filter; the first tap, what leads to the next along each
            // axis, whether results lie apart; elements from one to the next along each axis and from image to image.
            Makes::Input => (
                "convolution_mma_sync.cuh",
                "CONVOLUTION_INPUT_MMA",
                &[&[Address; 3], &[U32; 3]],
                &[&[I64], &[U32; 5], &[I64; 4]],
            ),
            // The gradient of outputs, x, D, whether that is f32; m, n, k, elements of k in a slab. Elements from output to output.
            Makes::Weights => {
                ("convolution_mma_sync_weights.cuh", "CONVOLUTION_WEIGHTS_MMA", &[&[Address; 3], &[U32; 5]], &[&[I64]])
            }
        };
        // Axes of windows; channels, elements of k from tap to tap, units of 16 bytes from pixel to pixel.
        let window: [&[Param]; 4] = [&AXIS, &AXIS, &AXIS, &[U32; 3]];
        KernelInfo {
            symbol: self.symbol.clone(),
            source,
            instance: format!(
                "{maker}({}, {cpp}, {blocks}, {}, {}, {}, {}, {}, {})",
                self.symbol, tile.m, tile.n, tile.k, warps[0], warps[1], tile.stages
            ),
            targets: self.targets(),
            block: [self.threads(), 1, 1],
            dynamic_shared_bytes: self.shared_bytes(),
            params: [before, &window[..], behind].concat().concat(),
            tensor,
            tile: Some(tile),
            ..KernelInfo::default()
        }
    }
}

/// Every kernel of the family.
pub(crate) static INSTANCES: LazyLock<Vec<Instance>> = LazyLock::new(|| {
    let mut list = Vec::new();
    for operands in [DType::F16, DType::BF16] {
        for (makes, shapes) in [(Makes::Output, PIXELS), (Makes::Input, PIXELS), (Makes::Weights, WEIGHTS)] {
            list.extend(shapes.iter().map(|&shape| Instance::new(operands, makes, shape)));
        }
    }
    list.extend(PIXELS_OF_STEPS.iter().map(|&shape| Instance::new(DType::I8, Makes::Output, shape)));
    list
});

pub(crate) fn kernels() -> Vec<KernelInfo> {
    INSTANCES.iter().map(Instance::info).collect()
}
