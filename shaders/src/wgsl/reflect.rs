//! What a shader offers and needs, as plain data: entry points, bindings, overrides, features.
//!
//! Before [`super::resolve_overrides`] has run, workgroup sizes that depend on an override are `None`, and so are sizes
//! that depend on one without a default (others are given for the default). Features are found by asking naga's
//! validator again with one capability less each time, so a new one cannot be forgotten.

use naga::valid::{Capabilities, GlobalUse, ModuleInfo};
use naga::{AddressSpace, ArraySize, GlobalVariable, Handle, Module, ShaderStage, StorageAccess, Type, TypeInner};
use serde::Serialize;

use super::{guarded, validate};

/// Everything a host program must know to run a shader.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reflection {
    /// In the order of the text.
    pub entry_points: Vec<EntryPointInfo>,
    /// Resources, sorted by group and binding.
    pub bindings: Vec<BindingInfo>,
    /// Values that can be set from outside.
    pub overrides: Vec<OverrideInfo>,
    /// What a device must have beyond WebGPU's minimum: `f16`, `f64`, `int64`, `subgroups`, `atomics64`, ...
    pub features: Vec<String>,
    /// Bytes of `var<immediate>` data, 0 without.
    pub immediates_bytes: u32,
}

/// One entry point.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct EntryPointInfo {
    /// The function's name.
    pub name: String,
    /// The name that a host asks for: after compiling the one in the output, which may differ (MSL has no `main`);
    /// `None` where the output does not hold it (PTX and other stages).
    pub symbol: Option<String>,
    /// `compute`, `vertex`, `fragment`, ...
    pub stage: String,
    /// Invocations per workgroup along x, y, z; `None` for other stages, and while an override decides it.
    pub workgroup_size: Option<[u32; 3]>,
    /// Bytes of `var<workgroup>` data it uses, every variable in units of 16 as WebGPU's limit counts them; `None` when an override without a default decides it.
    pub workgroup_bytes: Option<u64>,
    /// The `[group, binding]` of each resource it uses, sorted.
    pub uses: Vec<[u32; 2]>,
}

/// One resource.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BindingInfo {
    /// `@group`.
    pub group: u32,
    /// `@binding`.
    pub binding: u32,
    /// The variable's name.
    pub name: String,
    /// `storage`, `uniform`, `texture`, `sampler`, or `other`.
    pub kind: &'static str,
    /// `read`, `write` or `read_write`.
    pub access: &'static str,
    /// The type as WGSL writes it.
    #[serde(rename = "type")]
    pub ty: String,
    /// Least bytes that must be bound, a runtime-sized array counted as one element; `None` for textures and
    /// samplers.
    pub min_size_bytes: Option<u64>,
    /// Distance in bytes between elements, when the type is an array or ends in a runtime-sized one.
    pub stride_bytes: Option<u32>,
    /// Whether the type is, or ends in, a runtime-sized array.
    pub runtime_sized: bool,
}

/// One `override` declaration.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct OverrideInfo {
    /// Its name; empty when it has none.
    pub name: String,
    /// `@id`.
    pub id: Option<u16>,
    /// Its scalar type.
    #[serde(rename = "type")]
    pub ty: String,
    /// The default as a number (booleans: 0 or 1); `None` without, or when computed from other overrides.
    pub default: Option<f64>,
    /// Whether a value must be given.
    pub required: bool,
}

/// Describes a valid shader; `info` is what validation returned for this very `module`.
pub fn reflect(module: &Module, info: &ModuleInfo) -> Reflection {
    let mut bindings: Vec<BindingInfo> =
        module.global_variables.iter().filter_map(|(_, global)| binding(module, global)).collect();
    bindings.sort_by_key(|b| (b.group, b.binding));
    let entry_points = (0..module.entry_points.len()).map(|i| entry_point(module, info, i)).collect();
    let overrides = module.overrides.iter().map(|(_, o)| OverrideInfo {
        name: o.name.clone().unwrap_or_default(),
        id: o.id,
        ty: type_name(module, o.ty),
        default: o.init.and_then(|init| number(&module.global_expressions[init])),
        required: o.init.is_none(),
    });
    let immediates = module.global_variables.iter().filter(|(_, g)| g.space == AddressSpace::Immediate);
    let immediates_bytes = immediates.filter_map(|(_, g)| size_bytes(module, g.ty)).max().unwrap_or(0);
    Reflection {
        entry_points,
        bindings,
        overrides: overrides.collect(),
        features: required_features(module).into_iter().map(|(name, _)| name).collect(),
        immediates_bytes: u32::try_from(immediates_bytes).unwrap_or(u32::MAX),
    }
}

/// What `module` needs of a device beyond WebGPU's minimum, by name and as naga's capabilities, sorted by name.
pub fn required_features(module: &Module) -> Vec<(String, Capabilities)> {
    // Every WebGPU implementation has these.
    let minimum = Capabilities::default() | Capabilities::SHADER_FLOAT16_IN_FLOAT32;
    let found = guarded(|| {
        if validate(module, minimum).is_ok() {
            return Ok(Vec::new());
        }
        let needs = |without: Capabilities| validate(module, Capabilities::all() - without).is_err();
        let int64_atomics = Capabilities::SHADER_INT64_ATOMIC_MIN_MAX | Capabilities::SHADER_INT64_ATOMIC_ALL_OPS;
        let mut found = Vec::new();
        // Each of the two alone allows 64-bit min and max, so neither is missed by itself.
        if needs(int64_atomics) && !needs(Capabilities::SHADER_INT64_ATOMIC_ALL_OPS) {
            found.push(("atomics64_min_max".to_owned(), Capabilities::SHADER_INT64_ATOMIC_MIN_MAX));
        }
        for (name, capability) in (Capabilities::all() - minimum).iter_names() {
            if needs(capability) {
                found.push((feature_name(name), capability));
            }
        }
        found.sort_by(|a, b| a.0.cmp(&b.0));
        Ok(found)
    });
    found.unwrap_or_default()
}

pub(super) fn feature_name(capability: &str) -> String {
    match capability {
        "SHADER_FLOAT16" => "f16",
        "FLOAT64" => "f64",
        "SHADER_INT64" => "int64",
        "SHADER_INT16" => "int16",
        "SUBGROUP" => "subgroups",
        "SHADER_INT64_ATOMIC_ALL_OPS" => "atomics64",
        "SHADER_FLOAT32_ATOMIC" => "atomics_f32",
        other => return other.to_ascii_lowercase(),
    }
    .to_owned()
}

pub(super) fn entry_point(module: &Module, info: &ModuleInfo, index: usize) -> EntryPointInfo {
    let entry = &module.entry_points[index];
    let used = info.get_entry_point(index);
    let globals = || module.global_variables.iter().filter(|&(handle, _)| used[handle] != GlobalUse::empty());
    let mut uses: Vec<[u32; 2]> = globals().filter_map(|(_, g)| g.binding).map(|at| [at.group, at.binding]).collect();
    uses.sort_unstable();
    let workgroup = globals().filter(|(_, g)| g.space == AddressSpace::WorkGroup);
    let decided = entry.stage == ShaderStage::Compute && entry.workgroup_size_overrides.is_none();
    EntryPointInfo {
        name: entry.name.clone(),
        symbol: Some(entry.name.clone()),
        stage: format!("{:?}", entry.stage).to_lowercase(),
        workgroup_size: decided.then_some(entry.workgroup_size),
        workgroup_bytes: workgroup.map(|(_, g)| Some(size_bytes(module, g.ty)?.next_multiple_of(16))).sum(),
        uses,
    }
}

pub(super) fn binding(module: &Module, global: &GlobalVariable) -> Option<BindingInfo> {
    let at = global.binding?;
    let (kind, access) = match global.space {
        AddressSpace::Storage { access } => ("storage", access_name(access)),
        AddressSpace::Uniform => ("uniform", "read"),
        AddressSpace::Handle => match module.types[global.ty].inner {
            TypeInner::Image { class: naga::ImageClass::Storage { access, .. }, .. } => {
                ("texture", access_name(access))
            }
            TypeInner::Image { .. } => ("texture", "read"),
            TypeInner::Sampler { .. } => ("sampler", "read"),
            _ => ("other", "read"),
        },
        _ => ("other", "read_write"),
    };
    let buffer = matches!(kind, "storage" | "uniform");
    let runtime_array = runtime_array(module, global.ty);
    let stride_bytes = match module.types[runtime_array.unwrap_or(global.ty)].inner {
        TypeInner::Array { stride, .. } => Some(stride),
        _ => None,
    };
    Some(BindingInfo {
        group: at.group,
        binding: at.binding,
        name: global.name.clone().unwrap_or_default(),
        kind,
        access,
        ty: type_name(module, global.ty),
        min_size_bytes: if buffer { size_bytes(module, global.ty) } else { None },
        stride_bytes,
        runtime_sized: runtime_array.is_some(),
    })
}

fn access_name(access: StorageAccess) -> &'static str {
    match (access.contains(StorageAccess::LOAD), access.contains(StorageAccess::STORE)) {
        (true, true) => "read_write",
        (false, true) => "write",
        (_, false) => "read",
    }
}

/// The runtime-sized array that `ty` is or ends in.
fn runtime_array(module: &Module, ty: Handle<Type>) -> Option<Handle<Type>> {
    match &module.types[ty].inner {
        TypeInner::Array { size: ArraySize::Dynamic, .. } => Some(ty),
        TypeInner::Struct { members, .. } => members.last().and_then(|last| runtime_array(module, last.ty)),
        _ => None,
    }
}

/// Bytes of a value of `ty`, a runtime-sized array counted as one element and overrides at their defaults; `None` when
/// an override without a default decides it.
pub(super) fn size_bytes(module: &Module, ty: Handle<Type>) -> Option<u64> {
    if let TypeInner::Array { size: size @ ArraySize::Pending(_), .. } = module.types[ty].inner {
        size.resolve(module.to_ctx()).ok()?;
    }
    module.types[ty].inner.try_size(module.to_ctx()).map(u64::from)
}

fn number(expression: &naga::Expression) -> Option<f64> {
    use naga::Literal as L;
    let naga::Expression::Literal(literal) = *expression else { return None };
    Some(match literal {
        L::F64(x) => x,
        L::F32(x) => f64::from(x),
        L::F16(x) => f64::from(x),
        L::U16(x) => f64::from(x),
        L::I16(x) => f64::from(x),
        L::U32(x) => f64::from(x),
        L::I32(x) => f64::from(x),
        L::U64(x) => x as f64,
        L::I64(x) | L::AbstractInt(x) => x as f64,
        L::Bool(x) => f64::from(u8::from(x)),
        L::AbstractFloat(x) => x,
    })
}

/// `ty` as WGSL writes it.
fn type_name(module: &Module, ty: Handle<Type>) -> String {
    let ty = &module.types[ty];
    if let Some(name) = &ty.name {
        return name.clone();
    }
    match &ty.inner {
        TypeInner::Scalar(s) => scalar_name(*s),
        TypeInner::Vector { size, scalar } => format!("vec{}<{}>", *size as u8, scalar_name(*scalar)),
        TypeInner::Matrix { columns, rows, scalar } => {
            format!("mat{}x{}<{}>", *columns as u8, *rows as u8, scalar_name(*scalar))
        }
        TypeInner::Atomic(s) => format!("atomic<{}>", scalar_name(*s)),
        TypeInner::Array { base, size, .. } => match size {
            ArraySize::Constant(n) => format!("array<{}, {n}>", type_name(module, *base)),
            ArraySize::Pending(o) => {
                let name = module.overrides[*o].name.as_deref().unwrap_or("?");
                format!("array<{}, {name}>", type_name(module, *base))
            }
            ArraySize::Dynamic => format!("array<{}>", type_name(module, *base)),
        },
        TypeInner::Image { .. } => "texture".to_owned(),
        TypeInner::Sampler { comparison: false } => "sampler".to_owned(),
        TypeInner::Sampler { comparison: true } => "sampler_comparison".to_owned(),
        TypeInner::Struct { .. } => "struct".to_owned(),
        _ => "other".to_owned(),
    }
}

fn scalar_name(scalar: naga::Scalar) -> String {
    use naga::ScalarKind as K;
    let bits = u32::from(scalar.width) * 8;
    match scalar.kind {
        K::Sint => format!("i{bits}"),
        K::Uint => format!("u{bits}"),
        K::Float => format!("f{bits}"),
        K::Bool => "bool".to_owned(),
        K::AbstractInt | K::AbstractFloat => "abstract".to_owned(),
    }
}
