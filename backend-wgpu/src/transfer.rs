//! Bytes to and from the device.
//!
//! A read records its copy into a staging buffer and submits when it is called, so it sees exactly the work before it,
//! whenever its future is awaited. On native targets a thread waits for the device on behalf of pending futures; in a
//! browser the event loop does. wgpu copies multiples of 4 bytes: reads take the words round the range, writes patch the
//! first and last word by a small kernel (`patch.rs`) where the range cuts them.

use std::ops::Range;
use std::sync::Arc;

use polywarp_core::{Backend, Buffer, Error, Largest, ReadFuture, Result};

use crate::fault::{lock, watched, words};
use crate::state::WgpuBackend;
#[cfg(not(target_arch = "wasm32"))]
use crate::wait::wait;
use crate::wait::{Pending, Piece, map};

/// Largest staging buffer: longer reads use several, all filled by one submission.
const STAGING_PIECE_BYTES: u64 = 256 << 20;

impl WgpuBackend {
    pub(crate) fn write_bytes(&self, buffer: &Buffer, offset_bytes: u64, data: &[u8]) -> Result<()> {
        self.fault.check()?;
        let (raw, size_bytes) = (self.own(buffer)?, buffer.size_bytes());
        let end = offset_bytes.checked_add(data.len() as u64).filter(|&end| end <= size_bytes);
        let Some(end) = end else {
            return Err(outside("write", offset_bytes, data.len() as u64, size_bytes));
        };
        if data.is_empty() {
            return Ok(());
        }
        // The first word in part, whole words, and the last word in part (which may be the first as well).
        let head = (offset_bytes.next_multiple_of(4).min(end) - offset_bytes) as usize;
        let (head, rest) = data.split_at(head);
        let (body, tail) = rest.split_at(rest.len() / 4 * 4);
        let body_at = offset_bytes + head.len() as u64;
        let tail_at = body_at + body.len() as u64;
        if !head.is_empty() {
            self.patch(raw, offset_bytes, head)?;
        }
        // Bytes behind the buffer's size are nobody's: the last word can be written whole.
        let padded = if tail.is_empty() || end < size_bytes { None } else { Some(pad(tail)) };
        let held = || self.pool.stats();
        let mut stream = lock(&self.stream);
        // An upload submits what uses the buffer: an empty one would split recordings for nothing.
        if !body.is_empty() {
            stream.upload(raw, body_at, body, held)?;
        }
        if let Some(word) = padded {
            return stream.upload(raw, tail_at, &word, held);
        }
        drop(stream);
        if tail.is_empty() { Ok(()) } else { self.patch(raw, tail_at, tail) }
    }

    /// Records and submits a read of `range`; `None` for an empty one.
    pub(crate) fn begin_read(&self, buffer: &Buffer, range: Range<u64>) -> Result<Option<Pending>> {
        self.fault.check()?;
        let (raw, size_bytes) = (self.own(buffer)?, buffer.size_bytes());
        let len = range.end.checked_sub(range.start);
        let Some(len) = len.filter(|_| range.end <= size_bytes) else {
            return Err(outside("read", range.start, len.unwrap_or(0), size_bytes));
        };
        if len == 0 {
            return Ok(None);
        }
        let whole = range.start / 4 * 4..range.end.next_multiple_of(4).min(raw.capacity_bytes());
        let piece_bytes = STAGING_PIECE_BYTES.min(self.info().limits.max_buffer_bytes / 4 * 4).max(4);
        let mut staged = Vec::new();
        let mut at = whole.start;
        while at < whole.end {
            let stop = whole.end.min(at + piece_bytes);
            staged.push((self.staging(stop - at)?, at..stop));
            at = stop;
        }
        let index = {
            let mut stream = lock(&self.stream);
            stream.usable("read", raw)?;
            stream.note_use(raw);
            stream.encode(|encoder| {
                for (staging, from) in &staged {
                    let size = from.end - from.start;
                    encoder.copy_buffer_to_buffer(&raw.buffer, from.start, staging, 0, size);
                }
            })?;
            stream.submit()?
        };
        let Some(index) = index else {
            return Err(self.fault.lose("a submission vanished"));
        };
        let (pieces, error) = watched(&self.gpu, || {
            let pieces = staged.into_iter().map(|(staging, from)| {
                let wanted = range.start.max(from.start) - from.start..range.end.min(from.end) - from.start;
                let mapped = map(&staging);
                Piece { staging, wanted: wanted.start as usize..wanted.end as usize, mapped }
            });
            pieces.collect()
        });
        if let Some(error) = error {
            // The staging buffer was made and is not mapped yet: only a device that is gone refuses to map it.
            return Err(self.fault.lose(&words(&error)));
        }
        #[cfg(target_arch = "wasm32")]
        let _ = index;
        Ok(Some(Pending {
            pieces,
            fault: Arc::clone(&self.fault),
            #[cfg(not(target_arch = "wasm32"))]
            index,
            gpu: self.gpu.clone(),
        }))
    }

    pub(crate) fn read_later(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture {
        let pending = match self.begin_read(buffer, range) {
            Ok(Some(pending)) => pending,
            Ok(None) => return Box::pin(std::future::ready(Ok(Vec::new()))),
            Err(error) => return Box::pin(std::future::ready(Err(error))),
        };
        #[cfg(not(target_arch = "wasm32"))]
        if let Err(error) = self.waiter.watch(&pending) {
            return Box::pin(std::future::ready(Err(error)));
        }
        Box::pin(pending.collect())
    }

    #[cfg(not(target_arch = "wasm32"))]
    pub(crate) fn read_now(&self, buffer: &Buffer, range: Range<u64>) -> Result<Vec<u8>> {
        let Some(pending) = self.begin_read(buffer, range)? else { return Ok(Vec::new()) };
        wait(&self.gpu, &self.fault, Some(pending.index.clone()))?;
        // Another thread's wait may have taken the callbacks; they arrive at once.
        pending.pieces.iter().for_each(|piece| piece.mapped.block());
        pollster::block_on(pending.collect())
    }

    #[cfg(target_arch = "wasm32")]
    pub(crate) fn read_now(&self, _buffer: &Buffer, _range: Range<u64>) -> Result<Vec<u8>> {
        Err(Error::WouldBlock { what: "read_blocking" })
    }

    fn staging(&self, size: u64) -> Result<wgpu::Buffer> {
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        let descriptor = wgpu::BufferDescriptor { label: None, size, usage, mapped_at_creation: false };
        let (buffer, error) = watched(&self.gpu, || self.gpu.create_buffer(&descriptor));
        match error {
            None => Ok(buffer),
            Some(wgpu::Error::OutOfMemory { .. }) => {
                let stats = self.pool.stats();
                Err(Error::OutOfMemory {
                    device: self.fault.device().to_owned(),
                    requested: size,
                    in_use: stats.in_use_bytes,
                    cached: stats.cached_bytes,
                    limit: None,
                    largest: Largest::default(),
                })
            }
            Some(error) => Err(self.fault.backend_error("read", &error)),
        }
    }
}

fn pad(tail: &[u8]) -> [u8; 4] {
    let mut word = [0; 4];
    for (to, &from) in word.iter_mut().zip(tail) {
        *to = from;
    }
    word
}

fn outside(what: &'static str, start: u64, len: u64, size: u64) -> Error {
    let reason = format!("{len} bytes from byte {start} on are not inside a buffer of {size} bytes");
    Error::InvalidArgument { what, reason }
}
