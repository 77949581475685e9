//! Tensors from and to NumPy's files: [`read_npy`], [`write_npy`], and archives of them by name, [`read_npz`], [`write_npz`].
//!
//! This crate knows only core and computes nothing; safetensors are in `polywarp-nn`. The decision to know: no file is trusted. What a header
//! says is compared with what is there before memory is taken, and what does not fit is an [`Error::File`] that names the file and, in an
//! archive, the array (`npy.rs`, `npz.rs`). With feature `ndarray`, `from_ndarray` and `to_ndarray` are for arrays of that crate.
//!
//! ```
//! use polywarp_core::{Device, Tensor};
//! use polywarp_files::{Compression, read_npy, read_npz, write_npy, write_npz};
//!
//! let device = Device::cpu();
//! let folder = std::env::temp_dir();
//! let (one, many) = (folder.join("polywarp-doc.npy"), folder.join("polywarp-doc.npz"));
//! let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], [2, 3])?;
//! write_npy(&one, &x)?;
//! assert_eq!(read_npy(&one, &device)?.to_vec::<f32>()?, x.to_vec::<f32>()?);
//! write_npz(&many, &[("x", &x), ("transposed", &x.t()?)], Compression::Deflated)?;
//! assert_eq!(read_npz(&many, &device)?["transposed"].dims(), [3, 2]);
//! # std::fs::remove_file(&one).ok();
//! # std::fs::remove_file(&many).ok();
//! # Ok::<(), polywarp_core::Error>(())
//! ```

#![forbid(unsafe_code)]

#[cfg(feature = "ndarray")]
mod arrays;
pub mod npy;
mod npz;

use std::fs;
use std::io;
use std::path::Path;

use polywarp_core::{DType, Device, Error, Result, Shape, Tensor, replace_file};

#[cfg(feature = "ndarray")]
pub use arrays::{from_ndarray, to_ndarray};
pub use npz::{Compression, read_npz, write_npz};

/// What fuzz targets call, and the tests with their corpora.
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing {
    pub use crate::npy::fuzzing::fuzz as npy;
    pub use crate::npz::fuzzing::fuzz as npz;
}

use npy::{Form, Kind};

/// The array in the file, on `device`: C and Fortran order, little- and big-endian; the result is dense and row-major.
///
/// `f2`, `f4`, `f8`, `i1`, `i2`, `i4`, `i8`, `u1`, `u2`, `u4`, `u8` and `b1` are the dtypes that bear these names, and `V2` is bf16, as `ml_dtypes` writes it. 8-bit
/// floats are read as their bits, u8: `Tensor::view_as` says which they are.
///
/// # Errors
/// [`Error::File`] for a file that cannot be read, is no .npy file, is damaged, cut off or too long, has elements of another type, a byte that is
/// no bool, or more dimensions than tensors have; memory errors of the device.
pub fn read_npy(path: impl AsRef<Path>, device: &Device) -> Result<Tensor> {
    let path = path.as_ref();
    let (form, bytes) = npy::read(path).map_err(|reason| fault(path, None, &reason))?;
    tensor(device, &form, &bytes).map_err(|error| named(path, None, error))
}

/// Writes `tensor` as a .npy file of version 1.0, little-endian, in C order, whatever its strides. The file is there whole or not at all. Waits
/// for the device. bf16 is written as `V2`, 8-bit floats as their bits, `u1`.
///
/// # Errors
/// [`Error::File`] for what the operating system refuses; as [`Tensor::to_bytes`].
pub fn write_npy(path: impl AsRef<Path>, tensor: &Tensor) -> Result<()> {
    let path = path.as_ref();
    let form = form_of(tensor);
    let bytes = tensor.to_bytes()?;
    replace_file(path, |file| npy::write(file, &form, &bytes)).map_err(|error| unwritten(path, &error))
}

/// What a file says of a tensor.
fn form_of(tensor: &Tensor) -> Form {
    Form { kind: Kind::of(tensor.dtype()), shape: tensor.dims().to_vec() }
}

/// Why an array is no tensor: in words for an [`Error::File`], or an error of the device.
enum Unfit {
    File(String),
    Device(Error),
}

/// A tensor of what was read.
fn tensor(device: &Device, form: &Form, bytes: &[u8]) -> std::result::Result<Tensor, Unfit> {
    let Some(dtype) = form.kind.dtype() else {
        return Err(Unfit::File(format!("polywarp has no dtype {}; convert the array where it was made", form.kind)));
    };
    let shape = Shape::new(&form.shape).map_err(|error| Unfit::File(error.to_string()))?;
    if dtype == DType::Bool && bytes.iter().any(|&byte| byte > 1) {
        return Err(Unfit::File("a byte of it is neither 0 nor 1, which a bool is".to_owned()));
    }
    Tensor::from_bytes(device, dtype, bytes, shape).map_err(Unfit::Device)
}

fn named(path: &Path, array: Option<&str>, error: Unfit) -> Error {
    match error {
        Unfit::File(reason) => fault(path, array, &reason),
        Unfit::Device(error) => error,
    }
}

/// [`Error::File`].
fn fault(path: &Path, array: Option<&str>, reason: &str) -> Error {
    let (path, tensor) = (path.display().to_string(), array.map(str::to_owned));
    Error::File { path, tensor, reason: reason.to_owned() }
}

fn unwritten(path: &Path, error: &io::Error) -> Error {
    fault(path, None, &format!("cannot be written: {error}"))
}

/// Opens a regular file to read; how long it is. Looked at before it is opened: opening a pipe waits for whoever writes it.
fn open(path: &Path) -> std::result::Result<(fs::File, u64), String> {
    let unread = |error: io::Error| format!("cannot be read: {error}");
    if !fs::metadata(path).map_err(unread)?.is_file() {
        return Err("not a regular file".to_owned());
    }
    let file = fs::File::open(path).map_err(unread)?;
    let info = file.metadata().map_err(unread)?;
    if info.is_file() { Ok((file, info.len())) } else { Err("not a regular file".to_owned()) }
}

#[cfg(test)]
mod tests;
