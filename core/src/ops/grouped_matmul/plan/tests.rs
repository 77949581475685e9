//! Every grouped product gives kernels that naga accepts; grids hold every tile that ends can ask for; choices are as intended.

use crate::ops::{GroupedMatmul, Matmul};
use crate::{DType, Layout, Shape, TensorSpec, UnaryFn};

use crate::plan::{Caps, Slot};
use crate::wgsl::validate::{Validated, full_caps};

fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
}

fn transposed(dtype: DType, dims: &[u64]) -> TensorSpec {
    let rank = dims.len();
    let mut back = dims.to_vec();
    back.swap(rank - 2, rank - 1);
    TensorSpec::new(dtype, dense(dtype, &back).layout.transpose(rank - 2, rank - 1).unwrap())
}

type Lie = fn(DType, &[u64]) -> TensorSpec;

fn product(dtype: DType, [rows, groups, n, k]: [u64; 4], lies: [Lie; 2]) -> GroupedMatmul {
    let (a, b) = (lies[0](dtype, &[rows, k]), lies[1](dtype, &[groups, k, n]));
    let output = dense(Matmul::output_dtype(dtype).unwrap(), &[rows, n]);
    GroupedMatmul::product(a, b, dense(DType::I32, &[groups]), output).check().unwrap()
}

fn with_everything(op: GroupedMatmul) -> GroupedMatmul {
    let (d, dims) = (op.output.dtype, op.dims());
    let activation = Some(if d.compute() == DType::F32 { UnaryFn::Gelu } else { UnaryFn::Relu });
    let bias = Some(dense(d, &[dims.groups, dims.n]));
    GroupedMatmul { bias, activation, ends: dense(DType::U32, &[dims.groups]), ..op }.check().unwrap()
}

/// rows, groups, n, k: one row, no groups, tails, K = 0, whole tiles, large with and without tails.
const DIMS: [[u64; 4]; 9] = [
    [1, 1, 1, 1],
    [5, 0, 7, 3],
    [5, 2, 7, 0],
    [64, 3, 64, 64],
    [67, 100, 66, 65],
    [67, 300, 66, 65],
    [5, 300, 7, 0],
    [4096, 8, 2048, 2048],
    [4095, 7, 2049, 2047],
];

#[test]
fn grouped_products_of_every_dtype_and_layout_validate_on_every_tile() {
    let mut validated = Validated::default();
    for caps in [full_caps(), Caps::webgpu_defaults("test")] {
        for dtype in DType::ALL.into_iter().filter(|&d| Matmul::output_dtype(d).is_some() && caps.require(d).is_ok()) {
            for dims in DIMS {
                for lies in [[dense, dense], [dense, transposed], [transposed, dense]] as [[Lie; 2]; 3] {
                    for op in [product(dtype, dims, lies), with_everything(product(dtype, dims, lies))] {
                        let list = crate::ops::candidates(&op.clone().into(), &caps).unwrap();
                        assert_eq!(crate::ops::plan(&op.into(), &caps).unwrap(), list[0].plan);
                        validated.check(list.iter().flat_map(|candidate| &candidate.plan.launches), &caps);
                    }
                }
            }
        }
    }
    assert!(validated.kernels() > 150, "{} kernels", validated.kernels());
}

#[test]
fn grids_hold_the_tiles_of_the_worst_ends_and_no_more_than_rows() {
    let caps = full_caps();
    for [rows, groups] in [[1, 1], [1, 9], [64, 1], [65, 3], [1000, 1], [1000, 77], [1000, 5000], [4096, 8]] {
        for candidate in
            crate::ops::candidates(&product(DType::F32, [rows, groups, 1, 8], [dense; 2]).into(), &caps).unwrap()
        {
            let height: u64 = candidate.name.rsplit('_').next().unwrap().split('x').next().unwrap().parse().unwrap();
            // The worst: as many groups (and rows of none) as possible leave a tile with one row.
            let partial = (groups + 1).min(rows);
            let worst = partial + (rows - partial) / height;
            // Behind what makes the table, where there is one.
            let tiles = u64::from(candidate.plan.launches.last().unwrap().grid[0]);
            assert!(tiles >= worst && tiles <= rows, "{}: {tiles} for {worst} of {rows}", candidate.name);
        }
    }
}

#[test]
fn rows_that_begin_anywhere_are_not_read_by_quads_along_them() {
    let caps = full_caps();
    let text = |lies: [Lie; 2]| {
        let plan = crate::ops::plan(&product(DType::F32, [64, 2, 64, 64], lies).into(), &caps).unwrap();
        plan.launches[0].kernel.source().wgsl
    };
    assert!(text([dense, dense]).contains("var<storage, read> a: array<vec4<f32>>"));
    assert!(text([transposed, dense]).contains("var<storage, read> a: array<f32>"));
    assert!(text([dense, transposed]).contains("var<storage, read> b: array<vec4<f32>>"));
}

#[test]
fn nothing_to_add_up_reads_no_operands() {
    let caps = full_caps();
    let none = crate::ops::plan(&with_everything(product(DType::F16, [5, 0, 7, 3], [dense; 2])).into(), &caps).unwrap();
    assert_eq!((none.launches.len(), &none.launches[0].bindings[..]), (1, &[Slot::Output(0)][..]));
    let zero = crate::ops::plan(&with_everything(product(DType::F16, [5, 2, 7, 0], [dense; 2])).into(), &caps).unwrap();
    assert_eq!(zero.launches[0].bindings, [Slot::Output(0), Slot::Input(2), Slot::Input(3)]);
}
