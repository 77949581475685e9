//! A user's compute kernel in WGSL or SPIR-V as every GPU backend needs it: one entry point, overrides set, bindings known.
//!
//! [`read_kernel`] is the whole way from text to what a backend compiles and binds; it knows no GPU API. It refuses what
//! no backend here can bind (textures, samplers, arrays of bindings). Limits of a device are the backend's to check
//! against the [`Interface`] (`bind.rs`). A backend that hands the text on (wgpu) passes [`Interface::constants`] with it; in the
//! module, which the others compile, they are set already.

use naga::valid::{Capabilities, ModuleInfo};
use naga::{AddressSpace, Module, TypeInner};
use polywarp_core::{Error, Kernel, Result};

use super::reflect::{BindingInfo, binding, entry_point, size_bytes};
use super::{Text, compute_entry, parse_for, pipeline_constants, resolve_overrides};

/// How a buffer is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum BufferUse {
    /// `var<uniform>`.
    Uniform,
    /// `var<storage, read>`.
    Read,
    /// `var<storage, read_write>`.
    ReadWrite,
}

/// One buffer that the kernel uses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BufferInfo {
    /// `@group`.
    pub group: u32,
    /// `@binding`.
    pub binding: u32,
    /// The variable's name.
    pub name: String,
    /// How it is bound.
    pub usage: BufferUse,
    /// Least bytes that must be bound, a runtime-sized array counted as one element.
    pub min_bytes: u64,
    /// Bytes from one element of its runtime-sized array to the next; `None` without one.
    pub element_bytes: Option<u64>,
}

/// What a host must know to launch a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Interface {
    /// The entry point's name.
    pub entry: String,
    /// The buffers it uses, by group and binding.
    pub buffers: Vec<BufferInfo>,
    /// Every group and binding that the text declares, used or not.
    pub declared: Vec<(u32, u32)>,
    /// Invocations per workgroup along x, y, z.
    pub workgroup_size: [u32; 3],
    /// Workgroup memory in bytes, as WebGPU counts it: every variable in units of 16.
    pub workgroup_bytes: u64,
    /// Bytes of private variables and of all functions' locals together: functions are inlined more often than not.
    pub private_bytes: u64,
    /// The values the overrides were given, by the key that WebGPU pipelines know them by: `@id` where there is one,
    /// else the name.
    pub constants: Vec<(String, f64)>,
}

/// A kernel that is valid, with its overrides replaced by values.
#[derive(Clone, Debug)]
pub struct ReadKernel {
    /// The entry point and what it uses.
    pub module: Module,
    /// What validation found out about `module`.
    pub info: ModuleInfo,
    /// Whether naga takes the text as well; else the module alone can be handed on.
    pub text: Text,
    /// How it is launched.
    pub interface: Interface,
}

/// Parses and validates `kernel` for `device` (a name for errors), whose shaders may use `capabilities`.
///
/// # Errors
/// Those of [`super::parse_and_validate`], [`compute_entry`] and [`resolve_overrides`]; [`Error::Unsupported`] naming the
/// features beyond `capabilities`; [`Error::Unsupported`] and [`Error::Binding`] for resources that are not buffers.
pub fn read_kernel(device: &str, kernel: &Kernel, capabilities: Capabilities) -> Result<ReadKernel> {
    let (written, written_info, text) = parse_for(device, kernel, capabilities)?;
    let entry = compute_entry(&written, kernel.entry.as_deref())?.name.clone();
    let constants = pipeline_constants(&written, &kernel.defines)?.into_iter().collect();
    let (module, info) = resolve_overrides(&written, &written_info, Some(&entry), &kernel.defines)?;
    let Some(index) = module.entry_points.iter().position(|e| e.name == entry) else {
        let message = format!("entry point `{entry}` vanished when overrides were set");
        return Err(Error::Shader { line: 0, column: 0, message });
    };
    let described = entry_point(&module, &info, index);
    let bindings = written.global_variables.iter().filter_map(|(_, global)| global.binding);
    let interface = Interface {
        buffers: buffers(device, &module, &info, index)?,
        // From the text: what the entry point does not use is gone from the module.
        declared: bindings.map(|at| (at.group, at.binding)).collect(),
        workgroup_size: module.entry_points[index].workgroup_size,
        workgroup_bytes: described.workgroup_bytes.unwrap_or(u64::MAX),
        private_bytes: private_bytes(&module),
        entry,
        constants,
    };
    Ok(ReadKernel { module, info, text, interface })
}

fn buffers(device: &str, module: &Module, info: &ModuleInfo, entry: usize) -> Result<Vec<BufferInfo>> {
    let uses = info.get_entry_point(entry);
    let mut found = Vec::new();
    for (_, global) in module.global_variables.iter().filter(|&(handle, _)| !uses[handle].is_empty()) {
        if matches!(global.space, AddressSpace::WorkGroup | AddressSpace::Private) {
            continue;
        }
        if let (Some(at), TypeInner::BindingArray { .. }) = (&global.binding, &module.types[global.ty].inner) {
            let reason = "arrays of bindings are not available".to_owned();
            return Err(Error::Binding { group: at.group, binding: at.binding, reason });
        }
        let Some((usage, bound)) = binding(module, global).and_then(|bound| Some((usage(&bound)?, bound))) else {
            let name = global.name.as_deref().unwrap_or("a global variable");
            let reason = format!("`{name}` is not a buffer; kernels bind uniform and storage buffers only");
            return Err(Error::Unsupported { device: device.to_owned(), what: "this shader".to_owned(), reason });
        };
        let BindingInfo { group, binding, name, min_size_bytes, stride_bytes, runtime_sized, .. } = bound;
        let min_bytes = min_size_bytes.unwrap_or(u64::MAX);
        let element_bytes = stride_bytes.filter(|_| runtime_sized).map(u64::from);
        found.push(BufferInfo { group, binding, name, usage, min_bytes, element_bytes });
    }
    found.sort_by_key(|buffer| (buffer.group, buffer.binding));
    Ok(found)
}

fn usage(bound: &BindingInfo) -> Option<BufferUse> {
    match (bound.kind, bound.access) {
        ("uniform", _) => Some(BufferUse::Uniform),
        ("storage", "read") => Some(BufferUse::Read),
        ("storage", _) => Some(BufferUse::ReadWrite),
        _ => None,
    }
}

fn private_bytes(module: &Module) -> u64 {
    let globals = module.global_variables.iter().map(|(_, g)| g).filter(|g| g.space == AddressSpace::Private);
    let entries = module.entry_points.iter().map(|entry| &entry.function);
    let functions = module.functions.iter().map(|(_, function)| function).chain(entries);
    let locals = functions.flat_map(|function| function.local_variables.iter().map(|(_, local)| local.ty));
    let sizes = globals.map(|g| g.ty).chain(locals).map(|ty| size_bytes(module, ty).unwrap_or(u64::MAX));
    sizes.fold(0, u64::saturating_add)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(kernel: &Kernel) -> Result<Interface> {
        Ok(read_kernel("test", kernel, Capabilities::empty())?.interface)
    }

    const TEXT: &str = "
        struct P { n: u32, k: vec3<f32> }
        override WIDTH: u32 = 4;
        @id(3) override DEEP: u32 = 2;
        @group(0) @binding(2) var<storage, read> x: array<vec4<f32>>;
        @group(1) @binding(0) var<storage, read_write> y: array<f32>;
        @group(0) @binding(7) var<storage, read_write> unused: array<f32>;
        @group(0) @binding(0) var<uniform> p: P;
        var<workgroup> tile: array<f32, WIDTH>;
        var<private> own: array<f32, 8>;
        @compute @workgroup_size(WIDTH, DEEP) fn go() { var z = 0u; tile[z] = x[p.n].x; own[z] = tile[z]; y[0] = own[0]; }";

    #[test]
    fn read_kernel_reports_bindings_and_sizes() {
        let interface = read(&Kernel::wgsl(TEXT).define("WIDTH", 33.0)).unwrap();
        let buffers: Vec<_> = interface.buffers.iter().map(|b| (b.group, b.binding, b.usage, b.min_bytes)).collect();
        assert_eq!(
            buffers,
            [(0, 0, BufferUse::Uniform, 32), (0, 2, BufferUse::Read, 16), (1, 0, BufferUse::ReadWrite, 4)]
        );
        let elements: Vec<_> = interface.buffers.iter().map(|b| b.element_bytes).collect();
        assert_eq!(elements, [None, Some(16), Some(4)]);
        assert_eq!((interface.workgroup_size, interface.workgroup_bytes), ([33, 2, 1], 144));
        assert_eq!((interface.declared.len(), interface.private_bytes), (4, 36));
        assert_eq!(
            (interface.entry.as_str(), interface.constants.as_slice()),
            ("go", &[("WIDTH".to_owned(), 33.0)][..])
        );
    }

    #[test]
    fn read_kernel_knows_overrides_by_name_and_by_id() {
        let by_name = read(&Kernel::wgsl(TEXT).define("DEEP", 5.0)).unwrap();
        let by_id = read(&Kernel::wgsl(TEXT).define("3", 5.0)).unwrap();
        assert_eq!(by_name, by_id);
        assert_eq!((by_id.workgroup_size, by_id.constants), ([4, 5, 1], vec![("3".to_owned(), 5.0)]));
        let unknown = read(&Kernel::wgsl(TEXT).define("DEEPER", 5.0));
        assert!(matches!(unknown, Err(Error::InvalidArgument { what: "define", .. })), "{unknown:?}");
    }

    #[test]
    fn read_kernel_refuses_what_is_no_buffer() {
        let texture = "@group(0) @binding(0) var t: texture_2d<f32>;
            @compute @workgroup_size(1) fn used() { let x = textureDimensions(t); }
            @compute @workgroup_size(1) fn free() { }";
        let refused = read(&Kernel::wgsl(texture).entry("used"));
        assert!(matches!(&refused, Err(Error::Unsupported { device, .. }) if device == "test"), "{refused:?}");
        assert_eq!(read(&Kernel::wgsl(texture).entry("free")).unwrap().declared, [(0, 0)]);
        let missing = read(&Kernel::wgsl("fn helper() {}"));
        assert!(matches!(missing, Err(Error::InvalidArgument { what: "compute entry point", .. })), "{missing:?}");
    }

    #[test]
    fn read_kernel_names_the_features_that_the_device_lacks() {
        let told = |text: &str, capabilities| match read_kernel("test", &Kernel::wgsl(text), capabilities) {
            Err(Error::Unsupported { device, what, reason }) if device == "test" => (what, reason),
            other => panic!("{other:?}"),
        };
        let wide = "@group(0) @binding(0) var<storage, read_write> x: array<i64>;
            @compute @workgroup_size(1) fn main() { x[0] = 1li; }";
        let (what, reason) = told(wide, Capabilities::empty());
        assert!(what == "int64" && !reason.contains("Capabilities"), "{what}: {reason}");
        read_kernel("test", &Kernel::wgsl(wide), Capabilities::SHADER_INT64).unwrap();
        let half = "enable f16; @compute @workgroup_size(1) fn main() { var x = 1.0h; x += x; }";
        let (what, reason) = told(half, Capabilities::SHADER_INT64);
        assert!(what == "f16" && reason.contains("(line 1, column 8 of the kernel)"), "{what}: {reason}");
        let idle = "enable f16; @compute @workgroup_size(1) fn main() { }";
        assert_eq!(told(idle, Capabilities::empty()).0, "f16");
        let both = "enable subgroups;
            @group(0) @binding(0) var<storage, read_write> x: array<f32>;
            @compute @workgroup_size(32) fn main() { var y: f64 = 1.0lf; y += y; x[0] = subgroupAdd(f32(y)); }";
        assert_eq!(told(both, Capabilities::empty()).0, "f64, subgroups");
        assert_eq!(told(both, Capabilities::FLOAT64).0, "subgroups");
    }

    #[test]
    fn read_kernel_tells_faults_of_the_text_before_missing_features() {
        let text = "enable f16;\n@compute @workgroup_size(1) fn main() { let x: f32 = 1u; }";
        match read_kernel("test", &Kernel::wgsl(text), Capabilities::empty()) {
            Err(Error::Shader { line: 2, message, .. }) => assert!(!message.contains("f16"), "{message}"),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn read_kernel_takes_the_directive_that_browsers_demand() {
        let text = "enable subgroups;
            @group(0) @binding(0) var<storage, read_write> x: array<f32>;
            @compute @workgroup_size(32) fn main() { x[0] = subgroupAdd(x[1]); }";
        let read = read_kernel("test", &Kernel::wgsl(text), Capabilities::SUBGROUP).unwrap();
        assert_eq!(read.interface.buffers.len(), 1);
    }
}
