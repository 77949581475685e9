//! What rules give where there is no derivative: what PyTorch gives.

use super::{dense, map};
use crate::case::output;
use crate::gradient::{Gradient, Needs};
use crate::ops::{Reduce, ReduceFn, Scan, ScanFn, ScanOptions};
use crate::oracle::HostTensor;
use crate::{BinaryFn, Expr, Scalar};

/// What a rule gives where there is no derivative, for a gradient of 1 of every result.
fn kinks(op: impl Into<crate::Op>, inputs: &[&[f64]], input: usize) -> Vec<f64> {
    let op = op.into();
    let wanted: Vec<bool> = (0..inputs.len()).map(|number| number == input).collect();
    let Ok(Gradient::Rule(rule)) = op.gradient(&Needs { inputs: &wanted, outputs: &[true] }) else {
        panic!("{} has no rule", op.name())
    };
    let numbers = |values: &[f64]| values.iter().map(|&x| Scalar::F(x)).collect::<Vec<_>>();
    let memory: Vec<Vec<Scalar>> = inputs.iter().map(|values| numbers(values)).collect();
    let hosts = op.inputs().into_iter().zip(&memory).map(|(spec, values)| HostTensor {
        dtype: spec.dtype,
        shape: *spec.layout.shape(),
        values: values.clone(),
    });
    let results = op.oracle(&hosts.collect::<Vec<_>>()).swap_remove(0);
    let results: Vec<Scalar> = results.iter().map(|expected| expected.value).collect();
    let ones = numbers(&vec![1.0; results.len()]);
    let found = rule.graph.evaluate(&[memory, vec![results, ones]].concat(), &rule.outputs);
    found[0].iter().map(|x| x.as_f64()).collect()
}

#[test]
fn at_kinks_and_ties_gradients_are_pytorchs() {
    let (x, y) = (Expr::input(0), Expr::input(1));
    let one = |expr: Expr, values: &[f64]| {
        let dims = [values.len() as u64];
        kinks(map(&[expr], vec![dense(&dims).unwrap()], &dims).unwrap(), &[values], 0)
    };
    assert_eq!(one(x.relu(), &[-1.0, 0.0, 2.0]), [0.0, 0.0, 1.0]);
    assert_eq!(one(x.abs(), &[-1.0, 0.0, 2.0]), [-1.0, 0.0, 1.0]);
    assert_eq!(one(x.clamp(-1.0, 1.0), &[-2.0, -1.0, 0.0, 1.0, 2.0]), [0.0, 1.0, 1.0, 1.0, 0.0]);
    assert_eq!(one(x.floor() + x.round() + x.sign(), &[0.0, 0.5, 1.0]), [0.0; 3]);
    assert_eq!(one(x.binary(BinaryFn::Pow, 0.0), &[0.0, 2.0]), [0.0, 0.0]);
    assert_eq!(one(x.binary(BinaryFn::Pow, 1.0), &[0.0, 2.0]), [1.0, 1.0]);
    assert_eq!(one(x.clone() * &x, &[0.0, 3.0]), [0.0, 6.0]);
    for (f, want) in [(BinaryFn::Max, [0.0, 0.5, 1.0]), (BinaryFn::Min, [1.0, 0.5, 0.0])] {
        let op = map(&[x.binary(f, &y)], vec![dense(&[3]).unwrap(); 2], &[3]).unwrap();
        assert_eq!(kinks(op, &[&[1.0, 2.0, 3.0], &[2.0; 3]], 0), want);
    }
    let reduce = |f, values: &[f64]| {
        let input = dense(&[values.len() as u64]).unwrap();
        kinks(Reduce::new(f, input, &[0], output(super::F64, &[]).unwrap()).unwrap(), &[values], 0)
    };
    assert_eq!(reduce(ReduceFn::Max, &[3.0, 1.0, 3.0, 3.0, 3.0]), [0.25, 0.0, 0.25, 0.25, 0.25]);
    assert_eq!(reduce(ReduceFn::AbsMax, &[-3.0, 1.0, 3.0]), [-0.5, 0.0, 0.5]);
    assert_eq!(reduce(ReduceFn::Sum, &[0.0, 0.0]), [1.0, 1.0]);
    assert_eq!(reduce(ReduceFn::Prod, &[2.0, -3.0, 4.0]), [-12.0, 8.0, -6.0]);
    assert_eq!(reduce(ReduceFn::Prod, &[2.0, 0.0, 4.0]), [0.0, 8.0, 0.0]);
    assert_eq!(reduce(ReduceFn::Prod, &[0.0, 0.0, 4.0]), [0.0; 3]);
    let scan_by = |f, options, values: &[f64]| {
        let input = dense(&[values.len() as u64]).unwrap();
        kinks(Scan::new(f, input, 0, options).unwrap(), &[values], 0)
    };
    let scan = |options, values: &[f64]| scan_by(ScanFn::Prod, options, values);
    // Products 2, 0, 0, 0 of 2, 0, 4, 0, and so for each without itself: 1 + 0, 2 + 8 + 0, 0, 0.
    assert_eq!(scan(ScanOptions::default(), &[2.0, 0.0, 4.0, 0.0]), [1.0, 10.0, 0.0, 0.0]);
    assert_eq!(scan(ScanOptions::default().reversed(), &[0.0, 4.0, 0.0, 2.0]), [0.0, 0.0, 10.0, 1.0]);
    assert_eq!(scan(ScanOptions::default().exclusive(), &[0.0, 3.0, 0.0, 5.0]), [4.0, 0.0, 0.0, 0.0]);
    // Without the element itself: the others' results, one place later.
    let log = |options, values: &[f64]| scan_by(ScanFn::LogSumExp, options, values);
    let (all, others) =
        (log(ScanOptions::default().exclusive(), &[1.0, 3.0, 2.0, 5.0]), log(ScanOptions::default(), &[1.0, 3.0, 2.0]));
    assert!(all.iter().zip(others.iter().chain([&0.0])).all(|(a, b)| (a - b).abs() < 1e-12), "{all:?} {others:?}");
}
