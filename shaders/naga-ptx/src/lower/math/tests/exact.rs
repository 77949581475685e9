//! What has one right answer: integers, bits, conversions. Packing, parts of floats and matrices: `composed.rs`.

use half::f16;
use naga::BinaryOperator as Bo;

use super::eval::from_f64;
use super::*;

const EDGES: [u64; 24] = [
    0,
    1,
    2,
    3,
    5,
    7,
    31,
    32,
    0x7f,
    0x80,
    0xff,
    0x7fff,
    0x8000,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    u64::MAX - 1,
    u64::MAX,
    0x0123_4567_89ab_cdef,
    0xfedc_ba98_7654_3210,
];

/// Edges and random numbers of every magnitude.
fn integers(scalar: Scalar, count: usize) -> Vec<u64> {
    let mut random = Random(11);
    let mask = u64::MAX >> (64 - 8 * scalar.width);
    let all = EDGES.into_iter().chain((0..count).map(|_| random.bits() >> (random.bits() % 64)));
    all.map(|x| x & mask).collect()
}

fn sext(scalar: Scalar, x: u64) -> i128 {
    let unused = 64 - 8 * u32::from(scalar.width);
    if scalar.kind == naga::ScalarKind::Sint { i128::from((x << unused) as i64 >> unused) } else { i128::from(x) }
}

const INTEGERS: [Scalar; 6] = [I16, U16, I32, U32, I64, U64];

fn operate(op: Bo, scalar: Scalar, l: &[u64], r: &[u64]) -> Vec<u64> {
    let amount = if matches!(op, Bo::ShiftLeft | Bo::ShiftRight) { U32 } else { scalar };
    let given = [scalars(scalar, l.to_vec()), scalars(amount, r.to_vec())];
    run(&given, Off::Not, |b, args| binary(b, env(), op, scalar, args[0].leaves[0], args[1].leaves[0]).map(|x| vec![x]))
        .remove(0)
}

/// Every pair of edges, and some more.
fn pairs(scalar: Scalar) -> (Vec<u64>, Vec<u64>) {
    let x = integers(scalar, 40);
    x.iter().flat_map(|&l| x.iter().map(move |&r| (l, r))).unzip()
}

#[test]
fn integer_operators() {
    for scalar in INTEGERS {
        let (l, r) = pairs(scalar);
        let mask = u64::MAX >> (64 - 8 * scalar.width);
        let width = 8 * u32::from(scalar.width);
        let divide = |x: i128, y: i128| if y == 0 { x } else { x / y };
        type Want<'a> = &'a dyn Fn(i128, i128) -> i128;
        let cases: [(Bo, Want); 10] = [
            (Bo::Add, &|x, y| x + y),
            (Bo::Subtract, &|x, y| x - y),
            (Bo::Multiply, &|x, y| x.wrapping_mul(y)),
            (Bo::Divide, &divide),
            (Bo::Modulo, &|x, y| if y == 0 { 0 } else { x % y }),
            (Bo::And, &|x, y| x & y),
            (Bo::ExclusiveOr, &|x, y| x ^ y),
            (Bo::InclusiveOr, &|x, y| x | y),
            (Bo::Less, &|x, y| i128::from(x < y)),
            (Bo::GreaterEqual, &|x, y| i128::from(x >= y)),
        ];
        for (op, want) in cases {
            let got = operate(op, scalar, &l, &r);
            for i in 0..l.len() {
                let (x, y) = (sext(scalar, l[i]), sext(scalar, r[i]));
                assert_eq!(got[i], want(x, y) as u64 & mask, "{x} {op:?} {y} of {scalar:?}");
            }
        }
        let amounts: Vec<u64> = r.iter().map(|r| r & 0xffff_ffff).collect();
        let (left, right) =
            (operate(Bo::ShiftLeft, scalar, &l, &amounts), operate(Bo::ShiftRight, scalar, &l, &amounts));
        for i in 0..l.len() {
            let amount = amounts[i] as u32 % width;
            assert_eq!(left[i], l[i] << amount & mask, "{} << {}", l[i], amounts[i]);
            assert_eq!(right[i], (sext(scalar, l[i]) >> amount) as u64 & mask, "{} >> {}", l[i], amounts[i]);
        }
    }
}

/// Constant divisors take other paths, one by one.
#[test]
fn division_by_constants() {
    for scalar in INTEGERS {
        let x = integers(scalar, 3000);
        let mask = u64::MAX >> (64 - 8 * scalar.width);
        let mut divisors = integers(scalar, 60);
        divisors.extend((1..=130).chain([641, 1000, 6700417, 1_000_000_007]).map(|d| d & mask));
        divisors.extend((1..=20u64).map(|d| d.wrapping_neg() & mask));
        for d in divisors {
            let given = [scalars(scalar, x.clone())];
            let got = run(&given, Off::Not, |b, args| {
                let (x, d) = (args[0].leaves[0], Operand::Imm(d));
                Ok(vec![binary(b, env(), Bo::Divide, scalar, x, d)?, binary(b, env(), Bo::Modulo, scalar, x, d)?])
            });
            let y = sext(scalar, d);
            // Around every multiple's edge the quotient changes.
            for i in 0..x.len() {
                let x = sext(scalar, x[i]);
                let (q, r) = if y == 0 { (x, 0) } else { (x / y, x % y) };
                assert_eq!((got[0][i], got[1][i]), (q as u64 & mask, r as u64 & mask), "{x} / {y} of {scalar:?}");
            }
        }
    }
}

#[test]
fn unsigned_division_by_constants_at_every_step() {
    let mut random = Random(9);
    for _ in 0..300 {
        let d = (random.bits() as u32 >> (random.bits() % 31)).max(2);
        let x: Vec<u64> = (0..200)
            .flat_map(|_| {
                let edge = u64::from(random.bits() as u32 / d * d);
                [edge, edge.saturating_sub(1)]
            })
            .collect();
        let got = run(&[scalars(U32, x.clone())], Off::Not, |b, args| {
            binary(b, env(), Bo::Divide, U32, args[0].leaves[0], Operand::u32(d)).map(|x| vec![x])
        });
        for i in 0..x.len() {
            assert_eq!(got[0][i], x[i] / u64::from(d), "{} / {d}", x[i]);
        }
    }
}

#[test]
fn bit_functions() {
    for scalar in INTEGERS {
        let x = integers(scalar, 500);
        let width = 8 * u64::from(scalar.width);
        let mask = u64::MAX >> (64 - width);
        let signed = scalar.kind == naga::ScalarKind::Sint;
        let leading = |x: u64| {
            let y = if signed && x >> (width - 1) == 1 { !x & mask } else { x };
            if y == 0 { u64::MAX } else { 63 - u64::from(y.leading_zeros()) }
        };
        let cases: [(Mf, &dyn Fn(u64) -> u64); 8] = [
            (Mf::CountOneBits, &|x| u64::from(x.count_ones())),
            (Mf::CountLeadingZeros, &|x| u64::from(x.leading_zeros()) + width - 64),
            (Mf::CountTrailingZeros, &|x| u64::from(x.trailing_zeros()).min(width)),
            (Mf::ReverseBits, &|x| x.reverse_bits() >> (64 - width)),
            (Mf::FirstLeadingBit, &leading),
            (Mf::FirstTrailingBit, &|x| if x == 0 { u64::MAX } else { u64::from(x.trailing_zeros()) }),
            (Mf::Abs, &|x| sext(scalar, x).unsigned_abs() as u64),
            (Mf::Sign, &|x| sext(scalar, x).signum() as u64),
        ];
        for (fun, want) in cases {
            let got = call1(fun, &[scalars(scalar, x.clone())]);
            for i in 0..x.len() {
                assert_eq!(got[i], want(x[i]) & mask, "{fun:?}({:#x}) of {scalar:?}", x[i]);
            }
        }
    }
}

#[test]
fn bit_fields_with_any_offset_and_count() {
    let mut random = Random(21);
    for scalar in INTEGERS {
        let width = 8 * u64::from(scalar.width);
        let mask = u64::MAX >> (64 - width);
        let count = 5000;
        let mut numbers = || (0..count).map(|_| random.bits() & mask).collect::<Vec<u64>>();
        let (x, new) = (numbers(), numbers());
        let mut place =
            |i: usize| if i.is_multiple_of(7) { random.bits() & 0xffff_ffff } else { random.bits() % (width + 3) };
        let offset: Vec<u64> = (0..count).map(&mut place).collect();
        let counts: Vec<u64> = (0..count).map(|i| place(i + 3)).collect();
        let fields = [scalars(U32, offset.clone()), scalars(U32, counts.clone())];
        let [o, c] = fields;
        let got = call1(Mf::ExtractBits, &[scalars(scalar, x.clone()), o, c]);
        let [o, c] = [scalars(U32, offset.clone()), scalars(U32, counts.clone())];
        let inserted = call1(Mf::InsertBits, &[scalars(scalar, x.clone()), scalars(scalar, new.clone()), o, c]);
        for i in 0..count {
            let o = offset[i].min(width);
            let c = counts[i].min(width - o);
            let field = if c == 0 { 0 } else { x[i] >> o & u64::MAX >> (64 - c) };
            let signed = scalar.kind == naga::ScalarKind::Sint && c > 0;
            let want = if signed { ((field << (64 - c)) as i64 >> (64 - c)) as u64 } else { field };
            assert_eq!(got[i], want & mask, "extractBits({:#x}, {}, {}) of {scalar:?}", x[i], offset[i], counts[i]);
            let hole = if c == 0 { 0 } else { u64::MAX >> (64 - c) << o };
            let want = x[i] & !hole | new[i].checked_shl(o as u32).unwrap_or(0) & hole;
            assert_eq!(inserted[i], want & mask, "insertBits at {}, {} of {scalar:?}", offset[i], counts[i]);
        }
    }
}

fn converted(from: Scalar, to: Scalar, x: &[u64]) -> Vec<u64> {
    run(&[scalars(from, x.to_vec())], Off::Not, |b, args| {
        convert(b, env(), from, to, args[0].leaves[0]).map(|x| vec![x])
    })
    .remove(0)
}

#[test]
fn conversions_of_floats_saturate_at_the_last_integer_they_know() {
    let x = [0.0, -0.9, 1.9, -1.9, 3e9, -3e9, 1e30, -1e30, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 200.5];
    let of = |scalar: Scalar| x.iter().map(|&x| from_f64(ty_of(scalar).unwrap(), x)).collect::<Vec<_>>();
    let i32s = |x: &[u64]| x.iter().map(|&x| x as u32 as i32).collect::<Vec<_>>();
    let (most, least) = (2_147_483_520, i32::MIN);
    let want = [0, 0, 1, -1, most, least, most, least, most, least, 0, 200];
    assert_eq!(i32s(&converted(F32, I32, &of(F32))), want);
    let most = i32::MAX;
    let want = [0, 0, 1, -1, most, least, most, least, most, least, 0, 200];
    assert_eq!(i32s(&converted(F64, I32, &of(F64))), want);
    // Halves: 3e9 is infinite already.
    let (most, least) = (65504, -65504);
    let want = [0, 0, 1, -1, most, least, most, least, most, least, 0, 200];
    assert_eq!(i32s(&converted(F16, I32, &of(F16))), want);
    let most = 4_294_967_040;
    assert_eq!(converted(F32, U32, &of(F32)), [0, 0, 1, 0, 3_000_000_000, 0, most, 0, most, 0, 0, 200]);
    let (most, least) = (0x7fff_ff80_0000_0000_u64, 1 << 63);
    let (b, nb) = (3_000_000_000_u64, 3_000_000_000_u64.wrapping_neg());
    let want = [0, 0, 1, u64::MAX, b, nb, most, least, most, least, 0, 200];
    assert_eq!(converted(F32, I64, &of(F32)), want);
    let most = 0xffff_ffff_ffff_f800;
    assert_eq!(converted(F64, U64, &of(F64)), [0, 0, 1, 0, b, 0, most, 0, most, 0, 0, 200]);
    let (most, least) = (32752, 0x8000);
    let want = [0, 0, 1, 0xffff, most, least, most, least, most, least, 0, 200];
    assert_eq!(converted(F16, I16, &of(F16)), want);
}

#[test]
fn conversions_between_integers_and_bools() {
    for from in INTEGERS {
        let x = integers(from, 100);
        for to in INTEGERS {
            let mask = u64::MAX >> (64 - 8 * to.width);
            let want: Vec<u64> = x.iter().map(|&x| sext(from, x) as u64 & mask).collect();
            assert_eq!(converted(from, to, &x), want, "{from:?} as {to:?}");
        }
        let want: Vec<u64> = x.iter().map(|&x| u64::from(x != 0)).collect();
        assert_eq!(converted(from, Scalar::BOOL, &x), want);
        assert_eq!(converted(Scalar::BOOL, from, &[0, 1]), [0, 1]);
        let floats: Vec<u64> = x.iter().map(|&x| u64::from((sext(from, x) as f32).to_bits())).collect();
        assert_eq!(converted(from, F32, &x), floats, "{from:?} as f32");
        let floats: Vec<u64> = x.iter().map(|&x| (sext(from, x) as f64).to_bits()).collect();
        assert_eq!(converted(from, F64, &x), floats, "{from:?} as f64");
    }
    let floats = f32s(&[0.0, -0.0, 1e-45, f32::NAN, -3.0]);
    assert_eq!(converted(F32, Scalar::BOOL, &floats), [0, 0, 1, 1, 1]);
    assert_eq!(converted(Scalar::BOOL, F32, &[0, 1]), f32s(&[0.0, 1.0]));
    assert_eq!(converted(Scalar::BOOL, F16, &[0, 1]), [0, 0x3c00]);
    let halves: Vec<u64> = (0..65536).collect();
    let wide: Vec<u64> = halves.iter().map(|&h| u64::from(f16::from_bits(h as u16).to_f32().to_bits())).collect();
    assert_eq!(converted(F32, F16, &converted(F16, F32, &halves)).len(), wide.len());
    for (got, want) in converted(F16, F32, &halves).into_iter().zip(wide) {
        let (got, want) = (f32::from_bits(got as u32), f32::from_bits(want as u32));
        assert!(got == want || got.is_nan() && want.is_nan());
    }
}

#[test]
fn bit_casts_split_and_join() {
    let cast = |given: Given, to| run(&[given], Off::Not, |b, args| bitcast(b, args[0], to));
    assert_eq!(cast(scalars(U32, vec![0x1234_5678]), F16), [[0x5678], [0x1234]]);
    assert_eq!(cast(vectors(F16, vec![vec![0x5678], vec![0x1234]]), I32), [[0x1234_5678]]);
    let four = vectors(F16, (1..5).map(|x| vec![x]).collect());
    assert_eq!(cast(four, U32), [[0x0002_0001], [0x0004_0003]]);
    assert_eq!(cast(scalars(U64, vec![0x1122_3344_5566_7788]), U16), [[0x7788], [0x5566], [0x3344], [0x1122]]);
    assert_eq!(cast(scalars(F32, vec![0x3f80_0000]), I32), [[0x3f80_0000]]);
    let x = [Operand::u32(1), Operand::u32(2), Operand::u32(3)];
    let odd = Arg { scalar: U32, shape: Shape::Vector(VectorSize::Tri), leaves: &x };
    assert!(bitcast(&mut builder(), odd, U64).is_err());
}
