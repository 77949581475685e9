//! Convolutions and pools whose windows have no meaning.

use super::{Answer, must, ones, refused};
use crate::ops::{ConvolutionOptions, Divisor, PoolOptions};
use crate::{DType, Device, Error, UnaryFn};

pub(super) fn convolutions(device: &Device) -> Answer {
    let (x, w) = (ones(device, &[1, 5, 4, 4])?, ones(device, &[2, 3, 3, 4])?);
    let plain = ConvolutionOptions::default;
    let window = |e: &Error| matches!(e, Error::InvalidArgument { what: "window", .. });
    let groups = |e: &Error| matches!(e, Error::InvalidArgument { what: "groups", .. });
    let shapes = |e: &Error| matches!(e, Error::ShapeMismatch { op: "convolution", .. });
    refused("a stride of 0", x.conv(&w, &plain().stride(0)), window)?;
    refused("a window larger than the input", x.conv(&w, &plain().dilation(3)), window)?;
    refused("3 groups of 4 channels", x.conv(&w, &plain().groups(3)), groups)?;
    refused("0 groups", x.conv(&w, &plain().groups(0)), groups)?;
    refused("filters of 4 channels for 2 groups", x.conv(&w, &plain().groups(2)), shapes)?;
    refused("windows of one axis over two", x.conv(&must(w.select(1, 0))?, &plain()), shapes)?;
    refused("a stride beyond any tensor", x.conv(&w, &plain().stride(u64::MAX)), window)?;
    let two = ones(device, &[3])?;
    refused("3 numbers for 2 filters", x.conv_with(&w, None, Some(&two), &plain()), shapes)?;
    refused("cos as an activation", x.conv(&w, &plain().activation(UnaryFn::Cos)), |e| {
        matches!(e, Error::InvalidArgument { what: "activation", .. })
    })?;
    let of = |dtype| Ok::<_, String>([must(x.cast(dtype))?, must(w.cast(dtype))?]);
    let [x_bool, w_bool] = of(DType::Bool)?;
    refused("bool", x_bool.conv(&w_bool, &plain()), |e| {
        matches!(e, Error::UndefinedForDType { op: "convolution", dtype: DType::Bool })
    })?;
    let [x_i8, w_i8] = of(DType::I8)?;
    refused("an i8 image without scales", x_i8.conv(&w_i8, &plain()), |e| {
        matches!(e, Error::InvalidArgument { what: "scales", .. })
    })?;
    let back = ones(device, &[1, 3, 3, 2])?;
    refused("an output padding of the stride", back.conv_transpose(&w, &plain().stride(2).output_padding(2)), |e| {
        matches!(e, Error::InvalidArgument { what: "output_padding", .. })
    })?;
    refused("a padding larger than the result", back.conv_transpose(&w, &plain().padding(9)), |e| {
        matches!(e, Error::InvalidArgument { what: "padding", .. })
    })
}

pub(super) fn pools(device: &Device) -> Answer {
    let x = ones(device, &[1, 5, 4, 2])?;
    let window = |e: &Error| matches!(e, Error::InvalidArgument { what: "window", .. });
    refused("no window", x.max_pool(&PoolOptions::default()), window)?;
    refused("a window of 0", x.max_pool(&PoolOptions::window(0)), window)?;
    refused("a window larger than the input", x.avg_pool(&PoolOptions::window(5)), window)?;
    refused("a window in padding alone", x.max_pool(&PoolOptions::window(2).padding(2)), |e| {
        matches!(e, Error::InvalidArgument { what: "padding", .. })
    })?;
    refused("a divisor of 0", x.avg_pool(&PoolOptions::window(2).divisor(Divisor::Number(0))), |e| {
        matches!(e, Error::InvalidArgument { what: "divisor", .. })
    })?;
    let nothing = ones(device, &[1, 0, 4, 2])?;
    let outputs = |e: &Error| matches!(e, Error::InvalidArgument { what: "outputs", .. });
    refused("parts of an empty axis", nothing.adaptive_avg_pool(&[2]), outputs)?;
    refused("3 numbers for 2 axes", x.adaptive_avg_pool(&[1, 2, 3]), outputs)?;
    refused("no part at all", x.adaptive_max_pool(&[]), outputs)
}
