//! The shaders of `tests/device`, which check themselves, run on an interpreter of PTX: no GPU. For the oldest target
//! and a new one, checked and trusted, in order and in random orders of blocks, warps and lanes.

#[path = "../device/head.rs"]
mod head;

use crate::common::{Shader, folder, shaders};
use head::Head;
use naga_ptx::{Options, ParamKind, Target, WorkgroupMemory, compile};
use ptx_interpreter::{Launch, Memory, Module, RunOptions, run};

fn check(shader: &Shader, options: &Options, run_options: &RunOptions) {
    let source = std::fs::read_to_string(folder("device").join(format!("{}.wgsl", shader.name))).unwrap();
    let head = Head::of(&source);
    let ptx = compile(&shader.module, &shader.info, options).unwrap();
    let module = Module::parse(&ptx.text).unwrap_or_else(|error| panic!("{}: {error}\n{}", shader.name, ptx.text));
    for entry in &ptx.entry_points {
        let mut memory = Memory::new();
        let buffers: Vec<(u64, usize)> =
            head.bytes.iter().map(|&bytes| (memory.alloc(bytes.next_multiple_of(16), 256), bytes)).collect();
        let kernel = module.kernel(&entry.symbol).unwrap();
        let mut params = vec![0; kernel.param_bytes() as usize];
        for param in &entry.params {
            let value = match param.kind {
                ParamKind::Buffer { binding, .. } => buffers[binding as usize].0,
                ParamKind::BufferBytes { binding, .. } => buffers[binding as usize].1 as u64,
                ParamKind::Uniform { .. } | ParamKind::Immediates { .. } => panic!("the shaders take buffers only"),
            };
            params[param.offset_bytes as usize..][..8].copy_from_slice(&value.to_le_bytes());
        }
        let launch = Launch {
            grid: head.grid,
            block: entry.workgroup_size,
            params,
            dynamic_shared_bytes: entry.dynamic_shared_bytes,
        };
        let what = format!("{}/{} {options:?} {run_options:?}", shader.name, entry.name);
        run(kernel, &mut memory, &launch, run_options).unwrap_or_else(|fault| panic!("{what}: {fault}\n{}", ptx.text));
        let out = memory.read(buffers[0].0, buffers[0].1).unwrap();
        let out: Vec<u32> = out.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!(out[0], 0, "{what}: {out:?}");
        assert!(out[1] > 100, "{what}: {out:?}");
    }
}

/// Runs the shader `name` in all ways.
fn checks_itself(name: &str) {
    let shaders = shaders("device");
    let shader = shaders.iter().find(|shader| shader.name == name).unwrap();
    for (major, minor) in [(7, 0), (9, 0)] {
        let target = Target::new(major, minor);
        let checked = Options { target, loop_limit: Some(1 << 20), ..Options::default() };
        for shuffle in [None, Some(1)] {
            let options = RunOptions { shuffle, check_uninitialised: true, ..RunOptions::default() };
            check(shader, &checked, &options);
            // They rely on workgroup memory that starts as zero.
            let trusted = Options { workgroup_memory: WorkgroupMemory::Zeroed, ..Options::trusted(target) };
            check(shader, &trusted, &options);
        }
    }
}

#[test]
fn atomics_run() {
    checks_itself("atomics");
}

#[test]
fn wide_atomics_run() {
    checks_itself("atomics_wide");
}

#[test]
fn cooperative_matrices_run() {
    checks_itself("cooperative");
}

#[test]
fn subgroup_operations_run() {
    checks_itself("subgroups");
}

#[test]
fn every_shader_is_run() {
    let names: Vec<String> = shaders("device").into_iter().map(|shader| shader.name).collect();
    assert_eq!(names, ["atomics", "atomics_wide", "cooperative", "subgroups"]);
}
