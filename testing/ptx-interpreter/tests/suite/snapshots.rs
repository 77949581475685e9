//! Every instruction that naga-ptx is known to write is understood here: its snapshots are parsed.

use ptx_interpreter::{Launch, Memory, Module, RunOptions, run};

#[test]
fn snapshots_of_the_compiler_are_understood() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shaders/naga-ptx/tests/out");
    let mut kernels = 0;
    for file in std::fs::read_dir(folder).expect("the compiler's snapshots") {
        let path = file.expect("a file").path();
        if path.extension().is_some_and(|extension| extension == "ptx") {
            let text = std::fs::read_to_string(&path).expect("text");
            let module = Module::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            kernels += module.kernels().len();
        }
    }
    assert!(kernels >= 15, "{kernels} kernels");
}

/// Broken texts are refused, or run into a fault: nothing panics.
#[test]
fn broken_texts_are_refused_without_a_panic() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../shaders/naga-ptx/tests/out");
    let mut paths: Vec<_> =
        std::fs::read_dir(folder).expect("the snapshots").map(|f| f.expect("a file").path()).collect();
    paths.sort();
    let mut state = 1_u64;
    let mut random = move |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) as usize % below
    };
    const INSERTED: [&str; 16] = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ";",
        "@",
        "!",
        "-",
        "|",
        "4294967295",
        "0x",
        ".",
        ".shared .align 4096 .b8 x[4294967295];",
        "[[[[",
        ":",
    ];
    let (mut refused, mut ran) = (0, 0);
    for path in paths {
        let text = std::fs::read_to_string(&path).expect("text");
        let words: Vec<&str> = text.split_inclusive(|c: char| !c.is_alphanumeric()).collect();
        for _ in 0..150 {
            let mut broken = words.clone();
            for _ in 0..1 + random(3) {
                let (at, last) = (random(broken.len()), broken.len() - 1);
                match random(4) {
                    0 => drop(broken.remove(at)),
                    1 => broken.insert(at, words[random(words.len())]),
                    2 => broken.swap(at, last),
                    _ => broken.insert(at, INSERTED[random(INSERTED.len())]),
                }
            }
            let Ok(module) = Module::parse(&broken.concat()) else {
                refused += 1;
                continue;
            };
            for kernel in module.kernels() {
                let launch = Launch {
                    grid: [2, 1, 1],
                    block: kernel.required_block().unwrap_or([32, 1, 1]),
                    params: vec![0; kernel.param_bytes() as usize],
                    dynamic_shared_bytes: 0,
                };
                let options = RunOptions { max_steps: 10_000, ..RunOptions::strict() };
                let _ = run(kernel, &mut Memory::new(), &launch, &options);
                ran += 1;
            }
        }
    }
    assert!(refused > 500 && ran > 50, "{refused} refused, {ran} ran");
}
