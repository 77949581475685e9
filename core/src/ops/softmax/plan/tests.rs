//! Every softmax gives kernels that naga accepts with no more features than the device has.

use crate::ops::{Softmax, SoftmaxFn};
use crate::{DType, Error, Layout, Shape, TensorSpec};

use super::Step;
use crate::plan::{Caps, Plan};
use crate::wgsl::validate::{Validated, full_caps};

fn softmax(function: SoftmaxFn, dtype: DType, dims: &[u64], order: &[usize], axis: usize, caps: &Caps) -> Plan {
    let layout = Layout::contiguous(Shape::new(dims).unwrap()).permute(order).unwrap();
    let output = TensorSpec::new(dtype, Layout::contiguous(*layout.shape()));
    let op = Softmax::new(function, TensorSpec::new(dtype, layout), axis, output).unwrap();
    crate::ops::plan(&op.into(), caps).unwrap()
}

#[test]
fn softmax_of_every_dtype_and_layout_validates() {
    let cases: &[(&[u64], &[usize], usize)] = &[
        (&[1], &[0], 0),
        (&[5, 1], &[0, 1], 1),
        (&[5, 7], &[0, 1], 1),
        (&[5, 64], &[0, 1], 1),
        (&[5, 1000], &[0, 1], 1),
        (&[3, 16384], &[0, 1], 1),
        (&[3, 16383], &[0, 1], 1),
        (&[2, 1 << 20], &[0, 1], 1),
        (&[2, (1 << 20) + 1], &[0, 1], 1),
        (&[64, 8], &[0, 1], 0),
        (&[64, 7], &[0, 1], 0),
        (&[6, 8, 10], &[2, 0, 1], 1),
        (&[6, 8, 10], &[0, 1, 2], 1),
    ];
    let mut validated = Validated::default();
    for caps in [full_caps(), Caps::webgpu_defaults("test")] {
        for function in SoftmaxFn::ALL {
            for dtype in DType::FLOATS.into_iter().filter(|&d| caps.require(d).is_ok()) {
                for (dims, order, axis) in cases {
                    validated.check(&softmax(function, dtype, dims, order, *axis, &caps).launches, &caps);
                }
            }
        }
    }
    assert!(validated.kernels() > 60, "{} kernels", validated.kernels());
}

#[test]
fn rows_are_held_up_to_16384_elements() {
    for (caps, lanes) in [(Caps { max_invocations: 1024, ..full_caps() }, 512), (Caps::webgpu_defaults("test"), 256)] {
        let plan = softmax(SoftmaxFn::Softmax, DType::F32, &[3, 16384], &[0, 1], 1, &caps);
        assert_eq!(plan.launches.len(), 1);
        let kernel = plan.launches[0].kernel.get::<super::Kernel>().expect("a softmax");
        assert!(matches!(kernel.step, Step::Held { full: true, lanes: l, .. } if l == lanes), "{kernel:?}");
    }
    let plan = softmax(SoftmaxFn::Softmax, DType::F32, &[3, 1 << 20], &[0, 1], 1, &full_caps());
    assert!(plan.launches.len() >= 2);
}

#[test]
fn f64_needs_wide_integers_too() {
    let spec = TensorSpec::new(DType::F64, Layout::contiguous(Shape::new(&[4]).unwrap()));
    let op = Softmax::new(SoftmaxFn::Softmax, spec, 0, spec).unwrap();
    let err = crate::ops::plan(&op.into(), &Caps { i64: false, ..full_caps() }).unwrap_err();
    assert!(matches!(err, Error::UnsupportedDType { dtype: DType::I64, .. }), "{err}");
}
