//! Tensors written and read again, archives as NumPy writes them, and files that are refused.

use std::path::{Path, PathBuf};

use super::*;
use polywarp_core::{FourBit, Nibbles, Quantized4, bf16, f16};

/// A folder of its own, gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("polywarp-files-{}-{name}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A file of version 1.0.
fn file(descr: &str, fortran: &str, shape: &str, data: &[u8]) -> Vec<u8> {
    let text = format!("{{'descr': '{descr}', 'fortran_order': {fortran}, 'shape': {shape}, }}\n");
    [b"\x93NUMPY\x01\x00", &(text.len() as u16).to_le_bytes()[..], text.as_bytes(), data].concat()
}

#[track_caller]
fn refused<T: std::fmt::Debug>(result: Result<T>, at: &Path, array: Option<&str>, part: &str) {
    match result {
        Err(Error::File { path, tensor, reason }) => {
            assert_eq!((path, tensor.as_deref()), (at.display().to_string(), array), "{reason}");
            assert!(reason.contains(part), "`{reason}` should say `{part}`");
        }
        other => panic!("{other:?} should say `{part}`"),
    }
}

#[test]
fn tensors_of_every_dtype_come_back() {
    let (folder, device) = (Folder::new("dtypes"), Device::cpu());
    let x = Tensor::from_slice(&device, &[0.0f32, 1.0, 2.0, 3.5, 100.0, 7.0], [2, 3]).unwrap();
    for dtype in DType::ALL {
        let x = x.cast(dtype).unwrap();
        for (name, x) in [("plain", x.clone()), ("transposed", x.t().unwrap()), ("flat", x.reshape([6]).unwrap())] {
            let path = folder.at(&format!("{name}-{dtype}.npy"));
            write_npy(&path, &x).unwrap();
            let mut read = read_npy(&path, &device).unwrap();
            if dtype.is_float() && dtype.size_bytes() == 1 {
                assert_eq!(read.dtype(), DType::U8);
                read = read.view_as(dtype).unwrap();
            }
            assert_eq!((read.dtype(), read.dims()), (dtype, x.dims()));
            assert_eq!(read.to_bytes().unwrap(), x.to_bytes().unwrap(), "{name} {dtype}");
        }
    }
    let scalar = Tensor::full(&device, DType::F64, Shape::SCALAR, 2.5).unwrap();
    let (none, path) = (Tensor::zeros(&device, DType::F32, [3, 0]).unwrap(), folder.at("edge.npy"));
    for x in [&scalar, &none] {
        write_npy(&path, x).unwrap();
        let read = read_npy(&path, &device).unwrap();
        assert_eq!((read.dims(), read.to_bytes().unwrap()), (x.dims(), x.to_bytes().unwrap()));
    }
    // Nothing is left beside what was written.
    assert!(
        fs::read_dir(&folder.0).unwrap().all(|entry| !entry.unwrap().file_name().to_string_lossy().ends_with(".part"))
    );
}

/// 4-bit steps are bytes beside their scales and zero points.
#[test]
fn quantised_weights_come_back_from_an_archive() {
    let (folder, device) = (Folder::new("nibbles"), Device::cpu());
    let numbers: Vec<f32> = (0..5 * 37).map(|i| (i * 31 % 97) as f32 - 40.0).collect();
    let weights = Tensor::from_slice(&device, &numbers, [5, 37]).unwrap().quantize4(FourBit::U4, 1, 16).unwrap();
    let path = folder.at("weights.npz");
    let (bytes, scales, zeros) = (weights.steps().bytes(), weights.scales(), weights.zeros().unwrap());
    write_npz(&path, &[("w", bytes), ("w.scales", scales), ("w.zeros", zeros)], Compression::Deflated).unwrap();
    let read = read_npz(&path, &device).unwrap();
    assert_eq!(read["w"].dims(), [5, 19]);
    let steps = Nibbles::new(read["w"].clone(), FourBit::U4, [5, 37]).unwrap();
    let again = Quantized4::new(steps, read["w.scales"].clone(), Some(read["w.zeros"].clone()), 1, 16).unwrap();
    let values = |x: &Quantized4| x.dequantize(DType::F32).unwrap().to_vec::<f32>().unwrap();
    assert_eq!(values(&again), values(&weights));
}

#[test]
fn orders_and_half_floats_are_read() {
    let (folder, device) = (Folder::new("orders"), Device::cpu());
    let read = |bytes: &[u8]| {
        fs::write(folder.at("x.npy"), bytes).unwrap();
        read_npy(folder.at("x.npy"), &device).unwrap()
    };
    // 1, 2 and -0.5 in f16, high bytes first, by columns of one row.
    let x = read(&file(">f2", "True", "(1, 3)", &[0x3c, 0, 0x40, 0, 0xb8, 0]));
    assert_eq!(x.to_vec::<f16>().unwrap(), [1.0, 2.0, -0.5].map(f16::from_f32));
    let x = read(&file("<i4", "True", "(2, 2)", &[1, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0]));
    assert_eq!((x.dims(), x.to_vec::<i32>().unwrap()), (&[2u64, 2][..], vec![1, 3, 2, 4]));
    let x = read(&file("|V2", "False", "(1,)", &[0x80, 0x3f]));
    assert_eq!(x.to_vec::<bf16>().unwrap(), [bf16::ONE]);
    let x = read(&file("|b1", "False", "(2,)", &[0, 1]));
    assert_eq!(x.to_vec::<bool>().unwrap(), [false, true]);
}

#[test]
fn damaged_arrays_are_refused_by_file() {
    let (folder, device) = (Folder::new("damaged"), Device::cpu());
    let path = folder.at("x.npy");
    let good = file("<f4", "False", "(2,)", &[0; 8]);
    for (bytes, part) in [
        (Vec::new(), "too short"),
        (good[..good.len() - 1].to_vec(), "truncated"),
        ([good.clone(), vec![0]].concat(), "too many"),
        (file("<f4", "False", "(2", &[0; 8]), "bad header"),
        (file("<f4", "False", "(99999999999999999999,)", &[]), "bad header"),
        (file("<f4", "False", "(1000000000000,)", &[0; 8]), "truncated"),
        (file("<c8", "False", "(1,)", &[0; 8]), "no dtype c64"),
        (file("|O", "False", "(1,)", &[0; 8]), "numbers are expected"),
        (file("|b1", "False", "(1,)", &[2]), "neither 0 nor 1"),
        (file("|u1", "False", "(1, 1, 1, 1, 1, 1, 1, 1, 1)", &[0]), "9"),
    ] {
        fs::write(&path, bytes).unwrap();
        refused(read_npy(&path, &device), &path, None, part);
    }
    refused(read_npy(folder.at("none.npy"), &device), &folder.at("none.npy"), None, "cannot be read");
    refused(read_npy(&folder.0, &device), &folder.0, None, "not a regular file");
    let x = Tensor::zeros(&device, DType::F32, [1]).unwrap();
    let nowhere = folder.at("none").join("x.npy");
    refused(write_npy(&nowhere, &x), &nowhere, None, "cannot be written");
}

#[test]
fn archives_come_back_and_damaged_ones_are_refused_by_array() {
    let (folder, device) = (Folder::new("archives"), Device::cpu());
    let path = folder.at("x.npz");
    let x = Tensor::from_slice(&device, &(0..1000).map(|i| f32::from((i % 7) as u8)).collect::<Vec<_>>(), [10, 100]);
    let (x, y) = (x.unwrap(), Tensor::from_slice(&device, &[1i64, -2], [2]).unwrap());
    let mut lengths = Vec::new();
    for compression in [Compression::Stored, Compression::Deflated] {
        write_npz(&path, &[("layer/x", &x), ("y", &y)], compression).unwrap();
        let read = read_npz(&path, &device).unwrap();
        assert_eq!(read.keys().collect::<Vec<_>>(), ["layer/x", "y"]);
        assert_eq!(read["layer/x"].dims(), [10, 100]);
        assert_eq!(read["layer/x"].to_vec::<f32>().unwrap(), x.to_vec::<f32>().unwrap());
        assert_eq!(read["y"].to_vec::<i64>().unwrap(), [1, -2]);
        let bytes = fs::read(&path).unwrap();
        lengths.push(bytes.len());
        assert!(fuzzing::npz(&bytes));
        // Any byte changed and any length: read or refused, in one line, without a panic.
        for at in (0..bytes.len()).step_by(7) {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x55;
            fuzzing::npz(&damaged);
            assert!(!fuzzing::npz(&bytes[..at]));
        }
        // An element of x, behind its header of 128 bytes and that of the archive: the checksum says so.
        if compression == Compression::Stored {
            let mut damaged = bytes.clone();
            damaged[400] ^= 1;
            fs::write(&path, damaged).unwrap();
            refused(read_npz(&path, &device), &path, Some("layer/x"), "checksum");
        }
    }
    assert!(lengths[1] * 4 < lengths[0], "{lengths:?}");
    write_npz(&path, &[], Compression::Stored).unwrap();
    assert!(read_npz(&path, &device).unwrap().is_empty());
    refused(write_npz(&path, &[("x", &x), ("x", &y)], Compression::Stored), &path, Some("x"), "twice");
    refused(write_npz(&path, &[("", &x)], Compression::Stored), &path, Some(""), "not empty");
    fs::write(&path, b"PK\x03\x04 and no more").unwrap();
    refused(read_npz(&path, &device), &path, None, "not a .npz file");
    write_npy(&path, &y).unwrap();
    refused(read_npz(&path, &device), &path, None, "not a .npz file");
}
