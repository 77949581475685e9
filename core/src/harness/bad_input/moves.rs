//! Joining, padding and indexing with shapes, axes, dtypes and numbers that do not fit; and positions that only the device knows.

use super::{Answer, must, ones, refused};
use crate::ops::{Missing, PadMode, ScatterFn, SearchSide};
use crate::{DType, Device, Error, Tensor};

fn whole_numbers(device: &Device, numbers: &[i32]) -> Result<Tensor, String> {
    must(Tensor::from_slice(device, numbers, [numbers.len() as u64]))
}

pub(super) fn joins(device: &Device) -> Answer {
    let (x, y) = (ones(device, &[2, 3])?, ones(device, &[4, 3])?);
    let shape = |op| move |e: &Error| matches!(e, Error::ShapeMismatch { op: o, .. } if *o == op);
    refused("nothing joined", Tensor::cat(&[], 0), |e| matches!(e, Error::InvalidArgument { what: "inputs", .. }))?;
    refused("nothing stacked", Tensor::stack(&[], 0), |e| matches!(e, Error::InvalidArgument { what: "inputs", .. }))?;
    refused("2 rows beside 4", Tensor::cat(&[&x, &y], 1), shape("cat"))?;
    refused("a matrix and a vector", Tensor::cat(&[&x, &ones(device, &[3])?], 0), shape("cat"))?;
    refused("axis 2 of 2", Tensor::cat(&[&x, &x], 2), |e| matches!(e, Error::AxisOutOfRange { axis: 2, rank: 2 }))?;
    let integers = must(x.cast(DType::I32))?;
    refused("f32 beside i32", Tensor::cat(&[&x, &integers], 0), |e| {
        matches!(e, Error::DTypeMismatch { op: "cat", expected: DType::F32, got: DType::I32 })
    })?;
    refused("a stack of two shapes", Tensor::stack(&[&x, &y], 0), shape("stack"))?;
    refused("a stack along axis 4", Tensor::stack(&[&x, &x], 4), |e| {
        matches!(e, Error::AxisOutOfRange { axis: 4, rank: 3 })
    })?;
    refused("parts of 5 rows of 4", y.split(&[2, 3], 0), |e| {
        matches!(e, Error::InvalidArgument { what: "sizes", .. })
    })?;
    refused("0 parts", y.chunk(0, 0), |e| matches!(e, Error::InvalidArgument { what: "count", .. }))?;
    let windows = |e: &Error| matches!(e, Error::InvalidArgument { what: "windows", .. });
    for (what, size, step) in [("windows of nothing", 0, 1), ("windows of 5 of 4", 5, 1), ("a step of 0", 2, 0)] {
        refused(what, y.sliding_windows(size, step, 0), windows)?;
    }
    refused("a grid of matrices", Tensor::meshgrid(&[&x], crate::MeshOrder::Matrix), |e| {
        matches!(e, Error::InvalidArgument { what: "vectors", .. })
    })
}

pub(super) fn pads(device: &Device) -> Answer {
    let x = ones(device, &[2, 3])?;
    let padding = |e: &Error| matches!(e, Error::InvalidArgument { what: "padding", .. });
    refused("one pair for two axes", x.pad(&[(1, 1)], PadMode::Edge), padding)?;
    refused("3 of 2 rows left out", x.pad(&[(-1, -2), (0, 0)], PadMode::Constant), padding)?;
    refused("no extent", x.pad(&[(i64::MIN, 0), (0, 0)], PadMode::Wrap), padding)?;
    let nothing = ones(device, &[0, 3])?;
    for mode in [PadMode::Edge, PadMode::Reflect, PadMode::Wrap] {
        refused("what repeats nothing", nothing.pad(&[(1, 0), (0, 0)], mode), padding)?;
    }
    refused("2^40 columns", x.pad(&[(0, 0), (1 << 40, 0)], PadMode::Constant), |e| {
        matches!(e, Error::IndexWidth { op: "pad", .. })
    })?;
    let bytes = must(x.cast(DType::U8))?;
    refused("u8 padded with 256", bytes.pad_with(&[(1, 0), (0, 0)], 256), |e| {
        matches!(e, Error::NumberOutOfRange { op: "pad", .. })
    })?;
    refused("one shift for two axes", x.roll(&[1], [0, 1]), |e| {
        matches!(e, Error::InvalidArgument { what: "shifts", .. })
    })?;
    refused("an axis rolled twice", x.roll(&[1, 1], [0, 0]), |e| matches!(e, Error::DuplicateAxis { axis: 0 }))?;
    refused("9 axes", x.tile(&[1; 9]), |e| matches!(e, Error::RankTooLarge { rank: 9, .. }))?;
    refused("repeats along axis 2", x.repeat(2, 2), |e| matches!(e, Error::AxisOutOfRange { axis: 2, rank: 2 }))
}

pub(super) fn by_position(device: &Device) -> Answer {
    let x = ones(device, &[2, 3])?;
    let vector = ones(device, &[3])?;
    refused("a triangle of a vector", vector.tril(0), |e| matches!(e, Error::AxisOutOfRange { axis: 1, rank: 1 }))?;
    refused("a diagonal beside the matrix", x.diagonal(4, 0, 1), |e| {
        matches!(e, Error::InvalidArgument { what: "diagonal", .. })
    })?;
    refused("a diagonal of one axis", x.diagonal(0, 1, 1), |e| matches!(e, Error::DuplicateAxis { axis: 1 }))?;
    refused("diag of rank 3", must(x.unsqueeze(0))?.diag(0), |e| {
        matches!(e, Error::InvalidArgument { what: "rank", .. })
    })?;
    refused("2^20 x 2^20", Tensor::eye(device, DType::F32, 1 << 20, 1 << 20, 0), |e| {
        matches!(e, Error::IndexWidth { op: "eye", .. })
    })?;
    refused("linspace of i32", Tensor::linspace(device, DType::I32, 0.0, 1.0, 3), |e| {
        matches!(e, Error::UndefinedForDType { op: "linspace", dtype: DType::I32 })
    })?;
    refused("linspace to 1e300 in f32", Tensor::linspace(device, DType::F32, 0.0, 1e300, 3), |e| {
        matches!(e, Error::NumberOutOfRange { op: "linspace", .. })
    })?;
    refused(
        "classes of f32",
        vector.one_hot(3, DType::F32),
        |e| matches!(e, Error::InvalidArgument { what: "positions", reason } if reason.contains("one_hot takes integers")),
    )?;
    refused("a mask of f32", x.masked_fill(&vector, 0.0), |e| {
        matches!(e, Error::DTypeMismatch { op: "masked_fill", expected: DType::Bool, got: DType::F32 })
    })?;
    let view = |e: &Error| matches!(e, Error::InvalidArgument { what: "view", .. });
    refused("f32 as bool", x.view_as(DType::Bool), view)?;
    refused("3 f32 as f64", vector.view_as(DType::F64), view)?;
    refused("columns as bytes", must(x.t())?.view_as(DType::U8), view)
}

pub(super) fn along_axes(device: &Device) -> Answer {
    let x = ones(device, &[2, 3])?;
    let at = must(whole_numbers(device, &[0, 1])?.reshape([2, 1]))?;
    let vector = whole_numbers(device, &[0, 1])?;
    let shape = |op| move |e: &Error| matches!(e, Error::ShapeMismatch { op: o, .. } if *o == op);
    refused("a vector of positions of a matrix", x.gather(&vector, 0), shape("gather"))?;
    let three_lines = must(Tensor::zeros(device, DType::I32, [3, 1]))?;
    refused("3 lines of positions for 2", x.gather(&three_lines, 1), |e| matches!(e, Error::ShapeMismatch { .. }))?;
    refused(
        "positions of f32",
        x.gather(&x, 1),
        |e| matches!(e, Error::InvalidArgument { what: "positions", reason } if reason.contains("gather takes integers")),
    )?;
    refused("axis 2 of 2", x.gather(&at, 2), |e| matches!(e, Error::AxisOutOfRange { axis: 2, rank: 2 }))?;
    refused("a matrix of indices", x.index_select(&at, 1), |e| {
        matches!(e, Error::InvalidArgument { what: "indices", .. })
    })?;
    let integers = must(at.cast(DType::I32))?;
    refused("i32 put into f32", x.scatter(&at, &integers, 1, ScatterFn::Set), |e| {
        matches!(e, Error::DTypeMismatch { op: "scatter_set", expected: DType::F32, got: DType::I32 })
    })?;
    refused("3 put at 2 positions", x.scatter(&at, &x, 1, ScatterFn::Sum), |e| {
        matches!(e, Error::ShapeMismatch { .. })
    })?;
    let truths = must(x.cast(DType::Bool))?;
    refused("the sum of bool", truths.scatter(&at, &must(truths.slice(1, 0..1))?, 1, ScatterFn::Sum), |e| {
        matches!(e, Error::UndefinedForDType { op: "scatter_sum", dtype: DType::Bool })
    })?;
    refused("indices of 3 axes of 2", x.index_put(&[&vector, &vector, &vector], &x, ScatterFn::Set), |e| {
        matches!(e, Error::InvalidArgument { what: "indices", .. })
    })?;
    refused("indices of two shapes", x.index_put(&[&vector, &at], &x, ScatterFn::Set), shape("index_put"))?;
    refused("a mask of another shape", x.masked_select(&must(truths.slice(1, 0..1))?), shape("masked_select"))?;
    refused("a mask of f32", x.masked_select(&x), |e| {
        matches!(e, Error::DTypeMismatch { op: "masked_select", expected: DType::Bool, got: DType::F32 })
    })?;
    refused("i32 put into f32 by a mask", x.masked_scatter(&truths, &integers), |e| {
        matches!(e, Error::DTypeMismatch { op: "masked_scatter", expected: DType::F32, got: DType::I32 })
    })?;
    refused("positions in f32", x.nonzero_first(3), |e| {
        matches!(e, Error::DTypeMismatch { op: "nonzero", expected: DType::Bool, got: DType::F32 })
    })?;
    let places = |sorted: &Tensor, values: &Tensor| sorted.searchsorted(values, SearchSide::Left);
    refused("i32 among f32", places(&x, &integers), |e| {
        matches!(e, Error::DTypeMismatch { op: "searchsorted", expected: DType::F32, got: DType::I32 })
    })?;
    refused("bool among bool", places(&truths, &truths), |e| {
        matches!(e, Error::UndefinedForDType { op: "searchsorted", dtype: DType::Bool })
    })?;
    refused("lines of 2 among 3", places(&ones(device, &[3, 3])?, &x), shape("searchsorted"))?;
    refused("a matrix of boundaries", x.bucketize(&x, SearchSide::Left), |e| {
        matches!(e, Error::InvalidArgument { what: "boundaries", .. })
    })
}

/// Nobody can refuse what is only on the device: it must have the meaning that is documented, and reach no other memory. What calls complain of
/// is in `contract/outside.rs`.
pub(super) fn positions(device: &Device) -> Answer {
    let x = must(Tensor::from_slice(device, &[1.0f32, 2.0, 3.0], [3]))?;
    let at = whole_numbers(device, &[i32::MIN, -1, 0, 2, 3, i32::MAX])?;
    let taken: Vec<f32> = must(must(x.gather_or(&at, 0, Missing::Nan))?.to_vec())?;
    let is_right = taken[2..4] == [1.0, 3.0] && [0, 1, 4, 5].iter().all(|&i: &usize| taken[i].is_nan());
    if !is_right {
        return Err(format!("positions outside gave {taken:?}"));
    }
    let tens = ones(device, &[6])?;
    for function in [ScatterFn::Set, ScatterFn::Sum] {
        let put: Vec<f32> = must(must(x.scatter_within(&at, &tens, 0, function))?.to_vec())?;
        let want = if function == ScatterFn::Set { [1.0, 2.0, 1.0] } else { [2.0, 2.0, 4.0] };
        if put != want {
            return Err(format!("{} at positions outside gave {put:?}", function.name()));
        }
    }
    Ok(())
}
