//! Values and gradients against loops in float64, and the arguments that are refused.

use crate::{DType, Device, Error, Result, Tape, Tensor};

/// Numbers without a pattern, from -1 to 1.
fn numbers(count: u64, seed: u64) -> Vec<f64> {
    let of = |i: u64| ((i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / f64::from(1 << 23) - 1.0;
    (0..count).map(of).collect()
}

/// A tensor of the dtype's numbers nearest to `values`, and those numbers.
fn tensor(device: &Device, values: &[f64], dims: &[u64], dtype: DType) -> (Tensor, Vec<f64>) {
    let tensor = Tensor::from_slice(device, values, dims).unwrap().cast(dtype).unwrap();
    let held = read(&tensor);
    (tensor, held)
}

fn read(tensor: &Tensor) -> Vec<f64> {
    tensor.cast(DType::F64).unwrap().to_vec::<f64>().unwrap()
}

/// y, and the gradients of the sum of `dy` y with respect to x, gamma and beta.
fn by_loops(
    [n, places, channels, groups]: [usize; 4],
    [x, gamma, beta, dy]: [&[f64]; 4],
    epsilon: f64,
) -> [Vec<f64>; 4] {
    let (width, mut results) = (channels / groups, [x.to_vec(), x.to_vec(), vec![0.0; channels], vec![0.0; channels]]);
    for image in 0..n {
        for group in 0..groups {
            let of_group: Vec<(usize, usize)> = (0..places * width)
                .map(|i| (i / width, group * width + i % width))
                .map(|(place, channel)| ((image * places + place) * channels + channel, channel))
                .collect();
            let mean_of = |f: &dyn Fn(usize, usize) -> f64| {
                of_group.iter().map(|&(i, c)| f(i, c)).sum::<f64>() / of_group.len() as f64
            };
            let mean = mean_of(&|i, _| x[i]);
            let rstd = 1.0 / (mean_of(&|i, _| (x[i] - mean).powi(2)) + epsilon).sqrt();
            let h = |i: usize| (x[i] - mean) * rstd;
            let mean_g = mean_of(&|i, c| gamma[c] * dy[i]);
            let mean_gh = mean_of(&|i, c| gamma[c] * dy[i] * h(i));
            for &(i, c) in &of_group {
                results[0][i] = h(i) * gamma[c] + beta[c];
                results[1][i] = rstd * (gamma[c] * dy[i] - mean_g - h(i) * mean_gh);
                results[2][c] += dy[i] * h(i);
                results[3][c] += dy[i];
            }
        }
    }
    results
}

/// Equal up to one rounding to `dtype`, plus 1e-5 of the largest value for the sums in f32.
fn close(what: &str, found: &[f64], want: &[f64], dtype: DType) {
    let largest = want.iter().fold(1.0f64, |most, x| most.max(x.abs()));
    assert_eq!(found.len(), want.len(), "{what}");
    for (i, (found, want)) in found.iter().zip(want).enumerate() {
        let most = dtype.unit_roundoff() * want.abs() + 1e-5 * largest;
        assert!((found - want).abs() <= most, "{what}, {dtype}, element {i}: {found}, not {want}");
    }
}

#[test]
fn values_and_gradients_are_those_of_float64() {
    let device = Device::cpu();
    for (dims, groups) in
        [(&[2u64, 3, 5, 6][..], 2u64), (&[3, 7, 8], 1), (&[2, 4, 4, 5], 5), (&[4, 6], 3), (&[1, 33, 70], 7)]
    {
        let (n, channels) = (dims[0], dims[dims.len() - 1]);
        let places: u64 = dims[1..dims.len() - 1].iter().product();
        let count = n * places * channels;
        for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
            let away: Vec<f64> = numbers(count, 1).iter().map(|x| 2.0 * x + 3.0).collect();
            let (x, of_x) = tensor(&device, &away, dims, dtype);
            let (gamma, of_gamma) = tensor(&device, &numbers(channels, 2), &[channels], dtype);
            let (beta, of_beta) = tensor(&device, &numbers(channels, 3), &[channels], dtype);
            let (dy, of_dy) = tensor(&device, &numbers(count, 4), dims, dtype);
            let sizes = [n, places, channels, groups].map(|extent| extent as usize);
            let want = by_loops(sizes, [&of_x, &of_gamma, &of_beta, &of_dy], 1e-5);
            let tape = Tape::new();
            let watched = [&x, &gamma, &beta].map(|tensor| tape.watch(tensor).unwrap());
            let normal = |of: &[Tensor; 3]| of[0].group_norm(groups, Some([&of[1], &of[2]]), 1e-5);
            let y = normal(&watched).unwrap();
            assert_eq!((y.dims(), y.dtype()), (dims, dtype));
            close("y", &read(&y), &want[0], dtype);
            let gradients = tape.backward(&y.mul(&dy).unwrap().cast(DType::F32).unwrap().sum(..).unwrap()).unwrap();
            for ((of, want), what) in watched.iter().zip(&want[1..]).zip(["dx", "dgamma", "dbeta"]) {
                close(what, &read(gradients.of(of).unwrap()), want, dtype);
            }
            if groups == channels {
                let tape = Tape::new();
                let x = tape.watch(&x).unwrap();
                let y = x.instance_norm(Some([&gamma, &beta]), 1e-5).unwrap();
                close("y of an instance", &read(&y), &want[0], dtype);
                let loss = y.mul(&dy).unwrap().cast(DType::F32).unwrap().sum(..).unwrap();
                close("dx of an instance", &read(tape.backward(&loss).unwrap().of(&x).unwrap()), &want[1], dtype);
            }
            // A missing gamma counts as 1, a missing beta as 0.
            let (ones, zeros) = (vec![1.0; of_gamma.len()], vec![0.0; of_gamma.len()]);
            let want = by_loops(sizes, [&of_x, &ones, &zeros, &of_dy], 1e-5);
            close("plain y", &read(&x.group_norm(groups, None, 1e-5).unwrap()), &want[0], dtype);
        }
    }
}

/// The variance of large numbers that are close together: a difference of two large sums would have none of its digits.
#[test]
fn variance_far_from_zero_is_exact() {
    let values: Vec<f32> = (0..64u16).map(|i| 4096.0 + f32::from(i % 2)).collect();
    let x = Tensor::from_slice(&Device::cpu(), &values, [1, 16, 4]).unwrap();
    let y = x.group_norm(2, None, 1e-9).unwrap().to_vec::<f32>().unwrap();
    assert!(y.iter().enumerate().all(|(i, y)| (y - if i % 2 == 0 { -1.0 } else { 1.0 }).abs() < 1e-6), "{y:?}");
}

#[test]
fn views_are_normalised_as_their_copies() {
    let x = Tensor::from_slice(&Device::cpu(), &numbers(2 * 6 * 5, 9), [2, 6, 5]).unwrap();
    // Images in PyTorch's order of axes, viewed in ours.
    let seen = x.transpose(1, 2).unwrap();
    let values = |x: &Tensor| x.group_norm(3, None, 1e-5).unwrap().to_vec::<f64>().unwrap();
    assert_eq!(values(&seen), values(&seen.copy().unwrap()));
    let tape = Tape::new();
    let watched = tape.watch(&x).unwrap();
    let y = watched.transpose(1, 2).unwrap().group_norm(3, None, 1e-5).unwrap();
    let gradients = tape.backward(&y.mul(&y.detach()).unwrap().sum(..).unwrap()).unwrap();
    let found = gradients.of(&watched).unwrap().transpose(1, 2).unwrap().to_vec::<f64>().unwrap();
    let dense = seen.copy().unwrap().to_vec::<f64>().unwrap();
    let y = values(&seen);
    let want = by_loops([2, 5, 6, 3], [&dense, &[1.0; 6], &[0.0; 6], &y], 1e-5);
    assert!(found.iter().zip(&want[1]).all(|(found, want)| (found - want).abs() < 1e-12));
}

#[test]
fn wrong_operands_are_refused_by_name_and_nothing_gives_nothing() {
    let device = Device::cpu();
    let x = Tensor::zeros(&device, DType::F32, [2, 3, 4]).unwrap();
    let (four, five) =
        (Tensor::zeros(&device, DType::F32, [4]).unwrap(), Tensor::zeros(&device, DType::F32, [5]).unwrap());
    let invalid = |result: Result<Tensor>, wanted: &str| {
        assert!(matches!(&result, Err(Error::InvalidArgument { what, .. }) if *what == wanted), "{result:?}");
    };
    for groups in [0, 3, 8] {
        invalid(x.group_norm(groups, None, 1e-5), "groups");
    }
    for epsilon in [0.0, -1.0, f64::NAN, f64::INFINITY] {
        invalid(x.group_norm(2, None, epsilon), "epsilon");
    }
    invalid(four.group_norm(1, None, 1e-5), "operand");
    invalid(x.slice(1, 0..1).unwrap().instance_norm(None, 1e-5), "values");
    let result = x.group_norm(2, Some([&four, &five]), 1e-5);
    assert!(matches!(result, Err(Error::ShapeMismatch { op: "group_norm", .. })), "{result:?}");
    let result = x.instance_norm(Some([&four, &four.cast(DType::F16).unwrap()]), 1e-5);
    let is_named =
        matches!(result, Err(Error::DTypeMismatch { op: "instance_norm", expected: DType::F32, got: DType::F16 }));
    assert!(is_named, "{result:?}");
    let result = x.cast(DType::I32).unwrap().group_norm(2, None, 1e-5);
    assert!(matches!(result, Err(Error::UndefinedForDType { op: "group_norm", dtype: DType::I32 })), "{result:?}");
    for dims in [[0, 3, 4], [2, 0, 4], [2, 3, 0]] {
        let nothing = Tensor::zeros(&device, DType::F32, dims).unwrap();
        assert_eq!(nothing.group_norm(1, None, 1e-5).unwrap().dims(), dims);
        assert_eq!(nothing.instance_norm(None, 1e-5).unwrap().dims(), dims);
    }
}
