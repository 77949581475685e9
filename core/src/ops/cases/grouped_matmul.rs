//! Cases of grouped products: groups of all lengths and none, ends out of order and out of range, rows that no group owns,
//! extents at the edges of tiles, layouts with NaN around the operands, epilogues, dtypes, K = 0.

use super::{add, unique};
use crate::case::values::{Plant, Where};
use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};
use crate::ops::{GroupedMatmul, Matmul};
use crate::{DType, Error, Layout, Precision, Result, Shape, TensorSpec, UnaryFn};

const FAMILY: &str = "grouped_matmul";
const DENSE: LayoutKind = LayoutKind::Dense;
const SMALL: Values = Values::Integers(-4, 4);
const ONE: Values = Values::Uniform(-1.0, 1.0);

/// rows, groups, n, k.
type Dims = [u64; 4];

#[inline(never)]
fn of_dtypes([a, b, d]: [DType; 3], [rows, groups, n, k]: Dims, kinds: [LayoutKind; 2]) -> Result<GroupedMatmul> {
    let (a, b) = (kinds[0].spec(a, &[rows, k])?, kinds[1].spec(b, &[groups, k, n])?);
    GroupedMatmul::product(a, b, DENSE.spec(DType::I32, &[groups])?, output(d, &[rows, n])?).check()
}

#[inline(never)]
fn product(dtype: DType, dims: Dims, kinds: [LayoutKind; 2]) -> Result<GroupedMatmul> {
    let to = Matmul::output_dtype(dtype).ok_or(Error::UndefinedForDType { op: FAMILY, dtype })?;
    of_dtypes([dtype, dtype, to], dims, kinds)
}

/// A case whose operands hold `values` and whose ends hold `ends`; a bias holds small integers.
#[inline(never)]
fn push(cases: &mut Vec<Case>, op: Result<GroupedMatmul>, [a, b]: [Values; 2], ends: Values) {
    let bias = op.as_ref().is_ok_and(|op| op.bias.is_some()).then_some(SMALL);
    let values: Vec<Values> = [Some(a), Some(b), bias, Some(ends)].into_iter().flatten().collect();
    add(cases, FAMILY, op, &values);
}

#[inline(never)]
fn exact(cases: &mut Vec<Case>, op: Result<GroupedMatmul>, ends: Values) {
    let mut made = Vec::new();
    push(&mut made, op, [SMALL; 2], ends);
    cases.extend(made.into_iter().map(Case::exact));
}

/// Ends that rise to the last row.
fn all(dims: Dims) -> Values {
    Values::Rising(dims[0] as u32)
}

pub(crate) fn cases(level: Level) -> Vec<Case> {
    let mut cases = Vec::new();
    dtypes(level, &mut cases);
    ends(&mut cases);
    sizes(level, &mut cases);
    layouts(level, &mut cases);
    epilogues(level, &mut cases);
    special(&mut cases);
    unique(cases)
}

fn dtypes(level: Level, cases: &mut Vec<Case>) {
    for dtype in DType::ALL.into_iter().filter(|&dtype| Matmul::output_dtype(dtype).is_some()) {
        let wide = if dtype.is_float() { ONE } else { Values::RandomBits };
        for dims in
            level.list(&[[67, 4, 35, 37], [65, 3, 64, 32]], &[[300, 7, 129, 65], [64, 4, 64, 64], [129, 3, 64, 128]])
        {
            push(cases, product(dtype, dims, [DENSE; 2]), [wide; 2], all(dims));
            exact(cases, product(dtype, dims, [DENSE; 2]), Values::Rising(dims[0] as u32 - 7));
        }
        // Every other dtype that products of this one may be stored as.
        let dims = [41, 3, 33, 67];
        for to in DType::ALL.into_iter().filter(|&to| Matmul::gives(dtype, to)) {
            push(cases, of_dtypes([dtype, dtype, to], dims, [DENSE; 2]), [wide; 2], all(dims));
        }
    }
    let dims = [41, 3, 33, 131];
    for (a, b) in [(DType::F8E4M3, DType::F8E5M2), (DType::F8E5M2, DType::F8E4M3)] {
        let kinds = [DENSE, LayoutKind::Transposed];
        push(cases, of_dtypes([a, b, DType::BF16], dims, kinds), [ONE; 2], all(dims));
        exact(cases, of_dtypes([a, b, DType::F32], dims, kinds), all(dims));
    }
    for precision in [Precision::Low, Precision::Medium, Precision::High] {
        let op = product(DType::F32, dims, [DENSE; 2]);
        push(cases, op.and_then(|op| GroupedMatmul { precision, ..op }.check()), [ONE; 2], all(dims));
    }
}

/// What ends may hold, in both dtypes and several layouts: the rule of the op gives all of it a meaning.
fn ends(cases: &mut Vec<Case>) {
    let of = |dtype: DType, kind: LayoutKind, dims: Dims| {
        let op = product(DType::F32, dims, [DENSE; 2])?;
        GroupedMatmul { ends: kind.spec(dtype, &[dims[1]])?, ..op }.check()
    };
    for dims in [[70, 5, 33, 9], [6, 65, 5, 4], [65, 150, 3, 7]] {
        let rows = dims[0] as i32;
        let lists = [
            Values::Rising(dims[0] as u32),
            Values::Rising(dims[0] as u32 / 2),
            Values::Rising(2 * dims[0] as u32),
            Values::Integers(0, rows + 9),
            Values::Constant(dims[0] as f64),
            Values::Constant(0.0),
            Values::Ramp,
            Values::RandomBits,
            Values::Special,
        ];
        for values in lists {
            exact(cases, of(DType::I32, DENSE, dims), values);
            exact(cases, of(DType::U32, DENSE, dims), values);
        }
        exact(cases, of(DType::I32, DENSE, dims), Values::Integers(-9, rows + 9));
        exact(cases, of(DType::I32, DENSE, dims), Values::Constant(-1.0));
        for kind in LayoutKind::ALL {
            exact(cases, of(DType::I32, kind, dims), Values::Integers(-1, rows));
            exact(cases, of(DType::U32, kind, dims), all(dims));
        }
    }
}

/// Extents at the edges of tiles; one group, groups of one row, more groups than rows; nothing at all.
fn sizes(level: Level, cases: &mut Vec<Case>) {
    for edge in level.list(&[1, 31, 32, 33, 64, 65, 129], &[2, 63, 127, 128]) {
        for dims in [[edge, 3, 19, 18], [50, 3, edge, 7], [50, 3, 21, edge], [edge, 1, edge, 16], [17, edge, 5, 3]] {
            exact(cases, product(DType::F32, dims, [DENSE; 2]), all(dims));
        }
    }
    // More rounds of loops than some drivers allow; more groups than tiles go through one by one.
    for dims in [[3, 2, 4, 70_000], [90, 300, 5, 9], [700, 257, 5, 9], [9, 300, 5, 0]] {
        exact(cases, product(DType::F32, dims, [DENSE; 2]), all(dims));
    }
    let quick = [[1, 8, 65, 129], [8, 64, 33, 64], [257, 1, 16, 32], [200, 200, 4, 20], [5, 3, 7, 1027]];
    for dims in level
        .list(&quick, &[[1025, 8, 33, 65], [512, 3, 256, 160], [600, 2, 300, 100], [64, 4, 4099, 16], [5, 3, 7, 4099]])
    {
        exact(cases, product(DType::F32, dims, [DENSE; 2]), all(dims));
        push(cases, product(DType::F16, dims, [DENSE, LayoutKind::Transposed]), [ONE; 2], all(dims));
    }
    for dims in [[0, 3, 5, 4], [7, 0, 5, 4], [7, 3, 0, 4], [7, 3, 5, 0], [7, 0, 5, 0], [0, 0, 0, 0]] {
        for dtype in [DType::F32, DType::I8, DType::BF16] {
            push(cases, product(dtype, dims, [DENSE; 2]), [SMALL; 2], all(dims));
        }
    }
}

fn layouts(level: Level, cases: &mut Vec<Case>) {
    let further = [DType::BF16, DType::F64, DType::I8, DType::F8E5M2];
    for dtype in level.list(&[DType::F32, DType::F16], &further) {
        for kind in LayoutKind::ALL {
            for kinds in [[kind, DENSE], [DENSE, kind], [kind, kind]] {
                exact(cases, product(dtype, [35, 3, 33, 67], kinds), Values::Rising(30));
            }
        }
        // Weights as layers keep them: [groups, n, k].
        let weights = |dims: Dims| {
            let [_, groups, n, k] = dims;
            let stored = DENSE.spec(dtype, &[groups, n, k])?;
            let op = product(dtype, dims, [DENSE; 2])?;
            GroupedMatmul { b: TensorSpec::new(dtype, stored.layout.transpose(1, 2)?), ..op }.check()
        };
        for dims in [[70, 4, 33, 67], [128, 2, 64, 32], [3, 9, 16, 64]] {
            exact(cases, weights(dims), all(dims));
        }
    }
}

fn epilogues(level: Level, cases: &mut Vec<Case>) {
    let with = |dtype: DType, dims: Dims, kind: LayoutKind, activation: Option<UnaryFn>| {
        let op = product(dtype, dims, [DENSE; 2])?;
        let bias = Some(kind.spec(op.output.dtype, &[dims[1], dims[2]])?);
        GroupedMatmul { bias, activation, ..op }.check()
    };
    let dims = [67, 4, 35, 19];
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64, DType::I8, DType::I32, DType::F8E4M3] {
        // Rows that no group owns stay 0 where sigmoid makes a half of it.
        let activation = if dtype.is_float() { UnaryFn::Sigmoid } else { UnaryFn::Relu };
        for dims in [dims, [5, 3, 7, 0]] {
            push(cases, with(dtype, dims, DENSE, None), [SMALL; 2], Values::Rising(dims[0] as u32 - 2));
            push(cases, with(dtype, dims, DENSE, Some(activation)), [SMALL; 2], Values::Rising(dims[0] as u32 - 2));
        }
    }
    for f in UnaryFn::ALL.into_iter().filter(|f| f.is_activation()) {
        for dtype in level.list(&[DType::F32], &[DType::F16, DType::BF16, DType::F8E5M2]) {
            push(cases, with(dtype, dims, LayoutKind::Padded, Some(f)), [ONE; 2], Values::Rising(60));
        }
    }
    for kind in LayoutKind::ALL {
        push(cases, with(DType::F32, dims, kind, None), [ONE; 2], all(dims));
    }
    push(cases, with(DType::F32, dims, DENSE, None), [ONE; 2], Values::Integers(-9, 80));
}

/// What is not finite in one row or in one group's matrix shows in no other.
fn special(cases: &mut Vec<Case>) {
    for plant in [Plant::Nan, Plant::Inf] {
        for at in [Where::First, Where::Last, Where::Middle] {
            for dtype in [DType::F32, DType::F16, DType::F8E5M2] {
                let op = || product(dtype, [65, 5, 33, 67], [DENSE; 2]);
                push(cases, op(), [Values::Planted(plant, at), ONE], Values::Rising(60));
                push(cases, op(), [ONE, Values::Planted(plant, at)], Values::Rising(60));
            }
        }
    }
    // Half precision overflows when stored, not on the way.
    push(cases, product(DType::F16, [33, 3, 19, 129], [DENSE; 2]), [Values::Constant(60.0); 2], Values::Rising(33));
}

/// Named `grouped KIND ROWSxNxK/GROUPS`: as many rows as all tokens have experts, and few of them as when text is made.
pub(crate) fn benches(size: BenchSize) -> Vec<BenchCase> {
    let shapes: &[Dims] = size.pick(
        &[[256, 4, 256, 128]],
        &[[2048, 8, 1024, 512], [64, 8, 1024, 512]],
        &[[8192, 8, 4096, 2048], [8192, 128, 2048, 768], [64, 8, 4096, 2048]],
    );
    let mut cases = Vec::new();
    let highest =
        [DType::F32, DType::F16, DType::BF16, DType::I8, DType::F8E4M3].map(|dtype| (dtype, Precision::Highest));
    for (dtype, precision) in highest.into_iter().chain([(DType::F32, Precision::Medium)]) {
        for &[rows, groups, n, k] in shapes {
            let Ok(op) = benched(dtype, [rows, groups, n, k]) else { continue };
            let op = GroupedMatmul { precision, ..op };
            let kind = if precision == Precision::Medium { "f32-medium" } else { dtype.name() };
            let name = format!("grouped {kind} {rows}x{n}x{k}/{groups}");
            cases.push(BenchCase::new(name, Suite::Gemm, op, Metric::Flops).beside());
        }
    }
    cases
}

/// Weights lie [groups, n, k], as layers keep them.
#[inline(never)]
fn benched(dtype: DType, [rows, groups, n, k]: Dims) -> Result<GroupedMatmul> {
    let dense = |dtype, dims: &[u64]| Ok::<_, Error>(TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims)?)));
    let to = Matmul::output_dtype(dtype).ok_or(Error::UndefinedForDType { op: FAMILY, dtype })?;
    let b = TensorSpec::new(dtype, dense(dtype, &[groups, n, k])?.layout.transpose(1, 2)?);
    let ends = dense(DType::I32, &[groups])?;
    GroupedMatmul::product(dense(dtype, &[rows, k])?, b, ends, dense(to, &[rows, n])?).check()
}
