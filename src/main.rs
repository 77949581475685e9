//! The program `polywarp`. Everything is in `cli/`, one file per command.

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
