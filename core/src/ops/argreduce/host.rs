//! argmax and argmin: the reduced axes are brought innermost, then each row is searched.

use half::{bf16, f16};

use crate::cpu::arg_reduce as kernels;
use crate::cpu::elements::{dense_mut, typed};
use crate::cpu::reduce::{Max, Min, Reduction, Widen};
use crate::cpu::scratch::{self, Done};
use crate::cpu::view::dense;
use crate::ops::{ArgReduce, ArgReduceFn};
use crate::{DType, F8E4M3, F8E5M2, Layout};

pub(crate) fn execute(op: &ArgReduce, input: &[u8], output: &mut [u8]) -> Done {
    let layout = &op.input.layout;
    let kept = || (0..layout.rank()).filter(|axis| !op.axes.contains(axis));
    let reordered = |order: Vec<usize>| layout.permute(&order).unwrap_or(*layout); // of its own axes: always valid
    let rows = reordered(kept().chain(op.axes.iter().copied()).collect());
    let columns = reordered(op.axes.iter().copied().chain(kept()).collect());
    let by_columns = columns.is_contiguous() && !rows.is_contiguous();
    let search = Search { op, view: if by_columns { columns } else { rows }, by_columns };
    let output: &mut [u32] = dense_mut(&op.output, output);
    let mut positions = scratch::zeroed::<i64>(output.len())?;
    let found = &mut positions[..];
    match op.input.dtype {
        DType::F8E4M3 => search.of::<F8E4M3>(input, found),
        DType::F8E5M2 => search.of::<F8E5M2>(input, found),
        DType::F16 => search.of::<f16>(input, found),
        DType::BF16 => search.of::<bf16>(input, found),
        DType::F32 => search.of::<f32>(input, found),
        DType::F64 => search.of::<f64>(input, found),
        DType::I8 => search.of::<i8>(input, found),
        DType::U8 | DType::Bool => search.of::<u8>(input, found),
        DType::I16 => search.of::<i16>(input, found),
        DType::U16 => search.of::<u16>(input, found),
        DType::I32 => search.of::<i32>(input, found),
        DType::U32 => search.of::<u32>(input, found),
        DType::I64 => search.of::<i64>(input, found),
        DType::U64 => search.of::<u64>(input, found),
    }?;
    output.iter_mut().zip(positions).for_each(|(y, position)| *y = position as u32);
    Ok(())
}

/// What every dtype searches alike: the elements with the reduced axes innermost, or outermost where they lie so.
struct Search<'a> {
    op: &'a ArgReduce,
    view: Layout,
    by_columns: bool,
}

impl Search<'_> {
    fn of<T: Widen + bytemuck::Pod>(&self, input: &[u8], positions: &mut [i64]) -> Done
    where
        T::Acc: Widen<Acc = T::Acc>,
    {
        let x = dense(&self.view, typed::<T>(input))?;
        let count = self.op.count() as usize;
        match self.op.function {
            ArgReduceFn::ArgMax => find(Max, &x, count, self.by_columns, positions),
            ArgReduceFn::ArgMin => find(Min, &x, count, self.by_columns, positions),
        }
        Ok(())
    }
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
