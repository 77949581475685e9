//! The way of A and B from their buffers through registers to workgroup memory, for one step of K.
//!
//! Tiles lie in workgroup memory as operands lie in theirs: rows along K where neighbours lie along K, else rows along M
//! (N). Loads of fragments transpose as they need. Not here: what is done with the tiles (`multiply.rs`).

use std::fmt::Write;

use polywarp_core::DType;

use super::{Coop, Factor, Parts, Shape, Width};
use crate::Access;
use crate::element::Form;

/// Low halves are stored this much larger (2^11): as large as their high halves.
pub(super) const LOW_SCALE: &str = "2048.0";

/// An operand's names and extents in the text.
pub(super) struct Side {
    pub name: &'static str,
    pub factor: Factor,
    pub block: u32,
    /// The variable that holds the tile's first row (column).
    pub tile: &'static str,
    pub tail: bool,
}

impl Side {
    /// Rows of the tile in workgroup memory.
    pub fn rows(&self, block_k: u32) -> u32 {
        if self.factor.along_k { self.block } else { block_k }
    }

    /// Elements of a row.
    fn columns(&self, block_k: u32) -> u32 {
        if self.factor.along_k { block_k } else { self.block }
    }

    /// Elements from row to row.
    pub fn stride(&self, block_k: u32, factors: DType) -> u32 {
        self.columns(block_k) + Shape::pad(factors)
    }

    /// Elements that a thread moves at once.
    fn unit(&self) -> u32 {
        if self.factor.width == Width::Oct { 8 } else { 4 }
    }

    /// The stride between neighbours: nothing where it is 1.
    fn near(&self) -> String {
        match (self.factor.width, self.factor.along_k) {
            (Width::Strided, true) => format!(" * params.{}_k", self.name),
            (Width::Strided, false) => format!(" * params.{}_x", self.name),
            _ => String::new(),
        }
    }

    fn far_axis(&self) -> &'static str {
        if self.factor.along_k { "x" } else { "k" }
    }

    /// ` / 4u` where the array is read by quads.
    fn per_item(&self) -> &'static str {
        match self.factor.width {
            Width::Oct => " / 8u",
            Width::Quad => " / 4u",
            Width::Unit | Width::Strided => "",
        }
    }

    /// `index`, or the operand's last element where rows (columns) may lie beyond M (N).
    fn inside(&self, index: &str) -> String {
        if self.tail { format!("min({index}, params.{}_last{})", self.name, self.per_item()) } else { index.to_owned() }
    }
}

impl Coop {
    /// The buffer of an operand, and its elements as factors.
    pub(super) fn write_operand(&self, out: &mut String, binding: u32, side: &Side) -> std::fmt::Result {
        let (name, factor) = (side.name, side.factor);
        if factor.element.dtype() == DType::F16 && self.half() {
            // As they are: not by way of f32.
            let item = match factor.width {
                Width::Oct => "Oct",
                Width::Quad => "V",
                Width::Unit | Width::Strided => "T",
            };
            if factor.width == Width::Oct && !out.contains("struct Oct") {
                writeln!(out, "struct Oct {{ low: V, high: V }}")?;
            }
            writeln!(out, "@group(0) @binding({binding}) var<storage, read> {name}: array<{item}>;")?;
            return writeln!(out, "fn get_{name}(at: u32) -> {item} {{ return {name}[at]; }}");
        }
        let form = if factor.width == Width::Quad { Form::Quad } else { Form::Scalar };
        *out += &factor.element.storage(binding, name, form, Access::Read);
        let item = if self.parts == Parts::Whole { self.factor() } else { "f32" };
        let (ty, call) = match factor.width {
            Width::Quad => (format!("vec4<{item}>"), format!("load4_{name}(at)")),
            _ => (item.to_owned(), format!("load_{name}(at)")),
        };
        let value = if factor.element.scalar() == item { call } else { format!("{ty}({call})") };
        writeln!(out, "fn get_{name}(at: u32) -> {ty} {{ return {value}; }}")
    }

    /// The type of four elements on their way.
    fn held(&self) -> &'static str {
        if self.parts == Parts::Whole { "V" } else { "vec4<f32>" }
    }

    fn units(&self, side: &Side) -> u32 {
        let block_k = self.shape.tile.block_k;
        side.rows(block_k) * side.columns(block_k) / side.unit()
    }

    fn passes(&self, side: &Side) -> u32 {
        self.units(side).div_ceil(self.threads())
    }

    /// Which units of a tile a thread moves, from where, and where they go.
    pub(super) fn write_places(&self, out: &mut String, side: &Side) -> std::fmt::Result {
        let Side { name: n, tile, .. } = *side;
        let block_k = self.shape.tile.block_k;
        let (near, per, unit) = (side.near(), side.per_item(), side.unit());
        let (across, stride) = (side.columns(block_k) / unit, side.stride(block_k, self.product.factors));
        writeln!(out, "    let {n}_start = batch_of_{n}(batch);")?;
        writeln!(out, "    let {n}_far = params.{n}_{}{per};", side.far_axis())?;
        let threads = self.threads();
        for p in 0..self.passes(side) {
            writeln!(out, "    let {n}_unit{p} = thread + {}u;", p * threads)?;
            writeln!(out, "    let {n}_line{p} = {n}_unit{p} / {across}u;")?;
            if across == 4 && unit == 8 {
                // Rows 0 4 1 5 2 6 3 7: rows that are written together lie 4 apart, and in different banks.
                let line = format!("{n}_line{p}");
                writeln!(out, "    let {n}_row{p} = ({line} & ~7u) | (({line} & 1u) << 2u) | (({line} >> 1u) & 3u);")?;
            } else {
                writeln!(out, "    let {n}_row{p} = {n}_line{p};")?;
            }
            writeln!(out, "    let {n}_col{p} = {n}_unit{p} % {across}u * {unit}u;")?;
            let far = format!("params.{n}_{}", side.far_axis());
            // Passes lie whole rows apart, where a pass is whole rows.
            if p > 0 && threads.is_multiple_of(across * 8) {
                writeln!(out, "    let {n}_from{p} = {n}_from0 + {}u * {n}_far;", p * threads / across)?;
            } else if side.factor.along_k {
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
            for h in 0..unit / 4 {
                writeln!(out, "    var {n}_held{p}_{h}: {};", self.held())?;
            }
        }
        Ok(())
    }

    /// Fetches the step that starts at `k`; only a partial last step pays for its guards.
    pub(super) fn write_fetch(&self, out: &mut String, sides: &[Side; 2], k: &str, pad: &str) -> std::fmt::Result {
        for side in sides {
            let step = if side.factor.along_k {
                format!("{k}{}{}", side.near(), side.per_item())
            } else {
                format!("{k} * {}_far", side.name)
            };
            writeln!(out, "{pad}let {}_step = {step};", side.name)?;
        }
        if !self.tail_k {
            return sides.iter().try_for_each(|side| self.write_loads(out, side, k, false, pad));
        }
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
        let along_k = side.factor.along_k;
        for p in 0..self.passes(side) {
            let guard = self.guard(side, p);
            if let Some(guard) = &guard {
                writeln!(out, "{pad}{guard}")?;
            }
            let index = format!("{n}_from{p} + {n}_step");
            // The place along K of the first element.
            let depth = if along_k { format!("{k} + {n}_col{p}") } else { format!("{k} + {n}_row{p}") };
            let held = format!("{n}_held{p}_");
            match side.factor.width {
                Width::Oct => {
                    let get = side.inside(&index);
                    if partial {
                        writeln!(out, "{pad}{held}0 = V();\n{pad}{held}1 = V();\n{pad}if {depth} < k_end {{")?;
                    }
                    writeln!(out, "{pad}{{ let v = get_{n}({get}); {held}0 = v.low; {held}1 = v.high; }}")?;
                    if partial {
                        writeln!(out, "{pad}}}")?;
                    }
                }
                Width::Quad if partial => {
                    let get = side.inside(&index);
                    writeln!(out, "{pad}{held}0 = {ty}();\n{pad}if {depth} < k_end {{ {held}0 = get_{n}({get}); }}")?;
                }
                Width::Quad => writeln!(out, "{pad}{held}0 = get_{n}({});", side.inside(&index))?,
                Width::Unit | Width::Strided => {
                    let value = |e: u32| format!("get_{n}({})", side.inside(&format!("{index} + {e}u{}", side.near())));
                    if partial {
                        writeln!(out, "{pad}{held}0 = {ty}();")?;
                        for (e, lane) in (0..).zip(["x", "y", "z", "w"]) {
                            let at = if along_k { format!("{depth} + {e}u") } else { depth.clone() };
                            writeln!(out, "{pad}if {at} < k_end {{ {held}0.{lane} = {}; }}", value(e))?;
                        }
                    } else {
                        let values = [value(0), value(1), value(2), value(3)].join(", ");
                        writeln!(out, "{pad}{held}0 = {ty}({values});")?;
                    }
                }
            }
            if guard.is_some() {
                writeln!(out, "{pad}}}")?;
            }
        }
        Ok(())
    }

    /// Registers to a copy of the tiles.
    pub(super) fn write_put(&self, out: &mut String, sides: &[Side; 2], copy: &str, pad: &str) -> std::fmt::Result {
        for side in sides {
            let n = side.name;
            for p in 0..self.passes(side) {
                let guard = self.guard(side, p);
                if let Some(guard) = &guard {
                    writeln!(out, "{pad}{guard}")?;
                }
                for h in 0..side.unit() / 4 {
                    let (held, goal) = (format!("{n}_held{p}_{h}"), format!("{copy}[{n}_to{p} + {h}u]"));
                    match self.parts {
                        Parts::Whole => writeln!(out, "{pad}{n}_tile{goal} = {held};")?,
                        Parts::Scaled => writeln!(out, "{pad}{n}_tile{goal} = V({held} * scale_{n});")?,
                        Parts::HighLow => {
                            // Scaling, the difference and its scaling are exact; the roundings to f16 are the only ones.
                            writeln!(out, "{pad}{{ let x = {held} * scale_{n}; let high = V(x);")?;
                            writeln!(out, "{pad}{n}_tile{goal} = high;")?;
                            writeln!(out, "{pad}{n}_low{goal} = V((x - vec4<f32>(high)) * {LOW_SCALE}); }}")?;
                        }
                    }
                }
                if guard.is_some() {
                    writeln!(out, "{pad}}}")?;
                }
            }
        }
        Ok(())
    }
}
