//! Tensors in several files: the index that says which file has which tensor, as transformers writes it beside large models.
//!
//! The decision to know: an index names files of its own folder by plain names. A path in it is refused, for it could lead anywhere.

use std::collections::BTreeMap;
use std::path::{Component, Path};

use polywarp_core::Result;

use super::{Loaded, One, fault, read};

/// All files that the index at `path` names.
pub(super) fn load(path: &Path) -> Result<Loaded> {
    let refuse = |tensor: Option<&str>, reason: &str| Err(fault(path, tensor, reason));
    let Ok(index) = serde_json::from_slice::<serde_json::Value>(&read(path)?) else {
        return refuse(None, "it is no JSON, or cut off");
    };
    let Some(map) = index["weight_map"].as_object() else {
        return refuse(None, "it is no index of safetensors files: it has no `weight_map`");
    };
    let (mut files, mut places) = (Vec::<One>::new(), BTreeMap::new());
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    for (tensor, file) in map {
        let Some(name) = file.as_str().filter(|name| is_plain(name)) else {
            return refuse(Some(tensor), &format!("its file is {file}, not a name in the folder of the index"));
        };
        let number = match numbers.get(name) {
            Some(&number) => number,
            None => {
                files.push(One::read(&path.with_file_name(name))?);
                numbers.insert(name, files.len() - 1);
                files.len() - 1
            }
        };
        if files[number].header.info(tensor).is_none() {
            return refuse(Some(tensor), &format!("`{name}` has none of this name, though the index says so"));
        }
        places.insert(tensor.clone(), number);
    }
    Ok(Loaded { path: path.to_owned(), files, places })
}

/// Whether `name` is one of a file in this folder.
fn is_plain(name: &str) -> bool {
    let mut parts = Path::new(name).components();
    matches!((parts.next(), parts.next()), (Some(Component::Normal(part)), None) if part == name)
}
