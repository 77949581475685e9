//! BERT learns to name masked words, in one recorded step that is replayed: on texts that count up, or on the data of a PyTorch run.
//!
//! Each text counts up in steps of its own, and some of its words are hidden; the network names them. Without arguments
//! a small BERT learns the hidden words of one batch of texts on every device of this machine, in f32 with dropout, and
//! its loss must fall. The decision to know: the whole step (forward, backward, AdamW, fresh random numbers) is one
//! recording, and the host writes nothing but the batch.
//!
//! Run: `cargo run --release --example train_bert`, or `... -- speed cuda:0 bf16 32` for sequences of 128 tokens per
//! second of BERT-base, or `... -- losses cuda:0 f32 FOLDER` to train BERT-base from the weights and batches of a
//! folder (`init.safetensors`, `batches.safetensors`) and print its losses beside those in the folder's `losses.json`.

#[path = "training/progress.rs"]
mod progress;

use std::path::Path;
use std::process::ExitCode;
use std::time::Instant;

use polywarp::nn::models::{Bert, BertConfig, BertInput};
use polywarp::nn::{
    Adam, Builder, Dropout, LossScale, LossScaleOptions, Method, Optimiser, Parameters, Policy, Schedule, StepOptions,
    file,
};
use polywarp::{DType, Device, Generator, Result, Tape, Tensor};

/// The token that replaces a hidden word.
const MASK: i32 = 4;
/// The target of words that do not count in the loss.
const IGNORED: i32 = -100;
/// Tokens before the first one that texts use.
const SPECIAL: u64 = 5;
/// Steps of a small BERT, and the least fall of its loss.
const STEPS: usize = 60;
const FALL: f32 = 1.0;

/// A network with everything that a step changes.
struct Training {
    device: Device,
    bert: Bert,
    parameters: Parameters,
    optimiser: Optimiser,
    scale: Option<LossScale>,
    generator: Option<Generator>,
    policy: Policy,
    /// Words and targets.
    batch: [Tensor; 2],
}

impl Training {
    fn new(
        device: &Device,
        config: BertConfig,
        policy: Policy,
        [texts, length]: [u64; 2],
        dropout: bool,
        rate: f64,
    ) -> Result<Training> {
        let mut builder = Builder::new(0).with_decay_of_all();
        let bert = Bert::new(&mut builder, config)?;
        let parameters = builder.build(device)?;
        let method = Method::AdamW(Adam { decay: 0.01, ..Adam::default() });
        let optimiser = Optimiser::new(&parameters, method, Schedule::Constant, rate)?;
        let is_scaled = policy.compute == DType::F16;
        let scale = is_scaled.then(|| LossScale::new(device, LossScaleOptions::default())).transpose()?;
        let generator = dropout.then(|| Generator::new(device, 1)).transpose()?;
        let words = || Tensor::zeros(device, DType::I32, [texts, length]);
        let batch = [words()?, words()?];
        Ok(Training { device: device.clone(), bert, parameters, optimiser, scale, generator, policy, batch })
    }

    /// One step; returns the loss before it.
    fn step(&self) -> Result<Tensor> {
        let tape = Tape::new();
        let watched = self.parameters.watch_as(&tape, self.policy)?;
        let dropout = self.generator.as_ref().map_or_else(Dropout::none, Dropout::by);
        let hidden = self.bert.forward(&watched, &BertInput::new(&self.batch[0]), dropout)?;
        let loss = self.bert.loss(&watched, &hidden, &self.batch[1])?;
        let scaled = match &self.scale {
            Some(scale) => loss.mul(&scale.scale().reshape(*loss.shape())?)?,
            None => loss.clone(),
        };
        self.parameters.backward(tape, &watched, &scaled)?;
        self.optimiser.step(&self.parameters, &StepOptions { scale: self.scale.as_ref(), ..StepOptions::default() })?;
        Ok(loss)
    }

    fn feed(&self, words: &[i32], targets: &[i32]) -> Result<()> {
        self.batch[0].write(words)?;
        self.batch[1].write(targets)
    }
}

/// Texts that count up, with some words hidden, and the hidden words as targets.
fn texts(step: u64, [texts, length]: [u64; 2], vocabulary: u64) -> (Vec<i32>, Vec<i32>) {
    let words = vocabulary - SPECIAL;
    let mut state = step.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    // Marsaglia's xorshift64.
    let mut next = move || {
        for (left, by) in [(true, 13), (false, 7), (true, 17)] {
            state ^= if left { state << by } else { state >> by };
        }
        state >> 16
    };
    let (mut inputs, mut targets) = (Vec::new(), Vec::new());
    for _ in 0..texts {
        let (start, by) = (next() % words, 1 + next() % 3);
        for at in 0..length {
            let word = (SPECIAL + (start + by * at) % words) as i32;
            let is_hidden = at == 0 || next() % 100 < 15;
            inputs.push(if is_hidden { MASK } else { word });
            targets.push(if is_hidden { word } else { IGNORED });
        }
    }
    (inputs, targets)
}

/// A small BERT on every device.
fn small() -> Result<bool> {
    let config = BertConfig {
        vocabulary: 64,
        hidden: 64,
        layers: 2,
        heads: 2,
        intermediate: 128,
        positions: 32,
        ..BertConfig::base()
    };
    let shape = [8, 16];
    let mut is_right = true;
    for entry in polywarp::devices().into_iter().filter(|entry| entry.unusable.is_none()) {
        let training = Training::new(&entry.open()?, config, Policy::F32, shape, true, 3e-3)?;
        let step = training.device.record(|| training.step())?;
        let (bar, start) = (progress::bar(STEPS as u64), Instant::now());
        let mut losses = Vec::new();
        let (words, targets) = texts(1, shape, config.vocabulary);
        training.feed(&words, &targets)?;
        for _ in 0..STEPS {
            let loss = step.replay()?.item::<f32>()?;
            losses.push(loss);
            bar.set_message(format!("{loss:.3}"));
            bar.inc(1);
        }
        bar.finish_and_clear();
        let mean = |losses: &[f32]| losses.iter().sum::<f32>() / losses.len() as f32;
        let (first, last) = (mean(&losses[..5]), mean(&losses[STEPS - 5..]));
        let (launches, seconds) = (step.launches(), start.elapsed().as_secs_f64());
        println!(
            "{:>8}: loss {first:.3} -> {last:.3}, {STEPS} steps of {launches} launches in {seconds:.1} s",
            training.device.id()
        );
        is_right &= first - last > FALL;
    }
    Ok(is_right)
}

fn policy(name: &str) -> Policy {
    match name {
        "f32" => Policy::F32,
        "tf32" => Policy::TF32,
        "bf16" => Policy::BF16,
        "f16" => Policy::F16,
        _ => panic!("there are f32, tf32, bf16 and f16, not `{name}`"),
    }
}

/// Steps per second of BERT-base, as a user trains it: with dropout.
fn speed(device: &str, precision: &str, texts_in_batch: u64) -> Result<bool> {
    const REPEATS: usize = 10;
    let (shape, device) = ([texts_in_batch, 128], polywarp::device(device)?);
    let config = BertConfig::base();
    let training = Training::new(&device, config, policy(precision), shape, true, 1e-4)?;
    let (words, targets) = texts(1, shape, config.vocabulary);
    training.feed(&words, &targets)?;
    let first = training.step()?.item::<f32>()?;
    if std::env::var_os("POLYWARP_EAGER").is_some() {
        println!("one eager step: loss {first}");
        return Ok(true);
    }
    let step = training.device.record(|| training.step())?;
    let mut times = Vec::new();
    for _ in 0..6 {
        let start = Instant::now();
        for _ in 0..REPEATS {
            step.replay()?;
        }
        device.synchronize()?;
        times.push(start.elapsed().as_secs_f64() / REPEATS as f64);
    }
    times.sort_by(f64::total_cmp);
    let (seconds, last) = (times[times.len() / 2], step.outputs().item::<f32>()?);
    let memory = device.memory();
    println!(
        "bert-base train {precision} b{texts_in_batch} s128 on {} ({}): {:.2} ms, {:.0}/s, {} launches, peak {:.2} GiB, loss {first:.3} -> {last:.3}",
        device.id(),
        device.info().name,
        seconds * 1e3,
        texts_in_batch as f64 / seconds,
        step.launches(),
        memory.peak_bytes as f64 / 2f64.powi(30),
    );
    Ok(last < first)
}

/// Prints the losses of a PyTorch run beside ours.
fn losses(device: &str, precision: &str, folder: &Path) -> Result<bool> {
    let device = polywarp::device(device)?;
    let batches = file::load(folder.join("batches.safetensors"))?;
    let [words, targets] = ["x", "y"].map(|name| -> Result<Vec<i32>> {
        let numbers = batches.tensor(&Device::cpu(), name)?.to_vec::<i64>()?;
        Ok(numbers.into_iter().map(|x| x as i32).collect())
    });
    let (words, targets) = (words?, targets?);
    let (_, shape) = batches.spec("x")?;
    let &[steps, texts, length] = shape.dims() else { panic!("batches are [steps, texts, words], not {shape}") };
    let config = BertConfig::base();
    let training = Training::new(&device, config, policy(precision), [texts, length], false, 1e-4)?;
    let weights = file::load(folder.join("init.safetensors"))?;
    let loaded = weights.names().into_iter().map(|name| Ok((weights.tensor(&device, &name)?, name)));
    let loaded = loaded.collect::<Result<Vec<_>>>()?;
    training.parameters.load(loaded.iter().map(|(value, name)| (name.as_str(), value)))?;
    let json = std::fs::read_to_string(folder.join("losses.json")).expect("losses.json");
    let json: serde_json::Value = serde_json::from_str(&json).expect("losses.json is JSON");
    let expected: Vec<f64> =
        json["losses"].as_array().expect("losses").iter().map(|x| x.as_f64().expect("a number")).collect();
    let step = training.device.record(|| training.step())?;
    let size = (texts * length) as usize;
    let mut worst = 0.0f64;
    for number in 0..steps as usize {
        training.feed(&words[number * size..][..size], &targets[number * size..][..size])?;
        let loss = f64::from(step.replay()?.item::<f32>()?);
        let off = (loss / expected[number] - 1.0).abs();
        worst = worst.max(off);
        println!("step {number}: {loss:.6}, PyTorch's {:.6}, off by {off:.1e}", expected[number]);
    }
    println!("largest relative difference {worst:.1e}");
    Ok(worst < if precision == "f32" { 1e-3 } else { 2e-2 })
}

fn main() -> Result<ExitCode> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let is_right = match arguments[..] {
        [] => small()?,
        ["speed", device, precision, texts] => speed(device, precision, texts.parse().expect("a number of texts"))?,
        ["losses", device, precision, folder] => losses(device, precision, Path::new(folder))?,
        _ => panic!("no arguments, `speed DEVICE PRECISION TEXTS`, or `losses DEVICE PRECISION FOLDER`"),
    };
    Ok(if is_right { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
