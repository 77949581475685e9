//! Every snapshot is assembled by NVIDIA's `ptxas` for each architecture it knows, and really so: each gives a cubin,
//! and none spills. Needs `ptxas` (`PTXAS`, or on the path; `cargo xtask setup` fetches it): without it nothing is
//! assembled, which is said aloud, and fails when `POLYWARP_REQUIRE_PTXAS` is set.

mod common;

use std::path::Path;
use std::process::Command;

use common::{ptxas, shaders};
use naga_ptx::{Options, Target, compile};

const TARGETS: [(u32, u32); 8] = [(7, 0), (7, 5), (8, 0), (8, 6), (8, 9), (9, 0), (10, 0), (12, 0)];

#[test]
fn every_snapshot_assembles_on_every_architecture() {
    let Some(ptxas) = ptxas() else {
        assert!(std::env::var_os("POLYWARP_REQUIRE_PTXAS").is_none(), "ptxas is required and not found");
        eprintln!("NOT RUN: no ptxas; set PTXAS to its path");
        return;
    };
    let temporary = std::env::temp_dir().join(format!("naga-ptx-{}", std::process::id()));
    std::fs::create_dir_all(&temporary).unwrap();
    let mut assembled = 0;
    let mut faults = Vec::new();
    for (major, minor) in TARGETS {
        let target = Target::new(major, minor);
        // PTX for an older target is for newer cards too: where this ptxas has dropped the target, the next takes its
        // text.
        let empty = format!(".version 8.8\n.target {target}\n.address_size 64\n");
        let known = assemble(&ptxas, &temporary, &empty, target).is_ok();
        let assembled_for = if known { target } else { Target::new(7, 5).max(target) };
        if !known {
            eprintln!("this ptxas does not know {target}: its texts are assembled for {assembled_for}");
        }
        for shader in shaders("in") {
            let options = Options { target: shader.options.target.max(target), ..shader.options.clone() };
            let ptx = compile(&shader.module, &shader.info, &options).unwrap();
            match assemble(&ptxas, &temporary, &ptx.text, options.target.max(assembled_for)) {
                Ok(log) if log.contains("0 bytes spill stores") => assembled += 1,
                Ok(log) => faults.push(format!("{} for {target} spills: {log}", shader.name)),
                Err(fault) => faults.push(format!("{} for {target}: {fault}", shader.name)),
            }
        }
    }
    std::fs::remove_dir_all(&temporary).unwrap();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    assert!(assembled == TARGETS.len() * shaders("in").len(), "only {assembled} texts were assembled");
}

fn assemble(ptxas: &Path, folder: &Path, text: &str, target: Target) -> Result<String, String> {
    let (input, output) = (folder.join("in.ptx"), folder.join("out.cubin"));
    std::fs::write(&input, text).unwrap();
    let _ = std::fs::remove_file(&output);
    let result = Command::new(ptxas)
        .args(["-v", "--gpu-name", &target.to_string(), "-o"])
        .args([&output, &input])
        .output()
        .unwrap();
    let log = String::from_utf8_lossy(&result.stderr).into_owned() + &String::from_utf8_lossy(&result.stdout);
    if !result.status.success() || std::fs::metadata(&output).map_or(0, |m| m.len()) == 0 {
        return Err(log);
    }
    Ok(log)
}
