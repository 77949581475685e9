//! The CPU device among threads: what one of them holds, none waits for that it waits for.

use std::sync::mpsc;
use std::time::Duration;

use polywarp_core::cpu::CpuBackend;
use polywarp_core::{DType, Device, Tensor};

#[test]
fn threads_that_assign_to_each_others_operands_come_to_an_end() {
    let device = Device::new(CpuBackend::new());
    let [a, b] = [1.0, 2.0].map(|value| Tensor::full(&device, DType::F32, [4], value).unwrap());
    let (done, all) = mpsc::channel();
    for (to, from) in [(a.clone(), b.clone()), (b, a)] {
        let done = done.clone();
        std::thread::spawn(move || {
            (0..100_000).for_each(|_| to.assign(&from).unwrap());
            done.send(()).unwrap();
        });
    }
    for _ in 0..2 {
        all.recv_timeout(Duration::from_secs(300)).expect("both wait for each other");
    }
}

/// A thread that waits for the last parts of its operation takes no other task meanwhile: that could want a tensor which the
/// operation holds.
#[test]
fn tasks_of_a_pool_that_share_tensors_come_to_an_end() {
    let (done, sum) = mpsc::channel();
    std::thread::spawn(move || {
        let device = Device::new(CpuBackend::new());
        let ones = |shape: [u64; 2]| Tensor::full(&device, DType::F32, shape, 1.0).unwrap();
        let (shared, one, square) = (ones([512, 640]), ones([512, 640]), ones([640, 640]));
        let pool = rayon::ThreadPoolBuilder::new().num_threads(4).build().unwrap();
        pool.scope(|scope| {
            for task in 0..300 {
                let (shared, one, square) = (&shared, &one, &square);
                scope.spawn(move |_| match task % 3 {
                    0 => shared.assign(one).unwrap(),
                    1 => drop(shared.sum([0, 1]).unwrap()),
                    _ => drop(shared.matmul(square).unwrap()),
                });
            }
        });
        done.send(shared.to_vec::<f32>().unwrap()).unwrap();
    });
    let shared = sum.recv_timeout(Duration::from_secs(100)).expect("a task waits for one that it interrupted");
    assert!(shared.iter().all(|x| *x == 1.0));
}

/// Where the system refuses threads, the CPU computes on its caller's. (Stacks larger than any address space are refused.)
#[test]
fn refused_threads_leave_the_caller() {
    const NAME: &str = "threads::refused_threads_leave_the_caller";
    const CHILD: &str = "POLYWARP_TEST_REFUSED_THREADS";
    if std::env::var_os(CHILD).is_none() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        child
            .args(["--exact", NAME, "--test-threads", "1"])
            .env(CHILD, "1")
            .env("RUST_MIN_STACK", (1_u64 << 60).to_string());
        let output = child.output().unwrap();
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(
            output.status.success() && said.contains("1 passed"),
            "{said}{}",
            String::from_utf8_lossy(&output.stderr)
        );
        return;
    }
    assert!(std::thread::Builder::new().spawn(|| ()).is_err(), "threads are not refused");
    // Somebody else may have tried before.
    assert!(rayon::ThreadPoolBuilder::new().build_global().is_err());
    let device = Device::new(CpuBackend::new());
    assert_eq!(device.info().threads, Some(1));
    let ones = Tensor::full(&device, DType::F32, [300, 300], 1.0).unwrap();
    assert_eq!(ones.matmul(&ones).unwrap().to_vec::<f32>().unwrap(), vec![300.0; 300 * 300]);
}
