//! Optimisers against their formulas in f64, as PyTorch 2 has them (torch/optim) and, for LAMB, as apex has it
//! (csrc/multi_tensor_lamb.cu).

use polywarp_core::Device;
use polywarp_nn::{Adam, Average, Decay, Lamb, Method, Optimiser, Ramp, Schedule, Sgd, StepOptions, TrustRatio};

use super::support::{PARAMETERS, Problem, close_beyond, gradient, parameters, values};

const STEPS: usize = 20;
const RATE: f64 = 0.02;

/// A parameter in f64, with what its rule remembers.
struct Reference {
    value: Vec<f64>,
    memory: [Vec<f64>; 2],
}

fn norm(values: &[f64]) -> f64 {
    values.iter().map(|x| x * x).sum::<f64>().sqrt()
}

impl Reference {
    fn step(&mut self, method: &Method, decays: bool, t: i32, mut g: Vec<f64>) {
        let Reference { value: p, memory: [m, v] } = self;
        let of = |decay: f64| if decays { decay } else { 0.0 };
        match *method {
            Method::Sgd(Sgd { momentum, dampening, nesterov, decay }) => {
                for i in 0..p.len() {
                    g[i] += of(decay) * p[i];
                    if momentum != 0.0 {
                        m[i] = if t == 1 { g[i] } else { momentum * m[i] + (1.0 - dampening) * g[i] };
                        g[i] = if nesterov { g[i] + momentum * m[i] } else { m[i] };
                    }
                    p[i] -= RATE * g[i];
                }
            }
            Method::Adam(Adam { betas: [b1, b2], epsilon, decay })
            | Method::AdamW(Adam { betas: [b1, b2], epsilon, decay }) => {
                let is_apart = matches!(method, Method::AdamW(_));
                let corrections = [1.0 - b1.powi(t), 1.0 - b2.powi(t)];
                for i in 0..p.len() {
                    if is_apart {
                        p[i] *= 1.0 - RATE * of(decay)
                    } else {
                        g[i] += of(decay) * p[i]
                    }
                    m[i] = b1 * m[i] + (1.0 - b1) * g[i];
                    v[i] = b2 * v[i] + (1.0 - b2) * g[i] * g[i];
                    let root = v[i].sqrt() / corrections[1].sqrt() + epsilon;
                    p[i] -= RATE / corrections[0] * m[i] / root;
                }
            }
            Method::Lamb(Lamb { betas: [b1, b2], epsilon, decay, ratio }) => {
                let corrections = [1.0 - b1.powi(t), 1.0 - b2.powi(t)];
                let mut u = vec![0.0; p.len()];
                for i in 0..p.len() {
                    m[i] = b1 * m[i] + (1.0 - b1) * g[i];
                    v[i] = b2 * v[i] + (1.0 - b2) * g[i] * g[i];
                    u[i] = m[i] / corrections[0] / ((v[i] / corrections[1]).sqrt() + epsilon) + of(decay) * p[i];
                }
                let has_ratio = ratio == TrustRatio::All || of(decay) != 0.0;
                let [of_p, of_u] = [norm(p), norm(&u)];
                let ratio = if has_ratio && of_p > 0.0 && of_u > 0.0 { of_p / of_u } else { 1.0 };
                p.iter_mut().zip(&u).for_each(|(p, u)| *p -= RATE * ratio * u);
            }
        }
    }
}

fn agrees(device: &Device, method: Method) {
    let (parameters, problem) = (parameters(device), Problem::new(device));
    let optimiser = Optimiser::new(&parameters, method, Schedule::Constant, RATE).unwrap();
    let mut references: Vec<Reference> = Vec::new();
    for value in values(&parameters) {
        let zeros = vec![0.0; value.len()];
        references
            .push(Reference { value: value.into_iter().map(f64::from).collect(), memory: [zeros.clone(), zeros] });
    }
    for t in 1..=STEPS as i32 {
        problem.backward(&parameters, None).unwrap();
        optimiser.step(&parameters, &StepOptions::default()).unwrap();
        for (number, (reference, (_, _, decay))) in references.iter_mut().zip(PARAMETERS).enumerate() {
            let gradient = gradient(number, &reference.value);
            reference.step(&method, decay == Decay::Yes, t, gradient);
        }
        for (found, reference) in values(&parameters).iter().zip(&references) {
            close_beyond(0.1, found, &reference.value, 1e-5);
        }
    }
    assert_eq!(optimiser.steps().item::<f32>().unwrap(), STEPS as f32);
    // What lies between the parameters is still 0.
    for bucket in parameters.values().buckets() {
        let values = bucket.to_vec::<f32>().unwrap();
        assert!(values[7..64].iter().all(|&value| value == 0.0));
    }
}

pub fn sgd_agrees(device: &Device) {
    agrees(device, Method::Sgd(Sgd { decay: 0.1, ..Sgd::default() }));
}

pub fn momentum_agrees(device: &Device) {
    agrees(device, Method::Sgd(Sgd { momentum: 0.9, decay: 0.1, ..Sgd::default() }));
}

pub fn dampening_agrees(device: &Device) {
    agrees(device, Method::Sgd(Sgd { momentum: 0.9, dampening: 0.3, ..Sgd::default() }));
}

pub fn nesterov_agrees(device: &Device) {
    agrees(device, Method::Sgd(Sgd { momentum: 0.9, nesterov: true, decay: 0.1, ..Sgd::default() }));
}

pub fn adam_agrees(device: &Device) {
    agrees(device, Method::Adam(Adam { decay: 0.1, ..Adam::default() }));
}

pub fn adamw_agrees(device: &Device) {
    agrees(device, Method::AdamW(Adam { decay: 0.1, ..Adam::default() }));
}

pub fn adam_without_memory_agrees(device: &Device) {
    agrees(device, Method::Adam(Adam { betas: [0.0, 0.0], epsilon: 1e-3, decay: 0.0 }));
}

pub fn lamb_agrees(device: &Device) {
    agrees(device, Method::Lamb(Lamb { decay: 0.1, ..Lamb::default() }));
}

pub fn lamb_with_ratios_for_all_agrees(device: &Device) {
    agrees(device, Method::Lamb(Lamb { decay: 0.1, ratio: TrustRatio::All, ..Lamb::default() }));
}

/// A step is one launch for each bucket, however many parameters are in it, and two of single elements; the average of the weights is one for
/// each bucket.
pub fn steps_and_averages_are_a_launch_for_each_bucket(device: &Device) {
    let (parameters, problem) = (parameters(device), Problem::new(device));
    problem.backward(&parameters, None).unwrap();
    let buckets = parameters.values().buckets().len();
    assert!(buckets < PARAMETERS.len(), "no bucket has several parameters");
    let adam = Adam { decay: 0.1, ..Adam::default() };
    for method in [
        Method::Sgd(Sgd { decay: 0.1, ..Sgd::default() }),
        Method::Sgd(Sgd { momentum: 0.9, nesterov: true, decay: 0.1, ..Sgd::default() }),
        Method::Adam(adam),
        Method::AdamW(adam),
    ] {
        let optimiser = Optimiser::new(&parameters, method, Schedule::Constant, RATE).unwrap();
        let step = device.record(|| optimiser.step(&parameters, &StepOptions::default())).unwrap();
        assert_eq!(step.launches(), buckets + 2, "{method:?}");
        for ramp in [Ramp::Yes, Ramp::No] {
            let average = Average::new(&parameters, 0.9, ramp).unwrap();
            let update = device.record(|| average.update(&parameters, &optimiser)).unwrap();
            assert_eq!(update.launches(), buckets, "{ramp:?}");
        }
    }
}

cases!(
    sgd_agrees,
    momentum_agrees,
    dampening_agrees,
    nesterov_agrees,
    adam_agrees,
    adamw_agrees,
    adam_without_memory_agrees,
    lamb_agrees,
    lamb_with_ratios_for_all_agrees,
    steps_and_averages_are_a_launch_for_each_bucket,
);
