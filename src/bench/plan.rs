//! The cases that are measured on each device.
//!
//! Each device has the problem sizes that suit it: a real GPU large ones, a simulated one small ones, because others
//! would take minutes on it. The CPU takes the cases of every device, because they are compared with it, and normal
//! ones where no real GPU asks for larger. A case whose extents differ between two sizes is two cases, and the smaller
//! one has its extents in its name.

use polywarp_core::ops::REGISTRY;
use polywarp_core::{Device, DeviceKind, Op};

use super::{BenchCase, BenchSize};

/// A case and the sizes it belongs to.
#[derive(Clone, Debug)]
pub struct Planned {
    /// The case; its name is unique in the plan.
    pub case: BenchCase,
    /// Empty when one size was asked for: then all devices have it.
    sizes: Vec<BenchSize>,
}

impl Planned {
    /// Why the case is not for this device; `None` when it is.
    pub fn not_for(&self, device: &Device) -> Option<String> {
        self.not_for_kind(device.info().kind).map(str::to_owned)
    }

    fn not_for_kind(&self, kind: DeviceKind) -> Option<&'static str> {
        let has = |size| self.sizes.is_empty() || self.sizes.contains(&size);
        match kind {
            DeviceKind::Cpu => None,
            DeviceKind::Software => (!has(BenchSize::Small)).then_some("larger than is measured on a simulated GPU"),
            _ => (!has(BenchSize::Large)).then_some("as small as it is only for a simulated GPU"),
        }
    }
}

/// The cases of the registry at `size`: all of one suite, or the overview of every suite.
pub fn cases(size: BenchSize, suite: Option<&str>) -> Vec<BenchCase> {
    let all = REGISTRY.iter().flat_map(|family| (family.benches)(size));
    all.filter(|case| suite.map_or_else(|| case.in_overview, |s| s == case.suite.name())).collect()
}

/// The cases of one suite, or the overview of all, for `devices`: at `size`, or at the sizes that suit each.
pub fn plan(devices: &[Device], size: Option<BenchSize>, suite: Option<&str>) -> Vec<Planned> {
    if let Some(size) = size {
        return cases(size, suite).into_iter().map(|case| Planned { case, sizes: Vec::new() }).collect();
    }
    let mut sizes: Vec<BenchSize> = devices.iter().map(|device| size_for(device, devices)).collect();
    sizes.sort_unstable();
    sizes.dedup();
    joined(&sizes, suite)
}

/// The problem size that suits a device among `devices`.
pub fn size_for(device: &Device, devices: &[Device]) -> BenchSize {
    let kinds: Vec<DeviceKind> = devices.iter().map(|device| device.info().kind).collect();
    size_for_kind(device.info().kind, &kinds)
}

fn size_for_kind(kind: DeviceKind, all: &[DeviceKind]) -> BenchSize {
    let real = |kind: &DeviceKind| !matches!(kind, DeviceKind::Cpu | DeviceKind::Software);
    match kind {
        DeviceKind::Software => BenchSize::Small,
        DeviceKind::Cpu if !all.iter().any(real) => BenchSize::Normal,
        _ => BenchSize::Large,
    }
}

/// The cases of several `sizes`, which are ascending: those of the largest in their order, each after the smaller ones
/// of the same name.
fn joined(sizes: &[BenchSize], suite: Option<&str>) -> Vec<Planned> {
    let mut plan: Vec<Planned> = Vec::new();
    for &size in sizes.iter().rev() {
        // A case whose name is new goes to the end, so those cases keep their order.
        for mut case in cases(size, suite) {
            let namesake = plan.iter().position(|known| known.case.name == case.name);
            match namesake {
                Some(at) if plan[at].case.op == case.op => plan[at].sizes.push(size),
                Some(at) => {
                    case.name = format!("{} {}", case.name, extents(&case.op));
                    plan.insert(at, Planned { case, sizes: vec![size] });
                }
                None => plan.push(Planned { case, sizes: vec![size] }),
            }
        }
    }
    plan
}

/// Extents of the first input, or of the output where there is none.
fn extents(op: &Op) -> String {
    op.inputs().first().copied().unwrap_or_else(|| op.output()).layout.shape().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn find<'a>(plan: &'a [Planned], name: &str) -> &'a Planned {
        plan.iter().find(|planned| planned.case.name == name).unwrap_or_else(|| panic!("no case `{name}`"))
    }

    #[test]
    fn simulated_gpu_does_not_cut_the_cpus_products() {
        use DeviceKind::{Cpu, Discrete, Software};
        assert_eq!(size_for_kind(Cpu, &[Software, Cpu]), BenchSize::Normal);
        assert_eq!(size_for_kind(Cpu, &[Discrete, Software, Cpu]), BenchSize::Large);
        let plan = joined(&[BenchSize::Small, BenchSize::Normal], None);
        for kind in ["f32", "f16", "bf16", "f64", "i8"] {
            for side in [256, 512, 1000, 1024, 2048, 4096] {
                let planned = find(&plan, &format!("gemm {kind} {side}"));
                assert_eq!(planned.not_for_kind(Cpu), None);
                assert_eq!(planned.not_for_kind(Software).is_some(), side > 1000, "{kind} {side}");
            }
        }
    }

    #[test]
    fn overviews_have_the_products_that_claims_are_judged_by() {
        for size in [BenchSize::Small, BenchSize::Normal, BenchSize::Large] {
            let shown = cases(size, None);
            let has = |name: &str| shown.iter().any(|case| case.name == name);
            assert!(has("gemm f32 1000") && has("gemm f16 1000"), "{size:?}");
            let sparse = shown.iter().filter_map(|case| case.name.strip_prefix("sparse24 f16 "));
            let dense: Vec<bool> = sparse.map(|side| has(&format!("gemm f16 {side}"))).collect();
            assert_eq!(dense, [true], "{size:?}");
        }
    }

    #[test]
    fn case_of_two_extents_is_two_cases_side_by_side() {
        let plan = joined(&[BenchSize::Small, BenchSize::Normal], None);
        let at = plan.iter().position(|planned| planned.case.name == "copy f32").unwrap();
        assert_eq!(plan[at - 1].case.name, "copy f32 [1048576]");
        assert!(plan[at].not_for_kind(DeviceKind::Software).is_some());
        assert!(plan[at - 1].not_for_kind(DeviceKind::Software).is_none());
        let mut names: Vec<&str> = plan.iter().map(|planned| planned.case.name.as_str()).collect();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all, "names are identities");
        // The plan has every case of each size planned alone.
        for size in [BenchSize::Small, BenchSize::Normal] {
            let has = |case: &BenchCase| plan.iter().any(|p| p.case.op == case.op && p.sizes.contains(&size));
            assert!(cases(size, None).iter().all(has), "{size:?}");
        }
    }

    #[test]
    fn real_gpu_is_spared_the_small_cases() {
        let plan = joined(&[BenchSize::Small, BenchSize::Large], None);
        let small = find(&plan, "add f32 [1048576]");
        assert!(small.not_for_kind(DeviceKind::Discrete).is_some() && small.not_for_kind(DeviceKind::Cpu).is_none());
        assert_eq!(find(&plan, "add f32").not_for_kind(DeviceKind::Discrete), None);
        assert_eq!(find(&plan, "gemm f32 256").not_for_kind(DeviceKind::Discrete), None);
    }
}
