//! Programs that do what they must not, one for each kind of fault; and texts that must be refused.

use crate::common::{self, parse, snippet, threads_text, threads_with};
use ptx_interpreter::{Fault, FaultKind, Launch, Memory, Module, ParseErrorKind, RunOptions, run};

fn fault(declarations: &str, body: &str, count: u32) -> Fault {
    match threads_with(declarations, body, count, &RunOptions::strict()) {
        Ok(_) => panic!("no fault in {body}"),
        Err(fault) => *fault,
    }
}

/// Runs a snippet whose `%da` is the address of 64 bytes and `%dout` of 8, strictly.
fn with_memory(body: &str, prepare: impl FnOnce(&mut Memory, u64) -> u64) -> Result<Memory, Box<Fault>> {
    let module = parse(&snippet(body, ""));
    let mut memory = Memory::new();
    let out = memory.alloc(8, 8);
    let data = memory.alloc(64, 16);
    let a = prepare(&mut memory, data);
    let params = [out, a, 0, 0].iter().flat_map(|x| x.to_le_bytes()).collect();
    let launch = Launch { grid: [1; 3], block: [1; 3], params, ..Launch::default() };
    run(module.kernel("k").unwrap(), &mut memory, &launch, &RunOptions::strict())?;
    Ok(memory)
}

fn kind(body: &str, prepare: impl FnOnce(&mut Memory, u64) -> u64) -> FaultKind {
    match with_memory(body, prepare) {
        Ok(_) => panic!("no fault in {body}"),
        Err(fault) => fault.kind,
    }
}

#[test]
fn accesses_stay_inside_live_allocations() {
    let load = "ld.global.u32 %wd, [%da+60];";
    assert!(with_memory(load, |_, data| data).is_ok());
    assert!(with_memory("st.global.v4.u32 [%da+48], {%wa, %wa, %wa, %wa};", |_, data| data).is_ok());
    for (body, offset) in [(load, 4), ("ld.global.u32 %wd, [%da+-4];", 0), ("st.global.u8 [%da+64], %ha;", 0)] {
        let kind = kind(body, |_, data| data + offset);
        assert!(matches!(kind, FaultKind::OutOfBounds { space: "global", .. }), "{body}: {kind}");
    }
    let null = kind(load, |_, _| 0);
    assert!(null.to_string().contains("null"), "{null}");
    let freed = kind(load, |memory, data| {
        assert!(memory.free(data) && !memory.free(data));
        data
    });
    assert!(freed.to_string().contains("freed"), "{freed}");
    let carry = kind(
        "cvt.u32.u64 %wa, %da; add.u32 %wa, %wa, 32; cvt.u64.u32 %db, %wa; and.b64 %da, %da, 0xffffffff00000000; or.b64 %da, %da, %db; ld.global.u32 %wd, [%da+224];",
        |_, data| data,
    );
    assert!(matches!(carry, FaultKind::OutOfBounds { .. }), "a lost carry ends far away: {carry}");
}

#[test]
fn accesses_are_aligned_and_writable() {
    let misaligned = kind("ld.global.v2.u32 {%wd, %we}, [%da];", |_, data| data + 4);
    assert!(matches!(misaligned, FaultKind::Misaligned { bytes: 8, .. }), "{misaligned}");
    let read_only = kind("st.global.u32 [%da], %wb;", |memory, data| {
        assert!(memory.set_read_only(data, true));
        data
    });
    assert!(matches!(read_only, FaultKind::ReadOnly { .. }), "{read_only}");
    let early = kind("ld.global.nc.u32 %wd, [%da]; st.global.u32 [%da], %wd;", |_, data| data);
    assert!(matches!(early, FaultKind::NonCoherent { .. }), "{early}");
    let late = kind("st.global.u32 [%da+4], %wb; ld.global.nc.v2.u32 {%wd, %we}, [%da];", |_, data| data);
    assert!(matches!(late, FaultKind::NonCoherent { .. }), "{late}");
    assert!(with_memory("st.global.u32 [%da+4], %wb; ld.global.nc.u32 %wd, [%da];", |_, data| data).is_ok());
}

#[test]
fn global_memory_that_nobody_has_written_is_not_read() {
    // Eight bytes, of which the host wrote the first five.
    let with = |body: &str, options: &RunOptions| {
        let module = parse(&threads_text("", body));
        let mut memory = Memory::new();
        let data = memory.alloc_unwritten(8, 0xa5);
        memory.write(data, &[1, 2, 3, 4, 5]).expect("inside");
        let params = data.to_le_bytes().to_vec();
        let launch = Launch { grid: [1; 3], block: [1; 3], params, ..Launch::default() };
        let ran = run(module.kernel("k").expect("k"), &mut memory, &launch, options).map_err(|fault| fault.kind);
        (ran.map(|_| memory.read(data, 8).expect("inside").to_vec()), memory, data)
    };
    let strict = RunOptions::strict();
    let hole = |body: &str| match with(body, &strict) {
        (Err(FaultKind::Uninitialised { space: "global", address }), _, data) => address - data,
        (other, ..) => panic!("{body}: {other:?}"),
    };
    assert_eq!(hole("ld.global.u8 %r0, [%out+5];"), 5);
    assert_eq!(hole("ld.global.u32 %r1, [%out+4]; mov.u32 %r0, 0;"), 5);
    assert_eq!(hole("ld.global.nc.v2.u32 {%r0, %r1}, [%out];"), 5);
    // A part of a word that is set by way of the whole word reads the rest, and leaves it without a value.
    assert_eq!(hole("atom.global.or.b32 %r0, [%out+4], 255;"), 5);
    // What a store fills, the others may read; what it does not, is none of theirs.
    assert_eq!(hole("st.global.u8 [%out+5], %t; ld.global.u16 %r0, [%out+6];"), 6);
    let fine = "st.global.u16 [%out+6], %t; st.global.u8 [%out+5], %t; ld.global.u32 %r0, [%out+4];";
    assert_eq!(with(fine, &strict).0.expect("all is written"), [5, 0, 0, 0, 5, 0, 0, 0]);
    // Unasked, it is noise.
    let noise = with("ld.global.u32 %r0, [%out+4];", &RunOptions::default()).0.expect("allowed");
    assert_eq!(noise, [5, 0xa5, 0xa5, 0xa5, 5, 0xa5, 0xa5, 0xa5]);
}

#[test]
fn copies_of_unwritten_memory_are_unwritten() {
    let mut memory = Memory::new();
    let (from, to) = (memory.alloc_unwritten(8, 0xa5), memory.alloc(8, 256));
    memory.write(from, &[1, 2]).expect("inside");
    memory.demand_written(to, 8).expect("zeroed");
    memory.copy(to + 4, from, 4).expect("inside");
    assert_eq!(memory.read(to, 8).expect("inside"), [0, 0, 0, 0, 1, 2, 0xa5, 0xa5]);
    memory.demand_written(to, 6).expect("written");
    let hole = memory.demand_written(to + 4, 4);
    assert_eq!(hole, Err(FaultKind::Uninitialised { space: "global", address: to + 6 }));
    let whole = memory.alloc_from(&[7; 4]);
    memory.copy(to + 4, whole, 4).expect("inside");
    memory.demand_written(to, 8).expect("written");
}

#[test]
fn a_fault_says_where() {
    let fault = fault("", "setp.eq.u32 %p0, %t, 37;\n    @%p0 st.global.u32 [%at+1000], %t;", 64);
    assert_eq!((fault.kernel.as_str(), fault.block, fault.thread), ("k", [0; 3], [37, 0, 0]));
    assert_eq!(fault.text, "@%p0 st.global.u32 [%at+1000], %t;");
    let text = threads_text("", "setp.eq.u32 %p0, %t, 37;\n    @%p0 st.global.u32 [%at+1000], %t;");
    assert_eq!(text.lines().nth(fault.line as usize - 1).map(str::trim), Some(fault.text.as_str()));
}

const SHARED: &str = ".shared .align 16 .b8 data[256];";

#[test]
fn shared_memory_is_checked() {
    let out = fault(SHARED, "st.shared.u32 [data+256], %t;", 1).kind;
    assert!(matches!(out, FaultKind::OutOfBounds { space: "shared", .. }), "{out}");
    let zero = fault(SHARED, "mov.u32 %r1, 0; st.shared.u32 [%r1], %t;", 1).kind;
    assert!(matches!(zero, FaultKind::OutOfBounds { space: "shared", .. }), "a forgotten base: {zero}");
    let unwritten = fault(SHARED, "st.shared.u32 [data], %t; ld.shared.v2.u32 {%r0, %r1}, [data];", 1).kind;
    assert!(matches!(unwritten, FaultKind::Uninitialised { .. }), "{unwritten}");
    let local = fault(".local .align 4 .b8 mine[8];", "st.local.u32 [mine+8], %t;", 1).kind;
    assert!(matches!(local, FaultKind::OutOfBounds { space: "local", .. }), "{local}");
}

#[test]
fn races_are_found_and_order_is_believed() {
    let address = "mov.u32 %r1, data; shl.b32 %r2, %t, 2; add.u32 %r1, %r1, %r2; st.shared.u32 [%r1], %t;";
    // Each thread reads its neighbour's word.
    let neighbour = "xor.b32 %r3, %r2, 4; mov.u32 %r4, data; add.u32 %r4, %r4, %r3; ld.shared.u32 %r0, [%r4];";
    let text = |between: &str| format!("{address} {between} {neighbour}");
    let race = fault(SHARED, &text(""), 64).kind;
    assert!(matches!(race, FaultKind::Race { what: "read after write", .. }), "{race}");
    let other_warp = text("bar.warp.sync 0xffffffff;").replace("%r2, 4;", "%r2, 128;");
    let options = RunOptions { check_races: true, ..RunOptions::default() };
    let race = threads_with(SHARED, &other_warp, 64, &options).expect_err("a race").kind;
    assert!(matches!(race, FaultKind::Race { what: "write after read", .. }), "{race}");
    for fine in ["bar.sync 0;", "bar.warp.sync 0xffffffff;"] {
        assert!(threads_with(SHARED, &text(fine), 64, &RunOptions::strict()).is_ok(), "{fine}");
    }
    let after_read = format!("{} st.shared.u32 [%r1], %lane;", text("bar.sync 0;"));
    let race = fault(SHARED, &after_read.replace("%lane", "%r0"), 64).kind;
    assert!(matches!(race, FaultKind::Race { what: "write after read", .. }), "{race}");
    let both = fault(SHARED, "st.shared.u32 [data], %t;", 64).kind;
    assert!(matches!(both, FaultKind::Race { what: "write after write", .. }), "{both}");
    let agreed = "mov.u32 %r1, 7; st.shared.u32 [data], %r1;";
    assert!(threads_with(SHARED, agreed, 64, &RunOptions::strict()).is_ok());
    let atomics = "setp.eq.u32 %p0, %t, 0; @%p0 st.shared.u32 [data], 0; bar.sync 0;
        atom.shared.add.u32 %r1, [data], 1; bar.sync 0; ld.shared.u32 %r0, [data];";
    assert_eq!(common::threads(SHARED, atomics, 64), vec![64; 64]);
    let mixed = "setp.eq.u32 %p0, %t, 0; @%p0 st.shared.u32 [data], 0; atom.shared.add.u32 %r1, [data], 1;";
    assert!(matches!(fault(SHARED, mixed, 64).kind, FaultKind::Race { .. }));
}

#[test]
fn blocks_race_in_global_memory() {
    let text = threads_text("", "mov.u32 %r0, %ctaid.x;");
    let module = parse(&text);
    let mut memory = Memory::new();
    let out = memory.alloc(128, 4);
    let launch = Launch { grid: [2, 1, 1], block: [32, 1, 1], params: out.to_le_bytes().to_vec(), ..Launch::default() };
    let kernel = module.kernel("k").unwrap();
    assert!(run(kernel, &mut memory, &launch, &RunOptions::default()).is_ok());
    let fault = run(kernel, &mut memory, &launch, &RunOptions::strict()).expect_err("a race");
    assert!(matches!(fault.kind, FaultKind::Race { space: "global", other_block: [0, 0, 0], .. }), "{fault}");
    assert_eq!(fault.block, [1, 0, 0]);
}

#[test]
fn threads_that_never_come_are_a_deadlock() {
    let half = "setp.lt.u32 %p0, %lane, 16; @%p0 bra SKIP; bar.sync 0; SKIP: add.u32 %r0, %r0, 1;";
    assert!(matches!(fault("", half, 32).kind, FaultKind::Deadlock(_)));
    // Threads that have exited are not waited for.
    assert!(threads_with("", "setp.lt.u32 %p0, %t, 40; @%p0 ret; bar.sync 0;", 64, &RunOptions::strict()).is_ok());
    let shuffle = "setp.lt.u32 %p0, %lane, 16; @%p0 bra SKIP; shfl.sync.idx.b32 %r0, %t, 0, 31, 0xffffffff; SKIP:";
    let kind = fault("", shuffle, 32).kind;
    assert!(matches!(&kind, FaultKind::Deadlock(text) if text.contains("0xffffffff")), "{kind}");
    let outsider = "setp.lt.u32 %p0, %lane, 16; vote.sync.ballot.b32 %r0, %p0, 0xffff;";
    assert!(matches!(fault("", outsider, 32).kind, FaultKind::Convergence(_)));
    let two = "setp.lt.u32 %p0, %lane, 16; @%p0 bra B; bar.sync 0; bra END; B: bar.sync 0; END:";
    assert!(matches!(fault("", two, 32).kind, FaultKind::Convergence(_)));
    let options = RunOptions { max_steps: 10_000, ..RunOptions::default() };
    let endless = threads_with("", "L: bra L;", 32, &options).expect_err("an endless loop");
    assert_eq!(endless.kind, FaultKind::Steps(10_000));
    assert_eq!(fault("", "setp.eq.u32 %p0, %t, 3; @%p0 trap;", 32).kind, FaultKind::Trap);
}

#[test]
fn launches_fit_the_kernel() {
    let module = parse(
        ".version 7.0 .target sm_70 .address_size 64 .extern .shared .align 16 .b8 d[];
         .visible .entry k(.param .u64 a) .reqntid 32, 1, 1 { .reg .b32 %r; mov.u32 %r, d; st.shared.u32 [%r], 1; ret; }
         .visible .entry plain() { ret; }",
    );
    let kernel = module.kernel("k").unwrap();
    assert_eq!((kernel.params()[0].name.as_str(), kernel.param_bytes()), ("a", 8));
    let good = Launch { grid: [1; 3], block: [32, 1, 1], params: vec![0; 8], dynamic_shared_bytes: 16 };
    let mut memory = Memory::new();
    assert!(run(kernel, &mut memory, &good, &RunOptions::default()).is_ok());
    let bad = [
        Launch { block: [64, 1, 1], ..good.clone() },
        Launch { block: [0, 1, 1], ..good.clone() },
        Launch { grid: [1, 0, 1], ..good.clone() },
        Launch { grid: [1, 70_000, 1], ..good.clone() },
        Launch { params: vec![0; 4], ..good.clone() },
        Launch { dynamic_shared_bytes: 1 << 20, ..good.clone() },
    ];
    for launch in bad {
        let fault = run(kernel, &mut memory, &launch, &RunOptions::default()).expect_err("a refusal");
        assert!(matches!(fault.kind, FaultKind::Launch(_)), "{fault}");
    }
    let plain = Launch { params: Vec::new(), ..good };
    assert!(run(module.kernel("plain").unwrap(), &mut memory, &plain, &RunOptions::default()).is_err());
    assert!(module.kernel("none").is_none() && module.kernels().len() == 2);
}

fn refused(body: &str) -> ParseErrorKind {
    let text = snippet(body, "");
    let error = Module::parse(&text).expect_err(body);
    let line = text.lines().position(|line| line.trim() == body).map(|at| at as u32 + 1);
    assert_eq!(Some(error.line), line, "{error}");
    error.kind
}

#[test]
fn nothing_unknown_is_ignored() {
    use ParseErrorKind as K;
    for body in ["frobnicate.u32 %wd, %wa;", "call f;", "add.cc.u32 %wd, %wa, %wb;", "tex.2d.v4.f32.s32 %wd, %wa;"] {
        let kind = refused(body);
        assert!(matches!(kind, K::Instruction(_) | K::Modifier { .. }), "{body}: {kind}");
    }
    for body in [
        "add.u32.wide %wd, %wa, %wb;",
        "add.b32 %wd, %wa, %wb;",
        "fma.f32 %wd, %wa, %wb, %wc;",
        "add.rz.f32 %wd, %wa, %wb;",
        "cvt.rn.u32.u64 %wd, %da;",
        "cvt.f16.f32 %hd, %wa;",
        "cvt.u32.f32 %wd, %wa;",
        "setp.lt.b32 %p, %wa, %wb;",
        "setp.ltu.s32 %p, %wa, %wb;",
        "ld.global.v4.u64 {%dd, %dd, %dd, %dd}, [%da];",
        "ld.global.v3.u32 {%wd, %wd, %wd}, [%da];",
        "ld.u32 %wd, [%da];",
        "ld.param.nc.u32 %wd, [a];",
        "st.param.u32 [a], %wa;",
        "atom.global.add.noftz.f32 %wd, [%da], %wa;",
        "atom.global.add.f16 %hd, [%da], %ha;",
        "red.global.exch.b32 [%da], %wa;",
        "shfl.idx.b32 %wd, %wa, 0, 31;",
        "mul.u32 %wd, %wa, %wb;",
        "shl.u32 %wd, %wa, %wb;",
        "div.rn.f16 %hd, %ha, %hb;",
        "lg2.approx.f64 %dd, %da;",
    ] {
        let kind = refused(body);
        assert!(matches!(kind, K::Modifier { .. } | K::Instruction(_)), "{body}: {kind}");
    }
}

#[test]
fn operands_have_the_right_kind_and_width() {
    use ParseErrorKind as K;
    for body in [
        "add.u32 %wd, %wa, %db;",
        "add.u32 %wd, %wa;",
        "add.u32 %wd, %wa, 0x1ffffffff;",
        "add.f32 %wd, %wa, 1;",
        "add.u32 %wd, %wa, 0f3F800000;",
        "mov.u64 %wd, %da;",
        "mov.b64 %dd, {%wa};",
        "selp.u32 %wd, %wa, %wb, %wc;",
        "ld.param.u64 %dd, [%wa];",
        "ld.global.v2.u32 {%wd}, [%da];",
        "st.global.u64 [%da], %wa;",
        "mov.u16 %hd, 70000;",
    ] {
        let kind = refused(body);
        assert!(matches!(kind, K::Operand(_)), "{body}: {kind}");
    }
    for body in
        ["add.u32 %wd, %wz, 1;", "bra NOWHERE;", "ld.param.u64 %dd, [zzz];", "mov.u32 %wd, %clock;", "@%zz ret;"]
    {
        let kind = refused(body);
        assert!(matches!(kind, K::Name(_)), "{body}: {kind}");
    }
}

#[test]
fn texts_must_be_modules() {
    use ParseErrorKind as K;
    let parse = |text: &str| Module::parse(text).expect_err(text);
    let head = ".version 7.0 .target sm_70 .address_size 64\n";
    assert!(matches!(parse("").kind, K::Syntax(_)));
    assert!(matches!(parse(".version 7.0 .target sm_70 .address_size 32").kind, K::Syntax(_)));
    for (body, line) in [
        (".visible .entry k() { ret }", 2),
        (".visible .entry k() { ret;", 2),
        (".visible .entry k() {\n /* open", 3),
        (".visible .entry k() {\n ret;\n é }", 4),
        (".visible .entry k(.param .u64) { ret; }", 2),
    ] {
        let error = parse(&format!("{head}{body}"));
        assert!(matches!(error.kind, K::Syntax(_)) && error.line == line, "{body}: {error}");
    }
    for body in [".func f() { ret; }", ".visible .entry k() { .tex .u32 t; ret; }", ".global .u32 g;"] {
        let error = parse(&format!("{head}{body}"));
        assert!(matches!(error.kind, K::Directive(_)), "{body}: {error}");
    }
    for body in [
        ".visible .entry k() { ret; } .visible .entry k() { ret; }",
        ".visible .entry k() { .reg .b32 %r<2>; .reg .b32 %r<2>; ret; }",
        ".visible .entry k() { L: L: ret; }",
    ] {
        let error = parse(&format!("{head}{body}"));
        assert!(matches!(error.kind, K::Name(_)), "{body}: {error}");
    }
    let old = ".visible .entry k() { .reg .b32 %r<2>; redux.sync.add.u32 %r0, %r1, 0xffffffff; ret; }";
    assert!(matches!(parse(&format!("{head}{old}")).kind, K::TooOld { .. }));
}
