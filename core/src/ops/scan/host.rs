//! Scans: lines are brought together along the axis, done in blocks, and put back.
//!
//! A line is cut into blocks of about the square root of its length, whose totals are combined apart, so that the error of a sum grows with
//! that root. Parts of a long line are combined by all threads, then scanned with what comes before them. Cuts depend on the length
//! alone, and so do the bits.

use bytemuck::Pod;
use half::{bf16, f16};

use crate::cpu::elements::{dense_mut, typed};
use crate::cpu::parallel;
use crate::cpu::reduce::{Element, Number};
use crate::cpu::scratch::{self, Done};
use crate::cpu::view::{dense, gather};
use crate::ops::{Scan, ScanDirection, ScanFn, ScanStart};
use crate::{DType, F8E4M3, F8E5M2, Layout};

/// Elements of a part: what a task of a long line has.
const PART: usize = 16 * 1024;

pub(crate) fn execute(op: &Scan, input: &[u8], outputs: &mut [&mut [u8]]) -> Done {
    if op.input.layout.elements() == 0 {
        return Ok(());
    }
    if let [values, indices] = outputs {
        return match op.input.dtype {
            DType::F8E4M3 => extrema::<F8E4M3>(op, input, values, indices),
            DType::F8E5M2 => extrema::<F8E5M2>(op, input, values, indices),
            DType::F16 => extrema::<f16>(op, input, values, indices),
            DType::BF16 => extrema::<bf16>(op, input, values, indices),
            DType::F32 => extrema::<f32>(op, input, values, indices),
            DType::F64 => extrema::<f64>(op, input, values, indices),
            DType::I8 => extrema::<i8>(op, input, values, indices),
            DType::U8 | DType::Bool => extrema::<u8>(op, input, values, indices),
            DType::I16 => extrema::<i16>(op, input, values, indices),
            DType::U16 => extrema::<u16>(op, input, values, indices),
            DType::I32 => extrema::<i32>(op, input, values, indices),
            DType::U32 => extrema::<u32>(op, input, values, indices),
            DType::I64 => extrema::<i64>(op, input, values, indices),
            DType::U64 => extrema::<u64>(op, input, values, indices),
        };
    }
    let output = &mut *outputs[0];
    match op.input.dtype {
        DType::F8E4M3 => floats::<F8E4M3>(op, input, output, F8E4M3::from_f32),
        DType::F8E5M2 => floats::<F8E5M2>(op, input, output, F8E5M2::from_f32),
        DType::F16 => floats::<f16>(op, input, output, f16::from_f32),
        DType::BF16 => floats::<bf16>(op, input, output, bf16::from_f32),
        DType::F32 => floats::<f32>(op, input, output, |x| x),
        DType::F64 if op.function == ScanFn::LogSumExp => logarithms(op, input, output, |x: f64| x, |y| y),
        DType::F64 => numbers(op, input, output, |x: f64| x, |y| y),
        DType::I8 => numbers(op, input, output, |x: i8| i32::from(x), |y| y),
        DType::U8 | DType::Bool => numbers(op, input, output, |x: u8| u32::from(x), |y| y),
        DType::I16 => numbers(op, input, output, |x: i16| i32::from(x), |y| y),
        DType::U16 => numbers(op, input, output, |x: u16| u32::from(x), |y| y),
        DType::I32 => numbers(op, input, output, |x: i32| x, |y| y),
        DType::U32 => numbers(op, input, output, |x: u32| x, |y| y),
        DType::I64 => numbers(op, input, output, |x: i64| x, |y| y),
        DType::U64 => numbers(op, input, output, |x: u64| x, |y| y),
    }
}

/// Floats that accumulate in f32.
fn floats<T>(op: &Scan, input: &[u8], output: &mut [u8], narrow: fn(f32) -> T) -> Done
where
    T: Element<Acc = f32> + Pod,
{
    match op.function {
        ScanFn::LogSumExp => logarithms(op, input, output, |x: T| x.widen().into(), |y| narrow(y as f32)),
        _ => numbers(op, input, output, T::widen, narrow),
    }
}

/// Sums and products.
fn numbers<T: Pod + Send + Sync, A: Number, Y: Pod + Send + Sync>(
    op: &Scan,
    input: &[u8],
    output: &mut [u8],
    lift: impl Fn(T) -> A + Sync,
    narrow: impl Fn(A) -> Y + Sync,
) -> Done {
    let lift = |x: T, _| lift(x);
    match op.function {
        ScanFn::Prod => by_lines(op, input, output, &Rule { identity: A::ONE, lift, join: A::mul, finish: narrow }),
        _ => by_lines(op, input, output, &Rule { identity: A::ZERO, lift, join: A::add, finish: narrow }),
    }
}

/// The largest element and the sum of exp(x - largest), in f64.
fn logarithms<T: Pod + Send + Sync, Y: Pod + Send + Sync>(
    op: &Scan,
    input: &[u8],
    output: &mut [u8],
    lift: impl Fn(T) -> f64 + Sync,
    narrow: impl Fn(f64) -> Y + Sync,
) -> Done {
    let join = |a: (f64, f64), b: (f64, f64)| {
        let (low, high) = if b.0 > a.0 || b.0.is_nan() { (a, b) } else { (b, a) };
        // Of NaN and infinities the number alone counts.
        let is_plain = high.0.is_finite() && !low.0.is_nan();
        let sum = if is_plain { high.1 + low.1 * (low.0 - high.0).exp() } else { 1.0 };
        (if low.0.is_nan() { low.0 } else { high.0 }, sum)
    };
    let rule = Rule {
        identity: (f64::NEG_INFINITY, 0.0),
        lift: |x: T, _| (lift(x), 1.0),
        join,
        finish: |(max, sum): (f64, f64)| narrow(if max.is_finite() { max + sum.ln() } else { max }),
    };
    by_lines(op, input, output, &rule)
}

/// Positions first, then what lies there.
fn extrema<T>(op: &Scan, input: &[u8], values: &mut [u8], indices: &mut [u8]) -> Done
where
    T: Element + Pod,
{
    const NOWHERE: u32 = u32::MAX;
    type Held<T> = (<T as Element>::Acc, u32);
    let is_max = op.function == ScanFn::Max;
    // Only NaN differs from itself.
    #[allow(clippy::eq_op, reason = "tests for NaN in a type that may be an integer")]
    let is_nan = |x: T::Acc| x != x;
    let join = |a: Held<T>, b: Held<T>| {
        let larger = if is_max { b.0 > a.0 } else { b.0 < a.0 };
        let wins = larger || (is_nan(b.0) && !is_nan(a.0));
        if b.1 != NOWHERE && (a.1 == NOWHERE || wins) { b } else { a }
    };
    let rule = Rule {
        identity: (<T::Acc as Number>::ZERO, NOWHERE),
        lift: |x: T, at: usize| (x.widen(), at as u32),
        join,
        finish: |held: Held<T>| held.1,
    };
    let Some(index) = op.index else { return Ok(()) };
    let count = op.count() as usize;
    let lines = Lines::new(op);
    let x = dense(&lines.view, typed::<T>(input))?;
    let mut places = scratch::zeroed::<u32>(x.len())?;
    rule.scan(op, &x, &mut places, count)?;
    let mut chosen = scratch::zeroed::<T>(x.len())?;
    parallel::chunks(&mut chosen, count, |line, chosen| {
        let (x, places) = (parallel::chunk(&x, count, line), parallel::chunk(&places, count, line));
        chosen.iter_mut().zip(places).for_each(|(y, &at)| *y = x[at as usize]);
    });
    lines.put_back(&chosen, dense_mut(&op.output, values));
    lines.put_back(&places, dense_mut(&index, indices));
    Ok(())
}

/// The input with the axis innermost, and the way back.
struct Lines {
    view: Layout,
    back: Layout,
}

impl Lines {
    fn new(op: &Scan) -> Lines {
        let (layout, last) = (&op.input.layout, op.input.layout.rank() - 1);
        // Swapping the axis with the innermost one, twice, is the identity.
        let view = layout.transpose(op.axis, last).unwrap_or(*layout);
        let back = Layout::contiguous(*view.shape());
        Lines { view, back: back.transpose(op.axis, last).unwrap_or(back) }
    }

    fn put_back<T: Pod + Send + Sync>(&self, y: &[T], output: &mut [T]) {
        if self.back.is_contiguous() {
            output.copy_from_slice(y);
        } else {
            gather(&self.back, y, output);
        }
    }
}

fn by_lines<T, A, Y, L, J, F>(op: &Scan, input: &[u8], output: &mut [u8], rule: &Rule<A, L, J, F>) -> Done
where
    T: Pod + Send + Sync,
    A: Copy + Send + Sync,
    Y: Pod + Send + Sync,
    L: Fn(T, usize) -> A + Sync,
    J: Fn(A, A) -> A + Sync,
    F: Fn(A) -> Y + Sync,
{
    let lines = Lines::new(op);
    let x = dense(&lines.view, typed::<T>(input))?;
    let output = dense_mut(&op.output, output);
    if lines.back.is_contiguous() {
        return rule.scan(op, &x, output, op.count() as usize);
    }
    let mut y = scratch::zeroed(x.len())?;
    rule.scan(op, &x, &mut y, op.count() as usize)?;
    lines.put_back(&y, output);
    Ok(())
}

/// What a scan does with elements of a line: lifts them with their position, joins an earlier total with a later one, and gives results.
struct Rule<A, L, J, F> {
    identity: A,
    lift: L,
    join: J,
    finish: F,
}

impl<A: Copy + Send + Sync, L, J: Fn(A, A) -> A + Sync, F> Rule<A, L, J, F> {
    /// Lines of `count` elements, one after the other.
    fn scan<T, Y>(&self, op: &Scan, x: &[T], y: &mut [Y], count: usize) -> Done
    where
        T: Copy + Sync,
        Y: Send,
        L: Fn(T, usize) -> A + Sync,
        F: Fn(A) -> Y + Sync,
    {
        if count <= PART {
            let task = count * (PART / count);
            parallel::chunks(y, task, |i, y| {
                let x = parallel::chunk(x, task, i);
                for (x, y) in x.chunks_exact(count).zip(y.chunks_exact_mut(count)) {
                    self.part(op, x, 0, Some(y), self.identity);
                }
            });
            return Ok(());
        }
        let is_forward = op.options.direction == ScanDirection::Forward;
        for (x, y) in x.chunks_exact(count).zip(y.chunks_exact_mut(count)) {
            let mut before = scratch::filled(self.identity, count.div_ceil(PART))?;
            parallel::chunks(&mut before, 1, |i, total| {
                total[0] = self.part::<T, Y>(op, parallel::chunk(x, PART, i), i * PART, None, self.identity);
            });
            let mut total = self.identity;
            let mut advance = |part: &mut A| {
                let with = (self.join)(total, *part);
                *part = std::mem::replace(&mut total, with);
            };
            if is_forward {
                before.iter_mut().for_each(&mut advance)
            } else {
                before.iter_mut().rev().for_each(&mut advance)
            }
            parallel::chunks(y, PART, |i, y| {
                self.part(op, parallel::chunk(x, PART, i), i * PART, Some(y), before[i]);
            });
        }
        Ok(())
    }

    /// A part that begins at position `first`, behind a total: results, where they are wanted, and the total with it.
    fn part<T, Y>(&self, op: &Scan, x: &[T], first: usize, mut y: Option<&mut [Y]>, before: A) -> A
    where
        T: Copy,
        L: Fn(T, usize) -> A,
        F: Fn(A) -> Y,
    {
        let block = x.len().isqrt().max(1);
        let is_forward = op.options.direction == ScanDirection::Forward;
        let is_inclusive = op.options.start == ScanStart::Inclusive;
        let (mut total, mut start) = (before, 0);
        while start < x.len() {
            let end = x.len().min(start + block);
            let mut local = self.identity;
            for i in start..end {
                let at = if is_forward { i } else { x.len() - 1 - i };
                let with = (self.join)(local, (self.lift)(x[at], first + at));
                if let Some(y) = &mut y {
                    y[at] = (self.finish)((self.join)(total, if is_inclusive { with } else { local }));
                }
                local = with;
            }
            total = (self.join)(total, local);
            start = end;
        }
        total
    }
}
