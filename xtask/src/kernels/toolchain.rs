//! NVIDIA's CUDA C++ compiler, fetched as Python wheels into `target/tools`, and the three calls that are made of it.
//!
//! Versions and digests are pinned in `xtask/nvcc-requirements.txt`. `POLYWARP_NVCC` names a folder that has `bin/nvcc`
//! already. It runs on x86-64 Linux, with or without a GPU, and needs a C++ compiler for its preprocessor.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use polywarp_kernels::Target;
use polywarp_kernels::make::{COMPILER, FLAGS, SOURCES};

use crate::command::Cmd;
use crate::{Result, setup, wheel};

const FOLDER: &str = "target/tools/cuda";
const REQUIREMENTS: &str = "xtask/nvcc-requirements.txt";
/// Programs in the wheels, which carry no permissions that `zipfile` would restore.
const PROGRAMS: [&str; 6] = ["bin/nvcc", "bin/ptxas", "bin/nvdisasm", "bin/cudafe++", "bin/fatbinary", "nvvm/bin/cicc"];

/// Whether line numbers are kept for the profiler.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lines {
    Kept,
    Dropped,
}

/// The compiler.
pub struct Toolchain {
    folder: PathBuf,
}

impl Toolchain {
    /// The compiler, fetched when it is not there yet; `None` where NVIDIA has none for this system.
    pub fn fetch() -> Result<Option<Toolchain>> {
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            println!("there is no nvcc for this system: no kernel is compiled");
            return Ok(None);
        }
        if let Some(folder) = std::env::var_os("POLYWARP_NVCC") {
            return Toolchain { folder: folder.into() }.checked().map(Some);
        }
        let top = std::env::current_dir().map_err(|e| format!("no working folder: {e}"))?;
        let toolchain = Toolchain { folder: top.join(FOLDER).join("nvidia/cu13") };
        if toolchain.version().is_ok() && toolchain.program("nvvm/bin/cicc").exists() {
            return toolchain.checked().map(Some);
        }
        wheel::fetch(FOLDER, REQUIREMENTS)?;
        for program in PROGRAMS {
            Cmd::new("chmod +x").arg(toolchain.program(program)).run()?;
        }
        toolchain.checked().map(Some)
    }

    fn program(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn version(&self) -> Result<String> {
        Cmd::new("").program(&self.program("bin/nvcc")).args(["--version"]).output()
    }

    fn checked(self) -> Result<Toolchain> {
        let version = self.version()?;
        if !version.contains(COMPILER) {
            let folder = self.folder.display();
            return Err(format!("the nvcc in {folder} is not {COMPILER}, which the kernels are made with:\n{version}"));
        }
        if Cmd::new("g++ --version").output().is_err() {
            setup::install("g++")?;
        }
        Ok(self)
    }

    /// The translation unit `unit` as PTX for `target`.
    pub fn compile(&self, unit: &Path, target: Target, lines: Lines, to: &Path) -> Result {
        let mut command = Command::new(self.program("bin/nvcc"));
        command.args(FLAGS).args(["-ptx", "-arch", &target.compute(), "-I", SOURCES]).arg(unit).arg("-o").arg(to);
        // Every warning of the front end is shown; those of headers that are not ours are not raised.
        command.args((lines == Lines::Kept).then_some("-lineinfo"));
        output(command, unit).map(|said| print!("{said}"))
    }

    /// PTX as machine code for `target`; what the assembler said of it.
    pub fn assemble(&self, ptx: &Path, target: Target, lines: Lines, to: &Path) -> Result<String> {
        let mut command = Command::new(self.program("bin/ptxas"));
        command.args(["-v", "-O3", "--gpu-name", &target.to_string()]).arg(ptx).arg("-o").arg(to);
        command.args((lines == Lines::Kept).then_some("--generate-line-info"));
        output(command, ptx)
    }

    /// Machine code as text.
    pub fn disassemble(&self, cubin: &Path) -> Result<String> {
        let mut command = Command::new(self.program("bin/nvdisasm"));
        command.args(["--print-code"]).arg(cubin);
        output(command, cubin)
    }
}

/// What a program printed, on both channels.
fn output(mut command: Command, of: &Path) -> Result<String> {
    let said = command.stdin(Stdio::null()).output().map_err(|e| format!("cannot run {command:?}: {e}"))?;
    let text = [said.stdout, said.stderr].concat();
    let text = String::from_utf8_lossy(&text).into_owned();
    if said.status.success() { Ok(text) } else { Err(format!("{}: {command:?} failed:\n{text}", of.display())) }
}
