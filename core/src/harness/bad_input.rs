//! Bad input: every request that cannot be met is refused by a typed error that names what is wrong, and the device
//! computes correctly afterwards.
//!
//! [`run`] works on any device. Each row makes one kind of bad request, compares the error's variant and fields, and then
//! has the device do a small computation. What only one backend can be asked (shaders, adapters, files) is tested there.

use super::ReferenceBackend;
use crate::ops::{ArgReduce, ArgReduceFn, Copy, Distribution};
use crate::{
    BinaryFn, DType, Device, Error, Expr, KeepDims, Layout, MAX_INPUTS, MAX_RANK, MatmulOptions, Op, Program, ReduceFn,
    Result, Scalar, Shape, Tensor, TensorSpec, UnaryFn,
};

/// One kind of bad request and what came of it.
#[derive(Clone, Debug)]
pub struct Row {
    /// Its name.
    pub name: &'static str,
    /// What was wrong with the answer, when something was.
    pub result: std::result::Result<(), String>,
}

type Answer = std::result::Result<(), String>;
type Test = fn(&Device) -> Answer;

/// Makes every bad request of the table on `device`.
pub fn run(device: &Device) -> Vec<Row> {
    ROWS.iter()
        .map(|&(name, test)| {
            let result = test(device).and_then(|()| still_computes(device));
            Row { name, result }
        })
        .collect()
}

const ROWS: &[(&str, Test)] = &[
    ("add of shapes that do not broadcast", add_shapes),
    ("matmul of different inner dimensions", matmul_inner),
    ("matmul of vectors or unequal batches", matmul_shapes),
    ("matmul epilogue of the wrong shape, dtype or kind", matmul_epilogue),
    ("reshape to another element count", reshape_size),
    ("reshape with two inferred extents", reshape_inferred),
    ("shape beyond 2^63 elements", shape_overflow),
    ("tensor beyond 1 EiB", byte_overflow),
    ("argmax over more than 2^32 elements", index_width),
    ("axis out of range", axis_range),
    ("axis named twice", axis_twice),
    ("slice outside its axis, reversed or with step 0", slice),
    ("broadcast to a shape that does not fit", broadcast),
    ("data of another length than the shape", data_length),
    ("item of more than one element", item),
    ("tensor read as another type", read_dtype),
    ("operands of two dtypes", mixed_dtypes),
    ("function not defined for the dtype", undefined),
    ("condition that is not bool", condition),
    ("dtype the device lacks", unsupported_dtype),
    ("operands on two devices", two_devices),
    ("buffer of another backend", foreign),
    ("maximum over an empty axis", empty_reduction),
    ("output view that overlaps itself", overlapping_output),
    ("view past the end of its storage", view_bounds),
    ("strides before the start of the storage", negative_reach),
    ("rank above the largest", rank),
    ("buffer larger than the device allows", buffer_too_big),
    ("allocation over the memory limit", memory_limit),
    ("zero-size tensors in every op", zero_size),
    ("NaN and infinity cast to integers", nan_cast),
    ("output that is also an input", aliased_output),
    ("wrong number of buffers", buffer_count),
    ("expression with a missing input or too many", expressions),
    ("clamp with low above high or NaN", clamp_range),
    ("random numbers with impossible parameters", distributions),
];

/// The error must satisfy `is`; success and other errors are described.
fn refused<T>(what: &str, result: Result<T>, is: impl FnOnce(&Error) -> bool) -> Answer {
    match result {
        Ok(_) => Err(format!("{what}: was accepted")),
        Err(error) if is(&error) => Ok(()),
        Err(error) => Err(format!("{what}: wrong error {error:?}")),
    }
}

fn must<T>(result: Result<T>) -> std::result::Result<T, String> {
    result.map_err(|error| format!("a good request failed: {error}"))
}

fn ones(device: &Device, dims: &[u64]) -> std::result::Result<Tensor, String> {
    let count = dims.iter().product::<u64>() as usize;
    must(Tensor::from_slice(device, &vec![1.0f32; count], dims))
}

/// tanh(A B + 1) summed, against known numbers: every kind of kernel takes part.
fn still_computes(device: &Device) -> Answer {
    let result = || -> Result<(Vec<f32>, f32)> {
        let a = Tensor::from_slice(device, &[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
        let product = a.matmul(&a.t()?)?.add_scalar(1.0)?;
        Ok((product.to_vec()?, product.sum(&[])?.item()?))
    };
    let (product, sum) = result().map_err(|error| format!("the device no longer computes: {error}"))?;
    if product == [6.0, 12.0, 12.0, 26.0] && sum == 56.0 {
        return Ok(());
    }
    Err(format!("the device no longer computes correctly: {product:?}, sum {sum}"))
}

fn add_shapes(device: &Device) -> Answer {
    let (a, b) = (ones(device, &[2, 3])?, ones(device, &[4, 3])?);
    refused(
        "add [2,3] + [4,3]",
        a.add(&b),
        |e| matches!(e, Error::ShapeMismatch { op: "add", lhs, rhs, axis: Some(0) } if lhs == &[2, 3] && rhs == &[4, 3]),
    )
}

fn matmul_inner(device: &Device) -> Answer {
    let (a, b) = (ones(device, &[2, 3])?, ones(device, &[4, 5])?);
    refused(
        "matmul [2,3] x [4,5]",
        a.matmul(&b),
        |e| matches!(e, Error::InnerDimension { lhs, rhs, k_lhs: 3, k_rhs: 4 } if lhs == &[2, 3] && rhs == &[4, 5]),
    )
}

fn matmul_shapes(device: &Device) -> Answer {
    let (vector, matrix) = (ones(device, &[3])?, ones(device, &[3, 3])?);
    refused("matmul of a vector", vector.matmul(&matrix), |e| matches!(e, Error::ShapeMismatch { op: "matmul", .. }))?;
    let (a, b) = (ones(device, &[2, 3, 3])?, ones(device, &[4, 3, 3])?);
    refused("matmul of batches 2 and 4", a.matmul(&b), |e| {
        matches!(e, Error::ShapeMismatch { op: "matmul", axis: Some(0), .. })
    })
}

fn matmul_epilogue(device: &Device) -> Answer {
    let (a, short) = (ones(device, &[3, 3])?, ones(device, &[2])?);
    let with = |options: MatmulOptions<'_>| a.matmul_with(&a, &options);
    refused("bias of length 2 for 3 columns", with(MatmulOptions { bias: Some(&short), ..Default::default() }), |e| {
        matches!(e, Error::ShapeMismatch { op: "matmul", .. })
    })?;
    let integers = must(Tensor::from_slice(device, &[1i32, 2, 3], [3]))?;
    refused("i32 bias of an f32 product", with(MatmulOptions { bias: Some(&integers), ..Default::default() }), |e| {
        matches!(e, Error::DTypeMismatch { op: "matmul", expected: DType::F32, got: DType::I32 })
    })?;
    let sine = MatmulOptions { activation: Some(UnaryFn::Sin), ..Default::default() };
    refused("sin as an activation", with(sine), |e| matches!(e, Error::InvalidArgument { what: "activation", .. }))
}

fn reshape_size(device: &Device) -> Answer {
    let result = ones(device, &[3, 4])?.reshape([5, 3]);
    refused(
        "reshape 12 to [5,3]",
        result,
        |e| matches!(e, Error::ReshapeSize { from: 12, to: 15, shape } if shape == &[5, 3]),
    )
}

fn reshape_inferred(device: &Device) -> Answer {
    let x = ones(device, &[3, 4])?;
    refused(
        "reshape to [-1,2,-1]",
        x.reshape_infer(&[-1, 2, -1]),
        |e| matches!(e, Error::AmbiguousReshape { inferred: 2, shape } if shape == &[-1, 2, -1]),
    )?;
    refused("reshape to [-2,6]", x.reshape_infer(&[-2, 6]), |e| {
        matches!(e, Error::InvalidArgument { what: "shape", .. })
    })?;
    refused("reshape 12 to [5,-1]", x.reshape_infer(&[5, -1]), |e| matches!(e, Error::ReshapeSize { from: 12, .. }))
}

fn shape_overflow(device: &Device) -> Answer {
    let dims = [1 << 33, 1 << 33];
    let before = device.memory().in_use_bytes;
    refused(
        "zeros of 2^33 x 2^33",
        Tensor::zeros(device, DType::U8, dims),
        |e| matches!(e, Error::SizeOverflow { shape, dtype: None } if shape == &dims),
    )?;
    if device.memory().in_use_bytes != before { Err("memory was taken".to_owned()) } else { Ok(()) }
}

fn byte_overflow(device: &Device) -> Answer {
    refused(
        "zeros of 2^61 f32",
        Tensor::zeros(device, DType::F32, [1 << 61]),
        |e| matches!(e, Error::SizeOverflow { shape, dtype: Some(DType::F32) } if shape == &[1 << 61]),
    )
}

fn index_width(_: &Device) -> Answer {
    // A broadcast view has as many elements as it likes; positions in it must fit u32.
    let one = must(Shape::new(&[1]))?;
    let wide = must(Layout::contiguous(one).broadcast_to(must(Shape::new(&[1 << 33]))?))?;
    let out = TensorSpec::new(DType::U32, Layout::contiguous(Shape::SCALAR));
    let op = ArgReduce::new(ArgReduceFn::ArgMax, TensorSpec::new(DType::F32, wide), &[], out);
    refused(
        "argmax over 2^33 elements",
        op,
        |e| matches!(e, Error::IndexWidth { op: "argmax", elements, max } if *elements == 1 << 33 && *max == u32::MAX.into()),
    )
}

fn axis_range(device: &Device) -> Answer {
    let x = ones(device, &[2, 3, 4])?;
    let is = |e: &Error| matches!(e, Error::AxisOutOfRange { axis: 4, rank: 3 });
    refused("sum over axis 4", x.sum(&[4]), is)?;
    refused("softmax along axis 4", x.softmax(4), is)?;
    refused("flip of axis 4", x.flip(4), is)?;
    refused("transpose of axis 4", x.transpose(0, 4), is)?;
    refused("unsqueeze before axis 4", x.unsqueeze(4), is)
}

fn axis_twice(device: &Device) -> Answer {
    let x = ones(device, &[2, 3, 4])?;
    refused("sum over axes 1, 1", x.sum(&[1, 1]), |e| matches!(e, Error::DuplicateAxis { axis: 1 }))?;
    refused("permute 0, 0, 1", x.permute(&[0, 0, 1]), |e| matches!(e, Error::DuplicateAxis { axis: 0 }))?;
    refused("permute 0, 1", x.permute(&[0, 1]), |e| matches!(e, Error::InvalidArgument { what: "permutation", .. }))
}

fn slice(device: &Device) -> Answer {
    let x = ones(device, &[10])?;
    #[allow(clippy::reversed_empty_ranges)]
    let reversed = 5..2;
    for (range, by) in [(reversed, 1), (0..11, 1), (0..5, 0)] {
        let (from, to) = (range.start, range.end);
        refused("slice", x.slice_step(0, range, by), |e| {
            matches!(e, Error::InvalidSlice { axis: 0, start, end, step, len: 10 }
                if *start == from && *end == to && *step == by)
        })?;
    }
    refused("select 10 of 10", x.select(0, 10), |e| matches!(e, Error::InvalidSlice { axis: 0, start: 10, .. }))?;
    refused("select u64::MAX", x.select(0, u64::MAX), |e| matches!(e, Error::InvalidSlice { axis: 0, .. }))
}

fn broadcast(device: &Device) -> Answer {
    let x = ones(device, &[3])?;
    refused("broadcast [3] to [4]", x.broadcast_to([4]), |e| matches!(e, Error::ShapeMismatch { axis: Some(0), .. }))?;
    refused("broadcast [3] to []", x.broadcast_to([]), |e| matches!(e, Error::ShapeMismatch { axis: None, .. }))
}

fn data_length(device: &Device) -> Answer {
    refused(
        "5 numbers for [2,3]",
        Tensor::from_slice(device, &[0f32; 5], [2, 3]),
        |e| matches!(e, Error::DataLength { shape, expected: 6, got: 5 } if shape == &[2, 3]),
    )?;
    refused("23 bytes for [2,3]", Tensor::from_bytes(device, DType::F32, &[0; 23], [2, 3]), |e| {
        matches!(e, Error::DataLength { expected: 6, got: 5, .. })
    })
}

fn item(device: &Device) -> Answer {
    refused(
        "item of [2,3]",
        ones(device, &[2, 3])?.item::<f32>(),
        |e| matches!(e, Error::DataLength { shape, expected: 1, got: 6 } if shape == &[2, 3]),
    )
}

fn read_dtype(device: &Device) -> Answer {
    refused("f32 read as i32", ones(device, &[2])?.to_vec::<i32>(), |e| {
        matches!(e, Error::DTypeMismatch { expected: DType::I32, got: DType::F32, .. })
    })
}

fn mixed_dtypes(device: &Device) -> Answer {
    let (a, b) = (ones(device, &[2, 2])?, must(Tensor::from_slice(device, &[1i32; 4], [2, 2]))?);
    refused("f32 + i32", a.add(&b), |e| {
        matches!(e, Error::DTypeMismatch { op: "add", expected: DType::F32, got: DType::I32 })
    })?;
    refused("f32 x i32", a.matmul(&b), |e| {
        matches!(e, Error::DTypeMismatch { op: "matmul", expected: DType::F32, got: DType::I32 })
    })?;
    refused("i32 assigned to f32", a.assign(&b), |e| matches!(e, Error::DTypeMismatch { .. }))
}

fn undefined(device: &Device) -> Answer {
    let integers = must(Tensor::from_slice(device, &[1i32; 4], [2, 2]))?;
    let truths = must(Tensor::from_slice(device, &[true; 4], [2, 2]))?;
    let is = |op, dtype| move |e: &Error| matches!(e, Error::UndefinedForDType { op: o, dtype: d } if *o == op && *d == dtype);
    refused("exp of i32", integers.exp(), is("exp", DType::I32))?;
    refused("softmax of i32", integers.softmax(0), is("softmax", DType::I32))?;
    refused("bool + bool", truths.add(&truths), is("add", DType::Bool))?;
    refused("bool x bool", truths.matmul(&truths), is("matmul", DType::Bool))?;
    refused("max of bool", truths.max(&[]), is("max", DType::Bool))?;
    refused("argmax of bool", truths.argmax(&[]), is("argmax", DType::Bool))?;
    refused("pow of i32", integers.pow(&integers), is("pow", DType::I32))?;
    refused("f32 & f32", ones(device, &[2])?.binary(BinaryFn::And, &ones(device, &[2])?), is("and", DType::F32))?;
    refused("arange of bool", Tensor::arange(device, DType::Bool, 0, 1, 3), is("arange", DType::Bool))
}

fn condition(device: &Device) -> Answer {
    let x = ones(device, &[2])?;
    refused("where with an f32 condition", x.where_(&x, &x), |e| {
        matches!(e, Error::DTypeMismatch { op: "where", expected: DType::Bool, got: DType::F32 })
    })
}

/// A device may compute in every dtype; one that does not must say so by name, before it does anything.
fn unsupported_dtype(device: &Device) -> Answer {
    for lacked in DType::ALL.into_iter().filter(|&dtype| !device.supports(dtype)) {
        let bytes = vec![0; 4 * lacked.size_bytes() as usize];
        let x = must(Tensor::from_bytes(device, lacked, &bytes, [4]))?;
        refused("a sum in a dtype the device lacks", x.sum(&[]), |e| match e {
            Error::UnsupportedDType { device: named, dtype, feature } => {
                named == device.id() && *dtype == lacked && !feature.is_empty()
            }
            _ => false,
        })?;
        if must(x.to_bytes())? != bytes {
            return Err(format!("{lacked} cannot even be stored"));
        }
    }
    Ok(())
}

fn two_devices(device: &Device) -> Answer {
    let other = Device::new(ReferenceBackend::new("elsewhere"));
    let (a, b) = (ones(device, &[2, 2])?, ones(&other, &[2, 2])?);
    let is = |op| {
        let here = device.id().to_owned();
        move |e: &Error| matches!(e, Error::DeviceMismatch { op: o, lhs, rhs } if *o == op && *lhs == here && rhs == "elsewhere")
    };
    refused("add across devices", a.add(&b), is("add"))?;
    refused("matmul across devices", a.matmul(&b), is("matmul"))?;
    refused("assign across devices", a.assign(&b), is("assign"))
}

fn foreign(device: &Device) -> Answer {
    let other = Device::new(ReferenceBackend::new("elsewhere"));
    let (theirs, mine) = (ones(&other, &[4])?, ones(device, &[4])?);
    let op = Op::from(must(Copy::new(theirs.spec(), mine.spec()))?);
    let is = |e: &Error| matches!(e, Error::DeviceMismatch { .. });
    refused("copy from a foreign buffer", device.execute(&op, &[theirs.buffer()], mine.buffer()), is)?;
    refused("read of a foreign buffer", device.backend().read_blocking(theirs.buffer(), 0..4), is)?;
    refused("write to a foreign buffer", device.backend().write(theirs.buffer(), 0, &[0; 4]), is)
}

fn empty_reduction(device: &Device) -> Answer {
    let x = must(Tensor::from_slice::<f32>(device, &[], [3, 0]))?;
    let is = |op| move |e: &Error| matches!(e, Error::EmptyReduction { op: o, shape } if *o == op && shape == &[3, 0]);
    refused("max over an empty axis", x.max(&[1]), is("max"))?;
    refused("argmin over an empty axis", x.argmin(&[1]), is("argmin"))?;
    // A sum has a value: zero, three times.
    if must(must(x.sum(&[1]))?.to_vec::<f32>())? != [0.0; 3] {
        return Err("the empty sum is not 0".to_owned());
    }
    let products = must(x.reduce(ReduceFn::Prod, &[1], KeepDims::Yes))?;
    let values: Vec<f32> = must(products.to_vec())?;
    if products.dims() == [3, 1] && values == [1.0; 3] { Ok(()) } else { Err(format!("empty product {values:?}")) }
}

fn overlapping_output(device: &Device) -> Answer {
    let (source, one) = (ones(device, &[4])?, ones(device, &[1])?);
    let view = must(one.broadcast_to([4]))?;
    refused(
        "assign to a broadcast view",
        view.assign(&source),
        |e| matches!(e, Error::OverlappingOutput { op: "copy", shape, strides } if shape == &[4] && strides == &[0]),
    )
}

fn view_bounds(device: &Device) -> Answer {
    let x = ones(device, &[4])?;
    let layout = must(Layout::strided(must(Shape::new(&[4]))?, &[1_000_000], 0))?;
    let have = x.buffer().size_bytes() / 4;
    let view = Tensor::from_buffer(device, x.buffer().clone(), DType::F32, layout);
    refused(
        "a view past its storage",
        view,
        |e| matches!(e, Error::ViewOutOfBounds { needed: 3_000_001, have: h } if *h == have),
    )?;
    let op = Op::from(must(Copy::new(TensorSpec::new(DType::F32, layout), x.spec()))?);
    let out = ones(device, &[4])?;
    refused("an op past its input", device.execute(&op, &[x.buffer()], out.buffer()), |e| {
        matches!(e, Error::ViewOutOfBounds { needed: 3_000_001, .. })
    })
}

fn negative_reach(_: &Device) -> Answer {
    let shape = must(Shape::new(&[3]))?;
    let is = |e: &Error| matches!(e, Error::InvalidArgument { what: "strides", .. });
    refused("a view before its storage", Layout::strided(shape, &[-1], 1), is)?;
    refused("two strides for rank 1", Layout::strided(shape, &[1, 1], 0), is)?;
    refused("strides beyond 64 bits", Layout::strided(shape, &[i64::MAX], 0), is)
}

fn rank(device: &Device) -> Answer {
    let is = |e: &Error| matches!(e, Error::RankTooLarge { rank: 9, max: MAX_RANK });
    refused("rank 9", Tensor::zeros(device, DType::F32, [1; 9]), is)?;
    refused("a ninth dimension", ones(device, &[1; 8])?.unsqueeze(0), is)
}

fn buffer_too_big(device: &Device) -> Answer {
    let limits = device.info().limits;
    let Some(size) = limits.max_buffer_bytes.checked_add(1).filter(|&size| size < 1 << 60) else {
        return Ok(()); // the device sets no limit that a request could pass
    };
    refused("a buffer over the limit", device.backend().alloc(size), |e| match e {
        Error::BufferTooBig { device: named, requested, max } => {
            named == device.id() && *requested == size && *max == limits.max_buffer_bytes
        }
        Error::BindingTooLarge { device: named, size: asked, limit } => {
            named == device.id() && *asked == size && *limit == limits.max_binding_bytes
        }
        _ => false,
    })
}

fn memory_limit(device: &Device) -> Answer {
    let kept = ones(device, &[1000])?;
    device.empty_cache();
    let before = device.memory();
    let limit = before.in_use_bytes + before.cached_bytes + (1 << 20);
    device.set_memory_limit(Some(limit));
    let result = refused("8 MiB under a limit of 1 MiB more", device.backend().alloc(8 << 20), |e| {
        matches!(e, Error::OutOfMemory { device: named, requested, in_use, limit: Some(l), .. }
            if named == device.id() && *requested >= 8 << 20 && *in_use >= 4000 && *l == limit)
    });
    device.set_memory_limit(before.limit_bytes);
    result?;
    // Nothing stored is lost, and with the limit lifted the same request is met.
    drop(must(device.backend().alloc(8 << 20))?);
    let values: Vec<f32> = must(kept.to_vec())?;
    if values.iter().all(|&x| x == 1.0) { Ok(()) } else { Err("a stored tensor changed".to_owned()) }
}

fn zero_size(device: &Device) -> Answer {
    let run = || -> Result<()> {
        for dims in [[0, 3], [3, 0], [0, 0]] {
            let x = Tensor::from_slice::<f32>(device, &[], dims)?;
            let seen = [
                x.exp()?.elements(),
                x.add(&x)?.elements(),
                x.lt(&x)?.elements(),
                x.cast(DType::I32)?.elements(),
                x.t()?.copy()?.elements(),
                x.softmax(1)?.elements(),
                x.lt(&x)?.where_(&x, &x)?.elements(),
                Tensor::full(device, DType::F32, dims, 1.0)?.elements(),
                Tensor::random(device, DType::F32, dims, Distribution::Normal { mean: 0.0, std: 1.0 }, 1, 0)?
                    .elements(),
            ];
            let values: Vec<f32> = x.exp()?.to_vec()?;
            if seen != [0; 9] || !values.is_empty() {
                let reason = format!("an op on {dims:?} gave {seen:?} elements");
                return Err(Error::InvalidArgument { what: "result", reason });
            }
            x.assign(&x)?;
        }
        let (a, b) = (Tensor::zeros(device, DType::F32, [2, 0])?, Tensor::zeros(device, DType::F32, [0, 3])?);
        if a.matmul(&b)?.to_vec::<f32>()? != [0.0; 6] || b.t()?.matmul(&a.t()?)?.dims() != [3, 2] {
            return Err(Error::InvalidArgument {
                what: "result",
                reason: "K = 0 is not a product of zeros".to_owned(),
            });
        }
        Ok(())
    };
    must(run())
}

fn nan_cast(device: &Device) -> Answer {
    let x = must(Tensor::from_slice(device, &[f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 300.7, -300.7], [5]))?;
    let integers: Vec<i32> = must(must(x.cast(DType::I32))?.to_vec())?;
    let bytes: Vec<u8> = must(must(x.cast(DType::U8))?.to_vec())?;
    if integers == [0, i32::MAX, i32::MIN, 300, -300] && bytes == [0, 255, 0, 255, 0] {
        return Ok(());
    }
    Err(format!("cast gave {integers:?} and {bytes:?}"))
}

fn aliased_output(device: &Device) -> Answer {
    let x = ones(device, &[8])?;
    let op = Op::from(must(Copy::new(x.spec(), x.spec()))?);
    refused("a copy onto itself", device.execute(&op, &[x.buffer()], x.buffer()), |e| {
        matches!(e, Error::InvalidArgument { what: "output", .. })
    })
}

fn buffer_count(device: &Device) -> Answer {
    let (x, y) = (ones(device, &[8])?, ones(device, &[8])?);
    let op = Op::from(must(Copy::new(x.spec(), y.spec()))?);
    refused("a copy of nothing", device.execute(&op, &[], y.buffer()), |e| {
        matches!(e, Error::InvalidArgument { what: "inputs", .. })
    })
}

fn expressions(device: &Device) -> Answer {
    let x = ones(device, &[2])?;
    let is = |e: &Error| matches!(e, Error::InvalidArgument { what: "expression", .. });
    refused("input 1 of 1", Tensor::map(&Expr::input(1).exp(), &[&x]), is)?;
    refused("too many inputs", Tensor::map(&Expr::input(0).exp(), &[&x; MAX_INPUTS + 1]), is)?;
    refused("no input", Tensor::map(&Expr::constant(1.0), &[]), |e| {
        matches!(e, Error::InvalidArgument { what: "inputs", .. })
    })?;
    let deep = (0..100_000).fold(Expr::input(0), |expr, _| -expr);
    refused("100,000 nested steps", Program::compile(&deep, &[DType::F32]), is)
}

fn clamp_range(device: &Device) -> Answer {
    let x = ones(device, &[2])?;
    let is = |e: &Error| matches!(e, Error::InvalidArgument { what: "clamp range", .. });
    refused("clamp 2..1", x.clamp(2.0, 1.0), is)?;
    refused("clamp to NaN", x.clamp(f64::NAN, 1.0), is)
}

fn distributions(device: &Device) -> Answer {
    let make = |dtype, distribution| Tensor::random(device, dtype, [4], distribution, 0, 0);
    let is = |e: &Error| matches!(e, Error::InvalidArgument { what: "distribution", .. });
    refused("uniform 1..0", make(DType::F32, Distribution::Uniform { low: 1.0, high: 0.0 }), is)?;
    refused(
        "uniform of infinite width",
        make(DType::F32, Distribution::Uniform { low: f32::MIN, high: f32::MAX }),
        is,
    )?;
    refused("normal of negative deviation", make(DType::F32, Distribution::Normal { mean: 0.0, std: -1.0 }), is)?;
    refused("bits as f32", make(DType::F32, Distribution::Bits), |e| {
        matches!(e, Error::UndefinedForDType { op: "random_bits", dtype: DType::F32 })
    })?;
    let fill = Tensor::full(device, DType::U8, [3], Scalar::F(-1.0));
    let values: Vec<u8> = must(must(fill)?.to_vec())?;
    if values == [0; 3] { Ok(()) } else { Err(format!("-1 as u8 is {values:?}, not 0")) }
}
