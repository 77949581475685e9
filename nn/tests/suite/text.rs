//! A decoder writes a text that it has learnt, and what it refuses. On the CPU: it takes many steps.

use polywarp_core::{Device, Error, Generator, Tape, Tensor};
use polywarp_nn::models::{Decoder, DecoderConfig, TokenChoice};
use polywarp_nn::{Adam, Builder, Dropout, Method, Optimiser, Schedule, StepOptions};

use crate::cases::decoder::{TINY, tiny, tokens};

/// A text of a few tokens that a decoder has learnt is what it generates, beyond its positions too.
#[test]
fn a_learnt_text_is_generated() {
    let device = &Device::cpu();
    let mut builder = Builder::new(3);
    let decoder = Decoder::new(&mut builder, DecoderConfig { dropout: 0.0, ..TINY }).unwrap();
    let parameters = builder.build(device).unwrap();
    let optimiser = Optimiser::new(&parameters, Method::AdamW(Adam::default()), Schedule::Constant, 0.02).unwrap();
    // 2 0 1 3 2 0 1 3 ...: six tokens from each of four places.
    let cycle = |from: usize, count: usize| (from..from + count).map(|i| [2, 0, 1, 3][i % 4]).collect::<Vec<u32>>();
    let texts = |from: usize| tokens(device, &(0..4).flat_map(|i| cycle(from + i, 6)).collect::<Vec<u32>>(), 4);
    let (x, y) = (texts(0), texts(1));
    let step = device
        .record(|| {
            let tape = Tape::new();
            let watched = parameters.watch(&tape)?;
            let loss = decoder.forward(&watched, &x, Dropout::none())?.cross_entropy(&y)?;
            parameters.backward(tape, &watched, &loss)?;
            optimiser.step(&parameters, &StepOptions::default())?;
            Ok(loss)
        })
        .unwrap();
    let first = step.replay().unwrap().item::<f32>().unwrap();
    for _ in 0..60 {
        step.replay().unwrap();
    }
    let last = step.outputs().item::<f32>().unwrap();
    assert!(last < 0.02 && first > 1.0, "{first} to {last}");
    let watched = parameters.unwatched();
    let found = decoder.generate(&watched, &[1], 10, TokenChoice::Likeliest).unwrap();
    assert_eq!(found, cycle(3, 10));
    let generator = Generator::new(device, 1).unwrap();
    let drawn = |temperature: f64| {
        let choice = TokenChoice::Sampled { temperature, generator: &generator };
        decoder.generate(&watched, &[1, 3], 12, choice).unwrap()
    };
    assert_eq!(drawn(0.2), cycle(4, 12));
    // So hot that every token is about as likely.
    let hot = drawn(1e3);
    assert!(hot.iter().all(|token| u64::from(*token) < TINY.vocabulary) && hot != cycle(4, 12), "{hot:?}");
}

#[test]
fn what_has_no_meaning_is_refused() {
    let device = &Device::cpu();
    let refused = |error: Error| assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    for heads in [0, 3] {
        refused(Decoder::new(&mut Builder::new(0), DecoderConfig { heads, ..TINY }).unwrap_err());
    }
    let (decoder, parameters) = tiny(device);
    let watched = parameters.unwatched();
    refused(decoder.forward(&watched, &tokens(device, &[0; 7], 1), Dropout::none()).unwrap_err());
    let flat = Tensor::from_slice(device, &[0u32; 3], [3]).unwrap();
    refused(decoder.forward(&watched, &flat, Dropout::none()).unwrap_err());
    refused(decoder.generate(&watched, &[], 1, TokenChoice::Likeliest).unwrap_err());
    let generator = &Generator::new(device, 1).unwrap();
    for temperature in [0.0, -1.0, f64::NAN] {
        let choice = TokenChoice::Sampled { temperature, generator };
        refused(decoder.generate(&watched, &[1], 1, choice).unwrap_err());
    }
}
