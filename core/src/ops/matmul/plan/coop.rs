//! Writes the kernel for products on cooperative matrices: tensor cores, as WGSL has them, written out without loops.
//!
//! Computes      D = epilogue(sum over k of A[m, k] B[k, n]), or one slab of the sum, for every matrix of a batch.
//! Algorithm     1. a step's tiles of A and B travel to registers while the step before is multiplied; 2. they go to
//!               workgroup memory as they lie, converted to the factors' type; 3. every subgroup loads fragments of
//!               SIZE x SIZE and multiplies its rectangle of the tile; 4. sums pass through workgroup memory to the epilogue,
//!               or go straight to the output where there is none and the tiles fit.
//! Tiling        BLOCK_M x BLOCK_N x BLOCK_K a workgroup, WARP_M x WARP_N a subgroup.
//! Mapping       the hardware knows which lane holds which element. Nothing here depends on the order of lanes; code
//!               that depends on their number says so ([`Lanes`]).
//! Workgroup     rows are 16 bytes longer than their elements: fragments are read without bank conflicts, and start at
//! memory        multiples of 32 bytes, as PTX wants (9.7.14.4.3).
//! Numerics      factors of f16 are used unchanged; sums are in f32, rounded or truncated by the hardware after each SIZE of K.
//!               f32 and bf16 become f16 after scaling by powers of two (`range.rs`), which leaves bf16 exact. f32 split
//!               into two parts of f16 (`split.rs`) takes three products; the sums of the first two are multiplied by
//!               2^-11 before the last is added.
//! Requires      [`crate::plan::Caps::cooperative`]: the product of matrices, square, of 8 or 16.
//! Measured      NVIDIA H200, driver 580, Vulkan, 2026-11-21, f16, 128x128x32: 4096^3 302 TFLOP/s, A transposed 309,
//!               2048^3 283, 8192^3 305; 4097x4095x4093 packed 222. All of it: docs/gemm.md, "Through Vulkan".
//!
//! naga 30 wants products of matrices in uniform control flow and takes every variable for varying, loop counters of
//! `for` excepted: hence no branch around phase 3. Reads beyond the last row or column stay inside the operand, and
//! results made from them are never stored; elements beyond K are zeros. Here: the configuration and the frame. Where to
//! go next: `coop/stage.rs` (phases 1 and 2), `coop/multiply.rs` (3), `coop/stores.rs` (4), `coop/rank.rs` (the choice).

mod multiply;
pub(super) mod pack;
pub(super) mod range;
pub(super) mod rank;
pub(super) mod split;
mod stage;
mod stores;

use std::fmt::Write;

use crate::DType;
use stage::Side;

use super::epilogue::Epilogue;
use super::tiled::{OWN_PARAMS, Operand, SLAB, Target, Tile};
use crate::plan::looped;
use crate::plan::{Access, Cooperative, Source};
use crate::wgsl::element::{self, Form};
use crate::wgsl::index::decode;
use crate::wgsl::math;
use crate::wgsl::pieces::{Pieces, holes, lines, pieces};

const TEXT: Pieces = pieces!("matmul_coop.wgsl");

/// Tile rows walked together before moving along N.
const RASTER: u32 = 8;

/// Threads of a subgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lanes {
    /// Known.
    Exactly(u32),
    /// Probably; the device has several sizes and does not say which one it takes. The kernel works with any.
    About(u32),
}

impl Lanes {
    pub fn count(self) -> u32 {
        let (Lanes::Exactly(count) | Lanes::About(count)) = self;
        count
    }
}

/// How elements of an operand become factors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Parts {
    /// Each element is one factor: as it is, or converted exactly.
    Whole,
    /// f32 or bf16, scaled and made f16: f32 is rounded.
    Scaled,
    /// f32 split into low and high parts of f16: two factors each, the two parts one behind the other along K (`split.rs`).
    Split,
}

/// The shape of a kernel, apart from the op: a row of the table in `coop/rank.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Shape {
    pub tile: Tile,
    /// Neighbouring fragments that a subgroup writes to workgroup memory at once, at the end.
    pub end_fragments: u32,
}

/// The specialisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Coop {
    pub shape: Shape,
    pub product: Cooperative,
    pub lanes: Lanes,
    pub parts: Parts,
    pub a: Operand,
    pub b: Operand,
    /// M, N or K leave partial tiles.
    pub tail_m: bool,
    pub tail_n: bool,
    pub tail_k: bool,
    pub epilogue: Epilogue,
    pub target: Target,
    /// Sums go from registers to the output: f32, no epilogue, whole tiles, aligned rows.
    pub direct: bool,
    /// Batch dimensions.
    pub axes: u8,
}

impl Shape {
    /// A name that distinguishes it from other shapes with the same tile: `coop16_w64x64`.
    pub fn name(&self, product: Cooperative) -> String {
        let Tile { block_m, block_n, warps_m, warps_n, .. } = self.tile;
        format!("coop{}_w{}x{}", product.size, block_m / warps_m, block_n / warps_n)
    }

    /// Rows of memory are longer than their elements by this many elements (16 bytes).
    pub fn pad(factors: DType) -> u32 {
        16 / factors.size_bytes() as u32
    }

    /// Bytes of workgroup memory for tiles of either order.
    pub fn workgroup_bytes(&self, product: Cooperative) -> u32 {
        let Tile { block_m, block_n, block_k, warps_m, warps_n } = self.tile;
        let (size_bytes, pad) = (product.factors.size_bytes() as u32, Shape::pad(product.factors));
        let tile = |block: u32| (block * (block_k + pad)).max(block_k * (block + pad)) * size_bytes;
        let slab = product.size * self.end_fragments * product.size * 4;
        tile(block_m) + tile(block_n) + warps_m * warps_n * slab
    }
}

impl Coop {
    pub fn source(&self) -> Source {
        let mut body = String::new();
        // Formatting into a String cannot fail.
        let _ = self.write_body(&mut body);
        let elements = [self.a.element, self.b.element, self.epilogue.accumulator, self.epilogue.output];
        let Tile { block_m, block_n, block_k, .. } = self.shape.tile;
        let mut bindings = vec![Access::Read, Access::Read, Access::ReadWrite];
        if self.target != Target::Partial {
            bindings.extend(self.epilogue.accesses());
        }
        if self.parts != Parts::Whole {
            // The result of `range.rs` or `split.rs`: scales or factors.
            bindings.push(Access::Read);
        }
        let split = if self.parts == Parts::Split { "_split" } else { "" };
        let enable = if self.half() { "enable f16;\n" } else { "" };
        Source {
            name: format!("matmul_coop_{}_{block_m}x{block_n}x{block_k}{split}", self.a.element.dtype()),
            wgsl: format!("{enable}enable wgpu_cooperative_matrix;\n")
                + &element::prelude(&elements)
                + &math::library(&body)
                + &body,
            bindings,
        }
    }

    /// The most rounds that loops make, for a launch with `params`.
    pub fn loop_rounds(&self, params: &[u32]) -> u64 {
        let (k, own) = self.epilogue.words();
        let word = |at: usize| u64::from(params.get(at).copied().unwrap_or(u32::MAX));
        let k = word(k);
        let steps = match self.parts {
            // low * high and high * low together go over all of K, which holds both parts; high * high goes over half of it.
            Parts::Split => 2 + (k + k / 2).div_ceil(self.shape.tile.block_k.into()),
            _ => word(own + SLAB).min(k).div_ceil(self.shape.tile.block_k.into()),
        };
        let stores = if self.direct { 0 } else { self.store_rounds() };
        let round = looped(steps, 0) + stores;
        match self.lanes {
            Lanes::Exactly(_) => round,
            Lanes::About(_) => looped(self.warps().into(), round),
        }
    }

    fn half(&self) -> bool {
        self.product.factors == DType::F16
    }

    /// The WGSL type of factors.
    fn factor(&self) -> &'static str {
        if self.half() { "f16" } else { "f32" }
    }

    fn warps(&self) -> u32 {
        self.shape.tile.warps_m * self.shape.tile.warps_n
    }

    fn threads(&self) -> u32 {
        self.warps() * self.lanes.count()
    }

    fn sides(&self) -> [Side; 2] {
        let tile = &self.shape.tile;
        [
            Side { name: "a", operand: self.a, block: tile.block_m, tile: "tile_m", tail: self.tail_m },
            Side { name: "b", operand: self.b, block: tile.block_n, tile: "tile_n", tail: self.tail_n },
        ]
    }

    fn write_body(&self, out: &mut String) -> std::fmt::Result {
        let Tile { block_m, block_n, block_k, warps_m, warps_n } = self.shape.tile;
        let (size, threads, sides) = (self.product.size, self.threads(), self.sides());
        let sum = if self.product.sum == DType::F16 { "f16" } else { "f32" };
        writeln!(
            out,
            "// Tile {block_m}x{block_n}x{block_k}, {threads} threads, {}x{} a subgroup.",
            block_m / warps_m,
            block_n / warps_n
        )?;
        *out += &self.epilogue.params_text(self.axes, &OWN_PARAMS);
        *out += &TEXT.fill("types", holes!(t = self.factor(), size, sum));
        for (binding, side) in [(1, &sides[0]), (2, &sides[1])] {
            self.write_operand(out, binding, side)?;
        }
        self.write_target(out)?;
        let found = match self.parts {
            Parts::Whole => None,
            Parts::Scaled => Some("info: array<u32>"),
            Parts::Split => Some("factors: array<vec2<f32>>"),
        };
        if let Some(found) = found {
            let binding = 4 + if self.target == Target::Partial { 0 } else { self.epilogue.accesses().count() };
            writeln!(out, "@group(0) @binding({binding}) var<storage, read> {found};")?;
        }
        let axes = usize::from(self.axes);
        *out += &decode("batch_of_a", "params.a_base", 'a', axes);
        *out += &decode("batch_of_b", "params.b_base", 'b', axes);
        for side in &sides {
            let (rows, stride) = (side.rows(block_k), side.stride(block_k, self.product.factors));
            writeln!(out, "var<workgroup> {}_tile: array<V, {}>;", side.name, rows * stride / 4)?;
        }
        let partial = self.target == Target::Partial;
        let is_about = matches!(self.lanes, Lanes::About(_));
        let warps = self.warps();
        *out += "\n";
        *out += &TEXT.fill(
            "main",
            holes!(
                threads,
                scales = if self.parts == Parts::Scaled { TEXT.get("scales") } else { "" },
                raster = RASTER,
                block_m,
                block_n,
                range = TEXT.get(if self.parts == Parts::Split { "range of parts" } else { "range" }),
                base = if partial { "" } else { "params.target_base + " },
                layer = if partial { "(split * params.batches + batch)" } else { "batch" },
                places = lines(|out| sides.iter().try_for_each(|side| self.write_places(out, side))),
                warp = match is_about {
                    true => TEXT.fill("warps in rounds", holes!(warps, last = warps - 1)),
                    false => TEXT.get("warp").to_owned(),
                },
                warps_m,
                own_m = block_m / warps_m,
                own_n = block_n / warps_n,
                steps = lines(|out| {
                    self.write_steps(out, &sides)?;
                    self.write_stores(out)
                }),
                end = if is_about { TEXT.get("end of rounds") } else { "" },
            ),
        );
        Ok(())
    }

    /// The steps along K: the next one's operands travel while one is multiplied.
    fn write_steps(&self, out: &mut String, sides: &[Side; 2]) -> std::fmt::Result {
        self.write_sums(out)?;
        let fetch = lines(|out| {
            self.write_fetch(out, sides, ["k_first"; 2], "    ")?;
            self.write_put(out, sides, "    ")
        });
        *out += &TEXT.fill("first step", holes!(fetch));
        if self.parts != Parts::Split {
            *out += &self.steps(sides, ["k_first", "k_end"]);
            return Ok(());
        }
        *out += &self.steps(sides, ["k_first", "params.k"]);
        writeln!(out, "    // Low parts are kept so much larger.")?;
        self.write_scaling(out, split::LOW_SCALE_INVERSE)?;
        *out += &self.steps(sides, ["params.k", "k_end"]);
        // Loaded here, where registers are free.
        writeln!(out, "    // By two factors: one may be out of range.\n    let back = factors[batch];")?;
        self.write_scaling(out, "back.x")?;
        self.write_scaling(out, "back.y")
    }

    fn steps(&self, sides: &[Side; 2], [first, end]: [&str; 2]) -> String {
        let (nexts, places) = match self.parts {
            Parts::Split => (TEXT.get("next parts"), ["next_a", "next_b"]),
            Parts::Whole | Parts::Scaled => ("", ["next"; 2]),
        };
        let fetch = lines(|out| self.write_fetch(out, sides, places, "        "));
        let multiply = lines(|out| self.write_multiply(out, sides));
        let put = lines(|out| self.write_put(out, sides, "        "));
        TEXT.fill("steps", holes!(first, end, block_k = self.shape.tile.block_k, nexts, fetch, multiply, put))
    }

    fn write_target(&self, out: &mut String) -> std::fmt::Result {
        match self.target {
            Target::Output(form) => {
                let form = if self.direct { Form::Scalar } else { form };
                *out += &self.epilogue.output.storage(3, "d", form, Access::ReadWrite);
                *out += &self.epilogue.text(4, self.axes);
            }
            Target::Partial => {
                *out += &self.epilogue.accumulator.storage(3, "d", Form::Scalar, Access::ReadWrite);
            }
        }
        if !self.direct {
            let slab = self.slab_stride() * self.product.size * self.warps();
            writeln!(out, "var<workgroup> sums: array<vec4<f32>, {}>;", slab / 4)?;
        }
        Ok(())
    }

    /// Elements from row to row of a subgroup's slab of sums. No padding: with it 128x128x32 tiles that both lie along K
    /// pass 24 KiB, beyond which an H200's driver halves the workgroups at work at once (282 TFLOP/s become 155).
    fn slab_stride(&self) -> u32 {
        self.shape.end_fragments * self.product.size
    }
}
