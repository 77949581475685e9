//! What the planner of wgmma takes, packs, splits and refuses. No GPU.

use polywarp_core::ops::TensorSpec;
use polywarp_core::{Layout, Precision, Shape as Extents};

use super::*;

fn layout(dims: &[u64], strides: &[i64], offset: u64) -> Layout {
    Layout::strided(Extents::new(dims).unwrap(), strides, offset).unwrap()
}

fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Extents::new(dims).unwrap()))
}

fn product(dtype: DType, [m, n, k]: [u64; 3]) -> Matmul {
    let output = Matmul::output_dtype(dtype).unwrap();
    Matmul::product(dense(dtype, &[m, k]), dense(dtype, &[k, n]), dense(output, &[m, n])).check().unwrap()
}

fn ranked(op: &Matmul) -> Vec<Candidate> {
    let mut found = candidates(&Op::from(op.clone()), &Caps::h200());
    found.sort_by(|a, b| a.estimate_ns.total_cmp(&b.estimate_ns));
    found
}

fn first(op: &Matmul) -> Candidate {
    ranked(op).swap_remove(0)
}

#[test]
fn tiles_fit_the_product() {
    let large = first(&product(DType::F16, [4096, 4096, 4096])).name;
    assert!(large.contains("_128x256x64_") || large.contains("_128x128x64_"), "{large}");
    // One wave of small tiles on 132 multiprocessors.
    let small = first(&product(DType::BF16, [1024, 1024, 1024])).name;
    assert!(small.contains("_64x128x64_") || small.contains("_128x64x64_"), "{small}");
    let grid = first(&product(DType::F16, [8192, 8192, 8192])).plan.launches[0].grid;
    assert_eq!(grid, [132, 1, 1]);
}

/// Long products draw the card's power, so that the tile which needs fewer rows per output is first, unless a round of others fits.
#[test]
fn long_products_are_given_to_the_tile_that_draws_less_power() {
    for dtype in [DType::F16, DType::BF16] {
        for dims in [[4096, 4096, 14336], [4096, 14336, 4096]] {
            let found = first(&product(dtype, dims)).name;
            assert!(found.contains("_128x256x64_"), "{dims:?}: {found}");
        }
        let rounds = first(&product(dtype, [8192, 1280, 8192])).name;
        assert!(rounds.contains("_128x128x64_"), "{rounds}");
    }
}

#[test]
fn operands_are_taken_as_they_lie_or_packed() {
    let mut op = product(DType::F16, [256, 512, 128]);
    for (a, b, letters) in
        [([128, 1], [512, 1], "tt"), ([128, 1], [1, 128], "tn"), ([1, 256], [512, 1], "nt"), ([1, 256], [1, 128], "nn")]
    {
        op.a.layout = layout(&[256, 128], &a, 8);
        op.b.layout = layout(&[128, 512], &b, 0);
        let found = first(&op);
        assert!(found.name.ends_with(letters), "{} is not {letters}", found.name);
        assert_eq!((found.plan.launches.len(), found.plan.scratch_bytes.len()), (1, 0));
    }
    // An odd offset, an odd pitch, a stride along k, a reversed axis: packed, K-major.
    for a in [
        layout(&[256, 128], &[128, 1], 1),
        layout(&[256, 128], &[129, 1], 0),
        layout(&[256, 128], &[256, 2], 0),
        layout(&[256, 128], &[-128, 1], 255 * 128),
    ] {
        op.a.layout = a;
        let found = first(&op);
        assert_eq!((found.plan.launches.len(), found.plan.scratch_bytes.len()), (2, 1), "{}", found.name);
        assert!(found.name.ends_with("tn"));
    }
    // 8-bit operands must be K-major: a dense B is packed.
    assert_eq!(first(&product(DType::I8, [256, 256, 256])).plan.launches.len(), 2);
}

#[test]
fn precision_decides_whether_and_how_f32_runs() {
    let mut op = product(DType::F32, [2048, 2048, 2048]);
    assert!(ranked(&op).is_empty(), "Highest is not for tensor cores");
    op.precision = Precision::Medium;
    let found = first(&op);
    assert!(found.name.contains("_transposed_"), "{} packs B", found.name);
    assert_eq!(found.plan.launches.len(), 1, "both operands are rounded by their tensor maps");
    op.precision = Precision::High;
    let found = first(&op);
    assert_eq!(found.plan.launches.len(), 3, "both operands are split");
    // m, n, k, tiles_m, tiles_n, batches, slabs, slab_tiles after three maps and an address: 3 terms of 32 tiles.
    assert_eq!(found.plan.launches[2].args[11], Arg::U32(96));
}

#[test]
fn long_k_with_few_tiles_is_cut_into_slabs() {
    let found = first(&product(DType::F16, [64, 64, 65_536]));
    assert!(found.name.contains("_slabs"), "{}", found.name);
    assert_eq!(found.plan.launches.len(), 2);
    assert!(ranked(&product(DType::F16, [4096, 4096, 4096])).iter().all(|c| !c.name.contains("_slabs")));
}

#[test]
fn batches_have_one_stride_and_broadcast_costs_nothing() {
    let mut op = Matmul::product(
        dense(DType::F16, &[6, 64, 128]),
        TensorSpec::new(DType::F16, layout(&[6, 128, 64], &[0, 64, 1], 0)),
        dense(DType::F16, &[6, 64, 64]),
    );
    let found = first(&op);
    // batched_a, batched_b after the raster and what belongs to it.
    assert_eq!(found.plan.launches[0].args[17..19], [Arg::U32(1), Arg::U32(0)]);
    op.a.layout = layout(&[2, 3, 64, 128], &[0, 8192, 128, 1], 0);
    op.b = dense(DType::F16, &[2, 3, 128, 64]);
    op.output = dense(DType::F16, &[2, 3, 64, 64]);
    assert!(ranked(&op).is_empty(), "two batch strides are left to others");
}

#[test]
fn other_cards_and_empty_products_have_no_candidates() {
    let op = Op::from(product(DType::F16, [512, 512, 512]));
    assert!(candidates(&op, &Caps::a100()).is_empty());
    assert!(candidates(&op, &Caps { tensor_maps: false, ..Caps::h200() }).is_empty());
    assert!(candidates(&Op::from(product(DType::F16, [0, 512, 512])), &Caps::h200()).is_empty());
    assert!(candidates(&Op::from(product(DType::F16, [512, 512, 0])), &Caps::h200()).is_empty());
}

/// Operands of `dtype`, B K-major, with scales per row of A and one for all of B.
fn quantised(dtype: DType, output: DType, [m, n, k]: [u64; 3]) -> Matmul {
    let b = TensorSpec::new(dtype, layout(&[k, n], &[1, k as i64], 0));
    let one = TensorSpec::new(DType::F32, layout(&[1, n], &[0, 0], 3));
    let op = Matmul::product(dense(dtype, &[m, k]), b, dense(output, &[m, n]));
    Matmul { scale_a: Some(dense(DType::F32, &[m, 1])), scale_b: Some(one), ..op }.check().unwrap()
}

#[test]
fn scales_are_arguments_of_the_product() {
    let at = |input, offset_bytes| Arg::Address { slot: Slot::Input(input), offset_bytes };
    for (dtype, symbol) in [(DType::I8, "gemm_i8_"), (DType::F8E4M3, "gemm_f8e4m3_"), (DType::F8E5M2, "gemm_f8e5m2_")] {
        for output in [DType::F32, DType::F16, DType::BF16] {
            let found = first(&quantised(dtype, output, [512, 512, 512]));
            assert!(found.name.starts_with(&format!("{symbol}{output}_wgmma_")), "{}", found.name);
            let [launch] = &found.plan.launches[..] else { panic!("{:?}", found.plan.launches) };
            let scales = [at(2, 0), Arg::I64(1), Arg::I64(0), at(3, 12), Arg::I64(0), Arg::I64(0)];
            assert_eq!(launch.args[launch.args.len() - 6..], scales, "{}", found.name);
        }
    }
    // Without scales, too, sums of integers leave as floats; with a bias, scales are further inputs.
    let op = quantised(DType::I8, DType::F16, [512, 512, 512]);
    let bare = Matmul { scale_a: None, scale_b: None, ..op.clone() };
    assert_eq!(first(&bare).plan.launches[0].args.iter().filter(|arg| **arg == Arg::Null).count(), 4);
    let biased = Matmul { bias: Some(dense(DType::F16, &[512])), ..op };
    let args = &first(&biased).plan.launches[0].args;
    assert_eq!([&args[args.len() - 8], &args[args.len() - 6]], [&at(2, 0), &at(3, 0)]);
}

#[test]
fn scales_of_a_batch_have_one_stride() {
    let batched = |scale: TensorSpec| {
        let b = TensorSpec::new(DType::I8, layout(&[2, 3, 64, 32], &[6144, 2048, 1, 64], 0));
        let op = Matmul::product(dense(DType::I8, &[2, 3, 16, 64]), b, dense(DType::F32, &[2, 3, 16, 32]));
        ranked(&Matmul { scale_a: Some(scale), ..op }.check().unwrap())
    };
    let found = batched(dense(DType::F32, &[2, 3, 16, 1])).swap_remove(0);
    let args = &found.plan.launches[0].args;
    assert_eq!(args[args.len() - 5..args.len() - 3], [Arg::I64(1), Arg::I64(16)]);
    assert!(batched(TensorSpec::new(DType::F32, layout(&[2, 3, 16, 1], &[0, 16, 1, 1], 0))).is_empty());
}

#[test]
fn types_without_scales_of_their_own_end_in_a_second_launch() {
    let found = first(&quantised(DType::U8, DType::BF16, [512, 512, 512]));
    assert!(found.name.starts_with("gemm_u8_i32_wgmma_") && found.name.ends_with("_slabs1"), "{}", found.name);
    let symbols: Vec<&str> = found.plan.launches.iter().map(|launch| launch.kernel.symbol.as_str()).collect();
    assert_eq!(symbols[1..], ["splitk_scaled_i32_bf16"]);
    // So do slabs of K, whose sums have no scales.
    let slabs = ranked(&quantised(DType::I8, DType::F16, [64, 64, 65_536]));
    let slabs = slabs.iter().find(|found| found.name.contains("_slabs")).unwrap();
    assert_eq!(slabs.plan.launches[1].kernel.symbol, "splitk_scaled_i32_f16");
}

#[test]
fn activation_counts_where_nothing_hides_it() {
    let op = product(DType::F16, [4096, 4096, 4096]);
    let gelu = Matmul { activation: Some(polywarp_core::UnaryFn::Gelu), ..op.clone() };
    let longer = |part: &str| {
        let of = |op: &Matmul| ranked(op).into_iter().find(|found| found.name.contains(part)).unwrap().estimate_ns;
        of(&gelu) - of(&op)
    };
    let (cooperative, ping_pong) = (longer("128x256x64_1x1_tt"), longer("128x128x64_1x1_pingpong_tt"));
    assert!(ping_pong > 0.0 && cooperative > 4.0 * ping_pong, "{cooperative} {ping_pong}");
}

/// As `divided` of the source does it.
#[test]
fn numbers_are_divided_by_their_inverses() {
    let divided = |x: u32, divisor: u32| {
        let quotient = ((u64::from(x) * u64::from(inverse(divisor.into()))) >> 32) as u32;
        quotient + u32::from(x - quotient * divisor >= divisor)
    };
    let most = i32::MAX as u32;
    let divisors = (1..70).chain([127, 128, 1000, 4096, 65_535, 65_537, 1 << 20, (1 << 30) - 1, 1 << 30, most]);
    for divisor in divisors {
        let edges = [0, 1, most / divisor, most / divisor / 2].map(|times| times * divisor);
        let near = edges.into_iter().flat_map(|x| [x.saturating_sub(1), x, x + 1]).chain([most - 1, most]);
        for x in near.chain((0..1000).map(|i| (i * 2_147_483) & most)) {
            assert_eq!(divided(x, divisor), x / divisor, "{x} / {divisor}");
        }
    }
}

#[test]
fn inverses_are_those_of_clusters() {
    // 4100 rows are 33 tiles of 128, 17 clusters of two; bands of 6 clusters; 16 columns of 256.
    let op = product(DType::F16, [4100, 4096, 4096]);
    let wide = ranked(&op).into_iter().find(|found| found.name.contains("_128x256x64_2x1")).unwrap();
    let args = &wide.plan.launches[0].args[12..17];
    assert_eq!(args[0], Arg::U32(6));
    assert_eq!(args[1..], [17 * 16, 6 * 16, 6, 5].map(|divisor| Arg::U32(inverse(divisor))));
}

#[test]
fn the_cache_is_told_to_keep_operands_of_many_small_products_with_large_results() {
    let keeps = |dtype, batch, [m, n, k]: [u64; 3]| {
        let flag = |candidate: &Candidate| {
            let launch =
                candidate.plan.launches.iter().find(|launch| launch.kernel.symbol.contains("_wgmma_")).unwrap();
            launch.args[20].clone()
        };
        let output = Matmul::output_dtype(dtype).unwrap();
        let [a, b, d] = [(dtype, [m, k]), (dtype, [k, n]), (output, [m, n])];
        let [a, b, d] = [a, b, d].map(|(dtype, [rows, columns])| dense(dtype, &[batch, rows, columns]));
        let op = Matmul::product(a, b, d).check().unwrap();
        let mut flags: Vec<_> = ranked(&op).iter().filter(|c| !c.name.contains("transposed")).map(flag).collect();
        flags.dedup();
        flags
    };
    let [yes, no] = [1, 0].map(|flag| vec![Arg::U32(flag)]);
    assert_eq!(keeps(DType::I8, 256, [512; 3]), yes);
    assert_eq!([keeps(DType::I8, 256, [512, 512, 1024]), keeps(DType::I8, 256, [512, 512, 1040])], [yes, no.clone()]);
    // One product, results that fit the cache, and such as are less than operands.
    assert_eq!([keeps(DType::I8, 1, [8192, 8192, 64]), keeps(DType::I8, 32, [512; 3])], [no.clone(), no.clone()]);
    assert_eq!(keeps(DType::F16, 256, [512; 3]), no);
}

#[test]
fn blocks_walk_along_rows_of_a_d_that_is_most_of_what_moves() {
    let raster = |candidate: &Candidate| match candidate.plan.launches.last().unwrap().args[12] {
        Arg::U32(rows) => rows,
        ref other => panic!("{other:?}"),
    };
    let rows = |dtype, extents| {
        let with = |candidate: &Candidate| (candidate.name.clone(), raster(candidate));
        ranked(&product(dtype, extents)).iter().map(with).collect::<Vec<_>>()
    };
    let flat = rows(DType::F16, [8192, 8192, 64]);
    assert!(!flat.is_empty() && flat.iter().all(|(name, rows)| *rows == 1 || name.contains("transposed")), "{flat:?}");
    let deep = rows(DType::F16, [4096, 4096, 4096]);
    assert!(deep.iter().all(|(_, rows)| (2..=RASTER_ROWS).contains(rows)), "{deep:?}");
    // Of D^T they walk along its columns: all rows of tiles of 128 or 64 are one band.
    let op = Matmul { precision: Precision::Medium, ..product(DType::F32, [8192, 8192, 64]) };
    let turned = transposed::products(&op, &Caps::h200()).unwrap();
    assert!(!turned.is_empty());
    for candidate in &turned {
        assert!([16, 32, 64, 128].contains(&raster(candidate)), "{}: {}", candidate.name, raster(candidate));
    }
}
