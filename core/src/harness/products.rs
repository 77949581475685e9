//! Matrix products that people ask for: what planners are held to without a device, as `bench` is for times.
//!
//! [`unchecked`] finds what may never be chosen: a tuner checks a candidate on a small op before it uses it, so each must be
//! had for one.

use crate::ops::{GroupedMatmul, Matmul, ReduceFn, ReducedMatmul};
use crate::tuner::{Effort, check_cases, find};
use crate::{DType, Error, Layout, Op, Precision, Result, Shape, TensorSpec};

/// m, n, k: squares of all sizes, odd ones, those of transformers, skinny, long and flat ones.
const EXTENTS: [[u64; 3]; 16] = [
    [4096, 4096, 4096],
    [8192, 8192, 8192],
    [16384, 16384, 16384],
    [512, 512, 512],
    [1000, 1000, 1000],
    [4097, 4095, 4093],
    [4096, 4096, 14336],
    [8192, 1280, 8192],
    [1, 4096, 4096],
    [8, 4096, 4096],
    [4096, 16, 4096],
    [64, 64, 65536],
    [256, 256, 16384],
    [128, 8192, 100],
    [33, 35, 37],
    [700, 1, 900],
];

/// Groups, rows, n, k: experts in training, many of them, few tokens, odd extents.
const GROUPED: [[u64; 4]; 5] =
    [[8, 8192, 4096, 2048], [256, 4096, 2048, 768], [64, 16, 4096, 2048], [1, 300, 300, 100], [5, 1001, 131, 77]];

/// Dense products of every dtype and precision, of quantised operands, of which rows or columns are reduced, and of groups of
/// rows, with each operand as it is and transposed.
///
/// # Errors
/// None that a device could cause: the table itself would be wrong.
pub fn products() -> Result<Vec<Op>> {
    let mut ops = Vec::new();
    for [m, n, k] in EXTENTS {
        for dtype in [DType::F8E4M3, DType::F16, DType::BF16, DType::F32, DType::F64, DType::I8, DType::U8] {
            let Some(result) = Matmul::output_dtype(dtype) else { continue };
            for precision in [Precision::Highest, Precision::High, Precision::Medium, Precision::Low] {
                // Other types know one precision.
                if dtype != DType::F32 && precision != Precision::Highest {
                    continue;
                }
                for lie in 0..4 {
                    let (a, b) = (view(dtype, m, k, lie & 1 != 0)?, view(dtype, k, n, lie & 2 != 0)?);
                    let output = view(result, m, n, false)?;
                    ops.push(Matmul { precision, ..Matmul::product(a, b, output) }.check()?.into());
                    if Matmul::takes_scales(dtype) && k <= Matmul::longest_exact(dtype) {
                        let scale_a = Some(view(DType::F32, m, 1, false)?);
                        let scale_b = Some(view(DType::F32, 1, n, false)?);
                        let output = view(DType::F16, m, n, false)?;
                        let product = Matmul::product(a, b, output);
                        ops.push(Matmul { scale_a, scale_b, ..product }.check()?.into());
                    }
                }
            }
        }
    }
    for [m, n, k] in EXTENTS {
        for dtype in [DType::F8E4M3, DType::F16, DType::BF16, DType::F32, DType::I8] {
            for axis in [0, 1] {
                for transposed in [false, true] {
                    let to = ReducedMatmul::product_dtype(dtype)
                        .ok_or(Error::UndefinedForDType { op: "reduced_matmul", dtype })?;
                    let (a, b) = (view(dtype, m, k, false)?, view(dtype, k, n, transposed)?);
                    for precision in [Precision::Highest, Precision::Medium] {
                        // Other types know one precision.
                        if dtype == DType::F32 || precision == Precision::Highest {
                            let product = Matmul { precision, ..Matmul::product(a, b, view(to, m, n, false)?) };
                            ops.push(ReducedMatmul::new(ReduceFn::Sum, axis, product)?.into());
                        }
                    }
                }
            }
        }
    }
    for dims in GROUPED {
        for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64, DType::I8, DType::F8E4M3] {
            for transposed in [false, true] {
                let op = grouped(dtype, dims, transposed)?;
                if dtype == DType::F32 {
                    ops.push(GroupedMatmul { precision: Precision::Medium, ..op.clone() }.into());
                }
                ops.push(op.into());
            }
        }
    }
    Ok(ops)
}

fn grouped(dtype: DType, [groups, rows, n, k]: [u64; 4], transposed: bool) -> Result<GroupedMatmul> {
    let dense = |dtype, dims: &[u64]| Ok::<_, Error>(TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims)?)));
    let to = Matmul::output_dtype(dtype).ok_or(Error::UndefinedForDType { op: "grouped_matmul", dtype })?;
    let b = match transposed {
        true => TensorSpec::new(dtype, dense(dtype, &[groups, n, k])?.layout.transpose(1, 2)?),
        false => dense(dtype, &[groups, k, n])?,
    };
    let ends = dense(DType::I32, &[groups])?;
    GroupedMatmul::product(dense(dtype, &[rows, k])?, b, ends, dense(to, &[rows, n])?).check()
}

/// Candidates of the ops that no small op has: a line for each, and how many were looked at. `names` are the candidates of
/// an op, `every` those that it can be checked with (also what is not worth timing for it).
pub fn unchecked(
    ops: &[Op],
    names: impl Fn(&Op) -> Vec<String>,
    every: impl Fn(&Op) -> Vec<String>,
) -> (usize, Vec<String>) {
    let (mut seen, mut missing) = (0, Vec::new());
    for op in ops {
        let small: Vec<Vec<String>> = check_cases(op, Effort::Normal).map(|op| every(&op)).collect();
        for name in names(op) {
            seen += 1;
            if !small.iter().any(|names| find(names.iter().map(String::as_str), &name).is_some()) {
                missing.push(format!("{name} for {op:?}"));
            }
        }
    }
    (seen, missing)
}

fn view(dtype: DType, rows: u64, columns: u64, transposed: bool) -> Result<TensorSpec> {
    let dense = |dims: &[u64]| Shape::new(dims).map(Layout::contiguous);
    let layout = if transposed { dense(&[columns, rows])?.transpose(0, 1)? } else { dense(&[rows, columns])? };
    Ok(TensorSpec::new(dtype, layout))
}
