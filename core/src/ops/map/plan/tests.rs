//! Modes and every step of every dtype: what the planner decides, and that the text validates.

use crate::ops::Map;
use crate::{BinaryFn, CompareFn, DType, Expr, Layout, Program, Shape, TensorSpec, UnaryFn};

use super::*;
use crate::wgsl::validate::{Validated, full_caps};

fn map(expr: &Expr, inputs: &[(DType, Layout)], shape: &[u64]) -> Map {
    let dtypes: Vec<DType> = inputs.iter().map(|i| i.0).collect();
    let program = Program::compile(expr, &dtypes).unwrap();
    let output = TensorSpec::new(program.dtype(), Layout::contiguous(Shape::new(shape).unwrap()));
    Map::new("test", program, inputs.iter().map(|&(d, l)| TensorSpec::new(d, l)).collect(), output).unwrap()
}

fn kernel(op: &Map, caps: &Caps) -> Kernel {
    plan(op, caps).unwrap().launches[0].kernel.get::<Kernel>().unwrap().clone()
}

fn check(op: &Map, caps: &Caps) {
    Validated::default().check(&plan(op, caps).unwrap().launches, caps);
}

fn dense(dims: &[u64]) -> Layout {
    Layout::contiguous(Shape::new(dims).unwrap())
}

#[test]
fn modes_follow_layouts() {
    let row = dense(&[8]).broadcast_to(Shape::new(&[6, 8]).unwrap()).unwrap();
    let column = dense(&[6, 1]).broadcast_to(Shape::new(&[6, 8]).unwrap()).unwrap();
    let one = dense(&[1]).broadcast_to(Shape::new(&[6, 8]).unwrap()).unwrap();
    let flipped = dense(&[8, 6]).transpose(0, 1).unwrap();
    let layouts = [dense(&[6, 8]), row, column, one, flipped, dense(&[6, 8]).with_offset(3)];
    let element = Element::new(DType::F32, &full_caps()).unwrap();
    let modes = Modes::of(&layouts.map(|layout| (element, layout)));
    assert_eq!(modes.modes, [Mode::Dense, Mode::Rows, Mode::Splat, Mode::Uniform, Mode::Gather, Mode::Gather]);
    assert_eq!(modes.dims, [6, 8]);
    assert_eq!(modes.strides[4], [1, 6]);
    let odd = Modes::of(&[(element, dense(&[7]).broadcast_to(Shape::new(&[6, 7]).unwrap()).unwrap())]);
    assert_eq!((odd.modes[0], odd.whole_rows()), (Mode::Gather, false));
}

#[test]
fn constants_are_parameters_not_text() {
    let caps = full_caps();
    let shifted = |c: f64| map(&(Expr::input(0) + c), &[(DType::F64, dense(&[5]))], &[5]);
    assert_eq!(kernel(&shifted(1.0), &caps), kernel(&shifted(2.0), &caps));
    let params = |c| plan(&shifted(c), &caps).unwrap().launches.remove(0).params;
    assert_ne!(params(1.0), params(2.0));
    // quads, tail, last, y_offset, x0_offset, padding, then the constant on an even word.
    assert_eq!(params(1.0), [2, 1, 4, 0, 0, 0, 0, 0x3ff0_0000]);
}

#[test]
fn random_bits_of_one_key_are_a_block_for_each_quad() {
    let key = || std::array::from_fn::<Expr, 4, _>(Expr::input);
    let one = || dense(&[]).broadcast_to(Shape::new(&[6, 7]).unwrap()).unwrap();
    let row = dense(&[7]).broadcast_to(Shape::new(&[6, 7]).unwrap()).unwrap();
    let bits = |expr: Expr, last: Layout| {
        let inputs = [one(), one(), one(), last].map(|layout| (DType::U32, layout));
        map(&expr, &inputs, &[6, 7])
    };
    let [a, b, c, d] = key();
    let computed = Expr::random([a, b, c + 1, d]);
    for caps in [full_caps(), Caps::webgpu_defaults("test")] {
        // Calls of `philox`, and whether elements have blocks of their own.
        for (op, calls, alone) in [
            (bits(Expr::random(key()), one()), 1, false),
            (bits(Expr::random(key()) ^ Expr::random([1, 2, 3, 4].map(Expr::constant)), one()), 2, false),
            (bits(Expr::random(key()), row), 1, true),
            (bits(computed.clone(), one()), 1, true),
            (bits(Expr::random(key()) ^ &computed, one()), 2, true),
            // Rows end inside of quads.
            (bits(Expr::random(key()) ^ Expr::random([1, 2, 3, 4].map(Expr::constant)), row), 2, true),
        ] {
            check(&op, &caps);
            let text = kernel(&op, &caps).source().wgsl;
            assert_eq!(text.matches(" philox(vec4<u32>").count(), calls, "{text}");
            assert_eq!(text.matches("fn philox(").count(), 1);
            assert_eq!(text.contains("fn random_word("), alone, "{text}");
            assert_eq!(text.contains("u64("), caps.i64, "{text}");
        }
    }
}

#[test]
fn every_step_of_every_dtype_validates() {
    for caps in [full_caps(), Caps::webgpu_defaults("test")] {
        for dtype in DType::ALL.into_iter().filter(|&d| caps.require(d).is_ok()) {
            let (x, y) = (Expr::input(0), Expr::input(1));
            let two = [(dtype, dense(&[5])), (dtype, dense(&[5]))];
            for f in UnaryFn::ALL.into_iter().filter(|f| f.defined_for(dtype)) {
                check(&map(&x.unary(f), &two[..1], &[5]), &caps);
            }
            for f in BinaryFn::ALL
                .into_iter()
                .filter(|f| f.defined_for(dtype) && (*f != BinaryFn::Pow || dtype != DType::F64))
            {
                check(&map(&x.binary(f, y.clone()), &two, &[5]), &caps);
            }
            for f in CompareFn::ALL.into_iter().filter(|f| f.defined_for(dtype)) {
                check(&map(&x.compare(f, y.clone()), &two, &[5]), &caps);
                check(&map(&x.compare(f, y.clone()).select(x.clone(), y.clone()), &two, &[5]), &caps);
            }
            for to in DType::ALL.into_iter().filter(|&d| caps.require(d).is_ok()) {
                check(&map(&x.cast(to), &two[..1], &[5]), &caps);
                check(&map(&Expr::index().cast(dtype).cast(to), &[], &[5]), &caps);
                check(&map(&Expr::constant(1).cast(dtype).cast(to), &[], &[5]), &caps);
            }
        }
    }
}

#[test]
fn every_mode_of_every_dtype_validates() {
    for caps in [full_caps(), Caps::webgpu_defaults("test")] {
        for dtype in DType::ALL.into_iter().filter(|&d| caps.require(d).is_ok()) {
            for cols in [7, 8] {
                let shape = Shape::new(&[2, 3, cols]).unwrap();
                let flipped = dense(&[cols, 3, 2]).permute(&[2, 1, 0]).unwrap();
                for layout in [
                    dense(&[2, 3, cols]),
                    dense(&[cols]).broadcast_to(shape).unwrap(),
                    dense(&[3, 1]).broadcast_to(shape).unwrap(),
                    dense(&[1]).with_offset(3).broadcast_to(shape).unwrap(),
                    flipped,
                ] {
                    let inputs = [(dtype, layout), (dtype, dense(&[2, 3, cols])), (dtype, flipped)];
                    let expr = Expr::input(0).compare(CompareFn::Eq, Expr::input(1));
                    let expr = expr.select(Expr::input(2), Expr::input(0));
                    check(&map(&expr, &inputs, &[2, 3, cols]), &caps);
                }
            }
        }
    }
}

#[test]
fn f64_without_i64_has_what_needs_no_bits() {
    let caps = Caps { f64: true, ..Caps::webgpu_defaults("test") };
    for f in UnaryFn::ALL.into_iter().filter(|f| f.defined_for(DType::F64)) {
        let op = map(&Expr::input(0).unary(f), &[(DType::F64, dense(&[5]))], &[5]);
        match plan(&op, &caps) {
            Ok(_) => check(&op, &caps),
            Err(err) => assert!(err.is_unsupported() && !matches!(f, UnaryFn::Abs | UnaryFn::Sqrt), "{err}"),
        }
    }
}

/// SwiftShader takes the wrong neighbour for some u32, as WGSL allows.
#[test]
fn integers_become_f32_by_halves_unless_the_device_takes_the_nearest() {
    let caps = |nearest_conversions| Caps { nearest_conversions, ..Caps::webgpu_defaults("test") };
    let text = |expr: &Expr, inputs: &[(DType, Layout)], nearest| {
        let op = map(expr, inputs, &[5]);
        check(&op, &caps(nearest));
        kernel(&op, &caps(nearest)).source().wgsl
    };
    for from in [DType::I32, DType::U32] {
        let (cast, inputs) = (Expr::input(0).cast(DType::F32), [(from, dense(&[5]))]);
        let by_halves = format!("= f32_from_{from}(");
        assert!(text(&cast, &inputs, false).contains(&by_halves));
        assert!(!text(&cast, &inputs, true).contains("f32_from_"));
    }
    let ramp = Expr::index().cast(DType::F32);
    assert!(text(&ramp, &[], false).contains("f32_from_u32(") && !text(&ramp, &[], true).contains("f32_from_"));
    let exact = map(&Expr::input(0).cast(DType::F32), &[(DType::U8, dense(&[5]))], &[5]);
    assert_eq!(kernel(&exact, &caps(false)), kernel(&exact, &caps(true)), "bytes need no care");
}

#[test]
fn too_many_elements_are_refused() {
    let layout = dense(&[1]).broadcast_to(Shape::new(&[1 << 32]).unwrap()).unwrap();
    let op = map(&Expr::input(0).unary(UnaryFn::Neg), &[(DType::F32, layout)], &[1 << 32]);
    let err = plan(&op, &full_caps()).unwrap_err();
    assert!(matches!(err, Error::IndexWidth { op: "test", max, .. } if max == u64::from(u32::MAX)), "{err}");
}

#[test]
fn long_launches_fold_over_two_dimensions() {
    let n = 300_000_000;
    let op = map(&Expr::input(0).unary(UnaryFn::Neg), &[(DType::F32, dense(&[n]))], &[n]);
    let grid = plan(&op, &full_caps()).unwrap().launches.remove(0).grid;
    assert!(grid[1] == 5 && grid.iter().all(|&g| g <= 65_535));
    assert!(u64::from(grid[0]) * u64::from(grid[1]) * 1024 >= n);
}
