//! Tensors from and to arrays of crate `ndarray`, with feature `ndarray`.
//!
//! The decision to know: elements are copied, because a tensor's memory is its device's. Any layout goes in, also views that are transposed,
//! reversed or broadcast; what comes out lies in standard layout, the row-major one.

use ndarray::{ArrayBase, ArrayD, Data, Dimension, IxDyn};
use polywarp_core::{Device, Element, Error, Result, Shape, Tensor};

/// A dense tensor of the array's shape and elements, on `device`. Its dtype is that of the element type.
///
/// ```
/// use ndarray::array;
/// use polywarp_core::Device;
/// use polywarp_files::{from_ndarray, to_ndarray};
///
/// let x = array![[1.0f32, 2.0, 3.0], [4.0, 5.0, 6.0]];
/// let tensor = from_ndarray(&Device::cpu(), &x.t())?;
/// assert_eq!(to_ndarray::<f32>(&tensor)?, x.t().into_dyn());
/// # Ok::<(), polywarp_core::Error>(())
/// ```
///
/// # Errors
/// As [`Shape::new`] for more dimensions than tensors have; memory errors of the device.
pub fn from_ndarray<T, S, D>(device: &Device, array: &ArrayBase<S, D>) -> Result<Tensor>
where
    T: Element,
    S: Data<Elem = T>,
    D: Dimension,
{
    let dims: Vec<u64> = array.shape().iter().map(|&dim| dim as u64).collect();
    let shape = Shape::new(&dims)?;
    match array.as_slice() {
        Some(elements) => Tensor::from_slice(device, elements, shape),
        None => Tensor::from_slice(device, &array.iter().copied().collect::<Vec<T>>(), shape),
    }
}

/// The tensor's elements in an array of its shape, in standard layout, whatever the tensor's strides. Waits for the device.
///
/// # Errors
/// [`Error::DTypeMismatch`] where `T` is not the type of the tensor's elements; as [`Tensor::to_vec`].
pub fn to_ndarray<T: Element>(tensor: &Tensor) -> Result<ArrayD<T>> {
    let elements = tensor.to_vec::<T>()?;
    let dims: Vec<usize> = tensor.dims().iter().map(|&dim| dim as usize).collect();
    ArrayD::from_shape_vec(IxDyn(&dims), elements)
        .map_err(|error| Error::InvalidArgument { what: "shape", reason: format!("no array has it: {error}") })
}

#[cfg(test)]
mod tests {
    use ndarray::{Array, Array2, Axis, Slice, arr0, array};
    use polywarp_core::DType;

    use super::*;

    /// Every element of the tensor is the array's at the same place.
    #[track_caller]
    fn same<T: Element + PartialEq + std::fmt::Debug, S: Data<Elem = T>, D: Dimension>(array: &ArrayBase<S, D>) {
        let tensor = from_ndarray(&Device::cpu(), array).unwrap();
        assert_eq!(tensor.dtype(), T::DTYPE);
        let back = to_ndarray::<T>(&tensor).unwrap();
        assert_eq!(back, array.to_owned().into_dyn());
        assert!(back.is_standard_layout());
    }

    #[test]
    fn any_layout_keeps_its_elements() {
        let x = Array::from_iter(0..24).into_shape_with_order((2, 3, 4)).unwrap();
        same(&x);
        same(&x.view().permuted_axes([2, 0, 1]));
        let mut backwards = x.view();
        backwards.invert_axis(Axis(1));
        same(&backwards.slice_axis(Axis(2), Slice::new(1, None, 2)));
        same(&x.slice_axis(Axis(1), Slice::from(0..0)));
        same(&array![1i32, 2, 3].broadcast((2, 3)).unwrap());
        same(&Array2::from_shape_fn((3, 2), |(i, j)| i as f64 - j as f64).reversed_axes());
        same(&arr0(7u8));
        same(&array![true, false]);
        same(&array![i64::MIN, i64::MAX]);
    }

    #[test]
    fn tensor_of_any_strides_is_an_array_in_standard_layout() {
        let x = array![[1u32, 2, 3], [4, 5, 6]];
        let tensor = from_ndarray(&Device::cpu(), &x).unwrap();
        assert_eq!(to_ndarray::<u32>(&tensor.t().unwrap()).unwrap(), x.t().into_dyn());
        let row = to_ndarray::<u32>(&tensor.select(0, 1).unwrap().flip(0).unwrap()).unwrap();
        assert_eq!(row, array![6u32, 5, 4].into_dyn());
    }

    #[test]
    fn another_type_and_too_many_dimensions_are_refused() {
        let tensor = Tensor::zeros(&Device::cpu(), DType::F32, [2]).unwrap();
        assert!(matches!(to_ndarray::<f64>(&tensor), Err(Error::DTypeMismatch { got: DType::F32, .. })));
        let deep = ArrayD::<f32>::zeros(vec![1; 20]);
        assert!(from_ndarray(&Device::cpu(), &deep).is_err());
    }
}
