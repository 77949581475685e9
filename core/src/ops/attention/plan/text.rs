//! The text of attention's kernels: declarations, and what fills the holes of `wgsl/attention*.wgsl`.
//!
//! The decision to know: sums of a thread are variables of their own and not arrays, so that they are registers on every compiler.

use crate::DType;

use super::{DELTA_THREADS, DEPTH, Kernel, Step, WORDS};
use crate::ops::random::plan as random;
use crate::ops::softmax::plan as softmax;
use crate::plan::{Access, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::math;
use crate::wgsl::params::uniform_of;
use crate::wgsl::pieces::{Pieces, fill, holes, pieces};

const TEXT: Pieces = pieces!("attention.wgsl");

pub(super) fn source(kernel: &Kernel) -> Source {
    let mut bindings = Vec::new();
    let body = body(kernel, &mut bindings);
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

fn body(kernel: &Kernel, bindings: &mut Vec<Access>) -> String {
    let mut out = types(kernel);
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
        storage(&mut out, bindings, (element, &format!("x{name}")), form, Access::Read);
        let (rows, length) = match name {
            "q" => ("queries", "size"),
            "k" => ("keys", "size"),
            "v" => ("keys", "width"),
            _ => ("queries", "width"),
        };
        out += &vector(kernel, name, rows, length);
    }
    let mut declare = |out: &mut String, (what, form): ((Element, &'static str), Form), access: Access| {
        storage(out, bindings, what, form, access);
    };
    if kernel.step == Step::Delta {
        declare(&mut out, scalar(sums, "lse"), Access::Read);
        if kernel.has_dlse {
            declare(&mut out, scalar(sums, "dlse"), Access::Read);
        }
        out += TEXT.get(if kernel.has_dlse { "slope" } else { "no slope" });
    } else {
        if kernel.masked {
            declare(&mut out, ((kernel.mask, "xm"), Form::Scalar), Access::Read);
        }
        out += shown(kernel.masked);
    }
    if kernel.drops && matches!(kernel.step, Step::Forward | Step::Delta) {
        declare(&mut out, scalar(word, "low"), Access::Read);
        declare(&mut out, scalar(word, "high"), Access::Read);
    }
    let form = if kernel.writes_quads { Form::Quad } else { Form::Scalar };
    match kernel.step {
        Step::Forward => {
            declare(&mut out, ((element, "xo"), form), Access::ReadWrite);
            declare(&mut out, scalar(sums, "lse"), Access::ReadWrite);
            out += &put(kernel, "o", "width");
        }
        Step::Delta => declare(&mut out, scalar(sums, "stats"), Access::ReadWrite),
        Step::Queries => {
            declare(&mut out, scalar(sums, "stats"), Access::Read);
            declare(&mut out, ((element, "xdq"), form), Access::ReadWrite);
            out += &put(kernel, "dq", "size");
        }
        Step::Keys => {
            declare(&mut out, scalar(sums, "stats"), Access::Read);
            declare(&mut out, ((element, "xdk"), form), Access::ReadWrite);
            declare(&mut out, ((element, "xdv"), form), Access::ReadWrite);
            out += &put(kernel, "dk", "size");
            out += &put(kernel, "dv", "width");
        }
    }
    out += &key(kernel);
    if kernel.step == Step::Delta {
        return out + include_str!("../../../../wgsl/attention_delta.wgsl");
    }
    out += include_str!("../../../../wgsl/softmax_scalar.wgsl");
    out += "\n";
    out += include_str!("../../../../wgsl/attention_pairs.wgsl");
    out += "\n";
    out + &main_text(kernel)
}

fn types(kernel: &Kernel) -> String {
    let is_wide = kernel.sums.dtype() == DType::F64;
    let (s, u) = if is_wide { ("f64", "u64") } else { ("f32", "u32") };
    let threads = if kernel.step == Step::Delta { DELTA_THREADS } else { kernel.tile.threads() };
    let mut out = TEXT.fill("types", holes!(s, threads, drops = kernel.drops));
    if kernel.step != Step::Delta {
        out += &format!("alias U = {u};\nalias K = vec4<{u}>;\n");
        out += softmax::keys(is_wide);
        let (tile, causal, masked) = (kernel.tile, kernel.causal, kernel.masked);
        let [rows, columns, keys] = [tile.rows, tile.columns, tile.keys];
        let [across, depth, pitch, staged] = [tile.across(), DEPTH, DEPTH + 1, tile.staged()];
        let hides = causal || masked;
        let largest = if is_wide { "0x1.fffffffffffffp+1023lf" } else { "0x1.fffffep+127f" };
        let all = holes!(rows, columns, keys, across, depth, pitch, staged, causal, masked, hides, largest);
        out += &TEXT.fill("tiles", all);
        out += &softmax::functions(is_wide, "V(exp_s(x.x), exp_s(x.y), exp_s(x.z), exp_s(x.w))");
    }
    out + &params("S")
}

/// Parameters, of which scale and factor are of this type.
pub(super) fn params(sums: &str) -> String {
    let word = |name: &&str| format!("    {name}: {},\n", if *name == "shift" { "i32" } else { "u32" });
    let words: String = WORDS.iter().map(word).collect();
    uniform_of(&format!("    scale: {sums},\n    factor: {sums},\n{words}"))
}

/// `quad_x(row, at)`: quad `at` of the head that begins at `row`; `vector_x(base, i, at)`: of row i of those that begin at `base`. Nothing behind
/// the end of either.
fn vector(kernel: &Kernel, name: &str, rows: &str, length: &str) -> String {
    let quad = match kernel.reads_quads {
        true => TEXT.fill("quad", holes!(name)),
        false => TEXT.fill("quad of elements", holes!(name, length)),
    };
    if kernel.step == Step::Delta { quad } else { quad + &TEXT.fill("vector", holes!(name, rows, length)) }
}

/// `is_shown`, which reads the mask where there is one.
pub(super) fn shown(masked: bool) -> &'static str {
    TEXT.get(if masked { "shown by mask" } else { "all shown" })
}

/// `put_x(row, at, v)`: quad `at` of row number `row` of a dense result.
fn put(kernel: &Kernel, name: &str, length: &str) -> String {
    TEXT.fill(if kernel.writes_quads { "put" } else { "put elements" }, holes!(name, length))
}

/// `key`, and which probabilities are kept.
fn key(kernel: &Kernel) -> String {
    if !kernel.drops {
        return TEXT.get(if kernel.step == Step::Delta { "no key" } else { "all kept" }).to_owned();
    }
    let mut out = if matches!(kernel.step, Step::Forward | Step::Delta) {
        TEXT.get("key").to_owned()
    } else {
        let word = |n: usize| format!("u32(stats[{}]) | (u32(stats[{}]) << 16u)", 2 * n, 2 * n + 1);
        TEXT.fill("key of stats", holes!(words = [0, 1, 2, 3].map(word).join(", ")))
    };
    if kernel.step != Step::Delta {
        out += &random::philox(kernel.wide_integers);
        out += include_str!("../../../../wgsl/attention_kept.wgsl");
        out += "\n";
    }
    out
}

/// The entry point with its holes filled.
fn main_text(kernel: &Kernel) -> String {
    let [of_keys, of_values] = kernel.parts;
    let place = |name: &str, head: &str| TEXT.fill("place", holes!(name, head));
    let places = place("q", "h") + &place("k", "group") + &place("v", "group");
    match kernel.step {
        Step::Forward => fill(
            include_str!("../../../../wgsl/attention.wgsl"),
            holes!(
                PLACE = places,
                PRODUCT = product("s", "q", "k", "size"),
                SUMS = sums("sum", of_values),
                RESCALE = rescale(of_values),
                ADD = add("sum", "v", of_values),
                STORE = store("o", ["queries", "params.heads", "h"], "sum", " * inverse[?]", of_values),
            ),
        ),
        Step::Queries => fill(
            include_str!("../../../../wgsl/attention_queries.wgsl"),
            holes!(
                PLACE = places + &place("d", "h"),
                PRODUCT_S = product("s", "q", "k", "size"),
                PRODUCT_T = product("t", "d", "v", "width"),
                SUMS = sums("sum", of_keys),
                ADD = add("sum", "k", of_keys),
                STORE = store("dq", ["queries", "params.heads", "h"], "sum", " * params.scale", of_keys),
            ),
        ),
        Step::Keys | Step::Delta => fill(
            include_str!("../../../../wgsl/attention_keys.wgsl"),
            holes!(
                PLACE = places + &place("d", "h"),
                PRODUCT_S = product("s", "k", "q", "size"),
                PRODUCT_T = product("t", "v", "d", "width"),
                SUMS = sums("of_k", of_keys) + &sums("of_v", of_values),
                ADD_V = add("of_v", "d", of_values),
                ADD_K = add("of_k", "q", of_keys),
                STORE = store("dk", ["keys", "groups", "group"], "of_k", " * params.scale", of_keys)
                    + &store("dv", ["keys", "groups", "group"], "of_v", "", of_values),
            ),
        ),
    }
}

fn product(tile: &str, left: &str, right: &str, length: &str) -> String {
    fill(include_str!("../../../../wgsl/attention_product.wgsl"), holes!(tile, left, right, length))
}

/// Four rows of quads of a thread.
fn sums(name: &str, parts: u32) -> String {
    each(parts, |part, row| format!("    var {name}_{part}_{row} = V();\n"))
}

fn rescale(parts: u32) -> String {
    each(parts, |part, row| format!("        sum_{part}_{row} *= shrink[{row}];\n"))
}

fn add(name: &str, right: &str, parts: u32) -> String {
    let text = include_str!("../../../../wgsl/attention_add.wgsl");
    (0..parts).map(|part| fill(text, holes!(right, sum = format!("{name}_{part}_"), part))).collect()
}

/// Quads of dense rows [batch, rows, heads, n], each as it stands or with what `times` says of row `?`.
fn store(target: &str, [rows, heads, head]: [&str; 3], name: &str, times: &str, parts: u32) -> String {
    let store = |r: u32| {
        let times = times.replace('?', &r.to_string());
        let put = |part: u32| format!("        put_{target}(row, {part}u * ACROSS + tx, {name}_{part}_{r}{times});\n");
        TEXT.fill("store", holes!(r, rows, heads, head, puts = (0..parts).map(put).collect::<String>()))
    };
    (0..if parts > 0 { 4 } else { 0 }).map(store).collect()
}

fn each(parts: u32, text: impl Fn(u32, u32) -> String) -> String {
    (0..parts).flat_map(|part| (0..4).map(move |row| (part, row))).map(|(part, row)| text(part, row)).collect()
}
