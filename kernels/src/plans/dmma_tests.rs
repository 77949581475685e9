//! What the planner of dmma takes, packs and cuts. No GPU.

use polywarp_core::ops::TensorSpec;
use polywarp_core::{Layout, Operation, Shape};

use super::*;

fn spec(dims: [u64; 2], strides: [i64; 2], offset: u64) -> TensorSpec {
    TensorSpec::new(DType::F64, Layout::strided(Shape::new(&dims).unwrap(), &strides, offset).unwrap())
}

fn dense([rows, columns]: [u64; 2]) -> TensorSpec {
    spec([rows, columns], [columns as i64, 1], 0)
}

fn product([m, n, k]: [u64; 3]) -> Matmul {
    Matmul::product(dense([m, k]), dense([k, n]), dense([m, n])).check().unwrap()
}

fn best(op: &Matmul) -> Candidate {
    let found = candidates(&Op::from(op.clone()), &Caps::h200());
    assert!(found.iter().all(|candidate| candidate.plan.check(op.inputs().len()) == Ok(())));
    found.into_iter().min_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns)).unwrap()
}

#[test]
fn tiles_follow_the_number_of_multiprocessors() {
    assert_eq!(best(&product([4096; 3])).name, "gemm_f64_f64_dmma_128x128_tt");
    // 128 tiles in one round, not 64 in half of one.
    assert_eq!(best(&product([1024; 3])).name, "gemm_f64_f64_dmma_64x128_tt");
    let long = best(&product([128, 128, 65536]));
    assert!(long.name.contains("_slabs") && long.plan.launches.len() == 2, "{}", long.name);
}

#[test]
fn few_tiles_are_shared_by_clusters() {
    let named = |op: &Matmul, name: &str| {
        let found = candidates(&Op::from(op.clone()), &Caps::h200());
        found.into_iter().find(|candidate| candidate.name == name).unwrap_or_else(|| panic!("no {name}"))
    };
    // 64 tiles, two blocks each; a part of K may be empty.
    for dims in [[512; 3], [512, 512, 16]] {
        let found = named(&product(dims), "gemm_f64_f64_dmma_64x64x2_tt");
        assert_eq!((found.plan.launches.len(), found.plan.launches[0].grid), (1, [128, 1, 1]));
    }
    // Narrow ones where the long operand is K-major.
    assert_eq!(named(&product([4096, 16, 4096]), "gemm_f64_f64_dmma_64x16x2_tt").plan.launches[0].grid, [128, 1, 1]);
    let found = candidates(&Op::from(product([16, 4096, 4096])), &Caps::h200());
    assert!(found.iter().all(|candidate| !candidate.name.contains("16x64")));
    // Slabs besides, no more clusters than the card holds at once.
    let long = best(&product([64, 64, 65536]));
    assert_eq!(long.name, "gemm_f64_f64_dmma_64x64x4_tt_slabs30");
    assert_eq!(long.plan.launches[0].grid, [120, 1, 1]);
}

#[test]
fn more_tiles_than_kernels_count_are_left_to_others() {
    let matrices = |rows: u64, columns: u64| {
        let dims = Shape::new(&[1 << 30, rows, columns]).unwrap();
        TensorSpec::new(DType::F64, Layout::contiguous(dims))
    };
    let found = |columns| {
        let op = Matmul::product(matrices(2, 2), matrices(2, columns), matrices(2, columns)).check().unwrap();
        candidates(&Op::from(op), &Caps::h200())
    };
    // 2^30 tiles, and twice as many of the widest.
    assert!(!found(2).is_empty());
    assert!(found(130).is_empty());
}

#[test]
fn operands_off_the_grid_are_packed() {
    let odd = Matmul::product(dense([100, 101]), dense([101, 102]), dense([100, 102])).check().unwrap();
    let found = best(&odd);
    assert!(found.name.contains("_packed") && found.plan.launches.len() == 2, "{}", found.name);
    // An odd start is off the grid, a transposed operand is not.
    let moved = Matmul::product(spec([64, 64], [64, 1], 1), dense([64, 64]), dense([64, 64])).check().unwrap();
    assert!(best(&moved).name.contains("_packed"));
    let turned = Matmul::product(spec([64, 64], [1, 64], 0), spec([64, 64], [1, 64], 0), dense([64, 64]));
    assert!(best(&turned.check().unwrap()).name.ends_with("_nn"));
}

#[test]
fn other_cards_and_types_are_left_to_others() {
    assert!(candidates(&Op::from(product([64; 3])), &Caps::a100()).is_empty());
    let f32s = |dims: [u64; 2]| TensorSpec::new(DType::F32, dense(dims).layout);
    let op = Matmul::product(f32s([64, 64]), f32s([64, 64]), f32s([64, 64])).check().unwrap();
    assert!(candidates(&Op::from(op), &Caps::h200()).is_empty());
}
