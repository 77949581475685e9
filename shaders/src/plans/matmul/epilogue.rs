//! What follows the sum of a matrix product, D = activation(alpha sum + beta C + bias), and the words of `Params` that
//! say where everything lies. Shared by the tiled kernel, the matrix-vector kernel and the combining one.

use std::fmt::Write;

use polywarp_core::ops::Matmul;
use polywarp_core::{DType, Layout, Result, Scalar, UnaryFn};

use crate::element::{Element, Form};
use crate::{Access, Caps, Slot, math};

/// What the end of a kernel does: part of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Epilogue {
    /// Alpha is not 1.
    pub scale: bool,
    /// C is read.
    pub add: bool,
    pub bias: bool,
    pub activation: Option<UnaryFn>,
    /// How sums are held.
    pub accumulator: Element,
    /// How D, C and bias are stored.
    pub output: Element,
}

/// One batch dimension: its extent and the strides of A, B and C.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct BatchAxis {
    pub extent: u64,
    pub strides: [i64; 3],
}

/// Where the operands lie: everything that does not depend on the kernel.
pub(super) struct Places {
    pub epilogue: Epilogue,
    /// Outermost first, merged where A, B and C all step evenly.
    pub batch: Vec<BatchAxis>,
    alpha: Vec<u32>,
    beta: Vec<u32>,
    bias: (u64, i64),
    target: u64,
    /// Buffers of C and bias, where read.
    pub slots: Vec<Slot>,
}

impl Epilogue {
    /// The epilogue of `op`.
    pub fn of(op: &Matmul, caps: &Caps) -> Result<Epilogue> {
        let accumulator = match op.a.dtype {
            DType::I8 | DType::U8 => DType::I32,
            other => other.compute(),
        };
        let element = Element::new(accumulator, caps)?;
        if let Some(f) = op.activation {
            math::require(f, accumulator, caps)?;
        }
        Ok(Epilogue {
            scale: op.alpha != 1.0,
            add: op.c.is_some() && op.beta != 0.0,
            bias: op.bias.is_some(),
            activation: op.activation,
            accumulator: element,
            output: Element::new(op.output.dtype, caps)?,
        })
    }

    /// Whether the sum is stored as it is, but for its dtype.
    pub fn is_plain(&self) -> bool {
        !self.scale && !self.add && !self.bias && self.activation.is_none()
    }

    /// The members of `Params` that every kernel of this op begins with. The scales come first: they may be 64 bits wide.
    pub fn params_text(&self, axes: u8, own: &[&str]) -> String {
        let scale = self.accumulator.param_type();
        let mut text = format!("struct Params {{\n    alpha: {scale}, beta: {scale},\n   ");
        for name in COMMON.iter().chain(own) {
            let _ = write!(text, " {name}: u32,");
        }
        text += "\n   ";
        for name in ['e', 'a', 'b', 'c'] {
            for i in 0..axes {
                let _ = write!(text, " {name}{i}: u32,");
            }
        }
        text + "\n}\n@group(0) @binding(0) var<uniform> params: Params;\n"
    }

    /// Declares C and bias from `binding` on, and `fn epilogue(sum, batch, row, col)`.
    pub fn text(&self, binding: u32, axes: u8) -> String {
        let acc = self.accumulator.scalar();
        let mut text = String::new();
        let mut next = binding;
        for (wanted, name) in [(self.add, "c"), (self.bias, "bias")] {
            if wanted {
                text += &self.output.storage(next, name, Form::Scalar, Access::Read);
                next += 1;
            }
        }
        if self.add {
            text += &super::super::reduce::template::decode("batch_of_c", "params.c_base", 'c', axes.into());
        }
        let _ = writeln!(text, "fn epilogue(sum: {acc}, batch: u32, row: u32, col: u32) -> {acc} {{\n    var x = sum;");
        if self.scale {
            text += "    x = params.alpha * x;\n";
        }
        if self.add {
            text += "    x += params.beta * load_c(batch_of_c(batch) + row * params.c_row + col * params.c_col);\n";
        }
        if self.bias {
            text += "    x += load_bias(params.bias_base + col * params.bias_step);\n";
        }
        if let Some(f) = self.activation {
            let _ = writeln!(text, "    x = {};", math::unary(f, self.accumulator.dtype(), "x"));
        }
        text + "    return x;\n}\n"
    }

    /// Reads of the storage buffers that [`Epilogue::text`] declares.
    pub fn accesses(&self) -> impl Iterator<Item = Access> {
        [self.add, self.bias].into_iter().filter(|&wanted| wanted).map(|_| Access::Read)
    }
}

/// Members of every `Params`, after the scales; strides and bases in elements.
const COMMON: [&str; 9] = ["m", "n", "k", "target_base", "c_base", "c_row", "c_col", "bias_base", "bias_step"];

impl Places {
    /// Where the operands of `op` lie.
    pub fn of(op: &Matmul, caps: &Caps) -> Result<Places> {
        let epilogue = Epilogue::of(op, caps)?;
        let c = op.c.unwrap_or(op.output).layout;
        let batch = merge([&op.a.layout, &op.b.layout, &c]);
        let words = |x: f64| {
            let exact = if op.output.dtype.is_float() { Scalar::F(x) } else { Scalar::I(x as i64) };
            epilogue.accumulator.param_words(exact)
        };
        let bias = op.bias.map_or((0, 0), |bias| (bias.layout.offset(), bias.layout.strides()[0]));
        let mut slots = Vec::new();
        if epilogue.add {
            slots.push(Slot::Input(2));
        }
        if epilogue.bias {
            slots.push(Slot::Input(2 + usize::from(op.c.is_some())));
        }
        let (alpha, beta) = (words(op.alpha), words(op.beta));
        let target = op.output.layout.offset();
        Ok(Places { epilogue, batch, alpha, beta, bias, target, slots })
    }

    /// Batch dimensions left after merging.
    pub fn axes(&self) -> u8 {
        self.batch.len() as u8
    }

    /// The words of `Params`, with a kernel's `own` after the common ones. `target` replaces the output's offset.
    pub fn params(&self, op: &Matmul, target: Option<u64>, own: &[u32]) -> Vec<u32> {
        let dims = op.dims();
        let c = op.c.unwrap_or(op.output).layout;
        let rank = c.rank();
        let mut params = self.alpha.clone();
        params.extend(&self.beta);
        params.extend([dims.m as u32, dims.n as u32, dims.k as u32, target.unwrap_or(self.target) as u32]);
        params.extend([c.offset() as u32, c.strides()[rank - 2] as u32, c.strides()[rank - 1] as u32]);
        params.extend([self.bias.0 as u32, self.bias.1 as u32]);
        params.extend(own);
        // Innermost first; negative strides wrap as two's complement.
        params.extend(self.batch.iter().rev().map(|axis| axis.extent as u32));
        for operand in 0..3 {
            params.extend(self.batch.iter().rev().map(|axis| axis.strides[operand] as u32));
        }
        params
    }
}

/// The dimensions but the last two of operands of one batch shape.
fn merge(operands: [&Layout; 3]) -> Vec<BatchAxis> {
    let mut batch: Vec<BatchAxis> = Vec::new();
    for i in 0..operands[0].rank() - 2 {
        let axis = BatchAxis { extent: operands[0].dims()[i], strides: operands.map(|layout| layout.strides()[i]) };
        if axis.extent == 1 {
            continue;
        }
        let even = |outer: &BatchAxis| {
            let stepped = axis.strides.map(|stride| stride.checked_mul(axis.extent as i64));
            stepped.iter().zip(outer.strides).all(|(&stride, outer)| stride == Some(outer))
        };
        match batch.last_mut() {
            Some(outer) if even(outer) => *outer = BatchAxis { extent: outer.extent * axis.extent, ..axis },
            _ => batch.push(axis),
        }
    }
    batch
}
