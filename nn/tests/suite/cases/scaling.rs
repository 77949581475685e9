//! Loss scaling, clipping, accumulation and averages.

use polywarp_core::{Device, Tape, Tensor};
use polywarp_nn::{
    Adam, Average, Clip, Lamb, LossScale, LossScaleOptions, Method, Optimiser, Ramp, Schedule, Sgd, StepOptions,
};

use super::support::{Problem, bits, close, gradient, parameters, values};

/// Good steps, an infinite gradient, a NaN, good steps: the scale, the count and the number of steps after each, and that the bad ones
/// change nothing else.
pub fn bad_gradients_skip_the_step(device: &Device) {
    let methods = [
        Method::Sgd(Sgd { momentum: 0.9, ..Sgd::default() }),
        Method::AdamW(Adam::default()),
        Method::Lamb(Lamb::default()),
    ];
    for method in methods {
        let (parameters, problem) = (parameters(device), Problem::new(device));
        let optimiser = Optimiser::new(&parameters, method, Schedule::Constant, 0.01).unwrap();
        let average = Average::new(&parameters, 0.5, Ramp::No).unwrap();
        let options = LossScaleOptions { initial: 1024.0, interval: 3, ..LossScaleOptions::default() };
        let (scale, clip) = (LossScale::new(device, options).unwrap(), Clip::new(device, 100.0).unwrap());
        let step = device
            .record(|| {
                let options = StepOptions { scale: Some(&scale), clip: Some(&clip), count: None };
                optimiser.step(&parameters, &options)?;
                average.update(&parameters, &optimiser)
            })
            .unwrap();
        // What is put among the gradients; the scale, clean steps and steps after it.
        let expected = [
            (None, 1024.0, 1.0, 1.0),
            (None, 1024.0, 2.0, 2.0),
            (Some(f32::INFINITY), 512.0, 0.0, 2.0),
            (None, 512.0, 1.0, 3.0),
            (Some(f32::NAN), 256.0, 0.0, 3.0),
            (None, 256.0, 1.0, 4.0),
            (None, 256.0, 2.0, 5.0),
            (None, 512.0, 0.0, 6.0),
            (None, 512.0, 1.0, 7.0),
        ];
        for (bad, of_scale, clean, steps) in expected {
            problem.backward(&parameters, Some(scale.scale())).unwrap();
            if let Some(bad) = bad {
                parameters.gradients().get("b").unwrap().slice(0, 3..4).unwrap().write(&[bad]).unwrap();
            }
            let state = || {
                let averages = average.values().iter().map(|(_, view)| view.to_vec::<f32>().unwrap());
                bits(&values(&parameters).into_iter().chain(averages).collect::<Vec<_>>())
            };
            let before = state();
            step.replay().unwrap();
            assert_eq!(state() == before, bad.is_some(), "{method:?}");
            let read = |tensor: &Tensor| tensor.item::<f32>().unwrap();
            assert_eq!((read(scale.scale()), read(scale.clean()), read(optimiser.steps())), (of_scale, clean, steps));
            assert_eq!(read(scale.found()), if bad.is_some() { 1.0 } else { 0.0 });
        }
        assert!(values(&parameters).iter().flatten().all(|value| value.is_finite()));
    }
}

/// A power of two as the scale changes no bit of the result.
pub fn scaled_steps_equal_plain_ones(device: &Device) {
    let run = |scale: Option<LossScale>| {
        let (parameters, problem) = (parameters(device), Problem::new(device));
        let optimiser = Optimiser::new(&parameters, Method::AdamW(Adam::default()), Schedule::Constant, 0.01).unwrap();
        for _ in 0..5 {
            problem.backward(&parameters, scale.as_ref().map(LossScale::scale)).unwrap();
            optimiser.step(&parameters, &StepOptions { scale: scale.as_ref(), ..StepOptions::default() }).unwrap();
        }
        bits(&values(&parameters))
    };
    assert_eq!(run(None), run(Some(LossScale::new(device, LossScaleOptions::default()).unwrap())));
}

pub fn scale_stays_within_its_bounds(device: &Device) {
    let parameters = parameters(device);
    let optimiser = Optimiser::new(&parameters, Method::Sgd(Sgd::default()), Schedule::Constant, 0.01).unwrap();
    let largest = (127f32).exp2();
    let after = |initial: f64, gradient: f32| {
        let options = LossScaleOptions { initial, interval: 1, ..LossScaleOptions::default() };
        let scale = LossScale::new(device, options).unwrap();
        parameters.zero_gradients().unwrap();
        parameters.gradients().get("v").unwrap().slice(0, 0..1).unwrap().write(&[gradient]).unwrap();
        optimiser.step(&parameters, &StepOptions { scale: Some(&scale), ..StepOptions::default() }).unwrap();
        scale.scale().item::<f32>().unwrap()
    };
    assert_eq!((after(1.0, f32::NAN), after(1.5, f32::NEG_INFINITY)), (1.0, 1.0));
    assert_eq!((after(f64::from(largest), 1.0), after(f64::from(largest) / 2.0, 1.0)), (largest, largest));
    // A gradient of the largest finite number is none of the bad ones.
    assert_eq!(after(2.0, f32::MAX), 4.0);
}

/// The norm is that of all gradients together, after unscaling; what is below the bound stays.
pub fn clipping_goes_by_the_global_norm(device: &Device) {
    for (bound, is_clipped) in [(0.5, true), (1e4, false)] {
        let (parameters, problem) = (parameters(device), Problem::new(device));
        let start: Vec<Vec<f64>> =
            values(&parameters).into_iter().map(|value| value.into_iter().map(f64::from).collect()).collect();
        let gradients: Vec<Vec<f64>> =
            start.iter().enumerate().map(|(number, value)| gradient(number, value)).collect();
        let norm = gradients.iter().flatten().map(|g| g * g).sum::<f64>().sqrt();
        let coefficient = (bound / (norm + 1e-6)).min(1.0);
        assert_eq!(coefficient < 1.0, is_clipped);

        let optimiser = Optimiser::new(&parameters, Method::Sgd(Sgd::default()), Schedule::Constant, 0.1).unwrap();
        let clip = Clip::new(device, bound).unwrap();
        let scale = LossScale::new(device, LossScaleOptions::default()).unwrap();
        problem.backward(&parameters, Some(scale.scale())).unwrap();
        let options = StepOptions { scale: Some(&scale), clip: Some(&clip), count: None };
        optimiser.step(&parameters, &options).unwrap();
        close(&clip.norm().to_vec().unwrap(), &[norm], 1e-6);
        close(&clip.coefficient().to_vec().unwrap(), &[coefficient], 1e-6);
        for ((found, start), gradient) in values(&parameters).iter().zip(&start).zip(&gradients) {
            let expected: Vec<f64> = start.iter().zip(gradient).map(|(p, g)| p - 0.1 * coefficient * g).collect();
            close(found, &expected, 1e-6);
        }
    }
}

/// Micro-batches of 3 and 1 rows, their losses sums, divided once by 4: the step of the whole batch. A mean of means would be another.
pub fn accumulated_micro_batches_equal_the_batch(device: &Device) {
    let rows = [1.0f32, 2.0, 4.0, 9.0];
    let run = |parts: &[&[f32]]| {
        let parameters = parameters(device);
        let optimiser = Optimiser::new(&parameters, Method::Sgd(Sgd::default()), Schedule::Constant, 0.5).unwrap();
        let count = Tensor::from_slice(device, &[0.0f32], [1]).unwrap();
        parameters.zero_gradients().unwrap();
        for part in parts {
            let tape = Tape::new();
            let watched = parameters.watch(&tape).unwrap();
            let batch = Tensor::from_slice(device, part, [part.len() as u64, 1]).unwrap();
            let loss = watched.get("b").unwrap().mul(&batch).unwrap().sum(..).unwrap();
            let gradients = tape.backward(&loss).unwrap();
            parameters.accumulate(&watched, &gradients).unwrap();
            count.add_scalar_(part.len() as f32).unwrap();
        }
        optimiser.step(&parameters, &StepOptions { count: Some(&count), ..StepOptions::default() }).unwrap();
        values(&parameters)
    };
    let (whole, apart) = (run(&[&rows]), run(&[&rows[..3], &rows[3..]]));
    assert_eq!(bits(&whole), bits(&apart));
    let start = values(&parameters(device));
    let expected: Vec<f64> = start[1].iter().map(|p| f64::from(*p) - 0.5 * 4.0).collect();
    close(&whole[1], &expected, 1e-6);
    assert_eq!(bits(&run(&[])), bits(&start), "a count of 0 skips the step");
}

pub fn averages_follow_the_weights(device: &Device) {
    for ramp in [Ramp::Yes, Ramp::No] {
        let (parameters, problem) = (parameters(device), Problem::new(device));
        let optimiser = Optimiser::new(&parameters, Method::Sgd(Sgd::default()), Schedule::Constant, 0.1).unwrap();
        let average = Average::new(&parameters, 0.9, ramp).unwrap();
        let mut expected: Vec<f64> = values(&parameters)[2].iter().copied().map(f64::from).collect();
        for t in 1..=100 {
            problem.backward(&parameters, None).unwrap();
            optimiser.step(&parameters, &StepOptions::default()).unwrap();
            average.update(&parameters, &optimiser).unwrap();
            let t = f64::from(t);
            let decay = if ramp == Ramp::Yes { ((1.0 + t) / (10.0 + t)).min(0.9) } else { 0.9 };
            let now = &values(&parameters)[2];
            expected.iter_mut().zip(now).for_each(|(e, &p)| *e = decay * *e + (1.0 - decay) * f64::from(p));
            close(&average.values().get("v").unwrap().to_vec().unwrap(), &expected, 2e-6);
        }
    }
}

cases!(
    bad_gradients_skip_the_step,
    scaled_steps_equal_plain_ones,
    scale_stays_within_its_bounds,
    clipping_goes_by_the_global_norm,
    accumulated_micro_batches_equal_the_batch,
    averages_follow_the_weights,
);
