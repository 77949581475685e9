//! Every scan gives kernels that naga accepts with no more features than the device has, and slabs where lines are few.

use crate::ops::{Scan, ScanFn, ScanOptions};
use crate::{DType, Layout, Op, Shape, TensorSpec};

use super::{Kernel, SLABS, Step, Walk, chain};
use crate::plan::{Caps, Plan, Slot};
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
        (&[1 << 24], 0),
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
    let launches = |dims: &[u64], axis| {
        plan(ScanFn::LogSumExp, DType::F32, dims, axis, ScanOptions::default(), &caps).launches.len()
    };
    assert_eq!([launches(&[1 << 24], 0), launches(&[1 << 14, 1 << 14], 1)], [3, 1]);
    assert_eq!([launches(&[1 << 20, 4], 0), launches(&[1 << 10, 1 << 20], 0)], [3, 1]);
}

/// The chain's launch, if that is how a sum runs.
fn chained(dtype: DType, dims: &[u64], caps: &Caps) -> Option<(Kernel, Vec<u32>)> {
    let launches = plan(ScanFn::Sum, dtype, dims, dims.len() - 1, ScanOptions::default(), caps).launches;
    let last = launches.last().unwrap();
    let kernel = last.kernel.get::<Kernel>().unwrap().clone();
    (kernel.step == Step::Chained).then(|| {
        // What workgroups publish is zero before.
        assert_eq!([launches.len(), last.bindings.len()], [2, 3]);
        assert_eq!((&launches[0].bindings[..], last.bindings[1]), (&[Slot::Scratch(0)][..], Slot::Scratch(0)));
        (kernel, last.params.clone())
    })
}

#[test]
fn sums_of_few_long_rows_go_through_memory_once_where_they_fit_a_word() {
    let caps = full_caps();
    let is_chain = |dtype, dims: &[u64], caps: &Caps| chained(dtype, dims, caps).is_some();
    for dtype in [DType::F32, DType::F16, DType::F8E5M2, DType::I8, DType::U32, DType::Bool] {
        assert!(is_chain(dtype, &[1 << 28], &caps) && is_chain(dtype, &[7, (1 << 20) + 1], &caps), "{dtype}");
        assert!(!is_chain(dtype, &[4000], &caps) && !is_chain(dtype, &[1 << 10, 1 << 18], &caps), "{dtype}");
    }
    assert!(!is_chain(DType::F64, &[1 << 28], &caps) && !is_chain(DType::I64, &[1 << 28], &caps));
    // As a driver that ends loops, or a device of small workgroups, leaves it.
    let (short, small) = (Caps { max_loop_rounds: Some(65_535), ..caps.clone() }, Caps { max_invocations: 16, ..caps });
    assert!(is_chain(DType::F32, &[70_001], &short) && !is_chain(DType::F32, &[1 << 28], &short));
    assert!(!is_chain(DType::F32, &[1 << 28], &small));
}

#[test]
fn chains_of_sums_are_as_short_as_the_bound_wants() {
    let poor = Caps { max_invocations: 128, ..Caps::webgpu_defaults("test") };
    for caps in [full_caps(), poor] {
        let mut chains = 0;
        for length in (12..32).flat_map(|log| [1u64 << log, (1 << log) + 1]) {
            let Some((kernel, params)) = chained(DType::F32, &[length], &caps) else { continue };
            let Walk::Rows { lanes, strips } = kernel.walk else { panic!("{kernel:?}") };
            let tiles = u64::from(params[SLABS]);
            assert_eq!(tiles, length.div_ceil(kernel.width() * u64::from(lanes * strips)), "{length}");
            // Within a vector, vectors of a thread, threads, what precedes both; tiles of a block, blocks, what precedes each.
            let tile = kernel.width() + u64::from(strips + lanes.ilog2()) + 2;
            let depth = tile + tiles.min(chain::BLOCK.into()) + tiles / u64::from(chain::BLOCK) + 2;
            // As the oracle has it (`scan/oracle.rs`).
            assert!(depth as f64 <= 2.0 * (length as f64).sqrt(), "{depth} for {length}");
            chains += 1;
        }
        assert!(chains > 30, "{chains}");
    }
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
