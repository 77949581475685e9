//! Timing one op on one device.
//!
//! Data sits on the device, kernels are warm, several executions are timed together so that neither the clock's grain
//! nor the gap between launches counts, and the median of several such batches is reported. Operands rotate through
//! enough copies to fall out of the caches when the op moves less than [`ROTATE_BYTES`]. Times come from the device's own
//! timestamps where it has them.

use std::time::{Duration, Instant};

use polywarp_core::operation::{Content, Operand};
use polywarp_core::{Buffer, Clock, Device, DeviceKind, Op, Result, TensorSpec};

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
    /// Inputs and outputs; all copies held the same values at first.
    copies: Vec<(Vec<Buffer>, Vec<Buffer>)>,
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
    /// The clock that measured the times.
    pub clock: Clock,
}

impl Prepared {
    /// Makes operands for `op` on `device` and executes it for the first time.
    ///
    /// # Errors
    /// Errors of the device: memory, unsupported dtypes.
    pub fn new(op: &Op, device: &Device) -> Result<Prepared> {
        let first = operands(op, device)?;
        device.synchronize()?;
        let start = Instant::now();
        device.execute(op, &refs(&first.0), &refs(&first.1))?;
        device.synchronize()?;
        let cold_ns = start.elapsed().as_secs_f64() * 1e9;
        let cost = op.cost();
        let bytes = (cost.bytes_read + cost.bytes_written).max(1);
        let copies = match device.info().kind {
            // The caches of a simulated GPU are the CPU's, and its rates do not matter.
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
    /// Errors of the device.
    pub fn execute_once(&self) -> Result<()> {
        self.execute(0)
    }

    pub(super) fn execute(&self, copy: usize) -> Result<()> {
        let (inputs, outputs) = &self.copies[copy % self.copies.len()];
        self.device.execute(&self.op, &refs(inputs), &refs(outputs))
    }

    /// The oracle's answer to a sample of the op. Devices make the same operands, so one answer serves all of them.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn reference(&self) -> Result<Reference> {
        super::verify::reference(self)
    }

    /// Overwrites the first copy's outputs before an execution that counts: with bytes of ones, which no right result
    /// contains (NaN as a float), or, for an operand that is updated, with its first contents.
    pub(super) fn spoil_outputs(&self) -> Result<()> {
        // Outputs of gigabytes are written in pieces.
        const PIECE_BYTES: u64 = 64 << 20;
        let backend = self.device.backend();
        let mut updated = self.op.inputs().len();
        for (Operand { role, spec }, output) in self.op.outputs().iter().zip(&self.copies[0].1) {
            let size = if role.is_read() { spec.required_bytes() } else { output.size_bytes() };
            let fresh = if role.is_read() { Some(held(&self.op, updated, spec, &self.device)?) } else { None };
            updated += usize::from(role.is_read());
            let ones = vec![0xff; size.min(PIECE_BYTES) as usize];
            let mut done = 0;
            while done < size {
                let piece = (size - done).min(PIECE_BYTES);
                let bytes = fresh.as_ref().map(|fresh| backend.read_blocking(fresh, done..done + piece)).transpose()?;
                backend.write(output, done, bytes.as_deref().unwrap_or(&ones[..piece as usize]))?;
                done += piece;
            }
        }
        Ok(())
    }

    /// Executes once and compares the sample with the oracle's answer. Results of earlier executions do not count.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn verify(&self, reference: &Reference) -> Result<Verdict> {
        super::verify::verify(self, reference)
    }

    /// Compares the current contents of the first copy's outputs, whoever wrote them, with the oracle's answer.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn judge(&self, reference: &Reference) -> Result<Verdict> {
        super::verify::judge_outputs(self, reference)
    }

    /// Inputs and outputs of each copy of the operands.
    pub fn copies(&self) -> &[(Vec<Buffer>, Vec<Buffer>)] {
        &self.copies
    }

    /// `count` executions in one timed batch; nanoseconds for all of them.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn batch(&self, count: u64) -> Result<(f64, Clock)> {
        let elapsed = self.device.backend().timed(&mut || {
            for i in 0..count {
                self.execute(i as usize)?;
            }
            Ok(())
        })?;
        Ok((elapsed.ns, elapsed.clock))
    }

    /// Executes until the device runs at its full clocks, which fall while it idles; returns the time of one execution.
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
    /// Errors of the device.
    pub fn time(&self, budget: Duration) -> Result<Timing> {
        const BATCHES: usize = 7;
        let one = self.warm_up()?;
        let budget_ns = budget.as_secs_f64() * 1e9;
        // Each batch is long against the gap between launches and the clock's grain, but the budget holds several batches.
        let per_batch = ((budget_ns / BATCHES as f64 / one.max(1.0)) as u64).clamp(1, 200);
        let mut times = Vec::with_capacity(BATCHES);
        let mut clock = Clock::Host;
        let start = Instant::now();
        while times.len() < BATCHES && (times.is_empty() || start.elapsed() < budget * 2) {
            let (ns, by) = self.batch(per_batch)?;
            times.push(ns / per_batch as f64);
            clock = by;
        }
        times.sort_unstable_by(f64::total_cmp);
        Ok(Timing {
            median_ns: times[times.len() / 2],
            fastest_ns: times[0],
            slowest_ns: times[times.len() - 1],
            clock,
        })
    }

    /// One execution with its operands copied to the device and its results copied back, by the host's clock: the better
    /// of two, above 1 GiB of traffic a single one. `None` on the CPU, whose memory is the host's, and above 4 GiB.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn time_with_transfer(&self) -> Result<Option<f64>> {
        let (held, written) = (self.op.held(), self.op.outputs());
        let written = || written.iter().map(|output| output.spec.required_bytes());
        let traffic: u64 = held.iter().map(|s| s.required_bytes()).chain(written()).sum();
        let repetitions = transfer_repetitions(traffic);
        if self.device.info().kind == DeviceKind::Cpu || repetitions == 0 {
            return Ok(None);
        }
        let host = self.held_bytes()?;
        let backend = self.device.backend();
        let (inputs, outputs) = &self.copies[0];
        let updated = self.op.outputs().into_iter().zip(outputs).filter(|(output, _)| output.role.is_read());
        let held: Vec<&Buffer> = inputs.iter().chain(updated.map(|(_, buffer)| buffer)).collect();
        let mut best = f64::INFINITY;
        for _ in 0..repetitions {
            let start = Instant::now();
            for (buffer, bytes) in held.iter().zip(&host) {
                backend.write(buffer, 0, bytes)?;
            }
            self.execute(0)?;
            for (output, bytes) in outputs.iter().zip(written()) {
                backend.read_blocking(output, 0..bytes)?;
            }
            best = best.min(start.elapsed().as_secs_f64() * 1e9);
        }
        Ok(Some(best))
    }

    /// The bytes, on the host, that the operands held before the first execution: first those read, then those updated.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn held_bytes(&self) -> Result<Vec<Vec<u8>>> {
        let (inputs, _) = &self.copies[0];
        let read = |(i, spec): (usize, &TensorSpec)| {
            let fresh = if i < inputs.len() { None } else { Some(held(&self.op, i, spec, &self.device)?) };
            let buffer = fresh.as_ref().unwrap_or_else(|| &inputs[i]);
            self.device.backend().read_blocking(buffer, 0..spec.required_bytes())
        };
        self.op.held().iter().enumerate().map(read).collect()
    }

    /// The outputs' bytes, on the host.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn output_bytes(&self) -> Result<Vec<Vec<u8>>> {
        let outputs = self.op.outputs().into_iter().zip(&self.copies[0].1);
        outputs.map(|(o, buffer)| self.device.backend().read_blocking(buffer, 0..o.spec.required_bytes())).collect()
    }
}

fn refs(buffers: &[Buffer]) -> Vec<&Buffer> {
    buffers.iter().collect()
}

/// Inputs and outputs for `op`.
pub(super) fn operands(op: &Op, device: &Device) -> Result<(Vec<Buffer>, Vec<Buffer>)> {
    let inputs = op.inputs();
    let made = inputs.iter().enumerate().map(|(i, spec)| held(op, i, spec, device)).collect::<Result<Vec<Buffer>>>()?;
    let mut updated = inputs.len();
    let outputs = op.outputs().into_iter().map(|Operand { role, spec }| {
        if role.is_read() {
            updated += 1;
            return held(op, updated - 1, &spec, device);
        }
        device.backend().alloc(spec.required_bytes().next_multiple_of(16))
    });
    Ok((made, outputs.collect::<Result<Vec<Buffer>>>()?))
}

/// A buffer with the initial contents of operand number `number` among those that are read or updated.
fn held(op: &Op, number: usize, spec: &TensorSpec, device: &Device) -> Result<Buffer> {
    match op.content(number) {
        Content::Any => data::operand(device, spec, number as u64 + 1),
        Content::Scales => data::factors(device, spec, number as u64 + 1),
        Content::Ends { rows } => data::even_ends(device, spec, rows),
        Content::Rows { rows } => data::places(device, spec, rows),
        Content::Places24 { k } => data::metadata(device, spec, k),
    }
}

/// The number of timed executions with transfers. 4 GiB hold the operands of 2^28 elements, which take about a second
/// in both directions; the host's memory for them, and the wait, set the limit.
fn transfer_repetitions(traffic_bytes: u64) -> usize {
    const GIB: u64 = 1 << 30;
    match traffic_bytes.div_ceil(GIB) {
        0..=1 => 2,
        2..=4 => 1,
        _ => 0,
    }
}

/// The longest execution that is worth waiting for: each case runs at least five times.
const MOST_SECONDS: f64 = 5.0;

/// Why a product that would take minutes on a device is left out: simulated GPUs, dtypes without a fast product.
/// `flops_per_second` is the rate of the device in a smaller product of the same dtype, where one was measured.
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

/// Why `op` cannot run on `device` at all: a dtype that the device does not support, or too little memory for the operands.
pub fn unfit(op: &Op, device: &Device) -> Option<String> {
    let mut specs = Vec::new();
    op.operands(&mut |operand| specs.push(operand.spec));
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
