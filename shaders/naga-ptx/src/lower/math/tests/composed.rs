//! Packing, taking floats apart, matrices and vectors of small integers: one right answer each.

use half::f16;

use super::*;

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
