//! Grouped products for `native.rs`: what ends can say, at tiles' ends and at random, against a reference that finds the owner
//! of each row by the op's own rule.

use std::sync::Arc;

use polywarp_core::harness::plain;
use polywarp_core::ops::{GroupedMatmul, GroupedMatmulDims};
use polywarp_core::{Buffer, DType, Layout, Op, Operation, Precision, Scalar, Shape, TensorSpec, UnaryFn};
use polywarp_cuda::CudaBackend;

use super::{Random, Tally, in_parallel, matrix, run, upload};

/// An op and what its ends hold.
pub struct Grouped {
    op: GroupedMatmul,
    ends: Vec<i64>,
}

fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
}

/// Operands and results that native kernels have; f32 at `Medium`.
const TYPES: [[DType; 2]; 14] = [
    [DType::F16, DType::F16],
    [DType::F16, DType::F32],
    [DType::BF16, DType::BF16],
    [DType::BF16, DType::F32],
    [DType::F32, DType::F32],
    [DType::I8, DType::I32],
    [DType::U8, DType::I32],
    [DType::I8, DType::F32],
    [DType::F8E4M3, DType::F32],
    [DType::F8E4M3, DType::F16],
    [DType::F8E4M3, DType::BF16],
    [DType::F8E5M2, DType::F32],
    [DType::F8E5M2, DType::F16],
    [DType::F8E5M2, DType::BF16],
];

/// Ends of `groups` groups that rise to at most `last`, about a third of them empty.
fn rising(groups: u64, last: u64, r: &mut Random) -> Vec<i64> {
    let mut ends: Vec<i64> = (0..groups).map(|_| r.below(last + 1) as i64).collect();
    ends.sort_unstable();
    for group in 1..ends.len() {
        if r.below(3) == 0 {
            ends[group] = ends[group - 1];
        }
    }
    ends
}

/// Groups that are empty, of one row, longer than a tile; ends that cut tiles and fragments, out of order, out of range; all
/// rows in one group, in none, in all but the last; as many groups as a warp looks at, fewer and more: for each type, layout
/// of B and ending.
pub fn edges() -> Vec<Grouped> {
    let mut r = Random(7);
    let lists: Vec<([u64; 3], Vec<i64>)> = vec![
        ([300, 136, 72], vec![0, 0, 1, 130, 130, 259, 300]),
        ([270, 131, 77], vec![0, 0, 270, 270, 270]),
        ([200, 264, 1136], vec![50, 120]),
        ([150, 72, 64], vec![0, 0, 0]),
        ([150, 136, 304], vec![-4, 100, 2, 500, 3]),
        ([290, 40, 24], rising(70, 290, &mut r)),
        ([70, 24, 8], rising(31, 60, &mut r)),
        ([70, 24, 40], rising(32, 60, &mut r)),
        ([130, 8, 528], rising(64, 130, &mut r)),
        ([1, 200, 304], vec![1]),
        ([129, 130, 16], vec![5, 70, 128]),
        ([512, 128, 128], vec![128, 256, 272, 512]),
        ([200, 131, 40], vec![7, 90, 150]),
        // Beyond what is signed.
        ([100, 64, 48], vec![40, 3_000_000_000, 60]),
    ];
    let mut all = Vec::new();
    for [dtype, to] in TYPES {
        for transposed in [false, true] {
            for (case, ([rows, n, k], ends)) in lists.iter().enumerate() {
                let groups = ends.len() as u64;
                let mut b = dense(dtype, &[groups, *k, *n]);
                if transposed {
                    b.layout = dense(dtype, &[groups, *n, *k]).layout.transpose(1, 2).unwrap();
                }
                let unsigned = ends.iter().any(|&end| end > i64::from(i32::MAX));
                let spec = dense(if unsigned { DType::U32 } else { DType::I32 }, &[groups]);
                let mut op = GroupedMatmul::product(dense(dtype, &[*rows, *k]), b, spec, dense(to, &[*rows, *n]));
                op.precision = Precision::Medium;
                if case % 2 == 1 {
                    op.bias = Some(dense(to, &[groups, *n]));
                    op.activation = Some(UnaryFn::Relu).filter(|f| f.defined_for(to));
                }
                all.push(Grouped { op: op.check().unwrap(), ends: ends.clone() });
            }
        }
    }
    all
}

/// `count` grouped products of random extents, layouts, types, ends and endings.
pub fn random(count: u64) -> Vec<Grouped> {
    let extent = |r: &mut Random| match r.below(3) {
        0 => 1 + r.below(40),
        1 => 8 * (1 + r.below(48)),
        _ => 1 + r.below(400),
    };
    let one = |seed: u64| {
        let mut r = Random(seed ^ 0x6772_6f75_7065_6400);
        let (rows, n, k, groups) = (extent(&mut r), extent(&mut r), extent(&mut r), 1 + r.below(80));
        let [dtype, to] = r.pick(&TYPES);
        let (a, b) = (matrix(dtype, &[], [rows, k], &mut r), matrix(dtype, &[groups], [k, n], &mut r));
        let output = dense(to, &[rows, n]).layout.with_offset(16 / to.size_bytes() * r.below(4));
        let signed = r.below(2) == 1;
        let ends_dtype = if signed { DType::I32 } else { DType::U32 };
        let step = r.pick(&[1i64, 1, 2, -1]);
        let first = if step < 0 { groups - 1 } else { r.below(4) };
        let ends_layout = Layout::strided(Shape::new(&[groups]).unwrap(), &[step], first).unwrap();
        let ends = match r.below(3) {
            0 => (0..groups).map(|_| r.below(2 * rows + 9) as i64 - if signed { 8 } else { 0 }).collect(),
            _ => rising(groups, rows, &mut r),
        };
        let mut op =
            GroupedMatmul::product(a, b, TensorSpec::new(ends_dtype, ends_layout), TensorSpec::new(to, output));
        op.precision = Precision::Medium;
        if r.below(2) == 0 {
            let pitch = (n + r.below(4)) as i64;
            let layout = Layout::strided(Shape::new(&[groups, n]).unwrap(), &[pitch, 1], r.below(4));
            op.bias = Some(TensorSpec::new(to, layout.unwrap()));
        }
        op.activation = Some(UnaryFn::Relu).filter(|f| r.below(3) == 0 && f.defined_for(to));
        Grouped { op: op.check().unwrap(), ends }
    };
    (0..count).map(one).collect()
}

/// Runs every candidate of every product twice, and compares bits with the host's result.
pub fn products(
    backend: &Arc<CudaBackend>,
    all: Vec<Grouped>,
    candidates: impl Fn(&Op) -> Vec<String> + Sync,
) -> Tally {
    let tally = Tally::default();
    in_parallel(&all, |Grouped { op, ends }| {
        let as_op: Op = op.clone().into();
        let names = candidates(&as_op);
        let mut r = Random(op.output.layout.elements() ^ op.dims().k << 32);
        let specs = op.inputs();
        let mut data: Vec<Vec<i32>> = specs.iter().map(|spec| integers(spec, &mut r)).collect();
        *data.last_mut().unwrap() = ends.iter().map(|&end| end as i32).collect();
        let inputs: Vec<Buffer> = specs.iter().zip(&data).map(|(spec, data)| upload(backend, spec, data)).collect();
        let inputs: Vec<&Buffer> = inputs.iter().collect();
        let expected = reference(op, ends, &data);
        for name in names {
            match run(backend, &as_op, &name, &inputs, &expected) {
                Ok(()) => tally.passed(&name, 0.0),
                Err(why) => tally.failed(&name, format!("{why}: {op:?}, ends {ends:?}")),
            }
        }
    });
    tally
}

/// Row-major elements from -3 to 3, of unsigned types from 0 to 6; where one place has several, they are the same.
fn integers(spec: &TensorSpec, r: &mut Random) -> Vec<i32> {
    let seed = r.next();
    let least = if spec.dtype == DType::U8 { 0 } else { -3 };
    let at = |i: u64| Random(seed ^ spec.layout.index_of(i)).below(7) as i32 + least;
    (0..spec.layout.elements()).map(at).collect()
}

/// The bytes of the result.
fn reference(op: &GroupedMatmul, ends: &[i64], data: &[Vec<i32>]) -> Vec<u8> {
    let GroupedMatmulDims { rows, n, k, .. } = op.dims();
    let (n, k) = (n as usize, k as usize);
    let mut bytes = Vec::new();
    for row in 0..rows as usize {
        let mut sums = vec![0; n];
        if let Some(group) = ends.iter().position(|&end| end > row as i64) {
            if op.bias.is_some() {
                sums.copy_from_slice(&data[2][group * n..][..n]);
            }
            plain::add_row_product(&data[0][row * k..][..k], &data[1][group * k * n..], &mut sums);
        }
        for sum in sums {
            let result = if op.activation.is_some() { sum.max(0) } else { sum };
            bytes.extend(Scalar::F(f64::from(result)).cast(op.output.dtype).to_le_bytes(op.output.dtype));
        }
    }
    bytes
}
