//! What the planner of reduced products takes, turns and refuses. No GPU.

use polywarp_core::{Layout, Op, Precision, Shape, TensorSpec};

use super::*;
use crate::plans::every;
use polywarp_core::ops::Matmul;

fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
}

/// B lies along k, as keys do.
fn product(dtype: DType, [m, n, k]: [u64; 3]) -> Matmul {
    let b = TensorSpec::new(dtype, dense(dtype, &[n, k]).layout.transpose(0, 1).unwrap());
    let to = ReducedMatmul::product_dtype(dtype).unwrap();
    Matmul::product(dense(dtype, &[m, k]), b, dense(to, &[m, n]))
}

fn ranked(function: ReduceFn, axis: usize, product: Matmul) -> Vec<Candidate> {
    let op = Op::from(ReducedMatmul::new(function, axis, product).unwrap());
    let found = every(&op, &Caps::h200());
    assert!(found.iter().all(|found| found.plan.check(op.inputs().len()) == Ok(())));
    found
}

#[test]
fn every_type_of_the_tensor_cores_is_reduced() {
    for (dtype, name) in [
        (DType::F16, "gemm_f16_f32_wgmma_reduced_"),
        (DType::BF16, "gemm_bf16_f32_wgmma_reduced_"),
        (DType::I8, "gemm_i8_i32_wgmma_reduced_"),
        (DType::F8E4M3, "gemm_f8e4m3_f32_wgmma_reduced_"),
    ] {
        for axis in [0, 1] {
            let found = ranked(ReduceFn::Max, axis, product(dtype, [8192, 8192, 64]));
            assert_eq!(found.len(), 3, "{dtype} {axis}");
            assert!(found.iter().all(|found| found.name.starts_with(name) && found.name.ends_with("_tn")));
        }
    }
    let as_tf32 = Matmul { precision: Precision::Medium, ..product(DType::F32, [512, 512, 64]) };
    assert_eq!(ranked(ReduceFn::Sum, 1, as_tf32.clone()).len(), 3);
    // Plain cores' f32, and means of integers, are the portable kernels'.
    let highest = Matmul { precision: Precision::Highest, ..as_tf32 };
    assert!(ranked(ReduceFn::Sum, 1, highest).is_empty());
    assert!(ranked(ReduceFn::Mean, 1, product(DType::I8, [512, 512, 64])).is_empty());
}

#[test]
fn rows_of_one_tile_need_one_launch_and_others_two() {
    let launches = |n: u64| {
        let found = ranked(ReduceFn::Sum, 1, product(DType::F16, [512, n, 64]));
        let one = found.into_iter().find(|found| found.name.contains("_128x128x64_")).unwrap();
        (one.plan.launches.len(), one.plan.scratch_bytes)
    };
    assert_eq!(launches(128), (1, vec![]));
    assert_eq!(launches(129), (2, vec![2 * 512 * 4]));
}

#[test]
fn a_mean_is_divided_once() {
    let divisors = |n: u64| -> Vec<f32> {
        let found = ranked(ReduceFn::Mean, 1, product(DType::F16, [512, n, 64]));
        let one = found.into_iter().find(|found| found.name.contains("_128x128x64_")).unwrap();
        let last = |launch: &Launch| if let Some(Arg::F32(divisor)) = launch.args.last() { *divisor } else { f32::NAN };
        one.plan.launches.iter().map(last).collect()
    };
    assert_eq!(divisors(100), [100.0]);
    assert_eq!(divisors(300), [1.0, 300.0]);
}

/// Of columns: what the kernel calls A is B, its rows are the op's columns, and bias and C turn with them.
#[test]
fn columns_are_rows_of_the_transposed_product() {
    let op = product(DType::F16, [96, 200, 64]);
    let with =
        Matmul { c: Some(dense(DType::F32, &[96, 200])), beta: 1.0, bias: Some(dense(DType::F32, &[200])), ..op };
    let args = |axis| {
        let found = ranked(ReduceFn::Sum, axis, with.clone());
        found.into_iter().find(|found| found.name.contains("_128x128x64_")).unwrap().plan.launches[0].args.clone()
    };
    let (rows, columns) = (args(1), args(0));
    let slot = |arg: &Arg| if let Arg::TensorMap(map) = arg { Some(map.slot) } else { None };
    assert_eq!([slot(&rows[0]), slot(&rows[1])], [Some(Slot::Input(0)), Some(Slot::Input(1))]);
    assert_eq!([slot(&columns[0]), slot(&columns[1])], [Some(Slot::Input(1)), Some(Slot::Input(0))]);
    assert_eq!(rows[4..6], [Arg::U32(96), Arg::U32(200)]);
    assert_eq!(columns[4..6], [Arg::U32(200), Arg::U32(96)]);
    let ends = |args: &[Arg]| (args[27].clone(), args[31..34].to_vec());
    assert_eq!(ends(&rows), (Arg::I64(200), [1, 0, 1].map(Arg::I64).to_vec()));
    assert_eq!(ends(&columns), (Arg::I64(1), [200, 1, 0].map(Arg::I64).to_vec()));
}
