//! Every kernel that planners make for the harness, compiled by each adapter of this machine; nothing runs, so a driver
//! without its card will do.
//!
//! Run: `cargo run -p polywarp-wgpu --example compile_kernels`; behind `--`, `full` takes the kernels of the harness's full level,
//! `modules` stops before drivers make code of them. The usual variables choose adapters. Exit code 0 when no kernel was refused.

use std::process::ExitCode;

use polywarp_core::harness::Level;
use polywarp_wgpu::{Options, adapters};

#[path = "../../tests/web/src/kernels.rs"]
mod kernels;

use kernels::Depth;

fn main() -> ExitCode {
    let asked = |word: &str| std::env::args().skip(1).any(|argument| argument == word);
    let level = if asked("full") { Level::Full } else { Level::Quick };
    let depth = if asked("modules") { Depth::Module } else { Depth::Pipeline };
    let entries = adapters().unwrap_or_default();
    let mut refused = entries.is_empty();
    for entry in &entries {
        let backend = match entry.open(Options::default()) {
            Ok(backend) => backend,
            Err(error) => {
                println!("{}: {error}", entry.id);
                refused = true;
                continue;
            }
        };
        let compiled = pollster::block_on(kernels::compile(&backend, level, depth, &|_, _, _| {}));
        for kernel in &compiled.refused {
            println!("REFUSED {}: {}\n{}", kernel.name, kernel.message, kernel.wgsl);
        }
        compiled.warnings.iter().for_each(|warning| println!("{warning}"));
        let accepted = compiled.tried - compiled.refused.len();
        println!("{} ({}, {}): {accepted} of {} kernels accepted", entry.id, entry.name, entry.driver, compiled.tried);
        refused |= accepted < compiled.tried || compiled.tried == 0;
    }
    if refused { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
