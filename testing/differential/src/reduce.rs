//! From a program that differs to the few lines that matter: lines are dropped as long as it stays valid and differs.
//!
//! It ends with what it has when its time is over. What it is not: a reducer of expressions; the last lines are for
//! people. Lines with barriers are kept, since without them a program has no one right result any more.

use std::time::Instant;

use wgsl_generator::Program;

use crate::routes::validate;

/// The shortest program that `differs` still accepts, of those found in time.
pub fn reduce(program: &Program, until: Instant, mut differs: impl FnMut(&Program) -> bool) -> Program {
    let mut lines: Vec<String> = program.wgsl.lines().map(str::to_owned).collect();
    let mut accepts = |lines: &[String]| {
        let candidate = Program { wgsl: lines.join("\n") + "\n", ..program.clone() };
        validate(&candidate.wgsl).is_ok() && differs(&candidate)
    };
    let mut size = lines.len() / 2;
    while size > 0 {
        let mut at = 0;
        let before = lines.len();
        while at < lines.len() && Instant::now() < until {
            let end = block_end(&lines, at).max((at + size).min(lines.len()));
            let balanced = depth(&lines[at..end]) == 0 && !lines[at..end].iter().any(|l| l.contains("arrier"));
            if balanced {
                let candidate: Vec<String> = lines[..at].iter().chain(&lines[end..]).cloned().collect();
                if accepts(&candidate) {
                    lines = candidate;
                    continue;
                }
            }
            // A block without what it hangs on.
            let inner = block_end(&lines, at);
            if size == 1 && inner > at + 1 && !lines[at].starts_with("fn") {
                let mut candidate = lines.clone();
                candidate.remove(inner - 1);
                candidate.remove(at);
                if accepts(&candidate) {
                    lines = candidate;
                    continue;
                }
            }
            at += 1;
        }
        if lines.len() == before || size > 1 {
            size /= 2;
        }
    }
    Program { wgsl: lines.join("\n") + "\n", ..program.clone() }
}

/// The line after the block that starts at `at`.
fn block_end(lines: &[String], at: usize) -> usize {
    let mut open = 0;
    for (i, line) in lines.iter().enumerate().skip(at) {
        open += depth(std::slice::from_ref(line));
        if open <= 0 {
            return i + 1;
        }
    }
    lines.len()
}

fn depth(lines: &[String]) -> i32 {
    let mut depth = 0;
    let mut least = 0;
    for byte in lines.iter().flat_map(|line| line.bytes()) {
        depth += i32::from(byte == b'{') - i32::from(byte == b'}');
        least = least.min(depth);
    }
    if least < 0 { -1 } else { depth }
}
