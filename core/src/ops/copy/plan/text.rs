//! The text of a copy kernel: `Params`, the two buffers, the walk over the dimensions, and the file of its algorithm.

use super::{Algorithm, Kernel};
use crate::ops::elements::place;
use crate::plan::{Access, Source};
use crate::wgsl::element::{self, Form};
use crate::wgsl::params::uniform;
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("copy.wgsl");

pub(super) fn source(kernel: &Kernel) -> Source {
    let name = match kernel.algorithm {
        Algorithm::Scatter => "copy_scatter",
        Algorithm::TransposeQuads { .. } => "copy_transpose",
        Algorithm::TransposeScalar { .. } => "copy_transpose_scalar",
    };
    let name = format!("{name}_{}bit_{}d", 8 * kernel.element.dtype().size_bytes(), kernel.rank);
    let wgsl = element::prelude(&[kernel.element]) + &text(kernel);
    Source { name, wgsl, bindings: vec![Access::Read, Access::ReadWrite] }
}

fn text(kernel: &Kernel) -> String {
    let mut out = format!("const THREADS = {}u;\n", kernel.threads);
    let (form, members, body) = match kernel.algorithm {
        Algorithm::Scatter => (Form::Scalar, &["n"][..], include_str!("../../../../wgsl/scatter.wgsl")),
        Algorithm::TransposeQuads { side } => {
            let (item, keep, kept) = match kernel.element.dtype().size_bytes() {
                1 => ("u32", "pack4_u8(v)", "unpack4_u8(w)"),
                2 => ("vec2<u32>", "pack4_u16(v)", "unpack4_u16(w)"),
                _ => ("vec4<u32>", "v", "w"),
            };
            out += &format!("const SIDE = {side}u;\n");
            out += &TEXT.fill("kept", holes!(item, keep, kept));
            (Form::Quad, TRANSPOSE, include_str!("../../../../wgsl/transpose.wgsl"))
        }
        Algorithm::TransposeScalar { side } => {
            out += &format!("const SIDE = {side}u;\n");
            (Form::Scalar, TRANSPOSE, include_str!("../../../../wgsl/transpose_scalar.wgsl"))
        }
    };
    let members = members.iter().chain(&["x_offset", "y_offset"]).map(|&member| member.to_owned());
    let of_dims = (0..kernel.rank).flat_map(|dim| [format!("d{dim}"), format!("x_s{dim}"), format!("y_s{dim}")]);
    out += "\n";
    out += &uniform(members.chain(of_dims));
    out += &kernel.element.storage(1, "x", form, Access::Read);
    out += &kernel.element.storage(2, "y", form, Access::ReadWrite);
    out += "\n";
    let coordinates = coordinates(kernel.rank);
    let place = |view: &str| place(view, "i", kernel.rank);
    match kernel.algorithm {
        Algorithm::Scatter => {
            out += &TEXT.fill("element", holes!(coordinates, y = place("y"), x = place("x")));
        }
        Algorithm::TransposeQuads { .. } | Algorithm::TransposeScalar { .. } => {
            for (name, view) in [("batch_from", "x"), ("batch_to", "y")] {
                out += &TEXT.fill("place", holes!(name, coordinates, place = place(view)));
                out += "\n";
            }
        }
    }
    out + body
}

/// Members of a transpose's `Params` before the walk, in the planner's order. `from_pitch` is `from_row` in quads.
const TRANSPOSE: &[&str] = &["rows", "cols", "tiles_r", "tiles_c", "batches", "from_row", "from_pitch", "to_row"];

/// `i0`, `i1`, ...: the coordinates of number `i`.
fn coordinates(rank: usize) -> String {
    let (mut text, mut rest) = (String::new(), "i".to_owned());
    for dim in (1..rank).rev() {
        text += &format!("    let r{dim} = {rest} / params.d{dim};\n");
        text += &format!("    let i{dim} = {rest} - r{dim} * params.d{dim};\n");
        rest = format!("r{dim}");
    }
    text + &format!("    let i0 = {rest};\n")
}
