//! What the passes before lowering look for in naga's IR, in the few kinds that they tell apart.
//!
//! They are optimisations and proofs: what they do not recognise is left as it is, or taken to vary. Every variant of naga's
//! stands in one list here, so that a new one stops the build until somebody has said what it is to them.

use naga::{
    BinaryOperator, Block, Constant, Expression, Function, GlobalVariable, Handle, Literal, LocalVariable, ScalarKind,
    Statement,
};

/// A pointer's expression.
pub(super) enum Pointer {
    Local(Handle<LocalVariable>),
    Argument(u32),
    Global(Handle<GlobalVariable>),
    /// Into what `base` points to, at an index that is computed.
    Element {
        base: Handle<Expression>,
        index: Handle<Expression>,
    },
    /// Into what `base` points to, at an index of the text.
    Member {
        base: Handle<Expression>,
        index: u32,
    },
    /// No pointer to a variable.
    Other,
}

pub(super) fn pointer(function: &Function, expression: Handle<Expression>) -> Pointer {
    match function.expressions[expression] {
        Expression::LocalVariable(local) => Pointer::Local(local),
        Expression::FunctionArgument(index) => Pointer::Argument(index),
        Expression::GlobalVariable(global) => Pointer::Global(global),
        Expression::Access { base, index } => Pointer::Element { base, index },
        Expression::AccessIndex { base, index } => Pointer::Member { base, index },
        Expression::Literal(_)
        | Expression::Constant(_)
        | Expression::Override(_)
        | Expression::ZeroValue(_)
        | Expression::Compose { .. }
        | Expression::Splat { .. }
        | Expression::Swizzle { .. }
        | Expression::Load { .. }
        | Expression::ImageSample { .. }
        | Expression::ImageLoad { .. }
        | Expression::ImageQuery { .. }
        | Expression::Unary { .. }
        | Expression::Binary { .. }
        | Expression::Select { .. }
        | Expression::Derivative { .. }
        | Expression::Relational { .. }
        | Expression::Math { .. }
        | Expression::As { .. }
        | Expression::CallResult(_)
        | Expression::AtomicResult { .. }
        | Expression::WorkGroupUniformLoadResult { .. }
        | Expression::ArrayLength(_)
        | Expression::RayQueryVertexPositions { .. }
        | Expression::RayQueryProceedResult
        | Expression::RayQueryGetIntersection { .. }
        | Expression::SubgroupBallotResult
        | Expression::SubgroupOperationResult { .. }
        | Expression::CooperativeLoad { .. }
        | Expression::CooperativeMultiplyAdd { .. } => Pointer::Other,
    }
}

/// The variable of the function that `expression` is a pointer to, whole.
pub(super) fn local(function: &Function, expression: Handle<Expression>) -> Option<Handle<LocalVariable>> {
    if let Pointer::Local(local) = pointer(function, expression) { Some(local) } else { None }
}

/// An expression of a counter.
pub(super) enum Counting {
    Literal(Literal),
    Constant(Handle<Constant>),
    Zero,
    Load(Handle<Expression>),
    Cast {
        of: Handle<Expression>,
        kind: ScalarKind,
        convert: Option<u8>,
    },
    Binary {
        op: BinaryOperator,
        left: Handle<Expression>,
        right: Handle<Expression>,
    },
    /// Nothing that is computed here.
    Other,
}

pub(super) fn counting(expression: &Expression) -> Counting {
    match *expression {
        Expression::Literal(literal) => Counting::Literal(literal),
        Expression::Constant(constant) => Counting::Constant(constant),
        Expression::ZeroValue(_) => Counting::Zero,
        Expression::Load { pointer } => Counting::Load(pointer),
        Expression::As { expr, kind, convert } => Counting::Cast { of: expr, kind, convert },
        Expression::Binary { op, left, right } => Counting::Binary { op, left, right },
        Expression::Override(_)
        | Expression::Compose { .. }
        | Expression::Access { .. }
        | Expression::AccessIndex { .. }
        | Expression::Splat { .. }
        | Expression::Swizzle { .. }
        | Expression::FunctionArgument(_)
        | Expression::GlobalVariable(_)
        | Expression::LocalVariable(_)
        | Expression::ImageSample { .. }
        | Expression::ImageLoad { .. }
        | Expression::ImageQuery { .. }
        | Expression::Unary { .. }
        | Expression::Select { .. }
        | Expression::Derivative { .. }
        | Expression::Relational { .. }
        | Expression::Math { .. }
        | Expression::CallResult(_)
        | Expression::AtomicResult { .. }
        | Expression::WorkGroupUniformLoadResult { .. }
        | Expression::ArrayLength(_)
        | Expression::RayQueryVertexPositions { .. }
        | Expression::RayQueryProceedResult
        | Expression::RayQueryGetIntersection { .. }
        | Expression::SubgroupBallotResult
        | Expression::SubgroupOperationResult { .. }
        | Expression::CooperativeLoad { .. }
        | Expression::CooperativeMultiplyAdd { .. } => Counting::Other,
    }
}

/// A statement as loops are looked at.
pub(super) enum Step<'s> {
    Emit,
    Block(&'s Block),
    Store {
        pointer: Handle<Expression>,
        value: Handle<Expression>,
    },
    If {
        condition: Handle<Expression>,
        accept: &'s Block,
        reject: &'s Block,
    },
    /// Anything may happen in it.
    Other,
}

pub(super) fn step(statement: &Statement) -> Step<'_> {
    match statement {
        Statement::Emit(_) => Step::Emit,
        Statement::Block(block) => Step::Block(block),
        Statement::Store { pointer, value } => Step::Store { pointer: *pointer, value: *value },
        Statement::If { condition, accept, reject } => Step::If { condition: *condition, accept, reject },
        Statement::Switch { .. }
        | Statement::Loop { .. }
        | Statement::Break
        | Statement::Continue
        | Statement::Return { .. }
        | Statement::Kill
        | Statement::ControlBarrier(_)
        | Statement::MemoryBarrier(_)
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
        | Statement::CooperativeStore { .. } => Step::Other,
    }
}
