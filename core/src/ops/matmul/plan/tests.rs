//! Every product gives kernels that naga accepts with no more features than the device has; choices are as intended.

use crate::harness::Part;
use crate::ops::{Matmul, MatmulDims};
use crate::{DType, Layout, Precision, ScaleBlocks, Shape, TensorSpec, UnaryFn};

use super::*;
use crate::wgsl::validate::{Validated, full_caps};

/// Batch dims, m, n, k.
type Dims<'a> = (&'a [u64], u64, u64, u64);

#[derive(Clone, Copy, PartialEq)]
enum Order {
    /// Row-major.
    Plain,
    /// The transpose of a row-major matrix.
    Transposed,
    /// Every second element of every row.
    Spread,
}

fn spec(dtype: DType, batch: &[u64], rows: u64, cols: u64, order: Order) -> TensorSpec {
    let shape = |r, c| Shape::new(&[batch, &[r, c]].concat()).unwrap();
    let rank = batch.len() + 2;
    let layout = match order {
        Order::Plain => Layout::contiguous(shape(rows, cols)),
        Order::Transposed => Layout::contiguous(shape(cols, rows)).transpose(rank - 2, rank - 1).unwrap(),
        Order::Spread => Layout::contiguous(shape(rows, 2 * cols)).slice(rank - 1, 0, 2 * cols, 2).unwrap(),
    };
    TensorSpec::new(dtype, layout)
}

fn product(dtype: DType, (batch, m, n, k): Dims, a: Order, b: Order) -> Matmul {
    let output = Matmul::output_dtype(dtype).unwrap();
    let (a, b) = (spec(dtype, batch, m, k, a), spec(dtype, batch, k, n, b));
    Matmul::product(a, b, spec(output, batch, m, n, Order::Plain)).check().unwrap()
}

fn with_everything(op: Matmul) -> Matmul {
    let d = op.output;
    let n = d.layout.dims()[d.layout.rank() - 1];
    let bias = TensorSpec::new(d.dtype, Layout::contiguous(Shape::new(&[n]).unwrap()));
    let activation = if d.dtype.compute() == DType::F32 { UnaryFn::Gelu } else { UnaryFn::Relu };
    let op = Matmul { c: Some(d), bias: Some(bias), alpha: 2.0, beta: -3.0, ..op };
    Matmul { activation: Some(activation), ..op }.check().unwrap()
}

const DIMS: &[Dims] = &[
    (&[], 1, 1, 1),
    (&[], 1, 64, 128),
    (&[], 1, 63, 127),
    (&[], 64, 1, 128),
    (&[], 5, 7, 3),
    (&[], 5, 7, 0),
    (&[], 64, 64, 64),
    (&[3], 65, 66, 67),
    (&[2, 3], 4, 8, 12),
    (&[], 32, 32, 8192),
    (&[], 2048, 2048, 2048),
    (&[], 2047, 2049, 2045),
];

/// Validates the candidates that a device of `caps` has, for products of all dtypes and layouts; returns the number of kernels.
fn validated_products(caps: &Caps) -> usize {
    let orders = [Order::Plain, Order::Transposed, Order::Spread];
    let mut validated = Validated::default();
    for dtype in DType::ALL.into_iter().filter(|&d| Matmul::output_dtype(d).is_some() && caps.require(d).is_ok()) {
        for &dims in DIMS {
            for (a, b) in orders.into_iter().flat_map(|a| orders.map(|b| (a, b))) {
                let op = product(dtype, dims, a, b);
                // With every part of the epilogue, for one order of A only: the epilogue does not depend on the operands.
                let ops = if a == Order::Plain { vec![op.clone(), with_everything(op)] } else { vec![op] };
                for op in ops {
                    let list = crate::ops::candidates(&op.clone().into(), caps).unwrap();
                    assert_eq!(crate::ops::plan(&op.into(), caps).unwrap(), list[0].plan);
                    let names: std::collections::HashSet<_> = list.iter().map(|candidate| &candidate.name).collect();
                    assert_eq!(names.len(), list.len(), "{names:?}");
                    validated.check(list.iter().flat_map(|candidate| &candidate.plan.launches), caps);
                }
            }
        }
    }
    validated.kernels()
}

/// Both ways together take two minutes, so each day runs one of them.
#[test]
fn products_of_every_dtype_and_layout_validate() {
    if !Part::today(2).is_turn_of(0) {
        return;
    }
    let kernels = validated_products(&full_caps());
    assert!(kernels > 300, "{kernels} kernels");
}

#[test]
fn products_of_every_dtype_and_layout_validate_within_webgpu_defaults() {
    if !Part::today(2).is_turn_of(1) {
        return;
    }
    let kernels = validated_products(&Caps::webgpu_defaults("test"));
    assert!(kernels > 100, "{kernels} kernels");
}

#[test]
fn large_products_take_the_large_tile_and_one_launch() {
    let op = product(DType::F32, (&[], 4096, 4096, 4096), Order::Plain, Order::Plain);
    let best = rank::plain(op.dims(), DType::F32, &Caps::webgpu_defaults("test"))[0];
    assert_eq!((best.tile.block_m, best.splits, best.refused), (128, 1, None));
    assert_eq!(best.tile.workgroup_bytes(4), 16 << 10);
    let plan = crate::ops::plan(&op.into(), &Caps::webgpu_defaults("test")).unwrap();
    assert_eq!((plan.launches.len(), plan.launches[0].grid), (1, [1024, 1, 1]));
}

/// The best choices by measurement on an H200 through Vulkan (docs/gemm.md).
#[test]
fn products_on_cooperative_matrices_take_the_kernel_measured_best() {
    let best = |dtype, (m, n, k), precision| {
        let mut op = product(dtype, (&[], m, n, k), Order::Plain, Order::Plain);
        op.precision = precision;
        crate::ops::candidates(&op.check().unwrap().into(), &full_caps()).unwrap()[0].name.clone()
    };
    let cube = |x| (x, x, x);
    let half = |dims| best(DType::F16, dims, Precision::Highest);
    for size in [768, 1024] {
        assert_eq!(half(cube(size)), "matmul_f16_coop16_w32x32_64x64x64");
    }
    assert_eq!(half((48, 4096, 4096)), "matmul_f16_coop16_w32x32_64x64x64_slabs4");
    for size in [2048, 4096, 8192] {
        assert_eq!(half(cube(size)), "matmul_f16_coop16_w64x64_128x128x32");
    }
    assert_eq!(half((4097, 4095, 4093)), "matmul_f16_coop16_w64x64_128x128x32_packed");
    assert_eq!(best(DType::I8, cube(4096), Precision::Highest), "matmul_i8_coop16_w64x64_128x128x32_slabs4");
    for dims in [cube(1536), (304, 9000, 1504), (2304, 2304, 9216)] {
        assert_eq!(best(DType::F32, dims, Precision::Medium), "matmul_f32_coop16_w64x64_128x128x32");
    }
    assert_eq!(best(DType::BF16, cube(4096), Precision::Highest), "matmul_bf16_coop16_w64x64_128x128x32");
    assert_eq!(best(DType::F32, cube(4096), Precision::High), "matmul_f32_coop16_w64x64_128x128x32_split");
    assert_eq!(best(DType::F32, cube(256), Precision::High), best(DType::F32, cube(256), Precision::Highest));
}

/// No launch reads bytes of scratch memory that none wrote: copies are whole vectors, one launch for each operand.
#[test]
fn packing_takes_one_launch_and_writes_every_byte() {
    let packed = |dtype, dims, a, b| {
        let list = crate::ops::candidates(&product(dtype, dims, a, b).into(), &full_caps()).unwrap();
        list.into_iter().find(|candidate| candidate.name.ends_with("_packed")).unwrap().plan
    };
    let is_pack = |launch: &&Launch| matches!(launch.kernel.get(), Some(Kernel(super::Shape::Pack(_))));
    let shapes = [(Order::Plain, Order::Plain), (Order::Transposed, Order::Transposed), (Order::Spread, Order::Plain)];
    for (dtype, size_bytes) in [(DType::F8E4M3, 1), (DType::I8, 1), (DType::F16, 2)] {
        for (a, b) in shapes {
            let Plan { launches, scratch_bytes } = packed(dtype, (&[], 131, 129, 133), a, b);
            let packs: Vec<&Launch> = launches.iter().filter(is_pack).collect();
            assert_eq!((packs.len(), launches.len()), (2, 3));
            for (launch, which) in packs.into_iter().zip(0..) {
                let [Slot::Input(input), Slot::Scratch(copy)] = launch.bindings[..] else { panic!("{launch:?}") };
                // Lines of 129, 131 and 133 elements become lines of 192.
                let lines = [129, 131, 133].map(|lines| lines * 192 * size_bytes);
                assert!(input == which && lines.contains(&scratch_bytes[copy]), "{scratch_bytes:?}");
                assert_eq!(u64::from(launch.params[0]) * 16, scratch_bytes[copy]);
            }
        }
    }
}

fn split_of(op: &Matmul, caps: &Caps) -> Vec<Candidate> {
    let list = crate::ops::candidates(&op.clone().into(), caps).unwrap();
    list.into_iter().filter(|candidate| candidate.name.ends_with("_split")).collect()
}

#[test]
fn split_products_validate_and_parts_are_written_whole() {
    let orders = [Order::Plain, Order::Transposed, Order::Spread];
    let mut validated = Validated::default();
    for &dims in DIMS.iter().filter(|dims| dims.3 > 0) {
        for (a, b) in orders.into_iter().flat_map(|a| orders.map(|b| (a, b))) {
            let op = Matmul { precision: Precision::High, ..product(DType::F32, dims, a, b) };
            for op in [op.clone(), with_everything(op)] {
                let list = split_of(&op, &full_caps());
                assert_eq!(list.len(), 5, "{list:?}");
                for Plan { launches, scratch_bytes } in list.into_iter().map(|candidate| candidate.plan) {
                    assert_eq!((launches.len(), scratch_bytes.len()), (3, 4));
                    for (side, bytes) in scratch_bytes[..2].iter().enumerate() {
                        let word = |i: usize| u64::from(launches[1].params[12 * side + i]);
                        let [matrices, units] = [word(0), word(7)];
                        assert_eq!(matrices, op.dims().batch);
                        assert_eq!(*bytes, matrices * units * 2 * 8, "four parts of each kind a unit");
                    }
                    validated.check(&launches, &full_caps());
                }
            }
        }
    }
    assert!(validated.kernels() > 80, "{} kernels", validated.kernels());
}

#[test]
fn operands_that_products_share_are_split_once() {
    let of = |dims: &[u64], rows: u64, cols: u64| {
        let shape = |batch: &[u64]| Shape::new(&[batch, &[rows, cols]].concat()).unwrap();
        TensorSpec::new(DType::F32, Layout::contiguous(shape(dims)).broadcast_to(shape(&[3])).unwrap())
    };
    let op = Matmul::product(of(&[1], 64, 64), of(&[3], 64, 64), of(&[3], 64, 64)).check().unwrap();
    let list = split_of(&Matmul { precision: Precision::High, ..op }, &full_caps());
    assert_eq!(list[0].plan.scratch_bytes[..2], [64 * 64 * 4, 3 * 64 * 64 * 4]);
}

#[test]
fn products_are_split_only_at_high_with_f16_and_parts_that_buffers_hold() {
    let op = |extent, precision| Matmul {
        precision,
        ..product(DType::F32, (&[], 64, 64, extent), Order::Plain, Order::Plain)
    };
    let count = |extent, precision, caps: &Caps| split_of(&op(extent, precision), caps).len();
    let full = full_caps();
    assert_eq!(count(64, Precision::High, &full), 5);
    for precision in [Precision::Low, Precision::Medium, Precision::Highest] {
        assert_eq!(count(64, precision, &full), 0);
    }
    assert_eq!(count(64, Precision::High, &Caps { f16: false, ..full.clone() }), 0);
    assert_eq!(count(64, Precision::High, &Caps { cooperative: Vec::new(), ..full.clone() }), 0);
    // 2 GiB of parts.
    assert_eq!((count((1 << 23) - 64, Precision::High, &full), count(1 << 23, Precision::High, &full)), (5, 0));
}

/// Held by `every_kernel_for_cuda_assembles_without_spilling`, which needs NVIDIA's assembler.
#[test]
fn bytes_read_one_by_one_have_no_tile_that_fills_the_registers() {
    let names = |dtype, k, caps: &Caps| -> Vec<String> {
        let op = product(dtype, (&[], 4096, 4096, k), Order::Plain, Order::Plain);
        crate::ops::candidates(&op.into(), caps).unwrap().into_iter().map(|candidate| candidate.name).collect()
    };
    let caps = full_caps();
    let has = |dtype, k, tile: &str, packed: bool| {
        names(dtype, k, &caps).iter().any(|name| name.contains(tile) && name.ends_with("_packed") == packed)
    };
    for dtype in [DType::I8, DType::U8] {
        assert!(has(dtype, 4096, "w64x64_128x128x32", false), "by quads");
        assert!(!has(dtype, 4093, "w64x64_128x128x32", false), "one by one");
        assert!(has(dtype, 4093, "w64x64_128x128x32", true) && has(dtype, 4093, "w64x64_256x128x32", false));
        assert!(has(dtype, 4093, "w32x32_64x64x64", false));
    }
    assert!(has(DType::F16, 4093, "w64x64_128x128x32", false), "halves are not unpacked");
}

#[test]
fn long_k_with_few_tiles_is_cut_into_slabs() {
    let op = product(DType::F32, (&[], 64, 64, 1 << 16), Order::Plain, Order::Plain);
    let plan = crate::ops::plan(&op.into(), &full_caps()).unwrap();
    assert_eq!(plan.launches.len(), 2);
    assert!(plan.scratch_bytes[0] >= 2 * 64 * 64 * 4);
}

/// Sums of 8-bit integers are exact in f32 for a slab of K alone, so that large products have many of them.
#[test]
fn slabs_of_large_products_are_added_a_part_of_the_result_after_the_other() {
    let op = product(DType::I8, (&[], 8192, 8192, 8192), Order::Plain, Order::Transposed);
    let list = crate::ops::candidates(&op.clone().into(), &full_caps()).unwrap();
    let slabs: Vec<_> = list.iter().filter(|candidate| candidate.name.contains("coop16")).collect();
    assert!(!slabs.is_empty());
    for Candidate { name, plan, .. } in slabs {
        assert!(name.contains("_slabs8"), "{name}");
        assert_eq!(plan.scratch_bytes, [MOST_PARTIAL_BYTES], "{name}");
        // Eight parts, each with an eighth of A's and of D's rows: one launch of tiles and one that adds slabs.
        assert_eq!(plan.launches.len(), 16, "{name}");
        let outputs: Vec<bool> =
            plan.launches.iter().map(|launch| launch.bindings.contains(&Slot::Output(0))).collect();
        assert_eq!(outputs, [false, true].repeat(8), "{name}");
        let kernels: std::collections::HashSet<_> = plan.launches.iter().map(|launch| &launch.kernel).collect();
        let params: std::collections::HashSet<_> = plan.launches.iter().map(|launch| &launch.params).collect();
        assert_eq!((kernels.len(), params.len()), (2, 16), "{name}");
    }
    let first = &list[0];
    assert!(first.name.contains("coop16"), "{} is thought to be faster", first.name);
}

/// Two sets of sums need registers; loads of four elements along K must not reach into the next block.
#[test]
fn scales_of_blocks_take_small_tiles_and_quads_that_end_with_a_block() {
    let op = |k: u64, extent: u64| {
        let blocks = ScaleBlocks { m: 1, n: 64, k };
        let [of_a, of_b] =
            blocks.extents([extent; 3]).map(|[rows, cols]| spec(DType::F32, &[], rows, cols, Order::Plain));
        let plain = product(DType::I8, (&[], extent, extent, extent), Order::Plain, Order::Transposed);
        let output = spec(DType::F32, &[], extent, extent, Order::Plain);
        Matmul { scale_a: Some(of_a), scale_b: Some(of_b), scale_blocks: Some(blocks), output, ..plain }
            .check()
            .unwrap()
    };
    let list = crate::ops::candidates(&op(128, 4096).into(), &full_caps()).unwrap();
    assert!(list.iter().all(|candidate| candidate.name.contains("tiled") && candidate.plan.launches.len() == 1));
    assert!(!list.iter().any(|candidate| candidate.name.contains("128x128")), "{list:?}");
    let quads = |k| {
        let text = crate::ops::plan(&op(k, 64).into(), &full_caps()).unwrap().launches[0].kernel.source().wgsl;
        text.contains("load4_a(")
    };
    assert!(quads(128) && quads(20) && !quads(6));
}

#[test]
fn tiles_that_do_not_fit_are_refused_with_a_reason() {
    let dims = MatmulDims { batch: 1, m: 512, n: 512, k: 512 };
    let caps = Caps { max_workgroup_bytes: 8 << 10, ..full_caps() };
    let list = rank::plain(dims, DType::F32, &caps);
    assert!(list[0].refused.is_none() && list[0].tile.workgroup_bytes(4) <= 8 << 10);
    let large = list.iter().find(|c| c.tile.block_m == 128).unwrap();
    assert!(large.refused.is_some_and(|reason| reason.contains("workgroup memory")));
}

#[test]
fn aligned_operands_are_read_by_quads_and_others_are_not() {
    let caps = full_caps();
    let load = |a, m, k| {
        let op = product(DType::F32, (&[], m, 64, k), a, Order::Plain);
        let places = Places::of(&op, &caps).unwrap();
        let (operand, _) = operand(&op, &places, 0, &caps).unwrap();
        (operand.along_k, operand.load)
    };
    assert_eq!(load(Order::Plain, 64, 64), (true, Load::Quad));
    assert_eq!(load(Order::Plain, 64, 63), (true, Load::Unit));
    assert_eq!(load(Order::Transposed, 64, 63), (false, Load::Quad));
    assert_eq!(load(Order::Spread, 64, 64), (true, Load::Strided));
}
