//! Positions outside: the next read names the call, the position and the extent, and the device goes on.
//!
//! That the words on the device are right is for the cases of [`Positions`](crate::ops::Positions); here are the calls that look, and the reads.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::words::wait;
use super::{Answer, Test, demand};
use crate::harness::ReferenceBackend;
use crate::ops::{Missing, ScatterFn};
use crate::{CrossEntropyOptions, DType, Device, Error, Result, Tape, Tensor};

pub(super) const ROWS: &[(&str, Test)] = &[
    ("positions outside: every call is named by the next read", every_call),
    ("positions outside: calls that take others say nothing", calls_that_take_others),
    ("positions outside: the first fault is told, once", first_fault),
    ("positions outside: the lowest of many, and of a view", lowest_place),
    ("positions outside: every dtype, at its ends", every_dtype),
    ("positions outside: in a recording, at each replay", replayed),
    ("positions outside: awaited reads, and one given up", awaited),
    ("positions outside: another device says nothing", other_device),
    ("positions outside: threads lose none", threads),
    ("positions outside: calls in a loop take no memory", constant_memory),
    ("positions outside: gradients do not look again", gradients),
];

/// What a read says: call, position, place and extent; `None` where it gives data.
type Fault = Option<(&'static str, i128, u64, u64)>;

fn told<T>(read: Result<T>) -> Result<Fault> {
    match read {
        Ok(_) => Ok(None),
        Err(Error::PositionOutside { op, position, place, extent }) => Ok(Some((op, position, place, extent))),
        Err(error) => Err(error),
    }
}

/// The read's fault, where the next read has data.
fn read(x: &Tensor) -> Result<Fault> {
    let first = told(x.to_bytes())?;
    x.to_bytes()?;
    Ok(first)
}

fn of(device: &Device, numbers: &[i32]) -> Result<Tensor> {
    Tensor::from_slice(device, numbers, [numbers.len() as u64])
}

fn table(device: &Device) -> Result<Tensor> {
    Tensor::from_slice(device, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [3, 2])
}

fn every_call(device: &Device) -> Result<Answer> {
    let x = table(device)?;
    let sums = Tensor::from_slice(device, &[1.0f32, 2.0, 3.0], [3])?;
    type Call<'a> = (&'static str, u64, &'a dyn Fn(&Tensor) -> Result<Tensor>);
    let column = |at: &Tensor| at.unsqueeze(1);
    let fine = of(device, &[1, 0, 1])?;
    let calls: &[Call<'_>] = &[
        ("take", 3, &|at| x.take(at)),
        ("take", 3, &|at| x.take_with(at, None, Some(0))),
        ("gather", 3, &|at| x.gather(&column(at)?, 0)),
        ("index_select", 3, &|at| x.index_select(at, 0)),
        ("index_select", 2, &|at| x.index_select(at, 1)),
        ("scatter", 3, &|at| x.scatter(&column(at)?, &x, 0, ScatterFn::Set)),
        ("scatter_add", 3, &|at| sums.scatter_add(at, 3)),
        ("index_put", 3, &|at| x.index_put(&[at, &fine], &sums, ScatterFn::Set)),
        ("index_put", 2, &|at| x.index_put(&[&fine, at], &sums, ScatterFn::Sum)),
        ("bincount", 3, &|at| at.bincount(3)),
        ("bincount", 3, &|at| column(at)?.bincount_along(3, 0)),
        ("one_hot", 3, &|at| at.one_hot(3, DType::F32)),
        ("cross_entropy", 2, &|at| x.cross_entropy(at)),
    ];
    for &(name, extent, call) in calls {
        for wrong in [extent as i32, -1, i32::MAX, i32::MIN] {
            let found = read(&call(&of(device, &[1, 0, wrong])?)?)?;
            demand!(found == Some((name, wrong.into(), 2, extent)), "{name} at {wrong} of {extent}: {found:?}");
        }
        let found = read(&call(&of(device, &[1, 0, extent as i32 - 1])?)?)?;
        demand!(found.is_none(), "{name} of positions inside: {found:?}");
    }
    // Nothing to look through.
    let none = Tensor::zeros(device, DType::I32, [0])?;
    demand!(read(&x.take(&none)?)?.is_none() && read(&none.bincount(0)?)?.is_none(), "of no positions");
    let found = read(&of(device, &[0])?.bincount(0)?)?;
    demand!(found == Some(("bincount", 0, 0, 0)), "of no bins: {found:?}");
    Ok(Ok(()))
}

fn calls_that_take_others(device: &Device) -> Result<Answer> {
    let x = table(device)?;
    let sums = Tensor::from_slice(device, &[1.0f32, 2.0, 3.0], [3])?;
    let at = of(device, &[-1, 0, 7])?;
    let column = at.unsqueeze(1)?;
    let zeros = Missing::Zero;
    let results = [
        x.take_or(&at, zeros)?,
        x.gather_or(&column, 0, zeros)?,
        x.index_select_or(&at, 0, zeros)?,
        x.index_select_or(&at, 1, zeros)?,
        x.scatter_within(&column, &x, 0, ScatterFn::Set)?,
        sums.scatter_add_within(&at, 3)?,
        x.index_put_within(&[&at, &at], &sums, ScatterFn::Sum)?,
        at.bincount_within(3)?,
        column.bincount_along_within(3, 1)?,
        at.one_hot_within(3, DType::F32)?,
        sums.histogram(2, 1.5, 2.5)?,
    ];
    for (number, result) in results.iter().enumerate() {
        let found = read(result)?;
        demand!(found.is_none(), "call {number}: {found:?}");
    }
    // Targets that are ignored are none to complain of, in the dtype that they come in.
    for dtype in [DType::I32, DType::I64].into_iter().filter(|&dtype| device.supports(dtype)) {
        let targets = of(device, &[0, -100, 1])?.cast(dtype)?;
        let found = read(&x.cross_entropy(&targets)?)?;
        demand!(found.is_none(), "an ignored target of {dtype}: {found:?}");
        let none_ignored = CrossEntropyOptions { ignored: None, ..CrossEntropyOptions::default() };
        let found = read(&x.cross_entropy_with(&targets, &none_ignored)?.each)?;
        demand!(found == Some(("cross_entropy", -100, 1, 2)), "the same of {dtype} where none is: {found:?}");
    }
    Ok(Ok(()))
}

fn first_fault(device: &Device) -> Result<Answer> {
    let x = table(device)?;
    let first = x.take(&of(device, &[0, 1, 9])?)?;
    let second = x.gather(&of(device, &[5, 6])?.unsqueeze(1)?.broadcast_to([2, 2])?, 0)?;
    let unconcerned = x.copy()?;
    // The read need not be of the call's own result.
    let found = read(&unconcerned)?;
    demand!(found == Some(("take", 9, 2, 3)), "the first of two faults: {found:?}");
    let found = [read(&first)?, read(&second)?];
    demand!(found == [None; 2], "a fault told again: {found:?}");
    let (data, sum) = (first.to_vec::<f32>()?, x.sum(..)?.item::<f32>()?);
    demand!(data[..4] == [1.0, 2.0, 3.0, 4.0] && data[4..].iter().all(|x| x.is_nan()), "the elements: {data:?}");
    demand!(sum == 21.0, "the device afterwards: {sum}");
    x.take(&of(device, &[4])?)?;
    let found = [told(device.check_positions())?, told(device.check_positions())?];
    demand!(found == [Some(("take", 4, 0, 3)), None], "without a read: {found:?}");
    Ok(Ok(()))
}

fn lowest_place(device: &Device) -> Result<Answer> {
    const MANY: u64 = 300_001;
    let x = Tensor::zeros(device, DType::U8, [10, 1])?;
    for (wrong, lowest) in [(&[MANY - 1][..], MANY - 1), (&[299_000, 70_001, 150_000], 70_001), (&[4096, 4097], 4096)] {
        let mut numbers = vec![3i32; MANY as usize];
        wrong.iter().for_each(|&at| numbers[at as usize] = 10 + (at % 7) as i32);
        let found = read(&x.take(&of(device, &numbers)?)?)?;
        let want = Some(("take", 10 + i128::from(lowest % 7), lowest, 10));
        demand!(found == want, "of {MANY} positions, wrong ones at {wrong:?}: {found:?}");
    }
    // Places count as the view has them, not as they lie in memory.
    let lying = Tensor::from_slice(device, &[0i32, 11, 0, 0, 12, 0], [3, 2])?;
    let found = read(&x.take(&lying.t()?)?)?;
    demand!(found == Some(("take", 12, 2, 10)), "of a transposed matrix: {found:?}");
    let found = read(&x.take(&lying.t()?.slice(1, 0..2)?)?)?;
    demand!(found == Some(("take", 11, 2, 10)), "of a part of it: {found:?}");
    let column = lying.slice(1, 1..2)?;
    let found = read(&x.gather(&column, 0)?)?;
    demand!(found == Some(("gather", 11, 0, 10)), "of a column: {found:?}");
    Ok(Ok(()))
}

fn every_dtype(device: &Device) -> Result<Answer> {
    let x = Tensor::zeros(device, DType::U8, [200])?;
    let check = |name: &str, at: Result<Tensor>, want: i128| -> Result<Answer> {
        let found = read(&x.take(&at?)?)?;
        demand!(found == Some(("take", want, 1, 200)), "{name}: {found:?}, not {want}");
        Ok(Ok(()))
    };
    let [one, two] = [[1u64], [2]];
    let mut answers = vec![
        check("i8", Tensor::from_slice(device, &[1i8, -128], two), -128)?,
        check("u8", Tensor::from_slice(device, &[1u8, 255], two), 255)?,
        check("i16", Tensor::from_slice(device, &[1i16, 200], two), 200)?,
        check("u16", Tensor::from_slice(device, &[1u16, 65_535], two), 65_535)?,
        check("u32", Tensor::from_slice(device, &[1u32, u32::MAX], two), u32::MAX.into())?,
    ];
    if device.supports(DType::I64) {
        // The low word alone would be inside, and what 32 bits hold of them is reported in full.
        for wrong in [1 << 32, (1 << 32) + 7, -1, i64::MIN, i64::MAX, 200] {
            answers.push(check("i64", Tensor::from_slice(device, &[1i64, wrong], two), wrong.into())?);
        }
    }
    if device.supports(DType::U64) {
        for wrong in [1 << 40, u64::MAX] {
            answers.push(check("u64", Tensor::from_slice(device, &[1u64, wrong], two), wrong.into())?);
        }
    }
    let inside = read(&x.take(&Tensor::from_slice(device, &[199u8], one)?)?)?;
    demand!(inside.is_none(), "the last one: {inside:?}");
    Ok(answers.into_iter().collect())
}

fn replayed(device: &Device) -> Result<Answer> {
    let x = table(device)?;
    let at = of(device, &[0, 8, 1])?;
    let step = match device.record(|| x.take(&at)?.sum(0)) {
        // One that cannot record at all fails the table of recordings.
        Err(Error::Unsupported { .. }) => return Ok(Ok(())),
        step => step?,
    };
    let nothing_ran = read(&x)?;
    demand!(nothing_ran.is_none(), "before the first replay: {nothing_ran:?}");
    for (numbers, want) in
        [([0, 8, 1], Some(("take", 8, 1, 3))), ([0, 2, 1], None), ([-4, 9, 1], Some(("take", -4, 0, 3)))]
    {
        at.write(&numbers)?;
        let found = read(step.replay()?)?;
        demand!(found == want, "replayed with {numbers:?}: {found:?}");
    }
    // The first of several replays, whatever comes after it.
    for numbers in [[0, 1, 5], [7, 1, 0], [0, 1, 2]] {
        at.write(&numbers)?;
        step.replay()?;
    }
    let found = [read(&x)?, read(step.outputs())?];
    demand!(found == [Some(("take", 5, 2, 3)), None], "after three replays: {found:?}");
    // A read that is refused loses nothing.
    x.take(&of(device, &[3])?)?;
    let refused = device.record(|| x.to_vec::<f32>());
    demand!(matches!(refused, Err(Error::Recording { .. })), "a read in a recording");
    let found = read(&x)?;
    demand!(found == Some(("take", 3, 0, 3)), "after a read that was refused: {found:?}");
    Ok(Ok(()))
}

fn awaited(device: &Device) -> Result<Answer> {
    let x = table(device)?;
    let y = x.take(&of(device, &[1, 3])?)?;
    let found = told(wait(y.to_vec_async::<f32>()))?;
    demand!(found == Some(("take", 3, 1, 3)), "awaited: {found:?}");
    demand!(wait(y.to_vec_async::<f32>())?[..2] == [3.0, 4.0], "awaited again");
    x.take(&of(device, &[6])?)?;
    let found = {
        let mut given_up = pin!(y.to_vec_async::<f32>());
        match given_up.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            Poll::Ready(read) => told(read)?,
            Poll::Pending => None,
        }
    };
    let later = read(&y)?;
    demand!(found.or(later) == Some(("take", 6, 0, 3)), "given up: {found:?}, then {later:?}");
    demand!(found.is_none() || later.is_none(), "told twice");
    Ok(Ok(()))
}

fn other_device(device: &Device) -> Result<Answer> {
    let other = Device::new(ReferenceBackend::new("other"));
    let [here, there] = [device, &other].map(|device| Ok((table(device)?, of(device, &[7])?)));
    let ((here, at), (there, _)) = (here?, there?);
    here.take(&at)?;
    let found = [read(&there)?, read(&here)?];
    demand!(found == [None, Some(("take", 7, 0, 3))], "a fault of one device: {found:?}");
    there.take(&of(&other, &[5])?)?;
    let found = [read(&here)?, read(&there)?];
    demand!(found == [None, Some(("take", 5, 0, 3))], "a fault of the other: {found:?}");
    Ok(Ok(()))
}

/// Faults of many threads, one read of each after its own: every thread's fault is told to one of them, or an earlier one was there.
fn threads(device: &Device) -> Result<Answer> {
    const THREADS: i32 = 4;
    const ROUNDS: i32 = 8;
    let x = table(device)?;
    let run = |number: i32| -> Result<Vec<i128>> {
        let mut told_here = Vec::new();
        for round in 0..ROUNDS {
            let wrong = 100 * (number + 1) + round;
            let y = x.take(&of(device, &[wrong])?)?;
            let mut found = told(y.to_bytes())?;
            while let Some((_, position, ..)) = found {
                told_here.push(position);
                found = told(y.to_bytes())?;
            }
        }
        Ok(told_here)
    };
    let all = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS).map(|number| scope.spawn(move || run(number))).collect();
        threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| Ok(Vec::new()))).collect::<Result<Vec<_>>>()
    })?;
    let all: Vec<i128> = all.concat();
    let mut once = all.clone();
    once.sort_unstable();
    once.dedup();
    let is_known = |p: &i128| (1..=i128::from(THREADS)).contains(&(p / 100)) && p % 100 < i128::from(ROUNDS);
    demand!(all.len() == once.len() && all.iter().all(is_known) && !all.is_empty(), "told: {all:?}");
    let rest = read(&x)?;
    demand!(rest.is_none(), "left: {rest:?}");
    Ok(Ok(()))
}

fn constant_memory(device: &Device) -> Result<Answer> {
    let x = table(device)?;
    let [right, wrong] = [of(device, &[0, 1])?, of(device, &[0, 3])?];
    let round = || -> Result<u64> {
        for at in [&right, &wrong, &right] {
            // Without a fault or with one.
            let _ = told(x.take(at)?.to_bytes())?;
        }
        Ok(device.memory().in_use_bytes)
    };
    let first = round()?;
    for number in 1..20 {
        let now = round()?;
        demand!(now == first, "{first} bytes in use at first, {now} after {number} rounds");
    }
    Ok(Ok(()))
}

fn gradients(device: &Device) -> Result<Answer> {
    let x = table(device)?;
    let tape = Tape::new();
    let watched = tape.watch(&x)?;
    let y = watched.take(&of(device, &[0, 3, 0])?)?;
    let found = read(&y)?;
    demand!(found == Some(("take", 3, 1, 3)), "forward: {found:?}");
    let gradients = tape.backward(&y.sum(..)?)?;
    let gradient = gradients.of(&watched).map(Tensor::to_vec::<f32>).transpose()?;
    demand!(gradient == Some(vec![2.0, 2.0, 0.0, 0.0, 0.0, 0.0]), "gradient: {gradient:?}");
    Ok(Ok(()))
}
