//! Tensors: a view of typed elements on a device.
//!
//! A [`Tensor`] is a device, a shared buffer, a dtype and a [`Layout`]; clones and views share the buffer. Every operation
//! returns a new tensor and is checked before the device sees it. Nothing waits for the device until a result is read.
//!
//! | to find | look in |
//! |---|---|
//! | views | `view.rs` |
//! | joining, splitting, padding, repeating | `join.rs` |
//! | tensors and masks made from positions | `fill.rs` |
//! | indexing; positions outside | `along.rs`; `outside.rs` |
//! | elementwise arithmetic; operators | `math.rs`, `functions.rs`; `operators.rs` |
//! | programs of several results, updates in place | `update.rs` |
//! | products, reductions, random numbers; f64 of random words; their keys | `compute.rs`; `numbers.rs`; `random_key.rs` |
//! | the best few, order statistics, distinct values; statistics | `order.rs`; `statistics.rs` |
//! | a tensor as text | `show.rs` |
//! | grouped, 8-bit and 2:4 compressed products | `grouped.rs`, `quantize.rs`, `sparse24.rs` |

mod along;
mod compute;
mod fill;
mod functions;
mod group_norm;
mod grouped;
mod join;
mod math;
pub(crate) mod numbers;
mod operators;
mod order;
pub(crate) mod outside;
pub(crate) mod quantize;
mod random_key;
mod show;
mod sparse24;
mod statistics;
mod update;
mod view;

pub use compute::MatmulOptions;
pub use grouped::GroupedMatmulOptions;
pub use join::MeshOrder;
pub use math::TensorOrNumber;
pub(crate) use order::Lines;
pub use order::Unique;
pub use quantize::{FourBit, Granularity, Nibbles, QuantizeScales, Quantized, Quantized4};
pub use random_key::RandomKey;
pub use sparse24::Sparse24;
pub use statistics::Norm;

use std::fmt;
use std::sync::OnceLock;

use crate::expr::number;
use crate::operation::{Operand, Role};
use crate::ops::Copy;
use crate::tape::{self, Track};
use crate::{Buffer, DType, Device, Element, Error, Expr, IntoShape, Layout, Op, Result, Scalar, Shape, TensorSpec};

/// A multi-dimensional array on a device. `Send + Sync`; a clone shares the data.
#[derive(Clone)]
pub struct Tensor {
    device: Device,
    buffer: Buffer,
    dtype: DType,
    layout: Layout,
    /// The tensor's place on a tape that watches it.
    track: OnceLock<Track>,
}

impl Tensor {
    /// A tensor of `shape` from row-major `data`.
    ///
    /// # Errors
    /// [`Error::DataLength`] when the number of elements in `data` is not that of the shape; memory errors of the device.
    pub fn from_slice<T: Element>(device: &Device, data: &[T], shape: impl IntoShape) -> Result<Tensor> {
        let shape = shape.into_shape()?;
        if shape.elements() != data.len() as u64 {
            return Err(Error::DataLength {
                shape: shape.dims().to_vec(),
                expected: shape.elements(),
                got: data.len() as u64,
            });
        }
        let tensor = Tensor::empty(device, T::DTYPE, shape)?;
        device.backend().write(&tensor.buffer, 0, T::as_bytes(data))?;
        Ok(tensor)
    }

    /// A tensor of `shape` from row-major little-endian bytes of `dtype` (bool: one byte, 0 or 1).
    ///
    /// # Errors
    /// [`Error::DataLength`]; memory errors of the device.
    pub fn from_bytes(device: &Device, dtype: DType, bytes: &[u8], shape: impl IntoShape) -> Result<Tensor> {
        let shape = shape.into_shape()?;
        if shape.bytes(dtype)? != bytes.len() as u64 {
            return Err(Error::DataLength {
                shape: shape.dims().to_vec(),
                expected: shape.elements(),
                got: bytes.len() as u64 / dtype.size_bytes(),
            });
        }
        let tensor = Tensor::empty(device, dtype, shape)?;
        device.backend().write(&tensor.buffer, 0, bytes)?;
        Ok(tensor)
    }

    /// A tensor filled with `value`, converted to `dtype` as [`Scalar::cast`] does; an infinity stays one in f8e5m2, too.
    ///
    /// # Errors
    /// [`Error::UnsupportedDType`]; memory errors of the device.
    pub fn full(device: &Device, dtype: DType, shape: impl IntoShape, value: impl Into<Scalar>) -> Result<Tensor> {
        Tensor::generate(device, "fill", dtype, shape, &Expr::constant(value).cast(dtype))
    }

    /// A tensor of zeros.
    ///
    /// # Errors
    /// As [`Tensor::full`].
    pub fn zeros(device: &Device, dtype: DType, shape: impl IntoShape) -> Result<Tensor> {
        Tensor::full(device, dtype, shape, 0)
    }

    /// Zeros of this tensor's shape and dtype, on its device.
    ///
    /// # Errors
    /// As [`Tensor::full`].
    pub fn zeros_like(&self) -> Result<Tensor> {
        self.full_like(0)
    }

    /// A tensor filled with `value`, of this tensor's shape and dtype, on its device.
    ///
    /// # Errors
    /// As [`Tensor::full`].
    pub fn full_like(&self, value: impl Into<Scalar>) -> Result<Tensor> {
        Tensor::full(self.device(), self.dtype, self.shape(), value)
    }

    /// `start + step i` for i in 0..count, in `dtype`'s own arithmetic (floats of 8 and 16 bits: f32, rounded once).
    ///
    /// Beyond its range an integer dtype wraps. A step may be negative in every dtype.
    ///
    /// # Errors
    /// [`Error::UndefinedForDType`] for bool; [`Error::NumberOutOfRange`] for a start that `dtype` cannot hold, and for
    /// a fractional step of integers; memory errors of the device.
    pub fn arange(
        device: &Device,
        dtype: DType,
        start: impl Into<Scalar>,
        step: impl Into<Scalar>,
        count: u64,
    ) -> Result<Tensor> {
        if dtype == DType::Bool {
            return Err(Error::UndefinedForDType { op: "arange", dtype });
        }
        Tensor::generate(device, "arange", dtype, [count], &ramp(dtype, start.into(), step.into())?)
    }

    /// A tensor computed from positions alone; `expr` has no inputs.
    fn generate(
        device: &Device,
        label: &'static str,
        dtype: DType,
        shape: impl IntoShape,
        expr: &Expr,
    ) -> Result<Tensor> {
        let program = crate::Program::compile(expr, &[])?;
        let out = Tensor::empty(device, dtype, shape)?;
        out.fill_by(&crate::ops::Map::new(label, program, Vec::new(), out.spec())?.into(), &[])?;
        Ok(out)
    }

    /// A dense tensor with undefined content: every caller overwrites it entirely.
    pub(crate) fn empty(device: &Device, dtype: DType, shape: impl IntoShape) -> Result<Tensor> {
        let shape = shape.into_shape()?;
        let ledger = device.ledger();
        let buffer = device.backend().alloc(shape.bytes(dtype)?).map_err(|error| ledger.explained(error))?;
        let ticket = ledger.ticket(buffer.size_bytes(), shape, dtype);
        let buffer = buffer.with_ticket(ticket);
        let track = OnceLock::new();
        Ok(Tensor { device: device.clone(), buffer, dtype, layout: Layout::contiguous(shape), track })
    }

    /// A tensor over an existing buffer of `device`, such as one wrapped from another library.
    ///
    /// # Errors
    /// [`Error::ViewOutOfBounds`] when the layout leaves the buffer.
    pub fn from_buffer(device: &Device, buffer: Buffer, dtype: DType, layout: Layout) -> Result<Tensor> {
        let spec = TensorSpec::new(dtype, layout);
        if spec.required_bytes() > buffer.size_bytes() {
            return Err(Error::ViewOutOfBounds {
                needed: layout.required_elements(),
                have: buffer.size_bytes() / dtype.size_bytes(),
            });
        }
        Ok(Tensor { device: device.clone(), buffer, dtype, layout, track: OnceLock::new() })
    }

    /// Runs `op`, such as an operation of your own, and returns its results. `held` are the operands with values: first
    /// those that the operation reads, then those that it updates in place, in its order and with its dtypes and
    /// layouts ([`Operation::held`](crate::Operation::held)). Each operand that it writes is a new tensor.
    ///
    /// # Errors
    /// Errors of the operation itself; [`Error::InvalidArgument`] for tensors that are not its operands, and for an
    /// output that is not dense from the start of its buffer; [`Error::DeviceMismatch`]; errors of the device.
    pub fn apply(device: &Device, op: impl Into<Op>, held: &[&Tensor]) -> Result<Vec<Tensor>> {
        let op = op.into();
        let (inputs, updates) = operands(device, &op, held)?;
        let (mut updated, mut written) = (updates.iter(), Vec::new());
        let mut buffers = Vec::new();
        for Operand { role, spec } in op.outputs() {
            if role == Role::Update {
                buffers.extend(updated.next().map(|tensor| tensor.buffer.clone()));
                continue;
            }
            let result = new_output(device, &op, &spec)?;
            buffers.push(result.buffer.clone());
            written.push(result);
        }
        tape::refuse_overwriting(op.name(), updates)?;
        let pending = tape::pending(&op, inputs)?;
        let sources: Vec<&Buffer> = inputs.iter().map(|tensor| &tensor.buffer).collect();
        device.execute(&op, &sources, &buffers.iter().collect::<Vec<_>>())?;
        if let Some(pending) = pending {
            pending.record(&op, inputs, &written.iter().collect::<Vec<_>>());
        }
        Ok(written)
    }

    /// [`Tensor::apply`] without a tape, for an operation that updates nothing. An output is written to the tensor in
    /// `places` where there is one, which must have the dtype and layout that the operation writes.
    pub(crate) fn apply_into(
        device: &Device,
        op: impl Into<Op>,
        held: &[&Tensor],
        places: &[Option<&Tensor>],
    ) -> Result<Vec<Tensor>> {
        let op = op.into();
        let (inputs, _) = operands(device, &op, held)?;
        let outputs = op.outputs().into_iter().zip(places).map(|(output, place)| match place {
            Some(place) if place.spec() == output.spec => Ok((*place).clone()),
            Some(place) => {
                let reason = format!("{} writes {:?}, and its place is {:?}", op.name(), output.spec, place.spec());
                Err(Error::InvalidArgument { what: "output", reason })
            }
            None => new_output(device, &op, &output.spec),
        });
        let outputs = outputs.collect::<Result<Vec<Tensor>>>()?;
        let [sources, targets] =
            [inputs, &outputs.iter().collect::<Vec<_>>()].map(|tensors| tensors.iter().map(|t| &t.buffer).collect());
        let (sources, targets): (Vec<&Buffer>, Vec<&Buffer>) = (sources, targets);
        device.execute(&op, &sources, &targets)?;
        Ok(outputs)
    }

    /// Runs `op` on `inputs` and writes its result to this tensor, which is new.
    pub(crate) fn fill_by(&self, op: &Op, inputs: &[&Tensor]) -> Result<()> {
        let pending = tape::pending(op, inputs)?;
        let buffers: Vec<&Buffer> = inputs.iter().map(|t| &t.buffer).collect();
        self.device.execute(op, &buffers, &[&self.buffer])?;
        if let Some(pending) = pending {
            pending.record(op, inputs, &[self]);
        }
        Ok(())
    }

    /// The tensor's place on a tape.
    pub(crate) fn track(&self) -> Option<&Track> {
        self.track.get()
    }

    /// The same tensor on a tape.
    pub(crate) fn tracked(&self, track: Track) -> Tensor {
        Tensor { track: OnceLock::from(track), ..self.clone() }
    }

    /// Puts a new tensor on a tape.
    pub(crate) fn start_tracking(&self, track: Track) {
        // A new tensor is on no tape yet, so this never fails.
        let _ = self.track.set(track);
    }

    /// Whether a live tape watches this tensor, so that results computed from it contribute to gradients. A layer may
    /// use a faster way where no tape does.
    pub fn is_watched(&self) -> bool {
        tape::is_watched(self)
    }

    /// The same memory on no tape: results computed from it contribute nothing to gradients. For values that a step
    /// records beside its loss, such as running statistics.
    pub fn detach(&self) -> Tensor {
        self.seen_as(self.spec())
    }

    /// A view of its memory with the dtype and layout of `spec`, on no tape.
    pub(crate) fn seen_as(&self, spec: TensorSpec) -> Tensor {
        Tensor { dtype: spec.dtype, layout: spec.layout, track: OnceLock::new(), ..self.clone() }
    }

    /// The device that holds it.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The memory it views.
    pub fn buffer(&self) -> &Buffer {
        &self.buffer
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Shape, strides and offset.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The extents.
    pub fn shape(&self) -> &Shape {
        self.layout.shape()
    }

    /// The extents, outermost first.
    pub fn dims(&self) -> &[u64] {
        self.layout.dims()
    }

    /// The number of dimensions.
    pub fn rank(&self) -> usize {
        self.layout.rank()
    }

    /// The number of elements.
    pub fn elements(&self) -> u64 {
        self.layout.elements()
    }

    /// Dtype and layout, as ops describe it.
    pub fn spec(&self) -> TensorSpec {
        TensorSpec::new(self.dtype, self.layout)
    }

    /// The elements, row-major; waits for the device.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`] when `T` is not the tensor's type; [`Error::PositionOutside`] when a call on the device
    /// since its last read used a position outside of its axis: the error is reported once, and reading again gives the
    /// elements; [`Error::WouldBlock`] in a browser (use [`Tensor::to_vec_async`]); [`Error::DeviceLost`].
    pub fn to_vec<T: Element>(&self) -> Result<Vec<T>> {
        self.expect_dtype("to_vec", T::DTYPE)?;
        let dense = self.contiguous()?;
        let bytes = dense.device.read_blocking(&dense.buffer, dense.byte_range())?;
        Ok(T::from_bytes(&bytes).into_owned())
    }

    /// The elements as f64, row-major, for any dtype; waits for the device. Exact, except that integers beyond 2^53 are
    /// rounded; bool is 0 or 1.
    ///
    /// ```
    /// use polywarp_core::{DType, Device, Tensor};
    ///
    /// let x = Tensor::full(&Device::cpu(), DType::BF16, [2], 1.5)?;
    /// assert_eq!(x.to_f64_vec()?, [1.5, 1.5]);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Tensor::to_bytes`].
    pub fn to_f64_vec(&self) -> Result<Vec<f64>> {
        let bytes = self.to_bytes()?;
        let elements = bytes.chunks_exact(self.dtype.size_bytes() as usize);
        Ok(elements.map(|element| Scalar::from_le_bytes(element, self.dtype).as_f64()).collect())
    }

    /// The elements, row-major, when the device is done.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`] when `T` is not the tensor's type; [`Error::PositionOutside`] as [`Tensor::to_vec`]; [`Error::DeviceLost`].
    pub async fn to_vec_async<T: Element>(&self) -> Result<Vec<T>> {
        self.expect_dtype("to_vec_async", T::DTYPE)?;
        let dense = self.contiguous()?;
        let bytes = dense.device.read(&dense.buffer, dense.byte_range()).await?;
        Ok(T::from_bytes(&bytes).into_owned())
    }

    /// The elements as row-major little-endian bytes; waits for the device.
    ///
    /// # Errors
    /// As [`Tensor::to_vec`].
    pub fn to_bytes(&self) -> Result<Vec<u8>> {
        let dense = self.contiguous()?;
        dense.device.read_blocking(&dense.buffer, dense.byte_range())
    }

    /// The only element.
    ///
    /// # Errors
    /// [`Error::DataLength`] when there is not exactly one; as [`Tensor::to_vec`].
    pub fn item<T: Element>(&self) -> Result<T> {
        self.expect_one()?;
        self.expect_dtype("item", T::DTYPE)?;
        Ok(self.to_vec()?[0])
    }

    /// The only element as f64, whatever the dtype, as [`Tensor::to_f64_vec`] reads it.
    ///
    /// ```
    /// use polywarp_core::{Device, Tensor};
    ///
    /// let x = Tensor::from_slice(&Device::cpu(), &[2u8, 3], [2])?;
    /// assert_eq!(x.sum(..)?.item_f64()?, 5.0);
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::DataLength`] when there is not exactly one; as [`Tensor::to_bytes`].
    pub fn item_f64(&self) -> Result<f64> {
        self.expect_one()?;
        Ok(self.to_f64_vec()?[0])
    }

    fn expect_one(&self) -> Result<()> {
        let got = self.elements();
        if got == 1 { Ok(()) } else { Err(Error::DataLength { shape: self.dims().to_vec(), expected: 1, got }) }
    }

    /// A copy on another device; the tensor itself when it is already there.
    ///
    /// # Errors
    /// Memory errors of `device`; as [`Tensor::to_vec`].
    pub fn to_device(&self, device: &Device) -> Result<Tensor> {
        if self.device.same(device) {
            return Ok(self.clone());
        }
        Tensor::from_bytes(device, self.dtype, &self.to_bytes()?, *self.shape())
    }

    /// The tensor itself when it is dense and starts at a multiple of 16 bytes, else a dense copy.
    ///
    /// # Errors
    /// Memory errors of the device.
    pub fn contiguous(&self) -> Result<Tensor> {
        if self.layout.is_contiguous() { Ok(self.clone()) } else { self.copy() }
    }

    /// A dense copy in a buffer of its own.
    ///
    /// # Errors
    /// Memory errors of the device.
    pub fn copy(&self) -> Result<Tensor> {
        let out = Tensor::empty(&self.device, self.dtype, *self.shape())?;
        out.fill_by(&Copy::new(self.spec(), out.spec())?.into(), &[self])?;
        Ok(out)
    }

    /// Overwrites the elements of this view with row-major `data` from the host, after all earlier work. Every tensor that
    /// shares the buffer, and every [`Recording`](crate::Recording) that uses it, sees the change.
    ///
    /// # Errors
    /// [`Error::DTypeMismatch`], [`Error::DataLength`]; [`Error::OverlappingOutput`] when this view reaches an element
    /// twice; [`Error::Recording`] inside of a recording; memory errors of the device for a view that is not contiguous.
    pub fn write<T: Element>(&self, data: &[T]) -> Result<()> {
        if self.dtype != T::DTYPE {
            return Err(Error::DTypeMismatch { op: "write", expected: self.dtype, got: T::DTYPE });
        }
        if self.elements() != data.len() as u64 {
            let (shape, expected) = (self.dims().to_vec(), self.elements());
            return Err(Error::DataLength { shape, expected, got: data.len() as u64 });
        }
        tape::refuse_overwriting("write", &[self])?;
        if self.layout.is_contiguous() {
            return self.device.backend().write(&self.buffer, self.byte_range().start, T::as_bytes(data));
        }
        self.assign(&Tensor::from_slice(&self.device, data, *self.shape())?)
    }

    /// Overwrites the elements of this view with those of `source`, broadcast to its shape. Every tensor that shares
    /// the buffer sees the change.
    ///
    /// # Errors
    /// [`Error::ShapeMismatch`], [`Error::DTypeMismatch`], [`Error::DeviceMismatch`], [`Error::OverlappingOutput`] when
    /// this view reaches an element twice.
    pub fn assign(&self, source: &Tensor) -> Result<()> {
        self.expect_device("assign", source)?;
        let source = source.broadcast_to(*self.shape())?;
        let op = Copy::new(source.spec(), self.spec())?;
        if source.buffer.same(&self.buffer) {
            let apart = source.copy()?;
            return self.overwrite(&Copy::new(apart.spec(), self.spec())?.into(), &apart);
        }
        self.overwrite(&op.into(), &source)
    }

    /// Runs `op`, whose result overwrites this tensor. No tape records that: gradients need values that do not change.
    fn overwrite(&self, op: &Op, source: &Tensor) -> Result<()> {
        tape::refuse_overwriting("assign", &[self])?;
        tape::refuse_leaving("assign", source)?;
        self.device.execute(op, &[&source.buffer], &[&self.buffer])
    }

    fn byte_range(&self) -> std::ops::Range<u64> {
        let size = self.dtype.size_bytes();
        let start = self.layout.offset().saturating_mul(size);
        start..start.saturating_add(self.elements() * size)
    }

    pub(crate) fn expect_dtype(&self, op: &'static str, expected: DType) -> Result<()> {
        if self.dtype == expected { Ok(()) } else { Err(Error::DTypeMismatch { op, expected, got: self.dtype }) }
    }

    pub(crate) fn expect_device(&self, op: &'static str, other: &Tensor) -> Result<()> {
        same_device(op, &self.device, &other.device)
    }
}

fn same_device(op: &'static str, one: &Device, other: &Device) -> Result<()> {
    if one.same(other) {
        return Ok(());
    }
    Err(Error::DeviceMismatch { op, lhs: one.id().to_owned(), rhs: other.id().to_owned() })
}

/// The tensors that `op` reads and those that it updates; an error unless `held` matches its operands.
fn operands<'a, 'b>(device: &Device, op: &Op, held: &'a [&'b Tensor]) -> Result<(&'a [&'b Tensor], &'a [&'b Tensor])> {
    op.validate()?;
    let specs = op.held();
    if held.len() != specs.len() {
        let reason = format!("{} takes {} operands, got {}", op.name(), specs.len(), held.len());
        return Err(Error::InvalidArgument { what: "operands", reason });
    }
    for (at, (tensor, spec)) in held.iter().zip(&specs).enumerate() {
        same_device(op.name(), device, &tensor.device)?;
        if tensor.spec() != *spec {
            let reason = format!("operand {at} of {} is {spec:?}, and the tensor is {:?}", op.name(), tensor.spec());
            return Err(Error::InvalidArgument { what: "operands", reason });
        }
    }
    Ok(held.split_at(op.inputs().len()))
}

/// A new tensor for a result that `op` writes to the start of a buffer.
fn new_output(device: &Device, op: &Op, spec: &TensorSpec) -> Result<Tensor> {
    if !spec.layout.is_contiguous() || spec.layout.offset() != 0 {
        let reason = format!("{} writes {:?}, not a dense tensor from the start", op.name(), spec.layout);
        return Err(Error::InvalidArgument { what: "output", reason });
    }
    Tensor::empty(device, spec.dtype, *spec.layout.shape())
}

/// `start + step i`, as [`Tensor::arange`] computes it.
pub(crate) fn ramp(dtype: DType, start: Scalar, step: Scalar) -> Result<Expr> {
    const OP: &str = "arange";
    number::operand(OP, dtype, start)?;
    // A step is a difference. As an unsigned integer, -1 is the same as the largest number.
    if dtype.is_float() || number::operand(OP, DType::I64, step).is_err() {
        number::operand(OP, dtype, step)?;
    }
    let (compute, exact) = (dtype.compute(), |x| Expr::constant(x).cast(dtype.compute()));
    Ok((Expr::index().cast(compute) * exact(step) + exact(start)).cast(dtype))
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({} {:?} on {})", self.dtype, self.layout, self.device.id())
    }
}

/// Users rely on this and the compiler checks it: every backend and the contents of buffers must be `Send` and `Sync` as well.
const _: fn() = || {
    fn assert_send_sync<T: Send + Sync>() {}
    assert_send_sync::<Tensor>();
    assert_send_sync::<Device>();
};
