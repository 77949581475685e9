//! ResNet-50 beside PyTorch: the same weights, the same pictures, and the losses of both, step by step.
//!
//! A folder holds the start and the results of a PyTorch run: `init.safetensors` (the weights by torchvision's names),
//! `batches.safetensors` (x of [steps, n, 3, height, width] in f32, y of [steps, n] in i64) and `losses.json`
//! ({"losses": [..]}, in f32, by SGD at a rate of 0.01 with a momentum of 0.9 and a decay of 1e-4). The step is
//! recorded once and replayed. The decision to know: two sums in different orders differ in their last bits, and
//! training amplifies such differences. So the table shows the differences, and only the first loss must agree.
//!
//! Run: `cargo run --release --example follow_pytorch -- FOLDER [f32|bf16|f16] [DEVICE]`; without a folder it says so and ends.

use std::error::Error;
use std::path::Path;

use polywarp::nn::models::{ResNet, ResNetConfig};
use polywarp::nn::{
    Builder, LossScale, LossScaleOptions, Method, Mode, Optimiser, Parameters, Policy, Schedule, Sgd, StepOptions, file,
};
use polywarp::{DType, Device, Result, Tape, Tensor};

/// The largest relative difference of the first loss from PyTorch's in f32: the bound of f32 over some thousand terms,
/// and that of 16 bits.
const FIRST: [f64; 2] = [1e-4, 2e-2];

struct Run {
    net: ResNet,
    parameters: Parameters,
    optimiser: Optimiser,
    scale: Option<LossScale>,
    policy: Policy,
    pictures: Tensor,
    classes: Tensor,
}

impl Run {
    fn new(device: &Device, folder: &Path, policy: Policy, [n, height, width]: [u64; 3]) -> Result<Run> {
        let mut builder = Builder::new(0).with_decay_of_all();
        let net = ResNet::new(&mut builder, ResNetConfig::resnet50())?;
        let parameters = builder.build(device)?;
        let weights = file::load(folder.join("init.safetensors"))?;
        let mut loaded = Vec::new();
        for name in weights.names() {
            // Counts of 64 bits are read on the host, because not every device has i64.
            let host = Device::cpu();
            let on = if weights.spec(&name)?.0 == DType::I64 { &host } else { device };
            let value = weights.tensor(on, &name)?;
            loaded.push((name, value));
        }
        parameters.load(loaded.iter().map(|(name, value)| (name.as_str(), value)))?;
        let method = Method::Sgd(Sgd { momentum: 0.9, decay: 1e-4, ..Sgd::default() });
        let scale = (policy.compute == DType::F16).then(|| LossScale::new(device, LossScaleOptions::default()));
        Ok(Run {
            optimiser: Optimiser::new(&parameters, method, Schedule::Constant, 0.01)?,
            net,
            parameters,
            scale: scale.transpose()?,
            policy,
            pictures: Tensor::zeros(device, DType::F32, [n, 3, height, width])?,
            classes: Tensor::zeros(device, DType::I32, [n])?,
        })
    }

    /// One step on the current pictures; returns the loss before it.
    fn step(&self) -> Result<Tensor> {
        let tape = Tape::new();
        let watched = self.parameters.watch_as(&tape, self.policy)?;
        let pixels = self.pictures.permute([0, 2, 3, 1])?.contiguous()?.cast(self.policy.compute)?;
        let loss = self.net.forward(&watched, &pixels, Mode::Training)?.cross_entropy(&self.classes)?;
        let scaled = self.scale.as_ref().map(|scale| loss.mul(scale.scale())).transpose()?;
        self.parameters.backward(tape, &watched, scaled.as_ref().unwrap_or(&loss))?;
        self.optimiser.step(&self.parameters, &StepOptions { scale: self.scale.as_ref(), ..StepOptions::default() })?;
        Ok(loss)
    }
}

fn main() -> std::result::Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let Some(folder) = arguments.first().map(Path::new) else {
        println!("give a folder that holds init.safetensors, batches.safetensors and losses.json of PyTorch's");
        return Ok(());
    };
    let word = arguments.get(1).map_or("f32", String::as_str);
    let (policy, most) = match word {
        "f32" => (Policy::F32, FIRST[0]),
        "bf16" => (Policy::BF16, FIRST[1]),
        "f16" => (Policy::F16, FIRST[1]),
        _ => return Err(format!("{word}: there are f32, bf16 and f16").into()),
    };
    let device = match arguments.get(2) {
        Some(name) => polywarp::device(name)?,
        None => polywarp::best()?,
    };
    let json: serde_json::Value = serde_json::from_str(&std::fs::read_to_string(folder.join("losses.json"))?)?;
    let losses = json["losses"].as_array().ok_or("losses.json has no list `losses`")?;
    let pytorchs: Vec<f64> = losses.iter().filter_map(serde_json::Value::as_f64).collect();
    // Read on the host, from which every device gets its numbers.
    let batches = file::load(folder.join("batches.safetensors"))?;
    let (x, y) = (batches.tensor(&Device::cpu(), "x")?, batches.tensor(&Device::cpu(), "y")?);
    let &[steps, n, _, height, width] = x.dims() else { return Err("x has other than five axes".into()) };
    let classes: Vec<i32> = y.to_vec::<i64>()?.into_iter().map(|class| class as i32).collect();
    let run = Run::new(&device, folder, policy, [n, height, width])?;
    let mut recording = None;
    println!("{}, {word}, {n} pictures of {height} x {width} a step\nstep      loss   PyTorch's   off", device.id());
    let mut off = Vec::new();
    for (step, want) in (0..steps).zip(&pytorchs) {
        run.pictures.write(&x.slice(0, step..step + 1)?.to_vec::<f32>()?)?;
        let first = step as usize * n as usize;
        run.classes.write(&classes[first..first + n as usize])?;
        let loss = match &recording {
            None => recording.insert(device.record(|| run.step())?).replay()?.item::<f32>()?,
            Some(recording) => recording.replay()?.item::<f32>()?,
        };
        off.push((f64::from(loss) / want - 1.0).abs());
        println!("{step:4} {loss:9.5} {want:11.5}   {:.1e}", off[step as usize]);
    }
    println!("largest: {:.1e}", off.iter().copied().fold(0.0, f64::max));
    let first = *off.first().ok_or("there are no steps")?;
    // NaN does not count as agreement.
    if first.is_nan() || first > most {
        return Err(format!("the first loss is off by {first:.1e}, more than {most:.0e}").into());
    }
    Ok(())
}
