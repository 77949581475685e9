//! What cases of several families share: sizes at the edges of vectors, subgroups, workgroups and grids, and programs to run.
//!
//! What makes an operation for a case, and what adds one, is not inlined, here and in the files of families that have many: at a
//! thousand calls it was a third of a megabyte of every program.

use crate::ops::Map;
use crate::{Expr, Op, Program, Result, TensorSpec};

pub(crate) use crate::DType;
pub(crate) use crate::case::{BenchCase, BenchSize, Case, LayoutKind, Level, Metric, Suite, Values, output};

/// Whether a dtype has fewer cases in quick runs: others have its width and its way of computing, and all of theirs.
pub(crate) fn is_brief(dtype: DType) -> bool {
    matches!(dtype, DType::I16 | DType::U16 | DType::U64)
}

/// Element counts at the edges of words, vectors, subgroups and workgroups.
pub(crate) fn sizes(level: Level) -> Vec<u64> {
    level.list(
        &[0, 1, 2, 5, 31, 64, 255, 256, 257, 1023, 1025, 65_537],
        &[3, 7, 32, 33, 63, 65, 127, 128, 129, 1024, 4095, 4096, 4097, 65_535, 65_536, 1_048_583],
    )
}

/// Extents for one axis of something whose cost is a product of extents.
pub(crate) fn extents(level: Level) -> Vec<u64> {
    level.list(&[1, 2, 31, 65, 257, 1025], &[3, 5, 7, 32, 33, 63, 64, 127, 128, 129, 255, 256, 1023, 1024])
}

/// One more element than 65,535 workgroups of 256 invocations reach in one dimension of a grid.
pub(crate) const BEYOND_ONE_GRID_ROW: u64 = 65_535 * 256 + 1;

/// Shapes of every rank, and of rank 3 with each extent zero in turn.
pub(crate) fn ranks() -> Vec<Vec<u64>> {
    let mut all: Vec<Vec<u64>> = (0..=8).map(|rank| [3, 2, 5, 1, 2, 3, 2, 7][..rank].to_vec()).collect();
    all.extend([vec![0, 3, 5], vec![3, 0, 5], vec![3, 5, 0], vec![0, 0, 0]]);
    all
}

/// An elementwise op over inputs of the output's shape.
#[inline(never)]
pub(crate) fn map(label: &'static str, expr: &Expr, inputs: Vec<TensorSpec>, dims: &[u64]) -> Result<Map> {
    let dtypes: Vec<DType> = inputs.iter().map(|input| input.dtype).collect();
    let program = Program::compile(expr, &dtypes)?;
    let out = output(program.dtype(), dims)?;
    Map::new(label, program, inputs, out)
}

/// An elementwise op of several results. It reads `inputs` and the outputs that it updates: the first ones, of the dtypes `updated`.
#[inline(never)]
pub(crate) fn several(
    label: &'static str,
    exprs: &[Expr],
    inputs: Vec<TensorSpec>,
    updated: &[DType],
    dims: &[u64],
) -> Result<Map> {
    let dtypes: Vec<DType> = inputs.iter().map(|input| input.dtype).chain(updated.iter().copied()).collect();
    let program = Program::compile_all(exprs, &dtypes)?;
    let outputs =
        (0..exprs.len()).map(|number| output(program.result_dtype(number), dims)).collect::<Result<Vec<_>>>()?;
    Map::several(label, program, inputs, &outputs, updated.len())
}

/// An elementwise op over dense inputs of these dtypes.
#[inline(never)]
pub(crate) fn dense_map(label: &'static str, expr: &Expr, dtypes: &[DType], dims: &[u64]) -> Result<Map> {
    strided_map(label, expr, dtypes, &vec![LayoutKind::Dense; dtypes.len()], dims)
}

/// An elementwise op over inputs of these dtypes and kinds of layout.
#[inline(never)]
pub(crate) fn strided_map(
    label: &'static str,
    expr: &Expr,
    dtypes: &[DType],
    kinds: &[LayoutKind],
    dims: &[u64],
) -> Result<Map> {
    let inputs = dtypes.iter().zip(kinds).map(|(&dtype, kind)| kind.spec(dtype, dims)).collect::<Result<Vec<_>>>()?;
    map(label, expr, inputs, dims)
}

/// Adds a case; see [`Case::push`].
#[inline(never)]
pub(crate) fn add(cases: &mut Vec<Case>, family: &'static str, op: Result<impl Into<Op>>, values: &[Values]) {
    Case::push(cases, family, op, values.to_vec());
}

/// The axes of a case; all of `rank` for an empty list.
pub(crate) fn axes_or_all(axes: &[usize], rank: usize) -> Vec<usize> {
    if axes.is_empty() { (0..rank).collect() } else { axes.to_vec() }
}

/// Keeps the first of cases with one name: lists of sizes and layouts meet in places.
pub(crate) fn unique(cases: Vec<Case>) -> Vec<Case> {
    let mut seen = std::collections::HashSet::new();
    cases.into_iter().filter(|case| seen.insert(case.name.clone())).collect()
}
