//! What the planner of grouped products takes, packs and refuses. No GPU.

use polywarp_core::{Op, Precision, UnaryFn};

use super::*;
use crate::plans::{candidates, every};

fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Extents::new(dims).unwrap()))
}

/// Groups, rows, n, k; B's neighbours along N.
fn product(dtype: DType, [groups, rows, n, k]: [u64; 4]) -> GroupedMatmul {
    let (a, b) = (dense(dtype, &[rows, k]), dense(dtype, &[groups, k, n]));
    let output = dense(Matmul::output_dtype(dtype).unwrap(), &[rows, n]);
    GroupedMatmul::product(a, b, dense(DType::I32, &[groups]), output).check().unwrap()
}

/// With weights as layers keep them.
fn weights(dtype: DType, [groups, rows, n, k]: [u64; 4]) -> GroupedMatmul {
    let layout = dense(dtype, &[groups, n, k]).layout.transpose(1, 2).unwrap();
    GroupedMatmul { b: TensorSpec::new(dtype, layout), ..product(dtype, [groups, rows, n, k]) }.check().unwrap()
}

fn ranked(op: &GroupedMatmul) -> Vec<Candidate> {
    let op = Op::from(op.clone());
    let found = every(&op, &Caps::h200());
    assert!(found.iter().all(|found| found.plan.check(op.inputs().len()) == Ok(())));
    found
}

fn names(op: &GroupedMatmul) -> Vec<String> {
    ranked(op).into_iter().map(|found| found.name).collect()
}

#[test]
fn tiles_fit_the_groups() {
    for (dtype, name) in [(DType::F16, "f16"), (DType::BF16, "bf16")] {
        let large = format!("gemm_{name}_{name}_wgmma_grouped_128x128x64_1x1_pingpong_tn");
        let small = format!("gemm_{name}_{name}_wgmma_grouped_64x128x64_1x1_tn");
        assert_eq!(names(&weights(dtype, [8, 8192, 4096, 2048])), [large.clone(), small.clone()]);
        assert_eq!(names(&weights(dtype, [8, 64, 4096, 2048])), [small, large]);
        assert!(names(&product(dtype, [8, 8192, 4096, 2048])).iter().all(|name| name.ends_with("_tt")));
    }
}

#[test]
fn every_type_of_the_tensor_cores_has_a_kernel_for_what_it_gives() {
    let large = |dtype, to, precision| {
        let op = weights(dtype, [8, 8192, 512, 512]);
        let op = GroupedMatmul { output: dense(to, &[8192, 512]), precision, ..op }.check().unwrap();
        names(&op).into_iter().next().unwrap_or_default()
    };
    let highest = Precision::Highest;
    assert_eq!(large(DType::F16, DType::F32, highest), "gemm_f16_f32_wgmma_grouped_128x128x64_1x1_pingpong_tn");
    assert_eq!(large(DType::U8, DType::I32, highest), "gemm_u8_i32_wgmma_grouped_128x128x128_1x1_pingpong_tn");
    assert_eq!(large(DType::F8E4M3, DType::BF16, highest), "gemm_f8e4m3_bf16_wgmma_grouped_128x128x128_1x1_tn");
    assert_eq!(
        large(DType::F32, DType::F32, Precision::Medium),
        "gemm_tf32_f32_wgmma_grouped_128x128x32_1x1_pingpong_tn"
    );
    // Plain cores' f32 and split f32, and integers that leave as floats, are the portable kernels'.
    for precision in [Precision::High, highest] {
        assert_eq!(large(DType::F32, DType::F32, precision), "");
    }
    assert_eq!(large(DType::I8, DType::F32, highest), "");
    // 8-bit operands lie along K, or are packed.
    let found = ranked(&product(DType::I8, [8, 512, 512, 512]));
    assert!(found.iter().all(|found| found.name.ends_with("_tn") && found.plan.launches.len() == 2));
}

#[test]
fn grid_has_no_more_blocks_than_there_can_be_tiles() {
    let grid = |dims: [u64; 4]| {
        let found = ranked(&weights(DType::F16, dims)).into_iter().find(|found| found.name.contains("_64x128x"));
        found.unwrap().plan.launches[0].grid[0]
    };
    assert_eq!(grid([8, 8192, 4096, 2048]), 132);
    // Three rows are three tiles at most, of one column.
    assert_eq!(grid([8, 3, 128, 64]), 3);
    // Two groups and the rows of none: 63 rows of padding each.
    assert_eq!(grid([2, 100, 256, 64]), 2 * ((100 + 3 * 63) / 64));
}

#[test]
fn arguments_say_where_groups_are() {
    let mut op = weights(DType::F16, [5, 300, 136, 72]);
    op.bias =
        Some(TensorSpec::new(DType::F16, Layout::strided(Extents::new(&[5, 136]).unwrap(), &[144, 1], 3).unwrap()));
    op.activation = Some(UnaryFn::Silu);
    op.ends = TensorSpec::new(DType::U32, Layout::strided(Extents::new(&[5]).unwrap(), &[-2], 11).unwrap());
    let op = op.check().unwrap();
    let found = ranked(&op).swap_remove(0);
    let [launch] = &found.plan.launches[..] else { panic!("{:?}", found.plan.launches) };
    // Rows, n, k; tiles along n, groups; slabs, tiles of k.
    assert_eq!(launch.args[4..7], [300, 136, 72].map(Arg::U32));
    assert_eq!(launch.args[8..12], [2, 5, 1, 2].map(Arg::U32));
    // One A for all groups, a B for each, D by TMA.
    assert_eq!(launch.args[17..21], [0, 1, 1, 0].map(Arg::U32));
    let at = |input, offset_bytes| Arg::Address { slot: Slot::Input(input), offset_bytes };
    assert_eq!(launch.args[29..], [at(2, 6), Arg::U32(3), at(3, 44), Arg::I64(-2), Arg::U32(0), Arg::I64(144)]);
    // D is one matrix, whatever the groups.
    let Arg::TensorMap(d) = &launch.args[2] else { panic!("{:?}", launch.args[2]) };
    assert_eq!(d.dims, [136, 300, 1]);
    let Arg::TensorMap(b) = &launch.args[1] else { panic!("{:?}", launch.args[1]) };
    assert_eq!(b.dims, [72, 136, 5]);
}

#[test]
fn operands_are_taken_as_they_lie_or_packed() {
    let launches = |op: &GroupedMatmul| ranked(op).iter().map(|found| found.plan.launches.len()).collect::<Vec<_>>();
    let op = weights(DType::F16, [4, 256, 128, 64]);
    assert_eq!(launches(&op), [1, 1]);
    // A with neighbours along its rows, and a pitch that is no multiple of 16 bytes.
    let along_m = Layout::strided(Extents::new(&[256, 64]).unwrap(), &[1, 256], 0).unwrap();
    assert_eq!(launches(&GroupedMatmul { a: TensorSpec::new(DType::F16, along_m), ..op.clone() }), [2, 2]);
    assert_eq!(launches(&weights(DType::F16, [4, 256, 128, 67])), [2, 2]);
    // One matrix for all groups needs no third dimension.
    let shared = op.b.layout.slice(0, 0, 1, 1).unwrap().broadcast_to(*op.b.layout.shape()).unwrap();
    let found = ranked(&GroupedMatmul { b: TensorSpec::new(DType::F16, shared), ..op }).swap_remove(0);
    assert_eq!(found.plan.launches[0].args[18], Arg::U32(0));
}

#[test]
fn nothing_is_offered_for_nothing_and_for_other_cards() {
    for dims in [[0, 64, 64, 64], [4, 0, 64, 64], [4, 64, 0, 64], [4, 64, 64, 0]] {
        assert!(ranked(&product(DType::F16, dims)).is_empty(), "{dims:?}");
    }
    let op = Op::from(weights(DType::BF16, [8, 512, 512, 512]));
    for caps in [Caps::a100(), Caps { tensor_maps: false, ..Caps::h200() }, Caps { sm: 100, ..Caps::h200() }] {
        assert!(candidates(&op, &caps).is_empty(), "sm_{}", caps.sm);
    }
}

/// More tiles than 32 bits count.
#[test]
fn products_beyond_the_counters_are_left_to_others() {
    assert!(ranked(&weights(DType::F16, [1 << 20, 1 << 20, 1 << 18, 8])).is_empty());
}
