//! argmax and argmin: the reduced axes are brought innermost, then each row is searched.

use half::{bf16, f16};

use super::super::arg_reduce as kernels;
use super::super::reduce::{Element, Max, Min};
use super::gather::dense;
use super::{dense_mut, typed};
use crate::DType;
use crate::ops::{ArgReduce, ArgReduceFn};

pub(super) fn execute(op: &ArgReduce, input: &[u8], output: &mut [u8]) {
    match op.input.dtype {
        DType::F16 => search::<f16>(op, input, output),
        DType::BF16 => search::<bf16>(op, input, output),
        DType::F32 => search::<f32>(op, input, output),
        DType::F64 => search::<f64>(op, input, output),
        DType::I8 => search::<i8>(op, input, output),
        DType::U8 | DType::Bool => search::<u8>(op, input, output),
        DType::I32 => search::<i32>(op, input, output),
        DType::U32 => search::<u32>(op, input, output),
        DType::I64 => search::<i64>(op, input, output),
    }
}

fn search<T: Element + bytemuck::Pod>(op: &ArgReduce, input: &[u8], output: &mut [u8]) {
    let layout = &op.input.layout;
    let kept = (0..layout.rank()).filter(|axis| !op.axes.contains(axis));
    let order: Vec<usize> = kept.chain(op.axes.iter().copied()).collect();
    let rows = layout.permute(&order).unwrap_or(*layout); // a permutation of its own axes: always valid
    let x = dense(&rows, typed::<T>(input));
    let output: &mut [u32] = dense_mut(&op.output, output);
    if let [only] = output {
        let found = match op.function {
            ArgReduceFn::ArgMax => kernels::argmax(&x),
            ArgReduceFn::ArgMin => kernels::argmin(&x),
        };
        *only = found.unwrap_or(0) as u32;
        return;
    }
    let mut positions = vec![0i64; output.len()];
    match op.function {
        ArgReduceFn::ArgMax => kernels::arg_reduce_rows(Max, &x, op.count() as usize, &mut positions),
        ArgReduceFn::ArgMin => kernels::arg_reduce_rows(Min, &x, op.count() as usize, &mut positions),
    }
    output.iter_mut().zip(positions).for_each(|(y, position)| *y = position as u32);
}
