//! Sums of rows by place, on the host.

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

use super::ScatterAdd;
use crate::cpu::elements::{dense_mut, typed};
use crate::cpu::lanes::{narrow_bf16, narrow_f16};
use crate::cpu::parallel;
use crate::cpu::reduce::{Number, Widen};
use crate::cpu::scratch::{self, Done};
use crate::ops::host::positions;
use crate::{DType, F8E4M3, F8E5M2};

pub(crate) fn execute(op: &ScatterAdd, values: &[u8], indices: &[u8], output: &mut [u8]) -> Done {
    match op.output.dtype {
        DType::F8E4M3 => sum::<F8E4M3>(op, values, indices, output, F8E4M3::from_f32),
        DType::F8E5M2 => sum::<F8E5M2>(op, values, indices, output, F8E5M2::from_f32),
        DType::F16 => sum::<f16>(op, values, indices, output, narrow_f16),
        DType::BF16 => sum::<bf16>(op, values, indices, output, narrow_bf16),
        DType::F64 => sum::<f64>(op, values, indices, output, |x| x),
        _ => sum::<f32>(op, values, indices, output, |x| x),
    }
}

/// Each row of the output by itself, over its positions in order.
fn sum<T>(op: &ScatterAdd, values: &[u8], indices: &[u8], output: &mut [u8], narrow: fn(T::Acc) -> T) -> Done
where
    T: Widen + Pod,
    T::Acc: Number + Zeroable,
{
    let (row, count) = (op.row() as usize, op.indices.layout.elements() as usize);
    let output = dense_mut::<T>(&op.output, output);
    if output.is_empty() {
        return Ok(());
    }
    // (row, position) of all, the positions of a row together and in order.
    let position = positions(&op.indices, indices);
    let mut places: Vec<(u64, usize)> = scratch::filled((0, 0), count)?;
    places.clear();
    places.extend((0..count).filter_map(|i| Some((op.place(position(i))?, i))));
    places.sort_unstable();
    let (values, first) = (typed::<T>(values), op.values.layout.offset() as i64);
    // Checked when the op was made.
    let distance = op.distance().unwrap_or(0);
    parallel::try_chunks(output, row, |at, output| {
        let from = places.partition_point(|&(place, _)| place < at as u64);
        let mine = places[from..].iter().take_while(|&&(place, _)| place == at as u64);
        let mut sums: Vec<T::Acc> = scratch::zeroed(row)?;
        for &(_, i) in mine {
            let start = (first + distance * i as i64) as usize;
            for (sum, x) in sums.iter_mut().zip(&values[start..start + row]) {
                *sum = sum.add(x.widen());
            }
        }
        for (y, sum) in output.iter_mut().zip(sums) {
            *y = narrow(sum);
        }
        Ok(())
    })
}
