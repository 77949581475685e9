//! Loss: a device destroyed at any moment gives [`Error::DeviceLost`] from every call, and nothing hangs or panics.

use std::sync::Arc;
use std::time::Duration;

use crate::common::{self, add_kernel, bind, entries, upload, within_seconds};
use polywarp_core::{Backend, DType, Device, Distribution, Error, Granularity, Tensor};
use polywarp_wgpu::{Options, WgpuBackend};

fn assert_lost<T: std::fmt::Debug>(backend: &WgpuBackend, what: &str, result: Result<T, Error>) {
    match result {
        Err(Error::DeviceLost { device, reason }) => {
            assert_eq!(device, backend.info().id);
            assert!(!reason.is_empty());
        }
        other => panic!("{what} on {backend:?}: {other:?}"),
    }
}

fn assert_every_call_says_lost(backend: &WgpuBackend, buffer: &polywarp_core::Buffer) {
    assert_lost(backend, "read_blocking", backend.read_blocking(buffer, 0..4));
    assert_lost(backend, "read", pollster::block_on(backend.read(buffer, 0..4)));
    assert_lost(backend, "alloc", backend.alloc(4));
    assert_lost(backend, "write", backend.write(buffer, 0, &[1, 2, 3, 4]));
    assert_lost(backend, "launch", backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, buffer)]));
    assert_lost(backend, "flush", backend.flush());
    assert_lost(backend, "synchronize", backend.synchronize());
    assert_lost(backend, "timed", backend.timed(&mut || Ok(())));
    assert_lost(backend, "buffer_handle", backend.buffer_handle(buffer));
    backend.empty_cache();
    let _ = backend.memory();
}

#[test]
fn device_destroyed_mid_way_is_lost_everywhere() {
    for entry in entries() {
        for at in 0..12u32 {
            let entry = entry.clone();
            within_seconds(60, move || {
                let backend = entry.open(Options::default()).unwrap();
                let buffer = upload(&backend, &[0; 64]);
                let mut pending = Vec::new();
                for step in 0..12 {
                    if step == at {
                        backend.device().destroy();
                    }
                    // Whether these succeed depends on when the loss is noticed; they may not panic or hang.
                    let _ = backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &buffer)]);
                    if step % 3 == 0 {
                        pending.push(backend.read(&buffer, 0..4));
                    }
                    if step % 5 == 0 {
                        let _ = backend.flush();
                    }
                }
                for (index, read) in pending.into_iter().enumerate() {
                    let result = pollster::block_on(read);
                    if let Ok(bytes) = result {
                        assert!(3 * index as u32 <= at, "step {at}: a read after the loss gave {bytes:?}");
                    }
                }
                assert_every_call_says_lost(&backend, &buffer);
                drop(backend);
                drop(buffer);
            });
        }
        // The machine is fine: a new device on the same adapter works.
        common::assert_alive(&entry.open(Options::default()).unwrap());
    }
}

/// The bytes have arrived in a buffer, and then the device is destroyed. The read gives the bytes or says that the device is lost.
///
/// A device destroyed a moment later, when the bytes are copied and the buffer is about to be given back, is met by chance alone, in
/// `device_destroyed_mid_way_is_lost_everywhere`.
#[test]
fn device_destroyed_when_a_read_has_arrived_is_lost() {
    for entry in entries() {
        within_seconds(60, move || {
            for is_applications in [false, true] {
                let own = entry.open(Options::default()).unwrap();
                let backend = if is_applications { on_application_device(&own) } else { own };
                let buffer = upload(&backend, &[7; 64]);
                let read = backend.read(&buffer, 0..4);
                backend.synchronize().unwrap();
                backend.device().destroy();
                match pollster::block_on(read) {
                    Ok(bytes) => assert_eq!(bytes, [7, 0, 0, 0]),
                    refused => assert_lost(&backend, "read", refused),
                }
                assert_every_call_says_lost(&backend, &buffer);
            }
        });
    }
}

#[test]
fn destroyed_device_of_an_application_is_found_out() {
    for entry in entries() {
        within_seconds(60, move || {
            let own = entry.open(Options::default()).unwrap();
            let (device, queue) = (own.device().clone(), own.queue().clone());
            let backend = WgpuBackend::from_wgpu(device.clone(), queue, "shared", None).unwrap();
            let buffer = upload(&backend, &[1]);
            common::assert_alive(&backend);
            device.destroy();
            assert_every_call_says_lost(&backend, &buffer);
        });
    }
}

/// A backend on a device as an application opens it: nobody handles its errors or tells the backend of its loss.
fn on_application_device(own: &WgpuBackend) -> WgpuBackend {
    let (device, queue) = (own.device().clone(), own.queue().clone());
    // What wgpu does by itself.
    device.on_uncaptured_error(Arc::new(|error| panic!("nobody handles {error}")));
    WgpuBackend::from_wgpu(device, queue, "shared", None).unwrap()
}

#[test]
fn destroyed_device_without_handlers_is_lost_to_timed() {
    for entry in entries() {
        for within in [false, true] {
            let entry = entry.clone();
            within_seconds(60, move || {
                let own = entry.open(Options::default()).unwrap();
                let backend = on_application_device(&own);
                let buffer = upload(&backend, &[1]);
                common::assert_alive(&backend);
                if !within {
                    backend.device().destroy();
                }
                let timed = backend.timed(&mut || {
                    backend.device().destroy();
                    backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &buffer)])
                });
                assert_lost(&backend, "timed", timed);
                assert_every_call_says_lost(&backend, &buffer);
            });
        }
    }
}

#[test]
fn destroyed_device_without_handlers_is_lost_to_synchronize() {
    for entry in entries() {
        for after in 0..4 {
            let entry = entry.clone();
            within_seconds(60, move || {
                let own = entry.open(Options::default()).unwrap();
                let backend = on_application_device(&own);
                let buffer = upload(&backend, &[1]);
                backend.synchronize().unwrap();
                backend.device().destroy();
                // They may succeed: it is waiting that finds out.
                let _ = match after {
                    0 => Ok(()),
                    1 => backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &buffer)]),
                    2 => backend.write(&buffer, 0, &[1, 2, 3, 4]),
                    _ => backend.write(&buffer, 0, &[1, 2, 3, 4]).and_then(|()| backend.flush()),
                };
                assert_lost(&backend, "synchronize", backend.synchronize());
                assert_every_call_says_lost(&backend, &buffer);
            });
        }
    }
}

/// What a user calls, on tensors made before the loss and after it.
#[test]
fn tensors_of_a_lost_device_say_so() {
    for entry in entries() {
        within_seconds(60, move || {
            let device = Device::new(entry.open(Options::default()).unwrap());
            let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0, 4.0], [2, 2]).unwrap();
            let backend = device.backend_as::<WgpuBackend>().unwrap();
            let recording = device.record(|| x.add(&x)).unwrap();
            backend.device().destroy();
            // A read waits for the device, and finds the loss out; before it, work may still be taken.
            assert_lost(backend, "to_vec", x.to_vec::<f32>());
            assert_lost(backend, "item", x.select(0, 0).unwrap().select(0, 0).unwrap().item::<f32>());
            assert_lost(backend, "from_slice", Tensor::from_slice(&device, &[1.0f32], [1]));
            assert_lost(backend, "write", x.write(&[0.0f32; 4]));
            assert_lost(backend, "add", x.add(&x));
            assert_lost(backend, "matmul", x.matmul(&x));
            assert_lost(backend, "assign", x.assign(&x));
            assert_lost(backend, "softmax", x.softmax(1));
            assert_lost(backend, "quantize", x.quantize(DType::I8, Granularity::PerRow).map(drop));
            let uniform = Distribution::Uniform { low: 0.0, high: 1.0 };
            assert_lost(backend, "random", Tensor::random(&device, DType::F32, [4], uniform, 0, 0));
            assert_lost(backend, "record", device.record(|| x.add(&x)).map(drop));
            assert_lost(backend, "replay", recording.replay().map(drop));
            assert_lost(backend, "synchronize", device.synchronize());
            // What is wrong with a request itself is said first.
            assert!(matches!(x.reshape([3]), Err(Error::ReshapeSize { from: 4, to: 3, .. })));
            let fresh = Device::new(entry.open(Options::default()).unwrap());
            assert_lost(backend, "to_device", x.to_device(&fresh));
            let moved = Tensor::from_slice(&fresh, &[1.0f32, 2.0], [2]).unwrap();
            assert_eq!(moved.add(&moved).unwrap().to_vec::<f32>().unwrap(), [2.0, 4.0]);
        });
    }
}

#[test]
fn mark_lost_stops_every_call() {
    let backend = common::first();
    let buffer = upload(&backend, &[1]);
    backend.mark_lost("the application said so");
    assert_every_call_says_lost(&backend, &buffer);
}

/// With a grid of 65535 x 65535 this runs for days. A single endless loop does not serve: llvmpipe leaves every loop after
/// 65,535 rounds, whatever the shader says.
const ENDLESS: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<atomic<u32>>;
    @compute @workgroup_size(64) fn main() { loop { if atomicAdd(&x[0], 1u) == 5u && atomicLoad(&x[1]) == 7u { break; } } }";

#[test]
fn endless_kernel_loses_the_device_and_the_process_lives() {
    // In a child process: a software driver runs the kernel for as long as its process lives.
    if let Ok(api) = std::env::var("POLYWARP_TEST_ENDLESS") {
        let entry = entries().into_iter().find(|entry| entry.api == api).unwrap();
        let options = Options { patience: Some(Duration::from_millis(500)), ..Options::default() };
        let backend = entry.open(options).unwrap();
        let buffer = upload(&backend, &[0, 0]);
        let read = backend.read(&buffer, 0..4);
        backend.launch(&polywarp_core::Kernel::wgsl(ENDLESS), [65535, 65535, 1], &[bind(0, &buffer)]).unwrap();
        let late = backend.read(&buffer, 0..4);
        assert_eq!(pollster::block_on(read).unwrap(), [0; 4]);
        assert_lost(&backend, "read", pollster::block_on(late));
        assert_every_call_says_lost(&backend, &buffer);
        drop((backend, buffer));
        // A second device would wait behind the kernel: llvmpipe has one set of threads for all of them.
        println!("LIVES");
        std::process::exit(0);
    }
    for entry in entries() {
        // A hardware driver resets the GPU, which would fail other programs' work; GL's calls themselves wait for the kernel.
        if entry.kind != polywarp_core::DeviceKind::Software || entry.api == "gl" {
            continue;
        }
        let mut child = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "--nocapture", "lost::endless_kernel_loses_the_device_and_the_process_lives"])
            .env("POLYWARP_TEST_ENDLESS", entry.api)
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        let started = std::time::Instant::now();
        while child.try_wait().unwrap().is_none() && started.elapsed() < Duration::from_secs(60) {
            std::thread::sleep(Duration::from_millis(50));
        }
        // A driver may wait for its own threads at exit; what counts is what the process did before.
        let _ = child.kill();
        let out = child.wait_with_output().unwrap();
        let text = String::from_utf8_lossy(&out.stdout);
        assert!(text.contains("LIVES"), "{} {:?}: {text}", entry.api, out.status);
        println!("{}: ended by itself after {:?}: {}", entry.api, started.elapsed(), out.status.success());
    }
}

#[test]
fn devices_open_and_close_many_times() {
    for entry in entries() {
        for _ in 0..10 {
            let backend = entry.open(Options::default()).unwrap();
            common::assert_alive(&backend);
        }
    }
}
