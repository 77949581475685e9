//! Loads, stores, atomics and constants: known answers.

use crate::common::{double, half, parse, threads, word};
use ptx_interpreter::{Launch, Memory, RunOptions, run};

/// Stores `a` to the result's place, then runs `body` on it; the word that is there then.
fn through(body: &str, a: u64, b: u64) -> u64 {
    double(&format!("st.global.u64 [%out], %da; {body} ld.global.u64 %dd, [%out];"), a, b, 0)
}

#[test]
fn loads_extend_and_stores_cut() {
    let from = |body: &str, a: u64| double(&format!("st.global.u64 [%out], %da; {body}"), a, 0, 0);
    assert_eq!(from("ld.global.u8 %ha, [%out+1]; cvt.u64.u16 %dd, %ha;", 0xff80), 0xff);
    assert_eq!(from("ld.global.s8 %wd, [%out]; cvt.s64.s32 %dd, %wd;", 0x80), (-128_i64) as u64);
    assert_eq!(from("ld.global.s16 %dd, [%out];", 0x8000), (-32768_i64) as u64);
    assert_eq!(from("ld.global.s32 %dd, [%out+4];", 0x8000_0000_0000_0000), 0xffff_ffff_8000_0000);
    assert_eq!(from("ld.global.v2.b32 {%wa, %wb}, [%out]; mov.b64 %dd, {%wb, %wa};", 0x1_0000_0002), 0x2_0000_0001);
    assert_eq!(from("ld.global.v4.u16 {%ha, _, _, %hd}, [%out]; cvt.u64.u16 %dd, %hd;", 7 << 48), 7);
    assert_eq!(from("ld.volatile.global.u32 %wd, [%out]; cvt.u64.u32 %dd, %wd;", 5), 5);
    assert_eq!(from("ld.global.L1::no_allocate.L2::128B.u32 %wd, [%out]; cvt.u64.u32 %dd, %wd;", 5), 5);
    assert_eq!(through("st.global.u8 [%out+1], %hb;", 0x1111, 0x2_22ff), 0xff11);
    assert_eq!(through("st.global.v2.u16 [%out+4], {%hb, %ha};", 1, 2), 0x0001_0002_0000_0001);
    assert_eq!(through("st.relaxed.gpu.global.u32 [%out], 9;", 1 << 40, 0), 1 << 40 | 9);
}

#[test]
fn atomics_return_the_old_and_leave_the_new() {
    let cases = [
        ("add.u32", 0xffff_ffff, 2, 1),
        ("min.s32", 5, 0xffff_ffff, 0xffff_ffff),
        ("min.u32", 5, 0xffff_ffff, 5),
        ("max.s32", 5, 0xffff_ffff, 5),
        ("max.u32", 5, 0xffff_ffff, 0xffff_ffff),
        ("and.b32", 12, 10, 8),
        ("or.b32", 12, 10, 14),
        ("xor.b32", 12, 10, 6),
        ("exch.b32", 12, 10, 10),
        ("inc.u32", 3, 3, 0),
        ("inc.u32", 2, 3, 3),
        ("dec.u32", 0, 9, 9),
        ("dec.u32", 10, 9, 9),
        ("dec.u32", 4, 9, 3),
        ("add.f32", 0x3f80_0000, 0x4000_0000, 0x4040_0000),
        ("add.noftz.f16x2", 0x3c00_4000, 0x3c00_3c00, 0x4000_4200),
    ];
    for (op, old, operand, new) in cases {
        assert_eq!(through(&format!("atom.global.{op} %wd, [%out], %wb;"), old, operand), new, "{op}");
        let returned = word(
            &format!("st.global.u64 [%out], %da; atom.relaxed.gpu.global.{op} %wd, [%out], %wb;"),
            old,
            operand,
            0,
        );
        assert_eq!(u64::from(returned), old, "{op}");
        if op != "exch.b32" {
            assert_eq!(through(&format!("red.global.{op} [%out], %wb;"), old, operand), new, "red.{op}");
        }
    }
    assert_eq!(through("atom.global.cas.b32 %wd, [%out], 5, %wb;", 5, 6), 6);
    assert_eq!(through("atom.global.cas.b32 %wd, [%out], 4, %wb;", 5, 6), 5);
    assert_eq!(through("atom.global.cas.b64 %dd, [%out], %da, %db;", 1 << 40, 6), 6);
    assert_eq!(through("atom.global.cas.b16 %hd, [%out], %ha, %hb;", 0x1_0005, 6), 0x1_0006);
    assert_eq!(through("atom.global.add.u64 %dd, [%out], %db;", u64::MAX, 2), 1);
    assert_eq!(through("atom.global.min.s64 %dd, [%out], %db;", 3, u64::MAX), u64::MAX);
    assert_eq!(
        through("atom.global.add.f64 %dd, [%out], %db;", 1.0_f64.to_bits(), 0.5_f64.to_bits()),
        1.5_f64.to_bits()
    );
    assert_eq!(through("atom.global.add.noftz.f16 %hd, [%out], %hb;", 0x3c00, 0x3c00), 0x4000);
    // Subnormals are flushed in global memory and kept in shared memory.
    assert_eq!(through("atom.global.add.f32 %wd, [%out], %wb;", 1, 1), 0);
    let shared = "st.shared.u32 [s], 1; atom.shared.add.f32 %r1, [s], 0f00000001; ld.shared.u32 %r0, [s];";
    assert_eq!(threads(".shared .u32 s;", shared, 1), [2]);
}

#[test]
fn local_memory_belongs_to_a_thread() {
    let body = "mov.u32 %r1, mine; st.local.u32 [%r1+4], %t; st.local.u32 [mine], 1; bar.sync 0;
        ld.local.v2.u32 {%r2, %r3}, [mine]; add.u32 %r0, %r2, %r3;";
    assert_eq!(threads(".local .align 8 .b8 mine[8];", body, 64), (1..65).collect::<Vec<u32>>());
}

#[test]
fn grids_and_blocks_of_three_dimensions() {
    let text = ".version 7.0 .target sm_70 .address_size 64
        .const .align 4 .u32 factors[3] = {1, 10, 100};
        .const .f64 half = 0.5;
        .visible .entry k(.param .u64 out) .maxntid 24, 1, 1 {
            .reg .b32 %r<16>; .reg .b64 %d<4>;
            mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ctaid.y; mov.u32 %r2, %ctaid.z;
            mov.u32 %r3, %nctaid.x; mov.u32 %r4, %nctaid.y;
            mad.lo.u32 %r5, %r2, %r4, %r1; mad.lo.u32 %r5, %r5, %r3, %r0;
            mov.u32 %r6, %tid.x; mov.u32 %r7, %tid.y; mov.u32 %r8, %tid.z;
            mov.u32 %r9, %ntid.x; mov.u32 %r10, %ntid.y;
            mad.lo.u32 %r11, %r8, %r10, %r7; mad.lo.u32 %r11, %r11, %r9, %r6;
            mad.lo.u32 %r12, %r5, 24, %r11;
            ld.param.u64 %d0, [out]; mad.wide.u32 %d1, %r12, 4, %d0;
            mov.u64 %d2, factors;
            ld.const.u32 %r13, [%d2+8]; ld.const.u32 %r14, [factors+4];
            mad.lo.u32 %r13, %r12, %r13, %r14;
            st.global.u32 [%d1], %r13;
            ret;
        }";
    let module = parse(text);
    let mut memory = Memory::new();
    let count = 2 * 3 * 4 * 24;
    let out = memory.alloc(count * 4, 4);
    let params = out.to_le_bytes().to_vec();
    let launch = Launch { grid: [2, 3, 4], block: [4, 3, 2], params, ..Launch::default() };
    for shuffle in [None, Some(9)] {
        let options = RunOptions { shuffle, ..RunOptions::strict() };
        run(module.kernel("k").unwrap(), &mut memory, &launch, &options).unwrap_or_else(|f| panic!("{f}"));
        let words = memory.read(out, count * 4).unwrap().chunks_exact(4);
        let words: Vec<u32> = words.map(|w| u32::from_le_bytes(w.try_into().unwrap())).collect();
        assert_eq!(words, (0..count as u32).map(|i| i * 100 + 10).collect::<Vec<_>>());
        memory.write(out, &vec![0; count * 4]).unwrap();
    }
    assert_eq!(half("mov.u16 %hd, 3;", 0, 0, 0), 3);
}

/// Parameters by value are read through addresses that are computed, within one of them.
#[test]
fn parameters_have_addresses() {
    let text = |at: &str| {
        format!(
            ".version 7.0 .target sm_70 .address_size 64
            .visible .entry k(.param .u64 out, .param .align 16 .b8 table[48], .param .u64 behind) {{
                .reg .b32 %r<8>; .reg .b64 %d<8>;
                ld.param.u64 %d0, [out]; mov.u64 %d1, table;
                mov.u32 %r0, %tid.x; mad.wide.u32 %d2, %r0, 16, %d1;
                ld.param.v2.u32 {{%r1, %r2}}, [%d2+{at}];
                mad.wide.u32 %d3, %r0, 8, %d0; st.global.v2.u32 [%d3], {{%r2, %r1}};
                ret;
            }}"
        )
    };
    let launch = |out: u64| {
        let table = (0..12_u32).chain([77, 78]).flat_map(u32::to_le_bytes);
        let params = out.to_le_bytes().into_iter().chain([0; 8]).chain(table).collect();
        Launch { grid: [1; 3], block: [3, 1, 1], params, ..Launch::default() }
    };
    let mut memory = Memory::new();
    let out = memory.alloc(24, 8);
    let module = parse(&text("8"));
    let kernel = module.kernel("k").unwrap();
    run(kernel, &mut memory, &launch(out), &RunOptions::strict()).unwrap_or_else(|f| panic!("{f}"));
    let words: Vec<u8> = memory.read(out, 24).unwrap().iter().step_by(4).copied().collect();
    assert_eq!(words, [3, 2, 7, 6, 11, 10]);
    // The third thread leaves the parameters.
    let module = parse(&text("24"));
    let fault = run(module.kernel("k").unwrap(), &mut memory, &launch(out), &RunOptions::strict()).unwrap_err();
    assert!(fault.to_string().contains("param"), "{fault}");
}
