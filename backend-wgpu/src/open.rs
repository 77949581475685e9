//! Making a backend: from an adapter, opened with what it really has ([`AdapterEntry::open`]), or from an application's own
//! device ([`WgpuBackend::from_wgpu`]).
//!
//! In the first case faults that wgpu reports asynchronously go to the device's fault by its handlers; in the second the
//! application keeps its own.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use polywarp_core::plan::{Caps, Cooperative};
use polywarp_core::pool::{Pool, PoolOptions, Reuse};
use polywarp_core::{Error, Requests, Result};

use crate::adapters::AdapterEntry;
use crate::driver::Kept;
#[cfg(not(target_arch = "wasm32"))]
use crate::driver::alone;
use crate::fault::{Fault, lock, watched};
use crate::info::{USEFUL, caps, cooperative, device_info};
use crate::loops;
use crate::memory::Memory;
use crate::native;
use crate::pipelines::Pipelines;
use crate::state::WgpuBackend;
use crate::stream::Stream;
use crate::tune;
use crate::user::{UserKernels, launch_limits};
#[cfg(not(target_arch = "wasm32"))]
use crate::wait::Waiter;

/// Which limits a device is opened with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitChoice {
    /// Everything the adapter can take.
    #[default]
    Adapter,
    /// What WebGPU guarantees everywhere (less where the adapter has less): how a browser's device behaves.
    WebGpuDefaults,
}

/// Which optional features a device is opened with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FeatureChoice {
    /// Every useful one the adapter has: f16, f64, i64, subgroups, cooperative matrices, timestamps.
    #[default]
    All,
    /// None, as on the poorest device.
    None,
}

/// How to open a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Limits to open it with.
    pub limits: LimitChoice,
    /// Optional features to open it with.
    pub features: FeatureChoice,
    /// Most bytes the pool may hold, in use and cached.
    pub memory_limit_bytes: Option<u64>,
    /// How long one wait may take before the device counts as lost; `None` waits for ever. For kernels that may never
    /// end, on drivers that do not stop them: hardware drivers do after seconds, software ones never. GL waits inside its
    /// own calls, where this cannot reach.
    pub patience: Option<Duration>,
}

impl AdapterEntry {
    /// Opens a device on this adapter.
    ///
    /// # Errors
    /// [`Error::BackendUnavailable`] when it cannot compute or the driver refuses.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn open(&self, options: Options) -> Result<WgpuBackend> {
        pollster::block_on(self.open_async(options))
    }

    /// [`AdapterEntry::open`] for where nothing may block.
    ///
    /// # Errors
    /// As [`AdapterEntry::open`].
    pub async fn open_async(&self, options: Options) -> Result<WgpuBackend> {
        let unavailable = |reason: String| Error::BackendUnavailable { backend: "wgpu", reason };
        if let Some(reason) = &self.unusable {
            return Err(unavailable(format!("{} ({}) cannot be used: {reason}", self.id, self.name)));
        }
        let features = match options.features {
            FeatureChoice::All => self.features & USEFUL,
            FeatureChoice::None => wgpu::Features::empty(),
        };
        let limits = match options.limits {
            LimitChoice::Adapter => self.limits.clone(),
            LimitChoice::WebGpuDefaults => wgpu::Limits::defaults().or_worse_values_from(&self.limits),
        };
        let descriptor = wgpu::DeviceDescriptor {
            label: Some("polywarp"),
            required_features: features,
            required_limits: limits,
            experimental_features: native::experimental(features),
            // wgpu's own sub-allocation starts small: the pool above it keeps what it once had.
            memory_hints: wgpu::MemoryHints::Manual { suballocated_device_memory_block_size: 8 << 20..128 << 20 },
            ..wgpu::DeviceDescriptor::default()
        };
        // Natively the answer is there at once: the future never waits, and the lock is not held across an await.
        #[cfg(not(target_arch = "wasm32"))]
        let opened = alone(|| pollster::block_on(self.adapter.request_device(&descriptor)));
        #[cfg(target_arch = "wasm32")]
        let opened = self.adapter.request_device(&descriptor).await;
        let (device, queue) = opened.map_err(|error| unavailable(format!("{} ({}): {error}", self.id, self.name)))?;
        let device = Kept::new(device);
        let fault = Arc::new(Fault::new(self.id.clone(), options.patience));
        listen(&device, &fault);
        let adapter = self.adapter.get_info();
        let told = Told {
            max_loop_rounds: loops::max_rounds(&device, &queue, &adapter).await,
            adapter,
            memory_bytes: native::memory_bytes(&self.adapter),
            cooperative: cooperative(&self.adapter, features),
        };
        let backend = WgpuBackend::assemble(device, queue, fault, told, options);
        backend.fault.check()?;
        Ok(backend)
    }
}

/// What only an adapter knows.
struct Told {
    adapter: wgpu::AdapterInfo,
    memory_bytes: Option<u64>,
    cooperative: Vec<Cooperative>,
    max_loop_rounds: Option<u32>,
}

/// Turns what wgpu reports asynchronously into the device's fault.
fn listen(device: &wgpu::Device, fault: &Arc<Fault>) {
    let lost = Arc::clone(fault);
    device.set_device_lost_callback(move |reason, message| {
        lost.lose(&if message.is_empty() { format!("{reason:?}") } else { message });
    });
    let refused = Arc::clone(fault);
    device.on_uncaptured_error(Arc::new(move |error| {
        refused.refuse("a call outside of any scope", &error);
    }));
}

impl WgpuBackend {
    /// A backend on an application's own device, under the name `id`. No handler of the application is replaced. What to see to
    /// when such devices are made and dropped on several threads, [`WgpuBackend::device`] says.
    ///
    /// # Errors
    /// [`Error::BackendUnavailable`] when the device was opened without compute shaders or storage buffers.
    pub fn from_wgpu(
        device: wgpu::Device,
        queue: wgpu::Queue,
        id: impl Into<String>,
        memory_limit_bytes: Option<u64>,
    ) -> Result<WgpuBackend> {
        let id = id.into();
        let limits = device.limits();
        if limits.max_compute_invocations_per_workgroup == 0 || limits.max_storage_buffers_per_shader_stage < 4 {
            let reason = format!("{id}: the device was opened without compute shaders or with under 4 storage buffers");
            return Err(Error::BackendUnavailable { backend: "wgpu", reason });
        }
        let adapter = device.adapter_info();
        let options = Options { memory_limit_bytes, ..Options::default() };
        let fault = Arc::new(Fault::new(id, None));
        let gpu = Kept::new(device);
        let (backend, error) = watched(&gpu.clone(), || {
            #[cfg(not(target_arch = "wasm32"))]
            let max_loop_rounds = pollster::block_on(loops::max_rounds(&gpu, &queue, &adapter));
            // Nothing may block in a browser: the shortest loops that a driver is known to end.
            #[cfg(target_arch = "wasm32")]
            let max_loop_rounds = Some(loops::ASSUMED);
            let told = Told { adapter, memory_bytes: None, cooperative: Vec::new(), max_loop_rounds };
            WgpuBackend::assemble(gpu, queue, fault, told, options)
        });
        match error {
            None => Ok(backend),
            Some(error) => Err(backend.fault.backend_error("from_wgpu", &error)),
        }
    }

    fn assemble(
        gpu: Kept<wgpu::Device>,
        queue: wgpu::Queue,
        fault: Arc<Fault>,
        told: Told,
        options: Options,
    ) -> WgpuBackend {
        let Told { adapter, memory_bytes, cooperative, max_loop_rounds } = told;
        let (limits, features) = (gpu.limits(), gpu.features());
        let caps = Caps { cooperative, max_loop_rounds, ..caps(fault.device(), features, &limits, &adapter) };
        let info = device_info(&caps, features, &limits, &adapter, memory_bytes);
        let launch_limits = launch_limits(fault.device(), &limits);
        let recorders = Arc::default();
        let stream = Stream::new(gpu.clone(), queue.clone(), Arc::clone(&fault), Arc::clone(&recorders));
        let dead = Arc::clone(stream.dead());
        let stream = Arc::new(Mutex::new(stream));
        let pool = PoolOptions {
            device: info.id.clone(),
            // One tensor is one binding.
            max_block_bytes: info.limits.max_buffer_bytes.min(info.limits.max_binding_bytes),
            limit_bytes: options.memory_limit_bytes,
            reuse: Reuse::Cached,
        };
        // Weak: a buffer that outlives the backend needs its device, and nothing of its work.
        let work = Arc::downgrade(&stream);
        let submit = move || {
            let Some(stream) = work.upgrade() else { return Ok(false) };
            // Forgets bind groups of buffers that were given back, too.
            lock(&stream).submit()?;
            Ok(true)
        };
        let pool = Pool::new(Memory::new(gpu.clone(), Arc::clone(&fault), Box::new(submit), dead), pool);
        WgpuBackend {
            chooser: tune::chooser(&info, &caps),
            pool: Arc::new(pool),
            recorders,
            pipelines: Pipelines::new(gpu.clone(), info.id.clone()),
            patch_pipeline: Mutex::default(),
            user_kernels: UserKernels::default(),
            stream,
            requests: Requests::default(),
            #[cfg(not(target_arch = "wasm32"))]
            waiter: Waiter::new(gpu.clone(), Arc::clone(&fault)),
            info,
            caps,
            launch_limits,
            fault,
            queue,
            gpu,
        }
    }
}
