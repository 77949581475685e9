//! Every kernel validates; products decompress once, into scratch memory that the dense plan reads.

use crate::harness::Level;
use crate::ops::REGISTRY;
use crate::{Op, TensorSpec};

use super::*;
use crate::wgsl::validate::{Validated, full_caps};

fn ops() -> Vec<Op> {
    let family = REGISTRY.iter().find(|family| family.name == "sparse24").unwrap();
    (family.cases)(Level::Quick).into_iter().map(|case| case.op).collect()
}

fn is_ours(launch: &Launch) -> bool {
    launch.kernel.get::<super::Kernel>().is_some()
}

#[test]
fn every_kernel_validates() {
    for caps in [full_caps(), Caps::webgpu_defaults("test")] {
        let mut validated = Validated::default();
        for op in ops().into_iter().filter(|op| op.output().layout.elements() > 0) {
            validated
                .check(crate::ops::plan(&op, &caps).unwrap().launches.iter().filter(|launch| is_ours(launch)), &caps);
        }
        // Two parts of seven dtypes; three sizes of elements, whole groups or not.
        assert_eq!(validated.kernels(), 2 * 7 + 3 * 2);
    }
}

#[test]
fn products_read_what_was_decompressed() {
    let mut products = 0;
    for op in ops() {
        let Some(sparse) = op.get::<SparseMatmul>() else { continue };
        if op.output().layout.elements() == 0 {
            continue;
        }
        for found in candidates(sparse, &full_caps()).unwrap() {
            products += 1;
            let Plan { launches, scratch_bytes } = found.plan;
            let (first, rest) = launches.split_first().unwrap();
            if sparse.product.dims().k == 0 {
                assert!(!is_ours(first) && scratch_bytes.is_empty());
                continue;
            }
            let dense = Slot::Scratch(scratch_bytes.len() - 1);
            assert!(is_ours(first) && first.bindings == [Slot::Input(0), Slot::Input(1), dense], "{}", found.name);
            assert_eq!(first.params[8], 1, "a short last quad is written whole: the product reads it");
            assert!(rest.iter().any(|launch| launch.bindings.contains(&dense)), "{}", found.name);
            let reads_parts = |slot: &Slot| matches!(slot, Slot::Input(0 | 1));
            assert!(!rest.iter().any(|launch| is_ours(launch) || launch.bindings.iter().any(reads_parts)));
            let stored = TensorSpec::required_bytes(&sparse.decompress().unwrap().output);
            assert!(scratch_bytes.last().is_some_and(|&bytes| bytes >= stored && bytes < stored + 16));
        }
    }
    assert!(products > 100, "{products}");
}
