//! Reductions: operands are brought to [outer, count] or [count, inner] form, then rows or columns are reduced.
//!
//! A view that is neither is gathered once. Results are accumulated in the kernels' accumulator type and converted to
//! the output's dtype at the end.

use std::borrow::Cow;

use half::{bf16, f16};

use crate::cpu::elements::{dense_mut, typed};
use crate::cpu::lanes::{narrow_bf16, narrow_f16};
use crate::cpu::reduce::{self as kernels, AbsMax, Max, Min, Number, Product, Reduction, Sum, Widen};
use crate::cpu::scratch::{self, Done, Short};
use crate::cpu::view::dense;
use crate::cpu::{parallel, simd};
use crate::ops::{Reduce, ReduceFn};
use crate::{DType, F8E4M3, F8E5M2, Layout};

pub(crate) fn execute(op: &Reduce, input: &[u8], output: &mut [u8]) -> Done {
    let mean = op.function == ReduceFn::Mean;
    let count = op.count() as f64;
    match op.input.dtype {
        DType::F32 if op.is_truth() => truth(op, operand::<f32>(op, input)?, output)?,
        DType::F64 if op.is_truth() => truth(op, operand::<f64>(op, input)?, output)?,
        DType::F8E4M3 if op.is_truth() => truth(op, widened(operand::<F8E4M3>(op, input)?)?, output)?,
        DType::F8E5M2 if op.is_truth() => truth(op, widened(operand::<F8E5M2>(op, input)?)?, output)?,
        DType::F16 if op.is_truth() => truth(op, widened(operand::<f16>(op, input)?)?, output)?,
        DType::BF16 if op.is_truth() => truth(op, widened(operand::<bf16>(op, input)?)?, output)?,
        DType::I16 | DType::U16 if op.is_truth() => truth(op, operand::<u16>(op, input)?, output)?,
        DType::I8 | DType::U8 | DType::Bool if op.is_truth() => truth(op, operand::<u8>(op, input)?, output)?,
        DType::I32 | DType::U32 if op.is_truth() => truth(op, operand::<u32>(op, input)?, output)?,
        DType::I64 | DType::U64 if op.is_truth() => truth(op, operand::<u64>(op, input)?, output)?,
        DType::F32 if op.is_magnitude() => finish(op, output, run(AbsMax, operand::<f32>(op, input)?)?, |x| x),
        DType::F64 if op.is_magnitude() => finish(op, output, run(AbsMax, operand::<f64>(op, input)?)?, |x| x),
        DType::F32 => {
            let sums = combine(op, operand::<f32>(op, input)?)?;
            finish_float(op, output, sums);
        }
        DType::F64 => {
            let sums = combine(op, operand::<f64>(op, input)?)?;
            finish(op, output, sums, |x| if mean { x / count } else { x });
        }
        DType::F8E4M3 => small_float::<F8E4M3>(op, input, output)?,
        DType::F8E5M2 => small_float::<F8E5M2>(op, input, output)?,
        DType::F16 => small_float::<f16>(op, input, output)?,
        DType::BF16 => small_float::<bf16>(op, input, output)?,
        _ if mean => return mean_of_integers(op, input, output),
        DType::I8 if op.is_extremum() => {
            let best = combine(op, operand::<i8>(op, input)?)?;
            finish(op, output, best, |x| x);
        }
        DType::U8 if op.is_extremum() => {
            let best = combine(op, operand::<u8>(op, input)?)?;
            finish(op, output, best, |x| x);
        }
        DType::I16 if op.is_extremum() => {
            let best = combine(op, operand::<i16>(op, input)?)?;
            finish(op, output, best, |x| x);
        }
        DType::U16 if op.is_extremum() => {
            let best = combine(op, operand::<u16>(op, input)?)?;
            finish(op, output, best, |x| x);
        }
        DType::I16 => {
            let sums = combine(op, converted(operand::<i16>(op, input)?, i32::from)?)?;
            finish(op, output, sums, |x| x);
        }
        DType::U16 => {
            let sums = combine(op, converted(operand::<u16>(op, input)?, u32::from)?)?;
            finish(op, output, sums, |x| x);
        }
        DType::I8 => {
            let sums = combine(op, converted(operand::<i8>(op, input)?, i32::from)?)?;
            finish(op, output, sums, |x| x);
        }
        DType::U8 => {
            let sums = combine(op, converted(operand::<u8>(op, input)?, u32::from)?)?;
            finish(op, output, sums, |x| x);
        }
        DType::Bool => {
            let sums = combine(op, converted(operand::<u8>(op, input)?, |x| u32::from(x != 0))?)?;
            finish(op, output, sums, |x| x);
        }
        DType::I32 => {
            let sums = combine(op, operand::<i32>(op, input)?)?;
            finish(op, output, sums, |x| x);
        }
        DType::U32 => {
            let sums = combine(op, operand::<u32>(op, input)?)?;
            finish(op, output, sums, |x| x);
        }
        DType::I64 => {
            let sums = combine(op, operand::<i64>(op, input)?)?;
            finish(op, output, sums, |x| x);
        }
        DType::U64 => {
            let sums = combine(op, operand::<u64>(op, input)?)?;
            finish(op, output, sums, |x| x);
        }
    }
    Ok(())
}

fn small_float<T: Widen<Acc = f32> + bytemuck::Pod>(op: &Reduce, input: &[u8], output: &mut [u8]) -> Done {
    let x = operand::<T>(op, input)?;
    let sums = if op.is_magnitude() { run(AbsMax, x)? } else { combine(op, x)? };
    finish_float(op, output, sums);
    Ok(())
}

/// What accumulated in f32, divided for a mean, in the output's dtype: one rounding.
fn finish_float(op: &Reduce, output: &mut [u8], sums: Vec<f32>) {
    let (mean, count) = (op.function == ReduceFn::Mean, op.count() as f64);
    let value = move |x: f32| if mean { (f64::from(x) / count) as f32 } else { x };
    match op.output.dtype {
        DType::F8E4M3 => finish(op, output, sums, |x| F8E4M3::from_f32(value(x))),
        // One of the elements: an infinite one stays.
        DType::F8E5M2 if op.is_extremum() || op.is_magnitude() => finish(op, output, sums, F8E5M2::kept_from_f32),
        DType::F8E5M2 => finish(op, output, sums, |x| F8E5M2::from_f32(value(x))),
        DType::F16 => finish(op, output, sums, |x| narrow_f16(value(x))),
        DType::BF16 => finish(op, output, sums, |x| narrow_bf16(value(x))),
        _ => finish(op, output, sums, value),
    }
}

impl Reduce {
    fn is_truth(&self) -> bool {
        matches!(self.function, ReduceFn::All | ReduceFn::Any)
    }

    fn is_magnitude(&self) -> bool {
        self.function == ReduceFn::AbsMax
    }

    fn is_extremum(&self) -> bool {
        matches!(self.function, ReduceFn::Max | ReduceFn::Min)
    }
}

/// A reduction's operand: elements ordered so that the reduced axes are all innermost or all outermost.
struct Operand<'a, T: Clone> {
    elements: Cow<'a, [T]>,
    /// Number of results.
    results: usize,
    /// Elements per result.
    count: usize,
    order: Order,
}

#[derive(Clone, Copy, PartialEq)]
enum Order {
    /// [results, count]
    Rows,
    /// [count, results]
    Columns,
}

fn operand<'a, T: bytemuck::Pod + Send + Sync>(op: &Reduce, input: &'a [u8]) -> Result<Operand<'a, T>, Short> {
    let layout = &op.input.layout;
    let rank = layout.rank();
    let kept: Vec<usize> = (0..rank).filter(|axis| !op.axes.contains(axis)).collect();
    let reordered = |first: &[usize], last: &[usize]| {
        let order: Vec<usize> = first.iter().chain(last).copied().collect();
        // A permutation of the layout's own axes: always valid.
        layout.permute(&order).unwrap_or(*layout)
    };
    let rows = reordered(&kept, &op.axes);
    let columns = reordered(&op.axes, &kept);
    let (layout, order): (Layout, Order) =
        if columns.is_contiguous() && !rows.is_contiguous() { (columns, Order::Columns) } else { (rows, Order::Rows) };
    Ok(Operand {
        elements: dense(&layout, typed::<T>(input))?,
        results: op.output.layout.elements() as usize,
        count: op.count() as usize,
        order,
    })
}

fn converted<'a, T: Copy + Send + Sync, U: Copy + Send + Sync + bytemuck::Zeroable>(
    x: Operand<'a, T>,
    f: impl Fn(T) -> U + Copy + Send + Sync,
) -> Result<Operand<'a, U>, Short> {
    let mut elements = scratch::zeroed(x.elements.len())?;
    parallel::map1(f, &x.elements, &mut elements);
    Ok(Operand { elements: Cow::Owned(elements), results: x.results, count: x.count, order: x.order })
}

fn widened<'a, T: Widen<Acc = f32>>(x: Operand<'a, T>) -> Result<Operand<'a, f32>, Short> {
    converted(x, |x: T| x.widen())
}

fn combine<T: Widen>(op: &Reduce, x: Operand<'_, T>) -> Result<Vec<T::Acc>, Short>
where
    T::Acc: Widen<Acc = T::Acc>,
{
    match op.function {
        ReduceFn::Max => run(Max, x),
        ReduceFn::Min => run(Min, x),
        ReduceFn::Prod => run(Product, x),
        _ => run(Sum, x),
    }
}

fn run<T: Widen, R: Reduction<T::Acc>>(function: R, x: Operand<'_, T>) -> Result<Vec<T::Acc>, Short>
where
    T::Acc: Widen<Acc = T::Acc>,
{
    let mut out = scratch::filled(T::Acc::ZERO, x.results)?;
    match x.order {
        Order::Rows if x.results == 1 => out[0] = kernels::reduce(function, &x.elements),
        Order::Rows => kernels::reduce_rows(function, &x.elements, x.count, &mut out),
        Order::Columns => kernels::reduce_columns(function, &x.elements, x.count, &mut out)?,
    }
    Ok(out)
}

/// any and all: extrema of "is not zero".
fn truth<T: Copy + Send + Sync + PartialEq + Default>(op: &Reduce, x: Operand<'_, T>, output: &mut [u8]) -> Done {
    let zero = T::default();
    let flags = converted(x, move |x: T| u8::from(x != zero))?;
    let identity = u8::from(op.function == ReduceFn::All);
    let empty = flags.count == 0;
    let found = if op.function == ReduceFn::All { run(Min, flags)? } else { run(Max, flags)? };
    finish(op, output, found, |x| if empty { identity } else { x });
    Ok(())
}

/// The mean of integers as f32: exact i64 sums (of 64 bits: f64 sums, which cannot wrap), divided in f64, rounded once.
fn mean_of_integers(op: &Reduce, input: &[u8], output: &mut [u8]) -> Done {
    if op.input.dtype.size_bytes() == 8 {
        let x = match op.input.dtype {
            DType::I64 => converted(operand::<i64>(op, input)?, |x| x as f64)?,
            _ => converted(operand::<u64>(op, input)?, |x| x as f64)?,
        };
        let count = x.count as f64;
        finish(op, output, run(Sum, x)?, |sum| (sum / count) as f32);
        return Ok(());
    }
    let x = match op.input.dtype {
        DType::I8 => converted(operand::<i8>(op, input)?, i64::from)?,
        DType::U8 => converted(operand::<u8>(op, input)?, i64::from)?,
        DType::I16 => converted(operand::<i16>(op, input)?, i64::from)?,
        DType::U16 => converted(operand::<u16>(op, input)?, i64::from)?,
        DType::Bool => converted(operand::<u8>(op, input)?, |x| i64::from(x != 0))?,
        DType::I32 => converted(operand::<i32>(op, input)?, i64::from)?,
        _ => converted(operand::<u32>(op, input)?, i64::from)?,
    };
    let count = x.count as f64;
    finish(op, output, run(Sum, x)?, |sum| (sum as f64 / count) as f32);
    Ok(())
}

fn finish<A: Copy + Send + Sync, T: bytemuck::Pod + Send>(
    op: &Reduce,
    output: &mut [u8],
    results: Vec<A>,
    f: impl Fn(A) -> T + Copy + Send + Sync,
) {
    simd::map1(f, &results, dense_mut(&op.output, output));
}
