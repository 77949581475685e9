//! Whole networks, in training and inference: BERT-base and ResNet-50 in recorded steps, as a user runs them.
//!
//! Networks are not cases of operations: a step is hundreds of launches, and texts or images per second are compared
//! with the CPU's. The decision to know: before a step is timed, its numbers are compared with the CPU's in f32, from
//! the same weights and on the same few texts. Each step is measured on a device opened anew, so that the peak of the
//! memory is its own. Steps: `step.rs`; tables: `text.rs`.

mod step;
mod text;

use std::time::Instant;

use polywarp_core::harness::BenchSize;
use polywarp_core::{Device, DeviceKind, Profile, Result};
use polywarp_nn::Policy;
use polywarp_nn::models::{BertConfig, ResNetConfig};
use serde::Serialize;

use super::{Options, Progress, Skipped, Table, is_too_large, plan};

pub use step::Step;
pub(super) use text::write;

/// The name of the suite, beside those of operations.
pub const SUITE: &str = "networks";

/// The batches of a card with plenty of memory.
const FULL_TEXTS: u64 = 32;
const FULL_IMAGES: u64 = 64;

/// A network with the size of its inputs.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// `bert-base`
    pub name: &'static str,
    /// Its kind.
    pub kind: Kind,
}

/// The kind of a network.
#[derive(Clone, Debug, PartialEq)]
pub enum Kind {
    /// An encoder of texts, with the number of tokens in a text.
    Bert(BertConfig, u64),
    /// A classifier of square images, with the number of pixels on a side.
    ResNet(ResNetConfig, u64),
}

impl Network {
    /// BERT-base on texts of 128 tokens.
    pub fn bert_base() -> Network {
        Network { name: "bert-base", kind: Kind::Bert(BertConfig::base(), 128) }
    }

    /// ResNet-50 on images of 224 pixels.
    pub fn resnet50() -> Network {
        Network { name: "resnet50", kind: Kind::ResNet(ResNetConfig::resnet50(), 224) }
    }

    /// The name of the things that it reads: texts or images.
    pub fn items(&self) -> &'static str {
        match self.kind {
            Kind::Bert(..) => "texts",
            Kind::ResNet(..) => "images",
        }
    }

    /// The name of its inference: encode or classify.
    fn asking(&self) -> &'static str {
        match self.kind {
            Kind::Bert(..) => "encode",
            Kind::ResNet(..) => "classify",
        }
    }
}

/// The work to do with a network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Task {
    /// A training step: forward, backward and the optimiser, AdamW for texts and SGD with momentum for images.
    Train,
    /// Inference, forward alone: vectors of tokens, or logits.
    Ask,
}

/// The types in which a network computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compute {
    /// f32.
    F32,
    /// bf16, parameters and their moments in f32.
    Bf16,
    /// f16 with a scaled loss, parameters and their moments in f32.
    F16,
    /// Products of i8, everything else in f16: only for inference, with scales found on the batch.
    I8,
}

impl Compute {
    fn name(self) -> &'static str {
        match self {
            Compute::F32 => "f32",
            Compute::Bf16 => "bf16",
            Compute::F16 => "f16",
            Compute::I8 => "i8",
        }
    }

    fn policy(self) -> Policy {
        match self {
            Compute::F32 => Policy::F32,
            Compute::Bf16 => Policy::BF16,
            Compute::F16 | Compute::I8 => Policy::F16,
        }
    }
}

/// One measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Job {
    /// The network.
    pub network: Network,
    /// Training or inference.
    pub task: Task,
    /// The types in which it computes.
    pub compute: Compute,
    /// Texts or images of a step.
    pub batch: u64,
    /// The number of parts into which a step cuts its batch; their gradients are added up.
    pub parts: u64,
}

impl Job {
    /// The largest allowed error of the check's numbers against the CPU's in f32, relative. Normalisation over two
    /// images magnifies small differences: the order of sums alone moves the loss after a step of ResNet-50 by 4e-3.
    fn tolerance(&self) -> f64 {
        match (self.compute, self.task, &self.network.kind) {
            (Compute::F32, Task::Train, Kind::ResNet(..)) => 1e-2,
            (Compute::F32, ..) => 1e-3,
            // Roundings to a 127th, in fifty layers one behind the other.
            (Compute::I8, ..) => 0.2,
            _ => 5e-2,
        }
    }

    /// Whether a claim is judged by it: all whole steps are, for the fastest of each network counts.
    fn is_read_by_claims(&self) -> bool {
        self.parts == 1
    }

    /// `bert-base train bf16 b32`
    pub fn name(&self) -> String {
        let Job { network, task, compute, batch, parts } = self;
        let task = if *task == Task::Train { "train" } else { network.asking() };
        let parts = if *parts > 1 { format!(" in {parts} parts") } else { String::new() };
        format!("{} {task} {} b{batch}{parts}", network.name, compute.name())
    }
}

/// The jobs for a device of this kind at this size.
pub fn jobs(kind: DeviceKind, size: BenchSize) -> Vec<Job> {
    jobs_of(kind, size, [Network::bert_base(), Network::resnet50()])
}

fn jobs_of(kind: DeviceKind, size: BenchSize, [bert, resnet]: [Network; 2]) -> Vec<Job> {
    let job =
        |network: &Network, task, compute, batch, parts| Job { network: network.clone(), task, compute, batch, parts };
    if matches!(kind, DeviceKind::Cpu | DeviceKind::Software) {
        // A rate is per text, so the CPU runs only a few texts.
        let both = [Task::Train, Task::Ask];
        return [&bert, &resnet].into_iter().flat_map(|n| both.map(|task| job(n, task, Compute::F32, 2, 1))).collect();
    }
    let (texts, images) = (size.pick(2, 8, FULL_TEXTS), size.pick(2, 16, FULL_IMAGES));
    let (bf16, f16) = (Compute::Bf16, Compute::F16);
    vec![
        job(&bert, Task::Train, Compute::F32, texts, 1),
        job(&bert, Task::Train, bf16, texts, 1),
        job(&bert, Task::Train, bf16, texts, size.pick(2, 4, 4)),
        job(&bert, Task::Train, bf16, 4 * texts, 1),
        job(&bert, Task::Ask, Compute::F32, texts, 1),
        job(&bert, Task::Ask, bf16, texts, 1),
        job(&resnet, Task::Train, Compute::F32, images, 1),
        job(&resnet, Task::Train, f16, images, 1),
        job(&resnet, Task::Train, f16, 4 * images, 1),
        job(&resnet, Task::Ask, Compute::F32, images, 1),
        job(&resnet, Task::Ask, f16, images, 1),
        job(&resnet, Task::Ask, Compute::I8, images, 1),
    ]
}

/// One job on one device.
#[derive(Clone, Debug, Serialize)]
pub struct NetworkRow {
    /// The job's name with the batch that was measured, unique on a device.
    pub case: String,
    /// `bert-base`
    pub network: String,
    /// `train`, `encode` or `classify`
    pub task: String,
    /// `f32`, `bf16`, `f16` or `i8`: the type in which it computes.
    pub compute: String,
    /// The device's id.
    pub device: String,
    /// Texts or images of a step.
    pub batch: u64,
    /// The requested batch, if that did not fit.
    pub wanted_batch: Option<u64>,
    /// The number of parts into which a step cuts its batch.
    pub parts: u64,
    /// `texts` or `images`
    pub items: &'static str,
    /// Launches of a step.
    pub launches: usize,
    /// The first step in this process, kernels prepared and products tuned, by the host's clock, nanoseconds.
    pub cold_ns: f64,
    /// Median time of a replayed step, by the host's clock, nanoseconds.
    pub step_ns: f64,
    /// Fastest and slowest, nanoseconds.
    pub spread_ns: (f64, f64),
    /// Items per second, with their data on the device.
    pub per_second: f64,
    /// Items per second where each step has its data copied in and its result copied out.
    pub per_second_with_transfer: f64,
    /// The most that the device's pool held, bytes: parameters, moments, gradients, activations, scratch space.
    pub peak_bytes: u64,
    /// The largest error of the check's numbers against the CPU's in f32, relative.
    pub error: f64,
    /// The error up to which the numbers count as right.
    pub tolerance: f64,
    /// Training only: the losses of the first and of the last step, with dropout where the network has it.
    pub losses: Option<(f64, f64)>,
    /// Items per second over the CPU's in f32, in the same run.
    pub speedup: Option<f64>,
    /// The same with transfers.
    pub speedup_with_transfer: Option<f64>,
    /// The launches of one more step, where a profile was asked for.
    #[serde(skip)]
    pub profile: Option<Profile>,
}

/// Numbers of networks on the CPU in f32, by network and task.
#[derive(Default)]
struct References(Vec<(Network, Task, Vec<f32>)>);

impl References {
    fn of(&mut self, job: &Job) -> Result<&[f32]> {
        let alike = |(network, task, _): &(Network, Task, Vec<f32>)| *network == job.network && *task == job.task;
        let at = match self.0.iter().position(alike) {
            Some(at) => at,
            None => {
                let numbers = Step::check(&Job { compute: Compute::F32, ..job.clone() }, &Device::cpu())?;
                self.0.push((job.network.clone(), job.task, numbers));
                self.0.len() - 1
            }
        };
        Ok(&self.0[at].2)
    }
}

/// Measures the jobs of every device into the table, the CPU first where it is among them.
pub(super) fn run(
    devices: &[&Device],
    options: &Options,
    table: &mut Table,
    progress: &mut dyn FnMut(&Progress, &Table),
) {
    let all: Vec<Device> = devices.iter().map(|&device| device.clone()).collect();
    let is_wanted = |job: &Job| options.names(&job.name()) && (!options.claims || job.is_read_by_claims());
    let of = |device: &Device| {
        let size = options.size.unwrap_or_else(|| plan::size_for(device, &all));
        jobs(device.info().kind, size).into_iter().filter(is_wanted).collect::<Vec<Job>>()
    };
    let planned: Vec<(&Device, Job)> =
        devices.iter().flat_map(|&device| of(device).into_iter().map(move |job| (device, job))).collect();
    measure(&planned, options, table, progress);
}

fn measure(
    planned: &[(&Device, Job)],
    options: &Options,
    table: &mut Table,
    progress: &mut dyn FnMut(&Progress, &Table),
) {
    let mut references = References::default();
    for (done, (device, job)) in planned.iter().enumerate() {
        let what = format!("{} on {}", job.name(), device.id());
        progress(&Progress { done, total: planned.len(), what }, table);
        let skip =
            |reason: String, fault: bool| Skipped { case: job.name(), device: device.id().to_owned(), reason, fault };
        if let Some(dtype) = [job.compute.policy().compute].into_iter().find(|&dtype| !device.supports(dtype)) {
            table.skipped.push(skip(format!("{} does not compute in {dtype}", device.info().name), false));
            continue;
        }
        match row(device, job, options, &mut references) {
            Ok(Ok(row)) => {
                table.networks.push(row);
                compare_with_cpu(&mut table.networks, planned);
            }
            Ok(Err(wrong)) => table.skipped.push(skip(wrong, true)),
            Err(error) => {
                table.skipped.push(skip(error.to_string(), !(error.is_unsupported() || is_too_large(&error))));
            }
        }
    }
}

/// The row of the job at its batch, halved until it fits; or the reason why its numbers are wrong.
fn row(
    device: &Device,
    job: &Job,
    options: &Options,
    references: &mut References,
) -> Result<Result<NetworkRow, String>> {
    let expected = references.of(job)?;
    let mut fitting = job.clone();
    loop {
        match row_at(device, &fitting, options, expected) {
            Err(error) if is_too_large(&error) && fitting.batch / 2 >= fitting.parts => fitting.batch /= 2,
            Ok(Ok(row)) if fitting.batch < job.batch => {
                return Ok(Ok(NetworkRow { wanted_batch: Some(job.batch), ..row }));
            }
            ended => return ended,
        }
    }
}

/// A device of the same name and memory limit with a pool of its own; the same device where no other can be opened.
fn anew(device: &Device) -> Device {
    let Ok(other) = crate::device(device.id()) else { return device.clone() };
    other.set_memory_limit(device.memory().limit_bytes);
    other
}

fn row_at(device: &Device, job: &Job, options: &Options, expected: &[f32]) -> Result<Result<NetworkRow, String>> {
    let device = anew(device);
    let held_before = device.memory().in_use_bytes;
    let start = Instant::now();
    let error = match judged(job, &device, expected)? {
        Ok(error) => error,
        Err(wrong) => return Ok(Err(wrong)),
    };
    let checked = start.elapsed();
    let step = Step::new(job, &device)?;
    let timing = step.time(options.budget)?;
    let transfer_ns = step.time_with_transfer()?;
    let per_second = |ns: f64| job.batch as f64 / (ns * 1e-9);
    let policy = job.compute;
    let profile = options.profiled.then(|| step.profile()).transpose()?;
    Ok(Ok(NetworkRow {
        case: job.name(),
        network: job.network.name.to_owned(),
        task: if job.task == Task::Train { "train" } else { job.network.asking() }.to_owned(),
        compute: policy.name().to_owned(),
        device: device.id().to_owned(),
        batch: job.batch,
        wanted_batch: None,
        parts: job.parts,
        items: job.network.items(),
        launches: step.launches(),
        cold_ns: checked.as_secs_f64() * 1e9 + step.cold_ns(),
        step_ns: timing.median_ns,
        spread_ns: (timing.fastest_ns, timing.slowest_ns),
        per_second: per_second(timing.median_ns),
        per_second_with_transfer: per_second(transfer_ns),
        peak_bytes: device.memory().peak_bytes.saturating_sub(held_before),
        error,
        tolerance: job.tolerance(),
        losses: step.losses()?,
        speedup: None,
        speedup_with_transfer: None,
        profile,
    }))
}

/// The error of the job's numbers against the expected ones, or the reason why they are wrong.
fn judged(job: &Job, device: &Device, expected: &[f32]) -> Result<Result<f64, String>> {
    let found = Step::check(job, device)?;
    let (error, tolerance) = (error_of(&found, expected), job.tolerance());
    Ok(match (job.task, &found[..]) {
        _ if error > tolerance => Err(format!("wrong result: {error:.1e} from the CPU's, {tolerance:.0e} is right")),
        (Task::Train, [before, after]) if after >= before => {
            Err(format!("a step does not make its loss fall: {before} before, {after} behind it"))
        }
        _ => Ok(error),
    })
}

/// The job's step, if its numbers agree with the CPU's; else the reason why they are wrong.
///
/// # Errors
/// Errors of the device.
pub fn checked(job: &Job, device: &Device) -> Result<Result<Step, String>> {
    let expected = Step::check(&Job { compute: Compute::F32, ..job.clone() }, &Device::cpu())?;
    match judged(job, device, &expected)? {
        Ok(_) => Step::new(job, device).map(Ok),
        Err(wrong) => Ok(Err(wrong)),
    }
}

/// The norm of the difference over that of the expected numbers; infinite where the numbers have no such ratio.
fn error_of(found: &[f32], expected: &[f32]) -> f64 {
    let size: f64 = expected.iter().map(|&x| f64::from(x).powi(2)).sum();
    let off: f64 = found.iter().zip(expected).map(|(&x, &y)| (f64::from(x) - f64::from(y)).powi(2)).sum();
    let share = (off / size).sqrt();
    if found.len() == expected.len() && share.is_finite() { share } else { f64::INFINITY }
}

/// Fills in the speedups over the CPU's texts or images per second in f32, at whatever batch the CPU had.
fn compare_with_cpu(rows: &mut [NetworkRow], planned: &[(&Device, Job)]) {
    let cpus: Vec<&str> =
        planned.iter().filter(|(d, _)| d.info().kind == DeviceKind::Cpu).map(|(d, _)| d.id()).collect();
    let known: Vec<NetworkRow> = rows.iter().filter(|row| cpus.contains(&row.device.as_str())).cloned().collect();
    for row in rows {
        let alike = |cpu: &&NetworkRow| cpu.network == row.network && cpu.task == row.task && cpu.compute == "f32";
        let cpu = known.iter().find(alike).map(|cpu| cpu.per_second);
        row.speedup = cpu.map(|cpu| row.per_second / cpu);
        row.speedup_with_transfer = cpu.map(|cpu| row.per_second_with_transfer / cpu);
    }
}

/// Says which devices had smaller batches than a card with plenty of memory; `None` where none had.
pub(super) fn smaller_batches(rows: &[NetworkRow]) -> Option<String> {
    let is_smaller = |row: &&NetworkRow| row.batch < if row.items == "texts" { FULL_TEXTS } else { FULL_IMAGES };
    let mut devices: Vec<&str> = rows.iter().filter(is_smaller).map(|row| row.device.as_str()).collect();
    devices.dedup();
    let listed = devices.join(", ");
    let full = format!("{FULL_TEXTS} texts or {FULL_IMAGES} images");
    (!devices.is_empty()).then(|| {
        format!("smaller batches than the {full} of a large GPU, by the kind of the device or its memory: {listed}")
    })
}

#[cfg(test)]
mod tests;
