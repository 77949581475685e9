//! Elementwise expressions: block by block, every step a vector loop over values that stay in L1.
//!
//! Programs of one step over dense f32 operands skip the blocks and stream straight from memory to memory.

use super::super::parallel::{self, CHUNK, SERIAL};
use super::gather::Runs;
use super::lanes::{self, BLOCK, Lanes, Stored};
use super::{dense_mut, for_dtype, typed};
use crate::ops::Map;
use crate::{BinaryFn, DType, Program, Step, TensorSpec, UnaryFn};

pub(crate) fn execute(op: &Map, inputs: &[&[u8]], output: &mut [u8]) {
    if stream(op, inputs, output).is_some() {
        return;
    }
    let sources: Vec<Source<'_>> = op
        .inputs
        .iter()
        .zip(inputs)
        .map(|(spec, bytes)| Source { spec, runs: Runs::new(&spec.layout), bytes })
        .collect();
    for_dtype!(op.output.dtype, T => interpret::<T>(&op.program, &sources, dense_mut(&op.output, output)));
}

/// One-step programs over dense f32; `None` when this is not one.
fn stream(op: &Map, inputs: &[&[u8]], output: &mut [u8]) -> Option<()> {
    let f32_only = op.output.dtype == DType::F32 && op.inputs.iter().all(|i| i.dtype == DType::F32);
    if !f32_only {
        return None;
    }
    let len = op.output.layout.elements() as usize;
    let operand = |n: u8| {
        let spec = &op.inputs[usize::from(n)];
        Runs::new(&spec.layout).slice(typed::<f32>(inputs[usize::from(n)]), 0, len)
    };
    let steps: Vec<Step> = op.program.steps().iter().map(|s| s.0).collect();
    match steps[..] {
        [Step::Input(n), Step::Unary(f, 0)] => {
            let x = operand(n)?;
            stream_unary(f, x, dense_mut(&op.output, output));
        }
        [Step::Input(n), Step::Input(m), Step::Binary(f, 0, 1)] => {
            let (a, b) = (operand(n)?, operand(m)?);
            stream_binary(f, a, b, dense_mut(&op.output, output));
        }
        _ => return None,
    }
    Some(())
}

fn stream_unary(f: UnaryFn, x: &[f32], y: &mut [f32]) {
    if y.len() < SERIAL {
        return lanes::unary_f32(f, x, y);
    }
    parallel::pairs((y, CHUNK), (x, CHUNK), |y, x| lanes::unary_f32(f, x, y));
}

fn stream_binary(f: BinaryFn, a: &[f32], b: &[f32], y: &mut [f32]) {
    if y.len() < SERIAL {
        return lanes::binary_f32(f, a, b, y);
    }
    let operand = |x, i| parallel::chunk(x, CHUNK, i);
    parallel::chunks(y, CHUNK, |i, y| lanes::binary_f32(f, operand(a, i), operand(b, i), y));
}

/// An input: what it is and where its bytes are.
struct Source<'a> {
    spec: &'a TensorSpec,
    runs: Runs,
    bytes: &'a [u8],
}

impl Source<'_> {
    /// Elements `start..start + len` in the compute type.
    fn load(&self, start: usize, len: usize, lanes: &mut Lanes) {
        fn go<T: Stored>(source: &Source<'_>, start: usize, len: usize, lanes: &mut Lanes) {
            let storage = typed::<T>(source.bytes);
            if let Some(dense) = source.runs.slice(storage, start, len) {
                return T::load(dense, lanes);
            }
            let mut gathered = [T::zeroed(); BLOCK];
            source.runs.read(storage, start, &mut gathered[..len]);
            T::load(&gathered[..len], lanes);
        }
        for_dtype!(self.spec.dtype, T => go::<T>(self, start, len, lanes));
    }
}

fn interpret<T: Stored>(program: &Program, sources: &[Source<'_>], output: &mut [T]) {
    if output.len() < SERIAL / 8 {
        return interpret_chunk(program, sources, 0, output);
    }
    parallel::chunks(output, CHUNK, |i, out| interpret_chunk(program, sources, i * CHUNK, out));
}

/// The elements from position `first` on.
fn interpret_chunk<T: Stored>(program: &Program, sources: &[Source<'_>], first: usize, output: &mut [T]) {
    let mut values: Vec<Lanes> = program.steps().iter().map(|&(_, dtype)| Lanes::new(dtype)).collect();
    for (&(step, _), lanes) in program.steps().iter().zip(&mut values) {
        match step {
            Step::Constant(n) => lanes.fill(program.constants()[usize::from(n)]),
            Step::Input(n) => {
                // A broadcast scalar is loaded once per chunk, like a constant.
                let source = &sources[usize::from(n)];
                for_dtype!(source.spec.dtype, S => {
                    if let Some(x) = source.runs.constant(typed::<S>(source.bytes)) {
                        S::load(&[x; BLOCK], lanes);
                    }
                });
            }
            _ => {}
        }
    }
    let last = values.len() - 1;
    for (block, out) in output.chunks_mut(BLOCK).enumerate() {
        let (start, len) = (first + block * BLOCK, out.len());
        for (i, &(step, dtype)) in program.steps().iter().enumerate() {
            let (earlier, rest) = values.split_at_mut(i);
            let (at, y) = (|id: u16| &earlier[usize::from(id)], &mut rest[0]);
            match step {
                Step::Constant(_) => {}
                Step::Input(n) => {
                    let source = &sources[usize::from(n)];
                    if !source.runs.is_constant() {
                        source.load(start, len, y);
                    }
                }
                Step::Index => y.fill_index(start as u64),
                Step::Unary(f, x) => lanes::unary(f, at(x), y, len),
                Step::Binary(f, a, b) => lanes::binary(f, at(a), at(b), y, len),
                Step::Compare(f, a, b) => lanes::compare(f, at(a), at(b), y, len),
                Step::Select(c, yes, no) => lanes::select(at(c), at(yes), at(no), y, len),
                Step::Cast(x) => {
                    let from = program.steps()[usize::from(x)].1;
                    if program.is_rounded(x) {
                        lanes::cast(at(x), dtype, y, len);
                    } else {
                        let mut rounded = Lanes::new(from);
                        lanes::cast(at(x), from, &mut rounded, len);
                        lanes::cast(&rounded, dtype, y, len);
                    }
                }
            }
            if matches!(step, Step::Unary(..) | Step::Binary(..) | Step::Index) {
                y.wrap(dtype);
            }
        }
        if program.is_result_rounded() {
            T::store_rounded(&values[last], out);
        } else {
            T::store(&values[last], out);
        }
    }
}
