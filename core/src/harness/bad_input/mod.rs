//! Bad input: every request that cannot be met is refused by a typed error that names what is wrong, and the device
//! computes correctly afterwards.
//!
//! [`run`] works on any device. Each row makes one kind of bad request, compares the error's variant and fields, and then
//! has the device do a small computation. What only one backend can be asked (shaders, adapters, files) is tested there. The
//! requests themselves are in the files beside this one.

mod dtypes;
mod moves;
mod parameters;
mod shapes;
mod storage;
mod windows;

use crate::{Device, Error, Result, Tensor};

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
    ("add of shapes that do not broadcast", shapes::add_shapes),
    ("matmul of different inner dimensions", shapes::matmul_inner),
    ("matmul of numbers, of other lengths or unequal batches", shapes::matmul_shapes),
    ("matmul epilogue of the wrong shape, dtype or kind", parameters::matmul_epilogue),
    ("grouped product of the wrong ranks, shapes or dtypes", parameters::grouped_matmul),
    ("reduced product over a batch, by another function, of 16 bits", parameters::matmul_reduce),
    ("rows by indices of the wrong dtype or shape", parameters::rows_by_index),
    ("joins of nothing, and of the wrong shapes, axes or dtypes", moves::joins),
    ("padding and rolling of the wrong axes, amounts or numbers", moves::pads),
    ("triangles, diagonals, ranges, masks and bits that do not fit", moves::by_position),
    ("indexing along the wrong axes, by the wrong shapes or dtypes", moves::along_axes),
    ("positions outside of an axis", moves::positions),
    ("scans of no meaning, and order that a line has not", parameters::lines),
    ("convolutions of the wrong windows, groups, shapes or dtypes", windows::convolutions),
    ("pools of the wrong windows, paddings or divisors", windows::pools),
    ("ends of groups out of order or out of range", parameters::group_ends),
    ("scales of the wrong shape, dtype or operands", parameters::scales),
    ("scales of blocks of the wrong shape, of nothing or of unequal length", parameters::scale_blocks),
    ("quantising what has no steps, rows or columns", parameters::quantize),
    ("compressing what has no groups, and parts that do not fit", parameters::sparse24),
    ("reshape to another element count", shapes::reshape_size),
    ("reshape with two inferred extents", shapes::reshape_inferred),
    ("shape beyond 2^63 elements", shapes::shape_overflow),
    ("tensor beyond 1 EiB", shapes::byte_overflow),
    ("argmax over more than 2^32 elements", shapes::index_width),
    ("axis out of range", shapes::axis_range),
    ("axis named twice", shapes::axis_twice),
    ("slice outside its axis, reversed or with step 0", shapes::slice),
    ("broadcast to a shape that does not fit", shapes::broadcast),
    ("data of another length than the shape", dtypes::data_length),
    ("item of more than one element", dtypes::item),
    ("tensor read as another type", dtypes::read_dtype),
    ("operands of two dtypes", dtypes::mixed_dtypes),
    ("function not defined for the dtype", dtypes::undefined),
    ("condition that is not bool", dtypes::condition),
    ("dtype the device lacks", dtypes::unsupported_dtype),
    ("operands on two devices", storage::two_devices),
    ("buffer of another backend", storage::foreign),
    ("maximum over an empty axis", parameters::empty_reduction),
    ("output view that overlaps itself", storage::overlapping_output),
    ("view past the end of its storage", storage::view_bounds),
    ("strides before the start of the storage", storage::negative_reach),
    ("rank above the largest", shapes::rank),
    ("buffer larger than the device allows", storage::buffer_too_big),
    ("allocation over the memory limit", storage::memory_limit),
    ("zero-size tensors in every op", shapes::zero_size),
    ("sums, products and 8-bit forms of nothing", shapes::zero_size_sums),
    ("NaN and infinity cast to integers", dtypes::nan_cast),
    ("output that is also an input", storage::aliased_output),
    ("updates of one buffer twice, of views with gaps, of other shapes and dtypes", storage::updates),
    ("wrong number of buffers", storage::buffer_count),
    ("expression with a missing input or too many", parameters::expressions),
    ("clamp with low above high or NaN", parameters::clamp_range),
    ("random numbers with impossible parameters", parameters::distributions),
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
pub(super) fn still_computes(device: &Device) -> Answer {
    let result = || -> Result<(Vec<f32>, f32)> {
        let a = Tensor::from_slice(device, &[1.0f32, 2.0, 3.0, 4.0], [2, 2])?;
        let product = a.matmul(&a.t()?)?.add_scalar(1.0)?;
        Ok((product.to_vec()?, product.sum(..)?.item()?))
    };
    let (product, sum) = result().map_err(|error| format!("the device no longer computes: {error}"))?;
    if product == [6.0, 12.0, 12.0, 26.0] && sum == 56.0 {
        return Ok(());
    }
    Err(format!("the device no longer computes correctly: {product:?}, sum {sum}"))
}
