//! A small ResNet learns to read digits on the CPU, and gives the same answers on every device.
//!
//! Two stages of residual blocks over pictures of 8 x 8 pixels, trained by SGD with momentum in a recorded step on four fifths of the pictures and
//! judged on the fifth it has not seen. The decision to know: the host writes the pictures of a batch and nothing else; rate, running
//! statistics and momentum live on the device. Then the trained weights go to every other device of this machine, whose answers must be
//! the CPU's.
//!
//! Run: `cargo run --release --example train_digits_resnet`. The data and its licence: `data/README.md`.

#[path = "digits/data.rs"]
mod data;

use std::time::Instant;

use polywarp::nn::models::{ResNet, ResNetBlock, ResNetConfig, ResNetEntry};
use polywarp::nn::{Builder, Method, Mode, Optimiser, Parameters, Policy, Schedule, Sgd, StepOptions};
use polywarp::{DType, Device, Result, Tape, Tensor};

/// Pictures of a step.
const BATCH: usize = 96;
/// Times that the pictures are gone through.
const EPOCHS: usize = 16;
/// The highest rate, and the share of the steps in which it is reached.
const RATE: f64 = 0.1;
const WARM_UP: f64 = 0.1;
/// Held-out pictures read rightly, at least.
const ACCURACY: f64 = 0.98;
/// How far a score may be from the CPU's on another device: sums in another order, through a few layers.
const SCORE: f32 = 1e-3;

/// The network and its parameters on a device.
struct Reader {
    net: ResNet,
    parameters: Parameters,
}

impl Reader {
    fn new(device: &Device) -> Result<Reader> {
        let mut builder = Builder::new(1);
        let config = ResNetConfig {
            block: ResNetBlock::Basic,
            stages: vec![[1, 16], [1, 32]],
            channels: 1,
            stem: 16,
            entry: ResNetEntry::Whole,
            classes: 10,
        };
        let net = ResNet::new(&mut builder, config)?;
        Ok(Reader { net, parameters: builder.build(device)? })
    }

    /// One step on a batch; the loss before it.
    fn step(&self, optimiser: &Optimiser, pictures: &Tensor, labels: &Tensor) -> Result<Tensor> {
        let tape = Tape::new();
        let watched = self.parameters.watch_as(&tape, Policy::F32)?;
        let loss = self.net.forward(&watched, pictures, Mode::Training)?.cross_entropy(labels)?;
        self.parameters.backward(tape, &watched, &loss)?;
        optimiser.step(&self.parameters, &StepOptions::default())?;
        Ok(loss)
    }

    /// The scores of pictures, ten for each.
    fn scores(&self, pictures: &Pictures) -> Result<Vec<f32>> {
        let images = Tensor::zeros(self.parameters.device(), DType::F32, shape(pictures.labels.len()))?;
        images.write(&pictures.pixels)?;
        self.net.forward(&self.parameters.unwatched(), &images, Mode::Evaluation)?.to_vec()
    }
}

fn shape(pictures: usize) -> [u64; 4] {
    [pictures as u64, 8, 8, 1]
}

/// Some pictures, their pixels about -1 to 1.
struct Pictures {
    pixels: Vec<f32>,
    labels: Vec<i32>,
}

impl Pictures {
    fn of(digits: &data::Digits, wanted: impl Fn(usize) -> bool) -> Pictures {
        let lines: Vec<usize> = (0..digits.labels.len()).filter(|&line| wanted(line)).collect();
        let pixels = lines.iter().flat_map(|line| &digits.pixels[line * data::PIXELS..][..data::PIXELS]);
        let labels = lines.iter().map(|&line| digits.labels[line] as i32).collect();
        Pictures { pixels: pixels.map(|pixel| pixel / 8.0 - 1.0).collect(), labels }
    }
}

/// The digit with the highest score.
fn read(scores: &[f32]) -> Vec<i32> {
    let best = |row: &[f32]| (0..10).max_by(|&a, &b| row[a].total_cmp(&row[b])).expect("there are ten");
    scores.chunks(10).map(|row| best(row) as i32).collect()
}

/// Positions in a random order (Fisher and Yates), by Marsaglia's xorshift64.
fn shuffled(count: usize, state: &mut u64) -> Vec<usize> {
    let mut all: Vec<usize> = (0..count).collect();
    for at in (1..count).rev() {
        for (left, by) in [(true, 13), (false, 7), (true, 17)] {
            *state ^= if left { *state << by } else { *state >> by };
        }
        all.swap(at, (*state % (at as u64 + 1)) as usize);
    }
    all
}

fn train(device: &Device, seen: &Pictures) -> Result<Reader> {
    let reader = Reader::new(device)?;
    let steps = EPOCHS * (seen.labels.len() / BATCH);
    let schedule = Schedule::Cosine { warm_up: (steps as f64 * WARM_UP) as u64, total: steps as u64, least: 0.0 };
    let method = Method::Sgd(Sgd { momentum: 0.9, nesterov: true, decay: 5e-4, ..Sgd::default() });
    let optimiser = Optimiser::new(&reader.parameters, method, schedule, RATE)?;
    let pictures = Tensor::zeros(device, DType::F32, shape(BATCH))?;
    let labels = Tensor::zeros(device, DType::I32, [BATCH as u64])?;
    let step = device.record(|| reader.step(&optimiser, &pictures, &labels))?;
    let (start, mut state, mut losses) = (Instant::now(), 0x9e37_79b9_7f4a_7c15, Vec::new());
    for _ in 0..EPOCHS {
        for batch in shuffled(seen.labels.len(), &mut state).chunks_exact(BATCH) {
            let pixels = batch.iter().flat_map(|&at| &seen.pixels[at * data::PIXELS..][..data::PIXELS]);
            pictures.write(&pixels.copied().collect::<Vec<f32>>())?;
            labels.write(&batch.iter().map(|&at| seen.labels[at]).collect::<Vec<i32>>())?;
            losses.push(step.replay()?.item::<f32>()?);
        }
    }
    println!(
        "{}: loss {:.3} to {:.4} in {} steps of {} launches, {:.1?}",
        device.id(),
        losses[0],
        losses[losses.len() - 1],
        losses.len(),
        step.launches(),
        start.elapsed()
    );
    Ok(reader)
}

fn main() -> Result<()> {
    let digits = data::load();
    let seen = Pictures::of(&digits, |line| line % 5 != 0);
    let unseen = Pictures::of(&digits, |line| line % 5 == 0);
    let trained = train(&Device::cpu(), &seen)?;
    let scores = trained.scores(&unseen)?;
    let answers = read(&scores);
    let right = answers.iter().zip(&unseen.labels).filter(|(answer, label)| answer == label).count();
    let accuracy = right as f64 / unseen.labels.len() as f64;
    println!("{right} of {} unseen digits right, {:.2} %", unseen.labels.len(), 100.0 * accuracy);
    assert!(accuracy >= ACCURACY, "it has learnt too little: {accuracy}");

    // Parameters and running statistics, as they would go through a file.
    let names = trained.parameters.names().map(str::to_owned);
    let mut values = names.map(|name| Ok((trained.parameters.get(&name)?, name))).collect::<Result<Vec<_>>>()?;
    values.extend(trained.parameters.buffers().map(|(name, buffer)| (buffer.clone(), name.to_owned())));
    for entry in polywarp::devices().into_iter().filter(|entry| entry.unusable.is_none() && entry.id != "cpu") {
        let device = entry.open()?;
        let reader = Reader::new(&device)?;
        let moved = values.iter().map(|(value, name)| Ok((value.to_device(&device)?, name)));
        let moved = moved.collect::<Result<Vec<_>>>()?;
        reader.parameters.load(moved.iter().map(|(value, name)| (name.as_str(), value)))?;
        let found = reader.scores(&unseen)?;
        let off = found.iter().zip(&scores).map(|(x, y)| (x - y).abs()).fold(0.0f32, f32::max);
        println!("{}: the same answers, scores within {off:.1e}", device.id());
        assert!(off < SCORE && read(&found) == answers, "{device:?} reads otherwise: {off}");
    }
    Ok(())
}
