//! Writing a function anew, expression by expression, where a [`Rewrite`] says so and as it was elsewhere.
//!
//! naga wants operands before their users and no literal in a range of emitted expressions, so nothing can be put into a
//! function as it stands. [`rebuild`] copies it instead: each old expression becomes a run of new ones, and each old range
//! of emitted expressions the ranges of these runs. No arm here is a wildcard: an upgrade of naga that brings a new
//! expression or statement does not compile until it is looked at.

use std::ops::Range;

use naga::valid::FunctionInfo;
use naga::{
    Arena, AtomicFunction, Block, Expression, Function, GatherMode, Handle, ImageQuery, Literal, Module,
    RayPipelineFunction, RayQueryFunction, SampleLevel, Span, Statement, SwitchCase, TypeInner,
};
use polywarp_core::Result;

/// What is to be different.
pub(crate) trait Rewrite {
    /// The new expression that stands for `old`; `None` leaves it as it is, but for its operands.
    fn expression(&mut self, into: &mut Rebuilt<'_>, old: Handle<Expression>) -> Result<Option<Handle<Expression>>>;

    /// The new statements that stand for `old`, which holds no block; `None` leaves it as it is, but for its operands.
    fn statement(&mut self, into: &mut Rebuilt<'_>, old: &Statement, span: Span) -> Result<Option<Block>>;
}

/// A function on the way from old to new.
pub(crate) struct Rebuilt<'a> {
    /// Where types and constants are looked up: those that `info` was made for, and more behind them.
    pub(crate) module: &'a Module,
    /// The function as it was.
    pub(crate) old: &'a Function,
    info: &'a FunctionInfo,
    expressions: Arena<Expression>,
    /// The new expression for each old one.
    new: Vec<Handle<Expression>>,
    /// Where the new expressions of each old one lie.
    runs: Vec<Range<usize>>,
    /// The place in the text of whatever is added.
    span: Span,
}

/// `old`, which `info` is about, as `rewrite` wants it.
pub(super) fn rebuild(
    module: &Module,
    old: &Function,
    info: &FunctionInfo,
    rewrite: &mut impl Rewrite,
) -> Result<Function> {
    let count = old.expressions.len();
    let mut into = Rebuilt {
        module,
        old,
        info,
        expressions: Arena::new(),
        new: Vec::with_capacity(count),
        runs: Vec::with_capacity(count),
        span: Span::UNDEFINED,
    };
    for (handle, expression) in old.expressions.iter() {
        let start = into.expressions.len();
        into.span = old.expressions.get_span(handle);
        let new = match rewrite.expression(&mut into, handle)? {
            Some(new) => new,
            None => {
                let mut copy = expression.clone();
                operands(&mut copy, &mut |operand| *operand = into.new[operand.index()]);
                into.add(copy)
            }
        };
        into.new.push(new);
        into.runs.push(start..into.expressions.len());
    }
    let body = into.block(&old.body, rewrite)?;
    let mut function = old.clone();
    for (_, local) in function.local_variables.iter_mut() {
        local.init = local.init.map(|init| into.new[init.index()]);
    }
    function.named_expressions =
        old.named_expressions.iter().map(|(handle, name)| (into.new[handle.index()], name.clone())).collect();
    (function.expressions, function.body) = (into.expressions, body);
    Ok(function)
}

impl Rebuilt<'_> {
    /// What stands for an old expression.
    pub(crate) fn new_of(&self, old: Handle<Expression>) -> Handle<Expression> {
        self.new[old.index()]
    }

    /// The type of an old expression.
    pub(crate) fn type_of(&self, old: Handle<Expression>) -> &TypeInner {
        self.info[old].ty.inner_with(&self.module.types)
    }

    /// The place in the text of what is being written.
    pub(crate) fn span(&self) -> Span {
        self.span
    }

    /// Adds an expression whose operands are new ones.
    pub(crate) fn add(&mut self, expression: Expression) -> Handle<Expression> {
        self.expressions.append(expression, self.span)
    }

    /// Adds a literal.
    pub(crate) fn literal(&mut self, literal: Literal) -> Handle<Expression> {
        self.add(Expression::Literal(literal))
    }

    /// How many expressions there are, to [`Rebuilt::emit`] those that follow.
    pub(crate) fn mark(&self) -> usize {
        self.expressions.len()
    }

    /// Statements that evaluate what was added since `start`.
    pub(crate) fn emit(&self, start: usize, block: &mut Block, span: Span) {
        self.emit_range(start..self.expressions.len(), block, span);
    }

    fn emit_range(&self, range: Range<usize>, block: &mut Block, span: Span) {
        let mut run: Option<(Handle<Expression>, Handle<Expression>)> = None;
        let mut push = |run: Option<(Handle<Expression>, Handle<Expression>)>| {
            if let Some((first, last)) = run {
                block.push(Statement::Emit(naga::Range::new_from_bounds(first, last)), span);
            }
        };
        for (handle, expression) in self.expressions.iter().skip(range.start).take(range.len()) {
            if expression.needs_pre_emit() {
                push(run.take());
            } else {
                run = Some((run.map_or(handle, |(first, _)| first), handle));
            }
        }
        push(run);
    }

    fn block(&mut self, old: &Block, rewrite: &mut impl Rewrite) -> Result<Block> {
        let mut new = Block::with_capacity(old.len());
        for (statement, &span) in old.span_iter() {
            self.span = span;
            let copy = match statement {
                Statement::Emit(range) => {
                    let range = range.index_range();
                    if !range.is_empty() {
                        let (first, last) = (&self.runs[range.start as usize], &self.runs[range.end as usize - 1]);
                        self.emit_range(first.start..last.end, &mut new, span);
                    }
                    continue;
                }
                Statement::Block(block) => Statement::Block(self.block(block, rewrite)?),
                Statement::If { condition, accept, reject } => Statement::If {
                    condition: self.new_of(*condition),
                    accept: self.block(accept, rewrite)?,
                    reject: self.block(reject, rewrite)?,
                },
                Statement::Switch { selector, cases } => {
                    let case = |case: &SwitchCase| {
                        let body = self.block(&case.body, rewrite)?;
                        Ok(SwitchCase { value: case.value, body, fall_through: case.fall_through })
                    };
                    let cases = cases.iter().map(case).collect::<Result<Vec<_>>>()?;
                    Statement::Switch { selector: self.new_of(*selector), cases }
                }
                Statement::Loop { body, continuing, break_if } => Statement::Loop {
                    body: self.block(body, rewrite)?,
                    continuing: self.block(continuing, rewrite)?,
                    break_if: break_if.map(|condition| self.new_of(condition)),
                },
                leaf => {
                    if let Some(block) = rewrite.statement(self, leaf, span)? {
                        new.extend_block(block);
                        continue;
                    }
                    let mut copy = leaf.clone();
                    statement_operands(&mut copy, &mut |operand| *operand = self.new[operand.index()]);
                    copy
                }
            };
            new.push(copy, span);
        }
        Ok(new)
    }
}

/// Hands each operand of `expression` to `visit`.
fn operands(expression: &mut Expression, visit: &mut impl FnMut(&mut Handle<Expression>)) {
    use Expression as E;
    match expression {
        E::Literal(_) | E::Constant(_) | E::Override(_) | E::ZeroValue(_) => {}
        E::FunctionArgument(_) | E::GlobalVariable(_) | E::LocalVariable(_) => {}
        E::CallResult(_) | E::AtomicResult { .. } | E::WorkGroupUniformLoadResult { .. } => {}
        E::RayQueryProceedResult | E::SubgroupBallotResult | E::SubgroupOperationResult { .. } => {}
        E::Compose { components, .. } => components.iter_mut().for_each(visit),
        E::Access { base, index } => [base, index].into_iter().for_each(visit),
        E::AccessIndex { base, .. } => visit(base),
        E::Splat { value, .. } => visit(value),
        E::Swizzle { vector, .. } => visit(vector),
        E::Load { pointer } => visit(pointer),
        E::ImageSample { image, sampler, coordinate, array_index, offset, level, depth_ref, .. } => {
            [image, sampler, coordinate].into_iter().for_each(&mut *visit);
            [array_index, offset, depth_ref].into_iter().flatten().for_each(&mut *visit);
            match level {
                SampleLevel::Auto | SampleLevel::Zero => {}
                SampleLevel::Exact(level) | SampleLevel::Bias(level) => visit(level),
                SampleLevel::Gradient { x, y } => [x, y].into_iter().for_each(visit),
            }
        }
        E::ImageLoad { image, coordinate, array_index, sample, level } => {
            [image, coordinate].into_iter().for_each(&mut *visit);
            [array_index, sample, level].into_iter().flatten().for_each(visit);
        }
        E::ImageQuery { image, query } => {
            visit(image);
            match query {
                ImageQuery::Size { level } => level.iter_mut().for_each(visit),
                ImageQuery::NumLevels | ImageQuery::NumLayers | ImageQuery::NumSamples => {}
            }
        }
        E::Unary { expr, .. } | E::Derivative { expr, .. } | E::As { expr, .. } | E::ArrayLength(expr) => visit(expr),
        E::Binary { left, right, .. } => [left, right].into_iter().for_each(visit),
        E::Select { condition, accept, reject } => [condition, accept, reject].into_iter().for_each(visit),
        E::Relational { argument, .. } => visit(argument),
        E::Math { arg, arg1, arg2, arg3, .. } => {
            visit(arg);
            [arg1, arg2, arg3].into_iter().flatten().for_each(visit);
        }
        E::RayQueryVertexPositions { query, .. } | E::RayQueryGetIntersection { query, .. } => visit(query),
        E::CooperativeLoad { data, .. } => [&mut data.pointer, &mut data.stride].into_iter().for_each(visit),
        E::CooperativeMultiplyAdd { a, b, c } => [a, b, c].into_iter().for_each(visit),
    }
}

/// Hands each expression that `statement` itself names, not a block in it, to `visit`.
fn statement_operands(statement: &mut Statement, visit: &mut impl FnMut(&mut Handle<Expression>)) {
    use Statement as S;
    match statement {
        S::Emit(_) | S::Block(_) | S::If { .. } | S::Switch { .. } | S::Loop { .. } => {}
        S::Break | S::Continue | S::Kill | S::ControlBarrier(_) | S::MemoryBarrier(_) => {}
        S::Return { value } => value.iter_mut().for_each(visit),
        S::Store { pointer, value } => [pointer, value].into_iter().for_each(visit),
        S::ImageStore { image, coordinate, array_index, value } => {
            [image, coordinate, value].into_iter().chain(array_index).for_each(visit);
        }
        S::Atomic { pointer, fun, value, result } => {
            [pointer, value].into_iter().chain(result).chain(compared(fun)).for_each(visit);
        }
        S::ImageAtomic { image, coordinate, array_index, fun, value } => {
            [image, coordinate, value].into_iter().chain(array_index).chain(compared(fun)).for_each(visit);
        }
        S::WorkGroupUniformLoad { pointer, result } => [pointer, result].into_iter().for_each(visit),
        S::Call { arguments, result, .. } => arguments.iter_mut().chain(result).for_each(visit),
        S::RayQuery { query, fun } => {
            visit(query);
            match fun {
                RayQueryFunction::Initialize { acceleration_structure, descriptor } => {
                    [acceleration_structure, descriptor].into_iter().for_each(visit);
                }
                RayQueryFunction::Proceed { result } => visit(result),
                RayQueryFunction::GenerateIntersection { hit_t } => visit(hit_t),
                RayQueryFunction::ConfirmIntersection | RayQueryFunction::Terminate => {}
            }
        }
        S::RayPipelineFunction(RayPipelineFunction::TraceRay { acceleration_structure, descriptor, payload }) => {
            [acceleration_structure, descriptor, payload].into_iter().for_each(visit);
        }
        S::SubgroupBallot { result, predicate } => std::iter::once(result).chain(predicate).for_each(visit),
        S::SubgroupGather { mode, argument, result } => {
            [argument, result].into_iter().for_each(&mut *visit);
            match mode {
                GatherMode::BroadcastFirst | GatherMode::QuadSwap(_) => {}
                GatherMode::Broadcast(index)
                | GatherMode::Shuffle(index)
                | GatherMode::ShuffleDown(index)
                | GatherMode::ShuffleUp(index)
                | GatherMode::ShuffleXor(index)
                | GatherMode::QuadBroadcast(index) => visit(index),
            }
        }
        S::SubgroupCollectiveOperation { argument, result, .. } => [argument, result].into_iter().for_each(visit),
        S::CooperativeStore { target, data } => {
            [target, &mut data.pointer, &mut data.stride].into_iter().for_each(visit);
        }
    }
}

/// What an atomic exchange compares with.
fn compared(fun: &mut AtomicFunction) -> Option<&mut Handle<Expression>> {
    match fun {
        AtomicFunction::Exchange { compare } => compare.as_mut(),
        AtomicFunction::Add | AtomicFunction::Subtract | AtomicFunction::And => None,
        AtomicFunction::ExclusiveOr | AtomicFunction::InclusiveOr => None,
        AtomicFunction::Min | AtomicFunction::Max => None,
    }
}
