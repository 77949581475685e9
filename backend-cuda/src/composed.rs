//! Ops of which kernels in CUDA C++ do a part, and portable kernels the rest: reductions of products whose types or precisions no
//! native kernel reduces in its registers.
//!
//! The product is made by one, the number of each row or column by the other, a part of the product after the other, as
//! `shaders/src/plans/reduced_matmul.rs` does it with portable kernels alone.

use polywarp_core::ops::ReducedMatmul;
use polywarp_core::tuner::{Candidate, find};
use polywarp_core::{Backend, Buffer, Op, Result};

use crate::candidates::Work;
use crate::device::CudaBackend;

/// Bytes of the product that there are at a time: each part packs its operands anew, so few parts, of what no card lacks.
const PART_BYTES: u64 = 256 << 20;
/// Bytes of the product that are written and read again in a nanosecond, for ranking alone.
const BYTES_PER_NS: f64 = 2000.0;

/// A way of several plans.
#[derive(Clone, Debug)]
pub struct Composed {
    /// What makes each part of the product, in the same place, and what reduces it.
    parts: Vec<(polywarp_kernels::Plan, polywarp_shaders::Plan)>,
    /// That place, then what any of the plans needs.
    scratch_bytes: Vec<u64>,
}

impl Composed {
    /// Its plans of kernels in CUDA C++.
    pub(crate) fn natives(&self) -> impl Iterator<Item = &polywarp_kernels::Plan> {
        self.parts.iter().map(|part| &part.0)
    }

    /// Its plans of kernels in WGSL.
    pub(crate) fn portables(&self) -> impl Iterator<Item = &polywarp_shaders::Plan> {
        self.parts.iter().map(|part| &part.1)
    }

    /// Bytes of the product's place, and of scratch buffers beside it.
    pub(crate) fn scratch_bytes(&self) -> &[u64] {
        &self.scratch_bytes
    }

    /// Runs, or records, all parts: all of them or none.
    pub(crate) fn run(&self, backend: &CudaBackend, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        let place = backend.alloc(self.scratch_bytes.first().copied().unwrap_or(0))?;
        let recorded = backend.recorders().with(|tape| tape.len());
        let given = self.parts.iter().try_for_each(|(product, reduction)| {
            backend.run_planned(product, inputs, &[&place])?;
            backend.run_plan(reduction, &[&place], outputs)
        });
        if let (Err(_), Some(len)) = (&given, recorded) {
            backend.recorders().with(|tape| tape.truncate(len));
        }
        given
    }
}

/// The ways to reduce a product that `natives` have a way to make: the `most` promising ones, by its first part.
///
/// # Errors
/// Those of planning the reduction.
pub(crate) fn reduced(
    op: &ReducedMatmul,
    natives: impl Fn(&Op) -> Vec<polywarp_kernels::Candidate>,
    caps: &polywarp_shaders::Caps,
    most: usize,
) -> Result<Vec<Candidate<Work>>> {
    if op.product.output.layout.elements() == 0 {
        return Ok(Vec::new());
    }
    let parts = op.parts(PART_BYTES);
    let ways: Vec<_> = parts.iter().map(|part| natives(&part.product.clone().into())).collect();
    let Some(first) = ways.first() else { return Ok(Vec::new()) };
    let mut found = Vec::new();
    for wanted in first.iter().take(most) {
        let mut composed = Composed { parts: Vec::new(), scratch_bytes: Vec::new() };
        let mut estimate_ns = op.product.output.bytes() as f64 / BYTES_PER_NS;
        for (part, ways) in parts.iter().zip(&ways) {
            let at = find(ways.iter().map(|way| way.name.as_str()), &wanted.name).unwrap_or(0);
            let Some(way) = ways.get(at) else { return Ok(Vec::new()) };
            let reduction = polywarp_shaders::plan(&part.reduce().into(), caps)?;
            // Portable kernels read whole quads.
            let bytes = part.product.output.required_bytes().next_multiple_of(16);
            let needed =
                [bytes].into_iter().chain(way.plan.scratch_bytes.iter().chain(&reduction.scratch_bytes).copied());
            polywarp_shaders::share_scratch(&mut composed.scratch_bytes, needed);
            estimate_ns += way.estimate_ns;
            composed.parts.push((way.plan.clone(), reduction));
        }
        let name = format!("composed_{}", wanted.name);
        found.push(Candidate { name, estimate_ns, plan: Work::Composed(composed) });
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use polywarp_core::harness::products::{products, unchecked};
    use polywarp_kernels::{Caps, candidates, every};

    use super::*;

    /// What cannot be checked with a small op before its first use is never chosen.
    #[test]
    fn every_composed_way_is_had_for_an_op_small_enough_to_check_it() {
        let ops: Vec<Op> = products().unwrap().into_iter().filter(|op| op.is::<ReducedMatmul>()).collect();
        let portable = polywarp_shaders::Caps { f16: true, f64: true, ..polywarp_shaders::Caps::webgpu_defaults("") };
        for caps in [Caps::h200(), Caps::a100(), Caps::rtx_4090()] {
            let ways = |op: &Op, natives: &dyn Fn(&Op) -> Vec<polywarp_kernels::Candidate>| {
                let Some(op) = op.get::<ReducedMatmul>() else { return Vec::new() };
                let found = reduced(op, natives, &portable, usize::MAX).unwrap();
                found.into_iter().map(|way| way.name).collect()
            };
            let offered = |op: &Op| ways(op, &|op| candidates(op, &caps));
            let all = |op: &Op| ways(op, &|op| every(op, &caps));
            let (seen, missing) = unchecked(&ops, offered, all);
            println!("sm_{}: {seen} composed ways", caps.sm);
            assert!(
                seen > 100 && missing.is_empty(),
                "{} of {seen} cannot be checked: {:?}",
                missing.len(),
                missing.first()
            );
        }
    }
}
