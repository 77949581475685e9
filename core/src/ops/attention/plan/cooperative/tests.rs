//! Which operations cooperative matrices serve, and that their kernels are valid on the devices that have them.

use super::super::{backward_candidates, forward_candidates, gradient_by_cooperative, tests::dense};
use super::*;
use crate::TensorSpec;
use crate::ops::{AttentionDropout, AttentionGradient, LseGradient};
use crate::wgsl::validate::{Validated, full_caps};

fn op(head: [u64; 2], queries: u64, keys: u64) -> Attention {
    let [size, width] = head;
    let operand = |rows: u64, n: u64| -> TensorSpec { dense(DType::F16, &[2, rows, 2, n]) };
    Attention::new(operand(queries, size), operand(keys, size), operand(keys, width)).unwrap()
}

#[test]
fn every_kernel_validates_and_leaves_room_for_a_second_workgroup() {
    let caps = full_caps();
    let mut validated = Validated::default();
    for head in [[4, 4], [16, 16], [20, 84], [64, 64], [80, 48], [128, 128], [64, 192], [256, 256]] {
        for (causal, masked) in [(false, false), (true, false), (false, true)] {
            let mask = masked.then(|| dense(DType::Bool, &[2, 2, 70, 33]));
            let op = Attention { causal, mask, ..op(head, 70, 33) }.check().unwrap();
            let plan = forward(&op, &caps).unwrap().unwrap();
            let [launch] = &plan.launches[..] else { panic!("{plan:?}") };
            let kernel = launch.kernel.get::<Kernel>().unwrap();
            assert!(kernel.workgroup_bytes() <= TWO_FIT_BYTES, "{kernel:?}");
            assert_eq!(launch.grid, [2 * 2 * 2 * kernel.parts, 1, 1]);
            assert!(launch.kernel.source().cooperative());
            validated.check(&plan.launches, &caps);
            let gradient = AttentionGradient::new(op, LseGradient::Given).unwrap();
            let plan = gradient_by_cooperative(&gradient, &caps).unwrap();
            assert_eq!(plan.is_some(), head.iter().all(|&n| n <= 128), "{head:?}");
            let Some(plan) = plan else { continue };
            let [_, queries, keys] = &plan.launches[..] else { panic!("{plan:?}") };
            assert!([queries, keys].iter().all(|launch| launch.kernel.source().cooperative()));
            assert!([queries, keys].iter().all(|launch| launch.bindings.len() <= 8));
            assert_eq!((queries.grid, keys.grid), ([2 * 2 * 2, 1, 1], [2 * 2, 1, 1]));
            validated.check(&plan.launches, &caps);
        }
    }
}

#[test]
fn what_is_not_served_has_no_such_candidate() {
    let names = |op: &Attention, caps: &Caps| -> Vec<String> {
        forward_candidates(op, caps).unwrap().into_iter().map(|candidate| candidate.name).collect()
    };
    let caps = full_caps();
    let served = op([64, 64], 512, 512);
    assert_eq!(names(&served, &caps), [NAME, "attention", "composed"]);
    // The plain kernel is first where there is nothing to do.
    assert_eq!(names(&op([64, 64], 1, 0), &caps), ["attention", NAME, "composed"]);
    let f32_spec = |spec: TensorSpec| TensorSpec { dtype: DType::F32, ..spec };
    let single = Attention::new(f32_spec(served.q), f32_spec(served.k), f32_spec(served.v)).unwrap();
    let negative = Attention { scale: -1.0, ..served.clone() };
    let offset = TensorSpec { layout: served.q.layout.with_offset(2), ..served.q };
    let unaligned = Attention { q: offset, ..served.clone() };
    for other in [single, negative, unaligned, op([66, 64], 512, 512), op([64, 0], 512, 512), op([260, 64], 512, 512)] {
        assert!(!names(&other, &caps).contains(&NAME.to_owned()), "{other:?}");
    }
    let gradient = |op: &Attention| -> Vec<String> {
        let op = AttentionGradient::new(op.clone(), LseGradient::Absent).unwrap();
        backward_candidates(&op, &caps).unwrap().into_iter().map(|candidate| candidate.name).collect()
    };
    assert_eq!(gradient(&served), [gradient::NAME, "attention_gradient", "composed"]);
    let drops = Some(AttentionDropout { rate: 0.1, key: [dense(DType::U32, &[2]); 2] });
    for other in [op([192, 64], 512, 512), Attention { dropout: drops, ..served.clone() }] {
        assert_eq!(gradient(&other), ["attention_gradient", "composed"], "{other:?}");
    }
    let without = [
        Caps { cooperative: Vec::new(), ..full_caps() },
        Caps { cooperative: vec![Cooperative { sum: DType::F16, ..Cooperative::TENSOR_CORES[0] }], ..full_caps() },
        Caps { subgroups: Some((32, 64)), ..full_caps() },
        Caps { max_workgroup_bytes: 8 << 10, ..full_caps() },
    ];
    for caps in without {
        assert!(!names(&served, &caps).contains(&NAME.to_owned()), "{caps:?}");
    }
}
