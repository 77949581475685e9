//! Pipelines of the library's own kernels, made once per [`KernelKey`].
//!
//! Kernels with the same bindings share one layout, so that consecutive launches keep their bind group. Two threads that
//! need the same new kernel compile it once; threads that need different ones do not wait for each other. A kernel that
//! does not compile is a bug of this library and reported as [`Error::Shader`]. Users' kernels are in `user.rs`.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use polywarp_core::plan::{Access, KernelKey, Source};
use polywarp_core::{Error, Result};
#[cfg(not(target_arch = "wasm32"))]
use polywarp_shaders::for_glsl;
#[cfg(not(target_arch = "wasm32"))]
use polywarp_shaders::wgsl::{guarded, parse_and_validate};

use crate::driver::Kept;
use crate::fault::{lock, watched, words};
use crate::native;

/// Parameters are padded to multiples of this, so that most kernels share a layout.
const PARAMS_STEP_BYTES: u64 = 64;

/// Buffers that the library's kernels bind are a positive multiple of this long: their loads, which nothing checks, take
/// whole vectors of four words.
pub(crate) const VECTOR_BYTES: u64 = 16;

/// What a kernel binds: parameters at binding 0, storage buffers from binding 1 on.
#[derive(Debug)]
pub(crate) struct GroupLayout {
    /// Distinguishes layouts in keys of bind groups.
    pub(crate) id: u64,
    pub(crate) group: wgpu::BindGroupLayout,
    /// Bytes of the parameters' binding.
    pub(crate) params_bytes: u64,
    pipeline: wgpu::PipelineLayout,
}

impl GroupLayout {
    /// A bind group of `params`, with a dynamic offset, and `buffers` at bindings 1, 2, ... For callers who have it
    /// [`watched`].
    pub(crate) fn bind<'a>(
        &self,
        device: &wgpu::Device,
        params: &wgpu::Buffer,
        buffers: impl Iterator<Item = &'a wgpu::Buffer>,
    ) -> wgpu::BindGroup {
        let mut entries = vec![wgpu::BindGroupEntry {
            binding: 0,
            resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                buffer: params,
                offset: 0,
                size: wgpu::BufferSize::new(self.params_bytes),
            }),
        }];
        for (index, buffer) in buffers.enumerate() {
            entries.push(wgpu::BindGroupEntry { binding: 1 + index as u32, resource: buffer.as_entire_binding() });
        }
        device.create_bind_group(&wgpu::BindGroupDescriptor { label: None, layout: &self.group, entries: &entries })
    }
}

/// Where a kernel comes from, and so what it is trusted with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trust {
    /// The library: it stays inside its buffers, and its loops end.
    Own,
    /// An operation of another crate: nothing.
    Brought,
}

/// A kernel ready to run.
#[derive(Debug)]
pub(crate) struct Pipeline {
    pub(crate) name: Arc<str>,
    pub(crate) raw: wgpu::ComputePipeline,
    pub(crate) layout: Arc<GroupLayout>,
}

#[derive(Debug, Default)]
struct Slot {
    ready: OnceLock<Arc<Pipeline>>,
    making: Mutex<()>,
}

/// Use of the storage buffers, and bytes of parameters.
type LayoutKey = (Vec<Access>, u64);

#[derive(Debug)]
pub(crate) struct Pipelines {
    device_id: String,
    kernels: RwLock<HashMap<KernelKey, Arc<Slot>>>,
    layouts: Mutex<HashMap<LayoutKey, Arc<GroupLayout>>>,
    /// Whether wgpu turns kernels into GLSL, for which they are rewritten.
    writes_glsl: bool,
    // Last: everything else goes before the device.
    device: Kept<wgpu::Device>,
}

static NEXT_LAYOUT_ID: AtomicU64 = AtomicU64::new(1);

/// A number no other layout of this process has.
pub(crate) fn new_layout_id() -> u64 {
    NEXT_LAYOUT_ID.fetch_add(1, Ordering::Relaxed)
}

impl Pipelines {
    pub(crate) fn new(device: Kept<wgpu::Device>, device_id: String) -> Pipelines {
        let writes_glsl = device.adapter_info().backend == wgpu::Backend::Gl;
        Pipelines { device_id, kernels: RwLock::default(), layouts: Mutex::default(), writes_glsl, device }
    }

    /// Whether wgpu turns kernels into GLSL.
    pub(crate) fn writes_glsl(&self) -> bool {
        self.writes_glsl
    }

    /// The pipeline for `key`, whose launches have `params_words` words of parameters.
    pub(crate) fn get(&self, key: &KernelKey, params_words: usize) -> Result<Arc<Pipeline>> {
        let slot = self.slot(key);
        if let Some(pipeline) = slot.ready.get() {
            return Ok(Arc::clone(pipeline));
        }
        let _making = lock(&slot.making);
        if let Some(pipeline) = slot.ready.get() {
            return Ok(Arc::clone(pipeline));
        }
        let trust = if key.is_own() { Trust::Own } else { Trust::Brought };
        let pipeline = self.create(&key.source(), params_words, trust)?;
        Ok(Arc::clone(slot.ready.get_or_init(|| pipeline)))
    }

    /// Compiles `source`, a kernel of this provenance.
    pub(crate) fn create(&self, source: &Source, params_words: usize, trust: Trust) -> Result<Arc<Pipeline>> {
        let written = self.written(source, trust)?;
        let (pipeline, error) = watched(&self.device, || {
            let layout = self.layout(&source.bindings, params_words);
            let module = match trust {
                Trust::Own => native::trusted_module(&self.device, &source.name, written),
                Trust::Brought => {
                    let label = Some(source.name.as_str());
                    self.device.create_shader_module(wgpu::ShaderModuleDescriptor { label, source: written })
                }
            };
            let raw = self.device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(&source.name),
                layout: Some(&layout.pipeline),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    constants: &[],
                    // Own kernels write workgroup memory before they read it.
                    zero_initialize_workgroup_memory: trust == Trust::Brought,
                },
                cache: None,
            });
            Arc::new(Pipeline { name: source.name.as_str().into(), raw, layout })
        });
        let Some(error) = error else { return Ok(pipeline) };
        log::debug!("kernel {} was refused; its source:\n{}", source.name, source.wgsl);
        let whose = match trust {
            Trust::Own => ", which is a bug of polywarp, please report it",
            Trust::Brought => "",
        };
        let (name, device) = (&source.name, &self.device_id);
        let message = format!("kernel `{name}` does not compile on {device}{whose}: {}", words(&error));
        Err(Error::Shader { line: 0, column: 0, message })
    }

    /// A kernel of the library as wgpu is given it. Kernels divide users' integers, and convert users' floats: on GL that would
    /// have other values than WGSL promises.
    #[cfg(not(target_arch = "wasm32"))]
    fn written<'a>(&self, source: &'a Source, trust: Trust) -> Result<wgpu::ShaderSource<'a>> {
        if trust == Trust::Own && !self.writes_glsl {
            return Ok(wgpu::ShaderSource::Wgsl(source.wgsl.as_str().into()));
        }
        // A text that was brought may be nested without end, which would end the process elsewhere.
        let (module, info) = parse_and_validate(&source.wgsl, naga::valid::Capabilities::all())?;
        if !self.writes_glsl {
            return Ok(wgpu::ShaderSource::Naga(std::borrow::Cow::Owned(module)));
        }
        let (module, _) = guarded(|| for_glsl(&module, &info, &self.device_id, &source.wgsl))?;
        Ok(wgpu::ShaderSource::Naga(std::borrow::Cow::Owned(module)))
    }

    #[cfg(target_arch = "wasm32")]
    fn written<'a>(&self, source: &'a Source, _: Trust) -> Result<wgpu::ShaderSource<'a>> {
        Ok(wgpu::ShaderSource::Wgsl(source.wgsl.as_str().into()))
    }

    /// Kernels compiled so far.
    pub(crate) fn compiled(&self) -> usize {
        let kernels = self.kernels.read().unwrap_or_else(PoisonError::into_inner);
        kernels.values().filter(|slot| slot.ready.get().is_some()).count()
    }

    /// Whether `key` was compiled already.
    pub(crate) fn has(&self, key: &KernelKey) -> bool {
        let kernels = self.kernels.read().unwrap_or_else(PoisonError::into_inner);
        kernels.get(key).is_some_and(|slot| slot.ready.get().is_some())
    }

    fn slot(&self, key: &KernelKey) -> Arc<Slot> {
        let kernels = self.kernels.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(slot) = kernels.get(key) {
            return Arc::clone(slot);
        }
        drop(kernels);
        let mut kernels = self.kernels.write().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(kernels.entry(key.clone()).or_default())
    }

    fn layout(&self, bindings: &[Access], params_words: usize) -> Arc<GroupLayout> {
        let params_bytes = (4 * params_words as u64).max(1).next_multiple_of(PARAMS_STEP_BYTES);
        let mut layouts = lock(&self.layouts);
        let key = (bindings.to_vec(), params_bytes);
        Arc::clone(layouts.entry(key).or_insert_with(|| Arc::new(self.create_layout(bindings, params_bytes))))
    }

    fn create_layout(&self, bindings: &[Access], params_bytes: u64) -> GroupLayout {
        let mut entries = vec![wgpu::BindGroupLayoutEntry {
            binding: 0,
            visibility: wgpu::ShaderStages::COMPUTE,
            ty: wgpu::BindingType::Buffer {
                ty: wgpu::BufferBindingType::Uniform,
                has_dynamic_offset: true,
                // Stated, so that a kernel with larger parameters is refused when it is compiled.
                min_binding_size: wgpu::BufferSize::new(params_bytes),
            },
            count: None,
        }];
        for (index, &access) in bindings.iter().enumerate() {
            entries.push(wgpu::BindGroupLayoutEntry {
                binding: 1 + index as u32,
                visibility: wgpu::ShaderStages::COMPUTE,
                ty: wgpu::BindingType::Buffer {
                    ty: wgpu::BufferBindingType::Storage { read_only: access == Access::Read },
                    has_dynamic_offset: false,
                    min_binding_size: wgpu::BufferSize::new(VECTOR_BYTES),
                },
                count: None,
            });
        }
        let descriptor = wgpu::BindGroupLayoutDescriptor { label: None, entries: &entries };
        let group = self.device.create_bind_group_layout(&descriptor);
        let pipeline = self.device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
            label: None,
            bind_group_layouts: &[Some(&group)],
            immediate_size: 0,
        });
        GroupLayout { id: new_layout_id(), group, params_bytes, pipeline }
    }
}
