//! Counts of whole numbers: zeros, then one launch of `wgsl/bincount.wgsl`.

use crate::ops::{Bincount, Map};
use crate::plan::looped;
use crate::{DType, Expr, Operation, Program, Result};

use crate::ops::reduce::plan::template::check_index;
use crate::plan::{Access, Caps, KernelKey, KernelText, Launch, Plan, Slot, Source};
use crate::wgsl::element::{Element, Form};

/// Threads of one workgroup; WebGPU guarantees 256.
const THREADS: u32 = 256;
/// Elements of a thread: a workgroup's counts are added to memory once for 4096 elements.
const ITEMS: u32 = 16;
/// The most bins that are counted in workgroup memory: 8 KiB of the 16 that WebGPU guarantees.
const MOST_BINS: u64 = 2048;

/// Specialisation.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kernel {
    threads: u32,
    /// Counted in workgroup memory.
    bins: u32,
}

impl KernelText for Kernel {
    fn source(&self) -> Source {
        let mut text =
            format!("const THREADS = {}u;\nconst ITEMS = {ITEMS}u;\nconst BINS = {}u;\n", self.threads, self.bins);
        text += "struct Params { elements: u32, bins: u32, x_base: u32, y_base: u32 }\n";
        text += "@group(0) @binding(0) var<uniform> params: Params;\n";
        text += &Element::raw(4).storage(1, "x", Form::Scalar, Access::Read);
        text += "@group(0) @binding(2) var<storage, read_write> y: array<atomic<u32>>;\n\n";
        text += include_str!("../../../wgsl/bincount.wgsl");
        let name = if self.bins > 0 { "bincount_few" } else { "bincount_many" };
        Source { name: name.to_owned(), wgsl: text, bindings: vec![Access::Read, Access::ReadWrite] }
    }

    fn loop_rounds(&self, _: &[u32]) -> u64 {
        2 * looped(u64::from(self.bins.div_ceil(self.threads)), 0) + looped(ITEMS.into(), 0)
    }
}

pub(crate) fn plan(op: &Bincount, caps: &Caps) -> Result<Plan> {
    check_index(op.name(), &op.indices)?;
    check_index(op.name(), &op.output)?;
    let zero = Program::compile(&Expr::constant(0).cast(DType::U32), &[])?;
    let mut plan = crate::ops::map::plan::plan(&Map::new(op.name(), zero, Vec::new(), op.output)?, caps)?;
    let (elements, bins) = (op.indices.layout.elements(), op.bins());
    if elements == 0 || bins == 0 {
        return Ok(plan);
    }
    // An i32 below zero is a u32 from 2^31, which more bins would reach.
    let bins = if op.indices.dtype == DType::I32 { bins.min(1 << 31) } else { bins };
    let threads = THREADS.min(caps.max_invocations);
    let in_workgroup = if bins <= MOST_BINS { MOST_BINS as u32 } else { 0 };
    let mut params: Vec<u32> =
        [elements, bins, op.indices.layout.offset(), op.output.layout.offset()].map(|word| word as u32).to_vec();
    params.resize(params.len().next_multiple_of(4), 0);
    let grid = caps.fold_grid(elements.div_ceil((threads * ITEMS).into()))?;
    let kernel = KernelKey::own(Kernel { threads, bins: in_workgroup });
    plan.launches.push(Launch { kernel, grid, bindings: vec![Slot::Input(0), Slot::Output(0)], params });
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use crate::{Layout, Op, Shape, TensorSpec};

    use super::*;
    use crate::wgsl::validate::{Validated, full_caps};

    #[test]
    fn few_bins_and_many_validate_and_are_two_kernels() {
        let mut validated = Validated::default();
        for caps in [full_caps(), Caps::webgpu_defaults("test")] {
            for bins in [1, 2048, 2049] {
                let indices = TensorSpec::new(DType::I32, Layout::contiguous(Shape::new(&[9]).unwrap()));
                let op: Op = Bincount::new(indices, bins).unwrap().into();
                let plan = crate::ops::plan(&op, &caps).unwrap();
                assert_eq!(plan.launches.len(), 2);
                validated.check(&plan.launches[1..], &caps);
            }
        }
        assert_eq!(validated.kernels(), 2);
    }
}
