//! Examples as their users stop them: by Ctrl-C.
//!
//! Runs the program that a build has left in `examples/` beside the tests' own folder. Where it is missing, as after `cargo test --test cli`
//! alone, the test says how to make it, and fails.

use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStdout, ExitStatus};

use super::*;

/// A program under way, ended with the test.
struct Running {
    child: Child,
    lines: std::io::Lines<BufReader<ChildStdout>>,
}

impl Running {
    /// The example `name` on the CPU, with `folder` for its temporary files.
    fn example(name: &str, argument: &str, folder: &Path) -> Running {
        // This program is target/debug/deps/cli-0123.
        let this = std::env::current_exe().unwrap();
        let program = this.parent().and_then(Path::parent).unwrap().join("examples").join(name);
        assert!(program.is_file(), "{} is missing: cargo build --example {name}", program.display());
        let mut command = cleaned(Command::new(program), &[argument]);
        command.env("POLYWARP_DEVICE", "cpu").env("TMPDIR", folder).current_dir(folder);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Running { child, lines }
    }

    /// The next line that has `words` in it.
    fn line_with(&mut self, words: &str) -> String {
        let mut seen = Vec::new();
        for line in self.lines.by_ref() {
            let line = line.unwrap();
            if line.contains(words) {
                return line;
            }
            seen.push(line);
        }
        panic!("no line has `{words}`: {seen:#?}");
    }

    /// What Ctrl-C sends.
    fn interrupt(&self) {
        let id = self.child.id().to_string();
        let sent = Command::new("sh").args(["-c", "kill -INT \"$0\"", &id]).status().unwrap();
        assert!(sent.success(), "kill -INT {id}: {sent}");
    }

    /// The rest of what it says, and how it ends.
    fn end(mut self) -> (Vec<String>, ExitStatus) {
        let lines = self.lines.by_ref().map(Result::unwrap).collect();
        (lines, self.child.wait().unwrap())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // After `end` there is nothing to kill.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The number behind `words`.
fn number_after(line: &str, words: &str) -> u64 {
    let (_, rest) = line.split_once(words).unwrap_or_else(|| panic!("`{words}` is not in `{line}`"));
    rest.split_whitespace().next().unwrap().parse().unwrap()
}

/// A run of training ends after the step at hand, writes a checkpoint and says so; the same command goes on from there.
#[test]
fn ctrl_c_ends_training_with_a_checkpoint_that_the_next_run_goes_on_from() {
    // So many that none of the runs comes to its end, nor to the first line of its table.
    const STEPS: &str = "100000";
    let folder = Folder::new("stopped");
    let checkpoint = folder.0.join(format!("polywarp-train_characters-{STEPS}.safetensors"));
    let mut steps_before = 0;
    for is_resumed in [false, true] {
        let mut run = Running::example("train_characters", STEPS, &folder.0);
        if is_resumed {
            let line = run.line_with("goes on from");
            assert!(line.contains(&checkpoint.display().to_string()), "{line}");
            assert_eq!(number_after(&line, " after "), steps_before);
        } else {
            run.line_with("parameters");
        }
        run.interrupt();
        let (lines, status) = run.end();
        // 128 and the number of the signal, by the program's own hand: one that a signal ends has no code.
        assert_eq!(status.code(), Some(130), "{status}: {lines:#?}");
        let last = lines.last().unwrap();
        let steps = number_after(last, "stopped after ");
        assert!(last.contains(&checkpoint.display().to_string()), "{last}");
        assert!(steps > steps_before, "{steps} steps, {steps_before} before");
        assert!(checkpoint.is_file());
        steps_before = steps;
    }
}
