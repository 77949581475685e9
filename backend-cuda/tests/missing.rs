//! Machines without NVIDIA's driver: a typed error that says what is missing, and never a panic. Needs no GPU.

use polywarp_core::Error;

/// Whether this machine has the driver's library, found without the code under test.
fn has_driver() -> bool {
    let names = if cfg!(windows) { &["nvcuda.dll"][..] } else { &["libcuda.so.1", "libcuda.so"][..] };
    // SAFETY: the driver's own library; opening it starts nothing.
    names.iter().any(|name| unsafe { libloading::Library::new(name) }.is_ok())
}

#[test]
fn machine_without_driver_says_so() {
    if has_driver() {
        println!("not run: this machine has NVIDIA's driver");
        return;
    }
    for asked in [polywarp_cuda::cards().map(|_| ()), polywarp_cuda::card("cuda:0").map(|_| ())] {
        match asked {
            Err(Error::BackendUnavailable { backend: "cuda", reason }) => {
                assert!(reason.contains("was not found") && reason.contains("driver"), "{reason}");
                assert!(reason.contains(if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" }), "{reason}");
                assert!(reason.contains("470"), "the least driver is named: {reason}");
            }
            other => panic!("{other:?}"),
        }
    }
}
