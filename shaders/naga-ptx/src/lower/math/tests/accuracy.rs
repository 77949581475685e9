//! The errors of the float functions against f64: 2^20 inputs of f32, every one of f16; f64 against the host's.
//!
//! `--nocapture` prints the table that `math/mod.rs` quotes.

use super::eval::{from_f64, to_f64};
use super::*;

type Function = fn(f64) -> f64;

/// Inputs of each f32 function: half of them random bits, half dense in the interval where it is at home.
const COUNT: usize = 1 << 20;

/// |got - want| in units of the last place of `want` as a `ty`.
fn ulps(ty: Ty, got: u64, want: f64) -> f64 {
    let got = to_f64(ty, got);
    let (precision, least, greatest) = match ty {
        Ty::F16 => (11, -24, 16),
        Ty::F32 => (24, -149, 128),
        _ => (53, -1074, 1024),
    };
    if got == want || got.is_nan() && want.is_nan() {
        return 0.0;
    }
    let limit = 2f64.powi(greatest - 1) * 2.0;
    // What rounds to infinity may be it, and beside it counts as the power of two that comes next.
    let clamp = |x: f64| if x.abs() > limit { limit.copysign(x) } else { x };
    let (got, want) = if ty == Ty::F64 { (got, want) } else { (clamp(got), clamp(want)) };
    if got == want {
        return 0.0;
    }
    let exponent = (want.abs().log2().floor() as i32).clamp(-2000, greatest - 1); // 0 has no logarithm
    let unit = (exponent - precision + 1).max(least);
    let distance = (got - want).abs();
    if distance.is_nan() { f64::INFINITY } else { distance * 2f64.powi(-unit / 2) * 2f64.powi(-unit - -unit / 2) }
}

fn inputs(low: f64, high: f64, count: usize) -> Vec<u64> {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let bits = (0..count / 2).map(|_| random.bits() & 0xffff_ffff).collect::<Vec<_>>();
    let dense = (0..count / 2).map(|_| from_f64(Ty::F32, random.within(low, high)));
    bits.into_iter().chain(dense).collect()
}

/// The largest error of one function over its inputs, which NaN leaves out.
struct Worst {
    ulps: f64,
    at: f64,
}

fn worst(ty: Ty, x: &[u64], got: &[u64], want: impl Fn(f64) -> f64) -> Worst {
    x.iter().zip(got).fold(Worst { ulps: 0.0, at: 0.0 }, |worst, (&x, &got)| {
        let x = to_f64(ty, x);
        let ulps = ulps(ty, got, want(x));
        if ulps > worst.ulps { Worst { ulps, at: x } } else { worst }
    })
}

struct Case {
    fun: Mf,
    want: Function,
    /// Where it is measured densely.
    dense: (f64, f64),
    /// Largest errors, ULP: with correctly rounded approximations, and with the worst that is documented (where
    /// rounding to the coarser side of a power of two may add half an ULP).
    limits: (f64, f64),
}

const fn case(fun: Mf, want: Function, dense: (f64, f64), limits: (f64, f64)) -> Case {
    Case { fun, want, dense, limits }
}

const CASES: [Case; 23] = [
    case(Mf::Exp, f64::exp, (-104.0, 89.0), (1.2, 3.0)),
    case(Mf::Exp2, f64::exp2, (-150.0, 128.0), (0.51, 2.5)),
    case(Mf::Log, f64::ln, (0.4, 2.5), (1.5, 1.5)),
    case(Mf::Log2, f64::log2, (0.4, 2.5), (2.0, 2.0)),
    case(Mf::Sin, f64::sin, (-32768.0, 32768.0), (2.0, 2.0)),
    case(Mf::Cos, f64::cos, (-32768.0, 32768.0), (2.0, 2.0)),
    case(Mf::Tan, f64::tan, (-32768.0, 32768.0), (3.0, 3.0)),
    case(Mf::Asin, f64::asin, (-1.0, 1.0), (2.0, 2.0)),
    case(Mf::Acos, f64::acos, (-1.0, 1.0), (2.0, 2.0)),
    case(Mf::Atan, f64::atan, (-4.0, 4.0), (2.0, 2.0)),
    case(Mf::Sinh, f64::sinh, (-4.0, 4.0), (2.0, 5.0)),
    case(Mf::Cosh, f64::cosh, (-4.0, 4.0), (2.0, 3.5)),
    case(Mf::Tanh, f64::tanh, (-4.0, 4.0), (2.0, 2.5)),
    case(Mf::Asinh, f64::asinh, (-4.0, 4.0), (3.0, 3.0)),
    case(Mf::Acosh, f64::acosh, (1.0, 4.0), (3.0, 3.0)),
    case(Mf::Atanh, f64::atanh, (-1.0, 1.0), (3.0, 3.0)),
    case(Mf::Sqrt, f64::sqrt, (0.0, 4.0), (0.5, 0.5)),
    case(Mf::InverseSqrt, |x| 1.0 / x.sqrt(), (0.0, 4.0), (0.5, 2.0)),
    case(Mf::Radians, f64::to_radians, (-360.0, 360.0), (1.5, 1.5)),
    case(Mf::Degrees, f64::to_degrees, (-7.0, 7.0), (1.5, 1.5)),
    case(Mf::Fract, |x| x - x.floor(), (-4.0, 4.0), (0.5, 0.5)),
    case(Mf::Round, f64::round_ties_even, (-4.0, 4.0), (0.0, 0.0)),
    case(Mf::QuantizeToF16, |x| half::f16::from_f64(x).to_f64(), (-4.0, 4.0), (0.0, 0.0)),
];

#[test]
fn f32_functions_are_within_their_bounds() {
    let mut faults = Vec::new();
    for Case { fun, want, dense, limits } in &CASES {
        for off in Off::ALL {
            // Those without approximations are the same in all directions.
            if off != Off::Not && limits.0 == limits.1 {
                continue;
            }
            let x = inputs(dense.0, dense.1, if off == Off::Not { COUNT } else { COUNT / 4 });
            let got = call(*fun, &[scalars(F32, x.clone())], off).remove(0);
            let worst = worst(Ty::F32, &x, &got, want);
            eprintln!("{fun:?} {off:?}: {:.3} ULP at {:e}", worst.ulps, worst.at);
            if worst.ulps > if off == Off::Not { limits.0 } else { limits.1 } {
                faults.push(format!("{fun:?}, approximations {off:?}: {:.3} ULP at {:e}", worst.ulps, worst.at));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn f16_functions_are_rounded_once() {
    let x: Vec<u64> = (0..65536).collect();
    let mut faults = Vec::new();
    for Case { fun, want, .. } in CASES.iter().filter(|case| case.fun != Mf::QuantizeToF16) {
        for off in Off::ALL {
            let got = call(*fun, &[scalars(F16, x.clone())], off).remove(0);
            let worst = worst(Ty::F16, &x, &got, want);
            eprintln!("f16 {fun:?} {off:?}: {:.4} ULP at {:e}", worst.ulps, worst.at);
            // Logarithms near 1 have the absolute error of lg2.approx, 2^-22: at 1 itself, should it be off there, four
            // of the least halves, where WGSL allows 2^-7.
            let limit = if matches!(fun, Mf::Log | Mf::Log2) { 4.0 } else { 0.51 };
            if worst.ulps > limit {
                faults.push(format!("{fun:?}, approximations {off:?}: {:.4} ULP at {:e}", worst.ulps, worst.at));
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

/// Pairs for functions of two arguments: all magnitudes, and the usual ones.
fn pairs(count: usize) -> (Vec<u64>, Vec<u64>) {
    let mut random = Random(0x1234_5678_9abc_def1);
    (0..count)
        .map(|i| match i % 5 {
            4 => {
                // Powers of all sizes, of what is near 1 and what is not.
                let x: f64 = random.within(0.0, 2.0);
                (from_f64(Ty::F32, x), from_f64(Ty::F32, random.within(-150.0, 128.0) / x.log2()))
            }
            0 => (random.bits() & 0xffff_ffff, random.bits() & 0xffff_ffff),
            1 => (from_f64(Ty::F32, random.within(0.0, 4.0)), from_f64(Ty::F32, random.within(-60.0, 60.0))),
            2 => (from_f64(Ty::F32, random.within(0.99, 1.01)), from_f64(Ty::F32, random.within(-1e4, 1e4))),
            _ => (from_f64(Ty::F32, random.within(-9.0, 9.0)), from_f64(Ty::F32, random.within(-9.0, 9.0).round())),
        })
        .unzip()
}

#[test]
fn f32_functions_of_two_are_within_their_bounds() {
    type Binary = fn(f64, f64) -> f64;
    let cases: [(Mf, Binary, (f64, f64)); 4] = [
        (Mf::Pow, f64::powf, (6.5, 9.0)),
        (Mf::Atan2, f64::atan2, (2.5, 2.5)),
        (Mf::Step, |edge, x| f64::from(u8::from(edge <= x)), (0.0, 0.0)),
        (Mf::Min, |x, y| if x.is_nan() || y < x { y } else { x }, (0.0, 0.0)),
    ];
    let (x, y) = pairs(COUNT);
    let values = |bits: &[u64]| bits.iter().map(|&x| to_f64(Ty::F32, x)).collect::<Vec<_>>();
    let (xs, ys) = (values(&x), values(&y));
    for (fun, want, limits) in cases {
        for off in Off::ALL {
            let got = call(fun, &[scalars(F32, x.clone()), scalars(F32, y.clone())], off).remove(0);
            let errors = (0..COUNT).map(|i| (ulps(Ty::F32, got[i], want(xs[i], ys[i])), i));
            let (worst, i) = errors.fold((0.0, 0), |a, b| if b.0 > a.0 { b } else { a });
            eprintln!("{fun:?} {off:?}: {worst:.3} ULP at {:e}, {:e}", xs[i], ys[i]);
            let limit = if off == Off::Not { limits.0 } else { limits.1 };
            assert!(worst <= limit, "{fun:?} {off:?}: {worst:.3} ULP at {:e}, {:e}", xs[i], ys[i]);
        }
    }
}

/// Where a device was found to be worst, which the inputs above may miss; the figures that `math/mod.rs` quotes.
#[test]
fn f32_functions_where_they_are_worst() {
    let cases: [(Mf, Function, f32, f64); 7] = [
        (Mf::Sin, f64::sin, 2.6261389e35, 1.52),
        (Mf::Cos, f64::cos, 1.4911318e4, 1.49),
        (Mf::Tan, f64::tan, 2.6328115e4, 2.69),
        (Mf::Tan, f64::tan, 1.8210919, 2.69),
        (Mf::Asinh, f64::asinh, -0.3029231, 1.86),
        (Mf::Acosh, f64::acosh, 1.0019444, 2.03),
        (Mf::Atanh, f64::atanh, 0.16420421, 2.06),
    ];
    for (fun, want, x, limit) in cases {
        let got = call1(fun, &[scalars(F32, f32s(&[x]))])[0];
        let error = ulps(Ty::F32, got, want(f64::from(x)));
        eprintln!("{fun:?}({x:e}): {error:.3} ULP");
        assert!(error > limit - 0.4 && error <= limit, "{fun:?}({x:e}): {error:.3} ULP");
    }
}

#[test]
fn f64_functions_are_close_to_the_hosts() {
    let mut random = Random(77);
    let x: Vec<u64> = (0..1 << 17)
        .map(|i| match i % 6 {
            0 => random.bits(),
            1 => random.within(-745.0, 710.0).to_bits(),
            2 => random.within(0.3, 3.0).to_bits(),
            3 => random.within(-1.0, 1.0).to_bits(),
            4 => (random.within(-1.0, 1.0) * 2f64.powf(random.within(-40.0, 4.0))).to_bits(),
            _ => random.within(-1e6, 1e6).to_bits(),
        })
        .collect();
    let cases: [(Mf, Function, f64); 17] = [
        (Mf::Exp, f64::exp, 2.0),
        (Mf::Exp2, f64::exp2, 2.0),
        (Mf::Log, f64::ln, 2.0),
        (Mf::Log2, f64::log2, 3.0),
        (Mf::Sin, f64::sin, 2.0),
        (Mf::Cos, f64::cos, 2.0),
        (Mf::InverseSqrt, |x| 1.0 / x.sqrt(), 1.0),
        (Mf::Tan, f64::tan, 3.0),
        (Mf::Asin, f64::asin, 3.0),
        (Mf::Acos, f64::acos, 3.0),
        (Mf::Atan, f64::atan, 3.0),
        (Mf::Sinh, f64::sinh, 4.0),
        (Mf::Cosh, f64::cosh, 4.0),
        (Mf::Tanh, f64::tanh, 4.0),
        (Mf::Asinh, libm::asinh, 4.0),
        (Mf::Acosh, |x| if x < 1.0 { f64::NAN } else { libm::acosh(x) }, 4.0),
        (Mf::Atanh, libm::atanh, 4.0),
    ];
    for (fun, want, limit) in cases {
        let got = call1(fun, &[scalars(F64, x.clone())]);
        let worst = worst(Ty::F64, &x, &got, want);
        eprintln!("f64 {fun:?}: {:.3} ULP at {:e}", worst.ulps, worst.at);
        assert!(worst.ulps <= limit, "{fun:?}: {:.3} ULP at {:e}", worst.ulps, worst.at);
    }
    let y: Vec<u64> = x.iter().rev().copied().collect();
    let got = call1(Mf::Atan2, &[scalars(F64, y.clone()), scalars(F64, x.clone())]);
    let errors = (0..x.len()).map(|i| ulps(Ty::F64, got[i], f64::from_bits(y[i]).atan2(f64::from_bits(x[i]))));
    let worst = errors.fold(0.0, f64::max);
    eprintln!("f64 Atan2: {worst:.3} ULP");
    assert!(worst <= 3.0, "atan2: {worst:.3} ULP");
    let y: Vec<u64> = (0..x.len()).map(|_| random.within(-200.0, 200.0).to_bits()).collect();
    let got = call1(Mf::Pow, &[scalars(F64, x.clone()), scalars(F64, y.clone())]);
    let errors = (0..x.len()).map(|i| ulps(Ty::F64, got[i], f64::from_bits(x[i]).powf(f64::from_bits(y[i]))));
    let worst = errors.fold(0.0, f64::max);
    eprintln!("f64 Pow: {worst:.3} ULP");
    assert!(worst <= 16.0, "pow: {worst:.3} ULP");
}

/// Beyond 2^15 the sine still is one.
#[test]
fn sin_and_cos_of_the_largest_floats_are_right() {
    let mut random = Random(5);
    let x: Vec<u64> = (0..1 << 18).map(|_| 0x4700_0000 + random.bits() % (0x7f80_0000 - 0x4700_0000)).collect();
    for (fun, want) in [(Mf::Sin, f64::sin as Function), (Mf::Cos, f64::cos), (Mf::Tan, f64::tan)] {
        let got = call1(fun, &[scalars(F32, x.clone())]);
        let worst = worst(Ty::F32, &x, &got, want);
        eprintln!("{fun:?} from 2^15 to the end: {:.3} ULP at {:e}", worst.ulps, worst.at);
        assert!(worst.ulps <= 3.0, "{fun:?}: {:.3} ULP at {:e}", worst.ulps, worst.at);
    }
}
