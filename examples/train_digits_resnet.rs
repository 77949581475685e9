//! A small ResNet learns to read digits on the CPU, and gives the same answers on every device.
//!
//! Two stages of residual blocks over pictures of 8 x 8 pixels, trained by SGD with momentum in a recorded step on four
//! fifths of the pictures and judged on the remaining fifth. The decision to know: the host writes only the pictures of
//! a batch; rate, running statistics and momentum live on the device. Then the trained weights go to every other device
//! of this machine, whose answers must equal the CPU's. Finally the network is made smaller in two ways: filters and
//! activations become i8, with scales found on training pictures; and two of every four neighbouring weights are set to
//! zero (2:4), followed by a few epochs of training that keep those zeros (Mishra et al., arXiv 2104.08378).
//!
//! Run: `cargo run --release --example train_digits_resnet`; with `POLYWARP_TRAIN_WITHIN=60` it fails where training takes a minute. The data and its licence: `data/README.md`.

#[path = "digits/data.rs"]
mod data;
#[path = "training/progress.rs"]
mod progress;

use std::time::{Duration, Instant};

use polywarp::nn::models::{FoldedResNet, ResNet, ResNetBlock, ResNetConfig, ResNetEntry};
use polywarp::nn::{Builder, Mask24, Method, Mode, Optimiser, Parameters, Policy, Schedule, Sgd, StepOptions};
use polywarp::{DType, Device, Result, Tape, Tensor};

/// Pictures in a step.
const BATCH: usize = 96;
/// Number of passes over the pictures.
const EPOCHS: usize = 16;
/// The highest rate, and the share of the steps after which it is reached.
const RATE: f64 = 0.1;
const WARM_UP: f64 = 0.1;
/// The least share of held-out pictures that must be read correctly.
const ACCURACY: f64 = 0.98;
/// Epochs for which the pruned network is trained on, and the rate at their start.
const EPOCHS_PRUNED: usize = 4;
const RATE_PRUNED: f64 = 0.02;
/// The same least share for the network of i8 and for the pruned one.
const ACCURACY_SMALL: f64 = 0.97;
/// The largest difference of a score from the CPU's on another device: sums in another order, through a few layers.
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

    /// One step on a batch; returns the loss before it.
    fn step(&self, optimiser: &Optimiser, pictures: &Tensor, labels: &Tensor) -> Result<Tensor> {
        let tape = Tape::new();
        let watched = self.parameters.watch_as(&tape, Policy::F32)?;
        let loss = self.net.forward(&watched, pictures, Mode::Training)?.cross_entropy(labels)?;
        self.parameters.backward(tape, &watched, &loss)?;
        optimiser.step(&self.parameters, &StepOptions::default())?;
        Ok(loss)
    }

    /// The scores of pictures, ten for each picture.
    fn scores(&self, pictures: &Pictures) -> Result<Vec<f32>> {
        let images = pictures.on(self.parameters.device())?;
        self.net.forward(&self.parameters.unwatched(), &images, Mode::Evaluation)?.to_vec()
    }

    /// The network for inference, with normalisation folded into the filters; and the same network in i8.
    fn folded(&self, examples: &Pictures) -> Result<[FoldedResNet; 2]> {
        let folded = self.net.folded(&self.parameters.unwatched(), DType::F32)?;
        let quantised = folded.quantised(&[examples.on(self.parameters.device())?])?;
        Ok([folded, quantised])
    }
}

fn shape(pictures: usize) -> [u64; 4] {
    [pictures as u64, 8, 8, 1]
}

/// Some pictures, with pixels from about -1 to 1.
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

impl Pictures {
    /// The pictures as a tensor [pictures, 8, 8, 1].
    fn on(&self, device: &Device) -> Result<Tensor> {
        Tensor::from_slice(device, &self.pixels, shape(self.labels.len()))
    }

    /// The share of pictures whose highest score is at the right digit.
    fn accuracy(&self, scores: &[f32]) -> f64 {
        let right = read(scores).iter().zip(&self.labels).filter(|(answer, label)| answer == label).count();
        right as f64 / self.labels.len() as f64
    }
}

/// The digit with the highest score.
fn read(scores: &[f32]) -> Vec<i32> {
    let best = |row: &[f32]| (0..10).max_by(|&a, &b| row[a].total_cmp(&row[b])).expect("there are ten");
    scores.chunks(10).map(|row| best(row) as i32).collect()
}

/// Positions in a random order (Fisher and Yates), from Marsaglia's xorshift64.
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

/// Trains `reader` for `epochs` epochs, starting at rate `rate`, and keeps the zeros of `mask`.
fn train(reader: &Reader, seen: &Pictures, epochs: usize, rate: f64, mask: Option<&Mask24>) -> Result<()> {
    let device = reader.parameters.device();
    let steps = epochs * (seen.labels.len() / BATCH);
    let schedule = Schedule::Cosine { warm_up: (steps as f64 * WARM_UP) as u64, total: steps as u64, least: 0.0 };
    let method = Method::Sgd(Sgd { momentum: 0.9, nesterov: true, decay: 5e-4, ..Sgd::default() });
    let optimiser = Optimiser::new(&reader.parameters, method, schedule, rate)?;
    let pictures = Tensor::zeros(device, DType::F32, shape(BATCH))?;
    let labels = Tensor::zeros(device, DType::I32, [BATCH as u64])?;
    let step = device.record(|| {
        let loss = reader.step(&optimiser, &pictures, &labels)?;
        mask.map_or(Ok(()), |mask| mask.apply(&reader.parameters))?;
        Ok(loss)
    })?;
    let bar = progress::bar(steps as u64);
    let (start, mut state, mut losses) = (Instant::now(), 0x9e37_79b9_7f4a_7c15, Vec::new());
    for _ in 0..epochs {
        for batch in shuffled(seen.labels.len(), &mut state).chunks_exact(BATCH) {
            let pixels = batch.iter().flat_map(|&at| &seen.pixels[at * data::PIXELS..][..data::PIXELS]);
            pictures.write(&pixels.copied().collect::<Vec<f32>>())?;
            labels.write(&batch.iter().map(|&at| seen.labels[at]).collect::<Vec<i32>>())?;
            let loss = step.replay()?.item::<f32>()?;
            losses.push(loss);
            bar.set_message(format!("{loss:.3}"));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    println!(
        "{}: loss {:.3} to {:.4} in {} steps of {} launches, {:.1?}",
        device.id(),
        losses[0],
        losses[losses.len() - 1],
        losses.len(),
        step.launches(),
        start.elapsed()
    );
    Ok(())
}

/// Ends the program where `POLYWARP_TRAIN_WITHIN` gives fewer seconds than training took.
fn within(taken: Duration) {
    if let Some(most) = std::env::var("POLYWARP_TRAIN_WITHIN").ok().and_then(|most| most.parse().ok()) {
        assert!(taken.as_secs_f64() < most, "training took {taken:.1?}, and may take {most} s");
    }
}

fn main() -> Result<()> {
    let digits = data::load();
    let seen = Pictures::of(&digits, |line| line % 5 != 0);
    let unseen = Pictures::of(&digits, |line| line % 5 == 0);
    let trained = Reader::new(&Device::cpu())?;
    let start = Instant::now();
    train(&trained, &seen, EPOCHS, RATE, None)?;
    within(start.elapsed());
    let scores = trained.scores(&unseen)?;
    let (answers, accuracy) = (read(&scores), unseen.accuracy(&scores));
    println!("{:.2} % of {} unseen digits right", 100.0 * accuracy, unseen.labels.len());
    assert!(accuracy >= ACCURACY, "it has learnt too little: {accuracy}");

    // Transfers parameters and running statistics as a file would.
    let names = trained.parameters.names().map(str::to_owned);
    let mut values = names.map(|name| Ok((trained.parameters.get(&name)?, name))).collect::<Result<Vec<_>>>()?;
    values.extend(trained.parameters.buffers().map(|(name, buffer)| (buffer.clone(), name.to_owned())));
    let small = trained.folded(&seen)?;
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
        smaller(&reader.folded(&seen)?, &unseen, &device, accuracy)?;
    }
    smaller(&small, &unseen, trained.parameters.device(), accuracy)?;
    pruned(&trained, &seen, &unseen, accuracy)
}

/// Compares the network of i8 with that of f32.
fn smaller([folded, quantised]: &[FoldedResNet; 2], unseen: &Pictures, device: &Device, before: f64) -> Result<()> {
    let images = unseen.on(device)?;
    let timed = |net: &FoldedResNet| {
        net.forward(&images)?.to_vec::<f32>()?;
        let start = Instant::now();
        let scores = net.forward(&images)?.to_vec::<f32>()?;
        Ok::<_, polywarp::Error>((unseen.accuracy(&scores), start.elapsed()))
    };
    let ((plain, plain_time), (small, small_time)) = (timed(folded)?, timed(quantised)?);
    println!(
        "{}: folded {:.2} % right, {} bytes, {plain_time:.1?}; in i8 {:.2} %, {} bytes, {small_time:.1?}",
        device.id(),
        100.0 * plain,
        folded.size_bytes(),
        100.0 * small,
        quantised.size_bytes(),
    );
    assert_eq!(plain, before, "folding changes answers");
    assert!(small >= ACCURACY_SMALL, "i8 reads too little: {small}");
    assert!(quantised.size_bytes() * 3 < folded.size_bytes(), "not nearly a quarter of the memory");
    Ok(())
}

/// The network with two of every four weights, before and after further training.
fn pruned(trained: &Reader, seen: &Pictures, unseen: &Pictures, before: f64) -> Result<()> {
    let mask = Mask24::new(&trained.parameters)?;
    mask.apply(&trained.parameters)?;
    let at_once = unseen.accuracy(&trained.scores(unseen)?);
    train(trained, seen, EPOCHS_PRUNED, RATE_PRUNED, Some(&mask))?;
    let after = unseen.accuracy(&trained.scores(unseen)?);
    let [dense, compressed] = mask.bytes(&trained.parameters)?;
    println!(
        "2:4: {:.2} % right before, {:.2} % at once, {:.2} % trained on; {} of {} masked weights are zero, {compressed} bytes of {dense}",
        100.0 * before,
        100.0 * at_once,
        100.0 * after,
        mask.zeros(&trained.parameters)?,
        mask.elements(),
    );
    assert!(after >= ACCURACY_SMALL, "the pruned network reads too little: {after}");
    assert!(compressed * 3 < dense * 2, "2:4 takes too much memory");
    Ok(())
}
