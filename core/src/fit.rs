//! Whether an operation fits on a device, before anything is allocated.
//!
//! [`Device::fits`](crate::Device::fits) answers with a [`Fit`]: bytes at the peak, the largest binding, and into how many
//! pieces to split when it does not. A pure function of the op, the device's limits and its memory statistics, with the
//! scratch space its planner asks for. Nothing is split here: [`crate::Tensor::in_batches`] does that. Other programs on
//! the same card, and fragmentation below the pool, are not seen: an answer is no reservation.

use std::ops::Range;

use crate::operation::{Operand, Role};
use crate::{Device, Error, Layout, Op, Result, TensorSpec};

/// What an op takes of a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fit {
    /// Bytes of all operands and scratch space while the op runs, as the device's pool rounds them.
    pub peak_bytes: u64,
    /// The part of them that is still to be allocated.
    pub needed_bytes: u64,
    /// The part of them that is scratch space.
    pub scratch_bytes: u64,
    /// The largest operand or scratch buffer.
    pub largest_binding_bytes: u64,
    /// What the device can still give: its pool's limit, or else its memory, less what is in use. `None`: not known.
    pub free_bytes: Option<u64>,
    /// What to do.
    pub split: Split,
}

/// How to run an op so that it fits.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Split {
    /// In one go.
    Whole,
    /// In `pieces` nearly equal slices of the output's `axis`, one after the other, each in buffers of its own and its
    /// result taken off the device before the next.
    Pieces {
        /// The axis of the output.
        axis: usize,
        /// How many: a power of two, or the axis's whole extent.
        pieces: u64,
    },
    /// Not at all: even the smallest slice is too much, or slices would not give the same result.
    Impossible,
}

impl Fit {
    /// Whether the op fits as it is.
    pub fn whole(&self) -> bool {
        self.split == Split::Whole
    }
}

/// Whether the inputs are on the device already.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inputs {
    /// They count as in use; only output and scratch space are to be allocated.
    Allocated,
    /// They are to be allocated too.
    Missing,
}

/// Bytes of one op in one go.
struct Need {
    peak: u64,
    needed: u64,
    scratch: u64,
    largest: u64,
    /// The planner itself found the op too large.
    too_large: bool,
}

impl Fit {
    fn of(device: &Device, op: &Op, inputs: Inputs) -> Result<Fit> {
        let memory = device.memory();
        let total = memory.limit_bytes.or(device.info().memory_bytes);
        let free = total.map(|total| total.saturating_sub(memory.in_use_bytes));
        let limits = &device.info().limits;
        let limit = limits.max_binding_bytes.min(limits.max_buffer_bytes);
        let fits =
            |need: &Need| !need.too_large && need.largest <= limit && free.is_none_or(|free| need.needed <= free);
        let whole = need(device, op, inputs, TensorSpec::required_bytes)?;
        let split = if fits(&whole) { Split::Whole } else { split(device, op, inputs, fits)? };
        Ok(Fit {
            peak_bytes: whole.peak,
            needed_bytes: whole.needed,
            scratch_bytes: whole.scratch,
            largest_binding_bytes: whole.largest,
            free_bytes: free,
            split,
        })
    }
}

impl Device {
    /// Whether `op` fits as things stand, before anything is allocated: peak bytes, largest binding, and the splitting
    /// needed. Memory that is only cached counts as free.
    ///
    /// ```
    /// use polywarp_core::ops::Matmul;
    /// use polywarp_core::{DType, Device, Inputs, Layout, Shape, TensorSpec};
    ///
    /// let device = Device::cpu();
    /// let square = TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(&[512, 512])?));
    /// let product = Matmul::product(square, square, square).check()?.into();
    /// let fit = device.fits(&product, Inputs::Missing)?;
    /// assert!(fit.whole() && fit.peak_bytes >= 3 * 4 * 512 * 512, "{fit:?}");
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Error::Unsupported`], [`Error::UnsupportedDType`] when the device does not compute it at any size.
    pub fn fits(&self, op: &Op, inputs: Inputs) -> Result<Fit> {
        Fit::of(self, op, inputs)
    }
}

/// Halves the first axis that can be sliced until a piece fits; then the next one.
fn split(device: &Device, op: &Op, inputs: Inputs, fits: impl Fn(&Need) -> bool) -> Result<Split> {
    for (axis, &extent) in op.output().layout.dims().iter().enumerate() {
        let mut pieces = 1;
        while pieces < extent {
            pieces = extent.min(2 * pieces);
            let Some(piece) = op.piece(axis, extent.div_ceil(pieces)) else { break };
            // A piece lies dense in buffers of its own, a broadcast operand as often as it is stored.
            if fits(&need(device, &piece, inputs, TensorSpec::bytes_stored)?) {
                return Ok(Split::Pieces { axis, pieces });
            }
        }
    }
    Ok(Split::Impossible)
}

fn need(device: &Device, op: &Op, inputs: Inputs, bytes: fn(&TensorSpec) -> u64) -> Result<Need> {
    let backend = device.backend();
    let (scratch, too_large) = match backend.scratch_bytes(op) {
        Ok(scratch) => (scratch, false),
        Err(Error::BindingTooLarge { .. } | Error::DispatchTooLarge { .. } | Error::IndexWidth { .. }) => {
            (Vec::new(), true)
        }
        Err(error) => return Err(error),
    };
    let allocated = |bytes: u64| backend.allocated_bytes(bytes);
    let sum = |bytes: &[u64]| bytes.iter().map(|&bytes| allocated(bytes)).fold(0, u64::saturating_add);
    let read: Vec<u64> = op.inputs().iter().map(bytes).collect();
    let (mut written, mut updated) = (Vec::new(), Vec::new());
    for Operand { role, spec } in op.outputs() {
        if role == Role::Update { &mut updated } else { &mut written }.push(bytes(&spec));
    }
    // What is updated is there before, as what is read.
    let (held_bytes, scratch_bytes) = (sum(&read).saturating_add(sum(&updated)), sum(&scratch));
    let new_bytes = sum(&written).saturating_add(scratch_bytes);
    let peak = held_bytes.saturating_add(new_bytes);
    let needed = if inputs == Inputs::Missing { peak } else { new_bytes };
    let largest = read.into_iter().chain(updated).chain(scratch).chain(written).max().unwrap_or(0);
    Ok(Need { peak, needed, scratch: scratch_bytes, largest, too_large })
}

impl TensorSpec {
    /// The view of the first `extent` indices of `axis`.
    pub(crate) fn first(&self, axis: usize, extent: u64) -> Option<TensorSpec> {
        self.range(axis, 0..extent)
    }

    /// The view of a range of `axis`.
    pub(crate) fn range(&self, axis: usize, range: Range<u64>) -> Option<TensorSpec> {
        Some(TensorSpec { layout: self.layout.slice(axis, range.start, range.end, 1).ok()?, ..*self })
    }

    /// A dense operand of that shape.
    pub(crate) fn dense_first(&self, axis: usize, extent: u64) -> Option<TensorSpec> {
        Some(TensorSpec { layout: Layout::contiguous(*self.first(axis, extent)?.layout.shape()), ..*self })
    }

    /// Bytes of its elements, those of broadcast dimensions once.
    fn bytes_stored(&self) -> u64 {
        let dims = self.layout.dims().iter().zip(self.layout.strides());
        let stored = dims.filter(|&(_, &stride)| stride != 0).map(|(&dim, _)| dim).fold(1, u64::saturating_mul);
        stored.min(self.layout.elements()).saturating_mul(self.dtype.size_bytes())
    }
}

#[cfg(test)]
mod tests {
    use crate::case::Level;
    use crate::ops;

    /// Every conformance case that can be sliced: the pieces are well-formed ops of the sliced shapes.
    #[test]
    fn pieces_have_the_sliced_shapes_of_every_op() {
        let mut sliced = std::collections::HashSet::new();
        for case in ops::REGISTRY.iter().flat_map(|family| (family.cases)(Level::Quick)) {
            for (axis, &extent) in case.op.output().layout.dims().iter().enumerate().filter(|&(_, &extent)| extent > 1)
            {
                let Some(piece) = case.op.piece(axis, extent.div_ceil(2)) else { continue };
                sliced.insert(case.family);
                let (whole, part) = (case.op.output(), piece.output());
                for (other, (&before, &after)) in whole.layout.dims().iter().zip(part.layout.dims()).enumerate() {
                    let want = if other == axis { before.div_ceil(2) } else { before };
                    assert_eq!(after, want, "{} axis {axis}", case.name);
                }
                piece.validate().unwrap_or_else(|error| panic!("{}: {error}", case.name));
            }
        }
        let want = ["argreduce", "binary", "cast", "clamp", "compare", "copy", "expr", "matmul", "reduce", "softmax"];
        let want = [&want[..], &["reduced_matmul", "sparse24"]].concat();
        assert!(want.iter().all(|family| sliced.contains(family)), "{sliced:?}");
        assert!(!sliced.contains("random") && !sliced.contains("arange"), "{sliced:?}");
    }
}
