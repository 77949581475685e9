//! Order: every call sees the effects of all earlier ones, from one thread or many, read now or later.

use super::words::{add_kernel, bind, copy_add_kernel, download, launch, upload, wait, words};
use super::{Answer, Test, demand};
use crate::{Device, ReadFuture, Result};

pub(super) const ROWS: &[(&str, Test)] = &[
    ("read sees the bytes of its moment", read_in_turn),
    ("read that nobody awaits", unawaited),
    ("buffer dropped while it is read", dropped_while_read),
];

pub(super) const KERNEL_ROWS: &[(&str, Test)] = &[
    ("write does not overtake a kernel", write_after_use),
    ("memory handed out again does not overtake a kernel", reuse_after_use),
    ("write of part of a word follows a kernel", partial_word),
    ("long chain of kernels", long_chain),
    ("read sees the kernels before it and none after", read_between_kernels),
    ("threads share the device", threads),
];

fn read_in_turn(device: &Device) -> Result<Answer> {
    let x = upload(device.backend(), &[0; 16])?;
    let mut reads: Vec<ReadFuture> = Vec::new();
    for round in 0..10u8 {
        reads.push(device.backend().read(&x, 0..64));
        device.backend().write(&x, 0, &[round + 1; 64])?;
    }
    // Awaited in reverse, without anybody polling the device.
    for (round, read) in reads.into_iter().enumerate().rev() {
        let seen = wait(read)?;
        demand!(seen == [round as u8; 64], "read {round}: {seen:?}");
    }
    Ok(Ok(()))
}

fn unawaited(device: &Device) -> Result<Answer> {
    let x = upload(device.backend(), &[1; 16])?;
    (0..20).for_each(|_| drop(device.backend().read(&x, 0..64)));
    let seen = download(device.backend(), &x, 16)?;
    demand!(seen == [1; 16], "{seen:?}");
    Ok(Ok(()))
}

fn dropped_while_read(device: &Device) -> Result<Answer> {
    let x = upload(device.backend(), &[7; 1000])?;
    let read = device.backend().read(&x, 0..4000);
    drop(x);
    // Takes the memory that is being read, if it is handed out too early.
    let y = upload(device.backend(), &[8; 1000])?;
    let seen = words(&wait(read)?);
    demand!(seen == [7; 1000] && download(device.backend(), &y, 1000)? == [8; 1000], "{:?}", &seen[..4]);
    Ok(Ok(()))
}

fn write_after_use(device: &Device) -> Result<Answer> {
    let (x, y) = (upload(device.backend(), &[10; 64])?, upload(device.backend(), &[0; 64])?);
    launch(device.backend(), &copy_add_kernel(), &[bind(0, &x), bind(1, &y)])?;
    device.backend().write(&x, 0, &77u32.to_le_bytes())?;
    let (y, x) = (download(device.backend(), &y, 64)?, download(device.backend(), &x, 64)?);
    demand!(y == [11; 64] && x[..2] == [77, 10], "{:?} {:?}", &y[..2], &x[..2]);
    Ok(Ok(()))
}

fn reuse_after_use(device: &Device) -> Result<Answer> {
    let (y, x) = (upload(device.backend(), &[0; 64])?, upload(device.backend(), &[5; 64])?);
    launch(device.backend(), &copy_add_kernel(), &[bind(0, &x), bind(1, &y)])?;
    drop(x);
    // The pool may hand out the same memory, which the kernel still has to read.
    let z = upload(device.backend(), &[1000; 64])?;
    let (y, z) = (download(device.backend(), &y, 64)?, download(device.backend(), &z, 64)?);
    demand!(y == [6; 64] && z == [1000; 64], "{:?} {:?}", &y[..2], &z[..2]);
    Ok(Ok(()))
}

fn partial_word(device: &Device) -> Result<Answer> {
    let x = upload(device.backend(), &[0x0101_0101; 8])?;
    launch(device.backend(), &add_kernel(1), &[bind(0, &x)])?;
    device.backend().write(&x, 5, &[0xaa, 0xbb])?;
    launch(device.backend(), &add_kernel(1), &[bind(0, &x)])?;
    let seen = download(device.backend(), &x, 8)?;
    demand!(seen[..3] == [0x0101_0103, 0x01bb_aa03, 0x0101_0103], "{seen:x?}");
    Ok(Ok(()))
}

fn long_chain(device: &Device) -> Result<Answer> {
    let (a, b) = (upload(device.backend(), &[0; 100])?, upload(device.backend(), &[0; 100])?);
    let kernel = copy_add_kernel();
    const ROUNDS: u32 = 300;
    for _ in 0..ROUNDS {
        launch(device.backend(), &kernel, &[bind(0, &a), bind(1, &b)])?;
        launch(device.backend(), &kernel, &[bind(0, &b), bind(1, &a)])?;
    }
    let seen = download(device.backend(), &a, 100)?;
    demand!(seen == [2 * ROUNDS; 100], "{:?} after {} kernels", &seen[..2], 2 * ROUNDS);
    Ok(Ok(()))
}

fn read_between_kernels(device: &Device) -> Result<Answer> {
    let x = upload(device.backend(), &[0; 16])?;
    let mut reads: Vec<ReadFuture> = Vec::new();
    for _ in 0..10 {
        reads.push(device.backend().read(&x, 0..64));
        launch(device.backend(), &add_kernel(3), &[bind(0, &x)])?;
    }
    for (round, read) in reads.into_iter().enumerate().rev() {
        let seen = words(&wait(read)?);
        demand!(seen == [3 * round as u32; 16], "read {round}: {seen:?}");
    }
    Ok(Ok(()))
}

fn threads(device: &Device) -> Result<Answer> {
    let work = |thread: u32| -> Result<Answer> {
        let kernel = copy_add_kernel();
        for round in 0..20u32 {
            let seed = 1000 * thread + round;
            let (a, b) = (upload(device.backend(), &[seed; 100])?, upload(device.backend(), &[0; 100])?);
            for _ in 0..3 {
                launch(device.backend(), &kernel, &[bind(0, &a), bind(1, &b)])?;
                launch(device.backend(), &kernel, &[bind(0, &b), bind(1, &a)])?;
            }
            let seen = if round % 2 == 0 {
                download(device.backend(), &a, 100)?
            } else {
                let read = device.backend().read(&a, 0..400);
                drop((a, b));
                words(&wait(read)?)
            };
            demand!(seen == [seed + 6; 100], "thread {thread}, round {round}: {:?}, wanted {}", &seen[..2], seed + 6);
        }
        Ok(Ok(()))
    };
    let answers: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..8).map(|thread| scope.spawn(move || work(thread))).collect();
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Ok(Err("a thread panicked".to_owned()))))
            .collect()
    });
    answers.into_iter().find(|answer| !matches!(answer, Ok(Ok(())))).unwrap_or(Ok(Ok(())))
}
