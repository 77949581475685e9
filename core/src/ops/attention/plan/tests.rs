//! Plans of attention without a device: every kernel is valid, fits the least device, and stays within its loops.

use crate::ops::{AttentionDropout, LseGradient};
use crate::{Layout, Shape};

use super::*;
use crate::wgsl::validate::{Validated, full_caps};

pub(super) fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
}

/// An attention with everything, of heads of this many elements.
fn whole(dtype: DType, [size, width]: [u64; 2], causal: bool, hides: bool) -> Attention {
    let (q, k, v) =
        (dense(dtype, &[2, 70, 4, size]), dense(dtype, &[2, 33, 2, size]), dense(dtype, &[2, 33, 2, width]));
    let mask = hides.then(|| dense(DType::Bool, &[2, 4, 70, 33]));
    let dropout = hides.then(|| AttentionDropout { rate: 0.1, key: [dense(DType::U32, &[2]); 2] });
    Attention { causal, mask, dropout, ..Attention::new(q, k, v).unwrap() }.check().unwrap()
}

#[test]
fn every_kernel_validates_and_fits_the_least_device() {
    let mut validated = Validated::default();
    for caps in [full_caps(), Caps::webgpu_defaults("test")] {
        for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
            if caps.require(dtype).is_err() {
                continue;
            }
            for (head, causal, hides) in [([64, 64], false, false), ([7, 130], true, true), ([256, 256], true, false)] {
                let op = whole(dtype, head, causal, hides);
                let plan = by_kernels(&op, &caps).unwrap();
                assert_eq!(plan.launches.len(), 1);
                let dlse = if hides { LseGradient::Given } else { LseGradient::Absent };
                let gradient = AttentionGradient::new(op, dlse).unwrap();
                let back = gradient_by_kernels(&gradient, &caps).unwrap();
                assert_eq!(back.launches.len(), 3);
                for launch in plan.launches.iter().chain(&back.launches) {
                    assert!(launch.bindings.len() <= 8, "{launch:?}");
                }
                validated.check(&plan.launches, &caps);
                validated.check(&back.launches, &caps);
            }
        }
    }
}

#[test]
fn longer_heads_are_made_of_other_operations() {
    let caps = Caps::webgpu_defaults("test");
    let op = whole(DType::F32, [260, 8], true, false);
    assert!(by_kernels(&op, &caps).unwrap_err().is_unsupported());
    assert!(forward(&op, &caps).unwrap().launches.len() > 3);
    let names: Vec<String> = forward_candidates(&whole(DType::F32, [64, 64], false, false), &caps)
        .unwrap()
        .into_iter()
        .map(|candidate| candidate.name)
        .collect();
    assert_eq!(names, ["attention", "composed"]);
}

#[test]
fn loops_of_a_driver_that_ends_them_are_counted() {
    let caps = Caps { max_loop_rounds: Some(65_535), ..Caps::webgpu_defaults("test") };
    let of = |keys: u64| {
        let (q, k) = (dense(DType::F32, &[1, 8, 1, 64]), dense(DType::F32, &[1, keys, 1, 64]));
        by_kernels(&Attention::new(q, k, k).unwrap(), &caps).unwrap().loop_rounds()
    };
    assert!(of(2048) < 65_535 && of(100_000) > 65_535, "{} {}", of(2048), of(100_000));
}

/// Of no keys every way is a plan: zeros, and -inf where sums would be.
#[test]
fn attention_to_no_keys_has_every_way() {
    let caps = full_caps();
    let [q, k] = [[1, 3, 2, 16], [1, 0, 1, 16]].map(|dims| dense(DType::F32, &dims));
    let op = Attention::new(q, k, k).unwrap();
    let names = |op: crate::Op| -> Vec<String> {
        crate::ops::candidates(&op, &caps).unwrap().into_iter().map(|way| way.name).collect()
    };
    assert_eq!(names(op.clone().into()).last().map(String::as_str), Some("composed"));
    let gradient = AttentionGradient::new(op, LseGradient::Absent).unwrap();
    assert_eq!(names(gradient.into()).last().map(String::as_str), Some("composed"));
}
