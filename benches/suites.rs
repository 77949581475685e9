//! Every benchmark case of the op registry on every device, timed by criterion.
//!
//! The same cases as `polywarp bench`; here with criterion's statistics and its comparison with the last run. A case is
//! verified before it is timed and a wrong result stops the run. `cargo bench -- gemm` runs one suite, `cargo bench --
//! cpu` one device, `cargo bench -- --quick` everything in a third of the time.
//! `POLYWARP_BENCH_SIZE=small|normal|large` overrides the sizes, which otherwise suit the devices.

use std::collections::HashMap;
use std::time::Duration;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use polywarp::bench::{self, BenchSize, Metric, Prepared, Suite};
use polywarp::{DType, Device};

fn sizes(devices: &[Device]) -> BenchSize {
    match std::env::var("POLYWARP_BENCH_SIZE").as_deref() {
        Ok("small") => BenchSize::Small,
        Ok("normal") => BenchSize::Normal,
        Ok("large") => BenchSize::Large,
        Ok(other) => panic!("POLYWARP_BENCH_SIZE is `{other}`; it may be small, normal or large"),
        Err(_) => bench::size_for(devices),
    }
}

fn suites(criterion: &mut Criterion) {
    let devices: Vec<Device> = polywarp::devices().into_iter().filter_map(|entry| entry.open().ok()).collect();
    // Operations per second of the largest product so far, by device and dtype.
    let mut rates: HashMap<(String, DType), f64> = HashMap::new();
    for case in bench::cases(sizes(&devices), None) {
        let mut group = criterion.benchmark_group(case.suite.name());
        let cost = case.op.cost();
        group.throughput(match case.metric {
            Metric::Flops => Throughput::Elements(cost.flops),
            Metric::Bytes => Throughput::Bytes(cost.bytes_read + cost.bytes_written),
            Metric::Elements => Throughput::Elements(case.op.output().layout.elements()),
        });
        for device in &devices {
            let key = (device.id().to_owned(), case.op.output().dtype);
            let rate = rates.get(&key).copied();
            if let Some(reason) = bench::too_slow(&case.op, device, rate).or_else(|| bench::unfit(&case.op, device)) {
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
        }
        group.finish();
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

criterion_group! {
    name = all;
    config = Criterion::default().sample_size(10).warm_up_time(Duration::from_millis(200)).measurement_time(Duration::from_secs(1));
    targets = suites
}
criterion_main!(all);
