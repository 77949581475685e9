//! Compiled expressions: [`Program`], and how an [`Expr`] becomes one.
//!
//! Two walks over the tree: the first finds the dtype of each node (constants take what they meet), the second writes the
//! steps. Both remember nodes by address, so a shared subtree is visited once and becomes one step.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::Arc;

use super::{Expr, Kind, MAX_INPUTS, MAX_STEPS, Node};
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
}

impl Step {
    /// Whether the step gives a number of its dtype as it is. Arithmetic in floats of 8 and 16 bits does not: it is rounded
    /// where the program ends or casts, and so is the position.
    pub const fn is_rounded(&self) -> bool {
        match self {
            Step::Input(_) | Step::Constant(_) | Step::Cast(_) => true,
            Step::Index | Step::Unary(..) | Step::Binary(..) | Step::Compare(..) | Step::Select(..) => false,
        }
    }
}

/// A compiled expression: typed steps in order of evaluation; the last one is the result.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Program {
    steps: Vec<(Step, DType)>,
    constants: Vec<Scalar>,
}

impl Program {
    /// Types and flattens `expr` for inputs of the given dtypes. A constant that meets no typed operand becomes f32
    /// (or i32 when it is an integer).
    ///
    /// # Errors
    /// [`Error::InvalidArgument`] for an input that is not there, too many inputs or steps; [`Error::DTypeMismatch`]
    /// where two operands differ in dtype; [`Error::UndefinedForDType`] where a function has no meaning.
    pub fn compile(expr: &Expr, inputs: &[DType]) -> Result<Program> {
        if inputs.len() > MAX_INPUTS {
            return Err(invalid(format!("{} inputs, at most {MAX_INPUTS} fit one kernel", inputs.len())));
        }
        let mut compiler =
            Compiler { inputs, program: Program::default(), inferred: Seen::default(), done: Seen::default() };
        let dtype = compiler.infer(expr)?.unwrap_or(expr.0.fallback);
        compiler.lower(expr, dtype)?;
        Ok(compiler.program)
    }

    /// The steps with the dtype of each, in order of evaluation.
    pub fn steps(&self) -> &[(Step, DType)] {
        &self.steps
    }

    /// The constants; [`Step::Constant`] numbers them.
    pub fn constants(&self) -> &[Scalar] {
        &self.constants
    }

    /// The dtype of the result.
    pub fn dtype(&self) -> DType {
        self.steps.last().map_or(DType::F32, |s| s.1)
    }

    /// Arithmetic steps per element: what [`crate::Cost`] counts as operations.
    pub fn operations(&self) -> u64 {
        let leaf = |step: &Step| matches!(step, Step::Input(_) | Step::Constant(_) | Step::Index);
        self.steps.iter().filter(|(step, _)| !leaf(step)).count() as u64
    }
}

struct Compiler<'a> {
    inputs: &'a [DType],
    program: Program,
    /// Dtypes already inferred and nodes already lowered, by address: a shared subtree is visited once and becomes
    /// one step.
    inferred: Seen<*const Node, Option<DType>>,
    done: Seen<(*const Node, DType), StepId>,
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

impl Expr {
    /// Whether this is a constant, the position, or a choice between such: nothing that is computed in a dtype.
    fn is_literal(&self) -> bool {
        match &self.0.kind {
            Kind::Constant(_) | Kind::Index => true,
            Kind::Select(_, yes, no) => yes.is_literal() && no.is_literal(),
            Kind::Input(_)
            | Kind::Unary(..)
            | Kind::Binary(..)
            | Kind::Compare(..)
            | Kind::Cast(..)
            | Kind::TooDeep => false,
        }
    }
}

impl Compiler<'_> {
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
                None => Err(invalid(format!("uses input {i}, but {} were given", self.inputs.len()))),
            },
            Kind::Constant(_) | Kind::Index => Ok(None),
            Kind::Unary(_, x) => self.infer(x),
            Kind::Binary(f, a, b) => self.unify(f.name(), a, b),
            Kind::Compare(..) => Ok(Some(DType::Bool)),
            Kind::Select(_, yes, no) => self.unify("where", yes, no),
            Kind::Cast(dtype, _) => Ok(Some(*dtype)),
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
        let step = match &expr.0.kind {
            Kind::Input(i) => Step::Input(*i as u8),
            Kind::Constant(value) => {
                self.program.constants.push(value.cast(want));
                Step::Constant((self.program.constants.len() - 1) as u16)
            }
            Kind::Index => Step::Index,
            Kind::Unary(f, x) => {
                defined(f.name(), f.defined_for(want), want)?;
                Step::Unary(*f, self.lower(x, want)?)
            }
            Kind::Binary(f, a, b) => {
                defined(f.name(), f.defined_for(want), want)?;
                Step::Binary(*f, self.lower(a, want)?, self.lower(b, want)?)
            }
            Kind::Compare(f, a, b) => {
                let together = if a.0.fallback == b.0.fallback { a.0.fallback } else { DType::F32 };
                let dtype = self.unify(f.name(), a, b)?.unwrap_or(together);
                defined(f.name(), f.defined_for(dtype), dtype)?;
                Step::Compare(*f, self.lower(a, dtype)?, self.lower(b, dtype)?)
            }
            Kind::Select(cond, yes, no) => {
                let got = self.infer(cond)?.unwrap_or(DType::Bool);
                if got != DType::Bool {
                    return Err(Error::DTypeMismatch { op: "where", expected: DType::Bool, got });
                }
                Step::Select(self.lower(cond, DType::Bool)?, self.lower(yes, want)?, self.lower(no, want)?)
            }
            // What has no dtype of its own has its value whole in the one it is cast to, without a detour through f32 or i32.
            Kind::Cast(_, x) if x.is_literal() => {
                let id = self.lower(x, want)?;
                self.done.insert(key, id);
                return Ok(id);
            }
            Kind::Cast(_, x) => {
                let from = self.infer(x)?.unwrap_or(x.0.fallback);
                Step::Cast(self.lower(x, from)?)
            }
            Kind::TooDeep => return Err(invalid(format!("nested deeper than {MAX_STEPS} steps; split it"))),
        };
        if self.program.steps.len() >= MAX_STEPS {
            return Err(invalid(format!("more than {MAX_STEPS} steps; split it")));
        }
        self.program.steps.push((step, want));
        let id = (self.program.steps.len() - 1) as StepId;
        self.done.insert(key, id);
        Ok(id)
    }
}

fn defined(op: &'static str, is_defined: bool, dtype: DType) -> Result<()> {
    if is_defined { Ok(()) } else { Err(Error::UndefinedForDType { op, dtype }) }
}

fn invalid(reason: String) -> Error {
    Error::InvalidArgument { what: "expression", reason }
}
