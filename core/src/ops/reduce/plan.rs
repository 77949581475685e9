//! Reductions: what folding means for each function and dtype.
//!
//! Extrema of floats fold u32 (i64 for f64) keys that order as the floats do, with NaN beyond every number, so nothing
//! depends on what a shader compiler assumes of NaN and of the signs of zeros. Sums of 8- and 16-bit floats accumulate in f32,
//! integers wrap. Results narrower than a word are stored by atomics. Not here: over no elements, a map fills the output.

use crate::ops::{Map, Reduce};
use crate::{DType, Expr, Operation, Program, ReduceFn, Result, Scalar};

use crate::ops::fold::frame::{FOLD, Frame};
use crate::ops::fold::{self, Fold, Partials, Text, View};
use crate::plan::{Access, Caps, Plan};
use crate::wgsl::element::{Element, Form};
use crate::wgsl::index::check_index;
use crate::wgsl::keys::{self, I64_MIN};
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("reduce.wgsl");

/// A reduction, as one pass of it knows it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reduction {
    function: ReduceFn,
    /// As read: extrema of f32 and f64 are read as bits.
    input: Element,
    accumulator: Element,
    output: Element,
    /// Writes the op's output.
    last: bool,
    /// The output starts between two quads (64-bit types only).
    spread: bool,
    /// The op's input is a float, which `input` does not say where bits are read.
    float: bool,
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
    let (view, partials) = (View::of_input(&op.input.layout, &op.axes), Partials::elements(accumulator.dtype()));
    fold::plan(view, partials, caps, |pass| {
        let in_quads = pass.quad && !pass.walk.is_rows();
        let base = pass.target_base(&op.output);
        let spread = in_quads && !base.is_multiple_of(4);
        let fold = Reduction {
            function: op.function,
            input: if pass.partial { accumulator } else { input },
            accumulator,
            output: if pass.last { output } else { accumulator },
            last: pass.last,
            spread,
            float: op.input.dtype.is_float(),
        };
        pass.launch(fold, op.count(), if in_quads && !spread { base / 4 } else { base }, caps)
    })
}

impl Fold for Reduction {
    fn text(&self, frame: &Frame) -> Text {
        let form = if self.spread || frame.walk.is_rows() { Form::Scalar } else { frame.form() };
        Text {
            name: format!("reduce_{}_{}_{}", frame.suffix(), self.function.name(), self.input.dtype()),
            elements: vec![self.input, self.accumulator, self.output],
            bindings: vec![Access::Read, Access::ReadWrite],
            buffers: frame.source(self.input) + &self.output.storage(2, "y", form, Access::ReadWrite),
            state: self.state(frame),
            read: self.read(frame),
            finish: self.finish(frame),
            body: frame.body(),
            ..Text::default()
        }
    }
}

impl Reduction {
    fn state(&self, frame: &Frame) -> String {
        let (acc, wide) = (self.accumulator.scalar(), frame.wide(self.accumulator));
        let combined = match self.function {
            ReduceFn::All => "a & b",
            ReduceFn::Any => "a | b",
            ReduceFn::AbsMax | ReduceFn::Max => "max(a, b)",
            ReduceFn::Min => "min(a, b)",
            ReduceFn::Prod => "a * b",
            ReduceFn::Mean | ReduceFn::Sum => "a + b",
        };
        let identity = identity(self.function, self.accumulator.dtype());
        frame.combining([acc, &wide], &identity, combined)
    }

    fn read(&self, frame: &Frame) -> String {
        if frame.partial {
            return FOLD.fill("read", holes!(value = frame.load()));
        }
        let mut out = String::new();
        let value = self.lift(frame, &mut out);
        out + &FOLD.fill("read", holes!(value))
    }

    /// Results leave as scalars (rows) or as wide as they were read (columns).
    fn finish(&self, frame: &Frame) -> String {
        let wide = frame.quad && !frame.walk.is_rows();
        let (ty, name) = if frame.walk.is_rows() { ("Acc", "write_at") } else { ("Wide", "write_wide") };
        let (mut out, mut value) = (String::new(), "v".to_owned());
        if self.last {
            let v = if wide { self.accumulator.vector() } else { self.accumulator.scalar().to_owned() };
            value = self.result(&mut out, &v);
        }
        if wide && self.spread {
            return out + &TEXT.fill("write spread", holes!(name, ty, value));
        }
        out + &TEXT.fill("write one", holes!(name, ty, store = if wide { "store4_y" } else { "store_y" }, value))
    }
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
    match function {
        ReduceFn::Mean | ReduceFn::Prod | ReduceFn::Sum => dtype,
        ReduceFn::All | ReduceFn::Any if dtype == DType::F64 => dtype,
        ReduceFn::All | ReduceFn::Any | ReduceFn::AbsMax | ReduceFn::Max | ReduceFn::Min => keys::read_as(dtype),
    }
}

impl Reduction {
    /// An element as an accumulator: the expression, with the functions it needs written to `out`.
    fn lift(&self, frame: &Frame, out: &mut String) -> String {
        let (dtype, load) = (self.input.dtype(), frame.load());
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
                let (x, wide) = (frame.wide(self.input), frame.wide(self.accumulator));
                let set = set.replace("V(", &format!("{wide}(")).replace("<V>", &format!("<{wide}>"));
                let set = set.replace("X(", &format!("{x}("));
                let of_truth = if frame.quad { "vec4<bool>" } else { "bool" };
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
    fn result(&self, out: &mut String, ty: &str) -> String {
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
fn identity(function: ReduceFn, accumulator: DType) -> String {
    let suffix = match accumulator {
        DType::F32 => ".0",
        DType::F64 => ".0lf",
        DType::I32 => "i",
        DType::I64 => "li",
        DType::U64 => "lu",
        _ => "u",
    };
    match (function, accumulator) {
        (ReduceFn::All | ReduceFn::Prod, _) => format!("1{suffix}"),
        (ReduceFn::Max, DType::I32) => "-2147483647i - 1i".to_owned(),
        (ReduceFn::Max, DType::I64) => I64_MIN.to_owned(),
        (ReduceFn::Min, DType::I32) => "2147483647i".to_owned(),
        (ReduceFn::Min, DType::I64) => I64_MAX.to_owned(),
        (ReduceFn::Min, DType::U64) => "0xfffffffffffffffflu".to_owned(),
        (ReduceFn::Min, _) => "0xffffffffu".to_owned(),
        _ => format!("0{suffix}"),
    }
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
