//! Elementwise expressions: block by block, every step a vector loop over values that stay in L1.
//!
//! Programs of one step over dense f32 operands skip the blocks and stream straight from memory to memory.

use crate::cpu::elements::{dense_mut, for_dtype, typed};
use crate::cpu::lanes::{self, BLOCK, Lanes, Stored};
use crate::cpu::parallel::{self, CHUNK, SERIAL};
use crate::cpu::view::Runs;
use crate::ops::Map;
use crate::{BinaryFn, DType, Step, TensorSpec, UnaryFn};

pub(crate) fn execute(op: &Map, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) {
    if op.updates == 0 && op.others.is_empty() && stream(op, inputs, outputs[0]).is_some() {
        return;
    }
    let sources: Vec<Source<'_>> = op
        .inputs
        .iter()
        .zip(inputs)
        .map(|(spec, bytes)| Source { spec, runs: Runs::new(&spec.layout), bytes })
        .collect();
    interpret(op, &sources, outputs);
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

/// A run of elements of every output, from position `first` on.
struct Chunk<'a> {
    first: usize,
    len: usize,
    outputs: Vec<Target<'a>>,
}

/// Dense elements of one output.
struct Target<'a> {
    dtype: DType,
    bytes: &'a mut [u8],
}

impl Target<'_> {
    /// The `len` elements from number `start` of the run on.
    fn elements<T: Stored>(&mut self, start: usize, len: usize) -> &mut [T] {
        &mut bytemuck::cast_slice_mut(self.bytes)[start..start + len]
    }
}

fn interpret(op: &Map, sources: &[Source<'_>], outputs: &mut [&mut [u8]]) {
    let len = op.output.layout.elements() as usize;
    let mut rests: Vec<(DType, &mut [u8])> = op
        .results()
        .zip(outputs)
        .map(|(spec, bytes)| {
            (spec.dtype, for_dtype!(spec.dtype, T => bytemuck::cast_slice_mut(dense_mut::<T>(spec, bytes))))
        })
        .collect();
    let size = if len < SERIAL / 8 { len.max(1) } else { CHUNK };
    let mut chunks = Vec::with_capacity(len.div_ceil(size));
    for first in (0..len).step_by(size) {
        let len = size.min(len - first);
        let outputs = rests.iter_mut().map(|(dtype, rest)| {
            let (bytes, behind) = std::mem::take(rest).split_at_mut(len * dtype.size_bytes() as usize);
            *rest = behind;
            Target { dtype: *dtype, bytes }
        });
        chunks.push(Chunk { first, len, outputs: outputs.collect() });
    }
    parallel::each(&mut chunks, |chunk| interpret_chunk(op, sources, chunk));
}

fn interpret_chunk(op: &Map, sources: &[Source<'_>], chunk: &mut Chunk<'_>) {
    let program = &op.program;
    let mut values: Vec<Lanes> = program.steps().iter().map(|&(_, dtype)| Lanes::new(dtype)).collect();
    for (&(step, _), lanes) in program.steps().iter().zip(&mut values) {
        match step {
            Step::Constant(n) => lanes.fill(program.constants()[usize::from(n)]),
            Step::Input(n) => {
                // A broadcast scalar is loaded once per chunk, like a constant.
                let Some(source) = sources.get(usize::from(n)) else { continue };
                for_dtype!(source.spec.dtype, S => {
                    if let Some(x) = source.runs.constant(typed::<S>(source.bytes)) {
                        S::load(&[x; BLOCK], lanes);
                    }
                });
            }
            _ => {}
        }
    }
    for at in (0..chunk.len).step_by(BLOCK) {
        let (start, len) = (chunk.first + at, BLOCK.min(chunk.len - at));
        for (i, &(step, dtype)) in program.steps().iter().enumerate() {
            let (earlier, rest) = values.split_at_mut(i);
            let (of, y) = (|id: u16| &earlier[usize::from(id)], &mut rest[0]);
            match step {
                Step::Constant(_) => {}
                Step::Input(n) => match sources.get(usize::from(n)) {
                    Some(source) if source.runs.is_constant() => {}
                    Some(source) => source.load(start, len, y),
                    // All that is updated is read before any of it is written, below.
                    None => {
                        let target = &mut chunk.outputs[usize::from(n) - sources.len()];
                        for_dtype!(target.dtype, S => S::load(target.elements::<S>(at, len), y));
                    }
                },
                Step::Index => y.fill_index(start as u64),
                Step::Unary(f, x) => lanes::unary(f, dtype, of(x), y, len),
                Step::Binary(f, a, b) => lanes::binary(f, dtype, of(a), of(b), y, len),
                Step::Compare(f, a, b) => lanes::compare(f, of(a), of(b), y, len),
                Step::Select(c, yes, no) => lanes::select(of(c), of(yes), of(no), y, len),
                Step::Random(key) => lanes::random(key.map(of), start as u64, y, len),
                Step::Cast(x) => {
                    let from = program.steps()[usize::from(x)].1;
                    if program.is_rounded(x) {
                        lanes::cast(of(x), dtype, y, len);
                    } else {
                        let mut rounded = Lanes::new(from);
                        lanes::cast(of(x), from, &mut rounded, len);
                        lanes::cast(&rounded, dtype, y, len);
                    }
                }
            }
            if matches!(step, Step::Unary(..) | Step::Binary(..) | Step::Index) {
                y.wrap(dtype);
            }
        }
        for (number, target) in chunk.outputs.iter_mut().enumerate() {
            let result = program.result(number);
            let lanes = &values[usize::from(result)];
            for_dtype!(target.dtype, T => {
                let out = target.elements::<T>(at, len);
                if program.is_rounded(result) { T::store_rounded(lanes, out) } else { T::store(lanes, out) }
            });
        }
    }
}
