//! One instruction, its operands and its result. With `PTXAS=/path/to/ptxas` every text is assembled as well, so that
//! the tests speak of legal PTX only.
#![allow(dead_code, reason = "each test uses a part")]

use std::io::Write;
use std::process::{Command, Stdio};

use ptx_interpreter::{Fault, Launch, Memory, Module, RunOptions, Stats, run};

pub fn parse(text: &str) -> Module {
    if let Ok(ptxas) = std::env::var("PTXAS") {
        assemble(&ptxas, text);
    }
    Module::parse(text).unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn assemble(ptxas: &str, text: &str) {
    let path = std::env::temp_dir().join(format!("ptx-{}-{:?}.ptx", std::process::id(), std::thread::current().id()));
    std::fs::File::create(&path).and_then(|mut f| f.write_all(text.as_bytes())).expect("a temporary file");
    let arch = text.split("sm_").nth(1).and_then(|t| t.split_whitespace().next()).expect("a target");
    let arch = format!("-arch=sm_{}", if arch == "70" { "75" } else { arch });
    let output = Command::new(ptxas)
        .arg(arch)
        .arg(&path)
        .args(["-o", "/dev/null"])
        .stdin(Stdio::null())
        .output()
        .expect("ptxas runs");
    let _ = std::fs::remove_file(&path);
    assert!(output.status.success(), "{}\n{text}", String::from_utf8_lossy(&output.stderr));
}

/// A module around a kernel `k` with the parameters `out, a, b, c` and registers of all widths, whose names end in
/// those letters (`%da`, `%wa`, `%ha`); results are in `%dd`, `%wd`, `%hd`, `%p`.
pub fn snippet(body: &str, store: &str) -> String {
    format!(
        ".version 8.4
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out, .param .u64 a, .param .u64 b, .param .u64 c)
{{
    .reg .b64 %out, %da, %db, %dc, %dd, %de;
    .reg .b32 %wa, %wb, %wc, %wd, %we;
    .reg .b16 %ha, %hb, %hc, %hd, %he;
    .reg .pred %p, %q, %s;
    ld.param.u64 %out, [out];
    ld.param.u64 %da, [a];
    ld.param.u64 %db, [b];
    ld.param.u64 %dc, [c];
    cvt.u32.u64 %wa, %da;
    cvt.u32.u64 %wb, %db;
    cvt.u32.u64 %wc, %dc;
    cvt.u16.u64 %ha, %da;
    cvt.u16.u64 %hb, %db;
    cvt.u16.u64 %hc, %dc;
    {body}
    {store}
    ret;
}}
"
    )
}

fn evaluate(body: &str, store: &str, abc: [u64; 3], bytes: usize) -> u64 {
    let module = parse(&snippet(body, store));
    let mut memory = Memory::new();
    let out = memory.alloc(8, 8);
    let params = [out, abc[0], abc[1], abc[2]].iter().flat_map(|x| x.to_le_bytes()).collect();
    let launch = Launch { grid: [1; 3], block: [1; 3], params, ..Launch::default() };
    let kernel = module.kernel("k").expect("k");
    run(kernel, &mut memory, &launch, &RunOptions::default()).unwrap_or_else(|fault| panic!("{fault}"));
    let mut value = [0; 8];
    value[..bytes].copy_from_slice(memory.read(out, bytes).expect("the result"));
    u64::from_le_bytes(value)
}

/// `body` leaves 32 bits in `%wd`.
pub fn word(body: &str, a: u64, b: u64, c: u64) -> u32 {
    evaluate(body, "st.global.u32 [%out], %wd;", [a, b, c], 4) as u32
}

/// `body` leaves 64 bits in `%dd`.
pub fn double(body: &str, a: u64, b: u64, c: u64) -> u64 {
    evaluate(body, "st.global.u64 [%out], %dd;", [a, b, c], 8)
}

/// `body` leaves 16 bits in `%hd`.
pub fn half(body: &str, a: u64, b: u64, c: u64) -> u16 {
    evaluate(body, "st.global.u16 [%out], %hd;", [a, b, c], 2) as u16
}

/// `body` leaves a predicate in `%p`.
pub fn pred(body: &str, a: u64, b: u64, c: u64) -> bool {
    evaluate(body, "selp.u32 %wd, 1, 0, %p; st.global.u32 [%out], %wd;", [a, b, c], 4) == 1
}

/// `body` with `f32` operands.
pub fn f32s(body: &str, a: f32, b: f32, c: f32) -> f32 {
    f32::from_bits(word(body, a.to_bits().into(), b.to_bits().into(), c.to_bits().into()))
}

/// A kernel `k(out)` of `threads` threads, each of which leaves a word in `%r0` for `out[thread]`; `%tid` is in `%t`.
pub fn threads_text(declarations: &str, body: &str) -> String {
    format!(
        ".version 8.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out)
{{
    .reg .b64 %out, %at;
    .reg .b32 %t, %lane, %r<16>;
    .reg .pred %p<8>;
    {declarations}
    ld.param.u64 %out, [out];
    mov.u32 %t, %tid.x;
    mov.u32 %lane, %laneid;
    mad.wide.u32 %at, %t, 4, %out;
    mov.u32 %r0, 0;
    {body}
    st.global.u32 [%at], %r0;
    ret;
}}
"
    )
}

/// Runs such a kernel.
pub fn threads_with(
    declarations: &str,
    body: &str,
    threads: u32,
    options: &RunOptions,
) -> Result<(Vec<u32>, Stats), Box<Fault>> {
    let module = parse(&threads_text(declarations, body));
    let mut memory = Memory::new();
    let out = memory.alloc(threads as usize * 4, 256);
    let params = out.to_le_bytes().to_vec();
    let launch = Launch { grid: [1; 3], block: [threads, 1, 1], params, ..Launch::default() };
    let stats = run(module.kernel("k").expect("k"), &mut memory, &launch, options)?;
    let bytes = memory.read(out, threads as usize * 4).expect("the results");
    let words = bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
    Ok((words, stats))
}

/// The same, with all checks, in order and in three random orders, which must agree.
pub fn threads(declarations: &str, body: &str, count: u32) -> Vec<u32> {
    let first = threads_with(declarations, body, count, &RunOptions::strict()).unwrap_or_else(|f| panic!("{f}")).0;
    for seed in 1..4 {
        let options = RunOptions { shuffle: Some(seed), ..RunOptions::strict() };
        let again = threads_with(declarations, body, count, &options).unwrap_or_else(|f| panic!("{f}")).0;
        assert_eq!(first, again, "order {seed}");
    }
    first
}
