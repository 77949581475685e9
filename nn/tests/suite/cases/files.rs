//! Files: what comes back, and what is said of damaged ones.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use polywarp_core::{DType, Device, Error, Tensor, bf16, f16};
use polywarp_nn::file;

/// A folder of its own for a test, which goes with it.
pub struct Folder(PathBuf);

impl Folder {
    pub fn new(name: &str) -> Folder {
        let path = std::env::temp_dir().join(format!("polywarp-nn-{name}-{}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Folder(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

pub fn every_dtype_comes_back(device: &Device) {
    let folder = Folder::new("dtypes");
    let path = folder.file("all.safetensors");
    let host: Vec<f32> = (0..6).map(|n| n as f32 - 2.0).collect();
    let base = Tensor::from_slice(device, &host, [2, 3]).unwrap();
    let dtypes: Vec<DType> = DType::ALL.into_iter().filter(|&dtype| device.supports(dtype)).collect();
    let mut tensors: Vec<(String, Tensor)> =
        dtypes.iter().map(|&dtype| (format!("of {dtype}"), base.cast(dtype).unwrap())).collect();
    // A view is stored as what it shows; a number has no extents; no elements are a tensor as well.
    tensors.push(("view".to_owned(), base.t().unwrap()));
    tensors.push(("number".to_owned(), base.sum(..).unwrap()));
    tensors.push(("none".to_owned(), Tensor::zeros(device, DType::F32, [0, 3]).unwrap()));
    let named: Vec<(&str, &Tensor)> = tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
    let metadata: BTreeMap<String, String> = [("made by".to_owned(), "a test".to_owned())].into();
    file::save(&path, &named, &metadata).unwrap();
    let loaded = file::load(&path).unwrap();
    assert_eq!((loaded.metadata("made by"), loaded.metadata("other")), (Some("a test"), None));
    assert_eq!(loaded.names().len(), tensors.len());
    for (name, tensor) in &tensors {
        let again = loaded.tensor_of(device, name, tensor.dtype(), *tensor.shape()).unwrap();
        assert_eq!(again.to_bytes().unwrap(), tensor.to_bytes().unwrap(), "{name}");
    }
    // Over what is there already, and nothing beside it.
    file::save(&path, &named[..1], &BTreeMap::new()).unwrap();
    assert_eq!(file::load(&path).unwrap().names().len(), 1);
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

/// Tensors of two files by their index; and what is said of an index that is wrong.
pub fn files_of_an_index_are_one(device: &Device) {
    let folder = Folder::new("index");
    let index = folder.file("model.safetensors.index.json");
    let part = |number: usize| format!("model-{number}-of-2.safetensors");
    for (number, name) in [(1, "a"), (2, "b")] {
        let tensor = Tensor::from_slice(device, &[number as f32], [1]).unwrap();
        let metadata = [(format!("part {number}"), "here".to_owned())].into();
        file::save(folder.file(&part(number)), &[(name, &tensor)], &metadata).unwrap();
    }
    let write = |text: &str| fs::write(&index, text).unwrap();
    let map = |a: &str, b: &str| format!(r#"{{"metadata":{{}},"weight_map":{{"a":"{a}","b":"{b}"}}}}"#);
    write(&map(&part(1), &part(2)));
    let loaded = file::load(&index).unwrap();
    assert_eq!((loaded.names(), loaded.has("b"), loaded.has("c")), (vec!["a".into(), "b".into()], true, false));
    assert_eq!(loaded.metadata("part 2"), Some("here"));
    for (name, value) in [("a", 1.0), ("b", 2.0)] {
        assert_eq!(loaded.tensor(device, name).unwrap().to_vec::<f32>().unwrap(), [value]);
    }
    assert_eq!(told(loaded.tensor(device, "c").map(drop), &index).0.as_deref(), Some("c"));
    // A tensor that its file has not.
    write(&map(&part(2), &part(2)));
    let (tensor, reason) = told(file::load(&index).map(drop), &index);
    assert!(tensor.as_deref() == Some("a") && reason.contains("has none"), "{reason}");
    for elsewhere in ["../model-1-of-2.safetensors", "/etc/passwd", "", ".", "sub/model.safetensors"] {
        write(&map(elsewhere, &part(2)));
        let (tensor, reason) = told(file::load(&index).map(drop), &index);
        assert!(tensor.as_deref() == Some("a") && reason.contains("folder"), "{elsewhere}: {reason}");
    }
    write(&map("missing.safetensors", &part(2)));
    assert!(told(file::load(&index).map(drop), &folder.file("missing.safetensors")).1.contains("cannot be read"));
    for (text, word) in [("{\"weight_map\"", "JSON"), ("{}", "weight_map"), ("[]", "weight_map")] {
        write(text);
        assert!(told(file::load(&index).map(drop), &index).1.contains(word), "{text}");
    }
}

/// The tensor and the reason of an error that names `path`.
pub fn told(result: polywarp_core::Result<()>, path: &Path) -> (Option<String>, String) {
    let error = result.unwrap_err();
    assert!(error.to_string().contains(&path.display().to_string()), "{error}");
    let Error::File { tensor, reason, .. } = error else { panic!("{error}") };
    (tensor, reason)
}

/// A file of `header` and `data`.
pub fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), data].concat()
}

pub fn other_tensors_than_asked_for_are_refused(device: &Device) {
    let folder = Folder::new("other");
    let path = folder.file("w.safetensors");
    let header = r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},"i":{"dtype":"I16","shape":[1],"data_offsets":[8,10]},
        "t":{"dtype":"BOOL","shape":[1],"data_offsets":[10,11]},"e":{"dtype":"F8_E8M0","shape":[1],"data_offsets":[11,12]}}"#;
    fs::write(&path, with_header(header, &[2; 12])).unwrap();
    let loaded = file::load(&path).unwrap();
    let said = |name: &str, dtype: DType, dims: &[u64]| {
        let (tensor, reason) = told(loaded.tensor_of(device, name, dtype, dims).map(drop), &path);
        assert_eq!(tensor.as_deref(), Some(name));
        reason
    };
    assert!(said("x", DType::F32, &[2]).contains("none of this name"));
    assert!(said("w", DType::F32, &[1, 2]).contains("its shape is [2], not [1, 2]"));
    assert!(said("w", DType::F16, &[2]).contains("it is f32, not f16"));
    assert!(said("i", DType::I32, &[1]).contains("it is i16, not i32"));
    assert!(said("e", DType::U8, &[1]).contains("F8_E8M0"));
    assert!(said("t", DType::Bool, &[1]).contains("neither 0 nor 1"));
}

pub fn saving_what_cannot_be_leaves_nothing(device: &Device) {
    let folder = Folder::new("saving");
    let tensor = Tensor::from_slice(device, &[f16::ONE], [1]).unwrap();
    let other = Tensor::from_slice(device, &[bf16::ONE], [1]).unwrap();
    let save = |path: &Path, tensors: &[(&str, &Tensor)]| told(file::save(path, tensors, &BTreeMap::new()), path);
    let path = folder.file("w.safetensors");
    assert!(save(&path, &[("w", &tensor), ("w", &other)]).1.contains("twice"));
    assert!(save(&path, &[("__metadata__", &tensor)]).1.contains("itself"));
    let beyond = folder.file("no folder").join("w.safetensors");
    assert!(save(&beyond, &[("w", &tensor)]).1.contains("cannot be written"));
    // A folder in the file's place: the rename fails, and the temporary file goes.
    fs::create_dir(&path).unwrap();
    assert!(save(&path, &[("w", &tensor)]).1.contains("cannot be written"));
    assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
}

cases!(
    every_dtype_comes_back,
    files_of_an_index_are_one,
    other_tensors_than_asked_for_are_refused,
    saving_what_cannot_be_leaves_nothing
);
