//! Softmax on the CPU: rows are gathered along the axis, computed in f32 (f64 for f64), and put back.

use half::{bf16, f16};

use crate::cpu::elements::{dense_mut, typed};
use crate::cpu::lanes::{narrow_bf16, narrow_f16};
use crate::cpu::parallel::{self, CHUNK};
use crate::cpu::reduce::Widen;
use crate::cpu::scratch::{self, Done};
use crate::cpu::softmax_rows::{self, Form};
use crate::cpu::view::dense;
use crate::ops::{Softmax, SoftmaxFn};
use crate::{DType, F8E4M3, F8E5M2, Layout};

pub(crate) fn execute(op: &Softmax, input: &[u8], output: &mut [u8]) -> Done {
    match op.input.dtype {
        DType::F8E4M3 => narrow::<F8E4M3>(op, input, output, F8E4M3::from_f32),
        DType::F8E5M2 => narrow::<F8E5M2>(op, input, output, F8E5M2::from_f32),
        DType::F16 => narrow::<f16>(op, input, output, narrow_f16),
        DType::BF16 => narrow::<bf16>(op, input, output, narrow_bf16),
        DType::F64 => along_axis(op, typed::<f64>(input), dense_mut(&op.output, output), |x, y, cols| {
            parallel::try_chunks(y, cols, |row, y| row_f64(op.function, parallel::chunk(x, cols, row), y))
        }),
        _ => along_axis(op, typed::<f32>(input), dense_mut(&op.output, output), |x, y, cols| {
            softmax_rows::rows(form(op), x, cols, y);
            Ok(())
        }),
    }
}

fn form(op: &Softmax) -> Form {
    match op.function {
        SoftmaxFn::Softmax => Form::Share,
        SoftmaxFn::LogSoftmax => Form::Logarithm,
    }
}

fn narrow<T>(op: &Softmax, input: &[u8], output: &mut [u8], narrow: fn(f32) -> T) -> Done
where
    T: Widen<Acc = f32> + bytemuck::Pod,
{
    along_axis(op, typed::<T>(input), dense_mut(&op.output, output), |x, y, cols| {
        // A few rows at a time, so that their f32 copies stay in cache.
        let task = CHUNK.div_ceil(cols) * cols;
        parallel::try_chunks(y, task, |i, y| {
            let x = parallel::chunk(x, task, i);
            let (mut wide, mut result) = (scratch::zeroed(x.len())?, scratch::zeroed(x.len())?);
            parallel::map1(|x: T| x.widen(), x, &mut wide);
            softmax_rows::rows(form(op), &wide, cols, &mut result);
            parallel::map1(narrow, &result, y);
            Ok(())
        })
    })
}

/// Calls `rows(x, y, cols)` with the axis innermost, and puts the result back where the axis was.
fn along_axis<T: bytemuck::Pod + Send + Sync>(
    op: &Softmax,
    input: &[T],
    output: &mut [T],
    rows: impl Fn(&[T], &mut [T], usize) -> Done,
) -> Done {
    let layout = &op.input.layout;
    let cols = layout.dims()[op.axis] as usize;
    if op.axis + 1 == layout.rank() {
        return rows(&dense(layout, input)?, output, cols);
    }
    // Swapping the axis with the innermost one, twice, is the identity.
    let last = layout.rank() - 1;
    let swapped = layout.transpose(op.axis, last).unwrap_or(*layout);
    let x = dense(&swapped, input)?;
    let mut y = scratch::zeroed(x.len())?;
    rows(&x, &mut y, cols)?;
    let back = Layout::contiguous(*swapped.shape());
    let back = back.transpose(op.axis, last).unwrap_or(back);
    crate::cpu::view::gather(&back, &y, output);
    Ok(())
}

/// The defining formula in f64, one row.
fn row_f64(function: SoftmaxFn, x: &[f64], y: &mut [f64]) -> Done {
    let max = crate::oracle::largest(x);
    if max == f64::NEG_INFINITY {
        let masked = if function == SoftmaxFn::Softmax { 0.0 } else { f64::NEG_INFINITY };
        y.fill(masked);
        return Ok(());
    }
    let mut exponentials = scratch::zeroed(x.len())?;
    exponentials.iter_mut().zip(x).for_each(|(e, x)| *e = (x - max).exp());
    let sum = crate::cpu::reduce::reduce(crate::cpu::reduce::Sum, &exponentials);
    for ((y, x), e) in y.iter_mut().zip(x).zip(&exponentials) {
        *y = match function {
            SoftmaxFn::Softmax => e / sum,
            SoftmaxFn::LogSoftmax => x - max - sum.ln(),
        };
    }
    Ok(())
}
