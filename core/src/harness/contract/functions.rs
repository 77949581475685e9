//! Functions that are made of other steps, and operators: their values against float64, at ordinary numbers and at the edges.

use super::{Answer, Test, demand};
use crate::{DType, Device, Result, Tensor};

pub(super) const ROWS: &[(&str, Test)] = &[
    ("functions made of steps are those of float64", values),
    ("kinds of numbers are told apart", kinds),
    ("operators are their methods", operators),
];

/// Units in the last place that a function of a few steps may be off.
const ULPS: f64 = 24.0;
const INFINITY: f32 = f32::INFINITY;

/// A function's name, what a device makes of x, and what float64 makes of it.
type Case = (&'static str, fn(&Tensor) -> Result<Tensor>, fn(f64) -> f64);

const CASES: [Case; 9] = [
    ("expm1", |x| x.expm1(), f64::exp_m1),
    ("log1p", |x| x.log1p(), f64::ln_1p),
    ("softplus", |x| x.softplus(), |x| x.max(0.0) + (-x.abs()).exp().ln_1p()),
    ("elu", |x| x.elu(1.5), |x| if x > 0.0 { x } else { 1.5 * x.exp_m1() }),
    ("leaky_relu", |x| x.leaky_relu(0.25), |x| if x > 0.0 { x } else { 0.25 * x }),
    ("hardsigmoid", |x| x.hardsigmoid(), |x| (x + 3.0).clamp(0.0, 6.0) / 6.0),
    ("trunc", |x| x.trunc(), f64::trunc),
    ("fract", |x| x.fract(), f64::fract),
    ("mish", |x| x.mish(), |x| x * (x.max(0.0) + (-x.abs()).exp().ln_1p()).tanh()),
];

fn values(device: &Device) -> Result<Answer> {
    let mut numbers =
        vec![0.0f32, INFINITY, f32::NAN, 1e-20, -1e-20, 1e-7, -1e-7, 0.999_999_9, -0.999_999_9, 1.5, -2.5, 3e4, 1e30];
    numbers.extend((-300..300).map(|i| i as f32 * 0.031 + 0.003));
    let x = Tensor::from_slice(device, &numbers, [numbers.len() as u64])?;
    for (name, on_device, by_hand) in CASES {
        let found = on_device(&x)?.to_vec::<f32>()?;
        for (&x, &y) in numbers.iter().zip(&found) {
            // Its argument would be rounded first.
            if name == "hardsigmoid" && x.is_nan() {
                demand!(y.is_nan(), "{name}({x}) is {y}");
                continue;
            }
            let want = by_hand(f64::from(x));
            let unit = f64::from(f32::EPSILON) * want.abs().max(f64::from(f32::MIN_POSITIVE));
            // Sums that cancel are as far off as their terms are.
            let around =
                if matches!(name, "hardsigmoid" | "softplus" | "mish") { f64::from(f32::EPSILON) } else { 0.0 };
            let is_right = if want.is_finite() && want.abs() < f64::from(f32::MAX) {
                (f64::from(y) - want).abs() <= ULPS * (unit + around) + f64::from(f32::MIN_POSITIVE)
            } else {
                (want.is_nan() && y.is_nan()) || f64::from(y) == want || (want.abs() > 1e38 && y == INFINITY)
            };
            demand!(is_right, "{name}({x}) is {y}, not {want}");
        }
    }
    let (a, b) = (Tensor::from_slice(device, &[0.1f32, -3.0], [2])?, Tensor::from_slice(device, &[0.7f32, 5.0], [2])?);
    let at = |w: f32| Tensor::from_slice(device, &[w], [1]);
    demand!(a.lerp(&b, &at(0.0)?)?.to_vec::<f32>()? == [0.1, -3.0], "lerp does not begin where it begins");
    demand!(a.lerp(&b, &at(1.0)?)?.to_vec::<f32>()? == [0.7, 5.0], "lerp does not end where it ends");
    demand!(a.lerp(&b, &at(0.25)?)?.to_vec::<f32>()?[1] == -1.0, "a quarter of the way");
    Ok(Ok(()))
}

fn kinds(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[1.0f32, f32::NAN, INFINITY, -INFINITY], [4])?;
    demand!(x.is_nan()?.to_vec::<bool>()? == [false, true, false, false], "is_nan");
    demand!(x.is_inf()?.to_vec::<bool>()? == [false, false, true, true], "is_inf");
    demand!(x.is_finite()?.to_vec::<bool>()? == [true, false, false, false], "is_finite");
    let found = x.nan_to_num(7.0, 8.0, -9.0)?.to_vec::<f32>()?;
    demand!(found == [1.0, 7.0, 8.0, -9.0], "nan_to_num: {found:?}");
    let y = Tensor::from_slice(device, &[f32::NAN, 2.0, 3.0, f32::NAN], [4])?;
    demand!(x.fmax(&y)?.to_vec::<f32>()? == [1.0, 2.0, INFINITY, -INFINITY], "fmax");
    demand!(x.fmin(&y)?.to_vec::<f32>()? == [1.0, 2.0, 3.0, -INFINITY], "fmin");
    let neither = y.fmax(&y)?.to_vec::<f32>()?;
    demand!(neither[0].is_nan() && neither[1] == 2.0, "fmax of two NaN: {neither:?}");
    let whole = Tensor::from_slice(device, &[i32::MIN, 0, i32::MAX], [3])?;
    demand!(whole.is_finite()?.to_vec::<bool>()? == [true; 3], "integers are finite");
    demand!(whole.is_nan()?.to_vec::<bool>()? == [false; 3], "integers are numbers");
    Ok(Ok(()))
}

fn operators(device: &Device) -> Result<Answer> {
    let (a, b) = (Tensor::from_slice(device, &[1.0f32, -6.0], [2])?, Tensor::from_slice(device, &[4.0f32, 2.0], [2])?);
    let same = |found: Tensor, want: [f32; 2]| Ok::<_, crate::Error>(found.to_vec::<f32>()? == want);
    demand!(same((&a + &b)?, [5.0, -4.0])?, "a + b");
    demand!(same((&a - &b)?, [-3.0, -8.0])?, "a - b");
    demand!(same(((&a * &b)? / &b)?, [1.0, -6.0])?, "a b / b");
    demand!(same((-&a)?, [-1.0, 6.0])?, "-a");
    demand!(same((1 - &a)?, [0.0, 7.0])?, "1 - a");
    demand!(same((2.5 * (&a + 1)?)?, [5.0, -12.5])?, "2.5 (a + 1)");
    demand!(same((12.0 / &a)?, [12.0, -2.0])?, "12 / a");
    let whole = a.cast(DType::I32)?;
    demand!((&whole % 4)?.to_vec::<i32>()? == [1, -2], "what is left by 4");
    demand!((&whole * 0.5).is_err() && (&a + &whole).is_err(), "what does not fit was computed");
    Ok(Ok(()))
}
