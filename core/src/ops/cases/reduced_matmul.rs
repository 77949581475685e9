//! Cases of reduced products: every function over rows and over columns, dtypes, extents at the edges of tiles and of their
//! columns, more tiles than one, batches, layouts, epilogues, scales that overflow in one order alone, NaN and infinities, exact
//! integers, nothing to add up.

use super::matmul::{LARGE, LITTLE};
use super::{add, unique};
use crate::case::values::{Plant, Where};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::{Matmul, Operation, ReduceFn, ReducedMatmul};
use crate::{DType, Error, KeepDims, Layout, Precision, Result, Shape, TensorSpec, UnaryFn};

const FAMILY: &str = "reduced_matmul";
const DENSE: LayoutKind = LayoutKind::Dense;
const ONE: Values = Values::Uniform(-1.0, 1.0);
const SMALL: Values = Values::Integers(-4, 4);
const FUNCTIONS: [ReduceFn; 5] = [ReduceFn::AbsMax, ReduceFn::Max, ReduceFn::Mean, ReduceFn::Min, ReduceFn::Sum];
/// Of D's rows, of its columns.
const ROWS: usize = 1;
const COLUMNS: usize = 2;

/// `function` over D's last axis but `from_end` - 1, some way into the output's buffer.
#[inline(never)]
fn reduced(product: Result<Matmul>, function: ReduceFn, from_end: usize) -> Result<ReducedMatmul> {
    let product = product?;
    let d = product.output;
    let axis = d.layout.rank() - from_end;
    let rest = d.layout.shape().without_axes(&[axis], KeepDims::No);
    let undefined = Error::UndefinedForDType { op: FAMILY, dtype: d.dtype };
    let output = output(function.output_dtype(d.dtype).ok_or(undefined)?, rest.dims())?;
    ReducedMatmul { function, axis, product, output }.check()
}

#[inline(never)]
fn d(dtype: DType, dims: &[u64]) -> Result<TensorSpec> {
    let to = ReducedMatmul::product_dtype(dtype).ok_or(Error::UndefinedForDType { op: FAMILY, dtype })?;
    DENSE.spec(to, dims)
}

#[inline(never)]
fn product(dtype: DType, [m, n, k]: [u64; 3], kinds: [LayoutKind; 2]) -> Result<Matmul> {
    Matmul::product(kinds[0].spec(dtype, &[m, k])?, kinds[1].spec(dtype, &[k, n])?, d(dtype, &[m, n])?).check()
}

#[inline(never)]
fn plain(dtype: DType, dims: [u64; 3]) -> Result<Matmul> {
    product(dtype, dims, [DENSE; 2])
}

/// Adds a case whose A and B hold `operands`, and what is added, and scales, small numbers.
#[inline(never)]
fn push(cases: &mut Vec<Case>, op: Result<ReducedMatmul>, operands: [Values; 2]) {
    let others = op.as_ref().map_or(0, |op| op.inputs().len() - 2);
    let values: Vec<Values> =
        operands.into_iter().chain(std::iter::repeat_n(Values::Uniform(0.25, 1.0), others)).collect();
    add(cases, FAMILY, op, &values);
}

#[inline(never)]
fn exact(cases: &mut Vec<Case>, op: Result<ReducedMatmul>) {
    let mut made = Vec::new();
    push(&mut made, op, [SMALL; 2]);
    cases.extend(made.into_iter().map(Case::exact));
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    functions(level, &mut cases);
    extents(level, &mut cases);
    layouts(level, &mut cases);
    epilogues(&mut cases);
    order(level, &mut cases);
    special(level, &mut cases);
    unique(cases)
}

fn functions(level: Level, cases: &mut Vec<Case>) {
    let dtypes = DType::ALL.into_iter().filter(|&dtype| ReducedMatmul::product_dtype(dtype).is_some());
    for dtype in dtypes {
        // Those that kernels treat apart.
        let all = level == Level::Full || [DType::F16, DType::F32, DType::I8].contains(&dtype);
        for function in FUNCTIONS {
            if function == ReduceFn::AbsMax && !dtype.is_float() || !all && function != ReduceFn::Mean {
                continue;
            }
            for side in [ROWS, COLUMNS] {
                push(cases, reduced(plain(dtype, [37, 67, 33]), function, side), [SMALL; 2]);
                if dtype.is_float() {
                    push(cases, reduced(plain(dtype, [37, 67, 33]), function, side), [ONE; 2]);
                }
            }
        }
    }
    for precision in [Precision::Low, Precision::Medium, Precision::High] {
        for function in level.list(&[ReduceFn::Sum], &[ReduceFn::Max]) {
            for side in [ROWS, COLUMNS] {
                let product = plain(DType::F32, [65, 150, 132]).map(|op| Matmul { precision, ..op });
                push(cases, reduced(product, function, side), [ONE; 2]);
            }
        }
    }
}

/// Tiles, their tails, and more tiles along the reduced axis than one.
fn extents(level: Level, cases: &mut Vec<Case>) {
    // More rounds of loops than some drivers allow.
    exact(cases, reduced(plain(DType::F32, [2, 3, 70_000]), ReduceFn::Max, ROWS));
    let quick = [[1, 1, 1], [300, 1, 64], [129, 257, 65], [70, 1030, 24]];
    let further = [
        [1, 300, 64],
        [128, 256, 64],
        [1030, 70, 24],
        [64, 128, 128],
        [127, 129, 63],
        [257, 513, 31],
        [2, 4100, 40],
        [4100, 2, 40],
        [520, 520, 520],
    ];
    for dims in level.list(&quick, &further) {
        for dtype in level.list(&[DType::F16, DType::I8], &[DType::BF16, DType::F8E4M3, DType::F32]) {
            for side in [ROWS, COLUMNS] {
                exact(cases, reduced(plain(dtype, dims), ReduceFn::Sum, side));
                exact(cases, reduced(plain(dtype, dims), ReduceFn::Max, side));
            }
        }
    }
    for dims in [[5, 7, 0], [0, 7, 5], [7, 0, 5], [0, 0, 0]] {
        for dtype in [DType::F16, DType::I32] {
            for side in [ROWS, COLUMNS] {
                push(cases, reduced(plain(dtype, dims), ReduceFn::Sum, side), [SMALL; 2]);
            }
        }
    }
    // Nothing, divided by its number.
    push(cases, reduced(plain(DType::F32, [3, 0, 5]), ReduceFn::Mean, ROWS), [ONE; 2]);
    // Errors of long sums.
    for side in [ROWS, COLUMNS] {
        push(cases, reduced(plain(DType::BF16, [40, 1500, 48]), ReduceFn::Sum, side), [ONE; 2]);
        push(cases, reduced(plain(DType::BF16, [1500, 40, 48]), ReduceFn::Mean, side), [ONE; 2]);
    }
}

fn layouts(level: Level, cases: &mut Vec<Case>) {
    for dtype in level.list(&[DType::F16], &[DType::F32, DType::I8, DType::F8E5M2]) {
        for kind in level.list(&[LayoutKind::Transposed, LayoutKind::Padded], &LayoutKind::ALL) {
            for kinds in [[kind, DENSE], [DENSE, kind], [kind, kind]] {
                for side in [ROWS, COLUMNS] {
                    exact(cases, reduced(product(dtype, [67, 72, 40], kinds), ReduceFn::Sum, side));
                }
            }
        }
    }
    // Batches, of which A, B or both take part.
    for dtype in [DType::F16, DType::F32, DType::I8] {
        for (a, b) in
            [(&[3, 40, 24][..], &[3, 24, 72][..]), (&[1, 40, 24], &[3, 24, 72]), (&[2, 2, 9, 16], &[2, 2, 16, 5])]
        {
            for side in [ROWS, COLUMNS] {
                exact(cases, reduced(batched(dtype, a, b), ReduceFn::Sum, side));
                exact(cases, reduced(batched(dtype, a, b), ReduceFn::Min, side));
            }
        }
    }
}

#[inline(never)]
fn batched(dtype: DType, a: &[u64], b: &[u64]) -> Result<Matmul> {
    let batch = Shape::broadcast(FAMILY, &Shape::new(&a[..a.len() - 2])?, &Shape::new(&b[..b.len() - 2])?)?;
    let stretch = |from: &[u64]| {
        let to = Shape::new(&[batch.dims(), &from[from.len() - 2..]].concat())?;
        Ok::<_, Error>(TensorSpec::new(dtype, Layout::contiguous(Shape::new(from)?).broadcast_to(to)?))
    };
    let to = [batch.dims(), &[a[a.len() - 2], b[b.len() - 1]]].concat();
    Matmul::product(stretch(a)?, stretch(b)?, d(dtype, &to)?).check()
}

fn epilogues(cases: &mut Vec<Case>) {
    let with = |dtype: DType, dims: [u64; 3], activation: Option<UnaryFn>, c: bool| {
        let op = plain(dtype, dims)?;
        let to = op.output.dtype;
        let [m, n, _] = dims;
        let (alpha, beta) = if to.is_float() { (0.7, 1.3) } else { (3.0, -2.0) };
        let c = if c { Some(LayoutKind::Padded.spec(to, &[m, n])?) } else { None };
        let beta = if c.is_some() { beta } else { 0.0 };
        let bias = Some(LayoutKind::Offset.spec(to, &[n])?);
        Matmul { alpha, beta, c, bias, activation, ..op }.check()
    };
    for side in [ROWS, COLUMNS] {
        for function in [ReduceFn::Sum, ReduceFn::Max] {
            for c in [false, true] {
                push(cases, reduced(with(DType::F16, [70, 136, 40], None, c), function, side), [ONE; 2]);
                push(
                    cases,
                    reduced(with(DType::I8, [70, 136, 48], Some(UnaryFn::Relu), c), function, side),
                    [SMALL; 2],
                );
            }
        }
        for f in UnaryFn::ALL.into_iter().filter(|f| f.is_activation()) {
            push(cases, reduced(with(DType::BF16, [70, 137, 40], Some(f), true), ReduceFn::Sum, side), [ONE; 2]);
        }
        let relu = with(DType::F32, [35, 37, 40], Some(UnaryFn::Relu), false);
        push(cases, reduced(relu, ReduceFn::AbsMax, side), [ONE; 2]);
        for (dtype, operands) in [(DType::I8, SMALL), (DType::F8E4M3, ONE), (DType::F8E5M2, ONE)] {
            for function in [ReduceFn::Sum, ReduceFn::Min] {
                push(cases, reduced(scaled(dtype, [70, 136, 160], [DENSE; 2]), function, side), [operands; 2]);
            }
        }
    }
}

/// A product of 8-bit operands to f32, with scales of A's rows and of B's columns.
#[inline(never)]
fn scaled(dtype: DType, [m, n, k]: [u64; 3], kinds: [LayoutKind; 2]) -> Result<Matmul> {
    let op = product(dtype, [m, n, k], kinds)?;
    let (scale_a, scale_b) = (DENSE.spec(DType::F32, &[m, 1])?, DENSE.spec(DType::F32, &[1, n])?);
    Matmul { scale_a: Some(scale_a), scale_b: Some(scale_b), output: DENSE.spec(DType::F32, &[m, n])?, ..op }.check()
}

/// Scales of A come first, then those of B, whether rows or columns are reduced: of a large and a small one the first decides
/// whether sums overflow.
fn order(level: Level, cases: &mut Vec<Case>) {
    let small = Values::Integers(1, 4);
    let shapes = [([5, 20, 48], [DENSE; 2]), ([70, 136, 64], [DENSE, LayoutKind::Transposed])];
    for dtype in level.list(&[DType::I8, DType::F8E4M3], &[DType::U8, DType::F8E5M2]) {
        for (dims, kinds) in shapes {
            for function in [ReduceFn::Max, ReduceFn::Sum] {
                for side in [ROWS, COLUMNS] {
                    for [of_a, of_b] in [[LARGE, LITTLE], [LITTLE, LARGE]] {
                        let op = reduced(scaled(dtype, dims, kinds), function, side);
                        add(cases, FAMILY, op, &[small, small, of_a, of_b]);
                    }
                }
            }
        }
    }
}

/// What is not finite shows in its rows and columns, and in no other.
fn special(level: Level, cases: &mut Vec<Case>) {
    for plant in [Plant::Nan, Plant::Inf] {
        for at in level.list(&[Where::Last], &[Where::First, Where::Middle]) {
            for dtype in [DType::F16, DType::F32] {
                for (function, side) in [(ReduceFn::Max, ROWS), (ReduceFn::Sum, COLUMNS), (ReduceFn::AbsMax, COLUMNS)] {
                    let op = || reduced(plain(dtype, [65, 136, 72]), function, side);
                    push(cases, op(), [Values::Planted(plant, at), ONE]);
                    push(cases, op(), [ONE, Values::Planted(plant, at)]);
                }
            }
        }
    }
    // All below zero: what lies beyond a tile's end is no maximum, nor above it a minimum.
    for (function, side) in
        [(ReduceFn::Max, ROWS), (ReduceFn::Max, COLUMNS), (ReduceFn::Min, ROWS), (ReduceFn::Min, COLUMNS)]
    {
        for sign in [-1.0, 1.0] {
            let op = reduced(plain(DType::F16, [70, 136, 40]), function, side);
            push(cases, op, [Values::Constant(sign), Values::Constant(1.0)]);
        }
    }
    // f16 sums beyond its range are f32 here.
    push(cases, reduced(plain(DType::F16, [40, 72, 132]), ReduceFn::Sum, ROWS), [Values::Constant(60.0); 2]);
}

/// Scores of which the best counts: `reduced KIND MxNxK`, with B's neighbours along k.
pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let shapes: &[[u64; 3]] =
        size.pick(&[[256, 512, 64]], &[[2048, 4096, 128]], &[[8192, 8192, 64], [8192, 8192, 1024], [4096, 4096, 4096]]);
    let mut cases = Vec::new();
    for dtype in [DType::F16, DType::BF16, DType::I8, DType::F8E4M3, DType::F32] {
        for &[m, n, k] in shapes {
            let op = || {
                let b = Layout::contiguous(Shape::new(&[n, k])?).transpose(0, 1)?;
                let a = TensorSpec::new(dtype, Layout::contiguous(Shape::new(&[m, k])?));
                let product = Matmul::product(a, TensorSpec::new(dtype, b), d(dtype, &[m, n])?);
                ReducedMatmul::new(ReduceFn::Max, 1, product)
            };
            let Ok(op) = op() else { continue };
            let name = format!("reduced {dtype} {m}x{n}x{k}");
            cases.push(BenchCase::new(name, Suite::Gemm, op, Metric::Flops).beside());
        }
    }
    cases
}
