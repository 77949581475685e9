//! A small transformer learns to write English, character by character, in a recorded step that is replayed without the host.
//!
//! The text is this repository's licence and guides; its last tenth is held out. A step is forward, backward by the
//! tape, clipping by the global norm and AdamW, with dropout, warm-up and cosine schedule. Values that change from step
//! to step live on the device, except the batch, which the host writes before each replay. The network must predict
//! held-out characters better than counts of pairs of characters do.
//!
//! Run: `cargo run --release --example train_characters`, or with a number of steps behind ` -- `. Ctrl-C ends the run
//! after the current step and writes a checkpoint. The same command then continues the run, with the same bits as a run
//! without a break.

#[path = "training/progress.rs"]
mod progress;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use polywarp::nn::models::{Decoder, DecoderConfig, TokenChoice};
use polywarp::nn::{
    Adam, Builder, Checkpoint, Clip, Dropout, Method, Optimiser, Parameters, Schedule, StepOptions, Watched,
};
use polywarp::{CrossEntropyOptions, DType, Device, Generator, Result, Tape, Tensor};

/// The text: these parts one after the other.
const TEXT: [&str; 8] = [
    include_str!("../LICENSE-APACHE"),
    include_str!("../SECURITY.md"),
    include_str!("../docs/driver-only.md"),
    include_str!("../docs/gemm.md"),
    include_str!("../docs/shaders.md"),
    include_str!("../docs/web.md"),
    include_str!("../CONTRIBUTING.md"),
    include_str!("../docs/tuner.md"),
];

/// The number of steps, unless the command names another.
const STEPS: u64 = 500;
/// Steps in which the rate grows to its largest value.
const WARM_UP: u64 = 20;
/// Number of lines in the table of losses.
const LINES: u64 = 5;
/// Windows in a batch, and characters in a window.
const BATCH: u64 = 8;
const LENGTH: u64 = 32;

/// The largest rate.
const RATE: f64 = 6e-3;
/// The largest norm of the gradients.
const NORM: f64 = 1.0;
/// The seed of weights, batches and dropout.
const SEED: u64 = 1;

/// The text as tokens: each character's index in the list of characters that occur.
struct Text {
    characters: Vec<char>,
    tokens: Vec<u32>,
    /// The start of the held-out part.
    held_out: usize,
}

impl Text {
    fn new() -> Text {
        let text: String = TEXT.concat();
        let characters: Vec<char> = text.chars().collect::<BTreeSet<char>>().into_iter().collect();
        let number = |c: char| characters.binary_search(&c).expect("it is one of these") as u32;
        let tokens: Vec<u32> = text.chars().map(number).collect();
        Text { held_out: tokens.len() / 10 * 9, characters, tokens }
    }

    fn decode(&self, tokens: &[u32]) -> String {
        tokens.iter().map(|&token| self.characters[token as usize]).collect()
    }

    /// The windows of a step, drawn from the training part: tokens, and for each token the next one.
    fn batch(&self, step: u64) -> [Vec<u32>; 2] {
        let places = self.held_out as u64 - LENGTH;
        let starts: Vec<u64> = (0..BATCH).map(|window| mixed(step * BATCH + window) % places).collect();
        [0, 1].map(|by| {
            starts.iter().flat_map(|start| self.tokens[(start + by) as usize..][..LENGTH as usize].to_vec()).collect()
        })
    }

    /// The held-out part, as windows side by side like those of a batch.
    fn unseen(&self, device: &Device) -> Result<[Tensor; 2]> {
        let windows = (self.tokens.len() - self.held_out - 1) as u64 / LENGTH;
        let of = |by: usize| {
            let tokens = &self.tokens[self.held_out + by..][..(windows * LENGTH) as usize];
            Tensor::from_slice(device, tokens, [windows, LENGTH])
        };
        Ok([of(0)?, of(1)?])
    }

    /// The cross-entropy of the held-out part, in nats a character, under counts of pairs in the training part, each
    /// increased by one.
    fn pairs(&self) -> f64 {
        let classes = self.characters.len();
        let mut counts = vec![1.0; classes * classes];
        for pair in self.tokens[..self.held_out].windows(2) {
            counts[pair[0] as usize * classes + pair[1] as usize] += 1.0;
        }
        let loss = |pair: &[u32]| {
            let row = &counts[pair[0] as usize * classes..][..classes];
            (row.iter().sum::<f64>() / row[pair[1] as usize]).ln()
        };
        let unseen = &self.tokens[self.held_out..];
        unseen.windows(2).map(loss).sum::<f64>() / (unseen.len() - 1) as f64
    }
}

/// A number that looks random, derived from `number` by SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
fn mixed(number: u64) -> u64 {
    let x = (number + SEED).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Everything that a step reads and writes.
struct Training {
    decoder: Decoder,
    parameters: Parameters,
    optimiser: Optimiser,
    clip: Clip,
    generator: Generator,
    /// Tokens and targets of the step, [BATCH, LENGTH].
    batch: [Tensor; 2],
}

impl Training {
    fn new(device: &Device, text: &Text, steps: u64) -> Result<Training> {
        let config = DecoderConfig {
            vocabulary: text.characters.len() as u64,
            width: 64,
            layers: 2,
            heads: 4,
            positions: LENGTH,
            // GPT-2's 0.02 is for a width of 768: a narrower network learns far later with it.
            deviation: 0.08,
            ..DecoderConfig::base()
        };
        let mut builder = Builder::new(SEED);
        let decoder = Decoder::new(&mut builder, config)?;
        let parameters = builder.build(device)?;
        let method = Method::AdamW(Adam { betas: [0.9, 0.99], ..Adam::default() });
        let schedule = Schedule::Cosine { warm_up: WARM_UP, total: steps.max(WARM_UP + 1), least: 0.05 };
        let zeros = || Tensor::zeros(device, DType::U32, [BATCH, LENGTH]);
        Ok(Training {
            optimiser: Optimiser::new(&parameters, method, schedule, RATE)?,
            clip: Clip::new(device, NORM)?,
            generator: Generator::new(device, SEED)?,
            batch: [zeros()?, zeros()?],
            decoder,
            parameters,
        })
    }

    /// One step on the batch; returns the mean cross-entropy before it.
    fn step(&self) -> Result<Tensor> {
        let [tokens, targets] = &self.batch;
        let tape = Tape::new();
        let watched = self.parameters.watch(&tape)?;
        let logits = self.decoder.forward(&watched, tokens, Dropout::by(&self.generator))?;
        let loss = logits.cross_entropy(targets)?;
        self.parameters.backward(tape, &watched, &loss)?;
        self.optimiser.step(&self.parameters, &StepOptions { clip: Some(&self.clip), ..StepOptions::default() })?;
        Ok(loss)
    }

    /// The mean cross-entropy of the held-out part.
    fn judge(&self, parameters: &Watched, [tokens, targets]: &[Tensor; 2]) -> Result<f32> {
        let logits = self.decoder.forward(parameters, tokens, Dropout::none())?;
        logits.cross_entropy_with(targets, &CrossEntropyOptions::default())?.mean()?.item()
    }

    fn checkpoint(&self) -> Checkpoint<'_> {
        let generator = Some(&self.generator);
        Checkpoint { parameters: &self.parameters, optimiser: &self.optimiser, scale: None, average: None, generator }
    }
}

fn main() -> std::result::Result<ExitCode, Box<dyn std::error::Error>> {
    let steps = std::env::args().nth(1).map_or(Ok(STEPS), |steps| steps.parse())?;
    // The number of steps is part of the name, because the schedule depends on it.
    let path: PathBuf = std::env::temp_dir().join(format!("polywarp-train_characters-{steps}.safetensors"));
    let is_stopped = Arc::new(AtomicBool::new(false));
    let stop = Arc::clone(&is_stopped);
    ctrlc::set_handler(move || stop.store(true, Ordering::Relaxed))?;

    let (device, text) = (polywarp::best()?, Text::new());
    let training = Training::new(&device, &text, steps)?;
    let unseen = text.unseen(&device)?;
    let recording = device.record(|| training.step())?;
    println!("{} ({}, {})", device.id(), device.info().name, device.info().api);
    println!(
        "{} parameters, {} launches a step; {} characters, {} of them different, {} held out",
        training.parameters.elements(),
        recording.launches(),
        text.tokens.len(),
        text.characters.len(),
        text.tokens.len() - text.held_out
    );
    let mut first = 0;
    if path.exists() {
        training.checkpoint().load(&path)?;
        first = training.optimiser.steps().item::<f32>()? as u64;
        println!("goes on from {} after {first} steps", path.display());
    }
    println!("{:>6}  {:>8}  {:>8}  {:>8}", "step", "rate", "loss", "held out");
    let (bar, start) = (progress::bar(steps), Instant::now());
    bar.set_position(first);
    let mut held_out = f32::INFINITY;
    for step in first..steps {
        for (tensor, tokens) in training.batch.iter().zip(text.batch(step)) {
            tensor.write(&tokens)?;
        }
        let loss = recording.replay()?;
        bar.inc(1);
        // Reading waits for the device, so it is not done at every step.
        if !bar.is_hidden() && step % 16 == 0 {
            bar.set_message(format!("{:.3}", loss.item::<f32>()?));
        }
        let done = step + 1;
        if done % steps.div_ceil(LINES) == 0 || done == steps {
            held_out = training.judge(&training.parameters.unwatched(), &unseen)?;
            let (rate, loss) = (training.optimiser.rate().item::<f32>()?, loss.item::<f32>()?);
            bar.suspend(|| println!("{done:>6}  {rate:>8.5}  {loss:>8.3}  {held_out:>8.3}"));
        }
        if is_stopped.load(Ordering::Relaxed) && done < steps {
            training.checkpoint().save(&path)?;
            bar.finish_and_clear();
            println!("stopped after {done} steps; the same command goes on from {}", path.display());
            // Programs that a signal ends exit with 128 plus the signal's number.
            return Ok(ExitCode::from(130));
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    bar.finish_and_clear();
    if path.exists() {
        std::fs::remove_file(&path)?;
    }
    let pairs = text.pairs();
    println!("{:.1} s, {:.0} steps a second", seconds, (steps - first) as f64 / seconds);
    println!("held out: {held_out:.3} nats a character; {pairs:.3} by counts of pairs");
    let choice = TokenChoice::Sampled { temperature: 0.6, generator: &training.generator };
    let prompt = &text.tokens[text.held_out..][..LENGTH as usize];
    let written = training.decoder.generate(&training.parameters.unwatched(), prompt, 160, choice)?;
    println!("{:?} goes on: {:?}", text.decode(prompt), text.decode(&written));
    // A shorter run is only for a look, and may learn less.
    assert!(steps < STEPS || f64::from(held_out) < pairs, "{device:?} has learnt too little");
    Ok(ExitCode::SUCCESS)
}
