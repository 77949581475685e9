//! What is different in a browser: nothing may block, refusals arrive late, there is one thread and no clock.
//!
//! Each check has a device of its own, which must compute correctly afterwards, unless ending it is what is checked.

use polywarp::tuner::Mode;
use polywarp::wgpu::Options;
use polywarp::{Binding, DType, Device, Error, Kernel, Result, Tensor};
use serde::Serialize;

use crate::open;

/// All checks.
#[derive(Serialize)]
pub struct Checked {
    /// One row for each.
    pub rows: Vec<Row>,
}

/// One check and what came of it.
#[derive(Serialize)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// What was wrong, when something was.
    pub wrong: Option<String>,
}

type Answer = std::result::Result<(), String>;

macro_rules! demand {
    ($condition:expr, $($text:tt)+) => {
        if !$condition {
            return Ok(Err(format!($($text)+)));
        }
    };
}

/// Makes every check; `tell(done, total, name)` after each.
///
/// # Errors
/// When no device can be opened.
pub async fn run(tell: &dyn Fn(usize, usize, &str)) -> Result<Checked> {
    let mut rows = Vec::new();
    macro_rules! checks {
        ($($name:literal => $check:ident),* $(,)?) => {
            let names = [$($name),*];
            $(
                let device = Device::new(open(Options::default()).await?);
                let answer = match $check(&device).await {
                    Ok(Ok(())) => still_computes(&device).await.unwrap_or_else(|error| Err(error.to_string())),
                    Ok(answer) => answer,
                    Err(error) => Err(format!("failed: {error}")),
                };
                rows.push(Row { name: $name, wrong: answer.err() });
                tell(rows.len(), names.len(), $name);
            )*
        };
    }
    checks! {
        "a blocking read is WouldBlock and harms nothing" => blocking_read,
        "waiting and timing are WouldBlock and harm nothing" => waiting,
        "a read sees the work before it and none after it" => reads_in_order,
        "bytes within words" => bytes_within_words,
        "a recording replays" => replays,
        "a user's kernel" => users_kernel,
        "a user's kernel that naga refuses" => refused_kernel,
        "a user's kernel that only the browser refuses" => late_refusal,
        "f64 is refused by name" => wide_floats,
        "a tensor over the limits is refused by size" => too_large,
        "a product with the tuner on" => tuner_on,
        "memory goes back to the pool" => memory_returns,
    }
    Ok(Checked { rows })
}

/// A product, a map and a sum, against known numbers.
async fn still_computes(device: &Device) -> Result<Answer> {
    let a = Tensor::from_slice(device, &[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
    let product = a.matmul(&a.t()?)?.add_scalar(1.0)?;
    let (values, sum) = (product.to_vec_async::<f32>().await?, product.sum(..)?.to_vec_async::<f32>().await?);
    demand!(values == [6.0, 12.0, 12.0, 26.0] && sum == [56.0], "it no longer computes: {values:?}, sum {sum:?}");
    Ok(Ok(()))
}

/// `call` must be refused, and the error name what blocks: for a tensor's reads that of the backend.
fn would_block<T>(call: &str, what: &str, result: Result<T>) -> Answer {
    match result {
        Err(Error::WouldBlock { what: named }) if named == what => Ok(()),
        Err(error) => Err(format!("{call}: wrong error {error:?}")),
        Ok(_) => Err(format!("{call}: was accepted")),
    }
}

async fn blocking_read(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[1.0f32, 2.0, 3.0], [3])?.mul_scalar(2.0)?;
    let answers = [
        would_block("to_vec", "read_blocking", x.to_vec::<f32>()),
        would_block("item", "read_blocking", x.sum(..)?.item::<f32>()),
        would_block("read_blocking", "read_blocking", device.backend().read_blocking(x.buffer(), 0..4)),
    ];
    if let Some(wrong) = answers.into_iter().find(|answer| answer.is_err()) {
        return Ok(wrong);
    }
    let values = x.to_vec_async::<f32>().await?;
    demand!(values == [2.0, 4.0, 6.0], "the tensor then holds {values:?}");
    Ok(Ok(()))
}

async fn waiting(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[3.0f32], [1])?.mul_scalar(3.0)?;
    let timed = device.backend().timed(&mut || Ok(()));
    let synchronized = would_block("synchronize", "synchronize", device.synchronize());
    for answer in [synchronized, would_block("timed", "timed", timed)] {
        if answer.is_err() {
            return Ok(answer);
        }
    }
    let values = x.to_vec_async::<f32>().await?;
    demand!(values == [9.0], "the tensor then holds {values:?}");
    Ok(Ok(()))
}

async fn reads_in_order(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[1.0f32; 5], [5])?;
    let first = device.backend().read(x.buffer(), 0..20);
    x.assign(&x.add_scalar(1.0)?)?;
    let second = device.backend().read(x.buffer(), 0..20);
    x.write(&[7.0f32; 5])?;
    // Awaited in another order than they were called in.
    let (second, first) = (second.await?, first.await?);
    demand!(first == 1.0f32.to_le_bytes().repeat(5), "before the addition: {first:?}");
    demand!(second == 2.0f32.to_le_bytes().repeat(5), "after the addition: {second:?}");
    demand!(x.to_vec_async::<f32>().await? == [7.0; 5], "the last write is lost");
    Ok(Ok(()))
}

async fn bytes_within_words(device: &Device) -> Result<Answer> {
    let backend = device.backend();
    let buffer = backend.alloc(37)?;
    let mut expected: Vec<u8> = (0..37).collect();
    backend.write(&buffer, 0, &expected)?;
    for (start, bytes) in [(1, vec![200, 201]), (6, vec![202; 5]), (13, vec![203]), (35, vec![204, 205])] {
        backend.write(&buffer, start as u64, &bytes)?;
        expected[start..start + bytes.len()].copy_from_slice(&bytes);
    }
    let whole = backend.read(&buffer, 0..37).await?;
    demand!(whole == expected, "{whole:?}");
    let part = backend.read(&buffer, 5..14).await?;
    demand!(part == expected[5..14], "bytes 5..14: {part:?}");
    Ok(Ok(()))
}

async fn replays(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
    let recording = device.record(|| {
        let y = x.matmul(&x)?.tanh()?.softmax(1)?;
        x.assign(&x.add_scalar(1.0)?)?;
        Ok(y)
    })?;
    let mut replayed = Vec::new();
    for _ in 0..3 {
        replayed.push(recording.replay()?.to_vec_async::<f32>().await?);
    }
    for (round, replayed) in replayed.iter().enumerate() {
        let start = [1.0, 2.0, 3.0, 4.0].map(|value: f32| value + round as f32);
        let direct = Tensor::from_slice(device, &start, [2, 2])?;
        let direct = direct.matmul(&direct)?.tanh()?.softmax(1)?.to_vec_async::<f32>().await?;
        demand!(*replayed == direct, "replay {round}: {replayed:?}, called directly {direct:?}");
    }
    Ok(Ok(()))
}

fn bind(binding: u32, tensor: &Tensor) -> Binding {
    let bytes = tensor.elements() * tensor.dtype().size_bytes();
    Binding { group: 0, binding, buffer: tensor.buffer().clone(), range: 0..bytes }
}

async fn users_kernel(device: &Device) -> Result<Answer> {
    let values: Vec<u32> = (0..1000).map(|i| i * 7 % 81).collect();
    let mut expected = vec![0u32; 64];
    values.iter().filter(|&&value| value < 64).for_each(|&value| expected[value as usize] += 1);
    let bins = Tensor::zeros(device, DType::U32, [64])?;
    let values = Tensor::from_slice(device, &values, [1000])?;
    let kernel = Kernel::wgsl(include_str!("../../../examples/shaders/histogram.wgsl")).define("BINS", 64.0);
    device.backend().launch(&kernel, [4, 1, 1], &[bind(0, &values), bind(1, &bins)])?;
    let counted = bins.to_vec_async::<u32>().await?;
    demand!(counted == expected, "{counted:?}");
    Ok(Ok(()))
}

async fn refused_kernel(device: &Device) -> Result<Answer> {
    let kernel = Kernel::wgsl("@compute @workgroup_size(1)\nfn main() {\n    let x = nothing;\n}\n");
    let launched = device.backend().launch(&kernel, [1, 1, 1], &[]);
    demand!(matches!(launched, Err(Error::Shader { line: 3, .. })), "{launched:?}");
    Ok(Ok(()))
}

/// A barrier that only some invocations reach: WGSL forbids it, naga does not look, browsers do. The launch cannot know;
/// the next read does, and the device is not trusted any more. Another device is.
async fn late_refusal(device: &Device) -> Result<Answer> {
    let doomed = Device::new(open(Options::default()).await?);
    let kernel = Kernel::wgsl(
        "@group(0) @binding(0) var<storage, read_write> data: array<u32>;
        @compute @workgroup_size(64)
        fn main(@builtin(local_invocation_index) i: u32) {
            if (data[i] > 0u) { workgroupBarrier(); }
            data[i] = i;
        }",
    );
    let x = Tensor::zeros(&doomed, DType::U32, [64])?;
    let launched = doomed.backend().launch(&kernel, [1, 1, 1], &[bind(0, &x)]);
    let read = match launched {
        Ok(()) => x.to_vec_async::<u32>().await.map(|_| ()),
        Err(error) => Err(error),
    };
    demand!(matches!(read, Err(Error::Backend { .. })), "the read after it gave {read:?}");
    let later = Tensor::from_slice(&doomed, &[1.0f32], [1]).map(|_| ());
    demand!(later.is_err(), "the device is used on");
    still_computes(device).await
}

async fn wide_floats(device: &Device) -> Result<Answer> {
    let refused = Tensor::zeros(device, DType::F64, [4]).and_then(|x| x.exp()).map(|_| ());
    demand!(matches!(refused, Err(Error::UnsupportedDType { dtype: DType::F64, .. })), "{refused:?}");
    Ok(Ok(()))
}

async fn too_large(device: &Device) -> Result<Answer> {
    let limits = device.info().limits;
    let elements = limits.max_buffer_bytes.max(limits.max_binding_bytes) / 4 + 4;
    let refused = Tensor::zeros(device, DType::F32, [elements]).map(|_| ());
    let named = matches!(refused, Err(Error::BufferTooBig { .. } | Error::BindingTooLarge { .. }));
    demand!(named, "{refused:?}");
    Ok(Ok(()))
}

/// Candidates cannot be checked or timed where nothing may wait, so the planner's first runs; on hardware the tuner is on.
async fn tuner_on(device: &Device) -> Result<Answer> {
    let Some(tuner) = device.tuner() else { return Ok(Err("there is no tuner".to_owned())) };
    tuner.set(Mode::Full, tuner.budget());
    let a = Tensor::from_slice(device, &[1.0f32; 130 * 70], [130, 70])?;
    let values = a.matmul(&a.t()?)?.to_vec_async::<f32>().await?;
    demand!(values.len() == 130 * 130 && values.iter().all(|&value| value == 70.0), "wrong product");
    Ok(Ok(()))
}

async fn memory_returns(device: &Device) -> Result<Answer> {
    let before = device.memory().in_use_bytes;
    for _ in 0..50 {
        let x = Tensor::from_slice(device, &[1.0f32; 1 << 16], [1 << 16])?;
        x.sin()?.sum(..)?.to_vec_async::<f32>().await?;
    }
    let memory = device.memory();
    demand!(memory.in_use_bytes == before, "{before} bytes in use before, {} afterwards", memory.in_use_bytes);
    demand!(memory.driver_allocations < 20, "{} buffers made for 50 rounds of the same", memory.driver_allocations);
    device.empty_cache();
    demand!(device.memory().cached_bytes == 0, "the cache is not empty");
    Ok(Ok(()))
}
