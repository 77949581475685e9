//! Which scales of blocks the planner takes, and what it hands to kernels. No GPU.

use polywarp_core::ops::ScaleBlocks;
use polywarp_core::{DType, Layout, Op, Operation, Shape as Extents, TensorSpec};

use super::super::candidates;
use super::*;

const E4M3: DType = DType::F8E4M3;

fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Extents::new(dims).unwrap()))
}

/// A [m, k] by a row-major B [k, n], with scales of blocks for both.
fn product([a, b, output]: [DType; 3], [m, n, k]: [u64; 3], [block_m, block_n, block_k]: [u64; 3]) -> Matmul {
    let blocks = ScaleBlocks { m: block_m, n: block_n, k: block_k };
    let [of_a, of_b] = blocks.extents([m, n, k]).map(|dims| Some(dense(DType::F32, &dims)));
    let plain = Matmul::product(dense(a, &[m, k]), dense(b, &[k, n]), dense(output, &[m, n]));
    Matmul { scale_a: of_a, scale_b: of_b, scale_blocks: Some(blocks), ..plain }.check().unwrap()
}

fn found(op: &Matmul) -> Vec<Candidate> {
    let found = candidates(&Op::from(op.clone()), &Caps::h200());
    for candidate in &found {
        assert_eq!(candidate.plan.check(op.inputs().len()), Ok(()), "{}", candidate.name);
    }
    found
}

/// The last eleven arguments of the last launch: scales.
fn scales_of(candidate: &Candidate) -> Vec<Arg> {
    let args = &candidate.plan.launches.last().unwrap().args;
    args[args.len() - 11..].to_vec()
}

#[test]
fn every_result_has_kernels_with_steps_and_extents_of_blocks() {
    for output in [DType::F32, DType::F16, DType::BF16] {
        let op = product([E4M3, E4M3, output], [512, 384, 1024], [1, 128, 128]);
        let found = found(&op);
        assert_eq!(found.len(), 3);
        for candidate in &found {
            assert!(candidate.name.starts_with(&format!("gemm_f8e4m3_{output}_wgmma_blocks_")), "{}", candidate.name);
            let scales = scales_of(candidate);
            // Rows of eight blocks along K; of B's, three columns side by side.
            assert_eq!(scales[1..4], [8, 1, 0].map(Arg::I64));
            assert_eq!(scales[5..8], [1, 3, 0].map(Arg::I64));
            assert_eq!(scales[8..], [1, 128, 1].map(Arg::U32));
        }
    }
}

#[test]
fn longer_blocks_count_stages_and_those_that_reach_the_end_are_one() {
    let op = product([E4M3, E4M3, DType::F32], [70, 300, 1000], [16, 256, 384]);
    assert_eq!(scales_of(&found(&op)[0])[8..], [16, 256, 3].map(Arg::U32));
    let op = product([E4M3, E4M3, DType::F32], [70, 300, 1000], [u64::MAX, 1000, u64::MAX]);
    let scales = scales_of(&found(&op)[0]);
    assert_eq!(scales[8..], [u32::MAX, 384, 8].map(Arg::U32));
    assert_eq!([scales[1..4].to_vec(), scales[5..8].to_vec()].concat(), [0; 6].map(Arg::I64));
}

#[test]
fn what_cuts_stages_or_tiles_and_what_is_no_pair_of_floats_is_left_to_others() {
    let types = [E4M3, E4M3, DType::F32];
    assert!(found(&product(types, [64, 300, 256], [1, 128, 64])).is_empty());
    assert!(found(&product(types, [64, 300, 1000], [1, 128, 200])).is_empty());
    assert!(found(&product(types, [64, 300, 256], [1, 64, 128])).is_empty());
    assert!(found(&product([E4M3, DType::F8E5M2, DType::F32], [64, 64, 256], [1, 128, 128])).is_empty());
    assert!(found(&product([DType::I8, DType::I8, DType::F32], [64, 64, 256], [1, 128, 128])).is_empty());
    let both = product(types, [64, 300, 256], [1, 128, 128]);
    assert_eq!(found(&both).len(), 3);
    assert!(found(&Matmul { scale_a: None, ..both }.check().unwrap()).is_empty());
}
