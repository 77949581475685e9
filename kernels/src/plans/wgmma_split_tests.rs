//! Which f32 products are split into parts of f16, and what their kernels are handed. No GPU.

use polywarp_core::{Layout, Op, Operation, Shape as Extents, TensorSpec};

use super::super::candidates;
use super::*;
use crate::{Arg, Slot};

fn spec(dims: &[u64], strides: &[i64], offset: u64) -> TensorSpec {
    TensorSpec::new(DType::F32, Layout::strided(Extents::new(dims).unwrap(), strides, offset).unwrap())
}

fn high(a: TensorSpec, b: TensorSpec, dims: &[u64]) -> Matmul {
    let output = TensorSpec::new(DType::F32, Layout::contiguous(Extents::new(dims).unwrap()));
    Matmul { precision: Precision::High, ..Matmul::product(a, b, output) }.check().unwrap()
}

/// A of 512 x 256 with these strides times a B of 256 x 384 with these.
fn product(a: [i64; 2], b: [i64; 2]) -> Matmul {
    high(spec(&[512, 256], &a, 0), spec(&[256, 384], &b, 0), &[512, 384])
}

fn split_up(op: &Matmul) -> Vec<Candidate> {
    let mut found = candidates(&Op::from(op.clone()), &Caps::h200());
    found.retain(|candidate| candidate.name.contains("_split_"));
    for candidate in &found {
        assert_eq!(candidate.plan.check(op.inputs().len()), Ok(()), "{}", candidate.name);
    }
    found
}

#[test]
fn only_high_splits() {
    let op = product([256, 1], [384, 1]);
    assert!(!split_up(&op).is_empty());
    for precision in [Precision::Highest, Precision::Medium, Precision::Low] {
        assert!(split_up(&Matmul { precision, ..op.clone() }).is_empty(), "{precision:?}");
    }
}

#[test]
fn parts_lie_as_the_operands_do() {
    // Of A along k, along m, along neither, with an odd pitch; B likewise.
    for (a, letter_a) in [([256, 1], 't'), ([1, 512], 'n'), ([512, 2], 't'), ([257, 1], 't')] {
        for (b, letter_b) in [([384, 1], 't'), ([1, 256], 'n'), ([768, 2], 'n'), ([1, 261], 'n')] {
            let found = split_up(&product(a, b));
            let letters = format!("_{letter_a}{letter_b}");
            assert!(
                !found.is_empty() && found.iter().all(|c| c.name.split("_slabs").next().unwrap().ends_with(&letters))
            );
        }
    }
}

#[test]
fn one_row_or_column_is_one_line_whatever_its_stride() {
    let k = 1u64 << 20;
    for step in [1, 2] {
        let row = high(spec(&[1, k], &[1, step], 0), spec(&[k, 64], &[64, 1], 0), &[1, 64]);
        let column = high(spec(&[64, k], &[k as i64, 1], 0), spec(&[k, 1], &[step, 1], 0), &[64, 1]);
        for (op, thin, majors) in [(row, 0, "_tt"), (column, 1, "_tn")] {
            let found = split_up(&op);
            assert!(!found.is_empty(), "{step}");
            for candidate in found {
                // Two planes of 16 bits.
                assert_eq!(candidate.plan.scratch_bytes[thin], 2 * 2 * k, "{} {step}", candidate.name);
                assert!(candidate.name.split("_slabs").next().unwrap().ends_with(majors), "{}", candidate.name);
            }
        }
    }
}

#[test]
fn both_operands_are_split_by_two_launches_and_the_product_takes_three_terms() {
    // A along k with lines of 256, B along n with lines of 384.
    let found = split_up(&product([256, 1], [384, 1]));
    let whole = found.iter().find(|candidate| candidate.name.ends_with("split_64x64x64_1x1_tt")).unwrap();
    let [maxima, parts, product] = &whole.plan.launches[..] else { panic!("{:?}", whole.plan.launches) };
    let bytes = |lines: u64, pitch: u64| 2 * 2 * lines * pitch;
    assert_eq!(whole.plan.scratch_bytes[..2], [bytes(512, 256), bytes(256, 384)]);
    assert_eq!((maxima.grid[1..].to_vec(), parts.grid[1..].to_vec()), (vec![2, 1], vec![2, 1]));
    // Every block leaves one maximum of each operand.
    assert_eq!(whole.plan.scratch_bytes[2..], [2 * u64::from(maxima.grid[0]) * 4, 8]);
    assert_eq!(parts.args[15], Arg::U32(maxima.grid[0]));
    let Arg::TensorMap(a) = &product.args[0] else { panic!("{:?}", product.args) };
    // Two planes, one after the other.
    assert_eq!((&a.dims[..], a.element, a.slot), (&[256, 512, 2][..], Element::F16, Slot::Scratch(0)));
    // Three terms of four tiles.
    assert_eq!(product.args[11], Arg::U32(12));
    assert_eq!(product.args.last(), Some(&Arg::Address { slot: Slot::Scratch(3), offset_bytes: 0 }));
}

#[test]
fn one_matrix_serves_a_batch_and_large_batches_are_refused() {
    let op = |batch: u64| {
        high(spec(&[batch, 64, 128], &[0, 128, 1], 0), spec(&[batch, 128, 64], &[8192, 64, 1], 0), &[batch, 64, 64])
    };
    let found = &split_up(&op(6))[0];
    // batches of A and of B.
    assert_eq!((&found.plan.launches[0].args[5], &found.plan.launches[0].args[12]), (&Arg::U32(1), &Arg::U32(6)));
    assert_eq!(found.plan.scratch_bytes[3], 6 * 8);
    assert!(split_up(&op(65_536)).is_empty());
}
