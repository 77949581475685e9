//! What the planner of wgmma.sp takes, packs and refuses. No GPU.

use polywarp_core::ops::{Matmul, Part24, TensorSpec};
use polywarp_core::{DType, Layout, Op, Operation, Shape as Extents};

use super::super::candidates;
use super::*;
use crate::{Swizzle, TensorMap};

fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Extents::new(dims).unwrap()))
}

/// A of shape `a` by a row-major B of shape `b`, to `output`.
fn product([dtype, output]: [DType; 2], a: &[u64], b: &[u64]) -> SparseMatmul {
    let part = |part: Part24, dtype| dense(dtype, part.shape_of(&Extents::new(a).unwrap()).unwrap().dims());
    let (values, metadata) = (part(Part24::Values, dtype), part(Part24::Metadata, DType::U32));
    let [batch @ .., k, n] = b else { panic!("no matrix") };
    let output = dense(output, &[batch, &[a[a.len() - 2], *n]].concat());
    let product = Matmul::product(SparseMatmul::dense_a(&values, *k, batch).unwrap(), dense(dtype, b), output);
    SparseMatmul { values, metadata, product }.check().unwrap()
}

fn f16(a: &[u64], b: &[u64]) -> SparseMatmul {
    product([DType::F16; 2], a, b)
}

fn ranked(op: &SparseMatmul) -> Vec<Candidate> {
    let mut found = candidates(&Op::from(op.clone()), &Caps::h200());
    found.sort_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns));
    for candidate in &found {
        assert_eq!(candidate.plan.check(op.inputs().len()), Ok(()), "{}", candidate.name);
    }
    found
}

/// Plain numbers among a launch's arguments.
fn words(launch: &Launch) -> Vec<u32> {
    launch.args.iter().filter_map(|arg| if let Arg::U32(word) = arg { Some(*word) } else { None }).collect()
}

fn maps(launch: &Launch) -> Vec<&TensorMap> {
    launch.args.iter().filter_map(|arg| if let Arg::TensorMap(map) = arg { Some(map) } else { None }).collect()
}

#[test]
fn each_type_and_orientation_has_kernels_behind_one_that_arranges_metadata() {
    for dtype in [DType::F16, DType::BF16] {
        for output in [dtype, DType::F32] {
            let mut op = product([dtype, output], &[4096, 4096], &[4096, 4096]);
            for letters in ["tt", "tn"] {
                let found = ranked(&op);
                let name = &found[0].name;
                assert!(name.starts_with(&format!("gemm_{dtype}_{output}_wgmma_sparse_128x256x64_")), "{name}");
                assert!(found.iter().all(|found| found.name.ends_with(letters)), "{found:?}");
                let symbols: Vec<_> = found[0].plan.launches.iter().map(|launch| &launch.kernel.symbol).collect();
                assert_eq!(symbols, [arranging(2).as_str(), name.as_str()]);
                op.product.b.layout = dense(dtype, &[4096, 4096]).layout.transpose(0, 1).unwrap();
            }
        }
    }
    let refused = |op: &SparseMatmul, caps: &Caps| candidates(&Op::from(op.clone()), caps).is_empty();
    let op = f16(&[512, 512], &[512, 512]);
    assert!(refused(&op, &Caps::a100()) && refused(&op, &Caps { tensor_maps: false, ..Caps::h200() }));
    for dtype in [DType::F32, DType::U8, DType::F8E4M3] {
        let output = Matmul::output_dtype(dtype).unwrap();
        assert!(refused(&product([dtype, output], &[512, 512], &[512, 512]), &Caps::h200()), "{dtype}");
    }
    // The last group of a row may name places that there are not.
    assert!(refused(&f16(&[64, 66], &[66, 64]), &Caps::h200()));
    assert!(refused(&f16(&[64, 0], &[0, 64]), &Caps::h200()));
}

#[test]
fn bytes_have_words_of_their_own_for_each_step() {
    let mut op = product([DType::I8, DType::I32], &[512, 1056], &[1056, 512]);
    let symbols = |op: &SparseMatmul| {
        let found = ranked(op).swap_remove(0);
        found.plan.launches.iter().map(|launch| launch.kernel.symbol.clone()).collect::<Vec<_>>()
    };
    assert_eq!(symbols(&op).len(), 3, "a row-major B is packed");
    op.product.b.layout = dense(DType::I8, &[512, 1056]).layout.transpose(0, 1).unwrap();
    let [arrange, name] = &symbols(&op)[..] else { panic!("{op:?}") };
    assert!(*arrange == arranging(1) && name.starts_with("gemm_i8_i32_wgmma_sparse_"), "{name}");
    let found = ranked(&op).swap_remove(0);
    // Rows, words, slabs, two units a stage of 128 of K, blocks along K.
    assert_eq!(words(&found.plan.launches[0]), [512, 33, 8, 18, 2]);
    let [a, b, _] = maps(&found.plan.launches[1])[..] else { panic!("{found:?}") };
    assert_eq!((a.box_dims[0], b.box_dims[0], a.swizzle), (64, 128, Swizzle::B64));
    // Scales would be a second launch's, which dense kernels need not.
    let scale_a = Some(dense(DType::F32, &[512, 1]));
    let output = dense(DType::F32, &[512, 512]);
    let op = SparseMatmul { product: Matmul { scale_a, output, ..op.product }, ..op }.check().unwrap();
    assert!(ranked(&op).is_empty());
}

#[test]
fn tiles_fit_the_product() {
    let small = &ranked(&f16(&[1024, 1024], &[1024, 1024]))[0].name;
    assert!(small.contains("_64x128x64_"), "{small}");
    // Fewer clocks than the dense product of the same tile, more than half of them.
    let sparse = ranked(&f16(&[8192, 8192], &[8192, 8192]));
    let op = f16(&[8192, 8192], &[8192, 8192]).product;
    let found = candidates(&Op::from(op), &Caps::h200());
    let of = |found: &[Candidate], part: &str| found.iter().find(|c| c.name.contains(part)).unwrap().estimate_ns;
    let share = of(&sparse, "128x256x64_2x1_tt") / of(&found, "128x256x64_2x1_tt");
    assert!((0.5..1.0).contains(&share), "{share}");
}

#[test]
fn maps_describe_values_and_b_as_kernels_load_them() {
    let op = f16(&[300, 256], &[256, 512]);
    for found in ranked(&op) {
        let [arrange, product] = &found.plan.launches[..] else { panic!("{found:?}") };
        let [a, b, d] = maps(product)[..] else { panic!("{found:?}") };
        assert_eq!((a.slot, a.dims[..2].to_vec(), a.swizzle), (Slot::Input(0), vec![128, 300], Swizzle::B64));
        assert_eq!((a.box_dims[0], b.box_dims[0], b.slot), (32, 64, Slot::Input(2)));
        assert_eq!((b.swizzle, d.slot), (Swizzle::B128, Slot::Output(0)));
        // Rows, words, slabs (two pieces of 256 rows), units, blocks along K.
        assert_eq!(words(arrange), [300, 8, 8, 4, 1]);
        assert_eq!((arrange.grid[0], found.plan.scratch_bytes.as_slice()), (8, &[4 * 8 * SLAB_BYTES][..]));
        assert_eq!(
            product.args[product.args.len() - 2..],
            [Arg::Address { slot: Slot::Scratch(0), offset_bytes: 0 }, Arg::U32(8)]
        );
    }
}

#[test]
fn what_tensor_maps_do_not_take_is_packed() {
    let launches = |op: &SparseMatmul| ranked(op)[0].plan.launches.len();
    // 20 values are 40 bytes; rows of B 128.
    let mut op = f16(&[64, 40], &[40, 64]);
    assert_eq!(launches(&op), 3);
    op = f16(&[64, 64], &[64, 64]);
    assert_eq!(launches(&op), 2);
    op.product.b.layout = op.product.b.layout.with_offset(1);
    assert_eq!(launches(&op), 3);
    op.values.layout = op.values.layout.with_offset(4);
    let found = ranked(&op).swap_remove(0);
    assert_eq!((found.plan.launches.len(), found.plan.scratch_bytes.len()), (3, 3));
    // Metadata come to the third buffer, and are read there.
    let last = found.plan.launches.last().unwrap();
    assert_eq!(last.args[last.args.len() - 2], Arg::Address { slot: Slot::Scratch(2), offset_bytes: 0 });
}

#[test]
fn batches_and_addends_are_found() {
    let op = f16(&[3, 64, 96], &[3, 96, 32]);
    let found = ranked(&op).swap_remove(0);
    assert_eq!(found.plan.scratch_bytes, [3 * 2 * 4 * SLAB_BYTES]);
    // batched_a, batched_b after the raster and what belongs to it, in front of how D is stored.
    assert_eq!(found.plan.launches[1].args[17..19], [Arg::U32(1), Arg::U32(1)]);
    let found = ranked(&f16(&[64, 96], &[3, 96, 32])).swap_remove(0);
    assert_eq!((found.plan.scratch_bytes[0], &found.plan.launches[1].args[17]), (2 * 4 * SLAB_BYTES, &Arg::U32(0)));
    assert!(ranked(&f16(&[2, 1, 64, 96], &[2, 3, 96, 32])).is_empty(), "two strides are none");
    // C and bias stand behind values, metadata and B.
    let (c, bias) = (Some(dense(DType::F16, &[64, 32])), Some(dense(DType::F16, &[32])));
    let op = f16(&[64, 96], &[96, 32]);
    let op = SparseMatmul { product: Matmul { c, bias, beta: 1.0, ..op.product }, ..op }.check().unwrap();
    let found = ranked(&op).swap_remove(0);
    let inputs = found.plan.launches[1].args.iter().filter_map(|arg| match arg {
        Arg::Address { slot: Slot::Input(at), .. } => Some(*at),
        _ => None,
    });
    assert_eq!(inputs.collect::<Vec<_>>(), [3, 4]);
}
