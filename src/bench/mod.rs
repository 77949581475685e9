//! The speedup tables: every benchmark case of the op registry on every device, verified before it is timed.
//!
//! One run measures all devices of the machine side by side. Each [`Row`] answers a sceptic's questions: warm and cold
//! time, with and without the transfers, rate and share of the device's own measured ceiling, error against the float64
//! oracle, and the CPU for comparison. Whole networks stand beside the cases (`networks/`), and quoted speedups beside
//! measured ones (`claims.rs`). `polywarp bench` prints all of it; `cargo bench` times the same with criterion. Not
//! here: choosing cases (the ops do), drawing (`terminal.rs`, `html/`).

mod claims;
mod data;
mod figures;
mod first_use;
mod html;
mod machine;
mod measure;
mod memory;
pub mod networks;
mod openblas;
mod plan;
mod probe;
mod product;
mod summary;
mod terminal;
mod vendor;
mod verify;

pub use claims::{CLAIMS, Claim, Finding};
pub use first_use::{FirstUse, Share};
pub use html::{claims_plot, html};
pub use machine::Machine;
pub use measure::{Prepared, Timing, too_slow, unfit};
pub use memory::MemoryUse;
pub use networks::NetworkRow;
pub use plan::{Planned, cases, plan, size_for};
pub use polywarp_core::harness::{BenchCase, BenchSize, Metric, Suite};
pub use probe::Ceilings;
pub use product::{Lie, product};
pub use summary::{TensorCores, VendorMean};
pub use terminal::terminal;
pub use vendor::{CardState, Contest, Pair, Vendor, Versus};
pub use verify::{Reference, Verdict};

use std::time::Duration;

use polywarp_core::tuner::{Mode, Tuner};
use polywarp_core::{Clock, Device, DeviceInfo, DeviceKind, Op, Profile, Result};
use serde::Serialize;

/// The measurements of a run.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only cases of this suite ([`suites`]), and all of them; without it, the overview of every suite.
    pub suite: Option<String>,
    /// Only what [`CLAIMS`] are judged by; not together with a suite.
    pub claims: bool,
    /// Only cases whose name contains one of these; all cases where the list is empty.
    pub only: Vec<String>,
    /// Problem sizes of all devices; when absent, each device has its own, and the CPU those of every other device as well.
    pub size: Option<BenchSize>,
    /// Time to spend on the repetitions of one case on one device.
    pub budget: Duration,
    /// The time for which a long product runs without pause, and the vendor's library as well, where there is one; zero
    /// for no such runs.
    pub sustained: Duration,
    /// Whether each case runs once more for a profile, kernel by kernel.
    pub profiled: bool,
}

impl Options {
    /// Whether a case of this name is to be measured.
    fn names(&self, case: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|word| case.contains(word.as_str()))
    }
}

impl Default for Options {
    fn default() -> Options {
        let (budget, sustained) = (Duration::from_millis(300), Duration::from_millis(500));
        Options { suite: None, claims: false, only: Vec::new(), size: None, budget, sustained, profiled: false }
    }
}

/// One case on one device.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The case's name, unique in the table: op, dtype, extents.
    pub case: String,
    /// The suite it belongs to.
    pub suite: String,
    /// The device's id.
    pub device: String,
    /// Element type of the result.
    pub dtype: String,
    /// Extents of the inputs, or of the output where there are none.
    pub shape: String,
    /// Median time of one execution with its kernels ready and its data on the device, nanoseconds.
    pub warm_ns: f64,
    /// Fastest and slowest of the repetitions, nanoseconds.
    pub spread_ns: (f64, f64),
    /// The clock that measured `warm_ns`.
    pub clock: Clock,
    /// The first execution in this process, kernel preparation included, by the host's clock, nanoseconds.
    pub cold_ns: f64,
    /// One execution with its inputs copied in and its result copied out, nanoseconds.
    pub with_transfer_ns: Option<f64>,
    /// Work per second in `unit`.
    pub rate: f64,
    /// `TFLOP/s`, `GB/s` or `Gelem/s`.
    pub unit: &'static str,
    /// Share of the device's measured ceiling: copy rate or multiply-add rate.
    pub ceiling_share: Option<f64>,
    /// Speedup over the CPU backend in the same run, with data on the device.
    pub speedup: Option<f64>,
    /// The same with transfers.
    pub speedup_with_transfer: Option<f64>,
    /// Largest error found, as a share of the op's bound; right up to 1.
    pub error_of_bound: f64,
    /// Largest relative error found, where the reference is not tiny.
    pub max_relative_error: f64,
    /// For CPU rows of f32 and f64 products: this library's rate over OpenBLAS's, where one is installed.
    pub of_openblas: Option<f64>,
    /// For products on NVIDIA cards: the comparison with cuBLASLt, where the machine has it.
    pub versus: Option<Versus>,
    /// Why such a product has no comparison.
    pub not_beside: Option<String>,
    /// The launches of one more execution, where a profile was asked for.
    #[serde(skip)]
    pub profile: Option<Profile>,
}

/// A case that was not measured, and why.
#[derive(Clone, Debug, Serialize)]
pub struct Skipped {
    /// The case's name.
    pub case: String,
    /// The device's id.
    pub device: String,
    /// The reason.
    pub reason: String,
    /// Whether this is a fault (a wrong result, an error) and not a missing capability.
    pub fault: bool,
}

/// A finished run.
#[derive(Clone, Debug, Serialize)]
pub struct Table {
    /// The machine and the build of the run.
    pub machine: Machine,
    /// The devices, in the order of the columns.
    pub devices: Vec<DeviceInfo>,
    /// Each device's measured ceilings, in the same order.
    pub ceilings: Vec<Ceilings>,
    /// The memory that half precision saves on each device, in the same order; absent where it was not measured.
    pub memory: Vec<Option<MemoryUse>>,
    /// The measurements, case by case.
    pub rows: Vec<Row>,
    /// Whole networks, device by device.
    pub networks: Vec<NetworkRow>,
    /// The choices of the tuner for a first program on a card, where that suite was asked for.
    pub first_use: Vec<FirstUse>,
    /// The cases that were not measured.
    pub skipped: Vec<Skipped>,
}

impl Table {
    /// Whether a case failed.
    pub fn has_faults(&self) -> bool {
        self.skipped.iter().any(|s| s.fault)
    }

    /// The row of a case on a device.
    pub fn row(&self, case: &str, device: &str) -> Option<&Row> {
        self.rows.iter().find(|row| row.case == case && row.device == device)
    }

    /// Operations per second of the largest product that `device` has done so far in the dtype of `op`.
    fn product_rate(&self, op: &Op, device: &str) -> Option<f64> {
        let alike = |row: &&Row| row.device == device && row.dtype == op.output().dtype.name();
        let rows = self.rows.iter().filter(|row| row.unit == "TFLOP/s").filter(alike);
        rows.max_by(|a, b| a.warm_ns.total_cmp(&b.warm_ns)).map(|row| row.rate * 1e12)
    }

    /// The cases left out, grouped by device and reason: one case of each group, and the names of all.
    fn skipped_groups(&self) -> Vec<(&Skipped, Vec<&str>)> {
        let mut groups: Vec<(&Skipped, Vec<&str>)> = Vec::new();
        for skipped in &self.skipped {
            let alike = |known: &Skipped| {
                (&known.device, &known.reason, known.fault) == (&skipped.device, &skipped.reason, skipped.fault)
            };
            match groups.iter_mut().find(|(known, _)| alike(known)) {
                Some((_, names)) => names.push(&skipped.case),
                None => groups.push((skipped, vec![&skipped.case])),
            }
        }
        groups
    }

    /// The profiles of the cases, by case and device.
    pub fn profiles(&self) -> Vec<(String, &Profile)> {
        let rows =
            self.rows.iter().filter_map(|row| Some((format!("{} on {}", row.case, row.device), row.profile.as_ref()?)));
        let networks = self
            .networks
            .iter()
            .filter_map(|row| Some((format!("{} on {}", row.case, row.device), row.profile.as_ref()?)));
        rows.chain(networks).collect()
    }

    /// The names of the measured cases, in order.
    pub fn cases(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !names.contains(&row.case.as_str()) {
                names.push(&row.case);
            }
        }
        names
    }

    /// One JSON object per line: the machine, each device with its ceilings and memory, each row, means beside the vendor's
    /// library, tensor cores against plain ones, each case left out.
    ///
    /// # Errors
    /// Errors of the serialiser, which these types do not cause.
    pub fn json_lines(&self) -> serde_json::Result<String> {
        let mut lines = vec![serde_json::json!({ "machine": self.machine }).to_string()];
        for ((device, ceilings), memory) in self.devices.iter().zip(&self.ceilings).zip(&self.memory) {
            let line = serde_json::json!({ "device": device, "ceilings": ceilings, "memory": memory });
            lines.push(line.to_string());
        }
        for row in &self.rows {
            lines.push(serde_json::to_string(&serde_json::json!({ "row": row }))?);
        }
        for row in &self.networks {
            lines.push(serde_json::to_string(&serde_json::json!({ "network": row }))?);
        }
        for row in &self.first_use {
            lines.push(serde_json::to_string(&serde_json::json!({ "first_use": row }))?);
        }
        for claim in self.claims() {
            lines.push(serde_json::to_string(&serde_json::json!({ "claim": claim }))?);
        }
        for mean in self.vendor_means() {
            lines.push(serde_json::to_string(&serde_json::json!({ "vendor_mean": mean }))?);
        }
        for cores in self.tensor_cores() {
            let times = cores.times();
            lines.push(serde_json::to_string(&serde_json::json!({ "tensor_cores": cores, "times": times }))?);
        }
        for skipped in &self.skipped {
            lines.push(serde_json::to_string(&serde_json::json!({ "skipped": skipped }))?);
        }
        Ok(lines.join("\n") + "\n")
    }
}

/// The tuner's budget for one product before it is timed, the same as that of `polywarp tune`.
const TUNING: Duration = Duration::from_secs(2);

/// The progress of a run, for progress bars.
#[derive(Clone, Debug)]
pub struct Progress {
    /// Measurements done so far.
    pub done: usize,
    /// All measurements.
    pub total: usize,
    /// The current measurement.
    pub what: String,
}

/// Measures every case on every device. The CPU, if it is among the devices, comes first: the others are compared with it.
/// `progress` is called before each measurement, with the table of all until then.
pub fn run(devices: &[Device], options: &Options, progress: &mut dyn FnMut(&Progress, &Table)) -> Table {
    let mut planned = plan(devices, options.size, options.suite.as_deref());
    if options.claims {
        claims::keep_read(&mut planned);
    }
    planned.retain(|planned| options.names(&planned.case.name));
    let size = |device: &Device| options.size.unwrap_or_else(|| size_for(device, devices));
    let mut sorted: Vec<&Device> = devices.iter().collect();
    sorted.sort_by_key(|d| d.info().kind != DeviceKind::Cpu);
    let devices = sorted;
    // This comes first, because later work raises the pools' peaks.
    let memory = devices.iter().map(|d| {
        let log_failure = |e: &polywarp_core::Error| log::warn!("memory of {} not measured: {e}", d.id());
        memory::of_product(d, size(d)).inspect_err(log_failure).ok().flatten()
    });
    let memory = memory.collect();
    let ceilings: Vec<Ceilings> = devices.iter().map(|d| probe::ceilings(d, size(d))).collect();
    let mut table = Table {
        machine: Machine::here(),
        devices: devices.iter().map(|d| d.info().clone()).collect(),
        ceilings,
        memory,
        rows: Vec::new(),
        networks: Vec::new(),
        first_use: Vec::new(),
        skipped: Vec::new(),
    };
    let planned_count = planned.len();
    let total = planned_count * devices.len();
    // One device after the other, so that a GPU does not idle, and lower its clocks, while the CPU is measured.
    let mut references: Vec<Option<Reference>> = planned.iter().map(|_| None).collect();
    for (j, device) in devices.iter().enumerate() {
        let products = planned.iter().any(|planned| planned.case.suite == Suite::Gemm);
        let vendor = products.then(|| Vendor::open(device)).flatten();
        let ceilings = table.ceilings[j];
        let tuning = device.tuner().filter(|tuner| tuner.mode() == Mode::Full).map(Tuner::budget);
        let bench = Bench { device, ceilings: &ceilings, vendor: vendor.as_ref(), options, tuning };
        for (i, (planned, reference)) in planned.iter().zip(&mut references).enumerate() {
            let case = &planned.case;
            let what = format!("{} on {}", case.name, device.id());
            progress(&Progress { done: j * planned_count + i, total, what }, &table);
            let rate = table.product_rate(&case.op, device.id());
            let row = match planned.not_for(device) {
                Some(reason) => Err(bench.skip(case, reason, false)),
                None => bench.row(case, rate, reference),
            };
            match row {
                Ok(row) => {
                    table.rows.push(row);
                    compare_with_cpu(&mut table, &case.name);
                }
                Err(skipped) => table.skipped.push(skipped),
            }
        }
        bench.tune_for(Duration::ZERO);
    }
    if is_for_networks(options, &devices) {
        networks::run(&devices, options, &mut table, progress);
    }
    if options.suite.as_deref() == Some(first_use::SUITE) {
        let (rows, skipped) = first_use::run(&devices, options, &mut |now| progress(now, &table));
        table.first_use = rows;
        table.skipped.extend(skipped);
    }
    // The order is that of suites and cases, with the devices of a case side by side.
    let named = |name: &str| planned.iter().position(|planned| planned.case.name == name);
    table.rows.sort_by_key(|row| named(&row.case).map(|i| (planned[i].case.suite, i)));
    progress(&Progress { done: total, total, what: "done".to_owned() }, &table);
    table
}

/// The names of all suites, alphabetically.
pub fn suites() -> Vec<&'static str> {
    let mut names: Vec<&str> =
        Suite::ALL.iter().map(|suite| suite.name()).chain([first_use::SUITE, networks::SUITE]).collect();
    names.sort_unstable();
    names
}

/// Networks are measured where they are asked for, and in the overview of a machine with a real GPU: a simulated one takes minutes.
fn is_for_networks(options: &Options, devices: &[&Device]) -> bool {
    if options.claims {
        return true;
    }
    let is_real = |device: &&Device| !matches!(device.info().kind, DeviceKind::Cpu | DeviceKind::Software);
    options.suite.as_deref().map_or_else(|| devices.iter().any(is_real), |suite| suite == networks::SUITE)
}

/// The parts that every case on one device needs.
struct Bench<'a> {
    device: &'a Device,
    ceilings: &'a Ceilings,
    vendor: Option<&'a Vendor>,
    options: &'a Options,
    /// The budget of the device's tuner, if it times new products.
    tuning: Option<Duration>,
}

/// The measurements of one case.
struct Measured {
    cold_ns: f64,
    timing: Timing,
    verdict: Verdict,
    with_transfer_ns: Option<f64>,
    /// The comparison with the vendor's library, or why there is none; `None` where there is no library to compare with.
    versus: Option<Result<Versus, String>>,
    profile: Option<Profile>,
}

impl Bench<'_> {
    fn skip(&self, case: &BenchCase, reason: String, fault: bool) -> Skipped {
        Skipped { case: case.name.clone(), device: self.device.id().to_owned(), reason, fault }
    }

    fn row(
        &self,
        case: &BenchCase,
        flops_per_second: Option<f64>,
        reference: &mut Option<Reference>,
    ) -> Result<Row, Skipped> {
        let device = self.device;
        let skip = |reason, fault| self.skip(case, reason, fault);
        if let Some(reason) = measure::too_slow(&case.op, device, flops_per_second) {
            return Err(skip(reason, false));
        }
        let measured = self.measure(case, reference);
        let measured = measured.map_err(|e| skip(e.to_string(), !(e.is_unsupported() || is_too_large(&e))))?;
        let Measured { cold_ns, timing, verdict, with_transfer_ns, versus, profile } = measured;
        if !verdict.is_right() {
            let reason = format!("wrong result: {:.1} times the error the bound allows", verdict.error_of_bound);
            return Err(skip(reason, true));
        }
        let cost = case.op.cost();
        let (work, unit, ceiling) = match case.metric {
            Metric::Flops => (cost.flops as f64 / 1e12, "TFLOP/s", self.ceilings.flops(&case.op)),
            Metric::Bytes => ((cost.bytes_read + cost.bytes_written) as f64 / 1e9, "GB/s", self.ceilings.copy_gb_per_s),
            Metric::Elements => (case.op.output().layout.elements() as f64 / 1e9, "Gelem/s", None),
        };
        let rate = work / (timing.median_ns * 1e-9);
        let (versus, not_beside) = match versus {
            Some(Ok(versus)) => (Some(versus), None),
            Some(Err(why)) => (None, Some(why)),
            None => (None, None),
        };
        let of_openblas = (device.info().kind == DeviceKind::Cpu).then(|| openblas::rate_of(&case.op)).flatten();
        Ok(Row {
            case: case.name.clone(),
            suite: case.suite.name().to_owned(),
            device: device.id().to_owned(),
            dtype: case.op.output().dtype.name().to_owned(),
            shape: shape_of(&case.op),
            warm_ns: timing.median_ns,
            spread_ns: (timing.fastest_ns, timing.slowest_ns),
            clock: timing.clock,
            cold_ns,
            with_transfer_ns,
            rate,
            unit,
            ceiling_share: ceiling.map(|c| rate / c),
            speedup: None,
            speedup_with_transfer: None,
            error_of_bound: verdict.error_of_bound,
            max_relative_error: verdict.max_relative_error,
            of_openblas: of_openblas.map(|blas| rate / blas),
            versus,
            not_beside,
            profile,
        })
    }

    /// Sets the budget of the device's tuner, if it times at all, to at least this long.
    fn tune_for(&self, least: Duration) {
        if let (Some(tuner), Some(usual)) = (self.device.tuner(), self.tuning) {
            tuner.set(Mode::Full, usual.max(least));
        }
    }

    fn measure(&self, case: &BenchCase, reference: &mut Option<Reference>) -> Result<Measured> {
        let budget = self.options.budget;
        // The cold time is that of a first use; the others are those of a program after `polywarp tune`.
        self.tune_for(Duration::ZERO);
        let prepared = Prepared::new(&case.op, self.device)?;
        self.tune_for(TUNING);
        let known = match reference.take() {
            Some(known) => known,
            None => prepared.reference()?,
        };
        let expected = reference.insert(known);
        let verdict = prepared.verify(expected)?;
        let timing = prepared.time(budget)?;
        let with_transfer_ns = prepared.time_with_transfer()?;
        let versus = self.versus(&prepared, expected);
        let profile = || self.device.profile(|| prepared.execute(0)).map(|((), profile)| profile);
        let profile = self.options.profiled.then(profile).transpose()?;
        Ok(Measured { cold_ns: prepared.cold_ns(), timing, verdict, with_transfer_ns, versus, profile })
    }

    /// Compares the product with the vendor's. An error there says nothing about the measurements here.
    fn versus(&self, prepared: &Prepared, expected: &Reference) -> Option<Result<Versus, String>> {
        let Options { budget, sustained, .. } = *self.options;
        let contest = self.vendor?.contest(prepared, expected).map_err(|e| e.to_string()).transpose()?.flatten();
        Some(contest.and_then(|contest| contest.run(budget, sustained).map_err(|e| e.to_string())))
    }
}

/// Whether an error says that the case does not fit the device.
fn is_too_large(error: &polywarp_core::Error) -> bool {
    use polywarp_core::Error;
    matches!(error, Error::OutOfMemory { .. } | Error::BufferTooBig { .. } | Error::BindingTooLarge { .. })
}

fn compare_with_cpu(table: &mut Table, case: &str) {
    let Some(cpu) = table.devices.iter().find(|d| d.kind == DeviceKind::Cpu).map(|d| d.id.clone()) else { return };
    let Some(cpu_ns) = table.row(case, &cpu).map(|row| row.warm_ns) else { return };
    for row in table.rows.iter_mut().filter(|row| row.case == case) {
        row.speedup = Some(cpu_ns / row.warm_ns);
        row.speedup_with_transfer = row.with_transfer_ns.map(|ns| cpu_ns / ns);
    }
}

/// `[4096, 4096] x [4096, 4096]`
fn shape_of(op: &Op) -> String {
    let inputs: Vec<String> = op.inputs().iter().map(|spec| spec.layout.shape().to_string()).collect();
    if inputs.is_empty() { op.output().layout.shape().to_string() } else { inputs.join(" x ") }
}
