//! The way of A and B from their buffers through registers to workgroup memory, for one step of K.
//!
//! One code writes both operands: a [`Side`] says which operand it is, how it lies and which tile it fills. Not here:
//! the products of the tiles (`../tiled.rs`).

use std::fmt::Write;

use super::super::epilogue::TEXT;
use super::{Load, Operand, Tile, Tiled};
use crate::plan::Access;
use crate::wgsl::element::Form;
use crate::wgsl::pieces::holes;

/// Neighbouring threads that fetch along M (N) from an operand that lies along K, before the next ones along K.
const GROUP: u32 = 32;

/// An operand's names and extents in the text.
pub(super) struct Side {
    pub name: &'static str,
    pub operand: Operand,
    pub block: u32,
    /// The variable that holds the tile's first row (column).
    pub tile: &'static str,
    pub tail: bool,
    /// The index of the matrix in the batch.
    pub matrix: &'static str,
}

impl Side {
    /// Units of the tile: 4 x 4 blocks (along K, transposed in registers) or single vectors (along M or N).
    fn units(&self, tile: &Tile) -> u32 {
        self.block / 4 * if self.operand.along_k { tile.block_k / 4 } else { tile.block_k }
    }

    fn passes(&self, tile: &Tile) -> u32 {
        self.units(tile).div_ceil(tile.threads())
    }

    /// Vectors that a thread holds for one unit.
    fn vectors(&self) -> u32 {
        if self.operand.along_k { 4 } else { 1 }
    }

    /// The factor of the stride between neighbours in an index: empty where the stride is 1.
    fn near(&self) -> String {
        match (self.operand.load, self.operand.along_k) {
            (Load::Strided, true) => format!(" * params.{}_k", self.name),
            (Load::Strided, false) => format!(" * params.{}_x", self.name),
            _ => String::new(),
        }
    }

    /// The factor of the stride between lines.
    fn far(&self) -> String {
        format!(" * params.{}_{}", self.name, self.far_axis())
    }

    fn far_axis(&self) -> &'static str {
        if self.operand.along_k { "x" } else { "k" }
    }

    /// The read at `index`. Results from elements beyond M (N) are never stored, so such a read may give the next row;
    /// a read past the operand's last element gives that element.
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
    /// The buffer of an operand, and its elements as accumulators.
    pub(super) fn write_operand(&self, out: &mut String, binding: u32, side: &Side) -> std::fmt::Result {
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
        *out += &TEXT.fill("get", holes!(name, ty, value));
        Ok(())
    }

    /// The units of a tile that a thread fetches: where it reads them and where it writes them.
    pub(super) fn write_places(&self, out: &mut String, side: &Side) -> std::fmt::Result {
        let Side { name: n, block, tile, matrix, .. } = *side;
        let across = block / 4;
        let (near, far, per) = (side.near(), side.far(), side.per_item());
        writeln!(
            out,
            "    let {n}_start = batch_of_{n}({matrix});\n    let {n}_far = params.{n}_{}{per};",
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

    /// Fetches the step that starts at `k`. Guards cost time in a partial last step alone.
    pub(super) fn write_fetch(&self, out: &mut String, sides: &[Side; 2], k: &str, pad: &str) -> std::fmt::Result {
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
    pub(super) fn write_put(&self, out: &mut String, sides: &[Side; 2], pad: &str) -> std::fmt::Result {
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
}
