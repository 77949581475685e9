//! Devices for the tests that need an NVIDIA card.
//!
//! On a machine without NVIDIA's driver they run on the interpreted one (`interpreted-driver/`), which checks everything
//! but speed and what is the real driver's alone; `POLYWARP_TEST_DRIVER=interpreted` asks for it elsewhere. Where neither
//! is, a test says "skipped: no NVIDIA device" and why. With `POLYWARP_REQUIRE_CUDA=1` only a real card will do, and its
//! absence fails.

#![allow(dead_code)]

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use polywarp_core::{Backend, Binding, Buffer, Kernel};
use polywarp_cuda::{CardEntry, CudaBackend, Options, cards};

fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// Whether the tests run on the interpreted driver, which is loaded then.
pub fn interpreted() -> bool {
    static LOADED: OnceLock<bool> = OnceLock::new();
    *LOADED.get_or_init(|| {
        let wanted = variable("POLYWARP_TEST_DRIVER").is_some_and(|driver| driver == "interpreted");
        // SAFETY: the driver's own library; opening it starts nothing.
        let real = || unsafe { libloading::Library::new("libcuda.so.1") }.is_ok();
        if !wanted && (variable("POLYWARP_REQUIRE_CUDA").is_some() || real()) {
            return false;
        }
        let path = std::env::current_exe().unwrap().with_file_name("libinterpreted_cuda.so");
        // SAFETY: built with these tests; opening it starts nothing. It has the driver's name, so whoever opens that
        // gets this one.
        match unsafe { libloading::Library::new(&path) } {
            Ok(library) => {
                println!("on the interpreted driver");
                if variable("POLYWARP_TUNE").is_none() {
                    // Its times mean nothing.
                    // SAFETY: tests come here before they do anything else; the others wait for this one, and nothing of
                    // an interpreted driver reads the environment behind Rust's back.
                    unsafe { std::env::set_var("POLYWARP_TUNE", "off") };
                }
                std::mem::forget(library);
                true
            }
            Err(error) => {
                println!("no interpreted driver: {error}");
                false
            }
        }
    })
}

/// A size for a real card, or one that an interpreter manages.
pub fn scaled(real: usize, small: usize) -> usize {
    if interpreted() { small } else { real }
}

/// Every usable card.
pub fn usable() -> Vec<CardEntry> {
    interpreted();
    let (found, why) = match cards() {
        Ok(found) => (found, String::new()),
        Err(error) => (Vec::new(), error.to_string()),
    };
    let (usable, others): (Vec<_>, Vec<_>) = found.into_iter().partition(|entry| entry.unusable.is_none());
    if usable.is_empty() {
        assert!(
            variable("POLYWARP_REQUIRE_CUDA").is_none(),
            "no NVIDIA device, which POLYWARP_REQUIRE_CUDA demands: {why} {others:?}"
        );
        println!("skipped: no NVIDIA device ({why})");
    }
    usable
}

/// The first card, opened; `None` when the test must be skipped, which was said.
pub fn first() -> Option<CudaBackend> {
    open(Options::default())
}

/// The first card, opened as `options` say.
pub fn open(options: Options) -> Option<CudaBackend> {
    Some(usable().first()?.open(options).expect("open"))
}

/// Held by tests that fill the card, and by those that would notice: tests of one program run beside each other.
pub fn card_to_myself() -> MutexGuard<'static, ()> {
    static CARD: Mutex<()> = Mutex::new(());
    CARD.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `test` on the first card, and sees that it still computes afterwards.
pub fn on_card(test: impl FnOnce(&CudaBackend)) {
    let _card = card_to_myself();
    let Some(backend) = first() else { return };
    test(&backend);
    assert_alive(&backend);
}

/// Adds `by` to every word.
pub fn add_kernel(by: u32) -> Kernel {
    Kernel::wgsl(format!(
        "@group(0) @binding(0) var<storage, read_write> x: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
            if id.x < arrayLength(&x) {{ x[id.x] = x[id.x] + {by}u; }}
        }}"
    ))
}

/// `y = x + 1`, into another buffer.
pub fn copy_add_kernel() -> Kernel {
    Kernel::wgsl(
        "@group(0) @binding(0) var<storage, read> x: array<u32>;
        @group(0) @binding(1) var<storage, read_write> y: array<u32>;
        @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
            if id.x < arrayLength(&y) { y[id.x] = x[id.x] + 1u; }
        }",
    )
}

/// The whole of `buffer` at `@group(0) @binding(binding)`.
pub fn bind(binding: u32, buffer: &Buffer) -> Binding {
    Binding { group: 0, binding, buffer: buffer.clone(), range: 0..buffer.size_bytes() }
}

/// A buffer holding `words`.
pub fn upload(backend: &CudaBackend, words: &[u32]) -> Buffer {
    let buffer = backend.alloc(4 * words.len() as u64).expect("alloc");
    backend.write(&buffer, 0, &bytes(words)).expect("write");
    buffer
}

/// The words of a whole buffer.
pub fn download(backend: &CudaBackend, buffer: &Buffer) -> Vec<u32> {
    words(&backend.read_blocking(buffer, 0..buffer.size_bytes()).expect("read"))
}

pub fn bytes(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

pub fn words(bytes: &[u8]) -> Vec<u32> {
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

/// The device still computes correctly.
pub fn assert_alive(backend: &CudaBackend) {
    let buffer = upload(backend, &[1, 2, 3, 40]);
    backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &buffer)]).expect("launch");
    assert_eq!(download(backend, &buffer), [2, 3, 4, 41]);
}
