//! Every kernel that planners make for CUDA, held to NVIDIA's assembler: all of them, for every architecture or one.
//!
//! The usual tests assemble a sample (`shaders/tests/suite/assembled.rs`); this takes all of it, which is an hour or so of one
//! processor.

use crate::command::Cmd;
use crate::{Result, ptxas};

/// `target`: `all`, or one such as `sm_90`.
pub fn run(target: &str) -> Result {
    let ptxas = ptxas::fetch()?.ok_or("ptxas runs on x86-64 Linux only")?;
    Cmd::new("cargo test --locked --package polywarp-shaders --test suite assembled -- --nocapture")
        .env("PTXAS", ptxas.display().to_string())
        .env("POLYWARP_REQUIRE_PTXAS", "1")
        .env("POLYWARP_ASSEMBLE", target)
        .run()
}
