//! The kernels that `backend-cuda` ships compiled (`backend-cuda/prepared`): making them anew, checking them.
//!
//! To be run whenever a kernel's WGSL or the compiler to PTX has changed what comes out, which a test says. How they are
//! made is `backend-cuda/src/prepared/make.rs`; here is only how to start it, with NVIDIA's assembler at hand.

use crate::command::Cmd;
use crate::{Result, ptxas};

/// Compiles and assembles what is new, and writes the archive and its manifest.
pub fn write() -> Result {
    cargo_test("prepared::make::prepare -- --exact --ignored --nocapture")?;
    check()
}

/// Compiles everything again, assembles a sample, and compares both with what is committed.
pub fn check() -> Result {
    cargo_test("prepared::")
}

fn cargo_test(rest: &str) -> Result {
    let ptxas = ptxas::fetch()?.ok_or("prepared kernels are made where ptxas runs: on x86-64 Linux")?;
    Cmd::new("cargo test --locked --package polywarp-cuda --lib")
        .args(rest.split(' '))
        .env("PTXAS", ptxas.display().to_string())
        .env("POLYWARP_REQUIRE_PTXAS", "1")
        .run()
}
