//! Integers of 4 bits, two to a byte, and floats quantised to them: with a scale and, optionally, a zero point for each
//! group along an axis.
//!
//! They are not a dtype: strides, offsets and lengths count whole elements of whole bytes in every layout and kernel,
//! and views that start at half a byte would slow all of them down for a need of storage alone. [`Nibbles`] is a u8
//! tensor with the kind and shape of its elements, so it is copied, stored and sent as any other. Computing starts with
//! [`Nibbles::unpack`] or [`Quantized4::dequantize`], one kernel that reads the bytes.
//!
//! Elements 2 j and 2 j + 1 of the last axis are the low and the high half of byte j; where the last axis is odd, the
//! high half of its last byte is 0. Groups lie along any axis; the last group may be shorter. Not here: matrix products
//! of 4-bit steps; dequantise them first.

use crate::axis::{self, Position};
use crate::{BinaryFn, CompareFn, DType, Error, Expr, IntoShape, KeepDims, MAX_RANK, ReduceFn, Result, Shape, Tensor};

/// The meaning of four bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FourBit {
    /// Two's complement: -8 to 7.
    I4,
    /// Unsigned: 0 to 15.
    U4,
}

impl FourBit {
    /// The dtype of an unpacked element: i8 or u8.
    pub const fn dtype(self) -> DType {
        match self {
            FourBit::I4 => DType::I8,
            FourBit::U4 => DType::U8,
        }
    }

    /// The smallest and the largest number.
    pub const fn range(self) -> (i64, i64) {
        match self {
            FourBit::I4 => (-8, 7),
            FourBit::U4 => (0, 15),
        }
    }

    /// The halves of bytes (input 0) of shape [..., 2] that hold each byte twice: the low half, then the high one, in 32 bits.
    fn halves(self) -> Expr {
        let high = Expr::index().cast(DType::U32).binary(BinaryFn::And, 1);
        let half = (Expr::input(0).cast(DType::U32) >> (high * 4)).binary(BinaryFn::And, 15);
        match self {
            FourBit::I4 => half.cast(DType::I32).binary(BinaryFn::Xor, 8) - 8,
            FourBit::U4 => half,
        }
    }
}

/// A tensor of 4-bit integers, packed two to a byte along the last axis: see the module.
///
/// ```
/// # use polywarp_core::{Device, FourBit, Nibbles, Tensor};
/// let steps = Tensor::from_slice(&Device::cpu(), &[1i8, -2, 7], [3])?;
/// let packed = Nibbles::pack(&steps, FourBit::I4)?;
/// assert_eq!(packed.bytes().to_vec::<u8>()?, [0xe1, 0x07]);
/// assert_eq!(packed.unpack()?.to_vec::<i8>()?, [1, -2, 7]);
/// # Ok::<(), polywarp_core::Error>(())
/// ```
#[derive(Clone, Debug)]
pub struct Nibbles {
    bytes: Tensor,
    kind: FourBit,
    shape: Shape,
}

const OP: &str = "pack";

impl Nibbles {
    /// Packs the low four bits of each of these integers, as casts from integer to integer keep low bits.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for floats and bool, [`Error::InvalidArgument`] for a tensor of rank 0; memory errors of the device.
    pub fn pack(steps: &Tensor, kind: FourBit) -> Result<Nibbles> {
        if !steps.dtype().is_integer() {
            return Err(Error::UndefinedForDType { op: OP, dtype: steps.dtype() });
        }
        let shape = *steps.shape();
        let pairs = paired(steps)?;
        let axis = pairs.rank() - 1;
        let (low, high) = (Expr::input(0).cast(DType::U8), Expr::input(1).cast(DType::U8));
        // The shift drops the bits that leave the byte.
        let byte = low.binary(BinaryFn::And, 15) | high.binary(BinaryFn::Shl, 4);
        let bytes = Tensor::map_named(OP, &byte, &[&pairs.slice(axis, 0..1)?, &pairs.slice(axis, 1..2)?])?;
        Ok(Nibbles { bytes: bytes.reshape(bytes_shape(&shape)?)?, kind, shape })
    }

    /// Elements of shape `shape` that are packed already: `bytes` is u8 of shape [..., ceil(last / 2)].
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`], [`Error::ShapeMismatch`]; [`Error::InvalidArgument`] for a shape of rank 0.
    pub fn new(bytes: Tensor, kind: FourBit, shape: impl IntoShape) -> Result<Nibbles> {
        let shape = shape.into_shape()?;
        if bytes.dtype() != DType::U8 {
            return Err(Error::DTypeMismatch { op: OP, expected: DType::U8, got: bytes.dtype() });
        }
        let wanted = bytes_shape(&shape)?;
        if *bytes.shape() != wanted {
            return Err(Error::shape_mismatch(OP, &wanted, bytes.shape(), None));
        }
        Ok(Nibbles { bytes, kind, shape })
    }

    /// The bytes, u8 of shape [..., ceil(last / 2)], as a file holds them.
    pub fn bytes(&self) -> &Tensor {
        &self.bytes
    }

    /// The meaning of each half byte.
    pub fn kind(&self) -> FourBit {
        self.kind
    }

    /// Extents, in elements.
    pub fn dims(&self) -> &[u64] {
        self.shape.dims()
    }

    /// Unpacks each element to one byte: i8 or u8.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for more than 7 dimensions; memory errors of the device.
    pub fn unpack(&self) -> Result<Tensor> {
        let twice = twice(&self.bytes, self.bytes.dims())?;
        let halves = Tensor::map_named("unpack", &self.kind.halves().cast(self.kind.dtype()), &[&twice])?;
        let (last, extent) = (self.shape.rank() - 1, self.dims()[self.shape.rank() - 1]);
        let mut dims = self.bytes.dims().to_vec();
        dims[last] *= 2;
        halves.reshape(dims)?.slice(last, 0..extent)?.contiguous()
    }
}

/// Views bytes as `dims`, and repeats each of them twice along a new last axis.
fn twice(bytes: &Tensor, dims: &[u64]) -> Result<Tensor> {
    let with = |last: u64| [dims, &[last]].concat();
    bytes.reshape(with(1))?.broadcast_to(with(2))
}

/// Reshapes [..., n] to [..., ceil(n / 2), 2]; an odd last axis gets a zero at its end.
fn paired(x: &Tensor) -> Result<Tensor> {
    let mut dims = bytes_shape(x.shape())?.dims().to_vec();
    dims.push(2);
    let last = x.rank() - 1;
    let even = if x.dims()[last].is_multiple_of(2) { x.clone() } else { padded(x, last, 1)? };
    even.reshape(dims)
}

/// `x` with `count` zeros appended along `axis`.
fn padded(x: &Tensor, axis: usize, count: u64) -> Result<Tensor> {
    let mut amounts = vec![(0, 0); x.rank()];
    amounts[axis].1 = i64::try_from(count).unwrap_or(i64::MAX);
    x.pad_with(&amounts, 0)
}

fn bytes_shape(shape: &Shape) -> Result<Shape> {
    let mut dims = shape.dims().to_vec();
    let Some(last) = dims.last_mut() else {
        return Err(Error::InvalidArgument { what: "shape", reason: "two elements to a byte need an axis".to_owned() });
    };
    *last = last.div_ceil(2);
    Shape::new(&dims)
}

/// Groups of elements along an axis.
#[derive(Clone, Copy, Debug)]
struct Groups {
    shape: Shape,
    axis: usize,
    /// Elements of a group; at most the extent of the axis.
    length: u64,
}

impl Groups {
    fn new(shape: &Shape, axis: usize, length: u64) -> Result<Groups> {
        if length == 0 {
            let reason = format!("groups of no elements along axis {axis} of {:?}", shape.dims());
            return Err(Error::InvalidArgument { what: "group", reason });
        }
        Ok(Groups { shape: *shape, axis, length: length.min(shape.dims()[axis].max(1)) })
    }

    fn extent(&self) -> u64 {
        self.shape.dims()[self.axis]
    }

    fn count(&self) -> u64 {
        self.extent().div_ceil(self.length)
    }

    /// The shape of one value for each group: `extents` with the number of groups along the axis.
    fn dims(&self, extents: &[u64]) -> Vec<u64> {
        let dims = self.shape.dims();
        [&dims[..self.axis], extents, &dims[self.axis + 1..]].concat()
    }

    /// Reshapes `x` to [..., groups, elements of a group, ...]; a shorter last group is filled up with zeros.
    fn split(&self, x: &Tensor) -> Result<Tensor> {
        let missing = self.count() * self.length - self.extent();
        let whole = if missing == 0 { x.clone() } else { padded(x, self.axis, missing)? };
        whole.reshape(self.dims(&[self.count(), self.length]))
    }

    /// Undoes [`Groups::split`].
    fn join(&self, x: &Tensor) -> Result<Tensor> {
        x.reshape(self.dims(&[self.count() * self.length]))?.slice(self.axis, 0..self.extent())
    }

    /// Reshapes one value for each group so that it broadcasts over [`Groups::split`].
    fn spread(&self, x: &Tensor) -> Result<Tensor> {
        x.reshape(self.dims(&[self.count(), 1]))
    }
}

/// Floats quantised to 4-bit steps: value = (step - zero point) scale, with a scale and a zero point for each group along an axis.
///
/// [`Quantized4::steps`], [`Quantized4::scales`] and [`Quantized4::zeros`] are plain tensors: .npz and safetensors hold them, and
/// [`Quantized4::new`] puts them together again.
#[derive(Clone, Debug)]
pub struct Quantized4 {
    steps: Nibbles,
    scales: Tensor,
    zeros: Option<Tensor>,
    groups: Groups,
}

const QUANTIZE: &str = "quantize";

/// The step of a value (input 0) for the scale (input 1) and the zero point (input 2, if there is one): rounded to
/// nearest even, within the range; where the scale is 0 or NaN, the zero point.
fn steps_of(kind: FourBit, has_zeros: bool) -> Expr {
    let (least, most) = kind.range();
    let (x, scale) = (Expr::input(0).cast(DType::F32), Expr::input(1));
    let zero = if has_zeros { Expr::input(2).cast(DType::F32) } else { Expr::constant(0.0).cast(DType::F32) };
    let steps = ((x / scale.clone()).round() + zero.clone()).clamp(least as f64, most as f64);
    scale.compare(CompareFn::Gt, 0.0).select(steps, zero).cast(kind.dtype())
}

/// The value of a step for the scale (input 1) and the zero point (input 2, if there is one).
fn value_of(step: &Expr, has_zeros: bool, dtype: DType) -> Expr {
    let step = step.cast(DType::F32);
    let away = if has_zeros { step - Expr::input(2).cast(DType::F32) } else { step };
    (away * Expr::input(1)).cast(dtype)
}

impl Tensor {
    /// Quantises these floats to 4-bit steps, with a scale for each `group` of elements along `axis` (the last group
    /// may be shorter). Groups of 32 to 128 elements along k are usual for weights.
    ///
    /// [`FourBit::I4`] is symmetric, without zero points: scale = largest magnitude / 7, steps -7 to 7. [`FourBit::U4`] spans from the smallest
    /// to the largest element and 0: scale = span / 15, zero point = the step that stands for 0. Every finite value comes back within half a
    /// scale (and 2^-18 of a span). A group of zeros comes back as zeros, one with a NaN or an infinity as NaN.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for tensors that are not floats, [`Error::AxisOutOfRange`],
    /// [`Error::InvalidArgument`] for groups of no elements and for more than 7 dimensions; memory errors of the device.
    pub fn quantize4(&self, kind: FourBit, axis: impl Position, group: u64) -> Result<Quantized4> {
        let groups = groups_of(self, axis, group)?;
        let split = groups.split(self)?;
        let over = [groups.axis + 1];
        let (scales, zeros) = match kind {
            FourBit::I4 => {
                let largest = split.reduce(ReduceFn::AbsMax, over, KeepDims::Yes)?;
                let scale = Expr::input(0).cast(DType::F32) / 7.0;
                (Tensor::map_named(QUANTIZE, &scale, &[&largest])?, None)
            }
            FourBit::U4 => {
                let least = split.reduce(ReduceFn::Min, over, KeepDims::Yes)?;
                let most = split.reduce(ReduceFn::Max, over, KeepDims::Yes)?;
                let low = Expr::input(0).cast(DType::F32).binary(BinaryFn::Min, 0.0);
                let high = Expr::input(1).cast(DType::F32).binary(BinaryFn::Max, 0.0);
                let scales = Tensor::map_named(QUANTIZE, &((high - low.clone()) / 15.0), &[&least, &most])?;
                let (scale, zero) = (Expr::input(1), (-low / Expr::input(1)).round().clamp(0.0, 15.0));
                let zero = scale.compare(CompareFn::Gt, 0.0).select(zero, 0.0).cast(DType::U8);
                let zeros = Tensor::map_named(QUANTIZE, &zero, &[&least, &scales])?;
                (scales, Some(zeros))
            }
        };
        let of_group = groups.dims(&[groups.count()]);
        let zeros = zeros.map(|zeros| zeros.reshape(of_group.clone())).transpose()?;
        with_scales(self, kind, groups, scales.reshape(of_group)?, zeros)
    }

    /// As [`Tensor::quantize4`] with given scales, and zero points where they are given: step = value / scale to
    /// nearest even, plus the zero point, limited to the range of `kind`. Both have this shape, except for one element
    /// along `axis` for each group; scales are f32, zero points of [`FourBit::dtype`].
    ///
    /// # Errors
    /// As [`Tensor::quantize4`] and [`Quantized4::new`].
    pub fn quantize4_with(
        &self,
        kind: FourBit,
        axis: impl Position,
        group: u64,
        scales: Tensor,
        zeros: Option<Tensor>,
    ) -> Result<Quantized4> {
        let groups = groups_of(self, axis, group)?;
        check(kind, &groups, &scales, zeros.as_ref())?;
        with_scales(self, kind, groups, scales, zeros)
    }
}

fn groups_of(x: &Tensor, axis: impl Position, group: u64) -> Result<Groups> {
    if !x.dtype().is_float() {
        return Err(Error::UndefinedForDType { op: QUANTIZE, dtype: x.dtype() });
    }
    Groups::new(x.shape(), x.axis(axis)?, group)
}

fn with_scales(x: &Tensor, kind: FourBit, groups: Groups, scales: Tensor, zeros: Option<Tensor>) -> Result<Quantized4> {
    let of_group = [Some(&scales), zeros.as_ref()].into_iter().flatten().map(|each| groups.spread(each));
    let operands = [groups.split(x)].into_iter().chain(of_group).collect::<Result<Vec<_>>>()?;
    let steps = Tensor::map_named(QUANTIZE, &steps_of(kind, zeros.is_some()), &operands.iter().collect::<Vec<_>>())?;
    let steps = Nibbles::pack(&groups.join(&steps)?, kind)?;
    Ok(Quantized4 { steps, scales, zeros, groups })
}

fn check(kind: FourBit, groups: &Groups, scales: &Tensor, zeros: Option<&Tensor>) -> Result<()> {
    let wanted = Shape::new(&groups.dims(&[groups.count()]))?;
    for (tensor, expected) in [(Some(scales), DType::F32), (zeros, kind.dtype())] {
        let Some(tensor) = tensor else { continue };
        if tensor.dtype() != expected {
            return Err(Error::DTypeMismatch { op: QUANTIZE, expected, got: tensor.dtype() });
        }
        if *tensor.shape() != wanted {
            return Err(Error::shape_mismatch(QUANTIZE, &wanted, tensor.shape(), None));
        }
    }
    Ok(())
}

impl Quantized4 {
    /// A tensor of given steps, with the scales and zero points of groups of `group` elements along `axis`. Scales are
    /// f32, zero points of [`FourBit::dtype`]; both have the steps' shape with ceil(extent / `group`) along the axis.
    ///
    /// # Errors
    /// [`Error::AxisOutOfRange`], [`Error::InvalidArgument`] for groups of nothing, [`Error::DTypeMismatch`], [`Error::ShapeMismatch`],
    /// [`Error::DeviceMismatch`].
    pub fn new(
        steps: Nibbles,
        scales: Tensor,
        zeros: Option<Tensor>,
        axis: impl Position,
        group: u64,
    ) -> Result<Quantized4> {
        let groups = Groups::new(&steps.shape, axis::axis(axis, steps.shape.rank())?, group)?;
        check(steps.kind, &groups, &scales, zeros.as_ref())?;
        for tensor in [Some(&scales), zeros.as_ref()].into_iter().flatten() {
            steps.bytes.expect_device(QUANTIZE, tensor)?;
        }
        Ok(Quantized4 { steps, scales, zeros, groups })
    }

    /// The steps, two to a byte.
    pub fn steps(&self) -> &Nibbles {
        &self.steps
    }

    /// The value of one step, for each group.
    pub fn scales(&self) -> &Tensor {
        &self.scales
    }

    /// The step of each group that represents 0; `None` where step 0 does in all groups.
    pub fn zeros(&self) -> Option<&Tensor> {
        self.zeros.as_ref()
    }

    /// Bytes of steps, scales and zero points.
    pub fn size_bytes(&self) -> u64 {
        let tensors = [Some(&self.steps.bytes), Some(&self.scales), self.zeros.as_ref()];
        tensors.into_iter().flatten().map(|tensor| tensor.spec().bytes()).sum()
    }

    /// The values as `dtype`, a float: (step - zero point) scale in f32, rounded once. One kernel where the last axis
    /// is even and groups are whole (and, along the last axis, of even length); else the steps are unpacked first.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for a dtype that is no float, [`Error::UnsupportedDType`]; memory errors of the device.
    pub fn dequantize(&self, dtype: DType) -> Result<Tensor> {
        const OP: &str = "dequantize";
        if !dtype.is_float() {
            return Err(Error::UndefinedForDType { op: OP, dtype });
        }
        let kind = self.steps.kind;
        let of_group = || [Some(&self.scales), self.zeros.as_ref()].into_iter().flatten();
        if let Some((bytes, dims)) = self.at_once() {
            let mut operands = vec![twice(&self.steps.bytes, &bytes)?];
            for tensor in of_group() {
                operands.push(tensor.reshape(dims.clone())?);
            }
            let value = value_of(&kind.halves(), self.zeros.is_some(), dtype);
            return Tensor::map_named(OP, &value, &operands.iter().collect::<Vec<_>>())?.reshape(self.groups.shape);
        }
        let mut operands = vec![self.groups.split(&self.steps.unpack()?)?];
        for tensor in of_group() {
            operands.push(self.groups.spread(tensor)?);
        }
        let value = value_of(&Expr::input(0), self.zeros.is_some(), dtype);
        let values = Tensor::map_named(OP, &value, &operands.iter().collect::<Vec<_>>())?;
        self.groups.join(&values)?.contiguous()
    }

    /// The extents of the bytes, each of which is read twice, and those of the scales beside them; `None` unless halves
    /// of bytes are elements of whole groups.
    fn at_once(&self) -> Option<(Vec<u64>, Vec<u64>)> {
        let groups = &self.groups;
        let (rank, last) = (groups.shape.rank(), groups.shape.dims()[groups.shape.rank() - 1]);
        if rank + 2 > MAX_RANK || !last.is_multiple_of(2) || !groups.extent().is_multiple_of(groups.length) {
            return None;
        }
        if groups.axis + 1 == rank {
            let pairs = groups.length / 2;
            let is_even = groups.length.is_multiple_of(2);
            return is_even.then(|| (groups.dims(&[groups.count(), pairs]), groups.dims(&[groups.count(), 1, 1])));
        }
        let halved = |extents: &[u64]| {
            let mut dims = groups.dims(extents);
            let last = dims.len() - 1;
            dims[last] /= 2;
            dims
        };
        let mut of_group = halved(&[groups.count(), 1]);
        of_group.push(2);
        Some((halved(&[groups.count(), groups.length]), of_group))
    }
}

#[cfg(test)]
#[path = "nibbles_tests.rs"]
mod tests;
