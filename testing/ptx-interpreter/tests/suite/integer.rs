//! Integers, logic, shifts, moves and predicates: known answers, at the edges above all.

use crate::common::{double, half, pred, word};

const MIN: u64 = 0x8000_0000;
const ALL: u64 = 0xffff_ffff;
const MIN64: u64 = 1 << 63;

#[test]
fn add_sub_wrap_and_saturate() {
    assert_eq!(word("add.u32 %wd, %wa, %wb;", ALL, 2, 0), 1);
    assert_eq!(word("sub.s32 %wd, %wa, %wb;", 1, 2, 0), u32::MAX);
    assert_eq!(word("add.sat.s32 %wd, %wa, %wb;", 0x7fff_ffff, 1, 0), 0x7fff_ffff);
    assert_eq!(word("sub.sat.s32 %wd, %wa, %wb;", MIN, 1, 0), 0x8000_0000);
    assert_eq!(double("add.s64 %dd, %da, -1;", 0, 0, 0), u64::MAX);
    assert_eq!(half("add.u16 %hd, %ha, %hb;", 0xffff, 2, 0), 1);
    assert_eq!(half("sub.s16 %hd, %ha, -32768;", 0, 0, 0), 0x8000);
}

#[test]
fn products_low_high_and_wide() {
    assert_eq!(word("mul.lo.u32 %wd, %wa, %wb;", ALL, ALL, 0), 1);
    assert_eq!(word("mul.hi.u32 %wd, %wa, %wb;", ALL, ALL, 0), 0xffff_fffe);
    assert_eq!(word("mul.hi.s32 %wd, %wa, %wb;", ALL, ALL, 0), 0);
    assert_eq!(word("mul.hi.s32 %wd, %wa, %wb;", MIN, MIN, 0), 0x4000_0000);
    assert_eq!(double("mul.hi.u64 %dd, %da, %db;", u64::MAX, u64::MAX, 0), u64::MAX - 1);
    assert_eq!(double("mul.hi.s64 %dd, %da, %db;", MIN64, 2, 0), u64::MAX);
    assert_eq!(double("mul.wide.u32 %dd, %wa, %wb;", ALL, ALL, 0), 0xffff_fffe_0000_0001);
    assert_eq!(double("mul.wide.s32 %dd, %wa, %wb;", ALL, 5, 0), (-5_i64) as u64);
    assert_eq!(word("mul.wide.s16 %wd, %ha, %hb;", 0xffff, 0x7fff, 0), (-0x7fff_i32) as u32);
    assert_eq!(word("mul.wide.u16 %wd, %ha, %hb;", 0xffff, 0xffff, 0), 0xfffe_0001);
    assert_eq!(half("mul.lo.u16 %hd, %ha, %hb;", 0x100, 0x101, 0), 0x100);
    assert_eq!(half("mul.hi.u16 %hd, %ha, %hb;", 0x100, 0x101, 0), 1);
    assert_eq!(word("mad.lo.s32 %wd, %wa, %wb, %wc;", 3, ALL, 10), 7);
    assert_eq!(word("mad.hi.u32 %wd, %wa, %wb, %wc;", ALL, ALL, 10), 8);
    assert_eq!(double("mad.wide.u32 %dd, %wa, %wb, %dc;", ALL, ALL, 1), 0xffff_fffe_0000_0002);
    assert_eq!(double("mad.wide.s32 %dd, %wa, 4, %dc;", ALL, 0, 100), 96);
    assert_eq!(double("mad.lo.u64 %dd, %da, %db, %dc;", 1 << 40, 1 << 30, 7), 7);
    assert_eq!(word("sad.s32 %wd, %wa, %wb, %wc;", ALL, 5, 100), 106);
}

#[test]
fn division_and_remainder_truncate() {
    assert_eq!(word("div.s32 %wd, %wa, %wb;", (-7_i32) as u32 as u64, 2, 0), (-3_i32) as u32);
    assert_eq!(word("rem.s32 %wd, %wa, %wb;", (-7_i32) as u32 as u64, 2, 0), (-1_i32) as u32);
    assert_eq!(word("div.u32 %wd, %wa, %wb;", ALL, 2, 0), 0x7fff_ffff);
    assert_eq!(word("div.s32 %wd, %wa, %wb;", MIN, ALL, 0), 0x8000_0000);
    assert_eq!(word("rem.s32 %wd, %wa, %wb;", MIN, ALL, 0), 0);
    assert_eq!(double("div.u64 %dd, %da, %db;", u64::MAX, 3, 0), u64::MAX / 3);
    assert_eq!(double("rem.s64 %dd, %da, %db;", (-9_i64) as u64, 5, 0), (-4_i64) as u64);
    assert_eq!(half("div.s16 %hd, %ha, %hb;", 0xfff9, 2, 0), (-3_i16) as u16);
}

#[test]
fn min_max_abs_neg_know_signs() {
    assert_eq!(word("min.s32 %wd, %wa, %wb;", ALL, 1, 0), u32::MAX);
    assert_eq!(word("min.u32 %wd, %wa, %wb;", ALL, 1, 0), 1);
    assert_eq!(word("max.s32 %wd, %wa, %wb;", MIN, 1, 0), 1);
    assert_eq!(double("max.u64 %dd, %da, %db;", MIN64, 1, 0), MIN64);
    assert_eq!(double("max.s64 %dd, %da, %db;", MIN64, 1, 0), 1);
    assert_eq!(half("min.s16 %hd, %ha, %hb;", 0x8000, 1, 0), 0x8000);
    assert_eq!(word("abs.s32 %wd, %wa;", MIN, 0, 0), 0x8000_0000);
    assert_eq!(word("abs.s32 %wd, %wa;", ALL, 0, 0), 1);
    assert_eq!(word("neg.s32 %wd, %wa;", MIN, 0, 0), 0x8000_0000);
    assert_eq!(double("neg.s64 %dd, %da;", 1, 0, 0), u64::MAX);
}

#[test]
fn shifts_clamp_their_count() {
    assert_eq!(word("shl.b32 %wd, %wa, %wb;", 1, 31, 0), 1 << 31);
    assert_eq!(word("shl.b32 %wd, %wa, %wb;", 1, 32, 0), 0);
    assert_eq!(word("shl.b32 %wd, %wa, %wb;", 1, ALL, 0), 0);
    assert_eq!(word("shr.u32 %wd, %wa, %wb;", MIN, 32, 0), 0);
    assert_eq!(word("shr.s32 %wd, %wa, %wb;", MIN, 32, 0), u32::MAX);
    assert_eq!(word("shr.s32 %wd, %wa, %wb;", MIN, 31, 0), u32::MAX);
    assert_eq!(word("shr.b32 %wd, %wa, 4;", MIN, 0, 0), 0x0800_0000);
    assert_eq!(double("shl.b64 %dd, %da, %wb;", 1, 63, 0), MIN64);
    assert_eq!(double("shr.s64 %dd, %da, 200;", MIN64, 0, 0), u64::MAX);
    assert_eq!(half("shr.s16 %hd, %ha, %wb;", 0x8000, 16, 0), 0xffff);
    assert_eq!(half("shl.b16 %hd, %ha, %wb;", 1, 16, 0), 0);
    assert_eq!(half("shr.u16 %hd, %ha, 4;", 0x8000, 0, 0), 0x0800);
    assert_eq!(word("shf.l.wrap.b32 %wd, %wa, %wb, %wc;", MIN, 1, 33), 3);
    assert_eq!(word("shf.l.clamp.b32 %wd, %wa, %wb, %wc;", 0x1234, 1, 40), 0x1234);
    assert_eq!(word("shf.r.wrap.b32 %wd, %wa, %wb, %wc;", 0, 1, 1), 1 << 31);
    assert_eq!(word("shf.r.clamp.b32 %wd, %wa, %wb, %wc;", 0, 0x77, 99), 0x77);
}

#[test]
fn bits_are_counted_found_and_moved() {
    assert_eq!(word("popc.b32 %wd, %wa;", 0xf0f0_0001, 0, 0), 9);
    assert_eq!(word("popc.b64 %wd, %da;", u64::MAX, 0, 0), 64);
    assert_eq!(word("clz.b32 %wd, %wa;", 0, 0, 0), 32);
    assert_eq!(word("clz.b64 %wd, %da;", 1, 0, 0), 63);
    assert_eq!(word("brev.b32 %wd, %wa;", 1, 0, 0), 1 << 31);
    assert_eq!(double("brev.b64 %dd, %da;", 2, 0, 0), 1 << 62);
    assert_eq!(word("bfind.u32 %wd, %wa;", 0, 0, 0), u32::MAX);
    assert_eq!(word("bfind.u32 %wd, %wa;", MIN, 0, 0), 31);
    assert_eq!(word("bfind.s32 %wd, %wa;", ALL, 0, 0), u32::MAX);
    assert_eq!(word("bfind.s32 %wd, %wa;", 0xffff_fffe, 0, 0), 0);
    assert_eq!(word("bfind.shiftamt.u32 %wd, %wa;", 1, 0, 0), 31);
    assert_eq!(word("bfind.s64 %wd, %da;", MIN64, 0, 0), 62);
    assert_eq!(word("not.b32 %wd, %wa;", 1, 0, 0), !1);
    assert_eq!(word("prmt.b32 %wd, %wa, %wb, 0x7531;", 0x4433_2211, 0x8877_6655, 0), 0x8866_4422);
    assert_eq!(word("prmt.b32 %wd, %wa, %wb, 0xf8;", 0x80, 0x8877_6655, 0) & 0xffff, 0xffff);
    assert_eq!(word("lop3.b32 %wd, %wa, %wb, %wc, 0x96;", 0b1100, 0b1010, 0b1111), 0b1001);
    assert_eq!(word("lop3.b32 %wd, %wa, %wb, %wc, 0xCA;", 0xff00, 0x1234, 0x5678), 0x1278);
}

#[test]
fn bit_fields_at_every_edge() {
    assert_eq!(word("bfe.u32 %wd, %wa, 4, 8;", 0x1234_5678, 0, 0), 0x67);
    assert_eq!(word("bfe.s32 %wd, %wa, 4, 8;", 0x0000_0800, 0, 0), 0xffff_ff80);
    assert_eq!(word("bfe.u32 %wd, %wa, %wb, %wc;", ALL, 28, 8), 0xf);
    assert_eq!(word("bfe.s32 %wd, %wa, %wb, %wc;", MIN, 28, 8), 0xffff_fff8);
    assert_eq!(word("bfe.u32 %wd, %wa, %wb, %wc;", ALL, 0, 0), 0);
    assert_eq!(word("bfe.s32 %wd, %wa, %wb, %wc;", ALL, 3, 0), 0);
    assert_eq!(word("bfe.u32 %wd, %wa, %wb, %wc;", ALL, 32, 4), 0);
    assert_eq!(word("bfe.s32 %wd, %wa, %wb, %wc;", MIN, 40, 4), u32::MAX);
    assert_eq!(word("bfe.u32 %wd, %wa, %wb, %wc;", 0x1234_5678, 0, 32), 0x1234_5678);
    assert_eq!(double("bfe.s64 %dd, %da, 60, 4;", 0xf << 60, 0, 0), u64::MAX);
    assert_eq!(word("bfi.b32 %wd, %wa, %wb, 8, 8;", 0xab, 0x1111_1111, 0), 0x1111_ab11);
    assert_eq!(word("bfi.b32 %wd, %wa, %wb, %wc, 32;", 0xab, 0x1111_1111, 0), 0xab);
    assert_eq!(word("bfi.b32 %wd, %wa, %wb, %wc, 8;", 0xab, 0x1111_1111, 28), 0xb111_1111);
    assert_eq!(word("bfi.b32 %wd, %wa, %wb, %wc, 8;", 0xab, 0x1111_1111, 32), 0x1111_1111);
    assert_eq!(word("bfi.b32 %wd, %wa, %wb, 4, %wc;", 0xab, 0x1111_1111, 0), 0x1111_1111);
    assert_eq!(double("bfi.b64 %dd, %da, %db, 32, 32;", 0xab, 7, 0), 0xab_0000_0007);
}

#[test]
fn dp4a_takes_signs_per_operand() {
    assert_eq!(word("dp4a.u32.u32 %wd, %wa, %wb, %wc;", 0xff01_02ff, 0x0101_0101, 10), 10 + 255 + 1 + 2 + 255);
    assert_eq!(word("dp4a.s32.s32 %wd, %wa, %wb, %wc;", 0xff01_02ff, 0x0101_0101, 10), 11);
    assert_eq!(word("dp4a.s32.u32 %wd, %wa, %wb, %wc;", 0xff, 0xff, 0), (-255_i32) as u32);
}

#[test]
fn predicates_combine() {
    assert!(pred("setp.lt.s32 %p, %wa, %wb;", ALL, 0, 0));
    assert!(!pred("setp.lt.u32 %p, %wa, %wb;", ALL, 0, 0));
    assert!(pred("setp.eq.u32 %q, %wa, 1; setp.ge.and.u32 %p, %wa, %wb, %q;", 1, 1, 0));
    assert!(!pred("setp.eq.u32 %q, %wa, 1; setp.ge.and.u32 %p, %wa, %wb, !%q;", 1, 1, 0));
    assert!(pred("setp.eq.u32 %q|%p, %wa, 1;", 2, 0, 0));
    assert!(pred("setp.ne.b64 %p, %da, %db;", 1 << 40, 0, 0));
    assert!(pred("setp.gt.s16 %p, %ha, %hb;", 1, 0xffff, 0));
    assert!(pred("setp.eq.u32 %q, %wa, %wa; xor.pred %s, %q, %q; not.pred %p, %s;", 0, 0, 0));
    assert!(pred("mov.pred %q, -1; mov.pred %s, 0; or.pred %p, %q, %s;", 0, 0, 0));
    assert!(!pred("mov.pred %q, -1; mov.pred %s, 0; and.pred %p, %q, %s;", 0, 0, 0));
    assert_eq!(word("setp.eq.u32 %p, %wa, 1; selp.b32 %wd, %wb, %wc, !%p;", 1, 5, 6), 6);
    assert_eq!(
        word("mov.u32 %wd, 3; setp.eq.u32 %p, %wa, 1; @%p mov.u32 %wd, 4; @!%p add.u32 %wd, %wd, 2;", 1, 0, 0),
        4
    );
    assert_eq!(
        word("mov.u32 %wd, 3; setp.eq.u32 %p, %wa, 1; @%p mov.u32 %wd, 4; @!%p add.u32 %wd, %wd, 2;", 2, 0, 0),
        5
    );
}

#[test]
fn moves_pack_and_unpack() {
    assert_eq!(word("mov.b32 %wd, {%ha, %hb};", 0x1234, 0x5678, 0), 0x5678_1234);
    assert_eq!(half("mov.b32 {%he, %hd}, %wa;", 0x5678_1234, 0, 0), 0x5678);
    assert_eq!(double("mov.b64 %dd, {%wa, %wb};", 1, 2, 0), 0x2_0000_0001);
    assert_eq!(word("mov.b64 {_, %wd}, %da;", 0x2_0000_0001, 0, 0), 2);
    assert_eq!(double("mov.b64 %dd, {%ha, %hb, %hc, %ha};", 1, 2, 3), 0x0001_0003_0002_0001);
    assert_eq!(half("mov.b64 {%he, %he, %hd, %he}, %da;", 0x0001_0003_0002_0001, 0, 0), 3);
    assert_eq!(word("mov.b32 %wd, 0f3F800000;", 0, 0, 0), 0x3f80_0000);
    assert_eq!(word("mov.u32 %wd, 0b101;", 0, 0, 0), 5);
    assert_eq!(word("mov.u32 %wd, 017;", 0, 0, 0), 15);
    assert_eq!(word("mov.u32 %wd, WARP_SZ;", 0, 0, 0), 32);
}
