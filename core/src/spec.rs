//! What an operand is to an operation: its dtype and how its elements lie in its buffer.

use crate::{DType, Layout, Scalar, Shape};

/// Bytes every dense output starts at a multiple of, within its buffer.
pub const OUTPUT_ALIGNMENT_BYTES: u64 = 16;

/// Dtype and layout of one operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TensorSpec {
    /// Element type.
    pub dtype: DType,
    /// Shape, strides and offset within the operand's buffer.
    pub layout: Layout,
}

impl TensorSpec {
    /// An operand of this dtype and layout.
    pub fn new(dtype: DType, layout: Layout) -> TensorSpec {
        TensorSpec { dtype, layout }
    }

    /// A dense operand that starts its buffer.
    pub fn dense(dtype: DType, shape: Shape) -> TensorSpec {
        TensorSpec::new(dtype, Layout::contiguous(shape))
    }

    /// Bytes its buffer must have.
    pub fn required_bytes(&self) -> u64 {
        self.layout.required_elements().saturating_mul(self.dtype.size_bytes())
    }

    /// Bytes of its elements, each counted once.
    pub fn bytes(&self) -> u64 {
        self.layout.elements().saturating_mul(self.dtype.size_bytes())
    }

    /// Its elements, one by one, where it is dense and its buffer holds `bytes`; `None` where these are too few.
    pub(crate) fn dense_values<'a>(&self, bytes: &'a [u8]) -> Option<impl Iterator<Item = Scalar> + use<'a>> {
        let (dtype, layout, size) = (self.dtype, &self.layout, self.dtype.size_bytes() as usize);
        if !layout.is_contiguous() {
            return None;
        }
        let start = if layout.elements() == 0 { 0 } else { layout.offset() as usize * size };
        let elements = bytes.get(start..)?.get(..layout.elements() as usize * size)?;
        Some(elements.chunks_exact(size).map(move |bytes| Scalar::from_le_bytes(bytes, dtype)))
    }

    /// Bytes of the distinct elements: a broadcast dimension counts once.
    pub(crate) fn bytes_once(&self) -> u64 {
        let dims = self.layout.dims().iter().zip(self.layout.strides());
        let distinct = dims.filter(|&(_, &stride)| stride != 0).map(|(&dim, _)| dim).fold(1, u64::saturating_mul);
        distinct.min(self.layout.elements()).saturating_mul(self.dtype.size_bytes())
    }
}
