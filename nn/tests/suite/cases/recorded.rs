//! A recorded step is the step, and takes no memory as it is replayed.

use polywarp_core::harness::Part;
use polywarp_core::{Device, DeviceKind, Generator, Result, Tape, Tensor};
use polywarp_nn::{
    Adam, Average, Bias, Builder, Clip, Dropout, Lamb, Linear, LossScale, LossScaleOptions, Method, Optimiser,
    Parameters, Ramp, Schedule, Sgd, StepOptions, Watched,
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

/// Layers whose stretches run again: the loss and the gradients that the same layers have with the same random numbers, bit for bit, and less memory.
pub fn stretches_run_again_with_the_same_numbers(device: &Device) {
    const LAYERS: usize = 6;
    let mut builder = Builder::new(2);
    let names: Vec<String> = (0..LAYERS).map(|number| format!("layer.{number}")).collect();
    let layers: Vec<Linear> =
        names.iter().map(|name| Linear::new(&mut builder, name, 32, 32, Bias::Yes).unwrap()).collect();
    let parameters = builder.build(device).unwrap();
    let host: Vec<f32> = (0..32 * 64).map(|n| ((n * 37) % 64) as f32 / 32.0 - 1.0).collect();
    let x = Tensor::from_slice(device, &host, [64, 32]).unwrap();
    fn layer(layer: &Linear, parameters: &Watched, x: &Tensor, dropout: Dropout<'_>) -> Result<Tensor> {
        dropout.forward(&layer.forward(parameters, x)?.gelu()?.tanh()?.exp()?, 0.25)
    }
    // The loss, the gradients, and what the tape kept.
    let run = |again: bool| {
        let generator = Generator::new(device, 9).unwrap();
        let tape = Tape::new();
        let watched = parameters.watch(&tape).unwrap();
        let before = device.memory().in_use_bytes;
        let mut y = x.clone();
        for number in &layers {
            y = if again {
                let number = number.clone();
                let run = move |parameters: &Watched, inputs: &[Tensor], dropout: Dropout<'_>| {
                    Ok(vec![layer(&number, parameters, &inputs[0], dropout)?])
                };
                watched.checkpoint(&tape, &[&y], Dropout::by(&generator), run).unwrap().swap_remove(0)
            } else {
                layer(number, &watched, &y, Dropout::by(&generator.fork().unwrap())).unwrap()
            };
        }
        let loss = y.sum(..).unwrap();
        let kept = device.memory().in_use_bytes - before;
        parameters.backward(tape, &watched, &loss).unwrap();
        let gradients: Vec<Vec<f32>> =
            parameters.gradients().iter().map(|(_, view)| view.to_vec::<f32>().unwrap()).collect();
        (loss.item::<f32>().unwrap().to_bits(), bits(&gradients), kept)
    };
    let (whole, again) = (run(false), run(true));
    assert_eq!((again.0, &again.1), (whole.0, &whole.1));
    assert!(again.1.iter().all(|gradient| gradient.iter().any(|&bits| bits != 0)), "a gradient is zero");
    assert!(2 * again.2 < whole.2, "{} bytes kept, {} without", again.2, whole.2);
    // No dropout draws nothing.
    let tape = Tape::new();
    let watched = parameters.watch(&tape).unwrap();
    let first = layers[0].clone();
    let run = move |parameters: &Watched, inputs: &[Tensor], dropout: Dropout<'_>| {
        Ok(vec![layer(&first, parameters, &inputs[0], dropout)?])
    };
    let y = watched.checkpoint(&tape, &[&x], Dropout::none(), run).unwrap().swap_remove(0);
    let same = layer(&layers[0], &parameters.unwatched(), &x, Dropout::none()).unwrap();
    assert_eq!(y.to_bytes().unwrap(), same.to_bytes().unwrap());
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
    // A thousand, but for the interpreter; on software GPUs one day of five.
    let is_short = device.info().kind == DeviceKind::Software && !Part::today(5).is_turn_of(0);
    let rounds = if is_short { 1 } else { 5 } * super::super::bert_steps();
    for _ in 0..rounds {
        for _ in 0..10 {
            training.step().unwrap();
        }
        device.synchronize().unwrap();
        assert_eq!(device.memory().in_use_bytes, before);
    }
}

cases!(
    replay_equals_eager,
    memory_is_constant_over_replays,
    memory_is_constant_over_a_thousand_steps,
    stretches_run_again_with_the_same_numbers,
);
