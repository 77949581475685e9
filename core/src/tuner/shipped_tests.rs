//! The table that ships: it is read, used on the cards it names whatever their driver, and on no other.

use std::collections::HashMap;
use std::time::Duration;

use super::*;
use crate::case::BenchSize;
use crate::ops::REGISTRY;
use crate::tuner::{Check, Effort, Key, Mode, Offer, Options, Place, Runner, Situation, Tuner};
use crate::{Op, Result};

/// Finds every candidate right, and times nothing.
struct Trusting;

impl Runner for Trusting {
    fn situation(&self) -> Situation {
        Situation::Free
    }

    fn check(&mut self, _: usize) -> Result<Check> {
        Ok(Check::Right)
    }

    fn time(&mut self, _: usize, _: u32) -> Result<f64> {
        panic!("with a shipped answer nothing is timed");
    }

    fn now_ns(&self) -> u64 {
        0
    }
}

fn table() -> Table {
    Table::from_json(include_str!("shipped.json")).unwrap()
}

/// The products of the speedup tables, by the text of their key.
fn products() -> HashMap<String, Op> {
    let cases = REGISTRY.iter().flat_map(|family| (family.benches)(BenchSize::Large)).map(|case| case.op);
    cases.filter_map(|op| Some((Key::of(&op)?.to_string(), op))).collect()
}

/// A card of another driver and state of the kernels than the table was made with.
fn elsewhere(answer: &Answer, device: &str) -> Tuner {
    let identity = Identity {
        device: device.to_owned(),
        api: answer.identity.api.clone(),
        driver: "another driver".to_owned(),
        kernels: "another state".to_owned(),
    };
    let options =
        Options { mode: Mode::Cached, budget: Duration::from_millis(1), place: Place::Nowhere, effort: Effort::Normal };
    Tuner::new(identity, options)
}

#[test]
fn shipped_answers_are_used_on_their_card_with_any_driver_and_on_no_other() {
    let (table, products) = (table(), products());
    let mut used = 0;
    for answer in table.answers() {
        let Some(op) = products.get(&answer.key) else { continue };
        let key = Key::of(op).unwrap();
        let offers =
            [Offer { name: "the planner's first", estimate_ns: 1.0 }, Offer { name: &answer.winner, estimate_ns: 2.0 }];
        let choose = |device: &str| {
            let choice =
                elsewhere(answer, device).decide(&key, &op.tuned().unwrap().class(), &offers, &mut Trusting).unwrap();
            choice.candidate
        };
        assert_eq!(choose(&answer.identity.device), 1, "{}", answer.key);
        assert_eq!(choose("NVIDIA H200 NVL"), 0, "{}", answer.key);
        used += 1;
    }
    // Whatever the table holds, it holds the products of the speedup tables.
    assert!(table.is_empty() || used > 30, "{used} of {} answers", table.len());
}

#[test]
fn shipped_table_has_one_answer_for_a_card_and_key() {
    let mut seen = std::collections::HashSet::new();
    for Answer { identity, key, .. } in table().answers() {
        assert!(seen.insert((identity.device.clone(), identity.api.clone(), key.clone())), "twice: {key}");
    }
    assert!(table().winners().to_json() == include_str!("shipped.json"), "exported without --winners");
}
