//! Plain WGSL: what naga's writer drops is put back, and the text is read again and compared before anybody sees it.
//!
//! naga writes no `@size` and `@align`, leaves `enable` out where only values are of the type, and declares variables with
//! names of types that WGSL gives no name (the results of `atomicCompareExchangeWeak`, `modf` and `frexp`). [`nameable`]
//! gives such variables a struct of their own, [`with_sizes`] writes the layout as `@size`, and [`compare`] holds the text's
//! module against the one it was made from: bindings, entry points, features, and the layout of every buffer.

use std::collections::HashMap;

use naga::valid::{Capabilities, ModuleInfo};
use naga::{
    Block, Expression, Handle, LocalVariable, Module, ShaderStage, Span, Statement, StructMember, Type, TypeInner,
    UniqueArena,
};
use polywarp_core::{Error, Result};

use super::{Target, write_error};
use crate::glsl::rebuild::{Rebuilt, Rewrite};
use crate::glsl::rewrite;
use crate::wgsl::{parse_and_validate, place, reflect, validate};

/// `module` with names for the types of all its variables; `None` where they have them.
pub(super) fn nameable(module: &Module, info: &ModuleInfo) -> Result<Option<(Module, ModuleInfo)>> {
    let nameless: Vec<Handle<Type>> = module.special_types.predeclared_types.values().copied().collect();
    let entries = module.entry_points.iter().map(|entry| &entry.function);
    let mut locals = module
        .functions
        .iter()
        .map(|(_, function)| function)
        .chain(entries)
        .flat_map(|function| function.local_variables.iter().map(|(_, local)| local.ty));
    if !locals.any(|ty| nameless.contains(&ty)) {
        return Ok(None);
    }
    let mut types = module.types.clone();
    let mut named = HashMap::new();
    for (nth, old) in nameless.into_iter().enumerate() {
        let inner = types[old].inner.clone();
        named.insert(old, types.insert(Type { name: Some(format!("Result_{nth}")), inner }, Span::UNDEFINED));
    }
    let mut new = Module { types, ..module.clone() };
    rewrite(&mut new, module, info, &mut || Named { named: &named })?;
    for (_, function) in new.functions.iter_mut() {
        rename(&mut function.local_variables, &named);
    }
    for entry in &mut new.entry_points {
        rename(&mut entry.function.local_variables, &named);
    }
    let info = validate(&new, Capabilities::all()).map_err(|e| write_error(Target::Wgsl, e))?;
    Ok(Some((new, info)))
}

fn rename(locals: &mut naga::Arena<LocalVariable>, named: &HashMap<Handle<Type>, Handle<Type>>) {
    for (_, local) in locals.iter_mut() {
        local.ty = named.get(&local.ty).copied().unwrap_or(local.ty);
    }
}

/// Stores results into variables of [`nameable`]'s types.
struct Named<'a> {
    named: &'a HashMap<Handle<Type>, Handle<Type>>,
}

impl Rewrite for Named<'_> {
    fn expression(&mut self, _: &mut Rebuilt<'_>, _: Handle<Expression>) -> Result<Option<Handle<Expression>>> {
        Ok(None)
    }

    fn statement(&mut self, into: &mut Rebuilt<'_>, old: &Statement, span: Span) -> Result<Option<Block>> {
        let Statement::Store { pointer, value } = *old else { return Ok(None) };
        let Expression::LocalVariable(local) = into.old.expressions[pointer] else { return Ok(None) };
        let local = &into.old.local_variables[local];
        let (Some(&ty), TypeInner::Struct { members, .. }) =
            (self.named.get(&local.ty), &into.module.types[local.ty].inner)
        else {
            return Ok(None);
        };
        // What was loaded from such a variable has its type already.
        if matches!(into.old.expressions[value], Expression::Load { .. }) {
            return Ok(None);
        }
        let count = members.len() as u32;
        let mut block = Block::new();
        let start = into.mark();
        let base = into.new_of(value);
        let components = (0..count).map(|index| into.add(Expression::AccessIndex { base, index })).collect();
        let value = into.add(Expression::Compose { ty, components });
        into.emit(start, &mut block, span);
        block.push(Statement::Store { pointer: into.new_of(pointer), value }, span);
        Ok(Some(block))
    }
}

/// `text`, which naga wrote of `module`, with `@size` and `@align` where members do not follow each other as their types alone have it.
pub(super) fn with_sizes(text: &str, module: &Module) -> String {
    let nameless: Vec<Handle<Type>> = module.special_types.predeclared_types.values().copied().collect();
    let mut structs = module.types.iter().filter_map(|(handle, ty)| match &ty.inner {
        TypeInner::Struct { .. } if !nameless.contains(&handle) => Some(attributes(module, handle)),
        _ => None,
    });
    let mut sized = String::with_capacity(text.len());
    let mut members = Vec::new().into_iter();
    for line in text.split_inclusive('\n') {
        if line.starts_with("struct ") {
            members = structs.next().unwrap_or_default().into_iter();
        } else if line.starts_with('}') {
            members = Vec::new().into_iter();
        } else if let Some(Some(attribute)) = members.next() {
            let indent = line.len() - line.trim_start().len();
            sized.push_str(&line[..indent]);
            sized.push_str(&attribute);
            sized.push_str(&line[indent..]);
            continue;
        }
        sized.push_str(line);
    }
    sized
}

/// For each member of a struct the attribute to be written, where its place does not follow from the types.
fn attributes(module: &Module, handle: Handle<Type>) -> Vec<Option<String>> {
    let TypeInner::Struct { members, span } = &module.types[handle].inner else { return Vec::new() };
    let all = members.iter().map(|member| align(&module.types, member.ty)).max().unwrap_or(1);
    let end =
        |member: &StructMember| member.offset + module.types[member.ty].inner.try_size(module.to_ctx()).unwrap_or(0);
    let mut written: Vec<Option<String>> = vec![None; members.len()];
    for (nth, member) in members.iter().enumerate() {
        let (next, unit) = match members.get(nth + 1) {
            Some(next) => (next.offset, align(&module.types, next.ty)),
            // A runtime-sized array has no size to give: the struct's alignment decides where it ends.
            None if module.types[member.ty].inner.is_dynamically_sized(&module.types) => {
                let ends = |unit: &u32| end(member).next_multiple_of(*unit) == *span;
                if let Some(unit) = (0..16).map(|power| all << power).find(ends).filter(|&unit| unit != all) {
                    let size = written[0].take().unwrap_or_default();
                    written[0] = Some(format!("@align({unit}) {size}"));
                }
                break;
            }
            None => (*span, all),
        };
        if end(member).next_multiple_of(unit) != next {
            written[nth] = Some(format!("@size({}) ", next - member.offset));
        }
    }
    written
}

/// The alignment of a type without attributes.
fn align(types: &UniqueArena<Type>, ty: Handle<Type>) -> u32 {
    match &types[ty].inner {
        TypeInner::Scalar(scalar) | TypeInner::Atomic(scalar) => u32::from(scalar.width),
        TypeInner::Vector { size: rows, scalar } | TypeInner::Matrix { rows, scalar, .. } => {
            u32::from(scalar.width) * if *rows == naga::VectorSize::Bi { 2 } else { 4 }
        }
        TypeInner::Array { base, .. } => align(types, *base),
        TypeInner::Struct { members, .. } => members.iter().map(|member| align(types, member.ty)).max().unwrap_or(1),
        _ => 1,
    }
}

/// Whether `text`, read again, is `module`.
///
/// # Errors
/// [`Error::Unsupported`] with the place in `source` of what would be lost.
pub(super) fn compare(text: &str, module: &Module, info: &ModuleInfo, source: &str) -> Result<()> {
    let (again, again_info) = parse_and_validate(text, Capabilities::all()).map_err(|error| {
        let line = match &error {
            Error::Shader { line, .. } => text.lines().nth((*line as usize).saturating_sub(1)).unwrap_or_default(),
            _ => "",
        };
        lost(&format!("naga writes it as WGSL that it cannot read (`{}`: {error})", line.trim()), None)
    })?;
    for (_, global) in module.global_variables.iter() {
        let Some(at) = &global.binding else { continue };
        let other =
            again.global_variables.iter().map(|(_, other)| other).find(|other| other.binding.as_ref() == Some(at));
        let span = module.types.get_span(global.ty);
        let what = global.name.as_deref().unwrap_or("a buffer");
        let found =
            other.map(|other| (other, other.space == global.space, alike((module, global.ty), (&again, other.ty))));
        match found {
            Some((_, true, true)) => {}
            None => return Err(lost(&format!("`{what}` is missing from what naga writes"), placed(source, span))),
            Some((_, false, _)) => {
                return Err(lost(&format!("the address space of `{what}` is another one"), placed(source, span)));
            }
            Some((_, true, false)) => {
                return Err(lost(&format!("the type or layout of `{what}` is another one"), placed(source, span)));
            }
        }
    }
    let (before, after) = (reflect(module, info), reflect(&again, &again_info));
    for (entry, (before, after)) in module.entry_points.iter().zip(before.entry_points.iter().zip(&after.entry_points))
    {
        let interface = |of: &Module, name: &str| {
            let entry = of.entry_points.iter().find(|entry| entry.name == name);
            entry.map(|entry| entry.function.arguments.iter().map(|a| a.binding.clone()).collect::<Vec<_>>())
        };
        let same_inputs =
            entry.stage != ShaderStage::Compute || interface(module, &before.name) == interface(&again, &after.name);
        let same_uses = before.uses == after.uses && before.stage == after.stage;
        let same_size =
            (before.workgroup_size, before.workgroup_bytes) == (after.workgroup_size, after.workgroup_bytes);
        if !(same_inputs && same_uses && same_size) {
            return Err(lost(&format!("the entry point `{}` is another one", entry.name), None));
        }
    }
    if before.entry_points.len() != after.entry_points.len() || before.features != after.features {
        return Err(lost("its entry points or features are others", None));
    }
    Ok(())
}

/// Whether two types, each of its module, hold the same in the same places.
fn alike((a, of_a): (&Module, Handle<Type>), (b, of_b): (&Module, Handle<Type>)) -> bool {
    match (&a.types[of_a].inner, &b.types[of_b].inner) {
        (
            TypeInner::Array { base: base_a, size: size_a, stride: stride_a },
            TypeInner::Array { base: base_b, size: size_b, stride: stride_b },
        ) => {
            let length = |module: &Module, size: &naga::ArraySize| size.resolve(module.to_ctx()).ok();
            stride_a == stride_b
                && format!("{:?}", length(a, size_a)) == format!("{:?}", length(b, size_b))
                && alike((a, *base_a), (b, *base_b))
        }
        (
            TypeInner::Struct { members: members_a, span: span_a },
            TypeInner::Struct { members: members_b, span: span_b },
        ) => {
            let pairs = || members_a.iter().zip(members_b);
            span_a == span_b
                && members_a.len() == members_b.len()
                && pairs().all(|(x, y)| x.offset == y.offset && x.binding == y.binding)
                && pairs().all(|(x, y)| alike((a, x.ty), (b, y.ty)))
        }
        (TypeInner::BindingArray { base: base_a, .. }, TypeInner::BindingArray { base: base_b, .. }) => {
            alike((a, *base_a), (b, *base_b))
        }
        (one, other) => one == other,
    }
}

fn placed(source: &str, span: Span) -> Option<(u32, u32)> {
    place(source, span.to_range()?.start)
}

fn lost(why: &str, place: Option<(u32, u32)>) -> Error {
    let place = place.map_or(String::new(), |(line, column)| format!(" (declared at line {line}, column {column})"));
    Error::Unsupported {
        device: format!("target {}", Target::Wgsl),
        what: "this shader".to_owned(),
        reason: crate::wgsl::one_line(&format!("{why}{place}; choose another target")),
    }
}
