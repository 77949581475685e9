//! A user's launch held against its kernel and its device: resources, grid, and what is bound where.
//!
//! Checked before anything is recorded, since drivers report late or not at all. The device's own part is data
//! ([`LaunchLimits`]) and its memory, which only needs to say whether two blocks are the same ([`Bindable`]). What comes back ([`CheckedBinding`]) is what a backend binds: the kernel sees those bytes and no others.

use std::sync::Arc;

use polywarp_core::pool::{Lease, Source};
use polywarp_core::{Binding, Buffer, Error, Result};

use super::kernel::{BufferInfo, BufferUse, Interface};

/// What one kernel may use on a device; `MAX` where there is no limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LaunchLimits {
    /// The device's name, for errors.
    pub device: String,
    /// Most invocations of a workgroup along x, y, z.
    pub workgroup_size: [u32; 3],
    /// Most invocations of a workgroup.
    pub invocations: u32,
    /// Most workgroups of a launch along x, y, z.
    pub workgroups: [u32; 3],
    /// Most bytes of workgroup memory.
    pub workgroup_bytes: u64,
    /// Most bytes of private variables and locals, per invocation.
    pub private_bytes: u64,
    /// Most buffers.
    pub buffers: u64,
    /// Most storage buffers.
    pub storage_buffers: u64,
    /// Most uniform buffers.
    pub uniform_buffers: u64,
    /// Most bind groups: one more than the largest `@group`.
    pub groups: u64,
    /// One more than the largest `@binding`.
    pub bindings_per_group: u64,
    /// How `var<uniform>` may be bound.
    pub uniform: RangeLimits,
    /// How `var<storage>` may be bound.
    pub storage: RangeLimits,
}

/// Which ranges of a buffer may be bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RangeLimits {
    /// Their start is a multiple of this many bytes.
    pub align_bytes: u64,
    /// Most bytes of one.
    pub max_bytes: u64,
}

/// Memory that a backend binds: a block of its pool, or an application's.
pub trait Bindable {
    /// Whether both are the same memory, so that a write through one is seen through the other.
    fn is_same(&self, other: &Self) -> bool;

    /// Why it cannot be bound for `usage`, if it cannot.
    fn refuses(&self, usage: BufferUse) -> Option<String> {
        let _ = usage;
        None
    }
}

/// A binding that fits its declaration.
#[derive(Debug)]
pub struct CheckedBinding<'a, S: Source> {
    /// What the shader declares.
    pub declared: &'a BufferInfo,
    /// What is bound there.
    pub memory: &'a Arc<Lease<S>>,
    /// Where the kernel's view of it starts.
    pub offset_bytes: u64,
    /// How many bytes the kernel sees: whole words, of a uniform whole vectors.
    pub bytes: u64,
}

impl<S: Source<Block: Bindable>> CheckedBinding<'_, S> {
    /// Why a launch cannot have both, if it cannot.
    fn clash(&self, other: &CheckedBinding<'_, S>) -> Option<&'static str> {
        let is_written = |binding: &CheckedBinding<'_, S>| binding.declared.usage == BufferUse::ReadWrite;
        let end = |binding: &CheckedBinding<'_, S>| binding.offset_bytes.saturating_add(binding.bytes);
        if !self.memory.is_same(other.memory) {
            return None;
        }
        match (is_written(self), is_written(other)) {
            (false, false) => None,
            // Wherever their bytes lie: wgpu tracks whole buffers, and CUDA reads what is only read through a cache that
            // does not see writes.
            (true, false) | (false, true) => Some("and one of both is written"),
            (true, true) => {
                let apart = end(self) <= other.offset_bytes || end(other) <= self.offset_bytes;
                (!apart).then_some("both are written, and they share bytes")
            }
        }
    }
}

impl LaunchLimits {
    /// Whether `grid` workgroups may be launched at once.
    ///
    /// # Errors
    /// [`Error::DispatchTooLarge`].
    pub fn check_grid(&self, grid: [u32; 3]) -> Result<()> {
        if grid.iter().zip(&self.workgroups).any(|(count, max)| count > max) {
            return Err(Error::DispatchTooLarge { device: self.device.clone(), grid, max: self.workgroups });
        }
        Ok(())
    }

    /// Whether the device has what the kernel of `interface` needs.
    ///
    /// # Errors
    /// [`Error::ResourceLimit`] naming the first resource that is short.
    pub fn check_resources(&self, interface: &Interface) -> Result<()> {
        let [x, y, z] = interface.workgroup_size.map(u64::from);
        let [most_x, most_y, most_z] = self.workgroup_size.map(u64::from);
        let buffers = interface.buffers.len() as u64;
        let storage = interface.buffers.iter().filter(|b| b.usage != BufferUse::Uniform).count() as u64;
        let most = |number: fn(&BufferInfo) -> u32| {
            interface.buffers.iter().map(|buffer| u64::from(number(buffer)) + 1).max().unwrap_or(0)
        };
        let needs = [
            ("invocations per workgroup along x", x, most_x),
            ("invocations per workgroup along y", y, most_y),
            ("invocations per workgroup along z", z, most_z),
            ("invocations per workgroup", x.saturating_mul(y).saturating_mul(z), u64::from(self.invocations)),
            ("bytes of private variables", interface.private_bytes, self.private_bytes),
            ("bytes of workgroup memory", interface.workgroup_bytes, self.workgroup_bytes),
            ("storage buffers", storage, self.storage_buffers),
            ("uniform buffers", buffers - storage, self.uniform_buffers),
            ("buffers", buffers, self.buffers),
            ("bind groups", most(|buffer| buffer.group), self.groups),
            ("bindings in a group", most(|buffer| buffer.binding), self.bindings_per_group),
        ];
        match needs.into_iter().find(|(_, requested, max)| requested > max) {
            Some((kind, requested, max)) => {
                Err(Error::ResourceLimit { device: self.device.clone(), kind, requested, max })
            }
            None => Ok(()),
        }
    }

    /// The bytes that the kernel sees of `binding`, which stands where `declared` is.
    fn check_range<S>(&self, declared: &BufferInfo, binding: &Binding, memory: &Lease<S>) -> Result<u64>
    where
        S: Source<Block: Bindable>,
    {
        let refuse = |reason| Err(refused((declared.group, declared.binding), reason));
        let (range, size) = (&binding.range, binding.buffer.size_bytes());
        let Some(len) = range.end.checked_sub(range.start).filter(|_| range.end <= size) else {
            return refuse(format!("bytes {}..{} are not in a buffer of {size}", range.start, range.end));
        };
        // Of a uniform the shader sees whole vectors.
        let (limits, unit) = match declared.usage {
            BufferUse::Uniform => (self.uniform, 16),
            BufferUse::Read | BufferUse::ReadWrite => (self.storage, 4),
        };
        if !range.start.is_multiple_of(limits.align_bytes.max(1)) {
            let (start, unit) = (range.start, limits.align_bytes);
            return refuse(format!("starts at byte {start}, this device wants multiples of {unit}"));
        }
        if let Some(reason) = memory.refuses(declared.usage) {
            return refuse(reason);
        }
        // What pads the last word is in the block, and nobody's.
        let bytes = len.next_multiple_of(unit).min(memory.capacity_bytes().saturating_sub(range.start));
        if bytes < declared.min_bytes {
            let (name, needs) = (&declared.name, declared.min_bytes);
            return refuse(format!("`{name}` needs {needs} bytes, {len} are bound"));
        }
        // WGSL counts elements in a u32: of more, `arrayLength` and the bounds of indices would be what is left over.
        if let Some(elements) = declared.element_bytes.and_then(|element| bytes.checked_div(element))
            && elements > u64::from(u32::MAX)
        {
            let (name, most) = (&declared.name, u32::MAX);
            return refuse(format!(
                "`{name}` would have {elements} elements, of which WGSL counts {most}; bind a part"
            ));
        }
        if bytes <= limits.max_bytes {
            return Ok(bytes);
        }
        match declared.usage {
            // A uniform's length is in its type: what lies beyond it is never read.
            BufferUse::Uniform if declared.min_bytes <= limits.max_bytes => Ok(limits.max_bytes),
            BufferUse::Uniform => {
                let max = limits.max_bytes;
                refuse(format!("a uniform has at most {max} bytes here; use var<storage, read>"))
            }
            BufferUse::Read | BufferUse::ReadWrite => {
                Err(Error::BindingTooLarge { device: self.device.clone(), size: bytes, limit: limits.max_bytes })
            }
        }
    }
}

impl Interface {
    /// `bindings` held against the kernel's declarations, in the order of [`Interface::buffers`]. `own` finds a buffer's
    /// memory.
    ///
    /// One buffer may stand at several bindings that are all read, and at several that are all written where their bytes
    /// lie apart. WebGPU tracks reading beside writing by whole buffers and two writable bindings by their bytes ("Usage
    /// scopes", "Encoder bind groups alias a writable resource"); natively wgpu does not look at the latter, a browser does.
    ///
    /// # Errors
    /// [`Error::Binding`] for what is missing, bound twice, declared nowhere, outside of its buffer, badly aligned, too
    /// short, written while its buffer is bound to be read, or written at two bindings that share bytes;
    /// [`Error::BindingTooLarge`]; what `own` returns.
    pub fn check_bindings<'a, S>(
        &'a self,
        limits: &LaunchLimits,
        bindings: &'a [Binding],
        own: impl Fn(&'a Buffer) -> Result<&'a Arc<Lease<S>>>,
    ) -> Result<Vec<CheckedBinding<'a, S>>>
    where
        S: Source<Block: Bindable>,
    {
        for (index, binding) in bindings.iter().enumerate() {
            let at = (binding.group, binding.binding);
            if !self.declared.contains(&at) {
                return Err(refused(at, "the shader declares nothing here".to_owned()));
            }
            if bindings[..index].iter().any(|earlier| (earlier.group, earlier.binding) == at) {
                return Err(refused(at, "bound twice".to_owned()));
            }
        }
        let mut checked: Vec<CheckedBinding<'a, S>> = Vec::with_capacity(self.buffers.len());
        for declared in &self.buffers {
            let at = (declared.group, declared.binding);
            let Some(binding) = bindings.iter().find(|b| (b.group, b.binding) == at) else {
                return Err(refused(
                    at,
                    format!("the shader declares `{}` here but nothing is bound; bind a buffer", declared.name),
                ));
            };
            let memory = own(&binding.buffer)?;
            let bytes = limits.check_range(declared, binding, memory)?;
            let new = CheckedBinding { declared, memory, offset_bytes: binding.range.start, bytes };
            if let Some((other, why)) = checked.iter().find_map(|other| Some((other, other.clash(&new)?))) {
                let (group, binding) = (other.declared.group, other.declared.binding);
                return Err(refused(at, format!("the same buffer is bound at {group}.{binding}, {why}")));
            }
            checked.push(new);
        }
        Ok(checked)
    }
}

fn refused((group, binding): (u32, u32), reason: String) -> Error {
    Error::Binding { group, binding, reason }
}

#[cfg(test)]
#[path = "bind_tests.rs"]
mod tests;
