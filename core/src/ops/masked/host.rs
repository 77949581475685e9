//! What a mask is true for, on the host: positions and elements, in order, in one pass on one thread.

use bytemuck::Pod;

use crate::TensorSpec;
use crate::cpu::elements::for_size;
use crate::cpu::elements::{dense_mut, typed};
use crate::ops::{MaskedScatter, MaskedSelect, Nonzero};

/// The elements of a dense operand.
fn dense<'a, T: Pod>(spec: &TensorSpec, bytes: &'a [u8]) -> &'a [T] {
    let elements = spec.layout.elements() as usize;
    let start = if elements == 0 { 0 } else { spec.layout.offset() as usize };
    &typed(bytes)[start..start + elements]
}

/// The first true elements, then `u32::MAX`.
pub(crate) fn nonzero(op: &Nonzero, mask: &[u8], output: &mut [u8]) {
    let mut places = dense::<u8>(&op.mask, mask).iter().enumerate().filter(|(_, x)| **x != 0);
    let output = dense_mut::<u32>(&op.output, output);
    output.iter_mut().for_each(|y| *y = places.next().map_or(u32::MAX, |(at, _)| at as u32));
}

pub(crate) fn select(op: &MaskedSelect, inputs: &[&[u8]], output: &mut [u8]) {
    for_size!(op.output.dtype.size_bytes(), T => {
        let missing = op.missing.scalar(op.output.dtype).to_le_bytes(op.output.dtype);
        let missing: T = bytemuck::pod_read_unaligned(&missing);
        let pairs = dense::<T>(&op.input, inputs[0]).iter().zip(dense::<u8>(&op.mask, inputs[1]));
        let mut chosen = pairs.filter(|(_, is_true)| **is_true != 0).map(|(x, _)| *x);
        let output = dense_mut::<T>(&op.output, output);
        output.iter_mut().for_each(|y| *y = chosen.next().unwrap_or(missing));
    });
}

pub(crate) fn scatter(op: &MaskedScatter, inputs: &[&[u8]], output: &mut [u8]) {
    for_size!(op.output.dtype.size_bytes(), T => {
        let pairs = dense::<T>(&op.input, inputs[0]).iter().zip(dense::<u8>(&op.mask, inputs[1]));
        let mut source = dense::<T>(&op.source, inputs[2]).iter();
        for (y, (&x, &is_true)) in dense_mut::<T>(&op.output, output).iter_mut().zip(pairs) {
            let put = if is_true == 0 { None } else { source.next() };
            *y = put.copied().unwrap_or(x);
        }
    });
}
