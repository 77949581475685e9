//! Benchmark cases: the same ops as the conformance cases, at the sizes the speedup tables report.
//!
//! This names what is timed; timing, verification before it and the tables are the benchmarks' own
//! (`benches/`). Cases come from the registry ([`crate::ops::REGISTRY`]).

use serde::Serialize;

use crate::Op;

/// One op to time.
#[derive(Clone, Debug)]
pub struct BenchCase {
    /// Its identity: `gemm f32 1024`.
    pub name: String,
    /// Which table it belongs to.
    pub suite: Suite,
    /// What is computed. Whoever times it makes the operands, on the device.
    pub op: Op,
    /// What its rate counts.
    pub metric: Metric,
    /// Whether tables show it when its suite is not asked for by name.
    pub in_overview: bool,
}

impl BenchCase {
    /// `op` under this name in this table.
    pub fn new(name: impl Into<String>, suite: Suite, op: impl Into<Op>, metric: Metric) -> BenchCase {
        BenchCase { name: name.into(), suite, op: op.into(), metric, in_overview: true }
    }

    /// The same, shown only where its suite is asked for by name.
    #[must_use]
    pub fn beside(mut self) -> BenchCase {
        self.in_overview = false;
        self
    }
}

/// A group of rows of the speedup tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Suite {
    /// Copies and transposes.
    Copy,
    /// One-pass arithmetic.
    Elementwise,
    /// Matrix products.
    Gemm,
    /// Random numbers.
    Random,
    /// Reductions.
    Reduce,
    /// Softmax.
    Softmax,
}

impl Suite {
    /// Lower-case name, as `polywarp bench --suite` takes it.
    pub const fn name(self) -> &'static str {
        match self {
            Suite::Copy => "copy",
            Suite::Elementwise => "elementwise",
            Suite::Gemm => "gemm",
            Suite::Random => "random",
            Suite::Reduce => "reduce",
            Suite::Softmax => "softmax",
        }
    }

    /// Every suite, alphabetically.
    pub const ALL: [Suite; 6] =
        [Suite::Copy, Suite::Elementwise, Suite::Gemm, Suite::Random, Suite::Reduce, Suite::Softmax];
}

/// What a rate counts, all from [`crate::Cost`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Metric {
    /// Arithmetic operations.
    Flops,
    /// Bytes read and written.
    Bytes,
    /// Elements written.
    Elements,
}

/// How much work a device is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum BenchSize {
    /// Software GPUs and continuous integration: every row within a second.
    Small,
    /// CPUs and small GPUs.
    Normal,
    /// Large GPUs: sizes that reach the roofline.
    Large,
}

impl BenchSize {
    /// The value for this size.
    pub fn pick<T>(self, small: T, normal: T, large: T) -> T {
        match self {
            BenchSize::Small => small,
            BenchSize::Normal => normal,
            BenchSize::Large => large,
        }
    }

    /// Elements of a one-pass workload: 2^20, 2^26 or 2^28.
    pub fn elements(self) -> u64 {
        self.pick(1 << 20, 1 << 26, 1 << 28)
    }

    /// Side of a square matrix of [`BenchSize::elements`].
    pub fn side(self) -> u64 {
        self.pick(1 << 10, 1 << 13, 1 << 14)
    }
}
