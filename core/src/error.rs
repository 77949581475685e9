//! Every way a call can fail, as one enum.
//!
//! Variants carry the operation, shapes, dtypes and device they concern, and each message says what to do next.
//! Shape, dtype and aliasing faults are found in this crate before any backend sees the request.

mod told;

use crate::{DType, Largest, Scalar, Shape};
use told::{
    at_axis, beside, of_available, of_axes, of_devices, of_dtype, of_indices, of_largest, of_length, of_limit,
    of_request, of_tensor, of_variable, way_to,
};

/// `std::result::Result` with [`enum@Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong, and what to do about it.
#[derive(Debug, Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Operand shapes do not fit together.
    #[error("{op}: shapes {lhs:?} and {rhs:?} do not fit{}; reshape or broadcast one of them", at_axis(.axis))]
    ShapeMismatch {
        /// The operation asked for.
        op: &'static str,
        /// Extents of the left (or only) operand.
        lhs: Vec<u64>,
        /// Extents of the right operand, or the extents asked for.
        rhs: Vec<u64>,
        /// The axis where they differ, counted in the broadcast result.
        axis: Option<usize>,
    },
    /// The inner dimensions of a matrix product differ.
    #[error(
        "matmul: A is {lhs:?} and B is {rhs:?}: K is {k_lhs} on the left and {k_rhs} on the right; transpose one of them"
    )]
    InnerDimension {
        /// Extents of A.
        lhs: Vec<u64>,
        /// Extents of B.
        rhs: Vec<u64>,
        /// Columns of A.
        k_lhs: u64,
        /// Rows of B.
        k_rhs: u64,
    },
    /// A reshape changes the number of elements.
    #[error(
        "reshape: {from} elements cannot become shape {shape:?} of {to}; give extents whose product is {from}, or -1 for one of them to reshape_infer()"
    )]
    ReshapeSize {
        /// Elements there are.
        from: u64,
        /// Elements the new shape has.
        to: u64,
        /// The shape asked for.
        shape: Vec<u64>,
    },
    /// More than one dimension of a reshape was left to infer.
    #[error("reshape: {inferred} dimensions were left to infer (-1) in {shape:?}; at most one can be")]
    AmbiguousReshape {
        /// How many were left open.
        inferred: usize,
        /// The extents asked for.
        shape: Vec<i64>,
    },
    /// An element or byte count does not fit the arithmetic.
    #[error("shape {shape:?}{} is larger than any device can hold (element counts end at 2^63, tensors at 1 EiB)", of_dtype(.dtype))]
    SizeOverflow {
        /// The extents asked for.
        shape: Vec<u64>,
        /// The dtype, when the byte count is what overflows.
        dtype: Option<DType>,
    },
    /// A result would need a wider index type than the op's output has.
    #[error("{op}: {elements} elements cannot be indexed, the largest is {max}; split the tensor")]
    IndexWidth {
        /// The operation asked for.
        op: &'static str,
        /// Elements to index.
        elements: u64,
        /// Most elements the index type can tell apart.
        max: u64,
    },
    /// More dimensions than [`crate::MAX_RANK`].
    #[error("rank {rank} is above the largest supported, {max}; merge dimensions by reshape")]
    RankTooLarge {
        /// Dimensions asked for.
        rank: usize,
        /// Most dimensions there can be.
        max: usize,
    },
    /// An axis that the tensor does not have; -1 is its last.
    #[error("axis {axis} is out of range for a tensor of rank {rank}: {}", of_axes(*.rank))]
    AxisOutOfRange {
        /// The axis asked for.
        axis: i128,
        /// The tensor's number of dimensions.
        rank: usize,
    },
    /// An index that an axis does not have; -1 is its last.
    #[error("index {index} is out of range on axis {axis} of length {len}: {}", of_indices(*.len))]
    IndexOutOfRange {
        /// The axis.
        axis: usize,
        /// The index asked for.
        index: i128,
        /// Extent of the axis.
        len: u64,
    },
    /// A position in device memory that its axis does not have, found by the first read after the call that took it. The read
    /// gave nothing; the next one gives data again, in which that position's elements are what the call's documents say.
    #[error(
        "{op}: position {position}, number {place} of the positions in row-major order, is outside of an extent of {extent}; give \
         positions of at least 0 and below {extent}, or use a call that takes others (docs/arrays.md, Indexing)"
    )]
    PositionOutside {
        /// The call that took it.
        op: &'static str,
        /// The position found.
        position: i128,
        /// Which of the positions it is, counted row-major.
        place: u64,
        /// Extent of the axis.
        extent: u64,
    },
    /// The same axis twice.
    #[error("axis {axis} is named twice; name each axis once (-1 is the last)")]
    DuplicateAxis {
        /// The repeated axis.
        axis: usize,
    },
    /// A slice outside its dimension, reversed, or with step 0.
    #[error(
        "slice {start}..{end} step {step} is not valid on axis {axis} of length {len}: start <= end <= {len}, step not 0"
    )]
    InvalidSlice {
        /// The axis sliced.
        axis: usize,
        /// First index.
        start: u64,
        /// One past the last index.
        end: u64,
        /// Distance between taken indices; negative walks from the end.
        step: i64,
        /// Extent of the axis.
        len: u64,
    },
    /// Host data whose length is not the shape's element count; a tensor that has not the one element that a call reads.
    #[error("{}", of_length(.shape, *.expected, *.got))]
    DataLength {
        /// The shape asked for.
        shape: Vec<u64>,
        /// Elements the shape holds.
        expected: u64,
        /// Elements given.
        got: u64,
    },
    /// Two dtypes where one was required.
    #[error("{op}: expected {expected}, got {got}; {}", way_to(.op, *.got))]
    DTypeMismatch {
        /// The operation asked for.
        op: &'static str,
        /// The dtype required.
        expected: DType,
        /// The dtype given.
        got: DType,
    },
    /// The operation has no meaning for this dtype, on any device.
    #[error("{op} is not defined for {dtype}; convert with cast()")]
    UndefinedForDType {
        /// The operation asked for.
        op: &'static str,
        /// The dtype given.
        dtype: DType,
    },
    /// The device cannot compute with this dtype.
    #[error("{device} cannot compute in {dtype}: it lacks {feature}; use another device or cast()")]
    UnsupportedDType {
        /// The device asked.
        device: String,
        /// The dtype it lacks.
        dtype: DType,
        /// The adapter feature that would be needed.
        feature: &'static str,
    },
    /// The device or backend cannot do this at all.
    #[error("{device} does not support {what}: {reason}")]
    Unsupported {
        /// The device asked.
        device: String,
        /// What was asked of it.
        what: String,
        /// Why it cannot.
        reason: String,
    },
    /// Operands that live on different devices.
    #[error("{op}: {}", of_devices(.lhs, .rhs))]
    DeviceMismatch {
        /// The operation asked for.
        op: &'static str,
        /// Device of the first operand.
        lhs: String,
        /// Device of the other.
        rhs: String,
    },
    /// An extremum over no elements.
    #[error("{op} over an empty axis of shape {shape:?} has no value; use sum, prod, any or all, or skip the call")]
    EmptyReduction {
        /// The operation asked for.
        op: &'static str,
        /// Extents of the operand.
        shape: Vec<u64>,
    },
    /// A result would be written to a view that reaches one element twice.
    #[error(
        "{op}: the destination view (shape {shape:?}, strides {strides:?}) reaches some elements twice; write to a contiguous tensor"
    )]
    OverlappingOutput {
        /// The operation asked for.
        op: &'static str,
        /// Extents of the destination.
        shape: Vec<u64>,
        /// Its strides, in elements.
        strides: Vec<i64>,
    },
    /// A view that leaves its storage.
    #[error("the view needs elements up to {needed} but its storage holds {have}")]
    ViewOutOfBounds {
        /// Elements the view needs.
        needed: u64,
        /// Elements there are.
        have: u64,
    },
    /// An argument outside its range.
    #[error("invalid {what}: {reason}")]
    InvalidArgument {
        /// Which argument.
        what: &'static str,
        /// Why it is refused.
        reason: String,
    },
    /// A number beside a tensor that the tensor's dtype cannot hold.
    #[error("{op}: programs in {dtype} cannot hold the number {number}{}", beside(*.dtype))]
    NumberOutOfRange {
        /// The operation asked for.
        op: &'static str,
        /// The dtype of the tensor, or of what the number meets in an expression.
        dtype: DType,
        /// The number.
        number: Scalar,
    },
    /// One allocation larger than the device could ever hold.
    #[error("{device}: a buffer of {requested} bytes is over the device's largest, {max}; split the tensor")]
    BufferTooBig {
        /// The device asked.
        device: String,
        /// Bytes asked for.
        requested: u64,
        /// Most bytes one buffer can have.
        max: u64,
    },
    /// One tensor larger than a kernel can bind.
    #[error("{device}: a tensor of {size} bytes is over the binding limit of {limit} bytes; split it along an axis")]
    BindingTooLarge {
        /// The device asked.
        device: String,
        /// Bytes of the tensor's storage.
        size: u64,
        /// Most bytes one binding can have.
        limit: u64,
    },
    /// No memory left now; dropping tensors and trying again can help.
    #[error("{device}: out of memory: {}, {in_use} in use, {cached} cached{}; drop tensors or split the batch{}", of_request(*.requested), of_limit(.limit), of_largest(.largest, *.in_use))]
    OutOfMemory {
        /// The device asked.
        device: String,
        /// Bytes asked for; 0 when they were for the driver's own needs (an event, a graph), of which it does not tell the size.
        requested: u64,
        /// Bytes held by live tensors.
        in_use: u64,
        /// Bytes held for reuse.
        cached: u64,
        /// The pool's own limit, when it was what refused.
        limit: Option<u64>,
        /// The largest tensors that were alive, where the device lists them ([`Device::tagged`](crate::Device::tagged)). A backend leaves it empty.
        largest: Largest,
    },
    /// More workgroups than one launch can have.
    #[error("{device}: a launch of {grid:?} workgroups is over the limits of {max:?}; split the launch")]
    DispatchTooLarge {
        /// The device asked.
        device: String,
        /// Workgroups asked for, x y z.
        grid: [u32; 3],
        /// Most workgroups, x y z.
        max: [u32; 3],
    },
    /// A kernel that needs more of a resource than the device has.
    #[error(
        "{device}: the kernel needs {requested} of {kind}, the device has {max}; change the kernel or take another device"
    )]
    ResourceLimit {
        /// The device asked.
        device: String,
        /// Which resource.
        kind: &'static str,
        /// How much the kernel needs.
        requested: u64,
        /// How much there is.
        max: u64,
    },
    /// A shader that does not compile; lines and columns count from 1.
    #[error("shader error at {line}:{column}: {message}")]
    Shader {
        /// Line of the fault, 0 when it has no place.
        line: u32,
        /// Column of the fault, 0 when it has no place.
        column: u32,
        /// The compiler's words, on one line.
        message: String,
    },
    /// A shader nested or sized beyond what the compiler accepts.
    #[error("the shader is too complex: {what} {found} is over the limit of {limit}; split it")]
    ShaderTooComplex {
        /// What is too much.
        what: &'static str,
        /// How much there is.
        found: u64,
        /// How much is accepted.
        limit: u64,
    },
    /// A user kernel's bindings do not match its shader.
    #[error("binding {group}.{binding}: {reason}")]
    Binding {
        /// Bind group.
        group: u32,
        /// Binding within it.
        binding: u32,
        /// What is wrong.
        reason: String,
    },
    /// No such device.
    #[error("no device `{name}`{}: {}", of_variable(.variable), of_available(.available))]
    NoSuchDevice {
        /// The name asked for.
        name: String,
        /// The environment variable that asked for it, if one did.
        variable: Option<&'static str>,
        /// The names there are.
        available: Vec<String>,
    },
    /// A backend that cannot start on this machine.
    #[error("the {backend} backend is not available: {reason}")]
    BackendUnavailable {
        /// Which backend.
        backend: &'static str,
        /// Why, and what to install.
        reason: String,
    },
    /// The device is gone; every later call on it says so.
    #[error("{device} was lost: {reason}; make a new device and upload the data again")]
    DeviceLost {
        /// The device.
        device: String,
        /// What the driver said.
        reason: String,
    },
    /// A fault on the device ended its CUDA context, for as long as this process lives; every later call on it says so.
    #[error(
        "{device}: {op} ended with {first_error}; nothing on this device can be trusted any more: restart the process"
    )]
    DevicePoisoned {
        /// The device.
        device: String,
        /// What the driver reported first.
        first_error: String,
        /// The call that it was reported to; the faulty work came earlier.
        op: String,
    },
    /// A driver that is older than what was asked of it.
    #[error("{device}: {what} needs driver {needed} or newer, this one is {driver}; update the driver")]
    DriverTooOld {
        /// The device.
        device: String,
        /// What needs more.
        what: String,
        /// The driver there is.
        driver: String,
        /// The least driver that has it.
        needed: String,
    },
    /// Generated code that the driver's assembler refused: a bug of this library.
    #[error(
        "{device}: the driver refused the code of kernel `{kernel}`, which is a bug of polywarp, please report it: {log}"
    )]
    PtxRejected {
        /// The device.
        device: String,
        /// The kernel.
        kernel: String,
        /// The assembler's words, on one line.
        log: String,
    },
    /// A blocking call where blocking is impossible.
    #[error("{what} would block, which a browser's main thread cannot; use the async form")]
    WouldBlock {
        /// The call.
        what: &'static str,
    },
    /// A call that a recording cannot hold, or that needs a recording.
    #[error("{device}: {what} cannot be recorded: {advice}")]
    Recording {
        /// The device.
        device: String,
        /// The call.
        what: &'static str,
        /// What to do instead.
        advice: &'static str,
    },
    /// A file that could not be read or written, or that does not hold what was asked for.
    #[error("{path}{}: {reason}", of_tensor(.tensor))]
    File {
        /// The file.
        path: String,
        /// The tensor in it that is at fault, where it is one.
        tensor: Option<String>,
        /// What is wrong, and what to do.
        reason: String,
    },
    /// The driver or graphics API refused a call the library made.
    #[error("{device}: {op} failed: {message}")]
    Backend {
        /// The device.
        device: String,
        /// What was being done.
        op: String,
        /// The API's words.
        message: String,
    },
}

impl Error {
    /// [`Error::ShapeMismatch`] of `op`; `axis` where the shapes first differ, if it is known.
    pub fn shape_mismatch(op: &'static str, lhs: &Shape, rhs: &Shape, axis: Option<usize>) -> Error {
        Error::ShapeMismatch { op, lhs: lhs.dims().to_vec(), rhs: rhs.dims().to_vec(), axis }
    }

    /// Whether the fault is a missing capability rather than a failure: what the harness counts as unsupported.
    pub fn is_unsupported(&self) -> bool {
        matches!(self, Error::Unsupported { .. } | Error::UnsupportedDType { .. })
    }
}
