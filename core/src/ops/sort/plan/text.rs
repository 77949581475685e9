//! The texts of sorting's kernels: what elements, keys and pairs are to the loops in `wgsl/sort_*.wgsl`.

use crate::DType;

use super::{Kernel, Keys, LOADS, Step};
use crate::plan::{Access, Source};
use crate::wgsl::element::{self, Form};
use crate::wgsl::index::decode;
use crate::wgsl::keys;
use crate::wgsl::params::{axis_names, uniform};
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("sort.wgsl");

/// Words of `Params` before extents and strides.
const MEMBERS: [&str; 16] = [
    "rows", "count", "line", "kept", "tiles", "width", "run", "shift", "turned", "bound", "x_base", "x_stride",
    "y_base", "y_line", "i_base", "inner",
];

/// Which of them says how long chunks are.
pub(super) const WIDTH: usize = 5;

pub(super) fn source(kernel: &Kernel) -> Source {
    let body = body(kernel);
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

fn body(kernel: &Kernel) -> String {
    let axes = usize::from(kernel.axes);
    let mut out = uniform(MEMBERS.map(str::to_owned).into_iter().chain(axis_names("es", axes)));
    let (key, last) = if kernel.keys.is_wide() { ("i64", "9223372036854775807li") } else { ("u32", "0xffffffffu") };
    let (threads, tile, items) = (kernel.threads, kernel.tile, kernel.items());
    out += &TEXT.fill("types", holes!(threads, tile, items, loads = LOADS, key, last));
    let mut binding = 0;
    let mut next = || {
        binding += 1;
        binding
    };
    let array = |mode: &str, binding: u32, name: &str, item: &str| TEXT.fill(mode, holes!(binding, name, item));
    let pairs: &[[&str; 2]] = match kernel.step {
        _ if kernel.is_first => &[],
        Step::Blocks | Step::Collect | Step::Merge => &[["pairs", "Pair"]],
        Step::Count => &[["read_keys", "Key"]],
        Step::Move => &[["read_keys", "Key"], ["read_places", "u32"]],
    };
    for [name, item] in pairs {
        out += &array("reads", next(), name, item);
    }
    if kernel.is_first || kernel.is_last {
        out += &kernel.input.storage(next(), "x", Form::Scalar, Access::Read);
        out += &decode("base_of", "params.x_base", 's', axes);
    }
    if kernel.is_first {
        out += &key_of(kernel);
        out += TEXT.get("key at");
    }
    if kernel.step != Step::Merge {
        out += &pairs_at(kernel);
    }
    match kernel.step {
        Step::Count => return out + &array("writes", next(), "digits", "u32"),
        Step::Move => out += &array("reads", next(), "offsets", "u32"),
        Step::Blocks | Step::Collect | Step::Merge => {}
    }
    if kernel.gives_parts {
        out += &array("writes", next(), "given_keys", "Key");
        out += &array("writes", next(), "given_places", "u32");
        return out + TEXT.get("give parts");
    }
    if !kernel.is_last {
        return out + &array("writes", next(), "sorted", "Pair") + TEXT.get("give pairs");
    }
    out += &kernel.input.storage(next(), "y", Form::Scalar, Access::ReadWrite);
    out += &array("writes", next(), "indices", "u32");
    if let Keys::Numbers { dtype, is_descending } = kernel.keys {
        out += &keys::element_of(dtype, kernel.input.scalar(), is_descending);
    }
    out + TEXT.get("give")
}

fn key_of(kernel: &Kernel) -> String {
    match kernel.keys {
        Keys::Places => TEXT.get("key of place").to_owned(),
        Keys::Numbers { dtype: DType::Bool, is_descending } => {
            TEXT.fill("key of bool", holes!(yes_first = if is_descending { "1u, 0u" } else { "0u, 1u" }))
        }
        Keys::Numbers { dtype, is_descending } => keys::key_of(dtype, kernel.input.scalar(), is_descending),
    }
}

/// `line_of` and `pair_at`, and of what goes by digits `digit_of`. A count reads keys alone.
fn pairs_at(kernel: &Kernel) -> String {
    let line = if kernel.is_first { "base_of(row)" } else { "row * params.count" };
    let pair = match kernel.step {
        _ if kernel.is_first => "Pair(key_at(line, at), at)",
        Step::Count => "Pair(read_keys[line + at], at)",
        Step::Move => "Pair(read_keys[line + at], read_places[line + at])",
        Step::Blocks | Step::Collect | Step::Merge => "pairs[line + at]",
    };
    let pairs = TEXT.fill("pairs", holes!(line, pair));
    if matches!(kernel.step, Step::Blocks | Step::Collect) {
        return pairs + include_str!("../../../../wgsl/sort_order.wgsl");
    }
    let digit = if kernel.keys.is_wide() {
        "(u32((key >> params.shift) & 255li)) ^ params.turned"
    } else {
        "(key >> params.shift) & 255u"
    };
    pairs + &TEXT.fill("digit", holes!(digit))
}
