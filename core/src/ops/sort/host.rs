//! Sorting: lines are brought together along the axis, and pairs of a key and a position are sorted, which makes any sort stable.
//!
//! Keys are i64 that order as the elements do: NaN highest, zeros equal, the numbers turned round for descending order.

use bytemuck::Pod;
use half::{bf16, f16};

use crate::cpu::elements::{dense_mut, typed};
use crate::cpu::parallel;
use crate::cpu::reduce::Widen;
use crate::cpu::scratch::{self, Done};
use crate::cpu::view::{dense, gather};
use crate::ops::{Sort, SortOrder};
use crate::{DType, F8E4M3, F8E5M2, Layout};

/// Elements of a task, or of one line.
const TASK: usize = 4096;

pub(crate) fn execute(op: &Sort, input: &[u8], outputs: &mut [&mut [u8]]) -> Done {
    match op.input.dtype {
        DType::F8E4M3 => sort::<F8E4M3>(op, input, outputs, |x| of_f32(x.widen())),
        DType::F8E5M2 => sort::<F8E5M2>(op, input, outputs, |x| of_f32(x.widen())),
        DType::F16 => sort::<f16>(op, input, outputs, |x| of_f32(x.widen())),
        DType::BF16 => sort::<bf16>(op, input, outputs, |x| of_f32(x.widen())),
        DType::F32 => sort::<f32>(op, input, outputs, of_f32),
        DType::F64 => sort::<f64>(op, input, outputs, of_f64),
        DType::I8 => sort::<i8>(op, input, outputs, i64::from),
        DType::U8 | DType::Bool => sort::<u8>(op, input, outputs, i64::from),
        DType::I16 => sort::<i16>(op, input, outputs, i64::from),
        DType::U16 => sort::<u16>(op, input, outputs, i64::from),
        DType::I32 => sort::<i32>(op, input, outputs, i64::from),
        DType::U32 => sort::<u32>(op, input, outputs, i64::from),
        DType::I64 => sort::<i64>(op, input, outputs, |x| x),
        // Half of the range down, in order.
        DType::U64 => sort::<u64>(op, input, outputs, |x| (x ^ 1 << 63) as i64),
    }
}

/// What no number's key is, in either order.
const NAN: i64 = i64::MAX;

fn of_f32(x: f32) -> i64 {
    let magnitude = i64::from(x.to_bits() & 0x7fff_ffff);
    if x.is_nan() {
        NAN
    } else if x.is_sign_negative() {
        -magnitude
    } else {
        magnitude
    }
}

fn of_f64(x: f64) -> i64 {
    let magnitude = (x.to_bits() & (u64::MAX >> 1)) as i64;
    if x.is_nan() {
        NAN
    } else if x.is_sign_negative() {
        -magnitude
    } else {
        magnitude
    }
}

fn sort<T: Pod + Send + Sync>(op: &Sort, input: &[u8], outputs: &mut [&mut [u8]], key: fn(T) -> i64) -> Done {
    if op.input.layout.elements() == 0 {
        return Ok(());
    }
    let [values, indices] = outputs else { return Ok(()) };
    let (values, indices) = (dense_mut::<T>(&op.values, values), dense_mut::<u32>(&op.indices, indices));
    let (layout, last) = (&op.input.layout, op.input.layout.rank() - 1);
    // Swapping the axis with the innermost one, twice, is the identity.
    let view = layout.transpose(op.axis, last).unwrap_or(*layout);
    let (x, count) = (dense(&view, typed::<T>(input))?, op.count() as usize);
    let is_nan_last = op.input.dtype.is_float();
    let turned = |key: i64| match op.order {
        SortOrder::Descending if !(is_nan_last && key == NAN) => !key,
        _ => key,
    };
    let kept = op.kept() as usize;
    if kept == 0 {
        return Ok(());
    }
    let lines = x.len() / count;
    let mut places = scratch::zeroed::<u32>(lines * kept)?;
    let each = (TASK / count).max(1);
    parallel::try_chunks(&mut places, kept * each, |i, places| {
        let mut pairs = scratch::filled((0i64, 0u32), count)?;
        for (x, places) in parallel::chunk(&x, count * each, i).chunks_exact(count).zip(places.chunks_exact_mut(kept)) {
            pairs.iter_mut().zip(x).enumerate().for_each(|(at, (pair, &x))| *pair = (turned(key(x)), at as u32));
            if kept < count {
                pairs.select_nth_unstable(kept - 1);
            }
            pairs[..kept].sort_unstable();
            places.iter_mut().zip(&pairs).for_each(|(place, pair)| *place = pair.1);
        }
        Ok(())
    })?;
    let mut sorted = scratch::zeroed::<T>(lines * kept)?;
    parallel::chunks(&mut sorted, kept, |line, sorted| {
        let (x, places) = (parallel::chunk(&x, count, line), parallel::chunk(&places, kept, line));
        sorted.iter_mut().zip(places).for_each(|(y, &at)| *y = x[at as usize]);
    });
    let back = Layout::contiguous(*op.values.layout.shape());
    let turned_round = back.transpose(op.axis, last).map(|view| Layout::contiguous(*view.shape()));
    let back = turned_round.and_then(|dense| dense.transpose(op.axis, last)).unwrap_or(back);
    gather(&back, &sorted, values);
    gather(&back, &places, indices);
    Ok(())
}
