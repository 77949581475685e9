//! Operations that run as several plans: graphs of other operations, and reduced products whose types or precisions no
//! native kernel reduces in its registers. Kernels in CUDA C++ take the steps that they can, portable kernels the rest;
//! `run.rs` runs them.
//!
//! A reduced product is computed part by part: one kernel computes a part of the product, another reduces its rows or
//! columns. `core/src/ops/reduced_matmul/plan.rs` does the same with portable kernels alone.

use polywarp_core::graph::{Graph, Place};
use polywarp_core::ops::ReducedMatmul;
use polywarp_core::tuner::{Candidate, find};
use polywarp_core::{Op, Operation, Result};

use crate::work::{Composed, Single, Work};

/// Bytes of one part of the product. Each part packs its operands anew, so parts are few; every card has this much
/// memory.
const PART_BYTES: u64 = 256 << 20;
/// Bytes of the product written and read again in a nanosecond: an estimate for ranking alone.
const BYTES_PER_NS: f64 = 2000.0;

/// The way of an operation that is `graph`, each of whose steps `plan` plans; `None` where no native kernel serves any of them.
///
/// # Errors
/// Those of `plan`.
pub(crate) fn of_graph(graph: &Graph, plan: impl Fn(&Op) -> Result<Work>) -> Result<Option<Composed>> {
    let (of, sizes) = graph.buffers();
    let mut composed = Composed::new(sizes);
    let placed = |places: &[Place]| {
        let place = |place: &Place| if let Place::Temp(temp) = *place { Place::Temp(of[temp]) } else { *place };
        places.iter().map(place).collect::<Vec<_>>()
    };
    let is_empty = |op: &Op| op.outputs().iter().all(|output| output.spec.layout.elements() == 0);
    for step in graph.steps.iter().filter(|step| !is_empty(&step.op)) {
        let plan = match plan(&step.op)? {
            Work::Native(plan) => Single::Native(plan),
            Work::Portable(plan) => Single::Portable(plan),
            Work::Composed(parts) => {
                composed.append(parts, &placed(&step.inputs), &placed(&step.outputs));
                continue;
            }
        };
        composed.push(plan, placed(&step.inputs), placed(&step.outputs));
    }
    let has_native = composed.natives().next().is_some();
    Ok(has_native.then_some(composed))
}

/// The ways to reduce a product that `natives` have a way to make: the `most` promising ones, by its first part.
///
/// # Errors
/// Those of planning the reduction.
pub(crate) fn reduced(
    op: &ReducedMatmul,
    natives: impl Fn(&Op) -> Vec<polywarp_kernels::Candidate>,
    caps: &polywarp_core::plan::Caps,
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
        // Portable kernels read whole quads.
        let bytes =
            parts.iter().map(|part| part.product.output.required_bytes().next_multiple_of(16)).max().unwrap_or(0);
        let mut composed = Composed::new(vec![bytes]);
        let mut estimate_ns = op.product.output.bytes() as f64 / BYTES_PER_NS;
        for (part, ways) in parts.iter().zip(&ways) {
            let at = find(ways.iter().map(|way| way.name.as_str()), &wanted.name).unwrap_or(0);
            let Some(way) = ways.get(at) else { return Ok(Vec::new()) };
            let reduction = polywarp_core::ops::plan(&part.reduce().into(), caps)?;
            let inputs = (0..op.inputs().len()).map(Place::Input).collect();
            composed.push(Single::Native(way.plan.clone()), inputs, vec![Place::Temp(0)]);
            composed.push(Single::Portable(reduction), vec![Place::Temp(0)], vec![Place::Output(0)]);
            estimate_ns += way.estimate_ns;
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
        let portable =
            polywarp_core::plan::Caps { f16: true, f64: true, ..polywarp_core::plan::Caps::webgpu_defaults("") };
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
