//! Attention by blocks of queries and keys: products by `gemm.rs`, exponentials of whole rows of a block. Its gradient is in
//! `attention/backward.rs`.
//!
//! A block of queries goes over the blocks of keys with the largest score, the sum of exponentials and the sums of values so far. The
//! decision to know: tasks are blocks of queries of one head, whose results do not depend on the number of threads; they lie in a buffer of
//! their own, because results are [batch, queries, heads, width].

mod backward;

use std::borrow::Cow;
use std::ops::{Add, AddAssign, Div, Mul, MulAssign, Sub};

use bytemuck::{Pod, Zeroable};
use half::{bf16, f16};

use crate::cpu::elements::{dense_mut, typed};
use crate::cpu::gemm::{self, Mat, MatMut};
use crate::cpu::lanes::{narrow_bf16, narrow_f16};
use crate::cpu::philox::philox4x32_10;
use crate::cpu::reduce::Widen;
use crate::cpu::scratch::{self, Done, Short};
use crate::cpu::view::{Runs, dense};
use crate::cpu::{parallel, simd, vmath};
use crate::ops::{Attention, AttentionDims, AttentionGradient};
use crate::{DType, Layout, TensorSpec};

/// Queries and keys of a block: its scores fill half of a 128 KiB L2.
const ROWS: usize = 64;
const COLUMNS: usize = 256;

/// The type of sums.
trait Real:
    gemm::Float
    + Zeroable
    + Pod
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + AddAssign
    + MulAssign
{
    const LOWEST: Self;
    const NAN: Self;
    fn of(x: f64) -> Self;
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn is_finite(self) -> bool;
    fn is_nan(self) -> bool;
    /// e^x of all.
    fn exp_all(x: &mut [Self]);
}

macro_rules! real {
    ($t:ident, $x:ident => $exp_all:expr) => {
        impl Real for $t {
            const LOWEST: $t = $t::NEG_INFINITY;
            const NAN: $t = $t::NAN;
            fn of(x: f64) -> $t {
                x as $t
            }
            fn exp(self) -> $t {
                $t::exp(self)
            }
            fn ln(self) -> $t {
                $t::ln(self)
            }
            fn is_finite(self) -> bool {
                $t::is_finite(self)
            }
            fn is_nan(self) -> bool {
                $t::is_nan(self)
            }
            fn exp_all($x: &mut [$t]) {
                $exp_all
            }
        }
    };
}
real!(f32, x => simd::map1_in_place(vmath::Exp, x));
real!(f64, x => x.iter_mut().for_each(|x| *x = f64::exp(*x)));

/// The type of operands.
trait Stored: Widen + Pod {
    /// The same numbers, where sums are of the same type.
    fn as_sums(x: &[Self]) -> Option<&[Self::Acc]>;
    fn narrow(x: Self::Acc) -> Self;
}

macro_rules! stored {
    ($t:ident, $acc:ident, $x:ident => $as_sums:expr, $narrow:expr) => {
        impl Stored for $t {
            fn as_sums($x: &[$t]) -> Option<&[$acc]> {
                $as_sums
            }
            fn narrow(x: $acc) -> $t {
                $narrow(x)
            }
        }
    };
}
stored!(f32, f32, x => Some(x), std::convert::identity);
stored!(f64, f64, x => Some(x), std::convert::identity);
stored!(f16, f32, _x => None, narrow_f16);
stored!(bf16, f32, _x => None, narrow_bf16);

/// An operand [batch, rows, heads, n] in the type of sums.
struct Heads<'a, A: Clone> {
    data: Cow<'a, [A]>,
    layout: Layout,
}

impl<'a, A: Real> Heads<'a, A> {
    fn new<T: Stored<Acc = A>>(spec: &TensorSpec, bytes: &'a [u8]) -> Result<Heads<'a, A>, Short> {
        let storage = typed::<T>(bytes);
        if let Some(data) = T::as_sums(storage) {
            return Ok(Heads { data: Cow::Borrowed(data), layout: spec.layout });
        }
        let narrow = dense(&spec.layout, storage)?;
        let mut wide = scratch::zeroed(narrow.len())?;
        parallel::map1(|x: T| x.widen(), &narrow, &mut wide);
        Ok(Heads { data: Cow::Owned(wide), layout: Layout::contiguous(*spec.layout.shape()) })
    }

    /// `rows` rows of a head, from `row`.
    fn place(&self, b: usize, head: usize, row: usize, rows: usize) -> gemm::Layout {
        let (strides, dims) = (self.layout.strides(), self.layout.dims());
        let at = [b, row, head].iter().zip(strides).map(|(&i, &stride)| i as i64 * stride).sum::<i64>();
        let offset = (self.layout.offset() as i64 + at) as usize;
        gemm::Layout { offset, rows, cols: dims[3] as usize, row_stride: strides[1] as isize, col_stride: 1 }
    }

    fn matrix(&self, place: gemm::Layout) -> Mat<'_, A> {
        Mat::new(&self.data, place)
    }

    /// Row `i` of a place.
    fn row(&self, place: gemm::Layout, i: usize) -> &[A] {
        if place.cols == 0 {
            return &[];
        }
        let start = (place.offset as isize + i as isize * place.row_stride) as usize;
        &self.data[start..start + place.cols]
    }

    fn is_finite(&self, place: gemm::Layout) -> bool {
        (0..place.rows).all(|i| self.row(place, i).iter().all(|x| x.is_finite()))
    }
}

/// What both directions need of pairs.
struct Pairs<'a, A: Clone> {
    op: &'a Attention,
    dims: AttentionDims,
    q: Heads<'a, A>,
    k: Heads<'a, A>,
    v: Heads<'a, A>,
    mask: Option<(Runs, &'a [u8])>,
    /// Seed low, seed high, stream low, stream high.
    key: Option<[u32; 4]>,
}

/// Some queries and keys of one head.
#[derive(Clone, Copy)]
struct Block {
    b: usize,
    head: usize,
    row: usize,
    rows: usize,
    column: usize,
    columns: usize,
}

impl<'a, A: Real> Pairs<'a, A> {
    fn new<T: Stored<Acc = A>>(op: &'a Attention, inputs: &[&'a [u8]]) -> Result<Pairs<'a, A>, Short> {
        let mask = op.mask.map(|mask| (Runs::new(&mask.layout), typed::<u8>(inputs[3])));
        let first = 3 + usize::from(op.mask.is_some());
        let key = op.dropout.map(|dropout| {
            let word = |number: usize, at: usize| {
                typed::<u32>(inputs[first + number])[dropout.key[number].layout.offset() as usize + at]
            };
            [word(0, 0), word(1, 0), word(0, 1), word(1, 1)]
        });
        let [q, k, v] =
            [(op.q, inputs[0]), (op.k, inputs[1]), (op.v, inputs[2])].map(|(spec, x)| Heads::new::<T>(&spec, x));
        Ok(Pairs { op, dims: op.dims(), q: q?, k: k?, v: v?, mask, key })
    }

    /// The group of a head.
    fn group(&self, head: usize) -> usize {
        head / self.dims.shared() as usize
    }

    /// Whether there are pairs that are not seen.
    fn hides(&self) -> bool {
        self.op.causal || self.op.mask.is_some()
    }

    /// Keys before which all lie that a row of the block sees.
    fn reach(&self, row: usize, rows: usize) -> usize {
        let last = (row + rows).saturating_sub(1) as u64;
        if self.op.causal { self.dims.before(last) as usize } else { self.dims.keys as usize }
    }

    /// The number of the first pair of row `i` of a block.
    fn number(&self, at: Block, i: usize) -> u64 {
        let row = (at.b as u64 * self.dims.heads + at.head as u64) * self.dims.queries + (at.row + i) as u64;
        row * self.dims.keys + at.column as u64
    }

    /// Scaled scores, -inf of what is not seen.
    fn scores(&self, at: Block, seen: &mut [u8], s: &mut [A]) -> Done {
        let q = self.q.matrix(self.q.place(at.b, at.head, at.row, at.rows));
        let keys = self.k.place(at.b, self.group(at.head), at.column, at.columns);
        let k = Mat::new(&self.k.data, keys.transposed());
        gemm::gemm(q, k, MatMut::new(s, gemm::Layout::row_major(at.rows, at.columns)))?;
        let scale = A::of(self.op.scale);
        for (i, s) in s.chunks_exact_mut(at.columns).enumerate() {
            s.iter_mut().for_each(|s| *s *= scale);
            if self.op.causal {
                let before = (self.dims.before((at.row + i) as u64) as usize).saturating_sub(at.column);
                s[before.min(at.columns)..].fill(A::LOWEST);
            }
            if let Some((runs, mask)) = &self.mask {
                let seen = &mut seen[..at.columns];
                runs.read(mask, self.number(at, i) as usize, seen);
                s.iter_mut().zip(seen).filter(|(_, seen)| **seen == 0).for_each(|(s, _)| *s = A::LOWEST);
            }
        }
        Ok(())
    }

    /// Zero where a pair of a block is dropped, and what makes up for it elsewhere: multiplied into `x` by choice.
    fn drop_pairs(&self, at: Block, x: &mut [A]) {
        let (Some(dropout), Some([seed_low, seed_high, stream_low, stream_high])) = (self.op.dropout, self.key) else {
            return;
        };
        let (factor, threshold) = (A::of(dropout.factor()), dropout.threshold());
        for (i, x) in x.chunks_exact_mut(at.columns).enumerate() {
            let first = self.number(at, i);
            let mut words = [0; 4];
            for (j, x) in x.iter_mut().enumerate() {
                let number = first + j as u64;
                if j == 0 || number.is_multiple_of(4) {
                    let block = number / 4;
                    let counter = [block as u32, (block >> 32) as u32, stream_low, stream_high];
                    words = philox4x32_10(counter, [seed_low, seed_high]);
                }
                *x = if words[(number % 4) as usize] >> 8 >= threshold { *x * factor } else { A::ZERO };
            }
        }
    }

    /// `sums += p x`, p being [rows, x's rows] as `of_p` says. A zero of p leaves out what is not finite where pairs are hidden.
    fn add_product(
        &self,
        (p, of_p): (&[A], gemm::Layout),
        (x, of_x): (&Heads<'_, A>, gemm::Layout),
        product: &mut [A],
        sums: &mut [A],
    ) -> Done {
        let n = of_x.cols;
        if self.hides() && !x.is_finite(of_x) {
            for (i, sums) in sums.chunks_exact_mut(n.max(1)).take(of_p.rows).enumerate() {
                for j in 0..of_p.cols {
                    let p = p
                        [(of_p.offset as isize + i as isize * of_p.row_stride + j as isize * of_p.col_stride) as usize];
                    if p != A::ZERO {
                        sums.iter_mut().zip(x.row(of_x, j)).for_each(|(sum, &x)| *sum += p * x);
                    }
                }
            }
            return Ok(());
        }
        let product = &mut product[..of_p.rows * n];
        gemm::gemm(Mat::new(p, of_p), x.matrix(of_x), MatMut::new(product, gemm::Layout::row_major(of_p.rows, n)))?;
        sums.iter_mut().zip(product).for_each(|(sum, x)| *sum += *x);
        Ok(())
    }
}

pub(crate) fn forward(op: &Attention, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Done {
    let [out, lse] = outputs else { return Err(Short::NoRoutine) };
    match op.q.dtype {
        DType::F16 => forward_of::<f16>(op, inputs, out, lse),
        DType::BF16 => forward_of::<bf16>(op, inputs, out, lse),
        DType::F32 => forward_of::<f32>(op, inputs, out, lse),
        DType::F64 => forward_of::<f64>(op, inputs, out, lse),
        _ => Err(Short::NoRoutine),
    }
}

pub(crate) fn backward(op: &AttentionGradient, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Done {
    match op.forward.q.dtype {
        DType::F16 => backward::of::<f16>(op, inputs, outputs),
        DType::BF16 => backward::of::<bf16>(op, inputs, outputs),
        DType::F32 => backward::of::<f32>(op, inputs, outputs),
        DType::F64 => backward::of::<f64>(op, inputs, outputs),
        _ => Err(Short::NoRoutine),
    }
}

fn forward_of<T: Stored<Acc: Real>>(op: &Attention, inputs: &[&[u8]], out: &mut [u8], lse: &mut [u8]) -> Done {
    let pairs = Pairs::new::<T>(op, inputs)?;
    let [heads, queries, width] = [pairs.dims.heads, pairs.dims.queries, pairs.dims.width].map(|n| n as usize);
    let (out, lse) = (dense_mut::<T>(&op.out, out), dense_mut::<T::Acc>(&op.lse, lse));
    if lse.is_empty() {
        return Ok(());
    }
    // A block after the other, each with the sums of its rows, then their logarithms.
    let (blocks, part) = (queries.div_ceil(ROWS), ROWS * (width + 1));
    let mut parts: Vec<T::Acc> = scratch::zeroed(pairs.dims.batch as usize * heads * blocks * part)?;
    parallel::try_chunks(&mut parts, part, |number, part| {
        let (row, of) = (number % blocks * ROWS, number / blocks);
        let (sums, logs) = part.split_at_mut(ROWS * width);
        block_of_queries(&pairs, [of / heads, of % heads, row], ROWS.min(queries - row), sums, logs)
    })?;
    let at = |b: usize, h: usize, i: usize| ((b * heads + h) * blocks + i / ROWS) * part;
    for (row, lse) in lse.chunks_exact_mut(queries).enumerate() {
        for (i, lse) in lse.iter_mut().enumerate() {
            *lse = parts[at(row / heads, row % heads, i) + ROWS * width + i % ROWS];
        }
    }
    parallel::chunks(out, (heads * width).max(1), |row, out| {
        for (h, out) in out.chunks_exact_mut(width).enumerate() {
            let i = row % queries;
            let start = at(row / queries, h, i) + i % ROWS * width;
            out.iter_mut().zip(&parts[start..start + width]).for_each(|(out, &sum)| *out = T::narrow(sum));
        }
    });
    Ok(())
}

/// `rows` queries of a head, from `row`: what they give, and the logarithms.
fn block_of_queries<A: Real>(
    pairs: &Pairs<'_, A>,
    [b, head, row]: [usize; 3],
    rows: usize,
    sums: &mut [A],
    logs: &mut [A],
) -> Done {
    let width = pairs.dims.width as usize;
    let mut s: Vec<A> = scratch::zeroed(ROWS * COLUMNS)?;
    let mut product: Vec<A> = scratch::zeroed(ROWS * width)?;
    let mut seen: Vec<u8> = scratch::zeroed(COLUMNS)?;
    let (mut largest, mut totals) = ([A::LOWEST; ROWS], [A::ZERO; ROWS]);
    let reach = pairs.reach(row, rows);
    for column in (0..reach).step_by(COLUMNS) {
        let at = Block { b, head, row, rows, column, columns: COLUMNS.min(reach - column) };
        let s = &mut s[..rows * at.columns];
        pairs.scores(at, &mut seen, s)?;
        for (i, s) in s.chunks_exact_mut(at.columns).enumerate() {
            let before = largest[i];
            let largest = &mut largest[i];
            *largest = s.iter().fold(before, |most, &s| if s > most || s.is_nan() { s } else { most });
            // Of a row without a finite score the exponentials are what they are.
            let shift = if largest.is_finite() { *largest } else { A::ZERO };
            s.iter_mut().for_each(|s| *s = *s - shift);
            A::exp_all(s);
            let rescale = if before == A::LOWEST { A::ZERO } else { (before - shift).exp() };
            totals[i] = totals[i] * rescale + sum_of(s);
            sums[i * width..][..width].iter_mut().for_each(|sum| *sum *= rescale);
        }
        pairs.drop_pairs(at, s);
        let values = pairs.v.place(b, pairs.group(head), column, at.columns);
        let of_p = gemm::Layout::row_major(rows, at.columns);
        pairs.add_product((s, of_p), (&pairs.v, values), &mut product, sums)?;
    }
    for (i, (&largest, &total)) in largest.iter().zip(&totals).take(rows).enumerate() {
        let sums = &mut sums[i * width..][..width];
        // A row without a score that is more than -inf is zero, one with NaN or an infinity NaN.
        let is_wrong = largest.is_nan() || largest > A::ZERO && !largest.is_finite();
        let (factor, log) = match () {
            () if is_wrong => (A::NAN, largest),
            () if largest == A::LOWEST => (A::ZERO, A::LOWEST),
            () => (A::ONE / total, largest + total.ln()),
        };
        sums.iter_mut().for_each(|sum| *sum *= factor);
        logs[i] = log;
    }
    Ok(())
}

/// The sum by eight chains.
fn sum_of<A: Real>(x: &[A]) -> A {
    let mut sums = [A::ZERO; 8];
    let whole = x.chunks_exact(8);
    let rest = whole.remainder().iter().fold(A::ZERO, |sum, &x| sum + x);
    for x in whole {
        sums.iter_mut().zip(x).for_each(|(sum, &x)| *sum += x);
    }
    sums.into_iter().fold(rest, |sum, x| sum + x)
}
