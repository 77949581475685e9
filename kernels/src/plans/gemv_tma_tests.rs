//! Which streams skinny products get, without a GPU.

use polywarp_core::ops::{Matmul, TensorSpec};
use polywarp_core::{Layout, Shape};

use super::*;

fn product(dtype: DType, a: ([u64; 2], [i64; 2]), b: ([u64; 2], [i64; 2])) -> Op {
    let spec = |dtype, (dims, strides): ([u64; 2], [i64; 2])| {
        TensorSpec::new(dtype, Layout::strided(Shape::new(&dims).unwrap(), &strides, 0).unwrap())
    };
    let output = spec(dtype, ([a.0[0], b.0[1]], [b.0[1] as i64, 1]));
    Matmul::product(spec(dtype, a), spec(dtype, b), output).check().unwrap().into()
}

fn best(op: &Op) -> Option<Candidate> {
    candidates(op, &Caps::h200()).into_iter().min_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns))
}

#[test]
fn most_multiprocessors_load_and_all_at_once() {
    for (n, blocks) in [(4096, 128), (8192, 128), (16384, 128), (2048, 64), (1024, 64)] {
        let op = product(DType::F16, ([16, 4096], [4096, 1]), ([4096, n], [n as i64, 1]));
        let found = best(&op).unwrap();
        assert_eq!(found.plan.launches[0].grid.iter().product::<u32>(), blocks, "{n}: {}", found.name);
        assert!(found.name.contains("columns"), "{}", found.name);
    }
}

#[test]
fn both_sides_may_be_small_and_vectors_are_packed_when_they_must() {
    // W K-major: A with few columns of B, which lie next to each other along N.
    let op = product(DType::BF16, ([4096, 4096], [4096, 1]), ([4096, 8], [8, 1]));
    let found = best(&op).unwrap();
    assert!(found.name.contains("dot") && found.name.contains("packx"), "{}", found.name);
    assert_eq!(found.plan.launches.len(), 2);
    // Transposed they are taken as they lie.
    let op = product(DType::BF16, ([4096, 4096], [4096, 1]), ([4096, 8], [1, 4096]));
    assert_eq!(best(&op).unwrap().plan.launches.len(), 1);
}

#[test]
fn what_tensor_maps_cannot_describe_is_left_to_others() {
    let odd = product(DType::F16, ([16, 4096], [4096, 1]), ([4096, 4095], [4095, 1]));
    let f32s = product(DType::F32, ([16, 4096], [4096, 1]), ([4096, 4096], [4096, 1]));
    let many = product(DType::F16, ([17, 4096], [4096, 1]), ([4096, 4096], [4096, 1]));
    for op in [odd, f32s, many] {
        assert!(best(&op).is_none());
    }
    let fine = product(DType::F16, ([16, 4096], [4096, 1]), ([4096, 4096], [4096, 1]));
    assert!(best(&fine).is_some() && candidates(&fine, &Caps::a100()).is_empty());
}

#[test]
fn long_k_is_cut() {
    let op = product(DType::F16, ([16, 1 << 18], [1 << 18, 1]), ([1 << 18, 64], [64, 1]));
    let found = best(&op).unwrap();
    assert!(found.name.contains("slabs") && found.plan.launches.len() == 2, "{}", found.name);
}
