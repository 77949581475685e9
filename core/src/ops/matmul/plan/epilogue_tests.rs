//! Products of quantised operands give kernels that naga accepts, and that read their scales.

use crate::ops::Matmul;
use crate::{DType, Layout, ScaleBlocks, Shape, TensorSpec, UnaryFn};

use crate::plan::{Caps, Slot};
use crate::wgsl::validate::{Validated, full_caps};

/// Batch, m, n, k: vectors, few rows, tails, batches, long K, large.
const DIMS: [([u64; 2], u64, u64, u64); 6] = [
    ([1, 1], 1, 64, 128),
    ([1, 1], 5, 7, 0),
    ([3, 1], 65, 66, 67),
    ([1, 1], 32, 32, 8192),
    ([1, 1], 2048, 2048, 2048),
    ([1, 1], 2047, 2049, 2045),
];

fn shape(dims: &[u64]) -> Shape {
    Shape::new(dims).unwrap()
}

fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(shape(dims)))
}

fn with_everything(op: Matmul) -> Matmul {
    let (d, n) = (op.output, op.dims().n);
    let (bias, activation) = (Some(dense(d.dtype, &[n])), Some(UnaryFn::Gelu));
    Matmul { c: Some(d), bias, alpha: 0.5, beta: -3.0, activation, ..op }
}

/// Scales for a whole tensor, for rows and for blocks; every type of result; alone and with all other parts of the epilogue.
#[test]
fn products_of_quantised_operands_validate_and_read_their_scales() {
    let mut validated = Validated::default();
    let dtypes = [DType::I8, DType::F8E4M3];
    for (caps, dtype) in
        [full_caps(), Caps::webgpu_defaults("test")].into_iter().flat_map(|c| dtypes.map(|d| (c.clone(), d)))
    {
        for (batch, m, n, k) in DIMS {
            for to in [DType::F32, DType::F16, DType::BF16] {
                let with = |rows, columns| [&batch[..], &[rows, columns]].concat();
                let b = TensorSpec::new(dtype, dense(dtype, &with(n, k)).layout.transpose(2, 3).unwrap());
                let plain = Matmul::product(dense(dtype, &with(m, k)), b, dense(to, &with(m, n)));
                let one = dense(DType::F32, &[1, 1]).layout.broadcast_to(shape(&with(m, 1))).unwrap();
                let scale_a = Some(TensorSpec::new(DType::F32, one));
                let scaled = Matmul { scale_a, scale_b: Some(dense(DType::F32, &with(1, n))), ..plain.clone() };
                let blocked = |blocks: ScaleBlocks| {
                    let [of_a, of_b] = blocks.extents([m, n, k]).map(|[rows, columns]| with(rows, columns));
                    let (scale_a, scale_b) = (Some(dense(DType::F32, &of_a)), Some(dense(DType::F32, &of_b)));
                    Matmul { scale_a, scale_b, scale_blocks: Some(blocks), ..plain.clone() }
                };
                let recipe = blocked(ScaleBlocks { m: 1, n: 128, k: 128 });
                let of_a = Matmul { scale_b: None, ..blocked(ScaleBlocks { m: 3, n: 1, k: 6 }) };
                let everything = [with_everything(scaled.clone()), with_everything(recipe.clone())];
                for op in [plain.clone(), scaled, recipe, of_a].into_iter().chain(everything) {
                    let op = op.check().unwrap();
                    let own = op.places().scales().into_iter().flatten().map(Slot::Input).collect::<Vec<_>>();
                    for candidate in crate::ops::candidates(&op.into(), &caps).unwrap() {
                        let last = candidate.plan.launches.last().unwrap();
                        assert!(last.bindings.ends_with(&own), "{}: {:?}", candidate.name, last.bindings);
                        validated.check(&candidate.plan.launches, &caps);
                    }
                }
            }
        }
    }
    assert!(validated.kernels() > 50, "{} kernels", validated.kernels());
}
