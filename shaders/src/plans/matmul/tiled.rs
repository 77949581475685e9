//! Writes the tiled matrix product kernel for one configuration, as plain unrolled WGSL.
//!
//! Computes      D = epilogue(sum over k of A[m, k] B[k, n]), or one slab of the sum, for every matrix of a batch.
//! Algorithm     1. a step's tiles of A and B travel to registers while the step before is multiplied; 2. they go to
//!               workgroup memory, K-major, between two barriers; 3. every thread multiplies its rectangle.
//! Tiling        BLOCK_M x BLOCK_N x BLOCK_K a workgroup, THREAD_M x THREAD_N outputs a thread, in vectors of four.
//! Mapping       runs of 32 threads own rectangles of the tile, spread so that reads of workgroup memory are 16 bytes wide
//!               and free of bank conflicts; nothing depends on the real subgroup size. Tiles are walked RASTER rows at a
//!               time, so that A and B are reused from cache.
//! Numerics      one chain over k for each output in the accumulator's type.
//! Measured      H200, 2026-11-21, 4096^3 through the backend, TFLOP/s: f32 NN 44.4, TN 45.1, NT 41.1, TT 43.1; f16 NN 46.0,
//!               bf16 NN 46.0; f32 4095^3 (scalar loads) 39.0, 1000^3 24.6, 32 x 4096 x 4096 (split K) 20.7.
//!
//! Rows and columns beyond M and N are read as whatever lies there, inside the operand; what they give is never stored.
//! Elements beyond K are zeros. Where to go next: `matmul.rs` chooses the configuration.

use std::fmt::Write;

use super::epilogue::Epilogue;
use crate::element::{self, Element, Form};
use crate::plans::reduce::template::decode;
use crate::{Access, Source, math};

/// Tile rows walked together before moving along N.
const RASTER: u32 = 8;
/// Neighbouring threads that fetch along M (N) from an operand that lies along K, before the next ones along K.
const GROUP: u32 = 32;
/// Threads that own one rectangle of the tile, and how many of them lie along M.
const WARP: u32 = 32;
const LANES_M: u32 = 4;
const LANES_N: u32 = WARP / LANES_M;

/// Extents of a tile and of the workgroup that computes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tile {
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

    pub const fn workgroup_bytes(&self, element_bytes: u32) -> u32 {
        self.block_k * (self.block_m + self.block_n) * element_bytes
    }
}

/// How an operand is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Load {
    /// Four neighbours at once.
    Quad,
    /// Neighbours one by one.
    Unit,
    /// Elements any distance apart.
    Strided,
}

/// One operand, as the kernel's key knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Operand {
    pub element: Element,
    /// Neighbours in memory lie along K, not along M (or N).
    pub along_k: bool,
    pub load: Load,
}

/// Where results go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Target {
    /// The op's output, four columns at once or one.
    Output(Form),
    /// Scratch: the bare sum of a slab of K.
    Partial,
}

/// The specialisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Tiled {
    pub tile: Tile,
    pub a: Operand,
    pub b: Operand,
    /// M, N or K leave partial tiles.
    pub tail_m: bool,
    pub tail_n: bool,
    pub tail_k: bool,
    /// Every k of a step is written out: left to the driver to unroll it is 15 to 25 % slower, but quicker to compile.
    pub unroll: bool,
    pub epilogue: Epilogue,
    pub target: Target,
    /// Batch dimensions.
    pub axes: u8,
}

/// `Params` members of this kernel, after the common ones.
pub(super) const OWN_PARAMS: [&str; 13] = [
    "tiles_m", "tiles_n", "batches", "splits", "slab", "a_base", "a_x", "a_k", "a_last", "b_base", "b_x", "b_k",
    "b_last",
];

/// An operand's names and extents in the text.
struct Side {
    name: &'static str,
    operand: Operand,
    block: u32,
    tile: &'static str,
    tail: bool,
}

impl Side {
    /// 4 x 4 blocks (along K, transposed in registers) or single vectors (along M or N) of the tile.
    fn units(&self, tile: &Tile) -> u32 {
        self.block / 4 * if self.operand.along_k { tile.block_k / 4 } else { tile.block_k }
    }

    fn passes(&self, tile: &Tile) -> u32 {
        self.units(tile).div_ceil(tile.threads())
    }

    /// Vectors held for one unit.
    fn vectors(&self) -> u32 {
        if self.operand.along_k { 4 } else { 1 }
    }

    /// The stride between neighbours: nothing where it is 1.
    fn near(&self) -> String {
        match (self.operand.load, self.operand.along_k) {
            (Load::Strided, true) => format!(" * params.{}_k", self.name),
            (Load::Strided, false) => format!(" * params.{}_x", self.name),
            _ => String::new(),
        }
    }

    /// The other stride.
    fn far(&self) -> String {
        format!(" * params.{}_{}", self.name, self.far_axis())
    }

    fn far_axis(&self) -> &'static str {
        if self.operand.along_k { "x" } else { "k" }
    }

    /// The read of what lies at `index`. Beyond M (N) lies what is never stored: the next row, or what a read past the
    /// operand's last element is turned to, that element.
    fn get(&self, index: &str) -> String {
        let n = self.name;
        if self.tail {
            format!("get_{n}(min({index}, params.{n}_last{}))", self.per_item())
        } else {
            format!("get_{n}({index})")
        }
    }

    /// ` / 4u` where the array is read by quads.
    fn per_item(&self) -> &'static str {
        if self.operand.load == Load::Quad { " / 4u" } else { "" }
    }
}

impl Tiled {
    pub fn source(&self) -> Source {
        let mut body = String::new();
        // Formatting into a String cannot fail.
        let _ = self.write_body(&mut body);
        let elements = [self.a.element, self.b.element, self.epilogue.accumulator, self.epilogue.output];
        let Tile { block_m, block_n, block_k, .. } = self.tile;
        let mut bindings = vec![Access::Read, Access::Read, Access::ReadWrite];
        if self.target != Target::Partial {
            bindings.extend(self.epilogue.accesses());
        }
        Source {
            name: format!("matmul_{}_{block_m}x{block_n}x{block_k}", self.a.element.dtype()),
            wgsl: element::prelude(&elements) + &math::library(&body) + &body,
            bindings,
        }
    }

    fn sides(&self) -> [Side; 2] {
        let tile = &self.tile;
        [
            Side { name: "a", operand: self.a, block: tile.block_m, tile: "tile_m", tail: self.tail_m },
            Side { name: "b", operand: self.b, block: tile.block_n, tile: "tile_n", tail: self.tail_n },
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
                *out += &self.epilogue.accumulator.storage(3, "d", Form::Scalar, Access::ReadWrite);
            }
        }
        let axes = usize::from(self.axes);
        *out += &decode("batch_of_a", "params.a_base", 'a', axes);
        *out += &decode("batch_of_b", "params.b_base", 'b', axes);
        let (stride_a, stride_b) = (block_m / 4, block_n / 4);
        writeln!(out, "var<workgroup> a_tile: array<V, {}>;", block_k * stride_a)?;
        writeln!(out, "var<workgroup> b_tile: array<V, {}>;\n", block_k * stride_b)?;
        writeln!(out, "@compute @workgroup_size({threads})\nfn main(")?;
        writeln!(out, "    @builtin(workgroup_id) group: vec3<u32>,\n    @builtin(num_workgroups) groups: vec3<u32>,")?;
        writeln!(out, "    @builtin(local_invocation_index) thread: u32,\n) {{")?;
        writeln!(out, "    let id = group.y * groups.x + group.x;\n    let tiles = params.tiles_m * params.tiles_n;")?;
        writeln!(out, "    let layer = id / tiles;")?;
        writeln!(out, "    if layer >= params.batches * params.splits {{ return; }}")?;
        writeln!(out, "    let split = layer % params.splits;\n    let batch = layer / params.splits;")?;
        writeln!(out, "    let place = id % tiles;\n    let band = place / ({RASTER}u * params.tiles_n);")?;
        writeln!(out, "    let band_first = band * {RASTER}u;")?;
        writeln!(out, "    let band_rows = min({RASTER}u, params.tiles_m - band_first);")?;
        writeln!(out, "    let in_band = place - band * {RASTER}u * params.tiles_n;")?;
        writeln!(out, "    let tile_m = (band_first + in_band % band_rows) * {block_m}u;")?;
        writeln!(out, "    let tile_n = in_band / band_rows * {block_n}u;")?;
        writeln!(out, "    let k_first = split * params.slab;")?;
        writeln!(out, "    let k_end = min(k_first + params.slab, params.k);")?;
        writeln!(out, "    let lane = thread % {WARP}u;\n    let warp = thread / {WARP}u;")?;
        writeln!(out, "    let own_m = warp % {warps_m}u * {}u + lane / {LANES_N}u;", block_m / warps_m / 4)?;
        writeln!(out, "    let own_n = warp / {warps_m}u * {}u + lane % {LANES_N}u;", block_n / warps_n / 4)?;
        for i in 0..tm {
            for j in 0..tn / 4 {
                writeln!(out, "    var d{i}_{j} = V();")?;
            }
        }
        for side in &sides {
            self.write_places(out, side)?;
        }
        writeln!(out, "    // The first step.")?;
        self.write_fetch(out, &sides, "k_first", "    ")?;
        self.write_put(out, &sides, "    ")?;
        writeln!(out, "    workgroupBarrier(); // the first step is complete")?;
        writeln!(out, "    for (var k0 = k_first; k0 < k_end; k0 += {block_k}u) {{")?;
        // No branch: the last round fetches the first step again, for nothing (+8 % on an H200).
        writeln!(out, "        // The next step's operands travel while this one is multiplied.")?;
        writeln!(out, "        let next = select(k_first, k0 + {block_k}u, k0 + {block_k}u < k_end);")?;
        self.write_fetch(out, &sides, "next", "        ")?;
        self.write_multiply(out)?;
        writeln!(out, "        workgroupBarrier(); // everyone has read this step")?;
        self.write_put(out, &sides, "        ")?;
        writeln!(out, "        workgroupBarrier(); // the next step is complete\n    }}")?;
        self.write_stores(out)?;
        writeln!(out, "}}")
    }

    /// The buffer of an operand, and its elements as accumulators.
    fn write_operand(&self, out: &mut String, binding: u32, side: &Side) -> std::fmt::Result {
        let (name, operand) = (side.name, side.operand);
        let form = if operand.load == Load::Quad { Form::Quad } else { Form::Scalar };
        *out += &operand.element.storage(binding, name, form, Access::Read);
        let own = operand.element.scalar();
        let acc = self.epilogue.accumulator.scalar();
        let (ty, call) = match operand.load {
            Load::Quad => ("V", format!("load4_{name}(at)")),
            _ => ("Acc", format!("load_{name}(at)")),
        };
        let value = if own == acc { call } else { format!("{ty}({call})") };
        writeln!(out, "fn get_{name}(at: u32) -> {ty} {{ return {value}; }}")
    }

    /// Which units of a tile a thread fetches, from where, and where they go.
    fn write_places(&self, out: &mut String, side: &Side) -> std::fmt::Result {
        let Side { name: n, block, tile, .. } = *side;
        let across = block / 4;
        let (near, far, per) = (side.near(), side.far(), side.per_item());
        writeln!(
            out,
            "    let {n}_start = batch_of_{n}(batch);\n    let {n}_far = params.{n}_{}{per};",
            side.far_axis()
        )?;
        for p in 0..side.passes(&self.tile) {
            writeln!(out, "    let {n}_unit{p} = thread + {}u;", p * self.tile.threads())?;
            if side.operand.along_k {
                // Blocks along M (N), then all along K, then the rest: no bank conflicts.
                let (deep, wide) = (self.tile.block_k / 4, across.min(GROUP));
                writeln!(out, "    let {n}_x{p} = {n}_unit{p} % {wide}u + {n}_unit{p} / {}u * {wide}u;", wide * deep)?;
                writeln!(out, "    let {n}_k{p} = {n}_unit{p} / {wide}u % {deep}u * 4u;")?;
                writeln!(
                    out,
                    "    let {n}_from{p} = ({n}_start + ({tile} + {n}_x{p} * 4u){far} + {n}_k{p}{near}){per};"
                )?;
                writeln!(out, "    let {n}_to{p} = {n}_k{p} * {across}u + {n}_x{p};")?;
            } else {
                writeln!(
                    out,
                    "    let {n}_x{p} = {n}_unit{p} % {across}u;\n    let {n}_k{p} = {n}_unit{p} / {across}u;"
                )?;
                // Passes lie whole rows of the tile apart, where a pass is whole rows.
                let threads = self.tile.threads();
                if p > 0 && threads.is_multiple_of(across) {
                    writeln!(out, "    let {n}_from{p} = {n}_from0 + {}u * {n}_far;", p * threads / across)?;
                } else {
                    writeln!(
                        out,
                        "    let {n}_from{p} = ({n}_start + {n}_k{p}{far} + ({tile} + {n}_x{p} * 4u){near}){per};"
                    )?;
                }
                writeln!(out, "    let {n}_to{p} = {n}_unit{p};")?;
            }
            for r in 0..side.vectors() {
                writeln!(out, "    var {n}_held{p}_{r}: V;")?;
            }
        }
        Ok(())
    }

    /// Fetches the step that starts at `k`; only a partial last step pays for its guards.
    fn write_fetch(&self, out: &mut String, sides: &[Side; 2], k: &str, pad: &str) -> std::fmt::Result {
        for side in sides {
            let stride = if side.operand.along_k { side.near() } else { side.far() };
            writeln!(out, "{pad}let {}_step = {k}{stride}{};", side.name, side.per_item())?;
        }
        if !self.tail_k {
            return sides.iter().try_for_each(|side| self.write_loads(out, side, k, false, pad));
        }
        let deeper = format!("{pad}    ");
        writeln!(out, "{pad}if {k} + {}u <= k_end {{", self.tile.block_k)?;
        sides.iter().try_for_each(|side| self.write_loads(out, side, k, false, &deeper))?;
        writeln!(out, "{pad}}} else {{")?;
        sides.iter().try_for_each(|side| self.write_loads(out, side, k, true, &deeper))?;
        writeln!(out, "{pad}}}")
    }

    /// `if unit < units`, where the last pass has fewer units than threads.
    fn guard(&self, side: &Side, p: u32) -> Option<String> {
        let units = side.units(&self.tile);
        ((p + 1) * self.tile.threads() > units).then(|| format!("if {}_unit{p} < {units}u {{", side.name))
    }

    fn write_loads(&self, out: &mut String, side: &Side, k: &str, partial: bool, pad: &str) -> std::fmt::Result {
        let n = side.name;
        let along_k = side.operand.along_k;
        for p in 0..side.passes(&self.tile) {
            let guard = self.guard(side, p);
            if let Some(guard) = &guard {
                writeln!(out, "{pad}{guard}")?;
            }
            for r in 0..side.vectors() {
                let held = format!("{n}_held{p}_{r}");
                if side.operand.load == Load::Quad {
                    let value = side.get(&format!("{n}_from{p} + {n}_step + {r}u * {n}_far"));
                    if partial {
                        writeln!(out, "{pad}{held} = V();\n{pad}if {k} + {n}_k{p} < k_end {{ {held} = {value}; }}")?;
                    } else {
                        writeln!(out, "{pad}{held} = {value};")?;
                    }
                    continue;
                }
                let near = side.near();
                let value = |e: u32| {
                    if along_k {
                        side.get(&format!("{n}_from{p} + {n}_step + {r}u * {n}_far + {e}u{near}"))
                    } else {
                        side.get(&format!("{n}_from{p} + {n}_step + {e}u{near}"))
                    }
                };
                if partial {
                    writeln!(out, "{pad}{held} = V();")?;
                    for (e, lane) in (0..).zip(["x", "y", "z", "w"]) {
                        let at = if along_k { format!("{k} + {n}_k{p} + {e}u") } else { format!("{k} + {n}_k{p}") };
                        writeln!(out, "{pad}if {at} < k_end {{ {held}.{lane} = {}; }}", value(e))?;
                    }
                } else {
                    writeln!(out, "{pad}{held} = V({}, {}, {}, {});", value(0), value(1), value(2), value(3))?;
                }
            }
            if guard.is_some() {
                writeln!(out, "{pad}}}")?;
            }
        }
        Ok(())
    }

    /// Registers to workgroup memory, blocks along K transposed on the way.
    fn write_put(&self, out: &mut String, sides: &[Side; 2], pad: &str) -> std::fmt::Result {
        for side in sides {
            let n = side.name;
            let across = side.block / 4;
            for p in 0..side.passes(&self.tile) {
                let guard = self.guard(side, p);
                if let Some(guard) = &guard {
                    writeln!(out, "{pad}{guard}")?;
                }
                if side.operand.along_k {
                    for (e, lane) in (0..).zip(["x", "y", "z", "w"]) {
                        let held: Vec<String> = (0..4).map(|r| format!("{n}_held{p}_{r}.{lane}")).collect();
                        writeln!(out, "{pad}{n}_tile[{n}_to{p} + {}u] = V({});", e * across, held.join(", "))?;
                    }
                } else {
                    writeln!(out, "{pad}{n}_tile[{n}_to{p}] = {n}_held{p}_0;")?;
                }
                if guard.is_some() {
                    writeln!(out, "{pad}}}")?;
                }
            }
        }
        Ok(())
    }

    /// One step, every k of it written out or in a loop.
    fn write_multiply(&self, out: &mut String) -> std::fmt::Result {
        let Tile { block_m, block_n, block_k, .. } = self.tile;
        let (tm, tn) = (self.tile.thread_m(), self.tile.thread_n());
        let (stride_a, stride_b) = (block_m / 4, block_n / 4);
        let fused = self.epilogue.accumulator.dtype() == polywarp_core::DType::F32;
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

    fn write_stores(&self, out: &mut String) -> std::fmt::Result {
        let (tm, tn) = (self.tile.thread_m(), self.tile.thread_n());
        let partial = self.target == Target::Partial;
        let layer = if partial { "(split * params.batches + batch)" } else { "batch" };
        let base = if partial { "" } else { "params.target_base + " };
        writeln!(out, "    let d_start = {base}{layer} * params.m * params.n;")?;
        if !self.unroll {
            return self.write_store_loop(out);
        }
        for i in 0..tm {
            writeln!(out, "    {{\n        let row = tile_m + (own_m + {}u) * 4u + {}u;", i / 4 * LANES_M, i % 4)?;
            let row_guard = if self.tail_m { "row < params.m" } else { "true" };
            writeln!(out, "        if {row_guard} {{\n            let at = d_start + row * params.n;")?;
            for j in 0..tn / 4 {
                writeln!(out, "            {{\n                let col = tile_n + (own_n + {}u) * 4u;", j * LANES_N)?;
                let value = |e: usize| {
                    let sum = format!("d{i}_{j}.{}", ["x", "y", "z", "w"][e]);
                    if partial { sum } else { format!("epilogue({sum}, batch, row, col + {e}u)") }
                };
                if self.target == Target::Output(Form::Quad) {
                    let guard = if self.tail_n { "if col < params.n " } else { "" };
                    let values = [value(0), value(1), value(2), value(3)].join(", ");
                    writeln!(out, "                {guard}{{ store4_d((at + col) / 4u, V({values})); }}")?;
                } else {
                    for e in 0..4 {
                        let guard = if self.tail_n { format!("if col + {e}u < params.n ") } else { String::new() };
                        writeln!(out, "                {guard}{{ store_d(at + col + {e}u, {}); }}", value(e))?;
                    }
                }
                writeln!(out, "            }}")?;
            }
            writeln!(out, "        }}\n    }}")?;
        }
        Ok(())
    }

    /// The stores as a loop: the epilogue is compiled once.
    fn write_store_loop(&self, out: &mut String) -> std::fmt::Result {
        let (tm, vectors) = (self.tile.thread_m(), self.tile.thread_n() / 4);
        let sums: Vec<String> = (0..tm).flat_map(|i| (0..vectors).map(move |j| format!("d{i}_{j}"))).collect();
        let count = tm * vectors;
        writeln!(out, "    var sums = array<V, {count}>({});", sums.join(", "))?;
        writeln!(out, "    for (var i = 0u; i < {count}u; i++) {{\n        let r = i / {vectors}u;")?;
        writeln!(out, "        let row = tile_m + (own_m + r / 4u * {LANES_M}u) * 4u + r % 4u;")?;
        writeln!(out, "        let col = tile_n + (own_n + i % {vectors}u * {LANES_N}u) * 4u;")?;
        writeln!(out, "        if row >= params.m || col >= params.n {{ continue; }}")?;
        writeln!(out, "        let at = d_start + row * params.n + col;\n        var value = sums[i];")?;
        writeln!(out, "        let live = min(params.n - col, 4u);\n        for (var e = 0u; e < live; e++) {{")?;
        if self.target != Target::Partial {
            writeln!(out, "            value[e] = epilogue(value[e], batch, row, col + e);")?;
        }
        if self.target == Target::Output(Form::Quad) {
            writeln!(out, "        }}\n        store4_d(at / 4u, value);\n    }}")
        } else {
            writeln!(out, "            store_d(at + e, value[e]);\n        }}\n    }}")
        }
    }
}
