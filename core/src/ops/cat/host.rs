//! Joining on the host: rows of the result, from one operand after the other.

use bytemuck::Pod;

use super::Cat;
use crate::cpu::elements::{dense_mut, for_size, typed};
use crate::cpu::parallel::{self, CHUNK};
use crate::cpu::view::Runs;

pub(crate) fn execute(op: &Cat, inputs: &[&[u8]], output: &mut [u8]) {
    for_size!(op.output.dtype.size_bytes(), T => cat_words::<T>(op, inputs, dense_mut(&op.output, output)));
}

fn cat_words<T: Pod + Send + Sync>(op: &Cat, inputs: &[&[u8]], output: &mut [T]) {
    if output.is_empty() {
        return;
    }
    let inner: u64 = op.output.layout.dims()[op.axis + 1..].iter().product();
    // Of each operand its elements, its walk, and its run in a row of the result.
    let runs: Vec<(&[T], Runs, usize)> = op
        .inputs
        .iter()
        .zip(inputs)
        .map(|(spec, bytes)| (typed(bytes), Runs::new(&spec.layout), (spec.layout.dims()[op.axis] * inner) as usize))
        .filter(|(_, _, run)| *run > 0)
        .collect();
    let length: usize = runs.iter().map(|(_, _, run)| run).sum();
    let rows = CHUNK.div_ceil(length);
    parallel::chunks(output, rows * length, |i, part| {
        for (j, mut row) in part.chunks_mut(length).enumerate() {
            for (storage, walk, run) in &runs {
                let (own, rest) = row.split_at_mut(*run);
                walk.read(storage, (i * rows + j) * run, own);
                row = rest;
            }
        }
    });
}
