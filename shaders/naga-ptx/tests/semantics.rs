//! `tests/run/semantics.wgsl`, run on an interpreter of PTX, gives what WGSL says; with and without checks, for an old
//! and a new target, in any order of threads.

mod common;
#[path = "run/expected.rs"]
mod expected;

use common::{folder, shader};
use expected::{SIZES, layout, words, wrong};
use naga_ptx::{Bounds, Options, ParamKind, Target, Uniforms, WorkgroupMemory, compile};
use ptx_interpreter::{Launch, Memory, Module, RunOptions, run};

/// The buffers after a run of `entry`.
fn execute(entry: &str, options: &Options, run_options: &RunOptions) -> [Vec<u8>; 4] {
    let shader = shader(&folder("run").join("semantics.wgsl"));
    let options = Options { entry_point: Some(entry.to_owned()), ..options.clone() };
    let ptx = compile(&shader.module, &shader.info, &options).unwrap_or_else(|error| panic!("{error}"));
    let module = Module::parse(&ptx.text).unwrap_or_else(|error| panic!("{error}\n{}", ptx.text));
    let mut memory = Memory::new();
    let buffers = SIZES.map(|bytes| (memory.alloc(bytes, 256), bytes));
    let entry = &ptx.entry_points[0];
    let kernel = module.kernel(&entry.symbol).unwrap();
    let mut params = vec![0; kernel.param_bytes() as usize];
    for param in &entry.params {
        let value = match param.kind {
            ParamKind::Buffer { binding, .. } => buffers[binding as usize].0,
            ParamKind::BufferBytes { binding, .. } => buffers[binding as usize].1 as u64,
            ParamKind::Uniform { .. } | ParamKind::Immediates { .. } => panic!("there are none"),
        };
        params[param.offset_bytes as usize..][..8].copy_from_slice(&value.to_le_bytes());
    }
    let launch =
        Launch { grid: [1; 3], block: entry.workgroup_size, params, dynamic_shared_bytes: entry.dynamic_shared_bytes };
    run(kernel, &mut memory, &launch, run_options).unwrap_or_else(|fault| panic!("{options:?}: {fault}\n{}", ptx.text));
    buffers.map(|(address, bytes)| memory.read(address, bytes).unwrap().to_vec())
}

fn all_options() -> Vec<Options> {
    let mut all = Vec::new();
    for (major, minor) in [(7, 0), (9, 0)] {
        let target = Target::new(major, minor);
        all.push(Options { target, ..Options::default() });
        all.push(Options { target, loop_limit: Some(1 << 16), uniforms: Uniforms::Parameters, ..Options::default() });
        all.push(Options {
            bounds: Bounds::Trust,
            workgroup_memory: WorkgroupMemory::Undefined,
            target,
            ..Options::default()
        });
        all.push(Options::trusted(target));
    }
    all
}

#[test]
fn wgsl_means_what_it_says() {
    for options in all_options() {
        for shuffle in [None, Some(5)] {
            let [out, ..] = execute("main", &options, &RunOptions { shuffle, ..RunOptions::strict() });
            let wrong = wrong(&words(&out));
            assert!(
                wrong.is_empty(),
                "{options:?}: {} wrong: {}",
                wrong.len(),
                wrong[..wrong.len().min(20)].join("; ")
            );
        }
    }
}

#[test]
fn structures_lie_in_memory_as_wgsl_says() {
    for options in all_options() {
        let [_, _, placed, _] = execute("main", &options, &RunOptions::strict());
        assert_eq!(words(&placed), layout(), "{options:?}");
    }
}

/// The interpreter faults at the first access outside; what is read is some element.
#[test]
fn accesses_out_of_bounds_stay_inside() {
    for options in all_options().into_iter().filter(|options| options.bounds == Bounds::Clamp) {
        let options_run = RunOptions { check_uninitialised: true, ..RunOptions::default() };
        let [out, ..] = execute("outside", &options, &options_run);
        let out = words(&out);
        assert!(out[..32].iter().all(|&read| read < 100), "{:?}", &out[..32]);
    }
    let trusted = std::panic::catch_unwind(|| {
        execute("outside", &Options::trusted(Target::OLDEST), &RunOptions::default());
    });
    assert!(trusted.is_err(), "without checks something lies outside");
}
