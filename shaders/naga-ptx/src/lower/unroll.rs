//! Loops that are written out, so that arrays indexed by their counters can live in registers.
//!
//! The assembler unrolls some loops too, but it does not move arrays out of local memory afterwards, nor join accesses
//! to neighbours. So a loop is written out here when its rounds are known and the result stays small; larger when its
//! counter indexes a variable of the function. The counter is run through the loop's own condition and step by a small
//! evaluator: whatever form they have, the rounds are right.

use std::collections::{HashMap, HashSet};

use naga::{
    AddressSpace, BinaryOperator, Block, Expression, Function, Handle, Literal, LocalVariable, Module, Scalar,
    ScalarKind, Statement, TypeInner,
};

use super::recognise::{Counting, Pointer, Step, counting, local, pointer, step};

/// Rounds of one loop.
const MAX_ROUNDS: usize = 128;
/// Expressions and statements that writing out one loop may produce, nested loops included, where arrays in registers
/// depend on it.
const MAX_WEIGHT_FOR_ARRAYS: u64 = 1 << 15;
/// The same of other loops, which save their counting and let accesses to neighbours join.
const MAX_WEIGHT: u64 = 1 << 12;
/// The same of any loop, with the functions called in it, which are compiled into it as often: text that the assembler
/// takes in seconds.
const MAX_WEIGHT_WITH_CALLS: u64 = 1 << 16;
/// Steps the evaluator takes for one expression before it gives up.
const MAX_STEPS: u32 = 256;

/// The loops of a function that are written out: the values each counter takes, as 32 bits.
#[derive(Debug, Default)]
pub(crate) struct Unrolling {
    rounds: HashMap<Handle<LocalVariable>, Vec<u32>>,
    /// Expressions that are known when the counters are.
    known: Vec<bool>,
    /// Expressions and statements of the function as it will be written, with those of the functions it calls.
    weight: u64,
}

/// The weights of functions, with those they call.
pub(crate) type Weights = HashMap<Handle<Function>, u64>;

impl Unrolling {
    /// `called` has the weights of the functions that it calls.
    pub(crate) fn new(module: &Module, function: &Function, called: &Weights) -> Unrolling {
        let mut stores = HashMap::new();
        count_stores(function, &function.body, &mut stores);
        let candidates = index_variables(module, function);
        let mut planner = Planner { module, function, called, stores, candidates, rounds: HashMap::new() };
        let weight = planner.weight(&function.body, 0).with_calls;
        let rounds = planner.rounds;
        let mut known = Vec::with_capacity(function.expressions.len());
        for (_, expression) in function.expressions.iter() {
            known.push(match counting(expression) {
                Counting::Literal(_) | Counting::Constant(_) | Counting::Zero => true,
                Counting::Load(pointer) => local(function, pointer).is_some_and(|local| rounds.contains_key(&local)),
                Counting::Binary { left, right, .. } => known[left.index()] && known[right.index()],
                Counting::Cast { of, kind, convert } => {
                    matches!((kind, convert), (ScalarKind::Sint | ScalarKind::Uint, Some(4))) && known[of.index()]
                }
                Counting::Other => false,
            });
        }
        Unrolling { rounds, known, weight }
    }

    /// What the function weighs with those that it calls.
    pub(crate) fn weight(&self) -> u64 {
        self.weight
    }

    /// Whether `index` is a number at compile time.
    pub(crate) fn is_known(&self, index: Handle<Expression>) -> bool {
        self.known.get(index.index()).copied().unwrap_or(false)
    }

    /// Counter and values of the loop with this `continuing` block, when it is written out.
    pub(crate) fn rounds(&self, function: &Function, continuing: &Block) -> Option<(Handle<LocalVariable>, &[u32])> {
        let (counter, _) = step_of(function, continuing)?;
        Some((counter, self.rounds.get(&counter)?))
    }
}

/// Expressions and statements, loops that are written out counted as often as they run.
#[derive(Clone, Copy, Default)]
struct Weight {
    /// A call counted as one.
    own: u64,
    /// A call counted as what it calls.
    with_calls: u64,
}

impl Weight {
    fn add(self, other: Weight) -> Weight {
        let sum = |a: u64, b: u64| a.saturating_add(b);
        Weight { own: sum(self.own, other.own), with_calls: sum(self.with_calls, other.with_calls) }
    }

    fn times(self, rounds: usize) -> Weight {
        let product = |a: u64| a.saturating_mul(rounds as u64);
        Weight { own: product(self.own), with_calls: product(self.with_calls) }
    }
}

struct Planner<'a> {
    module: &'a Module,
    function: &'a Function,
    called: &'a Weights,
    /// Stores to each variable; `None` when its pointer goes elsewhere.
    stores: HashMap<Handle<LocalVariable>, Option<u32>>,
    /// Variables that indices into variables of the function depend on.
    candidates: HashSet<Handle<LocalVariable>>,
    rounds: HashMap<Handle<LocalVariable>, Vec<u32>>,
}

impl Planner<'_> {
    /// The weight of `block`; notes the loops in it that are written out.
    fn weight(&mut self, block: &Block, depth: u32) -> Weight {
        let mut sum = Weight::default();
        for (position, statement) in block.iter().enumerate() {
            let inner_depth = depth + u32::from(matches!(statement, Statement::Loop { .. }));
            let own = if let Statement::Emit(range) = statement { range.clone().count() as u64 } else { 1 };
            let called =
                if let Statement::Call { function, .. } = statement { self.called.get(function) } else { None };
            let callee = called.copied().unwrap_or_default();
            let mut inner = Weight { own, with_calls: own.saturating_add(callee) };
            children(statement, &mut |child| inner = inner.add(self.weight(child, inner_depth)));
            if let Some((counter, values)) = self.candidate(block, position, depth) {
                let written = inner.times(values.len());
                let most = if self.candidates.contains(&counter) { MAX_WEIGHT_FOR_ARRAYS } else { MAX_WEIGHT };
                if written.own <= most && written.with_calls <= MAX_WEIGHT_WITH_CALLS {
                    self.rounds.insert(counter, values);
                    inner = written;
                }
            }
            sum = sum.add(inner);
        }
        sum
    }

    /// Counter and values of the loop at `position`, when they are known.
    fn candidate(&self, block: &Block, position: usize, depth: u32) -> Option<(Handle<LocalVariable>, Vec<u32>)> {
        let Some(Statement::Loop { body, continuing, break_if: None }) = block.get(position) else { return None };
        let (counter, step) = step_of(self.function, continuing)?;
        let counted = &self.module.types[self.function.local_variables[counter].ty].inner;
        let &TypeInner::Scalar(scalar @ (Scalar::I32 | Scalar::U32)) = counted else { return None };
        // The step is one store; the start may be another; a third would be somewhere inside.
        let stored = self.stores.get(&counter).copied().flatten()?;
        let start = match start_of(self.function, &block[..position], counter) {
            Some(start) if stored == 2 => start,
            // Outside of loops the initial value is still there.
            None if stored == 1 && depth == 0 => self.function.local_variables[counter].init?,
            Some(_) | None => return None,
        };
        let condition = guard_of(body)?;
        let mut inside = HashSet::new();
        [body, continuing].into_iter().for_each(|block| emitted(block, &mut inside));
        let evaluate = |expression, value| {
            let (module, function) = (self.module, self.function);
            Evaluator { module, function, counter, value, inside: &inside, scalar, steps: 0 }.value(expression)
        };
        // The counter has no known value before it has its first.
        let mut value = evaluate(start, None)?;
        let mut values = Vec::new();
        while evaluate(condition, Some(value))? == Number::Bool(true) {
            if values.len() == MAX_ROUNDS {
                return None;
            }
            values.push(value.bits(scalar)?);
            value = evaluate(step, Some(value))?;
        }
        Some((counter, values))
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
        match step(rest.next()?) {
            Step::Emit => {}
            Step::Block(inner) if !inner.is_empty() => return guard_of(inner),
            Step::If { condition, accept, reject } if accept.is_empty() => {
                return matches!(reject.first(), Some(Statement::Break)).then_some(condition);
            }
            Step::Block(_) | Step::If { .. } | Step::Store { .. } | Step::Other => return None,
        }
    }
}

/// The counter and its next value, where `continuing` sets a single variable.
fn step_of(function: &Function, continuing: &Block) -> Option<(Handle<LocalVariable>, Handle<Expression>)> {
    let mut found = None;
    for statement in continuing {
        match step(statement) {
            Step::Emit => {}
            Step::Block(inner) if found.is_none() => found = Some(step_of(function, inner)?),
            Step::Store { pointer, value } if found.is_none() => found = Some((local(function, pointer)?, value)),
            Step::Block(_) | Step::Store { .. } | Step::If { .. } | Step::Other => return None,
        }
    }
    found
}

/// What was stored to the counter right before the loop.
fn start_of(function: &Function, before: &[Statement], counter: Handle<LocalVariable>) -> Option<Handle<Expression>> {
    for statement in before.iter().rev() {
        match step(statement) {
            Step::Emit => {}
            Step::Store { pointer, value } => {
                if local(function, pointer)? == counter {
                    return Some(value);
                }
            }
            Step::Block(_) | Step::If { .. } | Step::Other => return None,
        }
    }
    None
}

fn count_stores(function: &Function, block: &Block, stores: &mut HashMap<Handle<LocalVariable>, Option<u32>>) {
    for statement in block {
        match statement {
            Statement::Store { pointer, .. } => {
                if let Expression::LocalVariable(local) = function.expressions[*pointer]
                    && let Some(count) = stores.entry(local).or_insert(Some(0))
                {
                    *count += 1;
                }
            }
            Statement::Call { arguments, .. } => {
                for &argument in arguments {
                    if let Expression::LocalVariable(local) = function.expressions[argument] {
                        stores.insert(local, None);
                    }
                }
            }
            other => children(other, &mut |child| count_stores(function, child, stores)),
        }
    }
}

/// The variables that indices into variables of the function depend on.
fn index_variables(module: &Module, function: &Function) -> HashSet<Handle<LocalVariable>> {
    let mut open: Vec<Handle<Expression>> = Vec::new();
    for (_, expression) in function.expressions.iter() {
        let Expression::Access { base, index } = *expression else { continue };
        let mut root = base;
        while let Expression::Access { base, .. } | Expression::AccessIndex { base, .. } = function.expressions[root] {
            root = base;
        }
        let local = match pointer(function, root) {
            Pointer::Local(_) | Pointer::Argument(_) => true,
            Pointer::Global(global) => module.global_variables[global].space == AddressSpace::Private,
            Pointer::Element { .. } | Pointer::Member { .. } | Pointer::Other => false,
        };
        if local {
            open.push(index);
        }
    }
    let mut seen = HashSet::new();
    let mut found = HashSet::new();
    while let Some(handle) = open.pop() {
        if !seen.insert(handle) {
            continue;
        }
        match counting(&function.expressions[handle]) {
            Counting::Load(pointer) => found.extend(local(function, pointer)),
            Counting::Binary { left, right, .. } => open.extend([left, right]),
            Counting::Cast { of, .. } => open.push(of),
            Counting::Literal(_) | Counting::Constant(_) | Counting::Zero | Counting::Other => {}
        }
    }
    found
}

/// What is computed somewhere in `block`.
fn emitted(block: &Block, found: &mut HashSet<Handle<Expression>>) {
    for statement in block {
        if let Statement::Emit(range) = statement {
            found.extend(range.clone());
        }
        children(statement, &mut |child| emitted(child, found));
    }
}

/// A value of an expression of counters, in its own type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Number {
    I32(i32),
    U32(u32),
    Bool(bool),
}

impl Number {
    fn of(literal: Literal) -> Option<Number> {
        match literal {
            Literal::I32(value) => Some(Number::I32(value)),
            Literal::U32(value) => Some(Number::U32(value)),
            Literal::Bool(value) => Some(Number::Bool(value)),
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

    /// The bits of a counter of type `scalar`; `None` for another type.
    fn bits(self, scalar: Scalar) -> Option<u32> {
        match self {
            Number::I32(value) if scalar == Scalar::I32 => Some(value as u32),
            Number::U32(value) if scalar == Scalar::U32 => Some(value),
            Number::I32(_) | Number::U32(_) | Number::Bool(_) => None,
        }
    }

    fn cast(self, kind: ScalarKind) -> Option<Number> {
        let bits = match self {
            Number::I32(value) => value as u32,
            Number::U32(value) => value,
            Number::Bool(_) => return None,
        };
        match kind {
            ScalarKind::Sint => Some(Number::I32(bits as i32)),
            ScalarKind::Uint => Some(Number::U32(bits)),
            ScalarKind::Float | ScalarKind::Bool | ScalarKind::AbstractInt | ScalarKind::AbstractFloat => None,
        }
    }

    /// `self op other` as WGSL has it in their common type; `None` for what is not computed here.
    fn binary(self, op: BinaryOperator, other: Number) -> Option<Number> {
        use BinaryOperator as Op;
        match (self, other) {
            (Number::Bool(a), Number::Bool(b)) => match op {
                Op::LogicalAnd => Some(Number::Bool(a && b)),
                Op::LogicalOr => Some(Number::Bool(a || b)),
                _ => None,
            },
            (Number::I32(a), Number::U32(b)) if op == Op::ShiftLeft => Some(Number::I32(a.wrapping_shl(b))),
            (Number::I32(a), Number::U32(b)) if op == Op::ShiftRight => Some(Number::I32(a.wrapping_shr(b))),
            (Number::I32(a), Number::I32(b)) => compared(op, a, b).or_else(|| {
                Some(Number::I32(match op {
                    Op::Add => a.wrapping_add(b),
                    Op::Subtract => a.wrapping_sub(b),
                    Op::Multiply => a.wrapping_mul(b),
                    Op::Divide => a.checked_div(b)?,
                    Op::Modulo => a.checked_rem(b)?,
                    Op::And => a & b,
                    Op::InclusiveOr => a | b,
                    Op::ExclusiveOr => a ^ b,
                    _ => return None,
                }))
            }),
            (Number::U32(a), Number::U32(b)) => compared(op, a, b).or_else(|| {
                Some(Number::U32(match op {
                    Op::Add => a.wrapping_add(b),
                    Op::Subtract => a.wrapping_sub(b),
                    Op::Multiply => a.wrapping_mul(b),
                    Op::Divide => a.checked_div(b)?,
                    Op::Modulo => a.checked_rem(b)?,
                    Op::ShiftLeft => a.wrapping_shl(b),
                    Op::ShiftRight => a.wrapping_shr(b),
                    Op::And => a & b,
                    Op::InclusiveOr => a | b,
                    Op::ExclusiveOr => a ^ b,
                    _ => return None,
                }))
            }),
            _ => None,
        }
    }
}

/// A comparison; `None` for another operator.
fn compared<T: PartialOrd>(op: BinaryOperator, a: T, b: T) -> Option<Number> {
    Some(Number::Bool(match op {
        BinaryOperator::Equal => a == b,
        BinaryOperator::NotEqual => a != b,
        BinaryOperator::Less => a < b,
        BinaryOperator::LessEqual => a <= b,
        BinaryOperator::Greater => a > b,
        BinaryOperator::GreaterEqual => a >= b,
        _ => return None,
    }))
}

/// Integer expressions of one counter.
struct Evaluator<'a> {
    module: &'a Module,
    function: &'a Function,
    counter: Handle<LocalVariable>,
    /// What it is in this round.
    value: Option<Number>,
    /// What each round computes anew: a `let` before the loop keeps the value that it had.
    inside: &'a HashSet<Handle<Expression>>,
    scalar: Scalar,
    steps: u32,
}

impl Evaluator<'_> {
    /// The value of `expression`; `None` where it is not known.
    fn value(&mut self, expression: Handle<Expression>) -> Option<Number> {
        // Expressions share operands, so a short chain may have very many paths.
        self.steps += 1;
        if self.steps > MAX_STEPS {
            return None;
        }
        match counting(&self.function.expressions[expression]) {
            Counting::Literal(literal) => Number::of(literal),
            Counting::Constant(constant) => {
                match counting(&self.module.global_expressions[self.module.constants[constant].init]) {
                    Counting::Literal(literal) => Number::of(literal),
                    Counting::Zero => self.zero(),
                    Counting::Constant(_)
                    | Counting::Load(_)
                    | Counting::Cast { .. }
                    | Counting::Binary { .. }
                    | Counting::Other => None,
                }
            }
            Counting::Zero => self.zero(),
            Counting::Load(pointer) => {
                let known = local(self.function, pointer)? == self.counter && self.inside.contains(&expression);
                self.value.filter(|_| known)
            }
            Counting::Cast { of, kind, convert: Some(4) } => self.value(of)?.cast(kind),
            Counting::Binary { op, left, right } => {
                let (a, b) = (self.value(left)?, self.value(right)?);
                a.binary(op, b)
            }
            Counting::Cast { .. } | Counting::Other => None,
        }
    }

    /// A zero of the counter's type, which any other type refuses to be combined with.
    fn zero(&self) -> Option<Number> {
        Number::U32(0).cast(self.scalar.kind)
    }
}
