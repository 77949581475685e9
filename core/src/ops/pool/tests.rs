//! Pools against the adjoint identity, PyTorch's edges, and what is refused.

use super::super::{Divisor, Pool, PoolFn, PoolGeometry, PoolOptions};
use super::{PoolChosen, PoolGradient};
use crate::{DType, Device, Error, Layout, Shape, Tape, Tensor, TensorSpec};

fn one(device: &Device, op: impl Into<crate::Op>, operands: &[&Tensor]) -> Tensor {
    Tensor::apply(device, op, operands).unwrap().swap_remove(0)
}

fn numbers(device: &Device, shape: Shape, seed: u64) -> Tensor {
    let value = |i: u64| ((i * 7919 + seed * 104_729) % 2003) as f64 / 1000.0 - 1.0;
    Tensor::from_slice(device, &(0..shape.elements()).map(value).collect::<Vec<_>>(), shape).unwrap()
}

fn dot(a: &Tensor, b: &Tensor) -> f64 {
    let [a, b] = [a, b].map(|x| x.to_vec::<f64>().unwrap());
    assert_eq!(a.len(), b.len());
    a.iter().zip(&b).map(|(a, b)| a * b).sum()
}

/// `<pool(x), y> = <x, gradient(y)>` for averages, and for maxima with the places held.
#[test]
fn pools_are_adjoints_of_their_gradients() {
    let device = Device::cpu();
    let mut count = 0;
    for (taps, stride, dilation, padding) in (1..=4u64)
        .flat_map(|taps| (1..=4).flat_map(move |stride| (1..=2).map(move |dilation| (taps, stride, dilation))))
        .flat_map(|(taps, stride, dilation)| (0..=taps / 2).map(move |padding| (taps, stride, dilation, padding)))
    {
        for ceil_mode in [false, true] {
            let options = PoolOptions {
                ceil_mode,
                ..PoolOptions::window(taps).stride(stride).dilation(dilation).padding(padding)
            };
            let x = numbers(&device, Shape::new(&[2, 9, 8, 3]).unwrap(), taps + stride);
            let geometry = PoolGeometry::new("pool", x.shape(), &options).unwrap();
            let y = numbers(&device, geometry.output_shape().unwrap(), 5);
            for divisor in [Divisor::Padded, Divisor::Inside, Divisor::Number(5)] {
                let function = PoolFn::Average(divisor);
                let forward = one(&device, Pool::new(function, x.spec(), geometry).unwrap(), &[&x]);
                let back = one(&device, PoolGradient::new(function, y.spec(), None, geometry).unwrap(), &[&y]);
                assert!((dot(&forward, &y) - dot(&x, &back)).abs() < 1e-10, "{options:?} {divisor:?}");
            }
            let found = Tensor::apply(&device, Pool::new(PoolFn::Max, x.spec(), geometry).unwrap(), &[&x]).unwrap();
            let [largest, index] = <[Tensor; 2]>::try_from(found).unwrap();
            let chosen = one(&device, PoolChosen::new(x.spec(), index.spec(), geometry).unwrap(), &[&x, &index]);
            assert_eq!(chosen.to_vec::<f64>().unwrap(), largest.to_vec::<f64>().unwrap());
            let back = PoolGradient::new(PoolFn::Max, y.spec(), Some(index.spec()), geometry).unwrap();
            let back = one(&device, back, &[&y, &index]);
            assert!((dot(&chosen, &y) - dot(&x, &back)).abs() < 1e-10, "{options:?}");
            count += 1;
        }
    }
    assert!(count > 100, "{count}");
}

/// The first maximum in row-major order has the gradient, whole; NaN wins.
#[test]
fn gradients_of_ties_and_nan_go_to_the_first_one() {
    let device = Device::cpu();
    let gradient = |values: &[f32], options: &PoolOptions| {
        let x = Tensor::from_slice(&device, values, [1, 3, 3, 1]).unwrap();
        let tape = Tape::new();
        let watched = tape.watch(&x).unwrap();
        let loss = watched.max_pool(options).unwrap().sum(..).unwrap();
        tape.backward(&loss).unwrap().of(&watched).unwrap().to_vec::<f32>().unwrap()
    };
    let options = PoolOptions::window(2).stride(1);
    assert_eq!(gradient(&[2.0; 9], &options), [1.0, 1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 0.0, 0.0]);
    assert_eq!(gradient(&[-0.0, 0.0, 0.0, 0.0, -1.0, 0.0, 0.0, 0.0, 0.0], &options)[0], 1.0);
    let nan = f32::NAN;
    let one = PoolOptions::window(3);
    assert_eq!(
        gradient(&[1.0, nan, 9.0, nan, 2.0, 3.0, 4.0, 5.0, 6.0], &one),
        [0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    );
    let infinite = f32::NEG_INFINITY;
    assert_eq!(gradient(&[infinite; 9], &one)[0], 1.0);
}

/// What PyTorch 2 gives: `ceil_mode` clips windows that begin in the padding behind, and its overhang is no padding.
#[test]
fn ceil_mode_clips_and_its_overhang_divides_nothing() {
    let device = Device::cpu();
    let pool = |len: u64, options: &PoolOptions| {
        let x: Vec<f32> = (1..=len).map(|x| x as f32).collect();
        Tensor::from_slice(&device, &x, [1, len, 1]).unwrap().avg_pool(options).unwrap().to_vec::<f32>().unwrap()
    };
    let options = || PoolOptions::window(2).stride(2).padding(1);
    // Of 3 elements with padding: (0 1) (2 3); a window at the padding behind would begin there.
    assert_eq!(pool(3, &options()), [0.5, 2.5]);
    assert_eq!(pool(3, &options().ceil_mode()), [0.5, 2.5]);
    // (0 1) (2 3) (4 0): the last begins inside.
    assert_eq!(pool(4, &options().ceil_mode()), [0.5, 2.5, 2.0]);
    assert_eq!(pool(4, &options().ceil_mode().divisor(Divisor::Inside)), [1.0, 2.5, 4.0]);
    // The window (4 5 -) of three reaches beyond: two elements divide it.
    assert_eq!(pool(5, &PoolOptions::window(3).stride(3).ceil_mode()), [2.0, 4.5]);
    assert_eq!(pool(5, &PoolOptions::window(3).stride(3).ceil_mode().divisor(Divisor::Number(2))), [3.0, 4.5]);
}

#[test]
fn parts_of_unequal_size_are_those_of_pytorch() {
    let device = Device::cpu();
    let x: Vec<f32> = (0..7).map(|x| x as f32).collect();
    let x = Tensor::from_slice(&device, &x, [1, 7, 1]).unwrap();
    // 0..3, 2..5, 4..7; then each element several times.
    assert_eq!(x.adaptive_avg_pool(&[3]).unwrap().to_vec::<f32>().unwrap(), [1.0, 3.0, 5.0]);
    let nine = x.adaptive_avg_pool(&[9]).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(nine, [0.0, 0.5, 1.5, 2.5, 3.0, 3.5, 4.5, 5.5, 6.0]);
    let largest = |x: &Tensor, outputs: &[u64]| x.adaptive_max_pool(outputs).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(largest(&x, &[3]), [2.0, 4.0, 6.0]);
    assert_eq!(largest(&x.neg().unwrap(), &[3]), [0.0, -2.0, -4.0]);
    assert_eq!(largest(&x, &[1]), [6.0]);
    // Elements of two parts have the gradients of both.
    let tape = Tape::new();
    let watched =
        tape.watch(&Tensor::from_slice(&device, &[0.0f32, 0.0, 9.0, 0.0, 0.0, 0.0, 1.0], [1, 7, 1]).unwrap()).unwrap();
    let loss = watched.adaptive_max_pool(&[3]).unwrap().sum(..).unwrap();
    let gradient = tape.backward(&loss).unwrap().of(&watched).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(gradient, [0.0, 0.0, 2.0, 0.0, 0.0, 0.0, 1.0]);
}

#[test]
fn what_is_no_pool_is_refused_with_the_number_to_change() {
    let device = Device::cpu();
    let x = Tensor::from_slice(&device, &[1.0f32; 25], [1, 5, 5, 1]).unwrap();
    let refused = |found: crate::Result<Tensor>, words: &str| {
        let error = found.unwrap_err().to_string();
        assert!(error.contains(words), "{error} does not say {words}");
    };
    refused(x.max_pool(&PoolOptions::default()), "no extent");
    refused(x.max_pool(&PoolOptions::window(0)), "the window of spatial axis 0 is 0");
    refused(x.max_pool(&PoolOptions::window(2).stride(0)), "the stride of spatial axis 0 is 0");
    refused(x.max_pool(&PoolOptions::window(6)), "pad by 1 more");
    refused(x.max_pool(&PoolOptions::window(2).padding(2)), "lies in padding alone");
    refused(x.avg_pool(&PoolOptions { padding: vec![[0, 3]], ..PoolOptions::window(2) }), "lies in padding alone");
    refused(x.avg_pool(&PoolOptions::window(2).divisor(Divisor::Number(0))), "divides by 0");
    refused(x.adaptive_avg_pool(&[]), "into no extents");
    refused(x.adaptive_max_pool(&[]), "adaptive_max_pool into no extents");
    refused(x.adaptive_avg_pool(&[1, 2, 3]), "3 numbers for 2 spatial axes");
    refused(x.reshape([25, 1]).unwrap().max_pool(&PoolOptions::window(1)), "1 to 3 spatial axes");
    refused(x.cast(DType::I32).unwrap().max_pool(&PoolOptions::window(2)), "not defined for i32");
    let spec = |dtype, dims: &[u64]| TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()));
    let geometry = PoolGeometry::new("pool", x.shape(), &PoolOptions::window(2)).unwrap();
    let y = spec(DType::F32, &[1, 2, 2, 1]);
    assert!(PoolGradient::new(PoolFn::Max, y, None, geometry).is_err());
    let wide = PoolGradient::new(PoolFn::Max, y, Some(spec(DType::U32, &[1, 2, 2, 1])), geometry).unwrap_err();
    assert!(matches!(wide, Error::DTypeMismatch { expected: DType::U8, .. }), "{wide}");
}
