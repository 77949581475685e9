//! 2:4 compression: of each four neighbours along the last dimension two are kept, with their places as metadata.
//!
//! A dense [..., rows, k] becomes values [..., rows, 2 g] and metadata [..., rows, ceil(g / 8)] of u32, where g = ceil(k / 4) is
//! the number of groups of four in a row; what a last group has beyond k counts as +0. Group i of a row owns values 2i and
//! 2i + 1 and bits 4 (i mod 8) .. 4 (i mod 8) + 3 of word i / 8: the place (0 to 3) of the first value in the lower two bits,
//! that of the second, which is larger, in the upper two. This is the order within a row that the PTX ISA gives to the sparse
//! metadata of `mma.sp` ("Warp-level matrix instructions: mma.sp"). Bits of groups that a row has not are 0100.
//!
//! Two ops make the two parts, one undoes them: bits move, nothing is computed with, so that NaN payloads, subnormals and
//! signs of zero stay. The product is `ops/sparse_matmul.rs`. Operands are dense row-major: [`crate::Tensor::compress_2_4`]
//! copies views first.

#[cfg(feature = "cpu")]
pub(crate) mod host;
mod multiply;
pub(crate) mod plan;

pub use multiply::SparseMatmul;

use super::prelude::*;

/// Groups of four whose places one word of metadata holds.
pub(crate) const GROUPS_PER_WORD: u64 = 8;

/// A word whose eight groups keep their places 0 and 1: what metadata without content looks like.
pub(crate) const FIRST_TWO: u32 = 0x4444_4444;

/// Which part of a compressed tensor is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part24 {
    /// What is kept, of the input's dtype.
    Values,
    /// Where it was, u32.
    Metadata,
}

/// One part of the 2:4 compression of `input`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Compress24 {
    /// Which part.
    pub part: Part24,
    /// What is compressed: dense, [..., rows, k].
    pub input: TensorSpec,
    /// Dense; see [`Part24::shape_of`].
    pub output: TensorSpec,
}

/// The dense tensor that a compressed one stands for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Decompress24 {
    /// Dense, [..., rows, 2 g].
    pub values: TensorSpec,
    /// Dense u32, [..., rows, ceil(g / 8)].
    pub metadata: TensorSpec,
    /// Dense, [..., rows, k].
    pub output: TensorSpec,
}

/// Groups of four in a row of `k` elements.
pub(crate) const fn groups(k: u64) -> u64 {
    k.div_ceil(4)
}

/// Whether tensors of this dtype are compressed: floats of up to 32 bits and 8-bit integers.
pub(crate) const fn compresses(dtype: DType) -> bool {
    use DType::{BF16, F8E4M3, F8E5M2, F16, F32, I8, U8};
    matches!(dtype, F8E4M3 | F8E5M2 | F16 | BF16 | F32 | I8 | U8)
}

/// How magnitudes are compared: of the bits of an element those that count, and what NaN counts as, so that all are alike.
/// `None` for i8, whose magnitude is no part of its bits.
pub(crate) const fn magnitude_bits(dtype: DType) -> Option<(u32, u32)> {
    Some(match dtype {
        DType::F32 => (0x7fff_ffff, 0x7f80_0001),
        DType::F16 => (0x7fff, 0x7c01),
        DType::BF16 => (0x7fff, 0x7f81),
        DType::F8E4M3 => (0x7f, 0x7f),
        DType::F8E5M2 => (0x7f, 0x7d),
        DType::U8 => (0xff, 0xff),
        _ => return None,
    })
}

impl Part24 {
    /// The shape of this part of a tensor of shape `dense`.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for a scalar, which has no neighbours; [`Error::SizeOverflow`].
    pub fn shape_of(self, dense: &Shape) -> Result<Shape> {
        let mut dims = dense.dims().to_vec();
        let Some(last) = dims.last_mut() else {
            return Err(Error::InvalidArgument { what: "shape", reason: "a scalar has no groups of four".to_owned() });
        };
        *last = match self {
            Part24::Values => 2 * groups(*last),
            Part24::Metadata => groups(*last).div_ceil(GROUPS_PER_WORD),
        };
        Shape::new(&dims)
    }
}

/// Places of the two of largest magnitude, ascending; of equals the first, NaN before everything.
fn kept(group: [Scalar; 4]) -> [usize; 2] {
    let magnitude = |x: Scalar| if x.is_nan() { f64::INFINITY } else { x.as_f64().abs() };
    let beats = |i: usize, j: usize| {
        let order = (group[i].is_nan(), magnitude(group[i])).partial_cmp(&(group[j].is_nan(), magnitude(group[j])));
        order.is_some_and(|order| order.is_gt() || (order.is_eq() && i < j))
    };
    let mut stays = (0..4).filter(|&i| (0..4).filter(|&j| beats(j, i)).count() < 2);
    [stays.next().unwrap_or(0), stays.next().unwrap_or(1)]
}

/// The groups of rows of `k` elements, row by row, the last of each filled up with +0.
fn groups_of(host: &HostTensor, k: usize) -> Vec<Vec<[Scalar; 4]>> {
    let zero = Scalar::F(0.0).cast(host.dtype);
    let group = |group: &[Scalar]| std::array::from_fn(|i| group.get(i).copied().unwrap_or(zero));
    host.values.chunks(k.max(1)).map(|row| row.chunks(4).map(group).collect()).collect()
}

fn check_operand(op: &'static str, spec: &TensorSpec, want: (DType, &Shape)) -> Result<()> {
    if spec.dtype != want.0 {
        return Err(Error::DTypeMismatch { op, expected: want.0, got: spec.dtype });
    }
    if spec.layout.shape() != want.1 {
        return Err(Error::shape_mismatch(op, spec.layout.shape(), want.1, None));
    }
    check_dense(op, spec)
}

fn check_dense(op: &'static str, spec: &TensorSpec) -> Result<()> {
    if spec.layout.is_contiguous() {
        return Ok(());
    }
    let reason = format!("{op} reads dense row-major operands only, not {:?}", spec.layout);
    Err(Error::InvalidArgument { what: "input", reason })
}

/// Checks values and metadata of a compressed tensor of shape `dense`.
pub(crate) fn check_parts(op: &'static str, values: &TensorSpec, metadata: &TensorSpec, dense: &Shape) -> Result<()> {
    if !compresses(values.dtype) {
        return Err(Error::UndefinedForDType { op, dtype: values.dtype });
    }
    check_operand(op, values, (values.dtype, &Part24::Values.shape_of(dense)?))?;
    check_operand(op, metadata, (DType::U32, &Part24::Metadata.shape_of(dense)?))
}

impl Compress24 {
    /// A checked compression into `output`.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for what is not compressed, [`Error::DTypeMismatch`],
    /// [`Error::ShapeMismatch`], [`Error::InvalidArgument`] for operands that are not dense.
    pub fn new(part: Part24, input: TensorSpec, output: TensorSpec) -> Result<Compress24> {
        const OP: &str = "compress24";
        if !compresses(input.dtype) {
            return Err(Error::UndefinedForDType { op: OP, dtype: input.dtype });
        }
        check_dense(OP, &input)?;
        let dtype = if part == Part24::Values { input.dtype } else { DType::U32 };
        check_operand(OP, &output, (dtype, &part.shape_of(input.layout.shape())?))?;
        check_dense_output(OP, &output)?;
        Ok(Compress24 { part, input, output })
    }

    /// Elements of a row of the input.
    pub fn k(&self) -> u64 {
        self.input.layout.dims().last().copied().unwrap_or(0)
    }
}

impl Operation for Compress24 {
    fn name(&self) -> &'static str {
        match self.part {
            Part24::Values => "compress24",
            Part24::Metadata => "compress24_metadata",
        }
    }

    operands! { read input; write output }

    fn validate(&self) -> Result<()> {
        Compress24::new(self.part, self.input, self.output).map(drop)
    }

    /// Five comparisons find two of four.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(self.input.layout.elements() / 4 * 5)
    }

    /// A count of what beats each element of a group, exactly.
    fn oracle(&self, inputs: &[HostTensor]) -> Vec<Vec<Expected>> {
        let mut out = Vec::new();
        for row in groups_of(&inputs[0], self.k() as usize) {
            let pairs: Vec<[usize; 2]> = row.iter().map(|&group| kept(group)).collect();
            match self.part {
                Part24::Values => {
                    let values = row.iter().zip(&pairs).flat_map(|(group, pair)| pair.map(|place| group[place]));
                    out.extend(values.map(Expected::exact));
                }
                Part24::Metadata => out.extend(pairs.chunks(GROUPS_PER_WORD as usize).map(|pairs| {
                    let word = pairs.iter().enumerate().fold(FIRST_TWO, |word, (i, pair)| {
                        word & !(15 << (4 * i)) | ((pair[0] | pair[1] << 2) as u32) << (4 * i)
                    });
                    Expected::exact(Scalar::I(word.into()))
                })),
            }
        }
        vec![out]
    }

    fn gradient(&self, _: &Needs<'_>) -> Result<Gradient> {
        Ok(Gradient::Refused(
            "which elements are kept does not change by small steps: give the gradient of the dense matrix",
        ))
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::compress(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::compress(self, inputs[0], outputs[0]);
        Ok(())
    }

    /// The op on the first `extent` indices of the output's `axis` alone: of any but the last.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        let whole_rows = axis + 1 < self.output.layout.rank();
        let (input, output) = (self.input.dense_first(axis, extent), self.output.dense_first(axis, extent));
        whole_rows.then_some(Compress24 { input: input?, output: output?, ..*self }.into())
    }
}

impl Decompress24 {
    /// A checked decompression into `output`.
    ///
    /// # Errors
    /// As [`Compress24::new`].
    pub fn new(values: TensorSpec, metadata: TensorSpec, output: TensorSpec) -> Result<Decompress24> {
        const OP: &str = "decompress24";
        check_parts(OP, &values, &metadata, output.layout.shape())?;
        check_dtype(OP, &output, values.dtype)?;
        check_dense_output(OP, &output)?;
        Ok(Decompress24 { values, metadata, output })
    }

    /// Elements of a row of the output.
    pub fn k(&self) -> u64 {
        self.output.layout.dims().last().copied().unwrap_or(0)
    }
}

impl Operation for Decompress24 {
    fn name(&self) -> &'static str {
        "decompress24"
    }

    operands! { read values, metadata; write output }

    fn validate(&self) -> Result<()> {
        Decompress24::new(self.values, self.metadata, self.output).map(drop)
    }

    /// None: bits move.
    fn arithmetic(&self) -> Arithmetic {
        Arithmetic::flops(0)
    }

    /// Each value at its place, +0 elsewhere, exactly. Where metadata names one place twice the second value is there, and where
    /// it names a place beyond k its value is nowhere.
    fn oracle(&self, inputs: &[HostTensor]) -> Vec<Vec<Expected>> {
        let zero = Scalar::F(0.0).cast(self.output.dtype);
        let dense = scatter(self.k() as usize, inputs, zero, |i| inputs[0].values[i]);
        vec![dense.into_iter().map(Expected::exact).collect()]
    }

    fn gradient(&self, _: &Needs<'_>) -> Result<Gradient> {
        Ok(Gradient::Refused("decompression has no rule yet"))
    }

    fn plan(&self, caps: &Caps) -> Result<Plan> {
        plan::decompress(self, caps)
    }

    #[cfg(feature = "cpu")]
    fn host(&self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> HostResult {
        host::decompress(self, inputs, outputs[0]);
        Ok(())
    }

    fn describe(&self, name: &mut String) {
        name.push_str(&format!(" k{}", self.k()));
    }

    /// The op on the first `extent` indices of the output's `axis` alone: of any but the last.
    fn piece(&self, axis: usize, extent: u64) -> Option<Op> {
        let first = |spec: &TensorSpec| spec.dense_first(axis, extent);
        (axis + 1 < self.output.layout.rank()).then_some(())?;
        let (values, metadata) = (first(&self.values)?, first(&self.metadata)?);
        Some(Decompress24 { values, metadata, output: first(&self.output)? }.into())
    }
}

/// What `of` gives for each value (by its position among all), where that value lies in the dense tensor; `empty` elsewhere.
pub(crate) fn scatter<T: Copy>(k: usize, inputs: &[HostTensor], empty: T, of: impl Fn(usize) -> T) -> Vec<T> {
    if k == 0 {
        return Vec::new();
    }
    let (groups, words) = (k.div_ceil(4), k.div_ceil(4).div_ceil(GROUPS_PER_WORD as usize));
    let rows = inputs[0].values.len() / (2 * groups);
    let mut out = vec![empty; rows * k];
    for (row, out) in out.chunks_exact_mut(k).enumerate() {
        for value in 0..2 * groups {
            let group = value / 2;
            let word = inputs[1].values[row * words + group / GROUPS_PER_WORD as usize].as_i64();
            let place = word >> (4 * (group % GROUPS_PER_WORD as usize) + 2 * (value % 2)) & 3;
            if let Some(x) = out.get_mut(4 * group + place as usize) {
                *x = of(row * 2 * groups + value);
            }
        }
    }
    out
}

/// The dense row-major layout of the tensor with these values, whose rows have `k` elements.
///
/// # Errors
/// As [`Shape::new`], and [`Error::InvalidArgument`] where `k` is not what the values are of.
pub(crate) fn dense_layout(values: &Shape, k: u64) -> Result<Layout> {
    let mut dims = values.dims().to_vec();
    match dims.last_mut() {
        Some(last) if *last == 2 * groups(k) => *last = k,
        _ => {
            let reason = format!("{k} elements along k do not have values of shape {:?}", values.dims());
            return Err(Error::InvalidArgument { what: "k", reason });
        }
    }
    Ok(Layout::contiguous(Shape::new(&dims)?))
}
