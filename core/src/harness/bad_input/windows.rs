//! Convolutions whose windows have no meaning.

use super::{Answer, must, ones, refused};
use crate::ops::ConvolutionOptions;
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
    let whole = must(x.cast(DType::I32))?;
    refused("i32", whole.conv(&must(w.cast(DType::I32))?, &plain()), |e| {
        matches!(e, Error::UndefinedForDType { op: "convolution", dtype: DType::I32 })
    })?;
    let back = ones(device, &[1, 3, 3, 2])?;
    refused("an output padding of the stride", back.conv_transpose(&w, &plain().stride(2).output_padding(2)), |e| {
        matches!(e, Error::InvalidArgument { what: "output_padding", .. })
    })?;
    refused("a padding larger than the result", back.conv_transpose(&w, &plain().padding(9)), |e| {
        matches!(e, Error::InvalidArgument { what: "padding", .. })
    })
}
