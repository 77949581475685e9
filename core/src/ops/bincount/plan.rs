//! Counts of whole numbers: an element is its own bin (`ops/histogram/plan.rs`).

use crate::ops::Bincount;
use crate::ops::histogram::plan::{Bin, counted};
use crate::plan::{Caps, Plan};
use crate::{DType, Result};

pub(crate) fn plan(op: &Bincount, caps: &Caps) -> Result<Plan> {
    // An i32 below zero is a u32 from 2^31, which more bins would reach.
    let bins = if op.indices.dtype == DType::I32 { op.bins().min(1 << 31) } else { op.bins() };
    counted(op, &op.indices, &op.output, bins, Bin::Itself, Vec::new(), caps)
}

#[cfg(test)]
mod tests {
    use crate::{Layout, Op, Shape, TensorSpec};

    use super::*;
    use crate::wgsl::validate::{Validated, full_caps};

    #[test]
    fn few_bins_and_many_validate_and_are_two_kernels() {
        let mut validated = Validated::default();
        for caps in [Caps { max_workgroup_bytes: 16 << 10, ..full_caps() }, Caps::webgpu_defaults("test")] {
            for bins in [1, 4096, 4097] {
                let indices = TensorSpec::new(DType::I32, Layout::contiguous(Shape::new(&[9]).unwrap()));
                let op: Op = Bincount::new(indices, bins).unwrap().into();
                let plan = crate::ops::plan(&op, &caps).unwrap();
                assert_eq!(plan.launches.len(), 2);
                validated.check(&plan.launches[1..], &caps);
            }
        }
        assert_eq!(validated.kernels(), 2);
    }
}
