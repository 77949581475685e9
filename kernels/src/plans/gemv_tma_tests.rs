//! Which streams skinny products get, without a GPU.

use polywarp_core::ops::{Matmul, TensorSpec};
use polywarp_core::{Layout, Shape};

use super::*;

fn product(dtype: DType, a: ([u64; 2], [i64; 2]), b: ([u64; 2], [i64; 2])) -> Op {
    widening(dtype, dtype, a, b).into()
}

/// The same with results of another type.
fn widening(dtype: DType, to: DType, a: ([u64; 2], [i64; 2]), b: ([u64; 2], [i64; 2])) -> Matmul {
    let spec = |dtype, (dims, strides): ([u64; 2], [i64; 2])| {
        TensorSpec::new(dtype, Layout::strided(Shape::new(&dims).unwrap(), &strides, 0).unwrap())
    };
    let output = spec(to, ([a.0[0], b.0[1]], [b.0[1] as i64, 1]));
    Matmul::product(spec(dtype, a), spec(dtype, b), output).check().unwrap()
}

fn best(op: &Op) -> Option<Candidate> {
    candidates(op, &Caps::h200()).into_iter().min_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns))
}

#[test]
fn most_multiprocessors_load_and_all_at_once() {
    // One block on each of 132, or two.
    for n in [1024, 2048, 4096, 8192, 16384] {
        let op = product(DType::F16, ([16, 4096], [4096, 1]), ([4096, n], [n as i64, 1]));
        let found = best(&op).unwrap();
        let blocks = found.plan.launches[0].grid.iter().product::<u32>();
        assert!((120..=264).contains(&blocks), "{n}: {} has {blocks} blocks", found.name);
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

#[test]
fn operands_of_8_bits_are_multiplied_by_warpgroups_along_k_on_hopper() {
    let (row, along_k, along_n) = (([16, 4096], [4096, 1]), ([4096, 4096], [1, 4096]), ([4096, 4096], [4096, 1]));
    for (dtype, output) in [
        (DType::F8E4M3, DType::F32),
        (DType::F8E4M3, DType::F16),
        (DType::F8E5M2, DType::F32),
        (DType::I8, DType::I32),
        (DType::U8, DType::I32),
    ] {
        let found = best(&widening(dtype, output, row, along_k).into()).unwrap();
        assert!(found.name.contains("wgmma_dot64_c2"), "{dtype} {output}: {}", found.name);
        let Arg::TensorMap(w) = &found.plan.launches[0].args[0] else { panic!("W is a tensor map") };
        assert_eq!((w.element, w.box_dims.as_slice()), (Element::U8, [128, 64, 1].as_slice()));
        // Their neighbours lie along n: left to kernels that pack.
        assert!(best(&widening(dtype, output, row, along_n).into()).is_none(), "{dtype}");
    }
    // Two kinds of 8-bit floats; and results that no kernel of theirs writes, but a second launch does.
    let mut mixed = widening(DType::F8E4M3, DType::F32, row, along_k);
    mixed.b.dtype = DType::F8E5M2;
    assert!(best(&mixed.into()).is_none());
    let narrow = candidates(&widening(DType::F8E4M3, DType::BF16, row, along_k).into(), &Caps::h200());
    assert!(!narrow.is_empty() && narrow.iter().all(|way| way.plan.launches.len() == 2));
}
