//! Every candidate can be had for an op small enough to be checked with before its first use: what cannot is never chosen.

use polywarp_core::ops::Matmul;
use polywarp_core::tuner::{Effort, check_cases, find};
use polywarp_core::{DType, Layout, Op, Precision, Shape, TensorSpec};
use polywarp_shaders::{Caps, Cooperative, candidates};

const EXTENTS: [[u64; 3]; 16] = [
    [4096, 4096, 4096],
    [8192, 8192, 8192],
    [16384, 16384, 16384],
    [512, 512, 512],
    [1000, 1000, 1000],
    [4097, 4095, 4093],
    [4096, 4096, 14336],
    [8192, 1280, 8192],
    [1, 4096, 4096],
    [8, 4096, 4096],
    [4096, 16, 4096],
    [64, 64, 65536],
    [256, 256, 16384],
    [128, 8192, 100],
    [33, 35, 37],
    [700, 1, 900],
];

fn view(dtype: DType, rows: u64, columns: u64, transposed: bool) -> TensorSpec {
    let dense = |dims: &[u64]| Layout::contiguous(Shape::new(dims).unwrap());
    let layout = if transposed { dense(&[columns, rows]).transpose(0, 1).unwrap() } else { dense(&[rows, columns]) };
    TensorSpec::new(dtype, layout)
}

fn products() -> Vec<Op> {
    let mut ops = Vec::new();
    for [m, n, k] in EXTENTS {
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64, DType::I8, DType::U8] {
            for precision in [Precision::Highest, Precision::High, Precision::Medium, Precision::Low] {
                for lie in 0..4 {
                    if dtype != DType::F32 && precision != Precision::Highest {
                        continue;
                    }
                    let output = view(Matmul::output_dtype(dtype).unwrap(), m, n, false);
                    let (a, b) = (view(dtype, m, k, lie & 1 != 0), view(dtype, k, n, lie & 2 != 0));
                    ops.push(Matmul { precision, ..Matmul::product(a, b, output) }.check().unwrap().into());
                }
            }
        }
    }
    ops
}

/// A card with everything, and one with nothing.
fn cards() -> [Caps; 2] {
    let poor = Caps::webgpu_defaults("poor");
    let rich = Caps {
        f16: true,
        f64: true,
        i64: true,
        subgroups: Some((32, 32)),
        max_invocations: 1024,
        max_workgroup_bytes: 48 << 10,
        cooperative: Cooperative::TENSOR_CORES.to_vec(),
        ..Caps::webgpu_defaults("rich")
    };
    [rich, poor]
}

#[test]
fn every_candidate_is_had_for_an_op_small_enough_to_check_it() {
    let (mut found, mut missing) = (0, Vec::new());
    for caps in cards() {
        for op in products().into_iter().filter(|op| op.inputs().iter().all(|input| caps.require(input.dtype).is_ok()))
        {
            let names = |op: &Op| -> Vec<String> {
                candidates(op, &caps).map_or(Vec::new(), |all| all.into_iter().map(|found| found.name).collect())
            };
            let small: Vec<Vec<String>> = check_cases(&op, Effort::Normal).map(|op| names(&op)).collect();
            for name in names(&op) {
                if small.iter().any(|names| find(names.iter().map(String::as_str), &name).is_some()) {
                    found += 1;
                } else {
                    missing.push(format!("{}: {name} for {op:?}", caps.device));
                }
            }
        }
    }
    println!("{found} candidates can be checked");
    assert!(found > 1000);
    let count = missing.len();
    missing.sort();
    missing.dedup_by_key(|line| line.split(" for ").next().unwrap().to_owned());
    assert!(missing.is_empty(), "{count} cannot be checked:\n{:#?}", &missing[..missing.len().min(20)]);
}
