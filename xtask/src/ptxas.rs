//! NVIDIA's assembler `ptxas`, fetched as a Python wheel into `target/tools`: tests hold what naga-ptx writes to it.
//!
//! Version and digest are pinned in `xtask/nvidia-requirements.txt`. It runs on any x86-64 Linux, with or without a GPU;
//! elsewhere there is no wheel, and the tests say that nothing was assembled.

use std::path::PathBuf;

use crate::command::Cmd;
use crate::{Result, wheel};

const FOLDER: &str = "target/tools/nvcc";
const REQUIREMENTS: &str = "xtask/nvidia-requirements.txt";

/// The assembler's path, fetched when it is not there yet; `None` where NVIDIA has none for this system.
pub fn fetch() -> Result<Option<PathBuf>> {
    if let Some(path) = std::env::var_os("PTXAS") {
        return Ok(Some(path.into()));
    }
    if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
        println!("there is no ptxas for this system: what it would check is not run");
        return Ok(None);
    }
    let top = std::env::current_dir().map_err(|e| format!("no working folder: {e}"))?;
    let ptxas = top.join(FOLDER).join("nvidia/cu13/bin/ptxas");
    if Cmd::new("").program(&ptxas).args(["--version"]).output().is_ok() {
        return Ok(Some(ptxas));
    }
    wheel::fetch(FOLDER, REQUIREMENTS)?;
    // Wheels carry no permissions that `zipfile` would restore.
    Cmd::new("chmod +x").arg(&ptxas).run()?;
    Cmd::new("").program(&ptxas).args(["--version"]).output()?;
    Ok(Some(ptxas))
}
