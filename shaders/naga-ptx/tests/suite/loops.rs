//! `Options::loop_limit`: loops of `tests/run/loops.wgsl`, run on an interpreter of PTX, end after as many rounds as it says,
//! and what follows them runs.

use crate::common::launch::{Given, launch, words};
use crate::common::{Shader, folder, shader};
use naga_ptx::{Options, Target};
use ptx_interpreter::RunOptions;

/// `n` after a run of `entry`.
fn run(shader: &Shader, entry: &str, loop_limit: Option<u32>, max_steps: u64) -> Result<Vec<u32>, String> {
    let given = Given { buffers: vec![vec![0; 16]], ..Given::default() };
    let options =
        Options { entry_point: Some(entry.to_owned()), loop_limit, target: Target::new(9, 0), ..Options::default() };
    let run_options = RunOptions { max_steps, ..RunOptions::default() };
    Ok(words(&launch(shader, &options, &run_options, &given)?[0]))
}

#[test]
fn a_loop_ends_after_as_many_rounds_as_the_limit_says() {
    let shader = shader(&folder("run").join("loops.wgsl"));
    for limit in [0, 1, 3, 1000] {
        // A thousand rounds inside a thousand take 15 million steps.
        let rounds = |entry| {
            run(&shader, entry, Some(limit), 40_000_000).unwrap_or_else(|fault| panic!("{entry} {limit}: {fault}"))
        };
        assert_eq!(rounds("empty"), [0, 0, 0, 0], "{limit}");
        assert_eq!(rounds("forever"), [limit, 0, 0, 0], "{limit}");
        assert_eq!(rounds("while_true"), [limit, 0, 7, 0], "{limit}");
        assert_eq!(rounds("break_if_false"), [limit, limit, 7, 0], "{limit}");
        assert_eq!(rounds("always_continued"), [limit, 0, 7, 0], "{limit}");
        assert_eq!(rounds("nested"), [limit, limit * limit, 7, 0], "{limit}");
        assert_eq!(rounds("called_twice"), [2 * limit, 0, 7, 0], "{limit}");
        assert_eq!(rounds("five"), [limit.min(5), 0, 7, 0], "{limit}");
        assert_eq!(rounds("five_unknown"), [limit.min(5), 0, 7, 0], "{limit}");
        let even: u32 = (0..64).step_by(2).map(|i| limit.min(i)).sum();
        assert_eq!(rounds("divergent"), [even + 32 * limit, 0, 7, 0], "{limit}");
    }
}

/// Those that have no end of their own, without a limit: the interpreter gives them up.
#[test]
fn without_a_limit_they_go_on() {
    let shader = shader(&folder("run").join("loops.wgsl"));
    let endless = shader.module.entry_points.iter().map(|entry| entry.name.as_str());
    for entry in endless {
        let ends = run(&shader, entry, None, 100_000).is_ok();
        assert_eq!(ends, entry.starts_with("five"), "{entry}");
    }
}
