//! Tensor maps: descriptions of memory that the card's copy engine reads, in the driver's own form.

use std::ffi::c_void;

use polywarp_kernels::{Pixels, TensorMap};

use super::Context;
use crate::status::code;

/// What lies outside of the tensor is zero, not NaN (CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE).
const FILL_ZERO: u32 = 0;
/// CU_TENSOR_MAP_INTERLEAVE_NONE.
const NO_INTERLEAVE: u32 = 0;
/// Dimensions of a tensor map at most.
const MOST_DIMS: usize = 5;

/// `CUtensorMap`: 128 bytes, at a multiple of as many.
#[repr(C, align(128))]
struct Encoded([u8; 128]);

/// `map` of a tensor that starts at `address`. The error is a bug: the planner asked for what the driver does not take.
pub(crate) fn encode(context: &Context, map: &TensorMap, address: u64) -> Result<[u8; 128], String> {
    if let Some(pixels) = &map.pixels {
        return encode_pixels(context, map, pixels, address);
    }
    let Some(encode) = context.api.cuTensorMapEncodeTiled else {
        return Err("the driver has no tensor maps".to_owned());
    };
    let rank = map.dims.len();
    if rank == 0 || rank > MOST_DIMS || map.strides_bytes.len() + 1 != rank || map.box_dims.len() != rank {
        return Err(format!("a tensor map of rank {rank}"));
    }
    let mut encoded = Encoded([0; 128]);
    let one = [1u32; MOST_DIMS];
    let start = std::ptr::without_provenance_mut::<c_void>(address as usize);
    // The driver wants a context to be current, though nothing here reaches the card.
    // SAFETY: the function only writes 128 bytes to the first argument, which is a live local that is aligned as it wants,
    // and reads `rank` (of the strides one less) numbers behind each pointer, which the check above found there. The
    // address is not followed.
    let done = context.attempt(|_| unsafe {
        encode(
            (&raw mut encoded).cast(),
            map.element as u32,
            rank as u32,
            start,
            map.dims.as_ptr(),
            map.strides_bytes.as_ptr(),
            map.box_dims.as_ptr(),
            one.as_ptr(),
            NO_INTERLEAVE,
            map.swizzle as u32,
            map.promotion as u32,
            FILL_ZERO,
        )
    });
    match done.map_err(|fault| fault.to_string())? {
        code::SUCCESS => Ok(encoded.0),
        failed => Err(format!("cuTensorMapEncodeTiled: {} for {map:?} at {address:#x}", context.api.words(failed))),
    }
}

/// Dimensions of images [channels, width, height, images].
const IMAGES: usize = 4;

/// The same of pixels of images.
fn encode_pixels(context: &Context, map: &TensorMap, pixels: &Pixels, address: u64) -> Result<[u8; 128], String> {
    let Some(encode) = context.api.cuTensorMapEncodeIm2col else {
        return Err("the driver has no tensor maps of pixels".to_owned());
    };
    let ([channels, count], IMAGES, 3) =
        (map.box_dims[..].try_into().unwrap_or([0; 2]), map.dims.len(), map.strides_bytes.len())
    else {
        return Err(format!("a tensor map of pixels of rank {}", map.dims.len()));
    };
    let mut encoded = Encoded([0; 128]);
    let steps = [1, pixels.steps[0], pixels.steps[1], 1];
    let start = std::ptr::without_provenance_mut::<c_void>(address as usize);
    // SAFETY: as above; of corners two numbers are read, of steps, dimensions and (one less) strides as many as the rank, which is checked.
    let done = context.attempt(|_| unsafe {
        encode(
            (&raw mut encoded).cast(),
            map.element as u32,
            IMAGES as u32,
            start,
            map.dims.as_ptr(),
            map.strides_bytes.as_ptr(),
            pixels.lower.as_ptr(),
            pixels.upper.as_ptr(),
            channels,
            count,
            steps.as_ptr(),
            NO_INTERLEAVE,
            map.swizzle as u32,
            map.promotion as u32,
            FILL_ZERO,
        )
    });
    match done.map_err(|fault| fault.to_string())? {
        code::SUCCESS => Ok(encoded.0),
        failed => Err(format!("cuTensorMapEncodeIm2col: {} for {map:?} at {address:#x}", context.api.words(failed))),
    }
}
