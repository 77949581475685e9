//! Elements along an axis by position, on the host: gathered from there, put there in order, and looked for among sorted ones.

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

use crate::cpu::elements::for_size;
use crate::cpu::elements::{dense_mut, for_dtype, typed};
use crate::cpu::lanes::{narrow_bf16, narrow_f16};
use crate::cpu::parallel::{self, CHUNK};
use crate::cpu::reduce::{Element as Widen, Number};
use crate::cpu::scratch::{self, Done};
use crate::cpu::view::Runs;
use crate::ops::{Gather, Scatter, ScatterFn, SearchSorted};
use crate::{DType, F8E4M3, F8E5M2, TensorSpec};

/// What a word of positions names, as a number of either sign.
fn position(spec: &TensorSpec, word: u32) -> i64 {
    if spec.dtype == DType::I32 { i64::from(word as i32) } else { i64::from(word) }
}

/// Of an axis of `n` elements the one that is named.
fn place(spec: &TensorSpec, word: u32, n: u64) -> Option<usize> {
    u64::try_from(position(spec, word)).ok().filter(|&at| at < n).map(|at| at as usize)
}

pub(crate) fn gather(op: &Gather, input: &[u8], indices: &[u8], output: &mut [u8]) {
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

pub(crate) fn scatter(op: &Scatter, inputs: &[&[u8]], output: &mut [u8]) -> Done {
    if op.function == ScatterFn::Set {
        return for_size!(op.output.dtype.size_bytes(), T => put::<T, T>(op, inputs, output, |x| x, |x| x, |_, x| x));
    }
    let keeps = op.function.chooses();
    match op.output.dtype {
        DType::F8E4M3 => computed::<F8E4M3>(op, inputs, output, F8E4M3::from_f32),
        DType::F8E5M2 if keeps => computed::<F8E5M2>(op, inputs, output, F8E5M2::kept_from_f32),
        DType::F8E5M2 => computed::<F8E5M2>(op, inputs, output, F8E5M2::from_f32),
        DType::F16 => computed::<f16>(op, inputs, output, narrow_f16),
        DType::BF16 => computed::<bf16>(op, inputs, output, narrow_bf16),
        DType::F64 => computed::<f64>(op, inputs, output, |x| x),
        DType::I8 => computed::<i8>(op, inputs, output, |x| x),
        DType::U8 | DType::Bool => computed::<u8>(op, inputs, output, |x| x),
        DType::I16 => computed::<i16>(op, inputs, output, |x| x),
        DType::U16 => computed::<u16>(op, inputs, output, |x| x),
        DType::I32 => computed::<i32>(op, inputs, output, |x| x),
        DType::U32 => computed::<u32>(op, inputs, output, |x| x),
        DType::I64 => computed::<i64>(op, inputs, output, |x| x),
        DType::U64 => computed::<u64>(op, inputs, output, |x| x),
        DType::F32 => computed::<f32>(op, inputs, output, |x| x),
    }
}

fn computed<T>(op: &Scatter, inputs: &[&[u8]], output: &mut [u8], narrow: fn(T::Acc) -> T) -> Done
where
    T: Widen + Pod,
    T::Acc: Zeroable,
{
    let step: fn(T::Acc, T::Acc) -> T::Acc = match op.function {
        ScatterFn::Sum | ScatterFn::Set => T::Acc::add,
        ScatterFn::Prod => T::Acc::mul,
        ScatterFn::Max => T::Acc::maximum,
        ScatterFn::Min => T::Acc::minimum,
    };
    put::<T, T::Acc>(op, inputs, output, T::widen, narrow, step)
}

/// Lines of the result by themselves, each over its positions in order.
fn put<T, A>(
    op: &Scatter,
    inputs: &[&[u8]],
    output: &mut [u8],
    widen: fn(T) -> A,
    narrow: fn(A) -> T,
    step: fn(A, A) -> A,
) -> Done
where
    T: Pod + Send + Sync,
    A: Copy + Zeroable,
{
    let output = dense_mut::<T>(&op.output, output);
    let (n, count) = (op.input.layout.dims()[op.axis], op.count() as usize);
    let inner: usize = op.output.layout.dims()[op.axis + 1..].iter().product::<u64>() as usize;
    if output.is_empty() {
        return Ok(());
    }
    let (input, indices, source) = (typed::<T>(inputs[0]), typed::<u32>(inputs[1]), typed::<T>(inputs[2]));
    let [of_input, of_indices, of_source] = [op.input, op.indices, op.source].map(|spec| Runs::new(&spec.layout));
    parallel::try_chunks(output, n as usize * inner, |slab, y| {
        of_input.read(input, slab * y.len(), y);
        let length = count * inner;
        if length == 0 {
            y.iter_mut().for_each(|y| *y = narrow(widen(*y)));
            return Ok(());
        }
        let mut places: Vec<A> = scratch::zeroed(y.len())?;
        places.iter_mut().zip(&*y).for_each(|(place, &y)| *place = widen(y));
        let (mut at, mut x): (Vec<u32>, Vec<T>) = (scratch::zeroed(length)?, scratch::zeroed(length)?);
        of_indices.read(indices, slab * length, &mut at);
        of_source.read(source, slab * length, &mut x);
        for (i, (&word, &x)) in at.iter().zip(&x).enumerate() {
            if let Some(at) = place(&op.indices, word, n) {
                let place = &mut places[at * inner + i % inner];
                *place = step(*place, widen(x));
            }
        }
        y.iter_mut().zip(places).for_each(|(y, place)| *y = narrow(place));
        Ok(())
    })
}

pub(crate) fn search(op: &SearchSorted, sorted: &[u8], values: &[u8], output: &mut [u8]) {
    for_dtype!(op.values.dtype, T => search_words::<T>(op, typed(sorted), typed(values), dense_mut(&op.output, output)));
}

fn search_words<T>(op: &SearchSorted, sorted: &[T], values: &[T], output: &mut [u32])
where
    T: Widen + Pod,
{
    let (n, step) = op.line();
    let (of_sorted, of_values) = op.lines();
    // Numbers in order, NaN behind them all.
    let is_nan = |x: T::Acc| x.partial_cmp(&x).is_none();
    let is_before = |a: T::Acc, b: T::Acc| a < b || (is_nan(b) && !is_nan(a));
    parallel::chunks(output, CHUNK, |number, part| {
        for (i, y) in (number * CHUNK..).zip(part) {
            let x = values[of_values.index_of(i as u64) as usize].widen();
            let first = of_sorted.index_of(i as u64) as i64;
            let (mut low, mut high) = (0, n);
            while low < high {
                let middle = low + (high - low) / 2;
                let m = sorted[(first + middle as i64 * step) as usize].widen();
                if op.side.goes_on(is_before(m, x), is_before(x, m)) { low = middle + 1 } else { high = middle }
            }
            *y = low as u32;
        }
    });
}
