//! Kernels in CUDA C++ on a card: launching itself, then every candidate of every product against the oracle.
//!
//! They need a card (`POLYWARP_REQUIRE_CUDA=1` demands one), or the interpreted driver and an archive for it: `cargo xtask
//! kernels --to FOLDER --ptx` makes one, `POLYWARP_KERNELS=FOLDER/kernels.bin` names it. There they take seconds for a product
//! that a card computes in microseconds, so tests take the small part of their cases and only candidates that the archive
//! holds. With the embedded archive, whose machine code the interpreted driver cannot run, they test that products are
//! computed portably after all. Build in release: the reference is computed on the host.
//!
//! | variable | effect |
//! |---|---|
//! | `POLYWARP_NATIVE_FILTER` | only candidates whose name contains it, or the portable ones too with `all` |
//! | `POLYWARP_NATIVE_EDGES` | takes every so manieth of the products at tiles' ends, all if unset |
//! | `POLYWARP_NATIVE_SHAPES` | random shapes, 3000 if unset (1000 grouped ones, 400 windows of convolutions) |
//! | `POLYWARP_TEST_LEVEL` | `full` takes all cases of the harness |

mod common;
mod native_cases;

use std::sync::{Arc, LazyLock};

use native_cases::{Forced, Tally, in_parallel, products};
use polywarp_core::harness::{Case, Level, Outcome, Part, Wrapped, run_case};
use polywarp_core::ops::{
    Attention, AttentionGradient, Convolution, ConvolutionInput, ConvolutionWeights, GroupedMatmul, Matmul,
    QuantizedConvolution, REGISTRY, ReducedMatmul,
};
use polywarp_core::{Backend, DType, Device, Layout, Op, Shape, TensorSpec};
use polywarp_cuda::CudaBackend;
use polywarp_kernels::archive::Archive;
use polywarp_kernels::{Arg, Element, Launch, Plan, Slot, Swizzle, TensorMap, find, prepared};

/// The first card with its native kernels; `None` when there is none, which is said.
fn card() -> Option<Arc<CudaBackend>> {
    let backend = Arc::new(common::first()?);
    if common::interpreted() && archive_for_it().is_none() {
        println!("NOT RUN: kernels in CUDA C++ need a card, or POLYWARP_KERNELS an archive for the interpreted driver");
        return None;
    }
    Some(backend)
}

/// The archive that `POLYWARP_KERNELS` names.
fn archive_for_it() -> Option<Archive<'static>> {
    static BYTES: LazyLock<Option<Vec<u8>>> = LazyLock::new(|| {
        let path = std::env::var_os("POLYWARP_KERNELS").filter(|path| !path.is_empty() && path != "off")?;
        Some(std::fs::read(path).expect("the archive that POLYWARP_KERNELS names"))
    });
    BYTES.as_ref().map(|bytes| Archive::parse(bytes).expect("an archive"))
}

/// Whether all kernels of a plan are in the archive that is in use.
fn has_code(backend: &CudaBackend, plan: &Plan) -> bool {
    let sm = backend.native_caps().sm;
    let embedded = || Archive::parse(prepared::ARCHIVE).expect("the embedded archive");
    let archive = archive_for_it().unwrap_or_else(embedded);
    plan.launches.iter().all(|launch| prepared::target(&archive, launch.kernel, sm).is_some())
}

/// The card where the archive has the kernels that only tests use.
fn card_with_probes() -> Option<Arc<CudaBackend>> {
    let has_code = |backend: &Arc<CudaBackend>| {
        let has = |symbol| {
            let launch = Launch { kernel: find(symbol).unwrap(), grid: [1; 3], args: Vec::new() };
            has_code(backend, &Plan { launches: vec![launch], scratch_bytes: Vec::new() })
        };
        let complete = has("probe_arguments") && (!backend.native_caps().tensor_maps || has("probe_tensor_map"));
        if !complete {
            println!("NOT RUN: the archive that POLYWARP_KERNELS names has no family `probe`");
        }
        complete
    };
    card().filter(has_code)
}

/// Candidates to be tested.
fn selected(backend: &CudaBackend, op: &Op) -> Vec<String> {
    let filter = std::env::var("POLYWARP_NATIVE_FILTER").unwrap_or_default();
    let mut native = polywarp_kernels::every(op, backend.native_caps());
    let names = backend.candidate_names(op).unwrap();
    if filter == "all" {
        return names;
    }
    native.retain(|native| native.name.contains(&filter) && has_code(backend, &native.plan));
    if !common::interpreted() {
        native.retain(|native| names.contains(&native.name));
    }
    let composed = names.into_iter().filter(|name| name.starts_with("composed_") && name.contains(&filter));
    native.into_iter().map(|native| native.name).chain(composed).collect()
}

/// Families of the harness that native kernels serve.
const FAMILIES: [&str; 7] =
    ["attention", "convolution", "grouped_matmul", "matmul", "quantized_convolution", "reduced_matmul", "sparse24"];

/// A number from the environment.
fn number(name: &str, otherwise: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

fn arguments_plan() -> Plan {
    let args = vec![
        Arg::U32(0xdead_beef),
        Arg::Address { slot: Slot::Output(0), offset_bytes: 64 },
        Arg::F32(1.5),
        Arg::I64(-2),
        Arg::U32(1000),
        Arg::F64(-0.25),
        Arg::Null,
    ];
    let kernel = find("probe_arguments").unwrap();
    Plan { launches: vec![Launch { kernel, grid: [3, 2, 1], args }], scratch_bytes: Vec::new() }
}

fn check_arguments(backend: &CudaBackend, run: impl Fn(&polywarp_core::Buffer)) {
    let output = backend.alloc(64 + 6 * 64 + 64).unwrap();
    backend.write(&output, 0, &[0x5a; 64 + 6 * 64 + 64]).unwrap();
    run(&output);
    let bytes = backend.read_blocking(&output, 0..64 + 6 * 64 + 64).unwrap();
    assert!(bytes[..64].iter().chain(&bytes[64 + 6 * 64..]).all(|&byte| byte == 0x5a));
    for (block, bytes) in bytes[64..64 + 6 * 64].chunks_exact(64).enumerate() {
        let words: Vec<u64> = bytes.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().unwrap())).collect();
        let float = u64::from(1.5f32.to_bits());
        let x = (block % 3) as u64;
        let expected = [0xdead_beef, float, -2i64 as u64, 1000, (-0.25f64).to_bits(), 0, 1000 + x, 64];
        assert_eq!(words, expected, "block {block}");
    }
}

#[test]
fn launch_passes_every_kind_of_argument_and_shared_memory() {
    let Some(backend) = card_with_probes() else { return };
    let plan = arguments_plan();
    check_arguments(&backend, |output| backend.run_native(&plan, &[], &[output]).unwrap());
    assert_eq!(backend.native_kernels(), 1);
}

#[test]
fn launch_can_be_recorded_and_replayed() {
    let Some(backend) = card_with_probes() else { return };
    let plan = arguments_plan();
    check_arguments(&backend, |output| {
        backend.begin_recording().unwrap();
        backend.run_native(&plan, &[], &[output]).unwrap();
        let recorded = backend.end_recording().unwrap();
        backend.write(output, 64, &[0; 6 * 64]).unwrap();
        backend.replay(&recorded).unwrap();
    });
}

#[test]
fn plan_that_does_not_fit_is_refused_and_nothing_runs() {
    let Some(backend) = card() else { return };
    let output = backend.alloc(1024).unwrap();
    let mut plan = arguments_plan();
    plan.launches[0].args.pop();
    assert!(backend.run_native(&plan, &[], &[&output]).is_err());
    let mut plan = arguments_plan();
    plan.launches[0].args[1] = Arg::Address { slot: Slot::Input(0), offset_bytes: 0 };
    assert!(backend.run_native(&plan, &[], &[&output]).is_err());
    common::assert_alive(&*backend);
}

/// Whoever asks for machine code where it does not run is told so; nothing else changes.
#[test]
fn driver_that_takes_no_machine_code_is_told_apart() {
    let Some(backend) = common::first() else { return };
    if !common::interpreted() || archive_for_it().is_some() {
        return;
    }
    let output = backend.alloc(1024).unwrap();
    let error = backend.run_native(&arguments_plan(), &[], &[&output]).unwrap_err();
    assert!(error.to_string().contains("no code of"), "{error}");
    assert_eq!(backend.native_kernels(), 0);
    common::assert_alive(&backend);
}

/// Boxes of a matrix whose rows are padded, in clusters of two blocks; what hangs over its edges reads as zero.
#[test]
fn tensor_maps_read_what_they_describe() {
    let Some(backend) = card_with_probes() else { return };
    if !backend.native_caps().tensor_maps {
        println!("NOT RUN: no tensor maps");
        return;
    }
    let (rows, columns, pitch) = (77u32, 90u32, 100u32);
    let words: Vec<u32> = (0..8 + rows * pitch).map(|i| i.wrapping_mul(2_654_435_761)).collect();
    let input = common::upload(&*backend, &words);
    for element in [Element::F32, Element::U32, Element::I32] {
        let size = [u64::from(rows), u64::from(columns)];
        let at = (Slot::Input(0), 32);
        let map = TensorMap::matrix(at, element, size, 4 * u64::from(pitch), [8, 32], Swizzle::B128);
        let args = vec![
            Arg::TensorMap(map),
            Arg::Address { slot: Slot::Output(0), offset_bytes: 0 },
            Arg::U32(rows),
            Arg::U32(columns),
        ];
        let kernel = find("probe_tensor_map").unwrap();
        let launch = Launch { kernel, grid: [columns.div_ceil(32).next_multiple_of(2), rows.div_ceil(8), 1], args };
        let output = common::upload(&*backend, &vec![7; (rows * columns) as usize]);
        let plan = Plan { launches: vec![launch], scratch_bytes: Vec::new() };
        backend.run_native(&plan, &[&input], &[&output]).unwrap();
        let found = common::download(&*backend, &output);
        for y in 0..rows {
            for x in 0..columns {
                let (got, want) = (found[(y * columns + x) as usize], words[(8 + y * pitch + x) as usize]);
                assert_eq!(got, want, "{element:?} row {y} column {x}");
            }
        }
    }
}

#[test]
fn every_candidate_of_every_case_conforms() {
    let Some(backend) = card() else { return };
    let level =
        if std::env::var("POLYWARP_TEST_LEVEL").is_ok_and(|l| l == "full") { Level::Full } else { Level::Quick };
    let families = REGISTRY.iter().filter(|family| FAMILIES.contains(&family.name));
    let mut cases: Vec<_> = families.flat_map(|family| (family.cases)(level)).collect();
    // Nobody plans ops that compute nothing.
    cases.retain(|case| case.op.output().layout.elements() > 0);
    let attention = |op: &Op| op.is::<Attention>() || op.is::<AttentionGradient>();
    let gradient = |op: &Op| op.is::<ConvolutionInput>() || op.is::<ConvolutionWeights>();
    let convolution = |op: &Op| op.is::<Convolution>() || op.is::<QuantizedConvolution>() || gradient(op);
    let served = |op: &Op| convolution(op) && !polywarp_kernels::every(op, backend.native_caps()).is_empty();
    let other = |op: &Op| op.is::<GroupedMatmul>() || op.is::<ReducedMatmul>() || attention(op) || served(op);
    cases.retain(|case| case.op.product().is_some() || other(&case.op));
    // No native kernel is for attention to no keys.
    cases.retain(|case| !attention(&case.op) || case.op.inputs().iter().all(|input| input.layout.elements() > 0));
    if common::interpreted() {
        // Of those that are small some, others every day: they are made of the same tiles.
        cases.retain(|case| case.op.cost().flops < 4_000_000);
        let (second, sixth) = (Part::today(2), Part::today(6));
        let mut number = 0;
        cases.retain(|case| {
            number += 1;
            let today = if attention(&case.op) || convolution(&case.op) { second } else { sixth };
            today.is_turn_of(number)
        });
    }
    judged(&backend, &cases).finish("cases of the harness");
    common::assert_alive(&*backend);
}

/// Runs every candidate of every case, and compares with the oracle.
fn judged(backend: &Arc<CudaBackend>, cases: &[Case]) -> Tally {
    let tally = Tally::default();
    in_parallel(cases, |case| {
        for name in selected(backend, &case.op) {
            let device = Device::new(Wrapped(Forced { backend: Arc::clone(backend), name: name.clone() }));
            match run_case(&device, case, 0) {
                Outcome::Pass { share } => tally.passed(&name, share),
                Outcome::Fail(failure) => tally.failed(&name, format!("{failure}")),
                Outcome::Unsupported { reason } => tally.failed(&name, format!("{}: refused: {reason}", case.name)),
                other => tally.failed(&name, format!("{}: {other:?}", case.name)),
            }
        }
    });
    tally
}

/// One to three axes, strides, dilation, paddings, channels and filters in no whole tiles, images in wider ones, epilogues.
#[test]
fn every_candidate_is_exact_on_random_windows() {
    let Some(backend) = card() else { return };
    let count = number("POLYWARP_NATIVE_SHAPES", common::scaled(400, 4) as u64);
    judged(&backend, &native_cases::convolutions::random(count)).finish("convolutions of random windows");
    judged(&backend, &native_cases::convolutions::random_of_i8(count)).finish("convolutions of i8 of random windows");
    common::assert_alive(&*backend);
}

/// All of `cases`, or every n-th where `POLYWARP_NATIVE_EDGES` says so; on the interpreted driver one of three, another one every day.
fn edges<T>(cases: Vec<T>) -> Vec<T> {
    let step = number("POLYWARP_NATIVE_EDGES", 1).max(1) as usize;
    let today = if common::interpreted() { Part::today(3) } else { Part::ALL };
    let numbered = (0..).zip(cases.into_iter().step_by(step));
    numbered.filter(|(number, _)| today.is_turn_of(*number)).map(|(_, case)| case).collect()
}

/// m, n, k of 1 to 17, each dtype: products of small integers must come out exactly.
#[test]
fn every_candidate_is_exact_from_1_to_17_cubed() {
    let Some(backend) = card() else { return };
    if common::interpreted() {
        println!("NOT RUN: too many for an interpreter");
        return;
    }
    products(&backend, native_cases::small(), |op| selected(&backend, op)).finish("products of 1..17 cubed");
}

/// Each dtype and layout with shapes that no tile divides, K shorter and longer than any pipeline, and every epilogue.
#[test]
fn every_candidate_is_exact_where_tiles_end() {
    let Some(backend) = card() else { return };
    let ops = edges(native_cases::edges());
    products(&backend, ops, |op| selected(&backend, op)).finish("products at tiles' ends");
    common::assert_alive(&*backend);
}

/// Shapes with tails in every dimension, K from 1, transposes, padding of NaN, offsets, batches, broadcast, epilogues.
#[test]
fn every_candidate_is_exact_on_random_shapes() {
    let Some(backend) = card() else { return };
    let count = number("POLYWARP_NATIVE_SHAPES", common::scaled(3000, 0) as u64);
    products(&backend, native_cases::random(count), |op| selected(&backend, op)).finish("random products");
    common::assert_alive(&*backend);
}

/// What ends can say, with tiles that end early in every dimension.
#[test]
fn every_candidate_is_exact_where_groups_end() {
    let Some(backend) = card() else { return };
    let all = edges(native_cases::grouped::edges());
    native_cases::grouped::products(&backend, all, |op| selected(&backend, op)).finish("products where groups end");
    common::assert_alive(&*backend);
}

/// Random groups, ends in both types and any order, layouts, epilogues.
#[test]
fn every_candidate_is_exact_on_random_groups() {
    let Some(backend) = card() else { return };
    let count = number("POLYWARP_NATIVE_SHAPES", common::scaled(1000, 0) as u64);
    let all = native_cases::grouped::random(count);
    native_cases::grouped::products(&backend, all, |op| selected(&backend, op)).finish("random grouped products");
    common::assert_alive(&*backend);
}

#[test]
fn products_need_no_native_kernel() {
    let Some(backend) = common::first() else { return };
    let square = |dtype| TensorSpec::new(dtype, Layout::contiguous(Shape::new(&[64, 64]).unwrap()));
    for dtype in [DType::F32, DType::F16] {
        let op: Op = Matmul::product(square(dtype), square(dtype), square(dtype)).check().unwrap().into();
        let names = backend.candidate_names(&op).unwrap();
        let native = polywarp_kernels::every(&op, backend.native_caps()).len();
        println!("{dtype}: {native} native candidates of {}", names.len());
        assert!(!names.is_empty());
        let mut unique = names.clone();
        unique.sort_unstable();
        unique.dedup();
        assert_eq!(unique.len(), names.len(), "{names:?}");
        if common::interpreted() && archive_for_it().is_none() {
            assert_eq!(backend.native_kernels(), 0, "an interpreter runs no machine code");
        }
        // The last one is portable, and gives what the one that is chosen gives.
        let one = if dtype == DType::F16 { vec![0x00, 0x3c] } else { vec![0, 0, 0x80, 0x3f] };
        let ones = backend.alloc(64 * 64 * dtype.size_bytes()).unwrap();
        backend.write(&ones, 0, &one.repeat(64 * 64)).unwrap();
        let outputs = [0, 1].map(|_| backend.alloc(64 * 64 * dtype.size_bytes()).unwrap());
        backend.run_candidate(&op, names.last().unwrap(), &[&ones, &ones], &[&outputs[0]]).unwrap();
        backend.execute(&op, &[&ones, &ones], &[&outputs[1]]).unwrap();
        let [x, y] = outputs.map(|output| backend.read_blocking(&output, 0..output.size_bytes()).unwrap());
        let sixty_four = if dtype == DType::F16 { vec![0x00, 0x54] } else { vec![0, 0, 0x80, 0x42] };
        assert!(x == y && x[..sixty_four.len()] == sixty_four[..], "{dtype}");
        assert!(backend.run_candidate(&op, "no such way", &[&ones, &ones], &[&ones]).is_err());
    }
}
