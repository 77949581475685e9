//! Matrix products on Hopper's tensor cores: which instance of `catalogue/wgmma.rs`, on how many blocks.
//!
//! 16-bit operands are taken as they lie wherever a tensor map can describe them; others are packed first (`pack.rs`). f32
//! products run as tf32 at `Medium` and `Low`, and as three products of tf32 parts at `High`; never at `Highest`. Where
//! tiles are few and K is long, slabs of K are summed apart and added by a second launch (`splitk.rs`). The estimate
//! counts tensor clocks, bytes from the second-level cache and rounds of tiles; its constants are measured (docs/gemm.md).

use polywarp_core::ops::{Matmul, MatmulDims};
use polywarp_core::{DType, Op, Precision};

use super::operand::{Addends, Operand, activation};
use super::pack::pack;
use super::splitk;
use crate::catalogue::pack::Mode;
use crate::catalogue::wgmma::{Instance, Major, Operands, Shape, instances};
use crate::{Arg, Candidate, Caps, Element, Launch, Plan, Promotion, Slot, Swizzle, TensorMap, find};

/// Tile rows that blocks walk together before moving along N.
const RASTER_ROWS: u32 = 8;
/// Tiles of K that a slab has at least, and slabs that a product has at most.
const LEAST_SLAB_TILES: u64 = 8;
const MOST_SLABS: u64 = 32;
/// Candidates that are at most so many times slower than the best are worth timing.
pub(super) const WORTH_TIMING: f64 = 1.6;
/// Bytes a clock that one multiprocessor gets from the second-level cache when all of them ask (H200, 2026-11-21).
const L2_BYTES_PER_CLOCK: f64 = 52.0;
/// Share of the highest clock that is held: the card's power limit lowers it in long products.
const CLOCK_SHORT: f64 = 0.95;
const CLOCK_LONG: f64 = 0.82;
/// Clocks of starting: launch, first tiles under way.
const START_CLOCKS: f64 = 4200.0;
/// What a second launch costs.
const SECOND_LAUNCH_NS: f64 = 2500.0;
/// Clocks of the epilogue for an output of a tile.
const EPILOGUE_CLOCKS: f64 = 0.06;

pub(super) fn candidates(op: &Op, caps: &Caps) -> Vec<Candidate> {
    let Op::Matmul(op) = op else { return Vec::new() };
    let MatmulDims { batch, m, n, k } = op.dims();
    // Tile coordinates are 32-bit, and signed where tensor maps take them.
    let fits = [m, n, k, batch].iter().all(|&extent| (1..=1 << 30).contains(&extent));
    if caps.sm != 90 || !caps.tensor_maps || !fits {
        return Vec::new();
    }
    products(op, caps).unwrap_or_default()
}

/// How operands of a type and precision are multiplied.
struct Way {
    operands: Operands,
    element: Element,
    /// How an operand is packed that cannot stay where it is.
    packing: Mode,
    /// Products of planes: 1, or 3 for operands split in two.
    terms: u64,
}

impl Way {
    /// `None` for types that no instance has.
    fn of(op: &Matmul) -> Option<Way> {
        let way = |operands, element, packing| Some(Way { operands, element, packing, terms: 1 });
        match (op.a.dtype, op.precision) {
            (DType::F16, _) => way(Operands::F16, Element::F16, Mode::Copy(2)),
            (DType::BF16, _) => way(Operands::Bf16, Element::BF16, Mode::Copy(2)),
            (DType::I8, _) => way(Operands::I8, Element::U8, Mode::Copy(1)),
            (DType::U8, _) => way(Operands::U8, Element::U8, Mode::Copy(1)),
            (DType::F32, Precision::Medium | Precision::Low) => way(Operands::Tf32, Element::Tf32, Mode::Tf32),
            (DType::F32, Precision::High) => {
                Some(Way { operands: Operands::Tf32, element: Element::Tf32, packing: Mode::Tf32x2, terms: 3 })
            }
            _ => None,
        }
    }
}

fn products(op: &Matmul, caps: &Caps) -> Option<Vec<Candidate>> {
    let way = Way::of(op)?;
    let mut prepared = Prepared::default();
    let a = prepared.operand(Operand::a(op)?, &way, caps)?;
    let b = prepared.operand(Operand::b(op)?, &way, caps)?;
    let problem = Problem { op, a, b, terms: way.terms, addends: Addends::of(op)?, activation: activation(op)? };
    let matches = |instance: &&Instance| {
        instance.operands == way.operands && (instance.major_a, instance.major_b) == (problem.a.major, problem.b.major)
    };
    let mut found = Vec::new();
    for instance in instances().iter().filter(matches) {
        if instance.output == op.output.dtype {
            found.extend(problem.whole(instance, caps));
        }
        // Sums of slabs: f32, or i32 of integers.
        if matches!(instance.output, DType::F32 | DType::I32) {
            found.extend(problem.slabs(instance, prepared.scratch_bytes.len(), caps));
        }
    }
    for candidate in &mut found {
        candidate.plan.launches.splice(0..0, prepared.launches.iter().cloned());
        candidate.plan.scratch_bytes.splice(0..0, prepared.scratch_bytes.iter().copied());
        candidate.estimate_ns += prepared.estimate_ns;
    }
    Some(found)
}

/// Launches that come before the product, and the scratch space they fill.
#[derive(Default)]
struct Prepared {
    launches: Vec<Launch>,
    scratch_bytes: Vec<u64>,
    estimate_ns: f64,
}

impl Prepared {
    /// The operand as a tensor map can describe it: where it lies, or packed.
    fn operand(&mut self, operand: Operand, way: &Way, caps: &Caps) -> Option<Source> {
        if way.terms == 1
            && let Some(source) = Source::of(operand, way.element, 0)
        {
            return Some(source);
        }
        let (launch, packed) = pack(way.packing, &operand, self.scratch_bytes.len(), caps)?;
        self.launches.push(launch);
        self.scratch_bytes.push(packed.bytes);
        self.estimate_ns += packed.estimate_ns;
        Source::of(packed.operand, way.element, if way.terms == 1 { 0 } else { packed.plane_stride })
    }
}

/// An operand that a tensor map describes.
struct Source {
    operand: Operand,
    element: Element,
    major: Major,
    /// Elements from one line of neighbours to the next.
    pitch: u64,
    /// Planes of each matrix: 1, or 2 for a high and a low part.
    planes: u64,
}

impl Source {
    /// `None` when its neighbours, pitch or place are not what tensor maps take. `plane_stride` leads from the high planes of
    /// all matrices, which lie one after the other, to the low ones; 0 where there are none.
    fn of(operand: Operand, element: Element, plane_stride: i64) -> Option<Source> {
        let bytes = operand.element_bytes;
        let in_units = |elements: u64| (elements * bytes).is_multiple_of(16);
        // A single line has any pitch.
        let pitch = |stride: i64, lines: u64, length: u64| match u64::try_from(stride) {
            Ok(0) if lines == 1 => Some((length * bytes).next_multiple_of(16) / bytes),
            Ok(stride) if stride > 0 && in_units(stride) => Some(stride),
            _ => None,
        };
        let along_k =
            (operand.k_stride == 1 || operand.k == 1).then(|| pitch(operand.row_stride, operand.rows, operand.k));
        let along_rows =
            (operand.row_stride == 1 || operand.rows == 1).then(|| pitch(operand.k_stride, operand.k, operand.rows));
        let (major, pitch) = match (along_k.flatten(), along_rows.flatten()) {
            (Some(pitch), _) => (Major::K, pitch),
            (None, Some(pitch)) if bytes == 2 => (Major::Mn, pitch),
            _ => return None,
        };
        let batches = operand.batch == 1 || operand.batch_stride > 0 && in_units(operand.batch_stride.unsigned_abs());
        let planes = if plane_stride == 0 { 1 } else { 2 };
        (batches && in_units(operand.offset)).then_some(Source { operand, element, major, pitch, planes })
    }

    /// The map from which blocks load `part` rows at a time.
    fn map(&self, part: u32, block_k: u32) -> TensorMap {
        let Operand { rows, k, batch, batch_stride, element_bytes, .. } = self.operand;
        let (lines, length, box_dims) = match self.major {
            Major::K => (rows, k, [block_k, part, 1]),
            Major::Mn => (k, rows, [64, block_k, 1]),
        };
        let batch_bytes = if batch == 1 { self.pitch * lines } else { batch_stride.unsigned_abs() } * element_bytes;
        TensorMap {
            slot: self.operand.slot,
            offset_bytes: self.operand.offset_bytes(),
            element: self.element,
            dims: vec![length, lines, batch * self.planes],
            strides_bytes: vec![self.pitch * element_bytes, batch_bytes.next_multiple_of(16)],
            box_dims: box_dims.to_vec(),
            swizzle: Swizzle::B128,
            promotion: Promotion::B256,
        }
    }
}

/// A product whose operands are ready.
struct Problem<'a> {
    op: &'a Matmul,
    a: Source,
    b: Source,
    terms: u64,
    addends: Addends,
    activation: u32,
}

/// Where a launch writes, and how much of K it adds up there.
struct Target {
    slot: Slot,
    offset_bytes: u64,
    dtype: DType,
    slabs: u64,
    slab_tiles: u64,
    /// alpha, beta, C with its strides, bias, activation.
    epilogue: Vec<Arg>,
}

impl Problem<'_> {
    /// D by one launch.
    fn whole(&self, instance: &Instance, caps: &Caps) -> Option<Candidate> {
        let output = &self.op.output;
        let target = Target {
            slot: Slot::Output,
            offset_bytes: output.layout.offset() * output.dtype.size_bytes(),
            dtype: output.dtype,
            slabs: 1,
            slab_tiles: self.k_tiles(instance),
            epilogue: self.epilogue(),
        };
        let (launch, estimate_ns) = self.launch(instance, &target, caps)?;
        let plan = Plan { launches: vec![launch], scratch_bytes: Vec::new() };
        Some(Candidate { name: instance.symbol.clone(), plan, estimate_ns })
    }

    /// Sums of slabs of K, then D: where tiles alone leave multiprocessors idle. `scratch` buffers are there before.
    fn slabs(&self, instance: &Instance, scratch: usize, caps: &Caps) -> Option<Candidate> {
        let MatmulDims { batch, m, n, .. } = self.op.dims();
        let (clusters, resident) = self.clusters(instance, caps);
        let k_tiles = self.k_tiles(instance);
        let wanted = (resident / clusters.max(1)).min(k_tiles / LEAST_SLAB_TILES).min(MOST_SLABS);
        if wanted < 2 {
            return None;
        }
        let slab_tiles = k_tiles.div_ceil(wanted);
        let slabs = k_tiles.div_ceil(slab_tiles);
        let outputs = batch.checked_mul(m)?.checked_mul(n)?;
        let plain = vec![Arg::F32(1.0), Arg::F32(0.0), Arg::Null, Arg::I64(0), Arg::I64(0), Arg::Null, Arg::U32(0)];
        let dtype = instance.output;
        let sums = Target { slot: Slot::Scratch(scratch), offset_bytes: 0, dtype, slabs, slab_tiles, epilogue: plain };
        let (launch, sums_ns) = self.launch(instance, &sums, caps)?;
        let output = &self.op.output;
        let d = Arg::Address { slot: Slot::Output, offset_bytes: output.layout.offset() * output.dtype.size_bytes() };
        let from = Arg::Address { slot: Slot::Scratch(scratch), offset_bytes: 0 };
        let end = splitk::launch(self.op, from, d, slabs as u32, self.epilogue())?;
        let sum_bytes = outputs.checked_mul(slabs)?.checked_mul(4)?;
        Some(Candidate {
            name: format!("{}_slabs{slabs}", instance.symbol),
            plan: Plan { launches: vec![launch, end], scratch_bytes: vec![sum_bytes] },
            estimate_ns: sums_ns + SECOND_LAUNCH_NS + caps.stream_ns(2 * sum_bytes),
        })
    }

    fn epilogue(&self) -> Vec<Arg> {
        let Addends { c, ldc, batch_stride_c, bias } = self.addends.clone();
        let (alpha, beta) = (Arg::F32(self.op.alpha as f32), Arg::F32(self.op.beta as f32));
        vec![alpha, beta, c, Arg::I64(ldc), Arg::I64(batch_stride_c), bias, Arg::U32(self.activation)]
    }

    /// Stages that one output adds up.
    fn k_tiles(&self, instance: &Instance) -> u64 {
        self.op.dims().k.div_ceil(u64::from(instance.block_k())) * self.terms
    }

    /// Clusters of tiles in one slab, and clusters that the card works on at once.
    fn clusters(&self, instance: &Instance, caps: &Caps) -> (u64, u64) {
        let MatmulDims { batch, m, n, .. } = self.op.dims();
        let Shape { block_m, block_n, cluster_m, cluster_n, .. } = instance.shape;
        let clusters = m.div_ceil(u64::from(block_m * cluster_m)) * n.div_ceil(u64::from(block_n * cluster_n)) * batch;
        (clusters, u64::from(caps.multiprocessors / (cluster_m * cluster_n)).max(1))
    }

    fn launch(&self, instance: &Instance, target: &Target, caps: &Caps) -> Option<(Launch, f64)> {
        let MatmulDims { batch, m, n, k } = self.op.dims();
        let Shape { block_m, block_n, cluster_m, cluster_n, .. } = instance.shape;
        let (clusters, resident) = self.clusters(instance, caps);
        let clusters = clusters.checked_mul(target.slabs)?;
        // Tiles are counted in 32 bits.
        u32::try_from(clusters.checked_mul(u64::from(cluster_m * cluster_n))?).ok()?;
        let grid = clusters.min(resident) as u32 * cluster_m * cluster_n;
        let bytes = target.dtype.size_bytes();
        let by_tma = (n * bytes).is_multiple_of(16);
        let map_a = self.a.map(block_m / cluster_n, instance.block_k());
        // Where D is stored plainly its map is not looked at.
        let map_d = if by_tma { map_of_d(target, [batch, m, n])? } else { map_a.clone() };
        let word = |value: u64| Arg::U32(value as u32);
        let mut args = vec![
            Arg::TensorMap(map_a),
            Arg::TensorMap(self.b.map(block_n / cluster_m, instance.block_k())),
            Arg::TensorMap(map_d),
            Arg::Address { slot: target.slot, offset_bytes: target.offset_bytes },
        ];
        args.extend([m, n, k, m.div_ceil(u64::from(block_m)), n.div_ceil(u64::from(block_n)), batch].map(word));
        args.extend([target.slabs, target.slab_tiles, self.terms].map(word));
        args.push(Arg::U32((RASTER_ROWS / cluster_m).max(1)));
        args.extend([self.a.operand.batch > 1, self.b.operand.batch > 1, by_tma].map(|yes| Arg::U32(u32::from(yes))));
        args.extend([n as i64, 1, (m * n) as i64].map(Arg::I64));
        args.extend(target.epilogue.iter().cloned());
        let estimate_ns = estimate_ns(instance, caps, clusters.div_ceil(resident), target.slab_tiles);
        Some((Launch { kernel: find(&instance.symbol)?, grid: [grid, 1, 1], args }, estimate_ns))
    }
}

/// The map by which blocks store D, 16 rows of 128 bytes at a time: all matrices, of all slabs.
fn map_of_d(target: &Target, [batch, m, n]: [u64; 3]) -> Option<TensorMap> {
    let element = match target.dtype {
        DType::F16 => Element::F16,
        DType::BF16 => Element::BF16,
        DType::F32 => Element::F32,
        DType::I32 => Element::I32,
        _ => return None,
    };
    let bytes = target.dtype.size_bytes();
    Some(TensorMap {
        slot: target.slot,
        offset_bytes: target.offset_bytes,
        element,
        dims: vec![n, m, batch * target.slabs],
        strides_bytes: vec![n * bytes, m * n * bytes],
        box_dims: vec![(128 / bytes) as u32, 16, 1],
        swizzle: Swizzle::B128,
        promotion: Promotion::None,
    })
}

/// Time of `rounds` tiles one after the other on every multiprocessor.
fn estimate_ns(instance: &Instance, caps: &Caps, rounds: u64, k_tiles: u64) -> f64 {
    let Shape { block_m, block_n, cluster_m, cluster_n, .. } = instance.shape;
    let outputs = f64::from(block_m * block_n);
    // 4096 operations a clock of 64 x 16-bit elements, and in proportion: 32 outputs a clock for a row of 128 bytes.
    let tensor = outputs / 32.0 * 1.06;
    let loaded = 128.0 * (f64::from(block_m) / f64::from(cluster_n) + f64::from(block_n) / f64::from(cluster_m));
    let step = tensor.max(loaded / L2_BYTES_PER_CLOCK);
    let clocks = START_CLOCKS + rounds as f64 * (k_tiles as f64 * step + outputs * EPILOGUE_CLOCKS);
    let held = if clocks > 150_000.0 { CLOCK_LONG } else { CLOCK_SHORT };
    caps.clocks_ns(clocks) / held
}

#[cfg(test)]
#[path = "wgmma_tests.rs"]
mod tests;
