//! The texts of sorting's kernels: what elements, keys and pairs are to the loops in `wgsl/sort_*.wgsl`.

use std::fmt::Write;

use polywarp_core::DType;

use super::{Kernel, Keys, LOADS, Step};
use crate::element::{self, Form};
use crate::plans::keys;
use crate::plans::reduce::template::decode;
use crate::{Access, Source};

/// Words of `Params` before extents and strides.
const MEMBERS: [&str; 16] = [
    "rows", "count", "line", "kept", "tiles", "width", "run", "shift", "turned", "bound", "x_base", "x_stride", "y_base", "y_line", "i_base",
    "inner",
];

/// Which of them says how long chunks are.
pub(super) const WIDTH: usize = 5;

pub(super) fn source(kernel: &Kernel) -> Source {
    let mut body = String::new();
    // Formatting into a String cannot fail.
    let _ = write(kernel, &mut body);
    let (step, loops, read) = match kernel.step {
        Step::Blocks => ("blocks", include_str!("../../../wgsl/sort_blocks.wgsl"), 0),
        Step::Collect => ("collect", include_str!("../../../wgsl/sort_collect.wgsl"), 0),
        Step::Merge => ("merge", include_str!("../../../wgsl/sort_merge.wgsl"), 0),
        Step::Count => ("count", include_str!("../../../wgsl/sort_count.wgsl"), 0),
        Step::Move => ("move", include_str!("../../../wgsl/sort_move.wgsl"), 1),
    };
    let sources = usize::from(!kernel.is_first) + usize::from(kernel.is_first || kernel.is_last);
    let mut bindings = vec![Access::Read; sources + read];
    bindings.extend(vec![Access::ReadWrite; if kernel.is_last { 2 } else { 1 }]);
    let of = match kernel.keys {
        Keys::Numbers { dtype, is_descending: true } => format!("{dtype}_descending"),
        Keys::Numbers { dtype, is_descending: false } => format!("{dtype}_ascending"),
        Keys::Places => "places".to_owned(),
    };
    let (first, last) = (if kernel.is_first { "_first" } else { "" }, if kernel.is_last { "_last" } else { "" });
    let name = format!("sort_{step}{first}{last}_{of}");
    Source { name, wgsl: element::prelude(&[kernel.input]) + &body + loops, bindings }
}

fn write(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    let axes = usize::from(kernel.axes);
    out.push_str("struct Params {\n");
    MEMBERS.iter().for_each(|member| *out += &format!("    {member}: u32,\n"));
    (0..axes).for_each(|i| *out += &format!("    e{i}: u32,\n"));
    (0..axes).for_each(|i| *out += &format!("    s{i}: u32,\n"));
    writeln!(out, "}}\n@group(0) @binding(0) var<uniform> params: Params;")?;
    let (threads, tile, items) = (kernel.threads, kernel.tile, kernel.items());
    writeln!(out, "const THREADS = {threads}u;\nconst TILE = {tile}u;\nconst ITEMS = {items}u;")?;
    writeln!(out, "const LOADS = {LOADS}u;")?;
    let (key, last) = if kernel.keys.is_wide() { ("i64", "9223372036854775807li") } else { ("u32", "0xffffffffu") };
    writeln!(out, "alias Key = {key};\nalias Keys = Key;\nconst LAST: Key = {last};")?;
    writeln!(out, "struct Pair {{ key: Key, place: u32 }}")?;
    let mut binding = 1;
    if !kernel.is_first {
        writeln!(out, "@group(0) @binding(1) var<storage, read> pairs: array<Pair>;")?;
        binding += 1;
    }
    if kernel.is_first || kernel.is_last {
        *out += &kernel.input.storage(binding, "x", Form::Scalar, Access::Read);
        *out += &decode("base_of", "params.x_base", 's', axes);
        binding += 1;
    }
    if kernel.is_first {
        write_key_of(kernel, out)?;
        writeln!(out, "fn key_at(line: u32, place: u32) -> Key {{")?;
        writeln!(out, "    return key_of(load_x(line + place * params.x_stride));\n}}")?;
    }
    if kernel.step != Step::Merge {
        write_pairs(kernel, out)?;
    }
    match kernel.step {
        Step::Count => {
            return writeln!(out, "@group(0) @binding({binding}) var<storage, read_write> digits: array<u32>;");
        }
        Step::Move => {
            writeln!(out, "@group(0) @binding({binding}) var<storage, read> offsets: array<u32>;")?;
            binding += 1;
        }
        Step::Blocks | Step::Collect | Step::Merge => {}
    }
    let give = "fn give(row: u32, at: u32, key: Key, place: u32)";
    if !kernel.is_last {
        writeln!(out, "@group(0) @binding({binding}) var<storage, read_write> sorted: array<Pair>;")?;
        return writeln!(out, "{give} {{ sorted[row * params.line + at] = Pair(key, place); }}");
    }
    *out += &kernel.input.storage(binding, "y", Form::Scalar, Access::ReadWrite);
    writeln!(out, "@group(0) @binding({}) var<storage, read_write> indices: array<u32>;", binding + 1)?;
    writeln!(out, "{give} {{\n    if at >= params.kept {{ return; }}")?;
    writeln!(out, "    let to = row / params.inner * params.y_line + row % params.inner + at * params.inner;")?;
    writeln!(out, "    store_y(params.y_base + to, load_x(base_of(row) + place * params.x_stride));")?;
    writeln!(out, "    indices[params.i_base + to] = place;\n}}")
}

fn write_key_of(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    match kernel.keys {
        // A negative number is a large one.
        Keys::Places => writeln!(out, "fn key_of(x: u32) -> Key {{ return min(x, params.bound); }}"),
        Keys::Numbers { dtype: DType::Bool, is_descending } => {
            let yes_first = if is_descending { "1u, 0u" } else { "0u, 1u" };
            writeln!(out, "fn key_of(x: bool) -> Key {{ return select({yes_first}, x); }}")
        }
        Keys::Numbers { dtype, is_descending } => keys::write(out, dtype, kernel.input.scalar(), is_descending),
    }
}

/// `line_of` and `pair_at`, and of what goes by digits `digit_of`.
fn write_pairs(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    if kernel.is_first {
        writeln!(out, "fn line_of(row: u32) -> u32 {{ return base_of(row); }}")?;
        writeln!(out, "fn pair_at(line: u32, at: u32) -> Pair {{ return Pair(key_at(line, at), at); }}")?;
    } else {
        writeln!(out, "fn line_of(row: u32) -> u32 {{ return row * params.count; }}")?;
        writeln!(out, "fn pair_at(line: u32, at: u32) -> Pair {{ return pairs[line + at]; }}")?;
    }
    if matches!(kernel.step, Step::Blocks | Step::Collect) {
        out.push_str(include_str!("../../../wgsl/sort_order.wgsl"));
        return Ok(());
    }
    let digit = if kernel.keys.is_wide() {
        "(u32((key >> params.shift) & 255li)) ^ params.turned"
    } else {
        "(key >> params.shift) & 255u"
    };
    writeln!(out, "fn digit_of(key: Key) -> u32 {{ return {digit}; }}")
}
