//! Operations that run as several plans: graphs of other operations, and reduced products whose types or precisions no
//! native kernel reduces in its registers. Kernels in CUDA C++ run the steps that they can, portable kernels the rest.
//!
//! A reduced product is computed part by part: one kernel computes a part of the product, another reduces its rows or
//! columns. `core/src/ops/reduced_matmul/plan.rs` does the same with portable kernels alone.

use polywarp_core::graph::{Graph, Place};
use polywarp_core::ops::ReducedMatmul;
use polywarp_core::tuner::{Candidate, find};
use polywarp_core::{Backend, Buffer, Error, Op, Operation, Result};

use crate::candidates::Work;
use crate::device::CudaBackend;

/// Bytes of one part of the product. Each part packs its operands anew, so parts are few; every card has this much
/// memory.
const PART_BYTES: u64 = 256 << 20;
/// Bytes of the product written and read again in a nanosecond: an estimate for ranking alone.
const BYTES_PER_NS: f64 = 2000.0;

/// A plan of kernels of one kind.
#[derive(Clone, Debug)]
enum Single {
    Native(polywarp_kernels::Plan),
    Portable(polywarp_core::plan::Plan),
}

impl Single {
    fn scratch_bytes(&self) -> &[u64] {
        match self {
            Single::Native(plan) => &plan.scratch_bytes,
            Single::Portable(plan) => &plan.scratch_bytes,
        }
    }
}

/// One plan, and where its operands lie.
#[derive(Clone, Debug)]
struct Part {
    plan: Single,
    inputs: Vec<Place>,
    outputs: Vec<Place>,
}

/// A way of several plans, one after the other.
#[derive(Clone, Debug)]
pub struct Composed {
    parts: Vec<Part>,
    /// How many of the buffers below are temporaries; `Place::Temp` numbers them.
    temps: usize,
    /// Temporaries, then what any of the plans needs.
    scratch_bytes: Vec<u64>,
}

impl Composed {
    fn new(temps: Vec<u64>) -> Composed {
        Composed { parts: Vec::new(), temps: temps.len(), scratch_bytes: temps }
    }

    fn push(&mut self, plan: Single, inputs: Vec<Place>, outputs: Vec<Place>) {
        let mut beside = self.scratch_bytes.split_off(self.temps);
        polywarp_core::plan::share_scratch(&mut beside, plan.scratch_bytes().iter().copied());
        self.scratch_bytes.extend(beside);
        self.parts.push(Part { plan, inputs, outputs });
    }

    /// Adds the parts of `other`, whose operands lie at these places here.
    fn append(&mut self, other: Composed, inputs: &[Place], outputs: &[Place]) {
        let (first, temps) = (self.temps, other.temps);
        self.scratch_bytes.splice(first..first, other.scratch_bytes[..temps].iter().copied());
        self.temps += temps;
        let place = |place: &Place| match *place {
            Place::Input(number) => inputs[number],
            Place::Output(number) => outputs[number],
            Place::Temp(number) => Place::Temp(first + number),
        };
        for Part { plan, inputs, outputs } in other.parts {
            self.push(plan, inputs.iter().map(place).collect(), outputs.iter().map(place).collect());
        }
    }

    /// Its plans of kernels in CUDA C++.
    pub(crate) fn natives(&self) -> impl Iterator<Item = &polywarp_kernels::Plan> {
        self.parts.iter().filter_map(|part| if let Single::Native(plan) = &part.plan { Some(plan) } else { None })
    }

    /// Its plans of kernels in WGSL.
    pub(crate) fn portables(&self) -> impl Iterator<Item = &polywarp_core::plan::Plan> {
        self.parts.iter().filter_map(|part| if let Single::Portable(plan) = &part.plan { Some(plan) } else { None })
    }

    /// Bytes of temporaries, and of scratch buffers beside them.
    pub(crate) fn scratch_bytes(&self) -> &[u64] {
        &self.scratch_bytes
    }

    /// Runs, or records, all parts: all of them or none.
    pub(crate) fn run(&self, backend: &CudaBackend, inputs: &[&Buffer], outputs: &[&Buffer]) -> Result<()> {
        let temps = self.scratch_bytes[..self.temps].iter().map(|&bytes| backend.alloc(bytes));
        let temps = temps.collect::<Result<Vec<Buffer>>>()?;
        // All kernels exist before the first part is enqueued.
        backend.load_all(self)?;
        let find = |place: &Place| {
            let found = match *place {
                Place::Input(number) => inputs.get(number).copied(),
                Place::Output(number) => outputs.get(number).copied(),
                Place::Temp(number) => temps.get(number),
            };
            let reason = || format!("it names {place:?}, which there is not");
            found.ok_or_else(|| Error::InvalidArgument { what: "plan", reason: reason() })
        };
        let recorded = backend.recorders().with(|tape| tape.len());
        let given = self.parts.iter().try_for_each(|part| {
            let read = part.inputs.iter().map(find).collect::<Result<Vec<_>>>()?;
            let written = part.outputs.iter().map(find).collect::<Result<Vec<_>>>()?;
            match &part.plan {
                Single::Native(plan) => backend.run_planned(plan, &read, &written),
                Single::Portable(plan) => backend.run_plan(plan, &read, &written),
            }
        });
        if let (Err(_), Some(len)) = (&given, recorded) {
            backend.recorders().with(|tape| tape.truncate(len));
        }
        given
    }
}

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
