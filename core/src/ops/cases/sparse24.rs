//! Cases of 2:4 compression and of products with what was compressed: all six pairs of places, ties, rows of fewer than two
//! non-zeros, NaN, infinities and zeros of both signs, every k about a group and a word of metadata, metadata of any bits.

use super::{add, unique};
use crate::case::values::{Plant, Where};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::sparse24::compresses;
use crate::ops::{Compress24, Decompress24, Matmul, Operation, Part24, SparseMatmul};
use crate::{DType, Error, Layout, Precision, Result, Shape, TensorSpec, UnaryFn};

const FAMILY: &str = "sparse24";
const DENSE: LayoutKind = LayoutKind::Dense;
const ONE: Values = Values::Uniform(-1.0, 1.0);
const SMALL: Values = Values::Integers(-4, 4);
const PLACES: Values = Values::Places24;

fn compressed_dtypes() -> impl Iterator<Item = DType> {
    DType::ALL.into_iter().filter(|&dtype| compresses(dtype))
}

#[inline(never)]
fn part_of(part: Part24, dims: &[u64]) -> Result<Vec<u64>> {
    Ok(part.shape_of(&Shape::new(dims)?)?.dims().to_vec())
}

#[inline(never)]
fn compress(part: Part24, dtype: DType, dims: &[u64], kind: LayoutKind) -> Result<Compress24> {
    let to = if part == Part24::Values { dtype } else { DType::U32 };
    Compress24::new(part, kind.spec(dtype, dims)?, output(to, &part_of(part, dims)?)?)
}

/// Values and metadata of a compressed tensor of shape `dims`.
#[inline(never)]
fn parts(dtype: DType, dims: &[u64], kind: LayoutKind) -> Result<[TensorSpec; 2]> {
    Ok([kind.spec(dtype, &part_of(Part24::Values, dims)?)?, kind.spec(DType::U32, &part_of(Part24::Metadata, dims)?)?])
}

#[inline(never)]
fn decompress(dtype: DType, dims: &[u64], kind: LayoutKind) -> Result<Decompress24> {
    let [values, metadata] = parts(dtype, dims, kind)?;
    Decompress24::new(values, metadata, output(dtype, dims)?)
}

/// The product of a compressed A of shape `a` and `b`, which gives `to`.
#[inline(never)]
fn product(a: (DType, &[u64]), b: TensorSpec, to: DType) -> Result<SparseMatmul> {
    let [values, metadata] = parts(a.0, a.1, DENSE)?;
    let ([a_batch @ .., m, k], [b_batch @ .., inner, n]) = (a.1, b.layout.dims()) else {
        return Err(Error::InvalidArgument { what: "shape", reason: "a product needs matrices".to_owned() });
    };
    let batch = Shape::broadcast(FAMILY, &Shape::new(a_batch)?, &Shape::new(b_batch)?)?;
    let b_shape = Shape::new(&[batch.dims(), &[*inner, *n]].concat())?;
    let product = Matmul::product(
        SparseMatmul::dense_a(&values, *k, batch.dims())?,
        TensorSpec::new(b.dtype, b.layout.broadcast_to(b_shape)?),
        output(to, &[batch.dims(), &[*m, *n]].concat())?,
    );
    SparseMatmul { values, metadata, product }.check()
}

#[inline(never)]
fn matrices(dtype: DType, [m, n, k]: [u64; 3], b: LayoutKind) -> Result<SparseMatmul> {
    let to = Matmul::output_dtype(dtype).ok_or(Error::UndefinedForDType { op: FAMILY, dtype })?;
    product((dtype, &[m, k]), b.spec(dtype, &[k, n])?, to)
}

/// Adds a product whose A and B hold `operands`, and what is added to it, and scales, small numbers.
#[inline(never)]
fn multiply(cases: &mut Vec<Case>, op: Result<SparseMatmul>, operands: [Values; 2]) {
    let others = op.as_ref().map_or(0, |op| op.inputs().len() - 3);
    let further = std::iter::repeat_n(Values::Uniform(0.25, 1.0), others);
    let values: Vec<Values> = [operands[0], PLACES, operands[1]].into_iter().chain(further).collect();
    add(cases, FAMILY, op, &values);
}

#[inline(never)]
fn multiply_exactly(cases: &mut Vec<Case>, op: Result<SparseMatmul>) {
    let mut made = Vec::new();
    multiply(&mut made, op, [SMALL; 2]);
    cases.extend(made.into_iter().map(Case::exact));
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    compressing(level, &mut cases);
    decompressing(level, &mut cases);
    products(level, &mut cases);
    epilogues(&mut cases);
    special(&mut cases);
    unique(cases)
}

fn compressing(level: Level, cases: &mut Vec<Case>) {
    for part in [Part24::Values, Part24::Metadata] {
        for dtype in compressed_dtypes() {
            // Three values make ties, and groups of fewer than two non-zeros; all bits are all magnitudes of 8 and 16 bits.
            for values in [ONE, Values::Integers(-1, 1), Values::RandomBits, Values::AllBits, Values::Special] {
                let values = if values == ONE && !dtype.is_float() { Values::Integers(0, 100) } else { values };
                add(cases, FAMILY, compress(part, dtype, &[17, 68], DENSE), &[values]);
                add(cases, FAMILY, compress(part, dtype, &[7, 33], DENSE), &[values]);
            }
            for constant in [0.0, -0.0, 1.0] {
                add(cases, FAMILY, compress(part, dtype, &[3, 12], DENSE), &[Values::Constant(constant)]);
            }
            add(cases, FAMILY, compress(part, dtype, &[2, 3, 5, 40], LayoutKind::Offset), &[SMALL]);
        }
        for plant in [Plant::Nan, Plant::Inf] {
            for at in [Where::First, Where::Last, Where::Middle] {
                let op = compress(part, DType::F32, &[5, 64], DENSE);
                add(cases, FAMILY, op, &[Values::Planted(plant, at)]);
            }
        }
        for k in level.list(&[0, 1, 2, 3, 4, 5, 7, 31, 32, 33, 127, 1028], &[6, 8, 9, 63, 64, 65, 4099]) {
            for dtype in [DType::F16, DType::I8] {
                add(cases, FAMILY, compress(part, dtype, &[9, k], DENSE), &[SMALL]);
                add(cases, FAMILY, compress(part, dtype, &[k], DENSE), &[SMALL]);
            }
        }
        for dims in [&[0, 8][..], &[3, 0, 8], &[0, 0], &[513, 260]] {
            add(cases, FAMILY, compress(part, DType::BF16, dims, DENSE), &[SMALL]);
        }
    }
}

fn decompressing(level: Level, cases: &mut Vec<Case>) {
    for dtype in compressed_dtypes() {
        for dims in [&[17, 68][..], &[7, 33], &[2, 3, 5, 40]] {
            for metadata in [PLACES, Values::RandomBits] {
                add(cases, FAMILY, decompress(dtype, dims, DENSE), &[Values::RandomBits, metadata]);
                add(cases, FAMILY, decompress(dtype, dims, LayoutKind::Offset), &[Values::RandomBits, metadata]);
            }
        }
    }
    for k in level.list(&[0, 1, 2, 3, 4, 5, 7, 31, 32, 33, 127, 1028], &[6, 8, 9, 63, 64, 65, 4099]) {
        for dtype in [DType::F16, DType::I8] {
            add(cases, FAMILY, decompress(dtype, &[9, k], DENSE), &[SMALL, PLACES]);
            add(cases, FAMILY, decompress(dtype, &[k], DENSE), &[SMALL, PLACES]);
        }
    }
    for dims in [&[0, 8][..], &[3, 0, 8], &[513, 260]] {
        add(cases, FAMILY, decompress(DType::BF16, dims, DENSE), &[SMALL, PLACES]);
    }
}

fn products(level: Level, cases: &mut Vec<Case>) {
    for dtype in compressed_dtypes() {
        let wide = if dtype.is_float() { ONE } else { Values::RandomBits };
        for dims in level.list(&[[33, 35, 37], [17, 15, 1028]], &[[64, 64, 64], [129, 127, 260], [65, 129, 32]]) {
            multiply(cases, matrices(dtype, dims, DENSE), [wide; 2]);
            multiply_exactly(cases, matrices(dtype, dims, DENSE));
            multiply_exactly(cases, matrices(dtype, dims, LayoutKind::Transposed));
        }
    }
    // More rounds of loops than some drivers allow.
    multiply_exactly(cases, matrices(DType::I8, [2, 3, 70_000], DENSE));
    // Tiles of kernels that read compressed operands, and their tails.
    for dtype in [DType::F16, DType::BF16, DType::I8] {
        let quick = [[128, 128, 128], [130, 136, 192], [1, 16, 64], [64, 1, 128], [257, 72, 320]];
        for dims in level.list(&quick, &[[256, 256, 512], [100, 200, 64], [16, 8, 96], [31, 33, 640], [192, 264, 1088]])
        {
            multiply_exactly(cases, matrices(dtype, dims, DENSE));
            multiply_exactly(cases, matrices(dtype, dims, LayoutKind::Transposed));
            multiply_exactly(cases, matrices(dtype, dims, LayoutKind::Padded));
        }
    }
    // Results that are wider than operands, and not, B either way on a 16-byte grid, K longer than any pipeline.
    for (dtype, to) in [(DType::F16, DType::F32), (DType::BF16, DType::F32), (DType::F16, DType::F16)] {
        for kind in [DENSE, LayoutKind::Transposed] {
            multiply_exactly(cases, kind.spec(dtype, &[1040, 24]).and_then(|b| product((dtype, &[70, 1040]), b, to)));
        }
    }
    // More tiles than a card works on at once, twice over.
    let b = DENSE.spec(DType::F16, &[300, 72, 8]);
    multiply_exactly(cases, b.and_then(|b| product((DType::F16, &[300, 4, 72]), b, DType::F16)));
    for k in level.list(&[0, 1, 3, 4, 6, 31, 33], &[2, 5, 7, 8, 30, 34, 62, 66]) {
        multiply_exactly(cases, matrices(DType::F32, [5, 7, k], DENSE));
        multiply_exactly(cases, matrices(DType::I8, [5, 7, k], DENSE));
    }
    for dims in [[0, 3, 8], [3, 0, 8], [0, 0, 0]] {
        multiply(cases, matrices(DType::F16, dims, DENSE), [SMALL; 2]);
    }
    for (dtype, to) in [(DType::F16, DType::F32), (DType::BF16, DType::F32), (DType::F8E4M3, DType::BF16)] {
        let op = || DENSE.spec(dtype, &[132, 35]).and_then(|b| product((dtype, &[33, 132]), b, to));
        multiply(cases, op(), [ONE; 2]);
        multiply_exactly(cases, op());
    }
    for precision in [Precision::Low, Precision::Medium, Precision::High] {
        let op = matrices(DType::F32, [65, 67, 128], DENSE);
        let op = op.and_then(|op| SparseMatmul { product: Matmul { precision, ..op.product }, ..op }.check());
        multiply(cases, op, [ONE; 2]);
    }
    // A alone, B alone, and both in batches; dimensions of A that repeat.
    for (a, b) in [
        (&[3, 17, 12][..], &[3, 12, 33][..]),
        (&[17, 12], &[3, 12, 33]),
        (&[3, 17, 12], &[12, 33]),
        (&[2, 1, 5, 9], &[3, 9, 7]),
        (&[1, 2, 5, 36], &[2, 1, 36, 8]),
    ] {
        for dtype in [DType::F32, DType::F16] {
            multiply_exactly(cases, DENSE.spec(dtype, b).and_then(|b| product((dtype, a), b, dtype)));
        }
    }
}

fn epilogues(cases: &mut Vec<Case>) {
    for (dtype, to) in [(DType::F16, DType::F16), (DType::BF16, DType::F32), (DType::F32, DType::F32)] {
        for activation in [None, Some(UnaryFn::Relu), Some(UnaryFn::Gelu)] {
            let op = DENSE.spec(dtype, &[68, 35]).and_then(|b| product((dtype, &[33, 68]), b, to)).and_then(|op| {
                let product = Matmul {
                    alpha: 0.7,
                    beta: 1.3,
                    c: Some(LayoutKind::Padded.spec(to, &[33, 35])?),
                    bias: Some(LayoutKind::Offset.spec(to, &[35])?),
                    activation,
                    ..op.product
                };
                SparseMatmul { product, ..op }.check()
            });
            multiply(cases, op, [ONE; 2]);
        }
    }
    // Integers wrap; with scales they leave as floats.
    let integers = || DENSE.spec(DType::I8, &[68, 35]).and_then(|b| product((DType::I8, &[33, 68]), b, DType::I32));
    let scaled = integers().and_then(|op| {
        let bias = Some(DENSE.spec(DType::I32, &[35])?);
        SparseMatmul { product: Matmul { alpha: -3.0, bias, ..op.product }, ..op }.check()
    });
    multiply(cases, scaled, [Values::RandomBits; 2]);
    let quantised = integers().and_then(|op| {
        let product = Matmul {
            scale_a: Some(DENSE.spec(DType::F32, &[33, 1])?),
            scale_b: Some(DENSE.spec(DType::F32, &[1, 35])?),
            output: output(DType::F32, &[33, 35])?,
            ..op.product
        };
        SparseMatmul { product, ..op }.check()
    });
    multiply(cases, quantised, [Values::RandomBits; 2]);
}

fn special(cases: &mut Vec<Case>) {
    for plant in [Plant::Nan, Plant::Inf] {
        for at in [Where::First, Where::Last, Where::Middle] {
            for dtype in [DType::F32, DType::F16] {
                multiply(cases, matrices(dtype, [65, 33, 68], DENSE), [Values::Planted(plant, at), ONE]);
                multiply(cases, matrices(dtype, [65, 33, 68], DENSE), [ONE, Values::Planted(plant, at)]);
            }
        }
    }
    multiply(cases, matrices(DType::F16, [17, 19, 132], DENSE), [Values::Constant(60.0); 2]);
    multiply(cases, matrices(DType::F16, [17, 19, 132], DENSE), [Values::Constant(-0.0), ONE]);
}

/// Squares named `sparse24 KIND SIDE`, with weights that lie as those of linear layers do: neighbours of B along k. Overviews show one
/// of f16, which has a dense one beside it: what is quoted of pruning is judged by the two.
pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let sides: &[u64] = size.pick(&[256], &[1024, 2048], &[2048, 4096, 8192]);
    let mut cases = Vec::new();
    for dtype in [DType::F16, DType::BF16, DType::I8] {
        for &side in sides {
            let square = |to| -> Result<SparseMatmul> {
                let b = Layout::contiguous(Shape::new(&[side, side])?).transpose(0, 1)?;
                product((dtype, &[side, side]), TensorSpec::new(dtype, b), to)
            };
            let Some(Ok(op)) = Matmul::output_dtype(dtype).map(square) else { continue };
            let (name, suite) = (format!("{FAMILY} {dtype} {side}"), Suite::Gemm);
            let case = BenchCase::new(name, suite, op, Metric::Flops);
            let is_shown = dtype == DType::F16 && side == sides[sides.len() / 2];
            cases.push(if is_shown { case } else { case.beside() });
        }
    }
    cases
}
