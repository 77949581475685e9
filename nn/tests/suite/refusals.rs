//! What is refused before a device sees it: names, numbers, damaged files.

use std::fs;
use std::path::Path;

use polywarp_core::{Device, Error};
use polywarp_nn::{Adam, Builder, Decay, Init, Lamb, Method, Optimiser, Schedule, Sgd, StepOptions, file};

use crate::cases::files::{Folder, told, with_header};
use crate::cases::support::parameters;

#[test]
fn names_and_shapes_without_meaning_are_refused() {
    let mut builder = Builder::new(0);
    assert!(builder.build(&Device::cpu()).is_err(), "no parameters");
    builder.add("w", [2], Init::Zeros, Decay::Yes).unwrap();
    for (name, dims) in [("", [2u64, 1]), ("w", [2, 1]), ("empty", [0, 3])] {
        let error = builder.add(name, dims, Init::Zeros, Decay::Yes).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { what: "parameter", .. }), "{error}");
    }
}

#[test]
fn numbers_without_meaning_are_refused() {
    let own = parameters(&Device::cpu());
    let refused = |method: Method, schedule: Schedule, rate: f64| {
        let error = Optimiser::new(&own, method, schedule, rate).unwrap_err();
        assert!(matches!(error, Error::InvalidArgument { .. }), "{error}");
    };
    let adamw = Method::AdamW(Adam::default());
    refused(Method::Sgd(Sgd { nesterov: true, ..Sgd::default() }), Schedule::Constant, 0.1);
    refused(Method::Adam(Adam { betas: [0.9, 1.0], ..Adam::default() }), Schedule::Constant, 0.1);
    refused(Method::Lamb(Lamb { decay: -1.0, ..Lamb::default() }), Schedule::Constant, 0.1);
    refused(adamw, Schedule::Linear { warm_up: 5, total: 5 }, 0.1);
    refused(adamw, Schedule::Constant, f64::NAN);
    let optimiser = Optimiser::new(&own, adamw, Schedule::Constant, 0.1).unwrap();
    let others = parameters(&Device::cpu());
    assert!(optimiser.step(&others, &StepOptions::default()).is_err());
}

/// What `load` says of a file with `bytes`.
fn refused(path: &Path, bytes: &[u8]) -> (Option<String>, String) {
    fs::write(path, bytes).unwrap();
    told(file::load(path).map(drop), path)
}

#[test]
fn damaged_files_are_refused_by_name() {
    let folder = Folder::new("damaged");
    let path = folder.file("w.safetensors");
    let header = r#"{"w":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}"#;
    let good = with_header(header, &[0; 8]);
    fs::write(&path, &good).unwrap();
    file::load(&path).unwrap();

    let said = |bytes: &[u8]| refused(&path, bytes);
    let (tensor, reason) = said(&good[..good.len() - 1]);
    assert!(tensor.as_deref() == Some("w") && reason.contains("cut off"), "{tensor:?} {reason}");
    let (tensor, reason) = said(&[&good[..], &[0]].concat());
    assert!(tensor.is_none() && reason.contains("longer than its header says"), "{tensor:?} {reason}");
    // Cut at every byte: an error, never a panic.
    (0..good.len()).for_each(|end| drop(said(&good[..end])));
    assert!(said(b"").1.contains("no safetensors file"));
    assert!(said(&with_header("{\"w\":", &[])).1.contains("damaged"));
    let huge = [&u64::MAX.to_le_bytes()[..], &good[8..]].concat();
    assert!(said(&huge).1.contains("damaged"));
    let (tensor, reason) = said(&with_header(&header.replace("F32", "F33"), &[0; 8]));
    assert!(tensor.as_deref() == Some("w") && reason.contains("F33"), "{tensor:?} {reason}");
    let (tensor, _) = said(&with_header(&header.replace("[0,8]", "[4,12]"), &[0; 12]));
    assert_eq!(tensor.as_deref(), Some("w"));
    // More elements than bytes, more than can be counted, and a shape that is no whole number of bytes.
    let halves = header.replace("F32", "F4").replace("[2]", "[3]");
    for (wrong, words) in [
        (header.replace("[2]", "[3]"), "F32 [3] does not take the bytes 0 to 8"),
        (header.replace("[2]", "[4294967296,4294967296,2]"), "[4294967296, 4294967296, 2]"),
        (halves, "F4 [3]"),
    ] {
        let (tensor, reason) = said(&with_header(&wrong, &[0; 8]));
        assert!(tensor.as_deref() == Some("w") && reason.contains(words), "{tensor:?} {reason}");
    }
    assert!(said(b"PK\x03\x04 and so on").1.contains("safetensors.torch.save_file"));
    assert!(said(b"\x80\x02\x8a and so on").1.contains("runs code"));
    fs::remove_file(&path).unwrap();
    assert!(told(file::load(&path).map(drop), &path).1.contains("cannot be read"));
}

/// Of several tensors the one is named that is wrong: in the order of their bytes, which is not that of their names.
#[test]
fn damaged_files_name_the_tensor_that_is_wrong() {
    let folder = Folder::new("damaged-of-several");
    let path = folder.file("w.safetensors");
    let entry = |name: &str, shape: u64, from: u64, to: u64| {
        format!(r#""{name}":{{"dtype":"F32","shape":[{shape}],"data_offsets":[{from},{to}]}}"#)
    };
    let header = |of_b: u64| {
        let entries = [entry("a", 2, 24, 32), entry("b", of_b, 8, 24), entry("c", 2, 0, 8), entry("d", 0, 32, 32)];
        format!(r#"{{"__metadata__":{{"format":"pt"}},{}}}"#, entries.join(","))
    };
    let good = with_header(&header(4), &[0; 32]);
    fs::write(&path, &good).unwrap();
    file::load(&path).unwrap();
    let (tensor, reason) = refused(&path, &with_header(&header(5), &[0; 32]));
    assert!(tensor.as_deref() == Some("b") && reason.contains("F32 [5]"), "{tensor:?} {reason}");
    for (held, name) in [(31, "a"), (24, "a"), (23, "b"), (8, "b"), (7, "c"), (0, "c")] {
        let (tensor, reason) = refused(&path, &good[..good.len() - 32 + held]);
        assert!(tensor.as_deref() == Some(name) && reason.contains("cut off"), "{held}: {tensor:?} {reason}");
    }
}
