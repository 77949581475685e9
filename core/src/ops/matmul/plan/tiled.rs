//! Writes the tiled matrix product kernel for one configuration, as plain unrolled WGSL.
//!
//! Computes      D = epilogue(sum over k of A[m, k] B[k, n]), or one slab of the sum, for every matrix of a batch.
//!               Grouped products: a tile holds rows of one group, whose matrix is one of the batch.
//! Algorithm     1. a step's tiles of A and B travel to registers while the step before is multiplied; 2. they go to
//!               workgroup memory, K-major, between two barriers; 3. every thread multiplies its rectangle.
//! Tiling        BLOCK_M x BLOCK_N x BLOCK_K a workgroup, THREAD_M x THREAD_N outputs a thread, in vectors of four.
//! Mapping       runs of 32 threads own rectangles of the tile, spread so that reads of workgroup memory are 16 bytes wide
//!               and free of bank conflicts; nothing depends on the real subgroup size. Tiles are walked RASTER rows at a
//!               time, so that A and B are reused from cache.
//! Numerics      one chain over k for each output in the accumulator's type.
//! Measured      H200, Vulkan, 2026-11-21, TFLOP/s at 4096^3: f32 44.0, f16 45.9, bf16 46.0, f64 14.4, i8 29.3; f32 at
//!               1000^3 27.3 (benches/results/h200-2026-11-21). Repeat: polywarp bench --suite gemm.
//!
//! Reads beyond the last row or column stay inside the operand, and results made from them are never stored. Elements
//! beyond K are zeros. Here: the configuration, the frame and phase 3. Where to go next: `tiled/operands.rs` (phases 1 and
//! 2), `tiled/blocks.rs` (scales that change along K), `tiled/stores.rs` (the end); `matmul.rs` chooses the configuration.

mod blocks;
mod operands;
mod stores;

use std::fmt::Write;

use operands::Side;

use super::epilogue::Epilogue;
use crate::plan::looped;
use crate::plan::{Access, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::index::decode;
use crate::wgsl::math;
use crate::wgsl::pieces::{Pieces, holes, lines, pieces};

const TEXT: Pieces = pieces!("matmul_tiled.wgsl");

/// Tile rows walked together before moving along N.
const RASTER: u32 = 8;
/// Threads that own one rectangle of the tile, and the number of them along M.
const WARP: u32 = 32;
const LANES_M: u32 = 4;
const LANES_N: u32 = WARP / LANES_M;

/// Extents of a tile and of the workgroup that computes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tile {
    pub block_m: u32,
    pub block_n: u32,
    pub block_k: u32,
    pub warps_m: u32,
    pub warps_n: u32,
}

impl Tile {
    pub const fn threads(&self) -> u32 {
        self.warps_m * self.warps_n * WARP
    }

    pub const fn thread_m(&self) -> u32 {
        self.block_m / (self.warps_m * LANES_M)
    }

    pub const fn thread_n(&self) -> u32 {
        self.block_n / (self.warps_n * LANES_N)
    }

    /// Whether a thread has enough registers for two sets of sums.
    pub const fn has_room(&self) -> bool {
        self.thread_m() * self.thread_n() <= 64
    }

    /// Elements of A and B that a thread fetches for one step.
    pub const fn fetched(&self) -> u32 {
        self.block_k * (self.block_m + self.block_n) / self.threads()
    }

    pub const fn workgroup_bytes(&self, element_bytes: u32) -> u32 {
        self.block_k * (self.block_m + self.block_n) * element_bytes
    }

    /// The most steps that `slab` elements of K take, where every block of `block` elements begins with a new step. A
    /// slab that is at least as long as a block begins with one.
    fn steps(&self, slab: u64, block: u64) -> u64 {
        let step = u64::from(self.block_k);
        if block > slab {
            return slab.div_ceil(step) + 1;
        }
        (slab / block) * block.div_ceil(step) + (slab % block).div_ceil(step)
    }

    /// The most rounds of the loops over a slab of K, with blocks of `block` elements that share scales.
    pub fn slab_rounds(&self, slab: u64, block: u64, unroll: bool) -> u64 {
        self.loop_rounds(self.steps(slab, block), unroll)
    }

    /// The most rounds of the loops over `steps` steps, and of those that store the results.
    fn loop_rounds(&self, steps: u64, unroll: bool) -> u64 {
        match unroll {
            true => looped(steps, 0),
            false => {
                let vectors = u64::from(self.thread_m() * self.thread_n() / 4);
                looped(steps, looped(self.block_k.into(), 0)) + looped(vectors, looped(4, 0))
            }
        }
    }

    /// The longest slab of K whose loops make at most `most_rounds` rounds, and at least one step: whole blocks of
    /// `block` elements, or whole steps where a step is longer.
    pub fn longest_slab(&self, block: u64, unroll: bool, most_rounds: u64) -> u64 {
        let (step, block) = (u64::from(self.block_k), block.min(1 << 32));
        let each = self.loop_rounds(2, unroll) - self.loop_rounds(1, unroll);
        let steps = most_rounds.saturating_sub(self.loop_rounds(1, unroll) + ROUNDS_BESIDE) / each;
        let elements = steps.saturating_mul(block) / block.div_ceil(step);
        let unit = if block <= elements { block } else { step };
        (elements / unit).max(1).saturating_mul(unit)
    }
}

/// How an operand is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Load {
    /// Four neighbours at once.
    Quad,
    /// Neighbours one by one.
    Unit,
    /// Elements at any distance from each other.
    Strided,
}

/// One operand, as part of the kernel's key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Operand {
    pub element: Element,
    /// Neighbours in memory lie along K; else along M (or N).
    pub along_k: bool,
    pub load: Load,
}

/// The buffer that receives the results.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Target {
    /// The op's output, written four columns at a time or one.
    Output(Form),
    /// Scratch: the bare sum of a slab of K.
    Partial,
}

/// Whether the kernel runs always, or only where a condition holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Gate {
    /// Always.
    Open,
    /// Only where the first word of the last buffer is 0; else it ends at once (`coop/range.rs`).
    Zero,
}

/// The specialisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tiled {
    pub tile: Tile,
    pub a: Operand,
    pub b: Operand,
    /// M, N or K leave partial tiles.
    pub tail_m: bool,
    pub tail_n: bool,
    pub tail_k: bool,
    /// Every k of a step is written out. Leaving the unrolling to the driver is 15 to 25 % slower, but quicker to compile.
    pub unroll: bool,
    pub epilogue: Epilogue,
    pub target: Target,
    pub gate: Gate,
    /// Batch dimensions.
    pub axes: u8,
}

/// Extra rounds for finding a row's group in the table of an index (`matmul/index.rs`), and for blocks that are cut.
const ROUNDS_BESIDE: u64 = 256;
/// The index of the slab among the kernel's own words.
pub(super) const SLAB: usize = 4;

/// `Params` members of this kernel, after the common ones.
pub(super) const OWN_PARAMS: [&str; 13] = [
    "tiles_m", "tiles_n", "batches", "splits", "slab", "a_base", "a_x", "a_k", "a_last", "b_base", "b_x", "b_k",
    "b_last",
];

impl Tiled {
    pub fn source(&self) -> Source {
        let mut body = String::new();
        // Formatting into a String cannot fail.
        let _ = self.write_body(&mut body);
        let elements = [self.a.element, self.b.element, self.epilogue.accumulator, self.epilogue.output];
        let Tile { block_m, block_n, block_k, .. } = self.tile;
        let mut bindings = vec![Access::Read, Access::Read, Access::ReadWrite];
        if self.target != Target::Partial || self.epilogue.is_read_on_the_way() {
            bindings.extend(self.epilogue.accesses());
        }
        if self.gate == Gate::Zero {
            bindings.push(Access::Read);
        }
        let op = match self.is_grouped() {
            true => "grouped_matmul",
            false if self.epilogue.blocks => "matmul_blocks",
            false => "matmul",
        };
        Source {
            name: format!("{op}_{}_{block_m}x{block_n}x{block_k}", self.a.element.dtype()),
            wgsl: element::prelude(&elements) + &math::library(&body) + &body,
            bindings,
        }
    }

    /// The most rounds of all loops, for a launch with `params`.
    pub fn loop_rounds(&self, params: &[u32]) -> u64 {
        let (k, own) = self.epilogue.words();
        let word = |at: usize| u64::from(params.get(at).copied().unwrap_or(u32::MAX));
        let slab = word(own + SLAB).min(word(k));
        // Every block begins with a new step. The last word before the kernel's own is the length of a block.
        let block = if self.epilogue.blocks { word(own - 1) } else { u64::MAX };
        self.tile.slab_rounds(slab, block, self.unroll) + self.epilogue.group_rounds(params)
    }

    /// Whether a tile holds rows of one group, which the ends of the groups place.
    fn is_grouped(&self) -> bool {
        self.epilogue.ends.is_some()
    }

    fn sides(&self) -> [Side; 2] {
        let tile = &self.tile;
        // Rows of no group are never multiplied, but their tiles fetch a first step too: any matrix will do.
        let matrix = if self.is_grouped() { "min(batch, params.groups - 1u)" } else { "batch" };
        [
            Side {
                name: "a",
                operand: self.a,
                block: tile.block_m,
                tile: "tile_m",
                tail: self.tail_m,
                matrix: "batch",
            },
            Side { name: "b", operand: self.b, block: tile.block_n, tile: "tile_n", tail: self.tail_n, matrix },
        ]
    }

    fn write_body(&self, out: &mut String) -> std::fmt::Result {
        let Tile { block_m, block_n, block_k, warps_m, warps_n } = self.tile;
        let (threads, tm, tn) = (self.tile.threads(), self.tile.thread_m(), self.tile.thread_n());
        let sides = self.sides();
        let acc = self.epilogue.accumulator.scalar();
        writeln!(out, "// Tile {block_m}x{block_n}x{block_k}, {threads} threads, {tm}x{tn} outputs a thread.")?;
        *out += &self.epilogue.params_text(self.axes, &OWN_PARAMS);
        writeln!(out, "alias Acc = {acc};\nalias V = vec4<Acc>;")?;
        for (binding, side) in [(1, &sides[0]), (2, &sides[1])] {
            self.write_operand(out, binding, side)?;
        }
        match self.target {
            Target::Output(form) => {
                *out += &self.epilogue.output.storage(3, "d", form, Access::ReadWrite);
                *out += &self.epilogue.text(4, self.axes);
            }
            Target::Partial => {
                *out += &self.epilogue.sum().storage(3, "d", Form::Scalar, Access::ReadWrite);
                if self.epilogue.is_read_on_the_way() {
                    *out += &self.epilogue.text(4, self.axes);
                }
            }
        }
        if self.gate == Gate::Zero {
            let binding = 4 + self.epilogue.accesses().count();
            writeln!(out, "@group(0) @binding({binding}) var<storage, read> info: array<u32>;")?;
        }
        let axes = usize::from(self.axes);
        *out += &decode("batch_of_a", "params.a_base", 'a', axes);
        *out += &decode("batch_of_b", "params.b_base", 'b', axes);
        let (a_vectors, b_vectors) = (block_k * block_m / 4, block_k * block_n / 4);
        *out += &TEXT.fill("buffers", holes!(a_vectors, b_vectors));
        *out += "\n";
        let (grouped, partial) = (self.is_grouped(), self.target == Target::Partial);
        let places = lines(|out| {
            for (i, j) in (0..tm).flat_map(|i| (0..tn / 4).map(move |j| (i, j))) {
                writeln!(out, "    var d{i}_{j} = V();")?;
            }
            sides.iter().try_for_each(|side| self.write_places(out, side))?;
            if self.epilogue.blocks { self.write_scale_places(out) } else { Ok(()) }
        });
        let first = lines(|out| {
            self.write_fetch(out, &sides, "k_first", "    ")?;
            self.write_put(out, &sides, "    ")
        });
        *out += &TEXT.fill(
            "main",
            holes!(
                threads,
                gate = if self.gate == Gate::Zero { TEXT.get("gate") } else { "" },
                batch = if grouped { "" } else { TEXT.get("batch") },
                raster = RASTER,
                tile = TEXT.fill(if grouped { "tile of group" } else { "tile" }, holes!(block_m)),
                block_n,
                range = TEXT.get(match (grouped, self.epilogue.blocks, partial) {
                    (true, _, true) => "range of slab of group",
                    (true, _, false) => "range of group",
                    (false, true, true) => "range of slab of blocks",
                    (false, true, false) => "range of blocks",
                    (false, false, _) => "range",
                }),
                warp = WARP,
                warps_m,
                own_m = block_m / warps_m / 4,
                own_n = block_n / warps_n / 4,
                lanes_n = LANES_N,
                places,
                first,
                steps = if self.epilogue.blocks { self.block_loop(&sides) } else { self.steps(&sides) },
            ),
        );
        Ok(())
    }

    fn steps(&self, sides: &[Side; 2]) -> String {
        let fetch = lines(|out| self.write_fetch(out, sides, "next", "        "));
        let multiply = lines(|out| self.write_multiply(out));
        let put = lines(|out| self.write_put(out, sides, "        "));
        let stores = lines(|out| self.write_stores(out));
        TEXT.fill("steps", holes!(block_k = self.tile.block_k, fetch, multiply, put, stores))
    }

    /// One step, every k of it written out or in a loop.
    fn write_multiply(&self, out: &mut String) -> std::fmt::Result {
        let Tile { block_m, block_n, block_k, .. } = self.tile;
        let (tm, tn) = (self.tile.thread_m(), self.tile.thread_n());
        let (stride_a, stride_b) = (block_m / 4, block_n / 4);
        let fused = self.epilogue.accumulator.dtype() == crate::DType::F32;
        let unrolled = if self.unroll { block_k } else { 1 };
        if unrolled < block_k {
            writeln!(out, "        for (var k = 0u; k < {block_k}u; k += {unrolled}u) {{")?;
            writeln!(
                out,
                "            let a_at = own_m + k * {stride_a}u;\n            let b_at = own_n + k * {stride_b}u;"
            )?;
        } else {
            writeln!(out, "        {{\n            let a_at = own_m;\n            let b_at = own_n;")?;
        }
        for k in 0..unrolled {
            writeln!(out, "            {{ // k + {k}")?;
            for i in 0..tm / 4 {
                writeln!(out, "                let a{i} = a_tile[a_at + {}u];", k * stride_a + i * LANES_M)?;
            }
            for j in 0..tn / 4 {
                writeln!(out, "                let b{j} = b_tile[b_at + {}u];", k * stride_b + j * LANES_N)?;
            }
            for i in 0..tm {
                let a = format!("V(a{}.{})", i / 4, ["x", "y", "z", "w"][i as usize % 4]);
                for j in 0..tn / 4 {
                    if fused {
                        writeln!(out, "                d{i}_{j} = fma({a}, b{j}, d{i}_{j});")?;
                    } else {
                        writeln!(out, "                d{i}_{j} += {a} * b{j};")?;
                    }
                }
            }
            writeln!(out, "            }}")?;
        }
        writeln!(out, "        }}")
    }
}
