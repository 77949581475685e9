//! A step of a network: built, checked, recorded, replayed.
//!
//! Weights come from one seed, texts and images from one rule, so that every device computes the same numbers. The
//! decision to know: every text has the same number of hidden words. So all parts of a batch have the same weight, and
//! the mean of their losses is the loss of the batch.

use std::time::{Duration, Instant};

use polywarp_core::{Clock, DType, Device, Expr, Generator, Profile, Recording, Result, Tape, Tensor};
use polywarp_nn::models::{Bert, BertInput, FoldedResNet, ResNet};
use polywarp_nn::{
    Adam, Builder, Dropout, LossScale, LossScaleOptions, Method, Mode, Optimiser, Parameters, Schedule, Sgd,
    StepOptions, Watched,
};

use super::super::Timing;
use super::{Compute, Job, Kind, Task};

/// Texts or images in the check of a step.
const CHECKED: u64 = 2;
/// The token that replaces a hidden word.
const MASK: i32 = 4;
/// The target of words that do not count in the loss.
const IGNORED: i32 = -100;
/// One of this many words is hidden.
const HIDDEN: usize = 7;

enum Net {
    Bert(Bert),
    ResNet(ResNet),
}

/// The data of a step, on the host.
enum Data {
    /// Words and targets.
    Texts(Vec<i32>, Vec<i32>),
    /// Pixels and classes.
    Images(Vec<u8>, Vec<i32>),
}

/// The parts that only training has.
struct Training {
    optimiser: Optimiser,
    scale: Option<LossScale>,
    /// Parts of a batch, `[1]`.
    count: Tensor,
    /// The random numbers of dropout.
    generator: Option<Generator>,
}

/// A network for inference.
enum Asked {
    /// The network's parameters, in the dtype of the job.
    Parameters(Watched),
    Folded(Box<FoldedResNet>),
}

/// The purpose for which a network is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// Comparing numbers: small steps, no dropout.
    Check,
    /// Timing steps as a user runs them.
    Timing,
}

/// A network with everything that a step of it reads and changes.
struct Work {
    job: Job,
    device: Device,
    net: Net,
    parameters: Parameters,
    /// The network for inference, where nothing is trained.
    asked: Option<Asked>,
    training: Option<Training>,
    data: Data,
    /// Words or pixels, and targets.
    batch: [Tensor; 2],
}

/// A recorded step.
pub struct Step {
    work: Work,
    recording: Recording<Tensor>,
    cold_ns: f64,
    first: f32,
}

impl Step {
    /// The numbers of the check, on a few texts or images and without randomness: for training the losses before and
    /// after a step, for inference the result.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn check(job: &Job, device: &Device) -> Result<Vec<f32>> {
        let work = Work::new(&Job { batch: CHECKED, parts: 1, ..job.clone() }, device, Use::Check)?;
        match job.task {
            Task::Train => (0..2).map(|_| work.step()?.item::<f32>()).collect(),
            Task::Ask => work.step()?.cast(DType::F32)?.to_vec::<f32>(),
        }
    }

    /// Runs the step once and records it.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn new(job: &Job, device: &Device) -> Result<Step> {
        let start = Instant::now();
        let work = Work::new(job, device, Use::Timing)?;
        let result = work.step()?;
        let first = if job.task == Task::Train { result.item::<f32>()? } else { 0.0 };
        device.synchronize()?;
        let cold_ns = start.elapsed().as_secs_f64() * 1e9;
        drop(result);
        let recording = device.record(|| work.step())?;
        Ok(Step { work, recording, cold_ns, first })
    }

    /// Launches of a step.
    pub fn launches(&self) -> usize {
        self.recording.launches()
    }

    /// Building the network and its first step, nanoseconds by the host's clock.
    pub fn cold_ns(&self) -> f64 {
        self.cold_ns
    }

    /// `count` replays; nanoseconds for all of them by the host's clock.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn replays(&self, count: u64) -> Result<f64> {
        let start = Instant::now();
        for _ in 0..count {
            self.recording.replay()?;
        }
        self.work.device.synchronize()?;
        Ok(start.elapsed().as_secs_f64() * 1e9)
    }

    /// The time of a step, measured for about four times `budget` after some steps of warm-up.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn time(&self, budget: Duration) -> Result<Timing> {
        const SAMPLES: usize = 5;
        let budget_ns = budget.as_secs_f64() * 1e9;
        let mut one = self.replays(1)?;
        // Clocks rise while a card works.
        if one < budget_ns {
            let count = (budget_ns / one.max(1.0)).clamp(1.0, 1000.0) as u64;
            one = self.replays(count)? / count as f64;
        }
        let count = (4.0 * budget_ns / SAMPLES as f64 / one.max(1.0)).clamp(1.0, 1000.0) as u64;
        let samples = if one > 4.0 * budget_ns { 1 } else { SAMPLES };
        let mut times = (0..samples).map(|_| Ok(self.replays(count)? / count as f64)).collect::<Result<Vec<f64>>>()?;
        times.sort_unstable_by(f64::total_cmp);
        let (fastest_ns, slowest_ns) = (times[0], times[times.len() - 1]);
        Ok(Timing { median_ns: times[times.len() / 2], fastest_ns, slowest_ns, clock: Clock::Host })
    }

    /// The time of a step that includes copying its data in and its result out; the better of two.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn time_with_transfer(&self) -> Result<f64> {
        let mut best = f64::INFINITY;
        for _ in 0..2 {
            let start = Instant::now();
            self.work.feed()?;
            self.recording.replay()?.to_bytes()?;
            best = best.min(start.elapsed().as_secs_f64() * 1e9);
        }
        Ok(best)
    }

    /// The launches of a step.
    ///
    /// # Errors
    /// As [`Device::profile`].
    pub fn profile(&self) -> Result<Profile> {
        let device = &self.work.device;
        Ok(device.profile(|| self.recording.replay().map(|_| ()))?.1)
    }

    /// Training only: the loss of the first step and of the last one.
    ///
    /// # Errors
    /// Errors of the device.
    pub fn losses(&self) -> Result<Option<(f64, f64)>> {
        if self.work.job.task != Task::Train {
            return Ok(None);
        }
        Ok(Some((f64::from(self.first), f64::from(self.recording.outputs().item::<f32>()?))))
    }
}

impl Work {
    fn new(job: &Job, device: &Device, use_of: Use) -> Result<Work> {
        let mut builder = Builder::new(0).with_decay_of_all();
        let (net, data) = match &job.network.kind {
            Kind::Bert(config, tokens) => {
                (Net::Bert(Bert::new(&mut builder, *config)?), texts(job.batch, *tokens, config.vocabulary))
            }
            Kind::ResNet(config, side) => {
                let data = images(job.batch, side * side * config.channels, config.classes);
                (Net::ResNet(ResNet::new(&mut builder, config.clone())?), data)
            }
        };
        let parameters = builder.build(device)?;
        let shape = |last: &[u64]| [&[job.batch], last].concat();
        let batch = match &job.network.kind {
            Kind::Bert(_, tokens) => {
                let words = || Tensor::zeros(device, DType::I32, shape(&[*tokens]));
                [words()?, words()?]
            }
            Kind::ResNet(config, side) => [
                Tensor::zeros(device, DType::U8, shape(&[*side, *side, config.channels]))?,
                Tensor::zeros(device, DType::I32, shape(&[]))?,
            ],
        };
        let training = (job.task == Task::Train).then(|| Training::new(job, &parameters, use_of)).transpose()?;
        let asked = None;
        let mut work = Work { job: job.clone(), device: device.clone(), net, parameters, asked, training, data, batch };
        work.feed()?;
        if work.training.is_none() {
            work.asked = Some(work.as_asked()?);
        }
        Ok(work)
    }

    /// The network for inference after training.
    fn as_asked(&self) -> Result<Asked> {
        let policy = self.job.compute.policy();
        let Net::ResNet(net) = &self.net else { return self.parameters.unwatched_as(policy).map(Asked::Parameters) };
        let folded = net.folded(&self.parameters.unwatched(), policy.compute)?;
        if self.job.compute != Compute::I8 {
            return Ok(Asked::Folded(Box::new(folded)));
        }
        folded.quantised(&[self.pixels(&self.batch[0])?]).map(Box::new).map(Asked::Folded)
    }

    /// Copies the batch to the device.
    fn feed(&self) -> Result<()> {
        match &self.data {
            Data::Texts(words, targets) => {
                self.batch[0].write(words)?;
                self.batch[1].write(targets)
            }
            Data::Images(pixels, classes) => {
                self.batch[0].write(pixels)?;
                self.batch[1].write(classes)
            }
        }
    }

    /// Runs one step: returns the loss before it, or the output of the network.
    fn step(&self) -> Result<Tensor> {
        match (&self.training, &self.asked) {
            (Some(training), _) => self.train(training),
            (None, Some(Asked::Parameters(asked))) => {
                self.output(asked, &self.batch[0], Dropout::none(), Mode::Evaluation)
            }
            (None, Some(Asked::Folded(net))) => net.forward(&self.pixels(&self.batch[0])?),
            (None, None) => unreachable!("what is not trained is asked"),
        }
    }

    fn train(&self, training: &Training) -> Result<Tensor> {
        let Job { parts, batch, .. } = self.job;
        if parts > 1 {
            self.parameters.zero_gradients()?;
        }
        let mut sum: Option<Tensor> = None;
        for part in 0..parts {
            let range = batch * part / parts..batch * (part + 1) / parts;
            let [x, y] = [self.batch[0].slice(0, range.clone())?, self.batch[1].slice(0, range)?];
            let tape = Tape::new();
            let watched = self.parameters.watch_as(&tape, self.job.compute.policy())?;
            let dropout = training.generator.as_ref().map_or_else(Dropout::none, Dropout::by);
            let loss = self.loss(&watched, &x, &y, dropout)?;
            let scaled = match &training.scale {
                Some(scale) => loss.mul(&scale.scale().reshape(*loss.shape())?)?,
                None => loss.clone(),
            };
            if parts == 1 {
                self.parameters.backward(tape, &watched, &scaled)?;
            } else {
                self.parameters.accumulate(&watched, &tape.backward(&scaled)?)?;
            }
            sum = Some(match sum {
                Some(sum) => sum.add(&loss)?,
                None => loss,
            });
        }
        let count = (parts > 1).then_some(&training.count);
        let options = StepOptions { scale: training.scale.as_ref(), count, clip: None };
        training.optimiser.step(&self.parameters, &options)?;
        let sum = sum.expect("a batch has a part");
        if parts > 1 { sum.mul_scalar(1.0 / parts as f64) } else { Ok(sum) }
    }

    fn loss(&self, watched: &Watched, x: &Tensor, y: &Tensor, dropout: Dropout<'_>) -> Result<Tensor> {
        let output = self.output(watched, x, dropout, Mode::Training)?;
        match &self.net {
            Net::Bert(bert) => bert.loss(watched, &output, y),
            Net::ResNet(_) => output.cross_entropy(y),
        }
    }

    /// Vectors of tokens, or logits.
    fn output(&self, watched: &Watched, x: &Tensor, dropout: Dropout<'_>, mode: Mode) -> Result<Tensor> {
        match &self.net {
            Net::Bert(bert) => bert.forward(watched, &BertInput::new(x), dropout),
            Net::ResNet(net) => net.forward(watched, &self.pixels(x)?, mode),
        }
    }

    /// Bytes as numbers of mean about 0 and deviation about 1, in the dtype of the job.
    fn pixels(&self, x: &Tensor) -> Result<Tensor> {
        let pixel = Expr::input(0).cast(DType::F32) * Expr::constant(1.0 / 64.0) - Expr::constant(2.0);
        Tensor::map(&pixel.cast(self.job.compute.policy().compute), &[x])
    }
}

impl Training {
    fn new(job: &Job, parameters: &Parameters, use_of: Use) -> Result<Training> {
        let device = parameters.device();
        let (method, rate) = match job.network.kind {
            Kind::Bert(..) => (Method::AdamW(Adam { decay: 0.01, ..Adam::default() }), 1e-4),
            Kind::ResNet(..) => (Method::Sgd(Sgd { momentum: 0.9, decay: 1e-4, ..Sgd::default() }), 0.01),
        };
        // A small step, along which the loss is nearly straight: after a large one, results in 16 bits differ too much.
        let rate = if use_of == Use::Check { rate / 10.0 } else { rate };
        // Large enough that gradients do not vanish, small enough that no step is skipped at the start.
        let scaling = LossScaleOptions { initial: 1024.0, ..LossScaleOptions::default() };
        let is_scaled = job.compute == Compute::F16;
        let draws = use_of == Use::Timing && matches!(job.network.kind, Kind::Bert(..));
        Ok(Training {
            optimiser: Optimiser::new(parameters, method, Schedule::Constant, rate)?,
            scale: is_scaled.then(|| LossScale::new(device, scaling)).transpose()?,
            count: Tensor::from_slice(device, &[job.parts as f32], [1])?,
            generator: draws.then(|| Generator::new(device, 1)).transpose()?,
        })
    }
}

/// Marsaglia's xorshift64.
fn numbers() -> impl FnMut() -> u64 {
    let mut state = 0x9e37_79b9_7f4a_7c15u64;
    move || {
        for (left, by) in [(true, 13), (false, 7), (true, 17)] {
            state ^= if left { state << by } else { state >> by };
        }
        state >> 16
    }
}

/// Texts of random words, every seventh of them hidden.
fn texts(texts: u64, tokens: u64, vocabulary: u64) -> Data {
    const SPECIAL: u64 = 5;
    let mut next = numbers();
    let (mut words, mut targets) = (Vec::new(), Vec::new());
    for at in (0..texts).flat_map(|_| 0..tokens as usize) {
        let word = (SPECIAL + next() % vocabulary.saturating_sub(SPECIAL).max(1)) as i32;
        let is_hidden = at % HIDDEN == 0;
        words.push(if is_hidden { MASK } else { word });
        targets.push(if is_hidden { word } else { IGNORED });
    }
    Data::Texts(words, targets)
}

/// Images of random pixels and their random classes.
fn images(images: u64, pixels: u64, classes: u64) -> Data {
    let mut next = numbers();
    let all = (0..images * pixels).map(|_| next() as u8).collect();
    Data::Images(all, (0..images).map(|_| (next() % classes.max(1)) as i32).collect())
}

#[cfg(test)]
mod tests {
    use super::super::tests::small;
    use super::*;

    /// Gradients added up over parts give the same step as the whole batch.
    #[test]
    fn parts_of_a_batch_make_the_same_step() {
        let [network, _] = small();
        let losses = |parts: u64| -> Vec<f32> {
            let job = Job { network: network.clone(), task: Task::Train, compute: Compute::F32, batch: 4, parts };
            let work = Work::new(&job, &Device::cpu(), Use::Check).unwrap();
            (0..4).map(|_| work.step().unwrap().item::<f32>().unwrap()).collect()
        };
        let [whole, parts] = [1, 4].map(losses);
        assert!(whole[3] < whole[0], "{whole:?}");
        assert!(whole.iter().zip(&parts).all(|(x, y)| (x / y - 1.0).abs() < 1e-5), "{whole:?} {parts:?}");
    }
}
