//! Rows of a table by position, and sums of rows by place.

use half::{bf16, f16};

use crate::cpu::elements::{dense_mut, typed};
use crate::cpu::lanes::{narrow_bf16, narrow_f16};
use crate::cpu::parallel::{self, CHUNK};
use crate::cpu::reduce::{Element as Widen, Number};
use crate::cpu::scratch::{self, Done};
use crate::ops::{ScatterAdd, Take};
use crate::{DType, F8E4M3, F8E5M2, TensorSpec};

/// The positions, as whole numbers of either sign.
fn positions<'a>(spec: &TensorSpec, bytes: &'a [u8]) -> impl Fn(usize) -> i64 + Sync + use<'a> {
    let (words, first) = (typed::<u32>(bytes), spec.layout.offset() as usize);
    let is_signed = spec.dtype == DType::I32;
    move |i| {
        let word = words[first + i];
        if is_signed { i64::from(word as i32) } else { i64::from(word) }
    }
}

pub(crate) fn take(op: &Take, table: &[u8], indices: &[u8], output: &mut [u8]) {
    let size = op.output.dtype.size_bytes() as usize;
    let row = op.row() as usize * size;
    let elements = op.output.layout.elements() as usize;
    if elements == 0 {
        return;
    }
    let position = positions(&op.indices, indices);
    let start = op.output.layout.offset() as usize * size;
    let output = &mut output[start..start + elements * size];
    let missing = op.missing.scalar(op.output.dtype).to_le_bytes(op.output.dtype);
    // Some rows at a time.
    let rows = (CHUNK * size).div_ceil(row);
    parallel::chunks(output, rows * row, |chunk, output| {
        for (i, output) in output.chunks_exact_mut(row).enumerate() {
            match op.place(position(chunk * rows + i)) {
                Some(at) => {
                    let first = op.table.layout.offset() as i64 + op.table.layout.strides()[0] * at as i64;
                    let first = first as usize * size;
                    output.copy_from_slice(&table[first..first + row]);
                }
                None => output.chunks_exact_mut(size).for_each(|bytes| bytes.copy_from_slice(&missing)),
            }
        }
    });
}

pub(crate) fn scatter_add(op: &ScatterAdd, values: &[u8], indices: &[u8], output: &mut [u8]) -> Done {
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
    T: Widen + bytemuck::Pod,
    T::Acc: Number + bytemuck::Zeroable,
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
