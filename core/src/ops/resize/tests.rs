//! Against PyTorch's formulas in float64, gradients against the transposed sums, and what is refused.

use super::*;
use crate::{Device, Tape};

const BILINEAR: [Interpolation; 2] =
    [Interpolation::Bilinear(Corners::Edges), Interpolation::Bilinear(Corners::Centres)];

/// The places that place `i` of an axis reads, and how much of each, as `interpolate` is documented.
fn reads(i: usize, [from, to]: [usize; 2], how: Interpolation) -> Vec<(usize, f64)> {
    let (last, of) = (from - 1, |x: usize| x as f64);
    let at = match how {
        Interpolation::Nearest => return vec![((of(i) * of(from) / of(to) + 1e-9).floor() as usize, 1.0)],
        Interpolation::Bilinear(Corners::Edges) => ((of(i) + 0.5) * of(from) / of(to) - 0.5).max(0.0),
        Interpolation::Bilinear(Corners::Centres) if to == 1 => 0.0,
        Interpolation::Bilinear(Corners::Centres) => of(i) * of(last) / of(to - 1),
    };
    let place = ((at + 1e-9).floor() as usize).min(last);
    let weight = (at - of(place)).max(0.0);
    vec![(place, 1.0 - weight), ((place + 1).min(last), weight)]
}

/// For each element of the result: which elements it reads, and how much of each.
fn matrix(
    [images, channels]: [usize; 2],
    from: [usize; 2],
    to: [usize; 2],
    how: Interpolation,
) -> Vec<Vec<(usize, f64)>> {
    let mut rows = Vec::new();
    for image in 0..images {
        for row in 0..to[0] {
            for column in 0..to[1] {
                for channel in 0..channels {
                    let mut all = Vec::new();
                    for &(y, down) in &reads(row, [from[0], to[0]], how) {
                        for &(x, across) in &reads(column, [from[1], to[1]], how) {
                            all.push((((image * from[0] + y) * from[1] + x) * channels + channel, down * across));
                        }
                    }
                    rows.push(all);
                }
            }
        }
    }
    rows
}

fn numbers(count: usize, seed: u64) -> Vec<f64> {
    let of = |i: u64| ((i + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as f64 / f64::from(1 << 23) - 1.0;
    (0..count as u64).map(of).collect()
}

fn read(tensor: &Tensor) -> Vec<f64> {
    tensor.cast(DType::F64).unwrap().to_vec::<f64>().unwrap()
}

const SIZES: [([u64; 2], [u64; 2]); 10] = [
    ([5, 7], [11, 3]),
    ([3, 4], [6, 8]),
    ([8, 6], [4, 3]),
    ([2, 3], [17, 19]),
    ([31, 29], [7, 64]),
    ([1, 1], [4, 5]),
    ([4, 5], [1, 1]),
    ([1, 9], [3, 2]),
    ([6, 5], [6, 5]),
    ([2, 2], [3, 3]),
];

#[test]
fn values_and_gradients_are_pytorchs() {
    for how in [Interpolation::Nearest].into_iter().chain(BILINEAR) {
        for (from, to) in SIZES {
            let dims = [2, from[0], from[1], 3];
            let count = dims.iter().product::<u64>() as usize;
            let sizes = |size: [u64; 2]| size.map(|extent| extent as usize);
            let matrix = matrix([2, 3], sizes(from), sizes(to), how);
            for dtype in [DType::F64, DType::F32, DType::F16, DType::BF16] {
                let x = Tensor::from_slice(&Device::cpu(), &numbers(count, 1), dims).unwrap().cast(dtype).unwrap();
                let tape = Tape::new();
                let watched = tape.watch(&x).unwrap();
                let y = watched.resize(to, how).unwrap();
                assert_eq!((y.dims(), y.dtype()), (&[2, to[0], to[1], 3][..], dtype));
                let dy = Tensor::from_slice(x.device(), &numbers(matrix.len(), 7), *y.shape()).unwrap();
                let dy = dy.cast(dtype).unwrap();
                let (of_x, of_dy) = (read(&x), read(&dy));
                let want: Vec<f64> =
                    matrix.iter().map(|row| row.iter().map(|&(at, weight)| of_x[at] * weight).sum()).collect();
                let mut gradient = vec![0.0; count];
                let mut magnitudes = vec![0.0; count];
                for (row, dy) in matrix.iter().zip(&of_dy) {
                    for &(at, weight) in row {
                        gradient[at] += weight * dy;
                        magnitudes[at] += (weight * dy).abs();
                    }
                }
                let u = dtype.unit_roundoff();
                for (i, (found, want)) in read(&y).iter().zip(&want).enumerate() {
                    assert!(
                        (found - want).abs() <= u * want.abs() + 1e-6,
                        "{how:?} {from:?} {to:?} {dtype} {i}: {found}, not {want}"
                    );
                }
                let loss = y.mul(&dy).unwrap().cast(DType::F32).unwrap().sum(..).unwrap();
                let found = read(tape.backward(&loss).unwrap().of(&watched).unwrap());
                for (i, (found, want)) in found.iter().zip(&gradient).enumerate() {
                    let most = u * want.abs() + 1e-6 * (1.0 + magnitudes[i]);
                    assert!((found - want).abs() <= most, "{how:?} {from:?} {to:?} {dtype} d{i}: {found}, not {want}");
                }
            }
        }
    }
}

/// No place is read by more places than the gradient looks at, and the first of them is where it begins: sums of gradients of ones.
#[test]
fn gradients_of_ones_sum_to_the_number_of_places() {
    for how in [Interpolation::Nearest].into_iter().chain(BILINEAR) {
        for from in 1..24u64 {
            for to in 1..24u64 {
                let tape = Tape::new();
                let x = tape.watch(&Tensor::zeros(&Device::cpu(), DType::F64, [1, from, 1]).unwrap()).unwrap();
                let y = x.resize([1, to], how).unwrap();
                let found = read(tape.backward(&y.sum(..).unwrap()).unwrap().of(&x).unwrap());
                let mut want = vec![0.0; from as usize];
                for i in 0..to as usize {
                    reads(i, [from as usize, to as usize], how).iter().for_each(|&(at, weight)| want[at] += weight);
                }
                let close = found.iter().zip(&want).all(|(found, want)| (found - want).abs() < 1e-6);
                assert!(close, "{how:?}, {from} to {to}: {found:?}, not {want:?}");
            }
        }
    }
}

#[test]
fn nearest_moves_bits_of_any_dtype() {
    let x = Tensor::from_slice(&Device::cpu(), &[1i32, -2, 3, 4, 5, 6], [3, 2, 1]).unwrap();
    let y = x.resize([2, 3], Interpolation::Nearest).unwrap();
    assert_eq!(y.to_vec::<i32>().unwrap(), [1, 1, -2, 3, 3, 4]);
    let x = Tensor::from_slice(&Device::cpu(), &[true, false, true], [1, 3, 1]).unwrap();
    assert_eq!(x.resize([1, 2], Interpolation::Nearest).unwrap().to_vec::<bool>().unwrap(), [true, false]);
    // A ratio that f32 rounds up: floor(i from / to) is exact here.
    let count = 1000u32;
    let x = Tensor::arange(&Device::cpu(), DType::U32, 0, 1, count.into())
        .unwrap()
        .reshape([1, u64::from(count), 1])
        .unwrap();
    let y = x.resize([1, 3001], Interpolation::Nearest).unwrap().to_vec::<u32>().unwrap();
    assert!((0..3001u32).all(|i| y[i as usize] == i * count / 3001));
}

#[test]
fn an_infinity_shows_where_it_is_read() {
    for how in BILINEAR {
        let x = Tensor::from_slice(&Device::cpu(), &[1.0f32, f32::INFINITY, 3.0], [1, 3, 1]).unwrap();
        assert_eq!(x.resize([1, 3], how).unwrap().to_vec::<f32>().unwrap(), [1.0, f32::INFINITY, 3.0]);
        let y = x.resize([1, 5], how).unwrap().to_vec::<f32>().unwrap();
        assert_eq!((y[0], y[2], y[4]), (1.0, f32::INFINITY, 3.0));
    }
}

#[test]
fn wrong_sizes_are_refused() {
    let device = Device::cpu();
    let x = Tensor::zeros(&device, DType::F32, [2, 3, 4, 1]).unwrap();
    let invalid = |result: Result<Tensor>, wanted: &str| {
        assert!(matches!(&result, Err(Error::InvalidArgument { what, .. }) if *what == wanted), "{result:?}");
    };
    for how in [Interpolation::Nearest].into_iter().chain(BILINEAR) {
        invalid(x.resize([0, 3], how), "size");
        invalid(x.resize([3, 0], how), "size");
        invalid(Tensor::zeros(&device, DType::F32, [1, 0, 2, 1]).unwrap().resize([2, 2], how), "size");
        invalid(Tensor::zeros(&device, DType::F32, [4, 4]).unwrap().resize([2, 2], how), "operand");
        let result = x.resize([3, 1 << 31], how);
        assert!(matches!(result, Err(Error::IndexWidth { op: "resize", .. })), "{result:?}");
        let nothing = Tensor::zeros(&device, DType::F32, [0, 3, 4, 2]).unwrap();
        assert_eq!(nothing.resize([2, 2], how).unwrap().dims(), [0, 2, 2, 2]);
    }
    let result = x.cast(DType::I32).unwrap().resize([2, 2], BILINEAR[0]);
    assert!(matches!(result, Err(Error::UndefinedForDType { op: "resize", dtype: DType::I32 })), "{result:?}");
}
