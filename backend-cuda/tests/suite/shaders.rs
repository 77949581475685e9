//! The shaders by which naga-ptx is tested, on a card: those that check themselves (atomics, cooperative matrices, subgroup
//! operations) and the one of everything that WGSL says. They are part of this program: a card's machine has no other files.

#[path = "../../../shaders/naga-ptx/tests/run/expected.rs"]
mod expected;
#[path = "../../../shaders/naga-ptx/tests/device/head.rs"]
mod head;

use crate::common::{self, bind, on_card, upload};
use expected::{SIZES, layout, words, wrong};
use head::Head;
use polywarp_core::{Backend, Buffer, Kernel};
use polywarp_cuda::CudaBackend;

macro_rules! shader {
    ($path:literal) => {
        include_str!(concat!("../../../shaders/naga-ptx/tests/", $path))
    };
}

/// Runs `entry` of `source` on new buffers of zeros.
fn run(backend: &CudaBackend, source: &str, entry: &str, grid: [u32; 3], bytes: &[usize]) -> Vec<Buffer> {
    let buffers: Vec<Buffer> = bytes.iter().map(|&bytes| upload(backend, &vec![0; bytes / 4])).collect();
    let bindings: Vec<_> = buffers.iter().zip(0..).map(|(buffer, number)| bind(number, buffer)).collect();
    backend.launch(&Kernel::wgsl(source).entry(entry), grid, &bindings).unwrap();
    buffers
}

/// Runs each of `entries`; at least `looked_at` results must have been looked at, and be right.
fn checks_itself(source: &str, entries: &[(&str, u32)]) {
    on_card(|backend| {
        let head = Head::of(source);
        for &(entry, looked_at) in entries {
            let buffers = run(backend, source, entry, head.grid, &head.bytes);
            let out = common::download(backend, &buffers[0]);
            let kinds: Vec<_> = out.iter().enumerate().skip(2).filter(|(_, wrong)| **wrong > 0).collect();
            assert_eq!(out[0], 0, "{entry}: wrong ones of each kind: {kinds:?}");
            assert!(out[1] >= looked_at, "{entry}: {} looked at", out[1]);
        }
    });
}

#[test]
fn atomics_are_right() {
    checks_itself(shader!("device/atomics.wgsl"), &[("main", 10_000)]);
}

#[test]
fn wide_atomics_are_right() {
    checks_itself(shader!("device/atomics_wide.wgsl"), &[("main", 100_000)]);
}

#[test]
fn cooperative_matrices_are_right() {
    checks_itself(shader!("device/cooperative.wgsl"), &[("main", 20_480)]);
}

#[test]
fn subgroup_operations_are_right() {
    checks_itself(shader!("device/subgroups.wgsl"), &[("whole", 1_000_000), ("partial", 1_000_000)]);
}

#[test]
fn wgsl_means_what_it_says() {
    on_card(|backend| {
        let buffers = run(backend, shader!("run/semantics.wgsl"), "main", [1; 3], &SIZES);
        let read = |binding: usize| words(&backend.read_blocking(&buffers[binding], 0..SIZES[binding] as u64).unwrap());
        let wrong = wrong(&read(0));
        assert!(wrong.is_empty(), "{} wrong: {}", wrong.len(), wrong[..wrong.len().min(20)].join("; "));
        assert_eq!(read(2), layout());
    });
}

#[test]
fn accesses_out_of_bounds_stay_inside() {
    on_card(|backend| {
        let buffers = run(backend, shader!("run/semantics.wgsl"), "outside", [1; 3], &SIZES);
        let out = common::download(backend, &buffers[0]);
        assert!(out[..32].iter().all(|&read| read < 100), "{:?}", &out[..32]);
    });
}

/// Where the folder is, no shader of it is left out.
#[test]
fn every_shader_is_run() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../shaders/naga-ptx/tests/device");
    let Ok(files) = std::fs::read_dir(folder) else {
        println!("NOT RUN: there is no {folder}");
        return;
    };
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.ends_with(".wgsl")).collect();
    names.sort();
    assert_eq!(names, ["atomics.wgsl", "atomics_wide.wgsl", "cooperative.wgsl", "subgroups.wgsl"]);
}
