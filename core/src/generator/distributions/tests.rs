//! Moments and shares within five standard errors (numbers are the same at each run), repeatability, and what is refused.

use super::*;
use crate::harness::ReferenceBackend;
use crate::tensor::numbers::last_below;
use crate::{Device, Tape};

/// How many numbers are drawn.
pub(super) const N: u64 = 1 << 17;

pub(super) fn generator(seed: u64) -> Generator {
    Generator::new(&Device::cpu(), seed).unwrap()
}

fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.cast(DType::F64).unwrap().to_vec::<f64>().unwrap()
}

/// The means of x, (x - mean)^2 and (x - mean)^4 are those of the distribution. Standard errors are sqrt(variance / n) and
/// sqrt((fourth - variance^2) / n); `eighth` is the eighth moment, for that of the fourth.
#[track_caller]
fn moments(found: &[f64], mean: f64, variance: f64, fourth: f64, eighth: f64) {
    let n = found.len() as f64;
    let of = |power: i32| found.iter().map(|x| (x - mean).powi(power)).sum::<f64>() / n;
    let within = |what: &str, found: f64, want: f64, spread: f64| {
        let error = 5.0 * (spread / n).sqrt();
        assert!((found - want).abs() <= error, "{what}: {found}, not {want} within {error}");
    };
    within("mean", found.iter().sum::<f64>() / n, mean, variance);
    within("variance", of(2), variance, fourth - variance * variance);
    within("fourth moment", of(4), fourth, eighth - fourth * fourth);
}

/// The share of numbers below each of `points` is `below` of it.
#[track_caller]
fn shares(found: &[f64], points: &[f64], below: impl Fn(f64) -> f64) {
    let n = found.len() as f64;
    for &point in points {
        let (share, want) = (found.iter().filter(|x| **x < point).count() as f64 / n, below(point));
        let error = 5.0 * (want * (1.0 - want) / n).sqrt();
        assert!((share - want).abs() <= error, "below {point}: {share}, not {want} within {error}");
    }
}

#[test]
fn continuous_numbers_have_their_moments_and_shares() {
    let normal = numbers(&generator(1).normal(DType::F32, [N], 2.0, 3.0).unwrap());
    // Of a normal distribution 1, 3 and 105 times the powers of the variance.
    moments(&normal, 2.0, 9.0, 3.0 * 81.0, 105.0 * 6561.0);
    shares(&normal, &[-7.0, -1.0, 2.0, 3.5, 8.0], |x| super::below((x - 2.0) / 3.0));
    let uniform = numbers(&generator(2).uniform(DType::F32, [N], -1.0, 3.0).unwrap());
    moments(&uniform, 1.0, 16.0 / 12.0, 256.0 / 80.0, 65536.0 / 2304.0);
    assert!(uniform.iter().all(|x| (-1.0..3.0).contains(x)));
    let exponential = numbers(&generator(3).exponential(DType::F32, [N], 0.5).unwrap());
    // Central moments of rate 1: 1, 9, 14833.
    moments(&exponential, 2.0, 4.0, 9.0 * 16.0, 14833.0 * 256.0);
    shares(&exponential, &[0.001, 0.1, 1.0, 4.0, 12.0], |x| 1.0 - (-0.5 * x).exp());
    assert!(exponential.iter().all(|x| *x > 0.0));
    let gumbel = numbers(&generator(4).gumbel(DType::F32, [N], 1.0, 2.0).unwrap());
    shares(&gumbel, &[-3.0, -1.0, 1.0, 3.0, 8.0, 15.0], |x| (-(-(x - 1.0) / 2.0).exp()).exp());
    // Euler's constant.
    let (mean, variance) = (1.0 + 2.0 * 0.577_215_664_901_532_9, 4.0 * std::f64::consts::PI.powi(2) / 6.0);
    let n = N as f64;
    let found = gumbel.iter().sum::<f64>() / n;
    assert!((found - mean).abs() <= 5.0 * (variance / n).sqrt(), "{found}, not {mean}");
    let laplace = numbers(&generator(5).laplace(DType::F32, [N], -1.0, 0.5).unwrap());
    // Moments of scale 1: 2!, 4!, 8!.
    moments(&laplace, -1.0, 2.0 * 0.25, 24.0 / 16.0, 40320.0 / 256.0);
    shares(&laplace, &[-3.0, -1.5, -1.0, 0.5], |x| {
        let tail = 0.5 * (-(x + 1.0f64).abs() / 0.5).exp();
        if x < -1.0 { tail } else { 1.0 - tail }
    });
}

/// Numbers of f64 are functions of 53 and 64 bits, the upper ones those of f32.
#[test]
fn numbers_of_f64_have_all_their_bits() {
    let draw = |dtype| numbers(&generator(17).uniform(dtype, [N], 0.0, 1.0).unwrap());
    let (fine, coarse) = (draw(DType::F64), draw(DType::F32));
    let low = |x: f64| (x * 9_007_199_254_740_992.0) as u64; // 2^53
    assert!(fine.iter().zip(&coarse).all(|(fine, coarse)| fine - coarse < 2f64.powi(-24) && fine >= coarse));
    for bit in 0..53 {
        let count = fine.iter().filter(|x| low(**x) >> bit & 1 == 1).count() as f64;
        assert!((count - N as f64 / 2.0).abs() <= 2.5 * (N as f64).sqrt(), "bit {bit}: {count} of {N}");
    }
    let normal = numbers(&generator(18).normal(DType::F64, [N], 2.0, 3.0).unwrap());
    moments(&normal, 2.0, 9.0, 3.0 * 81.0, 105.0 * 6561.0);
    shares(&normal, &[-7.0, -1.0, 2.0, 3.5, 8.0], |x| super::below((x - 2.0) / 3.0));
    // -ln of the same bits, within what rounding them to 32 or to 53 bits makes of it.
    let [fine, coarse] = [DType::F64, DType::F32].map(|t| numbers(&generator(19).exponential(t, [N], 1.0).unwrap()));
    for (fine, coarse) in fine.iter().zip(&coarse) {
        let bound = 4e-6 * coarse + 2f64.powi(-32) * fine.exp();
        assert!((fine - coarse).abs() <= bound && *fine > 0.0, "{fine} and {coarse}");
    }
    assert!(fine.iter().any(|x| f64::from(*x as f32) != *x));
    let gumbel = numbers(&generator(20).gumbel(DType::F64, [N], 1.0, 2.0).unwrap());
    shares(&gumbel, &[-3.0, -1.0, 1.0, 3.0, 8.0, 15.0], |x| (-(-(x - 1.0) / 2.0).exp()).exp());
    let laplace = numbers(&generator(21).laplace(DType::F64, [N], -1.0, 0.5).unwrap());
    moments(&laplace, -1.0, 2.0 * 0.25, 24.0 / 16.0, 40320.0 / 256.0);
}

#[test]
fn truncated_normal_is_the_normal_in_its_bounds() {
    for ([low, high], points) in [
        ([-2.0, 2.0], [-1.5, 0.0, 0.7, 1.9]),
        ([0.5, 3.0], [0.6, 1.0, 1.5, 2.5]),
        ([3.5, 9.0], [3.51, 3.6, 3.8, 4.5]),
        ([-6.0, -3.0], [-4.0, -3.5, -3.2, -3.05]),
        ([-1.0, f64::INFINITY], [-0.5, 0.0, 1.0, 3.0]),
        ([f64::NEG_INFINITY, f64::INFINITY], [-3.0, -1.0, 0.0, 2.0]),
    ] {
        // Mean 10 and deviation 2, so that the bounds are in other units.
        let bounds = [low, high].map(|z: f64| 10.0 + 2.0 * z);
        let found = generator(6).truncated_normal(DType::F32, [N], [10.0, 2.0], bounds).unwrap();
        let found = numbers(&found);
        assert!(found.iter().all(|x| (bounds[0]..=bounds[1]).contains(x)), "{low}..{high}");
        let found: Vec<f64> = found.iter().map(|x| (x - 10.0) / 2.0).collect();
        // By the smaller tail, or a difference of two numbers near 1 would have lost its digits.
        let between = |a: f64, b: f64| if a > 0.0 { below(-a) - below(-b) } else { below(b) - below(a) };
        shares(&found, &points, |z| between(low, z) / between(low, high));
    }
    for bounds in [[1.0, 1.0], [2.0, 1.0], [f64::NAN, 1.0], [4.5, 5.0], [-9.0, -5.0]] {
        let result = generator(6).truncated_normal(DType::F32, [4], [0.0, 1.0], bounds);
        assert!(matches!(result, Err(Error::InvalidArgument { what: "range", .. })), "{bounds:?} {result:?}");
    }
}

/// The polynomials against the error function itself, in both tails.
#[test]
fn inverse_of_the_error_function_is_exact_to_a_few_roundings() {
    let q: Vec<f64> = (0..400).map(|i| 0.5 * 10f64.powf(-f64::from(i) / 50.0)).filter(|q| *q > 2e-8).collect();
    let count = q.len() as u64;
    let device = Device::cpu();
    let p: Vec<f64> = q.iter().map(|q| 1.0 - q).collect();
    let [of_p, of_q] = [&p, &q].map(|x| Tensor::from_slice(&device, x, [count]).unwrap().cast(DType::F32).unwrap());
    let found = Tensor::map(&erfinv_of(Expr::input(0), Expr::input(1)), &[&of_p, &of_q]).unwrap();
    for (q, x) in q.iter().zip(numbers(&found)) {
        // 2 q = erfc(x); the slope of erfc is -2 / sqrt(pi) exp(-x^2).
        let off = (libm::erfc(x) - 2.0 * q) / (std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp());
        assert!(off.abs() < 2e-6 * x.abs().max(0.1), "q = {q}: {x} is off by {off}");
    }
}

/// By the error function itself, far into the tail on both sides, and about the middle.
#[test]
fn inverse_of_the_error_function_in_f64_is_exact_to_a_few_roundings() {
    let q: Vec<f64> = (0..600).map(|i| 0.5 * 10f64.powf(-f64::from(i) * 0.4)).filter(|q| *q > 1e-220).collect();
    let q: Vec<f64> = q.into_iter().chain((1..100).map(|i| f64::from(i) / 200.0)).collect();
    let (p, n): (Vec<f64>, _) = (q.iter().map(|q| 1.0 - q).collect(), q.len() as u64);
    for device in [Device::cpu(), Device::new(ReferenceBackend::default())] {
        let [p, tail] = [&p, &q].map(|x| Tensor::from_slice(&device, x, [n]).unwrap());
        for (sign, p, q) in [(1.0, &p, &tail), (-1.0, &tail, &p)] {
            let found = Tensor::map(&erfinv_of_64(&Expr::input(0), &Expr::input(1)), &[p, q]).unwrap();
            for (tail, x) in tail.to_vec::<f64>().unwrap().into_iter().zip(found.to_vec::<f64>().unwrap()) {
                let x = sign * x;
                // 2 q = erfc(x); the slope of the logarithm of erfc is about -2 x in the tail.
                let slope = std::f64::consts::FRAC_2_SQRT_PI * (-x * x).exp() / libm::erfc(x);
                let off = ((libm::erfc(x) / (2.0 * tail)).ln()) / slope;
                assert!(off.abs() < 4e-15 * x.abs().max(0.25), "q = {tail}: {x} is off by {off}");
            }
        }
    }
}

#[test]
fn bernoulli_has_its_share() {
    for p in [0.0, 1e-3, 0.3, 0.5, 0.999, 1.0] {
        let count = |found: &Tensor| found.to_vec::<bool>().unwrap().into_iter().filter(|&is| is).count() as f64;
        let n = N as f64;
        let error = 5.0 * (n * p * (1.0 - p)).sqrt();
        let found = count(&generator(9).bernoulli([N], p).unwrap());
        assert!((found - n * p).abs() <= error, "{p}: {found}");
        for dtype in [DType::F32, DType::F64] {
            let all = Tensor::full(&Device::cpu(), dtype, [N], p).unwrap();
            let found = count(&Generator::new(all.device(), 10).unwrap().bernoulli_of(&all).unwrap());
            assert!((found - n * p).abs() <= error, "of a tensor of {dtype}, {p}: {found}");
        }
    }
    let p = Tensor::from_slice(&Device::cpu(), &[f32::NAN, -1.0, 2.0], [3]).unwrap();
    let found = Generator::new(p.device(), 1).unwrap().bernoulli_of(&p).unwrap();
    assert_eq!(found.to_vec::<bool>().unwrap(), [false, false, true]);
}

#[test]
fn permutations_are_orders_each_as_likely() {
    let mut order = generator(11).permutation(5000).unwrap().to_vec::<u32>().unwrap();
    assert!((0..5000).any(|i| order[i as usize] != i));
    order.sort_unstable();
    assert_eq!(order, (0..5000).collect::<Vec<u32>>());
    // All 24 orders of four: chi squared of 23 degrees of freedom, 99.999 % below 66.
    let generator = generator(12);
    let mut counts = std::collections::HashMap::new();
    let rounds = 4800;
    for _ in 0..rounds {
        *counts.entry(generator.permutation(4).unwrap().to_vec::<u32>().unwrap()).or_insert(0) += 1;
    }
    let expected = f64::from(rounds) / 24.0;
    let chi: f64 = counts.values().map(|&count| (f64::from(count) - expected).powi(2) / expected).sum();
    assert!(counts.len() == 24 && chi < 66.0, "{chi} of {} orders", counts.len());
    assert_eq!(generator.permutation(0).unwrap().dims(), [0]);
}

#[test]
fn shuffle_keeps_lines_whole_and_brings_gradients_back() {
    let device = Device::cpu();
    let generator = Generator::new(&device, 13).unwrap();
    let x = Tensor::from_slice(&device, &(0..40).map(f64::from).collect::<Vec<f64>>(), [2, 10, 2]).unwrap();
    let tape = Tape::new();
    let watched = tape.watch(&x).unwrap();
    let shuffled = generator.copy().unwrap().shuffle(&watched, 1).unwrap();
    let order = generator.permutation(10).unwrap().to_vec::<u32>().unwrap();
    let values = shuffled.to_vec::<f64>().unwrap();
    for (i, value) in values.iter().enumerate() {
        let (outer, place, inner) = (i / 20, i / 2 % 10, i % 2);
        assert_eq!(*value, (outer * 20 + order[place] as usize * 2 + inner) as f64);
    }
    let gradients = tape.backward(&shuffled.mul(&shuffled).unwrap().sum(..).unwrap()).unwrap();
    let found = gradients.of(&watched).unwrap().to_vec::<f64>().unwrap();
    assert_eq!(found, (0..40).map(|x| 2.0 * f64::from(x)).collect::<Vec<f64>>());
}

#[test]
fn positions_are_drawn_by_their_weights() {
    let device = Device::cpu();
    let generator = Generator::new(&device, 14).unwrap();
    let all = [[1.0f64, 0.0, 3.0, 4.0, 0.0], [0.0, 10.0, 0.0, 0.5, 0.0]];
    let weights = Tensor::from_slice(&device, &all.concat(), [2, 5]).unwrap();
    for dtype in [DType::F32, DType::F16, DType::F64] {
        let drawn = generator.multinomial(&weights.cast(dtype).unwrap(), N, Replacement::With).unwrap();
        assert_eq!((drawn.dims(), drawn.dtype()), (&[2, N][..], DType::U32));
        let drawn = drawn.to_vec::<u32>().unwrap();
        for (line, weights) in drawn.chunks(N as usize).zip(&all) {
            let total: f64 = weights.iter().sum();
            for (at, weight) in weights.iter().enumerate() {
                let found = line.iter().filter(|found| **found as usize == at).count() as f64;
                let p = weight / total;
                let error = 5.0 * (N as f64 * p * (1.0 - p)).sqrt();
                assert!((found - N as f64 * p).abs() <= error, "{dtype}, weight {at}: {found}");
            }
        }
    }
    // Two of three without replacement, many lines: P(i then j) = w_i / s w_j / (s - w_i).
    let (weights, total, lines) = ([1.0f32, 2.0, 3.0], 6.0f64, 60_000u64);
    let tensor = Tensor::from_slice(&device, &weights, [3]).unwrap().broadcast_to([lines, 3]).unwrap();
    let drawn = generator.multinomial(&tensor, 2, Replacement::Without).unwrap().to_vec::<u32>().unwrap();
    for i in 0..3u32 {
        for j in (0..3u32).filter(|j| *j != i) {
            let [a, b] = [i, j].map(|at| f64::from(weights[at as usize]));
            let p = a / total * b / (total - a);
            let found = drawn.chunks(2).filter(|pair| *pair == [i, j]).count() as f64;
            let error = 5.0 * (lines as f64 * p * (1.0 - p)).sqrt();
            assert!((found - lines as f64 * p).abs() <= error, "{i} then {j}: {found}");
        }
    }
    let some = Tensor::from_slice(&device, &[0.0f32, 1.0, 0.0, 2.0], [4]).unwrap();
    let drawn = generator.multinomial(&some, 4, Replacement::Without).unwrap().to_vec::<u32>().unwrap();
    assert!(drawn[..2].contains(&1) && drawn[..2].contains(&3), "weights of zero come last: {drawn:?}");
}

/// The same state gives the same numbers, on every device; replays go on.
#[test]
fn numbers_repeat_from_a_state_and_go_on_in_replays() {
    type Draw = fn(&Generator) -> Result<Tensor>;
    let draws: [Draw; 9] = [
        |g| g.uniform(DType::F16, [3, 5], 0.0, 1.0),
        |g| g.normal(DType::F32, [3, 5], 0.0, 1.0)?.mul_scalar(1e3)?.cast(DType::I32),
        |g| g.randint(DType::U32, [17], 0, 1i64 << 32),
        |g| g.bernoulli([64], 0.5)?.cast(DType::U8),
        |g| g.exponential(DType::F32, [17], 1.0)?.mul_scalar(1e3)?.cast(DType::I32),
        |g| g.gumbel(DType::F32, [17], 0.0, 1.0)?.mul_scalar(1e3)?.cast(DType::I32),
        |g| g.laplace(DType::F32, [17], 0.0, 1.0)?.mul_scalar(1e3)?.cast(DType::I32),
        |g| g.truncated_normal(DType::F32, [17], [0.0, 1.0], [-1.0, 2.0])?.mul_scalar(1e3)?.cast(DType::I32),
        |g| g.permutation(33),
    ];
    for (number, draw) in draws.into_iter().enumerate() {
        let on = |device: &Device| {
            let generator = Generator::new(device, 77).unwrap();
            let bytes = |_| draw(&generator).unwrap().to_bytes().unwrap();
            (0..3).map(bytes).collect::<Vec<_>>()
        };
        let device = Device::cpu();
        let expected = on(&device);
        assert!(expected[0] != expected[1] && expected[1] != expected[2], "draw {number}");
        assert_eq!(on(&Device::cpu()), expected, "draw {number}");
        // Roundings of logarithms differ by device, and a thousandth of them may be another whole number.
        if [0, 2, 3, 8].contains(&number) {
            assert_eq!(on(&Device::new(ReferenceBackend::default())), expected, "draw {number}");
        }
        let generator = Generator::new(&device, 77).unwrap();
        let recording = device.record(|| draw(&generator)).unwrap();
        for expected in &expected {
            assert_eq!(recording.replay().unwrap().to_bytes().unwrap(), *expected, "draw {number}");
        }
    }
}

/// Steps of 2^-24 are finer than those of most dtypes below the upper end, and so are roundings there.
#[test]
fn uniform_numbers_do_not_reach_the_upper_end() {
    let generator = generator(16);
    for (low, high) in [(0.0, 1.0), (1.0, 2.0), (-3.0, 0.0), (-2.0, -1.0), (0.5, 0.5)] {
        for dtype in DType::FLOATS {
            let x = numbers(&generator.uniform(dtype, [N], low, high).unwrap());
            let (least, most) = x.iter().fold((f64::MAX, f64::MIN), |(a, b), &x| (a.min(x), b.max(x)));
            assert!(least >= low && (most < high || low == high), "{dtype} in {low}..{high}: {least} to {most}");
        }
    }
    assert_eq!(last_below(DType::F32, 2.0), f64::from(2.0f32.next_down()));
    assert_eq!([last_below(DType::F64, 2.0), last_below(DType::F64, 0.0)], [2f64.next_down(), -f64::MIN_POSITIVE]);
    assert_eq!(last_below(DType::F16, 1.0), 1.0 - 2f64.powi(-11));
    assert_eq!(last_below(DType::BF16, -1.0), -1.0 - 2f64.powi(-7));
    assert_eq!([last_below(DType::F32, 0.0), last_below(DType::F16, 0.0)], [-2f64.powi(-126), -2f64.powi(-24)]);
    // A bound that the dtype does not hold lies between two of its numbers.
    assert_eq!(last_below(DType::F16, 1.0001), 1.0);
}

/// [`Tensor::random`] of f64 is what a generator gives for that key.
#[test]
fn random_tensors_of_f64_are_the_numbers_of_a_generator() {
    use crate::Distribution;

    let device = Device::cpu();
    let (seed, stream) = (1 << 40 | 9, 3 << 32 | 0xffff_ffff);
    let generator = Generator::new(&device, seed).unwrap();
    let again = || generator.set_state([9, 1 << 8, u32::MAX, 3]).unwrap();
    let random = |distribution| Tensor::random(&device, DType::F64, [3, 57], distribution, seed, stream);
    let bytes = |numbers: Result<Tensor>| numbers.unwrap().to_vec::<f64>().unwrap();
    again();
    let uniform = bytes(random(Distribution::Uniform { low: -1.5, high: 2.0 }));
    assert_eq!(uniform, bytes(generator.uniform(DType::F64, [3, 57], -1.5, 2.0)));
    again();
    let normal = bytes(random(Distribution::Normal { mean: 2.0, std: 0.5 }));
    assert_eq!(normal, bytes(generator.normal(DType::F64, [3, 57], 2.0, 0.5)));
    assert!(normal.iter().chain(&uniform).any(|x| f64::from(*x as f32) != *x));
    assert!(matches!(random(Distribution::Bits), Err(Error::UndefinedForDType { dtype: DType::F64, .. })));
    let wrong = random(Distribution::Normal { mean: 0.0, std: -1.0 });
    assert!(matches!(wrong, Err(Error::InvalidArgument { what: "distribution", .. })));
}

#[test]
fn parameters_that_mean_nothing_are_refused() {
    let generator = generator(15);
    let invalid = |result: Result<Tensor>, wanted: &str| {
        assert!(matches!(&result, Err(Error::InvalidArgument { what, .. }) if *what == wanted), "{result:?}");
    };
    invalid(generator.uniform(DType::F32, [1], 1.0, 0.0), "range");
    invalid(generator.normal(DType::F32, [1], 0.0, -1.0), "deviation");
    invalid(generator.bernoulli([1], 1.5), "p");
    invalid(generator.exponential(DType::F32, [1], 0.0), "rate");
    invalid(generator.gumbel(DType::F32, [1], 0.0, 0.0), "scale");
    invalid(generator.laplace(DType::F32, [1], f64::NAN, 1.0), "scale");
    for (low, high) in [(1, 1), (2, 1), (0, (1 << 32) + 1), (-1, 5), (i64::MIN, i64::MAX)] {
        invalid(generator.randint(DType::U32, [1], low, high), "range");
    }
    invalid(generator.randint(DType::I64, [1], 0u64, u64::MAX), "range");
    invalid(generator.randint(DType::U64, [1], i128::MIN, i128::MAX), "range");
    let undefined = |result: Result<Tensor>| {
        assert!(matches!(result, Err(Error::UndefinedForDType { .. })), "{result:?}");
    };
    undefined(generator.randint(DType::F32, [1], 0, 2));
    undefined(generator.truncated_normal(DType::I32, [1], [0.0, 1.0], [-1.0, 1.0]));
    undefined(generator.bernoulli_of(&Tensor::zeros(generator.low.device(), DType::U32, [1]).unwrap()));
    undefined(generator.uniform(DType::U32, [1], 0.0, 1.0));
    undefined(generator.normal(DType::I32, [1], 0.0, 1.0));
    let weights = Tensor::from_slice(generator.low.device(), &[1.0f32, 2.0], [2]).unwrap();
    invalid(generator.multinomial(&weights, 3, Replacement::Without), "count");
    invalid(generator.multinomial(&weights.slice(0, 0..0).unwrap(), 1, Replacement::With), "count");
    invalid(generator.multinomial(&weights.select(0, 0).unwrap(), 1, Replacement::With), "weights");
    undefined(generator.multinomial(&weights.cast(DType::I32).unwrap(), 1, Replacement::With));
    let elsewhere = Tensor::zeros(&Device::cpu(), DType::F32, [3]).unwrap();
    assert!(matches!(generator.shuffle(&elsewhere, 0), Err(Error::DeviceMismatch { .. })));
    // Nothing was drawn.
    assert_eq!(generator.state().unwrap(), [15, 0, 0, 0]);
    assert_eq!(generator.uniform(DType::F32, [0, 3], 0.0, 1.0).unwrap().dims(), [0, 3]);
    assert!(generator.bernoulli(Shape::SCALAR, 1.0).unwrap().item::<bool>().unwrap());
}
