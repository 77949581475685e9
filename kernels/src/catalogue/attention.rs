//! Kernels of the family attention: attention and its gradient on Hopper. Sources: `cuda/attention_forward.cuh` and
//! `cuda/attention_backward*.cuh`.
//!
//! [`INSTANCES`] is the list; symbols, lines of C++, threads and shared memory follow from it, and the planner
//! (`plans/attention.rs`) walks over the same list. Each kernel is there twice: without, and with what a mask and dropout need, whose
//! registers the first one does not have to spare.

use std::sync::LazyLock;

use polywarp_core::DType;

use super::KernelInfo;
use crate::{Param, Target};

/// Rows of a tile of the gradient's kernels.
pub(crate) const ROWS: u32 = 128;
/// `STATISTICS_ROWS` in `cuda/attention_backward.cuh`: rows of a step of the kernel that makes dk and dv.
pub(crate) const STATISTICS_ROWS: u32 = 64;
/// Threads of a block that makes statistics.
pub(crate) const STATISTICS_THREADS: u32 = 256;
/// Columns that a thread of it takes.
pub(crate) const STATISTICS_COLUMNS: u32 = 8;
/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;

/// What a kernel makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Makes {
    /// out and lse, of `queries` queries a tile, by steps of `keys` keys.
    Forward {
        /// Queries of a tile.
        queries: u32,
        /// Keys of a step.
        keys: u32,
        /// Tiles of queries, and of keys, in shared memory.
        stages: [u32; 2],
        /// Whether one consumer multiplies while the other finds exponentials.
        turns: bool,
    },
    /// lse and delta as the kernels below read them.
    Statistics,
    /// dq, by steps of `keys` keys.
    Queries {
        /// Keys of a step.
        keys: u32,
        /// Steps in shared memory.
        stages: u32,
        /// Whether products of two steps are under way at a time.
        overlaps: bool,
    },
    /// dk and dv, by steps of `STATISTICS_ROWS` queries.
    Keys {
        /// Steps in shared memory.
        stages: u32,
        /// Whether products of two steps are under way at a time.
        overlaps: bool,
    },
    /// dq, dk and dv of at most `ROWS` queries and keys.
    Short,
    /// dk, dv and f32 sums of dq, by steps of `STATISTICS_ROWS` queries.
    One,
    /// dq, of the sums.
    Rounded,
}

/// Whether a kernel knows masks and dropout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Extras {
    /// It does.
    With,
    /// It does not.
    Without,
}

/// One kernel.
#[derive(Clone, Debug)]
pub(crate) struct Instance {
    pub operands: DType,
    /// Columns of its tiles: heads are at most so long.
    pub columns: u32,
    pub makes: Makes,
    pub extras: Extras,
    pub symbol: String,
}

/// Of each length of heads and without and with extras: tiles of queries and keys, stages of both, turns.
#[rustfmt::skip]
const FORWARD: [(u32, Extras, Makes); 7] = [
    (64, Extras::Without, forward([192, 128], [1, 4], false)),
    (64, Extras::Without, forward([128, 128], [3, 4], true)),
    (64, Extras::With, forward([128, 128], [3, 4], true)),
    (128, Extras::Without, forward([128, 128], [1, 2], true)),
    (128, Extras::With, forward([128, 128], [1, 2], true)),
    (256, Extras::Without, forward([128, 80], [1, 2], true)),
    (256, Extras::With, forward([128, 48], [1, 3], true)),
];

const fn forward([queries, keys]: [u32; 2], stages: [u32; 2], turns: bool) -> Makes {
    Makes::Forward { queries, keys, stages, turns }
}

/// The same of dq: keys of a step, stages, overlap.
#[rustfmt::skip]
const QUERIES: [(u32, Extras, u32, u32, bool); 4] = [
    (64, Extras::Without, 128, 4, true),
    (64, Extras::With, 128, 4, true),
    (128, Extras::Without, 128, 2, false),
    (128, Extras::With, 96, 2, true),
];
/// And of dk and dv: stages, overlap.
const KEYS: [(u32, u32, bool); 2] = [(64, 6, true), (128, 4, false)];
/// Columns of tiles of kernels of short sequences.
pub(crate) const SHORT_COLUMNS: u32 = 64;
/// `D` of `BackwardOne`: columns of tiles of the kernel that makes a gradient in one pass.
pub(crate) const ONE_COLUMNS: u32 = 128;
/// Threads of a block that rounds its sums of dq.
const ROUNDED_THREADS: u32 = 256;

impl Instance {
    fn new(operands: DType, columns: u32, extras: Extras, makes: Makes) -> Instance {
        let what = match makes {
            Makes::Forward { queries, keys, .. } => format!("d{columns}_{queries}x{keys}"),
            Makes::Statistics => format!("statistics_d{columns}"),
            Makes::Queries { keys, .. } => format!("dq_d{columns}_{ROWS}x{keys}"),
            Makes::Keys { .. } => format!("dkdv_d{columns}_{STATISTICS_ROWS}x{ROWS}"),
            Makes::Short => format!("gradient_d{columns}_{ROWS}x{ROWS}"),
            Makes::One => format!("one_pass_d{columns}_{STATISTICS_ROWS}x{ROWS}"),
            Makes::Rounded => format!("one_pass_rounded_d{columns}"),
        };
        let with = if extras == Extras::With { "_extras" } else { "" };
        let symbol = format!("attention_{}_{what}{with}", operands.name());
        Instance { operands, columns, makes, extras, symbol }
    }

    fn tile_bytes(&self, rows: u32) -> u32 {
        2 * rows * self.columns
    }

    /// Consumer warpgroups and the one that loads.
    fn threads(&self) -> u32 {
        match self.makes {
            Makes::Statistics => STATISTICS_THREADS,
            Makes::Forward { queries, .. } => (queries / 64 + 1) * WARPGROUP,
            Makes::Queries { .. } | Makes::Keys { .. } | Makes::Short | Makes::One => 3 * WARPGROUP,
            Makes::Rounded => ROUNDED_THREADS,
        }
    }

    /// `SHARED_BYTES` of its configuration: tiles on their 1024-byte grid, then barriers of 8 bytes.
    fn shared_bytes(&self) -> u32 {
        let own = 2 * self.tile_bytes(ROWS);
        let used = match self.makes {
            Makes::Statistics | Makes::Rounded => return 0,
            Makes::Forward { queries, keys, stages: [of_q, of_k], .. } => {
                of_q * (self.tile_bytes(queries) + 16) + of_k * (2 * self.tile_bytes(keys) + 32)
            }
            Makes::Queries { keys, stages, .. } => own + 16 + stages * (2 * self.tile_bytes(keys) + 32),
            Makes::Keys { stages, .. } => {
                let statistics = 2 * 4 * STATISTICS_ROWS;
                own + 16 + stages * (2 * self.tile_bytes(STATISTICS_ROWS) + statistics + 16)
            }
            Makes::Short => 2 * (5 * self.tile_bytes(ROWS) + 16) + 2 * own,
            Makes::One => {
                // Two stages of q and dout, of dS, of lse and delta; two parts of dq in f32.
                let stage = 2 * self.tile_bytes(STATISTICS_ROWS) + 2 * ROWS * STATISTICS_ROWS + 2 * 4 * STATISTICS_ROWS;
                own + 16 + 2 * (stage + 32) + 2 * (4 * STATISTICS_ROWS * self.columns + 16)
            }
        };
        1024 + used
    }

    fn info(&self) -> KernelInfo {
        let Instance { symbol, columns, operands, extras, .. } = self;
        let (cpp, with) = (super::cpp(*operands), *extras == Extras::With);
        let (source, instance) = match self.makes {
            Makes::Forward { queries, keys, stages: [of_q, of_k], turns } => (
                "attention_forward.cuh",
                format!(
                    "ATTENTION_FORWARD({symbol}, {cpp}, {columns}, {queries}, {keys}, {of_q}, {of_k}, {with}, {turns})"
                ),
            ),
            Makes::Statistics => (
                "attention_backward.cuh",
                format!("ATTENTION_STATISTICS({symbol}, {cpp}, {})", columns / STATISTICS_COLUMNS),
            ),
            Makes::Queries { keys, stages, overlaps } => (
                "attention_backward.cuh",
                format!("ATTENTION_BACKWARD_QUERIES({symbol}, {cpp}, {columns}, {keys}, {stages}, {overlaps}, {with})"),
            ),
            Makes::Keys { stages, overlaps } => (
                "attention_backward_keys.cuh",
                format!(
                    "ATTENTION_BACKWARD_KEYS({symbol}, {cpp}, {columns}, {STATISTICS_ROWS}, {stages}, {overlaps}, {with})"
                ),
            ),
            Makes::Short => {
                ("attention_backward_short.cuh", format!("ATTENTION_BACKWARD_SHORT({symbol}, {cpp}, {with})"))
            }
            Makes::One => ("attention_backward_one.cuh", format!("ATTENTION_BACKWARD_ONE({symbol}, {cpp})")),
            Makes::Rounded => {
                ("attention_backward_one.cuh", format!("ATTENTION_BACKWARD_ONE_ROUNDED({symbol}, {cpp})"))
            }
        };
        KernelInfo {
            symbol: symbol.clone(),
            source,
            instance,
            targets: &[Target::SM_90A],
            block: [self.threads(), 1, 1],
            dynamic_shared_bytes: self.shared_bytes(),
            params: self.params(),
            // No cooperative launch has been tried beside one that starts early.
            starts_early: !matches!(self.makes, Makes::One | Makes::Rounded),
            cooperative: self.makes == Makes::One,
            tensor: if matches!(self.makes, Makes::Statistics | Makes::Rounded) { &[] } else { &["HGMMA"] },
            ..KernelInfo::default()
        }
    }

    fn params(&self) -> Vec<Param> {
        use Param::{Address, F32, I64, TensorMap, U32};
        // A result: where it is, and its strides of rows, heads and batches.
        const RESULT: [Param; 4] = [Address, I64, I64, I64];
        // Batches, heads, groups, queries, keys, size, width; scale; whether it is causal.
        const PROBLEM: [Param; 9] = [U32, U32, U32, U32, U32, U32, U32, F32, U32];
        // The mask and its strides of batches, heads, rows and columns; the key's low and high words, threshold and factor.
        const EXTRAS: [Param; 9] = [Address, I64, I64, I64, I64, Address, Address, U32, F32];
        let all: &[&[Param]] = match self.makes {
            // q, k, v; out, lse.
            Makes::Forward { .. } => &[&[TensorMap; 3], &[Address; 2], &PROBLEM, &EXTRAS],
            // out, dout, lse, dlse, statistics; batches, heads, queries, width, padded queries; counters.
            Makes::Statistics => &[&[Address; 5], &[U32; 5], &[Address]],
            // q, dout, k, v; dq; statistics, padded queries.
            Makes::Queries { .. } => &[&[TensorMap; 4], &RESULT, &[Address, U32], &PROBLEM, &EXTRAS],
            // q, dout, k, v; dk, dv; statistics, padded queries.
            Makes::Keys { .. } => &[&[TensorMap; 4], &RESULT, &RESULT, &[Address, U32], &PROBLEM, &EXTRAS],
            // q, dout, out, k, v; lse, dlse; dq, dk, dv.
            Makes::Short => &[&[TensorMap; 5], &[Address; 2], &RESULT, &RESULT, &RESULT, &PROBLEM, &EXTRAS],
            // q, dout, k, v; dk, dv; statistics, padded queries; sums of dq, counters; `Gangs`.
            Makes::One => &[&[TensorMap; 4], &RESULT, &RESULT, &[Address, U32], &[Address; 2], &[U32; 3], &PROBLEM],
            // Sums; dq; heads, queries, size, scale.
            Makes::Rounded => &[&[Address], &RESULT, &[U32, U32, U32, F32]],
        };
        all.concat()
    }
}

/// Every kernel of the family.
pub(crate) static INSTANCES: LazyLock<Vec<Instance>> = LazyLock::new(|| {
    let mut list = Vec::new();
    for operands in [DType::F16, DType::BF16] {
        let mut push = |columns, extras, makes| list.push(Instance::new(operands, columns, extras, makes));
        for (columns, extras, makes) in FORWARD {
            push(columns, extras, makes);
        }
        for (columns, extras, keys, stages, overlaps) in QUERIES {
            push(columns, extras, Makes::Queries { keys, stages, overlaps });
        }
        for (columns, stages, overlaps) in KEYS {
            push(columns, Extras::Without, Makes::Statistics);
            for extras in [Extras::Without, Extras::With] {
                push(columns, extras, Makes::Keys { stages, overlaps });
            }
        }
        for extras in [Extras::Without, Extras::With] {
            push(SHORT_COLUMNS, extras, Makes::Short);
        }
        push(ONE_COLUMNS, Extras::Without, Makes::One);
        push(ONE_COLUMNS, Extras::Without, Makes::Rounded);
    }
    list
});

pub(crate) fn kernels() -> Vec<KernelInfo> {
    INSTANCES.iter().map(Instance::info).collect()
}
