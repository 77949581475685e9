//! The way of A and B from their buffers through registers to workgroup memory, for one step of K.
//!
//! Tiles lie in workgroup memory as operands lie in theirs: rows along K where neighbours lie along K, else rows along
//! M (N). Loads of fragments transpose where needed. Not here: the products of the tiles (`multiply.rs`).

use std::fmt::Write;

use crate::DType;

use super::super::epilogue::TEXT;
use super::super::tiled::{Load, Operand};
use super::{Coop, Parts, Shape};
use crate::plan::Access;
use crate::wgsl::element::Form;
use crate::wgsl::pieces::holes;

/// Elements that a thread moves at once: 8 bytes of f16. Twice as many are slower by a seventh, because pairs of 8
/// bytes are stored one after the other and conflict in the banks.
const UNIT: u32 = 4;

/// An operand's names and extents in the text.
pub(super) struct Side {
    pub name: &'static str,
    pub operand: Operand,
    pub block: u32,
    /// The variable that holds the tile's first row (column).
    pub tile: &'static str,
    pub tail: bool,
}

impl Side {
    /// Rows of the tile in workgroup memory.
    pub fn rows(&self, block_k: u32) -> u32 {
        if self.operand.along_k { self.block } else { block_k }
    }

    /// Elements of a row.
    fn columns(&self, block_k: u32) -> u32 {
        if self.operand.along_k { block_k } else { self.block }
    }

    /// Elements from row to row.
    pub fn stride(&self, block_k: u32, factors: DType) -> u32 {
        self.columns(block_k) + Shape::pad(factors)
    }

    /// The factor of the stride between neighbours in an index: empty where the stride is 1.
    fn near(&self) -> String {
        match (self.operand.load, self.operand.along_k) {
            (Load::Strided, true) => format!(" * params.{}_k", self.name),
            (Load::Strided, false) => format!(" * params.{}_x", self.name),
            _ => String::new(),
        }
    }

    fn far_axis(&self) -> &'static str {
        if self.operand.along_k { "x" } else { "k" }
    }

    /// ` / 4u` where the array is read by quads.
    fn per_item(&self) -> &'static str {
        if self.operand.load == Load::Quad { " / 4u" } else { "" }
    }

    /// `index`, or the operand's last element where rows (columns) may lie beyond M (N).
    fn inside(&self, index: &str) -> String {
        if self.tail { format!("min({index}, params.{}_last{})", self.name, self.per_item()) } else { index.to_owned() }
    }
}

impl Coop {
    /// The buffer of an operand, and its elements as factors.
    pub(super) fn write_operand(&self, out: &mut String, binding: u32, side: &Side) -> std::fmt::Result {
        let (name, operand) = (side.name, side.operand);
        if operand.element.dtype() == DType::F16 && self.half() {
            // Loads elements in their own type, not by way of f32.
            let item = if operand.load == Load::Quad { "V" } else { "T" };
            writeln!(out, "@group(0) @binding({binding}) var<storage, read> {name}: array<{item}>;")?;
            *out += &TEXT.fill("get", holes!(name, ty = item, value = format!("{name}[at]")));
            return Ok(());
        }
        let form = if operand.load == Load::Quad { Form::Quad } else { Form::Scalar };
        *out += &operand.element.storage(binding, name, form, Access::Read);
        let item = if self.parts == Parts::Scaled { "f32" } else { self.factor() };
        let (ty, call) = match operand.load {
            Load::Quad => (format!("vec4<{item}>"), format!("load4_{name}(at)")),
            _ => (item.to_owned(), format!("load_{name}(at)")),
        };
        let value = if operand.element.scalar() == item { call } else { format!("{ty}({call})") };
        *out += &TEXT.fill("get", holes!(name, ty, value));
        Ok(())
    }

    /// The type of four elements on their way.
    fn held(&self) -> &'static str {
        if self.parts == Parts::Scaled { "vec4<f32>" } else { "V" }
    }

    fn units(&self, side: &Side) -> u32 {
        let block_k = self.shape.tile.block_k;
        side.rows(block_k) * side.columns(block_k) / UNIT
    }

    fn passes(&self, side: &Side) -> u32 {
        self.units(side).div_ceil(self.threads())
    }

    /// The units of a tile that a thread moves: where it reads them and where it writes them.
    pub(super) fn write_places(&self, out: &mut String, side: &Side) -> std::fmt::Result {
        let Side { name: n, tile, .. } = *side;
        let block_k = self.shape.tile.block_k;
        let (near, per) = (side.near(), side.per_item());
        let (across, stride) = (side.columns(block_k) / UNIT, side.stride(block_k, self.product.factors));
        writeln!(out, "    let {n}_start = batch_of_{n}(batch);")?;
        writeln!(out, "    let {n}_far = params.{n}_{}{per};", side.far_axis())?;
        let threads = self.threads();
        for p in 0..self.passes(side) {
            writeln!(out, "    let {n}_unit{p} = thread + {}u;", p * threads)?;
            writeln!(out, "    let {n}_line{p} = {n}_unit{p} / {across}u;")?;
            // Rows are an odd number of 16 bytes long. Those that half a subgroup writes together lie so far apart that
            // they share no bank: of every eight rows, 0 4 1 5 2 6 3 7 where two are written, 0 2 4 6 1 3 5 7 where four.
            let line = format!("{n}_line{p}");
            match across {
                8 => writeln!(
                    out,
                    "    let {n}_row{p} = ({line} & ~7u) | (({line} & 1u) << 2u) | (({line} >> 1u) & 3u);"
                )?,
                4 => writeln!(
                    out,
                    "    let {n}_row{p} = ({line} & ~7u) | (({line} & 3u) << 1u) | (({line} >> 2u) & 1u);"
                )?,
                _ => writeln!(out, "    let {n}_row{p} = {line};")?,
            }
            writeln!(out, "    let {n}_col{p} = {n}_unit{p} % {across}u * {UNIT}u;")?;
            let far = format!("params.{n}_{}", side.far_axis());
            // Passes lie whole rows apart, where a pass is whole rows.
            if p > 0 && threads.is_multiple_of(across * 8) {
                writeln!(out, "    let {n}_from{p} = {n}_from0 + {}u * {n}_far;", p * threads / across)?;
            } else if side.operand.along_k {
                writeln!(
                    out,
                    "    let {n}_from{p} = ({n}_start + ({tile} + {n}_row{p}) * {far} + {n}_col{p}{near}){per};"
                )?;
            } else {
                writeln!(
                    out,
                    "    let {n}_from{p} = ({n}_start + {n}_row{p} * {far} + ({tile} + {n}_col{p}){near}){per};"
                )?;
            }
            writeln!(out, "    let {n}_to{p} = ({n}_row{p} * {stride}u + {n}_col{p}) / 4u;")?;
            writeln!(out, "    var {n}_held{p}: {};", self.held())?;
        }
        Ok(())
    }

    /// Fetches the step that starts at `places` in A and in B. Guards cost time in a partial last step alone; where the
    /// places in A and B differ (padded parts) there are none.
    pub(super) fn write_fetch(
        &self,
        out: &mut String,
        sides: &[Side; 2],
        places: [&str; 2],
        pad: &str,
    ) -> std::fmt::Result {
        for (side, k) in sides.iter().zip(places) {
            let step = if side.operand.along_k {
                format!("{k}{}{}", side.near(), side.per_item())
            } else {
                format!("{k} * {}_far", side.name)
            };
            writeln!(out, "{pad}let {}_step = {step};", side.name)?;
        }
        if !self.tail_k {
            return sides.iter().zip(places).try_for_each(|(side, k)| self.write_loads(out, side, k, false, pad));
        }
        let k = places[0];
        let deeper = format!("{pad}    ");
        writeln!(out, "{pad}if {k} + {}u <= k_end {{", self.shape.tile.block_k)?;
        sides.iter().try_for_each(|side| self.write_loads(out, side, k, false, &deeper))?;
        writeln!(out, "{pad}}} else {{")?;
        sides.iter().try_for_each(|side| self.write_loads(out, side, k, true, &deeper))?;
        writeln!(out, "{pad}}}")
    }

    /// `if unit < units`, where the last pass has fewer units than threads.
    fn guard(&self, side: &Side, p: u32) -> Option<String> {
        let units = self.units(side);
        ((p + 1) * self.threads() > units).then(|| format!("if {}_unit{p} < {units}u {{", side.name))
    }

    fn write_loads(&self, out: &mut String, side: &Side, k: &str, partial: bool, pad: &str) -> std::fmt::Result {
        let (n, ty) = (side.name, self.held());
        let along_k = side.operand.along_k;
        for p in 0..self.passes(side) {
            let guard = self.guard(side, p);
            if let Some(guard) = &guard {
                writeln!(out, "{pad}{guard}")?;
            }
            let index = format!("{n}_from{p} + {n}_step");
            // The place along K of the first element.
            let depth = if along_k { format!("{k} + {n}_col{p}") } else { format!("{k} + {n}_row{p}") };
            let held = format!("{n}_held{p}");
            match side.operand.load {
                Load::Quad if partial => {
                    let get = side.inside(&index);
                    // Quads may cross the end of K, and hold anything there.
                    let value = if along_k {
                        let places = format!("vec4<u32>({depth}) + vec4<u32>(0u, 1u, 2u, 3u)");
                        format!("select({ty}(), get_{n}({get}), {places} < vec4<u32>(k_end))")
                    } else {
                        format!("get_{n}({get})")
                    };
                    writeln!(out, "{pad}{held} = {ty}();\n{pad}if {depth} < k_end {{ {held} = {value}; }}")?;
                }
                Load::Quad => writeln!(out, "{pad}{held} = get_{n}({});", side.inside(&index))?,
                Load::Unit | Load::Strided => {
                    let value = |e: u32| format!("get_{n}({})", side.inside(&format!("{index} + {e}u{}", side.near())));
                    if partial {
                        writeln!(out, "{pad}{held} = {ty}();")?;
                        for (e, lane) in (0..).zip(["x", "y", "z", "w"]) {
                            let at = if along_k { format!("{depth} + {e}u") } else { depth.clone() };
                            writeln!(out, "{pad}if {at} < k_end {{ {held}.{lane} = {}; }}", value(e))?;
                        }
                    } else {
                        let values = [value(0), value(1), value(2), value(3)].join(", ");
                        writeln!(out, "{pad}{held} = {ty}({values});")?;
                    }
                }
            }
            if guard.is_some() {
                writeln!(out, "{pad}}}")?;
            }
        }
        Ok(())
    }

    /// Writes the fetched elements to the tiles.
    pub(super) fn write_put(&self, out: &mut String, sides: &[Side; 2], pad: &str) -> std::fmt::Result {
        for side in sides {
            let n = side.name;
            for p in 0..self.passes(side) {
                let guard = self.guard(side, p);
                if let Some(guard) = &guard {
                    writeln!(out, "{pad}{guard}")?;
                }
                let value = match self.parts {
                    Parts::Whole | Parts::Split => format!("{n}_held{p}"),
                    Parts::Scaled => format!("V({n}_held{p} * scale_{n})"),
                };
                writeln!(out, "{pad}{n}_tile[{n}_to{p}] = {value};")?;
                if guard.is_some() {
                    writeln!(out, "{pad}}}")?;
                }
            }
        }
        Ok(())
    }
}
