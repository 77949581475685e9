//! Infinite f8e5m2: kept where they are chosen, clipped where they are computed, on every way through a program.

use crate::cpu::CpuBackend;
use crate::harness::ReferenceBackend;
use crate::ops::ReduceFn;
use crate::{BinaryFn, CompareFn, DType, Device, Expr, F8E5M2, KeepDims, Program, Tensor};

const INF: f32 = f32::INFINITY;

fn devices() -> [Device; 2] {
    [Device::new(CpuBackend::new()), Device::new(ReferenceBackend::default())]
}

fn infinite() -> [F8E5M2; 4] {
    [F8E5M2::INFINITY, F8E5M2::from_bits(0xfc), F8E5M2::MAX, F8E5M2::from_f32(-2.0)]
}

/// `expr` of infinity, -infinity, the largest number and -2, as f32.
fn of(device: &Device, expr: &Expr) -> Vec<f32> {
    let x = Tensor::from_slice(device, &infinite(), [4]).unwrap();
    let y = Tensor::map(expr, &[&x]).unwrap();
    if y.dtype() == DType::F32 {
        return y.to_vec::<f32>().unwrap();
    }
    y.to_vec::<F8E5M2>().unwrap().into_iter().map(F8E5M2::to_f32).collect()
}

#[test]
fn what_is_chosen_keeps_infinities_and_what_is_computed_clips_them() {
    let x = Expr::input(0);
    let positive = x.compare(CompareFn::Gt, 0.0);
    let large = 57344.0;
    for device in devices() {
        let is = |expr: &Expr, want: [f32; 4]| assert_eq!(of(&device, expr), want, "{expr:?} on {}", device.id());
        is(&x, [INF, -INF, large, -2.0]);
        is(&x.cast(DType::F8E5M2), [INF, -INF, large, -2.0]);
        is(&-x.clone(), [-INF, INF, -large, 2.0]);
        is(&x.abs(), [INF, INF, large, 2.0]);
        is(&x.relu().floor(), [INF, 0.0, large, 0.0]);
        is(&x.sign(), [1.0, -1.0, 1.0, -1.0]);
        is(&x.clamp(-1.5, INF), [INF, -1.5, large, -1.5]);
        is(&x.clamp(-1e6, 1e6), [large, -large, large, -2.0]);
        is(&positive.select(x.clone(), f32::NEG_INFINITY), [INF, -INF, large, -INF]);
        is(&x.binary(BinaryFn::Max, -x.clone()).cast(DType::F32), [INF, INF, large, 2.0]);
        // Computed: clipped, and beside what is chosen, too.
        is(&(x.clone() + 1.0), [large, -large, large, -1.0]);
        is(&positive.select(x.clone() * 2.0, x.clone()), [large, -INF, large, -2.0]);
        is(&x.binary(BinaryFn::Min, x.clone() * 4.0).cast(DType::F32), [large, -INF, large, -8.0]);
        // A conversion is no choice.
        is(&(x.cast(DType::F32) + 0.0).cast(DType::F8E5M2), [large, -large, large, -2.0]);
        let full = Tensor::full(&device, DType::F8E5M2, [1], f64::INFINITY).unwrap();
        assert_eq!(full.to_vec::<F8E5M2>().unwrap()[0].to_bits(), 0x7c);
    }
}

#[test]
fn extrema_over_axes_keep_infinities() {
    for device in devices() {
        let x = Tensor::from_slice(&device, &infinite(), [4]).unwrap();
        for (f, want) in
            [(ReduceFn::Max, INF), (ReduceFn::Min, -INF), (ReduceFn::AbsMax, INF), (ReduceFn::Sum, f32::NAN)]
        {
            let got = x.reduce(f, 0, KeepDims::No).unwrap().item::<F8E5M2>().unwrap().to_f32();
            assert!(got == want || (got.is_nan() && want.is_nan()), "{} gives {got}", f.name());
        }
    }
}

/// Whole numbers of sums are found before the sum is rounded: 2.9 is 3 in f8e5m2.
#[test]
fn sums_are_rounded_once() {
    for device in devices() {
        let x = Tensor::from_slice(&device, &[F8E5M2::from_f32(2.5)], [1]).unwrap();
        let floor = (Expr::input(0) + 0.4).floor();
        assert_eq!(Tensor::map(&floor, &[&x]).unwrap().item::<F8E5M2>().unwrap().to_f32(), 2.0);
    }
}

#[test]
fn programs_say_which_steps_are_numbers_of_their_dtype() {
    let rounded = |expr: &Expr, dtype| {
        let program = Program::compile(expr, &[dtype]).unwrap();
        program.is_result_rounded()
    };
    let x = Expr::input(0);
    for (expr, of_e5m2) in
        [(x.clone(), true), (-x.clone(), true), (x.clone() + 1.0, false), ((x.clone() + 1.0).abs(), false)]
    {
        assert_eq!(rounded(&expr, DType::F8E5M2), of_e5m2, "{expr:?}");
        assert!(rounded(&expr, DType::F32));
    }
}
