//! Functions of one and two values as WGSL expressions, and the functions of `wgsl/arith.wgsl`, `math*.wgsl`, `inverse*.wgsl`,
//! `gamma*.wgsl` and `remainder.wgsl` that they name.
//!
//! [`unary`], [`binary`], [`compare`] and [`cast`] give the text of one step of an expression. [`library`] gives the
//! text of every library function that a kernel's text names, directly or through others, and nothing else: a kernel
//! that adds does not carry a Payne-Hanek reduction. The library files are plain WGSL, one blank line between functions.
//!
//! Values are of the compute type of their dtype (`element.rs`). Steps in floats of 8 and 16 bits are not rounded, steps in
//! integers of 8 and 16 bits are wrapped; a cast rounds what it takes and what it gives.

use std::collections::{BTreeSet, HashMap};
use std::sync::LazyLock;

use crate::{BinaryFn, CompareFn, DType, Result, UnaryFn};

use crate::plan::Caps;
use crate::wgsl::element::compute_type;

const FILES: [&str; 8] = [
    include_str!("../../wgsl/arith.wgsl"),
    include_str!("../../wgsl/math.wgsl"),
    include_str!("../../wgsl/math_f64.wgsl"),
    include_str!("../../wgsl/remainder.wgsl"),
    include_str!("../../wgsl/inverse.wgsl"),
    include_str!("../../wgsl/inverse_f64.wgsl"),
    include_str!("../../wgsl/gamma.wgsl"),
    include_str!("../../wgsl/gamma_f64.wgsl"),
];

/// `f` of `x`, an expression of the compute type of `dtype`.
pub(crate) fn unary(f: UnaryFn, dtype: DType, x: &str) -> String {
    let t = compute_type(dtype);
    let counted = matches!(f, UnaryFn::CountOnes | UnaryFn::LeadingZeros | UnaryFn::TrailingZeros);
    let plain = match (f, t) {
        (_, "i32" | "u32") if counted => count_bits(f, dtype, x),
        (_, "u64") if counted => format!("u64({}_i64(i64({x})))", f.name()),
        (_, "f32") => format!("{}_f32({x})", f.name()),
        (UnaryFn::Neg, _) => format!("-({x})"),
        (UnaryFn::Not, "bool") => format!("!({x})"),
        (UnaryFn::Not, _) => format!("~({x})"),
        (_, "f64") => format!("{}_f64({x})", f.name()),
        (UnaryFn::Abs | UnaryFn::Relu | UnaryFn::Sign, "u32") if f != UnaryFn::Sign => x.to_owned(),
        (UnaryFn::Abs | UnaryFn::Relu, "u64") => x.to_owned(),
        (UnaryFn::Sign, "u64") => format!("min_u64({x}, 1lu)"),
        (UnaryFn::Sign, "u32") => format!("min({x}, 1u)"),
        (UnaryFn::Abs | UnaryFn::Sign, "i32") => format!("{}({x})", f.name()),
        (UnaryFn::Relu, "i32") => format!("max({x}, 0)"),
        (UnaryFn::Relu, "i64") => format!("max_i64({x}, 0li)"),
        _ => format!("{}_{t}({x})", f.name()),
    };
    wrap(dtype, plain)
}

/// A function of the bits of an integer of at most 32, which are the lowest of those that are computed with.
fn count_bits(f: UnaryFn, dtype: DType, x: &str) -> String {
    let width = 8 * dtype.size_bytes();
    let bits = match dtype {
        DType::I8 => format!("(bitcast<u32>({x}) & 0xffu)"),
        DType::I16 => format!("(bitcast<u32>({x}) & 0xffffu)"),
        _ => format!("bitcast<u32>({x})"),
    };
    let count = match f {
        UnaryFn::CountOnes => format!("countOneBits({bits})"),
        UnaryFn::LeadingZeros if width < 32 => format!("(countLeadingZeros({bits}) - {}u)", 32 - width),
        UnaryFn::LeadingZeros => format!("countLeadingZeros({bits})"),
        _ if width < 32 => format!("trailing_zeros_u32({bits} | {:#x}u)", 1u32 << width),
        _ => format!("trailing_zeros_u32({bits})"),
    };
    format!("{}({count})", compute_type(dtype))
}

/// Whether these kernels can compute `f` in `dtype`.
///
/// # Errors
/// [`crate::Error::Unsupported`] for f64 functions that take a number apart, where there are no 64-bit integers.
pub(crate) fn require(f: UnaryFn, dtype: DType, caps: &Caps) -> Result<()> {
    require_named(f.name(), dtype, caps)
}

/// The same of a function of two values.
///
/// # Errors
/// As [`require`].
pub(crate) fn require_binary(f: BinaryFn, dtype: DType, caps: &Caps) -> Result<()> {
    require_named(f.name(), dtype, caps)
}

fn require_named(name: &str, dtype: DType, caps: &Caps) -> Result<()> {
    if dtype != DType::F64 || caps.i64 || !library(&format!("{name}_f64")).contains("u64") {
        return Ok(());
    }
    Err(caps.unsupported(format!("{name} of f64"), "it needs 64-bit integers in shaders (SHADER_INT64)"))
}

/// `f` of `a` and `b`, expressions of the compute type of `dtype`.
pub(crate) fn binary(f: BinaryFn, dtype: DType, a: &str, b: &str) -> String {
    let t = compute_type(dtype);
    let infix = |sign: &str| format!("({a}) {sign} ({b})");
    let plain = match (f, t) {
        (BinaryFn::Add, _) => infix("+"),
        (BinaryFn::Sub, _) => infix("-"),
        (BinaryFn::Mul, _) => infix("*"),
        (BinaryFn::And, _) => infix("&"),
        (BinaryFn::Or, _) => infix("|"),
        (BinaryFn::Nextafter, "f32") if dtype != DType::F32 => format!("nextafter_{dtype}(round_{dtype}({a}), {b})"),
        (BinaryFn::Xor, "bool") => infix("!="),
        (BinaryFn::Xor, _) => infix("^"),
        (BinaryFn::FloorDivide, "u32" | "u64") => format!("div_{t}({a}, {b})"),
        (BinaryFn::Remainder, "u32" | "u64") => format!("rem_{t}({a}, {b})"),
        (BinaryFn::Max | BinaryFn::Min, "i32" | "u32") => format!("{}({a}, {b})", f.name()),
        _ => format!("{}_{t}({a}, {b})", f.name()),
    };
    wrap(dtype, plain)
}

/// Whether `a` stands to `b` as `f` says; both of the compute type of `dtype`.
pub(crate) fn compare(f: CompareFn, dtype: DType, a: &str, b: &str) -> String {
    if compute_type(dtype) == "f32" {
        return format!("{}_f32({a}, {b})", f.name());
    }
    let sign = match f {
        CompareFn::Eq => "==",
        CompareFn::Ge => ">=",
        CompareFn::Gt => ">",
        CompareFn::Le => "<=",
        CompareFn::Lt => "<",
        // Not `!=`, which naga 30 makes an ordered comparison: false with a NaN.
        CompareFn::Ne if dtype.is_float() => return format!("!({a} == {b})"),
        CompareFn::Ne => "!=",
    };
    format!("({a}) {sign} ({b})")
}

/// `x`, a value of dtype `from` exactly, as a value of dtype `to` exactly.
pub(crate) fn cast(from: DType, to: DType, x: &str) -> String {
    let (source, target) = (compute_type(from), compute_type(to));
    let narrow = to.is_float() && to != to.compute();
    if to == from || (to == DType::F32 && source == "f32") {
        return x.to_owned();
    }
    let plain = match (source, target) {
        (_, "bool") => match source {
            "f32" => return format!("bool_from_f32({x})"),
            _ => return format!("!(({x}) == {source}(0))"),
        },
        ("bool", _) => return format!("select({target}(0), {target}(1), {x})"),
        ("f32" | "f64", "i32" | "u32" | "i64" | "u64") => return format!("{to}_from_{source}({x})"),
        ("f64", "f32") if narrow => format!("f32_to_odd({x})"),
        ("i32" | "u32" | "i64" | "u64", "f32") if to == DType::BF16 => format!("bf16_from_{source}({x})"),
        (s, t) if s == t => x.to_owned(),
        // naga 30 extends the sign of a u32 that becomes an i64: widen first.
        ("u32", "i64") => format!("i64(u64({x}))"),
        // Each in two steps: of a width, then of a sign.
        ("i32", "u64") => format!("u64(i64({x}))"),
        ("u64", "i32") => format!("bitcast<i32>(u32({x}))"),
        _ => format!("{target}({x})"),
    };
    if narrow { format!("round_{to}({plain})") } else { wrap(to, plain) }
}

/// Integers of 8 and 16 bits wrap after every step.
fn wrap(dtype: DType, value: String) -> String {
    match dtype {
        DType::I8 | DType::U8 | DType::I16 | DType::U16 => format!("round_{dtype}({value})"),
        _ => value,
    }
}

/// Blocks of the library that declare functions, and where each name's stands.
struct Library {
    blocks: Vec<&'static str>,
    by_name: HashMap<&'static [u8], usize>,
}

static LIBRARY: LazyLock<Library> = LazyLock::new(|| {
    let named = FILES.iter().flat_map(|file| file.split("\n\n")).filter_map(named);
    let (names, blocks): (Vec<_>, Vec<_>) = named.map(|(name, block)| (name.as_bytes(), block.trim())).unzip();
    Library { blocks, by_name: names.into_iter().zip(0..).collect() }
});

/// The library functions that `text` names, and those that they name, in the library's order.
pub(crate) fn library(text: &str) -> String {
    let mut wanted = BTreeSet::new();
    let mut open = vec![text];
    while let Some(text) = open.pop() {
        let words = text.as_bytes().split(|c| !c.is_ascii_alphanumeric() && *c != b'_');
        // Every name says its type behind a line, which few words have.
        for word in words.filter(|word| word.contains(&b'_')) {
            let found = LIBRARY.by_name.get(word).filter(|&&at| wanted.insert(at));
            open.extend(found.map(|&at| LIBRARY.blocks[at]));
        }
    }
    wanted.into_iter().map(|at| format!("{}\n\n", LIBRARY.blocks[at])).collect()
}

/// A block that declares a function, with the function's name.
fn named(block: &'static str) -> Option<(&'static str, &'static str)> {
    let at = if block.starts_with("fn ") { 0 } else { block.find("\nfn ")? + 1 };
    let name = block[at + 3..].split('(').next()?;
    Some((name, block))
}

#[cfg(test)]
#[path = "math_tests.rs"]
mod tests;
