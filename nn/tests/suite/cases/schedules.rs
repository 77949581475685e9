//! Schedules against their formulas in f64.

use std::f64::consts::PI;

use polywarp_core::Device;
use polywarp_nn::{Method, Optimiser, Schedule, Sgd, StepOptions};

use super::support::parameters;

/// transformers' and PyTorch's formulas; behind `total` what is left stays.
fn expected(schedule: Schedule, step: u64) -> f64 {
    let k = step as f64;
    let warmed = |warm_up: u64, then: f64| if step < warm_up { k / warm_up as f64 } else { then };
    let progress = |warm_up: u64, total: u64| ((k - warm_up as f64) / (total - warm_up) as f64).min(1.0);
    match schedule {
        Schedule::Constant => 1.0,
        Schedule::WarmUp { warm_up } => warmed(warm_up, 1.0),
        Schedule::Linear { warm_up, total } => warmed(warm_up, 1.0 - progress(warm_up, total)),
        Schedule::Cosine { warm_up, total, least } => {
            warmed(warm_up, least + (1.0 - least) * (1.0 + (PI * progress(warm_up, total)).cos()) / 2.0)
        }
        Schedule::Step { every, factor } => factor.powi((step / every) as i32),
    }
}

/// The rate of each of 60 recorded steps.
pub fn rates_agree(device: &Device) {
    let schedules = [
        Schedule::Constant,
        Schedule::WarmUp { warm_up: 7 },
        Schedule::Linear { warm_up: 7, total: 50 },
        Schedule::Linear { warm_up: 0, total: 50 },
        Schedule::Cosine { warm_up: 7, total: 50, least: 0.0 },
        Schedule::Cosine { warm_up: 0, total: 50, least: 0.1 },
        Schedule::Step { every: 10, factor: 0.1 },
        Schedule::Step { every: 3, factor: 0.5 },
    ];
    for schedule in schedules {
        let parameters = parameters(device);
        let optimiser = Optimiser::new(&parameters, Method::Sgd(Sgd::default()), schedule, 0.3).unwrap();
        let step = device.record(|| optimiser.step(&parameters, &StepOptions::default())).unwrap();
        for k in 0..60 {
            step.replay().unwrap();
            let (found, expected) = (f64::from(optimiser.rate().item::<f32>().unwrap()), 0.3 * expected(schedule, k));
            // 1 + cos cancels in the reference: an absolute error of 2^-53.
            let error = (found - expected).abs();
            assert!(error <= 2e-6 * expected.abs() + 1e-15, "{schedule:?} at {k}: {found}, not {expected}");
        }
    }
}

cases!(rates_agree);
