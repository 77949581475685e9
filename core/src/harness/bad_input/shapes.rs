//! Shapes, axes, slices and sizes that do not fit; sizes of zero, which do.

use super::{Answer, must, ones, refused};
use crate::ops::{ArgReduce, ArgReduceFn, Distribution};
use crate::tensor::Granularity;
use crate::{DType, Device, Error, Layout, MAX_RANK, MatmulOptions, Result, Shape, Tensor, TensorSpec, UnaryFn};

pub(super) fn add_shapes(device: &Device) -> Answer {
    let (a, b) = (ones(device, &[2, 3])?, ones(device, &[4, 3])?);
    refused(
        "add [2,3] + [4,3]",
        a.add(&b),
        |e| matches!(e, Error::ShapeMismatch { op: "add", lhs, rhs, axis: Some(0) } if lhs == &[2, 3] && rhs == &[4, 3]),
    )
}

pub(super) fn matmul_inner(device: &Device) -> Answer {
    let (a, b) = (ones(device, &[2, 3])?, ones(device, &[4, 5])?);
    refused(
        "matmul [2,3] x [4,5]",
        a.matmul(&b),
        |e| matches!(e, Error::InnerDimension { lhs, rhs, k_lhs: 3, k_rhs: 4 } if lhs == &[2, 3] && rhs == &[4, 5]),
    )
}

pub(super) fn matmul_shapes(device: &Device) -> Answer {
    let (number, vector, matrix) = (ones(device, &[])?, ones(device, &[3])?, ones(device, &[4, 3])?);
    refused("matmul of a number", number.matmul(&matrix), |e| matches!(e, Error::ShapeMismatch { op: "matmul", .. }))?;
    refused("matmul [3] x [4,3]", vector.matmul(&matrix), |e| matches!(e, Error::InnerDimension { .. }))?;
    let (a, b) = (ones(device, &[2, 3, 3])?, ones(device, &[4, 3, 3])?);
    refused("matmul of batches 2 and 4", a.matmul(&b), |e| {
        matches!(e, Error::ShapeMismatch { op: "matmul", axis: Some(0), .. })
    })
}

pub(super) fn reshape_size(device: &Device) -> Answer {
    let result = ones(device, &[3, 4])?.reshape([5, 3]);
    refused(
        "reshape 12 to [5,3]",
        result,
        |e| matches!(e, Error::ReshapeSize { from: 12, to: 15, shape } if shape == &[5, 3]),
    )?;
    refused(
        "squeeze of an axis of 3",
        ones(device, &[3, 4])?.squeeze(0),
        |e| matches!(e, Error::InvalidArgument { what: "axis", reason } if reason.contains("axis 0 of [3, 4] has 3")),
    )
}

pub(super) fn reshape_inferred(device: &Device) -> Answer {
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

pub(super) fn shape_overflow(device: &Device) -> Answer {
    let dims = [1 << 33, 1 << 33];
    let before = device.memory().in_use_bytes;
    refused(
        "zeros of 2^33 x 2^33",
        Tensor::zeros(device, DType::U8, dims),
        |e| matches!(e, Error::SizeOverflow { shape, dtype: None } if shape == &dims),
    )?;
    if device.memory().in_use_bytes != before { Err("memory was taken".to_owned()) } else { Ok(()) }
}

pub(super) fn byte_overflow(device: &Device) -> Answer {
    refused(
        "zeros of 2^61 f32",
        Tensor::zeros(device, DType::F32, [1 << 61]),
        |e| matches!(e, Error::SizeOverflow { shape, dtype: Some(DType::F32) } if shape == &[1 << 61]),
    )
}

pub(super) fn index_width(_: &Device) -> Answer {
    // A broadcast view has as many elements as it likes; positions in it must fit u32.
    let one = must(Shape::new(&[1]))?;
    let wide = must(Layout::contiguous(one).broadcast_to(must(Shape::new(&[1 << 33]))?))?;
    let out = TensorSpec::new(DType::U32, Layout::contiguous(Shape::SCALAR));
    let op = ArgReduce::new(ArgReduceFn::ArgMax, TensorSpec::new(DType::F32, wide), &[0], out);
    refused(
        "argmax over 2^33 elements",
        op,
        |e| matches!(e, Error::IndexWidth { op: "argmax", elements, max } if *elements == 1 << 33 && *max == u64::from(u32::MAX)),
    )
}

pub(super) fn axis_range(device: &Device) -> Answer {
    let x = ones(device, &[2, 3, 4])?;
    let is = |e: &Error| matches!(e, Error::AxisOutOfRange { axis: 4, rank: 3 });
    refused("sum over axis 4", x.sum(4), is)?;
    refused("softmax along axis 4", x.softmax(4), is)?;
    refused("flip of axis 4", x.flip(4), is)?;
    refused("transpose of axis 4", x.transpose(0, 4), is)?;
    refused("squeeze of axis 4", x.squeeze(4), is)?;
    refused("unsqueeze before axis 4", x.unsqueeze(4), |e| matches!(e, Error::AxisOutOfRange { axis: 4, rank: 4 }))?;
    let below = |e: &Error| matches!(e, Error::AxisOutOfRange { axis: -4, rank: 3 });
    refused("sum over axis -4", x.sum(-4), below)?;
    refused("cumsum along axis -4", x.cumsum(-4), below)?;
    refused("permute with axis -4", x.permute([0, 1, -4]), below)?;
    refused("stack along axis -5", Tensor::stack(&[&x, &x], -5), |e| {
        matches!(e, Error::AxisOutOfRange { axis: -5, rank: 4 })
    })?;
    refused("mean over no axes", x.mean(Vec::<usize>::new()), |e| {
        matches!(e, Error::InvalidArgument { what: "axes", .. })
    })
}

pub(super) fn axis_twice(device: &Device) -> Answer {
    let x = ones(device, &[2, 3, 4])?;
    refused("sum over axes 1, 1", x.sum([1, 1]), |e| matches!(e, Error::DuplicateAxis { axis: 1 }))?;
    refused("permute 0, 0, 1", x.permute([0, 0, 1]), |e| matches!(e, Error::DuplicateAxis { axis: 0 }))?;
    refused("permute 0, 1", x.permute([0, 1]), |e| matches!(e, Error::InvalidArgument { what: "permutation", .. }))
}

pub(super) fn slice(device: &Device) -> Answer {
    let x = ones(device, &[10])?;
    refused("slice with step 0", x.slice_step(0, 0..5, 0), |e| {
        matches!(e, Error::InvalidSlice { axis: 0, start: 0, end: 5, step: 0, len: 10 })
    })?;
    refused("slice of axis -2", x.slice(-2, ..), |e| matches!(e, Error::AxisOutOfRange { axis: -2, rank: 1 }))?;
    let outside = |index: i128| move |e: &Error| matches!(e, Error::IndexOutOfRange { axis: 0, index: i, len: 10 } if *i == index);
    refused("select 10 of 10", x.select(0, 10), outside(10))?;
    refused("select -11 of 10", x.select(-1, -11), outside(-11))?;
    refused("select u64::MAX", x.select(0, u64::MAX), outside(u64::MAX.into()))
}

pub(super) fn broadcast(device: &Device) -> Answer {
    let x = ones(device, &[3])?;
    refused("broadcast [3] to [4]", x.broadcast_to([4]), |e| matches!(e, Error::ShapeMismatch { axis: Some(0), .. }))?;
    refused("broadcast [3] to []", x.broadcast_to([]), |e| matches!(e, Error::ShapeMismatch { axis: None, .. }))
}

pub(super) fn rank(device: &Device) -> Answer {
    let is = |e: &Error| matches!(e, Error::RankTooLarge { rank: 9, max: MAX_RANK });
    refused("rank 9", Tensor::zeros(device, DType::F32, [1; 9]), is)?;
    refused("a ninth dimension", ones(device, &[1; 8])?.unsqueeze(0), is)
}

pub(super) fn zero_size(device: &Device) -> Answer {
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

/// Where nothing is reduced or multiplied the result is empty; where nothing is what is added up, it is what is added to it.
pub(super) fn zero_size_sums(device: &Device) -> Answer {
    let float = |dims: &[u64]| Tensor::zeros(device, DType::F32, dims);
    let run = || -> Result<Vec<(&'static str, Tensor, &'static [u64])>> {
        let (x, y) = (float(&[0, 3])?, float(&[3, 0])?);
        let (none, ends) = (Tensor::zeros(device, DType::I32, [0])?, Tensor::from_slice(device, &[0i32, 0], [2])?);
        let blocks = Granularity::Blocks { rows: 2, columns: 2 };
        Ok(vec![
            ("sums of no rows", x.sum(1)?, &[0]),
            ("maxima of no rows", x.max(1)?, &[0]),
            ("means of no columns", y.mean(0)?, &[0]),
            ("argmax of no rows", x.argmax(1)?, &[0]),
            ("any of no rows", x.eq(&x)?.any(1)?, &[0]),
            ("log-softmax along nothing", y.log_softmax(1)?, &[3, 0]),
            ("clamp", x.clamp(0.0, 1.0)?, &[0, 3]),
            ("no numbers counted", Tensor::arange(device, DType::I32, 0, 1, 0)?, &[0]),
            ("a product of no rows and no columns", x.matmul(&y)?, &[0, 0]),
            ("no products", float(&[0, 2, 3])?.matmul(&float(&[3, 4])?)?, &[0, 2, 4]),
            ("groups of no rows", x.grouped_matmul(&float(&[2, 3, 5])?, &ends)?, &[0, 5]),
            ("rows of no group", float(&[4, 3])?.grouped_matmul(&float(&[0, 3, 5])?, &none)?, &[4, 5]),
            ("no row quantised", x.quantize(DType::I8, Granularity::PerRow)?.dequantize(DType::F32)?, &[0, 3]),
            ("no column quantised", y.quantize(DType::I8, blocks)?.dequantize(DType::F32)?, &[3, 0]),
            ("nothing compressed", y.compress_2_4()?.decompress()?, &[3, 0]),
            ("a compressed product over no k", y.compress_2_4()?.matmul(&float(&[0, 2])?)?, &[3, 2]),
            ("a view of rank 8", x.reshape([1, 0, 1, 3, 1, 1, 2, 1])?.flip(3)?.copy()?, &[1, 0, 1, 3, 1, 1, 2, 1]),
        ])
    };
    for (what, result, dims) in must(run())? {
        let values = must(result.to_bytes())?;
        if result.dims() != dims || values.iter().any(|&byte| byte != 0) {
            return Err(format!("{what}: shape {:?}, not {dims:?}, values {values:?}", result.dims()));
        }
    }
    // activation(alpha A B + beta C + bias) over a k of nothing is activation(beta C + bias).
    let epilogue = || -> Result<Vec<f32>> {
        let (c, bias) =
            (Tensor::full(device, DType::F32, [3, 2], 2.0)?, Tensor::from_slice(device, &[1f32, -9.0], [2])?);
        let add = Some((&c, 0.5));
        let options = MatmulOptions { add, bias: Some(&bias), activation: Some(UnaryFn::Relu), ..Default::default() };
        float(&[3, 0])?.matmul_with(&float(&[0, 2])?, &options)?.to_vec()
    };
    let got = must(epilogue())?;
    if got == [2.0, 0.0, 2.0, 0.0, 2.0, 0.0] { Ok(()) } else { Err(format!("an epilogue over no k gave {got:?}")) }
}
