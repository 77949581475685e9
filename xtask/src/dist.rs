//! The program to hand out: profile `dist`, in which functions of the same machine code are one, and no larger than promised.
//!
//! Loops over f16 and bf16, or i32 and u32, often compile to the same instructions under two names. The linker that Rust brings for
//! x86-64 Linux keeps one of them (`--icf`). Rust promises functions no addresses of their own.

use std::fs;
use std::path::PathBuf;

use crate::Result;
use crate::card::executables;
use crate::command::Cmd;

/// What the program may take on disk.
const MOST_BYTES: u64 = 32_000_000;

const BUILD: &str = "cargo rustc --locked --profile dist --package polywarp --bin polywarp";

/// Whether rustc links with its own linker. Windows' folds functions without being asked.
const HAS_OWN_LINKER: bool = cfg!(all(target_os = "linux", target_arch = "x86_64", target_env = "gnu"));

/// Builds the program and says where it is and how large.
pub fn run() -> Result {
    build().map(|_| ())
}

/// Builds the program: where it is.
pub fn build() -> Result<PathBuf> {
    let mut build = Cmd::new(BUILD).arg("--message-format=json-render-diagnostics");
    if HAS_OWN_LINKER {
        build = build.args(["--", "-C", "link-arg=-Wl,--icf=all"]);
    }
    println!("{build}\nsome six minutes, without a word of cargo's until it ends");
    let built = executables(&build.output()?, "bin")?;
    let [(_, program)] = &built[..] else { return Err(format!("cargo built {} programs, not one", built.len())) };
    let bytes = fs::metadata(program).map_err(|e| format!("{}: {e}", program.display()))?.len();
    println!("{}: {bytes} bytes", program.display());
    if bytes > MOST_BYTES {
        return Err(format!("the program has {bytes} bytes, more than {MOST_BYTES}: `nm --size-sort` says what of"));
    }
    Ok(program.clone())
}
