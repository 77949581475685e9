//! One operation: its family everywhere (`op NAME`). The files of a new one are [`crate::new_op`]'s.
//!
//! What `op` runs is what a change of one operation can break: its cases on the CPU, on every GPU of the machine, on interpreted PTX and on
//! CUDA (the interpreted driver without a card), the lists and proofs that follow the registry, the kernels that ship and the documents.
//! `cargo xtask test` runs all of that for all operations.

use crate::command::Cmd;
use crate::run::Run;
use crate::{Result, library, prepare};

/// Runs the family `name` everywhere.
pub fn run(name: &str) -> Result {
    let program = "cargo run --quiet --locked --package polywarp --bin polywarp --";
    Run::all(|run| {
        let said = Cmd::new(&format!("{program} devices --json")).output()?;
        let devices = devices(&said)?;
        for device in &devices {
            let line = format!("{program} check --device {device} --op {name}");
            run.step(&format!("cases on {device}"), |counts| Cmd::new(&line).run_counting(counts))?;
        }
        for (what, line) in [
            ("cases on interpreted PTX", "cargo test --locked --package polywarp-shaders --test suite -- shard"),
            ("cases on CUDA", "cargo test --locked --package polywarp-cuda --test conformance"),
        ] {
            run.step(what, |counts| Cmd::new(line).env("POLYWARP_TEST_FAMILY", name).run_counting(counts))?;
        }
        run.tests("lists and proofs", "cargo test --locked --package polywarp-core --lib -- ops:: gradients pins_of")?;
        run.step("documents", |_| library::run(&["docs"]))?;
        run.step("kernels that ship", |_| prepare::check())
    })
}

/// The ids of usable devices in what `polywarp devices --json` said.
fn devices(said: &str) -> Result<Vec<String>> {
    let json: serde_json::Value = serde_json::from_str(said).map_err(|e| format!("the list of devices: {e}"))?;
    let usable = json["devices"].as_array().into_iter().flatten().filter(|device| device["usable"] == true);
    let ids: Vec<String> = usable.filter_map(|device| device["id"].as_str().map(str::to_owned)).collect();
    if ids.is_empty() { Err("`polywarp devices` names no usable one".to_owned()) } else { Ok(ids) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_those_that_can_be_used() {
        let said = r#"{"devices": [{"id": "cuda", "usable": false}, {"id": "wgpu:0", "usable": true}]}"#;
        assert_eq!(devices(said), Ok(vec!["wgpu:0".to_owned()]));
        assert!(devices("{}").is_err());
    }
}
