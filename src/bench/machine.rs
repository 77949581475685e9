//! The machine and the build that a table was made with: processor, threads, system, version and commit.

use serde::Serialize;

/// The machine and the build.
#[derive(Clone, Debug, Serialize)]
pub struct Machine {
    /// Seconds since 1970 when the run began.
    pub unix_time: u64,
    /// Version of polywarp.
    pub version: String,
    /// The commit that the program was built from (the last one, when there were uncommitted changes), `unknown`
    /// outside a checkout.
    pub commit: String,
    /// Operating system and architecture.
    pub system: String,
    /// The processor's name.
    pub cpu: String,
    /// Hardware threads used.
    pub cpu_threads: usize,
    /// Build profile: figures of a debug build are worth nothing.
    pub profile: &'static str,
}

impl Machine {
    /// This machine, this build.
    pub fn here() -> Machine {
        let listed = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let name = listed.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        Machine {
            unix_time: now.map_or(0, |d| d.as_secs()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            commit: option_env!("POLYWARP_COMMIT").unwrap_or("unknown").to_owned(),
            system: format!("{} {}", std::env::consts::OS, std::env::consts::ARCH),
            cpu: name.map_or_else(|| "unknown".to_owned(), |(_, name)| name.trim().to_owned()),
            cpu_threads: std::thread::available_parallelism().map_or(1, usize::from),
            profile: if cfg!(debug_assertions) { "debug" } else { "release" },
        }
    }
}
