//! Memory of temporaries that graphs on the host leave to those that run after them: fresh pages cost more than most steps.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::operation::HostError;

/// The unit of temporary memory: aligned for every element type.
pub(super) type Unit = u128;

/// Bytes that are kept at most.
const MOST_BYTES: usize = 256 << 20;

/// Freed temporaries by length.
#[derive(Default)]
struct Kept {
    free: HashMap<usize, Vec<Vec<Unit>>>,
    bytes: usize,
}

static KEPT: Mutex<Option<Kept>> = Mutex::new(None);

fn kept() -> MutexGuard<'static, Option<Kept>> {
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Memory for one run of a graph; goes back when it is dropped. What is in it is what the last one left.
#[derive(Debug, Default)]
pub(super) struct Temporary(pub(super) Vec<Unit>);

impl Temporary {
    pub(super) fn new(bytes: u64) -> Result<Temporary, HostError> {
        let len = bytes.div_ceil(size_of::<Unit>() as u64) as usize;
        let found = kept().as_mut().and_then(|kept| {
            let found = kept.free.get_mut(&len)?.pop()?;
            kept.bytes -= len * size_of::<Unit>();
            Some(found)
        });
        match found {
            Some(memory) => Ok(Temporary(memory)),
            // Pages that threads touch first when they write to them.
            None => match bytemuck::try_zeroed_vec(len) {
                Ok(memory) => Ok(Temporary(memory)),
                Err(()) => Err(HostError::OutOfMemory { bytes }),
            },
        }
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        let mut memory = std::mem::take(&mut self.0);
        let bytes = memory.len() * size_of::<Unit>();
        if bytes == 0 || bytes > MOST_BYTES {
            return;
        }
        if cfg!(debug_assertions) {
            // NaN in every float: what a step reads without having written it shows.
            memory.fill(Unit::MAX);
        }
        let mut guard = kept();
        let kept = guard.get_or_insert_default();
        if kept.bytes + bytes > MOST_BYTES {
            // Sizes of the past: those that are still needed come back.
            *kept = Kept::default();
        }
        kept.bytes += bytes;
        kept.free.entry(memory.len()).or_default().push(memory);
    }
}

/// Gives all of it back to the system.
#[cfg(feature = "cpu")]
pub(crate) fn forget() {
    drop(kept().take());
}
