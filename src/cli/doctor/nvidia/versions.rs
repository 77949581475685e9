//! Whether the driver is new enough: for polywarp at all, and for the PTX that kernels of a card need.

use super::super::Finding;
use super::Nvidia;

/// The least CUDA version a driver must speak, as `cuDriverGetVersion` gives it, and the first driver that does: what
/// backend-cuda's `driver.rs` asks for.
const LEAST_CUDA: i32 = 11_040;
const LEAST_DRIVER: &str = "470 (CUDA 11.4)";

/// CUDA version, the newest PTX its driver reads, and its driver branch (PTX ISA manual, "Release Notes").
const RELEASES: [(i32, (u32, u32), u32); 16] = [
    (11_040, (7, 4), 470),
    (11_050, (7, 5), 495),
    (11_060, (7, 6), 510),
    (11_070, (7, 7), 515),
    (11_080, (7, 8), 520),
    (12_000, (8, 0), 525),
    (12_010, (8, 1), 530),
    (12_020, (8, 2), 535),
    (12_030, (8, 3), 545),
    (12_040, (8, 4), 550),
    (12_050, (8, 5), 555),
    (12_060, (8, 5), 560),
    (12_070, (8, 6), 565),
    (12_080, (8, 7), 570),
    (12_090, (8, 8), 575),
    (13_000, (9, 0), 580),
];

/// A shader with what raises the PTX version of portable kernels: subgroups, half precision, packed products, atomics.
const SHADER: &str = "
enable f16;
@group(0) @binding(0) var<storage, read_write> data: array<u32>;
@group(0) @binding(1) var<storage, read_write> halves: array<vec2<f16>>;
@group(0) @binding(2) var<storage, read_write> count: atomic<u32>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    let sum = subgroupAdd(data[id.x]);
    halves[id.x] = fma(halves[id.x], halves[id.x], exp2(halves[id.x]));
    data[id.x] = dot4U8Packed(sum, subgroupShuffleXor(sum, 1u));
    atomicAdd(&count, sum);
}";

impl Nvidia {
    pub(super) fn version_findings(&self) -> Vec<Finding> {
        let Some(version) = self.library.cuda_version else { return Vec::new() };
        if self.library.is_stub() {
            return Vec::new();
        }
        let driver = self.driver_text(version);
        if too_old(version) {
            return vec![Finding::error(
                format!("the driver is {driver}, polywarp needs driver {LEAST_DRIVER} or newer"),
                format!("install NVIDIA's driver {LEAST_DRIVER} or newer, on the host where this is a container"),
            )];
        }
        let Some(newest) = newest_ptx(version) else { return Vec::new() };
        let beyond = |card: &&super::CudaCard| card.ptx.is_some_and(|needed| needed > newest);
        self.cards
            .iter()
            .filter(beyond)
            .map(|card| {
                let (major, minor) = card.ptx.unwrap_or(newest);
                let first = first_driver((major, minor));
                Finding::error(
                    format!(
                        "driver {driver} reads PTX to {}.{}; kernels for {} ({}, sm_{}{}) need PTX {major}.{minor}",
                        newest.0, newest.1, card.id, card.name, card.compute_capability.0, card.compute_capability.1
                    ),
                    format!("install NVIDIA's driver {first} or newer, on the host where this is a container"),
                )
            })
            .collect()
    }

    fn driver_text(&self, version: i32) -> String {
        let cuda = format!("CUDA {}.{}", version / 1000, version % 1000 / 10);
        match self.library.driver_version().or(self.kernel.version.as_deref()) {
            Some(driver) => format!("{driver} ({cuda})"),
            None => cuda,
        }
    }
}

/// Whether a driver of this CUDA version is too old for polywarp.
pub fn too_old(version: i32) -> bool {
    version < LEAST_CUDA
}

/// The newest PTX that a driver of this CUDA version reads; `None` when it is newer than the table.
fn newest_ptx(version: i32) -> Option<(u32, u32)> {
    let (last, ..) = RELEASES[RELEASES.len() - 1];
    let known = RELEASES.iter().rev().find(|(cuda, ..)| *cuda <= version)?;
    (version < last + 10).then_some(known.1)
}

/// The first driver that reads it.
fn first_driver(ptx: (u32, u32)) -> String {
    match RELEASES.iter().find(|(_, reads, _)| *reads >= ptx) {
        Some((cuda, _, driver)) => format!("{driver} (CUDA {}.{})", cuda / 1000, cuda % 1000 / 10),
        None => "of the newest branch".to_owned(),
    }
}

/// The PTX version that kernels compiled for a card need: the compiler is asked, so that this cannot fall behind it.
pub fn ptx_needed((major, minor): (u32, u32)) -> Option<(u32, u32)> {
    use polywarp::compiler::{Request, Target, compile};
    let arch = format!("sm_{major}{minor}");
    let request = Request { source: SHADER, target: Target::Ptx, entry: None, defines: &[], arch: Some(&arch) };
    let bytes = compile(&request).ok()?.bytes;
    let text = String::from_utf8(bytes).ok()?;
    let version = text.lines().find_map(|line| line.strip_prefix(".version "))?;
    let (major, minor) = version.trim().split_once('.')?;
    Some((major.parse().ok()?, minor.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::super::super::Severity;
    use super::super::made_up::{found, only, well};
    use super::*;

    #[test]
    fn driver_older_than_polywarp_needs_says_both_versions() {
        let mut machine = well();
        machine.library.cuda_version = Some(11_020);
        machine.library.path = Some("/usr/lib/libcuda.so.460.32.03".to_owned());
        machine.kernel.version = Some("460.32.03".to_owned());
        machine.cards.clear();
        machine.library.refusal = Some("too old".to_owned());
        let found = found(&machine);
        assert_eq!(
            only(&found, "460.32.03 (CUDA 11.2), polywarp needs driver 470 (CUDA 11.4)", "470"),
            Severity::Error
        );
    }

    #[test]
    fn driver_older_than_a_kernel_needs_says_both_versions() {
        let mut machine = well();
        machine.library.cuda_version = Some(11_060);
        let found = found(&machine);
        assert_eq!(only(&found, "reads PTX to 7.6", "520 (CUDA 11.8)"), Severity::Error);
        assert_eq!(only(&found, "sm_90) need PTX 7.8", "520"), Severity::Error);
    }

    #[test]
    fn newest_ptx_follows_the_release_notes() {
        for (cuda, ptx) in [(11_040, (7, 4)), (11_080, (7, 8)), (12_060, (8, 5)), (12_080, (8, 7)), (13_000, (9, 0))] {
            assert_eq!(newest_ptx(cuda), Some(ptx), "{cuda}");
        }
        assert_eq!(newest_ptx(13_010), None, "newer than the table: nothing is said");
        assert!(RELEASES.is_sorted());
        assert_eq!(first_driver((7, 8)), "520 (CUDA 11.8)");
        assert_eq!(first_driver((6, 3)), LEAST_DRIVER);
        assert_eq!(first_driver((99, 0)), "of the newest branch");
    }

    #[test]
    fn ptx_needed_is_what_the_compiler_writes() {
        assert!(ptx_needed((7, 0)).is_some_and(|ptx| ((6, 0)..=(7, 4)).contains(&ptx)), "{:?}", ptx_needed((7, 0)));
        assert!(ptx_needed((9, 0)).is_some_and(|ptx| ptx >= (7, 8)), "{:?}", ptx_needed((9, 0)));
        assert_eq!(ptx_needed((5, 2)), None, "older than the compiler's oldest target");
    }
}
