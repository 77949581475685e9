//! What lanes do together: divergence, warp-wide instructions, barriers, reductions, matrices.

use crate::common::{parse, threads, threads_with};
use ptx_interpreter::{Launch, Memory, RunOptions, run};

#[test]
fn lanes_meet_again_after_a_branch() {
    let body = "
        and.b32 %r1, %t, 1;
        setp.eq.u32 %p0, %r1, 0;
        @%p0 bra EVEN;
        activemask.b32 %r2;
        bra.uni MEET;
    EVEN:
        activemask.b32 %r2;
    MEET:
        activemask.b32 %r3;
        sub.u32 %r0, %r3, %r2;";
    let words = threads("", body, 32);
    assert_eq!(words, (0..32).map(|t| if t % 2 == 0 { 0xaaaa_aaaa } else { 0x5555_5555 }).collect::<Vec<u32>>());
}

#[test]
fn lanes_meet_after_a_loop_of_different_lengths() {
    let body = "
        mov.u32 %r1, 0;
    LOOP:
        setp.ge.u32 %p0, %r1, %t;
        @%p0 bra DONE;
        add.u32 %r0, %r0, %r1;
        add.u32 %r1, %r1, 1;
        bra LOOP;
    DONE:
        activemask.b32 %r2;
        setp.ne.u32 %p1, %r2, 0xffffffff;
        @%p1 mov.u32 %r0, 0xdead;";
    let words = threads("", body, 64);
    assert_eq!(words, (0..64).map(|t: u32| t * t.wrapping_sub(1) / 2 * u32::from(t > 0)).collect::<Vec<_>>());
}

#[test]
fn an_early_return_keeps_nobody_apart() {
    let body = "
        setp.lt.u32 %p0, %t, 20;
        @!%p0 bra REST;
        setp.lt.u32 %p1, %t, 10;
        @%p1 ret;
        add.u32 %r0, %r0, 1;
    REST:
        activemask.b32 %r1;
        add.u32 %r0, %r0, %r1;";
    let words = threads("", body, 32);
    let rest = 0xffff_fc00_u32;
    assert_eq!(
        words,
        (0..32)
            .map(|t| match t {
                0..10 => 0,
                10..20 => rest + 1,
                _ => rest,
            })
            .collect::<Vec<_>>()
    );
}

#[test]
fn nested_branches_and_breaks_reconverge() {
    // Each lane leaves the loop by one of two ways.
    let body = "
        mov.u32 %r1, 0;
    LOOP:
        setp.eq.u32 %p0, %r1, %t;
        @%p0 bra DONE;
        and.b32 %r2, %t, 3;
        setp.eq.u32 %p1, %r2, 1;
        @!%p1 bra NEXT;
        setp.eq.u32 %p2, %r1, 2;
        @%p2 bra DONE;
        add.u32 %r0, %r0, 100;
    NEXT:
        add.u32 %r1, %r1, 1;
        add.u32 %r0, %r0, 1;
        bra LOOP;
    DONE:
        vote.sync.ballot.b32 %r3, %p0, 0xffffffff;";
    let words = threads("", body, 32);
    let expected = |t: u32| {
        if t % 4 == 1 && t > 2 {
            202
        } else if t % 4 == 1 {
            101 * t
        } else {
            t
        }
    };
    assert_eq!(words, (0..32).map(expected).collect::<Vec<_>>());
}

#[test]
fn a_lane_may_spin_until_another_lets_it_go() {
    // A lock, taken and released by every lane of a warp, the critical part inside the loop's exit.
    let body = "
        mov.u32 %r1, lock;
        setp.ne.u32 %p0, %t, 0;
        @!%p0 st.shared.u32 [lock], 0;
        @!%p0 st.shared.u32 [lock+4], 0;
        bar.sync 0;
    SPIN:
        atom.relaxed.cta.shared.cas.b32 %r2, [%r1], 0, 1;
        setp.ne.u32 %p1, %r2, 0;
        @%p1 bra SPIN;
        ld.relaxed.cta.shared.u32 %r0, [lock+4];
        add.u32 %r3, %r0, 1;
        st.relaxed.cta.shared.u32 [lock+4], %r3;
        fence.acq_rel.cta;
        atom.relaxed.cta.shared.exch.b32 %r4, [%r1], 0;";
    for shuffle in [None, Some(3)] {
        let options = RunOptions { shuffle, ..RunOptions::strict() };
        let (mut words, _) = threads_with(".shared .align 8 .b8 lock[8];", body, 40, &options).unwrap();
        words.sort_unstable();
        assert_eq!(words, (0..40).collect::<Vec<_>>());
    }
}

#[test]
fn shuffles_follow_the_table() {
    type Expected = fn(u32) -> u32;
    let table: [(&str, Expected); 7] = [
        ("shfl.sync.idx.b32 %r0|%p0, %lane, 5, 31, 0xffffffff;", |_| 5 + 100),
        ("shfl.sync.up.b32 %r0|%p0, %lane, 1, 0, 0xffffffff;", |l| if l == 0 { 0 } else { l - 1 + 100 }),
        ("shfl.sync.down.b32 %r0|%p0, %lane, 4, 31, 0xffffffff;", |l| if l > 27 { l } else { l + 4 + 100 }),
        ("shfl.sync.bfly.b32 %r0|%p0, %lane, 3, 31, 0xffffffff;", |l| (l ^ 3) + 100),
        // Segments of 8 lanes.
        ("shfl.sync.idx.b32 %r0|%p0, %lane, 2, 0x181f, 0xffffffff;", |l| (l & !7) + 2 + 100),
        ("shfl.sync.down.b32 %r0|%p0, %lane, 1, 0x1807, 0xffffffff;", |l| if l % 8 == 7 { l } else { l + 1 + 100 }),
        ("shfl.sync.up.b32 %r0|%p0, %lane, 2, 0x1800, 0xffffffff;", |l| if l % 8 < 2 { l } else { l - 2 + 100 }),
    ];
    for (text, expected) in table {
        let words = threads("", &format!("{text} @%p0 add.u32 %r0, %r0, 100;"), 32);
        assert_eq!(words, (0..32).map(expected).collect::<Vec<_>>(), "{text}");
    }
}

#[test]
fn votes_and_reductions() {
    let setup = "setp.lt.u32 %p0, %lane, 3;";
    let select = "selp.u32 %r0, 1, 0, %p1;";
    let one = |body: &str| threads("", &format!("{setup} {body}"), 32)[7];
    assert_eq!(one(&format!("vote.sync.any.pred %p1, %p0, 0xffffffff; {select}")), 1);
    assert_eq!(one(&format!("vote.sync.all.pred %p1, %p0, 0xffffffff; {select}")), 0);
    assert_eq!(one(&format!("vote.sync.uni.pred %p1, %p0, 0xffffffff; {select}")), 0);
    assert_eq!(one(&format!("vote.sync.all.pred %p1, !%p0, 0xffffffff; {select}")), 0);
    assert_eq!(one("vote.sync.ballot.b32 %r0, %p0, 0xffffffff;"), 7);
    assert_eq!(one("redux.sync.add.u32 %r0, %lane, 0xffffffff;"), 496);
    assert_eq!(one("sub.u32 %r1, %lane, 10; redux.sync.min.s32 %r0, %r1, 0xffffffff;"), (-10_i32) as u32);
    assert_eq!(one("sub.u32 %r1, %lane, 10; redux.sync.max.u32 %r0, %r1, 0xffffffff;"), u32::MAX);
    assert_eq!(one("redux.sync.xor.b32 %r0, %lane, 0xffffffff;"), 0);
    assert_eq!(one("redux.sync.or.b32 %r0, %lane, 0xffffffff;"), 31);
    assert_eq!(one("and.b32 %r1, %lane, 3; match.any.sync.b32 %r0, %r1, 0xffffffff;"), 0x8888_8888);
    assert_eq!(one("elect.sync %r0|%p1, 0xffffffff;"), 0);
    // Halves of a warp, each with its own mask, at one instruction.
    let halves = "shr.u32 %r1, %lane, 4; mul.lo.u32 %r1, %r1, 16; shl.b32 %r2, 0xffff, %r1; mov.u32 %r3, 0xffff;
        shl.b32 %r2, %r3, %r1; redux.sync.add.u32 %r0, %lane, %r2;";
    let words = threads("", &halves.replace("shl.b32 %r2, 0xffff, %r1;", ""), 32);
    assert_eq!((words[0], words[31]), (120, 376));
}

#[test]
fn lane_masks() {
    for (name, expected) in [("eq", 1 << 5), ("lt", 31), ("le", 63), ("gt", u32::MAX << 6), ("ge", u32::MAX << 5)] {
        assert_eq!(threads("", &format!("mov.u32 %r0, %lanemask_{name};"), 32)[5], expected, "{name}");
    }
    assert_eq!(threads("", "mov.u32 %r0, %lanemask_gt;", 32)[31], 0);
    assert_eq!(threads("", "mov.u32 %r0, %lanemask_le;", 32)[31], u32::MAX);
}

const REDUCE: &str = ".version 7.0
.target sm_70
.address_size 64
.extern .shared .align 16 .b8 partial[];
.visible .entry sum(.param .u64 from, .param .u64 to, .param .align 4 .b8 count[4])
.reqntid 128, 1, 1
{
    .reg .pred %p<3>;
    .reg .b32 %r<12>;
    .reg .b64 %d<4>;
    ld.param.u64 %d0, [from];
    ld.param.u32 %r0, [count+0];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, %ctaid.x;
    mad.lo.u32 %r3, %r2, 128, %r1;
    mov.u32 %r4, 0;
    setp.ge.u32 %p0, %r3, %r0;
    @%p0 bra STORE;
    mad.wide.u32 %d1, %r3, 4, %d0;
    ld.global.nc.u32 %r4, [%d1];
STORE:
    mov.u32 %r5, partial;
    shl.b32 %r6, %r1, 2;
    add.u32 %r5, %r5, %r6;
    st.shared.u32 [%r5], %r4;
    mov.u32 %r7, 64;
HALVE:
    bar.sync 0;
    setp.ge.u32 %p1, %r1, %r7;
    @%p1 bra NEXT;
    shl.b32 %r8, %r7, 2;
    add.u32 %r8, %r5, %r8;
    ld.shared.u32 %r9, [%r8];
    ld.shared.u32 %r10, [%r5];
    add.u32 %r10, %r10, %r9;
    st.shared.u32 [%r5], %r10;
NEXT:
    shr.u32 %r7, %r7, 1;
    setp.ne.u32 %p2, %r7, 0;
    @%p2 bra HALVE;
    setp.ne.u32 %p0, %r1, 0;
    @%p0 bra END;
    ld.param.u64 %d2, [to];
    atom.relaxed.gpu.global.add.u32 %r11, [%d2], %r10;
END:
    ret;
}
";

fn reduce(text: &str, options: &RunOptions) -> Result<u32, Box<ptx_interpreter::Fault>> {
    let module = parse(text);
    let mut memory = Memory::new();
    let numbers: Vec<u8> = (0..1000_u32).flat_map(u32::to_le_bytes).collect();
    let (from, to) = (memory.alloc_from(&numbers), memory.alloc(4, 4));
    let mut params = [from, to].map(u64::to_le_bytes).concat();
    params.extend(1000_u32.to_le_bytes());
    let launch = Launch { grid: [8, 1, 1], block: [128, 1, 1], params, dynamic_shared_bytes: 512 };
    let stats = run(module.kernel("sum").unwrap(), &mut memory, &launch, options)?;
    assert_eq!(stats.barriers, 7 * 8);
    Ok(u32::from_le_bytes(memory.read(to, 4).unwrap().try_into().unwrap()))
}

#[test]
fn a_reduction_in_shared_memory() {
    assert_eq!(reduce(REDUCE, &RunOptions::strict()), Ok(499_500));
    for seed in 0..8 {
        let options = RunOptions { shuffle: Some(seed), ..RunOptions::strict() };
        assert_eq!(reduce(REDUCE, &options), Ok(499_500));
    }
}

#[test]
fn a_missing_barrier_is_found() {
    // The barrier before the loop only: the rounds race.
    let broken = REDUCE.replace("HALVE:\n    bar.sync 0;", "    bar.sync 0;\nHALVE:");
    let fault = reduce(&broken, &RunOptions::strict()).expect_err("a race");
    assert!(matches!(fault.kind, ptx_interpreter::FaultKind::Race { space: "shared", .. }), "{fault}");
}

#[test]
fn matrices_multiply_whatever_the_layout() {
    for (a_row, b_row) in [(true, true), (true, false), (false, true)] {
        let layout = |row: bool| if row { "row" } else { "col" };
        let (la, lb) = (layout(a_row), layout(b_row));
        let text = format!(
            ".version 7.0 .target sm_70 .address_size 64
            .visible .entry k(.param .u64 a, .param .u64 b, .param .u64 c)
            {{
                .reg .b64 %d<3>; .reg .b32 %a<8>, %b<8>, %c<8>, %e<8>; .reg .b32 %ld;
                ld.param.u64 %d0, [a]; ld.param.u64 %d1, [b]; ld.param.u64 %d2, [c];
                mov.u32 %ld, 16;
                wmma.load.a.sync.aligned.{la}.m16n16k16.global.f16 {{%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}}, [%d0], %ld;
                wmma.load.b.sync.aligned.{lb}.m16n16k16.global.f16 {{%b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7}}, [%d1], %ld;
                wmma.load.c.sync.aligned.row.m16n16k16.global.f32 {{%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7}}, [%d2], %ld;
                wmma.mma.sync.aligned.{la}.{lb}.m16n16k16.f32.f32 {{%e0, %e1, %e2, %e3, %e4, %e5, %e6, %e7}},
                    {{%a0, %a1, %a2, %a3, %a4, %a5, %a6, %a7}}, {{%b0, %b1, %b2, %b3, %b4, %b5, %b6, %b7}},
                    {{%c0, %c1, %c2, %c3, %c4, %c5, %c6, %c7}};
                wmma.store.d.sync.aligned.row.m16n16k16.global.f32 [%d2], {{%e0, %e1, %e2, %e3, %e4, %e5, %e6, %e7}}, %ld;
                ret;
            }}"
        );
        let module = parse(&text);
        let mut memory = Memory::new();
        let value = |i: usize, j: usize| ((i * 7 + j * 3) % 8) as f32;
        // Small integers as halves: 0x6400 + n is 1024 + n, so take those whose bits are easy.
        let half = |x: f32| -> u16 {
            if x == 0.0 { 0 } else { (((x.to_bits() >> 23) - 112) << 10 | (x.to_bits() >> 13 & 0x3ff)) as u16 }
        };
        let tile = |row: bool, scale: usize| -> Vec<u8> {
            (0..256)
                .flat_map(|e| {
                    let (i, j) = if row { (e / 16, e % 16) } else { (e % 16, e / 16) };
                    half(value(i * scale, j)).to_le_bytes()
                })
                .collect()
        };
        let (a, b) = (memory.alloc_from(&tile(a_row, 1)), memory.alloc_from(&tile(b_row, 5)));
        let ones: Vec<u8> = (0..256).flat_map(|_| 1.0_f32.to_le_bytes()).collect();
        let c = memory.alloc_from(&ones);
        let params = [a, b, c].map(u64::to_le_bytes).concat();
        let launch = Launch { grid: [1; 3], block: [32, 1, 1], params, ..Launch::default() };
        run(module.kernel("k").unwrap(), &mut memory, &launch, &RunOptions::default())
            .unwrap_or_else(|f| panic!("{f}"));
        let out = memory.read(c, 1024).unwrap();
        for (e, bytes) in out.chunks_exact(4).enumerate() {
            let (i, j) = (e / 16, e % 16);
            let expected: f32 = 1.0 + (0..16).map(|k| value(i, k) * value(k * 5, j)).sum::<f32>();
            assert_eq!(f32::from_le_bytes(bytes.try_into().unwrap()), expected, "({i}, {j}) {la} {lb}");
        }
    }
}

/// A product of a sparse A by one warp, its registers from memory, the lanes' words one after the other.
fn sparse(instruction: &str, a: &[u32], b: &[u32], metadata: &[u32]) -> Result<Vec<u32>, Box<ptx_interpreter::Fault>> {
    let text = format!(
        ".version 8.5 .target sm_80 .address_size 64
        .visible .entry k(.param .u64 a, .param .u64 b, .param .u64 e, .param .u64 d)
        {{
            .reg .b64 %d<6>; .reg .b32 %a<4>, %b<4>, %c<4>, %e, %lane;
            ld.param.u64 %d0, [a]; ld.param.u64 %d1, [b]; ld.param.u64 %d2, [e]; ld.param.u64 %d3, [d];
            mov.u32 %lane, %tid.x; mul.wide.u32 %d4, %lane, 16; mul.wide.u32 %d5, %lane, 4;
            add.u64 %d0, %d0, %d4; add.u64 %d1, %d1, %d4; add.u64 %d2, %d2, %d5; add.u64 %d3, %d3, %d4;
            ld.global.v4.b32 {{%a0, %a1, %a2, %a3}}, [%d0]; ld.global.v4.b32 {{%b0, %b1, %b2, %b3}}, [%d1];
            ld.global.b32 %e, [%d2];
            mov.b32 %c0, 0; mov.b32 %c1, 0; mov.b32 %c2, 0; mov.b32 %c3, 0;
            mma.sp::ordered_metadata.sync.aligned.{instruction} {{%c0, %c1, %c2, %c3}}, {{%a0, %a1, %a2, %a3}},
                {{%b0, %b1, %b2, %b3}}, {{%c0, %c1, %c2, %c3}}, %e, 0;
            st.global.v4.b32 [%d3], {{%c0, %c1, %c2, %c3}};
            ret;
        }}"
    );
    let module = parse(&text);
    let mut memory = Memory::new();
    let bytes = |words: &[u32]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    let (a, b, e) = (memory.alloc_from(&bytes(a)), memory.alloc_from(&bytes(b)), memory.alloc_from(&bytes(metadata)));
    let d = memory.alloc(512, 16);
    let params = [a, b, e, d].map(u64::to_le_bytes).concat();
    let launch = Launch { grid: [1; 3], block: [32, 1, 1], params, ..Launch::default() };
    run(module.kernel("k").unwrap(), &mut memory, &launch, &RunOptions::default())?;
    Ok(memory.read(d, 512).unwrap().chunks_exact(4).map(|b| u32::from_le_bytes(b.try_into().unwrap())).collect())
}

/// Ones in A: each element of D adds up the elements of B at the places that metadata names, which tell their k.
#[test]
fn sparse_products_take_the_elements_that_metadata_names() {
    const PAIRS: [u32; 6] = [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110];
    let pair = |row: usize, group: usize| PAIRS[(5 * row + 7 * group) % 6];
    let word =
        |row: usize, groups: std::ops::Range<usize>| groups.rev().fold(0, |word, group| word << 4 | pair(row, group));
    let expected = |row: usize, groups: usize, value: fn(usize) -> i32| -> i32 {
        let places = |group| [pair(row, group) & 3, pair(row, group) >> 2].map(|place| 4 * group + place as usize);
        (0..groups).flat_map(places).map(value).sum()
    };
    let row_of = |register: usize, lane: usize| lane / 4 + 8 * (register / 2);

    // b[i] of lane 4 g + c holds four bytes of k from 16 i + 4 c on.
    let bytes = |i: usize, lane: usize| u32::from_le_bytes([0, 1, 2, 3].map(|at| (16 * i + 4 * (lane % 4) + at) as u8));
    let b: Vec<u32> = (0..32).flat_map(|lane| [0, 1, 2, 3].map(|i| bytes(i, lane))).collect();
    let metadata = |lane: usize| {
        let first = 8 * (lane % 4 / 2);
        word(lane / 4 + 8 * (lane % 2), first..first + 8)
    };
    let metadata: Vec<u32> = (0..32).map(metadata).collect();
    let d =
        sparse("m16n8k64.row.col.s32.s8.s8.s32", &[0x0101_0101; 128], &b, &metadata).unwrap_or_else(|f| panic!("{f}"));
    for (at, &sum) in d.iter().enumerate() {
        assert_eq!(sum as i32, expected(row_of(at % 4, at / 4), 16, |k| k as i32), "register {at}");
    }

    // Halves: 2 where 3 divides k, else 1.
    let half = |k: usize| if k.is_multiple_of(3) { 0x4000 } else { 0x3c00 };
    let halves = |i: usize, lane: usize| {
        let k = 8 * i + 2 * (lane % 4);
        half(k) | half(k + 1) << 16
    };
    let b: Vec<u32> = (0..32).flat_map(|lane| [0, 1, 2, 3].map(|i| halves(i, lane))).collect();
    let metadata = |lane: usize| {
        let first = 4 * (lane % 2);
        // Lanes 2 and 3 of four are not asked with selector 0.
        let of = |row| if lane % 4 < 2 { word(row, first..first + 4) } else { 0 };
        of(lane / 4) | of(lane / 4 + 8) << 16
    };
    let mut metadata: Vec<u32> = (0..32).map(metadata).collect();
    let instruction = "m16n8k32.row.col.f32.f16.f16.f32";
    let d = sparse(instruction, &[0x3c00_3c00; 128], &b, &metadata).unwrap_or_else(|f| panic!("{f}"));
    for (at, &sum) in d.iter().enumerate() {
        let want = expected(row_of(at % 4, at / 4), 8, |k| if k % 3 == 0 { 2 } else { 1 });
        assert_eq!(f32::from_bits(sum), want as f32, "register {at}");
    }
    metadata[5] &= !15;
    let fault = sparse(instruction, &[0; 128], &b, &metadata).expect_err("places out of order");
    assert!(matches!(fault.kind, ptx_interpreter::FaultKind::Metadata(_)), "{fault}");
}

#[test]
fn perturbed_approximations_stay_in_bounds_and_repeat() {
    let body = "cvt.rn.f32.u32 %r1, %t; add.f32 %r1, %r1, 0f3F000000; rcp.approx.f32 %r0, %r1;";
    let exact = threads_with("", body, 256, &RunOptions::default()).unwrap().0;
    let options = RunOptions { perturb: Some(1), ..RunOptions::default() };
    let off = threads_with("", body, 256, &options).unwrap().0;
    assert_eq!(off, threads_with("", body, 256, &options).unwrap().0);
    let differences = exact.iter().zip(&off).map(|(a, b)| a.abs_diff(*b)).collect::<Vec<_>>();
    assert_eq!(differences.iter().max(), Some(&1));
}
