//! Compiled kernels on disk, from process to process, on the interpreted driver: what one compiled the next only loads, and
//! nothing that is not what it was is used. Which directories and files are trusted is `src/cache_tests.rs`'s.

use std::fs;
use std::path::{Path, PathBuf};

use crate::common::{Control, add_kernel, bind, download, interpreted, is_child, on_interpreted, upload, usable};
use polywarp_core::{Backend, Device, Tensor};
use polywarp_cuda::{CudaBackend, Options};

const NAME: &str = "what_one_process_compiled_the_next_one_loads";
/// How many kernels a child process must compile.
const COMPILED: &str = "POLYWARP_TEST_COMPILED";
const LINK: &str = "cuLinkCreate_v2";
const INVALID_PTX: u32 = 218;
/// The kernels of [`work`]: a user's, and the library's for an addition and a sum.
const KERNELS: usize = 3;

struct Directory(PathBuf);

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn entries(directory: &Path) -> Vec<PathBuf> {
    let files = fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    files.filter(|path| path.extension().is_some_and(|end| end == "cubin")).collect()
}

fn work(device: &Device) {
    let backend = device.backend_as::<CudaBackend>().unwrap();
    let words = upload(backend, &[1, 2, 3]);
    backend.launch(&add_kernel(4), [1, 1, 1], &[bind(0, &words)]).unwrap();
    assert_eq!(download(backend, &words), [5, 6, 7]);
    let x = Tensor::from_slice(device, &[1.0f32, 2.0, 3.0], [3]).unwrap();
    assert_eq!(x.add(&x).unwrap().sum(..).unwrap().item::<f32>().unwrap(), 12.0);
}

#[test]
fn what_one_process_compiled_the_next_one_loads() {
    if is_child(NAME) {
        assert!(interpreted());
        let control = Control::new();
        let compiled: u64 = std::env::var(COMPILED).unwrap().parse().unwrap();
        // The first that is one too many fails.
        control.fail(LINK, INVALID_PTX, compiled);
        work(&Device::new(usable()[0].open(Options::default()).unwrap()));
        assert_eq!(control.calls(), compiled);
        println!("SURVIVED");
        return;
    }
    let path = std::env::temp_dir().join(format!("polywarp-disk-cache-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    let directory = Directory(path);
    let place = directory.0.to_str().unwrap();
    let run = |compiled: usize, variables: &[(&str, &str)]| {
        let count = compiled.to_string();
        on_interpreted(NAME, &[&[("POLYWARP_CACHE", place), (COMPILED, &count)], variables].concat())
    };
    if !run(KERNELS, &[]) {
        return;
    }
    assert_eq!(entries(&directory.0).len(), KERNELS);
    run(0, &[]);
    // Another driver, or another card, needs code of its own.
    run(KERNELS, &[("INTERPRETED_VERSION", "12080")]);
    run(KERNELS, &[("INTERPRETED_SM", "80")]);
    run(0, &[("INTERPRETED_VERSION", "12080")]);
    run(0, &[]);
    assert_eq!(entries(&directory.0).len(), 3 * KERNELS);
    // A byte of each file changed: all are compiled again, and mended.
    for entry in entries(&directory.0) {
        let mut bytes = fs::read(&entry).unwrap();
        let last = bytes.len() - 2;
        bytes[last] ^= 1;
        fs::write(&entry, bytes).unwrap();
    }
    run(KERNELS, &[]);
    run(0, &[]);
    // Turned off, it is neither read nor written.
    run(KERNELS, &[("POLYWARP_CACHE", "off")]);
    // A link in place of a file is not followed, though it leads to what was there.
    for entry in entries(&directory.0) {
        let moved = entry.with_extension("moved");
        fs::rename(&entry, &moved).unwrap();
        std::os::unix::fs::symlink(&moved, &entry).unwrap();
    }
    run(KERNELS, &[]);
    run(0, &[]);
}
