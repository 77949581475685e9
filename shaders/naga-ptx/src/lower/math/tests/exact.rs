//! What has one right answer: integers, bits, conversions, packing, taking floats apart, matrices of small integers.

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

#[test]
fn packing_rounds_as_written_and_unpacking_divides() {
    let mut random = Random(8);
    let mut x: Vec<f32> = (0..20000).map(|_| random.within(-1.2, 1.2) as f32).collect();
    x.extend([f32::INFINITY, -f32::INFINITY, 0.0, 1.0, -1.0, 1e30]);
    let y: Vec<f32> = x.iter().rev().copied().collect();
    let norm = |x: f32, least: f32, scale: f32| x.clamp(least, 1.0).mul_add(scale, 0.5).floor() as i32 as u32;
    let two = || vectors(F32, vec![f32s(&x), f32s(&y)]);
    let four = || vectors(F32, vec![f32s(&x), f32s(&y), f32s(&x), f32s(&y)]);
    let snorm16 = call1(Mf::Pack2x16snorm, &[two()]);
    let unorm16 = call1(Mf::Pack2x16unorm, &[two()]);
    let halves = call1(Mf::Pack2x16float, &[two()]);
    let snorm8 = call1(Mf::Pack4x8snorm, &[four()]);
    let unorm8 = call1(Mf::Pack4x8unorm, &[four()]);
    for i in 0..x.len() {
        let pack16 = |f: &dyn Fn(f32) -> u32| u64::from(f(x[i]) & 0xffff | f(y[i]) << 16);
        let pack8 = |f: &dyn Fn(f32) -> u32| u64::from((f(x[i]) & 0xff | (f(y[i]) & 0xff) << 8) * 0x10001);
        assert_eq!(snorm16[i], pack16(&|x| norm(x, -1.0, 32767.0)));
        assert_eq!(unorm16[i], pack16(&|x| norm(x, 0.0, 65535.0)));
        assert_eq!(halves[i], pack16(&|x| u32::from(f16::from_f32(x).to_bits())));
        assert_eq!(snorm8[i], pack8(&|x| norm(x, -1.0, 127.0)));
        assert_eq!(unorm8[i], pack8(&|x| norm(x, 0.0, 255.0)));
    }
    let words: Vec<u64> = (0..65536).map(|i| i | (65535 - i) << 16).collect();
    let unpacked = |fun| call(fun, &[scalars(U32, words.clone())], Off::Not);
    let (s16, u16, h, s8, u8, i8, b8) = (
        unpacked(Mf::Unpack2x16snorm),
        unpacked(Mf::Unpack2x16unorm),
        unpacked(Mf::Unpack2x16float),
        unpacked(Mf::Unpack4x8snorm),
        unpacked(Mf::Unpack4x8unorm),
        unpacked(Mf::Unpack4xI8),
        unpacked(Mf::Unpack4xU8),
    );
    for (i, &word) in words.iter().enumerate() {
        for lane in 0..2 {
            let half = (word >> (16 * lane)) as u16;
            let f = |got: &Vec<Vec<u64>>| f32::from_bits(got[lane][i] as u32);
            assert_eq!(f(&s16), (f32::from(half as i16) / 32767.0).max(-1.0));
            assert_eq!(f(&u16), f32::from(half) / 65535.0);
            let want = f16::from_bits(half).to_f32();
            assert!(f(&h) == want || want.is_nan());
        }
        for lane in 0..4 {
            let byte = (word >> (8 * lane)) as u8;
            let f = |got: &Vec<Vec<u64>>| f32::from_bits(got[lane][i] as u32);
            assert_eq!(f(&s8), (f32::from(byte as i8) / 127.0).max(-1.0));
            assert_eq!(f(&u8), f32::from(byte) / 255.0);
            assert_eq!(i8[lane][i] as u32 as i32, i32::from(byte as i8));
            assert_eq!(b8[lane][i], u64::from(byte));
        }
    }
}

#[test]
fn packed_bytes_and_their_dot_products() {
    let x: Vec<Vec<u64>> = [1_i32, -2, 300, -400].iter().map(|&x| vec![u64::from(x as u32)]).collect();
    assert_eq!(call1(Mf::Pack4xI8, &[vectors(I32, x.clone())]), [0x702c_fe01]);
    assert_eq!(call1(Mf::Pack4xI8Clamp, &[vectors(I32, x.clone())]), [0x807f_fe01]);
    assert_eq!(call1(Mf::Pack4xU8Clamp, &[vectors(U32, x)]), [0xffff_ff01]);
    let mut random = Random(4);
    let mut words = || (0..1000).map(|_| random.bits() & 0xffff_ffff).collect::<Vec<u64>>();
    let (x, y) = (words(), words());
    let dot = |fun| call1(fun, &[scalars(U32, x.clone()), scalars(U32, y.clone())]);
    let (signed, unsigned) = (dot(Mf::Dot4I8Packed), dot(Mf::Dot4U8Packed));
    for i in 0..x.len() {
        let bytes = |x: u64| (x as u32).to_le_bytes();
        let s: i32 = (0..4).map(|j| i32::from(bytes(x[i])[j] as i8) * i32::from(bytes(y[i])[j] as i8)).sum();
        let u: u32 = (0..4).map(|j| u32::from(bytes(x[i])[j]) * u32::from(bytes(y[i])[j])).sum();
        assert_eq!((signed[i] as u32 as i32, unsigned[i]), (s, u64::from(u)));
    }
}

/// `x 2^n` rounded once, by steps that f64 has exactly.
fn scaled(x: f64, n: i32) -> f64 {
    (0..n.unsigned_abs().min(900)).fold(x, |x, _| if n < 0 { x / 2.0 } else { x * 2.0 })
}

#[test]
fn floats_come_apart_and_together() {
    let mut random = Random(6);
    let mut x: Vec<u64> = (0..50000).map(|_| random.bits() & 0xffff_ffff).collect();
    x.extend(f32s(&[0.0, -0.0, 1.0, -1.0, f32::MAX, 1e-45, 1.1754942e-38]));
    let n: Vec<u64> = (0..x.len())
        .map(|i| (if i % 5 == 0 { random.bits() } else { random.bits() % 600 } as i32 - 300) as u32 as u64)
        .collect();
    let apart = call(Mf::Frexp, &[scalars(F32, x.clone())], Off::Not);
    let parts = call(Mf::Modf, &[scalars(F32, x.clone())], Off::Not);
    let moved = call1(Mf::Ldexp, &[scalars(F32, x.clone()), scalars(I32, n.clone())]);
    for i in 0..x.len() {
        let value = f32::from_bits(x[i] as u32);
        if !value.is_finite() {
            continue;
        }
        let (fraction, exponent) = (f32::from_bits(apart[0][i] as u32), apart[1][i] as u32 as i32);
        assert_eq!(scaled(f64::from(fraction), exponent), f64::from(value), "frexp({value:e})");
        assert!(value == 0.0 && exponent == 0 || (0.5..1.0).contains(&fraction.abs()), "frexp({value:e})");
        let (rest, whole) = (f32::from_bits(parts[0][i] as u32), f32::from_bits(parts[1][i] as u32));
        assert_eq!((rest, whole), (value.fract(), value.trunc()), "modf({value:e})");
        let n = n[i] as u32 as i32;
        let (got, want) = (f32::from_bits(moved[i] as u32), scaled(f64::from(value), n) as f32);
        assert_eq!(got.to_bits(), want.to_bits(), "ldexp({value:e}, {n}) is {got:e}, not {want:e}");
    }
    let doubles: Vec<u64> = (0..20000).map(|_| random.bits()).filter(|&x| f64::from_bits(x).is_finite()).collect();
    let apart = call(Mf::Frexp, &[scalars(F64, doubles.clone())], Off::Not);
    let exponents: Vec<u64> = apart[1].iter().map(|&e| e & 0xffff_ffff).collect();
    let again = call1(Mf::Ldexp, &[scalars(F64, apart[0].clone()), scalars(I32, exponents)]);
    assert_eq!(again, doubles);
    let halves: Vec<u64> = (0..65536).filter(|&x| f16::from_bits(x as u16).is_finite()).collect();
    let apart = call(Mf::Frexp, &[scalars(F16, halves.clone())], Off::Not);
    let exponents: Vec<u64> = apart[1].iter().map(|&e| u64::from(e as u16 as i16 as i32 as u32)).collect();
    assert_eq!(call1(Mf::Ldexp, &[scalars(F16, apart[0].clone()), scalars(I32, exponents)]), halves);
    for n in [-200, -140, -30, 0, 5, 127, 128, 200] {
        let x = f32s(&[1.0, 1.5, 3e-38, 1.9999999]);
        let got = run(&[scalars(F32, x.clone())], Off::Not, |b, args| {
            Ok(vec![decompose::ldexp(b, Ty::F32, args[0].leaves[0], Operand::i32(n))])
        });
        let want: Vec<f32> = x.iter().map(|&x| scaled(f64::from(f32::from_bits(x as u32)), n) as f32).collect();
        assert_eq!(got[0], f32s(&want), "ldexp by the constant {n}");
    }
}

fn matrix(size: VectorSize, elements: &[f32]) -> Given {
    let shape = Shape::Matrix { columns: size, rows: size };
    Given { scalar: F32, shape, leaves: elements.iter().map(|&x| f32s(&[x])).collect() }
}

#[test]
fn matrices_and_vectors_of_small_integers() {
    let mut random = Random(2);
    for (size, n) in [(VectorSize::Bi, 2), (VectorSize::Tri, 3), (VectorSize::Quad, 4)] {
        for _ in 0..50 {
            let m: Vec<f32> = (0..n * n).map(|_| (random.bits() % 9) as f32 - 4.0).collect();
            let at = |r: usize, c: usize| f64::from(m[c * n + r]);
            // By the definition: the sum over all permutations.
            let mut determinant = 0.0;
            let mut permutation: Vec<usize> = (0..n).collect();
            permute(&mut permutation, 0, 1.0, &mut |p, sign| {
                determinant += sign * (0..n).map(|r| at(r, p[r])).product::<f64>();
            });
            let got = call1(Mf::Determinant, &[matrix(size, &m)])[0];
            assert_eq!(f64::from(f32::from_bits(got as u32)), determinant);
            let transposed = call(Mf::Transpose, &[matrix(size, &m)], Off::Not);
            let inverse = call(Mf::Inverse, &[matrix(size, &m)], Off::Not);
            for r in 0..n {
                for c in 0..n {
                    assert_eq!(transposed[r * n + c], f32s(&[m[c * n + r]]));
                    if determinant != 0.0 {
                        let product: f64 =
                            (0..n).map(|k| at(r, k) * f64::from(f32::from_bits(inverse[c * n + k][0] as u32))).sum();
                        assert!((product - f64::from(u8::from(r == c))).abs() < 1e-4, "{product} at {r}, {c}");
                    }
                }
            }
        }
    }
    let v = |x: [f32; 3]| vectors(F32, x.iter().map(|&x| f32s(&[x])).collect());
    let floats = |x: Vec<Vec<u64>>| x.into_iter().map(|x| f32::from_bits(x[0] as u32)).collect::<Vec<_>>();
    let (a, b, n) = ([1.0, 2.0, 3.0], [4.0, -5.0, 6.0], [0.0, 1.0, 0.0]);
    let of = |fun, given: &[Given]| floats(call(fun, given, Off::Not));
    assert_eq!(of(Mf::Dot, &[v(a), v(b)]), [12.0]);
    assert_eq!(of(Mf::Cross, &[v(a), v(b)]), [27.0, 6.0, -13.0]);
    assert_eq!(of(Mf::Length, &[v([2.0, 3.0, 6.0])]), [7.0]);
    assert_eq!(of(Mf::Distance, &[v([3.0, 3.0, 7.0]), v([1.0, 0.0, 1.0])]), [7.0]);
    assert_eq!(of(Mf::Normalize, &[v([0.0, 4.0, 0.0])]), [0.0, 1.0, 0.0]);
    assert_eq!(of(Mf::Reflect, &[v(a), v(n)]), [1.0, -2.0, 3.0]);
    assert_eq!(of(Mf::FaceForward, &[v(a), v(a), v(b)]), [-1.0, -2.0, -3.0]);
    assert_eq!(of(Mf::FaceForward, &[v(a), v(a), v([-1.0, 0.0, 0.0])]), a);
    assert_eq!(of(Mf::Outer, &[v(a), v(b)]), [4.0, 8.0, 12.0, -5.0, -10.0, -15.0, 6.0, 12.0, 18.0]);
    assert_eq!(of(Mf::Refract, &[v([0.0, -1.0, 0.0]), v(n), scalars(F32, f32s(&[1.5]))]), [0.0, -1.0, 0.0]);
    assert_eq!(of(Mf::Refract, &[v([1.0, 0.0, 0.0]), v(n), scalars(F32, f32s(&[1.5]))]), [0.0, 0.0, 0.0]);
    assert_eq!(of(Mf::Mix, &[v(a), v(b), scalars(F32, f32s(&[0.5]))]), [2.5, -1.5, 4.5]);
    assert_eq!(of(Mf::Mix, &[v(a), v(b), v([0.0, 1.0, 0.0])]), [1.0, -5.0, 3.0]);
    assert_eq!(of(Mf::SmoothStep, &[v([0.0; 3]), v([2.0; 3]), v([-1.0, 1.0, 3.0])]), [0.0, 0.5, 1.0]);
    let long = |x: [i64; 3]| vectors(I64, x.iter().map(|&x| vec![x as u64]).collect());
    assert_eq!(call1(Mf::Dot, &[long([1 << 40, -2, 3]), long([5, 1 << 40, 7])]), [(3 << 40) + 21]);
    // A half whose square is no half.
    let half = |x: f32| vec![u64::from(f16::from_f32(x).to_bits())];
    assert_eq!(call1(Mf::Length, &[vectors(F16, vec![half(3000.0), half(4000.0)])]), half(5000.0));
}

fn permute(p: &mut Vec<usize>, from: usize, sign: f64, f: &mut impl FnMut(&[usize], f64)) {
    if from == p.len() {
        return f(p, sign);
    }
    for i in from..p.len() {
        p.swap(from, i);
        permute(p, from + 1, if i == from { sign } else { -sign }, f);
        p.swap(from, i);
    }
}
