//! Chromium without a window, with WebGPU on SwiftShader.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::Result;
use crate::command::Cmd;
use crate::setup;

/// How long the page may be silent: the longest single kernel or case takes a fraction of it.
pub const PATIENCE: Duration = Duration::from_secs(180);

/// Where Chromium keeps its state, and what it prints.
const STATE: &str = "target/web/chromium";

/// `POLYWARP_BROWSER` names another one.
const VARIABLE: &str = "POLYWARP_BROWSER";

/// `--enable-unsafe-webgpu`: WebGPU on Linux and on software, which Chromium does not offer by itself. `--no-sandbox`: root
/// has none. The rest keeps it from asking the network for anything but the page.
const FLAGS: &str = "--headless=new --no-sandbox --enable-unsafe-webgpu --use-webgpu-adapter=swiftshader \
    --disable-gpu-watchdog --disable-dev-shm-usage --no-first-run --no-default-browser-check --disable-quic \
    --disable-background-networking --disable-component-update --disable-sync --disable-extensions \
    --disable-renderer-backgrounding --disable-background-timer-throttling";

/// A running browser; dropping it ends it.
pub struct Browser(Child);

impl Browser {
    /// Opens `address`.
    pub fn start(address: &str) -> Result<Browser> {
        let program = program()?;
        // An old profile would restore old pages.
        let state = PathBuf::from(STATE);
        let _ = fs::remove_dir_all(&state);
        fs::create_dir_all(&state).map_err(|e| format!("cannot make {STATE}: {e}"))?;
        let log = fs::File::create(log()).map_err(|e| format!("{}: {e}", log().display()))?;
        let mut command = Command::new(&program);
        command.args(FLAGS.split_whitespace()).arg(format!("--user-data-dir={STATE}/profile")).arg(address);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log);
        println!("{program} {FLAGS} {address}");
        command.spawn().map(Browser).map_err(|e| format!("cannot run {program}: {e}"))
    }

    /// An error once it has ended by itself.
    pub fn alive(&mut self) -> Result {
        match self.0.try_wait() {
            Ok(None) => Ok(()),
            Ok(Some(status)) => Err(format!("Chromium ended: {status}; it says why in {}", log().display())),
            Err(error) => Err(format!("Chromium is out of sight: {error}")),
        }
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn log() -> PathBuf {
    Path::new(STATE).join("log")
}

/// Chromium's name, installed when there is none.
fn program() -> Result<String> {
    if let Ok(named) = std::env::var(VARIABLE) {
        return Ok(named);
    }
    let known = || {
        let names = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
        names.into_iter().find(|name| Cmd::new(name).arg("--version").output().is_ok()).map(str::to_owned)
    };
    if let Some(program) = known() {
        return Ok(program);
    }
    setup::install("chromium")?;
    known().ok_or_else(|| format!("Chromium does not run though it is installed; {VARIABLE} names another browser"))
}
