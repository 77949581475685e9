//! The program `chores`, which has what reads the library: documents and kernels.

use std::env;

use crate::Result;
use crate::command::Cmd;

/// Makes some kernels of each family for the interpreted driver, and prints where their archive is; nothing where there is no compiler.
pub const INTERPRETED: &str = "interpreted-kernels";

/// Has cargo build the program and runs it.
pub fn run(arguments: &[&str]) -> Result {
    Cmd::new("cargo run --quiet --package xtask --bin chores --").args(arguments).run()
}

/// The program as a build of the workspace has left it, beside this one: another would have the features of one package, and would take
/// minutes.
pub fn built() -> Result<Cmd> {
    let this = env::current_exe().map_err(|e| format!("this program's own path: {e}"))?;
    let path = this.with_file_name("chores").with_extension(env::consts::EXE_EXTENSION);
    Ok(Cmd::new("").program(&path))
}
