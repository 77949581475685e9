//! Where a driver ends loops, no plan has longer ones, whatever the op; where it does not, plans are what they were.

use crate::harness::Level;
use crate::ops::{ArgReduce, ArgReduceFn, GroupedMatmul, Matmul, REGISTRY, Reduce, ReducedMatmul, Softmax, SoftmaxFn};
use crate::{DType, Error, Layout, Op, Precision, ReduceFn, ScaleBlocks, Shape, TensorSpec};

use crate::plan::{Caps, Cooperative};
use crate::wgsl::validate::{Validated, full_caps};

/// Mesa's llvmpipe.
const LIMIT: u32 = 65_535;

fn limited(caps: Caps, rounds: u32) -> Caps {
    Caps { max_loop_rounds: Some(rounds), ..caps }
}

fn dense(dtype: DType, dims: &[u64]) -> TensorSpec {
    TensorSpec::new(dtype, Layout::contiguous(Shape::new(dims).unwrap()))
}

/// A tensor of any extents in the memory of one element.
fn repeated(dtype: DType, dims: &[u64]) -> TensorSpec {
    let strides = vec![0; dims.len()];
    TensorSpec::new(dtype, Layout::strided(Shape::new(dims).unwrap(), &strides, 0).unwrap())
}

fn product(dtype: DType, [m, n, k]: [u64; 3]) -> Matmul {
    let output = dense(Matmul::output_dtype(dtype).unwrap(), &[m, n]);
    Matmul::product(repeated(dtype, &[m, k]), repeated(dtype, &[k, n]), output).check().unwrap()
}

fn blocks(dtype: DType, [m, n, k]: [u64; 3], block: u64) -> Matmul {
    let scale_a = Some(dense(DType::F32, &[m, k.div_ceil(block)]));
    let scale_b = Some(dense(DType::F32, &[k.div_ceil(block), n]));
    let scale_blocks = Some(ScaleBlocks { m: 1, n: 1, k: block });
    let output = dense(DType::F32, &[m, n]);
    Matmul { scale_a, scale_b, scale_blocks, output, ..product(dtype, [m, n, k]) }.check().unwrap()
}

fn grouped(dtype: DType, [rows, groups, n, k]: [u64; 4]) -> GroupedMatmul {
    let (a, b) = (repeated(dtype, &[rows, k]), repeated(dtype, &[groups, k, n]));
    let output = dense(Matmul::output_dtype(dtype).unwrap(), &[rows, n]);
    GroupedMatmul::product(a, b, dense(DType::I32, &[groups]), output).check().unwrap()
}

/// Ops whose sums are longer than 65,535 rounds in some kernel, unless it is cut.
fn long_ops() -> Vec<Op> {
    let mut ops: Vec<Op> = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::F64, DType::I8, DType::U8, DType::I64] {
        for k in [58_254, 58_255, 70_000, 1_048_560, 1_864_161, 3_000_001, 40_000_000] {
            for [m, n] in [[1, 1], [1, 9], [9, 1], [2, 3], [33, 65], [300, 300]] {
                ops.push(product(dtype, [m, n, k]).into());
            }
            ops.push(grouped(dtype, [5, 3, 4, k]).into());
            ops.push(grouped(dtype, [5, 300, 4, k]).into());
        }
        for groups in [65_535, 70_001, 2_000_000] {
            ops.push(grouped(dtype, [90, groups, 4, 8]).into());
            ops.push(grouped(dtype, [90, groups, 4, 0]).into());
        }
    }
    for precision in [Precision::Low, Precision::Medium, Precision::High, Precision::Highest] {
        for k in [70_000, 3_000_001] {
            ops.push(Matmul { precision, ..product(DType::F32, [40, 50, k]) }.into());
        }
    }
    for (k, block) in [(70_000, 1), (70_000, 17), (70_000, 128), (3_000_000, 31), (3_000_000, 2_000_000)] {
        ops.push(blocks(DType::I8, [3, 5, k], block.min(Matmul::longest_exact(DType::I8))).into());
        ops.push(blocks(DType::F8E4M3, [3, 5, k], block).into());
    }
    let reduced = ReducedMatmul::new(ReduceFn::Max, 1, product(DType::F32, [3, 70, 3_000_001]));
    ops.extend(reduced.map(Op::from));
    for (dims, axis) in [([600, 7_000_000], 1), ([7_000_000, 600], 0), ([2, 2_000_000_000], 1), ([3_000_000, 1400], 0)]
    {
        for dtype in [DType::U8, DType::F32, DType::F64] {
            let strides = if axis == 1 { [0, 1] } else { [1, 0] };
            let layout = Layout::strided(Shape::new(&dims).unwrap(), &strides, 0).unwrap();
            let (input, kept) = (TensorSpec::new(dtype, layout), dims[1 - axis]);
            ops.extend(Reduce::new(ReduceFn::Max, input, &[axis], dense(dtype, &[kept])).map(Op::from));
            ops.extend(ArgReduce::new(ArgReduceFn::ArgMax, input, &[axis], dense(DType::U32, &[kept])).map(Op::from));
            ops.extend(Softmax::new(SoftmaxFn::Softmax, input, axis, dense(dtype, &dims)).map(Op::from));
        }
    }
    ops
}

#[test]
fn no_plan_for_a_driver_that_ends_loops_is_longer_than_it_allows() {
    let mut validated = Validated::default();
    let (mut cut, mut refused) = (0, 0);
    let about = Caps { subgroups: Some((8, 64)), cooperative: Cooperative::TENSOR_CORES.to_vec(), ..full_caps() };
    for caps in [Caps::webgpu_defaults("test"), full_caps(), about] {
        for op in long_ops() {
            let Ok(free) = crate::ops::candidates(&op, &caps) else { continue };
            let caps = limited(caps.clone(), LIMIT);
            let list = match crate::ops::candidates(&op, &caps) {
                Ok(list) => list,
                Err(Error::Unsupported { reason, .. }) if reason.contains("ends loops after 65535") => {
                    refused += 1;
                    continue;
                }
                Err(error) => panic!("{op:?}: {error}"),
            };
            for candidate in &list {
                let rounds = candidate.plan.loop_rounds();
                assert!(rounds <= LIMIT.into(), "{rounds} rounds of {}: {op:?}", candidate.name);
            }
            cut += usize::from(free.iter().any(|candidate| candidate.plan.loop_rounds() > LIMIT.into()));
            assert_eq!(crate::ops::plan(&op, &caps).unwrap(), list[0].plan);
            validated.check(list.iter().flat_map(|candidate| &candidate.plan.launches), &caps);
        }
    }
    // No size of a product, a reduction or a softmax is too long to be cut.
    assert_eq!(refused, 0);
    assert!(cut > 200, "{cut} ops had longer loops");
}

#[test]
fn plans_of_short_loops_are_the_same_with_a_limit() {
    for caps in [Caps::webgpu_defaults("test"), full_caps()] {
        let (mut short, mut long) = (0, 0);
        for op in long_ops().into_iter().chain(small_ops()) {
            let Ok(free) = crate::ops::plan(&op, &caps) else { continue };
            let bound = crate::ops::plan(&op, &limited(caps.clone(), u32::MAX)).unwrap();
            assert_eq!(free, bound, "{op:?}");
            if free.loop_rounds() <= LIMIT.into() {
                assert_eq!(free, crate::ops::plan(&op, &limited(caps.clone(), LIMIT)).unwrap(), "{op:?}");
                short += 1;
            } else {
                long += 1;
            }
        }
        assert!(short > 1000 && long > 50, "{short} short, {long} long");
    }
}

fn small_ops() -> Vec<Op> {
    let all = REGISTRY.iter().flat_map(|family| (family.cases)(Level::Quick)).map(|case| case.op);
    all.filter(|op| op.output().layout.elements() > 0).collect()
}

#[test]
fn a_longest_slab_takes_as_many_rounds_as_there_may_be() {
    use crate::ops::matmul::plan::rank;
    let dims = Matmul::dims(&product(DType::F32, [1, 1, 1]));
    for cut in rank::whole(dims, u64::MAX, DType::F32, &full_caps()) {
        for (block, unroll) in
            [(u64::MAX, false), (u64::MAX, true), (128, false), (31, true), (1, false), (5000, false)]
        {
            let slab = cut.tile.longest_slab(block, unroll, LIMIT.into());
            let rounds = |slab| cut.tile.slab_rounds(slab, block, unroll);
            assert!(rounds(slab) <= LIMIT.into(), "{slab} of {block}: {}", rounds(slab));
            assert!(rounds(2 * slab) > LIMIT.into(), "{slab} of {block}: {}", rounds(slab));
        }
    }
}
