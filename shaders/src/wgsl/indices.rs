//! Indices that a `let` holds: what is out of bounds with them is no fault of the text.
//!
//! A `let` is no constant expression in WGSL, so `let j = 4u; a[j] = 0;` on four elements is valid, and the access is one out of
//! bounds at run time: it reaches some element. naga looks through the `let` and refuses it. [`settle`] lets such an access reach
//! the last element, which is where all our targets clamp to. The decision to know: naga's module no longer says where an index
//! came from, so its text does; an index in which no `let` is named is a constant expression, and stays refused.

use naga::{ArraySize, Expression, Function, Handle, Literal, Module, TypeInner};

/// Brings indices that are out of bounds by way of a `let` to the last element; whether there were any.
pub(super) fn settle(module: &mut Module, source: &str) -> bool {
    let mut changed = false;
    let lengths = |module: &Module, function: &Function| -> Vec<(Handle<Expression>, Handle<Expression>, u32)> {
        let found = function.expressions.iter().filter_map(|(handle, expression)| {
            let (base, index) = match *expression {
                Expression::AccessIndex { base, index } => (base, Some(index)),
                Expression::Access { base, index } => (base, literal(function, index)),
                _ => return None,
            };
            let length = length(module, function, base)?;
            (index? >= length && names_a_let(function, handle, source)).then_some((handle, base, length))
        });
        found.collect()
    };
    let handles: Vec<_> = module.functions.iter().map(|(handle, _)| handle).collect();
    for handle in handles {
        for (access, base, length) in lengths(module, &module.functions[handle]) {
            module.functions[handle].expressions[access] = Expression::AccessIndex { base, index: length - 1 };
            changed = true;
        }
    }
    for entry in 0..module.entry_points.len() {
        for (access, base, length) in lengths(module, &module.entry_points[entry].function) {
            module.entry_points[entry].function.expressions[access] =
                Expression::AccessIndex { base, index: length - 1 };
            changed = true;
        }
    }
    changed
}

/// A known index; a negative one is out of bounds of everything.
fn literal(function: &Function, index: Handle<Expression>) -> Option<u32> {
    match function.expressions[index] {
        Expression::Literal(Literal::U32(value)) => Some(value),
        Expression::Literal(Literal::I32(value)) => Some(u32::try_from(value).unwrap_or(u32::MAX)),
        _ => None,
    }
}

/// How many elements, components or columns `base` has, or what it points to; of structs and run-time arrays nothing is said.
fn length(module: &Module, function: &Function, base: Handle<Expression>) -> Option<u32> {
    let of = |inner: &TypeInner| match *inner {
        TypeInner::Array { size: ArraySize::Constant(count), .. } => Some(count.get()),
        TypeInner::Vector { size, .. } => Some(size as u32),
        TypeInner::Matrix { columns, .. } => Some(columns as u32),
        _ => None,
    };
    match resolved(module, function, base)? {
        TypeInner::Pointer { base, .. } => of(&module.types[base].inner),
        TypeInner::ValuePointer { size: Some(size), .. } => Some(size as u32),
        other => of(&other),
    }
}

/// The type of an expression, by naga's own rules.
fn resolved(module: &Module, function: &Function, expression: Handle<Expression>) -> Option<TypeInner> {
    let mut typifier = naga::front::Typifier::new();
    let context = naga::proc::ResolveContext::with_locals(module, &function.local_variables, &function.arguments);
    typifier.grow(expression, &function.expressions, &context).ok()?;
    Some(typifier.get(expression, &module.types).clone())
}

/// Whether the last index in the text of `access` names a `let` of its function.
fn names_a_let(function: &Function, access: Handle<Expression>, source: &str) -> bool {
    let text = function.expressions.get_span(access).to_range().and_then(|range| source.get(range));
    let Some(index) = text.and_then(last_index) else { return false };
    let words = index.split(|c: char| !(c.is_alphanumeric() || c == '_'));
    let is_let = |word: &str| {
        function.named_expressions.iter().any(|(&named, name)| {
            name == word && !matches!(function.expressions[named], Expression::FunctionArgument(_))
        })
    };
    words.into_iter().any(|word| !word.is_empty() && is_let(word))
}

/// What is in the last pair of brackets of `a[i][j]`, which ends with it.
fn last_index(text: &str) -> Option<&str> {
    let inside = text.trim_end().strip_suffix(']')?;
    let mut depth = 0;
    for (at, byte) in inside.bytes().enumerate().rev() {
        match byte {
            b']' => depth += 1,
            b'[' if depth == 0 => return inside.get(at + 1..),
            b'[' => depth -= 1,
            _ => {}
        }
    }
    None
}
