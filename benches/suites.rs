//! Every benchmark case of the op registry on every device, timed by criterion.
//!
//! The same cases as `polywarp bench`; here with criterion's statistics and its comparison with the last run. A case is
//! verified before it is timed and a wrong result stops the run. `cargo bench -- gemm` runs one suite, `cargo bench --
//! cpu` one device, `cargo bench -- --quick` everything in a third of the time.
//! `POLYWARP_BENCH_SIZE=small|normal|large` overrides the sizes, which otherwise suit each device.
//! `POLYWARP_BENCH_SUITE=gemm` runs all of one suite: of products also shapes that are not square and lower precisions;
//! `POLYWARP_BENCH_SUITE=networks` trains and asks BERT-base and ResNet-50. On a machine with cuBLASLt its products are timed too, each
//! sample in turn with one of ours on the same operands.

use std::collections::HashMap;
use std::time::Duration;

use criterion::measurement::WallTime;
use criterion::{BenchmarkGroup, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use polywarp::bench::networks::{self, Step};
use polywarp::bench::{self, BenchCase, BenchSize, Contest, Metric, Prepared, Suite, Vendor};
use polywarp::{DType, Device};

fn chosen_size() -> Option<BenchSize> {
    match std::env::var("POLYWARP_BENCH_SIZE").as_deref() {
        Ok("small") => Some(BenchSize::Small),
        Ok("normal") => Some(BenchSize::Normal),
        Ok("large") => Some(BenchSize::Large),
        Ok(other) => panic!("POLYWARP_BENCH_SIZE is `{other}`; it may be small, normal or large"),
        Err(_) => None,
    }
}

fn chosen_suite() -> Option<String> {
    let suite = std::env::var("POLYWARP_BENCH_SUITE").ok()?;
    let names = bench::suites();
    assert!(names.contains(&suite.as_str()), "POLYWARP_BENCH_SUITE is `{suite}`; there are {}", names.join(" "));
    Some(suite)
}

fn suites(criterion: &mut Criterion) {
    let devices: Vec<Device> = polywarp::devices().into_iter().filter_map(|entry| entry.open().ok()).collect();
    let vendors: Vec<Option<Vendor>> = devices.iter().map(Vendor::open).collect();
    // Operations per second of the largest product so far, by device and dtype.
    let mut rates: HashMap<(String, DType), f64> = HashMap::new();
    for planned in bench::plan(&devices, chosen_size(), chosen_suite().as_deref()) {
        let case = &planned.case;
        let mut group = criterion.benchmark_group(case.suite.name());
        let cost = case.op.cost();
        group.throughput(match case.metric {
            Metric::Flops => Throughput::Elements(cost.flops),
            Metric::Bytes => Throughput::Bytes(cost.bytes_read + cost.bytes_written),
            Metric::Elements => Throughput::Elements(case.op.output().layout.elements()),
        });
        for (device, vendor) in devices.iter().zip(&vendors) {
            let key = (device.id().to_owned(), case.op.output().dtype);
            let rate = rates.get(&key).copied();
            let reason = planned.not_for(device).or_else(|| bench::too_slow(&case.op, device, rate));
            if let Some(reason) = reason.or_else(|| bench::unfit(&case.op, device)) {
                eprintln!("{} on {} is left out: {reason}", case.name, device.id());
                continue;
            }
            // Prepared only when the filter on the command line lets the case run.
            let mut prepared: Option<Prepared> = None;
            group.bench_function(BenchmarkId::new(&case.name, device.id()), |bencher| {
                let prepared = prepared.get_or_insert_with(|| verified(&case.op, device, &case.name));
                bencher.iter_custom(|count| match prepared.batch(count) {
                    Ok((ns, _)) => {
                        if case.suite == Suite::Gemm {
                            rates.insert(key.clone(), cost.flops as f64 * count as f64 / ns * 1e9);
                        }
                        Duration::from_nanos(ns as u64)
                    }
                    Err(e) => panic!("{} on {}: {e}", case.name, device.id()),
                });
            });
            if let (Some(prepared), Some(vendor)) = (&prepared, vendor) {
                beside_vendor(&mut group, case, prepared, vendor);
            }
        }
        group.finish();
    }
}

/// Ours and the vendor's product as two benchmarks; every sample of either is taken in turn with one of the other.
fn beside_vendor(group: &mut BenchmarkGroup<'_, WallTime>, case: &BenchCase, prepared: &Prepared, vendor: &Vendor) {
    let failed = |e: polywarp::Error| -> ! { panic!("{} by {}: {e}", case.name, vendor.name()) };
    let contest = prepared.reference().and_then(|expected| vendor.contest(prepared, &expected));
    let contest = match contest.unwrap_or_else(|e| failed(e)) {
        Some(Ok(contest)) => contest,
        Some(Err(why)) => return eprintln!("{} is not beside {}: {why}", case.name, vendor.name()),
        None => return,
    };
    let turn = |contest: &Contest| contest.turn().unwrap_or_else(|e| failed(e));
    type Pick = fn((f64, f64)) -> f64;
    let both: [(String, Pick); 2] =
        [(format!("{} in turns", prepared.device().id()), |turn| turn.0), (vendor.name(), |turn| turn.1)];
    for (name, pick) in both {
        group.bench_function(BenchmarkId::new(&case.name, name), |bencher| {
            // A turn is a graph of many launches, and gives the time of one.
            bencher.iter_custom(|count| {
                let turns = count.div_ceil(100).clamp(1, 20);
                let ns: f64 = (0..turns).map(|_| pick(turn(&contest))).sum::<f64>() / turns as f64;
                Duration::from_nanos((ns * count as f64) as u64)
            });
        });
    }
}

fn verified(op: &polywarp::Op, device: &Device, name: &str) -> Prepared {
    let prepared = Prepared::new(op, device).unwrap_or_else(|e| panic!("{name} on {}: {e}", device.id()));
    match prepared.reference().and_then(|expected| prepared.verify(&expected)) {
        Ok(verdict) if verdict.is_right() => prepared,
        Ok(verdict) => panic!("{name} on {} is wrong: {verdict:?}", device.id()),
        Err(e) => panic!("{name} on {}: {e}", device.id()),
    }
}

/// Steps of whole networks, where the suite is asked for: each is checked against the CPU's first.
fn networks(criterion: &mut Criterion) {
    if chosen_suite().as_deref() != Some(networks::SUITE) {
        return;
    }
    let devices: Vec<Device> = polywarp::devices().into_iter().filter_map(|entry| entry.open().ok()).collect();
    let mut group = criterion.benchmark_group(networks::SUITE);
    for device in &devices {
        let size = chosen_size().unwrap_or_else(|| bench::size_for(device, &devices));
        for job in networks::jobs(device.info().kind, size) {
            let name = job.name();
            group.throughput(Throughput::Elements(job.batch));
            let mut step: Option<Step> = None;
            group.bench_function(BenchmarkId::new(&name, device.id()), |bencher| {
                let failed = |e: polywarp::Error| -> ! { panic!("{name} on {}: {e}", device.id()) };
                let step = step.get_or_insert_with(|| match networks::checked(&job, device) {
                    Ok(Ok(step)) => step,
                    Ok(Err(wrong)) => panic!("{name} on {}: {wrong}", device.id()),
                    Err(e) => failed(e),
                });
                bencher.iter_custom(|count| {
                    Duration::from_nanos(step.replays(count).unwrap_or_else(|e| failed(e)) as u64)
                });
            });
        }
    }
    group.finish();
}

criterion_group! {
    name = all;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    targets = suites, networks
}
criterion_main!(all);
