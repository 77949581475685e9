//! Sharing a card with an application's own CUDA code: contexts in, addresses in and out, events, copies between cards.
//!
//! All work of a backend is on its stream ([`CudaBackend::stream`]). Whoever touches a tensor's memory by other means
//! orders that by events: [`CudaBackend::record_event`] says when the backend's work so far is done,
//! [`CudaBackend::wait_event`] lets its later work wait for somebody else's.

use std::any::Any;
use std::sync::Arc;

use cudarc::driver::CudaContext;
use cudarc::driver::sys::{CUcontext, CUevent, CUstream};
use polywarp_core::{Buffer, Error, Result};

use crate::driver::api;
use crate::fault::Fault;
use crate::native::{Context, Event, EventKind, describe};
use crate::open::Options;
use crate::state::CudaBackend;

/// Alignment that kernels rely on: four-element loads of 32-bit words.
const ALIGN_BYTES: u64 = 16;

/// A point in the work of a device, for other devices and streams to wait for.
#[derive(Debug)]
pub struct DeviceEvent(Event);

impl DeviceEvent {
    /// Whether the work before it is done.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::DevicePoisoned`].
    pub fn is_done(&self) -> Result<bool> {
        self.0.is_done()
    }

    /// Waits, asleep, until the work before it is done.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::DevicePoisoned`].
    pub fn wait(&self) -> Result<()> {
        self.0.wait("waiting for an event")
    }

    /// The driver's handle, valid as long as `self`.
    pub fn raw(&self) -> CUevent {
        self.0.raw()
    }
}

impl CudaBackend {
    /// A backend in an application's own context, under the name `id`. It makes a stream of its own there.
    ///
    /// # Safety
    /// `context` is a CUDA context of this process, and stays so until the backend and everything made by it (buffers,
    /// recordings, events, pending reads) are dropped.
    ///
    /// # Errors
    /// [`Error::BackendUnavailable`] when there is no driver or the card cannot compute; [`Error::DevicePoisoned`];
    /// [`Error::InvalidArgument`] for null.
    pub unsafe fn from_context(context: CUcontext, id: impl Into<String>, options: Options) -> Result<CudaBackend> {
        let (api, fault) = (api()?, Fault::new(id.into(), options.patience));
        if context.is_null() {
            let reason = "it is null; make the context first, or open a card".to_owned();
            return Err(Error::InvalidArgument { what: "CUcontext", reason });
        }
        // SAFETY: the caller promised just this.
        let context = unsafe { Context::application(api, context, fault)? };
        CudaBackend::assemble(&context, &describe(api, context.device())?, options)
    }

    /// A backend in a context of cudarc, which it keeps alive.
    ///
    /// # Errors
    /// As [`CudaBackend::from_context`].
    pub fn from_cudarc(context: Arc<CudaContext>, id: impl Into<String>, options: Options) -> Result<CudaBackend> {
        let (api, fault) = (api()?, Fault::new(id.into(), options.patience));
        let context = Context::cudarc(api, context, fault);
        CudaBackend::assemble(&context, &describe(api, context.device())?, options)
    }

    /// The context that the backend works in; valid as long as the backend.
    pub fn context(&self) -> CUcontext {
        self.stream.context().raw()
    }

    /// The stream that all work of the backend goes to; valid as long as the backend.
    pub fn stream(&self) -> CUstream {
        self.stream.raw()
    }

    /// The address behind `buffer` (of a tensor: `tensor.buffer()`), of at least `buffer.size_bytes()` bytes.
    ///
    /// Keep a clone of `buffer` as long as the address is used: once the last clone is dropped the pool hands the memory
    /// to the next tensor. Order what is done there by events, or on [`CudaBackend::stream`] itself.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`] for a buffer of another backend.
    pub fn device_address(&self, buffer: &Buffer) -> Result<u64> {
        Ok(self.own(buffer)?.address())
    }

    /// A buffer over an application's own device memory, which is used in place and never enters the pool. `owner` is
    /// dropped when nothing uses the memory any more from the host's side; if it frees the memory, it must do so in the
    /// order of [`CudaBackend::stream`] or by a call that waits for the device (`cuMemFree` does).
    ///
    /// Kernels load 16 bytes at a time: where the size is no multiple of 16 they may read, and ignore, the rest of the last
    /// 16, which lie in the same page of memory. They never write there.
    ///
    /// # Safety
    /// `address` is `size_bytes` bytes of device memory, valid in this backend's context until `owner` is dropped and the
    /// work given to the backend before that is done. What else touches it is ordered with this backend's work. No part
    /// of it is wrapped twice.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when the address is not a multiple of 16 or the size 0 or not a multiple of 4.
    pub unsafe fn wrap(&self, address: u64, size_bytes: u64, owner: Box<dyn Any + Send + Sync>) -> Result<Buffer> {
        self.fault().check()?;
        let invalid = |reason| Err(Error::InvalidArgument { what: "device address", reason });
        if address == 0 || !address.is_multiple_of(ALIGN_BYTES) {
            return invalid(format!("{address:#x} is not a positive multiple of {ALIGN_BYTES}"));
        }
        if size_bytes == 0 || !size_bytes.is_multiple_of(4) {
            return invalid(format!("its size, {size_bytes} bytes, is not a positive multiple of 4"));
        }
        Ok(Buffer::new(size_bytes, Arc::new(self.adopt(address, size_bytes, owner))))
    }

    /// An event behind all work given to the backend so far.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::DevicePoisoned`]; [`Error::Recording`] while this thread records.
    pub fn record_event(&self) -> Result<DeviceEvent> {
        self.recorders().refuse(self.id(), "an event", "record it before or after a replay")?;
        let event = self.new_event()?;
        event.record(&self.stream)?;
        Ok(DeviceEvent(event))
    }

    /// Lets all work given to the backend from now on wait for `event`, which may be another device's. The host does not
    /// wait.
    ///
    /// # Errors
    /// [`Error::DeviceLost`], [`Error::DevicePoisoned`] of either device; [`Error::Recording`] while this thread records.
    pub fn wait_event(&self, event: &DeviceEvent) -> Result<()> {
        self.recorders().refuse(self.id(), "waiting for an event", "wait before a replay")?;
        event.0.context().fault.check()?;
        self.stream.wait_for(&event.0)
    }

    /// Copies `len` bytes from byte `from_offset` of `from` to byte `to_offset` of `to`, a buffer of `other`. Ordered
    /// with the work of both, and nobody waits.
    ///
    /// The first copy gives this backend's context access to the memory of the other's (`cuCtxEnablePeerAccess`), unless
    /// it has it already; it stays as long as both contexts. Copies then go directly between the cards. Where the cards or
    /// the driver refuse, the driver copies by way of the host's memory, and the log (level info) says so.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for bytes outside a buffer or two ranges of one buffer, [`Error::DeviceMismatch`] for a
    /// buffer that is not the backend's; [`Error::DeviceLost`], [`Error::DevicePoisoned`]; [`Error::Recording`] while
    /// this thread records.
    pub fn copy_to_peer(
        &self,
        from: &Buffer,
        from_offset: u64,
        other: &CudaBackend,
        to: &Buffer,
        to_offset: u64,
        len: u64,
    ) -> Result<()> {
        for backend in [self, other] {
            let advice = "copy before or after a replay";
            backend.recorders().refuse(backend.id(), "a copy between devices", advice)?;
            backend.fault().check()?;
        }
        for (what, buffer, offset) in [("source", from, from_offset), ("destination", to, to_offset)] {
            if offset.checked_add(len).is_none_or(|end| end > buffer.size_bytes()) {
                let size = buffer.size_bytes();
                let reason = format!("{len} bytes from byte {offset} on are not inside a buffer of {size} bytes");
                return Err(Error::InvalidArgument { what, reason });
            }
        }
        if from.same(to) {
            let reason = "a copy within one buffer is `ops::Copy`'s to do".to_owned();
            return Err(Error::InvalidArgument { what: "destination", reason });
        }
        let (source, destination) = (self.own(from)?.address(), other.own(to)?.address());
        let Ok(bytes) = usize::try_from(len) else { return Ok(()) };
        if bytes == 0 {
            return Ok(());
        }
        // Both events are made before the copy is given: where there is no memory for one, nothing is under way.
        let (ready, done) = (other.new_event()?, self.new_event()?);
        // The other device's work so far may still use the destination.
        ready.record(&other.stream)?;
        self.stream.wait_for(&ready)?;
        // SAFETY: both ranges are inside live buffers, as checked. Either may be dropped before the copy is done: `from`
        // goes back to this backend's pool, in the order of this stream; the next owner of `to` has its work behind the
        // event that `other` is made to wait for below, and the driver frees memory only when nothing uses it.
        unsafe {
            let context = other.stream.context();
            self.stream.copy_to_peer(context, destination + to_offset, source + from_offset, bytes)?;
        }
        let ordered = done.record(&self.stream).and_then(|()| other.stream.wait_for(&done));
        ordered.or_else(|error| self.end_copy(other, &error))
    }

    /// Ends a copy that is under way and that `other` could not be made to wait for: by waiting here.
    fn end_copy(&self, other: &CudaBackend, error: &Error) -> Result<()> {
        log::info!("{}: a copy to {} is waited for: {error}", self.id(), other.id());
        self.stream.synchronize("copy_to_peer").inspect_err(|_| {
            // Nobody knows what is in its memory, or when the copy ends.
            other.fault().lose(format!("a copy from {} did not end as it should: {error}", self.id()));
        })?;
        other.fault().check()
    }

    fn new_event(&self) -> Result<Event> {
        self.with_room(|| Event::new(self.stream.context(), EventKind::Sleeping))
    }
}
