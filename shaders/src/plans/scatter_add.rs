//! Sums of rows by place: zeros, then one launch of `wgsl/scatter_add.wgsl`.
//!
//! The sums come in the order of the positions, without atomic additions, so that they have the same bits at each run.

use polywarp_core::ops::{Map, ScatterAdd};
use polywarp_core::plan::looped;
use polywarp_core::{Error, Expr, Operation, Program, Result};

use crate::element::{self, Element, Form};
use crate::{Access, Caps, KernelKey, Launch, Plan, Slot, Source};

/// Invocations of a workgroup, a multiple of 32.
const THREADS: u32 = 256;
/// Columns of an invocation: a row of 1024 elements is one workgroup's.
const COLUMNS: u64 = 4;
/// Positions of a row whose values are loaded before the first is added.
const DEPTH: u64 = 8;

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    element: Element,
    threads: u32,
}

pub(crate) fn plan(op: &ScatterAdd, caps: &Caps) -> Result<Plan> {
    let zero = Program::compile(&Expr::constant(0).cast(op.output.dtype), &[])?;
    let mut plan = super::map::plan(&Map::new(op.name(), zero, Vec::new(), op.output)?, caps)?;
    let (positions, row) = (op.indices.layout.elements(), op.row());
    if positions == 0 || row == 0 {
        return Ok(plan);
    }
    let reach = [&op.values.layout, &op.output.layout].map(|layout| layout.required_elements());
    let reach = reach[0].max(reach[1]);
    if reach > u64::from(u32::MAX) {
        return Err(Error::IndexWidth { op: op.name(), elements: reach, max: u32::MAX.into() });
    }
    let threads = THREADS.min(caps.max_invocations) / 32 * 32;
    let kernel = Kernel { element: Element::new(op.output.dtype, caps)?, threads };
    let runs = row.div_ceil(u64::from(threads) * COLUMNS);
    // The distance may be negative: offsets wrap, sums do not.
    let distance = op.distance().unwrap_or(0);
    let mut params: Vec<u32> = [positions, runs, row, op.rows(), op.indices.layout.offset()].map(|n| n as u32).to_vec();
    params.extend([op.values.layout.offset() as u32, distance as u32, op.output.layout.offset() as u32]);
    params.resize(params.len().next_multiple_of(4), 0);
    let grid = caps.fold_grid(positions.saturating_mul(runs))?;
    let bindings = vec![Slot::Input(0), Slot::Input(1), Slot::Output(0)];
    plan.launches.push(Launch { kernel: KernelKey::new(kernel), grid, bindings, params });
    Ok(plan)
}

impl Kernel {
    /// Positions before its own, by all threads; then passes over the rest, in which each position's bit and columns take a round.
    pub(crate) fn loop_rounds(&self, params: &[u32]) -> u64 {
        let (positions, threads) = (u64::from(params.first().copied().unwrap_or(0)), u64::from(self.threads));
        let passes = positions.div_ceil(threads);
        let adding = looped(DEPTH, 0) + looped(COLUMNS, 2 * looped(DEPTH, 0));
        let rounds = positions.div_ceil(DEPTH).saturating_add(passes);
        looped(passes, looped(threads / 32, 0)) + looped(passes, 0) + looped(rounds, adding) + looped(COLUMNS, 0)
    }

    pub(crate) fn source(&self) -> Source {
        let index = Element::raw(4);
        let mut text = element::prelude(&[self.element, index]);
        let words = self.threads / 32;
        text += &format!("const THREADS = {}u;\nconst WORDS = {words}u;\nconst COLUMNS = {COLUMNS}u;\n", self.threads);
        text += &format!("const DEPTH = {DEPTH}u;\n");
        text += &format!("alias Sum = {};\n\nstruct Params {{\n", self.element.scalar());
        for member in ["positions", "runs", "row", "rows", "at_offset", "x_offset", "x_stride", "y_offset"] {
            text += &format!("    {member}: u32,\n");
        }
        text += "}\n@group(0) @binding(0) var<uniform> params: Params;\n";
        text += &self.element.storage(1, "x", Form::Scalar, Access::Read);
        text += &index.storage(2, "at", Form::Scalar, Access::Read);
        text += &self.element.storage(3, "y", Form::Scalar, Access::ReadWrite);
        text += "\n";
        text += include_str!("../../wgsl/scatter_add.wgsl");
        let bindings = vec![Access::Read, Access::Read, Access::ReadWrite];
        Source { name: format!("scatter_add_{}", self.element.dtype()), wgsl: text, bindings }
    }
}

#[cfg(test)]
mod tests {
    use polywarp_core::{DType, Layout, Shape, TensorSpec};

    use super::*;
    use crate::validate::{Validated, full_caps};

    #[test]
    fn every_float_validates() {
        let mut validated = Validated::default();
        for caps in [full_caps(), Caps::webgpu_defaults("test")] {
            for dtype in DType::FLOATS.into_iter().filter(|&dtype| caps.require(dtype).is_ok()) {
                let dense = |dtype, dims: &[u64]| {
                    TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
                };
                let op = ScatterAdd::new(dense(dtype, &[9, 5]), dense(DType::I32, &[9]), 4).unwrap();
                validated.check(&plan(&op, &caps).unwrap().launches, &caps);
            }
        }
    }

    #[test]
    fn threads_are_whole_words_of_marks() {
        let caps = Caps { max_invocations: 100, ..Caps::webgpu_defaults("test") };
        let dense = |dtype, dims: &[u64]| TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()));
        let op = ScatterAdd::new(dense(DType::F32, &[9, 5]), dense(DType::I32, &[9]), 4).unwrap();
        let plan = plan(&op, &caps).unwrap();
        assert!(plan.launches[1].kernel.source().wgsl.contains("const THREADS = 96u;"));
    }
}
