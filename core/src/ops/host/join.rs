//! Padding and joining on the host: rows of the result, each from one place or from one operand after the other.

use crate::cpu::elements::{dense_mut, for_size, typed};
use bytemuck::Pod;

use crate::cpu::parallel::{self, CHUNK};
use crate::cpu::view::Runs;
use crate::ops::{Cat, Pad, PadAxis};

pub(crate) fn pad(op: &Pad, input: &[u8], output: &mut [u8]) {
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

pub(crate) fn cat(op: &Cat, inputs: &[&[u8]], output: &mut [u8]) {
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
