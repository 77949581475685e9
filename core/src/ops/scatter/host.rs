//! Elements put along an axis by position, on the host.

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

use super::{Scatter, ScatterFn};
use crate::cpu::elements::{dense_mut, for_size, typed};
use crate::cpu::lanes::{narrow_bf16, narrow_f16};
use crate::cpu::parallel;
use crate::cpu::reduce::{Number, Widen};
use crate::cpu::scratch::{self, Done};
use crate::cpu::view::Runs;
use crate::ops::host::place;
use crate::{DType, F8E4M3, F8E5M2};

pub(crate) fn execute(op: &Scatter, inputs: &[&[u8]], output: &mut [u8]) -> Done {
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
