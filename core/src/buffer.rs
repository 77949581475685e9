//! Memory of a device as its callers hold it: [`Buffer`], and a [`Binding`] of one to a user's kernel.
//!
//! Whose memory it is, only its backend knows. A buffer that was made for a tensor keeps the tensor's place in the device's list
//! (`ledger.rs`).

use std::any::Any;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::Error;
use crate::ledger::Ticket;

/// Bytes on one device. Cheap to clone; freed (to the device's cache) with the last clone.
#[derive(Clone)]
pub struct Buffer {
    size_bytes: u64,
    inner: Arc<dyn Any + Send + Sync>,
    /// Its place in the device's list of tensors, where there is one.
    _ticket: Option<Arc<Ticket>>,
}

impl Buffer {
    /// A buffer whose backend-specific part is `inner`.
    pub fn new(size_bytes: u64, inner: Arc<dyn Any + Send + Sync>) -> Buffer {
        Buffer { size_bytes, inner, _ticket: None }
    }

    /// The same memory, in a list until its last clone is gone, where there is one.
    pub(crate) fn with_ticket(self, ticket: Option<Ticket>) -> Buffer {
        Buffer { _ticket: ticket.map(Arc::new), ..self }
    }

    /// The bytes that may be used; at least what was asked for.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// The backend's own part; `None` when the buffer belongs to another backend.
    pub fn downcast<T: Any + Send + Sync>(&self) -> Option<&T> {
        self.inner.downcast_ref()
    }

    /// Whether both are the same memory.
    pub fn same(&self, other: &Buffer) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }
}

impl fmt::Debug for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Buffer({} bytes)", self.size_bytes)
    }
}

/// One buffer bound to a user's kernel: `@group(group) @binding(binding)`.
#[derive(Clone, Debug)]
pub struct Binding {
    /// Bind group.
    pub group: u32,
    /// Binding within the group.
    pub binding: u32,
    /// What is bound, from `range.start` to `range.end` bytes.
    pub buffer: Buffer,
    /// The bytes visible to the kernel.
    pub range: Range<u64>,
}

/// The error of a backend given a buffer that another backend made.
pub fn foreign_buffer(device: &str) -> Error {
    Error::DeviceMismatch { op: "execute", lhs: device.to_owned(), rhs: "another backend's buffer".to_owned() }
}
