//! Which variables live in registers.
//!
//! A variable is promoted unless something in it that is not small is indexed by a value unknown at compile time: then
//! it lies in local memory, which is slow. Functions are compiled into their callers, so an index inside a callee
//! counts for the variable whose pointer is passed. An index that depends only on counters of unrolled loops
//! (`unroll.rs`) is known.

use std::collections::{HashMap, HashSet};
use std::rc::Rc;

use naga::{
    AddressSpace, Block, Expression, Function, GlobalVariable, Handle, LocalVariable, Module, Statement, TypeInner,
};

use super::recognise::{self, Pointer};
use super::types::Types;
use super::unroll::{Unrolling, Weights, children};
use crate::error::{Error, Result};

/// Elements that are chosen between by predicates instead of going through memory.
const MAX_CHOICES: usize = 8;
/// Scalars a promoted variable may have: beyond this the assembler would spill it anyway.
const MAX_SCALARS: usize = 512;

/// Where a pointer chain starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Root {
    Local(Handle<LocalVariable>),
    Global(Handle<GlobalVariable>),
    Argument(u32),
}

/// What each function makes of the variables it sees.
#[derive(Debug, Default)]
pub(crate) struct Promotion {
    /// Private variables that must lie in memory.
    private_in_memory: HashSet<Handle<GlobalVariable>>,
    functions: HashMap<Option<Handle<Function>>, HashSet<Root>>,
    unrolling: HashMap<Option<Handle<Function>>, Rc<Unrolling>>,
    weights: Weights,
}

impl Promotion {
    /// Looks at the entry point and every function of the module (callees come before callers in the arena).
    pub(crate) fn new(module: &Module, types: Types<'_>, entry: &Function) -> Result<Promotion> {
        let mut promotion = Promotion::default();
        for (handle, function) in module.functions.iter() {
            promotion.visit(module, types, Some(handle), function)?;
        }
        promotion.visit(module, types, None, entry)?;
        for (handle, global) in module.global_variables.iter() {
            if global.space == AddressSpace::Private && too_large(types, types.inner(global.ty))? {
                promotion.private_in_memory.insert(handle);
            }
        }
        Ok(promotion)
    }

    pub(crate) fn private_in_memory(&self, global: Handle<GlobalVariable>) -> bool {
        self.private_in_memory.contains(&global)
    }

    /// `function`: `None` is the entry point.
    pub(crate) fn local_in_memory(&self, function: Option<Handle<Function>>, local: Handle<LocalVariable>) -> bool {
        self.functions.get(&function).is_some_and(|roots| roots.contains(&Root::Local(local)))
    }

    /// The loops of `function` that are written out.
    pub(crate) fn unrolling(&self, function: Option<Handle<Function>>) -> Rc<Unrolling> {
        self.unrolling.get(&function).cloned().unwrap_or_default()
    }

    fn visit(
        &mut self,
        module: &Module,
        types: Types<'_>,
        handle: Option<Handle<Function>>,
        function: &Function,
    ) -> Result<()> {
        let mut roots = HashSet::new();
        let unrolling = Unrolling::new(module, function, &self.weights);
        self.weights.extend(handle.map(|handle| (handle, unrolling.weight())));
        for (_, expression) in function.expressions.iter() {
            let Expression::Access { base, index } = *expression else { continue };
            let Some((root, inner)) = trace(module, types, function, base) else { continue };
            if !unrolling.is_known(index) && !selectable(types, &inner)? {
                roots.insert(root);
            }
        }
        for (local, variable) in function.local_variables.iter() {
            if too_large(types, types.inner(variable.ty))? {
                roots.insert(Root::Local(local));
            }
        }
        self.calls(module, types, function, &function.body, &mut roots);
        for root in &roots {
            if let Root::Global(global) = *root {
                self.private_in_memory.insert(global);
            }
        }
        self.unrolling.insert(handle, Rc::new(unrolling));
        self.functions.insert(handle, roots);
        Ok(())
    }

    /// Pointers handed to functions that index what they point to.
    fn calls(&self, module: &Module, types: Types<'_>, function: &Function, block: &Block, roots: &mut HashSet<Root>) {
        for statement in block {
            match statement {
                Statement::Call { function: callee, arguments, .. } => {
                    let Some(inner) = self.functions.get(&Some(*callee)) else { continue };
                    for (position, &argument) in (0_u32..).zip(arguments) {
                        if inner.contains(&Root::Argument(position)) {
                            roots.extend(trace(module, types, function, argument).map(|(root, _)| root));
                        }
                    }
                }
                other => children(other, &mut |child| self.calls(module, types, function, child, roots)),
            }
        }
    }
}

/// The variable a pointer expression leads to, and the type it points to.
fn trace(
    module: &Module,
    types: Types<'_>,
    function: &Function,
    pointer: Handle<Expression>,
) -> Option<(Root, TypeInner)> {
    match recognise::pointer(function, pointer) {
        Pointer::Local(local) => Some((Root::Local(local), types.inner(function.local_variables[local].ty).clone())),
        Pointer::Global(global) => {
            let variable = &module.global_variables[global];
            (variable.space == AddressSpace::Private).then(|| (Root::Global(global), types.inner(variable.ty).clone()))
        }
        Pointer::Argument(index) => {
            let argument = function.arguments.get(index as usize)?;
            Some((Root::Argument(index), types.pointee(types.inner(argument.ty))?))
        }
        Pointer::Element { base, .. } => {
            let (root, inner) = trace(module, types, function, base)?;
            Some((root, types.element(&inner).ok()?.ty))
        }
        Pointer::Member { base, index } => {
            let (root, inner) = trace(module, types, function, base)?;
            let inner = match inner {
                TypeInner::Struct { ref members, .. } => types.inner(members.get(index as usize)?.ty).clone(),
                other => types.element(&other).ok()?.ty,
            };
            Some((root, inner))
        }
        Pointer::Other => None,
    }
}

/// Few enough elements to choose between by predicates.
fn selectable(types: Types<'_>, inner: &TypeInner) -> Result<bool> {
    let element = types.element(inner)?;
    Ok(element.count.is_some_and(|count| count as usize <= MAX_CHOICES) && types.leaf_count(inner)? <= 2 * MAX_CHOICES)
}

fn too_large(types: Types<'_>, inner: &TypeInner) -> Result<bool> {
    match inner {
        // Values of these types only ever are in registers, or are nothing at run time.
        TypeInner::CooperativeMatrix { .. } | TypeInner::Pointer { .. } | TypeInner::ValuePointer { .. } => Ok(false),
        other => match types.leaf_count(other) {
            Ok(count) => Ok(count > MAX_SCALARS),
            Err(Error::TooComplex { .. }) => Ok(true),
            Err(error) => Err(error),
        },
    }
}
