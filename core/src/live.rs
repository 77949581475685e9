//! Which tensors are alive on a device, and what they are for: bytes by tag, and the largest ones when memory is short.
//!
//! A device keeps its book from the first [`Device::tagged`] or [`Device::list_tensors`] on; until then an allocation looks at one flag. A tensor's
//! memory is listed with the shape and dtype that it was made with, and leaves the list with the last tensor that views it. What is not a tensor is
//! not listed: the scratch of operations, and memory kept for reuse, which [`Device::memory`] counts.

use crate::largest::{LISTED, write_tags};
use crate::{Buffer, DType, Device, Error, Largest, LiveTensor, LiveTensors, MemoryStats, Shape, TagMemory};
use serde::Serialize;
use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The tag of tensors made outside of [`Device::tagged`].
const UNTAGGED: &str = "untagged";

/// Memory of a device; see [`Device::memory`]. Fields of [`MemoryStats`] can be read from it directly, and its text is a table.
///
/// The tags count tensors, and `stats` counts buffers: also the scratch of operations, and tensors that no list has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Bytes held, the most so far, kept for reuse, allowed.
    #[serde(flatten)]
    pub stats: MemoryStats,
    /// Bytes of tensors by tag, the largest first; empty where the device keeps no list ([`Device::tagged`]).
    pub tags: Vec<TagMemory>,
}

impl Deref for Memory {
    type Target = MemoryStats;

    fn deref(&self) -> &MemoryStats {
        &self.stats
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemoryStats { in_use_bytes, peak_bytes, cached_bytes, limit_bytes, .. } = self.stats;
        write!(f, "{in_use_bytes} bytes in use, {peak_bytes} at most so far, {cached_bytes} kept for reuse, ")?;
        match limit_bytes {
            Some(limit) => write!(f, "{limit} allowed")?,
            None => write!(f, "no limit")?,
        }
        if self.tags.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        write_tags(f, &self.tags)
    }
}

/// A device's list.
#[derive(Default)]
pub(crate) struct Ledger {
    is_kept: AtomicBool,
    book: Arc<Mutex<Book>>,
}

#[derive(Default)]
struct Book {
    next: u64,
    entries: HashMap<u64, Entry>,
    tags: BTreeMap<Arc<str>, Sums>,
}

impl Book {
    fn tags(&self) -> Vec<TagMemory> {
        let sums = self.tags.iter().map(|(tag, &Sums { in_use_bytes, peak_bytes, tensors })| TagMemory {
            tag: tag.to_string(),
            in_use_bytes,
            peak_bytes,
            tensors,
        });
        let mut tags: Vec<TagMemory> = sums.collect();
        tags.sort_by_key(|tag| std::cmp::Reverse(tag.in_use_bytes));
        tags
    }
}

struct Entry {
    shape: Shape,
    dtype: DType,
    tag: Arc<str>,
    bytes: u64,
}

#[derive(Default)]
struct Sums {
    in_use_bytes: u64,
    peak_bytes: u64,
    tensors: u64,
}

/// A place in a list, held by the buffer that it is about; its end takes it out.
pub(crate) struct Ticket {
    book: Arc<Mutex<Book>>,
    number: u64,
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut book = lock(&self.book);
        if let Some(Entry { tag, bytes, .. }) = book.entries.remove(&self.number)
            && let Some(sums) = book.tags.get_mut(&tag)
        {
            sums.in_use_bytes -= bytes;
            sums.tensors -= 1;
        }
    }
}

fn lock(book: &Mutex<Book>) -> MutexGuard<'_, Book> {
    // Nothing in here panics between two changes that belong together.
    book.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A scope: whose list it is about, and its tag.
type Tagged = (Arc<Mutex<Book>>, Arc<str>);

thread_local! {
    /// The scopes that this thread is in, and whose list each one is about.
    static SCOPES: RefCell<Vec<Tagged>> = const { RefCell::new(Vec::new()) };
}

/// Leaves the innermost scope, also when a panic does.
struct Scope;

impl Drop for Scope {
    fn drop(&mut self) {
        SCOPES.with_borrow_mut(|scopes| scopes.pop());
    }
}

impl Ledger {
    /// `buffer`, newly made for a tensor, with its place in the list where one is kept.
    pub(crate) fn listed(&self, buffer: Buffer, shape: Shape, dtype: DType) -> Buffer {
        if !self.is_kept.load(Ordering::Relaxed) {
            return buffer;
        }
        let tag = SCOPES.with_borrow(|scopes| {
            let innermost = scopes.iter().rev().find(|(book, _)| Arc::ptr_eq(book, &self.book));
            innermost.map_or_else(|| UNTAGGED.into(), |(_, tag)| Arc::clone(tag))
        });
        let bytes = buffer.size_bytes();
        let number = {
            let mut book = lock(&self.book);
            let number = book.next;
            book.next += 1;
            let sums = book.tags.entry(Arc::clone(&tag)).or_default();
            sums.in_use_bytes += bytes;
            sums.peak_bytes = sums.peak_bytes.max(sums.in_use_bytes);
            sums.tensors += 1;
            book.entries.insert(number, Entry { shape, dtype, tag, bytes });
            number
        };
        buffer.with_ticket(Ticket { book: Arc::clone(&self.book), number })
    }

    /// `error` with the largest tensors, where it says that memory is short and a list is kept.
    pub(crate) fn explained(&self, error: Error) -> Error {
        match error {
            Error::OutOfMemory { device, requested, in_use, cached, limit, largest } if largest.0.is_empty() => {
                let mut tensors = self.report().tensors;
                tensors.truncate(LISTED);
                Error::OutOfMemory { device, requested, in_use, cached, limit, largest: Largest(tensors) }
            }
            error => error,
        }
    }

    fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// Bytes by tag, the largest first.
    pub(crate) fn tags(&self) -> Vec<TagMemory> {
        lock(&self.book).tags()
    }

    fn report(&self) -> LiveTensors {
        let book = lock(&self.book);
        let mut tensors: Vec<(u64, LiveTensor)> = book
            .entries
            .iter()
            .map(|(&number, Entry { shape, dtype, tag, bytes })| {
                let (shape, tag) = (shape.dims().to_vec(), tag.to_string());
                (number, LiveTensor { shape, dtype: *dtype, tag, bytes: *bytes })
            })
            .collect();
        let tags = book.tags();
        drop(book);
        // Of equal ones the oldest first.
        tensors.sort_by_key(|(number, tensor)| (std::cmp::Reverse(tensor.bytes), *number));
        LiveTensors { tags, tensors: tensors.into_iter().map(|(_, tensor)| tensor).collect() }
    }
}

impl Device {
    /// Does `work`, whose tensors on this device are listed under `tag`; of nested scopes the innermost counts. It is this thread's work: threads that
    /// `work` starts have tags of their own.
    ///
    /// From here on the device lists its tensors ([`Device::live_tensors`]), and [`Error::OutOfMemory`] names the largest.
    ///
    /// ```
    /// use polywarp_core::{DType, Device, Tensor};
    ///
    /// let device = Device::cpu();
    /// let weights = device.tagged("weights", || Tensor::zeros(&device, DType::F32, [1024]))?;
    /// let live = device.live_tensors();
    /// assert_eq!((live.tags[0].tag.as_str(), live.tags[0].in_use_bytes), ("weights", 4096));
    /// drop(weights);
    /// let live = device.live_tensors();
    /// assert_eq!((live.tags[0].in_use_bytes, live.tags[0].peak_bytes), (0, 4096));
    /// # Ok::<(), polywarp_core::Error>(())
    /// ```
    pub fn tagged<T>(&self, tag: &str, work: impl FnOnce() -> T) -> T {
        let ledger = self.ledger();
        ledger.keep();
        SCOPES.with_borrow_mut(|scopes| scopes.push((Arc::clone(&ledger.book), tag.into())));
        let _scope = Scope;
        work()
    }

    /// From here on the device lists its tensors, those outside of [`Device::tagged`] as `untagged`.
    pub fn list_tensors(&self) {
        self.ledger().keep();
    }

    /// The tensors that are alive, of those made since the device lists them ([`Device::tagged`], [`Device::list_tensors`]), with bytes and peak by
    /// tag. Inside of a recording tensors may lie in each other's memory, and each is counted.
    pub fn live_tensors(&self) -> LiveTensors {
        self.ledger().report()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{LiveTensor, LiveTensors, Result, Tensor};

    fn floats(device: &Device, count: u64) -> Result<Tensor> {
        Tensor::zeros(device, DType::F32, [count])
    }

    fn of(device: &Device, tag: &str) -> (u64, u64, u64) {
        let live = device.live_tensors();
        let tag = live.tags.iter().find(|of| of.tag == tag).unwrap();
        (tag.in_use_bytes, tag.peak_bytes, tag.tensors)
    }

    #[test]
    fn device_that_nobody_asked_lists_nothing() {
        let device = Device::cpu();
        let _x = floats(&device, 16).unwrap();
        assert_eq!(device.live_tensors(), LiveTensors::default());
        assert!(device.memory().tags.is_empty());
    }

    #[test]
    fn memory_has_tags_beside_what_all_buffers_hold() {
        let device = Device::cpu();
        let plain = device.memory().to_string();
        assert_eq!(plain, "0 bytes in use, 0 at most so far, 0 kept for reuse, no limit");
        let _before = floats(&device, 16).unwrap();
        let _x = device.tagged("weights", || floats(&device, 32)).unwrap();
        let memory = device.memory();
        assert_eq!(memory.tags, device.live_tensors().tags);
        // What was made before is in no list.
        assert_eq!(memory.tags.iter().map(|tag| tag.in_use_bytes).sum::<u64>(), 128);
        assert!(memory.in_use_bytes >= 192, "{}", memory.in_use_bytes);
        assert!(memory.to_string().lines().nth(2).unwrap().starts_with("weights "), "{memory}");
    }

    #[test]
    fn innermost_scope_of_the_device_is_the_tag() {
        let (device, other) = (Device::cpu(), Device::cpu());
        let [a, b, c] = device.tagged("outer", || {
            let a = floats(&device, 16).unwrap();
            let b = device.tagged("inner", || other.tagged("elsewhere", || floats(&device, 32).unwrap()));
            [a, b, floats(&device, 16).unwrap()]
        });
        let d = floats(&device, 16).unwrap();
        assert_eq!([of(&device, "outer"), of(&device, "inner")], [(128, 128, 2), (128, 128, 1)]);
        assert_eq!(of(&device, UNTAGGED), (64, 64, 1));
        assert!(other.live_tensors().tensors.is_empty());
        // A view keeps it alive, and its last one ends it.
        let view = b.slice(0, ..4).unwrap();
        drop((a, b, c, d));
        assert_eq!([of(&device, "outer"), of(&device, "inner")], [(0, 128, 0), (128, 128, 1)]);
        drop(view);
        assert_eq!(of(&device, "inner"), (0, 128, 0));
    }

    #[test]
    fn panic_in_a_scope_leaves_it() {
        let device = Device::cpu();
        let panicked =
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| device.tagged("gone", || panic!("on purpose"))));
        assert!(panicked.is_err());
        let _x = floats(&device, 16).unwrap();
        assert_eq!(of(&device, UNTAGGED), (64, 64, 1));
    }

    #[test]
    fn short_memory_names_the_largest_tensors() {
        let device = Device::cpu();
        device.set_memory_limit(Some(1 << 20));
        let small = device.tagged("inputs", || floats(&device, 1 << 10)).unwrap();
        let large = device.tagged("activations", || floats(&device, 1 << 17)).unwrap();
        let error = floats(&device, 1 << 18).unwrap_err();
        let Error::OutOfMemory { largest, .. } = &error else { panic!("{error}") };
        let tensor = |tag: &str, count: u64| LiveTensor {
            shape: vec![count],
            dtype: DType::F32,
            tag: tag.to_owned(),
            bytes: 4 * count,
        };
        assert_eq!(largest.0, [tensor("activations", 1 << 17), tensor("inputs", 1 << 10)]);
        let text = error.to_string();
        assert!(text.contains("largest: f32 [131072] of activations (524288 bytes), f32 [1024] of inputs"), "{text}");
        drop((small, large));
        assert!(floats(&device, 1 << 17).is_ok());
    }

    #[test]
    fn without_a_list_it_is_said_how_to_have_one() {
        let device = Device::cpu();
        device.set_memory_limit(Some(1 << 10));
        // Nothing to name yet.
        let text = floats(&device, 1 << 10).unwrap_err().to_string();
        assert!(text.ends_with("drop tensors or split the batch"), "{text}");
        let held = floats(&device, 16).unwrap();
        let text = floats(&device, 1 << 10).unwrap_err().to_string();
        let way = "; tensors made after a call of Device::list_tensors are named here, the largest first";
        assert!(text.ends_with(way), "{text}");
        let table = device.live_tensors().to_string();
        assert!(table.ends_with("made after a call of Device::list_tensors or Device::tagged"), "{table}");
        device.list_tensors();
        let listed = floats(&device, 16).unwrap();
        let text = floats(&device, 1 << 10).unwrap_err().to_string();
        assert!(text.ends_with("largest: f32 [16] of untagged (64 bytes)"), "{text}");
        drop((held, listed));
        let table = device.live_tensors().to_string();
        assert!(table.ends_with("no tensor is alive"), "{table}");
    }
}
