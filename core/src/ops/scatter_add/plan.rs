//! Sums of rows by place: zeros, the positions sorted by the row that they name (`sort.rs`), then one launch of `wgsl/scatter_add.wgsl`.
//!
//! The sort is stable, so sums come in the order of the positions, without atomic additions: they have the same bits at each run.

use crate::ops::elements::named;
use crate::ops::{Map, ScatterAdd};
use crate::plan::looped;
use crate::{Error, Expr, Layout, Operation, Program, Result, Shape, TensorSpec};

use crate::ops::sort::plan::{self as sort, Pairs};
use crate::plan::{Access, Caps, KernelKey, KernelText, Launch, Plan, Slot, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::params::uniform;

/// Invocations of a workgroup.
const THREADS: u32 = 256;
/// Columns of an invocation where rows are longer than a workgroup.
const COLUMNS: u64 = 4;
/// Positions of a row whose values are loaded before the first is added.
const DEPTH: u64 = 8;

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    element: Element,
    threads: u32,
    columns: u64,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let mut text = element::prelude(&[self.element]);
        text += &format!("const THREADS = {}u;\nconst COLUMNS = {}u;\n", self.threads, self.columns);
        text += &format!("const DEPTH = {DEPTH}u;\nalias Sum = {};\n", self.element.scalar());
        text += "struct Pair { key: u32, place: u32 }\n\n";
        text += &uniform(["positions", "runs", "lanes", "row", "rows", "x_offset", "x_stride", "y_offset"]);
        text += &self.element.storage(1, "x", Form::Scalar, Access::Read);
        text += "@group(0) @binding(2) var<storage, read> pairs: array<Pair>;\n";
        text += &self.element.storage(3, "y", Form::Scalar, Access::ReadWrite);
        text += "\n";
        text += include_str!("../../../wgsl/scatter_add.wgsl");
        let bindings = vec![Access::Read, Access::Read, Access::ReadWrite];
        let long = if self.columns > 1 { "_long" } else { "" };
        Source { name: format!("scatter_add{long}_{}", self.element.dtype()), wgsl: text, bindings }
    }

    /// As if all positions named one row.
    fn loop_rounds(&self, params: &[u32]) -> u64 {
        let positions = u64::from(params.first().copied().unwrap_or(0));
        let adding = looped(DEPTH, 0) + looped(self.columns, 2 * looped(DEPTH, 0));
        looped(positions / DEPTH + 1, adding) + looped(self.columns, 0)
    }
}

pub(crate) fn plan(op: &ScatterAdd, caps: &Caps) -> Result<Plan> {
    let zero = Program::compile(&Expr::constant(0).cast(op.output.dtype), &[])?;
    let zeros = crate::ops::map::plan::plan(&Map::new(op.name(), zero, Vec::new(), op.output)?, caps)?;
    let (positions, row) = (op.indices.layout.elements(), op.row());
    if positions == 0 || row == 0 {
        return Ok(zeros);
    }
    let reach = [&op.values.layout, &op.output.layout].map(|layout| layout.required_elements());
    let reach = reach[0].max(reach[1]);
    if reach > u64::from(u32::MAX) {
        return Err(Error::IndexWidth { op: op.name(), elements: reach, max: u32::MAX.into() });
    }
    let rows = named(op.indices.dtype, op.rows());
    let line = Layout::contiguous(Shape::new(&[positions])?).with_offset(op.indices.layout.offset());
    let indices = TensorSpec::new(op.indices.dtype, line);
    let Pairs { plan: sorted, slot } = sort::places(op.name(), (1, &indices), 0, rows, caps)?;
    let threads = 1 << THREADS.min(caps.max_invocations).ilog2();
    let lanes = row.next_power_of_two().min(threads);
    let columns = if row > threads { COLUMNS } else { 1 };
    let kernel = Kernel { element: Element::new(op.output.dtype, caps)?, threads: threads as u32, columns };
    let runs = row.div_ceil(lanes * columns);
    // The distance may be negative: offsets wrap, sums do not.
    let distance = op.distance().unwrap_or(0);
    let mut params: Vec<u32> = [positions, runs, lanes, row, rows].map(|n| n as u32).to_vec();
    params.extend([op.values.layout.offset() as u32, distance as u32, op.output.layout.offset() as u32]);
    let grid = caps.fold_grid(positions.saturating_mul(runs).div_ceil(threads / lanes))?;
    let adding =
        Launch { kernel: KernelKey::own(kernel), grid, bindings: vec![Slot::Input(0), slot, Slot::Output(0)], params };
    let launches = [zeros.launches, sorted.launches, vec![adding]].concat();
    Ok(Plan { launches, scratch_bytes: sorted.scratch_bytes })
}

#[cfg(test)]
mod tests {
    use crate::DType;

    use super::*;
    use crate::wgsl::validate::{Validated, full_caps};

    #[test]
    fn every_float_and_length_validates() {
        let mut validated = Validated::default();
        for caps in [full_caps(), Caps::webgpu_defaults("test")] {
            for dtype in DType::FLOATS.into_iter().filter(|&dtype| caps.require(dtype).is_ok()) {
                for (positions, row) in [(9, 5), (5000, 1), (9, 2000)] {
                    let dense =
                        |dtype, dims: &[u64]| TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()));
                    let indices = dense(DType::I32, &[positions]);
                    let op = ScatterAdd::new(dense(dtype, &[positions, row]), indices, 400).unwrap();
                    validated.check(&plan(&op, &caps).unwrap().launches, &caps);
                }
            }
        }
    }
}
