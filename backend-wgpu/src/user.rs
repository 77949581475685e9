//! Users' kernels: WGSL and SPIR-V that are trusted with nothing.
//!
//! What they are compiled to is here, and which are refused; launching one is `run.rs`'s. A kernel is read (`polywarp_shaders::wgsl`) and compiled once per (text, entry point, defines). Its bindings are
//! checked against its own declarations at every launch, since wgpu reports a wrong one only when the whole recording is
//! refused. Bounds checks, loop bounding and zeroed workgroup memory stay on. Only the bytes of a binding's range are
//! visible to the kernel. On GL wgpu is given the kernel as a module that was rewritten (`polywarp_shaders::for_glsl`): the
//! GLSL that it makes of the text would have other values.

use std::borrow::Cow;
use std::sync::Arc;

use naga::valid::{Capabilities, FunctionInfo};
use naga::{Expression, Function, MathFunction, Span};
use polywarp_core::{Error, Kernel, Result};
#[cfg(not(target_arch = "wasm32"))]
use polywarp_shaders::for_glsl;
#[cfg(not(target_arch = "wasm32"))]
use polywarp_shaders::wgsl::naga_text;
use polywarp_shaders::wgsl::{
    Bindable, BufferUse, CheckedBinding, Interface, KnownKernels, LaunchLimits, RangeLimits, ReadKernel, guarded,
    loops, place, read_kernel,
};
#[cfg(not(target_arch = "wasm32"))]
use polywarp_shaders::wgsl::{Text, with_whole_arguments};

use crate::fault::{watched, words};
use crate::memory::{Block, Memory};
use crate::pipelines::new_layout_id;
use crate::shared_bool;
use crate::stream::UserGroup;

/// Most bytes of private variables and locals: eight times what WGSL guarantees (8192, "Limits"). Software drivers put
/// them on the stack.
const MOST_PRIVATE_BYTES: u64 = 64 << 10;

/// Users' kernels compiled so far.
pub(crate) type UserKernels = KnownKernels<UserKernel>;

/// A user's kernel ready to run.
#[derive(Debug)]
pub(crate) struct UserKernel {
    interface: Interface,
    pipeline: wgpu::ComputePipeline,
    /// The entry point's, for profiles.
    name: Arc<str>,
    groups: Vec<Group>,
}

#[derive(Debug)]
struct Group {
    index: u32,
    id: u64,
    layout: wgpu::BindGroupLayout,
}

impl UserKernel {
    pub(crate) fn interface(&self) -> &Interface {
        &self.interface
    }

    /// The pipeline, and the entry point's name.
    pub(crate) fn pipeline(&self) -> (&wgpu::ComputePipeline, &Arc<str>) {
        (&self.pipeline, &self.name)
    }

    /// Its bind groups of what was bound.
    pub(crate) fn groups<'a>(&'a self, checked: &[CheckedBinding<'a, Memory>]) -> Vec<UserGroup<'a>> {
        self.groups.iter().map(|group| group.bind(checked)).collect()
    }
}

/// What users' kernels are compiled for.
pub(crate) struct Compiler<'a> {
    /// The device's name, for errors.
    pub(crate) device: &'a str,
    pub(crate) gpu: &'a wgpu::Device,
    pub(crate) limits: &'a LaunchLimits,
    /// The rounds after which its driver ends loops.
    pub(crate) max_loop_rounds: Option<u32>,
    /// Whether wgpu makes GLSL of what it is given.
    pub(crate) writes_glsl: bool,
}

impl Compiler<'_> {
    /// The kernel, checked and compiled.
    ///
    /// # Errors
    /// Those of reading it; [`Error::Unsupported`] for what the driver would compute wrongly; [`Error::Shader`] with the driver's words.
    pub(crate) fn kernel(&self, kernel: &Kernel) -> Result<UserKernel> {
        let features = self.gpu.features();
        let device = self.device;
        let read =
            read_kernel(device, kernel, capabilities_of(features)).map_err(|error| told_apart(error, features))?;
        refuse_f64_functions(device, kernel, &read)?;
        shared_bool::refuse(device, &self.gpu.adapter_info(), &read, |span| place_of(kernel, span))?;
        if let Some(limit) = self.max_loop_rounds {
            check_loops(device, limit, kernel, &read)?;
        }
        self.limits.check_resources(&read.interface)?;
        // Drivers' compilers recurse as naga does.
        guarded(|| self.compile(kernel, read))
    }

    fn compile(&self, kernel: &Kernel, read: ReadKernel) -> Result<UserKernel> {
        let device = self.gpu;
        let written = self.source_of(kernel, &read)?;
        let interface = read.interface;
        // A module that was rewritten has its values already.
        let named = written.constants_are_open.then_some(&interface.constants);
        let constants: Vec<(&str, f64)> = named.into_iter().flatten().map(|(name, v)| (name.as_str(), *v)).collect();
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
                source: written.source,
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
            None => Ok(UserKernel { name: interface.entry.as_str().into(), interface, pipeline, groups }),
            Some(error) => Err(Error::Shader { line: 0, column: 0, message: words(&error) }),
        }
    }
}

/// A kernel as wgpu is given it.
struct Written<'a> {
    source: wgpu::ShaderSource<'a>,
    /// Its overrides take their values when a pipeline is made.
    constants_are_open: bool,
}

impl Compiler<'_> {
    #[cfg(not(target_arch = "wasm32"))]
    fn source_of<'a>(&self, kernel: &'a Kernel, read: &ReadKernel) -> Result<Written<'a>> {
        let module = if self.writes_glsl {
            for_glsl(&read.module, &read.info, self.device, kernel.wgsl_text())?.0
        } else {
            // naga, as wgpu uses it, takes some texts for faulty, and cannot write parts of variables as arguments.
            match (with_whole_arguments(&read.module), &read.text) {
                (Some(module), _) => module,
                (None, Text::Settled) => read.module.clone(),
                (None, Text::AsWritten) => {
                    let source = wgpu::ShaderSource::Wgsl(naga_text(kernel.wgsl_text()));
                    return Ok(Written { source, constants_are_open: true });
                }
            }
        };
        Ok(Written { source: wgpu::ShaderSource::Naga(Cow::Owned(module)), constants_are_open: false })
    }

    /// A browser demands the directives that naga does not know.
    #[cfg(target_arch = "wasm32")]
    fn source_of<'a>(&self, kernel: &'a Kernel, _: &ReadKernel) -> Result<Written<'a>> {
        if let polywarp_core::Code::SpirV(_) = kernel.code {
            let (what, reason) =
                ("SPIR-V in a browser".to_owned(), "browsers take WGSL alone; translate it".to_owned());
            return Err(Error::Unsupported { device: self.device.to_owned(), what, reason });
        }
        let source = wgpu::ShaderSource::Wgsl(Cow::Borrowed(kernel.wgsl_text()));
        Ok(Written { source, constants_are_open: true })
    }
}

impl Group {
    fn bind<'a>(&'a self, checked: &[CheckedBinding<'a, Memory>]) -> UserGroup<'a> {
        let mut group = UserGroup {
            index: self.index,
            key: vec![self.id],
            layout: &self.layout,
            entries: Vec::new(),
            buffers: Vec::new(),
        };
        for binding in checked.iter().filter(|b| b.declared.group == self.index) {
            group.key.extend([binding.memory.id, binding.offset_bytes, binding.bytes]);
            group.buffers.push(binding.memory);
            group.entries.push(wgpu::BindGroupEntry {
                binding: binding.declared.binding,
                resource: wgpu::BindingResource::Buffer(wgpu::BufferBinding {
                    buffer: &binding.memory.buffer,
                    offset: binding.offset_bytes,
                    size: wgpu::BufferSize::new(binding.bytes),
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

impl Bindable for Block {
    fn is_same(&self, other: &Block) -> bool {
        self.id == other.id || self.buffer == other.buffer
    }

    fn refuses(&self, usage: BufferUse) -> Option<String> {
        let needed = match usage {
            BufferUse::Uniform => wgpu::BufferUsages::UNIFORM,
            BufferUse::Read | BufferUse::ReadWrite => wgpu::BufferUsages::STORAGE,
        };
        (!self.buffer.usage().contains(needed)).then(|| format!("the wrapped buffer lacks the usage {needed:?}"))
    }
}

/// What a user's kernel may use of a device with `limits`.
pub(crate) fn launch_limits(id: &str, limits: &wgpu::Limits) -> LaunchLimits {
    let range = |align_bytes: u32, max_bytes| RangeLimits { align_bytes: u64::from(align_bytes), max_bytes };
    LaunchLimits {
        device: id.to_owned(),
        workgroup_size: [
            limits.max_compute_workgroup_size_x,
            limits.max_compute_workgroup_size_y,
            limits.max_compute_workgroup_size_z,
        ],
        invocations: limits.max_compute_invocations_per_workgroup,
        workgroups: [limits.max_compute_workgroups_per_dimension; 3],
        workgroup_bytes: limits.max_compute_workgroup_storage_size.into(),
        private_bytes: MOST_PRIVATE_BYTES,
        buffers: limits.max_buffers_and_acceleration_structures_per_shader_stage.into(),
        storage_buffers: limits.max_storage_buffers_per_shader_stage.into(),
        uniform_buffers: limits.max_uniform_buffers_per_shader_stage.into(),
        groups: limits.max_bind_groups.into(),
        bindings_per_group: limits.max_bindings_per_bind_group.into(),
        uniform: range(limits.min_uniform_buffer_offset_alignment, limits.max_uniform_buffer_binding_size),
        storage: range(limits.min_storage_buffer_offset_alignment, limits.max_storage_buffer_binding_size),
    }
}

/// What a device has and users' kernels do not get is told apart from what it lacks: neither wgpu nor drivers compare what loads and
/// stores of cooperative matrices reach with the buffer's size.
fn told_apart(error: Error, features: wgpu::Features) -> Error {
    match error {
        Error::Unsupported { device, what, .. }
            if what == "cooperative_matrix" && features.contains(wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX) =>
        {
            let what = "cooperative matrices in a kernel of your own".to_owned();
            let reason = "wgpu does not check what they reach; use Tensor::matmul, which takes them, or a cuda device"
                .to_owned();
            Error::Unsupported { device, what, reason }
        }
        other => other,
    }
}

/// ` (line 3, column 5 of the kernel)`; nothing where it is not known.
fn place_of(kernel: &Kernel, span: Span) -> String {
    let place = span.to_range().and_then(|range| place(kernel.wgsl_text(), range.start));
    place.map_or(String::new(), |(line, column)| format!(" (line {line}, column {column} of the kernel)"))
}

/// Refuses functions of f64 that drivers compute garbage for, without a word: naga hands them on as instructions that take
/// 16 and 32 bits alone (SPIR-V, "Extended Instructions for GLSL"). Kernels of the library have their own.
fn refuse_f64_functions(device: &str, kernel: &Kernel, read: &ReadKernel) -> Result<()> {
    let (module, info) = (&read.module, &read.info);
    let entries = module.entry_points.iter().enumerate();
    let entries = entries.map(|(index, entry)| (&entry.function, info.get_entry_point(index)));
    let functions = module.functions.iter().map(|(handle, function)| (function, &info[handle])).chain(entries);
    let found = functions.filter_map(|(function, info)| f64_function(&module.types, function, info)).next();
    let Some((name, span)) = found else { return Ok(()) };
    let place = place_of(kernel, span);
    Err(Error::Unsupported {
        device: device.to_owned(),
        what: format!("{name} of f64 in a kernel of your own"),
        reason: format!(
            "drivers have it for 16 and 32 bits only{place}; compute it in f32, or by a polynomial of your own"
        ),
    })
}

/// Refuses loops that the driver would end before they are done, where the text tells how long they are; where it does not, a warning
/// names the limit, once for a kernel.
fn check_loops(device: &str, limit: u32, kernel: &Kernel, read: &ReadKernel) -> Result<()> {
    let entry = read.module.entry_points.iter().position(|entry| entry.name == read.interface.entry);
    let found = guarded(|| Ok(loops::of_entry(&read.module, entry.unwrap_or(usize::MAX))))?;
    let at = |span: Span| place_of(kernel, span);
    if found.certain > u64::from(limit) {
        let place = found.longest.map_or(String::new(), |(_, span)| at(span));
        let reason = format!(
            "its driver ends the loops of an invocation after {limit} rounds in all, nested ones counted, and goes on with what there \
             is by then; the longest loop{place} makes more, or all together do: share the rounds among more invocations or launches"
        );
        return Err(Error::Unsupported {
            device: device.to_owned(),
            what: format!("{} rounds of loops in a kernel of your own", found.certain),
            reason,
        });
    }
    if let Some(span) = found.unknown {
        log::warn!(
            "{device} ends the loops of an invocation after {limit} rounds in all, nested ones counted, and goes on with what there is by \
             then; how many `{}` makes its text does not tell{}: keep them below that",
            read.interface.entry,
            at(span)
        );
    }
    Ok(())
}

/// The first function of f64 in `function` that SPIR-V lacks, with its place.
fn f64_function(
    types: &naga::UniqueArena<naga::Type>,
    function: &Function,
    info: &FunctionInfo,
) -> Option<(&'static str, Span)> {
    function.expressions.iter().find_map(|(handle, expression)| {
        let Expression::Math { fun, arg, .. } = expression else { return None };
        let name = narrow_name(*fun)?;
        let wide = info[*arg].ty.inner_with(types).scalar_width() == Some(8);
        wide.then(|| (name, function.expressions.get_span(handle)))
    })
}

/// WGSL's name of a function that SPIR-V has for floats of 16 and 32 bits alone.
fn narrow_name(function: MathFunction) -> Option<&'static str> {
    use MathFunction as F;
    Some(match function {
        F::Cos => "cos",
        F::Cosh => "cosh",
        F::Sin => "sin",
        F::Sinh => "sinh",
        F::Tan => "tan",
        F::Tanh => "tanh",
        F::Acos => "acos",
        F::Asin => "asin",
        F::Atan => "atan",
        F::Atan2 => "atan2",
        F::Asinh => "asinh",
        F::Acosh => "acosh",
        F::Atanh => "atanh",
        F::Radians => "radians",
        F::Degrees => "degrees",
        F::Exp => "exp",
        F::Exp2 => "exp2",
        F::Log => "log",
        F::Log2 => "log2",
        F::Pow => "pow",
        F::Abs | F::Min | F::Max | F::Clamp | F::Saturate => return None,
        F::Ceil | F::Floor | F::Round | F::Fract | F::Trunc | F::Modf | F::Frexp | F::Ldexp => return None,
        F::Dot | F::Dot4I8Packed | F::Dot4U8Packed | F::Outer | F::Cross | F::Distance | F::Length => return None,
        F::Normalize | F::FaceForward | F::Reflect | F::Refract => return None,
        F::Sign | F::Fma | F::Mix | F::Step | F::SmoothStep | F::Sqrt | F::InverseSqrt => return None,
        F::Inverse | F::Transpose | F::Determinant | F::QuantizeToF16 => return None,
        F::CountTrailingZeros | F::CountLeadingZeros | F::CountOneBits | F::ReverseBits => return None,
        F::ExtractBits | F::InsertBits | F::FirstTrailingBit | F::FirstLeadingBit => return None,
        F::Pack4x8snorm | F::Pack4x8unorm | F::Pack2x16snorm | F::Pack2x16unorm | F::Pack2x16float => return None,
        F::Pack4xI8 | F::Pack4xU8 | F::Pack4xI8Clamp | F::Pack4xU8Clamp => return None,
        F::Unpack4x8snorm | F::Unpack4x8unorm | F::Unpack2x16snorm | F::Unpack2x16unorm => return None,
        F::Unpack2x16float | F::Unpack4xI8 | F::Unpack4xU8 => return None,
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cooperative_matrices_that_a_device_has_are_not_called_lacking() {
        let text = "enable wgpu_cooperative_matrix;\n@compute @workgroup_size(32) fn main() {}";
        let told = |text: &str, features: wgpu::Features| {
            let read = read_kernel("wgpu:0", &Kernel::wgsl(text), capabilities_of(features));
            told_apart(read.map(drop).expect_err("it needs cooperative matrices"), features).to_string()
        };
        let (none, has) = (wgpu::Features::empty(), wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX);
        assert!(
            told(text, none).contains("does not support cooperative_matrix: the kernel needs it"),
            "{}",
            told(text, none)
        );
        assert!(told(text, has).contains("in a kernel of your own: wgpu does not check"), "{}", told(text, has));
        let two = text.replace("wgpu_cooperative_matrix", "wgpu_cooperative_matrix, f16");
        assert!(told(&two, has).contains("cooperative_matrix, f16: the kernel needs it"), "{}", told(&two, has));
    }
}
