//! Memory: reads and writes of any alignment, reuse and its counts, limits, sizes that no device has.

use super::words::upload;
use super::{Answer, Test, demand, outcome};
use crate::harness::ReferenceBackend;
use crate::harness::bad_input::{Row, still_computes};
use crate::{Backend, Device, Error, Result, Tensor};

pub(super) const ROWS: &[(&str, Test)] = &[
    ("write and read of any alignment touch only their bytes", any_alignment),
    ("write and read outside of a buffer", outside),
    ("empty buffer and empty read", empty),
    ("buffer of another device", foreign),
    ("buffers that come again cost the driver nothing", settles),
    ("cache given back on request", emptied),
    ("memory limit", limit),
    ("sizes beyond the device", absurd),
    ("tensor dropped on another thread", other_thread),
];

fn any_alignment(device: &Device) -> Result<Answer> {
    let backend = device.backend();
    let size = 23u64;
    let start: Vec<u8> = (0..size as u8).map(|i| 200 + i).collect();
    for offset in 0..9u64 {
        for len in 0..=9u64 {
            let buffer = backend.alloc(size)?;
            backend.write(&buffer, 0, &start)?;
            let data: Vec<u8> = (0..len as u8).map(|i| 1 + i).collect();
            backend.write(&buffer, offset, &data)?;
            let mut expected = start.clone();
            expected[offset as usize..(offset + len) as usize].copy_from_slice(&data);
            demand!(backend.read_blocking(&buffer, 0..size)? == expected, "write of {len} bytes at {offset}");
            let part = backend.read_blocking(&buffer, offset..offset + len)?;
            demand!(part == data, "read of {len} bytes at {offset}: {part:?}");
        }
    }
    // The last word in part.
    let tail = backend.alloc(7)?;
    backend.write(&tail, 0, &[9; 7])?;
    backend.write(&tail, 5, &[1, 2])?;
    let seen = backend.read_blocking(&tail, 0..7)?;
    demand!(seen == [9, 9, 9, 9, 9, 1, 2], "{seen:?}");
    Ok(Ok(()))
}

fn outside(device: &Device) -> Result<Answer> {
    let backend = device.backend();
    let buffer = backend.alloc(10)?;
    let size = buffer.size_bytes(); // 10 or more
    for (offset, len) in [(size - 2, 3usize), (size + 1, 0), (u64::MAX, 1)] {
        let refused = backend.write(&buffer, offset, &vec![0; len]);
        demand!(is_outside(&refused), "{offset} {len}: {refused:?}");
    }
    #[expect(clippy::reversed_empty_ranges)]
    for range in [size - 2..size + 1, 5..4, 0..u64::MAX] {
        let refused = backend.read_blocking(&buffer, range.clone());
        demand!(is_outside(&refused), "{range:?}: {refused:?}");
    }
    Ok(Ok(()))
}

/// Refused as a range of bytes, or as a view, that leaves the buffer.
fn is_outside<T>(answer: &Result<T>) -> bool {
    matches!(answer, Err(Error::InvalidArgument { what: "read" | "write", .. } | Error::ViewOutOfBounds { .. }))
}

fn empty(device: &Device) -> Result<Answer> {
    let backend = device.backend();
    let (buffer, nothing) = (backend.alloc(10)?, backend.alloc(0)?);
    backend.write(&nothing, 0, &[])?;
    let read = [backend.read_blocking(&buffer, 3..3)?, backend.read_blocking(&nothing, 0..0)?];
    demand!(read.iter().all(Vec::is_empty), "{read:?}");
    Ok(Ok(()))
}

fn foreign(device: &Device) -> Result<Answer> {
    let buffer = ReferenceBackend::default().alloc(4)?;
    let backend = device.backend();
    let write = backend.write(&buffer, 0, &[1]);
    demand!(matches!(write, Err(Error::DeviceMismatch { .. })), "write: {write:?}");
    let read = backend.read_blocking(&buffer, 0..4);
    demand!(matches!(read, Err(Error::DeviceMismatch { .. })), "read: {read:?}");
    Ok(Ok(()))
}

fn settles(device: &Device) -> Result<Answer> {
    let sizes: Vec<u64> = (0..200u64).map(|i| 1 + (i * 7919) % 300_000).collect();
    let round = || sizes.iter().map(|&size| device.backend().alloc(size)).collect::<Result<Vec<_>>>();
    // What others left in the cache would serve the first round and not the next.
    device.empty_cache();
    let before = device.memory().in_use_bytes;
    let held = round()?;
    let in_use = device.memory().in_use_bytes - before;
    demand!(in_use >= sizes.iter().sum(), "{in_use} bytes are said to be in use");
    drop(held);
    let settled = device.memory();
    if settled.cached_bytes == 0 {
        return Ok(Ok(())); // it keeps nothing, as a backend may
    }
    for _ in 0..5 {
        drop(round()?);
    }
    let after = device.memory();
    let asked = after.driver_allocations - settled.driver_allocations;
    // Which block serves which size may shift a little from round to round.
    demand!(asked <= 10, "{asked} more allocations of the driver for a thousand of the same sizes");
    demand!(after.in_use_bytes == before, "{} bytes in use before, {} after", before, after.in_use_bytes);
    demand!(after.peak_bytes >= before + in_use, "{} bytes at most, {} were in use", after.peak_bytes, in_use);
    Ok(Ok(()))
}

fn emptied(device: &Device) -> Result<Answer> {
    let kept = upload(device.backend(), &[1, 2, 3])?;
    drop(device.backend().alloc(1 << 20)?);
    device.empty_cache();
    let cached = device.memory().cached_bytes;
    demand!(cached == 0, "{cached} bytes are still cached");
    let seen = super::words::download(device.backend(), &kept, 3)?;
    demand!(seen == [1, 2, 3], "{seen:?}");
    Ok(Ok(()))
}

/// Sets the limit that was, whatever a test left.
struct Limit<'a>(&'a Device, Option<u64>);

impl Drop for Limit<'_> {
    fn drop(&mut self) {
        self.0.set_memory_limit(self.1);
    }
}

fn limit(device: &Device) -> Result<Answer> {
    const MIB: u64 = 1 << 20;
    let backend = device.backend();
    device.empty_cache();
    let memory = device.memory();
    let before = memory.in_use_bytes;
    let limit = before + 4 * MIB;
    let _restored = Limit(device, memory.limit_bytes);
    device.set_memory_limit(Some(limit));
    let kept = backend.alloc(3 * MIB)?;
    match backend.alloc(2 * MIB) {
        Err(Error::OutOfMemory { device: named, requested, in_use, limit: told, .. }) => {
            demand!(named == device.id() && requested == 2 * MIB, "{named}: {requested}");
            demand!(in_use == before + 3 * MIB && told == Some(limit), "in use {in_use}, limit {told:?}");
        }
        other => demand!(false, "beyond the limit: {other:?}"),
    }
    drop(kept);
    // What is cached makes room.
    let other = backend.alloc(4 * MIB)?;
    let held = device.memory();
    demand!(held.in_use_bytes + held.cached_bytes <= limit, "{held:?} under a limit of {limit}");
    drop(other);
    device.set_memory_limit(Some(before + MIB));
    let cached = device.memory().cached_bytes;
    demand!(cached <= MIB, "{cached} bytes cached under a limit of {MIB}");
    let refused = backend.alloc(2 * MIB);
    demand!(matches!(refused, Err(Error::OutOfMemory { .. })), "under the lower limit: {refused:?}");
    device.set_memory_limit(None);
    backend.alloc(8 * MIB)?;
    Ok(Ok(()))
}

fn absurd(device: &Device) -> Result<Answer> {
    let limits = device.info().limits;
    let asked = device.memory().driver_allocations;
    for size in [1 << 60, u64::MAX, limits.max_buffer_bytes.saturating_add(1)] {
        match device.backend().alloc(size) {
            Err(Error::BufferTooBig { requested, max, .. }) => {
                demand!(requested == size && max == limits.max_buffer_bytes, "{size}: {requested} of {max}");
            }
            other => demand!(false, "{size} bytes: {other:?}"),
        }
    }
    let between = limits.max_binding_bytes.saturating_add(1);
    if between <= limits.max_buffer_bytes {
        match device.backend().alloc(between) {
            Err(Error::BindingTooLarge { size, limit, .. }) => {
                demand!(size == between && limit <= limits.max_binding_bytes, "{size} of {limit}");
            }
            other => demand!(false, "{between} bytes in one binding: {other:?}"),
        }
    }
    demand!(device.memory().driver_allocations == asked, "the driver was asked");
    Ok(Ok(()))
}

fn other_thread(device: &Device) -> Result<Answer> {
    let x = Tensor::from_slice(device, &[1.0f32; 1000], [1000])?;
    let sum = x.sum(..)?; // may not have begun yet
    demand!(std::thread::spawn(move || drop(x)).join().is_ok(), "dropping it panicked");
    let sum = sum.item::<f32>()?;
    demand!(sum == 1000.0, "its sum became {sum}");
    Ok(Ok(()))
}

/// A tensor outlives every other handle of its device, and a buffer even that, on another thread: no panic, and what
/// `open` gives next computes correctly.
pub fn outlived(open: &dyn Fn() -> Result<Device>) -> Row {
    let test = || -> Result<Answer> {
        let device = open()?;
        let x = Tensor::from_slice(&device, &[1.0f32, 2.0, 3.0], [3])?;
        drop(device);
        let doubled = x.add(&x)?;
        let buffer = doubled.buffer().clone();
        let seen: Vec<f32> = doubled.to_vec()?;
        demand!(seen == [2.0, 4.0, 6.0], "{seen:?}");
        drop((x, doubled));
        demand!(std::thread::spawn(move || drop(buffer)).join().is_ok(), "dropping the buffer panicked");
        Ok(still_computes(&open()?))
    };
    let result = test().unwrap_or_else(|error| Err(format!("failed: {error}")));
    Row { name: "tensors that outlive their device", result }
}

/// A driver without memory: it is asked again after the cache was given up, and then refused with every figure. `inject`
/// makes the next so many allocations of the driver fail.
pub fn driver_out_of_memory(device: &Device, inject: &dyn Fn(u32)) -> Row {
    let test = |device: &Device| {
        let backend = device.backend();
        device.empty_cache();
        let before = device.memory().in_use_bytes;
        drop(backend.alloc(1 << 20)?);
        demand!(device.memory().cached_bytes > 0, "nothing is cached");
        inject(1);
        let saved = backend.alloc(8 << 20)?;
        demand!(device.memory().cached_bytes == 0, "the cache was not given up before the second attempt");
        inject(2);
        match backend.alloc(16 << 20) {
            Err(Error::OutOfMemory { requested, in_use, cached: 0, limit: None, .. }) => {
                demand!(requested == 16 << 20 && in_use == before + (8 << 20), "{requested}, {in_use} in use");
            }
            other => demand!(false, "after two failures: {other:?}"),
        }
        demand!(device.memory().in_use_bytes == before + (8 << 20), "{:?}", device.memory());
        backend.alloc(16 << 20)?;
        drop(saved);
        Ok(Ok(()))
    };
    Row { name: "driver without memory", result: outcome(device, test) }
}
