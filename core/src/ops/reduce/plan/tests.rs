//! Every reduction gives kernels that naga accepts with no more features than the device has.

use crate::ops::Reduce;
use crate::{DType, Error, KeepDims, Layout, ReduceFn, Shape, TensorSpec};

use crate::plan::{Caps, Plan, Slot};
use crate::wgsl::validate::{Validated, full_caps};

/// Shapes, the order their axes are viewed in, and what is folded: rows, columns, both, scattered, several passes.
const CASES: &[(&[u64], &[usize], &[usize])] = &[
    (&[7], &[0], &[0]),
    (&[1 << 21], &[0], &[0]),
    (&[5, 64], &[0, 1], &[1]),
    (&[5, 63], &[0, 1], &[1]),
    (&[63, 64], &[0, 1], &[0]),
    (&[63, 65], &[0, 1], &[0]),
    (&[4096, 8], &[0, 1], &[0]),
    (&[6, 8, 10], &[2, 0, 1], &[1]),
    (&[4, 6, 8, 12], &[0, 1, 2, 3], &[0, 2, 3]),
    (&[4, 6, 8, 12], &[3, 1, 2, 0], &[1, 3]),
    (&[1, 1], &[0, 1], &[0]),
];

fn op(function: ReduceFn, dtype: DType, case: &(&[u64], &[usize], &[usize])) -> Option<Reduce> {
    let layout = Layout::contiguous(Shape::new(case.0).ok()?).permute(case.1).ok()?;
    let shape = layout.shape().without_axes(case.2, KeepDims::No);
    let output = TensorSpec::new(function.output_dtype(dtype)?, Layout::contiguous(shape));
    Reduce::new(function, TensorSpec::new(dtype, layout), case.2, output).ok()
}

fn check(plan: &Plan) {
    assert_eq!(plan.launches.last().and_then(|l| l.bindings.last()), Some(&Slot::Output(0)));
    for launch in &plan.launches {
        assert!(launch.grid.iter().all(|&n| n > 0), "{launch:?}");
    }
}

#[test]
fn reductions_of_every_dtype_and_layout_validate() {
    let mut validated = Validated::default();
    for caps in [full_caps(), Caps::webgpu_defaults("test")] {
        for function in ReduceFn::ALL {
            for dtype in DType::ALL.into_iter().filter(|&d| caps.require(d).is_ok()) {
                for case in CASES {
                    let Some(op) = op(function, dtype, case) else { continue };
                    let plan = crate::ops::plan(&op.into(), &caps).unwrap();
                    check(&plan);
                    validated.check(&plan.launches, &caps);
                }
            }
        }
    }
    assert!(validated.kernels() > 200, "{} kernels", validated.kernels());
}

#[test]
fn elements_beyond_32_bits_are_refused() {
    let case: (&[u64], &[usize], &[usize]) = (&[1 << 17, 1 << 16], &[0, 1], &[1]);
    let op = op(ReduceFn::Sum, DType::F32, &case).unwrap();
    let err = crate::ops::plan(&op.into(), &full_caps()).unwrap_err();
    assert!(matches!(err, Error::IndexWidth { elements: 0x2_0000_0000, .. }), "{err}");
}
