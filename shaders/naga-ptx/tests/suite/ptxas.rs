//! Every snapshot and every shader that checks itself is assembled by NVIDIA's `ptxas` for each architecture it knows, a third of
//! them every day, and really so: each gives a cubin, and no entry point of a snapshot spills. Needs `ptxas` (`PTXAS`, or on the path; `cargo xtask
//! setup` fetches it): without it nothing is assembled, which is said aloud, and fails when `POLYWARP_REQUIRE_PTXAS` is
//! set.

use std::path::Path;

use crate::common::assembler::{assemble, knows, nothing_spilled, on_all_processors, ptxas, spilled_at_most};
use crate::common::turn::Turn;
use crate::common::{Shader, shaders};
use naga_ptx::{Options, Target, compile};

const TARGETS: [(u32, u32); 8] = [(7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)];

#[test]
fn every_snapshot_assembles_on_every_architecture() {
    all_assemble("in", 0, &shaders("in"), |shader| vec![shader.options.clone()]);
}

#[test]
fn every_shader_that_checks_itself_assembles_on_every_architecture() {
    // One of them spills a few words: it keeps the results of all operations until it checks them.
    all_assemble("device", 24, &shaders("device"), |shader| {
        vec![shader.options.clone(), Options::trusted(shader.options.target)]
    });
}

/// Assembles shaders for every target, with the options that each is to have; an entry point may spill so many bytes.
fn all_assemble(what: &str, may_spill: u32, shaders: &[Shader], options: impl Fn(&Shader) -> Vec<Options>) {
    let Some(ptxas) = ptxas() else { return };
    let temporary = std::env::temp_dir().join(format!("naga-ptx-{what}-{}", std::process::id()));
    std::fs::create_dir_all(&temporary).unwrap();
    let mut jobs = Vec::new();
    for (major, minor) in TARGETS {
        let target = Target::new(major, minor);
        // PTX for an older target is for newer cards too: where this ptxas has dropped the target, the next takes its
        // text.
        let known = knows(&ptxas, &temporary.join("known"), &target.to_string());
        let assembled_for = if known { target } else { Target::new(7, 5).max(target) };
        if !known {
            assert!(target < Target::new(7, 5), "this ptxas does not know {target}");
            eprintln!("this ptxas does not know {target}: its texts are assembled for {assembled_for}");
        }
        for shader in shaders {
            for options in options(shader) {
                let options = Options { target: options.target.max(target), ..options };
                let ptx = compile(&shader.module, &shader.info, &options)
                    .unwrap_or_else(|error| panic!("{} for {target}: {error}", shader.name));
                jobs.push((format!("{} for {target}", shader.name), ptx.text, options.target.max(assembled_for)));
            }
        }
    }
    assert!(jobs.len() >= TARGETS.len() * shaders.len());
    // All are compiled every day; assembling them takes minutes.
    let today = Turn::today(3);
    jobs = (0..).zip(jobs).filter(|(i, _)| today.takes(*i)).map(|(_, job)| job).collect();
    let faults = on_all_processors(&jobs, |i, (name, text, target)| {
        let at = temporary.join(i.to_string());
        let log = assemble(&ptxas, &at, text, &target.to_string());
        log.and_then(|log| spilled_at_most(may_spill, text, &log)).err().map(|fault| format!("{name}: {fault}"))
    });
    std::fs::remove_dir_all(&temporary).unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
}

#[test]
fn a_spill_of_any_entry_point_is_seen() {
    let entry = |name: &str, stores: u32, loads: u32| {
        format!(
            "ptxas info    : Compiling entry function '{name}' for 'sm_90'\n\
             ptxas info    : Function properties for {name}\n    \
             0 bytes stack frame, {stores} bytes spill stores, {loads} bytes spill loads\n"
        )
    };
    let one = ".visible .entry a(";
    let two = format!("{one}\n.visible .entry b(");
    assert_eq!(nothing_spilled(one, &entry("a", 0, 0)), Ok(()));
    assert_eq!(nothing_spilled(&two, &(entry("a", 0, 0) + &entry("b", 0, 0))), Ok(()));
    for (text, log) in [
        (one, entry("a", 40, 0)),
        (one, entry("a", 0, 40)),
        (one, entry("a", 40, 40)),
        (&two, entry("a", 0, 0) + &entry("b", 40, 40)),
        (&two, entry("a", 40, 40) + &entry("b", 0, 0)),
        // One that the assembler did not speak of, and a text without any.
        (&two, entry("a", 0, 0)),
        ("", String::new()),
    ] {
        assert!(nothing_spilled(text, &log).is_err(), "{log}");
    }
    assert_eq!(spilled_at_most(40, one, &entry("a", 40, 0)), Ok(()));
    assert!(spilled_at_most(40, one, &entry("a", 0, 44)).is_err());
}

#[test]
fn a_text_that_is_no_ptx_does_not_assemble() {
    let Some(ptxas) = ptxas() else { return };
    let at = std::env::temp_dir().join(format!("naga-ptx-none-{}", std::process::id()));
    assert!(assemble(&ptxas, Path::new(&at), "one two three", "sm_90").is_err());
}
