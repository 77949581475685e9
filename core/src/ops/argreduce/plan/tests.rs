//! Every argmax and argmin gives kernels that naga accepts with no more features than the device has.

use crate::ops::{ArgReduce, ArgReduceFn};
use crate::{DType, KeepDims, Layout, Shape, TensorSpec};

use crate::plan::Caps;
use crate::wgsl::validate::{Validated, full_caps};

#[test]
fn arg_reductions_of_every_dtype_and_layout_validate() {
    let cases: &[(&[u64], &[usize], &[usize])] = &[
        (&[7], &[0], &[0]),
        (&[1 << 21], &[0], &[0]),
        (&[5, 64], &[0, 1], &[1]),
        (&[5, 63], &[0, 1], &[1]),
        (&[4096, 8], &[0, 1], &[0]),
        (&[63, 65], &[0, 1], &[0]),
        (&[6, 8, 10], &[2, 0, 1], &[1]),
        (&[4, 6, 8, 12], &[0, 1, 2, 3], &[0, 2, 3]),
    ];
    let mut validated = Validated::default();
    for caps in [full_caps(), Caps::webgpu_defaults("test")] {
        for function in ArgReduceFn::ALL {
            for dtype in DType::ALL.into_iter().filter(|&d| d != DType::Bool && caps.require(d).is_ok()) {
                for (dims, order, axes) in cases {
                    let layout = Layout::contiguous(Shape::new(dims).unwrap()).permute(order).unwrap();
                    let shape = layout.shape().without_axes(axes, KeepDims::No);
                    let output = TensorSpec::new(DType::U32, Layout::contiguous(shape));
                    let op = ArgReduce::new(function, TensorSpec::new(dtype, layout), axes, output).unwrap();
                    validated.check(&crate::ops::plan(&op.into(), &caps).unwrap().launches, &caps);
                }
            }
        }
    }
    assert!(validated.kernels() > 50, "{} kernels", validated.kernels());
}

#[test]
fn positions_survive_several_passes() {
    // [4, 6, 8, 12] over axes 0, 2 and 3: positions count through (4, 8, 12).
    let layout = Layout::contiguous(Shape::new(&[4, 6, 8, 12]).unwrap());
    let output = TensorSpec::new(DType::U32, Layout::contiguous(Shape::new(&[6]).unwrap()));
    let op = ArgReduce::new(ArgReduceFn::ArgMax, TensorSpec::new(DType::F32, layout), &[0, 2, 3], output).unwrap();
    let plan = crate::ops::plan(&op.into(), &full_caps()).unwrap();
    // Parameter 6 is what one step along the folded axis adds.
    let steps: Vec<u32> = plan.launches.iter().map(|l| l.params[6]).collect();
    assert_eq!(steps, [1, 96]);
}
