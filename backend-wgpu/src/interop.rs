//! Sharing buffers with an application that uses the same `wgpu::Device`, without a copy.
//!
//! Both sides must use one queue: order on it is what keeps reads behind writes. Work recorded by this backend is
//! submitted when a buffer is handed out; before the application submits commands that touch a tensor used since, it
//! calls `flush`.

use std::sync::Arc;

use polywarp_core::{Backend, Buffer, Error, Result};

use crate::fault::{unpanicked, watched, words};
use crate::pipelines::VECTOR_BYTES;
use crate::state::WgpuBackend;
use crate::stream::probe;
use crate::tape::Allocation;

/// Usages a wrapped buffer must have.
const NEEDED: wgpu::BufferUsages =
    wgpu::BufferUsages::STORAGE.union(wgpu::BufferUsages::COPY_SRC).union(wgpu::BufferUsages::COPY_DST);

impl WgpuBackend {
    /// The `wgpu::Buffer` behind `buffer` (of a tensor: `tensor.buffer()`), at least `buffer.size_bytes()` long. It has
    /// the usages STORAGE, UNIFORM, COPY_SRC and COPY_DST.
    ///
    /// Keep a clone of `buffer` as long as the handle is used: once the last clone is dropped the pool hands the memory
    /// to the next tensor.
    ///
    /// # Errors
    /// [`Error::DeviceMismatch`] for a buffer of another backend; [`Error::DeviceLost`].
    pub fn buffer_handle(&self, buffer: &Buffer) -> Result<wgpu::Buffer> {
        let raw = Arc::clone(self.own(buffer)?);
        self.flush()?;
        Ok(raw.buffer.clone())
    }

    /// A buffer over an application's own `wgpu::Buffer` of the same device. The application's memory is used in place
    /// and never enters the pool; wrap one buffer once only, so that aliasing is seen. wgpu tells buffers of one
    /// `wgpu::Instance` apart; one of another instance is the caller's mistake that cannot always be noticed.
    ///
    /// While the application has it mapped, or once it has destroyed it, what is asked of it is refused; a buffer that is mapped
    /// or destroyed between that and the next submission takes all work of that submission with it.
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] when it is mapped or destroyed, a usage is missing or the size is not a positive multiple of 16
    /// bytes, which kernels of the library read at a time; [`Error::BindingTooLarge`]; [`Error::DeviceMismatch`] for a buffer of
    /// another `wgpu::Device`.
    pub fn wrap(&self, buffer: wgpu::Buffer) -> Result<Buffer> {
        self.fault().check()?;
        let missing = NEEDED - buffer.usage();
        let size = buffer.size();
        let invalid = |reason| Err(Error::InvalidArgument { what: "wgpu::Buffer", reason });
        if !missing.is_empty() {
            return invalid(format!("it lacks the usages {missing:?}"));
        }
        let limit = self.info().limits.max_binding_bytes;
        if size > limit {
            return Err(Error::BindingTooLarge { device: self.id().to_owned(), size, limit });
        }
        if size == 0 || !size.is_multiple_of(VECTOR_BYTES) {
            let why = "which kernels read at a time; make it longer";
            return invalid(format!("its size, {size} bytes, is not a positive multiple of {VECTOR_BYTES}, {why}"));
        }
        // wgpu does not tell a buffer's device, nor its state; using it is how to find out.
        let probed = unpanicked(|| watched(&self.gpu, || probe(&self.gpu, &self.queue, &buffer)).1);
        match probed.map(|error| error.as_ref().map(words)) {
            Some(None) => {}
            Some(Some(text)) if text.contains("unmapped") => {
                return invalid("it is mapped; unmap it first".to_owned());
            }
            Some(Some(text)) if text.contains("destroyed") => return invalid("it is destroyed".to_owned()),
            other => {
                log::debug!("{}: a buffer was not wrapped: {other:?}", self.id());
                let (lhs, rhs) = (self.id().to_owned(), "a buffer of another wgpu::Device".to_owned());
                return Err(Error::DeviceMismatch { op: "wrap", lhs, rhs });
            }
        }
        let block = self.pool.source().adopt(buffer);
        Ok(Buffer::new(size, Arc::new(Allocation::adopt(&self.pool, &self.recorders, block, size))))
    }
}
