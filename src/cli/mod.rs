//! The program's frame: commands, exit codes, output to a pipe that may close, errors on one line.
//!
//! Exit code 0: all is well. 1: the machine or a result is wrong (a failed check, a finding of `doctor`, a lost device,
//! a file that cannot be written). 2: the request is wrong (flags, files, shaders). 124: the work did not end in time,
//! as with `timeout` of coreutils; the process ends without waiting for it. One file per command; each has an `Args`
//! for clap and `run(Args) -> Result<Verdict, Fault>`. Nothing here computes.

mod bench;
mod check;
mod compile;
mod devices;
mod doctor;
#[cfg(test)]
mod documented;
mod files;
mod kernel;
mod run;
mod top;
mod tune;

use std::io::{self, IsTerminal, Write};
use std::panic;
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use clap::error::ErrorKind;
use clap::{Parser, Subcommand};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use polywarp::{Device, Error, Opening};

/// GPU math on every GPU, with nothing to install but the driver.
///
/// Devices are named `cpu`, `cuda:0`, `wgpu:0`, ...; `polywarp devices` lists them. A GPU is also known by its PCI address
/// (`0000:3b:00.0`), an NVIDIA card by its UUID (`GPU-...`, or the beginning of it). POLYWARP_DEVICE chooses the default;
/// CUDA_VISIBLE_DEVICES, WGPU_BACKEND, WGPU_ADAPTER_NAME, VK_DRIVER_FILES and RUST_LOG are honoured.
#[derive(Parser)]
#[command(name = "polywarp", version, arg_required_else_help = true)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Bench(bench::Args),
    Check(check::Args),
    Compile(compile::Args),
    Devices(devices::Args),
    Doctor(doctor::Args),
    Run(run::Args),
    Top(top::Args),
    Tune(tune::Args),
}

/// The verdict of a command that could do its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    /// Exit code 0.
    Well,
    /// Exit code 1: the output says what is wrong.
    Wrong,
}

/// Whether a command's result goes to standard output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Output {
    /// No: standard output is free for text that people read.
    Free,
    /// Yes: nothing else may be written to it.
    Taken,
}

impl Output {
    /// The state of standard output for a command that writes to these paths.
    fn beside<'a>(mut paths: impl Iterator<Item = &'a Path>) -> Output {
        if paths.any(files::is_output) { Output::Taken } else { Output::Free }
    }
}

/// Why a command could not do its work.
#[derive(Debug)]
enum Fault {
    /// Exit code 2: the request is wrong.
    Usage(String),
    /// Exit code 1: the machine failed.
    Machine(String),
    /// Exit code 124: work on a device did not end in time, and may never.
    TimedOut(String),
    /// The reader of the output is gone, so there is nobody to tell.
    OutputClosed,
}

impl Fault {
    fn usage(message: impl Into<String>) -> Fault {
        Fault::Usage(message.into())
    }
}

impl From<Error> for Fault {
    fn from(error: Error) -> Fault {
        match error {
            Error::DeviceLost { .. }
            | Error::DevicePoisoned { .. }
            | Error::DriverTooOld { .. }
            | Error::PtxRejected { .. }
            | Error::OutOfMemory { .. }
            | Error::Backend { .. }
            | Error::BackendUnavailable { .. } => Fault::Machine(error.to_string()),
            other => Fault::Usage(other.to_string()),
        }
    }
}

/// Between two lines of progress where nobody watches a bar.
const BETWEEN_LINES: Duration = Duration::from_secs(5);

/// A progress bar for long work: on standard error, and only on a terminal.
fn progress_bar(template: &str) -> ProgressBar {
    let target = if io::stderr().is_terminal() { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(None, target);
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
    bar
}

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    env_logger::Builder::from_env(env_logger::Env::default().default_filter_or("off")).init();
    // Every panic is caught and reported in one line, here or where it becomes an error; RUST_LOG=error shows its place.
    panic::set_hook(Box::new(|info| log::error!("{info}")));
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return parse_failed(&error),
    };
    let result = panic::catch_unwind(|| match cli.command {
        Command::Bench(args) => bench::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Compile(args) => compile::run(&args),
        Command::Devices(args) => devices::run(&args),
        Command::Doctor(args) => doctor::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Top(args) => top::run(&args),
        Command::Tune(args) => tune::run(&args),
    });
    let (code, message) = match result {
        Ok(Ok(Verdict::Well)) => (0, None),
        Ok(Ok(Verdict::Wrong) | Err(Fault::OutputClosed)) => (1, None),
        Ok(Err(Fault::Usage(message))) => (2, Some(message)),
        Ok(Err(Fault::Machine(message))) => (1, Some(message)),
        Ok(Err(Fault::TimedOut(message))) => (TIMED_OUT, Some(message)),
        Err(panic) => (1, Some(format!("internal fault, please report it: {}", panic_text(&*panic)))),
    };
    if let Some(message) = message {
        // Ignored, because nobody can be told when standard error is closed as well.
        let _ = writeln!(io::stderr(), "error: {}", one_line(&message));
    }
    if code == TIMED_OUT {
        // At a normal exit a driver might wait for the work that does not end.
        crate::end_now(code);
    }
    ExitCode::from(code)
}

/// The exit code of `timeout` of coreutils.
const TIMED_OUT: u8 = 124;

/// Help and version go to standard output; anything else is one line on standard error.
fn parse_failed(error: &clap::Error) -> ExitCode {
    match error.kind() {
        ErrorKind::DisplayHelp | ErrorKind::DisplayVersion => {
            let _ = error.print();
            ExitCode::SUCCESS
        }
        ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            let _ = error.print();
            ExitCode::from(2)
        }
        _ => {
            let text = error.to_string();
            // The error precedes the first empty line; the usage follows it.
            let lines: Vec<&str> = text.lines().take_while(|line| !line.trim().is_empty()).map(str::trim).collect();
            let _ = writeln!(io::stderr(), "{} (see --help)", lines.join(" "));
            ExitCode::from(2)
        }
    }
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message")
}

fn one_line(text: &str) -> String {
    text.split(|c: char| c.is_control() || c.is_whitespace()).filter(|w| !w.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Writes a line to standard output.
fn say(line: impl AsRef<str>) -> Result<(), Fault> {
    let mut out = io::stdout().lock();
    writeln!(out, "{}", line.as_ref()).and_then(|()| out.flush()).map_err(output_failed)
}

/// The fault when standard output does not accept a write.
fn output_failed(error: io::Error) -> Fault {
    match error.kind() {
        io::ErrorKind::BrokenPipe => Fault::OutputClosed,
        _ => Fault::Machine(format!("cannot write to standard output: {error}")),
    }
}

/// Writes a line about the work: to standard output, or to standard error where standard output is for the command's result.
fn say_beside(output: Output, line: impl AsRef<str>) -> Result<(), Fault> {
    match output {
        Output::Free => say(line),
        Output::Taken => {
            // Ignored, because nobody can be told when standard error is closed.
            let _ = writeln!(io::stderr(), "{}", line.as_ref());
            Ok(())
        }
    }
}

/// Writes `value` as JSON to standard output.
fn say_json(value: &impl serde::Serialize) -> Result<(), Fault> {
    let text = serde_json::to_string_pretty(value).map_err(|e| Fault::Machine(format!("cannot write JSON: {e}")))?;
    say(text)
}

/// The device that a command names, or the default one.
fn chosen_device(name: Option<&str>) -> Result<Device, Fault> {
    opened_device(name, Opening::default())
}

fn opened_device(name: Option<&str>, opening: Opening) -> Result<Device, Fault> {
    Ok(match name {
        Some(name) => polywarp::device_with(name, opening)?,
        None => polywarp::best_with(opening)?,
    })
}

/// `NAME=VALUE` of `--define`: a number, decimal or `0x...`, or `true` or `false`.
fn parse_define(text: &str) -> Result<(String, f64), String> {
    let (name, value) = text.split_once('=').ok_or("expected NAME=VALUE")?;
    let number = match (value, value.strip_prefix("0x")) {
        ("true", _) => 1.0,
        ("false", _) => 0.0,
        (_, Some(hex)) => u32::from_str_radix(hex, 16).map_err(|_| format!("`{value}` is not a 32-bit number"))?.into(),
        _ => value.parse().map_err(|_| format!("`{value}` is not a number"))?,
    };
    if name.is_empty() { Err("the name is empty".to_owned()) } else { Ok((name.to_owned(), number)) }
}

/// The content of a file of at most `limit` bytes.
fn read_bytes(path: &Path, limit: u64) -> Result<Vec<u8>, Fault> {
    let fail = |why: String| Fault::usage(format!("{}: {why}", path.display()));
    // Checked first, because opening a pipe waits for its writer.
    files::check_readable(path).map_err(fail)?;
    let file = std::fs::File::open(path).map_err(|e| fail(e.to_string()))?;
    let mut bytes = Vec::new();
    // One byte more than allowed shows that the file is too long, whatever kind of file it is.
    io::Read::read_to_end(&mut io::Read::take(file, limit + 1), &mut bytes).map_err(|e| fail(e.to_string()))?;
    if bytes.len() as u64 > limit {
        return Err(fail(format!("more than {limit} bytes, the largest shader accepted")));
    }
    Ok(bytes)
}

/// The text of a shader file.
fn read_shader(path: &Path) -> Result<String, Fault> {
    let fail = |why: String| Fault::usage(format!("{}: {why}", path.display()));
    let bytes = read_bytes(path, polywarp::shader::MAX_SOURCE_BYTES as u64)?;
    let text = String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        fail(format!("not UTF-8 text (byte {at}); WGSL is expected"))
    })?;
    Ok(text.strip_prefix('\u{feff}').map(str::to_owned).unwrap_or(text))
}

/// `error` of the shader in `path`, as editors understand it: file:line:column.
fn in_shader(path: &Path, error: Error) -> Fault {
    match error {
        Error::Shader { line, column: 0, message } if line > 0 => {
            Fault::usage(format!("{}:{line}: {message}", path.display()))
        }
        Error::Shader { line, column, message } if line > 0 => {
            Fault::usage(format!("{}:{line}:{column}: {message}", path.display()))
        }
        Error::Shader { message, .. } => Fault::usage(format!("{}: {message}", path.display())),
        error @ (Error::ShaderTooComplex { .. } | Error::InvalidArgument { .. } | Error::Binding { .. }) => {
            Fault::usage(format!("{}: {error}", path.display()))
        }
        other => other.into(),
    }
}

/// `1 error`, `2 errors`.
fn counted(count: usize, what: &str) -> String {
    if count == 1 { format!("{count} {what}") } else { format!("{count} {what}s") }
}

/// Bytes as text for people.
fn size(bytes: u64) -> String {
    const UNITS: [&str; 5] = ["bytes", "KiB", "MiB", "GiB", "TiB"];
    let mut value = bytes as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        (value, unit) = (value / 1024.0, unit + 1);
    }
    if unit == 0 { format!("{bytes} bytes") } else { format!("{value:.1} {}", UNITS[unit]) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn define_takes_numbers_and_truth_values() {
        for (text, value) in [("A=2", 2.0), ("A=-1.5e3", -1500.0), ("A=0x10", 16.0), ("A=true", 1.0), ("A=false", 0.0)]
        {
            assert_eq!(parse_define(text), Ok(("A".to_owned(), value)));
        }
        for text in ["A", "=1", "A=", "A=x", "A=0x", "A=0x1ffffffff"] {
            assert!(parse_define(text).is_err(), "{text}");
        }
    }

    #[test]
    fn command_line_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn one_is_no_plural() {
        assert_eq!([0, 1, 2].map(|count| counted(count, "error")), ["0 errors", "1 error", "2 errors"]);
    }

    #[test]
    fn size_has_a_unit() {
        assert_eq!(size(0), "0 bytes");
        assert_eq!(size(1536), "1.5 KiB");
        assert_eq!(size(u64::MAX), "16777216.0 TiB");
    }
}
