//! What runs in the background: `cp.async`, barriers in shared memory, bulk copies of tensors' boxes, and what happens to
//! programs that do not wait for them.

use crate::common::parse;
use ptx_interpreter::{Fault, FaultKind, Launch, Memory, Pixels, RunOptions, TensorMap, run};

/// A kernel `k(map, out, input)` with a barrier `full` of one arrival, initialised, and 4 KiB of shared memory at `tile`;
/// thread 0 has `%p0`, every thread its word of `out` at `%at`.
fn kernel(body: &str) -> String {
    format!(
        ".version 8.4
.target sm_90a
.address_size 64
.visible .entry k(.param .align 64 .b8 map[128], .param .u64 out, .param .u64 input)
{{
    .reg .b64 %out, %in, %at, %map, %x<8>;
    .reg .b32 %t, %full, %tile, %r<16>;
    .reg .pred %p<8>, %done;
    .shared .align 1024 .b8 tile[4096];
    .shared .align 8 .b8 full[8];
    mov.b64 %map, map;
    ld.param.u64 %out, [out];
    ld.param.u64 %in, [input];
    mov.u32 %t, %tid.x;
    mov.u32 %tile, tile;
    mov.u32 %full, full;
    mad.wide.u32 %at, %t, 4, %out;
    setp.eq.u32 %p0, %t, 0;
    @%p0 mbarrier.init.shared::cta.b64 [%full], 1;
    bar.sync 0;
    {body}
    ret;
}}
"
    )
}

/// Waits for the phase of parity `parity`.
fn wait(parity: u32) -> String {
    wait_at("%full", parity)
}

fn wait_at(barrier: &str, parity: u32) -> String {
    format!(
        "{{ .reg .pred done; again: mbarrier.try_wait.parity.shared::cta.b64 done, [{barrier}], {parity};
           @!done bra again; }}"
    )
}

const INPUT_WORDS: u32 = 30 * 20;

/// Runs it with a map of the input, words `i` in rows of 20: `columns` of 30 rows; what `out` holds.
fn launch(body: &str, threads: u32, map: impl FnOnce(u64) -> TensorMap) -> Result<Vec<u32>, Box<Fault>> {
    launch_with(body, threads, map, &RunOptions::strict())
}

fn launch_with(
    body: &str,
    threads: u32,
    map: impl FnOnce(u64) -> TensorMap,
    options: &RunOptions,
) -> Result<Vec<u32>, Box<Fault>> {
    let module = parse(&kernel(body));
    let mut memory = Memory::new();
    let words: Vec<u8> = (0..INPUT_WORDS).flat_map(u32::to_le_bytes).collect();
    let input = memory.alloc_from(&words);
    let out = memory.alloc(4096, 256);
    let mut params = map(input).encode().expect("a map").to_vec();
    params.extend(out.to_le_bytes());
    params.extend(input.to_le_bytes());
    let launch = Launch { grid: [1; 3], block: [threads, 1, 1], params, ..Launch::default() };
    run(module.kernel("k").expect("k"), &mut memory, &launch, options)?;
    let bytes = memory.read(out, 4096).expect("the results");
    Ok(bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect())
}

/// 18 of each row's 20 words, boxes of `inner` x 8.
fn matrix(inner: u32, swizzle: u32) -> impl Fn(u64) -> TensorMap {
    move |address| TensorMap {
        address,
        data_type: 2,
        dims: vec![18, 30],
        strides_bytes: vec![80],
        box_dims: vec![inner, 8],
        pixels: None,
        swizzle,
    }
}

fn fault(body: &str, threads: u32) -> FaultKind {
    launch(body, threads, matrix(16, 0)).expect_err(body).kind
}

fn load(x: i32, y: i32, bytes: u32) -> String {
    format!(
        "@!%p0 bra LOADED;
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], {bytes};
         cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%tile], [%map, {{{x}, {y}}}], [%full];
         LOADED:"
    )
}

/// Thread t's word of the tile goes to its word of the output.
const STORE_TILE: &str =
    "shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %tile; ld.shared.u32 %r2, [%r1]; st.global.u32 [%at], %r2;";

#[test]
fn boxes_arrive_swizzled_and_with_zeros_around_the_tensor() {
    for (swizzle, inner) in [(0, 16), (1, 8), (2, 16), (3, 32)] {
        for [x, y] in [[0, 0], [4, 24], [-3, -2], [12, 28]] {
            let body = format!("{}{}{STORE_TILE}", load(x, y, inner * 8 * 4), wait(0));
            let found = launch(&body, inner * 8, matrix(inner, swizzle)).unwrap_or_else(|f| panic!("{f}"));
            for row in 0..8 {
                for column in 0..inner as i32 {
                    let (at_x, at_y) = (x + column, y + row);
                    let inside = (0..18).contains(&at_x) && (0..30).contains(&at_y);
                    let expected = if inside { at_y * 20 + at_x } else { 0 };
                    // Units of 16 bytes change places by the 128-byte line they are in.
                    let byte = (row * inner as i32 + column) * 4;
                    let placed = byte ^ (byte >> 7 & ((1 << swizzle) - 1)) << 4;
                    assert_eq!(found[placed as usize / 4], expected as u32, "{swizzle} at {x}, {y}: {row}, {column}");
                }
            }
        }
    }
}

/// Two images of 4 x 5 pixels of 4 words, under windows of 3 x 2 taps, padding 1 before, strides 1 and 2.
fn images(address: u64) -> TensorMap {
    TensorMap {
        address,
        data_type: 2,
        dims: vec![4, 5, 4, 2],
        strides_bytes: vec![16, 80, 320],
        box_dims: vec![4, 12],
        pixels: Some(Pixels { lower: [-1, -1], upper: [-2, -1], steps: [1, 2] }),
        swizzle: 0,
    }
}

fn load_pixels(at: [i32; 4], [w, h]: [u16; 2]) -> String {
    let at = at.map(|x| x.to_string()).join(", ");
    format!(
        "@!%p0 bra LOADED;
         mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], 192;
         cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [%tile], [%map, {{{at}}}], [%full], {{{w}, {h}}};
         LOADED:"
    )
}

#[test]
fn pixels_arrive_window_by_window_with_zeros_around_the_images() {
    // Windows start at columns -1 to 2 and rows -1 and 1: four by two of each image.
    let windows: Vec<[i32; 3]> =
        (0..2).flat_map(|n| [-1, 1].into_iter().flat_map(move |y| (-1..3).map(move |x| [x, y, n]))).collect();
    assert_eq!(windows.len(), 16);
    for first in [0, 3, 7, 13] {
        for offset in [[0, 0], [2, 1], [1, 0]] {
            let [x, y, n] = windows[first];
            let body = format!("{}{}{STORE_TILE}", load_pixels([0, x, y, n], offset), wait(0));
            let found = launch(&body, 48, images).unwrap_or_else(|f| panic!("{f}"));
            for (number, word) in found[..48].iter().enumerate() {
                let source = windows.get(first + number / 4).and_then(|&[x, y, n]| {
                    let (x, y) = (x + i32::from(offset[0]), y + i32::from(offset[1]));
                    let inside = (0..5).contains(&x) && (0..4).contains(&y);
                    inside.then(|| ((n * 4 + y) * 5 + x) as usize * 4 + number % 4)
                });
                assert_eq!(*word as usize, source.unwrap_or(0), "word {number} from window {first} on, {offset:?}");
            }
        }
    }
}

#[test]
fn pixels_outside_of_the_bounding_box_and_other_modes_are_faults() {
    // Row 0 is none of -1, 1.
    for at in [[0, -2, -1, 0], [0, 3, -1, 0], [0, -1, 0, 0]] {
        let body = format!("{}{}{STORE_TILE}", load_pixels(at, [0, 0]), wait(0));
        assert!(matches!(launch(&body, 48, images).expect_err("outside").kind, FaultKind::Asynchronous(_)), "{at:?}");
    }
    let tile = load_pixels([0, 0, 1, 0], [0, 0]).replace(".im2col", "").replace(", {0, 0};", ";");
    let body = format!("{tile}{}{STORE_TILE}", wait(0));
    assert!(matches!(launch(&body, 48, images).expect_err("tile").kind, FaultKind::Asynchronous(_)));
}

#[test]
fn what_the_cache_is_told_changes_nothing() {
    let plain = load(4, 24, 512);
    let hinted = plain
        .replace("complete_tx::bytes [", "complete_tx::bytes.L2::cache_hint [")
        .replace("[%full];", "[%full], %x1;");
    assert_eq!(hinted.matches("cache_hint").count(), 1);
    let stored = |load: &str| {
        launch(&format!("{load}{}{STORE_TILE}", wait(0)), 128, matrix(16, 0)).unwrap_or_else(|f| panic!("{f}"))
    };
    for level in ["evict_last", "evict_normal", "evict_first", "evict_unchanged"] {
        let policy = format!("createpolicy.fractional.L2::{level}.b64 %x1, 1.0;");
        assert_eq!(stored(&format!("{policy}{hinted}")), stored(&plain), "{level}");
    }
}

#[test]
fn boxes_go_back_and_leave_alone_what_is_outside() {
    // Loaded from the corner at 0, 0 and stored to the same tensor at 8, 25, where 10 columns and 5 rows are left.
    let body = format!(
        "{}{}
         @!%p0 bra STORED;
         cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {{8, 25}}], [%tile];
         cp.async.bulk.commit_group;
         cp.async.bulk.wait_group 0;
         STORED:
         bar.sync 0;
         mad.wide.u32 %x0, %t, 4, %in;
         ld.global.u32 %r0, [%x0+2000];
         st.global.u32 [%at], %r0;",
        load(0, 0, 512),
        wait(0)
    );
    let found = launch(&body, 100, matrix(16, 0)).unwrap_or_else(|f| panic!("{f}"));
    for (i, &word) in found[..100].iter().enumerate() {
        let (row, column) = (i / 20, i % 20);
        let expected = if (8..18).contains(&column) { row * 20 + column - 8 } else { 500 + i };
        assert_eq!(word as usize, expected, "row {row} column {column}");
    }
}

#[test]
fn destination_is_not_used_before_the_copy_was_waited_for() {
    let early = format!("{}bar.sync 0; {STORE_TILE}{}", load(0, 0, 512), wait(0));
    assert!(matches!(fault(&early, 32), FaultKind::InFlight { what, .. } if what.contains("read before")));
    let overwritten = format!("{}bar.sync 0; st.shared.u32 [%tile], %t;{}", load(0, 0, 512), wait(0));
    assert!(matches!(fault(&overwritten, 1), FaultKind::InFlight { what, .. } if what.contains("written while")));
}

#[test]
fn bytes_that_do_not_come_are_a_deadlock_that_names_them() {
    let FaultKind::Deadlock(message) = fault(&format!("{}{}", load(0, 0, 528), wait(0)), 32) else {
        panic!("no deadlock");
    };
    assert!(message.contains("16 bytes to come"), "{message}");
    let FaultKind::Deadlock(message) = fault(&wait(0), 64) else { panic!("no deadlock") };
    assert!(message.contains("1 of 1 arrivals") && message.contains("warp 1"), "{message}");
    let more = fault(&format!("{}{}", load(0, 0, 500), wait(0)), 32);
    assert!(matches!(more, FaultKind::Asynchronous(message) if message.contains("more bytes than announced")));
}

#[test]
fn nothing_is_under_way_when_a_block_ends() {
    assert!(matches!(fault(&load(0, 0, 512), 32), FaultKind::Asynchronous(message) if message.contains("block ends")));
    let store = format!(
        "{}{} @%p0 cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {{0, 0}}], [%tile];
         @%p0 cp.async.bulk.commit_group;",
        load(0, 0, 512),
        wait(0)
    );
    assert!(matches!(fault(&store, 32), FaultKind::Asynchronous(message) if message.contains("block ends")));
}

#[test]
fn bulk_store_sees_ordinary_writes_behind_a_fence_only() {
    let body = |fence: &str| {
        format!(
            "mov.u32 %r0, 7;
             shl.b32 %r1, %t, 2; add.u32 %r1, %r1, %tile; st.shared.u32 [%r1], %r0;
             {fence}
             bar.sync 0;
             @!%p0 bra STORED;
             cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {{0, 0}}], [%tile];
             cp.async.bulk.commit_group;
             cp.async.bulk.wait_group 0;
             STORED:
             bar.sync 0;
             ld.global.u32 %r0, [%in+80];
             st.global.u32 [%at], %r0;"
        )
    };
    let found = launch(&body("fence.proxy.async.shared::cta;"), 128, matrix(16, 0));
    assert_eq!(found.unwrap_or_else(|f| panic!("{f}"))[0], 7);
    assert!(matches!(fault(&body(""), 128), FaultKind::InFlight { what, .. } if what.contains("fence.proxy.async")));
}

#[test]
fn source_of_a_bulk_store_is_not_overwritten_while_it_is_read() {
    let body = |wait_group: &str| {
        format!(
            "{}{}
             @!%p0 bra STORED;
             cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [%map, {{0, 0}}], [%tile];
             cp.async.bulk.commit_group;
             {wait_group}
             STORED:
             bar.sync 0;
             @%p0 st.shared.u32 [%tile], %t;
             @%p0 cp.async.bulk.wait_group.read 0;",
            load(0, 0, 512),
            wait(0)
        )
    };
    assert!(launch(&body("cp.async.bulk.wait_group.read 0;"), 32, matrix(16, 0)).is_ok());
    assert!(matches!(fault(&body(""), 32), FaultKind::InFlight { what, .. } if what.contains("still reads")));
}

#[test]
fn barrier_counts_arrivals_of_each_phase() {
    // 64 threads arrive twice; all wait for both phases.
    let body = format!(
        "mov.u32 %r0, full; add.u32 %full, %tile, 64;
         @%p0 mbarrier.init.shared::cta.b64 [%full], 64;
         bar.sync 0;
         mbarrier.arrive.shared::cta.b64 _, [%full];
         {}
         mbarrier.arrive.shared::cta.b64 %x0, [%full];
         {}
         mbarrier.test_wait.parity.shared::cta.b64 %done, [%full], 0;
         selp.u32 %r1, 1, 2, %done;
         st.global.u32 [%at], %r1;",
        wait(0),
        wait(1)
    );
    let found = launch(&body, 64, matrix(16, 0)).unwrap_or_else(|f| panic!("{f}"));
    assert!(found[..64].iter().all(|&word| word == 2), "{found:?}");
    let again = fault("@%p0 mbarrier.init.shared::cta.b64 [%full], 1;", 32);
    assert!(matches!(again, FaultKind::Asynchronous(message) if message.contains("again")));
    let none = fault("mbarrier.arrive.shared::cta.b64 _, [%tile];", 1);
    assert!(matches!(none, FaultKind::Asynchronous(message) if message.contains("no initialised barrier")));
    let many = fault("mbarrier.arrive.shared::cta.b64 _, [%full], 2;", 1);
    assert!(matches!(many, FaultKind::Asynchronous(message) if message.contains("too many")));
}

#[test]
fn threads_that_arrive_and_go_on_are_counted_at_named_barriers() {
    let body = "
        setp.lt.u32 %p1, %t, 32;
        @!%p1 bra WAITS;
        mov.u32 %r0, 5;
        st.shared.u32 [%tile], %r0;
        bar.arrive 1, 64;
        bra OVER;
    WAITS:
        bar.sync 1, 64;
        ld.shared.u32 %r0, [%tile];
    OVER:
        st.global.u32 [%at], %r0;";
    let found = launch(body, 64, matrix(16, 0)).unwrap_or_else(|f| panic!("{f}"));
    assert!(found[..64].iter().all(|&word| word == 5));
}

/// `cp.async` of 16 bytes to the tile by each of 32 threads, `there` of them.
fn copy(there: u32) -> String {
    format!(
        "shl.b32 %r1, %t, 4; add.u32 %r2, %r1, %tile; mad.wide.u32 %x0, %t, 16, %in;
         cp.async.cg.shared.global [%r2], [%x0], 16, {there};
         cp.async.commit_group;"
    )
}

#[test]
fn copies_of_threads_arrive_with_their_group() {
    let read = "ld.shared.v4.u32 {%r3, %r4, %r5, %r6}, [%r2]; add.u32 %r3, %r3, %r6; st.global.u32 [%at], %r3;";
    let body = format!("{}cp.async.wait_group 0; {read}", copy(16));
    let found = launch(&body, 32, matrix(16, 0)).unwrap_or_else(|f| panic!("{f}"));
    assert_eq!(found[..32], (0..32).map(|t| 8 * t + 3).collect::<Vec<u32>>());
    // The last eight bytes are zeros that were never read from there.
    let body = format!("{}cp.async.wait_all; {read}", copy(8));
    let found = launch(&body, 32, matrix(16, 0)).unwrap_or_else(|f| panic!("{f}"));
    assert_eq!(found[..32], (0..32).map(|t| 4 * t).collect::<Vec<u32>>());
    let early = format!("{}cp.async.wait_group 1; {read} cp.async.wait_all;", copy(16));
    assert!(matches!(fault(&early, 32), FaultKind::InFlight { what, .. } if what.contains("read before")));
    let left = copy(16);
    assert!(matches!(fault(&left, 32), FaultKind::Asynchronous(message) if message.contains("block ends")));
}

#[test]
fn copies_by_threads_are_ordered_by_barriers_as_stores_are() {
    // The second warp reads what the first one copied: only behind a barrier.
    let body = |barrier: &str| {
        let text = format!(
            "{}cp.async.wait_group 0; {barrier} xor.b32 %r1, %r1, 512; add.u32 %r2, %r1, %tile;
             setp.ge.u32 %p1, %t, 32; @%p1 ld.shared.u32 %r3, [%r2];",
            copy(16)
        );
        // Without a barrier in shared memory races are looked for.
        kernel(&text).replace("@%p0 mbarrier.init.shared::cta.b64 [%full], 1;", "")
    };
    let run = |text: &str| {
        let module = parse(text);
        let mut memory = Memory::new();
        let (input, out) = (memory.alloc(1024, 256), memory.alloc(1024, 256));
        let mut params = vec![0; 128];
        [out, input].iter().for_each(|x| params.extend(x.to_le_bytes()));
        let launch = Launch { grid: [1; 3], block: [64, 1, 1], params, ..Launch::default() };
        run(module.kernel("k").expect("k"), &mut memory, &launch, &RunOptions::strict())
    };
    assert!(run(&body("bar.sync 0;")).is_ok());
    let kind = run(&body("")).expect_err("a race").kind;
    assert!(matches!(kind, FaultKind::Race { .. }), "{kind}");
}

#[test]
fn kernel_that_starts_early_waits_before_it_uses_memory() {
    let early = "ld.global.u32 %r0, [%in]; griddepcontrol.wait; st.global.u32 [%at], %r0;";
    assert!(matches!(fault(early, 32), FaultKind::Asynchronous(message) if message.contains("griddepcontrol")));
    let waited = "griddepcontrol.wait; ld.global.u32 %r0, [%in+8]; st.global.u32 [%at], %r0;";
    assert_eq!(launch(waited, 32, matrix(16, 0)).unwrap_or_else(|f| panic!("{f}"))[..32], [2; 32]);
}

/// Who waits for a round of a stage.
#[derive(Clone, Copy, PartialEq)]
enum Waits {
    /// Only the reader of that round, which takes the parity of an older one for that of its own.
    ItsReader,
    /// Both readers, for every round.
    Everybody,
}

/// The first warp fills one stage in three rounds, with boxes from rows 0, 1 and 2; the two others read the stage's first word in
/// turns, and leave the sum of what they read.
fn rounds(waits: Waits) -> String {
    let everybody = waits == Waits::Everybody;
    let fill = |round: u32| {
        let freed = if round > 0 { wait_at("%r8", (round - 1) % 2) } else { String::new() };
        format!(
            "{freed}
             mbarrier.arrive.expect_tx.shared::cta.b64 _, [%full], 512;
             cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%tile], [%map, {{0, {round}}}], [%full];"
        )
    };
    let reader = |own: u32| {
        let pass = |round: u32| {
            let read = if round % 2 == own { "ld.shared.u32 %r2, [%tile]; add.u32 %r3, %r3, %r2;" } else { "" };
            if !everybody && read.is_empty() {
                return String::new();
            }
            format!("{} {read} mbarrier.arrive.shared::cta.b64 _, [%r8];", wait(round % 2))
        };
        format!("{} st.global.u32 [%at], %r3;", (0..3).map(pass).collect::<String>())
    };
    format!(
        "add.u32 %r8, %tile, 1024;
         mov.u32 %r3, 0;
         @%p0 mbarrier.init.shared::cta.b64 [%r8], {};
         bar.sync 0;
         and.b32 %r9, %t, 31;
         setp.ne.u32 %p1, %r9, 0;
         @%p1 bra OVER;
         setp.eq.u32 %p2, %t, 32;
         @%p2 bra EVEN;
         setp.eq.u32 %p2, %t, 64;
         @%p2 bra ODD;
         {}
         bra OVER;
    EVEN:
         {}
         bra OVER;
    ODD:
         {}
    OVER:",
        if everybody { 2 } else { 1 },
        (0..3).map(fill).collect::<String>(),
        reader(0),
        reader(1),
    )
}

const LATE_SEEDS: std::ops::Range<u64> = 0..8;

#[test]
fn waiting_for_the_parity_of_another_round_shows_when_copies_land_late() {
    let run = |late_copies, shuffle| {
        let options = RunOptions { late_copies, shuffle, ..RunOptions::strict() };
        launch_with(&rounds(Waits::ItsReader), 96, matrix(16, 0), &options)
    };
    // Whoever asks makes the copy land, and asks first where warps run in order.
    let found = run(None, None).unwrap_or_else(|f| panic!("{f}"));
    assert_eq!((found[32], found[64]), (40, 20));
    for seed in LATE_SEEDS {
        let kind = run(Some(seed), None).expect_err("an old phase of the same parity").kind;
        assert!(matches!(kind, FaultKind::InFlight { what, .. } if what.contains("read before")), "{seed}: {kind}");
    }
}

#[test]
fn copies_that_land_late_are_right_where_everybody_waits_for_them() {
    let orders = [(None, None)].into_iter().chain(LATE_SEEDS.flat_map(|seed| {
        let late = Some(seed);
        [(late, None), (late, late)]
    }));
    for (late_copies, shuffle) in orders {
        let options = RunOptions { late_copies, shuffle, ..RunOptions::strict() };
        let found = launch_with(&rounds(Waits::Everybody), 96, matrix(16, 0), &options);
        let found = found.unwrap_or_else(|f| panic!("{late_copies:?} {shuffle:?}: {f}"));
        assert_eq!((found[32], found[64]), (40, 20), "{late_copies:?} {shuffle:?}");
    }
}

#[test]
fn lateness_repeats_with_its_seed() {
    let steps = |late_copies| {
        let module = parse(&kernel(&rounds(Waits::Everybody)));
        let mut memory = Memory::new();
        let input = memory.alloc_from(&[0; INPUT_WORDS as usize * 4]);
        let out = memory.alloc(4096, 256);
        let mut params = matrix(16, 0)(input).encode().expect("a map").to_vec();
        [out, input].iter().for_each(|address| params.extend(address.to_le_bytes()));
        let launch = Launch { grid: [1; 3], block: [96, 1, 1], params, ..Launch::default() };
        let options = RunOptions { late_copies, ..RunOptions::strict() };
        run(module.kernel("k").expect("k"), &mut memory, &launch, &options).unwrap_or_else(|f| panic!("{f}"))
    };
    let at_once = steps(None).warp_instructions;
    let late: Vec<u64> = LATE_SEEDS.map(|seed| steps(Some(seed)).warp_instructions).collect();
    assert!(late.iter().all(|&steps| steps > at_once), "{at_once} {late:?}");
    assert_eq!(late, LATE_SEEDS.map(|seed| steps(Some(seed)).warp_instructions).collect::<Vec<u64>>());
    assert!(late.iter().any(|&steps| steps != late[0]), "{late:?}");
}
