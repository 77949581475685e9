//! Functions that are made of other steps, and operators: their values against float64, at ordinary numbers and at the edges.

use super::{Answer, Test, demand};
use crate::ops::SortOrder;
use crate::{DType, Device, Result, Scalar, Tensor};

pub(super) const ROWS: &[(&str, Test)] = &[
    ("functions made of steps are those of float64", values),
    ("kinds of numbers are told apart", kinds),
    ("operators are their methods", operators),
    ("functions have C's values at zeros, infinities and the ends of domains", edges),
    ("the gamma function's logarithm and its derivative are those of mpmath", gamma),
    ("remainders and quotients are exact whatever the quotient", remainders),
    ("neighbours are the next numbers of their dtype", neighbours),
    ("bits of integers are counted and moved within their dtype", bits),
    ("integers of every width keep their ends", ends_of_integers),
];

/// Units in the last place that a function of a few steps may be off.
const ULPS: f64 = 24.0;
const INFINITY: f32 = f32::INFINITY;

/// A function's name, what a device makes of x, and what float64 makes of it.
type Case = (&'static str, fn(&Tensor) -> Result<Tensor>, fn(f64) -> f64);

const CASES: [Case; 10] = [
    ("expm1", |x| x.expm1(), f64::exp_m1),
    ("log1p", |x| x.log1p(), f64::ln_1p),
    ("softplus", |x| x.softplus(), |x| x.max(0.0) + (-x.abs()).exp().ln_1p()),
    ("elu", |x| x.elu(1.5), |x| if x > 0.0 { x } else { 1.5 * x.exp_m1() }),
    ("leaky_relu", |x| x.leaky_relu(0.25), |x| if x > 0.0 { x } else { 0.25 * x }),
    ("hardsigmoid", |x| x.hardsigmoid(), |x| (x + 3.0).clamp(0.0, 6.0) / 6.0),
    ("hardswish", |x| x.hardswish(), |x| x * ((x + 3.0).clamp(0.0, 6.0) / 6.0)),
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
            let around = if matches!(name, "hardsigmoid" | "hardswish" | "softplus" | "mish") {
                f64::from(f32::EPSILON)
            } else {
                0.0
            };
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

/// Same value, and same sign of zero; 1e-6 apart where that is no number of f32.
fn is_like(found: f32, want: f64) -> bool {
    if want.is_nan() {
        return found.is_nan();
    }
    let near = f64::from(found) == want || (f64::from(found) - want).abs() <= 1e-6 * want.abs();
    near && found.is_sign_negative() == want.is_sign_negative()
}

fn edges(device: &Device) -> Result<Answer> {
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};
    const INF: f64 = f64::INFINITY;
    const NAN: f64 = f64::NAN;
    type One = (&'static str, fn(&Tensor) -> Result<Tensor>, &'static [(f32, f64)]);
    let of_one: [One; 13] = [
        ("acos", |x| x.acos(), &[(1.0, 0.0), (-1.0, PI), (0.0, FRAC_PI_2), (1.0 + f32::EPSILON, NAN)]),
        ("acosh", |x| x.acosh(), &[(1.0, 0.0), (INFINITY, INF), (0.999, NAN), (-1e30, NAN)]),
        ("asin", |x| x.asin(), &[(-0.0, -0.0), (1.0, FRAC_PI_2), (-1.0, -FRAC_PI_2), (-1.5, NAN)]),
        ("asinh", |x| x.asinh(), &[(-0.0, -0.0), (INFINITY, INF), (-INFINITY, -INF), (3e38, 89.289_993_004_8)]),
        ("atan", |x| x.atan(), &[(-0.0, -0.0), (INFINITY, FRAC_PI_2), (-INFINITY, -FRAC_PI_2), (1.0, FRAC_PI_4)]),
        ("atanh", |x| x.atanh(), &[(-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN), (INFINITY, NAN)]),
        ("cbrt", |x| x.cbrt(), &[(-0.0, -0.0), (-8.0, -2.0), (1e30, 1e10), (-INFINITY, -INF)]),
        ("cosh", |x| x.cosh(), &[(-0.0, 1.0), (-INFINITY, INF), (89.2, 2.741_804_372_9e38), (90.0, INF)]),
        ("erfc", |x| x.erfc(), &[(-0.0, 1.0), (INFINITY, 0.0), (-INFINITY, 2.0), (9.0, 4.137_031_7e-37)]),
        ("erfinv", |x| x.erfinv(), &[(-0.0, -0.0), (1.0, INF), (-1.0, -INF), (1.5, NAN), (0.5, 0.476_936_276_2)]),
        (
            "lgamma",
            |x| x.lgamma(),
            &[(0.0, INF), (-3.0, INF), (-INFINITY, INF), (INFINITY, INF), (1.0, 0.0), (2.0, 0.0)],
        ),
        ("sinh", |x| x.sinh(), &[(-0.0, -0.0), (-INFINITY, -INF), (-89.2, -2.741_804_372_9e38), (-90.0, -INF)]),
        ("tan", |x| x.tan(), &[(-0.0, -0.0), (INFINITY, NAN), (1e-20, 1e-20), (1e30, 1.293_586_082_7)]),
    ];
    for (name, on_device, cases) in of_one {
        let numbers: Vec<f32> = cases.iter().map(|case| case.0).chain([f32::NAN]).collect();
        let found = on_device(&Tensor::from_slice(device, &numbers, [numbers.len() as u64])?)?.to_vec::<f32>()?;
        for ((&x, &found), want) in numbers.iter().zip(&found).zip(cases.iter().map(|case| case.1).chain([NAN])) {
            demand!(is_like(found, want), "{name}({x}) is {found}, not {want}");
        }
    }
    type Two = (&'static str, fn(&Tensor, &Tensor) -> Result<Tensor>, &'static [(f32, f32, f64)]);
    let of_two: [Two; 3] = [
        (
            "atan2",
            |y, x| y.atan2(x),
            &[
                (0.0, 0.0, 0.0),
                (-0.0, 0.0, -0.0),
                (0.0, -0.0, PI),
                (-0.0, -2.0, -PI),
                (2.0, -0.0, FRAC_PI_2),
                (INFINITY, INFINITY, FRAC_PI_4),
                (-INFINITY, -INFINITY, -3.0 * FRAC_PI_4),
                (1.0, -INFINITY, PI),
                (-1.0, INFINITY, -0.0),
                (-INFINITY, 1.0, -FRAC_PI_2),
                (1e-30, 1e-30, FRAC_PI_4),
                (3e38, -3e38, 3.0 * FRAC_PI_4),
            ],
        ),
        ("copysign", |a, b| a.copysign(b), &[(1.5, -0.0, -1.5), (-INFINITY, 2.0, INF), (-0.0, 1.0, 0.0)]),
        (
            "hypot",
            |a, b| a.hypot(b),
            &[
                (3e30, -4e30, 5e30),
                (3e-30, 4e-30, 5e-30),
                (-0.0, -0.0, 0.0),
                (-INFINITY, f32::NAN, INF),
                (3e38, 3e38, INF),
            ],
        ),
    ];
    for (name, on_device, cases) in of_two {
        let side = |pick: fn(&(f32, f32, f64)) -> f32| -> Result<Tensor> {
            let numbers: Vec<f32> = cases.iter().map(pick).collect();
            Tensor::from_slice(device, &numbers, [numbers.len() as u64])
        };
        let found = on_device(&side(|case| case.0)?, &side(|case| case.1)?)?.to_vec::<f32>()?;
        for (&(a, b, want), &found) in cases.iter().zip(&found) {
            demand!(is_like(found, want), "{name}({a}, {b}) is {found}, not {want}");
        }
    }
    Ok(Ok(()))
}

fn gamma(device: &Device) -> Result<Answer> {
    // mpmath 1.3, 30 digits.
    let digamma = [
        (0.1f32, -10.423_754_940_411_076),
        (0.5, -1.963_510_026_021_423_5),
        (1.0, -0.577_215_664_901_532_9),
        (1.5, 0.036_489_973_978_576_52),
        (2.0, 0.422_784_335_098_467_1),
        (10.0, 2.251_752_589_066_721),
        (1000.0, 6.907_255_195_648_812),
        (-0.5, 0.036_489_973_978_576_52),
        (-2.5, 1.103_156_640_645_243),
    ];
    let lgamma = [
        (-2.5f32, -0.056_243_716_497_674_05),
        (0.1, 2.252_712_651_734_206),
        (3.5, 1.200_973_602_347_074_3),
        (9.0, 10.604_602_902_745_25),
    ];
    type Row<'a> = (&'a str, fn(&Tensor) -> Result<Tensor>, &'a [(f32, f64)]);
    let rows: [Row<'_>; 2] = [("digamma", |x| x.digamma(), &digamma), ("lgamma", |x| x.lgamma(), &lgamma)];
    for (name, on_device, cases) in rows {
        let numbers: Vec<f32> = cases.iter().map(|case| case.0).collect();
        let found = on_device(&Tensor::from_slice(device, &numbers, [numbers.len() as u64])?)?.to_vec::<f32>()?;
        for (&(x, want), &found) in cases.iter().zip(&found) {
            let off = (f64::from(found) - want).abs();
            demand!(off <= 4e-6 * (1.0 + want.abs()), "{name}({x}) is {found}, not {want}");
        }
    }
    Ok(Ok(()))
}

fn remainders(device: &Device) -> Result<Answer> {
    // Far quotients, rounded quotients that are one more than the quotient, subnormals, and pairs of all sizes.
    let mut pairs = vec![
        (1e30f32, 3.0f32),
        (3e38, 1e-45),
        (-3e38, 1.1e-38),
        (16_777_215.0, 0.1),
        (1.0, 0.1),
        (-1e-45, 1.0),
        (5.0, -INFINITY),
    ];
    for i in 1..600u32 {
        let (a, b) = (
            f32::from_bits(i.wrapping_mul(0x9e37_79b9) & 0xff7f_ffff),
            f32::from_bits(i.wrapping_mul(0x85eb_ca6b) & 0xff7f_ffff),
        );
        pairs.extend([(a, b), (b * 1e3, b / 7.0)]);
    }
    pairs.retain(|(a, b)| a.is_finite() && *b != 0.0 && !b.is_nan());
    let side = |pick: fn(&(f32, f32)) -> f32| {
        let numbers: Vec<f32> = pairs.iter().map(pick).collect();
        Tensor::from_slice(device, &numbers, [numbers.len() as u64])
    };
    let (a, b) = (side(|pair| pair.0)?, side(|pair| pair.1)?);
    let (fmod, modulo, quotient) =
        (a.fmod(&b)?.to_vec::<f32>()?, a.remainder(&b)?.to_vec::<f32>()?, a.floor_divide(&b)?.to_vec::<f32>()?);
    for (i, &(a, b)) in pairs.iter().enumerate() {
        let want = a % b;
        // What may be flushed is not what is asked here.
        if a.is_subnormal() || b.is_subnormal() || want.is_subnormal() {
            continue;
        }
        demand!(fmod[i].to_bits() == want.to_bits(), "{a:e} fmod {b:e} is {:e}, not {want:e}", fmod[i]);
        let below = want != 0.0 && (want < 0.0) != (b < 0.0);
        let moved = if below { want + b } else { want.abs().copysign(b) };
        demand!(modulo[i] == moved, "{a:e} remainder {b:e} is {:e}, not {moved:e}", modulo[i]);
        // Exact in f64 wherever it is in f32.
        let whole = ((f64::from(a) - f64::from(want)) / f64::from(b)).round() - f64::from(u8::from(below));
        if whole.abs() <= 16_777_216.0 {
            demand!(f64::from(quotient[i]) == whole, "{a:e} floor_divide {b:e} is {:e}, not {whole:e}", quotient[i]);
        }
    }
    demand!((&a % 2.5)?.to_vec::<f32>()? == pairs.iter().map(|pair| pair.0 % 2.5).collect::<Vec<_>>(), "% of a number");
    let whole = Tensor::from_slice(device, &[7i32, -7, i32::MIN, 5], [4])?;
    let by = Tensor::from_slice(device, &[-2i32, 2, -1, 0], [4])?;
    demand!(whole.floor_divide(&by)?.to_vec::<i32>()? == [-4, -4, i32::MIN, 5], "quotients of integers");
    demand!(whole.remainder(&by)?.to_vec::<i32>()? == [-1, 1, 0, 0], "remainders of integers");
    Ok(Ok(()))
}

fn neighbours(device: &Device) -> Result<Answer> {
    let (from, to) =
        (vec![1.0f32, 1.0, 0.0, 65504.0, 2.0, -2.0], vec![2.0f32, 0.0, 0.0, INFINITY, -INFINITY, -INFINITY]);
    let (a, b) = (Tensor::from_slice(device, &from, [6])?, Tensor::from_slice(device, &to, [6])?);
    let next = |dtype: DType| a.cast(dtype)?.nextafter(&b.cast(dtype)?)?.cast(DType::F32)?.to_vec::<f32>();
    let found = next(DType::F32)?;
    let want =
        [1.0 + f32::EPSILON, 1.0 - f32::EPSILON / 2.0, 0.0, 65504.004, 2.0 - f32::EPSILON, -2.0 - 2.0 * f32::EPSILON];
    demand!(found == want, "of f32: {found:?}");
    let found = next(DType::F16)?;
    demand!(found == [1.000_976_6, 0.999_511_7, 0.0, INFINITY, 1.999_023_4, -2.001_953_1], "of f16: {found:?}");
    let found = next(DType::BF16)?;
    demand!(found == [1.007_812_5, 0.996_093_75, 0.0, 66048.0, 1.992_187_5, -2.015_625], "of bf16: {found:?}");
    Ok(Ok(()))
}

fn bits(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[0i8, -1, 12, -128], [4])?;
    demand!(x.count_ones()?.to_vec::<i8>()? == [0, 8, 2, 1], "bits that are set");
    demand!(x.leading_zeros()?.to_vec::<i8>()? == [8, 0, 4, 0], "zeros from above");
    demand!(x.trailing_zeros()?.to_vec::<i8>()? == [8, 0, 2, 7], "zeros from below");
    let by = Tensor::from_slice(device, &[1i8, 7, 5, 9], [4])?;
    demand!(x.shl(&by)?.to_vec::<i8>()? == [0, -128, -128, 0], "moved up");
    demand!(x.shr(&by)?.to_vec::<i8>()? == [0, -1, 0, -1], "moved down");
    let wide = Tensor::from_slice(device, &[1u32, u32::MAX], [2])?;
    demand!(wide.shl_scalar(31)?.to_vec::<u32>()? == [1 << 31, 1 << 31], "moved up by a number");
    demand!(
        (wide.shr_scalar(32)?.to_vec::<u32>()?, wide.leading_zeros()?.to_vec::<u32>()?) == (vec![0, 0], vec![31, 0]),
        "of u32"
    );
    Ok(Ok(()))
}

/// Written, read, and where the device computes in them wrapped, ordered and converted. The largest u64 is neither an i64 nor an f64.
fn ends_of_integers(device: &Device) -> Result<Answer> {
    for dtype in DType::ALL {
        let Some((least, most)) = dtype.integer_range() else { continue };
        let bytes = |numbers: &[i128]| -> Vec<u8> {
            numbers.iter().flat_map(|&x| Scalar::from_integer(x).to_le_bytes(dtype)).collect()
        };
        let held = bytes(&[least, least + 1, most - 1, most]);
        let x = Tensor::from_bytes(device, dtype, &held, [4])?;
        demand!(x.to_bytes()? == held, "{dtype} comes back as {:?}", x.to_bytes()?);
        demand!(x.view_as(DType::U8)?.to_bytes()? == held, "{dtype} seen as bytes");
        if !device.supports(dtype) {
            continue;
        }
        let is = |found: &Tensor, numbers: &[i128]| Ok::<_, crate::Error>(found.to_bytes()? == bytes(numbers));
        demand!(is(&x.add_scalar(1)?, &[least + 1, least + 2, most, least])?, "{dtype} wraps");
        let sorted = x.sort(0, SortOrder::Descending)?;
        demand!(is(&sorted.values, &[most, most - 1, least + 1, least])?, "{dtype} in order");
        demand!(sorted.indices.to_vec::<u32>()? == [3, 2, 1, 0], "places of {dtype}");
        demand!(is(&x.max(..)?, &[most])? && is(&x.min(..)?, &[least])?, "extrema of {dtype}");
        demand!(x.argmin(..)?.to_vec::<u32>()? == [0], "the place of the least {dtype}");
        let floats = x.cast(DType::F32)?;
        let wanted = [least, least + 1, most - 1, most].map(|x| x as f32);
        demand!(floats.to_vec::<f32>()? == wanted, "{dtype} as f32: {:?}", floats.to_vec::<f32>()?);
        let back = (&floats * 4.0)?.cast(dtype)?;
        demand!(is(&back.max(..)?, &[most])? && is(&back.min(..)?, &[least])?, "{dtype} of what is beyond it");
    }
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
    let truth = Tensor::from_slice(device, &[true, false], [2])?;
    demand!(truth.is_finite()?.to_vec::<bool>()? == [true; 2], "bools are finite");
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
