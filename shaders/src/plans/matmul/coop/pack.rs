//! Operands that cannot be read four elements at once, copied first to rows of whole quads in scratch memory.
//!
//! The kernel then runs at the speed of aligned operands, twice that of elements one by one; the copies cost the reading
//! and writing of the operands (f16, 4097x4095x4093: 222 TFLOP/s instead of 139). What pads a row is whatever lies behind it in the operand: kernels mask K and
//! never store what rows and columns beyond M and N give. Only single matrices (a batch may repeat them).

use polywarp_core::ops::{Copy, Matmul};
use polywarp_core::{Layout, Result, Shape, TensorSpec};

use crate::plans::copy;
use crate::{Caps, Launch, Slot};

/// A product of packed operands, and how they become so.
pub(in super::super) struct Packed {
    /// The op on the copies: they start at element 0 of scratch buffers.
    pub op: Matmul,
    /// The copies; the operand is `Input(0)` or `(1)`, its copy `Scratch(0)` or `(1)`.
    pub launches: Vec<Launch>,
    /// Bytes of the copies of A and B; none where the operand is used as it is.
    pub bytes: [Option<u64>; 2],
}

/// One matrix in memory: `far` lines, each of `near` elements.
struct Lines {
    far: (u64, i64),
    near: (u64, i64),
    /// Neighbours lie along the last dimension.
    last: bool,
}

/// Elements between the starts of a copy's lines are a multiple of this: 128 bytes of f16.
const PITCH: u64 = 64;

/// Whether `spec` can be packed.
pub(in super::super) fn can_pack(spec: &TensorSpec) -> bool {
    lines(&spec.layout).is_some()
}

fn lines(layout: &Layout) -> Option<Lines> {
    let rank = layout.rank();
    let dims: Vec<(u64, i64)> = layout.dims().iter().copied().zip(layout.strides().iter().copied()).collect();
    if dims[..rank - 2].iter().any(|&(extent, stride)| extent > 1 && stride != 0) {
        return None;
    }
    let last = dims[rank - 1].1 <= dims[rank - 2].1;
    let (near, far) = if last { (dims[rank - 1], dims[rank - 2]) } else { (dims[rank - 2], dims[rank - 1]) };
    // What is read behind a line must lie inside the operand: in the lines that follow.
    let room = near.1 >= 1 && far.0 >= 2 && near.1.checked_mul(PITCH as i64).is_some_and(|pad| pad <= far.1);
    room.then_some(Lines { far, near, last })
}

/// `op` with those operands packed for which `wanted` is true.
pub(in super::super) fn pack(op: &Matmul, wanted: [bool; 2], caps: &Caps) -> Result<Packed> {
    let mut packed = Packed { op: op.clone(), launches: Vec::new(), bytes: [None; 2] };
    for (which, wanted) in wanted.into_iter().enumerate() {
        let spec = if which == 0 { op.a } else { op.b };
        let Some(lines) = lines(&spec.layout).filter(|_| wanted) else { continue };
        let Lines { far, near, last } = lines;
        let pitch = near.0.next_multiple_of(PITCH);
        let whole = far.0 - 1;
        // The last line alone: behind it the operand may end.
        let copies = [
            (Shape::new(&[whole, pitch])?, 0, 0),
            (Shape::new(&[1, near.0])?, whole * far.1.unsigned_abs(), whole * pitch),
        ];
        for (shape, from, to) in copies {
            let input = Layout::strided(shape, &[far.1, near.1], spec.layout.offset() + from)?;
            let output = Layout::contiguous(shape).with_offset(to);
            let copy = Copy::new(TensorSpec::new(spec.dtype, input), TensorSpec::new(spec.dtype, output))?;
            for mut launch in copy::plan(&copy, caps)?.launches {
                for slot in &mut launch.bindings {
                    *slot = match slot {
                        Slot::Output => Slot::Scratch(which),
                        _ => Slot::Input(which),
                    };
                }
                packed.launches.push(launch);
            }
        }
        let rank = spec.layout.rank();
        let mut strides = vec![0; rank];
        (strides[rank - 2], strides[rank - 1]) = if last { (pitch as i64, 1) } else { (1, pitch as i64) };
        let layout = Layout::strided(*spec.layout.shape(), &strides, 0)?;
        let spec = TensorSpec::new(spec.dtype, layout);
        packed.bytes[which] = Some(far.0 * pitch * spec.dtype.size_bytes());
        if which == 0 { packed.op.a = spec } else { packed.op.b = spec }
    }
    Ok(packed)
}
