//! The text of attention's kernels: declarations, and what fills the holes of `wgsl/attention*.wgsl`.
//!
//! The decision to know: sums of a thread are variables of their own and not arrays, so that they are registers on every compiler.

use std::fmt::Write;

use crate::DType;

use super::{DELTA_THREADS, DEPTH, Kernel, Step, WORDS};
use crate::ops::random::plan as random;
use crate::plan::{Access, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::math;

/// Names of `softmax_scalar.wgsl`, for f32 and f64.
const KEYS: [(&str, (u32, u64)); 6] = [
    ("SIGN", (0x8000_0000, 0x8000_0000_0000_0000)),
    ("MAGNITUDE", (0x7fff_ffff, 0x7fff_ffff_ffff_ffff)),
    ("INFINITY", (0x7f80_0000, 0x7ff0_0000_0000_0000)),
    ("KEY_LOWEST", (0x007f_ffff, 0x000f_ffff_ffff_ffff)),
    ("KEY_HIGHEST", (0xff80_0000, 0xfff0_0000_0000_0000)),
    ("NAN_KEY", (u32::MAX, u64::MAX)),
];

pub(super) fn source(kernel: &Kernel) -> Source {
    let mut body = String::new();
    let mut bindings = Vec::new();
    // Formatting into a String cannot fail.
    let _ = write(kernel, &mut body, &mut bindings);
    let step = match kernel.step {
        Step::Forward => "attention",
        Step::Delta => "attention_delta",
        Step::Queries => "attention_queries",
        Step::Keys => "attention_keys",
    };
    let elements = [kernel.element, kernel.sums, kernel.mask, kernel.word];
    let wgsl = element::prelude(&elements) + &math::library(&body) + &body;
    Source { name: format!("{step}_{}", kernel.element.dtype()), wgsl, bindings }
}

/// Declares storage at the next binding.
fn storage(out: &mut String, bindings: &mut Vec<Access>, (element, name): (Element, &str), form: Form, access: Access) {
    bindings.push(access);
    *out += &element.storage(bindings.len() as u32, name, form, access);
}

fn write(kernel: &Kernel, out: &mut String, bindings: &mut Vec<Access>) -> std::fmt::Result {
    write_types(kernel, out)?;
    let (element, sums, word) = (kernel.element, kernel.sums, kernel.word);
    let scalar = |element: Element, name: &'static str| ((element, name), Form::Scalar);
    let heads: &[&str] = match kernel.step {
        Step::Forward => &["q", "k", "v"],
        Step::Delta => &["o", "d"],
        Step::Queries | Step::Keys => &["q", "k", "v", "d"],
    };
    let form = if kernel.reads_quads { Form::Quad } else { Form::Scalar };
    for &name in heads {
        // Its loads name their arguments by single letters.
        storage(out, bindings, (element, &format!("x{name}")), form, Access::Read);
        let (rows, length) = match name {
            "q" => ("queries", "size"),
            "k" => ("keys", "size"),
            "v" => ("keys", "width"),
            _ => ("queries", "width"),
        };
        write_vector(kernel, out, name, rows, length)?;
    }
    let mut declare = |out: &mut String, (what, form): ((Element, &'static str), Form), access: Access| {
        storage(out, bindings, what, form, access);
    };
    if kernel.step == Step::Delta {
        declare(out, scalar(sums, "lse"), Access::Read);
        if kernel.has_dlse {
            declare(out, scalar(sums, "dlse"), Access::Read);
            writeln!(out, "fn slope_of_lse(row: u32) -> S {{ return load_dlse(params.dlse_offset + row); }}")?;
        } else {
            writeln!(out, "fn slope_of_lse(row: u32) -> S {{ return S(); }}")?;
        }
    } else {
        if kernel.masked {
            declare(out, ((kernel.mask, "xm"), Form::Scalar), Access::Read);
        }
        write_mask(kernel.masked, out)?;
    }
    if kernel.drops && matches!(kernel.step, Step::Forward | Step::Delta) {
        declare(out, scalar(word, "low"), Access::Read);
        declare(out, scalar(word, "high"), Access::Read);
    }
    let form = if kernel.writes_quads { Form::Quad } else { Form::Scalar };
    match kernel.step {
        Step::Forward => {
            declare(out, ((element, "xo"), form), Access::ReadWrite);
            declare(out, scalar(sums, "lse"), Access::ReadWrite);
            write_put(kernel, out, "o", "width")?;
        }
        Step::Delta => declare(out, scalar(sums, "stats"), Access::ReadWrite),
        Step::Queries => {
            declare(out, scalar(sums, "stats"), Access::Read);
            declare(out, ((element, "xdq"), form), Access::ReadWrite);
            write_put(kernel, out, "dq", "size")?;
        }
        Step::Keys => {
            declare(out, scalar(sums, "stats"), Access::Read);
            declare(out, ((element, "xdk"), form), Access::ReadWrite);
            declare(out, ((element, "xdv"), form), Access::ReadWrite);
            write_put(kernel, out, "dk", "size")?;
            write_put(kernel, out, "dv", "width")?;
        }
    }
    write_key(kernel, out)?;
    if kernel.step == Step::Delta {
        *out += include_str!("../../../../wgsl/attention_delta.wgsl");
        return Ok(());
    }
    *out += include_str!("../../../../wgsl/softmax_scalar.wgsl");
    out.push('\n');
    *out += include_str!("../../../../wgsl/attention_pairs.wgsl");
    out.push('\n');
    *out += &main_text(kernel);
    Ok(())
}

fn write_types(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    let is_wide = kernel.sums.dtype() == DType::F64;
    let (s, u) = if is_wide { ("f64", "u64") } else { ("f32", "u32") };
    writeln!(out, "alias S = {s};\nalias V = vec4<{s}>;")?;
    let threads = if kernel.step == Step::Delta { DELTA_THREADS } else { kernel.tile.threads() };
    writeln!(out, "const THREADS = {threads}u;\nconst DROPS = {};", kernel.drops)?;
    if kernel.step != Step::Delta {
        writeln!(out, "alias U = {u};\nalias K = vec4<{u}>;")?;
        for (name, (narrow, wide)) in KEYS {
            if is_wide {
                writeln!(out, "const {name} = {wide:#x}lu;")?
            } else {
                writeln!(out, "const {name} = {narrow:#x}u;")?
            }
        }
        let tile = kernel.tile;
        writeln!(
            out,
            "const ROWS = {}u;\nconst COLUMNS = {}u;\nconst KEYS = {}u;",
            tile.rows, tile.columns, tile.keys
        )?;
        writeln!(out, "const ACROSS = {}u;\nconst DEPTH = {DEPTH}u;\nconst PITCH = {}u;", tile.across(), DEPTH + 1)?;
        writeln!(out, "const STAGED = {}u;", tile.staged())?;
        writeln!(out, "const CAUSAL = {};\nconst MASKED = {};", kernel.causal, kernel.masked)?;
        writeln!(out, "const HIDES = {};", kernel.causal || kernel.masked)?;
        if is_wide {
            writeln!(out, "const LARGEST = 0x1.fffffffffffffp+1023lf;")?;
            writeln!(
                out,
                "fn exp_s(x: S) -> S {{ return exp_f64(x); }}\nfn log_s(x: S) -> S {{ return log_f64(x); }}"
            )?;
            writeln!(out, "fn exp_v(x: V) -> V {{ return V(exp_s(x.x), exp_s(x.y), exp_s(x.z), exp_s(x.w)); }}")?;
        } else {
            // The device's own exponential: its error stays within the op's bound.
            writeln!(out, "const LARGEST = 0x1.fffffep+127f;")?;
            writeln!(out, "fn exp_s(x: S) -> S {{ return exp(x); }}\nfn log_s(x: S) -> S {{ return log_f32(x); }}")?;
            writeln!(out, "fn exp_v(x: V) -> V {{ return exp(x); }}")?;
        }
    }
    write_params(out, "S")
}

/// Parameters, of which scale and factor are of this type.
pub(super) fn write_params(out: &mut String, sums: &str) -> std::fmt::Result {
    writeln!(out, "struct Params {{\n    scale: {sums},\n    factor: {sums},")?;
    for name in WORDS {
        writeln!(out, "    {name}: {},", if name == "shift" { "i32" } else { "u32" })?;
    }
    writeln!(out, "}}\n@group(0) @binding(0) var<uniform> params: Params;")
}

/// `quad_x(row, at)`: quad `at` of the head that begins at `row`; `vector_x(base, i, at)`: of row i of those that begin at `base`. Nothing behind
/// the end of either.
fn write_vector(kernel: &Kernel, out: &mut String, name: &str, rows: &str, length: &str) -> std::fmt::Result {
    writeln!(out, "fn quad_{name}(row: u32, at: u32) -> V {{")?;
    if kernel.reads_quads {
        writeln!(out, "    return load4_x{name}(row / 4u + at);")?;
    } else {
        writeln!(out, "    let d = row + 4u * at;\n    var x = V(load_x{name}(d), S(), S(), S());")?;
        for (i, lane) in ["y", "z", "w"].iter().enumerate() {
            let i = i + 1;
            writeln!(out, "    if 4u * at + {i}u < params.{length} {{ x.{lane} = load_x{name}(d + {i}u); }}")?;
        }
        writeln!(out, "    return x;")?;
    }
    writeln!(out, "}}")?;
    if kernel.step == Step::Delta {
        return Ok(());
    }
    writeln!(out, "fn vector_{name}(base: u32, i: u32, at: u32) -> V {{")?;
    writeln!(out, "    if i >= params.{rows} || 4u * at >= params.{length} {{ return V(); }}")?;
    writeln!(out, "    return quad_{name}(base + i * params.{name}_row, at);\n}}")
}

/// `is_shown`, which reads the mask where there is one.
pub(super) fn write_mask(masked: bool, out: &mut String) -> std::fmt::Result {
    let head = "fn is_shown(b: u32, h: u32, i: u32, j: u32) -> bool";
    if !masked {
        return writeln!(out, "{head} {{ return true; }}");
    }
    writeln!(out, "{head} {{\n    let head = params.m_offset + b * params.m_batch + h * params.m_head;")?;
    writeln!(out, "    return load_xm(head + i * params.m_row + j * params.m_column);\n}}")
}

/// `put_x(row, at, v)`: quad `at` of row number `row` of a dense result.
fn write_put(kernel: &Kernel, out: &mut String, name: &str, length: &str) -> std::fmt::Result {
    writeln!(out, "fn put_{name}(row: u32, at: u32, v: V) {{")?;
    writeln!(out, "    if 4u * at >= params.{length} {{ return; }}")?;
    writeln!(out, "    let d = params.{name}_offset + row * params.{length} + 4u * at;")?;
    if kernel.writes_quads {
        writeln!(out, "    store4_x{name}(d / 4u, v);")?;
    } else {
        writeln!(out, "    store_x{name}(d, v.x);")?;
        for (i, lane) in ["y", "z", "w"].iter().enumerate() {
            let i = i + 1;
            writeln!(out, "    if 4u * at + {i}u < params.{length} {{ store_x{name}(d + {i}u, v.{lane}); }}")?;
        }
    }
    writeln!(out, "}}")
}

/// Seed low, seed high, stream low and stream high, and which probabilities are kept.
fn write_key(kernel: &Kernel, out: &mut String) -> std::fmt::Result {
    if !kernel.drops {
        return match kernel.step {
            Step::Delta => writeln!(out, "fn key() -> vec4<u32> {{ return vec4<u32>(); }}"),
            _ => writeln!(out, "fn kept(row: u32, j: u32) -> vec4<bool> {{ return vec4<bool>(true); }}"),
        };
    }
    writeln!(out, "fn key() -> vec4<u32> {{")?;
    if matches!(kernel.step, Step::Forward | Step::Delta) {
        writeln!(out, "    let low = params.low_offset;\n    let high = params.high_offset;")?;
        writeln!(
            out,
            "    return vec4<u32>(load_low(low), load_high(high), load_low(low + 1u), load_high(high + 1u));"
        )?;
    } else {
        let word = |n: usize| format!("u32(stats[{}]) | (u32(stats[{}]) << 16u)", 2 * n, 2 * n + 1);
        writeln!(out, "    return vec4<u32>({}, {}, {}, {});", word(0), word(1), word(2), word(3))?;
    }
    writeln!(out, "}}")?;
    if kernel.step != Step::Delta {
        *out += &random::philox(kernel.wide_integers);
        *out += include_str!("../../../../wgsl/attention_kept.wgsl");
        out.push('\n');
    }
    Ok(())
}

/// The entry point with its holes filled.
fn main_text(kernel: &Kernel) -> String {
    let [of_keys, of_values] = kernel.parts;
    let place = |name: &str, head: &str| {
        format!("    let {name}_at = params.{name}_offset + b * params.{name}_batch + {head} * params.{name}_head;\n")
    };
    let places = place("q", "h") + &place("k", "group") + &place("v", "group");
    match kernel.step {
        Step::Forward => include_str!("../../../../wgsl/attention.wgsl")
            .replace("PLACE\n", &places)
            .replace("PRODUCT\n", &product("s", "q", "k", "size"))
            .replace("SUMS\n", &sums("sum", of_values))
            .replace("RESCALE\n", &rescale(of_values))
            .replace("ADD\n", &add("sum", "v", of_values))
            .replace("STORE\n", &store("o", ["queries", "heads", "h"], "sum", " * inverse[?]", of_values)),
        Step::Queries => include_str!("../../../../wgsl/attention_queries.wgsl")
            .replace("PLACE\n", &(places + &place("d", "h")))
            .replace("PRODUCT_S\n", &product("s", "q", "k", "size"))
            .replace("PRODUCT_T\n", &product("t", "d", "v", "width"))
            .replace("SUMS\n", &sums("sum", of_keys))
            .replace("ADD\n", &add("sum", "k", of_keys))
            .replace("STORE\n", &store("dq", ["queries", "heads", "h"], "sum", " * params.scale", of_keys)),
        Step::Keys | Step::Delta => include_str!("../../../../wgsl/attention_keys.wgsl")
            .replace("PLACE\n", &(places + &place("d", "h")))
            .replace("PRODUCT_S\n", &product("s", "k", "q", "size"))
            .replace("PRODUCT_T\n", &product("t", "v", "d", "width"))
            .replace("SUMS\n", &(sums("of_k", of_keys) + &sums("of_v", of_values)))
            .replace("ADD_V\n", &add("of_v", "d", of_values))
            .replace("ADD_K\n", &add("of_k", "q", of_keys))
            .replace(
                "STORE\n",
                &(store("dk", ["keys", "groups", "group"], "of_k", " * params.scale", of_keys)
                    + &store("dv", ["keys", "groups", "group"], "of_v", "", of_values)),
            ),
    }
}

fn product(tile: &str, left: &str, right: &str, length: &str) -> String {
    let text = include_str!("../../../../wgsl/attention_product.wgsl");
    text.replace("TILE", tile).replace("LEFT", left).replace("RIGHT", right).replace("LENGTH", length)
}

/// Four rows of quads of a thread.
fn sums(name: &str, parts: u32) -> String {
    each(parts, |part, row| format!("    var {name}_{part}_{row} = V();\n"))
}

fn rescale(parts: u32) -> String {
    each(parts, |part, row| format!("        sum_{part}_{row} *= shrink[{row}];\n"))
}

fn add(name: &str, right: &str, parts: u32) -> String {
    let text = include_str!("../../../../wgsl/attention_add.wgsl").replace("RIGHT", right);
    let part = |part: u32| text.replace("SUM", &format!("{name}_{part}_")).replace("PART", &part.to_string());
    (0..parts).map(part).collect()
}

/// Quads of dense rows [batch, rows, heads, n], each as it stands or with what `times` says of row `?`.
fn store(target: &str, [rows, heads, head]: [&str; 3], name: &str, times: &str, parts: u32) -> String {
    let heads = if heads == "heads" { "params.heads" } else { heads };
    let row = |row: u32| {
        let puts = |part: u32| {
            let times = times.replace('?', &row.to_string());
            format!("        put_{target}(row, {part}u * ACROSS + tx, {name}_{part}_{row}{times});\n")
        };
        let puts: String = (0..parts).map(puts).collect();
        format!(
            "    if row0 + 4u * ty + {row}u < params.{rows} {{\n        let row = (b * params.{rows} + row0 + 4u * ty + {row}u) * {heads} \
             + {head};\n{puts}    }}\n"
        )
    };
    (0..if parts > 0 { 4 } else { 0 }).map(row).collect()
}

fn each(parts: u32, text: impl Fn(u32, u32) -> String) -> String {
    (0..parts).flat_map(|part| (0..4).map(move |row| (part, row))).map(|(part, row)| text(part, row)).collect()
}
