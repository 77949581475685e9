//! Bytes to and from the device.
//!
//! Both ways go through page-locked pieces, on the one stream, so a transfer sees exactly the work given before it. A
//! write copies its bytes and returns (`uploads.rs`). A read enqueues its copies when it is called; the bytes
//! arrive by the event behind them, for which a future's thread sleeps (`waiter.rs`) and a blocking read waits itself. Either
//! way only so much is under way: a longer transfer's call waits for its first pieces.

use std::ops::Range;
use std::sync::Arc;

use polywarp_core::{Buffer, Error, ReadFuture, Result};

use crate::fault::lock;
use crate::staging::{LARGEST_BYTES, Staging, StagingCache};
use crate::state::CudaBackend;
use crate::waiter::{Arrival, Awaited, Job, Pieces, collect};

/// Pieces of a blocking read that are under way at once.
const READ_AHEAD: usize = 4;
/// Pieces of a future's read: 64 MiB, all that is kept for reuse. Page-locking more would take as long as copying it.
const READ_LATER_AHEAD: usize = 16;

impl CudaBackend {
    pub(crate) fn write_bytes(&self, buffer: &Buffer, offset_bytes: u64, data: &[u8]) -> Result<()> {
        self.recorders().refuse_write(self.id())?;
        self.fault().check()?;
        let address = self.own(buffer)?.address();
        let size = buffer.size_bytes();
        if offset_bytes.checked_add(data.len() as u64).is_none_or(|end| end > size) {
            return Err(outside("write", offset_bytes, data.len() as u64, size));
        }
        let mut uploads = lock(&self.uploads);
        // SAFETY: the range is inside of the buffer, as checked. The buffer may be dropped before the copy is done: its
        // memory then goes to the pool, whose next owner's work comes later on this stream, and the driver frees memory
        // only when nothing uses it.
        unsafe { uploads.write(&self.upload_pieces, &self.stream, address + offset_bytes, data) }
    }

    /// Checks a read and gives the address where it starts, and its length.
    fn check_read(&self, buffer: &Buffer, range: &Range<u64>) -> Result<(u64, u64)> {
        self.recorders().refuse_read(self.id())?;
        self.fault().check()?;
        let address = self.own(buffer)?.address();
        let len = range.end.checked_sub(range.start);
        match len.filter(|_| range.end <= buffer.size_bytes()) {
            Some(len) => Ok((address + range.start, len)),
            None => Err(outside("read", range.start, len.unwrap_or(0), buffer.size_bytes())),
        }
    }

    /// Enqueues the copy of one piece from `from` on, at most `len` bytes.
    fn begin_piece(&self, cache: &Arc<StagingCache>, from: u64, len: u64) -> Result<(Staging, usize)> {
        let len = len.min(LARGEST_BYTES as u64) as usize;
        let mut piece = cache.take(len)?;
        // SAFETY: the range is inside of a buffer, as `check_read` found; that it may be dropped meanwhile does no harm,
        // for the reasons given in `write_bytes`.
        unsafe { piece.download(&self.stream, from, len)? };
        Ok((piece, len))
    }

    /// Enqueues the copies of `len` bytes from `from` on through pieces of `cache`, of which `ahead` are under way at once: the
    /// bytes that arrived meanwhile, in a vector with room for all, and the pieces of the rest.
    fn begin_read(&self, cache: &Arc<StagingCache>, from: u64, len: u64, ahead: usize) -> Result<(Vec<u8>, Pieces)> {
        let mut bytes = Vec::with_capacity(self.host_size(len)?);
        let mut pieces = Pieces::new();
        let mut done = 0;
        while done < len {
            if pieces.len() == ahead
                && let Some((mut piece, len)) = pieces.pop_front()
            {
                piece.collect(&mut bytes, len)?;
            }
            let (piece, len) = self.begin_piece(cache, from + done, len - done)?;
            pieces.push_back((piece, len));
            done += len as u64;
        }
        Ok((bytes, pieces))
    }

    pub(crate) fn read_now(&self, buffer: &Buffer, range: Range<u64>) -> Result<Vec<u8>> {
        let (from, len) = self.check_read(buffer, &range)?;
        let (mut bytes, pieces) = self.begin_read(&self.quick_pieces, from, len, READ_AHEAD)?;
        collect(pieces, &mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn read_later(&self, buffer: &Buffer, range: Range<u64>) -> ReadFuture {
        let begin = || {
            let (from, len) = self.check_read(buffer, &range)?;
            let (bytes, pieces) = self.begin_read(&self.sleeping_pieces, from, len, READ_LATER_AHEAD)?;
            if len == 0 {
                return Ok(None);
            }
            let arrival = Arrival::new();
            self.waiter.watch(self.fault(), Job { bytes, pieces, arrival: Arc::clone(&arrival) })?;
            Ok(Some(arrival))
        };
        match begin() {
            Ok(Some(arrival)) => Box::pin(Awaited(Some(arrival))),
            Ok(None) => Box::pin(std::future::ready(Ok(Vec::new()))),
            Err(error) => Box::pin(std::future::ready(Err(error))),
        }
    }

    fn host_size(&self, len: u64) -> Result<usize> {
        usize::try_from(len).map_err(|_| outside("read", 0, len, u64::MAX))
    }
}

fn outside(what: &'static str, start: u64, len: u64, size: u64) -> Error {
    let reason = format!("{len} bytes from byte {start} on are not inside a buffer of {size} bytes");
    Error::InvalidArgument { what, reason }
}
