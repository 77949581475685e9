//! What an operand of a case holds: its values scattered into storage, with garbage around them that no kernel may use.

use super::Values;
use crate::oracle::HostTensor;
use crate::{DType, Layout, Scalar, TensorSpec};

/// Elements of garbage after every input; odd, so that no power of two fits.
const INPUT_GUARD_ELEMENTS: u64 = 19;

/// One operand on the host: its whole storage, and its elements in row-major order.
#[derive(Debug)]
pub(crate) struct Operand {
    pub(crate) storage: Vec<u8>,
    pub(crate) host: HostTensor,
}

pub(crate) fn operand(spec: &TensorSpec, values: &Values, seed: u64) -> Operand {
    let size = spec.dtype.size_bytes() as usize;
    let dense = values.bytes(spec.dtype, spec.layout.elements(), seed);
    let elements = spec.layout.required_elements().max(spec.layout.offset()) + INPUT_GUARD_ELEMENTS;
    let garbage = garbage(spec.dtype);
    let mut storage = garbage.repeat(elements as usize);
    let mut decoded = Vec::with_capacity(spec.layout.elements() as usize);
    if spec.layout.is_contiguous() {
        let start = spec.layout.offset() as usize * size;
        storage[start..start + dense.len()].copy_from_slice(&dense);
        decoded.extend(dense.chunks_exact(size).map(|bytes| Scalar::from_le_bytes(bytes, spec.dtype)));
    } else {
        let places: Vec<usize> = positions(&spec.layout, size).collect();
        for (&at, bytes) in places.iter().zip(dense.chunks_exact(size)) {
            storage[at..at + size].copy_from_slice(bytes);
        }
        // A broadcast element was written several times and holds the last value: read back what is there.
        decoded.extend(places.iter().map(|&at| Scalar::from_le_bytes(&storage[at..at + size], spec.dtype)));
    }
    Operand { storage, host: HostTensor { dtype: spec.dtype, shape: *spec.layout.shape(), values: decoded } }
}

/// The byte position of each element, row-major.
pub(crate) fn positions(layout: &Layout, size: usize) -> impl Iterator<Item = usize> + '_ {
    (0..layout.elements()).map(move |i| layout.index_of(i) as usize * size)
}

/// What lies around a view: NaN, the largest integer, true.
fn garbage(dtype: DType) -> Vec<u8> {
    let value = if dtype.is_float() {
        return vec![0xFF; dtype.size_bytes() as usize];
    } else {
        Scalar::from_integer(dtype.integer_range().map_or(1, |(_, most)| most))
    };
    value.to_le_bytes(dtype)
}
