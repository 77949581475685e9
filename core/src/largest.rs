//! What is said of tensors that are alive on a device: by tag, and the largest where memory was short. `ledger.rs` keeps the list.

use std::fmt;

use serde::Serialize;

use crate::DType;

/// Tensors listed where memory was short.
pub(crate) const LISTED: usize = 5;

/// A tensor's memory that is alive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LiveTensor {
    /// The extents that it was made with.
    pub shape: Vec<u64>,
    /// Its dtype then.
    pub dtype: DType,
    /// The innermost [`Device::tagged`](crate::Device::tagged) around its making; `untagged` outside of any.
    pub tag: String,
    /// Its bytes on the device.
    pub bytes: u64,
}

impl fmt::Display for LiveTensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} of {} ({} bytes)", self.dtype, self.shape, self.tag, self.bytes)
    }
}

/// What one tag holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TagMemory {
    /// The tag.
    pub tag: String,
    /// Bytes of its tensors that are alive.
    pub in_use_bytes: u64,
    /// The largest value of `in_use_bytes` so far.
    pub peak_bytes: u64,
    /// Its tensors that are alive.
    pub tensors: u64,
}

/// A table of them.
pub(crate) fn write_tags(f: &mut fmt::Formatter<'_>, tags: &[TagMemory]) -> fmt::Result {
    writeln!(f, "{:<20} {:>15} {:>15} {:>8}", "tag", "bytes", "peak bytes", "tensors")?;
    for TagMemory { tag, in_use_bytes, peak_bytes, tensors } in tags {
        writeln!(f, "{tag:<20} {in_use_bytes:>15} {peak_bytes:>15} {tensors:>8}")?;
    }
    Ok(())
}

/// The tensors that are alive on a device; see [`Device::live_tensors`](crate::Device::live_tensors). Its text is a table of the tags and the largest few tensors.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct LiveTensors {
    /// By tag, the largest first.
    pub tags: Vec<TagMemory>,
    /// Each of them, the largest first.
    pub tensors: Vec<LiveTensor>,
}

impl fmt::Display for LiveTensors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_tags(f, &self.tags)?;
        if self.tags.is_empty() {
            return write!(
                f,
                "none: the device lists tensors made after a call of Device::list_tensors or Device::tagged"
            );
        }
        if self.tensors.is_empty() {
            return write!(f, "no tensor is alive");
        }
        write!(f, "largest: {}", Largest(self.tensors.iter().take(LISTED).cloned().collect()))
    }
}

/// The largest tensors that were alive when memory was short: of [`Error::OutOfMemory`](crate::Error::OutOfMemory), empty where the device kept no list.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Largest(pub Vec<LiveTensor>);

impl fmt::Display for Largest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, tensor) in self.0.iter().enumerate() {
            write!(f, "{}{tensor}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}
