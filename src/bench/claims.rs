//! Speedups that people quote, beside the speedups of this machine: for each claim, whether it holds.
//!
//! Nothing is measured here: a claim reads the rows of products and networks. The decision to know: a quoted ratio is
//! compared with the same ratio of this machine (its GPU over its CPU), because a quote names no hardware; the table
//! also gives the times that the quote would mean here.

use std::fmt::Write;

use polywarp_core::{DeviceInfo, DeviceKind};
use serde::Serialize;

use super::figures::significant;
use super::{NetworkRow, Planned, Table};

/// Images of ImageNet's training set, that is of one epoch.
const EPOCH: f64 = 1.28e6;

/// The product whose speedup is quoted.
const PRODUCT: &str = "gemm f32 1000";

/// A quoted speedup.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Claim {
    /// The text of the quote.
    pub quoted: &'static str,
    /// Its conditions, as far as the quote gives them.
    pub conditions: &'static str,
    /// The quoted ratio.
    pub times: f64,
    /// The rows to read for it.
    #[serde(skip)]
    reads: Reads,
}

/// The rows that a claim reads.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reads {
    Product,
    Training,
    Encoding,
    TensorCores,
    Memory,
    Int8,
    Pruning,
}

/// Every quoted figure.
pub const CLAIMS: [Claim; 8] = [
    Claim {
        quoted: "a product of 1000 x 1000 matrices is 10 times faster than on the CPU",
        conditions: "f32, data on the device; no hardware named",
        times: 10.0,
        reads: Reads::Product,
    },
    Claim {
        quoted: "ResNet-50 trains 15 times faster: an epoch in 8 s, not 120 s",
        conditions: "neither hardware, images nor precision named",
        times: 15.0,
        reads: Reads::Training,
    },
    Claim {
        quoted: "ResNet-50 trains 29 times faster: in 25 min, not 12 h",
        conditions: "neither hardware, images nor precision named",
        times: 29.0,
        reads: Reads::Training,
    },
    Claim {
        quoted: "BERT encodes texts 48 times faster: in 60 min, not 48 h",
        conditions: "neither hardware, texts nor precision named",
        times: 48.0,
        reads: Reads::Encoding,
    },
    Claim {
        quoted: "tensor cores are 8 times faster than plain cores",
        conditions: "the same product in f16 and in f32",
        times: 8.0,
        reads: Reads::TensorCores,
    },
    Claim {
        quoted: "mixed precision takes half of the memory",
        conditions: "the same training step at the same batch",
        times: 2.0,
        reads: Reads::Memory,
    },
    Claim {
        quoted: "a network in INT8 answers 2 times faster than in 16 bits",
        conditions: "the same network, images and batch",
        times: 2.0,
        reads: Reads::Int8,
    },
    Claim {
        quoted: "2:4 pruning makes products 2 times faster",
        conditions: "the same product, dense and with two of four weights, in 16 bits",
        times: 2.0,
        reads: Reads::Pruning,
    },
];

/// Leaves the products by which a claim is judged: those of [`Table::claims`].
pub(super) fn keep_read(planned: &mut Vec<Planned>) {
    let names: Vec<String> = planned.iter().map(|planned| planned.case.name.clone()).collect();
    let has = |name: &str| names.iter().any(|known| known == name);
    let sides = names.iter().filter_map(|name| name.strip_prefix("gemm f16 ")?.parse::<u64>().ok());
    let largest = sides.filter(|side| has(&format!("gemm f32 {side}"))).max();
    let of_cores = |name: &str| {
        largest.is_some_and(|side| ["f16", "f32"].map(|ty| format!("gemm {ty} {side}")).contains(&name.to_owned()))
    };
    let of_pruning = |name: &str| match name.strip_prefix("gemm f16 ") {
        Some(side) => has(&format!("sparse24 f16 {side}")),
        None => name.starts_with("sparse24 f16 "),
    };
    planned.retain(|Planned { case, .. }| case.name == PRODUCT || of_cores(&case.name) || of_pruning(&case.name));
}

/// The result of a claim on a machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// The claim.
    pub claim: Claim,
    /// The device's id.
    pub device: String,
    /// The measured ratio.
    pub times: f64,
    /// The measurements behind the ratio, as text.
    pub measured: String,
}

impl Finding {
    /// Whether the measured ratio is at least the quoted one.
    pub fn holds(&self) -> bool {
        self.times >= self.claim.times
    }
}

impl Table {
    /// The finding for each claim on each GPU, in the order of the claims.
    pub fn claims(&self) -> Vec<Finding> {
        let gpus = || self.devices.iter().filter(|device| device.kind != DeviceKind::Cpu);
        let of = |claim: Claim, device: &DeviceInfo| {
            let (times, measured) = self.found(claim.reads, device)?;
            Some(Finding { claim, device: device.id.clone(), times, measured })
        };
        CLAIMS.into_iter().flat_map(|claim| gpus().filter_map(move |device| of(claim, device))).collect()
    }

    /// The claims without a measurement.
    pub fn claims_not_measured(&self) -> Vec<Claim> {
        let found = self.claims();
        CLAIMS.into_iter().filter(|claim| found.iter().all(|finding| finding.claim != *claim)).collect()
    }

    fn found(&self, reads: Reads, device: &DeviceInfo) -> Option<(f64, String)> {
        match reads {
            Reads::Product => {
                let row = self.row(PRODUCT, &device.id)?;
                let transfer = row.speedup_with_transfer.map(|x| format!(", {}x with transfers", significant(x)));
                Some((row.speedup?, format!("{}{}", row.case, transfer.unwrap_or_default())))
            }
            Reads::Training => {
                let (row, speedup) = self.fastest("resnet50", "train", &device.id)?;
                let cpu = row.per_second / speedup;
                let times = [row.per_second, cpu].map(|rate| time(EPOCH / rate));
                Some((
                    speedup,
                    format!("{}: an epoch of 1.28 M images at this rate {}, not {}", row.case, times[0], times[1]),
                ))
            }
            Reads::Encoding => {
                let (row, speedup) = self.fastest("bert-base", "encode", &device.id)?;
                let rates = [row.per_second, row.per_second / speedup].map(significant);
                Some((speedup, format!("{}: {} texts/s, not {}", row.case, rates[0], rates[1])))
            }
            Reads::TensorCores => {
                let cores = self.tensor_cores().into_iter().find(|cores| cores.device == device.id)?;
                Some((cores.times(), format!("product of side {}", cores.side)))
            }
            Reads::Memory => self.memory_of_training(&device.id),
            Reads::Int8 => self.int8(&device.id),
            Reads::Pruning => self.pruning(&device.id),
        }
    }

    /// The fastest row of a network on a device, and its speedup over the CPU.
    fn fastest(&self, network: &str, task: &str, device: &str) -> Option<(&NetworkRow, f64)> {
        let alike = |row: &&NetworkRow| row.network == network && row.task == task && row.device == device;
        let rows = self.networks.iter().filter(alike).filter_map(|row| Some((row, row.speedup?)));
        rows.max_by(|x, y| x.1.total_cmp(&y.1))
    }

    /// The rate of inference in i8 over that in 16 bits, same network and batch; the largest such ratio.
    fn int8(&self, device: &str) -> Option<(f64, String)> {
        let asked = |row: &&NetworkRow| row.task != "train" && row.device == device;
        let steps = self.networks.iter().filter(asked).filter(|row| row.compute == "i8");
        let both = steps.filter_map(|steps| {
            let alike = |row: &&NetworkRow| {
                row.network == steps.network
                    && row.batch == steps.batch
                    && ["f16", "bf16"].contains(&row.compute.as_str())
            };
            let floats = self.networks.iter().filter(asked).find(alike)?;
            let rates = [steps, floats].map(|row| significant(row.per_second));
            let said =
                format!("{}: {} {} a second, {} in {}", steps.case, rates[0], steps.items, rates[1], floats.compute);
            Some((steps.per_second / floats.per_second, said))
        });
        both.max_by(|x, y| x.0.total_cmp(&y.0))
    }

    /// The rate of a product with two of four weights over that of the dense one; the largest such ratio. Both count
    /// the dense product's work.
    fn pruning(&self, device: &str) -> Option<(f64, String)> {
        let sparse = self.rows.iter().filter(|row| row.device == device);
        let both = sparse.filter_map(|row| {
            let side = row.case.strip_prefix("sparse24 f16 ")?;
            let dense = self.row(&format!("gemm f16 {side}"), device)?;
            let said = format!(
                "f16 {side}: {} us, dense {}",
                significant(row.warm_ns * 1e-3),
                significant(dense.warm_ns * 1e-3)
            );
            Some((dense.warm_ns / row.warm_ns, said))
        });
        both.max_by(|x, y| x.0.total_cmp(&y.0))
    }

    /// The memory peak of training in f32 over that in 16 bits, same network and batch; the least such ratio.
    fn memory_of_training(&self, device: &str) -> Option<(f64, String)> {
        let trained = |row: &&NetworkRow| row.task == "train" && row.parts == 1 && row.device == device;
        let halves = self.networks.iter().filter(trained).filter(|row| row.compute != "f32");
        let both = halves.filter_map(|half| {
            let alike = |row: &&NetworkRow| {
                row.network == half.network && row.batch == half.batch && row.compute == "f32" && row.peak_bytes > 0
            };
            let whole = self.networks.iter().filter(trained).find(alike)?;
            let gib = [whole.peak_bytes, half.peak_bytes].map(|bytes| significant(bytes as f64 / 2f64.powi(30)));
            let said = format!("{}: {} GiB, {} in f32", half.case, gib[1], gib[0]);
            Some((whole.peak_bytes as f64 / half.peak_bytes.max(1) as f64, said))
        });
        both.min_by(|x, y| x.0.total_cmp(&y.0))
    }
}

/// Seconds as text, in the unit that is easiest to read.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 120.0 => format!("{} s", significant(s)),
        s if s < 7200.0 => format!("{} min", significant(s / 60.0)),
        s => format!("{} h", significant(s / 3600.0)),
    }
}

/// The claims as text.
pub(super) fn write(table: &Table, out: &mut String) -> std::fmt::Result {
    let found = table.claims();
    if found.is_empty() {
        return Ok(());
    }
    writeln!(out, "\nthe claims: what is quoted, and what this machine gives beside its own CPU")?;
    let mut before = "";
    for finding in &found {
        let Finding { claim, device, times, measured } = finding;
        if claim.quoted != before {
            before = claim.quoted;
            writeln!(out, "  {} ({})", claim.quoted, claim.conditions)?;
        }
        let holds = if finding.holds() { "holds" } else { "does not hold" };
        writeln!(out, "    {device:8} {:>7}x  {holds}: {measured}", significant(*times))?;
    }
    for claim in table.claims_not_measured() {
        writeln!(out, "  {}: not measured here; `polywarp bench --claims`", claim.quoted)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(case: [&str; 3], device: &str, rate: f64, speedup: f64, peak_bytes: u64) -> NetworkRow {
        let [network, task, compute] = case.map(str::to_owned);
        NetworkRow {
            case: format!("{network} {task} {compute} b2"),
            network,
            task,
            compute,
            device: device.to_owned(),
            batch: 2,
            wanted_batch: None,
            parts: 1,
            items: "images",
            launches: 1,
            cold_ns: 1e9,
            step_ns: 2e9 / rate,
            spread_ns: (2e9 / rate, 2e9 / rate),
            per_second: rate,
            per_second_with_transfer: rate / 2.0,
            peak_bytes,
            error: 0.0,
            tolerance: 1e-3,
            losses: None,
            profile: None,
            speedup: Some(speedup),
            speedup_with_transfer: Some(speedup / 2.0),
        }
    }

    /// What is kept has the products of every claim that is of products, and nothing that no claim reads.
    #[test]
    fn products_of_claims_are_kept_and_no_others() {
        use polywarp_core::harness::BenchSize;
        for (size, side) in [(BenchSize::Small, 1000), (BenchSize::Normal, 4096), (BenchSize::Large, 16384)] {
            let mut kept = crate::bench::plan(&[], Some(size), None);
            let all = kept.len();
            keep_read(&mut kept);
            let names: Vec<&str> = kept.iter().map(|planned| planned.case.name.as_str()).collect();
            for name in [PRODUCT, &format!("gemm f16 {side}"), &format!("gemm f32 {side}")] {
                assert!(names.contains(&name), "{size:?}: {name} of {names:?}");
            }
            let sparse: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix("sparse24 f16 ")).collect();
            assert!(sparse.len() == 1 && names.contains(&format!("gemm f16 {}", sparse[0]).as_str()), "{names:?}");
            assert!(names.len() <= 5 && all > 50, "{size:?}: {names:?} of {all}");
        }
    }

    #[test]
    fn claims_are_judged_by_the_machines_own_ratios() {
        let mut table = crate::bench::html::tests::table();
        assert!(table.claims().is_empty() && table.claims_not_measured().len() == CLAIMS.len());
        assert_eq!(crate::bench::claims_plot(&table), None);
        let mut nothing = String::new();
        write(&table, &mut nothing).unwrap();
        assert!(nothing.is_empty());
        table.networks = vec![
            network(["resnet50", "train", "f32"], "cpu", 4.0, 1.0, 8 << 30),
            network(["resnet50", "train", "f32"], "cuda:0", 40.0, 10.0, 8 << 30),
            network(["resnet50", "train", "f16"], "cuda:0", 80.0, 20.0, 5 << 30),
            network(["bert-base", "encode", "bf16"], "cuda:0", 480.0, 48.0, 1 << 30),
            network(["resnet50", "classify", "f16"], "cuda:0", 200.0, 50.0, 1 << 30),
            network(["resnet50", "classify", "i8"], "cuda:0", 300.0, 75.0, 1 << 30),
        ];
        let found = table.claims();
        let judged: Vec<(f64, f64, bool)> = found.iter().map(|f| (f.claim.times, f.times, f.holds())).collect();
        assert_eq!(
            judged,
            [(15.0, 20.0, true), (29.0, 20.0, false), (48.0, 48.0, true), (2.0, 1.6, false), (2.0, 1.5, false)]
        );
        // 1.28 M images: 16,000 s, and 320,000 s on the CPU.
        assert!(found[0].measured.contains("4.44 h, not 88.9 h"), "{}", found[0].measured);
        let mut text = String::new();
        write(&table, &mut text).unwrap();
        assert_eq!(text.matches("does not hold").count(), 3, "{text}");
        assert_eq!(text.matches("not measured here").count(), 3, "{text}");
        let page = crate::bench::html(&table);
        assert_eq!(page.matches("<rect class=\"claim\"").count(), 5, "a bar for each finding");
        assert_eq!(page.matches("<line class=\"quoted\"").count(), 6, "a line for each claim, and in the legend");
        let plot = crate::bench::claims_plot(&table).unwrap();
        assert!(plot.starts_with("<svg xmlns=") && plot.matches("<rect class=\"claim\"").count() == 5, "{plot}");
        assert!(!plot.contains("NaN") && !plot.contains("inf"), "{plot}");
        assert_eq!(page.matches("<td>no<td>").count(), 3);
        assert_eq!(page.matches("images/s").count(), table.networks.len(), "a row for each network");
    }

    #[test]
    fn times_take_the_unit_that_reads_best() {
        assert_eq!([8.0, 1500.0, 43_200.0].map(time), ["8.00 s", "25.0 min", "12.0 h"]);
    }
}
