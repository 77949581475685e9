//! Elements put into places along an axis: a copy of the input, the positions of each line sorted by the place that they name (`sort.rs`), then
//! one launch of `wgsl/scatter_last.wgsl` or `wgsl/scatter_fold.wgsl`.
//!
//! The sort is stable, so the last of equal positions wins, and sums come in one order without atomics.

use crate::ops::{Copy, Scatter, ScatterFn};
use crate::plan::{KernelText, looped, share_scratch};
use crate::{Operation, Result};

use crate::ops::elements::{named, words};
use crate::ops::sort::plan::{self as sort, Pairs};
use crate::plan::{Access, Caps, KernelKey, Launch, Plan, Slot, Source};
use crate::wgsl::element::{self, Element, Form};
use crate::wgsl::index::{check_index, decode};
use crate::wgsl::math;
use crate::wgsl::params::{axis_names, uniform};
use crate::wgsl::pieces::{Pieces, holes, pieces};

const TEXT: Pieces = pieces!("scatter.wgsl");

/// Invocations of a workgroup.
const THREADS: u32 = 256;
/// Words of `Params` before extents and strides.
const MEMBERS: [&str; 8] = ["total", "count", "extent", "s_base", "s_stride", "y_base", "y_line", "inner"];
const COUNT: usize = 1;

/// What the first position of a place makes of what it held, and of the elements of those behind it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    function: ScatterFn,
    element: Element,
    /// Words of an element of the operands.
    words: u64,
    /// Axes besides the one along which elements go.
    axes: u8,
    threads: u32,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let axes = usize::from(self.axes);
        let mut text = uniform(MEMBERS.map(str::to_owned).into_iter().chain(axis_names("es", axes)));
        text += &format!("const THREADS = {}u;\nconst WORDS = {}u;\n", self.threads, self.words);
        text += &format!("alias Value = {};\nstruct Pair {{ key: u32, place: u32 }}\n", self.element.scalar());
        text += &self.element.storage(1, "s", Form::Scalar, Access::Read);
        text += "@group(0) @binding(2) var<storage, read> pairs: array<Pair>;\n";
        text += &self.element.storage(3, "y", Form::Scalar, Access::ReadWrite);
        text += &decode("source_of", "params.s_base", 's', axes);
        let loops = match self.function.binary() {
            None => include_str!("../../../wgsl/scatter_last.wgsl"),
            Some(f) => {
                let value = math::binary(f, self.element.dtype(), "a", "b");
                text += &TEXT.fill("combine", holes!(value));
                include_str!("../../../wgsl/scatter_fold.wgsl")
            }
        };
        text += "\n";
        text += loops;
        let wide = if self.words == 2 { "_pairs" } else { "" };
        let name = format!("{}{wide}_{}", self.function.name(), self.element.dtype());
        let text = element::prelude(&[self.element]) + &math::library(&text) + &text;
        Source { name, wgsl: text, bindings: vec![Access::Read, Access::Read, Access::ReadWrite] }
    }

    /// As if all positions of a line named one place.
    fn loop_rounds(&self, params: &[u32]) -> u64 {
        let count = params.get(COUNT).copied().map_or(u64::from(u32::MAX), u64::from);
        if self.function == ScatterFn::Set { 0 } else { looped(count, 0) }
    }
}

pub(crate) fn plan(op: &Scatter, caps: &Caps) -> Result<Plan> {
    let dtype = op.output.dtype;
    let (element, words) = match op.function.binary() {
        None => (Element::raw(dtype.size_bytes()), words(dtype)),
        Some(f) => {
            math::require_binary(f, dtype, caps)?;
            let element = Element::new(dtype, caps)?;
            (if op.function.chooses() { element.kept() } else { element }, 1)
        }
    };
    let mut plan = crate::ops::copy::plan::plan(&Copy::new(op.input, op.output)?, caps)?;
    if op.source.layout.elements() == 0 {
        return Ok(plan);
    }
    [op.source, op.output].iter().try_for_each(|spec| check_index(op.name(), spec))?;
    let (outer, inner) = op.output.layout.dims().split_at(op.axis + 1);
    let (whole, inner) = (outer[op.axis], inner.iter().product::<u64>());
    let extent = named(op.indices.dtype, whole);
    let Pairs { plan: sorted, slot } = sort::places(op.name(), (1, &op.indices), op.axis, extent, caps)?;
    let source = op.source.layout.slice(op.axis, 0, 1, 1)?.collapse();
    let threads = THREADS.min(caps.max_invocations);
    let total = op.source.layout.elements() * words;
    // Strides may be negative: words wrap as two's complement.
    let stride = op.source.layout.strides()[op.axis] as u64;
    let members = [total, op.count(), extent, op.source.layout.offset(), stride];
    let mut params: Vec<u64> = members.into_iter().chain([op.output.layout.offset(), whole * inner, inner]).collect();
    params.extend(source.dims().iter().rev());
    params.extend(source.strides().iter().rev().map(|&stride| stride as u64));
    let params = params.into_iter().map(|word| word as u32).collect();
    let kernel = Kernel { function: op.function, element, words, axes: source.rank() as u8, threads };
    let grid = caps.fold_grid(total.div_ceil(threads.into()))?;
    let bindings = vec![Slot::Input(2), slot, Slot::Output(0)];
    plan.launches.extend(sorted.launches);
    plan.launches.push(Launch { kernel: KernelKey::own(kernel), grid, bindings, params });
    share_scratch(&mut plan.scratch_bytes, sorted.scratch_bytes);
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use crate::{DType, Layout, Shape, TensorSpec};

    use super::*;
    use crate::wgsl::validate::{Validated, full_caps};

    #[test]
    fn every_function_dtype_and_axis_validates() {
        let mut validated = Validated::default();
        let dense = |dtype, dims: &[u64]| TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()));
        for caps in [full_caps(), Caps::webgpu_defaults("test")] {
            for (dtype, function) in DType::ALL.iter().flat_map(|&dtype| ScatterFn::ALL.map(|f| (dtype, f))) {
                for (axis, at) in [(0, [9, 3, 4]), (2, [2, 3, 9])] {
                    let (x, source) = (dense(dtype, &[2, 3, 4]), dense(dtype, &at));
                    let Ok(op) = Scatter::new(function, x, dense(DType::I32, &at), source, axis) else {
                        assert!(dtype == DType::Bool && function != ScatterFn::Set);
                        continue;
                    };
                    match plan(&op, &caps) {
                        Ok(plan) => validated.check(&plan.launches, &caps),
                        Err(error) => assert!(error.is_unsupported() && caps.require(dtype).is_err(), "{error}"),
                    }
                }
            }
        }
    }
}
