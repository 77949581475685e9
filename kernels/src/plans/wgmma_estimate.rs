//! What a product by wgmma takes: tensor clocks, bytes from the second-level cache and from memory, rounds of tiles.
//!
//! For ranking alone. Constants were fitted to what an H200 took on 2026-11-21 (docs/gemm.md).

use polywarp_core::ops::MatmulDims;

use super::{Problem, Source};
use crate::catalogue::wgmma::{Instance, Schedule, Shape};

/// Bytes of a row of a stage, and how many times as much it costs where rows do not start on the cache's lines.
const ROW_BYTES: f64 = 128.0;
const SPLIT_LINES: f64 = 1.8;
/// Outputs that the tensor cores add 128 bytes of k to in a clock, and the share of clocks in which they do.
const OUTPUTS_PER_CLOCK: f64 = 32.0;
const TENSOR_SHARE: f64 = 0.94;
/// Bytes a clock that one multiprocessor gets from the second-level cache when all of them ask.
const L2_BYTES_PER_CLOCK: f64 = 64.0;
/// Bytes a clock that shared memory gives or takes.
const SHARED_PORT_BYTES: f64 = 128.0;
/// Share of the highest clock that is held, clocks from which the card's power limit takes some of it, and how much for each row
/// that an output needs: 128x128 tiles of f16 and bf16 lose 5 % more than 128x256, which fetch a quarter less
/// (`benches/results/h200-gemm-2026-11-24/edge.txt`). The tuner cannot see that, as what it times in turns has one clock, so the
/// order of candidates decides there.
const CLOCK: f64 = 0.95;
const LONG_CLOCKS: f64 = 150_000.0;
const ROWS_POWER: f64 = 15.0;
/// Clocks of starting: launch, first tiles under way; more for clusters, whose blocks wait for each other.
const START_CLOCKS: f64 = 4200.0;
const CLUSTER_CLOCKS: f64 = 700.0;
/// Bytes of D that a block stores in a clock, and bytes of sums that it reads from others of its cluster.
const STORED_BYTES_PER_CLOCK: f64 = 32.0;
const SHARED_BYTES_PER_CLOCK: f64 = 24.0;
/// Instructions of one lane that a multiprocessor issues in a clock; those that an output takes where it is more than a rounded
/// sum, and those of gelu, which is the longest activation (counted in the machine code of 128x256 tiles to f16).
const ISSUED_PER_CLOCK: f64 = 128.0;
const ENDING: f64 = 15.0;
/// The same where C is read, two columns at a time: what an H100 took for products of few terms
/// (benches/results/h100-2026-11-28f/profile-f16-before.txt).
const ADDING: f64 = 90.0;
/// Those by which a sum becomes part of its row's number (a guess).
const FOLDING: f64 = 2.0;
const ACTIVATION: f64 = 20.0;
/// Clocks of handing sums over: two barriers of the cluster.
const SHARE_CLOCKS: f64 = 1500.0;
/// What a second launch costs, each slab that it adds, and the bytes of sums that it reads in a nanosecond.
pub(super) const SECOND_LAUNCH_NS: f64 = 1500.0;
const SLAB_NS: f64 = 60.0;
pub(super) const SUMS_BYTES_PER_NS: f64 = 2000.0;
/// One of so many bytes that a second block reads comes from memory again.
const READ_AGAIN: u64 = 8;
/// Share of the promised memory rate that products reach.
const MEMORY_SHARE: f64 = 0.85;

/// Clocks of a stage of a compressed A, where the tensor cores would take `dense`: half, or what shared memory takes to give 64
/// rows of values and all of B for each slab, and to take in the stage (a guess, `cuda/gemm_wgmma_sparse.cuh`).
fn sparse_stage_clocks(instance: &Instance, dense: f64) -> f64 {
    let Shape { block_m, block_n, .. } = instance.shape;
    let slab_bytes = f64::from(64 + 2 * block_n) * ROW_BYTES / 2.0;
    let moved = f64::from(block_m / 64) * slab_bytes + f64::from(instance.stage_bytes());
    (dense / 2.0).max(moved / SHARED_PORT_BYTES)
}

impl Problem<'_> {
    /// Nanoseconds of the product itself, without what prepares its operands.
    pub(super) fn estimate_ns(&self, instance: &Instance, slabs: u64, slab_tiles: u64, sums_bytes: u64) -> f64 {
        let Shape { block_m, block_n, schedule, cluster_m, cluster_n, cluster_k, .. } = instance.shape;
        let outputs = f64::from(block_m * block_n);
        // Multicast helps where lines are split, and where they are not it was seen to cost what it saves.
        let row_cost = |source: &Source, rows: u32, sharers: u32| {
            f64::from(rows) * if source.on_cache_lines() { 1.0 } else { SPLIT_LINES / f64::from(sharers) }
        };
        let rows = row_cost(&self.a, block_m, cluster_n) + row_cost(&self.b, block_n, cluster_m);
        let tensor = outputs / OUTPUTS_PER_CLOCK / TENSOR_SHARE;
        let tensor = if instance.is_compressed() { sparse_stage_clocks(instance, tensor) } else { tensor };
        let step = tensor.max(rows * ROW_BYTES / L2_BYTES_PER_CLOCK);
        let depth = slab_tiles.div_ceil(u64::from(cluster_k)) as f64;
        let rounds = (self.clusters(instance) * slabs).div_ceil(self.caps.clusters(instance.shape.cluster())) as f64;
        let stored = match instance.is_reduced() {
            true => outputs * FOLDING / ISSUED_PER_CLOCK,
            false => outputs * instance.output.size_bytes() as f64 / STORED_BYTES_PER_CLOCK,
        };
        // Slabs end in a second launch.
        let ended = if sums_bytes > 0 { 0.0 } else { outputs * self.ending_instructions() / ISSUED_PER_CLOCK };
        let stored = stored + ended;
        let products = depth * step;
        // While one consumer stores, the other multiplies: the longer of the two counts, and at the end the shorter one once.
        let mut clocks = START_CLOCKS
            + match schedule {
                Schedule::Cooperative => rounds * (products + stored),
                Schedule::PingPong => rounds * products.max(stored) + products.min(stored),
            };
        if instance.shape.cluster() > 1 {
            clocks += CLUSTER_CLOCKS;
        }
        if cluster_k > 1 {
            let read = outputs * 4.0 * f64::from(cluster_k - 1) / f64::from(cluster_k);
            clocks += rounds * (SHARE_CLOCKS + read / SHARED_BYTES_PER_CLOCK);
        }
        let rows_per_output = f64::from(block_m + block_n) / outputs;
        let drawn = if clocks > LONG_CLOCKS { 1.0 + ROWS_POWER * rows_per_output } else { 1.0 };
        let busy_ns = self.caps.clocks_ns(clocks) / CLOCK * drawn;
        let memory_ns = self.caps.clocks_ns(START_CLOCKS) + self.caps.stream_ns(self.bytes(instance)) / MEMORY_SHARE;
        let ended_ns = if sums_bytes == 0 {
            0.0
        } else {
            SECOND_LAUNCH_NS + slabs as f64 * SLAB_NS + sums_bytes as f64 / SUMS_BYTES_PER_NS
        };
        // Of two that wait for memory, the one with less to do is the better.
        busy_ns.max(memory_ns) + 0.05 * busy_ns + ended_ns
    }

    /// Instructions that an output takes besides being rounded and stored.
    fn ending_instructions(&self) -> f64 {
        use polywarp_core::ops::UnaryFn;
        let op = self.op;
        let activated = op.activation.is_some_and(|f| f != UnaryFn::Relu);
        let plain = op.alpha == 1.0 && op.beta == 0.0 && op.bias.is_none() && op.activation.is_none();
        let added = if op.beta == 0.0 { 0.0 } else { ADDING };
        match (plain && !op.is_quantised(), activated) {
            (true, _) => 0.0,
            (false, false) => ENDING + added,
            (false, true) => ENDING + ACTIVATION + added,
        }
    }

    /// Bytes of A, B, C and D, and a share of those that the larger operand is read again: not all are found in L2. Blocks of a cluster
    /// that share it read it once.
    fn bytes(&self, instance: &Instance) -> u64 {
        let MatmulDims { batch, m, n, k } = self.dims;
        let Shape { block_m, block_n, cluster_m, cluster_n, .. } = instance.shape;
        let element = self.op.a.dtype.size_bytes();
        let again =
            if m > n { n.div_ceil(u64::from(block_n * cluster_n)) } else { m.div_ceil(u64::from(block_m * cluster_m)) }
                - 1;
        let larger = m.max(n).saturating_mul(k).saturating_mul(element);
        let operands = (m * k + k * n).saturating_mul(element);
        let kept = if instance.is_reduced() { m } else { m * n };
        let results = kept.saturating_mul(self.op.output.dtype.size_bytes());
        let results = if self.op.beta == 0.0 { results } else { results.saturating_mul(2) };
        // Products of many tiles are not bound by memory.
        let read_again = larger.saturating_mul(again.min(2)) / READ_AGAIN;
        batch.saturating_mul(operands.saturating_add(results).saturating_add(read_again))
    }
}
