//! Memory on wgpu: exact counts, and what the driver really gets back. The rest is the harness's (`contract.rs`).

use crate::common::{self, POOREST, each, entries, first, upload};
use polywarp_core::{Backend, DeviceKind, Error};
use polywarp_wgpu::Options;

#[test]
fn buffer_of_another_backend_is_refused() {
    let (a, b) = (first(), first());
    let buffer = upload(&a, &[1]);
    assert!(matches!(b.write(&buffer, 0, &[1]), Err(Error::DeviceMismatch { .. })));
    assert!(matches!(b.read_blocking(&buffer, 0..4), Err(Error::DeviceMismatch { .. })));
    assert!(matches!(b.buffer_handle(&buffer), Err(Error::DeviceMismatch { .. })));
}

#[test]
fn pool_reuses_buffers_and_counts_them() {
    each(|backend| {
        backend.empty_cache();
        let before = backend.memory();
        assert_eq!((before.in_use_bytes, before.cached_bytes), (0, 0));
        let a = backend.alloc(1000).unwrap();
        let b = backend.alloc(1000).unwrap();
        let held = backend.memory();
        assert_eq!(held.driver_allocations, before.driver_allocations + 2);
        assert!((2000..2600).contains(&held.in_use_bytes), "{held:?}");
        drop((a, b));
        let cached = backend.memory();
        assert_eq!((cached.in_use_bytes, cached.cached_bytes), (0, held.in_use_bytes));
        assert_eq!(cached.peak_bytes, held.in_use_bytes);
        let again: Vec<_> = (0..2).map(|_| backend.alloc(990).unwrap()).collect();
        assert_eq!(backend.memory().driver_allocations, held.driver_allocations);
        drop(again);
        backend.empty_cache();
        assert_eq!(backend.memory().cached_bytes, 0);
    });
}

#[test]
fn emptied_cache_gives_memory_back_to_the_driver() {
    each(|backend| {
        let held = || backend.device().generate_allocator_report().map(|report| report.total_allocated_bytes);
        let before = held();
        let buffer = backend.alloc(64 << 20).unwrap();
        // Used by a kernel, so that a cached bind group refers to it.
        backend.launch(&common::add_kernel(1), [1, 1, 1], &[common::bind(0, &buffer)]).unwrap();
        backend.synchronize().unwrap();
        let with = held();
        drop(buffer);
        backend.empty_cache();
        backend.synchronize().unwrap();
        let (Some(before), Some(with), Some(after)) = (before, with, held()) else { return };
        assert!(with >= 64 << 20 && after < before + (32 << 20), "{before} {with} {after}");
    });
}

#[test]
fn memory_limit_of_the_options_is_in_force() {
    let backend = entries()[0].open(Options { memory_limit_bytes: Some(4 << 20), ..POOREST }).unwrap();
    let refused = backend.alloc(5 << 20);
    assert!(matches!(refused, Err(Error::OutOfMemory { limit: Some(4_194_304), .. })), "{refused:?}");
    backend.alloc(4 << 20).unwrap();
    backend.set_memory_limit(None);
    backend.alloc(5 << 20).unwrap();
}

/// A write that finds no memory for its copy fails alone. (In a child process, whose address space ends a little above what it has.)
#[test]
#[cfg(target_os = "linux")]
fn write_without_host_memory_harms_nothing_else() {
    const CHILD: &str = "POLYWARP_TEST_NO_HOST_MEMORY";
    let Ok(id) = std::env::var(CHILD) else {
        for entry in entries() {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap());
            child
                .args(["--exact", "--nocapture", "memory::write_without_host_memory_harms_nothing_else"])
                .env(CHILD, &entry.id);
            let output = child.output().unwrap();
            let said = String::from_utf8_lossy(&output.stdout);
            println!("{}: {said}", entry.id);
            // A driver that has its memory elsewhere, or already, cannot be made to lack it.
            let proven = said.contains("PROVEN") || entry.api == "gl" || entry.kind != DeviceKind::Software;
            assert!(output.status.success() && proven, "{said}{}", String::from_utf8_lossy(&output.stderr));
        }
        return;
    };
    let entry = entries().into_iter().find(|entry| entry.id == id).unwrap();
    if entry.api == "gl" {
        return;
    }
    let backend = entry.open(Options::default()).unwrap();
    let buffer = backend.alloc(64 << 20).unwrap();
    backend.write(&buffer, 0, &[7; 4096]).unwrap();
    backend.synchronize().unwrap();
    let data = vec![9u8; 64 << 20];
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let used = pages.split(' ').next().unwrap().parse::<u64>().unwrap() * 4096;
    let args = [format!("--pid={}", std::process::id()), format!("--as={}:", used + (24 << 20))];
    assert!(std::process::Command::new("prlimit").args(args).status().unwrap().success());
    let outcomes: Vec<_> = (0..4).map(|_| backend.write(&buffer, 0, &data)).collect();
    drop(data);
    for outcome in outcomes {
        match outcome {
            Ok(()) => {}
            Err(Error::OutOfMemory { requested, limit: None, .. }) => println!("PROVEN: {requested} bytes"),
            Err(error) => panic!("{error}"),
        }
    }
    // What was given back is enough for a smaller one.
    backend.write(&buffer, 0, &[3; 1 << 20]).unwrap();
    assert_eq!(backend.read_blocking(&buffer, 0..4).unwrap(), [3; 4]);
}
