//! The program `chores`, which has what reads the library: documents and kernels.

use crate::Result;
use crate::command::{Cmd, beside_this};

/// Makes some kernels of each family for the interpreted driver, and prints where their archive is; nothing where there is no compiler.
pub const INTERPRETED: &str = "interpreted-kernels";

/// Has cargo build the program and runs it.
pub fn run(arguments: &[&str]) -> Result {
    Cmd::new("cargo run --quiet --package xtask --bin chores --").args(arguments).run()
}

/// The program as a build of the workspace has left it, beside this one: another would have the features of one package, and would take
/// minutes.
pub fn built() -> Result<Cmd> {
    Ok(Cmd::new("").program(&beside_this("chores")?))
}
