//! Keys and their carries, dropout against its definition, and its gradient.

use super::*;
use crate::harness::ReferenceBackend;
use crate::{DType, Distribution, Tape, bf16, f16};

fn devices() -> Vec<Device> {
    #[cfg(feature = "cpu")]
    return vec![Device::cpu(), Device::new(ReferenceBackend::default())];
    #[cfg(not(feature = "cpu"))]
    vec![Device::new(ReferenceBackend::default())]
}

fn words(key: &RandomKey) -> [u32; 4] {
    key.words().unwrap().map(|word| word.item::<u32>().unwrap())
}

/// A fork starts at stream 0 of a seed that the next key's random bits are; a copy goes on as what it was made of.
#[test]
fn forks_have_seeds_of_their_own_and_copies_do_not() {
    for device in devices() {
        let generator = Generator::new(&device, 5).unwrap();
        let forks: Vec<Generator> = (0..3).map(|_| generator.fork().unwrap()).collect();
        for (n, fork) in (0..).zip(&forks) {
            let word = |stream_high: u32| {
                let stream = u64::from(stream_high) << 32 | n;
                let bits = Tensor::random(&device, DType::U32, [1], Distribution::Bits, 5, stream).unwrap();
                bits.item::<u32>().unwrap()
            };
            assert_eq!(fork.state().unwrap(), [word(0), word(1 << 31), 0, 0]);
        }
        assert_eq!(generator.state().unwrap(), [5, 0, 3, 0]);
        let copy = forks[0].copy().unwrap();
        assert_eq!(words(&copy.key().unwrap()), words(&forks[0].key().unwrap()));
        copy.key().unwrap();
        assert_eq!(forks[0].state().unwrap()[2], 1, "a copy's keys are its own");
    }
}

#[test]
fn keys_are_the_states_in_order_and_streams_carry() {
    for device in devices() {
        let generator = Generator::new(&device, 0x0123_4567_89ab_cdef).unwrap();
        let keys: Vec<RandomKey> = (0..3).map(|_| generator.key().unwrap()).collect();
        for (n, key) in (0..).zip(&keys) {
            assert_eq!(words(key), [0x89ab_cdef, 0x0123_4567, n, 0]);
        }
        let shared = generator.clone();
        assert_eq!(words(&shared.key().unwrap())[2], 3);
        assert_eq!(generator.state().unwrap(), [0x89ab_cdef, 0x0123_4567, 4, 0]);
        // A seed of all ones is no counter.
        for (state, next) in [
            ([u32::MAX, u32::MAX, u32::MAX, 5], [u32::MAX, u32::MAX, 0, 6]),
            ([1, 2, u32::MAX, u32::MAX], [1, 2, 0, 0]),
            ([0, u32::MAX, 7, u32::MAX], [0, u32::MAX, 8, u32::MAX]),
        ] {
            generator.set_state(state).unwrap();
            assert_eq!(words(&generator.key().unwrap()), state);
            assert_eq!(generator.state().unwrap(), next);
        }
        // Keys drawn before stay.
        assert_eq!(words(&keys[1]), [0x89ab_cdef, 0x0123_4567, 1, 0]);
    }
}

#[test]
fn tensors_are_the_state_that_a_generator_goes_on_from() {
    for device in devices() {
        let [from, to] = [5, 6].map(|seed| Generator::new(&device, seed << 32).unwrap());
        from.set_state([1, 2, 3, 4]).unwrap();
        let before = to.key().unwrap();
        for (place, value) in to.tensors().into_iter().zip(from.tensors()) {
            place.assign(value).unwrap();
        }
        assert_eq!(words(&to.key().unwrap()), [1, 2, 3, 4]);
        assert_eq!(words(&before), [0, 6, 0, 0]);
        assert_eq!(to.state().unwrap(), [1, 2, 4, 4]);
        assert_eq!(from.state().unwrap(), [1, 2, 3, 4]);
    }
}

#[test]
fn numbers_of_a_key_are_those_of_its_seed_and_stream() {
    for device in devices() {
        let generator = Generator::new(&device, 1 << 40 | 9).unwrap();
        generator.set_state([9, 1 << 8, u32::MAX, 3]).unwrap();
        let [a, b, c, d] = generator.key().unwrap().words().unwrap();
        let shape = [3, 5, 137];
        let zeros = Tensor::zeros(&device, DType::U32, shape).unwrap();
        let key = [1, 2, 3, 4].map(Expr::input);
        let random = |expr: Expr| Tensor::map(&expr, &[&zeros, &a, &b, &c, &d]).unwrap();
        let want = |dtype, distribution| {
            Tensor::random(&device, dtype, shape, distribution, 1 << 40 | 9, 3 << 32 | 0xffff_ffff).unwrap()
        };
        let bits = random(Expr::random(key.clone()) ^ Expr::input(0)).to_vec::<u32>().unwrap();
        assert_eq!(bits, want(DType::U32, Distribution::Bits).to_vec::<u32>().unwrap());
        let uniform = random(Expr::uniform(key) + Expr::input(0).cast(DType::F32)).to_vec::<f32>().unwrap();
        let unit = Distribution::Uniform { low: 0.0, high: 1.0 };
        assert_eq!(uniform, want(DType::F32, unit).to_vec::<f32>().unwrap());
        assert!(uniform.iter().all(|x| (0.0..1.0).contains(x)));
    }
}

#[test]
fn words_of_a_key_are_u32() {
    let key = || std::array::from_fn::<Expr, 4, _>(Expr::input);
    let compiled = |dtypes: [DType; 4]| crate::Program::compile(&Expr::random(key()), &dtypes);
    assert_eq!(compiled([DType::U32; 4]).unwrap().dtype(), DType::U32);
    let error = compiled([DType::U32, DType::U32, DType::I32, DType::U32]).unwrap_err();
    assert!(matches!(error, Error::DTypeMismatch { op: "random", expected: DType::U32, got: DType::I32 }));
    let error = crate::Program::compile(&(Expr::random(key()) + Expr::input(0).cast(DType::F32)), &[DType::U32; 4]);
    assert!(matches!(error, Err(Error::DTypeMismatch { op: "add", .. })));
    let negative = Expr::random([0, 0, -1, 0].map(Expr::constant));
    assert!(matches!(crate::Program::compile(&negative, &[]), Err(Error::NumberOutOfRange { op: "random", .. })));
    // Nesting through keys is counted, or dropping it would exhaust the stack.
    let deep =
        (0..100_000).fold(Expr::input(0), |word, _| Expr::random([word.clone(), word.clone(), word.clone(), word]));
    assert!(matches!(crate::Program::compile(&deep, &[DType::U32]), Err(Error::InvalidArgument { .. })));
}

#[test]
fn dropout_keeps_by_the_uniform_number_and_scales() {
    for device in devices() {
        for (stream, p) in (0..).zip([1e-7, 0.1, 0.5, 0.9, 1.0]) {
            let generator = Generator::new(&device, 3).unwrap();
            generator.set_state([3, 0, stream, 0]).unwrap();
            let x: Vec<f64> = (0..2003).map(|i| f64::from(i) - 1000.5).collect();
            let dropped = Tensor::from_slice(&device, &x, [2003]).unwrap().dropout(p, &generator).unwrap();
            let unit = Distribution::Uniform { low: 0.0, high: 1.0 };
            let uniform = Tensor::random(&device, DType::F32, [2003], unit, 3, stream.into()).unwrap();
            let want = x.iter().zip(uniform.to_vec::<f32>().unwrap());
            let want = want.map(|(x, u)| if f64::from(u) >= p { x * (1.0 / (1.0 - p)) } else { 0.0 });
            assert_eq!(dropped.to_vec::<f64>().unwrap(), want.collect::<Vec<f64>>(), "p = {p}");
        }
    }
}

#[test]
fn nothing_of_a_dropped_element_survives() {
    for device in devices() {
        let generator = Generator::new(&device, 4).unwrap();
        for bad in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let x = Tensor::full(&device, DType::F32, [1000], bad).unwrap();
            let half = x.dropout(0.5, &generator).unwrap().to_vec::<f32>().unwrap();
            let kept = half.iter().filter(|y| **y != 0.0).count();
            assert!((400..600).contains(&kept), "{kept} of 1000");
            assert!(half.iter().all(|y| *y == 0.0 || y.to_bits() == bad.to_bits() || (bad.is_nan() && y.is_nan())));
            assert_eq!(x.dropout(1.0, &generator).unwrap().to_vec::<f32>().unwrap(), [0.0; 1000]);
        }
        let x = Tensor::full(&device, DType::F32, [1000], 1.5).unwrap();
        let half: Vec<f16> = x.cast(DType::F16).unwrap().dropout(0.5, &generator).unwrap().to_vec().unwrap();
        assert!(half.iter().all(|y| [0.0, 3.0].contains(&y.to_f32())) && half.contains(&f16::ZERO));
        let half: Vec<bf16> = x.cast(DType::BF16).unwrap().dropout(0.5, &generator).unwrap().to_vec().unwrap();
        assert!(half.iter().all(|y| [0.0, 3.0].contains(&y.to_f32())) && half.contains(&bf16::ZERO));
    }
}

#[test]
fn dropout_of_nothing_is_the_tensor_and_draws_no_key() {
    let device = Device::new(ReferenceBackend::default());
    let generator = Generator::new(&device, 4).unwrap();
    let x = Tensor::from_slice(&device, &[1.0f32, f32::NAN], [2]).unwrap();
    assert!(x.dropout(0.0, &generator).unwrap().buffer().same(x.buffer()));
    assert_eq!(generator.state().unwrap(), [4, 0, 0, 0]);
    for p in [-1e-9, 1.0 + 1e-9, f64::NAN, f64::INFINITY] {
        assert!(matches!(x.dropout(p, &generator), Err(Error::InvalidArgument { what: "dropout", .. })), "{p}");
    }
    let whole = x.cast(DType::I32).unwrap().dropout(0.5, &generator);
    assert!(matches!(whole, Err(Error::UndefinedForDType { op: "dropout", dtype: DType::I32 })));
    let elsewhere = Generator::new(&Device::new(ReferenceBackend::default()), 4).unwrap();
    assert!(matches!(x.dropout(0.5, &elsewhere), Err(Error::DeviceMismatch { .. })));
    let scalar = x.slice(0, 0..1).unwrap().squeeze(0).unwrap();
    assert_eq!(scalar.dropout(0.5, &generator).unwrap().rank(), 0);
    assert_eq!(Tensor::zeros(&device, DType::F32, [0, 3]).unwrap().dropout(0.5, &generator).unwrap().dims(), [0, 3]);
}

#[test]
fn gradient_of_dropout_is_the_scale_where_elements_were_kept() {
    for device in devices() {
        for p in [0.2, 0.75, 1.0] {
            let generator = Generator::new(&device, 8).unwrap();
            let x = Tensor::from_slice(
                &device,
                &(0..600).map(|i| f32::from(i as u16) + 1.0).collect::<Vec<f32>>(),
                [30, 20],
            );
            let tape = Tape::new();
            let watched = tape.watch(&x.unwrap()).unwrap();
            // A view, so that positions in the result are not those in memory.
            let dropped = watched.t().unwrap().dropout(p, &generator).unwrap();
            // The generator goes on, and from elsewhere, between the passes.
            generator.key().unwrap();
            generator.set_state([0; 4]).unwrap();
            let gradients = tape.backward(&dropped.sum(..).unwrap()).unwrap();
            let found = gradients.of(&watched).unwrap().t().unwrap().to_vec::<f32>().unwrap();
            let kept = dropped.to_vec::<f32>().unwrap();
            let scale = if p < 1.0 { (1.0 / (1.0 - p)) as f32 } else { 0.0 };
            let want: Vec<f32> = kept.iter().map(|y| if *y == 0.0 { 0.0 } else { scale }).collect();
            assert_eq!(found, want);
            let share = kept.iter().filter(|y| **y != 0.0).count() as f64 / 600.0;
            assert!((share - (1.0 - p)).abs() < 0.1, "{share} kept of p = {p}");
        }
    }
}

/// The residual is added to what dropout gives, by the key that it would draw; and both have gradients.
#[test]
fn dropout_with_a_residual_is_dropout_and_a_sum() {
    for device in devices() {
        let x =
            Tensor::from_slice(&device, &(0..60).map(|i| i as f32 / 7.0 - 3.0).collect::<Vec<_>>(), [3, 20]).unwrap();
        let row = Tensor::from_slice(&device, &[0.5f32; 20], [20]).unwrap();
        for (residual, p) in [(&x.mul_scalar(0.5).unwrap(), 0.3), (&row, 0.3), (&row, 0.0)] {
            let [one, other] = [0, 1].map(|_| Generator::new(&device, 3).unwrap());
            let tape = Tape::new();
            let watched = [x.clone(), residual.clone()].map(|x| tape.watch(&x).unwrap());
            let y = watched[0].dropout_add(p, &one, &watched[1]).unwrap();
            let gradients = tape.backward(&y.mul(&y).unwrap().sum(..).unwrap()).unwrap();
            let tape = Tape::new();
            let parts = [x.clone(), residual.clone()].map(|x| tape.watch(&x).unwrap());
            let sum = parts[0].dropout(p, &other).unwrap().add(&parts[1]).unwrap();
            let want = tape.backward(&sum.mul(&sum).unwrap().sum(..).unwrap()).unwrap();
            // One rounding less.
            let near = |found: &Tensor, want: &Tensor| {
                let (found, want) = (found.to_vec::<f32>().unwrap(), want.to_vec::<f32>().unwrap());
                assert!(found.iter().zip(&want).all(|(x, y)| (x - y).abs() <= 1e-6 * y.abs()), "{found:?} {want:?}");
            };
            near(&y, &sum);
            assert_eq!(one.state().unwrap(), other.state().unwrap());
            for (found, want) in watched.iter().map(|x| gradients.of(x)).zip(parts.iter().map(|x| want.of(x))) {
                near(found.unwrap(), want.unwrap());
            }
        }
    }
}
