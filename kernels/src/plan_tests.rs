//! Plans that are wrong in one place each: every one is refused, and the right one is not.

use super::*;
use crate::find;

fn kernel() -> &'static KernelInfo {
    find("probe_tensor_map").expect("a kernel that takes a tensor map")
}

fn map() -> TensorMap {
    let box_dims = [crate::catalogue::probe::BOX_ROWS, crate::catalogue::probe::BOX_COLUMNS];
    TensorMap::matrix((Slot::Input(0), 32), Element::F32, [100, 33], 144, box_dims, Swizzle::B128)
}

fn plan(map: TensorMap) -> Plan {
    let output = Arg::Address { slot: Slot::Output(0), offset_bytes: 0 };
    let args = vec![Arg::TensorMap(map), output, Arg::U32(100), Arg::U32(33)];
    Plan { launches: vec![Launch { kernel: kernel(), grid: [2, 13, 1], args }], scratch_bytes: Vec::new() }
}

#[test]
fn check_takes_a_sound_plan() {
    assert_eq!(plan(map()).check(1), Ok(()));
    assert!(plan(map()).runs_on(90) && !plan(map()).runs_on(80));
}

#[test]
fn check_refuses_tensor_maps_that_the_driver_refuses() {
    for wrong in [
        TensorMap { offset_bytes: 8, ..map() },
        TensorMap { strides_bytes: vec![140], ..map() },
        TensorMap { strides_bytes: vec![0], ..map() },
        TensorMap { strides_bytes: vec![], ..map() },
        TensorMap { dims: vec![0, 100], ..map() },
        TensorMap { dims: vec![1 << 33, 100], ..map() },
        TensorMap { dims: vec![1; 6], strides_bytes: vec![16; 5], box_dims: vec![4; 6], ..map() },
        TensorMap { box_dims: vec![32, 257], ..map() },
        TensorMap { box_dims: vec![3, 8], ..map() },
        TensorMap { box_dims: vec![64, 8], ..map() },
    ] {
        let text = format!("{wrong:?}");
        assert!(plan(wrong).check(1).is_err(), "{text}");
    }
}

/// Of two images of 9 x 7 pixels of 40 channels, under windows of 3 x 3 taps.
fn images() -> TensorMap {
    TensorMap {
        element: Element::F16,
        dims: vec![40, 7, 9, 2],
        strides_bytes: vec![80, 560, 5040],
        box_dims: vec![64, 1000],
        pixels: Some(Pixels { lower: [-1; 2], upper: [-1; 2], steps: [1, 2] }),
        ..map()
    }
}

#[test]
fn check_refuses_maps_of_pixels_that_the_driver_refuses() {
    assert_eq!(plan(images()).check(1), Ok(()));
    let walk = |change: fn(&mut Pixels)| {
        let mut pixels = images().pixels.unwrap();
        change(&mut pixels);
        TensorMap { pixels: Some(pixels), ..images() }
    };
    for wrong in [
        walk(|pixels| pixels.lower[0] = -129),
        walk(|pixels| pixels.upper[1] = 128),
        walk(|pixels| pixels.steps[0] = 0),
        walk(|pixels| pixels.steps[1] = 9),
        // No pixel is left.
        walk(|pixels| pixels.upper[0] = -8),
        TensorMap { box_dims: vec![64, 1025], ..images() },
        TensorMap { box_dims: vec![64, 1, 1, 1], ..images() },
        TensorMap { box_dims: vec![72, 8], ..images() },
        TensorMap { dims: vec![40, 7, 9], strides_bytes: vec![80, 560], ..images() },
        TensorMap { pixels: None, ..images() },
    ] {
        let text = format!("{wrong:?}");
        assert!(plan(wrong).check(1).is_err(), "{text}");
    }
}

#[test]
fn check_refuses_launches_that_do_not_fit_their_kernel() {
    let with = |change: &dyn Fn(&mut Plan)| {
        let mut plan = plan(map());
        change(&mut plan);
        plan.check(1)
    };
    assert!(with(&|plan| plan.launches[0].grid = [0, 1, 1]).is_err());
    assert!(with(&|plan| plan.launches[0].grid = [1, 65_536, 1]).is_err());
    assert!(with(&|plan| plan.launches[0].args.truncate(3)).is_err());
    assert!(with(&|plan| plan.launches[0].args[2] = Arg::I64(1)).is_err());
    assert!(with(&|plan| plan.launches[0].args[0] = Arg::Null).is_err());
    assert!(with(&|plan| plan.launches[0].args[1] = Arg::Null).is_err(), "nothing is written");
    let slot = |slot| Arg::Address { slot, offset_bytes: 0 };
    assert!(with(&|plan| plan.launches[0].args[1] = slot(Slot::Scratch(0))).is_err());
    assert!(with(&|plan| plan.launches.clear()).is_err());
    assert!(plan(map()).check(0).is_err(), "there is no input");
}

#[test]
fn pack_puts_addresses_and_maps_where_the_kernel_expects_them() {
    let plan = plan(map());
    let address = |slot: Slot| Some(if slot == Slot::Output(0) { 0x1000 } else { 0x2000 });
    let encode = |_: &TensorMap, at: u64| {
        let mut encoded = [0; 128];
        encoded[..8].copy_from_slice(&at.to_le_bytes());
        Ok(encoded)
    };
    let block = plan.launches[0].pack(address, encode).unwrap();
    assert_eq!(block.bytes().len(), 144);
    assert_eq!(block.bytes()[..8], 0x2020u64.to_le_bytes());
    assert_eq!(block.bytes()[128..136], 0x1000u64.to_le_bytes());
    assert_eq!(block.bytes()[136..], [100, 0, 0, 0, 33, 0, 0, 0]);
    assert!(plan.launches[0].pack(|_| None, encode).is_err());
    assert!(plan.launches[0].pack(address, |_, _| Err("no".to_owned())).is_err());
    assert!(plan.launches[0].pack(|_| Some(u64::MAX - 4), encode).is_err());
}
