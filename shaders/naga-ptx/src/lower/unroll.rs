//! Loops that are written out, so that arrays indexed by their counters can live in registers.
//!
//! The assembler unrolls loops too, but it does not move arrays out of local memory afterwards. So a loop is written out
//! here when its counter indexes a variable of the function, its rounds are known, and the result stays small. The counter
//! is run through the loop's own condition and step by a small evaluator: whatever form they have, the rounds are right.

use std::collections::HashSet;

use naga::{
    BinaryOperator, Block, Expression, Function, Handle, Literal, LocalVariable, Module, Scalar, ScalarKind, Statement,
    TypeInner,
};

/// Rounds of one loop.
const MAX_ROUNDS: usize = 256;
/// Statements that writing out may produce, nested loops included.
const MAX_STATEMENTS: u64 = 8192;

/// A loop whose rounds are known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rounds {
    /// The counter.
    pub(crate) counter: Handle<LocalVariable>,
    /// Its value in each round, as 32 bits.
    pub(crate) values: Vec<u32>,
}

/// The counters of all loops of `function` that will be written out.
pub(crate) fn counters(module: &Module, function: &Function) -> HashSet<Handle<LocalVariable>> {
    let mut found = HashSet::new();
    collect(module, function, &function.body, 0, &mut found);
    found
}

fn collect(
    module: &Module,
    function: &Function,
    block: &Block,
    depth: u32,
    found: &mut HashSet<Handle<LocalVariable>>,
) {
    for (position, statement) in block.iter().enumerate() {
        let inner = depth + u32::from(matches!(statement, Statement::Loop { .. }));
        found.extend(rounds(module, function, block, position, depth).map(|rounds| rounds.counter));
        children(statement, &mut |child| collect(module, function, child, inner, found));
    }
}

/// The rounds of the loop at `position` of `block`, when it is to be written out. `depth` counts the loops around it.
pub(crate) fn rounds(
    module: &Module,
    function: &Function,
    block: &Block,
    position: usize,
    depth: u32,
) -> Option<Rounds> {
    let Some(Statement::Loop { body, continuing, break_if: None }) = block.get(position) else { return None };
    let (counter, step) = step_of(function, continuing)?;
    let scalar = match module.types[function.local_variables[counter].ty].inner {
        TypeInner::Scalar(scalar @ (Scalar::I32 | Scalar::U32)) => scalar,
        _ => return None,
    };
    let start = start_of(function, block, position, counter, depth)?;
    let condition = guard_of(body)?;
    if !indexes_variables(module, function, counter) || stores(function, &function.body, counter)? > 2 {
        return None;
    }
    if stores(function, body, counter)? != 0 || stores(function, continuing, counter)? != 1 {
        return None;
    }
    let evaluator = Evaluator { module, function, counter, scalar };
    let mut values = Vec::new();
    let mut value = evaluator.value(start, 0)? as u32;
    while evaluator.value(condition, value)? != 0 {
        values.push(value);
        value = evaluator.value(step, value)? as u32;
        if values.len() > MAX_ROUNDS {
            return None;
        }
    }
    let weight = values.len() as u64 * (weight(module, function, body, depth + 1) + 1);
    (weight <= MAX_STATEMENTS).then_some(Rounds { counter, values })
}

/// Whether `index` is known when the counters are.
pub(crate) fn is_known(
    function: &Function,
    counters: &HashSet<Handle<LocalVariable>>,
    index: Handle<Expression>,
) -> bool {
    match function.expressions[index] {
        Expression::Literal(_) | Expression::Constant(_) | Expression::ZeroValue(_) => true,
        Expression::Load { pointer } => match function.expressions[pointer] {
            Expression::LocalVariable(local) => counters.contains(&local),
            _ => false,
        },
        Expression::Binary { left, right, .. } => {
            is_known(function, counters, left) && is_known(function, counters, right)
        }
        Expression::As { expr, kind: ScalarKind::Sint | ScalarKind::Uint, convert: Some(4) } => {
            is_known(function, counters, expr)
        }
        _ => false,
    }
}

/// Calls `visit` on each block inside `statement`.
pub(crate) fn children<'s>(statement: &'s Statement, visit: &mut dyn FnMut(&'s Block)) {
    match statement {
        Statement::Block(block) => visit(block),
        Statement::If { accept, reject, .. } => {
            visit(accept);
            visit(reject);
        }
        Statement::Switch { cases, .. } => cases.iter().for_each(|case| visit(&case.body)),
        Statement::Loop { body, continuing, .. } => {
            visit(body);
            visit(continuing);
        }
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
        | Statement::CooperativeStore { .. } => {}
    }
}

/// The condition of `if (condition) {} else { break; }` that opens the body of a `for` or `while` loop.
fn guard_of(body: &Block) -> Option<Handle<Expression>> {
    let mut rest = body.iter();
    loop {
        match rest.next()? {
            Statement::Emit(_) => {}
            Statement::Block(inner) if !inner.is_empty() => return guard_of(inner),
            Statement::If { condition, accept, reject } if accept.is_empty() => {
                return matches!(reject.first(), Some(Statement::Break)).then_some(*condition);
            }
            _ => return None,
        }
    }
}

/// The counter and its next value, where `continuing` sets a single variable.
fn step_of(function: &Function, continuing: &Block) -> Option<(Handle<LocalVariable>, Handle<Expression>)> {
    let mut found = None;
    for statement in continuing {
        match statement {
            Statement::Emit(_) => {}
            Statement::Block(inner) if found.is_none() => found = Some(step_of(function, inner)?),
            Statement::Store { pointer, value } if found.is_none() => match function.expressions[*pointer] {
                Expression::LocalVariable(local) => found = Some((local, *value)),
                _ => return None,
            },
            _ => return None,
        }
    }
    found
}

/// What the counter holds when the loop begins.
fn start_of(
    function: &Function,
    block: &Block,
    position: usize,
    counter: Handle<LocalVariable>,
    depth: u32,
) -> Option<Handle<Expression>> {
    for statement in block[..position].iter().rev() {
        match statement {
            Statement::Emit(_) => {}
            Statement::Store { pointer, value } => match function.expressions[*pointer] {
                Expression::LocalVariable(local) if local == counter => return Some(*value),
                Expression::LocalVariable(_) => {}
                _ => break,
            },
            _ => break,
        }
    }
    // Its initial value, when nothing else was stored: outside of loops, and only this loop's step.
    let only_step = depth == 0 && stores(function, &function.body, counter)? == 1;
    if !only_step {
        return None;
    }
    // Initial values are constants of the module or literals; a variable without one is zero.
    match function.local_variables[counter].init {
        Some(init) => Some(init),
        None => None,
    }
}

/// Stores to `variable` in `block`; `None` when its pointer goes elsewhere.
fn stores(function: &Function, block: &Block, variable: Handle<LocalVariable>) -> Option<u32> {
    let is_variable = |pointer: Handle<Expression>| {
        matches!(function.expressions[pointer], Expression::LocalVariable(local) if local == variable)
    };
    let mut count = 0;
    for statement in block {
        match statement {
            Statement::Store { pointer, .. } if is_variable(*pointer) => count += 1,
            Statement::Call { arguments, .. } if arguments.iter().any(|&a| is_variable(a)) => return None,
            other => {
                let mut inner = Some(0);
                children(other, &mut |child| {
                    inner = inner.and_then(|sum| Some(sum + stores(function, child, variable)?));
                });
                count += inner?;
            }
        }
    }
    Some(count)
}

/// Whether an index into a variable of the function depends on the counter.
fn indexes_variables(module: &Module, function: &Function, counter: Handle<LocalVariable>) -> bool {
    function.expressions.iter().any(|(_, expression)| match *expression {
        Expression::Access { base, index } => {
            let mut root = base;
            while let Expression::Access { base, .. } | Expression::AccessIndex { base, .. } = function.expressions[root]
            {
                root = base;
            }
            let local = match function.expressions[root] {
                Expression::LocalVariable(_) | Expression::FunctionArgument(_) => true,
                Expression::GlobalVariable(global) => {
                    module.global_variables[global].space == naga::AddressSpace::Private
                }
                _ => false,
            };
            local && depends(function, index, counter)
        }
        _ => false,
    })
}

fn depends(function: &Function, expression: Handle<Expression>, counter: Handle<LocalVariable>) -> bool {
    match function.expressions[expression] {
        Expression::Load { pointer } => {
            matches!(function.expressions[pointer], Expression::LocalVariable(local) if local == counter)
        }
        Expression::Binary { left, right, .. } => {
            depends(function, left, counter) || depends(function, right, counter)
        }
        Expression::As { expr, .. } => depends(function, expr, counter),
        _ => false,
    }
}

/// Statements in `block`, loops that are written out counted as often as they run.
fn weight(module: &Module, function: &Function, block: &Block, depth: u32) -> u64 {
    let mut sum = 0_u64;
    for (position, statement) in block.iter().enumerate() {
        let is_loop = matches!(statement, Statement::Loop { .. });
        let times = match rounds(module, function, block, position, depth) {
            Some(rounds) => rounds.values.len() as u64,
            None => 1,
        };
        let mut inner = 1;
        children(statement, &mut |child| inner += weight(module, function, child, depth + u32::from(is_loop)));
        sum = sum.saturating_add(inner.saturating_mul(times));
    }
    sum
}

/// Integer expressions of one counter.
struct Evaluator<'a> {
    module: &'a Module,
    function: &'a Function,
    counter: Handle<LocalVariable>,
    scalar: Scalar,
}

impl Evaluator<'_> {
    /// The value of `expression`, wrapped to the counter's type; comparisons give 0 or 1.
    fn value(&self, expression: Handle<Expression>, counter: u32) -> Option<i64> {
        match self.function.expressions[expression] {
            Expression::Literal(literal) => number(literal),
            Expression::Constant(constant) => {
                match self.module.global_expressions[self.module.constants[constant].init] {
                    Expression::Literal(literal) => number(literal),
                    Expression::ZeroValue(_) => Some(0),
                    _ => None,
                }
            }
            Expression::ZeroValue(_) => Some(0),
            Expression::Load { pointer } => match self.function.expressions[pointer] {
                Expression::LocalVariable(local) if local == self.counter => Some(self.wrap(i64::from(counter))),
                _ => None,
            },
            Expression::As { expr, kind, convert: Some(4) } => match kind {
                ScalarKind::Sint => Some(i64::from(self.value(expr, counter)? as u32 as i32)),
                ScalarKind::Uint => Some(i64::from(self.value(expr, counter)? as u32)),
                _ => None,
            },
            Expression::Binary { op, left, right } => {
                let (a, b) = (self.value(left, counter)?, self.value(right, counter)?);
                Some(match op {
                    BinaryOperator::Add => self.wrap(a + b),
                    BinaryOperator::Subtract => self.wrap(a - b),
                    BinaryOperator::Multiply => self.wrap(a.wrapping_mul(b)),
                    BinaryOperator::Divide if b != 0 => self.wrap(a / b),
                    BinaryOperator::Modulo if b != 0 => self.wrap(a % b),
                    BinaryOperator::ShiftLeft => self.wrap(a << (b & 31)),
                    BinaryOperator::ShiftRight => self.wrap(a >> (b & 31)),
                    BinaryOperator::And => a & b,
                    BinaryOperator::InclusiveOr => a | b,
                    BinaryOperator::ExclusiveOr => a ^ b,
                    BinaryOperator::Equal => i64::from(a == b),
                    BinaryOperator::NotEqual => i64::from(a != b),
                    BinaryOperator::Less => i64::from(a < b),
                    BinaryOperator::LessEqual => i64::from(a <= b),
                    BinaryOperator::Greater => i64::from(a > b),
                    BinaryOperator::GreaterEqual => i64::from(a >= b),
                    BinaryOperator::LogicalAnd => i64::from(a != 0 && b != 0),
                    BinaryOperator::LogicalOr => i64::from(a != 0 || b != 0),
                    BinaryOperator::Divide | BinaryOperator::Modulo => return None,
                })
            }
            _ => None,
        }
    }

    fn wrap(&self, value: i64) -> i64 {
        if self.scalar == Scalar::I32 { i64::from(value as u32 as i32) } else { i64::from(value as u32) }
    }
}

fn number(literal: Literal) -> Option<i64> {
    match literal {
        Literal::I32(value) => Some(i64::from(value)),
        Literal::U32(value) => Some(i64::from(value)),
        Literal::Bool(value) => Some(i64::from(value)),
        Literal::F64(_)
        | Literal::F32(_)
        | Literal::F16(_)
        | Literal::U16(_)
        | Literal::I16(_)
        | Literal::U64(_)
        | Literal::I64(_)
        | Literal::AbstractInt(_)
        | Literal::AbstractFloat(_) => None,
    }
}
