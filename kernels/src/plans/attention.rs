//! Attention and its gradient on Hopper (`cuda/attention_forward.cuh`, `cuda/attention_backward*.cuh`), where operands are of 16 bits and lie
//! so that tensor maps describe them; others are left to the portable kernels.
//!
//! Forward is one launch. The gradient is one where queries and keys are few, else three: lse and delta of rows, dq, dk and dv; or one
//! pass between two small launches (`attention_one.rs`).
//! Estimates are the tiles that the fullest multiprocessor has, times the clocks of one, or the time that memory takes.

use polywarp_core::ops::{Attention, AttentionDims, AttentionGradient, TensorSpec};
use polywarp_core::{DType, Op};

#[path = "attention_one.rs"]
mod one;

use super::operand::at;
use crate::catalogue::attention::{
    Extras, INSTANCES, Instance, Makes, ROWS, SHORT_COLUMNS, STATISTICS_COLUMNS, STATISTICS_ROWS, STATISTICS_THREADS,
};
use crate::{Arg, Candidate, Caps, Element, Launch, Plan, Promotion, Slot, Swizzle, TensorMap, find};

/// There are few, and all are worth timing.
pub(super) const WORTH_TIMING: f64 = f64::INFINITY;
/// Bytes at whose multiples rows begin, for tensor maps and for stores.
const UNIT_BYTES: u64 = 16;
/// Columns of a box: 128 bytes, the swizzle's span.
const BOX_COLUMNS: u32 = 64;
/// Queries and keys at most, so that numbers of rows stay signed.
const MOST_ROWS: u64 = 1 << 30;
/// Operations of a multiprocessor's tensor cores a clock.
const FLOPS_A_CLOCK: f64 = 4096.0;
/// Shares of them that kernels reach (docs/attention.md): of heads of 64, and of longer ones.
const REACHED: [f64; 2] = [0.48, 0.66];
/// What a launch costs, and a tile.
const LAUNCH_NS: f64 = 3000.0;
const TILE_CLOCKS: f64 = 1500.0;

pub(super) fn candidates(op: &Op, caps: &Caps) -> Vec<Candidate> {
    let found = if let Some(op) = op.get::<Attention>() {
        Problem::new(op, caps).map(|problem| problem.forward())
    } else if let Some(op) = op.get::<AttentionGradient>() {
        Problem::new(&op.forward, caps).map(|problem| problem.gradient(op))
    } else {
        None
    };
    found.unwrap_or_default()
}

struct Problem<'a> {
    op: &'a Attention,
    dims: AttentionDims,
    element: Element,
    extras: Extras,
    caps: &'a Caps,
}

/// A tile's clocks: the operations of its steps, of heads padded to `columns`.
fn tile_clocks(pairs: u64, columns: u32, products: u64) -> f64 {
    TILE_CLOCKS + product_clocks(pairs, columns, products, REACHED[usize::from(columns > 64)])
}

/// Clocks of products of so many pairs, where tensor cores reach that share.
fn product_clocks(pairs: u64, columns: u32, products: u64, reached: f64) -> f64 {
    (2 * products * pairs * u64::from(columns)) as f64 / (FLOPS_A_CLOCK * reached)
}

impl<'a> Problem<'a> {
    /// `None` for what the kernels do not compute.
    fn new(op: &'a Attention, caps: &'a Caps) -> Option<Problem<'a>> {
        let element = match op.q.dtype {
            DType::F16 => Element::F16,
            DType::BF16 => Element::BF16,
            _ => return None,
        };
        let dims = op.dims();
        let AttentionDims { batch, queries, keys, heads, groups, size, width } = dims;
        let none = [batch, queries, keys, heads, groups, size, width].contains(&0);
        // Each head's tiles, doubled, are numbered in 32 bits.
        let rows = batch.checked_mul(heads)?.checked_mul(queries.max(keys).div_ceil(u64::from(STATISTICS_ROWS)))?;
        let units = [size, width].iter().all(|n| (2 * n).is_multiple_of(UNIT_BYTES));
        // Scores are compared before they are multiplied.
        let scale = op.scale as f32;
        if none || queries.max(keys) > MOST_ROWS || rows >= 1 << 30 || !units || !scale.is_normal() || scale < 0.0 {
            return None;
        }
        let extras = if op.mask.is_some() || op.dropout.is_some() { Extras::With } else { Extras::Without };
        caps.tensor_maps.then_some(Problem { op, dims, element, extras, caps })
    }

    /// The shortest columns that hold a head, among those that there are.
    fn instances(&self, of: impl Fn(&Makes) -> bool) -> Vec<&'static Instance> {
        let longest = self.dims.size.max(self.dims.width);
        let serves = |instance: &&Instance| {
            let extras = instance.makes == Makes::Statistics || instance.extras == self.extras;
            let fits = u64::from(instance.columns) >= longest;
            instance.operands == self.op.q.dtype && of(&instance.makes) && extras && fits
        };
        let found: Vec<&Instance> = INSTANCES.iter().filter(serves).collect();
        let columns = found.iter().map(|instance| instance.columns).min();
        found.into_iter().filter(|instance| Some(instance.columns) == columns).collect()
    }

    fn forward(&self) -> Vec<Candidate> {
        self.instances(|makes| matches!(makes, Makes::Forward { .. }))
            .into_iter()
            .filter_map(|i| self.forward_by(i))
            .collect()
    }

    fn forward_by(&self, instance: &Instance) -> Option<Candidate> {
        let Makes::Forward { queries, keys, .. } = instance.makes else { return None };
        let op = self.op;
        let mut args = vec![
            self.map(&op.q, Slot::Input(0), queries)?,
            self.map(&op.k, Slot::Input(1), keys)?,
            self.map(&op.v, Slot::Input(2), keys)?,
            aligned(&op.out, Slot::Output(0))?,
            start(&op.lse, Slot::Output(1)),
        ];
        args.extend(self.numbers()?);
        let tiles = self.dims.queries.div_ceil(u64::from(queries));
        let pairs = u64::from(queries) * self.seen(self.dims.keys).next_multiple_of(u64::from(keys));
        let estimate_ns = self.estimate_ns(tiles * self.dims.heads, tile_clocks(pairs, instance.columns, 2), 2);
        let plan = Plan { launches: vec![self.launch(instance, tiles, self.dims.heads, args)?], ..Plan::default() };
        Some(Candidate { name: instance.symbol.clone(), plan, estimate_ns })
    }

    fn gradient(&self, op: &AttentionGradient) -> Vec<Candidate> {
        [self.short_gradient(op), self.long_gradient(op), self.one_gradient(op)].into_iter().flatten().collect()
    }

    /// One launch.
    fn short_gradient(&self, op: &AttentionGradient) -> Option<Candidate> {
        let dims = &self.dims;
        let short =
            dims.queries.max(dims.keys) <= u64::from(ROWS) && dims.size.max(dims.width) <= u64::from(SHORT_COLUMNS);
        if !short || dims.heads != dims.groups {
            return None;
        }
        let instance = *self.instances(|makes| *makes == Makes::Short).first()?;
        let place = op.place_of_out();
        let mut args = vec![
            self.map(&self.op.q, Slot::Input(0), ROWS)?,
            self.map(&op.dout, Slot::Input(place + 2), ROWS)?,
            self.map(&self.op.out, Slot::Input(place), ROWS)?,
            self.map(&self.op.k, Slot::Input(1), ROWS)?,
            self.map(&self.op.v, Slot::Input(2), ROWS)?,
            at(&self.op.lse, place + 1),
            op.dlse.map_or(Arg::Null, |dlse| at(&dlse, place + 3)),
        ];
        for (number, result) in [op.dq, op.dk, op.dv].iter().enumerate() {
            args.extend(result_args(result, number)?);
        }
        args.extend(self.numbers()?);
        let clocks = tile_clocks(u64::from(ROWS * ROWS), instance.columns, 5);
        let estimate_ns = self.estimate_ns(dims.heads, clocks, 5);
        let plan = Plan { launches: vec![self.launch(instance, 1, dims.heads, args)?], ..Plan::default() };
        Some(Candidate { name: instance.symbol.clone(), plan, estimate_ns })
    }

    /// Three launches.
    fn long_gradient(&self, op: &AttentionGradient) -> Option<Candidate> {
        let dims = &self.dims;
        let queries = *self.instances(|makes| matches!(makes, Makes::Queries { .. })).first()?;
        let keys = *self.instances(|makes| matches!(makes, Makes::Keys { .. })).first()?;
        let Makes::Queries { keys: step, .. } = queries.makes else { return None };
        let first = self.statistics(op, Arg::Null)?;
        let with = |of_q: u32, of_k: u32, results: &[(usize, &TensorSpec)]| {
            let mut args = self.gradient_args(op, [of_q, of_k], results)?;
            args.extend(self.numbers()?);
            Some(args)
        };
        let of_queries = with(ROWS, step, &[(0, &op.dq)])?;
        let of_keys = with(STATISTICS_ROWS, ROWS, &[(1, &op.dk), (2, &op.dv)])?;
        let tiles = [dims.queries, dims.keys].map(|rows| rows.div_ceil(u64::from(ROWS)));
        let second = self.launch(queries, tiles[0], dims.heads, of_queries)?;
        let third = self.launch(keys, tiles[1], dims.groups, of_keys)?;
        let pairs = |other: u64| u64::from(ROWS) * self.seen(other).next_multiple_of(u64::from(ROWS));
        let estimate_ns = self.statistics_ns()
            + self.estimate_ns(tiles[0] * dims.heads, tile_clocks(pairs(dims.keys), queries.columns, 3), 3)
            + self.estimate_ns(
                tiles[1] * dims.groups,
                tile_clocks(pairs(dims.queries) * dims.shared(), keys.columns, 4),
                4,
            );
        let plan = Plan { launches: vec![first, second, third], scratch_bytes: vec![self.statistics_bytes()?] };
        Some(Candidate { name: format!("{}_{}", queries.symbol, "dkdv"), plan, estimate_ns })
    }

    /// Queries of a head, as statistics have them.
    fn padded(&self) -> u64 {
        self.dims.queries.next_multiple_of(u64::from(ROWS))
    }

    /// Bytes of lse and delta of all rows.
    fn statistics_bytes(&self) -> Option<u64> {
        self.dims.batch.checked_mul(self.dims.heads)?.checked_mul(self.padded())?.checked_mul(8)
    }

    fn statistics_ns(&self) -> f64 {
        LAUNCH_NS + self.caps.stream_ns(self.op.out.bytes().saturating_mul(2))
    }

    /// lse and delta of rows to the first scratch buffer; `counters` are cleared.
    fn statistics(&self, op: &AttentionGradient, counters: Arg) -> Option<Launch> {
        let instance = *self.instances(|makes| *makes == Makes::Statistics).first()?;
        let (dims, place) = (&self.dims, op.place_of_out());
        let args = vec![
            aligned(&self.op.out, Slot::Input(place))?,
            aligned(&op.dout, Slot::Input(place + 2))?,
            at(&self.op.lse, place + 1),
            op.dlse.map_or(Arg::Null, |dlse| at(&dlse, place + 3)),
            scratch(0),
            word(dims.batch)?,
            word(dims.heads)?,
            word(dims.queries)?,
            word(dims.width)?,
            word(self.padded())?,
            counters,
        ];
        let lanes = u64::from(instance.columns / STATISTICS_COLUMNS);
        let threads = dims.batch.checked_mul(dims.heads)?.checked_mul(self.padded())?.checked_mul(lanes)?;
        let blocks = u32::try_from(threads.div_ceil(u64::from(STATISTICS_THREADS))).ok()?;
        Some(Launch { kernel: find(&instance.symbol)?, grid: [blocks, 1, 1], args })
    }

    /// What kernels of the gradient begin with: q, dout, k, v by boxes of these rows, results, statistics.
    fn gradient_args(
        &self,
        op: &AttentionGradient,
        [of_q, of_k]: [u32; 2],
        results: &[(usize, &TensorSpec)],
    ) -> Option<Vec<Arg>> {
        let mut args = vec![
            self.map(&self.op.q, Slot::Input(0), of_q)?,
            self.map(&op.dout, Slot::Input(op.place_of_out() + 2), of_q)?,
            self.map(&self.op.k, Slot::Input(1), of_k)?,
            self.map(&self.op.v, Slot::Input(2), of_k)?,
        ];
        for &(number, result) in results {
            args.extend(result_args(result, number)?);
        }
        args.extend([scratch(0), word(self.padded())?]);
        Some(args)
    }

    /// Rows that another one sees on average.
    fn seen(&self, rows: u64) -> u64 {
        if self.op.causal { rows.div_ceil(2) } else { rows }
    }

    /// Time of a kernel with this number of tiles for each batch, that reads and writes `tensors` of about q's size.
    fn estimate_ns(&self, tiles: u64, clocks: f64, tensors: u64) -> f64 {
        let rounds = tiles.saturating_mul(self.dims.batch).div_ceil(u64::from(self.caps.multiprocessors.max(1)));
        let bytes = (self.op.q.bytes() + self.op.k.bytes()).saturating_mul(tensors);
        LAUNCH_NS + self.caps.clocks_ns(rounds as f64 * clocks).max(self.caps.stream_ns(bytes))
    }

    /// Blocks for `tiles` of each of `heads` heads of a batch: where it is causal, two tiles are one piece of work (`Walk`).
    fn launch(&self, instance: &Instance, tiles: u64, heads: u64, args: Vec<Arg>) -> Option<Launch> {
        let pieces = if self.op.causal { tiles.div_ceil(2) } else { tiles };
        let blocks = pieces.saturating_mul(heads).saturating_mul(self.dims.batch);
        let blocks = u32::try_from(blocks.min(u64::from(self.caps.multiprocessors))).ok()?;
        Some(Launch { kernel: find(&instance.symbol)?, grid: [blocks, 1, 1], args })
    }

    /// A view of [batch, rows, heads, columns] by boxes of `rows` rows of one head.
    fn map(&self, spec: &TensorSpec, slot: Slot, rows: u32) -> Option<Arg> {
        let (dims, strides) = (spec.layout.dims(), spec.layout.strides());
        let offset_bytes = 2 * spec.layout.offset();
        // An axis of one index has no stride that matters, but a tensor map wants one.
        let stride = |axis: usize| -> Option<u64> {
            let bytes = if dims[axis] == 1 { UNIT_BYTES } else { u64::try_from(strides[axis]).ok()?.checked_mul(2)? };
            (bytes > 0 && bytes < 1 << 40 && bytes.is_multiple_of(UNIT_BYTES)).then_some(bytes)
        };
        Some(Arg::TensorMap(TensorMap {
            slot,
            offset_bytes: offset_bytes.is_multiple_of(UNIT_BYTES).then_some(offset_bytes)?,
            element: self.element,
            dims: vec![dims[3], dims[1], dims[2], dims[0]],
            strides_bytes: vec![stride(1)?, stride(2)?, stride(0)?],
            box_dims: vec![BOX_COLUMNS, rows, 1, 1],
            pixels: None,
            swizzle: Swizzle::B128,
            promotion: Promotion::B256,
        }))
    }

    /// `PROBLEM` of the catalogue.
    fn problem(&self) -> Option<Vec<Arg>> {
        let AttentionDims { batch, queries, keys, heads, groups, size, width } = self.dims;
        let sizes = [batch, heads, groups, queries, keys, size, width].map(word);
        let mut args = sizes.into_iter().collect::<Option<Vec<Arg>>>()?;
        args.extend([Arg::F32(self.op.scale as f32), Arg::U32(self.op.causal.into())]);
        Some(args)
    }

    /// `PROBLEM` and `EXTRAS` of the catalogue.
    fn numbers(&self) -> Option<Vec<Arg>> {
        let mut args = self.problem()?;
        let mut place = 3;
        match &self.op.mask {
            Some(mask) => {
                args.push(at(mask, place));
                place += 1;
                let strides = mask.layout.strides();
                args.extend((0..4).map(|axis| Arg::I64(strides[axis])));
            }
            None => args.extend([Arg::Null, Arg::I64(0), Arg::I64(0), Arg::I64(0), Arg::I64(0)]),
        }
        match &self.op.dropout {
            Some(dropout) => {
                args.extend([at(&dropout.key[0], place), at(&dropout.key[1], place + 1)]);
                args.extend([Arg::U32(dropout.threshold()), Arg::F32(dropout.factor() as f32)]);
            }
            None => args.extend([Arg::Null, Arg::Null, Arg::U32(0), Arg::F32(1.0)]),
        }
        Some(args)
    }
}

fn word(value: u64) -> Option<Arg> {
    u32::try_from(value).ok().map(Arg::U32)
}

/// Where a scratch buffer starts.
fn scratch(number: usize) -> Arg {
    Arg::Address { slot: Slot::Scratch(number), offset_bytes: 0 }
}

/// Where a tensor starts.
fn start(spec: &TensorSpec, slot: Slot) -> Arg {
    Arg::Address { slot, offset_bytes: spec.layout.offset() * spec.dtype.size_bytes() }
}

/// The same of one that is read or written 16 bytes at a time; `None` for one that lies otherwise. Its rows are multiples of that.
fn aligned(spec: &TensorSpec, slot: Slot) -> Option<Arg> {
    (spec.layout.offset() * spec.dtype.size_bytes()).is_multiple_of(UNIT_BYTES).then(|| start(spec, slot))
}

/// `RESULT` of the catalogue, of a result [batch, rows, heads, columns].
fn result_args(spec: &TensorSpec, number: usize) -> Option<[Arg; 4]> {
    let strides = spec.layout.strides();
    Some([aligned(spec, Slot::Output(number))?, Arg::I64(strides[1]), Arg::I64(strides[2]), Arg::I64(strides[0])])
}

#[cfg(test)]
#[path = "attention_tests.rs"]
mod tests;
