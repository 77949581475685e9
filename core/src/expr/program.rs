//! Compiled expressions: [`Program`], and how an [`Expr`] becomes one.
//!
//! Two walks over the tree: the first finds the dtype of each node (constants take what they meet: `expr/number.rs`), the second
//! writes the steps. Both remember nodes by address, so a shared subtree is visited once and becomes one step.
//!
//! Arithmetic in floats of 8 and 16 bits is rounded where the program ends or casts. What is only chosen there is not: where, the
//! larger, the smaller, magnitudes and changes of sign keep an infinite f8e5m2, which rounding would clip. Where choices
//! meet arithmetic, the arithmetic is rounded before the choice ([`Program::is_rounded`]).

use std::cmp::Ordering;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::number::{self, Comparison};
use super::{Expr, Kind, MAX_INPUTS, MAX_OPERANDS, MAX_STEPS, Node};
use crate::{BinaryFn, CompareFn, DType, Error, Result, Scalar, UnaryFn};

/// Number of a step within its program.
pub type StepId = u16;

/// One step of a compiled expression; operands are earlier steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// The element of input number `.0`.
    Input(u8),
    /// Constant number `.0` of [`Program::constants`].
    Constant(u16),
    /// The row-major position of the element in the result.
    Index,
    /// A function of one step.
    Unary(UnaryFn, StepId),
    /// A function of two steps.
    Binary(BinaryFn, StepId, StepId),
    /// A comparison of two steps; its dtype is bool.
    Compare(CompareFn, StepId, StepId),
    /// Step `.1` where step `.0` is true, else step `.2`.
    Select(StepId, StepId, StepId),
    /// Step `.0` converted to this step's dtype.
    Cast(StepId),
    /// 32 random bits for the element's position, of four u32 ([`Expr::random`]): seed low, seed high, stream low, stream high.
    Random([StepId; 4]),
}

impl Step {
    /// Whether its value follows from where the element stands in the result, and not from its operands alone.
    pub fn depends_on_position(self) -> bool {
        matches!(self, Step::Index | Step::Random(_))
    }
}

/// Some steps of a program, which takes no memory of its own: every elementwise call makes one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct StepSet([u64; MAX_STEPS.div_ceil(64)]);

impl StepSet {
    /// Of these steps.
    pub fn of(steps: impl IntoIterator<Item = StepId>) -> StepSet {
        let mut set = StepSet::default();
        steps.into_iter().for_each(|id| set.set(id, true));
        set
    }

    /// Whether step `id` is among them.
    pub fn has(&self, id: StepId) -> bool {
        self.0.get(usize::from(id) / 64).is_some_and(|word| word >> (id % 64) & 1 == 1)
    }

    fn set(&mut self, id: StepId, whether: bool) {
        if let Some(word) = self.0.get_mut(usize::from(id) / 64) {
            let bit = 1 << (id % 64);
            *word = if whether { *word | bit } else { *word & !bit };
        }
    }
}

/// Compiled expressions: typed steps in order of evaluation. Of one expression the last step is the result; several are compiled
/// together so that what they share is computed once.
#[derive(Clone, Debug, Default)]
pub struct Program {
    steps: Vec<(Step, DType)>,
    constants: Vec<Scalar>,
    /// Per step: see [`Program::is_rounded`].
    rounded: StepSet,
    /// The results in order; none where the last step is the only one.
    results: Vec<StepId>,
}

impl PartialEq for Program {
    fn eq(&self, other: &Program) -> bool {
        let bits = |program| Program::constants(program).iter().map(|constant| constant.bits());
        // What is rounded follows from the expression, not from the steps alone.
        self.steps == other.steps
            && self.rounded == other.rounded
            && self.results == other.results
            && bits(self).eq(bits(other))
    }
}

impl Eq for Program {}

impl Hash for Program {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let Program { steps, constants, rounded, results } = self;
        steps.hash(state);
        results.hash(state);
        rounded.hash(state);
        constants.iter().for_each(|constant| constant.bits().hash(state));
    }
}

impl Program {
    /// Types and flattens `expr` for inputs of the given dtypes. A constant that meets no typed operand becomes f32
    /// (or i32 when it is an integer).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an input that is not there, too many inputs or steps; [`Error::DTypeMismatch`]
    /// where two operands differ in dtype; [`Error::UndefinedForDType`] where a function has no meaning;
    /// [`Error::NumberOutOfRange`] for a constant that the dtype it meets cannot hold.
    pub fn compile(expr: &Expr, inputs: &[DType]) -> Result<Program> {
        if inputs.len() > MAX_INPUTS {
            return Err(invalid(format!("{} inputs, at most {MAX_INPUTS} fit one kernel", inputs.len())));
        }
        let mut compiler = Compiler::new(inputs);
        compiler.result(expr)?;
        Ok(compiler.program)
    }

    /// The same of several expressions over the same inputs, a result of each; what they share is computed once.
    ///
    /// # Errors
    /// As [`Program::compile`]; [`Error::InvalidArgument`] for no expression, and for more inputs and results than [`MAX_OPERANDS`].
    pub fn compile_all(exprs: &[Expr], inputs: &[DType]) -> Result<Program> {
        if exprs.is_empty() {
            return Err(invalid("there is none".to_owned()));
        }
        if inputs.len() > MAX_OPERANDS || exprs.len() > MAX_OPERANDS {
            let reason = format!("{} inputs and {} results, of each at most {MAX_OPERANDS}", inputs.len(), exprs.len());
            return Err(invalid(reason));
        }
        let mut compiler = Compiler::new(inputs);
        let results = exprs.iter().map(|expr| compiler.result(expr)).collect::<Result<Vec<StepId>>>()?;
        let last = compiler.program.steps.len().saturating_sub(1);
        if results.len() > 1 || results.iter().any(|&id| usize::from(id) != last) {
            compiler.program.results = results;
        }
        Ok(compiler.program)
    }

    /// The steps with the dtype of each, in order of evaluation.
    pub fn steps(&self) -> &[(Step, DType)] {
        &self.steps
    }

    /// Whether step `id` gives a number of its dtype as it is. Arithmetic in floats of 8 and 16 bits does not, and numbers and
    /// positions beside it do not: it is rounded where the program ends or casts. What is rounded already must stay as it is,
    /// an infinite f8e5m2 too.
    pub fn is_rounded(&self, id: StepId) -> bool {
        self.rounded.has(id)
    }

    /// All steps for which [`Program::is_rounded`] is true.
    pub fn rounded(&self) -> StepSet {
        self.rounded
    }

    /// [`Program::is_rounded`] of the first result.
    pub fn is_result_rounded(&self) -> bool {
        !self.steps.is_empty() && self.rounded.has(self.result(0))
    }

    /// How many results there are: one or more.
    pub fn result_count(&self) -> usize {
        self.results.len().max(1)
    }

    /// The step that gives result number `number`.
    pub fn result(&self, number: usize) -> StepId {
        let last = self.steps.len().saturating_sub(1) as StepId;
        self.results.get(number).copied().unwrap_or(last)
    }

    /// The steps that give the results, in their order.
    pub fn results(&self) -> impl Iterator<Item = StepId> + '_ {
        (0..self.result_count()).map(|number| self.result(number))
    }

    /// The same over the inputs alone that are read, and their numbers before.
    pub fn compact(mut self) -> (Program, Vec<usize>) {
        let mut used: Vec<usize> = Vec::new();
        for (step, _) in &mut self.steps {
            if let Step::Input(n) = step {
                let number = usize::from(*n);
                let at = used.iter().position(|&known| known == number).unwrap_or(used.len());
                if at == used.len() {
                    used.push(number);
                }
                *n = at as u8;
            }
        }
        (self, used)
    }

    /// The constants, numbers of the types that the steps are computed in; [`Step::Constant`] numbers them.
    pub fn constants(&self) -> &[Scalar] {
        &self.constants
    }

    /// The dtype of the first result.
    pub fn dtype(&self) -> DType {
        self.result_dtype(0)
    }

    /// The dtype of result number `number`.
    pub fn result_dtype(&self, number: usize) -> DType {
        self.steps.get(usize::from(self.result(number))).map_or(DType::F32, |step| step.1)
    }

    /// Whether any step's value follows from where the element stands ([`Step::depends_on_position`]).
    pub fn depends_on_position(&self) -> bool {
        self.steps.iter().any(|(step, _)| step.depends_on_position())
    }

    /// Arithmetic steps per element: what [`crate::Cost`] counts as operations. Random bits are 15, a quarter of a block of four words:
    /// ten rounds of two multiplications and four exclusive ors.
    pub fn operations(&self) -> u64 {
        let operations = |step: &Step| match step {
            Step::Input(_) | Step::Constant(_) | Step::Index => 0,
            Step::Random(_) => 15,
            Step::Unary(..) | Step::Binary(..) | Step::Compare(..) | Step::Select(..) | Step::Cast(_) => 1,
        };
        self.steps.iter().map(|(step, _)| operations(step)).sum()
    }
}

struct Compiler<'a> {
    inputs: &'a [DType],
    program: Program,
    /// Dtypes already inferred and nodes already lowered, by address: a shared subtree is visited once and becomes
    /// one step.
    inferred: Seen<*const Node, Option<DType>>,
    done: Seen<(*const Node, DType), StepId>,
    /// The same for nodes that are lowered by [`Compiler::chosen`].
    chosen: Seen<(*const Node, DType), StepId>,
    /// The same for [`Compiler::literal`].
    literals: Seen<(*const Node, DType), StepId>,
}

/// A map that is a list while it is short: most expressions are one step, compiled at every call, and hashing and
/// allocating would cost them more than everything else in here.
struct Seen<K, V> {
    few: [Option<(K, V)>; FEW],
    many: HashMap<K, V>,
}

/// Entries up to which a list is quicker.
const FEW: usize = 8;

impl<K: Copy, V: Copy> Default for Seen<K, V> {
    fn default() -> Seen<K, V> {
        Seen { few: [None; FEW], many: HashMap::new() }
    }
}

impl<K: Copy + Eq + Hash, V: Copy> Seen<K, V> {
    fn get(&self, key: K) -> Option<V> {
        let few = self.few.iter().map_while(|entry| *entry).find(|(known, _)| *known == key);
        match few {
            Some((_, value)) => Some(value),
            None if self.many.is_empty() => None,
            None => self.many.get(&key).copied(),
        }
    }

    fn insert(&mut self, key: K, value: V) {
        match self.few.iter_mut().find(|entry| entry.is_none()) {
            Some(entry) => *entry = Some((key, value)),
            None => {
                self.many.insert(key, value);
            }
        }
    }
}

impl<'a> Compiler<'a> {
    fn new(inputs: &'a [DType]) -> Compiler<'a> {
        Compiler {
            inputs,
            program: Program::default(),
            inferred: Seen::default(),
            done: Seen::default(),
            chosen: Seen::default(),
            literals: Seen::default(),
        }
    }

    /// Writes the steps of a whole expression; the one that gives its value.
    fn result(&mut self, expr: &Expr) -> Result<StepId> {
        let dtype = self.infer(expr)?.unwrap_or(expr.0.fallback);
        self.chosen(expr, dtype)
    }

    /// The dtype a node has by itself; `None` for constants and the index, which take what they meet.
    fn infer(&mut self, expr: &Expr) -> Result<Option<DType>> {
        let key = Arc::as_ptr(&expr.0);
        if let Some(dtype) = self.inferred.get(key) {
            return Ok(dtype);
        }
        let dtype = self.infer_node(&expr.0.kind)?;
        self.inferred.insert(key, dtype);
        Ok(dtype)
    }

    fn infer_node(&mut self, kind: &Kind) -> Result<Option<DType>> {
        match kind {
            Kind::Input(i) => match self.inputs.get(*i) {
                Some(&dtype) => Ok(Some(dtype)),
                None => Err(invalid(format!(
                    "uses input {i}, but only {} of them are given (the first is 0)",
                    self.inputs.len()
                ))),
            },
            Kind::Constant(_) | Kind::Index => Ok(None),
            Kind::Unary(_, x) => self.infer(x),
            Kind::Binary(f, a, b) => self.unify(f.name(), a, b),
            Kind::Compare(..) => Ok(Some(DType::Bool)),
            Kind::Select(_, yes, no) => self.unify("where", yes, no),
            Kind::Cast(dtype, _) => Ok(Some(*dtype)),
            Kind::Random(_) => Ok(Some(DType::U32)),
            Kind::TooDeep => Err(invalid(format!("nested deeper than {MAX_STEPS} steps; split it"))),
        }
    }

    fn unify(&mut self, op: &'static str, a: &Expr, b: &Expr) -> Result<Option<DType>> {
        match (self.infer(a)?, self.infer(b)?) {
            (Some(expected), Some(got)) if expected != got => Err(Error::DTypeMismatch { op, expected, got }),
            (Some(dtype), _) | (None, Some(dtype)) => Ok(Some(dtype)),
            (None, None) => Ok(None),
        }
    }

    /// Emits the node as dtype `want`, which `infer` has already agreed to.
    fn lower(&mut self, expr: &Expr, want: DType) -> Result<StepId> {
        let key = (Arc::as_ptr(&expr.0), want);
        if let Some(id) = self.done.get(key) {
            return Ok(id);
        }
        let id = self.lower_node(&expr.0.kind, want)?;
        self.done.insert(key, id);
        Ok(id)
    }

    fn lower_node(&mut self, kind: &Kind, want: DType) -> Result<StepId> {
        let step = match kind {
            Kind::Input(i) => Step::Input(*i as u8),
            Kind::Constant(value) => return self.constant(number::operand("constant", want, *value)?, want),
            Kind::Index => Step::Index,
            Kind::Unary(f, x) => {
                defined(f.name(), f.defined_for(want), want)?;
                Step::Unary(*f, self.operand(f.name(), x, want)?)
            }
            Kind::Binary(f, a, b) => {
                defined(f.name(), f.defined_for(want), want)?;
                check_clamp(*f, a, b, want)?;
                let [a, b] = [a, b].map(|x| match (f.chooses(), &x.0.kind) {
                    (true, Kind::Constant(value)) => self.constant(number::extremum(*f, want, *value)?, want),
                    _ => self.operand(f.name(), x, want),
                });
                Step::Binary(*f, a?, b?)
            }
            Kind::Compare(f, a, b) => return self.compare(*f, a, b),
            Kind::Select(cond, yes, no) => {
                let cond = self.condition(cond)?;
                Step::Select(cond, self.operand("where", yes, want)?, self.operand("where", no, want)?)
            }
            Kind::Cast(_, x) => return self.cast(x, want),
            Kind::Random([a, b, c, d]) => Step::Random([self.word(a)?, self.word(b)?, self.word(c)?, self.word(d)?]),
            Kind::TooDeep => return Err(invalid(format!("nested deeper than {MAX_STEPS} steps; split it"))),
        };
        self.push(step, want)
    }

    /// The same for what a program or the operand of a cast ends with: choices of numbers of `want` are such numbers, where
    /// rounding would clip infinities.
    fn chosen(&mut self, expr: &Expr, want: DType) -> Result<StepId> {
        if want != DType::F8E5M2 {
            return self.lower(expr, want);
        }
        let key = (Arc::as_ptr(&expr.0), want);
        if let Some(id) = self.chosen.get(key) {
            return Ok(id);
        }
        let id = self.chosen_node(expr, want)?;
        self.chosen.insert(key, id);
        Ok(id)
    }

    fn chosen_node(&mut self, expr: &Expr, want: DType) -> Result<StepId> {
        match &expr.0.kind {
            Kind::Constant(value) => {
                number::operand("constant", want, *value)?;
                self.rounded_constant(*value, want)
            }
            // The sign of a sum that is not rounded yet is a number of every dtype.
            Kind::Unary(f @ UnaryFn::Sign, x) => {
                let x = self.lower(x, want)?;
                self.choice(Step::Unary(*f, x), [], want)
            }
            Kind::Unary(f @ (UnaryFn::Abs | UnaryFn::Neg | UnaryFn::Relu), x) => {
                let x = self.chosen(x, want)?;
                self.choice(Step::Unary(*f, x), [x], want)
            }
            // Not of sums: rounding them first could reach the next whole number.
            Kind::Unary(f, x) if f.chooses() && !x.0.is_arithmetic => {
                let x = self.chosen(x, want)?;
                self.choice(Step::Unary(*f, x), [x], want)
            }
            Kind::Binary(f, a, b) if f.chooses() => {
                let [a, b] = [a, b].map(|x| match &x.0.kind {
                    Kind::Constant(value) => self.rounded_constant(*value, want),
                    _ => self.chosen(x, want),
                });
                let [a, b] = self.rounded_alike([a?, b?], want)?;
                self.choice(Step::Binary(*f, a, b), [a, b], want)
            }
            Kind::Select(cond, yes, no) => {
                let cond = self.condition(cond)?;
                let [yes, no] = [self.chosen(yes, want)?, self.chosen(no, want)?];
                let [yes, no] = self.rounded_alike([yes, no], want)?;
                self.choice(Step::Select(cond, yes, no), [yes, no], want)
            }
            Kind::Input(_) | Kind::Index | Kind::Unary(..) | Kind::Binary(..) => self.lower(expr, want),
            Kind::Compare(..) | Kind::Cast(..) | Kind::Random(_) | Kind::TooDeep => self.lower(expr, want),
        }
    }

    /// Where only one of two is a number of `want`, the other is rounded, too.
    fn rounded_alike(&mut self, two: [StepId; 2], want: DType) -> Result<[StepId; 2]> {
        let [a, b] = two;
        match two.map(|id| self.program.is_rounded(id)) {
            [true, false] => Ok([a, self.push(Step::Cast(b), want)?]),
            [false, true] => Ok([self.push(Step::Cast(a), want)?, b]),
            _ => Ok(two),
        }
    }

    /// A step that gives a number of `want` where each of `from` is one.
    fn choice<const N: usize>(&mut self, step: Step, from: [StepId; N], want: DType) -> Result<StepId> {
        let id = self.push(step, want)?;
        let all = from.iter().all(|&x| self.program.is_rounded(x));
        self.program.rounded.set(id, all);
        Ok(id)
    }

    /// An operand of `op`: its name is for the refusal of a number.
    fn operand(&mut self, op: &'static str, expr: &Expr, want: DType) -> Result<StepId> {
        if let Kind::Constant(value) = &expr.0.kind {
            number::operand(op, want, *value)?;
        }
        self.lower(expr, want)
    }

    /// A word of a key of random numbers.
    fn word(&mut self, expr: &Expr) -> Result<StepId> {
        let got = self.infer(expr)?.unwrap_or(DType::U32);
        if got != DType::U32 {
            return Err(Error::DTypeMismatch { op: "random", expected: DType::U32, got });
        }
        self.operand("random", expr, DType::U32)
    }

    fn condition(&mut self, expr: &Expr) -> Result<StepId> {
        let got = self.infer(expr)?.unwrap_or(DType::Bool);
        if got != DType::Bool {
            return Err(Error::DTypeMismatch { op: "where", expected: DType::Bool, got });
        }
        self.operand("where", expr, DType::Bool)
    }

    fn compare(&mut self, f: CompareFn, a: &Expr, b: &Expr) -> Result<StepId> {
        let together = match (&a.0.kind, &b.0.kind) {
            // A number has no say.
            (_, Kind::Constant(_)) => a.0.fallback,
            (Kind::Constant(_), _) => b.0.fallback,
            _ if a.0.fallback == b.0.fallback => a.0.fallback,
            _ => DType::F32,
        };
        let dtype = self.unify(f.name(), a, b)?.unwrap_or(together);
        defined(f.name(), f.defined_for(dtype), dtype)?;
        let (x, f, value) = match (&a.0.kind, &b.0.kind) {
            (Kind::Constant(a), Kind::Constant(b)) => {
                return self.constant(Scalar::from(f.of(number::compared(*a, *b))), DType::Bool);
            }
            (_, Kind::Constant(value)) => (a, f, *value),
            (Kind::Constant(value), _) => (b, f.swapped(), *value),
            _ => {
                let step = Step::Compare(f, self.lower(a, dtype)?, self.lower(b, dtype)?);
                return self.push(step, DType::Bool);
            }
        };
        match number::comparison(f, dtype, value) {
            Comparison::Always(answer) => self.constant(Scalar::from(answer), DType::Bool),
            Comparison::With(f, value) => {
                let x = self.lower(x, dtype)?;
                let value = self.constant(value, dtype)?;
                self.push(Step::Compare(f, x, value), DType::Bool)
            }
        }
    }

    fn cast(&mut self, x: &Expr, to: DType) -> Result<StepId> {
        // What has no dtype of its own has its value whole in the one it is cast to, without a detour through f32 or i32.
        if x.0.is_literal {
            return self.literal(x, to);
        }
        let from = self.infer(x)?.unwrap_or(x.0.fallback);
        let x = self.chosen(x, from)?;
        if from == to && self.program.is_rounded(x) { Ok(x) } else { self.push(Step::Cast(x), to) }
    }

    /// A constant, the position, or a choice of such, converted to `to`.
    fn literal(&mut self, expr: &Expr, to: DType) -> Result<StepId> {
        let key = (Arc::as_ptr(&expr.0), to);
        if let Some(id) = self.literals.get(key) {
            return Ok(id);
        }
        let id = match &expr.0.kind {
            Kind::Constant(value) => self.rounded_constant(*value, to)?,
            Kind::Select(cond, yes, no) => {
                let cond = self.condition(cond)?;
                let [yes, no] = [self.literal(yes, to)?, self.literal(no, to)?];
                self.choice(Step::Select(cond, yes, no), [yes, no], to)?
            }
            _ => self.lower(expr, to)?,
        };
        self.literals.insert(key, id);
        Ok(id)
    }

    /// A number that the step's compute type holds.
    fn constant(&mut self, value: Scalar, dtype: DType) -> Result<StepId> {
        self.program.constants.push(value);
        self.push(Step::Constant((self.program.constants.len() - 1) as u16), dtype)
    }

    /// A number converted to `dtype`.
    fn rounded_constant(&mut self, value: Scalar, dtype: DType) -> Result<StepId> {
        let id = self.constant(value.kept_in(dtype), dtype)?;
        self.program.rounded.set(id, true);
        Ok(id)
    }

    fn push(&mut self, step: Step, dtype: DType) -> Result<StepId> {
        if self.program.steps.len() >= MAX_STEPS {
            return Err(invalid(format!("more than {MAX_STEPS} steps; split it")));
        }
        let id = self.program.steps.len() as StepId;
        self.program.steps.push((step, dtype));
        self.program.rounded.set(id, !dtype.is_narrow_float() || matches!(step, Step::Input(_) | Step::Cast(_)));
        Ok(id)
    }
}

/// A clamp to a range in which there is no value of `dtype` has no answer.
fn check_clamp(f: BinaryFn, a: &Expr, b: &Expr, dtype: DType) -> Result<()> {
    let Kind::Constant(high) = &b.0.kind else { return Ok(()) };
    let Kind::Binary(BinaryFn::Max, _, low) = &a.0.kind else { return Ok(()) };
    let Kind::Constant(low) = &low.0.kind else { return Ok(()) };
    let is_range = number::compared(*low, *high).is_some_and(Ordering::is_le);
    if f == BinaryFn::Min && !dtype.is_float() && is_range && number::is_empty_range(dtype, *low, *high) {
        return Err(Error::InvalidArgument {
            what: "clamp range",
            reason: format!("no {dtype} lies in {low}..={high}"),
        });
    }
    Ok(())
}

fn defined(op: &'static str, is_defined: bool, dtype: DType) -> Result<()> {
    if is_defined { Ok(()) } else { Err(Error::UndefinedForDType { op, dtype }) }
}

fn invalid(reason: String) -> Error {
    Error::InvalidArgument { what: "expression", reason }
}
