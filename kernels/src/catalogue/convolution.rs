//! Kernels of the family convolution: convolutions and both gradients on Hopper. Sources: `cuda/convolution.cuh` and
//! `cuda/convolution_weights.cuh`.
//!
//! [`INSTANCES`] is the list; symbols, lines of C++, threads and shared memory follow from it, and the planner
//! (`plans/convolution.rs`) walks over the same list. Tiles are those that were best for some layer of ResNet-50 (docs/convolution.md).

use std::sync::LazyLock;

use polywarp_core::DType;

use super::{KernelInfo, Tile};
use crate::{Param, Target};

/// Elements of K in a stage, and columns of an operand that lies along its rows: 128 bytes, the swizzle's span. Of i8 as many pairs, by
/// which its maps count (`BLOCK_PAIRS` in the source).
pub(crate) const BLOCK_K: u32 = 64;
/// Bytes of that.
const BLOCK_ROW_BYTES: u32 = 128;
/// 227 KiB opt-in shared memory a block, sm_90.
const MOST_SHARED_BYTES: u32 = 232_448;
/// 16 rows of 128 bytes, as a warp stages them for one store.
const CHUNK_BYTES: u32 = 2048;
/// Threads of a warpgroup; one of them loads, `consumers` multiply.
const WARPGROUP: u32 = 128;

/// What a kernel makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Makes {
    /// A convolution.
    Output,
    /// The gradient of its input.
    Input,
    /// That of its weights, or f32 sums of slabs of it.
    Weights,
}

impl Makes {
    /// In symbols.
    pub fn infix(self) -> &'static str {
        match self {
            Makes::Output => "",
            Makes::Input => "input_",
            Makes::Weights => "weights_",
        }
    }
}

/// How a kernel cuts its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub block_m: u32,
    pub block_n: u32,
    stages: u32,
    pub consumers: u32,
    /// Two consumers take turns, each with a whole tile.
    pub turns: bool,
}

const fn shape([block_m, block_n]: [u32; 2], stages: u32, consumers: u32, turns: bool) -> Shape {
    Shape { block_m, block_n, stages, consumers, turns }
}

/// Outputs x filters, or inputs x channels.
const PIXELS: [Shape; 3] =
    [shape([128, 64], 7, 2, true), shape([128, 128], 6, 2, true), shape([192, 128], 4, 3, false)];
/// Filters x channels of several taps.
const WEIGHTS: [Shape; 3] =
    [shape([64, 192], 6, 1, false), shape([128, 128], 5, 2, false), shape([128, 192], 4, 2, false)];

/// One kernel.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub operands: DType,
    /// That of the operands, or a float's where these are i8.
    pub output: DType,
    pub makes: Makes,
    pub shape: Shape,
    pub symbol: String,
}

impl Instance {
    fn new(operands: DType, makes: Makes, shape: Shape) -> Instance {
        let Shape { block_m, block_n, .. } = shape;
        let symbol = format!("convolution_{}_{}{block_m}x{block_n}", operands.name(), makes.infix());
        Instance { operands, output: operands, makes, shape, symbol }
    }

    /// A convolution of i8 with scales.
    fn scaled(output: DType, shape: Shape) -> Instance {
        let Shape { block_m, block_n, .. } = shape;
        let symbol = format!("convolution_i8_{}_{block_m}x{block_n}", output.name());
        Instance { operands: DType::I8, output, makes: Makes::Output, shape, symbol }
    }

    /// Whether it takes scales, behind its other arguments.
    pub fn is_scaled(&self) -> bool {
        self.operands == DType::I8
    }

    /// Elements of K in a stage.
    fn block_k(&self) -> u32 {
        BLOCK_ROW_BYTES / self.operands.size_bytes() as u32
    }

    /// Shared memory of a block, as `cuda/gemm_wgmma_config.cuh` counts it.
    fn shared_bytes(&self) -> u32 {
        let Shape { block_m, block_n, stages, consumers, turns } = self.shape;
        // Two barriers a stage, and room to align the whole to the swizzle's atoms.
        let pipeline = stages * ((block_m + block_n) * BLOCK_ROW_BYTES + 2 * 8) + 1024;
        // For each warp as many chunks of 16 rows x 128 bytes of D as there are, or as there is room for.
        let stored = if self.makes == Makes::Weights { DType::F32 } else { self.output };
        let chunk_columns = BLOCK_ROW_BYTES / stored.size_bytes() as u32;
        let rows = if turns { block_m } else { block_m / consumers };
        let (chunks, chunk_bytes) = (rows / 64 * (block_n / chunk_columns), consumers * 4 * CHUNK_BYTES);
        let room = (MOST_SHARED_BYTES - pipeline) / chunk_bytes;
        let staged = [8, 4].into_iter().find(|&count| room >= count && chunks >= count).unwrap_or(2);
        pipeline + staged * chunk_bytes
    }

    fn info(&self) -> KernelInfo {
        use Param::{Address, F32, I64, TensorMap, U32};
        let Instance { symbol, operands, output, makes, shape } = self;
        let Shape { block_m, block_n, stages, consumers, turns } = *shape;
        let cpp = super::cpp(*operands);
        let schedule = if turns { "PING_PONG" } else { "COOPERATIVE" };
        let major = if *makes == Makes::Input { "MN" } else { "K" };
        let (source, instance, params): (_, _, &[&[Param]]) = match makes {
            Makes::Output | Makes::Input => (
                "convolution.cuh",
                if self.is_scaled() {
                    let output = super::cpp(*output);
                    format!(
                        "CONVOLUTION_SCALED({symbol}, {output}, {block_m}, {block_n}, {stages}, {schedule}, {consumers})"
                    )
                } else {
                    format!(
                        "CONVOLUTION({symbol}, {cpp}, {block_m}, {block_n}, {stages}, {schedule}, {consumers}, {major})"
                    )
                },
                // Pixels, weights, results, where these are; m, n, tiles of both, steps, how tiles are walked through; the window; whether
                // results leave by TMA or lie apart, and how; beta, C and its pitch, bias, activation; of i8 the scale of x, those of
                // filters, and elements from one to the next.
                &[
                    &[TensorMap; 3],
                    &[Address],
                    &[U32; 10],
                    &[U32; 15],
                    &[U32; 2],
                    &[I64; 3],
                    &[F32, Address, I64, Address, U32],
                    if self.is_scaled() { &[Address, Address, I64] } else { &[] },
                ],
            ),
            Makes::Weights => (
                "convolution_weights.cuh",
                format!("CONVOLUTION_WEIGHTS({symbol}, {cpp}, {block_m}, {block_n}, {stages}, {consumers})"),
                // The gradient of outputs, pixels; sums, results; m, k, tiles, slabs and tiles of each, how tiles are walked through; the
                // window; channels, taps and units; elements of a filter and of a slab.
                &[&[TensorMap; 2], &[Address; 2], &[U32; 11], &[U32; 10], &[U32; 6], &[I64; 2]],
            ),
        };
        KernelInfo {
            symbol: symbol.clone(),
            source,
            instance,
            targets: &[Target::SM_90A],
            block: [WARPGROUP * (consumers + 1), 1, 1],
            dynamic_shared_bytes: self.shared_bytes(),
            params: params.concat(),
            starts_early: true,
            tensor: if self.is_scaled() { &["IGMMA"] } else { &["HGMMA"] },
            tile: Some(Tile { m: block_m, n: block_n, k: self.block_k(), stages }),
            ..KernelInfo::default()
        }
    }
}

/// Every kernel of the family.
pub(crate) static INSTANCES: LazyLock<Vec<Instance>> = LazyLock::new(|| {
    let mut list = Vec::new();
    for operands in [DType::F16, DType::BF16] {
        for (makes, shapes) in [(Makes::Output, PIXELS), (Makes::Input, PIXELS), (Makes::Weights, WEIGHTS)] {
            list.extend(shapes.map(|shape| Instance::new(operands, makes, shape)));
        }
    }
    for output in [DType::F16, DType::BF16] {
        list.extend(PIXELS.map(|shape| Instance::scaled(output, shape)));
    }
    // Few want f32 of i8: the tiles that serve any number of filters.
    list.extend([PIXELS[0], PIXELS[1]].map(|shape| Instance::scaled(DType::F32, shape)));
    list
});

/// The kernel that makes channels of taps: threads along a row and rows of its blocks, elements of a thread.
pub(crate) const FOLD: &str = "convolution_fold";
pub(crate) const FOLD_UNITS: u32 = 64;
pub(crate) const FOLD_ROWS: u32 = 4;
pub(crate) const FOLD_VECTOR: u32 = 8;
/// The kernel that makes taps of channels of weights' gradient again, and its threads.
pub(crate) const UNFOLD: &str = "convolution_unfold";
pub(crate) const UNFOLD_THREADS: u32 = 256;

fn folding() -> [KernelInfo; 2] {
    use Param::{Address, I64, U32};
    let of = |symbol: &str, threads, params: &[&[Param]]| KernelInfo {
        symbol: symbol.to_owned(),
        instance: format!("{}({symbol})", symbol.to_uppercase()),
        source: "convolution_fold.cu",
        targets: &[Target::SM_90],
        block: [threads, 1, 1],
        starts_early: true,
        params: params.concat(),
        ..KernelInfo::default()
    };
    [
        // Source, destination; images, height, width, channels, rows, columns, padded channels, group, step, pitch, padding of both axes,
        // inverses of rows, padded channels and group, whether eight are neighbours; strides of images, rows and pixels.
        of(FOLD, FOLD_UNITS * FOLD_ROWS, &[&[Address; 2], &[U32; 16], &[I64; 3]]),
        // Source, destination; filters, rows, taps of both axes, channels, padded channels, group.
        of(UNFOLD, UNFOLD_THREADS, &[&[Address; 2], &[U32; 7]]),
    ]
}

pub(crate) fn kernels() -> Vec<KernelInfo> {
    INSTANCES.iter().map(Instance::info).chain(folding()).collect()
}
