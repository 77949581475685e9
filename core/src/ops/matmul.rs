//! Matrix products: D = activation(alpha (scale_a A)(B scale_b) + beta C + bias), batched, with broadcasting.
//!
//! A is [..., m, k], B [..., k, n], C and D [..., m, n], bias `[n]`. Transposes are strides of the operands' layouts. Batch
//! dimensions are broadcast before the op exists (stride 0). Products of 8- and 16-bit floats accumulate in f32, i8 and u8
//! products in i32; the other integers wrap.
//!
//! As in BLAS, a factor of 0 removes the term that it scales. With a beta of 0 C is not read. With an alpha of 0 A, B
//! and their scales are not read, and D = activation(beta C + bias), whatever NaN and infinities they hold. A kernel's
//! own product of 0 and NaN would be NaN, so [`Matmul::check`] hands backends a product of K = 0 instead. An alpha that
//! rounds to 0 in the computing type counts as 0.
//!
//! The two 8-bit floats may be mixed, as hardware does, and give f32, f16 or bf16. Their products are exact in f32, but
//! Hopper's and Ada's tensor cores add them with 14 bits ([`Matmul::product_roundoff`]). A kernel there must move its
//! sum to f32 every [`PROMOTED_EVERY`] products: the bound holds for such a kernel, and rejects one that never does.
//!
//! Quantised operands are 8-bit tensors with f32 scales: scale_a [..., m, 1] of A's rows, scale_b [..., 1, n] of B's
//! columns; with a stride of 0 one scale serves all. A sum of integers is converted to f32. Every backend multiplies
//! the sum by scale_a, then scale_b, then alpha, because the order decides what overflows or vanishes on the way. NaN
//! and infinite scales act as in f32. The scaled sum, beta C and bias may be added in any order. Scales of blocks
//! ([`Matmul::scale_blocks`]) change along K as well: `matmul/blocks.rs`.

mod blocks;
mod build;
mod extents;
mod gradient;
#[cfg(feature = "cpu")]
pub(crate) mod host;
pub(super) mod key;
mod oracle;
pub(super) mod parts;
mod places;
pub(crate) mod plan;
mod roundoff;
pub(super) mod tuned;

use std::fmt::Write;
use std::hash::{Hash, Hasher};

use super::prelude::*;
use super::sample::{every, thin};
use crate::Precision;
use crate::operation::Tuned;

pub use blocks::ScaleBlocks;
pub(crate) use extents::Extents;
pub(super) use oracle::{ended, scaled};
pub use places::MatmulPlaces;

/// The most products of 8-bit floats that a kernel may add along K before it moves the sum to f32.
pub const PROMOTED_EVERY: u64 = 128;

/// A (batched) matrix product with its epilogue.
#[derive(Clone, Debug)]
pub struct Matmul {
    /// Left operand, [..., m, k].
    pub a: TensorSpec,
    /// Right operand, [..., k, n]; of A's dtype, or the other 8-bit float.
    pub b: TensorSpec,
    /// Addend, [..., m, n], scaled by beta; of the output's dtype.
    pub c: Option<TensorSpec>,
    /// Vector of length n added to every row, unscaled; of the output's dtype.
    pub bias: Option<TensorSpec>,
    /// Scales of A's rows, f32 [..., m, 1]: of 8-bit operands and results that are floats.
    pub scale_a: Option<TensorSpec>,
    /// Scales of B's columns, f32 [..., 1, n].
    pub scale_b: Option<TensorSpec>,
    /// Where it is given, one scale serves a block: scales of A are [..., ceil(m / block m), ceil(k / block k)], those
    /// of B [..., ceil(k / block k), ceil(n / block n)].
    pub scale_blocks: Option<ScaleBlocks>,
    /// Scale of the product; where it is 0, A, B and their scales are not read.
    pub alpha: f64,
    /// Scale of C; where it is 0, C is not read.
    pub beta: f64,
    /// Applied last: relu, gelu, silu, tanh or sigmoid.
    pub activation: Option<UnaryFn>,
    /// How exact f32 products must be.
    pub precision: Precision,
    /// Dense output, [..., m, n].
    pub output: TensorSpec,
}

impl Matmul {
    /// Every field, alpha and beta by their bits: 0 and -0 are different products, and NaN equals itself.
    fn identity(&self) -> impl Eq + Hash + use<'_> {
        let Matmul { a, b, c, bias, scale_a, scale_b, scale_blocks, alpha, beta, activation, precision, output } = self;
        let operands = (a, b, c, bias, scale_a, scale_b, output);
        (operands, scale_blocks, [alpha.to_bits(), beta.to_bits()], activation, precision)
    }
}

impl PartialEq for Matmul {
    fn eq(&self, other: &Matmul) -> bool {
        self.identity() == other.identity()
    }
}

impl Eq for Matmul {}

impl Hash for Matmul {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.identity().hash(state);
    }
}

/// The extents of a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatmulDims {
    /// Products in the batch.
    pub batch: u64,
    /// Rows of A and D.
    pub m: u64,
    /// Columns of B and D.
    pub n: u64,
    /// Columns of A, rows of B.
    pub k: u64,
}

impl Matmul {
    /// The result dtype of a product of `dtype` operands, unless the caller asks for another; `None` for dtypes that
    /// have no product: bool, i16, u16 and u64.
    pub const fn output_dtype(dtype: DType) -> Option<DType> {
        match dtype {
            DType::F8E4M3 | DType::F8E5M2 => Some(DType::F32),
            DType::I8 | DType::U8 => Some(DType::I32),
            DType::Bool | DType::I16 | DType::U16 | DType::U64 => None,
            other => Some(other),
        }
    }

    /// Whether operands of `dtype` can give results of dtype `output`: every dtype gives that of
    /// [`Matmul::output_dtype`]; f16 and bf16 also give f32, 8-bit floats f16 and bf16, 8-bit integers f32, f16 and bf16.
    pub fn gives(dtype: DType, output: DType) -> bool {
        let other = match dtype {
            DType::F8E4M3 | DType::F8E5M2 => matches!(output, DType::F16 | DType::BF16),
            DType::F16 | DType::BF16 => output == DType::F32,
            DType::I8 | DType::U8 => Matmul::is_dequantised(dtype, output),
            _ => false,
        };
        other || Matmul::output_dtype(dtype) == Some(output)
    }

    /// Whether operands of this dtype may have scales: those of 8 bits.
    pub const fn takes_scales(dtype: DType) -> bool {
        matches!(dtype, DType::F8E4M3 | DType::F8E5M2 | DType::I8 | DType::U8)
    }

    /// Whether sums of 8-bit integers are stored as floats.
    pub const fn is_dequantised(dtype: DType, output: DType) -> bool {
        matches!(dtype, DType::I8 | DType::U8) && matches!(output, DType::F32 | DType::F16 | DType::BF16)
    }

    /// D = A B with no epilogue; fill in the other fields and call [`Matmul::check`].
    pub fn product(a: TensorSpec, b: TensorSpec, output: TensorSpec) -> Matmul {
        Matmul {
            a,
            b,
            c: None,
            bias: None,
            scale_a: None,
            scale_b: None,
            scale_blocks: None,
            alpha: 1.0,
            beta: 0.0,
            activation: None,
            precision: Precision::default(),
            output,
        }
    }

    /// Checks that the operands fit together, and gives the op that backends run: itself, or where alpha is 0 one whose
    /// A, B and scales have a K of 0.
    ///
    /// The operands have one dtype, or are both 8-bit floats; the output has one that [`Matmul::gives`] allows.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], [`Error::InnerDimension`], [`Error::DTypeMismatch`], [`Error::UndefinedForDType`],
    /// [`Error::InvalidArgument`] for an epilogue that has no meaning.
    pub fn check(self) -> Result<Matmul> {
        let op = self.check_whole()?;
        if op.is_without_product() { op.without_product() } else { Ok(op) }
    }

    /// Whether alpha is 0 in the computing type, so that nothing of the product is left.
    pub(super) fn is_without_product(&self) -> bool {
        Scalar::F(self.alpha).cast(self.compute()).as_f64() == 0.0
    }

    /// The type in which alpha and beta are applied.
    fn compute(&self) -> DType {
        if self.output.dtype.is_float() { self.output.dtype.compute() } else { DType::F64 }
    }

    fn without_product(self) -> Result<Matmul> {
        let rank = self.output.layout.rank();
        let empty =
            |spec: TensorSpec, axis| Ok::<_, Error>(TensorSpec { layout: spec.layout.slice(axis, 0, 0, 1)?, ..spec });
        let has_scales = self.scale_a.is_some() || self.scale_b.is_some();
        Ok(Matmul {
            a: empty(self.a, rank - 1)?,
            b: empty(self.b, rank - 2)?,
            // Without K there are no blocks and so no scales of blocks; scales of rows would still multiply the sum.
            scale_a: self.scale_a.map(|scale| empty(scale, rank - 1)).transpose()?,
            scale_b: self.scale_b.map(|scale| empty(scale, rank - 2)).transpose()?,
            scale_blocks: self.scale_blocks.or(has_scales.then_some(ScaleBlocks { m: 1, n: 1, k: 1 })),
            alpha: 0.0,
            ..self
        })
    }

    /// The checks of [`Matmul::check`] alone.
    pub(super) fn check_whole(self) -> Result<Matmul> {
        const OP: &str = "matmul";
        let (a, b, d) = (self.a.layout.shape(), self.b.layout.shape(), self.output.layout.shape());
        let rank = d.rank();
        if rank < 2 || a.rank() != rank || b.rank() != rank {
            return Err(Error::shape_mismatch(OP, a, b, None));
        }
        let (k_lhs, k_rhs) = (a.dims()[rank - 1], b.dims()[rank - 2]);
        if k_lhs != k_rhs {
            return Err(Error::InnerDimension { lhs: a.dims().to_vec(), rhs: b.dims().to_vec(), k_lhs, k_rhs });
        }
        for axis in 0..rank {
            let fits = match axis {
                _ if axis == rank - 2 => a.dims()[axis] == d.dims()[axis],
                _ if axis == rank - 1 => b.dims()[axis] == d.dims()[axis],
                _ => a.dims()[axis] == d.dims()[axis] && b.dims()[axis] == d.dims()[axis],
            };
            if !fits {
                return Err(Error::shape_mismatch(OP, a, b, Some(axis)));
            }
        }
        Matmul::check_dtypes(OP, self.a.dtype, self.b.dtype, self.output.dtype)?;
        self.check_scales()?;
        self.check_epilogue()?;
        let run = self.scale_blocks.map_or(u64::MAX, |blocks| blocks.k).min(self.dims().k);
        Matmul::check_exact(self.a.dtype, self.output.dtype, run)?;
        check_dense_output(OP, &self.output)?;
        Ok(self)
    }

    /// The longest K whose products of integers of `dtype` always fit an i32 sum.
    pub const fn longest_exact(dtype: DType) -> u64 {
        let largest: u64 = match dtype {
            DType::I8 => 128 * 128,
            DType::U8 => 255 * 255,
            _ => return u64::MAX,
        };
        (i32::MAX as u64) / largest
    }

    /// Refuses integer sums of `k` products that are stored as floats but might wrap in i32: the float would then be a wrong number.
    pub(super) fn check_exact(input: DType, output: DType, k: u64) -> Result<()> {
        let longest = Matmul::longest_exact(input);
        if !Matmul::is_dequantised(input, output) || k <= longest {
            return Ok(());
        }
        let reason = format!(
            "{k} products of {input} may not fit the i32 that they are added in; {longest} do: give scales in blocks of no more \
             along k, add up products of parts of k, or take i32 results, which wrap"
        );
        Err(Error::InvalidArgument { what: "k", reason })
    }

    /// The dtypes of operands and result, for `op`.
    pub(super) fn check_dtypes(op: &'static str, a: DType, b: DType, output: DType) -> Result<()> {
        if a != b && !(a.is_float8() && b.is_float8()) {
            return Err(Error::DTypeMismatch { op, expected: a, got: b });
        }
        let expected = Matmul::output_dtype(a).ok_or(Error::UndefinedForDType { op, dtype: a })?;
        if Matmul::gives(a, output) { Ok(()) } else { Err(Error::DTypeMismatch { op, expected, got: output }) }
    }

    /// Whether `activation` is one, and defined for results of `dtype`.
    pub(super) fn check_activation(activation: Option<UnaryFn>, dtype: DType) -> Result<()> {
        match activation {
            Some(f) if !f.is_activation() => {
                Err(Error::InvalidArgument { what: "activation", reason: format!("{} is not one", f.name()) })
            }
            Some(f) if !f.defined_for(dtype) => Err(Error::UndefinedForDType { op: f.name(), dtype }),
            _ => Ok(()),
        }
    }

    fn check_scales(&self) -> Result<()> {
        const OP: &str = "matmul";
        if let Some(blocks) = self.scale_blocks {
            blocks.check()?;
        }
        if self.scale_a.is_none() && self.scale_b.is_none() {
            return match self.scale_blocks {
                None => Ok(()),
                Some(blocks) => {
                    let reason = format!("{blocks:?} of scales, but neither A nor B has scales");
                    Err(Error::InvalidArgument { what: "scale blocks", reason })
                }
            };
        }
        let (input, output) = (self.a.dtype, self.output.dtype);
        if !Matmul::takes_scales(input) || !output.is_float() {
            let reason = format!("they belong to 8-bit operands and float results, not to {input} and {output}");
            return Err(Error::InvalidArgument { what: "scales", reason });
        }
        let d = self.output.layout.shape();
        let rank = d.rank();
        for (scale, last) in [&self.scale_a, &self.scale_b].into_iter().zip(self.scale_extents()) {
            let Some(scale) = scale else { continue };
            if scale.dtype != DType::F32 {
                return Err(Error::DTypeMismatch { op: OP, expected: DType::F32, got: scale.dtype });
            }
            let wanted = Shape::new(&[&d.dims()[..rank - 2], &last].concat())?;
            if *scale.layout.shape() != wanted {
                return Err(Error::shape_mismatch(OP, scale.layout.shape(), &wanted, None));
            }
        }
        Ok(())
    }

    fn check_epilogue(&self) -> Result<()> {
        const OP: &str = "matmul";
        let d = self.output.layout.shape();
        if let Some(c) = self.c.filter(|c| c.layout.shape() != d) {
            return Err(Error::shape_mismatch(OP, c.layout.shape(), d, None));
        }
        if let Some(bias) = self.bias.filter(|bias| bias.layout.dims() != &d.dims()[d.rank() - 1..]) {
            return Err(Error::shape_mismatch(OP, bias.layout.shape(), d, Some(d.rank() - 1)));
        }
        for addend in [&self.c, &self.bias].into_iter().flatten() {
            if addend.dtype != self.output.dtype {
                return Err(Error::DTypeMismatch { op: OP, expected: self.output.dtype, got: addend.dtype });
            }
        }
        let invalid = |what, reason: String| Err(Error::InvalidArgument { what, reason });
        if self.c.is_none() && self.beta != 0.0 {
            return invalid("beta", format!("{} scales C, which is not given", self.beta));
        }
        let dtype = self.output.dtype;
        if !dtype.is_float() && (self.alpha.fract() != 0.0 || self.beta.fract() != 0.0) {
            return invalid("alpha, beta", format!("{} and {} must be integers for {dtype}", self.alpha, self.beta));
        }
        Matmul::check_activation(self.activation, dtype)
    }

    /// The extents.
    pub fn dims(&self) -> MatmulDims {
        let d = self.output.layout.dims();
        let rank = d.len();
        MatmulDims {
            batch: d[..rank - 2].iter().product(),
            m: d[rank - 2],
            n: d[rank - 1],
            k: self.a.layout.dims()[rank - 1],
        }
    }

    /// Whether the sum is converted on its way out: a sum of integers stored as a float, or one with scales.
    pub fn is_quantised(&self) -> bool {
        self.dequantises() || self.scale_a.is_some() || self.scale_b.is_some()
    }

    /// Whether this is a product of integers stored as floats.
    pub fn dequantises(&self) -> bool {
        Matmul::is_dequantised(self.a.dtype, self.output.dtype)
    }
}

impl Operation for Matmul {
    fn name(&self) -> &'static str {
        "matmul"
    }

    operands! { read a, b, c, bias, scale_a, scale_b; write output }

    fn validate(&self) -> Result<()> {
        self.clone().check().map(drop)
    }

    /// 2 m n k per product.
    fn arithmetic(&self) -> Arithmetic {
        let MatmulDims { batch, m, n, k } = self.dims();
        let flops = [2, batch, m, n, k].into_iter().fold(1, u64::saturating_mul);
        Arithmetic { flops, multiplies: Some(self.a.dtype) }
    }

    fn oracle(&self, inputs: &[HostTensor]) -> Vec<Vec<Expected>> {
        vec![self.expected(inputs)]
    }

    fn gradient(&self, needs: &Needs<'_>) -> Result<Gradient> {
        gradient::of(self, needs)
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::plan(self, caps)
    }

    fn candidates(&self, caps: &Caps) -> Result<Vec<Candidate>> {
        plan::candidates(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::execute(self, inputs, outputs[0])
    }

    fn describe(&self, name: &mut String) {
        describe_epilogue(name, self);
    }

    fn facts(&self) -> Facts {
        Facts { repeats: true, ..Facts::default() }
    }

    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        Some(self.first(axis, extent)?.into())
    }

    fn tuned(&self) -> Option<&dyn Tuned> {
        Some(self)
    }

    fn content(&self, input: usize) -> Content {
        if self.places().scales().contains(&Some(input)) { Content::Scales } else { Content::Any }
    }

    fn shortened(&self) -> Result<Option<Op>> {
        let Some([a, b]) = without_last_k(&self.a, &self.b)? else { return Ok(None) };
        Ok(Some(Matmul { a, b, ..self.clone() }.check()?.into()))
    }

    fn sample(&self) -> Result<Option<Sample>> {
        /// Rows, columns and products of the batch that are kept.
        const KEEP: u64 = 12;
        let (rank, dims) = (self.output.layout.rank(), self.dims());
        let blocks = self.scale_blocks.unwrap_or(ScaleBlocks { m: 1, n: 1, k: dims.k });
        // Kept rows and columns lie whole blocks apart, so that each has scales of its own.
        let step = |len: u64, block: u64| (len / KEEP / block * block).max(block.min(len)).max(1);
        let (rows, cols) = (step(dims.m, blocks.m), step(dims.n, blocks.n));
        let cut = |spec: &TensorSpec, steps: [Option<u64>; 2]| -> Result<TensorSpec> {
            let mut out = spec.layout;
            for axis in 0..rank - 2 {
                out = thin(&out, axis, 2)?;
            }
            for (axis, step) in (rank - 2..rank).zip(steps) {
                out = step.map_or(Ok(out), |step| every(&out, axis, step))?;
            }
            Ok(TensorSpec::new(spec.dtype, out))
        };
        let cut_option = |spec: &Option<TensorSpec>, steps| spec.as_ref().map(|spec| cut(spec, steps)).transpose();
        let bias = |bias: &TensorSpec| Ok::<_, Error>(TensorSpec::new(bias.dtype, every(&bias.layout, 0, cols)?));
        let positions = cut(&self.output, [Some(rows), Some(cols)])?.layout;
        let op = Matmul {
            a: cut(&self.a, [Some(rows), None])?,
            b: cut(&self.b, [None, Some(cols)])?,
            c: cut_option(&self.c, [Some(rows), Some(cols)])?,
            bias: self.bias.as_ref().map(bias).transpose()?,
            scale_a: cut_option(&self.scale_a, [Some(rows.div_ceil(blocks.m)), None])?,
            scale_b: cut_option(&self.scale_b, [None, Some(cols.div_ceil(blocks.n))])?,
            scale_blocks: self.scale_blocks.map(|blocks| ScaleBlocks { m: 1, n: 1, k: blocks.k }),
            output: sample::dense(self.output.dtype, &positions),
            ..self.clone()
        };
        Ok(Some(Sample { op: op.check()?.into(), positions: vec![positions] }))
    }
}

impl dyn Operation {
    /// The dense product: the operation itself, or the one that a sparse product computes.
    pub fn product(&self) -> Option<&Matmul> {
        self.get::<Matmul>().or_else(|| Some(&self.get::<super::SparseMatmul>()?.product))
    }
}

/// A and B without the last k; `None` where there is none.
pub(super) fn without_last_k(a: &TensorSpec, b: &TensorSpec) -> Result<Option<[TensorSpec; 2]>> {
    let (across, down) = (a.layout.rank() - 1, b.layout.rank() - 2);
    let Some(k) = a.layout.dims()[across].checked_sub(1) else { return Ok(None) };
    let cut = |spec: &TensorSpec, axis| Ok::<_, Error>(TensorSpec::new(spec.dtype, spec.layout.slice(axis, 0, k, 1)?));
    Ok(Some([cut(a, across)?, cut(b, down)?]))
}

/// Adds to a case's name what distinguishes products of equal operands: the parts of the epilogue.
pub(super) fn describe_epilogue(name: &mut String, op: &Matmul) {
    if op.alpha != 1.0 {
        let _ = write!(name, " alpha{}", op.alpha);
    }
    if op.c.is_some() {
        let _ = write!(name, " c beta{}", op.beta);
    }
    let parts = [(op.bias, " bias"), (op.scale_a, " scale_a"), (op.scale_b, " scale_b")];
    parts.into_iter().filter(|(part, _)| part.is_some()).for_each(|(_, word)| name.push_str(word));
    if let Some(ScaleBlocks { m, n, k }) = op.scale_blocks {
        let _ = write!(name, " blocks{m}x{n}x{k}");
    }
    describe_end(name, op.activation, op.precision);
}

/// Adds activation and precision to a case's name.
pub(super) fn describe_end(name: &mut String, activation: Option<UnaryFn>, precision: Precision) {
    if let Some(f) = activation {
        let _ = write!(name, " {}", f.name());
    }
    if precision != Precision::default() {
        let _ = write!(name, " {precision:?}");
    }
}

#[cfg(test)]
mod tests;
