//! The project's own chores, run as `cargo xtask <command>` from anywhere in the repository.
//!
//! Not part of the library: nothing here is published. One file per command; `command.rs` runs other programs,
//! `counts.rs` reads what test runners print. To see what a command does, read the list of steps in its file.
//!
//! The decision to know: there are two programs. `xtask` does not use polywarp, so cargo builds it in seconds. Documents and kernels are made from
//! the library's lists: the program `chores` makes them (`library.rs`). The tests build it together with everything else.

mod assemble;
mod bench;
mod card;
mod command;
mod counts;
mod deny;
mod dist;
#[cfg(feature = "polywarp")]
mod docs;
mod files;
#[cfg(feature = "polywarp")]
mod kernels;
mod library;
mod new_op;
mod op;
mod prepare;
mod profile;
mod programs;
mod prove;
mod ptxas;
#[cfg(feature = "polywarp")]
mod rates;
mod run;
mod setup;
mod test;
mod text_encoder;
mod wasm;
mod web;
mod wheel;

use std::path::Path;
use std::process::ExitCode;

/// What a chore gives; the error is one message for the reader.
type Result<T = ()> = std::result::Result<T, String>;

const HELP: &str = "\
usage: cargo xtask <command>

  setup            install the Vulkan and GL pieces this machine lacks, fetch the weights of the example text_to_vectors
  test             everything: format, lints, feature sets, tests on every backend, examples, documents
  prove [STEP ...] the tests, then what takes hours: fuzzing, loom, Miri, random programs; or some of these steps alone
  op NAME          one family of operations everywhere: CPU, GPUs, interpreted PTX, CUDA, lists, shipped kernels, documents
  new-op NAME --like OTHER
                   make the files of a new operation after those of another, such as logsumexp, with its lines in the lists
  bench [ARGS]     set up, build in release, run `polywarp bench ARGS`, say where the page is
  dist             build the program to hand out, and hold it to its size
  deny             licences, sources and known faults of what we depend on (deny.toml)
  docs [--write]   check the documents; --write makes the generated ones anew
  prepare [--check]
                   compile the kernels that backend-cuda ships ready to run; --check compares them only
  assemble [sm_XX] assemble every kernel that planners make for CUDA, for all architectures or one
  kernels [--only FAMILY] [--check [--sample]] [--to FOLDER [--lines | --ptx[=80]]]
                   compile the CUDA C++ of kernels/; --check compares only, --ptx makes an archive for the interpreted driver
  rates FOLDER     make FOLDER/rates.md, and the tables of docs/performance.md, from the JSON lines of `polywarp bench` kept there
  card [FOLDER]    program, tests and measuring programs for a machine with a card and no cargo, packed (target/card.tar.xz)
  wasm             build core, shaders and backend-wgpu for the web
  web [--level full] [--filter TEXT] [--pipelines] [--serve]
                   run the conformance harness and checks of the web in headless Chromium; --pipelines compiles unused
                   kernels to the end, --serve waits for a browser of yours
";

/// `cargo xtask`: does what the command line says.
pub fn xtask() -> ExitCode {
    ended(|arguments| match *arguments {
        ["setup"] => setup::run(setup::Need::SoftwareGpus).and_then(|()| text_encoder::set_up()),
        ["test"] => test::run(),
        ["prove"] => prove::run(&[]),
        ["prove", ref only @ ..] => prove::run(only),
        ["op", name] => op::run(name),
        ["new-op", name, "--like", like] => new_op::new(name, like),
        ["bench", ref rest @ ..] => bench::run(rest),
        ["dist"] => dist::run(),
        ["deny"] => deny::run(),
        ["prepare"] => prepare::write(),
        ["prepare", "--check"] => prepare::check(),
        ["assemble"] => assemble::run("all"),
        ["assemble", target] => assemble::run(target),
        ["card"] => card::run(None),
        ["card", folder] => card::run(Some(folder)),
        ["wasm"] => wasm::run(),
        ["web", ref rest @ ..] => web::run(rest),
        ["docs" | "kernels" | "rates", ..] => library::run(arguments),
        ["help" | "--help" | "-h"] => {
            print!("{HELP}");
            Ok(())
        }
        _ => Err(format!("no such command\n\n{HELP}")),
    })
}

/// The commands of `cargo xtask` that read the library, and `interpreted-kernels`, which says where the kernels for the interpreted driver are.
#[cfg(feature = "polywarp")]
pub fn chores() -> ExitCode {
    ended(|arguments| match *arguments {
        ["docs"] => docs::check(),
        ["docs", "--write"] => docs::write(),
        ["kernels", ref rest @ ..] => kernels::run(rest),
        ["rates", folder] => rates::write(folder),
        [library::INTERPRETED] => {
            println!("{}", kernels::interpreted_sample()?.unwrap_or_default());
            Ok(())
        }
        _ => Err(format!("no such command\n\n{HELP}")),
    })
}

/// Does `work` with this program's arguments at the top of the repository.
fn ended(work: impl FnOnce(&[&str]) -> Result) -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = std::env::set_current_dir(root()).map_err(|e| e.to_string()).and_then(|()| work(&arguments));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::FAILURE
        }
    }
}

/// The top of the repository; every command runs there.
fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}
