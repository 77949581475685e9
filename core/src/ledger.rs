//! The list of tensors that a device keeps where it was asked to: what each of them is, under which tag, and the place that its buffer holds.
//!
//! `live.rs` has what users ask of it, `largest.rs` the words that it answers in.

use std::cell::RefCell;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::largest::LISTED;
use crate::{DType, Error, Largest, LiveTensor, LiveTensors, Shape, TagMemory};

/// The tag of tensors made outside of [`Device::tagged`](crate::Device::tagged).
pub(crate) const UNTAGGED: &str = "untagged";

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
    /// The place in the list of a buffer of `bytes` that was newly made for a tensor, where a list is kept.
    pub(crate) fn ticket(&self, bytes: u64, shape: Shape, dtype: DType) -> Option<Ticket> {
        if !self.is_kept.load(Ordering::Relaxed) {
            return None;
        }
        let tag = SCOPES.with_borrow(|scopes| {
            let innermost = scopes.iter().rev().find(|(book, _)| Arc::ptr_eq(book, &self.book));
            innermost.map_or_else(|| UNTAGGED.into(), |(_, tag)| Arc::clone(tag))
        });
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
        Some(Ticket { book: Arc::clone(&self.book), number })
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

    /// From here on it is kept.
    pub(crate) fn keep(&self) {
        self.is_kept.store(true, Ordering::Relaxed);
    }

    /// Does `work`, whose tensors are listed under `tag`, in a list that is kept from here on.
    pub(crate) fn tagged<T>(&self, tag: &str, work: impl FnOnce() -> T) -> T {
        self.keep();
        SCOPES.with_borrow_mut(|scopes| scopes.push((Arc::clone(&self.book), tag.into())));
        let _scope = Scope;
        work()
    }

    /// Bytes by tag, the largest first.
    pub(crate) fn tags(&self) -> Vec<TagMemory> {
        lock(&self.book).tags()
    }

    /// The tensors that are alive, with bytes by tag.
    pub(crate) fn report(&self) -> LiveTensors {
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
        tensors.sort_unstable_by_key(|(number, tensor)| (std::cmp::Reverse(tensor.bytes), *number));
        LiveTensors { tags, tensors: tensors.into_iter().map(|(_, tensor)| tensor).collect() }
    }
}
