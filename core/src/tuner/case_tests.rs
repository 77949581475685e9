//! Small cases are like the op they stand for, and wrong results do not pass them.

use super::*;
use crate::case::{LayoutKind, Level};
use crate::harness::ReferenceBackend;
use crate::harness::broken::{Fault, broken};
use crate::ops::{GroupedMatmul, Matmul, Operation, ScaleBlocks};
use crate::tuner::Key;
use crate::{Buffer, DType, Device, Layout, Precision, Shape, UnaryFn};

fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
}

fn product(dtype: DType, [m, n, k]: [u64; 3]) -> Matmul {
    let output = dense(Matmul::output_dtype(dtype).unwrap(), &[m, n]);
    Matmul::product(dense(dtype, &[m, k]), dense(dtype, &[k, n]), output)
}

fn small(op: Matmul, effort: Effort, longer: u32) -> Matmul {
    let small = reduced(&op.check().unwrap().into(), effort, longer).expect("not reduced");
    small.get::<Matmul>().unwrap().clone()
}

#[test]
fn extents_keep_their_remainders() {
    for (extents, expected) in [
        ([4096, 4096, 4096], [384, 384, 256]),
        ([4097, 4095, 4093], [257, 383, 253]),
        ([1000, 1000, 1000], [360, 360, 232]),
        ([17, 300, 5], [17, 300, 5]),
        ([1, 8192, 4096], [1, 384, 256]),
    ] {
        let dims = small(product(DType::F32, extents), Effort::Normal, 0).dims();
        assert_eq!([dims.m, dims.n, dims.k], expected, "{extents:?}");
        for (&small, &large) in [dims.m, dims.n, dims.k].iter().zip(&extents) {
            assert!(small == large || small % 128 == large % 128);
        }
    }
    let dims = small(product(DType::F32, [4097, 1000, 4096]), Effort::Small, 0).dims();
    assert_eq!([dims.m, dims.n, dims.k], [129, 104, 128]);
}

/// A verdict is kept for other callers, whose factors may be any.
#[test]
fn factors_of_a_caller_are_not_those_of_the_check() {
    for given in [f64::NAN, f64::INFINITY, 1e6, -3.0] {
        let output = product(DType::F16, [300, 300, 300]).output;
        let op = Matmul { alpha: given, beta: given, c: Some(output), ..product(DType::F16, [300, 300, 300]) };
        let small = small(op, Effort::Normal, 0);
        assert_eq!((small.alpha, small.beta), (-2.0, -2.0), "{given}");
    }
    let plain = small(product(DType::F16, [300, 300, 300]), Effort::Normal, 0);
    assert_eq!((plain.alpha, plain.beta), (1.0, 0.0));
}

#[test]
fn longer_cases_only_grow_along_k_and_end() {
    let op = product(DType::F16, [4096, 4096, 3000]);
    let lengths: Vec<u64> = (0..7)
        .map_while(|longer| reduced(&op.clone().check().unwrap().into(), Effort::Normal, longer))
        .map(|op| op.get::<Matmul>().map_or(0, |op| op.dims().k))
        .collect();
    assert_eq!(lengths, [128 + 56, 256 + 56, 512 + 56, 1024 + 56, 2048 + 56, 3000]);
}

#[test]
fn classes_of_small_cases_are_those_of_the_op() {
    let tuned = ["grouped_matmul", "matmul", "reduced_matmul", "sparse24"];
    let families = crate::ops::REGISTRY.iter().filter(|family| tuned.contains(&family.name));
    for case in families.flat_map(|family| (family.cases)(Level::Full)) {
        if case.op.output().layout.elements() == 0 || case.op.arithmetic().flops == 0 {
            continue;
        }
        // What has one kernel is neither tuned nor checked.
        if Key::of(&case.op).is_none() {
            assert!(reduced(&case.op, Effort::Normal, 0).is_none(), "{}", case.name);
            continue;
        }
        for effort in [Effort::Normal, Effort::Small] {
            let small = reduced(&case.op, effort, 0).unwrap_or_else(|| panic!("{} is not reduced", case.name));
            let class = |op: &Op| op.tuned().unwrap().class();
            assert_eq!(class(&small), class(&case.op), "{}", case.name);
            let bytes: u64 = small.inputs().iter().map(TensorSpec::required_bytes).sum();
            assert!(bytes <= 8 << 20, "{}: {bytes} bytes", case.name);
        }
    }
}

#[test]
fn strides_keep_order_sign_and_alignment() {
    let shape = Shape::new(&[512, 512]).unwrap();
    for (strides, offset) in [([1, 512], 0), ([513, 1], 3), ([-512, 1], 511 * 512), ([1040, 2], 16), ([0, 1], 5)] {
        let a = TensorSpec::new(DType::F32, Layout::strided(shape, &strides, offset).unwrap());
        let op = small(Matmul { a, ..product(DType::F32, [512, 512, 512]) }, Effort::Normal, 0);
        for (&small, &large) in op.a.layout.strides().iter().zip(&strides) {
            assert_eq!((small.signum(), small.abs() % 128), (large.signum(), large.abs() % 128), "{strides:?}");
        }
        assert_eq!(op.a.layout.offset() % 128, if strides[0] < 0 { offset % 128 } else { offset }, "{strides:?}");
        assert!(strides[0] == 0 || !op.a.layout.may_overlap(), "{:?}", op.a.layout);
    }
}

fn verdict(device: &Device, trial: &Trial) -> Option<String> {
    let upload = |bytes: &[u8]| {
        let buffer = device.backend().alloc(bytes.len() as u64).unwrap();
        device.backend().write(&buffer, 0, bytes).unwrap();
        buffer
    };
    let inputs: Vec<Buffer> = trial.inputs().map(upload).collect();
    let output = upload(&trial.before()[0]);
    device.execute(&trial.op, &inputs.iter().collect::<Vec<_>>(), &[&output]).unwrap();
    let bytes = device.backend().read_blocking(&output, 0..output.size_bytes()).unwrap();
    trial.judge(&[bytes], Subnormals::Kept)
}

/// Groups whose weights lie as layers keep them, with the epilogue that makes something of zeros.
fn grouped(dtype: DType) -> GroupedMatmul {
    let weights = dense(dtype, &[6, 90, 150]).layout.transpose(1, 2).unwrap();
    let b = TensorSpec::new(dtype, weights);
    let (ends, output) = (dense(DType::I32, &[6]), dense(dtype, &[200, 90]));
    let op = GroupedMatmul::product(dense(dtype, &[200, 150]), b, ends, output);
    GroupedMatmul { bias: Some(dense(dtype, &[6, 90])), activation: Some(UnaryFn::Sigmoid), ..op }.check().unwrap()
}

fn trials() -> Vec<Trial> {
    let f32 = || product(DType::F32, [70, 90, 150]);
    let with_all = Matmul {
        c: Some(LayoutKind::Padded.spec(DType::F32, &[70, 90]).unwrap()),
        beta: -0.5,
        bias: Some(dense(DType::F32, &[90])),
        alpha: 2.0,
        activation: Some(UnaryFn::Silu),
        ..f32()
    };
    let batched = Matmul::product(
        dense(DType::F16, &[3, 65, 40]),
        TensorSpec::new(
            DType::F16,
            dense(DType::F16, &[40, 33]).layout.broadcast_to(Shape::new(&[3, 40, 33]).unwrap()).unwrap(),
        ),
        dense(DType::F16, &[3, 65, 33]),
    );
    let per_tensor = Layout::contiguous(Shape::new(&[1, 1]).unwrap()).broadcast_to(Shape::new(&[70, 1]).unwrap());
    let quantised = Matmul {
        scale_a: Some(TensorSpec::new(DType::F32, per_tensor.unwrap())),
        scale_b: Some(dense(DType::F32, &[1, 90])),
        bias: Some(dense(DType::F16, &[90])),
        output: dense(DType::F16, &[70, 90]),
        ..product(DType::I8, [70, 90, 150])
    };
    let blocks = ScaleBlocks { m: 3, n: 128, k: 128 };
    let [of_a, of_b] = blocks.extents([70, 290, 700]).map(|dims| Some(dense(DType::F32, &dims)));
    let blocked = Matmul {
        scale_a: of_a,
        scale_b: of_b,
        scale_blocks: Some(blocks),
        output: dense(DType::F32, &[70, 290]),
        ..product(DType::I8, [70, 290, 700])
    };
    let ops = [
        f32(),
        quantised,
        blocked,
        Matmul { precision: Precision::Low, ..f32() },
        with_all,
        batched,
        product(DType::I8, [70, 90, 150]),
        Matmul { output: dense(DType::F16, &[70, 90]), ..product(DType::U8, [70, 90, 1500]) },
        product(DType::BF16, [5, 300, 8]),
        product(DType::F64, [40, 40, 40]),
    ];
    let mut ops: Vec<Op> = ops.into_iter().map(|op| small(op, Effort::Normal, 0).into()).collect();
    let reduced = |dtype| reduced(&grouped(dtype).into(), Effort::Normal, 0).unwrap();
    ops.extend([DType::F32, DType::F16].map(reduced));
    ops.into_iter().map(|op| Trial::new(op, 1).unwrap()).collect()
}

/// Groups of several lengths, rows of none, and the edges of both among the rows that are compared.
#[test]
fn cases_of_groups_have_rows_of_each_and_of_none() {
    let small = reduced(&grouped(DType::F16).into(), Effort::Normal, 0).unwrap();
    let small = small.get::<GroupedMatmul>().unwrap();
    let trial = Trial::new(small.clone().into(), 1).unwrap();
    assert_eq!((small.dims().groups, small.dims().rows), (4, 200));
    let ends = trial.held.last().unwrap().host.values.iter().map(|end| end.as_i64());
    let owned = small.owned(ends);
    assert_eq!(owned.last().unwrap().end, 200 - 12);
    let Judged { positions, expected } = &trial.judged[0];
    for edge in owned.iter().flat_map(|own| [own.start, own.end]).chain([199]) {
        assert!(positions.contains(&(edge * small.dims().n)), "{edge} of {owned:?} is not in {positions:?}");
    }
    // As the op itself says of all rows.
    let hosts: Vec<HostTensor> = trial.held.iter().map(|operand| operand.host.clone()).collect();
    let all = &small.oracle(&hosts)[0];
    assert!(positions.iter().zip(expected).all(|(&at, expected)| all[at as usize] == *expected));
}

#[test]
fn right_results_pass() {
    let device = Device::new(ReferenceBackend::default());
    for trial in trials() {
        assert_eq!(verdict(&device, &trial), None, "{:?}", trial.op);
    }
}

#[test]
fn faults_do_not_pass() {
    // What these do to a product shows in its result; the others do nothing to finite numbers, or need a second run.
    let faults = [
        Fault::BeforeStart,
        Fault::DropsProduct,
        Fault::NothingDone,
        Fault::PastEnd,
        Fault::TailNotWritten,
        Fault::TailOffByOne,
        Fault::TileStale,
    ];
    for fault in faults {
        let device = broken(Device::new(ReferenceBackend::default()), fault);
        for trial in trials() {
            // There is no byte before an output at the start of its buffer.
            let nothing_before = fault == Fault::BeforeStart && trial.op.output().layout.offset() == 0;
            // The last rows of groups are zeros like those before them.
            let alike = matches!(fault, Fault::TailOffByOne | Fault::TileStale) && trial.op.is::<GroupedMatmul>();
            assert!(nothing_before || alike || verdict(&device, &trial).is_some(), "{fault:?} passes {:?}", trial.op);
        }
    }
    let coarse = broken(Device::new(ReferenceBackend::default()), Fault::LowPrecision);
    assert!(verdict(&coarse, &trials()[0]).is_some(), "precision of bf16 passes for f32");
}

#[test]
fn the_last_row_and_the_edges_of_tiles_are_compared() {
    let op = small(product(DType::F32, [4095, 4096, 4096]), Effort::Normal, 0);
    let trial = Trial::new(op.into(), 1).unwrap();
    for row in [0, 127, 128, 382] {
        assert!(trial.judged[0].positions.contains(&(row * 384)), "{row} is not in {:?}", trial.judged[0].positions);
    }
    assert_eq!(trial.judged[0].expected.len(), trial.judged[0].positions.len());
}

#[test]
fn only_products_have_cases() {
    let spec = dense(DType::F32, &[8]);
    let copy = crate::ops::Copy::new(spec, spec).unwrap();
    assert_eq!(reduced(&copy.into(), Effort::Normal, 0), None);
}
