//! The ways from a program to its results.

use naga::valid::{Capabilities, ModuleInfo, ValidationFlags, Validator};
use naga_ptx::{Options, ParamKind, Ptx, Target};
use polywarp_core::{Backend, Binding, Buffer, Error, Kernel};
use ptx_interpreter::{Launch, Memory, Module, RunOptions, run};
use wgsl_generator::{BufferUse, Program};

/// A way from a program to its results.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Route {
    /// The first software Vulkan device, else the first device there is.
    Wgpu,
    /// naga-ptx, and its text interpreted.
    Interpreter,
    /// naga-ptx on the first NVIDIA card.
    Cuda,
}

impl Route {
    /// `wgpu`, `interpreter`, `cuda`.
    pub fn parse(name: &str) -> Option<Route> {
        match name {
            "wgpu" => Some(Route::Wgpu),
            "interpreter" => Some(Route::Interpreter),
            "cuda" => Some(Route::Cuda),
            _ => None,
        }
    }
}

/// The devices that routes need, opened when first used.
#[derive(Default)]
pub struct Devices {
    wgpu: Option<Box<dyn Backend>>,
    cuda: Option<Box<dyn Backend>>,
}

impl Devices {
    /// Every buffer after `program` ran, in [`wgsl_generator::BufferSpec::canonical`] form; `None` where the device
    /// lacks a feature that the program may use.
    ///
    /// # Errors
    /// What went wrong, in words.
    pub fn run(&mut self, route: Route, program: &Program) -> Result<Option<Vec<Vec<u8>>>, String> {
        let device = match route {
            Route::Interpreter => {
                {
                    // As polywarp-cuda compiles users' kernels.
                    let options =
                        Options { target: Target::new(9, 0), loop_limit: Some(u32::MAX), ..Options::default() };
                    return interpret(program, &options).map(Some);
                };
            }
            Route::Wgpu => &mut self.wgpu,
            Route::Cuda => &mut self.cuda,
        };
        if device.is_none() {
            *device = Some(open(route).map_err(|error| error.to_string())?);
        }
        let Some(device) = device else { return Err("no device".to_owned()) };
        let result = launch(device.as_ref(), program).map_err(|error| error.to_string());
        // The next program gets a new device. Closing one that a driver's fault took might be the next fault.
        if route == Route::Wgpu && result.is_err() {
            std::mem::forget(self.wgpu.take());
        }
        result
    }

    /// The device of `route`, in words.
    pub fn name(&self, route: Route) -> String {
        let device = match route {
            Route::Interpreter => return "interpreted PTX".to_owned(),
            Route::Wgpu => &self.wgpu,
            Route::Cuda => &self.cuda,
        };
        device.as_ref().map_or_else(|| "not opened".to_owned(), |d| format!("{}, {}", d.info().name, d.info().driver))
    }
}

fn open(route: Route) -> Result<Box<dyn Backend>, Error> {
    if route == Route::Cuda {
        return Ok(Box::new(polywarp_cuda::card("cuda:0")?.open(polywarp_cuda::Options::default())?));
    }
    let adapters: Vec<_> = polywarp_wgpu::adapters()?.into_iter().filter(|entry| entry.unusable.is_none()).collect();
    let software = adapters.iter().find(|e| e.api == "vulkan" && e.kind == polywarp_core::DeviceKind::Software);
    let Some(entry) = software.or(adapters.first()) else {
        return Err(Error::BackendUnavailable { backend: "wgpu", reason: "no usable adapter".to_owned() });
    };
    Ok(Box::new(entry.open(polywarp_wgpu::Options::default())?))
}

/// Whether the device can run what the program may use.
fn supports(device: &dyn Backend, program: &Program) -> bool {
    let features = &device.info().features;
    let cuda = device.info().api == "cuda";
    let has = |name: &str| cuda || features.iter().any(|f| f.eq_ignore_ascii_case(name));
    let settings = &program.settings;
    (!settings.f16 || has("SHADER_F16"))
        && (!settings.f64 || has("SHADER_F64"))
        && (!settings.i64 || has("SHADER_INT64"))
        && (!settings.subgroups || has("SUBGROUP"))
}

fn launch(device: &dyn Backend, program: &Program) -> Result<Option<Vec<Vec<u8>>>, Error> {
    if !supports(device, program) {
        return Ok(None);
    }
    let mut buffers: Vec<Buffer> = Vec::new();
    for spec in &program.buffers {
        let buffer = device.alloc(spec.initial.len() as u64)?;
        device.write(&buffer, 0, &spec.initial)?;
        buffers.push(buffer);
    }
    let (module, _) = validate(&program.wgsl).map_err(|message| Error::Shader { line: 0, column: 0, message })?;
    // What the text does not declare (any more) is not bound.
    let declared = |binding: u32| {
        module.global_variables.iter().any(|(_, global)| global.binding.is_some_and(|at| at.binding == binding))
    };
    let bindings: Vec<Binding> = program
        .buffers
        .iter()
        .zip(&buffers)
        .filter(|(spec, _)| declared(spec.binding))
        .map(|(spec, buffer)| Binding {
            group: 0,
            binding: spec.binding,
            buffer: buffer.clone(),
            range: 0..spec.initial.len() as u64,
        })
        .collect();
    device.launch(&Kernel::wgsl(program.wgsl.as_str()), program.grid, &bindings)?;
    let mut outputs = Vec::new();
    for (spec, buffer) in program.buffers.iter().zip(&buffers) {
        let bytes = match spec.usage {
            BufferUse::ReadWrite => device.read_blocking(buffer, 0..spec.initial.len() as u64)?,
            BufferUse::Uniform | BufferUse::Read => Vec::new(),
        };
        outputs.push(spec.canonical(&bytes));
    }
    Ok(Some(outputs))
}

/// The module of a text.
///
/// # Errors
/// What is wrong with the text.
pub fn validate(wgsl: &str) -> Result<(naga::Module, ModuleInfo), String> {
    let module = naga::front::wgsl::parse_str(wgsl).map_err(|error| error.emit_to_string(wgsl))?;
    let info = Validator::new(ValidationFlags::all(), Capabilities::all())
        .validate(&module)
        .map_err(|error| error.emit_to_string(wgsl))?;
    Ok((module, info))
}

/// The PTX of a program.
///
/// # Errors
/// What naga or naga-ptx refuses.
pub fn compile(program: &Program, options: &Options) -> Result<Ptx, String> {
    let (module, info) = validate(&program.wgsl)?;
    naga_ptx::compile(&module, &info, options).map_err(|error| error.to_string())
}

/// What interpreted PTX leaves in the buffers, compiled with `options`.
///
/// # Errors
/// What the compiler, the PTX parser or the interpreter refuses.
pub fn interpret(program: &Program, options: &Options) -> Result<Vec<Vec<u8>>, String> {
    let ptx = compile(program, options)?;
    let module = Module::parse(&ptx.text).map_err(|error| error.to_string())?;
    let entry = ptx.entry_points.first().ok_or("no entry point")?;
    let kernel = module.kernel(&entry.symbol).ok_or("no kernel")?;
    let mut memory = Memory::new();
    let mut addresses = Vec::new();
    for spec in &program.buffers {
        let address = memory.alloc_from(&spec.initial);
        memory.set_read_only(address, spec.usage != BufferUse::ReadWrite);
        addresses.push(address);
    }
    let mut params = vec![0; kernel.param_bytes() as usize];
    for param in &entry.params {
        let find = |binding: u32| program.buffers.iter().position(|spec| spec.binding == binding).ok_or("no buffer");
        let bytes: Vec<u8> = match param.kind {
            ParamKind::Buffer { binding, .. } => addresses[find(binding)?].to_le_bytes().to_vec(),
            ParamKind::BufferBytes { binding, .. } => {
                (program.buffers[find(binding)?].initial.len() as u64).to_le_bytes().to_vec()
            }
            ParamKind::Uniform { binding, size_bytes, .. } => {
                program.buffers[find(binding)?].initial[..size_bytes as usize].to_vec()
            }
            ParamKind::Immediates { .. } => return Err("immediates".to_owned()),
        };
        let at = param.offset_bytes as usize;
        params.get_mut(at..at + bytes.len()).ok_or("a parameter outside of the block")?.copy_from_slice(&bytes);
    }
    let launch = Launch {
        grid: program.grid,
        block: entry.workgroup_size,
        params,
        dynamic_shared_bytes: entry.dynamic_shared_bytes,
    };
    run(kernel, &mut memory, &launch, &RunOptions::strict()).map_err(|fault| fault.to_string())?;
    let mut outputs = Vec::new();
    for (spec, &address) in program.buffers.iter().zip(&addresses) {
        let length = if spec.usage == BufferUse::ReadWrite { spec.initial.len() } else { 0 };
        let bytes = memory.read(address, length).map_err(|fault| format!("{fault:?}"))?;
        outputs.push(spec.canonical(bytes));
    }
    Ok(outputs)
}
