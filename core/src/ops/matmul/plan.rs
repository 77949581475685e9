//! Matrix products: chooses the kernel, the tile and the number of slabs of K. A pure function of the op and the device.
//!
//! Candidates are listed, refused with a reason or ranked by an estimate of time ([`candidates`]). Three shapes of plan:
//! tiles that write the output; tiles that write slabs of the sum, then one launch that combines them (long K, few
//! tiles; always in the same order, so the bits are the same on every run); a matrix times a vector, which is a
//! reduction with a product in it. Operands may have any strides; those that are dense and aligned are read by quads.
//! Every precision is served in f32. Scales of blocks are served by tiles that write the output. Next: `matmul/tiled.rs` writes the kernel, `matmul/epilogue.rs` its end.

pub(crate) mod combine;
mod coop;
pub(crate) mod epilogue;
pub(crate) mod index;
pub(crate) mod rank;
pub(crate) mod tiled;
mod vector;

use crate::ops::Matmul;
use crate::{DType, Error, Layout, Operation, Result};

use crate::plan::{Candidate, Caps, KernelKey, KernelText, Launch, Plan, Slot, Source, share_scratch};
use crate::wgsl::element::{Element, Form};
use crate::wgsl::index::check_index;
use combine::Combine;
use coop::pack::Pack;
use coop::range::{self, Range};
use coop::rank::Choice;
use coop::split::Split;
use coop::{Coop, Parts};
use epilogue::Places;
use index::Index;
use rank::Cut;
use tiled::{Gate, Load, Operand, Target, Tile, Tiled};

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel(Shape);

/// The kernels.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Shape {
    Tiled(Tiled),
    Coop(Coop),
    Range(Range),
    Pack(Pack),
    Split(Split),
    Combine(Combine),
    Index(Index),
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        match &self.0 {
            Shape::Tiled(kernel) => kernel.source(),
            Shape::Coop(kernel) => kernel.source(),
            Shape::Range(kernel) => kernel.source(),
            Shape::Pack(kernel) => kernel.source(),
            Shape::Split(kernel) => kernel.source(),
            Shape::Combine(kernel) => kernel.source(),
            Shape::Index(kernel) => kernel.source(),
        }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        match &self.0 {
            Shape::Tiled(kernel) => kernel.loop_rounds(params),
            Shape::Coop(kernel) => kernel.loop_rounds(params),
            Shape::Range(kernel) => kernel.loop_rounds(params),
            Shape::Pack(_) => 0,
            Shape::Split(kernel) => kernel.loop_rounds(params),
            Shape::Combine(kernel) => kernel.loop_rounds(params),
            Shape::Index(kernel) => kernel.loop_rounds(params),
        }
    }
}

fn key(shape: Shape) -> KernelKey {
    KernelKey::own(Kernel(shape))
}

/// Multiplications from which the time to compute counts more than the time to compile (about 400^3).
const WORTH_UNROLLING: u64 = 1 << 26;
/// Bytes of a matrix that one launch of the vector kernel reads in a nanosecond.
const VECTOR_BYTES_PER_NS: f64 = 3000.0;

/// Ratio of two times: operands read one element at a time, over operands read by quads (H200, 4097x4095x4093).
const SLOW_LOAD_TIMES: f64 = 2.1;
/// Time of the launches that pack operands, and the bytes that they read and write in a nanosecond (the same product).
const COPY_NS: f64 = 8000.0;
const COPY_BYTES_PER_NS: f64 = 1000.0;

/// The most bytes that sums of slabs of K take at a time. Nearly every binding may be this large, and it is a small
/// part of a card's memory.
const MOST_PARTIAL_BYTES: u64 = 256 << 20;

/// One way to compute a product. Its plan is made later: most ways are only ranked, and never run.
enum Way {
    /// A sum of nothing: A and B are empty and not even bound.
    Empty,
    /// Planned at once, because only planning tells whether the kernel can serve the op.
    Vector(Plan),
    Tiled(Cut),
    Coop(Choice, Operands),
}

/// A way, and the time that it should take.
struct Ranked {
    ns: f64,
    way: Way,
}

/// The form in which a kernel on cooperative matrices reads its operands.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Operands {
    AsTheyLie,
    /// Operands that are not aligned are copied first.
    Packed,
    /// Operands of f32 are split into parts of f16 first.
    Split,
}

pub(crate) fn plan(op: &Matmul, caps: &Caps) -> Result<Plan> {
    let places = check(op, caps)?;
    let best = ways(op, &places, caps)?.into_iter().next();
    best.ok_or_else(|| no_tile(caps))?.way.plan(op, &places, caps)
}

pub(crate) fn candidates(op: &Matmul, caps: &Caps) -> Result<Vec<Candidate>> {
    let places = check(op, caps)?;
    let mut list = Vec::new();
    for Ranked { ns, way } in ways(op, &places, caps)? {
        list.push(Candidate { name: way.name(op), plan: way.plan(op, &places, caps)?, estimate_ns: ns });
    }
    if list.is_empty() { Err(no_tile(caps)) } else { Ok(list) }
}

fn no_tile(caps: &Caps) -> Error {
    caps.unsupported("matmul", "no tile fits the device's workgroups")
}

fn check(op: &Matmul, caps: &Caps) -> Result<Places> {
    for spec in op.inputs().iter().chain([&op.output]) {
        check_index(op.name(), spec)?;
    }
    Places::of(op, caps)
}

/// The ways to compute `op`, in order of preference.
fn ways(op: &Matmul, places: &Places, caps: &Caps) -> Result<Vec<Ranked>> {
    let dims = op.dims();
    if dims.k == 0 {
        return Ok(vec![Ranked { ns: 0.0, way: Way::Empty }]);
    }
    let sum = places.epilogue.accumulator.dtype();
    let tiled = |cut: Cut| Ranked { ns: cut.ns, way: Way::Tiled(cut) };
    if let Some(blocks) = op.scale_blocks {
        let cuts = rank::whole(dims, blocks.k, sum, caps).into_iter();
        return Ok(cuts.filter(|cut| cut.refused.is_none() && cut.tile.has_room()).map(tiled).collect());
    }
    let mut ways = Vec::new();
    if let Some(plan) = vector::plan(op, places, caps)? {
        let bytes = dims.m * dims.n * dims.k * op.a.dtype.size_bytes();
        ways.push(Ranked { ns: bytes as f64 / VECTOR_BYTES_PER_NS, way: Way::Vector(plan) });
    }
    let cuts = rank::plain(dims, sum, caps).into_iter();
    ways.extend(cuts.filter(|cut| cut.refused.is_none()).map(tiled));
    ways.extend(coop_ways(op, places, caps)?);
    ways.sort_by(|x, y| x.ns.total_cmp(&y.ns));
    Ok(ways)
}

/// The ways on cooperative matrices: f32 operands in parts of f16; other operands as they lie, or packed.
fn coop_ways(op: &Matmul, places: &Places, caps: &Caps) -> Result<Vec<Ranked>> {
    let ranked = |ns: f64, choice: Choice, operands: Operands| Ranked { ns, way: Way::Coop(choice, operands) };
    let (split, choices): (Vec<_>, Vec<_>) =
        coop::rank::choices(op, caps).into_iter().partition(|choice| choice.parts == Parts::Split);
    let mut ways: Vec<Ranked> =
        split.into_iter().map(|choice| ranked(choice.cut.ns, choice, Operands::Split)).collect();
    if choices.is_empty() {
        return Ok(ways);
    }
    let loads = [coop_operand(op, places, 0, caps)?.0.load, coop_operand(op, places, 1, caps)?.0.load];
    let slow = loads.map(|load| load != Load::Quad);
    let is_slow = slow.contains(&true);
    let copied = copied_bytes(op, slow);
    // The plain kernel that follows scaled factors must compute all of K itself: no launch behind it adds slabs.
    let uncut =
        rank::whole(op.dims(), u64::MAX, DType::F32, caps).iter().any(|cut| cut.refused.is_none() && cut.splits == 1);
    for choice in choices.into_iter().filter(|choice| choice.parts == Parts::Whole || uncut) {
        let ns = choice.cut.ns;
        if let Some(bytes) = copied {
            let copying_ns = COPY_NS + bytes as f64 / COPY_BYTES_PER_NS;
            ways.push(ranked(ns + copying_ns, choice, Operands::Packed));
        }
        if !is_slow {
            ways.push(ranked(ns, choice, Operands::AsTheyLie));
        } else if !choice.spills_by_elements(op) {
            ways.push(ranked(ns * SLOW_LOAD_TIMES, choice, Operands::AsTheyLie));
        }
    }
    Ok(ways)
}

impl Way {
    /// Unique among the ways of one product.
    fn name(&self, op: &Matmul) -> String {
        let dtype =
            if op.a.dtype == op.b.dtype { op.a.dtype.to_string() } else { format!("{}x{}", op.a.dtype, op.b.dtype) };
        let cut_name = |cut: &Cut| {
            let Tile { block_m, block_n, block_k, .. } = cut.tile;
            let slabs = if cut.splits > 1 { format!("_slabs{}", cut.splits) } else { String::new() };
            format!("{block_m}x{block_n}x{block_k}{slabs}")
        };
        match self {
            Way::Empty => "matmul_empty".to_owned(),
            Way::Vector(_) => format!("matmul_{dtype}_vector"),
            Way::Tiled(cut) => format!("matmul_{dtype}_tiled_{}", cut_name(cut)),
            Way::Coop(choice, operands) => {
                let made = match operands {
                    Operands::AsTheyLie => "",
                    Operands::Packed => "_packed",
                    Operands::Split => "_split",
                };
                format!("matmul_{dtype}_{}_{}{made}", choice.shape.name(choice.product), cut_name(&choice.cut))
            }
        }
    }

    /// The plan of the op whole, or part by part where the sums of slabs along K would take too much memory.
    fn plan(&self, op: &Matmul, places: &Places, caps: &Caps) -> Result<Plan> {
        let parts = self.parts(op, places);
        if parts.len() < 2 {
            return self.plan_whole(op, places, caps);
        }
        let mut whole = Plan::default();
        for part in parts {
            let Plan { launches, scratch_bytes } = self.plan_whole(&part, &Places::of(&part, caps)?, caps)?;
            whole.launches.extend(launches);
            share_scratch(&mut whole.scratch_bytes, scratch_bytes);
        }
        Ok(whole)
    }

    /// Cuts the op into parts whose sums of slabs fit; empty where K is not cut into slabs.
    fn parts(&self, op: &Matmul, places: &Places) -> Vec<Matmul> {
        let (tile, slabs) = match self {
            Way::Tiled(cut) => (cut.tile, cut.splits),
            Way::Coop(choice, _) => (choice.shape.tile, choice.cut.splits),
            Way::Empty | Way::Vector(_) => return Vec::new(),
        };
        if slabs == 1 {
            return Vec::new();
        }
        let bytes_each = slabs * places.epilogue.sum().dtype().size_bytes();
        op.parts(MOST_PARTIAL_BYTES / bytes_each, tile.block_m.max(tile.block_n).into())
    }

    fn plan_whole(&self, op: &Matmul, places: &Places, caps: &Caps) -> Result<Plan> {
        match *self {
            Way::Empty => {
                Ok(Plan { launches: vec![combine::launch(op, places, 0, None, caps)?], scratch_bytes: Vec::new() })
            }
            Way::Vector(ref plan) => Ok(plan.clone()),
            Way::Tiled(cut) => tiled(op, places, cut, Gate::Open, caps),
            Way::Coop(choice, Operands::AsTheyLie) => coop(op, places, choice, caps),
            Way::Coop(choice, Operands::Packed) => packed(op, places, choice, caps),
            Way::Coop(choice, Operands::Split) => split(op, places, choice, caps),
        }
    }
}

/// The launches of plain tiles.
fn tiled(op: &Matmul, places: &Places, cut: Cut, gate: Gate, caps: &Caps) -> Result<Plan> {
    let grid = TileGrid::of(op, cut, cut.tile.block_k);
    let mut a = operand(op, places, 0, caps)?;
    let mut b = operand(op, places, 1, caps)?;
    let unroll = grid.unrolls(op, caps);
    let [tail_m, tail_n, mut tail_k] = grid.tails(op);
    if let Some(blocks) = op.scale_blocks {
        // Every block begins with a new step, so a block that is no multiple of a step ends in a partial one.
        tail_k |= !blocks.k.is_multiple_of(cut.tile.block_k.into());
        for (operand, _) in [&mut a, &mut b] {
            if operand.along_k && operand.load == Load::Quad && !blocks.k.is_multiple_of(4) {
                operand.load = Load::Unit;
            }
        }
    }
    let kernel = Tiled {
        tile: cut.tile,
        a: a.0,
        b: b.0,
        tail_m,
        tail_n,
        tail_k,
        unroll,
        epilogue: places.epilogue,
        target: grid.target,
        gate,
        axes: places.axes(),
    };
    grid.plan(op, places, Shape::Tiled(kernel), [a.1, b.1], caps)
}

/// The launches of tiles on cooperative matrices.
fn coop(op: &Matmul, places: &Places, choice: Choice, caps: &Caps) -> Result<Plan> {
    let mut plan = coop_tiles(op, places, choice, caps)?;
    if choice.parts != Parts::Whole {
        with_range(op, places, &mut plan, caps)?;
    }
    Ok(plan)
}

/// As `coop`, without the launches that find the range of the operands.
fn coop_tiles(op: &Matmul, places: &Places, choice: Choice, caps: &Caps) -> Result<Plan> {
    let Choice { cut, shape, product, lanes, parts } = choice;
    let grid = TileGrid::of(op, cut, shape.tile.block_k);
    let dims = op.dims();
    let (a, b) = (coop_operand(op, places, 0, caps)?, coop_operand(op, places, 1, caps)?);
    let [tail_m, tail_n, tail_k] = grid.tails(op);
    let whole = dims.m.is_multiple_of(shape.tile.block_m.into()) && dims.n.is_multiple_of(shape.tile.block_n.into());
    // PTX wants the address, and the distance between rows, to be multiples of 32 bytes: 8 elements of f32.
    let base = if grid.target == Target::Partial { 0 } else { op.output.layout.offset() };
    let in_f32 = places.epilogue.accumulator.dtype() == DType::F32;
    let stored_as_summed =
        grid.target == Target::Partial || (op.output.dtype == DType::F32 && places.epilogue.is_plain());
    let kernel = Coop {
        shape,
        product,
        lanes,
        parts,
        a: a.0,
        b: b.0,
        tail_m: tail_m && !whole,
        tail_n: tail_n && !whole,
        // Parts are padded with zeros to whole steps.
        tail_k: tail_k && parts != Parts::Split,
        epilogue: places.epilogue,
        target: grid.target,
        direct: whole && base.is_multiple_of(8) && in_f32 && stored_as_summed,
        axes: places.axes(),
    };
    grid.plan(op, places, Shape::Coop(kernel), [a.1, b.1], caps)
}

/// The launches of tiles on copies of those operands that cannot be read by quads.
fn packed(op: &Matmul, places: &Places, choice: Choice, caps: &Caps) -> Result<Plan> {
    let slow = |which| Ok::<_, Error>(coop_operand(op, places, which, caps)?.0.load != Load::Quad);
    let packed = coop::pack::pack(op, [slow(0)?, slow(1)?], caps)?;
    let mut plan = coop_tiles(&packed.op, &Places::of(&packed.op, caps)?, choice, caps)?;
    if choice.parts != Parts::Whole {
        // The range is that of the operands themselves, and the plain kernel reads them as well.
        with_range(op, places, &mut plan, caps)?;
    }
    // An operand that is not copied is read as it lies.
    let mut copies = OPERANDS;
    for (copy, bytes) in copies.iter_mut().zip(packed.bytes) {
        if let Some(bytes) = bytes {
            *copy = Slot::Scratch(plan.scratch_bytes.len());
            plan.scratch_bytes.push(bytes);
        }
    }
    let mut launches = packed.launches;
    launches.iter_mut().for_each(|launch| rebind(launch, COPIES, copies));
    for mut launch in plan.launches {
        if matches!(launch.kernel.get(), Some(Kernel(Shape::Coop(_)))) {
            rebind(&mut launch, OPERANDS, copies);
        }
        launches.push(launch);
    }
    Ok(Plan { launches, scratch_bytes: plan.scratch_bytes })
}

/// A and B as the op's launches bind them.
const OPERANDS: [Slot; 2] = [Slot::Input(0), Slot::Input(1)];
/// Copies or parts of A and B, as the launches that make them bind them.
const COPIES: [Slot; 2] = [Slot::Scratch(0), Slot::Scratch(1)];

/// Replaces the slots `from` by the slots `to` in the bindings of `launch`.
fn rebind(launch: &mut Launch, from: [Slot; 2], to: [Slot; 2]) {
    for slot in &mut launch.bindings {
        if let Some(which) = from.iter().position(|from| from == slot) {
            *slot = to[which];
        }
    }
}

/// The launches of tiles on parts of f16.
fn split(op: &Matmul, places: &Places, choice: Choice, caps: &Caps) -> Result<Plan> {
    let split = coop::split::split(op, places, caps)?;
    let product = coop_tiles(&split.op, &Places::of(&split.op, caps)?, choice, caps)?;
    let mut launches = split.launches;
    for mut launch in product.launches {
        rebind(&mut launch, OPERANDS, COPIES);
        // The factors are the last binding.
        launch.bindings.push(coop::split::FACTORS);
        launches.push(launch);
    }
    Ok(Plan { launches, scratch_bytes: split.scratch_bytes })
}

/// Adds launches around the one of `plan`: before it those that find the range of the operands, after it the plain
/// kernel for operands that are out of range.
fn with_range(op: &Matmul, places: &Places, plan: &mut Plan, caps: &Caps) -> Result<()> {
    let (mut launches, scratch_bytes) = range::launches(op, caps)?;
    let mut cuts = rank::whole(op.dims(), u64::MAX, DType::F32, caps).into_iter();
    let cut = cuts.find(|cut| cut.refused.is_none() && cut.splits == 1);
    let cut = cut.ok_or_else(|| no_tile(caps))?;
    let plain = tiled(op, places, cut, Gate::Zero, caps)?;
    for mut launch in plan.launches.drain(..).chain(plain.launches) {
        // The last binding holds the verdict and the scales.
        launch.bindings.push(Slot::Scratch(1));
        launches.push(launch);
    }
    *plan = Plan { launches, scratch_bytes: scratch_bytes.to_vec() };
    Ok(())
}

fn is_large(op: &Matmul) -> bool {
    let dims = op.dims();
    dims.m * dims.n * dims.k * dims.batch >= WORTH_UNROLLING
}

/// A product cut into tiles and slabs: the parts that all tiled kernels share.
pub(crate) struct TileGrid {
    tile: Tile,
    /// Elements of K that the kernel takes at once.
    step: u32,
    pub tiles_m: u64,
    tiles_n: u64,
    /// Elements of K in a slab, and slabs.
    slab: u64,
    splits: u64,
    pub target: Target,
}

impl TileGrid {
    /// `step`: the length of a slab of K is a multiple of it.
    pub fn of(op: &Matmul, cut: Cut, step: u32) -> TileGrid {
        let (dims, tile) = (op.dims(), cut.tile);
        let mut slab = dims.k.div_ceil(cut.splits).next_multiple_of(step.into());
        if let Some(blocks) = op.scale_blocks.filter(|blocks| cut.splits > 1 && blocks.k <= slab) {
            // Slabs begin with a block.
            slab = dims.k.div_ceil(cut.splits).next_multiple_of(blocks.k);
        }
        let splits = dims.k.div_ceil(slab);
        let target = match splits {
            1 if dims.n.is_multiple_of(4) && op.output.layout.offset().is_multiple_of(4) => Target::Output(Form::Quad),
            1 => Target::Output(Form::Scalar),
            _ => Target::Partial,
        };
        let (tiles_m, tiles_n) = (dims.m.div_ceil(tile.block_m.into()), dims.n.div_ceil(tile.block_n.into()));
        TileGrid { tile, step, tiles_m, tiles_n, slab, splits, target }
    }

    /// Whether every k of a step is written out: for large products, and where the driver would end the loops otherwise.
    pub fn unrolls(&self, op: &Matmul, caps: &Caps) -> bool {
        let block = op.scale_blocks.map_or(u64::MAX, |blocks| blocks.k);
        is_large(op) || self.slab.min(op.dims().k) > self.tile.longest_slab(block, false, caps.loop_limit())
    }

    /// Whether M, N and K leave partial tiles. Small products always say yes: they share one kernel that serves any
    /// remainder, and it is compiled once.
    pub fn tails(&self, op: &Matmul) -> [bool; 3] {
        let dims = op.dims();
        let tail = |extent: u64, block: u32| !is_large(op) || !extent.is_multiple_of(block.into());
        [tail(dims.m, self.tile.block_m), tail(dims.n, self.tile.block_n), tail(dims.k, self.step)]
    }

    /// [`TileGrid::plan`] of plain tiles.
    pub fn plan_tiled(
        &self,
        op: &Matmul,
        places: &Places,
        kernel: Tiled,
        ends: [[u32; 4]; 2],
        caps: &Caps,
    ) -> Result<Plan> {
        self.plan(op, places, Shape::Tiled(kernel), ends, caps)
    }

    /// The launch of `kernel`, whose operands lie at `ends`, and the one that adds slabs.
    fn plan(&self, op: &Matmul, places: &Places, kernel: Shape, ends: [[u32; 4]; 2], caps: &Caps) -> Result<Plan> {
        let dims = op.dims();
        let TileGrid { tiles_m, tiles_n, slab, splits, .. } = *self;
        let mut own = vec![tiles_m as u32, tiles_n as u32, dims.batch as u32, splits as u32, slab as u32];
        own.extend(ends.as_flattened());
        let mut bindings = vec![Slot::Input(0), Slot::Input(1)];
        let (scratch_bytes, base) = if self.target == Target::Partial {
            bindings.push(Slot::Scratch(0));
            if places.epilogue.is_read_on_the_way() {
                bindings.extend(&places.slots);
            }
            let elements = splits * dims.batch * dims.m * dims.n;
            (vec![elements * places.epilogue.sum().dtype().size_bytes()], Some(0))
        } else {
            bindings.push(Slot::Output(0));
            bindings.extend(&places.slots);
            (Vec::new(), None)
        };
        let mut launches = vec![Launch {
            kernel: key(kernel),
            grid: caps.fold_grid(tiles_m * tiles_n * dims.batch * splits)?,
            bindings,
            params: places.params(op, base, &own),
        }];
        if self.target == Target::Partial {
            launches.push(combine::launch(op, places, splits, Some(Slot::Scratch(0)), caps)?);
        }
        Ok(Plan { launches, scratch_bytes })
    }
}

/// How A (`which` 0) or B (1) is read; then its base, its strides along M (N) and along K, and the index of its last element.
pub(crate) fn operand(op: &Matmul, places: &Places, which: usize, caps: &Caps) -> Result<(Operand, [u32; 4])> {
    let spec = if which == 0 { &op.a } else { &op.b };
    let layout: &Layout = &spec.layout;
    let rank = layout.rank();
    let ((x, stride_x), (k, stride_k)) = {
        let dim = |i: usize| (layout.dims()[i], layout.strides()[i]);
        if which == 0 { (dim(rank - 2), dim(rank - 1)) } else { (dim(rank - 1), dim(rank - 2)) }
    };
    // A dimension of one element has no neighbours: its stride never counts.
    let reach = |extent: u64, stride: i64| if extent == 1 { u64::MAX } else { stride.unsigned_abs() };
    let along_k = reach(k, stride_k) < reach(x, stride_x);
    let near = if along_k { stride_k } else { stride_x };
    let near_axis = 2 * rank - 3 - far_axis(layout, which, along_k);
    let whole_quads = layout.dims()[near_axis].is_multiple_of(4);
    let load = match near {
        1 if whole_quads && quads_start_aligned(op, places, which, along_k) => Load::Quad,
        1 => Load::Unit,
        _ => Load::Strided,
    };
    let element = Element::new(spec.dtype, caps)?;
    Ok((
        Operand { element, along_k, load },
        // An operand of no elements is never read.
        [layout.offset() as u32, stride_x as u32, stride_k as u32, layout.required_elements().saturating_sub(1) as u32],
    ))
}

/// [`operand`] for kernels on cooperative matrices, which mask quads that cross the end of K.
fn coop_operand(op: &Matmul, places: &Places, which: usize, caps: &Caps) -> Result<(Operand, [u32; 4])> {
    let (mut operand, ends) = operand(op, places, which, caps)?;
    if operand.load == Load::Unit && quads_start_aligned(op, places, which, operand.along_k) {
        operand.load = Load::Quad;
    }
    Ok((operand, ends))
}

/// Bytes that packing the `slow` operands reads and writes; `None` where there is nothing to pack, or an operand cannot be packed.
fn copied_bytes(op: &Matmul, slow: [bool; 2]) -> Option<u64> {
    let slow = [&op.a, &op.b].into_iter().zip(slow).filter(|(_, slow)| *slow);
    let bytes = slow.map(|(spec, _)| {
        let dims = &spec.layout.dims()[spec.layout.rank() - 2..];
        coop::pack::can_pack(spec).then_some(2 * dims[0] * dims[1] * spec.dtype.size_bytes())
    });
    bytes.sum::<Option<u64>>().filter(|&bytes| bytes > 0)
}

/// Whether every run of neighbours of A (`which` 0) or B (1) starts at a multiple of four elements.
fn quads_start_aligned(op: &Matmul, places: &Places, which: usize, along_k: bool) -> bool {
    let layout = if which == 0 { &op.a.layout } else { &op.b.layout };
    let far = layout.strides()[far_axis(layout, which, along_k)];
    let batch_aligned = places.batch.iter().all(|axis| axis.strides[which] % 4 == 0);
    layout.offset().is_multiple_of(4) && far % 4 == 0 && batch_aligned
}

/// A lies along K where its last dimension is the near one, B where its last but one is.
fn far_axis(layout: &Layout, which: usize, along_k: bool) -> usize {
    if along_k == (which == 0) { layout.rank() - 2 } else { layout.rank() - 1 }
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
