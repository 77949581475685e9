//! What the planner of mma_sparse takes, packs and refuses. No GPU.

use polywarp_core::ops::{Matmul, Part24, TensorSpec};
use polywarp_core::{DType, Layout, Operation, Shape};

use super::*;

fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
}

/// A of shape `a` by B of shape `b`, whose neighbours lie along K.
fn product(dtype: DType, a: &[u64], b: &[u64]) -> SparseMatmul {
    let part = |part: Part24, dtype| dense(dtype, part.shape_of(&Shape::new(a).unwrap()).unwrap().dims());
    let (values, metadata) = (part(Part24::Values, dtype), part(Part24::Metadata, DType::U32));
    let [batch @ .., k, n] = b else { panic!("no matrix") };
    let weights = dense(dtype, &[batch, &[*n, *k]].concat());
    let rank = b.len();
    let b = TensorSpec::new(dtype, weights.layout.transpose(rank - 2, rank - 1).unwrap());
    let output = dense(Matmul::output_dtype(dtype).unwrap(), &[batch, &[a[a.len() - 2], *n]].concat());
    let product = Matmul::product(SparseMatmul::dense_a(&values, *k, batch).unwrap(), b, output);
    SparseMatmul { values, metadata, product }.check().unwrap()
}

fn only(op: &SparseMatmul, caps: &Caps) -> Option<Candidate> {
    let mut found = candidates(&op.clone().into(), caps);
    assert!(found.len() <= 1, "{found:?}");
    found.pop()
}

#[test]
fn each_type_has_its_kernel_where_there_is_code_for_it() {
    for (dtype, symbol) in [
        (DType::F16, "gemm_f16_mma_sparse_256x128x64_tn"),
        (DType::BF16, "gemm_bf16_mma_sparse_256x128x64_tn"),
        (DType::I8, "gemm_i8_i32_mma_sparse_256x128x128_tn"),
    ] {
        let op = product(dtype, &[512, 1024], &[1024, 256]);
        let hopper = Some(Caps::h200()).filter(|_| dtype != DType::I8);
        for caps in [Caps::a100()].into_iter().chain(hopper) {
            let found = only(&op, &caps).unwrap();
            assert_eq!(found.name, symbol);
            assert!(found.plan.check(3).is_ok() && found.plan.scratch_bytes.is_empty());
            assert_eq!(found.plan.launches[0].grid, [2 * 2, 1, 1]);
        }
        for sm in [75, 100, 120] {
            assert!(only(&op, &Caps { sm, ..Caps::h200() }).is_none());
        }
        // 99 KiB of shared memory.
        assert!(only(&op, &Caps::rtx_4090()).is_none());
    }
    assert!(only(&product(DType::F32, &[512, 1024], &[1024, 256]), &Caps::h200()).is_none());
    assert!(only(&product(DType::F8E4M3, &[512, 1024], &[1024, 256]), &Caps::h200()).is_none());
}

#[test]
fn what_is_off_the_grid_is_packed() {
    let launches = |op: &SparseMatmul| only(op, &Caps::a100()).map(|found| found.plan.launches.len());
    // 20 values of f16 and 40 of B are 40 and 80 bytes: of both only B lies on the grid.
    let op = product(DType::F16, &[64, 40], &[40, 64]);
    assert_eq!(launches(&op), Some(2));
    assert!(only(&op, &Caps::a100()).unwrap().name.ends_with("_packed"));
    // Rows of B: neighbours along N.
    let mut op = product(DType::F16, &[64, 64], &[64, 64]);
    assert_eq!(launches(&op), Some(1));
    op.product.b = dense(DType::F16, &[64, 64]);
    assert_eq!(launches(&op), Some(2));
    op.values.layout = op.values.layout.with_offset(4);
    assert_eq!((launches(&op), only(&op, &Caps::a100()).unwrap().plan.scratch_bytes.len()), (Some(2), 2));
    // The last group of a row may name places that there are not.
    assert_eq!(launches(&product(DType::F16, &[64, 66], &[66, 64])), None);
    assert_eq!(launches(&product(DType::F16, &[64, 0], &[0, 64])), None);
}

#[test]
fn batches_step_through_values_and_metadata() {
    let strides = |a: &[u64], b: &[u64]| {
        let found = only(&product(DType::F16, a, b), &Caps::a100())?;
        let args = &found.plan.launches.last()?.args;
        let step = |at: usize| if let Arg::I64(step) = args[at] { step } else { panic!("{args:?}") };
        // Pitch and batch stride of values, batch stride of metadata, that of B.
        Some([step(1), step(2), step(4), step(7)])
    };
    assert_eq!(strides(&[3, 64, 96], &[3, 96, 32]), Some([48, 64 * 48, 64 * 3, 32 * 96]));
    // One A for all.
    assert_eq!(strides(&[64, 96], &[3, 96, 32]), Some([48, 0, 0, 32 * 96]));
    // Two strides are none.
    assert_eq!(strides(&[2, 1, 64, 96], &[2, 3, 96, 32]), None);
}

#[test]
fn addends_stand_behind_metadata() {
    let op = product(DType::F16, &[64, 64], &[64, 64]);
    let c = Some(dense(DType::F16, &[64, 64]));
    let bias = Some(dense(DType::F16, &[64]));
    let op = SparseMatmul { product: Matmul { c, bias, beta: 1.0, ..op.product }, ..op }.check().unwrap();
    let found = only(&op, &Caps::a100()).unwrap();
    assert_eq!(found.plan.check(op.inputs().len()), Ok(()));
    let inputs = found.plan.launches[0].args.iter().filter_map(|arg| match arg {
        Arg::Address { slot: Slot::Input(at), .. } => Some(*at),
        _ => None,
    });
    assert_eq!(inputs.collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    // Scales belong to other kernels.
    let op = product(DType::I8, &[64, 64], &[64, 64]);
    let scale_a = Some(dense(DType::F32, &[64, 1]));
    let output = dense(DType::F32, &[64, 64]);
    let op = SparseMatmul { product: Matmul { scale_a, output, ..op.product }, ..op }.check().unwrap();
    assert!(only(&op, &Caps::a100()).is_none());
}
