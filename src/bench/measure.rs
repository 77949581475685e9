//! Timing one op on one device.
//!
//! Data sits on the device, kernels are warm, several executions are timed together so that neither the clock's grain
//! nor the gap between launches counts, and the median of several such batches is reported. Operands rotate through
//! enough copies to fall out of the caches when the op moves less than [`ROTATE_BYTES`]. Times come from the device's own
//! timestamps where it has them.

use std::time::{Duration, Instant};

use polywarp_core::operation::Content;
use polywarp_core::{Buffer, Clock, Device, DeviceKind, Op, Result};

use super::{Reference, Verdict, data};

/// Memory that rotating operands should cover together: several times the largest L2 (60 MB on an H200).
const ROTATE_BYTES: u64 = 256 << 20;

/// Most copies of the operands.
const MAX_COPIES: u64 = 64;

/// An op with its operands on a device, executed once.
#[derive(Debug)]
pub struct Prepared {
    op: Op,
    device: Device,
    /// Inputs and output; all copies hold the same values.
    copies: Vec<(Vec<Buffer>, Buffer)>,
    cold_ns: f64,
}

/// Times of repeated executions, nanoseconds each.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The middle one.
    pub median_ns: f64,
    /// The shortest.
    pub fastest_ns: f64,
    /// The longest.
    pub slowest_ns: f64,
    /// Whose clock.
    pub clock: Clock,
}

impl Prepared {
    /// Makes operands for `op` on `device` and executes it for the first time.
    ///
    /// # Errors
    /// Those of the device: memory, unsupported dtypes.
    pub fn new(op: &Op, device: &Device) -> Result<Prepared> {
        let first = operands(op, device)?;
        device.synchronize()?;
        let start = Instant::now();
        device.execute(op, &first.0.iter().collect::<Vec<_>>(), &first.1)?;
        device.synchronize()?;
        let cold_ns = start.elapsed().as_secs_f64() * 1e9;
        let cost = op.cost();
        let bytes = (cost.bytes_read + cost.bytes_written).max(1);
        let copies = match device.info().kind {
            // A simulated GPU's caches are the CPU's, and its rates are of no interest.
            DeviceKind::Software => 1,
            _ => (ROTATE_BYTES / bytes).clamp(1, MAX_COPIES),
        };
        let mut all = vec![first];
        for _ in 1..copies {
            all.push(operands(op, device)?);
        }
        device.synchronize()?;
        Ok(Prepared { op: op.clone(), device: device.clone(), copies: all, cold_ns })
    }

    /// The op.
    pub fn op(&self) -> &Op {
        &self.op
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Host time of the first execution in this process, nanoseconds.
    pub fn cold_ns(&self) -> f64 {
        self.cold_ns
    }

    /// Enqueues one execution on the first copy of the operands.
    ///
    /// # Errors
    /// Those of the device.
    pub fn execute_once(&self) -> Result<()> {
        self.execute(0)
    }

    fn execute(&self, copy: usize) -> Result<()> {
        let (inputs, output) = &self.copies[copy % self.copies.len()];
        self.device.execute(&self.op, &inputs.iter().collect::<Vec<_>>(), output)
    }

    /// The oracle's answer to a sample of the op. Devices make the same operands, so one answer serves all of them.
    ///
    /// # Errors
    /// Those of the device.
    pub fn reference(&self) -> Result<Reference> {
        super::verify::reference(self)
    }

    /// Fills the first output with bytes of ones, which no right result consists of: NaN as a float.
    pub(super) fn spoil_output(&self) -> Result<()> {
        // Outputs of gigabytes go over in pieces.
        const PIECE_BYTES: u64 = 64 << 20;
        let (_, output) = &self.copies[0];
        let size = output.size_bytes();
        let ones = vec![0xff; size.min(PIECE_BYTES) as usize];
        let mut done = 0;
        while done < size {
            let piece = (size - done).min(PIECE_BYTES);
            self.device.backend().write(output, done, &ones[..piece as usize])?;
            done += piece;
        }
        Ok(())
    }

    /// Executes once and holds the sample to the oracle's answer. Nothing that an earlier execution wrote counts.
    ///
    /// # Errors
    /// Those of the device.
    pub fn verify(&self, reference: &Reference) -> Result<Verdict> {
        super::verify::verify(self, reference)
    }

    /// Holds what lies in the first output now, whoever wrote it, to the oracle's answer.
    ///
    /// # Errors
    /// Those of the device.
    pub fn judge(&self, reference: &Reference) -> Result<Verdict> {
        super::verify::judge_output(self, reference)
    }

    /// Inputs and output of each copy of the operands.
    pub fn copies(&self) -> &[(Vec<Buffer>, Buffer)] {
        &self.copies
    }

    /// `count` executions in one timed batch; nanoseconds for all of them.
    ///
    /// # Errors
    /// Those of the device.
    pub fn batch(&self, count: u64) -> Result<(f64, Clock)> {
        let elapsed = self.device.backend().timed(&mut || {
            for i in 0..count {
                self.execute(i as usize)?;
            }
            Ok(())
        })?;
        Ok((elapsed.ns, elapsed.clock))
    }

    /// Executes until the device has reached its clocks, which fall while it idles; gives the time of one execution.
    fn warm_up(&self) -> Result<f64> {
        let long_enough = match self.device.info().kind {
            DeviceKind::Cpu | DeviceKind::Software => Duration::ZERO,
            _ => Duration::from_millis(250),
        };
        let start = Instant::now();
        let (mut one, _) = self.batch(1)?;
        while start.elapsed() < long_enough {
            const SLICE_NS: f64 = 2e7;
            let count = ((SLICE_NS / one.max(1.0)) as u64).clamp(1, 1000);
            one = self.batch(count)?.0 / count as f64;
        }
        Ok(one)
    }

    /// The time of one execution, measured for about `budget` after a warm-up.
    ///
    /// # Errors
    /// Those of the device.
    pub fn time(&self, budget: Duration) -> Result<Timing> {
        const BATCHES: usize = 7;
        let one = self.warm_up()?;
        let budget_ns = budget.as_secs_f64() * 1e9;
        // Batches long against the gap between launches and the clock's grain, yet several of them in the budget.
        let per_batch = ((budget_ns / BATCHES as f64 / one.max(1.0)) as u64).clamp(1, 200);
        let mut times = Vec::with_capacity(BATCHES);
        let mut clock = Clock::Host;
        let start = Instant::now();
        while times.len() < BATCHES && (times.is_empty() || start.elapsed() < budget * 2) {
            let (ns, by) = self.batch(per_batch)?;
            times.push(ns / per_batch as f64);
            clock = by;
        }
        times.sort_by(f64::total_cmp);
        Ok(Timing {
            median_ns: times[times.len() / 2],
            fastest_ns: times[0],
            slowest_ns: times[times.len() - 1],
            clock,
        })
    }

    /// One execution with its inputs copied to the device and its result copied back, by the host's clock; the better
    /// of two, above 1 GiB of traffic the only one. `None` on the CPU, whose memory is the host's, and above 4 GiB.
    ///
    /// # Errors
    /// Those of the device.
    pub fn time_with_transfer(&self) -> Result<Option<f64>> {
        let traffic: u64 = self.op.inputs().iter().chain([&self.op.output()]).map(|s| s.required_bytes()).sum();
        let repetitions = transfer_repetitions(traffic);
        if self.device.info().kind == DeviceKind::Cpu || repetitions == 0 {
            return Ok(None);
        }
        let host = self.input_bytes()?;
        let backend = self.device.backend();
        let (inputs, output) = &self.copies[0];
        let mut best = f64::INFINITY;
        for _ in 0..repetitions {
            let start = Instant::now();
            for (buffer, bytes) in inputs.iter().zip(&host) {
                backend.write(buffer, 0, bytes)?;
            }
            self.execute(0)?;
            backend.read_blocking(output, 0..self.op.output().required_bytes())?;
            best = best.min(start.elapsed().as_secs_f64() * 1e9);
        }
        Ok(Some(best))
    }

    /// The inputs' bytes, on the host.
    ///
    /// # Errors
    /// Those of the device.
    pub fn input_bytes(&self) -> Result<Vec<Vec<u8>>> {
        let specs = self.op.inputs();
        let buffers = self.copies[0].0.iter().zip(&specs);
        buffers.map(|(b, spec)| self.device.backend().read_blocking(b, 0..spec.required_bytes())).collect()
    }

    /// The output's bytes, on the host.
    ///
    /// # Errors
    /// Those of the device.
    pub fn output_bytes(&self) -> Result<Vec<u8>> {
        self.device.backend().read_blocking(&self.copies[0].1, 0..self.op.output().required_bytes())
    }
}

pub(super) fn operands(op: &Op, device: &Device) -> Result<(Vec<Buffer>, Buffer)> {
    let inputs = op.inputs();
    let made = inputs.iter().enumerate().map(|(i, spec)| match op.content(i) {
        Content::Any | Content::Scales => data::operand(device, spec, i as u64 + 1),
        Content::Ends { rows } => data::even_ends(device, spec, rows),
        Content::Places24 { k } => data::metadata(device, spec, k),
    });
    let inputs = made.collect::<Result<Vec<Buffer>>>()?;
    let output = device.backend().alloc(op.output().required_bytes().next_multiple_of(16))?;
    Ok((inputs, output))
}

/// How often an execution with its transfers is timed: 4 GiB hold the operands of 2^28 elements, which take about a second
/// to and fro; the host's memory for them, and the wait, set the limit.
fn transfer_repetitions(traffic_bytes: u64) -> usize {
    const GIB: u64 = 1 << 30;
    match traffic_bytes.div_ceil(GIB) {
        0..=1 => 2,
        2..=4 => 1,
        _ => 0,
    }
}

/// Longest execution that is worth waiting for: each case runs at least five times.
const MOST_SECONDS: f64 = 5.0;

/// Why a product is left out on a device where it would take minutes: simulated GPUs, dtypes without a fast product.
/// `flops_per_second` is what the device reached with a smaller one of the same dtype, where one was measured.
pub fn too_slow(op: &Op, device: &Device, flops_per_second: Option<f64>) -> Option<String> {
    let dtype = op.arithmetic().multiplies?;
    let info = device.info();
    let threads = info.threads.unwrap_or(1) as f64;
    // The CPU multiplies 8-bit integers as floats; wider ones by plain loops.
    let as_floats = dtype.is_float() || dtype.size_bytes() == 1;
    let expected = match (info.kind, as_floats) {
        (DeviceKind::Software, _) => Some(5e8),
        (DeviceKind::Cpu, true) => Some(2e10 * threads),
        (DeviceKind::Cpu, false) => Some(4e9 * threads),
        _ => None,
    };
    let seconds = op.cost().flops as f64 / flops_per_second.or(expected)?;
    (seconds > MOST_SECONDS).then(|| format!("it would take about {seconds:.0} s per execution here"))
}

/// Why `op` cannot run on `device` at all: a dtype that it does not compute in, or operands that it has no room for.
pub fn unfit(op: &Op, device: &Device) -> Option<String> {
    let specs = op.inputs().into_iter().chain([op.output()]).collect::<Vec<_>>();
    if let Some(spec) = specs.iter().find(|spec| !device.supports(spec.dtype)) {
        return Some(format!("{} does not compute in {}", device.info().name, spec.dtype));
    }
    let all = specs.iter().map(|spec| device.backend().alloc(spec.required_bytes().next_multiple_of(16)));
    all.collect::<Result<Vec<Buffer>>>().err().map(|e| e.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn largest_rows_of_the_tables_are_timed_with_transfer() {
        const ELEMENTS: u64 = 1 << 28;
        // Two operands and a result, in f32.
        assert_eq!(transfer_repetitions(3 * 4 * ELEMENTS), 1);
        assert_eq!(transfer_repetitions(4 * ELEMENTS), 2);
        // The f64 product of side 16384.
        assert_eq!(transfer_repetitions(3 * 8 * ELEMENTS), 0);
    }
}
