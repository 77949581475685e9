//! A run that was stopped goes on as if it had not been.

use polywarp_core::{Device, Error, Generator, Result, Tensor};
use polywarp_nn::{
    Adam, Average, Checkpoint, Lamb, LossScale, LossScaleOptions, Method, Optimiser, Parameters, Ramp, Schedule, Sgd,
    StepOptions,
};

use super::files::Folder;
use super::support::{Problem, bits, parameters, values};

struct Run {
    parameters: Parameters,
    optimiser: Optimiser,
    scale: LossScale,
    average: Average,
    generator: Generator,
    problem: Problem,
}

fn generator(device: &Device, state: [u32; 4]) -> Generator {
    let generator = Generator::new(device, 0).unwrap();
    generator.set_state(state).unwrap();
    generator
}

impl Run {
    fn new(device: &Device, method: Method) -> Run {
        let parameters = parameters(device);
        let schedule = Schedule::Linear { warm_up: 2, total: 30 };
        let options = LossScaleOptions { interval: 4, ..LossScaleOptions::default() };
        Run {
            optimiser: Optimiser::new(&parameters, method, schedule, 0.05).unwrap(),
            scale: LossScale::new(device, options).unwrap(),
            average: Average::new(&parameters, 0.9, Ramp::Yes).unwrap(),
            // Its streams carry in the sixth key.
            generator: generator(device, [9, 8, u32::MAX - 4, 7]),
            problem: Problem::new(device),
            parameters,
        }
    }

    fn step(&self) -> Result<Tensor> {
        // Half of all steps have gradients of zero, the others twice their own.
        let factor = self.scale.scale().dropout(0.5, &self.generator)?;
        let loss = self.problem.backward(&self.parameters, Some(&factor))?;
        self.optimiser.step(&self.parameters, &StepOptions { scale: Some(&self.scale), ..StepOptions::default() })?;
        self.average.update(&self.parameters, &self.optimiser)?;
        Ok(loss)
    }

    fn checkpoint(&self) -> Checkpoint<'_> {
        let (scale, average) = (Some(&self.scale), Some(&self.average));
        let generator = Some(&self.generator);
        Checkpoint { parameters: &self.parameters, optimiser: &self.optimiser, scale, average, generator }
    }

    fn state(&self) -> Vec<Vec<u32>> {
        let averages = self.average.values().iter().map(|(_, view)| view.to_vec::<f32>().unwrap());
        let numbers =
            [self.optimiser.steps(), self.scale.scale(), self.scale.clean()].map(|number| number.to_vec().unwrap());
        bits(&values(&self.parameters).into_iter().chain(averages).chain(numbers).collect::<Vec<_>>())
    }
}

pub fn stopped_run_goes_on_bit_for_bit(device: &Device) {
    let folder = Folder::new("goes-on");
    let sgd = Sgd { momentum: 0.9, dampening: 0.2, ..Sgd::default() };
    for method in [Method::Sgd(sgd), Method::AdamW(Adam::default()), Method::Lamb(Lamb::default())] {
        let path = folder.file(method.name());
        let (straight, stopped, next) = (Run::new(device, method), Run::new(device, method), Run::new(device, method));
        (0..10).for_each(|_| drop(straight.step().unwrap()));
        (0..5).for_each(|_| drop(stopped.step().unwrap()));
        stopped.checkpoint().save(&path).unwrap();
        // A recording that was made before goes on with what is loaded.
        let recording = device.record(|| next.step()).unwrap();
        next.checkpoint().load(&path).unwrap();
        assert_eq!(next.state(), stopped.state());
        for _ in 0..5 {
            recording.replay().unwrap();
        }
        assert_eq!(next.state(), straight.state(), "{method:?}");
        assert_eq!(next.generator.state().unwrap(), straight.generator.state().unwrap());
        assert_eq!(next.generator.state().unwrap(), [9, 8, 5, 8]);
    }
}

pub fn checkpoints_of_other_runs_are_refused_whole(device: &Device) {
    let folder = Folder::new("others");
    let path = folder.file("run");
    let run = Run::new(device, Method::AdamW(Adam::default()));
    run.step().unwrap();
    run.checkpoint().save(&path).unwrap();
    let refuse = |other: &Run, checkpoint: Checkpoint<'_>, expected: &str| {
        let before = other.state();
        let error = checkpoint.load(&path).unwrap_err();
        assert!(matches!(error, Error::File { .. }) && error.to_string().contains(expected), "{error}");
        assert_eq!(other.state(), before);
    };
    let sgd = Run::new(device, Method::Sgd(Sgd::default()));
    refuse(&sgd, sgd.checkpoint(), "polywarp.method is adamw, not sgd");
    let same = Run::new(device, Method::AdamW(Adam::default()));
    refuse(&same, Checkpoint { scale: None, ..same.checkpoint() }, "tensor `scale.clean`: nothing here takes it");
    refuse(
        &same,
        Checkpoint { generator: None, ..same.checkpoint() },
        "tensor `generator.high`: nothing here takes it",
    );
    Checkpoint { generator: None, ..run.checkpoint() }.save(&path).unwrap();
    refuse(&same, same.checkpoint(), "tensor `generator.low`: there is none of this name");
    Checkpoint { average: None, ..run.checkpoint() }.save(&path).unwrap();
    refuse(&same, same.checkpoint(), "tensor `average.w`: there is none of this name");
    polywarp_nn::file::save(&path, &[], &Default::default()).unwrap();
    refuse(&same, same.checkpoint(), "polywarp.checkpoint is missing, not 1");
}

cases!(stopped_run_goes_on_bit_for_bit, checkpoints_of_other_runs_are_refused_whole);
