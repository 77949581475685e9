//! Every way to compute an operation but the planner's first, which the harness runs by itself: each once for a dtype, on a case of the harness.

use std::collections::BTreeMap;
use std::time::Instant;

use polywarp_core::Op;
use polywarp_core::harness::{Case, Outcome, Part};
use polywarp_core::ops::REGISTRY;

/// A case and one way to compute it.
pub struct Way<P> {
    pub case: Case,
    pub name: String,
    pub plan: P,
}

/// What a case should compute and move, operations and bytes: some tiles and what is left over, and no more than an interpreter manages.
const WORK: f64 = 30_000.0;

/// Every way behind the first that `ways` gives, of each operation and dtype, in a case of about [`WORK`]: those of `part`. The variables of
/// [`super::selection`] restrict cases.
pub fn ways<P>(part: Part, ways: impl Fn(&Op) -> Vec<(String, P)>) -> Vec<Way<P>> {
    let selection = super::selection();
    let is_wanted = |family: &str| selection.family.as_deref().is_none_or(|wanted| wanted == family);
    let mut found: BTreeMap<(&str, &str, String), (f64, Way<P>)> = BTreeMap::new();
    for case in
        REGISTRY.iter().filter(|family| is_wanted(family.name)).flat_map(|family| (family.cases)(selection.level))
    {
        let is_named = selection.filter.as_deref().is_none_or(|filter| case.name.contains(filter));
        if !is_named || case.op.output().layout.elements() == 0 {
            continue;
        }
        let dtype = case.op.inputs().first().map_or("", |input| input.dtype.name());
        let cost = case.op.cost();
        let distance = ((cost.flops + cost.bytes_read + cost.bytes_written + 1) as f64 / WORK).ln().abs();
        for (name, plan) in ways(&case.op).into_iter().skip(1) {
            let key = (case.op.name(), dtype, name.clone());
            if found.get(&key).is_none_or(|(known, _)| distance < *known) {
                found.insert(key, (distance, Way { case: case.clone(), name, plan }));
            }
        }
    }
    let all = found.into_values().map(|(_, way)| way);
    (0..).zip(all).filter(|&(number, _)| part.takes(number)).map(|(_, way)| way).collect()
}

/// Runs `ways` on the device `id` by `run`; panics where a result is wrong or refused.
pub fn hold<P>(id: &str, ways: &[Way<P>], run: impl Fn(&Way<P>) -> Outcome) {
    let start = Instant::now();
    let (mut right, mut wrong) = (BTreeMap::<&str, usize>::new(), Vec::new());
    for way in ways {
        match run(way) {
            Outcome::Pass { .. } => *right.entry(way.case.op.name()).or_default() += 1,
            outcome => wrong.push(format!("{} by {}: {outcome:?}", way.case.name, way.name)),
        }
    }
    println!("{id}: {} ways in {:.1} s: {right:?}", ways.len(), start.elapsed().as_secs_f64());
    assert!(wrong.is_empty(), "{id}: {} of {} ways: {:#?}", wrong.len(), ways.len(), &wrong[..wrong.len().min(20)]);
    assert!(!ways.is_empty(), "{id}: no operation has several ways");
}
