//! argmax and argmin: the passes of a reduction over pairs of a key and a position.
//!
//! Keys are u32 (i64 for the 64-bit types) that order as the elements do: NaN beyond every number, zeros equal, argmin
//! turned round. The larger key wins and, among equals, the lower position, so the order of folding does not matter.
//! The frame (loops, passes) is that of `reduce/`.

use std::fmt::Write;

use crate::ops::{ArgReduce, ArgReduceFn};
use crate::{DType, Operation, Result};

use crate::ops::reduce::plan::ABSORB;
use crate::ops::reduce::plan::passes::{Partials, Pass, View, Walk, passes};
use crate::ops::reduce::plan::template::{Frame, check_index, launch};
use crate::plan::{Access, Caps, KernelKey, KernelText, Plan, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::keys;

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    frame: Frame,
    function: ArgReduceFn,
    /// What the op reads.
    dtype: DType,
    /// As read: floats of a word or two are read as bits.
    input: Element,
    /// Reads pairs of an earlier pass.
    partial: bool,
    /// Writes positions, not pairs.
    last: bool,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let form = if self.frame.quad { Form::Quad } else { Form::Scalar };
        let mut wgsl = element::prelude(&[self.input]);
        wgsl += &self.frame.head(&[]);
        // Formatting into a String cannot fail.
        let _ = self.write_functions(&mut wgsl);
        if !self.partial {
            wgsl += &self.input.storage(1, "x", form, Access::Read);
        }
        wgsl += self.frame.body();
        Source {
            name: format!("{}_{}_{}", self.function.name(), self.frame.suffix(), self.dtype),
            wgsl,
            bindings: vec![Access::Read, Access::ReadWrite],
        }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        self.frame.loop_rounds(params)
    }
}

pub(crate) fn plan(op: &ArgReduce, caps: &Caps) -> Result<Plan> {
    check_index(op.name(), &op.input)?;
    check_index(op.name(), &op.output)?;
    let dtype = op.input.dtype;
    caps.require(dtype)?;
    let read_as = match dtype {
        DType::F32 => DType::U32,
        DType::F64 => DType::I64,
        other => other,
    };
    let input = Element::new(read_as, caps)?;
    let (list, elements) = passes(View::of_input(&op.input.layout, &op.axes), Partials::Pairs, caps);
    let launch = |pass: &Pass| {
        let kernel = Kernel {
            frame: Frame::of(pass),
            function: op.function,
            dtype,
            input,
            partial: pass.partial,
            last: pass.last,
        };
        let target = if pass.last { op.output.layout.offset() } else { 0 };
        launch(KernelKey::own(kernel), pass, 0, target, caps)
    };
    // A pair is a key and a position; WGSL pads the wide one to the key's alignment.
    let pair_bytes = if input.dtype().size_bytes() == 8 { 16 } else { 8 };
    Ok(Plan {
        launches: list.iter().map(launch).collect::<Result<_>>()?,
        scratch_bytes: elements.iter().map(|&n| n * pair_bytes).collect(),
    })
}

impl Kernel {
    fn write_functions(&self, out: &mut String) -> std::fmt::Result {
        let quad = self.frame.quad;
        let rows = matches!(self.frame.walk, Walk::Rows { .. });
        let (key, lowest) = match self.input.dtype().size_bytes() {
            8 => ("i64", "(-9223372036854775807li - 1li)"),
            _ => ("u32", "0u"),
        };
        writeln!(out, "struct Pair {{ key: {key}, place: u32 }}")?;
        writeln!(out, "alias Acc = Pair;")?;
        writeln!(out, "fn combine(a: Pair, b: Pair) -> Pair {{")?;
        writeln!(out, "    if b.key > a.key || (b.key == a.key && b.place < a.place) {{ return b; }}")?;
        writeln!(out, "    return a;\n}}")?;
        if quad {
            writeln!(out, "alias Keys = vec4<{key}>;\nalias Places = vec4<u32>;")?;
            writeln!(out, "struct Quad {{ key: Keys, place: Places }}\nalias Wide = Quad;")?;
            writeln!(out, "fn combine_wide(a: Wide, b: Wide) -> Wide {{")?;
            writeln!(out, "    let wins = (b.key > a.key) | ((b.key == a.key) & (b.place < a.place));")?;
            writeln!(out, "    return Wide(select(a.key, b.key, wins), select(a.place, b.place, wins));\n}}")?;
            writeln!(out, "fn narrow(w: Wide) -> Acc {{")?;
            writeln!(out, "    let left = combine(Pair(w.key.x, w.place.x), Pair(w.key.y, w.place.y));")?;
            writeln!(
                out,
                "    return combine(left, combine(Pair(w.key.z, w.place.z), Pair(w.key.w, w.place.w)));\n}}"
            )?;
            writeln!(out, "fn masked(w: Wide, live: u32) -> Wide {{")?;
            writeln!(out, "    let dead = vec4<u32>(0u, 1u, 2u, 3u) >= vec4<u32>(live);")?;
            writeln!(
                out,
                "    return Wide(select(w.key, Keys({lowest}), dead), select(w.place, Places(NOWHERE), dead));\n}}"
            )?;
        } else {
            writeln!(out, "alias Keys = {key};\nalias Places = u32;\nalias Wide = Pair;")?;
            writeln!(out, "fn combine_wide(a: Wide, b: Wide) -> Wide {{ return combine(a, b); }}")?;
            writeln!(out, "fn narrow(w: Wide) -> Acc {{ return w; }}")?;
            writeln!(out, "fn masked(w: Wide, live: u32) -> Wide {{ return w; }}")?;
        }
        *out += ABSORB;
        // Positions are below u32's largest value, so anything beats nothing.
        writeln!(out, "const NOWHERE = 0xffffffffu;")?;
        writeln!(out, "fn wide_identity() -> Wide {{ return Wide(Keys({lowest}), Places(NOWHERE)); }}")?;
        self.write_read(out)?;
        let item = if self.last { "u32" } else { "Pair" };
        writeln!(out, "@group(0) @binding(2) var<storage, read_write> y: array<{item}>;")?;
        let result = |v: &str| if self.last { format!("{v}.place") } else { v.to_owned() };
        if rows {
            writeln!(out, "fn write_at(index: u32, v: Acc) {{ y[params.target_base + index] = {}; }}", result("v"))
        } else if quad {
            writeln!(out, "fn write_wide(index: u32, v: Wide) {{\n    let first = params.target_base + 4u * index;")?;
            for i in 0..4 {
                let value = if self.last { format!("v.place[{i}]") } else { format!("Pair(v.key[{i}], v.place[{i}])") };
                writeln!(out, "    y[first + {i}u] = {value};")?;
            }
            writeln!(out, "}}")
        } else {
            writeln!(out, "fn write_wide(index: u32, v: Wide) {{ y[params.target_base + index] = {}; }}", result("v"))
        }
    }

    /// `read_at`: elements become keys with their positions, pairs move by what this pass adds.
    fn write_read(&self, out: &mut String) -> std::fmt::Result {
        if self.partial {
            writeln!(out, "@group(0) @binding(1) var<storage, read> x: array<Pair>;")?;
            writeln!(
                out,
                "fn read_at(at: u32, place: u32) -> Wide {{ return Pair(x[at].key, x[at].place + place); }}"
            )?;
            return Ok(());
        }
        let turned = self.function == ArgReduceFn::ArgMin;
        let quad = self.frame.quad;
        let ty = if quad { self.input.vector() } else { self.input.scalar().to_owned() };
        keys::write(out, self.dtype, &ty, turned)?;
        let load = if quad { "load4_x(at)" } else { "load_x(at)" };
        // The elements of a vector lie along the row, or in four columns at one position.
        let places = match (quad, self.frame.walk) {
            (true, Walk::Rows { .. }) => "Places(place) + Places(0u, 1u, 2u, 3u) * params.position",
            _ => "Places(place)",
        };
        writeln!(out, "fn read_at(at: u32, place: u32) -> Wide {{ return Wide(key_of({load}), {places}); }}")
    }
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
