//! The quality of the kernels that a program gets when it meets a card for the first time, without a table or answers of its own.
//!
//! Products of 40 shapes that no suite runs, as three programs would run them: the first one on this card, whose tuner
//! has its usual budget; a second one, which continues where the first stopped; and one after `polywarp tune`, which
//! knows the time of every candidate. The figure of a product is the time of the best candidate divided by that of the
//! chosen one, both as the last program measured them: 1 is the best. All three run in one process, so code that the
//! driver has loaded stays loaded; a second process would have to load it again.

use std::fmt::{self, Write};
use std::time::Duration;

use polywarp_core::tuner::{Answer, Key, Mode, Tuner};
use polywarp_core::{DType, Device, Op, Precision, Result};
use serde::Serialize;

use super::figures::duration;
use super::{Lie, Options, Prepared, Progress, Skipped, Table, product, too_slow, unfit};

/// The suite's name.
pub const SUITE: &str = "first_use";

/// m, n, k: shapes of layers and others, square, flat, deep and thin.
const SHAPES: [[u64; 3]; 10] = [
    [1536, 1536, 1536],
    [3000, 5000, 7000],
    [640, 640, 640],
    [777, 1333, 2111],
    [6000, 1200, 904],
    [304, 9000, 1504],
    [5120, 640, 5120],
    [48, 6144, 2304],
    [11008, 1408, 704],
    [2304, 2304, 9216],
];

/// The dtypes and precisions of the products.
const KINDS: [(DType, Precision); 4] = [
    (DType::F16, Precision::Highest),
    (DType::BF16, Precision::Highest),
    (DType::F32, Precision::Medium),
    (DType::F32, Precision::High),
];

/// One product.
#[derive(Clone, Debug, Serialize)]
pub struct FirstUse {
    /// dtype, precision and extents.
    pub case: String,
    /// The device's id.
    pub device: String,
    /// The candidate that the first program ended with, that of the second, and the best.
    pub taken: [String; 3],
    /// The best candidate's time over that of the first program's; absent where that one was not timed.
    pub first: Option<f64>,
    /// The same for the second program.
    pub second: Option<f64>,
    /// The time of the best candidate, nanoseconds.
    pub best_ns: f64,
    /// The number of candidates that were timed.
    pub candidates: usize,
}

/// Geometric mean and least of several products' figures.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Share {
    /// The geometric mean.
    pub mean: f64,
    /// The least.
    pub least: f64,
}

impl Share {
    /// The mean and the least of `shares`; `None` where one is absent or there are none.
    pub fn of(shares: impl Iterator<Item = Option<f64>>) -> Option<Share> {
        let shares: Vec<f64> = shares.collect::<Option<_>>()?;
        let least = shares.iter().copied().min_by(f64::total_cmp)?;
        let logs: f64 = shares.iter().map(|share| share.ln()).sum();
        Some(Share { mean: (logs / shares.len() as f64).exp(), least })
    }
}

/// The products, with their names.
fn products() -> Result<Vec<(String, Op)>> {
    let each = KINDS.into_iter().flat_map(|kind| SHAPES.into_iter().map(move |shape| (kind, shape)));
    each.map(|((dtype, precision), shape)| {
        let [m, n, k] = shape;
        let name = format!("{dtype} {precision:?} {m}x{n}x{k}").to_lowercase();
        Ok((name, product(shape, dtype, [Lie::Plain; 2], precision)?.check()?.into()))
    })
    .collect()
}

/// The last program's budget for a product. Some candidates take seconds to compile, and all of them must run at the
/// card's full clock.
const THOROUGH: Duration = Duration::from_secs(40);

/// The programs that meet the card, in order.
const PROGRAMS: [&str; 3] = ["first program", "second program", "after tuning"];

/// Runs every product on every device whose tuner times candidates.
pub(super) fn run(
    devices: &[&Device],
    options: &Options,
    progress: &mut dyn FnMut(&Progress),
) -> (Vec<FirstUse>, Vec<Skipped>) {
    let (mut rows, mut skipped) = (Vec::new(), Vec::new());
    for &device in devices {
        let mut skip = |case: &str, reason: String, fault| {
            skipped.push(Skipped { case: case.to_owned(), device: device.id().to_owned(), reason, fault });
        };
        let Some(tuner) = device.tuner().filter(|tuner| tuner.mode() == Mode::Full) else {
            skip(SUITE, "its tuner times nothing".to_owned(), false);
            continue;
        };
        let usual = tuner.budget();
        match on(device, tuner, options, progress, &mut skip) {
            Ok(found) => rows.extend(found),
            Err(error) => skip(SUITE, error.to_string(), true),
        }
        tuner.set(Mode::Full, usual);
    }
    (rows, skipped)
}

fn on(
    device: &Device,
    tuner: &Tuner,
    options: &Options,
    progress: &mut dyn FnMut(&Progress),
    skip: &mut dyn FnMut(&str, String, bool),
) -> Result<Vec<FirstUse>> {
    let mut wanted = Vec::new();
    for (case, op) in products()? {
        let Some(key) = Key::of(&op).filter(|_| options.names(&case)) else { continue };
        match unfit(&op, device).or_else(|| too_slow(&op, device, None)) {
            Some(reason) => skip(&case, reason, false),
            None => wanted.push((case, op, key)),
        }
    }
    let usual = tuner.budget();
    let mut answers: [Vec<Option<Answer>>; 3] = Default::default();
    for (number, (program, answers)) in PROGRAMS.iter().zip(&mut answers).enumerate() {
        tuner.set(Mode::Full, if number == 2 { THOROUGH } else { usual });
        for (i, (case, op, key)) in wanted.iter().enumerate() {
            let (done, total) = (number * wanted.len() + i, PROGRAMS.len() * wanted.len());
            progress(&Progress { done, total, what: format!("{case} on {}, {program}", device.id()) });
            if number != 1 {
                tuner.retune(key);
            }
            // An operation without a kernel on the device has no answer.
            let made = Prepared::new(op, device).map(|_| tuner.answer(key));
            answers.push(match made {
                Err(error) if !error.is_unsupported() => return Err(error),
                made => made.ok().flatten(),
            });
        }
    }
    let keeps = tuner.store().check().is_ok();
    let [first, second, best] = answers;
    let each = wanted.into_iter().zip(first.into_iter().zip(second).zip(best));
    Ok(each
        .filter_map(|((case, ..), ((first, second), best))| {
            let second = second.filter(|_| keeps);
            let row = row(case.clone(), device.id(), [first.as_ref(), second.as_ref()], best.as_ref());
            if row.is_none() {
                skip(&case, "one kernel serves it".to_owned(), false);
            }
            row
        })
        .collect())
}

/// The row of a product: the answers of the `first` and the `second` program against the `best` one.
fn row(case: String, device: &str, [first, second]: [Option<&Answer>; 2], best: Option<&Answer>) -> Option<FirstUse> {
    let best = best?;
    let time = |name: &str| best.times.iter().find(|timed| timed.candidate == name).map(|timed| timed.ns);
    let best_ns = time(&best.winner)?;
    let share = |answer: Option<&Answer>| Some((best_ns / time(&answer?.winner)?).min(1.0));
    let name = |answer: Option<&Answer>| answer.map_or_else(|| "-".to_owned(), |answer| answer.winner.clone());
    Some(FirstUse {
        case,
        device: device.to_owned(),
        taken: [name(first), name(second), best.winner.clone()],
        first: share(first),
        second: share(second),
        best_ns,
        candidates: best.times.len(),
    })
}

/// Writes the rows, and a line with their means for each device.
pub(super) fn write(table: &Table, out: &mut String) -> fmt::Result {
    let rows = &table.first_use;
    if rows.is_empty() {
        return Ok(());
    }
    let text = |share: Option<f64>| share.map_or_else(|| "-".to_owned(), |share| format!("{share:.2}"));
    let width = rows.iter().map(|row| row.case.len()).max().unwrap_or(4);
    writeln!(out, "\n{SUITE}")?;
    writeln!(
        out,
        "  {:width$} {:8} {:>6} {:>6} {:>10} {:>6}  kernels",
        "case", "device", "first", "second", "best", "of"
    )?;
    for row in rows {
        let [first, second, best] = &row.taken;
        let kernels = match (first == best, second == best) {
            (true, _) => best.clone(),
            (false, true) => format!("{first}, then {best}"),
            _ => format!("{first}, then {second}; best {best}"),
        };
        let (shares, best) = ([row.first, row.second].map(text), duration(row.best_ns));
        let [first, second] = shares;
        let (case, device, candidates) = (&row.case, &row.device, row.candidates);
        writeln!(out, "  {case:width$} {device:8} {first:>6} {second:>6} {best:>10} {candidates:>6}  {kernels}")?;
    }
    for device in &table.devices {
        let own = || rows.iter().filter(|row| row.device == device.id);
        let said = |share: Option<Share>| {
            share.map_or_else(|| "-".to_owned(), |share| format!("{:.3}, least {:.2}", share.mean, share.least))
        };
        let (first, second) = (Share::of(own().map(|row| row.first)), Share::of(own().map(|row| row.second)));
        if own().next().is_some() {
            let count = own().count();
            writeln!(out, "  {}: {count} products, first {}; second {}", device.id, said(first), said(second))?;
        }
    }
    writeln!(
        out,
        "  first: the best kernel's time over that of the kernel which a first program on this card is left with, without a table; second: of\n  \
         the program after it. of: kernels that were timed."
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use polywarp_core::tuner::{Identity, Timed};

    fn answer(winner: &str, times: &[(&str, f64)]) -> Answer {
        let text = String::new;
        let times = times.iter().map(|&(name, ns)| Timed { candidate: name.to_owned(), ns }).collect();
        let identity = Identity { device: text(), api: text(), driver: text(), kernels: text() };
        Answer { identity, key: "key".to_owned(), winner: winner.to_owned(), complete: true, times }
    }

    #[test]
    fn share_is_the_best_time_over_the_one_taken() {
        let best = answer("quick", &[("quick", 50.0), ("slow", 80.0)]);
        let row =
            row("case".to_owned(), "cuda:0", [Some(&answer("slow", &[])), Some(&answer("quick", &[]))], Some(&best));
        let row = row.unwrap();
        assert_eq!((row.first, row.second, row.candidates), (Some(0.625), Some(1.0), 2));
        assert_eq!(row.taken, ["slow", "quick", "quick"]);
    }

    #[test]
    fn kernel_that_nobody_timed_has_no_share() {
        let best = answer("quick", &[("quick", 50.0)]);
        let row = row("case".to_owned(), "cuda:0", [Some(&answer("other", &[])), None], Some(&best)).unwrap();
        assert_eq!((row.first, row.second), (None, None));
        assert_eq!(Share::of([Some(1.0), None].into_iter()), None);
        assert_eq!(Share::of(std::iter::empty()), None);
        let share = Share::of([Some(1.0), Some(0.25)].into_iter()).unwrap();
        assert!((share.mean - 0.5).abs() < 1e-12 && share.least == 0.25, "{share:?}");
    }

    #[test]
    fn products_are_forty_and_of_different_keys() {
        let mut keys: Vec<String> =
            products().unwrap().iter().map(|(_, op)| Key::of(op).unwrap().to_string()).collect();
        keys.sort_unstable();
        keys.dedup();
        assert_eq!(keys.len(), 40);
        let known = crate::bench::cases(crate::bench::BenchSize::Large, None);
        for (name, op) in products().unwrap() {
            assert!(known.iter().all(|case| case.op != op), "{name} is in a suite");
        }
    }
}
