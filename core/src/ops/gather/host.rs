//! Elements along an axis by position, on the host.

use bytemuck::Pod;

use super::Gather;
use crate::cpu::elements::{dense_mut, for_size, typed};
use crate::cpu::parallel::{self, CHUNK};
use crate::ops::host::place;

pub(crate) fn execute(op: &Gather, input: &[u8], indices: &[u8], output: &mut [u8]) {
    for_size!(op.output.dtype.size_bytes(), T => gather_words::<T>(op, typed(input), typed(indices), dense_mut(&op.output, output)));
}

fn gather_words<T: Pod + Send + Sync>(op: &Gather, input: &[T], indices: &[u32], output: &mut [T]) {
    let missing = op.missing.scalar(op.output.dtype).to_le_bytes(op.output.dtype);
    let missing: T = bytemuck::pod_read_unaligned(&missing);
    let (dims, [of_input, of_indices]) = op.walk();
    let (n, step) = (op.input.layout.dims()[op.axis], op.input.layout.strides()[op.axis]);
    let first = [op.input.layout.offset() as i64, op.indices.layout.offset() as i64];
    let at = |linear: usize| {
        let mut rest = linear as u64;
        let mut places = first;
        for (dim, strides) in dims.iter().zip(of_input.iter().zip(&of_indices)).rev() {
            let i = (rest % dim) as i64;
            places = [places[0] + i * strides.0, places[1] + i * strides.1];
            rest /= dim;
        }
        places
    };
    let row = dims.last().map_or(1, |&dim| dim as usize);
    let [x_step, i_step] = [&of_input, &of_indices].map(|strides| strides.last().copied().unwrap_or(0));
    parallel::chunks(output, CHUNK, |number, part| {
        let mut start = number * CHUNK;
        let mut rest = part;
        while !rest.is_empty() {
            let length = (row - start % row).min(rest.len());
            let (run, others) = rest.split_at_mut(length);
            let [x, index] = at(start);
            for (j, y) in (0..).zip(run) {
                let found = place(&op.indices, indices[(index + j * i_step) as usize], n);
                *y = found.map_or(missing, |at| input[(x + j * x_step + at as i64 * step) as usize]);
            }
            (start, rest) = (start + length, others);
        }
    });
}
