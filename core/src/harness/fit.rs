//! Memory, foretold and exhausted, on any device: what [`Device::fits`] says is true, and batches shrink until they fit.
//!
//! [`run`] works like [`super::bad_input::run`]. The device's memory limit is set low by most rows and lifted again.

use std::time::Duration;

use super::bad_input::Row;
use super::rows::{Answer, Test, demand, outcome};
use crate::ops::{Distribution, Matmul, Random, Reduce, Softmax, SoftmaxFn};
use crate::{
    BinaryFn, Buffer, DType, Device, Error, Expr, Fit, Inputs, Layout, Op, Program, ReduceFn, Result, Shape, Split,
    Tensor, TensorSpec, in_batches,
};

/// Runs every row on `device`, which should hold little: limits are set a few MiB above what is in use.
pub fn run(device: &Device) -> Vec<Row> {
    let row = |&(name, test): &(&'static str, Test)| {
        let unlimited = |device: &Device| {
            let answer = test(device);
            device.set_memory_limit(None);
            answer
        };
        Row { name, result: outcome(device, unlimited) }
    };
    ROWS.iter().map(row).collect()
}

const ROWS: &[(&str, Test)] = &[
    ("what fits runs at exactly that limit, and no lower", exact),
    ("inputs that are there need no memory", inputs_allocated),
    ("pieces that fit run one by one", pieces_run),
    ("operand over the largest binding", over_the_binding),
    ("what cannot be split", impossible),
    ("nothing is allocated by asking", nothing_allocated),
    ("batch halves until it fits", batch_halves),
    ("batch of tensors equals the whole", batch_equals_whole),
    ("batch whose single index does not fit", batch_of_one),
    ("batch with an error that is not about memory", batch_error),
    ("an update that has no memory, that is tried again, and of halved batches", updates_once),
    ("batch of nothing, and tensors that do not belong together", batch_shapes),
];

fn dense(dims: &[u64]) -> Result<TensorSpec> {
    Ok(TensorSpec::new(DType::F32, Layout::contiguous(Shape::new(dims)?)))
}

fn map(inputs: &[TensorSpec], output: TensorSpec) -> Result<Op> {
    let expr = Expr::input(0).binary(BinaryFn::Add, Expr::input(inputs.len() - 1));
    let program = Program::compile(&expr, &vec![DType::F32; inputs.len()])?;
    Ok(crate::ops::Map::new("expr", program, inputs.to_vec(), output)?.into())
}

fn product(m: u64, k: u64, n: u64) -> Result<Op> {
    Ok(Matmul::product(dense(&[m, k])?, dense(&[k, n])?, dense(&[m, n])?).check()?.into())
}

/// Products, sums with and without scratch space, a softmax and an expression, of some 100 KiB each.
fn ops() -> Result<Vec<Op>> {
    let all = |elements: u64| -> Result<Op> {
        Ok(Reduce::new(ReduceFn::Sum, dense(&[elements])?, &[0], dense(&[])?)?.into())
    };
    Ok(vec![
        product(100, 130, 170)?,
        product(3, 20_000, 3)?,
        all(200_000)?,
        Reduce::new(ReduceFn::Sum, dense(&[1000, 77])?, &[0], dense(&[77])?)?.into(),
        Softmax::new(SoftmaxFn::Softmax, dense(&[300, 101])?, 1, dense(&[300, 101])?)?.into(),
        map(&[dense(&[300, 101])?, dense(&[300, 101])?], dense(&[300, 101])?)?,
    ])
}

/// Allocates everything that `op` needs and runs it.
fn run_op(device: &Device, op: &Op) -> Result<()> {
    let buffer = |spec: &TensorSpec| device.backend().alloc(spec.required_bytes());
    let inputs = op.inputs().iter().map(buffer).collect::<Result<Vec<Buffer>>>()?;
    let outputs = op.outputs().iter().map(|output| buffer(&output.spec)).collect::<Result<Vec<Buffer>>>()?;
    device.execute(op, &inputs.iter().collect::<Vec<_>>(), &outputs.iter().collect::<Vec<_>>())
}

/// The limit that leaves `bytes` free.
fn leave(device: &Device, bytes: u64) {
    device.empty_cache();
    device.set_memory_limit(Some(device.memory().in_use_bytes + bytes));
}

fn exact(device: &Device) -> Result<Answer> {
    for op in ops()? {
        device.set_memory_limit(None);
        let Fit { needed_bytes, peak_bytes, largest_binding_bytes, .. } = device.fits(&op, Inputs::Missing)?;
        let least: u64 = op.inputs().iter().chain([&op.output()]).map(TensorSpec::bytes).sum();
        demand!(peak_bytes == needed_bytes && peak_bytes >= least, "{}: {peak_bytes} for {least}", op.name());
        let largest = op.inputs().iter().map(TensorSpec::bytes).max().unwrap_or(0);
        demand!(largest_binding_bytes >= largest, "{}: largest binding {largest_binding_bytes}", op.name());
        leave(device, needed_bytes);
        let fit = device.fits(&op, Inputs::Missing)?;
        demand!(fit.whole() && fit.free_bytes == Some(needed_bytes), "{}: {fit:?} at its own need", op.name());
        run_op(device, &op)?;
        leave(device, needed_bytes - 1);
        let fit = device.fits(&op, Inputs::Missing)?;
        demand!(!fit.whole(), "{}: {fit:?} with a byte too few", op.name());
        let result = run_op(device, &op);
        demand!(matches!(result, Err(Error::OutOfMemory { .. })), "{}: {result:?} with a byte too few", op.name());
    }
    Ok(Ok(()))
}

fn inputs_allocated(device: &Device) -> Result<Answer> {
    let op = product(100, 130, 170)?;
    let (all, rest) = (device.fits(&op, Inputs::Missing)?, device.fits(&op, Inputs::Allocated)?);
    demand!(rest.needed_bytes < all.needed_bytes && rest.peak_bytes == all.peak_bytes, "{all:?}, {rest:?}");
    leave(device, rest.needed_bytes);
    let fit = device.fits(&op, Inputs::Allocated)?;
    demand!(fit.whole() && !device.fits(&op, Inputs::Missing)?.whole(), "{fit:?}");
    Ok(Ok(()))
}

fn pieces_run(device: &Device) -> Result<Answer> {
    let op = product(640, 64, 640)?;
    let whole = device.fits(&op, Inputs::Missing)?;
    leave(device, whole.needed_bytes / 4);
    let fit = device.fits(&op, Inputs::Missing)?;
    let Split::Pieces { axis: 0, pieces } = fit.split else {
        return Ok(Err(format!("{fit:?}")));
    };
    demand!((2..=64).contains(&pieces), "{pieces} pieces for a quarter of the memory");
    let size = 640u64.div_ceil(pieces);
    for start in (0..640).step_by(size as usize) {
        run_op(device, &product(size.min(640 - start), 64, 640)?)?;
    }
    let larger = run_op(device, &product(2 * size, 64, 640)?);
    demand!(matches!(larger, Err(Error::OutOfMemory { .. })), "fewer pieces fit as well: {larger:?}");
    Ok(Ok(()))
}

/// Elements of a dense f32 operand that just exceeds what the device can bind.
fn too_many(device: &Device) -> u64 {
    let limits = &device.info().limits;
    limits.max_binding_bytes.min(limits.max_buffer_bytes) / 4 + 64
}

fn over_the_binding(device: &Device) -> Result<Answer> {
    // Whatever memory there is: only the limit of one binding is in question.
    device.set_memory_limit(Some(1 << 60));
    let rows = too_many(device).div_ceil(64);
    let op = map(&[dense(&[rows, 64])?], dense(&[rows, 64])?)?;
    let fit = device.fits(&op, Inputs::Missing)?;
    // A device of more memory than 32-bit indices reach must cut finer.
    let most = u64::from(u32::MAX).min(64 * rows - 1);
    let pieces = (64 * rows).div_ceil(most).next_power_of_two();
    demand!(fit.split == Split::Pieces { axis: 0, pieces }, "{fit:?}, {pieces} pieces expected");
    demand!(fit.largest_binding_bytes == 256 * rows, "{fit:?} of {rows} rows");
    // Rows are one too few to slice: columns are left.
    let op = map(&[dense(&[1, 64 * rows])?], dense(&[1, 64 * rows])?)?;
    let fit = device.fits(&op, Inputs::Missing)?;
    demand!(fit.split == Split::Pieces { axis: 1, pieces }, "{fit:?}, {pieces} pieces expected");
    Ok(Ok(()))
}

fn impossible(device: &Device) -> Result<Answer> {
    device.set_memory_limit(Some(1 << 60));
    let elements = too_many(device);
    let total = Reduce::new(ReduceFn::Sum, dense(&[elements])?, &[0], dense(&[])?)?.into();
    let softmax = Softmax::new(SoftmaxFn::Softmax, dense(&[elements])?, 0, dense(&[elements])?)?.into();
    let uniform = Distribution::Uniform { low: 0.0, high: 1.0 };
    let random = Random::new(uniform, 1, 0, dense(&[elements])?)?.into();
    for op in [total, softmax, random] {
        let fit = device.fits(&op, Inputs::Missing)?;
        demand!(fit.split == Split::Impossible, "{}: {fit:?}", op.name());
    }
    leave(device, 0);
    let fit = device.fits(&product(4, 4, 4)?, Inputs::Missing)?;
    demand!(fit.split == Split::Impossible && fit.free_bytes == Some(0), "{fit:?}");
    Ok(Ok(()))
}

fn nothing_allocated(device: &Device) -> Result<Answer> {
    let before = device.memory();
    for op in ops()? {
        device.fits(&op, Inputs::Missing)?;
    }
    demand!(device.memory() == before, "{before:?} became {:?}", device.memory());
    Ok(Ok(()))
}

/// A computation whose intermediates need many times its input.
fn spread(x: &Tensor) -> Result<Tensor> {
    let wide = x.unsqueeze(1)?.broadcast_to([x.dims()[0], 64, x.dims()[1]])?;
    let a = wide.add_scalar(1.0)?;
    a.mul(&a)?.sum(1)
}

fn batch_halves(device: &Device) -> Result<Answer> {
    let data: Vec<f32> = (0..256 * 64).map(|i| (i % 97) as f32).collect();
    let mut sizes = Vec::new();
    let mut rows = |limit: Option<u64>| -> Result<Vec<f32>> {
        sizes.clear();
        match limit {
            Some(bytes) => leave(device, bytes),
            None => device.set_memory_limit(None),
        }
        let parts = in_batches(256, |range| {
            sizes.push(range.end - range.start);
            let slice = &data[64 * range.start as usize..64 * range.end as usize];
            spread(&Tensor::from_slice(device, slice, [range.end - range.start, 64])?)?.to_vec::<f32>()
        })?;
        Ok(parts.concat())
    };
    let want = rows(None)?;
    // Two intermediates of 4 MiB each for the whole batch.
    let got = rows(Some(2 << 20))?;
    demand!(got == want, "the values differ");
    let smallest = sizes.iter().copied().min().unwrap_or(0);
    demand!(sizes.starts_with(&[256, 128, 64]) && smallest >= 8, "sizes {sizes:?}");
    demand!(sizes.windows(2).all(|pair| pair[0] >= pair[1]), "sizes {sizes:?} grow again");
    Ok(Ok(()))
}

fn batch_equals_whole(device: &Device) -> Result<Answer> {
    let x = Tensor::random(device, DType::F32, [101, 64], Distribution::Normal { mean: 0.0, std: 1.0 }, 3, 0)?;
    let y = Tensor::random(device, DType::F32, [101, 64], Distribution::Normal { mean: 0.0, std: 1.0 }, 4, 0)?;
    let work = |slices: &[Tensor]| spread(&slices[0])?.mul(&slices[1]);
    let want = work(&[x.clone(), y.clone()])?.to_vec::<f32>()?;
    let whole = Tensor::in_batches(&[&x, &y], work)?;
    demand!(whole.to_vec::<f32>()? == want, "the values differ in one go");
    drop(whole);
    leave(device, 1 << 20);
    let mut calls = 0;
    let parts = Tensor::in_batches(&[&x, &y], |slices| {
        calls += 1;
        work(slices)
    })?;
    device.set_memory_limit(None);
    demand!(calls > 3, "{calls} calls: the limit was never reached");
    demand!(parts.dims() == [101, 64] && parts.to_vec::<f32>()? == want, "the values differ in {calls} calls");
    Ok(Ok(()))
}

/// Whatever is tried again: what is updated is so once.
fn updates_once(device: &Device) -> Result<Answer> {
    let count = Tensor::zeros(device, DType::F32, [1000])?;
    let is = |expected: f32| Ok::<bool, Error>(count.to_vec::<f32>()?.iter().all(|&x| x == expected));
    // One more, and a result of its own, of 4000 bytes.
    let one_more = || Tensor::update(&[Expr::input(0) + 1.0, Expr::input(0) * 2.0], &[], &[&count]);
    leave(device, 2000);
    let result = one_more();
    demand!(matches!(result, Err(Error::OutOfMemory { .. })), "{:?} without memory", result.map(|made| made.len()));
    demand!(is(0.0)?, "an update that failed was made");
    let mut attempts = 0;
    device.retry(Duration::from_secs(60), || {
        attempts += 1;
        if attempts == 2 {
            device.set_memory_limit(None);
        }
        one_more().map(drop)
    })?;
    demand!(attempts == 2 && is(1.0)?, "not updated once by {attempts} attempts");
    // Whole numbers, whose sums are exact in any order.
    let data: Vec<f32> = (0..256 * 64).map(|i| (i % 7) as f32).collect();
    let sums = |limit: Option<u64>| -> Result<(usize, Vec<f32>)> {
        device.set_memory_limit(None);
        let total = Tensor::zeros(device, DType::F32, [64])?;
        limit.into_iter().for_each(|bytes| leave(device, bytes));
        let parts = in_batches(256, |range| {
            let slice = &data[64 * range.start as usize..64 * range.end as usize];
            let part = spread(&Tensor::from_slice(device, slice, [range.end - range.start, 64])?)?.sum(0)?;
            Tensor::update(&[Expr::input(0) + Expr::input(1)], &[&part], &[&total]).map(drop)
        })?;
        Ok((parts.len(), total.to_vec::<f32>()?))
    };
    let ((_, want), (parts, found)) = (sums(None)?, sums(Some(2 << 20))?);
    demand!(parts > 2 && found == want, "sums of {parts} batches are not those of one");
    Ok(Ok(()))
}

fn batch_of_one(device: &Device) -> Result<Answer> {
    let x = Tensor::zeros(device, DType::F32, [7, 64])?;
    leave(device, 4096);
    let mut sizes = Vec::new();
    let result = Tensor::in_batches(&[&x], |slices| {
        sizes.push(slices[0].dims()[0]);
        spread(&slices[0])
    });
    demand!(matches!(result, Err(Error::OutOfMemory { .. })), "{result:?}");
    demand!(sizes == [7, 4, 2, 1], "sizes {sizes:?}");
    Ok(Ok(()))
}

fn batch_error(device: &Device) -> Result<Answer> {
    let x = Tensor::zeros(device, DType::F32, [8, 4])?;
    let mut calls = 0;
    let result = Tensor::in_batches(&[&x], |slices| {
        calls += 1;
        slices[0].reshape([3, 3])
    });
    demand!(matches!(result, Err(Error::ReshapeSize { .. })) && calls == 1, "{result:?} after {calls} calls");
    Ok(Ok(()))
}

fn batch_shapes(device: &Device) -> Result<Answer> {
    let (x, none) = (Tensor::zeros(device, DType::F32, [8, 4])?, Tensor::zeros(device, DType::F32, [0, 4])?);
    let empty = Tensor::in_batches(&[&none], |slices| slices[0].sum(1))?;
    demand!(empty.dims() == [0], "{empty:?}");
    demand!(in_batches(0, |_| Ok(1))?.is_empty(), "a batch of nothing was run");
    let unequal = Tensor::in_batches(&[&x, &none], |slices| slices[0].exp());
    demand!(matches!(unequal, Err(Error::ShapeMismatch { op: "in_batches", .. })), "{unequal:?}");
    let summed = Tensor::in_batches(&[&x], |slices| slices[0].sum(0));
    demand!(matches!(summed, Err(Error::ShapeMismatch { op: "in_batches", .. })), "{summed:?}");
    let scalar = Tensor::zeros(device, DType::F32, [0; 0])?;
    for inputs in [&[][..], &[&scalar][..]] {
        let refused = Tensor::in_batches(inputs, |_| x.exp());
        demand!(matches!(refused, Err(Error::InvalidArgument { what: "inputs", .. })), "{refused:?}");
    }
    Ok(Ok(()))
}
