//! Plans of operations for GPUs: by their own planners ([`Operation::plan`](crate::Operation::plan)), and as the graphs they are.

use super::RowProgram;
use crate::Result;
use crate::operation::Op;
use crate::plan::{Candidate, Caps, Plan};

/// Which state of the portable kernels this is: changes whenever one may compute, or perform, differently.
pub const KERNELS: &str = env!("POLYWARP_SHADERS");

/// How `op` is computed on a device with `caps`: the first of its [`candidates`], without the work of making the others.
///
/// # Errors
/// [`UnsupportedDType`](crate::Error::UnsupportedDType), [`Unsupported`](crate::Error::Unsupported) when no kernel can;
/// [`IndexWidth`](crate::Error::IndexWidth) when a tensor has more elements than kernels can index;
/// [`DispatchTooLarge`](crate::Error::DispatchTooLarge).
pub fn plan(op: &Op, caps: &Caps) -> Result<Plan> {
    let first = match op.plan(caps) {
        Ok(first) if is_own(&first) => first,
        Err(error) if !error.is_unsupported() => return Err(error),
        _ => found(op, caps)?.swap_remove(0).plan,
    };
    caps.or_shorter(op.name(), first, || found(op, caps))
}

/// All the ways to compute `op` on a device with `caps`, what is expected to be fastest first; never none.
///
/// Each is right by its own: conformance tests run every one. On kernels that lean on what a driver may get wrong
/// ([`crate::plan::Source::cooperative`]) a backend should compare a first result before it trusts them.
///
/// # Errors
/// As [`plan`].
pub fn candidates(op: &Op, caps: &Caps) -> Result<Vec<Candidate>> {
    caps.that_run_to_the_end(op.name(), found(op, caps)?)
}

/// The ways of `op`; never none. Those of its own kernels, and what it is made of where there are none, where the device lacks what they
/// need, and beside kernels of another crate.
fn found(op: &Op, caps: &Caps) -> Result<Vec<Candidate>> {
    let found = op.candidates(caps).and_then(|found| checked(op, found, caps));
    match &found {
        Err(error) if !error.is_unsupported() => return found,
        Ok(ways) if ways.iter().all(|way| is_own(&way.plan)) => return found,
        _ => {}
    }
    let Some(graph) = op.decompose()? else { return found };
    let mut found = found.unwrap_or_default();
    graph.check(op.name(), &op.inputs(), &op.outputs())?;
    if !op.is::<RowProgram>() {
        let by_rows = graph.by_rows(ROWS);
        if by_rows != graph {
            let plan = by_rows.plan(|step| plan(step, caps))?;
            found.push(Candidate { name: BY_ROWS.to_owned(), plan, estimate_ns: BY_ROWS_NS });
        }
    }
    match graph.plan(|step| plan(step, caps)) {
        Ok(plan) => found.push(Candidate { name: COMPOSED.to_owned(), plan, estimate_ns: COMPOSED_NS }),
        // A step may take more buffers than the device has, where the steps over the same rows as one do not.
        Err(error) if error.is_unsupported() && !found.is_empty() => {}
        Err(error) => return Err(error),
    }
    Ok(found)
}

/// Refuses what no device could run, of planners that this crate's tests do not know.
fn checked(op: &Op, found: Vec<Candidate>, caps: &Caps) -> Result<Vec<Candidate>> {
    if found.is_empty() {
        return Err(caps.unsupported(op.name(), "its planner offers no kernel"));
    }
    if !found.iter().all(|way| is_own(&way.plan)) {
        let (inputs, outputs) = (op.inputs().len(), op.outputs().len());
        found.iter().try_for_each(|candidate| candidate.plan.check(op.name(), inputs, outputs, caps))?;
    }
    Ok(found)
}

/// Whether kernels of this crate are all that it launches, and there are some.
fn is_own(plan: &Plan) -> bool {
    !plan.launches.is_empty() && plan.launches.iter().all(|launch| launch.kernel.is_own())
}

/// What steps over the same rows are called together.
const ROWS: &str = "rows";
/// The name of the way by other operations in which steps over the same rows are joined into one.
const BY_ROWS: &str = "rows";
const BY_ROWS_NS: f64 = 1e14;
/// The name of the way by other operations.
pub(super) const COMPOSED: &str = "composed";
/// Behind every kernel that has an estimate.
pub(super) const COMPOSED_NS: f64 = 1e15;
