//! Matrix products on Hopper's tensor cores: `cuda/gemm_wgmma.cuh`, one instance per tile, type and layout.
//!
//! Instances are written down by tile; types and layouts are crossed in [`instances`]. The planner (`plans/wgmma.rs`)
//! reads the same list. Layouts are named as in BLAS: `t` is a K-major A, `n` a K-major B.

use std::sync::LazyLock;

use polywarp_core::DType;

use super::{KernelInfo, Major, Tile};
use crate::{Param, Swizzle, Target};

/// Bytes of k in one stage: a row of the widest swizzle.
const STAGE_ROW_BYTES: u32 = 128;
/// 16 rows of D, as a warp stages them for one store.
const CHUNK_BYTES: u32 = 16 * STAGE_ROW_BYTES;
/// 227 KiB opt-in shared memory a block, sm_90.
const MOST_SHARED_BYTES: u32 = 232_448;
/// Threads of a warpgroup; one of them loads, `consumers` multiply.
const WARPGROUP: u32 = 128;

/// Who multiplies what (`Schedule` in the source).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Schedule {
    /// Every tile is shared by all consumers.
    Cooperative,
    /// Two consumers take turns: one stores its tile while the other multiplies the next.
    PingPong,
}

/// How one kernel cuts its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Shape {
    pub block_m: u32,
    pub block_n: u32,
    pub stages: u32,
    pub schedule: Schedule,
    /// Warpgroups that multiply.
    pub consumers: u32,
    /// Blocks of a cluster that stand one below the other, and side by side.
    pub cluster_m: u32,
    pub cluster_n: u32,
    /// Blocks of a cluster that share a tile, each with its part of k.
    pub cluster_k: u32,
}

pub(super) const fn cooperative([block_m, block_n]: [u32; 2], stages: u32, consumers: u32, cluster: [u32; 3]) -> Shape {
    let [cluster_m, cluster_n, cluster_k] = cluster;
    let schedule = Schedule::Cooperative;
    Shape { block_m, block_n, stages, schedule, consumers, cluster_m, cluster_n, cluster_k }
}

pub(super) const fn ping_pong(tile: [u32; 2], stages: u32, cluster: [u32; 3]) -> Shape {
    Shape { schedule: Schedule::PingPong, ..cooperative(tile, stages, 2, cluster) }
}

impl Shape {
    /// Blocks of a cluster.
    pub const fn cluster(&self) -> u32 {
        self.cluster_m * self.cluster_n * self.cluster_k
    }

    /// Warpgroups that multiply each stage.
    const fn readers(&self) -> u32 {
        match self.schedule {
            Schedule::Cooperative => self.consumers,
            Schedule::PingPong => 1,
        }
    }
}

/// The tiles that serve everything: large products, middling ones, and two for few tiles.
const SHAPES: [Shape; 6] = [
    cooperative([128, 256], 4, 2, [2, 1, 1]),
    cooperative([128, 256], 4, 2, [1, 1, 1]),
    ping_pong([128, 128], 6, [2, 1, 1]),
    ping_pong([128, 128], 6, [1, 1, 1]),
    cooperative([128, 64], 8, 2, [1, 1, 1]),
    cooperative([64, 128], 8, 1, [1, 1, 1]),
];
/// The same for 8-bit integers, whose sums are wide: where a sixth stage was, more of them wait for their store.
const SHAPES_INTEGERS: [Shape; 6] = [
    SHAPES[0],
    SHAPES[1],
    ping_pong([128, 128], 5, [2, 1, 1]),
    ping_pong([128, 128], 5, [1, 1, 1]),
    SHAPES[4],
    SHAPES[5],
];
/// For 16-bit operands with f32 results, which are rarer: large products, few tiles, and slabs of a long k.
const SHAPES_WIDENING: [Shape; 4] = [SHAPES[2], SHAPES[3], SHAPES[5], cooperative([64, 64], 13, 1, [1, 1, 8])];
/// Few rows or columns: two blocks share those of the other operand.
const SHAPES_SHARING: [Shape; 2] = [cooperative([64, 64], 13, 1, [1, 2, 1]), cooperative([64, 64], 13, 1, [2, 1, 1])];
/// For 16-bit operands with A K-major besides: few tiles, one for pitches that split cache lines, tiles that share k.
const SHAPES_16_BIT: [Shape; 6] = [
    cooperative([64, 128], 8, 1, [2, 1, 1]),
    cooperative([64, 64], 13, 1, [1, 1, 1]),
    cooperative([64, 128], 8, 1, [1, 1, 2]),
    cooperative([128, 64], 8, 2, [1, 1, 2]),
    SHAPES_SHARING[0],
    SHAPES_SHARING[1],
];
/// For tf32 and 8-bit integers besides: few tiles, tiles that share k, and slabs of a long k.
const SHAPES_FEW_TILES: [Shape; 4] =
    [SHAPES_16_BIT[1], SHAPES_16_BIT[2], SHAPES_16_BIT[3], cooperative([64, 64], 13, 1, [1, 1, 8])];
/// For 8-bit integers whose sums leave as floats, with scales: large products, middling ones, and two for few tiles.
const SHAPES_DEQUANTISING: [Shape; 4] = [SHAPES[0], SHAPES[3], SHAPES[4], SHAPES[5]];
/// For 8-bit floats, whose sums leave the tensor cores every 128 of k.
const SHAPES_FLOAT8: [Shape; 13] = [
    cooperative([128, 256], 4, 2, [2, 1, 1]),
    cooperative([128, 192], 4, 2, [2, 1, 1]),
    cooperative([128, 128], 6, 2, [1, 1, 1]),
    cooperative([128, 128], 6, 2, [2, 1, 1]),
    cooperative([128, 64], 8, 2, [1, 1, 1]),
    cooperative([64, 128], 8, 1, [1, 1, 1]),
    // Few tiles, tiles that share k, and slabs of a long k.
    cooperative([64, 64], 13, 1, [1, 1, 1]),
    cooperative([64, 128], 8, 1, [1, 1, 2]),
    cooperative([128, 64], 8, 2, [1, 1, 2]),
    cooperative([64, 64], 13, 1, [1, 1, 2]),
    cooperative([64, 64], 13, 1, [1, 1, 8]),
    SHAPES_SHARING[0],
    SHAPES_SHARING[1],
];

/// For those with f32 results besides: 16-bit ones are stored in chunks of 64 columns.
const SHAPE_FLOAT8_WIDENING: Shape = cooperative([128, 160], 5, 2, [2, 1, 1]);
/// For 8-bit floats with scales that change along K: large products, and few tiles.
const SHAPES_BLOCKS: [Shape; 3] = [SHAPES_FLOAT8[0], SHAPES_FLOAT8[2], SHAPES_FEW_TILES[0]];
/// For tf32 with B along n, as the transposed product, whose rows are B's columns: large products, two for few rounds of tiles,
/// middling ones, as [`SHAPES_FEW_TILES`], and one for few rows of A.
const SHAPES_TRANSPOSED: [Shape; 13] = [
    SHAPES[1],
    cooperative([128, 256], 4, 2, [1, 2, 1]),
    cooperative([128, 192], 4, 2, [1, 1, 1]),
    cooperative([128, 160], 5, 2, [1, 1, 1]),
    cooperative([128, 128], 6, 2, [1, 1, 1]),
    SHAPES[4],
    SHAPES[5],
    SHAPES_FEW_TILES[0],
    SHAPES_FEW_TILES[1],
    SHAPES_FEW_TILES[2],
    cooperative([64, 64], 13, 1, [1, 1, 2]),
    SHAPES_FEW_TILES[3],
    cooperative([64, 32], 16, 1, [1, 1, 2]),
];
/// The same for 16-bit operands: about 1000 rows and columns, whose pitches split cache lines.
const SHAPE_TRANSPOSED_16_BIT: Shape = cooperative([64, 144], 7, 1, [4, 1, 1]);
/// For f32 in f16 parts, three products of them: large products, middling ones, few tiles, few rows or columns, and slabs of a
/// long k.
const SHAPES_SPLIT: [Shape; 10] = [
    SHAPES[0],
    SHAPES[1],
    SHAPES[2],
    SHAPES[3],
    SHAPES[5],
    SHAPES_16_BIT[1],
    SHAPES_16_BIT[2],
    SHAPES_SHARING[0],
    SHAPES_SHARING[1],
    SHAPES_FEW_TILES[3],
];
/// For groups of A's rows with A K-major: groups of many rows, and of few; of 8-bit floats, whose sums need registers.
const SHAPES_GROUPED: [Shape; 2] = [SHAPES[3], SHAPES[5]];
const SHAPES_GROUPED_FLOAT8: [Shape; 2] = [SHAPES_FLOAT8[2], SHAPES_FLOAT8[5]];

/// For products of which rows or columns give a number: large products, middling ones, few tiles.
const SHAPES_REDUCED: [Shape; 3] = [SHAPES[0], SHAPES[3], SHAPES[5]];
const SHAPES_REDUCED_FLOAT8: [Shape; 3] = [SHAPES_FLOAT8[0], SHAPES_FLOAT8[2], SHAPES_FLOAT8[5]];

/// What a kernel multiplies (`Kind` in the source).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// Of each batch a matrix of A and one of B.
    Matrices,
    /// Of each batch a run of A's rows, which begins wherever the one before it ends, and a matrix of B.
    Groups,
    /// 8-bit floats with scales that change along K.
    ScaledBlocks,
    /// B^T and A^T, into D^T.
    Transposed,
    /// f32 in high and low parts of f16.
    Split,
    /// Numbers of D's rows, which is not kept.
    Reduced,
}

/// Types of A and B.
#[derive(Debug, PartialEq)]
pub(crate) struct Kind {
    /// f32 is read as tf32.
    pub operands: DType,
    name: &'static str,
    cpp: &'static str,
    /// The instruction that multiplies them, as a disassembly names it.
    tensor: &'static [&'static str],
    /// A is 2:4 compressed.
    compressed: bool,
}

const fn kind(operands: DType, name: &'static str, cpp: &'static str, tensor: &'static [&'static str]) -> Kind {
    Kind { operands, name, cpp, tensor, compressed: false }
}

const KINDS: [Kind; 7] = [
    kind(DType::F16, "f16", "__half", &["HGMMA"]),
    kind(DType::BF16, "bf16", "__nv_bfloat16", &["HGMMA"]),
    kind(DType::F32, "tf32", "ptx::tf32_t", &["HGMMA"]),
    kind(DType::I8, "i8", "int8_t", &["IGMMA"]),
    kind(DType::U8, "u8", "uint8_t", &["IGMMA"]),
    kind(DType::F8E4M3, "f8e4m3", "__nv_fp8_e4m3", &["QGMMA"]),
    kind(DType::F8E5M2, "f8e5m2", "__nv_fp8_e5m2", &["QGMMA"]),
];

/// Types with a compressed A.
pub(super) const COMPRESSED: [Kind; 3] = [
    Kind { compressed: true, ..kind(DType::F16, "f16", "__half", &["HGMMA.SP"]) },
    Kind { compressed: true, ..kind(DType::BF16, "bf16", "__nv_bfloat16", &["HGMMA.SP"]) },
    Kind { compressed: true, ..kind(DType::I8, "i8", "int8_t", &["IGMMA.SP"]) },
];

/// One kernel.
#[derive(Debug, PartialEq)]
pub(crate) struct Instance {
    pub symbol: String,
    pub shape: Shape,
    kind: &'static Kind,
    pub output: DType,
    pub major_a: Major,
    pub major_b: Major,
    work: Work,
}

impl Instance {
    pub(super) fn new(shape: Shape, kind: &'static Kind, output: DType, major_a: Major, major_b: Major) -> Instance {
        Instance::of(Work::Matrices, shape, kind, output, [major_a, major_b])
    }

    fn of(work: Work, shape: Shape, kind: &'static Kind, output: DType, [major_a, major_b]: [Major; 2]) -> Instance {
        let Shape { block_m, block_n, schedule, cluster_m, cluster_n, cluster_k, .. } = shape;
        let block_k = STAGE_ROW_BYTES / kind.operands.size_bytes() as u32;
        let layout = match (major_a, major_b) {
            (Major::K, Major::K) => "tn",
            (Major::K, Major::Mn) => "tt",
            (Major::Mn, Major::K) => "nn",
            (Major::Mn, Major::Mn) => "nt",
        };
        let along_k = if cluster_k == 1 { String::new() } else { format!("x{cluster_k}") };
        let schedule = match schedule {
            Schedule::Cooperative => "",
            Schedule::PingPong => "_pingpong",
        };
        let special = match work {
            Work::Groups => "grouped_",
            Work::ScaledBlocks => "blocks_",
            Work::Transposed => "transposed_",
            Work::Split => "split_",
            Work::Reduced => "reduced_",
            Work::Matrices if kind.compressed => "sparse_",
            Work::Matrices => "",
        };
        let symbol = format!(
            "gemm_{}_{output}_wgmma_{special}{block_m}x{block_n}x{block_k}_{cluster_m}x{cluster_n}{along_k}{schedule}_{layout}",
            kind.name
        );
        Instance { symbol, shape, kind, output, major_a, major_b, work }
    }

    /// Whether it takes scales of A's rows and B's columns (`SCALED` in the source): 8-bit operands whose products leave as floats.
    pub fn is_scaled(&self) -> bool {
        let takes_none = matches!(self.work, Work::ScaledBlocks | Work::Groups);
        self.kind.operands.size_bytes() == 1 && self.output.is_float() && !takes_none
    }

    /// Whether A is 2:4 compressed: its map is one of values, and arranged metadata follow the other arguments.
    pub fn is_compressed(&self) -> bool {
        self.kind.compressed
    }

    /// Whether D's rows become numbers.
    pub fn is_reduced(&self) -> bool {
        self.work == Work::Reduced
    }

    /// How rows of A's boxes are permuted: of values they have half the bytes.
    pub fn swizzle_a(&self) -> Swizzle {
        if self.is_compressed() { Swizzle::B64 } else { Swizzle::B128 }
    }

    /// The type of A and B; f32 is read as tf32.
    pub fn operands(&self) -> DType {
        self.kind.operands
    }

    /// Elements of k in one stage.
    pub fn block_k(&self) -> u32 {
        STAGE_ROW_BYTES / self.kind.operands.size_bytes() as u32
    }

    /// Whether it computes the transposed product: what it calls A is B^T, and its rows are D's columns.
    pub fn is_transposed(&self) -> bool {
        self.work == Work::Transposed
    }

    /// How many of D's rows a TMA store takes, 128 bytes each; none where sums of 32 bits leave registers transposed, or D does
    /// not leave.
    pub fn rows_a_store(&self) -> Option<u32> {
        if self.is_reduced() {
            return None;
        }
        match (self.is_transposed(), self.output.size_bytes()) {
            (false, _) => Some(16),
            (true, 2) => Some(self.shape.block_n),
            (true, _) => None,
        }
    }

    /// Boxes by which A and B are loaded: elements along the map's first dimension, and along its second. Blocks that share
    /// an operand load parts of it for each other: rows of K-major tiles, else of k.
    pub fn boxes(&self) -> [[u32; 2]; 2] {
        let part = |major, rows: u32, sharers: u32| match major {
            Major::K => [self.block_k(), rows / sharers],
            Major::Mn => [self.block_k(), self.block_k() / sharers],
        };
        let Shape { block_m, block_n, cluster_m, cluster_n, .. } = self.shape;
        let [mut a, b] = [part(self.major_a, block_m, cluster_n), part(self.major_b, block_n, cluster_m)];
        if self.is_compressed() {
            a[0] /= 2;
        }
        [a, b]
    }

    /// Bytes of one stage, as `cuda/gemm_wgmma_config.cuh` counts them.
    pub fn stage_bytes(&self) -> u32 {
        let Shape { block_m, block_n, .. } = self.shape;
        let (a, b) = (self.tile_bytes(block_m, self.major_a), self.tile_bytes(block_n, self.major_b));
        if !self.is_compressed() {
            return a + b;
        }
        // A word of each thread of a warpgroup for 64 rows and 64 of k.
        let metadata = block_m / 64 * (self.block_k() / 64) * WARPGROUP * 4;
        (a / 2 + b + metadata).next_multiple_of(1024)
    }

    /// Bytes that one operand's tile takes, as `cuda/gemm_wgmma_config.cuh` places it.
    fn tile_bytes(&self, rows: u32, major: Major) -> u32 {
        match major {
            // Whole atoms of 8 rows.
            Major::K => (rows * STAGE_ROW_BYTES).next_multiple_of(1024),
            // Columns as wide as a stage is deep.
            Major::Mn => rows.div_ceil(self.block_k()) * self.block_k() * STAGE_ROW_BYTES,
        }
    }

    /// Shared memory of a block, as `cuda/gemm_wgmma_config.cuh` counts it.
    fn shared_bytes(&self) -> u32 {
        let Shape { block_m, block_n, stages, consumers, .. } = self.shape;
        // Two barriers a stage, and room to align the whole to the swizzle's atoms.
        let pipeline = stages * (self.stage_bytes() + 2 * 8) + 1024;
        if self.is_transposed() && self.rows_a_store().is_some() {
            // Whole tiles of 16-bit results.
            return pipeline + block_m * block_n * 2;
        }
        // For each warp as many chunks of 16 rows x 128 bytes of D as there are, or as there is room for.
        let chunk_columns = STAGE_ROW_BYTES / self.output.size_bytes() as u32;
        let chunks = block_m / self.shape.readers() / 64 * (block_n / chunk_columns);
        let chunk_bytes = consumers * 4 * CHUNK_BYTES;
        let room = (MOST_SHARED_BYTES - pipeline) / chunk_bytes;
        let staged = [8, 4].into_iter().find(|&count| room >= count && chunks >= count).unwrap_or(2);
        pipeline + staged * chunk_bytes
    }

    pub(super) fn info(&self) -> KernelInfo {
        let Shape { block_m, block_n, stages, schedule, consumers, cluster_m, cluster_n, cluster_k } = self.shape;
        let output = match self.output {
            DType::F16 => "__half",
            DType::BF16 => "__nv_bfloat16",
            DType::F32 => "float",
            _ => "int32_t",
        };
        let schedule = match schedule {
            Schedule::Cooperative => "COOPERATIVE",
            Schedule::PingPong => "PING_PONG",
        };
        let major = |major| if major == Major::K { "K" } else { "MN" };
        let (a, b) = (major(self.major_a), major(self.major_b));
        let cluster = self.shape.cluster();
        let (symbol, operands) = (&self.symbol, self.kind.cpp);
        let both = || format!("{operands}, {operands}");
        let (source, maker, operands) = match (self.work, self.is_compressed(), self.is_scaled()) {
            (Work::Groups, ..) => ("gemm_wgmma.cuh", "GEMM_WGMMA_GROUPED", both()),
            (Work::ScaledBlocks, ..) => ("gemm_wgmma.cuh", "GEMM_WGMMA_SCALED_BLOCKS", both()),
            (Work::Transposed, ..) => ("gemm_wgmma.cuh", "GEMM_WGMMA_TRANSPOSED", both()),
            (Work::Split, ..) => ("gemm_wgmma.cuh", "GEMM_WGMMA_SPLIT", both()),
            (Work::Reduced, _, false) => ("gemm_wgmma.cuh", "GEMM_WGMMA_REDUCED", both()),
            (Work::Reduced, _, true) => ("gemm_wgmma.cuh", "GEMM_WGMMA_REDUCED_SCALED", both()),
            (_, true, _) => ("gemm_wgmma_sparse.cuh", "GEMM_WGMMA_SPARSE", operands.to_owned()),
            (_, false, true) => ("gemm_wgmma.cuh", "GEMM_WGMMA_SCALED", both()),
            (_, false, false) => ("gemm_wgmma.cuh", "GEMM_WGMMA", both()),
        };
        use Param::*;
        let mut params = vec![
            TensorMap, TensorMap, TensorMap, Address, U32, U32, U32, U32, U32, U32, U32, U32, U32, U32, U32, U32, U32,
            U32, U32, U32, U32, I64, I64, I64, F32, F32, Address, I64, I64, Address, U32,
        ];
        if self.is_scaled() {
            params.extend(super::SCALES);
        }
        if self.work == Work::ScaledBlocks {
            // Scales of A and of B: steps from block to block and along K, and batch strides; extents of a block, in stages along K.
            params.extend([Address, I64, I64, I64, Address, I64, I64, I64, U32, U32, U32]);
        }
        if self.work == Work::Groups {
            // ends, their stride, whether they are signed; elements from a group's bias to the next one's
            params.extend([Address, I64, U32, I64]);
        }
        if self.work == Work::Split {
            // factors
            params.push(Address);
        }
        if self.is_reduced() {
            // elements from column to column of C, from row to row and column to column of the bias; function, divisor
            params.extend([I64, I64, I64, U32, F32]);
        }
        if self.is_compressed() {
            // Arranged metadata, and slabs of 64 rows in each of its units.
            params.extend([Address, U32]);
        }
        KernelInfo {
            symbol: symbol.clone(),
            source,
            instance: format!(
                "{maker}({symbol}, {operands}, {output}, {block_m}, {block_n}, {stages}, {schedule}, \
                 {consumers}, {cluster_m}, {cluster_n}, {cluster_k}, {cluster}, {a}, {b})"
            ),
            targets: &[Target::SM_90A],
            block: [WARPGROUP * (consumers + 1), 1, 1],
            cluster: [cluster, 1, 1],
            dynamic_shared_bytes: self.shared_bytes(),
            params,
            starts_early: true,
            tensor: self.kind.tensor,
            tile: Some(Tile { m: block_m, n: block_n, k: self.block_k(), stages }),
            ..KernelInfo::default()
        }
    }
}

/// Every kernel of the family for scales that change along K.
pub(crate) fn blocks_instances() -> &'static [Instance] {
    static INSTANCES: LazyLock<Vec<Instance>> = LazyLock::new(|| {
        let mut all = Vec::new();
        for kind in KINDS.iter().filter(|kind| kind.operands.is_float8()) {
            for output in [DType::F32, DType::F16, DType::BF16] {
                let of = |shape| Instance::of(Work::ScaledBlocks, shape, kind, output, [Major::K; 2]);
                all.extend(SHAPES_BLOCKS.map(of));
            }
        }
        all
    });
    &INSTANCES
}

/// Every kernel of the family for groups of A's rows.
pub(crate) fn grouped_instances() -> &'static [Instance] {
    static INSTANCES: LazyLock<Vec<Instance>> = LazyLock::new(|| {
        let mut all = Vec::new();
        for kind in &KINDS {
            let (shapes, outputs, majors_b): (&[Shape; 2], &[DType], &[Major]) = match kind.operands {
                DType::F16 | DType::BF16 => (&SHAPES_GROUPED, &[kind.operands, DType::F32], &[Major::K, Major::Mn]),
                DType::F8E4M3 | DType::F8E5M2 => {
                    (&SHAPES_GROUPED_FLOAT8, &[DType::F32, DType::F16, DType::BF16], &[Major::K])
                }
                DType::F32 => (&SHAPES_GROUPED, &[DType::F32], &[Major::K]),
                _ => (&SHAPES_GROUPED, &[DType::I32], &[Major::K]),
            };
            for (&output, &major_b) in outputs.iter().flat_map(|output| majors_b.iter().map(move |b| (output, b))) {
                all.extend(shapes.map(|shape| Instance::of(Work::Groups, shape, kind, output, [Major::K, major_b])));
            }
        }
        all
    });
    &INSTANCES
}

/// Every kernel of the family for the transposed product, of f32 read as tf32 and of 16-bit operands.
pub(crate) fn transposed_instances() -> &'static [Instance] {
    static INSTANCES: LazyLock<Vec<Instance>> = LazyLock::new(|| {
        let of = |kind: &'static Kind| {
            let shapes: &[Shape] = match kind.operands {
                DType::F32 => &SHAPES_TRANSPOSED,
                DType::F16 | DType::BF16 => &[SHAPE_TRANSPOSED_16_BIT],
                _ => &[],
            };
            let one = |&shape| Instance::of(Work::Transposed, shape, kind, kind.operands, [Major::Mn, Major::K]);
            shapes.iter().map(one).collect::<Vec<_>>()
        };
        KINDS.iter().flat_map(of).collect()
    });
    &INSTANCES
}

/// Every kernel of the family for f32 in f16 parts.
pub(crate) fn split_instances() -> &'static [Instance] {
    static INSTANCES: LazyLock<Vec<Instance>> = LazyLock::new(|| {
        let halves = KINDS.iter().filter(|kind| kind.operands == DType::F16);
        let majors = [Major::K, Major::Mn].map(|a| [Major::K, Major::Mn].map(|b| [a, b])).concat();
        let of = |kind| {
            majors.iter().flat_map(move |&majors| {
                SHAPES_SPLIT.map(|shape| Instance::of(Work::Split, shape, kind, DType::F32, majors))
            })
        };
        halves.flat_map(of).collect()
    });
    &INSTANCES
}

/// Every kernel of the family for numbers of D's rows. D has the type that is added up in.
pub(crate) fn reduced_instances() -> &'static [Instance] {
    static INSTANCES: LazyLock<Vec<Instance>> = LazyLock::new(|| {
        use Major::{K, Mn};
        let mut all = Vec::new();
        for kind in &KINDS {
            let (shapes, outputs, layouts): (_, &[DType], &[[Major; 2]]) = match kind.operands {
                DType::F16 | DType::BF16 => (SHAPES_REDUCED, &[DType::F32], &[[K, K], [K, Mn], [Mn, K], [Mn, Mn]]),
                DType::F8E4M3 | DType::F8E5M2 => (SHAPES_REDUCED_FLOAT8, &[DType::F32], &[[K, K]]),
                DType::F32 => (SHAPES_REDUCED, &[DType::F32], &[[K, K]]),
                DType::I8 => (SHAPES_REDUCED, &[DType::I32, DType::F32], &[[K, K]]),
                _ => continue,
            };
            for (&output, &layout) in outputs.iter().flat_map(|output| layouts.iter().map(move |l| (output, l))) {
                all.extend(shapes.map(|shape| Instance::of(Work::Reduced, shape, kind, output, layout)));
            }
        }
        all
    });
    &INSTANCES
}

/// Every kernel of the family for matrices and batches of them.
pub(crate) fn instances() -> &'static [Instance] {
    static INSTANCES: LazyLock<Vec<Instance>> = LazyLock::new(|| {
        use Major::{K, Mn};
        let mut all = Vec::new();
        for kind in &KINDS {
            let shapes = |shapes: &[Shape], output, a, b| {
                shapes.iter().map(|&shape| Instance::new(shape, kind, output, a, b)).collect::<Vec<_>>()
            };
            match kind.operands {
                DType::F16 | DType::BF16 => {
                    for (a, b) in [(K, K), (K, Mn), (Mn, K), (Mn, Mn)] {
                        all.extend(shapes(&SHAPES, kind.operands, a, b));
                        all.extend(shapes(&SHAPES_WIDENING, DType::F32, a, b));
                        if a == K {
                            all.extend(shapes(&SHAPES_16_BIT, kind.operands, a, b));
                        }
                    }
                }
                DType::F8E4M3 | DType::F8E5M2 => {
                    for output in [DType::F32, DType::F16, DType::BF16] {
                        all.extend(shapes(&SHAPES_FLOAT8, output, K, K));
                    }
                    all.extend(shapes(&[SHAPE_FLOAT8_WIDENING], DType::F32, K, K));
                }
                DType::F32 => {
                    all.extend(shapes(&SHAPES, DType::F32, K, K));
                    all.extend(shapes(&SHAPES_FEW_TILES, DType::F32, K, K));
                }
                DType::I8 => {
                    all.extend(shapes(&SHAPES_INTEGERS, DType::I32, K, K));
                    all.extend(shapes(&SHAPES_FEW_TILES, DType::I32, K, K));
                    all.extend(shapes(&SHAPES_SHARING, DType::I32, K, K));
                    for output in [DType::F32, DType::F16, DType::BF16] {
                        all.extend(shapes(&SHAPES_DEQUANTISING, output, K, K));
                    }
                }
                _ => all.extend(shapes(&SHAPES_INTEGERS, DType::I32, K, K)),
            }
        }
        all
    });
    &INSTANCES
}

pub(crate) fn kernels() -> Vec<KernelInfo> {
    let special = grouped_instances().iter().chain(blocks_instances()).chain(transposed_instances());
    let special = special.chain(split_instances()).chain(reduced_instances());
    instances().iter().chain(special).map(Instance::info).collect()
}
