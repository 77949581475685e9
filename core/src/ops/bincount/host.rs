//! Counts of whole numbers: one pass by one thread, since it is bound by where the counts lie.

use crate::cpu::elements::{dense_mut, typed};
use crate::ops::Bincount;

pub(crate) fn execute(op: &Bincount, indices: &[u8], output: &mut [u8]) {
    let counts = dense_mut::<u32>(&op.output, output);
    counts.fill(0);
    let elements = op.indices.layout.elements() as usize;
    let first = if elements == 0 { 0 } else { op.indices.layout.offset() as usize };
    // A negative number is a large one, and no bin: there are fewer than 2^31, or no i32 reaches it.
    let is_signed = op.indices.dtype == crate::DType::I32;
    for &bin in &typed::<u32>(indices)[first..first + elements] {
        if is_signed && bin > i32::MAX as u32 {
            continue;
        }
        if let Some(count) = counts.get_mut(bin as usize) {
            *count += 1;
        }
    }
}
