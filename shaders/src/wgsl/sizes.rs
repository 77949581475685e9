//! What types ask for without a constant: zero values and variables, which languages without a short form write out, and
//! types that nest more deeply than code that follows them may recurse.
//!
//! Checked before naga validates a module, and again once overrides have sized its arrays.

use naga::proc::IndexableLength;
use naga::{AddressSpace, ArraySize, Expression, Function, Handle, Module, Span, Type, TypeInner};
use polywarp_core::Result;

use super::expand::{MAX_EXPANDED, too_much};
use super::guard::too_complex;

/// Deepest nesting of arrays and structs in one type. WGSL asks for 15.
pub const MAX_TYPE_DEPTH: u32 = 127;

/// Refuses `module` where the variables and composed values of its functions have more than [`MAX_EXPANDED`] scalars
/// together, or a type nests beyond [`MAX_TYPE_DEPTH`]. `source` is where its places are.
///
/// # Errors
/// [`polywarp_core::Error::Shader`] with the place; [`polywarp_core::Error::ShaderTooComplex`].
pub(super) fn check_sizes(module: &Module, source: &str) -> Result<()> {
    let mut sizes = Sizes { scalars: Vec::with_capacity(module.types.len()), source, total: 0 };
    let mut depths: Vec<u32> = Vec::with_capacity(module.types.len());
    // A type follows those that it is made of.
    for (_, ty) in module.types.iter() {
        let depth = |ty: Handle<Type>| depths.get(ty.index()).copied().unwrap_or(0).saturating_add(1);
        let (scalars, deep) = match &ty.inner {
            TypeInner::Array { base, size, .. } => {
                (sizes.of(*base).saturating_mul(length(module, *size)), depth(*base))
            }
            TypeInner::Struct { members, .. } => {
                let all = members.iter().map(|member| sizes.of(member.ty)).fold(0, u64::saturating_add);
                (all, members.iter().map(|member| depth(member.ty)).max().unwrap_or(0))
            }
            TypeInner::Vector { size, .. } => (*size as u64, 0),
            TypeInner::Matrix { columns, rows, .. } => (*columns as u64 * *rows as u64, 0),
            _ => (1, 0),
        };
        if deep > MAX_TYPE_DEPTH {
            return Err(too_complex("nesting of types", deep as usize, MAX_TYPE_DEPTH as usize));
        }
        sizes.scalars.push(scalars);
        depths.push(deep);
    }
    for (handle, global) in module.global_variables.iter() {
        if matches!(global.space, AddressSpace::Private | AddressSpace::WorkGroup) {
            sizes.add(global.ty, module.global_variables.get_span(handle))?;
        }
    }
    let entries = module.entry_points.iter().map(|entry| &entry.function);
    for function in module.functions.iter().map(|(_, function)| function).chain(entries) {
        sizes.function(module, function)?;
    }
    Ok(())
}

struct Sizes<'a> {
    /// Of each type, in the order of the arena.
    scalars: Vec<u64>,
    source: &'a str,
    total: u64,
}

impl Sizes<'_> {
    fn of(&self, ty: Handle<Type>) -> u64 {
        self.scalars.get(ty.index()).copied().unwrap_or(1)
    }

    fn function(&mut self, module: &Module, function: &Function) -> Result<()> {
        for (handle, local) in function.local_variables.iter() {
            self.add(local.ty, function.local_variables.get_span(handle))?;
        }
        for (handle, expression) in function.expressions.iter() {
            let ty = match expression {
                Expression::ZeroValue(ty) => *ty,
                Expression::Constant(constant) => module.constants[*constant].ty,
                _ => continue,
            };
            if matches!(module.types[ty].inner, TypeInner::Array { .. } | TypeInner::Struct { .. }) {
                self.add(ty, function.expressions.get_span(handle))?;
            }
        }
        Ok(())
    }

    fn add(&mut self, ty: Handle<Type>, span: Span) -> Result<()> {
        self.total = self.total.saturating_add(self.of(ty));
        if self.total <= MAX_EXPANDED {
            return Ok(());
        }
        let start = span.to_range().map_or(usize::MAX, |range| range.start);
        Err(too_much(self.source, start, self.total))
    }
}

/// Elements of an array; 1 where they are not known yet.
fn length(module: &Module, size: ArraySize) -> u64 {
    match size.resolve(module.to_ctx()) {
        Ok(IndexableLength::Known(length)) => u64::from(length),
        Ok(IndexableLength::Dynamic) | Err(_) => 1,
    }
}
