//! Plans make D in scratch space and reduce it from there, whole or in parts, and nobody else writes the output.

use std::collections::HashSet;

use crate::harness::Level;
use crate::ops::{Matmul, REGISTRY, ReduceFn};
use crate::{DType, Layout, Shape, TensorSpec};

use super::*;
use crate::wgsl::validate::full_caps;

fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
}

fn op([m, n, k]: [u64; 3], axis: usize) -> ReducedMatmul {
    let (a, b) = (dense(DType::F16, &[m, k]), dense(DType::F16, &[k, n]));
    ReducedMatmul::new(ReduceFn::Max, axis, Matmul::product(a, b, dense(DType::F32, &[m, n]))).unwrap()
}

#[test]
fn products_go_to_scratch_space_and_reductions_read_it() {
    let family = REGISTRY.iter().find(|family| family.name == "reduced_matmul").unwrap();
    for caps in [full_caps(), Caps::webgpu_defaults("test")] {
        for case in (family.cases)(Level::Quick) {
            let op = case.op.get::<ReducedMatmul>().unwrap_or_else(|| panic!("{}", case.name));
            // Dtypes that the device lacks.
            let Ok(found) = candidates(op, &caps) else { continue };
            let names: HashSet<&str> = found.iter().map(|way| way.name.as_str()).collect();
            assert_eq!(names.len(), found.len(), "{}", case.name);
            for way in &found {
                for launch in &way.plan.launches {
                    // Of nothing, what it gives is filled in.
                    let nothing = op.product.output.layout.elements() == 0;
                    let reduces =
                        launch.kernel.get::<crate::ops::fold::Kernel<reduce::Reduction>>().is_some() || nothing;
                    let output = launch.bindings.contains(&Slot::Output(0));
                    assert!(!output || reduces, "{}: {launch:?}", case.name);
                    let input = launch.bindings.iter().any(|slot| matches!(slot, Slot::Input(_)));
                    assert!(!input || !reduces, "{}: {launch:?}", case.name);
                    for slot in &launch.bindings {
                        assert!(
                            !matches!(slot, Slot::Scratch(i) if *i >= way.plan.scratch_bytes.len()),
                            "{}",
                            case.name
                        );
                    }
                }
            }
            assert!(!found.is_empty());
            assert_eq!(plan(op, &caps).unwrap().launches.is_empty(), op.output.layout.elements() == 0, "{}", case.name);
        }
    }
}

#[test]
fn large_products_are_made_in_parts() {
    for (axis, dims) in [(1, [65_536, 16_384, 64]), (0, [16_384, 65_536, 64])] {
        let op = op(dims, axis);
        let d_bytes = op.product.output.bytes();
        for way in candidates(&op, &full_caps()).unwrap() {
            assert!(
                way.plan.scratch_bytes.iter().sum::<u64>() < 3 * PART_BYTES,
                "{}: {:?}",
                way.name,
                way.plan.scratch_bytes
            );
            let writes = way.plan.launches.iter().filter(|launch| launch.bindings.contains(&Slot::Output(0))).count();
            assert_eq!(writes as u64, d_bytes / PART_BYTES, "{}", way.name);
        }
    }
}
