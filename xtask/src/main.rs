//! `cargo xtask`.

fn main() -> std::process::ExitCode {
    xtask::xtask()
}
