//! Every kernel that planners make for CUDA is taken by NVIDIA's assembler, for each architecture, and spills nothing,
//! or as little as is known.
//!
//! The kernels are those of all candidates of all conformance cases, quick and full, and of all benchmark cases, with
//! the capabilities that CUDA cards have; each text once. A usual run takes a sample of an eighth of the quick level's operations, another
//! one every day, each for one target in turn. `POLYWARP_ASSEMBLE=all` (`cargo xtask assemble`) takes all
//! kernels and all targets; `POLYWARP_ASSEMBLE=sm_90` all for one; `POLYWARP_ASSEMBLE_NAMES=matmul_i64` only those whose names
//! begin so, and says what each spills. Without `ptxas` (`PTXAS`, or on the path) nothing is
//! assembled, which is said aloud, and fails when `POLYWARP_REQUIRE_PTXAS` is set.

use std::collections::{BTreeMap, HashSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use naga::valid::Capabilities;
use naga_ptx::{Options, Target};
use polywarp_core::harness::{BenchSize, Level, Part};
use polywarp_core::ops::REGISTRY;
use polywarp_core::ops::candidates;
use polywarp_core::plan::{Caps, Cooperative};
use polywarp_core::{Error, Op};
use polywarp_shaders::wgsl::{guarded, parse_and_validate};

/// What `ptxas` 13.0 knows, of the generations that there are cards of.
const TARGETS: [Target; 7] = [
    Target::new(7, 5),
    Target::new(8, 0),
    Target::new(8, 6),
    Target::new(8, 9),
    Target::new(9, 0),
    Target::new(10, 0),
    Target::new(12, 0),
];

/// What our kernels use, as the CUDA backend allows it.
const CAPABILITIES: Capabilities = Capabilities::FLOAT64
    .union(Capabilities::SHADER_FLOAT16)
    .union(Capabilities::SHADER_FLOAT16_IN_FLOAT32)
    .union(Capabilities::SHADER_INT64)
    .union(Capabilities::SUBGROUP)
    .union(Capabilities::SUBGROUP_BARRIER)
    .union(Capabilities::COOPERATIVE_MATRIX);

/// Kernels that may spill, by the beginning of their names, and how many bytes. The others a word or two, as found for sm_90
/// (all 3,549) and by samples.
const MAY_SPILL: [(&str, u32); 12] = [
    // The tile 128x128x32, whose sums alone are 128 of a thread's 255 registers, where operands are read one by one or f32
    // is scaled: 124 at most, on sm_75. In samples for sm_75 to sm_120 no other tile spilled, nor do bytes now, which
    // the planner leaves to other tiles (`Choice::spills_by_elements`).
    ("matmul_coop_", 128),
    // A sum of f64 takes two registers: 104 on sm_90 and 76 on sm_80 for products, 96 for grouped ones, in samples of half.
    ("matmul_f64_", 128),
    ("grouped_matmul_f64_", 128),
    ("matmul_", 64),
    ("grouped_matmul_", 64),
    // Tiles of four by four scores beside those of values: 72 at most on sm_75, 60 on sm_90, of all that there are.
    ("attention", 128),
    // 12 at most on sm_75 and sm_90, of all.
    ("convolution_", 16),
    // The assembler keeps extrema with their positions to 64 registers, for the sake of occupancy: 28 at most, on sm_100 for
    // 32-bit elements, of all.
    ("cummax_", 32),
    ("cummin_", 32),
    ("softmax_", 16),
    ("arg", 16),
    ("map_", 16),
];

/// Kernels that a usual run assembles, about.
const SAMPLE: usize = 60;
/// A usual run ends assembling after this, having said how far it came.
const LIMIT: Duration = Duration::from_secs(40);

/// Workgroup memory in bytes of every card, and of one of compute capability 9.0 (227 KiB).
const WORKGROUP_BYTES: [u32; 2] = [48 << 10, 232_448];

/// What planners are told of CUDA cards: with and without large workgroup memory, with and without tensor cores.
fn cards() -> Vec<Caps> {
    let mut all = Vec::new();
    for max_workgroup_bytes in WORKGROUP_BYTES {
        for cooperative in [Vec::new(), Cooperative::TENSOR_CORES.to_vec()] {
            all.push(Caps {
                f16: true,
                f64: true,
                i64: true,
                nearest_conversions: true,
                subgroups: Some((32, 32)),
                max_invocations: 1024,
                max_workgroup_bytes,
                max_workgroups: [i32::MAX as u32, 65_535, 65_535],
                max_storage_buffers: 128,
                cooperative,
                ..Caps::webgpu_defaults("cuda")
            });
        }
    }
    all
}

/// The operations are cut into so many parts, and a usual run plans one of them: planning them all takes longer than assembling a sample.
const PARTS: u64 = 8;

/// The name of each kernel of a part of the operations, by its text.
fn kernels(level: Level, part: Part) -> BTreeMap<String, String> {
    let sizes = [BenchSize::Small, BenchSize::Normal, BenchSize::Large];
    let mut ops: Vec<Op> = Vec::new();
    for family in REGISTRY {
        ops.extend((family.cases)(level).into_iter().map(|case| case.op));
        ops.extend(sizes.into_iter().flat_map(|size| (family.benches)(size)).map(|case| case.op));
    }
    // Nobody plans ops that compute nothing.
    ops.retain(|op| op.output().layout.elements() > 0);
    let ops: Vec<Op> = (0..).zip(ops).filter(|(i, _)| part.takes(*i)).map(|(_, op)| op).collect();
    let (mut keys, mut texts) = (HashSet::new(), BTreeMap::new());
    for card in cards() {
        for op in &ops {
            let found = match candidates(op, &card) {
                Ok(found) => found,
                Err(Error::Unsupported { .. } | Error::UndefinedForDType { .. } | Error::IndexWidth { .. }) => continue,
                Err(error) => panic!("{op:?}: {error}"),
            };
            for launch in found.into_iter().flat_map(|candidate| candidate.plan.launches) {
                if keys.insert(launch.kernel.clone()) {
                    let source = launch.kernel.source();
                    texts.insert(source.wgsl, source.name);
                }
            }
        }
    }
    texts
}

fn ptx(name: &str, wgsl: &str, target: Target) -> String {
    let fails = |error: &dyn std::fmt::Display| -> ! { panic!("{name} for {target}: {error}\n{wgsl}") };
    let (module, info) = parse_and_validate(wgsl, CAPABILITIES).unwrap_or_else(|error| fails(&error));
    let options = Options { entry_point: Some("main".to_owned()), ..Options::trusted(target) };
    let compiled = guarded(|| Ok(naga_ptx::compile(&module, &info, &options))).unwrap_or_else(|error| fails(&error));
    compiled.unwrap_or_else(|error| fails(&error)).text
}

/// Runs `work` on each item, on all processors, until `until`; how many were done.
fn on_all_processors<T: Sync>(items: &[T], until: Option<Instant>, work: impl Fn(usize, &T) + Sync) -> usize {
    let (next, done) = (AtomicUsize::new(0), AtomicUsize::new(0));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let i = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(item) = items.get(i)
                    && until.is_none_or(|until| Instant::now() < until)
                {
                    work(i, item);
                    done.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
    });
    done.into_inner()
}

fn ptxas() -> Option<PathBuf> {
    let path = std::env::var_os("PTXAS").map_or_else(|| PathBuf::from("ptxas"), PathBuf::from);
    Command::new(&path).arg("--version").output().ok().filter(|output| output.status.success()).map(|_| path)
}

/// What the assembler says of registers and spills; an error when it gave no machine code.
fn assemble(ptxas: &Path, at: &Path, text: &str, target: Target) -> Result<String, String> {
    let (input, output) = (at.with_extension("ptx"), at.with_extension("cubin"));
    std::fs::write(&input, text).map_err(|error| error.to_string())?;
    let mut command = Command::new(ptxas);
    command.args(["-v", "--gpu-name", &target.to_string(), "-o"]).args([&output, &input]);
    let result = command.output().map_err(|error| error.to_string())?;
    let log = String::from_utf8_lossy(&result.stderr).into_owned() + &String::from_utf8_lossy(&result.stdout);
    let code = std::fs::read(&output).unwrap_or_default();
    [input, output].iter().for_each(|file| drop(std::fs::remove_file(file)));
    if result.status.success() && code.starts_with(b"\x7fELF") { Ok(log) } else { Err(log) }
}

/// Bytes that are spilled, from the assembler's words (`8 bytes spill stores`).
fn spilled(log: &str) -> Option<u32> {
    let words: Vec<&str> = log.split_whitespace().collect();
    words.windows(4).find(|w| w[1..] == ["bytes", "spill", "stores,"]).and_then(|w| w[0].parse().ok())
}

#[test]
fn every_kernel_for_cuda_assembles_without_spilling() {
    let wish = std::env::var("POLYWARP_ASSEMBLE").ok().filter(|value| !value.is_empty());
    let (level, part) = if wish.is_some() { (Level::Full, Part::ALL) } else { (Level::Quick, Part::today(PARTS)) };
    let kernels: Vec<(String, String)> = kernels(level, part).into_iter().map(|(text, name)| (name, text)).collect();
    println!("{} kernels of the {level} level and of the benchmarks, {part:?}", kernels.len());
    assert!(kernels.len() > if wish.is_some() { 3000 } else { 2 * SAMPLE });
    let names = std::env::var("POLYWARP_ASSEMBLE_NAMES").unwrap_or_default();
    let kernels: Vec<(String, String)> = kernels.into_iter().filter(|(name, _)| name.starts_with(&names)).collect();

    let Some(ptxas) = ptxas() else {
        assert!(std::env::var_os("POLYWARP_REQUIRE_PTXAS").is_none(), "ptxas is required and not found");
        eprintln!("NOT RUN: no ptxas; set PTXAS to its path");
        return;
    };
    let targets: Vec<Target> = match wish.as_deref() {
        None | Some("all") => TARGETS.to_vec(),
        Some(name) => vec![Target::parse(name).unwrap_or_else(|| panic!("POLYWARP_ASSEMBLE: no target `{name}`"))],
    };
    let step = if wish.is_some() { 1 } else { kernels.len().div_ceil(SAMPLE) };
    let jobs: Vec<(&(String, String), Target)> = kernels
        .iter()
        .step_by(step)
        .enumerate()
        .flat_map(|(i, kernel)| {
            let these = if wish.is_some() { &targets[..] } else { &targets[i % targets.len()..][..1] };
            these.iter().map(move |&target| (kernel, target))
        })
        .collect();
    let folder = std::env::temp_dir().join(format!("polywarp-assembled-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (start, faults) = (Instant::now(), Mutex::new(Vec::new()));
    let spilling = AtomicUsize::new(0);
    let until = wish.is_none().then(|| start + LIMIT);
    let done = on_all_processors(&jobs, until, |i, &((name, wgsl), target)| {
        let fault = match assemble(&ptxas, &folder.join(i.to_string()), &ptx(name, wgsl, target), target) {
            Ok(log) => match spilled(&log) {
                Some(0) => return,
                Some(bytes) if MAY_SPILL.iter().any(|&(start, most)| name.starts_with(start) && bytes <= most) => {
                    spilling.fetch_add(1, Ordering::Relaxed);
                    if !names.is_empty() {
                        println!("{name} for {target} spills {bytes} bytes");
                    }
                    return;
                }
                Some(bytes) => format!("{name} for {target} spills {bytes} bytes"),
                None => format!("{name} for {target}: the assembler does not say what it spilled: {log}"),
            },
            Err(log) => format!("{name} for {target}: {log}"),
        };
        println!("{fault}");
        faults.lock().unwrap().push(fault);
    });
    std::fs::remove_dir_all(&folder).unwrap();
    let (seconds, few) = (start.elapsed().as_secs_f64(), spilling.into_inner());
    println!("{done} of {} assembled in {seconds:.1} s; {few} spill a little, as they may", jobs.len());
    let faults = faults.into_inner().unwrap();
    assert!(faults.is_empty(), "{} of {done}:\n{}", faults.len(), faults.join("\n"));
    assert!(done > 0 && (wish.is_none() || done == jobs.len()));
}

#[test]
fn spills_are_read_from_the_assemblers_words() {
    let log = "ptxas info    : Function properties for main\n    0 bytes stack frame, 24 bytes spill stores, 28 bytes";
    assert_eq!(spilled(log), Some(24));
    assert_eq!(spilled(&log.replace("24", "0")), Some(0));
    assert_eq!(spilled("ptxas info    : 0 bytes gmem"), None);
}
