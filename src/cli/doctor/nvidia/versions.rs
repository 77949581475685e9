//! Whether the driver is new enough: for polywarp at all, and for the PTX that kernels of a card need.

use polywarp::cuda::versions::{LEAST_CUDA, LEAST_DRIVER, first_driver, newest_ptx, version_text};

use super::super::Finding;
use super::Nvidia;

/// A shader with the constructs that raise the PTX version of portable kernels: subgroups, half precision, packed
/// products, atomics.
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
        let cuda = format!("CUDA {}", version_text(version));
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

/// The PTX version that kernels compiled for a card need. The compiler itself is asked, so that the answer cannot fall behind it.
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
    fn ptx_needed_is_what_the_compiler_writes() {
        assert!(ptx_needed((7, 0)).is_some_and(|ptx| ((6, 0)..=(7, 4)).contains(&ptx)), "{:?}", ptx_needed((7, 0)));
        assert!(ptx_needed((9, 0)).is_some_and(|ptx| ptx >= (7, 8)), "{:?}", ptx_needed((9, 0)));
        assert_eq!(ptx_needed((5, 2)), None, "older than the compiler's oldest target");
    }
}
