//! What the planner of mma_sync takes, refuses, and prefers. No GPU.

use polywarp_core::ops::TensorSpec;
use polywarp_core::{Layout, Shape};

use super::*;
use crate::Slot;

fn layout(dims: &[u64], strides: &[i64], offset: u64) -> Layout {
    Layout::strided(Shape::new(dims).unwrap(), strides, offset).unwrap()
}

fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
}

fn product(dtype: DType, [m, n, k]: [u64; 3]) -> Matmul {
    let output = Matmul::output_dtype(dtype).unwrap();
    Matmul::product(dense(dtype, &[m, k]), dense(dtype, &[k, n]), dense(output, &[m, n])).check().unwrap()
}

fn names(op: &Matmul, caps: &Caps) -> Vec<String> {
    let mut found = candidates(&Op::from(op.clone()), caps);
    found.sort_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns));
    found.into_iter().map(|candidate| candidate.name).collect()
}

#[test]
fn views_know_orientation_and_alignment() {
    let operand = |row_stride, k_stride, offset, batch_stride| Operand {
        slot: Slot::Input(0),
        element_bytes: 2,
        offset,
        rows: 100,
        k: 50,
        row_stride,
        k_stride,
        batch: 1,
        batch_stride,
    };
    let view = |operand| View::of(operand).map(|view| (view.major, view.pitch, view.alignment));
    assert_eq!(view(operand(64, 1, 0, 0)), Some((Major::K, 64, 16)));
    assert_eq!(view(operand(1, 104, 8, 16)), Some((Major::Mn, 104, 16)));
    assert_eq!(view(operand(50, 1, 0, 0)), Some((Major::K, 50, 4)));
    assert_eq!(view(operand(64, 1, 3, 0)), Some((Major::K, 64, 2)));
    assert_eq!(view(operand(64, 1, 0, 4)), Some((Major::K, 64, 8)));
    assert_eq!(view(operand(-64, 1, 6400, 0)), Some((Major::K, -64, 16)));
    assert_eq!(view(operand(64, 2, 0, 0)), None);
    // One element of k, one row: either way, the better aligned.
    assert_eq!(view(Operand { k: 1, k_stride: 0, ..operand(1, 0, 0, 0) }), Some((Major::Mn, 0, 16)));
    assert_eq!(view(Operand { rows: 1, row_stride: 0, ..operand(0, 1, 0, 0) }), Some((Major::K, 0, 16)));
}

#[test]
fn large_products_take_large_tiles_and_small_ones_small() {
    let caps = Caps::a100();
    assert_eq!(names(&product(DType::F16, [8192, 8192, 8192]), &caps)[0], "gemm_f16_mma_256x128x64_tt");
    assert!(names(&product(DType::F16, [512, 512, 512]), &caps)[0].starts_with("gemm_f16_mma_64x64x64_tt"));
    assert!(names(&product(DType::F16, [24, 4096, 4096]), &caps)[0].starts_with("gemm_f16_mma_64x64x64_tt_slabs"));
    // 99 KiB of shared memory.
    let found = names(&product(DType::F16, [8192, 8192, 8192]), &Caps::rtx_4090());
    assert_eq!(found[0], "gemm_f16_mma_128x128x32_tt");
}

#[test]
fn precision_decides_how_f32_is_multiplied() {
    let op = |precision| Matmul { precision, ..product(DType::F32, [1024, 1024, 1024]) };
    let first = |precision| names(&op(precision), &Caps::a100()).into_iter().next();
    assert!(first(Precision::Medium).unwrap().starts_with("gemm_tf32_f32_"));
    assert!(first(Precision::Low).unwrap().contains("_converted"));
    assert_eq!(first(Precision::High), None);
    assert_eq!(first(Precision::Highest), None);
}

#[test]
fn unaligned_operands_go_to_kernels_that_may_read_them() {
    let op = |dtype, pitch| {
        let mut op = product(dtype, [300, 200, 100]);
        op.a.layout = layout(&[300, 100], &[pitch, 1], 0);
        names(&op, &Caps::a100())
    };
    // As they lie, or copied to where all kernels may read them.
    let only = |names: Vec<String>, part: &str| {
        assert!(names.iter().all(|name| name.contains(part) || name.contains("_tt_packed")), "{names:?}");
        assert!(names.iter().any(|name| name.contains(part)), "{names:?}");
    };
    assert!(op(DType::F16, 104).iter().all(|name| name.ends_with("_tt") || name.contains("_tt_slabs")));
    only(op(DType::F16, 106), "_align4");
    only(op(DType::F16, 105), "_any");
    only(op(DType::I8, 110), "_any");
    only(op(DType::F64, 101), "_align8");
    let large = |dtype| {
        let mut op = product(dtype, [4097, 4095, 4093]);
        op.b.layout = layout(&[4093, 4095], &[4095, 1], 0);
        names(&op, &Caps::a100()).into_iter().next().unwrap()
    };
    for dtype in [DType::F16, DType::I8] {
        assert!(large(dtype).ends_with("_tt_packed"), "{}", large(dtype));
    }
    // Neither direction has neighbours.
    let mut op = product(DType::F16, [300, 200, 100]);
    op.a.layout = layout(&[300, 100], &[200, 2], 0);
    assert!(names(&op, &Caps::a100()).iter().all(|name| name.contains("_packed")));
}

#[test]
fn transposes_are_orientations() {
    let mut op = product(DType::BF16, [256, 256, 256]);
    op.a.layout = layout(&[256, 256], &[1, 256], 0);
    assert!(names(&op, &Caps::a100()).iter().all(|name| name.contains("_nt")));
    op.b.layout = op.a.layout;
    assert!(names(&op, &Caps::a100()).iter().all(|name| name.contains("_nn")));
}

#[test]
fn integers_whose_scale_f32_cannot_hold_are_refused() {
    let op = Matmul { alpha: f64::from(1 << 24) + 1.0, ..product(DType::I8, [64, 64, 64]) };
    assert!(names(&op, &Caps::a100()).is_empty());
    assert!(!names(&product(DType::I8, [64, 64, 64]), &Caps::a100()).is_empty());
}

#[test]
fn eight_bit_floats_take_the_kernel_of_their_pair_and_of_their_result() {
    let op = |a, b, d| {
        let [a, b, d] = [(a, [512, 256]), (b, [256, 1024]), (d, [512, 1024])].map(|(dtype, dims)| dense(dtype, &dims));
        Matmul::product(a, b, d).check().unwrap()
    };
    let form = |candidate: &Candidate| candidate.plan.launches[0].args[7].clone();
    let (e4m3, e5m2) = (DType::F8E4M3, DType::F8E5M2);
    for (a, b, symbol) in [
        (e4m3, e4m3, "gemm_f8e4m3_mma"),
        (e4m3, e5m2, "gemm_f8e4m3_f8e5m2_mma"),
        (e5m2, e4m3, "gemm_f8e5m2_f8e4m3_mma"),
        (e5m2, e5m2, "gemm_f8e5m2_mma"),
    ] {
        for (d, number) in [(DType::F32, 1), (DType::F16, 0), (DType::BF16, 2)] {
            let found = candidates(&Op::from(op(a, b, d)), &Caps::rtx_4090());
            assert!(
                !found.is_empty() && found.iter().all(|candidate| candidate.name.starts_with(symbol)),
                "{a} {b} {d}"
            );
            let whole = found.iter().filter(|candidate| !candidate.name.contains("_slabs"));
            assert!(whole.clone().count() > 0 && whole.clone().all(|candidate| form(candidate) == Arg::U32(number)));
            // Slabs write f32.
            let slabs = found.iter().filter(|candidate| candidate.name.contains("_slabs"));
            assert!(slabs.clone().all(|candidate| form(candidate) == Arg::U32(1)));
        }
    }
    // No family takes one kind for the other.
    let mixed = Op::from(op(e4m3, e5m2, DType::F32));
    let found = crate::candidates(&mixed, &Caps::h200());
    assert!(!found.is_empty() && found.iter().all(|candidate| candidate.name.starts_with("gemm_f8e4m3_f8e5m2_")));
    // Ampere does not multiply them.
    assert!(names(&op(e4m3, e4m3, DType::F32), &Caps::a100()).is_empty());
}

#[test]
fn slabs_cover_k_and_are_multiples_of_the_tile() {
    let op = product(DType::F16, [64, 64, 65_536]);
    let found = candidates(&Op::from(op), &Caps::a100());
    let mut seen = 0;
    for candidate in found.iter().filter(|candidate| candidate.name.contains("_slabs")) {
        seen += 1;
        let launch = &candidate.plan.launches[0];
        let Arg::U32(slab_k) = launch.args[12] else { panic!("{:?}", launch.args) };
        let slabs = 65_536_u64.div_ceil(u64::from(slab_k));
        assert_eq!(slab_k % launch.kernel.tile.unwrap().k, 0);
        assert_eq!(candidate.plan.scratch_bytes, [slabs * 64 * 64 * 4], "{}", candidate.name);
        assert!(candidate.name.ends_with(&format!("_slabs{slabs}")));
    }
    assert!(seen > 0, "{found:?}");
}

#[test]
fn quantised_products_end_in_a_second_launch() {
    let scaled = |dtype, output| {
        let op = Matmul::product(dense(dtype, &[256, 512]), dense(dtype, &[512, 128]), dense(output, &[256, 128]));
        let (a, b) = (dense(DType::F32, &[256, 1]), dense(DType::F32, &[1, 128]));
        Matmul { scale_a: Some(a), scale_b: Some(b), ..op }.check().unwrap()
    };
    let cases = [
        (DType::I8, DType::F16, "i32_f16"),
        (DType::U8, DType::F32, "i32_f32"),
        (DType::F8E4M3, DType::BF16, "f32_bf16"),
    ];
    for (dtype, output, name) in cases {
        let op = scaled(dtype, output);
        let found = candidates(&Op::from(op.clone()), &Caps::rtx_4090());
        assert!(!found.is_empty(), "{dtype}");
        for candidate in found {
            let [product, end] = &candidate.plan.launches[candidate.plan.launches.len() - 2..] else { panic!() };
            assert!(
                product.kernel.symbol.starts_with("gemm_") && candidate.name.contains("_slabs"),
                "{}",
                candidate.name
            );
            // Bare sums, then scales of 256 rows and 128 columns behind the activation.
            assert!(product.args.contains(&Arg::Null));
            assert_eq!(end.kernel.symbol, format!("splitk_scaled_{name}"));
            let scales = [Slot::Input(2), Slot::Input(3)].map(|slot| Arg::Address { slot, offset_bytes: 0 });
            assert_eq!([&end.args[13], &end.args[16]], [&scales[0], &scales[1]]);
            assert_eq!(candidate.plan.scratch_bytes.last().copied().unwrap() % (4 * 256 * 128), 0);
        }
    }
    // Nothing to scale: one launch.
    let plain = Matmul { scale_a: None, scale_b: None, ..scaled(DType::F8E4M3, DType::F32) };
    assert!(candidates(&Op::from(plain), &Caps::rtx_4090()).iter().any(|found| found.plan.launches.len() == 1));
}
