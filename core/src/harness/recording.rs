//! Recording and replaying, on any device: the same numbers as direct calls, the same memory afterwards.
//!
//! [`run`] works like [`super::bad_input::run`]: a table of tests, each on fresh tensors. Users' kernels are in it too; a
//! device without them must say so. A device that cannot record at all fails every row.

use std::panic::{AssertUnwindSafe, catch_unwind};

use super::bad_input::Row;
use super::rows::{self, Answer, Test};
use crate::ops::Map;
use crate::{
    Binding, DType, Device, Distribution, Error, Expr, Generator, Kernel, MatmulOptions, Program, Recording, Result,
    Tape, Tensor, UnaryFn,
};

/// Runs every row on `device`.
pub fn run(device: &Device) -> Vec<Row> {
    rows::run(device, ROWS.iter().copied())
}

const ROWS: &[(&str, Test)] = &[
    ("replay of a chain equals direct calls, bit for bit", chain_equals_direct),
    ("inputs written and assigned between replays", inputs_change),
    ("inputs written between replays that nobody waits for", writes_keep_their_turn),
    ("updates in place, by counters on the device", updates),
    ("a step of training, with the bits and the memory of eager ones", training),
    ("new random numbers at each replay, forward and back", random_numbers),
    ("launches on the same buffers with their own parameters", own_parameters),
    ("a hundred replays of a state update", state_update),
    ("hundreds of launches in one recording", long_chain),
    ("nothing runs before the first replay", nothing_runs),
    ("intermediate memory is not lent to others", intermediates_kept),
    ("input dropped by the closure stays as it was", dropped_input_kept),
    ("memory of one recording is not lent to the next", memory_of_another),
    ("outputs outlive their recording", outputs_outlive),
    ("memory is free after the recording is dropped", memory_freed),
    ("two recordings replayed in turns", two_recordings),
    ("recording inside a recording", nested),
    ("what cannot be recorded is refused and harms nothing", refused),
    ("error inside the closure", error_inside),
    ("panic inside the closure", panic_inside),
    ("end without a beginning", end_without_begin),
    ("recording of another device", foreign),
    ("empty recording and empty tensors", empty),
    ("other threads work on while one records", other_threads),
    ("replay from other threads", replayed_elsewhere),
    ("user's kernel", user_kernel),
];

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, got: &[T], want: &[T]) -> Answer {
    if got == want {
        return Ok(());
    }
    let at = got.iter().zip(want).position(|(g, w)| g != w);
    Err(format!("{what}: {} values, wanted {}, first difference at {at:?}", got.len(), want.len()))
}

macro_rules! demand {
    ($answer:expr) => {
        if let Err(wrong) = $answer {
            return Ok(Err(wrong));
        }
    };
}

fn is_refused<T>(what: &str, result: &Result<T>) -> Answer {
    match result {
        Err(Error::Recording { .. }) => Ok(()),
        Err(error) => Err(format!("{what}: wrong error {error:?}")),
        Ok(_) => Err(format!("{what}: was accepted")),
    }
}

fn random(device: &Device, shape: [u64; 2], seed: u64) -> Result<Tensor> {
    Tensor::random(device, DType::F32, shape, Distribution::Uniform { low: -1.0, high: 1.0 }, seed, 0)
}

/// Product with bias and activation, softmax, transposed copy, a reduction long enough for scratch, an expression, random
/// numbers, a second dtype.
fn chain(a: &Tensor, b: &Tensor, bias: &Tensor) -> Result<Vec<Tensor>> {
    let options = MatmulOptions { bias: Some(bias), activation: Some(UnaryFn::Relu), ..MatmulOptions::default() };
    let product = a.matmul_with(b, &options)?;
    let rows = product.softmax(1)?;
    let long = random(a.device(), [300, 257], 7)?.add(&rows.t()?.copy()?.sum(..)?)?;
    let total = long.sum(..)?;
    let expr = (Expr::input(0) * 0.5 + Expr::input(1)) / (Expr::input(2).exp() + 1.0);
    let mixed = Tensor::map(&expr, &[&rows, bias, &total])?;
    let places = mixed.argmax(1)?;
    Ok(vec![mixed, total, long.max(0)?, places])
}

fn bytes(tensors: &[Tensor]) -> Result<Vec<Vec<u8>>> {
    tensors.iter().map(Tensor::to_bytes).collect()
}

fn chain_inputs(device: &Device) -> Result<[Tensor; 3]> {
    Ok([random(device, [37, 65], 1)?, random(device, [65, 41], 2)?, random(device, [1, 41], 3)?.squeeze(0)?])
}

fn chain_equals_direct(device: &Device) -> Result<Answer> {
    let [a, b, bias] = chain_inputs(device)?;
    let direct = bytes(&chain(&a, &b, &bias)?)?;
    let recording = device.record(|| chain(&a, &b, &bias))?;
    if recording.launches() < 7 {
        return Ok(Err(format!("only {} launches", recording.launches())));
    }
    for _ in 0..3 {
        demand!(equal("replay", &bytes(recording.replay()?)?, &direct));
    }
    Ok(Ok(()))
}

fn inputs_change(device: &Device) -> Result<Answer> {
    let [a, b, bias] = chain_inputs(device)?;
    let recording = device.record(|| chain(&a, &b, &bias))?;
    recording.replay()?;
    for seed in 20..24 {
        let other = random(device, [37, 65], seed)?;
        if seed % 2 == 0 {
            a.assign(&other)?;
        } else {
            a.write(&other.to_vec::<f32>()?)?;
        }
        // A strided view of an input, and an element in the middle of a word.
        b.t()?.write(&random(device, [41, 65], seed + 100)?.to_vec::<f32>()?)?;
        let replayed = bytes(recording.replay()?)?;
        demand!(equal("after a change", &replayed, &bytes(&chain(&a, &b, &bias)?)?));
    }
    Ok(Ok(()))
}

fn writes_keep_their_turn(device: &Device) -> Result<Answer> {
    let (x, sum) = (Tensor::zeros(device, DType::U32, [5])?, Tensor::zeros(device, DType::U32, [5])?);
    let recording = device.record(|| sum.assign(&sum.add(&x)?))?;
    for value in [1u32, 10, 100] {
        x.write(&[value; 5])?;
        recording.replay()?;
    }
    x.write(&[7u32; 5])?;
    Ok(equal("sum", &sum.to_vec::<u32>()?, &[111; 5]))
}

fn training(device: &Device) -> Result<Answer> {
    // y = tanh(x w), a loss, its gradient, and w less a part of it, in place.
    let step = |w: &Tensor, x: &Tensor| -> Result<()> {
        let tape = Tape::new();
        let watched = tape.watch(w)?;
        let y = x.matmul(&watched)?.tanh()?;
        let gradients = tape.backward(&y.mul(&y)?.mean(..)?)?;
        let [gradient, value] = [0, 1].map(Expr::input);
        match gradients.of(&watched) {
            Some(found) => Tensor::update(&[value - gradient * 0.5], &[found], &[w]).map(drop),
            None => Err(Error::InvalidArgument { what: "gradient", reason: "the loss depends on w".to_owned() }),
        }
    };
    let x = Tensor::arange(device, DType::F32, -1.0, 0.125, 20)?.reshape([5, 4])?;
    let weights = || Tensor::arange(device, DType::F32, -0.75, 0.125, 12)?.reshape([4, 3])?.copy();
    let (eager, replayed) = (weights()?, weights()?);
    let recording = device.record(|| step(&replayed, &x))?;
    let mut held = Vec::new();
    for _ in 0..20 {
        step(&eager, &x)?;
        recording.replay()?;
        device.synchronize()?;
        held.push(device.memory().in_use_bytes);
    }
    let bits =
        |tensor: &Tensor| Ok::<_, Error>(tensor.to_vec::<f32>()?.iter().map(|x| x.to_bits()).collect::<Vec<u32>>());
    let before = bits(&weights()?)?;
    let (eager, replayed) = (bits(&eager)?, bits(&replayed)?);
    if eager == before {
        return Ok(Err("the step changes nothing".to_owned()));
    }
    if held.iter().any(|bytes| *bytes != held[0]) {
        return Ok(Err(format!("bytes in use differ from step to step: {held:?}")));
    }
    Ok(equal("weights", &replayed, &eager))
}

fn random_numbers(device: &Device) -> Result<Answer> {
    // Of ones, dropout is its own gradient: the backward pass must drop what the forward pass dropped.
    const COUNT: u64 = 4099;
    let x = Tensor::full(device, DType::F32, [COUNT], 1.0)?;
    let step = |generator: &Generator| -> Result<[Tensor; 3]> {
        let tape = Tape::new();
        let watched = tape.watch(&x)?;
        let once = watched.dropout(0.25, generator)?;
        let twice = once.dropout(0.5, generator)?;
        let gradients = tape.backward(&twice.sum(..)?)?;
        match gradients.of(&watched) {
            Some(found) => Ok([once, twice, found.clone()]),
            None => Err(Error::InvalidArgument { what: "gradient", reason: "the loss depends on x".to_owned() }),
        }
    };
    let (eager, replayed) = (Generator::new(device, 77)?, Generator::new(device, 77)?);
    // Beside the end of the stream's low word, so that it carries.
    for generator in [&eager, &replayed] {
        generator.set_state([77, 0, u32::MAX - 2, 5])?;
    }
    let recording = device.record(|| step(&replayed))?;
    let mut seen: Vec<Vec<Vec<u8>>> = Vec::new();
    for _ in 0..3 {
        let want = bytes(&step(&eager)?)?;
        let made = recording.replay()?;
        demand!(equal("a step's tensors", &bytes(made)?, &want));
        let [once, twice, gradient] = made;
        let (once, twice) = (once.to_vec::<f32>()?, twice.to_vec::<f32>()?);
        demand!(equal("gradient", &gradient.to_vec::<f32>()?, &twice));
        let wrong = |values: &[f32], scale: f32| values.iter().find(|&&y| y != 0.0 && y != scale).copied();
        if let Some(y) = wrong(&once, 1.0 / 0.75).or(wrong(&twice, 2.0 / 0.75)) {
            return Ok(Err(format!("a kept element is {y}")));
        }
        // Six standard deviations of a binomial number.
        let kept = once.iter().filter(|&&y| y != 0.0).count() as f64;
        let (mean, deviation) = (0.75 * COUNT as f64, (0.75 * 0.25 * COUNT as f64).sqrt());
        if (kept - mean).abs() > 6.0 * deviation {
            return Ok(Err(format!("{kept} elements of {COUNT} are kept")));
        }
        if seen.contains(&want) {
            return Ok(Err("two steps drop the same elements".to_owned()));
        }
        seen.push(want);
    }
    let (state, other) = (replayed.state()?, eager.state()?);
    Ok(equal("states", &[state, other], &[[77, 0, 3, 6]; 2]))
}

fn updates(device: &Device) -> Result<Answer> {
    // What changes from step to step lives on the device: each replay goes on where the last one ended.
    let count = Tensor::zeros(device, DType::U32, [1])?;
    let x = Tensor::from_slice(device, &[1u32, 2, 3], [3])?;
    let recording = device.record(|| {
        count.add_scalar_(1)?;
        x.add_(&count)
    })?;
    let nothing_yet = x.to_vec::<u32>()?;
    (0..3).try_for_each(|_| recording.replay().map(drop))?;
    let all = [nothing_yet, x.to_vec::<u32>()?, count.to_vec::<u32>()?].concat();
    Ok(equal("steps", &all, &[1, 2, 3, 7, 8, 9, 3]))
}

fn own_parameters(device: &Device) -> Result<Answer> {
    let (x, y) = (Tensor::arange(device, DType::U32, 0, 1, 5)?, Tensor::zeros(device, DType::U32, [5])?);
    let add = |value: i64| -> Result<()> {
        let program = Program::compile(&(Expr::input(0) + value), &[DType::U32])?;
        let op = Map::new("add", program, vec![x.spec()], y.spec())?.into();
        device.execute(&op, &[x.buffer()], &[y.buffer()])
    };
    let recording = device.record(|| [5, 6, 700].into_iter().try_for_each(add))?;
    recording.replay()?;
    Ok(equal("the last of three", &y.to_vec::<u32>()?, &[700, 701, 702, 703, 704]))
}

fn state_update(device: &Device) -> Result<Answer> {
    let start = [1.0f32, -2.0, 3.5, 100.0, 0.0];
    let (direct, recorded) = (Tensor::from_slice(device, &start, [5])?, Tensor::from_slice(device, &start, [5])?);
    let step = |w: &Tensor| w.assign(&w.mul_scalar(0.875)?.add_scalar(0.25)?);
    let recording = device.record(|| step(&recorded))?;
    for _ in 0..100 {
        step(&direct)?;
        recording.replay()?;
    }
    Ok(equal("after 100 steps", &recorded.to_vec::<f32>()?, &direct.to_vec::<f32>()?))
}

fn long_chain(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[0u32, 10, 20], [3])?;
    let recording = device.record(|| (0..700).try_fold(x.clone(), |sum, _| sum.add_scalar(1)))?;
    for round in 0..3u32 {
        x.write(&[round, 10, 20])?;
        demand!(equal("700 additions", &recording.replay()?.to_vec::<u32>()?, &[700 + round, 710, 720]));
    }
    Ok(Ok(()))
}

fn nothing_runs(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[1.0f32, 2.0], [2])?;
    let recording = device.record(|| x.assign(&x.add_scalar(1.0)?))?;
    demand!(equal("before", &x.to_vec::<f32>()?, &[1.0, 2.0]));
    recording.replay()?;
    Ok(equal("after one replay", &x.to_vec::<f32>()?, &[2.0, 3.0]))
}

fn intermediates_kept(device: &Device) -> Result<Answer> {
    let [a, b, bias] = chain_inputs(device)?;
    let direct = bytes(&chain(&a, &b, &bias)?)?;
    let recording = device.record(|| chain(&a, &b, &bias))?;
    // Every size the chain uses, many times: were its memory lent, replays would overwrite these.
    let shapes: [[u64; 2]; 7] = [[37, 41], [41, 37], [300, 257], [1, 1], [1, 257], [37, 1], [1, 41]];
    let fill = |n: u64| Tensor::full(device, DType::F32, shapes[n as usize % 7], n as f64);
    let others: Vec<Tensor> = (0..70).map(fill).collect::<Result<_>>()?;
    demand!(equal("replay", &bytes(recording.replay()?)?, &direct));
    for (n, other) in (0..).zip(&others) {
        demand!(equal("another tensor", &other.to_vec::<f32>()?, &vec![n as f32; other.elements() as usize]));
    }
    Ok(Ok(()))
}

fn dropped_input_kept(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[1.0f32; 100], [100])?;
    let recording = device.record(move || {
        let y = x.add_scalar(1.0)?;
        drop(x);
        let z = y.mul_scalar(2.0)?; // may not use the memory of x
        drop(y);
        (0..5).try_fold(z, |z, _| z.add_scalar(1.0))
    })?;
    for _ in 0..3 {
        demand!(equal("replay", &recording.replay()?.to_vec::<f32>()?, &[9.0; 100]));
    }
    Ok(Ok(()))
}

fn memory_of_another(device: &Device) -> Result<Answer> {
    let x = Tensor::full(device, DType::F32, [1000], 2.0)?;
    let mut made = None;
    let first = device.record(|| {
        made = Some(x.add_scalar(1.0)?);
        Ok(())
    })?;
    let second = device.record(|| {
        drop(made.take()); // allocated by the first recording, which still writes to it
        x.mul_scalar(3.0)
    })?;
    second.replay()?;
    first.replay()?;
    Ok(equal("output of the second", &second.outputs().to_vec::<f32>()?, &[6.0; 1000]))
}

fn outputs_outlive(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[2.0f32; 100], [100])?;
    let recording = device.record(|| x.exp()?.mul(&x))?;
    let kept = recording.replay()?.clone();
    let want = x.exp()?.mul(&x)?.to_vec::<f32>()?;
    drop(recording);
    let others: Vec<Tensor> = (0..8).map(|n| Tensor::full(device, DType::F32, [100], n)).collect::<Result<_>>()?;
    demand!(equal("output", &kept.to_vec::<f32>()?, &want));
    drop(others);
    Ok(Ok(()))
}

fn memory_freed(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[2.0f32; 1000], [1000])?;
    let before = device.memory().in_use_bytes;
    let recording = device.record(|| x.exp()?.mul(&x)?.softmax(0)?.sum(..))?;
    recording.replay()?;
    if device.memory().in_use_bytes <= before {
        return Ok(Err("the recording's memory does not count as in use".to_owned()));
    }
    drop(recording);
    let after = device.memory().in_use_bytes;
    Ok(if after == before { Ok(()) } else { Err(format!("{before} bytes in use before, {after} afterwards")) })
}

fn two_recordings(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[1u32, 2, 3], [3])?;
    let double = device.record(|| x.assign(&x.add(&x)?))?;
    let increment = device.record(|| x.assign(&x.add_scalar(1)?))?;
    let mut want = [1u32, 2, 3];
    for _ in 0..10 {
        double.replay()?;
        increment.replay()?;
        want = want.map(|w| 2 * w + 1);
    }
    Ok(equal("in turns", &x.to_vec::<u32>()?, &want))
}

fn nested(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[1.0f32], [1])?;
    let earlier = device.record(|| x.add_scalar(5.0))?;
    let recording = device.record(|| {
        let inner = is_refused("nested recording", &device.record(|| x.exp()));
        let replay = is_refused("replay while recording", &earlier.replay().map(|_| ()));
        Ok((x.add_scalar(1.0)?, inner.and(replay)))
    })?;
    let (sum, answer) = recording.replay()?;
    demand!(answer.clone());
    Ok(equal("outer recording", &sum.to_vec::<f32>()?, &[2.0]))
}

fn refused(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[1.0f32, 2.0], [2])?;
    let recording = device.record(|| {
        let y = x.add_scalar(1.0)?;
        let answers = [
            is_refused("from_slice", &Tensor::from_slice(device, &[1.0f32], [1])),
            is_refused("write", &x.write(&[0.0f32, 0.0])),
            is_refused("to_vec of an input", &x.to_vec::<f32>()),
            is_refused("to_vec of an output", &y.to_vec::<f32>()),
            is_refused("asynchronous read", &pollster::block_on(x.to_vec_async::<f32>())),
            is_refused("synchronize", &device.synchronize()),
            is_refused("timed", &device.backend().timed(&mut || x.exp().map(|_| ()))),
        ];
        // Allowed, and not recorded.
        device.backend().flush()?;
        device.empty_cache();
        Ok((y.mul_scalar(3.0)?, answers.into_iter().collect::<Answer>()))
    })?;
    let (y, answer) = recording.replay()?;
    demand!(answer.clone());
    demand!(equal("input", &x.to_vec::<f32>()?, &[1.0, 2.0]));
    Ok(equal("recording around refused calls", &y.to_vec::<f32>()?, &[6.0, 9.0]))
}

fn error_inside(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[1.0f32, 2.0], [2])?;
    let before = device.memory().in_use_bytes;
    let failed: Result<Recording<Tensor>> = device.record(|| {
        x.assign(&x.add_scalar(1.0)?)?;
        x.reshape([3])
    });
    if !matches!(failed, Err(Error::ReshapeSize { .. })) {
        return Ok(Err(format!("wrong answer {failed:?}")));
    }
    let after = device.memory().in_use_bytes;
    if after != before {
        return Ok(Err(format!("{before} bytes in use before, {after} afterwards")));
    }
    demand!(equal("nothing was run", &x.to_vec::<f32>()?, &[1.0, 2.0]));
    let again = device.record(|| x.add_scalar(1.0))?;
    Ok(equal("next recording", &again.replay()?.to_vec::<f32>()?, &[2.0, 3.0]))
}

fn panic_inside(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[1.0f32, 2.0], [2])?;
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        device.record(|| -> Result<Tensor> {
            let _y = x.add_scalar(1.0)?;
            std::panic::resume_unwind(Box::new("on purpose"))
        })
    }));
    if panicked.is_ok() {
        return Ok(Err("a panic was swallowed".to_owned()));
    }
    // Recording is over: reading works again.
    Ok(equal("after a panic", &x.to_vec::<f32>()?, &[1.0, 2.0]))
}

fn end_without_begin(device: &Device) -> Result<Answer> {
    Ok(is_refused("end_recording", &device.backend().end_recording()))
}

fn foreign(device: &Device) -> Result<Answer> {
    let other = crate::Recorded::new(1, 7u32);
    Ok(match device.backend().replay(&other) {
        Err(Error::DeviceMismatch { op: "replay", .. }) => Ok(()),
        answer => Err(format!("wrong answer {answer:?}")),
    })
}

fn empty(device: &Device) -> Result<Answer> {
    let nothing = device.record(|| Ok(()))?;
    nothing.replay()?;
    let x = Tensor::zeros(device, DType::F32, [0, 3])?;
    let recording = device.record(|| Ok((x.exp()?, x.sum(0)?)))?;
    let (none, zeros) = recording.replay()?;
    demand!(equal("empty", &none.to_vec::<f32>()?, &[]));
    Ok(equal("sum over nothing", &zeros.to_vec::<f32>()?, &[0.0; 3]))
}

fn other_threads(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[1.0f32, 2.0], [2])?;
    let counter = Tensor::zeros(device, DType::U32, [1])?;
    let recording = device.record(|| {
        let y = x.add_scalar(1.0)?;
        let elsewhere = std::thread::scope(|scope| {
            let work = || {
                counter.assign(&counter.add_scalar(1)?)?;
                let mine = Tensor::from_slice(device, &[5.0f32], [1])?.exp()?;
                device.synchronize()?;
                mine.log()?.to_vec::<f32>()
            };
            scope.spawn(work).join()
        });
        let elsewhere =
            elsewhere.map_err(|_| Error::InvalidArgument { what: "thread", reason: "panicked".into() })??;
        Ok((y.mul_scalar(2.0)?, elsewhere))
    })?;
    if recording.launches() != 2 {
        return Ok(Err(format!("{} launches, 2 were recorded", recording.launches())));
    }
    let (y, elsewhere) = recording.replay()?;
    demand!(equal("replay", &y.to_vec::<f32>()?, &[4.0, 6.0]));
    recording.replay()?;
    demand!(equal("another thread's own work, run once", &counter.to_vec::<u32>()?, &[1]));
    let close = elsewhere.first().is_some_and(|v| (v - 5.0).abs() < 1e-4);
    Ok(if close { Ok(()) } else { Err(format!("another thread's result: {elsewhere:?}")) })
}

fn replayed_elsewhere(device: &Device) -> Result<Answer> {
    let counter = Tensor::zeros(device, DType::U32, [3])?;
    // Several launches: replays that came between each other would lose counts.
    let recording = device.record(|| {
        let next = counter.add_scalar(3)?.add_scalar(5)?;
        counter.assign(&next.binary_scalar(crate::BinaryFn::Sub, 7)?)
    })?;
    let results: Vec<Result<()>> = std::thread::scope(|scope| {
        let work = || (0..25).try_for_each(|_| recording.replay().map(|_| ()));
        let threads: Vec<_> = (0..4).map(|_| scope.spawn(work)).collect();
        let lost = || Err(Error::InvalidArgument { what: "thread", reason: "panicked".to_owned() });
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| lost())).collect()
    });
    results.into_iter().collect::<Result<Vec<()>>>()?;
    Ok(equal("100 replays by 4 threads", &counter.to_vec::<u32>()?, &[100; 3]))
}

fn user_kernel(device: &Device) -> Result<Answer> {
    let kernel = Kernel::wgsl(
        "override BY: u32 = 1u;
        @group(0) @binding(0) var<storage, read> x: array<u32>;
        @group(1) @binding(2) var<storage, read_write> y: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x < 100u { y[id.x] = x[id.x] * 2u + BY; }
        }",
    )
    .define("BY", 3.0);
    let x = Tensor::arange(device, DType::U32, 0, 1, 100)?;
    let y = Tensor::zeros(device, DType::U32, [100])?;
    let bind = |group, binding, t: &Tensor| Binding { group, binding, buffer: t.buffer().clone(), range: 0..400 };
    let launch = || {
        let input = x.add_scalar(1)?;
        device.backend().launch(&kernel, [2, 1, 1], &[bind(0, 0, &input), bind(1, 2, &y)])?;
        y.add_scalar(1)
    };
    let recording = match device.record(launch) {
        Err(error) if error.is_unsupported() => return Ok(Ok(())),
        recording => recording?,
    };
    demand!(equal("not yet run", &y.to_vec::<u32>()?, &[0; 100]));
    for start in [0u32, 1000] {
        x.assign(&Tensor::arange(device, DType::U32, start, 1, 100)?)?;
        let want: Vec<u32> = (start..start + 100).map(|i| 2 * (i + 1) + 3 + 1).collect();
        demand!(equal("replay", &recording.replay()?.to_vec::<u32>()?, &want));
    }
    // A refused launch is not recorded.
    let refused = device.record(|| {
        let unbound = device.backend().launch(&kernel, [2, 1, 1], &[bind(0, 0, &x)]);
        Ok(matches!(unbound, Err(Error::Binding { .. })))
    })?;
    Ok(if *refused.outputs() && refused.launches() == 0 { Ok(()) } else { Err("a bad launch was recorded".to_owned()) })
}
