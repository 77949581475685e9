//! A small decoder: its definition in f64 and the gradients of that, causality, recorded steps with dropout, a stopped run.

use std::collections::HashMap;

use polywarp_core::harness::Part;
use polywarp_core::harness::plain::dot;
use polywarp_core::{Device, Generator, Result, Tape, Tensor};
use polywarp_nn::models::{Decoder, DecoderConfig};
use polywarp_nn::{Adam, Builder, Checkpoint, Clip, Dropout, Method, Optimiser, Parameters, Schedule, StepOptions};

use super::files::Folder;

pub const TINY: DecoderConfig = DecoderConfig {
    vocabulary: 7,
    width: 8,
    layers: 2,
    heads: 2,
    positions: 6,
    epsilon: 1e-5,
    dropout: 0.25,
    deviation: 0.3,
};

/// Tokens and their targets, [2, 5].
const TOKENS: [u32; 10] = [1, 4, 0, 6, 2, 5, 5, 3, 1, 6];
const TARGETS: [u32; 10] = [4, 0, 6, 2, 3, 5, 3, 1, 6, 0];

pub fn tiny(device: &Device) -> (Decoder, Parameters) {
    let mut builder = Builder::new(3);
    let decoder = Decoder::new(&mut builder, TINY).unwrap();
    (decoder, builder.build(device).unwrap())
}

pub fn tokens(device: &Device, tokens: &[u32], texts: u64) -> Tensor {
    Tensor::from_slice(device, tokens, [texts, tokens.len() as u64 / texts]).unwrap()
}

/// A parameter of each name, on the host.
type Values = HashMap<String, Vec<f64>>;

/// x `[rows, inputs]` times the transpose of w `[outputs, inputs]`, plus b where there is one.
fn product(x: &[f64], w: &[f64], b: Option<&[f64]>, inputs: usize) -> Vec<f64> {
    let row = |x: &[f64]| {
        let of = |(o, w): (usize, &[f64])| dot(x, w) + b.map_or(0.0, |b| b[o]);
        w.chunks(inputs).enumerate().map(of).collect::<Vec<f64>>()
    };
    x.chunks(inputs).flat_map(row).collect()
}

/// The decoder's definition for one text: logits [length, vocabulary].
fn defined(values: &Values, text: &[u32]) -> Vec<f64> {
    let (width, heads) = (TINY.width as usize, TINY.heads as usize);
    let size = width / heads;
    let get = |name: &str| values[name].as_slice();
    let linear = |x: &[f64], name: &str, inputs: usize| {
        product(x, get(&format!("{name}.weight")), Some(get(&format!("{name}.bias"))), inputs)
    };
    let norm = |x: &[f64], name: &str| -> Vec<f64> {
        let (gamma, beta) = (get(&format!("{name}.weight")), get(&format!("{name}.bias")));
        let row = |x: &[f64]| {
            let mean = x.iter().sum::<f64>() / width as f64;
            let variance = x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / width as f64;
            let of = |(i, x): (usize, &f64)| (x - mean) / (variance + TINY.epsilon).sqrt() * gamma[i] + beta[i];
            x.iter().enumerate().map(of).collect::<Vec<f64>>()
        };
        x.chunks(width).flat_map(row).collect()
    };
    let gelu = |x: &f64| 0.5 * x * (1.0 + ((2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x.powi(3))).tanh());
    let add = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x + y).collect::<Vec<f64>>();
    let row = |table: &str, row: usize| get(table)[row * width..][..width].to_vec();
    let mut x: Vec<f64> = Vec::new();
    for (place, &token) in text.iter().enumerate() {
        x.extend(add(&row("wte.weight", token as usize), &row("wpe.weight", place)));
    }
    for layer in 0..TINY.layers {
        let name = |part: &str| format!("h.{layer}.{part}");
        let read = linear(&norm(&x, &name("ln_1")), &name("attn.c_attn"), width);
        // Query, key or value of a place and head.
        let part = |part: usize, place: usize, head: usize| &read[(place * 3 + part) * width + head * size..][..size];
        let mut attended = vec![0.0; x.len()];
        for (place, head) in (0..text.len()).flat_map(|place| (0..heads).map(move |head| (place, head))) {
            let dot: Vec<f64> = (0..=place)
                .map(|key| part(0, place, head).iter().zip(part(1, key, head)).map(|(q, k)| q * k).sum::<f64>())
                .collect();
            let score: Vec<f64> = dot.iter().map(|dot| (dot / (size as f64).sqrt()).exp()).collect();
            for (key, by) in score.iter().enumerate() {
                for (i, value) in part(2, key, head).iter().enumerate() {
                    attended[place * width + head * size + i] += by / score.iter().sum::<f64>() * value;
                }
            }
        }
        x = add(&x, &linear(&attended, &name("attn.c_proj"), width));
        let up: Vec<f64> = linear(&norm(&x, &name("ln_2")), &name("mlp.c_fc"), width).iter().map(gelu).collect();
        x = add(&x, &linear(&up, &name("mlp.c_proj"), 4 * width));
    }
    product(&norm(&x, "ln_f"), get("wte.weight"), None, width)
}

/// The mean cross-entropy of all texts.
fn defined_loss(values: &Values) -> f64 {
    let mut sum = 0.0;
    for (text, targets) in TOKENS.chunks(5).zip(TARGETS.chunks(5)) {
        let logits = defined(values, text);
        for (row, &target) in logits.chunks(TINY.vocabulary as usize).zip(targets) {
            sum += row.iter().map(|x| x.exp()).sum::<f64>().ln() - row[target as usize];
        }
    }
    sum / TARGETS.len() as f64
}

pub fn logits_and_gradients_are_those_of_the_definition(device: &Device) {
    let (decoder, parameters) = tiny(device);
    let (x, y) = (tokens(device, &TOKENS, 2), tokens(device, &TARGETS, 2));
    let read = |(name, view): (&str, &Tensor)| {
        (name.to_owned(), view.to_vec::<f32>().unwrap().into_iter().map(f64::from).collect::<Vec<f64>>())
    };
    let mut values: Values = parameters.values().iter().map(read).collect();
    let tape = Tape::new();
    let watched = parameters.watch(&tape).unwrap();
    let logits = decoder.forward(&watched, &x, Dropout::none()).unwrap();
    assert_eq!(logits.dims(), [2, 5, TINY.vocabulary]);
    let want: Vec<f64> = TOKENS.chunks(5).flat_map(|text| defined(&values, text)).collect();
    for (found, want) in logits.to_vec::<f32>().unwrap().iter().zip(&want) {
        assert!((f64::from(*found) - want).abs() < 5e-5, "{found}, not {want}");
    }
    let loss = logits.cross_entropy(&y).unwrap();
    parameters.backward(tape, &watched, &loss).unwrap();
    let gradients: Values = parameters.gradients().iter().map(read).collect();
    const STEP: f64 = 1e-5;
    for (name, found) in &gradients {
        // Each takes two runs of the definition: of a large parameter some 40 elements a day, and others on the next.
        let today = Part::today(found.len().div_ceil(40) as u64 | 1);
        for (i, found) in found.iter().enumerate().filter(|(i, _)| today.is_turn_of(*i as u64)) {
            let mut at = |by: f64| {
                let before = values[name][i];
                values.get_mut(name).unwrap()[i] = before + by;
                let loss = defined_loss(&values);
                values.get_mut(name).unwrap()[i] = before;
                loss
            };
            let want = (at(STEP) - at(-STEP)) / (2.0 * STEP);
            assert!((found - want).abs() < 1e-5 + 5e-4 * want.abs(), "{name}, element {i}: {found}, not {want}");
        }
    }
}

pub fn later_tokens_have_no_influence(device: &Device) {
    let (decoder, parameters) = tiny(device);
    let row = TINY.vocabulary as usize;
    let of = |text: &[u32]| {
        let logits = decoder.forward(&parameters.unwatched(), &tokens(device, text, 1), Dropout::none());
        logits.unwrap().to_vec::<f32>().unwrap().into_iter().map(f32::to_bits).collect::<Vec<u32>>()
    };
    let text = [1, 4, 0, 6, 2, 5];
    let before = of(&text);
    for changed in 0..text.len() {
        let mut other = text;
        other[changed] = (text[changed] + 1) % TINY.vocabulary as u32;
        let after = of(&other);
        assert_eq!(before[..changed * row], after[..changed * row], "token {changed} changes logits before it");
        // All from there on see it.
        for (place, (before, after)) in before.chunks(row).zip(after.chunks(row)).enumerate().skip(changed) {
            assert_ne!(before, after, "token {changed} does not change the logits at {place}");
        }
    }
}

pub fn weights_start_as_said(device: &Device) {
    let config = DecoderConfig { width: 64, layers: 8, heads: 4, ..TINY };
    let mut builder = Builder::new(5);
    Decoder::new(&mut builder, config).unwrap();
    let parameters = builder.build(device).unwrap();
    let of_layer = 12 * 64 * 64 + 13 * 64;
    assert_eq!(parameters.elements(), 7 * 64 + 6 * 64 + 8 * of_layer + 2 * 64);
    let deviation = |name: &str| {
        let values = parameters.get(name).unwrap().to_vec::<f32>().unwrap();
        (values.iter().map(|x| f64::from(x * x)).sum::<f64>() / values.len() as f64).sqrt()
    };
    for (name, want) in [
        ("wte.weight", 0.3),
        ("h.3.attn.c_attn.weight", 0.3),
        ("h.3.attn.c_proj.weight", 0.075),
        ("h.7.mlp.c_fc.weight", 0.3),
        ("h.7.mlp.c_proj.weight", 0.075),
        ("h.0.ln_1.weight", 1.0),
        ("ln_f.bias", 0.0),
        ("h.0.mlp.c_proj.bias", 0.0),
    ] {
        // Of 448 numbers the deviation is within 3.4 % with probability 0.68.
        assert!((deviation(name) - want).abs() <= 0.12 * want, "{name}: {}", deviation(name));
    }
}

/// Everything that a step with dropout has.
struct Run {
    decoder: Decoder,
    parameters: Parameters,
    optimiser: Optimiser,
    clip: Clip,
    generator: Generator,
    batch: [Tensor; 2],
}

impl Run {
    fn new(device: &Device) -> Run {
        let (decoder, parameters) = tiny(device);
        let schedule = Schedule::Cosine { warm_up: 3, total: 12, least: 0.1 };
        Run {
            optimiser: Optimiser::new(&parameters, Method::AdamW(Adam::default()), schedule, 0.01).unwrap(),
            clip: Clip::new(device, 1.0).unwrap(),
            generator: Generator::new(device, 17).unwrap(),
            batch: [tokens(device, &TOKENS, 2), tokens(device, &TARGETS, 2)],
            decoder,
            parameters,
        }
    }

    fn step(&self) -> Result<Tensor> {
        let tape = Tape::new();
        let watched = self.parameters.watch(&tape)?;
        let logits = self.decoder.forward(&watched, &self.batch[0], Dropout::by(&self.generator))?;
        let loss = logits.cross_entropy(&self.batch[1])?;
        self.parameters.backward(tape, &watched, &loss)?;
        self.optimiser.step(&self.parameters, &StepOptions { clip: Some(&self.clip), ..StepOptions::default() })?;
        Ok(loss)
    }

    fn checkpoint(&self) -> Checkpoint<'_> {
        let generator = Some(&self.generator);
        Checkpoint { parameters: &self.parameters, optimiser: &self.optimiser, scale: None, average: None, generator }
    }

    fn bits(&self) -> Vec<u32> {
        let all = self.parameters.values().buckets().iter().flat_map(|bucket| bucket.to_vec::<f32>().unwrap());
        all.map(f32::to_bits).collect()
    }
}

fn item(loss: &Tensor) -> u32 {
    loss.item::<f32>().unwrap().to_bits()
}

pub fn replay_equals_eager_with_dropout(device: &Device) {
    let (eager, replayed) = (Run::new(device), Run::new(device));
    let recording = device.record(|| replayed.step()).unwrap();
    for _ in 0..4 {
        assert_eq!(item(&eager.step().unwrap()), item(recording.replay().unwrap()));
    }
    assert!(eager.bits() == replayed.bits(), "parameters differ");
    // Embeddings, and probabilities and two sums of each layer.
    assert_eq!(eager.generator.state().unwrap(), [17, 0, 4 * (1 + 3 * TINY.layers as u32), 0]);
    assert_eq!(eager.generator.state().unwrap(), replayed.generator.state().unwrap());
}

pub fn a_stopped_run_with_dropout_goes_on_bit_for_bit(device: &Device) {
    let folder = Folder::new("decoder");
    let path = folder.file("run");
    let straight = Run::new(device);
    let losses: Vec<u32> = (0..4).map(|_| item(&straight.step().unwrap())).collect();
    let stopped = Run::new(device);
    for _ in 0..2 {
        stopped.step().unwrap();
    }
    stopped.checkpoint().save(&path).unwrap();
    let goes_on = |generator: bool| {
        let next = Run::new(device);
        let recording = device.record(|| next.step()).unwrap();
        next.checkpoint().load(&path).unwrap();
        if !generator {
            next.generator.set_state([17, 0, 0, 0]).unwrap();
        }
        let losses: Vec<u32> = (0..2).map(|_| item(recording.replay().unwrap())).collect();
        (losses, next.bits())
    };
    assert!(goes_on(true) == (losses[2..].to_vec(), straight.bits()), "the run differs");
    // With other random numbers it is another run.
    assert_ne!(goes_on(false).0, losses[2..]);
}

cases!(
    logits_and_gradients_are_those_of_the_definition,
    later_tokens_have_no_influence,
    weights_start_as_said,
    replay_equals_eager_with_dropout,
    a_stopped_run_with_dropout_goes_on_bit_for_bit,
);
