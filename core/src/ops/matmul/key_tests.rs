//! Products that share an answer, and products that do not.

use super::*;
use crate::operation::Tuned;
use crate::ops::ScaleBlocks;
use crate::tuned::Key;
use crate::{Layout, Shape, UnaryFn};

fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
}

fn product(dtype: DType, [m, n, k]: [u64; 3]) -> Matmul {
    Matmul::product(dense(dtype, &[m, k]), dense(dtype, &[k, n]), dense(dtype, &[m, n])).check().unwrap()
}

fn key(op: Matmul) -> ProductKey {
    ProductKey::of_matmul(&op.check().unwrap())
}

fn sized(m: u64, n: u64, k: u64) -> ProductKey {
    key(product(DType::F32, [m, n, k]))
}

#[test]
fn buckets_end_at_powers_of_two_and_cover_every_extent_once() {
    for steps in [4, 8] {
        let mut last = 0;
        for extent in 0..20_000 {
            let end = bucket(extent, steps);
            assert!(end >= extent && end >= last, "{extent} is in the bucket up to {end}, after {last}");
            assert_eq!(bucket(end, steps), end, "the end of a bucket is in it");
            // No bucket is wider than an eighth or a quarter (a half, for small extents) of where it starts.
            let start = last.max(1);
            if end != last && extent > 256 {
                assert!((end - start) * steps <= 2 * start, "{start}..{end}");
            }
            last = end;
        }
        for power in (0..63).map(|bit| 1u64 << bit) {
            assert_eq!(bucket(power, steps), power);
        }
        assert!(bucket(u64::MAX, steps) >= u64::MAX - 1);
    }
}

#[test]
fn neighbours_share_a_key() {
    assert_eq!(sized(4095, 4093, 4001), sized(4094, 4091, 3999));
    assert_eq!(sized(4096, 4096, 4096), sized(3968, 4096, 3968));
    assert_eq!(sized(8192, 8192, 8192), sized(7808, 8192, 7296));
}

#[test]
fn alignment_of_extents_keeps_keys_apart() {
    let mut keys: Vec<ProductKey> = [4096, 4032, 4080, 4088, 4092, 4093].map(|m| sized(m, 4096, 4096)).to_vec();
    keys.push(sized(4096, 4096, 4093));
    keys.push(sized(4096, 4093, 4096));
    let all = keys.len();
    keys.sort_by_key(ToString::to_string);
    keys.dedup();
    assert_eq!(keys.len(), all, "{keys:?}");
}

#[test]
fn sizes_that_fill_a_card_differently_are_apart() {
    assert_ne!(sized(1024, 1024, 1024), sized(1152, 1024, 1024));
    assert_ne!(sized(4096, 4096, 4096), sized(4096, 4096, 8192));
    assert_ne!(sized(1, 4096, 4096), sized(8, 4096, 4096));
}

/// i8 rows and columns with scales, to f16.
fn quantised() -> Matmul {
    Matmul {
        scale_a: Some(dense(DType::F32, &[512, 1])),
        scale_b: Some(dense(DType::F32, &[1, 512])),
        ..Matmul::product(dense(DType::I8, &[512, 512]), dense(DType::I8, &[512, 512]), dense(DType::F16, &[512, 512]))
    }
}

/// The same with scales of blocks.
fn blocked([m, n, k]: [u64; 3]) -> Matmul {
    let blocks = ScaleBlocks { m, n, k };
    let [of_a, of_b] = blocks.extents([512; 3]).map(|dims| Some(dense(DType::F32, &dims)));
    Matmul { scale_a: of_a, scale_b: of_b, scale_blocks: Some(blocks), ..quantised() }
}

#[test]
fn precision_dtype_and_epilogue_keep_keys_apart() {
    let plain = || product(DType::F32, [512, 512, 512]);
    let bias = Some(dense(DType::F32, &[512]));
    let c = Some(dense(DType::F32, &[512, 512]));
    let mut texts: Vec<String> = [
        plain(),
        Matmul { precision: Precision::High, ..plain() },
        Matmul { precision: Precision::Medium, ..plain() },
        Matmul { precision: Precision::Low, ..plain() },
        Matmul { bias, ..plain() },
        Matmul { c, beta: 1.0, ..plain() },
        Matmul { alpha: 2.0, ..plain() },
        Matmul { activation: Some(UnaryFn::Relu), ..plain() },
        product(DType::F16, [512, 512, 512]),
        Matmul { output: dense(DType::F32, &[512, 512]), ..product(DType::F16, [512, 512, 512]) },
        Matmul { scale_a: None, scale_b: None, ..quantised() },
        quantised(),
        blocked([1, 128, 128]),
        blocked([1, 128, 256]),
    ]
    .into_iter()
    .map(|op| key(op).to_string())
    .collect();
    let all = texts.len();
    texts.sort();
    texts.dedup();
    assert_eq!(texts.len(), all, "{texts:#?}");
    // C with a beta of 0 is not read, and counts as absent.
    assert_eq!(key(Matmul { c, beta: 0.0, ..plain() }), key(plain()));
}

#[test]
fn layouts_keep_keys_apart() {
    let with_a = |layout: Layout| {
        let a = TensorSpec::new(DType::F16, layout);
        key(Matmul { a, ..product(DType::F16, [512, 512, 512]) })
    };
    let square =
        |rows: i64, columns: i64, offset| Layout::strided(Shape::new(&[512, 512]).unwrap(), &[rows, columns], offset);
    let texts: Vec<String> = [
        square(512, 1, 0),
        square(1, 512, 0),
        square(1024, 2, 0),
        square(513, 1, 0), // rows at odd addresses
        square(516, 1, 0), // rows at multiples of 8 bytes
        square(512, 1, 1),
    ]
    .into_iter()
    .map(|layout| with_a(layout.unwrap()).to_string())
    .collect();
    let operands: Vec<&str> =
        texts.iter().map(|text| text.split_whitespace().find(|w| w.starts_with("a:")).unwrap()).collect();
    assert_eq!(operands, ["a:rows/16", "a:columns/16", "a:strided/16", "a:rows/2", "a:rows/8", "a:rows/2"]);
    // A longer pitch of the same alignment is the same class.
    assert_eq!(with_a(square(512, 1, 0).unwrap()), with_a(square(640, 1, 8).unwrap()));
}

#[test]
fn a_broadcast_operand_is_another_class_than_a_batched_one() {
    let batched = |stride| {
        let a = Layout::strided(Shape::new(&[16, 64, 64]).unwrap(), &[stride, 64, 1], 0).unwrap();
        let dense = dense(DType::F32, &[16, 64, 64]);
        key(Matmul::product(TensorSpec::new(DType::F32, a), dense, dense))
    };
    assert_ne!(batched(0), batched(64 * 64));
    assert!(batched(0).to_string().contains("a:rows/16*"));
}

#[test]
fn class_drops_sizes_and_keeps_the_activation() {
    let class = |op: Matmul| op.check().unwrap().class();
    let plain = |m| product(DType::F32, [m, 512, 512]);
    assert_eq!(class(plain(1024)), class(plain(2048)));
    assert_ne!(class(plain(1024)), class(plain(1025)));
    let activated = |f| class(Matmul { activation: Some(f), ..plain(1024) });
    assert_ne!(activated(UnaryFn::Relu), activated(UnaryFn::Gelu));
}

#[test]
fn grouped_products_have_keys_of_their_own() {
    let of = |groups: u64| {
        let (a, b) = (dense(DType::F16, &[512, 64]), dense(DType::F16, &[groups, 64, 128]));
        let ends = dense(DType::I32, &[groups]);
        GroupedMatmul::product(a, b, ends, dense(DType::F16, &[512, 128])).check().unwrap()
    };
    let key = |op: GroupedMatmul| Key::of(&op.into()).map(|key| key.to_string());
    assert_eq!(
        key(of(8)).unwrap(),
        "grouped_matmul f16>f16 highest batch8 m512%128 n128%128 k64%64 a:rows/16 b:rows/16"
    );
    assert_eq!(key(of(7)), key(of(8)));
    let relu = GroupedMatmul { activation: Some(UnaryFn::Relu), ..of(8) };
    assert!(key(of(9)) != key(of(8)) && key(relu.clone()) != key(of(8)));
    // A product without groups multiplies nothing.
    assert_eq!(key(of(0)), None);
    let class = |op: GroupedMatmul| op.class();
    assert_eq!(class(of(3)), class(of(300)));
    assert!(class(relu).ends_with("activation relu"));
}

#[test]
fn ops_with_one_kernel_have_no_key() {
    let spec = dense(DType::F32, &[4]);
    let sum = crate::ops::Reduce::new(crate::ReduceFn::Sum, spec, &[0], dense(DType::F32, &[])).unwrap();
    assert_eq!(Key::of(&sum.into()), None);
}
