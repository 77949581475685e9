//! Floating point and conversions: known answers for what is no number, zeros, subnormals, ties and the ends of ranges.

use crate::common::{double, f32s, half, pred, word};

const NAN: u64 = 0x7fc0_0000;
const CANONICAL: u32 = 0x7fff_ffff;
const INF: u64 = 0x7f80_0000;

fn bits(x: f32) -> u64 {
    x.to_bits().into()
}

fn bits64(x: f64) -> u64 {
    x.to_bits()
}

#[test]
fn f32_arithmetic_rounds_to_even_and_keeps_subnormals() {
    assert_eq!(f32s("add.f32 %wd, %wa, %wb;", 16_777_216.0, 1.0, 0.0), 16_777_216.0);
    assert_eq!(f32s("add.rn.f32 %wd, %wa, %wb;", 16_777_216.0, 3.0, 0.0), 16_777_220.0);
    assert_eq!(word("mul.f32 %wd, %wa, %wb;", 1, bits(0.5), 0), 0, "half of the least subnormal");
    assert_eq!(word("mul.f32 %wd, %wa, %wb;", 3, bits(0.5), 0), 2);
    assert_eq!(word("mul.ftz.f32 %wd, %wa, %wb;", 0x8000_0003, bits(4.0), 0), 0x8000_0000);
    assert_eq!(word("add.sat.f32 %wd, %wa, %wb;", bits(0.75), bits(0.5), 0), 0x3f80_0000);
    assert_eq!(word("add.sat.f32 %wd, %wa, %wb;", NAN, 0, 0), 0);
    assert_eq!(word("sub.f32 %wd, %wa, %wb;", INF, INF, 0), CANONICAL);
    assert_eq!(f32s("div.rn.f32 %wd, %wa, %wb;", 1.0, 3.0, 0.0), 1.0 / 3.0);
    assert_eq!(f32s("sqrt.rn.f32 %wd, %wa;", 2.0, 0.0, 0.0), 2.0_f32.sqrt());
    assert_eq!(word("sqrt.rn.f32 %wd, %wa;", bits(-1.0), 0, 0), CANONICAL);
    assert_eq!(word("sqrt.rn.f32 %wd, %wa;", bits(-0.0), 0, 0), 0x8000_0000);
    assert_eq!(word("rcp.rn.f32 %wd, %wa;", bits(-0.0), 0, 0), 0xff80_0000);
}

#[test]
fn fma_rounds_once() {
    let e = f32::EPSILON;
    // (1+e)(1-e) - 1 = -e^2, lost where the product is rounded.
    assert_eq!(f32s("fma.rn.f32 %wd, %wa, %wb, %wc;", 1.0 + e, 1.0 - e, -1.0), -e * e);
    let cases = [
        (1.0 + e, 1.0 + e, 2.0_f32.powi(-60)),
        (3.0e38, 2.0, -3.0e38),
        (f32::MIN_POSITIVE, 0.5, f32::from_bits(1)),
        (f32::from_bits(1), f32::from_bits(1), 1.0),
        (f32::from_bits(3), 0.5, 0.0),
        (16_777_217.0, 16_777_215.0, 0.4),
    ];
    for (a, b, c) in cases {
        let expected = a.mul_add(b, c);
        assert_eq!(f32s("fma.rn.f32 %wd, %wa, %wb, %wc;", a, b, c).to_bits(), expected.to_bits(), "{a:e} {b:e} {c:e}");
    }
    assert_eq!(word("fma.rn.f32 %wd, %wa, %wb, %wc;", INF, 0, 0), CANONICAL);
    assert_eq!(word("fma.rn.f32 %wd, %wa, %wb, %wc;", INF, bits(1.0), bits(5.0)), INF as u32);
    let eps = f64::EPSILON;
    let value = double("fma.rn.f64 %dd, %da, %db, %dc;", bits64(1.0 + eps), bits64(1.0 - eps), bits64(-1.0));
    assert_eq!(f64::from_bits(value), -eps * eps);
}

#[test]
fn min_max_prefer_numbers_and_order_zeros() {
    assert_eq!(word("min.f32 %wd, %wa, %wb;", NAN, bits(1.0), 0), bits(1.0) as u32);
    assert_eq!(word("max.f32 %wd, %wa, %wb;", bits(1.0), NAN, 0), bits(1.0) as u32);
    assert_eq!(word("max.f32 %wd, %wa, %wb;", NAN, NAN, 0), CANONICAL);
    assert_eq!(word("min.NaN.f32 %wd, %wa, %wb;", NAN, bits(1.0), 0), CANONICAL);
    assert_eq!(word("min.f32 %wd, %wa, %wb;", 0, bits(-0.0), 0), 0x8000_0000);
    assert_eq!(word("max.f32 %wd, %wa, %wb;", bits(-0.0), 0, 0), 0);
    assert_eq!(double("min.f64 %dd, %da, %db;", bits64(f64::NAN), bits64(2.0), 0), bits64(2.0));
    assert_eq!(half("min.f16 %hd, %ha, %hb;", 0x7e00, 0x3c00, 0), 0x3c00);
    assert_eq!(half("max.NaN.f16 %hd, %ha, %hb;", 0x7e00, 0x3c00, 0), 0x7fff);
}

#[test]
fn signs_are_bits() {
    assert_eq!(word("neg.f32 %wd, %wa;", NAN, 0, 0), 0xffc0_0000);
    assert_eq!(word("neg.f32 %wd, %wa;", 0, 0, 0), 0x8000_0000);
    assert_eq!(word("abs.f32 %wd, %wa;", 0x8000_0001, 0, 0), 1);
    assert_eq!(word("abs.ftz.f32 %wd, %wa;", 0x8000_0001, 0, 0), 0);
    assert_eq!(word("copysign.f32 %wd, %wa, %wb;", bits(-1.0), bits(3.0), 0), bits(-3.0) as u32);
    assert_eq!(double("copysign.f64 %dd, %da, %db;", 0, bits64(-3.0), 0), bits64(3.0));
    assert_eq!(half("neg.f16 %hd, %ha;", 0x3c00, 0, 0), 0xbc00);
    assert_eq!(word("neg.f16x2 %wd, %wa;", 0x3c00_bc00, 0, 0), 0xbc00_3c00);
    assert_eq!(word("abs.f16x2 %wd, %wa;", 0xbc00_3c00, 0, 0), 0x3c00_3c00);
}

#[test]
fn halves_round_once() {
    assert_eq!(half("add.f16 %hd, %ha, %hb;", 0x6800, 0x3c00, 0), 0x6800, "2048 + 1 is a tie");
    assert_eq!(half("add.rn.f16 %hd, %ha, %hb;", 0x6801, 0x3c00, 0), 0x6802, "2050 + 1 is a tie");
    assert_eq!(half("mul.f16 %hd, %ha, %hb;", 0x7bff, 0x4000, 0), 0x7c00);
    assert_eq!(half("mul.f16 %hd, %ha, %hb;", 1, 0x3800, 0), 0, "half of the least subnormal");
    assert_eq!(half("mul.f16 %hd, %ha, %hb;", 3, 0x3800, 0), 2);
    assert_eq!(half("sub.f16 %hd, %ha, %hb;", 0x7c00, 0x7c00, 0), 0x7fff);
    // 2^15 * 2^15 overflows unless it is cancelled; the sum is exact.
    assert_eq!(half("fma.rn.f16 %hd, %ha, %hb, %hc;", 0x3c01, 0x3c01, 0xbc02), 0x0010, "(1+e)^2 - (1+2e) = 2^-20");
    // 1 + 2^-11 lies between two halves; the least subnormal product decides.
    assert_eq!(half("fma.rn.f16 %hd, %ha, %hb, %hc;", 0x1001, 0x3c00, 0x3c00), 0x3c01);
    assert_eq!(half("fma.rn.f16 %hd, %ha, %hb, %hc;", 0x1000, 0x3c00, 0x3c00), 0x3c00);
    assert_eq!(word("add.f16x2 %wd, %wa, %wb;", 0x3c00_4000, 0x3c00_c000, 0), 0x4000_0000);
    assert_eq!(word("fma.rn.f16x2 %wd, %wa, %wb, %wc;", 0x3c00_4000, 0x4000_4000, 0x3c00_3c00), 0x4200_4500);
    assert_eq!(half("add.sat.f16 %hd, %ha, %hb;", 0x4000, 0x3c00, 0), 0x3c00);
}

#[test]
fn comparisons_with_what_is_no_number() {
    for (name, expected) in [
        ("eq", false),
        ("ne", false),
        ("lt", false),
        ("ge", false),
        ("num", false),
        ("equ", true),
        ("neu", true),
        ("ltu", true),
        ("leu", true),
        ("gtu", true),
        ("geu", true),
        ("nan", true),
    ] {
        assert_eq!(pred(&format!("setp.{name}.f32 %p, %wa, %wb;"), NAN, 0, 0), expected, "{name}");
        assert_eq!(pred(&format!("setp.{name}.f64 %p, %da, %db;"), bits64(f64::NAN), 0, 0), expected, "{name}");
        assert_eq!(pred(&format!("setp.{name}.f16 %p, %ha, %hb;"), 0x3c00, 0x7e00, 0), expected, "{name}");
    }
    assert!(pred("setp.eq.f32 %p, %wa, %wb;", 0, 0x8000_0000, 0));
    assert!(pred("setp.num.f32 %p, %wa, %wb;", 0, 1, 0));
    assert!(pred("setp.lt.f32 %p, %wa, %wb;", 0, 1, 0));
    assert!(!pred("setp.lt.ftz.f32 %p, %wa, %wb;", 0, 1, 0));
}

#[test]
fn conversions_to_integers_saturate() {
    let cases: [(&str, f32, u32); 12] = [
        ("cvt.rzi.s32.f32", 2.0e10, 0x7fff_ffff),
        ("cvt.rzi.s32.f32", -2.0e10, 0x8000_0000),
        ("cvt.rzi.u32.f32", -1.0, 0),
        ("cvt.rzi.u32.f32", 5.0e9, u32::MAX),
        ("cvt.rzi.s32.f32", f32::NAN, 0),
        ("cvt.rni.s32.f32", 2.5, 2),
        ("cvt.rni.s32.f32", 3.5, 4),
        ("cvt.rmi.s32.f32", -1.5, (-2_i32) as u32),
        ("cvt.rpi.s32.f32", -1.5, (-1_i32) as u32),
        ("cvt.rzi.s32.f32", -1.9, (-1_i32) as u32),
        ("cvt.rpi.u32.f32", 1.0e-30, 1),
        ("cvt.rpi.ftz.u32.f32", 1.0e-40, 0),
    ];
    for (name, x, expected) in cases {
        assert_eq!(word(&format!("{name} %wd, %wa;"), bits(x), 0, 0), expected, "{name} {x}");
    }
    assert_eq!(double("cvt.rzi.s64.f32 %dd, %wa;", NAN, 0, 0), 1 << 63);
    assert_eq!(double("cvt.rzi.u64.f64 %dd, %da;", bits64(1.0e30), 0, 0), u64::MAX);
    assert_eq!(word("cvt.rzi.s32.f64 %wd, %da;", bits64(-3.7), 0, 0), (-3_i32) as u32);
    assert_eq!(half("cvt.rni.s16.f16 %hd, %ha;", 0x7bff, 0, 0), 0x7fff);
    assert_eq!(half("cvt.rzi.u16.f16 %hd, %ha;", 0xbc00, 0, 0), 0);
}

#[test]
fn conversions_between_integers() {
    assert_eq!(double("cvt.s64.s32 %dd, %wa;", 0x8000_0000, 0, 0), 0xffff_ffff_8000_0000);
    assert_eq!(double("cvt.u64.u32 %dd, %wa;", 0x8000_0000, 0, 0), 0x8000_0000);
    assert_eq!(word("cvt.u32.u16 %wd, %ha;", 0xffff, 0, 0), 0xffff);
    assert_eq!(word("cvt.s32.s16 %wd, %ha;", 0xffff, 0, 0), u32::MAX);
    assert_eq!(word("cvt.u32.u8 %wd, %wa;", 0x1ff, 0, 0), 0xff);
    assert_eq!(word("cvt.s32.s8 %wd, %wa;", 0x180, 0, 0), 0xffff_ff80);
    assert_eq!(word("cvt.sat.s8.s32 %wd, %wa;", 300, 0, 0), 127);
    assert_eq!(word("cvt.sat.u8.s32 %wd, %wa;", (-300_i32) as u32 as u64, 0, 0), 0);
    assert_eq!(word("cvt.sat.s32.u32 %wd, %wa;", 0xffff_ffff, 0, 0), 0x7fff_ffff);
    assert_eq!(half("cvt.u16.u32 %hd, %wa;", 0x1_2345, 0, 0), 0x2345);
}

#[test]
fn conversions_from_integers_round_as_told() {
    assert_eq!(word("cvt.rn.f32.u32 %wd, %wa;", 0xffff_ffff, 0, 0), 4_294_967_296.0_f32.to_bits());
    assert_eq!(word("cvt.rz.f32.u32 %wd, %wa;", 0xffff_ffff, 0, 0), 4_294_967_040.0_f32.to_bits());
    assert_eq!(word("cvt.rn.f32.s32 %wd, %wa;", 16_777_217, 0, 0), 16_777_216.0_f32.to_bits());
    assert_eq!(word("cvt.rp.f32.s32 %wd, %wa;", 16_777_217, 0, 0), 16_777_218.0_f32.to_bits());
    assert_eq!(word("cvt.rm.f32.s32 %wd, %wa;", (-16_777_217_i32) as u32 as u64, 0, 0), (-16_777_218.0_f32).to_bits());
    assert_eq!(word("cvt.rn.f32.u64 %wd, %da;", u64::MAX, 0, 0), 18_446_744_073_709_551_616.0_f32.to_bits());
    assert_eq!(double("cvt.rn.f64.s64 %dd, %da;", u64::MAX, 0, 0), bits64(-1.0));
    assert_eq!(double("cvt.rn.f64.u64 %dd, %da;", u64::MAX, 0, 0), bits64(u64::MAX as f64));
    assert_eq!(half("cvt.rn.f16.u32 %hd, %wa;", 65_520, 0, 0), 0x7c00);
    assert_eq!(half("cvt.rz.f16.u32 %hd, %wa;", 65_535, 0, 0), 0x7bff);
    assert_eq!(half("cvt.rn.f16.s32 %hd, %wa;", 2049, 0, 0), 0x6800);
}

#[test]
fn conversions_between_floats() {
    assert_eq!(half("cvt.rn.f16.f32 %hd, %wa;", bits(65_519.0), 0, 0), 0x7bff);
    assert_eq!(half("cvt.rn.f16.f32 %hd, %wa;", bits(65_520.0), 0, 0), 0x7c00);
    assert_eq!(half("cvt.rz.f16.f32 %hd, %wa;", bits(1.0e9), 0, 0), 0x7bff);
    assert_eq!(half("cvt.rn.f16.f32 %hd, %wa;", NAN, 0, 0), 0x7fff);
    assert_eq!(half("cvt.rn.f16.f32 %hd, %wa;", bits(2.0_f32.powi(-25)), 0, 0), 0);
    assert_eq!(half("cvt.rn.f16.f32 %hd, %wa;", bits(2.0_f32.powi(-25) * 1.001), 0, 0), 1);
    assert_eq!(half("cvt.rn.f16.f32 %hd, %wa;", bits(-5.960_464_5e-8), 0, 0), 0x8001);
    // 1 + 2^-11 + 2^-40: a second rounding through f32 would make a tie of it.
    assert_eq!(half("cvt.rn.f16.f64 %hd, %da;", bits64(1.0 + 2.0_f64.powi(-11) + 2.0_f64.powi(-40)), 0, 0), 0x3c01);
    assert_eq!(half("cvt.rn.f16.f64 %hd, %da;", bits64(1.0 + 2.0_f64.powi(-11)), 0, 0), 0x3c00);
    for pattern in 0..=0xffff_u64 {
        if pattern % 997 == 0 || pattern & 0x3ff < 2 {
            let wide = word("cvt.f32.f16 %wd, %ha;", pattern, 0, 0);
            let nan = pattern & 0x7fff > 0x7c00;
            let back = half("cvt.rn.f16.f32 %hd, %wa;", wide.into(), 0, 0);
            assert_eq!(u64::from(back), if nan { 0x7fff } else { pattern });
        }
    }
    assert_eq!(word("cvt.f32.f16 %wd, %ha;", 0x3555, 0, 0), 0x3eaa_a000);
    assert_eq!(word("cvt.f32.f16 %wd, %ha;", 1, 0, 0), 2.0_f32.powi(-24).to_bits());
    assert_eq!(word("cvt.rn.f32.f64 %wd, %da;", bits64(1.0e-46), 0, 0), 0);
    assert_eq!(word("cvt.rp.f32.f64 %wd, %da;", bits64(1.0e-46), 0, 0), 1);
    assert_eq!(word("cvt.rz.f32.f64 %wd, %da;", bits64(1.0e300), 0, 0), f32::MAX.to_bits());
    assert_eq!(double("cvt.f64.f32 %dd, %wa;", bits(0.1), 0, 0), bits64(f64::from(0.1_f32)));
    assert_eq!(word("cvt.rni.f32.f32 %wd, %wa;", bits(-0.3), 0, 0), 0x8000_0000);
    assert_eq!(word("cvt.rmi.f32.f32 %wd, %wa;", bits(-0.3), 0, 0), (-1.0_f32).to_bits());
    assert_eq!(word("cvt.sat.f32.f32 %wd, %wa;", NAN, 0, 0), 0);
    assert_eq!(word("cvt.rn.f16x2.f32 %wd, %wa, %wb;", bits(1.0), bits(2.0), 0), 0x3c00_4000);
}

#[test]
fn approximations_are_the_rounded_value() {
    assert_eq!(f32s("rcp.approx.f32 %wd, %wa;", 3.0, 0.0, 0.0), 1.0 / 3.0);
    assert_eq!(f32s("ex2.approx.f32 %wd, %wa;", -1.0, 0.0, 0.0), 0.5);
    assert_eq!(f32s("ex2.approx.ftz.f32 %wd, %wa;", -140.0, 0.0, 0.0), 0.0);
    assert_eq!(f32s("lg2.approx.f32 %wd, %wa;", 8.0, 0.0, 0.0), 3.0);
    assert_eq!(f32s("lg2.approx.f32 %wd, %wa;", 0.0, 0.0, 0.0), f32::NEG_INFINITY);
    assert_eq!(f32s("rsqrt.approx.f32 %wd, %wa;", 4.0, 0.0, 0.0), 0.5);
    assert_eq!(f32s("rsqrt.approx.f32 %wd, %wa;", -0.0, 0.0, 0.0), f32::NEG_INFINITY);
    assert_eq!(f32s("sqrt.approx.f32 %wd, %wa;", 9.0, 0.0, 0.0), 3.0);
    assert_eq!(f32s("sin.approx.f32 %wd, %wa;", 1.0, 0.0, 0.0), 1.0_f64.sin() as f32);
    assert_eq!(f32s("cos.approx.f32 %wd, %wa;", 0.0, 0.0, 0.0), 1.0);
    assert_eq!(f32s("tanh.approx.f32 %wd, %wa;", 40.0, 0.0, 0.0), 1.0);
    assert_eq!(f32s("div.full.f32 %wd, %wa, %wb;", 1.0, 3.0, 0.0), 1.0 / 3.0);
    assert_eq!(f32s("div.approx.f32 %wd, %wa, %wb;", 1.0, 4.0, 0.0), 0.25);
}
