//! Matrices in registers: `ldmatrix`, `stmatrix`, `mma` and the conversions that go with them, against products computed here.

use crate::common::{half, parse, threads, word};
use ptx_interpreter::{Launch, Memory, RunOptions, run};

/// Runs `body` in one warp with the parameters `out` (`%out`) and `input` (`%in`), which hold these bytes.
fn warp(body: &str, input: &[u8], out_bytes: usize) -> Vec<u8> {
    let text = format!(
        ".version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 input)
{{
    .reg .b64 %out, %in, %to, %x<24>;
    .reg .b32 %lane, %g, %c, %r<32>;
    .shared .align 128 .b8 tile[2048];
    ld.param.u64 %out, [out];
    ld.param.u64 %in, [input];
    mov.u32 %lane, %laneid;
    shr.u32 %g, %lane, 2;
    and.b32 %c, %lane, 3;
    {body}
    ret;
}}
"
    );
    let module = parse(&text);
    let mut memory = Memory::new();
    let input = memory.alloc_from(input);
    let out = memory.alloc(out_bytes, 256);
    let params = [out, input].iter().flat_map(|x| x.to_le_bytes()).collect();
    let launch = Launch { grid: [1; 3], block: [32, 1, 1], params, ..Launch::default() };
    run(module.kernel("k").expect("k"), &mut memory, &launch, &RunOptions::strict()).unwrap_or_else(|f| panic!("{f}"));
    memory.read(out, out_bytes).expect("the results").to_vec()
}

fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect()
}

/// Small numbers, different for each place, that every type of elements holds.
fn small(i: usize) -> i32 {
    (i * 7 + i / 5) as i32 % 5 - 2
}

/// `%r0..` from the input, one word of each register for each lane, register after register.
fn load(registers: std::ops::Range<usize>, first: usize) -> String {
    registers
        .enumerate()
        .map(|(i, register)| {
            format!("mad.wide.u32 %to, %lane, 4, %in; ld.global.u32 %r{register}, [%to+{}];\n", (first + i) * 128)
        })
        .collect()
}

fn store(registers: std::ops::Range<usize>) -> String {
    let one = |(i, register): (usize, usize)| {
        format!("mad.wide.u32 %to, %lane, 4, %out; st.global.u32 [%to+{}], %r{register};\n", i * 128)
    };
    registers.enumerate().map(one).collect()
}

/// D of `mma.m16n8kK` with words for A (4), B (2) and C (4): rows of A and columns of B are packed as the ISA's figures
/// say, lane by lane.
fn product(types: &str, k: usize, pack: impl Fn(i32) -> u32, bits: usize, add: impl Fn(i32) -> u32) -> Vec<u32> {
    let per = 32 / bits;
    let element = |row: usize, column: usize, which: usize| small(row * 31 + column * 3 + which);
    let gather = |which: usize, place: &dyn Fn(usize, usize, usize) -> (usize, usize), register: usize, lane: usize| {
        (0..per).fold(0u32, |bits_so_far, i| {
            let (row, column) = place(register, lane, i);
            bits_so_far | pack(element(row, column, which)) << (bits * i)
        })
    };
    // Lane 4 g + c: rows g and g + 8 of A, column g of B; neighbours along k from `per c` on, and half of k further.
    let a_place = |register: usize, lane: usize, i: usize| {
        (lane / 4 + register % 2 * 8, lane % 4 * per + i + register / 2 * 4 * per)
    };
    let b_place = |register: usize, lane: usize, i: usize| (lane / 4, lane % 4 * per + i + register * 4 * per);
    let mut input = Vec::new();
    for register in 0..4 {
        (0..32).for_each(|lane| input.extend(gather(0, &a_place, register, lane).to_le_bytes()));
    }
    for register in 0..2 {
        (0..32).for_each(|lane| input.extend(gather(1, &b_place, register, lane).to_le_bytes()));
    }
    let d_place = |register: usize, lane: usize| (lane / 4 + register / 2 * 8, lane % 4 * 2 + register % 2);
    for register in 0..4 {
        (0..32).for_each(|lane| {
            let (row, column) = d_place(register, lane);
            input.extend(add(element(row, column, 2)).to_le_bytes());
        });
    }
    let body = format!(
        "{}mma.sync.aligned.m16n8k{k}.row.col.{types} {{%r20, %r21, %r22, %r23}}, {{%r0, %r1, %r2, %r3}}, \
         {{%r4, %r5}}, {{%r6, %r7, %r8, %r9}};\n{}",
        load(0..10, 0),
        store(20..24)
    );
    let found = words(&warp(&body, &input, 512));
    for register in 0..4 {
        for lane in 0..32 {
            let (row, column) = d_place(register, lane);
            let products = (0..k).map(|i| element(row, i, 0) * element(column, i, 1));
            let sum = products.sum::<i32>() + element(row, column, 2);
            assert_eq!(found[register * 32 + lane], add(sum), "{types} row {row} column {column}");
        }
    }
    found
}

fn f16(x: i32) -> u32 {
    // -2 to 2 in binary16.
    [0xc000, 0xbc00, 0, 0x3c00, 0x4000][(x + 2) as usize]
}

fn float(x: i32) -> u32 {
    (x as f32).to_bits()
}

#[test]
fn mma_multiplies_every_type_of_elements() {
    product("f32.f16.f16.f32", 16, f16, 16, float);
    product("f32.bf16.bf16.f32", 16, |x| float(x) >> 16, 16, float);
    // The low bits of tf32 are not read.
    product("f32.tf32.tf32.f32", 8, |x| float(x) | 0x1abc, 32, float);
    product("s32.s8.s8.s32", 32, |x| x as u32 & 0xff, 8, |x| x as u32);
    let e4m3 = |x: i32| [0xc0, 0xb8, 0, 0x38, 0x40][(x + 2) as usize];
    let e5m2 = |x: i32| f16(x) >> 8;
    product("f32.e4m3.e4m3.f32", 32, e4m3, 8, float);
    product("f32.e5m2.e5m2.f32", 32, e5m2, 8, float);
}

#[test]
fn mma_of_doubles_is_fused_along_k() {
    // A is 1 + lane, B is 3, C is 0.5: row g of A has the lanes 4 g to 4 g + 3.
    let body = "
        add.u32 %r0, %lane, 1;
        cvt.rn.f64.u32 %x0, %r0;
        mov.f64 %x1, 0d4008000000000000;
        mov.f64 %x2, 0d3FE0000000000000;
        mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%x3, %x4}, {%x0}, {%x1}, {%x2, %x2};
        mad.wide.u32 %to, %lane, 8, %out;
        st.global.f64 [%to], %x4;";
    let bytes = warp(body, &[], 256);
    for (lane, bytes) in bytes.chunks_exact(8).enumerate() {
        let row = (lane / 4 * 4) as f64;
        let sum = f64::from_le_bytes(bytes.try_into().expect("8 bytes"));
        assert_eq!(sum, 3.0 * (4.0 * row + 10.0) + 0.5, "lane {lane}");
    }
}

#[test]
fn matrices_go_to_shared_memory_and_back() {
    // Four matrices of 8 rows of 16 bytes: half j of row i of matrix m is 256 m + 16 i + j.
    let fill = "
        mov.u32 %r0, tile;
        shl.b32 %r1, %lane, 4;
        add.u32 %r0, %r0, %r1;
        mov.u32 %r30, 1;
        shl.b32 %r2, %lane, 5;
        and.b32 %r3, %lane, 7;
        shl.b32 %r3, %r3, 4;
        shr.u32 %r2, %lane, 3;
        shl.b32 %r2, %r2, 8;
        add.u32 %r2, %r2, %r3;
        add.u32 %r4, %r2, 1;
        shl.b32 %r4, %r4, 16;
        or.b32 %r4, %r4, %r2;
        add.u32 %r5, %r4, 0x20002;
        add.u32 %r6, %r5, 0x20002;
        add.u32 %r7, %r6, 0x20002;
        st.shared.v4.b32 [%r0], {%r4, %r5, %r6, %r7};
        bar.warp.sync 0xffffffff;";
    for (trans, value) in [("", [16, 2, 1]), (".trans", [1, 32, 16])] {
        let load = format!("ldmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 {{%r10, %r11, %r12, %r13}}, [%r0];");
        let found = words(&warp(&format!("{fill}{load}{}", store(10..14)), &[], 512));
        let [per_g, per_c, next] = value;
        for (i, &word) in found.iter().enumerate() {
            let (matrix, g, c) = (i / 32 * 256, i % 32 / 4 * per_g, i % 4 * per_c);
            let low = matrix + g + c;
            assert_eq!(word as usize, low | (low + next) << 16, "{trans} register {} lane {}", i / 32, i % 32);
        }
        // Stored the same way, they come back.
        let store_again = format!(
            "{load}stmatrix.sync.aligned.m8n8.x4{trans}.shared.b16 [%r0+1024], {{%r10, %r11, %r12, %r13}};
             bar.warp.sync 0xffffffff;
             ld.shared.v4.b32 {{%r10, %r11, %r12, %r13}}, [%r0+1024];
             sub.u32 %r10, %r10, %r4; sub.u32 %r11, %r11, %r5; sub.u32 %r12, %r12, %r6; sub.u32 %r13, %r13, %r7;"
        );
        let found = words(&warp(&format!("{fill}{store_again}{}", store(10..14)), &[], 512));
        assert!(found.iter().all(|&word| word == 0), "{trans}");
    }
}

#[test]
fn small_floats_are_converted_as_the_isa_says() {
    let one = |x: f32| u64::from(x.to_bits());
    assert_eq!(word("cvt.rna.tf32.f32 %wd, %wa;", one(1.0 + 1.0 / 2048.0), 0, 0), float(1) + (1 << 13));
    assert_eq!(half("cvt.rn.bf16.f32 %hd, %wa;", one(1.0 + 1.0 / 256.0), 0, 0), 0x3f80);
    assert_eq!(half("cvt.rn.bf16.f32 %hd, %wa;", one(1.0 + 3.0 / 256.0), 0, 0), 0x3f82);
    assert_eq!(word("cvt.f32.bf16 %wd, %ha;", 0xc040, 0, 0), (-3.0f32).to_bits());
    assert_eq!(word("cvt.rn.bf16x2.f32 %wd, %wa, %wb;", one(1.0), one(-2.0), 0), 0x3f80_c000);
    // The first operand is the high byte; what is too large becomes the largest.
    let pack = |a: f32, b: f32| half("cvt.rn.satfinite.e4m3x2.f32 %hd, %wa, %wb;", one(a), one(b), 0);
    assert_eq!((pack(1.0, -2.0), pack(1e9, 0.0), pack(f32::NAN, 448.0)), (0x38c0, 0x7e00, 0x7f7e));
    assert_eq!(half("cvt.rn.satfinite.e5m2x2.f32 %hd, %wa, %wb;", one(1.0), one(-1e9), 0), 0x3cfb);
    assert_eq!(word("cvt.rn.f16x2.e4m3x2 %wd, %ha;", 0x38c0, 0, 0), 0x3c00_c000);
}

#[test]
fn directed_fma_rounds_once() {
    let tiny = 2f32.powi(-30);
    let fma = |round: &str| {
        let body = format!("fma.{round}.f32 %wd, %wa, %wb, %wc;");
        f32::from_bits(word(&body, 1f32.to_bits().into(), 1f32.to_bits().into(), tiny.to_bits().into()))
    };
    assert_eq!([fma("rm"), fma("rz"), fma("rn"), fma("rp")], [1.0, 1.0, 1.0, 1.0 + f32::EPSILON]);
}

#[test]
fn names_in_inner_braces_are_their_own() {
    let body = "
        mov.u32 %r1, 3;
        { .reg .b32 %r1; .reg .pred done;
          mov.u32 %r1, 0;
        again:
          add.u32 %r1, %r1, 1;
          setp.ge.u32 done, %r1, 5;
          @done bra over;
          bra again;
        over:
          add.u32 %r0, %r0, %r1; }
        { .reg .pred done;
        again:
          setp.ge.u32 done, %r1, 5;
          @done bra over;
          add.u32 %r1, %r1, 1;
          bra again;
        over: }
        mad.lo.u32 %r0, %r1, 100, %r0;";
    assert_eq!(threads("", body, 1), [505]);
}
