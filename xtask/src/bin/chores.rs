//! The chores of `cargo xtask` that read the library itself.

fn main() -> std::process::ExitCode {
    xtask::chores()
}
