//! Matrix products: each product of the batch by `gemm.rs`, then the epilogue in one pass over the result.
//!
//! Operands of 8- and 16-bit floats are widened to f32 first (their product needs no more memory than an f32 one) and
//! the result is narrowed once, after the epilogue. Sums of quantised operands are made in i32 or f32 and then scaled:
//! along all of K, or block by block where scales belong to blocks (`matmul/blocks.rs`).

mod blocks;
mod few;

use half::{bf16, f16};

use crate::cpu::elements::{dense_mut, typed};
use crate::cpu::gemm::{self, Mat, MatMut};
use crate::cpu::lanes::{Lanes, narrow_bf16, narrow_f16, unary};
use crate::cpu::parallel;
use crate::cpu::reduce::Widen;
use crate::cpu::scratch::{self, Done, Short};
use crate::cpu::view::dense;
use crate::ops::{Matmul, MatmulDims};
use crate::{DType, F8E4M3, F8E5M2, Layout, Scalar, TensorSpec, UnaryFn};
use blocks::{BlockScales, along_k};

pub(crate) fn execute(op: &Matmul, inputs: &[&[u8]], output: &mut [u8]) -> Done {
    match op.a.dtype {
        DType::F8E4M3 | DType::F8E5M2 | DType::F16 | DType::BF16 => narrow(op, inputs, output),
        DType::F32 => {
            let operands = Operands::new(op, inputs, |bytes| typed::<f32>(bytes));
            float(op, &operands, dense_mut(&op.output, output))
        }
        DType::F64 => {
            let operands = Operands::new(op, inputs, |bytes| typed::<f64>(bytes));
            float(op, &operands, dense_mut(&op.output, output))
        }
        // 1024 products of at most 2^14 reach 2^24; 256 of 255^2 stay below it.
        DType::I8 => small_integer::<i8>(op, inputs, output, 1024),
        // Products of i16, u16 and u64 are refused as those of bool are.
        DType::U8 | DType::Bool | DType::I16 | DType::U16 | DType::U64 => small_integer::<u8>(op, inputs, output, 256),
        DType::I32 => integer::<i32, i32>(op, inputs, output),
        DType::U32 => integer::<u32, u32>(op, inputs, output),
        DType::I64 => integer::<i64, i64>(op, inputs, output),
    }
}

/// Typed storages of the operands: A and B of type `I`, C and bias of the result's type `O`.
struct Operands<'a, I, O> {
    a: &'a [I],
    b: &'a [I],
    c: Option<Addend<'a, O>>,
    bias: Option<Addend<'a, O>>,
}

type Addend<'a, O> = (TensorSpec, &'a [O]);

impl<'a, I: bytemuck::Pod, O: bytemuck::Pod> Operands<'a, I, O> {
    fn new(op: &Matmul, inputs: &[&'a [u8]], addend: fn(&'a [u8]) -> &'a [O]) -> Self {
        let places = op.places();
        let of = |spec: Option<TensorSpec>, place: Option<usize>| Some((spec?, addend(inputs[place?])));
        Operands { a: typed(inputs[0]), b: typed(inputs[1]), c: of(op.c, places.c), bias: of(op.bias, places.bias) }
    }
}

/// The layout of product number `batch` of an operand.
fn matrix(layout: &Layout, batch: usize) -> gemm::Layout {
    let rank = layout.rank();
    let (dims, strides) = (layout.dims(), layout.strides());
    let (rows, cols) = (dims[rank - 2] as usize, dims[rank - 1] as usize);
    let mut offset = layout.offset() as i64;
    let mut rest = batch as u64;
    for axis in (0..rank - 2).rev() {
        offset += (rest % dims[axis]) as i64 * strides[axis];
        rest /= dims[axis];
    }
    gemm::Layout {
        offset: offset as usize,
        rows,
        cols,
        row_stride: strides[rank - 2] as isize,
        col_stride: strides[rank - 1] as isize,
    }
}

/// Runs `product(part, its rows of the result)` in parallel for parts that together make up the batch; the first
/// failure ends it.
fn for_each_part<T: Send>(op: &Matmul, out: &mut [T], product: impl Fn(Part, &mut [T]) -> Done + Sync) -> Done {
    let MatmulDims { batch, m, n, k } = op.dims();
    let [m, n, k] = [m, n, k].map(|extent| extent as usize);
    let whole = |i: usize| Part { batch: i, first: 0, rows: m };
    match Tasks::of(parallel::threads(), batch as usize, [m, n, k]) {
        Tasks::InTurn => out.chunks_mut(m * n).enumerate().try_for_each(|(i, out)| product(whole(i), out)),
        Tasks::Whole => parallel::try_chunks(out, m * n, |i, out| product(whole(i), out)),
        Tasks::Cut(edges) => {
            let (mut all, mut rest) = (Vec::with_capacity(batch as usize * edges.len()), out);
            for i in 0..batch as usize {
                for ends in edges.windows(2) {
                    let part = Part { batch: i, first: ends[0], rows: ends[1] - ends[0] };
                    let (own, after) = rest.split_at_mut(part.rows * n);
                    all.push((part, own));
                    rest = after;
                }
            }
            parallel::try_each(&mut all, |(part, out)| product(*part, out))
        }
    }
}

/// Some rows of one product of a batch.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    batch: usize,
    first: usize,
    rows: usize,
}

impl Part {
    /// The rows of `a`, the layout of a product's A, that this part reads.
    fn of(self, a: gemm::Layout) -> gemm::Layout {
        let offset = (a.offset as isize + self.first as isize * a.row_stride) as usize;
        gemm::Layout { offset, rows: self.rows, ..a }
    }
}

/// How a batch of products is divided among threads.
#[derive(Debug, PartialEq)]
enum Tasks {
    /// One product after the other, each by all threads.
    InTurn,
    /// Each product by one thread.
    Whole,
    /// Parts of products, cut at these rows, each by one thread.
    Cut(Vec<usize>),
}

impl Tasks {
    /// Many products are not cut. A few are cut into parts, because whole ones would leave threads without work at the
    /// end (32 products of 256^3 on 16 threads: 909 us, `cpu-loops.txt` of benches/results/h200-2026-11-24c; by parts
    /// 787 us, `cpu-gemm.txt` of h200-2026-11-24d).
    fn of(threads: usize, batch: usize, [m, n, k]: [usize; 3]) -> Tasks {
        /// Tasks wanted for each thread: enough to even out threads of different speed.
        const WANTED: usize = 8;
        /// The fewest tasks for each thread; with fewer, all threads work together on one product at a time.
        const LEAST: usize = 2;
        /// The largest B, in elements, that is worth packing again for each part.
        const B_ELEMENTS: usize = 1 << 18;
        if batch < 2 || threads == 1 {
            return Tasks::InTurn;
        }
        // The order of sums over a long K, and of sums for a few rows or columns, depends on all of C: such products stay whole.
        let uncut = n * k > B_ELEMENTS || k >= gemm::LONG_K || m.min(n) <= gemm::few::FEW_NARROW;
        let parts = if uncut { 1 } else { (WANTED * threads).div_ceil(batch) };
        let edges = gemm::row_edges([m, n], parts);
        match edges.len() - 1 {
            parts if batch * parts < LEAST * threads => Tasks::InTurn,
            1 => Tasks::Whole,
            _ => Tasks::Cut(edges),
        }
    }
}

/// The operations that the epilogue needs from a result type.
pub(crate) trait Number: gemm::Float + Widen<Acc = Self> + bytemuck::Pod {
    fn from_f64(x: f64) -> Self;
    fn over(self, divisor: Self) -> Self;
    fn lanes(x: &[Self]) -> Lanes;
    fn store(lanes: &Lanes, x: &mut [Self]);
}

macro_rules! number {
    ($($t:ident $variant:ident)*) => {$(
        impl Number for $t {
            fn from_f64(x: f64) -> $t {
                x as $t
            }
            fn over(self, divisor: $t) -> $t {
                self / divisor
            }
            fn lanes(x: &[$t]) -> Lanes {
                Lanes::$variant(x.to_vec())
            }
            fn store(lanes: &Lanes, x: &mut [$t]) {
                if let Lanes::$variant(lanes) = lanes {
                    x.copy_from_slice(&lanes[..x.len()]);
                }
            }
        }
    )*};
}
number!(f32 F32 f64 F64);

fn float<T: Number>(op: &Matmul, operands: &Operands<'_, T, T>, out: &mut [T]) -> Done {
    let n = op.dims().n as usize;
    for_each_part(op, out, |part, out| {
        let a = Mat::new(operands.a, part.of(matrix(&op.a.layout, part.batch)));
        let b = Mat::new(operands.b, matrix(&op.b.layout, part.batch));
        let c = MatMut::new(out, gemm::Layout::row_major(part.rows, n));
        gemm::gemm(a, b, c)
    })?;
    finish(op, operands.c, operands.bias, out)
}

/// The epilogue: alpha, C, bias, activation.
fn finish<T: Number>(op: &Matmul, c: Option<Addend<'_, T>>, bias: Option<Addend<'_, T>>, out: &mut [T]) -> Done {
    scale(op.alpha, out);
    // C is added after the product: small terms added to a large C one by one would be lost.
    if let Some((spec, c)) = c.filter(|_| op.beta != 0.0) {
        let (c, beta) = (dense(&spec.layout, c)?, T::from_f64(op.beta));
        parallel::pairs((out, parallel::CHUNK), (&c, parallel::CHUNK), |out, c| {
            out.iter_mut().zip(c).for_each(|(x, &c)| *x = x.plus(beta.times(c)));
        });
    }
    let bias = bias.as_ref().map(|(spec, bias)| dense(&spec.layout, bias)).transpose()?;
    epilogue(bias.as_deref(), op.activation, op.dims().n as usize, out);
    Ok(())
}

/// Multiplies `out` by alpha. (With an alpha of 0 the op has no product.)
fn scale<T: Number>(alpha: f64, out: &mut [T]) {
    let factor = T::from_f64(alpha);
    if alpha != 1.0 {
        parallel::chunks(out, parallel::CHUNK, |_, out| {
            out.iter_mut().for_each(|x| *x = factor.times(*x));
        });
    }
}

/// Bias and activation, row by row.
pub(crate) fn epilogue<T: Number>(bias: Option<&[T]>, activation: Option<UnaryFn>, n: usize, out: &mut [T]) {
    if bias.is_none() && activation.is_none() {
        return;
    }
    parallel::chunks(out, n, |_, row| {
        if let Some(bias) = bias {
            row.iter_mut().zip(bias).for_each(|(x, &b)| *x = x.plus(b));
        }
        if let Some(f) = activation {
            // A row may be all of the result: it is done in parts whose copies stay in cache.
            for part in row.chunks_mut(parallel::CHUNK) {
                let x = T::lanes(part);
                let mut y = x.clone();
                unary(f, DType::F32, &x, &mut y, part.len());
                T::store(&y, part);
            }
        }
    });
}

fn narrow(op: &Matmul, inputs: &[&[u8]], output: &mut [u8]) -> Done {
    if op.is_quantised() {
        return narrow_scaled(op, inputs, output);
    }
    if op.output.dtype == DType::F32 {
        return narrow_sums(op, inputs, dense_mut(&op.output, output));
    }
    let mut result = scratch::zeroed(op.output.layout.elements() as usize)?;
    narrow_sums(op, inputs, &mut result)?;
    match op.output.dtype {
        DType::F16 => parallel::map1(narrow_f16, &result, dense_mut(&op.output, output)),
        _ => parallel::map1(narrow_bf16, &result, dense_mut(&op.output, output)),
    }
    Ok(())
}

/// The whole product with its epilogue, in f32.
fn narrow_sums(op: &Matmul, inputs: &[&[u8]], out: &mut [f32]) -> Done {
    let places = op.places();
    let wide = |spec: Option<TensorSpec>, place: Option<usize>| {
        let wide = |(spec, place): (TensorSpec, usize)| Ok::<_, Short>((spec, widened(&spec, inputs[place])?));
        spec.zip(place).map(wide).transpose()
    };
    let (c, bias) = (wide(op.c, places.c)?, wide(op.bias, places.bias)?);
    let [c, bias] = [&c, &bias].map(|addend| addend.as_ref().map(|(spec, wide)| (*spec, wide.as_slice())));
    if let Some(side) = few::Side::of(op) {
        few::narrow(op, side, inputs, out)?;
        return finish(op, c, bias, out);
    }
    let (a, b) = (widened(&op.a, inputs[0])?, widened(&op.b, inputs[1])?);
    float(op, &Operands { a: &a[..], b: &b[..], c, bias }, out)
}

/// 8-bit floats with scales: the bare sums first, as the op promises.
fn narrow_scaled(op: &Matmul, inputs: &[&[u8]], output: &mut [u8]) -> Done {
    if let Some(side) = few::Side::of(op) {
        return scaled_sums(op, inputs, output, |part, sums| few::narrow(part, side, inputs, sums));
    }
    let (a, b) = (widened(&op.a, inputs[0])?, widened(&op.b, inputs[1])?);
    let operands = Operands { a: &a[..], b: &b[..], c: None, bias: None };
    scaled_sums(op, inputs, output, |part, sums| float(part, &operands, sums))
}

/// The scaled product of quantised operands. `sums` computes the bare sums of a product along K.
fn scaled_sums(op: &Matmul, inputs: &[&[u8]], output: &mut [u8], sums: impl Fn(&Matmul, &mut [f32]) -> Done) -> Done {
    let dims = op.dims();
    let mut total = scratch::zeroed(op.output.layout.elements() as usize)?;
    match op.scale_blocks {
        None => {
            if let Some(bare) = along_k(op, 0..dims.k) {
                sums(&bare, &mut total)?;
            }
            finish_scaled(op, inputs, total, output)
        }
        Some(blocks) => {
            let scales = BlockScales::of(op, blocks, inputs)?;
            let mut part = scratch::zeroed(total.len())?;
            for (i, range) in blocks.along_k(dims.k).enumerate() {
                if let Some(bare) = along_k(op, range) {
                    sums(&bare, &mut part)?;
                    scales.add(i, &part, &mut total);
                }
            }
            let unscaled = Matmul { scale_a: None, scale_b: None, scale_blocks: None, ..op.clone() };
            finish_scaled(&unscaled, inputs, total, output)
        }
    }
}

/// The storage of an operand as f32. Only elements that the view reaches are converted, but all keep their places.
fn widened(spec: &TensorSpec, bytes: &[u8]) -> Result<Vec<f32>, Short> {
    fn go<T: Widen<Acc = f32> + bytemuck::Pod>(spec: &TensorSpec, bytes: &[u8]) -> Result<Vec<f32>, Short> {
        let storage = &typed::<T>(bytes)[..spec.layout.required_elements() as usize];
        let mut wide = scratch::zeroed(storage.len())?;
        parallel::map1(|x: T| x.widen(), storage, &mut wide);
        Ok(wide)
    }
    match spec.dtype {
        DType::F8E4M3 => go::<F8E4M3>(spec, bytes),
        DType::F8E5M2 => go::<F8E5M2>(spec, bytes),
        DType::F16 => go::<f16>(spec, bytes),
        DType::BF16 => go::<bf16>(spec, bytes),
        // The operands are one of those; addends of them may be f32.
        _ => scratch::copied(typed(bytes)),
    }
}

/// The operations that the epilogue needs from an integer result.
trait WrappingResult: gemm::Wrapping + bytemuck::Pod {
    fn from_scalar(x: f64) -> Self;
    fn sum(self, other: Self) -> Self;
    fn product(self, other: Self) -> Self;
    fn relu(self) -> Self;
}

macro_rules! wrapping_result {
    ($($t:ident)*) => {$(
        impl WrappingResult for $t {
            fn from_scalar(x: f64) -> $t {
                Scalar::I(x as i64).as_i64() as $t
            }
            fn sum(self, other: $t) -> $t {
                self.wrapping_add(other)
            }
            fn product(self, other: $t) -> $t {
                self.wrapping_mul(other)
            }
            fn relu(self) -> $t {
                self.max(0)
            }
        }
    )*};
}
wrapping_result!(i32 u32 i64);

fn integer<I, O>(op: &Matmul, inputs: &[&[u8]], output: &mut [u8]) -> Done
where
    I: gemm::Widen<O> + bytemuck::Pod,
    O: WrappingResult,
{
    let operands = Operands::<I, O>::new(op, inputs, |bytes| typed::<O>(bytes));
    let n = op.dims().n as usize;
    let out: &mut [O] = dense_mut(&op.output, output);
    for_each_part(op, out, |part, out| {
        let a = Mat::new(operands.a, part.of(matrix(&op.a.layout, part.batch)));
        let b = Mat::new(operands.b, matrix(&op.b.layout, part.batch));
        let c = MatMut::new(out, gemm::Layout::row_major(part.rows, n));
        gemm::gemm_integer(a, b, c)
    })?;
    integer_epilogue(op, &operands, out)
}

/// Computes 8-bit products by f32 ones. Sums of up to `exact_k` products stay below 2^24, where f32 is exact; longer
/// sums are added up in i32.
fn small_integer<I>(op: &Matmul, inputs: &[&[u8]], output: &mut [u8], exact_k: usize) -> Done
where
    I: bytemuck::Pod + Send + Sync + Into<f32> + Into<i32>,
{
    let widened = |bytes| {
        let storage: &[I] = typed(bytes);
        let mut wide = scratch::zeroed::<f32>(storage.len())?;
        parallel::map1(|x: I| x.into(), storage, &mut wide);
        Ok(wide)
    };
    let side = few::Side::of(op);
    let wide = if side.is_some() { [Vec::new(), Vec::new()] } else { [widened(inputs[0])?, widened(inputs[1])?] };
    let exact_sums = |part: &Matmul, sums: &mut [i32]| match side {
        Some(side) => few::integer::<I>(part, side, inputs, sums),
        None => small_integer_sums(part, &wide, sums, exact_k),
    };
    if op.dequantises() {
        return scaled_sums(op, inputs, output, |part, sums| {
            let mut exact = scratch::zeroed(sums.len())?;
            exact_sums(part, &mut exact)?;
            parallel::map1(|sum: i32| sum as f32, &exact, sums);
            Ok(())
        });
    }
    let operands = Operands::<I, i32>::new(op, inputs, |bytes| typed::<i32>(bytes));
    let out: &mut [i32] = dense_mut(&op.output, output);
    exact_sums(op, out)?;
    integer_epilogue(op, &operands, out)
}

/// [`scaled`] for the output's type.
fn finish_scaled(op: &Matmul, inputs: &[&[u8]], sums: Vec<f32>, output: &mut [u8]) -> Done {
    match op.output.dtype {
        DType::F16 => scaled::<f16>(op, inputs, sums, output, narrow_f16),
        DType::BF16 => scaled::<bf16>(op, inputs, sums, output, narrow_bf16),
        _ => scaled::<f32>(op, inputs, sums, output, |x| x),
    }
}

/// Turns sums of products of quantised operands into results, in the order that the op promises: scales of rows, scales
/// of columns, alpha, C, bias, activation.
fn scaled<T>(
    op: &Matmul,
    inputs: &[&[u8]],
    mut sums: Vec<f32>,
    output: &mut [u8],
    narrow: impl Fn(f32) -> T + Copy + Send + Sync,
) -> Done
where
    T: Widen<Acc = f32> + bytemuck::Pod,
{
    let MatmulDims { m, n, .. } = op.dims();
    let (m, n) = (m as usize, n as usize);
    let places = op.places();
    let factors = |spec: Option<TensorSpec>, place: Option<usize>| {
        spec.zip(place).map(|(spec, place)| dense(&spec.layout, typed::<f32>(inputs[place]))).transpose()
    };
    let addend = |spec: Option<TensorSpec>, place: Option<usize>| {
        let widened = |(spec, place): (TensorSpec, usize)| {
            let elements = dense(&spec.layout, typed::<T>(inputs[place]))?;
            let mut wide = scratch::zeroed::<f32>(elements.len())?;
            parallel::map1(|x: T| x.widen(), &elements, &mut wide);
            Ok::<_, Short>(wide)
        };
        spec.zip(place).map(widened).transpose()
    };
    let c = addend(op.c.filter(|_| op.beta != 0.0), places.c)?;
    let bias = addend(op.bias, places.bias)?;
    let (by_row, by_column) = (factors(op.scale_a, places.scale_a)?, factors(op.scale_b, places.scale_b)?);
    let (alpha, beta) = (op.alpha as f32, op.beta as f32);
    if n > 0 {
        parallel::chunks(&mut sums, n, |row, sums| {
            if let Some(scales) = &by_row {
                sums.iter_mut().for_each(|x| *x *= scales[row]);
            }
            if let Some(scales) = &by_column {
                sums.iter_mut().zip(&scales[row / m * n..]).for_each(|(x, scale)| *x *= scale);
            }
            if alpha != 1.0 {
                sums.iter_mut().for_each(|x| *x *= alpha);
            }
            if let Some(c) = &c {
                sums.iter_mut().zip(&c[row * n..]).for_each(|(x, c)| *x += beta * c);
            }
        });
        epilogue(bias.as_deref(), op.activation, n, &mut sums);
    }
    parallel::map1(narrow, &sums, dense_mut(&op.output, output));
    Ok(())
}

/// The sums alone, in `out`, from the widened storages of A and B.
fn small_integer_sums(op: &Matmul, [a, b]: &[Vec<f32>; 2], out: &mut [i32], exact_k: usize) -> Done {
    let MatmulDims { n, k, .. } = op.dims();
    let (n, k) = (n as usize, k as usize);
    for_each_part(op, out, |part, out| {
        out.fill(0);
        let (a_all, b_all) = (part.of(matrix(&op.a.layout, part.batch)), matrix(&op.b.layout, part.batch));
        let mut sums = scratch::zeroed::<f32>(out.len())?;
        for first in (0..k).step_by(exact_k) {
            let len = exact_k.min(k - first);
            let along = |offset: usize, stride: isize| (offset as isize + first as isize * stride) as usize;
            let a_part = gemm::Layout { offset: along(a_all.offset, a_all.col_stride), cols: len, ..a_all };
            let b_part = gemm::Layout { offset: along(b_all.offset, b_all.row_stride), rows: len, ..b_all };
            let c = MatMut::new(&mut sums, gemm::Layout::row_major(part.rows, n));
            gemm::gemm(Mat::new(a, a_part), Mat::new(b, b_part), c)?;
            parallel::pairs((out, parallel::CHUNK), (&sums, parallel::CHUNK), |out, sums| {
                out.iter_mut().zip(sums).for_each(|(x, &s)| *x = x.wrapping_add(s as i32));
            });
        }
        Ok(())
    })
}

/// Applies alpha, C, bias and relu, in wrapping arithmetic.
fn integer_epilogue<I, O: WrappingResult>(op: &Matmul, operands: &Operands<'_, I, O>, out: &mut [O]) -> Done {
    if op.alpha != 1.0 {
        let alpha = O::from_scalar(op.alpha);
        out.iter_mut().for_each(|x| *x = x.product(alpha));
    }
    if let Some((spec, c)) = operands.c.as_ref().filter(|_| op.beta != 0.0) {
        let beta = O::from_scalar(op.beta);
        out.iter_mut().zip(dense(&spec.layout, c)?.iter()).for_each(|(x, &c)| *x = x.sum(c.product(beta)));
    }
    if let Some((spec, bias)) = &operands.bias {
        let bias = dense(&spec.layout, bias)?;
        for row in out.chunks_mut(bias.len().max(1)) {
            row.iter_mut().zip(bias.iter()).for_each(|(x, &b)| *x = x.sum(b));
        }
    }
    if op.activation == Some(UnaryFn::Relu) {
        out.iter_mut().for_each(|x| *x = x.relu());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Shape;

    #[test]
    fn few_products_are_cut_and_long_or_large_ones_are_not() {
        let cases: [_; 11] = [
            ((1, 1000, [8, 8, 8]), Tasks::InTurn),
            ((16, 1, [256, 256, 256]), Tasks::InTurn),
            ((16, 3, [8, 8, 8]), Tasks::InTurn),
            ((16, 32, [256, 256, 256]), Tasks::Cut(vec![0, 80, 160, 256])),
            ((16, 32, [71, 256, 256]), Tasks::Whole),
            ((16, 32, [512, 16, 256]), Tasks::Whole),
            ((16, 32, [512, 17, 256]), Tasks::Cut(vec![0, 128, 256, 384, 512])),
            ((16, 1000, [256, 256, 256]), Tasks::Whole),
            ((16, 32, [256, 64, 4096]), Tasks::Whole),
            ((16, 8, [256, 64, 4096]), Tasks::InTurn),
            ((16, 31, [4096, 4096, 128]), Tasks::InTurn),
        ];
        for ((threads, batch, dims), expected) in cases {
            assert_eq!(Tasks::of(threads, batch, dims), expected, "{batch} x {dims:?} on {threads}");
        }
    }

    /// Products with rows that parts do not divide evenly, an A that is a view of a larger matrix and a B that may be
    /// transposed give the same bits on any number of threads.
    #[test]
    fn parts_of_a_batch_are_the_same_on_any_number_of_threads() {
        for (batch, m, n, k) in
            [(5, 71, 9, 33), (5, 71, 4, 33), (8, 256, 64, 600), (2, 1057, 256, 300), (3, 128, 128, 1000)]
        {
            for (alpha, transposed) in [(1.0, false), (0.3, true)] {
                same_on_any_number_of_threads([batch, m, n, k], alpha, transposed);
            }
        }
    }

    fn same_on_any_number_of_threads([batch, m, n, k]: [u64; 4], alpha: f64, transposed: bool) {
        let dense = |dims: [u64; 3]| Layout::contiguous(Shape::new(&dims).unwrap());
        let a = dense([batch, m, 2 * k]).slice(2, 1, 1 + k, 1).unwrap();
        let b = if transposed { dense([batch, n, k]).permute(&[0, 2, 1]).unwrap() } else { dense([batch, k, n]) };
        let noise = |len: u64, seed: u64| -> Vec<f32> {
            (0..len).map(|i| ((i * 37 + seed) % 101) as f32 * 0.37 - 18.0).collect()
        };
        let (x, y) = (noise(batch * m * 2 * k, 1), noise(batch * k * n, 2));
        let [a_spec, b_spec, d] = [a, b, dense([batch, m, n])].map(|layout| TensorSpec::new(DType::F32, layout));
        let op = Matmul { alpha, ..Matmul::product(a_spec, b_spec, d) };
        let run = |threads: usize| {
            let mut out = vec![f32::NAN; (batch * m * n) as usize];
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("pool");
            let inputs = [bytemuck::cast_slice(&x), bytemuck::cast_slice(&y)];
            pool.install(|| execute(&op, &inputs, bytemuck::cast_slice_mut(&mut out))).unwrap();
            out
        };
        let one = run(1);
        let at = |layout: &Layout, values: &[f32], [i, row, column]: [u64; 3]| {
            let [s, t, u] = [0, 1, 2].map(|axis| layout.strides()[axis]);
            let place = layout.offset() as i64 + i as i64 * s + row as i64 * t + column as i64 * u;
            f64::from(values[place as usize])
        };
        for i in (0..batch * m * n).step_by(97) {
            let (of, row, column) = (i / (m * n), i / n % m, i % n);
            let terms = (0..k).map(|p| at(&a, &x, [of, row, p]) * at(&b, &y, [of, p, column]));
            let (sum, size) = terms.fold((0.0, 0.0), |(sum, size), term| (sum + term, size + term.abs()));
            assert!((f64::from(one[i as usize]) - alpha * sum).abs() <= 1e-4 * size, "{i}");
        }
        for threads in [2, 3, 4, 16] {
            let off = run(threads).iter().zip(&one).filter(|(x, y)| x != y).count();
            assert_eq!(
                off, 0,
                "{batch} x {m}x{n}x{k}, alpha {alpha}, B transposed: {transposed}, on {threads} threads"
            );
        }
    }
}
