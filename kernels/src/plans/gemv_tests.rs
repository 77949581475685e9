//! Which plan skinny products get, without a GPU.

use polywarp_core::DType;
use polywarp_core::ops::TensorSpec;
use polywarp_core::{Layout, Shape};

use super::*;

fn product(dtype: DType, a: ([u64; 2], [i64; 2]), b: ([u64; 2], [i64; 2])) -> Op {
    let layout =
        |(dims, strides): ([u64; 2], [i64; 2])| Layout::strided(Shape::new(&dims).unwrap(), &strides, 0).unwrap();
    let output = TensorSpec::new(
        Matmul::output_dtype(dtype).unwrap(),
        Layout::contiguous(Shape::new(&[a.0[0], b.0[1]]).unwrap()),
    );
    let spec = |operand| TensorSpec::new(dtype, layout(operand));
    Op::from(Matmul::product(spec(a), spec(b), output).check().unwrap())
}

fn names(op: &Op) -> Vec<String> {
    let mut found = candidates(op, &Caps::h200());
    found.sort_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns));
    found.into_iter().map(|candidate| candidate.name).collect()
}

#[test]
fn the_method_follows_the_large_operands_layout() {
    let x = ([1, 4096], [4096, 1]);
    let rows = names(&product(DType::F32, x, ([4096, 4096], [4096, 1])));
    assert!(rows.iter().all(|name| name.starts_with("gemv_f32_columns")), "{rows:?}");
    let columns = names(&product(DType::F32, x, ([4096, 4096], [1, 4096])));
    assert!(columns.iter().all(|name| name.starts_with("gemv_f32_dot")), "{columns:?}");
    // A product with one column streams A.
    let matrix_vector = names(&product(DType::F32, ([4096, 4096], [4096, 1]), ([4096, 1], [1, 1])));
    assert!(matrix_vector.iter().all(|name| name.starts_with("gemv_f32_dot")), "{matrix_vector:?}");
}

#[test]
fn more_vectors_take_more_than_one_row_of_registers() {
    let names_of = |s: u64, dtype| names(&product(dtype, ([s, 4096], [4096, 1]), ([4096, 4096], [1, 4096])));
    assert!(names_of(1, DType::F16).iter().any(|name| name.ends_with("_x1")));
    assert!(names_of(3, DType::F16).iter().any(|name| name.ends_with("_x4")));
    assert!(names_of(9, DType::F16).iter().all(|name| name.contains("mma") && name.contains("_x16")));
    assert!(names_of(17, DType::F16).is_empty() && names_of(9, DType::F64).is_empty());
}

#[test]
fn vectors_that_are_no_rows_are_packed() {
    // A [4, 1000] lies column by column.
    let found = names(&product(DType::BF16, ([4, 1000], [1, 4]), ([1000, 512], [512, 1])));
    assert!(!found.is_empty() && found.iter().all(|name| name.contains("_packx")), "{found:?}");
    // Odd pitches take the instances for any address, vectors as they are.
    let found = names(&product(DType::F32, ([1, 999], [999, 1]), ([999, 511], [511, 1])));
    assert!(
        !found.is_empty() && found.iter().all(|name| name.contains("_any") && !name.contains("_packx")),
        "{found:?}"
    );
}

#[test]
fn vectors_of_any_length_are_packed() {
    // Off the 16-byte grid, and the large operand on it.
    let offered = |k: u64| {
        let spec = |layout| TensorSpec::new(DType::F32, layout);
        let x = Layout::strided(Shape::new(&[2, k]).unwrap(), &[k as i64, 1], 1).unwrap();
        let [w, d] = [[k, 720], [2, 720]].map(|dims| Layout::contiguous(Shape::new(&dims).unwrap()));
        let op = Op::from(Matmul::product(spec(x), spec(w), spec(d)).check().unwrap());
        for candidate in crate::every(&op, &Caps::h200()) {
            assert_eq!(candidate.plan.check(2), Ok(()), "{}", candidate.name);
        }
        names(&op).iter().any(|name| name.contains("_packx"))
    };
    assert!(offered(9191) && offered(101_469_191));
}

#[test]
fn slabs_cover_k_and_none_is_empty() {
    let mut most = 0;
    for k in [1u64, 63, 512, 1025, 4096, 65_537] {
        let op = product(DType::F16, ([2, k], [k as i64, 1]), ([k, 64], [1, k as i64]));
        for candidate in candidates(&op, &Caps::h200()) {
            let launch = candidate.plan.launches.iter().find(|l| l.kernel.symbol.starts_with("gemv")).unwrap();
            let (slabs, Arg::U32(slab_k)) = (u64::from(launch.grid[1]), &launch.args[12]) else { panic!("{launch:?}") };
            let slab_k = u64::from(*slab_k);
            most = most.max(slabs);
            assert!(slabs * slab_k >= k && (slabs - 1) * slab_k < k && slab_k.is_multiple_of(64), "{}", candidate.name);
        }
    }
    assert!(most > 1, "{most}");
}
