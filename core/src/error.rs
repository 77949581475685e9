//! Every way a call can fail, as one enum.
//!
//! Variants carry the operation, shapes, dtypes and device they concern, and each message says what to do next.
//! Shape, dtype and aliasing faults are found in this crate before any backend sees the request.

use crate::{DType, Largest, Scalar, Shape};

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

fn of_largest(largest: &Largest, in_use: u64) -> String {
    match (largest.0.is_empty(), in_use) {
        (false, _) => format!("; largest: {largest}"),
        (true, 0) => String::new(),
        (true, _) => "; tensors made after a call of Device::list_tensors are named here, the largest first".to_owned(),
    }
}

/// How to read a tensor whose dtype was not the one asked for, or have another.
fn way_to(op: &str, got: DType) -> String {
    match op {
        "item" => format!("read it as {got}, or any dtype as f64 with item_f64()"),
        "to_vec" | "to_vec_async" => format!("read it as {got}, or any dtype as f64 with to_f64_vec()"),
        "write" => "give numbers of the tensor's dtype".to_owned(),
        _ => "convert with cast()".to_owned(),
    }
}

fn of_axes(rank: usize) -> String {
    match rank {
        0 => "it has no axes".to_owned(),
        1 => "its only axis is 0, or -1".to_owned(),
        rank => format!("its axes are 0 to {}, or -1 to -{rank} from the last", rank - 1),
    }
}

fn of_indices(len: u64) -> String {
    match len {
        0 => "it has no indices".to_owned(),
        1 => "its only index is 0, or -1".to_owned(),
        len => format!("its indices are 0 to {}, or -1 to -{len} from the last", len - 1),
    }
}

/// A shape that holds as many elements as were given belongs to a tensor whose only element a call wanted to read.
fn of_length(shape: &[u64], expected: u64, got: u64) -> String {
    let holds = shape.iter().try_fold(1u64, |all, &extent| all.checked_mul(extent));
    if holds == Some(got) && expected == 1 {
        return format!(
            "a tensor of shape {shape:?} has {got} elements, and the call reads the only one: select() or reduce it to one, or read all \
             with to_vec()"
        );
    }
    let held = if expected == 1 { "1 element".to_owned() } else { format!("{expected} elements") };
    format!("shape {shape:?} holds {held} but the data has {got}; give {held}, or the shape of {got}")
}

fn of_variable(variable: &Option<&str>) -> String {
    variable.map(|variable| format!(", which {variable} names")).unwrap_or_default()
}

fn of_available(available: &[String]) -> String {
    match available {
        [] => "none is available; `polywarp doctor` says what is missing".to_owned(),
        names => format!("available are {}", names.join(", ")),
    }
}

fn at_axis(axis: &Option<usize>) -> String {
    axis.map(|a| format!(" at axis {a}")).unwrap_or_default()
}

fn of_dtype(dtype: &Option<DType>) -> String {
    dtype.map(|d| format!(" of {d}")).unwrap_or_default()
}

fn beside(dtype: DType) -> String {
    if dtype.is_float() {
        return format!(", which is infinite or 0 in {}; choose another or cast the tensor to f64", dtype.compute());
    }
    let integers = dtype.integer_range().map(|(least, most)| format!("integers of {least} to {most}"));
    let held = integers.unwrap_or_else(|| "0 and 1".to_owned());
    format!(", only {held}; cast the tensor to a dtype that can, or convert the number with Expr::cast")
}

/// Two devices of one name are two all the same: each has memory of its own.
fn of_devices(lhs: &str, rhs: &str) -> String {
    if lhs == rhs {
        return format!(
            "operands are on two devices that were opened separately as `{lhs}`; open it once and clone the handle \
             (`Device` is a handle), or move one operand with to_device()"
        );
    }
    format!("operands are on {lhs} and {rhs}; move one with to_device()")
}

fn of_request(requested: u64) -> String {
    match requested {
        0 => "for the driver's own needs".to_owned(),
        bytes => format!("{bytes} bytes requested"),
    }
}

fn of_tensor(tensor: &Option<String>) -> String {
    tensor.as_ref().map(|name| format!(", tensor `{name}`")).unwrap_or_default()
}

fn of_limit(limit: &Option<u64>) -> String {
    limit.map(|l| format!(", limit {l}")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_of_one_name_are_told_apart() {
        let said = |lhs: &str, rhs: &str| {
            Error::DeviceMismatch { op: "add", lhs: lhs.to_owned(), rhs: rhs.to_owned() }.to_string()
        };
        assert_eq!(said("cpu", "cuda:0"), "add: operands are on cpu and cuda:0; move one with to_device()");
        let same = said("cpu", "cpu");
        assert!(same.contains("opened separately as `cpu`") && same.contains("clone the handle"), "{same}");
        assert!(!same.contains("cpu and cpu"), "{same}");
    }

    #[test]
    fn ranges_are_told_beside_what_is_outside_of_them() {
        let axis = |axis, rank| Error::AxisOutOfRange { axis, rank }.to_string();
        assert_eq!(
            axis(2, 2),
            "axis 2 is out of range for a tensor of rank 2: its axes are 0 to 1, or -1 to -2 from the last"
        );
        assert!(axis(-2, 1).ends_with("its only axis is 0, or -1") && axis(0, 0).ends_with("it has no axes"));
        let index = |index, len| Error::IndexOutOfRange { axis: 1, index, len }.to_string();
        assert_eq!(
            index(3, 3),
            "index 3 is out of range on axis 1 of length 3: its indices are 0 to 2, or -1 to -3 from the last"
        );
        assert!(index(0, 0).ends_with("it has no indices") && index(1, 1).ends_with("its only index is 0, or -1"));
    }

    #[test]
    fn length_of_data_is_told_from_a_tensor_that_is_not_one_number() {
        let said =
            |shape: &[u64], expected, got| Error::DataLength { shape: shape.to_vec(), expected, got }.to_string();
        assert_eq!(
            said(&[2, 3], 6, 5),
            "shape [2, 3] holds 6 elements but the data has 5; give 6 elements, or the shape of 5"
        );
        assert!(
            said(&[2, 3], 1, 6).starts_with("a tensor of shape [2, 3] has 6 elements, and the call reads the only one")
        );
        assert!(said(&[], 1, 3).starts_with("shape [] holds 1 element but the data has 3; give 1 element, or"));
        assert!(said(&[0, 3], 1, 0).starts_with("a tensor of shape [0, 3] has 0 elements"));
    }

    #[test]
    fn devices_that_are_there_are_listed() {
        let said = |available: &[&str]| {
            let available = available.iter().map(|name| (*name).to_owned()).collect();
            Error::NoSuchDevice { name: "gpu".to_owned(), variable: None, available }.to_string()
        };
        assert_eq!(said(&["wgpu:0", "cpu"]), "no device `gpu`: available are wgpu:0, cpu");
        assert_eq!(said(&[]), "no device `gpu`: none is available; `polywarp doctor` says what is missing");
    }

    /// What made it lives in a browser only (`tests/web`); what it says is the same everywhere.
    #[test]
    fn would_block_names_the_call_and_the_way_out() {
        let said = Error::WouldBlock { what: "read_blocking" }.to_string();
        assert_eq!(said, "read_blocking would block, which a browser's main thread cannot; use the async form");
    }
}
