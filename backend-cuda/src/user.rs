//! Users' kernels: WGSL that is trusted with nothing.
//!
//! A kernel is read (`polywarp_shaders::wgsl`) and compiled once per (text, entry point, defines), with every index
//! clamped, workgroup memory zeroed and loops bounded: PTX itself checks nothing. Bindings are checked against the
//! kernel's own declarations at every launch. Only the bytes of a binding's range are visible to the kernel.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Arc, Mutex};

use polywarp_core::{Binding, Error, Kernel as Text, Result};
use polywarp_shaders::wgsl::{BufferInfo, BufferUse, Interface, read_kernel};

use crate::device::{Allocation, CudaBackend};
use crate::fault::lock;
use crate::kernels::{CAPABILITIES, Kernel};
use crate::params::Bound;

/// Compiled kernels kept at most.
const MOST_KERNELS: usize = 512;
/// Most bytes of private variables and locals, per invocation: a card sets this aside for every thread it can run at once.
const MOST_PRIVATE_BYTES: u64 = 64 << 10;
/// Alignment of a binding's start: a four-element load of 32-bit words is one instruction.
const BINDING_ALIGN_BYTES: u64 = 16;
/// Largest uniform: WebGPU's own limit, so that a kernel that runs here runs elsewhere.
const MOST_UNIFORM_BYTES: u64 = 64 << 10;
/// Most buffers: their addresses and sizes fit the block of parameters.
const MOST_BUFFERS: u64 = 128;

/// Kernels compiled so far, by a hash of text, entry point and defines; equal hashes are told apart by the kernel itself.
#[derive(Debug, Default)]
pub(crate) struct UserKernels(Mutex<HashMap<u64, Vec<Arc<UserKernel>>>>);

/// A user's kernel ready to run.
#[derive(Debug)]
struct UserKernel {
    text: Text,
    interface: Interface,
    kernel: Arc<Kernel>,
}

/// A binding that was checked against its declaration.
struct Checked<'a> {
    declared: &'a BufferInfo,
    allocation: &'a Allocation,
    bound: Bound,
}

impl CudaBackend {
    pub(crate) fn run_user(&self, text: &Text, grid: [u32; 3], bindings: &[Binding]) -> Result<()> {
        self.fault().check()?;
        let compiled = self.user_kernel(text)?;
        let checked = self.check_bindings(&compiled.interface, bindings)?;
        let max = self.caps().max_workgroups_per_dimension;
        if grid.iter().any(|&count| count > max) {
            return Err(Error::DispatchTooLarge { device: self.id().to_owned(), grid, max });
        }
        if grid.contains(&0) {
            return Ok(());
        }
        let kernel = &compiled.kernel;
        let bound: Vec<Bound> = checked.iter().map(|binding| binding.bound).collect();
        let params = kernel.metadata.pack(&bound, &[]).map_err(|why| {
            let message = format!("its bindings do not fit, which is a bug of polywarp, please report it: {why}");
            Error::Shader { line: 0, column: 0, message }
        })?;
        let leases = checked.iter().map(|binding| binding.allocation.lease());
        // SAFETY: the parameters are the kernel's own, packed for it. Every address is of a live buffer and its size is
        // passed beside it; the kernel was compiled to stay inside. A buffer that is dropped before the kernel ran goes
        // to the pool, and its next owner's work comes later on the stream.
        unsafe { self.give(kernel, grid, params.bytes(), leases) }
    }

    fn user_kernel(&self, text: &Text) -> Result<Arc<UserKernel>> {
        let hash = hash_of(text);
        let known = |kernels: &[Arc<UserKernel>]| kernels.iter().find(|known| known.text == *text).cloned();
        if let Some(compiled) = lock(&self.user_kernels.0).get(&hash).and_then(|kernels| known(kernels)) {
            return Ok(compiled);
        }
        let read = read_kernel(self.id(), text, CAPABILITIES)?;
        self.check_resources(&read.interface)?;
        let entry = &read.interface.entry;
        let identity = format!("user kernel {entry} {:?}\n{}", read.interface.constants, text.wgsl);
        let kernel = Arc::new(self.kernels.compiler.users(&read.module, &read.info, entry, &identity)?);
        let compiled = Arc::new(UserKernel { text: text.clone(), interface: read.interface, kernel });
        let mut kernels = lock(&self.user_kernels.0);
        if kernels.len() >= MOST_KERNELS {
            kernels.clear();
        }
        let same_hash = kernels.entry(hash).or_default();
        same_hash.retain(|known| known.text != *text);
        same_hash.push(Arc::clone(&compiled));
        Ok(compiled)
    }

    fn check_resources(&self, interface: &Interface) -> Result<()> {
        let [x, y, z] = interface.workgroup_size.map(u64::from);
        let caps = self.caps();
        let needs = [
            ("invocations per workgroup along z", z, 64),
            ("invocations per workgroup", x.saturating_mul(y).saturating_mul(z), u64::from(caps.max_invocations)),
            ("bytes of private variables", interface.private_bytes, MOST_PRIVATE_BYTES),
            ("bytes of workgroup memory", interface.workgroup_bytes, u64::from(caps.max_workgroup_bytes)),
            ("buffers", interface.buffers.len() as u64, MOST_BUFFERS),
        ];
        for (kind, requested, max) in needs {
            if requested > max {
                return Err(Error::ResourceLimit { device: self.id().to_owned(), kind, requested, max });
            }
        }
        Ok(())
    }

    fn check_bindings<'a>(&self, interface: &'a Interface, bindings: &'a [Binding]) -> Result<Vec<Checked<'a>>> {
        for (index, binding) in bindings.iter().enumerate() {
            let at = (binding.group, binding.binding);
            if !interface.declared.contains(&at) {
                return Err(refused(at, "the shader declares nothing here".to_owned()));
            }
            if bindings[..index].iter().any(|earlier| (earlier.group, earlier.binding) == at) {
                return Err(refused(at, "bound twice".to_owned()));
            }
        }
        let mut checked: Vec<Checked<'a>> = Vec::with_capacity(interface.buffers.len());
        for declared in &interface.buffers {
            let at = (declared.group, declared.binding);
            let Some(binding) = bindings.iter().find(|b| (b.group, b.binding) == at) else {
                return Err(refused(at, format!("the shader declares `{}` here but nothing is bound", declared.name)));
            };
            let allocation = self.own(&binding.buffer)?;
            let bytes = check_range(declared, binding, allocation)?;
            // A launch may read a buffer at several bindings or write it, not both: what is only read is read through
            // a cache that does not see writes.
            let clash = checked.iter().find(|other| {
                other.allocation.address() == allocation.address()
                    && other.declared.usage != declared.usage
                    && (other.declared.usage == BufferUse::ReadWrite || declared.usage == BufferUse::ReadWrite)
            });
            if let Some(other) = clash {
                let (group, binding) = (other.declared.group, other.declared.binding);
                let reason = format!("the same buffer is bound at {group}.{binding}, and one of both is written");
                return Err(refused(at, reason));
            }
            let address = allocation.address() + binding.range.start;
            let bound = Bound { group: declared.group, binding: declared.binding, address, bytes };
            checked.push(Checked { declared, allocation, bound });
        }
        Ok(checked)
    }
}

/// The bytes that the kernel sees of `binding`.
fn check_range(declared: &BufferInfo, binding: &Binding, allocation: &Allocation) -> Result<u64> {
    let at = (declared.group, declared.binding);
    let range = &binding.range;
    let size = binding.buffer.size_bytes();
    let Some(len) = range.end.checked_sub(range.start).filter(|_| range.end <= size) else {
        return Err(refused(at, format!("bytes {}..{} are not in a buffer of {size}", range.start, range.end)));
    };
    if !range.start.is_multiple_of(BINDING_ALIGN_BYTES) {
        let start = range.start;
        return Err(refused(
            at,
            format!("starts at byte {start}, this device wants multiples of {BINDING_ALIGN_BYTES}"),
        ));
    }
    // Whole words are visible (of a uniform, whole vectors); what pads the last one is in the buffer and nobody's.
    let unit = if declared.usage == BufferUse::Uniform { 16 } else { 4 };
    let bytes = len.next_multiple_of(unit).min(allocation.lease().capacity_bytes() - range.start);
    if bytes < declared.min_bytes {
        let (name, needs) = (&declared.name, declared.min_bytes);
        return Err(refused(at, format!("`{name}` needs {needs} bytes, {len} are bound")));
    }
    if declared.usage == BufferUse::Uniform && declared.min_bytes > MOST_UNIFORM_BYTES {
        return Err(refused(at, format!("a uniform has at most {MOST_UNIFORM_BYTES} bytes; use var<storage, read>")));
    }
    Ok(bytes)
}

fn hash_of(text: &Text) -> u64 {
    let mut hasher = DefaultHasher::new();
    text.wgsl.hash(&mut hasher);
    text.entry.hash(&mut hasher);
    for (name, value) in &text.defines {
        name.hash(&mut hasher);
        value.to_bits().hash(&mut hasher);
    }
    hasher.finish()
}

fn refused((group, binding): (u32, u32), reason: String) -> Error {
    Error::Binding { group, binding, reason }
}
