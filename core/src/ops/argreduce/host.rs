//! argmax and argmin: the reduced axes are brought innermost, then each row is searched.

use half::{bf16, f16};

use crate::cpu::arg_reduce as kernels;
use crate::cpu::elements::{dense_mut, typed};
use crate::cpu::reduce::{Max, Min, Reduction, Widen};
use crate::cpu::scratch::{self, Done};
use crate::cpu::view::dense;
use crate::ops::{ArgReduce, ArgReduceFn};
use crate::{DType, F8E4M3, F8E5M2};

pub(crate) fn execute(op: &ArgReduce, input: &[u8], output: &mut [u8]) -> Done {
    match op.input.dtype {
        DType::F8E4M3 => search::<F8E4M3>(op, input, output),
        DType::F8E5M2 => search::<F8E5M2>(op, input, output),
        DType::F16 => search::<f16>(op, input, output),
        DType::BF16 => search::<bf16>(op, input, output),
        DType::F32 => search::<f32>(op, input, output),
        DType::F64 => search::<f64>(op, input, output),
        DType::I8 => search::<i8>(op, input, output),
        DType::U8 | DType::Bool => search::<u8>(op, input, output),
        DType::I16 => search::<i16>(op, input, output),
        DType::U16 => search::<u16>(op, input, output),
        DType::I32 => search::<i32>(op, input, output),
        DType::U32 => search::<u32>(op, input, output),
        DType::I64 => search::<i64>(op, input, output),
        DType::U64 => search::<u64>(op, input, output),
    }
}

fn search<T: Widen + bytemuck::Pod>(op: &ArgReduce, input: &[u8], output: &mut [u8]) -> Done
where
    T::Acc: Widen<Acc = T::Acc>,
{
    let layout = &op.input.layout;
    let kept = || (0..layout.rank()).filter(|axis| !op.axes.contains(axis));
    let reordered = |order: Vec<usize>| layout.permute(&order).unwrap_or(*layout); // of its own axes: always valid
    let rows = reordered(kept().chain(op.axes.iter().copied()).collect());
    let columns = reordered(op.axes.iter().copied().chain(kept()).collect());
    let output: &mut [u32] = dense_mut(&op.output, output);
    let count = op.count() as usize;
    let by_columns = columns.is_contiguous() && !rows.is_contiguous();
    let x = dense(if by_columns { &columns } else { &rows }, typed::<T>(input))?;
    let mut positions = scratch::zeroed::<i64>(output.len())?;
    match op.function {
        ArgReduceFn::ArgMax => find(Max, &x, count, by_columns, &mut positions),
        ArgReduceFn::ArgMin => find(Min, &x, count, by_columns, &mut positions),
    }
    output.iter_mut().zip(positions).for_each(|(y, position)| *y = position as u32);
    Ok(())
}

fn find<T: Widen, R: Reduction<T::Acc>>(f: R, x: &[T], count: usize, by_columns: bool, positions: &mut [i64])
where
    T::Acc: Widen<Acc = T::Acc>,
{
    match positions {
        _ if by_columns => kernels::arg_reduce_columns(f, x, count, positions),
        [only] => *only = kernels::arg_reduce(f, x).unwrap_or(0) as i64,
        _ => kernels::arg_reduce_rows(f, x, count, positions),
    }
}
