//! Measures one builtin on one device: runs its kernel on its inputs, and compares the results with f64 and with the
//! allowed intervals.
//!
//! Infinities and NaN are not tested, because WGSL promises nothing about them: operands and exact results are finite.
//! The decision to know: an error counts where there is a limit, or everywhere in a part that has none; a subnormal
//! that a device took or gave as zero is no error, but is counted.

use std::thread;

use polywarp::{Binding, Device, Kernel};

use super::builtins::{Builtin, Measure, Row};
use super::float::Type;
use super::inputs::inputs;
use super::interval::Wgsl;

/// Items of one launch.
const CHUNK: usize = 1 << 20;
/// The most rounds, for parts that few inputs fall into.
const ROUNDS: u64 = 24;

/// One input at which something was found.
#[derive(Clone, Debug)]
pub struct Place {
    pub operands: Vec<f64>,
    pub got: f64,
    pub want: f64,
}

/// The findings in one part of a builtin's domain.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Inputs measured.
    pub inputs: u64,
    /// The largest error.
    pub error: f64,
    pub worst: Option<Place>,
    /// The largest error as a share of the allowed one.
    pub share: f64,
    /// The number of inputs with a limit, and of those that exceed it.
    pub limited: u64,
    pub over: u64,
    pub first_over: Option<Place>,
    /// The number of subnormals taken or given as zeros.
    pub flushed: u64,
}

impl Tally {
    fn merge(&mut self, other: Tally) {
        self.inputs += other.inputs;
        self.limited += other.limited;
        self.over += other.over;
        self.flushed += other.flushed;
        self.share = self.share.max(other.share);
        self.first_over = self.first_over.take().or(other.first_over);
        if other.error > self.error || self.worst.is_none() {
            (self.error, self.worst) = (other.error, other.worst);
        }
    }
}

/// One line of the table.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: &'static str,
    pub ty: Type,
    pub row: Row,
    pub tally: Tally,
    /// Why the device does not run it.
    pub refused: Option<String>,
}

impl Line {
    pub fn is_over(&self) -> bool {
        self.tally.over > 0
    }
}

/// Measures every part of `builtin` in `ty` at `count` inputs or more (all, where it has one operand of 16 bits).
pub fn measure(device: &Device, builtin: &Builtin, ty: Type, count: usize) -> Vec<Line> {
    let rows = builtin.rows_in(ty);
    let mut tallies = vec![Tally::default(); rows.len()];
    let mut refused = None;
    let exhaustive = builtin.arity == 1 && builtin.from.unwrap_or(ty).bytes() == 2;
    let seed = builtin.name.bytes().fold(1, |seed: u64, byte| seed.wrapping_mul(257).wrapping_add(u64::from(byte)));
    for round in 0..if exhaustive { 1 } else { ROUNDS } {
        let items = count.clamp(64, CHUNK).next_multiple_of(64);
        let operands =
            inputs(builtin.from.unwrap_or(ty), builtin.arity, items, seed.wrapping_add(round << 40), builtin.draw);
        match run(device, builtin, ty, &operands) {
            Ok(results) => compare(builtin, ty, &rows, &operands, &results, &mut tallies),
            Err(error) => {
                refused = Some(error.to_string());
                break;
            }
        }
        if tallies.iter().all(|tally| tally.inputs >= count as u64) {
            break;
        }
    }
    let lines = rows.into_iter().zip(tallies);
    lines.map(|(row, tally)| Line { name: builtin.name, ty, row, tally, refused: refused.clone() }).collect()
}

/// The bytes of all results.
fn run(device: &Device, builtin: &Builtin, ty: Type, operands: &[f64]) -> polywarp::Result<Vec<u8>> {
    let (from, to) = (builtin.from.unwrap_or(ty), builtin.to.unwrap_or(ty));
    let items = operands.len() / builtin.arity;
    let mut bytes = Vec::with_capacity(operands.len() * from.bytes());
    for &value in operands {
        bytes.extend_from_slice(&from.encode(value).to_le_bytes()[..from.bytes()]);
    }
    let backend = device.backend();
    let size_bytes = (items * builtin.results.len() * to.bytes()) as u64;
    let (input, output) = (backend.alloc(bytes.len() as u64)?, backend.alloc(size_bytes)?);
    backend.write(&input, 0, &bytes)?;
    // All bits are set before the run, so that elements that no kernel writes are NaN or far off.
    backend.write(&output, 0, &vec![0xff; size_bytes as usize])?;
    let bindings = [
        Binding { group: 0, binding: 0, buffer: input, range: 0..bytes.len() as u64 },
        Binding { group: 0, binding: 1, buffer: output.clone(), range: 0..size_bytes },
    ];
    backend.launch(&Kernel::wgsl(builtin.wgsl(ty)), [(items / 64) as u32, 1, 1], &bindings)?;
    backend.read_blocking(&output, 0..size_bytes)
}

/// Adds the findings in `results` to the tallies, on all threads of the host.
fn compare(builtin: &Builtin, ty: Type, rows: &[Row], operands: &[f64], results: &[u8], tallies: &mut [Tally]) {
    let threads = thread::available_parallelism().map_or(1, |threads| threads.get());
    let items = operands.len() / builtin.arity;
    let share = items.div_ceil(threads);
    let parts: Vec<Vec<Tally>> = thread::scope(|scope| {
        let part = |first: usize| {
            scope.spawn(move || {
                let mut tallies = vec![Tally::default(); rows.len()];
                for item in first..items.min(first + share) {
                    judge(
                        builtin,
                        ty,
                        rows,
                        &operands[item * builtin.arity..][..builtin.arity],
                        results,
                        item,
                        &mut tallies,
                    );
                }
                tallies
            })
        };
        let handles: Vec<_> = (0..items).step_by(share).map(part).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap_or_else(|fault| std::panic::resume_unwind(fault)))
            .collect()
    });
    for part in parts {
        tallies.iter_mut().zip(part).for_each(|(tally, part)| tally.merge(part));
    }
}

/// Compares one item's results with each part that it belongs to.
fn judge(builtin: &Builtin, ty: Type, rows: &[Row], x: &[f64], results: &[u8], item: usize, tallies: &mut [Tally]) {
    if x.iter().any(|x| !x.is_finite()) {
        return;
    }
    let (from, to) = (builtin.from.unwrap_or(ty), builtin.to.unwrap_or(ty));
    let wgsl = Wgsl { format: ty.format() };
    let subnormal = |x: &f64| !from.is_integer() && from.format().is_subnormal(*x);
    let want = (builtin.want)(x);
    // The exact results with subnormal operands taken as zeros.
    let without = x.iter().any(subnormal).then(|| {
        let flushed: Vec<f64> = x.iter().map(|x| if subnormal(x) { 0.0 } else { *x }).collect();
        (builtin.want)(&flushed)
    });
    let term = (builtin.term)(x);
    for (row, tally) in rows.iter().zip(tallies).filter(|(row, _)| (row.domain)(x)) {
        let operands: Vec<_> = x.iter().map(|&x| wgsl.operand(x)).collect();
        let allowed = (row.allowed)(&wgsl, &operands);
        let unlimited = row.words[0].starts_with("none");
        let mut measured = false;
        for place in 0..builtin.results.len() {
            let (want, allowed) = (want[place], allowed[place]);
            if !want.is_finite() || want.abs() > to.format().max() || allowed.is_any() && !unlimited {
                continue;
            }
            let got = to.read(results, item * builtin.results.len() + place);
            let error = |want: f64| {
                let unit = match row.measure {
                    Measure::Ulp => to.format().ulp(want),
                    Measure::UlpOfTerm => to.format().ulp(want.abs().max(term)),
                    Measure::Absolute => 1.0,
                };
                let error = (got - want).abs() / unit;
                if error.is_nan() { f64::INFINITY } else { error }
            };
            measured = true;
            let plain = error(want);
            let mut least = without.map_or(plain, |without| plain.min(error(without[place])));
            if got == 0.0 && to.format().is_subnormal(want) {
                least = 0.0;
            }
            // Rounding alone explains this error, so it is no sign of flushing.
            if plain <= 1.0 {
                least = plain;
            }
            tally.flushed += u64::from(least < plain);
            let here = || Place { operands: x.to_vec(), got, want };
            if least > tally.error || tally.worst.is_none() {
                (tally.error, tally.worst) = (least, Some(here()));
            }
            if allowed.is_any() {
                continue;
            }
            tally.limited += u64::from(place == 0);
            let room = if got > want { allowed.high - want } else { want - allowed.low };
            if least > 0.0 && plain > 0.0 {
                tally.share = tally.share.max((got - want).abs() / room);
            }
            if !allowed.has(got) {
                tally.over += 1;
                tally.first_over.get_or_insert_with(here);
            }
        }
        tally.inputs += u64::from(measured);
    }
}
