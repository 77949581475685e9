//! Every scan gives kernels that naga accepts with no more features than the device has, and slabs where lines are few.

use crate::ops::{Scan, ScanFn, ScanOptions};
use crate::{DType, Layout, Op, Shape, TensorSpec};

use crate::plan::{Caps, Plan};
use crate::wgsl::validate::{Validated, full_caps};

fn plan(f: ScanFn, dtype: DType, dims: &[u64], axis: usize, options: ScanOptions, caps: &Caps) -> Plan {
    let input = TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()));
    let op: Op = Scan::new(f, input, axis, options).unwrap().into();
    crate::ops::plan(&op, caps).unwrap()
}

#[test]
fn scans_of_every_function_dtype_and_walk_validate() {
    let shapes: &[(&[u64], usize)] = &[
        (&[7], 0),
        (&[1 << 21], 0),
        (&[(1 << 21) + 1], 0),
        (&[5, 64], 1),
        (&[1 << 14, 8], 0),
        (&[63, 65], 0),
        (&[4, 6, 8, 12], 2),
    ];
    let plain = ScanOptions::default();
    let mut validated = Validated::default();
    for caps in [full_caps(), Caps::webgpu_defaults("test")] {
        for f in ScanFn::ALL {
            let has = |dtype: &DType| f.output_dtype(*dtype).is_some() && caps.require(*dtype).is_ok();
            for dtype in DType::ALL.into_iter().filter(has) {
                for (dims, axis) in shapes {
                    validated.check(&plan(f, dtype, dims, *axis, plain, &caps).launches, &caps);
                }
                validated.check(&plan(f, dtype, &[5, 64], 1, plain.reversed(), &caps).launches, &caps);
            }
        }
        for options in [plain.exclusive(), plain.exclusive().reversed()] {
            validated.check(&plan(ScanFn::Sum, DType::F32, &[1 << 21], 0, options, &caps).launches, &caps);
        }
    }
    assert!(validated.kernels() > 100, "{} kernels", validated.kernels());
}

#[test]
fn few_long_lines_are_cut_into_slabs_and_many_are_not() {
    let caps = full_caps();
    let launches =
        |dims: &[u64], axis| plan(ScanFn::Sum, DType::F32, dims, axis, ScanOptions::default(), &caps).launches.len();
    assert_eq!([launches(&[1 << 24], 0), launches(&[1 << 14, 1 << 14], 1)], [3, 1]);
    assert_eq!([launches(&[1 << 20, 4], 0), launches(&[1 << 10, 1 << 20], 0)], [3, 1]);
}

#[test]
fn slabs_are_short_where_drivers_end_long_loops() {
    let caps = Caps { max_loop_rounds: Some(20_000), ..full_caps() };
    for (dims, axis) in [(&[1u64 << 26][..], 0), (&[1 << 14, 1 << 12], 0)] {
        for launch in plan(ScanFn::Sum, DType::F32, dims, axis, ScanOptions::default(), &caps).launches {
            assert!(launch.kernel.loop_rounds(&launch.params) <= 20_000, "{dims:?}");
        }
    }
}
