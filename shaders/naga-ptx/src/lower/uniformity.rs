//! Which values are the same in all invocations of a workgroup, and where control flow is.
//!
//! Subgroup operations are cheaper where a whole warp arrives together. naga's own analysis takes every local variable
//! for non-uniform, and with it every loop; here a variable is uniform when all that is stored to it is, in uniform
//! control flow. What is not certain counts as non-uniform, which costs speed only.

use std::collections::HashSet;

use naga::valid::FunctionInfo;
use naga::{Binding, Block, BuiltIn, Expression, Function, Handle, LocalVariable, Module, Statement, TypeInner};

use super::recognise::{self, Pointer};
use super::unroll::children;

/// What is uniform in one function, as called from one place.
#[derive(Debug)]
pub(crate) struct Uniformity<'m> {
    module: &'m Module,
    function: &'m Function,
    info: &'m FunctionInfo,
    /// Arguments that are uniform where it is called; for an entry point, its builtins decide.
    arguments: Vec<bool>,
    varying: HashSet<Handle<LocalVariable>>,
    /// Of each expression, given `varying`.
    uniform: Vec<bool>,
}

impl<'m> Uniformity<'m> {
    /// `control_flow`: the call itself is in uniform control flow.
    pub(crate) fn new(
        module: &'m Module,
        function: &'m Function,
        info: &'m FunctionInfo,
        arguments: Vec<bool>,
        control_flow: bool,
    ) -> Uniformity<'m> {
        let varying = HashSet::new();
        let mut uniformity = Uniformity { module, function, info, arguments, varying, uniform: Vec::new() };
        loop {
            uniformity.uniform.clear();
            for (handle, _) in function.expressions.iter() {
                let uniform = uniformity.compute(handle);
                uniformity.uniform.push(uniform);
            }
            let before = uniformity.varying.len();
            uniformity.walk(&function.body, control_flow);
            if uniformity.varying.len() == before {
                return uniformity;
            }
        }
    }

    /// Whether all invocations of the workgroup compute the same value.
    pub(crate) fn is_uniform(&self, expression: Handle<Expression>) -> bool {
        self.uniform.get(expression.index()).copied().unwrap_or(false)
    }

    /// The same, from the operands, which come before it in the arena.
    fn compute(&self, expression: Handle<Expression>) -> bool {
        let all = |handles: &[Handle<Expression>]| handles.iter().all(|&h| self.is_uniform(h));
        match self.function.expressions[expression] {
            Expression::Literal(_)
            | Expression::Constant(_)
            | Expression::Override(_)
            | Expression::ZeroValue(_)
            | Expression::ArrayLength(_) => true,
            Expression::Compose { ref components, .. } => all(components),
            Expression::Access { base, index } => all(&[base, index]),
            Expression::AccessIndex { base, index } => self.builtin(base, index).unwrap_or_else(|| all(&[base])),
            Expression::Splat { value, .. } => all(&[value]),
            Expression::Swizzle { vector, .. } => all(&[vector]),
            Expression::FunctionArgument(index) => match self.arguments.get(index as usize) {
                Some(&uniform) => uniform,
                None => false,
            },
            Expression::GlobalVariable(_) => self.info[expression].uniformity.non_uniform_result.is_none(),
            Expression::LocalVariable(local) => !self.varying.contains(&local),
            Expression::Load { pointer } => all(&[pointer]),
            Expression::Unary { expr, .. } | Expression::As { expr, .. } => all(&[expr]),
            Expression::Binary { left, right, .. } => all(&[left, right]),
            Expression::Select { condition, accept, reject } => all(&[condition, accept, reject]),
            Expression::Relational { argument, .. } => all(&[argument]),
            Expression::Math { arg, arg1, arg2, arg3, .. } => {
                [Some(arg), arg1, arg2, arg3].into_iter().flatten().all(|h| self.is_uniform(h))
            }
            Expression::WorkGroupUniformLoadResult { .. } => true,
            Expression::ImageSample { .. }
            | Expression::ImageLoad { .. }
            | Expression::ImageQuery { .. }
            | Expression::Derivative { .. }
            | Expression::CallResult(_)
            | Expression::AtomicResult { .. }
            | Expression::RayQueryVertexPositions { .. }
            | Expression::RayQueryProceedResult
            | Expression::RayQueryGetIntersection { .. }
            | Expression::SubgroupBallotResult
            | Expression::SubgroupOperationResult { .. }
            | Expression::CooperativeLoad { .. }
            | Expression::CooperativeMultiplyAdd { .. } => false,
        }
    }

    /// A member of an entry point's argument struct of builtins: what other functions are given may be any such struct.
    fn builtin(&self, base: Handle<Expression>, member: u32) -> Option<bool> {
        if !self.module.entry_points.iter().any(|entry| std::ptr::eq(&entry.function, self.function)) {
            return None;
        }
        let Expression::FunctionArgument(index) = self.function.expressions[base] else { return None };
        let argument = self.function.arguments.get(index as usize)?;
        let TypeInner::Struct { members, .. } = &self.module.types[argument.ty].inner else { return None };
        Some(members.get(member as usize)?.binding.as_ref().is_some_and(uniform_binding))
    }

    /// The ways in which some invocations may leave `block` while others stay. `uniform`: all come to the block together.
    pub(crate) fn left(&self, block: &Block, mut uniform: bool) -> Left {
        let mut left = Left::default();
        for statement in block {
            left = left.or(self.statement_left(statement, uniform));
            // Whoever is here after some left is not everybody.
            uniform &= !left.anyhow();
        }
        left
    }

    fn statement_left(&self, statement: &Statement, uniform: bool) -> Left {
        match statement {
            Statement::Break => Left { by_break: !uniform, ..Left::default() },
            Statement::Continue => Left { by_continue: !uniform, ..Left::default() },
            Statement::Return { .. } | Statement::Kill => Left { by_return: !uniform, ..Left::default() },
            Statement::If { condition, accept, reject } => {
                let uniform = uniform && self.is_uniform(*condition);
                self.left(accept, uniform).or(self.left(reject, uniform))
            }
            Statement::Switch { selector, cases } => {
                let uniform = uniform && self.is_uniform(*selector);
                let left = cases.iter().fold(Left::default(), |left, case| left.or(self.left(&case.body, uniform)));
                // A break ends the switch, where all meet again.
                Left { by_break: false, ..left }
            }
            Statement::Loop { body, continuing, break_if } => {
                // The body is looked at twice at most, whatever is nested in it: nobody leaves uniform rounds.
                let uniform = uniform && self.rounds_uniform(body, *break_if);
                let by_return = !uniform && self.left(body, false).by_return;
                Left { by_return: by_return || self.left(continuing, uniform).by_return, ..Left::default() }
            }
            Statement::Block(inner) => self.left(inner, uniform),
            Statement::Emit(_)
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
            | Statement::CooperativeStore { .. } => Left::default(),
        }
    }

    /// Whether invocations that come to a loop together come to each of its rounds together.
    pub(crate) fn rounds_uniform(&self, body: &Block, break_if: Option<Handle<Expression>>) -> bool {
        !self.left(body, true).anyhow() && break_if.is_none_or(|condition| self.is_uniform(condition))
    }

    /// One pass over the stores.
    fn walk(&mut self, block: &Block, mut uniform: bool) {
        for statement in block {
            match statement {
                Statement::Store { pointer, value } => {
                    if !uniform || !self.is_uniform(*value) || !self.indices_uniform(*pointer) {
                        self.vary(*pointer);
                    }
                }
                Statement::Call { arguments, .. } => arguments.iter().for_each(|&a| self.vary(a)),
                Statement::Atomic { pointer, .. } => self.vary(*pointer),
                Statement::CooperativeStore { data, .. } => self.vary(data.pointer),
                Statement::If { condition, accept, reject } => {
                    let inner = uniform && self.is_uniform(*condition);
                    self.walk(accept, inner);
                    self.walk(reject, inner);
                }
                Statement::Switch { selector, cases } => {
                    let inner = uniform && self.is_uniform(*selector);
                    cases.iter().for_each(|case| self.walk(&case.body, inner));
                }
                Statement::Loop { body, continuing, break_if } => {
                    let inner = uniform && self.rounds_uniform(body, *break_if);
                    self.walk(body, inner);
                    self.walk(continuing, inner);
                }
                other => children(other, &mut |child| self.walk(child, uniform)),
            }
            // Whoever is left after a divergent return is not everybody.
            uniform = uniform && !self.statement_left(statement, uniform).anyhow();
        }
    }

    /// The variable behind `pointer` holds different values.
    fn vary(&mut self, pointer: Handle<Expression>) {
        match recognise::pointer(self.function, pointer) {
            Pointer::Local(local) => {
                self.varying.insert(local);
            }
            Pointer::Element { base, .. } | Pointer::Member { base, .. } => self.vary(base),
            // What others can write is never taken for uniform: `is_uniform` asks naga.
            Pointer::Argument(_) | Pointer::Global(_) | Pointer::Other => {}
        }
    }

    fn indices_uniform(&self, pointer: Handle<Expression>) -> bool {
        match recognise::pointer(self.function, pointer) {
            Pointer::Element { base, index } => self.is_uniform(index) && self.indices_uniform(base),
            Pointer::Member { base, .. } => self.indices_uniform(base),
            Pointer::Local(_) | Pointer::Argument(_) | Pointer::Global(_) | Pointer::Other => true,
        }
    }
}

/// How some invocations, not all, leave a block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Left {
    /// Ends the innermost loop or switch around the block.
    pub(crate) by_break: bool,
    pub(crate) by_continue: bool,
    pub(crate) by_return: bool,
}

impl Left {
    pub(crate) fn or(self, other: Left) -> Left {
        Left {
            by_break: self.by_break || other.by_break,
            by_continue: self.by_continue || other.by_continue,
            by_return: self.by_return || other.by_return,
        }
    }

    pub(crate) fn anyhow(self) -> bool {
        self.by_break || self.by_continue || self.by_return
    }
}

/// Whether an argument of an entry point is the same for the whole workgroup.
pub(crate) fn uniform_binding(binding: &Binding) -> bool {
    matches!(
        binding,
        Binding::BuiltIn(
            BuiltIn::WorkGroupId
                | BuiltIn::WorkGroupSize
                | BuiltIn::NumWorkGroups
                | BuiltIn::NumSubgroups
                | BuiltIn::SubgroupSize
        )
    )
}
