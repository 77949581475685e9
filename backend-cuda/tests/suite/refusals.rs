//! Drivers that are too old, see no card or are none; PTX that a driver does not take: typed errors that say what to do.
//! On the interpreted driver, told to be one of these.

use crate::common::{
    self, Control, add_kernel, assert_alive, bind, interpreted, is_child, on_interpreted, upload, usable,
};
use polywarp_core::{Backend, Error};
use polywarp_cuda::{CudaBackend, Options, card, cards};

const JIT_COMPILER_NOT_FOUND: u32 = 221;

/// The reason that a child process must be given.
const REASON: &str = "POLYWARP_TEST_REASON";

#[test]
fn drivers_that_cannot_be_used_say_why() {
    const NAME: &str = "drivers_that_cannot_be_used_say_why";
    if !is_child(NAME) {
        let too_old = "libcuda.so.1 speaks CUDA 11.2; driver 470 (CUDA 11.4) or newer is needed";
        let (no_card, hidden) = ("libcuda.so.1 finds no NVIDIA GPU", "CUDA_VISIBLE_DEVICES=7 is set");
        let stub = "libcuda.so.1 is the toolkit's stub, not a driver; install NVIDIA's driver";
        let broken = "libcuda.so.1 does not start: CUDA_ERROR_OTHER (as interpreted)";
        let mismatch = "see whether nvidia-smi works, and whether driver and kernel module are of one version";
        for (variables, reason) in [
            (&[("INTERPRETED_VERSION", "11020")][..], too_old.to_owned()),
            // The version matters more than what follows from it.
            (&[("INTERPRETED_VERSION", "11020"), ("INTERPRETED_INIT", "803")], too_old.to_owned()),
            (&[("INTERPRETED_DEVICES", "0"), ("CUDA_VISIBLE_DEVICES", "7")], format!("{no_card} ({hidden})")),
            (&[("INTERPRETED_INIT", "34")], stub.to_owned()),
            (&[("INTERPRETED_INIT", "803"), ("CUDA_VISIBLE_DEVICES", "7")], format!("{broken} ({hidden}); {mismatch}")),
        ] {
            on_interpreted(NAME, &[variables, &[(REASON, &reason)]].concat());
        }
        return;
    }
    assert!(interpreted());
    let expected = std::env::var(REASON).unwrap();
    for asked in [cards().map(|_| ()), card("cuda:0").map(|_| ())] {
        match asked {
            Err(Error::BackendUnavailable { backend: "cuda", reason }) => assert_eq!(reason, expected),
            other => panic!("{other:?}"),
        }
    }
    println!("SURVIVED");
}

/// The error of a user's kernel on a new device, which goes on.
fn launch_fails(backend: &CudaBackend) -> Error {
    let x = upload(backend, &[1]);
    let error = backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &x)]).unwrap_err();
    assert_eq!(common::download(backend, &x), [1]);
    error
}

#[test]
fn ptx_newer_than_the_driver_names_the_driver_that_reads_it() {
    const NAME: &str = "ptx_newer_than_the_driver_names_the_driver_that_reads_it";
    if !is_child(NAME) {
        // What a driver 470 reads, with a card that it does not know.
        on_interpreted(NAME, &[("INTERPRETED_VERSION", "11040"), ("INTERPRETED_PTX", "74"), ("POLYWARP_CACHE", "off")]);
        return;
    }
    assert!(interpreted());
    let backend = usable()[0].open(Options::default()).unwrap();
    match launch_fails(&backend) {
        Error::DriverTooOld { device, what, driver, needed } => {
            assert_eq!((device.as_str(), what.as_str()), ("cuda:0", "kernel `main` (PTX 7.8)"));
            assert_eq!((driver.as_str(), needed.as_str()), ("NVIDIA (CUDA 11.4)", "520 (CUDA 11.8)"));
        }
        other => panic!("{other:?}"),
    }
    println!("SURVIVED");
}

#[test]
fn ptx_that_the_driver_refuses_is_told_with_its_assemblers_words() {
    const NAME: &str = "ptx_that_the_driver_refuses_is_told_with_its_assemblers_words";
    if !is_child(NAME) {
        on_interpreted(NAME, &[("INTERPRETED_REJECTS", ".visible .entry main"), ("POLYWARP_CACHE", "off")]);
        return;
    }
    assert!(interpreted());
    let backend = usable()[0].open(Options::default()).unwrap();
    match launch_fails(&backend) {
        Error::PtxRejected { device, kernel, log } => {
            assert_eq!((device.as_str(), kernel.as_str()), ("cuda:0", "main"));
            assert_eq!(log, "kernel.ptx; error: `.visible .entry main` is not taken");
        }
        other => panic!("{other:?}"),
    }
    println!("SURVIVED");
}

#[test]
fn driver_without_its_assembler_says_which_library_is_missing() {
    const NAME: &str = "driver_without_its_assembler_says_which_library_is_missing";
    if !is_child(NAME) {
        on_interpreted(NAME, &[("POLYWARP_CACHE", "off")]);
        return;
    }
    assert!(interpreted());
    let backend = usable()[0].open(Options::default()).unwrap();
    let control = Control::new();
    for function in ["cuLinkCreate_v2", "cuLinkAddData_v2", "cuLinkComplete"] {
        control.fail(function, JIT_COMPILER_NOT_FOUND, 0);
        match launch_fails(&backend) {
            Error::Backend { device, op, message } => {
                assert_eq!((device.as_str(), op.as_str()), ("cuda:0", "compiling kernel `main`"), "{function}");
                assert!(message.contains("libnvidia-ptxjitcompiler.so.1, was not found"), "{function}: {message}");
                assert!(message.contains("the capability `compute`"), "{function}: {message}");
            }
            other => panic!("{function}: {other:?}"),
        }
    }
    assert_alive(&backend);
    println!("SURVIVED");
}
