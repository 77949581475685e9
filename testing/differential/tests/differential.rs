//! Random programs on software Vulkan and as interpreted PTX: equal bit for bit. And every one of them assembles.
//!
//! `POLYWARP_PROGRAMS=10000 POLYWARP_SEED=0` chooses how many and from where. Without a Vulkan device only the
//! interpreter's digests are compared with those kept here, which is said aloud.

use std::process::Command;
use std::time::{Duration, Instant};

use differential::{Devices, Route, compile, difference, digest, interpret, program, validate};
use naga_ptx::{Bounds, Contraction, Options, Target, Uniforms};
use polywarp_core::harness::Part;

/// Digests that software Vulkan and the interpreter gave.
const EXPECTED: &str = include_str!("../expected-10000.txt");

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn interpreted_ptx_gives_what_software_vulkan_gives() {
    // Software Vulkan takes a fifth of a second to compile one: a quarter of the usual ones a day.
    let (first, programs) = match Part::today(4) {
        Part::ALL => (0, 200),
        today => ((0..4).find(|&turn| today.is_turn_of(turn)).unwrap_or_default() * 50, 50),
    };
    let (first, programs) = (number("POLYWARP_SEED", first), number("POLYWARP_PROGRAMS", programs));
    // On a busy machine fewer programs are enough, unless they were asked for.
    let limit = if std::env::var_os("POLYWARP_PROGRAMS").is_some() { Duration::MAX } else { Duration::from_secs(40) };
    println!("seeds {first} to {}", first + programs);
    let (mut devices, start) = (Devices::default(), Instant::now());
    let (mut same, mut without, mut wrong) = (0, 0, Vec::new());
    for seed in first..first + programs {
        if start.elapsed() > limit {
            println!("time is over after {} programs", seed - first);
            break;
        }
        let program = program(seed);
        let interpreted = devices.run(Route::Interpreter, &program).unwrap().unwrap();
        match devices.run(Route::Wgpu, &program) {
            Ok(Some(outputs)) if outputs == interpreted => same += 1,
            Ok(Some(outputs)) => wrong.push(format!("seed {seed}: {}", difference(&program, &outputs, &interpreted))),
            Ok(None) => without += 1,
            Err(message) if same + without == 0 && message.contains("adapter") => {
                assert!(std::env::var_os("POLYWARP_REQUIRE_ADAPTERS").is_none(), "{message}");
                eprintln!("NOT RUN: {message}");
                return;
            }
            Err(message) => wrong.push(format!("seed {seed}: {message}")),
        }
    }
    println!("{}: {same} equal, {without} not run for want of a feature", devices.name(Route::Wgpu));
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(same > 0);
}

#[test]
fn interpreted_ptx_gives_the_digests_kept() {
    let (mut devices, mut compared, mut wrong) = (Devices::default(), 0, Vec::new());
    for line in EXPECTED.lines().filter(|line| !line.starts_with('#')).take(1000) {
        let (seed, expected) = line.split_once(' ').unwrap();
        let seed: u64 = seed.parse().unwrap();
        let outputs = devices.run(Route::Interpreter, &program(seed)).unwrap().unwrap();
        compared += 1;
        if format!("{:016x}", digest(&outputs)) != expected {
            wrong.push(seed);
        }
    }
    assert!(wrong.is_empty(), "{wrong:?}: write the file anew if the generator changed (README.md)");
    assert!(compared > 100);
}

#[test]
fn every_way_to_compile_gives_the_same_results() {
    let mut with_subgroups = 0;
    for seed in 0..60 {
        let program = program(seed);
        with_subgroups += u32::from(program.settings.subgroups);
        let mut results: Vec<Vec<Vec<u8>>> = Vec::new();
        for i in 0..4 {
            let options = Options {
                target: if i & 1 == 0 { Target::new(7, 5) } else { Target::new(10, 0) },
                uniforms: if i & 2 == 0 { Uniforms::Pointers } else { Uniforms::Parameters },
                contraction: if i & 1 == 0 { Contraction::Allowed } else { Contraction::Forbidden },
                loop_limit: if i & 2 == 0 { None } else { Some(1 << 20) },
                ..Options::default()
            };
            results.push(interpret(&program, &options).unwrap_or_else(|message| panic!("seed {seed}: {message}")));
        }
        assert!(results.iter().all(|result| *result == results[0]), "seed {seed}");
    }
    assert!(with_subgroups > 2, "only {with_subgroups} programs have subgroup operations");
}

#[test]
fn a_wrong_program_is_noticed() {
    let mut devices = Devices::default();
    let mut noticed = 0;
    for seed in 0..20 {
        let program = program(seed);
        let right = devices.run(Route::Interpreter, &program).unwrap().unwrap();
        let mut wrong = program.clone();
        wrong.wgsl = program.wgsl.replacen("x ^ (x >> 15u)", "x ^ (x >> 14u)", 1);
        assert_ne!(wrong.wgsl, program.wgsl);
        noticed += u32::from(devices.run(Route::Interpreter, &wrong).unwrap().unwrap() != right);
    }
    assert_eq!(noticed, 20);
}

#[test]
fn programs_of_a_seed_are_the_same_and_cover_the_language() {
    let words = [
        "switch",
        "while",
        "for (",
        "loop {",
        "continuing",
        "break if",
        "continue;",
        "return;",
        "ptr<function",
        "ptr<private",
        "bitcast<",
        "select(",
        "extractBits",
        "insertBits",
        "dot4I8Packed",
        "pack4x8snorm",
        "unpack4xU8",
        "transpose",
        "determinant",
        "atomicCompareExchangeWeak",
        "workgroupUniformLoad",
        "modf",
        "frexp",
        "ldexp",
        "quantizeToF16",
        "arrayLength",
        "default:",
        "const c",
        "vec4<f16>",
        "f64",
        "u64",
        "i64",
        "= &",
        "sqrt(",
        "pow(",
        "reverseBits",
        "firstLeadingBit",
        "cross(",
        "mat4x4<f32>",
        "mat2x3<f16>",
        "storageBarrier",
        "<<=",
        "++;",
        "quadSwapX(",
        "subgroupShuffleXor(",
        "subgroupMin(",
        "subgroupBroadcastFirst(",
    ];
    let texts: Vec<String> = (0..300).map(|seed| program(seed).wgsl).collect();
    for word in words {
        assert!(texts.iter().any(|text| text.contains(word)), "no program of 300 has `{word}`");
    }
    assert_eq!(texts[7], program(7).wgsl);
    for (seed, text) in texts.iter().enumerate() {
        validate(text).unwrap_or_else(|error| panic!("seed {seed}: {error}"));
    }
}

/// Needs `ptxas` (`PTXAS`, or on the path); `POLYWARP_PTXAS_PROGRAMS` chooses how many, 20 if unset.
#[test]
fn programs_assemble() {
    let ptxas = std::env::var_os("PTXAS").unwrap_or_else(|| "ptxas".into());
    if !Command::new(&ptxas).arg("--version").output().is_ok_and(|output| output.status.success()) {
        assert!(std::env::var_os("POLYWARP_REQUIRE_PTXAS").is_none(), "ptxas is required and not found");
        eprintln!("NOT RUN: no ptxas; set PTXAS to its path");
        return;
    }
    let folder = std::env::temp_dir().join(format!("differential-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (input, output) = (folder.join("in.ptx"), folder.join("out.cubin"));
    let mut faults = Vec::new();
    for seed in 0..number("POLYWARP_PTXAS_PROGRAMS", 20) {
        for target in [Target::new(7, 5), Target::new(9, 0)] {
            let bounds = if seed % 2 == 0 { Bounds::Clamp } else { Bounds::Trust };
            let uniforms = if seed % 3 == 0 { Uniforms::Parameters } else { Uniforms::Pointers };
            let ptx = compile(&program(seed), &Options { target, bounds, uniforms, ..Options::default() }).unwrap();
            std::fs::write(&input, &ptx.text).unwrap();
            let _ = std::fs::remove_file(&output);
            let mut command = Command::new(&ptxas);
            // What is tested is whether the text is PTX; optimising it takes most of the time.
            command.args(["-O1", "--gpu-name", &target.to_string(), "-o"]).args([&output, &input]);
            let result = command.output().unwrap();
            if !result.status.success() || std::fs::metadata(&output).map_or(0, |m| m.len()) == 0 {
                faults.push(format!("seed {seed}, {target}: {}", String::from_utf8_lossy(&result.stderr)));
            }
        }
    }
    std::fs::remove_dir_all(&folder).unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}
