//! Device memory, page-locked host memory, and copies between them.

use std::any::Any;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use cudarc::driver::sys::CUdeviceptr;
use polywarp_core::Result;
use polywarp_core::pool::Source;

use super::{Context, Stream};
use crate::status::code;

/// CU_MEMHOSTALLOC_PORTABLE: page-locked for every context, as peer copies want it.
const PORTABLE: u32 = 1;

/// Device memory: ours, or an application's.
pub(crate) struct Block {
    context: Arc<Context>,
    address: CUdeviceptr,
    /// What keeps an application's memory; ours is freed with the block.
    foreign: Option<Box<dyn Any + Send + Sync>>,
}

impl Block {
    /// Memory of an application, which `owner` keeps.
    pub(crate) fn foreign(context: &Arc<Context>, address: CUdeviceptr, owner: Box<dyn Any + Send + Sync>) -> Block {
        Block { context: Arc::clone(context), address, foreign: Some(owner) }
    }

    pub(crate) fn address(&self) -> CUdeviceptr {
        self.address
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if self.foreign.is_none() {
            // SAFETY: allocated by `Memory::allocate`, freed once. The driver waits for work that still uses it.
            self.context.free("memory", |api| unsafe { (api.cuMemFree_v2)(self.address) });
        }
    }
}

impl fmt::Debug for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Block({:#x})", self.address)
    }
}

/// The driver as a pool's source.
///
/// `cuMemAlloc` rather than the driver's own stream-ordered pool: ours is above it already, every card and every virtual
/// slice of one has it, and peers and checkers understand its memory.
#[derive(Debug)]
pub(crate) struct Memory {
    stream: Arc<Stream>,
}

impl Memory {
    /// Memory whose uses are all on `stream`.
    pub(crate) fn new(stream: &Arc<Stream>) -> Memory {
        Memory { stream: Arc::clone(stream) }
    }
}

impl Context {
    /// Bytes free on the card, and bytes it has, whoever holds them.
    pub(crate) fn memory_bytes(&self) -> Result<(u64, u64)> {
        let (mut free, mut total) = (0usize, 0usize);
        // SAFETY: the pointers are to live locals.
        self.call("asking for free memory", |api| unsafe { (api.cuMemGetInfo_v2)(&mut free, &mut total) })?;
        Ok((free as u64, total as u64))
    }
}

impl Source for Memory {
    type Block = Block;

    fn allocate(&self, capacity_bytes: u64) -> Result<Option<Block>> {
        let context = self.stream.context();
        let Ok(bytes) = usize::try_from(capacity_bytes) else { return Ok(None) };
        let mut address = 0;
        // SAFETY: the pointer is to a live local.
        match context.attempt(|api| unsafe { (api.cuMemAlloc_v2)(&mut address, bytes) })? {
            code::SUCCESS => Ok(Some(Block { context: Arc::clone(context), address, foreign: None })),
            code::OUT_OF_MEMORY => Ok(None),
            failed => Err(context.error("allocating", failed)),
        }
    }

    fn reclaim(&self) -> Result<()> {
        self.stream.synchronize("waiting for memory")
    }
}

/// Page-locked host memory: what the device copies to and from while the host does something else.
pub(crate) struct Pinned {
    context: Arc<Context>,
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: it is owned memory; every access to its bytes is through the `unsafe` functions below.
unsafe impl Send for Pinned {}
// SAFETY: as above.
unsafe impl Sync for Pinned {}

impl Pinned {
    pub(crate) fn new(context: &Arc<Context>, len: usize) -> Result<Pinned> {
        let mut start = std::ptr::null_mut();
        let op = "allocating page-locked memory";
        // SAFETY: the pointer is to a live local.
        context.call_for(op, len, |api| unsafe { (api.cuMemHostAlloc)(&mut start, len, PORTABLE) })?;
        match NonNull::new(start.cast::<u8>()) {
            Some(start) => Ok(Pinned { context: Arc::clone(context), start, len }),
            None => Err(context.error_for(op, code::OUT_OF_MEMORY, len)),
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Puts `data` at byte `at`; what does not fit is left out.
    ///
    /// # Safety
    /// No copy that is under way touches these bytes, and no other thread does.
    pub(crate) unsafe fn fill(&self, at: usize, data: &[u8]) {
        let len = data.len().min(self.len.saturating_sub(at));
        // SAFETY: the range is inside the memory; `data` is not, as nothing borrows from it; nobody else touches it, as
        // the caller promised.
        unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), self.start.as_ptr().add(at), len) };
    }

    /// Appends the first `len` bytes to `bytes`.
    ///
    /// # Safety
    /// The copy that wrote these bytes is done, and none other is under way.
    pub(crate) unsafe fn append_to(&self, bytes: &mut Vec<u8>, len: usize) {
        // SAFETY: the range is inside the memory, a finished copy has written it, and nobody writes meanwhile, as the
        // caller promised.
        bytes.extend_from_slice(unsafe { std::slice::from_raw_parts(self.start.as_ptr(), len.min(self.len)) });
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: allocated by `new`, freed once; who drops it knows that no copy is under way.
        self.context.free("page-locked memory", |api| unsafe { (api.cuMemFreeHost)(self.start.as_ptr().cast()) });
    }
}

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pinned({} bytes)", self.len)
    }
}

impl Stream {
    /// Enqueues a copy of `len` bytes from byte `at` of `from` to device memory.
    ///
    /// # Safety
    /// `to` is the address of `len` bytes of device memory of this context. Until the copy is done `from` is neither
    /// dropped nor written there.
    pub(crate) unsafe fn upload(&self, to: CUdeviceptr, from: &Pinned, at: usize, len: usize) -> Result<()> {
        debug_assert!(at + len <= from.len);
        // SAFETY: the source is inside of `from`, and stays as the caller promised; so does the destination.
        self.context().call("write", |api| unsafe {
            (api.cuMemcpyHtoDAsync_v2)(to, from.start.as_ptr().add(at).cast(), len, self.raw())
        })
    }

    /// Enqueues a copy of `len` bytes of device memory to the start of `to`.
    ///
    /// # Safety
    /// `from` is the address of `len` bytes of device memory of this context. Until the copy is done `to` is neither
    /// dropped nor touched.
    pub(crate) unsafe fn download(&self, to: &Pinned, from: CUdeviceptr, len: usize) -> Result<()> {
        debug_assert!(len <= to.len);
        // SAFETY: the destination is inside of `to`, and stays as the caller promised; so does the source.
        self.context()
            .call("read", |api| unsafe { (api.cuMemcpyDtoHAsync_v2)(to.start.as_ptr().cast(), from, len, self.raw()) })
    }

    /// Enqueues a copy of `len` bytes to memory of another context: directly between the cards where one can reach the
    /// other's memory (`peer.rs`), else by way of the host's, which the driver sees to.
    ///
    /// # Safety
    /// Both are addresses of `len` bytes of device memory, `from` of this context and `to` of `other`, and stay
    /// allocated until the copy is done.
    pub(crate) unsafe fn copy_to_peer(
        &self,
        other: &Context,
        to: CUdeviceptr,
        from: CUdeviceptr,
        len: usize,
    ) -> Result<()> {
        self.context().reach(other)?;
        // SAFETY: both contexts are alive; the rest the caller promised.
        self.context().call("copy_to_peer", |api| unsafe {
            (api.cuMemcpyPeerAsync)(to, other.raw(), from, self.context().raw(), len, self.raw())
        })
    }
}
