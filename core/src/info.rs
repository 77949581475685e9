//! What a device says of itself, as data: what it is and can take, how much memory it holds, how long something took by which clock.

use std::fmt;
use std::ops::Deref;

use serde::Serialize;

use crate::DType;
use crate::largest::{TagMemory, write_tags};
use crate::oracle::Subnormals;

/// What kind of processor a device is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum DeviceKind {
    /// The host's processor, by this library's own kernels.
    Cpu,
    /// A GPU with its own memory.
    Discrete,
    /// A GPU that shares the host's memory.
    Integrated,
    /// A GPU lent by a hypervisor.
    Virtual,
    /// A GPU API implemented on the host's processor; never chosen silently.
    Software,
    /// The driver does not say.
    Other,
}

/// What a device can take, in its own units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Largest single allocation, bytes.
    pub max_buffer_bytes: u64,
    /// Largest range one kernel operand can span, bytes.
    pub max_binding_bytes: u64,
    /// Most workgroups of a launch along x, y, z.
    pub max_workgroups: [u32; 3],
    /// Most invocations in one workgroup.
    pub max_invocations_per_workgroup: u32,
    /// Most bytes of workgroup memory.
    pub max_workgroup_bytes: u32,
}

/// A device, as it describes itself.
#[derive(Clone, Debug, Serialize)]
pub struct DeviceInfo {
    /// The name it is chosen by: `cpu`, `wgpu:0`.
    pub id: String,
    /// The marketing name.
    pub name: String,
    /// The API it is reached through: `cpu`, `vulkan`, `metal`, `dx12`, `gl`, `webgpu`.
    pub api: String,
    /// What kind of processor it is.
    pub kind: DeviceKind,
    /// Driver name and version.
    pub driver: String,
    /// PCI bus address, where known: the same on every route to one card.
    pub pci_bus: Option<String>,
    /// Total memory, bytes, where known.
    pub memory_bytes: Option<u64>,
    /// Hardware threads, for the CPU.
    pub threads: Option<usize>,
    /// What it can take.
    pub limits: Limits,
    /// The dtypes it computes in.
    pub dtypes: Vec<DType>,
    /// Optional features in use, by the API's own names.
    pub features: Vec<String>,
    /// What it does with subnormals.
    #[serde(skip)]
    pub subnormals: Subnormals,
}

/// Bytes held on a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MemoryStats {
    /// Held by live buffers.
    pub in_use_bytes: u64,
    /// Largest value of `in_use_bytes` so far.
    pub peak_bytes: u64,
    /// Kept for reuse.
    pub cached_bytes: u64,
    /// The pool's limit, when one is set.
    pub limit_bytes: Option<u64>,
    /// Allocations asked of the driver so far.
    pub driver_allocations: u64,
}

/// Memory of a device; see [`Device::memory`](crate::Device::memory). Fields of [`MemoryStats`] can be read from it directly, and its text is a table.
///
/// The tags count tensors, and `stats` counts buffers: also the scratch of operations, and tensors that no list has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Bytes held, the most so far, kept for reuse, allowed.
    #[serde(flatten)]
    pub stats: MemoryStats,
    /// Bytes of tensors by tag, the largest first; empty where the device keeps no list ([`Device::tagged`](crate::Device::tagged)).
    pub tags: Vec<TagMemory>,
}

impl Deref for Memory {
    type Target = MemoryStats;

    fn deref(&self) -> &MemoryStats {
        &self.stats
    }
}

impl fmt::Display for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let MemoryStats { in_use_bytes, peak_bytes, cached_bytes, limit_bytes, .. } = self.stats;
        write!(f, "{in_use_bytes} bytes in use, {peak_bytes} at most so far, {cached_bytes} kept for reuse, ")?;
        match limit_bytes {
            Some(limit) => write!(f, "{limit} allowed")?,
            None => write!(f, "no limit")?,
        }
        if self.tags.is_empty() {
            return Ok(());
        }
        writeln!(f)?;
        write_tags(f, &self.tags)
    }
}

/// How long something took on the device.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Elapsed {
    /// Nanoseconds.
    pub ns: f64,
    /// Which clock measured it.
    pub clock: Clock,
}

/// Where a time was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Clock {
    /// Timestamps written by the device around the work itself.
    Device,
    /// The host's clock, submission and waiting included.
    Host,
}
