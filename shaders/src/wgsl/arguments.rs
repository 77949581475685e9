//! Pointers to parts of variables as arguments of functions, which naga's SPIR-V writer has no words for.
//!
//! WGSL lets `&a[i]` and `&s.member` be arguments; SPIR-V before its variable pointers takes whole variables only, and naga 30
//! ends in an internal error. [`with_whole_arguments`] gives such a call a variable of its own: the part is copied in, the call
//! gets the address of the copy, and the copy goes back after it. The decision to know: that is what the call does anyway, for
//! WGSL forbids a function to reach one variable in two ways where one of them writes, and naga passes pointers to the memory
//! of one invocation alone.

use naga::{
    AddressSpace, Block, Expression, Function, GlobalVariable, Handle, LocalVariable, Module, Range, Span, Statement,
    Type, TypeInner,
};

/// A part that a call gets a pointer to: the type, where the copy may lie.
#[derive(Clone, Copy)]
struct Part {
    ty: Handle<Type>,
    space: AddressSpace,
}

/// `module` with copies in place of parts of variables in calls; `None` where there are none of these.
pub fn with_whole_arguments(module: &Module) -> Option<Module> {
    let mut changed = module.clone();
    let mut copies = 0;
    let handles: Vec<_> = module.functions.iter().map(|(handle, _)| handle).collect();
    for handle in handles {
        let mut function = std::mem::take(&mut changed.functions[handle]);
        copies += rewrite(&mut changed, module, &mut function);
        changed.functions[handle] = function;
    }
    for index in 0..changed.entry_points.len() {
        let mut function = std::mem::take(&mut changed.entry_points[index].function);
        copies += rewrite(&mut changed, module, &mut function);
        changed.entry_points[index].function = function;
    }
    (copies > 0).then_some(changed)
}

/// The part of a variable that an argument of a call points to; `original` has every function as it was.
fn part(
    original: &Module,
    function: &Function,
    callee: Handle<Function>,
    position: usize,
    argument: Handle<Expression>,
) -> Option<Part> {
    if !matches!(function.expressions[argument], Expression::Access { .. } | Expression::AccessIndex { .. }) {
        return None;
    }
    let parameter = original.functions[callee].arguments.get(position)?;
    match original.types[parameter.ty].inner {
        TypeInner::Pointer { base, space: space @ (AddressSpace::Function | AddressSpace::Private) } => {
            Some(Part { ty: base, space })
        }
        _ => None,
    }
}

/// The blocks inside a statement.
fn blocks(statement: &mut Statement) -> Vec<&mut Block> {
    match statement {
        Statement::Block(block) => vec![block],
        Statement::If { accept, reject, .. } => vec![accept, reject],
        Statement::Switch { cases, .. } => cases.iter_mut().map(|case| &mut case.body).collect(),
        Statement::Loop { body, continuing, .. } => vec![body, continuing],
        Statement::Emit(_)
        | Statement::Break
        | Statement::Continue
        | Statement::Return { .. }
        | Statement::Kill
        | Statement::ControlBarrier(_)
        | Statement::MemoryBarrier(_)
        | Statement::Store { .. }
        | Statement::ImageStore { .. }
        | Statement::Atomic { .. }
        | Statement::ImageAtomic { .. }
        | Statement::WorkGroupUniformLoad { .. }
        | Statement::Call { .. }
        | Statement::RayQuery { .. }
        | Statement::RayPipelineFunction(_)
        | Statement::SubgroupBallot { .. }
        | Statement::SubgroupGather { .. }
        | Statement::SubgroupCollectiveOperation { .. }
        | Statement::CooperativeStore { .. } => Vec::new(),
    }
}

/// Rewrites a function; how many copies it took.
fn rewrite(module: &mut Module, original: &Module, function: &mut Function) -> usize {
    let body = std::mem::take(&mut function.body);
    let mut copies = 0;
    function.body = rewritten(module, original, function, body, &mut copies);
    copies
}

fn rewritten(
    module: &mut Module,
    original: &Module,
    function: &mut Function,
    block: Block,
    copies: &mut usize,
) -> Block {
    let mut out = Block::with_capacity(block.len());
    for (mut statement, span) in block.span_into_iter() {
        for inner in blocks(&mut statement) {
            let taken = std::mem::take(inner);
            *inner = rewritten(module, original, function, taken, copies);
        }
        let mut back = Vec::new();
        if let Statement::Call { function: callee, arguments, .. } = &mut statement {
            for (position, argument) in arguments.iter_mut().enumerate() {
                let Some(part) = part(original, function, *callee, position, *argument) else { continue };
                let copy = variable(module, function, part, span);
                let value = load(function, *argument, span, &mut out);
                out.push(Statement::Store { pointer: copy, value }, span);
                back.push((*argument, copy));
                *argument = copy;
            }
        }
        *copies += back.len();
        out.push(statement, span);
        for (pointer, copy) in back {
            let value = load(function, copy, span, &mut out);
            out.push(Statement::Store { pointer, value }, span);
        }
    }
    out
}

/// What `pointer` points to, read here.
fn load(function: &mut Function, pointer: Handle<Expression>, span: Span, out: &mut Block) -> Handle<Expression> {
    let value = function.expressions.append(Expression::Load { pointer }, span);
    out.push(Statement::Emit(Range::new_from_bounds(value, value)), span);
    value
}

/// A new variable where the function that is called looks for one.
fn variable(module: &mut Module, function: &mut Function, part: Part, span: Span) -> Handle<Expression> {
    let pointer = if part.space == AddressSpace::Private {
        let global = GlobalVariable {
            name: None,
            space: AddressSpace::Private,
            binding: None,
            ty: part.ty,
            init: None,
            memory_decorations: naga::MemoryDecorations::empty(),
        };
        Expression::GlobalVariable(module.global_variables.append(global, span))
    } else {
        let local = LocalVariable { name: None, ty: part.ty, init: None };
        Expression::LocalVariable(function.local_variables.append(local, span))
    };
    function.expressions.append(pointer, span)
}
