//! Which kernels attention and its gradient get, without a GPU.

use polywarp_core::harness::Level;
use polywarp_core::ops::{AttentionDropout, LseGradient, REGISTRY};
use polywarp_core::{Layout, Shape};

use super::*;

fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
}

/// [batch, rows, heads, size], queries and keys alike.
fn op(dtype: DType, batch: u64, rows: u64, [heads, groups]: [u64; 2], size: u64) -> Attention {
    let of = |heads| dense(dtype, &[batch, rows, heads, size]);
    Attention::new(of(heads), of(groups), of(groups)).unwrap()
}

fn names(op: impl Into<Op>) -> Vec<String> {
    candidates(&op.into(), &Caps::h200()).into_iter().map(|found| found.name).collect()
}

fn gradient(op: Attention) -> AttentionGradient {
    AttentionGradient::new(op, LseGradient::Absent).unwrap()
}

#[test]
fn heads_get_the_shortest_tiles_that_hold_them() {
    for (size, columns) in [(8, 64), (64, 64), (72, 128), (128, 128), (136, 256), (256, 256)] {
        let found = names(op(DType::F16, 2, 512, [4, 4], size));
        assert!(!found.is_empty() && found.iter().all(|name| name.contains(&format!("_d{columns}_"))), "{found:?}");
    }
    // Rows of 16 bytes; of the gradient heads up to 128.
    assert!(names(op(DType::F16, 2, 512, [4, 4], 60)).is_empty());
    assert!(names(op(DType::F32, 2, 512, [4, 4], 64)).is_empty());
    assert!(names(gradient(op(DType::BF16, 2, 512, [4, 4], 136))).is_empty());
    assert_eq!(names(gradient(op(DType::BF16, 2, 512, [4, 2], 128))).len(), 1);
}

#[test]
fn short_gradients_are_one_launch_and_others_three() {
    let launches = |op: Attention| {
        let found = candidates(&gradient(op).into(), &Caps::h200());
        found.iter().map(|found| found.plan.launches.len()).collect::<Vec<_>>()
    };
    assert_eq!(launches(op(DType::F16, 32, 128, [12, 12], 64)), [1, 3]);
    assert_eq!(launches(op(DType::F16, 32, 129, [12, 12], 64)), [3]);
    assert_eq!(launches(op(DType::F16, 32, 128, [12, 4], 64)), [3]);
    assert_eq!(launches(op(DType::F16, 32, 128, [12, 4], 128)), [3]);
    // The one is thought to be quicker.
    let found = candidates(&gradient(op(DType::F16, 32, 128, [12, 12], 64)).into(), &Caps::h200());
    assert!(found[0].estimate_ns < found[1].estimate_ns);
}

/// Candidates of a gradient on a card of so many multiprocessors.
fn with(multiprocessors: u32, op: &Attention) -> Vec<Candidate> {
    candidates(&gradient(op.clone()).into(), &Caps { multiprocessors, ..Caps::h200() })
}

fn one_pass(multiprocessors: u32, op: &Attention) -> Option<Candidate> {
    with(multiprocessors, op).into_iter().find(|found| found.name.contains("_one_pass_"))
}

#[test]
fn one_pass_takes_long_heads_whose_blocks_of_keys_fit_on_the_card() {
    let plain = op(DType::F16, 2, 512, [4, 4], 128);
    assert!(one_pass(132, &plain).is_some() && one_pass(132, &op(DType::BF16, 1, 200, [2, 2], 72)).is_some());
    let causal = Attention { causal: true, ..plain.clone() };
    let mask = Attention { mask: Some(dense(DType::Bool, &[2, 4, 512, 512])), ..plain.clone() };
    let dropout = AttentionDropout { rate: 0.1, key: [dense(DType::U32, &[2]); 2] };
    let dropout = Attention { dropout: Some(dropout), ..plain.clone() };
    for other in [causal, mask, dropout, op(DType::F16, 2, 512, [4, 2], 128), op(DType::F16, 2, 512, [4, 4], 64)] {
        let other = other.check().unwrap();
        assert!(one_pass(132, &other).is_none() && !with(132, &other).is_empty(), "{other:?}");
    }
    // A head's blocks of keys wait for each other: each has a multiprocessor.
    assert!(one_pass(132, &op(DType::F16, 1, 132 * 128, [1, 1], 128)).is_some());
    assert!(one_pass(132, &op(DType::F16, 1, 132 * 128 + 1, [1, 1], 128)).is_none());
    assert!(one_pass(16, &op(DType::F16, 1, 2048, [1, 1], 128)).is_some());
    assert!(one_pass(16, &op(DType::F16, 1, 2049, [1, 1], 128)).is_none());
    // What has two runs blocks one after the other: the tests' driver.
    assert!(one_pass(2, &op(DType::F16, 1, 128, [1, 1], 128)).is_none());
}

#[test]
fn one_pass_has_a_block_for_each_block_of_keys_of_as_many_heads_as_fit() {
    let found = one_pass(132, &op(DType::F16, 4, 4000, [16, 16], 128)).unwrap();
    let kernels: Vec<&str> = found.plan.launches.iter().map(|launch| launch.kernel.symbol.as_str()).collect();
    let expected =
        ["attention_f16_statistics_d128", "attention_f16_one_pass_d128_64x128", "attention_f16_one_pass_rounded_d128"];
    assert_eq!(kernels, expected);
    let cooperative: Vec<bool> = found.plan.launches.iter().map(|launch| launch.kernel.cooperative).collect();
    assert_eq!(cooperative, [false, true, false]);
    // 32 blocks of keys, 63 of queries, 64 heads of which four run at a time.
    let [_, one, rounded] = &found.plan.launches[..] else { panic!("three launches") };
    assert_eq!((one.grid, rounded.grid), ([128, 1, 1], [63 * 64, 1, 1]));
    assert!(one.args.windows(3).any(|args| args == [32, 4, 63].map(Arg::U32)));
    // Statistics of 4096 padded queries; sums of 64 x 128, and a counter, for each block of queries.
    assert_eq!(found.plan.scratch_bytes, [64 * 4096 * 8, 64 * 63 * 64 * 128 * 4, 64 * 63 * 4]);
    assert_eq!(found.plan.launches[0].args.last(), Some(&scratch(2)), "cleared by the first");
    for launch in &found.plan.launches {
        assert!(launch.args.len() == launch.kernel.params.len());
    }
    found.plan.check(6).unwrap();
    // Fewer heads than fit.
    assert_eq!(one_pass(132, &op(DType::F16, 1, 200, [3, 3], 128)).unwrap().plan.launches[1].grid, [6, 1, 1]);
}

/// As measured (benches/results/h100-2026-11-28c/attention-one.txt): 0.82, 0.87 and 0.86 of the three kernels' time.
#[test]
fn one_pass_is_thought_to_be_quicker_where_it_is() {
    for (batch, rows, measured) in [(4, 4096, 0.82), (16, 1024, 0.87), (1, 16384, 0.86)] {
        let op = op(DType::F16, batch, rows, [16, 16], 128);
        let three = with(132, &op).iter().map(|found| found.estimate_ns).fold(0.0, f64::max);
        let ratio = one_pass(132, &op).unwrap().estimate_ns / three;
        assert!((ratio - measured).abs() < 0.1, "{rows}: {ratio}");
    }
    // One head at a time on 67 of 132 multiprocessors.
    let found = with(132, &op(DType::F16, 1, 67 * 128, [16, 16], 128));
    assert!(found[0].name.ends_with("_dkdv") && found[0].estimate_ns < found[1].estimate_ns);
}

#[test]
fn views_of_a_packed_projection_are_taken_as_they_lie() {
    let (batch, rows, heads, size) = (4, 128, 12, 64);
    let row = 3 * heads * size;
    let view = |part: u64| {
        let strides = [rows * row, row, size, 1].map(|stride| stride as i64);
        let shape = Shape::new(&[batch, rows, heads, size]).unwrap();
        TensorSpec::new(DType::BF16, Layout::strided(shape, &strides, part * heads * size).unwrap())
    };
    let found = candidates(&Attention::new(view(0), view(1), view(2)).unwrap().into(), &Caps::h200());
    let Arg::TensorMap(k) = &found[0].plan.launches[0].args[1] else { panic!("k is a tensor map") };
    assert_eq!(k.dims, [size, rows, heads, batch]);
    assert_eq!(k.strides_bytes, [2 * row, 2 * size, 2 * rows * row]);
    assert_eq!((k.offset_bytes, k.slot), (2 * heads * size, Slot::Input(1)));
    // One element further it is none that tensor maps describe; nor where heads lie in one place.
    let shape = Shape::new(&[batch, rows, heads, size]).unwrap();
    let of = |stride: i64, offset| {
        TensorSpec::new(DType::BF16, Layout::strided(shape, &[98_304, 768, stride, 1], offset).unwrap())
    };
    for q in [of(64, 1), of(0, 0)] {
        assert!(names(Attention::new(q, view(1), view(2)).unwrap()).is_empty());
    }
}

#[test]
fn masks_and_dropout_are_for_kernels_that_know_them() {
    let plain = op(DType::F16, 2, 300, [4, 4], 64);
    let mask = dense(DType::Bool, &[2, 4, 300, 300]);
    let dropout = AttentionDropout { rate: 0.1, key: [dense(DType::U32, &[2]); 2] };
    let both = Attention { mask: Some(mask), dropout: Some(dropout), ..plain.clone() }.check().unwrap();
    for (op, extras) in [(plain.clone(), false), (Attention { mask: None, ..both.clone() }, true), (both.clone(), true)]
    {
        let found = candidates(&op.clone().into(), &Caps::h200());
        assert!(!found.is_empty() && found.iter().all(|found| found.name.ends_with("_extras") == extras), "{found:?}");
        let found = candidates(&gradient(op).into(), &Caps::h200());
        assert!(!found.is_empty() && found.iter().all(|found| found.name.contains("_extras") == extras), "{found:?}");
    }
    // Behind q, k and v: the mask, then the words of the key.
    let found = candidates(&both.into(), &Caps::h200());
    let args = &found[0].plan.launches[0].args;
    let slots: Vec<Slot> = found[0].plan.launches[0].slots().collect();
    assert_eq!(slots[5..], [3, 4, 5].map(Slot::Input));
    assert!(args.contains(&Arg::U32(1_677_722)), "the threshold of 0.1 in f32, as steps of 2^-24, rounded up");
    // A negative scale would reverse the order of scores: the portable kernels take it.
    for scale in [-1.0, 0.0, 1e-60] {
        assert!(names(Attention { scale, ..plain.clone() }.check().unwrap()).is_empty(), "{scale}");
    }
}

/// The harness holds kernels to the oracle through its cases: none of those with dropout, or of one pass, may be left to chance.
#[test]
fn cases_of_the_harness_reach_kernels_with_dropout_and_of_one_pass() {
    let family = REGISTRY.iter().find(|family| family.name == "attention").expect("registered");
    let cases: Vec<Op> = (family.cases)(Level::Quick).into_iter().map(|case| case.op).collect();
    for dtype in [DType::F16, DType::BF16] {
        let is_it = |op: &Attention| op.q.dtype == dtype && op.dropout.is_some();
        let of = |is_it: &dyn Fn(&Op) -> bool| -> Vec<String> {
            cases.iter().filter(|op| is_it(op)).flat_map(|op| names(op.clone())).collect()
        };
        let forward = of(&|op| op.get::<Attention>().is_some_and(is_it));
        let backward = of(&|op| op.get::<AttentionGradient>().is_some_and(|op| is_it(&op.forward)));
        assert!(!forward.is_empty(), "{dtype}");
        // One launch, and three.
        let short = backward.iter().filter(|name| name.contains("_gradient_")).count();
        assert!(0 < short && short < backward.len(), "{dtype}: {backward:?}");
        let gradients =
            cases.iter().filter_map(|op| op.get::<AttentionGradient>()).filter(|op| op.forward.q.dtype == dtype);
        let found = gradients.filter_map(|op| one_pass(132, &op.forward));
        assert!(found.count() > 0, "{dtype}");
    }
}

#[test]
fn grids_have_a_block_for_each_piece_of_work_or_each_multiprocessor() {
    let blocks = |op: Attention| candidates(&op.into(), &Caps::h200())[0].plan.launches[0].grid[0];
    assert_eq!(blocks(op(DType::F16, 8, 4096, [16, 16], 128)), 132);
    assert_eq!(blocks(op(DType::F16, 1, 640, [4, 4], 128)), 20);
    // Two tiles of a head are one piece; of five the middle one is alone.
    let causal = Attention { causal: true, ..op(DType::F16, 1, 640, [4, 4], 128) };
    assert_eq!(blocks(causal.check().unwrap()), 12);
}
