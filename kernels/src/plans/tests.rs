//! What holds for the candidates of every family: sound plans, unique names, ranked, code for the card. No GPU.

use std::collections::HashSet;

use polywarp_core::harness::pins::Pins;
use polywarp_core::harness::products::products;
use polywarp_core::harness::{BenchSize, Level};
use polywarp_core::ops::{GroupedMatmul, Matmul, REGISTRY, TensorSpec};
use polywarp_core::{DType, Layout, Precision, Shape};

use super::*;

fn cards() -> Vec<Caps> {
    let of = |sm, caps: Caps| Caps { sm, ..caps };
    vec![
        Caps::h200(),
        Caps { tensor_maps: false, ..Caps::h200() },
        Caps::a100(),
        Caps::rtx_4090(),
        of(86, Caps::rtx_4090()),
        of(100, Caps::h200()),
        of(120, Caps { tensor_maps: true, ..Caps::rtx_4090() }),
        of(75, Caps { max_shared_bytes: 65_536, ..Caps::a100() }),
    ]
}

fn check(op: &Op, caps: &Caps, name: &str) -> usize {
    let found = candidates(op, caps);
    let mut names = HashSet::new();
    for candidate in &found {
        let who = format!("{} for {name} on sm_{}", candidate.name, caps.sm);
        candidate.plan.check(op.inputs().len()).unwrap_or_else(|why| panic!("{who}: {why}"));
        assert!(candidate.plan.runs_on(caps.sm), "{who}");
        assert!(candidate.estimate_ns.is_finite() && candidate.estimate_ns > 0.0, "{who}: {}", candidate.estimate_ns);
        assert!(names.insert(&candidate.name), "{who}: twice");
        for launch in &candidate.plan.launches {
            let shared = launch.kernel.dynamic_shared_bytes;
            assert!(shared <= caps.max_shared_bytes, "{who}: {shared} bytes of shared memory");
            let maps = launch.kernel.params.contains(&crate::Param::TensorMap);
            assert!(caps.tensor_maps || !maps, "{who}: tensor maps");
        }
    }
    assert!(found.is_sorted_by(|a, b| a.estimate_ns <= b.estimate_ns), "{name}");
    found.len()
}

/// Operands whose elements lie in one place have extents without end.
#[test]
fn products_of_more_elements_than_there_are_numbers_have_no_native_candidate() {
    const LONG: u64 = (1 << 30) + 1;
    let layout = |dims: &[u64], strides: &[i64]| Layout::strided(Shape::new(dims).unwrap(), strides, 0).unwrap();
    for dtype in [DType::F64, DType::F32] {
        let spec = |layout| TensorSpec::new(dtype, layout);
        let (a, b) = (layout(&[LONG, LONG], &[1, 0]), layout(&[LONG, 1], &[1, 1]));
        let d = Layout::contiguous(Shape::new(&[LONG, 1]).unwrap());
        let op = Op::from(Matmul::product(spec(a), spec(b), spec(d)));
        for caps in cards() {
            assert!(every(&op, &caps).is_empty(), "{dtype} on sm_{}", caps.sm);
        }
    }
}

/// Kernels for another card do not decide which are worth timing on this one.
#[test]
fn estimates_of_kernels_for_other_cards_leave_none_out() {
    let caps = Caps { sm: 100, ..Caps::h200() };
    let spec = |dims: [u64; 2]| TensorSpec::new(DType::F16, Layout::contiguous(Shape::new(&dims).unwrap()));
    let b =
        TensorSpec::new(DType::F16, Layout::contiguous(Shape::new(&[1024, 8192]).unwrap()).permute(&[1, 0]).unwrap());
    let op = Op::from(Matmul::product(spec([16, 8192]), b, spec([16, 1024])));
    let offered = candidates(&op, &caps).into_iter().map(|found| found.name).collect::<HashSet<_>>();
    let mut own = gemv_tma::candidates(&op, &caps);
    own.retain(|found| found.plan.runs_on(caps.sm));
    let best = own.iter().map(|found| found.estimate_ns).fold(f64::INFINITY, f64::min);
    let worth: Vec<_> = own.iter().filter(|found| found.estimate_ns <= best * gemv_tma::WORTH_TIMING).collect();
    assert!(
        worth.len() > 1 && worth.iter().all(|found| offered.contains(&found.name)),
        "{} of {offered:?}",
        worth.len()
    );
}

/// Strides of a D or of operands of 1 TiB and more are none that a tensor map has.
#[test]
fn candidates_for_more_than_a_card_holds_are_sound() {
    const HALF_A_MEBI: u64 = 1 << 19;
    for (dtype, n) in [
        (DType::I8, HALF_A_MEBI),
        (DType::F8E4M3, HALF_A_MEBI),
        (DType::F64, HALF_A_MEBI),
        (DType::F32, HALF_A_MEBI),
        (DType::F16, 2 * HALF_A_MEBI),
        (DType::BF16, 2 * HALF_A_MEBI),
    ] {
        let spec = |dtype| TensorSpec::new(dtype, Layout::contiguous(Shape::new(&[n, n]).unwrap()));
        let product = Matmul::product(spec(dtype), spec(dtype), spec(Matmul::output_dtype(dtype).unwrap()));
        for precision in [Precision::Highest, Precision::High, Precision::Medium, Precision::Low] {
            let op = Op::from(Matmul { precision, ..product.clone() }.check().unwrap());
            for caps in cards() {
                check(&op, &caps, "more than a card holds");
                // Those that are not worth timing too.
                for candidate in every(&op, &caps) {
                    assert_eq!(candidate.plan.check(2), Ok(()), "{} of {dtype}", candidate.name);
                }
            }
        }
    }
}

#[test]
fn candidates_of_all_cases_are_sound() {
    let mut found = 0;
    for family in REGISTRY {
        for case in (family.cases)(Level::Full) {
            for caps in cards() {
                found += check(&case.op, &caps, &case.name);
            }
        }
        for case in (family.benches)(BenchSize::Large) {
            for caps in cards() {
                found += check(&case.op, &caps, &case.name);
            }
        }
    }
    println!("{found} candidates");
}

/// 16-bit ones on Hopper do (`wgmma_grouped_tests.rs`); others are left to the portable kernels.
#[test]
fn grouped_products_have_candidates_where_there_are_kernels() {
    let grouped = REGISTRY.iter().find(|family| family.name == "grouped_matmul").expect("registered");
    let ops = (grouped.cases)(Level::Full).into_iter().map(|case| case.op);
    let ops: Vec<Op> = ops.chain((grouped.benches)(BenchSize::Large).into_iter().map(|case| case.op)).collect();
    let mut served = 0;
    for caps in cards() {
        for op in &ops {
            let found = every(op, &caps).len();
            let Some(product) = op.get::<GroupedMatmul>() else { continue };
            let (a, to) = (product.a.dtype, product.output.dtype);
            let has = match a {
                DType::F16 | DType::BF16 => to == a || to == DType::F32,
                DType::F8E4M3 | DType::F8E5M2 => product.b.dtype == a,
                DType::I8 | DType::U8 => to == DType::I32,
                DType::F32 => product.precision <= Precision::Medium,
                _ => false,
            };
            assert!(found == 0 || (has && caps.sm == 90 && caps.tensor_maps), "{op:?} on sm_{}", caps.sm);
            served += usize::from(found > 0);
        }
    }
    assert!(served > 100, "{served}");
}

/// 8-bit floats on Hopper do, where stages lie within blocks (`wgmma_blocks_tests.rs`).
#[test]
fn scales_of_blocks_have_candidates_where_there_are_kernels() {
    let family = REGISTRY.iter().find(|family| family.name == "matmul").expect("registered");
    let cases = (family.cases)(Level::Full).into_iter().map(|case| case.op);
    let blocked = |op: &Op| op.get::<Matmul>().is_some_and(|op| op.scale_blocks.is_some());
    let ops: Vec<Op> = cases.filter(blocked).collect();
    assert!(ops.len() > 100);
    let mut served = 0;
    for caps in cards() {
        for op in &ops {
            let found = every(op, &caps);
            let has = op.inputs()[0].dtype.is_float8() && caps.sm == 90 && caps.tensor_maps;
            assert!(found.is_empty() || has, "{op:?} on sm_{}", caps.sm);
            assert!(found.iter().all(|candidate| candidate.name.contains("_blocks_")), "{found:?}");
            served += usize::from(!found.is_empty());
        }
    }
    assert!(served > 10, "{served}");
}

/// Kernels multiply what they added up by alpha, and 0 times NaN is NaN: such a product is left to those that read nothing.
#[test]
fn products_scaled_by_zero_have_no_native_candidate() {
    let dense = |dtype, dims: &[u64]| TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()));
    for dtype in [DType::F64, DType::F32, DType::F16, DType::F8E4M3, DType::I8] {
        let output = dense(Matmul::output_dtype(dtype).unwrap(), &[256, 256]);
        let of = |alpha| {
            let product = Matmul::product(dense(dtype, &[256, 256]), dense(dtype, &[256, 256]), output);
            Op::from(Matmul { alpha, precision: Precision::Medium, ..product }.check().unwrap())
        };
        assert!(cards().iter().any(|caps| !every(&of(2.0), caps).is_empty()), "{dtype}");
        for caps in cards() {
            assert!(every(&of(0.0), &caps).is_empty(), "{dtype} on sm_{}", caps.sm);
        }
    }
}

/// Names in the order of estimates: stores of tuned answers know candidates by them.
#[test]
fn pins_of_native_candidates_hold() {
    let mut pins = Pins::default();
    let cases = REGISTRY.iter().flat_map(|family| (family.cases)(Level::Quick)).map(|case| case.op);
    let ops: Vec<Op> = cases.chain(products().unwrap()).filter(|op| op.output().layout.elements() > 0).collect();
    for (card, caps) in cards().into_iter().enumerate() {
        let found = ops.iter().flat_map(|op| candidates(op, &caps));
        pins.pin(&format!("candidates {card} sm_{}", caps.sm), found.map(|candidate| candidate.name));
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/pins.txt");
    pins.differences(include_str!("../pins.txt"), path).unwrap_or_else(|text| panic!("{text}"));
}
