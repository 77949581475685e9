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
    assert!(said(&good[..good.len() - 1]).1.contains("cut off"));
    assert!(said(&[&good[..], &[0]].concat()).1.contains("cut off, or longer"));
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
    assert!(said(&with_header(&header.replace("[2]", "[3]"), &[0; 8])).1.contains("damaged"));
    assert!(said(b"PK\x03\x04 and so on").1.contains("safetensors.torch.save_file"));
    assert!(said(b"\x80\x02\x8a and so on").1.contains("runs code"));
    fs::remove_file(&path).unwrap();
    assert!(told(file::load(&path).map(drop), &path).1.contains("cannot be read"));
}
