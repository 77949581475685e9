//! Reductions: what folding means for each function and dtype, around the passes of `reduce/passes.rs`.
//!
//! Extrema of floats fold u32 (i64 for f64) keys that order as the floats do, with NaN beyond every number, so nothing
//! depends on what a shader compiler assumes of NaN and of the signs of zeros. Sums of 8- and 16-bit floats accumulate in f32,
//! integers wrap. Results narrower than a word are stored by atomics. Not here: over no elements, a map fills the output.

pub(crate) mod passes;
pub(crate) mod template;

use std::fmt::Write;

use crate::ops::{Map, Reduce};
use crate::{DType, Expr, Operation, Program, ReduceFn, Result, Scalar};

use crate::plan::{Access, Caps, KernelKey, KernelText, Plan, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::keys::I64_MIN;
use passes::{Partials, Pass, View, Walk, passes};
use template::{Frame, check_index, launch};

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    frame: Frame,
    function: ReduceFn,
    /// As read: extrema of f32 and f64 are read as bits.
    input: Element,
    accumulator: Element,
    output: Element,
    /// Reads results of an earlier pass.
    partial: bool,
    /// Writes the op's output.
    last: bool,
    /// The output starts between two quads (64-bit types only).
    spread: bool,
    /// The op's input is a float, which `input` does not say where bits are read.
    float: bool,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let columns = matches!(self.frame.walk, Walk::Columns { .. });
        let (quad_in, quad_out) = (self.frame.quad, columns && self.frame.quad && !self.spread);
        let form = |quad| if quad { Form::Quad } else { Form::Scalar };
        let mut wgsl = element::prelude(&[self.input, self.accumulator, self.output]);
        wgsl += &self.frame.head(&[]);
        wgsl += &self.input.storage(1, "x", form(quad_in), Access::Read);
        wgsl += &self.output.storage(2, "y", form(quad_out), Access::ReadWrite);
        // Formatting into a String cannot fail.
        let _ = self.write_functions(&mut wgsl);
        wgsl += self.frame.body();
        Source {
            name: format!("reduce_{}_{}_{}", self.frame.suffix(), self.function.name(), self.input.dtype()),
            wgsl,
            bindings: vec![Access::Read, Access::ReadWrite],
        }
    }

    fn loop_rounds(&self, params: &[u32]) -> u64 {
        self.frame.loop_rounds(params)
    }
}

pub(crate) fn plan(op: &Reduce, caps: &Caps) -> Result<Plan> {
    if op.count() == 0 {
        return fill(op, caps);
    }
    check_index(op.name(), &op.input)?;
    check_index(op.name(), &op.output)?;
    caps.require(op.input.dtype)?;
    let accumulator = Element::new(accumulator(op.function, op.input.dtype), caps)?;
    let input = Element::new(as_bits(op.function, op.input.dtype), caps)?;
    let output = Element::new(as_bits(op.function, op.output.dtype), caps)?;
    // One of the elements, or its magnitude: an infinite f8e5m2 stays one.
    let output = match op.function {
        ReduceFn::AbsMax | ReduceFn::Max | ReduceFn::Min => output.kept(),
        ReduceFn::All | ReduceFn::Any | ReduceFn::Mean | ReduceFn::Prod | ReduceFn::Sum => output,
    };
    let (list, elements) = passes(View::of_input(&op.input.layout, &op.axes), Partials::Elements, caps);
    let launch = |pass: &Pass| {
        let columns = matches!(pass.walk, Walk::Columns { .. });
        let offset = if pass.last { op.output.layout.offset() } else { 0 };
        let spread = columns && pass.quad && !offset.is_multiple_of(4);
        let kernel = Kernel {
            frame: Frame::of(pass),
            function: op.function,
            input: if pass.partial { accumulator } else { input },
            accumulator,
            output: if pass.last { output } else { accumulator },
            partial: pass.partial,
            last: pass.last,
            spread,
            float: op.input.dtype.is_float(),
        };
        let in_quads = columns && pass.quad && !spread;
        let target = if in_quads { offset / 4 } else { offset };
        launch(KernelKey::own(kernel), pass, op.count(), target, caps)
    };
    Ok(Plan {
        launches: list.iter().map(launch).collect::<Result<_>>()?,
        scratch_bytes: elements.iter().map(|&n| n * accumulator.dtype().size_bytes()).collect(),
    })
}

/// Over no elements every result is the same constant.
fn fill(op: &Reduce, caps: &Caps) -> Result<Plan> {
    let value = match op.function {
        ReduceFn::Mean => Scalar::F(f64::NAN),
        ReduceFn::All | ReduceFn::Prod => Scalar::I(1),
        // Max and min of nothing are refused by the op.
        ReduceFn::AbsMax | ReduceFn::Any | ReduceFn::Max | ReduceFn::Min | ReduceFn::Sum => Scalar::I(0),
    };
    let dtype = op.output.dtype;
    let program = Program::compile(&Expr::constant(value.cast(dtype)).cast(dtype), &[])?;
    crate::ops::map::plan::plan(&Map::new("fill", program, Vec::new(), op.output)?, caps)
}

/// What partial results are stored as.
fn accumulator(function: ReduceFn, dtype: DType) -> DType {
    match function {
        ReduceFn::All | ReduceFn::Any => DType::U32,
        ReduceFn::AbsMax | ReduceFn::Max | ReduceFn::Min => match dtype {
            DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 | DType::F32 => DType::U32,
            DType::F64 => DType::I64,
            other => other.compute(),
        },
        ReduceFn::Mean if !dtype.is_float() => DType::F32,
        ReduceFn::Mean | ReduceFn::Prod | ReduceFn::Sum => match dtype {
            DType::Bool => DType::U32,
            other => other.compute(),
        },
    }
}

/// Where the bits of a float matter, word-sized floats are read and written as integers.
fn as_bits(function: ReduceFn, dtype: DType) -> DType {
    match (function, dtype) {
        (ReduceFn::Mean | ReduceFn::Prod | ReduceFn::Sum, _) => dtype,
        (ReduceFn::All | ReduceFn::Any | ReduceFn::AbsMax | ReduceFn::Max | ReduceFn::Min, DType::F32) => DType::U32,
        (ReduceFn::AbsMax | ReduceFn::Max | ReduceFn::Min, DType::F64) => DType::I64,
        _ => dtype,
    }
}

impl Kernel {
    /// `combine`, `read_at`, `write_at` and the rest that the loops call.
    fn write_functions(&self, out: &mut String) -> std::fmt::Result {
        let (acc, quad) = (self.accumulator.scalar(), self.frame.quad);
        let wide = if quad { self.accumulator.vector() } else { acc.to_owned() };
        let combined = match self.function {
            ReduceFn::All => "a & b",
            ReduceFn::Any => "a | b",
            ReduceFn::AbsMax | ReduceFn::Max => "max(a, b)",
            ReduceFn::Min => "min(a, b)",
            ReduceFn::Prod => "a * b",
            ReduceFn::Mean | ReduceFn::Sum => "a + b",
        };
        let identity = identity(self.function, self.accumulator.dtype());
        writeln!(out, "alias Acc = {acc};\nalias Wide = {wide};")?;
        writeln!(out, "fn wide_identity() -> Wide {{ return Wide({identity}); }}")?;
        writeln!(out, "fn combine(a: Acc, b: Acc) -> Acc {{ return {combined}; }}")?;
        writeln!(out, "fn combine_wide(a: Wide, b: Wide) -> Wide {{ return {combined}; }}")?;
        *out += ABSORB;
        if quad {
            writeln!(out, "fn narrow(w: Wide) -> Acc {{ return combine(combine(w.x, w.y), combine(w.z, w.w)); }}")?;
            writeln!(out, "fn masked(w: Wide, live: u32) -> Wide {{")?;
            writeln!(out, "    return select(wide_identity(), w, vec4<u32>(0u, 1u, 2u, 3u) < vec4<u32>(live));\n}}")?;
        } else {
            writeln!(out, "fn narrow(w: Wide) -> Acc {{ return w; }}")?;
            writeln!(out, "fn masked(w: Wide, live: u32) -> Wide {{ return w; }}")?;
        }
        let load = if quad { "load4_x(at)" } else { "load_x(at)" };
        let lifted = if self.partial { load.to_owned() } else { self.lift(out, &wide, load)? };
        writeln!(out, "fn read_at(at: u32, place: u32) -> Wide {{ return {lifted}; }}")?;
        // Results leave as scalars (rows) or as wide as they were read (columns).
        let rows = matches!(self.frame.walk, Walk::Rows { .. });
        let (ty, name) = if rows { ("Acc", "write_at") } else { ("Wide", "write_wide") };
        let value = if self.last { self.finish(out, if rows { acc } else { &wide })? } else { "v".to_owned() };
        writeln!(out, "fn {name}(index: u32, v: {ty}) {{\n    let at = params.target_base + index;")?;
        match (rows || !quad, self.spread) {
            (true, _) => writeln!(out, "    store_y(at, {value});\n}}"),
            (false, false) => writeln!(out, "    store4_y(at, {value});\n}}"),
            (false, true) => {
                writeln!(out, "    let first = params.target_base + 4u * index;\n    let result = {value};")?;
                for i in 0..4 {
                    writeln!(out, "    store_y(first + {i}u, result[{i}]);")?;
                }
                writeln!(out, "}}")
            }
        }
    }

    /// An element as an accumulator: the expression, with the functions it needs written to `out`.
    fn lift(&self, out: &mut String, wide: &str, load: &str) -> Result<String, std::fmt::Error> {
        let dtype = self.input.dtype();
        let wide_bool = if self.frame.quad { "vec4<bool>" } else { "bool" };
        Ok(match self.function {
            ReduceFn::All | ReduceFn::Any => {
                let set = match dtype {
                    DType::Bool => "x",
                    // Bits without the sign: NaN is true, -0 false, subnormals true.
                    DType::U32 if self.float => "(x << V(1u)) != V(0u)",
                    DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 => "(bitcast<V>(x) << V(1u)) != V(0u)",
                    // Not `!=`, which naga 30 makes an ordered comparison: false with a NaN.
                    DType::F64 => "!(x == X(0.0lf))",
                    DType::I64 => "x != X(0li)",
                    DType::U64 => "x != X(0lu)",
                    DType::I8 | DType::I16 | DType::I32 => "x != X(0i)",
                    _ => "x != X(0u)",
                };
                let x = if self.frame.quad { self.input.vector() } else { self.input.scalar().to_owned() };
                let set = set.replace("V(", &format!("{wide}(")).replace("<V>", &format!("<{wide}>"));
                let set = set.replace("X(", &format!("{x}("));
                writeln!(out, "fn lift(x: {x}) -> Wide {{")?;
                writeln!(out, "    let is_set: {wide_bool} = {set};")?;
                writeln!(out, "    return select(Wide(0u), Wide(1u), is_set);\n}}")?;
                format!("lift({load})")
            }
            // Bits without the sign order as magnitudes do, NaN last.
            ReduceFn::AbsMax => {
                let mask = if self.accumulator.dtype() == DType::I64 { I64_MAX } else { "0x7fffffffu" };
                let bits = match dtype {
                    DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 => format!("bitcast<Wide>({load})"),
                    _ => load.to_owned(),
                };
                format!("{bits} & Wide({mask})")
            }
            ReduceFn::Max | ReduceFn::Min if self.float => {
                let last = if self.function == ReduceFn::Max { "0xffffffffu" } else { "0u" };
                if self.accumulator.dtype() == DType::I64 {
                    let nan = if self.function == ReduceFn::Max { I64_MAX } else { I64_MIN };
                    writeln!(out, "fn lift(bits: Wide) -> Wide {{")?;
                    writeln!(out, "    let magnitude = bits & Wide({I64_MAX});")?;
                    writeln!(out, "    let key = select(bits, bits ^ Wide({I64_MAX}), bits < Wide(0li));")?;
                    writeln!(out, "    return select(key, Wide({nan}), magnitude > Wide(0x7ff0000000000000li));\n}}")?;
                } else {
                    writeln!(out, "fn lift(bits: Wide) -> Wide {{")?;
                    writeln!(out, "    let magnitude = bits & Wide(0x7fffffffu);")?;
                    writeln!(out, "    let key = select(bits | Wide(0x80000000u), ~bits, bits != magnitude);")?;
                    writeln!(out, "    return select(key, Wide({last}), magnitude > Wide(0x7f800000u));\n}}")?;
                }
                match dtype {
                    DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 => format!("lift(bitcast<Wide>({load}))"),
                    _ => format!("lift({load})"),
                }
            }
            _ if dtype == DType::Bool => {
                let (zero, one) = if self.accumulator.dtype() == DType::F32 { ("0.0", "1.0") } else { ("0u", "1u") };
                format!("select(Wide({zero}), Wide({one}), {load})")
            }
            _ if dtype.compute() != self.accumulator.dtype() => format!("Wide({load})"),
            _ => load.to_owned(),
        })
    }

    /// An accumulator `v` of type `ty` as the output is stored.
    fn finish(&self, out: &mut String, ty: &str) -> Result<String, std::fmt::Error> {
        let wide = ty.starts_with("vec4");
        let typed = |scalar: &str| if wide { format!("vec4<{scalar}>") } else { scalar.to_owned() };
        Ok(match self.function {
            ReduceFn::All | ReduceFn::Any => format!("v != {ty}(0u)"),
            ReduceFn::Max | ReduceFn::Min if self.float && self.accumulator.dtype() == DType::I64 => {
                format!("select(v, v ^ {ty}({I64_MAX}), v < {ty}(0li))")
            }
            ReduceFn::Max | ReduceFn::Min if self.float => {
                writeln!(out, "fn bits_of(key: {ty}) -> {ty} {{")?;
                writeln!(out, "    return select(~key, key & {ty}(0x7fffffffu), key >= {ty}(0x80000000u));\n}}")?;
                match self.output.dtype() {
                    DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 => {
                        format!("bitcast<{}>(bits_of(v))", typed("f32"))
                    }
                    _ => "bits_of(v)".to_owned(),
                }
            }
            ReduceFn::AbsMax => match self.output.dtype() {
                DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 => format!("bitcast<{}>(v)", typed("f32")),
                _ => "v".to_owned(),
            },
            ReduceFn::Mean => format!("v / {ty}({}(params.total))", self.accumulator.scalar()),
            _ => "v".to_owned(),
        })
    }
}

/// Where elements read are accumulators already.
pub(crate) const ABSORB: &str = "fn absorb(held: Wide, x: Wide) -> Wide { return combine_wide(held, x); }\n";

const I64_MAX: &str = "9223372036854775807li";

/// The value that changes nothing.
fn identity(function: ReduceFn, accumulator: DType) -> &'static str {
    match (function, accumulator) {
        (ReduceFn::All, _) => "1u",
        (ReduceFn::Any, _) => "0u",
        (ReduceFn::Max, DType::I32) => "-2147483647i - 1i",
        (ReduceFn::Max, DType::I64) => I64_MIN,
        (ReduceFn::Max, DType::U64) => "0lu",
        (ReduceFn::Max, _) => "0u",
        (ReduceFn::Min, DType::I32) => "2147483647i",
        (ReduceFn::Min, DType::I64) => I64_MAX,
        (ReduceFn::Min, DType::U64) => "0xfffffffffffffffflu",
        (ReduceFn::Min, _) => "0xffffffffu",
        (ReduceFn::Prod, DType::F32) => "1.0",
        (ReduceFn::Prod, DType::F64) => "1.0lf",
        (ReduceFn::Prod, DType::I32) => "1i",
        (ReduceFn::Prod, DType::I64) => "1li",
        (ReduceFn::Prod, DType::U64) => "1lu",
        (ReduceFn::Prod, _) => "1u",
        (_, DType::F32) => "0.0",
        (_, DType::F64) => "0.0lf",
        (_, DType::I32) => "0i",
        (_, DType::I64) => "0li",
        (_, DType::U64) => "0lu",
        _ => "0u",
    }
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
