//! The gradient in one pass over the scores (`cuda/attention_backward_one.cuh`): statistics of rows, which clear the counters too; dk, dv
//! and sums of dq in f32; dq of the sums.
//!
//! Blocks of keys of a head wait for each other, so all of them run at the same time, each on a multiprocessor: heads with more of them
//! are left to the three kernels, as are masks, dropout, causal ones, shared groups and heads of up to 64 elements, whose tiles there are
//! half as wide.

use polywarp_core::ops::AttentionGradient;

use super::{LAUNCH_NS, Problem, result_args, scratch, word};
use crate::catalogue::attention::{Makes, ONE_COLUMNS, ROWS, SHORT_COLUMNS, STATISTICS_ROWS};
use crate::{Arg, Candidate, Launch, Plan, find};

/// Multiprocessors of the smallest part of a Hopper card. The tests' interpreted driver, which says that it has two, runs blocks one after
/// the other: there those that wait for each other would wait for ever.
const FEWEST_MULTIPROCESSORS: u64 = 16;
/// The share of tensor cores that a walk over queries reaches, and the clocks of its beginning and end, fitted to an H100's times as those
/// of the three kernels are (benches/results/h100-2026-11-28c/attention-one.txt): of all times nine tenths.
const REACHED: f64 = 0.6;
const WALK_CLOCKS: f64 = 5000.0;

/// How heads are shared out: `Gangs` in C++.
struct Gangs {
    /// Blocks of keys of a head.
    tiles: u64,
    /// Heads at the same time.
    together: u64,
    /// Blocks of queries of a head.
    blocks: u64,
}

impl Problem<'_> {
    fn gangs(&self) -> Option<Gangs> {
        let dims = &self.dims;
        let longest = dims.size.max(dims.width);
        let plain = !self.op.causal && dims.heads == dims.groups;
        let multiprocessors = u64::from(self.caps.multiprocessors);
        let tiles = dims.keys.div_ceil(u64::from(ROWS));
        let fits = multiprocessors >= FEWEST_MULTIPROCESSORS && tiles <= multiprocessors;
        if !plain || !fits || longest <= u64::from(SHORT_COLUMNS) || longest > u64::from(ONE_COLUMNS) {
            return None;
        }
        let together = dims.batch.checked_mul(dims.heads)?.min(multiprocessors / tiles);
        Some(Gangs { tiles, together, blocks: dims.queries.div_ceil(u64::from(STATISTICS_ROWS)) })
    }

    /// Three launches, of which the second makes all products.
    pub(super) fn one_gradient(&self, op: &AttentionGradient) -> Option<Candidate> {
        let gangs = self.gangs()?;
        let one = *self.instances(|makes| *makes == Makes::One).first()?;
        let rounded = *self.instances(|makes| *makes == Makes::Rounded).first()?;
        let dims = &self.dims;
        let heads = dims.batch.checked_mul(dims.heads)?;
        let counters = heads.checked_mul(gangs.blocks)?;
        let part_bytes = 4 * u64::from(STATISTICS_ROWS * ONE_COLUMNS);
        let scratch_bytes = vec![self.statistics_bytes()?, counters.checked_mul(part_bytes)?, counters.checked_mul(4)?];

        let first = self.statistics(op, scratch(2))?;
        let mut args = self.gradient_args(op, [STATISTICS_ROWS, ROWS], &[(1, &op.dk), (2, &op.dv)])?;
        args.extend([scratch(1), scratch(2), word(gangs.tiles)?, word(gangs.together)?, word(gangs.blocks)?]);
        args.extend(self.problem()?);
        let grid = [u32::try_from(gangs.tiles * gangs.together).ok()?, 1, 1];
        let second = Launch { kernel: find(&one.symbol)?, grid, args };
        let mut args = vec![scratch(1)];
        args.extend(result_args(&op.dq, 0)?);
        args.extend([word(dims.heads)?, word(dims.queries)?, word(dims.size)?, Arg::F32(self.op.scale as f32)]);
        let third = Launch { kernel: find(&rounded.symbol)?, grid: [u32::try_from(counters).ok()?, 1, 1], args };

        let sums_ns = self.caps.stream_ns(scratch_bytes[1]);
        let estimate_ns = self.statistics_ns()
            + self.walks_ns(&gangs, heads).max(sums_ns)
            + sums_ns
            + self.caps.stream_ns(op.dq.bytes())
            + 3.0 * LAUNCH_NS; // One for each of the two, and one because neither starts early.
        let plan = Plan { launches: vec![first, second, third], scratch_bytes };
        Some(Candidate { name: one.symbol.clone(), plan, estimate_ns })
    }

    /// Time of the second launch: of the heads, one after the other, that a gang takes.
    fn walks_ns(&self, gangs: &Gangs, heads: u64) -> f64 {
        let pairs = u64::from(ROWS * STATISTICS_ROWS) * gangs.blocks;
        let clocks = WALK_CLOCKS + super::product_clocks(pairs, ONE_COLUMNS, 5, REACHED);
        self.caps.clocks_ns(heads.div_ceil(gangs.together) as f64 * clocks)
    }
}
