//! Matrix products: each product of the batch by `gemm.rs`, then the epilogue in one pass over the result.
//!
//! Operands of 8- and 16-bit floats are widened to f32 first (their product needs no more memory than an f32 one) and the
//! result is narrowed once, after the epilogue. Products of quantised operands are made whole, in i32 or f32, and then scaled, those with
//! scales of blocks (`matmul/blocks.rs`) block by block of K.

mod blocks;

use half::{bf16, f16};

use super::super::gemm::{self, Mat, MatMut};
use super::super::parallel;
use super::super::reduce::Element as Widen;
use super::super::scratch::{self, Done, Short};
use super::gather::dense;
use super::lanes::{Lanes, narrow_bf16, narrow_f16, unary};
use super::{dense_mut, typed};
use crate::ops::{Matmul, MatmulDims};
use crate::{DType, F8E4M3, F8E5M2, Layout, Scalar, TensorSpec, UnaryFn};
use blocks::{BlockScales, along_k};

pub(super) fn execute(op: &Matmul, inputs: &[&[u8]], output: &mut [u8]) -> Done {
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
        DType::U8 | DType::Bool => small_integer::<u8>(op, inputs, output, 256),
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
        let mut addends = inputs[2..].iter();
        let mut next = |spec: Option<TensorSpec>| spec.and_then(|spec| Some((spec, addend(addends.next()?))));
        Operands { a: typed(inputs[0]), b: typed(inputs[1]), c: next(op.c), bias: next(op.bias) }
    }
}

/// Where product number `batch` of an operand lies.
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

/// Runs `product(batch, result)` for every matrix of the batch, in parallel when there are many; the first failure ends it.
fn for_each_product<T: Send>(op: &Matmul, out: &mut [T], product: impl Fn(usize, &mut [T]) -> Done + Sync) -> Done {
    let MatmulDims { batch, m, n, .. } = op.dims();
    let elements = (m * n) as usize;
    if batch as usize >= 2 * parallel::threads() {
        parallel::try_chunks(out, elements, product)
    } else {
        out.chunks_mut(elements).enumerate().try_for_each(|(i, out)| product(i, out))
    }
}

/// What the epilogue needs of a result type.
trait Number: gemm::Float + Widen<Acc = Self> + bytemuck::Pod {
    fn from_f64(x: f64) -> Self;
    fn lanes(x: &[Self]) -> Lanes;
    fn store(lanes: &Lanes, x: &mut [Self]);
    fn sum(self, other: Self) -> Self;
}

macro_rules! number {
    ($($t:ident $variant:ident)*) => {$(
        impl Number for $t {
            fn from_f64(x: f64) -> $t {
                x as $t
            }
            fn lanes(x: &[$t]) -> Lanes {
                Lanes::$variant(x.to_vec())
            }
            fn store(lanes: &Lanes, x: &mut [$t]) {
                if let Lanes::$variant(lanes) = lanes {
                    x.copy_from_slice(&lanes[..x.len()]);
                }
            }
            fn sum(self, other: $t) -> $t {
                self + other
            }
        }
    )*};
}
number!(f32 F32 f64 F64);

fn float<T: Number>(op: &Matmul, operands: &Operands<'_, T, T>, out: &mut [T]) -> Done {
    let MatmulDims { m, n, .. } = op.dims();
    for_each_product(op, out, |batch, out| {
        let a = Mat::new(operands.a, matrix(&op.a.layout, batch));
        let b = Mat::new(operands.b, matrix(&op.b.layout, batch));
        let c = MatMut::new(out, gemm::Layout::row_major(m as usize, n as usize));
        gemm::gemm(T::from_f64(op.alpha), a, b, T::from_f64(0.0), c)
    })?;
    // Behind the product: terms that are added to a large C one by one would be lost in it.
    if let Some((spec, c)) = operands.c.as_ref().filter(|_| op.beta != 0.0) {
        let (c, beta) = (dense(&spec.layout, c)?, T::from_f64(op.beta));
        parallel::pairs((out, parallel::CHUNK), (&c, parallel::CHUNK), |out, c| {
            out.iter_mut().zip(c).for_each(|(x, &c)| *x = x.sum(beta.times(c)));
        });
    }
    let bias = operands.bias.as_ref().map(|(spec, bias)| dense(&spec.layout, bias)).transpose()?;
    epilogue(bias.as_deref(), op.activation, n as usize, out);
    Ok(())
}

/// Bias and activation, row by row.
fn epilogue<T: Number>(bias: Option<&[T]>, activation: Option<UnaryFn>, n: usize, out: &mut [T]) {
    if bias.is_none() && activation.is_none() {
        return;
    }
    parallel::chunks(out, n, |_, row| {
        if let Some(bias) = bias {
            row.iter_mut().zip(bias).for_each(|(x, &b)| *x = x.sum(b));
        }
        if let Some(f) = activation {
            // A row may be all of the result: a part at a time, whose copies stay in cache.
            for part in row.chunks_mut(parallel::CHUNK) {
                let x = T::lanes(part);
                let mut y = x.clone();
                unary(f, &x, &mut y, part.len());
                T::store(&y, part);
            }
        }
    });
}

fn narrow(op: &Matmul, inputs: &[&[u8]], output: &mut [u8]) -> Done {
    if op.is_quantised() {
        return narrow_scaled(op, inputs, output);
    }
    let specs = crate::Op::from(op.clone()).inputs();
    let wide = specs.iter().zip(inputs).map(|(spec, bytes)| widened(spec, bytes));
    let wide = wide.collect::<Result<Vec<Vec<f32>>, Short>>()?;
    let mut addends = wide[2..].iter();
    let mut next = |spec: Option<TensorSpec>| spec.and_then(|spec| Some((spec, addends.next()?.as_slice())));
    let operands = Operands { a: &wide[0][..], b: &wide[1][..], c: next(op.c), bias: next(op.bias) };
    if op.output.dtype == DType::F32 {
        return float(op, &operands, dense_mut(&op.output, output));
    }
    let mut result = scratch::zeroed(op.output.layout.elements() as usize)?;
    float(op, &operands, &mut result)?;
    match op.output.dtype {
        DType::F16 => parallel::map1(narrow_f16, &result, dense_mut(&op.output, output)),
        _ => parallel::map1(narrow_bf16, &result, dense_mut(&op.output, output)),
    }
    Ok(())
}

/// 8-bit floats with scales: the bare sums first, as the op promises.
fn narrow_scaled(op: &Matmul, inputs: &[&[u8]], output: &mut [u8]) -> Done {
    let (a, b) = (widened(&op.a, inputs[0])?, widened(&op.b, inputs[1])?);
    let operands = Operands { a: &a[..], b: &b[..], c: None, bias: None };
    scaled_sums(op, inputs, output, |part, sums| float(part, &operands, sums))
}

/// The product of quantised operands from `sums`, which makes the bare ones of a product along K.
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

/// The storage of an operand as f32: only the elements that its view reaches count, but their places must stay.
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

/// What an integer result needs.
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
    let MatmulDims { m, n, .. } = op.dims();
    let out: &mut [O] = dense_mut(&op.output, output);
    for_each_product(op, out, |batch, out| {
        let a = Mat::new(operands.a, matrix(&op.a.layout, batch));
        let b = Mat::new(operands.b, matrix(&op.b.layout, batch));
        let c = MatMut::new(out, gemm::Layout::row_major(m as usize, n as usize));
        gemm::gemm_integer(O::from_scalar(1.0), a, b, O::from_scalar(0.0), c)
    })?;
    integer_epilogue(op, &operands, out)
}

/// 8-bit products by f32 ones: sums of up to `exact_k` products stay below 2^24, where f32 is exact; longer ones are
/// added up in i32.
fn small_integer<I>(op: &Matmul, inputs: &[&[u8]], output: &mut [u8], exact_k: usize) -> Done
where
    I: bytemuck::Pod + Send + Sync + Into<f32>,
{
    let widened = |bytes| {
        let storage: &[I] = typed(bytes);
        let mut wide = scratch::zeroed::<f32>(storage.len())?;
        parallel::map1(|x: I| x.into(), storage, &mut wide);
        Ok(wide)
    };
    let wide = [widened(inputs[0])?, widened(inputs[1])?];
    if op.dequantises() {
        return scaled_sums(op, inputs, output, |part, sums| {
            let mut exact = scratch::zeroed(sums.len())?;
            small_integer_sums(part, &wide, &mut exact, exact_k)?;
            parallel::map1(|sum: i32| sum as f32, &exact, sums);
            Ok(())
        });
    }
    let operands = Operands::<I, i32>::new(op, inputs, |bytes| typed::<i32>(bytes));
    let out: &mut [i32] = dense_mut(&op.output, output);
    small_integer_sums(op, &wide, out, exact_k)?;
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

/// Sums of products of quantised operands to what they stand for, in the order that the op promises: scales of rows, of
/// columns, alpha, C, bias, activation.
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
    let c = addend(op.c.filter(|_| op.beta != 0.0), places[0])?;
    let bias = addend(op.bias, places[1])?;
    let (by_row, by_column) = (factors(op.scale_a, places[2])?, factors(op.scale_b, places[3])?);
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
    let MatmulDims { m, n, k, .. } = op.dims();
    let (m, n, k) = (m as usize, n as usize, k as usize);
    for_each_product(op, out, |batch, out| {
        out.fill(0);
        let (a_all, b_all) = (matrix(&op.a.layout, batch), matrix(&op.b.layout, batch));
        let mut sums = scratch::zeroed::<f32>(m * n)?;
        for first in (0..k).step_by(exact_k) {
            let len = exact_k.min(k - first);
            let along = |offset: usize, stride: isize| (offset as isize + first as isize * stride) as usize;
            let a_part = gemm::Layout { offset: along(a_all.offset, a_all.col_stride), cols: len, ..a_all };
            let b_part = gemm::Layout { offset: along(b_all.offset, b_all.row_stride), rows: len, ..b_all };
            let c = MatMut::new(&mut sums, gemm::Layout::row_major(m, n));
            gemm::gemm(1.0, Mat::new(a, a_part), Mat::new(b, b_part), 0.0, c)?;
            parallel::pairs((out, parallel::CHUNK), (&sums, parallel::CHUNK), |out, sums| {
                out.iter_mut().zip(sums).for_each(|(x, &s)| *x = x.wrapping_add(s as i32));
            });
        }
        Ok(())
    })
}

/// alpha, C, bias and relu, in wrapping arithmetic.
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
