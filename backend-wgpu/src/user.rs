//! Users' kernels: WGSL that is trusted with nothing.
//!
//! A kernel is read (`polywarp_shaders::wgsl`) and compiled once per (text, entry point, defines). Its bindings are
//! checked against its own declarations at every launch, since wgpu reports a wrong one only when the whole recording is
//! refused. Bounds checks, loop bounding and zeroed workgroup memory stay on. Only the bytes of a binding's range are
//! visible to the kernel.

use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

use naga::valid::Capabilities;
use polywarp_core::{Binding, Error, Kernel, Result};
use polywarp_shaders::wgsl::{BufferInfo, BufferUse, Interface, guarded, read_kernel};

use crate::device::WgpuBackend;
use crate::fault::{lock, watched, words};
use crate::pipelines::new_layout_id;
use crate::pool::Raw;
use crate::stream::UserGroup;

/// Compiled kernels kept at most.
const MOST_KERNELS: usize = 512;

/// Most bytes of private variables and locals: eight times what WGSL guarantees (8192, "Limits"). Software drivers put
/// them on the stack.
const MOST_PRIVATE_BYTES: u32 = 64 << 10;

/// Kernels compiled so far, by a hash of text, entry point and defines; equal hashes are told apart by the kernel itself.
#[derive(Debug, Default)]
pub(crate) struct UserKernels {
    compiled: Mutex<HashMap<u64, Vec<Arc<UserKernel>>>>,
}

/// A user's kernel ready to run.
#[derive(Debug)]
struct UserKernel {
    kernel: Kernel,
    interface: Interface,
    pipeline: wgpu::ComputePipeline,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    index: u32,
    id: u64,
    layout: wgpu::BindGroupLayout,
}

/// A binding that was checked against its declaration.
struct Checked<'a> {
    declared: &'a BufferInfo,
    raw: &'a Arc<Raw>,
    offset: u64,
    size: u64,
}

impl WgpuBackend {
    pub(crate) fn run_user(&self, kernel: &Kernel, grid: [u32; 3], bindings: &[Binding]) -> Result<()> {
        self.fault.check()?;
        let compiled = self.user_kernel(kernel)?;
        let checked = self.check_bindings(&compiled.interface, bindings)?;
        let max = self.limits.max_compute_workgroups_per_dimension;
        if grid.iter().any(|&count| count > max) {
            return Err(Error::DispatchTooLarge { device: self.fault.device().to_owned(), grid, max });
        }
        if grid.contains(&0) {
            return Ok(());
        }
        let groups = compiled.groups.iter().map(|group| group.bind(&checked)).collect();
        lock(&self.stream).launch_user(&compiled.pipeline, groups, grid)
    }

    fn user_kernel(&self, kernel: &Kernel) -> Result<Arc<UserKernel>> {
        let hash = hash_of(kernel);
        let known = |kernels: &[Arc<UserKernel>]| kernels.iter().find(|known| known.kernel == *kernel).cloned();
        if let Some(compiled) = lock(&self.user_kernels.compiled).get(&hash).and_then(|kernels| known(kernels)) {
            return Ok(compiled);
        }
        let capabilities = capabilities_of(self.gpu.features());
        let interface = read_kernel(self.fault.device(), kernel, capabilities)?.interface;
        self.check_resources(&interface)?;
        // Drivers' compilers recurse as naga does.
        let compiled = guarded(|| self.compile(kernel, interface))?;
        let compiled = Arc::new(compiled);
        let mut kernels = lock(&self.user_kernels.compiled);
        if kernels.len() >= MOST_KERNELS {
            kernels.clear();
        }
        let same_hash = kernels.entry(hash).or_default();
        same_hash.retain(|known| known.kernel != *kernel);
        same_hash.push(Arc::clone(&compiled));
        Ok(compiled)
    }

    fn check_resources(&self, interface: &Interface) -> Result<()> {
        let limits = &self.limits;
        let [x, y, z] = interface.workgroup_size.map(u64::from);
        let storage = interface.buffers.iter().filter(|d| d.usage != BufferUse::Uniform).count() as u64;
        let uniform = interface.buffers.len() as u64 - storage;
        let groups = interface.buffers.iter().map(|d| u64::from(d.group) + 1).max().unwrap_or(0);
        let numbers = interface.buffers.iter().map(|d| u64::from(d.binding) + 1).max().unwrap_or(0);
        let needs = [
            ("invocations per workgroup along x", x, limits.max_compute_workgroup_size_x),
            ("invocations per workgroup along y", y, limits.max_compute_workgroup_size_y),
            ("invocations per workgroup along z", z, limits.max_compute_workgroup_size_z),
            (
                "invocations per workgroup",
                x.saturating_mul(y).saturating_mul(z),
                limits.max_compute_invocations_per_workgroup,
            ),
            ("bytes of private variables", interface.private_bytes, MOST_PRIVATE_BYTES),
            ("bytes of workgroup memory", interface.workgroup_bytes, limits.max_compute_workgroup_storage_size),
            ("storage buffers", storage, limits.max_storage_buffers_per_shader_stage),
            ("uniform buffers", uniform, limits.max_uniform_buffers_per_shader_stage),
            ("bind groups", groups, limits.max_bind_groups),
            ("bindings in a group", numbers, limits.max_bindings_per_bind_group),
        ];
        for (kind, requested, max) in needs {
            if requested > u64::from(max) {
                let device = self.fault.device().to_owned();
                return Err(Error::ResourceLimit { device, kind, requested, max: u64::from(max) });
            }
        }
        Ok(())
    }

    fn compile(&self, kernel: &Kernel, interface: Interface) -> Result<UserKernel> {
        let device = &self.gpu;
        let constants: Vec<(&str, f64)> = interface.constants.iter().map(|(name, v)| (name.as_str(), *v)).collect();
        let ((pipeline, groups), error) = watched(device, || {
            let groups = group_layouts(device, &interface);
            let count = groups.last().map_or(0, |group| group.index as usize + 1);
            let mut layouts = vec![None; count];
            for group in &groups {
                layouts[group.index as usize] = Some(&group.layout);
            }
            let layout = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
                label: None,
                bind_group_layouts: &layouts,
                immediate_size: 0,
            });
            let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
                label: Some("user kernel"),
                source: wgpu::ShaderSource::Wgsl(kernel.wgsl.as_str().into()),
            });
            let pipeline = device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(&interface.entry),
                layout: Some(&layout),
                module: &module,
                entry_point: Some(&interface.entry),
                compilation_options: wgpu::PipelineCompilationOptions {
                    constants: &constants,
                    zero_initialize_workgroup_memory: true,
                },
                cache: None,
            });
            (pipeline, groups)
        });
        match error {
            None => Ok(UserKernel { kernel: kernel.clone(), interface, pipeline, groups }),
            Some(error) => Err(Error::Shader { line: 0, column: 0, message: words(&error) }),
        }
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
            let raw = self.own(&binding.buffer)?;
            let (offset, size) = self.check_range(declared, binding, raw)?;
            // A launch may read a buffer at several bindings or write it, not both: wgpu tracks whole buffers.
            let clash = checked.iter().find(|other| {
                (other.raw.id == raw.id || other.raw.buffer == raw.buffer)
                    && other.declared.usage != declared.usage
                    && (other.declared.usage == BufferUse::ReadWrite || declared.usage == BufferUse::ReadWrite)
            });
            if let Some(other) = clash {
                let (group, binding) = (other.declared.group, other.declared.binding);
                let reason = format!("the same buffer is bound at {group}.{binding}, and one of both is written");
                return Err(refused(at, reason));
            }
            checked.push(Checked { declared, raw, offset, size });
        }
        Ok(checked)
    }

    /// Offset and size that wgpu is given for `binding`.
    fn check_range(&self, declared: &BufferInfo, binding: &Binding, raw: &Raw) -> Result<(u64, u64)> {
        let at = (declared.group, declared.binding);
        let range = &binding.range;
        let Some(len) = range.end.checked_sub(range.start).filter(|_| range.end <= binding.buffer.size_bytes()) else {
            let size = binding.buffer.size_bytes();
            return Err(refused(at, format!("bytes {}..{} are not in a buffer of {size}", range.start, range.end)));
        };
        let (alignment, limit, usage) = match declared.usage {
            BufferUse::Uniform => (
                self.limits.min_uniform_buffer_offset_alignment,
                self.limits.max_uniform_buffer_binding_size,
                wgpu::BufferUsages::UNIFORM,
            ),
            _ => (
                self.limits.min_storage_buffer_offset_alignment,
                self.limits.max_storage_buffer_binding_size,
                wgpu::BufferUsages::STORAGE,
            ),
        };
        if !range.start.is_multiple_of(u64::from(alignment.max(1))) {
            let start = range.start;
            return Err(refused(at, format!("starts at byte {start}, this device wants multiples of {alignment}")));
        }
        if !raw.buffer.usage().contains(usage) {
            return Err(refused(at, format!("the wrapped buffer lacks the usage {usage:?}")));
        }
        // Whole words are visible; what pads the last one is in the buffer and nobody's.
        let mut size = len.next_multiple_of(4).min(raw.capacity_bytes - range.start);
        if declared.usage == BufferUse::Uniform {
            size = size.next_multiple_of(16).min(raw.capacity_bytes - range.start).min(limit);
        }
        if size < declared.min_bytes {
            let (name, needs) = (&declared.name, declared.min_bytes);
            return Err(refused(at, format!("`{name}` needs {needs} bytes, {len} are bound")));
        }
        if size > limit {
            return Err(Error::BindingTooLarge { device: self.fault.device().to_owned(), size, limit });
        }
        Ok((range.start, size))
    }
}

impl Group {
    fn bind<'a>(&'a self, checked: &[Checked<'a>]) -> UserGroup<'a> {
        let mut group = UserGroup {
            index: self.index,
            key: vec![self.id],
            layout: &self.layout,
            entries: Vec::new(),
            buffers: Vec::new(),
        };
        for binding in checked.iter().filter(|b| b.declared.group == self.index) {
            group.key.extend([binding.raw.id, binding.offset, binding.size]);
            group.buffers.push(binding.raw);
            group.entries.push(wgpu::BindGroupEntry {
                binding: binding.declared.binding,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: &binding.raw.buffer,
                    offset: binding.offset,
                    size: wgpu::BufferSize::new(binding.size),
                }),
            });
        }
        group
    }
}

fn group_layouts(device: &wgpu::Device, interface: &Interface) -> Vec<Group> {
    let mut indices: Vec<u32> = interface.buffers.iter().map(|d| d.group).collect();
    indices.dedup();
    let groups = indices.into_iter().map(|index| {
        let entries: Vec<wgpu::BindGroupLayoutEntry> = interface
            .buffers
            .iter()
            .filter(|d| d.group == index)
            .map(|d| wgpu::BindGroupLayoutEntry {
                binding: d.binding,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: match d.usage {
                        BufferUse::Uniform => wgpu::BufferBindingType::Uniform,
                        BufferUse::Read => wgpu::BufferBindingType::Storage { read_only: true },
                        BufferUse::ReadWrite => wgpu::BufferBindingType::Storage { read_only: false },
                    },
                    has_dynamic_offset: false,
                    min_binding_size: wgpu::BufferSize::new(d.min_bytes),
                },
                count: None,
            })
            .collect();
        let layout =
            device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries });
        Group { index, id: new_layout_id(), layout }
    });
    groups.collect()
}

fn hash_of(kernel: &Kernel) -> u64 {
    let mut hasher = std::hash::DefaultHasher::new();
    kernel.wgsl.hash(&mut hasher);
    kernel.entry.hash(&mut hasher);
    for (name, value) in &kernel.defines {
        name.hash(&mut hasher);
        value.to_bits().hash(&mut hasher);
    }
    hasher.finish()
}

fn refused((group, binding): (u32, u32), reason: String) -> Error {
    Error::Binding { group, binding, reason }
}

/// What naga may accept for a device with these features.
fn capabilities_of(features: wgpu::Features) -> Capabilities {
    let pairs = [
        (wgpu::Features::SHADER_F16, Capabilities::SHADER_FLOAT16),
        (wgpu::Features::SHADER_F64, Capabilities::FLOAT64),
        (wgpu::Features::SHADER_I16, Capabilities::SHADER_INT16),
        (wgpu::Features::SHADER_INT64, Capabilities::SHADER_INT64),
        (wgpu::Features::SUBGROUP, Capabilities::SUBGROUP),
        (wgpu::Features::SUBGROUP_BARRIER, Capabilities::SUBGROUP_BARRIER),
        (wgpu::Features::SHADER_INT64_ATOMIC_MIN_MAX, Capabilities::SHADER_INT64_ATOMIC_MIN_MAX),
        (wgpu::Features::SHADER_INT64_ATOMIC_ALL_OPS, Capabilities::SHADER_INT64_ATOMIC_ALL_OPS),
        (wgpu::Features::SHADER_FLOAT32_ATOMIC, Capabilities::SHADER_FLOAT32_ATOMIC),
    ];
    // WGSL itself has pack2x16float and quantizeToF16; wgpu refuses them itself on the few devices that lack them.
    let mut capabilities = Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    for (feature, capability) in pairs {
        capabilities.set(capability, features.contains(feature));
    }
    capabilities
}
