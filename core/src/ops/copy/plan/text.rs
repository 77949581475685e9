//! The text of a copy kernel: `Params`, the two buffers, the walk over the dimensions, and the file of its algorithm.

use std::fmt::Write;

use super::{Algorithm, Kernel};
use crate::plan::{Access, Source};
use crate::wgsl::element::{self, Form};

pub(super) fn source(kernel: &Kernel) -> Source {
    let mut text = element::prelude(&[kernel.element]);
    // Formatting into a String cannot fail.
    let _ = write_kernel(kernel, &mut text);
    let name = match kernel.algorithm {
        Algorithm::Scatter => "copy_scatter",
        Algorithm::TransposeQuads { .. } => "copy_transpose",
        Algorithm::TransposeScalar { .. } => "copy_transpose_scalar",
    };
    let name = format!("{name}_{}bit_{}d", 8 * kernel.element.dtype().size_bytes(), kernel.rank);
    Source { name, wgsl: text, bindings: vec![Access::Read, Access::ReadWrite] }
}

fn write_kernel(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    writeln!(out, "const THREADS = {}u;", kernel.threads)?;
    let (form, members, body) = match kernel.algorithm {
        Algorithm::Scatter => (Form::Scalar, &["n"][..], include_str!("../../../../wgsl/scatter.wgsl")),
        Algorithm::TransposeQuads { side } => {
            writeln!(out, "const SIDE = {side}u;")?;
            let (item, keep, kept) = match kernel.element.dtype().size_bytes() {
                1 => ("u32", "pack4_u8(v)", "unpack4_u8(w)"),
                2 => ("vec2<u32>", "pack4_u16(v)", "unpack4_u16(w)"),
                _ => ("vec4<u32>", "v", "w"),
            };
            writeln!(out, "alias Kept = {item};\nfn keep(v: vec4<u32>) -> Kept {{ return {keep}; }}")?;
            writeln!(out, "fn kept(w: Kept) -> vec4<u32> {{ return {kept}; }}")?;
            (Form::Quad, TRANSPOSE, include_str!("../../../../wgsl/transpose.wgsl"))
        }
        Algorithm::TransposeScalar { side } => {
            writeln!(out, "const SIDE = {side}u;")?;
            (Form::Scalar, TRANSPOSE, include_str!("../../../../wgsl/transpose_scalar.wgsl"))
        }
    };
    writeln!(out, "\nstruct Params {{")?;
    for member in members.iter().chain(&["x_offset", "y_offset"]) {
        writeln!(out, "    {member}: u32,")?;
    }
    for dim in 0..kernel.rank {
        writeln!(out, "    d{dim}: u32,\n    x_s{dim}: u32,\n    y_s{dim}: u32,")?;
    }
    writeln!(out, "}}\n@group(0) @binding(0) var<uniform> params: Params;")?;
    out.push_str(&kernel.element.storage(1, "x", form, Access::Read));
    out.push_str(&kernel.element.storage(2, "y", form, Access::ReadWrite));
    out.push('\n');
    match kernel.algorithm {
        Algorithm::Scatter => {
            writeln!(out, "fn copy_element(i: u32) {{")?;
            write_coordinates(kernel, out)?;
            writeln!(out, "    store_y({}, load_x({}));\n}}\n", walk(kernel, "y"), walk(kernel, "x"))?;
        }
        Algorithm::TransposeQuads { .. } | Algorithm::TransposeScalar { .. } => {
            for (name, side) in [("batch_from", "x"), ("batch_to", "y")] {
                writeln!(out, "fn {name}(i: u32) -> u32 {{")?;
                write_coordinates(kernel, out)?;
                writeln!(out, "    return {};\n}}\n", walk(kernel, side))?;
            }
        }
    }
    out.push_str(body);
    Ok(())
}

/// Members of a transpose's `Params` before the walk, in the planner's order. `from_pitch` is `from_row` in quads.
const TRANSPOSE: &[&str] = &["rows", "cols", "tiles_r", "tiles_c", "batches", "from_row", "from_pitch", "to_row"];

/// `i0`, `i1`, ...: the coordinates of number `i`.
fn write_coordinates(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    let mut rest = "i".to_owned();
    for dim in (1..kernel.rank).rev() {
        writeln!(out, "    let r{dim} = {rest} / params.d{dim};")?;
        writeln!(out, "    let i{dim} = {rest} - r{dim} * params.d{dim};")?;
        rest = format!("r{dim}");
    }
    writeln!(out, "    let i0 = {rest};")
}

/// Where in `side` the coordinates lead.
fn walk(kernel: &Kernel, side: &str) -> String {
    let steps = (0..kernel.rank).map(|dim| format!(" + i{dim} * params.{side}_s{dim}"));
    format!("params.{side}_offset") + &steps.collect::<String>()
}
