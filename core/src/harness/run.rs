//! Runs one case on one device and judges what came back.
//!
//! Phases: operands are laid out in storages larger than their views, everything outside the view filled with garbage; outputs
//! start as a pattern no correct result leaves behind; the op runs; then every element is compared with the
//! oracle, every byte outside the result with what it was, the inputs with what was written, and for repeated cases the
//! bits of a second run with the first. Nothing here knows an op's name; bounds come from [`crate::oracle`].
//!
//! There is one implementation, written as futures. Where it may block its reads do, so that its futures are ready when
//! they are first polled.

use std::any::Any;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

#[cfg(not(target_arch = "wasm32"))]
use super::contract::Promise;
use super::report::{Failure, FailureKind, HostSeconds, Miss, Outcome};
use super::{Case, Check, values};
use crate::case::{Operand, operand, positions};
use crate::oracle::{Expected, HostTensor, Subnormals};
use crate::{Buffer, DType, Device, Error, Op, Result, Scalar, TensorSpec, operation};

/// Bytes after every output that must stay as they were.
const OUTPUT_GUARD_BYTES: u64 = 64;

/// Inputs up to this size are read back and must be unchanged.
const INPUT_CHECK_BYTES: usize = 1 << 20;

/// Misses listed in a failure.
const LISTED_MISSES: usize = 8;

/// How a run gets bytes back from the device.
#[derive(Clone, Copy, Debug)]
pub(super) enum Reads {
    /// By [`crate::Backend::read_blocking`].
    Blocking,
    /// By [`crate::Backend::read`], for where nothing may block.
    Awaited,
}

/// Runs `case` with its values drawn from `seed`.
pub fn run_case(device: &Device, case: &Case, seed: u64) -> Outcome {
    pollster::block_on(outcome(device, case, seed, Reads::Blocking, &Clocks::default()))
}

/// [`run_case`] for where nothing may block: in a browser.
pub async fn run_case_async(device: &Device, case: &Case, seed: u64) -> Outcome {
    outcome(device, case, seed, Reads::Awaited, &Clocks::default()).await
}

/// A part of the work of a case.
#[derive(Clone, Copy)]
enum Phase {
    Operands,
    Device,
    Oracle,
    Comparison,
}

/// The time that threads of the host spent in each phase.
#[derive(Default)]
pub(super) struct Clocks([AtomicU64; 4]);

impl Clocks {
    pub(super) fn seconds(&self) -> HostSeconds {
        let [operands, device, oracle, comparison] =
            [0, 1, 2, 3].map(|i| Duration::from_nanos(self.0[i].load(Ordering::Relaxed)).as_secs_f64());
        HostSeconds { operands, device, oracle, comparison }
    }
}

/// One case's time, given to phases as it passes.
struct Laps<'a> {
    clocks: &'a Clocks,
    /// The end of the last phase; none in a browser, which has no such clock.
    since: Option<Instant>,
}

impl Laps<'_> {
    fn start(clocks: &Clocks) -> Laps<'_> {
        Laps { clocks, since: (!cfg!(target_arch = "wasm32")).then(Instant::now) }
    }

    /// What passed since the last call was `phase`.
    fn end(&mut self, phase: Phase) {
        if let Some(since) = &mut self.since {
            let now = Instant::now();
            let passed = now.duration_since(*since).as_nanos() as u64;
            self.clocks.0[phase as usize].fetch_add(passed, Ordering::Relaxed);
            *since = now;
        }
    }
}

pub(super) async fn outcome(device: &Device, case: &Case, seed: u64, reads: Reads, clocks: &Clocks) -> Outcome {
    judged(&case.name, seed, unpanicked(attempt(device, case, seed, reads, Laps::start(clocks))).await)
}

/// What came of a row of the contract.
#[cfg(not(target_arch = "wasm32"))]
pub(super) async fn kept(device: &Device, promise: &Promise, seed: u64, clocks: &Clocks) -> Outcome {
    let attempt = async {
        let mut laps = Laps::start(clocks);
        let answer = promise.keep(device);
        laps.end(Phase::Device);
        match answer? {
            Ok(()) => Ok(0.0),
            Err(wrong) => Err(Fault::from(Failure::named(&promise.name, seed, FailureKind::Contract, wrong))),
        }
    };
    judged(&promise.name, seed, unpanicked(attempt).await)
}

fn judged(name: &str, seed: u64, ended: Result<Result<f64, Fault>, Box<dyn Any + Send>>) -> Outcome {
    match ended {
        Ok(Ok(share)) => Outcome::Pass { share },
        Ok(Err(Fault::Failed(failure))) => Outcome::Fail(*failure),
        Ok(Err(Fault::Error(error))) if error.is_unsupported() => Outcome::Unsupported { reason: error.to_string() },
        Ok(Err(Fault::Error(error))) => {
            let lost = matches!(error, Error::DeviceLost { .. } | Error::DevicePoisoned { .. });
            let kind = if lost { FailureKind::DeviceLost } else { FailureKind::Error };
            Outcome::Fail(Failure::named(name, seed, kind, error.to_string()))
        }
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or(panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            Outcome::Fail(Failure::named(name, seed, FailureKind::Panic, text.to_owned()))
        }
    }
}

/// What `work` gives, or what it panicked with.
async fn unpanicked<T>(work: impl Future<Output = T>) -> Result<T, Box<dyn Any + Send>> {
    let mut work = pin!(work);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context))) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Err(panic) => Poll::Ready(Err(panic)),
    })
    .await
}

enum Fault {
    Error(Error),
    Failed(Box<Failure>),
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        Fault::Error(error)
    }
}

impl From<Box<Failure>> for Fault {
    fn from(failure: Box<Failure>) -> Fault {
        Fault::Failed(failure)
    }
}

impl From<Failure> for Fault {
    fn from(failure: Failure) -> Fault {
        Fault::Failed(Box::new(failure))
    }
}

/// The largest share of an allowed error that was used, when all is well.
async fn attempt(device: &Device, case: &Case, seed: u64, reads: Reads, mut laps: Laps<'_>) -> Result<f64, Fault> {
    let held: Vec<Operand> = case
        .op
        .held()
        .iter()
        .zip(&case.values)
        .enumerate()
        .map(|(i, (spec, values))| operand(spec, values, values::mix(seed ^ fingerprint(&case.name), i as u64)))
        .collect();
    laps.end(Phase::Operands);
    let expected = Expectations::of(case, seed, device.info().subnormals, &held)?;
    laps.end(Phase::Oracle);
    let (read_only, updated) = held.split_at(case.op.inputs().len().min(held.len()));
    let buffers = read_only.iter().map(|operand| upload(device, &operand.storage)).collect::<Result<Vec<Buffer>>>()?;
    let inputs: Vec<&Buffer> = buffers.iter().collect();

    let outputs = case.op.outputs();
    let before = before(&outputs, updated, |dtype| if dtype.is_float() { 0xFF } else { 0xA5 });
    let after = execute(device, &case.op, &inputs, &before, reads).await;
    laps.end(Phase::Device);
    let after = after?;
    for (number, output) in outputs.iter().enumerate() {
        check_untouched(case, seed, &output.spec, &before[number], &after[number])
            .map_err(|failure| of_output(failure, number, outputs.len()))?;
    }
    let share = match &expected {
        Some(expected) => check_outputs(case, seed, device.info().subnormals, expected, &after)?,
        // Bits alone are moved, from one operand to one result.
        None => check_copy(case, seed, &held[0], &after[0])?,
    };
    laps.end(Phase::Comparison);
    if case.repeat {
        let again = execute(device, &case.op, &inputs, &self::before(&outputs, updated, |_| 0), reads).await?;
        laps.end(Phase::Device);
        for (number, output) in outputs.iter().enumerate() {
            check_repeated(case, seed, &output.spec, &after[number], &again[number])
                .map_err(|failure| of_output(failure, number, outputs.len()))?;
        }
    }
    laps.end(Phase::Comparison);
    for (i, (operand, buffer)) in read_only.iter().zip(&buffers).enumerate() {
        let len = operand.storage.len();
        if len <= INPUT_CHECK_BYTES && read(device, buffer, len, reads).await? != operand.storage {
            let text = format!("input {i} was written to");
            return Err(Failure::new(case, seed, FailureKind::InputChanged, text).into());
        }
    }
    laps.end(Phase::Device);
    Ok(share)
}

/// What the buffers of `outputs` start as: the `updated` operands' content, and else `fill`, which no right result leaves behind.
fn before(outputs: &[operation::Operand], updated: &[Operand], fill: impl Fn(DType) -> u8) -> Vec<Vec<u8>> {
    let mut updated = updated.iter();
    let start = |output: &operation::Operand| {
        let held = if output.role.is_read() { updated.next() } else { None };
        let mut bytes = held.map(|operand| operand.storage.clone()).unwrap_or_default();
        let size = (output.spec.required_bytes() + OUTPUT_GUARD_BYTES) as usize;
        bytes.resize(size.max(bytes.len()), fill(output.spec.dtype));
        bytes
    };
    outputs.iter().map(start).collect()
}

/// `failure`, saying which output it is of where there are several.
fn of_output(failure: Failure, number: usize, outputs: usize) -> Failure {
    if outputs < 2 { failure } else { Failure { message: format!("output {number}: {}", failure.message), ..failure } }
}

fn upload(device: &Device, bytes: &[u8]) -> Result<Buffer> {
    let buffer = device.backend().alloc(bytes.len() as u64)?;
    device.backend().write(&buffer, 0, bytes)?;
    Ok(buffer)
}

/// Runs the op into fresh buffers that start as `before`; the buffers' bytes afterwards.
async fn execute(
    device: &Device,
    op: &Op,
    inputs: &[&Buffer],
    before: &[Vec<u8>],
    reads: Reads,
) -> Result<Vec<Vec<u8>>> {
    let outputs = before.iter().map(|bytes| upload(device, bytes)).collect::<Result<Vec<Buffer>>>()?;
    device.execute(op, inputs, &outputs.iter().collect::<Vec<_>>())?;
    let mut after = Vec::with_capacity(outputs.len());
    for (output, before) in outputs.iter().zip(before) {
        let bytes = read(device, output, before.len(), reads).await?;
        if bytes.len() != before.len() {
            let message = format!("{} bytes read of {}", bytes.len(), before.len());
            return Err(Error::Backend { device: device.id().to_owned(), op: "read".to_owned(), message });
        }
        after.push(bytes);
    }
    Ok(after)
}

/// The first `len` bytes of `buffer`.
async fn read(device: &Device, buffer: &Buffer, len: usize, reads: Reads) -> Result<Vec<u8>> {
    let range = 0..len as u64;
    match reads {
        Reads::Blocking => device.backend().read_blocking(buffer, range),
        Reads::Awaited => device.backend().read(buffer, range).await,
    }
}

/// Every byte that is not an element of the output is what it was.
fn check_untouched(case: &Case, seed: u64, out: &TensorSpec, before: &[u8], after: &[u8]) -> Result<(), Failure> {
    let size = out.dtype.size_bytes() as usize;
    let mut written = vec![false; before.len()];
    for at in positions(&out.layout, size) {
        written[at..at + size].fill(true);
    }
    match (0..before.len()).find(|&i| !written[i] && before[i] != after[i]) {
        None => Ok(()),
        Some(i) => {
            let start = out.layout.offset() as usize * size;
            let end = out.required_bytes();
            let text = format!("byte {i} was overwritten; the result lies in {start}..{end}");
            Err(Failure::new(case, seed, FailureKind::Guard, text))
        }
    }
}

fn check_repeated(case: &Case, seed: u64, out: &TensorSpec, first: &[u8], again: &[u8]) -> Result<(), Failure> {
    let size = out.dtype.size_bytes() as usize;
    let differs = positions(&out.layout, size).position(|at| first[at..at + size] != again[at..at + size]);
    match differs {
        None => Ok(()),
        Some(i) => {
            let text = format!("element {i} has other bits when the same call is made again");
            Err(Failure::new(case, seed, FailureKind::NotRepeatable, text))
        }
    }
}

/// What outputs must be.
struct Expectations {
    by_oracle: Vec<Vec<Expected>>,
    /// The same for operands without subnormals: a device that flushes them computes something else, as correctly.
    flushed: Option<Vec<Vec<Expected>>>,
}

impl Expectations {
    /// By the oracle, before anything runs; `None` for an operation that moves bits, which are compared themselves.
    fn of(
        case: &Case,
        seed: u64,
        subnormals: Subnormals,
        held: &[Operand],
    ) -> Result<Option<Expectations>, Box<Failure>> {
        if case.op.facts().moves_bits && held.len() == 1 && case.op.outputs().len() == 1 {
            return Ok(None);
        }
        let hosts: Vec<HostTensor> = held.iter().map(|operand| operand.host.clone()).collect();
        let by_oracle = case.op.oracle(&hosts);
        if let Some(fault) = oracle_fault(&case.op, &by_oracle) {
            return Err(Box::new(Failure::new(case, seed, FailureKind::Oracle, fault)));
        }
        let flushed = (subnormals == Subnormals::MayFlush).then(|| flush(&hosts)).flatten();
        Ok(Some(Expectations { by_oracle, flushed: flushed.map(|hosts| case.op.oracle(&hosts)) }))
    }
}

/// What is missing in the `results` of the oracle of `op`, or too much.
pub(super) fn oracle_fault<T>(op: &Op, results: &[Vec<T>]) -> Option<String> {
    let (name, outputs) = (op.name(), op.outputs());
    if results.len() != outputs.len() {
        return Some(format!("the oracle of {name} gave {} results of {}", results.len(), outputs.len()));
    }
    outputs.iter().zip(results).enumerate().find_map(|(number, (output, result))| {
        let (found, elements) = (result.len(), output.spec.layout.elements());
        (found as u64 != elements)
            .then(|| format!("the oracle of {name} gave {found} elements of {elements} of output {number}"))
    })
}

/// Every element of every output against the oracle; the largest share of an allowed error.
fn check_outputs(
    case: &Case,
    seed: u64,
    subnormals: Subnormals,
    Expectations { by_oracle, flushed }: &Expectations,
    after: &[Vec<u8>],
) -> Result<f64, Failure> {
    let outputs = case.op.outputs();
    let mut share = 0f64;
    for (number, (output, expected)) in outputs.iter().zip(by_oracle).enumerate() {
        let flushed = flushed.as_ref().and_then(|results| results.get(number)).map(Vec::as_slice);
        let judge = Judge { case, seed, subnormals, out: &output.spec, expected, flushed };
        let used = judge.elements(&after[number]).map_err(|failure| of_output(failure, number, outputs.len()))?;
        share = share.max(used);
    }
    Ok(share)
}

/// What one output is compared with.
struct Judge<'a> {
    case: &'a Case,
    seed: u64,
    subnormals: Subnormals,
    out: &'a TensorSpec,
    expected: &'a [Expected],
    /// The same for operands without subnormals.
    flushed: Option<&'a [Expected]>,
}

impl Judge<'_> {
    fn elements(&self, after: &[u8]) -> Result<f64, Failure> {
        let Judge { case, seed, subnormals, out, expected, flushed } = *self;
        let size = out.dtype.size_bytes() as usize;
        let accepts = |want: &Expected, got: Scalar| match case.check {
            Check::Bound => want.accepts(got, out.dtype, subnormals),
            Check::Exact => want.value.cast(out.dtype) == got,
        };
        let mut tally = Tally::default();
        for (i, at) in positions(&out.layout, size).enumerate() {
            let bytes = &after[at..at + size];
            let got = Scalar::from_le_bytes(bytes, out.dtype);
            let want = &expected[i];
            let malformed = out.dtype == DType::Bool && bytes[0] > 1;
            let is_flushed = || flushed.and_then(|flushed| flushed.get(i)).is_some_and(|want| accepts(want, got));
            let ok = !malformed && (accepts(want, got) || is_flushed());
            tally.add(i as u64, want, got, ok, || if malformed { format!("byte {:#x}", bytes[0]) } else { show(got) });
        }
        if tally.wrong == 0 {
            tally.check_mean_square(case, out.dtype)?;
        }
        tally.finish(case, seed)
    }
}

/// Copies move bits: NaN payloads and subnormals included.
fn check_copy(case: &Case, seed: u64, source: &Operand, after: &[u8]) -> Result<f64, Failure> {
    let (input, output) = (case.op.inputs(), case.op.output());
    let size = output.dtype.size_bytes() as usize;
    let mut tally = Tally::default();
    let pairs = positions(&input[0].layout, size).zip(positions(&output.layout, size));
    for (i, (from, to)) in pairs.enumerate() {
        let (want, got) = (&source.storage[from..from + size], &after[to..to + size]);
        let value = Expected::exact(source.host.values[i]);
        let scalar = Scalar::from_le_bytes(got, output.dtype);
        tally.add(i as u64, &value, scalar, want == got, || format!("bytes {got:02x?} for {want:02x?}"));
    }
    tally.finish(case, seed)
}

/// The operands with subnormals replaced by zeros; `None` when there are none. Those of 8-bit floats are normal where they
/// are computed with.
fn flush(hosts: &[HostTensor]) -> Option<Vec<HostTensor>> {
    let is_subnormal = |x: Scalar, dtype: DType| matches!(x, Scalar::F(x) if x != 0.0 && x.abs() < dtype.min_normal() && !dtype.is_float8());
    let any = hosts.iter().any(|host| host.values.iter().any(|&x| is_subnormal(x, host.dtype)));
    any.then(|| {
        let flush = |host: &HostTensor| {
            let zero = |x: Scalar| Scalar::F(0f64.copysign(x.as_f64()));
            let values = host.values.iter().map(|&x| if is_subnormal(x, host.dtype) { zero(x) } else { x }).collect();
            HostTensor { values, ..host.clone() }
        };
        hosts.iter().map(flush).collect()
    })
}

/// What the elements compared so far add up to.
#[derive(Default)]
struct Tally {
    elements: u64,
    wrong: u64,
    misses: Vec<Miss>,
    max_error: f64,
    worst_index: u64,
    share: f64,
    error_square: f64,
    value_square: f64,
}

impl Tally {
    fn add(&mut self, index: u64, want: &Expected, got: Scalar, ok: bool, show_got: impl Fn() -> String) {
        self.elements += 1;
        let (value, got) = (want.value.as_f64(), got.as_f64());
        let error = if value == got || (value.is_nan() && got.is_nan()) { 0.0 } else { (value - got).abs() };
        let error = if error.is_nan() { f64::INFINITY } else { error };
        if value.is_finite() && got.is_finite() {
            self.error_square += error * error;
            self.value_square += value * value;
        }
        if ok {
            // More than the whole of it was used only where a flushed subnormal is excused.
            if want.error > 0.0 && error <= want.error {
                self.share = self.share.max(error / want.error);
            }
            return;
        }
        self.wrong += 1;
        if error >= self.max_error {
            (self.max_error, self.worst_index) = (error, index);
        }
        if self.misses.len() < LISTED_MISSES {
            let allowed = if want.error == 0.0 { "exactly".to_owned() } else { format!("+-{:.3e}", want.error) };
            self.misses.push(Miss { index, expected: show(want.value), allowed, got: show_got() });
        }
    }

    /// Normalised mean square error of plain products: many small errors that each pass, and no longer look random.
    /// 4 h 2^-2p with the chain h of [`crate::oracle::Approx::sum`]; the rounding of 16-bit results is 2^-2p / 3 of it.
    fn check_mean_square(&self, case: &Case, dtype: DType) -> Result<(), Failure> {
        let Some(op) = case.op.product() else { return Ok(()) };
        // Special scales of blocks differ by so much that blocks cancel, and the sum is small beside its own error.
        let cancels = op.scale_blocks.is_some() && case.values.contains(&super::Values::Special);
        let plain = op.c.is_none() && op.bias.is_none() && op.activation.is_none() && !cancels;
        if !plain || !dtype.is_float() || self.elements < 256 || self.value_square == 0.0 {
            return Ok(());
        }
        let (u, stored) = (dtype.compute().unit_roundoff(), dtype.unit_roundoff());
        let chain = (2.0 * (op.dims().k as f64).sqrt()).max(8.0);
        let storage = if stored > u { stored * stored } else { 0.0 };
        let limit = 4.0 * chain * u * u + storage + op.product_roundoff().powi(2);
        let nmse = self.error_square / self.value_square;
        if nmse <= limit {
            return Ok(());
        }
        let text = format!("normalised mean square error {nmse:.3e} is over {limit:.3e}");
        Err(Failure::new(case, 0, FailureKind::Wrong, text))
    }

    fn finish(self, case: &Case, seed: u64) -> Result<f64, Failure> {
        if self.wrong == 0 {
            return Ok(self.share);
        }
        let text = format!("{} of {} elements are wrong", self.wrong, self.elements);
        Err(Failure {
            max_error: self.max_error,
            worst_index: Some(self.worst_index),
            misses: self.misses,
            ..Failure::new(case, seed, FailureKind::Wrong, text)
        })
    }
}

fn show(x: Scalar) -> String {
    match x {
        Scalar::F(x) => format!("{x:e}"),
        Scalar::I(_) | Scalar::U(_) => x.to_string(),
    }
}

/// FNV-1a of a name: cases draw different numbers from one seed.
fn fingerprint(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
