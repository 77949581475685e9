//! Reductions: what folding means for each function and dtype, around the passes of `reduce/passes.rs`.
//!
//! Extrema of floats fold u32 (i64 for f64) keys that order as the floats do, with NaN beyond every number, so nothing
//! depends on what a shader compiler assumes of NaN and of the signs of zeros. Sums of 8- and 16-bit floats accumulate in f32,
//! integers wrap. Results narrower than a word are stored by atomics. Not here: over no elements, a map fills the output.

pub(crate) mod passes;
pub(crate) mod template;

use crate::ops::{Map, Reduce};
use crate::{DType, Expr, Operation, Program, ReduceFn, Result, Scalar};

use crate::plan::{Access, Caps, KernelKey, KernelText, Plan, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::index::check_index;
use crate::wgsl::keys::I64_MIN;
use crate::wgsl::pieces::{Pieces, holes, pieces};
use passes::{Partials, Pass, View, Walk, passes};
use template::{FOLD, Frame, launch};

const TEXT: Pieces = pieces!("reduce.wgsl");

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
        wgsl += &self.functions();
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
    fn functions(&self) -> String {
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
        let mut out = TEXT.fill("combine", holes!(acc, wide, identity, combined));
        out += FOLD.get("absorb");
        out += if quad { TEXT.get("quad") } else { FOLD.get("one") };
        let load = if quad { "load4_x(at)" } else { "load_x(at)" };
        let value = if self.partial { load.to_owned() } else { self.lift(&mut out, &wide, load) };
        out += &FOLD.fill("read", holes!(value));
        // Results leave as scalars (rows) or as wide as they were read (columns).
        let rows = matches!(self.frame.walk, Walk::Rows { .. });
        let (ty, name) = if rows { ("Acc", "write_at") } else { ("Wide", "write_wide") };
        let value = if self.last { self.finish(&mut out, if rows { acc } else { &wide }) } else { "v".to_owned() };
        let is_one = rows || !quad;
        if !is_one && self.spread {
            return out + &TEXT.fill("write spread", holes!(name, ty, value));
        }
        out + &TEXT.fill("write one", holes!(name, ty, store = if is_one { "store_y" } else { "store4_y" }, value))
    }

    /// An element as an accumulator: the expression, with the functions it needs written to `out`.
    fn lift(&self, out: &mut String, wide: &str, load: &str) -> String {
        let dtype = self.input.dtype();
        match self.function {
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
                let of_truth = if self.frame.quad { "vec4<bool>" } else { "bool" };
                *out += &TEXT.fill("lift truth", holes!(x, of_truth, set));
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
                let (piece, [least, most]) = match self.accumulator.dtype() {
                    DType::I64 => ("lift f64", [I64_MIN, I64_MAX]),
                    _ => ("lift float", ["0u", "0xffffffffu"]),
                };
                *out += &TEXT.fill(piece, holes!(nan = if self.function == ReduceFn::Max { most } else { least }));
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
        }
    }

    /// An accumulator `v` of type `ty` as the output is stored.
    fn finish(&self, out: &mut String, ty: &str) -> String {
        let wide = ty.starts_with("vec4");
        let typed = |scalar: &str| if wide { format!("vec4<{scalar}>") } else { scalar.to_owned() };
        match self.function {
            ReduceFn::All | ReduceFn::Any => format!("v != {ty}(0u)"),
            ReduceFn::Max | ReduceFn::Min if self.float && self.accumulator.dtype() == DType::I64 => {
                format!("select(v, v ^ {ty}({I64_MAX}), v < {ty}(0li))")
            }
            ReduceFn::Max | ReduceFn::Min if self.float => {
                *out += &TEXT.fill("bits_of", holes!(ty));
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
        }
    }
}

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
