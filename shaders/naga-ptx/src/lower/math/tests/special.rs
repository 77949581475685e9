//! Zeros of either sign, infinities, NaNs and subnormals, and what the operators do at their edges.

use naga::{BinaryOperator as Bo, RelationalFunction as Rf, UnaryOperator};

use super::eval::{from_f64, to_f64};
use super::*;

const INF: f64 = f64::INFINITY;
const NAN: f64 = f64::NAN;
/// The least f32.
const TINY: f64 = 1.401298464324817e-45;

/// Equal with the sign of zeros; NaN is NaN.
fn same(x: f64, y: f64) -> bool {
    x.is_nan() && y.is_nan() || x.to_bits() == y.to_bits()
}

fn bits(scalar: Scalar, values: &[f64]) -> Vec<u64> {
    values.iter().map(|&x| from_f64(ty_of(scalar).unwrap(), x)).collect()
}

fn check_unary(scalar: Scalar, fun: Mf, cases: &[(f64, f64)]) {
    let x: Vec<f64> = cases.iter().map(|c| c.0).collect();
    let got = call1(fun, &[scalars(scalar, bits(scalar, &x))]);
    for (&(x, want), got) in cases.iter().zip(got) {
        let got = to_f64(ty_of(scalar).unwrap(), got);
        assert!(same(got, want), "{fun:?}({x:e}) of {scalar:?} is {got:e}, not {want:e}");
    }
}

#[test]
fn special_values_of_functions_of_one() {
    use std::f64::consts::{FRAC_PI_2, PI};
    let f32 = |x: f64| f64::from(x as f32);
    let odd = [(0.0, 0.0), (-0.0, -0.0), (NAN, NAN)];
    let cases: Vec<(Mf, Vec<(f64, f64)>)> = vec![
        (Mf::Exp, vec![(0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (NAN, NAN), (1e4, INF), (-1e4, 0.0)]),
        (Mf::Exp2, vec![(0.0, 1.0), (INF, INF), (-INF, 0.0), (NAN, NAN), (10.0, 1024.0)]),
        (Mf::Log, vec![(1.0, 0.0), (0.0, -INF), (-0.0, -INF), (INF, INF), (-1.0, NAN), (-INF, NAN), (NAN, NAN)]),
        (Mf::Log2, vec![(1.0, 0.0), (0.0, -INF), (8.0, 3.0), (INF, INF), (-1.0, NAN), (NAN, NAN)]),
        (Mf::Sin, [&odd[..], &[(INF, NAN), (-INF, NAN)]].concat()),
        (Mf::Cos, vec![(0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN)]),
        (Mf::Sqrt, vec![(4.0, 2.0), (-0.0, -0.0), (INF, INF), (-1.0, NAN), (NAN, NAN)]),
        (Mf::InverseSqrt, vec![(4.0, 0.5), (0.0, INF), (INF, 0.0), (-1.0, NAN), (NAN, NAN)]),
        (Mf::Sign, vec![(0.0, 0.0), (-0.0, -0.0), (-3.0, -1.0), (INF, 1.0), (-INF, -1.0)]),
        (Mf::Round, vec![(0.5, 0.0), (1.5, 2.0), (2.5, 2.0), (-0.5, -0.0), (-1.5, -2.0), (INF, INF)]),
        (Mf::Floor, vec![(-0.5, -1.0), (0.5, 0.0), (-0.0, -0.0)]),
        (Mf::Ceil, vec![(-0.5, -0.0), (0.5, 1.0)]),
        (Mf::Trunc, vec![(-1.5, -1.0), (1.5, 1.0), (-0.5, -0.0)]),
        (Mf::Saturate, vec![(-1.0, 0.0), (0.25, 0.25), (2.0, 1.0), (INF, 1.0), (-INF, 0.0)]),
        (Mf::Abs, vec![(-0.0, 0.0), (-INF, INF), (-2.0, 2.0)]),
    ];
    for (fun, cases) in &cases {
        for scalar in [F16, F32, F64] {
            check_unary(scalar, *fun, cases);
        }
    }
    let short: Vec<(Mf, Vec<(f64, f64)>)> = vec![
        (Mf::Exp, vec![(f32(-104.5), 0.0), (-103.5, TINY), (89.0, INF)]),
        (Mf::Exp2, vec![(-149.0, TINY), (127.0, 2f64.powi(127))]),
        (Mf::Log2, vec![(TINY, -149.0)]),
        (Mf::Sin, vec![(TINY, TINY), (-TINY, -TINY)]),
        (Mf::Tan, [&odd[..], &[(INF, NAN), (TINY, TINY), (-TINY, -TINY)]].concat()),
        (Mf::Asin, [&odd[..], &[(1.0, f32(FRAC_PI_2)), (-1.0, f32(-FRAC_PI_2)), (1.5, NAN), (TINY, TINY)]].concat()),
        (Mf::Acos, vec![(1.0, 0.0), (-1.0, f32(PI)), (0.0, f32(FRAC_PI_2)), (1.5, NAN), (-1.5, NAN), (NAN, NAN)]),
        (Mf::Atan, [&odd[..], &[(INF, f32(FRAC_PI_2)), (-INF, f32(-FRAC_PI_2)), (TINY, TINY)]].concat()),
        (Mf::Sinh, [&odd[..], &[(INF, INF), (-INF, -INF), (90.0, INF), (-TINY, -TINY)]].concat()),
        (Mf::Cosh, vec![(0.0, 1.0), (INF, INF), (-INF, INF), (NAN, NAN), (90.0, INF)]),
        (Mf::Tanh, [&odd[..], &[(INF, 1.0), (-INF, -1.0), (20.0, 1.0), (TINY, TINY)]].concat()),
        (Mf::Asinh, [&odd[..], &[(INF, INF), (-INF, -INF), (-TINY, -TINY)]].concat()),
        (Mf::Acosh, vec![(1.0, 0.0), (INF, INF), (0.5, NAN), (-5.0, NAN), (-INF, NAN), (NAN, NAN)]),
        (Mf::Atanh, [&odd[..], &[(1.0, INF), (-1.0, -INF), (1.5, NAN), (-INF, NAN), (TINY, TINY)]].concat()),
    ];
    for (fun, cases) in &short {
        check_unary(F32, *fun, cases);
    }
}

#[test]
fn special_values_of_functions_of_two() {
    use std::f64::consts::{FRAC_PI_2, FRAC_PI_4, PI};
    let pow = [
        (2.0, 0.0, 1.0),
        (NAN, 0.0, 1.0),
        (0.0, 0.0, 1.0),
        (1.0, NAN, 1.0),
        (1.0, INF, 1.0),
        (0.0, 2.0, 0.0),
        (0.0, -2.0, INF),
        (-0.0, 3.0, -0.0),
        (-0.0, -3.0, -INF),
        (INF, 2.0, INF),
        (INF, -2.0, 0.0),
        (-INF, 3.0, -INF),
        (-INF, 2.0, INF),
        (2.0, INF, INF),
        (0.5, INF, 0.0),
        (0.5, -INF, INF),
        (-2.0, 3.0, -8.0),
        (-2.0, 2.0, 4.0),
        (-2.0, 0.5, NAN),
        (-INF, 0.5, INF),
        (-INF, -0.5, 0.0),
        (-0.0, 0.5, 0.0),
        (-1.0, INF, 1.0),
        (-1.0, -INF, 1.0),
        (-1.0, NAN, NAN),
        (-2.0, INF, INF),
        (-0.5, INF, 0.0),
        (NAN, 2.0, NAN),
        (2.0, NAN, NAN),
        (2.0, 10.0, 1024.0),
        (2.0, 2000.0, INF),
        (2.0, -2000.0, 0.0),
    ];
    let quarter = 3.0 * FRAC_PI_4;
    let atan2 = [
        (0.0, 1.0, 0.0),
        (-0.0, 1.0, -0.0),
        (0.0, -1.0, PI),
        (-0.0, -1.0, -PI),
        (0.0, 0.0, 0.0),
        (0.0, -0.0, PI),
        (1.0, 0.0, FRAC_PI_2),
        (-1.0, 0.0, -FRAC_PI_2),
        (INF, INF, FRAC_PI_4),
        (INF, -INF, quarter),
        (-INF, -INF, -quarter),
        (1.0, INF, 0.0),
        (1.0, -INF, PI),
        (INF, 1.0, FRAC_PI_2),
        (NAN, 1.0, NAN),
        (1.0, NAN, NAN),
    ];
    for (scalar, fun, cases) in
        [(F16, Mf::Pow, &pow[..]), (F32, Mf::Pow, &pow), (F64, Mf::Pow, &pow), (F32, Mf::Atan2, &atan2)]
    {
        let (x, y): (Vec<f64>, Vec<f64>) = cases.iter().map(|c| (c.0, c.1)).unzip();
        let got = call1(fun, &[scalars(scalar, bits(scalar, &x)), scalars(scalar, bits(scalar, &y))]);
        for (&(x, y, want), got) in cases.iter().zip(got) {
            let ty = ty_of(scalar).unwrap();
            let (got, want) = (to_f64(ty, got), to_f64(ty, from_f64(ty, want)));
            let near = fun == Mf::Atan2 && (got / want - 1.0).abs() < 2f64.powi(-23);
            assert!(same(got, want) || near, "{fun:?}({x:e}, {y:e}) of {scalar:?} is {got:e}, not {want:e}");
        }
    }
}

fn operate(op: Bo, scalar: Scalar, l: &[u64], r: &[u64]) -> Vec<u64> {
    let amount = if matches!(op, Bo::ShiftLeft | Bo::ShiftRight) { U32 } else { scalar };
    let given = [scalars(scalar, l.to_vec()), scalars(amount, r.to_vec())];
    run(&given, Off::Not, |b, args| binary(b, env(), op, scalar, args[0].leaves[0], args[1].leaves[0]).map(|x| vec![x]))
        .remove(0)
}

#[test]
fn float_operators_at_their_edges() {
    for scalar in [F16, F32, F64] {
        let ty = ty_of(scalar).unwrap();
        let x = [7.5, -7.5, 1.0, 5.0, -6.0, 3.0, 0.0, 1.0, INF];
        let y = [2.0, 2.0, INF, -3.0, 3.0, 4.0, 2.0, 0.0, 2.0];
        let got = operate(Bo::Modulo, scalar, &bits(scalar, &x), &bits(scalar, &y));
        let got: Vec<f64> = got.into_iter().map(|x| to_f64(ty, x)).collect();
        let want = [1.5, -1.5, 1.0, 2.0, -0.0, 3.0, 0.0, NAN, NAN];
        for i in 0..x.len() {
            assert!(got[i] == want[i] || same(got[i], want[i]), "{} % {} of {scalar:?} is {}", x[i], y[i], got[i]);
        }
        let (l, r) = (bits(scalar, &[NAN, 1.0, 0.0]), bits(scalar, &[NAN, 2.0, -0.0]));
        assert_eq!(operate(Bo::Equal, scalar, &l, &r), [0, 0, 1]);
        assert_eq!(operate(Bo::NotEqual, scalar, &l, &r), [1, 1, 0]);
        assert_eq!(operate(Bo::Less, scalar, &l, &r), [0, 1, 0]);
        assert_eq!(operate(Bo::GreaterEqual, scalar, &l, &r), [0, 0, 1]);
        let x = vectors(scalar, vec![bits(scalar, &[NAN, INF, -INF]), bits(scalar, &[1.0, NAN, 0.0])]);
        let nan = run(std::slice::from_ref(&x), Off::Not, |b, args| relational(b, Rf::IsNan, args[0]));
        assert_eq!(nan, [[1, 0, 0], [0, 1, 0]]);
        let infinite = run(&[x], Off::Not, |b, args| relational(b, Rf::IsInf, args[0]));
        assert_eq!(infinite, [[0, 1, 1], [0, 0, 0]]);
    }
}

/// Quotients below 2^24 are exact, remainders with them.
#[test]
fn float_remainders_are_those_of_the_host() {
    let mut random = Random(3);
    let (x, y): (Vec<f32>, Vec<f32>) =
        (0..1 << 18).map(|_| (random.within(-1e4, 1e4) as f32, random.within(-9.0, 9.0) as f32)).unzip();
    let got = operate(Bo::Modulo, F32, &f32s(&x), &f32s(&y));
    for i in 0..x.len() {
        let (got, want) = (f32::from_bits(got[i] as u32), x[i] % y[i]);
        let quotient = x[i] / y[i];
        assert!(got == want || quotient.abs() > 1e7, "{} % {} is {got}, not {want}", x[i], y[i]);
    }
}

/// Of any two numbers: the sign of the dividend, less than the divisor, and exact where the quotient is small enough.
#[test]
fn float_remainders_of_all_magnitudes_are_less_than_the_divisor() {
    let mut random = Random(11);
    for (scalar, largest) in [(F32, 2f64.powi(24)), (F64, 2f64.powi(53))] {
        let ty = ty_of(scalar).unwrap();
        let fixed =
            [(0.25, 5e-324), (-0.25, 5e-324), (9.223372e18, 0.49999997), (1e300, 3.0), (-1e38, 1e-45), (7.0, -2.0)];
        let (mut x, mut y): (Vec<f64>, Vec<f64>) = fixed.into_iter().unzip();
        for _ in 0..1 << 16 {
            x.push(to_f64(ty, random.bits()));
            y.push(to_f64(ty, random.bits()));
        }
        let (x, y) = (bits(scalar, &x), bits(scalar, &y));
        for (i, got) in operate(Bo::Modulo, scalar, &x, &y).into_iter().enumerate() {
            let (x, y, got) = (to_f64(ty, x[i]), to_f64(ty, y[i]), to_f64(ty, got));
            if !x.is_finite() || !y.is_finite() || y == 0.0 {
                assert!(got.is_nan() || (x.is_finite() && y.is_infinite() && got == x), "{x:e} % {y:e} is {got:e}");
                continue;
            }
            let sound = got.abs() < y.abs() && got.is_sign_negative() == x.is_sign_negative();
            let exact = (x / y).abs() >= largest || got == x % y;
            assert!(sound && exact, "{x:e} % {y:e} of {scalar:?} is {got:e}, not {:e}", x % y);
        }
    }
}

#[test]
fn bool_operators_and_vectors() {
    let (l, r) = (vec![0, 0, 1, 1], vec![0, 1, 0, 1]);
    assert_eq!(operate(Bo::Equal, Scalar::BOOL, &l, &r), [1, 0, 0, 1]);
    assert_eq!(operate(Bo::NotEqual, Scalar::BOOL, &l, &r), [0, 1, 1, 0]);
    assert_eq!(operate(Bo::And, Scalar::BOOL, &l, &r), [0, 0, 0, 1]);
    assert_eq!(operate(Bo::LogicalOr, Scalar::BOOL, &l, &r), [0, 1, 1, 1]);
    let given = [vectors(Scalar::BOOL, vec![l, r])];
    assert_eq!(run(&given, Off::Not, |b, args| relational(b, Rf::All, args[0])), [[0, 0, 0, 1]]);
    assert_eq!(run(&given, Off::Not, |b, args| relational(b, Rf::Any, args[0])), [[0, 1, 1, 1]]);
    let not = |b: &mut Builder, args: &[Arg]| {
        unary(b, env(), UnaryOperator::LogicalNot, Scalar::BOOL, args[0].leaves[0]).map(|x| vec![x])
    };
    assert_eq!(run(&[scalars(Scalar::BOOL, vec![0, 1])], Off::Not, not), [[1, 0]]);
}

#[test]
fn what_the_module_cannot_be_is_an_error() {
    let mut b = builder();
    let reg = |b: &mut Builder, ty| Operand::Reg(b.reg(ty));
    let x = [reg(&mut b, Ty::F64)];
    let arg = Arg { scalar: F64, shape: Shape::Scalar, leaves: &x };
    assert!(matches!(math(&mut b, env(), Mf::Pow, &[arg]), Err(Error::InvalidModule { .. })));
    assert!(matches!(math(&mut b, env(), Mf::CountOneBits, &[arg]), Err(Error::InvalidModule { .. })));
    assert!(matches!(math(&mut b, env(), Mf::Inverse, &[arg]), Err(Error::InvalidModule { .. })));
    assert!(ty_of(Scalar { kind: naga::ScalarKind::Float, width: 16 }).is_err());
    assert!(ty_of(Scalar::ABSTRACT_INT).is_err());
}
