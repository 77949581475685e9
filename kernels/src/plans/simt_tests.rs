//! Which plan the plain cores make of which product, without a GPU.

use polywarp_core::ops::{Matmul, TensorSpec};
use polywarp_core::{Layout, Shape};

use super::*;

fn layout(dims: [u64; 2], strides: [i64; 2], offset: u64) -> Layout {
    Layout::strided(Shape::new(&dims).unwrap(), &strides, offset).unwrap()
}

fn product(a: Layout, b: Layout) -> Op {
    let d = [a.dims()[0], b.dims()[1]];
    let spec = |layout| TensorSpec::new(DType::F32, layout);
    let output = spec(Layout::contiguous(Shape::new(&d).unwrap()));
    Op::from(Matmul::product(spec(a), spec(b), output).check().unwrap())
}

fn square(n: u64) -> Op {
    product(layout([n, n], [n as i64, 1], 0), layout([n, n], [n as i64, 1], 0))
}

fn best(op: &Op) -> Candidate {
    let found = candidates(op, &Caps::h200());
    found.into_iter().min_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns)).unwrap()
}

#[test]
fn large_squares_take_the_widest_tile_and_pack_what_it_cannot_read() {
    assert_eq!(best(&square(4096)).name, "gemm_f32_f32_simt_128x256x16_nt_packa");
    // A transposed A lies as the tile wants it.
    let n = 4096;
    let transposed = product(layout([n, n], [1, n as i64], 0), layout([n, n], [n as i64, 1], 0));
    assert_eq!(best(&transposed).name, "gemm_f32_f32_simt_128x256x16_nt");
    // Odd pitches do not.
    let odd = product(layout([4097, 4093], [4093, 1], 0), layout([4093, 4095], [4095, 1], 0));
    assert_eq!(best(&odd).name, "gemm_f32_f32_simt_128x256x16_nt_packa_packb");
}

#[test]
fn small_squares_take_small_tiles_as_operands_lie() {
    assert_eq!(best(&square(512)).name, "gemm_f32_f32_simt_32x64x32_tt");
    assert!(best(&square(1000)).name.starts_with("gemm_f32_f32_simt_64x128x16_"));
}

#[test]
fn long_k_is_cut_into_slabs_that_a_second_launch_adds() {
    let op = product(layout([64, 65_536], [65_536, 1], 0), layout([65_536, 64], [64, 1], 0));
    let candidate = best(&op);
    assert!(candidate.name.contains("_slabs"), "{}", candidate.name);
    let last = candidate.plan.launches.last().unwrap();
    assert_eq!(last.kernel.symbol, "splitk_f32_f32");
    // The slabs cover K and no slab is empty.
    let product = &candidate.plan.launches[candidate.plan.launches.len() - 2];
    let (slabs, Arg::U32(slab_k)) = (u64::from(product.grid[1]), &product.args[10]) else { panic!("{product:?}") };
    assert!(slabs * u64::from(*slab_k) >= 65_536 && (slabs - 1) * u64::from(*slab_k) < 65_536);
}

#[test]
fn one_row_is_not_packed_into_lines_of_one_element() {
    let k = 1_000_000u64;
    let row = layout([1, k], [k as i64, 1], 0);
    let column = layout([k, 1], [1, 1], 0);
    for (op, packed) in [
        (product(row, layout([k, 64], [64, 1], 0)), "_packa"),
        (product(row, layout([k, 64], [1, k as i64], 0)), "_packa"),
        (product(layout([64, k], [k as i64, 1], 0), column), "_packb"),
    ] {
        let found = candidates(&op, &Caps::h200());
        assert!(!found.is_empty());
        assert!(found.iter().all(|candidate| !candidate.name.contains(packed)), "{found:?}");
    }
}

#[test]
fn every_instance_fits_each_card_that_it_is_offered_on() {
    for caps in [Caps::h200(), Caps::a100(), Caps::rtx_4090()] {
        for candidate in candidates(&square(777), &caps) {
            assert!(candidate.plan.launches.iter().all(|l| l.kernel.dynamic_shared_bytes <= caps.max_shared_bytes));
        }
    }
}

#[test]
fn views_that_no_kernel_reads_are_left_to_others() {
    let spec = |dtype, dims: [u64; 2]| TensorSpec::new(dtype, Layout::contiguous(Shape::new(&dims).unwrap()));
    let f16 = Matmul::product(spec(DType::F16, [64, 64]), spec(DType::F16, [64, 64]), spec(DType::F16, [64, 64]));
    assert!(candidates(&Op::from(f16.check().unwrap()), &Caps::h200()).is_empty());
    // Every second element of each row of A: packed.
    let strided = product(layout([256, 256], [1024, 2], 0), layout([256, 256], [256, 1], 0));
    assert!(candidates(&strided, &Caps::h200()).iter().all(|c| c.name.contains("_packa")));
    assert!(!candidates(&strided, &Caps::h200()).is_empty());
}
