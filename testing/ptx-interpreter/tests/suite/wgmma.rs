//! `wgmma` against products computed here: layouts and swizzles of operands in shared memory, types, and programs that do not
//! wait; and of a sparse A.

use crate::common::parse;
use ptx_interpreter::{Fault, FaultKind, Launch, Memory, RunOptions, run};

/// Elements of matrices: -3 to 3.
fn element(row: usize, column: usize) -> i32 {
    ((row * 5 + column * 3 + row * column) % 7) as i32 - 3
}

/// A type of elements: its size, its bits of -3 to 3, and how the instruction is called.
struct Type {
    bytes: usize,
    bits: fn(i32) -> u32,
    name: &'static str,
    constants: &'static str,
}

fn f16(x: i32) -> u32 {
    [0xc200, 0xc000, 0xbc00, 0, 0x3c00, 0x4000, 0x4200][(x + 3) as usize]
}

fn f32(x: i32) -> u32 {
    (x as f32).to_bits()
}

const F16: Type = Type { bytes: 2, bits: f16, name: "f32.f16.f16", constants: ", 1, 1, 0, 0" };
const TYPES: [Type; 6] = [
    F16,
    Type { bytes: 2, bits: |x| f32(x) >> 16, name: "f32.bf16.bf16", constants: ", 1, 1, 0, 0" },
    Type { bytes: 4, bits: f32, name: "f32.tf32.tf32", constants: ", 1, 1" },
    Type { bytes: 1, bits: |x| x as u32 & 0xff, name: "s32.s8.s8", constants: "" },
    Type { bytes: 1, bits: |x| f16(x) >> 8, name: "f32.e5m2.e5m2", constants: ", 1, 1" },
    Type {
        bytes: 1,
        bits: |x| [0xc4, 0xc0, 0xb8, 0, 0x38, 0x40, 0x44][(x + 3) as usize],
        name: "f32.e4m3.e4m3",
        constants: ", 1, 1",
    },
];

/// Where B (and, with 64 rows, A) lies: bytes of the swizzle as a power of two over 16, 0 without one.
#[derive(Clone, Copy, Debug)]
struct Place {
    mn_major: bool,
    swizzle: u32,
}

impl Place {
    /// Bytes from the matrix's start to an element of `rows` x 32 bytes, before the swizzle.
    fn byte(self, row: usize, k: usize, size: usize) -> usize {
        let span = 16 << self.swizzle;
        match (self.mn_major, self.swizzle) {
            (false, 0) => row / 8 * 256 + row % 8 * 16 + k * size / 16 * 128 + k * size % 16,
            (false, _) => row * span + k * size,
            (true, 0) => row / 8 * 256 + k / 8 * 128 + k % 8 * 16 + row % 8 * size,
            (true, _) => row * size / span * (16 * span) + k * span + row * size % span,
        }
    }

    /// Leading and stride bytes, and the mode.
    fn fields(self) -> [u64; 3] {
        let span = 16u64 << self.swizzle;
        let mode = [0, 3, 2, 1][self.swizzle as usize];
        match (self.mn_major, self.swizzle) {
            (false, 0) => [128, 256, mode],
            (false, _) => [16, 8 * span, mode],
            (true, 0) => [128, 256, mode],
            (true, _) => [16 * span, 8 * span, mode],
        }
    }

    fn descriptor(self, address: u64) -> u64 {
        let [leading, stride, mode] = self.fields();
        (address & 0x3ffff) >> 4 | leading >> 4 << 16 | stride >> 4 << 32 | mode << 62
    }

    /// The bytes of a matrix of `rows` x `k`, swizzled.
    fn bytes(self, rows: usize, k: usize, ty: &Type, value: impl Fn(usize, usize) -> i32) -> Vec<u8> {
        let mut bytes = vec![0; 8192];
        for row in 0..rows {
            for at in 0..k {
                let byte = self.byte(row, at, ty.bytes);
                let placed = byte ^ (byte >> 7 & ((1 << self.swizzle) - 1)) << 4;
                bytes[placed..placed + ty.bytes].copy_from_slice(&(ty.bits)(value(row, at)).to_le_bytes()[..ty.bytes]);
            }
        }
        bytes
    }
}

/// The first shared variable's address, as this crate places it.
const TILE: u64 = 1024;

/// A warpgroup copies the input's 16 KiB, A and behind it B, to shared memory and runs `body`; it leaves 8 sums a thread in
/// `%f0` to `%f7`.
fn warpgroup(body: &str, input: &[u8]) -> Result<Vec<u32>, Box<Fault>> {
    warpgroup_with(body, input, &RunOptions::strict())
}

fn warpgroup_with(body: &str, input: &[u8], options: &RunOptions) -> Result<Vec<u32>, Box<Fault>> {
    let text = format!(
        ".version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 input)
{{
    .reg .b64 %out, %in, %at, %a, %b;
    .reg .b32 %t, %r<8>, %f<16>;
    .reg .pred %p<4>;
    .shared .align 1024 .b8 tile[16384];
    ld.param.u64 %out, [out];
    ld.param.u64 %in, [input];
    mov.u32 %t, %tid.x;
    mov.u32 %r0, 0;
COPY:
    mad.lo.u32 %r1, %r0, 128, %t;
    mad.wide.u32 %at, %r1, 16, %in;
    ld.global.v4.u32 {{%r2, %r3, %r4, %r5}}, [%at];
    shl.b32 %r1, %r1, 4;
    mov.u32 %r6, tile;
    add.u32 %r1, %r1, %r6;
    st.shared.v4.u32 [%r1], {{%r2, %r3, %r4, %r5}};
    add.u32 %r0, %r0, 1;
    setp.lt.u32 %p0, %r0, 8;
    @%p0 bra COPY;
    fence.proxy.async.shared::cta;
    bar.sync 0;
    mov.b32 %f0, 0; mov.b32 %f1, 0; mov.b32 %f2, 0; mov.b32 %f3, 0;
    mov.b32 %f4, 0; mov.b32 %f5, 0; mov.b32 %f6, 0; mov.b32 %f7, 0;
    setp.eq.u32 %p1, 0, 0;
    setp.ne.u32 %p2, 0, 0;
    {body}
    mad.wide.u32 %at, %t, 32, %out;
    st.global.v4.u32 [%at], {{%f0, %f1, %f2, %f3}};
    st.global.v4.u32 [%at+16], {{%f4, %f5, %f6, %f7}};
    ret;
}}
"
    );
    let module = parse(&text);
    let mut memory = Memory::new();
    let input = memory.alloc_from(input);
    let out = memory.alloc(4096, 256);
    let params = [out, input].iter().flat_map(|x| x.to_le_bytes()).collect();
    let launch = Launch { grid: [1; 3], block: [128, 1, 1], params, ..Launch::default() };
    run(module.kernel("k").expect("k"), &mut memory, &launch, options)?;
    let bytes = memory.read(out, 4096).expect("the results");
    Ok(bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect())
}

const SUMS: &str = "{%f0, %f1, %f2, %f3, %f4, %f5, %f6, %f7}";
const WAIT: &str = "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;";

/// D of 64 x 16: row and column of each thread's `register`.
fn place(thread: usize, register: usize) -> (usize, usize) {
    let lane = thread % 32;
    (thread / 32 * 16 + lane / 4 + register / 2 % 2 * 8, register / 4 * 8 + lane % 4 * 2 + register % 2)
}

/// Twice A B, once overwriting and once adding, for operands that lie so.
fn product(ty: &Type, a: Place, b: Place) {
    let k = 32 / ty.bytes;
    let right = |row: usize, at: usize| element(row + 20, at);
    let mut input = a.bytes(64, k, ty, element);
    input.extend(b.bytes(16, k, ty, right));
    let constants = match ty.constants.strip_suffix(", 0, 0") {
        Some(signs) => format!("{signs}, {}, {}", i32::from(a.mn_major), i32::from(b.mn_major)),
        None => ty.constants.to_owned(),
    };
    let multiply = |predicate: &str| {
        let name = ty.name;
        format!("wgmma.mma_async.sync.aligned.m64n16k{k}.{name} {SUMS}, %a, %b, {predicate}{constants};")
    };
    let body = format!(
        "mov.b64 %a, {}; mov.b64 %b, {}; wgmma.fence.sync.aligned; {}{}{WAIT}",
        a.descriptor(TILE) as i64,
        b.descriptor(TILE + 8192) as i64,
        multiply("%p2"),
        multiply("%p1")
    );
    let found = warpgroup(&body, &input).unwrap_or_else(|fault| panic!("{fault}"));
    for (i, &word) in found.iter().enumerate() {
        let (row, column) = place(i / 8, i % 8);
        let sum = 2 * (0..k).map(|at| element(row, at) * right(column, at)).sum::<i32>();
        let expected = if ty.name.starts_with("s32") { sum as u32 } else { f32(sum) };
        assert_eq!(word, expected, "{} {a:?} {b:?} row {row} column {column}", ty.name);
    }
}

#[test]
fn every_type_is_multiplied_in_every_swizzle() {
    for ty in &TYPES {
        for swizzle in 0..4 {
            let along_k = Place { mn_major: false, swizzle };
            product(ty, along_k, along_k);
        }
    }
}

#[test]
fn operands_of_16_bits_may_lie_across_k() {
    for swizzle in 0..4 {
        let (along, across) = (Place { mn_major: false, swizzle: 3 }, Place { mn_major: true, swizzle });
        // 16 columns fill no wider span than 32 bytes.
        let narrow = Place { mn_major: true, swizzle: swizzle.min(1) };
        product(&F16, across, along);
        product(&F16, along, narrow);
        product(&F16, across, narrow);
    }
}

#[test]
fn rows_of_a_may_be_in_registers_and_negated() {
    // All of A is 1, B as above; -A by its sign.
    let place_b = Place { mn_major: false, swizzle: 3 };
    let mut input = vec![0; 8192];
    input.extend(place_b.bytes(16, 16, &F16, element));
    let body = format!(
        "mov.b64 %b, {}; mov.b32 %f8, 0x3c003c00; wgmma.fence.sync.aligned;
         wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {SUMS}, {{%f8, %f8, %f8, %f8}}, %b, %p2, -1, 1, 0; {WAIT}",
        place_b.descriptor(TILE + 8192) as i64
    );
    let found = warpgroup(&body, &input).unwrap_or_else(|fault| panic!("{fault}"));
    for (i, &word) in found.iter().enumerate() {
        let (_, column) = place(i / 8, i % 8);
        assert_eq!(word, f32(-(0..16).map(|at| element(column, at)).sum::<i32>()) & !(u32::from(word == 0) << 31));
    }
}

/// A product of ones, 16 each, whose group `rest` has to end.
fn ones(rest: &str) -> Result<Vec<u32>, Box<Fault>> {
    ones_with(rest, &RunOptions::strict())
}

fn ones_with(rest: &str, options: &RunOptions) -> Result<Vec<u32>, Box<Fault>> {
    let place = Place { mn_major: false, swizzle: 3 };
    let mut input = place.bytes(64, 16, &F16, |_, _| 1);
    input.extend(place.bytes(16, 16, &F16, |_, _| 1));
    let body = format!(
        "mov.b64 %a, {}; mov.b64 %b, {}; wgmma.fence.sync.aligned;
         wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {SUMS}, %a, %b, %p2, 1, 1, 0, 0;
         wgmma.commit_group.sync.aligned; {rest}",
        place.descriptor(TILE) as i64,
        place.descriptor(TILE + 8192) as i64
    );
    warpgroup_with(&body, &input, options)
}

#[test]
fn sums_are_there_after_the_wait_and_not_before() {
    let one = 16f32.to_bits();
    let waited = ones("wgmma.wait_group.sync.aligned 0;").unwrap_or_else(|fault| panic!("{fault}"));
    assert!(waited.iter().all(|&word| word == one));
    // Read before: not one of them is right.
    let early = "mov.b32 %f8, 0; add.f32 %f8, %f0, %f8; wgmma.wait_group.sync.aligned 0; mov.b32 %f0, %f8;";
    let early = ones(early).unwrap_or_else(|fault| panic!("{fault}"));
    assert!(early.iter().enumerate().all(|(i, &word)| (word == one) == (i % 8 != 0)));
    // A move is no look: the sum arrives in both.
    let moved = ones("mov.b32 %f1, %f0; wgmma.wait_group.sync.aligned 0;").unwrap_or_else(|fault| panic!("{fault}"));
    assert!(moved.iter().all(|&word| word == one));
}

#[test]
fn operands_are_left_alone_until_the_wait() {
    let store = "mov.u32 %r6, tile; shl.b32 %r1, %t, 4; add.u32 %r6, %r6, %r1; st.shared.u32 [%r6], %r0;";
    let kind = ones(&format!("{store} wgmma.wait_group.sync.aligned 0;")).expect_err("too early").kind;
    assert!(matches!(kind, FaultKind::InFlight { what, .. } if what.contains("still reads")), "{kind}");
    assert!(ones(&format!("wgmma.wait_group.sync.aligned 0; {store}")).is_ok());
    let kind = ones("").expect_err("nobody waits").kind;
    assert!(matches!(&kind, FaultKind::Asynchronous(message) if message.contains("block ends")), "{kind}");
}

#[test]
fn warps_of_a_warpgroup_do_the_same() {
    let again = |wait: &str| {
        let multiply = format!(
            "wgmma.mma_async.sync.aligned.m64n16k16.f32.f16.f16 {SUMS}, %a, %b, %p2, 1, 1, 0, 0;
             wgmma.commit_group.sync.aligned;"
        );
        format!("wgmma.wait_group.sync.aligned 0; setp.lt.u32 %p3, %t, 32; @%p3 bra OVER; {multiply} OVER: {wait}")
    };
    let kind = ones(&again("wgmma.wait_group.sync.aligned 0;")).expect_err("one warp of four is missing").kind;
    assert!(
        matches!(&kind, FaultKind::Deadlock(message) if message.contains("other warps of its warpgroup")),
        "{kind}"
    );
    assert!(ones(&again("")).is_err(), "nobody waits");
}

#[test]
fn one_warps_wait_ends_the_reads_of_all() {
    // The first warp overwrites what the others' operations read: they are one operation, which it waited for.
    let store = "wgmma.wait_group.sync.aligned 0; setp.lt.u32 %p3, %t, 32; @!%p3 bra OVER; mov.u32 %r6, tile;
        st.shared.u32 [%r6], %r0; st.shared.u32 [%r6+8192], %r0; OVER:";
    for seed in 0..8 {
        let result = ones_with(store, &RunOptions { shuffle: Some(seed), ..RunOptions::strict() });
        let words = result.unwrap_or_else(|fault| panic!("order {seed}: {fault}"));
        assert!(words.iter().all(|&word| word == 16f32.to_bits()), "order {seed}");
    }
}

/// Bytes behind A and B where each thread finds its word of metadata.
const METADATA: usize = 8192 + 4096;

/// The places that a group of four of a row of A keeps, as metadata names them.
fn pair(row: usize, group: usize) -> u32 {
    [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110][(5 * row + 7 * group) % 6]
}

/// Element `k` of a row of a sparse A whose value number i is `element(row, i)`.
fn sparse_element(row: usize, k: usize) -> i32 {
    let (group, place) = (k / 4, (k % 4) as u32);
    let pair = pair(row, group);
    match place {
        _ if place == pair & 3 => element(row, 2 * group),
        _ if place == pair >> 2 => element(row, 2 * group + 1),
        _ => 0,
    }
}

/// The groups `groups` of a row, ascending from bit 0.
fn metadata(row: usize, groups: std::ops::Range<usize>) -> u32 {
    groups.rev().fold(0, |word, group| word << 4 | pair(row, group))
}

/// What each thread gives, by PTX ISA 9.7.15.6.2: warp w gives that of rows 16 w to 16 w + 15. Figure 176 for 16-bit elements:
/// lanes T0 and T1 of four (selector 0), or T2 and T3 (1), elements 0 to 15 and 16 to 31 of k; lower half row g, upper half
/// row g + 8. Figures 180 and 181 for 8-bit ones: T0 and T1 elements 0 to 31 of rows g and g + 8, T2 and T3 elements 32 to 63.
fn metadata_of(thread: usize, bytes: usize, selector: usize) -> u32 {
    let (warp, g, c) = (thread / 32, thread % 32 / 4, thread % 4);
    let row = 16 * warp + g;
    match bytes {
        1 => metadata(row + 8 * (c % 2), 8 * (c / 2)..8 * (c / 2) + 8),
        // Nobody looks at those that are not selected: not even places in order.
        _ if c / 2 != selector => 0,
        _ => {
            let groups = 4 * (c % 2)..4 * (c % 2) + 4;
            metadata(row, groups.clone()) | metadata(row + 8, groups) << 16
        }
    }
}

/// A B of a sparse A, 64 x 16, whose values lie as `a` says; `spoilt` changes what threads give.
fn sparse_product(
    ty: &Type,
    a: Place,
    b: Place,
    selector: usize,
    spoilt: impl Fn(usize, u32) -> u32,
) -> Result<Vec<u32>, Box<Fault>> {
    let k = 64 / ty.bytes;
    let mut input = a.bytes(64, k / 2, ty, element);
    input.extend(b.bytes(16, k, ty, |row, at| element(row + 20, at)));
    for thread in 0..128 {
        let word = spoilt(thread, metadata_of(thread, ty.bytes, selector));
        input[METADATA + 4 * thread..][..4].copy_from_slice(&word.to_le_bytes());
    }
    let constants = match ty.constants.strip_suffix(", 0, 0") {
        Some(signs) => format!("{signs}, {}, {}", i32::from(a.mn_major), i32::from(b.mn_major)),
        None => ty.constants.to_owned(),
    };
    let body = format!(
        "mov.b64 %a, {}; mov.b64 %b, {}; mov.u32 %r6, tile; shl.b32 %r1, %t, 2; add.u32 %r6, %r6, %r1;
         ld.shared.u32 %f8, [%r6+{METADATA}]; wgmma.fence.sync.aligned;
         wgmma.mma_async.sp.sync.aligned.m64n16k{k}.{} {SUMS}, %a, %b, %f8, {selector}, %p2{constants}; {WAIT}",
        a.descriptor(TILE) as i64,
        b.descriptor(TILE + 8192) as i64,
        ty.name,
    );
    warpgroup(&body, &input)
}

#[test]
fn sparse_rows_of_a_are_spread_as_metadata_says() {
    let along = |swizzle| Place { mn_major: false, swizzle };
    let across = |swizzle| Place { mn_major: true, swizzle };
    let check = |ty: &Type, a: Place, b: Place, selector: usize| {
        let found = sparse_product(ty, a, b, selector, |_, word| word).unwrap_or_else(|fault| panic!("{fault}"));
        for (i, &word) in found.iter().enumerate() {
            let (row, column) = place(i / 8, i % 8);
            let sum = (0..64 / ty.bytes).map(|at| sparse_element(row, at) * element(column + 20, at)).sum::<i32>();
            let expected = if ty.name.starts_with("s32") { sum as u32 } else { f32(sum) };
            assert_eq!(word, expected, "{} {a:?} {b:?} selector {selector} row {row} column {column}", ty.name);
        }
    };
    // A row of B is 64 bytes along k, which no narrower swizzle holds; one of A's values 32.
    for ty in TYPES.iter().filter(|ty| ty.bytes < 4) {
        for (a, b) in [(1, 2), (2, 3), (3, 3)] {
            check(ty, along(a), along(b), 0);
        }
    }
    for ty in TYPES.iter().filter(|ty| ty.bytes == 2) {
        check(ty, along(2), along(3), 1);
        check(ty, along(2), across(1), 1);
        check(ty, across(3), across(1), 0);
    }
}

#[test]
fn sparse_metadata_out_of_order_or_off_the_selector_is_refused() {
    let along = |swizzle| Place { mn_major: false, swizzle };
    for (ty, last, foreign) in [(&TYPES[0], 125, 126), (&TYPES[3], 127, 128)] {
        let spoil = |who: usize| move |thread: usize, word: u32| if thread == who { word & !15 } else { word };
        let fault = sparse_product(ty, along(2), along(3), 0, spoil(last)).expect_err("places out of order");
        assert!(matches!(fault.kind, FaultKind::Metadata(_)), "{fault}");
        // Other threads' words do not count.
        assert!(sparse_product(ty, along(2), along(3), 0, spoil(foreign)).is_ok());
    }
    let refused = |operands: &str| {
        let text = format!(
            ".version 8.4 .target sm_90a .address_size 64 .visible .entry k() {{ .reg .b64 %a; .reg .b32 %e, %f<8>; .reg .pred %p;
             wgmma.mma_async.sp.sync.aligned.{operands}; ret; }}"
        );
        ptx_interpreter::Module::parse(&text).expect_err(operands).to_string()
    };
    let f16 = |rest: &str| refused(&format!("m64n16k32.f32.f16.f16 {SUMS}, %a, %a, {rest}"));
    assert!(f16("%e, 2, %p, 1, 1, 0, 0").contains("no selector"), "only 0 and 1");
    let bare = f16("%p, 1, 1, 0, 0");
    assert!(bare.contains("%p") || bare.contains("constant"), "no metadata: {bare}");
    assert!(refused(&format!("m64n16k64.s32.s8.s8 {SUMS}, %a, %a, %e, 1, %p")).contains("no selector"), "only 0");
    let shape = refused(&format!("m64n16k16.f32.f16.f16 {SUMS}, %a, %a, %e, 0, %p, 1, 1, 0, 0"));
    assert!(shape.contains("m64n16k16"), "32 elements of k: {shape}");
}
