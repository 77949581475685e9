//! The launch that follows tiles which wrote slabs of the sum: it adds the slabs in order and applies the epilogue.
//!
//! Also the whole product when K is 0, where there is nothing to add.

use std::fmt::Write;

use crate::Result;
use crate::ops::Matmul;

use super::epilogue::{Epilogue, Places};
use super::key;
use crate::plan::looped;
use crate::plan::{Access, Caps, Launch, Slot, Source};
use crate::wgsl::element::{self, Form};
use crate::wgsl::math;

const THREADS: u32 = 256;

/// Specialisation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Combine {
    epilogue: Epilogue,
    axes: u8,
    /// There are slabs to add.
    sums: bool,
    /// The output is written four elements at a time.
    quad: bool,
}

/// Adds `splits` slabs from `sums` and writes the output.
pub(crate) fn launch(op: &Matmul, places: &Places, splits: u64, sums: Option<Slot>, caps: &Caps) -> Result<Launch> {
    let dims = op.dims();
    let elements = dims.batch * dims.m * dims.n;
    // Dense outputs: quads may cross rows, every element finds its own place.
    let quad = op.output.layout.offset().is_multiple_of(4);
    let kernel = Combine { epilogue: places.epilogue, axes: places.axes(), sums: sums.is_some(), quad };
    let mut bindings: Vec<Slot> = sums.into_iter().collect();
    bindings.push(Slot::Output(0));
    bindings.extend(&places.slots);
    let threads = if quad { elements.div_ceil(4) } else { elements };
    Ok(Launch {
        kernel: key(super::Shape::Combine(kernel)),
        grid: caps.fold_grid(threads.div_ceil(THREADS.into()))?,
        bindings,
        params: places.params(op, None, &[elements as u32, splits as u32]),
    })
}

impl Combine {
    pub fn loop_rounds(&self, params: &[u32]) -> u64 {
        let (_, own) = self.epilogue.words();
        let splits = params.get(own + 1).copied().unwrap_or(u32::MAX);
        let sums = if self.sums { looped(splits.into(), 0) } else { 0 };
        let result = sums + self.epilogue.group_rounds(params);
        if self.quad { looped(4, result) } else { result }
    }

    pub fn source(&self) -> Source {
        let mut body = String::new();
        // Formatting into a String cannot fail.
        let _ = self.write_body(&mut body);
        let mut bindings = if self.sums { vec![Access::Read] } else { Vec::new() };
        bindings.push(Access::ReadWrite);
        bindings.extend(self.epilogue.accesses());
        Source {
            name: format!("matmul_combine_{}", self.epilogue.output.dtype()),
            wgsl: element::prelude(&[self.epilogue.accumulator, self.epilogue.output]) + &math::library(&body) + &body,
            bindings,
        }
    }

    fn write_body(&self, out: &mut String) -> std::fmt::Result {
        let (acc, value) = (self.epilogue.sum().scalar(), self.epilogue.value.scalar());
        let form = if self.quad { Form::Quad } else { Form::Scalar };
        let mut binding = 1;
        *out += &self.epilogue.params_text(self.axes, &["elements", "splits"]);
        if self.sums {
            *out += &self.epilogue.sum().storage(binding, "sums", Form::Scalar, Access::Read);
            binding += 1;
        }
        *out += &self.epilogue.output.storage(binding, "d", form, Access::ReadWrite);
        *out += &self.epilogue.text(binding + 1, self.axes);
        writeln!(out, "fn result(at: u32) -> {value} {{\n    var sum = {acc}();")?;
        if self.sums {
            writeln!(
                out,
                "    for (var s = 0u; s < params.splits; s++) {{ sum += load_sums(s * params.elements + at); }}"
            )?;
        }
        writeln!(out, "    let row = at / params.n;")?;
        let batch = if self.epilogue.ends.is_some() { "group_of(row)" } else { "row / params.m" };
        writeln!(out, "    return epilogue(sum, {batch}, row % params.m, at % params.n);\n}}\n")?;
        writeln!(out, "@compute @workgroup_size({THREADS})\nfn main(")?;
        writeln!(out, "    @builtin(workgroup_id) group: vec3<u32>,\n    @builtin(num_workgroups) groups: vec3<u32>,")?;
        writeln!(out, "    @builtin(local_invocation_index) thread: u32,\n) {{")?;
        writeln!(out, "    let unit = (group.y * groups.x + group.x) * {THREADS}u + thread;")?;
        if !self.quad {
            writeln!(out, "    if unit < params.elements {{ store_d(params.target_base + unit, result(unit)); }}")?;
            return writeln!(out, "}}");
        }
        writeln!(out, "    let at = unit * 4u;\n    if at >= params.elements {{ return; }}")?;
        writeln!(out, "    let live = min(params.elements - at, 4u);\n    var values = vec4<{value}>();")?;
        writeln!(out, "    for (var i = 0u; i < live; i++) {{ values[i] = result(at + i); }}")?;
        writeln!(out, "    let goal = params.target_base / 4u + unit;")?;
        writeln!(
            out,
            "    if live == 4u {{ store4_d(goal, values); }} else {{ store_tail_d(goal, values, live); }}\n}}"
        )
    }
}
