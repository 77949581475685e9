//! Parameters of single operations that have no meaning.

use super::{Answer, must, ones, refused};
use crate::ops::{Distribution, ScanDirection, ScanFn, ScanOptions, SortOrder};
use crate::{
    BinaryFn, DType, Device, Error, Expr, Granularity, GroupedMatmulOptions, KeepDims, MAX_INPUTS, MatmulOptions,
    Program, Quantized, ReduceFn, Scalar, ScaleBlocks, Sparse24, Tensor, UnaryFn,
};

pub(super) fn matmul_epilogue(device: &Device) -> Answer {
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

pub(super) fn grouped_matmul(device: &Device) -> Answer {
    let (a, b) = (ones(device, &[4, 3])?, ones(device, &[2, 3, 5])?);
    let ends = must(Tensor::from_slice(device, &[1i32, 4], [2]))?;
    let ranks = |e: &Error| matches!(e, Error::InvalidArgument { what: "operands of a grouped product", .. });
    refused("B of one matrix", a.grouped_matmul(&must(b.select(0, 0))?, &ends), ranks)?;
    refused("A of rank 3", b.grouped_matmul(&b, &ends), ranks)?;
    refused("ends of rank 2", a.grouped_matmul(&b, &must(ends.unsqueeze(0))?), ranks)?;
    refused("a scalar for A", must(a.reshape([12]))?.grouped_matmul(&b, &ends), ranks)?;
    refused("k of 3 and 5", a.grouped_matmul(&must(b.transpose(1, 2))?, &ends), |e| {
        matches!(e, Error::InnerDimension { k_lhs: 3, k_rhs: 5, .. })
    })?;
    let three = must(Tensor::from_slice(device, &[1i32, 2, 4], [3]))?;
    refused("3 ends of 2 groups", a.grouped_matmul(&b, &three), |e| {
        matches!(e, Error::ShapeMismatch { op: "grouped_matmul", axis: Some(0), .. })
    })?;
    let dtype = |expected, got| move |e: &Error| matches!(e, Error::DTypeMismatch { op: "grouped_matmul", expected: x, got: y } if *x == expected && *y == got);
    refused("f32 ends", a.grouped_matmul(&b, &ones(device, &[2])?), dtype(DType::I32, DType::F32))?;
    let integers = must(b.cast(DType::I32))?;
    refused("f32 rows and i32 matrices", a.grouped_matmul(&integers, &ends), dtype(DType::F32, DType::I32))?;
    let truths = (must(a.cast(DType::Bool))?, must(b.cast(DType::Bool))?);
    refused("bool", truths.0.grouped_matmul(&truths.1, &ends), |e| {
        matches!(e, Error::UndefinedForDType { op: "grouped_matmul", dtype: DType::Bool })
    })?;
    let with = |options: GroupedMatmulOptions<'_>| a.grouped_matmul_with(&b, &ends, &options);
    let (one, halves) = (ones(device, &[5])?, must(ones(device, &[2, 5])?.cast(DType::F16))?);
    refused("one bias for all groups", with(GroupedMatmulOptions { bias: Some(&one), ..Default::default() }), |e| {
        matches!(e, Error::ShapeMismatch { op: "grouped_matmul", .. })
    })?;
    let f16_bias = with(GroupedMatmulOptions { bias: Some(&halves), ..Default::default() });
    refused("an f16 bias", f16_bias, dtype(DType::F32, DType::F16))?;
    let f64_output = with(GroupedMatmulOptions { output: Some(DType::F64), ..Default::default() });
    refused("f64 of f32", f64_output, dtype(DType::F32, DType::F64))?;
    let cosine = GroupedMatmulOptions { activation: Some(UnaryFn::Cos), ..Default::default() };
    refused("cos as an activation", with(cosine), |e| matches!(e, Error::InvalidArgument { what: "activation", .. }))
}

pub(super) fn lines(device: &Device) -> Answer {
    let x = ones(device, &[4, 3])?;
    let axis = |e: &Error| matches!(e, Error::AxisOutOfRange { axis: 2, rank: 2 });
    refused("sums along axis 2 of [4,3]", x.cumsum(2), axis)?;
    refused("order along axis 2 of [4,3]", x.sort(2, SortOrder::Ascending), axis)?;
    refused("the best along axis 2 of [4,3]", x.topk(1, 2, SortOrder::Descending), axis)?;
    let truths = must(x.cast(DType::Bool))?;
    refused("maxima of bool", truths.cummax(0), |e| {
        matches!(e, Error::UndefinedForDType { op: "cummax", dtype: DType::Bool })
    })?;
    refused("logcumsumexp of i32", must(x.cast(DType::I32))?.logcumsumexp(0), |e| {
        matches!(e, Error::UndefinedForDType { op: "logcumsumexp", dtype: DType::I32 })
    })?;
    refused("maxima of no elements", x.scan(ScanFn::Max, 0, ScanOptions::default().exclusive()), |e| {
        matches!(e, Error::InvalidArgument { what: "start", .. })
    })?;
    refused("positions of sums", x.cumulative_extrema(ScanFn::Sum, 0, ScanDirection::Forward), |e| {
        matches!(e, Error::InvalidArgument { what: "function", .. })
    })?;
    let is_k = |e: &Error| matches!(e, Error::InvalidArgument { what: "k", .. });
    refused("the best 4 of 3", x.topk(4, 1, SortOrder::Descending), is_k)?;
    refused("element 3 of 3", x.kth_value(3, 1), is_k)?;
    refused("a quantile of NaN", x.quantile(f64::NAN, 0), |e| matches!(e, Error::InvalidArgument { what: "q", .. }))?;
    refused(
        "counts of f32",
        x.bincount(3),
        |e| matches!(e, Error::InvalidArgument { what: "positions", reason } if reason.contains("bincount takes integers")),
    )?;
    refused("no bins", x.histogram(0, 0.0, 1.0), |e| matches!(e, Error::InvalidArgument { what: "bins", .. }))?;
    refused("limits that fall", x.histogram(3, 1.0, 1.0), |e| {
        matches!(e, Error::InvalidArgument { what: "limits", .. })
    })?;
    let none = must(x.slice(0, 0..0))?;
    refused("the median of nothing", none.median(0), |e| matches!(e, Error::EmptyReduction { op: "quantile", .. }))
}

pub(super) fn rows_by_index(device: &Device) -> Answer {
    let table = ones(device, &[4, 3])?;
    let at = must(Tensor::from_slice(device, &[1i32, 9], [2]))?;
    let halves = ones(device, &[2])?;
    let is_no_index =
        |e: &Error| matches!(e, Error::InvalidArgument { what: "positions", reason } if reason.contains("not f32"));
    refused("f32 indices", table.take(&halves), is_no_index)?;
    refused("f32 places", table.scatter_add(&halves, 4), is_no_index)?;
    let scalar = must(table.select(0, 0).and_then(|row| row.select(0, 0)))?;
    refused("rows of a scalar", scalar.take(&at), |e| matches!(e, Error::InvalidArgument { what: "table", .. }))?;
    refused("a padding row of 4 in 4", table.take_with(&at, None, Some(4)), |e| {
        matches!(e, Error::InvalidArgument { what: "padding", .. })
    })?;
    refused("4 rows into 2 places", table.scatter_add(&at, 2), |e| {
        matches!(e, Error::ShapeMismatch { op: "scatter_add", .. })
    })?;
    let truth = must(Tensor::from_slice(device, &[true, false], [2]))?;
    refused("sums of bool", truth.scatter_add(&at, 2), |e| {
        matches!(e, Error::UndefinedForDType { op: "scatter_add", dtype: DType::Bool })
    })?;
    let integers = must(Tensor::from_slice(device, &[1i32, 2, 3], [3]))?;
    refused("3 integers by 2 places", integers.scatter_add(&at, 2), |e| {
        matches!(e, Error::ShapeMismatch { op: "scatter_add", .. })
    })?;
    refused("integers by f32 places", integers.scatter_add(&ones(device, &[3])?, 2), is_no_index)
}

pub(super) fn matmul_reduce(device: &Device) -> Answer {
    let (a, b) = (ones(device, &[2, 4, 3])?, ones(device, &[2, 3, 5])?);
    let with = |f, axis, options: MatmulOptions<'_>| a.matmul_reduce(&b, &options, f, axis);
    let plain = MatmulOptions::default;
    refused("sums over the batch", with(ReduceFn::Sum, 0, plain()), |e| {
        matches!(e, Error::InvalidArgument { what: "axis", .. })
    })?;
    refused("axis 3 of 3", with(ReduceFn::Sum, 3, plain()), |e| {
        matches!(e, Error::AxisOutOfRange { axis: 3, rank: 3 })
    })?;
    refused("products of a product", with(ReduceFn::Prod, 2, plain()), |e| {
        matches!(e, Error::InvalidArgument { what: "reduction", .. })
    })?;
    refused("k of 3 and 5", a.matmul_reduce(&must(b.transpose(1, 2))?, &plain(), ReduceFn::Sum, 2), |e| {
        matches!(e, Error::InnerDimension { k_lhs: 3, k_rhs: 5, .. })
    })?;
    let nothing = ones(device, &[2, 3, 0])?;
    refused("the largest of nothing", a.matmul_reduce(&nothing, &plain(), ReduceFn::Max, 2), |e| {
        matches!(e, Error::EmptyReduction { op: "max", .. })
    })?;
    let halves = [must(a.cast(DType::F16))?, must(b.cast(DType::F16))?];
    let rounded = MatmulOptions { output: Some(DType::F16), ..plain() };
    refused("elements rounded to f16", halves[0].matmul_reduce(&halves[1], &rounded, ReduceFn::Sum, 2), |e| {
        matches!(e, Error::DTypeMismatch { op: "reduced_matmul", expected: DType::F32, got: DType::F16 })
    })?;
    let integers = [must(a.cast(DType::I8))?, must(b.cast(DType::I8))?];
    refused("magnitudes of i32", integers[0].matmul_reduce(&integers[1], &plain(), ReduceFn::AbsMax, 1), |e| {
        matches!(e, Error::UndefinedForDType { op: "abs_max", dtype: DType::I32 })
    })
}

/// Nobody can refuse what is only on the device: it must have the meaning that is documented, and reach no other memory.
pub(super) fn group_ends(device: &Device) -> Answer {
    let a = must(Tensor::from_slice(device, &[1.0f32, 2.0, 3.0, 4.0], [4, 1]))?;
    let b = must(Tensor::from_slice(device, &[1.0f32, 10.0, 100.0], [3, 1, 1]))?;
    let expected: [([i32; 3], [f32; 4]); 5] = [
        ([3, 1, 4], [1.0, 2.0, 3.0, 400.0]),
        ([i32::MIN, -1, 2], [100.0, 200.0, 0.0, 0.0]),
        ([i32::MAX, 2, -7], [1.0, 2.0, 3.0, 4.0]),
        ([0, 2, i32::MAX], [10.0, 20.0, 300.0, 400.0]),
        ([4, 3, 2], [1.0, 2.0, 3.0, 4.0]),
    ];
    for (ends, want) in expected {
        let on_device = must(Tensor::from_slice(device, &ends, [3]))?;
        let got: Vec<f32> = must(must(a.grouped_matmul(&b, &on_device))?.to_vec())?;
        if got != want {
            return Err(format!("ends {ends:?} gave {got:?}, not {want:?}"));
        }
    }
    Ok(())
}

pub(super) fn scales(device: &Device) -> Answer {
    let x = must(Tensor::from_slice(device, &[1i8; 6], [2, 3]))?;
    let y = must(Tensor::from_slice(device, &[1i8; 12], [3, 4]))?;
    let (rows, columns) = (ones(device, &[2, 1])?, ones(device, &[1, 4])?);
    let with = |options: MatmulOptions<'_>| x.matmul_with(&y, &options);
    let good = must(with(MatmulOptions { scale_a: Some(&rows), scale_b: Some(&columns), ..Default::default() }))?;
    if must(good.to_vec::<f32>())? != [3.0; 8] {
        return Err("a product with scales of 1 is not the product".to_owned());
    }
    let shape = |e: &Error| matches!(e, Error::ShapeMismatch { .. });
    refused("scales of columns for A", with(MatmulOptions { scale_a: Some(&columns), ..Default::default() }), shape)?;
    refused("scales of rows for B", with(MatmulOptions { scale_b: Some(&rows), ..Default::default() }), shape)?;
    let halves = must(rows.cast(DType::F16))?;
    refused("f16 scales", with(MatmulOptions { scale_a: Some(&halves), ..Default::default() }), |e| {
        matches!(e, Error::DTypeMismatch { op: "matmul", expected: DType::F32, got: DType::F16 })
    })?;
    let not_scales = |e: &Error| matches!(e, Error::InvalidArgument { what: "scales", .. });
    let integers = MatmulOptions { scale_a: Some(&rows), output: Some(DType::I32), ..Default::default() };
    refused("scales of an i32 result", with(integers), not_scales)?;
    let floats = ones(device, &[2, 2])?;
    let of_floats = MatmulOptions { scale_a: Some(&rows), ..Default::default() };
    refused("scales of f32 operands", floats.matmul_with(&floats, &of_floats), not_scales)?;
    refused("f64 of an i8 product", with(MatmulOptions { output: Some(DType::F64), ..Default::default() }), |e| {
        matches!(e, Error::DTypeMismatch { op: "matmul", expected: DType::I32, got: DType::F64 })
    })?;
    refused("half of an i32 product", with(MatmulOptions { alpha: 0.5, ..Default::default() }), |e| {
        matches!(e, Error::InvalidArgument { what: "alpha, beta", .. })
    })
}

pub(super) fn scale_blocks(device: &Device) -> Answer {
    let x = must(Tensor::from_slice(device, &[1i8; 12], [2, 6]))?;
    let y = must(Tensor::from_slice(device, &[1i8; 24], [6, 4]))?;
    let (of_a, of_b) = (ones(device, &[2, 2])?, ones(device, &[2, 1])?);
    let blocks = ScaleBlocks { m: 1, n: 4, k: 4 };
    let with = |scale_a, scale_b, blocks| {
        x.matmul_with(&y, &MatmulOptions { scale_a, scale_b, scale_blocks: Some(blocks), ..Default::default() })
    };
    let good = must(with(Some(&of_a), Some(&of_b), blocks))?;
    if must(good.to_vec::<f32>())? != [6.0; 8] {
        return Err("a product with scales of 1 is not the product".to_owned());
    }
    let shape = |e: &Error| matches!(e, Error::ShapeMismatch { .. });
    let three = ones(device, &[2, 3])?;
    refused("three blocks of A along a K of two", with(Some(&three), None, blocks), shape)?;
    refused("two blocks of B's columns, of which there is one", with(None, Some(&of_a), blocks), shape)?;
    let invalid = |e: &Error| matches!(e, Error::InvalidArgument { what: "scale blocks", .. });
    for nothing in [ScaleBlocks { m: 0, ..blocks }, ScaleBlocks { n: 0, ..blocks }, ScaleBlocks { k: 0, ..blocks }] {
        refused("a block of nothing", with(Some(&of_a), Some(&of_b), nothing), invalid)?;
    }
    refused("blocks of no scales", with(None, None, blocks), invalid)?;
    let floats = ones(device, &[2, 2])?;
    let options = MatmulOptions { scale_a: Some(&of_a), scale_blocks: Some(blocks), ..Default::default() };
    refused("scales of f32 operands", floats.matmul_with(&floats, &options), |e| {
        matches!(e, Error::ShapeMismatch { .. } | Error::InvalidArgument { what: "scales", .. })
    })?;
    let granularity = |e: &Error| matches!(e, Error::InvalidArgument { what: "granularity", .. });
    let of = |rows, columns| Granularity::Blocks { rows, columns };
    let z = ones(device, &[2, 6])?;
    refused("quantising blocks of no rows", z.quantize(DType::I8, of(0, 4)), granularity)?;
    refused("quantising blocks of no columns", z.quantize(DType::I8, of(4, 0)), granularity)?;
    refused("quantising blocks of a vector", ones(device, &[6])?.quantize(DType::I8, of(1, 4)), granularity)?;
    refused("no rows", Quantized::with_blocks(x.clone(), of_a.clone(), 0, 4), granularity)?;
    refused("three scales for two blocks", Quantized::with_blocks(x.clone(), three, 1, 4), shape)?;
    let (left, right) = (must(z.quantize(DType::I8, of(1, 4)))?, must(must(z.t())?.quantize(DType::I8, of(3, 3)))?);
    refused("blocks of 4 and of 3 along k", left.matmul(&right, &MatmulOptions::default()), invalid)
}

pub(super) fn quantize(device: &Device) -> Answer {
    let x = ones(device, &[2, 3])?;
    let is = |dtype| move |e: &Error| matches!(e, Error::UndefinedForDType { op: "quantize", dtype: d } if *d == dtype);
    refused("f32 quantised to u8", x.quantize(DType::U8, Granularity::PerRow), is(DType::U8))?;
    let steps = must(Tensor::from_slice(device, &[1i8; 6], [2, 3]))?;
    refused("i8 quantised", steps.quantize(DType::I8, Granularity::PerTensor), is(DType::I8))?;
    refused("rows of a vector", ones(device, &[3])?.quantize(DType::I8, Granularity::PerRow), |e| {
        matches!(e, Error::InvalidArgument { what: "granularity", .. })
    })?;
    refused("scales of another shape", Quantized::new(steps.clone(), ones(device, &[3, 1])?), |e| {
        matches!(e, Error::ShapeMismatch { .. })
    })?;
    refused("i8 scales", Quantized::new(steps.clone(), steps.clone()), |e| {
        matches!(e, Error::DTypeMismatch { op: "quantize", expected: DType::F32, got: DType::I8 })
    })?;
    let weights = must(Quantized::new(steps, ones(device, &[2, 1])?))?;
    refused("a layer of 3 inputs for 2", ones(device, &[5, 2])?.linear(&weights, None, None), |e| {
        matches!(e, Error::InnerDimension { k_lhs: 2, k_rhs: 3, .. })
    })?;
    refused("an i8 bias", x.linear(&weights, Some(weights.values()), None), |e| {
        matches!(e, Error::ShapeMismatch { .. } | Error::DTypeMismatch { .. })
    })
}

pub(super) fn sparse24(device: &Device) -> Answer {
    let integers = must(Tensor::from_slice(device, &[1i32; 8], [2, 4]))?;
    let is = |op| move |e: &Error| matches!(e, Error::UndefinedForDType { op: o, dtype: DType::I32 } if *o == op);
    refused("i32 compressed", integers.compress_2_4(), is("compress24"))?;
    refused("a scalar compressed", must(ones(device, &[1])?.reshape([]))?.compress_2_4(), |e| {
        matches!(e, Error::InvalidArgument { what: "shape", .. })
    })?;
    let sparse = must(ones(device, &[2, 9])?.compress_2_4())?;
    let (values, metadata) = (sparse.values().clone(), sparse.metadata().clone());
    refused("values of another k", Sparse24::from_parts(values.clone(), metadata.clone(), 13), |e| {
        matches!(e, Error::InvalidArgument { what: "k", .. })
    })?;
    refused("f32 metadata", Sparse24::from_parts(values.clone(), ones(device, &[2, 1])?, 9), |e| {
        matches!(e, Error::DTypeMismatch { expected: DType::U32, got: DType::F32, .. })
    })?;
    let long = must(Tensor::zeros(device, DType::U32, [2, 2]))?;
    refused("metadata of another shape", Sparse24::from_parts(values, long, 9), |e| {
        matches!(e, Error::ShapeMismatch { .. })
    })?;
    refused("i32 values", Sparse24::from_parts(integers, metadata, 8), is("compress24"))?;
    refused("a product of 9 and 8", sparse.matmul(&ones(device, &[8, 3])?), |e| {
        matches!(e, Error::InnerDimension { k_lhs: 9, k_rhs: 8, .. })
    })?;
    refused(
        "a compressed vector multiplied",
        must(ones(device, &[8])?.compress_2_4())?.matmul(&ones(device, &[8, 3])?),
        |e| matches!(e, Error::ShapeMismatch { op: "matmul", .. }),
    )
}

pub(super) fn empty_reduction(device: &Device) -> Answer {
    let x = must(Tensor::from_slice::<f32>(device, &[], [3, 0]))?;
    let is = |op| move |e: &Error| matches!(e, Error::EmptyReduction { op: o, shape } if *o == op && shape == &[3, 0]);
    refused("max over an empty axis", x.max(1), is("max"))?;
    refused("argmin over an empty axis", x.argmin(1), is("argmin"))?;
    // A sum has a value: zero, three times.
    if must(must(x.sum(1))?.to_vec::<f32>())? != [0.0; 3] {
        return Err("the empty sum is not 0".to_owned());
    }
    let products = must(x.reduce(ReduceFn::Prod, 1, KeepDims::Yes))?;
    let values: Vec<f32> = must(products.to_vec())?;
    if products.dims() == [3, 1] && values == [1.0; 3] { Ok(()) } else { Err(format!("empty product {values:?}")) }
}

pub(super) fn expressions(device: &Device) -> Answer {
    let x = ones(device, &[2])?;
    let is = |e: &Error| matches!(e, Error::InvalidArgument { what: "expression", .. });
    refused("input 1 of 1", Tensor::map(&Expr::input(1).exp(), &[&x]), is)?;
    refused("too many inputs", Tensor::map(&Expr::input(0).exp(), &[&x; MAX_INPUTS + 1]), is)?;
    refused("no input", Tensor::map(&Expr::constant(1.0), &[]), |e| {
        matches!(e, Error::InvalidArgument { what: "inputs", .. })
    })?;
    let bytes = must(Tensor::from_slice(device, &[1u8, 2], [2]))?;
    for (what, result) in [
        ("u8 + 256", bytes.add_scalar(256)),
        ("u8 * 2.5", bytes.mul_scalar(2.5)),
        ("u8 - NaN", bytes.sub_scalar(f64::NAN)),
        ("f32 * 1e39", x.mul_scalar(1e39)),
        ("the larger of u8 and 256", bytes.binary_scalar(BinaryFn::Max, 256)),
    ] {
        refused(what, result, |e| matches!(e, Error::NumberOutOfRange { .. }))?;
    }
    let deep = (0..100_000).fold(Expr::input(0), |expr, _| -expr);
    refused("100,000 nested steps", Program::compile(&deep, &[DType::F32]), is)
}

pub(super) fn clamp_range(device: &Device) -> Answer {
    let x = ones(device, &[2])?;
    let is = |e: &Error| matches!(e, Error::InvalidArgument { what: "clamp range", .. });
    refused("clamp 2..1", x.clamp(2.0, 1.0), is)?;
    refused("clamp to NaN", x.clamp(f64::NAN, 1.0), is)
}

pub(super) fn distributions(device: &Device) -> Answer {
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
