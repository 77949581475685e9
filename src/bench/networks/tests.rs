//! Every job on the CPU, with networks as small as they can be.

use polywarp_nn::models::ResNetBlock;

use super::*;

/// Both networks, as small as they can be.
pub fn small() -> [Network; 2] {
    let bert = BertConfig {
        vocabulary: 50,
        hidden: 16,
        layers: 1,
        heads: 2,
        intermediate: 32,
        positions: 16,
        ..BertConfig::base()
    };
    let stages = vec![[1, 8], [1, 8]];
    let resnet =
        ResNetConfig { block: ResNetBlock::Bottleneck, stages, stem: 8, classes: 5, ..ResNetConfig::resnet50() };
    [
        Network { name: "small-bert", kind: Kind::Bert(bert, 15) },
        Network { name: "small-resnet", kind: Kind::ResNet(resnet, 24) },
    ]
}

/// The shortest measurement, profiled.
fn quick() -> Options {
    Options { budget: std::time::Duration::from_millis(1), profiled: true, ..Options::default() }
}

#[test]
fn names_of_a_devices_jobs_are_identities() {
    for kind in [DeviceKind::Cpu, DeviceKind::Software, DeviceKind::Discrete] {
        for size in [BenchSize::Small, BenchSize::Normal, BenchSize::Large] {
            let mut names: Vec<String> = jobs(kind, size).iter().map(Job::name).collect();
            assert!(names.iter().all(|name| name.starts_with("bert-base ") || name.starts_with("resnet50 ")));
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all, "{kind:?} {size:?}");
        }
    }
    let large = jobs(DeviceKind::Discrete, BenchSize::Large);
    assert!(large.iter().any(|job| job.name() == "bert-base train bf16 b32 in 4 parts"));
    assert!(large.iter().any(|job| job.name() == "resnet50 classify f16 b64"));
}

/// Every job, planned as for a GPU but run on the CPU, runs, gives right numbers, learns, and computes in the types that it names.
#[test]
fn every_job_is_measured_and_right() {
    let device = Device::cpu();
    let jobs = jobs_of(DeviceKind::Discrete, BenchSize::Small, small());
    let planned: Vec<(&Device, Job)> = jobs.into_iter().map(|job| (&device, job)).collect();
    let mut told = Vec::new();
    let mut table = Table { networks: Vec::new(), skipped: Vec::new(), ..crate::bench::html::tests::table() };
    // Each call has the rows measured until then, with their speedups.
    measure(&planned, &quick(), &mut table, &mut |at, so_far| {
        assert_eq!((at.done, so_far.networks.iter().all(|row| row.speedup.is_some())), (so_far.networks.len(), true));
        told.push((at.done, at.total));
    });
    let Table { networks: rows, skipped, .. } = &table;
    assert!(skipped.is_empty(), "{skipped:?}");
    assert_eq!((rows.len(), told.len(), told[0]), (planned.len(), planned.len(), (0, planned.len())));
    for row in rows {
        assert!(row.per_second > 0.0 && row.per_second_with_transfer > 0.0 && row.peak_bytes > 0, "{row:?}");
        assert!(row.launches > 10 && row.step_ns <= row.cold_ns, "{row:?}");
        assert_eq!(row.profile.as_ref().map(|profile| profile.launches.len()), Some(row.launches), "{row:?}");
        assert_eq!(row.losses.is_some(), row.task == "train", "{row:?}");
        assert!(row.losses.is_none_or(|(first, last)| first.is_finite() && last.is_finite()), "{row:?}");
        assert!(row.wanted_batch.is_none() && row.speedup.is_some_and(|x| x > 0.0), "{row:?}");
    }
    // The CPU has a speedup of 1 over itself.
    let trained = rows.iter().find(|row| row.case == "small-bert train f32 b2").unwrap();
    assert_eq!(trained.speedup, Some(1.0));
}

#[test]
fn error_is_a_share_of_what_is_expected() {
    assert_eq!(error_of(&[1.0, 2.0], &[1.0, 2.0]), 0.0);
    let off = error_of(&[3.0, 4.5], &[3.0, 4.0]);
    assert!((off - 0.1).abs() < 1e-9, "{off}");
    for wrong in [&[1.0, f32::NAN][..], &[1.0]] {
        assert_eq!(error_of(wrong, &[1.0, 2.0]), f64::INFINITY);
    }
}

/// A batch that memory does not hold is halved until it fits, and the row says what was wanted.
#[test]
fn a_batch_that_does_not_fit_is_halved_and_said_so() {
    let device = Device::cpu();
    let [bert, _] = small();
    let job = |batch| Job { network: bert.clone(), task: Task::Ask, compute: Compute::F32, batch, parts: 1 };
    let mut references = References::default();
    let mut measured = |batch: u64| row(&device, &job(batch), &quick(), &mut references);
    let fits = measured(4).unwrap().unwrap();
    assert_eq!((fits.batch, fits.wanted_batch), (4, None));
    device.set_memory_limit(Some(fits.peak_bytes * 5 / 4));
    let halved = measured(64).unwrap().unwrap();
    assert!(halved.batch < 64 && halved.wanted_batch == Some(64), "{halved:?}");
    assert_eq!(halved.case, format!("small-bert encode f32 b{}", halved.batch));
    let mut text = String::new();
    text::write_row(&halved, 0, &mut text).unwrap();
    assert!(text.contains("64 do not fit"), "{text}");
    assert!(smaller_batches(&[halved]).is_some_and(|text| text.ends_with(": cpu")));
    // Where not even one fits there is nothing to measure.
    device.set_memory_limit(Some(1024));
    assert!(is_too_large(&measured(16).unwrap_err()));
}

/// A wrong result has no time.
#[test]
fn what_is_not_right_is_not_timed() {
    let device = Device::cpu();
    let [bert, _] = small();
    let job = |task| Job { network: bert.clone(), task, compute: Compute::F32, batch: 2, parts: 1 };
    let mut references = References::default();
    for task in [Task::Ask, Task::Train] {
        let job = job(task);
        let judged = |references: &mut References| row(&device, &job, &quick(), references).unwrap();
        assert!(judged(&mut references).is_ok());
        references.0.last_mut().unwrap().2.iter_mut().for_each(|x| *x += 1.0);
        let wrong = judged(&mut references).unwrap_err();
        assert!(wrong.starts_with("wrong result"), "{wrong}");
    }
}
