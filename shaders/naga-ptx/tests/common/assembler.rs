//! NVIDIA's assembler, `ptxas`, and what it says of its work. Tests that need it and have none say so aloud, and fail
//! where `POLYWARP_REQUIRE_PTXAS` is set.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// `PTXAS`, or one on the path; none is said aloud.
pub fn ptxas() -> Option<PathBuf> {
    let path = std::env::var_os("PTXAS").map_or_else(|| PathBuf::from("ptxas"), PathBuf::from);
    let works = Command::new(&path).arg("--version").output().is_ok_and(|out| out.status.success());
    if !works {
        assert!(std::env::var_os("POLYWARP_REQUIRE_PTXAS").is_none(), "ptxas is required and not found");
        eprintln!("NOT RUN: no ptxas; set PTXAS to its path");
    }
    works.then_some(path)
}

/// Assembles `text` for `target` (`sm_90`) in files beginning with `at`; what the assembler said, as an error when it
/// gave no machine code.
pub fn assemble(ptxas: &Path, at: &Path, text: &str, target: &str) -> Result<String, String> {
    let (input, output) = (at.with_extension("ptx"), at.with_extension("cubin"));
    std::fs::write(&input, text).unwrap();
    let result = Command::new(ptxas).args(["-v", "--gpu-name", target, "-o"]).args([&output, &input]).output().unwrap();
    let log = String::from_utf8_lossy(&result.stderr).into_owned() + &String::from_utf8_lossy(&result.stdout);
    let code = std::fs::read(&output).unwrap_or_default();
    for file in [input, output] {
        let _ = std::fs::remove_file(file);
    }
    if result.status.success() && code.starts_with(b"\x7fELF") { Ok(log) } else { Err(log) }
}

/// Whether `ptxas` has this target: a text for an older one runs on newer cards, so that assemblers drop the oldest.
pub fn knows(ptxas: &Path, at: &Path, target: &str) -> bool {
    // 8.8 is the PTX ISA of CUDA 12.9.
    assemble(ptxas, at, &format!(".version 8.8\n.target {target}\n.address_size 64\n"), target).is_ok()
}

/// That the log of assembling `text` speaks of each of its entry points, and of none that it spilled.
pub fn nothing_spilled(text: &str, log: &str) -> Result<(), String> {
    spilled_at_most(0, text, log)
}

/// The same, where each entry point may spill a few bytes.
pub fn spilled_at_most(bytes: u32, text: &str, log: &str) -> Result<(), String> {
    let entries = text.matches(".visible .entry ").count();
    // "0 bytes stack frame, 8 bytes spill stores, 12 bytes spill loads", a line for each.
    let said: Vec<Option<u32>> = log
        .lines()
        .filter(|line| line.contains("spill"))
        .map(|line| {
            let of = |what: &str| line.split(',').find_map(|part| part.trim().strip_suffix(what)?.parse::<u32>().ok());
            Some(of(" bytes spill stores")?.max(of(" bytes spill loads")?))
        })
        .collect();
    let few = |spilled: &Option<u32>| spilled.is_some_and(|spilled| spilled <= bytes);
    if entries > 0 && said.len() == entries && said.iter().all(few) {
        return Ok(());
    }
    Err(format!("{entries} entry points spilled {said:?} bytes, of {bytes} at most: {log}"))
}

/// What `work` finds wrong with the items, on all processors.
pub fn on_all_processors<T: Sync>(items: &[T], work: impl Fn(usize, &T) -> Option<String> + Sync) -> Vec<String> {
    let (next, faults) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let i = next.fetch_add(1, Ordering::Relaxed)
                    && let Some(item) = items.get(i)
                {
                    let found = work(i, item);
                    faults.lock().unwrap().extend(found);
                }
            });
        }
    });
    let mut faults = faults.into_inner().unwrap();
    faults.sort();
    faults
}
