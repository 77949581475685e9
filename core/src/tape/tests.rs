//! Gradients through whole computations: against numbers and central differences, and what is refused.

use super::*;
use crate::harness::ReferenceBackend;
use crate::ops::BatchNormEnd;
use crate::{DType, Shape, UnaryFn};

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
        scores.slice(1, 0..1)?.mean(..)?.neg()
    });
}

#[test]
fn views_repeats_and_reuse_bring_their_gradients_together() {
    check(&[&[3, 4], &[4]], |t| {
        let (x, row) = (&t[0], &t[1]);
        let across = x.t()?.mul(&row.unsqueeze(1)?)?.sum(0)?;
        let part = x.slice(0, 1..3)?.flip(1)?.mul(&x.slice(0, 0..2)?)?.sum(..)?;
        let all = x.reshape([12])?.mul(&row.broadcast_to([3, 4])?.reshape([3, 4])?.copy()?.reshape([12])?)?;
        across.mul(&across)?.sum(..)?.add(&part)?.add(&all.max(..)?)
    });
    check(&[&[2, 3, 5], &[5], &[5]], |t| t[0].layer_norm(&t[1], &t[2], 1e-3)?.tanh()?.sum(..));
    check(&[&[2, 3, 5], &[5], &[5]], |t| t[0].batch_norm(&t[1], &t[2], 1e-3)?.y.tanh()?.sum(..));
    check(&[&[2, 3, 5], &[5], &[5], &[2, 3, 5]], |t| {
        let end = BatchNormEnd { residual: Some(&t[3]), activation: Some(UnaryFn::Relu) };
        t[0].batch_norm_end(&t[1], &t[2], 1e-3, &end)?.y.tanh()?.sum(..)
    });
    check(&[&[2, 3, 4], &[4, 3]], |t| {
        let scores = t[0].matmul(&t[1])?;
        scores.matmul(&scores.softmax(2)?.t()?)?.mean(..)
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
    let (groups, ends) = (numbers(&device, 6, &[1, 3, 2]), Tensor::from_slice(&device, &[2i32], [1]).unwrap());
    let grouped = watched.grouped_matmul(&groups, &ends).unwrap_err();
    invalid(grouped, "grouped_matmul has no gradient: grouped products have no rule yet");
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
    assert_eq!(watched.argmax(..).unwrap().dtype(), DType::U32);
    let mask = watched.gt(&watched).unwrap();
    assert!(mask.track().is_none());
    let sum = watched.sum(..).unwrap();
    let unrelated = tape.watch(&numbers(&device, 3, &[3])).unwrap();
    let two = Tape::new();
    invalid(two.backward(&sum).unwrap_err(), "no tensor that this tape watches");
    let gradients = tape.backward(&sum).unwrap();
    assert_eq!(gradients.of(&watched).unwrap().to_vec::<f64>().unwrap(), [1.0; 6]);
    assert!(gradients.of(&unrelated).is_none() && gradients.of(&x).is_none());
    drop(other);
    // The tapes are gone: what they watched is a tensor like any other.
    watched.add_scalar_(1).unwrap();
    assert!(watched.prod(..).is_ok());
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
        let loss = y.mul(&y)?.mean(..)?;
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

/// The launches of backward, each with its operation and the bytes that it must move, and the gradient of `w`: of a loss made of `x` and `w`. The
/// tape holds more where `branches` says so, of watched tensors, of what the loss is made of and of the loss itself; none of it leads to the loss.
#[cfg(feature = "cpu")]
fn backward_beside_branches(tape: Tape, x: &Tensor, branches: bool) -> (Vec<(&'static str, u64)>, Vec<f64>) {
    let device = x.device();
    let [w, v] = [&[4u64, 3][..], &[3, 4]].map(|shape| tape.watch(&numbers(device, 12, shape)).unwrap());
    let branch = |from: &Tensor| {
        if branches {
            from.exp().and_then(|y| y.matmul(&v.exp()?)?.softmax(1)?.sum(..)).unwrap();
        }
    };
    branch(&w);
    let hidden = x.matmul(&w).unwrap();
    branch(&hidden);
    let y = hidden.tanh().unwrap();
    let loss = y.mul(&y).and_then(|squares| squares.sum(..)).unwrap();
    branch(&loss.reshape([1, 1]).unwrap().broadcast_to([2, 3]).unwrap());
    let (gradients, profile) = device.profile(|| tape.backward(&loss)).unwrap();
    assert!(gradients.of(&v).is_none(), "the loss does not depend on it");
    let launches = profile.launches.iter().map(|launch| (launch.part.op, launch.part.bytes)).collect();
    (launches, gradients.of(&w).unwrap().to_vec().unwrap())
}

/// What does not lie between a watched tensor and the loss costs no launch on the way back.
#[cfg(feature = "cpu")]
#[test]
fn backward_runs_what_lies_between_watched_tensors_and_the_loss_alone() {
    let device = Device::cpu();
    let x = numbers(&device, 20, &[5, 4]);
    let (alone, want) = backward_beside_branches(Tape::new(), &x, false);
    let (beside, found) = backward_beside_branches(Tape::new(), &x, true);
    assert!(!alone.is_empty() && beside == alone, "{beside:?}, without branches {alone:?}");
    assert_eq!(found, want);
    // Nor is there a gradient of an operand that nobody watches: of one that is watched it has bytes to write.
    let tape = Tape::new();
    let watched = tape.watch(&x).unwrap();
    let (both, _) = backward_beside_branches(tape, &watched, false);
    let bytes = |launches: &[(&str, u64)]| launches.iter().map(|(_, bytes)| bytes).sum::<u64>();
    assert!(bytes(&both) >= bytes(&alone) + 8 * 20, "{both:?}, of one operand {alone:?}");
}

/// What a rule reads is let go with the last rule that reads it: gradients of the parameters take its room on the way back.
#[test]
fn what_was_kept_is_freed_with_its_last_use() {
    const LAYERS: u64 = 16;
    const ELEMENTS: u64 = 64 * 64;
    const BYTES: u64 = 8 * ELEMENTS;
    for device in devices() {
        let parameters: Vec<Tensor> = (0..LAYERS).map(|_| numbers(&device, ELEMENTS, &[64, 64])).collect();
        let before = device.memory().in_use_bytes;
        let tape = Tape::new();
        let watched: Vec<Tensor> = parameters.iter().map(|w| tape.watch(w).unwrap()).collect();
        let mut x = numbers(&device, ELEMENTS, &[64, 64]);
        for w in &watched {
            // The product's rule reads x, and that of tanh what is x for the next layer.
            x = x.mul(w).and_then(|y| y.tanh()).unwrap();
        }
        let loss = x.sum(..).unwrap();
        drop(x);
        let kept = device.memory().in_use_bytes;
        assert!(kept - before >= LAYERS * BYTES, "{} bytes kept", kept - before);
        let gradients = tape.backward(&loss).unwrap();
        let memory = device.memory();
        assert!(watched.iter().all(|w| gradients.of(w).is_some()));
        assert!(memory.in_use_bytes - before >= LAYERS * BYTES, "the gradients are there");
        // Both whole would be 16 more: some are under way from rule to rule.
        let more = memory.peak_bytes - kept;
        assert!(more <= 6 * BYTES, "{device:?}: {more} bytes more than the {kept} that were kept");
    }
}

/// The squared gradient of a network's loss by its input: its value, and its gradients by input and weights.
fn penalty(device: &Device, x: &[f64], w: &[f64]) -> (f64, [Vec<f64>; 2]) {
    let tape = Tape::new();
    let watch =
        |values: &[f64], dims: [u64; 2]| tape.watch(&Tensor::from_slice(device, values, dims).unwrap()).unwrap();
    let (x, w) = (watch(x, [3, 4]), watch(w, [4, 2]));
    let loss = x.matmul(&w).and_then(|y| y.tanh()?.softmax(1)?.slice(1, 0..1)?.log()?.sum(..)).unwrap();
    let slope = tape.gradients(&loss, &[&x]).unwrap().swap_remove(0).unwrap();
    let whole = slope.mul(&slope).and_then(|squares| squares.sum(..)?.add(&loss)).unwrap();
    let value = whole.to_vec::<f64>().unwrap()[0];
    let gradients = tape.backward(&whole).unwrap();
    (value, [&x, &w].map(|of| gradients.of(of).unwrap().to_vec::<f64>().unwrap()))
}

#[test]
fn gradients_of_second_order_are_those_of_the_gradient() {
    for device in devices() {
        let [x, w]: [Vec<f64>; 2] = [12, 8].map(|count| numbers(&device, count, &[count]).to_vec().unwrap());
        let (_, found) = penalty(&device, &x, &w);
        for (operand, values) in [&x, &w].into_iter().enumerate() {
            for i in 0..values.len() {
                let moved = |by: f64| {
                    let mut both = [x.clone(), w.clone()];
                    both[operand][i] += by;
                    penalty(&device, &both[0], &both[1]).0
                };
                let numeric = (moved(1e-5) - moved(-1e-5)) / 2e-5;
                let off = (found[operand][i] - numeric).abs();
                assert!(off < 1e-6 * (1.0 + numeric.abs()), "{operand} at {i}: {}, not {numeric}", found[operand][i]);
            }
        }
    }
}

#[test]
fn gradients_on_the_tape_are_asked_for_tensors_that_it_tracks() {
    let device = Device::new(ReferenceBackend::default());
    let tape = Tape::new();
    let x = tape.watch(&numbers(&device, 3, &[3])).unwrap();
    let stranger = numbers(&device, 3, &[3]);
    let loss = x.mul(&x).and_then(|y| y.sum(..)).unwrap();
    let error = tape.gradients(&loss, &[&stranger]).unwrap_err().to_string();
    assert!(error.contains("does not track"), "{error}");
    let unused = tape.watch(&stranger).unwrap();
    let found = tape.gradients(&loss, &[&unused, &x]).unwrap();
    assert!(found[0].is_none() && found[1].is_some());
}

/// A deep network, each layer a stretch or not: the gradients, and the most bytes that were in use.
fn deep(device: &Device, checkpointed: bool) -> (Vec<u8>, u64) {
    let tape = Tape::new();
    let w = tape.watch(&numbers(device, 64 * 64, &[64, 64])).unwrap();
    let layer = |inputs: &[Tensor]| {
        let y = inputs[0].matmul(&inputs[1])?.mul_scalar(0.1)?.tanh()?;
        Ok(vec![y.add(&y.exp()?)?.sub(&inputs[0])?])
    };
    let mut x = numbers(device, 64 * 64, &[64, 64]);
    for _ in 0..6 {
        x = match checkpointed {
            true => tape.checkpoint(&[&x, &w], layer).unwrap().swap_remove(0),
            false => layer(&[x, w.clone()]).unwrap().swap_remove(0),
        };
    }
    let kept = device.memory().in_use_bytes;
    let gradients = tape.backward(&x.sum(..).unwrap()).unwrap();
    (gradients.of(&w).unwrap().to_bytes().unwrap(), kept)
}

#[test]
fn a_checkpointed_stretch_has_the_same_gradients_and_keeps_its_inputs_alone() {
    for device in devices() {
        let (whole, kept) = deep(&device, false);
        let (again, kept_again) = deep(&device, true);
        assert!(whole == again, "the gradients differ");
        assert!(2 * kept_again < kept, "{kept_again} bytes of {kept}");
    }
}

#[test]
fn a_checkpoint_that_would_lose_a_gradient_is_refused() {
    let device = Device::new(ReferenceBackend::default());
    let tape = Tape::new();
    let x = tape.watch(&numbers(&device, 3, &[3])).unwrap();
    let w = tape.watch(&numbers(&device, 3, &[3])).unwrap();
    let hidden = w.clone();
    let error = tape.checkpoint(&[&x], move |inputs| Ok(vec![inputs[0].mul(&hidden)?])).unwrap_err().to_string();
    assert!(error.contains("none of its inputs"), "{error}");
    // A stretch of nothing that is watched is not on the tape.
    let plain = numbers(&device, 3, &[3]);
    let y = tape.checkpoint(&[&plain], |inputs| Ok(vec![inputs[0].exp()?])).unwrap().swap_remove(0);
    assert!(tape.backward(&y.sum(..).unwrap()).is_err());
}

/// Places get what new tensors would, bit for bit where the dtype is the same: transposed weights, repeats, reuse and what the loss does
/// not depend on; each in the middle of a buffer.
#[test]
fn gradients_go_to_their_places() {
    for device in devices() {
        let inputs = [&[4u64, 6][..], &[5, 6], &[5], &[3], &[5, 5]].map(|shape| {
            let x = numbers(&device, shape.iter().product(), shape);
            x.cast(DType::F32).unwrap()
        });
        let loss = |t: &[Tensor]| {
            let y = t[0].matmul(&t[1].t()?)?.add(&t[2])?.gelu()?;
            let tied = t[4].matmul(&t[4].t()?)?;
            y.matmul(&tied)?.mul(&t[2])?.sum(..)
        };
        let watch = |tape: &Tape| inputs.iter().map(|input| tape.watch(input).unwrap()).collect::<Vec<Tensor>>();
        let tape = Tape::new();
        let watched = watch(&tape);
        let of_new = tape.backward(&loss(&watched).unwrap()).unwrap();
        let want: Vec<Option<Vec<f32>>> =
            watched.iter().map(|x| of_new.of(x).map(|gradient| gradient.to_vec().unwrap())).collect();
        // Two of them lie in one buffer.
        let matrices = Tensor::full(&device, DType::F32, [8 + 30 + 2 + 25], f32::NAN).unwrap();
        let others: Vec<Tensor> =
            inputs.iter().map(|x| Tensor::full(&device, DType::F32, *x.shape(), 7.0f32).unwrap()).collect();
        let part = |from: u64, rows: u64, columns: u64| {
            matrices.slice(0, from..from + rows * columns).unwrap().reshape([rows, columns]).unwrap()
        };
        let places = [others[0].clone(), part(8, 5, 6), others[2].clone(), others[3].clone(), part(40, 5, 5)];
        let tape = Tape::new();
        let watched = watch(&tape);
        let loss = loss(&watched).unwrap();
        let pairs: Vec<(&Tensor, &Tensor)> = watched.iter().zip(&places).collect();
        let found = tape.backward_into(&loss, &pairs).unwrap();
        for (number, (place, want)) in places.iter().zip(want).enumerate() {
            let value = place.to_vec::<f32>().unwrap();
            match want {
                Some(want) => {
                    for (found, want) in value.iter().zip(want) {
                        assert!((found - want).abs() <= 1e-5 * (1.0 + want.abs()), "input {number}: {found}, {want}");
                    }
                    assert!(found.of(&watched[number]).unwrap().buffer().same(place.buffer()));
                }
                None => assert_eq!(value, [0.0; 3]),
            }
        }
        // What lies around a place is untouched.
        assert!(matrices.slice(0, 0..8).unwrap().to_vec::<f32>().unwrap().iter().all(|x| x.is_nan()));
    }
}

/// Gradients of 16-bit tensors are added up in f32 places.
#[test]
fn places_may_be_wider_than_what_is_watched() {
    for device in devices() {
        let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0], [3]).unwrap().cast(DType::F16).unwrap();
        let place = Tensor::zeros(&device, DType::F32, [3]).unwrap();
        let tape = Tape::new();
        let watched = tape.watch(&x).unwrap();
        // 2048 + 1 is no f16.
        let large = watched.mul_scalar(2048.0).unwrap().sum(..).unwrap();
        let loss = large.add(&watched.sum(..).unwrap()).unwrap();
        tape.backward_into(&loss, &[(&watched, &place)]).unwrap();
        assert_eq!(place.to_vec::<f32>().unwrap(), [2049.0; 3]);
    }
}

#[test]
fn places_that_do_not_fit_are_refused() {
    for device in devices() {
        let x = Tensor::from_slice(&device, &[1.0f32, 2.0], [2]).unwrap();
        let refused = |place: &Tensor, of_stranger: bool| {
            let tape = Tape::new();
            let watched = tape.watch(&x).unwrap();
            let loss = watched.sum(..).unwrap();
            let of = if of_stranger { &loss } else { &watched };
            tape.backward_into(&loss, &[(of, place)]).unwrap_err().to_string()
        };
        let zeros = |dtype, shape: &[u64]| Tensor::zeros(&device, dtype, Shape::new(shape).unwrap()).unwrap();
        assert!(refused(&zeros(DType::F32, &[3]), false).contains("[3]"));
        assert!(refused(&zeros(DType::F16, &[2]), false).contains("f16"));
        assert!(refused(&zeros(DType::F32, &[4]).slice_step(0, 0..4, 2).unwrap(), false).contains("not dense"));
        assert!(refused(&zeros(DType::F32, &[]), true).contains("does not watch"));
        assert!(refused(&x, false).contains("live tape"));
        assert!(refused(&zeros(DType::F32, &[3]).slice(0, 1..3).unwrap(), false).contains("16 bytes"));
        // One place for two, and two for one.
        let (place, other) = (zeros(DType::F32, &[2]), zeros(DType::F32, &[2]));
        for is_one_tensor in [false, true] {
            let tape = Tape::new();
            let [a, b] = [x.clone(), x.copy().unwrap()].map(|x| tape.watch(&x).unwrap());
            let loss = a.mul(&b).unwrap().sum(..).unwrap();
            let pairs = if is_one_tensor { [(&a, &place), (&a, &other)] } else { [(&a, &place), (&b, &place)] };
            assert!(tape.backward_into(&loss, &pairs).unwrap_err().to_string().contains("its own"));
        }
    }
}

/// A part that begins where no operation can write is laid first.
#[test]
fn parts_of_a_place_may_begin_anywhere() {
    for device in devices() {
        let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3]).unwrap();
        let place = Tensor::zeros(&device, DType::F32, [2, 3]).unwrap();
        let tape = Tape::new();
        let watched = tape.watch(&x).unwrap();
        let part = watched.slice(0, 1..2).unwrap();
        let loss = part.mul(&part).unwrap().sum(..).unwrap().add(&watched.sum(..).unwrap()).unwrap();
        tape.backward_into(&loss, &[(&watched, &place)]).unwrap();
        assert_eq!(place.to_vec::<f32>().unwrap(), [1.0, 1.0, 1.0, 9.0, 11.0, 13.0]);
    }
}

/// Parts of one product, transposed, overlapping and not all of it, have the gradients that laying and adding gives.
#[test]
fn parts_of_a_product_have_its_gradients() {
    check(&[&[2, 3, 4], &[4, 12]], |t| {
        let y = t[0].matmul(&t[1])?;
        let head = |from: u64| y.slice(2, from..from + 4)?.reshape([2, 3, 2, 2])?.transpose(1, 2);
        head(0)?.mul(&head(4)?)?.mul(&head(8)?)?.sum(..)
    });
    // A gap, an overlap, and the whole besides.
    for ranges in [[0..4, 6..10], [0..8, 4..12], [0..4, 0..4]] {
        check(&[&[3, 4], &[4, 12]], |t| {
            let y = t[0].matmul(&t[1])?;
            let [a, b] = ranges.clone().map(|range| y.slice(1, range));
            let (a, b) = (a?, b?);
            let product = a.mul(&a)?.sum(..)?.mul(&b.sum(..)?)?;
            if ranges[0].end == 8 { product.add(&y.mul(&y)?.sum(..)?) } else { Ok(product) }
        });
    }
}
