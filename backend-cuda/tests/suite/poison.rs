//! Faults on the device: every later call answers with a typed error, reads resolve, nothing hangs or panics.
//!
//! Each fault happens in a child process, for the process it happens in is done with the card.

use std::sync::Mutex;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::common::{self, add_kernel, bind, first, is_child, upload};
use polywarp_core::{Backend, Buffer, Error, Kernel};
use polywarp_cuda::{CudaBackend, Options};

/// Runs the test `name` in a child process, where there is a card.
fn in_child(name: &str) {
    if !common::usable().is_empty() {
        // For the interpreted driver, to which no kernel is endless by itself.
        common::in_child(name, &[("INTERPRETED_ENDLESS", "4000000000")]);
    }
}

fn assert_every_call_fails(backend: &CudaBackend, buffer: &Buffer, is: impl Fn(&Error) -> bool) {
    let check = |what: &str, result: Result<(), Error>| match result {
        Err(error) if is(&error) => {}
        other => panic!("{what}: {other:?}"),
    };
    check("read_blocking", backend.read_blocking(buffer, 0..4).map(|_| ()));
    check("read", pollster::block_on(backend.read(buffer, 0..4)).map(|_| ()));
    check("alloc", backend.alloc(4).map(|_| ()));
    check("write", backend.write(buffer, 0, &[1, 2, 3, 4]));
    check("launch", backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, buffer)]));
    check("flush", backend.flush());
    check("synchronize", backend.synchronize());
    check("timed", backend.timed(&mut || Ok(())).map(|_| ()));
    check("begin_recording", backend.begin_recording());
    check("record_event", backend.record_event().map(|_| ()));
    backend.empty_cache();
    let _ = backend.memory();
}

/// A kernel whose one buffer is memory that is not there.
fn fault(backend: &CudaBackend) {
    // SAFETY: none: this is the fault under test. The process is the test's own and does nothing else on the card.
    let nowhere = unsafe { backend.wrap(0x10, 1 << 20, Box::new(())) }.unwrap();
    backend.launch(&add_kernel(1), [64, 1, 1], &[bind(0, &nowhere)]).unwrap();
}

#[test]
fn illegal_address_poisons_every_later_call() {
    const NAME: &str = "illegal_address_poisons_every_later_call";
    if !is_child(NAME) {
        return in_child(NAME);
    }
    let Some(backend) = first() else { return };
    let buffer = upload(&backend, &[1, 2, 3]);
    let early = backend.read(&buffer, 0..12);
    assert_eq!(common::words(&pollster::block_on(early).unwrap()), [1, 2, 3]);
    fault(&backend);
    let pending: Vec<_> = (0..5).map(|_| backend.read(&buffer, 0..4)).collect();
    for read in pending {
        let answer = pollster::block_on(read);
        assert!(matches!(answer, Err(Error::DevicePoisoned { .. })), "{answer:?}");
    }
    assert_every_call_fails(&backend, &buffer, |error| match error {
        Error::DevicePoisoned { device, first_error, op } => {
            device == "cuda:0" && first_error.contains("ILLEGAL_ADDRESS") && !op.is_empty()
        }
        _ => false,
    });
    assert!(backend.synchronize().unwrap_err().to_string().contains("restart the process"));
    // A second device on the same card of the same process cannot work either, and says why.
    let second = common::usable()[0].open(Options::default()).and_then(|second| second.alloc(4).map(|_| ()));
    assert!(matches!(second, Err(Error::DevicePoisoned { .. })), "{second:?}");
    drop(buffer);
    drop(backend);
    println!("SURVIVED");
}

#[test]
fn poison_in_the_middle_of_a_replay_and_of_threads_is_survived() {
    const NAME: &str = "poison_in_the_middle_of_a_replay_and_of_threads_is_survived";
    if !is_child(NAME) {
        return in_child(NAME);
    }
    let Some(backend) = first() else { return };
    let x = upload(&backend, &[0; 64]);
    backend.begin_recording().unwrap();
    backend.launch(&add_kernel(1), [1, 1, 1], &[bind(0, &x)]).unwrap();
    let recorded = backend.end_recording().unwrap();
    std::thread::scope(|scope| {
        for thread in 0..8 {
            let (backend, recorded, x) = (&backend, &recorded, &x);
            scope.spawn(move || {
                for round in 0..common::scaled(500, 150) {
                    if thread == 3 && round == 100 {
                        fault(backend);
                    }
                    // Whether these succeed depends on when the fault is noticed; they may not panic or hang.
                    let _ = backend.replay(recorded);
                    if round % 10 == thread {
                        let _ = backend.read_blocking(x, 0..4);
                        let _ = backend.write(x, 0, &[1; 16]);
                    }
                }
            });
        }
    });
    let poisoned = backend.synchronize();
    assert!(matches!(poisoned, Err(Error::DevicePoisoned { .. })), "{poisoned:?}");
    drop((recorded, x, backend));
    println!("SURVIVED");
}

/// Runs for longer than anybody waits, though every loop of it ends.
const ENDLESS: &str = "
    @group(0) @binding(0) var<storage, read_write> x: array<atomic<u32>>;
    @compute @workgroup_size(64) fn main() {
        for (var i = 0u; i < 4000000000u; i++) {
            for (var j = 0u; j < 4000000000u; j++) { if atomicAdd(&x[0], 1u) == 5u && atomicLoad(&x[1]) == 7u { return; } }
        }
    }";

#[test]
fn kernel_that_does_not_end_loses_a_device_with_patience() {
    const NAME: &str = "kernel_that_does_not_end_loses_a_device_with_patience";
    if !is_child(NAME) {
        return in_child(NAME);
    }
    let options = Options { patience: Some(Duration::from_millis(500)), ..Options::default() };
    let Some(backend) = common::open(options) else { return };
    let buffer = upload(&backend, &[0, 0]);
    let read = backend.read(&buffer, 0..4);
    backend.launch(&Kernel::wgsl(ENDLESS), [64, 1, 1], &[bind(0, &buffer)]).unwrap();
    let late = backend.read(&buffer, 0..4);
    assert_eq!(pollster::block_on(read).unwrap(), [0; 4]);
    let late = pollster::block_on(late);
    assert!(matches!(late, Err(Error::DeviceLost { .. })), "{late:?}");
    assert_every_call_fails(&backend, &buffer, |error| matches!(error, Error::DeviceLost { .. }));
    // Dropping must not wait for the kernel.
    let (done, dropped) = channel();
    std::thread::spawn(move || {
        drop((buffer, backend));
        let _ = done.send(());
    });
    dropped.recv_timeout(Duration::from_secs(10)).expect("dropping waits for the kernel");
    println!("SURVIVED");
    // Not by returning: the driver's own handlers at exit may wait for the kernel, which ends with the process.
    std::process::abort();
}

/// What was logged at level warn.
struct Warnings(Mutex<Vec<String>>);

impl log::Log for Warnings {
    fn enabled(&self, metadata: &log::Metadata<'_>) -> bool {
        metadata.level() <= log::Level::Warn
    }

    fn log(&self, record: &log::Record<'_>) {
        self.0.lock().unwrap().push(record.args().to_string());
    }

    fn flush(&self) {}
}

#[test]
fn kernel_that_does_not_end_does_not_hang_drop() {
    const NAME: &str = "kernel_that_does_not_end_does_not_hang_drop";
    static WARNINGS: Warnings = Warnings(Mutex::new(Vec::new()));
    if !is_child(NAME) {
        return in_child(NAME);
    }
    log::set_logger(&WARNINGS).unwrap();
    log::set_max_level(log::LevelFilter::Warn);
    // Every wait may take for ever, but that of drop.
    let options = Options { drop_patience: Duration::from_millis(300), ..Options::default() };
    assert_eq!((options.patience, Options::default().drop_patience), (None, Duration::from_secs(5)));
    // A device with nothing under way is dropped without a word.
    let Some(idle) = common::open(options) else { return };
    let buffer = upload(&idle, &[1]);
    idle.synchronize().unwrap();
    drop((buffer, idle));
    assert!(WARNINGS.0.lock().unwrap().is_empty());

    let Some(backend) = common::open(options) else { return };
    let (buffer, kept) = (upload(&backend, &[0, 0]), upload(&backend, &[1; 1 << 20]));
    let event = backend.record_event().unwrap();
    backend.launch(&Kernel::wgsl(ENDLESS), [64, 1, 1], &[bind(0, &buffer)]).unwrap();
    backend.write(&kept, 0, &[1; 4]).unwrap();
    drop(backend.read(&kept, 0..4));
    let (done, dropped) = channel();
    std::thread::spawn(move || {
        let start = Instant::now();
        drop((kept, backend, buffer));
        let _ = done.send(start.elapsed());
    });
    let took = dropped.recv_timeout(Duration::from_secs(20)).expect("dropping waits for the kernel");
    assert!(took >= options.drop_patience, "{took:?}");
    let warnings = WARNINGS.0.lock().unwrap();
    assert!(matches!(&warnings[..], [one] if one.starts_with("cuda:0: ") && one.contains("300ms")), "{warnings:?}");
    let lost = event.is_done();
    assert!(matches!(&lost, Err(Error::DeviceLost { reason, .. }) if reason.contains("dropped")), "{lost:?}");
    println!("SURVIVED");
    // Not by returning: see above.
    std::process::abort();
}

#[test]
fn mark_lost_stops_every_call() {
    let Some(backend) = first() else { return };
    let buffer = upload(&backend, &[1]);
    backend.mark_lost("the application said so");
    assert_every_call_fails(
        &backend,
        &buffer,
        |error| matches!(error, Error::DeviceLost { device, reason } if device == "cuda:0" && reason.contains("application")),
    );
}
