//! Devices for the tests that need an NVIDIA card.
//!
//! On a machine without NVIDIA's driver they run on the interpreted one (`interpreted-driver/`), which checks everything
//! but speed and what is the real driver's alone; `POLYWARP_TEST_DRIVER=interpreted` asks for it elsewhere. Where neither
//! is, a test says "skipped: no NVIDIA device" and why. With `POLYWARP_REQUIRE_CUDA=1` only a real card will do, and its
//! absence fails.

#![allow(dead_code, unused_imports)]

mod interpreted;
#[path = "../../../core/tests/support/mod.rs"]
mod support;

use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use polywarp_cuda::{CardEntry, CudaBackend, Options, cards};

pub use interpreted::*;
pub use support::*;

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
