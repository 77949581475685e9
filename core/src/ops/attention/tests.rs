//! Attention's two forms against each other, refusals, and what a user sees through tensors.

use super::*;
use crate::gradient::{Gradient, Needs};
use crate::ops::GraphOp;
use crate::{AttentionForm, AttentionOptions, Device, Distribution, Generator, Tape, Tensor};

fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
}

fn normal(device: &Device, dims: [u64; 4], stream: u64) -> Tensor {
    Tensor::random(device, DType::F32, dims, Distribution::Normal { mean: 0.0, std: 1.0 }, 5, stream).unwrap()
}

fn near(found: &[f32], want: &[f32], what: &str) {
    assert_eq!(found.len(), want.len(), "{what}");
    for (i, (found, want)) in found.iter().zip(want).enumerate() {
        assert!((found - want).abs() <= 2e-5 * (1.0 + want.abs()), "{what} at {i}: {found}, not {want}");
    }
}

#[test]
fn the_composed_form_has_a_rule() {
    for (dtype, size) in [(DType::F32, 6), (DType::F64, 258), (DType::BF16, 6)] {
        let [q, k, v] =
            [[3, 4, size], [5, 2, size], [5, 2, 7]].map(|[rows, heads, n]| dense(dtype, &[1, rows, heads, n]));
        let op = Attention {
            causal: true,
            mask: Some(dense(DType::Bool, &[1, 4, 3, 5])),
            dropout: Some(AttentionDropout { rate: 0.5, key: [dense(DType::U32, &[2]); 2] }),
            ..Attention::new(q, k, v).unwrap()
        };
        let (graph, used) = GraphOp::new("composed", op.composed().unwrap(), op.inputs(), vec![op.out, op.lse]);
        for subset in 0..8 {
            let inputs: Vec<bool> = used.iter().map(|&number| number < 3 && subset >> number & 1 == 1).collect();
            match graph.gradient(&Needs { inputs: &inputs, outputs: &[true, true] }).unwrap() {
                Gradient::Rule(_) => {}
                Gradient::Refused(why) => panic!("{dtype} {subset}: {why}"),
            }
        }
    }
}

/// Results, and gradients of a loss that depends on all of them, of both forms with the same numbers dropped.
#[test]
fn the_fused_form_is_the_composed_one() {
    let device = Device::cpu();
    for (heads, groups, causal, rate, is_masked) in
        [(2, 2, false, 0.0, false), (4, 2, true, 0.3, true), (2, 1, true, 0.0, false), (2, 2, false, 0.5, true)]
    {
        let of = |form: AttentionForm| {
            let tape = Tape::new();
            let [q, k, v] = [([2, 70, heads, 12], 0), ([2, 67, groups, 12], 1), ([2, 67, groups, 20], 2)]
                .map(|(dims, stream)| tape.watch(&normal(&device, dims, stream)).unwrap());
            let shown: Vec<bool> = (0..2 * 67).map(|j| j % 5 != 1).collect();
            let mask = Tensor::from_slice(&device, &shown, [2, 1, 1, 67]).unwrap();
            let key = Generator::new(&device, 9).unwrap().key().unwrap();
            let options = AttentionOptions {
                mask: is_masked.then_some(&mask),
                causal,
                dropout: (rate > 0.0).then_some((rate, &key)),
                form,
                ..AttentionOptions::default()
            };
            let found = q.attention_with_lse(&k, &v, &options).unwrap();
            // Of a row without a key lse is -inf, and no loss.
            let lse = if causal { None } else { Some(found.lse.sum(..).unwrap()) };
            let loss = found.out.mul(&found.out).unwrap().sum(..).unwrap();
            let loss = match lse {
                Some(lse) => loss.add(&lse).unwrap(),
                None => loss,
            };
            let gradients = tape.backward(&loss).unwrap();
            let gradient = |x: &Tensor| gradients.of(x).unwrap().to_vec::<f32>().unwrap();
            [found.out.to_vec().unwrap(), found.lse.to_vec().unwrap(), gradient(&q), gradient(&k), gradient(&v)]
        };
        let (fused, composed) = (of(AttentionForm::Fused), of(AttentionForm::Composed));
        for (number, (found, want)) in fused.iter().zip(&composed).enumerate() {
            let finite =
                |x: &[f32]| x.iter().map(|&x| if x == f32::NEG_INFINITY { -1e30 } else { x }).collect::<Vec<_>>();
            near(&finite(found), &finite(want), &format!("result {number} of {heads} {groups} {causal} {rate}"));
        }
        assert!(fused[2].iter().any(|x| *x != 0.0), "gradients of nothing");
    }
}

/// Numbers that are not seen may be anything, in both directions and both forms.
#[test]
fn what_is_hidden_has_no_influence_on_results_and_gradients() {
    let device = Device::cpu();
    let dims = [1, 6, 1, 4];
    let poisoned = |x: &Tensor, value: f32| {
        let mut x: Vec<f32> = x.to_vec().unwrap();
        x[20..].fill(value);
        Tensor::from_slice(&device, &x, dims).unwrap()
    };
    let shown = [true, true, true, true, true, false];
    let mask = Tensor::from_slice(&device, &shown, [1, 1, 1, 6]).unwrap();
    for form in [AttentionForm::Fused, AttentionForm::Composed] {
        let of = |value: f32| {
            let tape = Tape::new();
            let [k, v] = [1, 2].map(|stream| tape.watch(&poisoned(&normal(&device, dims, stream), value)).unwrap());
            let q = tape.watch(&normal(&device, dims, 0)).unwrap();
            let options = AttentionOptions { mask: Some(&mask), form, ..AttentionOptions::default() };
            let out = q.attention(&k, &v, &options).unwrap();
            let gradients = tape.backward(&out.mul(&out).unwrap().sum(..).unwrap()).unwrap();
            let gradient = |x: &Tensor| gradients.of(x).unwrap().to_vec::<f32>().unwrap();
            [out.to_vec().unwrap(), gradient(&q), gradient(&k), gradient(&v)]
        };
        let want = of(0.0);
        assert!(want.iter().flatten().all(|x| x.is_finite()) && want[2][20..].iter().all(|x| *x == 0.0));
        if form == AttentionForm::Fused {
            for value in [f32::NAN, f32::INFINITY] {
                of(value).iter().zip(&want).for_each(|(found, want)| near(found, want, "beside what is hidden"));
            }
        } else {
            // Backward runs rules of products, which multiply.
            assert_eq!(of(f32::NAN)[0], want[0]);
        }
    }
}

#[test]
fn the_gradient_has_no_gradient_but_by_the_composed_form() {
    let device = Device::cpu();
    let of = |form: AttentionForm| {
        let tape = Tape::new();
        let [q, k, v] = [0, 1, 2].map(|stream| tape.watch(&normal(&device, [1, 3, 1, 4], stream)).unwrap());
        let out = q.attention(&k, &v, &AttentionOptions { form, ..AttentionOptions::default() }).unwrap();
        let first = tape.gradients(&out.sum(..).unwrap(), &[&q]).map_err(|error| error.to_string())?;
        let first = first[0].as_ref().expect("the loss depends on q").sum(..).unwrap();
        tape.backward(&first).map(drop).map_err(|error| error.to_string())
    };
    assert!(of(AttentionForm::Composed).is_ok());
    let refused = of(AttentionForm::Fused).unwrap_err();
    assert!(refused.contains("AttentionForm::Composed"), "{refused}");
}

#[test]
fn refusals_say_what_does_not_fit() {
    let (q, k) = (dense(DType::F32, &[1, 3, 4, 8]), dense(DType::F32, &[1, 5, 2, 8]));
    let refused = |op: Result<Attention>| op.unwrap_err().to_string();
    let of = |q, k, v| refused(Attention::new(q, k, v));
    assert!(of(dense(DType::F32, &[3, 4, 8]), k, k).contains("[batch, queries, heads, size]"));
    assert!(of(q, dense(DType::F32, &[1, 5, 3, 8]), dense(DType::F32, &[1, 5, 3, 8])).contains("multiple of groups"));
    assert!(of(q, dense(DType::F32, &[1, 5, 2, 7]), k).contains("attention"));
    assert!(of(q, dense(DType::F16, &[1, 5, 2, 8]), k).contains("f16"));
    let whole = dense(DType::I32, &[1, 3, 4, 8]);
    assert!(of(whole, whole, whole).contains("i32"));
    let apart = TensorSpec::new(DType::F32, k.layout.transpose(1, 3).unwrap().transpose(1, 3).unwrap());
    assert!(Attention::new(q, apart, k).is_ok(), "the same view");
    let apart = dense(DType::F32, &[1, 8, 2, 5]);
    let apart = TensorSpec::new(DType::F32, apart.layout.transpose(1, 3).unwrap());
    assert!(of(q, apart, k).contains("contiguous"));
    let op = Attention::new(q, k, k).unwrap();
    assert!(refused(Attention { scale: f64::NAN, ..op.clone() }.check()).contains("NaN"));
    let words = [dense(DType::U32, &[2]); 2];
    let dropout = Some(AttentionDropout { rate: 1.5, key: words });
    assert!(refused(Attention { dropout, ..op.clone() }.check()).contains("1.5"));
    let mask = Some(dense(DType::Bool, &[1, 4, 5, 3]));
    assert!(refused(Attention { mask, ..op.clone() }.check()).contains("attention"));
    let gradient = AttentionGradient::new(op, LseGradient::Absent).unwrap();
    let wrong = AttentionGradient { dq: gradient.dk, ..gradient };
    assert!(wrong.check().unwrap_err().to_string().contains("attention_gradient"));
}

/// A sample's expectations are those that the whole has there: of the last queries and keys of one group, which see and are seen as before.
#[test]
fn sample_of_a_gradient_is_part_of_the_whole() {
    for (causal, is_masked, dlse) in
        [(false, false, LseGradient::Absent), (true, false, LseGradient::Given), (true, true, LseGradient::Absent)]
    {
        let [q, k, v] =
            [[53, 4, 3], [61, 2, 3], [61, 2, 5]].map(|[rows, heads, n]| dense(DType::F32, &[2, rows, heads, n]));
        let mask = is_masked.then(|| dense(DType::Bool, &[2, 4, 53, 61]));
        let op = AttentionGradient::new(Attention { causal, mask, ..Attention::new(q, k, v).unwrap() }, dlse).unwrap();
        let Sample { op: sample, positions } = op.sample().unwrap().unwrap();
        // Small different numbers by their place in memory.
        let hosts = |specs: Vec<TensorSpec>| -> Vec<HostTensor> {
            let host = |(number, spec): (usize, TensorSpec)| {
                let value = |i: u64| {
                    let at = spec.layout.index_of(i);
                    match spec.dtype {
                        DType::Bool => crate::Scalar::I(i64::from(at % 5 != 2)),
                        _ => crate::Scalar::F(((at * 7 + number as u64 * 5) % 11) as f64 / 8.0 - 0.5),
                    }
                };
                let values = (0..spec.layout.elements()).map(value).collect();
                HostTensor { dtype: spec.dtype, shape: *spec.layout.shape(), values }
            };
            specs.into_iter().enumerate().map(host).collect()
        };
        let (all, some) = (op.oracle(&hosts(op.held())), sample.oracle(&hosts(sample.held())));
        let counts: Vec<u64> = positions.iter().map(Layout::elements).collect();
        assert_eq!(counts, [48 * 2 * 3, 48 * 3, 48 * 5]);
        for (number, positions) in positions.iter().enumerate() {
            assert_eq!(some[number].len() as u64, positions.elements());
            assert_eq!(sample.outputs()[number].spec.layout.dims(), positions.dims());
            for (i, found) in some[number].iter().enumerate() {
                let want = &all[number][positions.index_of(i as u64) as usize];
                assert_eq!(format!("{found:?}"), format!("{want:?}"), "causal {causal}, result {number} at {i}");
            }
            assert!(some[number].iter().any(|expected| expected.value.as_f64().abs() > 1e-3));
        }
    }
}
