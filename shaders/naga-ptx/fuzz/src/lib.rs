//! What a fuzzer calls: text to PTX, and generated programs to PTX, with any options.
//!
//! A panic is a fault of naga-ptx; what naga refuses, or panics at itself, is none. The tests (`tests/mutants.rs`) run
//! the same functions on stable Rust over mutated texts; `fuzz_targets` are for `cargo fuzz`.
#![forbid(unsafe_code)]

pub mod mutate;

use std::cell::Cell;
use std::panic::catch_unwind;

use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga_ptx::{Bounds, Contraction, Options, Target, Uniforms, WorkgroupMemory, compile};
use wgsl_generator::{Random, Settings, generate};

/// Largest text that naga-ptx may write, bytes.
pub const MOST_OUTPUT: usize = 64 << 20;

/// Options chosen by `seed`.
pub fn options(seed: u64) -> Options {
    let mut random = Random::new(seed);
    let targets = [(7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)];
    let (major, minor) = random.pick(&targets);
    Options {
        target: Target::new(major, minor),
        entry_point: None,
        bounds: random.pick(&[Bounds::Clamp, Bounds::Trust]),
        workgroup_memory: random.pick(&[WorkgroupMemory::Zeroed, WorkgroupMemory::Undefined]),
        uniforms: random.pick(&[Uniforms::Pointers, Uniforms::Parameters]),
        contraction: random.pick(&[Contraction::Allowed, Contraction::Forbidden]),
        loop_limit: random.pick(&[None, Some(0), Some(1000), Some(u32::MAX)]),
    }
}

thread_local! {
    static IN_NAGA: Cell<bool> = const { Cell::new(false) };
}

/// Lets panics inside of naga pass, which libFuzzer's own hook would take for faults of ours: to be called once, after
/// that hook was set.
pub fn tolerate_naga() {
    let others = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !IN_NAGA.get() {
            others(info);
        }
    }));
}

/// The valid module in `source`, if there is one; none where naga panics.
fn tolerated(source: &str) -> Option<(naga::Module, ModuleInfo)> {
    IN_NAGA.set(true);
    let result = catch_unwind(|| module(source));
    IN_NAGA.set(false);
    result.ok().flatten()
}

/// The valid module in `source`, if there is one.
pub fn module(source: &str) -> Option<(naga::Module, ModuleInfo)> {
    // naga's own recursion is not what is tested here; polywarp bounds it before naga sees a text.
    let deepest = source.bytes().try_fold((0_i32, 0_i32), |(depth, most), byte| {
        let depth = depth + i32::from(b"([{".contains(&byte)) - i32::from(b")]}".contains(&byte));
        (depth < 100).then_some((depth, most.max(depth)))
    });
    deepest?;
    let module = naga::front::wgsl::parse_str(source).ok()?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::all()).validate(&module).ok()?;
    Some((module, info))
}

/// Compiles a module; every answer but a panic and an endless text is right.
pub fn compiled(module: &naga::Module, info: &ModuleInfo, options: &Options) -> bool {
    match compile(module, info, options) {
        Ok(ptx) => {
            assert!(ptx.text.len() <= MOST_OUTPUT, "{} bytes of PTX", ptx.text.len());
            true
        }
        Err(_) => false,
    }
}

/// Any bytes: as WGSL, with options that depend on them.
pub fn text(bytes: &[u8]) {
    let Ok(source) = std::str::from_utf8(bytes) else { return };
    let seed = bytes.iter().fold(0_u64, |hash, byte| hash.wrapping_mul(31).wrapping_add(u64::from(*byte)));
    if let Some((module, info)) = tolerated(source) {
        compiled(&module, &info, &options(seed));
    }
}

/// A generated program, which compiles whatever the options.
pub fn generated(seed: u64, options_seed: u64) {
    let random = Random::new(seed ^ 1).bits();
    let settings =
        Settings { subgroups: random & 1 == 0, size: 10 + (random >> 8) as usize % 40, ..Settings::varied(seed) };
    let program = generate(seed, &settings);
    let Some((module, info)) = tolerated(&program.wgsl) else { return };
    let options = options(options_seed);
    if let Err(error) = compile(&module, &info, &options) {
        panic!("{error} with {options:?}:\n{}", program.wgsl);
    }
}
