//! Counts of whole numbers: an element is its own bin (`ops/histogram/plan.rs`).

use crate::Result;
use crate::ops::Bincount;
use crate::ops::elements::named;
use crate::ops::histogram::plan::{Bin, counted};
use crate::plan::{Caps, Plan};

pub(crate) fn plan(op: &Bincount, caps: &Caps) -> Result<Plan> {
    let bins = named(op.indices.dtype, op.bins());
    counted(op, &op.indices, &op.output, bins, Bin::Itself, Vec::new(), caps)
}

#[cfg(test)]
mod tests {
    use crate::{DType, Layout, Op, Shape, TensorSpec};

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
