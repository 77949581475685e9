//! What an operation costs the host, and what `timed` says of the device.

mod common;

use std::time::Instant;

use common::{add_kernel, bind, each, entries, upload};
use polywarp_core::{Backend, Clock, DType, Device, Error, Tensor};
use polywarp_wgpu::{Options, WgpuBackend};

/// Seconds this thread has run on a processor; the software GPU's threads and waiting do not count.
#[cfg(target_os = "linux")]
fn thread_seconds() -> Option<f64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse::<f64>().ok().map(|ns| 1e-9 * ns)
}

#[cfg(not(target_os = "linux"))]
fn thread_seconds() -> Option<f64> {
    None
}

/// Microseconds of host time per call of `work`, by the thread's clock where there is one.
fn host_us(calls: u32, mut work: impl FnMut()) -> (f64, f64) {
    let (wall, thread) = (Instant::now(), thread_seconds());
    for _ in 0..calls {
        work();
    }
    let wall = 1e6 * wall.elapsed().as_secs_f64() / f64::from(calls);
    let thread = thread_seconds().zip(thread).map_or(wall, |(end, start)| 1e6 * (end - start) / f64::from(calls));
    (wall, thread)
}

#[test]
fn chained_adds_cost_microseconds_of_host_time() {
    for entry in entries() {
        let device = Device::new(entry.open(Options::default()).unwrap());
        let one = Tensor::full(&device, DType::F32, [1024], 1.0f32).unwrap();
        let mut sum = Tensor::zeros(&device, DType::F32, [1024]).unwrap();
        let mut step = || sum = sum.add(&one).unwrap();
        (0..100).for_each(|_| step());
        let calls = 10_000;
        let (wall, thread) = host_us(calls, &mut step);
        assert_eq!(sum.to_vec::<f32>().unwrap(), [10_100.0; 1024]);
        let backend = device.backend_as::<WgpuBackend>().unwrap();
        println!(
            "{backend:?}: {calls} chained adds of 1024: {thread:.2} us of host time each ({wall:.2} us with the device), \
             {} submissions, {} driver allocations",
            backend.submissions(),
            device.memory().driver_allocations,
        );
        // The promise is 15 us in a release build on an idle machine; this only catches a lost cache.
        assert!(thread < 150.0, "{thread} us");
        assert!(device.memory().driver_allocations < 10);
        assert!(backend.compiled_kernels() <= 4, "{} kernels", backend.compiled_kernels());
    }
}

#[test]
fn timed_measures_work_and_passes_errors_on() {
    each(|backend| {
        let words = 1 << 20;
        let buffer = upload(backend, &vec![1; words]);
        let run = || backend.launch(&add_kernel(1), [words as u32 / 64, 1, 1], &[bind(0, &buffer)]);
        run().unwrap();
        let one = backend.timed(&mut || run()).unwrap();
        let twenty = backend.timed(&mut || (0..20).try_for_each(|_| run())).unwrap();
        println!("{backend:?}: one launch {one:?}, twenty {twenty:?}");
        assert!(one.ns > 0.0 && twenty.ns > one.ns);
        if backend.device().features().contains(polywarp_wgpu::wgpu::Features::TIMESTAMP_QUERY_INSIDE_ENCODERS) {
            assert_eq!((one.clock, twenty.clock), (Clock::Device, Clock::Device));
        } else {
            assert_eq!(one.clock, Clock::Host);
        }
        let error = backend.timed(&mut || Err(Error::WouldBlock { what: "a test" })).unwrap_err();
        assert!(matches!(error, Error::WouldBlock { what: "a test" }));
    });
}

#[test]
fn missing_driver_is_reported_quickly_and_typed() {
    // In a child process: the loader reads its environment once.
    let own = std::env::current_exe().unwrap();
    if let Ok(named) = std::env::var("POLYWARP_TEST_NO_DRIVER") {
        let start = Instant::now();
        match polywarp_wgpu::adapters() {
            Err(Error::BackendUnavailable { backend: "wgpu", reason }) => {
                assert!(reason.contains(&named), "{reason}");
            }
            other => panic!("{other:?}"),
        }
        assert!(start.elapsed().as_secs() < 5);
        return;
    }
    let child = |named: &str, variables: &[(&str, &str)]| {
        let mut command = std::process::Command::new(&own);
        command.args(["--exact", "missing_driver_is_reported_quickly_and_typed"]).env("POLYWARP_TEST_NO_DRIVER", named);
        command.env_remove("VK_DRIVER_FILES").env_remove("VK_ICD_FILENAMES");
        let out = command.envs(variables.iter().copied()).env("WGPU_BACKEND", "vulkan").output().unwrap();
        assert!(out.status.success(), "{named}: {}", String::from_utf8_lossy(&out.stdout));
    };
    child("VK_DRIVER_FILES=/nonexistent.json", &[("VK_DRIVER_FILES", "/nonexistent.json")]);
    // A loader that cannot be loaded comes before the real one.
    if cfg!(target_os = "linux") {
        let folder = std::env::temp_dir().join(format!("polywarp-no-loader-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        for name in ["libvulkan.so", "libvulkan.so.1"] {
            std::fs::write(folder.join(name), "").unwrap();
        }
        child("no adapter through vulkan; install", &[("LD_LIBRARY_PATH", folder.to_str().unwrap())]);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
