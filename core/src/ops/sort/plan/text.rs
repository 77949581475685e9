//! The texts of sorting's kernels: what elements, keys and pairs are to the loops in `wgsl/sort_*.wgsl`.

use std::fmt::Write;

use crate::DType;

use super::{Kernel, Keys, LOADS, Step};
use crate::ops::reduce::plan::template::decode;
use crate::plan::{Access, Source};
use crate::wgsl::element::{self, Form};
use crate::wgsl::keys;

/// Words of `Params` before extents and strides.
const MEMBERS: [&str; 16] = [
    "rows", "count", "line", "kept", "tiles", "width", "run", "shift", "turned", "bound", "x_base", "x_stride",
    "y_base", "y_line", "i_base", "inner",
];

/// Which of them says how long chunks are.
pub(super) const WIDTH: usize = 5;

pub(super) fn source(kernel: &Kernel) -> Source {
    let mut body = String::new();
    // Formatting into a String cannot fail.
    let _ = write(kernel, &mut body);
    let (step, loops, read) = match kernel.step {
        Step::Blocks => ("blocks", include_str!("../../../../wgsl/sort_blocks.wgsl"), 0),
        Step::Collect => ("collect", include_str!("../../../../wgsl/sort_collect.wgsl"), 0),
        Step::Merge => ("merge", include_str!("../../../../wgsl/sort_merge.wgsl"), 0),
        Step::Count => ("count", include_str!("../../../../wgsl/sort_count.wgsl"), 0),
        Step::Move => ("move", include_str!("../../../../wgsl/sort_move.wgsl"), 1),
    };
    let sources = usize::from(kernel.is_first || kernel.is_last) + kernel.pairs_read();
    let mut bindings = vec![Access::Read; sources + read];
    bindings.extend(vec![Access::ReadWrite; kernel.written()]);
    let of = match kernel.keys {
        Keys::Numbers { dtype, is_descending: true } => format!("{dtype}_descending"),
        Keys::Numbers { dtype, is_descending: false } => format!("{dtype}_ascending"),
        Keys::Places => "places".to_owned(),
    };
    let (first, last) = (if kernel.is_first { "_first" } else { "" }, if kernel.is_last { "_last" } else { "" });
    let parts = if kernel.gives_parts { "_parts" } else { "" };
    let name = format!("sort_{step}{first}{parts}{last}_{of}");
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
    let mut read = |out: &mut String, name: &str, item: &str| {
        writeln!(out, "@group(0) @binding({binding}) var<storage, read> {name}: array<{item}>;")?;
        binding += 1;
        Ok::<(), std::fmt::Error>(())
    };
    match kernel.step {
        _ if kernel.is_first => {}
        Step::Blocks | Step::Collect | Step::Merge => read(out, "pairs", "Pair")?,
        Step::Count => read(out, "read_keys", "Key")?,
        Step::Move => {
            read(out, "read_keys", "Key")?;
            read(out, "read_places", "u32")?;
        }
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
    let next = binding + 1;
    if kernel.gives_parts {
        writeln!(out, "@group(0) @binding({binding}) var<storage, read_write> given_keys: array<Key>;")?;
        writeln!(out, "@group(0) @binding({next}) var<storage, read_write> given_places: array<u32>;")?;
        writeln!(out, "{give} {{\n    let to = row * params.line + at;")?;
        return writeln!(out, "    given_keys[to] = key;\n    given_places[to] = place;\n}}");
    }
    if !kernel.is_last {
        writeln!(out, "@group(0) @binding({binding}) var<storage, read_write> sorted: array<Pair>;")?;
        return writeln!(out, "{give} {{ sorted[row * params.line + at] = Pair(key, place); }}");
    }
    *out += &kernel.input.storage(binding, "y", Form::Scalar, Access::ReadWrite);
    writeln!(out, "@group(0) @binding({next}) var<storage, read_write> indices: array<u32>;")?;
    if let Keys::Numbers { dtype, is_descending } = kernel.keys {
        keys::write_back(out, dtype, kernel.input.scalar(), is_descending)?;
    }
    writeln!(out, "{give} {{\n    if at >= params.kept {{ return; }}")?;
    writeln!(out, "    let to = row / params.inner * params.y_line + row % params.inner + at * params.inner;")?;
    // Keys come back as elements without a look at a far place, but for those that say too little.
    writeln!(out, "    var element = element_of(key);")?;
    writeln!(out, "    if is_one_of_several(key) {{ element = load_x(base_of(row) + place * params.x_stride); }}")?;
    writeln!(out, "    store_y(params.y_base + to, element);\n    indices[params.i_base + to] = place;\n}}")
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

/// `line_of` and `pair_at`, and of what goes by digits `digit_of`. A count reads keys alone.
fn write_pairs(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    let line = if kernel.is_first { "base_of(row)" } else { "row * params.count" };
    writeln!(out, "fn line_of(row: u32) -> u32 {{ return {line}; }}")?;
    let pair = match kernel.step {
        _ if kernel.is_first => "Pair(key_at(line, at), at)",
        Step::Count => "Pair(read_keys[line + at], at)",
        Step::Move => "Pair(read_keys[line + at], read_places[line + at])",
        Step::Blocks | Step::Collect | Step::Merge => "pairs[line + at]",
    };
    writeln!(out, "fn pair_at(line: u32, at: u32) -> Pair {{ return {pair}; }}")?;
    if matches!(kernel.step, Step::Blocks | Step::Collect) {
        out.push_str(include_str!("../../../../wgsl/sort_order.wgsl"));
        return Ok(());
    }
    let digit = if kernel.keys.is_wide() {
        "(u32((key >> params.shift) & 255li)) ^ params.turned"
    } else {
        "(key >> params.shift) & 255u"
    };
    writeln!(out, "fn digit_of(key: Key) -> u32 {{ return {digit}; }}")
}
