//! The end of a matrix product, D = activation(alpha (sum * scale_a * scale_b) + beta C + bias), and the words of `Params`
//! that say where every operand lies. Shared by the tiled kernel, the matrix-vector kernel and the combining one.

use crate::ops::{GroupedMatmul, Matmul, MatmulDims};
use crate::{DType, Layout, Operation, Result, Scalar, TensorSpec, UnaryFn};

use crate::plan::looped;
use crate::plan::{Access, Caps, Slot};
use crate::wgsl::element::{Element, Form};
use crate::wgsl::math;
use crate::wgsl::params::axis_members;
use crate::wgsl::pieces::{Pieces, holes, pieces};

/// How elements are got, and what becomes of a sum.
pub(super) const TEXT: Pieces = pieces!("matmul.wgsl");

/// The steps of a kernel's epilogue: part of its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Epilogue {
    /// Rows of A, columns of B have scales.
    pub scale_a: bool,
    pub scale_b: bool,
    /// The scales belong to blocks along K, and the loop over K has applied them already.
    pub blocks: bool,
    /// Alpha is not 1.
    pub scale: bool,
    /// C is read.
    pub add: bool,
    pub bias: bool,
    pub activation: Option<UnaryFn>,
    /// Rows belong to groups, and a buffer says where each group ends. The code here calls the group a batch.
    pub ends: Option<Ends>,
    /// The type in which sums are held.
    pub accumulator: Element,
    /// The type in which the epilogue computes: that of the sums, or f32 where integer sums are stored as floats.
    pub value: Element,
    /// The type in which D, C and bias are stored.
    pub output: Element,
}

/// How a kernel finds the group that owns a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ends {
    /// It goes through the ends, as they are stored.
    Listed(Element),
    /// It searches the table that `index.rs` made of them.
    Indexed,
}

/// Declares the buffer of ends at `binding`, and `fn end_of(group)`.
pub(super) fn end_of(ends: Element, binding: u32) -> String {
    let end = "load_ends(params.ends_base + group * params.ends_step)";
    let end = if ends.dtype() == DType::I32 { format!("u32(max({end}, 0))") } else { end.to_owned() };
    ends.storage(binding, "ends", Form::Scalar, Access::Read) + &TEXT.fill("end_of", holes!(end))
}

/// One batch dimension: its extent and the strides of A, B, C and the scales.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct BatchAxis {
    pub extent: u64,
    pub strides: [i64; 5],
}

/// Places and strides of the operands: everything that does not depend on the kernel.
#[derive(Clone)]
pub(crate) struct Places {
    pub epilogue: Epilogue,
    /// Outermost first, merged where all operands step evenly.
    pub batch: Vec<BatchAxis>,
    alpha: Vec<u32>,
    beta: Vec<u32>,
    bias: (u64, i64),
    /// Base and step of the scales of rows and of columns; none where there are none.
    scales: Vec<(u64, i64)>,
    /// The words of [`BLOCKS`]; none where there are none.
    blocks: Vec<u32>,
    /// Number of groups, from bias to bias, base and step of the ends; none where there are none.
    groups: Vec<u32>,
    target: u64,
    /// Buffers of C, bias, scales and ends, where read.
    pub slots: Vec<Slot>,
}

impl Epilogue {
    /// The epilogue of `op`.
    pub fn of(op: &Matmul, caps: &Caps) -> Result<Epilogue> {
        let accumulator = match op.a.dtype {
            DType::I8 | DType::U8 => DType::I32,
            other => other.compute(),
        };
        let value = if op.dequantises() { DType::F32 } else { accumulator };
        if let Some(f) = op.activation {
            math::require(f, value, caps)?;
        }
        Ok(Epilogue {
            scale_a: op.scale_a.is_some(),
            scale_b: op.scale_b.is_some(),
            blocks: op.scale_blocks.is_some(),
            scale: op.alpha != 1.0,
            add: op.c.is_some() && op.beta != 0.0,
            bias: op.bias.is_some(),
            activation: op.activation,
            ends: None,
            accumulator: Element::new(accumulator, caps)?,
            value: Element::new(value, caps)?,
            output: Element::new(op.output.dtype, caps)?,
        })
    }

    /// Whether the sum is stored unchanged, apart from a change of dtype.
    pub fn is_plain(&self) -> bool {
        let untouched = !self.scale && !self.add && !self.bias && self.activation.is_none();
        untouched && !self.has_scales() && self.value == self.accumulator
    }

    fn has_scales(&self) -> bool {
        self.scale_a || self.scale_b
    }

    /// Whether a kernel that writes bare sums for another launch to end still reads operands of the epilogue: scales of
    /// blocks, ends of groups.
    pub fn is_read_on_the_way(&self) -> bool {
        self.blocks || self.ends.is_some()
    }

    /// The type in which the epilogue receives sums: that of the accumulator, or that of the sums of blocks.
    pub fn sum(&self) -> Element {
        if self.blocks { self.value } else { self.accumulator }
    }

    /// The members of `Params` that every kernel of this op begins with. The scales come first: they may be 64 bits wide.
    pub fn params_text(&self, axes: u8, own: &[&str]) -> String {
        let scale = self.value.param_type();
        let mut text = format!("struct Params {{\n    alpha: {scale}, beta: {scale},\n   ");
        let scales: &[&str] = if self.has_scales() { &SCALES } else { &[] };
        let groups: &[&str] = if self.ends.is_some() { &GROUPS } else { &[] };
        let blocks: &[&str] = if self.blocks { &BLOCKS } else { &[] };
        for name in COMMON.iter().chain(scales).chain(blocks).chain(groups).chain(own) {
            text += &format!(" {name}: u32,");
        }
        let letters = if self.has_scales() { "eabcrs" } else { "eabc" };
        text += &format!("\n   {}\n}}\n", axis_members(letters, axes.into()));
        text + "@group(0) @binding(0) var<uniform> params: Params;\n"
    }

    /// The index of K among the words of `Params`, and that of the first word of a kernel's own.
    pub fn words(&self) -> (usize, usize) {
        let numbers = 2 * self.value.param_words(Scalar::I(0)).len();
        let has = |names: &[&str], wanted| if wanted { names.len() } else { 0 };
        let more = has(&SCALES, self.has_scales()) + has(&BLOCKS, self.blocks) + has(&GROUPS, self.ends.is_some());
        (numbers + 2, numbers + COMMON.len() + more)
    }

    /// Declares C, bias and scales from `binding` on, and `fn epilogue(sum, batch, row, col)`.
    pub fn text(&self, binding: u32, axes: u8) -> String {
        let (acc, value) = (self.sum().scalar(), self.value.scalar());
        let mut text = String::new();
        let mut next = binding;
        for (wanted, name) in [(self.add, "c"), (self.bias, "bias")] {
            if wanted {
                text += &self.output.storage(next, name, Form::Scalar, Access::Read);
                next += 1;
            }
        }
        // Scales are f32, and so are values wherever there are scales.
        for (wanted, name) in [(self.scale_a, "row_scale"), (self.scale_b, "col_scale")] {
            if wanted {
                text += &self.value.storage(next, name, Form::Scalar, Access::Read);
                next += 1;
            }
        }
        text += &self.ends_text(next);
        let mut decode = |wanted, name, base, stride| {
            if wanted {
                text += &crate::wgsl::index::decode(name, base, stride, axes.into());
            }
        };
        decode(self.add, "batch_of_c", "params.c_base", 'c');
        decode(self.scale_a, "batch_of_rows", "params.rows_base", 'r');
        decode(self.scale_b, "batch_of_cols", "params.cols_base", 's');
        let sum = if value == acc { "sum".to_owned() } else { format!("{value}(sum)") };
        let mut steps = String::new();
        if self.ends.is_some() {
            steps += &TEXT.fill("no group", holes!(value));
        }
        for (wanted, step) in [
            (self.scale_a && !self.blocks, "scale a"),
            (self.scale_b && !self.blocks, "scale b"),
            (self.scale, "alpha"),
            (self.add, "add c"),
        ] {
            steps += if wanted { TEXT.get(step) } else { "" };
        }
        if self.bias {
            let group = if self.ends.is_some() { " + batch * params.bias_group" } else { "" };
            steps += &TEXT.fill("bias", holes!(group));
        }
        if let Some(f) = self.activation {
            steps += &TEXT.fill("activation", holes!(activated = math::unary(f, self.value.dtype(), "x")));
        }
        text + &TEXT.fill("epilogue", holes!(acc, value, sum, steps))
    }

    /// Declares at `binding` the buffer that says which rows a group owns, and the functions that find the group of a
    /// tile and of a row; empty where there are no groups.
    pub fn ends_text(&self, binding: u32) -> String {
        match self.ends {
            None => String::new(),
            Some(Ends::Listed(ends)) => end_of(ends, binding) + include_str!("../../../../wgsl/grouped_matmul.wgsl"),
            Some(Ends::Indexed) => {
                let index = format!("@group(0) @binding({binding}) var<storage, read> index: array<vec2<u32>>;\n");
                index + include_str!("../../../../wgsl/grouped_indexed.wgsl")
            }
        }
    }

    /// The most rounds of the loops that find the group of a tile or of a row, for a launch with `params`.
    pub fn group_rounds(&self, params: &[u32]) -> u64 {
        let (_, own) = self.words();
        match self.ends {
            None => 0,
            Some(Ends::Listed(_)) => {
                looped(1 + u64::from(params.get(own - GROUPS.len()).copied().unwrap_or(u32::MAX)), 0)
            }
            Some(Ends::Indexed) => looped(u32::BITS.into(), 0),
        }
    }

    /// Reads of the storage buffers that [`Epilogue::text`] declares.
    pub fn accesses(&self) -> impl Iterator<Item = Access> {
        [self.add, self.bias, self.scale_a, self.scale_b, self.ends.is_some()]
            .into_iter()
            .filter(|&wanted| wanted)
            .map(|_| Access::Read)
    }
}

/// Members of every `Params`, after the scales; strides and bases in elements.
const COMMON: [&str; 9] = ["m", "n", "k", "target_base", "c_base", "c_row", "c_col", "bias_base", "bias_step"];
/// Members after those where there are scales.
const SCALES: [&str; 4] = ["rows_base", "rows_step", "cols_base", "cols_step"];

/// Members after those where the scales are of blocks: steps of the scales of A and B along K, and extents of a block.
const BLOCKS: [&str; 5] = ["rows_k", "cols_k", "block_m", "block_n", "block_k"];
/// Members after those where there are groups.
const GROUPS: [&str; 4] = ["groups", "bias_group", "ends_base", "ends_step"];

impl Places {
    /// Places of a grouped product's operands; `product` is all of its rows times the matrix of the first group.
    pub fn of_groups(op: &GroupedMatmul, product: &Matmul, caps: &Caps) -> Result<Places> {
        let mut places = Places::of(product, caps)?;
        let groups = op.dims().groups;
        if groups > 1 {
            places.batch = vec![BatchAxis { extent: groups, strides: [0, op.b.layout.strides()[0], 0, 0, 0] }];
        }
        let bias = op.bias.map_or(0, |bias| bias.layout.strides()[0]);
        let ends = &op.ends.layout;
        places.groups = vec![groups as u32, bias as u32, ends.offset() as u32, ends.strides()[0] as u32];
        places.epilogue.ends = Some(Ends::Listed(Element::new(op.ends.dtype, caps)?));
        places.slots.push(Slot::Input(op.inputs().len() - 1));
        Ok(places)
    }

    /// The places of `op`'s operands.
    pub fn of(op: &Matmul, caps: &Caps) -> Result<Places> {
        let epilogue = Epilogue::of(op, caps)?;
        let c = op.c.unwrap_or(op.output).layout;
        let layout = |spec: Option<TensorSpec>| spec.map_or(c, |spec| spec.layout);
        let batch = merge([&op.a.layout, &op.b.layout, &c, &layout(op.scale_a), &layout(op.scale_b)]);
        let words = |x: f64| {
            let exact = if op.output.dtype.is_float() { Scalar::F(x) } else { Scalar::I(x as i64) };
            epilogue.value.param_words(exact)
        };
        let bias = op.bias.map_or((0, 0), |bias| (bias.layout.offset(), bias.layout.strides()[0]));
        let end = |spec: Option<TensorSpec>, back: usize| {
            spec.map_or((0, 0), |spec| (spec.layout.offset(), spec.layout.strides()[spec.layout.rank() - back]))
        };
        let scales = if epilogue.has_scales() { vec![end(op.scale_a, 2), end(op.scale_b, 1)] } else { Vec::new() };
        let near = |spec: Option<TensorSpec>, back: usize| end(spec, back).1 as u32;
        let blocks = op.scale_blocks.map_or(Vec::new(), |blocks| {
            let MatmulDims { m, n, k, .. } = op.dims();
            // One block along all of a dimension has that dimension's extent, which fits a word.
            let [m, n, k] = [(blocks.m, m), (blocks.n, n), (blocks.k, k)].map(|(x, all)| x.min(all.max(1)) as u32);
            vec![near(op.scale_a, 1), near(op.scale_b, 2), m, n, k]
        });
        let places = op.places();
        let bound = [places.c.filter(|_| epilogue.add), places.bias, places.scale_a, places.scale_b];
        let slots = bound.into_iter().flatten().map(Slot::Input).collect();
        let (alpha, beta) = (words(op.alpha), words(op.beta));
        let target = op.output.layout.offset();
        Ok(Places { epilogue, batch, alpha, beta, bias, scales, blocks, groups: Vec::new(), target, slots })
    }

    /// Has kernels find groups in the table that lies in `slot`.
    pub fn indexed(&mut self, slot: Slot) {
        self.epilogue.ends = Some(Ends::Indexed);
        // The ends are the last binding.
        if let Some(ends) = self.slots.last_mut() {
            *ends = slot;
        }
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
        params.extend(self.scales.iter().flat_map(|&(base, step)| [base as u32, step as u32]));
        params.extend(&self.blocks);
        params.extend(&self.groups);
        params.extend(own);
        // Innermost first; negative strides wrap as two's complement.
        params.extend(self.batch.iter().rev().map(|axis| axis.extent as u32));
        for operand in 0..if self.scales.is_empty() { 3 } else { 5 } {
            params.extend(self.batch.iter().rev().map(|axis| axis.strides[operand] as u32));
        }
        params
    }
}

/// Merges the batch dimensions (all but the last two) of operands whose batches have one shape.
fn merge(operands: [&Layout; 5]) -> Vec<BatchAxis> {
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

#[cfg(test)]
#[path = "epilogue_tests.rs"]
mod tests;
