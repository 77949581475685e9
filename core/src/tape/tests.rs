//! Gradients through whole computations: against numbers and central differences, and what is refused.

use super::*;
use crate::DType;
use crate::harness::ReferenceBackend;

fn devices() -> Vec<Device> {
    #[cfg(feature = "cpu")]
    return vec![Device::cpu(), Device::new(ReferenceBackend::default())];
    #[cfg(not(feature = "cpu"))]
    vec![Device::new(ReferenceBackend::default())]
}

fn numbers(device: &Device, count: u64, shape: &[u64]) -> Tensor {
    let wave = |i: u64| f64::from(u32::try_from(i * 37 % 101).unwrap()) / 50.0 - 1.0;
    Tensor::from_slice(device, &(0..count).map(wave).collect::<Vec<f64>>(), Shape::new(shape).unwrap()).unwrap()
}

/// Compares the gradients of `f` by each of `inputs` with central differences, on every device.
fn check(shapes: &[&[u64]], f: impl Fn(&[Tensor]) -> Result<Tensor>) {
    for device in devices() {
        let inputs: Vec<Tensor> = shapes.iter().map(|shape| numbers(&device, shape.iter().product(), shape)).collect();
        let tape = Tape::new();
        let watched: Vec<Tensor> = inputs.iter().map(|input| tape.watch(input).unwrap()).collect();
        let loss = f(&watched).unwrap();
        let gradients = tape.backward(&loss).unwrap();
        for (number, input) in inputs.iter().enumerate() {
            let found: Vec<f64> = gradients.of(&watched[number]).unwrap().to_vec().unwrap();
            let values: Vec<f64> = input.to_vec().unwrap();
            for (i, found) in found.iter().enumerate() {
                let moved = |by: f64| {
                    let mut values = values.clone();
                    values[i] += by;
                    let mut inputs = inputs.clone();
                    inputs[number] = Tensor::from_slice(&device, &values, *input.shape()).unwrap();
                    f(&inputs).unwrap().to_vec::<f64>().unwrap()[0]
                };
                let numeric = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                let off = (found - numeric).abs();
                assert!(off < 1e-6 * (1.0 + numeric.abs()), "input {number} at {i}: {found}, not {numeric}");
            }
        }
    }
}

#[test]
fn a_network_of_two_layers_with_softmax_has_the_gradients_of_its_loss() {
    check(&[&[4, 5], &[5, 6], &[6], &[6, 3]], |t| {
        let hidden = t[0].matmul(&t[1])?.add(&t[2])?.gelu()?;
        let scores = hidden.matmul(&t[3])?.log_softmax(1)?;
        scores.slice(1, 0..1)?.mean(&[])?.neg()
    });
}

#[test]
fn views_repeats_and_reuse_bring_their_gradients_together() {
    check(&[&[3, 4], &[4]], |t| {
        let (x, row) = (&t[0], &t[1]);
        let across = x.t()?.mul(&row.unsqueeze(1)?)?.sum(&[0])?;
        let part = x.slice(0, 1..3)?.flip(1)?.mul(&x.slice(0, 0..2)?)?.sum(&[])?;
        let all = x.reshape([12])?.mul(&row.broadcast_to([3, 4])?.reshape([3, 4])?.copy()?.reshape([12])?)?;
        across.mul(&across)?.sum(&[])?.add(&part)?.add(&all.max(&[])?)
    });
    check(&[&[2, 3, 5], &[5], &[5]], |t| t[0].layer_norm(&t[1], &t[2], 1e-3)?.tanh()?.sum(&[]));
    check(&[&[2, 3, 4], &[4, 3]], |t| {
        let scores = t[0].matmul(&t[1])?;
        scores.matmul(&scores.softmax(2)?.t()?)?.mean(&[])
    });
}

#[test]
fn what_cannot_be_differentiated_is_refused_before_it_runs() {
    let device = Device::new(ReferenceBackend::default());
    let invalid = |error: Error, words: &str| {
        let text = error.to_string();
        assert!(matches!(error, Error::InvalidArgument { .. }) && text.contains(words), "{text}");
    };
    let x = numbers(&device, 6, &[2, 3]);
    let tape = Tape::new();
    invalid(tape.watch(&x.t().unwrap()).unwrap_err(), "is not dense");
    invalid(tape.watch(&Tensor::zeros(&device, DType::I32, [2]).unwrap()).unwrap_err(), "has no gradient");
    let watched = tape.watch(&x).unwrap();
    invalid(tape.watch(&watched).unwrap_err(), "watches it already");
    invalid(watched.prod(&[]).unwrap_err(), "prod has no gradient: a product has no rule yet");
    invalid(watched.add_scalar_(1).unwrap_err(), "a live tape watches");
    invalid(watched.assign(&x).unwrap_err(), "a live tape watches");
    // By whichever handle, and what a rule will read as well.
    invalid(x.add_scalar_(1).unwrap_err(), "a live tape watches");
    let kept = numbers(&device, 6, &[2, 3]);
    let product = watched.mul(&kept).unwrap();
    invalid(kept.mul_scalar_(2).unwrap_err(), "watches or keeps");
    invalid(kept.slice(0, 0..1).unwrap().assign(&kept.slice(0, 1..2).unwrap()).unwrap_err(), "watches or keeps");
    invalid(kept.write(&[0.0; 6]).unwrap_err(), "watches or keeps");
    let elsewhere = numbers(&device, 6, &[2, 3]);
    invalid(elsewhere.assign(&product).unwrap_err(), "where no tape follows");
    elsewhere.assign(&kept).unwrap();
    let other = Tape::new();
    invalid(other.watch(&x).unwrap().add(&watched).unwrap_err(), "two tapes");
    // Positions and masks carry none, and stop nothing.
    assert_eq!(watched.argmax(&[]).unwrap().dtype(), DType::U32);
    let mask = watched.gt(&watched).unwrap();
    assert!(mask.track().is_none());
    let sum = watched.sum(&[]).unwrap();
    let unrelated = tape.watch(&numbers(&device, 3, &[3])).unwrap();
    let two = Tape::new();
    invalid(two.backward(&sum).unwrap_err(), "no tensor that this tape watches");
    let gradients = tape.backward(&sum).unwrap();
    assert_eq!(gradients.of(&watched).unwrap().to_vec::<f64>().unwrap(), [1.0; 6]);
    assert!(gradients.of(&unrelated).is_none() && gradients.of(&x).is_none());
    drop(other);
    // The tapes are gone: what they watched is a tensor like any other.
    watched.add_scalar_(1).unwrap();
    assert!(watched.prod(&[]).is_ok());
    let tape = Tape::new();
    invalid(tape.backward(&tape_loss(&device)).unwrap_err(), "several elements");
}

fn tape_loss(device: &Device) -> Tensor {
    numbers(device, 2, &[2])
}

#[cfg(feature = "cpu")]
#[test]
fn a_recorded_step_is_the_eager_one_and_memory_stays_the_same() {
    let device = Device::cpu();
    let step = |w: &Tensor, x: &Tensor| -> Result<()> {
        let tape = Tape::new();
        let w_watched = tape.watch(w)?;
        let y = x.matmul(&w_watched)?.tanh()?;
        let loss = y.mul(&y)?.mean(&[])?;
        let gradients = tape.backward(&loss)?;
        let gradient = gradients
            .of(&w_watched)
            .cloned()
            .ok_or_else(|| Error::InvalidArgument { what: "gradient", reason: "none".to_owned() })?;
        let [dw, value] = [0, 1].map(crate::Expr::input);
        Tensor::update(&[value - dw * 0.1], &[&gradient], &[w]).map(drop)
    };
    let make = || (numbers(&device, 12, &[4, 3]), numbers(&device, 20, &[5, 4]));
    let (eager, x) = make();
    let (replayed, _) = make();
    let recording = device.record(|| step(&replayed, &x)).unwrap();
    let mut in_use = Vec::new();
    for _ in 0..50 {
        step(&eager, &x).unwrap();
        recording.replay().unwrap();
        in_use.push(device.memory().in_use_bytes);
    }
    let bits = |tensor: &Tensor| tensor.to_vec::<f64>().unwrap().iter().map(|x| x.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&eager), bits(&replayed));
    assert!(in_use.iter().all(|bytes| *bytes == in_use[0]), "{in_use:?}");
}
