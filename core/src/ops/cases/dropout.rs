//! Cases of random numbers within programs: bits against Philox's definition by keys of one element and of every layout, uniform
//! numbers, dropout of every float, several results, updates in place.

use super::{add, map, ranks, several, sizes, unique};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Values};
use crate::ops::Map;
use crate::{CompareFn, DType, Expr, Layout, Result, Shape, TensorSpec};

const FAMILY: &str = "dropout";

/// One word for all elements, as the keys of a generator are read.
#[inline(never)]
fn word(dims: &[u64]) -> Result<TensorSpec> {
    Ok(TensorSpec::new(DType::U32, Layout::contiguous(Shape::new(&[])?).broadcast_to(Shape::new(dims)?)?))
}

#[inline(never)]
fn key(dims: &[u64]) -> Result<Vec<TensorSpec>> {
    Ok(vec![word(dims)?; 4])
}

/// Random bits by the key of inputs 0 to 3.
fn bits() -> Expr {
    Expr::random(std::array::from_fn(Expr::input))
}

/// Elements of this dtype and layout, and behind them a key for all: what [`Expr::dropped`] reads.
#[inline(never)]
fn beside_key(dtype: DType, kind: LayoutKind, dims: &[u64]) -> Result<Vec<TensorSpec>> {
    Ok([vec![kind.spec(dtype, dims)?], key(dims)?].concat())
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    let mut push = |tag: &str, op: Result<Map>, values: &[Values]| {
        let mut made = Vec::new();
        add(&mut made, FAMILY, op, values);
        cases.extend(made.into_iter().map(|case| case.tagged(tag)));
    };
    // What a generator's key gives, and what the same words as constants give.
    let words = [Values::RandomBits; 4];
    for count in sizes(level) {
        push("bits", key(&[count]).and_then(|key| map(FAMILY, &bits(), key, &[count])), &words);
    }
    for dims in ranks() {
        push("bits", key(&dims).and_then(|key| map(FAMILY, &bits(), key, &dims)), &words);
    }
    let uniform = Expr::uniform(std::array::from_fn(Expr::input));
    push("uniform", key(&[4099]).and_then(|key| map(FAMILY, &uniform, key, &[4099])), &words);
    let known = [0x299f_31d0_u32, 0xa409_3822, 0x0370_7344, 0x1319_8a2e].map(Expr::constant);
    push("constant", map(FAMILY, &Expr::random(known), Vec::new(), &[1031]), &[]);
    // A key for each element; rows that end inside of quads among them.
    for kind in LayoutKind::ALL {
        for dims in [&[3, 17, 9][..], &[4, 6, 8]] {
            let keys =
                || Ok(vec![kind.spec(DType::U32, dims)?, word(dims)?, word(dims)?, kind.spec(DType::U32, dims)?]);
            push("keys", keys().and_then(|keys| map(FAMILY, &bits(), keys, dims)), &words);
            let inputs = beside_key(DType::F32, kind, dims);
            let values = [Values::Normal, words[0], words[1], words[2], words[3]];
            push("p0.3", inputs.and_then(|inputs| map(FAMILY, &Expr::dropped(0.3), inputs, dims)), &values);
        }
    }
    // Two streams of one seed: one is given, one computed.
    let [a, b, c, d] = [0, 1, 2, 3].map(Expr::input);
    let two = bits() ^ Expr::random([a, b, c ^ 1, d]);
    push("streams", key(&[1027]).and_then(|key| map(FAMILY, &two, key, &[1027])), &words);
    for dtype in DType::FLOATS {
        for (p, recipe) in [(0.1, Values::Normal), (0.5, Values::Special), (1.0, Values::Special)] {
            let op = beside_key(dtype, LayoutKind::Dense, &[4099]);
            let op = op.and_then(|inputs| map(FAMILY, &Expr::dropped(p), inputs, &[4099]));
            push(&format!("p{p}"), op, &[recipe, words[0], words[1], words[2], words[3]]);
        }
    }
    // Beside the result, what was kept.
    let number = Expr::uniform([1, 2, 3, 4].map(Expr::input));
    let both = [Expr::dropped(0.25), number.compare(CompareFn::Ge, 0.25), number];
    for dims in [&[1031][..], &[5, 7, 31]] {
        let op = beside_key(DType::F16, LayoutKind::Dense, dims)
            .and_then(|inputs| several(FAMILY, &both, inputs, &[], dims));
        push("mask", op, &[Values::Normal, words[0], words[1], words[2], words[3]]);
    }
    // In place: what is dropped out, and the state of a generator.
    let kept = Expr::uniform(std::array::from_fn(Expr::input)).compare(CompareFn::Ge, 0.5);
    let in_place = [kept.select(Expr::input(4) * 2.0, 0.0)];
    for dtype in [DType::BF16, DType::F32, DType::F64] {
        let op = key(&[1031]).and_then(|key| several(FAMILY, &in_place, key, &[dtype], &[1031]));
        push("in-place", op, &[words[0], words[1], words[2], words[3], Values::Normal]);
    }
    unique(cases)
}

/// None: dropout moves what an elementwise function of one operand does, and `random` times the generator.
pub(crate) fn benches(_: BenchSize) -> Vec<BenchCase> {
    Vec::new()
}
