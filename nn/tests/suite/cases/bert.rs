//! A small BERT, held to PyTorch's gradients and losses (`tests/data/README.md`), eager and replayed, stopped and resumed, in 16 bits.

use std::path::{Path, PathBuf};

use super::super::{bert_steps, sixteen_bits};
use polywarp_core::{DType, Device, DeviceKind, Recording, Result, Tape, Tensor};
use polywarp_nn::models::{Bert, BertConfig, BertInput};
use polywarp_nn::{
    Adam, Builder, Checkpoint, Dropout, LossScale, LossScaleOptions, Method, Optimiser, Parameters, Policy, Schedule,
    StepOptions, file,
};

cases! {
    first_gradients_are_pytorchs,
    loss_is_the_cross_entropy_of_the_logits,
    losses_are_pytorchs_eager_and_replayed,
    a_stopped_run_goes_on_bit_for_bit,
    other_policies_train_as_f32_does,
}

fn data(name: &str) -> PathBuf {
    // Backends' tests include this file, from folders beside this crate's.
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../nn/tests/data/bert-tiny").join(name)
}

/// The network, what it trains on, and PyTorch's losses.
struct Run {
    device: Device,
    bert: Bert,
    parameters: Parameters,
    optimiser: Optimiser,
    scale: Option<LossScale>,
    policy: Policy,
    /// The tokens and targets of a step.
    batch: [Tensor; 2],
    batches: [Vec<i32>; 2],
}

/// Of f16 losses: as PyTorch's scaler.
fn scale(device: &Device, policy: Policy) -> Option<LossScale> {
    (policy == Policy::F16).then(|| LossScale::new(device, LossScaleOptions::default()).unwrap())
}

impl Run {
    fn new(device: &Device, policy: Policy) -> Run {
        let config = BertConfig {
            vocabulary: 500,
            hidden: 64,
            layers: 2,
            heads: 2,
            intermediate: 256,
            positions: 64,
            ..BertConfig::base()
        };
        let mut builder = Builder::new(0).with_decay_of_all();
        let bert = Bert::new(&mut builder, config).unwrap();
        let parameters = builder.build(device).unwrap();
        let weights = file::load(data("init.safetensors")).unwrap();
        let loaded: Vec<(String, Tensor)> =
            weights.names().into_iter().map(|name| (name.clone(), weights.tensor(device, &name).unwrap())).collect();
        parameters.load(loaded.iter().map(|(name, value)| (name.as_str(), value))).unwrap();
        let method = Method::AdamW(Adam { decay: 0.01, ..Adam::default() });
        let optimiser = Optimiser::new(&parameters, method, Schedule::Constant, 1e-3).unwrap();
        let all = file::load(data("batches.safetensors")).unwrap();
        // Read on the host, where every device's numbers come from.
        let batches = ["x", "y"].map(|name| {
            let numbers = all.tensor(&Device::cpu(), name).unwrap().to_vec::<i64>().unwrap();
            numbers.into_iter().map(|x| x as i32).collect::<Vec<i32>>()
        });
        let batch = [0, 1].map(|_| Tensor::zeros(device, DType::I32, [4, 32]).unwrap());
        let scale = scale(device, policy);
        Run { device: device.clone(), bert, parameters, optimiser, scale, policy, batch, batches }
    }

    fn feed(&self, step: usize) {
        for (tensor, all) in self.batch.iter().zip(&self.batches) {
            tensor.write(&all[step * 128..(step + 1) * 128]).unwrap();
        }
    }

    /// Gradients of the batch, and its loss.
    fn gradients(&self) -> Result<Tensor> {
        let tape = Tape::new();
        let watched = self.parameters.watch_as(&tape, self.policy)?;
        let hidden = self.bert.forward(&watched, &BertInput::new(&self.batch[0]), Dropout::none())?;
        let loss = self.bert.loss(&watched, &hidden, &self.batch[1])?;
        let scaled = match &self.scale {
            Some(scale) => loss.mul(&scale.scale().reshape(*loss.shape())?)?,
            None => loss.clone(),
        };
        self.parameters.backward(tape, &watched, &scaled)?;
        Ok(loss)
    }

    fn step(&self) -> Result<Tensor> {
        let loss = self.gradients()?;
        self.optimiser.step(&self.parameters, &StepOptions { scale: self.scale.as_ref(), ..StepOptions::default() })?;
        Ok(loss)
    }

    fn eager(&self, steps: std::ops::Range<usize>) -> Vec<f32> {
        let one = |step| {
            self.feed(step);
            self.step().unwrap().item::<f32>().unwrap()
        };
        steps.map(one).collect()
    }

    fn recorded(&self) -> Recording<Tensor> {
        self.device.record(|| self.step()).unwrap()
    }

    fn replayed(&self, recording: &Recording<Tensor>, steps: std::ops::Range<usize>) -> Vec<f32> {
        let one = |step| {
            self.feed(step);
            recording.replay().unwrap().item::<f32>().unwrap()
        };
        steps.map(one).collect()
    }

    fn bits(&self) -> Vec<u32> {
        let all = self.parameters.values().buckets().iter().flat_map(|bucket| bucket.to_vec::<f32>().unwrap());
        all.map(f32::to_bits).collect()
    }
}

fn pytorchs_losses() -> Vec<f64> {
    let text = std::fs::read_to_string(data("losses.json")).unwrap();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    json["losses"].as_array().unwrap().iter().map(|loss| loss.as_f64().unwrap()).collect()
}

fn first_gradients_are_pytorchs(device: &Device) {
    let run = Run::new(device, Policy::F32);
    run.feed(0);
    run.gradients().unwrap();
    let expected = file::load(data("grads0.safetensors")).unwrap();
    let mut names = expected.names();
    names.sort();
    let mut own: Vec<&str> = run.parameters.names().collect();
    own.sort_unstable();
    assert_eq!(names, own);
    for (name, gradient) in run.parameters.gradients().iter() {
        let want = expected.tensor(&Device::cpu(), name).unwrap();
        assert_eq!(want.dims(), gradient.dims(), "{name}");
        let (want, found) = (want.to_vec::<f32>().unwrap(), gradient.to_vec::<f32>().unwrap());
        let largest = want.iter().fold(0.0f32, |most, x| most.max(x.abs()));
        let off = want.iter().zip(&found).fold(0.0f32, |most, (x, y)| most.max((x - y).abs()));
        // f32's error of some thousand terms; gradients that PyTorch has as noise around zero are held to those of the table.
        assert!(off <= 2e-5 * largest.max(1e-3), "{name}: off by {off}, the largest is {largest}");
    }
}

/// The loss over the table with its room is that of the logits over the vocabulary.
fn loss_is_the_cross_entropy_of_the_logits(device: &Device) {
    let run = Run::new(device, Policy::F32);
    run.feed(0);
    let parameters = run.parameters.unwatched();
    let hidden = run.bert.forward(&parameters, &BertInput::new(&run.batch[0]), Dropout::none()).unwrap();
    let logits = run.bert.predict(&parameters, &hidden).unwrap();
    assert_eq!(logits.dims(), [4, 32, 500]);
    let want = logits.cross_entropy(&run.batch[1]).unwrap().item::<f32>().unwrap();
    let found = run.bert.loss(&parameters, &hidden, &run.batch[1]).unwrap().item::<f32>().unwrap();
    assert!((found / want - 1.0).abs() < 1e-6, "{found}, of the logits {want}");
}

fn losses_are_pytorchs_eager_and_replayed(device: &Device) {
    let eager = Run::new(device, Policy::F32);
    let losses = eager.eager(0..bert_steps());
    for (step, (found, want)) in losses.iter().zip(pytorchs_losses()).enumerate() {
        assert!((f64::from(*found) / want - 1.0).abs() < 1e-4, "step {step}: {found}, PyTorch's {want}");
    }
    let replayed = Run::new(device, Policy::F32);
    let recording = replayed.recorded();
    assert_eq!(replayed.replayed(&recording, 0..bert_steps()), losses);
    assert!(replayed.bits() == eager.bits(), "parameters differ");
}

fn a_stopped_run_goes_on_bit_for_bit(device: &Device) {
    let steps = bert_steps().min(8);
    let straight = Run::new(device, Policy::F32);
    let losses = straight.eager(0..steps);
    let path = std::env::temp_dir().join(format!(
        "polywarp-bert-{}-{:?}.safetensors",
        std::process::id(),
        std::thread::current().id()
    ));
    let stopped = Run::new(device, Policy::F32);
    stopped.eager(0..steps / 2);
    let state = |run: &Run, save: bool| {
        let checkpoint = Checkpoint {
            parameters: &run.parameters,
            optimiser: &run.optimiser,
            scale: None,
            average: None,
            generator: None,
        };
        if save { checkpoint.save(&path) } else { checkpoint.load(&path) }
    };
    state(&stopped, true).unwrap();
    drop(stopped);
    let resumed = Run::new(device, Policy::F32);
    let recording = resumed.recorded();
    state(&resumed, false).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert_eq!(resumed.replayed(&recording, steps / 2..steps), losses[steps / 2..]);
    assert!(resumed.bits() == straight.bits(), "parameters differ");
}

/// f16 and bf16, and for some steps f32 whose products may round their factors to tf32: the CPU's round nothing.
fn other_policies_train_as_f32_does(device: &Device) {
    let want = Run::new(device, Policy::F32).eager(0..bert_steps());
    let all = sixteen_bits().into_iter().map(|policy| (policy, bert_steps()));
    for (policy, steps) in all.chain([(Policy::TF32, bert_steps().min(5))]) {
        let run = Run::new(device, policy);
        let losses = run.eager(0..steps);
        for (step, (found, want)) in losses.iter().zip(&want).enumerate() {
            assert!((found / want - 1.0).abs() < 2e-2, "{policy:?}, step {step}: {found}, in f32 {want}");
        }
        if policy == Policy::TF32 && device.info().kind == DeviceKind::Cpu {
            assert_eq!(losses, want[..steps]);
        }
        if let Some(scale) = &run.scale {
            // None of these gradients overflows.
            assert_eq!(scale.scale().item::<f32>().unwrap(), 65_536.0);
        }
        assert_eq!(run.optimiser.steps().item::<f32>().unwrap(), steps as f32);
    }
}
