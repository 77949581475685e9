//! Structs that `@align` aligns, inside of others: naga forgets that there, WGSL does not.
//!
//! A struct is aligned as its most aligned member (WGSL, "Alignment and Size"), attribute included. naga 30 takes the
//! alignment of such a struct from the types of its members alone, so that in a struct or array round it, it lies elsewhere
//! than the host puts it, on every backend. The attribute is gone from naga's module, so it is looked for in the text.

use std::collections::HashMap;

use naga::{AddressSpace, Handle, Module, Type, TypeInner};
use polywarp_core::{Error, Result};

use super::expand::{Token, tokens};
use super::shader_error;

/// Refuses `module`, which naga read from `source`, where a buffer of it lies otherwise than WGSL says.
///
/// # Errors
/// [`Error::Shader`] with the place of the struct round the aligned one.
pub(super) fn check_alignment(module: &Module, source: &str) -> Result<()> {
    if !source.contains("align") {
        return Ok(());
    }
    let wanted = aligned(&tokens(source));
    if wanted.is_empty() {
        return Ok(());
    }
    let shared = shared(module);
    let mut aligns: Vec<u32> = Vec::with_capacity(module.types.len());
    for (handle, ty) in module.types.iter() {
        let of = |ty: Handle<Type>| aligns.get(ty.index()).copied().unwrap_or(1);
        let refused = |what: String, align: u32| {
            let start = module.types.get_span(handle).to_range().map(|range| range.start);
            let message = format!(
                "{what} is aligned to {align} bytes by an `@align` within it, and naga does not see that here; write the \
                 same `@align({align})` at the member that holds it, and at the first member"
            );
            Err::<(), Error>(shader_error(source, start, &message))
        };
        let align = match &ty.inner {
            TypeInner::Array { base, stride, .. } => {
                let align = of(*base);
                if shared[handle.index()] && stride % align != 0 {
                    refused("the element of an array".to_owned(), align)?;
                }
                align
            }
            TypeInner::Struct { members, span } => {
                let name = ty.name.as_deref().unwrap_or("a struct");
                let mut all = wanted.get(name).copied().unwrap_or(1);
                for member in members {
                    let align = of(member.ty);
                    if shared[handle.index()] && member.offset % align != 0 {
                        let member = member.name.as_deref().unwrap_or("a member");
                        refused(format!("`{name}.{member}`"), align)?;
                    }
                    all = all.max(align);
                }
                if shared[handle.index()] && span % all != 0 {
                    refused(format!("`{name}`"), all)?;
                }
                all
            }
            _ => 1,
        };
        aligns.push(align);
    }
    Ok(())
}

/// The largest `@align` in each struct of the text.
fn aligned<'a>(tokens: &[Token<'a>]) -> HashMap<&'a str, u32> {
    let mut found = HashMap::new();
    let mut name = "";
    for (at, token) in tokens.iter().enumerate() {
        let text = |ahead: usize| tokens.get(at + ahead).map_or("", |token| token.text);
        match token.text {
            "struct" => name = text(1),
            "align" if at > 0 && tokens[at - 1].text == "@" && text(1) == "(" => {
                if let Some(align) = number(tokens, text(2)) {
                    let most: &mut u32 = found.entry(name).or_insert(1);
                    *most = (*most).max(align);
                }
            }
            _ => {}
        }
    }
    found
}

/// A literal, or the constant of that name whose value is one: naga keeps no constant that has no concrete type.
fn number(tokens: &[Token<'_>], text: &str) -> Option<u32> {
    let literal = |text: &str| {
        let digits = text.trim_end_matches(['u', 'i']);
        match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
            Some(hex) => u32::from_str_radix(hex, 16).ok(),
            None => digits.parse().ok(),
        }
    };
    let constant = || {
        let declared = tokens.windows(2).position(|pair| pair[0].text == "const" && pair[1].text == text)?;
        let mut value = tokens[declared..].iter().take_while(|token| token.text != ";");
        value.find(|token| token.text == "=")?;
        let (number, None) = (value.next()?, value.next()) else { return None };
        literal(number.text)
    };
    literal(text).or_else(constant).filter(|align| align.is_power_of_two())
}

/// Which types lie in buffers.
fn shared(module: &Module) -> Vec<bool> {
    let mut shared = vec![false; module.types.len()];
    for (_, global) in module.global_variables.iter() {
        if matches!(global.space, AddressSpace::Uniform | AddressSpace::Storage { .. }) {
            shared[global.ty.index()] = true;
        }
    }
    // What a type is made of comes before it.
    for (handle, ty) in module.types.iter().rev() {
        if !shared[handle.index()] {
            continue;
        }
        match &ty.inner {
            TypeInner::Array { base, .. } | TypeInner::BindingArray { base, .. } => shared[base.index()] = true,
            TypeInner::Struct { members, .. } => {
                members.iter().for_each(|member| shared[member.ty.index()] = true);
            }
            _ => {}
        }
    }
    shared
}

#[cfg(test)]
mod tests {
    use naga::valid::Capabilities;

    use super::super::parse_and_validate;
    use super::*;

    fn read(structs: &str, ty: &str) -> Result<()> {
        let buffer = format!("@group(0) @binding(0) var<storage, read_write> o: {ty};");
        let source = format!("const A = 32;\n{structs}\n{buffer} @compute @workgroup_size(1) fn main() {{ }}");
        parse_and_validate(&source, Capabilities::all()).map(drop)
    }

    #[test]
    fn aligned_structs_that_naga_would_misplace_are_refused_with_their_place() {
        for (structs, ty) in [
            ("struct I { @align(32) a: u32 }\nstruct O { x: u32, i: I }", "O"),
            ("struct I { @align(A) a: u32 }\nstruct O { x: u32, i: array<I, 2> }", "array<O>"),
            ("struct I { @align(0x20u) a: u32 } struct M { i: I, b: u32 }\nstruct O { m: M, x: u32 }", "O"),
        ] {
            match read(structs, ty) {
                Err(Error::Shader { line, message, .. }) => {
                    assert!(line >= 2 && message.contains("@align(32)"), "{line} {message}");
                }
                other => panic!("{other:?}: {structs}"),
            }
        }
    }

    #[test]
    fn aligned_structs_that_lie_right_are_accepted() {
        for (structs, ty) in [
            ("struct I { @align(32) a: u32, b: u32 }", "array<I>"),
            ("struct I { @align(32) a: u32 } struct O { @align(32) x: u32, @align(32) i: I }", "O"),
            ("struct I { @align(16) a: vec3<f32> } struct O { v: vec4<f32>, i: I }", "array<O>"),
            ("struct I { @align(32) a: u32 } struct O { x: u32, i: I }\nvar<private> p: O;", "array<u32>"),
        ] {
            read(structs, ty).unwrap_or_else(|e| panic!("{e}: {structs}"));
        }
    }
}
