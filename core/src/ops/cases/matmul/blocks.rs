//! Products of 8-bit operands with scales of blocks: blocks of all extents, along and across tiles, larger than the operand and
//! of one element; every dtype of operands and results, layouts, batches, epilogues, scales of 0, NaN and infinity, K = 0.
//! Benchmarks of the recipe.

use super::{DENSE, FAMILY, add, batched, broadcast, of_dtypes, product};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Values, output};
use crate::ops::{Matmul, Operation, ScaleBlocks};
use crate::{DType, Result, UnaryFn};

const TO: [DType; 3] = [DType::F32, DType::F16, DType::BF16];
const BITS: Values = Values::RandomBits;
const SMALL: Values = Values::Integers(-4, 4);
/// As in `scaled.rs`: sums then stay within f16.
const SCALE: Values = Values::Uniform(0.002, 0.02);
/// m, n, k of the recipe that this is made for.
const RECIPE: [u64; 3] = [1, 128, 128];

/// `op` stored as `to`, with scales of blocks for the operands that have a kind of layout for theirs.
#[inline(never)]
fn with(op: Result<Matmul>, to: DType, [m, n, k]: [u64; 3], kinds: [Option<LayoutKind>; 2]) -> Result<Matmul> {
    let op = op?;
    let dims = op.output.layout.dims().to_vec();
    let blocks = ScaleBlocks { m, n, k };
    let all = op.dims();
    let [of_a, of_b] = blocks.extents([all.m, all.n, all.k]);
    let scales = |kind: Option<LayoutKind>, last: [u64; 2]| {
        kind.map(|kind| kind.spec(DType::F32, &[&dims[..dims.len() - 2], &last].concat())).transpose()
    };
    let (scale_a, scale_b) = (scales(kinds[0], of_a)?, scales(kinds[1], of_b)?);
    Matmul { scale_a, scale_b, scale_blocks: Some(blocks), output: output(to, &dims)?, ..op }.check()
}

#[inline(never)]
fn blocked(op: Result<Matmul>, to: DType, blocks: [u64; 3]) -> Result<Matmul> {
    with(op, to, blocks, [Some(DENSE); 2])
}

#[inline(never)]
fn push(cases: &mut Vec<Case>, op: Result<Matmul>, operand: Values, scale: Values) {
    let list = op.as_ref().map_or(Vec::new(), |op| {
        let places = op.places();
        let mut all = vec![operand; op.inputs().len()];
        places.addends().into_iter().flatten().for_each(|place| all[place] = Values::Uniform(-1.0, 1.0));
        places.scales().into_iter().flatten().for_each(|place| all[place] = scale);
        all
    });
    add(cases, FAMILY, op, &list);
}

pub(super) fn cases(level: Level, cases: &mut Vec<Case>) {
    dtypes(level, cases);
    extents(level, cases);
    layouts(level, cases);
    epilogues(cases);
    for scale in [0.0, f64::NAN, f64::INFINITY, -0.01, 1e-18, 1e30] {
        let op = |dtype| blocked(product(dtype, [9, 33, 70], [DENSE; 2]), DType::F32, [2, 16, 32]);
        push(cases, op(DType::I8), BITS, Values::Constant(scale));
        push(cases, op(DType::F8E4M3), Values::Uniform(-2.0, 2.0), Values::Constant(scale));
    }
    // More rounds of loops than some drivers allow.
    let op = blocked(product(DType::I8, [2, 3, 70_000], [DENSE; 2]), DType::F32, [1, 1, 128]);
    push(cases, op, BITS, Values::Uniform(0.25, 1.0));
    // What a block's scale does not fit shows in that block alone: scales that differ by much more than a sum's rounding.
    let op = blocked(product(DType::I8, [17, 33, 260], [DENSE; 2]), DType::F32, [1, 16, 64]);
    push(cases, op, BITS, Values::Special);
}

fn dtypes(level: Level, cases: &mut Vec<Case>) {
    let eight = [DType::F8E4M3, DType::F8E5M2];
    let floats = eight.into_iter().flat_map(|a| eight.map(|b| (a, b, Values::Uniform(-2.0, 2.0))));
    let integers = [(DType::I8, DType::I8, BITS), (DType::U8, DType::U8, BITS)];
    for (a, b, values) in floats.chain(integers) {
        for to in TO {
            for dims in level.list(&[[33, 35, 300]], &[[65, 129, 384], [129, 257, 515], [64, 128, 1024]]) {
                push(cases, blocked(of_dtypes([a, b, to], dims, [DENSE; 2]), to, RECIPE), values, SCALE);
            }
            let one = |kinds| with(of_dtypes([a, b, to], [18, 19, 70], [DENSE; 2]), to, [4, 8, 16], kinds);
            push(cases, one([Some(DENSE), None]), values, SCALE);
            push(cases, one([None, Some(DENSE)]), values, SCALE);
        }
        // Sums of small integers times small integers are exact: one dropped product, or another block's scale, shows.
        for blocks in [RECIPE, [3, 5, 32], [16, 16, 20]] {
            let op = blocked(of_dtypes([a, b, DType::F32], [35, 37, 131], [DENSE; 2]), DType::F32, blocks);
            push(cases, op, if a == DType::U8 { Values::Integers(0, 4) } else { SMALL }, Values::Integers(1, 9));
        }
    }
}

fn extents(level: Level, cases: &mut Vec<Case>) {
    let quick = [[1, 1, 1], [2, 3, 7], [128, 128, 128], [5, 7, 16], [32, 64, 6], [1000, 1000, 1000], [1, u64::MAX, 4]];
    for blocks in level.list(&quick, &[[31, 33, 15], [64, 1, 17], [1, 2, 3], [7, 128, 100], [u64::MAX; 3]]) {
        for dims in [[33, 65, 67], [5, 3, 260], [64, 64, 64]] {
            push(
                cases,
                blocked(product(DType::I8, dims, [DENSE; 2]), DType::F32, blocks),
                SMALL,
                Values::Integers(1, 9),
            );
        }
    }
    // Vectors, long K, tails, nothing.
    let quick = [[1, 129, 257], [129, 1, 257], [1, 1, 1025], [3, 300, 515], [5, 3, 4099], [16, 130, 260]];
    for dims in level.list(&quick, &[[257, 255, 129], [2, 2, 9000], [128, 129, 1024], [192, 160, 640]]) {
        push(cases, blocked(product(DType::I8, dims, [DENSE; 2]), DType::F16, RECIPE), BITS, SCALE);
        let op = blocked(product(DType::F8E4M3, dims, [DENSE, LayoutKind::Transposed]), DType::F32, RECIPE);
        push(cases, op, Values::Uniform(-2.0, 2.0), SCALE);
    }
    // Operands along K on a 16-byte grid, as tensor cores take them where they lie: tails of rows, of columns, of K, several blocks.
    for (dims, blocks) in [([70, 130, 256], RECIPE), ([5, 300, 656], [2, 256, 128]), ([130, 64, 528], [16, 128, 256])] {
        for to in TO {
            let op = of_dtypes([DType::F8E4M3, DType::F8E4M3, to], dims, [DENSE, LayoutKind::Transposed]);
            push(cases, blocked(op, to, blocks), Values::Uniform(-2.0, 2.0), SCALE);
        }
        let op = product(DType::F8E5M2, dims, [DENSE, LayoutKind::Transposed]);
        push(cases, blocked(op, DType::F32, blocks), SMALL, Values::Integers(1, 9));
    }
    for dims in [[0, 3, 5], [3, 0, 5], [3, 5, 0], [0, 0, 0]] {
        push(cases, blocked(product(DType::I8, dims, [DENSE; 2]), DType::F32, [2, 2, 2]), BITS, SCALE);
        push(cases, blocked(product(DType::F8E5M2, dims, [DENSE; 2]), DType::BF16, RECIPE), SMALL, SCALE);
    }
}

fn layouts(level: Level, cases: &mut Vec<Case>) {
    for kind in level.list(&[LayoutKind::Transposed, LayoutKind::Padded, LayoutKind::Reversed], &LayoutKind::ALL) {
        for kinds in [[kind, DENSE], [DENSE, kind], [kind; 2]] {
            for blocks in [[4, 8, 32], [1, 1, 6]] {
                let op = product(DType::I8, [35, 33, 68], kinds);
                push(cases, blocked(op, DType::F32, blocks), SMALL, Values::Integers(1, 9));
            }
        }
        // The scales' own.
        for kinds in [[Some(kind), Some(DENSE)], [Some(DENSE), Some(kind)]] {
            let op = product(DType::I8, [35, 33, 68], [DENSE; 2]);
            push(cases, with(op, DType::F32, [4, 8, 16], kinds), SMALL, Values::Integers(1, 9));
        }
    }
    for kind in [LayoutKind::BroadcastOuter, LayoutKind::BroadcastInner] {
        let op = product(DType::F8E4M3, [35, 33, 68], [DENSE; 2]);
        push(cases, with(op, DType::F32, [1, 1, 16], [Some(kind); 2]), SMALL, Values::Integers(1, 9));
    }
    let batch = || batched(DType::I8, &[3, 17, 40], &[3, 40, 33], &[3, 17, 33], [DENSE; 2]);
    let shared = || broadcast(DType::I8, &[2, 1, 5, 40], &[3, 40, 7]);
    for blocks in [[1, 16, 16], [4, 5, 12]] {
        push(cases, blocked(batch(), DType::F32, blocks), SMALL, Values::Integers(1, 9));
        push(cases, blocked(shared(), DType::F16, blocks), BITS, SCALE);
    }
}

fn epilogues(cases: &mut Vec<Case>) {
    for (dtype, values) in [(DType::I8, BITS), (DType::F8E4M3, Values::Uniform(-2.0, 2.0))] {
        for to in TO {
            for activation in [None, Some(UnaryFn::Relu), Some(UnaryFn::Gelu)] {
                for dims in [[33, 35, 200], [5, 7, 0]] {
                    let op = blocked(product(dtype, dims, [DENSE; 2]), to, [1, 32, 64]).and_then(|op| {
                        let [m, n, _] = dims;
                        let (c, bias) = (LayoutKind::Padded.spec(to, &[m, n])?, LayoutKind::Offset.spec(to, &[n])?);
                        Matmul { alpha: 0.7, beta: 1.3, c: Some(c), bias: Some(bias), activation, ..op }.check()
                    });
                    push(cases, op, values, SCALE);
                }
            }
        }
    }
}

/// The recipe's blocks, with bf16 results and weights that lie along k: squares named `blocks KIND SIDE`, then layers of
/// DeepSeek-V3, of many tokens and few, named `blocks KIND MxNxK`.
pub(super) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let sides: &[u64] = size.pick(&[256], &[1024, 2048], &[4096, 8192]);
    let layers: &[[u64; 3]] = size.pick(
        &[[16, 384, 256]],
        &[[1024, 1792, 512], [64, 3072, 768]],
        &[[4096, 7168, 2048], [128, 24576, 1536], [64, 24576, 1536]],
    );
    let dtype = DType::F8E4M3;
    let squares = sides.iter().map(|&side| (side.to_string(), [side; 3]));
    let layers = layers.iter().map(|&[m, n, k]| (format!("{m}x{n}x{k}"), [m, n, k]));
    let case = |(extents, dims)| {
        let op = of_dtypes([dtype, dtype, DType::BF16], dims, [DENSE, LayoutKind::Transposed]);
        let op = blocked(op, DType::BF16, RECIPE).ok()?;
        let name = format!("blocks {dtype} {extents}");
        Some(super::bench(name, op))
    };
    squares.chain(layers).filter_map(case).collect()
}
