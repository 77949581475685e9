//! Which products are transposed, and what their kernels are handed. No GPU.

use polywarp_core::{Layout, Op, Operation, Shape as Extents, TensorSpec};

use super::super::candidates;
use super::*;
use crate::{Arg, Element};

fn spec(dims: &[u64], strides: &[i64], offset: u64) -> TensorSpec {
    TensorSpec::new(DType::F32, Layout::strided(Extents::new(dims).unwrap(), strides, offset).unwrap())
}

/// A of 512 x 256 with these strides times a B of 256 x 384 with these.
fn product(a: [i64; 2], b: [i64; 2]) -> Matmul {
    let op = Matmul::product(spec(&[512, 256], &a, 0), spec(&[256, 384], &b, 0), spec(&[512, 384], &[384, 1], 0));
    Matmul { precision: Precision::Medium, ..op }
}

fn transposed(op: &Matmul) -> Vec<Candidate> {
    let mut found = candidates(&Op::from(op.clone()), &Caps::h200());
    found.retain(|candidate| candidate.name.contains("_transposed_"));
    for candidate in &found {
        assert_eq!(candidate.plan.check(op.inputs().len()), Ok(()), "{}", candidate.name);
    }
    found
}

#[test]
fn b_along_n_is_taken_as_it_lies() {
    let found = transposed(&product([256, 1], [384, 1]));
    let whole = found.iter().find(|candidate| candidate.name.ends_with("_128x256x32_1x1_nn")).unwrap();
    let [launch] = &whole.plan.launches[..] else { panic!("{:?}", whole.plan.launches) };
    let [Arg::TensorMap(b), Arg::TensorMap(a)] = &launch.args[..2] else { panic!("{:?}", launch.args) };
    assert_eq!((&b.dims[..], &b.box_dims[..], b.element), (&[384, 256, 1][..], &[32, 32, 1][..], Element::Tf32));
    assert_eq!((&a.dims[..], &a.box_dims[..]), (&[256, 512, 1][..], &[32, 256, 1][..]));
    // Rows are those of D^T, tiles too; from row to row of it is one element, from column to column a row of D.
    assert_eq!(launch.args[4..9], [384, 512, 256, 3, 2].map(Arg::U32));
    assert_eq!(launch.args[21..24], [1, 384, 512 * 384].map(Arg::I64));
}

#[test]
fn a_is_packed_where_it_does_not_lie_along_k() {
    for candidate in transposed(&product([1, 512], [384, 1])) {
        assert!(candidate.plan.launches.len() >= 2, "{}", candidate.name);
        assert_eq!(candidate.plan.launches[0].args[0], Arg::Address { slot: crate::Slot::Input(0), offset_bytes: 0 });
    }
}

/// The same product of 16-bit operands, with `n` columns of which B has `pitch` in a row.
fn of_16_bits(n: u64, pitch: i64) -> Matmul {
    let spec = |dims: &[u64], strides: &[i64]| {
        TensorSpec::new(DType::F16, Layout::strided(Extents::new(dims).unwrap(), strides, 0).unwrap())
    };
    Matmul::product(spec(&[1000, 256], &[256, 1]), spec(&[256, n], &[pitch, 1]), spec(&[1000, n], &[n as i64, 1]))
}

#[test]
fn operands_of_16_bits_have_a_tile_of_144_rows_that_four_blocks_share() {
    let [candidate] = &transposed(&of_16_bits(1000, 1000))[..] else { panic!("one tile") };
    let [launch] = &candidate.plan.launches[..] else { panic!("{:?}", candidate.plan.launches) };
    let [Arg::TensorMap(b), Arg::TensorMap(a), Arg::TensorMap(d)] = &launch.args[..3] else {
        panic!("{:?}", launch.args)
    };
    assert_eq!((&b.dims[..], &b.box_dims[..]), (&[1000, 256, 1][..], &[64, 64, 1][..]));
    assert_eq!((&a.dims[..], &a.box_dims[..]), (&[256, 1000, 1][..], &[64, 36, 1][..]));
    // D as it lies, 64 columns of a whole tile at a time.
    assert_eq!((&d.dims[..], &d.box_dims[..]), (&[1000, 1000, 1][..], &[64, 144, 1][..]));
    assert_eq!(launch.args[4..9], [1000, 1000, 256, 16, 7].map(Arg::U32));
    assert_eq!((launch.grid, &launch.args[21..24]), ([112, 1, 1], &[1, 1000, 1_000_000].map(Arg::I64)[..]));
}

#[test]
fn operands_of_16_bits_whose_store_would_be_slow_are_left_to_others() {
    // Rows of D off the 16-byte grid; an A along M.
    assert!(transposed(&of_16_bits(1001, 1008)).is_empty());
    let mut along_m = of_16_bits(1000, 1000);
    along_m.a.layout = Layout::strided(Extents::new(&[1000, 256]).unwrap(), &[1, 1000], 0).unwrap();
    assert!(transposed(&along_m).is_empty());
}

#[test]
fn all_else_is_left_to_others() {
    // B along k; along neither; at other precisions, of which `Highest` has no candidate at all.
    assert!(transposed(&product([256, 1], [1, 256])).is_empty());
    assert!(transposed(&product([256, 1], [768, 2])).is_empty());
    for precision in [Precision::High, Precision::Highest] {
        assert!(transposed(&Matmul { precision, ..product([256, 1], [384, 1]) }).is_empty());
    }
    assert!(!transposed(&Matmul { precision: Precision::Low, ..product([256, 1], [384, 1]) }).is_empty());
}

#[test]
fn long_k_with_few_tiles_is_cut_into_slabs() {
    let long = Matmul::product(
        spec(&[64, 65_536], &[65_536, 1], 0),
        spec(&[65_536, 64], &[64, 1], 0),
        spec(&[64, 64], &[64, 1], 0),
    );
    let found = transposed(&Matmul { precision: Precision::Medium, ..long });
    assert!(found.iter().any(|candidate| candidate.name.contains("_64x64x32_1x1x8_nn_slabs")));
}
