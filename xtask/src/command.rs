//! Running other programs: what is run is also what is printed, so that a reader can repeat it.

use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::Result;
use crate::counts::Counts;

/// A program, its arguments and the variables set for it.
#[derive(Clone)]
pub struct Cmd {
    program: String,
    arguments: Vec<String>,
    variables: Vec<(&'static str, String)>,
    /// Where it runs, if not where this program does.
    folder: Option<PathBuf>,
}

impl Cmd {
    /// A command written as on a shell's line, without quoting: words are split at spaces.
    pub fn new(line: &str) -> Cmd {
        let mut words = line.split_whitespace().map(str::to_owned);
        Cmd {
            program: words.next().unwrap_or_default(),
            arguments: words.collect(),
            variables: Vec::new(),
            folder: None,
        }
    }

    /// Runs `path` instead, which may contain spaces.
    pub fn program(mut self, path: &Path) -> Cmd {
        self.program = path.display().to_string();
        self
    }

    pub fn arg(mut self, argument: impl AsRef<Path>) -> Cmd {
        self.arguments.push(argument.as_ref().display().to_string());
        self
    }

    pub fn args<A: AsRef<Path>>(self, arguments: impl IntoIterator<Item = A>) -> Cmd {
        arguments.into_iter().fold(self, Cmd::arg)
    }

    pub fn env(mut self, name: &'static str, value: impl Into<String>) -> Cmd {
        self.variables.push((name, value.into()));
        self
    }

    pub fn within(mut self, folder: &Path) -> Cmd {
        self.folder = Some(folder.to_owned());
        self
    }

    /// Runs it with this program's own output; anything but exit code 0 is an error.
    pub fn run(&self) -> Result {
        self.ended(self.command().status())
    }

    /// Runs it, passing its output on line by line, and adds the tests it reports to `counts`.
    pub fn run_counting(&self, counts: &mut Counts) -> Result {
        let mut command = self.command();
        let mut child = match command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn() {
            Ok(child) => child,
            Err(error) => return self.ended(Err(error)),
        };
        let (out, err) = (child.stdout.take(), child.stderr.take());
        std::thread::scope(|scope| {
            let out = scope.spawn(|| pass_on(out, std::io::stdout()));
            let err = scope.spawn(|| pass_on(err, std::io::stderr()));
            for reader in [out, err] {
                counts.add(reader.join().unwrap_or_default());
            }
        });
        self.ended(child.wait())
    }

    /// Runs it and gives what it printed.
    pub fn output(&self) -> Result<String> {
        let output = self.command().output().map_err(|e| format!("cannot run `{self}`: {e}"))?;
        if !output.status.success() {
            return Err(format!("`{self}` failed: {}", String::from_utf8_lossy(&output.stderr).trim()));
        }
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Runs it for `most` at the longest, with what it prints going to the file `printed`. After that time it is killed, and the
    /// error says that it hangs.
    pub fn run_within(&self, most: Duration, printed: &Path) -> Result {
        // Not a pipe, which processes that the program leaves behind would keep open.
        let unwritable = |error| format!("cannot write {}: {error}", printed.display());
        let out = File::create(printed).map_err(unwritable)?;
        let err = out.try_clone().map_err(unwritable)?;
        let mut child = match self.command().stdout(out).stderr(err).spawn() {
            Ok(child) => child,
            Err(error) => return self.ended(Err(error)),
        };
        let start = Instant::now();
        loop {
            match child.try_wait() {
                Ok(None) if start.elapsed() < most => std::thread::sleep(Duration::from_millis(20)),
                Ok(None) => {
                    // It may have ended by itself meanwhile, which is as good.
                    let _ = child.kill();
                    let _ = child.wait();
                    return Err(format!("`{self}` hangs: killed after {} s", most.as_secs()));
                }
                Ok(Some(status)) => return self.ended(Ok(status)),
                Err(error) => return self.ended(Err(error)),
            }
        }
    }

    fn ended(&self, status: std::io::Result<ExitStatus>) -> Result {
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(format!("`{self}` failed: {status}")),
            Err(error) => Err(format!("cannot run `{self}`: {error}")),
        }
    }

    fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(&self.arguments).envs(self.variables.iter().map(|(name, value)| (name, value)));
        command.stdin(Stdio::null());
        if let Some(folder) = &self.folder {
            command.current_dir(folder);
        }
        command
    }
}

impl fmt::Display for Cmd {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, value) in &self.variables {
            write!(f, "{name}={} ", quoted(value))?;
        }
        write!(f, "{}", quoted(&self.program))?;
        self.arguments.iter().try_for_each(|argument| write!(f, " {}", quoted(argument)))
    }
}

/// For a POSIX shell, left alone when that is safe.
fn quoted(word: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+@%".contains(c);
    if !word.is_empty() && word.chars().all(plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

/// Copies lines from `source` to `sink` as they come, counting tests on the way.
fn pass_on(source: Option<impl Read>, mut sink: impl Write) -> Counts {
    let mut counts = Counts::default();
    let mut lines = source.map(BufReader::new);
    let mut line = Vec::new();
    while lines.as_mut().is_some_and(|lines| matches!(lines.read_until(b'\n', &mut line), Ok(1..))) {
        counts.add(Counts::of_line(&String::from_utf8_lossy(&line)));
        // A reader that went away (`| head`) must not stop the tests.
        let _ = sink.write_all(&line);
        line.clear();
    }
    counts
}

/// A program in the folder of this one, where cargo has put it.
pub fn beside_this(name: &str) -> Result<PathBuf> {
    let this = std::env::current_exe().map_err(|e| format!("this program's own path: {e}"))?;
    Ok(this.with_file_name(name).with_extension(std::env::consts::EXE_EXTENSION))
}

/// The last line of what a program said: its cause.
pub fn reason(said: &str) -> &str {
    said.trim().lines().next_back().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn display_is_a_shell_line() {
        let cmd = Cmd::new("cargo test --doc").env("RUSTDOCFLAGS", "-D warnings").arg("it's");
        assert_eq!(cmd.to_string(), r"RUSTDOCFLAGS='-D warnings' cargo test --doc 'it'\''s'");
    }

    #[test]
    fn run_within_ends_what_hangs_and_keeps_what_it_printed() {
        let file = std::env::temp_dir().join(format!("polywarp-xtask-{}", std::process::id()));
        let patient = Cmd::new("echo some words").run_within(Duration::from_secs(60), &file);
        assert_eq!((patient, std::fs::read_to_string(&file).unwrap().as_str()), (Ok(()), "some words\n"));
        let hangs = Cmd::new("sleep 600").run_within(Duration::from_millis(100), &file).unwrap_err();
        assert!(hangs.contains("`sleep 600` hangs"), "{hangs}");
        std::fs::remove_file(&file).unwrap();
    }

    #[test]
    fn run_of_a_failing_program_names_it() {
        let error = Cmd::new("cargo no-such-subcommand-here").run().unwrap_err();
        assert!(error.contains("no-such-subcommand-here"), "{error}");
    }
}
