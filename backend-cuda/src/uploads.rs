//! Writes to the device that are under way, in page-locked pieces; small ones share a piece. What asks for them is `transfer.rs`.

use std::collections::VecDeque;
use std::sync::Arc;

use polywarp_core::Result;

use crate::native::Stream;
use crate::staging::{LARGEST_BYTES, Staging, StagingCache};

/// The piece that small writes share.
const SHARED_PIECE_BYTES: usize = 256 << 10;
/// Alignment of writes within a shared piece, for the copy engine's sake.
const WRITE_ALIGN_BYTES: usize = 64;
/// Bytes of writes that may be under way: the host waits rather than piling up memory without end.
const MOST_UPLOADING_BYTES: usize = 64 << 20;

/// Writes that are under way.
#[derive(Debug, Default)]
pub(crate) struct Uploads {
    /// The piece being filled, and how much of it is.
    open: Option<(Staging, usize)>,
    under_way: VecDeque<Staging>,
    bytes: usize,
}

impl Uploads {
    /// Enqueues a copy of `data` to device memory.
    ///
    /// # Safety
    /// `to` is the address of `data.len()` bytes of device memory of the stream's context, allocated until the copy is
    /// done.
    pub(crate) unsafe fn write(
        &mut self,
        cache: &Arc<StagingCache>,
        stream: &Stream,
        mut to: u64,
        mut data: &[u8],
    ) -> Result<()> {
        while !data.is_empty() {
            let (mut piece, used) = self.piece_for(data.len(), cache, stream)?;
            let (now, later) = data.split_at(data.len().min(piece.len() - used));
            // SAFETY: the bytes from `used` on were not used yet; the destination is part of what the caller promised.
            unsafe { piece.upload(stream, to, used, now)? };
            self.open = Some((piece, (used + now.len()).next_multiple_of(WRITE_ALIGN_BYTES)));
            to += now.len() as u64;
            data = later;
        }
        // Marked after every write, so that a piece is known to be free as soon as it is.
        match &mut self.open {
            Some((piece, _)) => piece.finish(stream),
            None => Ok(()),
        }
    }

    /// The open piece when `len` bytes fit there, else a fresh one.
    fn piece_for(&mut self, len: usize, cache: &Arc<StagingCache>, stream: &Stream) -> Result<(Staging, usize)> {
        if let Some((mut piece, used)) = self.open.take() {
            if len <= piece.len() - used {
                return Ok((piece, used));
            }
            if piece.is_done()? && len <= piece.len() {
                return Ok((piece, 0));
            }
            piece.finish(stream)?;
            self.bytes += piece.len();
            self.under_way.push_back(piece);
        }
        while let Some(oldest) = self.under_way.front_mut() {
            if self.bytes > MOST_UPLOADING_BYTES {
                oldest.wait("write")?;
            } else if !oldest.is_done()? {
                break;
            }
            self.bytes -= oldest.len();
            self.under_way.pop_front();
        }
        Ok((cache.take(len.clamp(SHARED_PIECE_BYTES, LARGEST_BYTES))?, 0))
    }

    /// Lets go of what is done, and waits for the rest.
    pub(crate) fn clear(&mut self) {
        self.open = None;
        self.under_way.clear();
        self.bytes = 0;
    }
}
