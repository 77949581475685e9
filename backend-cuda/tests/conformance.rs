//! The conformance harness, and every other table of the harness, on the first card.
//!
//! `POLYWARP_TEST_FAMILY=reduce` restricts a run to one family, `POLYWARP_TEST_FILTER` to cases by name;
//! `POLYWARP_TEST_LEVEL=full` takes all sizes. `POLYWARP_CUDA_POOL=off` under compute-sanitizer shows where buffers end.

mod common;

use std::time::Duration;

use polywarp_core::harness::bad_input::{self, Row};
use polywarp_core::harness::{Level, Part, Selection, contract, fit, recording, run};
use polywarp_core::ops::REGISTRY;
use polywarp_core::{DType, Device};
use polywarp_cuda::CudaBackend;

/// All cases on a card. On the interpreted driver some of f32 and of other dtypes of each family, and of the rest another
/// part every day: `shaders/tests/suite/ptx.rs` interprets the same kernels without a driver.
#[test]
fn cuda_conforms_and_nothing_is_unsupported() {
    let Some(backend) = common::first() else { return };
    println!("{backend:?}");
    let device = Device::new(backend);
    let selection = common::selection();
    let whole = selection.level == Level::Full || selection.family.is_some() || selection.filter.is_some();
    let (part, in_full) =
        if whole || !common::interpreted() { (Part::ALL, None) } else { (Part::today(32), Some(DType::F32)) };
    let report = run(&device, &Selection { part, in_full, ..selection }, &mut |_| {});
    println!("{report}");
    assert!(report.ok(), "{}", report.problem().unwrap_or_default());
    for refused in &report.unsupported {
        // Every dtype is there: only single functions of 64-bit types may be missing, as on wgpu.
        let wide = ["f64", "i64", "u64"].iter().any(|dtype| refused.reason.contains(dtype));
        let whole = refused.reason.contains("cannot compute in");
        assert!(wide && !whole, "{} cases: {} (such as {})", refused.cases, refused.reason, refused.example);
    }
}

/// What compute-sanitizer's initcheck tells on a card: no kernel, and no copy to the host, reads memory that nobody has written.
/// Without the pool, whose memory was written by whoever had it before. One of 24 cases: kernels differ in this by their tails, which
/// most cases have.
#[test]
fn no_kernel_reads_what_nobody_has_written() {
    const NAME: &str = "no_kernel_reads_what_nobody_has_written";
    if common::is_child(NAME) {
        let device = Device::new(common::first().expect("the interpreted driver"));
        let report = run(&device, &Selection { part: Part::today(24), ..common::selection() }, &mut |_| {});
        // After a fault nothing works any more: the first failure tells.
        assert!(report.ok(), "{:?}: {:?}", report.problem(), report.failures.first());
        println!("SURVIVED");
        return;
    }
    let variables = [("INTERPRETED_UNWRITTEN", "1"), ("POLYWARP_CUDA_POOL", "off"), ("POLYWARP_KERNELS", "off")];
    // Kernels read whole quads: behind the last element of a graph's temporary nobody has written. They are those of other families.
    for family in REGISTRY.iter().filter(|family| !family.is_composed()) {
        let family = [("POLYWARP_TEST_FAMILY", family.name), ("POLYWARP_TEST_FILTER", ""), ("POLYWARP_TEST_LEVEL", "")];
        if !common::on_interpreted_within(Duration::from_secs(600), NAME, &[&variables[..], &family].concat()) {
            return;
        }
    }
}

fn assert_all(rows: &[Row]) {
    common::assert_rows("cuda:0", rows, 10);
}

#[test]
fn memory_order_and_users_kernels_are_as_promised() {
    let _card = common::card_to_myself();
    let Some(backend) = common::first() else { return };
    let device = Device::new(backend);
    let backend = device.backend_as::<CudaBackend>().expect("cuda");
    let mut rows = contract::run(&device);
    rows.push(contract::driver_out_of_memory(&device, &|count| backend.inject_out_of_memory(count)));
    common::assert_rows(device.id(), &rows, 32);
}

#[test]
fn every_bad_request_is_refused() {
    let Some(backend) = common::first() else { return };
    assert_all(&bad_input::run(&Device::new(backend)));
}

#[test]
fn what_fits_runs_and_what_does_not_is_known() {
    let Some(backend) = common::first() else { return };
    assert_all(&fit::run(&Device::new(backend)));
}

#[test]
fn recordings_replay_what_they_recorded() {
    let Some(backend) = common::first() else { return };
    assert_all(&recording::run(&Device::new(backend)));
}
