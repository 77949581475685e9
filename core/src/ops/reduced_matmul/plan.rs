//! Reductions of matrix products: the product by `matmul.rs` into scratch space, its reduction by `reduce.rs`, a part of D after
//! the other.
//!
//! Parts bound what a D takes that nobody asked for, and one that was just written is found in a large cache.

use crate::Result;
use crate::ops::ReducedMatmul;
use crate::tuned::find;

use crate::ops::matmul::plan as matmul;
use crate::ops::reduce::plan as reduce;
use crate::plan::{Candidate, Caps, Plan, Slot, share_scratch};

/// Bytes of D that there are at a time: more than a wave of tiles on the largest card, and what any binding allows.
const PART_BYTES: u64 = 64 << 20;

pub(crate) fn plan(op: &ReducedMatmul, caps: &Caps) -> Result<Plan> {
    let mut whole = Plan::default();
    for part in op.parts(PART_BYTES) {
        add(&mut whole, &part, product(&part, caps)?, caps)?;
    }
    Ok(whole)
}

/// One for each way to make the first part's D; other parts have it made in the same way where there is that.
pub(crate) fn candidates(op: &ReducedMatmul, caps: &Caps) -> Result<Vec<Candidate>> {
    let parts = op.parts(PART_BYTES);
    let ways = |part: &ReducedMatmul| match part.product.output.layout.elements() {
        0 => Ok(vec![Candidate { name: "nothing".to_owned(), plan: Plan::default(), estimate_ns: 0.0 }]),
        _ => matmul::candidates(&part.product, caps),
    };
    let all = parts.iter().map(ways).collect::<Result<Vec<Vec<Candidate>>>>()?;
    let Some(first) = all.first() else { return Ok(Vec::new()) };
    let composed = |wanted: &Candidate| {
        let (mut plan, mut estimate_ns) = (Plan::default(), 0.0);
        for (part, ways) in parts.iter().zip(&all) {
            let at = find(ways.iter().map(|way| way.name.as_str()), &wanted.name).unwrap_or(0);
            estimate_ns += ways[at].estimate_ns;
            add(&mut plan, part, ways[at].plan.clone(), caps)?;
        }
        Ok(Candidate { name: format!("reduced_{}", wanted.name), plan, estimate_ns })
    };
    first.iter().map(composed).collect()
}

/// What makes D; nothing where it has no elements.
fn product(op: &ReducedMatmul, caps: &Caps) -> Result<Plan> {
    if op.product.output.layout.elements() == 0 { Ok(Plan::default()) } else { matmul::plan(&op.product, caps) }
}

/// Adds `product`, which makes D, and the reduction of D. All parts share scratch space: first D, then what products use,
/// then what reductions do.
fn add(whole: &mut Plan, op: &ReducedMatmul, product: Plan, caps: &Caps) -> Result<()> {
    if op.output.layout.elements() == 0 {
        return Ok(());
    }
    let reduction = reduce::plan(&op.reduce(), caps)?;
    // Kernels read and write whole quads.
    let d_bytes = op.product.output.required_bytes().next_multiple_of(16).max(16);
    let of_product = product.scratch_bytes.len();
    let needed = [d_bytes].into_iter().chain(product.scratch_bytes).chain(reduction.scratch_bytes);
    share_scratch(&mut whole.scratch_bytes, needed);
    for mut launch in product.launches {
        for slot in &mut launch.bindings {
            *slot = match *slot {
                Slot::Output(_) => Slot::Scratch(0),
                Slot::Scratch(number) => Slot::Scratch(1 + number),
                input => input,
            };
        }
        whole.launches.push(launch);
    }
    for mut launch in reduction.launches {
        for slot in &mut launch.bindings {
            *slot = match *slot {
                Slot::Input(_) => Slot::Scratch(0),
                Slot::Scratch(number) => Slot::Scratch(1 + of_product + number),
                output @ Slot::Output(_) => output,
            };
        }
        whole.launches.push(launch);
    }
    Ok(())
}

#[cfg(test)]
#[path = "plan/tests.rs"]
mod tests;
