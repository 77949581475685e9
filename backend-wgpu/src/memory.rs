//! wgpu as the source of `polywarp_core::pool`: one block is one `wgpu::Buffer`.
//!
//! wgpu tracks reading and writing per buffer, so two tensors in one buffer could not be one kernel's input and output;
//! wgpu itself sub-allocates the driver's memory below this. A freed buffer is handed out again at once: the work that
//! still uses it was recorded earlier on the one queue. Cached bind groups keep buffers alive in wgpu, so a buffer that
//! leaves the pool leaves its id behind ([`Memory::dead`]), by which the stream finds those groups.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use polywarp_core::Result;
use polywarp_core::pool::{Lease, Source};

use crate::driver::Kept;
use crate::fault::{Fault, lock, watched};
#[cfg(not(target_arch = "wasm32"))]
use crate::wait::wait;

/// What every pooled buffer can be used for; UNIFORM so that users' kernels may bind tensors as uniforms.
pub(crate) const USAGES: wgpu::BufferUsages = wgpu::BufferUsages::STORAGE
    .union(wgpu::BufferUsages::COPY_SRC)
    .union(wgpu::BufferUsages::COPY_DST)
    .union(wgpu::BufferUsages::UNIFORM);

/// A buffer on loan.
pub(crate) type Raw = Lease<Memory>;

/// Ids of buffers that are given back, whose bind groups must go before their memory is really free.
pub(crate) type Dead = Arc<Mutex<Vec<u64>>>;

/// Ids of all buffers ever made; process-wide, so that a buffer of another device is never mistaken.
static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// A driver's buffer, with the identity that cached bind groups know it by.
#[derive(Debug)]
pub(crate) struct Block {
    pub(crate) buffer: wgpu::Buffer,
    /// Never reused in one process.
    pub(crate) id: u64,
    /// Whether it is an application's, which may destroy or map it at any time.
    pub(crate) foreign: bool,
    /// The recording that last used it (see `Stream::epoch`); 0 is none.
    pub(crate) epoch: AtomicU64,
    dead: Dead,
}

impl Drop for Block {
    fn drop(&mut self) {
        lock(&self.dead).push(self.id);
    }
}

/// Submits all work that uses buffers; `false` where nothing is left that could use any.
pub(crate) type Submit = Box<dyn Fn() -> Result<bool> + Send + Sync>;

/// The device that buffers are made on.
pub(crate) struct Memory {
    device: Kept<wgpu::Device>,
    fault: Arc<Fault>,
    submit: Submit,
    dead: Dead,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Memory({})", self.fault.device())
    }
}

impl Memory {
    /// Memory of `device`. `submit` submits the stream's recorded work; `dead` collects buffers for the stream to let go.
    pub(crate) fn new(device: Kept<wgpu::Device>, fault: Arc<Fault>, submit: Submit, dead: Dead) -> Memory {
        Memory { device, fault, submit, dead }
    }

    /// A block round an application's `buffer`.
    pub(crate) fn adopt(&self, buffer: wgpu::Buffer) -> Block {
        self.block(buffer, true)
    }

    fn block(&self, buffer: wgpu::Buffer, foreign: bool) -> Block {
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        Block { buffer, id, foreign, epoch: AtomicU64::new(0), dead: Arc::clone(&self.dead) }
    }
}

impl Source for Memory {
    type Block = Block;

    fn allocate(&self, capacity_bytes: u64) -> Result<Option<Block>> {
        let descriptor =
            wgpu::BufferDescriptor { label: None, size: capacity_bytes, usage: USAGES, mapped_at_creation: false };
        let (buffer, error) = watched(&self.device, || self.device.create_buffer(&descriptor));
        match error {
            None => Ok(Some(self.block(buffer, false))),
            Some(error) => {
                log::debug!("{}: a buffer of {capacity_bytes} bytes was refused: {error}", self.fault.device());
                // Drivers call all kinds of things out of memory and the other way round; a lost device is told apart.
                self.fault.check()?;
                Ok(None)
            }
        }
    }

    fn reclaim(&self) -> Result<()> {
        if !(self.submit)()? {
            return Ok(());
        }
        #[cfg(not(target_arch = "wasm32"))]
        wait(&self.device, &self.fault, None)?;
        Ok(())
    }
}
