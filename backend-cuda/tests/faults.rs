//! Every call into the driver failing, one at a time: typed errors, no panic, and the device usable afterwards.
//!
//! In the style of SQLite's tests: the n-th call of a function fails, for n = 0, 1, 2, ... until the work below no longer
//! makes that many. Only the interpreted driver can be told to fail.

mod common;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Wake};
use std::time::{Duration, Instant};

use common::{Control, add_kernel, assert_alive, bind, card_to_myself, download, interpreted, upload, usable};
use polywarp_core::{Backend, DType, Device, Error, Result, Tensor};
use polywarp_cuda::{CudaBackend, Options, cards};

const OUT_OF_MEMORY: u32 = 2;
const INVALID_VALUE: u32 = 1;
const DEVICE_UNAVAILABLE: u32 = 46;
const LAUNCH_FAILED: u32 = 719;

/// The functions that the work below calls, but those that free, whose failures go to the log.
const FUNCTIONS: [&str; 25] = [
    "cuDeviceGetCount",
    "cuDeviceGet",
    "cuDeviceGetName",
    "cuDevicePrimaryCtxRetain",
    "cuCtxPushCurrent_v2",
    "cuStreamCreate",
    "cuStreamSynchronize",
    "cuStreamBeginCapture_v2",
    "cuStreamEndCapture",
    "cuEventCreate",
    "cuEventRecord",
    "cuEventSynchronize",
    "cuEventElapsedTime",
    "cuMemAlloc_v2",
    "cuMemHostAlloc",
    "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync_v2",
    "cuModuleLoadData",
    "cuModuleGetFunction",
    "cuLaunchKernel",
    "cuLinkCreate_v2",
    "cuLinkAddData_v2",
    "cuLinkComplete",
    "cuGraphInstantiateWithFlags",
    "cuGraphLaunch",
];

/// A little of everything; the results are right, or an error says that there are none.
fn work() -> Result<()> {
    let backend = match cards()?.first() {
        Some(card) => card.open(Options::default())?,
        None => return Err(Error::NoSuchDevice { name: "cuda:0".to_owned(), variable: None, available: Vec::new() }),
    };
    let buffer = backend.alloc(256)?;
    backend.write(&buffer, 0, &common::bytes(&[5; 64]))?;
    backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &buffer)])?;
    let later = backend.read(&buffer, 0..8);
    assert_eq!(common::words(&backend.read_blocking(&buffer, 0..256)?), [6; 64]);
    assert_eq!(common::words(&pollster::block_on(later)?), [6; 2]);
    backend.timed(&mut || backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &buffer)]))?;
    let device = Device::new(backend);
    let x = Tensor::full(&device, DType::F32, [8, 8], 2.0)?;
    let step = device.record(|| x.matmul(&x)?.sum(1))?;
    assert_eq!(step.replay()?.to_vec::<f32>()?, [256.0; 8]);
    device.synchronize()
}

#[test]
fn every_call_may_fail_once_and_nothing_is_lost() {
    let _card = card_to_myself();
    if !interpreted() {
        println!("skipped: only the interpreted driver can be told to fail");
        return;
    }
    // Kernels are compiled in every round, so that compiling fails as well. No other thread runs in this program.
    // SAFETY: as just said.
    unsafe { std::env::set_var("POLYWARP_CACHE", "off") };
    work().unwrap();
    let control = Control::new();
    let (mut failed, mut rounds) = (0, 0);
    for name in FUNCTIONS {
        for code in [OUT_OF_MEMORY, INVALID_VALUE, DEVICE_UNAVAILABLE, LAUNCH_FAILED] {
            let mut at = 0;
            loop {
                control.fail(name, code, at);
                let outcome = work();
                let reached = control.calls() > at;
                control.fail("none", 0, 0);
                rounds += 1;
                if !reached {
                    assert!(at > 0, "{name} is never called: the table is wrong");
                    outcome.unwrap_or_else(|error| panic!("{name} call {at}: {error}"));
                    break;
                }
                if let Err(error) = outcome {
                    failed += 1;
                    check(name, code, &error);
                }
                at += 1;
                // Calls that are made again and again fail in the same few places.
                if at == 12 {
                    break;
                }
            }
        }
        // What failed is over: a new device computes.
        assert_alive(&usable()[0].open(Options::default()).unwrap());
    }
    println!("{rounds} rounds, {failed} of them ended in an error");
    // The last round of each series meets no failure, and from want of memory the pool recovers.
    assert!(failed > 250, "{failed} of {rounds}: the failures do not arrive");
}

/// The error is one that says what happened.
fn check(name: &str, code: u32, error: &Error) {
    let told = match error {
        Error::OutOfMemory { .. } => code == OUT_OF_MEMORY,
        Error::DevicePoisoned { .. } => code == LAUNCH_FAILED,
        Error::DeviceLost { .. } => code == DEVICE_UNAVAILABLE,
        Error::BackendUnavailable { .. } | Error::PtxRejected { .. } => true,
        Error::Backend { .. } => code != OUT_OF_MEMORY || name.starts_with("cuLink") || name.starts_with("cuModule"),
        _ => false,
    };
    assert!(told, "{name} with status {code}: {error:?}");
}

#[test]
fn failures_of_single_calls_leave_the_device_as_it_was() {
    let _card = card_to_myself();
    if !interpreted() {
        println!("skipped: only the interpreted driver can be told to fail");
        return;
    }
    let control = Control::new();
    let backend: CudaBackend = usable()[0].open(Options::default()).unwrap();
    let buffer = upload(&backend, &[1, 2, 3]);
    let before = backend.memory().in_use_bytes;
    for name in ["cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2", "cuLaunchKernel", "cuEventRecord", "cuMemAlloc_v2"] {
        backend.empty_cache();
        control.fail(name, INVALID_VALUE, 0);
        let results = [
            backend.write(&buffer, 0, &1u32.to_le_bytes()).err(),
            backend.read_blocking(&buffer, 0..4).err(),
            pollster::block_on(backend.read(&buffer, 0..4)).err(),
            backend.launch(&add_kernel(0), [1, 1, 1], &[bind(0, &buffer)]).err(),
            backend.alloc(10 << 20).err(),
        ];
        control.fail("none", 0, 0);
        let errors: Vec<_> = results.into_iter().flatten().collect();
        assert!(matches!(errors[..], [Error::Backend { .. }]), "{name}: {errors:?}");
        assert_eq!(download(&backend, &buffer), [1, 2, 3], "{name}");
        assert_eq!(backend.memory().in_use_bytes, before, "{name}");
        assert_alive(&backend);
    }
}

/// Code that finds no memory is loaded again without what the pool keeps for later, whoever asked for it.
#[test]
fn code_graphs_and_events_find_memory_that_the_pool_keeps() {
    let _card = card_to_myself();
    if !interpreted() {
        println!("skipped: only the interpreted driver can be told to fail");
        return;
    }
    let control = Control::new();
    for name in
        ["cuModuleLoadData", "cuModuleGetFunction", "cuStreamCreate", "cuGraphInstantiateWithFlags", "cuEventCreate"]
    {
        let backend: CudaBackend = usable()[0].open(Options::default()).unwrap();
        let buffer = upload(&backend, &[1; 64]);
        let device = Device::new(backend);
        let x = Tensor::full(&device, DType::F32, [8, 8], 2.0).unwrap();
        control.fail(name, OUT_OF_MEMORY, 0);
        let backend = device.backend_as::<CudaBackend>().unwrap();
        backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &buffer)]).unwrap();
        let step = device.record(|| x.matmul(&x)?.sum(1)).unwrap();
        backend.timed(&mut || Ok(())).unwrap();
        assert!(control.calls() > 0, "{name} was not called");
        control.fail("none", 0, 0);
        assert_eq!(step.replay().unwrap().to_vec::<f32>().unwrap(), [256.0; 8]);
    }
}

/// Another library of the process may capture a stream at any time.
#[test]
fn captures_of_other_libraries_are_neither_minded_nor_spoilt() {
    let _card = card_to_myself();
    if !interpreted() {
        println!("skipped: another library's capture is the interpreted driver's");
        return;
    }
    let ended = Control::new().beside_a_capture(|| work().unwrap());
    assert!(ended, "a call of ours spoilt the capture");
}

/// A status of which cuda.h says that the process must be restarted is never told as the failure of one call.
#[test]
fn statuses_that_end_the_context_poison_the_device() {
    let _card = card_to_myself();
    if !interpreted() {
        println!("skipped: only the interpreted driver can be told to fail");
        return;
    }
    let control = Control::new();
    // Contained errors of a card, leaks of tensor memory, a client that MPS ended, data of another device; the way to MPS.
    for (code, poisoned) in [(226, true), (721, true), (810, true), (911, true), (719, true), (806, false), (46, false)]
    {
        let backend: CudaBackend = usable()[0].open(Options::default()).unwrap();
        let buffer = upload(&backend, &[1, 2, 3]);
        control.fail("cuStreamSynchronize", code, 0);
        let answers = [backend.synchronize().err(), backend.alloc(4).err(), backend.write(&buffer, 0, &[1; 4]).err()];
        control.fail("none", 0, 0);
        for answer in answers {
            let told = match &answer {
                Some(Error::DevicePoisoned { .. }) => poisoned,
                Some(Error::DeviceLost { .. }) => !poisoned,
                _ => false,
            };
            assert!(told, "{code}: {answer:?}");
        }
    }
    assert_alive(&usable()[0].open(Options::default()).unwrap());
}

/// The driver's own allocations that fail say what was asked for and what the pool holds, as the pool's do.
#[test]
fn out_of_memory_outside_of_the_pool_tells_true_figures() {
    let _card = card_to_myself();
    if !interpreted() {
        println!("skipped: only the interpreted driver can be told to fail");
        return;
    }
    let control = Control::new();
    let backend: CudaBackend = usable()[0].open(Options::default()).unwrap();
    let own = upload(&backend, &[7; 1000]);
    drop(upload(&backend, &[7; 3000]));
    let (in_use, cached) = (backend.memory().in_use_bytes, backend.memory().cached_bytes);
    assert!(in_use >= 4000 && cached >= 12_000, "{in_use} {cached}");
    let told = |name: &str, at: u64, work: &dyn Fn() -> Result<()>| {
        control.fail(name, OUT_OF_MEMORY, at);
        let error = work().unwrap_err();
        control.fail("none", 0, 0);
        match error {
            Error::OutOfMemory { requested, in_use: held, cached: kept, limit: None, .. } => {
                assert_eq!((held, kept), (in_use, cached), "{name}");
                requested
            }
            other => panic!("{name}: {other:?}"),
        }
    };
    // A read of a size that no piece is kept for: a page-locked one is made.
    let read = || backend.read_blocking(&own, 0..4000).map(|_| ());
    assert_eq!(told("cuMemHostAlloc", 0, &read), 4096);
    // What an event takes only the driver knows.
    let copy = || backend.read_blocking(&own, 0..4000).map(|_| ());
    assert_eq!(told("cuEventCreate", 0, &copy), 0);
    assert_alive(&backend);
}

/// A copy between devices is either not given, or ended by somebody: never under way with nobody behind it.
#[test]
fn copy_to_peer_that_fails_leaves_no_copy_under_way() {
    let _card = card_to_myself();
    if !interpreted() {
        println!("skipped: only the interpreted driver can be told to fail");
        return;
    }
    let control = Control::new();
    for (name, code, calls) in [
        ("cuEventCreate", INVALID_VALUE, 2),
        ("cuEventRecord", INVALID_VALUE, 2),
        ("cuStreamWaitEvent", INVALID_VALUE, 2),
        ("cuMemcpyPeerAsync", INVALID_VALUE, 1),
    ] {
        for at in 0..calls {
            let [a, b]: [CudaBackend; 2] = [0, 1].map(|_| usable()[0].open(Options::default()).unwrap());
            let (x, y) = (upload(&a, &[1, 2, 3]), upload(&b, &[7, 8, 9]));
            a.synchronize().unwrap();
            b.synchronize().unwrap();
            control.fail(name, code, at);
            let copied = a.copy_to_peer(&x, 0, &b, &y, 0, 12);
            assert!(control.calls() > at, "{name} is called too few times");
            let there = download(&b, &y);
            control.fail("none", 0, 0);
            match &copied {
                Ok(()) => assert_eq!(there, [1, 2, 3], "{name} {at}"),
                Err(Error::Backend { .. }) => assert_eq!(there, [7, 8, 9], "{name} {at}: a copy was under way"),
                other => panic!("{name} {at}: {other:?}"),
            }
            assert_alive(&a);
            assert_alive(&b);
        }
    }
    // Where the copy cannot even be waited for, the device that it goes to has memory that nobody can vouch for.
    let [a, b]: [CudaBackend; 2] = [0, 1].map(|_| usable()[0].open(Options::default()).unwrap());
    let (x, y) = (upload(&a, &[1, 2, 3]), upload(&b, &[7, 8, 9]));
    control.fail("cuStreamWaitEvent", LAUNCH_FAILED, 1);
    let copied = a.copy_to_peer(&x, 0, &b, &y, 0, 12);
    control.fail("none", 0, 0);
    assert!(matches!(copied, Err(Error::DevicePoisoned { .. })), "{copied:?}");
    assert!(matches!(b.synchronize(), Err(Error::DevicePoisoned { .. } | Error::DeviceLost { .. })));
}

/// Counts, and panics with what panics in turn when it is dropped.
struct Panics(AtomicU32);

struct Again;

impl Drop for Again {
    fn drop(&mut self) {
        panic!("and what it panicked with");
    }
}

impl Wake for Panics {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, Ordering::SeqCst);
        std::panic::panic_any(Again);
    }
}

#[test]
fn waker_that_panics_harms_no_other_read() {
    let _card = card_to_myself();
    if !interpreted() {
        println!("skipped: reads that are pending for sure need the interpreted driver");
        return;
    }
    let backend: CudaBackend = usable()[0].open(Options::default()).unwrap();
    let busy = upload(&backend, &[0]);
    let mut woken = 0;
    for round in 0..20 {
        (0..200).for_each(|_| backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &busy)]).unwrap());
        let waker = Arc::new(Panics(AtomicU32::new(0)));
        let mut read = backend.read(&busy, 0..4);
        let first = read.as_mut().poll(&mut Context::from_waker(&Arc::clone(&waker).into()));
        let started = Instant::now();
        while first.is_pending() && waker.0.load(Ordering::SeqCst) == 0 {
            assert!(started.elapsed() < Duration::from_secs(20), "never woken");
            std::thread::yield_now();
        }
        woken += u32::from(first.is_pending());
        // The bytes came all the same, and so do those of reads after it.
        let bytes = match first {
            Poll::Ready(bytes) => bytes,
            Poll::Pending => pollster::block_on(&mut read),
        };
        assert_eq!(common::words(&bytes.unwrap()), [200 * (round + 1)]);
        let again = pollster::block_on(read);
        assert!(matches!(again, Err(Error::InvalidArgument { what: "read", .. })), "{again:?}");
        let other = upload(&backend, &[9]);
        assert_eq!(common::words(&pollster::block_on(backend.read(&other, 0..4)).unwrap()), [9]);
    }
    assert!(woken > 0, "no read was ever pending");
}
