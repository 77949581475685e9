//! How many rounds the loops of a kernel make, as far as its text alone tells: for drivers that end loops after so many.
//!
//! A loop's rounds are known where one variable counts from a number to a number in steps of a number, nothing else changes it, and
//! nothing leaves the loop early. That is what `for (var i = 0u; i < 100u; i++)` says. Everything else is unknown, and so is
//! what a branch may or may not do. Nothing here runs a shader.

use std::collections::HashMap;

use naga::{
    BinaryOperator, Block, Expression, Function, Handle, Literal, LocalVariable, Module, Span, Statement, SwitchCase,
};

/// The rounds of all loops of an invocation.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LoopRounds {
    /// Those that every invocation makes that does not return before; the round that finds a loop at its end counts.
    pub certain: u64,
    /// The longest loop among those, with its place.
    pub longest: Option<(u64, Span)>,
    /// The first loop whose rounds the text does not tell, or that may run or not.
    pub unknown: Option<Span>,
}

/// The rounds of the loops of entry point number `entry`, and of the functions that it calls. Recurses as deeply as the text is nested:
/// for modules that were read with a limit to that.
pub fn of_entry(module: &Module, entry: usize) -> LoopRounds {
    let mut known: HashMap<Handle<Function>, LoopRounds> = HashMap::new();
    // Functions stand behind those that they call.
    for (handle, function) in module.functions.iter() {
        let found = Reader { module, function, known: &known }.block(&function.body, &Before::NOTHING);
        known.insert(handle, found);
    }
    let Some(entry) = module.entry_points.get(entry) else { return LoopRounds::default() };
    Reader { module, function: &entry.function, known: &known }.block(&entry.function.body, &Before::NOTHING)
}

impl LoopRounds {
    fn then(self, next: LoopRounds) -> LoopRounds {
        let longer = |a: Option<(u64, Span)>, b: Option<(u64, Span)>| match (a, b) {
            (Some(a), Some(b)) => Some(if b.0 > a.0 { b } else { a }),
            (a, b) => a.or(b),
        };
        LoopRounds {
            certain: self.certain.saturating_add(next.certain),
            longest: longer(self.longest, next.longest),
            unknown: self.unknown.or(next.unknown),
        }
    }

    /// What is left to say of loops that may run or not.
    fn perhaps(self) -> LoopRounds {
        LoopRounds { certain: 0, longest: None, unknown: self.unknown.or(self.longest.map(|(_, span)| span)) }
    }
}

/// A function that is read.
struct Reader<'a> {
    module: &'a Module,
    function: &'a Function,
    known: &'a HashMap<Handle<Function>, LoopRounds>,
}

/// How many statements before a loop are looked through for what its variable starts with.
const MOST_BEFORE: usize = 1000;

/// What runs before a statement: in its block, and before that; up to the round of the innermost loop, or to the function.
#[derive(Clone, Copy)]
struct Before<'a> {
    statements: &'a [Statement],
    outer: Option<&'a Before<'a>>,
    in_loop: bool,
}

impl<'a> Before<'a> {
    const NOTHING: Before<'static> = Before { statements: &[], outer: None, in_loop: false };
    const IN_LOOP: Before<'static> = Before { statements: &[], outer: None, in_loop: true };

    /// Latest first.
    fn backwards(&self) -> impl Iterator<Item = &'a Statement> + use<'a> {
        let outer = std::iter::successors(self.outer, |before| before.outer);
        self.statements.iter().rev().chain(outer.flat_map(|before| before.statements.iter().rev()))
    }
}

/// A loop's way of counting.
struct Counter {
    variable: Handle<LocalVariable>,
    step: i128,
}

impl Reader<'_> {
    /// The rounds of `block`; `before` are the statements that run before it.
    fn block(&self, block: &Block, before: &Before<'_>) -> LoopRounds {
        let mut total = LoopRounds::default();
        for (index, (statement, &span)) in block.span_iter().enumerate() {
            let earlier = Before { statements: &block[..index], outer: Some(before), in_loop: before.in_loop };
            let found = match statement {
                Statement::Block(inner) => self.block(inner, &earlier),
                Statement::Call { function, .. } => self.known.get(function).copied().unwrap_or_default(),
                Statement::If { accept, reject, .. } => {
                    self.block(accept, &earlier).perhaps().then(self.block(reject, &earlier).perhaps())
                }
                Statement::Switch { cases, .. } => {
                    let of = |case: &SwitchCase| self.block(&case.body, &earlier).perhaps();
                    cases.iter().map(of).fold(LoopRounds::default(), LoopRounds::then)
                }
                Statement::Loop { body, continuing, break_if } => {
                    let inner = self.block(body, &Before::IN_LOOP).then(self.block(continuing, &Before::IN_LOOP));
                    match self.rounds(body, continuing, break_if.is_some(), &earlier) {
                        Some(rounds) => {
                            let certain = rounds.saturating_mul(inner.certain.saturating_add(1)).saturating_add(1);
                            LoopRounds { certain, longest: Some((certain, span)), unknown: inner.unknown }
                        }
                        None => LoopRounds { unknown: Some(span), ..LoopRounds::default() },
                    }
                }
                _ => LoopRounds::default(),
            };
            total = total.then(found);
            if ends(statement) {
                break;
            }
        }
        total
    }

    /// The rounds of a loop, where they are known.
    fn rounds(&self, body: &Block, continuing: &Block, breaks: bool, before: &Before<'_>) -> Option<u64> {
        // What naga makes of `for`: the condition first, and nothing but it leaves the loop.
        let (condition, rest) = first_test(body)?;
        if breaks || rest.iter().any(|statement| leaves(statement, Within::Loop)) {
            return None;
        }
        let Expression::Binary { op, left, right } = self.function.expressions[condition] else { return None };
        let counter = self.counter(&flat(rest.iter().copied().chain(continuing.iter())))?;
        let (end, op) = match (self.is_load(left, counter.variable), self.is_load(right, counter.variable)) {
            (true, false) => (self.number(right)?, op),
            (false, true) => (self.number(left)?, turned(op)?),
            _ => return None,
        };
        let start = self.start(counter.variable, before)?;
        let distance = match (op, counter.step) {
            (BinaryOperator::Less, 1..) => end - start,
            (BinaryOperator::LessEqual, 1..) => end - start + 1,
            (BinaryOperator::Greater, ..=-1) => start - end,
            (BinaryOperator::GreaterEqual, ..=-1) => start - end + 1,
            (BinaryOperator::NotEqual, step) if step != 0 && (end - start) % step == 0 && (end - start) / step >= 0 => {
                (end - start).abs()
            }
            _ => return None,
        };
        let step = counter.step.unsigned_abs();
        Some(u64::try_from(distance).map_or(0, |distance| u128::from(distance).div_ceil(step) as u64))
    }

    /// The variable that the only store at this level changes by a number; nothing below it stores to that.
    fn counter(&self, statements: &[&Statement]) -> Option<Counter> {
        let mut found: Option<Counter> = None;
        for statement in statements {
            let Statement::Store { pointer, value } = statement else { continue };
            let Some(variable) = self.local(*pointer) else { continue };
            let Expression::Binary { op, left, right } = self.function.expressions[*value] else { continue };
            let step = match op {
                BinaryOperator::Add if self.is_load(left, variable) => self.number(right),
                BinaryOperator::Add if self.is_load(right, variable) => self.number(left),
                BinaryOperator::Subtract if self.is_load(left, variable) => self.number(right).map(|step| -step),
                _ => None,
            };
            let Some(step) = step else { continue };
            let stores = statements.iter().map(|statement| self.stores(statement, variable)).sum::<usize>();
            // Several variables may be counted; the condition says which one counts. The last is what `for` steps.
            if stores == 1 {
                found = Some(Counter { variable, step });
            }
        }
        found
    }

    /// How many stores to `variable` there may be in `statement`.
    fn stores(&self, statement: &Statement, variable: Handle<LocalVariable>) -> usize {
        // Two stand for more.
        let in_block = |block: &Block| {
            block.iter().map(|statement| self.stores(statement, variable)).fold(0, usize::saturating_add).min(2)
        };
        match statement {
            Statement::Store { pointer, .. } => usize::from(self.root(*pointer) == Some(variable)),
            Statement::Atomic { pointer, .. } => usize::from(self.root(*pointer) == Some(variable)),
            // By a pointer that it is given.
            Statement::Call { arguments, .. } => {
                2 * arguments.iter().filter(|&&argument| self.root(argument) == Some(variable)).count()
            }
            Statement::Block(block) => in_block(block),
            Statement::If { accept, reject, .. } => in_block(accept) + in_block(reject),
            Statement::Switch { cases, .. } => {
                cases.iter().map(|case| in_block(&case.body)).fold(0, usize::saturating_add)
            }
            // As many times as it likes.
            Statement::Loop { body, continuing, .. } => 2 * (in_block(body) + in_block(continuing)),
            _ => 0,
        }
    }

    /// What `variable` holds when a loop begins.
    fn start(&self, variable: Handle<LocalVariable>, before: &Before<'_>) -> Option<i128> {
        for (index, statement) in before.backwards().enumerate() {
            if index == MOST_BEFORE {
                return None;
            }
            match statement {
                Statement::Store { pointer, value } if self.local(*pointer) == Some(variable) => {
                    return self.number(*value);
                }
                other if self.stores(other, variable) > 0 => return None,
                _ => {}
            }
        }
        if before.in_loop {
            // What an earlier round left.
            return None;
        }
        // Without a value it starts as zero.
        self.function.local_variables[variable].init.map_or(Some(0), |init| self.number(init))
    }

    fn is_load(&self, expression: Handle<Expression>, variable: Handle<LocalVariable>) -> bool {
        matches!(self.function.expressions[expression], Expression::Load { pointer } if self.local(pointer) == Some(variable))
    }

    fn local(&self, pointer: Handle<Expression>) -> Option<Handle<LocalVariable>> {
        if let Expression::LocalVariable(variable) = self.function.expressions[pointer] { Some(variable) } else { None }
    }

    /// The variable that `pointer` points to or into.
    fn root(&self, pointer: Handle<Expression>) -> Option<Handle<LocalVariable>> {
        match self.function.expressions[pointer] {
            Expression::LocalVariable(variable) => Some(variable),
            Expression::Access { base, .. } | Expression::AccessIndex { base, .. } => self.root(base),
            _ => None,
        }
    }

    fn number(&self, expression: Handle<Expression>) -> Option<i128> {
        match self.function.expressions[expression] {
            Expression::Literal(literal) => whole(literal),
            Expression::Constant(constant) => {
                match self.module.global_expressions[self.module.constants[constant].init] {
                    Expression::Literal(literal) => whole(literal),
                    _ => None,
                }
            }
            _ => None,
        }
    }
}

/// `statements` with those of blocks among them, which run as well.
fn flat<'a>(statements: impl Iterator<Item = &'a Statement>) -> Vec<&'a Statement> {
    let inner = |statement: &'a Statement| match statement {
        Statement::Block(block) => flat(block.iter()),
        other => vec![other],
    };
    statements.flat_map(inner).collect()
}

/// The condition under which a loop goes on, and what follows it in the body.
fn first_test(body: &Block) -> Option<(Handle<Expression>, Vec<&Statement>)> {
    let mut statements = body.iter();
    loop {
        match statements.next()? {
            Statement::Emit(_) => {}
            Statement::If { condition, accept, reject } if accept.is_empty() => {
                let [Statement::Break] = reject.iter().collect::<Vec<_>>()[..] else { return None };
                return Some((*condition, statements.collect()));
            }
            _ => return None,
        }
    }
}

/// What a statement lies in, within a loop.
#[derive(Clone, Copy, PartialEq)]
enum Within {
    Loop,
    /// A loop or switch of its own, which a `break` leaves.
    Inner,
}

/// Whether `statement` may leave the loop that it lies in.
fn leaves(statement: &Statement, within: Within) -> bool {
    let in_block = |block: &Block, within| block.iter().any(|statement| leaves(statement, within));
    match statement {
        Statement::Return { .. } | Statement::Kill => true,
        Statement::Break => within == Within::Loop,
        Statement::Block(block) => in_block(block, within),
        Statement::If { accept, reject, .. } => in_block(accept, within) || in_block(reject, within),
        Statement::Switch { cases, .. } => cases.iter().any(|case| in_block(&case.body, Within::Inner)),
        Statement::Loop { body, continuing, .. } => {
            in_block(body, Within::Inner) || in_block(continuing, Within::Inner)
        }
        _ => false,
    }
}

/// Whether nothing behind `statement` in its block runs.
fn ends(statement: &Statement) -> bool {
    matches!(statement, Statement::Return { .. } | Statement::Kill | Statement::Break | Statement::Continue)
}

fn turned(op: BinaryOperator) -> Option<BinaryOperator> {
    Some(match op {
        BinaryOperator::Less => BinaryOperator::Greater,
        BinaryOperator::LessEqual => BinaryOperator::GreaterEqual,
        BinaryOperator::Greater => BinaryOperator::Less,
        BinaryOperator::GreaterEqual => BinaryOperator::LessEqual,
        BinaryOperator::NotEqual => BinaryOperator::NotEqual,
        _ => return None,
    })
}

fn whole(literal: Literal) -> Option<i128> {
    match literal {
        Literal::U32(value) => Some(value.into()),
        Literal::I32(value) => Some(value.into()),
        Literal::U64(value) => Some(value.into()),
        Literal::I64(value) | Literal::AbstractInt(value) => Some(value.into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rounds(body: &str) -> LoopRounds {
        let text = format!(
            "const N = 70000u;
            @group(0) @binding(0) var<storage, read_write> x: array<u32>;
            fn scan(n: u32) -> u32 {{ var s = 0u; for (var i = 0u; i < 10u; i++) {{ s += x[i] * n; }} return s; }}
            @compute @workgroup_size(1) fn main() {{ {body} }}"
        );
        of_entry(&naga::front::wgsl::parse_str(&text).unwrap(), 0)
    }

    #[test]
    fn loops_from_a_number_to_a_number_are_counted() {
        for (body, certain) in [
            ("for (var i = 0u; i < 100u; i++) { x[i] = i; }", 101),
            ("for (var i = 0u; i < N; i++) { x[i] = i; }", 70_001),
            ("for (var i = 5; i <= 14; i += 3) { x[i] = 1u; }", 5),
            ("for (var i = 100u; i > 0u; i -= 7u) { x[i] = 1u; }", 16),
            ("for (var i = 0u; 10u > i; i++) { x[i] = 1u; }", 11),
            ("for (var i = 0; i != -4; i--) { x[0] += 1u; }", 5),
            ("for (var i = 9u; i < 4u; i++) { x[0] += 1u; }", 1),
            ("var i = 0u; while i < 8u { x[i] = 2u; i++; }", 9),
            ("for (var i = 0u; i < 10u; i++) { for (var j = 0u; j < 20u; j++) { x[j] += i; } }", 221),
            ("for (var i = 0u; i < 10u; i++) { x[i] = scan(i); } x[9] = scan(2u);", 10 * 12 + 1 + 11),
            ("for (var i = 0u; i < 10u; i++) { if x[i] == 3u { continue; } x[i] = 1u; }", 11),
            ("x[0] = 1u;", 0),
        ] {
            let found = rounds(body);
            assert_eq!((found.certain, found.unknown.is_some()), (certain, false), "{body}");
        }
    }

    #[test]
    fn what_the_text_does_not_tell_is_unknown() {
        for body in [
            "for (var i = 0u; i < x[0]; i++) { x[i] = i; }",
            "for (var i = 0u; i < arrayLength(&x); i++) { x[i] = i; }",
            "for (var i = x[1]; i < 10u; i++) { x[i] = i; }",
            "for (var i = 0u; i < 10u; i += x[1]) { x[i] = i; }",
            "for (var i = 0u; i < 1000000u; i++) { if x[i] == 3u { break; } }",
            "for (var i = 0u; i < 1000000u; i++) { if x[i] == 3u { return; } }",
            "for (var i = 1u; i < 10u; i *= 2u) { x[i] = i; }",
            "for (var i = 0u; i < 10u; i++) { if x[i] == 3u { i = 0u; } }",
            "if x[0] == 1u { for (var i = 0u; i < 100u; i++) { x[i] = i; } }",
            "loop { x[0] += 1u; if x[0] > 9u { break; } }",
            "var j = 0u; for (var i = 0u; i < x[0]; i++) { for (; j < 10u; j++) { x[j] = i; } }",
            "var i = 0u; let p = &i; for (; i < 10u; i++) { *p = x[0]; }",
        ] {
            let found = rounds(body);
            assert_eq!((found.certain, found.unknown.is_some()), (0, true), "{body}");
        }
    }
}
