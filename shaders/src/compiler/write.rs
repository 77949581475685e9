//! Each target language: the options naga writes it with, and how bindings are numbered in it.
//!
//! SPIR-V and WGSL keep `group` and `binding`. HLSL has register = binding and space = group; immediates, and the number
//! of workgroups where a shader asks for it, follow in spaces of their own. MSL and GLSL have one flat list per kind of
//! resource: resources are numbered 0, 1, ... in the order of (group, binding), per entry point in MSL. What else such a
//! shader is handed (immediates, the lengths of runtime-sized arrays) follows in MSL's buffer list, in this order.
//! PTX has kernel parameters: addresses of buffers, sizes of those that end in a run-time array, immediates by value.
//! [`BindSlot`] tells the host all of this as data.

use std::borrow::Cow;
use std::collections::BTreeMap;

use naga::back::{glsl, hlsl, msl, spv, wgsl};
use naga::proc::{BoundsCheckPolicies, BoundsCheckPolicy, IndexableLength};
use naga::valid::{Capabilities, ModuleInfo};
use naga::{ArraySize, Binding, BuiltIn, Module, ResourceBinding, TypeInner};
use polywarp_core::{Error, Result};
use serde::Serialize;

use super::wgsl::{compare, nameable, with_sizes};
use super::{Target, only_entry, write_error};
use crate::wgsl::{BindingInfo, Reflection, naga_text};

/// Where a target language finds one resource.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BindSlot {
    /// The entry point it holds for; `None` for all.
    pub entry: Option<String>,
    /// `[group, binding]` in WGSL; `None` for what the compiler added.
    pub source: Option<[u32; 2]>,
    /// The variable's name, or `immediates`, `array_lengths` (MSL: a u32 per runtime-sized array bound, its bytes),
    /// `workgroup_count` (HLSL: three u32).
    pub name: String,
    /// The list it is numbered in: `buffer`, `texture`, `sampler` (MSL); `storage`, `uniform`, `texture` (GLSL);
    /// `b`, `t`, `u` (HLSL); `address`, `size`, `value` of a kernel parameter (PTX).
    pub list: &'static str,
    /// HLSL's register space; 0 elsewhere.
    pub space: u32,
    /// The number in that list.
    pub index: u32,
}

/// A shader in the target language.
pub(super) struct Written {
    /// SPIR-V words as little-endian bytes, or UTF-8 text.
    pub(super) bytes: Vec<u8>,
    /// Where resources are found, unless they keep group and binding.
    pub(super) slots: Vec<BindSlot>,
    /// What each entry point is called there, in the module's order; `None` for one that was left out.
    pub(super) symbols: Vec<Option<String>>,
}

/// Out-of-range accesses touch some element of the same object instead.
const CHECKED: BoundsCheckPolicies = BoundsCheckPolicies {
    index: BoundsCheckPolicy::Restrict,
    buffer: BoundsCheckPolicy::Restrict,
    image_load: BoundsCheckPolicy::Restrict,
    binding_array: BoundsCheckPolicy::Restrict,
};

pub(super) fn spirv(module: &Module, info: &ModuleInfo) -> Result<Written> {
    let copied;
    let (module, info) = match crate::wgsl::with_whole_arguments(module) {
        None => (module, info),
        Some(module) => {
            let info =
                crate::wgsl::validate(&module, Capabilities::all()).map_err(|e| write_error(Target::Spirv, e))?;
            copied = (module, info);
            (&copied.0, &copied.1)
        }
    };
    let options = spv::Options {
        lang_version: (1, 3),
        // Without DEBUG, which naga sets in debug builds only, the same source gives the same words.
        flags: spv::WriterFlags::ADJUST_COORDINATE_SPACE
            | spv::WriterFlags::LABEL_VARYINGS
            | spv::WriterFlags::CLAMP_FRAG_DEPTH,
        bounds_check_policies: CHECKED,
        ..spv::Options::default()
    };
    let words = spv::write_vec(module, info, &options, None).map_err(|e| write_error(Target::Spirv, e))?;
    let symbols = module.entry_points.iter().map(|entry| Some(entry.name.clone())).collect();
    Ok(Written { bytes: words.iter().flat_map(|word| word.to_le_bytes()).collect(), slots: Vec::new(), symbols })
}

pub(super) fn wgsl(module: &Module, info: &ModuleInfo, needs: Capabilities, source: &str) -> Result<Written> {
    let plain;
    let (module, info) = if module.overrides.is_empty() {
        (module, info)
    } else {
        let module = without_overrides(module);
        let info = crate::wgsl::validate(&module, Capabilities::all()).map_err(|e| write_error(Target::Wgsl, e))?;
        plain = (module, info);
        (&plain.0, &plain.1)
    };
    let named = nameable(module, info)?;
    let (module, info) = named.as_ref().map_or((module, info), |(module, info)| (module, info));
    let text =
        wgsl::write_string(module, info, wgsl::WriterFlags::empty()).map_err(|e| write_error(Target::Wgsl, e))?;
    let mut text = with_sizes(&text, module);
    let symbols: Vec<Option<String>> = names_in_wgsl(&text).map(|name| Some(name.to_owned())).collect();
    if symbols.len() != module.entry_points.len() {
        return Err(write_error(Target::Wgsl, "naga wrote the entry points in a form that is not known here"));
    }
    // naga looks at the types alone, which literals and conversions are not among.
    let directives = [(Capabilities::SHADER_FLOAT16, "f16"), (Capabilities::SHADER_INT16, "wgpu_int16")];
    for (capability, name) in directives {
        let directive = format!("enable {name};\n");
        if needs.contains(capability) && !text.contains(&directive) {
            text.insert_str(0, &directive);
        }
    }
    // naga knows no such directive, so what the source says for browsers is said again.
    let subgroups = Capabilities::SUBGROUP | Capabilities::SUBGROUP_BARRIER;
    if needs.intersects(subgroups) && matches!(naga_text(source), Cow::Owned(_)) {
        text.insert_str(0, "enable subgroups;\n");
    }
    compare(&text, module, info, source)?;
    Ok(Written { bytes: text.into_bytes(), slots: Vec::new(), symbols })
}

/// The names of the entry points in WGSL that naga wrote: functions behind a line of attributes, which others have not.
fn names_in_wgsl(text: &str) -> impl Iterator<Item = &str> {
    text.lines().zip(text.lines().skip(1)).filter(|(attributes, _)| attributes.starts_with('@')).filter_map(
        |(_, function)| {
            let (name, _) = function.strip_prefix("fn ")?.split_once('(')?;
            Some(name)
        },
    )
}

pub(super) fn ptx(
    module: &Module,
    info: &ModuleInfo,
    reflection: &Reflection,
    arch: naga_ptx::Target,
    entry: Option<&str>,
    source: &str,
) -> Result<Written> {
    let entry_point = entry.map(str::to_owned);
    let options = naga_ptx::Options { target: arch, entry_point, ..naga_ptx::Options::default() };
    let ptx = naga_ptx::compile(module, info, &options).map_err(|error| {
        let start = error.span().and_then(|span| span.to_range()).map(|range| range.start);
        let Some((line, column)) = start.and_then(|start| crate::wgsl::place(source, start)) else {
            return write_error(Target::Ptx, error);
        };
        Error::Shader { line, column, message: error.to_string() }
    })?;
    let mut slots = Vec::new();
    for entry in &ptx.entry_points {
        for (index, param) in (0_u32..).zip(&entry.params) {
            let (source, list) = match param.kind {
                naga_ptx::ParamKind::Buffer { group, binding, .. } => (Some([group, binding]), "address"),
                naga_ptx::ParamKind::BufferBytes { group, binding } => (Some([group, binding]), "size"),
                naga_ptx::ParamKind::Uniform { group, binding, .. } => (Some([group, binding]), "value"),
                naga_ptx::ParamKind::Immediates { .. } => (None, "value"),
            };
            let bound = source.and_then(|at| reflection.bindings.iter().find(|b| [b.group, b.binding] == at));
            let name = bound.map_or_else(|| "immediates".to_owned(), |b| b.name.clone());
            slots.push(BindSlot { entry: Some(entry.name.clone()), source, name, list, space: 0, index });
        }
    }
    let symbol_of = |name: &str| Some(ptx.entry_points.iter().find(|entry| entry.name == name)?.symbol.clone());
    let symbols = module.entry_points.iter().map(|entry| symbol_of(&entry.name)).collect();
    Ok(Written { bytes: ptx.text.into_bytes(), slots, symbols })
}

/// `module`, whose overrides have been resolved, with their declarations gone too: naga leaves them behind as the
/// lengths of arrays.
fn without_overrides(module: &Module) -> Module {
    let mut module = module.clone();
    let handles: Vec<_> = module.types.iter().map(|(handle, _)| handle).collect();
    for (index, handle) in handles.into_iter().enumerate() {
        let mut ty = module.types[handle].clone();
        let (TypeInner::Array { size, .. } | TypeInner::BindingArray { size, .. }) = &mut ty.inner else { continue };
        let (ArraySize::Pending(_), Ok(IndexableLength::Known(length))) = (*size, size.resolve(module.to_ctx())) else {
            continue;
        };
        let Some(length) = std::num::NonZeroU32::new(length) else { continue };
        *size = ArraySize::Constant(length);
        // The arena holds no type twice; a name, which arrays are not written with, keeps this one apart.
        ty.name = Some(format!("resolved_{index}"));
        module.types.replace(handle, ty);
    }
    // Compaction keeps whatever a user could still name.
    for (_, left) in module.overrides.iter_mut() {
        (left.name, left.id) = (None, None);
    }
    naga::compact::compact(&mut module, naga::compact::KeepUnused::No);
    module
}

pub(super) fn msl(module: &Module, info: &ModuleInfo, reflection: &Reflection, needs: Capabilities) -> Result<Written> {
    let (mut slots, mut per_entry_point_map) = (Vec::new(), BTreeMap::new());
    for entry in &reflection.entry_points {
        let used = |binding: &&BindingInfo| entry.uses.contains(&[binding.group, binding.binding]);
        let mut lists = Lists::new(Target::Msl, Some(entry.name.clone()));
        let mut resources = msl::EntryPointResources::default();
        for binding in reflection.bindings.iter().filter(used) {
            let mut target = msl::BindTarget { mutable: binding.access != "read", ..msl::BindTarget::default() };
            match binding.kind {
                "texture" => target.texture = Some(lists.number(binding, "texture")?),
                "sampler" => {
                    target.sampler = Some(msl::BindSamplerTarget::Resource(lists.number(binding, "sampler")?));
                }
                _ => target.buffer = Some(lists.number(binding, "buffer")?),
            }
            resources.resources.insert(ResourceBinding { group: binding.group, binding: binding.binding }, target);
        }
        if reflection.immediates_bytes > 0 {
            resources.immediates_buffer = Some(lists.add("immediates", "buffer")?);
        }
        if reflection.bindings.iter().filter(used).any(|binding| binding.runtime_sized) {
            resources.sizes_buffer = Some(lists.add("array_lengths", "buffer")?);
        }
        slots.append(&mut lists.slots);
        per_entry_point_map.insert(entry.name.clone(), resources);
    }
    let int64_atomics = needs.intersects(Capabilities::SHADER_INT64_ATOMIC_MIN_MAX);
    let float_atomics = needs.intersects(Capabilities::SHADER_FLOAT32_ATOMIC | Capabilities::COOPERATIVE_MATRIX);
    let options = msl::Options {
        lang_version: if int64_atomics || float_atomics { (3, 1) } else { (2, 4) },
        per_entry_point_map,
        fake_missing_bindings: false,
        bounds_check_policies: CHECKED,
        ..msl::Options::default()
    };
    let fault = |e: &dyn std::fmt::Display| write_error(Target::Msl, e);
    let (text, translation) =
        msl::write_string(module, info, &options, &msl::PipelineOptions::default()).map_err(|e| fault(&e))?;
    let names = translation.entry_point_names.into_iter().map(|name| name.map(Some).map_err(|e| fault(&e)));
    let symbols = names.collect::<Result<Vec<_>>>()?;
    Ok(Written { bytes: text.into_bytes(), slots, symbols })
}

pub(super) fn hlsl(
    module: &Module,
    info: &ModuleInfo,
    reflection: &Reflection,
    needs: Capabilities,
) -> Result<Written> {
    let (mut slots, mut binding_map, mut space_after) = (Vec::new(), hlsl::BindingMap::new(), 0);
    for binding in &reflection.bindings {
        let list = match (binding.kind, binding.access) {
            ("sampler", _) => {
                return Err(Error::Unsupported {
                    device: format!("target {}", Target::Hlsl),
                    what: format!("the sampler `{}`", binding.name),
                    reason: "naga's HLSL takes samplers from a heap that only wgpu fills; use textureLoad".to_owned(),
                });
            }
            ("uniform", _) => "b",
            (_, "read") => "t",
            _ => "u",
        };
        let (space, index) = (binding.group, binding.binding);
        let source = Some([binding.group, binding.binding]);
        slots.push(BindSlot { entry: None, source, name: binding.name.clone(), list, space, index });
        space_after = space_after.max(space.saturating_add(1));
        let target = hlsl::BindTarget {
            space: u8::try_from(space).map_err(|_| too_many(Target::Hlsl, "register space"))?,
            register: index,
            restrict_indexing: true,
            ..hlsl::BindTarget::default()
        };
        binding_map.insert(ResourceBinding { group: binding.group, binding: binding.binding }, target);
    }
    let mut own_space = |wanted: bool, name: &str| -> Result<Option<hlsl::BindTarget>> {
        if !wanted {
            return Ok(None);
        }
        let space = u8::try_from(space_after).map_err(|_| too_many(Target::Hlsl, "register space"))?;
        slots.push(BindSlot {
            entry: None,
            source: None,
            name: name.to_owned(),
            list: "b",
            space: space_after,
            index: 0,
        });
        space_after += 1;
        Ok(Some(hlsl::BindTarget { space, ..hlsl::BindTarget::default() }))
    };
    let immediates_target = own_space(reflection.immediates_bytes > 0, "immediates")?;
    let special_constants_binding = own_space(asks_for_workgroup_count(module), "workgroup_count")?;
    let int64_atomics = Capabilities::SHADER_INT64_ATOMIC_MIN_MAX | Capabilities::SHADER_INT64_ATOMIC_ALL_OPS;
    let shader_model = if needs.intersects(int64_atomics) {
        hlsl::ShaderModel::V6_6
    } else if needs.intersects(Capabilities::SHADER_FLOAT16 | Capabilities::SHADER_INT16) {
        hlsl::ShaderModel::V6_2
    } else {
        hlsl::ShaderModel::V6_0
    };
    let options = hlsl::Options {
        shader_model,
        binding_map,
        fake_missing_bindings: false,
        immediates_target,
        special_constants_binding,
        ..hlsl::Options::default()
    };
    let pipeline = hlsl::PipelineOptions::default();
    let mut text = String::new();
    let fault = |e: &dyn std::fmt::Display| write_error(Target::Hlsl, e);
    let written = hlsl::Writer::new(&mut text, &options, &pipeline).write(module, info, None).map_err(|e| fault(&e))?;
    let names = written.entry_point_names.into_iter().map(|name| name.map(Some).map_err(|e| fault(&e)));
    let symbols = names.collect::<Result<Vec<_>>>()?;
    Ok(Written { bytes: text.into_bytes(), slots, symbols })
}

pub(super) fn glsl(
    module: &Module,
    info: &ModuleInfo,
    reflection: &Reflection,
    needs: Capabilities,
) -> Result<Written> {
    let entry = only_entry(module)?;
    let mut lists = Lists::new(Target::Glsl, None);
    let mut binding_map = glsl::BindingMap::new();
    for binding in &reflection.bindings {
        // GLSL has no samplers of their own: each is part of the textures it is used with.
        let list = match binding.kind {
            "sampler" => continue,
            kind @ ("storage" | "uniform") => kind,
            _ => "texture",
        };
        let at = ResourceBinding { group: binding.group, binding: binding.binding };
        binding_map.insert(at, lists.number(binding, list)?);
    }
    let desktop = needs.intersects(Capabilities::FLOAT64);
    let options = glsl::Options {
        version: if desktop { glsl::Version::Desktop(430) } else { glsl::Version::new_gles(310) },
        binding_map,
        ..glsl::Options::default()
    };
    let pipeline =
        glsl::PipelineOptions { shader_stage: entry.stage, entry_point: entry.name.clone(), multiview: None };
    let mut text = String::new();
    let mut writer = glsl::Writer::new(&mut text, module, info, &options, &pipeline, CHECKED)
        .map_err(|e| write_error(Target::Glsl, e))?;
    writer.write().map_err(|e| write_error(Target::Glsl, e))?;
    // GLSL has one name for them all.
    Ok(Written { bytes: text.into_bytes(), slots: lists.slots, symbols: vec![Some("main".to_owned())] })
}

/// Whether an entry point asks how many workgroups were launched: HLSL has no such value.
fn asks_for_workgroup_count(module: &Module) -> bool {
    let is_count = |binding: &Option<Binding>| *binding == Some(Binding::BuiltIn(BuiltIn::NumWorkGroups));
    module.entry_points.iter().flat_map(|entry| &entry.function.arguments).any(|argument| {
        is_count(&argument.binding)
            || matches!(&module.types[argument.ty].inner,
                TypeInner::Struct { members, .. } if members.iter().any(|member| is_count(&member.binding)))
    })
}

/// Flat lists of slots, one per kind of resource.
struct Lists {
    target: Target,
    entry: Option<String>,
    next: BTreeMap<&'static str, u8>,
    slots: Vec<BindSlot>,
}

impl Lists {
    fn new(target: Target, entry: Option<String>) -> Lists {
        Lists { target, entry, next: BTreeMap::new(), slots: Vec::new() }
    }

    /// The next number of `list`, for `binding`.
    fn number(&mut self, binding: &BindingInfo, list: &'static str) -> Result<u8> {
        self.push(Some([binding.group, binding.binding]), &binding.name, list)
    }

    /// The next number of `list`, for something the shader's text does not declare.
    fn add(&mut self, name: &str, list: &'static str) -> Result<u8> {
        self.push(None, name, list)
    }

    fn push(&mut self, source: Option<[u32; 2]>, name: &str, list: &'static str) -> Result<u8> {
        let next = self.next.entry(list).or_insert(0);
        let index = *next;
        *next = next.checked_add(1).ok_or_else(|| too_many(self.target, list))?;
        self.slots.push(BindSlot {
            entry: self.entry.clone(),
            source,
            name: name.to_owned(),
            list,
            space: 0,
            index: u32::from(index),
        });
        Ok(index)
    }
}

fn too_many(target: Target, list: &str) -> Error {
    Error::Unsupported {
        device: format!("target {target}"),
        what: format!("a {list} number above 254"),
        reason: "the shader has too many resources for it".to_owned(),
    }
}
