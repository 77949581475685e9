//! Attention against its definition in f64, its masks, and its gradients.

use polywarp_core::{DType, Device, Distribution, Tape, Tensor};
use polywarp_nn::{AttentionOptions, attention};

cases! { attention_is_its_definition, queries_that_see_nothing_give_zeros, what_is_hidden_has_no_influence }

fn normal(device: &Device, dims: [u64; 4], stream: u64) -> Tensor {
    Tensor::random(device, DType::F32, dims, Distribution::Normal { mean: 0.0, std: 1.0 }, 3, stream).unwrap()
}

fn at(x: &[f32], dims: [u64; 4], index: [u64; 4]) -> f64 {
    f64::from(x[index.iter().zip(dims).fold(0, |at, (i, dim)| at * dim + i) as usize])
}

fn attention_is_its_definition(device: &Device) {
    let (batch, heads, queries, keys, size, width) = (2, 4, 3, 5, 8, 6);
    for (groups, causal, masked) in [(4, false, false), (2, false, true), (1, true, false), (4, true, true)] {
        let (of_q, of_k, of_v) =
            ([batch, heads, queries, size], [batch, groups, keys, size], [batch, groups, keys, width]);
        let [q, k, v] = [(of_q, 0), (of_k, 1), (of_v, 2)].map(|(dims, stream)| normal(device, dims, stream));
        // Text 1 has three keys.
        let there: Vec<bool> = (0..batch * keys).map(|i| i < keys + 3).collect();
        let mask = Tensor::from_slice(device, &there, [batch, 1, 1, keys]).unwrap();
        let options = AttentionOptions { causal, mask: masked.then_some(&mask), ..AttentionOptions::default() };
        let found = attention(&q, &k, &v, &options).unwrap();
        assert_eq!(found.dims(), [batch, heads, queries, width]);
        let found = found.to_vec::<f32>().unwrap();
        let [q, k, v] = [q, k, v].map(|x| x.to_vec::<f32>().unwrap());
        for (b, h, i) in (0..batch).flat_map(|b| (0..heads).flat_map(move |h| (0..queries).map(move |i| (b, h, i)))) {
            let group = h / (heads / groups);
            let score = |j: u64| {
                let is_seen = (!causal || j + queries <= i + keys) && (!masked || there[(b * keys + j) as usize]);
                let dot: f64 = (0..size).map(|d| at(&q, of_q, [b, h, i, d]) * at(&k, of_k, [b, group, j, d])).sum();
                if is_seen { (dot / (size as f64).sqrt()).exp() } else { 0.0 }
            };
            let all: f64 = (0..keys).map(score).sum();
            for d in 0..width {
                let want: f64 = (0..keys).map(|j| score(j) / all * at(&v, of_v, [b, group, j, d])).sum();
                let found = at(&found, [batch, heads, queries, width], [b, h, i, d]);
                assert!((found - want).abs() < 1e-5, "{groups} {causal} {masked} {b} {h} {i} {d}: {found} {want}");
            }
        }
    }
}

fn queries_that_see_nothing_give_zeros(device: &Device) {
    let dims = [1, 1, 2, 4];
    let [q, k, v] = [0, 1, 2].map(|stream| normal(device, dims, stream));
    let mask = Tensor::from_slice(device, &[false, false, true, true], [1, 1, 2, 2]).unwrap();
    let tape = Tape::new();
    let [q, k, v] = [q, k, v].map(|x| tape.watch(&x).unwrap());
    let options = AttentionOptions { mask: Some(&mask), ..AttentionOptions::default() };
    let sums = attention(&q, &k, &v, &options).unwrap();
    assert_eq!(sums.to_vec::<f32>().unwrap()[..4], [0.0; 4]);
    let gradients = tape.backward(&sums.sum(..).unwrap()).unwrap();
    let of = |x: &Tensor| gradients.of(x).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(of(&q)[..4], [0.0; 4]);
    assert!(of(&k).iter().chain(&of(&v)).all(|x| x.is_finite()));
    assert!(of(&v).iter().any(|x| *x != 0.0));
}

/// The scores of hidden keys may be anything.
fn what_is_hidden_has_no_influence(device: &Device) {
    let dims = [1, 1, 2, 2];
    let q = normal(device, dims, 0);
    let v = normal(device, dims, 1);
    let k = Tensor::from_slice(device, &[0.5f32, 0.5, f32::NAN, f32::INFINITY], dims).unwrap();
    let mask = Tensor::from_slice(device, &[true, false], [1, 1, 1, 2]).unwrap();
    let options = AttentionOptions { mask: Some(&mask), ..AttentionOptions::default() };
    let found = attention(&q, &k, &v, &options).unwrap().to_vec::<f32>().unwrap();
    let first = &v.to_vec::<f32>().unwrap()[..2];
    assert_eq!(found, [first, first].concat());
}
