//! A recorded step is the step, and takes no memory as it is replayed.

use polywarp_core::{Device, Result, Tensor};
use polywarp_nn::{
    Adam, Average, Clip, Lamb, LossScale, LossScaleOptions, Method, Optimiser, Parameters, Ramp, Schedule, Sgd,
    StepOptions,
};

use super::support::{Problem, bits, parameters, values};

/// Everything that a step may have.
struct Training {
    parameters: Parameters,
    problem: Problem,
    optimiser: Optimiser,
    scale: LossScale,
    clip: Clip,
    average: Average,
}

impl Training {
    fn new(device: &Device, method: Method) -> Training {
        let parameters = parameters(device);
        let schedule = Schedule::Cosine { warm_up: 3, total: 40, least: 0.1 };
        let scaling = LossScaleOptions { interval: 4, ..LossScaleOptions::default() };
        Training {
            optimiser: Optimiser::new(&parameters, method, schedule, 0.05).unwrap(),
            problem: Problem::new(device),
            scale: LossScale::new(device, scaling).unwrap(),
            clip: Clip::new(device, 1.0).unwrap(),
            average: Average::new(&parameters, 0.99, Ramp::Yes).unwrap(),
            parameters,
        }
    }

    fn step(&self) -> Result<Tensor> {
        let loss = self.problem.backward(&self.parameters, Some(self.scale.scale()))?;
        let options = StepOptions { scale: Some(&self.scale), clip: Some(&self.clip), count: None };
        self.optimiser.step(&self.parameters, &options)?;
        self.average.update(&self.parameters, &self.optimiser)?;
        Ok(loss)
    }

    fn state(&self) -> Vec<Vec<u32>> {
        let numbers = [self.optimiser.steps(), self.optimiser.rate(), self.scale.scale(), self.clip.norm()];
        let numbers = numbers.map(|number| number.to_vec::<f32>().unwrap());
        let averages = self.average.values().iter().map(|(_, view)| view.to_vec::<f32>().unwrap());
        let all: Vec<Vec<f32>> = values(&self.parameters).into_iter().chain(averages).chain(numbers).collect();
        bits(&all)
    }
}

pub fn replay_equals_eager(device: &Device) {
    let methods = [
        Method::Sgd(Sgd { momentum: 0.9, dampening: 0.1, decay: 0.01, ..Sgd::default() }),
        Method::Adam(Adam::default()),
        Method::AdamW(Adam::default()),
        Method::Lamb(Lamb::default()),
    ];
    for method in methods {
        let (eager, replayed) = (Training::new(device, method), Training::new(device, method));
        let recording = device.record(|| replayed.step()).unwrap();
        for _ in 0..12 {
            let loss = eager.step().unwrap();
            let again = recording.replay().unwrap();
            assert_eq!(loss.item::<f32>().unwrap().to_bits(), again.item::<f32>().unwrap().to_bits());
        }
        assert_eq!(eager.state(), replayed.state(), "{method:?}");
        assert_eq!(replayed.optimiser.steps().item::<f32>().unwrap(), 12.0);
        // Another rate counts at once.
        replayed.optimiser.set_rate(0.0).unwrap();
        let before = values(&replayed.parameters);
        recording.replay().unwrap();
        assert_eq!(bits(&before), bits(&values(&replayed.parameters)));
    }
}

pub fn memory_is_constant_over_replays(device: &Device) {
    let training = Training::new(device, Method::Lamb(Lamb::default()));
    let recording = device.record(|| training.step()).unwrap();
    recording.replay().unwrap();
    device.synchronize().unwrap();
    let before = device.memory();
    let first = recording.outputs().item::<f32>().unwrap();
    for _ in 0..100 {
        recording.replay().unwrap();
    }
    device.synchronize().unwrap();
    assert!(recording.outputs().item::<f32>().unwrap() < first);
    assert_eq!(device.memory().in_use_bytes, before.in_use_bytes);
}

/// Eager steps leave nothing behind, neither their tapes nor what these kept.
pub fn memory_is_constant_over_a_thousand_steps(device: &Device) {
    let training = Training::new(device, Method::AdamW(Adam::default()));
    training.step().unwrap();
    device.synchronize().unwrap();
    let before = device.memory().in_use_bytes;
    // A thousand, but for the interpreter.
    for _ in 0..5 * super::super::bert_steps() {
        for _ in 0..10 {
            training.step().unwrap();
        }
        device.synchronize().unwrap();
        assert_eq!(device.memory().in_use_bytes, before);
    }
}

cases!(replay_equals_eager, memory_is_constant_over_replays, memory_is_constant_over_a_thousand_steps);
