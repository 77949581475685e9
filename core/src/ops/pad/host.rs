//! Padding on the host: rows of the result, each from one place.

use bytemuck::Pod;

use super::{Pad, PadAxis};
use crate::cpu::elements::{dense_mut, for_size, typed};
use crate::cpu::parallel::{self, CHUNK};

pub(crate) fn execute(op: &Pad, input: &[u8], output: &mut [u8]) {
    for_size!(op.output.dtype.size_bytes(), T => pad_words::<T>(op, typed(input), dense_mut(&op.output, output)));
}

fn pad_words<T: Pod + Send + Sync>(op: &Pad, input: &[T], output: &mut [T]) {
    let outside: T = bytemuck::pod_read_unaligned(&op.fill[..size_of::<T>()]);
    let (outer, row) = match op.axes().split_last() {
        Some((&row, outer)) => (outer.to_vec(), row),
        None => (Vec::new(), PadAxis { output: 1, input: 1, before: 0, stride: 1 }),
    };
    let length = row.output as usize;
    if output.is_empty() {
        return;
    }
    let first = op.input.layout.offset() as i64;
    // Where row `number` starts in the input; nowhere, where it lies outside.
    let start = |number: usize| {
        let mut rest = number as u64;
        outer.iter().rev().try_fold(first, |at, axis| {
            let i = rest % axis.output;
            rest /= axis.output;
            Some(at + op.source(axis, i)? as i64 * axis.stride)
        })
    };
    let fill = |start: i64, from: u64, part: &mut [T]| {
        for (i, y) in (from..).zip(part) {
            let at = op.source(&row, i).map(|at| (start + at as i64 * row.stride) as usize);
            *y = at.map_or(outside, |at| input[at]);
        }
    };
    let one = |number: usize, from: u64, part: &mut [T]| match start(number) {
        Some(start) => fill(start, from, part),
        None => part.fill(outside),
    };
    if length >= CHUNK {
        for (number, row) in output.chunks_mut(length).enumerate() {
            parallel::chunks(row, CHUNK, |i, part| one(number, (i * CHUNK) as u64, part));
        }
        return;
    }
    let rows = CHUNK.div_ceil(length);
    parallel::chunks(output, rows * length, |i, part| {
        part.chunks_mut(length).enumerate().for_each(|(j, part)| one(i * rows + j, 0, part));
    });
}
