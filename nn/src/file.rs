//! Tensors in files: safetensors, read and written whole.
//!
//! The format is a length, a header in JSON and raw little-endian elements (github.com/huggingface/safetensors); crate `safetensors` reads
//! and writes it. Pickle, which runs code when it is read, is recognised and refused. The decision to know: [`save`] writes beside the
//! file and renames, so a crash leaves the file before or the new one, never a half.

mod index;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use polywarp_core::{DType, Device, Error, IntoShape, Result, Shape, Tensor, replace_file};
use safetensors::tensor::{Dtype, Metadata, SafeTensorError, SafeTensors, TensorInfo, TensorView};

/// The bytes before the header, which hold its length.
const LENGTH_BYTES: usize = 8;

/// Writes `tensors` under their names, with `metadata` beside them. Waits for the device.
///
/// # Errors
/// [`Error::File`] for a name that is given twice or is the format's own, and for what the operating system refuses; as
/// [`Tensor::to_bytes`].
pub fn save(path: impl AsRef<Path>, tensors: &[(&str, &Tensor)], metadata: &BTreeMap<String, String>) -> Result<()> {
    let path = path.as_ref();
    let mut held: BTreeMap<&str, (Dtype, Vec<usize>, Vec<u8>)> = BTreeMap::new();
    for &(name, tensor) in tensors {
        if name == "__metadata__" {
            return Err(fault(path, Some(name), "the format keeps this name for itself"));
        }
        let dims = tensor.dims().iter().map(|&dim| usize::try_from(dim)).collect::<Result<_, _>>();
        let dims = dims.map_err(|_| fault(path, Some(name), "it is larger than this machine can address"))?;
        let dtype = DTYPES.iter().find(|(dtype, _)| *dtype == tensor.dtype());
        let Some(&(_, dtype)) = dtype else {
            return Err(fault(path, Some(name), &format!("the format has no {}", tensor.dtype())));
        };
        if held.insert(name, (dtype, dims, tensor.to_bytes()?)).is_some() {
            return Err(fault(path, Some(name), "the name is given twice"));
        }
    }
    let mut views = Vec::with_capacity(held.len());
    for (name, (dtype, dims, bytes)) in &held {
        let view = TensorView::new(*dtype, dims.clone(), bytes);
        views.push((*name, view.map_err(|error| fault(path, Some(name), &error.to_string()))?));
    }
    let metadata =
        (!metadata.is_empty()).then(|| metadata.iter().map(|(key, value)| (key.clone(), value.clone())).collect());
    let bytes = safetensors::serialize(views, metadata).map_err(|error| fault(path, None, &error.to_string()))?;
    replace_file(path, |file| file.write_all(&bytes))
        .map_err(|error| fault(path, None, &format!("cannot be written: {error}")))
}

/// Reads the file and its header, or all files that an index (`model.safetensors.index.json`) names. Tensors are made as they are asked for.
///
/// # Errors
/// [`Error::File`] for a file that cannot be read, is no safetensors file, is damaged or cut off, or has a dtype that the format does not know;
/// for an index that names other files than those of its folder, or tensors that these have not.
pub fn load(path: impl AsRef<Path>) -> Result<Loaded> {
    let path = path.as_ref();
    if path.extension().is_some_and(|extension| extension == "json") {
        return index::load(path);
    }
    let file = One::read(path)?;
    let places = file.header.offset_keys().into_iter().map(|name| (name, 0)).collect();
    Ok(Loaded { path: path.to_owned(), files: vec![file], places })
}

/// One file, whole.
#[derive(Debug)]
struct One {
    path: PathBuf,
    bytes: Vec<u8>,
    /// Where the elements begin.
    start: usize,
    header: Metadata,
}

impl One {
    fn read(path: &Path) -> Result<One> {
        let bytes = read(path)?;
        if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"\x80\x02") {
            let reason = "it is a zip or pickle file, such as torch.save writes, which runs code when it is read; convert it where it was made, \
                          by safetensors.torch.save_file";
            return Err(fault(path, None, reason));
        }
        let (length, header) = SafeTensors::read_metadata(&bytes).map_err(|error| damaged(path, &bytes, &error))?;
        Ok(One { path: path.to_owned(), bytes, start: LENGTH_BYTES + length, header })
    }
}

fn read(path: &Path) -> Result<Vec<u8>> {
    fs::read(path).map_err(|error| fault(path, None, &format!("cannot be read: {error}")))
}

/// A file that was read, or several by their index: tensors by name, and metadata.
#[derive(Debug)]
pub struct Loaded {
    path: PathBuf,
    files: Vec<One>,
    /// In which file a tensor is.
    places: BTreeMap<String, usize>,
}

impl Loaded {
    /// The names, sorted.
    pub fn names(&self) -> Vec<String> {
        self.places.keys().cloned().collect()
    }

    /// Whether there is a tensor `name`.
    pub fn has(&self, name: &str) -> bool {
        self.places.contains_key(name)
    }

    /// The text under `key`, of the first file that has it.
    pub fn metadata(&self, key: &str) -> Option<&str> {
        let mut metadata = self.files.iter().filter_map(|file| file.header.metadata().as_ref());
        metadata.find_map(|texts| texts.get(key)).map(String::as_str)
    }

    /// The file that the tensor `name` is in, and what its header says of it.
    fn find(&self, name: &str) -> Result<(&One, &TensorInfo)> {
        let file = self.places.get(name).map(|&number| &self.files[number]);
        let found = file.and_then(|file| Some((file, file.header.info(name)?)));
        found.ok_or_else(|| self.fault(Some(name), "there is none of this name"))
    }

    /// The tensor `name`, on `device`.
    ///
    /// # Errors
    /// [`Error::File`] for a name that is not there, a dtype that polywarp has not, and bytes that are no bool; memory errors of the device.
    pub fn tensor(&self, device: &Device, name: &str) -> Result<Tensor> {
        let (dtype, shape) = self.spec(name)?;
        let (file, info) = self.find(name)?;
        // The header was checked against the file's length.
        let bytes = &file.bytes[file.start..][info.data_offsets.0..info.data_offsets.1];
        if dtype == DType::Bool && bytes.iter().any(|&byte| byte > 1) {
            return Err(fault(&file.path, Some(name), "a byte of it is neither 0 nor 1, which a bool is"));
        }
        Tensor::from_bytes(device, dtype, bytes, shape)
    }

    /// The tensor `name`, which must be of `dtype` and `shape`.
    ///
    /// # Errors
    /// [`Error::File`] for another dtype or shape, and as [`Loaded::tensor`].
    pub fn tensor_of(&self, device: &Device, name: &str, dtype: DType, shape: impl IntoShape) -> Result<Tensor> {
        self.expect(name, dtype, &shape.into_shape()?)?;
        self.tensor(device, name)
    }

    /// Refuses the tensor `name` where it is not of `dtype` and `shape`.
    pub(crate) fn expect(&self, name: &str, dtype: DType, shape: &Shape) -> Result<()> {
        let (has, of) = self.spec(name)?;
        if has != dtype {
            return Err(self.fault(Some(name), &format!("it is {has}, not {dtype}")));
        }
        if of != *shape {
            return Err(self.fault(Some(name), &format!("its shape is {of}, not {shape}")));
        }
        Ok(())
    }

    /// The dtype and shape of the tensor `name`.
    ///
    /// # Errors
    /// As [`Loaded::tensor`].
    pub fn spec(&self, name: &str) -> Result<(DType, Shape)> {
        let (file, info) = self.find(name)?;
        let unknown = || fault(&file.path, Some(name), &format!("polywarp has no dtype {:?}", info.dtype));
        let (dtype, _) = DTYPES.into_iter().find(|(_, stored)| *stored == info.dtype).ok_or_else(unknown)?;
        let dims: Vec<u64> = info.shape.iter().map(|&dim| dim as u64).collect();
        let shape = Shape::new(&dims).map_err(|error| fault(&file.path, Some(name), &error.to_string()))?;
        Ok((dtype, shape))
    }

    pub(crate) fn fault(&self, tensor: Option<&str>, reason: &str) -> Error {
        fault(&self.path, tensor, reason)
    }
}

/// [`Error::File`].
pub(crate) fn fault(path: &Path, tensor: Option<&str>, reason: &str) -> Error {
    let (path, tensor) = (path.display().to_string(), tensor.map(str::to_owned));
    Error::File { path, tensor, reason: reason.to_owned() }
}

/// What is wrong with the file, and with which of its tensors.
fn damaged(path: &Path, bytes: &[u8], error: &SafeTensorError) -> Error {
    let header_is_damaged = |tensor: Option<String>| {
        let reason = format!("it is no safetensors file, or its header is damaged: {error}");
        fault(path, tensor.as_deref(), &reason)
    };
    match error {
        SafeTensorError::MetadataIncompleteBuffer => {
            let held = start_of_elements(bytes).map_or(0, |start| bytes.len() - start);
            match in_order(bytes).into_iter().find(|(_, info)| info.data_offsets.1 > held) {
                Some((tensor, info)) => {
                    let (from, to) = info.data_offsets;
                    let reason = format!(
                        "the file is cut off: its bytes are {from} to {to}, and there are {held}; fetch or write it again"
                    );
                    fault(path, Some(&tensor), &reason)
                }
                None => fault(path, None, "it is longer than its header says; fetch or write it again"),
            }
        }
        SafeTensorError::InvalidHeaderDeserialization(cause) => {
            let tensor = of_unknown_dtype(bytes);
            fault(path, tensor.as_deref(), &format!("its header is damaged or of a newer format: {cause}"))
        }
        SafeTensorError::InvalidOffset(name) => fault(path, Some(name), &format!("the header is damaged: {error}")),
        // Of a tensor whose bytes are not those of its shape.
        SafeTensorError::TensorInvalidInfo | SafeTensorError::ValidationOverflow | SafeTensorError::MisalignedSlice => {
            let is_wrong = |(_, info): &(String, TensorInfo)| {
                let (from, to) = info.data_offsets;
                size_bytes(info).is_none_or(|size| to.checked_sub(from) != Some(size))
            };
            match in_order(bytes).into_iter().find(is_wrong) {
                Some((tensor, TensorInfo { dtype, shape, data_offsets: (from, to) })) => {
                    let reason =
                        format!("the header is damaged: {dtype:?} {shape:?} does not take the bytes {from} to {to}");
                    fault(path, Some(&tensor), &reason)
                }
                None => header_is_damaged(None),
            }
        }
        _ => header_is_damaged(None),
    }
}

/// Where the elements begin, of a file that has its whole header.
fn start_of_elements(bytes: &[u8]) -> Option<usize> {
    let length: [u8; LENGTH_BYTES] = bytes.get(..LENGTH_BYTES)?.try_into().ok()?;
    let start = LENGTH_BYTES.checked_add(usize::try_from(u64::from_le_bytes(length)).ok()?)?;
    (start <= bytes.len()).then_some(start)
}

/// What the header says of each tensor, as far as it is JSON.
fn entries(bytes: &[u8]) -> Option<serde_json::Map<String, serde_json::Value>> {
    let mut header: serde_json::Value = serde_json::from_slice(&bytes[LENGTH_BYTES..start_of_elements(bytes)?]).ok()?;
    let mut entries = std::mem::take(header.as_object_mut()?);
    entries.remove("__metadata__");
    Some(entries)
}

/// The first tensor by name, if any, that has a dtype which the format does not know.
fn of_unknown_dtype(bytes: &[u8]) -> Option<String> {
    let is_unknown = |entry: &serde_json::Value| serde_json::from_value::<Dtype>(entry["dtype"].clone()).is_err();
    entries(bytes)?.into_iter().find(|(_, entry)| is_unknown(entry)).map(|(name, _)| name)
}

/// The tensors of the header in the order of their bytes.
fn in_order(bytes: &[u8]) -> Vec<(String, TensorInfo)> {
    let entries = entries(bytes).unwrap_or_default().into_iter();
    let mut all: Vec<(String, TensorInfo)> =
        entries.filter_map(|(name, entry)| Some((name, serde_json::from_value(entry).ok()?))).collect();
    all.sort_by_key(|(_, info)| info.data_offsets);
    all
}

/// The bytes that a tensor of this dtype and shape takes; `None` where they are no whole number, or beyond what is counted.
fn size_bytes(info: &TensorInfo) -> Option<usize> {
    let elements = info.shape.iter().try_fold(1usize, |product, &dim| product.checked_mul(dim))?;
    let bits = elements.checked_mul(info.dtype.bitsize())?;
    bits.is_multiple_of(8).then_some(bits / 8)
}

/// The dtypes that both sides have.
const DTYPES: [(DType, Dtype); 15] = [
    (DType::Bool, Dtype::BOOL),
    (DType::I8, Dtype::I8),
    (DType::U8, Dtype::U8),
    (DType::I16, Dtype::I16),
    (DType::U16, Dtype::U16),
    (DType::I32, Dtype::I32),
    (DType::U32, Dtype::U32),
    (DType::I64, Dtype::I64),
    (DType::U64, Dtype::U64),
    (DType::F8E4M3, Dtype::F8_E4M3),
    (DType::F8E5M2, Dtype::F8_E5M2),
    (DType::F16, Dtype::F16),
    (DType::BF16, Dtype::BF16),
    (DType::F32, Dtype::F32),
    (DType::F64, Dtype::F64),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_dtype_has_a_place_in_the_format() {
        for dtype in DType::ALL {
            assert!(DTYPES.iter().any(|(own, _)| *own == dtype), "{dtype}");
        }
    }
}
