//! Rows of a table by position, on the host.

use super::Take;
use crate::cpu::parallel::{self, CHUNK};
use crate::ops::host::positions;

pub(crate) fn execute(op: &Take, table: &[u8], indices: &[u8], output: &mut [u8]) {
    let size = op.output.dtype.size_bytes() as usize;
    let row = op.row() as usize * size;
    let elements = op.output.layout.elements() as usize;
    if elements == 0 {
        return;
    }
    let position = positions(&op.indices, indices);
    let start = op.output.layout.offset() as usize * size;
    let output = &mut output[start..start + elements * size];
    let missing = op.missing.scalar(op.output.dtype).to_le_bytes(op.output.dtype);
    // Some rows at a time.
    let rows = (CHUNK * size).div_ceil(row);
    parallel::chunks(output, rows * row, |chunk, output| {
        for (i, output) in output.chunks_exact_mut(row).enumerate() {
            match op.place(position(chunk * rows + i)) {
                Some(at) => {
                    let first = op.table.layout.offset() as i64 + op.table.layout.strides()[0] * at as i64;
                    let first = first as usize * size;
                    output.copy_from_slice(&table[first..first + row]);
                }
                None => output.chunks_exact_mut(size).for_each(|bytes| bytes.copy_from_slice(&missing)),
            }
        }
    });
}
