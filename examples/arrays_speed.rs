//! The speed of sorting, scanning, indexing and random numbers on one device, compared with the device's own copy rate.
//! Each result is checked on the host before it is timed.
//!
//! Run: `cargo run --release --example arrays_speed -- full`; without `full` the sizes are small, for a quick check of
//! the results. With `long COUNT` one axis has COUNT elements (such as 2147483659, on a card with tens of GiB): nothing
//! is timed, and results are compared with their formulas. The device is the best one, or the one that
//! `POLYWARP_DEVICE` names.

use polywarp::ops::{Missing, PadMode, ScatterFn, SearchSide, SortOrder};
use polywarp::{BinaryFn, CompareFn, DType, Device, Distribution, Error, Norm, Result, Tensor};

/// Nanoseconds of warm-up work before anything is timed.
const WARM_NS: f64 = 3e8;
/// Number of timed batches; their median counts.
const BATCHES: usize = 5;

fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let is_full = words.first().is_some_and(|word| word == "full");
    let device = polywarp::best()?;
    println!("{}: {}", device.id(), device.info().name);
    if let [word, count] = &words[..]
        && word == "long"
    {
        return long_axis(&device, count.parse().expect("long COUNT: a whole number"));
    }
    // log2 of the elements to sort, of those to scan and of those in a row for the best 64; the number of such rows;
    // log2 of the rows to look up.
    let [sorted, scanned, long, rows, looked_up] = if is_full { [26, 28, 20, 64, 18] } else { [12, 13, 10, 3, 8] };
    let copy = copy_rate(&device, 1 << scanned)?;
    println!("copy: {copy:.1} GB/s, both ways counted");
    sort(&device, 1 << sorted)?;
    cumsum(&device, 1 << scanned, copy)?;
    topk(&device, rows, 1 << long)?;
    by_row(&device, 1 << looked_up, copy)?;
    histogram(&device, 1 << scanned, copy)?;
    normal(&device, 1 << scanned, copy)
}

/// Nanoseconds that `work` takes, by the device's clock where it has one.
fn time(device: &Device, mut work: impl FnMut() -> Result<()>) -> Result<f64> {
    let mut once = |count: u32| -> Result<f64> {
        let elapsed = device.backend().timed(&mut || (0..count).try_for_each(|_| work()))?;
        Ok(elapsed.ns / f64::from(count))
    };
    // A card that has waited for the host takes long to raise its clocks.
    let mut spent = 0.0;
    while spent < WARM_NS {
        spent += once(2)?.max(1.0) * 2.0;
    }
    let count = (2e7 / once(1)?).clamp(1.0, 50.0) as u32;
    let mut times = (0..BATCHES).map(|_| once(count)).collect::<Result<Vec<f64>>>()?;
    times.sort_by(f64::total_cmp);
    Ok(times[BATCHES / 2])
}

fn uniform(device: &Device, count: u64, stream: u64) -> Result<Tensor> {
    Tensor::random(device, DType::F32, [count], Distribution::Uniform { low: 0.0, high: 1.0 }, 7, stream)
}

/// Random integers from 0 to below `below`, as i32.
fn places(device: &Device, count: u64, below: u64, stream: u64) -> Result<Tensor> {
    uniform(device, count, stream)?
        .mul_scalar(below as f64)?
        .floor()?
        .binary_scalar(BinaryFn::Min, (below - 1) as f64)?
        .cast(DType::I32)
}

fn copy_rate(device: &Device, count: u64) -> Result<f64> {
    let (from, to) = (uniform(device, count, 0)?, Tensor::zeros(device, DType::F32, [count])?);
    let ns = time(device, || to.assign(&from))?;
    assert_eq!(to.to_vec::<f32>()?, from.to_vec::<f32>()?);
    Ok(8.0 * count as f64 / ns)
}

fn sort(device: &Device, count: u64) -> Result<()> {
    let x = uniform(device, count, 1)?;
    let sorted = x.sort(0, SortOrder::Ascending)?;
    let (values, indices) = (sorted.values.to_vec::<f32>()?, sorted.indices.to_vec::<u32>()?);
    let given = x.to_vec::<f32>()?;
    assert!(values.is_sorted(), "ascending");
    assert!(values.iter().zip(&indices).all(|(value, &at)| given[at as usize] == *value), "values at their indices");
    let mut is_there = vec![false; given.len()];
    indices.iter().for_each(|&at| is_there[at as usize] = true);
    assert!(is_there.iter().all(|&there| there), "every index once");
    drop(sorted);
    let ns = time(device, || x.sort(0, SortOrder::Ascending).map(drop))?;
    println!("sort of {count} f32 with indices: {:.2} ms, {:.2} Gelem/s", ns / 1e6, count as f64 / ns);
    Ok(())
}

fn cumsum(device: &Device, count: u64, copy: f64) -> Result<()> {
    // Sums of integers, which f32 holds exactly.
    let x = places(device, count, 2, 2)?.sub(&places(device, count, 2, 3)?)?.cast(DType::F32)?;
    let (given, found) = (x.to_vec::<f32>()?, x.cumsum(0)?.to_vec::<f32>()?);
    let mut sum = 0.0;
    for (at, (x, found)) in given.iter().zip(&found).enumerate() {
        sum += x;
        assert_eq!(sum, *found, "sum of the first {}", at + 1);
    }
    let ns = time(device, || x.cumsum(0).map(drop))?;
    let rate = 8.0 * count as f64 / ns;
    println!("cumsum of {count} f32: {:.3} ms, {rate:.1} GB/s, {:.2} of the copy", ns / 1e6, rate / copy);
    Ok(())
}

fn topk(device: &Device, rows: u64, long: u64) -> Result<()> {
    let x = uniform(device, rows * long, 4)?.reshape([rows, long])?;
    let found = x.topk(64, 1, SortOrder::Descending)?.values.to_vec::<f32>()?;
    for (row, found) in x.to_vec::<f32>()?.chunks_exact(long as usize).zip(found.chunks_exact(64)) {
        let mut sorted = row.to_vec();
        sorted.sort_unstable_by(|a, b| b.total_cmp(a));
        assert_eq!(sorted[..64], *found, "the best 64");
    }
    let ns = time(device, || x.topk(64, 1, SortOrder::Descending).map(drop))?;
    println!("top 64 of {rows} rows of {long} f32: {:.3} ms", ns / 1e6);
    Ok(())
}

/// Rows of 1 KB, read and added up at random places.
fn by_row(device: &Device, count: u64, copy: f64) -> Result<()> {
    const ROW: u64 = 256;
    let table = places(device, count * ROW, 1000, 5)?.cast(DType::F32)?.reshape([count, ROW])?;
    let at = places(device, count, count, 6)?;
    let (given, places) = (table.to_vec::<f32>()?, at.to_vec::<i32>()?);
    let row = |of: &[f32], at: usize| of[at * ROW as usize..][..ROW as usize].to_vec();
    let found = table.take(&at)?.to_vec::<f32>()?;
    assert!(
        places.iter().enumerate().all(|(i, &at)| row(&found, i) == row(&given, at as usize)),
        "rows at their places"
    );
    let ns = time(device, || table.take(&at).map(drop))?;
    let rate = 2048.0 * count as f64 / ns;
    println!("gather of {count} rows of 1 KB: {:.3} ms, {rate:.1} GB/s, {:.2} of the copy", ns / 1e6, rate / copy);
    let mut sums = vec![0.0f32; given.len()];
    for (i, &at) in places.iter().enumerate() {
        let target = &mut sums[at as usize * ROW as usize..][..ROW as usize];
        target.iter_mut().zip(&given[i * ROW as usize..]).for_each(|(sum, x)| *sum += x);
    }
    assert_eq!(table.scatter_add(&at, count)?.to_vec::<f32>()?, sums, "sums of rows");
    let ns = time(device, || table.scatter_add(&at, count).map(drop))?;
    let rate = 2048.0 * count as f64 / ns;
    println!(
        "sum of {count} rows of 1 KB by place: {:.3} ms, {rate:.1} GB/s, {:.2} of the copy",
        ns / 1e6,
        rate / copy
    );
    Ok(())
}

fn histogram(device: &Device, count: u64, copy: f64) -> Result<()> {
    const BINS: usize = 256;
    let x = uniform(device, count, 8)?;
    let mut counts = [0u32; BINS];
    // Multiples of 2^-24: the product with 256 is exact.
    x.to_vec::<f32>()?.iter().for_each(|x| counts[(x * BINS as f32) as usize] += 1);
    assert_eq!(x.histogram(BINS as u64, 0.0, 1.0)?.to_vec::<u32>()?, counts, "counts");
    // All values fall into one bin: every thread adds to the same count.
    let equal = Tensor::full(device, DType::F32, [count], 0.5)?;
    let counts = equal.histogram(BINS as u64, 0.0, 1.0)?.to_vec::<u32>()?;
    assert!(counts[BINS / 2] == count as u32 && counts.iter().sum::<u32>() == count as u32, "counts of equal elements");
    for (what, x) in [("f32", &x), ("equal f32", &equal)] {
        let ns = time(device, || x.histogram(BINS as u64, 0.0, 1.0).map(drop))?;
        let rate = 4.0 * count as f64 / ns;
        println!(
            "histogram of {count} {what} in {BINS}: {:.3} ms, {rate:.1} GB/s, {:.2} of the copy's rate",
            ns / 1e6,
            rate / copy
        );
    }
    Ok(())
}

fn normal(device: &Device, count: u64, copy: f64) -> Result<()> {
    let normal = Distribution::Normal { mean: 0.0, std: 1.0 };
    let draw = || Tensor::random(device, DType::F32, [count], normal, 11, 0);
    let values = draw()?.to_vec::<f32>()?;
    let mean = values.iter().map(|&x| f64::from(x)).sum::<f64>() / count as f64;
    let square = values.iter().map(|&x| f64::from(x).powi(2)).sum::<f64>() / count as f64;
    let deviation = 6.0 / (count as f64).sqrt();
    assert!(mean.abs() < deviation && (square - 1.0).abs() < 1.5 * deviation, "mean {mean}, mean square {square}");
    let ns = time(device, || draw().map(drop))?;
    let rate = 4.0 * count as f64 / ns;
    println!("{count} normal numbers: {:.3} ms, {rate:.1} GB/s, {:.2} of the copy's rate", ns / 1e6, rate / copy);
    Ok(())
}

/// Element i of the long axis is i modulo this.
const PERIOD: u64 = 251;

/// Checks results along an axis of `count` elements, u8, against formulas: at its beginning, at its end and where
/// signed 32-bit integers end.
fn long_axis(device: &Device, count: u64) -> Result<()> {
    // Repeats of the numbers, the last one cut off: this needs no tensor of wider elements.
    let numbers: Vec<u8> = (0..PERIOD as u8).collect();
    let numbers = Tensor::from_slice(device, &numbers, [PERIOD])?;
    let x = numbers.tile(&[count.div_ceil(PERIOD)])?.slice(0, ..count as i64)?.contiguous()?;
    let spans: Vec<std::ops::Range<u64>> = [0, 1 << 31, count]
        .map(|middle: u64| middle.saturating_sub(300).min(count)..middle.saturating_add(300).min(count))
        .into_iter()
        .filter(|span| !span.is_empty())
        .collect();
    let holds = |name: &str, found: Result<Tensor>, expected: &dyn Fn(u64) -> u64| -> Result<()> {
        let Some(found) = had(name, found)? else { return Ok(()) };
        for span in &spans {
            let part = found.slice(0, span.start as i64..span.end as i64)?.cast(DType::U32)?.to_vec::<u32>()?;
            for (at, found) in span.clone().zip(part) {
                assert_eq!(u64::from(found), expected(at) & 0xffff_ffff, "{name}, element {at} of {count}");
            }
        }
        println!("{name}: right");
        Ok(())
    };
    let (whole, rest) = (count / PERIOD, count % PERIOD);
    // `below`: the number of elements below `number`. `sorted_at`: the number at a place of the sorted axis, and its
    // index among equal ones.
    let below = |number: u64| number * whole + number.min(rest);
    let sorted_at = |place: u64| {
        let number = (0..PERIOD).rev().find(|&number| below(number) <= place).unwrap_or(0);
        (number, place - below(number))
    };
    holds("elements", Ok(x.clone()), &|i| i % PERIOD)?;
    let triangle = |n: u64| n * n.saturating_sub(1) / 2;
    holds("cumsum", x.cumsum(0), &|i| (i + 1) / PERIOD * triangle(PERIOD) + triangle((i + 1) % PERIOD))?;
    holds("roll", x.roll(&[7], 0), &|i| (i + count - 7 % count) % count % PERIOD)?;
    holds("roll back", x.roll(&[-7], 0), &|i| (i + 7) % count % PERIOD)?;
    holds("flip", x.flip(0), &|i| (count - 1 - i) % PERIOD)?;
    let (left, right) = (x.slice(0, ..(count / 3) as i64)?, x.slice(0, (count / 3) as i64..)?);
    holds("cat", Tensor::cat(&[&right, &left], 0), &|i| (i + count / 3) % count % PERIOD)?;
    if let Some(line) = had("linspace", Tensor::linspace(device, DType::F16, 0.0, 100.0, count))? {
        for at in spans.iter().flat_map(|span| [span.start, span.end - 1]) {
            let found = line.slice(0, at as i64..at as i64 + 1)?.cast(DType::F32)?.to_vec::<f32>()?[0];
            let expected = 100.0 * at as f32 / (count - 1) as f32;
            assert!((found - expected).abs() <= 0.05, "linspace, element {at} of {count}: {found}, not {expected}");
        }
        println!("linspace: right");
    }
    // As one row, and as one column.
    let edge = count as i64 - 5;
    let row = |x: Result<Tensor>| x?.reshape([count]);
    let from = |i: u64, holds: bool| if holds { i % PERIOD } else { 0 };
    let (across, down) = (x.reshape([1, count])?, x.reshape([count, 1])?);
    holds("tril", row(across.tril(edge)), &|i| from(i, i as i64 <= edge))?;
    holds("triu", row(down.triu(-edge)), &|i| from(i, i as i64 <= edge))?;
    holds("eye", row(Tensor::eye(device, DType::U8, 1, count, edge)), &|i| u64::from(i as i64 == edge))?;
    let last = Tensor::from_slice(device, &[count as u32 - 1], [1])?;
    holds("one_hot", row(last.one_hot(count, DType::U8)), &|i| u64::from(i + 1 == count))?;
    let counts = x.histogram(PERIOD, 0.0, PERIOD as f64)?.to_vec::<u32>()?;
    assert!((0..PERIOD).zip(&counts).all(|(n, &found)| u64::from(found) == below(n + 1) - below(n)), "{counts:?}");
    println!("histogram: right");
    by_position(&x, &spans, &holds)?;
    moved_and_scanned(&x, count, &holds)?;
    kept(&x, count)?;
    let number_at = |place: u64| sorted_at(place).0;
    in_order(&x, count, &number_at, &|number| below(number + 1) - below(number))?;
    let Some(sorted) = had("sort", x.sort(0, SortOrder::Ascending))? else { return Ok(()) };
    holds("sort", Ok(sorted.values.clone()), &|place| sorted_at(place).0)?;
    holds("its positions", Ok(sorted.indices), &|place| sorted_at(place).0 + PERIOD * sorted_at(place).1)?;
    let found = sorted.values.searchsorted(&numbers, SearchSide::Left)?.to_vec::<u32>()?;
    assert!((0..PERIOD).zip(&found).all(|(n, &found)| u64::from(found) == below(n)), "searchsorted: {found:?}");
    println!("searchsorted: right");
    Ok(())
}

/// The result; `None`, with a printed reason, where it is larger than one buffer or binding of the device.
fn had<T>(name: &str, found: Result<T>) -> Result<Option<T>> {
    match found {
        Err(error @ (Error::BufferTooBig { .. } | Error::BindingTooLarge { .. } | Error::OutOfMemory { .. })) => {
            println!("{name}: left out: {error}");
            Ok(None)
        }
        found => found.map(Some),
    }
}

/// Checks a named result: its name, the result, and the expected value of each element.
type Holds<'a> = &'a dyn Fn(&str, Result<Tensor>, &dyn Fn(u64) -> u64) -> Result<()>;

/// The element that a position must give.
type Expected<'a> = &'a dyn Fn(u32) -> u8;

/// Repeats, a frame and running products and maxima of `x`, which repeats the numbers.
fn moved_and_scanned(x: &Tensor, count: u64, holds: Holds<'_>) -> Result<()> {
    let framed = x.pad(&[(3, 2)], PadMode::Edge)?.slice(0, ..count as i64);
    holds("pad", framed, &|i| i.saturating_sub(3) % PERIOD)?;
    let half = x.slice(0, ..count.div_ceil(2) as i64)?;
    holds("repeat", half.repeat(2, 0)?.slice(0, ..count as i64), &|i| i / 2 % PERIOD)?;
    // 3 wherever the numbers begin again, 1 elsewhere.
    let begins = x.compare_scalar(CompareFn::Eq, 0)?.cast(DType::U8)?;
    let threes = (&(&begins * 2)? + 1)?;
    holds("cumprod", threes.cumprod(0), &|i| u64::from(3u32.wrapping_pow((i / PERIOD + 1) as u32)))?;
    let Some(largest) = had("cummax", x.cummax(0))? else { return Ok(()) };
    holds("cummax", Ok(largest.values), &|i| i.min(PERIOD - 1))
}

/// What is not zero of `x`, which repeats the numbers: where it lies, and the elements; and moments, of numbers of bf16.
fn kept(x: &Tensor, count: u64) -> Result<()> {
    let mask = x.compare_scalar(CompareFn::Ne, 0)?;
    let kept = count - count.div_ceil(PERIOD);
    let ends = [0, kept - 200].map(|from| from..from + 200);
    for (name, found, first) in [
        ("nonzero", had("nonzero", x.nonzero())?, 0),
        ("masked_select", had("masked_select", x.masked_select(&mask))?, 1),
    ] {
        let Some(found) = found else { continue };
        let found = found.reshape([kept])?;
        for end in &ends {
            let part = found.slice(0, end.start as i64..end.end as i64)?.cast(DType::U32)?.to_vec::<u32>()?;
            for (at, found) in end.clone().zip(part) {
                let place = at / (PERIOD - 1) * PERIOD + 1 + at % (PERIOD - 1);
                let expected = if first == 0 { place } else { place % PERIOD };
                assert_eq!(u64::from(found), expected, "{name}, element {at} of {kept}");
            }
        }
        println!("{name}: right");
    }
    let numbers = x.cast(DType::BF16)?;
    let times = |number: u64| (count / PERIOD + u64::from(number < count % PERIOD)) as f64;
    let sum = |power: i32| (0..PERIOD).map(|number| (number as f64).powi(power) * times(number)).sum::<f64>();
    let variance = sum(2) / count as f64 - (sum(1) / count as f64).powi(2);
    for (name, found, expected) in
        [("var", numbers.var(0, 0.0)?, variance), ("norm", numbers.norm(Norm::L2, 0)?, sum(2).sqrt())]
    {
        let found = f64::from(found.cast(DType::F32)?.item::<f32>()?);
        assert!((found / expected - 1.0).abs() <= 1.0 / 256.0, "{name} of {count}: {found}, not {expected}");
        println!("{name}: right");
    }
    Ok(())
}

/// Numbers by their order, and how often each occurs (`times`); `number_at` is the number at a place of the sorted axis.
fn in_order(x: &Tensor, count: u64, number_at: &dyn Fn(u64) -> u64, times: &dyn Fn(u64) -> u64) -> Result<()> {
    if let Some(counts) = had("bincount", x.bincount(PERIOD))? {
        let counts = counts.to_vec::<u32>()?;
        assert!((0..PERIOD).zip(&counts).all(|(n, &found)| u64::from(found) == times(n)), "bincount: {counts:?}");
        println!("bincount: right");
    }
    if let Some(top) = had("topk", x.topk(5, 0, SortOrder::Descending))? {
        let values = top.values.to_vec::<u8>()?;
        let expected: Vec<u64> = (1..=5).map(|from_end| number_at(count - from_end)).collect();
        assert!(values.iter().map(|&value| u64::from(value)).eq(expected), "topk: {values:?}");
        println!("topk: right");
    }
    for place in [(1 << 31).min(count - 1), count / 2] {
        let Some(kth) = had("kth_value", x.kth_value(place, 0))? else { return Ok(()) };
        assert_eq!(u64::from(kth.values.item::<u8>()?), number_at(place), "kth_value, place {place}");
    }
    println!("kth_value: right");
    let Some(unique) = had("unique", x.unique())? else { return Ok(()) };
    let counts = unique.counts.to_vec::<u32>()?;
    assert!((0..PERIOD).zip(&counts).all(|(n, &found)| u64::from(found) == times(n)), "unique: {counts:?}");
    println!("unique: right");
    Ok(())
}

/// Takes and sets elements of `x`, which repeats the numbers, at positions in `spans`.
fn by_position(x: &Tensor, spans: &[std::ops::Range<u64>], holds: Holds<'_>) -> Result<()> {
    let numbers: Vec<u32> = spans.iter().flat_map(|span| span.clone().map(|i| i as u32)).collect();
    let at = Tensor::from_slice(x.device(), &numbers, [numbers.len() as u64])?;
    let expected = |i: u32| (u64::from(i) % PERIOD) as u8;
    // As i32, positions beyond its largest number are negative, so they are outside of the axis.
    let of_signed = |i: u32| if i <= i32::MAX as u32 { expected(i) } else { 0 };
    let mut taken: Vec<(&str, Tensor, Expected<'_>)> = vec![
        ("take", x.take(&at)?, &expected),
        ("gather", x.gather(&at, 0)?, &expected),
        ("take by i32", x.take_or(&at.cast(DType::I32)?, Missing::Zero)?, &of_signed),
        ("gather by i32", x.gather_or(&at.cast(DType::I32)?, 0, Missing::Zero)?, &of_signed),
    ];
    if x.device().supports(DType::I64) {
        taken.push(("take by i64", x.take(&at.cast(DType::I64)?)?, &expected));
    }
    for (name, taken, expected) in taken {
        let taken = taken.to_vec::<u8>()?;
        assert!(numbers.iter().zip(&taken).all(|(&at, &found)| expected(at) == found), "{name}");
        println!("{name}: right");
    }
    let ones = Tensor::full(x.device(), DType::U8, [numbers.len() as u64], PERIOD as i64)?;
    holds("scatter", x.scatter(&at, &ones, 0, ScatterFn::Set), &|_| PERIOD)
}
